"""Interfaces of writes, of row-level operations (DELETE, UPDATE, MERGE), and of commands that a data source runs."""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.interfaces.read import Table
from floe.spark.bridge.proxies import CONNECTOR, Proxy, missing


class WriteBuilder(Proxy):
    """Builds a write."""

    interface = CONNECTOR + "write.WriteBuilder"

    def build(self) -> Any:
        """The write, as a `Write`."""
        return missing(self, "build")

    def buildForBatch(self) -> Any:
        """The batch write, for older versions of Spark."""
        return self.build().toBatch()

    def buildForStreaming(self) -> Any:
        """The streaming write, for older versions of Spark."""
        return self.build().toStreaming()


class SupportsOverwriteV2(WriteBuilder):
    """A write builder that can overwrite by a filter."""

    interface = CONNECTOR + "write.SupportsOverwriteV2"

    def canOverwrite(self, predicates: Any) -> bool:
        """Whether the filters can be used to overwrite."""
        return True

    def overwrite(self, predicates: Any) -> Any:
        """Replace the rows that match the filters."""
        return missing(self, "overwrite")

    def truncate(self) -> Any:
        """Replace all rows."""
        return missing(self, "truncate")


class SupportsDynamicOverwrite(WriteBuilder):
    """A write builder that can overwrite the partitions that it writes."""

    interface = CONNECTOR + "write.SupportsDynamicOverwrite"

    def overwriteDynamicPartitions(self) -> Any:
        """Replace the partitions that the write has rows for."""
        return missing(self, "overwriteDynamicPartitions")


class Write(Proxy):
    """A write to a table."""

    interface = CONNECTOR + "write.Write"

    def description(self) -> str:
        """The text that EXPLAIN shows."""
        return self.toString()

    def toBatch(self) -> Any:
        """The write as a `BatchWrite`."""
        return missing(self, "batch writes")

    def toStreaming(self) -> Any:
        """The write as a `StreamingWrite`."""
        return missing(self, "streaming writes")

    def supportedCustomMetrics(self) -> Any:
        """No custom metrics are supported."""
        return self.jvm.array(CONNECTOR + "metric.CustomMetric", [])

    def reportDriverMetrics(self) -> Any:
        """No metrics are reported by the driver."""
        return self.jvm.array(CONNECTOR + "metric.CustomTaskMetric", [])


class BatchWrite(Proxy):
    """A write whose tasks Spark runs and whose commit the driver makes."""

    interface = CONNECTOR + "write.BatchWrite"

    def createBatchWriterFactory(self, info: Any) -> Any:
        """The `DataWriterFactory` for executors."""
        return missing(self, "createBatchWriterFactory")

    def useCommitCoordinator(self) -> bool:
        """Whether Spark lets only one attempt of each task commit."""
        return True

    def onDataWriterCommit(self, message: Any) -> None:
        """Called when a task has finished."""

    def commit(self, messages: Any, *summary: Any) -> None:
        """Commit the write, after all tasks have finished."""
        missing(self, "commit")

    def abort(self, messages: Any) -> None:
        """Abort the write after a failure."""
        missing(self, "abort")


class V1Write(Write):
    """A write that gets the rows as a DataFrame."""

    interface = CONNECTOR + "write.V1Write"

    def toInsertableRelation(self) -> Any:
        """The `InsertableRelation` that takes the DataFrame."""
        return missing(self, "toInsertableRelation")


class InsertableRelation(Proxy):
    """Takes the DataFrame of a write."""

    interface = "org.apache.spark.sql.sources.InsertableRelation"

    def insert(self, data: Any, overwrite: bool) -> None:
        """Write the rows of a DataFrame."""
        missing(self, "insert")


# row-level operations -------------------------------------------------------------------------------------------------


class SupportsRowLevelOperations(Table):
    """A table that supports DELETE, UPDATE and MERGE."""

    interface = CONNECTOR + "catalog.SupportsRowLevelOperations"

    def newRowLevelOperationBuilder(self, info: Any) -> Any:
        """Create a `RowLevelOperationBuilder` for a statement."""
        return missing(self, "newRowLevelOperationBuilder")


class RowLevelOperationBuilder(Proxy):
    """Builds a row-level operation."""

    interface = CONNECTOR + "write.RowLevelOperationBuilder"

    def build(self) -> Any:
        """The row-level operation."""
        return missing(self, "build")


class RowLevelOperation(Proxy):
    """A row-level operation; on its own, one that replaces groups of rows (copy-on-write)."""

    interface = CONNECTOR + "write.RowLevelOperation"

    def description(self) -> str:
        """The text that EXPLAIN shows."""
        return self.toString()

    def command(self) -> Any:
        """The command: DELETE, UPDATE or MERGE."""
        return missing(self, "command")

    def newScanBuilder(self, options: Any) -> Any:
        """Create a `ScanBuilder` for the rows that may change."""
        return missing(self, "newScanBuilder")

    def newWriteBuilder(self, info: Any) -> Any:
        """Create a `WriteBuilder` for the changed rows."""
        return missing(self, "newWriteBuilder")

    def requiredMetadataAttributes(self) -> Any:
        """The metadata columns that the write needs, as a `NamedReference[]`."""
        return self.jvm.array(CONNECTOR + "expressions.NamedReference", [])


class SupportsDelta(RowLevelOperation):
    """A row-level operation that identifies the rows that change (merge-on-read)."""

    interface = CONNECTOR + "write.SupportsDelta"

    def rowId(self) -> Any:
        """The columns that identify a row, as a `NamedReference[]`."""
        return missing(self, "rowId")

    def representUpdateAsDeleteAndInsert(self) -> bool:
        """Whether an update comes as a delete and an insert."""
        return False


class DeltaWriteBuilder(WriteBuilder):
    """Builds a write of row-level changes."""

    interface = CONNECTOR + "write.DeltaWriteBuilder"


class DeltaWrite(Write):
    """A write of row-level changes."""

    interface = CONNECTOR + "write.DeltaWrite"


# commands -------------------------------------------------------------------------------------------------------------


class ExternalCommandRunner(Proxy):
    """Runs a command of a data source."""

    interface = CONNECTOR + "ExternalCommandRunner"

    def executeCommand(self, command: str, options: Any) -> Any:
        """Run the command; returns its output as a `String[]`."""
        return missing(self, "executeCommand")
