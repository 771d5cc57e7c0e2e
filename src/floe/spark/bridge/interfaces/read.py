"""Interfaces of scans, tables and streams.

- scans: builders with push-down, batches, statistics, runtime filters
- tables: capabilities, metadata columns, partitions, staged tables
- streams: micro-batch reads, and writes by epochs
"""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.proxies import CONNECTOR, Proxy, unsupported


class ScanBuilder(Proxy):
    """Builds the scan of a table in a query; Spark pushes parts of the query down to it first."""

    interface = CONNECTOR + "read.ScanBuilder"

    def build(self) -> Any:
        """The `Scan` with everything that was pushed down, which Spark puts into the plan."""
        return unsupported(self, "build")


class SupportsPushDownRequiredColumns(ScanBuilder):
    """A scan builder that reads only the columns that a query needs."""

    interface = CONNECTOR + "read.SupportsPushDownRequiredColumns"

    def pruneColumns(self, schema: Any) -> None:
        """Read only the columns and nested fields of a `StructType`."""
        unsupported(self, "pruneColumns")


class SupportsPushDownV2Filters(ScanBuilder):
    """A scan builder that uses filters to prune files."""

    interface = CONNECTOR + "read.SupportsPushDownV2Filters"

    def supportsIterativePushdown(self) -> bool:
        """Whether Spark may push filters in several calls."""
        return False

    def pushPredicates(self, predicates: Any) -> Any:
        """Use the filters of a `Predicate[]`; returns those that Spark must still evaluate for each row."""
        return unsupported(self, "pushPredicates")

    def pushedPredicates(self) -> Any:
        """The filters that the scan uses, as a `Predicate[]`, for EXPLAIN."""
        return self.jvm.array(CONNECTOR + "expressions.filter.Predicate", [])


class SupportsPushDownLimit(ScanBuilder):
    """A scan builder that uses the LIMIT of a query."""

    interface = CONNECTOR + "read.SupportsPushDownLimit"

    def pushLimit(self, limit: int) -> bool:
        """Use a limit; returns whether the scan does."""
        return bool(unsupported(self, "pushLimit"))

    def isPartiallyPushed(self) -> bool:
        """Whether the scan may return more rows, so that Spark must still apply the limit."""
        return True


class SupportsPushDownAggregates(ScanBuilder):
    """A scan builder that may compute counts, minima and maxima from metadata."""

    interface = CONNECTOR + "read.SupportsPushDownAggregates"

    def supportCompletePushDown(self, aggregation: Any) -> bool:
        """Whether the scan returns the final result, so that Spark need not aggregate its rows."""
        return bool(unsupported(self, "supportCompletePushDown"))

    def pushAggregation(self, aggregation: Any) -> bool:
        """Use an `Aggregation`; returns whether the scan computes it."""
        return bool(unsupported(self, "pushAggregation"))


class Scan(Proxy):
    """A scan of a table."""

    interface = CONNECTOR + "read.Scan"

    def readSchema(self) -> Any:
        """The columns of the scan's rows, in order, as a `StructType`."""
        return unsupported(self, "readSchema")

    def description(self) -> str:
        """The text that EXPLAIN and Spark's UI show for the scan."""
        return self.toString()

    def toBatch(self) -> Any:
        """The scan as a `Batch`, for a batch query."""
        return unsupported(self, "batch reads")

    def toMicroBatchStream(self, checkpoint: str) -> Any:
        """The scan as a `MicroBatchStream`, for a streaming query with a checkpoint location."""
        return unsupported(self, "micro-batch reads")

    def toContinuousStream(self, checkpoint: str) -> Any:
        """The scan as a `ContinuousStream`, for a query with a continuous trigger."""
        return unsupported(self, "continuous reads")

    def supportedCustomMetrics(self) -> Any:
        """The metrics that Spark's UI shows for the scan: none."""
        return self.jvm.array(CONNECTOR + "metric.CustomMetric", [])

    def reportDriverMetrics(self) -> Any:
        """The values of the metrics that the driver measures: none."""
        return self.jvm.array(CONNECTOR + "metric.CustomTaskMetric", [])

    def columnarSupportMode(self) -> Any:
        """Whether partitions are read as columnar batches: the reader of each partition decides."""
        return self.jvm.constant(CONNECTOR + "read.Scan$ColumnarSupportMode", "PARTITION_DEFINED")


