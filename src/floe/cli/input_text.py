"""CSV and JSON as Arrow batches: with the types of a table's columns where they are known, or with inferred ones.

What Arrow reads as a type on its own it reads; the rest (times with a zone, UUIDs, bytes, nested values in CSV) is read
as text, and converted as `floe.spec.values` does it. An empty field of a CSV file is null; `""` is an empty text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, islice
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from pyarrow import json as arrow_json

from floe.errors import CorruptFile, InvalidInput, InvalidValue
from floe.formats.arrow_types import arrow_schema, arrow_type
from floe.formats.arrow_values import to_array
from floe.formats.rows import rows_to_batch
from floe.spec.schemas.schema import Schema
from floe.spec.types import ListType, StructType, Type
from floe.spec.values import convert

__all__ = ["ReadStream", "TextOptions", "open_csv", "open_json_lines"]

_LOOKED_AT: Final = 64 * 2**10
_DELIMITERS: Final = (",", ";", "\t", "|")
_BLOCK: Final = 4 * 2**20
_ROWS: Final = 8192
_READ_BY_CSV: Final = frozenset(
    {"boolean", "int", "long", "float", "double", "decimal", "string", "date", "time", "timestamp", "timestamptz"}
)
_READ_BY_JSON: Final = frozenset({"boolean", "int", "long", "float", "double", "decimal", "string"})
_CAST: Final = frozenset({"date", "timestamp", "timestamptz"})
"""What Arrow reads from text."""

_TEXT_IN_JSON: Final = _CAST | {"time"}

_ZONE: Final = r"(Z|[+-]\d\d:?\d\d)$"


@dataclass(frozen=True)
class TextOptions:
    """How text is written: what stands between fields, what means null, and whether the first line has titles."""

    delimiter: str | None = None
    """None: the first lines tell."""

    nulls: tuple[str, ...] = ("",)
    titles: bool = True


Opened = tuple[pa.Schema, Iterator[pa.RecordBatch]]


def open_csv(name: str, stream: Any, columns: Schema | None, options: TextOptions) -> Opened:
    """The batches of a CSV file.

    >>> from floe.table.ddl import parse_columns
    >>> text = pa.BufferReader(b"id,ts" + bytes([10]) + b"1,2024-05-17T10:00:00Z")
    >>> _, batches = open_csv("a.csv", text, parse_columns("id int, ts timestamptz"), TextOptions())
    >>> next(batches).schema.types
    [DataType(int32), TimestampType(timestamp[us, tz=UTC])]
    """
    by_name = {} if columns is None else {field.name: field.type for field in columns.fields}
    ahead = _Ahead(stream)
    delimiter = options.delimiter or _guessed_delimiter(ahead.seen)
    if not options.titles and not by_name:
        raise InvalidInput("a file without titles does not name its columns", hint="name them with --schema")
    try:
        reader = csv.open_csv(
            pa.PythonFile(ahead, mode="r"),
            csv.ReadOptions(block_size=_BLOCK, column_names=None if options.titles else list(by_name)),
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
        raise _unreadable(error, name, known=columns is not None, delimiter=delimiter) from None
    texts = {name: type_ for name, type_ in by_name.items() if type_.kind not in _READ_BY_CSV}
    schema = _resolved(reader.schema, texts)
    return schema, _batches(name, reader, schema, texts, known=columns is not None, delimiter=delimiter)


def open_json_lines(name: str, stream: Any, columns: Schema | None, options: TextOptions) -> Opened:
    """The batches of a file with a JSON object on each line (or of one list of objects)."""
    by_name = {} if columns is None else {field.name: field.type for field in columns.fields}
    stream = _rows_of_list(name, _Ahead(stream))
    texts = {name: type_ for name, type_ in by_name.items() if type_.kind in _TEXT_IN_JSON}
    if columns is not None and not all(_json_can(type_) for name, type_ in by_name.items() if name not in texts):
        return _open_json_rows(name, stream, columns)
    read_as = {column: pa.string() if column in texts else arrow_type(type_) for column, type_ in by_name.items()}
    explicit = pa.schema(read_as.items()) if read_as else None
    try:
        reader = arrow_json.open_json(
            stream,
            arrow_json.ReadOptions(block_size=_BLOCK),
            arrow_json.ParseOptions(explicit_schema=explicit, newlines_in_values=True),
        )
    except pa.ArrowInvalid as error:
        raise _unreadable(error, name, known=columns is not None) from None
    schema = _resolved(reader.schema, texts)
    return schema, _batches(name, reader, schema, texts, known=columns is not None)


class ReadStream:
    """What pyarrow asks of a file of Python's that is read from its beginning to its end."""

    closed = False

    def readable(self) -> bool:
        """It can be read."""
        return True

    def seekable(self) -> bool:
        """Only forwards."""
        return False

    def writable(self) -> bool:
        """It cannot be written."""
        return False

    def close(self) -> None:
        """Take no more reads; the stream behind it stays open."""
        self.closed = True


