"""A table as a stream: `spark.readStream.table("lake.db.t")`.

Each batch reads the files that were appended since the last one, with the readers of other reads.

Which files come next in a stream: snapshot by snapshot along a branch, those that appends added.

A stream that is not told from when on it reads begins with the oldest snapshot that the table still has. Where that one
has a history which has expired, the stream begins with all rows of it, so that none is missing.

Snapshots that only rewrite files have nothing new. Those that delete or overwrite rows cannot be told as appended rows;
they are an error, unless the stream is told to pass over them.

How far a stream has come: a snapshot, and how many of its files have been read; written as Java Iceberg does.

What the options of a stream that is read say.

| option | |
|---|---|
| `stream-from-timestamp` (milliseconds) | begin with the first snapshot at or after that time |
| `streaming-skip-delete-snapshots`, `streaming-skip-overwrite-snapshots` | pass over them, in place of an error |
| `streaming-max-files-per-micro-batch`, `streaming-max-rows-per-micro-batch` | how much a batch has at most |
| `branch` | follow a branch in place of `main` |
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
from floe.spark.bridge.parquet_readers import partitioned_files
from floe.spark.bridge.rules import Rewritable
from floe.spark.executors import executor_metadata
from floe.spark.read.native import native_columns, reader_factory, why_not_native
from floe.spark.read.source import Source, projected, why_not_reachable
from floe.spark.read.splits import file_parts
from floe.spark.read.worker import ReadTasks, pickled_tasks, python_partitions, python_reader_factory
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

# offsets and limits ---------------------------------------------------------------------------------------------------

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """So many files of a snapshot have been read, and all that was appended before it.

    >>> print(StreamOffset(17, 2))
    {"version":1,"snapshot_id":17,"position":2,"scan_all_files":false}
    """

    snapshot_id: int
    position: int
    all_files: bool = False
    """Whether all files of the snapshot count, not only those that it added: the stream began there."""

    def __str__(self) -> str:
        told = {
            "version": _VERSION,
            "snapshot_id": self.snapshot_id,
            "position": self.position,
            "scan_all_files": self.all_files,
        }
        return json.dumps(told, separators=(",", ":"))


BEGINNING: Final = StreamOffset(-1, -1)
"""Before everything that a stream will read."""


def parse_offset(text: str) -> StreamOffset:
    """The offset that a checkpoint has.

    >>> parse_offset('{"version": 1, "snapshot_id": 17, "position": 2, "scan_all_files": true}')
    StreamOffset(snapshot_id=17, position=2, all_files=True)
    """
    try:
        told = json.loads(text)
        if told["version"] != _VERSION:
            raise InvalidInput(f"offsets of version {told['version']} are not known, only those of version {_VERSION}")
        return StreamOffset(int(told["snapshot_id"]), int(told["position"]), bool(told["scan_all_files"]))
    except (KeyError, TypeError, ValueError):
        raise InvalidInput(
            f"the checkpoint is not one of a stream of an Iceberg table: {text:.200}",
            hint="give the query a checkpoint of its own",
        ) from None


_LIMIT: Final = "org.apache.spark.sql.connector.read.streaming.ReadLimit"
_OFFSETS: Final = (
    "org.apache.spark.sql.execution.streaming.runtime.SerializedOffset",
    "org.apache.spark.sql.execution.streaming.SerializedOffset",  # before Spark 4.1
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a batch has at most."""

    files: int | None = None
    rows: int | None = None


def java_offset(jvm: Jvm, json: str) -> Any:
    """An offset of its JSON: offsets are classes, so it is one of Spark's own."""
    name = jvm.once("class of offsets", lambda: next(name for name in _OFFSETS if jvm.has_class(name)))
    return jvm.named(name)(json)


def read_limit(jvm: Jvm, limits: Limits) -> Any:
    """Limits as a `ReadLimit`."""
    kind = jvm.named(_LIMIT)
    made = [] if limits.files is None else [kind.maxFiles(limits.files)]
    if limits.rows is not None:
        made.append(kind.maxRows(limits.rows))
    if len(made) == 2:
        return kind.compositeLimit(jvm.array(_LIMIT, made))
    return made[0] if made else kind.allAvailable()


