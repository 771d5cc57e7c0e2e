"""What others committed to a branch since a change read it: facts, taken from manifests and not from labels.

The window is the branch's history between the snapshot that was read and the head of now. Of each snapshot in it, the
manifests that it wrote are read, and their entries say which files came and went (`snapshot_facts`).

Whatever keeps the window from being known is a conflict: the snapshot that was read is no longer in the history of the
branch (rolled back, replaced), a part of the history has expired, or the manifests do not account for all that changed.

What one snapshot did to the files of a table: facts, taken from the entries of its manifests and not from its label.

A snapshot's `operation` is what its writer thinks of it. What entries cannot tell is only whether files were merely
rewritten, with the same rows in them; that claim (`replace`) is believed as long as the counts of rows do not speak
against it.
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

# What one snapshot did to the files of a table: facts, taken from the entries of its manifests and not from its label.

REPLACE: Final = "replace"


@dataclass(frozen=True, eq=False, slots=True)
class Entries:
    """Some entries of one manifest: files that one snapshot added, or removed."""

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
        """Where the files are."""
        return self.columns.file_path.take(self.rows)

    @property
    def record_count(self) -> int:
        """The rows of all files, or -1 if a file does not say."""
        counts = self.columns.record_count[self.rows]
        return -1 if (counts < 0).any() else int(counts.sum())

    def of_content(self, *contents: FileContent) -> Entries:
        """Those that hold certain contents."""
        return self.where(np.isin(self.columns.content[self.rows], contents))

    def where(self, mask: Mask) -> Entries:
        """Those for which the mask is true."""
        return Entries(self.columns, self.rows[mask])

    def files(self) -> list[DataFile]:
        """The files as objects."""
        return self.columns.data_files(self.rows)


@dataclass(frozen=True, eq=False)
class SnapshotChanges:
    """What one snapshot did, by the entries of the manifests that it wrote; each part has an item for each manifest."""

    snapshot: Snapshot
    added_data: tuple[Entries, ...] = ()
    removed_data: tuple[Entries, ...] = ()
    added_deletes: tuple[Entries, ...] = ()
    removed_deletes: tuple[Entries, ...] = ()

    @cached_property
    def keeps_rows(self) -> bool:
        """Whether this is a rewrite: it says so, and the counts of rows do not speak against it.

        A rewrite cannot add more rows than it removes, nor delete more positions than the deletes had that it removes
        (equality deletes, whose reach is not known, left aside), nor add equality deletes out of nothing.
        """
        if self.snapshot.operation != REPLACE:
            return False
        added, removed = _records(self.added_data), _records(self.removed_data)
        if added is None or removed is None or added > removed:
            return False
        by_value = (FileContent.EQUALITY_DELETES,)
        if any(map(len, _of(self.removed_deletes, by_value))):
            return True
        if any(map(len, _of(self.added_deletes, by_value))):
            return False
        deleted, undone = _records(self.added_deletes), _records(self.removed_deletes)
        return deleted is not None and undone is not None and deleted <= undone

    @property
    def adds_rows(self) -> bool:
        """Whether rows came that were not in the table before, as far as can be told."""
        return bool(self.added_data) and not self.keeps_rows

    @cached_property
    def added_position_deletes(self) -> tuple[Entries, ...]:
        """Position delete files and deletion vectors that it added."""
        return _of(self.added_deletes, (FileContent.POSITION_DELETES,))

    @cached_property
    def added_equality_deletes(self) -> tuple[Entries, ...]:
        """Equality deletes that it added."""
        return _of(self.added_deletes, (FileContent.EQUALITY_DELETES,))


def _of(parts: Iterable[Entries], contents: tuple[FileContent, ...]) -> tuple[Entries, ...]:
    return tuple(found for part in parts if len(found := part.of_content(*contents)))


def _records(parts: Iterable[Entries]) -> int | None:
    counts = [part.record_count for part in parts]
    return None if any(count < 0 for count in counts) else sum(counts)


def changes_of_snapshot(snapshot: Snapshot, manifests: Iterable[ManifestColumns]) -> SnapshotChanges:
    """What a snapshot did: entries that are its own, for what others did is only carried along."""
    parts: dict[tuple[ManifestContent, EntryStatus], list[Entries]] = {}
    for columns in manifests:
        assert columns.manifest is not None
        own = columns.snapshot_id.known & np.equal(np.asarray(columns.snapshot_id.values), snapshot.snapshot_id)
        for status in (EntryStatus.ADDED, EntryStatus.DELETED):
            rows = np.flatnonzero(own & np.equal(columns.status, status))
            if rows.size:
                parts.setdefault((columns.manifest.content, status), []).append(Entries(columns, rows))
    return SnapshotChanges(
        snapshot,
        tuple(parts.get((ManifestContent.DATA, EntryStatus.ADDED), ())),
        tuple(parts.get((ManifestContent.DATA, EntryStatus.DELETED), ())),
        tuple(parts.get((ManifestContent.DELETES, EntryStatus.ADDED), ())),
        tuple(parts.get((ManifestContent.DELETES, EntryStatus.DELETED), ())),
    )


_LIMIT: Final = 8
"""Files read at once."""


@dataclass(frozen=True, eq=False)
class OtherCommit:
    """The snapshots that somebody published at once, oldest first.

    A transaction may delete a row in one snapshot and add its new version in the next: only together do they tell that
    the row was moved.
    """

    snapshots: tuple[SnapshotChanges, ...]

    @cached_property
    def adds_rows(self) -> bool:
        """Whether rows came that were not in the table before."""
        return any(facts.adds_rows for facts in self.snapshots)


@dataclass(frozen=True, eq=False)
class ConcurrentCommits:
    """All that others committed since, oldest first."""

    commits: tuple[OtherCommit, ...] = ()

    def __iter__(self) -> Iterator[tuple[OtherCommit, SnapshotChanges]]:
        return ((commit, facts) for commit in self.commits for facts in commit.snapshots)


# memory ---------------------------------------------------------------------------------------------------------


class SnapshotCache:
    """What was read for earlier attempts of a change: a snapshot's facts never change, so only new ones are read.

    >>> SnapshotCache()
    SnapshotCache(0 snapshots)
    """

    def __init__(self, executor: Executor | None = None) -> None:
        self.executor = executor
        self._facts: dict[tuple[int, str | None], SnapshotChanges] = {}
        self._manifests: dict[tuple[int, str | None], list[ManifestFile]] = {}

    def __repr__(self) -> str:
        return f"SnapshotCache({len(self._facts)} snapshots)"

    def manifests(self, snapshots: Sequence[Snapshot], storage: Storage) -> list[list[ManifestFile]]:
        """The manifests of some snapshots."""
        new = [one for one in snapshots if _key(one) not in self._manifests]
        read = map_concurrently(
            lambda one: read_snapshot_manifests(one, storage), new, limit=_LIMIT, executor=self.executor
        )
        self._manifests.update(zip(map(_key, new), read, strict=True))
        return [self._manifests[_key(one)] for one in snapshots]

    def facts(
        self, wanted: Sequence[tuple[Snapshot, Sequence[ManifestFile]]], metadata: TableMetadata, storage: Storage
    ) -> list[SnapshotChanges]:
        """The facts of some snapshots, each given with the manifests that it wrote."""
        new = [(snapshot, manifests) for snapshot, manifests in wanted if _key(snapshot) not in self._facts]
        types = _partition_types(metadata)
        reads = [(snapshot, manifest) for snapshot, manifests in new for manifest in manifests]
        found: dict[int, list[ManifestColumns]] = {}
        columns = map_concurrently(
            lambda read: read_manifest(
                read_manifest_file(read[1], storage), read[1], partition_type=types.get(read[1].partition_spec_id)
            ),
            reads,
            limit=_LIMIT,
            executor=self.executor,
        )
        for (snapshot, _), manifest in zip(reads, columns, strict=True):
            found.setdefault(snapshot.snapshot_id, []).append(manifest)
        for snapshot, _ in new:
            self._facts[_key(snapshot)] = changes_of_snapshot(snapshot, found.get(snapshot.snapshot_id, ()))
        return [self._facts[_key(snapshot)] for snapshot, _ in wanted]


def _key(snapshot: Snapshot) -> tuple[int, str | None]:
    return snapshot.snapshot_id, snapshot.manifest_list


def _partition_types(metadata: TableMetadata) -> dict[int, StructType]:
    older = tuple(reversed(metadata.schemas))
    return {spec.spec_id: spec.partition_type(metadata.schema, older) for spec in metadata.partition_specs}


# the window -----------------------------------------------------------------------------------------------------


def branch_head(metadata: TableMetadata, branch: str) -> int | None:
    """The snapshot that a change of a branch is built upon; a branch that is not there yet begins at `main`.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.schemas.schema import Schema
    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> branch_head(new_table_metadata(Schema(()), location="memory:t", uuid=uuid, now_ms=0), "main") is None
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
    memory: SnapshotCache | None = None,
) -> ConcurrentCommits:
    """What was committed to a branch after a snapshot (None: since it was empty), or `ConflictingChange`.

    >>> from floe.commit.operations.append import FastAppend
    >>> from helpers.tables import Box, data_file, new_table
    >>> box = Box(new_table())
    >>> start = box.commit(FastAppend([data_file("a.parquet")])).snapshot_id
    >>> others = box.commit(FastAppend([data_file("b.parquet")]))
    >>> ((_, facts),) = read_concurrent_commits(box.metadata, box.storage, start_id=start)
    >>> [file.file_path for part in facts.added_data for file in part.files()]
    ['b.parquet']
    """
    memory = SnapshotCache() if memory is None else memory
    history = _history(metadata, start_id, branch)
    if not history:
        return ConcurrentCommits()
    start = None if start_id is None else metadata.snapshots_by_id.get(start_id)
    known = [start, *history] if start is not None else history
    lists: list[list[ManifestFile] | None] = [*memory.manifests(known, storage)]
    if start is None:
        lists.insert(0, [] if start_id is None else None)
    steps = [_Step(*step) for step in zip(history, lists, lists[1:], strict=False)]
    facts = memory.facts([(step.snapshot, step.written()) for step in steps], metadata, storage)
    for step, found in zip(steps, facts, strict=True):
        step.check_accounts(found)
    return ConcurrentCommits(tuple(_commits(facts, metadata, branch)))


