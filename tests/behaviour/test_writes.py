"""Adding and removing files, as everybody sees it afterwards."""

import pytest

from floe import Lake, Table, errors
from helpers.synthetic_files import DAY, data_file, equality_deletes, live, names, position_deletes


def total(table: Table, what: str) -> int:
    assert table.current_snapshot is not None
    return int((table.current_snapshot.summary or {})[f"total-{what}"])


def test_an_append_is_seen_by_everybody(lake: Lake, orders: Table) -> None:
    snapshot = orders.append_files([data_file(orders, "a"), data_file(orders, "b", (11, 15))])
    assert snapshot is not None
    assert snapshot.operation == "append"
    assert orders.current_snapshot == snapshot
    assert live(lake.table("db.orders")) == ["a", "b"]
    assert (total(orders, "records"), total(orders, "data-files")) == (15, 2)


def test_appends_add_up(orders: Table) -> None:
    for n in range(3):
        orders.append_files([data_file(orders, f"f{n}", (10 * n + 1, 10 * n + 10))])
    assert live(orders) == ["f0", "f1", "f2"]
    assert [s.operation for s in orders.snapshots] == ["append"] * 3
    assert total(orders, "records") == 30


def test_a_fast_append_keeps_the_manifests_that_are_there(orders: Table) -> None:
    orders.set_properties({"commit.manifest.min-count-to-merge": 2})
    orders.append_files([data_file(orders, "a")])
    before = orders.inspect.manifests()["path"].to_pylist()
    orders.append_files([data_file(orders, "b")], fast=True)
    assert set(before) < set(orders.inspect.manifests()["path"].to_pylist())
    assert live(orders) == ["a", "b"]


def test_an_append_merges_small_manifests(orders: Table) -> None:
    orders.set_properties({"commit.manifest.min-count-to-merge": 2})
    for name in "abc":
        orders.append_files([data_file(orders, name)])
    assert orders.inspect.manifests().num_rows == 1
    assert live(orders) == ["a", "b", "c"]


def test_nothing_appended_is_no_snapshot(orders: Table) -> None:
    assert orders.append_files([]) is None
    assert orders.current_snapshot is None


def test_a_summary_can_be_added_to(orders: Table) -> None:
    snapshot = orders.append_files([data_file(orders, "a")], summary={"job": "nightly-7"})
    assert snapshot is not None
    assert (snapshot.summary or {})["job"] == "nightly-7"


def test_counts_in_a_summary_cannot_be_invented(orders: Table) -> None:
    with pytest.raises(errors.InvalidInput):
        orders.append_files([data_file(orders, "a")], summary={"total-records": "1000000"})


def test_one_file_cannot_be_added_twice(orders: Table) -> None:
    file = data_file(orders, "a")
    with pytest.raises(errors.InvalidInput, match="added twice"):
        orders.append_files([file, file])
    orders.append_files([file])
    with pytest.raises(errors.FloeError, match="already"):
        orders.append_files([file])
    with pytest.raises(errors.FloeError, match="already"):
        orders.append_files([file], fast=True)
    assert live(orders) == ["a"]


def test_a_file_of_an_unknown_spec_is_refused(orders: Table) -> None:
    file = data_file(orders, "a")
    wrong = type(file)(**{name: getattr(file, name) for name in file.__slots__} | {"spec_id": 9})
    with pytest.raises(errors.InvalidUpdate, match="partition spec 9"):
        orders.append_files([wrong])
    assert orders.current_snapshot is None


def test_nulls_in_a_required_column_are_refused(orders: Table) -> None:
    file = data_file(orders, "a")
    assert file.null_value_counts is not None
    file.null_value_counts[orders.schema.field("id").id] = 3
    with pytest.raises(errors.InvalidUpdate, match="3 nulls"):
        orders.append_files([file])


def test_an_overwrite_exchanges_files_in_one_step(orders: Table) -> None:
    a, b = data_file(orders, "a"), data_file(orders, "b", (11, 20))
    orders.append_files([a, b])
    snapshot = orders.overwrite_files([data_file(orders, "c")], removed=[a])
    assert snapshot is not None
    assert snapshot.operation == "overwrite"
    assert live(orders) == ["b", "c"]
    assert total(orders, "records") == 20


