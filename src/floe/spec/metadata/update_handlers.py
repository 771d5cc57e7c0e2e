"""One function for each kind of table update, which applies it to a `Draft`; `HANDLERS` maps updates to them.

A handler changes the draft or raises `InvalidUpdate`. An update that was created for an earlier state of the table,
such as a snapshot with a sequence number that is used already, raises `CommitConflict`: created again it can succeed.
Rules that only the result must satisfy are checked by `floe.spec.metadata.metadata_builder`.

Upgrading the format version changes nothing but the metadata file (spec: Appendix E): manifests and data files of
earlier versions stay valid, and what they lack has the default of the later version. There is no downgrade, because
earlier readers cannot read the files of later writers.

| to version | changes to the metadata |
|---|---|
| 2 | a UUID if it has none; sequence numbers, all 0 so far; a `main` ref if there is a current snapshot |
| 3 | `next-row-id`, which starts at 0; existing snapshots still have no row ids |
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from floe.errors import CommitConflict, InvalidInput, InvalidUpdate, UnsupportedFeature
from floe.spec.metadata.metadata_checks import CLOCK_SKEW_MS
from floe.spec.metadata.snapshots import MAIN_BRANCH, OPERATION, Snapshot, SnapshotRef
from floe.spec.metadata.table_metadata import LATEST_FORMAT_VERSION, SnapshotLogEntry, TableMetadata, check_uuid
from floe.spec.metadata.updates import (
    LAST_ADDED,
    AddEncryptionKey,
    AddPartitionSpec,
    AddSchema,
    AddSnapshot,
    AddSortOrder,
    AssignUuid,
    RemoveEncryptionKey,
    RemovePartitionSpecs,
    RemovePartitionStatistics,
    RemoveProperties,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetLocation,
    SetPartitionStatistics,
    SetProperties,
    SetSnapshotRef,
    SetStatistics,
    UpgradeFormatVersion,
)
from floe.spec.partitioning.partition_spec import UNPARTITIONED, PartitionSpec, check_spec
from floe.spec.partitioning.spec_evolution import align_field_ids
from floe.spec.partitioning.transforms import Void
from floe.spec.properties import (
    FORMAT_VERSION,
    stored_properties,
)
from floe.spec.schemas.schema import MAX_TABLE_FIELD_ID
from floe.spec.sort_order import UNSORTED, check_order

# Drafts ----------------------------------------------------------------------------------------------------------

NO_ID = -1
"""The id of the current schema, default spec or default sort order in a table that has none yet."""


@dataclass
class Draft:
    """Metadata to which some updates have been applied, with what they added and removed so far.

    `base` is the metadata before the updates, None for a table that is being created. `metadata` is never changed in
    place: `change` replaces it. `snapshots` has the snapshots by id, because there may be very many of them; `outcome`
    puts them into the metadata.
    """

    base: TableMetadata | None
    metadata: TableMetadata
    now_ms: int
    last_schema_id: int | None = None
    last_spec_id: int | None = None
    last_order_id: int | None = None
    added_snapshots: set[int] = field(default_factory=set)
    removed_snapshots: set[int] = field(default_factory=set)
    removed_schemas: set[int] = field(default_factory=set)
    removed_keys: set[str] = field(default_factory=set)
    set_properties: set[str] = field(default_factory=set)

    @cached_property
    def snapshots(self) -> dict[int, Snapshot]:
        """The snapshots by id, in the table's order; handlers change this dict."""
        return dict(self.metadata.snapshots_by_id)

    @cached_property
    def parent_ids(self) -> set[int | None]:
        """The parent ids of all snapshots that the table had before the updates or got by them."""
        return {snapshot.parent_snapshot_id for snapshot in self.snapshots.values()}

    def outcome(self) -> TableMetadata:
        """Return the metadata with its snapshots."""
        if self.added_snapshots or self.removed_snapshots:
            self.change(snapshots=tuple(self.snapshots.values()))
        return self.metadata

    def change(self, **fields: Any) -> None:
        """Replace the metadata by a copy with other values of some fields."""
        self.metadata = replace(self.metadata, **fields)


