r"""Colours where a person looks, plain text where a program reads.

Colours are on for terminals, off with `NO_COLOR` or `TERM=dumb`, and on anyway with `FORCE_COLOR`.

>>> PLAIN("db.orders", "bold"), Paint(True)("db.orders", "bold")
('db.orders', '\x1b[1mdb.orders\x1b[0m')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TextIO

__all__ = ["PLAIN", "Paint", "paint_for", "visible"]

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
    """Puts styles on text, or leaves it plain."""

    on: bool

    def __call__(self, text: str, style: str = "") -> str:
        """The text in a style: one or more of bold, dim, italic and the names of colours."""
        if not self.on or not style or not text:
            return text
        return f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"


PLAIN: Final = Paint(False)


def paint_for(stream: TextIO, environ: Mapping[str, str]) -> Paint:
    """Colours if the stream is a terminal, as far as the environment has nothing against it.

    >>> import io
    >>> paint_for(io.StringIO(), {}).on, paint_for(io.StringIO(), {"FORCE_COLOR": "1"}).on
    (False, True)
    """
    if environ.get("NO_COLOR"):
        return PLAIN
    if environ.get("FORCE_COLOR"):
        return Paint(True)
    return Paint(stream.isatty() and environ.get("TERM") != "dumb")


def visible(text: str) -> str:
    r"""The text with what would move a cursor, break a line or hide something spelled out.

    What a table holds is somebody else's text; printing it must not be able to do anything to a terminal.

    >>> visible("two\nlines\tand \x1b[31mred"), visible("\u202eabc")
    ('two\\nlines\\tand \\x1b[31mred', '\\u202eabc')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
