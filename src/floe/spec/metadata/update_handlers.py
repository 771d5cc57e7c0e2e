"""Applying updates of what a table holds: snapshots, branches and tags, statistics; and the log of current snapshots.

Each function changes a draft as one update says, or raises why it cannot.

Metadata while updates are applied to it: how it stands after each, and what they added and removed so far.

Applying updates of what a table looks like: schemas, partition specs, sort orders.

Each function changes a draft as one update says, or raises why it cannot.
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
from floe.spec.partitioning.evolution import align_field_ids
from floe.spec.partitioning.partition_spec import UNPARTITIONED, PartitionSpec, check_spec
from floe.spec.partitioning.transforms import Void
from floe.spec.properties import (
    FORMAT_VERSION,
    stored_properties,
)
from floe.spec.schemas.schema import MAX_TABLE_FIELD_ID
from floe.spec.sort_order import UNSORTED, check_order

# Metadata while updates are applied to it: how it stands after each, and what they added and removed so far.

NO_ID = -1
"""The id of what a table that is being created does not have yet."""


@dataclass
class Draft:
    """The metadata as the updates so far have made it.

    `base` is what they are applied to, None for a table that is being created. The metadata itself is never changed in
    place: `change` puts another in its stead. Snapshots are kept by id beside it, for there may be very many of them,
    and become a part of it at the end.
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
        """The snapshots by id, in the table's order; may be changed."""
        return dict(self.metadata.snapshots_by_id)

    @cached_property
    def parent_ids(self) -> set[int | None]:
        """The ids of the parents of all snapshots that the table had or got."""
        return {snapshot.parent_snapshot_id for snapshot in self.snapshots.values()}

    def outcome(self) -> TableMetadata:
        """The metadata with its snapshots."""
        if self.added_snapshots or self.removed_snapshots:
            self.change(snapshots=tuple(self.snapshots.values()))
        return self.metadata

    def change(self, **fields: Any) -> None:
        """Put metadata with other values of some fields in the place of what is there."""
        self.metadata = replace(self.metadata, **fields)


def blank_metadata(format_version: int, now_ms: int) -> TableMetadata:
    """What a table is made from by updates alone: nothing but a format version."""
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

# snapshots --------------------------------------------------------------------------------------------------------


def add_snapshot(draft: Draft, update: AddSnapshot) -> None:
    """A snapshot comes after all others: its sequence number, and in v3 its row ids, follow theirs.

    One that was made for an earlier state of the table is a conflict, not a mistake: made again it can succeed.
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
    # A snapshot without parent has nothing before it, and so nothing to come after (as in Java).
    if metadata.format_version > 1 and snapshot.sequence_number <= last and snapshot.parent_snapshot_id is not None:
        raise CommitConflict(
            f"snapshot {snapshot.snapshot_id} has sequence number {snapshot.sequence_number}, "
            f"but the table is at {last} already",
            hint=f"make the snapshot again, with number {last + 1}",
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
    # An expired snapshot's id lives on in its children; used again, it would join them to a history that is not theirs.
    if snapshot_id == snapshot.parent_snapshot_id or snapshot_id in draft.parent_ids:
        raise InvalidUpdate(f"{snapshot_id} is the id of a snapshot's parent", hint="choose another id")
    if snapshot_id in draft.removed_snapshots:
        raise InvalidUpdate(f"snapshot {snapshot_id} is removed by the same updates", hint="choose another id")


def _check_required_fields(snapshot: Snapshot, format_version: int) -> None:
    """Spec, Snapshots: what each format version requires, and what came only with a later one."""
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
        held = [name for name in ("first_row_id", "added_rows", "key_id") if getattr(snapshot, name) is not None]
        if held:
            problem = f"{held[0].replace('_', '-')}, which came with format version 3"
    if problem is not None:
        raise InvalidUpdate(f"snapshot {snapshot.snapshot_id} has {problem}", snapshot=snapshot.snapshot_id)


def _next_row_id(snapshot: Snapshot, next_row_id: int | None) -> int | None:
    """Spec, Snapshot Row IDs: a snapshot takes ids from the table's next one on, on whatever branch it is."""
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
            hint="make the snapshot again, with the table's next row id",
            snapshot=snapshot.snapshot_id,
        )
    if snapshot.added_rows < 0 or snapshot.first_row_id + snapshot.added_rows > _MAX_LONG:
        raise InvalidUpdate(f"snapshot {snapshot.snapshot_id} cannot have added {snapshot.added_rows} rows")
    return snapshot.first_row_id + snapshot.added_rows