def blank_metadata(format_version: int, now_ms: int) -> TableMetadata:
    """The metadata that the updates of a new table are applied to: nothing but a format version."""
    return TableMetadata(
        format_version=format_version,
        table_uuid=None,
        location="",
        last_updated_ms=now_ms,
        last_column_id=0,
        schemas=(),
        current_schema_id=NO_ID,
        partition_specs=(),
        default_spec_id=NO_ID,
        sort_orders=(),
        default_sort_order_id=NO_ID,
        next_row_id=0 if format_version >= 3 else None,
    )


_MAX_LONG = 2**63 - 1

# Snapshots -------------------------------------------------------------------------------------------------------


def add_snapshot(draft: Draft, update: AddSnapshot) -> None:
    """Add a snapshot; its sequence number, and in v3 its row ids, must follow those of all others.

    Raises `CommitConflict` if the snapshot was created for an earlier state of the table.
    """
    metadata, snapshot = draft.metadata, update.snapshot
    if not (metadata.schemas and metadata.partition_specs and metadata.sort_orders):
        raise InvalidUpdate("a snapshot cannot be added before the table has a schema, partition spec and sort order")
    _check_snapshot_id(draft, snapshot)
    _check_required_fields(snapshot, metadata.format_version)
    if snapshot.schema_id is not None and snapshot.schema_id not in metadata.schemas_by_id:
        raise InvalidUpdate(
            f"snapshot {snapshot.snapshot_id} was written with schema {snapshot.schema_id}, unknown here"
        )

    last = metadata.last_sequence_number
    # A snapshot without a parent replaces nothing, so its sequence number need not be new (as in Java).
    if metadata.format_version > 1 and snapshot.sequence_number <= last and snapshot.parent_snapshot_id is not None:
        raise CommitConflict(
            f"snapshot {snapshot.snapshot_id} has sequence number {snapshot.sequence_number}, "
            f"but the table is at {last} already",
            hint=f"create the snapshot again, with sequence number {last + 1}",
            snapshot=snapshot.snapshot_id,
        )
    draft.change(
        last_sequence_number=max(last, snapshot.sequence_number),
        next_row_id=_next_row_id(snapshot, metadata.next_row_id),
    )
    draft.parent_ids.add(snapshot.parent_snapshot_id)
    draft.snapshots[snapshot.snapshot_id] = snapshot
    draft.added_snapshots.add(snapshot.snapshot_id)


def _check_snapshot_id(draft: Draft, snapshot: Snapshot) -> None:
    snapshot_id = snapshot.snapshot_id
    if snapshot_id < 0:
        raise InvalidUpdate(f"a snapshot id must be positive, found {snapshot_id}")
    if snapshot_id in draft.snapshots:
        raise InvalidUpdate(f"the table has a snapshot {snapshot_id} already", hint="choose another id")
    # Children of an expired snapshot still have its id as their parent: a new snapshot must not become that parent.
    if snapshot_id == snapshot.parent_snapshot_id or snapshot_id in draft.parent_ids:
        raise InvalidUpdate(f"{snapshot_id} is the id of a snapshot's parent", hint="choose another id")
    if snapshot_id in draft.removed_snapshots:
        raise InvalidUpdate(f"snapshot {snapshot_id} is removed by the same updates", hint="choose another id")


def _check_required_fields(snapshot: Snapshot, format_version: int) -> None:
    """Raise if a snapshot lacks fields that the format version requires, or has those of a later one."""
    problem = None
    if format_version < 2:
        if snapshot.sequence_number != 0:
            problem = f"sequence number {snapshot.sequence_number}, but format version 1 has none"
        elif snapshot.manifest_list is None and snapshot.manifests is None:
            problem = "neither a manifest list nor manifests"
    elif snapshot.sequence_number < 0:
        problem = f"the negative sequence number {snapshot.sequence_number}"
    elif snapshot.manifest_list is None:
        problem = f"no manifest list, which format version {format_version} requires"
    elif not snapshot.summary or OPERATION not in snapshot.summary:
        problem = f"no operation in its summary, which format version {format_version} requires"
    if problem is None and snapshot.manifest_list is not None and snapshot.manifests is not None:
        problem = "both a manifest list and manifests"
    if problem is None and format_version < 3:
        later = [name for name in ("first_row_id", "added_rows", "key_id") if getattr(snapshot, name) is not None]
        if later:
            problem = f"{later[0].replace('_', '-')}, which came with format version 3"
    if problem is not None:
        raise InvalidUpdate(f"snapshot {snapshot.snapshot_id} has {problem}", snapshot=snapshot.snapshot_id)


