"""Rows of any partitions written to files of their partitions, sorted if the table says so.

The *fan-out* writer takes rows in any order. Rows wait in memory until a partition has enough for a row group, or until
all that waits takes too much: then the partitions with most rows are written, so that memory and the number of open
files stay bounded whatever comes. Files are encoded by a few threads, while the next batches are being split.

The *clustered* writer takes rows that come partition by partition, and has one file open at a time.

A file that is said to be sorted is sorted from its first row to its last; so rows of a sorted table wait until they are
written as whole files. When they are too many for memory, each file is sorted by itself.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import pyarrow as pa

from floe.errors import InvalidInput
from floe.formats.arrow_conversion import Conformer
from floe.formats.writers.partition_split import Part, Splitter, can_sort, sort_batch
from floe.formats.writers.rolling import RollingWriter, leave_nothing
from floe.formats.writers.write_target import WriteTarget
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import UNSORTED, SortOrder

T = TypeVar("T")

_MEMORY = 384 * 1024 * 1024
_OPEN_FILES = 200
_ROWS_AT_ONCE = 131_072
"""How many rows are split at once: enough to be quick, few enough to stay in the processor's cache."""

_ENOUGH = 32 * 1024 * 1024
"""How many bytes of a partition are handed to its file at once."""

_WORTH_THREADS = 4 * 1024 * 1024
"""Of how many bytes on threads are used."""


