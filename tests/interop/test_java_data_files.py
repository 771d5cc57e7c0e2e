"""Java Iceberg and Floe read each other's data files: three formats, all types, random schemas, evolution, deletes.

Whole rows are compared, by value and in the file's order, with those that went in.
"""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from floe.formats.registry import default_registry
from floe.spec import types as t
from floe.spec.expressions.binder import bind
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.metadata_columns import position_delete_schema
from floe.spec.schemas.name_mapping import mapping_from_schema
from floe.spec.schemas.schema import Schema, SchemaField
from floe.spec.types import Field, ListType, StructType, Type
from floe.spec.values.civil_time import timestamp_to_text
from floe.sql.filters import parse_filter
from floe.storage.local import LocalStorage
from floe.testing.format_bench import SAMPLES, WITHOUT_IDS
from helpers.file_strategies import (
    PROMOTIONS,
    Allowed,
    all_leaves,
    complete,
    evolved,
    files,
    orc_holds,
    row_by_model,
)
from helpers.java_files import JavaFiles, Rows, comparable
from helpers.schema_strategies import LEAVES, LEAVES_V3

# Spark's own Python side leaves sockets to the garbage collector
pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

FORMATS = default_registry()
STORAGE = LocalStorage()
each_format = pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
shared_folder = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
_NUMBERS = itertools.count()


def ours(
    file_format: str, location: str, schema: Schema, rows: Rows, properties: dict[str, str] | None = None
) -> DataFile:
    builder = FORMATS.write_data(file_format, "rows", STORAGE, location).schema(schema).properties(properties or {})
    with builder.build() as file:
        file.write(rows)
    return file.close()


def read_ours(file_format: str, location: str, schema: Schema) -> Rows:
    return [dict(row) for row in FORMATS.read(file_format, "rows", STORAGE, location).project(schema)]


def new_file(folder: Path, file_format: str) -> str:
    return str(folder / f"{next(_NUMBERS)}.{file_format}")


def check(found: Rows, wanted: Rows) -> None:
    assert list(map(comparable, found)) == list(map(comparable, wanted))


def both_ways(java: JavaFiles, folder: Path, file_format: str, schema: Schema, rows: Rows) -> None:
    mine, theirs = new_file(folder, file_format), new_file(folder, file_format)
    described = ours(file_format, mine, schema, rows)
    check(java.read(file_format, mine, schema), rows)
    if rows:  # without any, Java writes no file
        told = java.write(file_format, theirs, schema, rows)
        check(read_ours(file_format, theirs, schema), rows)
        check_description(file_format, schema, described, told)


# what manifests say ---------------------------------------------------------------------------------------------------


def check_description(file_format: str, schema: Schema, mine: DataFile, theirs: dict[str, Any]) -> None:
    """Counts and bounds are Java's, of all columns that have metrics in both."""
    assert mine.record_count == theirs["records"]
    measured = set(mine.value_counts or ())
    measured = {field_id for field_id in measured if _counted_by_java(file_format, schema.entry(field_id))}
    for name, counts in (
        ("values", mine.value_counts),
        ("nulls", mine.null_value_counts),
        ("nans", mine.nan_value_counts),
    ):
        known = theirs[name].keys() & measured
        assert {i: theirs[name][i] for i in known} == {i: (counts or {})[i] for i in known}, name
    for name, bounds in (("lower", mine.lower_bounds), ("upper", mine.upper_bounds)):
        for field_id in theirs[name].keys() & (bounds or {}).keys():
            kind = schema.entry(field_id).field.type.kind
            if _comparable_bounds(file_format, kind):
                found = [_with_one_zero(kind, one[field_id]) for one in (theirs[name], bounds or {})]
                assert found[0] == found[1], (name, kind)


def _counted_by_java(file_format: str, entry: SchemaField) -> bool:
    """Whether Java counts values of a field also in structs that are null: in ORC none, in Parquet all but floats."""
    return not entry.ancestors or (file_format == "parquet" and entry.field.type.kind not in {"float", "double"})


def _with_one_zero(kind: str, bound: bytes) -> bytes:
    """A bound with one zero: ours of zeros are -0.0 and 0.0, whichever is there, so that filters by either find it."""
    negative = {"float": b"\0\0\0\x80", "double": bytes(7) + b"\x80"}
    return bytes(len(bound)) if bound == negative.get(kind) else bound


