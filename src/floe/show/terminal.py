r"""Text for people at a terminal: colours, aligned columns, and the streams that results are written to.

Output is plain and complete where a program reads it. At a terminal it has colours, and lines are cut to its width.
`NO_COLOR` or `TERM=dumb` switch colours off, `FORCE_COLOR` switches them on.

>>> columns = [Column("name"), Column("rows", right=True)]
>>> print(*grid_lines(columns, [["db.orders", "1,234"], ["db.o", "7"]]), sep=chr(10))
name        rows
db.orders  1,234
db.o           7
>>> PLAIN("db.orders", "bold"), Paint(True)("db.orders", "bold")
('db.orders', '\x1b[1mdb.orders\x1b[0m')
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TextIO

from rich.cells import cell_len, set_cell_size

_CODES: Final = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


@dataclass(frozen=True, slots=True)
class Paint:
    """Adds styles to text, or leaves it plain if `on` is False."""

    on: bool

    def __call__(self, text: str, style: str = "") -> str:
        """The text in a style: one or more of bold, dim, italic and the names of colours."""
        if not self.on or not style or not text:
            return text
        return f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"


PLAIN: Final = Paint(False)


def paint_for(stream: TextIO, environ: Mapping[str, str]) -> Paint:
    """Colours if the stream is a terminal and the environment does not switch them off.

    >>> import io
    >>> paint_for(io.StringIO(), {}).on, paint_for(io.StringIO(), {"FORCE_COLOR": "1"}).on
    (False, True)
    """
    if environ.get("NO_COLOR"):
        return PLAIN
    if environ.get("FORCE_COLOR"):
        return Paint(True)
    return Paint(stream.isatty() and environ.get("TERM") != "dumb")


def escape_controls(text: str) -> str:
    r"""Escape control and formatting characters, so that text from a table cannot control the terminal.

    >>> escape_controls("two\nlines\tand \x1b[31mred"), escape_controls("\u202eabc")
    ('two\\nlines\\tand \\x1b[31mred', '\\u202eabc')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


# Aligned columns ------------------------------------------------------------------------------------------------------

GAP: Final = "  "
"""The space between columns."""

_MIN_WIDTH: Final = 8


@dataclass(frozen=True, slots=True)
class Column:
    """The title of a column, the alignment and style of its cells, and whether long cells may be cut."""

    title: str
    right: bool = False
    style: str = ""
    may_be_cut: bool = True


def grid_lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], *, paint: Paint = PLAIN, width: int | None = None
) -> Iterator[str]:
    """The lines of a table; with a width, the longest cells are cut so that lines fit.

    >>> list(grid_lines([Column("note")], [["a long text in a cell"]], width=10))
    ['note', 'a long te…']
    """
    lines = [[escape_controls(cell) for cell in row] for row in rows]
    natural = [max(len(column.title), *(text_width(line[n]) for line in lines), 0) for n, column in enumerate(columns)]
    widths = fit_widths(natural, width, [column.may_be_cut for column in columns])
    yield _line([paint(pad(c.title, widths[n], right=c.right), "dim") for n, c in enumerate(columns)])
    for line in lines:
        cells = [pad(cut(cell, widths[n]), widths[n], right=columns[n].right) for n, cell in enumerate(line)]
        yield _line([paint(cell, columns[n].style) for n, cell in enumerate(cells)], plain=not paint.on)


def fit_widths(
    natural: Sequence[int], width: int | None, may_be_cut: Sequence[bool], min_width: int = _MIN_WIDTH
) -> list[int]:
    """Widths of columns that fit a line: the widest are cut first, and none below `min_width`.

    >>> fit_widths([4, 40, 20], 50, [True, True, True])
    [4, 22, 20]
    """
    widths = list(natural)
    if width is None:
        return widths
    over = sum(widths) + len(GAP) * (len(widths) - 1) - width
    while over > 0:
        cuttable = [n for n, size in enumerate(widths) if may_be_cut[n] and size > min_width]
        if not cuttable:
            break
        widest = max(cuttable, key=lambda n: widths[n])
        second = max((widths[n] for n in cuttable if n != widest), default=0)
        reduction = max(1, min(over, widths[widest] - max(second, min_width)))
        widths[widest] -= reduction
        over -= reduction
    return widths


def text_width(text: str) -> int:
    """The number of terminal columns that a text takes.

    >>> text_width("abc"), text_width("日本")
    (3, 4)
    """
    return len(text) if text.isascii() else cell_len(text)


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Pad a text with spaces to a width.

    >>> pad("7", 3, right=True), pad("日本", 5)
    ('  7', '日本 ')
    """
    blanks = " " * (width - text_width(text))
    return blanks + text if right else text + blanks


def cut(text: str, width: int) -> str:
    """Cut a text to a width; `…` marks the cut.

    >>> cut("abcdef", 4), cut("abc", 4)
    ('abc…', 'abc')
    """
    if text_width(text) <= width:
        return text
    if text.isascii():
        return text[: max(width - 1, 0)] + "…"
    return set_cell_size(text, max(width - 1, 0)).rstrip(" ") + "…"


def _line(cells: Sequence[str], *, plain: bool = True) -> str:
    line = GAP.join(cells)
    return line.rstrip() if plain else line


# Streams --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Output:
    """A stream with its colours and its width; without a width, lines are not cut.

    >>> Output(sys.stdout, Paint(False), None).line("a")
    a
    """

    stream: TextIO
    paint: Paint
    width: int | None

    @property
    def is_terminal(self) -> bool:
        """Whether the stream is a terminal."""
        return self.width is not None

    def line(self, text: str = "") -> None:
        """Write a text and a line break."""
        self.stream.write(text + "\n")

    def lines(self, lines: Iterable[str]) -> None:
        """Write texts, each on a line of its own."""
        for line in lines:
            self.line(line)

    def grid(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """Write an aligned table."""
        self.lines(grid_lines(columns, rows, paint=self.paint, width=self.width))

    def json(self, value: Any) -> None:
        """Write a value as indented JSON."""
        self.line(json.dumps(value, indent=2, ensure_ascii=False))


def stdout() -> Output:
    """Standard output, for results."""
    return _output_to(sys.stdout)


def stderr() -> Output:
    """Standard error, for errors, progress and remarks about a result."""
    return _output_to(sys.stderr)


def _output_to(stream: TextIO) -> Output:
    width = shutil.get_terminal_size().columns if stream.isatty() else None
    return Output(stream, paint_for(stream, os.environ), width)
