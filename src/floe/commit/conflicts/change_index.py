"""The footprint of a change, indexed for conflict checks, and the merging of its deletion vectors with those of others.

`ChangeIndex` has the files of a footprint by path, partition and target, as the functions in `overlaps` look them up.

Two changes that delete rows of the same data file do not conflict by that, but a data file can have only one deletion
vector (spec: Deletion Vectors). So the second change adds a vector with the positions of both and removes the other
one; its vector for a data file that was removed meanwhile is left out. A change that can do so calls `rules.check` with
`can_merge=True` on every attempt; if that returns merges, it commits the writes that `merge_vectors` returns.
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
from floe.commit.conflicts.position_overlaps import (
    PositionReader,
    Positions,
    RowFilter,
    VectorReader,
    newly_deleted_positions,
)
from floe.commit.manifests.file_sets import PathSet
from floe.errors import ConflictingChange
from floe.spec.codecs.deletion_vectors import CARDINALITY, deletion_vector_blob
from floe.spec.codecs.puffin import write_file
from floe.spec.manifests.delete_scope import partition_key
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH
from floe.storage.locations import canonical
from floe.storage.protocol import Storage


class ChangeIndex:
    """The files of a footprint, by path, partition and target; two spellings of a path are the same file."""

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
        """The data files that the change adds."""
        return tuple(file for file in self.writes.added if file.is_data)

    @cached_property
    def adds_rows(self) -> bool:
        """Whether the change adds rows that were not in the table before."""
        return bool(self.added_data) and not self.writes.same_rows

    @cached_property
    def removed_data(self) -> dict[str, DataFile]:
        """The data files that the change removes, by canonical path."""
        return {canonical(file.file_path): file for file in self.writes.removed if file.is_data}

    @cached_property
    def copied(self) -> PathSet:
        """The data files whose rows are copied: those it declares as read, and those removed while rows are added."""
        replaced = self.adds_rows or self.writes.same_rows
        return PathSet(chain(self.reads.files, self._removed_paths() if replaced else ()))

    def _removed_paths(self) -> Iterator[str]:
        return chain((file.file_path for file in self.removed_data.values()), self.writes.removed_paths)

    @cached_property
    def dropped(self) -> PathSet:
        """The data files that are removed with all their rows."""
        return PathSet(path for path in self._removed_paths() if path not in self.copied)

    @cached_property
    def copied_or_dropped(self) -> PathSet:
        """The data files that must still be in the table, to be copied or dropped."""
        return PathSet(chain(self.copied, self.dropped))

    @cached_property
    def new_data(self) -> PathSet:
        """The paths of the data files that the change adds."""
        return PathSet(file.file_path for file in self.added_data)

    @cached_property
    def referenced(self) -> PathSet:
        """The data files of the table that the change's position deletes refer to."""
        return PathSet(path for path in self.writes.referenced if path not in self.new_data)

    @cached_property
    def position_deletes(self) -> tuple[DataFile, ...]:
        """The position delete files and deletion vectors that the change adds."""
        return tuple(f for f in self.writes.added if f.is_position_delete_file or f.is_deletion_vector)

    @cached_property
    def equality_deletes(self) -> tuple[DataFile, ...]:
        """The equality delete files that the change adds."""
        return tuple(file for file in self.writes.added if file.is_equality_delete_file)

    @cached_property
    def vectors(self) -> dict[str, list[DataFile]]:
        """The deletion vectors that the change adds for data files of the table, by data file."""
        return self._by_target(f for f in self.writes.added if f.is_deletion_vector)

    @cached_property
    def vector_targets(self) -> PathSet:
        """The data files of the table that get a deletion vector."""
        return PathSet(vectors[0].referenced_data_file or "" for vectors in self.vectors.values())

    @cached_property
    def replaced_vectors(self) -> dict[str, list[DataFile]]:
        """The deletion vectors that the change removes, by data file."""
        return self._by_target(f for f in self.writes.removed if f.is_deletion_vector)

    def _by_target(self, deletes: Iterable[DataFile]) -> dict[str, list[DataFile]]:
        by_target: dict[str, list[DataFile]] = {}
        for delete in deletes:
            if delete.target_path is not None and delete.target_path not in self.new_data:
                by_target.setdefault(canonical(delete.target_path), []).append(delete)
        return by_target

    @cached_property
    def removed_delete_files(self) -> dict[tuple[str, int | None], DataFile]:
        """The delete files that the change removes, except vectors that new ones replace."""
        return {
            delete_file_key(file): file
            for file in self.writes.removed
            if not file.is_data and not self._is_replaced(file)
        }

    def _is_replaced(self, delete: DataFile) -> bool:
        target = delete.target_path
        return delete.is_deletion_vector and target is not None and canonical(target) in self.vectors

    # rows ---------------------------------------------------------------------------------------------------------

    @cached_property
    def rows_read(self) -> RowFilter | None:
        """The filter on the rows that the change read; None if it read none."""
        if self.reads.blind or self.reads.filter is None:
            return None
        return RowFilter(
            self.reads.filter,
            self.metadata,
            schema_id=self.reads.schema_id,
            case_sensitive=self.reads.case_sensitive,
        )

    @cached_property
    def files_read(self) -> PathSet | None:
        """The data files with rows that the change read; None if the positions are not known."""
        positions = self.reads.positions
        return None if positions is None else PathSet(path for path, rows in positions.items() if rows)

    def positions_read(self, path: str) -> Positions:
        """The positions of a data file that the change read."""
        positions = self.reads.positions
        return None if positions is None else positions.get(path)

    @cached_property
    def rows_cleared(self) -> RowFilter | None:
        """The filter whose rows are removed whatever files they are in; None if the change is blind."""
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
        """The partitions whose rows are all removed; empty if the change is blind."""
        if self.reads.blind:
            return frozenset()
        return frozenset(partition_key(spec_id, values) for spec_id, values in self.writes.partitions)

    @property
    def clears(self) -> bool:
        """Whether the change read the table and removes all rows of a filter or of partitions."""
        return self.rows_cleared is not None or bool(self.partitions_cleared)

    def is_unpartitioned(self, spec_id: int) -> bool:
        """Whether equality deletes of a partition spec apply to the whole table."""
        return self.metadata.spec_by_id(spec_id).is_unpartitioned

    def may_be_in_partition_of(self, path: str, delete: DataFile) -> bool:
        """Whether a data file that the change removes or refers to may be in the partition of a delete file."""
        keys = self._partition_keys.get(canonical(path))
        return keys is None or partition_key(delete.spec_id, delete.partition) in keys

    def removed_data_of(self, path: str) -> DataFile | None:
        """The data file of a path, if the change removes it."""
        return self.removed_data.get(canonical(path))

    @cached_property
    def _partition_keys(self) -> dict[str, set[Hashable]]:
        """The partitions in which each removed or referenced data file can be: those of the deletes for it."""
        keys: dict[str, set[Hashable]] = {}
        without_target = set()
        for delete in self.position_deletes:
            if delete.target_path is None:
                without_target.add(_key_of(delete))
            else:
                keys.setdefault(canonical(delete.target_path), set()).add(_key_of(delete))
        if without_target:
            for path in map(canonical, self.referenced):
                keys.setdefault(path, without_target)
        return keys | {path: {_key_of(file)} for path, file in self.removed_data.items()}

    # positions ----------------------------------------------------------------------------------------------------

    def positions(self, path: str) -> list[Positions]:
        """The positions of a data file that the change deletes."""
        declared = self.writes.positions
        if declared is not None and path in declared:
            return [BitMap64(declared[path])]
        deletes = [*self._deletes_by_target.get(canonical(path), ()), *self._deletes_by_target.get(None, ())]
        replaced = self.replaced_vectors.get(canonical(path), [])
        return newly_deleted_positions(path, deletes, replaced, self._vectors, self._read_positions) or [None]

    @cached_property
    def _deletes_by_target(self) -> dict[str | None, list[DataFile]]:
        by_target: dict[str | None, list[DataFile]] = {}
        for delete in self.position_deletes:
            target = delete.target_path
            by_target.setdefault(None if target is None else canonical(target), []).append(delete)
        return by_target

    def their_positions(self, path: str, added: Sequence[DataFile], removed: Sequence[DataFile]) -> list[Positions]:
        """The positions of a data file that another snapshot deletes, given the delete files it added and removed."""
        return newly_deleted_positions(path, added, removed, self._vectors, self._read_positions)

    # deletes of others --------------------------------------------------------------------------------------------

    def match_position_deletes(self, paths: PathSet, deletes: Iterable[Entries]) -> dict[str, list[DataFile]]:
        """The data files among `paths` that position deletes of others may apply to, with these deletes.

        A delete file without a single target may apply to any data file of its partition whose path is between the
        bounds of its paths.
        """
        manifests = list(deletes)
        matches = {
            path: [delete for delete in targeting if self.may_be_in_partition_of(path, delete)]
            for path, targeting in group_by_target(paths, manifests).items()
        }
        for delete in _without_target(manifests):
            for path in self.paths_in_partition(delete, paths):
                if _within_bounds(path.encode(), delete):
                    matches.setdefault(path, []).append(delete)
        return {path: matching for path, matching in matches.items() if matching}

    def paths_in_scope(self, delete: DataFile, paths: PathSet) -> Iterable[str]:
        """The data files among `paths` that an equality delete file may apply to."""
        return paths if self.is_unpartitioned(delete.spec_id) else self.paths_in_partition(delete, paths)

    def paths_in_partition(self, delete: DataFile, paths: PathSet) -> list[str]:
        """The data files among `paths` that may be in the partition of a delete file."""
        if id(paths) not in self._by_partition:
            index: dict[Hashable, list[str]] = {}
            for path in paths:
                for key in self._partition_keys.get(canonical(path), (None,)):
                    index.setdefault(key, []).append(path)
            self._by_partition[id(paths)] = paths, index
        _, index = self._by_partition[id(paths)]
        return [*index.get(_key_of(delete), ()), *index.get(None, ())]


