"""Parallel reads: threads read the batches of several items, which are returned in order and in bounded memory.

Each thread takes the next item, reads its batches and puts them into the item's queue. A thread that is ahead of the
consumer blocks while too many bytes are queued. The item that the consumer waits for is never blocked by a full budget,
so there is no deadlock.
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
"""The least that a batch counts against the budget, which limits the number of small batches."""


class Finished(Generic[Item]):
    """Follows the last batch of an item."""

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
    """The batches of all items, each item followed by `Finished`; in the order of the items if `ordered`.

    Up to `workers` items are read at once, and about `budget` bytes of batches are queued. The error of an item is
    raised in its turn. Closing the iterator stops the threads and waits for them.

    >>> two = lambda n: iter([pa.record_batch({"n": [n]}), pa.record_batch({"n": [n + 1]})])
    >>> batches = read_in_parallel(two, [10, 20, 30], workers=2, budget=1000)
    >>> [batch["n"][0].as_py() for batch in batches if not isinstance(batch, Finished)]
    [10, 11, 20, 21, 30, 31]
    """
    if workers <= 1:
        return _read_sequentially(read, items)
    return _ParallelReader(read, items, workers, budget, ordered).results()


def _read_sequentially(
    read: Callable[[Item], Iterator[pa.RecordBatch]], items: Iterable[Item]
) -> Iterator[pa.RecordBatch | Finished[Item]]:
    for item in items:
        yield from read(item)
        yield Finished(item)


@contextmanager
def _closing(batches: Iterator[pa.RecordBatch]) -> Iterator[Iterator[pa.RecordBatch]]:
    """Close an iterator if it can be closed: files would stay open until garbage collection otherwise."""
    try:
        yield batches
    finally:
        if hasattr(batches, "close"):
            batches.close()


class _Queue(Generic[Item]):
    """The batches of an item that wait for the consumer."""

    def __init__(self) -> None:
        self.batches: deque[tuple[pa.RecordBatch | Finished[Item], int]] = deque()
        self.error: BaseException | None = None
        self.is_done = False


class _ConsumerStopped(Exception):
    """The consumer has closed the iterator."""


class _ParallelReader(Generic[Item]):
    """The threads of one parallel read, and the queues between them and the consumer."""

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
        self._item_lock = threading.Lock()
        self._queues: deque[_Queue[Item]] = deque()
        self._shared_queue: _Queue[Item] = _Queue()
        self._queued_bytes = 0
        self._stopped = False
        self._running = workers
        self._threads = [threading.Thread(target=self._run, name=f"floe-read-{n}", daemon=True) for n in range(workers)]

    # Threads ------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._read_next_item():
                pass
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _read_next_item(self) -> bool:
        """Read the next item; False if there is none, or if the consumer has stopped."""
        with self._item_lock:  # planning the next item may take a while, and queues are in the order of items
            try:
                item = next(self._items, None) if not self._stopped else None
                error = None
            except BaseException as caught:
                item, error = None, caught
            if item is None and error is None:
                return False
            queue: _Queue[Item] = _Queue() if self._ordered else self._shared_queue
            if self._ordered:
                with self._changed:
                    self._queues.append(queue)
        try:
            if error is not None:
                raise error
            assert item is not None
            with _closing(self._read(item)) as item_batches:
                for batch in item_batches:
                    self._put(queue, batch, max(batch.nbytes, _LEAST_WEIGHT))
            self._put(queue, Finished(item), 0)
        except _ConsumerStopped:
            return False
        except BaseException as caught:
            self._finish_queue(queue, caught)
            return False
        if self._ordered:
            self._finish_queue(queue, None)
        return True

    def _put(self, queue: _Queue[Item], batch: pa.RecordBatch | Finished[Item], weight: int) -> None:
        with self._changed:
            while not self._stopped and not self._has_room(queue, weight):
                self._changed.wait()
            if self._stopped:
                raise _ConsumerStopped
            queue.batches.append((batch, weight))
            self._queued_bytes += weight
            self._changed.notify_all()

    def _has_room(self, queue: _Queue[Item], weight: int) -> bool:
        if weight == 0 or self._queued_bytes + weight <= self._budget:
            return True
        is_due = not self._ordered or (bool(self._queues) and queue is self._queues[0])
        return is_due and not queue.batches

    def _finish_queue(self, queue: _Queue[Item], error: BaseException | None) -> None:
        with self._changed:
            queue.is_done = True
            queue.error = queue.error or error
            self._changed.notify_all()

    # Consumer -----------------------------------------------------------------------------------------------------

    def results(self) -> Iterator[pa.RecordBatch | Finished[Item]]:
        """Start the threads, and return what they read; closing the generator stops them."""
        for thread in self._threads:
            thread.start()
        try:
            while (item := self._next()) is not None:
                yield item
        finally:
            with self._changed:
                self._stopped = True
                self._changed.notify_all()
            for thread in self._threads:
                thread.join()

    def _next(self) -> pa.RecordBatch | Finished[Item] | None:
        with self._changed:
            while True:
                queue = self._shared_queue if not self._ordered else self._queues[0] if self._queues else None
                if queue is not None and queue.batches:
                    batch, weight = queue.batches.popleft()
                    self._queued_bytes -= weight
                    self._changed.notify_all()
                    return batch
                if queue is not None and queue.error is not None:
                    raise queue.error
                if queue is not None and queue.is_done and self._ordered:
                    self._queues.popleft()
                    self._changed.notify_all()
                    continue
                if not self._running:
                    return None
                self._changed.wait()