def remove_snapshots(draft: Draft, update: RemoveSnapshots) -> None:
    """With them go the refs that point at them and their statistics; the log is cut when all updates are applied."""
    gone = draft.snapshots.keys() & set(update.snapshot_ids)
    if not gone:
        return
    metadata = draft.metadata
    draft.removed_snapshots |= gone
    draft.added_snapshots -= gone
    for snapshot_id in gone:
        del draft.snapshots[snapshot_id]
    draft.change(
        statistics=tuple(s for s in metadata.statistics if s.snapshot_id not in gone),
        partition_statistics=tuple(s for s in metadata.partition_statistics if s.snapshot_id not in gone),
    )
    for name, ref in metadata.refs.items():
        if ref.snapshot_id in gone:
            remove_ref(draft, RemoveSnapshotRef(name))


# branches and tags ------------------------------------------------------------------------------------------------


def set_ref(draft: Draft, update: SetSnapshotRef) -> None:
    """The snapshot must be there; `main` is a branch, and where it points is the current snapshot."""
    name, ref = update.name, update.ref
    _check_ref(name, ref)
    if ref.snapshot_id not in draft.snapshots:
        raise InvalidUpdate(f"{ref.type} {name!r} cannot be set to snapshot {ref.snapshot_id}: the table has none such")
    draft.change(refs={**draft.metadata.refs, name: ref})
    if name == MAIN_BRANCH:
        draft.change(current_snapshot_id=ref.snapshot_id)


def _check_ref(name: str, ref: SnapshotRef) -> None:
    """Spec, Snapshot References."""
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
    """A ref that is not there is no matter; without `main` there is no current snapshot."""
    draft.change(refs={name: ref for name, ref in draft.metadata.refs.items() if name != update.name})
    if update.name == MAIN_BRANCH:
        draft.change(current_snapshot_id=None)


# statistics -------------------------------------------------------------------------------------------------------


def set_statistics(draft: Draft, update: SetStatistics) -> None:
    """One file for each snapshot: a new one takes the place of the old."""
    _replace_statistics(draft, "statistics", update.statistics)


def set_partition_statistics(draft: Draft, update: SetPartitionStatistics) -> None:
    """One file for each snapshot: a new one takes the place of the old."""
    _replace_statistics(draft, "partition_statistics", update.partition_statistics)


def remove_statistics(draft: Draft, update: RemoveStatistics) -> None:
    """Statistics that are not there are no matter."""
    kept = tuple(s for s in draft.metadata.statistics if s.snapshot_id != update.snapshot_id)
    draft.change(statistics=kept)


def remove_partition_statistics(draft: Draft, update: RemovePartitionStatistics) -> None:
    """Statistics that are not there are no matter."""
    kept = tuple(s for s in draft.metadata.partition_statistics if s.snapshot_id != update.snapshot_id)
    draft.change(partition_statistics=kept)


def _replace_statistics(draft: Draft, attribute: str, file: Any) -> None:
    if file.snapshot_id not in draft.snapshots:
        raise InvalidUpdate(
            f"there cannot be statistics of snapshot {file.snapshot_id}: the table has none such",
            hint="it may have expired meanwhile",
        )
    others = tuple(s for s in getattr(draft.metadata, attribute) if s.snapshot_id != file.snapshot_id)
    draft.change(**{attribute: (*others, file)})


# the log ----------------------------------------------------------------------------------------------------------


