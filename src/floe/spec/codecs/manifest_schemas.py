"""The schemas of manifests, manifest lists and partition statistics files in each format version.

The tables are those of the spec (Manifests, Data File Fields, Manifest Lists, Partition Statistics File). Names, ids,
types, order and required fields are those of the reference implementation, which differs from the spec in one point:
`snapshot_id` of an entry is optional in v1, too. Documentation strings are omitted, because they are stored in every
file. The module also has the key-value metadata of manifests and manifest lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from floe.errors import InvalidInput, UnsupportedFeature
from floe.spec.codecs.avro_schemas import type_to_avro
from floe.spec.manifests.entries import ManifestContent
from floe.spec.partitioning.partition_spec import PartitionSpec, fields_to_json
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_to_json
from floe.spec.types import BINARY, BOOLEAN, INT, LONG, STRING, Field, ListType, MapType, StructType, Type

FORMAT_VERSIONS = (1, 2, 3)
PARTITION_ID = 102
DEFAULT_BLOCK_SIZE = 64 * 2**20
"""The value of `block_size_in_bytes` in v1 manifests, which is required but has no meaning."""

ALWAYS, FROM_V2, NEVER = 1, 2, 4
"""The first format version in which a field is required."""

_Row = tuple[int, str, Type, int]


def _counts(key_id: int, value: Type = LONG) -> MapType:
    """A map from column id to a count or bound."""
    return MapType(key_id, INT, key_id + 1, value, value_required=True)


def _list(element_id: int, element: Type) -> ListType:
    return ListType(element_id, element, element_required=True)


_FIELD_SUMMARY = StructType(
    (
        Field(509, "contains_null", BOOLEAN, required=True),
        Field(518, "contains_nan", BOOLEAN),
        Field(510, "lower_bound", BINARY),
        Field(511, "upper_bound", BINARY),
    )
)

_MANIFEST_FILE: tuple[_Row, ...] = (
    (500, "manifest_path", STRING, ALWAYS),
    (501, "manifest_length", LONG, ALWAYS),
    (502, "partition_spec_id", INT, ALWAYS),
    (517, "content", INT, FROM_V2),
    (515, "sequence_number", LONG, FROM_V2),
    (516, "min_sequence_number", LONG, FROM_V2),
    (503, "added_snapshot_id", LONG, ALWAYS),
    (504, "added_files_count", INT, FROM_V2),
    (505, "existing_files_count", INT, FROM_V2),
    (506, "deleted_files_count", INT, FROM_V2),
    (512, "added_rows_count", LONG, FROM_V2),
    (513, "existing_rows_count", LONG, FROM_V2),
    (514, "deleted_rows_count", LONG, FROM_V2),
    (507, "partitions", _list(508, _FIELD_SUMMARY), NEVER),
    (519, "key_metadata", BINARY, NEVER),
    (520, "first_row_id", LONG, NEVER),
)
_MANIFEST_FILE_IDS: dict[int, tuple[int, ...]] = {
    1: (500, 501, 502, 503, 504, 505, 506, 507, 512, 513, 514, 519),
    2: (500, 501, 502, 517, 515, 516, 503, 504, 505, 506, 512, 513, 514, 507, 519),
    3: (500, 501, 502, 517, 515, 516, 503, 504, 505, 506, 512, 513, 514, 507, 519, 520),
}

_ENTRY: tuple[_Row, ...] = (
    (0, "status", INT, ALWAYS),
    (1, "snapshot_id", LONG, NEVER),
    (3, "sequence_number", LONG, NEVER),
    (4, "file_sequence_number", LONG, NEVER),
)
_ENTRY_IDS: dict[int, tuple[int, ...]] = {1: (0, 1), 2: (0, 1, 3, 4), 3: (0, 1, 3, 4)}

_DATA_FILE: tuple[_Row, ...] = (
    (134, "content", INT, FROM_V2),
    (100, "file_path", STRING, ALWAYS),
    (101, "file_format", STRING, ALWAYS),
    (PARTITION_ID, "partition", StructType(), ALWAYS),
    (103, "record_count", LONG, ALWAYS),
    (104, "file_size_in_bytes", LONG, ALWAYS),
    (105, "block_size_in_bytes", LONG, ALWAYS),
    (108, "column_sizes", _counts(117), NEVER),
    (109, "value_counts", _counts(119), NEVER),
    (110, "null_value_counts", _counts(121), NEVER),
    (137, "nan_value_counts", _counts(138), NEVER),
    (125, "lower_bounds", _counts(126, BINARY), NEVER),
    (128, "upper_bounds", _counts(129, BINARY), NEVER),
    (131, "key_metadata", BINARY, NEVER),
    (132, "split_offsets", _list(133, LONG), NEVER),
    (135, "equality_ids", _list(136, INT), NEVER),
    (140, "sort_order_id", INT, NEVER),
    (142, "first_row_id", LONG, NEVER),
    (143, "referenced_data_file", STRING, NEVER),
    (144, "content_offset", LONG, NEVER),
    (145, "content_size_in_bytes", LONG, NEVER),
)
_METRIC_IDS = (108, 109, 110, 137, 125, 128, 131, 132)
_DATA_FILE_IDS: dict[int, tuple[int, ...]] = {
    1: (100, 101, 102, 103, 104, 105, *_METRIC_IDS, 140),
    2: (134, 100, 101, 102, 103, 104, *_METRIC_IDS, 135, 140, 143),
    3: (134, 100, 101, 102, 103, 104, *_METRIC_IDS, 135, 140, 142, 143, 144, 145),
}


def _fields(table: Sequence[_Row], ids: dict[int, tuple[int, ...]], format_version: int) -> tuple[Field, ...]:
    """The fields of a format version, in its order."""
    if format_version not in FORMAT_VERSIONS:
        raise UnsupportedFeature(f"manifests of format version {format_version} are not known to this version of Floe")
    rows = {row[0]: row for row in table}
    return tuple(
        Field(field_id, name, type_, required=required_from <= format_version)
        for field_id, name, type_, required_from in (rows[i] for i in ids[format_version])
    )


def manifest_entry_type(format_version: int, partition_type: StructType) -> StructType:
    """The struct type of manifest entries whose files have a partition type.

    >>> [child.name for child in manifest_entry_type(1, StructType())]
    ['status', 'snapshot_id', 'data_file']
    """
    data_file = tuple(
        replace(child, type=partition_type) if child.id == PARTITION_ID else child
        for child in _fields(_DATA_FILE, _DATA_FILE_IDS, format_version)
    )
    entry = _fields(_ENTRY, _ENTRY_IDS, format_version)
    return StructType((*entry, Field(2, "data_file", StructType(data_file), required=True)))


def manifest_entry_schema(format_version: int, partition_type: StructType) -> dict[str, Any]:
    """The Avro schema of a manifest.

    >>> schema = manifest_entry_schema(2, StructType())
    >>> schema["name"], schema["fields"][2]
    ('manifest_entry', {'name': 'sequence_number', 'type': ['null', 'long'], 'default': None, 'field-id': 3})
    """
    schema: dict[str, Any] = type_to_avro(manifest_entry_type(format_version, partition_type), "manifest_entry")
    return schema


def manifest_file_type(format_version: int) -> StructType:
    """The struct type of the rows of a manifest list.

    >>> manifest_file_type(3).fields[-1].name
    'first_row_id'
    """
    return StructType(_fields(_MANIFEST_FILE, _MANIFEST_FILE_IDS, format_version))


def manifest_list_schema(format_version: int) -> dict[str, Any]:
    """The Avro schema of a manifest list.

    >>> manifest_list_schema(2)["fields"][3]
    {'name': 'content', 'type': 'int', 'field-id': 517}
    """
    schema: dict[str, Any] = type_to_avro(manifest_file_type(format_version), "manifest_file")
    return schema


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def manifest_metadata(
    schema: Schema, spec: PartitionSpec, format_version: int, content: ManifestContent = ManifestContent.DATA
) -> dict[str, str]:
    """The key-value metadata of a manifest (spec: Manifests); every value is a string.

    Of the partition spec only the fields are stored. `content` is not stored in v1, which has only data manifests.

    >>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
    >>> from floe.spec.types import Field, INT
    >>> manifest_metadata(Schema((Field(1, "a", INT),)), UNPARTITIONED, 2)
    {'schema': '{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"a","required":false,"type":"int"}]}',
     'schema-id': '0', 'partition-spec': '[]', 'partition-spec-id': '0', 'format-version': '2', 'content': 'data'}
    """
    metadata = {
        "schema": _json(schema_to_json(schema)),
        "schema-id": str(schema.schema_id),
        "partition-spec": _json(fields_to_json(spec.fields)),
        "partition-spec-id": str(spec.spec_id),
        "format-version": str(format_version),
    }
    if format_version >= 2:
        metadata["content"] = content.text
    elif content is not ManifestContent.DATA:
        raise InvalidInput("a v1 table has no delete manifests", hint="upgrade the table to format version 2 first")
    return metadata


def manifest_list_metadata(
    format_version: int,
    *,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int | None = None,
    first_row_id: int | None = None,
) -> dict[str, str]:
    """The key-value metadata of a manifest list, as in the reference implementation; the spec does not require it.

    >>> manifest_list_metadata(2, snapshot_id=7, parent_snapshot_id=None, sequence_number=1)
    {'snapshot-id': '7', 'parent-snapshot-id': 'null', 'sequence-number': '1', 'format-version': '2'}
    """
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent_snapshot_id is None else str(parent_snapshot_id),
    }
    for key, value, since in (("sequence-number", sequence_number, 2), ("first-row-id", first_row_id, 3)):
        if format_version >= since:
            if value is None:
                raise InvalidInput(f"a manifest list of format version {format_version} needs a {key}")
            metadata[key] = str(value)
    return metadata | {"format-version": str(format_version)}


# Partition statistics files --------------------------------------------------------------------------------------

STATISTICS_ALWAYS, FROM_V3, STATISTICS_NEVER = 1, 3, 4
"""The first format version in which a column is required."""

DV_COUNT_ID = 13
"""The id of the count of deletion vectors, which v3 added."""

_COLUMNS: tuple[tuple[int, str, Type, int], ...] = (
    (2, "spec_id", INT, STATISTICS_ALWAYS),
    (3, "data_record_count", LONG, STATISTICS_ALWAYS),
    (4, "data_file_count", INT, STATISTICS_ALWAYS),
    (5, "total_data_file_size_in_bytes", LONG, STATISTICS_ALWAYS),
    (6, "position_delete_record_count", LONG, FROM_V3),
    (7, "position_delete_file_count", INT, FROM_V3),
    (8, "equality_delete_record_count", LONG, FROM_V3),
    (9, "equality_delete_file_count", INT, FROM_V3),
    (10, "total_record_count", LONG, STATISTICS_NEVER),
    (11, "last_updated_at", LONG, STATISTICS_NEVER),
    (12, "last_updated_snapshot_id", LONG, STATISTICS_NEVER),
    (DV_COUNT_ID, "dv_count", INT, FROM_V3),
)


def partition_statistics_schema(format_version: int, partition_type: StructType) -> Schema:
    """The schema of a partition statistics file; `partition_type` has the fields of all specs, ordered by id.

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
