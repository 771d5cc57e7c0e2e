"""Spark's interfaces as Python classes, with all of their methods: those that have a default in Java have it here.

A Java proxy forwards calls of default methods to Python too. A test compares every class with the interface of the
Spark that runs. Overloaded methods of Java are one method here, which takes what comes.
"""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.proxies import Proxy

__all__ = [
    "Batch",
    "BatchWrite",
    "InsertableRelation",
    "LocalScan",
    "MetadataColumn",
    "PartialFunction",
    "Scan",
    "ScanBuilder",
    "StagedTable",
    "StagingTableCatalog",
    "Statistics",
    "SupportsDeleteV2",
    "SupportsDynamicOverwrite",
    "SupportsMetadataColumns",
    "SupportsNamespaces",
    "SupportsOverwriteV2",
    "SupportsPartitionManagement",
    "SupportsPushDownAggregates",
    "SupportsPushDownLimit",
    "SupportsPushDownRequiredColumns",
    "SupportsPushDownV2Filters",
    "SupportsRead",
    "SupportsReportStatistics",
    "SupportsRuntimeV2Filtering",
    "SupportsWrite",
    "Table",
    "TableCatalog",
    "TruncatableTable",
    "V1Write",
    "Write",
    "WriteBuilder",
]

_CONNECTOR = "org.apache.spark.sql.connector."


def _missing(proxy: Proxy, method: str) -> Any:
    raise NotImplementedError(f"{type(proxy).__name__} does not support {method}")


# catalogs ---------------------------------------------------------------------------------------------------------


class CatalogPlugin(Proxy):
    """A catalog of whatever kind."""

    interface = _CONNECTOR + "catalog.CatalogPlugin"

    def initialize(self, name: str, options: Any) -> None:
        """Called by Spark for catalogs that it makes itself; ours are made."""

    def name(self) -> str:
        """The catalog's name in the session."""
        return str(_missing(self, "name"))

    def defaultNamespace(self) -> Any:
        """Where `USE catalog` leads."""
        return self.jvm.strings([])


class TableCatalog(CatalogPlugin):
    """Tables by name."""

    interface = _CONNECTOR + "catalog.TableCatalog"

    def capabilities(self) -> Any:
        """What the catalog takes in CREATE TABLE."""
        return self.jvm.set([])

    def listTables(self, namespace: Any) -> Any:
        """The tables of a namespace."""
        return _missing(self, "listTables")

    def listTableSummaries(self, namespace: Any) -> Any:
        """The tables of a namespace, with what they are."""
        kind = self.jvm.sql("connector.catalog.TableSummary")
        found = [kind.of(identifier, "FOREIGN") for identifier in self.listTables(namespace)]
        return self.jvm.array(_CONNECTOR + "catalog.TableSummary", found)

    def loadTable(self, identifier: Any, *how: Any) -> Any:
        """A table, perhaps as of a version or a time, perhaps for writing."""
        return _missing(self, "loadTable")

    def loadChangelog(self, *how: Any) -> Any:
        """The changes of a table (`SELECT … FROM t CHANGES …`)."""
        return _missing(self, "loadChangelog")

    def tableStateOptionKeys(self) -> Any:
        """Options of reads that choose another state of the table."""
        return self.jvm.set([])

    def changelogStateOptionKeys(self) -> Any:
        """Options of reads that choose another state of the changes."""
        return self.jvm.set([])

    def invalidateTable(self, identifier: Any) -> None:
        """Nothing is cached."""

    def tableExists(self, identifier: Any) -> bool:
        """Whether there is such a table."""
        return bool(_missing(self, "tableExists"))

    def createTable(self, identifier: Any, *definition: Any) -> Any:
        """Make a table."""
        return _missing(self, "createTable")

    def createTableLike(self, identifier: Any, info: Any, source: Any) -> Any:
        """Make a table like another."""
        return _missing(self, "createTableLike")

    def useNullableQuerySchema(self) -> bool:
        """Whether tables made of queries may have nulls everywhere."""
        return True

    def alterTable(self, identifier: Any, changes: Any) -> Any:
        """Change a table."""
        return _missing(self, "alterTable")

    def dropTable(self, identifier: Any) -> bool:
        """Remove a table; False if there is none."""
        return bool(_missing(self, "dropTable"))

    def purgeTable(self, identifier: Any) -> bool:
        """Remove a table with its files; False if there is none."""
        return bool(_missing(self, "purgeTable"))

    def renameTable(self, old: Any, new: Any) -> None:
        """Give a table another name."""
        _missing(self, "renameTable")


