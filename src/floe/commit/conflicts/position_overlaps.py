"""Whether two changes delete the same rows of a file, as far as can be told without reading data.

A deletion vector is read and gives the very positions; of a position delete file the bounds of its `pos` column are
known, if it is for one data file alone. What is not known may be anything. A vector holds the positions of the one that
it takes the place of, so only those that are new to it count.

Which of the files that others added or removed may hold rows that a filter speaks of.

A file is left out only if its partition or its metrics prove that no row of it passes, so that changes in different
partitions, or of different ranges of values, do not conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from pyroaring import BitMap64

from floe.commit.conflicts.concurrent_commits import Entries
from floe.errors import CorruptFile, InvalidExpression, NoSuchColumn, NoSuchFile
from floe.spec.codecs.deletion_vectors import deserialize
from floe.spec.codecs.single_value import decode
from floe.spec.expressions.binding import bind
from floe.spec.expressions.nodes import TRUE, BoundReference, Expression
from floe.spec.expressions.simplification import field_ids
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.pruning import column_evaluation, metrics_evaluation
from floe.spec.pruning.metrics_filter import column_facts, might_match
from floe.spec.pruning.projection import inclusive_projection
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.pruning.ranges import Facts
from floe.spec.schemas.metadata_columns import DELETE_POS
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG
from floe.storage.protocol import Storage

MAX_VECTOR_BYTES: Final = 16 * 2**20
"""Longer vectors are not looked into; a vector of this size deletes tens of millions of scattered rows."""

MAX_TOTAL_BYTES: Final = 128 * 2**20
"""What is read for one change at most."""


class PositionRange(NamedTuple):
    """Positions that lie somewhere between two others, both included."""

    first: int
    last: int


Positions: TypeAlias = BitMap64 | PositionRange | None
"""Deleted positions: all of them, between which they lie, or None if nothing is known."""

PositionReader: TypeAlias = Callable[[DataFile, str], "BitMap64 | None"]
"""What gives the positions that a delete file deletes in a data file, or None if it cannot tell."""


def overlap(one: Positions, other: Positions) -> bool:
    """Whether there may be a position in both.

    >>> overlap(BitMap64([1, 5]), BitMap64([2])), overlap(BitMap64([1, 5]), PositionRange(2, 4))
    (False, False)
    >>> overlap(PositionRange(1, 5), PositionRange(5, 9)), overlap(BitMap64([1]), None)
    (True, True)
    """
    if one is None or other is None:
        return True
    if isinstance(one, PositionRange):
        one, other = other, one
    if isinstance(one, PositionRange) and isinstance(other, PositionRange):
        return one.first <= other.last and other.first <= one.last
    assert isinstance(one, BitMap64)
    if isinstance(other, PositionRange):
        return bool(one.range_cardinality(other.first, other.last + 1))
    return not one.isdisjoint(other)


class VectorReader:
    """Reads deletion vectors from their Puffin files, each once and only up to a limit.

    >>> from floe.spec.codecs.deletion_vectors import blob_of
    >>> from floe.spec.codecs.puffin import write_file
    >>> from floe.spec.manifests.entries import FileContent
    >>> from floe.storage.memory import MemoryStorage
    >>> storage, written = MemoryStorage(), write_file([blob_of([3, 8], "a.parquet")])
    >>> storage.write("memory:d.puffin", written.data)
    >>> (blob,) = written.payload.blobs
    >>> place = {"content_offset": blob.offset, "content_size_in_bytes": blob.length}
    >>> vector = DataFile(FileContent.POSITION_DELETES, "memory:d.puffin", "puffin", (), 2, len(written.data), **place)
    >>> list(VectorReader(storage).read(vector))
    [3, 8]
    """

    def __init__(
        self, storage: Storage, *, max_bytes: int = MAX_VECTOR_BYTES, total_bytes: int = MAX_TOTAL_BYTES
    ) -> None:
        self._storage = storage
        self._max_bytes = max_bytes
        self._left = total_bytes
        self._read: dict[tuple[str, int | None], BitMap64 | None] = {}

    def read(self, vector: DataFile) -> BitMap64 | None:
        """The positions of a deletion vector, or None if it is too long to look into."""
        key = vector.file_path, vector.content_offset
        if key not in self._read:
            self._read[key] = self._read_within_limits(vector)
        return self._read[key]

    def _read_within_limits(self, vector: DataFile) -> BitMap64 | None:
        offset, size = vector.content_offset, vector.content_size_in_bytes
        if offset is None or size is None or size > min(self._max_bytes, self._left):
            return None
        self._left -= size
        data = self._storage.read_range(vector.file_path, offset, size)
        try:
            return deserialize(data, cardinality=vector.record_count)
        except CorruptFile as error:
            raise error.with_context(file=vector.file_path) from None


def newly_deleted(
    path: str,
    added: Iterable[DataFile],
    removed: Iterable[DataFile],
    vectors: VectorReader,
    read: PositionReader | None = None,
) -> list[Positions]:
    """The positions of a data file that one change deletes, by the deletes it adds and removes for that file.

    Each item is what one added delete file says. `read` knows of position delete files, which are data files in a
    format of their own; without it only their bounds are.
    """
    known: list[Positions] = []
    before = BitMap64()
    for vector in removed:
        if vector.is_deletion_vector:
            before |= _read_if_there(vector, vectors)
    for delete in added:
        positions: Positions = vectors.read(delete) if delete.is_deletion_vector else None
        if positions is None and read is not None:
            positions = read(delete, path)
        if isinstance(positions, BitMap64):
            known.append(positions - before)
        else:
            known.append(None if delete.is_deletion_vector else _bounds(delete))
    return known


def _read_if_there(vector: DataFile, vectors: VectorReader) -> BitMap64:
    """The positions of a vector that was removed; without them more is taken for new than is, which is safe."""
    try:
        return vectors.read(vector) or BitMap64()
    except NoSuchFile:
        return BitMap64()


def _bounds(delete: DataFile) -> PositionRange | None:
    """Between which positions a delete file for one data file deletes; bounds that make no sense are none."""
    if delete.target_path is None:
        return None
    first = (delete.lower_bounds or {}).get(DELETE_POS.id)
    last = (delete.upper_bounds or {}).get(DELETE_POS.id)
    if first is None or last is None:
        return None
    try:
        found = PositionRange(decode(LONG, first), decode(LONG, last))
    except CorruptFile:
        return None
    return found if 0 <= found.first <= found.last else None


# Which of the files that others added or removed may hold rows that a filter speaks of.

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Reading:
    """A filter as it reads under one schema."""

    bound: Expression
    schema: Schema


class RowFilter:
    """A filter on the rows of a table, asked about files.

    Names mean the columns of the schema of that id. If it is not given, each schema that has the names is tried: a
    column may have been renamed since, and another may have got its name.
    """

    def __init__(
        self, filter: Expression, metadata: TableMetadata, *, schema_id: int | None = None, case_sensitive: bool = True
    ) -> None:
        self._metadata = metadata
        known = metadata.schemas_by_id.get(-1 if schema_id is None else schema_id)
        self._readings = _readings(filter, metadata.schemas if known is None else (known,), case_sensitive)
        if not self._readings:
            self._readings = [_Reading(TRUE, metadata.schema)]

    def __repr__(self) -> str:
        return f"RowFilter({' or '.join(str(reading.bound) for reading in self._readings)})"

    def data(self, entries: Entries) -> Entries:
        """The data files that may hold rows that pass."""
        return entries.where(self._any(entries, self._partitions, self._metrics))

    def position_deletes(self, entries: Entries) -> Entries:
        """The position deletes that may delete rows that pass; of these only the partition is known."""
        return entries.where(self._any(entries, self._partitions))

    def equality_deletes(self, entries: Entries) -> Entries:
        """The equality deletes that may delete rows that pass.

        A row that is deleted has the values of some row of the delete file, in the columns that are compared.
        """
        entries = self.position_deletes(entries)
        kept = [
            any(might_match(reading.bound, _compared_only(file)) for reading in self._readings)
            for file in entries.files()
        ]
        return entries.where(np.array(kept, np.bool_))

    def _any(self, entries: Entries, *tests: Callable[[_Reading, Entries], Mask]) -> Mask:
        found = np.zeros(len(entries), np.bool_)
        for reading in self._readings:
            mask = np.ones(len(entries), np.bool_)
            for test in tests:
                mask &= test(reading, entries)
            found |= mask
        return found

    def _partitions(self, reading: _Reading, entries: Entries) -> Mask:
        spec = self._metadata.spec_by_id(entries.spec_id)
        projected = inclusive_projection(reading.bound, spec, reading.schema)
        columns = entries.columns
        return column_evaluation.evaluate(projected, columns.partitions, len(columns))[entries.rows]

    def _metrics(self, reading: _Reading, entries: Entries) -> Mask:
        stats = entries.columns.stats(field_ids(reading.bound))
        return metrics_evaluation.files_might_match(reading.bound, stats)[entries.rows]


def _readings(filter: Expression, schemas: tuple[Schema, ...], case_sensitive: bool) -> list[_Reading]:
    found: dict[str, _Reading] = {}
    for schema in schemas:
        try:
            bound = bind(filter, schema, case_sensitive=case_sensitive)
        except (NoSuchColumn, InvalidExpression):
            continue
        found.setdefault(repr(bound), _Reading(bound, schema))
    return list(found.values())


def _compared_only(delete: DataFile) -> DataFile:
    """An equality delete file with the metrics of the columns that it compares; others say nothing of deleted rows."""
    compared = set(delete.equality_ids or ())

    def only(values: dict[int, V] | None) -> dict[int, V] | None:
        return None if values is None else {column: value for column, value in values.items() if column in compared}

    return replace(
        delete,
        value_counts=only(delete.value_counts),
        null_value_counts=only(delete.null_value_counts),
        nan_value_counts=only(delete.nan_value_counts),
        lower_bounds=only(delete.lower_bounds),
        upper_bounds=only(delete.upper_bounds),
    )


# equality deletes against one file ------------------------------------------------------------------------------


def may_delete_rows_of(delete: DataFile, file: DataFile, schema: Schema) -> bool:
    """Whether an equality delete file may hold values of rows of a data file, by the metrics of both.

    >>> from floe.spec.manifests.entries import FileContent
    >>> from floe.spec.types import Field, INT
    >>> schema = Schema((Field(1, "id", INT),))
    >>> def counted(content, low, high, **more):
    ...     bounds = {"lower_bounds": {1: low.to_bytes(4, "little")}, "upper_bounds": {1: high.to_bytes(4, "little")}}
    ...     counts = {"value_counts": {1: 3}, "null_value_counts": {1: 0}}
    ...     return DataFile(content, "f.parquet", "parquet", (), 3, 100, **bounds, **counts, **more)
    >>> rows = counted(FileContent.DATA, 10, 20)
    >>> keys = [counted(FileContent.EQUALITY_DELETES, *ids, equality_ids=(1,)) for ids in ((1, 9), (20, 30))]
    >>> [may_delete_rows_of(key, rows, schema) for key in keys]
    [False, True]
    """
    return all(_may_be_equal(field_id, delete, file, schema) for field_id in delete.equality_ids or ())


def _may_be_equal(field_id: int, delete: DataFile, file: DataFile, schema: Schema) -> bool:
    entry = schema.by_id.get(field_id)
    if entry is None or not entry.field.type.is_primitive:
        return True
    reference = BoundReference(entry)
    return _share_a_value(column_facts(reference, delete), column_facts(reference, file))


def _share_a_value(one: Facts, other: Facts) -> bool:
    if (one.nulls and other.nulls) or (one.nans and other.nans):
        return True
    if not (one.others and other.others):
        return False
    apart = (one.upper is not None and other.lower is not None and one.upper < other.lower) or (  # type: ignore[operator]
        other.upper is not None and one.lower is not None and other.upper < one.lower  # type: ignore[operator]
    )
    return not apart
