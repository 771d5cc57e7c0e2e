"""The Avro schemas and key-value metadata of manifests and manifest lists, beside those that Java writes."""

import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from floe.errors import InvalidInput, UnsupportedFeature
from floe.spec.codecs.avro_schemas import avro_to_type
from floe.spec.codecs.manifest_schemas import (
    DEFAULT_BLOCK_SIZE,
    manifest_entry_schema,
    manifest_entry_type,
    manifest_file_type,
    manifest_list_metadata,
    manifest_list_schema,
    manifest_metadata,
)
from floe.spec.manifests.entries import ManifestContent
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec, fields_from_json
from floe.spec.partitioning.transforms import DAY, IDENTITY, Bucket
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_from_json
from floe.spec.types import BINARY, BOOLEAN, DATE, INT, LONG, STRING, TIMESTAMP, Field, ListType, MapType, StructType
from helpers.avro_files import avro_schema, header, without_docs
from helpers.corpus import table_names

VERSIONS = [1, 2, 3]
SCHEMA = Schema((Field(1, "id", LONG, required=True), Field(2, "ts", TIMESTAMP)), schema_id=4)
SPEC = PartitionSpec(
    (PartitionField((2,), 1000, "ts_day", DAY), PartitionField((1,), 1001, "id_bucket", Bucket(16))), 3
)

# The tables of the spec, word for word: id, name, type, then v1, v2 and v3 (r: required, o: optional, -: not written).
MANIFEST_FILE = [
    (500, "manifest_path", STRING, "rrr"),
    (501, "manifest_length", LONG, "rrr"),
    (502, "partition_spec_id", INT, "rrr"),
    (517, "content", INT, "-rr"),
    (515, "sequence_number", LONG, "-rr"),
    (516, "min_sequence_number", LONG, "-rr"),
    (503, "added_snapshot_id", LONG, "rrr"),
    (504, "added_files_count", INT, "orr"),
    (505, "existing_files_count", INT, "orr"),
    (506, "deleted_files_count", INT, "orr"),
    (512, "added_rows_count", LONG, "orr"),
    (513, "existing_rows_count", LONG, "orr"),
    (514, "deleted_rows_count", LONG, "orr"),
    (519, "key_metadata", BINARY, "ooo"),
    (520, "first_row_id", LONG, "--o"),
]
FIELD_SUMMARY = [
    (509, "contains_null", BOOLEAN, True),
    (518, "contains_nan", BOOLEAN, False),
    (510, "lower_bound", BINARY, False),
    (511, "upper_bound", BINARY, False),
]
MANIFEST_ENTRY = [
    (0, "status", INT, "rrr"),
    (1, "snapshot_id", LONG, "ooo"),  # the spec has "required" for v1; Java writes it optional in all versions
    (3, "sequence_number", LONG, "-oo"),
    (4, "file_sequence_number", LONG, "-oo"),
]
DATA_FILE = [
    (134, "content", INT, "-rr"),
    (100, "file_path", STRING, "rrr"),
    (101, "file_format", STRING, "rrr"),
    (103, "record_count", LONG, "rrr"),
    (104, "file_size_in_bytes", LONG, "rrr"),
    (105, "block_size_in_bytes", LONG, "r--"),
    (106, "file_ordinal", INT, "---"),
    (107, "sort_columns", ListType(112, INT), "---"),
    (108, "column_sizes", MapType(117, INT, 118, LONG, value_required=True), "ooo"),
    (109, "value_counts", MapType(119, INT, 120, LONG, value_required=True), "ooo"),
    (110, "null_value_counts", MapType(121, INT, 122, LONG, value_required=True), "ooo"),
    (137, "nan_value_counts", MapType(138, INT, 139, LONG, value_required=True), "ooo"),
    (111, "distinct_counts", MapType(123, INT, 124, LONG, value_required=True), "---"),
    (125, "lower_bounds", MapType(126, INT, 127, BINARY, value_required=True), "ooo"),
    (128, "upper_bounds", MapType(129, INT, 130, BINARY, value_required=True), "ooo"),
    (131, "key_metadata", BINARY, "ooo"),
    (132, "split_offsets", ListType(133, LONG, element_required=True), "ooo"),
    (135, "equality_ids", ListType(136, INT, element_required=True), "-oo"),
    (140, "sort_order_id", INT, "ooo"),
    (142, "first_row_id", LONG, "--o"),
    (143, "referenced_data_file", STRING, "-oo"),
    (144, "content_offset", LONG, "--o"),
    (145, "content_size_in_bytes", LONG, "--o"),
]


