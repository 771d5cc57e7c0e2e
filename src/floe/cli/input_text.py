"""CSV and JSON as Arrow batches, with the types of a table's columns, or with inferred types.

Arrow reads the types that it knows. The others (timestamps with a zone, UUIDs, bytes, nested values in CSV) are read as
text and converted as in `floe.spec.values`. An empty CSV field is null; `""` is an empty string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, json as arrow_json

from floe.errors import CorruptFile, InvalidInput, InvalidValue
from floe.formats.columns.arrays import to_array
from floe.formats.columns.arrow_types import arrow_schema, arrow_type
from floe.formats.rows import rows_to_batch
from floe.spec.schemas.schema import Schema
from floe.spec.types import ListType, StructType, Type
from floe.spec.values import convert

_PEEK_BYTES: Final = 64 * 2**10
_DELIMITERS: Final = (",", ";", "\t", "|")
_BLOCK_BYTES: Final = 4 * 2**20
_BATCH_ROWS: Final = 8192
_READ_BY_CSV: Final = frozenset(
    {"boolean", "int", "long", "float", "double", "decimal", "string", "date", "time", "timestamp", "timestamptz"}
)
_READ_BY_JSON: Final = frozenset({"boolean", "int", "long", "float", "double", "decimal", "string"})
_CAST_FROM_TEXT: Final = frozenset({"date", "timestamp", "timestamptz"})
"""The kinds of types that Arrow casts from strings."""

_TEXT_IN_JSON: Final = _CAST_FROM_TEXT | {"time"}

_ZONE: Final = r"(Z|[+-]\d\d:?\d\d)$"


@dataclass(frozen=True)
class TextOptions:
    """How CSV is written: the delimiter, the texts that mean null, and whether the first line names the columns."""

    delimiter: str | None = None
    """None: detected from the first lines."""

    nulls: tuple[str, ...] = ("",)
    header: bool = True


SchemaAndBatches = tuple[pa.Schema, Iterator[pa.RecordBatch]]


def open_csv(name: str, stream: Any, columns: Schema | None, options: TextOptions) -> SchemaAndBatches:
    """The schema and the batches of a CSV file.

    >>> from floe.sql.columns import parse_columns
    >>> text = pa.BufferReader(b"id,ts" + bytes([10]) + b"1,2024-05-17T10:00:00Z")
    >>> _, batches = open_csv("a.csv", text, parse_columns("id int, ts timestamptz"), TextOptions())
    >>> next(batches).schema.types
    [DataType(int32), TimestampType(timestamp[us, tz=UTC])]
    """
    by_name = {} if columns is None else {field.name: field.type for field in columns.fields}
    peeked = _PeekedStream(stream)
    delimiter = options.delimiter or _detect_delimiter(peeked.start)
    if not options.header and not by_name:
        raise InvalidInput("a file without a header does not name its columns", hint="name them with --schema")
    try:
        reader = csv.open_csv(
            pa.PythonFile(peeked, mode="r"),
            csv.ReadOptions(block_size=_BLOCK_BYTES, column_names=None if options.header else list(by_name)),
            csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            csv.ConvertOptions(
                column_types={
                    name: arrow_type(type_) if type_.kind in _READ_BY_CSV else pa.string()
                    for name, type_ in by_name.items()
                },
                null_values=list(options.nulls),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise _unreadable(error, name, has_types=columns is not None, delimiter=delimiter) from None
    texts = {name: type_ for name, type_ in by_name.items() if type_.kind not in _READ_BY_CSV}
    schema = _converted_schema(reader.schema, texts)
    return schema, _batches(name, reader, schema, texts, has_types=columns is not None, delimiter=delimiter)


def open_json_lines(name: str, stream: Any, columns: Schema | None, options: TextOptions) -> SchemaAndBatches:
    """The schema and the batches of a file with a JSON object on each line, or with one list of objects."""
    by_name = {} if columns is None else {field.name: field.type for field in columns.fields}
    stream = _lines_of_objects(name, _PeekedStream(stream))
    texts = {name: type_ for name, type_ in by_name.items() if type_.kind in _TEXT_IN_JSON}
    if columns is not None and not all(
        _is_exact_in_json(type_) for name, type_ in by_name.items() if name not in texts
    ):
        return _open_json_rows(name, stream, columns)
    read_as = {column: pa.string() if column in texts else arrow_type(type_) for column, type_ in by_name.items()}
    explicit = pa.schema(read_as.items()) if read_as else None
    try:
        reader = arrow_json.open_json(
            stream,
            arrow_json.ReadOptions(block_size=_BLOCK_BYTES),
            arrow_json.ParseOptions(explicit_schema=explicit, newlines_in_values=True),
        )
    except pa.ArrowInvalid as error:
        raise _unreadable(error, name, has_types=columns is not None) from None
    schema = _converted_schema(reader.schema, texts)
    return schema, _batches(name, reader, schema, texts, has_types=columns is not None)


class ForwardStream:
    """The methods that pyarrow needs of a Python stream that can only be read forwards."""

    closed = False

    def readable(self) -> bool:
        """Whether the stream can be read: always."""
        return True

    def seekable(self) -> bool:
        """Whether the position can be changed: never, so that pyarrow reads in order."""
        return False

    def writable(self) -> bool:
        """Whether the stream can be written to: never."""
        return False

    def close(self) -> None:
        """Refuse further reads; the underlying stream stays open."""
        self.closed = True


class _PeekedStream(ForwardStream):
    """A stream whose start can be looked at before it is read."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.start: bytes = bytes(stream.read(_PEEK_BYTES))
        self._unread = self.start

    def read(self, size: int) -> bytes:
        if not self._unread:
            return bytes(self._stream.read(size))
        data, self._unread = self._unread[:size], self._unread[size:]
        return data


