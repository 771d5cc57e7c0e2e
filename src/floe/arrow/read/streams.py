"""Plans read as streams of record batches, with progress, row counts and column sketches.

`read_plan` reads several files in parallel, in the order of the plan; the batches that wait for the consumer have a
limit in bytes. Large files are split when there are too few files for all threads. `BatchStream` wraps the batches for
users: an iterator that can be closed, with Arrow's C stream interface.

`count_plan` counts rows: from metadata where that is exact, from the deleted positions of a file where these suffice,
and by reading otherwise. `ColumnSketches` estimates the distinct values of columns from the batches that are read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.read.parallel import Finished, read_in_parallel
from floe.arrow.read.task_reader import TaskReader
from floe.errors import InvalidInput
from floe.formats.columns.projection import rows_without_columns
from floe.formats.columns.transforms import can_hash, hash_column
from floe.formats.model import DEFAULT_BATCH_SIZE
from floe.formats.registry import Registry
from floe.plan.counts import count_rows
from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import FileTask, split_task
from floe.spec.codecs.theta_sketches import ThetaSketch
from floe.spec.expressions.nodes import TRUE
from floe.spec.schemas.schema import Schema, SchemaField
from floe.storage.protocol import Storage

_MAX_WORKERS = 8
WAITING_BYTES = 32 * 2**20
"""About how many bytes of batches may wait for the consumer."""

_SPLIT_BYTES = 32 * 2**20
"""Large files are read in splits of about this size, so that several threads can read one file."""

_SPLITTABLE = ("parquet", "orc")


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a read.

    >>> print(Progress(files=1, total_files=4, rows=1000, bytes=25, total_bytes=100))
    1 of 4 files, 1,000 rows, 25%
    """

    files: int
    """Files that have been read completely."""

    total_files: int
    rows: int
    """Rows that the consumer has received."""

    bytes: int
    """Bytes of the files and splits that have been read completely."""

    total_bytes: int

    @property
    def share(self) -> float:
        """The share of the bytes that has been read, from 0 to 1."""
        return self.bytes / self.total_bytes if self.total_bytes else 1.0

    def __str__(self) -> str:
        return f"{self.files:,} of {self.total_files:,} files, {self.rows:,} rows, {self.share:.0%}"


OnProgress: TypeAlias = Callable[[Progress], object]
"""A function that is called with the progress of a read after every batch and after every file."""


class ProgressCounter:
    """Counts what has been read, and reports it.

    >>> counter = ProgressCounter(print)
    >>> counter.expect(files=2, bytes_=100)
    >>> counter.add_rows(rows=5)
    0 of 2 files, 5 rows, 0%
    """

    def __init__(self, progress: OnProgress | None) -> None:
        self._progress = progress
        self._state = Progress(0, 0, 0, 0, 0)

    def expect(self, files: int, bytes_: int) -> None:
        """Add files and bytes that will be read."""
        state = self._state
        self._state = replace(state, total_files=state.total_files + files, total_bytes=state.total_bytes + bytes_)

    def add_rows(self, rows: int) -> None:
        """Count rows that the consumer receives."""
        self._report(replace(self._state, rows=self._state.rows + rows))

    def finish_task(self, task: FileTask) -> None:
        """Count a file, or a split of it, that has been read completely."""
        is_last = task.start + task.length >= task.file.file_size_in_bytes
        state = self._state
        self._report(replace(state, files=state.files + is_last, bytes=state.bytes + task.length))

    def _report(self, state: Progress) -> None:
        self._state = state
        if self._progress is not None:
            self._progress(state)


