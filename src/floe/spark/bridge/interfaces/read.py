"""Scans: how they are built, planned and run.

Tables, and what can be done with them.

Streams: read in small batches, and written epoch by epoch.
"""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.proxies import CONNECTOR, Proxy, missing


class ScanBuilder(Proxy):
    """A read that is being put together."""

    interface = CONNECTOR + "read.ScanBuilder"

    def build(self) -> Any:
        """The read."""
        return missing(self, "build")


class SupportsPushDownRequiredColumns(ScanBuilder):
    """A read that takes the columns that a query needs."""

    interface = CONNECTOR + "read.SupportsPushDownRequiredColumns"

    def pruneColumns(self, schema: Any) -> None:
        """These, and of structs these parts."""
        missing(self, "pruneColumns")


class SupportsPushDownV2Filters(ScanBuilder):
    """A read that takes filters."""

    interface = CONNECTOR + "read.SupportsPushDownV2Filters"

    def supportsIterativePushdown(self) -> bool:
        """Whether filters may come in several calls."""
        return False

    def pushPredicates(self, predicates: Any) -> Any:
        """Take filters; gives those that Spark has to check for each row."""
        return missing(self, "pushPredicates")

    def pushedPredicates(self) -> Any:
        """The filters that the read makes use of."""
        return self.jvm.array(CONNECTOR + "expressions.filter.Predicate", [])


class SupportsPushDownLimit(ScanBuilder):
    """A read that knows how many rows are wanted."""

    interface = CONNECTOR + "read.SupportsPushDownLimit"

    def pushLimit(self, limit: int) -> bool:
        """Take the number; True if it is of use."""
        return bool(missing(self, "pushLimit"))

    def isPartiallyPushed(self) -> bool:
        """Whether Spark has to cut off the rest."""
        return True


class SupportsPushDownAggregates(ScanBuilder):
    """A read that may answer counts, minima and maxima."""

    interface = CONNECTOR + "read.SupportsPushDownAggregates"

    def supportCompletePushDown(self, aggregation: Any) -> bool:
        """Whether the answer needs no work of Spark's."""
        return bool(missing(self, "supportCompletePushDown"))

    def pushAggregation(self, aggregation: Any) -> bool:
        """Take the question; True if the read will answer it."""
        return bool(missing(self, "pushAggregation"))


class Scan(Proxy):
    """A read."""

    interface = CONNECTOR + "read.Scan"

    def readSchema(self) -> Any:
        """The columns that come, in their order."""
        return missing(self, "readSchema")

    def description(self) -> str:
        """What EXPLAIN says about it."""
        return self.toString()

    def toBatch(self) -> Any:
        """The read as a batch."""
        return missing(self, "batch reads")

    def toMicroBatchStream(self, checkpoint: str) -> Any:
        """The read as a stream of batches."""
        return missing(self, "micro-batch reads")

    def toContinuousStream(self, checkpoint: str) -> Any:
        """The read as a continuous stream."""
        return missing(self, "continuous reads")

    def supportedCustomMetrics(self) -> Any:
        """None."""
        return self.jvm.array(CONNECTOR + "metric.CustomMetric", [])

    def reportDriverMetrics(self) -> Any:
        """None."""
        return self.jvm.array(CONNECTOR + "metric.CustomTaskMetric", [])

    def columnarSupportMode(self) -> Any:
        """Whether rows come in columns: each partition tells."""
        return self.jvm.constant(CONNECTOR + "read.Scan$ColumnarSupportMode", "PARTITION_DEFINED")


class LocalScan(Scan):
    """A read whose rows are known already."""

    interface = CONNECTOR + "read.LocalScan"

    def rows(self) -> Any:
        """The rows as an `InternalRow[]`."""
        return missing(self, "rows")


class Batch(Proxy):
    """A read in parts."""

    interface = CONNECTOR + "read.Batch"

    def planInputPartitions(self) -> Any:
        """The parts."""
        return missing(self, "planInputPartitions")

    def createReaderFactory(self) -> Any:
        """What reads a part, in an executor."""
        return missing(self, "createReaderFactory")


class SupportsReportStatistics(Scan):
    """A read that knows how much it will bring."""

    interface = CONNECTOR + "read.SupportsReportStatistics"

    def estimateStatistics(self) -> Any:
        """About how much."""
        return missing(self, "estimateStatistics")

    def estimateSizeInBytes(self) -> Any:
        """About how many bytes."""
        return self.estimateStatistics().sizeInBytes()

    def reflectsFullyPushedDownFilters(self) -> bool:
        """Whether the estimate is after filters that Spark need not check; else it checks them all the same."""
        return True


class Statistics(Proxy):
    """How much a read will bring."""

    interface = CONNECTOR + "read.Statistics"

    def sizeInBytes(self) -> Any:
        """About how many bytes, as an `OptionalLong`."""
        return self.jvm.optional_long(None)

    def numRows(self) -> Any:
        """About how many rows, as an `OptionalLong`."""
        return self.jvm.optional_long(None)

    def columnStats(self) -> Any:
        """What is known about columns."""
        return self.jvm.map({})


