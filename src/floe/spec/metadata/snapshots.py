"""Snapshots, their summaries, and the branches and tags that refer to them (spec: Snapshots, Snapshot References).

A summary has counts of what a commit changed (`added-records`, `deleted-data-files`, …) and totals of the table after
it (`total-records`, …). Totals are never counted again: each is the total of the previous snapshot, plus what was
added, minus what was removed (spec: Appendix F, Optional Snapshot Summary Fields).

Summaries are most of a large metadata file, and few of them are ever read, so a `Snapshot` keeps its summary as raw
JSON until the attribute is read for the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from uuid import UUID, uuid4

import msgspec

from floe.errors import InvalidInput, InvalidMetadata, InvalidUpdate
from floe.spec.json_reader import check_unique_keys, invalid_json
from floe.spec.json_records import (
    Int32,
    Int64,
    Record,
    non_default_attributes,
    record_from_json,
    record_to_json,
    string_map_from_json,
)

if TYPE_CHECKING:
    SummaryField = Mapping[str, str] | None
else:
    SummaryField = msgspec.Raw  # left undecoded until the attribute is read

OPERATIONS: Final = ("append", "replace", "overwrite", "delete")
"""The operations of snapshots: only added files; replaced files by others with the same rows; changed rows; removed
rows."""

OPERATION: Final = "operation"
"""The summary key of the operation."""

_ASSUMED_OPERATION: Final = "overwrite"
"""The operation of a summary without one, as in Java: the one that guarantees least."""


class Snapshot(Record, frozen=True, kw_only=True, eq=False):
    """The state of a table at some time.

    >>> snapshot = Snapshot(
    ...     sequence_number=3,
    ...     snapshot_id=30,
    ...     parent_snapshot_id=20,
    ...     timestamp_ms=1515100955770,
    ...     summary={"operation": "append", "added-data-files": "4"},
    ...     manifest_list="s3://bucket/t/metadata/snap-30.avro",
    ... )
    >>> snapshot.operation
    'append'
    """

    sequence_number: Int64 = 0
    """Increases with every commit to the table; 0 in snapshots of format version 1."""

    snapshot_id: Int64
    parent_snapshot_id: Int64 | None = None
    timestamp_ms: Int64
    summary: SummaryField = None
    """The operation and counts of what changed, as strings by key."""

    manifest_list: str | None = None
    """The location of the manifest list; None only in format version 1, which may have `manifests` instead."""

    manifests: tuple[str, ...] | None = None
    schema_id: Int32 | None = None
    """The id of the table's schema when the snapshot was created; old writers did not record it."""

    first_row_id: Int64 | None = None
    """Format version 3: the first row id that the snapshot assigned."""

    added_rows: Int64 | None = None
    """Format version 3: an upper bound of the number of row ids that the snapshot assigned."""

    key_id: str | None = None
    """The id of the encryption key that encrypts the manifest list's key metadata."""

    @property
    def operation(self) -> str | None:
        """The operation: append, replace, overwrite or delete; None without a summary.

        A summary without an operation counts as `overwrite`, which guarantees least.
        """
        return self.summary.get(OPERATION, _ASSUMED_OPERATION) if self.summary else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and _attributes(self) == _attributes(other)

    def __hash__(self) -> int:
        return hash(self.snapshot_id)

    def __repr__(self) -> str:
        return f"Snapshot({', '.join(f'{name}={value!r}' for name, value in non_default_attributes(self).items())})"


# Lazily decoded summaries ----------------------------------------------------------------------------------------
# The decoder stores a summary in its slot as raw JSON, a view of the document. The property below decodes the slot when
# it is first read. A wrapper object for each summary would take as long as decoding everything else.
_STORED_SUMMARY: Final[Any] = Snapshot.__dict__["summary"]
_SUMMARY: Final = msgspec.json.Decoder(dict[str, str] | None)


