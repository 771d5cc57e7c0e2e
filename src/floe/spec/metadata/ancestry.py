"""The ancestors of snapshots: a snapshot's parent, the parent's parent, and so on.

Every function terminates, also if damaged metadata has a cycle of parents.

Expiring snapshots truncates histories: a branch may descend from a snapshot that only a tag still keeps, while the
snapshots between them have expired. That a snapshot is not among the known ancestors then proves nothing
(`unknown_before`).

A transaction publishes several snapshots at once. All but the last are states that no reader ever saw
(`commit_around`).

>>> from floe.spec.metadata.table_metadata_json import parse
>>> metadata = parse(
...     b'''{"format-version": 1, "location": "s3://bucket/t", "last-updated-ms": 30, "last-column-id": 0,
...     "schema": {"type": "struct", "fields": []}, "partition-spec": [], "current-snapshot-id": 3,
...     "snapshots": [{"snapshot-id": 1, "timestamp-ms": 10, "manifests": []},
...                   {"snapshot-id": 2, "parent-snapshot-id": 1, "timestamp-ms": 20, "manifests": []},
...                   {"snapshot-id": 3, "parent-snapshot-id": 2, "timestamp-ms": 30, "manifests": []}]}'''
... )
>>> [snapshot.snapshot_id for snapshot in ancestors(metadata, 3)]
[3, 2, 1]
>>> is_ancestor_of(metadata, 1, 3), oldest_ancestor(metadata, 3).snapshot_id
(True, 1)
>>> [snapshot.snapshot_id for snapshot in snapshots_between(metadata, 1, 3)]
[2, 3]
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from floe.errors import NoSuchSnapshot
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata

COMMITTED_WITH_PARENT: Final = "committed-with-parent"
"""Floe's own summary key: `true` in a snapshot that was published by the same commit as its parent."""


def ancestors(metadata: TableMetadata, snapshot_id: int | None) -> Iterator[Snapshot]:
    """Yield a snapshot and its ancestors, newest first, until one has no parent or its parent has expired.

    Yields nothing for None, which is the current snapshot id of an empty table.
    """
    visited: set[int] = set()
    snapshot = None if snapshot_id is None else metadata.snapshot(snapshot_id)
    while snapshot is not None and snapshot.snapshot_id not in visited:
        yield snapshot
        visited.add(snapshot.snapshot_id)
        parent_id = snapshot.parent_snapshot_id
        snapshot = None if parent_id is None else metadata.snapshots_by_id.get(parent_id)


def is_ancestor_of(metadata: TableMetadata, ancestor_id: int, snapshot_id: int | None) -> bool:
    """Whether `ancestor_id` is the snapshot itself or one of its ancestors."""
    return any(snapshot.snapshot_id == ancestor_id for snapshot in ancestors(metadata, snapshot_id))


