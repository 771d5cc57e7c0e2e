"""Batches split by partition and sorted, by columns (spec: Partitioning, Sorting).

`PartitionSplitter` numbers the distinct values of each partition field; the numbers of all fields combined identify the
partitions of a batch, and one sort of them groups the rows by partition. Values are converted to Python objects once
for each partition, not for each row.

>>> from floe.spec.partitioning.transform_terms import build_spec
>>> from floe.spec.types import DOUBLE, Field, LONG
>>> schema = Schema((Field(1, "id", LONG),))
>>> split = PartitionSplitter(build_spec(schema, ["bucket(2, id)"]), schema)
>>> [(part.values, part.rows.column("id").to_pylist()) for part in split(pa.record_batch({"id": [1, 2, 3, 4]}))]
[((0,), [1, 2, 4]), ((1,), [3])]

`sort_batch` sorts rows by transforms of columns. Nulls are first or last as each sort field says, and floats have the
order of the spec: `-0.0` before `0.0`, NaN above all other values.

>>> from floe.spec.sort_order import build_order
>>> schema = Schema((Field(1, "x", DOUBLE),))
>>> rows = pa.record_batch({"x": [1.0, float("nan"), None, -0.0]})
>>> sort_batch(rows, build_order(schema, ["x desc"]), schema).column("x").to_pylist()
[nan, 1.0, -0.0, None]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.errors import InvalidInput
from floe.formats.columns.arrays import to_values
from floe.formats.columns.arrow_types import arrow_type
from floe.formats.columns.transforms import transform_array
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec, check_writable
from floe.spec.partitioning.transforms import Void
from floe.spec.schemas.schema import Schema, SchemaField
from floe.spec.sort_order import NullOrder, SortDirection, SortField, SortOrder
from floe.spec.types import Type

# Sorting --------------------------------------------------------------------------------------------------------------

_FLOAT_BITS = {"float": (np.int32, np.int32(2**31 - 1)), "double": (np.int64, np.int64(2**63 - 1))}


def can_sort(order: SortOrder) -> bool:
    """Whether rows can be sorted by an order: it has fields, and all of its transforms are known.

    >>> from floe.spec.sort_order import UNSORTED
    >>> can_sort(UNSORTED)
    False
    """
    return bool(order.fields) and all(field.transform.is_known for field in order.fields)


def sort_batch(batch: pa.RecordBatch, order: SortOrder, schema: Schema) -> pa.RecordBatch:
    """Sort a batch, which must have the columns of the schema; the sort is stable.

    A batch that is sorted already is returned as it is.
    """
    columns: list[pa.Array] = []
    directions: list[tuple[str, str]] = []
    for field in order.fields:
        _add_key(field, _sort_key_array(field, batch, schema), columns, directions)
    if not columns or batch.num_rows < 2:
        return batch
    keys = pa.table(columns, [name for name, _ in directions])
    indices = pc.sort_indices(keys, sort_keys=directions)
    index_numbers = indices.to_numpy()
    if bool((index_numbers[1:] > index_numbers[:-1]).all()):
        return batch
    return batch.take(indices)


def nested_column(batch: pa.RecordBatch, entry: SchemaField, schema: Schema) -> pa.Array:
    """A column, or a field inside structs, of a batch with the columns of the schema; null where a struct is null.

    >>> from floe.spec.types import Field, INT, StructType
    >>> schema = Schema((Field(1, "at", StructType((Field(2, "x", INT),))),))
    >>> rows = pa.record_batch({"at": [{"x": 7}, None]})
    >>> nested_column(rows, schema.entry(2), schema).to_pylist()
    [7, None]
    """
    steps = (*entry.ancestors, entry.field)
    array = batch.column([field.id for field in schema.fields].index(steps[0].id))
    for above, step in pairwise(steps):
        array = pc.struct_field(array, [[field.id for field in above.type.fields].index(step.id)])
    return array


def _sort_key_array(field: SortField, batch: pa.RecordBatch, schema: Schema) -> pa.Array:
    entry = schema.entry(field.source_id)
    source = entry.field.type
    key = transform_array(field.transform, source, nested_column(batch, entry, schema))
    kind = field.transform.result_type(source).kind
    return _ordered_bits(key, kind) if kind in _FLOAT_BITS else key


def _ordered_bits(array: pa.Array, kind: str) -> pa.Array:
    """Floats as integers in the same order: the bits of negative ones are inverted."""
    integer, mask = _FLOAT_BITS[kind]
    bits = np.frombuffer(array.buffers()[1], integer, len(array), array.offset * np.dtype(integer).itemsize)
    ordered = np.where(bits < 0, bits ^ mask, bits)
    return pa.array(ordered, mask=np.asarray(array.is_null()) if array.null_count else None)


def _add_key(field: SortField, key: pa.Array, columns: list[pa.Array], directions: list[tuple[str, str]]) -> None:
    if key.null_count:  # nulls have a sort key of their own, as they are first or last whatever the direction
        columns.append(key.is_valid())
        nulls_first = field.null_order is NullOrder.NULLS_FIRST
        directions.append((str(len(directions)), "ascending" if nulls_first else "descending"))
    columns.append(key)
    directions.append((str(len(directions)), "ascending" if field.direction is SortDirection.ASC else "descending"))


# Splitting ------------------------------------------------------------------------------------------------------------

_MAX_CODES = 2**31
_BIT_TYPES = {"float": (pa.int32(), np.uint32), "double": (pa.int64(), np.uint64)}


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """Rows of a partition: a hashable key of the partition, its values, and the rows."""

    key: Hashable
    values: tuple[Any, ...]
    rows: pa.RecordBatch


class PartitionSplitter:
    """Splits batches, which must have the columns and Arrow types of a schema, by partition."""

    def __init__(self, spec: PartitionSpec, schema: Schema) -> None:
        check_writable(spec)
        self._schema = schema
        self._types = [field.type for field in spec.partition_type(schema)]
        self._fields = [
            (index, field, self._types[index])
            for index, field in enumerate(spec.fields)
            if not isinstance(field.transform, Void)
        ]
        self._empty = (None,) * len(spec.fields)

    def __call__(self, batch: pa.RecordBatch, *, clustered: bool = False) -> Iterator[PartitionRows]:
        """Split a batch; returns the rows of each partition, by first occurrence of the partitions.

        Rows of a partition keep their order. With `clustered`, raises `InvalidInput` unless they are contiguous.
        """
        if not batch.num_rows:
            return
        if not self._fields:
            yield PartitionRows((), self._empty, batch)
            return
        columns = [self._value_codes(batch, field, type_) for _, field, type_ in self._fields]
        combined = _combine_codes([(codes, len(values) + 1) for codes, values, _ in columns])
        codes, firsts = _renumber(combined)
        keys, tuples = self._partitions(columns, firsts)
        if len(keys) == 1:
            yield PartitionRows(keys[0], tuples[0], batch)
            return
        if bool((codes[1:] < codes[:-1]).any()):
            if clustered:
                row = int(np.argmax(codes[1:] < codes[:-1])) + 1
                raise InvalidInput(
                    f"rows of partition {tuples[codes[row]]} are not contiguous",
                    hint="sort the rows by partition, or use the fan-out writer",
                )
            batch = batch.take(pa.array(np.argsort(_narrowest(codes, len(keys)), kind="stable")))
        ends = np.cumsum(np.bincount(codes, minlength=len(keys)))
        start = 0
        for key, values, end in zip(keys, tuples, ends.tolist(), strict=True):
            yield PartitionRows(key, values, batch.slice(start, end - start))
            start = end

    def _value_codes(
        self, batch: pa.RecordBatch, field: PartitionField, type_: Type
    ) -> tuple[NDArray[np.int64], pa.Array, Type]:
        """The code of each row's value, 0 for null and from 1 otherwise; the distinct values; and their type."""
        entry = self._schema.entry(field.source_id)
        values = transform_array(field.transform, entry.field.type, nested_column(batch, entry, self._schema))
        if type_.kind in _BIT_TYPES:
            values = _float_bits(values, type_.kind)
        encoded = values.dictionary_encode()
        indices = encoded.indices
        codes = (indices.fill_null(-1) if indices.null_count else indices).to_numpy(zero_copy_only=False)
        return codes.astype(np.int64) + 1, encoded.dictionary, type_

    def _partitions(
        self, columns: list[tuple[NDArray[np.int64], pa.Array, Type]], firsts: NDArray[np.int64]
    ) -> tuple[list[Hashable], list[tuple[Any, ...]]]:
        """The keys and values of partitions, from the first row of each."""
        keys, columns_of_values = [], []
        for codes, stored, type_ in columns:
            indices = codes[firsts] - 1
            chosen = stored.take(pa.array(indices, mask=indices < 0))
            plain = chosen.view(arrow_type(type_)) if type_.kind in _BIT_TYPES else chosen.cast(arrow_type(type_))
            columns_of_values.append(to_values(type_, plain))
            keys.append(
                chosen.to_pylist() if type_.kind in _BIT_TYPES else columns_of_values[-1]
            )  # NaN is not equal to itself
        tuples = []
        for values in zip(*columns_of_values, strict=True):
            partition = list(self._empty)
            for (index, _, _), value in zip(self._fields, values, strict=True):
                partition[index] = value
            tuples.append(tuple(partition))
        return list(zip(*keys, strict=True)), tuples


