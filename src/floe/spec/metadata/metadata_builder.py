"""Applies updates to table metadata: `apply` is one pure function.

Updates are applied in order by the handlers of `floe.spec.metadata.update_handlers`, each to the result of those before
it. Then the result is checked: current and default ids exist, sequence numbers and row ids only grow, and the logs
record what readers saw. The metadata that was passed is never changed.

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

from collections.abc import Iterable, Sequence
from typing import Final

from floe.errors import CommitConflict, InvalidInput, InvalidMetadata, InvalidUpdate, UnsupportedFeature
from floe.spec.metadata.metadata_checks import CLOCK_SKEW_MS, check_for_writing
from floe.spec.metadata.table_metadata import MetadataLogEntry, TableMetadata
from floe.spec.metadata.update_handlers import (
    HANDLERS,
    NO_ID,
    Draft,
    assign_uuid,
    blank_metadata,
    check_format_version,
    updated_snapshot_log,
)
from floe.spec.metadata.updates import (
    AddPartitionSpec,
    AddSchema,
    AddSortOrder,
    AssignUuid,
    TableUpdate,
    UpgradeFormatVersion,
    check_update,
)
from floe.spec.properties import ENCRYPTION_PROPERTIES, METADATA_PREVIOUS_VERSIONS_MAX

DEFAULT_FORMAT_VERSION: Final = 2
"""The format version of a new table, unless another is requested."""

_CHECKED_BY_HANDLERS: Final = (AddSchema, AddPartitionSpec, AddSortOrder)
"""Updates with large values, which their handlers check by rules of their own."""


def apply(
    metadata: TableMetadata | None,
    updates: Sequence[TableUpdate],
    *,
    now_ms: int,
    metadata_location: str | None = None,
    new_uuid: str | None = None,
) -> TableMetadata:
    """Apply updates to table metadata; returns the new metadata, or the same object if nothing changes.

    If `metadata` is None, the updates create a table. `metadata_location` is the file of the metadata that was passed;
    it is added to the metadata log. `new_uuid` becomes the UUID of a table that has none, as old v1 tables do.

    Raises `InvalidUpdate` if an update cannot be applied, and `CommitConflict` if it was created for an earlier state
    of the table, such as a snapshot with a sequence number that is used already: created again it can succeed.

    >>> from floe.spec.metadata.updates import SetLocation
    >>> apply(None, [SetLocation("s3://bucket/t")], now_ms=0)
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: the table would have no uuid; add an update that gives it one
    """
    if type(now_ms) is not int:
        raise InvalidUpdate(f"now_ms must be whole milliseconds since 1970, found {now_ms!r}")
    start = blank_metadata(_initial_version(updates), now_ms) if metadata is None else metadata
    draft = Draft(metadata, start, now_ms)
    for number, update in enumerate(updates):
        if type(update) not in HANDLERS:
            raise InvalidUpdate(f"update number {number} is not one of a table: {update!r:.80}")
        _apply_update(draft, update, f"{update.action}, number {number}")
    if draft.outcome() == metadata:
        return metadata
    if draft.metadata.table_uuid is None and new_uuid is not None:
        assign_uuid(draft, AssignUuid(new_uuid))
    return _finish(draft, metadata_location)


def _apply_update(draft: Draft, update: TableUpdate, label: str) -> None:
    """Apply one update; errors get its label as context."""
    try:
        if not isinstance(update, _CHECKED_BY_HANDLERS):
            check_update(update)
        HANDLERS[type(update)](draft, update)
    except InvalidMetadata as error:  # values of wrong types
        raise InvalidUpdate(f"{error.path}: {error.message}", hint=error.hint, update=label) from error
    except (InvalidUpdate, CommitConflict, UnsupportedFeature) as error:
        error.with_context(update=label)
        raise
    except InvalidInput as error:  # a rule of schemas, partition specs or sort orders
        raise InvalidUpdate(error.message, hint=error.hint, **error.context, update=label) from error


def _initial_version(updates: Iterable[TableUpdate]) -> int:
    """The format version that a new table starts with: that of its first upgrade, so that it is created with it."""
    for update in updates:
        if isinstance(update, UpgradeFormatVersion):
            check_format_version(update.format_version)
            return update.format_version
    return DEFAULT_FORMAT_VERSION


# Result ----------------------------------------------------------------------------------------------------------


def _finish(draft: Draft, metadata_location: str | None) -> TableMetadata:
    """Update the logs and the timestamp of the draft, and check the result."""
    _check_complete(draft.metadata)
    draft.change(
        snapshot_log=updated_snapshot_log(draft),
        metadata_log=_updated_metadata_log(draft, metadata_location),
        last_updated_ms=draft.now_ms,
    )
    _check_clock(draft.metadata)
    _check_references(draft)
    try:
        check_for_writing(draft.metadata)
    except InvalidMetadata as error:
        raise InvalidUpdate(
            f"the updates would leave the table invalid: {error.path}: {error.message}", hint=error.hint
        ) from error
    return draft.metadata


def _check_complete(metadata: TableMetadata) -> None:
    """Raise if the updates that create a table do not set all its parts; only old v1 tables have no UUID."""
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
    """The metadata log with the previous file, limited to as many entries as the table's property allows."""
    log = draft.metadata.metadata_log
    if draft.base is None or metadata_location is None:
        return log
    limit = METADATA_PREVIOUS_VERSIONS_MAX.read(draft.metadata.properties)
    entry = MetadataLogEntry(timestamp_ms=draft.base.last_updated_ms, metadata_file=metadata_location)
    return (*log, entry)[-max(1, limit) :]


