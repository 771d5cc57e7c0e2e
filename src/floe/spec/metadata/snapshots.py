"""Snapshots: the state of a table at some time, and what changed to get there (spec: Snapshots).

The summary of a snapshot: its keys, and the totals that go on from the summary of the branch's head.

A summary says what a commit changed (`added-records`, `deleted-data-files`, …) and what the table then holds
(`total-records`, …). The totals are never counted anew: each is the total of the snapshot before, plus what was added,
minus what was removed (spec: Appendix F, Optional Snapshot Summary Fields).

Branches and tags: names for snapshots, with how long to keep them (spec: Snapshot References).
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
    SummaryField = msgspec.Raw  # most of a large document is summaries: they stay undecoded until someone asks

OPERATIONS: Final = ("append", "replace", "overwrite", "delete")
"""What a snapshot can have done: only added files; rewrote them without changing rows; changed rows; removed rows."""

OPERATION: Final = "operation"
"""The key of the summary that holds the operation."""

_ASSUMED_OPERATION: Final = "overwrite"
"""What a summary without an operation counts as, here as in Java: the kind that promises the least."""


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
    """The order of changes to the table; 0 in snapshots of format version 1."""

    snapshot_id: Int64
    parent_snapshot_id: Int64 | None = None
    timestamp_ms: Int64
    summary: SummaryField = None
    """What the snapshot did, and counts of it: strings by name, `operation` among them."""

    manifest_list: str | None = None
    """Where the manifest list lies; None only in format version 1, which may list `manifests` here instead."""

    manifests: tuple[str, ...] | None = None
    schema_id: Int32 | None = None
    """The table's schema when the snapshot was made; old writers did not record it."""

    first_row_id: Int64 | None = None
    """Format version 3: the row id of the first row that the snapshot added."""

    added_rows: Int64 | None = None
    """Format version 3: how many row ids the snapshot took, at most."""

    key_id: str | None = None
    """The id of the encryption key of the manifest list's key metadata."""

    @property
    def operation(self) -> str | None:
        """What the snapshot did: append, replace, overwrite or delete; None without a summary.

        A summary that does not say counts as `overwrite`, the kind that promises the least.
        """
        return self.summary.get(OPERATION, _ASSUMED_OPERATION) if self.summary else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and _attributes(self) == _attributes(other)

    def __hash__(self) -> int:
        return hash(self.snapshot_id)

    def __repr__(self) -> str:
        return f"Snapshot({', '.join(f'{name}={value!r}' for name, value in non_default_attributes(self).items())})"


# The decoder leaves a summary in its slot as raw JSON, a view of the document: summaries are most of it, and a reader
# needs few or none. The attribute decodes the slot when it is read first. A wrapper around each would cost as much time
# as all else.
_STORED_SUMMARY: Final[Any] = Snapshot.__dict__["summary"]
_SUMMARY: Final = msgspec.json.Decoder(dict[str, str] | None)


def _read_summary(snapshot: Snapshot) -> Mapping[str, str] | None:
    """The summary, decoded when it is asked for the first time."""
    summary = _STORED_SUMMARY.__get__(snapshot)
    if summary.__class__ is msgspec.Raw:
        try:
            raw, summary = bytes(summary), _SUMMARY.decode(summary)
        except (msgspec.DecodeError, RecursionError) as error:
            raise _wrong_summary(summary, error).with_context(snapshot=snapshot.snapshot_id) from error
        if summary is not None and raw.count(b'"') != 4 * len(summary):  # a quote in a text, or a key that stands twice
            _check_summary_keys(raw, snapshot)
        _STORED_SUMMARY.__set__(snapshot, summary)
    return cast("Mapping[str, str] | None", summary)


type.__setattr__(Snapshot, "summary", property(_read_summary, doc="What the snapshot did, and counts of it."))


def _check_summary_keys(raw: bytes, snapshot: Snapshot) -> None:
    try:
        check_unique_keys(raw)
    except InvalidMetadata as error:
        raise error.at(".summary").with_context(snapshot=snapshot.snapshot_id) from None


def has_undecoded_summary(snapshot: Snapshot) -> bool:
    """Whether nobody has asked for the summary yet, so that it can be written again as it was read.

    >>> has_undecoded_summary(Snapshot(snapshot_id=1, timestamp_ms=5, summary={"operation": "append"}))
    False
    """
    return _STORED_SUMMARY.__get__(snapshot).__class__ is msgspec.Raw


def _attributes(snapshot: Snapshot) -> dict[str, Any]:
    return {name: getattr(snapshot, name) for name in snapshot.__struct_fields__}


