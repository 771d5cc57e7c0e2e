"""Manifests, entries and files as values: inheritance, checks, and what Java's manifests say (spec: Manifests)."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from floe.errors import CorruptFile, InvalidUpdate, NoSuchColumn
from floe.spec.manifests.entries import (
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    manifest_content,
)
from floe.spec.manifests.manifest_checks import (
    check_addable,
    check_data_file,
    check_entry_to_write,
    check_equality_columns,
    check_manifest_file,
)
from floe.spec.schemas.schema import Schema
from floe.spec.types import DOUBLE, FLOAT, LONG, STRING, Field, GeometryType, ListType, StructType
from helpers.avro_files import header, local, read_manifest, read_manifest_list, rows
from helpers.corpus import expected, table_names
from helpers.manifest_rules import entry_status, file_content, file_format, inherit

ADDED, EXISTING, DELETED = EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED
DATA = DataFile(FileContent.DATA, "a.parquet", "parquet", (), 10, 1000)
POSITIONS = DataFile(FileContent.POSITION_DELETES, "p.parquet", "parquet", (), 3, 100)
EQUALITY = DataFile(FileContent.EQUALITY_DELETES, "e.parquet", "parquet", (), 3, 100, equality_ids=(1,))
VECTOR = DataFile(
    FileContent.POSITION_DELETES,
    "v.puffin",
    "puffin",
    (),
    3,
    100,
    referenced_data_file="a.parquet",
    content_offset=4,
    content_size_in_bytes=44,
)
MANIFEST = ManifestFile("m.avro", 500, 2, sequence_number=7, min_sequence_number=3, added_snapshot_id=99)


def entry(status: EntryStatus, file: DataFile = DATA, **numbers: Any) -> ManifestEntry:
    return replace(ManifestEntry(status, None, None, None, file), **numbers)


def numbers(found: ManifestEntry) -> tuple[int | None, int | None, int | None]:
    return found.snapshot_id, found.sequence_number, found.file_sequence_number


# inheritance ----------------------------------------------------------------------------------------------------


def test_added_entry_inherits_snapshot_id_and_both_sequence_numbers() -> None:
    assert numbers(inherit(entry(ADDED), MANIFEST)) == (99, 7, 7)


def test_what_an_entry_carries_is_not_replaced() -> None:
    found = inherit(entry(ADDED, snapshot_id=1, sequence_number=2, file_sequence_number=3), MANIFEST)
    assert numbers(found) == (1, 2, 3)


def test_data_sequence_number_may_be_older_than_the_file_sequence_number() -> None:
    """As after compaction: the data number is given, the file's own is inherited."""
    assert numbers(inherit(entry(ADDED, sequence_number=4), MANIFEST)) == (99, 4, 7)


@pytest.mark.parametrize("status", [EXISTING, DELETED])
def test_sequence_numbers_are_inherited_only_by_added_entries(status: EntryStatus) -> None:
    found = inherit(entry(status, sequence_number=4, file_sequence_number=5), MANIFEST)
    assert numbers(found) == (99, 4, 5)


def test_existing_entry_without_data_sequence_number_is_corrupt() -> None:
    with pytest.raises(CorruptFile, match="data sequence number") as error:
        inherit(entry(EXISTING, file_sequence_number=5), MANIFEST)
    assert error.value.context == {"file": "a.parquet", "manifest": "m.avro"}


def test_early_v2_writers_left_out_file_sequence_numbers_and_numbers_of_deleted_entries() -> None:
    assert numbers(inherit(entry(EXISTING, sequence_number=4), MANIFEST)) == (99, 4, None)
    assert numbers(inherit(entry(DELETED), MANIFEST)) == (99, None, None)


@pytest.mark.parametrize("status", EntryStatus)
def test_v1_manifests_read_as_sequence_number_0(status: EntryStatus) -> None:
    v1 = ManifestFile("m.avro", 500, 0, added_snapshot_id=99)
    assert (v1.sequence_number, v1.min_sequence_number, v1.content) == (0, 0, ManifestContent.DATA)
    assert numbers(inherit(entry(status, snapshot_id=1), v1)) == (1, 0, 0)


