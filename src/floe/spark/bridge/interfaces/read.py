"""Interfaces of scans, tables and streams.

- scans: builders with push-down, batches, statistics, runtime filters
- tables: capabilities, metadata columns, partitions, staged tables
- streams: micro-batch reads, and writes by epochs
"""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.proxies import CONNECTOR, Proxy, missing


class ScanBuilder(Proxy):
    """Builds a scan."""

    interface = CONNECTOR + "read.ScanBuilder"

    def build(self) -> Any:
        """The scan."""
        return missing(self, "build")


class SupportsPushDownRequiredColumns(ScanBuilder):
    """A scan builder that takes the columns that a query needs."""

    interface = CONNECTOR + "read.SupportsPushDownRequiredColumns"

    def pruneColumns(self, schema: Any) -> None:
        """Read only these columns and nested fields, given as a `StructType`."""
        missing(self, "pruneColumns")


class SupportsPushDownV2Filters(ScanBuilder):
    """A scan builder that takes filters."""

    interface = CONNECTOR + "read.SupportsPushDownV2Filters"

    def supportsIterativePushdown(self) -> bool:
        """Whether filters may be pushed in several calls."""
        return False

    def pushPredicates(self, predicates: Any) -> Any:
        """Take filters; returns those that Spark must evaluate for each row."""
        return missing(self, "pushPredicates")

    def pushedPredicates(self) -> Any:
        """The filters that the scan uses, as a `Predicate[]`."""
        return self.jvm.array(CONNECTOR + "expressions.filter.Predicate", [])


class SupportsPushDownLimit(ScanBuilder):
    """A scan builder that takes the LIMIT of a query."""

    interface = CONNECTOR + "read.SupportsPushDownLimit"

    def pushLimit(self, limit: int) -> bool:
        """Take the limit; True if the scan uses it."""
        return bool(missing(self, "pushLimit"))

    def isPartiallyPushed(self) -> bool:
        """Whether Spark must still apply the limit."""
        return True


class SupportsPushDownAggregates(ScanBuilder):
    """A scan builder that may compute counts, minima and maxima."""

    interface = CONNECTOR + "read.SupportsPushDownAggregates"

    def supportCompletePushDown(self, aggregation: Any) -> bool:
        """Whether the scan computes the final result, so that Spark need not aggregate."""
        return bool(missing(self, "supportCompletePushDown"))

    def pushAggregation(self, aggregation: Any) -> bool:
        """Take the aggregates; True if the scan computes them."""
        return bool(missing(self, "pushAggregation"))


class Scan(Proxy):
    """A scan of a table."""

    interface = CONNECTOR + "read.Scan"

    def readSchema(self) -> Any:
        """The columns of the rows, in order, as a `StructType`."""
        return missing(self, "readSchema")

    def description(self) -> str:
        """The text that EXPLAIN shows."""
        return self.toString()

    def toBatch(self) -> Any:
        """The scan as a `Batch`."""
        return missing(self, "batch reads")

    def toMicroBatchStream(self, checkpoint: str) -> Any:
        """The scan as a `MicroBatchStream`."""
        return missing(self, "micro-batch reads")

    def toContinuousStream(self, checkpoint: str) -> Any:
        """The scan as a `ContinuousStream`."""
        return missing(self, "continuous reads")

    def supportedCustomMetrics(self) -> Any:
        """No custom metrics are supported."""
        return self.jvm.array(CONNECTOR + "metric.CustomMetric", [])

    def reportDriverMetrics(self) -> Any:
        """No metrics are reported by the driver."""
        return self.jvm.array(CONNECTOR + "metric.CustomTaskMetric", [])

    def columnarSupportMode(self) -> Any:
        """Whether rows come as columnar batches: the reader of each partition decides."""
        return self.jvm.constant(CONNECTOR + "read.Scan$ColumnarSupportMode", "PARTITION_DEFINED")


class LocalScan(Scan):
    """A scan whose rows are known on the driver."""

    interface = CONNECTOR + "read.LocalScan"

    def rows(self) -> Any:
        """The rows, as an `InternalRow[]`."""
        return missing(self, "rows")