def _next_row_id(snapshot: Snapshot, next_row_id: int | None) -> int | None:
    """The table's next row id after a snapshot, which assigns ids from the current one on (spec: Snapshot Row IDs)."""
    if next_row_id is None:
        return None
    if snapshot.first_row_id is None or snapshot.added_rows is None:
        missing = "first-row-id" if snapshot.first_row_id is None else "added-rows"
        raise InvalidUpdate(
            f"snapshot {snapshot.snapshot_id} has no {missing}, "
            "which format version 3 requires even if no row is added",
            snapshot=snapshot.snapshot_id,
        )
    if snapshot.first_row_id < next_row_id:
        raise CommitConflict(
            f"snapshot {snapshot.snapshot_id} has first-row-id {snapshot.first_row_id}, "
            f"but the table's next row id is {next_row_id} already",
            hint="create the snapshot again, with the table's next row id",
            snapshot=snapshot.snapshot_id,
        )
    if snapshot.added_rows < 0 or snapshot.first_row_id + snapshot.added_rows > _MAX_LONG:
        raise InvalidUpdate(f"snapshot {snapshot.snapshot_id} cannot have added {snapshot.added_rows} rows")
    return snapshot.first_row_id + snapshot.added_rows


def remove_snapshots(draft: Draft, update: RemoveSnapshots) -> None:
    """Remove snapshots with their refs and statistics; `updated_snapshot_log` removes the log entries."""
    removed = draft.snapshots.keys() & set(update.snapshot_ids)
    if not removed:
        return
    metadata = draft.metadata
    draft.removed_snapshots |= removed
    draft.added_snapshots -= removed
    for snapshot_id in removed:
        del draft.snapshots[snapshot_id]
    draft.change(
        statistics=tuple(s for s in metadata.statistics if s.snapshot_id not in removed),
        partition_statistics=tuple(s for s in metadata.partition_statistics if s.snapshot_id not in removed),
    )
    for name, ref in metadata.refs.items():
        if ref.snapshot_id in removed:
            remove_ref(draft, RemoveSnapshotRef(name))


# Branches and tags -----------------------------------------------------------------------------------------------


def set_ref(draft: Draft, update: SetSnapshotRef) -> None:
    """Create or move a branch or tag; the snapshot of `main` becomes the current one."""
    name, ref = update.name, update.ref
    _check_ref(name, ref)
    if ref.snapshot_id not in draft.snapshots:
        raise InvalidUpdate(
            f"{ref.type} {name!r} cannot be set to snapshot {ref.snapshot_id}: the table has no such snapshot"
        )
    draft.change(refs={**draft.metadata.refs, name: ref})
    if name == MAIN_BRANCH:
        draft.change(current_snapshot_id=ref.snapshot_id)


def _check_ref(name: str, ref: SnapshotRef) -> None:
    """Raise unless a ref has a name and valid retention, and `main` is a branch (spec: Snapshot References)."""
    if not name:
        raise InvalidUpdate("a branch or tag must have a name")
    if name == MAIN_BRANCH and not ref.is_branch:
        raise InvalidUpdate(f"{MAIN_BRANCH} must be a branch, not a {ref.type}")
    for attribute in ("min_snapshots_to_keep", "max_snapshot_age_ms", "max_ref_age_ms"):
        value, key = getattr(ref, attribute), attribute.replace("_", "-")
        if value is None:
            continue
        if ref.is_tag and attribute != "max_ref_age_ms":
            raise InvalidUpdate(f"tag {name!r} cannot have {key}: that is for branches", hint="use max-ref-age-ms")
        if value <= 0:
            raise InvalidUpdate(f"{key} of {ref.type} {name!r} must be positive, found {value}")


def remove_ref(draft: Draft, update: RemoveSnapshotRef) -> None:
    """Remove a branch or tag if it exists; without `main` there is no current snapshot."""
    draft.change(refs={name: ref for name, ref in draft.metadata.refs.items() if name != update.name})
    if update.name == MAIN_BRANCH:
        draft.change(current_snapshot_id=None)


# Statistics ------------------------------------------------------------------------------------------------------


def set_statistics(draft: Draft, update: SetStatistics) -> None:
    """Set the statistics file of a snapshot, replacing an earlier one."""
    _replace_statistics(draft, "statistics", update.statistics)