class StagingTableCatalog(TableCatalog):
    """Tables that are made, or replaced, together with their rows."""

    interface = _CONNECTOR + "catalog.StagingTableCatalog"

    def stageCreate(self, identifier: Any, *definition: Any) -> Any:
        """A table that is made when it is committed."""
        return _missing(self, "stageCreate")

    def stageReplace(self, identifier: Any, *definition: Any) -> Any:
        """A table that takes another one's place when it is committed."""
        return _missing(self, "stageReplace")

    def stageCreateOrReplace(self, identifier: Any, *definition: Any) -> Any:
        """One or the other."""
        return _missing(self, "stageCreateOrReplace")

    def supportedCustomMetrics(self) -> Any:
        """None."""
        return self.jvm.array(_CONNECTOR + "metric.CustomMetric", [])


class SupportsNamespaces(CatalogPlugin):
    """Namespaces by name."""

    interface = _CONNECTOR + "catalog.SupportsNamespaces"

    def listNamespaces(self, *parent: Any) -> Any:
        """The outermost namespaces, or those below one."""
        return _missing(self, "listNamespaces")

    def namespaceExists(self, namespace: Any) -> bool:
        """Whether there is such a namespace."""
        return bool(_missing(self, "namespaceExists"))

    def loadNamespaceMetadata(self, namespace: Any) -> Any:
        """The properties of a namespace."""
        return _missing(self, "loadNamespaceMetadata")

    def createNamespace(self, namespace: Any, properties: Any) -> None:
        """Make a namespace."""
        _missing(self, "createNamespace")

    def alterNamespace(self, namespace: Any, changes: Any) -> None:
        """Change the properties of a namespace."""
        _missing(self, "alterNamespace")

    def dropNamespace(self, namespace: Any, cascade: bool) -> bool:
        """Remove a namespace; False if there is none."""
        return bool(_missing(self, "dropNamespace"))


# tables -----------------------------------------------------------------------------------------------------------


class Table(Proxy):
    """A table of whatever kind."""

    interface = _CONNECTOR + "catalog.Table"

    def name(self) -> str:
        """The table's name, for people."""
        return str(_missing(self, "name"))

    def id(self) -> str | None:
        """What stays the same when the table is renamed."""
        return None

    def schema(self) -> Any:
        """The columns as a `StructType`."""
        return _missing(self, "schema")

    def columns(self) -> Any:
        """The columns as a `Column[]`."""
        return _missing(self, "columns")

    def partitioning(self) -> Any:
        """The partitioning as a `Transform[]`."""
        return self.jvm.array(_CONNECTOR + "expressions.Transform", [])

    def properties(self) -> Any:
        """The table's properties."""
        return self.jvm.map({})

    def capabilities(self) -> Any:
        """What can be done with the table."""
        return self.jvm.set([])

    def constraints(self) -> Any:
        """None."""
        return self.jvm.array(_CONNECTOR + "catalog.constraints.Constraint", [])

    def version(self) -> str | None:
        """The state of the table."""
        return None

    def currentVersion(self) -> str | None:
        """The state of the table, as older versions of Spark ask for it."""
        return self.version()


class SupportsRead(Table):
    """A table that can be read."""

    interface = _CONNECTOR + "catalog.SupportsRead"

    def newScanBuilder(self, options: Any) -> Any:
        """A read of the table."""
        return _missing(self, "newScanBuilder")


class SupportsWrite(Table):
    """A table that can be written."""

    interface = _CONNECTOR + "catalog.SupportsWrite"

    def newWriteBuilder(self, info: Any) -> Any:
        """A write to the table."""
        return _missing(self, "newWriteBuilder")


class SupportsMetadataColumns(Table):
    """A table with columns that are there for those who name them."""

    interface = _CONNECTOR + "catalog.SupportsMetadataColumns"

    def metadataColumns(self) -> Any:
        """These columns."""
        return _missing(self, "metadataColumns")

    def canRenameConflictingMetadataColumns(self) -> bool:
        """Whether a metadata column may get another name where a column has its name."""
        return True