def updated_snapshot_log(draft: Draft) -> tuple[SnapshotLogEntry, ...]:
    """The snapshot log when all updates are applied.

    The current snapshot changes at most once, when the metadata is published, so that snapshots which were current
    only between two updates are not logged. The entry has the time of the snapshot if it was just made, and the time
    of the change if the table went (back) to one that it had. Where snapshots were removed the log begins after the
    last entry of such a one: with a gap in it, it would name wrong snapshots for times in between.
    """
    metadata, base = draft.metadata, draft.base
    log = metadata.snapshot_log
    if draft.removed_snapshots:
        gaps = [n for n, entry in enumerate(log) if entry.snapshot_id not in draft.snapshots]
        log = log[gaps[-1] + 1 :] if gaps else log
    current = metadata.current_snapshot_id
    if current is None or (base is not None and base.current_snapshot_id == current):
        return log
    just_made = current in draft.added_snapshots
    when = draft.snapshots[current].timestamp_ms if just_made else draft.now_ms
    if log and when < log[-1].timestamp_ms - CLOCK_SKEW_MS:
        raise InvalidUpdate(
            f"the current snapshot cannot change at {when} ms: it changed at {log[-1].timestamp_ms} ms last",
            hint="the clock of this machine, or of the one that wrote before, is wrong",
        )
    return (*log, SnapshotLogEntry(timestamp_ms=when, snapshot_id=current))


# Applying updates of what a table looks like: schemas, partition specs, sort orders.

# schemas --------------------------------------------------------------------------------------------------------


def add_schema(draft: Draft, update: AddSchema) -> None:
    """A schema that the table has already, under whatever id, is not added again; a new one gets the next id."""
    metadata, schema = draft.metadata, update.schema
    schema.check_for_table(metadata.format_version)
    last_column_id = max(metadata.last_column_id, schema.highest_field_id, update.last_column_id or 0)
    if last_column_id > MAX_TABLE_FIELD_ID:
        raise InvalidUpdate(f"last-column-id {last_column_id} is above {MAX_TABLE_FIELD_ID}, the highest column id")
    if last_column_id > metadata.last_column_id:
        draft.change(last_column_id=last_column_id)

    for known in metadata.schemas:
        if known.same_columns(schema):
            draft.last_schema_id = known.schema_id
            return
    # Snapshots keep the ids of schemas that were removed; they must never come to mean another schema.
    named_by_snapshots = (s.schema_id for s in draft.snapshots.values() if s.schema_id is not None)
    new_id = max((*(s.schema_id for s in metadata.schemas), *named_by_snapshots), default=-1) + 1
    draft.change(schemas=(*metadata.schemas, schema.with_id(new_id)))
    draft.last_schema_id = new_id


def set_current_schema(draft: Draft, update: SetCurrentSchema) -> None:
    """The schema must be there."""
    schema_id = _chosen(update.schema_id, draft.last_schema_id, draft.metadata.schemas_by_id, "schema")
    draft.change(current_schema_id=schema_id)


def remove_schemas(draft: Draft, update: RemoveSchemas) -> None:
    """Not the current schema; whether snapshots use the others is checked when all updates are applied."""
    removed = set(update.schema_ids)
    if draft.metadata.current_schema_id in removed:
        raise InvalidUpdate(f"schema {draft.metadata.current_schema_id} cannot be removed: it is the current one")
    draft.removed_schemas |= removed & draft.metadata.schemas_by_id.keys()
    draft.change(schemas=tuple(s for s in draft.metadata.schemas if s.schema_id not in removed))
    if draft.last_schema_id in removed:
        draft.last_schema_id = None


# partition specs --------------------------------------------------------------------------------------------------


def add_spec(draft: Draft, update: AddPartitionSpec) -> None:
    """A spec equivalent to one that the table has is not added again; a new one gets the next id."""
    metadata, spec = draft.metadata, update.spec
    for known in metadata.partition_specs:
        if known.compatible_with(spec):
            draft.last_spec_id = known.spec_id
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