def cases(table: list[tuple[Any, ...]]) -> Any:
    return pytest.mark.parametrize(("field_id", "name", "type_", "need"), table, ids=[f"{r[0]} {r[1]}" for r in table])


def check_row(struct: StructType, field_id: int, name: str, type_: Any, need: str) -> None:
    found = struct.field_named(name)
    if need == "-":
        assert found is None
    else:
        assert found == Field(field_id, name, type_, required=need == "r")


@pytest.mark.parametrize("version", VERSIONS)
@cases(MANIFEST_FILE)
def test_manifest_list_fields(field_id: int, name: str, type_: Any, need: str, version: int) -> None:
    check_row(manifest_file_type(version), field_id, name, type_, need[version - 1])


@pytest.mark.parametrize("version", VERSIONS)
@cases(MANIFEST_ENTRY)
def test_manifest_entry_fields(field_id: int, name: str, type_: Any, need: str, version: int) -> None:
    check_row(manifest_entry_type(version, StructType()), field_id, name, type_, need[version - 1])


@pytest.mark.parametrize("version", VERSIONS)
@cases(DATA_FILE)
def test_data_file_fields(field_id: int, name: str, type_: Any, need: str, version: int) -> None:
    check_row(data_file(version), field_id, name, type_, need[version - 1])


def data_file(version: int, partition_type: StructType | None = None) -> StructType:
    found = manifest_entry_type(version, partition_type or StructType()).field_named("data_file")
    assert found is not None
    assert (found.id, found.required) == (2, True)
    assert isinstance(found.type, StructType)
    return found.type


@pytest.mark.parametrize("version", VERSIONS)
def test_field_summary_fields(version: int) -> None:
    partitions = manifest_file_type(version).field_named("partitions")
    assert partitions is not None
    assert (partitions.id, partitions.required) == (507, False)
    assert isinstance(partitions.type, ListType)
    assert (partitions.type.element_id, partitions.type.element_required) == (508, True)
    assert [(f.id, f.name, f.type, f.required) for f in partitions.type.element.fields] == FIELD_SUMMARY