class TruncatableTable(Table):
    """A table that can be emptied."""

    interface = _CONNECTOR + "catalog.TruncatableTable"

    def truncateTable(self, *options: Any) -> bool:
        """Remove all rows."""
        return bool(_missing(self, "truncateTable"))

    def supportedCustomMetrics(self) -> Any:
        """None."""
        return self.jvm.array(_CONNECTOR + "metric.CustomMetric", [])

    def reportDriverMetrics(self) -> Any:
        """None."""
        return self.jvm.array(_CONNECTOR + "metric.CustomTaskMetric", [])


class SupportsDeleteV2(TruncatableTable):
    """A table that can remove whole files by a filter."""

    interface = _CONNECTOR + "catalog.SupportsDeleteV2"

    def canDeleteWhere(self, predicates: Any) -> bool:
        """Whether the filter selects whole files."""
        return bool(_missing(self, "canDeleteWhere"))

    def deleteWhere(self, predicates: Any, *options: Any) -> None:
        """Remove these files."""
        _missing(self, "deleteWhere")


class SupportsPartitionManagement(Table):
    """A table whose partitions can be listed."""

    interface = _CONNECTOR + "catalog.SupportsPartitionManagement"

    def partitionSchema(self) -> Any:
        """The partition fields as a `StructType`."""
        return _missing(self, "partitionSchema")

    def listPartitionIdentifiers(self, names: Any, values: Any) -> Any:
        """The partitions that have these values."""
        return _missing(self, "listPartitionIdentifiers")

    def partitionExists(self, values: Any) -> bool:
        """Whether there is such a partition."""
        return bool(_missing(self, "partitionExists"))

    def loadPartitionMetadata(self, values: Any) -> Any:
        """The properties of a partition: none."""
        return self.jvm.map({})

    def createPartition(self, values: Any, properties: Any) -> None:
        """Partitions come with their rows."""
        _missing(self, "adding partitions without rows")

    def dropPartition(self, values: Any) -> bool:
        """Rows are removed by DELETE."""
        return bool(_missing(self, "dropping partitions; delete their rows instead"))

    def purgePartition(self, values: Any) -> bool:
        """Rows are removed by DELETE."""
        return bool(_missing(self, "dropping partitions; delete their rows instead"))

    def truncatePartition(self, values: Any) -> bool:
        """Rows are removed by DELETE."""
        return bool(_missing(self, "truncating partitions; delete their rows instead"))

    def renamePartition(self, old: Any, new: Any) -> bool:
        """A partition's values are those of its rows."""
        return bool(_missing(self, "renaming partitions; update their rows instead"))

    def replacePartitionMetadata(self, values: Any, properties: Any) -> None:
        """Partitions have no properties."""
        _missing(self, "properties of partitions")


class StagedTable(Table):
    """A table that is made when its rows are."""

    interface = _CONNECTOR + "catalog.StagedTable"

    def commitStagedChanges(self) -> None:
        """Publish it."""
        _missing(self, "commitStagedChanges")

    def abortStagedChanges(self) -> None:
        """Forget it."""
        _missing(self, "abortStagedChanges")

    def reportDriverMetrics(self) -> Any:
        """None."""
        return self.jvm.array(_CONNECTOR + "metric.CustomTaskMetric", [])


class MetadataColumn(Proxy):
    """A column that is there for those who name it."""

    interface = _CONNECTOR + "catalog.MetadataColumn"

    def name(self) -> str:
        """Its name."""
        return str(_missing(self, "name"))

    def dataType(self) -> Any:
        """Its type."""
        return _missing(self, "dataType")

    def isNullable(self) -> bool:
        """Whether it may be null."""
        return True

    def comment(self) -> str | None:
        """What it is."""
        return None

    def transform(self) -> Any:
        """None."""
        return None

    def metadataInJSON(self) -> str | None:
        """None."""
        return None


# reads ------------------------------------------------------------------------------------------------------------


class ScanBuilder(Proxy):
    """A read that is being put together."""

    interface = _CONNECTOR + "read.ScanBuilder"

    def build(self) -> Any:
        """The read."""
        return _missing(self, "build")


class SupportsPushDownRequiredColumns(ScanBuilder):
    """A read that takes the columns that a query needs."""

    interface = _CONNECTOR + "read.SupportsPushDownRequiredColumns"

    def pruneColumns(self, schema: Any) -> None:
        """These, and of structs these parts."""
        _missing(self, "pruneColumns")


