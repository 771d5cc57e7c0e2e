"""Batches that somebody wants to write, brought to the columns and types of a schema, by name and at any depth.

Columns may come in any order and in any Arrow type that holds values of the schema's exactly: large and view layouts,
dictionaries, narrower numbers, other time zones. A column that is left out is filled with its write default, or with
null (spec: Default values).

>>> from floe.spec.types import Field, LONG, STRING
>>> schema = Schema((Field(1, "id", LONG, required=True), Field(2, "note", STRING, write_default="none")))
>>> Conformer(schema)(pa.record_batch({"id": pa.array([7], pa.int16())})).to_pylist()
[{'id': 7, 'note': 'none'}]
>>> Conformer(schema)(pa.record_batch({"idd": [7]}))
Traceback (most recent call last):
floe.errors.InvalidSchema: the data has a column that the schema has not (column: idd); its columns are id, note
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa

from floe.errors import CorruptFile, InvalidSchema, InvalidValue
from floe.formats.arrow_conversion import converter
from floe.formats.arrow_types import arrow_schema
from floe.formats.arrow_values import constant_array
from floe.formats.file_columns import file_fields, find_columns
from floe.spec.schemas.column_resolution import ColumnSource, FromFile, FromReader, SameForAll
from floe.spec.schemas.file_fields import FileField
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_fields import with_children
from floe.spec.types import TIMESTAMP, TIMESTAMPTZ, Field, Type

__all__ = ["Conformer"]

_Maker = Callable[[pa.RecordBatch], pa.Array]

_NO_NULLS = "leave no null there, or make the column optional"

_COARSER: dict[tuple[str, str], Type] = {
    ("timestamp_ns", "timestamp"): TIMESTAMP,
    ("timestamptz_ns", "timestamptz"): TIMESTAMPTZ,
    ("timestamp_ns", "timestamptz"): TIMESTAMP,
    ("timestamptz_ns", "timestamp"): TIMESTAMPTZ,
}
"""Nanoseconds, which pandas gives by default, are taken as microseconds where they are whole ones."""


class Conformer:
    """Makes batches of a schema; what it needs to know of the data's own schema is worked out once."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.arrow_schema = arrow_schema(schema)
        self._fields = tuple(map(_filled_when_written, schema.fields))
        self._compiled: tuple[pa.Schema, list[_Maker]] | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the columns and types of the schema."""
        if batch.schema.equals(self.arrow_schema):
            self._check_required(batch)
            return batch
        try:
            arrays = [make(batch) for make in self._makers(batch.schema)]
        except CorruptFile as error:
            hint = _NO_NULLS if "null in a required" in error.message else None
            raise InvalidValue(_about_data(error.message), hint=hint, **error.context) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema) if arrays else batch

    def _check_required(self, batch: pa.RecordBatch) -> None:
        for place, field in enumerate(self.schema.fields):
            if field.required and batch.column(place).null_count:
                raise InvalidValue("the data has null in a required column", hint=_NO_NULLS, column=field.name)

    def _makers(self, stored: pa.Schema) -> list[_Maker]:
        if self._compiled is None or not self._compiled[0].equals(stored, check_metadata=False):
            self._compiled = (stored, self._compile(stored))
        return self._compiled[1]

    def _compile(self, stored: pa.Schema) -> list[_Maker]:
        columns = _numbered(file_fields(stored), self.schema.fields, ())
        try:
            sources = find_columns(Schema(self._fields), columns)
        except CorruptFile as error:
            raise InvalidSchema(_about_data(error.message), **error.context) from None
        return [_maker(source, stored) for source in sources]


def _about_data(message: str) -> str:
    """What reading would say of a file, said of the data at hand."""
    return message.replace("the file", "the data").replace("be read as", "be written as").replace("stores", "has")


def _filled_when_written(field: Field) -> Field:
    """The field with its write default where reading looks for the initial one."""
    children = tuple(map(_filled_when_written, field.type.fields))
    type_ = with_children(field.type, children) if children else field.type
    return replace(field, type=type_, initial_default=field.write_default)


def _numbered(columns: Iterable[FileField], fields: tuple[Field, ...], path: tuple[str, ...]) -> list[FileField]:
    """The columns with the ids that the fields of the same names have."""
    by_name = {field.name: field for field in fields}
    found: list[FileField] = []
    for column in columns:
        field = by_name.get(column.name)
        if field is None:
            raise InvalidSchema(
                "the data has a column that the schema has not",
                hint=f"its columns are {', '.join(list(by_name)[:20])}",
                column=".".join((*path, column.name)),
            )
        found.append(_numbered_column(column, field, path))
    return found


def _numbered_column(column: FileField, field: Field, path: tuple[str, ...]) -> FileField:
    inside = (*path, field.name)
    if column.kind == field.type.kind and column.kind == "struct":
        return replace(column, id=field.id, children=tuple(_numbered(column.children, field.type.fields, inside)))
    if column.kind == field.type.kind and column.children:
        pairs = zip(column.children, field.type.fields, strict=True)
        return replace(column, id=field.id, children=tuple(_numbered_column(c, f, inside) for c, f in pairs))
    coarser = _COARSER.get((column.kind, field.type.kind))
    if coarser is not None:
        return replace(column, id=field.id, kind=coarser.kind, stored=coarser)
    return replace(column, id=field.id)


def _maker(source: ColumnSource, stored: pa.Schema) -> _Maker:
    if isinstance(source, FromReader) and source.stored is not None:  # row lineage, which files may store
        source = source.stored
    if not isinstance(source, FromFile):
        type_, value = source.field.type, source.value if isinstance(source, SameForAll) else None
        return lambda batch: constant_array(type_, value, batch.num_rows)
    place = source.position
    convert = converter(source, stored.field(place).type)
    return lambda batch: convert(batch.column(place))
