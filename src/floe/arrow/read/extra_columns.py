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

from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from floe.formats.arrow_arrays import constant_array
from floe.formats.arrow_conversion import make_converter
from floe.formats.arrow_types import arrow_schema
from floe.formats.file_columns import file_fields, find_columns
from floe.formats.projection import rows_without_columns
from floe.spec.schemas.column_projection import ColumnSource, FromFile, FromReader
from floe.spec.schemas.schema import Schema, SchemaField
from floe.spec.types import Field, StructType


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


def narrowing(has: Schema, wanted: Schema) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """What makes of batches of one schema those of another that is a part of it, at any depth and in any order.

    >>> from floe.spec.types import INT
    >>> has = Schema((Field(1, "st", StructType((Field(2, "a", INT), Field(3, "b", INT)))), Field(4, "c", INT)))
    >>> wanted = Schema((Field(1, "st", StructType((Field(2, "a", INT),))),))
    >>> rows = pa.RecordBatch.from_pylist([{"st": {"a": 1, "b": 2}, "c": 3}, {"st": None, "c": 4}], arrow_schema(has))
    >>> narrowing(has, wanted)(rows).to_pylist()
    [{'st': {'a': 1}}, {'st': None}]
    """
    if has is wanted:
        return _same
    stored, target = arrow_schema(has), arrow_schema(wanted)
    makers = [_maker(source, stored) for source in find_columns(wanted, file_fields(stored))]

    def narrow(batch: pa.RecordBatch) -> pa.RecordBatch:
        if not makers:
            return rows_without_columns(batch.num_rows)
        return pa.RecordBatch.from_arrays([make(batch) for make in makers], schema=target)

    return narrow


def _same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def _maker(source: ColumnSource, stored: pa.Schema) -> Callable[[pa.RecordBatch], pa.Array]:
    if isinstance(source, FromReader) and source.stored is not None:  # metadata columns are stored here like others
        source = source.stored
    if not isinstance(source, FromFile):
        type_ = source.field.type
        return lambda batch: constant_array(type_, None, batch.num_rows)
    place = source.position
    convert = make_converter(source, stored.field(place).type)
    return lambda batch: convert(batch.column(place))
