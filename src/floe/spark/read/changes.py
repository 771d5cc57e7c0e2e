"""The changelog of a table as a table: `SELECT * FROM lake.db.t.changes`.

The driver plans which files were added or removed and which rows of other files were deleted (`ChangeSource`). Python
workers read them with the Arrow reader (`ReadChanges`). Spark removes the rows that cancel out: a file that was
rewritten to change a few rows has all other rows as deletes and as inserts, because they were only *carried over*.
Rows are compared as a whole, and as often as they occur. `net_changes` and `pair_updates` are for the procedure
`create_changelog_view`.

| option | meaning |
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

from floe.arrow.read.changelog import with_change_columns
from floe.arrow.read.task_reader import TaskReader
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
from floe.spark.names import AsOf, TableSelector
from floe.spark.read.arrow_reader import python_partitions, python_reader_factory, to_spark_batch, unpickle_tasks
from floe.spark.read.filters import check_text_literals, combined_filter
from floe.spark.read.scan_source import project_schema
from floe.spark.schemas import spark_schema
from floe.spark.settings import END_SNAPSHOT_ID, END_TIMESTAMP, START_SNAPSHOT_ID, START_TIMESTAMP, check_read_options
from floe.spec.expressions.nodes import TRUE, Expression, and_
from floe.spec.metadata.ancestry import ancestors
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.metadata_columns import CHANGE_ORDINAL, CHANGE_TYPE, COMMIT_SNAPSHOT_ID, is_metadata_column
from floe.spec.schemas.schema import Schema
from floe.spec.types import StructType
from floe.spec.values.civil_time import millis_to_text
from floe.sql.printer import name_text
from floe.storage.protocol import Storage
from floe.table.table import Table

# Range of snapshots ---------------------------------------------------------------------------------------------------

_RANGES = {"start": (START_SNAPSHOT_ID, START_TIMESTAMP), "end": (END_SNAPSHOT_ID, END_TIMESTAMP)}
RANGE_OPTIONS = tuple(option.name for options in _RANGES.values() for option in options)


@dataclass(frozen=True, slots=True)
class ChangeRange:
    """A range of snapshots, by their ids."""

    after: int | None
    """The changes after this snapshot are read; None for all in the history."""

    until: int | None
    """The last snapshot of the range; None for an empty range."""


def change_range(metadata: TableMetadata, as_of: AsOf, options: Mapping[str, str]) -> ChangeRange:
    """The range that the options of a read choose, in the history of the snapshot `as_of`.

    Raises `InvalidInput` for options that contradict each other, and `NoSuchSnapshot` if the history has expired.
    """
    for end, (snapshot_id, timestamp) in _RANGES.items():
        if snapshot_id.is_set(options) and timestamp.is_set(options):
            raise InvalidInput(
                f"the {end} of the changes is set by {snapshot_id} and {timestamp}", hint="set only one of them"
            )
    begin, stop = START_TIMESTAMP.read(options), END_TIMESTAMP.read(options)
    if begin is not None and stop is not None and begin > stop:
        raise InvalidInput(f"the changes end before they start: {START_TIMESTAMP} {begin}, {END_TIMESTAMP} {stop}")
    head = choose_snapshot(metadata, snapshot=as_of.snapshot_id, ref=as_of.ref, as_of_ms=as_of.timestamp_ms)
    newest = None if head is None else head.snapshot_id
    after, until = START_SNAPSHOT_ID.read(options), END_SNAPSHOT_ID.read(options)
    if until is None:
        until = newest if stop is None else _snapshot_at(metadata, newest, stop)
    if after is None and begin is not None:
        after = _snapshot_at(metadata, newest, begin)
    return ChangeRange(after, until)


def _snapshot_at(metadata: TableMetadata, head: int | None, millis: int) -> int | None:
    """The id of the newest snapshot of a history up to a time; None if the history begins after it."""
    oldest = None
    for snapshot in ancestors(metadata, head):
        if snapshot.timestamp_ms <= millis:
            return snapshot.snapshot_id
        oldest = snapshot
    if oldest is not None and oldest.parent_snapshot_id is not None:
        raise NoSuchSnapshot(
            f"the snapshot of the table at {millis_to_text(millis)} has expired: the oldest one in the history is "
            f"snapshot {oldest.snapshot_id} of {millis_to_text(oldest.timestamp_ms)}",
            hint="begin later, or leave out the start to read all changes that are in the history",
        )
    return None


# Planning -------------------------------------------------------------------------------------------------------------


class ChangeSubset(Enum):
    """Which changes a scan reads: only those of snapshots that add and delete rows may have rows carried over."""

    ALL = "all changes"
    PLAIN = "changes of snapshots that only add or only delete"
    MIXED = "changes of snapshots that add and delete, with rows carried over"


@dataclass(frozen=True)
class ChangeSource:
    """What a scan of changes reads: a table, a range of its snapshots, and which of their changes."""

    name: str
    table: Table
    range: ChangeRange
    subset: ChangeSubset = ChangeSubset.ALL
    where: Expression = TRUE
    """A filter on the rows, in addition to that of the query."""

    _task_groups: dict[str, list[list[ChangeTask]]] = field(default_factory=dict, compare=False, repr=False)
    """The planned tasks of each snapshot, by filter; restricted sources share them."""

    @property
    def key(self) -> Any:
        """Equal for two sources with the same changes."""
        return (self.table.uuid, self.table.metadata_location, self.range, self.subset, str(self.where))

    @cached_property
    def schema(self) -> Schema:
        """The columns of the table, and the metadata columns of changes."""
        return with_change_columns(self.table.schema)

    def restrict(self, subset: ChangeSubset, where: Expression = TRUE) -> ChangeSource:
        """A source with a subset of the changes, of rows that match a filter."""
        return replace(self, subset=subset, where=and_(self.where, where))

    def tasks(self, where: Expression) -> list[ChangeTask]:
        """The tasks with changes of rows that may match a filter."""
        return [task for group in self._groups(and_(self.where, where)) for task in _select_subset(group, self.subset)]

    def may_carry_over(self, where: Expression) -> bool:
        """Whether rows may have been carried over: whether a snapshot both adds and deletes rows."""
        return any(map(_is_mixed, self._groups(and_(self.where, where))))

    def _groups(self, where: Expression) -> list[list[ChangeTask]]:
        """The tasks of each snapshot, in the order of the snapshots."""
        if self.range.until is None or self.range.until == self.range.after:
            return []
        groups = self._task_groups.get(str(where))
        if groups is None:
            snapshots = SnapshotRange(after=self.range.after, until=self.range.until)
            options = ScanOptions(where=None if where is TRUE else where)
            plan = plan_changelog(self.table.metadata, self.table.storage, snapshots, options=options)
            groups = [list(group) for _, group in groupby(plan.tasks(), key=lambda task: task.ordinal)]
            self._task_groups[str(where)] = groups
        return groups

    def pack(self, tasks: list[ChangeTask]) -> Iterator[list[ChangeTask]]:
        """The tasks in bins of about equal size, one for each partition."""
        settings = split_settings(self.table.metadata.properties)

        def weight(task: ChangeTask) -> int:
            added = task.added_deletes if isinstance(task, DeletedRows) else ()
            files = task.task.files_count + len(added)
            return max(task.task.size + sum(map(content_size, added)), files * settings.open_file_cost)

        return pack_bins(tasks, weight, settings.target_size, settings.lookback)


def _is_mixed(tasks: list[ChangeTask]) -> bool:
    """Whether the tasks of a snapshot both add and delete rows."""
    added = sum(isinstance(task, AddedRows) for task in tasks)
    return 0 < added < len(tasks)


def _select_subset(tasks: list[ChangeTask], subset: ChangeSubset) -> list[ChangeTask]:
    return tasks if subset is ChangeSubset.ALL or _is_mixed(tasks) is (subset is ChangeSubset.MIXED) else []


# Reading in workers ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReadChanges:
    """Reads pickled tasks of changes in a worker, and returns their rows in Spark's types."""

    metadata: TableMetadata
    storage: Storage
    schema: Schema
    """The columns to read, with metadata columns of changes among them."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the tasks that are pickled in the batches, one task after the other."""
        reader = TaskReader(self.metadata, self.storage)
        table_fields = tuple(field for field in self.schema.fields if not is_metadata_column(field.id))
        columns = Schema(table_fields or self.metadata.schema.fields[:1])  # a batch without columns would have no rows
        for task in unpickle_tasks(batches):
            for rows in _read_task(reader, task, columns):
                yield self._add_change_columns(rows, task)

    def _add_change_columns(self, rows: pa.RecordBatch, task: ChangeTask) -> pa.RecordBatch:
        """The rows with the metadata columns of their change."""
        change_values = {
            CHANGE_TYPE.id: pa.scalar("INSERT" if isinstance(task, AddedRows) else "DELETE"),
            CHANGE_ORDINAL.id: pa.scalar(task.ordinal, pa.int32()),
            COMMIT_SNAPSHOT_ID.id: pa.scalar(task.snapshot_id, pa.int64()),
        }
        table_columns = iter(rows.columns)
        arrays = [
            pa.repeat(change_values[field.id], rows.num_rows) if field.id in change_values else next(table_columns)
            for field in self.schema.fields
        ]
        named = pa.RecordBatch.from_arrays(arrays, names=[field.name for field in self.schema.fields])
        return to_spark_batch(named, self.schema.fields)