def _read_summary(snapshot: Snapshot) -> Mapping[str, str] | None:
    """Return the summary of a snapshot; decode it if this is the first read."""
    summary = _STORED_SUMMARY.__get__(snapshot)
    if summary.__class__ is msgspec.Raw:
        try:
            raw, summary = bytes(summary), _SUMMARY.decode(summary)
        except (msgspec.DecodeError, RecursionError) as error:
            raise _summary_error(summary, error).with_context(snapshot=snapshot.snapshot_id) from error
        if summary is not None and raw.count(b'"') != 4 * len(summary):  # an escaped quote, or a duplicate key
            _check_summary_keys(raw, snapshot)
        _STORED_SUMMARY.__set__(snapshot, summary)
    return cast("Mapping[str, str] | None", summary)


type.__setattr__(Snapshot, "summary", property(_read_summary, doc="The operation and counts of what changed."))


def _check_summary_keys(raw: bytes, snapshot: Snapshot) -> None:
    try:
        check_unique_keys(raw)
    except InvalidMetadata as error:
        raise error.at(".summary").with_context(snapshot=snapshot.snapshot_id) from None


def has_undecoded_summary(snapshot: Snapshot) -> bool:
    """Whether the summary has not been read yet, so that it can be written as it was stored.

    >>> has_undecoded_summary(Snapshot(snapshot_id=1, timestamp_ms=5, summary={"operation": "append"}))
    False
    """
    return _STORED_SUMMARY.__get__(snapshot).__class__ is msgspec.Raw


def _attributes(snapshot: Snapshot) -> dict[str, Any]:
    return {name: getattr(snapshot, name) for name in snapshot.__struct_fields__}


# Ids -------------------------------------------------------------------------------------------------------------


def check_snapshot_id(snapshot_id: object) -> None:
    """Raise `InvalidInput` unless the argument is an integer; callers often pass a `Snapshot` instead.

    >>> check_snapshot_id("7")
    Traceback (most recent call last):
    floe.errors.InvalidInput: a snapshot id must be an integer, found '7'; the id of a snapshot is its snapshot_id
    """
    if type(snapshot_id) is not int:
        raise InvalidInput(
            f"a snapshot id must be an integer, found {snapshot_id!r:.80}",
            hint="the id of a snapshot is its snapshot_id",
        )


def new_snapshot_id(used: Container[int] = (), make_uuid: Callable[[], UUID] = uuid4) -> int:
    """A random positive id that is not used yet, computed from a UUID as in Java (spec: Assignment of Snapshot IDs).

    >>> new_snapshot_id(make_uuid=lambda: UUID("00000000-0000-0005-8000-000000000003"))
    6
    """
    while True:
        high, low = divmod(make_uuid().int, 2**64)
        snapshot_id = (high ^ low) & (2**63 - 1)
        if snapshot_id > 0 and snapshot_id not in used:
            return snapshot_id


# JSON ------------------------------------------------------------------------------------------------------------


def snapshot_from_json(json: Any) -> Snapshot:
    """Parse a snapshot from a JSON object; unknown keys are kept in `extra`.

    >>> snapshot_from_json({"snapshot-id": 1, "timestamp-ms": 5, "manifests": ["a.avro"]}).manifests
    ('a.avro',)
    """
    summary = None
    if isinstance(json, dict) and "summary" in json:
        summary = _summary_from_json(json["summary"])
        json = {key: value for key, value in json.items() if key != "summary"}
    snapshot = record_from_json(Snapshot, json)
    return snapshot if summary is None else msgspec.structs.replace(snapshot, summary=summary)


