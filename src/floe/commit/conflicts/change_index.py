"""What a change declared, arranged for the comparison with what others did: files by path, deletes by their aim.

Deletion vectors of two changes for one data file made into one, so that both commit.

Two deletions of rows of a file do not disturb each other, but a data file can have only one deletion vector (spec:
Deletion Vectors). Whoever comes second adds a vector with the rows of both and removes the other one; its own vector
for a file that is no longer there is left out.

A change that can do so calls `conflicts.check` with `can_merge=True` on every attempt, and if it gets merges back,
commits what `merge_vectors` makes of its writes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
from pyroaring import BitMap64

from floe.commit.change import Footprint, Writes
from floe.commit.conflicts.concurrent_commits import ConcurrentCommits, Entries
from floe.commit.conflicts.position_overlaps import PositionReader, Positions, RowFilter, VectorReader, newly_deleted
from floe.commit.manifests.file_sets import PathSet
from floe.errors import ConflictingChange
from floe.spec.codecs.deletion_vectors import CARDINALITY, blob_of
from floe.spec.codecs.puffin import write_file
from floe.spec.manifests.delete_scope import partition_key
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH
from floe.storage.locations import canonical
from floe.storage.protocol import Storage


class ChangeIndex:
    """A footprint with its files arranged; paths are compared as files, however they are spelled."""

    def __init__(
        self,
        footprint: Footprint,
        metadata: TableMetadata,
        vectors: VectorReader,
        read_positions: PositionReader | None = None,
    ) -> None:
        self.reads, self.writes = footprint.reads, footprint.writes
        self.metadata = metadata
        self._vectors = vectors
        self._read_positions = read_positions
        self._by_partition: dict[int, tuple[PathSet, dict[Hashable, list[str]]]] = {}

    # files --------------------------------------------------------------------------------------------------------

    @cached_property
    def added_data(self) -> tuple[DataFile, ...]:
        """The data files that it adds."""
        return tuple(file for file in self.writes.added if file.is_data)

    @cached_property
    def adds_rows(self) -> bool:
        """Whether it adds rows that were not in the table before."""
        return bool(self.added_data) and not self.writes.same_rows

    @cached_property
    def removed_data(self) -> dict[str, DataFile]:
        """The data files that it removes, by path."""
        return {canonical(file.file_path): file for file in self.writes.removed if file.is_data}

    @cached_property
    def copied(self) -> PathSet:
        """The data files whose rows go on in other files: those read for it, and those removed while rows are added."""
        replaced = self.adds_rows or self.writes.same_rows
        return PathSet(chain(self.reads.files, self._removed_paths() if replaced else ()))

    def _removed_paths(self) -> Iterator[str]:
        return chain((file.file_path for file in self.removed_data.values()), self.writes.removed_paths)

    @cached_property
    def dropped(self) -> PathSet:
        """The data files that are removed with all their rows."""
        return PathSet(path for path in self._removed_paths() if path not in self.copied)

    @cached_property
    def going(self) -> PathSet:
        """The data files that must be there to be copied or dropped."""
        return PathSet(chain(self.copied, self.dropped))

    @cached_property
    def new_data(self) -> PathSet:
        """Where the data files are that it adds."""
        return PathSet(file.file_path for file in self.added_data)

    @cached_property
    def referenced(self) -> PathSet:
        """The data files of others that its position deletes point into."""
        return PathSet(path for path in self.writes.referenced if path not in self.new_data)

    @cached_property
    def position_deletes(self) -> tuple[DataFile, ...]:
        """The position deletes and deletion vectors that it adds."""
        return tuple(f for f in self.writes.added if f.is_position_delete_file or f.is_deletion_vector)

    @cached_property
    def equality_deletes(self) -> tuple[DataFile, ...]:
        """The equality deletes that it adds."""
        return tuple(file for file in self.writes.added if file.is_equality_delete_file)

    @cached_property
    def vectors(self) -> dict[str, list[DataFile]]:
        """The deletion vectors that it adds for files of others, by the data file."""
        return self._by_target(f for f in self.writes.added if f.is_deletion_vector)

    @cached_property
    def vector_targets(self) -> PathSet:
        """The data files of others that get a deletion vector."""
        return PathSet(vectors[0].referenced_data_file or "" for vectors in self.vectors.values())

    @cached_property
    def replaced_vectors(self) -> dict[str, list[DataFile]]:
        """The deletion vectors that it removes, by the data file."""
        return self._by_target(f for f in self.writes.removed if f.is_deletion_vector)

    def _by_target(self, deletes: Iterable[DataFile]) -> dict[str, list[DataFile]]:
        found: dict[str, list[DataFile]] = {}
        for delete in deletes:
            if delete.target_path is not None and delete.target_path not in self.new_data:
                found.setdefault(canonical(delete.target_path), []).append(delete)
        return found

    @cached_property
    def removed_delete_files(self) -> dict[tuple[str, int | None], DataFile]:
        """The delete files that it removes, but for the vectors that new ones take the place of."""
        return {
            delete_place(file): file for file in self.writes.removed if not file.is_data and not self._is_replaced(file)
        }

    def _is_replaced(self, delete: DataFile) -> bool:
        target = delete.target_path
        return delete.is_deletion_vector and target is not None and canonical(target) in self.vectors

    # rows ---------------------------------------------------------------------------------------------------------

    @cached_property
    def rows_read(self) -> RowFilter | None:
        """The rows that were looked at."""
        if self.reads.blind or self.reads.filter is None:
            return None
        return RowFilter(
            self.reads.filter,
            self.metadata,
            schema_id=self.reads.schema_id,
            case_sensitive=self.reads.case_sensitive,
        )

    @cached_property
    def looked_at(self) -> PathSet | None:
        """The data files with rows that were looked at, if it is known which rows those were."""
        known = self.reads.positions
        return None if known is None else PathSet(path for path, rows in known.items() if rows)

    def positions_looked_at(self, path: str) -> Positions:
        """The rows of a data file that were looked at."""
        known = self.reads.positions
        return None if known is None else known.get(path)

    @cached_property
    def rows_cleared(self) -> RowFilter | None:
        """The rows that are removed wherever they are, if the table was read for it."""
        if self.reads.blind or self.writes.filter is None:
            return None
        return RowFilter(
            self.writes.filter,
            self.metadata,
            schema_id=self.reads.schema_id,
            case_sensitive=self.reads.case_sensitive,
        )

    @cached_property
    def partitions_cleared(self) -> frozenset[Hashable]:
        """The partitions that are emptied, if the table was read for it."""
        if self.reads.blind:
            return frozenset()
        return frozenset(partition_key(spec_id, values) for spec_id, values in self.writes.partitions)

    @property
    def clears(self) -> bool:
        """Whether rows are removed wherever they are, after the table was read."""
        return self.rows_cleared is not None or bool(self.partitions_cleared)

    def is_unpartitioned(self, spec_id: int) -> bool:
        """Whether deletes of that spec reach the whole table."""
        return self.metadata.spec_by_id(spec_id).is_unpartitioned

    def may_lie_in(self, path: str, delete: DataFile) -> bool:
        """Whether a data file of this change's may lie in the partition of a delete file."""
        keys = self._partition_keys.get(canonical(path))
        return keys is None or partition_key(delete.spec_id, delete.partition) in keys

    def removed_data_of(self, path: str) -> DataFile | None:
        """The removed data file of that path."""
        return self.removed_data.get(canonical(path))

    @cached_property
    def _partition_keys(self) -> dict[str, set[Hashable]]:
        """The partitions in which each removed or referenced data file can lie: those of the deletes for it."""
        found: dict[str, set[Hashable]] = {}
        anywhere = set()
        for delete in self.position_deletes:
            if delete.target_path is None:
                anywhere.add(_key_of(delete))
            else:
                found.setdefault(canonical(delete.target_path), set()).add(_key_of(delete))
        if anywhere:
            for path in map(canonical, self.referenced):
                found.setdefault(path, anywhere)
        return found | {path: {_key_of(file)} for path, file in self.removed_data.items()}

    # positions ----------------------------------------------------------------------------------------------------

    def positions(self, path: str) -> list[Positions]:
        """The rows of a data file that it deletes."""
        known = self.writes.positions
        if known is not None and path in known:
            return [BitMap64(known[path])]
        aimed = [*self._deletes_by_target.get(canonical(path), ()), *self._deletes_by_target.get(None, ())]
        replaced = self.replaced_vectors.get(canonical(path), [])
        return newly_deleted(path, aimed, replaced, self._vectors, self._read_positions) or [None]

    @cached_property
    def _deletes_by_target(self) -> dict[str | None, list[DataFile]]:
        found: dict[str | None, list[DataFile]] = {}
        for delete in self.position_deletes:
            target = delete.target_path
            found.setdefault(None if target is None else canonical(target), []).append(delete)
        return found

    def their_positions(self, path: str, added: Sequence[DataFile], removed: Sequence[DataFile]) -> list[Positions]:
        """The rows of a data file that another snapshot deletes, by the deletes that it added and removed for it."""
        return newly_deleted(path, added, removed, self._vectors, self._read_positions)

    # their deletes ------------------------------------------------------------------------------------------------

    def aimed(self, paths: PathSet, deletes: Iterable[Entries]) -> dict[str, list[DataFile]]:
        """Of some files of this change's, those that position deletes may point into, with these deletes.

        Deletes that do not name a file may point into any of their partition, between the bounds of their paths.
        """
        parts = list(deletes)
        found = {
            path: [delete for delete in some if self.may_lie_in(path, delete)]
            for path, some in deletes_naming(paths, parts).items()
        }
        for delete in _unnamed(parts):
            for path in self.in_partition_of(delete, paths):
                if _within_bounds(path.encode(), delete):
                    found.setdefault(path, []).append(delete)
        return {path: some for path, some in found.items() if some}

    def in_reach_of(self, delete: DataFile, paths: PathSet) -> Iterable[str]:
        """Of some files of this change's, those that an equality delete file may reach."""
        return paths if self.is_unpartitioned(delete.spec_id) else self.in_partition_of(delete, paths)

    def in_partition_of(self, delete: DataFile, paths: PathSet) -> list[str]:
        """Of some files of this change's, those that may lie in the partition of a delete file."""
        if id(paths) not in self._by_partition:
            index: dict[Hashable, list[str]] = {}
            for path in paths:
                for key in self._partition_keys.get(canonical(path), (None,)):
                    index.setdefault(key, []).append(path)
            self._by_partition[id(paths)] = paths, index
        _, index = self._by_partition[id(paths)]
        return [*index.get(_key_of(delete), ()), *index.get(None, ())]


