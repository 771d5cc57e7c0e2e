"""Rows as an aligned table, or one record for each row, printed while they are read.

The first rows decide the widths of the columns, so that printing starts at once. On a terminal the longest texts are
cut until lines fit; where that would leave too little of them, each row is printed as a record, one line for each
column. Numbers and timestamps are never cut.

Values are printed as in SQL results: `NULL`, `2024-05-17 10:00:00Z`, `{city: "Rome", zip: null}`. The string "NULL" is
quoted to tell it from a null, and so are strings within nested values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from time import monotonic
from typing import Any, Final

import pyarrow as pa

from floe.errors import CorruptFile
from floe.formats.columns.arrays import to_values
from floe.formats.columns.variants import decode_variant
from floe.show.terminal import GAP, PLAIN, Paint, cut, escape_controls, fit_widths, pad, text_width
from floe.spec.schemas.schema import Schema
from floe.spec.types import ListType, MapType, StructType, Type
from floe.spec.values import map_items, to_text
from floe.sql.printer import name_text

NULL: Final = "NULL"
NUMBERS: Final = frozenset({"int", "long", "float", "double", "decimal"})
"""The kinds of types whose values are aligned on the right."""

_TIMESTAMPS: Final = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_BYTES: Final = frozenset({"binary", "fixed"})


def cell_texts(type_: Type, array: pa.Array) -> list[str | None]:
    """Format the values of a column; None for null.

    >>> from floe.spec.types import DATE, STRING
    >>> cell_texts(DATE, pa.array([19860, None], pa.date32())), cell_texts(STRING, pa.array(["a", "NULL"]))
    (['2024-05-17', None], ['a', '"NULL"'])
    """
    texts = [None if value is None else escape_controls(value_text(type_, value)) for value in to_values(type_, array)]
    return [f'"{NULL}"' if text == NULL else text for text in texts]


def value_text(type_: Type, value: Any) -> str:
    """Format one value, in the form that `floe.spec.values` describes.

    >>> from floe.sql.columns import parse_column_type
    >>> value_text(
    ...     parse_column_type("struct<city: string, tags: map<string, int>>"), {"city": "Rome", "tags": {"a": 1}}
    ... )
    '{city: "Rome", tags: {"a": 1}}'
    >>> value_text(parse_column_type("binary"), b"ice"), value_text(parse_column_type("timestamptz"), 0)
    ('0x696365', '1970-01-01 00:00:00Z')
    """
    if type_.kind in _TIMESTAMPS:
        return to_text(type_, value).replace("T", " ").replace("+00:00", "Z")
    if type_.kind in _BYTES:
        return f"0x{value.hex()}"
    if type_.kind == "variant":
        return _variant_text(value)
    if isinstance(type_, StructType):
        inside = (f"{name_text(f.name)}: {_inner(f.type, value.get(f.name))}" for f in type_.fields)
        return "{" + ", ".join(inside) + "}"
    if isinstance(type_, ListType):
        return "[" + ", ".join(_inner(type_.element, item) for item in value) + "]"
    if isinstance(type_, MapType):
        pairs = (f"{_inner(type_.key, k)}: {_inner(type_.value, v)}" for k, v in map_items(value))
        return "{" + ", ".join(pairs) + "}"
    return to_text(type_, value)


def _inner(type_: Type, value: Any) -> str:
    if value is None:
        return "null"
    return json.dumps(value, ensure_ascii=False) if type_.kind == "string" else value_text(type_, value)


def _variant_text(data: bytes) -> str:
    try:
        return json.dumps(decode_variant(data), ensure_ascii=False, default=str)
    except CorruptFile:
        return f"0x{data.hex()}"  # printing must not fail on bytes that are not a valid variant


# Rows -----------------------------------------------------------------------------------------------------------------

_BLOCK_ROWS: Final = 200
"""Rows formatted at a time; the first block decides the widths."""

_LONG: Final = frozenset({"string", "binary", "fixed", "struct", "list", "map", "variant", "geometry", "geography"})
"""The kinds of types whose values may be cut."""

_MAX_WAIT: Final = 0.3
"""Seconds to wait for the rows of the first block."""

_MIN_WIDTH: Final = 12
_MIN_VALUE_WIDTH: Final = 24


@dataclass(frozen=True, slots=True)
class RowStyle:
    """How rows are printed: colours, line width (None: unlimited), as records or not (None: records if too wide)."""

    paint: Paint = PLAIN
    width: int | None = None
    records: bool | None = None


def row_lines(schema: Schema, batches: Iterable[pa.RecordBatch], style: RowStyle | None = None) -> Iterator[str]:
    """Format rows as lines, while the batches are read.

    >>> from floe.sql.columns import parse_columns
    >>> rows = pa.record_batch({"id": [1, 20], "name": ["ada", None]})
    >>> print(*row_lines(parse_columns("id bigint, name string"), [rows]), sep=chr(10))
    id  name
     1  ada
    20  NULL
    >>> print(*row_lines(parse_columns("id bigint, name string"), [rows], RowStyle(records=True)), sep=chr(10))
    ── 1 ──
    id    1
    name  ada
    ── 2 ──
    id    20
    name  NULL
    """
    style = style or RowStyle()
    blocks = _blocks(schema, batches)
    first = _first_rows(blocks, len(schema.fields))
    titles = [escape_controls(field.name) for field in schema.fields]
    if first is None:
        if not style.records:
            yield style.paint(GAP.join(titles), "bold")
        return
    natural = [max(text_width(title), *map(_cell_width, column)) for title, column in zip(titles, first, strict=True)]
    is_number = [field.type.kind in NUMBERS for field in schema.fields]
    may_be_cut = [field.type.kind in _LONG for field in schema.fields]
    widths = fit_widths(natural, style.width, may_be_cut, _MIN_WIDTH)
    fits = style.width is None or sum(widths) + len(GAP) * (len(widths) - 1) <= style.width
    if style.records or (style.records is None and not fits):
        yield from _records(titles, first, blocks, style)
    else:
        yield from _table(titles, widths, is_number, may_be_cut, first, blocks, style)


_Block = Sequence[Sequence[str | None]]
"""A block of rows: for each column the texts of its cells."""


def _blocks(schema: Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[_Block]:
    for batch in batches:
        for start in range(0, batch.num_rows, _BLOCK_ROWS):
            part = batch.slice(start, _BLOCK_ROWS)
            yield [cell_texts(field.type, part.column(n)) for n, field in enumerate(schema.fields)]


def _first_rows(blocks: Iterator[_Block], width: int) -> _Block | None:
    """The rows that decide the widths: up to a block, from several small batches if they come soon enough."""
    deadline = monotonic() + _MAX_WAIT
    columns: list[list[str | None]] = [[] for _ in range(width)]
    has_rows = False
    for block in blocks:
        has_rows = True
        for column, cells in zip(columns, block, strict=True):
            column.extend(cells)
        if not columns or len(columns[0]) >= _BLOCK_ROWS or monotonic() > deadline:
            break
    return columns if has_rows else None


def _table(
    titles: Sequence[str],
    widths: Sequence[int],
    is_number: Sequence[bool],
    may_be_cut: Sequence[bool],
    first: _Block,
    following: Iterator[_Block],
    style: RowStyle,
) -> Iterator[str]:
    paint = style.paint
    heads = [
        pad(cut(title, width), width, right=right)
        for title, width, right in zip(titles, widths, is_number, strict=True)
    ]
    yield paint(GAP.join(heads).rstrip(), "bold")
    for block in chain([first], following):
        columns = [
            [_cell(text, width, right, paint, may_cut=style.width is not None and cuttable) for text in column]
            for column, width, right, cuttable in zip(block, widths, is_number, may_be_cut, strict=True)
        ]
        for cells in zip(*columns, strict=True):
            yield GAP.join(cells).rstrip()


def _records(titles: Sequence[str], first: _Block, following: Iterator[_Block], style: RowStyle) -> Iterator[str]:
    """Format rows as records, with a line for each column; long values continue on the next lines."""
    paint = style.paint
    label_width = max(map(text_width, titles), default=0)
    value_width = None if style.width is None else max(style.width - label_width - len(GAP), _MIN_VALUE_WIDTH)
    number = 0
    for block in chain([first], following):
        for values in zip(*block, strict=True):
            number += 1
            head = f"── {number:,} ──"
            yield paint(head if style.width is None else head.ljust(style.width, "─"), "dim")
            for title, value in zip(titles, values, strict=True):
                label = paint(pad(title, label_width), "cyan")
                lines = _wrap_text(NULL if value is None else value, value_width)
                yield f"{label}{GAP}{paint(lines[0], 'dim italic') if value is None else lines[0]}".rstrip()
                yield from (" " * (label_width + len(GAP)) + line for line in lines[1:])


def _cell_width(text: str | None) -> int:
    return len(NULL) if text is None else text_width(text)


def _cell(text: str | None, width: int, right: bool, paint: Paint, *, may_cut: bool) -> str:
    if text is None:
        return paint(pad(NULL, width, right=right), "dim italic")
    return pad(cut(text, width) if may_cut else text, width, right=right)


def _wrap_text(text: str, width: int | None) -> list[str]:
    if width is None or text_width(text) <= width:
        return [text]
    lines, line, used = list[str](), "", 0
    for character in text:
        size = text_width(character)
        if used + size > width:
            lines.append(line)
            line, used = "", 0
        line += character
        used += size
    return [*lines, line]
