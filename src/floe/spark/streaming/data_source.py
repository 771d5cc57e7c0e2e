"""Streams of the data source `iceberg`, for sessions that Floe did not make.

They are read and written as those of a catalog are, but for what Spark's Python data sources lack: before Spark 4.2
batches have no limits. The query that an epoch is of is known by the checkpoint.
"""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition, WriterCommitMessage
from pyspark.sql.types import StructType as SparkStruct

from floe.arrow.dml.base import deleted_on_error
from floe.errors import InvalidInput
from floe.formats.writers.rolling import discard
from floe.plan.tasks import pack_tasks, split_settings
from floe.spark.bridge.streams import HAS_LIMITS, ArrowStreamWriter, BoundedStreamReader, limited, unlimited
from floe.spark.executors import shipped
from floe.spark.read.source import Source, projected
from floe.spark.read.worker import ReadTasks, pickled_tasks
from floe.spark.streaming.sink import WriteStream, publish_epoch
from floe.spark.streaming.source import BEGINNING, StreamOffset, StreamSteps, offset_of, stream_options
from floe.spark.write.columns import places_of
from floe.spark.write.options import WriteOptions
from floe.spark.write.worker import WriteRows, files_of
from floe.spec.manifests.entries import DataFile
from floe.spec.types import StructType
from floe.storage.schemes import configure_storage
from floe.table.table import Table


def stream_reader(source: Source, schema: SparkStruct) -> DataSourceStreamReader:
    """A stream of what is appended to a table, in the columns that it had when the query began."""
    made: DataSourceStreamReader = (_LimitedReader if HAS_LIMITS else _Reader)(source, schema)
    return made


class _Reader(BoundedStreamReader):  # type: ignore[misc]
    """Reads what is appended to a table."""

    def __init__(self, source: Source, schema: SparkStruct) -> None:
        self._table, self._storage = source.table, source.storage
        columns = projected(source.schema, schema.jsonValue(), StructType(()))
        self._read = ReadTasks(shipped(source.table.metadata), source.storage, columns)
        self._options = stream_options(source.options)
        self._steps = StreamSteps(source.storage, source.schema, self._options)

    def __getstate__(self) -> dict[str, Any]:
        return {"_read": self._read}  # planning is done elsewhere

    def initialOffset(self) -> dict[str, Any]:
        """Before everything."""
        return _told(BEGINNING)

    def latestOffset(self) -> dict[str, Any]:
        """How far the table goes now."""
        return _told(self._reached(BEGINNING, self._table.refresh().metadata.current_snapshot_id))

    def _reached(self, start: StreamOffset, head: int | None, **limits: int | None) -> StreamOffset:
        return self._steps.advanced(self._table.metadata, start, head, **limits)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The files from one offset to another, in parts."""
        begin, stop = offset_of(json.dumps(start)), offset_of(json.dumps(end))
        if stop.snapshot_id not in self._table.metadata.snapshots_by_id:
            self._table.refresh()
        parts = self._steps.parts(self._table.metadata, begin, stop)
        tasks = [task for part in parts for task in part.tasks()]
        bins = pack_tasks(tasks, split_settings(self._table.metadata.properties))
        found = [InputPartition(pickled_tasks(one)) for one in bins]
        return found or [InputPartition(pickled_tasks(()))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        return self._read([pa.RecordBatch.from_arrays([pa.array([partition.value], pa.binary())], ["tasks"])])

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing has to be done."""

    def stop(self) -> None:
        """Nothing has to be done."""


class _LimitedReader(_Reader):
    """The same, where Spark tells from where on a batch goes."""

    _last: int | None = None
    _is_bounded = False

    def getDefaultReadLimit(self) -> Any:
        """How much a batch has."""
        return limited(self._options.max_files, self._options.max_rows)

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # type: ignore[override]
        """How far the next batch goes."""
        if not self._is_bounded:
            self._table.refresh()
        head = self._last if self._is_bounded else self._table.metadata.current_snapshot_id
        options = self._options
        limits = {} if unlimited(limit) else {"max_files": options.max_files, "max_rows": options.max_rows}
        return _told(self._reached(offset_of(json.dumps(start)), head, **limits))

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now, and no more."""
        self._is_bounded, self._last = True, self._table.refresh().metadata.current_snapshot_id


def _told(offset: StreamOffset) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(str(offset))
    return told


# writing ----------------------------------------------------------------------------------------------------------


@dataclass
class _Written(WriterCommitMessage):
    """The files of a task, pickled."""

    files: bytes


def stream_writer(
    table: Table, schema: SparkStruct, options: Mapping[str, str], write: WriteOptions, *, replaces: bool
) -> Any:
    """A writer of a stream to a table."""
    return _Writer(table, schema, options.get("checkpointLocation"), write, replaces=replaces)


class _Writer(ArrowStreamWriter):  # type: ignore[misc]
    """Writes a stream, every epoch once."""

    def __init__(
        self, table: Table, schema: SparkStruct, checkpoint: str | None, options: WriteOptions, *, replaces: bool
    ) -> None:
        self.schema = schema
        self._table, self._checkpoint, self._options, self._replaces = table, checkpoint, options, replaces
        places = places_of(table.schema, schema.jsonValue(), case_sensitive=False, table=table.name)
        work = WriteRows(shipped(table.metadata), table.storage, str(uuid.uuid4()), dict(options.overrides))
        self._work = WriteStream(work, places)

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "_work": self._work}

    def write_batches(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        return _Written(pickle.dumps(files_of(batch.column(0)[0].as_py() for batch in self._work(batches))))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the files of an epoch, unless the table has it already."""
        files = _files(messages)
        with deleted_on_error(self._table.storage, files):
            query = _query_id(self._checkpoint)
        publish_epoch(self._table, files, query, batchId, self._options, replaces=self._replaces)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Delete the files of the tasks that had finished; a commit does so itself, unless it may have been made.

        This is another process than that of the commit: whether there was one is told by the tasks, for only if all
        have finished there is one.
        """
        if None in messages:
            discard(self._table.storage, [file.file_path for file in _files(messages)])


def _files(messages: list[WriterCommitMessage | None]) -> list[DataFile]:
    return files_of(message.files for message in messages if isinstance(message, _Written))


def _query_id(checkpoint: str | None) -> str:
    """The id of the query, which its checkpoint has: a source is not told it."""
    if checkpoint is None:
        raise InvalidInput(
            "a stream is written once only if its checkpoint is known", hint='give .option("checkpointLocation", …)'
        )
    location = f"{checkpoint.rstrip('/')}/metadata"
    found: str = json.loads(configure_storage(location, {}).read(location))["id"]
    return found
