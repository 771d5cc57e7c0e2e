"""Writes: how they are built, and who takes the rows."""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.interfaces.missing import CONNECTOR, missing
from floe.spark.bridge.proxies import Proxy

__all__ = [
    "BatchWrite",
    "InsertableRelation",
    "SupportsDynamicOverwrite",
    "SupportsOverwriteV2",
    "V1Write",
    "Write",
    "WriteBuilder",
]


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
