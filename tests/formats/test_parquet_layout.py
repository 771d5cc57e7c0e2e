"""How Parquet files are laid out: types, ids, row groups, pages, dictionaries, compression, and what others read."""

import io
import json
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floe.errors import InvalidInput, InvalidSchema, InvalidUpdate, UnsupportedFeature
from floe.formats.model import WriteRequest
from floe.formats.parquet.writer_options import supported_options
from floe.formats.registry import ParquetAsArrow
from floe.formats.rows import rows_to_batch
from floe.spec.codecs.parquet_types import parquet_type
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_from_json
from floe.spec.types import (
    INT,
    LONG,
    STRING,
    UNKNOWN,
    VARIANT,
    DecimalType,
    Field,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StructType,
)
from floe.storage.memory import MemoryStorage
from floe.testing.format_bench import SAMPLES

MODEL = ParquetAsArrow()


def write(schema: Schema, rows: list[dict[str, Any]], **options: Any) -> tuple[DataFile, bytes]:
    storage = MemoryStorage()
    with MODEL.write(WriteRequest(storage=storage, location="memory:a", schema=schema, **options)) as file:
        file.write(rows_to_batch(schema, rows))
    return file.close(), storage.read("memory:a")


def opened(data: bytes) -> pq.ParquetFile:
    return pq.ParquetFile(io.BytesIO(data))


def schema_lines(data: bytes) -> list[str]:
    return [line.strip() for line in str(opened(data).schema).splitlines()[2:]]


# types ----------------------------------------------------------------------------------------------------------------

PRIMITIVES = [type_ for type_ in SAMPLES if not type_.is_nested and type_ != VARIANT]


@pytest.mark.parametrize("type_", PRIMITIVES, ids=str)
def test_physical_types_are_those_of_the_spec(type_: Any) -> None:
    _, data = write(Schema((Field(7, "a", type_),)), [{"a": value} for value in SAMPLES[type_]])
    column = opened(data).schema.column(0)
    expected = parquet_type(type_)
    assert expected is not None
    assert column.physical_type.lower() == expected.physical
    if expected.length is not None:
        assert column.length == expected.length
    logical_text, logical = str(column.logical_type), expected.logical
    if logical is None:
        assert logical_text == "None"
        return
    assert logical_text.split("(", maxsplit=1)[0].lower() == logical.name.lower()
    if logical.unit is not None:
        assert f"timeUnit={logical.unit.lower().removesuffix('s')}" in logical_text
        assert f"isAdjustedToUTC={str(logical.adjusted_to_utc).lower()}" in logical_text
    if logical.precision is not None:
        assert (column.precision, column.scale) == (logical.precision, logical.scale)
    if logical.algorithm is not None:
        assert f"algorithm={logical.algorithm.lower()}" in logical_text


def test_ids_are_on_every_level_and_unknown_columns_are_left_out() -> None:
    point = StructType((Field(3, "x", INT, required=True), Field(4, "y", ListType(5, STRING, element_required=True))))
    schema = Schema(
        (
            Field(1, "id", LONG, required=True),
            Field(2, "p", point),
            Field(6, "m", MapType(7, STRING, 8, point_like(20), value_required=True)),
            Field(9, "u", UNKNOWN),
            Field(10, "v", VARIANT),
        )
    )
    _, data = write(schema, [{"id": 1, "p": None, "m": {"k": {"x": 1}}, "u": None, "v": b"\x01\x00\x00\x00"}])
    assert schema_lines(data)[:-1] == [
        "required int64 field_id=1 id;",
        "optional group field_id=2 p {",
        "required int32 field_id=3 x;",
        "optional group field_id=4 y (List) {",
        "repeated group field_id=-1 list {",
        "required binary field_id=5 element (String);",
        "}", "}", "}",
        "optional group field_id=6 m (Map) {",
        "repeated group field_id=-1 key_value {",
        "required binary field_id=7 key (String);",
        "required group field_id=8 value {",
        "optional int32 field_id=20 x;",
        "}", "}", "}",
        "optional group field_id=10 v (Variant(1)) {",
        "required binary field_id=-1 metadata;",
        "required binary field_id=-1 value;",
        "}",
    ]  # fmt: skip


def point_like(field_id: int) -> StructType:
    return StructType((Field(field_id, "x", INT),))


def test_metadata_tells_the_schema_and_what_was_asked() -> None:
    schema = Schema((Field(1, "a", INT),))
    _, data = write(schema, [{"a": 1}], metadata={"mine": "ü"})
    metadata = opened(data).metadata.metadata
    assert metadata[b"mine"].decode() == "ü"
    assert schema_from_json(json.loads(metadata[b"iceberg.schema"])) == schema
    assert b"ARROW:schema" not in metadata


def test_delete_files_say_what_they_are() -> None:
    schema = Schema((Field(1, "a", INT), Field(2, "b", INT)))
    _, data = write(schema, [{"a": 1}], content=FileContent.EQUALITY_DELETES, equality_ids=(1, 2))
    metadata = opened(data).metadata.metadata
    assert (metadata[b"delete-type"], metadata[b"delete-field-ids"]) == (b"equality", b"1, 2")


