"""Which rows have the values of an equality delete: null equals null, NaN equals NaN, and `-0.0` is not `0.0`.

The delete files of a data file that compare the same columns make one set of keys. Columns are found by id among all
schemas of the table: those that were dropped or widened since still delete what they deleted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.arrow.reading.extra_columns import column_at, with_columns
from floe.arrow.reading.read_once import ReadOnce
from floe.errors import CorruptFile, FloeError, UnsupportedFeature
from floe.formats.arrow_conversion import converter
from floe.formats.arrow_types import arrow_type
from floe.formats.registry import Registry
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.column_resolution import FromFile
from floe.spec.schemas.file_fields import FileField
from floe.spec.schemas.name_mapping import NameMapping
from floe.spec.schemas.schema import Schema, SchemaField
from floe.spec.types import Field, StructType, Type
from floe.storage.protocol import Storage

__all__ = ["EqualityDeletes", "KeyColumns", "KeySet", "key_columns"]

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]

_BUDGET = 128 * 2**20
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
    return converter(source, array.type)(array)


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
        budget: int = _BUDGET,
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
