"""Scans: how they are built, planned and run."""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.interfaces.missing import CONNECTOR, missing
from floe.spark.bridge.proxies import Proxy

__all__ = [
    "Batch",
    "ColumnStatistics",
    "LocalScan",
    "Scan",
    "ScanBuilder",
    "Statistics",
    "SupportsPushDownAggregates",
    "SupportsPushDownLimit",
    "SupportsPushDownRequiredColumns",
    "SupportsPushDownV2Filters",
    "SupportsReportStatistics",
    "SupportsRuntimeV2Filtering",
]


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
