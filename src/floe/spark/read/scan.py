"""A scan of a table: planned by Floe, read by Spark's Parquet reader or by the Arrow reader in Python workers.

If Spark's reader cannot read all files, an optimizer rule replaces the scan by another plan (`rewrite`, in
`floe.spark.read.rewrite`). Where the rule does not run, the Arrow reader reads all files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Final

from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import FileTask, SplitSettings
from floe.spark.bridge.interfaces.read import Batch, SupportsReportStatistics, SupportsRuntimeV2Filtering
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.proxies import Proxy
from floe.spark.bridge.rules import Rewritable
from floe.spark.bridge.values import read_conditions
from floe.spark.read.filters import combined_filter
from floe.spark.read.native_reader import NativeColumns, column_obstacle, native_columns
from floe.spark.read.part_scans import arrow_factory, arrow_partitions, columnar_mode, native_factory, native_partitions
from floe.spark.read.rewrite import rewrite_scan
from floe.spark.read.scan_source import (
    NO_PREDICATES,
    PlannedFiles,
    PushedPredicates,
    ScanSource,
    location_obstacle,
    selects_whole_files,
)
from floe.spark.read.statistics import (
    ColumnSummary,
    TableStatistics,
    distinct_counts,
    estimated_width,
    reports_column_statistics,
    summarize_column,
)
from floe.spark.schemas import spark_schema
from floe.spark.streaming.source import TableStream
from floe.spec.expressions.nodes import TRUE, Expression, and_
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field
from floe.table.display import snapshot_line

_REFERENCE: Final = "org.apache.spark.sql.connector.expressions.NamedReference"


class TableScan(SupportsReportStatistics, SupportsRuntimeV2Filtering, Batch, Rewritable):
    """Spark's scan of a table: some columns, with a filter, of one snapshot."""

    def __init__(
        self,
        jvm: Jvm,
        source: ScanSource,
        projection: Schema,
        *,
        pushed: PushedPredicates = NO_PREDICATES,
        limit: int | None = None,
        plan: ScanPlan | None = None,
        paths: frozenset[str] | None = None,
    ) -> None:
        super().__init__(jvm)
        if plan is not None:
            self._plan = plan
        self._source = source
        self._projection = projection
        self._pushed = pushed
        self._limit = limit
        self._paths = paths
        self._runtime_filter: Expression = TRUE
        self._added_filters: list[Expression] = []
        self._planned: PlannedFiles | None = None

    def key(self) -> Any:
        """Equal for two scans that read the same rows, so that Spark can reuse the result of one."""
        return (
            self._source.key,
            self._projection,
            str(self.pushed_filter),
            str(self._runtime_filter),
            self._limit,
            self._paths,
        )

    @property
    def source(self) -> ScanSource:
        """The table and snapshot that are read."""
        return self._source

    @property
    def pushed_filter(self) -> Expression:
        """The filter of the predicates that Spark pushed down, without runtime filters."""
        return self._pushed.where

    @property
    def projection(self) -> Schema:
        """The columns that the query needs."""
        return self._projection

    # planning ----------------------------------------------------------------------------------------------------

    @cached_property
    def _plan(self) -> ScanPlan:
        plan = self._source.plan(and_(self.pushed_filter, self._runtime_filter))
        return plan if self._paths is None else plan.only(self._paths)

    @property
    def files(self) -> PlannedFiles:
        """The files to read; runtime filters that come later may remove some."""
        if self._planned is None or self._planned.plan is not self._plan:
            self._planned = PlannedFiles(self._plan).first(self._useful_limit)
        return self._planned

    @property
    def _useful_limit(self) -> int | None:
        """The limit, if every row of the files is in the result."""
        if self._limit is None or self._plan.has_deletes or not selects_whole_files(self._plan):
            return None
        return self._limit

    @property
    def splits(self) -> SplitSettings:
        """The sizes of splits and tasks, for all files of the plan."""
        return self._source.split_settings(self._plan.size, self.jvm.context.defaultParallelism)

    @cached_property
    def _obstacle(self) -> str | None:
        """Why Spark's reader cannot read all files; None if it can."""
        files = self.files
        if other := sorted(set(files.table["file_format"].unique().to_pylist()) - {"parquet"}):
            return f"{' and '.join(other)} files"
        if files.has_position_deletes.any() or files.has_equality_deletes.any():
            return "row-level deletes"
        return column_obstacle(self._plan.metadata, self._projection) or self.access_obstacle

    @cached_property
    def access_obstacle(self) -> str | None:
        """Why Spark's reader cannot open the files; None if it can."""
        return location_obstacle(self.jvm, self._source)

    @cached_property
    def _columns(self) -> NativeColumns:
        return native_columns(self._source.table.metadata, self._projection)

    @cached_property
    def columns(self) -> Schema:
        """The columns of the rows that the reader returns, in their order."""
        if self._obstacle is None:
            return Schema(self._columns.fields)
        # Arrow's batches have no length without a column, so the smallest one is read to count rows
        return self._projection if self._projection.fields else Schema((_narrowest_column(self._source.schema),))

    # Spark's interface -------------------------------------------------------------------------------------------

    def readSchema(self) -> Any:
        """The schema of the rows that the reader returns."""
        return self.jvm.data_type(spark_schema(self.columns.fields))

    def description(self) -> str:
        """The text of the scan in EXPLAIN: table, snapshot, files, filter and reader."""
        reader = "Spark's Parquet reader" if self._obstacle is None else f"Arrow reader, for {self._obstacle}"
        return self.describe(len(self._plan), f"read by {reader}")

    def describe(self, files: int, *how: str) -> str:
        """The text of a scan of `files` files of this plan in EXPLAIN; `how` are further parts of it."""
        plan, snapshot = self._plan, self._source.snapshot
        total = plan.report.files_read if plan.report.data_manifests_skipped == 0 else None
        of_total = f" of {total}" if total is not None else f" (of {plan.report.data_manifests} manifests "
        if total is None:
            of_total += f"{plan.report.data_manifests_skipped} skipped)"
        parts = [
            f"Floe table {self._source.name}",
            "no snapshot yet" if snapshot is None else snapshot_line(snapshot),
            f"files: {files}{of_total}",
            f"pushed filter: {plan.filter}",
            *([f"runtime filter: {self._runtime_filter}"] if self._runtime_filter is not TRUE else []),
            *([f"limit: {self._limit}"] if self._limit is not None else []),
            *how,
        ]
        return "; ".join(parts)

    def estimateStatistics(self) -> Any:
        """Rows, bytes and column statistics for Spark's optimizer; the filter on the rows of a file is not applied."""
        return self.statistics(self.files, self._projection.fields)

    def statistics(self, files: PlannedFiles, columns: Iterable[Field]) -> TableStatistics:
        """The statistics of some columns of some files."""
        rows, fields = files.live_rows, list(columns)
        size = max(1, rows * (8 + sum(estimated_width(field.type) for field in fields)))
        return TableStatistics(self.jvm, rows, size, self._column_statistics(fields))

    def _column_statistics(self, fields: Sequence[Field]) -> list[ColumnSummary]:
        """The statistics of the columns with distinct counts; none if Spark would not use them."""
        counts = distinct_counts(self._source.table.metadata, self._source.snapshot)
        counted = [field for field in fields if field.id in counts]
        if not counted or not reports_column_statistics(self.jvm, self._source):
            return []
        plan = self._source.plan(
            and_(self.pushed_filter, self._runtime_filter), metrics=[field.id for field in counted]
        )
        summaries = (summarize_column(plan, field, counts[field.id]) for field in counted)
        return [summary for summary in summaries if summary is not None]

    def toBatch(self) -> Any:
        """The scan itself, as a batch read."""
        return self

    def toMicroBatchStream(self, checkpoint: str) -> Any:
        """A stream of what is appended to the table, with the columns of the scan."""
        return TableStream(self.jvm, self._source, self._projection)

    def columnarSupportMode(self) -> Any:
        """Whether the reader returns columnar batches; Spark asks this before it plans partitions."""
        return self._columnar

    @cached_property
    def _columnar(self) -> Any:
        return columnar_mode(self.jvm, self._factory)

    def planInputPartitions(self) -> Any:
        """The splits of the files, packed into partitions: Spark runs a task for each."""
        files, splits = self.files, self.splits
        self.record_read(self, files)
        if self._obstacle is None:
            return native_partitions(self.jvm, files.table, self._source.storage, self._columns, splits)
        return arrow_partitions(self.jvm, files, splits)

    def record_read(self, part: Proxy, files: PlannedFiles) -> None:
        """Called with the files that this scan, or a part of it, is about to read; a row-level scan records them."""

    def createReaderFactory(self) -> Any:
        """The factory of the readers of partitions, which Spark sends to the executors."""
        return self._factory

    @cached_property
    def _factory(self) -> Any:
        if self._obstacle is None:
            return native_factory(self.jvm, self._columns, self.pushed)
        return arrow_factory(self.jvm, self._source, self.columns)

    @property
    def pushed(self) -> PushedPredicates:
        """The predicates by which Spark's reader may prune row groups."""
        return self._pushed

    def rewrite(self, node: Any) -> Any:
        """The node of this scan in a plan, or a plan that replaces it, in which Spark's reader reads what it can."""
        return node if self._obstacle is None else rewrite_scan(self, node)

    def tasks(self) -> list[FileTask]:
        """The files to read, with their deletes, as tasks."""
        return list(self.files.tasks())

    # runtime filters ---------------------------------------------------------------------------------------------

    def filterAttributes(self) -> Any:
        """The columns for which Spark may give runtime filters: those of partition fields, which prune most files."""
        sources = {field.source_id for spec in self._source.table.metadata.partition_specs for field in spec.fields}
        expressions = self.jvm.sql("connector.expressions.Expressions")
        names = [f"`{field.name.replace('`', '``')}`" for field in self._projection.fields if field.id in sources]
        return self.jvm.array(_REFERENCE, [expressions.column(name) for name in names])

    def filter(self, predicates: Any) -> None:
        """Take runtime filters: values that Spark found on the other side of a join."""
        self.add_runtime_filter(combined_filter(read_conditions(self.jvm, predicates), self._source.schema))

    def add_runtime_filter(self, added: Expression) -> None:
        """Plan again with one more filter."""
        # after a rewrite Spark gives the same filter to each part of the scan
        if added is not TRUE and added not in self._added_filters:
            self._added_filters.append(added)
            self._runtime_filter = and_(self._runtime_filter, added)
            vars(self).pop("_plan", None)  # `_obstacle` and the reader stay: they are valid for fewer files too


def _narrowest_column(schema: Schema) -> Field:
    """The column whose values take the fewest bytes."""
    return min(schema.fields, key=lambda field: (field.type.is_nested, estimated_width(field.type)))
