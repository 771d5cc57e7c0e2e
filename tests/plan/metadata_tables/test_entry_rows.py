"""The tables of files and entries beside a plain reading of the same manifests, object by object."""

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from floe.avro.manifest_reader import read_manifest
from floe.errors import CorruptFile
from floe.plan.manifests import manifests_of_snapshot
from floe.plan.metadata_tables import metadata_table
from floe.spec.codecs.single_value import encode
from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestContent, ManifestEntry
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import UNPARTITIONED
from floe.spec.schemas.schema import Schema
from floe.spec.types import (
    DATE,
    DOUBLE,
    LONG,
    STRING,
    UNKNOWN,
    DecimalType,
    Field,
    GeometryType,
    StructType,
    parse_type,
)
from floe.storage.memory import MemoryStorage
from helpers.corpus_tables import open_table
from helpers.manifest_strategies import SCHEMA, SPEC, entries
from helpers.small_tables import added, put_list, small_table, without_current_snapshot
from helpers.value_strategies import values_of


def read(metadata: TableMetadata, storage: MemoryStorage, name: str, **options: Any) -> pa.Table:
    found = metadata_table(name, metadata, "memory:t/v1.metadata.json", storage, workers=1, **options)
    found.validate(full=True)
    return found


SIMPLE = [
    "file_path", "record_count", "file_size_in_bytes", "key_metadata", "sort_order_id", "first_row_id",
    "referenced_data_file", "content_offset", "content_size_in_bytes", "spec_id",
]  # fmt: skip
MAPS = [
    "column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds",
]  # fmt: skip


def check_file(row: dict[str, Any], file: DataFile) -> None:
    assert {name: row[name] for name in SIMPLE} == {name: getattr(file, name) for name in SIMPLE}
    assert (row["content"], row["file_format"]) == (int(file.content), file.file_format.upper())
    for name in MAPS:
        wanted = getattr(file, name)
        assert row[name] == (None if wanted is None else list(wanted.items())), name
    for name in ("split_offsets", "equality_ids"):
        wanted = getattr(file, name)
        assert row[name] == (None if wanted is None else list(wanted)), name


_tuples = st.tuples(*(st.none() | values_of(field.type) for field in SCHEMA.fields))


@settings(max_examples=20)
@given(st.lists(entries(_tuples), min_size=1, max_size=30))
def test_files_and_entries_equal_a_plain_reading(found: list[ManifestEntry]) -> None:
    metadata, storage = small_table([found], SCHEMA, SPEC)
    (manifest,) = manifests_of_snapshot(metadata.snapshots[0], storage)
    plain = read_manifest(
        storage.read("memory:t/m0.avro"), manifest, partition_type=SPEC.partition_type(SCHEMA)
    ).entries()
    columns = [*SIMPLE, *MAPS, "content", "file_format", "split_offsets", "equality_ids"]
    of_entry = ["status", "snapshot_id", "sequence_number", *(f"data_file.{name}" for name in columns)]
    rows = read(metadata, storage, "entries", columns=of_entry)
    assert rows.num_rows == len(plain)
    for row, entry in zip(rows.to_pylist(), plain, strict=True):
        assert (row["status"], row["snapshot_id"]) == (int(entry.status), entry.snapshot_id)
        assert row["sequence_number"] == entry.sequence_number
        check_file(row["data_file"], entry.data_file)
    live = [entry.data_file for entry in plain if entry.status != EntryStatus.DELETED]
    files = read(metadata, storage, "files", columns=columns).to_pylist()
    assert len(files) == len(live)
    for row, file in zip(files, live, strict=True):
        check_file(row, file)


@settings(max_examples=20)
@given(st.lists(entries(_tuples), min_size=1, max_size=8))
def test_partitions_of_files_keep_their_values(found: list[ManifestEntry]) -> None:
    metadata, storage = small_table([found], SCHEMA, SPEC)
    partition = read(metadata, storage, "entries", columns=["data_file.partition"]).column(0).combine_chunks()
    structs = partition.field(0)
    for place, field in enumerate(SCHEMA.fields):
        wanted = [entry.data_file.partition[place] for entry in found]
        column = structs.field(place)
        if field.type.kind in ("date", "time") or field.type.kind.startswith("timestamp"):
            column = column.cast(pa.int32() if field.type.kind == "date" else pa.int64())
        ours = column.to_pylist()
        if field.type.kind == "uuid":
            ours = [None if value is None else UUID(bytes=value) for value in ours]
        assert repr(ours) == repr(wanted), field.type


