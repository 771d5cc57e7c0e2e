"""Statistics of a scan for Spark's optimizer: rows, bytes, and for columns distinct values, nulls and bounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from floe.plan.counts import count_values, value_range
from floe.plan.scan_plan import ScanPlan
from floe.spark.bridge.interfaces.read import ColumnStatistics, Statistics
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.values import optional_value
from floe.spark.read.source import Source
from floe.spark.schemas import spark_type
from floe.spark.settings import COLUMN_STATS, COST_BASED, SESSION_COLUMN_STATS, first_set
from floe.spec.codecs.puffin import THETA_SKETCH
from floe.spec.codecs.theta_sketches import NDV
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.types import Field, Type
from floe.table.maintenance import statistics_of

_RANGES: Final = frozenset({"boolean", "int", "long", "float", "double", "decimal", "date", "timestamptz"})
"""The types of which Spark knows what to do with the least and the greatest value."""

_WITHOUT_RANGES: Final = frozenset({"string", "uuid", "binary", "fixed", "time", "timestamp_ns", "timestamptz_ns"})
"""The types of which Spark needs no least and greatest value: they are texts and bytes to Spark."""

_WIDTHS: Final = {"boolean": 1, "int": 4, "float": 4, "date": 4, "string": 20, "uuid": 36, "binary": 100, "fixed": 100}


class TableStatistics(Statistics):
    """How much a read will bring."""

    def __init__(self, jvm: Jvm, rows: int, size: int, facts: Iterable[ColumnFacts] = ()) -> None:
        super().__init__(jvm)
        self._rows, self._size, self._facts = rows, size, tuple(facts)

    def numRows(self) -> Any:
        """About how many rows."""
        return self.jvm.optional_long(self._rows)

    def sizeInBytes(self) -> Any:
        """About how many bytes."""
        return self.jvm.optional_long(self._size)

    def columnStats(self) -> Any:
        """What is known of columns whose different values somebody counted."""
        found = self.jvm.named("java.util.HashMap")()
        expressions = self.jvm.sql("connector.expressions.Expressions")
        for facts in self._facts:
            column = expressions.column(f"`{facts.field.name.replace('`', '``')}`")
            found.put(column, FoundStatistics(self.jvm, facts, self._rows))
        return found


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What is known of a column: of all rows of the files, and so about right for those that are read."""

    field: Field
    distinct: int
    nulls: int
    lower: Any = None
    upper: Any = None


class FoundStatistics(ColumnStatistics):
    """What is known of a column, for a read that brings so many rows."""

    def __init__(self, jvm: Jvm, facts: ColumnFacts, rows: int) -> None:
        super().__init__(jvm)
        self._facts, self._rows = facts, rows

    def distinctCount(self) -> Any:
        """How many there are, about."""
        return self.jvm.optional_long(min(self._facts.distinct, self._rows))

    def nullCount(self) -> Any:
        """How many there are, about."""
        return self.jvm.optional_long(min(self._facts.nulls, self._rows))

    def min(self) -> Any:
        """The least value, where Spark knows what to do with it."""
        return self._bound(self._facts.lower)

    def max(self) -> Any:
        """The greatest value, where Spark knows what to do with it."""
        return self._bound(self._facts.upper)

    def _bound(self, value: Any) -> Any:
        return optional_value(self.jvm, value, spark_type(self._facts.field.type))


def is_reported(jvm: Jvm, source: Source) -> bool:
    """Whether Spark is told of columns: it makes use of it only where it plans by costs, and it may be turned off."""
    enabled = first_set((COLUMN_STATS, source.options), (SESSION_COLUMN_STATS, source.session), default=True)
    return enabled and any(jvm.setting(name, "false") == "true" for name in COST_BASED)


def distinct_counts(metadata: TableMetadata, snapshot: Snapshot | None) -> dict[int, int]:
    """How many different values columns have at a snapshot, about, as its statistics file says (`ndv`)."""
    file = statistics_of(metadata, snapshot)
    found: dict[int, int] = {}
    for blob in () if file is None else file.blob_metadata:
        count = blob.properties.get(NDV, "")
        if blob.type == THETA_SKETCH and len(blob.fields) == 1 and count.isdigit():
            found[blob.fields[0]] = int(count)
    return found


def column_facts(plan: ScanPlan, field: Field, distinct: int) -> ColumnFacts | None:
    """What Spark is told of a column, given a count of its different values; the plan must keep its metrics.

    It is all or nothing. Without a least and a greatest value Spark takes a column of numbers for one of nothing but
    nulls, and expects no rows of a filter or join by it; of a time without a zone it cannot bear to be told anything.
    """
    values = count_values(plan, field.id, whole_files=True)
    if not values.is_complete:
        return None
    nulls = plan.record_count - values.count
    if field.type.kind in _WITHOUT_RANGES:
        return ColumnFacts(field, distinct, nulls)
    if field.type.kind not in _RANGES:
        return None
    found = value_range(plan, field.id, whole_files=True)
    if not found.is_complete or found.upper != found.upper:  # which NaN is
        return None
    return ColumnFacts(field, distinct, nulls, found.lower, found.upper)


def width(type_: Type) -> int:
    """About how many bytes a value takes in Spark's rows, as Spark itself estimates it."""
    match type_.kind:
        case "struct":
            return sum(width(field.type) for field in type_.fields)
        case "list" | "map":
            return sum(width(field.type) for field in type_.fields)
        case "decimal":
            return 8 if getattr(type_, "precision", 38) <= 18 else 16
        case kind:
            return _WIDTHS.get(kind, 8)