def delete_file_key(file: DataFile) -> tuple[str, int | None]:
    """The identity of a delete file: its path, and the offset, because deletion vectors share Puffin files.

    >>> from floe.spec.manifests.entries import FileContent
    >>> delete_file_key(DataFile(FileContent.POSITION_DELETES, "/t/d.puffin", "puffin", (), 1, 50, content_offset=4))
    ('/t/d.puffin', 4)
    """
    return canonical(file.file_path), file.content_offset


def _key_of(file: DataFile) -> Hashable:
    return partition_key(file.spec_id, file.partition)


def group_by_target(paths: PathSet, deletes: Iterable[Entries]) -> dict[str, list[DataFile]]:
    """The position deletes with a single target that is among `paths`, by that path."""
    spellings = {canonical(path): path for path in paths}
    by_target: dict[str, list[DataFile]] = {}
    for entries in deletes if spellings else ():
        targets = entries.columns.referenced_data_file.take(entries.rows)
        if not paths.found_in(targets.take(np.flatnonzero(targets.is_valid))):
            entries = entries.where(np.logical_not(targets.is_valid))
        for delete in entries.files():
            path = None if delete.target_path is None else spellings.get(canonical(delete.target_path))
            if path is not None:
                by_target.setdefault(path, []).append(delete)
    return by_target


