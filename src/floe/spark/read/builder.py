"""The scan builder: takes the columns, filters, limit and aggregates that Spark pushes down.

COUNT, MIN and MAX are answered from metadata where that is exact; no data file is read then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
from floe.spark.read.filters import check_texts, files_named, translate
from floe.spark.read.scan import TableScan
from floe.spark.read.source import NOTHING_PUSHED, Pushed, Source, projected, selects_whole_files
from floe.spark.schemas import ONLY_READ, spark_type
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.partitioning.partition_spec import unified_partition_type
from floe.spec.schemas.metadata_columns import FILE
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, Field, Type

# Counts, minima and maxima told from metadata, where that is exact: no file is read then.


@dataclass(frozen=True, slots=True)
class Answer:
    """The value of an aggregate."""

    name: str
    type: Type
    value: Any


@dataclass(frozen=True, slots=True)
class _Asked:
    """An aggregate: its name, and the column that it is of."""

    name: str
    field: Field | None


def answers(aggregates: Aggregates, source: Source, where: Expression) -> list[Answer] | None:
    """What the aggregates are; None unless metadata tells all of them exactly."""
    if aggregates.is_grouped:
        return None
    asked = []
    for function in aggregates.functions:
        one = _asked(function, source, aggregates.case_sensitive)
        if one is None:
            return None
        asked.append(one)
    plan = source.plan(where, metrics=[one.field.id for one in asked if one.field is not None])
    found = []
    for one in asked:
        if one.field is None:
            rows = count_rows(plan)
            known, made = rows.is_complete, Answer("count(*)", LONG, rows.count)
        elif one.name == "Count":
            values = count_values(plan, one.field.id)
            known, made = values.is_complete, Answer(f"count({one.field.name})", LONG, values.count)
        else:
            extent = value_range(plan, one.field.id)
            value = extent.lower if one.name == "Min" else extent.upper
            known = extent.is_complete
            made = Answer(f"{one.name.lower()}({one.field.name})", one.field.type, value)
        if not known:
            return None
        found.append(made)
    return found


def _asked(function: Node, source: Source, case_sensitive: bool) -> _Asked | None:
    match function:
        case Call("CountStar"):
            return _Asked("CountStar", None)
        case Call("Count" | "Min" | "Max" as name, (Column(path),)):
            pass
        case _:
            return None
    if not source.schema.has(path, case_sensitive=case_sensitive):
        return None
    entry = source.schema.resolve(path, case_sensitive=case_sensitive)
    type_ = entry.field.type
    is_told = not (entry.in_collection or type_.is_nested or type_.kind in ONLY_READ)
    return _Asked(name, entry.field) if is_told else None


class AggregateScan(LocalScan):
    """One row with the answers."""

    def __init__(self, jvm: Jvm, source: Source, found: Sequence[Answer], looked_at: Expression) -> None:
        super().__init__(jvm)
        self.source, self._found, self.looked_at = source, found, looked_at

    def readSchema(self) -> Any:
        """The answers as columns."""
        fields = [
            {"name": one.name, "type": spark_type(one.type), "nullable": True, "metadata": {}} for one in self._found
        ]
        return self.jvm.data_type({"type": "struct", "fields": fields})

    def description(self) -> str:
        """What EXPLAIN says."""
        return f"Floe table {self.source.name}; {', '.join(one.name for one in self._found)} told by metadata"

    def rows(self) -> Any:
        """The row."""
        types = [spark_type(one.type) for one in self._found]
        return to_internal_rows(self.jvm, [[one.value for one in self._found]], types)


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