def read_limits(jvm: Jvm, limit: Any) -> Limits:
    """What a `ReadLimit` says; limits of other kinds are none."""
    match jvm.simple_name(limit):
        case "CompositeReadLimit":
            found = [read_limits(jvm, one) for one in limit.getReadLimits()]
            files = [one.files for one in found if one.files is not None]
            rows = [one.rows for one in found if one.rows is not None]
            return Limits(min(files, default=None), min(rows, default=None))
        case "ReadMaxFiles":
            return Limits(files=limit.maxFiles())
        case "ReadMaxRows":
            return Limits(rows=limit.maxRows())
        case _:
            return Limits()


# options --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a stream is told."""

    from_ms: int | None = None
    skip_deletes: bool = False
    skip_overwrites: bool = False
    max_files: int | None = None
    max_rows: int | None = None


def stream_options(given: Mapping[str, str]) -> StreamOptions:
    """What the options say.

    >>> stream_options({"streaming-max-files-per-micro-batch": "5"}).max_files
    5
    """
    return StreamOptions(
        STREAM_FROM.read(given),
        STREAM_SKIP_DELETES.read(given),
        STREAM_SKIP_OVERWRITES.read(given),
        STREAM_MAX_FILES.read(given),
        STREAM_MAX_ROWS.read(given),
    )


# which files come next ------------------------------------------------------------------------------------------------

_REMEMBERED = 32


@dataclass(frozen=True, slots=True)
class Part:
    """Some files of a plan, by their places."""

    plan: ScanPlan
    begin: int
    end: int

    def files(self) -> pa.Table:
        """The files, as `ScanPlan.files_to_arrow` has them."""
        return self.plan.files_to_arrow().slice(self.begin, self.end - self.begin)

    def tasks(self) -> Iterator[FileTask]:
        """The files as tasks."""
        return islice(self.plan.tasks(), self.begin, self.end)