def _without_target(deletes: Iterable[Entries]) -> Iterator[DataFile]:
    """The position delete files that may apply to more than one data file."""
    for entries in deletes:
        has_target = entries.columns.referenced_data_file.take(entries.rows).is_valid
        if not has_target.all():
            yield from (file for file in entries.where(np.logical_not(has_target)).files() if file.target_path is None)


def _within_bounds(path: bytes, delete: DataFile) -> bool:
    """Whether a path is between the bounds of a delete file's paths; only paths of one spelling can be compared."""
    lower = (delete.lower_bounds or {}).get(DELETE_FILE_PATH.id)
    upper = (delete.upper_bounds or {}).get(DELETE_FILE_PATH.id)
    if lower is None or upper is None or not _root(path) == _root(lower) == _root(upper):
        return True
    return lower <= path <= upper


def _root(path: bytes) -> bytes:
    """The start of a location, in which spellings of one file differ: `s3://` and `s3a://`, `file:/` and `file:///`."""
    scheme, colon, after = path.partition(b":")
    return path[: len(path) - len(after.lstrip(b"/"))] if colon and b"/" not in scheme else b""


# Merging of deletion vectors ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VectorMerge:
    """How the deletion vectors of one data file are merged.

    `ours` are the vectors that the change would have added. `theirs` are the position deletes that others added since
    and that are still in the table: the change must remove them, and delete their rows too. `replaced` are the vectors
    that the change was to remove and that others have not removed. If the data file was `removed`, no vector is added.
    """

    data_file: str
    ours: tuple[DataFile, ...]
    theirs: tuple[DataFile, ...]
    replaced: tuple[DataFile, ...] = ()
    removed: bool = False

    @property
    def possible(self) -> bool:
        """Whether `theirs` are all vectors; position delete files, of upgraded tables, cannot be merged here."""
        return self.removed or all(delete.is_deletion_vector for delete in self.theirs)


