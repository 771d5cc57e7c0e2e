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

Raising a table's format version, 1 to 2 to 3 (spec: Appendix E).

Nothing but the metadata file changes: manifests and data files of earlier versions stay valid, and what they lack is
read as the default of the later version. There is no way back, for writers of the later version make files that the
earlier one cannot read.

| to | what the metadata gets |
|---|---|
| 2 | a uuid if it has none; sequence numbers, all 0 so far; a `main` ref where there is a current snapshot |
| 3 | `next-row-id`, which starts at 0; snapshots of before keep having no row ids |
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
from floe.spec.properties import (
    ENCRYPTION_PROPERTIES,
    METADATA_PREVIOUS_VERSIONS_MAX,
)

# Raising a table's format version, 1 to 2 to 3 (spec: Appendix E).


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
        HANDLERS[type(update)](draft, update)
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
    limit = METADATA_PREVIOUS_VERSIONS_MAX.read(draft.metadata.properties)
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