def set_partition_statistics(draft: Draft, update: SetPartitionStatistics) -> None:
    """Set the partition statistics file of a snapshot, replacing an earlier one."""
    _replace_statistics(draft, "partition_statistics", update.partition_statistics)


def remove_statistics(draft: Draft, update: RemoveStatistics) -> None:
    """Remove the statistics file of a snapshot if it has one."""
    remaining = tuple(s for s in draft.metadata.statistics if s.snapshot_id != update.snapshot_id)
    draft.change(statistics=remaining)


def remove_partition_statistics(draft: Draft, update: RemovePartitionStatistics) -> None:
    """Remove the partition statistics file of a snapshot if it has one."""
    remaining = tuple(s for s in draft.metadata.partition_statistics if s.snapshot_id != update.snapshot_id)
    draft.change(partition_statistics=remaining)


def _replace_statistics(draft: Draft, attribute: str, file: Any) -> None:
    if file.snapshot_id not in draft.snapshots:
        raise InvalidUpdate(
            f"statistics cannot be set for snapshot {file.snapshot_id}: the table has no such snapshot",
            hint="it may have expired",
        )
    other_files = tuple(s for s in getattr(draft.metadata, attribute) if s.snapshot_id != file.snapshot_id)
    draft.change(**{attribute: (*other_files, file)})


# Snapshot log ----------------------------------------------------------------------------------------------------


def updated_snapshot_log(draft: Draft) -> tuple[SnapshotLogEntry, ...]:
    """Return the snapshot log after all updates.

    A commit changes the current snapshot at most once, so snapshots that were current only between two updates are not
    logged. The new entry has the timestamp of the snapshot if the updates added it, or else that of the commit, as in a
    rollback. If snapshots were removed, the log begins after the last entry of a removed one: with a gap in it, time
    travel would return wrong snapshots.
    """
    metadata, base = draft.metadata, draft.base
    log = metadata.snapshot_log
    if draft.removed_snapshots:
        gaps = [n for n, entry in enumerate(log) if entry.snapshot_id not in draft.snapshots]
        log = log[gaps[-1] + 1 :] if gaps else log
    current = metadata.current_snapshot_id
    if current is None or (base is not None and base.current_snapshot_id == current):
        return log
    is_new = current in draft.added_snapshots
    timestamp_ms = draft.snapshots[current].timestamp_ms if is_new else draft.now_ms
    if log and timestamp_ms < log[-1].timestamp_ms - CLOCK_SKEW_MS:
        raise InvalidUpdate(
            f"the current snapshot cannot change at {timestamp_ms} ms: it changed at {log[-1].timestamp_ms} ms last",
            hint="the clock of this machine, or of the one that wrote before, is wrong",
        )
    return (*log, SnapshotLogEntry(timestamp_ms=timestamp_ms, snapshot_id=current))


# Schemas ---------------------------------------------------------------------------------------------------------


def add_schema(draft: Draft, update: AddSchema) -> None:
    """Add a schema with the next id, unless the table has an equal one with any id."""
    metadata, schema = draft.metadata, update.schema
    schema.check_for_table(metadata.format_version)
    last_column_id = max(metadata.last_column_id, schema.highest_field_id, update.last_column_id or 0)
    if last_column_id > MAX_TABLE_FIELD_ID:
        raise InvalidUpdate(f"last-column-id {last_column_id} is above {MAX_TABLE_FIELD_ID}, the highest column id")
    if last_column_id > metadata.last_column_id:
        draft.change(last_column_id=last_column_id)

    for existing in metadata.schemas:
        if existing.same_columns(schema):
            draft.last_schema_id = existing.schema_id
            return
    # Snapshots keep the ids of removed schemas, so such an id must never be assigned to another schema.
    ids_in_snapshots = (s.schema_id for s in draft.snapshots.values() if s.schema_id is not None)
    new_id = max((*(s.schema_id for s in metadata.schemas), *ids_in_snapshots), default=-1) + 1
    draft.change(schemas=(*metadata.schemas, schema.with_id(new_id)))
    draft.last_schema_id = new_id


def set_current_schema(draft: Draft, update: SetCurrentSchema) -> None:
    """Make an existing schema the current one."""
    schema_id = _resolve_id(update.schema_id, draft.last_schema_id, draft.metadata.schemas_by_id, "schema")
    draft.change(current_schema_id=schema_id)


