"""A plan read as a stream of batches: several files at once, in order, and only so much of them in memory.

A stream of batches as a user holds it: an iterator that can be closed, and that every Arrow library takes.

Rows counted: by metadata where it tells, by the deletes of a file where they do, by reading where it has to be.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, TypeAlias

import pyarrow as pa

from floe.arrow.reading.parallel import Finished, read_in_parallel
from floe.arrow.reading.task_reader import TaskReader
from floe.errors import InvalidInput
from floe.formats.model import DEFAULT_BATCH_SIZE
from floe.formats.projection import rows_without_columns
from floe.formats.registry import Registry
from floe.plan.counts import count_rows
from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import FileTask, split_task
from floe.spec.expressions.nodes import TRUE
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage

_MAX_WORKERS = 8
WAITING_BYTES = 32 * 2**20
"""How many bytes of batches wait for the consumer, about."""

_STRETCH = 32 * 2**20
"""Large files are read in stretches of about this size, so that several threads can read one file."""

_SPLITTABLE = ("parquet", "orc")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a read has come.

    >>> print(Progress(files=1, total_files=4, rows=1000, bytes=25, total_bytes=100))
    1 of 4 files, 1,000 rows, 25%
    """

    files: int
    """Files that are read to their end."""

    total_files: int
    rows: int
    """Rows that were given out."""

    bytes: int
    """Bytes of the files, or parts of them, that are read to their end."""

    total_bytes: int

    @property
    def share(self) -> float:
        """How much is done, from 0 to 1."""
        return self.bytes / self.total_bytes if self.total_bytes else 1.0

    def __str__(self) -> str:
        return f"{self.files:,} of {self.total_files:,} files, {self.rows:,} rows, {self.share:.0%}"


OnProgress: TypeAlias = Callable[[Progress], object]
"""What is told how far a read has come: after every batch, and after every file."""


class Tally:
    """Counts what was read, and tells it.

    >>> tally = Tally(print)
    >>> tally.expect(files=2, bytes_=100)
    >>> tally.given(rows=5)
    0 of 2 files, 5 rows, 0%
    """

    def __init__(self, progress: OnProgress | None) -> None:
        self._progress = progress
        self._now = Progress(0, 0, 0, 0, 0)

    def expect(self, files: int, bytes_: int) -> None:
        """More is to be read."""
        now = self._now
        self._now = replace(now, total_files=now.total_files + files, total_bytes=now.total_bytes + bytes_)

    def given(self, rows: int) -> None:
        """Rows are given out."""
        self._tell(replace(self._now, rows=self._now.rows + rows))

    def finished(self, task: FileTask) -> None:
        """A file, or a stretch of it, was read to its end."""
        is_last = task.start + task.length >= task.file.file_size_in_bytes
        now = self._now
        self._tell(replace(now, files=now.files + is_last, bytes=now.bytes + task.length))

    def _tell(self, now: Progress) -> None:
        self._now = now
        if self._progress is not None:
            self._progress(now)


def default_workers() -> int:
    """How many threads read at once unless told: one for each processor, at least two, at most eight."""
    return max(2, min(_MAX_WORKERS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 4))


