"""Writes: how they are built, and who takes the rows.

Statements that change single rows: DELETE, UPDATE and MERGE.

Commands that others than Spark run.
"""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.interfaces.read import Table
from floe.spark.bridge.proxies import CONNECTOR, Proxy, missing


class WriteBuilder(Proxy):
    """A write that is being put together."""

    interface = CONNECTOR + "write.WriteBuilder"

    def build(self) -> Any:
        """The write."""
        return missing(self, "build")

    def buildForBatch(self) -> Any:
        """The write, as older versions of Spark ask for it."""
        return self.build().toBatch()

    def buildForStreaming(self) -> Any:
        """The write of a stream, as older versions of Spark ask for it."""
        return self.build().toStreaming()


class SupportsOverwriteV2(WriteBuilder):
    """A write that replaces rows by a filter."""

    interface = CONNECTOR + "write.SupportsOverwriteV2"

    def canOverwrite(self, predicates: Any) -> bool:
        """Whether these filters can be used."""
        return True

    def overwrite(self, predicates: Any) -> Any:
        """Replace the rows that pass."""
        return missing(self, "overwrite")

    def truncate(self) -> Any:
        """Replace all rows."""
        return missing(self, "truncate")


class SupportsDynamicOverwrite(WriteBuilder):
    """A write that replaces the partitions that it has rows for."""

    interface = CONNECTOR + "write.SupportsDynamicOverwrite"

    def overwriteDynamicPartitions(self) -> Any:
        """Do so."""
        return missing(self, "overwriteDynamicPartitions")


class Write(Proxy):
    """A write."""

    interface = CONNECTOR + "write.Write"

    def description(self) -> str:
        """What EXPLAIN says about it."""
        return self.toString()

    def toBatch(self) -> Any:
        """The write of a batch."""
        return missing(self, "batch writes")

    def toStreaming(self) -> Any:
        """The write of a stream."""
        return missing(self, "streaming writes")

    def supportedCustomMetrics(self) -> Any:
        """None."""
        return self.jvm.array(CONNECTOR + "metric.CustomMetric", [])

    def reportDriverMetrics(self) -> Any:
        """None."""
        return self.jvm.array(CONNECTOR + "metric.CustomTaskMetric", [])


class BatchWrite(Proxy):
    """A write whose tasks Spark runs."""

    interface = CONNECTOR + "write.BatchWrite"

    def createBatchWriterFactory(self, info: Any) -> Any:
        """What writes the rows of a task, in an executor."""
        return missing(self, "createBatchWriterFactory")

    def useCommitCoordinator(self) -> bool:
        """Whether only one attempt of each task may commit."""
        return True

    def onDataWriterCommit(self, message: Any) -> None:
        """A task has finished."""

    def commit(self, messages: Any, *summary: Any) -> None:
        """All tasks have finished."""
        missing(self, "commit")

    def abort(self, messages: Any) -> None:
        """The write has failed."""
        missing(self, "abort")


class V1Write(Write):
    """A write that gets the rows as a data frame."""

    interface = CONNECTOR + "write.V1Write"

    def toInsertableRelation(self) -> Any:
        """What takes the data frame."""
        return missing(self, "toInsertableRelation")


class InsertableRelation(Proxy):
    """What takes the data frame of a write."""

    interface = "org.apache.spark.sql.sources.InsertableRelation"

    def insert(self, data: Any, overwrite: bool) -> None:
        """Write the rows."""
        missing(self, "insert")


# Statements that change single rows: DELETE, UPDATE and MERGE.


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


# Commands that others than Spark run.


class ExternalCommandRunner(Proxy):
    """Runs a command."""

    interface = CONNECTOR + "ExternalCommandRunner"

    def executeCommand(self, command: str, options: Any) -> Any:
        """Run it; gives texts as a `String[]`."""
        return missing(self, "executeCommand")