def remove_schemas(draft: Draft, update: RemoveSchemas) -> None:
    """Remove schemas, but not the current one; that no snapshot uses them is checked on the result."""
    removed = set(update.schema_ids)
    if draft.metadata.current_schema_id in removed:
        raise InvalidUpdate(f"schema {draft.metadata.current_schema_id} cannot be removed: it is the current one")
    draft.removed_schemas |= removed & draft.metadata.schemas_by_id.keys()
    draft.change(schemas=tuple(s for s in draft.metadata.schemas if s.schema_id not in removed))
    if draft.last_schema_id in removed:
        draft.last_schema_id = None


# Partition specs -------------------------------------------------------------------------------------------------


def add_spec(draft: Draft, update: AddPartitionSpec) -> None:
    """Add a partition spec with the next id, unless the table has an equivalent one."""
    metadata, spec = draft.metadata, update.spec
    for existing in metadata.partition_specs:
        if existing.compatible_with(spec):
            draft.last_spec_id = existing.spec_id
            return
    if update.assign_field_ids:
        current = metadata.specs_by_id.get(metadata.default_spec_id, UNPARTITIONED)
        spec = align_field_ids(
            spec, current, metadata.partition_specs, metadata.format_version, metadata.last_partition_id
        )
    elif metadata.format_version > 1:
        _check_field_ids(spec, metadata.partition_specs)
    if metadata.current_schema_id not in metadata.schemas_by_id:
        raise InvalidUpdate("a partition spec cannot be added before the table has a current schema")
    check_spec(spec, metadata.schema, metadata.format_version)
    new_id = max((s.spec_id for s in metadata.partition_specs), default=-1) + 1
    draft.change(
        partition_specs=(*metadata.partition_specs, spec.with_id(new_id)),
        last_partition_id=max(metadata.last_partition_id, spec.last_assigned_field_id),
    )
    draft.last_spec_id = new_id


def _check_field_ids(spec: PartitionSpec, existing_specs: tuple[PartitionSpec, ...]) -> None:
    """Raise if a partition field has the id of a different field in another spec; manifests identify fields by them.

    In v1 ids are positions, so the specs of an upgraded table may use an id for several fields; the new field must be
    one of these. A `void` field may replace any other.
    """
    for new in spec.fields:
        same_id = [
            field
            for existing in existing_specs
            for field in existing.fields
            if field.field_id == new.field_id and not isinstance(field.transform, Void)
        ]
        if not same_id or isinstance(new.transform, Void) or any(map(new.same_source_and_transform, same_id)):
            continue
        raise InvalidUpdate(
            f"partition field id {new.field_id} of {new.name!r} means {same_id[-1]} in another spec of the table",
            hint="number new partition fields from last-partition-id + 1",
        )


def set_default_spec(draft: Draft, update: SetDefaultSpec) -> None:
    """Make an existing partition spec the default; that it is valid for the schema is checked on the result."""
    spec_id = _resolve_id(update.spec_id, draft.last_spec_id, draft.metadata.specs_by_id, "partition spec")
    draft.change(default_spec_id=spec_id)


def remove_specs(draft: Draft, update: RemovePartitionSpecs) -> None:
    """Remove partition specs, but not the default one; the caller must know that no manifest uses them."""
    removed = set(update.spec_ids)
    if draft.metadata.default_spec_id in removed:
        raise InvalidUpdate(f"partition spec {draft.metadata.default_spec_id} cannot be removed: it is the default")
    draft.change(partition_specs=tuple(s for s in draft.metadata.partition_specs if s.spec_id not in removed))
    if draft.last_spec_id in removed:
        draft.last_spec_id = None


# Sort orders -----------------------------------------------------------------------------------------------------


def add_sort_order(draft: Draft, update: AddSortOrder) -> None:
    """Add a sort order, unless the table has an equal one; the unsorted one has id 0, others count from 1."""
    metadata, order = draft.metadata, update.sort_order
    for existing in metadata.sort_orders:
        if existing.fields == order.fields:
            draft.last_order_id = existing.order_id
            return
    if order.is_unsorted:
        new_id = UNSORTED.order_id
    else:
        if metadata.current_schema_id not in metadata.schemas_by_id:
            raise InvalidUpdate("a sort order cannot be added before the table has a current schema")
        check_order(order, metadata.schema, metadata.format_version)
        new_id = max((o.order_id for o in metadata.sort_orders), default=UNSORTED.order_id) + 1
    draft.change(sort_orders=(*metadata.sort_orders, replace(order, order_id=new_id)))
    draft.last_order_id = new_id


