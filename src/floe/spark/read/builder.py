"""Spark's scan builder: takes the columns, predicates, limit and aggregates that Spark pushes down.

COUNT, MIN and MAX are computed from metadata where that is exact. The scan is then one row (`AggregateScan`), and no
data file is read. All other scans are a `TableScan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from floe.plan.counts import count_rows, count_values, value_range
from floe.plan.scan_plan import ScanPlan
from floe.spark.bridge.interfaces.read import (
    LocalScan,
    SupportsPushDownAggregates,
    SupportsPushDownLimit,
    SupportsPushDownRequiredColumns,
    SupportsPushDownV2Filters,
)
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.values import Aggregates, Call, Column, Node, read_aggregates, read_conditions, to_internal_rows
from floe.spark.read.filters import check_text_literals, file_predicate_paths, translate
from floe.spark.read.scan import TableScan
from floe.spark.read.scan_source import NO_PREDICATES, PushedPredicates, ScanSource, project_schema, selects_whole_files
from floe.spark.schemas import READ_ONLY_TYPES, spark_type
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.partitioning.partition_spec import unified_partition_type
from floe.spec.schemas.metadata_columns import FILE
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, Field, Type

_PREDICATE: Final = "org.apache.spark.sql.connector.expressions.filter.Predicate"


# Aggregates -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AggregateResult:
    """The value of an aggregate function, with the name and type of its column."""

    name: str
    type: Type
    value: Any


@dataclass(frozen=True, slots=True)
class _Aggregate:
    """An aggregate function that metadata may answer."""

    name: str
    field: Field | None
    """The column that is aggregated; None for COUNT(*)."""


def compute_aggregates(aggregates: Aggregates, source: ScanSource, where: Expression) -> list[AggregateResult] | None:
    """The results of aggregates over the rows that match a filter; None unless metadata gives all of them exactly."""
    if aggregates.is_grouped:
        return None
    aggregated = []
    for function in aggregates.functions:
        aggregate = _resolve_aggregate(function, source, aggregates.case_sensitive)
        if aggregate is None:
            return None
        aggregated.append(aggregate)
    plan = source.plan(where, metrics=[aggregate.field.id for aggregate in aggregated if aggregate.field is not None])
    results = []
    for aggregate in aggregated:
        if aggregate.field is None:
            rows = count_rows(plan)
            is_exact, result = rows.is_complete, AggregateResult("count(*)", LONG, rows.count)
        elif aggregate.name == "Count":
            values = count_values(plan, aggregate.field.id)
            is_exact, result = values.is_complete, AggregateResult(f"count({aggregate.field.name})", LONG, values.count)
        else:
            bounds = value_range(plan, aggregate.field.id)
            value = bounds.lower if aggregate.name == "Min" else bounds.upper
            is_exact = bounds.is_complete
            result = AggregateResult(f"{aggregate.name.lower()}({aggregate.field.name})", aggregate.field.type, value)
        if not is_exact:
            return None
        results.append(result)
    return results


def _resolve_aggregate(function: Node, source: ScanSource, case_sensitive: bool) -> _Aggregate | None:
    match function:
        case Call("CountStar"):
            return _Aggregate("CountStar", None)
        case Call("Count" | "Min" | "Max" as name, (Column(path),)):
            pass
        case _:
            return None
    if not source.schema.has(path, case_sensitive=case_sensitive):
        return None
    entry = source.schema.resolve(path, case_sensitive=case_sensitive)
    type_ = entry.field.type
    is_supported = not (entry.in_collection or type_.is_nested or type_.kind in READ_ONLY_TYPES)
    return _Aggregate(name, entry.field) if is_supported else None


class AggregateScan(LocalScan):
    """A scan that returns one row with the results of aggregates, without any task."""

    def __init__(
        self, jvm: Jvm, source: ScanSource, results: Sequence[AggregateResult], pushed_filter: Expression
    ) -> None:
        super().__init__(jvm)
        self.source, self._results, self.pushed_filter = source, results, pushed_filter

    def readSchema(self) -> Any:
        """The schema of the row: a column for each aggregate."""
        fields = [
            {"name": result.name, "type": spark_type(result.type), "nullable": True, "metadata": {}}
            for result in self._results
        ]
        return self.jvm.data_type({"type": "struct", "fields": fields})

    def description(self) -> str:
        """The text of the scan in EXPLAIN."""
        names = ", ".join(result.name for result in self._results)
        return f"Floe table {self.source.name}; {names} computed from metadata"

    def rows(self) -> Any:
        """The row, as Spark's `InternalRow[]`."""
        types = [spark_type(result.type) for result in self._results]
        return to_internal_rows(self.jvm, [[result.value for result in self._results]], types)