@dataclass
class StreamSteps:
    """The snapshots of a table as a stream; files are listed in the order of their manifests, so places stay."""

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
        """How far a batch from an offset goes, up to a snapshot: at least one file, if there is a new one."""
        files = rows = 0
        reached = start
        for snapshot, begin, all_files in self._snapshots(metadata, start, head):
            if not all_files and not self._counts(snapshot):
                reached = StreamOffset(snapshot.snapshot_id, 0)
                continue
            plan = self._plan(metadata, snapshot, all_files)
            if max_files is None and max_rows is None:
                reached = StreamOffset(snapshot.snapshot_id, len(plan), all_files)
                continue
            for place, count in enumerate(plan.files_to_arrow()["record_count"].to_pylist()[begin:], begin):
                full = (max_files is not None and files + 1 > max_files) or (
                    max_rows is not None and rows + count > max_rows
                )
                if full and files:
                    return reached
                files, rows = files + 1, rows + max(0, count)
                reached = StreamOffset(snapshot.snapshot_id, place + 1, all_files)
            if not len(plan):
                reached = StreamOffset(snapshot.snapshot_id, 0, all_files)
        return reached

    def parts(self, metadata: TableMetadata, start: StreamOffset, end: StreamOffset) -> Iterator[Part]:
        """The files from one offset to another."""
        if end in (start, BEGINNING):
            return
        for snapshot, begin, all_files in self._snapshots(metadata, start, end.snapshot_id):
            is_last = snapshot.snapshot_id == end.snapshot_id
            if is_last and all_files != end.all_files:
                raise NoSuchSnapshot(
                    "the stream began with snapshots that have expired since, so its first batch cannot be read again",
                    hint="start the query with a new checkpoint",
                )
            if not all_files and not self._counts(snapshot):
                continue
            plan = self._plan(metadata, snapshot, all_files)
            stop = min(end.position, len(plan)) if is_last else len(plan)
            if begin < stop:
                yield Part(plan, begin, stop)

    def _snapshots(
        self, metadata: TableMetadata, start: StreamOffset, head: int | None
    ) -> Iterator[tuple[Snapshot, int, bool]]:
        """From an offset on: each snapshot, how many of its files have been read, and whether all of them count."""
        for known in (start.snapshot_id if start != BEGINNING else None, head):
            if known is not None and known not in metadata.snapshots_by_id:
                raise _lost(metadata, known)
        if head is None:
            return
        begin = self._beginning(metadata, head) if start == BEGINNING else start
        if begin is None:
            return
        try:
            history = snapshots_in_range(metadata, SnapshotRange(first=begin.snapshot_id, until=head))
        except FloeError:
            raise _lost(metadata, begin.snapshot_id) from None
        for snapshot in history:
            is_first = snapshot.snapshot_id == begin.snapshot_id
            yield snapshot, begin.position if is_first else 0, is_first and begin.all_files

    def _beginning(self, metadata: TableMetadata, head: int) -> StreamOffset | None:
        """Where a stream begins that has read nothing; None if there is nothing new enough."""
        history = list(ancestors(metadata, head))
        since = self.options.from_ms
        oldest = history[-1]
        if since is None:
            return StreamOffset(oldest.snapshot_id, 0, oldest.parent_snapshot_id is not None)
        if oldest.timestamp_ms > since and oldest.parent_snapshot_id is not None:
            raise NoSuchSnapshot(
                f"what was appended since {millis_to_text(since)} is not known: history is known only down to snapshot "
                f"{oldest.snapshot_id} of {millis_to_text(oldest.timestamp_ms)}, what came before has expired",
                hint="begin later, or leave out stream-from-timestamp to read all rows first",
            )
        later = [snapshot for snapshot in history if snapshot.timestamp_ms >= since]
        return StreamOffset(later[-1].snapshot_id, 0) if later else None

    def _counts(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot appends rows; raises if it does something else that must not be passed over."""
        operation = snapshot.operation or "append"
        if operation in ("append", "replace"):
            return operation == "append"
        skip = {"delete": self.options.skip_deletes, "overwrite": self.options.skip_overwrites}
        if skip.get(operation):
            return False
        raise UnsupportedFeature(
            f"snapshot {snapshot.snapshot_id} is of the operation {operation}, and a stream reads what is appended",
            hint=f"set the option streaming-skip-{operation}-snapshots to true to pass over it, or read the changes of "
            "the table, which tell of deleted rows too",
        )

    def _plan(self, metadata: TableMetadata, snapshot: Snapshot, all_files: bool) -> ScanPlan:
        key = StreamOffset(snapshot.snapshot_id, 0, all_files)
        found = self._plans.get(key)
        if found is None:
            options = ScanOptions(schema=self.schema)
            if all_files:
                found = plan_scan(metadata, self.storage, snapshot=snapshot, options=options)
            else:
                only = SnapshotRange(first=snapshot.snapshot_id, until=snapshot.snapshot_id)
                found = plan_appends(metadata, self.storage, only, options=options)
            if len(self._plans) >= _REMEMBERED:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = found
        return found


def _lost(metadata: TableMetadata, snapshot_id: int) -> NoSuchSnapshot:
    return NoSuchSnapshot(
        f"the stream has come to snapshot {snapshot_id}, which is not in the history of the table with uuid "
        f"{metadata.table_uuid}, so what was appended after it is not known",
        hint="the snapshot expired, was rolled back, or is one of a table that was dropped since: start the query with "
        "a new checkpoint",
    )


# the stream -----------------------------------------------------------------------------------------------------------

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
        self._table = Table(source.table.commit_target.pointer, source.table.commit_target.state)
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
        return java_offset(self.jvm, str(parse_offset(json)))

    def getDefaultReadLimit(self) -> Any:
        """How much a batch has at most."""
        options = self._steps.options
        return read_limit(self.jvm, Limits(options.max_files, options.max_rows))

    def latestOffset(self, *how: Any) -> Any:
        """How far the next batch goes."""
        start = parse_offset(how[0].json()) if how else BEGINNING
        limits = read_limits(self.jvm, how[1]) if how else Limits()
        if not self._is_bounded:
            self._table.refresh()
        head = self._last if self._is_bounded else self._head()
        reached = self._steps.next_offset(
            self._table.metadata, start, head, max_files=limits.files, max_rows=limits.rows
        )
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
        begin, stop = parse_offset(start.json()), parse_offset(end.json())
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
        read = ReadTasks(executor_metadata(metadata), self._source.storage, self._wanted)
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
