"""Whether deletes and files of two changes can be about the same rows: by position, by filter, by equal values.

`newly_deleted_positions` and `overlap` compare positions. Deletion vectors are read and give the exact positions. Of a
position delete file with a single target the bounds of its `pos` column are known. A vector contains the positions of
the vector that it replaces, so only the others count. Unknown positions may be any.

`RowFilter` selects the files of others that may have rows which match a filter. A file is excluded only if its
partition or its metrics prove that no row matches, so that changes of different partitions, or of different ranges of
values, do not conflict. `may_delete_rows_of` compares the metrics of an equality delete file with those of a data file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from pyroaring import BitMap64

from floe.commit.conflicts.concurrent_commits import Entries
from floe.errors import CorruptFile, InvalidExpression, NoSuchColumn, NoSuchFile
from floe.spec.codecs.deletion_vectors import deserialize
from floe.spec.codecs.single_value import decode
from floe.spec.expressions.binder import bind
from floe.spec.expressions.nodes import TRUE, BoundPredicate, BoundReference, Expression, Op
from floe.spec.expressions.simplification import field_ids
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.pruning import column_evaluation, metrics_evaluation
from floe.spec.pruning.projection import inclusive_projection
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.schemas.metadata_columns import DELETE_POS
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG
from floe.storage.protocol import Storage

MAX_VECTOR_BYTES: Final = 16 * 2**20
"""Longer vectors are not read; a vector of this size deletes tens of millions of scattered rows."""

MAX_TOTAL_BYTES: Final = 128 * 2**20
"""The most bytes of vectors that are read for one change."""


class PositionRange(NamedTuple):
    """Unknown positions between two others, both included."""

    first: int
    last: int


Positions: TypeAlias = BitMap64 | PositionRange | None
"""Deleted positions: exact, as a range that contains them, or None if they are unknown."""

PositionReader: TypeAlias = Callable[[DataFile, str], "BitMap64 | None"]
"""Returns the positions that a delete file deletes in a data file, or None if it cannot read them."""


def overlap(left: Positions, right: Positions) -> bool:
    """Whether the two may have a position in common.

    >>> overlap(BitMap64([1, 5]), BitMap64([2])), overlap(BitMap64([1, 5]), PositionRange(2, 4))
    (False, False)
    >>> overlap(PositionRange(1, 5), PositionRange(5, 9)), overlap(BitMap64([1]), None)
    (True, True)
    """
    if left is None or right is None:
        return True
    if isinstance(left, PositionRange):
        left, right = right, left
    if isinstance(left, PositionRange) and isinstance(right, PositionRange):
        return left.first <= right.last and right.first <= left.last
    assert isinstance(left, BitMap64)
    if isinstance(right, PositionRange):
        return bool(left.range_cardinality(right.first, right.last + 1))
    return not left.isdisjoint(right)


class VectorReader:
    """Reads deletion vectors from their Puffin files, each once and only up to a limit.

    >>> from floe.spec.codecs.deletion_vectors import deletion_vector_blob
    >>> from floe.spec.codecs.puffin import write_file
    >>> from floe.spec.manifests.entries import FileContent
    >>> from floe.storage.memory import MemoryStorage
    >>> storage, written = MemoryStorage(), write_file([deletion_vector_blob([3, 8], "a.parquet")])
    >>> storage.write("memory:d.puffin", written.data)
    >>> (blob,) = written.payload.blobs
    >>> range = {"content_offset": blob.offset, "content_size_in_bytes": blob.length}
    >>> vector = DataFile(FileContent.POSITION_DELETES, "memory:d.puffin", "puffin", (), 2, len(written.data), **range)
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
        """The positions of a deletion vector, or None if it is longer than the limit."""
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


