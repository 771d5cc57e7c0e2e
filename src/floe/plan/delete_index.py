"""The index of deletes: which of them apply to which data files, for very many of both (spec: Scan Planning).

The rules are those of `floe.spec.manifests.delete_scope`, which has them for a single pair. Here deletes are grouped by
partition, or by the path of the data file they name, and each group is sorted by sequence number. The deletes of a data
file are the end of a group, found by bisection for many files at once. A plan keeps a few numbers for each data file;
pairs are computed when the deletes of data files are asked for.

Equality deletes are also matched by metrics (`EqualityDeleteMatcher`). A row is deleted only if it is equal to a row of
the delete file in all equality columns. If the value ranges of both files in one of these columns do not overlap, the
delete file does not apply. Null is equal to null here, and NaN to NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.avro.manifest_columns import ManifestColumns
from floe.errors import CorruptFile
from floe.plan.arrow_columns import text_array
from floe.plan.delete_files import DeleteFiles, DeleteKind
from floe.plan.file_selection import concat_stats, select_stats
from floe.spec.expressions.nodes import BoundReference
from floe.spec.manifests.delete_scope import deletes_for
from floe.spec.manifests.entries import DataFile
from floe.spec.pruning.key_columns import ByteKeys, FloatKeys, IntKeys, KeyColumn
from floe.spec.pruning.metrics_evaluation import FileStats, possible_values
from floe.spec.pruning.range_evaluation import Mask, PossibleValues
from floe.spec.schemas.schema import Schema

# Matching by metrics ----------------------------------------------------------------------------------------------

RowIndices = NDArray[np.int64]

_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class EqualityDeleteMatcher:
    """The values that the equality deletes of a scan can delete, by the metrics of the delete files."""

    def __init__(self, deletes: DeleteFiles, schemas: Iterable[Schema]) -> None:
        self._place = np.full(len(deletes), -1)
        equality = np.flatnonzero(deletes.kind >= DeleteKind.EQUALITY)
        self._place[equality] = np.arange(len(equality))
        compared = _compared_columns(deletes)
        references = _references(schemas, set().union(*compared) if compared else set())
        self.columns = tuple(sorted(references))
        """The columns that deletes compare, as far as they have metrics: the data files' are needed too."""

        self._references = references
        self._compares = {i: np.array([i in ids for ids in compared], np.bool_) for i in self.columns}
        stats = _stats(deletes, self.columns)
        self._facts = {i: possible_values(references[i], stats) for i in self.columns}

    def facts_of(self, data: FileStats) -> dict[int, PossibleValues]:
        """The metrics of the compared columns in data files."""
        return {i: possible_values(self._references[i], data) for i in self.columns}

    def reaches(self, data: dict[int, PossibleValues], files: RowIndices, deletes: RowIndices) -> Mask:
        """For pairs of a data file and an equality delete file, whether rows of both may be equal."""
        indices = self._place[deletes]
        result = np.ones(len(files), np.bool_)
        for i in self.columns:
            pairs = np.flatnonzero(result & self._compares[i][indices])
            if pairs.size:
                result[pairs] = _may_be_equal(data[i], files[pairs], self._facts[i], indices[pairs])
        return result

    def nearby(self, deletes: RowIndices) -> BoundsIndex | None:
        """An index of equality deletes by the bounds of one column, if they all compare one that has an order."""
        indices = self._place[deletes]
        for i in self.columns:
            facts = self._facts[i]
            if (
                self._compares[i][indices].all()
                and isinstance(facts.lower, IntKeys)
                and isinstance(facts.upper, IntKeys)
            ):
                unbounded = facts.nulls[indices]
                lower = np.where(facts.lower.is_valid[indices] & ~unbounded, facts.lower.values[indices], _LEAST)
                upper = np.where(facts.upper.is_valid[indices] & ~unbounded, facts.upper.values[indices], _GREATEST)
                return BoundsIndex(i, deletes, lower, upper)
        return None


class BoundsIndex:
    """Equality deletes sorted by their lower bounds, so that those near a data file are found by bisection.

    >>> nearby = BoundsIndex(1, np.array([7, 8, 9]), np.array([0, 100, 200]), np.array([50, 150, 250]))
    >>> yes = np.ones(2, np.bool_)
    >>> keys = IntKeys(np.array([120, 300]), yes)
    >>> facts = PossibleValues(~yes, ~yes, yes, keys, keys)
    >>> begins, ends = nearby.ranges({1: facts}, np.array([0, 1]))
    >>> [nearby.deletes[begin:end].tolist() for begin, end in zip(begins, ends)]
    [[8], []]
    """

    def __init__(self, column: int, deletes: RowIndices, lower: RowIndices, upper: RowIndices) -> None:
        order = np.argsort(lower, kind="stable")
        self.deletes = deletes[order]
        self._column = column
        self._lower = lower[order]
        self._highest = np.maximum.accumulate(upper[order])
        """The highest upper bound of a delete and of all before it."""

    def ranges(self, data: dict[int, PossibleValues], rows: RowIndices) -> tuple[RowIndices, RowIndices]:
        """For data files, the range of `deletes` outside of which none can apply to them."""
        facts = data[self._column]
        lower, upper = np.full(len(rows), _LEAST), np.full(len(rows), _GREATEST)
        if isinstance(facts.lower, IntKeys):
            lower = np.where(facts.lower.is_valid[rows], facts.lower.values[rows], _LEAST)
        if isinstance(facts.upper, IntKeys):
            upper = np.where(facts.upper.is_valid[rows], facts.upper.values[rows], _GREATEST)
        # a null is only met by deletes that may hold one, and these are without bounds here
        begins = np.searchsorted(self._highest, lower, "left")
        ends = np.searchsorted(self._lower, upper, "right")
        return begins, np.maximum(begins, ends)