def test_files_of_a_corpus_table_are_its_live_entries(corpus_dir: Path) -> None:
    for name in ("combo_v2", "del_dv_part", "v1_basic_part", "lineage_upgraded"):
        table = open_table(corpus_dir, name)
        entries_ = metadata_table("entries", table.metadata, "x", table.storage).to_pylist()
        live = [
            {**row["data_file"], "readable_metrics": row["readable_metrics"]} for row in entries_ if row["status"] != 2
        ]
        files = metadata_table("files", table.metadata, "x", table.storage).to_pylist()
        assert files == live
        for kind, content in (("data_files", {0}), ("delete_files", {1, 2})):
            some = metadata_table(kind, table.metadata, "x", table.storage).to_pylist()
            assert some == [row for row in files if row["content"] in content]


def test_unusual_maps_are_read_one_by_one(corpus_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be read in step is read entry by entry, with the same result."""
    for name in ("combo_v2", "types_parquet", "scale_wide"):
        table = open_table(corpus_dir, name)
        columns = [*MAPS, "split_offsets", "equality_ids", "readable_metrics"]
        in_step = metadata_table("files", table.metadata, "x", table.storage, columns=columns)
        with monkeypatch.context() as patch:
            patch.setattr("floe.plan.metadata_tables.flat_maps._STEPS_PER_ENTRY", 0)
            one_by_one = metadata_table("files", table.metadata, "x", table.storage, columns=columns)
        assert one_by_one.num_rows
        assert one_by_one.equals(in_step)


def test_several_threads_give_the_same_rows(corpus_dir: Path) -> None:
    table = open_table(corpus_dir, "hist_manifests")
    one, many = (
        metadata_table("all_entries", table.metadata, "x", table.storage, workers=workers) for workers in (1, 8)
    )
    assert one.num_rows > 10
    assert many.equals(one)


# readable metrics ---------------------------------------------------------------------------------------------------


def one_file(**metrics: Any) -> list[ManifestEntry]:
    return added(DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100, **metrics))


def metrics_of(schema: Schema, **metrics: Any) -> dict[str, Any]:
    metadata, storage = small_table([one_file(**metrics)], schema, UNPARTITIONED, format_version=3)
    (row,) = read(metadata, storage, "files", columns=["readable_metrics"]).to_pylist()
    found: dict[str, Any] = row["readable_metrics"]
    return found


@settings(max_examples=60)
@given(st.sampled_from(SCHEMA.fields).flatmap(lambda field: st.tuples(st.just(field.type), values_of(field.type))))
def test_bounds_are_shown_as_values(pair: tuple[Any, Any]) -> None:
    type_, value = pair
    bound = {1: encode(type_, value)}
    schema = Schema((Field(1, "x", type_),))
    metadata, storage = small_table([one_file(lower_bounds=bound)], schema, UNPARTITIONED, format_version=3)
    table = read(metadata, storage, "files", columns=["readable_metrics.x.lower_bound"])
    column = table.column(0).combine_chunks().field("x").field("lower_bound")
    if type_.kind in ("date", "time") or type_.kind.startswith("timestamp"):
        column = column.cast(pa.int32() if type_.kind == "date" else pa.int64())
    wanted = value.bytes if type_.kind == "uuid" else value
    assert repr(column.to_pylist()) == repr([wanted])


def test_metrics_of_each_column() -> None:
    schema = Schema((Field(1, "b", LONG), Field(2, "a", DOUBLE), Field(3, "c", STRING)))
    found = metrics_of(
        schema,
        column_sizes={1: 10, 2: 20},
        value_counts={1: 3, 2: 3},
        null_value_counts={1: 1},
        nan_value_counts={2: 2},
        lower_bounds={1: encode(LONG, -5)},
        upper_bounds={1: encode(LONG, 7)},
    )
    names = ("column_size", "value_count", "null_value_count", "nan_value_count", "lower_bound", "upper_bound")
    assert list(found) == ["a", "b", "c"]
    assert found["a"] == dict(zip(names, (20, 3, None, 2, None, None), strict=True))
    assert found["b"] == dict(zip(names, (10, 3, 1, None, -5, 7), strict=True))
    assert set(found["c"].values()) == {None}


@pytest.mark.parametrize(
    ("type_", "bound", "shown"),
    [
        ("long", b"\x05\0\0\0", 5),  # written when the column was an int
        ("double", struct.pack("<f", 0.5), 0.5),
        ("timestamp", struct.pack("<i", 1), 86_400_000_000),  # … a date
        ("decimal(9,2)", b"\x01\x00", "2.56"),
        ("long", b"wrong", None),
        ("string", b"\xff", None),
        ("decimal(4,2)", b"\x7f\xff\xff", None),
        ("decimal(38,2)", bytes(40), None),
        ("uuid", b"short", None),
        ("fixed[3]", b"four", None),
        ("boolean", b"\x00", False),
        ("unknown", b"x", None),
        ("geometry", struct.pack("<dd", 30.0, 10.0), struct.pack("<BIdd", 1, 1, 30.0, 10.0)),
        ("geometry", struct.pack("<4d", 3.0, 1.0, float("nan"), 2.0), struct.pack("<BI3d", 1, 2001, 3.0, 1.0, 2.0)),
        ("geometry", struct.pack("<dd", float("nan"), 10.0), None),
        ("geography", b"short", None),
    ],
)
def test_odd_bounds(type_: str, bound: bytes, shown: Any) -> None:
    schema = Schema((Field(1, "x", parse_type(type_)),))
    metadata, storage = small_table([one_file(upper_bounds={1: bound})], schema, UNPARTITIONED, format_version=3)
    column = read(metadata, storage, "files", columns=["readable_metrics.x.upper_bound"]).column(0).combine_chunks()
    value = column.field("x").field("upper_bound")
    if type_ == "timestamp":
        value = value.cast(pa.int64())
    (found,) = value.to_pylist()
    assert (str(found) if type_.startswith("decimal") and found is not None else found) == shown


def test_names_with_dots_and_nested_columns() -> None:
    schema = Schema(
        (
            Field(1, "a.b", LONG),
            Field(2, "p", StructType((Field(3, "x", DATE), Field(4, "y", DecimalType(9, 2))))),
            Field(5, "v", parse_type("variant")),
            Field(6, "u", UNKNOWN),
            Field(7, "g", GeometryType()),
        )
    )
    found = metrics_of(schema, value_counts={1: 1, 3: 3, 4: 4})
    assert {name: one["value_count"] for name, one in found.items()} == {
        "a.b": 1, "g": None, "p.x": 3, "p.y": 4, "u": None,
    }  # fmt: skip


# broken manifests ---------------------------------------------------------------------------------------------------


def test_a_manifest_that_lists_other_files_than_it_says(corpus_dir: Path) -> None:
    metadata, storage = small_table([one_file()], Schema((Field(1, "x", LONG),)), UNPARTITIONED)
    (manifest,) = manifests_of_snapshot(metadata.snapshots[0], storage)
    put_list(storage, [replace(manifest, content=ManifestContent.DELETES)])
    with pytest.raises(CorruptFile, match="a manifest of deletes lists a file of data"):
        read(metadata, storage, "files")


def test_a_cut_off_manifest_names_itself() -> None:
    metadata, storage = small_table([one_file()], Schema((Field(1, "x", LONG),)), UNPARTITIONED)
    data = storage.read("memory:t/m0.avro")
    storage.write("memory:t/m0.avro", data[:-20], overwrite=True)
    with pytest.raises(CorruptFile, match=r"memory:t/m0\.avro"):
        read(metadata, storage, "files")


def test_no_snapshot_means_no_files() -> None:
    metadata, storage = small_table([one_file()], Schema((Field(1, "x", LONG),)), UNPARTITIONED)
    empty = without_current_snapshot(metadata)
    for name in ("files", "entries", "partitions", "manifests", "position_deletes", "all_files", "all_manifests"):
        assert read(empty, storage, name).num_rows == 0
