"""Applying updates to a table's metadata: one pure function.

Updates are applied in order, each to what those before it made, and the outcome is checked as a whole: ids that are
current exist, sequence numbers and row ids only grow, logs say what readers saw. What is published is either all of it
or nothing. The given metadata is never changed.

>>> from floe.spec.metadata.creation import new_table_metadata
>>> from floe.spec.metadata.updates import SetProperties
>>> from floe.spec.schemas.schema import Schema
>>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
>>> table = new_table_metadata(Schema(()), location="s3://b/t", uuid=uuid, now_ms=0)
>>> changed = apply(
...     table, [SetProperties({"comment": "mine"})], now_ms=10, metadata_location="s3://b/t/metadata/0.json"
... )
>>> changed.properties, changed.last_updated_ms, changed.metadata_log[0].metadata_file
({'comment': 'mine'}, 10, 's3://b/t/metadata/0.json')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from floe.errors import CommitConflict, InvalidInput, InvalidMetadata, InvalidUpdate, UnsupportedFeature
from floe.spec.metadata._apply_layout import (
    add_schema,
    add_sort_order,
    add_spec,
    remove_schemas,
    remove_specs,
    set_current_schema,
    set_default_sort_order,
    set_default_spec,
)
from floe.spec.metadata._apply_snapshots import (
    add_snapshot,
    remove_partition_statistics,
    remove_ref,
    remove_snapshots,
    remove_statistics,
    set_partition_statistics,
    set_ref,
    set_statistics,
    updated_snapshot_log,
)
from floe.spec.metadata._draft import NO_ID, Draft, blank_metadata
from floe.spec.metadata.checks import CLOCK_SKEW_MS, check_for_writing
from floe.spec.metadata.logs import MetadataLogEntry
from floe.spec.metadata.properties import (
    ENCRYPTION_PROPERTIES,
    FORMAT_VERSION,
    METADATA_PREVIOUS_VERSIONS_MAX,
    integer_property,
    stored_properties,
)
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import (
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
    TableUpdate,
    UpgradeFormatVersion,
)
from floe.spec.metadata.updates_json import check_update
from floe.spec.metadata.upgrade import check_format_version, raised
from floe.spec.metadata.uuids import check_uuid

__all__ = ["DEFAULT_FORMAT_VERSION", "apply", "without_trailing_slash"]

DEFAULT_FORMAT_VERSION: Final = 2
"""The format version of a new table for which none is asked."""

_MAX_PREVIOUS_METADATA_FILES: Final = 100


def apply(
    metadata: TableMetadata | None,
    updates: Sequence[TableUpdate],
    *,
    now_ms: int,
    metadata_location: str | None = None,
    new_uuid: str | None = None,
) -> TableMetadata:
    """The metadata that updates make of a table's metadata; the same object if they change nothing.

    Without `metadata` the updates create a table. `metadata_location` is the file that holds the given metadata; the
    new one remembers it in its metadata log. `new_uuid` is the identity that a table gets which has none, as old v1
    tables do.

    An update that cannot be applied is an `InvalidUpdate` that says why. One that was made for an earlier state of the
    table, such as a snapshot whose sequence number is taken, is a `CommitConflict`: made again it can succeed.

    >>> apply(None, [SetLocation("s3://bucket/t")], now_ms=0)
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: the table would have no uuid; add an update that gives it one
    """
    if type(now_ms) is not int:
        raise InvalidUpdate(f"now_ms must be whole milliseconds since 1970, found {now_ms!r}")
    start = blank_metadata(_initial_version(updates), now_ms) if metadata is None else metadata
    draft = Draft(metadata, start, now_ms)
    for number, update in enumerate(updates):
        if type(update) not in _APPLY:
            raise InvalidUpdate(f"update number {number} is not one of a table: {update!r:.80}")
        _apply_one(draft, update, f"{update.action}, number {number}")
    if draft.outcome() == metadata:
        return metadata
    if draft.metadata.table_uuid is None and new_uuid is not None:
        assign_uuid(draft, AssignUuid(new_uuid))
    return _finished(draft, metadata_location)


def _apply_one(draft: Draft, update: TableUpdate, where: str) -> None:
    try:
        if not isinstance(update, _CHECKED_ON_APPLYING):
            check_update(update)
        _APPLY[type(update)](draft, update)
    except InvalidMetadata as error:  # values of wrong kinds
        raise InvalidUpdate(f"{error.path}: {error.message}", hint=error.hint, update=where) from error
    except (InvalidUpdate, CommitConflict, UnsupportedFeature) as error:
        error.with_context(update=where)
        raise
    except InvalidInput as error:  # a rule of schemas, partition specs or sort orders
        raise InvalidUpdate(error.message, hint=error.hint, **error.context, update=where) from error


def _initial_version(updates: Iterable[TableUpdate]) -> int:
    """A table that is created has the version it is first upgraded to, not that of an imagined earlier state."""
    for update in updates:
        if isinstance(update, UpgradeFormatVersion):
            check_format_version(update.format_version)
            return update.format_version
    return DEFAULT_FORMAT_VERSION


# identity, location, properties, keys -----------------------------------------------------------------------------


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
    version = integer_property(update.updates, FORMAT_VERSION, default=draft.metadata.format_version)
    upgrade_format_version(draft, UpgradeFormatVersion(version))
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


_APPLY: Final[Mapping[type[Any], Callable[[Draft, Any], None]]] = {
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

_CHECKED_ON_APPLYING: Final = (AddSchema, AddPartitionSpec, AddSortOrder)
"""Updates with large values, which have rules of their own."""


# the outcome ------------------------------------------------------------------------------------------------------


def _finished(draft: Draft, metadata_location: str | None) -> TableMetadata:
    """The draft with its logs and time, checked as a whole."""
    _check_complete(draft.metadata)
    draft.change(
        snapshot_log=updated_snapshot_log(draft),
        metadata_log=_updated_metadata_log(draft, metadata_location),
        last_updated_ms=draft.now_ms,
    )
    _check_clock(draft.metadata)
    _check_nothing_missed(draft)
    try:
        check_for_writing(draft.metadata)
    except InvalidMetadata as error:
        raise InvalidUpdate(
            f"the updates would leave the table invalid: {error.path}: {error.message}", hint=error.hint
        ) from error
    return draft.metadata


def _check_complete(metadata: TableMetadata) -> None:
    """A table that is created must be given all its parts; only old v1 tables have no uuid."""
    missing = None
    if metadata.table_uuid is None and metadata.format_version > 1:
        missing = "uuid"
    elif not metadata.location:
        missing = "location"
    elif metadata.current_schema_id == NO_ID:
        missing = "current schema"
    elif metadata.default_spec_id == NO_ID:
        missing = "default partition spec"
    elif metadata.default_sort_order_id == NO_ID:
        missing = "default sort order"
    if missing is not None:
        raise InvalidUpdate(f"the table would have no {missing}", hint="add an update that gives it one")


def _updated_metadata_log(draft: Draft, metadata_location: str | None) -> tuple[MetadataLogEntry, ...]:
    """The log with the file that is being replaced, and not more entries than the table's property allows."""
    log = draft.metadata.metadata_log
    if draft.base is None or metadata_location is None:
        return log
    limit = integer_property(
        draft.metadata.properties, METADATA_PREVIOUS_VERSIONS_MAX, default=_MAX_PREVIOUS_METADATA_FILES
    )
    entry = MetadataLogEntry(timestamp_ms=draft.base.last_updated_ms, metadata_file=metadata_location)
    return (*log, entry)[-max(1, limit) :]


