"""Statistics of a scan for Spark's optimizer: rows, bytes, and for columns distinct values, nulls and bounds.

Distinct counts come from the sketches in the table's statistics file (Puffin), all else from manifests. Columns
without a sketch are not reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from floe.plan.counts import count_values, value_range
from floe.plan.scan_plan import ScanPlan
from floe.spark.bridge.interfaces.read import ColumnStatistics, Statistics
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.values import optional_value
from floe.spark.read.scan_source import ScanSource
from floe.spark.schemas import spark_type
from floe.spark.settings import COLUMN_STATS, COST_BASED, SESSION_COLUMN_STATS, first_set
from floe.spec.codecs.puffin import THETA_SKETCH
from floe.spec.codecs.theta_sketches import NDV
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.types import Field, Type
from floe.table.maintenance import statistics_of

_RANGES: Final = frozenset({"boolean", "int", "long", "float", "double", "decimal", "date", "timestamptz"})
"""The types whose bounds Spark uses in its estimates."""

_WITHOUT_RANGES: Final = frozenset({"string", "uuid", "binary", "fixed", "time", "timestamp_ns", "timestamptz_ns"})
"""The types that Spark estimates without bounds: they are strings and bytes in Spark."""

_WIDTHS: Final = {"boolean": 1, "int": 4, "float": 4, "date": 4, "string": 20, "uuid": 36, "binary": 100, "fixed": 100}


class TableStatistics(Statistics):
    """The statistics of the rows that a scan will return."""

    def __init__(self, jvm: Jvm, rows: int, size: int, summaries: Iterable[ColumnSummary] = ()) -> None:
        super().__init__(jvm)
        self._rows, self._size, self._summaries = rows, size, tuple(summaries)

    def numRows(self) -> Any:
        """The estimated number of rows."""
        return self.jvm.optional_long(self._rows)

    def sizeInBytes(self) -> Any:
        """The estimated number of bytes in Spark's rows; small tables are broadcast in joins."""
        return self.jvm.optional_long(self._size)

    def columnStats(self) -> Any:
        """The statistics of each column with a distinct count, as a Java map by column reference."""
        statistics = self.jvm.java_class("java.util.HashMap")()
        expressions = self.jvm.sql("connector.expressions.Expressions")
        for summary in self._summaries:
            column = expressions.column(f"`{summary.field.name.replace('`', '``')}`")
            statistics.put(column, SummaryStatistics(self.jvm, summary, self._rows))
        return statistics


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """The distinct values, nulls and bounds of a column in all rows of the files, as an estimate for the rows read."""

    field: Field
    distinct: int
    nulls: int
    lower: Any = None
    upper: Any = None


class SummaryStatistics(ColumnStatistics):
    """Spark's statistics of a column, for a scan that returns `rows` rows."""

    def __init__(self, jvm: Jvm, summary: ColumnSummary, rows: int) -> None:
        super().__init__(jvm)
        self._summary, self._rows = summary, rows

    def distinctCount(self) -> Any:
        """The estimated number of distinct values."""
        return self.jvm.optional_long(min(self._summary.distinct, self._rows))

    def nullCount(self) -> Any:
        """The estimated number of nulls."""
        return self.jvm.optional_long(min(self._summary.nulls, self._rows))

    def min(self) -> Any:
        """The lower bound, for types whose bounds Spark uses."""
        return self._bound(self._summary.lower)

    def max(self) -> Any:
        """The upper bound, for types whose bounds Spark uses."""
        return self._bound(self._summary.upper)

    def _bound(self, value: Any) -> Any:
        return optional_value(self.jvm, value, spark_type(self._summary.field.type))


def reports_column_statistics(jvm: Jvm, source: ScanSource) -> bool:
    """Whether column statistics are reported to Spark.

    Spark uses them only in cost-based optimization. The option and the session setting `report-column-stats` can
    turn them off.
    """
    enabled = first_set((COLUMN_STATS, source.options), (SESSION_COLUMN_STATS, source.session), default=True)
    return enabled and any(jvm.setting(name, "false") == "true" for name in COST_BASED)


def distinct_counts(metadata: TableMetadata, snapshot: Snapshot | None) -> dict[int, int]:
    """The estimated number of distinct values of columns, by field id: `ndv` in the snapshot's statistics file."""
    file = statistics_of(metadata, snapshot)
    counts: dict[int, int] = {}
    for blob in () if file is None else file.blob_metadata:
        count = blob.properties.get(NDV, "")
        if blob.type == THETA_SKETCH and len(blob.fields) == 1 and count.isdigit():
            counts[blob.fields[0]] = int(count)
    return counts


def summarize_column(plan: ScanPlan, field: Field, distinct: int) -> ColumnSummary | None:
    """The statistics of a column, with its distinct count; the plan must keep its metrics.

    Returns None if nulls or bounds are not known: Spark takes a numeric column without bounds for one that is always
    null, and expects no rows from a filter on it or a join by it. It fails on statistics of timestamps without time
    zone, so these are not reported either.
    """
    values = count_values(plan, field.id, whole_files=True)
    if not values.is_complete:
        return None
    nulls = plan.record_count - values.count
    if field.type.kind in _WITHOUT_RANGES:
        return ColumnSummary(field, distinct, nulls)
    if field.type.kind not in _RANGES:
        return None
    bounds = value_range(plan, field.id, whole_files=True)
    if not bounds.is_complete or bounds.upper != bounds.upper:  # NaN
        return None
    return ColumnSummary(field, distinct, nulls, bounds.lower, bounds.upper)


def estimated_width(type_: Type) -> int:
    """The estimated bytes of a value in Spark's rows: the same numbers that Spark uses."""
    match type_.kind:
        case "struct":
            return sum(estimated_width(field.type) for field in type_.fields)
        case "list" | "map":
            return sum(estimated_width(field.type) for field in type_.fields)
        case "decimal":
            return 8 if getattr(type_, "precision", 38) <= 18 else 16
        case kind:
            return _WIDTHS.get(kind, 8)