class RowWriter:
    """What both writers share: batches conformed, and files finished or thrown away.

    In a `with` block, everything is thrown away if it raises.
    """

    def __init__(
        self,
        target: WriteTarget,
        *,
        schema: Schema | None = None,
        spec: PartitionSpec | None = None,
        order: SortOrder | None = None,
        content: FileContent = FileContent.DATA,
        equality_ids: Sequence[int] = (),
    ) -> None:
        self._target = target
        self._schema = target.schema if schema is None else schema
        self._spec = target.spec if spec is None else spec
        order = target.sort_order if order is None else order
        if not can_sort(order) or not all(one.source_id in self._schema.by_id for one in order.fields):
            order = UNSORTED
        self._order = order
        self._content, self._equality_ids = content, tuple(equality_ids)
        self._metrics = target.metrics(self._schema)
        self._conform = Conformer(self._schema)
        self._split = Splitter(self._spec, self._schema)

    def write(self, batch: pa.RecordBatch | pa.Table, /) -> None:
        """Add rows, whose columns are found by name."""
        for one in batch.to_batches() if isinstance(batch, pa.Table) else (batch,):
            for start in range(0, one.num_rows, _ROWS_AT_ONCE):
                self._add(self._conform(one.slice(start, _ROWS_AT_ONCE)))

    def close(self) -> list[DataFile]:
        """Finish all files."""
        raise NotImplementedError

    def abort(self) -> list[str]:
        """Throw away everything; gives the files that could not be deleted."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            leave_nothing(error, self.abort())

    def _add(self, batch: pa.RecordBatch) -> None:
        raise NotImplementedError

    def _files_of(self, partition: Sequence[Any]) -> RollingWriter:
        return RollingWriter(
            self._target,
            spec=self._spec,
            partition=partition,
            schema=self._schema,
            content=self._content,
            sort_order_id=self._order.order_id,
            equality_ids=self._equality_ids,
            metrics=self._metrics,
        )

    def _sorted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return sort_batch(batch, self._order, self._schema) if self._order.fields else batch


@dataclass(eq=False, slots=True)
class _Partition:
    """The rows of a partition that wait, and its files."""

    files: RollingWriter
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_bytes: int = 0
    gathered_bytes: int = 0
    work: Future[None] | None = None

    @property
    def memory(self) -> int:
        return self.waiting_bytes + self.gathered_bytes

    def take(self) -> list[pa.RecordBatch]:
        taken, self.waiting, self.waiting_bytes = self.waiting, [], 0
        return taken


class FanoutWriter(RowWriter):
    """Takes rows in any order, in bounded memory.

    `memory` is how many bytes of rows wait at most, `open_files` how many files are open, `workers` how many threads
    encode files (by default one for each processor; none for small data).

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.partitioning.terms import build_spec
    >>> from floe.spec.types import Field, LONG
    >>> from floe.storage.memory import MemoryStorage
    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> schema = Schema((Field(1, "id", LONG),))
    >>> spec = build_spec(schema, ["bucket(4, id)"])
    >>> table = new_table_metadata(schema, spec=spec, location="memory:wh/t", uuid=uuid, now_ms=0)
    >>> with FanoutWriter(WriteTarget.of(table, MemoryStorage())) as writer:
    ...     writer.write(pa.record_batch({"id": range(100)}))
    ...     files = writer.close()
    >>> sorted((file.partition, file.record_count) for file in files)
    [((0,), 21), ((1,), 30), ((2,), 22), ((3,), 27)]
    """

    def __init__(
        self,
        target: WriteTarget,
        *,
        memory: int = _MEMORY,
        open_files: int = _OPEN_FILES,
        workers: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(target, **options)
        self._memory, self._most_open = memory, max(open_files, 1)
        self._partitions: dict[Hashable, _Partition] = {}
        self._open: dict[_Partition, None] = {}  # those whose files may be open, in the order of their last writing
        self._held = 0
        self._small: list[pa.RecordBatch] = []
        self._small_rows = 0
        self._splits: deque[tuple[float, Future[list[Part]]]] = deque()
        self._workers = _Workers(os.cpu_count() or 1 if workers is None else workers)

    def _add(self, batch: pa.RecordBatch) -> None:
        self._small.append(batch)  # batches of few rows are split together
        self._small_rows += batch.num_rows
        if self._small_rows >= _ROWS_AT_ONCE // 2:
            self._split_small()
            while len(self._splits) > self._workers.count:  # so many batches are split at a time
                self._distribute(*self._splits.popleft())

    def _split_small(self) -> None:
        small, self._small, self._small_rows = self._small, [], 0
        if small:
            batch = _joined(small)
            per_row = batch.nbytes / max(batch.num_rows, 1)
            self._splits.append((per_row, self._workers.submit(partial(self._parts, batch))))

    def _parts(self, batch: pa.RecordBatch) -> list[Part]:
        return list(self._split(batch))

    def _distribute(self, per_row: float, parts: Future[list[Part]]) -> None:
        for part in parts.result():
            partition = self._partitions.get(part.key)
            if partition is None:
                partition = self._partitions[part.key] = _Partition(self._files_of(part.values))
            size = int(part.rows.num_rows * per_row)
            partition.waiting.append(part.rows)
            partition.waiting_bytes += size
            self._held += size
            if partition.waiting_bytes >= _ENOUGH and not self._order.fields:
                self._hand_over(partition)
        if self._held > self._memory:
            self._relieve()

    def _hand_over(self, partition: _Partition, *, flush: bool = False) -> None:
        """Have what waits written to the partition's file; it may go on waiting there, gathered for a row group."""
        self._finish_work(partition)
        self._open.pop(partition, None)
        while len(self._open) >= self._most_open:  # the one that was written to the longest ago is closed
            other = next(iter(self._open))
            del self._open[other]
            self._finish_work(other)
            other.files.end_file()
            other.gathered_bytes = 0
        self._open[partition] = None
        rows = partition.take()

        def write() -> None:
            partition.files.write(self._sorted(_joined(rows)))
            if self._order.fields:
                partition.files.end_file()
            elif flush:
                partition.files.flush()
            partition.gathered_bytes = partition.files.gathered_bytes

        partition.work = self._workers.submit(write)

    def _relieve(self) -> None:
        """Write the partitions with most rows, until three quarters of the memory are free again."""
        for partition in self._partitions.values():
            self._finish_work(partition)
        for partition in sorted(self._partitions.values(), key=lambda one: one.memory, reverse=True):
            if self._count_memory() <= self._memory // 4:
                break
            self._hand_over(partition, flush=True)
        for partition in self._partitions.values():
            self._finish_work(partition)
            if len(partition.waiting) > 1:  # parts of batches, which stay in memory whole as long as one part does
                partition.waiting = [_joined(partition.waiting)]
        self._count_memory()

    def _count_memory(self) -> int:
        self._held = sum(one.memory for one in self._partitions.values() if one.work is None)
        return self._held

    def _finish_work(self, partition: _Partition) -> None:
        work, partition.work = partition.work, None
        if work is not None:
            work.result()

    def close(self) -> list[DataFile]:
        """Write what waits, and finish all files; they come in the order in which their partitions first came."""
        if not self._splits and sum(batch.nbytes for batch in self._small) < _WORTH_THREADS:
            self._workers.rest()
        self._split_small()
        while self._splits:
            self._distribute(*self._splits.popleft())
        partitions = list(self._partitions.values())
        try:
            for partition in partitions:
                self._finish_work(partition)
                partition.work = self._workers.submit(partial(self._finish, partition))
            for partition in partitions:
                self._finish_work(partition)
        finally:
            self._workers.stop()
        return [file for partition in partitions for file in partition.files.close()]

    def _finish(self, partition: _Partition) -> None:
        if partition.waiting:
            partition.files.write(self._sorted(_joined(partition.take())))
        partition.files.end_file()

    def abort(self) -> list[str]:
        """Throw away everything; gives the files that could not be deleted."""
        self._workers.stop()
        self._small = []
        self._splits.clear()
        return [left for partition in self._partitions.values() for left in partition.files.abort()]


