"""Rows as an aligned table, printed while they are read.

The first rows decide how wide the columns are, so that printing begins at once. On a terminal the longest texts are cut
until lines fit; where that would leave too little of them, each row is shown as a record, one line for each column.
Numbers and moments are never cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

import pyarrow as pa

from floe.show.cells import NULL, NUMBERS, cell_texts
from floe.show.grid import GAP, cut, fitted_widths, padded, text_width
from floe.show.styles import PLAIN, Paint, visible
from floe.spec.schemas.schema import Schema

__all__ = ["RowStyle", "row_lines"]

_BLOCK: Final = 200
"""So many rows are made into text at a time; the first block decides the widths."""

_LONG: Final = frozenset({"string", "binary", "fixed", "struct", "list", "map", "variant", "geometry", "geography"})
"""The kinds of types whose values may be cut."""

_PATIENCE: Final = 0.3
"""Seconds that the first rows may be waited for."""

_NARROWEST: Final = 12
_LEAST_VALUE: Final = 24


@dataclass(frozen=True, slots=True)
class RowStyle:
    """How rows are shown: in colours, within a width (None: as wide as they are), as records or not (None: as fits)."""

    paint: Paint = PLAIN
    width: int | None = None
    records: bool | None = None


def row_lines(schema: Schema, batches: Iterable[pa.RecordBatch], style: RowStyle | None = None) -> Iterator[str]:
    """The lines of a table of rows, as the batches come.

    >>> from floe.table.ddl import parse_columns
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
    titles = [visible(field.name) for field in schema.fields]
    if first is None:
        if not style.records:
            yield style.paint(GAP.join(titles), "bold")
        return
    natural = [max(text_width(title), *map(_cell_width, column)) for title, column in zip(titles, first, strict=True)]
    is_number = [field.type.kind in NUMBERS for field in schema.fields]
    may_be_cut = [field.type.kind in _LONG for field in schema.fields]
    widths = fitted_widths(natural, style.width, may_be_cut, _NARROWEST)
    fits = style.width is None or sum(widths) + len(GAP) * (len(widths) - 1) <= style.width
    if style.records or (style.records is None and not fits):
        yield from _records(titles, first, blocks, style)
    else:
        yield from _table(titles, widths, is_number, may_be_cut, first, blocks, style)


_Block = Sequence[Sequence[str | None]]
"""Some rows: for each column the texts of its cells."""


def _blocks(schema: Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[_Block]:
    for batch in batches:
        for start in range(0, batch.num_rows, _BLOCK):
            part = batch.slice(start, _BLOCK)
            yield [cell_texts(field.type, part.column(n)) for n, field in enumerate(schema.fields)]


def _first_rows(blocks: Iterator[_Block], width: int) -> _Block | None:
    """The rows that the widths are made for: a block, even if it comes in many small batches; but nobody waits long."""
    until = monotonic() + _PATIENCE
    gathered: list[list[str | None]] = [[] for _ in range(width)]
    found = False
    for block in blocks:
        found = True
        for column, more in zip(gathered, block, strict=True):
            column.extend(more)
        if not gathered or len(gathered[0]) >= _BLOCK or monotonic() > until:
            break
    return gathered if found else None


def _table(
    titles: Sequence[str],
    widths: Sequence[int],
    is_number: Sequence[bool],
    may_be_cut: Sequence[bool],
    first: _Block,
    others: Iterator[_Block],
    style: RowStyle,
) -> Iterator[str]:
    paint = style.paint
    heads = [
        padded(cut(title, width), width, right=right)
        for title, width, right in zip(titles, widths, is_number, strict=True)
    ]
    yield paint(GAP.join(heads).rstrip(), "bold")
    for block in _chain(first, others):
        columns = [
            [_cell(text, width, right, paint, may_cut=style.width is not None and cuttable) for text in column]
            for column, width, right, cuttable in zip(block, widths, is_number, may_be_cut, strict=True)
        ]
        for cells in zip(*columns, strict=True):
            yield GAP.join(cells).rstrip()


def _records(titles: Sequence[str], first: _Block, others: Iterator[_Block], style: RowStyle) -> Iterator[str]:
    """Each row with a line for each column; long values go on below, where there is room for them."""
    paint = style.paint
    label_width = max(map(text_width, titles), default=0)
    room = None if style.width is None else max(style.width - label_width - len(GAP), _LEAST_VALUE)
    number = 0
    for block in _chain(first, others):
        for values in zip(*block, strict=True):
            number += 1
            head = f"── {number:,} ──"
            yield paint(head if style.width is None else head.ljust(style.width, "─"), "dim")
            for title, value in zip(titles, values, strict=True):
                label = paint(padded(title, label_width), "cyan")
                lines = _wrapped(NULL if value is None else value, room)
                yield f"{label}{GAP}{paint(lines[0], 'dim italic') if value is None else lines[0]}".rstrip()
                yield from (" " * (label_width + len(GAP)) + line for line in lines[1:])


def _chain(first: _Block, others: Iterator[_Block]) -> Iterator[_Block]:
    yield first
    yield from others


def _cell_width(text: str | None) -> int:
    return len(NULL) if text is None else text_width(text)


def _cell(text: str | None, width: int, right: bool, paint: Paint, *, may_cut: bool) -> str:
    if text is None:
        return paint(padded(NULL, width, right=right), "dim italic")
    return padded(cut(text, width) if may_cut else text, width, right=right)


def _wrapped(text: str, room: int | None) -> list[str]:
    if room is None or text_width(text) <= room:
        return [text]
    lines, line, used = list[str](), "", 0
    for character in text:
        size = text_width(character)
        if used + size > room:
            lines.append(line)
            line, used = "", 0
        line += character
        used += size
    return [*lines, line]
