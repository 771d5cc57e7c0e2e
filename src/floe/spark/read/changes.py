"""The changelog of a table as a table: `SELECT * FROM lake.db.t.changes`.

The driver plans which files were added or removed and which rows of other files were deleted, Python workers read
them with the Arrow reader, and Spark removes the rows that cancel out and pairs deletes and inserts to updates. A
file that was rewritten to change a few rows has all other rows on both sides: these were only *carried over*. Rows
are compared as a whole, and as often as they occur.

| option | |
|---|---|
| `start-snapshot-id`, `start-timestamp` (milliseconds) | changes after it; by default all in the history |
| `end-snapshot-id`, `end-timestamp` (milliseconds) | changes up to it, inclusive; by default up to now |
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window, functions as F
from pyspark.sql.types import MapType

from floe.arrow.reading.changelog import with_change_columns
from floe.arrow.reading.task_reader import TaskReader
from floe.errors import InvalidInput, NoSuchSnapshot
from floe.plan.changelog import AddedRows, ChangeTask, DeletedRows, plan_changelog
from floe.plan.scan import ScanOptions
from floe.plan.snapshot_selection import SnapshotRange, choose_snapshot
from floe.plan.tasks import content_size, pack_bins, split_settings
from floe.spark.bridge.interfaces.read import (
    Batch,
    Scan,
    SupportsPushDownRequiredColumns,
    SupportsPushDownV2Filters,
    SupportsRead,
)
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import Expressions, Plans
from floe.spark.bridge.rules import Rewritable
from floe.spark.bridge.values import read_conditions
from floe.spark.executors import executor_metadata
from floe.spark.names import AsOf, Selected
from floe.spark.read.filters import check_texts, filter_of
from floe.spark.read.source import projected
from floe.spark.read.worker import for_spark, python_partitions, python_reader_factory, tasks_of
from floe.spark.schemas import spark_schema
from floe.spark.settings import END_SNAPSHOT_ID, END_TIMESTAMP, START_SNAPSHOT_ID, START_TIMESTAMP, check_read_options
from floe.spec.expressions.nodes import TRUE, Expression, and_
from floe.spec.metadata.ancestry import ancestors
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.metadata_columns import CHANGE_ORDINAL, CHANGE_TYPE, COMMIT_SNAPSHOT_ID, is_metadata_column
from floe.spec.schemas.schema import Schema
from floe.spec.types import StructType
from floe.spec.values.civil_time import millis_to_text
from floe.sql.printing import name_text
from floe.storage.protocol import Storage
from floe.table.table import Table

# Of which snapshots the changes are read.

_RANGES = {"start": (START_SNAPSHOT_ID, START_TIMESTAMP), "end": (END_SNAPSHOT_ID, END_TIMESTAMP)}
OPTIONS = tuple(option.name for options in _RANGES.values() for option in options)


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """After one snapshot, if there is one, up to and with another; None as the end is an empty range."""

    after: int | None
    until: int | None


def change_range(metadata: TableMetadata, as_of: AsOf, options: Mapping[str, str]) -> ChangeRange:
    """The range that options say, in the history of a state of the table."""
    for end, (snapshot_id, timestamp) in _RANGES.items():
        if snapshot_id.is_set(options) and timestamp.is_set(options):
            raise InvalidInput(f"the {end} of the changes is said twice, by {snapshot_id} and {timestamp}")
    begin, stop = START_TIMESTAMP.read(options), END_TIMESTAMP.read(options)
    if begin is not None and stop is not None and begin > stop:
        raise InvalidInput(f"the changes end before they start: {START_TIMESTAMP} {begin}, {END_TIMESTAMP} {stop}")
    head = choose_snapshot(metadata, snapshot=as_of.snapshot_id, ref=as_of.ref, as_of_ms=as_of.timestamp_ms)
    newest = None if head is None else head.snapshot_id
    after, until = START_SNAPSHOT_ID.read(options), END_SNAPSHOT_ID.read(options)
    if until is None:
        until = newest if stop is None else _newest(metadata, newest, stop)
    if after is None and begin is not None:
        after = _newest(metadata, newest, begin)
    return ChangeRange(after, until)


def _newest(metadata: TableMetadata, head: int | None, millis: int) -> int | None:
    """The newest snapshot of a history that is not newer than a time; None if the history begins after it."""
    oldest = None
    for one in ancestors(metadata, head):
        if one.timestamp_ms <= millis:
            return one.snapshot_id
        oldest = one
    if oldest is not None and oldest.parent_snapshot_id is not None:
        raise NoSuchSnapshot(
            f"what the table was at {millis_to_text(millis)} is not known: its history is known only down to snapshot "
            f"{oldest.snapshot_id} of {millis_to_text(oldest.timestamp_ms)}, what came before has expired",
            hint="begin later, or leave out the start to read all changes that are known",
        )
    return None


# What a read of changes reads, planned on the driver: files that were added or removed, and rows deleted of others.


class Part(Enum):
    """Which of the changes: those of snapshots that add and delete rows may have rows that were only carried over."""

    ALL = "all changes"
    PLAIN = "changes of snapshots that only add or only delete"
    MIXED = "changes of snapshots that add and delete, with rows carried over"


@dataclass(frozen=True)
class ChangeSource:
    """The changes of a table in a range of its history."""

    name: str
    table: Table
    range: ChangeRange
    part: Part = Part.ALL
    where: Expression = TRUE
    """What rows must pass, in addition to a query's own filter."""

    _planned: dict[str, list[list[ChangeTask]]] = field(default_factory=dict, compare=False, repr=False)
    """The tasks of each snapshot, by the filter; parts of a source share them."""

    @property
    def key(self) -> Any:
        """What makes two sources the same."""
        return (self.table.uuid, self.table.metadata_location, self.range, self.part, str(self.where))

    @cached_property
    def schema(self) -> Schema:
        """The table's columns, and those that tell of the change."""
        return with_change_columns(self.table.schema)

    def only(self, part: Part, where: Expression = TRUE) -> ChangeSource:
        """Some of the changes."""
        return replace(self, part=part, where=and_(self.where, where))

    def tasks(self, where: Expression) -> list[ChangeTask]:
        """The changes of rows that may pass a filter."""
        return [task for group in self._groups(and_(self.where, where)) for task in _of_part(group, self.part)]

    def may_carry_over(self, where: Expression) -> bool:
        """Whether some snapshots add rows and delete rows: then some of them may only have been carried over."""
        return any(map(_is_mixed, self._groups(and_(self.where, where))))

    def _groups(self, where: Expression) -> list[list[ChangeTask]]:
        """The changes of each snapshot."""
        if self.range.until is None or self.range.until == self.range.after:
            return []
        found = self._planned.get(str(where))
        if found is None:
            snapshots = SnapshotRange(after=self.range.after, until=self.range.until)
            options = ScanOptions(where=None if where is TRUE else where)
            plan = plan_changelog(self.table.metadata, self.table.storage, snapshots, options=options)
            found = [list(group) for _, group in groupby(plan.tasks(), key=lambda task: task.ordinal)]
            self._planned[str(where)] = found
        return found

    def packed(self, tasks: list[ChangeTask]) -> Iterator[list[ChangeTask]]:
        """The tasks in bins of about equal work."""
        settings = split_settings(self.table.metadata.properties)

        def weight(task: ChangeTask) -> int:
            added = task.added_deletes if isinstance(task, DeletedRows) else ()
            files = task.task.files_count + len(added)
            return max(task.task.size + sum(map(content_size, added)), files * settings.open_file_cost)

        return pack_bins(tasks, weight, settings.target_size, settings.lookback)


