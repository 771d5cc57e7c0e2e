"""Streams written to a table: `df.writeStream.toTable("lake.db.t")`, every epoch once.

The tasks of an epoch write files, and the driver commits them in a snapshot that tells query and epoch. When an epoch
comes again, because the query failed between that commit and its checkpoint or because another driver of it is still
at work, the table has it already, and the files of the second time are thrown away.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from floe.arrow.changing.base import deleted_on_error
from floe.commit.change import Change
from floe.commit.footprint import BLIND, Isolation
from floe.commit.operations.append import FastAppend
from floe.commit.operations.overwrite import Overwrite
from floe.errors import UnsupportedFeature
from floe.formats.arrow_values import constant_array
from floe.formats.writers.rolling import discard
from floe.spark.bridge.interfaces.streams import StreamingWrite
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.rules import Rewritable
from floe.spark.shipping import shipped
from floe.spark.streaming.columns import places_of
from floe.spark.streaming.epochs import EpochExists, OnlyOnce, epoch_summary
from floe.spark.streaming.together import with_partitions_together
from floe.spark.write.distribution import distribution_mode
from floe.spark.write.options import WriteOptions
from floe.spark.write.python_writer import PythonTasks
from floe.spark.write.worker import WriteRows, files_of
from floe.spec.expressions.nodes import TRUE
from floe.spec.manifests.entries import DataFile
from floe.table.committing import branch_of, change_options, make_changes
from floe.table.table import Table

__all__ = ["TableStreamingWrite", "WriteStream", "publish_epoch"]


@dataclass(frozen=True)
class WriteStream:
    """Writes rows whose columns are some of the table's, in any order."""

    work: WriteRows
    places: tuple[int | None, ...]
    """For each column of the table its place in the rows, if they have it."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of a task."""
        return self.work(map(self._ordered, batches))

    def _ordered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        fields = self.work.metadata.schema.fields
        arrays = [
            constant_array(field.type, field.write_default, batch.num_rows) if place is None else batch.column(place)
            for field, place in zip(fields, self.places, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=[field.name for field in fields])


class TableStreamingWrite(StreamingWrite, Rewritable):
    """A write of a stream to a table: appends, or with `replaces` all rows anew in each epoch.

    Spark makes one for each epoch, so the table is written as it is then.
    """

    _committing = False

    def __init__(
        self, jvm: Jvm, name: str, table: Table, options: WriteOptions, schema: Any, query_id: str, *, replaces: bool
    ) -> None:
        super().__init__(jvm)
        if options.wap_id is not None:
            raise UnsupportedFeature(
                "streams cannot be staged under spark.wap.id",
                hint="write to a branch, with spark.wap.branch",
                table=name,
            )
        self._name, self._options, self._schema, self._query_id = name, options, schema, query_id
        self._table = Table.load(table._pointer)
        self._replaces, self._tasks = replaces, PythonTasks(jvm)
        rows = jvm.read_data_type(schema)
        self._places = places_of(self._table.schema, rows, case_sensitive=jvm.is_case_sensitive, table=name)

    def title(self) -> str:
        """What plans show."""
        return f"Floe table {self._name}: stream"

    def rewritten(self, node: Any) -> Any:
        """The same with its rows brought together."""
        metadata = self._table.metadata
        mode = distribution_mode(metadata, self._options.distribution)
        query = node.query()
        together = with_partitions_together(self.jvm, query, metadata, mode)
        return node if together is query else node.withNewChildren(self.jvm.seq([together]))

    def createStreamingWriterFactory(self, info: Any) -> Any:
        """What writes the rows of a task, in an executor."""
        table = self._table
        work = WriteRows(shipped(table.metadata), table.storage, str(uuid.uuid4()), dict(self._options.overrides))
        return self._tasks.factory(WriteStream(work, self._places), self._schema, table.schema, streaming=True)

    def commit(self, epoch: int, messages: Any) -> None:
        """Commit the files of an epoch, unless the table has it already."""
        self._committing = True
        files = files_of(self._tasks.said(messages))
        publish_epoch(self._table, files, self._query_id, epoch, self._options, replaces=self._replaces)

    def abort(self, epoch: int, messages: Any) -> None:
        """Delete the files of the tasks that had finished; a commit does so itself, unless it may have been made."""
        if self._committing:
            return
        discard(self._table.storage, [file.file_path for file in files_of(self._tasks.said(messages))])


def publish_epoch(
    table: Table,
    files: Sequence[DataFile],
    query_id: str,
    epoch: int,
    options: WriteOptions,
    *,
    replaces: bool = False,
) -> bool:
    """Commit the files of an epoch; False if the table has it already, and the files are thrown away."""
    with deleted_on_error(table.storage, files):
        table.refresh()
        actions = table if options.branch is None else table.branch(options.branch, create=True)
        summary = {**options.summary, **epoch_summary(query_id, epoch)}
        own = change_options(actions, summary, Isolation(options.isolation))
        own["fresh"] = True
        change: Change
        if replaces:
            change = Overwrite(added=files, where=TRUE, reads=BLIND, **own)
        elif files:
            change = FastAppend(files, **own)
        else:
            return True
    once = OnlyOnce(branch_of(actions), query_id, epoch)
    try:
        make_changes(actions, [once, change], [file.file_path for file in files])
    except EpochExists:
        return False
    return True
