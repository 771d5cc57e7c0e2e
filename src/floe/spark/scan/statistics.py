"""How much a read will bring, as Spark wants to know it before it chooses how to join."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from floe.spark.bridge.interfaces.scans import ColumnStatistics, Statistics
from floe.spark.bridge.jvm import Jvm
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.types import Type

__all__ = ["Counts", "TableStatistics", "distinct_counts", "width"]

Counts = tuple[int, int | None]
"""How many different values a column has, and how many nulls, if that is known."""

_SKETCH: Final = "apache-datasketches-theta-v1"

_WIDTHS: Final = {"boolean": 1, "int": 4, "float": 4, "date": 4, "string": 20, "uuid": 36, "binary": 100, "fixed": 100}


class TableStatistics(Statistics):
    """How much a read will bring."""

    def __init__(self, jvm: Jvm, rows: int, size: int, counts: Mapping[str, Counts] | None = None) -> None:
        super().__init__(jvm)
        self._rows, self._size, self._counts = rows, size, counts or {}

    def numRows(self) -> Any:
        """About how many rows."""
        return self.jvm.optional_long(self._rows)

    def sizeInBytes(self) -> Any:
        """About how many bytes."""
        return self.jvm.optional_long(self._size)

    def columnStats(self) -> Any:
        """How many different values and nulls columns have, where somebody counted them."""
        found = self.jvm.named("java.util.HashMap")()
        expressions = self.jvm.sql("connector.expressions.Expressions")
        for name, (distinct, nulls) in self._counts.items():
            column = expressions.column(f"`{name.replace('`', '``')}`")
            found.put(column, ColumnCounts(self.jvm, min(distinct, self._rows), nulls))
        return found


class ColumnCounts(ColumnStatistics):
    """How many different values and nulls a column has."""

    def __init__(self, jvm: Jvm, distinct: int, nulls: int | None) -> None:
        super().__init__(jvm)
        self._distinct, self._nulls = distinct, nulls

    def distinctCount(self) -> Any:
        """How many there are, about."""
        return self.jvm.optional_long(self._distinct)

    def nullCount(self) -> Any:
        """How many there are, if files say it."""
        return self.jvm.optional_long(self._nulls)


def distinct_counts(metadata: TableMetadata, snapshot: Snapshot | None) -> dict[int, int]:
    """How many different values columns have at a snapshot, about, as its statistics file says (`ndv`)."""
    found: dict[int, int] = {}
    for file in metadata.statistics:
        if snapshot is None or file.snapshot_id != snapshot.snapshot_id:
            continue
        for blob in file.blob_metadata:
            count = blob.properties.get("ndv", "")
            if blob.type == _SKETCH and len(blob.fields) == 1 and count.isdigit():
                found[blob.fields[0]] = int(count)
    return found


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
