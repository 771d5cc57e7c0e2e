"""The deletes of data files: deleted keys of equality deletes, and deleted positions.

`EqualityDeletes` reads the equality delete files of a data file; those that compare the same columns form one `KeySet`.
Null equals null, NaN equals NaN, and `-0.0` does not equal `0.0`. Key columns are looked up by field id in all schemas
of the table, because a delete still applies after its column was dropped or widened.

`PositionDeletes` reads deletion vectors and position delete files as bitmaps of row positions.

Both keep what they read in a `LoadingCache`, because one delete file may apply to many data files.
"""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from floe.arrow.read.extra_columns import column_by_id, with_columns
from floe.errors import CorruptFile, FloeError, UnsupportedFeature
from floe.formats.columns.arrow_types import arrow_type
from floe.formats.columns.conversion import make_converter
from floe.formats.puffin import read_deletion_vector
from floe.formats.registry import Registry, read_position_deletes
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.column_projection import FromFile
from floe.spec.schemas.name_mapping import FileField, NameMapping
from floe.spec.schemas.schema import Schema, SchemaField
from floe.spec.types import Field, StructType, Type
from floe.storage.protocol import Storage

# Cache ----------------------------------------------------------------------------------------------------------------

Value = TypeVar("Value")


class LoadingCache(Generic[Value]):
    """A cache that loads each value once, while other threads wait for it; the least recently used is evicted first.

    >>> cache = LoadingCache(budget=10, weigh=len)
    >>> loads = ((1, "long text"), (1, "never loaded"), (2, "more"), (1, "again"))
    >>> [cache.get(key, lambda: text) for key, text in loads]
    ['long text', 'long text', 'more', 'again']
    """

    def __init__(self, *, budget: int, weigh: Callable[[Value], int]) -> None:
        self._budget = budget
        self._weigh = weigh
        self._lock = threading.Lock()
        self._futures: OrderedDict[Hashable, Future[Value]] = OrderedDict()
        self._weights: dict[Hashable, int] = {}

    def get(self, key: Hashable, load: Callable[[], Value]) -> Value:
        """The value of a key; it is loaded unless another thread has loaded it or is loading it."""
        with self._lock:
            future = self._futures.get(key)
            if future is None:
                own_future: Future[Value] = Future()
                self._futures[key] = own_future
            else:
                self._futures.move_to_end(key)
        if future is not None:
            return future.result()
        try:
            value = load()
        except BaseException as error:
            with self._lock:
                del self._futures[key]
            own_future.set_exception(error)
            raise
        own_future.set_result(value)
        with self._lock:
            self._weights[key] = self._weigh(value)
            self._evict()
        return value

    def _evict(self) -> None:
        """Remove the least recently used values until the others fit; values that are being loaded stay."""
        total = sum(self._weights.values())
        for key in list(self._futures):
            if total <= self._budget:
                return
            if key in self._weights:
                total -= self._weights.pop(key)
                del self._futures[key]


# Equality deletes -----------------------------------------------------------------------------------------------------

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]

_KEYS_BUDGET = 128 * 2**20
"""About how many bytes of keys are cached."""