def test_files_get_the_partition_spec_of_their_manifest() -> None:
    assert inherit(entry(ADDED), MANIFEST).data_file.spec_id == 2


def test_manifest_holds_data_or_deletes_but_not_both() -> None:
    deletes = replace(MANIFEST, content=ManifestContent.DELETES)
    assert inherit(entry(ADDED, VECTOR), deletes).data_file.is_deletion_vector
    with pytest.raises(CorruptFile, match="a manifest of data lists a file of position deletes"):
        inherit(entry(ADDED, POSITIONS), MANIFEST)
    with pytest.raises(CorruptFile, match="a manifest of deletes lists a file of data"):
        inherit(entry(ADDED), deletes)


# stored numbers and words ---------------------------------------------------------------------------------------


def test_entry_status_is_existing_added_or_deleted() -> None:
    assert [entry_status(n) for n in range(3)] == [EXISTING, ADDED, DELETED]
    for wrong in (3, 7, -1, None, True, "1"):
        with pytest.raises(CorruptFile, match="status"):
            entry_status(wrong)


def test_deleted_entries_are_not_live() -> None:
    assert [entry(status).is_live for status in (EXISTING, ADDED, DELETED)] == [True, True, False]


def test_file_content_is_data_position_or_equality_deletes() -> None:
    assert [file_content(n) for n in range(3)] == list(FileContent)
    assert file_content(None) == FileContent.DATA  # v1
    with pytest.raises(CorruptFile, match="content"):
        file_content(3)


def test_manifest_content_is_data_or_deletes() -> None:
    assert [manifest_content(n) for n in (None, 0, 1)] == [
        ManifestContent.DATA,
        ManifestContent.DATA,
        ManifestContent.DELETES,
    ]
    assert [content.text for content in ManifestContent] == ["data", "deletes"]
    with pytest.raises(CorruptFile, match="content"):
        manifest_content(2)


@pytest.mark.parametrize("text", ["avro", "ORC", "Parquet", "PUFFIN"])
def test_file_formats_in_any_case(text: str) -> None:
    assert file_format(text) == text.lower()


@pytest.mark.parametrize("text", ["csv", "", None, 5, "parquet "])
def test_unknown_file_formats(text: Any) -> None:
    with pytest.raises(CorruptFile, match="format"):
        file_format(text)


# kinds of files -------------------------------------------------------------------------------------------------


def test_kinds_of_files() -> None:
    for file, kinds in [
        (DATA, (True, False, False, False)),
        (VECTOR, (False, True, False, False)),
        (POSITIONS, (False, False, True, False)),
        (EQUALITY, (False, False, False, True)),
    ]:
        found = (file.is_data, file.is_deletion_vector, file.is_position_delete_file, file.is_equality_delete_file)
        assert found == kinds


def test_target_of_position_deletes_is_named_or_given_by_equal_path_bounds() -> None:
    path, other = {2147483546: b"a.parquet"}, {2147483546: b"b.parquet"}
    assert VECTOR.target_path == "a.parquet"
    assert replace(POSITIONS, referenced_data_file="x").target_path == "x"
    assert replace(POSITIONS, lower_bounds=path, upper_bounds=path).target_path == "a.parquet"
    for bounds in [{}, {"lower_bounds": path}, {"lower_bounds": path, "upper_bounds": other}]:
        assert replace(POSITIONS, **bounds).target_path is None
    assert replace(EQUALITY, lower_bounds=path, upper_bounds=path).target_path is None
    with pytest.raises(CorruptFile, match="UTF-8"):
        _ = replace(POSITIONS, lower_bounds={2147483546: b"\xff"}, upper_bounds={2147483546: b"\xff"}).target_path


def test_sort_order_id_of_position_deletes_is_ignored() -> None:
    assert replace(DATA, sort_order_id=3).order_id == 3
    assert replace(EQUALITY, sort_order_id=3).order_id == 3
    assert replace(POSITIONS, sort_order_id=3).order_id is None


