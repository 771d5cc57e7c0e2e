"""Rows of Parquet files, read with PyArrow by following what `resolve_columns` says, in the corpus's canonical form."""

import json
import uuid

import pyarrow as pa
import pyarrow.parquet as pq

from floe.spec import types as t, values
from floe.spec.schemas.column_projection import ConstantColumn, resolve_columns
from floe.spec.schemas.name_mapping import FileField
from floe.spec.schemas.promotion import promote_value
from floe.spec.types import DecimalType, FixedType
from floe.spec.values import civil_time

_SIMPLE = {
    pa.bool_(): t.BOOLEAN, pa.int8(): t.INT, pa.int16(): t.INT, pa.int32(): t.INT, pa.int64(): t.LONG,
    pa.float32(): t.FLOAT, pa.float64(): t.DOUBLE, pa.string(): t.STRING, pa.binary(): t.BINARY, pa.date32(): t.DATE,
    pa.timestamp("us"): t.TIMESTAMP, pa.timestamp("us", "UTC"): t.TIMESTAMPTZ, pa.uuid(): t.UUID,
}  # fmt: skip


def file_field(field):
    """The column of a file that an Arrow field describes."""
    field_id = (field.metadata or {}).get(b"PARQUET:field_id")
    field_id = None if field_id is None else int(field_id)
    type_ = field.type
    if pa.types.is_struct(type_):
        return FileField(field.name, "struct", None, field_id, tuple(map(file_field, type_)))
    if pa.types.is_list(type_):
        return FileField(field.name, "list", None, field_id, (file_field(type_.value_field),))
    if pa.types.is_map(type_):
        return FileField(field.name, "map", None, field_id, (file_field(type_.key_field), file_field(type_.item_field)))
    if pa.types.is_decimal(type_):
        stored = DecimalType(type_.precision, type_.scale)
    elif pa.types.is_fixed_size_binary(type_):
        stored = FixedType(type_.byte_width)
    else:
        stored = _SIMPLE[type_]
    return FileField(field.name, stored.kind, stored, field_id)


def read_rows(path, schema, **options):
    """The rows of a file as lists of values in the order of the schema's columns."""
    table = pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read()
    sources = resolve_columns(schema, map(file_field, table.schema), **options)
    return [[_value(source, row) for source in sources] for row in table.to_pylist(maps_as_pydicts=None)]


def _value(source, holder):
    if isinstance(source, ConstantColumn):
        return source.value
    return _inside(source, holder[source.column.name])


def _inside(source, value):
    if isinstance(source, ConstantColumn):
        return source.value
    if value is None:
        return None
    if source.column.kind == "struct":
        return {child.field.name: _value(child, value) for child in source.children}
    if source.column.kind == "list":
        return [_inside(source.children[0], item) for item in value]
    if source.column.kind == "map":
        key, item = source.children
        return [(_inside(key, k), _inside(item, v)) for k, v in value]
    if source.conversion == "reinterpret":
        if source.field.type == t.UUID:
            return uuid.UUID(bytes=value)
        return values.convert(source.column.stored, value)
    return promote_value(source.column.stored, source.field.type, values.convert(source.column.stored, value))


def canonical(schema, rows):
    """The rows as the corpus has them: sorted JSON texts."""
    return sorted(
        json.dumps(
            [_canonical(field.type, value) for field, value in zip(schema.fields, row, strict=True)],
            separators=(",", ":"),
            sort_keys=True,
        )
        for row in rows
    )


def _canonical(type_, value):
    if value is None or type_.kind in ("boolean", "string"):
        return value
    if type_.kind == "struct":
        return [_canonical(child.type, value[child.name]) for child in type_.fields]
    if type_.kind == "list":
        return [_canonical(type_.element, item) for item in value]
    if type_.kind == "map":
        pairs = [[_canonical(type_.key, k), _canonical(type_.value, v)] for k, v in values.map_items(value)]
        return sorted(pairs, key=json.dumps)
    return _CANONICAL[type_.kind](value)


def _moment(suffix):
    def text(value):
        whole, micros = divmod(value, civil_time.MICROS)
        return f"{civil_time.timestamp_to_text(whole, 1).split('.')[0]}.{micros:06d}{suffix}"

    return text


def _number(value):
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))


_CANONICAL = {
    "int": str,
    "long": str,
    "float": _number,
    "double": _number,
    "decimal": lambda value: f"{value:f}",
    "date": civil_time.date_to_text,
    "timestamp": _moment(""),
    "timestamptz": _moment("+00:00"),
    "uuid": str,
    "fixed": bytes.hex,
    "binary": bytes.hex,
}