def delete_place(file: DataFile) -> tuple[str, int | None]:
    """What tells a delete file from others: vectors share a Puffin file, and are told apart by their place in it.

    >>> from floe.spec.manifests.entries import FileContent
    >>> delete_place(DataFile(FileContent.POSITION_DELETES, "/t/d.puffin", "puffin", (), 1, 50, content_offset=4))
    ('/t/d.puffin', 4)
    """
    return canonical(file.file_path), file.content_offset


def _key_of(file: DataFile) -> Hashable:
    return partition_key(file.spec_id, file.partition)


def deletes_naming(paths: PathSet, deletes: Iterable[Entries]) -> dict[str, list[DataFile]]:
    """The position deletes that are for one of some files alone, by file."""
    spelled = {canonical(path): path for path in paths}
    found: dict[str, list[DataFile]] = {}
    for entries in deletes if spelled else ():
        targets = entries.columns.referenced_data_file.take(entries.rows)
        if not paths.found_in(targets.take(np.flatnonzero(targets.known))):
            entries = entries.where(np.logical_not(targets.known))
        for delete in entries.files():
            path = None if delete.target_path is None else spelled.get(canonical(delete.target_path))
            if path is not None:
                found.setdefault(path, []).append(delete)
    return found


def _unnamed(deletes: Iterable[Entries]) -> Iterator[DataFile]:
    for entries in deletes:
        named = entries.columns.referenced_data_file.take(entries.rows).known
        if not named.all():
            yield from (file for file in entries.where(np.logical_not(named)).files() if file.target_path is None)