def _detect_delimiter(text: bytes) -> str:
    """The delimiter that the first two lines have equally often, and most often; a comma if there is none.

    >>> (
    ...     _detect_delimiter(b"id;price" + bytes([10]) + b"1;2,50"),
    ...     _detect_delimiter(b"id,note" + bytes([10]) + b"1,a|b"),
    ... )
    (';', ',')
    """
    lines = [re.sub(rb'"[^"]*"', b"", line) for line in text.splitlines()[:2]]
    counts = {delimiter: {line.count(delimiter.encode()) for line in lines} for delimiter in _DELIMITERS}
    equal_counts = {delimiter: counted.pop() for delimiter, counted in counts.items() if len(counted) == 1}
    best = max(equal_counts, key=lambda delimiter: equal_counts[delimiter], default=",")
    return best if equal_counts.get(best) else ","


def _lines_of_objects(name: str, stream: _PeekedStream) -> Any:
    """The stream with an object on each line; one list of objects is read completely to bring it into that form."""
    if not stream.start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        return pa.PythonFile(stream, mode="r")
    try:
        rows = msgspec.json.decode(
            b"".join(iter(lambda: stream.read(_BLOCK_BYTES), b"")).lstrip(b"\xef\xbb\xbf"), type=list[msgspec.Raw]
        )
    except msgspec.DecodeError as error:
        raise CorruptFile(f"the list is not valid JSON: {error}", file=name) from None
    for number, row in enumerate(rows, 1):
        if not bytes(row).lstrip().startswith(b"{"):
            raise CorruptFile(
                f"element {number} of the list is not an object: {bytes(row)[:40].decode(errors='replace')}",
                hint='rows are objects, as in [{"id": 1}, {"id": 2}]',
                file=name,
            )
    return pa.BufferReader(b"\n".join(msgspec.json.format(bytes(row), indent=-1) for row in rows))


def _converted_schema(schema: pa.Schema, texts: dict[str, Type]) -> pa.Schema:
    """The schema after texts are converted to their types; columns without any value are strings."""

    def type_of(field: pa.Field) -> pa.DataType:
        if field.name in texts:
            return arrow_type(texts[field.name])
        return pa.string() if pa.types.is_null(field.type) else field.type

    return pa.schema([(field.name, type_of(field)) for field in schema])


def _batches(
    name: str, reader: Any, schema: pa.Schema, texts: dict[str, Type], *, has_types: bool, delimiter: str | None = None
) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except pa.ArrowInvalid as error:
            raise _unreadable(error, name, has_types=has_types, delimiter=delimiter) from None
        columns = [
            _from_text(texts[field.name], column, field.name, name)
            if field.name in texts
            else column.cast(schema.field(field.name).type)
            for field, column in zip(batch.schema, batch.columns, strict=True)
        ]
        yield pa.record_batch(columns, schema=schema)


def _from_text(type_: Type, column: pa.Array, name: str, file: str) -> pa.Array:
    if type_.kind in _CAST_FROM_TEXT:
        return _cast_text(type_, column, name, file)
    parse = _parser(type_)
    try:
        return to_array(type_, [None if text is None else parse(text) for text in column.to_pylist()])
    except InvalidValue as error:
        raise error.with_context(column=name, file=file) from None