def _comparable_bounds(file_format: str, kind: str) -> bool:
    if kind == "uuid":  # Java orders them as two signed numbers
        return False
    # of ORC files Java takes the statistics in the file, which have milliseconds
    return file_format != "orc" or not kind.startswith("timestamp")


# all types ------------------------------------------------------------------------------------------------------------

GEOSPATIAL = {"geometry", "geography"}
JAVA_CANNOT_READ = {"parquet": GEOSPATIAL, "orc": GEOSPATIAL, "avro": set[str]()}
JAVA_CANNOT_WRITE = {"parquet": GEOSPATIAL, "orc": {"variant", *GEOSPATIAL}, "avro": GEOSPATIAL}
"""Types that this version of Java Iceberg refuses."""


@each_format
@pytest.mark.parametrize("type_", list(SAMPLES), ids=str)
def test_every_type(java_files: JavaFiles, tmp_path: Path, file_format: str, type_: Type) -> None:
    rows = [{"a": value, "n": n} for n, value in enumerate([*SAMPLES[type_], None, *SAMPLES[type_]])]
    for required in (False, True):
        schema = Schema((Field(1, "a", type_, required), Field(2, "n", t.LONG)))
        rows = [row for row in rows if not required or row["a"] is not None]
        if type_.kind not in JAVA_CANNOT_WRITE[file_format]:
            both_ways(java_files, tmp_path, file_format, schema, rows)
            continue
        mine, theirs = new_file(tmp_path, file_format), new_file(tmp_path, file_format)
        ours(file_format, mine, schema, rows)
        if type_.kind in JAVA_CANNOT_READ[file_format]:
            with pytest.raises(Exception, match=r"Unsupported logical type|Can not promote BINARY"):
                java_files.read(file_format, mine, schema)
        else:
            check(java_files.read(file_format, mine, schema), rows)
        with pytest.raises(Exception, match=r"Unsupported type|not supported|Unhandled type"):
            java_files.write(file_format, theirs, schema, rows)


def test_columns_of_type_unknown(java_files: JavaFiles, tmp_path: Path) -> None:
    schema = Schema((Field(1, "a", t.INT), Field(2, "u", t.UNKNOWN)))
    rows: Rows = [{"a": 1, "u": None}, {"a": None, "u": None}]
    for file_format in ("parquet", "orc", "avro"):
        both_ways(java_files, tmp_path, file_format, schema, rows)


# random schemas, values, evolutions -----------------------------------------------------------------------------------


def storable(file_format: str, schema: Schema, rows: Rows) -> Rows:
    return [
        complete(schema.fields, row)
        for row in rows
        if file_format != "orc" or all_leaves(schema.as_struct(), row, orc_holds)
    ]


@each_format
@shared_folder
@given(file=files(LEAVES_V3))
def test_random_files(java_files: JavaFiles, tmp_path: Path, file_format: str, file: tuple[Schema, Rows]) -> None:
    schema, rows = file
    both_ways(java_files, tmp_path, file_format, schema, storable(file_format, schema, rows))


WITHOUT_DATES = {old: new for old, new in PROMOTIONS.items() if old != t.DATE}  # Java promotes none
JAVA_ALLOWS = {
    "parquet": Allowed(WITHOUT_DATES),
    "orc": Allowed(WITHOUT_DATES, defaults=False),  # of which Java's reader knows none
    "avro": Allowed(WITHOUT_DATES),
}


@each_format
@shared_folder
@given(data=st.data(), file=files(LEAVES))
def test_random_evolutions(
    java_files: JavaFiles, tmp_path: Path, file_format: str, data: st.DataObject, file: tuple[Schema, Rows]
) -> None:
    """A file that Floe wrote, read by Java under a later schema, gives what the model says."""
    schema, rows = file
    rows = storable(file_format, schema, rows)
    fields = data.draw(evolved(schema.fields, itertools.count(1000), JAVA_ALLOWS[file_format]))
    location = new_file(tmp_path, file_format)
    ours(file_format, location, schema, rows)
    found = java_files.read(file_format, location, Schema(fields))
    check(found, [row_by_model(schema.fields, fields, row) for row in rows])


# parts of files, filters, deletes, names ------------------------------------------------------------------------------

FLAT = Schema(
    (
        Field(1, "id", t.LONG, required=True),
        Field(2, "name", t.STRING),
        Field(3, "at", t.TIMESTAMP),
        Field(4, "x", t.DOUBLE),
        Field(5, "code", t.BINARY),
    )
)
SMALL_PARTS = {"write.parquet.row-group-limit": "1000", "write.orc.stripe-size-bytes": "30000"}