# The scan builder -----------------------------------------------------------------------------------------------------


class TableScanBuilder(
    SupportsPushDownRequiredColumns, SupportsPushDownV2Filters, SupportsPushDownLimit, SupportsPushDownAggregates
):
    """Builds the scan of a table from what Spark pushes down."""

    def __init__(self, jvm: Jvm, source: ScanSource) -> None:
        super().__init__(jvm)
        self._source = source
        self._projection: Schema = source.schema
        self._pushed = NO_PREDICATES
        self._paths: frozenset[str] | None = None
        self._limit: int | None = None
        self._aggregates: list[AggregateResult] | None = None
        self._plan: ScanPlan | None = None

    def pruneColumns(self, schema: Any) -> None:
        """Take the columns, and the fields of structs, that the query needs."""
        metadata = self._source.table.metadata
        partitions = unified_partition_type(metadata.partition_specs, metadata.schemas)
        self._projection = project_schema(self._source.schema, self.jvm.read_data_type(schema), partitions)

    def pushPredicates(self, predicates: Any) -> Any:
        """Take predicates to prune files by, and return those that Spark must evaluate on each row.

        These are all of them, unless all rows of the remaining files match by their metadata.
        """
        conditions = read_conditions(self.jvm, predicates)
        check_text_literals(conditions, self._source.schema)
        self._pushed = PushedPredicates(predicates, conditions.trees, translate(conditions, self._source.schema))
        for tree, translation in zip(conditions.trees, self._pushed.translations, strict=True):
            paths = file_predicate_paths(tree) if translation.filter == TRUE else None
            if paths is not None and not self._source.schema.has((FILE.name,)):
                self._paths = paths if self._paths is None else self._paths & paths
        if self._pushed.is_exact:
            self._plan = self._source.plan(self._pushed.where)
            if selects_whole_files(self._plan):
                return self.jvm.array(_PREDICATE, [])
        return predicates

    def pushedPredicates(self) -> Any:
        """The predicates that prune files; Spark shows them in EXPLAIN."""
        array, indexes = self._pushed.array, self._pushed.pruning
        if len(indexes) == len(self._pushed.trees) > 0:
            return array
        return self.jvm.array(_PREDICATE, [array[index] for index in indexes])

    def pushLimit(self, limit: int) -> bool:
        """Take the limit of the query; Spark still applies it to the rows."""
        self._limit = limit
        return True

    def supportCompletePushDown(self, aggregation: Any) -> bool:
        """Whether metadata answers the aggregates, so that Spark need not aggregate the rows again."""
        return self.pushAggregation(aggregation)

    def pushAggregation(self, aggregation: Any) -> bool:
        """Take aggregates, if metadata answers them exactly."""
        if self._aggregates is None and self._source.pushes_aggregates:
            self._aggregates = compute_aggregates(
                read_aggregates(self.jvm, aggregation), self._source, self._pushed.where
            )
        return self._aggregates is not None

    def build(self) -> Any:
        """The scan: Spark calls this when everything is pushed down."""
        if self._aggregates is not None:
            return AggregateScan(self.jvm, self._source, self._aggregates, self._pushed.where)
        return TableScan(
            self.jvm,
            self._source,
            self._projection,
            pushed=self._pushed,
            limit=self._limit,
            plan=self._plan,
            paths=self._paths,
        )
