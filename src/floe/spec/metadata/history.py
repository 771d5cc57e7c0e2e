"""Walking from a snapshot to its parents; every walk ends, even where parents form a cycle.

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

from floe.errors import NoSuchSnapshot
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata

__all__ = ["ancestors", "is_ancestor_of", "oldest_ancestor", "snapshots_between"]


def ancestors(metadata: TableMetadata, snapshot_id: int | None) -> Iterator[Snapshot]:
    """The snapshot, its parent, the parent of that, and so on until one has no parent or it has expired.

    Nothing comes for None, the current snapshot of an empty table.
    """
    seen: set[int] = set()
    snapshot = None if snapshot_id is None else metadata.snapshot(snapshot_id)
    while snapshot is not None and snapshot.snapshot_id not in seen:
        yield snapshot
        seen.add(snapshot.snapshot_id)
        parent_id = snapshot.parent_snapshot_id
        snapshot = None if parent_id is None else metadata.snapshots_by_id.get(parent_id)


def is_ancestor_of(metadata: TableMetadata, ancestor_id: int, snapshot_id: int | None) -> bool:
    """Whether one snapshot is the other one or lies in its history."""
    return any(snapshot.snapshot_id == ancestor_id for snapshot in ancestors(metadata, snapshot_id))


def oldest_ancestor(metadata: TableMetadata, snapshot_id: int) -> Snapshot:
    """The last snapshot of the history that the table still has; the snapshot itself if it has no known parent."""
    *_, oldest = ancestors(metadata, snapshot_id)
    return oldest


def snapshots_between(metadata: TableMetadata, after_id: int | None, until_id: int) -> tuple[Snapshot, ...]:
    """The history after one snapshot up to and with another, oldest first; from the beginning when `after_id` is None.

    `after_id` must be in the history of `until_id`; its own snapshot may have expired, as long as a child names it.
    """
    found: list[Snapshot] = []
    for snapshot in ancestors(metadata, until_id):
        if snapshot.snapshot_id == after_id:
            return tuple(reversed(found))
        found.append(snapshot)
    if after_id is not None and found[-1].parent_snapshot_id != after_id:
        raise NoSuchSnapshot(f"snapshot {after_id} is not in the history of snapshot {until_id}")
    return tuple(reversed(found))