def _is_mixed(tasks: list[ChangeTask]) -> bool:
    """Whether the tasks of a snapshot add rows and delete some."""
    added = sum(isinstance(task, AddedRows) for task in tasks)
    return 0 < added < len(tasks)


def _of_part(tasks: list[ChangeTask], part: Part) -> list[ChangeTask]:
    return tasks if part is Part.ALL or _is_mixed(tasks) is (part is Part.MIXED) else []


# What runs in Spark's Python workers to read changes: the Arrow reader, file by file.


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


# Changes without those that cancel out, and updates made of deletes and inserts: computed by Spark.

_TYPE, _ORDINAL, _SNAPSHOT = CHANGE_TYPE.name, CHANGE_ORDINAL.name, COMMIT_SNAPSHOT_ID.name
_TOLD: Final = (_TYPE, _ORDINAL, _SNAPSHOT)
_COUNT, _PLACE, _SUM, _ZERO = "floe-count", "floe-place", "floe-sum", "floe-zero"


def _named(name: str) -> Column:
    return F.col(f"`{name.replace('`', '``')}`")


def _own(rows: DataFrame) -> list[Column]:
    """The columns that are the table's."""
    return [_named(name) for name in rows.columns if name not in _TOLD]


def _keys(rows: DataFrame) -> list[Column]:
    """By what whole rows are told apart: Spark does not compare maps, but their entries."""
    return [
        F.array_sort(F.map_entries(_named(field.name))) if isinstance(field.dataType, MapType) else _named(field.name)
        for field in rows.schema.fields
        if field.name not in _TOLD
    ]


