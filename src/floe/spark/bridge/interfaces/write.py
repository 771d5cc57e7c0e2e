"""Interfaces of writes, of row-level operations (DELETE, UPDATE, MERGE), and of commands that a data source runs."""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.interfaces.read import Table
from floe.spark.bridge.proxies import CONNECTOR, Proxy, unsupported


class WriteBuilder(Proxy):
    """Builds the write of a statement; Spark configures it first."""

    interface = CONNECTOR + "write.WriteBuilder"

    def build(self) -> Any:
        """The `Write` that Spark puts into the plan."""
        return unsupported(self, "build")

    def buildForBatch(self) -> Any:
        """The `BatchWrite`, for code written for Spark before 3.2."""
        return self.build().toBatch()

    def buildForStreaming(self) -> Any:
        """The `StreamingWrite`, for code written for Spark before 3.2."""
        return self.build().toStreaming()


class SupportsOverwriteV2(WriteBuilder):
    """A write builder that can overwrite by a filter."""

    interface = CONNECTOR + "write.SupportsOverwriteV2"

    def canOverwrite(self, predicates: Any) -> bool:
        """Whether a write can overwrite by the filters of a `Predicate[]`; Spark rejects the statement if not."""
        return True

    def overwrite(self, predicates: Any) -> Any:
        """Replace the rows that match the filters, for REPLACE WHERE and static overwrites; returns the builder."""
        return unsupported(self, "overwrite")

    def truncate(self) -> Any:
        """Replace all rows, for INSERT OVERWRITE of an unpartitioned table; returns the builder."""
        return unsupported(self, "truncate")


class SupportsDynamicOverwrite(WriteBuilder):
    """A write builder that can overwrite the partitions that it writes to."""

    interface = CONNECTOR + "write.SupportsDynamicOverwrite"

    def overwriteDynamicPartitions(self) -> Any:
        """Replace the partitions that get rows, for INSERT OVERWRITE in dynamic mode; returns the builder."""
        return unsupported(self, "overwriteDynamicPartitions")


class Write(Proxy):
    """A write to a table."""

    interface = CONNECTOR + "write.Write"

    def description(self) -> str:
        """The text that EXPLAIN and Spark's UI show for the write."""
        return self.toString()

    def toBatch(self) -> Any:
        """The write as a `BatchWrite`, for a batch query."""
        return unsupported(self, "batch writes")

    def toStreaming(self) -> Any:
        """The write as a `StreamingWrite`, for a streaming query."""
        return unsupported(self, "streaming writes")

    def supportedCustomMetrics(self) -> Any:
        """The metrics that Spark's UI shows for the write: none."""
        return self.jvm.array(CONNECTOR + "metric.CustomMetric", [])

    def reportDriverMetrics(self) -> Any:
        """The values of the metrics that the driver measures: none."""
        return self.jvm.array(CONNECTOR + "metric.CustomTaskMetric", [])


class BatchWrite(Proxy):
    """A write whose tasks run on executors and which the driver commits."""

    interface = CONNECTOR + "write.BatchWrite"

    def createBatchWriterFactory(self, info: Any) -> Any:
        """The `DataWriterFactory` that Spark sends to executors to write the rows."""
        return unsupported(self, "createBatchWriterFactory")

    def useCommitCoordinator(self) -> bool:
        """Whether Spark lets only one attempt of each task commit."""
        return True

    def onDataWriterCommit(self, message: Any) -> None:
        """Do nothing: Spark reports that a task has finished, and passes all messages to `commit` later."""

    def commit(self, messages: Any, *summary: Any) -> None:
        """Commit the write with the messages of its tasks, after all of them have finished."""
        unsupported(self, "commit")

    def abort(self, messages: Any) -> None:
        """Clean up after a failure, with the messages of the tasks that have finished."""
        unsupported(self, "abort")


class V1Write(Write):
    """A write that gets the rows as a DataFrame, and runs jobs of its own."""

    interface = CONNECTOR + "write.V1Write"

    def toInsertableRelation(self) -> Any:
        """The `InsertableRelation` that Spark calls with the DataFrame."""
        return unsupported(self, "toInsertableRelation")


class InsertableRelation(Proxy):
    """Writes the DataFrame of a `V1Write`."""

    interface = "org.apache.spark.sql.sources.InsertableRelation"

    def insert(self, data: Any, overwrite: bool) -> None:
        """Write the rows of a DataFrame; the flag is always False for a `V1Write`."""
        unsupported(self, "insert")


# Row-level operations -------------------------------------------------------------------------------------------------


class SupportsRowLevelOperations(Table):
    """A table that supports DELETE, UPDATE and MERGE."""

    interface = CONNECTOR + "catalog.SupportsRowLevelOperations"

    def newRowLevelOperationBuilder(self, info: Any) -> Any:
        """Create the `RowLevelOperationBuilder` of a statement."""
        return unsupported(self, "newRowLevelOperationBuilder")


class RowLevelOperationBuilder(Proxy):
    """Builds a row-level operation."""

    interface = CONNECTOR + "write.RowLevelOperationBuilder"

    def build(self) -> Any:
        """The `RowLevelOperation`, by which Spark rewrites the statement to a scan and a write."""
        return unsupported(self, "build")


class RowLevelOperation(Proxy):
    """A row-level operation; without `SupportsDelta`, it replaces groups of rows (copy-on-write)."""

    interface = CONNECTOR + "write.RowLevelOperation"

    def description(self) -> str:
        """The text that EXPLAIN shows for the operation."""
        return self.toString()

    def command(self) -> Any:
        """The `Command` of the statement: DELETE, UPDATE or MERGE."""
        return unsupported(self, "command")

    def newScanBuilder(self, options: Any) -> Any:
        """Create the `ScanBuilder` for the rows that may change."""
        return unsupported(self, "newScanBuilder")

    def newWriteBuilder(self, info: Any) -> Any:
        """Create the `WriteBuilder` for the rows after the change."""
        return unsupported(self, "newWriteBuilder")

    def requiredMetadataAttributes(self) -> Any:
        """The metadata columns that the write needs, as a `NamedReference[]`; Spark adds them to the scan."""
        return self.jvm.array(CONNECTOR + "expressions.NamedReference", [])


class SupportsDelta(RowLevelOperation):
    """A row-level operation that writes only the changes of rows (merge-on-read)."""

    interface = CONNECTOR + "write.SupportsDelta"

    def rowId(self) -> Any:
        """The columns that identify a row, as a `NamedReference[]`; Spark passes them for deleted and updated rows."""
        return unsupported(self, "rowId")

    def representUpdateAsDeleteAndInsert(self) -> bool:
        """Whether Spark passes an updated row as a delete and an insert."""
        return False


class DeltaWriteBuilder(WriteBuilder):
    """Builds the write of row-level changes."""

    interface = CONNECTOR + "write.DeltaWriteBuilder"


class DeltaWrite(Write):
    """A write that gets row-level changes: deletes, updates and inserts."""

    interface = CONNECTOR + "write.DeltaWrite"


# Commands -------------------------------------------------------------------------------------------------------------


class ExternalCommandRunner(Proxy):
    """Runs a command that Floe has put into a plan (`floe.spark.bridge.plans.python_command`)."""

    interface = CONNECTOR + "ExternalCommandRunner"

    def executeCommand(self, command: str, options: Any) -> Any:
        """Run the command; returns its output rows, as a `String[]`."""
        return unsupported(self, "executeCommand")