@pytest.mark.parametrize(
    ("offsets", "usable"),
    [
        (None, False),
        ((), False),
        ((4, 500), True),
        ((500, 4), False),
        ((4, 4), False),
        ((4, 1000), False),
        ((-1, 5), False),
    ],
)
def test_split_offsets_must_be_ascending_and_within_the_file(offsets: Any, usable: bool) -> None:
    file = replace(DATA, split_offsets=offsets)
    assert file.usable_split_offsets == (offsets if usable else None)
    check_data_file(file)  # bad offsets cost speed, not rows


# checks ---------------------------------------------------------------------------------------------------------

BROKEN: list[tuple[str, DataFile, dict[str, Any]]] = [
    ("path", DATA, {"file_path": ""}),
    ("format", DATA, {"file_format": "csv"}),
    ("record_count", DATA, {"record_count": -1}),
    ("record_count", replace(DATA, file_format="avro"), {"record_count": -2}),
    ("file_size_in_bytes", DATA, {"file_size_in_bytes": -1}),
    ("column_sizes must not be negative, found -1 for column 4", DATA, {"column_sizes": {3: 1, 4: -1}}),
    ("value_counts", DATA, {"value_counts": {1: -1}}),
    ("null_value_counts", DATA, {"null_value_counts": {1: -5}}),
    ("nan_value_counts", DATA, {"nan_value_counts": {1: -5}}),
    ("first_row_id", DATA, {"first_row_id": -1}),
    ("content_size_in_bytes", DATA, {"content_offset": 4}),
    ("equality delete file must list", EQUALITY, {"equality_ids": None}),
    ("equality delete file must list", EQUALITY, {"equality_ids": ()}),
    ("deletion vector", DATA, {"file_format": "puffin"}),
    ("deletion vector", EQUALITY, {"file_format": "puffin"}),
    ("must name its data file", VECTOR, {"referenced_data_file": None}),
    ("content_offset", VECTOR, {"content_offset": None}),
    ("content_offset", VECTOR, {"content_size_in_bytes": None}),
    ("outside its file", VECTOR, {"content_offset": -1}),
    ("outside its file", VECTOR, {"content_size_in_bytes": -1}),
    ("outside its file", VECTOR, {"content_offset": 57}),
    ("outside its file", VECTOR, {"content_size_in_bytes": 2**31, "file_size_in_bytes": 2**40}),
]


@pytest.mark.parametrize("file", [DATA, POSITIONS, EQUALITY, VECTOR], ids=lambda f: f.file_path)
def test_right_files_pass(file: DataFile) -> None:
    check_data_file(file)


@pytest.mark.parametrize(("problem", "file", "changes"), BROKEN, ids=[f"{b[0]} {n}" for n, b in enumerate(BROKEN)])
def test_files_that_cannot_be_are_corrupt(problem: str, file: DataFile, changes: dict[str, Any]) -> None:
    with pytest.raises(CorruptFile, match=problem):
        check_data_file(replace(file, **changes))


def test_deletion_vector_needs_its_data_file_offset_and_size() -> None:
    for name in ("referenced_data_file", "content_offset", "content_size_in_bytes"):
        with pytest.raises(CorruptFile):
            check_data_file(replace(VECTOR, **{name: None}))


def test_equality_deletes_need_equality_ids() -> None:
    with pytest.raises(CorruptFile, match="ids of the columns"):
        check_data_file(replace(EQUALITY, equality_ids=None))


def test_uncounted_avro_files_of_old_imports_are_read() -> None:
    check_data_file(replace(DATA, file_format="avro", record_count=-1))


MANIFEST_COUNTS = [
    "manifest_length", "sequence_number", "min_sequence_number", "added_files_count", "existing_files_count",
    "deleted_files_count", "added_rows_count", "existing_rows_count", "deleted_rows_count", "first_row_id",
]  # fmt: skip


@pytest.mark.parametrize("name", MANIFEST_COUNTS)
def test_counts_of_a_manifest_must_not_be_negative(name: str) -> None:
    check_manifest_file(replace(MANIFEST, **{name: 0}))
    with pytest.raises(CorruptFile, match=f"{name} must not be negative"):
        check_manifest_file(replace(MANIFEST, **{name: -1}))


def test_manifest_needs_a_path() -> None:
    with pytest.raises(CorruptFile, match="path"):
        check_manifest_file(replace(MANIFEST, manifest_path=""))