def _sign() -> Column:
    return F.when(_named(_TYPE) == "INSERT", 1).otherwise(-1)


def _repeated(rows: DataFrame, count: Column, columns: Sequence[Column]) -> DataFrame:
    """Each row as often as it is left, as what it is on balance."""
    kind = F.when(count > 0, "INSERT").otherwise("DELETE").alias(_TYPE)
    several = F.explode(F.array_repeat(F.lit(True), F.abs(count).cast("int"))).alias(_PLACE)
    return rows.where(count != 0).select(*columns, kind, _named(_ORDINAL), _named(_SNAPSHOT), several).drop(_PLACE)


def net_of_carried_over(rows: DataFrame) -> DataFrame:
    """The changes without rows that a snapshot deletes and adds again just as they were."""
    own = _own(rows)
    groups = rows.groupBy(*own, _named(_ORDINAL), _named(_SNAPSHOT)).agg(F.sum(_sign()).alias(_COUNT))
    return _repeated(groups, _named(_COUNT), own).select(*map(_named, rows.columns))


def net_of_all(rows: DataFrame) -> DataFrame:
    """The changes on balance over all snapshots: of a row that comes and goes the last that was not undone is left."""
    own, same = _own(rows), Window.partitionBy(*_keys(rows))
    order = same.orderBy(_named(_ORDINAL), _named(_TYPE))
    summed = rows.select(
        *own,
        *map(_named, _TOLD),
        F.row_number().over(order).alias(_PLACE),
        F.sum(_sign()).over(order.rowsBetween(Window.unboundedPreceding, 0)).alias(_SUM),
        F.sum(_sign()).over(same).alias(_COUNT),
    )
    zero = F.coalesce(F.max(F.when(_named(_SUM) == 0, _named(_PLACE))).over(same), F.lit(0))
    first = summed.withColumn(_ZERO, zero).where(_named(_PLACE) == _named(_ZERO) + 1)
    return _repeated(first, _named(_COUNT), own).select(*map(_named, rows.columns))


def with_updates(rows: DataFrame, identifiers: Sequence[str]) -> DataFrame:
    """A row that a snapshot deletes and adds again under the same identifier is an update: before, and after.

    Where several rows have one identifier, they stay what they are.
    """
    same = Window.partitionBy(*map(_named, identifiers), _named(_ORDINAL))
    deleted, added = (F.sum(F.when(_named(_TYPE) == kind, 1).otherwise(0)).over(same) for kind in ("DELETE", "INSERT"))
    image = F.when(_named(_TYPE) == "DELETE", "UPDATE_BEFORE").otherwise("UPDATE_AFTER")
    kind = F.when((deleted == 1) & (added == 1), image).otherwise(_named(_TYPE)).alias(_TYPE)
    return rows.select(*(kind if name == _TYPE else _named(name) for name in rows.columns))


AsFrame = Callable[[ChangeSource], DataFrame]
"""Gives changes as a data frame."""


class ChangeScanBuilder(SupportsPushDownRequiredColumns, SupportsPushDownV2Filters):
    """Puts a read of changes together."""

    def __init__(self, jvm: Jvm, source: ChangeSource, as_frame: AsFrame) -> None:
        super().__init__(jvm)
        self._source, self._as_frame = source, as_frame
        self._wanted = source.schema
        self._where: Expression = TRUE

    def pruneColumns(self, schema: Any) -> None:
        """Read these columns, and of structs these parts."""
        self._wanted = projected(self._source.schema, self.jvm.read_data_type(schema), StructType(()))

    def pushPredicates(self, predicates: Any) -> Any:
        """Leave out files by those on the table's own columns; Spark checks the rows."""
        conditions = read_conditions(self.jvm, predicates)
        check_texts(conditions, self._source.table.schema)
        self._where = filter_of(conditions, self._source.table.schema)
        return predicates

    def build(self) -> Any:
        """The read."""
        return ChangeScan(self.jvm, self._source, self._wanted, self._where, self._as_frame)