def read_plan(
    plan: ScanPlan,
    schema: Schema,
    storage: Storage,
    *,
    batch_size: int = DEFAULT_BATCH_SIZE,
    workers: int | None = None,
    progress: OnProgress | None = None,
    ordered: bool = True,
    registry: Registry | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a plan in the columns of a schema, which may hold metadata columns.

    Files are read by several threads, and given out in the plan's order unless `ordered` is false. What waits in memory
    has a limit, so that a slow consumer holds up the threads. Closing the iterator early ends them.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> t = lake.create_table("db.t", "id bigint")
    >>> list(read_plan(t.scan().plan(), t.schema, t.storage))
    []
    """
    reader = TaskReader(plan.metadata, storage, registry=registry, batch_size=batch_size)
    workers = default_workers() if workers is None else workers
    return stream_tasks(
        _stretches(plan.tasks(), len(plan), workers),
        lambda task: reader.batches(task, schema),
        total_files=len(plan),
        total_bytes=plan.size,
        workers=workers,
        progress=progress,
        ordered=ordered,
    )


def stream_tasks(
    tasks: Iterable[FileTask],
    read: Callable[[FileTask], Iterator[pa.RecordBatch]],
    *,
    total_files: int,
    total_bytes: int,
    workers: int | None = None,
    progress: OnProgress | None = None,
    ordered: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The batches of some tasks, or stretches of them, as `read` gives them."""
    workers = default_workers() if workers is None else workers
    if workers < 1:
        raise InvalidInput(f"at least one thread has to read, found workers={workers}")
    single = total_files <= 1 and total_bytes <= _STRETCH
    found = read_in_parallel(read, tasks, workers=1 if single else workers, budget=WAITING_BYTES, ordered=ordered)
    tally = Tally(progress)
    tally.expect(total_files, total_bytes)
    return _reported(found, tally)


def _reported(found: Iterator[pa.RecordBatch | Finished[FileTask]], tally: Tally) -> Iterator[pa.RecordBatch]:
    try:
        for one in found:
            if isinstance(one, Finished):
                tally.finished(one.item)
            else:
                tally.given(one.num_rows)
                yield one
    finally:
        found.close()  # type: ignore[attr-defined]  # it is a generator


def _stretches(tasks: Iterable[FileTask], count: int, workers: int) -> Iterator[FileTask]:
    """The tasks, those of large files in stretches if there are so few files that threads would have nothing to do."""
    few = count < 4 * workers and workers > 1
    for task in tasks:
        if few and task.length > 2 * _STRETCH and task.file.file_format in _SPLITTABLE and task.file.split_offsets:
            yield from _joined(split_task(task, _STRETCH))
        else:
            yield task


def _joined(parts: Iterable[FileTask]) -> Iterator[FileTask]:
    """Neighbouring parts of a file put together up to the size of a stretch; what lies before the first is with it."""
    held: FileTask | None = None
    for part in parts:
        if held is None:
            held = part.part(0, part.start + part.length)
        elif held.length + part.length <= _STRETCH:
            held = held.part(held.start, held.length + part.length)
        else:
            yield held
            held = part
    if held is not None:
        yield held


# A stream of batches as a user holds it: an iterator that can be closed, and that every Arrow library takes.


class BatchStream:
    """Record batches, read while they are taken; each can be taken once.

    Close it, or use it in a `with` block, to stop before the end: threads and files are let go of then.

    >>> stream = BatchStream(pa.schema([("n", pa.int64())]), iter([pa.record_batch({"n": [1, 2]})]))
    >>> stream.schema.names, [batch.num_rows for batch in stream]
    (['n'], [2])
    """

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self.schema = schema
        """The Arrow schema of all batches."""

        self._batches = batches

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def read_all(self) -> pa.Table:
        """Everything that has not been taken yet, as one table."""
        with self:
            return pa.Table.from_batches(list(self._batches), self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The same as a pyarrow reader."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The stream for any library that knows Arrow's C stream interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Read no more; closing twice does nothing."""
        if hasattr(self._batches, "close"):
            self._batches.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<BatchStream: {', '.join(self.schema.names) or 'no columns'}>"


# Rows counted: by metadata where it tells, by the deletes of a file where they do, by reading where it has to be.

_NO_COLUMNS = Schema(())


def count_plan(
    plan: ScanPlan, storage: Storage, *, workers: int | None = None, progress: OnProgress | None = None
) -> int:
    """How many rows a plan has, once deletes and the filter are applied.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> t = lake.create_table("db.t", "id bigint")
    >>> count_plan(t.scan().plan(), t.storage)
    0
    """
    known = count_rows(plan)
    if known.is_complete:
        return known.count
    tasks = list(known.tasks())
    reader = TaskReader(plan.metadata, storage)
    counted = stream_tasks(
        tasks,
        lambda task: _rows(reader, task),
        total_files=len(tasks),
        total_bytes=sum(task.length for task in tasks),
        workers=workers,
        progress=progress,
        ordered=False,
    )
    return known.count + sum(int(batch.num_rows) for batch in counted)


def _rows(reader: TaskReader, task: FileTask) -> Iterator[pa.RecordBatch]:
    """The rows of a task, with nothing in them; positions that are deleted tell how many are left, if that is all."""
    file = task.file
    by_position = not any(delete.is_equality_delete_file for delete in task.deletes)
    if by_position and task.residual == TRUE and file.record_count >= 0 and task.is_whole:
        left = file.record_count - len(reader.deleted_positions(task))
        if left:
            yield rows_without_columns(left)
        return
    yield from reader.batches(task, _NO_COLUMNS)
