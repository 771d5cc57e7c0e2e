"""How much a read will bring, as Spark wants to know it before it chooses how to join."""

from __future__ import annotations

from typing import Any, Final

from floe.spark.bridge.interfaces.scans import Statistics
from floe.spark.bridge.jvm import Jvm
from floe.spec.types import Type

__all__ = ["TableStatistics", "width"]

_WIDTHS: Final = {"boolean": 1, "int": 4, "float": 4, "date": 4, "string": 20, "uuid": 36, "binary": 100, "fixed": 100}


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