def newly_deleted_positions(
    path: str,
    added: Iterable[DataFile],
    removed: Iterable[DataFile],
    vectors: VectorReader,
    read: PositionReader | None = None,
) -> list[Positions]:
    """The positions of a data file that one change deletes, given the delete files it adds and removes for that file.

    Returns an item for each added delete file. `read` reads position delete files, which this package cannot do itself;
    without it only their bounds are known.
    """
    newly_deleted: list[Positions] = []
    before = BitMap64()
    for vector in removed:
        if vector.is_deletion_vector:
            before |= _read_if_there(vector, vectors)
    for delete in added:
        positions: Positions = vectors.read(delete) if delete.is_deletion_vector else None
        if positions is None and read is not None:
            positions = read(delete, path)
        if isinstance(positions, BitMap64):
            newly_deleted.append(positions - before)
        else:
            newly_deleted.append(None if delete.is_deletion_vector else _bounds(delete))
    return newly_deleted


def _read_if_there(vector: DataFile, vectors: VectorReader) -> BitMap64:
    """The positions of a removed vector, or none if its file was deleted: then more count as new, which is safe."""
    try:
        return vectors.read(vector) or BitMap64()
    except NoSuchFile:
        return BitMap64()


def _bounds(delete: DataFile) -> PositionRange | None:
    """The range of positions of a delete file with a single target; None if it has no bounds, or invalid ones."""
    if delete.target_path is None:
        return None
    first = (delete.lower_bounds or {}).get(DELETE_POS.id)
    last = (delete.upper_bounds or {}).get(DELETE_POS.id)
    if first is None or last is None:
        return None
    try:
        positions = PositionRange(decode(LONG, first), decode(LONG, last))
    except CorruptFile:
        return None
    return positions if 0 <= positions.first <= positions.last else None


# Files that may match a filter ----------------------------------------------------------------------------------

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _BoundFilter:
    """A filter bound to one schema."""

    filter: Expression
    schema: Schema


class RowFilter:
    """A filter on the rows of a table, which selects the files that may have matching rows.

    The names of columns are those of the schema `schema_id`. Without it, every schema that has the names is tried: a
    column may have been renamed since, and another may have its name now.
    """

    def __init__(
        self, filter: Expression, metadata: TableMetadata, *, schema_id: int | None = None, case_sensitive: bool = True
    ) -> None:
        self._metadata = metadata
        schema = metadata.schemas_by_id.get(-1 if schema_id is None else schema_id)
        self._bound_filters = _bind_to_schemas(
            filter, metadata.schemas if schema is None else (schema,), case_sensitive
        )
        if not self._bound_filters:
            self._bound_filters = [_BoundFilter(TRUE, metadata.schema)]

    def __repr__(self) -> str:
        return f"RowFilter({' or '.join(str(bound.filter) for bound in self._bound_filters)})"

    def data(self, entries: Entries) -> Entries:
        """The data files that may have matching rows."""
        return entries.where(self._any(entries, self._partitions, self._metrics))

    def position_deletes(self, entries: Entries) -> Entries:
        """The position deletes that may delete matching rows; they are excluded only by partition."""
        return entries.where(self._any(entries, self._partitions))

    def equality_deletes(self, entries: Entries) -> Entries:
        """The equality deletes that may delete matching rows.

        A deleted row has the values of some row of the delete file in the equality columns, so the metrics of these
        columns decide.
        """
        entries = self.position_deletes(entries)
        files = [_only_equality_columns(file) for file in entries.files()]
        may_match = np.zeros(len(files), np.bool_)
        for bound in self._bound_filters:
            stats = metrics_evaluation.gather_stats(files, bound.filter)
            may_match |= metrics_evaluation.files_might_match(bound.filter, stats)
        return entries.where(may_match)

    def _any(self, entries: Entries, *tests: Callable[[_BoundFilter, Entries], Mask]) -> Mask:
        """The entries that pass all tests with one of the bound filters."""
        selected = np.zeros(len(entries), np.bool_)
        for bound in self._bound_filters:
            mask = np.ones(len(entries), np.bool_)
            for test in tests:
                mask &= test(bound, entries)
            selected |= mask
        return selected

    def _partitions(self, bound: _BoundFilter, entries: Entries) -> Mask:
        spec = self._metadata.spec_by_id(entries.spec_id)
        projected = inclusive_projection(bound.filter, spec, bound.schema)
        columns = entries.columns
        return column_evaluation.evaluate(projected, columns.partitions, len(columns))[entries.rows]

    def _metrics(self, bound: _BoundFilter, entries: Entries) -> Mask:
        stats = entries.columns.stats(field_ids(bound.filter))
        return metrics_evaluation.files_might_match(bound.filter, stats)[entries.rows]