def _compared_columns(deletes: DeleteFiles) -> list[frozenset[int]]:
    """The equality columns of each equality delete file."""
    compared: list[frozenset[int]] = []
    begin = 0
    for chunk in deletes.chunks:
        kinds = deletes.kind[begin : begin + len(chunk)]
        equality_ids = chunk.equality_ids(np.flatnonzero(kinds >= DeleteKind.EQUALITY))
        compared.extend(frozenset(ids or ()) for ids in equality_ids)
        begin += len(chunk)
    return compared


def _references(schemas: Iterable[Schema], ids: set[int]) -> dict[int, BoundReference]:
    """The columns with these ids, in the first schema that has them; those without metrics are left out."""
    references: dict[int, BoundReference] = {}
    for schema in schemas:
        for i in ids - references.keys():
            if schema.find(i) is not None:
                references[i] = BoundReference(schema.entry(i))
    return {i: ref for i, ref in references.items() if ref.type.is_primitive and not ref.entry.in_collection}


def _stats(deletes: DeleteFiles, columns: tuple[int, ...]) -> FileStats:
    parts, begin = [], 0
    for chunk in deletes.chunks:
        kinds = deletes.kind[begin : begin + len(chunk)]
        parts.append(select_stats(chunk.stats(columns), np.flatnonzero(kinds >= DeleteKind.EQUALITY)))
        begin += len(chunk)
    return concat_stats(parts)


def _may_be_equal(data: PossibleValues, files: RowIndices, deletes: PossibleValues, delete_rows: RowIndices) -> Mask:
    nulls = data.nulls[files] & deletes.nulls[delete_rows]
    nans = data.nans[files] & deletes.nans[delete_rows]
    values = data.others[files] & deletes.others[delete_rows]
    if data.lower is not None and deletes.upper is not None:
        values &= ~_above(data.lower, files, deletes.upper, delete_rows)
    if data.upper is not None and deletes.lower is not None:
        values &= ~_above(deletes.lower, delete_rows, data.upper, files)
    return nulls | nans | values


def _above(left: KeyColumn, rows: RowIndices, right: KeyColumn, other_rows: RowIndices) -> Mask:
    """The rows in which both values are known, and the first is above the second."""
    left_keys, right_keys = _picked(left, rows), _picked(right, other_rows)
    return left_keys.is_valid & right_keys.is_valid & left_keys.above(right_keys)


def _picked(keys: KeyColumn, rows: RowIndices) -> KeyColumn:
    if isinstance(keys, ByteKeys):
        return ByteKeys(keys.values.take(rows), keys.is_valid[rows])
    if isinstance(keys, FloatKeys):
        return FloatKeys(keys.values[rows], keys.is_valid[rows])
    assert isinstance(keys, IntKeys)
    return IntKeys(keys.values[rows], keys.is_valid[rows])


@dataclass(frozen=True, eq=False, slots=True)
class LookupKeys:
    """The keys of data files in the index: their sequence numbers, and the numbers of their partitions and paths."""

    sequence_number: RowIndices
    partition: RowIndices
    path: RowIndices
    facts: dict[int, PossibleValues]

    def __len__(self) -> int:
        return len(self.sequence_number)


class _Groups:
    """Deletes of one kind, sorted by group, and within a group by sequence number."""

    def __init__(self, deletes: DeleteFiles, kind: DeleteKind, groups: RowIndices, *, reach_own_commit: bool) -> None:
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

    def ranges(self, groups: RowIndices, sequence_number: RowIndices) -> tuple[RowIndices, RowIndices]:
        """For data files of these groups and sequence numbers, the range of deletes that applies; none for -1."""
        first = np.searchsorted(self._ages, sequence_number, self._side)  # type: ignore[call-overload]
        begins = np.searchsorted(self._keys, groups * self._width + first)
        ends = np.searchsorted(self._keys, (groups + 1) * self._width)
        return begins, np.where(groups < 0, begins, ends)

    def pairs(self, groups: RowIndices, sequence_number: RowIndices) -> tuple[RowIndices, RowIndices]:
        """The pairs of a data file and a delete."""
        if not len(self):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return _expand_ranges(self.deletes, *self.ranges(groups, sequence_number))


