"""Planning reads, counting from metadata, and the metadata tables."""

import pytest

from floe import Lake, Table, col, errors
from helpers.synthetic_files import DAY, data_file, equality_deletes, live, position_deletes

ALL = [
    "snapshots",
    "history",
    "refs",
    "manifests",
    "entries",
    "files",
    "data_files",
    "delete_files",
    "partitions",
    "position_deletes",
    "metadata_log_entries",
    "all_manifests",
    "all_entries",
    "all_files",
    "all_data_files",
    "all_delete_files",
]


@pytest.fixture
def filled(orders: Table) -> Table:
    """Four files of two days."""
    for n, day in enumerate([DAY, DAY, DAY + 1, DAY + 1]):
        orders.append_files([data_file(orders, f"f{n}", (10 * n + 1, 10 * n + 10), day=day)])
    return orders


# scans ----------------------------------------------------------------------------------------------------------------


FILTERS = [
    ("day = '2024-05-17'", ["f0", "f1"]),
    ("day > '2024-05-17'", ["f2", "f3"]),
    ("day is null", []),
    ("id = 15", ["f1"]),
    ("id between 8 and 22", ["f0", "f1", "f2"]),
    ("id in (1, 40)", ["f0", "f3"]),
    ("id > 40", []),
    ("day = '2024-05-17' and id > 10", ["f1"]),
    ("id = 1 or id = 35", ["f0", "f3"]),
    ("not (id <= 30)", ["f3"]),
    ("note like 'a%'", ["f0", "f1", "f2", "f3"]),
    ("id is null", []),
    ("true", ["f0", "f1", "f2", "f3"]),
    ("false", []),
]


def test_files_are_left_out_by_partition_and_bounds(filled: Table) -> None:
    assert {where: live(filled, where=where) for where, _ in FILTERS} == dict(FILTERS)


def test_a_filter_may_be_an_expression(filled: Table) -> None:
    assert live(filled, where=(col("id") > 10) & (col("day") == "2024-05-17")) == ["f1"]


def test_what_is_left_of_a_filter_is_told(filled: Table) -> None:
    plan = filled.scan(where="day = '2024-05-17' and note = 'x'").plan()
    assert {str(task.residual) for task in plan.tasks()} == {"note = 'x'"}


def test_a_wrong_filter_is_told_before_anything_is_read(filled: Table) -> None:
    for where in ("id >", "nope = 1", "day = 'yesterday'", "amount > 'x'"):
        with pytest.raises(errors.FloeError):
            filled.scan(where=where)


def test_columns_are_chosen_in_the_tables_order(filled: Table) -> None:
    assert [f.name for f in filled.scan(columns=["note", "id"]).schema] == ["id", "note"]
    assert [f.name for f in filled.scan(columns="id").schema] == ["id"]
    assert [f.name for f in filled.scan(columns=["id", "_file", "_partition"]).schema] == ["id", "_file", "_partition"]
    with pytest.raises(errors.NoSuchColumn, match="did you mean 'note'"):
        filled.scan(columns=["notes"])


def test_names_without_regard_to_case(filled: Table) -> None:
    with pytest.raises(errors.FloeError):
        filled.scan(columns=["ID"], where="DAY = '2024-05-17'")
    scan = filled.scan(columns=["ID"], where="DAY = '2024-05-17'", case_sensitive=False)
    assert [f.name for f in scan.schema] == ["id"]
    assert len(scan.files()) == 2


def test_a_scan_stays_at_its_snapshot(lake: Lake, filled: Table) -> None:
    scan = filled.scan()
    lake.table("db.orders").delete("true")
    assert len(scan.files()) == 4


def test_a_scan_explains_itself(filled: Table) -> None:
    text = filled.scan(where="id = 15").explain()
    assert filled.current_snapshot is not None
    assert str(filled.current_snapshot.snapshot_id) in text
    assert "id = 15" in text
    assert "1 to read" in text
    assert "db.orders" in repr(filled.scan(columns=["id"], where="id = 15"))


def test_rows_are_counted_from_metadata(filled: Table) -> None:
    counts = {None: 40, "day = '2024-05-17'": 20, "id <= 20": 20, "id > 1000": 0, "false": 0}
    assert {where: filled.scan(where=where).count() for where in counts} == counts


def test_what_metadata_cannot_count_is_read(filled: Table) -> None:
    with pytest.raises(errors.NoSuchFile, match=r"f1\b"):  # the files of these tables are not there
        filled.scan(where="id = 15").count()


