"""A table as the source of a stream: `spark.readStream.table("lake.db.t")`.

Each micro-batch reads the files that were appended since the last one, with the readers of batch scans. `StreamPlanner`
follows a branch snapshot by snapshot and lists the files that appends added. A `StreamOffset` says how far a stream has
come: a snapshot, and how many of its files have been read. It is written to checkpoints as Java Iceberg writes it.

A stream begins with the oldest snapshot of the table, unless it has the option `stream-from-timestamp`. If the parent
of that snapshot has expired, the first batches read all rows of the snapshot, so that none is missing.

Snapshots that only rewrite files add nothing. Snapshots that delete or overwrite rows are an error, unless an option
skips them: a stream has only appended rows.

| option | meaning |
|---|---|
| `stream-from-timestamp` (milliseconds) | begin with the first snapshot at or after that time |
| `streaming-skip-delete-snapshots`, `streaming-skip-overwrite-snapshots` | skip them instead of failing |
| `streaming-max-files-per-micro-batch`, `streaming-max-rows-per-micro-batch` | the most files or rows of a batch |
| `branch` | follow a branch instead of `main` |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from floe.errors import FloeError, InvalidInput, NoSuchSnapshot, UnsupportedFeature
from floe.plan.scan import ScanOptions, plan_appends, plan_scan
from floe.plan.scan_plan import ScanPlan
from floe.plan.snapshot_selection import SnapshotRange, snapshots_in_range
from floe.plan.tasks import FileTask, SplitSettings, pack_tasks
from floe.spark.bridge.interfaces.read import MicroBatchStream, SupportsTriggerAvailableNow
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.parquet_readers import file_partitions
from floe.spark.bridge.rules import Rewritable
from floe.spark.executors import executor_metadata
from floe.spark.read.arrow_reader import ReadTasks, pickle_tasks, python_partitions, python_reader_factory
from floe.spark.read.native_reader import native_columns, native_read_obstacle, reader_factory, split_files
from floe.spark.read.scan_source import ScanSource, location_obstacle, project_schema
from floe.spark.schemas import spark_schema
from floe.spark.settings import (
    STREAM_FROM,
    STREAM_MAX_FILES,
    STREAM_MAX_ROWS,
    STREAM_SKIP_DELETES,
    STREAM_SKIP_OVERWRITES,
)
from floe.spec.metadata.ancestry import ancestors
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import unified_partition_type
from floe.spec.schemas.schema import Schema
from floe.spec.values.civil_time import millis_to_text
from floe.storage.protocol import Storage
from floe.table.table import Table

# Offsets and limits ---------------------------------------------------------------------------------------------------

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """How far a stream has come: all appends before a snapshot, and the first `position` files of the snapshot.

    >>> print(StreamOffset(17, 2))
    {"version":1,"snapshot_id":17,"position":2,"scan_all_files":false}
    """

    snapshot_id: int
    position: int
    all_files: bool = False
    """Whether the stream reads all files of the snapshot, not only those that it added: it began there."""

    def __str__(self) -> str:
        document = {
            "version": _VERSION,
            "snapshot_id": self.snapshot_id,
            "position": self.position,
            "scan_all_files": self.all_files,
        }
        return json.dumps(document, separators=(",", ":"))


BEGINNING: Final = StreamOffset(-1, -1)
"""The offset of a stream that has read nothing."""


def parse_offset(text: str) -> StreamOffset:
    """Parse the offset of a checkpoint; raises `InvalidInput` if it is not one of an Iceberg stream.

    >>> parse_offset('{"version": 1, "snapshot_id": 17, "position": 2, "scan_all_files": true}')
    StreamOffset(snapshot_id=17, position=2, all_files=True)
    """
    try:
        document = json.loads(text)
        if document["version"] != _VERSION:
            raise InvalidInput(
                f"the checkpoint has an offset of version {document['version']}; only version {_VERSION} is supported"
            )
        return StreamOffset(int(document["snapshot_id"]), int(document["position"]), bool(document["scan_all_files"]))
    except (KeyError, TypeError, ValueError):
        raise InvalidInput(
            f"the offset in the checkpoint is not one of a stream of an Iceberg table: {text:.200}",
            hint="use a separate checkpoint location for this query",
        ) from None


_LIMIT: Final = "org.apache.spark.sql.connector.read.streaming.ReadLimit"
_OFFSETS: Final = (
    "org.apache.spark.sql.execution.streaming.runtime.SerializedOffset",
    "org.apache.spark.sql.execution.streaming.SerializedOffset",  # before Spark 4.1
)


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The most files and rows of a batch; None for no limit."""

    files: int | None = None
    rows: int | None = None