class ColumnStatistics(Proxy):
    """What is known about a column."""

    interface = CONNECTOR + "read.colstats.ColumnStatistics"

    def distinctCount(self) -> Any:
        """How many different values there are, as an `OptionalLong`."""
        return self.jvm.optional_long(None)

    def nullCount(self) -> Any:
        """How many nulls there are, as an `OptionalLong`."""
        return self.jvm.optional_long(None)

    def avgLen(self) -> Any:
        """How long values are, as an `OptionalLong`."""
        return self.jvm.optional_long(None)

    def maxLen(self) -> Any:
        """How long the longest value is, as an `OptionalLong`."""
        return self.jvm.optional_long(None)

    def min(self) -> Any:
        """The least value, as an `Optional`."""
        return self.jvm.named("java.util.Optional").empty()

    def max(self) -> Any:
        """The greatest value, as an `Optional`."""
        return self.jvm.named("java.util.Optional").empty()

    def histogram(self) -> Any:
        """How values are distributed, as an `Optional`."""
        return self.jvm.named("java.util.Optional").empty()


class SupportsRuntimeV2Filtering(Scan):
    """A read that takes filters which are known only when the query runs."""

    interface = CONNECTOR + "read.SupportsRuntimeV2Filtering"

    def filterAttributes(self) -> Any:
        """The columns for which such filters are of use."""
        return self.jvm.array(CONNECTOR + "expressions.NamedReference", [])

    def filter(self, predicates: Any) -> None:
        """Take filters."""
        missing(self, "filter")

    def supportsIterativePushdown(self) -> bool:
        """Whether filters may come in several calls."""
        return False

    def pushedPredicates(self) -> Any:
        """The filters that the read makes use of."""
        return self.jvm.array(CONNECTOR + "expressions.filter.Predicate", [])


# Tables, and what can be done with them.


class Table(Proxy):
    """A table of whatever kind."""

    interface = CONNECTOR + "catalog.Table"

    def name(self) -> str:
        """The table's name, for people."""
        return str(missing(self, "name"))

    def id(self) -> str | None:
        """What stays the same when the table is renamed."""
        return None

    def schema(self) -> Any:
        """The columns as a `StructType`."""
        return missing(self, "schema")

    def columns(self) -> Any:
        """The columns as a `Column[]`."""
        return missing(self, "columns")

    def partitioning(self) -> Any:
        """The partitioning as a `Transform[]`."""
        return self.jvm.array(CONNECTOR + "expressions.Transform", [])

    def properties(self) -> Any:
        """The table's properties."""
        return self.jvm.map({})

    def capabilities(self) -> Any:
        """What can be done with the table."""
        return self.jvm.set([])

    def constraints(self) -> Any:
        """None."""
        return self.jvm.array(CONNECTOR + "catalog.constraints.Constraint", [])

    def version(self) -> str | None:
        """The state of the table."""
        return None

    def currentVersion(self) -> str | None:
        """The state of the table, as older versions of Spark ask for it."""
        return self.version()


class SupportsRead(Table):
    """A table that can be read."""

    interface = CONNECTOR + "catalog.SupportsRead"

    def newScanBuilder(self, options: Any) -> Any:
        """A read of the table."""
        return missing(self, "newScanBuilder")


class SupportsWrite(Table):
    """A table that can be written."""

    interface = CONNECTOR + "catalog.SupportsWrite"

    def newWriteBuilder(self, info: Any) -> Any:
        """A write to the table."""
        return missing(self, "newWriteBuilder")


class SupportsMetadataColumns(Table):
    """A table with columns that are there for those who name them."""

    interface = CONNECTOR + "catalog.SupportsMetadataColumns"

    def metadataColumns(self) -> Any:
        """These columns."""
        return missing(self, "metadataColumns")

    def canRenameConflictingMetadataColumns(self) -> bool:
        """Whether a metadata column may get another name where a column has its name."""
        return True


class TruncatableTable(Table):
    """A table that can be emptied."""

    interface = CONNECTOR + "catalog.TruncatableTable"

    def truncateTable(self, *options: Any) -> bool:
        """Remove all rows."""
        return bool(missing(self, "truncateTable"))

    def supportedCustomMetrics(self) -> Any:
        """None."""
        return self.jvm.array(CONNECTOR + "metric.CustomMetric", [])

    def reportDriverMetrics(self) -> Any:
        """None."""
        return self.jvm.array(CONNECTOR + "metric.CustomTaskMetric", [])


class SupportsDeleteV2(TruncatableTable):
    """A table that can remove whole files by a filter."""

    interface = CONNECTOR + "catalog.SupportsDeleteV2"

    def canDeleteWhere(self, predicates: Any) -> bool:
        """Whether the filter selects whole files."""
        return bool(missing(self, "canDeleteWhere"))

    def deleteWhere(self, predicates: Any, *options: Any) -> None:
        """Remove these files."""
        missing(self, "deleteWhere")


