"""Walking from a snapshot to its parents; every walk ends, even where parents form a cycle.

Expiry cuts histories: a snapshot that a tag keeps may lie below the cut of a branch that descends from it. That it is
not found on the walk then proves nothing (`unknown_before`).

A transaction publishes several snapshots at once. Those before its last one are states that nobody ever saw
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
"""The key of a summary that says `true` where one commit published a snapshot and its parent; Floe's own."""


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


def unknown_before(metadata: TableMetadata, head_id: int | None, snapshot_id: int) -> Snapshot | None:
    """The oldest snapshot that is known of a history, if another snapshot may have its place before that.

    None means that all is known which the history got since the other snapshot was made: it is found on the walk, or it
    is proved not to be in the history. It is proved where the history is whole, where both meet in a snapshot that is
    known, and where the other one has a sequence number that is too high for what has expired.

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
    known = list(ancestors(metadata, head_id))
    oldest = known[-1] if known else None
    if oldest is None or oldest.parent_snapshot_id is None or oldest.parent_snapshot_id in metadata.snapshots_by_id:
        return None
    if 0 < oldest.sequence_number <= metadata.snapshot(snapshot_id).sequence_number:
        return None
    met = {oldest.parent_snapshot_id, *(one.snapshot_id for one in known)}
    own = ancestors(metadata, snapshot_id)
    return None if any({one.snapshot_id, one.parent_snapshot_id} & met for one in own) else oldest


class Around(NamedTuple):
    """The states that readers saw before and after a commit of several snapshots."""

    before: int | None
    """None if there was none."""

    after: int


def commit_around(metadata: TableMetadata, snapshot_id: int, head_id: int | None) -> Around | None:
    """The commit in whose midst a snapshot of a history is; None if it was a state of its own, as far as is known.

    Floe notes in the summary of a snapshot that its parent came with it. Of other writers' commits to `main` the log
    tells: it has only what was current, with the time of the snapshot if it was made by that very commit.
    """
    seen = {ref.snapshot_id for ref in metadata.refs.values()} | {entry.snapshot_id for entry in metadata.snapshot_log}
    if snapshot_id in seen:
        return None
    history = list(ancestors(metadata, head_id))
    place = next((n for n, one in enumerate(history) if one.snapshot_id == snapshot_id), 0)
    joined = _joined_to_parent(metadata, history)
    if not place or history[place - 1].snapshot_id not in joined:
        return None
    last = place - 1
    while last and history[last - 1].snapshot_id in joined:
        last -= 1
    while place < len(history) and history[place].snapshot_id in joined:
        place += 1
    first = history[min(place, len(history) - 1)]
    return Around(first.parent_snapshot_id, history[last].snapshot_id)


def _joined_to_parent(metadata: TableMetadata, history: list[Snapshot]) -> set[int]:
    """The snapshots of a history that were published together with their parents."""
    joined = {one.snapshot_id for one in history if (one.summary or {}).get(COMMITTED_WITH_PARENT) == "true"}
    if not history or history[0].snapshot_id != metadata.current_snapshot_id:
        return joined
    places = {one.snapshot_id: place for place, one in enumerate(history)}
    log = metadata.snapshot_log
    logged = {entry.snapshot_id for entry in log}
    for before, after in pairwise(log):
        begin, end = places.get(before.snapshot_id), places.get(after.snapshot_id)
        if begin is None or end is None or begin <= end or history[end].timestamp_ms != after.timestamp_ms:
            continue  # a rollback, or another branch was taken over, whose states were seen
        made = history[end:begin]
        joined.update(one.snapshot_id for one, parent in pairwise(made) if parent.snapshot_id not in logged)
    return joined