def java_offset(jvm: Jvm, json: str) -> Any:
    """A Java offset with some JSON: Spark's own `SerializedOffset`, because `Offset` is a class, not an interface."""
    name = jvm.once("class of offsets", lambda: next(name for name in _OFFSETS if jvm.has_class(name)))
    return jvm.java_class(name)(json)


def to_read_limit(jvm: Jvm, limits: BatchLimits) -> Any:
    """Convert limits to a Java `ReadLimit`."""
    limit_class = jvm.java_class(_LIMIT)
    java_limits = [] if limits.files is None else [limit_class.maxFiles(limits.files)]
    if limits.rows is not None:
        java_limits.append(limit_class.maxRows(limits.rows))
    if len(java_limits) == 2:
        return limit_class.compositeLimit(jvm.array(_LIMIT, java_limits))
    return java_limits[0] if java_limits else limit_class.allAvailable()


def from_read_limit(jvm: Jvm, limit: Any) -> BatchLimits:
    """Convert a Java `ReadLimit` to limits; other kinds than files and rows set none."""
    match jvm.simple_name(limit):
        case "CompositeReadLimit":
            nested = [from_read_limit(jvm, limits) for limits in limit.getReadLimits()]
            files = [limits.files for limits in nested if limits.files is not None]
            rows = [limits.rows for limits in nested if limits.rows is not None]
            return BatchLimits(min(files, default=None), min(rows, default=None))
        case "ReadMaxFiles":
            return BatchLimits(files=limit.maxFiles())
        case "ReadMaxRows":
            return BatchLimits(rows=limit.maxRows())
        case _:
            return BatchLimits()


# Options --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of a stream."""

    from_ms: int | None = None
    skip_deletes: bool = False
    skip_overwrites: bool = False
    max_files: int | None = None
    max_rows: int | None = None


def stream_options(options: Mapping[str, str]) -> StreamOptions:
    """The options of a stream from those of its read.

    >>> stream_options({"streaming-max-files-per-micro-batch": "5"}).max_files
    5
    """
    return StreamOptions(
        STREAM_FROM.read(options),
        STREAM_SKIP_DELETES.read(options),
        STREAM_SKIP_OVERWRITES.read(options),
        STREAM_MAX_FILES.read(options),
        STREAM_MAX_ROWS.read(options),
    )


# Planning -------------------------------------------------------------------------------------------------------------

_CACHED_PLANS = 32
"""How many plans of snapshots a planner keeps."""


@dataclass(frozen=True, slots=True)
class FileRange:
    """The files of a plan from one index up to another, exclusive."""

    plan: ScanPlan
    begin: int
    end: int

    def files(self) -> pa.Table:
        """The files, with the columns of `ScanPlan.files_to_arrow`."""
        return self.plan.files_to_arrow().slice(self.begin, self.end - self.begin)

    def tasks(self) -> Iterator[FileTask]:
        """The files as tasks."""
        return islice(self.plan.tasks(), self.begin, self.end)