def _read_task(reader: TaskReader, task: ChangeTask, columns: Schema) -> Iterator[pa.RecordBatch]:
    if isinstance(task, DeletedRows):
        return reader.newly_deleted_rows(task.task, task.added_deletes, columns)
    return reader.batches(task.task, columns)


# Changes that cancel out, and updates ---------------------------------------------------------------------------------

_TYPE, _ORDINAL, _SNAPSHOT = CHANGE_TYPE.name, CHANGE_ORDINAL.name, COMMIT_SNAPSHOT_ID.name
_CHANGE_COLUMNS: Final = (_TYPE, _ORDINAL, _SNAPSHOT)
_COUNT, _POSITION, _RUNNING_SUM, _LAST_ZERO = "floe-count", "floe-position", "floe-sum", "floe-zero"


def _column(name: str) -> Column:
    return F.col(f"`{name.replace('`', '``')}`")


def _table_columns(rows: DataFrame) -> list[Column]:
    """The columns of the table, without the metadata columns of changes."""
    return [_column(name) for name in rows.columns if name not in _CHANGE_COLUMNS]


def _comparison_keys(rows: DataFrame) -> list[Column]:
    """The columns by which whole rows are compared; maps by their entries, because Spark does not compare maps."""
    return [
        F.array_sort(F.map_entries(_column(field.name))) if isinstance(field.dataType, MapType) else _column(field.name)
        for field in rows.schema.fields
        if field.name not in _CHANGE_COLUMNS
    ]


