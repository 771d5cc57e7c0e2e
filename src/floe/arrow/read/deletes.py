"""Which rows have the values of an equality delete: null equals null, NaN equals NaN, and `-0.0` is not `0.0`.

The delete files of a data file that compare the same columns make one set of keys. Columns are found by id among all
schemas of the table: those that were dropped or widened since still delete what they deleted.

Which positions of a data file are deleted: vectors and delete files, each read once for all that it is for.

What several readers need, read by the first of them and kept for the others as long as there is room.
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

from floe.arrow.reading.extra_columns import column_at, with_columns
from floe.errors import CorruptFile, FloeError, UnsupportedFeature
from floe.formats.arrow_conversion import make_converter
from floe.formats.arrow_types import arrow_type
from floe.formats.position_deletes import read_deletion_vector, read_position_deletes
from floe.formats.registry import Registry
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.column_projection import FromFile
from floe.spec.schemas.name_mapping import FileField, NameMapping
from floe.spec.schemas.schema import Schema, SchemaField
from floe.spec.types import Field, StructType, Type
from floe.storage.protocol import Storage

# What several readers need, read by the first of them and kept for the others as long as there is room.

Value = TypeVar("Value")


class ReadOnce(Generic[Value]):
    """Values by key: each is made once, while others who ask wait for it; what was not asked for longest goes first.

    >>> kept = ReadOnce(budget=10, weigh=len)
    >>> [kept.get(key, lambda: made) for key, made in ((1, "long text"), (1, "never made"), (2, "more"), (1, "again"))]
    ['long text', 'long text', 'more', 'again']
    """

    def __init__(self, *, budget: int, weigh: Callable[[Value], int]) -> None:
        self._budget = budget
        self._weigh = weigh
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Future[Value]] = OrderedDict()
        self._weights: dict[Hashable, int] = {}

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, made now if nobody did."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                promised: Future[Value] = Future()
                self._kept[key] = promised
            else:
                self._kept.move_to_end(key)
        if found is not None:
            return found.result()
        try:
            value = make()
        except BaseException as error:
            with self._lock:
                del self._kept[key]
            promised.set_exception(error)
            raise
        promised.set_result(value)
        with self._lock:
            self._weights[key] = self._weigh(value)
            self._make_room()
        return value

    def _make_room(self) -> None:
        """Let go of the oldest until the rest fits; what is being made stays."""
        total = sum(self._weights.values())
        for key in list(self._kept):
            if total <= self._budget:
                return
            if key in self._weights:
                total -= self._weights.pop(key)
                del self._kept[key]


Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]

_KEYS_BUDGET = 128 * 2**20
"""How many bytes of keys are kept in memory, about, for the other data files that they are for."""

_INCOMPARABLE = {"variant", "geometry", "geography"}


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The columns that equality deletes compare, in the widest type that the table has had for each."""

    entries: tuple[SchemaField, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        """Their field ids, in the order of the columns of a key."""
        return tuple(entry.field.id for entry in self.entries)

    def arrays(self, schema: Schema, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns of a batch of that schema, brought to the types that are compared."""
        found = []
        for entry in self.entries:
            array = column_at(schema, batch, entry.field.id)
            found.append(_widened(array, schema.entry(entry.field.id).field.type, entry.field))
        return found


def key_columns(metadata: TableMetadata, ids: Iterable[int], file: str) -> KeyColumns:
    """The columns that a delete file compares: the fields of the current schema, or of the newest one that has them.

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
        raise CorruptFile("an equality delete file that compares no columns", file=file)
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


def _widened(array: pa.Array, from_: Type, to: Field) -> pa.Array:
    if from_ == to.type or array.type == arrow_type(to.type):
        return array
    source = FromFile(to, FileField(to.name, from_.kind, from_, to.id), 0, "promote")
    return make_converter(source, array.type)(array)


class KeySet:
    """Keys of one or several columns, ready to be looked up in bulk.

    >>> keys = KeySet([pa.chunked_array([[1, None]]), pa.chunked_array([["a", "b"]])])
    >>> keys.contain([pa.array([1, 1, None]), pa.array(["a", "b", "b"])]).tolist()
    [True, False, True]
    """

    def __init__(self, columns: Sequence[pa.ChunkedArray]) -> None:
        self.count = len(columns[0])
        # the first column gives each key a number; with the numbers of the next column, pairs of both are numbered
        self._columns = [_Distinct(column) for column in columns]
        self._pairs: list[_Distinct] = []
        numbers = self._columns[0].places(_whole(columns[0]))
        for known, column in zip(self._columns[1:], columns[1:], strict=True):
            both = pa.array(numbers * len(known) + known.places(_whole(column)))
            self._pairs.append(_Distinct(pa.chunked_array([both])))
            numbers = self._pairs[-1].places(both)

    def contain(self, columns: Sequence[pa.Array]) -> Mask:
        """For each row whether its key is among these."""
        numbers = self._columns[0].places(columns[0])
        for known, pairs, column in zip(self._columns[1:], self._pairs, columns[1:], strict=True):
            own = known.places(column)
            both = np.where((numbers < 0) | (own < 0), -1, numbers * len(known) + own)
            numbers = pairs.places(pa.array(both))
        return np.asarray(numbers >= 0, np.bool_)


class _Distinct:
    """The distinct values of a column, null among them, and the places that they have.

    Whole numbers and moments are looked up by bisection: for the hash table of `index_in`, which others need, has to be
    built anew for every batch.
    """

    def __init__(self, values: pa.ChunkedArray) -> None:
        distinct = values.unique()
        self._values = distinct
        self._sorted: Numbers | None = None
        if pa.types.is_integer(distinct.type) or pa.types.is_temporal(distinct.type):
            self._sorted = np.sort(_numbers(distinct.drop_null()))
            self._place_of_null = len(self._sorted) if distinct.null_count else -1

    def __len__(self) -> int:
        return len(self._values)

    def places(self, array: pa.Array) -> Numbers:
        """For each value of an array its place among these, or -1."""
        if self._sorted is None:
            places = pc.index_in(array, value_set=self._values)
            return np.asarray(places.fill_null(-1)).astype(np.int64)
        numbers = _numbers(array)
        places = np.searchsorted(self._sorted, numbers)
        found = places < len(self._sorted)
        found[found] = self._sorted[places[found]] == numbers[found]
        places[~found] = -1
        if array.null_count:
            places[np.asarray(array.is_null())] = self._place_of_null
        return places


def _numbers(array: pa.Array) -> Numbers:
    """The numbers that whole numbers or moments are; 0 where there is null."""
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    if array.null_count:
        array = array.fill_null(0)
    return np.asarray(array).astype(np.int64, copy=False)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


class EqualityDeletes:
    """Reads the equality deletes of data files; may be used from several threads."""

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
        self._files: ReadOnce[pa.Table] = ReadOnce(budget=budget, weigh=lambda table: int(table.nbytes))
        self._sets: ReadOnce[KeySet] = ReadOnce(budget=budget // 16, weigh=lambda keys: 16 * keys.count)

    def of(self, deletes: Iterable[DataFile]) -> list[tuple[KeyColumns, KeySet]]:
        """The keys of those deletes that are equality deletes, by the columns that they compare."""
        groups: dict[tuple[int, ...], list[DataFile]] = defaultdict(list)
        for delete in deletes:
            if delete.is_equality_delete_file:
                groups[tuple(sorted(set(delete.equality_ids or ())))].append(delete)
        found = []
        for ids, files in groups.items():
            columns = key_columns(self._metadata, ids, files[0].file_path)
            key = (ids, tuple(file.file_path for file in files))
            keys = self._sets.get(key, partial(self._key_set, columns, files))
            if keys.count:
                found.append((columns, keys))
        return found

    def keys(self, columns: KeyColumns, file: DataFile) -> pa.Table:
        """The keys in one delete file: a column for each that is compared, named by its field id."""
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
            keys = pa.Table.from_batches([pa.RecordBatch.from_arrays(found, schema=schema) for found in arrays], schema)
            for entry, column in zip(columns.entries, keys.columns, strict=True):
                if len(column) and column.null_count == len(column):
                    self._check_stored(file, entry)
        except FloeError as error:
            raise error.with_context(file=file.file_path) from None
        return keys

    def _batches(self, file: DataFile, schema: Schema) -> Iterable[pa.RecordBatch]:
        reading = self._formats.read(file.file_format, "arrow", self._storage, file.file_path).project(schema)
        reading = reading.name_mapping(self._name_mapping).key_metadata(file.key_metadata, None)
        reading = reading.properties(self._metadata.properties)
        return reading.facts(file_size=file.file_size_in_bytes, record_count=file.record_count)

    def _check_stored(self, file: DataFile, entry: SchemaField) -> None:
        """Raise unless nothing but nulls is what the file stores: a column that is not there reads the same."""
        key = entry.field.id
        required = replace(entry.field, required=True, initial_default=None)
        for ancestor in reversed(entry.ancestors):
            required = replace(ancestor, required=True, initial_default=None, type=StructType((required,)))
        try:
            next(iter(self._batches(file, Schema((required,)))), None)
        except CorruptFile as error:
            if "has no column" in error.message:
                raise CorruptFile(f"equality deletes on field {key}, and the file has no such column") from None


# Which positions of a data file are deleted: vectors and delete files, each read once for all that it is for.

_ByPath: TypeAlias = Mapping[str, BitMap64]

_POSITIONS_BUDGET = 64 * 2**20
"""How many bytes of delete files are kept in memory, about, for the other data files that they are for."""

_BYTES_PER_POSITION = 3
_BYTES_PER_PATH = 500


class PositionDeletes:
    """Reads the position deletes of data files; may be used from several threads."""

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
        self._files: ReadOnce[_ByPath] = ReadOnce(budget=budget, weigh=_weight)

    def of(self, file: DataFile, deletes: Iterable[DataFile]) -> BitMap64:
        """The positions of a data file that some deletes delete; others than position deletes are passed over.

        What is given may be shared, so it must not be changed. A position beyond the file is CorruptFile: then the
        deletes are not meant for this file, and rows that somebody deleted would come back.
        """
        found = BitMap64()
        shared = True
        for delete in deletes:
            if delete.is_equality_delete_file:
                continue
            one = self._positions(file, delete)
            if not one:
                continue
            if not found:
                found, shared = one, True
            elif shared:
                found, shared = found | one, False
            else:
                found |= one
        return found

    def _positions(self, file: DataFile, delete: DataFile) -> BitMap64:
        rows = file.record_count if file.record_count >= 0 else None
        if delete.is_deletion_vector:
            if delete.referenced_data_file != file.file_path:
                raise CorruptFile(
                    f"a deletion vector for {delete.referenced_data_file} was to be applied to another file",
                    file=file.file_path,
                )
            return read_deletion_vector(self._storage, delete, row_count=rows)
        by_path = self._files.get((delete.file_path, delete.content_offset), lambda: self._read(delete))
        found = by_path.get(file.file_path, _NOTHING)
        if found and rows is not None and found.max() >= rows:
            raise CorruptFile(
                f"a delete file deletes row {found.max()} of a file of {rows} rows",
                file=delete.file_path,
                **{"data file": file.file_path},
            )
        return found

    def _read(self, delete: DataFile) -> _ByPath:
        try:
            return _by_path(read_position_deletes(self._formats, self._storage, delete, properties=self._properties))
        except FloeError as error:
            raise error.with_context(file=delete.file_path) from None


_NOTHING = BitMap64()


def _by_path(batches: Iterable[pa.RecordBatch]) -> _ByPath:
    """The positions in each data file; rows are sorted by file in most delete files, and so come in few runs."""
    found: dict[str, BitMap64] = {}
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
            found.setdefault(path, BitMap64()).update(_bitmap(positions[start:end]))
    return found


def _bitmap(positions: np.ndarray[tuple[int], np.dtype[np.int64]]) -> BitMap64:
    return BitMap64(array("Q", positions.tobytes()))


def _weight(by_path: _ByPath) -> int:
    return sum(_BYTES_PER_PATH + _BYTES_PER_POSITION * len(one) for one in by_path.values())