def check_snapshot_id(given: object) -> None:
    """Raise for what is no snapshot id, above all for a snapshot itself.

    >>> check_snapshot_id("7")
    Traceback (most recent call last):
    floe.errors.InvalidInput: a snapshot is given by its id, a whole number; found '7'; the id of a snapshot is ...
    """
    if type(given) is not int:
        raise InvalidInput(
            f"a snapshot is given by its id, a whole number; found {given!r:.80}",
            hint="the id of a snapshot is its snapshot_id",
        )


def new_snapshot_id(taken: Container[int] = (), make_uuid: Callable[[], UUID] = uuid4) -> int:
    """A random positive id that is not taken yet, made from a uuid as in Java (spec: Assignment of Snapshot IDs).

    >>> new_snapshot_id(make_uuid=lambda: UUID("00000000-0000-0005-8000-000000000003"))
    6
    """
    while True:
        high, low = divmod(make_uuid().int, 2**64)
        snapshot_id = (high ^ low) & (2**63 - 1)
        if snapshot_id > 0 and snapshot_id not in taken:
            return snapshot_id


def snapshot_from_json(json: Any) -> Snapshot:
    """The snapshot that a JSON object describes; unknown keys are kept in `extra`.

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
    """The JSON object of a snapshot.

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


def _wrong_summary(raw: msgspec.Raw, error: msgspec.DecodeError | RecursionError) -> InvalidMetadata:
    """What is wrong with a summary that the decoder refused, at its exact place."""
    try:
        _summary_from_json(msgspec.json.decode(raw))
    except InvalidMetadata as found:
        return found
    except (msgspec.DecodeError, RecursionError):
        pass
    return invalid_json(error).at(".summary")


def _operation_first(summary: Mapping[str, str]) -> dict[str, str]:
    if OPERATION not in summary:
        return dict(summary)
    return {OPERATION: summary[OPERATION]} | dict(summary)


# The summary of a snapshot: its keys, and the totals that go on from the summary of the branch's head.

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

# Written by other engines though the spec does not list them.
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
"""Each total, with the key that raises it and the key that lowers it."""

_MAX_LONG = 2**63 - 1


def with_totals(summary: Mapping[str, str], head: Mapping[str, str] | None) -> dict[str, str]:
    """The summary of a new snapshot with its totals.

    `head` is the summary of the snapshot at the head of the branch that is written to: None when the branch has no
    snapshot yet, so that totals start at zero, and empty when that snapshot has no summary, so that nothing is known.
    A total that is not known, or that would fall below zero because a writer before miscounted, is left out rather
    than invented.

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
    """Raise unless a `replace` keeps the table's rows: it may not add more records than it removes.

    Fewer is right, for a compaction drops rows that delete files had deleted.

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
    """The count that a summary's text holds, or None when it holds none: summaries come from many writers."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 19:
        return None
    return int(text)


# Branches and tags: names for snapshots, with how long to keep them (spec: Snapshot References).

MAIN_BRANCH = "main"
"""The branch that readers see unless told otherwise; it never expires."""


class SnapshotRef(Record, frozen=True, kw_only=True):
    """What a branch or tag points at.

    >>> SnapshotRef(snapshot_id=7, type="branch", min_snapshots_to_keep=5).is_branch
    True
    """

    snapshot_id: Int64
    type: Literal["branch", "tag"]
    min_snapshots_to_keep: Int32 | None = None
    """Branches only: how many snapshots to keep, however old; the table's property decides when None."""

    max_snapshot_age_ms: Int64 | None = None
    """Branches only: how old a snapshot may become before it expires."""

    max_ref_age_ms: Int64 | None = None
    """How old the snapshot may become before the reference itself goes; `main` ignores it."""

    @property
    def is_branch(self) -> bool:
        """Whether commits can move the reference."""
        return self.type == "branch"

    @property
    def is_tag(self) -> bool:
        """Whether the reference is a label that stays where it is."""
        return self.type == "tag"

    def at(self, snapshot_id: int) -> SnapshotRef:
        """The same reference, with its retention, pointing at another snapshot.

        >>> SnapshotRef(snapshot_id=7, type="tag", max_ref_age_ms=9).at(8)
        SnapshotRef(snapshot_id=8, type='tag', max_ref_age_ms=9)
        """
        return msgspec.structs.replace(self, snapshot_id=snapshot_id)

    def kept(
        self, *, min_snapshots_to_keep: int | None, max_snapshot_age_ms: int | None, max_ref_age_ms: int | None
    ) -> SnapshotRef:
        """The same reference with another retention.

        >>> ref = SnapshotRef(snapshot_id=7, type="tag", max_ref_age_ms=9)
        >>> ref.kept(min_snapshots_to_keep=None, max_snapshot_age_ms=None, max_ref_age_ms=5).max_ref_age_ms
        5
        """
        return msgspec.structs.replace(
            self,
            min_snapshots_to_keep=min_snapshots_to_keep,
            max_snapshot_age_ms=max_snapshot_age_ms,
            max_ref_age_ms=max_ref_age_ms,
        )
