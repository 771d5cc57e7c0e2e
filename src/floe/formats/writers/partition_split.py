"""Batches split by partition, whole columns at a time (spec: Partitioning).

Each partition field gives a column of values, whose distinct ones are numbered; the numbers of all fields together
number the partitions of a batch. One sort of these numbers brings the rows of a partition together. Values become
Python objects once for each partition, never for a row.

>>> from floe.spec.partitioning.terms import build_spec
>>> from floe.spec.types import Field, LONG
>>> schema = Schema((Field(1, "id", LONG),))
>>> splitter = Splitter(build_spec(schema, ["bucket(2, id)"]), schema)
>>> [(part.values, part.rows.column("id").to_pylist()) for part in splitter(pa.record_batch({"id": [1, 2, 3, 4]}))]
[((0,), [1, 2, 4]), ((1,), [3])]

Rows put in a sort order, whole columns at a time (spec: Sorting).

Keys are transforms of columns, nulls come first or last as each field says, and floats have the spec's order: `-0.0`
before `0.0`, NaN above everything.

>>> from floe.spec.sort_order import build_order
>>> from floe.spec.types import DOUBLE, Field
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
from floe.formats.arrow_arrays import to_values
from floe.formats.arrow_transforms import transform_array
from floe.formats.arrow_types import arrow_type
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec, check_writable
from floe.spec.partitioning.transforms import Void
from floe.spec.schemas.schema import Schema, SchemaField
from floe.spec.sort_order import NullOrder, SortDirection, SortField, SortOrder
from floe.spec.types import Type

# Rows put in a sort order, whole columns at a time (spec: Sorting).

_FLOAT_BITS = {"float": (np.int32, np.int32(2**31 - 1)), "double": (np.int64, np.int64(2**63 - 1))}


def can_sort(order: SortOrder) -> bool:
    """Whether rows can be put in an order: it has steps, and every transform is known.

    >>> from floe.spec.sort_order import UNSORTED
    >>> can_sort(UNSORTED)
    False
    """
    return bool(order.fields) and all(field.transform.is_known for field in order.fields)


def sort_batch(batch: pa.RecordBatch, order: SortOrder, schema: Schema) -> pa.RecordBatch:
    """The rows of a batch, which has the columns of the schema, in an order; equal rows stay as they came.

    Rows that are in order already are given as they are.
    """
    columns: list[pa.Array] = []
    ways: list[tuple[str, str]] = []
    for field in order.fields:
        _add_key(field, _key(field, batch, schema), columns, ways)
    if not columns or batch.num_rows < 2:
        return batch
    keys = pa.table(columns, [name for name, _ in ways])
    places = pc.sort_indices(keys, sort_keys=ways)
    numbers = places.to_numpy()
    if bool((numbers[1:] > numbers[:-1]).all()):
        return batch
    return batch.take(places)


def nested_column(batch: pa.RecordBatch, entry: SchemaField, schema: Schema) -> pa.Array:
    """A column of a batch that has the columns of the schema, or a field inside its structs; null where one is null.

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


def _key(field: SortField, batch: pa.RecordBatch, schema: Schema) -> pa.Array:
    entry = schema.entry(field.source_id)
    source = entry.field.type
    key = transform_array(field.transform, source, nested_column(batch, entry, schema))
    kind = field.transform.result_type(source).kind
    return _ordered_bits(key, kind) if kind in _FLOAT_BITS else key


def _ordered_bits(array: pa.Array, kind: str) -> pa.Array:
    """Floats as whole numbers in the same order: those of negative ones are turned round."""
    number, mask = _FLOAT_BITS[kind]
    bits = np.frombuffer(array.buffers()[1], number, len(array), array.offset * np.dtype(number).itemsize)
    turned = np.where(bits < 0, bits ^ mask, bits)
    return pa.array(turned, mask=np.asarray(array.is_null()) if array.null_count else None)


def _add_key(field: SortField, key: pa.Array, columns: list[pa.Array], ways: list[tuple[str, str]]) -> None:
    if key.null_count:  # a step of their own, for nulls go first or last whatever the direction
        columns.append(key.is_valid())
        first = field.null_order is NullOrder.NULLS_FIRST
        ways.append((str(len(ways)), "ascending" if first else "descending"))
    columns.append(key)
    ways.append((str(len(ways)), "ascending" if field.direction is SortDirection.ASC else "descending"))