@dataclass(frozen=True, slots=True)
class _Step:
    """A snapshot, with its parent's manifests (None where they are not known) and its own."""

    snapshot: Snapshot
    before: list[ManifestFile] | None
    after: list[ManifestFile] | None

    def written(self) -> list[ManifestFile]:
        """The manifests that the snapshot wrote: by their names, and by what the list says of them."""
        carried = {manifest.manifest_path for manifest in self.before or ()}
        own = (None, self.snapshot.snapshot_id)
        return [
            manifest
            for manifest in self.after or ()
            if manifest.added_snapshot_id in own or (self.before is not None and manifest.manifest_path not in carried)
        ]

    def check_accounts(self, facts: SnapshotChanges) -> None:
        """Raise unless the snapshot has the files of its parent, and those added, without those removed.

        A writer that leaves out a manifest, or entries of one, removes files without saying so.
        """
        for content, added, removed in (
            (ManifestContent.DATA, facts.added_data, facts.removed_data),
            (ManifestContent.DELETES, facts.added_deletes, facts.removed_deletes),
        ):
            before, after = _live_files(self.before, content), _live_files(self.after, content)
            if before is None or after is None:
                continue
            told = sum(map(len, added)) - sum(map(len, removed))
            if after - before != told:
                raise ConflictingChange(
                    f"what was committed since cannot be told: a snapshot has {after} {_WORDS[content]} after "
                    f"{before}, but its manifests account for a difference of {told}",
                    hint="read the table again and make the change anew",
                    snapshot=self.snapshot.snapshot_id,
                    operation=self.snapshot.operation,
                )


