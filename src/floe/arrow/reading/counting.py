"""Rows counted: by metadata where it tells, by the deletes of a file where they do, by reading where it has to be."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from floe.arrow.reading.streaming import OnProgress, stream_tasks
from floe.arrow.reading.tasks import TaskReader
from floe.formats.projection import rows_without_columns
from floe.plan.counts import count_rows
from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import FileTask
from floe.spec.expressions.nodes import TRUE
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage

__all__ = ["count_plan"]

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
