"""The columns of a partition statistics file, in each format version (spec: Partition Statistics File)."""

from __future__ import annotations

from floe.errors import UnsupportedFeature
from floe.spec.schemas.schema import Schema
from floe.spec.types import INT, LONG, Field, StructType, Type

__all__ = ["partition_statistics_schema"]

FORMAT_VERSIONS = (1, 2, 3)
ALWAYS, FROM_V3, NEVER = 1, 3, 4
"""From which version on a column is required."""

DV_COUNT_ID = 13
"""Deletion vectors came with v3, and so did their count."""

_COLUMNS: tuple[tuple[int, str, Type, int], ...] = (
    (2, "spec_id", INT, ALWAYS),
    (3, "data_record_count", LONG, ALWAYS),
    (4, "data_file_count", INT, ALWAYS),
    (5, "total_data_file_size_in_bytes", LONG, ALWAYS),
    (6, "position_delete_record_count", LONG, FROM_V3),
    (7, "position_delete_file_count", INT, FROM_V3),
    (8, "equality_delete_record_count", LONG, FROM_V3),
    (9, "equality_delete_file_count", INT, FROM_V3),
    (10, "total_record_count", LONG, NEVER),
    (11, "last_updated_at", LONG, NEVER),
    (12, "last_updated_snapshot_id", LONG, NEVER),
    (DV_COUNT_ID, "dv_count", INT, FROM_V3),
)


def partition_statistics_schema(format_version: int, partition_type: StructType) -> Schema:
    """The schema of the file; `partition_type` is the unified one, with the fields of all specs ordered by id.

    >>> [child.name for child in partition_statistics_schema(3, StructType())][-2:]
    ['last_updated_snapshot_id', 'dv_count']
    >>> partition_statistics_schema(2, StructType()).has("dv_count")
    False
    """
    if format_version not in FORMAT_VERSIONS:
        raise UnsupportedFeature(f"partition statistics of format version {format_version} are not known to Floe")
    columns = tuple(
        Field(field_id, name, type_, required=required_from <= format_version)
        for field_id, name, type_, required_from in _COLUMNS
        if field_id != DV_COUNT_ID or format_version >= FROM_V3
    )
    return Schema((Field(1, "partition", partition_type, required=True), *columns))