def _check_field_ids(spec: PartitionSpec, others: tuple[PartitionSpec, ...]) -> None:
    """An id that another spec uses must stand for the same values: manifests of both say what they hold by it.

    In v1 ids are positions, so that specs of a table that was one may use an id for different fields; one of these it
    must be. A `void` stands in for any other field.
    """
    for new in spec.fields:
        known = [
            f for s in others for f in s.fields if f.field_id == new.field_id and not isinstance(f.transform, Void)
        ]
        if not known or isinstance(new.transform, Void) or any(map(new.same_source_and_transform, known)):
            continue
        raise InvalidUpdate(
            f"partition field id {new.field_id} of {new.name!r} means {known[-1]} in another spec of the table",
            hint="number new partition fields from last-partition-id + 1",
        )


def set_default_spec(draft: Draft, update: SetDefaultSpec) -> None:
    """The spec must be there; whether it fits the schema is checked when all updates are applied."""
    spec_id = _chosen(update.spec_id, draft.last_spec_id, draft.metadata.specs_by_id, "partition spec")
    draft.change(default_spec_id=spec_id)


def remove_specs(draft: Draft, update: RemovePartitionSpecs) -> None:
    """Not the default spec; whether manifests use the others is for the caller to know."""
    removed = set(update.spec_ids)
    if draft.metadata.default_spec_id in removed:
        raise InvalidUpdate(f"partition spec {draft.metadata.default_spec_id} cannot be removed: it is the default")
    draft.change(partition_specs=tuple(s for s in draft.metadata.partition_specs if s.spec_id not in removed))
    if draft.last_spec_id in removed:
        draft.last_spec_id = None


# sort orders ------------------------------------------------------------------------------------------------------


def add_sort_order(draft: Draft, update: AddSortOrder) -> None:
    """An order that the table has is not added again; the unsorted one is always number 0, others count from 1."""
    metadata, order = draft.metadata, update.sort_order
    for known in metadata.sort_orders:
        if known.fields == order.fields:
            draft.last_order_id = known.order_id
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
    """The order must be there; whether it fits the schema is checked when all updates are applied."""
    known = {order.order_id: order for order in draft.metadata.sort_orders}
    order_id = _chosen(update.sort_order_id, draft.last_order_id, known, "sort order")
    draft.change(default_sort_order_id=order_id)


def _chosen(asked: int, last_added: int | None, known: Container[int], what: str) -> int:
    """The id that an update means: itself, or the one added last; it must be known."""
    if asked == LAST_ADDED:
        if last_added is None:
            raise InvalidUpdate(f"the last added {what} was asked for, but no {what} was added")
        return last_added
    if asked not in known:
        raise InvalidUpdate(f"the table has no {what} with id {asked}")
    return asked


