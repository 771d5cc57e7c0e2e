"""Which deletes apply to which data file: the scope rules one by one, and Java's plans (spec: Scan Planning)."""

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from floe.errors import CorruptFile
from floe.spec.manifests.delete_scope import applies, deletes_for, partition_key, same_partition
from floe.spec.manifests.entries import DataFile, EntryStatus, FileContent, ManifestEntry
from helpers.avro_files import local, read_manifest, read_manifest_list
from helpers.corpus import expected, table_names
from helpers.manifest_rules import inherit

UNPARTITIONED = {0}
DATA = DataFile(FileContent.DATA, "a.parquet", "parquet", ("x",), 10, 1000, spec_id=1)
POSITIONS = DataFile(FileContent.POSITION_DELETES, "p.parquet", "parquet", ("x",), 3, 100, spec_id=1)
FILE_POSITIONS = replace(POSITIONS, file_path="fp.parquet", referenced_data_file="a.parquet")
EQUALITY = DataFile(FileContent.EQUALITY_DELETES, "e.parquet", "parquet", ("x",), 3, 100, equality_ids=(1,), spec_id=1)
GLOBAL = replace(EQUALITY, file_path="g.parquet", partition=(), spec_id=0)
VECTOR = replace(FILE_POSITIONS, file_path="v.puffin", file_format="puffin", content_offset=4, content_size_in_bytes=44)


def at(number: int | None, file: DataFile, **changes: Any) -> ManifestEntry:
    return ManifestEntry(EntryStatus.ADDED, 1, number, number, replace(file, **changes))


def applied(delete: ManifestEntry, data: ManifestEntry | None = None) -> bool:
    return applies(delete, data or at(5, DATA), UNPARTITIONED)


@pytest.mark.parametrize("file", [VECTOR, POSITIONS, FILE_POSITIONS], ids=lambda f: f.file_path)
def test_positions_apply_to_data_that_is_not_younger(file: DataFile) -> None:
    assert [applied(at(n, file)) for n in (4, 5, 6)] == [False, True, True]


@pytest.mark.parametrize("file", [EQUALITY, GLOBAL], ids=lambda f: f.file_path)
def test_equality_deletes_apply_to_strictly_older_data(file: DataFile) -> None:
    assert [applied(at(n, file)) for n in (4, 5, 6)] == [False, False, True]


def test_same_commit_deletes_apply_by_position_but_not_by_equality() -> None:
    assert applied(at(5, VECTOR))
    assert applied(at(5, POSITIONS))
    assert not applied(at(5, EQUALITY))


@pytest.mark.parametrize("file", [VECTOR, POSITIONS, FILE_POSITIONS, EQUALITY], ids=lambda f: f.file_path)
def test_deletes_apply_within_their_partition_and_spec(file: DataFile) -> None:
    assert applied(at(9, file))
    assert not applied(at(9, file, partition=("y",)))
    assert not applied(at(9, file, spec_id=2))


def test_equality_deletes_of_an_unpartitioned_spec_are_global() -> None:
    assert applied(at(9, GLOBAL))
    assert applied(at(9, GLOBAL), at(5, DATA, partition=("y",), spec_id=7))


def test_position_deletes_of_an_unpartitioned_spec_are_not_global() -> None:
    assert not applied(at(9, POSITIONS, partition=(), spec_id=0))
    assert applied(at(9, POSITIONS, partition=(), spec_id=0), at(5, DATA, partition=(), spec_id=0))


def test_path_must_be_the_one_that_is_named() -> None:
    for file in (VECTOR, FILE_POSITIONS):
        assert not applied(at(9, file), at(5, DATA, file_path="b.parquet"))
    assert applied(at(9, POSITIONS), at(5, DATA, file_path="b.parquet"))


def test_path_named_by_equal_bounds_counts() -> None:
    bounds = {2147483546: b"a.parquet"}
    delete = at(9, POSITIONS, lower_bounds=bounds, upper_bounds=bounds)
    assert applied(delete)
    assert not applied(delete, at(5, DATA, file_path="b.parquet"))


def test_data_sequence_number_decides_not_the_file_sequence_number() -> None:
    compacted = ManifestEntry(EntryStatus.ADDED, 1, 3, 9, DATA)  # old data in a new file
    assert applies(at(4, EQUALITY), compacted, UNPARTITIONED)


def test_sequence_numbers_must_be_known() -> None:
    with pytest.raises(CorruptFile, match="no data sequence number"):
        applied(at(None, POSITIONS))


# all deletes of a file ------------------------------------------------------------------------------------------


def paths(data: ManifestEntry, *deletes: ManifestEntry) -> list[str]:
    return [d.data_file.file_path for d in deletes_for(data, deletes, UNPARTITIONED)]


def test_deletes_of_a_file_in_their_order() -> None:
    found = paths(
        at(5, DATA), at(6, GLOBAL), at(5, POSITIONS), at(6, EQUALITY), at(4, POSITIONS), at(5, FILE_POSITIONS)
    )
    assert found == ["g.parquet", "p.parquet", "e.parquet", "fp.parquet"]