def test_delete_manifests_have_no_first_row_id() -> None:
    with pytest.raises(CorruptFile, match="first_row_id"):
        check_manifest_file(replace(MANIFEST, content=ManifestContent.DELETES, first_row_id=5))


def test_unknown_counts_of_v1_manifests_are_assumed_non_zero() -> None:
    unknown = ManifestFile("m.avro", 500, 0)
    assert unknown.may_have_added_files
    assert unknown.may_have_existing_files
    assert unknown.may_have_live_files
    empty = replace(unknown, added_files_count=0, existing_files_count=0, deleted_files_count=3)
    assert not empty.may_have_live_files
    assert replace(empty, existing_files_count=1).may_have_live_files


# what may be written --------------------------------------------------------------------------------------------

ADDABLE = {
    1: [DATA],
    2: [DATA, POSITIONS, EQUALITY],
    3: [DATA, EQUALITY, VECTOR],
}


@pytest.mark.parametrize("version", ADDABLE)
@pytest.mark.parametrize("file", [DATA, POSITIONS, EQUALITY, VECTOR], ids=lambda f: f.file_path)
def test_kinds_of_files_that_each_format_version_takes(file: DataFile, version: int) -> None:
    if file in ADDABLE[version]:
        check_addable(file, version)
    else:
        with pytest.raises(InvalidUpdate):
            check_addable(file, version)


def test_v1_tables_have_no_row_level_deletes() -> None:
    with pytest.raises(InvalidUpdate, match="v1 table has no row-level deletes"):
        check_addable(EQUALITY, 1)


def test_deletion_vectors_need_v3() -> None:
    with pytest.raises(InvalidUpdate, match="deletion vectors need format version 3"):
        check_addable(VECTOR, 2)


def test_new_position_delete_files_are_forbidden_in_v3() -> None:
    with pytest.raises(InvalidUpdate, match="must not be added to a v3 table"):
        check_addable(POSITIONS, 3)


def test_existing_position_delete_files_stay_valid_in_v3() -> None:
    kept = entry(EXISTING, POSITIONS, snapshot_id=1, sequence_number=2, file_sequence_number=2)
    check_entry_to_write(kept, 3)
    check_data_file(POSITIONS)


@pytest.mark.parametrize("status", [EXISTING, DELETED])
@pytest.mark.parametrize("missing", ["sequence_number", "file_sequence_number"])
def test_written_entries_of_old_files_must_carry_both_sequence_numbers(status: EntryStatus, missing: str) -> None:
    whole = entry(status, sequence_number=2, file_sequence_number=2)
    check_entry_to_write(whole, 2)
    with pytest.raises(InvalidUpdate, match=f" {missing}"):
        check_entry_to_write(replace(whole, **{missing: None}), 2)


def test_written_entries_of_new_files_inherit_their_file_sequence_number() -> None:
    check_entry_to_write(entry(ADDED), 2)
    check_entry_to_write(entry(ADDED, sequence_number=4), 2)
    with pytest.raises(InvalidUpdate, match="file sequence number"):
        check_entry_to_write(entry(ADDED, file_sequence_number=4), 2)


def test_v1_entries_must_have_a_snapshot_id() -> None:
    check_entry_to_write(entry(ADDED, snapshot_id=5), 1)
    with pytest.raises(InvalidUpdate, match="snapshot id"):
        check_entry_to_write(entry(ADDED), 1)


def test_new_data_files_are_written_with_a_null_first_row_id() -> None:
    numbered = replace(DATA, first_row_id=100)
    check_entry_to_write(entry(EXISTING, numbered, sequence_number=1, file_sequence_number=1), 3)
    with pytest.raises(InvalidUpdate, match="first_row_id of a new file"):
        check_entry_to_write(entry(ADDED, numbered), 3)


def test_first_row_id_of_delete_files_is_always_null() -> None:
    old = entry(EXISTING, replace(VECTOR, first_row_id=1), sequence_number=1, file_sequence_number=1)
    with pytest.raises(InvalidUpdate, match="delete file has no first_row_id"):
        check_entry_to_write(old, 3)