def upgrade(metadata: TableMetadata, format_version: int, *, new_uuid: str | None = None) -> TableMetadata:
    """The metadata in a later format version, or as it is if it has that version already.

    `new_uuid` is the identity that a v1 table without one gets, for every later version requires one.

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
    upgraded = raised(metadata, format_version)
    if upgraded.table_uuid is None and upgraded.format_version > 1:
        if new_uuid is None:
            raise InvalidUpdate(
                f"the table has no uuid, and format version {format_version} requires one", hint="give it a new one"
            )
        check_uuid(new_uuid)
        upgraded = replace(upgraded, table_uuid=new_uuid)
    return upgraded


def raised(metadata: TableMetadata, format_version: int) -> TableMetadata:
    """The metadata with every change that lies between its version and a later one, but for the uuid."""
    check_format_version(format_version)
    if format_version < metadata.format_version:
        raise InvalidUpdate(f"a table cannot go back from format version {metadata.format_version} to {format_version}")
    for version in range(metadata.format_version + 1, format_version + 1):
        metadata = replace(metadata, format_version=version, **_STEPS[version](metadata))
    return metadata


def check_format_version(format_version: int) -> None:
    """Raise unless this version of Floe can write tables of that format version.

    >>> check_format_version(4)
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: format version 4 is not supported; supported are 1 to 3
    """
    if type(format_version) is not int:
        raise InvalidInput(f"a format version is a whole number, found {format_version!r:.80}")
    if not 1 <= format_version <= LATEST_FORMAT_VERSION:
        raise UnsupportedFeature(
            f"format version {format_version} is not supported", hint=f"supported are 1 to {LATEST_FORMAT_VERSION}"
        )


def _to_version_2(metadata: TableMetadata) -> Mapping[str, Any]:
    """Sequence numbers of v1 snapshots are read as 0 (Appendix E), so the next snapshot has number 1."""
    changes: dict[str, Any] = {"last_sequence_number": 0}
    if metadata.current_snapshot_id is not None and MAIN_BRANCH not in metadata.refs:
        main = SnapshotRef(snapshot_id=metadata.current_snapshot_id, type="branch")
        changes["refs"] = {MAIN_BRANCH: main, **metadata.refs}
    return changes


def _to_version_3(metadata: TableMetadata) -> Mapping[str, Any]:
    """Spec, Row Lineage for Upgraded Tables: the first snapshot after the upgrade gives ids to all rows."""
    return {"next_row_id": 0}


_STEPS: dict[int, Callable[[TableMetadata], Mapping[str, Any]]] = {2: _to_version_2, 3: _to_version_3}


def assign_uuid(draft: Draft, update: AssignUuid) -> None:
    """A table keeps its identity: readers refuse one whose uuid changes under them."""
    check_uuid(update.uuid)
    known = draft.metadata.table_uuid
    if known is None:
        draft.change(table_uuid=update.uuid)
    elif known.lower() != update.uuid.lower():
        raise InvalidUpdate(f"the table has uuid {known} and cannot become {update.uuid}")


def upgrade_format_version(draft: Draft, update: UpgradeFormatVersion) -> None:
    """The uuid that later versions require is checked when all updates are applied."""
    draft.metadata = raised(draft.metadata, update.format_version)


def set_location(draft: Draft, update: SetLocation) -> None:
    """Without a trailing slash, so that paths below it are what they seem."""
    draft.change(location=without_trailing_slash(update.location))


def without_trailing_slash(location: str) -> str:
    """A location as it is stored; it must not be empty.

    >>> without_trailing_slash("s3://bucket/t/")
    's3://bucket/t'
    """
    if not location:
        raise InvalidUpdate("a table's location must not be empty")
    while location.endswith("/") and not location.endswith("://"):
        location = location[:-1]
    return location or "/"


def set_properties(draft: Draft, update: SetProperties) -> None:
    """Reserved names are not stored; `format-version` upgrades the table."""
    version = FORMAT_VERSION.read(update.updates)
    upgrade_format_version(draft, UpgradeFormatVersion(draft.metadata.format_version if version is None else version))
    stored = stored_properties(update.updates)
    draft.set_properties |= stored.keys()
    draft.change(properties={**draft.metadata.properties, **stored})


def remove_properties(draft: Draft, update: RemoveProperties) -> None:
    """Properties that are not there are no matter."""
    removed = set(update.removals)
    draft.change(properties={k: v for k, v in draft.metadata.properties.items() if k not in removed})


def add_encryption_key(draft: Draft, update: AddEncryptionKey) -> None:
    """A key that is there already is not added again; another key of its id would lose one of the two."""
    if draft.metadata.format_version < 3:
        raise InvalidUpdate(
            f"encryption keys need format version 3; the table has {draft.metadata.format_version}",
            hint="upgrade the table's format version first",
        )
    for known in draft.metadata.encryption_keys:
        if known.key_id == update.key.key_id:
            if known != update.key:
                raise InvalidUpdate(f"the table has another encryption key of id {known.key_id!r} already")
            return
    draft.change(encryption_keys=(*draft.metadata.encryption_keys, update.key))


def remove_encryption_key(draft: Draft, update: RemoveEncryptionKey) -> None:
    """Whether something is still encrypted with it is checked when all updates are applied."""
    kept = tuple(key for key in draft.metadata.encryption_keys if key.key_id != update.key_id)
    if len(kept) != len(draft.metadata.encryption_keys):
        draft.removed_keys.add(update.key_id)
    draft.change(encryption_keys=kept)


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