@dataclass
class StreamPlanner:
    """Plans the batches of a stream, snapshot by snapshot.

    Files are in the order of the manifests, so that a position in a snapshot always means the same file.
    """

    storage: Storage
    schema: Schema
    options: StreamOptions
    _plans: dict[StreamOffset, ScanPlan] = field(default_factory=dict)

    def next_offset(
        self,
        metadata: TableMetadata,
        start: StreamOffset,
        head: int | None,
        *,
        max_files: int | None = None,
        max_rows: int | None = None,
    ) -> StreamOffset:
        """The end of the batch that starts at an offset, up to the snapshot `head`: at least one file, if there is one.

        Raises `NoSuchSnapshot` if the history has expired, and `UnsupportedFeature` for a snapshot that is not skipped.
        """
        files = rows = 0
        reached = start
        for snapshot, begin, all_files in self._snapshots(metadata, start, head):
            if not all_files and not self._is_append(snapshot):
                reached = StreamOffset(snapshot.snapshot_id, 0)
                continue
            plan = self._plan(metadata, snapshot, all_files)
            if max_files is None and max_rows is None:
                reached = StreamOffset(snapshot.snapshot_id, len(plan), all_files)
                continue
            for position, count in enumerate(plan.files_to_arrow()["record_count"].to_pylist()[begin:], begin):
                is_full = (max_files is not None and files + 1 > max_files) or (
                    max_rows is not None and rows + count > max_rows
                )
                if is_full and files:
                    return reached
                files, rows = files + 1, rows + max(0, count)
                reached = StreamOffset(snapshot.snapshot_id, position + 1, all_files)
            if not len(plan):
                reached = StreamOffset(snapshot.snapshot_id, 0, all_files)
        return reached

    def file_ranges(self, metadata: TableMetadata, start: StreamOffset, end: StreamOffset) -> Iterator[FileRange]:
        """The files between two offsets."""
        if end in (start, BEGINNING):
            return
        for snapshot, begin, all_files in self._snapshots(metadata, start, end.snapshot_id):
            is_last = snapshot.snapshot_id == end.snapshot_id
            if is_last and all_files != end.all_files:
                raise NoSuchSnapshot(
                    "the first batch of the stream cannot be read again: the snapshots that it began with have expired",
                    hint="start the query with a new checkpoint",
                )
            if not all_files and not self._is_append(snapshot):
                continue
            plan = self._plan(metadata, snapshot, all_files)
            stop = min(end.position, len(plan)) if is_last else len(plan)
            if begin < stop:
                yield FileRange(plan, begin, stop)

    def _snapshots(
        self, metadata: TableMetadata, start: StreamOffset, head: int | None
    ) -> Iterator[tuple[Snapshot, int, bool]]:
        """The snapshots after an offset: each with how many of its files are read, and whether all files count."""
        for snapshot_id in (start.snapshot_id if start != BEGINNING else None, head):
            if snapshot_id is not None and snapshot_id not in metadata.snapshots_by_id:
                raise _history_error(metadata, snapshot_id)
        if head is None:
            return
        begin = self._beginning(metadata, head) if start == BEGINNING else start
        if begin is None:
            return
        try:
            history = snapshots_in_range(metadata, SnapshotRange(first=begin.snapshot_id, until=head))
        except FloeError:
            raise _history_error(metadata, begin.snapshot_id) from None
        for snapshot in history:
            is_first = snapshot.snapshot_id == begin.snapshot_id
            yield snapshot, begin.position if is_first else 0, is_first and begin.all_files

    def _beginning(self, metadata: TableMetadata, head: int) -> StreamOffset | None:
        """The first offset of a stream; None if all snapshots are older than `stream-from-timestamp`."""
        history = list(ancestors(metadata, head))
        since = self.options.from_ms
        oldest = history[-1]
        if since is None:
            return StreamOffset(oldest.snapshot_id, 0, oldest.parent_snapshot_id is not None)
        if oldest.timestamp_ms > since and oldest.parent_snapshot_id is not None:
            raise NoSuchSnapshot(
                f"the appends since {millis_to_text(since)} cannot be read, because their history has expired: the "
                f"oldest snapshot is snapshot {oldest.snapshot_id} of {millis_to_text(oldest.timestamp_ms)}",
                hint="begin later, or leave out stream-from-timestamp to read all rows first",
            )
        later = [snapshot for snapshot in history if snapshot.timestamp_ms >= since]
        return StreamOffset(later[-1].snapshot_id, 0) if later else None

    def _is_append(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot appends rows; raises `UnsupportedFeature` if it changes rows and is not to be skipped."""
        operation = snapshot.operation or "append"
        if operation in ("append", "replace"):
            return operation == "append"
        skip = {"delete": self.options.skip_deletes, "overwrite": self.options.skip_overwrites}
        if skip.get(operation):
            return False
        raise UnsupportedFeature(
            f"snapshot {snapshot.snapshot_id} has the operation {operation}, and a stream reads only appends",
            hint=f"set the option streaming-skip-{operation}-snapshots to true to skip it, or read the changelog of "
            "the table, which has deleted rows too",
        )

    def _plan(self, metadata: TableMetadata, snapshot: Snapshot, all_files: bool) -> ScanPlan:
        key = StreamOffset(snapshot.snapshot_id, 0, all_files)
        plan = self._plans.get(key)
        if plan is None:
            options = ScanOptions(schema=self.schema)
            if all_files:
                plan = plan_scan(metadata, self.storage, snapshot=snapshot, options=options)
            else:
                only = SnapshotRange(first=snapshot.snapshot_id, until=snapshot.snapshot_id)
                plan = plan_appends(metadata, self.storage, only, options=options)
            if len(self._plans) >= _CACHED_PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = plan
        return plan


def _history_error(metadata: TableMetadata, snapshot_id: int) -> NoSuchSnapshot:
    return NoSuchSnapshot(
        f"the stream has read up to snapshot {snapshot_id}, which is not in the history of the table with uuid "
        f"{metadata.table_uuid}, so it cannot be continued",
        hint="the snapshot expired, was rolled back, or belongs to a table that was dropped since; start the query "
        "with a new checkpoint",
    )


# The stream -----------------------------------------------------------------------------------------------------------

_INPUT: Final = "org.apache.spark.sql.connector.read.InputPartition"
_COLUMNS: Final = ["file_path", "file_format", "file_size_in_bytes", "spec_id", "split_offsets", "key_metadata"]


class TableStream(MicroBatchStream, SupportsTriggerAvailableNow, Rewritable):
    """Spark's micro-batch stream of what is appended to a table."""

    def __init__(self, jvm: Jvm, source: ScanSource, projection: Schema) -> None:
        super().__init__(jvm)
        branch = source.as_of.ref
        is_branch = branch is not None and (branch not in source.table.refs or source.table.refs[branch].is_branch)
        if source.start_snapshot_id is not None or not (source.as_of.is_current or is_branch):
            raise InvalidInput(
                "a stream reads what is appended to a table, not a past snapshot",
                hint="leave out the options that choose a snapshot, or begin with stream-from-timestamp",
                table=source.name,
            )
        self._source, self._projection, self._branch = source, projection, branch
        # a table of its own: `refresh` must not change the one that other reads use
        self._table = Table(source.table.commit_target.pointer, source.table.commit_target.state)
        self._planner = StreamPlanner(source.storage, source.schema, stream_options(source.options))
        self._last_snapshot_id: int | None = None
        """The last snapshot that a bounded stream reads."""

        self._is_bounded = False
        self._is_native = False
        """Whether Spark's Parquet reader reads the batch that was planned last."""

    def title(self) -> str:
        """The name of the stream in Spark's progress reports."""
        return f"Floe stream of {self._source.name}"

    # offsets -----------------------------------------------------------------------------------------------------

    def initialOffset(self) -> Any:
        """The offset of a new query; planning of the first batch finds the first snapshot."""
        return java_offset(self.jvm, str(BEGINNING))

    def deserializeOffset(self, json: str) -> Any:
        """The offset that Spark found in the checkpoint."""
        return java_offset(self.jvm, str(parse_offset(json)))

    def getDefaultReadLimit(self) -> Any:
        """The limits of a batch, which Spark passes to `latestOffset`."""
        options = self._planner.options
        return to_read_limit(self.jvm, BatchLimits(options.max_files, options.max_rows))

    def latestOffset(self, *arguments: Any) -> Any:
        """The end of the next batch; newer versions of Spark pass its start and limit."""
        start = parse_offset(arguments[0].json()) if arguments else BEGINNING
        limits = from_read_limit(self.jvm, arguments[1]) if arguments else BatchLimits()
        if not self._is_bounded:
            self._table.refresh()
        head = self._last_snapshot_id if self._is_bounded else self._head()
        reached = self._planner.next_offset(
            self._table.metadata, start, head, max_files=limits.files, max_rows=limits.rows
        )
        return java_offset(self.jvm, str(reached))

    def prepareForTriggerAvailableNow(self) -> None:
        """Bound the stream to the current snapshot: Spark calls this for the trigger `availableNow`."""
        self._table.refresh()
        self._is_bounded, self._last_snapshot_id = True, self._head()

    def _head(self) -> int | None:
        metadata = self._table.metadata
        if self._branch is None or self._branch not in metadata.refs:
            return metadata.current_snapshot_id
        return metadata.refs[self._branch].snapshot_id

    def rewrite(self, node: Any) -> Any:
        """The node of the stream, unchanged; older versions of Spark show only here which metadata columns are read."""
        metadata = self._table.metadata
        partitions = unified_partition_type(metadata.partition_specs, metadata.schemas)
        self._projection = project_schema(self._source.schema, self.jvm.read_data_type(node.schema()), partitions)
        return node

    # reading -----------------------------------------------------------------------------------------------------

    def planInputPartitions(self, start: Any, end: Any) -> Any:
        """The splits of the files of a batch, packed into partitions: Spark runs a task for each."""
        begin, stop = parse_offset(start.json()), parse_offset(end.json())
        if stop != BEGINNING and stop.snapshot_id not in self._table.metadata.snapshots_by_id:
            self._table.refresh()
        ranges = list(self._planner.file_ranges(self._table.metadata, begin, stop))
        files = pa.concat_tables([file_range.files().select(_COLUMNS) for file_range in ranges]) if ranges else None
        self._is_native = files is not None and self._reads_natively(ranges, files)
        if files is None:
            return self.jvm.array(_INPUT, [])
        total, parallelism = pc.sum(files["file_size_in_bytes"]).as_py(), self.jvm.context.defaultParallelism
        splits = self._source.split_settings(total, parallelism)
        if self._is_native:
            return self._native_partitions(files, splits)
        tasks = (task for file_range in ranges for task in file_range.tasks())
        return python_partitions(self.jvm, map(pickle_tasks, pack_tasks(tasks, splits)))

    def createReaderFactory(self) -> Any:
        """The factory of the readers of the batch that was planned last."""
        metadata = self._table.metadata
        if self._is_native:
            return reader_factory(self.jvm, native_columns(metadata, self._projection))
        read = ReadTasks(executor_metadata(metadata), self._source.storage, self._projection)
        return python_reader_factory(self.jvm, read, spark_schema(self._projection.fields))

    def _reads_natively(self, ranges: Sequence[FileRange], files: pa.Table) -> bool:
        columns = native_columns(self._table.metadata, self._projection)
        if columns.fields != self._projection.fields or not self._projection.fields:
            return False  # the plan of a stream has no projection that could reorder columns
        formats = files["file_format"].unique().to_pylist()
        return (
            all(native_read_obstacle(file_range.plan, self._projection, formats) is None for file_range in ranges)
            and not any(file_range.plan.has_deletes for file_range in ranges)
            and location_obstacle(self.jvm, self._source) is None
        )

    def _native_partitions(self, files: pa.Table, splits: SplitSettings) -> Any:
        columns = native_columns(self._table.metadata, self._projection)
        file_splits = split_files(files, self._source.storage, columns.constants, splits.target_size)
        return file_partitions(self.jvm, file_splits, columns.constant_types, splits.target_size, splits.open_file_cost)
