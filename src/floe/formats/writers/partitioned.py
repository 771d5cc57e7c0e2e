"""Writers of rows of any partitions to files of their partitions, sorted if the table has a sort order.

`FanoutWriter` takes rows in any order. Rows are buffered until a partition has enough for a row group, or until the
buffers exceed the memory limit: then the partitions with most rows are written, so that memory and the number of open
files stay bounded. Files are encoded by a few threads while the next batches are split.

`ClusteredWriter` takes rows that are grouped by partition, and has one file open at a time.

A file that is marked as sorted is sorted from its first row to its last; so rows of a sorted table are buffered until
they are written as whole files. When they exceed the memory limit, each file is sorted by itself.
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
from floe.formats.columns.conversion import Conformer
from floe.formats.writers.partition_split import PartitionRows, PartitionSplitter, can_sort, sort_batch
from floe.formats.writers.rolling import RollingWriter, note_undeleted_files
from floe.formats.writers.write_target import WriteTarget
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import UNSORTED, SortOrder

T = TypeVar("T")

_MEMORY = 384 * 1024 * 1024
_OPEN_FILES = 200
_ROWS_AT_ONCE = 131_072
"""How many rows are split at once: enough to be fast, few enough to stay in the processor's cache."""

_HAND_OVER_BYTES = 32 * 1024 * 1024
"""How many buffered bytes of a partition are written to its file at once."""

_WORTH_THREADS = 4 * 1024 * 1024
"""Smaller data is written without threads."""


