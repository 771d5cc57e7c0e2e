"""A progress bar for long reads and loads.

It is shown on standard error if that is a terminal, appears after a short delay, and is removed at the end. It has its
own module because it imports `rich.console`, which is slow to load and which most commands do not need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final, TextIO, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

Advance: TypeAlias = Callable[[int, int, int], None]
"""Called with the work done, the total work, and the rows so far."""

_DELAY: Final = 0.4
"""Seconds before the bar appears."""


@contextmanager
def progress_bar(title: str, stream: TextIO) -> Iterator[Advance | None]:
    """Show a bar within a `with` block; yields the function that reports progress, None if the stream is no terminal.

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
    task = bar.add_task(title, total=None, rows=0)
    started = monotonic()

    def advance(done: int, total: int, rows: int) -> None:
        if not bar.live.is_started and monotonic() - started > _DELAY:
            bar.start()
        bar.update(task, completed=done, total=total or None, rows=rows)

    try:
        yield advance
    finally:
        bar.stop()
