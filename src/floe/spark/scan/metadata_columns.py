"""The columns that every table has for those who name them, such as `_file` and `_pos`."""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.interfaces.tables import MetadataColumn
from floe.spark.bridge.jvm import Jvm
from floe.spark.columns import spark_type
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import unified_partition_type
from floe.spec.schemas.metadata_columns import (
    DELETED,
    FILE,
    LAST_UPDATED_SEQUENCE_NUMBER,
    POS,
    ROW_ID,
    SPEC_ID,
    partition_column,
)
from floe.spec.types import Field

__all__ = ["metadata_columns"]


def metadata_columns(jvm: Jvm, metadata: TableMetadata) -> Any:
    """The metadata columns of a table."""
    partitions = unified_partition_type(metadata.partition_specs, metadata.schemas)
    fields = [FILE, POS, SPEC_ID, partition_column(partitions), DELETED]
    if metadata.format_version >= 3:
        fields += [ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER]
    key = ("metadata columns", *fields)
    found = jvm.remembered.get(key)
    if found is None:  # Spark asks for them in every query
        made = [TableMetadataColumn(jvm, field) for field in fields]
        array = jvm.array("org.apache.spark.sql.connector.catalog.MetadataColumn", made)
        found = jvm.remembered[key] = (array, made)
    return found[0]


class TableMetadataColumn(MetadataColumn):
    """One of these columns."""

    def __init__(self, jvm: Jvm, field: Field) -> None:
        super().__init__(jvm)
        self._field = field
        self._type = jvm.data_type(spark_type(field.type))

    def name(self) -> str:
        """Its name."""
        return self._field.name

    def dataType(self) -> Any:
        """Its type."""
        return self._type

    def isNullable(self) -> bool:
        """Whether it may be null."""
        return self._field.optional

    def comment(self) -> str | None:
        """What it is."""
        return self._field.doc

    def metadataInJSON(self) -> str | None:
        """When a row was changed is not kept when it is changed again."""
        return '{"__preserve_on_update": false}' if self._field.id == LAST_UPDATED_SEQUENCE_NUMBER.id else None
