"""Concurrent calls with a limit: results in order, and the first error stops the remaining calls."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

from floe.errors import InvalidInput

T = TypeVar("T")
R = TypeVar("R")


def map_concurrently(
    function: Callable[[T], R], items: Iterable[T], *, limit: int = 8, executor: Executor | None = None
) -> Iterator[R]:
    """Call the function for each item, up to `limit` at once, and yield the results in the order of the items.

    Items are taken as needed, so an endless or lazy iterable is fine. When a call fails, no further one is started,
    running ones are awaited, and the first error (in time) is raised; the same when the iterator is closed early.
    Without an executor the calls are made one after the other in the caller's thread. A call that the executor has not
    started when its result is needed runs in the caller's thread too, so that calls can use the same executor again
    without a deadlock.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(4) as pool:
    ...     list(map_concurrently(lambda n: n * n, range(5), limit=3, executor=pool))
    [0, 1, 4, 9, 16]
    """
    if limit < 1:
        raise InvalidInput(f"the limit of concurrent calls must be at least 1, found {limit}")
    if executor is None or limit == 1:
        return map(function, items)
    return _map_in_window(function, items, limit, executor)


def _map_in_window(function: Callable[[T], R], items: Iterable[T], limit: int, executor: Executor) -> Iterator[R]:
    errors = _FirstError()
    source = iter(items)
    window: deque[tuple[T, Future[R]]] = deque()

    def guarded(item: T) -> R:
        errors.check()
        try:
            return function(item)
        except BaseException as error:
            errors.record(error)
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
        errors.record(error)
        _stop(window)
        first = errors.first
        assert first is not None
        if first is error:
            raise
        raise first from None
    finally:
        _stop(window)


def _stop(window: deque[tuple[T, Future[R]]]) -> None:
    """Cancel calls that have not started and wait for those that have: nothing runs on after the iteration ends."""
    running = [future for _, future in window if not future.cancel()]
    for future in running:
        future.exception()
    window.clear()


class _FirstError:
    """The first error of several threads."""

    def __init__(self) -> None:
        self.first: BaseException | None = None
        self._lock = threading.Lock()

    def record(self, error: BaseException) -> None:
        with self._lock:
            if self.first is None:
                self.first = error

    def check(self) -> None:
        if self.first is not None:
            raise self.first