def _cast_text(type_: Type, column: pa.Array, name: str, file: str) -> pa.Array:
    """Dates and timestamps; a timestamp with a time zone must have one in its text, and others must not."""
    needs_zone = type_.kind == "timestamptz"
    if type_.kind.startswith("timestamp"):
        wrong = pc.not_equal(pc.match_substring_regex(column, _ZONE), needs_zone)
        if pc.any(wrong).as_py():
            text = column.filter(pc.fill_null(wrong, False))[0].as_py()
            problem = "has no time zone" if needs_zone else "has a time zone, and the column is a timestamp without one"
            hint = "write it as 2024-05-17T10:00:00Z" if needs_zone else None
            raise InvalidValue(f"{text!r:.80} {problem}", hint=hint, column=name, file=file)
    try:
        return column.cast(arrow_type(type_))
    except pa.ArrowInvalid as error:
        raise InvalidValue(str(error)[:200], column=name, file=file) from None


def _parser(type_: Type) -> Callable[[str], Any]:
    if not type_.is_nested:
        return lambda text: convert(type_, text)

    def parse(text: str) -> Any:
        try:
            return convert(type_, json.loads(text, parse_float=Decimal))
        except json.JSONDecodeError as error:
            raise InvalidValue(f"{text!r:.80} is not valid JSON, which nested values must be: {error}") from None

    return parse


def _is_exact_in_json(type_: Type) -> bool:
    """Whether Arrow's JSON reader reads values of the type exactly."""
    if isinstance(type_, StructType | ListType):
        return all(_is_exact_in_json(child.type) for child in type_.fields)
    return type_.kind in _READ_BY_JSON


def _open_json_rows(name: str, stream: Any, columns: Schema) -> SchemaAndBatches:
    """Read row by row, for columns whose types Arrow's JSON reader does not read exactly.

    Columns that the table does not have get the type of their first values; the write decides about them.
    """
    numbered = ((n, line) for n, line in enumerate(_lines(stream), 1) if line.strip())
    rows = (_json_row(name, number, line) for number, line in numbered)
    first = list(islice(rows, _BATCH_ROWS))
    types = {field.name: field.type for field in columns.fields}
    new_columns = list(dict.fromkeys(column for _, row in first for column in row if column not in types))
    try:
        inferred = {column: pa.array([_to_float(row.get(column)) for _, row in first]).type for column in new_columns}
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInput(f"the values of a column have several types: {str(error)[:200]}", file=name) from None
    added = {column: pa.string() if pa.types.is_null(type_) else type_ for column, type_ in inferred.items()}
    schema = pa.schema([*arrow_schema(columns), *added.items()])

    def batches() -> Iterator[pa.RecordBatch]:
        block = first
        while block:
            yield _json_batch(name, block, columns, types, schema, added)
            block = list(islice(rows, _BATCH_ROWS))

    return schema, batches()


def _json_row(name: str, number: int, line: bytes) -> tuple[int, dict[str, Any]]:
    try:
        return number, _DECODER.decode(line)
    except msgspec.DecodeError as error:
        raise CorruptFile(f"line {number} is not a JSON object: {error}", file=name) from None


_DECODER: Final = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)


def _json_batch(
    name: str,
    rows: list[tuple[int, dict[str, Any]]],
    columns: Schema,
    types: dict[str, Type],
    schema: pa.Schema,
    added: dict[str, pa.DataType],
) -> pa.RecordBatch:
    converted = []
    for number, row in rows:
        values = {}
        for column, value in row.items():
            if column in types:
                try:
                    values[column] = None if value is None else convert(types[column], value)
                except InvalidValue as error:
                    raise error.with_context(line=number, column=column, file=name) from None
            elif column not in added:
                raise InvalidInput(
                    f"line {number} has a column {column!r:.80} that the first rows do not have", file=name
                )
        converted.append(values)
    arrays = rows_to_batch(columns, converted).columns
    for column, type_ in added.items():
        try:
            arrays.append(pa.array([_to_float(row.get(column)) for _, row in rows], type_))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InvalidValue(str(error)[:200], column=column, file=name) from None
    return pa.record_batch(arrays, schema=schema)


def _to_float(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _lines(stream: Any) -> Iterator[bytes]:
    incomplete = b""
    while block := stream.read(_BLOCK_BYTES):
        *lines, incomplete = (incomplete + block).split(b"\n")
        yield from lines
    if incomplete:
        yield incomplete


def _unreadable(
    error: Exception, name: str, *, has_types: bool, delimiter: str | None = None
) -> CorruptFile | InvalidInput:
    hint = "check the file" if has_types else "give the columns with --schema 'id bigint, name string, …'"
    if delimiter is not None and "columns, got" in str(error):
        hint = f"the delimiter is taken to be {delimiter!r}: give another with --delimiter, or check the file"
    return CorruptFile(f"the file cannot be read: {str(error)[:300]}", hint=hint, file=name)