_INCOMPARABLE = {"variant", "geometry", "geography"}


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns that equality deletes compare, each in the widest type that the table has had for it."""

    entries: tuple[SchemaField, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        """The field ids, in the order of the columns of a key."""
        return tuple(entry.field.id for entry in self.entries)

    def arrays(self, schema: Schema, batch: pa.RecordBatch) -> list[pa.Array]:
        """The key columns of a batch with a given schema, promoted to the types that are compared."""
        promoted = []
        for entry in self.entries:
            array = column_by_id(schema, batch, entry.field.id)
            promoted.append(_promote(array, schema.entry(entry.field.id).field.type, entry.field))
        return promoted


def key_columns(metadata: TableMetadata, ids: Iterable[int], file: str) -> KeyColumns:
    """The columns that a delete file compares, from the current schema, or from the newest schema that has them.

    Raises `CorruptFile` if the file names no columns or an unknown one, `UnsupportedFeature` for nested columns and
    types without equality.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.types import LONG
    >>> schema = Schema((Field(1, "id", LONG), Field(2, "k", LONG)))
    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> metadata = new_table_metadata(schema, location="memory:t", uuid=uuid, now_ms=0)
    >>> [entry.name for entry in key_columns(metadata, (2, 1), "deletes.parquet").entries]
    ['id', 'k']
    """
    ordered = sorted(set(ids))
    if not ordered:
        raise CorruptFile("the equality delete file has no equality ids", file=file)
    return KeyColumns(tuple(_key_column(metadata, field_id, file) for field_id in ordered))


def _key_column(metadata: TableMetadata, field_id: int, file: str) -> SchemaField:
    older = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    for schema in (metadata.schema, *older):
        entry = schema.by_id.get(field_id)
        if entry is None:
            continue
        type_ = entry.field.type
        if entry.in_collection or type_.is_nested or type_.kind in _INCOMPARABLE:
            raise UnsupportedFeature(
                f"equality deletes on {type_}{' in a list or map' * entry.in_collection}", column=entry.name, file=file
            )
        return entry
    raise CorruptFile(f"equality deletes on field {field_id}, which no schema of the table has", file=file)


def _promote(array: pa.Array, from_: Type, to: Field) -> pa.Array:
    if from_ == to.type or array.type == arrow_type(to.type):
        return array
    source = FromFile(to, FileField(to.name, from_.kind, from_, to.id), 0, "promote")
    return make_converter(source, array.type)(array)


class KeySet:
    """A set of keys of one or more columns, for lookups of whole columns.

    >>> keys = KeySet([pa.chunked_array([[1, None]]), pa.chunked_array([["a", "b"]])])
    >>> keys.contains([pa.array([1, 1, None]), pa.array(["a", "b", "b"])]).tolist()
    [True, False, True]
    """

    def __init__(self, columns: Sequence[pa.ChunkedArray]) -> None:
        self.count = len(columns[0])
        # The first column gives each key a number; the pairs of that number and the next column's are numbered again.
        self._columns = [_DistinctValues(column) for column in columns]
        self._pairs: list[_DistinctValues] = []
        numbers = self._columns[0].indexes(_combine_chunks(columns[0]))
        for distinct, column in zip(self._columns[1:], columns[1:], strict=True):
            pair_numbers = pa.array(numbers * len(distinct) + distinct.indexes(_combine_chunks(column)))
            self._pairs.append(_DistinctValues(pa.chunked_array([pair_numbers])))
            numbers = self._pairs[-1].indexes(pair_numbers)

    def contains(self, columns: Sequence[pa.Array]) -> Mask:
        """For each row, whether its key is in the set."""
        numbers = self._columns[0].indexes(columns[0])
        for distinct, pairs, column in zip(self._columns[1:], self._pairs, columns[1:], strict=True):
            column_indexes = distinct.indexes(column)
            pair_numbers = np.where((numbers < 0) | (column_indexes < 0), -1, numbers * len(distinct) + column_indexes)
            numbers = pairs.indexes(pa.array(pair_numbers))
        return np.asarray(numbers >= 0, np.bool_)


class _DistinctValues:
    """The distinct values of a column, including null, and their indexes.

    Integers, dates and timestamps are looked up by binary search: `index_in`, which the other types use, builds its
    hash table again for every batch.
    """

    def __init__(self, values: pa.ChunkedArray) -> None:
        distinct = values.unique()
        self._values = distinct
        self._sorted: Numbers | None = None
        if pa.types.is_integer(distinct.type) or pa.types.is_temporal(distinct.type):
            self._sorted = np.sort(_numbers(distinct.drop_null()))
            self._null_index = len(self._sorted) if distinct.null_count else -1

    def __len__(self) -> int:
        return len(self._values)

    def indexes(self, array: pa.Array) -> Numbers:
        """The index of each value of an array among the distinct values, or -1."""
        if self._sorted is None:
            indexes = pc.index_in(array, value_set=self._values)
            return np.asarray(indexes.fill_null(-1)).astype(np.int64)
        numbers = _numbers(array)
        indexes = np.searchsorted(self._sorted, numbers)
        is_present = indexes < len(self._sorted)
        is_present[is_present] = self._sorted[indexes[is_present]] == numbers[is_present]
        indexes[~is_present] = -1
        if array.null_count:
            indexes[np.asarray(array.is_null())] = self._null_index
        return indexes


def _numbers(array: pa.Array) -> Numbers:
    """The values of an array of integers, dates or timestamps as int64; 0 for null."""
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    if array.null_count:
        array = array.fill_null(0)
    return np.asarray(array).astype(np.int64, copy=False)


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


class EqualityDeletes:
    """Reads the equality deletes of data files; thread-safe."""

    def __init__(
        self,
        metadata: TableMetadata,
        storage: Storage,
        formats: Registry,
        *,
        name_mapping: NameMapping | None = None,
        budget: int = _KEYS_BUDGET,
    ) -> None:
        self._metadata = metadata
        self._storage = storage
        self._formats = formats
        self._name_mapping = name_mapping
        self._files: LoadingCache[pa.Table] = LoadingCache(budget=budget, weigh=lambda table: int(table.nbytes))
        self._sets: LoadingCache[KeySet] = LoadingCache(budget=budget // 16, weigh=lambda keys: 16 * keys.count)

    def key_sets(self, deletes: Iterable[DataFile]) -> list[tuple[KeyColumns, KeySet]]:
        """The keys of the equality deletes among some deletes, by the columns that they compare."""
        groups: dict[tuple[int, ...], list[DataFile]] = defaultdict(list)
        for delete in deletes:
            if delete.is_equality_delete_file:
                groups[tuple(sorted(set(delete.equality_ids or ())))].append(delete)
        sets = []
        for ids, files in groups.items():
            columns = key_columns(self._metadata, ids, files[0].file_path)
            key = (ids, tuple(file.file_path for file in files))
            keys = self._sets.get(key, partial(self._key_set, columns, files))
            if keys.count:
                sets.append((columns, keys))
        return sets

    def keys(self, columns: KeyColumns, file: DataFile) -> pa.Table:
        """The keys of one delete file, in columns that are named by field id."""
        return self._files.get(file.file_path, partial(self._read, columns, file))

    def _key_set(self, columns: KeyColumns, files: Sequence[DataFile]) -> KeySet:
        return KeySet(pa.concat_tables([self.keys(columns, file) for file in files]).columns)

    def _read(self, columns: KeyColumns, file: DataFile) -> pa.Table:
        stored = with_columns(Schema(()), columns.entries)
        names = [str(field_id) for field_id in columns.ids]
        schema = pa.schema(
            [(name, arrow_type(entry.field.type)) for name, entry in zip(names, columns.entries, strict=True)]
        )
        try:
            arrays = (columns.arrays(stored, batch) for batch in self._batches(file, stored))
            keys = pa.Table.from_batches(
                [pa.RecordBatch.from_arrays(key_arrays, schema=schema) for key_arrays in arrays], schema
            )
            for entry, column in zip(columns.entries, keys.columns, strict=True):
                if len(column) and column.null_count == len(column):
                    self._check_stored(file, entry)
        except FloeError as error:
            raise error.with_context(file=file.file_path) from None
        return keys

    def _batches(self, file: DataFile, schema: Schema) -> Iterable[pa.RecordBatch]:
        builder = self._formats.read(file.file_format, "arrow", self._storage, file.file_path).project(schema)
        builder = builder.name_mapping(self._name_mapping).key_metadata(file.key_metadata, None)
        builder = builder.properties(self._metadata.properties)
        return builder.facts(file_size=file.file_size_in_bytes, record_count=file.record_count)

    def _check_stored(self, file: DataFile, entry: SchemaField) -> None:
        """Raise `CorruptFile` if the file does not store a key column: it reads as nulls, and nulls are valid keys."""
        field_id = entry.field.id
        required = replace(entry.field, required=True, initial_default=None)
        for ancestor in reversed(entry.ancestors):
            required = replace(ancestor, required=True, initial_default=None, type=StructType((required,)))
        try:
            next(iter(self._batches(file, Schema((required,)))), None)
        except CorruptFile as error:
            if "has no column" in error.message:
                raise CorruptFile(f"equality deletes on field {field_id}, but the file has no such column") from None


# Position deletes -----------------------------------------------------------------------------------------------------

_PositionsByPath: TypeAlias = Mapping[str, BitMap64]

_POSITIONS_BUDGET = 64 * 2**20
"""About how many bytes of deleted positions are cached."""

_BYTES_PER_POSITION = 3
_BYTES_PER_PATH = 500


class PositionDeletes:
    """Reads the position deletes and deletion vectors of data files; thread-safe."""

    def __init__(
        self,
        storage: Storage,
        formats: Registry,
        *,
        properties: Mapping[str, str] | None = None,
        budget: int = _POSITIONS_BUDGET,
    ) -> None:
        self._storage = storage
        self._formats = formats
        self._properties = properties
        self._files: LoadingCache[_PositionsByPath] = LoadingCache(budget=budget, weigh=_weight)

    def positions(self, file: DataFile, deletes: Iterable[DataFile]) -> BitMap64:
        """The positions of a data file that some deletes delete; equality deletes are ignored.

        The bitmap may be shared with the cache and must not be changed. Raises `CorruptFile` for a position beyond the
        end of the file: such deletes belong to another file, and ignoring them could restore deleted rows.
        """
        union = BitMap64()
        is_shared = True
        for delete in deletes:
            if delete.is_equality_delete_file:
                continue
            deleted = self._positions_of_delete(file, delete)
            if not deleted:
                continue
            if not union:
                union, is_shared = deleted, True
            elif is_shared:
                union, is_shared = union | deleted, False
            else:
                union |= deleted
        return union

    def _positions_of_delete(self, file: DataFile, delete: DataFile) -> BitMap64:
        rows = file.record_count if file.record_count >= 0 else None
        if delete.is_deletion_vector:
            if delete.referenced_data_file != file.file_path:
                raise CorruptFile(
                    f"a deletion vector for {delete.referenced_data_file} is assigned to another file",
                    file=file.file_path,
                )
            return read_deletion_vector(self._storage, delete, row_count=rows)
        by_path = self._files.get((delete.file_path, delete.content_offset), lambda: self._read(delete))
        deleted = by_path.get(file.file_path, _NO_POSITIONS)
        if deleted and rows is not None and deleted.max() >= rows:
            raise CorruptFile(
                f"a delete file deletes row {deleted.max()} of a file of {rows} rows",
                file=delete.file_path,
                **{"data file": file.file_path},
            )
        return deleted

    def _read(self, delete: DataFile) -> _PositionsByPath:
        try:
            return _positions_by_path(
                read_position_deletes(self._formats, self._storage, delete, properties=self._properties)
            )
        except FloeError as error:
            raise error.with_context(file=delete.file_path) from None


_NO_POSITIONS = BitMap64()


def _positions_by_path(batches: Iterable[pa.RecordBatch]) -> _PositionsByPath:
    """The deleted positions of each data file; most delete files are sorted by path, so each file is one run."""
    bitmaps: dict[str, BitMap64] = {}
    for batch in batches:
        paths = batch.column(0).dictionary_encode()
        codes, positions = np.asarray(paths.indices), np.asarray(batch.column(1))
        if positions.min() < 0:
            raise CorruptFile(f"a deleted row has the position {positions.min()}")
        if (np.diff(codes) < 0).any():
            order = np.argsort(codes, kind="stable")
            codes, positions = codes[order], positions[order]
        starts = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
        for start, end in zip(starts, [*starts[1:], len(codes)], strict=True):
            path = paths.dictionary[int(codes[start])].as_py()
            bitmaps.setdefault(path, BitMap64()).update(_bitmap(positions[start:end]))
    return bitmaps


def _bitmap(positions: np.ndarray[tuple[int], np.dtype[np.int64]]) -> BitMap64:
    return BitMap64(array("Q", positions.tobytes()))


def _weight(by_path: _PositionsByPath) -> int:
    return sum(_BYTES_PER_PATH + _BYTES_PER_POSITION * len(positions) for positions in by_path.values())
