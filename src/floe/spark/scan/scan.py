"""A read of a table: planned by Floe, carried out by Spark's own Parquet reader, or by the Arrow reader in workers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import FileTask
from floe.spark.bridge.interfaces.scans import Batch, Statistics, SupportsReportStatistics, SupportsRuntimeV2Filtering
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.partitioned_files import partitioned_files
from floe.spark.bridge.rules import Rewritable
from floe.spark.columns import spark_schema
from floe.spark.scan.native import NativeColumns, native_columns, reader_factory, why_not_native
from floe.spark.scan.predicates import translate
from floe.spark.scan.python_reader import python_partitions, python_reader_factory
from floe.spark.scan.reach import why_not_reachable
from floe.spark.scan.source import Source, selects_whole_files
from floe.spark.scan.splits import file_parts, split_size
from floe.spark.scan.worker import ReadTasks, pickled_tasks
from floe.spark.streaming.source import TableStream
from floe.spec.expressions.nodes import TRUE, Expression, and_
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, Type
from floe.table.cards import snapshot_line

__all__ = ["TableScan"]

_INPUT: Final = "org.apache.spark.sql.connector.read.InputPartition"
_REFERENCE: Final = "org.apache.spark.sql.connector.expressions.NamedReference"


class TableScan(SupportsReportStatistics, SupportsRuntimeV2Filtering, Batch, Rewritable):
    """The rows of a table that a query asks for."""

    def __init__(
        self,
        jvm: Jvm,
        source: Source,
        wanted: Schema,
        where: Expression,
        *,
        predicates: Sequence[Any] = (),
        limit: int | None = None,
        plan: ScanPlan | None = None,
    ) -> None:
        super().__init__(jvm)
        if plan is not None:
            self._plan = plan
        self._source = source
        self._wanted = wanted
        self._where = where
        self._predicates = predicates
        self._limit = limit
        self._runtime: Expression = TRUE

    def key(self) -> Any:
        """The same rows of the same state are the same to Spark."""
        return (self._source.key, self._wanted, str(self._where), str(self._runtime), self._limit)

    # planning ----------------------------------------------------------------------------------------------------

    @cached_property
    def _plan(self) -> ScanPlan:
        return self._source.plan(and_(self._where, self._runtime))

    @cached_property
    def _obstacle(self) -> str | None:
        """Why Spark's own reader cannot read it; None if it can."""
        plan = self._plan
        formats = plan.to_arrow()["file_format"].unique().to_pylist()
        return why_not_native(plan, self._wanted, formats) or why_not_reachable(self.jvm, self._source)

    @cached_property
    def _columns(self) -> NativeColumns:
        return native_columns(self._source.table.metadata, self._wanted)

    @cached_property
    def _read(self) -> Schema:
        """The columns that come, in their order."""
        if self._obstacle is None:
            return Schema(self._columns.fields)
        # Arrow's batches have no length without a column, so the smallest one is read to count rows
        return self._wanted if self._wanted.fields else Schema((_smallest(self._source.schema),))

    # what Spark asks ---------------------------------------------------------------------------------------------

    def readSchema(self) -> Any:
        """The columns that come."""
        return self.jvm.data_type(spark_schema(self._read.fields))

    def description(self) -> str:
        """The table, its state, the files and the filter, in words."""
        plan, snapshot = self._plan, self._source.snapshot
        total = plan.report.files_read if plan.report.data_manifests_skipped == 0 else None
        of_total = f" of {total}" if total is not None else f" (of {plan.report.data_manifests} manifests "
        if total is None:
            of_total += f"{plan.report.data_manifests_skipped} skipped)"
        reader = "Spark's Parquet reader" if self._obstacle is None else f"Arrow reader, for {self._obstacle}"
        parts = [
            f"Floe table {self._source.name}",
            "no snapshot yet" if snapshot is None else snapshot_line(snapshot),
            f"files: {len(plan)}{of_total}",
            f"pushed filter: {plan.filter}",
            *([f"runtime filter: {self._runtime}"] if self._runtime is not TRUE else []),
            *([f"limit: {self._limit}"] if self._limit is not None else []),
            f"read by {reader}",
        ]
        return "; ".join(parts)

    def estimateStatistics(self) -> Any:
        """Rows and bytes, before filters within files."""
        rows = self._plan.record_count
        width = sum(_width(field.type) for field in self._wanted.fields) + 8
        return TableStatistics(self.jvm, rows, max(1, rows * width))

    def toBatch(self) -> Any:
        """The read itself."""
        return self

    def toMicroBatchStream(self, checkpoint: str) -> Any:
        """The read as a stream."""
        return TableStream(self.jvm, self._source, self._wanted)

    def planInputPartitions(self) -> Any:
        """The files in parts, packed into partitions."""
        parallelism = self.jvm.context.defaultParallelism
        size = split_size(self._plan, parallelism, self._source.split_size)
        if self._obstacle is None:
            return self._native_partitions(size)
        bins = self._plan.combined(target_size=size)
        return python_partitions(self.jvm, map(pickled_tasks, self._few(bins)))

    def _native_partitions(self, size: int) -> Any:
        columns = self._columns
        found = file_parts(self._few_files(), self._source.storage, columns.constants, size)
        parts = sorted(found, key=lambda part: -part[2])
        if not parts:
            return self.jvm.array(_INPUT, [])
        kind = "org.apache.spark.sql.execution.datasources.FilePartition"
        files = partitioned_files(self.jvm, parts, columns.kinds)
        packed = self.jvm.named(kind).getFilePartitions(self.jvm.active_session(), files, size)
        return packed.toArray(self.jvm.module("scala.reflect.ClassTag").apply(self.jvm.reflected(_INPUT)))

    def _few_files(self) -> pa.Table:
        """The files; with a limit and nothing left to check, as many as have so many rows."""
        files, limit = self._plan.to_arrow(), self._useful_limit
        if limit is None:
            return files
        rows = np.cumsum(np.maximum(files["record_count"].to_numpy(), 0))
        return files.slice(0, int(np.searchsorted(rows, limit)) + 1)

    @property
    def _useful_limit(self) -> int | None:
        """The limit, if every row of the files counts."""
        return None if self._plan.has_deletes or not selects_whole_files(self._plan) else self._limit

    def _few(self, bins: Any) -> Any:
        """With a limit and nothing left to check, as many files as have so many rows."""
        limit = self._useful_limit
        if limit is None:
            yield from bins
            return
        rows = 0
        for tasks in bins:
            yield tasks
            rows += sum(_rows(task) for task in tasks)
            if rows >= limit:
                return

    def createReaderFactory(self) -> Any:
        """Who reads the parts."""
        if self._obstacle is None:
            return reader_factory(self.jvm, self._columns, self._row_group_predicates())
        read = ReadTasks(self._source.shipped_metadata, self._source.storage, self._read)
        return python_reader_factory(self.jvm, read, spark_schema(self._read.fields))

    def _row_group_predicates(self) -> list[Any]:
        """Those that are about columns which have their own names in all files."""
        own = {field.name for field in self._columns.data if field.id in self._columns.own_names}
        found = []
        for predicate in self._predicates:
            paths = [self.jvm.read_strings(reference.fieldNames()) for reference in predicate.references()]
            if paths and all(len(path) == 1 and path[0] in own for path in paths):
                found.append(predicate)
        return found

    # filters that come when the query runs -----------------------------------------------------------------------

    def filterAttributes(self) -> Any:
        """The columns by which the table is partitioned: they leave out most files."""
        sources = {field.source_id for spec in self._source.table.metadata.partition_specs for field in spec.fields}
        expressions = self.jvm.sql("connector.expressions.Expressions")
        names = [f"`{field.name.replace('`', '``')}`" for field in self._wanted.fields if field.id in sources]
        return self.jvm.array(_REFERENCE, [expressions.column(name) for name in names])

    def filter(self, predicates: Any) -> None:
        """Plan again with what the query has found out."""
        schema, sensitive = self._source.schema, self.jvm.is_case_sensitive
        found = [translate(self.jvm, predicate, schema, case_sensitive=sensitive).filter for predicate in predicates]
        added = and_(*found)
        if added is not TRUE:
            self._runtime = and_(self._runtime, added)
            vars(self).pop("_plan", None)  # the reader stays: fewer files are no obstacle