def default_workers() -> int:
    """The default number of threads: one per processor, at least two and at most eight."""
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
    """Read the rows of a plan in the columns of a schema, which may have metadata columns.

    Files are read by several threads, and returned in the plan's order unless `ordered` is false. The batches that wait
    in memory are limited, so a slow consumer blocks the threads. Closing the iterator stops them.

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
        _split_large_files(plan.tasks(), len(plan), workers),
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
    """The batches that `read` returns for some tasks, read in parallel, with progress reports."""
    workers = default_workers() if workers is None else workers
    if workers < 1:
        raise InvalidInput(f"workers must be at least 1, found {workers}")
    single = total_files <= 1 and total_bytes <= _SPLIT_BYTES
    batches = read_in_parallel(read, tasks, workers=1 if single else workers, budget=WAITING_BYTES, ordered=ordered)
    counter = ProgressCounter(progress)
    counter.expect(total_files, total_bytes)
    return _report_progress(batches, counter)


def _report_progress(
    batches: Iterator[pa.RecordBatch | Finished[FileTask]], counter: ProgressCounter
) -> Iterator[pa.RecordBatch]:
    try:
        for item in batches:
            if isinstance(item, Finished):
                counter.finish_task(item.item)
            else:
                counter.add_rows(item.num_rows)
                yield item
    finally:
        batches.close()  # type: ignore[attr-defined]  # it is a generator


def _split_large_files(tasks: Iterable[FileTask], count: int, workers: int) -> Iterator[FileTask]:
    """The tasks, with large files split if there are too few files to keep all threads busy."""
    few = count < 4 * workers and workers > 1
    for task in tasks:
        if few and task.length > 2 * _SPLIT_BYTES and task.file.file_format in _SPLITTABLE and task.file.split_offsets:
            yield from _join_splits(split_task(task, _SPLIT_BYTES))
        else:
            yield task


def _join_splits(splits: Iterable[FileTask]) -> Iterator[FileTask]:
    """Join adjacent splits of a file up to `_SPLIT_BYTES`; the first one also covers the bytes before it."""
    joined: FileTask | None = None
    for split in splits:
        if joined is None:
            joined = split.part(0, split.start + split.length)
        elif joined.length + split.length <= _SPLIT_BYTES:
            joined = joined.part(joined.start, joined.length + split.length)
        else:
            yield joined
            joined = split
    if joined is not None:
        yield joined


# Streams --------------------------------------------------------------------------------------------------------------


class BatchStream:
    """An iterator of record batches that are read while it is consumed; it can be consumed once.

    Close it, or use it in a `with` block, to stop before the end: that stops the threads and closes the files.

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
        """Read all remaining batches into one table."""
        with self:
            return pa.Table.from_batches(list(self._batches), self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The remaining batches as a pyarrow reader."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The remaining batches for any library that supports Arrow's C stream interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Stop reading; closing again has no effect."""
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


# Row counts -----------------------------------------------------------------------------------------------------------

_NO_COLUMNS = Schema(())


def count_plan(
    plan: ScanPlan, storage: Storage, *, workers: int | None = None, progress: OnProgress | None = None
) -> int:
    """The number of rows of a plan, with deletes and the filter applied.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> t = lake.create_table("db.t", "id bigint")
    >>> count_plan(t.scan().plan(), t.storage)
    0
    """
    metadata_count = count_rows(plan)
    if metadata_count.is_complete:
        return metadata_count.count
    tasks = list(metadata_count.tasks())
    reader = TaskReader(plan.metadata, storage)
    batches = stream_tasks(
        tasks,
        lambda task: _count_batches(reader, task),
        total_files=len(tasks),
        total_bytes=sum(task.length for task in tasks),
        workers=workers,
        progress=progress,
        ordered=False,
    )
    return metadata_count.count + sum(int(batch.num_rows) for batch in batches)


def _count_batches(reader: TaskReader, task: FileTask) -> Iterator[pa.RecordBatch]:
    """Batches without columns that have as many rows as a task; the file is not read if its deletes are positions."""
    file = task.file
    by_position = not any(delete.is_equality_delete_file for delete in task.deletes)
    if by_position and task.residual == TRUE and file.record_count >= 0 and task.is_whole:
        live_rows = file.record_count - len(reader.deleted_positions(task))
        if live_rows:
            yield rows_without_columns(live_rows)
        return
    yield from reader.batches(task, _NO_COLUMNS)


# Column sketches ------------------------------------------------------------------------------------------------------


def countable_columns(
    schema: Schema, names: Iterable[str | Sequence[str]] | None = None, *, case_sensitive: bool = True
) -> tuple[SchemaField, ...]:
    """The columns whose distinct values can be counted: the named ones, or by default all top-level ones.

    Raises `InvalidInput` if the values of a named column cannot be counted.

    >>> from floe.spec.types import VARIANT, Field
    >>> countable_columns(Schema((Field(1, "v", VARIANT),)), ["v"])
    Traceback (most recent call last):
    floe.errors.InvalidInput: the values of variant v cannot be counted; only those of single values can, also inside
    structs (column: v)
    """
    if names is None:
        return tuple(entry for entry in schema.by_id.values() if not entry.ancestors and can_hash(entry.field.type))
    columns = {}
    for name in names:
        entry = schema.resolve(name, case_sensitive=case_sensitive)
        if entry.in_collection or not can_hash(entry.field.type):
            raise InvalidInput(
                f"the values of {entry.field.type} {entry.name} cannot be counted; only those of single values can, "
                "also inside structs",
                column=entry.name,
            )
        columns[entry.field.id] = entry
    return tuple(columns.values())


class ColumnSketches:
    """Sketches of some columns, updated batch by batch, that estimate how many distinct values the columns have.

    >>> from floe.spec.types import LONG, Field
    >>> schema = Schema((Field(1, "id", LONG),))
    >>> sketches = ColumnSketches(countable_columns(schema))
    >>> sketches.add(pa.record_batch({"id": [1, 2, 2, None]}))
    >>> sketches.by_field_id[1].estimate
    2
    """

    def __init__(self, columns: Iterable[SchemaField]) -> None:
        self._columns = tuple(columns)
        self.by_field_id: dict[int, ThetaSketch] = {entry.field.id: ThetaSketch() for entry in self._columns}
        """The sketch of each column, by field id."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the values of a batch, which has the columns under their names."""
        for entry in self._columns:
            values = batch.column(entry.path[0])
            for name in entry.path[1:]:
                values = pc.struct_field(values, name)  # null where the struct is null
            hashes = hash_column(entry.field.type, values)
            self.by_field_id[entry.field.id] = self.by_field_id[entry.field.id].add_hashes(hashes)
