"""The delete files of a scan, as columns: which of them a filter excludes, what each deletes, and where it applies.

`select_deletes` excludes delete files that cannot delete a matching row. Deletes apply within their partition, so those
of partitions that the filter excludes do not matter. Equality delete files have the values that they delete: a deleted
row that matches the filter is equal to one of their rows in the equality columns, so that row matches the part of the
filter on these columns.

`DeleteFiles` has the selected ones. `PartitionCodes` assigns numbers to partition tuples, so that files of the same
partition are found by comparing numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.avro.manifest_columns import FORMATS, ManifestColumns
from floe.errors import CorruptFile
from floe.plan.arrow_columns import partition_key_array, text_array
from floe.plan.file_selection import SpecFilter, select_stats
from floe.spec.expressions.nodes import FALSE, TRUE, Expression, and_, fold, or_
from floe.spec.expressions.simplification import field_ids
from floe.spec.manifests.entries import DataFile, FileContent, ManifestEntry
from floe.spec.pruning import metrics_evaluation
from floe.spec.pruning.column_evaluation import Column
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH
from floe.spec.types import Field

# Selection by filter ----------------------------------------------------------------------------------------------

RowIndices = NDArray[np.int64]


def select_deletes(columns: ManifestColumns, which: Mask, spec_filter: SpecFilter, bound: Expression) -> RowIndices:
    """The rows of the delete files, among those in `which`, that may delete rows which match a bound filter."""
    keep = which & spec_filter.matching_files(columns)
    if bound == TRUE:
        return np.flatnonzero(keep)
    equality = np.flatnonzero(keep & np.equal(columns.content, FileContent.EQUALITY_DELETES))
    compared = [frozenset(ids or ()) for ids in columns.equality_ids(equality)]
    for ids in set(compared):
        relaxed = relax_to_columns(bound, ids)
        if relaxed != TRUE:
            rows = equality[[equality_ids == ids for equality_ids in compared]]
            stats = select_stats(columns.stats(field_ids(relaxed)), rows)
            keep[rows] = metrics_evaluation.files_might_match(relaxed, stats)
    return np.flatnonzero(keep)


def relax_to_columns(bound: Expression, ids: Collection[int]) -> Expression:
    """The part of a bound filter that reads only these columns: every row that matches the filter matches it.

    >>> from floe.spec.expressions.binder import bind
    >>> from floe.spec.expressions.dsl import col
    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import INT, Field
    >>> schema = Schema((Field(1, "a", INT), Field(2, "b", INT)))
    >>> print(relax_to_columns(bind((col("a") > 1) & (col("b") > 2), schema), frozenset({1})))
    a > 1
    """
    return fold(
        bound,
        constant=lambda value: TRUE if value else FALSE,
        predicate=lambda predicate: predicate if predicate.term.field_id in ids else TRUE,
        all_of=lambda parts: and_(*parts),
        any_of=lambda parts: or_(*parts),
    )


# Partition codes --------------------------------------------------------------------------------------------------

Codes = NDArray[np.int64]


class PartitionCodes:
    """The distinct partition tuples of the files of one spec, each with a number.

    >>> from floe.spec.types import INT
    >>> codes = PartitionCodes([Field(1000, "a", INT)], lambda field: pa.array([7, 9, 7]), 3)
    >>> codes.own.tolist(), codes.of({1000: Column(np.array([9, 8]))}.__getitem__, 2).tolist()
    ([0, 1, 0], [1, -1])
    """

    def __init__(self, fields: Iterable[Field], keys_of: Callable[[Field], pa.Array], count: int) -> None:
        self._steps: list[tuple[Field, pa.Array, Codes]] = []
        codes = np.zeros(count, np.int64)
        for field in fields:
            keys = keys_of(field)
            distinct = pc.unique(keys)
            joined = codes * len(distinct) + _indices(keys, distinct)
            combinations, codes = np.unique(joined, return_inverse=True)
            self._steps.append((field, distinct, combinations))
        self.own: Codes = codes
        """The numbers of the tuples that it was made of."""

    @classmethod
    def of_chunks(cls, chunks: Sequence[ManifestColumns]) -> PartitionCodes:
        """The tuples of all files of these chunks, which have one spec."""

        def keys(field: Field) -> pa.Array:
            return pa.concat_arrays([partition_key_array(field.type, chunk.partition(field.id)) for chunk in chunks])

        return cls(chunks[0].partition_type, keys, sum(map(len, chunks)))

    def __len__(self) -> int:
        return len(self._steps[-1][2]) if self._steps else 1

    def of(self, partition: Callable[[int], Column], count: int) -> Codes:
        """The numbers of other tuples; -1 for a tuple that is not in the set."""
        codes = np.zeros(count, np.int64)
        for field, distinct, combinations in self._steps:
            indices = _indices(partition_key_array(field.type, partition(field.id)), distinct)
            joined = codes * len(distinct) + indices
            candidates = np.minimum(np.searchsorted(combinations, joined), len(combinations) - 1)
            same = (codes >= 0) & (indices >= 0) & (combinations[candidates] == joined)
            codes = np.where(same, candidates, -1)
        return codes


def _indices(keys: pa.Array, distinct: pa.Array) -> Codes:
    """The index of each key among distinct values; -1 for a key that is not among them."""
    indices = pc.index_in(keys, value_set=distinct).fill_null(-1)
    return np.asarray(indices.to_numpy(zero_copy_only=False), np.int64)


_PUFFIN = FORMATS.index("puffin")


class DeleteKind(IntEnum):
    """The kinds of delete files, by how they identify rows."""

    VECTOR = 0
    POSITIONS = 1
    """Positions in any data files of a partition."""

    FILE_POSITIONS = 2
    """Positions in one data file."""

    EQUALITY = 3
    """Rows of a partition that are equal in some columns."""

    GLOBAL_EQUALITY = 4
    """Rows of the whole table that are equal in some columns."""


class DeleteFiles:
    """All delete files that a scan may need, numbered in the order of the manifests.

    Partitions of all specs, and paths of data files, have numbers too, by which data files find their deletes.
    """

    def __init__(self, chunks: Sequence[ManifestColumns], unpartitioned_specs: Iterable[int]) -> None:
        self.chunks = [chunk for chunk in chunks if len(chunk)]
        """The live entries, with their metrics; all of a chunk have one spec."""

        self._begins = np.cumsum([0, *map(len, self.chunks)])
        everywhere = frozenset(unpartitioned_specs)
        self.kind = _joined([_kinds(chunk, chunk.spec_id in everywhere) for chunk in self.chunks])
        self.sequence_number = _joined([np.asarray(chunk.sequence_number.values) for chunk in self.chunks])
        self.record_count = _joined([chunk.record_count for chunk in self.chunks])
        self._codes: dict[int, tuple[int, PartitionCodes]] = {}
        self.partition = self._number_partitions()
        self._number_paths()
        self._objects: dict[int, ManifestEntry] = {}

    def __len__(self) -> int:
        return int(self._begins[-1])

    # partitions and paths ---------------------------------------------------------------------------------------

    def _number_partitions(self) -> RowIndices:
        partitions = np.zeros(len(self), np.int64)
        first = 0
        for spec_id in dict.fromkeys(chunk.spec_id for chunk in self.chunks):
            numbers = [n for n, chunk in enumerate(self.chunks) if chunk.spec_id == spec_id]
            rows = np.concatenate([np.arange(self._begins[n], self._begins[n + 1]) for n in numbers])
            codes = PartitionCodes.of_chunks([self.chunks[n] for n in numbers])
            partitions[rows] = first + codes.own
            self._codes[spec_id] = first, codes
            first += len(codes)
        return partitions

    def partitions_of(self, data: ManifestColumns) -> RowIndices:
        """The numbers of the partitions of data files; -1 if no delete file has the same partition."""
        first, codes = self._codes.get(data.spec_id, (0, None))
        if codes is None:
            return np.full(len(data), -1)
        numbers = codes.of(data.partition, len(data))
        return np.where(numbers < 0, -1, numbers + first)

    def _number_paths(self) -> None:
        self.path = np.full(len(self), -1)
        """The numbers of the paths that deletes of one data file name; -1 for other deletes."""

        self.paths: pa.Array = pa.array([], pa.large_string())
        aimed = np.flatnonzero((self.kind == DeleteKind.VECTOR) | (self.kind == DeleteKind.FILE_POSITIONS))
        if not aimed.size:
            return
        targets = pa.concat_arrays([text_array(_targets(chunk)) for chunk in self.chunks])
        encoded = targets.take(pa.array(aimed)).dictionary_encode()
        self.paths = encoded.dictionary
        self.path[aimed] = encoded.indices.to_numpy(zero_copy_only=False)

    # objects ----------------------------------------------------------------------------------------------------

    def entries(self, numbers: Iterable[int]) -> list[ManifestEntry]:
        """Delete files as objects, each created once."""
        listed = list(numbers)
        missing = np.array(sorted({n for n in listed if n not in self._objects}), np.int64)
        chunk_numbers = np.searchsorted(self._begins, missing, "right") - 1
        for chunk in np.unique(chunk_numbers).tolist():
            in_chunk = missing[chunk_numbers == chunk]
            entries = self.chunks[chunk].entries(in_chunk - self._begins[chunk])
            self._objects.update(zip(in_chunk.tolist(), entries, strict=True))
        return [self._objects[n] for n in listed]

    def files(self, numbers: Iterable[int]) -> list[DataFile]:
        """Delete files as the objects that tasks have."""
        return [entry.data_file for entry in self.entries(numbers)]


def _joined(parts: Sequence[NDArray[Any]]) -> RowIndices:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _kinds(chunk: ManifestColumns, is_global: bool) -> RowIndices:
    equality = np.equal(chunk.content, FileContent.EQUALITY_DELETES)
    vectors = ~equality & np.equal(chunk.file_format, _PUFFIN)
    nameless = vectors & ~chunk.referenced_data_file.is_valid
    if nameless.any():
        chunk.entry(int(np.flatnonzero(nameless)[0]))  # says what is wrong with it
        raise CorruptFile("a deletion vector must name its data file (referenced_data_file)")
    positions = np.where(_targets(chunk).is_valid, DeleteKind.FILE_POSITIONS, DeleteKind.POSITIONS)
    equalities = DeleteKind.GLOBAL_EQUALITY if is_global else DeleteKind.EQUALITY
    return np.where(equality, equalities, np.where(vectors, DeleteKind.VECTOR, positions)).astype(np.int64)


def _targets(chunk: ManifestColumns) -> VarBytes:
    """The single data file that position deletes are for: named, or with equal bounds (see `DataFile.target_path`)."""
    positions = np.equal(chunk.content, FileContent.POSITION_DELETES)
    named = chunk.referenced_data_file
    bounds = chunk.stored.stats(DELETE_FILE_PATH.id)
    if bounds.lower is None or bounds.upper is None:
        return VarBytes(named.data, named.starts, np.where(positions, named.lengths, -1))
    lower, upper = bounds.lower, bounds.upper
    alike = positions & ~named.is_valid & lower.is_valid & upper.is_valid & np.equal(lower.compare(upper), 0)
    if not alike.any():
        return VarBytes(named.data, named.starts, np.where(positions, named.lengths, -1))
    strings = [
        name if name is not None else bound if same else None
        for name, bound, same in zip(named.to_list(), lower.to_list(), alike.tolist(), strict=True)
    ]
    return VarBytes.of(
        [path if has_positions else None for path, has_positions in zip(strings, positions.tolist(), strict=True)]
    )
