"""A table of a lake as Spark sees it: at one state, which a query keeps from its analysis to its end."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from floe.plan.snapshots import schema_for
from floe.spark.bridge.interfaces import SupportsMetadataColumns, SupportsRead
from floe.spark.bridge.jvm import Jvm
from floe.spark.columns import spark_schema
from floe.spark.definitions import shown_properties
from floe.spark.names import Selected
from floe.spark.scan.builder import TableScanBuilder
from floe.spark.scan.metadata_columns import metadata_columns
from floe.spark.scan.source import Source
from floe.spark.tables.partitioning import spark_transforms
from floe.spec.schemas.schema import Schema
from floe.table.column_text import name_text
from floe.table.table import Table

__all__ = ["SparkTable", "metadata_or_data_table"]

_CAPABILITY = "org.apache.spark.sql.connector.catalog.TableCapability"


class SparkTable(SupportsRead, SupportsMetadataColumns):
    """A table of a lake, as of some state."""

    def __init__(self, jvm: Jvm, path: tuple[str, ...], table: Table, selected: Selected) -> None:
        super().__init__(jvm)
        self.path = path
        self.table = table
        self.selected = selected
        as_of = selected.as_of
        self.floe_schema: Schema = schema_for(
            table.metadata, snapshot=as_of.snapshot_id, ref=as_of.ref, as_of_ms=as_of.timestamp_ms
        )

    def key(self) -> Any:
        """The same table at the same state is the same to Spark."""
        return (self.table.uuid, self.table.metadata_location, self.selected)

    def name(self) -> str:
        """The table's name, for people."""
        return ".".join(map(name_text, self.path))

    def id(self) -> str | None:
        """The table's UUID."""
        return self.table.uuid

    @cached_property
    def _schema(self) -> Any:
        return self.jvm.data_type(spark_schema(self.floe_schema.fields))

    def schema(self) -> Any:
        """The columns as a `StructType`."""
        return self._schema

    @cached_property
    def _columns(self) -> Any:
        return self.jvm.columns(spark_schema(self.floe_schema.fields))

    def columns(self) -> Any:
        """The columns as a `Column[]`."""
        return self._columns

    def partitioning(self) -> Any:
        """The partitioning as a `Transform[]`."""
        return spark_transforms(self.jvm, self.table.spec, self.table.schema)

    def properties(self) -> Any:
        """The table's properties, and what else there is to know about it."""
        return self.jvm.map(shown_properties(self.table))

    def capabilities(self) -> Any:
        """What can be done with the table."""
        names = ["BATCH_READ"]
        return self.jvm.set([self.jvm.constant(_CAPABILITY, name) for name in names])

    def newScanBuilder(self, options: Any) -> Any:
        """A read of the table."""
        return TableScanBuilder(self.jvm, Source(self.name(), self.table, self.selected.as_of, self.floe_schema))

    def metadataColumns(self) -> Any:
        """`_file`, `_pos` and the like."""
        return metadata_columns(self.jvm, self.table.metadata)

    def version(self) -> str | None:
        """The id of the current snapshot."""
        current = self.table.current_snapshot
        return None if current is None else str(current.snapshot_id)


def metadata_or_data_table(jvm: Jvm, path: tuple[str, ...], table: Table, selected: Selected) -> SparkTable:
    """What Spark reads for a name."""
    return SparkTable(jvm, path, table, selected)
