"""A table as a stream: `spark.readStream.table("lake.db.t")`.

Each batch reads the files that were appended since the last one, with the readers of other reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from floe.errors import InvalidInput
from floe.plan.splits import SplitSettings, pack_tasks
from floe.spark.bridge.interfaces.streams import MicroBatchStream, SupportsTriggerAvailableNow
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.partitioned_files import partitioned_files
from floe.spark.bridge.rules import Rewritable
from floe.spark.bridge.streams import Limits, java_offset, read_limit, read_limits
from floe.spark.columns import spark_schema
from floe.spark.scan.native import native_columns, reader_factory, why_not_native
from floe.spark.scan.projection import projected
from floe.spark.scan.python_reader import python_partitions, python_reader_factory
from floe.spark.scan.reach import why_not_reachable
from floe.spark.scan.source import Source
from floe.spark.scan.splits import file_parts
from floe.spark.scan.worker import ReadTasks, pickled_tasks
from floe.spark.shipping import shipped
from floe.spark.streaming.offsets import BEGINNING, offset_of
from floe.spark.streaming.options import stream_options
from floe.spark.streaming.steps import Part, StreamSteps
from floe.spec.partitioning.partition_spec import unified_partition_type
from floe.spec.schemas.schema import Schema
from floe.table.table import Table

__all__ = ["TableStream"]

_INPUT: Final = "org.apache.spark.sql.connector.read.InputPartition"
_COLUMNS: Final = ["file_path", "file_format", "file_size_in_bytes", "spec_id", "split_offsets", "key_metadata"]


class TableStream(MicroBatchStream, SupportsTriggerAvailableNow, Rewritable):
    """What is appended to a table, batch by batch."""

    def __init__(self, jvm: Jvm, source: Source, wanted: Schema) -> None:
        super().__init__(jvm)
        branch = source.as_of.ref
        is_branch = branch is not None and (branch not in source.table.refs or source.table.refs[branch].is_branch)
        if source.since is not None or not (source.as_of.is_now or is_branch):
            raise InvalidInput(
                "a stream reads what is appended to a table, not a state in its past",
                hint="leave out the options that choose a snapshot, or begin with stream-from-timestamp",
                table=source.name,
            )
        self._source, self._wanted, self._branch = source, wanted, branch
        # others use the table too, and must not see it change
        self._table = Table(source.table._pointer, source.table._state)
        self._steps = StreamSteps(source.storage, source.schema, stream_options(source.options))
        self._last: int | None = None
        """The snapshot up to which is read, if only what was there at the beginning is."""

        self._is_bounded = False
        self._native = False
        """Whether Spark's own reader reads the batch that was planned last."""

    def title(self) -> str:
        """What Spark says when it tells of the stream."""
        return f"Floe stream of {self._source.name}"

    # how far -----------------------------------------------------------------------------------------------------

    def initialOffset(self) -> Any:
        """Before everything; what that is the first batch finds out, and each repetition of it."""
        return java_offset(self.jvm, str(BEGINNING))

    def deserializeOffset(self, json: str) -> Any:
        """The offset of a checkpoint."""
        return java_offset(self.jvm, str(offset_of(json)))

    def getDefaultReadLimit(self) -> Any:
        """How much a batch has at most."""
        options = self._steps.options
        return read_limit(self.jvm, Limits(options.max_files, options.max_rows))

    def latestOffset(self, *how: Any) -> Any:
        """How far the next batch goes."""
        start = offset_of(how[0].json()) if how else BEGINNING
        limits = read_limits(self.jvm, how[1]) if how else Limits()
        if not self._is_bounded:
            self._table.refresh()
        head = self._last if self._is_bounded else self._head()
        reached = self._steps.advanced(self._table.metadata, start, head, max_files=limits.files, max_rows=limits.rows)
        return java_offset(self.jvm, str(reached))

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now, and no more."""
        self._table.refresh()
        self._is_bounded, self._last = True, self._head()

    def _head(self) -> int | None:
        metadata = self._table.metadata
        if self._branch is None or self._branch not in metadata.refs:
            return metadata.current_snapshot_id
        return metadata.refs[self._branch].snapshot_id

    def rewritten(self, node: Any) -> Any:
        """The node: only from it older versions of Spark let a stream know that metadata columns are asked for."""
        metadata = self._table.metadata
        partitions = unified_partition_type(metadata.partition_specs, metadata.schemas)
        self._wanted = projected(self._source.schema, self.jvm.read_data_type(node.schema()), partitions)
        return node

    # the rows ----------------------------------------------------------------------------------------------------

    def planInputPartitions(self, start: Any, end: Any) -> Any:
        """The files of a batch in parts, packed into partitions."""
        begin, stop = offset_of(start.json()), offset_of(end.json())
        if stop != BEGINNING and stop.snapshot_id not in self._table.metadata.snapshots_by_id:
            self._table.refresh()
        parts = list(self._steps.parts(self._table.metadata, begin, stop))
        files = pa.concat_tables([part.files().select(_COLUMNS) for part in parts]) if parts else None
        self._native = files is not None and self._reads_natively(parts, files)
        if files is None:
            return self.jvm.array(_INPUT, [])
        total, parallelism = pc.sum(files["file_size_in_bytes"]).as_py(), self.jvm.context.defaultParallelism
        splits = self._source.split_settings(total, parallelism)
        if self._native:
            return self._native_partitions(files, splits)
        tasks = (task for part in parts for task in part.tasks())
        return python_partitions(self.jvm, map(pickled_tasks, pack_tasks(tasks, splits)))

    def createReaderFactory(self) -> Any:
        """Who reads the parts of the batch that was planned last."""
        metadata = self._table.metadata
        if self._native:
            return reader_factory(self.jvm, native_columns(metadata, self._wanted))
        read = ReadTasks(shipped(metadata), self._source.storage, self._wanted)
        return python_reader_factory(self.jvm, read, spark_schema(self._wanted.fields))

    def _reads_natively(self, parts: Sequence[Part], files: pa.Table) -> bool:
        columns = native_columns(self._table.metadata, self._wanted)
        if columns.fields != self._wanted.fields or not self._wanted.fields:
            return False  # a stream's columns come in the order in which they are asked for
        formats = files["file_format"].unique().to_pylist()
        return (
            all(why_not_native(part.plan, self._wanted, formats) is None for part in parts)
            and not any(part.plan.has_deletes for part in parts)
            and why_not_reachable(self.jvm, self._source) is None
        )

    def _native_partitions(self, files: pa.Table, splits: SplitSettings) -> Any:
        columns = native_columns(self._table.metadata, self._wanted)
        parts = file_parts(files, self._source.storage, columns.constants, splits.target_size)
        return partitioned_files(self.jvm, parts, columns.kinds, splits.target_size, splits.open_file_cost)