class LocalScan(Scan):
    """A scan whose rows are known on the driver, so that Spark runs no tasks for it."""

    interface = CONNECTOR + "read.LocalScan"

    def rows(self) -> Any:
        """The rows, as an `InternalRow[]`."""
        return unsupported(self, "rows")


class Batch(Proxy):
    """The partitions of a scan in a batch query."""

    interface = CONNECTOR + "read.Batch"

    def planInputPartitions(self) -> Any:
        """Plan the scan, as an `InputPartition[]`; Spark runs one task for each."""
        return unsupported(self, "planInputPartitions")

    def createReaderFactory(self) -> Any:
        """The `PartitionReaderFactory` that Spark sends to executors to read the partitions."""
        return unsupported(self, "createReaderFactory")


class SupportsReportStatistics(Scan):
    """A scan that estimates its size; Spark chooses join strategies and join order by it."""

    interface = CONNECTOR + "read.SupportsReportStatistics"

    def estimateStatistics(self) -> Any:
        """Estimate the `Statistics` of the rows that the scan returns."""
        return unsupported(self, "estimateStatistics")

    def estimateSizeInBytes(self) -> Any:
        """Estimate the size in bytes, as an `OptionalLong`, where Spark needs nothing else."""
        return self.estimateStatistics().sizeInBytes()

    def reflectsFullyPushedDownFilters(self) -> bool:
        """Whether the estimate includes the effect of pushed filters; if not, Spark estimates their selectivity."""
        return True


class Statistics(Proxy):
    """The estimated statistics of a scan."""

    interface = CONNECTOR + "read.Statistics"

    def sizeInBytes(self) -> Any:
        """The size in bytes, as an `OptionalLong`; a small side of a join is broadcast."""
        return self.jvm.optional_long(None)

    def numRows(self) -> Any:
        """The number of rows, as an `OptionalLong`, for the cost-based optimizer."""
        return self.jvm.optional_long(None)

    def columnStats(self) -> Any:
        """The `ColumnStatistics` of columns, as a `Map` from references, for the cost-based optimizer."""
        return self.jvm.map({})


class ColumnStatistics(Proxy):
    """The estimated statistics of a column, from which Spark estimates the selectivity of filters and joins."""

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
        return self.jvm.java_class("java.util.Optional").empty()

    def max(self) -> Any:
        """The maximum, as an `Optional`."""
        return self.jvm.java_class("java.util.Optional").empty()

    def histogram(self) -> Any:
        """The histogram, as an `Optional`."""
        return self.jvm.java_class("java.util.Optional").empty()


class SupportsRuntimeV2Filtering(Scan):
    """A scan that uses runtime filters, which are known only when the query runs."""

    interface = CONNECTOR + "read.SupportsRuntimeV2Filtering"

    def filterAttributes(self) -> Any:
        """The columns for which Spark creates runtime filters, as a `NamedReference[]`."""
        return self.jvm.array(CONNECTOR + "expressions.NamedReference", [])

    def filter(self, predicates: Any) -> None:
        """Prune files by the runtime filters of a `Predicate[]`, before the scan is planned."""
        unsupported(self, "filter")

    def supportsIterativePushdown(self) -> bool:
        """Whether Spark may push filters in several calls."""
        return False

    def pushedPredicates(self) -> Any:
        """The filters that the scan uses, as a `Predicate[]`, for EXPLAIN."""
        return self.jvm.array(CONNECTOR + "expressions.filter.Predicate", [])


# Tables ---------------------------------------------------------------------------------------------------------------


class Table(Proxy):
    """The base of all tables that a catalog loads."""

    interface = CONNECTOR + "catalog.Table"

    def name(self) -> str:
        """The name of the table, for error messages and EXPLAIN."""
        return str(unsupported(self, "name"))

    def id(self) -> str | None:
        """The identity of the table, which survives renames; Spark detects with it that a name has another table."""
        return None

    def schema(self) -> Any:
        """The columns, as a `StructType`; older parts of Spark call it instead of `columns`."""
        return unsupported(self, "schema")

    def columns(self) -> Any:
        """The columns, as a `Column[]`, with which Spark resolves names and checks types."""
        return unsupported(self, "columns")

    def partitioning(self) -> Any:
        """The partition spec, as a `Transform[]`, for DESCRIBE and SHOW CREATE TABLE."""
        return self.jvm.array(CONNECTOR + "expressions.Transform", [])

    def properties(self) -> Any:
        """The properties, as a `Map`, for SHOW TBLPROPERTIES, DESCRIBE and SHOW CREATE TABLE."""
        return self.jvm.map({})

    def capabilities(self) -> Any:
        """The operations that the table supports, as a `Set` of `TableCapability`; Spark rejects others."""
        return self.jvm.set([])

    def constraints(self) -> Any:
        """The constraints that Spark enforces on writes: none."""
        return self.jvm.array(CONNECTOR + "catalog.constraints.Constraint", [])

    def version(self) -> str | None:
        """The version of the loaded state, such as its snapshot id: Spark reloads the table if it has changed."""
        return None

    def currentVersion(self) -> str | None:
        """The version of the loaded state, by the name of the method in Spark 4.0."""
        return self.version()