class ChangeScan(Scan, Batch, Rewritable):
    """The changes that a query asks for."""

    def __init__(self, jvm: Jvm, source: ChangeSource, wanted: Schema, where: Expression, as_frame: AsFrame) -> None:
        super().__init__(jvm)
        self._source, self._wanted, self._where, self._as_frame = source, wanted, where, as_frame

    def key(self) -> Any:
        """The same changes are the same to Spark."""
        return (self._source.key, self._wanted, str(self._where))

    @cached_property
    def _tasks(self) -> list[ChangeTask]:
        return self._source.tasks(self._where)

    def readSchema(self) -> Any:
        """The columns that come."""
        return self.jvm.data_type(spark_schema(self._read.fields))

    @property
    def _read(self) -> Schema:
        return self._wanted if self._wanted.fields else Schema(self._source.schema.fields[-1:])

    def description(self) -> str:
        """The table, the range and the files, in words."""
        begin, end = self._source.range.after, self._source.range.until
        since = "all that is known" if begin is None else f"after snapshot {begin}"
        files = f"files: {len(self._tasks)}"
        return f"Floe table {self._source.name}; {self._source.part.value}: {since}, up to snapshot {end}; {files}"

    def toBatch(self) -> Any:
        """The read itself."""
        return self

    def planInputPartitions(self) -> Any:
        """The files in partitions of about equal work."""
        bins = self._source.packed(self._tasks)
        return python_partitions(self.jvm, (pickle.dumps(tuple(tasks)) for tasks in bins))

    def createReaderFactory(self) -> Any:
        """Workers that read the files."""
        table = self._source.table
        read = ReadChanges(executor_metadata(table.metadata), table.storage, self._read)
        return python_reader_factory(self.jvm, read, spark_schema(self._read.fields))

    # rows carried over -------------------------------------------------------------------------------------------

    def rewritten(self, node: Any) -> Any:
        """The changes without rows that were carried over, if there may be such."""
        if self._source.part is not Part.ALL or not self._source.may_carry_over(self._where):
            return node
        plans, expressions = Plans(self.jvm), Expressions(self.jvm)
        wanted = plans.output(node)
        names = [f"`{attribute.name().replace('`', '``')}`" for attribute in wanted]
        rows = net_of_carried_over(self._frame(Part.MIXED)).select(*names)
        rows = rows.unionAll(self._frame(Part.PLAIN).select(*names))
        plan: Any = rows._jdf.queryExecution().optimizedPlan()
        pairs = zip(plans.output(plan), wanted, strict=True)
        return plans.project([expressions.alias(found, attribute) for found, attribute in pairs], plan)

    def _frame(self, part: Part) -> DataFrame:
        """Some of the changes as a data frame, in all columns: whole rows are compared."""
        return self._as_frame(self._source.only(part, self._where))


# The changes of a table as a table: `SELECT * FROM lake.db.t.changes`.


class ChangesTable(SupportsRead):
    """The changes of a table, in a range that the options of the read say."""

    def __init__(
        self,
        jvm: Jvm,
        path: tuple[str, ...],
        table: Table,
        selected: Selected,
        source: ChangeSource | None = None,
    ) -> None:
        super().__init__(jvm)
        self._path, self._table, self._selected, self._source = path, table, selected, source
        self._columns = spark_schema(with_change_columns(table.schema).fields)

    def key(self) -> Any:
        """The same table at the same state is the same to Spark."""
        own = None if self._source is None else self._source.key
        return (self._table.uuid, self._table.metadata_location, self._selected, own)

    def title(self) -> str:
        """What plans show."""
        return f"Floe changes {self.name()}"

    def name(self) -> str:
        """The table's name, for people."""
        return ".".join(map(name_text, self._path))

    def schema(self) -> Any:
        """The columns as a `StructType`."""
        return self.jvm.data_type(self._columns)

    def columns(self) -> Any:
        """The columns as a `Column[]`."""
        return self.jvm.columns(self._columns)

    def capabilities(self) -> Any:
        """It can be read."""
        kind = "org.apache.spark.sql.connector.catalog.TableCapability"
        return self.jvm.set([self.jvm.constant(kind, "BATCH_READ")])

    def newScanBuilder(self, options: Any) -> Any:
        """A read of the changes."""
        source = self._source
        if source is None:
            given = {name.lower(): value for name, value in self.jvm.read_map(options.asCaseSensitiveMap()).items()}
            check_read_options(given)
            found = change_range(self._table.metadata, self._selected.as_of, given)
            source = ChangeSource(self.name(), self._table, found)
        return ChangeScanBuilder(self.jvm, source, self._as_frame)

    def _as_frame(self, source: ChangeSource) -> DataFrame:
        """Changes as a data frame of the session that is at work."""
        jvm = self.jvm
        table = ChangesTable(jvm, self._path, self._table, self._selected, source)
        relation = jvm.sql("execution.datasources.v2.DataSourceV2Relation").create(table, jvm.none, jvm.none)
        return jvm.data_frame(SparkSession(jvm.context, jvm.active_session()), relation)