def _sign() -> Column:
    return F.when(_column(_TYPE) == "INSERT", 1).otherwise(-1)


def _repeat_rows(rows: DataFrame, count: Column, columns: Sequence[Column]) -> DataFrame:
    """Each row as often as `count` says: as inserts if it is positive, as deletes if it is negative."""
    kind = F.when(count > 0, "INSERT").otherwise("DELETE").alias(_TYPE)
    several = F.explode(F.array_repeat(F.lit(True), F.abs(count).cast("int"))).alias(_POSITION)
    return rows.where(count != 0).select(*columns, kind, _column(_ORDINAL), _column(_SNAPSHOT), several).drop(_POSITION)


def remove_carried_over(rows: DataFrame) -> DataFrame:
    """The changes without rows that a snapshot deletes and adds again unchanged."""
    table_columns = _table_columns(rows)
    groups = rows.groupBy(*table_columns, _column(_ORDINAL), _column(_SNAPSHOT)).agg(F.sum(_sign()).alias(_COUNT))
    return _repeat_rows(groups, _column(_COUNT), table_columns).select(*map(_column, rows.columns))


def net_changes(rows: DataFrame) -> DataFrame:
    """The net changes over all snapshots: inserts and deletes of equal rows cancel out.

    What remains of a row is placed where it first differed for good: after the last snapshot at which its inserts and
    deletes were balanced.
    """
    table_columns, same_row = _table_columns(rows), Window.partitionBy(*_comparison_keys(rows))
    order = same_row.orderBy(_column(_ORDINAL), _column(_TYPE))
    summed = rows.select(
        *table_columns,
        *map(_column, _CHANGE_COLUMNS),
        F.row_number().over(order).alias(_POSITION),
        F.sum(_sign()).over(order.rowsBetween(Window.unboundedPreceding, 0)).alias(_RUNNING_SUM),
        F.sum(_sign()).over(same_row).alias(_COUNT),
    )
    last_zero = F.coalesce(F.max(F.when(_column(_RUNNING_SUM) == 0, _column(_POSITION))).over(same_row), F.lit(0))
    first = summed.withColumn(_LAST_ZERO, last_zero).where(_column(_POSITION) == _column(_LAST_ZERO) + 1)
    return _repeat_rows(first, _column(_COUNT), table_columns).select(*map(_column, rows.columns))


