"""Batches split by partition, whole columns at a time (spec: Partitioning).

Each partition field gives a column of values, whose distinct ones are numbered; the numbers of all fields together
number the partitions of a batch. One sort of these numbers brings the rows of a partition together. Values become
Python objects once for each partition, never for a row.

>>> from floe.spec.partitioning.building import build_spec
>>> from floe.spec.types import Field, LONG
>>> schema = Schema((Field(1, "id", LONG),))
>>> splitter = Splitter(build_spec(schema, ["bucket(2, id)"]), schema)
>>> [(part.values, part.rows.column("id").to_pylist()) for part in splitter(pa.record_batch({"id": [1, 2, 3, 4]}))]
[((0,), [1, 2, 4]), ((1,), [3])]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from floe.errors import InvalidInput
from floe.formats.arrow_transforms import apply
from floe.formats.arrow_types import arrow_type
from floe.formats.arrow_values import to_values
from floe.formats.writers.sorting import nested_column
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec, check_writable
from floe.spec.partitioning.transforms import Void
from floe.spec.schemas.schema import Schema
from floe.spec.types import Type

__all__ = ["Part", "Splitter"]

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
        values = apply(field.transform, entry.field.type, nested_column(batch, entry, self._schema))
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
