"""Columns that a reader needs in addition to the selected ones: added to the read schema, and projected away.

The key columns of equality deletes may not be selected; they may be fields of a struct of which other fields are
selected, or columns that were dropped since and whose names are used by other columns now. They are therefore added by
field id, under names that no column has.

>>> from floe.spec.types import INT
>>> selected = Schema((Field(1, "st", StructType((Field(2, "a", INT),))), Field(4, "c", INT)))
>>> key = Schema((Field(1, "st", StructType((Field(3, "b", INT),))),)).entry(3)
>>> print(with_columns(selected, [key]))
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

from floe.formats.columns.arrays import constant_array
from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.columns.conversion import make_converter
from floe.formats.columns.file_columns import file_fields, resolve_file_columns
from floe.formats.columns.projection import rows_without_columns
from floe.spec.schemas.column_projection import ColumnSource, FromFile, FromReader
from floe.spec.schemas.schema import Schema, SchemaField
from floe.spec.types import Field, StructType


def with_columns(schema: Schema, added: Iterable[SchemaField]) -> Schema:
    """The schema with additional fields, each at the end of its struct; fields that the schema has are not added.

    Added fields are optional: files may have been written without them.
    """
    fields = schema.fields
    for entry in added:
        fields = _with_field(fields, (*entry.ancestors, entry.field))
    return schema if fields is schema.fields else Schema(fields)


def _with_field(fields: tuple[Field, ...], chain: tuple[Field, ...]) -> tuple[Field, ...]:
    """The fields with one more: the last of a chain of structs and a field."""
    first, *nested = chain
    for index, field in enumerate(fields):
        if field.id != first.id:
            continue
        if not nested or not isinstance(field.type, StructType):
            return fields
        inside = _with_field(field.type.fields, tuple(nested))
        if inside is field.type.fields:
            return fields
        return (*fields[:index], replace(field, type=StructType(inside)), *fields[index + 1 :])
    return (*fields, _single_field(chain))


def _single_field(chain: tuple[Field, ...]) -> Field:
    """The first struct of a chain, with no fields but those of the chain."""
    field: Field | None = None
    for ancestor in reversed(chain):
        type_ = ancestor.type if field is None else StructType((field,))
        field = replace(ancestor, name=f"floe-{ancestor.id}", type=type_, required=False)
    assert field is not None
    return field


def column_by_id(schema: Schema, batch: pa.RecordBatch, field_id: int) -> pa.Array:
    """The column of a batch with a field id, whatever its name; null where a struct around it is null.

    >>> from floe.spec.types import INT
    >>> schema = Schema((Field(1, "st", StructType((Field(2, "a", INT),))),))
    >>> column_by_id(schema, pa.record_batch({"st": [{"a": 1}, None]}), 2).to_pylist()
    [1, None]
    """
    entry = schema.entry(field_id)
    fields, array = schema.fields, None
    for step in (*entry.ancestors, entry.field):
        index = next(n for n, field in enumerate(fields) if field.id == step.id)
        array = batch.column(index) if array is None else pc.struct_field(array, [index])
        fields = step.type.fields
    return array


def make_projector(stored_schema: Schema, selected: Schema) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A function that projects batches of one schema to a subset of its columns, at any depth and in any order.

    >>> from floe.spec.types import INT
    >>> stored = Schema((Field(1, "st", StructType((Field(2, "a", INT), Field(3, "b", INT)))), Field(4, "c", INT)))
    >>> selected = Schema((Field(1, "st", StructType((Field(2, "a", INT),))),))
    >>> data = [{"st": {"a": 1, "b": 2}, "c": 3}, {"st": None, "c": 4}]
    >>> rows = pa.RecordBatch.from_pylist(data, arrow_schema(stored))
    >>> make_projector(stored, selected)(rows).to_pylist()
    [{'st': {'a': 1}}, {'st': None}]
    """
    if stored_schema is selected:
        return _identity
    stored, target = arrow_schema(stored_schema), arrow_schema(selected)
    readers = [_column_reader(source, stored) for source in resolve_file_columns(selected, file_fields(stored))]

    def project(batch: pa.RecordBatch) -> pa.RecordBatch:
        if not readers:
            return rows_without_columns(batch.num_rows)
        return pa.RecordBatch.from_arrays([read(batch) for read in readers], schema=target)

    return project


def _identity(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def _column_reader(source: ColumnSource, stored: pa.Schema) -> Callable[[pa.RecordBatch], pa.Array]:
    if isinstance(source, FromReader) and source.stored is not None:  # batches store metadata columns like others
        source = source.stored
    if not isinstance(source, FromFile):
        type_ = source.field.type
        return lambda batch: constant_array(type_, None, batch.num_rows)
    index = source.position
    convert = make_converter(source, stored.field(index).type)
    return lambda batch: convert(batch.column(index))
