"""The columns that every table has for those who name them, such as `_file` and `_pos`."""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.metadata_columns import java_metadata_columns
from floe.spark.columns import SparkField, spark_field
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
    schema = {"type": "struct", "fields": [_spark_field(field) for field in fields]}
    return jvm.once(key, lambda: java_metadata_columns(jvm, schema))  # Spark asks for them in every query


def _spark_field(field: Field) -> SparkField:
    made = spark_field(field)
    if field.id == LAST_UPDATED_SEQUENCE_NUMBER.id:  # when a row was changed is not kept when it is changed again
        made["metadata"]["__preserve_on_update"] = False
    return made