_WORDS: Final = {ManifestContent.DATA: "data files", ManifestContent.DELETES: "delete files"}


def _live_files(manifests: Sequence[ManifestFile] | None, content: ManifestContent) -> int | None:
    """How many files a snapshot has, by its manifest list; None where the list does not say."""
    if manifests is None:
        return None
    live = 0
    for manifest in manifests:
        if manifest.content == content:
            if manifest.added_files_count is None or manifest.existing_files_count is None:
                return None
            live += manifest.added_files_count + manifest.existing_files_count
    return live


def _commits(facts: Sequence[SnapshotChanges], metadata: TableMetadata, branch: str) -> Iterator[OtherCommit]:
    """The snapshots, those together that were published at once.

    The log has the last snapshot of each commit to `main`. For other branches there is none, and all that was committed
    since counts as one commit: that makes more changes conflict than necessary, and never fewer.
    """
    logged = {entry.snapshot_id for entry in metadata.snapshot_log} if branch == MAIN_BRANCH else frozenset()
    gathered: list[SnapshotChanges] = []
    for one in facts:
        gathered.append(one)
        if one.snapshot.snapshot_id in logged or one is facts[-1]:
            yield OtherCommit(tuple(gathered))
            gathered = []


def _history(metadata: TableMetadata, start_id: int | None, branch: str) -> list[Snapshot]:
    """The snapshots after the one that was read up to the branch's head, oldest first."""
    head_id = branch_head(metadata, branch)
    found: list[Snapshot] = []
    for snapshot in ancestors(metadata, head_id):
        if snapshot.snapshot_id == start_id:
            return found[::-1]
        found.append(snapshot)
    reached = found[-1].parent_snapshot_id if found else None
    if reached == start_id:
        return found[::-1]
    if reached is not None:
        raise ConflictingChange(
            f"what was committed since cannot be told: the history of branch {branch!r} is known only down to "
            f"snapshot {found[-1].snapshot_id}, what came before has expired",
            hint="read the table again and make the change anew; keep snapshots for longer than changes take",
            **{"snapshot read": start_id},
        )
    raise ConflictingChange(
        f"the snapshot that was read is no longer in the history of branch {branch!r}: it was rolled back, or the "
        "table was replaced",
        hint="read the table again and make the change anew",
        **{"snapshot read": start_id, "head": head_id},
    )