@pytest.mark.parametrize("version", VERSIONS)
def test_partition_struct_has_the_ids_of_the_partition_fields(version: int) -> None:
    partition = data_file(version, SPEC.partition_type(SCHEMA)).field_named("partition")
    assert partition is not None
    assert (partition.id, partition.required) == (102, True)
    assert [(f.id, f.name, f.type, f.required) for f in partition.type.fields] == [
        (1000, "ts_day", DATE, False),
        (1001, "id_bucket", INT, False),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_no_reserved_or_deprecated_ids_are_written(version: int) -> None:
    """141 is reserved; 106, 107 and 111 are deprecated in every version, 105 from v2 on."""
    ids = {child.id for child in data_file(version)}
    assert not ids & {106, 107, 111, 141}
    assert (105 in ids) == (version == 1)
    assert DEFAULT_BLOCK_SIZE == 67108864


@pytest.mark.parametrize("version", VERSIONS)
def test_schemas_are_valid_avro_with_unique_ids(version: int) -> None:
    entry = manifest_entry_schema(version, SPEC.partition_type(SCHEMA))
    listing = manifest_list_schema(version)
    fastavro.parse_schema(entry)
    fastavro.parse_schema(listing)
    for struct in (avro_to_type(entry), avro_to_type(listing)):
        assert isinstance(struct, StructType)
        Schema(struct.fields)  # refuses an id or name used twice


def test_unknown_format_version_has_no_manifest_schema() -> None:
    with pytest.raises(UnsupportedFeature):
        manifest_list_schema(4)
    with pytest.raises(UnsupportedFeature):
        manifest_entry_schema(0, StructType())


# key-value metadata ---------------------------------------------------------------------------------------------


def test_manifest_key_value_metadata_of_v2_and_v3() -> None:
    for version in (2, 3):
        found = manifest_metadata(SCHEMA, SPEC, version, ManifestContent.DELETES)
        assert list(found) == [
            "schema",
            "schema-id",
            "partition-spec",
            "partition-spec-id",
            "format-version",
            "content",
        ]
        assert all(isinstance(value, str) for value in found.values())
        assert schema_from_json(json.loads(found["schema"])) == SCHEMA
        assert found["schema-id"] == "4"
        assert found["partition-spec-id"] == "3"
        assert found["format-version"] == str(version)
        assert found["content"] == "deletes"


def test_manifest_key_value_metadata_stores_only_the_fields_of_the_spec() -> None:
    fields = json.loads(manifest_metadata(SCHEMA, SPEC, 2)["partition-spec"])
    assert fields == [
        {"source-id": 2, "field-id": 1000, "name": "ts_day", "transform": "day"},
        {"source-id": 1, "field-id": 1001, "name": "id_bucket", "transform": "bucket[16]"},
    ]


def test_manifest_key_value_metadata_of_v1_has_no_content() -> None:
    found = manifest_metadata(SCHEMA, SPEC, 1)
    assert "content" not in found
    assert found["format-version"] == "1"
    with pytest.raises(InvalidInput, match="no delete manifests"):
        manifest_metadata(SCHEMA, SPEC, 1, ManifestContent.DELETES)


def test_manifest_list_metadata_needs_what_its_version_has() -> None:
    assert "sequence-number" not in manifest_list_metadata(1, snapshot_id=1, parent_snapshot_id=None)
    with pytest.raises(InvalidInput, match="sequence-number"):
        manifest_list_metadata(2, snapshot_id=1, parent_snapshot_id=None)
    with pytest.raises(InvalidInput, match="first-row-id"):
        manifest_list_metadata(3, snapshot_id=1, parent_snapshot_id=None, sequence_number=1)


# beside Java ----------------------------------------------------------------------------------------------------


def readable(corpus_dir: Path, pattern: str) -> list[Path]:
    tables = table_names(without=("invalid_", "view_"))
    return [path for table in tables for path in sorted((corpus_dir / table / "metadata").glob(pattern))]


def test_manifest_list_schema_is_that_of_java(corpus_dir: Path) -> None:
    seen = set()
    for path in readable(corpus_dir, "snap-*.avro"):
        found = header(path)
        version = int(found["format-version"])
        assert manifest_list_schema(version) == without_docs(json.loads(found["avro.schema"])), path
        seen.add(version)
    assert seen == {1, 2, 3}


def test_manifest_list_metadata_is_that_of_java(corpus_dir: Path) -> None:
    for path in readable(corpus_dir, "snap-*.avro"):
        found = header(path)
        parent = found["parent-snapshot-id"]
        ours = manifest_list_metadata(
            int(found["format-version"]),
            snapshot_id=int(found["snapshot-id"]),
            parent_snapshot_id=None if parent == "null" else int(parent),
            sequence_number=int(found["sequence-number"]) if "sequence-number" in found else None,
            first_row_id=int(found["first-row-id"]) if "first-row-id" in found else None,
        )
        avro_and_extra = {"avro.schema", "avro.codec", "iceberg.schema"}
        assert ours == {key: value for key, value in found.items() if key not in avro_and_extra}, path


def test_manifest_schema_and_metadata_are_those_of_java(corpus_dir: Path) -> None:
    """Same fields, ids, types and order; our one addition to the metadata is `schema-id`, which the spec requires."""
    seen = set()
    for path in readable(corpus_dir, "*-m*.avro"):
        found = header(path)
        version, content = int(found["format-version"]), found.get("content", "data")
        schema = schema_from_json(json.loads(found["schema"]))
        spec = PartitionSpec(fields_from_json(json.loads(found["partition-spec"])), int(found["partition-spec-id"]))
        theirs = without_docs(avro_schema(path))
        partition_type = spec.partition_type(schema)
        if all(child.type.kind != "unknown" for child in partition_type):
            assert manifest_entry_schema(version, partition_type) == theirs, path
            seen.add((version, content, spec.is_unpartitioned))
        ours = manifest_metadata(schema, spec, version, ManifestContent[content.upper()])
        assert ours.pop("schema-id") == str(schema.schema_id)
        for key, value in ours.items():
            if key in ("schema", "partition-spec"):
                assert json.loads(value) == json.loads(found[key]), path
            else:
                assert value == found[key], path
    assert {(v, c) for v, c, _ in seen} == {(1, "data"), (2, "data"), (2, "deletes"), (3, "data"), (3, "deletes")}
    assert {u for _, _, u in seen} == {True, False}


def test_manifests_of_an_identity_partition_keep_its_type() -> None:
    schema = Schema((Field(1, "name", STRING),))
    spec = PartitionSpec((PartitionField((1,), 1000, "name", IDENTITY),))
    (partition,) = (f for f in data_file(2, spec.partition_type(schema)) if f.id == 102)
    assert partition.type.fields[0].type == STRING