def oldest_ancestor(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    """The oldest ancestor that the table still has; the snapshot itself if it has no known parent."""
    *_, oldest = ancestors(metadata, snapshot_id)
    return oldest


def snapshots_between(metadata: TableMetadata, after_id: int | None, until_id: int) -> tuple[Snapshot, ...]:
    """The snapshots after `after_id` up to and including `until_id`, oldest first; all ancestors if `after_id` is None.

    `after_id` must be an ancestor of `until_id`, or `NoSuchSnapshot` is raised; it may have expired itself, as long as
    its child is there.
    """
    newest_first: list[Snapshot] = []
    for snapshot in ancestors(metadata, until_id):
        if snapshot.snapshot_id == after_id:
            return tuple(reversed(newest_first))
        newest_first.append(snapshot)
    if after_id is not None and newest_first[-1].parent_snapshot_id != after_id:
        raise NoSuchSnapshot(f"snapshot {after_id} is not in the history of snapshot {until_id}")
    return tuple(reversed(newest_first))


def unknown_before(metadata: TableMetadata, head_id: int | None, snapshot_id: int) -> Snapshot | None:
    """The oldest known ancestor of `head_id`, if `snapshot_id` may be one of the expired ancestors before it.

    Returns None if it is certain whether `snapshot_id` is an ancestor: it is among the known ancestors, or it cannot be
    among the expired ones. The latter is so if no ancestor has expired, if both histories share a known snapshot, or if
    the sequence number of `snapshot_id` is too high.

    >>> from floe.spec.metadata.table_metadata_json import parse
    >>> metadata = parse(
    ...     b'''{"format-version": 1, "location": "s3://bucket/t", "last-updated-ms": 30, "last-column-id": 0,
    ...     "schema": {"type": "struct", "fields": []}, "partition-spec": [], "current-snapshot-id": 4,
    ...     "snapshots": [{"snapshot-id": 1, "timestamp-ms": 10, "manifests": []},
    ...                   {"snapshot-id": 3, "parent-snapshot-id": 2, "timestamp-ms": 30, "manifests": []},
    ...                   {"snapshot-id": 4, "parent-snapshot-id": 3, "timestamp-ms": 40, "manifests": []},
    ...                   {"snapshot-id": 5, "parent-snapshot-id": 2, "timestamp-ms": 50, "manifests": []}]}'''
    ... )
    >>> unknown_before(metadata, 4, 1).snapshot_id, unknown_before(metadata, 4, 3), unknown_before(metadata, 4, 5)
    (3, None, None)
    """
    history = list(ancestors(metadata, head_id))
    oldest = history[-1] if history else None
    if oldest is None or oldest.parent_snapshot_id is None or oldest.parent_snapshot_id in metadata.snapshots_by_id:
        return None
    if 0 < oldest.sequence_number <= metadata.snapshot(snapshot_id).sequence_number:
        return None
    history_ids = {oldest.parent_snapshot_id, *(snapshot.snapshot_id for snapshot in history)}
    shared = any(
        {snapshot.snapshot_id, snapshot.parent_snapshot_id} & history_ids
        for snapshot in ancestors(metadata, snapshot_id)
    )
    return None if shared else oldest


class Around(NamedTuple):
    """The snapshots that readers saw before and after a commit of several snapshots."""

    before: int | None
    """The id of the snapshot before the commit; None if the table or branch was empty."""

    after: int
    """The id of the last snapshot of the commit."""


def commit_around(metadata: TableMetadata, snapshot_id: int, head_id: int | None) -> Around | None:
    """What readers saw around a snapshot that was published only as a part of a larger commit.

    Returns None if the snapshot was visible to readers itself, as far as the metadata shows. Floe records in the
    summary of a snapshot that its parent belongs to the same commit (`COMMITTED_WITH_PARENT`). For commits of other
    writers to `main` the snapshot log is used: it lists only snapshots that were current, with the timestamp of the
    snapshot if the commit created it.
    """
    visible = {ref.snapshot_id for ref in metadata.refs.values()}
    visible |= {entry.snapshot_id for entry in metadata.snapshot_log}
    if snapshot_id in visible:
        return None
    history = list(ancestors(metadata, head_id))
    index = next((n for n, snapshot in enumerate(history) if snapshot.snapshot_id == snapshot_id), 0)
    joined = _committed_with_parent(metadata, history)
    if not index or history[index - 1].snapshot_id not in joined:
        return None
    last = index - 1
    while last and history[last - 1].snapshot_id in joined:
        last -= 1
    while index < len(history) and history[index].snapshot_id in joined:
        index += 1
    first = history[min(index, len(history) - 1)]
    return Around(first.parent_snapshot_id, history[last].snapshot_id)


def _committed_with_parent(metadata: TableMetadata, history: list[Snapshot]) -> set[int]:
    """The ids of the snapshots of a history, newest first, that were published by the same commit as their parents."""
    joined = {
        snapshot.snapshot_id for snapshot in history if (snapshot.summary or {}).get(COMMITTED_WITH_PARENT) == "true"
    }
    if not history or history[0].snapshot_id != metadata.current_snapshot_id:
        return joined
    indexes = {snapshot.snapshot_id: index for index, snapshot in enumerate(history)}
    log = metadata.snapshot_log
    logged = {entry.snapshot_id for entry in log}
    for before, after in pairwise(log):
        begin, end = indexes.get(before.snapshot_id), indexes.get(after.snapshot_id)
        if begin is None or end is None or begin <= end or history[end].timestamp_ms != after.timestamp_ms:
            continue  # a rollback, or a fast-forward to another branch, whose readers saw its snapshots
        committed = history[end:begin]
        joined.update(
            snapshot.snapshot_id for snapshot, parent in pairwise(committed) if parent.snapshot_id not in logged
        )
    return joined
