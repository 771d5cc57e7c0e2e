"""A table that is being made, or replaced, together with its rows: CREATE TABLE … AS SELECT, REPLACE TABLE …."""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.interfaces.tables import StagedTable, SupportsWrite
from floe.spark.bridge.jvm import Jvm
from floe.spark.columns import spark_schema
from floe.spark.tables.partitioning import spark_transforms
from floe.spark.tables.writing import WRITE_CAPABILITIES, capability_set, write_builder
from floe.table.column_text import name_text
from floe.table.create_transaction import CreateTransaction

__all__ = ["StagedSparkTable"]


class StagedSparkTable(StagedTable, SupportsWrite):
    """A table that is there when its transaction is committed, with all rows or not at all."""

    def __init__(self, jvm: Jvm, path: tuple[str, ...], transaction: CreateTransaction) -> None:
        super().__init__(jvm)
        self._path = path
        self._transaction = transaction

    def name(self) -> str:
        """The table's name, for people."""
        return ".".join(map(name_text, self._path))

    def schema(self) -> Any:
        """The columns as a `StructType`."""
        return self.jvm.data_type(spark_schema(self._transaction.schema.fields))

    def columns(self) -> Any:
        """The columns as a `Column[]`."""
        return self.jvm.columns(spark_schema(self._transaction.schema.fields))

    def partitioning(self) -> Any:
        """The partitioning as a `Transform[]`."""
        return spark_transforms(self.jvm, self._transaction.spec, self._transaction.schema)

    def properties(self) -> Any:
        """The table's properties."""
        return self.jvm.map(dict(self._transaction.properties))

    def capabilities(self) -> Any:
        """It can be written."""
        return capability_set(self.jvm, WRITE_CAPABILITIES)

    def newWriteBuilder(self, info: Any) -> Any:
        """A write to the table."""
        return write_builder(self.jvm, self.name(), self._transaction, info)

    def commitStagedChanges(self) -> None:
        """Make the table."""
        self._transaction.commit()

    def abortStagedChanges(self) -> None:
        """Forget it, and delete what was written."""
        self._transaction.abort()