def _check_clock(metadata: TableMetadata) -> None:
    """Times may go back a little, for clocks differ, but not by more than that (as in Java)."""
    for log in (metadata.snapshot_log, metadata.metadata_log):
        if log and metadata.last_updated_ms < log[-1].timestamp_ms - CLOCK_SKEW_MS:
            raise InvalidUpdate(
                f"the table cannot be updated at {metadata.last_updated_ms} ms: "
                f"its log has an entry of {log[-1].timestamp_ms} ms",
                hint="the clock of this machine, or of the one that wrote before, is wrong",
            )


def _check_nothing_missed(draft: Draft) -> None:
    """What was removed must not be needed by what is still there, and what was set must be allowed."""
    metadata = draft.metadata
    for snapshot in metadata.snapshots if draft.removed_schemas else ():
        if snapshot.schema_id in draft.removed_schemas and snapshot.schema_id not in metadata.schemas_by_id:
            raise InvalidUpdate(
                f"schema {snapshot.schema_id} cannot be removed: snapshot {snapshot.snapshot_id} was written with it",
                hint="expire the snapshot first",
            )
    keys = {key.key_id for key in metadata.encryption_keys}
    for snapshot in metadata.snapshots if draft.removed_keys else map(metadata.snapshot, draft.added_snapshots):
        concerned = snapshot.snapshot_id in draft.added_snapshots or snapshot.key_id in draft.removed_keys
        if concerned and snapshot.key_id is not None and snapshot.key_id not in keys:
            raise InvalidUpdate(
                f"snapshot {snapshot.snapshot_id} is encrypted with key {snapshot.key_id!r}, "
                "which the table would not have"
            )
    for key in metadata.encryption_keys:
        if key.encrypted_by_id in draft.removed_keys - keys:
            raise InvalidUpdate(
                f"encryption key {key.encrypted_by_id!r} cannot be removed: key {key.key_id!r} is encrypted with it"
            )
    early = draft.set_properties & ENCRYPTION_PROPERTIES & metadata.properties.keys()
    if early and metadata.format_version < 3:
        raise InvalidUpdate(
            f"{', '.join(sorted(early))} needs format version 3; the table has {metadata.format_version}",
            hint="upgrade the table's format version first",
        )