def test_what_parquet_cannot_store_is_refused() -> None:
    for type_, words in ((StructType(()), "without fields"), (ListType(2, UNKNOWN), "unknown")):
        with pytest.raises(InvalidSchema, match=words):
            write(Schema((Field(1, "a", type_),)), [])


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (GeometryType(), "Geometry(crs=OGC:CRS84)"),
        (GeometryType("EPSG:3857"), "Geometry(crs=EPSG:3857)"),
        (GeographyType(), "Geography(crs=OGC:CRS84, algorithm=spherical)"),
        (GeographyType("EPSG:4326", "karney"), "Geography(crs=EPSG:4326, algorithm=karney)"),
    ],
    ids=str,
)
def test_geospatial_annotations(type_: Any, text: str) -> None:
    point = SAMPLES[GeometryType()][0]
    file, data = write(Schema((Field(1, "g", type_),)), [{"g": point}, {"g": None}])
    assert f"({text})" in schema_lines(data)[0]
    statistics = opened(data).metadata.row_group(0).column(0).statistics
    assert statistics is None or not statistics.has_min_max  # the order of bytes means nothing here
    assert opened(data).read().column("g").to_pylist() == [point, None]
    assert (file.value_counts, file.null_value_counts) == ({1: 2}, {1: 1})
    assert file.lower_bounds == file.upper_bounds == {1: struct.pack("<dd", 1.0, 2.0)}


# properties -----------------------------------------------------------------------------------------------------------

ROWS = Schema((Field(1, "id", LONG), Field(2, "name", STRING), Field(3, "d", DecimalType(9, 2))))


def some_rows(count: int) -> list[dict[str, Any]]:
    return [{"id": n * 7919 % 1009, "name": f"name {n % 50}", "d": Decimal(n).scaleb(-2)} for n in range(count)]


def test_row_groups_by_rows_and_by_bytes() -> None:
    file, data = write(ROWS, some_rows(1000), properties={"write.parquet.row-group-limit": "300"})
    metadata = opened(data).metadata
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [300, 300, 300, 100]
    assert len(file.split_offsets or ()) == 4
    assert file.split_offsets is not None
    assert file.split_offsets[0] == 4

    small = {"write.parquet.row-group-size-bytes": "20000", "write.parquet.compression-codec": "uncompressed"}
    _, data = write(ROWS, some_rows(20_000), properties=small)
    metadata = opened(data).metadata
    sizes = [metadata.row_group(n).total_byte_size for n in range(1, metadata.num_row_groups - 1)]
    assert len(sizes) > 3
    assert all(10_000 < size < 30_000 for size in sizes), sizes


def chunk(data: bytes, column: int = 0) -> Any:
    return opened(data).metadata.row_group(0).column(column)


def test_compression_and_its_level() -> None:
    for codec, name in (("gzip", "GZIP"), ("Snappy", "SNAPPY"), ("uncompressed", "UNCOMPRESSED"), (None, "ZSTD")):
        properties = {"write.parquet.compression-codec": codec} if codec else {}
        assert chunk(write(ROWS, some_rows(10), properties=properties)[1]).compression == name
    sizes = [
        len(write(ROWS, some_rows(20_000), properties={"write.parquet.compression-level": level})[1])
        for level in ("1", "19")
    ]
    assert sizes[1] < sizes[0]
    usual, third = (
        write(ROWS, some_rows(20_000), properties=properties)[1]
        for properties in ({}, {"write.parquet.compression-level": "3"})
    )
    assert usual == third  # the level that Java's writer takes
    with pytest.raises(InvalidUpdate, match="from 1 to 22"):
        write(ROWS, [], properties={"write.parquet.compression-level": "99"})
    with pytest.raises(UnsupportedFeature, match="lzo"):
        write(ROWS, [], properties={"write.parquet.compression-codec": "lzo"})


def test_dictionaries() -> None:
    off = {"write.parquet.dict-encoding-enabled.column.name": "false"}
    with_, without = (chunk(write(ROWS, some_rows(1000), properties=p)[1], 1) for p in ({}, off))
    assert with_.has_dictionary_page
    assert not without.has_dictionary_page
    assert not chunk(write(ROWS, some_rows(1000))[1], 2).has_dictionary_page  # it would not pay
    tiny = write(ROWS, some_rows(1000), properties={"write.parquet.dict-size-bytes": "16"})[1]
    assert "PLAIN" in chunk(tiny, 1).encodings


def test_pages() -> None:
    prefix = "write.parquet."
    plain = {f"{prefix}compression-codec": "uncompressed", f"{prefix}dict-encoding-enabled.column.id": "false"}
    numbers, rows = Schema((Field(1, "id", LONG),)), [{"id": n * 7919} for n in range(10_000)]
    default_size, by_bytes, by_rows = (
        len(write(numbers, rows, properties={**plain, **p})[1])
        for p in ({}, {f"{prefix}page-size-bytes": "500"}, {f"{prefix}page-row-limit": "50"})
    )
    assert by_bytes > default_size  # each page has a header
    if supported_options(pq.ParquetWriter.__init__, {"max_rows_per_page": 1}):
        assert by_rows > default_size
    version_1, version_2 = (
        write(ROWS, some_rows(100), properties={"write.parquet.page-version": version})[1] for version in ("v1", "v2")
    )
    assert version_1 != version_2
    assert opened(version_1).read() == opened(version_2).read()
    with pytest.raises(InvalidUpdate, match=r"write\.parquet\.page-version must be one of v1, v2"):
        write(ROWS, [], properties={"write.parquet.page-version": "v3"})


