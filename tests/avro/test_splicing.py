"""Manifests merged and marked: what comes out is what writing the entries anew would give."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from floe.avro import manifest_writer
from floe.avro.manifest_lists import read_manifest_list
from floe.avro.manifest_reader import read_manifest
from floe.avro.manifest_writer import CopiedEntries, splice_manifests, write_manifest
from floe.errors import InvalidUpdate
from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestContent, ManifestEntry, ManifestFile
from floe.spec.metadata.table_metadata_json import parse
from floe.spec.partitioning.partition_spec import UNPARTITIONED
from helpers import avro_files
from helpers.manifest_strategies import SCHEMA, entries


def data_file(n: int) -> DataFile:
    return DataFile(FileContent.DATA, f"f{n}.parquet", "parquet", (), 10 + n, 100, value_counts={1: n}, sort_order_id=n)


def existing(entry: ManifestEntry) -> ManifestEntry:
    return replace(entry, status=EntryStatus.EXISTING)


@given(st.lists(entries(st.just(())), min_size=1, max_size=8), st.sampled_from([2, 3]), st.sampled_from([2, 3]))
@settings(max_examples=60)
def test_spliced_entries_keep_their_values(given_entries: list[ManifestEntry], source: int, target: int) -> None:
    data = write_manifest(given_entries, SCHEMA, UNPARTITIONED, format_version=source)
    manifest = ManifestFile("m.avro", len(data), 0, sequence_number=9, added_snapshot_id=77)
    columns = read_manifest(data, manifest)
    rows = np.flatnonzero(columns.live)
    copied = CopiedEntries(columns, rows, np.full(len(rows), EntryStatus.EXISTING))
    out = splice_manifests([copied, copied], SCHEMA, UNPARTITIONED, format_version=target)
    assert read_manifest(out).entries() == [existing(entry) for entry in columns.entries(rows)] * 2


def test_deleting_some_files_marks_them_with_the_snapshot() -> None:
    added = [ManifestEntry(EntryStatus.ADDED, 7, None, None, data_file(n)) for n in range(100)]
    data = write_manifest(added, SCHEMA, UNPARTITIONED, format_version=2)
    columns = read_manifest(data, ManifestFile("m.avro", len(data), 0, sequence_number=5, added_snapshot_id=7))
    is_deleted = np.arange(100) % 10 == 0
    status = np.where(is_deleted, EntryStatus.DELETED, EntryStatus.EXISTING)
    copied = CopiedEntries(columns, np.arange(100), status, snapshot_id=np.where(is_deleted, 8, 7))
    spliced = read_manifest(splice_manifests([copied], SCHEMA, UNPARTITIONED, format_version=2)).entries()
    assert spliced == [
        ManifestEntry(
            EntryStatus.DELETED if n % 10 == 0 else EntryStatus.EXISTING, 8 if n % 10 == 0 else 7, 5, 5, e.data_file
        )
        for n, e in enumerate(added)
    ]


def test_new_entries_of_an_uncommitted_manifest_go_on_to_inherit() -> None:
    added = [ManifestEntry(EntryStatus.ADDED, 7, None, None, data_file(1))]
    columns = read_manifest(write_manifest(added, SCHEMA, UNPARTITIONED, format_version=3))
    copied = CopiedEntries(columns, np.array([0]), np.array([EntryStatus.ADDED]))
    assert read_manifest(splice_manifests([copied], SCHEMA, UNPARTITIONED, format_version=3)).entries() == added


@pytest.mark.parametrize("source", [2, 3])
def test_first_row_ids_are_written_into_files_that_inherited_them(source: int) -> None:
    added = [ManifestEntry(EntryStatus.ADDED, 7, None, None, data_file(n)) for n in range(3)]
    data = write_manifest(added, SCHEMA, UNPARTITIONED, format_version=source)
    manifest = ManifestFile("m.avro", 1, 0, sequence_number=5, added_snapshot_id=7, first_row_id=1000)
    columns = read_manifest(data, manifest)
    copied = CopiedEntries(columns, np.array([0, 2]), np.full(2, EntryStatus.EXISTING))
    spliced = read_manifest(splice_manifests([copied], SCHEMA, UNPARTITIONED, format_version=3)).entries()
    assert [entry.data_file.first_row_id for entry in spliced] == [1000, 1021]


def test_entries_that_cannot_inherit_any_more_need_their_numbers() -> None:
    added = [ManifestEntry(EntryStatus.ADDED, 7, None, None, data_file(1))]
    columns = read_manifest(write_manifest(added, SCHEMA, UNPARTITIONED, format_version=2))
    copied = CopiedEntries(columns, np.array([0]), np.array([EntryStatus.EXISTING]))
    with pytest.raises(InvalidUpdate, match=r"must have a sequence_number .*f1\.parquet"):
        splice_manifests([copied], SCHEMA, UNPARTITIONED, format_version=2)
    with pytest.raises(InvalidUpdate, match="a manifest of deletes cannot list"):
        splice_manifests([copied], SCHEMA, UNPARTITIONED, format_version=2, content=ManifestContent.DELETES)


@pytest.mark.parametrize("name", ["plan_day_bucket", "v2_basic", "v3_basic", "del_dv_part", "part_identity_types"])
def test_manifests_of_java_are_copied_without_decoding(
    corpus_dir: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = max((corpus_dir / name / "metadata").glob("v*.metadata.json"), key=lambda path: path.stat().st_size)
    metadata = parse(newest.read_bytes())
    monkeypatch.setattr(manifest_writer, "encode_data_files", None)  # the slow way must not be needed
    for path in sorted((corpus_dir / name / "metadata").glob("snap-*.avro")):
        for manifest in read_manifest_list(path.read_bytes()):
            columns = read_manifest(avro_files.local(corpus_dir, manifest.manifest_path).read_bytes(), manifest)
            rows = np.flatnonzero(columns.live)
            spec = metadata.spec_by_id(manifest.partition_spec_id)
            copied = CopiedEntries(columns, rows, np.full(len(rows), EntryStatus.EXISTING))
            out = splice_manifests(
                [copied], metadata.schema, spec, format_version=metadata.format_version, content=manifest.content
            )
            spliced = read_manifest(out).entries()
            assert repr(spliced) == repr([existing(entry) for entry in columns.entries(rows)])