class SupportsRead(Table):
    """A table that Spark can scan."""

    interface = CONNECTOR + "catalog.SupportsRead"

    def newScanBuilder(self, options: Any) -> Any:
        """Create the `ScanBuilder` of a query with its read options."""
        return unsupported(self, "newScanBuilder")


class SupportsWrite(Table):
    """A table that Spark can write to."""

    interface = CONNECTOR + "catalog.SupportsWrite"

    def newWriteBuilder(self, info: Any) -> Any:
        """Create the `WriteBuilder` for a `LogicalWriteInfo`: the schema of the rows and the write options."""
        return unsupported(self, "newWriteBuilder")


class SupportsMetadataColumns(Table):
    """A table with metadata columns, which a query gets only if it names them."""

    interface = CONNECTOR + "catalog.SupportsMetadataColumns"

    def metadataColumns(self) -> Any:
        """The metadata columns, as a `MetadataColumn[]`, with which Spark resolves names that are no columns."""
        return unsupported(self, "metadataColumns")

    def canRenameConflictingMetadataColumns(self) -> bool:
        """Whether Spark may rename a metadata column if a data column has its name."""
        return True


class TruncatableTable(Table):
    """A table that supports TRUNCATE TABLE."""

    interface = CONNECTOR + "catalog.TruncatableTable"

    def truncateTable(self, *options: Any) -> bool:
        """Delete all rows for TRUNCATE TABLE; returns whether that succeeded."""
        return bool(unsupported(self, "truncateTable"))

    def supportedCustomMetrics(self) -> Any:
        """The metrics that Spark's UI shows for the statement: none."""
        return self.jvm.array(CONNECTOR + "metric.CustomMetric", [])

    def reportDriverMetrics(self) -> Any:
        """The values of the metrics that the driver measures: none."""
        return self.jvm.array(CONNECTOR + "metric.CustomTaskMetric", [])


class SupportsDeleteV2(TruncatableTable):
    """A table that can delete by a filter without reading rows."""

    interface = CONNECTOR + "catalog.SupportsDeleteV2"

    def canDeleteWhere(self, predicates: Any) -> bool:
        """Whether the filters of a DELETE select whole files; if not, Spark plans a row-level operation."""
        return bool(unsupported(self, "canDeleteWhere"))

    def deleteWhere(self, predicates: Any, *options: Any) -> None:
        """Delete the files that the filters of a DELETE select."""
        unsupported(self, "deleteWhere")


class SupportsPartitionManagement(Table):
    """A table whose partitions SHOW PARTITIONS can list."""

    interface = CONNECTOR + "catalog.SupportsPartitionManagement"

    def partitionSchema(self) -> Any:
        """The partition fields, as a `StructType`, with which Spark checks PARTITION clauses."""
        return unsupported(self, "partitionSchema")

    def listPartitionIdentifiers(self, names: Any, values: Any) -> Any:
        """List the partitions with some values of some fields, as an `InternalRow[]`, for SHOW PARTITIONS."""
        return unsupported(self, "listPartitionIdentifiers")

    def partitionExists(self, partition: Any) -> bool:
        """Whether a partition exists."""
        return bool(unsupported(self, "partitionExists"))

    def createPartition(self, partition: Any, properties: Any) -> None:
        """Unsupported: writing rows creates partitions."""
        unsupported(self, "createPartition")

    def dropPartition(self, partition: Any) -> bool:
        """Unsupported: deleting all of its rows removes a partition."""
        return bool(unsupported(self, "dropPartition"))

    def purgePartition(self, partition: Any) -> bool:
        """Unsupported: deleting all of its rows removes a partition."""
        return bool(unsupported(self, "purgePartition"))

    def renamePartition(self, old: Any, new: Any) -> bool:
        """Unsupported: the rows determine the partition."""
        return bool(unsupported(self, "renamePartition"))

    def truncatePartition(self, partition: Any) -> bool:
        """Unsupported: use DELETE with a filter."""
        return bool(unsupported(self, "truncatePartition"))

    def replacePartitionMetadata(self, partition: Any, properties: Any) -> None:
        """Unsupported: partitions have no properties."""
        unsupported(self, "replacePartitionMetadata")

    def loadPartitionMetadata(self, partition: Any) -> Any:
        """The properties of a partition for DESCRIBE … PARTITION: none."""
        return self.jvm.map({})


