"""What runs in Spark's Python workers to read changes: the Arrow reader, file by file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from floe.arrow.reading.tasks import TaskReader
from floe.plan.changelog import AddedRows, ChangeTask, DeletedRows
from floe.spark.scan.worker import for_spark, tasks_of
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.metadata_columns import CHANGE_ORDINAL, CHANGE_TYPE, COMMIT_SNAPSHOT_ID, is_metadata_column
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage

__all__ = ["ReadChanges"]


@dataclass(frozen=True)
class ReadChanges:
    """Reads pickled tasks of changes, and gives the rows as Spark wants them."""

    metadata: TableMetadata
    storage: Storage
    schema: Schema
    """The wanted columns, of which some may tell of the change."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the tasks that come, one partition after the other."""
        reader = TaskReader(self.metadata, self.storage)
        own = tuple(field for field in self.schema.fields if not is_metadata_column(field.id))
        columns = Schema(own or self.metadata.schema.fields[:1])  # rows are counted by a column
        for task in tasks_of(batches):
            for rows in _rows(reader, task, columns):
                yield self._told(rows, task)

    def _told(self, rows: pa.RecordBatch, task: ChangeTask) -> pa.RecordBatch:
        """The rows with what tells of the change."""
        told = {
            CHANGE_TYPE.id: pa.scalar("INSERT" if isinstance(task, AddedRows) else "DELETE"),
            CHANGE_ORDINAL.id: pa.scalar(task.ordinal, pa.int32()),
            COMMIT_SNAPSHOT_ID.id: pa.scalar(task.snapshot_id, pa.int64()),
        }
        own = iter(rows.columns)
        arrays = [
            pa.repeat(told[field.id], rows.num_rows) if field.id in told else next(own) for field in self.schema.fields
        ]
        named = pa.RecordBatch.from_arrays(arrays, names=[field.name for field in self.schema.fields])
        return for_spark(named, self.schema.fields)


def _rows(reader: TaskReader, task: ChangeTask, columns: Schema) -> Iterator[pa.RecordBatch]:
    if isinstance(task, DeletedRows):
        return reader.newly_deleted(task.task, task.added_deletes, columns)
    return reader.batches(task.task, columns)