COLUMNS = Schema(
    (
        Field(1, "id", LONG, required=True),
        Field(2, "maybe", STRING),
        Field(3, "x", DOUBLE),
        Field(4, "at", StructType((Field(5, "city", STRING),))),
        Field(6, "tags", ListType(7, STRING)),
        Field(8, "y", FLOAT),
        Field(9, "g", GeometryType()),
    )
)


def test_equality_deletes_may_compare_optional_columns_also_nested() -> None:
    check_equality_columns(COLUMNS, [1, 2, 5])


@pytest.mark.parametrize("field_id", [3, 8, 4, 6, 7, 9])
def test_equality_deletes_may_not_compare_floats_nested_types_or_parts_of_lists(field_id: int) -> None:
    with pytest.raises(InvalidUpdate, match="equality deletes cannot"):
        check_equality_columns(COLUMNS, [1, field_id])


def test_equality_deletes_compare_at_least_one_column_that_exists() -> None:
    with pytest.raises(InvalidUpdate, match="at least one"):
        check_equality_columns(COLUMNS, [])
    with pytest.raises(NoSuchColumn):
        check_equality_columns(COLUMNS, [77])


# Java's manifests -----------------------------------------------------------------------------------------------

READABLE = [t for t in table_names(without=("invalid_", "view_", "odd_")) if t != "meta_manifest_zstd"]


def current_manifest_list(corpus_dir: Path, table: str) -> Path | None:
    metadata_path = corpus_dir / table / expected(corpus_dir, table)["metadata"]
    if metadata_path.read_bytes()[:2] == b"\x1f\x8b":
        return None
    metadata = json.loads(metadata_path.read_bytes())
    current = metadata.get("current-snapshot-id")
    snapshot = next((s for s in metadata.get("snapshots", []) if s["snapshot-id"] == current), None)
    if snapshot is None or "manifest-list" not in snapshot:
        return None
    try:
        return local(corpus_dir, snapshot["manifest-list"])
    except AssertionError:
        return None  # a table that was moved


def test_entries_of_javas_tables_are_what_java_shows_for_them(corpus_dir: Path) -> None:
    """Status, snapshot id and both sequence numbers after inheritance, for every entry of the current snapshot."""
    compared = 0
    for table in READABLE:
        cases = expected(corpus_dir, table).get("cases", [])
        case = next((c for c in cases if c["query"] == {"metadata_table": "entries"} and c.get("rows")), None)
        path = current_manifest_list(corpus_dir, table)
        if case is None or path is None:
            continue
        wanted = sorted((*json.loads(row)[:4], json.loads(row)[4][1]) for row in case["rows"])
        found = []
        for manifest in read_manifest_list(path):
            check_manifest_file(manifest)
            for stored in read_manifest(local(corpus_dir, manifest.manifest_path)):
                check_data_file(stored.data_file)
                full = inherit(stored, manifest)
                ids = (full.status, full.snapshot_id, full.sequence_number, full.file_sequence_number)
                found.append((*(str(int(i)) if i is not None else None for i in ids), full.data_file.file_path))
        assert sorted(found) == wanted, table
        compared += len(found)
    assert compared > 90


def test_every_manifest_of_java_passes_the_checks(corpus_dir: Path) -> None:
    kinds = set()
    for table in READABLE:
        for path in sorted((corpus_dir / table / "metadata").glob("*.avro")):
            if "content" not in header(path) and path.name.startswith("snap-"):
                for manifest in read_manifest_list(path):
                    check_manifest_file(manifest)
            else:
                for stored in read_manifest(path):
                    check_data_file(stored.data_file)
                    kinds.add((stored.data_file.content, stored.data_file.file_format))
    assert {(FileContent.POSITION_DELETES, "puffin"), (FileContent.EQUALITY_DELETES, "orc")} <= kinds


def test_entry_with_an_impossible_status_is_corrupt(corpus_dir: Path) -> None:
    refused = 0
    for path in (corpus_dir / "invalid_entry_status" / "metadata").glob("*-m*.avro"):
        if any(row["status"] == 7 for row in rows(path)):
            with pytest.raises(CorruptFile, match="found 7"):
                read_manifest(path)
            refused += 1
    assert refused