_MOST_NUMBERS = 2**31
_BITS = {"float": (pa.int32(), np.uint32), "double": (pa.int64(), np.uint64)}


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one partition: something that only this partition has, its tuple, and the rows."""

    key: Hashable
    values: tuple[Any, ...]
    rows: pa.RecordBatch


class Splitter:
    """Splits batches that have the columns and Arrow types of a schema."""

    def __init__(self, spec: PartitionSpec, schema: Schema) -> None:
        check_writable(spec)
        self._schema = schema
        self._types = [field.type for field in spec.partition_type(schema)]
        self._fields = [
            (place, field, self._types[place])
            for place, field in enumerate(spec.fields)
            if not isinstance(field.transform, Void)
        ]
        self._empty = (None,) * len(spec.fields)

    def __call__(self, batch: pa.RecordBatch, *, clustered: bool = False) -> Iterator[Part]:
        """The parts of a batch, in the order in which their partitions first come.

        Rows of a partition keep their order. If they are `clustered`, they must follow each other.
        """
        if not batch.num_rows:
            return
        if not self._fields:
            yield Part((), self._empty, batch)
            return
        columns = [self._numbered(batch, field, type_) for _, field, type_ in self._fields]
        numbers = _combined([(codes, len(values) + 1) for codes, values, _ in columns])
        codes, firsts = _dense(numbers)
        keys, tuples = self._partitions(columns, firsts)
        if len(keys) == 1:
            yield Part(keys[0], tuples[0], batch)
            return
        if bool((codes[1:] < codes[:-1]).any()):
            if clustered:
                place = int(np.argmax(codes[1:] < codes[:-1])) + 1
                raise InvalidInput(
                    f"rows of partition {tuples[codes[place]]} come after those of others",
                    hint="bring the rows of a partition together, or let the writer do it (fan-out)",
                )
            batch = batch.take(pa.array(np.argsort(_narrowest(codes, len(keys)), kind="stable")))
        ends = np.cumsum(np.bincount(codes, minlength=len(keys)))
        start = 0
        for key, values, end in zip(keys, tuples, ends.tolist(), strict=True):
            yield Part(key, values, batch.slice(start, end - start))
            start = end

    def _numbered(
        self, batch: pa.RecordBatch, field: PartitionField, type_: Type
    ) -> tuple[NDArray[np.int64], pa.Array, Type]:
        """For each row the number of its value, from 1 on and 0 for null; and the values."""
        entry = self._schema.entry(field.source_id)
        values = transform_array(field.transform, entry.field.type, nested_column(batch, entry, self._schema))
        if type_.kind in _BITS:
            values = _bits(values, type_.kind)
        encoded = values.dictionary_encode()
        indices = encoded.indices
        codes = (indices.fill_null(-1) if indices.null_count else indices).to_numpy(zero_copy_only=False)
        return codes.astype(np.int64) + 1, encoded.dictionary, type_

    def _partitions(
        self, columns: list[tuple[NDArray[np.int64], pa.Array, Type]], firsts: NDArray[np.int64]
    ) -> tuple[list[Hashable], list[tuple[Any, ...]]]:
        """The keys and tuples of partitions, by a row of each."""
        keys, made = [], []
        for codes, stored, type_ in columns:
            places = codes[firsts] - 1
            chosen = stored.take(pa.array(places, mask=places < 0))
            plain = chosen.view(arrow_type(type_)) if type_.kind in _BITS else chosen.cast(arrow_type(type_))
            made.append(to_values(type_, plain))
            keys.append(chosen.to_pylist() if type_.kind in _BITS else made[-1])  # NaN is not equal to itself
        tuples = []
        for values in zip(*made, strict=True):
            whole = list(self._empty)
            for (place, _, _), value in zip(self._fields, values, strict=True):
                whole[place] = value
            tuples.append(tuple(whole))
        return list(zip(*keys, strict=True)), tuples


def _combined(columns: list[tuple[NDArray[np.int64], int]]) -> NDArray[np.int64]:
    """One number for the numbers of several columns, each below its count."""
    numbers, count = columns[0]
    for codes, own in columns[1:]:
        if count * own > _MOST_NUMBERS * _MOST_NUMBERS:
            numbers, firsts = _dense(numbers)
            count = len(firsts)
        numbers, count = numbers * own + codes, count * own
    return numbers


def _dense(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers counted from 0 in the order in which they come, and the first row of each."""
    codes = pa.array(numbers).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    highest = np.maximum.accumulate(codes)  # a number comes first where it is the highest so far
    return codes, np.concatenate(([0], np.flatnonzero(highest[1:] != highest[:-1]) + 1))


def _narrowest(codes: NDArray[Any], count: int) -> NDArray[Any]:
    """The codes in as few bytes as can be: NumPy sorts short numbers without comparing them."""
    return codes.astype(np.uint8 if count <= 2**8 else np.uint16 if count <= 2**16 else np.uint32)


def _bits(array: pa.Array, kind: str) -> pa.Array:
    """Floats as the numbers of their bits, with one NaN: partitions are told apart by bits (spec: Scan Planning)."""
    stored, number = _BITS[kind]
    values = array.to_numpy(zero_copy_only=False) if not array.null_count else array.fill_null(0).to_numpy()
    values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
    mask = np.asarray(array.is_null()) if array.null_count else None
    return pa.array(values.view(number).view(stored.to_pandas_dtype()), stored, mask=mask)