def _combine_codes(columns: list[tuple[NDArray[np.int64], int]]) -> NDArray[np.int64]:
    """Combine the codes of several columns, each below its count, into one code."""
    codes_so_far, count = columns[0]
    for codes, column_count in columns[1:]:
        if count * column_count > _MAX_CODES * _MAX_CODES:
            codes_so_far, firsts = _renumber(codes_so_far)
            count = len(firsts)
        codes_so_far, count = codes_so_far * column_count + codes, count * column_count
    return codes_so_far


def _renumber(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Renumber codes from 0 by first occurrence; returns them, and the first row of each."""
    codes = pa.array(numbers).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    highest = np.maximum.accumulate(codes)  # the first row of a code is where it is the highest so far
    return codes, np.concatenate(([0], np.flatnonzero(highest[1:] != highest[:-1]) + 1))


def _narrowest(codes: NDArray[Any], count: int) -> NDArray[Any]:
    """The codes in the narrowest type: NumPy sorts numbers of up to 16 bits by radix sort."""
    return codes.astype(np.uint8 if count <= 2**8 else np.uint16 if count <= 2**16 else np.uint32)


def _float_bits(array: pa.Array, kind: str) -> pa.Array:
    """The bits of floats as integers, with a single NaN: partitions are distinguished by bits (spec: Scan Planning)."""
    stored, number = _BIT_TYPES[kind]
    values = array.to_numpy(zero_copy_only=False) if not array.null_count else array.fill_null(0).to_numpy()
    values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    mask = np.asarray(array.is_null()) if array.null_count else None
    return pa.array(values.view(number).view(stored.to_pandas_dtype()), stored, mask=mask)