def test_pages_have_an_index() -> None:
    _, data = write(ROWS, some_rows(1000), properties={"write.parquet.page-row-limit": "100"})
    assert chunk(data, 0).has_column_index
    assert chunk(data, 0).has_offset_index


def test_statistics_of_single_columns() -> None:
    _, data = write(ROWS, some_rows(10), properties={"write.parquet.stats-enabled.column.name": "false"})
    assert not chunk(data, 1).is_stats_set
    assert chunk(data, 0).is_stats_set


@pytest.mark.skipif(
    not supported_options(pq.ParquetWriter.__init__, {"bloom_filter_options": 1}),
    reason="pyarrow writes no Bloom filters",
)
def test_bloom_filters() -> None:
    prefix = "write.parquet.bloom-filter-"
    _, data = write(ROWS, some_rows(10), properties={f"{prefix}enabled.column.name": "true"})
    assert chunk(data, 1).bloom_filter_offset is not None
    assert chunk(data, 0).bloom_filter_offset is None
    rows = [{"id": n, "name": str(n), "d": None} for n in range(20_000)]
    sizes = []
    for extra in ({f"{prefix}max-bytes": "1024"}, {f"{prefix}ndv.column.name": "100"}, {}):
        _, data = write(ROWS, rows, properties={f"{prefix}enabled.column.name": "true", **extra})
        sizes.append(chunk(data, 1).bloom_filter_length)
    assert max(sizes[:2]) < 2048
    assert sizes[2] > 8192
    bad = {f"{prefix}enabled.column.name": "true", f"{prefix}fpp.column.name": "2"}
    with pytest.raises(InvalidUpdate, match="between 0 and 1"):
        write(ROWS, [], properties=bad)


def test_delete_files_have_properties_of_their_own() -> None:
    properties = {"write.parquet.compression-codec": "gzip", "write.delete.parquet.compression-codec": "snappy"}
    deletes = {"content": FileContent.EQUALITY_DELETES, "equality_ids": (1,)}
    assert chunk(write(ROWS, some_rows(5), properties=properties)[1]).compression == "GZIP"
    assert chunk(write(ROWS, some_rows(5), properties=properties, **deletes)[1]).compression == "SNAPPY"
    only_data = {"write.parquet.compression-codec": "gzip"}
    assert chunk(write(ROWS, some_rows(5), properties=only_data, **deletes)[1]).compression == "GZIP"


@pytest.mark.parametrize("name", ["row-group-size-bytes", "page-size-bytes", "dict-size-bytes", "row-group-limit"])
def test_sizes_must_be_sensible(name: str) -> None:
    for text in ("0", "-1", "many"):
        with pytest.raises(InvalidUpdate, match=name):
            write(ROWS, [], properties={f"write.parquet.{name}": text})


# what others read, and what they count --------------------------------------------------------------------------------


def test_sizes_and_offsets_are_those_of_the_footer() -> None:
    file, data = write(ROWS, some_rows(1000), properties={"write.parquet.row-group-limit": "400"})
    metadata = opened(data).metadata
    groups = [metadata.row_group(n) for n in range(3)]
    assert file.column_sizes == {
        n + 1: sum(group.column(n).total_compressed_size for group in groups) for n in range(3)
    }
    starts = [min(g.column(0).dictionary_page_offset or 2**63, g.column(0).data_page_offset) for g in groups]
    assert file.split_offsets == tuple(starts)
    assert file.file_size_in_bytes == len(data)


def test_plain_pyarrow_reads_the_same_rows() -> None:
    for type_ in PRIMITIVES:
        schema = Schema((Field(1, "a", type_),))
        rows = [{"a": value} for value in SAMPLES[type_]]
        batch = rows_to_batch(schema, rows)
        column = opened(write(schema, rows)[1]).read().column("a").combine_chunks()
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        assert column.equals(batch.column(0)) or str(column) == str(batch.column(0)), str(type_)


def test_fixed_sixteen_is_no_uuid() -> None:
    _, data = write(Schema((Field(1, "a", FixedType(16)),)), [{"a": bytes(16)}])
    assert str(opened(data).schema.column(0).logical_type) == "None"


def test_batches_must_be_of_the_schema() -> None:
    storage = MemoryStorage()
    appender = MODEL.write(WriteRequest(storage=storage, location="memory:a", schema=ROWS))
    with pytest.raises(InvalidSchema, match="written as decimal"):
        appender.write(pa.record_batch({"id": [1], "name": ["a"], "d": [1.5]}))
    appender.abort()
    with pytest.raises(InvalidInput):
        MODEL.write(WriteRequest(storage=storage, location="memory:b", schema=ROWS, equality_ids=(1,)))