class _Ahead(ReadStream):
    """A stream whose beginning can be looked at."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.seen: bytes = bytes(stream.read(_LOOKED_AT))
        self._rest = self.seen

    def read(self, size: int) -> bytes:
        if not self._rest:
            return bytes(self._stream.read(size))
        found, self._rest = self._rest[:size], self._rest[size:]
        return found


def _guessed_delimiter(text: bytes) -> str:
    """What stands between fields, by the first two lines: what both have as often, and most often; else a comma.

    >>> (
    ...     _guessed_delimiter(b"id;price" + bytes([10]) + b"1;2,50"),
    ...     _guessed_delimiter(b"id,note" + bytes([10]) + b"1,a|b"),
    ... )
    (';', ',')
    """
    lines = [re.sub(rb'"[^"]*"', b"", line) for line in text.splitlines()[:2]]
    counts = {one: {line.count(one.encode()) for line in lines} for one in _DELIMITERS}
    alike = {one: found.pop() for one, found in counts.items() if len(found) == 1}
    best = max(alike, key=lambda one: alike[one], default=",")
    return best if alike.get(best) else ","


def _rows_of_list(name: str, stream: _Ahead) -> Any:
    """The stream of objects; of a list of objects, each on a line, for which it is read as a whole."""
    if not stream.seen.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        return pa.PythonFile(stream, mode="r")
    try:
        rows = msgspec.json.decode(
            b"".join(iter(lambda: stream.read(_BLOCK), b"")).lstrip(b"\xef\xbb\xbf"), type=list[msgspec.Raw]
        )
    except msgspec.DecodeError as error:
        raise CorruptFile(f"the list is no JSON: {error}", file=name) from None
    for number, row in enumerate(rows, 1):
        if not bytes(row).lstrip().startswith(b"{"):
            raise CorruptFile(
                f"element {number} of the list is {bytes(row)[:40].decode(errors='replace')}, and no object",
                hint='rows are objects, as in [{"id": 1}, {"id": 2}]',
                file=name,
            )
    return pa.BufferReader(b"\n".join(msgspec.json.format(bytes(row), indent=-1) for row in rows))


def _resolved(schema: pa.Schema, texts: dict[str, Type]) -> pa.Schema:
    """The columns as they will be: texts of a type as that type, and those that have no value as texts."""

    def type_of(field: pa.Field) -> pa.DataType:
        if field.name in texts:
            return arrow_type(texts[field.name])
        return pa.string() if pa.types.is_null(field.type) else field.type

    return pa.schema([(field.name, type_of(field)) for field in schema])


def _batches(
    name: str, reader: Any, schema: pa.Schema, texts: dict[str, Type], *, known: bool, delimiter: str | None = None
) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except pa.ArrowInvalid as error:
            raise _unreadable(error, name, known=known, delimiter=delimiter) from None
        columns = [
            _from_text(texts[field.name], column, field.name, name)
            if field.name in texts
            else column.cast(schema.field(field.name).type)
            for field, column in zip(batch.schema, batch.columns, strict=True)
        ]
        yield pa.record_batch(columns, schema=schema)


def _from_text(type_: Type, column: pa.Array, name: str, file: str) -> pa.Array:
    if type_.kind in _CAST:
        return _moments(type_, column, name, file)
    read = _reader(type_)
    try:
        return to_array(type_, [None if text is None else read(text) for text in column.to_pylist()])
    except InvalidValue as error:
        raise error.with_context(column=name, file=file) from None


def _moments(type_: Type, column: pa.Array, name: str, file: str) -> pa.Array:
    """Texts as moments; one with a zone has to say which, and one without cannot have any."""
    wanted = type_.kind == "timestamptz"
    if type_.kind.startswith("timestamp"):
        wrong = pc.not_equal(pc.match_substring_regex(column, _ZONE), wanted)
        if pc.any(wrong).as_py():
            text = column.filter(pc.fill_null(wrong, False))[0].as_py()
            says = "says no zone; write 2024-05-17T10:00:00Z" if wanted else "says a zone, and a timestamp has none"
            raise InvalidValue(f"{text!r:.80} {says}", column=name, file=file)
    try:
        return column.cast(arrow_type(type_))
    except pa.ArrowInvalid as error:
        raise InvalidValue(str(error)[:200], column=name, file=file) from None


def _reader(type_: Type) -> Callable[[str], Any]:
    if not type_.is_nested:
        return lambda text: convert(type_, text)

    def read(text: str) -> Any:
        try:
            return convert(type_, json.loads(text, parse_float=Decimal))
        except json.JSONDecodeError as error:
            raise InvalidValue(f"{text!r:.80} is no JSON, as which nested values are written: {error}") from None

    return read


def _json_can(type_: Type) -> bool:
    """Whether Arrow's reader of JSON makes values of the type exactly."""
    if isinstance(type_, StructType | ListType):
        return all(_json_can(child.type) for child in type_.fields)
    return type_.kind in _READ_BY_JSON