def snapshot_to_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as a JSON object.

    >>> snapshot_to_json(Snapshot(snapshot_id=1, timestamp_ms=5, summary={"operation": "append"}, manifest_list="x"))
    {'snapshot-id': 1, 'timestamp-ms': 5, 'summary': {'operation': 'append'}, 'manifest-list': 'x'}
    """
    if snapshot.summary is not None:
        snapshot = msgspec.structs.replace(snapshot, summary=_operation_first(snapshot.summary))
    return record_to_json(snapshot)


def _summary_from_json(json: Any) -> dict[str, str] | None:
    try:
        return None if json is None else string_map_from_json(json)
    except InvalidMetadata as error:
        raise error.at(".summary") from None


def _summary_error(raw: msgspec.Raw, error: msgspec.DecodeError | RecursionError) -> InvalidMetadata:
    """The error for a summary that the decoder refused, with the exact path of the problem."""
    try:
        _summary_from_json(msgspec.json.decode(raw))
    except InvalidMetadata as precise_error:
        return precise_error
    except (msgspec.DecodeError, RecursionError):
        pass
    return invalid_json(error).at(".summary")


def _operation_first(summary: Mapping[str, str]) -> dict[str, str]:
    if OPERATION not in summary:
        return dict(summary)
    return {OPERATION: summary[OPERATION]} | dict(summary)


# Summary keys and totals -----------------------------------------------------------------------------------------

ADDED_DATA_FILES: Final = "added-data-files"
DELETED_DATA_FILES: Final = "deleted-data-files"
TOTAL_DATA_FILES: Final = "total-data-files"
ADDED_DELETE_FILES: Final = "added-delete-files"
REMOVED_DELETE_FILES: Final = "removed-delete-files"
TOTAL_DELETE_FILES: Final = "total-delete-files"
ADDED_EQUALITY_DELETE_FILES: Final = "added-equality-delete-files"
REMOVED_EQUALITY_DELETE_FILES: Final = "removed-equality-delete-files"
ADDED_POSITION_DELETE_FILES: Final = "added-position-delete-files"
REMOVED_POSITION_DELETE_FILES: Final = "removed-position-delete-files"
ADDED_DVS: Final = "added-dvs"
REMOVED_DVS: Final = "removed-dvs"
ADDED_RECORDS: Final = "added-records"
DELETED_RECORDS: Final = "deleted-records"
TOTAL_RECORDS: Final = "total-records"
ADDED_FILES_SIZE: Final = "added-files-size"
REMOVED_FILES_SIZE: Final = "removed-files-size"
TOTAL_FILES_SIZE: Final = "total-files-size"
ADDED_POSITION_DELETES: Final = "added-position-deletes"
REMOVED_POSITION_DELETES: Final = "removed-position-deletes"
TOTAL_POSITION_DELETES: Final = "total-position-deletes"
ADDED_EQUALITY_DELETES: Final = "added-equality-deletes"
REMOVED_EQUALITY_DELETES: Final = "removed-equality-deletes"
TOTAL_EQUALITY_DELETES: Final = "total-equality-deletes"
DELETED_DUPLICATE_FILES: Final = "deleted-duplicate-files"
CHANGED_PARTITION_COUNT: Final = "changed-partition-count"
MANIFESTS_CREATED: Final = "manifests-created"
MANIFESTS_KEPT: Final = "manifests-kept"
MANIFESTS_REPLACED: Final = "manifests-replaced"
ENTRIES_PROCESSED: Final = "entries-processed"
WAP_ID: Final = "wap.id"
PUBLISHED_WAP_ID: Final = "published-wap-id"
SOURCE_SNAPSHOT_ID: Final = "source-snapshot-id"
ENGINE_NAME: Final = "engine-name"
ENGINE_VERSION: Final = "engine-version"

# Keys that other engines write, though the spec does not list them.
CHANGED_PARTITION_PREFIX: Final = "partitions."
PARTITION_SUMMARIES_INCLUDED: Final = "partition-summaries-included"
REPLACE_PARTITIONS: Final = "replace-partitions"
ICEBERG_VERSION: Final = "iceberg-version"
APP_ID: Final = "app-id"
SPARK_APP_ID: Final = "spark.app.id"

TOTALS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        TOTAL_RECORDS: (ADDED_RECORDS, DELETED_RECORDS),
        TOTAL_FILES_SIZE: (ADDED_FILES_SIZE, REMOVED_FILES_SIZE),
        TOTAL_DATA_FILES: (ADDED_DATA_FILES, DELETED_DATA_FILES),
        TOTAL_DELETE_FILES: (ADDED_DELETE_FILES, REMOVED_DELETE_FILES),
        TOTAL_POSITION_DELETES: (ADDED_POSITION_DELETES, REMOVED_POSITION_DELETES),
        TOTAL_EQUALITY_DELETES: (ADDED_EQUALITY_DELETES, REMOVED_EQUALITY_DELETES),
    }
)
"""Each total, with the keys of what is added to it and what is subtracted from it."""

_MAX_LONG = 2**63 - 1


def with_totals(summary: Mapping[str, str], head: Mapping[str, str] | None) -> dict[str, str]:
    """Return the summary of a new snapshot with its totals.

    `head` is the summary of the branch's current snapshot: None if the branch has no snapshot yet, so that totals start
    at zero, and empty if that snapshot has no summary, so that the totals are unknown. A total is omitted if it is
    unknown, or if it would be negative because an earlier writer miscounted.

    >>> first = with_totals({"operation": "append", "added-records": "10"}, None)
    >>> first["total-records"], first["total-data-files"]
    ('10', '0')
    >>> with_totals({"operation": "delete", "deleted-records": "4"}, first)["total-records"]
    '6'
    """
    out = {key: value for key, value in summary.items() if key not in TOTALS}
    for total, (added, removed) in TOTALS.items():
        before = 0 if head is None else _count(head.get(total))
        raised, lowered = _count(summary.get(added, "0")), _count(summary.get(removed, "0"))
        if before is None or raised is None or lowered is None:
            continue
        if 0 <= before + raised - lowered <= _MAX_LONG:
            out[total] = str(before + raised - lowered)
    return out


def check_replace(summary: Mapping[str, str]) -> None:
    """Raise `InvalidUpdate` if a `replace` adds more records than it removes, which would change the table's rows.

    It may add fewer: compaction drops the rows that delete files delete.

    >>> check_replace({"operation": "replace", "added-records": "9", "deleted-records": "10"})
    >>> check_replace({"operation": "replace", "added-records": "11", "deleted-records": "10"})
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: a replace must not add rows, but it adds 11 records and removes 10; ...
    """
    if summary.get(OPERATION) != "replace":
        return
    added, removed = _count(summary.get(ADDED_RECORDS, "0")), _count(summary.get(DELETED_RECORDS, "0"))
    if added is not None and removed is not None and added > removed:
        raise InvalidUpdate(
            f"a replace must not add rows, but it adds {added} records and removes {removed}",
            hint="commit it as an overwrite, or find the rows that were written twice",
        )


def _count(text: str | None) -> int | None:
    """Parse a count of a summary; None if it is not a number, because summaries come from many writers."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 19:
        return None
    return int(text)