def test_an_overwrite_by_filter_takes_whole_files(orders: Table) -> None:
    orders.append_files([data_file(orders, "old", day=DAY), data_file(orders, "new", day=DAY + 1)])
    orders.overwrite_files([data_file(orders, "fresh", day=DAY)], where="day = '2024-05-17'")
    assert live(orders) == ["fresh", "new"]


def test_an_overwrite_that_would_split_a_file_is_refused(orders: Table) -> None:
    orders.append_files([data_file(orders, "a", (1, 10))])
    with pytest.raises(errors.FloeError):
        orders.overwrite_files([], where="id < 5")
    assert live(orders) == ["a"]


def test_partitions_are_replaced_whole(orders: Table) -> None:
    orders.append_files([data_file(orders, "a", day=DAY), data_file(orders, "b", day=DAY + 1)])
    snapshot = orders.replace_partitions([data_file(orders, "c", day=DAY)])
    assert snapshot is not None
    assert (snapshot.summary or {})["replace-partitions"] == "true"
    assert live(orders) == ["b", "c"]


def test_partitions_that_must_be_new(orders: Table) -> None:
    orders.append_files([data_file(orders, "a", day=DAY)])
    orders.replace_partitions([data_file(orders, "b", day=DAY + 1)], only_new=True)
    with pytest.raises(errors.FloeError, match="files already"):
        orders.replace_partitions([data_file(orders, "c", day=DAY)], only_new=True)
    assert live(orders) == ["a", "b"]


def test_files_are_deleted_by_name(orders: Table) -> None:
    a, b, c = (data_file(orders, name) for name in "abc")
    orders.append_files([a, b, c])
    snapshot = orders.delete_files([a, b.file_path])
    assert snapshot is not None
    assert snapshot.operation == "delete"
    assert live(orders) == ["c"]
    assert total(orders, "data-files") == 1


def test_a_file_that_is_not_there_cannot_be_deleted(orders: Table) -> None:
    orders.append_files([data_file(orders, "a")])
    with pytest.raises(errors.ConflictingChange):
        orders.delete_files([f"{orders.location}/data/none.parquet"])
    assert live(orders) == ["a"]


def test_rows_are_deleted_by_filter_where_whole_files_match(orders: Table) -> None:
    orders.append_files([data_file(orders, "a", (1, 10)), data_file(orders, "b", (11, 20))])
    snapshot = orders.delete("id <= 10").snapshot
    assert snapshot is not None
    assert snapshot.operation == "delete"
    assert live(orders) == ["b"]


def test_a_delete_by_partition_needs_no_bounds(orders: Table) -> None:
    orders.append_files([data_file(orders, "a", day=DAY), data_file(orders, "b", day=DAY + 1)])
    orders.delete("day < '2024-05-18'")
    assert live(orders) == ["b"]


def test_a_delete_that_would_split_a_file_is_refused_where_no_row_may_be_read(orders: Table) -> None:
    orders.append_files([data_file(orders, "a", (1, 10))])
    with pytest.raises(errors.InvalidUpdate, match="only some rows of a file"):
        orders.delete("id = 5", metadata_only=True)
    assert live(orders) == ["a"]


def test_a_delete_of_nothing_changes_nothing(orders: Table) -> None:
    orders.append_files([data_file(orders, "a", (1, 10))])
    before = orders.metadata_location
    assert orders.delete("id > 1000").snapshot is None
    assert orders.metadata_location == before


def test_deleting_everything_leaves_an_empty_table(orders: Table) -> None:
    orders.append_files([data_file(orders, "a"), data_file(orders, "b")])
    orders.delete("true")
    assert live(orders) == []
    assert total(orders, "records") == 0


def test_rewritten_files_hold_the_same_rows(orders: Table) -> None:
    small = [data_file(orders, f"s{n}", (10 * n + 1, 10 * n + 10)) for n in range(3)]
    orders.append_files(small)
    snapshot = orders.rewrite_files(small, [data_file(orders, "large", (1, 30))])
    assert snapshot is not None
    assert snapshot.operation == "replace"
    assert live(orders) == ["large"]
    assert total(orders, "records") == 30


def test_a_rewrite_may_not_add_rows(orders: Table) -> None:
    small = data_file(orders, "small", (1, 10))
    orders.append_files([small])
    with pytest.raises(errors.FloeError, match="must not add rows"):
        orders.rewrite_files([small], [data_file(orders, "large", (1, 30))])
    assert live(orders) == ["small"]