def _check_clock(metadata: TableMetadata) -> None:
    """Raise if the update is older than the last log entry by more than clocks may differ (as in Java)."""
    for log in (metadata.snapshot_log, metadata.metadata_log):
        if log and metadata.last_updated_ms < log[-1].timestamp_ms - CLOCK_SKEW_MS:
            raise InvalidUpdate(
                f"the table cannot be updated at {metadata.last_updated_ms} ms: "
                f"its log has an entry of {log[-1].timestamp_ms} ms",
                hint="the clock of this machine, or of the one that wrote before, is wrong",
            )


def _check_references(draft: Draft) -> None:
    """Raise if a removed schema or key is still referred to, or if a property needs a later format version."""
    metadata = draft.metadata
    for snapshot in metadata.snapshots if draft.removed_schemas else ():
        if snapshot.schema_id in draft.removed_schemas and snapshot.schema_id not in metadata.schemas_by_id:
            raise InvalidUpdate(
                f"schema {snapshot.schema_id} cannot be removed: snapshot {snapshot.snapshot_id} was written with it",
                hint="expire the snapshot first",
            )
    keys = {key.key_id for key in metadata.encryption_keys}
    for snapshot in metadata.snapshots if draft.removed_keys else map(metadata.snapshot, draft.added_snapshots):
        affected = snapshot.snapshot_id in draft.added_snapshots or snapshot.key_id in draft.removed_keys
        if affected and snapshot.key_id is not None and snapshot.key_id not in keys:
            raise InvalidUpdate(
                f"snapshot {snapshot.snapshot_id} is encrypted with key {snapshot.key_id!r}, "
                "which the table would not have"
            )
    for key in metadata.encryption_keys:
        if key.encrypted_by_id in draft.removed_keys - keys:
            raise InvalidUpdate(
                f"encryption key {key.encrypted_by_id!r} cannot be removed: key {key.key_id!r} is encrypted with it"
            )
    encryption = draft.set_properties & ENCRYPTION_PROPERTIES & metadata.properties.keys()
    if encryption and metadata.format_version < 3:
        raise InvalidUpdate(
            f"{', '.join(sorted(encryption))} needs format version 3; the table has {metadata.format_version}",
            hint="upgrade the table's format version first",
        )
