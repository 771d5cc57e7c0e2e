"""Tables, and what can be done with them."""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.interfaces.missing import CONNECTOR, missing
from floe.spark.bridge.proxies import Proxy

__all__ = [
    "StagedTable",
    "SupportsDeleteV2",
    "SupportsMetadataColumns",
    "SupportsPartitionManagement",
    "SupportsRead",
    "SupportsWrite",
    "Table",
    "TruncatableTable",
]


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