class DeleteIndex:
    """The deletes of a scan, indexed for the lookup by data file."""

    def __init__(
        self, chunks: Sequence[ManifestColumns], unpartitioned_specs: Iterable[int], schemas: Iterable[Schema]
    ) -> None:
        self.unpartitioned_specs = frozenset(unpartitioned_specs)
        self.deletes = deletes = DeleteFiles(chunks, self.unpartitioned_specs)
        self._reach = EqualityDeleteMatcher(deletes, schemas)
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
        """The columns of data files whose metrics help to exclude equality deletes."""
        return self._reach.columns

    # data files -------------------------------------------------------------------------------------------------

    def match(self, data: Sequence[tuple[ManifestColumns, FileStats]]) -> list[LookupKeys]:
        """Look up data files, given as chunks with the metrics of `columns`.

        Deletes that name a file but cannot be meant for it are CorruptFile, and so are two vectors for one file.
        """
        paths = self._paths_of([columns for columns, _ in data])
        lookups = []
        for (columns, stats), path in zip(data, paths, strict=True):
            matched = LookupKeys(
                np.asarray(columns.sequence_number.values),
                self.deletes.partitions_of(columns),
                path,
                self._reach.facts_of(stats),
            )
            self._check_aims(columns, matched)
            lookups.append(matched)
        return lookups

    def _paths_of(self, data: Sequence[ManifestColumns]) -> list[RowIndices]:
        if not len(self.deletes.paths):
            return [np.full(len(columns), -1) for columns in data]
        if not data:
            return []
        # in one call, so that the paths that deletes name are hashed once
        paths = pa.chunked_array([text_array(columns.file_path) for columns in data])
        indices = pc.index_in(paths, value_set=self.deletes.paths).fill_null(-1)
        return [np.asarray(chunk.to_numpy(zero_copy_only=False), np.int64) for chunk in _chunks_like(indices, data)]

    def _check_aims(self, columns: ManifestColumns, matched: LookupKeys) -> None:
        """Raise if a delete names one of the files and cannot apply to it: its rows would come back."""
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

    def pairs(self, matched: LookupKeys, rows: RowIndices) -> tuple[RowIndices, RowIndices]:
        """The deletes of some data files: pairs of a place in `rows` and a number of a delete, in this order."""
        ages = matched.sequence_number[rows]
        partitions, paths = matched.partition[rows], matched.path[rows]
        equality = [self._global_pairs(matched, rows), self._equality.pairs(partitions, ages)]
        files, deletes = _joined(equality)
        if files.size and self.columns:
            reached = self._reach.reaches(matched.facts, rows[files], deletes)
            files, deletes = files[reached], deletes[reached]
        with_vector = np.flatnonzero(self._has_vector(paths))
        position_deletes = [self._positions.pairs(partitions, ages), self._file_positions.pairs(paths, ages)]
        position_files, positions = _joined(position_deletes)
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

    def _global_pairs(self, matched: LookupKeys, rows: RowIndices) -> tuple[RowIndices, RowIndices]:
        """The equality deletes for the whole table: found by sequence number or by bounds, whichever leaves fewer."""
        ages, everywhere = matched.sequence_number[rows], np.zeros(len(rows), np.int64)
        if self._nearby is None:
            return self._global.pairs(everywhere, ages)
        begins, ends = self._global.ranges(everywhere, ages)
        near_begins, near_ends = self._nearby.ranges(matched.facts, rows)
        if (near_ends - near_begins).sum() >= (ends - begins).sum():
            return _expand_ranges(self._global.deletes, begins, ends)
        files, deletes = _expand_ranges(self._nearby.deletes, near_begins, near_ends)
        younger = self.deletes.sequence_number[deletes] > ages[files]
        return files[younger], deletes[younger]

    def _has_vector(self, paths: RowIndices) -> Mask:
        if not len(self._vector):
            return np.zeros(len(paths), np.bool_)
        return (paths >= 0) & (self._vector[paths] >= 0)

    def most_pairs(self, matched: LookupKeys) -> int:
        """An upper limit of the number of pairs, without computing them."""
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
        """Deletes as objects."""
        return self.deletes.files(numbers)


def _expand_ranges(deletes: RowIndices, begins: RowIndices, ends: RowIndices) -> tuple[RowIndices, RowIndices]:
    """The pairs of the number of a range and a delete in it."""
    sizes = ends - begins
    files = np.repeat(np.arange(len(sizes)), sizes)
    indices = np.arange(len(files)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(begins, sizes)
    return files, deletes[indices]


def _joined(parts: Sequence[tuple[RowIndices, RowIndices]]) -> tuple[RowIndices, RowIndices]:
    return np.concatenate([files for files, _ in parts]), np.concatenate([deletes for _, deletes in parts])


def _chunks_like(indices: pa.ChunkedArray, data: Sequence[ManifestColumns]) -> list[pa.Array]:
    """The same values, split like the chunks of other columns; empty chunks may have been dropped."""
    chunks, begin = [], 0
    for columns in data:
        part = indices.slice(begin, len(columns))
        chunks.append(part.combine_chunks() if part.num_chunks != 1 else part.chunk(0))
        begin += len(columns)
    return chunks
