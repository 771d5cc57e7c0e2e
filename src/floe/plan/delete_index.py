"""Which deletes apply to which data files, for very many of both (spec: Scan Planning, scope rules).

The rules one by one are in `floe.spec.manifests.delete_scope`, and the answers are the same. Here deletes are sorted
into groups, by partition or by the path of the data file they name, and each group by age. The deletes of a data file
are then the end of a group, found by bisection for many files at once.

Nothing is written down for pairs of files until somebody asks for the deletes of some data files: a few numbers for
each data file are all that a plan keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.avro.manifests import ManifestColumns
from floe.errors import CorruptFile
from floe.plan.arrow_columns import text_array
from floe.plan.delete_files import DeleteFiles, DeleteKind
from floe.plan.equality_reach import EqualityReach
from floe.spec.manifests.delete_scope import deletes_for
from floe.spec.manifests.entries import DataFile
from floe.spec.pruning.columnar_facts import ColumnFacts, Mask
from floe.spec.pruning.columnar_metrics import FileStats
from floe.spec.schemas.schema import Schema

__all__ = ["DeleteIndex", "Matched"]

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Matched:
    """What the index knows of some data files: their age, and the numbers of their partitions and paths."""

    sequence_number: Places
    partition: Places
    path: Places
    facts: dict[int, ColumnFacts]

    def __len__(self) -> int:
        return len(self.sequence_number)


class _Groups:
    """Deletes of one kind in groups, the groups in the order of their numbers, and within a group the oldest first."""

    def __init__(self, deletes: DeleteFiles, kind: DeleteKind, groups: Places, *, reach_own_commit: bool) -> None:
        rows = np.flatnonzero(deletes.kind == kind)
        ages = deletes.sequence_number[rows]
        self._ages = np.unique(ages)
        self._side = "left" if reach_own_commit else "right"
        keys = groups[rows] * self._width + np.searchsorted(self._ages, ages)
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self.deletes = rows[order]

    @property
    def _width(self) -> int:
        return len(self._ages) + 1

    def __len__(self) -> int:
        return len(self.deletes)

    def ranges(self, groups: Places, sequence_number: Places) -> tuple[Places, Places]:
        """For data files of some groups and ages, the stretch of `deletes` that is theirs; group -1 has none."""
        first = np.searchsorted(self._ages, sequence_number, self._side)  # type: ignore[call-overload]
        begins = np.searchsorted(self._keys, groups * self._width + first)
        ends = np.searchsorted(self._keys, (groups + 1) * self._width)
        return begins, np.where(groups < 0, begins, ends)

    def pairs(self, groups: Places, sequence_number: Places) -> tuple[Places, Places]:
        """The pairs of a data file and a delete."""
        if not len(self):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return _spelled_out(self.deletes, *self.ranges(groups, sequence_number))


class DeleteIndex:
    """The deletes of a scan, ready to be looked up."""

    def __init__(
        self, chunks: Sequence[ManifestColumns], unpartitioned_specs: Iterable[int], schemas: Iterable[Schema]
    ) -> None:
        self.unpartitioned_specs = frozenset(unpartitioned_specs)
        self.deletes = deletes = DeleteFiles(chunks, self.unpartitioned_specs)
        self._reach = EqualityReach(deletes, schemas)
        everywhere = np.zeros(len(deletes), np.int64)
        self._global = _Groups(deletes, DeleteKind.GLOBAL_EQUALITY, everywhere, reach_own_commit=False)
        self._nearby = self._reach.nearby(self._global.deletes) if len(self._global) else None
        self._equality = _Groups(deletes, DeleteKind.EQUALITY, deletes.partition, reach_own_commit=False)
        self._positions = _Groups(deletes, DeleteKind.POSITIONS, deletes.partition, reach_own_commit=True)
        self._file_positions = _Groups(deletes, DeleteKind.FILE_POSITIONS, deletes.path, reach_own_commit=True)
        vectors = np.flatnonzero(deletes.kind == DeleteKind.VECTOR)
        self._vector = np.full(len(deletes.paths), -1)
        self._vector[deletes.path[vectors]] = vectors
        self._vectors = np.bincount(deletes.path[vectors], minlength=len(deletes.paths))

    def __len__(self) -> int:
        return len(self.deletes)

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns of data files whose metrics help to leave out equality deletes."""
        return self._reach.columns

    # data files -------------------------------------------------------------------------------------------------

    def match(self, data: Sequence[tuple[ManifestColumns, FileStats]]) -> list[Matched]:
        """Look up data files, each chunk with the metrics of `columns`.

        Deletes that name a file but cannot be meant for it are CorruptFile, and so are two vectors for one file.
        """
        paths = self._paths_of([columns for columns, _ in data])
        found = []
        for (columns, stats), path in zip(data, paths, strict=True):
            matched = Matched(
                np.asarray(columns.sequence_number.values),
                self.deletes.partitions_of(columns),
                path,
                self._reach.facts_of(stats),
            )
            self._check_aims(columns, matched)
            found.append(matched)
        return found

    def _paths_of(self, data: Sequence[ManifestColumns]) -> list[Places]:
        if not len(self.deletes.paths):
            return [np.full(len(columns), -1) for columns in data]
        if not data:
            return []
        # in one call, so that the paths that deletes name are hashed once
        paths = pa.chunked_array([text_array(columns.file_path) for columns in data])
        places = pc.index_in(paths, value_set=self.deletes.paths).fill_null(-1)
        return [np.asarray(chunk.to_numpy(zero_copy_only=False), np.int64) for chunk in _chunks_like(places, data)]

    def _check_aims(self, columns: ManifestColumns, matched: Matched) -> None:
        """Raise if a delete names one of the files and cannot apply to it: rows would come back."""
        aimed = np.flatnonzero(matched.path >= 0)
        if not aimed.size:
            return
        paths = matched.path[aimed]
        vectors = self._vector[paths]
        has_vector = vectors >= 0
        older = self.deletes.sequence_number[vectors] < matched.sequence_number[aimed]
        elsewhere = self.deletes.partition[vectors] != matched.partition[aimed]
        wrong = has_vector & (older | elsewhere | (self._vectors[paths] > 1))
        any_age = np.full(len(aimed), np.iinfo(np.int64).min)
        files, positions = self._file_positions.pairs(paths, any_age)
        misplaced = self.deletes.partition[positions] != matched.partition[aimed[files]]
        suspects = [*aimed[wrong].tolist(), *aimed[files[misplaced]].tolist()]
        if suspects:
            self._raise_for(columns, suspects[0])

    def _raise_for(self, columns: ManifestColumns, row: int) -> None:
        """The error of the plain rules, which know best what to say."""
        data = columns.entry(row)
        named = pc.equal(self.deletes.paths, data.data_file.file_path).to_numpy(zero_copy_only=False)
        deletes = np.flatnonzero(self.deletes.path == int(np.flatnonzero(named)[0]))
        deletes_for(data, self.deletes.entries(deletes.tolist()), self.unpartitioned_specs)
        raise CorruptFile("a delete file names a data file but cannot apply to it", file=data.data_file.file_path)

    # their deletes ----------------------------------------------------------------------------------------------

    def pairs(self, matched: Matched, rows: Places) -> tuple[Places, Places]:
        """The deletes of some data files: pairs of a place in `rows` and a number of a delete, in this order."""
        ages = matched.sequence_number[rows]
        partitions, paths = matched.partition[rows], matched.path[rows]
        equality = [self._global_pairs(matched, rows), self._equality.pairs(partitions, ages)]
        files, deletes = _joined(equality)
        if files.size and self.columns:
            reached = self._reach.reaches(matched.facts, rows[files], deletes)
            files, deletes = files[reached], deletes[reached]
        with_vector = np.flatnonzero(self._has_vector(paths))
        others = [self._positions.pairs(partitions, ages), self._file_positions.pairs(paths, ages)]
        position_files, positions = _joined(others)
        needed = ~np.isin(position_files, with_vector)
        files, deletes = _joined(
            [
                (files, deletes),
                (with_vector, self._vector[paths[with_vector]]),
                (position_files[needed], positions[needed]),
            ]
        )
        order = np.lexsort((deletes, files))
        return files[order], deletes[order]

    def _global_pairs(self, matched: Matched, rows: Places) -> tuple[Places, Places]:
        """The equality deletes that reach the whole table: looked up by age or by bounds, whichever leaves fewer."""
        ages, everywhere = matched.sequence_number[rows], np.zeros(len(rows), np.int64)
        if self._nearby is None:
            return self._global.pairs(everywhere, ages)
        begins, ends = self._global.ranges(everywhere, ages)
        near_begins, near_ends = self._nearby.ranges(matched.facts, rows)
        if (near_ends - near_begins).sum() >= (ends - begins).sum():
            return _spelled_out(self._global.deletes, begins, ends)
        files, deletes = _spelled_out(self._nearby.deletes, near_begins, near_ends)
        younger = self.deletes.sequence_number[deletes] > ages[files]
        return files[younger], deletes[younger]

    def _has_vector(self, paths: Places) -> Mask:
        if not len(self._vector):
            return np.zeros(len(paths), np.bool_)
        return (paths >= 0) & (self._vector[paths] >= 0)

    def most_pairs(self, matched: Matched) -> int:
        """How many pairs there are at most, without making them."""
        everywhere = np.zeros(len(matched), np.int64)
        total = 0
        if len(self._global):
            begins, ends = self._global.ranges(everywhere, matched.sequence_number)
            total = int((ends - begins).sum())
        if self._nearby is not None:
            begins, ends = self._nearby.ranges(matched.facts, np.arange(len(matched)))
            total = min(total, int((ends - begins).sum()))
        for groups, numbers in (
            (self._equality, matched.partition),
            (self._positions, matched.partition),
            (self._file_positions, matched.path),
        ):
            if len(groups):
                begins, ends = groups.ranges(numbers, matched.sequence_number)
                total += int((ends - begins).sum())
        return total + int(self._has_vector(matched.path).sum())

    def files(self, numbers: Iterable[int]) -> list[DataFile]:
        """Some deletes as objects."""
        return self.deletes.files(numbers)


def _spelled_out(deletes: Places, begins: Places, ends: Places) -> tuple[Places, Places]:
    """Pairs of the number of a stretch and a delete in it."""
    sizes = ends - begins
    files = np.repeat(np.arange(len(sizes)), sizes)
    places = np.arange(len(files)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(begins, sizes)
    return files, deletes[places]


def _joined(parts: Sequence[tuple[Places, Places]]) -> tuple[Places, Places]:
    return np.concatenate([files for files, _ in parts]), np.concatenate([deletes for _, deletes in parts])


def _chunks_like(places: pa.ChunkedArray, data: Sequence[ManifestColumns]) -> list[pa.Array]:
    """The same values in the chunks of some columns; empty chunks may have been dropped on the way."""
    found, begin = [], 0
    for columns in data:
        part = places.slice(begin, len(columns))
        found.append(part.combine_chunks() if part.num_chunks != 1 else part.chunk(0))
        begin += len(columns)
    return found