def _open_json_rows(name: str, stream: Any, columns: Schema) -> Opened:
    """Row by row, for columns whose values JSON has no form for: texts and numbers mean exactly one value, or fail.

    Columns that the table has not get the type of their first values; whoever writes them says what becomes of them.
    """
    numbered = ((n, line) for n, line in enumerate(_lines(stream), 1) if line.strip())
    rows = (_json_row(name, number, line) for number, line in numbered)
    first = list(islice(rows, _ROWS))
    known = {field.name: field.type for field in columns.fields}
    others = list(dict.fromkeys(column for _, row in first for column in row if column not in known))
    try:
        added = {column: pa.array([_plain(row.get(column)) for _, row in first]).type for column in others}
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInput(f"the values of a column are of several types: {str(error)[:200]}", file=name) from None
    types = {column: pa.string() if pa.types.is_null(type_) else type_ for column, type_ in added.items()}
    schema = pa.schema([*arrow_schema(columns), *types.items()])

    def batches() -> Iterator[pa.RecordBatch]:
        block = first
        while block:
            yield _json_batch(name, block, columns, known, schema, types)
            block = list(islice(rows, _ROWS))

    return schema, batches()


def _json_row(name: str, number: int, line: bytes) -> tuple[int, dict[str, Any]]:
    try:
        return number, _DECODER.decode(line)
    except msgspec.DecodeError as error:
        raise CorruptFile(f"line {number} is no JSON object: {error}", file=name) from None


_DECODER: Final = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)


def _json_batch(
    name: str,
    rows: list[tuple[int, dict[str, Any]]],
    columns: Schema,
    known: dict[str, Type],
    schema: pa.Schema,
    added: dict[str, pa.DataType],
) -> pa.RecordBatch:
    converted = []
    for number, row in rows:
        values = {}
        for column, value in row.items():
            if column in known:
                try:
                    values[column] = None if value is None else convert(known[column], value)
                except InvalidValue as error:
                    raise error.with_context(line=number, column=column, file=name) from None
            elif column not in added:
                raise InvalidInput(f"line {number} is the first with a column {column!r:.80}", file=name)
        converted.append(values)
    arrays = rows_to_batch(columns, converted).columns
    for column, type_ in added.items():
        try:
            arrays.append(pa.array([_plain(row.get(column)) for _, row in rows], type_))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InvalidValue(str(error)[:200], column=column, file=name) from None
    return pa.record_batch(arrays, schema=schema)


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _lines(stream: Any) -> Iterator[bytes]:
    rest = b""
    while block := stream.read(_BLOCK):
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
    yield from chain([rest] if rest else [])


def _unreadable(
    error: Exception, name: str, *, known: bool, delimiter: str | None = None
) -> CorruptFile | InvalidInput:
    hint = "check the file" if known else "say what the columns are with --schema 'id bigint, name string, …'"
    if delimiter is not None and "columns, got" in str(error):
        hint = f"fields were cut at {delimiter!r}: say what stands between them with --delimiter, or check the file"
    return CorruptFile(f"the file cannot be read: {str(error)[:300]}", hint=hint, file=name)
