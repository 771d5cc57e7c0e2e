"""What others committed to a branch since a change read it, taken from the entries of their manifests.

`read_concurrent_commits` walks the history of the branch from its head back to the snapshot that was read. Of each
snapshot it reads the manifests that the snapshot wrote; their entries say which files were added and removed
(`SnapshotChanges`). `SnapshotCache` keeps them for the next attempt.

The `operation` in a snapshot's summary is not used, because writers differ in what they call their changes. With one
exception: entries cannot tell whether files were only rewritten, with the same rows. That claim (`replace`) is believed
unless the row counts contradict it.

If the history cannot be read completely, that is a conflict: the snapshot that was read is no longer in the history of
the branch (rolled back, replaced), a part of the history has expired, or the manifests do not account for all files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from floe.avro.manifest_columns import ManifestColumns
from floe.avro.manifest_reader import read_manifest, read_manifest_file, read_snapshot_manifests
from floe.avro.vector_decoder import Offsets
from floe.errors import ConflictingChange
from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestContent, ManifestFile
from floe.spec.metadata.ancestry import ancestors
from floe.spec.metadata.snapshots import MAIN_BRANCH, Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.types import StructType
from floe.storage.concurrency import map_concurrently
from floe.storage.protocol import Storage

# The changes of one snapshot ------------------------------------------------------------------------------------

REPLACE: Final = "replace"


@dataclass(frozen=True, eq=False, slots=True)
class Entries:
    """Selected entries of one manifest: files that one snapshot added, or removed."""

    columns: ManifestColumns
    rows: Offsets

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def spec_id(self) -> int:
        """The partition spec of the files."""
        return self.columns.spec_id

    @property
    def paths(self) -> VarBytes:
        """The paths of the files."""
        return self.columns.file_path.take(self.rows)

    @property
    def record_count(self) -> int:
        """The number of rows of all files, or -1 if an entry has no count."""
        counts = self.columns.record_count[self.rows]
        return -1 if (counts < 0).any() else int(counts.sum())

    def of_content(self, *contents: FileContent) -> Entries:
        """The entries of files with one of these contents."""
        return self.where(np.isin(self.columns.content[self.rows], contents))

    def where(self, mask: Mask) -> Entries:
        """The entries for which the mask is true."""
        return Entries(self.columns, self.rows[mask])

    def files(self) -> list[DataFile]:
        """The files as objects."""
        return self.columns.data_files(self.rows)


@dataclass(frozen=True, eq=False)
class SnapshotChanges:
    """The files that one snapshot added and removed, by the manifests that it wrote: one `Entries` per manifest."""

    snapshot: Snapshot
    added_data: tuple[Entries, ...] = ()
    removed_data: tuple[Entries, ...] = ()
    added_deletes: tuple[Entries, ...] = ()
    removed_deletes: tuple[Entries, ...] = ()

    @cached_property
    def keeps_rows(self) -> bool:
        """Whether the snapshot is a rewrite: its operation is `replace`, and the row counts do not contradict that.

        A rewrite cannot add more rows than it removes, nor delete more positions than the deletes had that it removes
        (it is not known how many rows a removed equality delete deleted), nor add equality deletes if it removes none.
        """
        if self.snapshot.operation != REPLACE:
            return False
        added, removed = _records(self.added_data), _records(self.removed_data)
        if added is None or removed is None or added > removed:
            return False
        equality = (FileContent.EQUALITY_DELETES,)
        if any(map(len, _of_content(self.removed_deletes, equality))):
            return True
        if any(map(len, _of_content(self.added_deletes, equality))):
            return False
        deleted, replaced = _records(self.added_deletes), _records(self.removed_deletes)
        return deleted is not None and replaced is not None and deleted <= replaced

    @property
    def adds_rows(self) -> bool:
        """Whether the snapshot added rows that were not in the table before, or may have."""
        return bool(self.added_data) and not self.keeps_rows

    @cached_property
    def added_position_deletes(self) -> tuple[Entries, ...]:
        """The position delete files and deletion vectors that the snapshot added."""
        return _of_content(self.added_deletes, (FileContent.POSITION_DELETES,))

    @cached_property
    def added_equality_deletes(self) -> tuple[Entries, ...]:
        """The equality delete files that the snapshot added."""
        return _of_content(self.added_deletes, (FileContent.EQUALITY_DELETES,))


def _of_content(manifests: Iterable[Entries], contents: tuple[FileContent, ...]) -> tuple[Entries, ...]:
    return tuple(selected for entries in manifests if len(selected := entries.of_content(*contents)))


def _records(manifests: Iterable[Entries]) -> int | None:
    counts = [entries.record_count for entries in manifests]
    return None if any(count < 0 for count in counts) else sum(counts)


def changes_of_snapshot(snapshot: Snapshot, manifests: Iterable[ManifestColumns]) -> SnapshotChanges:
    """The changes of a snapshot: the entries with its id. Entries of other snapshots are only carried along."""
    groups: dict[tuple[ManifestContent, EntryStatus], list[Entries]] = {}
    for columns in manifests:
        assert columns.manifest is not None
        ids = columns.snapshot_id
        of_snapshot = ids.is_valid & np.equal(np.asarray(ids.values), snapshot.snapshot_id)
        for status in (EntryStatus.ADDED, EntryStatus.DELETED):
            rows = np.flatnonzero(of_snapshot & np.equal(columns.status, status))
            if rows.size:
                groups.setdefault((columns.manifest.content, status), []).append(Entries(columns, rows))
    return SnapshotChanges(
        snapshot,
        tuple(groups.get((ManifestContent.DATA, EntryStatus.ADDED), ())),
        tuple(groups.get((ManifestContent.DATA, EntryStatus.DELETED), ())),
        tuple(groups.get((ManifestContent.DELETES, EntryStatus.ADDED), ())),
        tuple(groups.get((ManifestContent.DELETES, EntryStatus.DELETED), ())),
    )


_PARALLEL_READS: Final = 8


@dataclass(frozen=True, eq=False)
class OtherCommit:
    """The snapshots that were published in one commit, oldest first.

    A transaction may delete a row in one snapshot and add its new version in the next: only both together show that
    the row was moved.
    """

    snapshots: tuple[SnapshotChanges, ...]

    @cached_property
    def adds_rows(self) -> bool:
        """Whether the commit added rows that were not in the table before."""
        return any(changes.adds_rows for changes in self.snapshots)


@dataclass(frozen=True, eq=False)
class ConcurrentCommits:
    """All commits of others since, oldest first; iterates over their snapshots."""

    commits: tuple[OtherCommit, ...] = ()

    def __iter__(self) -> Iterator[tuple[OtherCommit, SnapshotChanges]]:
        return ((commit, changes) for commit in self.commits for changes in commit.snapshots)


# Cache ----------------------------------------------------------------------------------------------------------


class SnapshotCache:
    """The changes of snapshots that earlier attempts have read: snapshots are immutable, so only new ones are read.

    >>> SnapshotCache()
    SnapshotCache(0 snapshots)
    """

    def __init__(self, executor: Executor | None = None) -> None:
        self.executor = executor
        self._changes: dict[tuple[int, str | None], SnapshotChanges] = {}
        self._manifests: dict[tuple[int, str | None], list[ManifestFile]] = {}

    def __repr__(self) -> str:
        return f"SnapshotCache({len(self._changes)} snapshots)"

    def manifests(self, snapshots: Sequence[Snapshot], storage: Storage) -> list[list[ManifestFile]]:
        """The manifests of each snapshot."""
        new = [snapshot for snapshot in snapshots if _key(snapshot) not in self._manifests]
        read = map_concurrently(
            lambda snapshot: read_snapshot_manifests(snapshot, storage),
            new,
            limit=_PARALLEL_READS,
            executor=self.executor,
        )
        self._manifests.update(zip(map(_key, new), read, strict=True))
        return [self._manifests[_key(snapshot)] for snapshot in snapshots]

    def changes(
        self, snapshots: Sequence[tuple[Snapshot, Sequence[ManifestFile]]], metadata: TableMetadata, storage: Storage
    ) -> list[SnapshotChanges]:
        """The changes of snapshots, each paired with the manifests that it wrote."""
        new = [(snapshot, manifests) for snapshot, manifests in snapshots if _key(snapshot) not in self._changes]
        types = _partition_types(metadata)
        reads = [(snapshot, manifest) for snapshot, manifests in new for manifest in manifests]
        by_snapshot: dict[int, list[ManifestColumns]] = {}
        columns = map_concurrently(
            lambda read: read_manifest(
                read_manifest_file(read[1], storage), read[1], partition_type=types.get(read[1].partition_spec_id)
            ),
            reads,
            limit=_PARALLEL_READS,
            executor=self.executor,
        )
        for (snapshot, _), manifest in zip(reads, columns, strict=True):
            by_snapshot.setdefault(snapshot.snapshot_id, []).append(manifest)
        for snapshot, _ in new:
            self._changes[_key(snapshot)] = changes_of_snapshot(snapshot, by_snapshot.get(snapshot.snapshot_id, ()))
        return [self._changes[_key(snapshot)] for snapshot, _ in snapshots]


def _key(snapshot: Snapshot) -> tuple[int, str | None]:
    return snapshot.snapshot_id, snapshot.manifest_list


def _partition_types(metadata: TableMetadata) -> dict[int, StructType]:
    older = tuple(reversed(metadata.schemas))
    return {spec.spec_id: spec.partition_type(metadata.schema, older) for spec in metadata.partition_specs}


# The history of a branch ----------------------------------------------------------------------------------------


def branch_head_id(metadata: TableMetadata, branch: str) -> int | None:
    """The id of the snapshot that a commit to a branch builds on; a branch that does not exist yet starts at `main`.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.schemas.schema import Schema
    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> branch_head_id(new_table_metadata(Schema(()), location="memory:t", uuid=uuid, now_ms=0), "main") is None
    True
    """
    ref = metadata.refs.get(branch)
    return metadata.current_snapshot_id if ref is None else ref.snapshot_id


def read_concurrent_commits(
    metadata: TableMetadata,
    storage: Storage,
    *,
    start_id: int | None,
    branch: str = MAIN_BRANCH,
    cache: SnapshotCache | None = None,
) -> ConcurrentCommits:
    """Read what was committed to a branch after the snapshot `start_id` (None: since the branch was empty).

    Raises `ConflictingChange` if the history since then is not complete.

    >>> from floe.commit.operations.data_changes import FastAppend
    >>> from helpers.tables import Box, data_file, new_table
    >>> box = Box(new_table())
    >>> start = box.commit(FastAppend([data_file("a.parquet")])).snapshot_id
    >>> others = box.commit(FastAppend([data_file("b.parquet")]))
    >>> ((_, changes),) = read_concurrent_commits(box.metadata, box.storage, start_id=start)
    >>> [file.file_path for entries in changes.added_data for file in entries.files()]
    ['b.parquet']
    """
    cache = SnapshotCache() if cache is None else cache
    history = _history(metadata, start_id, branch)
    if not history:
        return ConcurrentCommits()
    start = None if start_id is None else metadata.snapshots_by_id.get(start_id)
    with_start = [start, *history] if start is not None else history
    lists: list[list[ManifestFile] | None] = [*cache.manifests(with_start, storage)]
    if start is None:
        lists.insert(0, [] if start_id is None else None)
    steps = [_Step(*step) for step in zip(history, lists, lists[1:], strict=False)]
    all_changes = cache.changes([(step.snapshot, step.written()) for step in steps], metadata, storage)
    for step, changes in zip(steps, all_changes, strict=True):
        step.check_complete(changes)
    return ConcurrentCommits(tuple(_group_by_commit(all_changes, metadata, branch)))


@dataclass(frozen=True, slots=True)
class _Step:
    """A snapshot, with its parent's manifests (None if the parent has expired) and its own."""

    snapshot: Snapshot
    before: list[ManifestFile] | None
    after: list[ManifestFile] | None

    def written(self) -> list[ManifestFile]:
        """The manifests that the snapshot wrote: those with its id in the list, and those its parent does not have."""
        inherited = {manifest.manifest_path for manifest in self.before or ()}
        of_snapshot = (None, self.snapshot.snapshot_id)
        return [
            manifest
            for manifest in self.after or ()
            if manifest.added_snapshot_id in of_snapshot
            or (self.before is not None and manifest.manifest_path not in inherited)
        ]

    def check_complete(self, changes: SnapshotChanges) -> None:
        """Raise unless the snapshot has the files of its parent, and those added, without those removed.

        A writer that leaves out a manifest, or entries of one, removes files without recording it.
        """
        for content, added, removed in (
            (ManifestContent.DATA, changes.added_data, changes.removed_data),
            (ManifestContent.DELETES, changes.added_deletes, changes.removed_deletes),
        ):
            before, after = _live_files(self.before, content), _live_files(self.after, content)
            if before is None or after is None:
                continue
            recorded = sum(map(len, added)) - sum(map(len, removed))
            if after - before != recorded:
                raise ConflictingChange(
                    f"what was committed since is not known: a snapshot has {after} {_WORDS[content]} after "
                    f"{before}, but its manifests account for a difference of {recorded}",
                    hint="read the table again and repeat the change",
                    snapshot=self.snapshot.snapshot_id,
                    operation=self.snapshot.operation,
                )


