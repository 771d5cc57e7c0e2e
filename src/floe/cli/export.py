"""Rows for other programs: CSV, JSON, JSON lines and Parquet, written batch by batch.

| type | CSV | JSON |
|---|---|---|
| null | empty; an empty string is `""` | `null` |
| numbers, booleans | numbers, `true`, `false` | the same, decimals with all digits; `"NaN"`, `"Infinity"` |
| dates, times, timestamps | ISO 8601, with `Z` if they have a time zone | the same, as a string |
| uuid | text | string |
| bytes | hexadecimal digits | hexadecimal digits (spec: JSON single-value serialization) |
| struct, list, map, variant | JSON | objects and lists; a map without string keys is a list of keys and values |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pyarrow.parquet import ParquetWriter

from floe.formats.columns.arrays import to_values
from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.columns.variants import decode_variant
from floe.spec.schemas.schema import Schema
from floe.spec.types import ListType, MapType, StructType, Type
from floe.spec.values import map_items, to_text

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")
_TIMESTAMPS: Final = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_TEXTS: Final = frozenset({"date", "time", "uuid", "geometry", "geography"}) | _TIMESTAMPS
_BYTES: Final = frozenset({"binary", "fixed"})
_PLAIN: Final = frozenset({"boolean", "int", "long", "string", "decimal"})
_WRITTEN_BY_ARROW: Final = _PLAIN | {"float", "double", "date"}

Sink = BinaryIO
Exporter = Callable[[Schema, Iterable[pa.RecordBatch], Sink], int]


def export_csv(schema: Schema, batches: Iterable[pa.RecordBatch], sink: Sink) -> int:
    """Write rows as CSV with a header; returns the number of rows.

    >>> import io
    >>> from floe.sql.columns import parse_columns
    >>> sink = io.BytesIO()
    >>> rows = pa.record_batch({"id": [1, 2], "tags": [["a"], None]})
    >>> export_csv(parse_columns("id bigint, tags array<string>"), [rows], sink)
    2
    >>> sink.getvalue().decode().splitlines()
    ['"id","tags"', '1,"[""a""]"', '2,']
    """
    names = [field.name for field in schema.fields]
    count = 0
    sink.write(_csv(pa.table([pa.array([], pa.string())] * len(names), names), header=True))
    for batch in batches:
        columns = [_csv_column(field.type, batch.column(n)) for n, field in enumerate(schema.fields)]
        sink.write(_csv(pa.table(columns, names), header=False))
        sink.flush()
        count += batch.num_rows
    return count


def export_json_lines(schema: Schema, batches: Iterable[pa.RecordBatch], sink: Sink) -> int:
    """Write rows as JSON objects, one on each line; returns the number of rows."""
    count = 0
    for batch in batches:
        sink.write(_ENCODER.encode_lines(_rows(schema, batch)))
        sink.flush()
        count += batch.num_rows
    return count


def export_json(schema: Schema, batches: Iterable[pa.RecordBatch], sink: Sink) -> int:
    """Write rows as one list of JSON objects; returns the number of rows."""
    count = 0
    sink.write(b"[")
    for batch in batches:
        for row in _rows(schema, batch):
            sink.write((b",\n" if count else b"\n") + _ENCODER.encode(row))
            count += 1
        sink.flush()
    sink.write(b"\n]\n" if count else b"]\n")
    return count


def export_parquet(schema: Schema, batches: Iterable[pa.RecordBatch], sink: Sink) -> int:
    """Write rows as one Parquet file; returns the number of rows."""
    count = 0
    with ParquetWriter(sink, arrow_schema(schema), compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


EXPORTERS: Final[dict[str, Exporter]] = {
    "csv": export_csv,
    "json": export_json,
    "jsonl": export_json_lines,
    "parquet": export_parquet,
}
"""The function that writes each format."""


def _csv(table: pa.Table, *, header: bool) -> bytes:
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink, csv.WriteOptions(include_header=header))
    return bytes(sink.getvalue())


def _csv_column(type_: Type, array: pa.Array) -> pa.Array:
    if type_.kind in _WRITTEN_BY_ARROW:
        return array
    if type_.kind in _TIMESTAMPS or type_.kind == "time":
        return _timestamp_texts(array)
    if type_.kind in _BYTES:
        texts = [None if value is None else value.hex() for value in to_values(type_, array)]
    elif type_.kind in _TEXTS:
        texts = [None if value is None else to_text(type_, value) for value in to_values(type_, array)]
    else:
        values = _json_values(type_, to_values(type_, array))
        texts = [None if value is None else _ENCODER.encode(value).decode() for value in values]
    return pa.array(texts, pa.string())


def _timestamp_texts(array: pa.Array) -> pa.Array:
    """Times and timestamps as ISO 8601, without a fraction of a second that is zero."""
    text = pc.replace_substring(pc.cast(array, pa.string()), " ", "T", max_replacements=1)
    return pc.replace_substring_regex(text, r"\.0+(Z?)$", r"\1")


def _rows(schema: Schema, batch: pa.RecordBatch) -> list[dict[str, Any]]:
    names = [field.name for field in schema.fields]
    columns = [_json_column(field.type, batch.column(n)) for n, field in enumerate(schema.fields)]
    if not columns:
        return [{} for _ in range(batch.num_rows)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _json_column(type_: Type, array: pa.Array) -> Sequence[Any]:
    if type_.kind in _PLAIN:
        return list(array.to_pylist())
    if type_.kind == "date":
        return list(pc.cast(array, pa.string()).to_pylist())
    if type_.kind in _TIMESTAMPS:
        return list(_timestamp_texts(array).to_pylist())
    return _json_values(type_, to_values(type_, array))


def _json_values(type_: Type, values: Sequence[Any]) -> list[Any]:
    return [None if value is None else _json_value(type_, value) for value in values]


def _json_value(type_: Type, value: Any) -> Any:
    if value is None or type_.kind in _PLAIN:
        return value
    if type_.kind in _TIMESTAMPS:
        return to_text(type_, value).replace("+00:00", "Z")
    if type_.kind in ("float", "double"):
        # by its text, as the double of a float has digits that the float does not have
        return float(to_text(type_, value)) if math.isfinite(value) else to_text(type_, value)
    if type_.kind in _BYTES:
        return value.hex()
    if type_.kind == "variant":
        return decode_variant(value)
    if isinstance(type_, StructType):
        return {field.name: _json_value(field.type, value.get(field.name)) for field in type_.fields}
    if isinstance(type_, ListType):
        return _json_values(type_.element, value)
    if isinstance(type_, MapType):
        pairs = [(_json_value(type_.key, k), _json_value(type_.value, v)) for k, v in map_items(value)]
        if type_.key.kind == "string":
            return dict(pairs)
        return [{"key": key, "value": item} for key, item in pairs]
    return to_text(type_, value)
