"""Every manifest and manifest list of the corpus, as Java wrote them: equal to what fastavro reads."""

import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from floe.avro import entry_scanner
from floe.avro.manifest_lists import read_manifest_list
from floe.avro.manifest_reader import read_manifest, read_manifests
from floe.avro.stored_columns import column_values
from floe.errors import CorruptFile, FloeError, UnsupportedFeature
from floe.spec.manifests.entries import ManifestEntry
from helpers import avro_files
from helpers.avro_oracle import as_floe, rows
from helpers.corpus import table_names
from helpers.manifest_rules import inherit, inherit_first_row_ids

TABLES = table_names(without=("invalid_", "odd_", "view_", "types_geo", "empty_new"))


def lists_of(table: Path) -> list[Path]:
    return sorted(table.rglob("snap-*.avro"))


def manifests_of(table: Path) -> list[Path]:
    return (
        [p for p in sorted((table / "metadata").glob("*.avro")) if not p.name.startswith("snap-")]
        if (table / "metadata").is_dir()
        else []
    )


@pytest.mark.parametrize("name", TABLES)
def test_manifest_lists_equal_fastavro(corpus_dir: Path, name: str) -> None:
    for path in lists_of(corpus_dir / name):
        data = path.read_bytes()
        assert read_manifest_list(data) == [avro_files.manifest_file(row) for row in rows(data)]


@pytest.mark.parametrize("name", TABLES)
def test_manifests_equal_fastavro(corpus_dir: Path, name: str) -> None:
    for path in manifests_of(corpus_dir / name):
        columns = read_manifest(path.read_bytes())
        found = [replace(e, data_file=replace(e.data_file, spec_id=0)) for e in columns.entries()]
        assert list(map(repr, found)) == list(map(repr, as_floe(path.read_bytes())))  # repr: NaN is not equal to itself


@pytest.mark.parametrize("name", TABLES)
def test_all_at_once_equals_in_turn(corpus_dir: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [path.read_bytes() for path in manifests_of(corpus_dir / name)]
    monkeypatch.setattr(entry_scanner, "_MIN_TOGETHER", 10**9)
    in_turn = [repr(read_manifest(data).entries()) for data in files]
    monkeypatch.setattr(entry_scanner, "_MIN_TOGETHER", 1)
    if name != "scale_wide":  # three files with 300 columns are not worth it
        monkeypatch.setattr(entry_scanner, "_scan_one_by_one", None)  # must not be needed for what Java writes
    assert [repr(read_manifest(data).entries()) for data in files] == in_turn
    assert [repr(columns.entries()) for columns in read_manifests(files)] == in_turn


@pytest.mark.parametrize("name", TABLES)
def test_inheritance_equals_the_rules_for_single_entries(corpus_dir: Path, name: str) -> None:
    checked = set()
    for path in lists_of(corpus_dir / name):
        for manifest in read_manifest_list(path.read_bytes()):
            if manifest in checked:
                continue
            checked.add(manifest)
            where = avro_files.local(corpus_dir, manifest.manifest_path)
            if not where.exists():  # expired
                continue
            stored = read_manifest(where.read_bytes()).entries()
            expected: list[ManifestEntry] = list(
                inherit_first_row_ids([inherit(entry, manifest) for entry in stored], manifest)
            )
            assert repr(read_manifest(where.read_bytes(), manifest).entries()) == repr(expected)


def stats_of(entry: ManifestEntry, column: int) -> list[Any]:
    file = entry.data_file
    maps = (file.value_counts, file.null_value_counts, file.nan_value_counts, file.lower_bounds, file.upper_bounds)
    return [(found or {}).get(column) for found in maps]


@pytest.mark.parametrize("beforehand", [False, True])
@pytest.mark.parametrize("few", [1, 10**9])
@pytest.mark.parametrize("name", ["plan_metrics", "meta_metrics", "scale_many_files", "scale_wide", "types_parquet"])
def test_metrics_as_columns_equal_those_of_the_entries(
    corpus_dir: Path, name: str, few: int, beforehand: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_scanner, "_MIN_TOGETHER", few)
    ids = [1, 2, 3, 5, 8, 13, 200]
    for path in manifests_of(corpus_dir / name):
        columns = read_manifest(path.read_bytes(), metrics=ids if beforehand else ())
        entries = columns.entries()
        stats = columns.stats(ids)
        for column in ids:
            found = stats.columns[column]
            counts = [
                [None if n < 0 else n for n in counts.tolist()] if counts is not None else [None] * len(entries)
                for counts in (found.value_count, found.null_count, found.nan_count)
            ]
            bounds = [
                bound.to_list() if bound is not None else [None] * len(entries) for bound in (found.lower, found.upper)
            ]
            found_rows = [list(row) for row in zip(*counts, *bounds, strict=True)]
            assert found_rows == [stats_of(entry, column) for entry in entries]


def read_all(table: Path) -> None:
    for path in lists_of(table):
        read_manifest_list(path.read_bytes())
    for path in manifests_of(table):
        read_manifest(path.read_bytes()).entries()


@pytest.mark.parametrize("name", table_names("invalid_avro", "invalid_manifest", "invalid_entry_status"))
def test_broken_files_give_a_clear_error_quickly_and_without_much_memory(corpus_dir: Path, name: str) -> None:
    tracemalloc.start()
    begin = time.process_time()
    try:
        with pytest.raises((CorruptFile, UnsupportedFeature)) as caught:
            read_all(corpus_dir / name)
        assert time.process_time() - begin < 1
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    finally:
        tracemalloc.stop()
    assert isinstance(caught.value, FloeError)
    assert str(caught.value)


def test_partitions_and_formats_as_columns(corpus_dir: Path) -> None:
    for path in manifests_of(corpus_dir / "plan_day_bucket"):
        columns = read_manifest(path.read_bytes())
        entries = columns.entries()
        for index, field in enumerate(columns.partition_type):
            found = column_values(field.type, columns.partition(field.id), np.arange(len(columns)))
            assert found == [entry.data_file.partition[index] for entry in entries]
        assert columns.file_path.to_list() == [entry.data_file.file_path.encode() for entry in entries]