def plan_vector_merges(mine: ChangeIndex, commits: ConcurrentCommits) -> tuple[VectorMerge, ...]:
    """The merges for all data files that get a vector and that others removed, or deleted rows of, since."""
    targets = mine.vector_targets
    theirs: dict[str, dict[tuple[str, int | None], DataFile]] = {}
    removed_targets: set[str] = set()
    removed_deletes: set[tuple[str, int | None]] = set()
    for _, changes in commits:
        for path, deletes in mine.match_position_deletes(targets, changes.added_position_deletes).items():
            theirs.setdefault(path, {}).update((delete_file_key(delete), delete) for delete in deletes)
        for path, deletes in group_by_target(targets, changes.removed_deletes).items():
            removed_deletes.update(map(delete_file_key, deletes))
            for delete in deletes:
                theirs.get(path, {}).pop(delete_file_key(delete), None)
        for entries in changes.removed_data:
            removed_targets |= targets.found_in(entries.paths)
    return tuple(
        VectorMerge(
            path,
            tuple(mine.vectors[canonical(path)]),
            tuple(theirs.get(path, {}).values()),
            tuple(
                vector
                for vector in mine.replaced_vectors.get(canonical(path), ())
                if delete_file_key(vector) not in removed_deletes
            ),
            path in removed_targets,
        )
        for path in sorted(removed_targets | theirs.keys())
    )


def merge_vectors(writes: Writes, merges: Sequence[VectorMerge], storage: Storage, location: str) -> Writes:
    """Write merged vectors to a Puffin file, and return what the change writes with them in place of its own.

    `location` is that of the Puffin file; nobody else may use it. If all data files were removed, no file is written.
    """
    alive = [merge for merge in merges if not merge.removed]
    merged = PathSet(merge.data_file for merge in merges)
    return replace(
        writes,
        added=(*(f for f in writes.added if not _is_vector_for(f, merged)), *_write(alive, storage, location)),
        removed=(
            *(f for f in writes.removed if not _is_vector_for(f, merged)),
            *(delete for merge in alive for delete in merge.theirs),
            *(vector for merge in merges for vector in merge.replaced),
        ),
        referenced=frozenset(writes.referenced) - {merge.data_file for merge in merges if merge.removed},
    )


def _is_vector_for(file: DataFile, data_files: PathSet) -> bool:
    return file.is_deletion_vector and file.referenced_data_file in data_files


def _write(merges: Sequence[VectorMerge], storage: Storage, location: str) -> list[DataFile]:
    if not merges:
        return []
    reader = VectorReader(storage)
    written = write_file([deletion_vector_blob(_union(merge, reader), merge.data_file) for merge in merges])
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
        deleted = reader.read(vector)
        if deleted is None:
            raise ConflictingChange(
                "others deleted rows of the same file, and a deletion vector of "
                f"{vector.content_size_in_bytes} bytes is too long to be merged",
                hint="read the table again and repeat the change",
                file=vector.file_path,
            )
        positions |= deleted
    return positions
