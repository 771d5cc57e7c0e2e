"""Columns that a reader needs beyond those that were asked for: read along, found by id, and left out in the end.

The keys of equality deletes may be columns that are not asked for, fields of a struct of which other fields are, or
columns that the table has dropped since, whose names others may have now. So they are added by id, under names that no
column has.

>>> from floe.spec.types import INT
>>> wanted = Schema((Field(1, "st", StructType((Field(2, "a", INT),))), Field(4, "c", INT)))
>>> key = Schema((Field(1, "st", StructType((Field(3, "b", INT),))),)).entry(3)
>>> print(with_columns(wanted, [key]))
table {
  1: st: optional struct<2: a: optional int, 3: floe-3: optional int>
  4: c: optional int
}
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.formats.arrow_types import arrow_type
from floe.formats.arrow_values import struct_array
from floe.spec.schemas.schema import Schema, SchemaField
from floe.spec.types import Field, StructType

__all__ = ["column_at", "narrowed", "with_columns"]


def with_columns(schema: Schema, added: Iterable[SchemaField]) -> Schema:
    """The schema with some more fields, at the end of the structs that hold them; those that it has stay as they are.

    Fields that are added are optional: a file that was written without them is fine.
    """
    fields = schema.fields
    for entry in added:
        fields = _with_field(fields, (*entry.ancestors, entry.field))
    return schema if fields is schema.fields else Schema(fields)


def _with_field(fields: tuple[Field, ...], chain: tuple[Field, ...]) -> tuple[Field, ...]:
    """The fields with that at the end of a chain of structs added."""
    first, *rest = chain
    for place, field in enumerate(fields):
        if field.id != first.id:
            continue
        if not rest or not isinstance(field.type, StructType):
            return fields
        inside = _with_field(field.type.fields, tuple(rest))
        if inside is field.type.fields:
            return fields
        return (*fields[:place], replace(field, type=StructType(inside)), *fields[place + 1 :])
    return (*fields, _alone(chain))


def _alone(chain: tuple[Field, ...]) -> Field:
    """The field at the end of a chain, with nothing else in the structs around it."""
    field: Field | None = None
    for one in reversed(chain):
        type_ = one.type if field is None else StructType((field,))
        field = replace(one, name=f"floe-{one.id}", type=type_, required=False)
    assert field is not None
    return field


def column_at(schema: Schema, batch: pa.RecordBatch, field_id: int) -> pa.Array:
    """The column of a batch that has a field's values, whatever it is called; null where a struct around it is.

    >>> from floe.spec.types import INT
    >>> schema = Schema((Field(1, "st", StructType((Field(2, "a", INT),))),))
    >>> column_at(schema, pa.record_batch({"st": [{"a": 1}, None]}), 2).to_pylist()
    [1, None]
    """
    entry = schema.entry(field_id)
    fields, array = schema.fields, None
    for one in (*entry.ancestors, entry.field):
        place = next(n for n, field in enumerate(fields) if field.id == one.id)
        array = batch.column(place) if array is None else pc.struct_field(array, [place])
        fields = one.type.fields
    return array


def narrowed(array: pa.Array, has: Field, wanted: Field) -> pa.Array:
    """A column as it was wanted, without what was added to its structs.

    >>> from floe.spec.types import INT
    >>> has = Field(1, "st", StructType((Field(2, "a", INT), Field(3, "b", INT))))
    >>> wanted = Field(1, "st", StructType((Field(2, "a", INT),)))
    >>> narrowed(pa.array([{"a": 1, "b": 2}, None], arrow_type(has.type)), has, wanted).to_pylist()
    [{'a': 1}, None]
    """
    if has is wanted or has == wanted:
        return array
    known = np.asarray(array.is_valid()) if array.null_count else None
    # what was wanted comes first, in its order, and what was added behind it
    pairs = zip(has.type.fields, wanted.type.fields, strict=False)
    children = [narrowed(array.field(place), *pair) for place, pair in enumerate(pairs)]
    return struct_array(arrow_type(wanted.type), children, len(array), known)