class TableStatistics(Statistics):
    """How much a read will bring."""

    def __init__(self, jvm: Jvm, rows: int, size: int) -> None:
        super().__init__(jvm)
        self._rows, self._size = rows, size

    def numRows(self) -> Any:
        """About how many rows."""
        return self.jvm.optional_long(self._rows)

    def sizeInBytes(self) -> Any:
        """About how many bytes."""
        return self.jvm.optional_long(self._size)


def _rows(task: FileTask) -> int:
    return max(0, task.file.record_count) if task.is_whole else 0


_WIDTHS: Final = {"boolean": 1, "int": 4, "float": 4, "date": 4, "string": 20, "uuid": 36, "binary": 100, "fixed": 100}


def _width(type_: Type) -> int:
    """About how many bytes a value takes in Spark's rows, as Spark itself estimates it."""
    match type_.kind:
        case "struct":
            return sum(_width(field.type) for field in type_.fields)
        case "list" | "map":
            return sum(_width(field.type) for field in type_.fields)
        case "decimal":
            return 8 if getattr(type_, "precision", 38) <= 18 else 16
        case kind:
            return _WIDTHS.get(kind, 8)


def _smallest(schema: Schema) -> Field:
    return min(schema.fields, key=lambda field: (field.type.is_nested, _width(field.type)))