def set_default_sort_order(draft: Draft, update: SetDefaultSortOrder) -> None:
    """Make an existing sort order the default; that it is valid for the schema is checked on the result."""
    existing_ids = {order.order_id for order in draft.metadata.sort_orders}
    order_id = _resolve_id(update.sort_order_id, draft.last_order_id, existing_ids, "sort order")
    draft.change(default_sort_order_id=order_id)


def _resolve_id(requested: int, last_added: int | None, existing_ids: Container[int], kind: str) -> int:
    """The id that an update refers to: the requested one, or the last one that was added for `LAST_ADDED`."""
    if requested == LAST_ADDED:
        if last_added is None:
            raise InvalidUpdate(f"the last added {kind} was requested, but no {kind} was added")
        return last_added
    if requested not in existing_ids:
        raise InvalidUpdate(f"the table has no {kind} with id {requested}")
    return requested


# Format version --------------------------------------------------------------------------------------------------


def upgrade(metadata: TableMetadata, format_version: int, *, new_uuid: str | None = None) -> TableMetadata:
    """Return the metadata upgraded to a format version; unchanged if it has that version already.

    `new_uuid` becomes the UUID of a v1 table that has none, because later versions require one. Raises `InvalidUpdate`
    for a downgrade, and `UnsupportedFeature` for a version that Floe does not know.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.schemas.schema import Schema
    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> table = new_table_metadata(Schema(()), location="s3://b/t", uuid=uuid, now_ms=0, format_version=1)
    >>> upgrade(table, 3).next_row_id
    0
    >>> upgrade(upgrade(table, 3), 2)
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: a table cannot go back from format version 3 to 2
    """
    upgraded = _apply_upgrade_steps(metadata, format_version)
    if upgraded.table_uuid is None and upgraded.format_version > 1:
        if new_uuid is None:
            raise InvalidUpdate(
                f"the table has no uuid, and format version {format_version} requires one", hint="give it a new one"
            )
        check_uuid(new_uuid)
        upgraded = replace(upgraded, table_uuid=new_uuid)
    return upgraded


def _apply_upgrade_steps(metadata: TableMetadata, format_version: int) -> TableMetadata:
    """The metadata upgraded to a format version, except for the UUID."""
    check_format_version(format_version)
    if format_version < metadata.format_version:
        raise InvalidUpdate(f"a table cannot go back from format version {metadata.format_version} to {format_version}")
    for version in range(metadata.format_version + 1, format_version + 1):
        metadata = replace(metadata, format_version=version, **_UPGRADE_STEPS[version](metadata))
    return metadata


def check_format_version(format_version: int) -> None:
    """Raise `UnsupportedFeature` unless this version of Floe can write tables of a format version.

    >>> check_format_version(4)
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: format version 4 is not supported; supported are 1 to 3
    """
    if type(format_version) is not int:
        raise InvalidInput(f"a format version must be an integer, found {format_version!r:.80}")
    if not 1 <= format_version <= LATEST_FORMAT_VERSION:
        raise UnsupportedFeature(
            f"format version {format_version} is not supported", hint=f"supported are 1 to {LATEST_FORMAT_VERSION}"
        )


def _to_version_2(metadata: TableMetadata) -> Mapping[str, Any]:
    """Snapshots of v1 have sequence number 0 (spec: Appendix E), so the next snapshot has number 1."""
    changes: dict[str, Any] = {"last_sequence_number": 0}
    if metadata.current_snapshot_id is not None and MAIN_BRANCH not in metadata.refs:
        main = SnapshotRef(snapshot_id=metadata.current_snapshot_id, type="branch")
        changes["refs"] = {MAIN_BRANCH: main, **metadata.refs}
    return changes


def _to_version_3(metadata: TableMetadata) -> Mapping[str, Any]:
    """The first snapshot after the upgrade assigns row ids to all rows (spec: Row Lineage for Upgraded Tables)."""
    return {"next_row_id": 0}


_UPGRADE_STEPS: dict[int, Callable[[TableMetadata], Mapping[str, Any]]] = {2: _to_version_2, 3: _to_version_3}


