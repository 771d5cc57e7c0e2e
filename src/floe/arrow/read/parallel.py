"""Several sources of batches read at once by threads: given out in order, with a limit on what waits in memory.

`Readers` is an iterator. Each thread takes the next item, reads its batches, and hands them over; whoever is ahead of
the consumer waits once so many bytes are waiting. The item whose turn it is can always go on, so nobody waits for ever.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import pyarrow as pa

Item = TypeVar("Item")

_LEAST_WEIGHT = 2**16
"""What a batch counts at least, so that not too many small ones wait."""


class Finished(Generic[Item]):
    """Says that all batches of an item have been given out."""

    __slots__ = ("item",)

    def __init__(self, item: Item) -> None:
        self.item = item


def read_in_parallel(
    read: Callable[[Item], Iterator[pa.RecordBatch]],
    items: Iterable[Item],
    *,
    workers: int,
    budget: int,
    ordered: bool = True,
) -> Iterator[pa.RecordBatch | Finished[Item]]:
    """The batches of all items, with a mark behind each item's last; in the order of the items unless told otherwise.

    Up to `workers` items are read at once, and about `budget` bytes of batches wait. An error is raised when it is its
    item's turn. Closing the iterator stops the threads and waits for them.

    >>> two = lambda n: iter([pa.record_batch({"n": [n]}), pa.record_batch({"n": [n + 1]})])
    >>> found = read_in_parallel(two, [10, 20, 30], workers=2, budget=1000)
    >>> [batch["n"][0].as_py() for batch in found if not isinstance(batch, Finished)]
    [10, 11, 20, 21, 30, 31]
    """
    if workers <= 1:
        return _one_by_one(read, items)
    return _Readers(read, items, workers, budget, ordered).results()


def _one_by_one(
    read: Callable[[Item], Iterator[pa.RecordBatch]], items: Iterable[Item]
) -> Iterator[pa.RecordBatch | Finished[Item]]:
    for item in items:
        yield from read(item)
        yield Finished(item)


@contextmanager
def _closing(batches: Iterator[pa.RecordBatch]) -> Iterator[Iterator[pa.RecordBatch]]:
    """Closes what can be closed, so that files are not open until somebody collects garbage."""
    try:
        yield batches
    finally:
        if hasattr(batches, "close"):
            batches.close()


class _Outlet(Generic[Item]):
    """Where the batches of an item wait for the consumer."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[pa.RecordBatch | Finished[Item], int]] = deque()
        self.error: BaseException | None = None
        self.is_done = False


class _Stopped(Exception):
    """Nobody wants the rest."""


class _Readers(Generic[Item]):
    def __init__(
        self,
        read: Callable[[Item], Iterator[pa.RecordBatch]],
        items: Iterable[Item],
        workers: int,
        budget: int,
        ordered: bool,
    ) -> None:
        self._read = read
        self._items = iter(items)
        self._ordered = ordered
        self._budget = budget
        self._changed = threading.Condition()
        self._taking = threading.Lock()
        self._outlets: deque[_Outlet[Item]] = deque()
        self._shared: _Outlet[Item] = _Outlet()
        self._waiting_bytes = 0
        self._stopped = False
        self._running = workers
        self._threads = [
            threading.Thread(target=self._work, name=f"floe-read-{n}", daemon=True) for n in range(workers)
        ]

    # threads ------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while self._work_on_next():
                pass
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _work_on_next(self) -> bool:
        """Read an item; False if there is none left, or no more to be read."""
        with self._taking:  # one after the other: making the next item may take a while, and has an order
            try:
                item = next(self._items, None) if not self._stopped else None
                error = None
            except BaseException as caught:
                item, error = None, caught
            if item is None and error is None:
                return False
            outlet: _Outlet[Item] = _Outlet() if self._ordered else self._shared
            if self._ordered:
                with self._changed:
                    self._outlets.append(outlet)
        try:
            if error is not None:
                raise error
            assert item is not None
            with _closing(self._read(item)) as batches:
                for batch in batches:
                    self._hand_over(outlet, batch, max(batch.nbytes, _LEAST_WEIGHT))
            self._hand_over(outlet, Finished(item), 0)
        except _Stopped:
            return False
        except BaseException as caught:
            self._end(outlet, caught)
            return False
        if self._ordered:
            self._end(outlet, None)
        return True

    def _hand_over(self, outlet: _Outlet[Item], batch: pa.RecordBatch | Finished[Item], weight: int) -> None:
        with self._changed:
            while not self._stopped and not self._has_room(outlet, weight):
                self._changed.wait()
            if self._stopped:
                raise _Stopped
            outlet.waiting.append((batch, weight))
            self._waiting_bytes += weight
            self._changed.notify_all()

    def _has_room(self, outlet: _Outlet[Item], weight: int) -> bool:
        if weight == 0 or self._waiting_bytes + weight <= self._budget:
            return True
        is_due = not self._ordered or (bool(self._outlets) and outlet is self._outlets[0])
        return is_due and not outlet.waiting

    def _end(self, outlet: _Outlet[Item], error: BaseException | None) -> None:
        with self._changed:
            outlet.is_done = True
            outlet.error = outlet.error or error
            self._changed.notify_all()

    # the consumer -------------------------------------------------------------------------------------------------

    def results(self) -> Iterator[pa.RecordBatch | Finished[Item]]:
        """What the threads read."""
        for thread in self._threads:
            thread.start()
        try:
            while (found := self._next()) is not None:
                yield found
        finally:
            with self._changed:
                self._stopped = True
                self._changed.notify_all()
            for thread in self._threads:
                thread.join()

    def _next(self) -> pa.RecordBatch | Finished[Item] | None:
        with self._changed:
            while True:
                outlet = self._shared if not self._ordered else self._outlets[0] if self._outlets else None
                if outlet is not None and outlet.waiting:
                    batch, weight = outlet.waiting.popleft()
                    self._waiting_bytes -= weight
                    self._changed.notify_all()
                    return batch
                if outlet is not None and outlet.error is not None:
                    raise outlet.error
                if outlet is not None and outlet.is_done and self._ordered:
                    self._outlets.popleft()
                    self._changed.notify_all()
                    continue
                if not self._running:
                    return None
                self._changed.wait()