def _bind_to_schemas(filter: Expression, schemas: tuple[Schema, ...], case_sensitive: bool) -> list[_BoundFilter]:
    """The filter bound to each schema that has its columns; equal ones once."""
    distinct: dict[str, _BoundFilter] = {}
    for schema in schemas:
        try:
            bound = bind(filter, schema, case_sensitive=case_sensitive)
        except (NoSuchColumn, InvalidExpression):
            continue
        distinct.setdefault(repr(bound), _BoundFilter(bound, schema))
    return list(distinct.values())


def _only_equality_columns(delete: DataFile) -> DataFile:
    """An equality delete file with the metrics of its equality columns; other columns do not describe deleted rows."""
    equality_ids = set(delete.equality_ids or ())

    def only(values: dict[int, V] | None) -> dict[int, V] | None:
        return None if values is None else {column: value for column, value in values.items() if column in equality_ids}

    return replace(
        delete,
        value_counts=only(delete.value_counts),
        null_value_counts=only(delete.null_value_counts),
        nan_value_counts=only(delete.nan_value_counts),
        lower_bounds=only(delete.lower_bounds),
        upper_bounds=only(delete.upper_bounds),
    )


# Equality deletes against one data file -------------------------------------------------------------------------


def may_delete_rows_of(delete: DataFile, files: Sequence[DataFile], schema: Schema) -> Mask:
    """Of which data files an equality delete file may delete rows, by the metrics of both.

    >>> from floe.spec.manifests.entries import FileContent
    >>> from floe.spec.types import Field, INT
    >>> schema = Schema((Field(1, "id", INT),))
    >>> def counted(content, low, high, **more):
    ...     bounds = {"lower_bounds": {1: low.to_bytes(4, "little")}, "upper_bounds": {1: high.to_bytes(4, "little")}}
    ...     counts = {"value_counts": {1: 3}, "null_value_counts": {1: 0}}
    ...     return DataFile(content, "f.parquet", "parquet", (), 3, 100, **bounds, **counts, **more)
    >>> keys = counted(FileContent.EQUALITY_DELETES, 10, 20, equality_ids=(1,))
    >>> files = [counted(FileContent.DATA, *ids) for ids in ((1, 9), (20, 30), (21, 22), (1, 99))]
    >>> may_delete_rows_of(keys, files, schema).tolist()
    [False, True, False, True]
    """
    mask = np.ones(len(files), np.bool_)
    for field_id in delete.equality_ids or ():
        mask &= _may_be_equal(field_id, delete, files, schema)
    return mask


def _may_be_equal(field_id: int, delete: DataFile, files: Sequence[DataFile], schema: Schema) -> Mask:
    """Which data files may share a value of a column with the delete file."""
    entry = schema.by_id.get(field_id)
    if entry is None or not entry.field.type.is_primitive:
        return np.ones(len(files), np.bool_)
    reference = BoundReference(entry)
    stats = metrics_evaluation.gather_stats([delete, *files], BoundPredicate(Op.NOT_NULL, reference))
    possible = metrics_evaluation.possible_values(reference, stats)
    disjoint = np.zeros(len(stats), np.bool_)
    if possible.lower is not None and possible.upper is not None:
        lowest, highest = possible.lower.key(0), possible.upper.key(0)  # of the delete file
        if highest is not None:
            disjoint |= possible.lower.is_valid & ~possible.lower.at_most(highest)
        if lowest is not None:
            disjoint |= possible.upper.is_valid & possible.upper.less_than(lowest)
    shared: Mask = (
        (possible.nulls & possible.nulls[0])
        | (possible.nans & possible.nans[0])
        | (possible.others & possible.others[0] & ~disjoint)
    )
    return shared[1:]