def many_rows(count: int, first_moment: int) -> Rows:
    """Rows in the order of their moments, which have fractions of seconds."""
    return [
        {
            "id": n,
            "name": None if n % 11 == 0 else f"name {n * 7919 % count:06}",
            "at": None if n % 13 == 0 else first_moment + n * 3_600_123_457,
            "x": float("nan") if n % 17 == 0 else n / 7,
            "code": bytes([n % 256]) * 20,
        }
        for n in range(count)
    ]


@each_format
@pytest.mark.parametrize("year", [1600, 1940, 2024])  # before 1582 Java misses moments in its own ORC files too
def test_filters_and_splits(java_files: JavaFiles, tmp_path: Path, file_format: str, year: int) -> None:
    """Java finds the rows by the statistics and indexes in the file, also of moments before 1970."""
    rows = many_rows(25_000, (year - 1970) * 31_556_952_000_000 + 456_789)
    location = new_file(tmp_path, file_format)
    file = ours(file_format, location, FLAT, rows, SMALL_PARTS if year != 1940 else {})
    for picked in (1, 12_345, 24_999):
        where = bind(parse_filter(f"id = {picked}"), FLAT)
        found = java_files.read(file_format, location, FLAT, where=where)
        check([row for row in found if row["id"] == picked], [rows[picked]])
        assert len(found) <= 10_000 or file_format == "avro" or (file_format == "parquet" and year == 1940)
        moment = rows[picked - 1 if picked % 13 == 0 else picked]
        text = timestamp_to_text(moment["at"], 1_000_000)
        where = bind(parse_filter(f"at = timestamp '{text}'"), FLAT)
        found = java_files.read(file_format, location, FLAT, where=where)
        check([row for row in found if row["at"] == moment["at"]], [moment])
    if file.split_offsets is not None:
        ends = (*file.split_offsets[1:], file.file_size_in_bytes)
        parts = [
            java_files.read(file_format, location, FLAT, split=(start, end - start))
            for start, end in zip(file.split_offsets, ends, strict=True)
        ]
        check(list(itertools.chain(*parts)), rows)


@each_format
def test_deletes(java_files: JavaFiles, tmp_path: Path, file_format: str) -> None:
    named = [("/a.parquet", 3), ("/a.parquet", 2**40), ("/ü.orc", 0)]
    position_rows = [{"file_path": path, "pos": position} for path, position in named]
    mine, theirs = new_file(tmp_path, file_format), new_file(tmp_path, file_format)
    with FORMATS.write_position_deletes(file_format, "rows", STORAGE, mine).build() as file:
        file.write(position_rows)
    told = java_files.write_position_deletes(file_format, theirs, named)
    wanted = position_delete_schema()
    check(java_files.read(file_format, mine, wanted), position_rows)
    check(read_ours(file_format, theirs, wanted), position_rows)
    check_description(file_format, wanted, file.close(), told)

    keys = Schema((FLAT.fields[1], FLAT.fields[0]))
    rows: Rows = [{"name": "a", "id": 1}, {"name": None, "id": -5}]
    mine, theirs = new_file(tmp_path, file_format), new_file(tmp_path, file_format)
    builder = FORMATS.write_equality_deletes(file_format, "rows", STORAGE, mine).schema(keys).compare(2, 1)
    with builder.build() as file:
        file.write(rows)
    told = java_files.write_equality_deletes(file_format, theirs, keys, [2, 1], rows)
    check(java_files.read(file_format, mine, keys), rows)
    check(read_ours(file_format, theirs, keys), rows)
    check_description(file_format, keys, file.close(), told)


@each_format
def test_files_without_ids(java_files: JavaFiles, tmp_path: Path, file_format: str) -> None:
    """Imported files give both the same rows by a name mapping."""
    inner = StructType((Field(11, "a", t.STRING), Field(12, "b", t.INT)))
    stored = Schema((Field(1, "id", t.LONG), Field(2, "s", inner), Field(3, "l", ListType(4, t.INT))))
    rows: Rows = [{"id": 1, "s": {"a": "x", "b": 2}, "l": [1, None]}, {"id": None, "s": None, "l": None}]
    location = new_file(tmp_path, file_format)
    WITHOUT_IDS[file_format](STORAGE, location, stored, rows)
    mapping = mapping_from_schema(stored)
    check(java_files.read(file_format, location, stored, mapping=mapping), rows)
    reading = FORMATS.read(file_format, "rows", STORAGE, location).project(stored).name_mapping(mapping)
    check([dict(row) for row in reading], rows)