class StagedTable(Table):
    """A table that Spark creates or replaces together with its rows."""

    interface = CONNECTOR + "catalog.StagedTable"

    def commitStagedChanges(self) -> None:
        """Commit the table and its rows, after the write has succeeded."""
        unsupported(self, "commitStagedChanges")

    def abortStagedChanges(self) -> None:
        """Discard the table, after the write has failed."""
        unsupported(self, "abortStagedChanges")

    def reportDriverMetrics(self) -> Any:
        """The values of the metrics that the driver measures: none."""
        return self.jvm.array(CONNECTOR + "metric.CustomTaskMetric", [])


# Streams --------------------------------------------------------------------------------------------------------------


class SparkDataStream(Proxy):
    """A stream that Spark reads from one offset to another."""

    interface = CONNECTOR + "read.streaming.SparkDataStream"

    def initialOffset(self) -> Any:
        """The offset at which a new query begins; one with a checkpoint continues at the offset stored there."""
        return unsupported(self, "initialOffset")

    def deserializeOffset(self, json: str) -> Any:
        """The `Offset` of a JSON text from the checkpoint."""
        return unsupported(self, "deserializeOffset")

    def commit(self, end: Any) -> None:
        """Do nothing: Spark reports that all rows up to an offset are processed, and nothing is kept for them."""

    def stop(self) -> None:
        """Do nothing: Spark reports the end of the query, and there is nothing to release."""


class MicroBatchStream(SparkDataStream):
    """A stream that Spark reads in micro-batches."""

    interface = CONNECTOR + "read.streaming.MicroBatchStream"

    def latestOffset(self, *start_and_limit: Any) -> Any:
        """The offset at which the next micro-batch ends."""
        return unsupported(self, "latestOffset")

    def planInputPartitions(self, start: Any, end: Any) -> Any:
        """Plan the micro-batch between two offsets, as an `InputPartition[]`; Spark runs one task for each."""
        return unsupported(self, "planInputPartitions")

    def createReaderFactory(self) -> Any:
        """The `PartitionReaderFactory` that Spark sends to executors to read the partitions."""
        return unsupported(self, "createReaderFactory")


class SupportsAdmissionControl(SparkDataStream):
    """A stream that limits the size of its micro-batches."""

    interface = CONNECTOR + "read.streaming.SupportsAdmissionControl"

    def getDefaultReadLimit(self) -> Any:
        """The limit of a micro-batch, as a `ReadLimit`, which Spark passes to `latestOffset`."""
        return self.jvm.sql("connector.read.streaming.ReadLimit").allAvailable()

    def latestOffset(self, *start_and_limit: Any) -> Any:
        """The offset at which the micro-batch that begins at an offset ends, within a limit."""
        return unsupported(self, "latestOffset")

    def reportLatestOffset(self) -> Any:
        """The newest offset of the source, for progress reports: None, it is not reported."""
        return None


class SupportsTriggerAvailableNow(SupportsAdmissionControl):
    """A stream that supports `Trigger.AvailableNow`."""

    interface = CONNECTOR + "read.streaming.SupportsTriggerAvailableNow"

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of the stream at the current state of the table: the query stops when it gets there."""
        unsupported(self, "prepareForTriggerAvailableNow")


class StreamingWrite(Proxy):
    """The write of a streaming query, which commits each epoch."""

    interface = CONNECTOR + "write.streaming.StreamingWrite"

    def createStreamingWriterFactory(self, info: Any) -> Any:
        """The `StreamingDataWriterFactory` that Spark sends to executors to write the rows."""
        return unsupported(self, "createStreamingWriterFactory")

    def useCommitCoordinator(self) -> bool:
        """Whether Spark lets only one attempt of each task commit."""
        return True

    def commit(self, epoch: int, messages: Any) -> None:
        """Commit an epoch with the messages of its tasks, after all of them have finished."""
        unsupported(self, "commit")

    def abort(self, epoch: int, messages: Any) -> None:
        """Clean up an epoch that has failed, with the messages of the tasks that have finished."""
        unsupported(self, "abort")