class Batch(Proxy):
    """A scan in partitions."""

    interface = CONNECTOR + "read.Batch"

    def planInputPartitions(self) -> Any:
        """Plan the partitions, as an `InputPartition[]`."""
        return missing(self, "planInputPartitions")

    def createReaderFactory(self) -> Any:
        """The `PartitionReaderFactory` for executors."""
        return missing(self, "createReaderFactory")


class SupportsReportStatistics(Scan):
    """A scan that estimates its size."""

    interface = CONNECTOR + "read.SupportsReportStatistics"

    def estimateStatistics(self) -> Any:
        """Estimate the statistics of the scan, as `Statistics`."""
        return missing(self, "estimateStatistics")

    def estimateSizeInBytes(self) -> Any:
        """Estimate the size in bytes."""
        return self.estimateStatistics().sizeInBytes()

    def reflectsFullyPushedDownFilters(self) -> bool:
        """Whether the estimate takes into account the filters that are pushed down completely."""
        return True


class Statistics(Proxy):
    """Estimated statistics of a scan."""

    interface = CONNECTOR + "read.Statistics"

    def sizeInBytes(self) -> Any:
        """The size in bytes, as an `OptionalLong`."""
        return self.jvm.optional_long(None)

    def numRows(self) -> Any:
        """The number of rows, as an `OptionalLong`."""
        return self.jvm.optional_long(None)

    def columnStats(self) -> Any:
        """The statistics of columns, as a `Map` from references."""
        return self.jvm.map({})


class ColumnStatistics(Proxy):
    """Estimated statistics of a column."""

    interface = CONNECTOR + "read.colstats.ColumnStatistics"

    def distinctCount(self) -> Any:
        """The number of distinct values, as an `OptionalLong`."""
        return self.jvm.optional_long(None)

    def nullCount(self) -> Any:
        """The number of nulls, as an `OptionalLong`."""
        return self.jvm.optional_long(None)

    def avgLen(self) -> Any:
        """The average length of the values, as an `OptionalLong`."""
        return self.jvm.optional_long(None)

    def maxLen(self) -> Any:
        """The length of the longest value, as an `OptionalLong`."""
        return self.jvm.optional_long(None)

    def min(self) -> Any:
        """The minimum, as an `Optional`."""
        return self.jvm.named("java.util.Optional").empty()

    def max(self) -> Any:
        """The maximum, as an `Optional`."""
        return self.jvm.named("java.util.Optional").empty()

    def histogram(self) -> Any:
        """The histogram, as an `Optional`."""
        return self.jvm.named("java.util.Optional").empty()


class SupportsRuntimeV2Filtering(Scan):
    """A scan that takes runtime filters, which are known only when the query runs."""

    interface = CONNECTOR + "read.SupportsRuntimeV2Filtering"

    def filterAttributes(self) -> Any:
        """The columns for which the scan uses runtime filters, as a `NamedReference[]`."""
        return self.jvm.array(CONNECTOR + "expressions.NamedReference", [])

    def filter(self, predicates: Any) -> None:
        """Take runtime filters, as a `Predicate[]`."""
        missing(self, "filter")

    def supportsIterativePushdown(self) -> bool:
        """Whether filters may be pushed in several calls."""
        return False

    def pushedPredicates(self) -> Any:
        """The filters that the scan uses, as a `Predicate[]`."""
        return self.jvm.array(CONNECTOR + "expressions.filter.Predicate", [])


# tables ---------------------------------------------------------------------------------------------------------------


