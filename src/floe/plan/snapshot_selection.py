"""The snapshots of a read: one by id, ref or timestamp, with its schema, or a range of a table's history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np

from floe.avro.manifest_columns import ManifestColumns
from floe.errors import InvalidInput, NoSuchSnapshot
from floe.plan.manifests import manifests_of_snapshot
from floe.spec.manifests.entries import EntryStatus, ManifestFile
from floe.spec.metadata.ancestry import is_ancestor_of, snapshots_between, unknown_before
from floe.spec.metadata.snapshots import MAIN_BRANCH, Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.schemas.schema import Schema
from floe.storage.concurrency import map_concurrently
from floe.storage.protocol import Storage

_READERS = 8


@dataclass(frozen=True, kw_only=True)
class SnapshotRange:
    """A range of a table's history: after a snapshot, or from a first one, up to and including another."""

    after: int | None = None
    """The id of the snapshot before the range, which may have expired as long as its child has not."""

    first: int | None = None
    """The id of the first snapshot; without it and `after`, the range begins with the oldest snapshot of the table."""

    until: int | None = None
    """The id of the last snapshot, by default the head of the branch; it must be in the history of `branch`."""

    branch: str | None = None
    """The branch, by default `main`."""


ALL_SNAPSHOTS: Final = SnapshotRange()
"""The whole history of the main branch."""


def snapshots_in_range(metadata: TableMetadata, snapshots: SnapshotRange = ALL_SNAPSHOTS) -> tuple[Snapshot, ...]:
    """The snapshots of a range, oldest first; raises `NoSuchSnapshot` if some of them have expired.

    >>> from floe.spec.metadata.table_metadata_json import parse
    >>> metadata = parse(
    ...     b'''{"format-version": 1, "location": "s3://bucket/t", "last-updated-ms": 30, "last-column-id": 0,
    ...     "schema": {"type": "struct", "fields": []}, "partition-spec": [], "current-snapshot-id": 3,
    ...     "snapshots": [{"snapshot-id": 2, "parent-snapshot-id": 1, "timestamp-ms": 20, "manifests": []},
    ...                   {"snapshot-id": 3, "parent-snapshot-id": 2, "timestamp-ms": 30, "manifests": []}]}'''
    ... )
    >>> [snapshot.snapshot_id for snapshot in snapshots_in_range(metadata, SnapshotRange(after=1))]
    [2, 3]
    >>> snapshots_in_range(metadata, SnapshotRange(after=7))
    Traceback (most recent call last):
    floe.errors.NoSuchSnapshot: snapshot 7 is not in the history of snapshot 3; ...
    """
    after, first = snapshots.after, snapshots.first
    if after is not None and first is not None:
        raise InvalidInput("a range begins after a snapshot or with one, found both")
    end = _last_snapshot_id(metadata, snapshots.until, snapshots.branch)
    if end is None:
        if after is not None or first is not None:
            raise NoSuchSnapshot(f"the table has no current snapshot, so nothing comes after {after or first}")
        return ()
    if first is not None:
        metadata.snapshot(first)
        if not is_ancestor_of(metadata, first, end):
            raise _not_in_history(metadata, first, end)
        after = metadata.snapshot(first).parent_snapshot_id
    try:
        return snapshots_between(metadata, after, end)
    except NoSuchSnapshot:
        raise _not_in_history(metadata, after, end) from None


def _not_in_history(metadata: TableMetadata, snapshot_id: int | None, end: int) -> NoSuchSnapshot:
    snapshot = None if snapshot_id is None else metadata.snapshots_by_id.get(snapshot_id)
    oldest = None if snapshot is None else unknown_before(metadata, end, snapshot.snapshot_id)
    if oldest is not None:
        return NoSuchSnapshot(
            f"what came after snapshot {snapshot_id} is not known: the history of snapshot {end} is known only down to "
            f"snapshot {oldest.snapshot_id}, what came before has expired",
            hint="read the table as a whole and go on from there",
        )
    return NoSuchSnapshot(
        f"snapshot {snapshot_id} is not in the history of snapshot {end}",
        hint="it was rolled back, is on another branch, or snapshots after it have expired: changes since then are not "
        "known any more; read the table as a whole and go on from there",
    )


def _last_snapshot_id(metadata: TableMetadata, until: int | None, branch: str | None) -> int | None:
    head = metadata.current_snapshot_id
    if branch is not None and (branch != MAIN_BRANCH or branch in metadata.refs):
        ref = metadata.ref(branch)
        if not ref.is_branch:
            raise InvalidInput(
                f"{branch!r} is a tag, which has no history of its own", hint="give the end of the range"
            )
        head = ref.snapshot_id
    if until is None:
        return head
    metadata.snapshot(until)
    if branch is not None and (head is None or not is_ancestor_of(metadata, until, head)):
        oldest = unknown_before(metadata, head, until)
        limit = "" if oldest is None else f" as far as it is known, down to snapshot {oldest.snapshot_id}"
        raise NoSuchSnapshot(f"snapshot {until} is not in the history of branch {branch!r}{limit}")
    return until


def read_manifests_of_snapshots(
    snapshots: Sequence[Snapshot], storage: Storage, *, workers: int | None = None
) -> Iterator[list[ManifestFile]]:
    """The manifests of each snapshot, in order, read in parallel."""
    limit = min(len(snapshots), _READERS if workers is None else workers)
    if limit <= 1:
        yield from (manifests_of_snapshot(snapshot, storage) for snapshot in snapshots)
        return
    with ThreadPoolExecutor(limit, thread_name_prefix="floe-plan") as pool:
        yield from map_concurrently(
            lambda snapshot: manifests_of_snapshot(snapshot, storage), snapshots, limit=limit, executor=pool
        )


def select_entries(snapshot_ids: Iterable[int], *statuses: EntryStatus) -> Callable[[ManifestColumns], Mask]:
    """A selection of the entries of a manifest with one of these snapshot ids and statuses."""
    ids = np.array(sorted(snapshot_ids), np.int64)

    def which(columns: ManifestColumns) -> Mask:
        of_snapshots = np.isin(np.asarray(columns.snapshot_id.values), ids) & columns.snapshot_id.is_valid
        return of_snapshots & np.isin(columns.status, statuses)

    return which


# One snapshot -----------------------------------------------------------------------------------------------------


def choose_snapshot(
    metadata: TableMetadata, *, snapshot: int | None = None, ref: str | None = None, as_of_ms: int | None = None
) -> Snapshot | None:
    """The snapshot with an id, of a branch or tag, or current at a timestamp; by default the current one.

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
    """The schema for a read of a snapshot.

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
    choices = {"snapshot": snapshot, "ref": ref, "as_of_ms": as_of_ms}
    names = [name for name, value in choices.items() if value is not None]
    if len(names) > 1:
        raise InvalidInput(f"a snapshot is chosen in one way, found {' and '.join(names)}")
