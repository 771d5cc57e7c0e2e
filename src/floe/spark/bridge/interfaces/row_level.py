"""Statements that change single rows: DELETE, UPDATE and MERGE."""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.interfaces.missing import CONNECTOR, missing
from floe.spark.bridge.interfaces.tables import Table
from floe.spark.bridge.interfaces.writes import Write, WriteBuilder
from floe.spark.bridge.proxies import Proxy

__all__ = [
    "DeltaWrite",
    "DeltaWriteBuilder",
    "RowLevelOperation",
    "RowLevelOperationBuilder",
    "SupportsDelta",
    "SupportsRowLevelOperations",
]


class SupportsRowLevelOperations(Table):
    """A table whose rows can be changed one by one."""

    interface = CONNECTOR + "catalog.SupportsRowLevelOperations"

    def newRowLevelOperationBuilder(self, info: Any) -> Any:
        """A statement that changes rows."""
        return missing(self, "newRowLevelOperationBuilder")


class RowLevelOperationBuilder(Proxy):
    """A statement that is being put together."""

    interface = CONNECTOR + "write.RowLevelOperationBuilder"

    def build(self) -> Any:
        """The statement."""
        return missing(self, "build")


class RowLevelOperation(Proxy):
    """A statement that changes rows, by replacing the files that they are in."""

    interface = CONNECTOR + "write.RowLevelOperation"

    def description(self) -> str:
        """What EXPLAIN says about it."""
        return self.toString()

    def command(self) -> Any:
        """DELETE, UPDATE or MERGE."""
        return missing(self, "command")

    def newScanBuilder(self, options: Any) -> Any:
        """A read of the rows that may change."""
        return missing(self, "newScanBuilder")

    def newWriteBuilder(self, info: Any) -> Any:
        """A write of what becomes of them."""
        return missing(self, "newWriteBuilder")

    def requiredMetadataAttributes(self) -> Any:
        """The metadata columns that the write needs."""
        return self.jvm.array(CONNECTOR + "expressions.NamedReference", [])


class SupportsDelta(RowLevelOperation):
    """A statement that names the rows that change."""

    interface = CONNECTOR + "write.SupportsDelta"

    def rowId(self) -> Any:
        """The columns that tell one row from all others."""
        return missing(self, "rowId")

    def representUpdateAsDeleteAndInsert(self) -> bool:
        """Whether a changed row comes as two."""
        return False


class DeltaWriteBuilder(WriteBuilder):
    """A write of changed rows that is being put together."""

    interface = CONNECTOR + "write.DeltaWriteBuilder"


class DeltaWrite(Write):
    """A write of changed rows."""

    interface = CONNECTOR + "write.DeltaWrite"