def test_rewritten_manifests_list_the_same_files(orders: Table) -> None:
    for name in "abcd":
        orders.append_files([data_file(orders, name)], fast=True)
    assert orders.inspect.manifests().num_rows == 4
    snapshot = orders.rewrite_manifests()
    assert snapshot is not None
    assert snapshot.operation == "replace"
    assert orders.inspect.manifests().num_rows == 1
    assert live(orders) == ["a", "b", "c", "d"]


def test_deletes_need_format_version_2(lake: Lake) -> None:
    table = lake.create_table("db.t", "id bigint not null", format_version=1)
    file = data_file(table, "a")
    table.append_files([file])
    with pytest.raises(errors.FloeError, match="version"):
        table.row_delta(deletes=[position_deletes(table, "d", file)])
    assert live(table) == ["a"]


@pytest.fixture(params=[2, 3], ids="v{}".format)
def merge_on_read(request: pytest.FixtureRequest, lake: Lake) -> Table:
    """A table whose version has deletes."""
    columns = "id bigint not null, day date"
    return lake.create_table("db.t", columns, partition_by=["day"], format_version=request.param)


def test_row_deltas_delete_rows_of_files(merge_on_read: Table) -> None:
    table = merge_on_read
    file = data_file(table, "a")
    table.append_files([file])
    snapshot = table.row_delta(deletes=[position_deletes(table, "d", file, 2)])
    assert snapshot is not None
    assert snapshot.operation == "delete"
    (task,) = table.scan().plan().tasks()
    assert names([delete.file_path for delete in task.deletes]) == ["d"]
    assert total(table, "position-deletes") == 2


def test_row_deltas_add_rows_too(merge_on_read: Table) -> None:
    table = merge_on_read
    file = data_file(table, "a")
    table.append_files([file])
    snapshot = table.row_delta([data_file(table, "b", (11, 12))], [position_deletes(table, "d", file)])
    assert snapshot is not None
    assert snapshot.operation == "overwrite"
    assert live(table) == ["a", "b"]
    assert [len(task.deletes) for task in table.scan().plan().tasks()].count(1) == 1


def test_equality_deletes_apply_to_older_rows_only(merge_on_read: Table) -> None:
    table = merge_on_read
    table.append_files([data_file(table, "old")])
    table.row_delta([data_file(table, "new")], [equality_deletes(table, "e")])
    found = {names([t.file.file_path])[0]: len(t.deletes) for t in table.scan().plan().tasks()}
    assert found == {"old": 1, "new": 0}


def test_a_removed_file_takes_its_deletion_vector_along(merge_on_read: Table) -> None:
    table = merge_on_read
    file = data_file(table, "a")
    table.append_files([file, data_file(table, "b", (11, 12))])
    table.row_delta(deletes=[position_deletes(table, "d", file)])
    table.delete_files([file])
    assert live(table) == ["b"]
    if table.format_version >= 3:  # spec, v3: a vector must go with its file
        assert table.inspect.delete_files().num_rows == 0
    assert all(not task.deletes for task in table.scan().plan().tasks())


def test_row_ids_are_given_once(lake: Lake) -> None:
    table = lake.create_table("db.t", "id bigint not null", format_version=3)
    table.append_files([data_file(table, "a", (1, 10))])
    table.append_files([data_file(table, "b", (11, 15))])
    starts = {names([row["file_path"]])[0]: row["first_row_id"] for row in table.inspect.files().to_pylist()}
    assert starts == {"a": 0, "b": 10}
    assert table.metadata.next_row_id == 15


def test_sequence_numbers_go_up(orders: Table, version: int) -> None:
    for name in "abc":
        orders.append_files([data_file(orders, name)])
    assert [s.sequence_number for s in orders.snapshots] == ([0, 0, 0] if version == 1 else [1, 2, 3])


def test_each_snapshot_knows_its_parent(orders: Table) -> None:
    for name in "abc":
        orders.append_files([data_file(orders, name)])
    ids = [s.snapshot_id for s in orders.snapshots]
    assert [s.parent_snapshot_id for s in orders.snapshots] == [None, *ids[:-1]]
    assert len(set(ids)) == 3