def test_deletion_vectors_are_counted_and_other_deletes_read(lake: Lake) -> None:
    table = lake.create_table("db.t", "id bigint not null", format_version=3)
    file = data_file(table, "a", (1, 10))
    table.append_files([file])
    table.row_delta(deletes=[position_deletes(table, "d", file, 3)])
    assert table.scan().count() == 7
    table.row_delta(deletes=[equality_deletes(table, "e")])
    with pytest.raises(errors.NoSuchFile):
        table.scan().count()


def test_tasks_are_packed(filled: Table) -> None:
    plan = filled.scan().plan()
    assert sum(len(bin_) for bin_ in plan.combined()) >= 4
    assert plan.record_count == 40


# metadata tables ------------------------------------------------------------------------------------------------------


def test_every_metadata_table_of_a_living_table(filled: Table) -> None:
    tables = {name: getattr(filled.inspect, name)() for name in ALL}
    empty = {name for name, table in tables.items() if table.num_rows == 0}
    assert empty == {"delete_files", "position_deletes", "all_delete_files"}
    assert all(filled.inspect.table(name).equals(table) for name, table in tables.items())


def test_every_metadata_table_of_an_empty_table(orders: Table) -> None:
    rows = {name: getattr(orders.inspect, name)().num_rows for name in ALL}
    assert rows == {name: int(name == "metadata_log_entries") for name in ALL}


def test_there_are_no_others(filled: Table) -> None:
    with pytest.raises(errors.InvalidInput, match="there are snapshots"):
        filled.inspect.table("filez")
    assert all(name in repr(filled.inspect) for name in ALL)


def test_snapshots_and_history_as_tables(filled: Table) -> None:
    snapshots = filled.inspect.snapshots().to_pylist()
    assert [s["snapshot_id"] for s in snapshots] == [s.snapshot_id for s in filled.snapshots]
    assert {s["operation"] for s in snapshots} == {"append"}
    first = filled.snapshots[0].snapshot_id
    filled.rollback(to=first)
    history = filled.inspect.history().to_pylist()
    assert [h["is_current_ancestor"] for h in history] == [True, False, False, False, True]


def test_refs_as_a_table(filled: Table) -> None:
    filled.create_tag("eoy", max_ref_age="30d")
    rows = {row["name"]: row for row in filled.inspect.refs().to_pylist()}
    assert rows["main"]["type"] == "BRANCH"
    assert rows["eoy"]["max_reference_age_in_ms"] == 30 * 86_400_000


def test_files_and_partitions_as_tables(filled: Table) -> None:
    files = filled.inspect.files()
    assert sorted(files["record_count"].to_pylist()) == [10] * 4
    metrics = files["readable_metrics"].to_pylist()
    assert sorted(m["id"]["lower_bound"] for m in metrics) == [1, 11, 21, 31]
    partitions = filled.inspect.partitions().to_pylist()
    assert sorted((p["record_count"], p["file_count"]) for p in partitions) == [(20, 2), (20, 2)]


def test_metadata_tables_with_filter_and_columns(filled: Table) -> None:
    found = filled.inspect.files(where="record_count >= 10 and file_path like '%'", columns=["file_path"])
    assert found.column_names == ["file_path"]
    assert found.num_rows == 4
    assert filled.inspect.files(where=col("record_count") > 10).num_rows == 0


def test_metadata_tables_of_the_past(filled: Table) -> None:
    first, second = filled.snapshots[:2]
    filled.create_tag("second", snapshot=second.snapshot_id)
    assert filled.inspect.files(snapshot=first.snapshot_id).num_rows == 1
    assert filled.inspect.files(ref="second").num_rows == 2
    assert filled.inspect.files(as_of=first.timestamp_ms).num_rows == 1
    with pytest.raises(errors.NoSuchSnapshot):
        filled.inspect.files(snapshot=1)


def test_entries_tell_what_was_removed(filled: Table) -> None:
    filled.delete("day = '2024-05-17'")
    statuses = sorted(filled.inspect.entries()["status"].to_pylist())
    assert statuses.count(2) == 2
    assert filled.inspect.all_data_files().num_rows >= 4


def test_a_table_is_inspected_as_it_was_loaded(lake: Lake, filled: Table) -> None:
    inspect = filled.inspect
    lake.table("db.orders").append_files([data_file(filled, "late")])
    assert inspect.snapshots().num_rows == 4
    assert filled.refresh().inspect.snapshots().num_rows == 5
