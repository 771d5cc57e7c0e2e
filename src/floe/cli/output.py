"""Where a command's results go: to a person at a terminal, or to a program behind a pipe."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from floe.show.grid import Column, grid_lines
from floe.show.styles import Paint, paint_for

__all__ = ["Output", "complaints", "results"]


@dataclass(frozen=True)
class Output:
    """A stream, with the colours and the width that it has; without a width, lines are as long as they are.

    >>> Output(sys.stdout, Paint(False), None).line("a")
    a
    """

    stream: TextIO
    paint: Paint
    width: int | None

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at it."""
        return self.width is not None

    def line(self, text: str = "") -> None:
        """One line."""
        self.stream.write(text + "\n")

    def lines(self, lines: Iterable[str]) -> None:
        """Several lines."""
        for line in lines:
            self.line(line)

    def grid(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """An aligned table."""
        self.lines(grid_lines(columns, rows, paint=self.paint, width=self.width))

    def json(self, value: Any) -> None:
        """A value as JSON, indented."""
        self.line(json.dumps(value, indent=2, ensure_ascii=False))


def results() -> Output:
    """Standard output."""
    return _output(sys.stdout)


def complaints() -> Output:
    """Standard error: for errors, progress, and what is said about a result."""
    return _output(sys.stderr)


def _output(stream: TextIO) -> Output:
    width = shutil.get_terminal_size().columns if stream.isatty() else None
    return Output(stream, paint_for(stream, os.environ), width)