class SupportsPushDownV2Filters(ScanBuilder):
    """A read that takes filters."""

    interface = _CONNECTOR + "read.SupportsPushDownV2Filters"

    def supportsIterativePushdown(self) -> bool:
        """Whether filters may come in several calls."""
        return False

    def pushPredicates(self, predicates: Any) -> Any:
        """Take filters; gives those that Spark has to check for each row."""
        return _missing(self, "pushPredicates")

    def pushedPredicates(self) -> Any:
        """The filters that the read makes use of."""
        return self.jvm.array(_CONNECTOR + "expressions.filter.Predicate", [])


class SupportsPushDownLimit(ScanBuilder):
    """A read that knows how many rows are wanted."""

    interface = _CONNECTOR + "read.SupportsPushDownLimit"

    def pushLimit(self, limit: int) -> bool:
        """Take the number; True if it is of use."""
        return bool(_missing(self, "pushLimit"))

    def isPartiallyPushed(self) -> bool:
        """Whether Spark has to cut off the rest."""
        return True


class SupportsPushDownAggregates(ScanBuilder):
    """A read that may answer counts, minima and maxima."""

    interface = _CONNECTOR + "read.SupportsPushDownAggregates"

    def supportCompletePushDown(self, aggregation: Any) -> bool:
        """Whether the answer needs no work of Spark's."""
        return bool(_missing(self, "supportCompletePushDown"))

    def pushAggregation(self, aggregation: Any) -> bool:
        """Take the question; True if the read will answer it."""
        return bool(_missing(self, "pushAggregation"))


class Scan(Proxy):
    """A read."""

    interface = _CONNECTOR + "read.Scan"

    def readSchema(self) -> Any:
        """The columns that come, in their order."""
        return _missing(self, "readSchema")

    def description(self) -> str:
        """What EXPLAIN says about it."""
        return self.toString()

    def toBatch(self) -> Any:
        """The read as a batch."""
        return _missing(self, "batch reads")

    def toMicroBatchStream(self, checkpoint: str) -> Any:
        """The read as a stream of batches."""
        return _missing(self, "micro-batch reads")

    def toContinuousStream(self, checkpoint: str) -> Any:
        """The read as a continuous stream."""
        return _missing(self, "continuous reads")

    def supportedCustomMetrics(self) -> Any:
        """None."""
        return self.jvm.array(_CONNECTOR + "metric.CustomMetric", [])

    def reportDriverMetrics(self) -> Any:
        """None."""
        return self.jvm.array(_CONNECTOR + "metric.CustomTaskMetric", [])

    def columnarSupportMode(self) -> Any:
        """Whether rows come in columns: each partition tells."""
        return self.jvm.constant(_CONNECTOR + "read.Scan$ColumnarSupportMode", "PARTITION_DEFINED")


class LocalScan(Scan):
    """A read whose rows are known already."""

    interface = _CONNECTOR + "read.LocalScan"

    def rows(self) -> Any:
        """The rows as an `InternalRow[]`."""
        return _missing(self, "rows")


class Batch(Proxy):
    """A read in parts."""

    interface = _CONNECTOR + "read.Batch"

    def planInputPartitions(self) -> Any:
        """The parts."""
        return _missing(self, "planInputPartitions")

    def createReaderFactory(self) -> Any:
        """What reads a part, in an executor."""
        return _missing(self, "createReaderFactory")


class SupportsReportStatistics(Scan):
    """A read that knows how much it will bring."""

    interface = _CONNECTOR + "read.SupportsReportStatistics"

    def estimateStatistics(self) -> Any:
        """About how much."""
        return _missing(self, "estimateStatistics")

    def estimateSizeInBytes(self) -> Any:
        """About how many bytes."""
        return self.estimateStatistics().sizeInBytes()

    def reflectsFullyPushedDownFilters(self) -> bool:
        """Whether the estimate is after filters that Spark does not check again: there are none."""
        return False


class Statistics(Proxy):
    """How much a read will bring."""

    interface = _CONNECTOR + "read.Statistics"

    def sizeInBytes(self) -> Any:
        """About how many bytes, as an `OptionalLong`."""
        return self.jvm.optional_long(None)

    def numRows(self) -> Any:
        """About how many rows, as an `OptionalLong`."""
        return self.jvm.optional_long(None)

    def columnStats(self) -> Any:
        """What is known about columns."""
        return self.jvm.map({})


