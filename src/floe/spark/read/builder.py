"""A read that is being put together: Spark tells the columns, the filters, the limit and the aggregates."""

from __future__ import annotations

from typing import Any

from floe.plan.scan_plan import ScanPlan
from floe.spark.bridge.interfaces.scans import (
    SupportsPushDownAggregates,
    SupportsPushDownLimit,
    SupportsPushDownRequiredColumns,
    SupportsPushDownV2Filters,
)
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.predicates import read_aggregates, read_conditions
from floe.spark.scan.aggregates import AggregateScan, Answer, answers
from floe.spark.scan.predicates import check_texts, files_named, translate
from floe.spark.scan.projection import projected
from floe.spark.scan.pushed import NOTHING_PUSHED, Pushed
from floe.spark.scan.scan import TableScan
from floe.spark.scan.source import Source, selects_whole_files
from floe.spec.expressions.nodes import TRUE
from floe.spec.partitioning.partition_spec import unified_partition_type
from floe.spec.schemas.metadata_columns import FILE
from floe.spec.schemas.schema import Schema

__all__ = ["TableScanBuilder"]

_PREDICATE = "org.apache.spark.sql.connector.expressions.filter.Predicate"


class TableScanBuilder(
    SupportsPushDownRequiredColumns, SupportsPushDownV2Filters, SupportsPushDownLimit, SupportsPushDownAggregates
):
    """Puts a read of a table together."""

    def __init__(self, jvm: Jvm, source: Source) -> None:
        super().__init__(jvm)
        self._source = source
        self._wanted: Schema = source.schema
        self._pushed = NOTHING_PUSHED
        self._paths: frozenset[str] | None = None
        self._limit: int | None = None
        self._answers: list[Answer] | None = None
        self._plan: ScanPlan | None = None

    def pruneColumns(self, schema: Any) -> None:
        """Read these columns, and of structs these parts."""
        metadata = self._source.table.metadata
        partitions = unified_partition_type(metadata.partition_specs, metadata.schemas)
        self._wanted = projected(self._source.schema, self.jvm.read_data_type(schema), partitions)

    def pushPredicates(self, predicates: Any) -> Any:
        """Leave out files by these; gives those that Spark has to check for each row.

        That is all of them, unless metadata tells that all rows of the files that are left pass.
        """
        conditions = read_conditions(self.jvm, predicates)
        check_texts(conditions, self._source.schema)
        self._pushed = Pushed(predicates, conditions.trees, translate(conditions, self._source.schema))
        for tree, made in zip(conditions.trees, self._pushed.found, strict=True):
            paths = files_named(tree) if made.filter == TRUE else None
            if paths is not None and not self._source.schema.has((FILE.name,)):
                self._paths = paths if self._paths is None else self._paths & paths
        if self._pushed.is_exact:
            self._plan = self._source.plan(self._pushed.where)
            if selects_whole_files(self._plan):
                return self.jvm.array(_PREDICATE, [])
        return predicates

    def pushedPredicates(self) -> Any:
        """Those that leave out files."""
        array, places = self._pushed.array, self._pushed.places
        if len(places) == len(self._pushed.trees) > 0:
            return array
        return self.jvm.array(_PREDICATE, [array[place] for place in places])

    def pushLimit(self, limit: int) -> bool:
        """So many rows are enough."""
        self._limit = limit
        return True

    def supportCompletePushDown(self, aggregation: Any) -> bool:
        """Whether metadata tells the answer."""
        return self.pushAggregation(aggregation)

    def pushAggregation(self, aggregation: Any) -> bool:
        """Tell the answer from metadata, if that is exact."""
        if self._answers is None and self._source.tells_aggregates:
            self._answers = answers(read_aggregates(self.jvm, aggregation), self._source, self._pushed.where)
        return self._answers is not None

    def build(self) -> Any:
        """The read."""
        if self._answers is not None:
            return AggregateScan(self.jvm, self._source, self._answers, self._pushed.where)
        return TableScan(
            self.jvm,
            self._source,
            self._wanted,
            pushed=self._pushed,
            limit=self._limit,
            plan=self._plan,
            paths=self._paths,
        )