def test_position_delete_files_are_ignored_beside_a_deletion_vector() -> None:
    found = paths(at(5, DATA), at(6, POSITIONS), at(6, VECTOR), at(6, FILE_POSITIONS), at(6, EQUALITY))
    assert found == ["v.puffin", "e.parquet"]


def test_vector_of_another_file_changes_nothing() -> None:
    other = at(6, VECTOR, referenced_data_file="b.parquet")
    assert paths(at(5, DATA), at(6, POSITIONS), other) == ["p.parquet"]


def test_at_most_one_deletion_vector_for_a_data_file() -> None:
    with pytest.raises(CorruptFile, match="2 deletion vectors"):
        paths(at(5, DATA), at(6, VECTOR), at(7, VECTOR))


@pytest.mark.parametrize("file", [VECTOR, FILE_POSITIONS], ids=lambda f: f.file_path)
@pytest.mark.parametrize("changes", [{"partition": ("y",)}, {"spec_id": 2}])
def test_delete_that_names_a_file_of_another_partition_fails_the_scan(file: DataFile, changes: dict[str, Any]) -> None:
    with pytest.raises(CorruptFile, match="names a data file but cannot apply"):
        paths(at(5, DATA), at(6, file, **changes))


def test_vector_older_than_its_data_file_fails_the_scan() -> None:
    with pytest.raises(CorruptFile, match="older than the data file"):
        paths(at(5, DATA), at(4, VECTOR))


def test_position_deletes_older_than_their_data_file_are_ignored() -> None:
    assert paths(at(5, DATA), at(4, FILE_POSITIONS)) == []


# partitions -----------------------------------------------------------------------------------------------------

OTHER_NAN = struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0]


def test_partition_floats_are_equal_by_bits_with_nan_normalised() -> None:
    assert partition_key(1, (float("nan"),)) == partition_key(1, (OTHER_NAN,))
    assert partition_key(1, (-0.0,)) != partition_key(1, (0.0,))
    assert partition_key(1, (0.5,)) == partition_key(1, (0.5,))


def test_partition_values_of_unknown_transforms_count() -> None:
    """They are plain values here: nothing depends on what made them."""
    assert same_partition(DATA, EQUALITY)
    assert not same_partition(DATA, replace(EQUALITY, partition=("z",)))


VALUES = st.tuples(st.none() | st.floats(), st.none() | st.text(max_size=3), st.none() | st.binary(max_size=3))


@given(st.integers(0, 3), VALUES, st.integers(0, 3), VALUES)
def test_partition_keys_are_equal_for_equal_partitions(spec: int, values: Any, other_spec: int, others: Any) -> None:
    assert partition_key(spec, values) == partition_key(spec, values)
    assert hash(partition_key(spec, values)) == hash(partition_key(spec, values))
    texts = [repr(v) for v in values] == [repr(v) for v in others]
    assert (partition_key(spec, values) == partition_key(other_spec, others)) == (spec == other_spec and texts)


# Java's plans ---------------------------------------------------------------------------------------------------

TABLES = table_names("del_", "combo_v2", "fmt_mixed", "lineage_")


def live_entries(corpus_dir: Path, table: str) -> tuple[list[ManifestEntry], list[ManifestEntry], set[int]]:
    """Data and deletes of a table's current snapshot, and its unpartitioned specs."""
    metadata = json.loads((corpus_dir / table / expected(corpus_dir, table)["metadata"]).read_bytes())
    snapshot = next(s for s in metadata["snapshots"] if s["snapshot-id"] == metadata["current-snapshot-id"])
    data, deletes = [], []
    for manifest in read_manifest_list(local(corpus_dir, snapshot["manifest-list"])):
        for stored in read_manifest(local(corpus_dir, manifest.manifest_path)):
            if stored.is_live:
                (data if stored.data_file.is_data else deletes).append(inherit(stored, manifest))
    specs = {s["spec-id"] for s in metadata["partition-specs"] if all(f["transform"] == "void" for f in s["fields"])}
    return data, deletes, specs


@pytest.mark.parametrize("table", TABLES)
def test_deletes_are_those_of_javas_plans(corpus_dir: Path, table: str) -> None:
    """Java also drops equality deletes whose bounds cannot match; by position there is no difference."""
    data, deletes, specs = live_entries(corpus_dir, table)
    ours = {d.data_file.file_path: deletes_for(d, deletes, specs) for d in data}
    for plan in expected(corpus_dir, table).get("plans", []):
        for task in plan["files"]:
            found = ours[f"/floe-corpus/{table}/{task['file']}"]
            theirs = {f"/floe-corpus/{table}/{path}" for path in task["deletes"]}
            assert theirs <= {d.data_file.file_path for d in found}
            extra = [d for d in found if d.data_file.file_path not in theirs]
            assert all(d.data_file.is_equality_delete_file for d in extra), plan
