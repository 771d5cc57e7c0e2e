"""Snapshots: the state of a table at some time, and what changed to get there (spec: Snapshots)."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID, uuid4

import msgspec

from floe.errors import InvalidInput, InvalidMetadata
from floe.spec.json_keys import check_unique_keys
from floe.spec.metadata.json_errors import invalid_json
from floe.spec.metadata.records import (
    Int32,
    Int64,
    Record,
    given_attributes,
    record_from_json,
    record_to_json,
    string_map_from_json,
)

__all__ = [
    "OPERATION",
    "OPERATIONS",
    "Snapshot",
    "check_snapshot_id",
    "has_undecoded_summary",
    "new_snapshot_id",
    "snapshot_from_json",
    "snapshot_to_json",
]

OPERATIONS: Final = ("append", "replace", "overwrite", "delete")
"""What a snapshot can have done: only added files; rewrote them without changing rows; changed rows; removed rows."""

OPERATION: Final = "operation"
"""The key of the summary that holds the operation."""

_ASSUMED_OPERATION: Final = "overwrite"
"""What a summary without an operation counts as, here as in Java: the kind that promises the least."""

if TYPE_CHECKING:
    SummaryField = Mapping[str, str] | None
else:
    SummaryField = msgspec.Raw  # most of a large document is summaries: they stay undecoded until someone asks


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
        return f"Snapshot({', '.join(f'{name}={value!r}' for name, value in given_attributes(self).items())})"


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
