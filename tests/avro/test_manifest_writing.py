"""What we write: read back by us, fastavro and PyIceberg, it is what was given."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    ManifestContent as PyIcebergContent,
    ManifestFile as PyIcebergManifest,
    read_manifest_list as pyiceberg_list,
)

from floe.avro import entry_scanner
from floe.avro.manifest_lists import read_manifest_list, write_manifest_list
from floe.avro.manifest_reader import read_manifest
from floe.avro.manifest_writer import write_manifest
from floe.errors import CorruptFile, InvalidInput, InvalidUpdate, InvalidValue
from floe.spec.manifests.entries import (
    DataFile,
    EntryStatus,
    FieldSummary,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from floe.spec.partitioning.partition_spec import UNPARTITIONED
from helpers.avro_oracle import as_floe
from helpers.manifest_strategies import SCHEMA, SPEC, data_files, entries
from helpers.value_strategies import values_of

PARTITION = SPEC.partition_type(SCHEMA)
ZEROS = st.just(tuple([None] * len(SPEC.fields)))
tuples = st.tuples(*(st.none() | values_of(child.type) for child in PARTITION))
CODECS = ["null", "deflate", "snappy", "zstandard"]


@given(st.lists(entries(tuples), max_size=6), st.sampled_from(CODECS))
@settings(max_examples=60)
def test_entries_come_back_from_us_and_fastavro(given_entries: list[ManifestEntry], codec: str) -> None:
    data = write_manifest(given_entries, SCHEMA, SPEC, format_version=2, codec=codec)
    assert repr(read_manifest(data, partition_type=PARTITION).entries()) == repr(given_entries)
    plain = [child.id for child in PARTITION if child.type.kind not in ("time", "timestamp", "timestamptz", "date")]
    ours = [[e.data_file.partition[i - 1000] for i in plain] for e in given_entries]
    try:
        theirs = as_floe(data)
    except (OverflowError, ValueError):  # fastavro makes datetimes, which end in the year 9999
        return
    kinds = [PARTITION.fields[i - 1000].type.kind for i in plain]
    for mine, other in zip(ours, ([e.data_file.partition[i - 1000] for i in plain] for e in theirs), strict=True):
        for kind, a, b in zip(kinds, mine, other, strict=True):
            assert repr(a) == repr(b) or kind in ("timestamp_ns", "timestamptz_ns")
    blank = [replace(e, data_file=replace(e.data_file, partition=())) for e in given_entries]
    assert [replace(e, data_file=replace(e.data_file, partition=())) for e in theirs] == blank


@given(st.lists(entries(st.just(())), min_size=1, max_size=12), st.integers(1, 500))
@settings(max_examples=60)
def test_all_at_once_equals_in_turn(given_entries: list[ManifestEntry], block_bytes: int) -> None:
    data = write_manifest(given_entries * 3, SCHEMA, UNPARTITIONED, format_version=2, block_bytes=block_bytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entry_scanner, "_MIN_TOGETHER", 1)
        assert repr(read_manifest(data).entries()) == repr(given_entries * 3)
        patch.setattr(entry_scanner, "_MIN_TOGETHER", 10**9)
        assert repr(read_manifest(data).entries()) == repr(given_entries * 3)


@given(st.lists(data_files(st.just(())), min_size=1, max_size=8), st.lists(st.integers(0, 80), min_size=1, max_size=4))
@settings(max_examples=60)
def test_metrics_as_columns_equal_those_of_the_files(files: list[DataFile], ids: list[int]) -> None:
    rows = [ManifestEntry(EntryStatus.ADDED, 1, None, None, file) for file in files] * 10
    data = write_manifest(rows, SCHEMA, UNPARTITIONED, format_version=2)
    for beforehand in ((), tuple(ids)):
        stats = read_manifest(data, metrics=beforehand).stats(ids)
        for column in ids:
            found = stats.columns[column]
            for counts, name in (
                (found.value_count, "value_counts"),
                (found.null_count, "null_value_counts"),
                (found.nan_count, "nan_value_counts"),
            ):
                assert counts is not None
                assert counts.tolist() == [(getattr(r.data_file, name) or {}).get(column, -1) for r in rows]
            for bounds, name in ((found.lower, "lower_bounds"), (found.upper, "upper_bounds")):
                assert bounds is not None
                assert bounds.to_list() == [(getattr(r.data_file, name) or {}).get(column) for r in rows]


def file(**changes: Any) -> DataFile:
    return replace(DataFile(FileContent.DATA, "s3://b/a.parquet", "parquet", (), 3, 100), **changes)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [0, 1, 100])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_versions_and_codecs(version: int, count: int, codec: str) -> None:
    status = EntryStatus.ADDED
    rows = [
        ManifestEntry(status, 7, None, None, file(file_path=f"f{n}", value_counts={1: n}, lower_bounds={1: b"x" * n}))
        for n in range(count)
    ]
    data = write_manifest(rows, SCHEMA, UNPARTITIONED, format_version=version, codec=codec)
    columns = read_manifest(data)
    assert columns.entries() == rows
    assert columns.metadata["format-version"] == str(version).encode()


def test_v3_deletion_vectors_and_row_ids() -> None:
    vector = file(
        content=FileContent.POSITION_DELETES,
        file_format="puffin",
        referenced_data_file="s3://b/a.parquet",
        content_offset=4,
        content_size_in_bytes=50,
    )
    rows = [ManifestEntry(EntryStatus.ADDED, 7, None, None, vector)]
    data = write_manifest(rows, SCHEMA, UNPARTITIONED, format_version=3, content=ManifestContent.DELETES)
    assert read_manifest(data).entries() == rows
    old = [ManifestEntry(EntryStatus.EXISTING, 7, 1, 1, file(first_row_id=55))]
    assert read_manifest(write_manifest(old, SCHEMA, UNPARTITIONED, format_version=3)).entries() == old


def test_wrong_entries_are_refused() -> None:
    entry = ManifestEntry(EntryStatus.ADDED, 7, None, None, file())
    with pytest.raises(InvalidUpdate, match="cannot list a file"):
        write_manifest([entry], SCHEMA, UNPARTITIONED, format_version=2, content=ManifestContent.DELETES)
    with pytest.raises(InvalidUpdate, match="sequence_number"):
        write_manifest([replace(entry, status=EntryStatus.EXISTING)], SCHEMA, UNPARTITIONED, format_version=2)
    with pytest.raises(InvalidInput, match="17 values"):
        write_manifest([entry], SCHEMA, SPEC, format_version=2)
    wrong = replace(entry, data_file=file(partition=("no boolean", *[None] * 16)))
    with pytest.raises(InvalidValue, match="boolean"):
        write_manifest([wrong], SCHEMA, SPEC, format_version=2)
    with pytest.raises(InvalidValue, match="64 bits"):
        write_manifest([replace(entry, data_file=file(record_count=2**63))], SCHEMA, UNPARTITIONED, format_version=2)
    big = [replace(entry, data_file=file(value_counts=dict.fromkeys(range(40), 2**63)))]
    with pytest.raises(InvalidValue, match="64 bits"):
        write_manifest(big, SCHEMA, UNPARTITIONED, format_version=2)


# PyIceberg ------------------------------------------------------------------------------------------------------


def test_pyiceberg_reads_what_we_write() -> None:
    rows = [
        ManifestEntry(
            EntryStatus.ADDED, 7, None, None,
            file(file_path=f"f{n}", record_count=n, value_counts={1: n, 2: 300}, upper_bounds={1: b"ab"},
                 split_offsets=(4, 500), sort_order_id=1),
        )
        for n in range(200)
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.avro"
        path.write_bytes(write_manifest(rows, SCHEMA, UNPARTITIONED, format_version=2))
        manifest = PyIcebergManifest.from_args(
            manifest_path=f"file:{path}",
            manifest_length=path.stat().st_size,
            partition_spec_id=0,
            content=PyIcebergContent.DATA,
            sequence_number=5,
            min_sequence_number=5,
            added_snapshot_id=7,
        )
        found = manifest.fetch_manifest_entry(PyArrowFileIO())
    assert [
        (e.data_file.file_path, e.data_file.record_count, e.data_file.value_counts, e.data_file.upper_bounds,
         e.data_file.split_offsets, e.data_file.sort_order_id, e.sequence_number)
        for e in found
    ] == [
        (e.data_file.file_path, e.data_file.record_count, e.data_file.value_counts, e.data_file.upper_bounds,
         [4, 500], 1, 5)
        for e in rows
    ]  # fmt: skip


MANIFESTS = [
    ManifestFile(
        f"s3://b/m{n}.avro", 1000 + n, n, ManifestContent(n % 2), 5, 4, 77, 1, 2, 3, 10, 20, 30,
        (FieldSummary(True, None, b"\1\0\0\0", b"\2\0\0\0"), FieldSummary(False, True)), None if n else b"key",
        None if n % 2 else 900,
    )
    for n in range(50)
]  # fmt: skip


@pytest.mark.parametrize("codec", CODECS)
def test_manifest_lists_come_back(codec: str) -> None:
    data = write_manifest_list(
        MANIFESTS,
        format_version=3,
        snapshot_id=77,
        parent_snapshot_id=None,
        sequence_number=5,
        first_row_id=0,
        codec=codec,
    )
    assert read_manifest_list(data) == MANIFESTS
    for cut in (1, 17, len(data) // 2):
        with pytest.raises(CorruptFile, match=r"cut off|ends within|are left"):
            read_manifest_list(data[:-cut])


def test_pyiceberg_reads_our_manifest_lists() -> None:
    data = write_manifest_list(MANIFESTS, format_version=2, snapshot_id=77, parent_snapshot_id=76, sequence_number=5)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snap.avro"
        path.write_bytes(data)
        found = list(pyiceberg_list(PyArrowFileIO().new_input(f"file:{path}")))
    assert [
        (m.manifest_path, m.manifest_length, m.partition_spec_id, int(m.content), m.added_rows_count) for m in found
    ] == [(m.manifest_path, m.manifest_length, m.partition_spec_id, int(m.content), 10) for m in MANIFESTS]
    assert found[0].partitions[0].lower_bound == b"\1\0\0\0"


def test_manifest_lists_of_v1_have_no_deletes_and_need_snapshots() -> None:
    with pytest.raises(InvalidInput, match="no delete manifests"):
        write_manifest_list(MANIFESTS, format_version=1, snapshot_id=1, parent_snapshot_id=None)
    with pytest.raises(InvalidInput, match="added_snapshot_id is required"):
        write_manifest_list([ManifestFile("m", 1, 0)], format_version=1, snapshot_id=1, parent_snapshot_id=None)