def upgrade_format_version(draft: Draft, update: UpgradeFormatVersion) -> None:
    """Upgrade the format version; that a version after 1 has a UUID is checked on the result."""
    draft.metadata = _apply_upgrade_steps(draft.metadata, update.format_version)


# UUID, location, properties, encryption keys ---------------------------------------------------------------------


def assign_uuid(draft: Draft, update: AssignUuid) -> None:
    """Give the table its UUID; it never changes, because readers reject a table whose UUID has changed."""
    check_uuid(update.uuid)
    current = draft.metadata.table_uuid
    if current is None:
        draft.change(table_uuid=update.uuid)
    elif current.lower() != update.uuid.lower():
        raise InvalidUpdate(f"the table has uuid {current} and cannot become {update.uuid}")


def set_location(draft: Draft, update: SetLocation) -> None:
    """Set the location, without a trailing slash."""
    draft.change(location=without_trailing_slash(update.location))


def without_trailing_slash(location: str) -> str:
    """Return a location without trailing slashes, as it is stored; `InvalidUpdate` if it is empty.

    >>> without_trailing_slash("s3://bucket/t/")
    's3://bucket/t'
    """
    if not location:
        raise InvalidUpdate("a table's location must not be empty")
    while location.endswith("/") and not location.endswith("://"):
        location = location[:-1]
    return location or "/"


def set_properties(draft: Draft, update: SetProperties) -> None:
    """Set properties; reserved ones are not stored, and `format-version` upgrades the table."""
    version = FORMAT_VERSION.read(update.updates)
    upgrade_format_version(draft, UpgradeFormatVersion(draft.metadata.format_version if version is None else version))
    stored = stored_properties(update.updates)
    draft.set_properties |= stored.keys()
    draft.change(properties={**draft.metadata.properties, **stored})


def remove_properties(draft: Draft, update: RemoveProperties) -> None:
    """Remove properties if they are set."""
    removed = set(update.removals)
    draft.change(properties={k: v for k, v in draft.metadata.properties.items() if k not in removed})


def add_encryption_key(draft: Draft, update: AddEncryptionKey) -> None:
    """Add an encryption key, unless the table has it; `InvalidUpdate` if it has a different key with that id."""
    if draft.metadata.format_version < 3:
        raise InvalidUpdate(
            f"encryption keys need format version 3; the table has {draft.metadata.format_version}",
            hint="upgrade the table's format version first",
        )
    for existing in draft.metadata.encryption_keys:
        if existing.key_id == update.key.key_id:
            if existing != update.key:
                raise InvalidUpdate(f"the table has another encryption key of id {existing.key_id!r} already")
            return
    draft.change(encryption_keys=(*draft.metadata.encryption_keys, update.key))


def remove_encryption_key(draft: Draft, update: RemoveEncryptionKey) -> None:
    """Remove an encryption key if it exists; that nothing is encrypted with it is checked on the result."""
    remaining = tuple(key for key in draft.metadata.encryption_keys if key.key_id != update.key_id)
    if len(remaining) != len(draft.metadata.encryption_keys):
        draft.removed_keys.add(update.key_id)
    draft.change(encryption_keys=remaining)


HANDLERS: Final[Mapping[type[Any], Callable[[Draft, Any], None]]] = {
    AssignUuid: assign_uuid,
    UpgradeFormatVersion: upgrade_format_version,
    AddSchema: add_schema,
    SetCurrentSchema: set_current_schema,
    AddPartitionSpec: add_spec,
    SetDefaultSpec: set_default_spec,
    AddSortOrder: add_sort_order,
    SetDefaultSortOrder: set_default_sort_order,
    AddSnapshot: add_snapshot,
    SetSnapshotRef: set_ref,
    RemoveSnapshotRef: remove_ref,
    RemoveSnapshots: remove_snapshots,
    SetLocation: set_location,
    SetProperties: set_properties,
    RemoveProperties: remove_properties,
    SetStatistics: set_statistics,
    RemoveStatistics: remove_statistics,
    SetPartitionStatistics: set_partition_statistics,
    RemovePartitionStatistics: remove_partition_statistics,
    RemovePartitionSpecs: remove_specs,
    RemoveSchemas: remove_schemas,
    AddEncryptionKey: add_encryption_key,
    RemoveEncryptionKey: remove_encryption_key,
}