_WORDS: Final = {ManifestContent.DATA: "data files", ManifestContent.DELETES: "delete files"}


def _live_files(manifests: Sequence[ManifestFile] | None, content: ManifestContent) -> int | None:
    """The number of files of a snapshot, by the counts in its manifest list; None if a count is missing."""
    if manifests is None:
        return None
    live = 0
    for manifest in manifests:
        if manifest.content == content:
            if manifest.added_files_count is None or manifest.existing_files_count is None:
                return None
            live += manifest.added_files_count + manifest.existing_files_count
    return live


def _group_by_commit(
    snapshots: Sequence[SnapshotChanges], metadata: TableMetadata, branch: str
) -> Iterator[OtherCommit]:
    """The snapshots, grouped by the commit that published them.

    The snapshot log has the last snapshot of each commit to `main`. Other branches have no log, and all that was
    committed to them since counts as one commit: that makes more changes conflict than necessary, and never fewer.
    """
    logged = {entry.snapshot_id for entry in metadata.snapshot_log} if branch == MAIN_BRANCH else frozenset()
    group: list[SnapshotChanges] = []
    for changes in snapshots:
        group.append(changes)
        if changes.snapshot.snapshot_id in logged or changes is snapshots[-1]:
            yield OtherCommit(tuple(group))
            group = []


def _history(metadata: TableMetadata, start_id: int | None, branch: str) -> list[Snapshot]:
    """The snapshots after the one that was read, up to the head of the branch, oldest first."""
    head_id = branch_head_id(metadata, branch)
    newest_first: list[Snapshot] = []
    for snapshot in ancestors(metadata, head_id):
        if snapshot.snapshot_id == start_id:
            return newest_first[::-1]
        newest_first.append(snapshot)
    oldest_parent = newest_first[-1].parent_snapshot_id if newest_first else None
    if oldest_parent == start_id:
        return newest_first[::-1]
    if oldest_parent is not None:
        raise ConflictingChange(
            f"what was committed since is not known: the history of branch {branch!r} is known only down to "
            f"snapshot {newest_first[-1].snapshot_id}, what came before has expired",
            hint="read the table again and repeat the change; keep snapshots for longer than changes take",
            **{"snapshot read": start_id},
        )
    raise ConflictingChange(
        f"the snapshot that was read is no longer in the history of branch {branch!r}: it was rolled back, or the "
        "table was replaced",
        hint="read the table again and repeat the change",
        **{"snapshot read": start_id, "head": head_id},
    )
