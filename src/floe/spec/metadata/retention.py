"""The retention policy: which refs and snapshots of a table expire (spec: Snapshot Retention Policy)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from floe.errors import InvalidUpdate
from floe.spec.metadata.ancestry import ancestors
from floe.spec.metadata.snapshots import MAIN_BRANCH, Snapshot, SnapshotRef
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import RemoveSnapshotRef, RemoveSnapshots, TableUpdate
from floe.spec.properties import GC_ENABLED, MAX_REF_AGE_MS, MAX_SNAPSHOT_AGE_MS, MIN_SNAPSHOTS_TO_KEEP


@dataclass(frozen=True, slots=True)
class Expiry:
    """The refs and snapshots that expire: refs by name, snapshots by id in the table's order."""

    refs: tuple[str, ...] = ()
    snapshots: tuple[int, ...] = ()

    def updates(self) -> tuple[TableUpdate, ...]:
        """The metadata updates that remove them.

        >>> Expiry(refs=("audit",), snapshots=(7,)).updates()
        (RemoveSnapshotRef(name='audit'), RemoveSnapshots(snapshot_ids=(7,)))
        """
        changes: list[TableUpdate] = [RemoveSnapshotRef(name) for name in self.refs]
        if self.snapshots:
            changes.append(RemoveSnapshots(self.snapshots))
        return tuple(changes)


def plan_expiry(
    metadata: TableMetadata,
    *,
    now_ms: int,
    older_than_ms: int | None = None,
    retain_last: int | None = None,
    snapshot_ids: Collection[int] = (),
) -> Expiry:
    """Return the refs and snapshots that expire at `now_ms`.

    A ref other than `main` expires when its snapshot is older than the maximum age of the ref. Each remaining branch
    keeps its snapshots from the head back to the first one that is both too old and beyond the number to keep; a tag
    keeps its snapshot. Snapshots that no ref reaches, such as staged ones, are kept until they are too old.

    `older_than_ms` (a timestamp) and `retain_last` replace the table's `max-snapshot-age-ms` and
    `min-snapshots-to-keep`; the retention of a branch takes precedence over them. Snapshots in `snapshot_ids` expire
    whatever their age; one that a ref points at raises `InvalidUpdate`, as does a table with `gc.enabled=false`.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.schemas.schema import Schema
    >>> table = new_table_metadata(
    ...     Schema(()), location="s3://b/t", uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1", now_ms=0
    ... )
    >>> plan_expiry(table, now_ms=1_700_000_000_000)
    Expiry(refs=(), snapshots=())
    """
    if not GC_ENABLED.read(metadata.properties):
        raise InvalidUpdate(
            f"snapshots of this table do not expire: {GC_ENABLED} is false",
            hint=f"other tables may use its files; set {GC_ENABLED} to true if none does",
        )
    if retain_last is not None and retain_last < 1:
        raise InvalidUpdate(f"retain_last must be at least 1: each branch keeps a snapshot; found {retain_last}")
    policy = _Policy.of(metadata.properties, now_ms, older_than_ms, retain_last)
    refs = {
        name: ref
        for name, ref in metadata.refs.items()
        if policy.keeps_ref(name, ref, metadata.snapshot(ref.snapshot_id))
    }
    _check_unreferenced(snapshot_ids, refs, metadata)

    reachable: set[int] = set()
    retained: set[int] = set()
    for ref in refs.values():
        retained.add(ref.snapshot_id)
        reachable.add(ref.snapshot_id)
        if ref.is_branch:
            history = list(ancestors(metadata, ref.snapshot_id))
            reachable.update(snapshot.snapshot_id for snapshot in history)
            retained.update(policy.retained_of_branch(ref, history))
    retained.update(
        snapshot.snapshot_id
        for snapshot in metadata.snapshots
        if snapshot.snapshot_id not in reachable and snapshot.timestamp_ms >= policy.oldest_ms
    )
    retained.difference_update(snapshot_ids)
    return Expiry(
        refs=tuple(name for name in metadata.refs if name not in refs),
        snapshots=tuple(s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in retained),
    )


@dataclass(frozen=True, slots=True)
class _Policy:
    """The retention of a table, with ages resolved to timestamps."""

    now_ms: int
    oldest_ms: int
    min_snapshots: int
    max_ref_age_ms: int

    @staticmethod
    def of(properties: Mapping[str, str], now_ms: int, older_than_ms: int | None, retain_last: int | None) -> _Policy:
        if older_than_ms is None:
            older_than_ms = now_ms - MAX_SNAPSHOT_AGE_MS.read(properties)
        if retain_last is None:
            retain_last = MIN_SNAPSHOTS_TO_KEEP.read(properties)
        max_ref_age = MAX_REF_AGE_MS.read(properties)
        return _Policy(now_ms, older_than_ms, retain_last, max_ref_age)

    def keeps_ref(self, name: str, ref: SnapshotRef, head: Snapshot) -> bool:
        """Whether a ref that points at `head` is kept."""
        if name == MAIN_BRANCH:
            return True  # spec: the main branch never expires
        age = self.max_ref_age_ms if ref.max_ref_age_ms is None else ref.max_ref_age_ms
        return self.now_ms - head.timestamp_ms <= age

    def retained_of_branch(self, ref: SnapshotRef, history: list[Snapshot]) -> Iterator[int]:
        """Yield the ids of the snapshots that a branch keeps, of its history from its head back."""
        oldest = self.oldest_ms if ref.max_snapshot_age_ms is None else self.now_ms - ref.max_snapshot_age_ms
        minimum = self.min_snapshots if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
        for index, snapshot in enumerate(history):
            if index >= minimum and snapshot.timestamp_ms < oldest:
                return
            yield snapshot.snapshot_id


def _check_unreferenced(
    snapshot_ids: Collection[int], refs: Mapping[str, SnapshotRef], metadata: TableMetadata
) -> None:
    """Raise if one of the snapshots does not exist, or a ref points at it."""
    for snapshot_id in snapshot_ids:
        metadata.snapshot(snapshot_id)  # raises NoSuchSnapshot
        names = sorted(name for name, ref in refs.items() if ref.snapshot_id == snapshot_id)
        if names:
            raise InvalidUpdate(
                f"snapshot {snapshot_id} cannot expire: {', '.join(names)} points at it",
                hint="move or drop the branch or tag first",
                snapshot=snapshot_id,
            )
