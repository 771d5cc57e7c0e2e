"""A read of changes: planned on the driver, read by tasks, and by Spark made net of rows that were carried over."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame

from floe.plan.changelog import ChangeTask
from floe.spark.bridge.interfaces.scans import Batch, Scan, SupportsPushDownRequiredColumns, SupportsPushDownV2Filters
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import Expressions, Plans
from floe.spark.bridge.predicates import read_conditions
from floe.spark.bridge.rules import Rewritable
from floe.spark.changes.net import net_of_carried_over
from floe.spark.changes.source import ChangeSource, Part
from floe.spark.changes.worker import ReadChanges
from floe.spark.columns import spark_schema
from floe.spark.scan.predicates import check_texts, filter_of
from floe.spark.scan.projection import projected
from floe.spark.scan.python_reader import python_partitions, python_reader_factory
from floe.spark.shipping import shipped
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.schemas.schema import Schema
from floe.spec.types import StructType

__all__ = ["ChangeScan", "ChangeScanBuilder"]

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
        read = ReadChanges(shipped(table.metadata), table.storage, self._read)
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