def _within_bounds(path: bytes, delete: DataFile) -> bool:
    """Whether a path lies between those of a delete file; only paths of one spelling can be compared."""
    lower = (delete.lower_bounds or {}).get(DELETE_FILE_PATH.id)
    upper = (delete.upper_bounds or {}).get(DELETE_FILE_PATH.id)
    if lower is None or upper is None or not _root(path) == _root(lower) == _root(upper):
        return True
    return lower <= path <= upper


def _root(path: bytes) -> bytes:
    """How a location begins, in which spellings of one file differ: `s3://` and `s3a://`, `file:/` and `file:///`."""
    scheme, colon, rest = path.partition(b":")
    return path[: len(path) - len(rest.lstrip(b"/"))] if colon and b"/" not in scheme else b""


# Deletion vectors of two changes for one data file made into one, so that both commit.


@dataclass(frozen=True, slots=True)
class VectorMerge:
    """What is to be done about one data file.

    `ours` are the vectors that the change would have added. `theirs` are the position deletes that others added since
    and that are still there: the change must remove them, and delete their rows too. `replaced` are the vectors that
    the change was to remove and that others have left. If the data file is `gone`, nothing is added for it.
    """

    data_file: str
    ours: tuple[DataFile, ...]
    theirs: tuple[DataFile, ...]
    replaced: tuple[DataFile, ...] = ()
    gone: bool = False

    @property
    def possible(self) -> bool:
        """Whether vectors alone are to be merged; position delete files, of older tables, have to be read for it."""
        return self.gone or all(delete.is_deletion_vector for delete in self.theirs)


