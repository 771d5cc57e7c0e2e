"""A bar that tells a person how far a long read or load has come; programs see nothing of it.

It stands on standard error, appears only when something takes a while, and goes away when it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final, TextIO, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["Advance", "progress_bar"]

Advance: TypeAlias = Callable[[int, int, int], None]
"""Takes how much is done, of how much, and how many rows that were."""

_PATIENCE: Final = 0.4
"""Seconds before the bar appears."""


@contextmanager
def progress_bar(what: str, stream: TextIO) -> Iterator[Advance | None]:
    """What to call as work goes on; None where nobody looks.

    >>> import io
    >>> with progress_bar("reading", io.StringIO()) as advance:
    ...     advance is None
    True
    """
    if not stream.isatty():
        yield None
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeRemainingColumn(),
        console=Console(file=stream),
        transient=True,
    )
    task = bar.add_task(what, total=None, rows=0)
    begun = monotonic()

    def advance(done: int, total: int, rows: int) -> None:
        if not bar.live.is_started and monotonic() - begun > _PATIENCE:
            bar.start()
        bar.update(task, completed=done, total=total or None, rows=rows)

    try:
        yield advance
    finally:
        bar.stop()
