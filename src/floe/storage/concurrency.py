"""Several calls at once, but never more than a limit: results in order, and the first error stops the rest."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

from floe.errors import InvalidInput

__all__ = ["map_concurrently"]

T = TypeVar("T")
R = TypeVar("R")


def map_concurrently(
    function: Callable[[T], R], items: Iterable[T], *, limit: int = 8, executor: Executor | None = None
) -> Iterator[R]:
    """The function's results, in the order of the items, with up to `limit` calls under way at once.

    Items are taken as needed, so an endless or lazy iterable is fine. When a call fails, no further one is begun, those
    under way are waited for, and the first error (in time) is raised; the same when the iterator is closed early.
    Without an executor the calls are made one after the other, here. A call that the executor has not begun when its
    result is due is made here too, so that calls may use the same executor again without waiting for each other.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(4) as pool:
    ...     list(map_concurrently(lambda n: n * n, range(5), limit=3, executor=pool))
    [0, 1, 4, 9, 16]
    """
    if limit < 1:
        raise InvalidInput(f"a limit of {limit} calls at once; at least 1 is needed")
    if executor is None or limit == 1:
        return map(function, items)
    return _windowed(function, items, limit, executor)


def _windowed(function: Callable[[T], R], items: Iterable[T], limit: int, executor: Executor) -> Iterator[R]:
    errors = _FirstError()
    source = iter(items)
    window: deque[tuple[T, Future[R]]] = deque()

    def guarded(item: T) -> R:
        errors.check()
        try:
            return function(item)
        except BaseException as error:
            errors.note(error)
            raise

    def fill() -> None:
        while len(window) < limit:
            try:
                item = next(source)
            except StopIteration:
                return
            window.append((item, executor.submit(guarded, item)))

    try:
        fill()
        while window:
            item, future = window.popleft()
            result = guarded(item) if future.cancel() else future.result()
            errors.check()
            fill()
            yield result
    except GeneratorExit:
        raise
    except BaseException as error:
        errors.note(error)
        _settle(window)
        first = errors.first
        assert first is not None
        if first is error:
            raise
        raise first from None
    finally:
        _settle(window)


def _settle(window: deque[tuple[T, Future[R]]]) -> None:
    """Cancels what has not begun and waits for what has: nothing runs on behind the caller's back."""
    running = [future for _, future in window if not future.cancel()]
    for future in running:
        future.exception()
    window.clear()


class _FirstError:
    """The first error of several threads."""

    def __init__(self) -> None:
        self.first: BaseException | None = None
        self._lock = threading.Lock()

    def note(self, error: BaseException) -> None:
        with self._lock:
            if self.first is None:
                self.first = error

    def check(self) -> None:
        if self.first is not None:
            raise self.first