def pair_updates(rows: DataFrame, identifiers: Sequence[str]) -> DataFrame:
    """Turn the delete and the insert of a row with the same identifier in one snapshot into an update.

    The delete becomes `UPDATE_BEFORE`, the insert `UPDATE_AFTER`. If several rows of a snapshot have the same
    identifier, they remain deletes and inserts.
    """
    same_key = Window.partitionBy(*map(_column, identifiers), _column(_ORDINAL))
    deleted, added = (
        F.sum(F.when(_column(_TYPE) == kind, 1).otherwise(0)).over(same_key) for kind in ("DELETE", "INSERT")
    )
    image = F.when(_column(_TYPE) == "DELETE", "UPDATE_BEFORE").otherwise("UPDATE_AFTER")
    kind = F.when((deleted == 1) & (added == 1), image).otherwise(_column(_TYPE)).alias(_TYPE)
    return rows.select(*(kind if name == _TYPE else _column(name) for name in rows.columns))


# The scan -------------------------------------------------------------------------------------------------------------

FrameFactory = Callable[[ChangeSource], DataFrame]
"""Creates a data frame of changes."""


class ChangeScanBuilder(SupportsPushDownRequiredColumns, SupportsPushDownV2Filters):
    """Builds a scan of changes from what Spark pushes down."""

    def __init__(self, jvm: Jvm, source: ChangeSource, make_frame: FrameFactory) -> None:
        super().__init__(jvm)
        self._source, self._make_frame = source, make_frame
        self._projection = source.schema
        self._where: Expression = TRUE

    def pruneColumns(self, schema: Any) -> None:
        """Take the columns, and the fields of structs, that the query needs."""
        self._projection = project_schema(self._source.schema, self.jvm.read_data_type(schema), StructType(()))

    def pushPredicates(self, predicates: Any) -> Any:
        """Take predicates to prune files by, and return all of them: Spark evaluates them on the rows."""
        conditions = read_conditions(self.jvm, predicates)
        check_text_literals(conditions, self._source.table.schema)
        self._where = combined_filter(conditions, self._source.table.schema)
        return predicates

    def build(self) -> Any:
        """The scan: Spark calls this when everything is pushed down."""
        return ChangeScan(self.jvm, self._source, self._projection, self._where, self._make_frame)