# Branches and tags -----------------------------------------------------------------------------------------------

MAIN_BRANCH = "main"
"""The branch that readers see by default; it never expires."""


class SnapshotRef(Record, frozen=True, kw_only=True):
    """A branch or tag: the snapshot that it refers to, and its retention.

    >>> SnapshotRef(snapshot_id=7, type="branch", min_snapshots_to_keep=5).is_branch
    True
    """

    snapshot_id: Int64
    type: Literal["branch", "tag"]
    min_snapshots_to_keep: Int32 | None = None
    """Branches only: how many snapshots to keep at least, whatever their age; None for the table's property."""

    max_snapshot_age_ms: Int64 | None = None
    """Branches only: the age at which a snapshot expires; None for the table's property."""

    max_ref_age_ms: Int64 | None = None
    """The age of the snapshot at which the ref itself is removed; ignored for `main`."""

    @property
    def is_branch(self) -> bool:
        """Whether this is a branch, which commits move."""
        return self.type == "branch"

    @property
    def is_tag(self) -> bool:
        """Whether this is a tag, which commits do not move."""
        return self.type == "tag"

    def at(self, snapshot_id: int) -> SnapshotRef:
        """Return the ref with the same retention, pointing at another snapshot.

        >>> SnapshotRef(snapshot_id=7, type="tag", max_ref_age_ms=9).at(8)
        SnapshotRef(snapshot_id=8, type='tag', max_ref_age_ms=9)
        """
        return msgspec.structs.replace(self, snapshot_id=snapshot_id)

    def with_retention(
        self, *, min_snapshots_to_keep: int | None, max_snapshot_age_ms: int | None, max_ref_age_ms: int | None
    ) -> SnapshotRef:
        """Return the ref with another retention.

        >>> ref = SnapshotRef(snapshot_id=7, type="tag", max_ref_age_ms=9)
        >>> ref.with_retention(min_snapshots_to_keep=None, max_snapshot_age_ms=None, max_ref_age_ms=5).max_ref_age_ms
        5
        """
        return msgspec.structs.replace(
            self,
            min_snapshots_to_keep=min_snapshots_to_keep,
            max_snapshot_age_ms=max_snapshot_age_ms,
            max_ref_age_ms=max_ref_age_ms,
        )