class Table(Proxy):
    """The base of all tables."""

    interface = CONNECTOR + "catalog.Table"

    def name(self) -> str:
        """The name of the table, for messages and plans."""
        return str(missing(self, "name"))

    def id(self) -> str | None:
        """An identity that stays the same when the table is renamed."""
        return None

    def schema(self) -> Any:
        """The columns, as a `StructType`."""
        return missing(self, "schema")

    def columns(self) -> Any:
        """The columns, as a `Column[]`."""
        return missing(self, "columns")

    def partitioning(self) -> Any:
        """The partition spec, as a `Transform[]`."""
        return self.jvm.array(CONNECTOR + "expressions.Transform", [])

    def properties(self) -> Any:
        """The properties of the table, as a `Map`."""
        return self.jvm.map({})

    def capabilities(self) -> Any:
        """The `TableCapability` set of the table."""
        return self.jvm.set([])

    def constraints(self) -> Any:
        """No constraints are reported."""
        return self.jvm.array(CONNECTOR + "catalog.constraints.Constraint", [])

    def version(self) -> str | None:
        """The version of the table's state, such as its snapshot id."""
        return None

    def currentVersion(self) -> str | None:
        """The version of the table's state, for Spark 4.0."""
        return self.version()


class SupportsRead(Table):
    """A table that can be scanned."""

    interface = CONNECTOR + "catalog.SupportsRead"

    def newScanBuilder(self, options: Any) -> Any:
        """Create a `ScanBuilder` with read options."""
        return missing(self, "newScanBuilder")


class SupportsWrite(Table):
    """A table that can be written to."""

    interface = CONNECTOR + "catalog.SupportsWrite"

    def newWriteBuilder(self, info: Any) -> Any:
        """Create a `WriteBuilder`."""
        return missing(self, "newWriteBuilder")


class SupportsMetadataColumns(Table):
    """A table with metadata columns, which only queries that name them read."""

    interface = CONNECTOR + "catalog.SupportsMetadataColumns"

    def metadataColumns(self) -> Any:
        """The metadata columns, as a `MetadataColumn[]`."""
        return missing(self, "metadataColumns")

    def canRenameConflictingMetadataColumns(self) -> bool:
        """Whether a metadata column gets another name if a data column has its name."""
        return True


class TruncatableTable(Table):
    """A table that can be truncated."""

    interface = CONNECTOR + "catalog.TruncatableTable"

    def truncateTable(self, *options: Any) -> bool:
        """Delete all rows."""
        return bool(missing(self, "truncateTable"))

    def supportedCustomMetrics(self) -> Any:
        """No custom metrics are supported."""
        return self.jvm.array(CONNECTOR + "metric.CustomMetric", [])

    def reportDriverMetrics(self) -> Any:
        """No metrics are reported by the driver."""
        return self.jvm.array(CONNECTOR + "metric.CustomTaskMetric", [])


class SupportsDeleteV2(TruncatableTable):
    """A table that can delete by a filter without reading rows."""

    interface = CONNECTOR + "catalog.SupportsDeleteV2"

    def canDeleteWhere(self, predicates: Any) -> bool:
        """Whether the filters select whole files."""
        return bool(missing(self, "canDeleteWhere"))

    def deleteWhere(self, predicates: Any, *options: Any) -> None:
        """Delete the files that the filters select."""
        missing(self, "deleteWhere")


class SupportsPartitionManagement(Table):
    """A table whose partitions can be listed."""

    interface = CONNECTOR + "catalog.SupportsPartitionManagement"

    def partitionSchema(self) -> Any:
        """The partition fields, as a `StructType`."""
        return missing(self, "partitionSchema")

    def listPartitionIdentifiers(self, names: Any, values: Any) -> Any:
        """List the partitions with these values of these fields, as an `InternalRow[]`."""
        return missing(self, "listPartitionIdentifiers")

    def partitionExists(self, partition: Any) -> bool:
        """Whether the partition exists."""
        return bool(missing(self, "partitionExists"))

    def createPartition(self, partition: Any, properties: Any) -> None:
        """Unsupported: writing rows creates partitions."""
        missing(self, "createPartition")

    def dropPartition(self, partition: Any) -> bool:
        """Unsupported: deleting all of its rows removes a partition."""
        return bool(missing(self, "dropPartition"))

    def purgePartition(self, partition: Any) -> bool:
        """Unsupported: deleting all of its rows removes a partition."""
        return bool(missing(self, "purgePartition"))

    def renamePartition(self, old: Any, new: Any) -> bool:
        """Unsupported: the rows determine the partition."""
        return bool(missing(self, "renamePartition"))

    def truncatePartition(self, partition: Any) -> bool:
        """Unsupported: use DELETE with a filter."""
        return bool(missing(self, "truncatePartition"))

    def replacePartitionMetadata(self, partition: Any, properties: Any) -> None:
        """Unsupported: partitions have no properties."""
        missing(self, "replacePartitionMetadata")

    def loadPartitionMetadata(self, partition: Any) -> Any:
        """The properties of a partition: none."""
        return self.jvm.map({})