PREFIX = "write.metadata.metrics."
MODES = [
    {f"{PREFIX}default": "none"},
    {f"{PREFIX}default": "counts"},
    {f"{PREFIX}default": "truncate(3)"},
    {f"{PREFIX}default": "full"},
    {f"{PREFIX}default": "none", f"{PREFIX}column.name": "truncate(2)", f"{PREFIX}column.x": "counts"},
    {f"{PREFIX}max-inferred-column-defaults": "2"},
    {},
]


@pytest.mark.parametrize("properties", MODES, ids=str)
def test_metrics_modes(java_files: JavaFiles, tmp_path: Path, properties: dict[str, str]) -> None:
    """Of Parquet files, which columns have which metrics is just as in Java, and what they say."""
    rows = many_rows(200, 0)
    mine = ours("parquet", new_file(tmp_path, "parquet"), FLAT, rows, properties)
    told = java_files.write("parquet", new_file(tmp_path, "parquet"), FLAT, rows, properties)
    assert (mine.value_counts or {}) == told["values"]
    assert (mine.null_value_counts or {}) == told["nulls"]
    assert (mine.nan_value_counts or {}) == told["nans"]
    assert (mine.lower_bounds or {}) == told["lower"]
    assert (mine.upper_bounds or {}) == told["upper"]
    assert (mine.column_sizes or {}).keys() == told["sizes"].keys()


@each_format
def test_codecs(java_files: JavaFiles, tmp_path: Path, file_format: str) -> None:
    """Each reads what the other compresses, with every codec that both have."""
    codecs = {
        "parquet": ("uncompressed", "snappy", "gzip", "zstd", "lz4_raw"),
        "orc": ("none", "zlib", "snappy", "zstd", "lz4"),
        "avro": ("uncompressed", "gzip", "snappy", "zstd"),
    }
    rows = many_rows(2000, 0)
    for codec in codecs[file_format]:
        properties = {f"write.{file_format}.compression-codec": codec}
        mine, theirs = new_file(tmp_path, file_format), new_file(tmp_path, file_format)
        ours(file_format, mine, FLAT, rows, properties)
        check(java_files.read(file_format, mine, FLAT), rows)
        java_files.write(file_format, theirs, FLAT, rows, properties)
        check(read_ours(file_format, theirs, FLAT), rows)


def test_layouts_of_parquet(java_files: JavaFiles, tmp_path: Path) -> None:
    """Pages of both versions, Bloom filters, no dictionaries, many row groups."""
    rows = many_rows(3000, 0)
    for properties in (
        {"write.parquet.page-version": "v2"},
        {"write.parquet.bloom-filter-enabled.column.name": "true", "write.parquet.row-group-limit": "500"},
        {"write.parquet.dict-encoding-enabled.column.name": "false", "write.parquet.page-row-limit": "100"},
    ):
        mine, theirs = new_file(tmp_path, "parquet"), new_file(tmp_path, "parquet")
        ours("parquet", mine, FLAT, rows, properties)
        check(java_files.read("parquet", mine, FLAT), rows)
        java_files.write("parquet", theirs, FLAT, rows, properties)
        check(read_ours("parquet", theirs, FLAT), rows)


def test_bloom_filters_skip(java_files: JavaFiles, tmp_path: Path) -> None:
    """Java leaves out row groups by the Bloom filters that Floe writes."""
    rows = many_rows(4000, 0)
    enabled = {"write.parquet.bloom-filter-enabled.column.name": "true"}
    sizes = []
    for properties in ({}, enabled):
        location = new_file(tmp_path, "parquet")
        ours("parquet", location, FLAT, rows, {"write.parquet.row-group-limit": "500", **properties})
        where = bind(parse_filter(f"name = '{rows[1234]['name']}'"), FLAT)
        found = java_files.read("parquet", location, FLAT, where=where)
        assert comparable(rows[1234]) in map(comparable, found)
        sizes.append(len(found))
    assert sizes[1] <= 1000 < sizes[0]


@each_format
def test_many_rows(java_files: JavaFiles, tmp_path: Path, file_format: str) -> None:
    """Files of many blocks, stripes or pages, which Floe decodes many at a time."""
    rows = many_rows(30_000, -5_000_000_000_000_000)
    theirs = new_file(tmp_path, file_format)
    java_files.write(file_format, theirs, FLAT, rows, SMALL_PARTS)
    check(read_ours(file_format, theirs, FLAT), rows)