class SupportsPartitionManagement(Table):
    """A table whose partitions can be listed."""

    interface = CONNECTOR + "catalog.SupportsPartitionManagement"

    def partitionSchema(self) -> Any:
        """The partition fields as a `StructType`."""
        return missing(self, "partitionSchema")

    def listPartitionIdentifiers(self, names: Any, values: Any) -> Any:
        """The partitions with these values of these fields, as an `InternalRow[]`."""
        return missing(self, "listPartitionIdentifiers")

    def partitionExists(self, partition: Any) -> bool:
        """Whether there is such a partition."""
        return bool(missing(self, "partitionExists"))

    def createPartition(self, partition: Any, properties: Any) -> None:
        """Partitions come with their rows."""
        missing(self, "createPartition")

    def dropPartition(self, partition: Any) -> bool:
        """Partitions go with their rows."""
        return bool(missing(self, "dropPartition"))

    def purgePartition(self, partition: Any) -> bool:
        """Partitions go with their rows."""
        return bool(missing(self, "purgePartition"))

    def renamePartition(self, old: Any, new: Any) -> bool:
        """Partitions are what their rows say."""
        return bool(missing(self, "renamePartition"))

    def truncatePartition(self, partition: Any) -> bool:
        """Partitions go with their rows."""
        return bool(missing(self, "truncatePartition"))

    def replacePartitionMetadata(self, partition: Any, properties: Any) -> None:
        """Partitions have no properties."""
        missing(self, "replacePartitionMetadata")

    def loadPartitionMetadata(self, partition: Any) -> Any:
        """Partitions have no properties."""
        return self.jvm.map({})


class StagedTable(Table):
    """A table that is made when its rows are."""

    interface = CONNECTOR + "catalog.StagedTable"

    def commitStagedChanges(self) -> None:
        """Publish it."""
        missing(self, "commitStagedChanges")

    def abortStagedChanges(self) -> None:
        """Forget it."""
        missing(self, "abortStagedChanges")

    def reportDriverMetrics(self) -> Any:
        """None."""
        return self.jvm.array(CONNECTOR + "metric.CustomTaskMetric", [])


# Streams: read in small batches, and written epoch by epoch.


class SparkDataStream(Proxy):
    """A stream that is read from one offset to another."""

    interface = CONNECTOR + "read.streaming.SparkDataStream"

    def initialOffset(self) -> Any:
        """Where a new query begins."""
        return missing(self, "initialOffset")

    def deserializeOffset(self, json: str) -> Any:
        """The offset of a checkpoint."""
        return missing(self, "deserializeOffset")

    def commit(self, end: Any) -> None:
        """All up to this offset has been processed."""

    def stop(self) -> None:
        """The query has ended."""


class MicroBatchStream(SparkDataStream):
    """A stream that is read in small batches."""

    interface = CONNECTOR + "read.streaming.MicroBatchStream"

    def latestOffset(self, *how: Any) -> Any:
        """How far the next batch goes."""
        return missing(self, "latestOffset")

    def planInputPartitions(self, start: Any, end: Any) -> Any:
        """The parts of a batch."""
        return missing(self, "planInputPartitions")

    def createReaderFactory(self) -> Any:
        """What reads a part, in an executor."""
        return missing(self, "createReaderFactory")


class SupportsAdmissionControl(SparkDataStream):
    """A stream whose batches can be kept small."""

    interface = CONNECTOR + "read.streaming.SupportsAdmissionControl"

    def getDefaultReadLimit(self) -> Any:
        """How much a batch has at most."""
        return self.jvm.sql("connector.read.streaming.ReadLimit").allAvailable()

    def latestOffset(self, *how: Any) -> Any:
        """How far the next batch goes: from which offset, and how much at most."""
        return missing(self, "latestOffset")

    def reportLatestOffset(self) -> Any:
        """How far the stream goes now; not told."""
        return None


class SupportsTriggerAvailableNow(SupportsAdmissionControl):
    """A stream of which a query can read what is there when it starts, and no more."""

    interface = CONNECTOR + "read.streaming.SupportsTriggerAvailableNow"

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember what is there now."""
        missing(self, "prepareForTriggerAvailableNow")


class StreamingWrite(Proxy):
    """A write of a stream, epoch by epoch."""

    interface = CONNECTOR + "write.streaming.StreamingWrite"

    def createStreamingWriterFactory(self, info: Any) -> Any:
        """What writes the rows of a task, in an executor."""
        return missing(self, "createStreamingWriterFactory")

    def useCommitCoordinator(self) -> bool:
        """Whether only one attempt of each task may commit."""
        return True

    def commit(self, epoch: int, messages: Any) -> None:
        """All tasks of an epoch have finished."""
        missing(self, "commit")

    def abort(self, epoch: int, messages: Any) -> None:
        """The write of an epoch has failed."""
        missing(self, "abort")
