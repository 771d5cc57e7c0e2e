"""Rows put in a sort order, whole columns at a time (spec: Sorting).

Keys are transforms of columns, nulls come first or last as each field says, and floats have the spec's order: `-0.0`
before `0.0`, NaN above everything.

>>> from floe.spec.sorting import build_order
>>> from floe.spec.types import DOUBLE, Field
>>> schema = Schema((Field(1, "x", DOUBLE),))
>>> rows = pa.record_batch({"x": [1.0, float("nan"), None, -0.0]})
>>> sort_batch(rows, build_order(schema, ["x desc"]), schema).column("x").to_pylist()
[nan, 1.0, -0.0, None]
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.formats.arrow_transforms import apply
from floe.spec.schemas.schema import Schema, SchemaField
from floe.spec.sorting import NullOrder, SortDirection, SortField, SortOrder

__all__ = ["can_sort", "nested_column", "sort_batch"]

_FLOAT_BITS = {"float": (np.int32, np.int32(2**31 - 1)), "double": (np.int64, np.int64(2**63 - 1))}


def can_sort(order: SortOrder) -> bool:
    """Whether rows can be put in an order: it has steps, and every transform is known.

    >>> from floe.spec.sorting import UNSORTED
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
    key = apply(field.transform, source, nested_column(batch, entry, schema))
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
