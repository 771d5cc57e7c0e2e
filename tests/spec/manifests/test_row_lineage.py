"""Row ids and last-updated sequence numbers: the spec's example, each rule, and the rows that Java reads."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from floe.errors import CorruptFile, InvalidUpdate
from floe.spec.codecs.deletion_vectors import deserialize
from floe.spec.manifests.delete_scope import deletes_for
from floe.spec.manifests.entries import (
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    assign_first_row_ids,
)
from floe.spec.manifests.manifest_checks import check_entry_to_write
from helpers.avro_files import header, local, read_manifest, read_manifest_list
from helpers.corpus import expected, table_names
from helpers.manifest_rules import inherit, inherit_first_row_ids, last_updated_sequence_number, row_id

ADDED, EXISTING, DELETED = EntryStatus.ADDED, EntryStatus.EXISTING, EntryStatus.DELETED


def manifest(path: str, added: int | None, existing: int | None, first_row_id: int | None = None) -> ManifestFile:
    return ManifestFile(path, 100, 0, added_rows_count=added, existing_rows_count=existing, first_row_id=first_row_id)


def entry(status: EntryStatus, path: str, records: int, first_row_id: int | None = None) -> ManifestEntry:
    file = DataFile(FileContent.DATA, path, "parquet", (), records, 100, first_row_id=first_row_id)
    return ManifestEntry(status, 1, 1, 1, file)


def first_ids(entries: list[ManifestEntry], first_row_id: int | None) -> list[int | None]:
    found = inherit_first_row_ids(entries, manifest("m", 0, 0, first_row_id))
    return [e.data_file.first_row_id for e in found]


# the spec's example ---------------------------------------------------------------------------------------------


def test_row_lineage_example_manifests() -> None:
    """A table with next-row-id 1000; the new value after the snapshot is 1375."""
    assigned, next_row_id = assign_first_row_ids(
        [
            manifest("existing", 75, 0, 925),
            manifest("added1", 100, 25),
            manifest("added2", 0, 100),
            manifest("added3", 125, 25),
        ],
        1000,
    )
    assert [(m.manifest_path, m.first_row_id) for m in assigned] == [
        ("existing", 925),
        ("added1", 1000),
        ("added2", 1125),
        ("added3", 1225),
    ]
    assert next_row_id == 1375


def test_row_lineage_example_files() -> None:
    entries = [entry(EXISTING, "data1", 25, 800), entry(ADDED, "data2", 50), entry(ADDED, "data3", 50)]
    assert first_ids(entries, 1000) == [800, 1000, 1050]


# manifests ------------------------------------------------------------------------------------------------------


def test_first_row_id_of_existing_manifests_is_preserved() -> None:
    kept = manifest("old", 10, 0, 7)
    assert assign_first_row_ids([kept], 1000) == ((kept,), 1000)


def test_first_row_id_of_delete_manifests_is_always_null() -> None:
    deletes = replace(manifest("d", 10, 0), content=ManifestContent.DELETES)
    assigned, next_row_id = assign_first_row_ids([deletes, manifest("m", 5, 0)], 100)
    assert [m.first_row_id for m in assigned] == [None, 100]
    assert next_row_id == 105


def test_snapshot_that_assigns_no_ids_leaves_next_row_id() -> None:
    assert assign_first_row_ids([], 42) == ((), 42)


def test_first_v3_commit_of_an_upgraded_table_assigns_ids_to_existing_manifests() -> None:
    assigned, next_row_id = assign_first_row_ids([manifest("v2a", 10, 5), manifest("v2b", 0, 20)], 0)
    assert [m.first_row_id for m in assigned] == [0, 15]
    assert next_row_id == 35


@pytest.mark.parametrize(("added", "existing"), [(None, 1), (1, None)])
def test_manifests_of_unknown_row_counts_cannot_get_ids(added: int | None, existing: int | None) -> None:
    with pytest.raises(InvalidUpdate, match="row counts are unknown"):
        assign_first_row_ids([manifest("v1", added, existing)], 0)


COUNTS = st.integers(0, 2**40)


@given(st.lists(st.tuples(COUNTS, COUNTS, st.booleans()), max_size=8), COUNTS)
def test_assigned_ranges_do_not_overlap(rows: list[tuple[int, int, bool]], start: int) -> None:
    manifests = [
        replace(manifest("m", a, e), content=ManifestContent.DELETES if deletes else ManifestContent.DATA)
        for a, e, deletes in rows
    ]
    assigned, next_row_id = assign_first_row_ids(manifests, start)
    expected_next = start
    for found in assigned:
        if found.content == ManifestContent.DATA:
            assert found.first_row_id == expected_next
            expected_next += (found.added_rows_count or 0) + (found.existing_rows_count or 0)
    assert next_row_id == expected_next


# files ----------------------------------------------------------------------------------------------------------


def test_null_file_ids_follow_one_another_in_manifest_order() -> None:
    entries = [
        entry(ADDED, "a", 10),
        entry(EXISTING, "b", 5, 77),
        entry(ADDED, "c", 3),
        entry(ADDED, "d", 1),
    ]
    assert first_ids(entries, 100) == [100, 77, 110, 113]


def test_existing_files_without_an_id_get_one_too() -> None:
    """As in the first commit after an upgrade to v3."""
    assert first_ids([entry(EXISTING, "a", 10), entry(ADDED, "b", 5)], 100) == [100, 110]


def test_deleted_entries_get_no_id_and_take_no_room() -> None:
    assert first_ids([entry(DELETED, "a", 10), entry(DELETED, "b", 5, 7), entry(ADDED, "c", 1)], 100) == [None, 7, 100]


def test_files_of_a_manifest_without_first_row_id_have_none() -> None:
    assert first_ids([entry(ADDED, "a", 10), entry(EXISTING, "b", 5, 77)], None) == [None, None]


def test_first_row_id_of_delete_files_is_null() -> None:
    deletes = replace(manifest("m", 1, 0, 9), content=ManifestContent.DELETES)
    (found,) = inherit_first_row_ids([entry(ADDED, "a", 10)], deletes)
    assert found.data_file.first_row_id is None


def test_files_of_unknown_row_count_cannot_have_row_ids() -> None:
    with pytest.raises(CorruptFile, match="unknown row count"):
        first_ids([entry(ADDED, "a", -1)], 0)


def test_inherited_first_row_id_is_written_for_existing_entries() -> None:
    (found,) = inherit_first_row_ids([entry(ADDED, "a", 10)], manifest("m", 10, 0, 500))
    rewritten = replace(found, status=EXISTING)
    check_entry_to_write(rewritten, 3)
    assert first_ids([rewritten], 9000) == [500]


# rows -----------------------------------------------------------------------------------------------------------


def test_row_id_is_the_stored_one_or_first_row_id_plus_position() -> None:
    assert row_id(None, 1000, 0) == 1000
    assert row_id(None, 1000, 49) == 1049
    assert row_id(3, 1000, 49) == 3
    assert row_id(0, 1000, 49) == 0


def test_last_updated_is_the_stored_one_or_the_data_sequence_number() -> None:
    assert last_updated_sequence_number(None, 1000, 7) == 7
    assert last_updated_sequence_number(3, 1000, 7) == 3


def test_without_first_row_id_both_columns_are_null() -> None:
    assert row_id(3, None, 49) is None
    assert last_updated_sequence_number(3, None, 7) is None


# Java's tables --------------------------------------------------------------------------------------------------

LINEAGE = ["id", "x", "_row_id", "_last_updated_sequence_number"]


def snapshots(corpus_dir: Path, table: str) -> dict[int, dict[str, Any]]:
    metadata = json.loads((corpus_dir / table / expected(corpus_dir, table)["metadata"]).read_bytes())
    found = {s["snapshot-id"]: s for s in metadata["snapshots"]}
    return found | {None: found[metadata["current-snapshot-id"]]}


def live_entries(corpus_dir: Path, snapshot: dict[str, Any]) -> list[ManifestEntry]:
    entries: list[ManifestEntry] = []
    for listed in read_manifest_list(local(corpus_dir, snapshot["manifest-list"])):
        stored = read_manifest(local(corpus_dir, listed.manifest_path))
        with_ids = inherit_first_row_ids((inherit(e, listed) for e in stored), listed)
        entries += [e for e in with_ids if e.is_live]
    return entries


def deleted_positions(corpus_dir: Path, data: DataFile, deletes: tuple[ManifestEntry, ...]) -> set[int]:
    positions: set[int] = set()
    for delete in (d.data_file for d in deletes):
        path = local(corpus_dir, delete.file_path)
        if delete.is_deletion_vector:
            assert delete.content_offset is not None
            assert delete.content_size_in_bytes is not None
            blob = path.read_bytes()[delete.content_offset :][: delete.content_size_in_bytes]
            positions |= set(deserialize(blob, cardinality=delete.record_count, row_count=data.record_count))
        else:
            rows = pq.read_table(path).to_pylist()  # type: ignore[no-untyped-call]
            positions |= {row["pos"] for row in rows if row["file_path"] == data.file_path}
    return positions


def lineage_rows(corpus_dir: Path, snapshot: dict[str, Any]) -> list[str]:
    """Every row of a snapshot with its row id and sequence number, in the canonical form of the corpus."""
    entries = live_entries(corpus_dir, snapshot)
    deletes = [e for e in entries if not e.data_file.is_data]
    found = []
    for data in (e for e in entries if e.data_file.is_data):
        file = data.data_file
        gone = deleted_positions(corpus_dir, file, deletes_for(data, deletes, {0}))
        rows = pq.read_table(local(corpus_dir, file.file_path)).to_pylist()  # type: ignore[no-untyped-call]
        for position, row in enumerate(rows):
            if position in gone:
                continue
            ids = (
                row_id(row.get("_row_id"), file.first_row_id, position),
                last_updated_sequence_number(
                    row.get("_last_updated_sequence_number"), file.first_row_id, data.sequence_number
                ),
            )
            values = [str(row["id"]), row["x"], *(None if i is None else str(i) for i in ids)]
            found.append(json.dumps(values, separators=(",", ":")))
    return sorted(found)


@pytest.mark.parametrize("table", table_names("lineage_"))
def test_row_ids_are_those_that_java_reads(corpus_dir: Path, table: str) -> None:
    """From the manifest list down to the row, with deletion vectors, for every snapshot with an answer."""
    answers = [c for c in expected(corpus_dir, table)["cases"] if c["query"].get("columns") == LINEAGE]
    assert answers
    known = snapshots(corpus_dir, table)
    for case in answers:
        found = lineage_rows(corpus_dir, known[case["query"].get("snapshot_id")])
        assert found == case["rows"], case["query"]


@pytest.mark.parametrize("table", table_names("lineage_", "v3_basic", "del_dv"))
def test_first_row_ids_of_manifests_are_those_that_java_assigned(corpus_dir: Path, table: str) -> None:
    """Each list is Java's with the ids of its own new manifests taken away, and given again."""
    compared = 0
    for snapshot in snapshots(corpus_dir, table).values():
        path = local(corpus_dir, snapshot["manifest-list"])
        if header(path)["format-version"] != "3":
            continue
        first = snapshot["first-row-id"]
        theirs = read_manifest_list(path)
        before = [
            replace(m, first_row_id=None) if m.first_row_id is not None and m.first_row_id >= first else m
            for m in theirs
        ]
        assigned, next_row_id = assign_first_row_ids(before, first)
        assert list(assigned) == theirs
        assert next_row_id - first == snapshot["added-rows"]
        compared += 1
    assert compared
