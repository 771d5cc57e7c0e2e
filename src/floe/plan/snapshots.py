"""Which snapshot a read sees, and with which schema: the newest, or one chosen by id, branch, tag or time."""

from __future__ import annotations

from floe.errors import InvalidInput
from floe.spec.metadata.refs import MAIN_BRANCH
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.schema import Schema

__all__ = ["choose_snapshot", "schema_for"]


def choose_snapshot(
    metadata: TableMetadata, *, snapshot: int | None = None, ref: str | None = None, as_of_ms: int | None = None
) -> Snapshot | None:
    """The snapshot of an id, of a branch or tag, or the one that readers saw at a time; by default the current one.

    None comes for a table without a current snapshot. Times are milliseconds from 1970-01-01 UTC, and the snapshot log
    decides, so that a rollback is seen as it was (spec: Point in Time Reads).

    >>> from floe.spec.metadata.table_metadata_json import parse
    >>> metadata = parse(
    ...     b'''{"format-version": 1, "location": "s3://bucket/t", "last-updated-ms": 30, "last-column-id": 0,
    ...     "schema": {"type": "struct", "fields": []}, "partition-spec": [], "current-snapshot-id": 2,
    ...     "snapshots": [{"snapshot-id": 1, "timestamp-ms": 10, "manifests": []},
    ...                   {"snapshot-id": 2, "parent-snapshot-id": 1, "timestamp-ms": 20, "manifests": []}],
    ...     "snapshot-log": [{"snapshot-id": 1, "timestamp-ms": 10}, {"snapshot-id": 2, "timestamp-ms": 20}]}'''
    ... )
    >>> choose_snapshot(metadata).snapshot_id, choose_snapshot(metadata, as_of_ms=19).snapshot_id
    (2, 1)
    >>> choose_snapshot(metadata, ref="audit")
    Traceback (most recent call last):
    floe.errors.NoSuchRef: the table has no branch or tag named 'audit'; there are main
    """
    _check_one(snapshot, ref, as_of_ms)
    if snapshot is not None:
        return metadata.snapshot(snapshot)
    if as_of_ms is not None:
        return metadata.snapshot_as_of(as_of_ms)
    if ref is None or (ref == MAIN_BRANCH and ref not in metadata.refs):
        return metadata.current_snapshot
    return metadata.snapshot_of_ref(ref)


def schema_for(
    metadata: TableMetadata, *, snapshot: int | None = None, ref: str | None = None, as_of_ms: int | None = None
) -> Schema:
    """The schema that a read of that snapshot uses.

    A branch goes on with the table, so it is read with the current schema. What is read by id, tag or time is the past,
    and has the schema of its time (spec: Point in Time Reads; Java does the same).

    >>> from floe.spec.metadata.table_metadata_json import parse
    >>> metadata = parse(
    ...     b'''{"format-version": 2, "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1", "location": "s3://bucket/t",
    ...     "last-sequence-number": 1, "last-updated-ms": 10, "last-column-id": 1, "current-schema-id": 1,
    ...     "schemas": [{"type": "struct", "schema-id": 0, "fields": []}, {"type": "struct", "schema-id": 1, "fields":
    ...     [{"id": 1, "name": "x", "required": false, "type": "int"}]}], "default-spec-id": 0, "partition-specs":
    ...     [{"spec-id": 0, "fields": []}], "last-partition-id": 999, "default-sort-order-id": 0, "sort-orders":
    ...     [{"order-id": 0, "fields": []}], "current-snapshot-id": 1, "snapshots": [{"sequence-number": 1,
    ...     "snapshot-id": 1, "timestamp-ms": 10, "manifest-list": "snap-1.avro", "schema-id": 0}]}'''
    ... )
    >>> schema_for(metadata).schema_id, schema_for(metadata, snapshot=1).schema_id
    (1, 0)
    """
    _check_one(snapshot, ref, as_of_ms)
    is_branch = ref is not None and (ref == MAIN_BRANCH or metadata.ref(ref).is_branch)
    chosen = None if is_branch else choose_snapshot(metadata, snapshot=snapshot, ref=ref, as_of_ms=as_of_ms)
    if chosen is None or (snapshot is None and ref is None and as_of_ms is None):
        return metadata.schema
    return metadata.schema_for(chosen)


def _check_one(snapshot: int | None, ref: str | None, as_of_ms: int | None) -> None:
    given = {"snapshot": snapshot, "ref": ref, "as_of_ms": as_of_ms}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise InvalidInput(f"a snapshot is chosen in one way, found {' and '.join(names)}")