class SupportsRuntimeV2Filtering(Scan):
    """A read that takes filters which are known only when the query runs."""

    interface = _CONNECTOR + "read.SupportsRuntimeV2Filtering"

    def filterAttributes(self) -> Any:
        """The columns for which such filters are of use."""
        return self.jvm.array(_CONNECTOR + "expressions.NamedReference", [])

    def filter(self, predicates: Any) -> None:
        """Take filters."""
        _missing(self, "filter")

    def supportsIterativePushdown(self) -> bool:
        """Whether filters may come in several calls."""
        return False

    def pushedPredicates(self) -> Any:
        """The filters that the read makes use of."""
        return self.jvm.array(_CONNECTOR + "expressions.filter.Predicate", [])


# writes -----------------------------------------------------------------------------------------------------------


class WriteBuilder(Proxy):
    """A write that is being put together."""

    interface = _CONNECTOR + "write.WriteBuilder"

    def build(self) -> Any:
        """The write."""
        return _missing(self, "build")

    def buildForBatch(self) -> Any:
        """The write, as older versions of Spark ask for it."""
        return self.build().toBatch()

    def buildForStreaming(self) -> Any:
        """The write of a stream, as older versions of Spark ask for it."""
        return self.build().toStreaming()


class SupportsOverwriteV2(WriteBuilder):
    """A write that replaces rows by a filter."""

    interface = _CONNECTOR + "write.SupportsOverwriteV2"

    def canOverwrite(self, predicates: Any) -> bool:
        """Whether these filters can be used."""
        return True

    def overwrite(self, predicates: Any) -> Any:
        """Replace the rows that pass."""
        return _missing(self, "overwrite")

    def truncate(self) -> Any:
        """Replace all rows."""
        return _missing(self, "truncate")


class SupportsDynamicOverwrite(WriteBuilder):
    """A write that replaces the partitions that it has rows for."""

    interface = _CONNECTOR + "write.SupportsDynamicOverwrite"

    def overwriteDynamicPartitions(self) -> Any:
        """Do so."""
        return _missing(self, "overwriteDynamicPartitions")


class Write(Proxy):
    """A write."""

    interface = _CONNECTOR + "write.Write"

    def description(self) -> str:
        """What EXPLAIN says about it."""
        return self.toString()

    def toBatch(self) -> Any:
        """The write of a batch."""
        return _missing(self, "batch writes")

    def toStreaming(self) -> Any:
        """The write of a stream."""
        return _missing(self, "streaming writes")

    def supportedCustomMetrics(self) -> Any:
        """None."""
        return self.jvm.array(_CONNECTOR + "metric.CustomMetric", [])

    def reportDriverMetrics(self) -> Any:
        """None."""
        return self.jvm.array(_CONNECTOR + "metric.CustomTaskMetric", [])


class BatchWrite(Proxy):
    """A write whose tasks Spark runs."""

    interface = _CONNECTOR + "write.BatchWrite"

    def createBatchWriterFactory(self, info: Any) -> Any:
        """What writes the rows of a task, in an executor."""
        return _missing(self, "createBatchWriterFactory")

    def useCommitCoordinator(self) -> bool:
        """Whether only one attempt of each task may commit."""
        return True

    def onDataWriterCommit(self, message: Any) -> None:
        """A task has finished."""

    def commit(self, messages: Any, *summary: Any) -> None:
        """All tasks have finished."""
        _missing(self, "commit")

    def abort(self, messages: Any) -> None:
        """The write has failed."""
        _missing(self, "abort")


class V1Write(Write):
    """A write that gets the rows as a data frame."""

    interface = _CONNECTOR + "write.V1Write"

    def toInsertableRelation(self) -> Any:
        """What takes the data frame."""
        return _missing(self, "toInsertableRelation")


class InsertableRelation(Proxy):
    """What takes the data frame of a write."""

    interface = "org.apache.spark.sql.sources.InsertableRelation"

    def insert(self, data: Any, overwrite: bool) -> None:
        """Write the rows."""
        _missing(self, "insert")


class PartialFunction(Proxy):
    """A Scala function that is defined for some values: what Catalyst's `transform` takes."""

    interface = "scala.PartialFunction"

    def isDefinedAt(self, value: Any) -> bool:
        """Whether the function has an answer."""
        return bool(_missing(self, "isDefinedAt"))

    def apply(self, value: Any) -> Any:
        """The answer."""
        return _missing(self, "apply")

    def applyOrElse(self, value: Any, other: Any) -> Any:
        """The answer, or that of another function."""
        return self.apply(value) if self.isDefinedAt(value) else other.apply(value)