class StagedTable(Table):
    """A table that is created or replaced when its rows are committed."""

    interface = CONNECTOR + "catalog.StagedTable"

    def commitStagedChanges(self) -> None:
        """Commit the table."""
        missing(self, "commitStagedChanges")

    def abortStagedChanges(self) -> None:
        """Discard the table."""
        missing(self, "abortStagedChanges")

    def reportDriverMetrics(self) -> Any:
        """No metrics are reported by the driver."""
        return self.jvm.array(CONNECTOR + "metric.CustomTaskMetric", [])


# streams --------------------------------------------------------------------------------------------------------------


class SparkDataStream(Proxy):
    """A stream that is read from one offset to another."""

    interface = CONNECTOR + "read.streaming.SparkDataStream"

    def initialOffset(self) -> Any:
        """The offset at which a new query begins."""
        return missing(self, "initialOffset")

    def deserializeOffset(self, json: str) -> Any:
        """The offset of its JSON in a checkpoint."""
        return missing(self, "deserializeOffset")

    def commit(self, end: Any) -> None:
        """Called when all rows up to this offset have been processed."""

    def stop(self) -> None:
        """Called when the query ends."""


class MicroBatchStream(SparkDataStream):
    """A stream that is read in micro-batches."""

    interface = CONNECTOR + "read.streaming.MicroBatchStream"

    def latestOffset(self, *how: Any) -> Any:
        """The offset at which the next micro-batch ends."""
        return missing(self, "latestOffset")

    def planInputPartitions(self, start: Any, end: Any) -> Any:
        """Plan the partitions of a micro-batch, as an `InputPartition[]`."""
        return missing(self, "planInputPartitions")

    def createReaderFactory(self) -> Any:
        """The `PartitionReaderFactory` for executors."""
        return missing(self, "createReaderFactory")


class SupportsAdmissionControl(SparkDataStream):
    """A stream whose micro-batches have limits."""

    interface = CONNECTOR + "read.streaming.SupportsAdmissionControl"

    def getDefaultReadLimit(self) -> Any:
        """The default limit of a micro-batch, as a `ReadLimit`."""
        return self.jvm.sql("connector.read.streaming.ReadLimit").allAvailable()

    def latestOffset(self, *how: Any) -> Any:
        """The offset at which the next micro-batch ends, from its start offset and limit."""
        return missing(self, "latestOffset")

    def reportLatestOffset(self) -> Any:
        """The newest offset, for progress reports; not reported."""
        return None


class SupportsTriggerAvailableNow(SupportsAdmissionControl):
    """A stream that supports `Trigger.AvailableNow`."""

    interface = CONNECTOR + "read.streaming.SupportsTriggerAvailableNow"

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the stream at its current state."""
        missing(self, "prepareForTriggerAvailableNow")


class StreamingWrite(Proxy):
    """A write of a stream, by epochs."""

    interface = CONNECTOR + "write.streaming.StreamingWrite"

    def createStreamingWriterFactory(self, info: Any) -> Any:
        """The `StreamingDataWriterFactory` for executors."""
        return missing(self, "createStreamingWriterFactory")

    def useCommitCoordinator(self) -> bool:
        """Whether Spark lets only one attempt of each task commit."""
        return True

    def commit(self, epoch: int, messages: Any) -> None:
        """Commit an epoch, after all of its tasks have finished."""
        missing(self, "commit")

    def abort(self, epoch: int, messages: Any) -> None:
        """Abort an epoch that failed."""
        missing(self, "abort")