class RowWriter:
    """The base of both writers: aligns batches with the schema, and closes or deletes the files.

    If a `with` block raises, all files are deleted.
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
        if not can_sort(order) or not all(sort_field.source_id in self._schema.by_id for sort_field in order.fields):
            order = UNSORTED
        self._order = order
        self._content, self._equality_ids = content, tuple(equality_ids)
        self._metrics = target.metrics(self._schema)
        self._conform = Conformer(self._schema)
        self._split = PartitionSplitter(self._spec, self._schema)

    def write(self, batch: pa.RecordBatch | pa.Table, /) -> None:
        """Add rows; columns are matched by name."""
        for part in batch.to_batches() if isinstance(batch, pa.Table) else (batch,):
            for start in range(0, part.num_rows, _ROWS_AT_ONCE):
                self._add(self._conform(part.slice(start, _ROWS_AT_ONCE)))

    def close(self) -> list[DataFile]:
        """Close all files, and return them."""
        raise NotImplementedError

    def abort(self) -> list[str]:
        """Delete all files; returns the locations of those that could not be deleted."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            note_undeleted_files(error, self.abort())

    def _add(self, batch: pa.RecordBatch) -> None:
        raise NotImplementedError

    def _open_partition(self, partition: Sequence[Any]) -> RollingWriter:
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

    def _sort(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return sort_batch(batch, self._order, self._schema) if self._order.fields else batch


@dataclass(eq=False, slots=True)
class _Partition:
    """The buffered rows of a partition, and its files."""

    files: RollingWriter
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_bytes: int = 0
    buffered_bytes: int = 0
    work: Future[None] | None = None

    @property
    def memory(self) -> int:
        return self.waiting_bytes + self.buffered_bytes

    def take(self) -> list[pa.RecordBatch]:
        batches, self.waiting, self.waiting_bytes = self.waiting, [], 0
        return batches


class FanoutWriter(RowWriter):
    """Writes rows in any order of partitions, in bounded memory.

    `memory` is the maximum size of buffered rows in bytes, `open_files` the maximum number of open files, `workers` the
    number of threads that encode files: by default one for each processor, none for small data.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.partitioning.transform_terms import build_spec
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
        self._memory, self._max_open = memory, max(open_files, 1)
        self._partitions: dict[Hashable, _Partition] = {}
        self._open: dict[_Partition, None] = {}  # partitions that may have an open file, least recently written first
        self._memory_used = 0
        self._unsplit: list[pa.RecordBatch] = []
        self._unsplit_rows = 0
        self._splits: deque[tuple[float, Future[list[PartitionRows]]]] = deque()
        self._workers = _Workers(os.cpu_count() or 1 if workers is None else workers)

    def _add(self, batch: pa.RecordBatch) -> None:
        self._unsplit.append(batch)  # batches of few rows are split together
        self._unsplit_rows += batch.num_rows
        if self._unsplit_rows >= _ROWS_AT_ONCE // 2:
            self._split_batches()
            while len(self._splits) > self._workers.count:  # limits the batches that are split at a time
                self._distribute(*self._splits.popleft())

    def _split_batches(self) -> None:
        batches, self._unsplit, self._unsplit_rows = self._unsplit, [], 0
        if batches:
            batch = _concatenate(batches)
            per_row = batch.nbytes / max(batch.num_rows, 1)
            self._splits.append((per_row, self._workers.submit(partial(self._split_batch, batch))))

    def _split_batch(self, batch: pa.RecordBatch) -> list[PartitionRows]:
        return list(self._split(batch))

    def _distribute(self, per_row: float, parts: Future[list[PartitionRows]]) -> None:
        for part in parts.result():
            partition = self._partitions.get(part.key)
            if partition is None:
                partition = self._partitions[part.key] = _Partition(self._open_partition(part.values))
            size = int(part.rows.num_rows * per_row)
            partition.waiting.append(part.rows)
            partition.waiting_bytes += size
            self._memory_used += size
            if partition.waiting_bytes >= _HAND_OVER_BYTES and not self._order.fields:
                self._write_waiting(partition)
        if self._memory_used > self._memory:
            self._free_memory()

    def _write_waiting(self, partition: _Partition, *, flush: bool = False) -> None:
        """Write the buffered rows to the partition's file, which may buffer them again until they make a row group."""
        self._wait(partition)
        self._open.pop(partition, None)
        while len(self._open) >= self._max_open:  # close the least recently written one
            other = next(iter(self._open))
            del self._open[other]
            self._wait(other)
            other.files.end_file()
            other.buffered_bytes = 0
        self._open[partition] = None
        rows = partition.take()

        def write() -> None:
            partition.files.write(self._sort(_concatenate(rows)))
            if self._order.fields:
                partition.files.end_file()
            elif flush:
                partition.files.flush()
            partition.buffered_bytes = partition.files.buffered_bytes

        partition.work = self._workers.submit(write)

    def _free_memory(self) -> None:
        """Write the partitions with most rows, until three quarters of the memory are free."""
        for partition in self._partitions.values():
            self._wait(partition)
        for partition in sorted(self._partitions.values(), key=lambda candidate: candidate.memory, reverse=True):
            if self._count_memory() <= self._memory // 4:
                break
            self._write_waiting(partition, flush=True)
        for partition in self._partitions.values():
            self._wait(partition)
            if len(partition.waiting) > 1:  # slices, each of which keeps its whole batch in memory
                partition.waiting = [_concatenate(partition.waiting)]
        self._count_memory()

    def _count_memory(self) -> int:
        self._memory_used = sum(partition.memory for partition in self._partitions.values() if partition.work is None)
        return self._memory_used

    def _wait(self, partition: _Partition) -> None:
        work, partition.work = partition.work, None
        if work is not None:
            work.result()

    def close(self) -> list[DataFile]:
        """Write the buffered rows, close all files, and return them by first occurrence of their partitions."""
        if not self._splits and sum(batch.nbytes for batch in self._unsplit) < _WORTH_THREADS:
            self._workers.run_inline()
        self._split_batches()
        while self._splits:
            self._distribute(*self._splits.popleft())
        partitions = list(self._partitions.values())
        try:
            for partition in partitions:
                self._wait(partition)
                partition.work = self._workers.submit(partial(self._finish_partition, partition))
            for partition in partitions:
                self._wait(partition)
        finally:
            self._workers.stop()
        return [file for partition in partitions for file in partition.files.close()]

    def _finish_partition(self, partition: _Partition) -> None:
        if partition.waiting:
            partition.files.write(self._sort(_concatenate(partition.take())))
        partition.files.end_file()

    def abort(self) -> list[str]:
        """Delete all files; returns the locations of those that could not be deleted."""
        self._workers.stop()
        self._unsplit = []
        self._splits.clear()
        return [location for partition in self._partitions.values() for location in partition.files.abort()]


class ClusteredWriter(RowWriter):
    """Writes rows that are grouped by partition; raises `InvalidInput` if a partition occurs again."""

    def __init__(self, target: WriteTarget, **options: Any) -> None:
        super().__init__(target, **options)
        self._key: Hashable = None
        self._current: RollingWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._written: dict[Hashable, RollingWriter] = {}

    def _add(self, batch: pa.RecordBatch) -> None:
        for part in self._split(batch, clustered=True):
            if self._current is None or part.key != self._key:
                if part.key in self._written:
                    raise InvalidInput(
                        f"rows of partition {part.values} occur again, after rows of others",
                        hint="sort the rows by partition, or use the fan-out writer",
                    )
                self._end_partition()
                self._key, self._current = part.key, self._open_partition(part.values)
                self._written[part.key] = self._current
            self._waiting.append(part.rows)
            if not self._order.fields:
                self._write()
            elif sum(rows.nbytes for rows in self._waiting) > _MEMORY:
                self._write()
                self._current.end_file()

    def _write(self) -> None:
        rows, self._waiting = self._waiting, []
        if rows and self._current is not None:
            self._current.write(self._sort(_concatenate(rows)))

    def _end_partition(self) -> None:
        self._write()
        if self._current is not None:
            self._current.end_file()
        self._current = None

    def close(self) -> list[DataFile]:
        """Close the last file, and return all files in the order in which they were written."""
        self._end_partition()
        return [file for files in self._written.values() for file in files.close()]

    def abort(self) -> list[str]:
        """Delete all files; returns the locations of those that could not be deleted."""
        self._waiting, self._current = [], None
        return [location for files in self._written.values() for location in files.abort()]


class _Workers:
    """A pool of threads, created with the first task; with a count of 1, tasks run in the calling thread."""

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

    def run_inline(self) -> None:
        """Run further tasks in the calling thread, unless there are threads already."""
        if self._pool is None:
            self.count = 1

    def stop(self) -> None:
        """Wait for running tasks, and cancel the others."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _concatenate(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    listed = list(batches)
    return listed[0] if len(listed) == 1 else pa.concat_batches(listed)