def merges_for(mine: ChangeIndex, window: ConcurrentCommits) -> tuple[VectorMerge, ...]:
    """What has to be merged or left out, for all data files that others touched since and that get a vector."""
    targets = mine.vector_targets
    theirs: dict[str, dict[tuple[str, int | None], DataFile]] = {}
    gone: set[str] = set()
    unseen: set[tuple[str, int | None]] = set()
    for _, facts in window:
        for path, deletes in mine.aimed(targets, facts.added_position_deletes).items():
            theirs.setdefault(path, {}).update((delete_place(delete), delete) for delete in deletes)
        for path, deletes in deletes_naming(targets, facts.removed_deletes).items():
            unseen.update(map(delete_place, deletes))
            for delete in deletes:
                theirs.get(path, {}).pop(delete_place(delete), None)
        for entries in facts.removed_data:
            gone |= targets.found_in(entries.paths)
    return tuple(
        VectorMerge(
            path,
            tuple(mine.vectors[canonical(path)]),
            tuple(theirs.get(path, {}).values()),
            tuple(v for v in mine.replaced_vectors.get(canonical(path), ()) if delete_place(v) not in unseen),
            path in gone,
        )
        for path in sorted(gone | theirs.keys())
    )


def merge_vectors(writes: Writes, merges: Sequence[VectorMerge], storage: Storage, location: str) -> Writes:
    """What a change writes instead: merged vectors, in a Puffin file that is written at a location nobody else uses.

    If there is no data file left that needs one, nothing is written.
    """
    alive = [merge for merge in merges if not merge.gone]
    concerned = PathSet(merge.data_file for merge in merges)
    return replace(
        writes,
        added=(*(f for f in writes.added if not _is_vector_for(f, concerned)), *_write(alive, storage, location)),
        removed=(
            *(f for f in writes.removed if not _is_vector_for(f, concerned)),
            *(delete for merge in alive for delete in merge.theirs),
            *(vector for merge in merges for vector in merge.replaced),
        ),
        referenced=frozenset(writes.referenced) - {merge.data_file for merge in merges if merge.gone},
    )


def _is_vector_for(file: DataFile, data_files: PathSet) -> bool:
    return file.is_deletion_vector and file.referenced_data_file in data_files


def _write(merges: Sequence[VectorMerge], storage: Storage, location: str) -> list[DataFile]:
    if not merges:
        return []
    reader = VectorReader(storage)
    written = write_file([blob_of(_union(merge, reader), merge.data_file) for merge in merges])
    storage.write(location, written.data)
    return [
        replace(
            merge.ours[0],
            file_path=location,
            record_count=int(blob.properties[CARDINALITY]),
            file_size_in_bytes=len(written.data),
            content_offset=blob.offset,
            content_size_in_bytes=blob.length,
        )
        for merge, blob in zip(merges, written.payload.blobs, strict=True)
    ]


def _union(merge: VectorMerge, reader: VectorReader) -> BitMap64:
    positions = BitMap64()
    for vector in (*merge.ours, *merge.theirs):
        found = reader.read(vector)
        if found is None:
            raise ConflictingChange(
                "others deleted rows of the same file, and a deletion vector of "
                f"{vector.content_size_in_bytes} bytes is too long to be merged",
                hint="read the table again and make the change anew",
                file=vector.file_path,
            )
        positions |= found
    return positions