class ClusteredWriter(RowWriter):
    """Takes rows that come partition by partition; a partition that comes again is an error."""

    def __init__(self, target: WriteTarget, **options: Any) -> None:
        super().__init__(target, **options)
        self._key: Hashable = None
        self._current: RollingWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._done: dict[Hashable, RollingWriter] = {}

    def _add(self, batch: pa.RecordBatch) -> None:
        for part in self._split(batch, clustered=True):
            if self._current is None or part.key != self._key:
                if part.key in self._done:
                    raise InvalidInput(
                        f"rows of partition {part.values} come again, after those of others",
                        hint="bring the rows of a partition together, or let the writer do it (fan-out)",
                    )
                self._end_partition()
                self._key, self._current = part.key, self._files_of(part.values)
                self._done[part.key] = self._current
            self._waiting.append(part.rows)
            if not self._order.fields:
                self._write()
            elif sum(rows.nbytes for rows in self._waiting) > _MEMORY:
                self._write()
                self._current.end_file()

    def _write(self) -> None:
        rows, self._waiting = self._waiting, []
        if rows and self._current is not None:
            self._current.write(self._sorted(_joined(rows)))

    def _end_partition(self) -> None:
        self._write()
        if self._current is not None:
            self._current.end_file()
        self._current = None

    def close(self) -> list[DataFile]:
        """Finish the last file; all of them, in the order in which they were written."""
        self._end_partition()
        return [file for files in self._done.values() for file in files.close()]

    def abort(self) -> list[str]:
        """Throw away everything; gives the files that could not be deleted."""
        self._waiting, self._current = [], None
        return [left for files in self._done.values() for left in files.abort()]


class _Workers:
    """A few threads, made when the first work comes; or none, and work is done at once."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, work: Callable[[], T]) -> Future[T]:
        if self.count > 1:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="floe-write")
            return self._pool.submit(work)
        done: Future[T] = Future()
        done.set_result(work())
        return done

    def rest(self) -> None:
        """Make no threads for what is left to do."""
        if self._pool is None:
            self.count = 1

    def stop(self) -> None:
        """Wait for what is being done, and begin nothing more."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _joined(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    listed = list(batches)
    return listed[0] if len(listed) == 1 else pa.concat_batches(listed)
