"""Aligned columns: a title line and rows, cut to the width of a terminal where there is one.

>>> columns = [Column("name"), Column("rows", right=True)]
>>> print(*grid_lines(columns, [["db.orders", "1,234"], ["db.o", "7"]]), sep=chr(10))
name        rows
db.orders  1,234
db.o           7
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size

from floe.show.styles import PLAIN, Paint, visible

__all__ = ["GAP", "Column", "cut", "fitted_widths", "grid_lines", "padded", "text_width"]

GAP: Final = "  "
"""What stands between columns."""

_NARROWEST: Final = 8


@dataclass(frozen=True, slots=True)
class Column:
    """The title of a column, on which side its cells stand, how they look, and whether long ones may be cut."""

    title: str
    right: bool = False
    style: str = ""
    may_be_cut: bool = True


def grid_lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], *, paint: Paint = PLAIN, width: int | None = None
) -> Iterator[str]:
    """The lines of a table; with a width, the longest cells are cut so that lines fit.

    >>> list(grid_lines([Column("place")], [["a long way from here"]], width=10))
    ['place', 'a long wa…']
    """
    shown = [[visible(cell) for cell in row] for row in rows]
    natural = [max(len(column.title), *(text_width(row[n]) for row in shown), 0) for n, column in enumerate(columns)]
    widths = fitted_widths(natural, width, [column.may_be_cut for column in columns])
    yield _line([paint(padded(c.title, widths[n], right=c.right), "dim") for n, c in enumerate(columns)])
    for row in shown:
        cells = [padded(cut(cell, widths[n]), widths[n], right=columns[n].right) for n, cell in enumerate(row)]
        yield _line([paint(cell, columns[n].style) for n, cell in enumerate(cells)], plain=not paint.on)


def fitted_widths(
    natural: Sequence[int], width: int | None, may_be_cut: Sequence[bool], narrowest: int = _NARROWEST
) -> list[int]:
    """Widths of columns that fit a line, the widest being cut first; those that may not, or are narrow, stay.

    >>> fitted_widths([4, 40, 20], 50, [True, True, True])
    [4, 22, 20]
    """
    widths = list(natural)
    if width is None:
        return widths
    over = sum(widths) + len(GAP) * (len(widths) - 1) - width
    while over > 0:
        wide = [n for n, size in enumerate(widths) if may_be_cut[n] and size > narrowest]
        if not wide:
            break
        widest = max(wide, key=lambda n: widths[n])
        second = max((widths[n] for n in wide if n != widest), default=0)
        less = max(1, min(over, widths[widest] - max(second, narrowest)))
        widths[widest] -= less
        over -= less
    return widths


def text_width(text: str) -> int:
    """How many columns of a terminal a text takes.

    >>> text_width("abc"), text_width("日本")
    (3, 4)
    """
    return len(text) if text.isascii() else cell_len(text)


def padded(text: str, width: int, *, right: bool = False) -> str:
    """The text with blanks up to a width.

    >>> padded("7", 3, right=True), padded("日本", 5)
    ('  7', '日本 ')
    """
    blanks = " " * (width - text_width(text))
    return blanks + text if right else text + blanks


def cut(text: str, width: int) -> str:
    """The text, or as much of it as fits, with a sign that there is more.

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