class ChangeScan(Scan, Batch, Rewritable):
    """Spark's scan of changes, read by Python workers."""

    def __init__(
        self, jvm: Jvm, source: ChangeSource, projection: Schema, where: Expression, make_frame: FrameFactory
    ) -> None:
        super().__init__(jvm)
        self._source, self._projection, self._where, self._make_frame = source, projection, where, make_frame

    def key(self) -> Any:
        """Equal for two scans that read the same changes, so that Spark can reuse the result of one."""
        return (self._source.key, self._projection, str(self._where))

    @cached_property
    def _tasks(self) -> list[ChangeTask]:
        return self._source.tasks(self._where)

    def readSchema(self) -> Any:
        """The schema of the rows that the reader returns."""
        return self.jvm.data_type(spark_schema(self._read_schema.fields))

    @property
    def _read_schema(self) -> Schema:
        return self._projection if self._projection.fields else Schema(self._source.schema.fields[-1:])

    def description(self) -> str:
        """The text of the scan in EXPLAIN: table, range and files."""
        begin, end = self._source.range.after, self._source.range.until
        since = "the whole history" if begin is None else f"after snapshot {begin}"
        files = f"files: {len(self._tasks)}"
        return f"Floe table {self._source.name}; {self._source.subset.value}: {since}, up to snapshot {end}; {files}"

    def toBatch(self) -> Any:
        """The scan itself, as a batch read."""
        return self

    def planInputPartitions(self) -> Any:
        """The tasks, packed into partitions of about equal size."""
        bins = self._source.pack(self._tasks)
        return python_partitions(self.jvm, (pickle.dumps(tuple(tasks)) for tasks in bins))

    def createReaderFactory(self) -> Any:
        """The factory of readers that read the files in Python workers."""
        table = self._source.table
        read = ReadChanges(executor_metadata(table.metadata), table.storage, self._read_schema)
        return python_reader_factory(self.jvm, read, spark_schema(self._read_schema.fields))

    # rows carried over -------------------------------------------------------------------------------------------

    def rewrite(self, node: Any) -> Any:
        """The node of this scan in a plan, or a plan that replaces it, which removes rows carried over."""
        if self._source.subset is not ChangeSubset.ALL or not self._source.may_carry_over(self._where):
            return node
        plans, expressions = Plans(self.jvm), Expressions(self.jvm)
        attributes = plans.output(node)
        names = [f"`{attribute.name().replace('`', '``')}`" for attribute in attributes]
        rows = remove_carried_over(self._frame(ChangeSubset.MIXED)).select(*names)
        rows = rows.unionAll(self._frame(ChangeSubset.PLAIN).select(*names))
        plan: Any = rows._jdf.queryExecution().optimizedPlan()
        pairs = zip(plans.output(plan), attributes, strict=True)
        return plans.project([expressions.alias(column, attribute) for column, attribute in pairs], plan)

    def _frame(self, subset: ChangeSubset) -> DataFrame:
        """A subset of the changes as a data frame, with all columns: whole rows are compared."""
        return self._make_frame(self._source.restrict(subset, self._where))


# The table ------------------------------------------------------------------------------------------------------------


class ChangesTable(SupportsRead):
    """The changelog of a table as a Spark table; the options of a read choose the range of snapshots."""

    def __init__(
        self,
        jvm: Jvm,
        path: tuple[str, ...],
        table: Table,
        selected: TableSelector,
        source: ChangeSource | None = None,
    ) -> None:
        super().__init__(jvm)
        self._path, self._table, self._selected, self._source = path, table, selected, source
        self._columns = spark_schema(with_change_columns(table.schema).fields)

    def key(self) -> Any:
        """Equal for two tables with the same changes."""
        source_key = None if self._source is None else self._source.key
        return (self._table.uuid, self._table.metadata_location, self._selected, source_key)

    def title(self) -> str:
        """The name of the relation in plans."""
        return f"Floe changes {self.name()}"

    def name(self) -> str:
        """The full name of the table, for messages and plans."""
        return ".".join(map(name_text, self._path))

    def schema(self) -> Any:
        """The columns of the table and of changes, as a Java `StructType`."""
        return self.jvm.data_type(self._columns)

    def columns(self) -> Any:
        """The columns of the table and of changes, as a Java array `Column[]`."""
        return self.jvm.columns(self._columns)

    def capabilities(self) -> Any:
        """What Spark may do with the table: batch reads."""
        kind = "org.apache.spark.sql.connector.catalog.TableCapability"
        return self.jvm.set([self.jvm.constant(kind, "BATCH_READ")])

    def newScanBuilder(self, options: Any) -> Any:
        """The builder of a scan with the options of a read."""
        source = self._source
        if source is None:
            read_options = {
                name.lower(): value for name, value in self.jvm.read_map(options.asCaseSensitiveMap()).items()
            }
            check_read_options(read_options)
            changes = change_range(self._table.metadata, self._selected.as_of, read_options)
            source = ChangeSource(self.name(), self._table, changes)
        return ChangeScanBuilder(self.jvm, source, self._make_frame)

    def _make_frame(self, source: ChangeSource) -> DataFrame:
        """A data frame of changes in the active session."""
        jvm = self.jvm
        table = ChangesTable(jvm, self._path, self._table, self._selected, source)
        relation = jvm.sql("execution.datasources.v2.DataSourceV2Relation").create(table, jvm.none, jvm.none)
        return jvm.data_frame(SparkSession(jvm.context, jvm.active_session()), relation)
