"""A scan of a table: planned by Floe, read by Spark's own Parquet reader or by the Arrow reader in Python workers.

A scan that Spark's reader cannot do alone is replaced by another plan when the query is optimized
(`floe.spark.read.rewrite`). Where no optimizer rule runs, the Arrow reader reads all files.
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
from floe.spark.read.filters import filter_of
from floe.spark.read.native import NativeColumns, native_columns, why_not_columns
from floe.spark.read.parts import arrow_factory, arrow_partitions, columnar_mode, native_factory, native_partitions
from floe.spark.read.rewrite import rewritten_read
from floe.spark.read.source import NOTHING_PUSHED, PlannedFiles, Pushed, Source, selects_whole_files, why_not_reachable
from floe.spark.read.statistics import ColumnFacts, TableStatistics, column_facts, distinct_counts, is_reported, width
from floe.spark.schemas import spark_schema
from floe.spark.streaming.source import TableStream
from floe.spec.expressions.nodes import TRUE, Expression, and_
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field
from floe.table.display import snapshot_line

_REFERENCE: Final = "org.apache.spark.sql.connector.expressions.NamedReference"


class TableScan(SupportsReportStatistics, SupportsRuntimeV2Filtering, Batch, Rewritable):
    """The rows of a table that a query asks for."""

    def __init__(
        self,
        jvm: Jvm,
        source: Source,
        wanted: Schema,
        *,
        pushed: Pushed = NOTHING_PUSHED,
        limit: int | None = None,
        plan: ScanPlan | None = None,
        paths: frozenset[str] | None = None,
    ) -> None:
        super().__init__(jvm)
        if plan is not None:
            self._plan = plan
        self._source = source
        self._wanted = wanted
        self._pushed = pushed
        self._limit = limit
        self._paths = paths
        self._runtime: Expression = TRUE
        self._told: list[Expression] = []
        self._known_files: PlannedFiles | None = None

    def key(self) -> Any:
        """The same rows of the same state are the same to Spark."""
        return (self._source.key, self._wanted, str(self.looked_at), str(self._runtime), self._limit, self._paths)

    @property
    def source(self) -> Source:
        """What is read."""
        return self._source

    @property
    def looked_at(self) -> Expression:
        """The rows that are looked at, at most."""
        return self._pushed.where

    @property
    def asked(self) -> Schema:
        """The columns that the query asked for."""
        return self._wanted

    # planning ----------------------------------------------------------------------------------------------------

    @cached_property
    def _plan(self) -> ScanPlan:
        plan = self._source.plan(and_(self.looked_at, self._runtime))
        return plan if self._paths is None else plan.only(self._paths)

    @property
    def files(self) -> PlannedFiles:
        """The files to read, as far as that is known now."""
        if self._known_files is None or self._known_files.plan is not self._plan:
            self._known_files = PlannedFiles(self._plan).first(self._useful_limit)
        return self._known_files

    @property
    def _useful_limit(self) -> int | None:
        """The limit, if every row of the files counts."""
        if self._limit is None or self._plan.has_deletes or not selects_whole_files(self._plan):
            return None
        return self._limit

    @property
    def splits(self) -> SplitSettings:
        """How many bytes of files a task reads."""
        return self._source.split_settings(self._plan.size, self.jvm.context.defaultParallelism)

    @cached_property
    def _obstacle(self) -> str | None:
        """Why Spark's own reader cannot read it; None if it can."""
        files = self.files
        if other := sorted(set(files.table["file_format"].unique().to_pylist()) - {"parquet"}):
            return f"{' and '.join(other)} files"
        if files.with_positions.any() or files.with_keys.any():
            return "row-level deletes"
        return why_not_columns(self._plan.metadata, self._wanted) or self.unreachable

    @cached_property
    def unreachable(self) -> str | None:
        """Why Spark does not reach the files; None if it does."""
        return why_not_reachable(self.jvm, self._source)

    @cached_property
    def _columns(self) -> NativeColumns:
        return native_columns(self._source.table.metadata, self._wanted)

    @cached_property
    def columns(self) -> Schema:
        """The columns that come, in their order."""
        if self._obstacle is None:
            return Schema(self._columns.fields)
        # Arrow's batches have no length without a column, so the smallest one is read to count rows
        return self._wanted if self._wanted.fields else Schema((_smallest(self._source.schema),))

    # what Spark asks ---------------------------------------------------------------------------------------------

    def readSchema(self) -> Any:
        """The columns that come."""
        return self.jvm.data_type(spark_schema(self.columns.fields))

    def description(self) -> str:
        """The table, its state, the files and the filter, in words."""
        reader = "Spark's Parquet reader" if self._obstacle is None else f"Arrow reader, for {self._obstacle}"
        return self.described(len(self._plan), f"read by {reader}")

    def described(self, files: int, *how: str) -> str:
        """The table, its state, how many files, the filter, and how it is read, in words."""
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
            *([f"runtime filter: {self._runtime}"] if self._runtime is not TRUE else []),
            *([f"limit: {self._limit}"] if self._limit is not None else []),
            *how,
        ]
        return "; ".join(parts)

    def estimateStatistics(self) -> Any:
        """Rows and bytes, before filters within files."""
        return self.statistics(self.files, self._wanted.fields)

    def statistics(self, files: PlannedFiles, columns: Iterable[Field]) -> TableStatistics:
        """How much some columns of some files are."""
        rows, fields = files.live_rows, list(columns)
        size = max(1, rows * (8 + sum(width(field.type) for field in fields)))
        return TableStatistics(self.jvm, rows, size, self._facts(fields))

    def _facts(self, fields: Sequence[Field]) -> list[ColumnFacts]:
        """What is known about columns, if Spark makes use of it."""
        found = distinct_counts(self._source.table.metadata, self._source.snapshot)
        known = [field for field in fields if field.id in found]
        if not known or not is_reported(self.jvm, self._source):
            return []
        plan = self._source.plan(and_(self.looked_at, self._runtime), metrics=[field.id for field in known])
        facts = (column_facts(plan, field, found[field.id]) for field in known)
        return [one for one in facts if one is not None]

    def toBatch(self) -> Any:
        """The read itself."""
        return self

    def toMicroBatchStream(self, checkpoint: str) -> Any:
        """The read as a stream."""
        return TableStream(self.jvm, self._source, self._wanted)

    def columnarSupportMode(self) -> Any:
        """Whether rows come in columns, which is known without planning the parts."""
        return self._columnar

    @cached_property
    def _columnar(self) -> Any:
        return columnar_mode(self.jvm, self._factory)

    def planInputPartitions(self) -> Any:
        """The files in parts, packed into partitions."""
        files, splits = self.files, self.splits
        self.began(self, files)
        if self._obstacle is None:
            return native_partitions(self.jvm, files.table, self._source.storage, self._columns, splits)
        return arrow_partitions(self.jvm, files, splits)

    def began(self, part: Proxy, files: PlannedFiles) -> None:
        """These files are about to be read, by this read or a part of it."""

    def createReaderFactory(self) -> Any:
        """Who reads the parts."""
        return self._factory

    @cached_property
    def _factory(self) -> Any:
        if self._obstacle is None:
            return native_factory(self.jvm, self._columns, self.pushed)
        return arrow_factory(self.jvm, self._source, self.columns)

    @property
    def pushed(self) -> Pushed:
        """What Spark's reader may leave out row groups by."""
        return self._pushed

    def rewritten(self, node: Any) -> Any:
        """The node, or a plan in its place that reads with Spark's reader what that can read."""
        return node if self._obstacle is None else rewritten_read(self, node)

    def tasks(self) -> list[FileTask]:
        """The files to read, with their deletes."""
        return list(self.files.tasks())

    # filters that come when the query runs -----------------------------------------------------------------------

    def filterAttributes(self) -> Any:
        """The columns by which the table is partitioned: they leave out most files."""
        sources = {field.source_id for spec in self._source.table.metadata.partition_specs for field in spec.fields}
        expressions = self.jvm.sql("connector.expressions.Expressions")
        names = [f"`{field.name.replace('`', '``')}`" for field in self._wanted.fields if field.id in sources]
        return self.jvm.array(_REFERENCE, [expressions.column(name) for name in names])

    def filter(self, predicates: Any) -> None:
        """Plan again with what the query has found out."""
        self.told(filter_of(read_conditions(self.jvm, predicates), self._source.schema))

    def told(self, added: Expression) -> None:
        """Plan again with one more filter."""
        if added is not TRUE and added not in self._told:  # both parts of a read that was rewritten are told
            self._told.append(added)
            self._runtime = and_(self._runtime, added)
            vars(self).pop("_plan", None)  # the reader stays: fewer files are no obstacle


def _smallest(schema: Schema) -> Field:
    return min(schema.fields, key=lambda field: (field.type.is_nested, width(field.type)))
