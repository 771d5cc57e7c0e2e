"""DELETE, UPDATE, upsert and MERGE as a user types them: what they do, what they leave alone, and what they refuse."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import floe
from floe import Lake, Table, col, errors
from floe.arrow.read.task_reader import TaskReader
from floe.arrow.values.user_values import lit
from floe.formats.writers import WriteTarget, write_equality_deletes
from floe.table.row_writes import RowsChanged

COW, MOR = "copy-on-write", "merge-on-read"
MODES = [(1, COW), (2, COW), (2, MOR), (3, COW), (3, MOR)]
COLUMNS = "id bigint not null, part string, amount decimal(9, 2), st struct<a: int, b: string>, ts timestamptz"

Make = Callable[..., Table]


@pytest.fixture
def lake() -> Lake:
    made = floe.connect("memory:")
    made.create_namespace("db")
    return made


@pytest.fixture(params=MODES, ids=lambda mode: f"v{mode[0]} {mode[1]}")
def orders(request: pytest.FixtureRequest, lake: Lake) -> Table:
    """Ten rows in two partitions and four files; every third has no amount."""
    version, mode = request.param
    return make_orders(lake, version, mode)


def make_orders(lake: Lake, version: int = 2, mode: str = MOR, **properties: str) -> Table:
    modes = {f"write.{kind}.mode": mode for kind in ("delete", "update", "merge")}
    table = lake.create_table(
        "db.orders", COLUMNS, partition_by=["part"], format_version=version, properties=modes | properties
    )
    rows = [row(n) for n in range(10)]
    table.append(rows[:5])
    table.append(rows[5:])
    return table


def row(n: int) -> dict[str, Any]:
    amount = None if n % 3 == 0 else Decimal(n)
    moment = dt.datetime(2024, 5, 17, n % 24, tzinfo=dt.UTC)
    return {"id": n, "part": "ab"[n % 2], "amount": amount, "st": {"a": n, "b": "x"}, "ts": moment}


def ids(table: Table, where: str | None = None) -> list[int]:
    return sorted(table.scan(columns=["id"], where=where).to_arrow().column("id").to_pylist())


def values(table: Table, column: str) -> dict[int, Any]:
    rows = table.scan(columns=["id", column]).to_arrow().to_pylist()
    return {one["id"]: one[column] for one in rows}


def counts(found: RowsChanged) -> tuple[int, int, int]:
    return found.deleted, found.updated, found.inserted


# DELETE -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("id = 4", [0, 1, 2, 3, 5, 6, 7, 8, 9]),
        ("amount > 4", [0, 1, 2, 3, 4, 6, 9]),
        ("not (amount > 4)", [0, 3, 5, 6, 7, 8, 9]),
        ("amount is null", [1, 2, 4, 5, 7, 8]),
        ("part = 'a' and amount <> 2", [0, 1, 2, 3, 5, 6, 7, 9]),
        ("id % 2 = 1", [0, 2, 4, 6, 8]),
        ("st.a * 2 > 10 and amount is not null", [0, 1, 2, 3, 4, 5, 6, 9]),
        ("hour(ts) < 3", [3, 4, 5, 6, 7, 8, 9]),
        ("t.id in (1, 2, 3)", [0, 4, 5, 6, 7, 8, 9]),
        ("true", []),
        ("false", list(range(10))),
        ("id = 100", list(range(10))),
    ],
)
def test_rows_are_deleted_where_the_condition_is_true(orders: Table, where: str, left: list[int]) -> None:
    found = orders.delete(where)
    assert ids(orders) == left
    assert found.deleted == 10 - len(left)
    assert (found.snapshot is None) == (len(left) == 10)


def test_a_filter_made_in_python_deletes_too(orders: Table) -> None:
    assert orders.delete((col("id") > 7) | (col("st.a") == 0)).deleted == 3


def test_deletes_add_up(orders: Table) -> None:
    for n in (1, 3, 5, 7):
        orders.delete(f"id = {n}")
    assert ids(orders) == [0, 2, 4, 6, 8, 9]
    assert orders.scan().count() == 6


def test_whole_partitions_go_by_metadata(orders: Table) -> None:
    found = orders.delete("part = 'a'")
    assert found.deleted == 5
    assert found.snapshot is not None
    assert found.snapshot.summary is not None
    assert "added-data-files" not in found.snapshot.summary
    assert "added-delete-files" not in found.snapshot.summary
    assert ids(orders) == [1, 3, 5, 7, 9]


def test_metadata_alone_can_be_demanded(orders: Table) -> None:
    with pytest.raises(errors.InvalidUpdate, match="only some rows of a file"):
        orders.delete("id = 4", metadata_only=True)
    with pytest.raises(errors.InvalidUpdate, match="only some rows of a file"):
        orders.delete("id % 1 = 0", metadata_only=True)
    assert orders.delete("part = 'b'", metadata_only=True).deleted == 5


def test_merge_on_read_touches_no_data_file(lake: Lake) -> None:
    for version, added in ((2, "added-position-delete-files"), (3, "added-dvs")):
        table = make_orders(lake, version, MOR)
        summary = table.delete("id = 4").snapshot.summary  # type: ignore[union-attr]
        assert summary[added] == "1"  # type: ignore[index]
        assert "deleted-data-files" not in summary  # type: ignore[operator]
        again = table.delete("id = 2").snapshot.summary  # type: ignore[union-attr]
        # in version 3 a file has one vector, which takes the place of the one before
        assert again.get("removed-dvs") == ("1" if version == 3 else None)  # type: ignore[union-attr]
        assert ids(table) == [0, 1, 3, 5, 6, 7, 8, 9]
        lake.drop_table("db.orders")


def test_a_table_that_was_upgraded_folds_its_deletes_into_vectors(lake: Lake) -> None:
    for granularity in ("file", "partition"):
        table = make_orders(lake, 2, MOR, **{"write.delete.granularity": granularity})
        table.delete("id in (0, 6)")
        table.upgrade(3)
        found = table.delete("id in (2, 8)")
        assert ids(table) == [1, 3, 4, 5, 7, 9]
        files = table.inspect.delete_files().to_pylist()
        assert [one["record_count"] for one in files if one["file_format"] == "PUFFIN"] == [2, 2]
        # a delete file for one data file makes room; one for the partition may be needed by others
        assert sum(one["file_format"] == "PARQUET" for one in files) == (0 if granularity == "file" else 1)
        assert found.deleted == 2
        lake.drop_table("db.orders")


def test_equality_deletes_of_others_are_kept_when_files_are_written_anew(lake: Lake) -> None:
    """Rows that somebody deleted by value stay deleted, also where the statement's filter does not speak of them."""
    for mode in (COW, MOR):
        table = make_orders(lake, 2, mode)
        target = WriteTarget.of(table.metadata, table.storage, table.environment)
        keys = pa.record_batch({"id": pa.array([2], pa.int64()), "part": ["a"]})
        gone = write_equality_deletes(target, [keys], ["id", "part"])
        table.row_delta(deletes=gone)
        assert 2 not in ids(table)
        table.update({"amount": 0}, where="id = 4")
        table.delete("id = 0")
        table.overwrite([row(6)], where="id = 6")
        assert ids(table) == [1, 3, 4, 5, 6, 7, 8, 9]
        lake.drop_table("db.orders")


# UPDATE -----------------------------------------------------------------------------------------------------------


def test_values_are_those_of_the_row_as_it_was(orders: Table) -> None:
    found = orders.update({"amount": "coalesce(amount, 0) + id", "part": "upper(part)"}, where="id >= 8")
    assert counts(found) == (0, 2, 0)
    assert values(orders, "amount")[8] == Decimal("16.00")
    assert values(orders, "amount")[9] == Decimal("9.00")
    assert values(orders, "part")[8] == "A"
    assert values(orders, "part")[7] == "b"
    assert len(ids(orders)) == 10


def test_columns_can_swap_their_values(orders: Table) -> None:
    orders.update({"id": "st.a + 100", "st.a": "cast(id as int)"}, where="id = 3")
    assert values(orders, "st")[103] == {"a": 3, "b": "x"}


def test_fields_of_structs_are_set_by_their_paths(orders: Table) -> None:
    orders.update({"st": None}, where="id = 1")
    orders.update({"st.b": "'new'"}, where="id < 3")
    assert values(orders, "st")[0] == {"a": 0, "b": "new"}
    assert values(orders, "st")[1] == {"a": None, "b": "new"}
    assert values(orders, "st")[3] == {"a": 3, "b": "x"}


def test_python_values_and_columns_are_values(orders: Table) -> None:
    moment = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    orders.update({"part": lit("id"), "amount": Decimal("1.5"), "ts": moment}, where="id = 1")
    orders.update({"part": col("st.b")}, where="id = 2")
    assert values(orders, "part")[1] == "id"
    assert values(orders, "part")[2] == "x"
    assert values(orders, "ts")[1] == moment


def test_without_a_condition_all_rows_are_updated(orders: Table) -> None:
    assert orders.update({"amount": 1}).updated == 10
    assert set(values(orders, "amount").values()) == {Decimal(1)}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"amout": 1}, "did you mean 'amount'"),
        ({"amount": "'1'"}, "type string cannot be assigned to a column of type decimal"),
        ({"amount": "id / 0"}, "division by zero"),
        ({"amount": "100000000"}, "does not fit decimal"),
        ({"id": None}, "cannot be set to null"),
        ({"id": "nullif(id, 4)"}, "null for a required column"),
        ({"amount": "nope + 1"}, "no column is named 'nope'"),
        ({"amount": "s.id"}, "no column is named 's.id'"),
        ({"st": "named_struct('a', 1, 'c', 2)"}, "cannot be assigned"),
        ({"st.a": 1, "st": None}, "is set twice"),
        ({}, "expected the columns to set"),
        ({"_row_id": 1}, "no column is named '_row_id'"),
    ],
)
def test_what_cannot_be_set_is_refused_and_nothing_changes(orders: Table, given: dict[str, Any], says: str) -> None:
    before, files = orders.metadata_location, set(orders.storage.list(f"{orders.location}/data"))
    with pytest.raises(errors.FloeError) as refused:
        orders.update(given)
    assert says in str(refused.value)
    assert orders.refresh().metadata_location == before
    assert set(orders.storage.list(f"{orders.location}/data")) == files


# upsert -----------------------------------------------------------------------------------------------------------


def test_upsert_updates_adds_and_leaves_alone(orders: Table) -> None:
    data = [row(3), row(4) | {"amount": Decimal(40)}, row(20)]
    found = orders.upsert(data, on=["id"])
    assert counts(found) == (0, 1, 1)
    assert found.unchanged == 1
    assert values(orders, "amount")[4] == Decimal(40)
    assert ids(orders) == [*range(10), 20]
    again = orders.upsert(data, on="id")
    assert again.snapshot is None
    assert counts(again) == (0, 0, 0)
    assert again.unchanged == 3


def test_upsert_keeps_the_columns_that_the_data_has_not(orders: Table) -> None:
    found = orders.upsert(pa.table({"id": [1, 30], "part": ["b", "c"]}), on=["id"])
    assert counts(found) == (0, 0, 1)
    assert values(orders, "amount")[1] == Decimal(1)
    assert values(orders, "st")[30] is None


def test_upsert_by_identifier_fields(orders: Table) -> None:
    with pytest.raises(errors.InvalidInput, match="no identifier fields"):
        orders.upsert([row(1)])
    orders.evolve().set_identifier_fields("id").commit()
    assert counts(orders.upsert([row(1) | {"amount": 5}, row(11)])) == (0, 1, 1)


@pytest.mark.parametrize(
    ("data", "on", "says"),
    [
        ([{"id": 1, "part": "b"}, {"id": 1, "part": "a"}], ["id"], "two rows of the data have the same key: id = 1"),
        ([{"id": 1, "parts": "b"}], ["id"], "a column that the table does not have"),
        ([{"part": "b"}], ["id"], "no such key column"),
        ([{"id": 1}], ["nope"], "no column is named 'nope'"),
        ([{"id": 1, "st": None}], ["st"], "cannot be keys"),
        ([{"id": 1}], [], "columns to match by"),
    ],
)
def test_an_upsert_that_cannot_be(orders: Table, data: Any, on: Any, says: str) -> None:
    with pytest.raises(errors.FloeError) as refused:
        orders.upsert(data, on=on)
    assert says in str(refused.value)


def test_upsert_and_merge_take_in_new_columns(orders: Table, lake: Lake) -> None:
    before = {row["id"]: row for row in orders.scan().to_arrow().to_pylist()}
    schemas, snapshots = len(orders.metadata.schemas), len(orders.snapshots)
    assert counts(orders.upsert([{"id": 1, "seen": 5}, {"id": 90, "seen": 6}], on="id", merge_schema=True)) == (0, 1, 1)
    merge = orders.merge([{"id": 1, "seen": 7, "by": "ada"}], on=["id"], merge_schema=True)
    assert counts(merge.when_matched_update_all().execute()) == (0, 1, 0)
    table = lake.table("db.orders")
    assert len(table.metadata.schemas) == schemas + 2
    assert len(table.snapshots) == snapshots + 2, "the columns come with the rows"
    after = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    assert after == {id: row | {"seen": None, "by": None} for id, row in before.items()} | {
        1: before[1] | {"seen": 7, "by": "ada"},
        90: dict.fromkeys(after[1]) | {"id": 90, "seen": 6},
    }


def test_columns_are_taken_in_though_no_row_changes(orders: Table) -> None:
    found = orders.upsert(pa.table({"id": [1], "seen": pa.array([None], pa.int32())}), on="id", merge_schema=True)
    assert (found.snapshot, counts(found)) == (None, (0, 0, 0))
    assert orders.schema.fields[-1].name == "seen"


def test_what_cannot_be_taken_in_leaves_nothing(orders: Table) -> None:
    before = orders.metadata
    with pytest.raises(errors.IncompatibleChange, match="cannot change 'id'"):
        orders.upsert(pa.table({"id": ["x"], "seen": [1]}), on="id", merge_schema=True)
    assert orders.refresh().metadata == before


RAGGED = [{"id": 1, "amount": 5}, {"id": 2, "part": "z"}]


def test_rows_that_leave_out_what_others_have_may_mean_null_or_no_change(orders: Table) -> None:
    before = orders.scan().to_arrow()
    with pytest.raises(errors.InvalidInput, match=r"a row does not have a column that other rows have.*column: amount"):
        orders.upsert(RAGGED, on="id")
    with pytest.raises(errors.InvalidInput, match="a row does not have a column that other rows have"):
        orders.upsert(iter(RAGGED), on="id")
    with pytest.raises(errors.InvalidInput, match="a row does not have a column that other rows have"):
        orders.merge(RAGGED, on=["id"])
    assert orders.scan().to_arrow() == before


def test_upsert_matches_null_with_null(orders: Table) -> None:
    orders.update({"part": None}, where="id = 5")
    data = [{"id": 5, "part": None, "amount": 50}, {"id": 6, "part": None, "amount": 60}]
    assert counts(orders.upsert(data, on=["id", "part"])) == (0, 1, 1)
    assert orders.upsert(data, on=["id", "part"]).snapshot is None


def test_a_small_upsert_reads_only_the_files_of_its_keys(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_orders(lake, 2, MOR)
    read: list[str] = []
    plain = TaskReader.batches

    def noted(self: Any, task: Any, *rest: Any, **more: Any) -> Any:
        read.append(task.file.file_path)
        return plain(self, task, *rest, **more)

    monkeypatch.setattr(TaskReader, "batches", noted)
    for type_ in (pa.int64(), pa.int32(), pa.decimal128(20, 2)):
        read.clear()
        keys = pa.array([9]).cast(pa.int32()).cast(type_)
        table.merge(pa.table({"key": keys}), on="t.id = s.key").when_matched_delete("s.key < 0").execute()
        assert len(set(read)) == 1, type_


# MERGE ------------------------------------------------------------------------------------------------------------

SOURCE = [
    {"id": 1, "part": "b", "amount": 10, "op": "U"},
    {"id": 2, "part": "a", "amount": None, "op": "D"},
    {"id": 3, "part": "b", "amount": 30, "op": "?"},
    {"id": 20, "part": "c", "amount": 200, "op": "I"},
    {"id": 21, "part": "c", "amount": 210, "op": "?"},
    {"id": None, "part": "c", "amount": 1, "op": "?"},
]


def test_every_kind_of_clause_in_order(orders: Table) -> None:
    merge = orders.merge(SOURCE, on="t.id = s.id")
    merge.when_matched_delete("s.op = 'D'")
    merge.when_matched_update({"amount": "t.amount + s.amount", "part": "'moved'"}, "s.op = 'U'")
    merge.when_matched_update({"amount": -1}, "t.amount is not null")
    merge.when_not_matched_insert({"id": "s.id", "part": "s.part", "st.a": 7}, "s.op = 'I'")
    merge.when_not_matched_insert_all("s.id is not null")
    merge.when_not_matched_by_source_delete("t.id > 8")
    merge.when_not_matched_by_source_update({"part": "t.part || '!'"}, condition="t.id = 0")
    assert counts(merge.execute()) == (2, 2, 2)
    assert ids(orders) == [0, 1, 3, 4, 5, 6, 7, 8, 20, 21]
    assert values(orders, "amount")[1] == Decimal(11)
    assert values(orders, "amount")[3] is None  # no clause applied
    assert values(orders, "part")[0] == "a!"
    assert values(orders, "part")[1] == "moved"
    assert values(orders, "st")[20] == {"a": 7, "b": None}
    assert values(orders, "amount")[20] is None
    assert values(orders, "amount")[21] == Decimal(210)


def test_matching_by_names_and_setting_all(orders: Table) -> None:
    found = orders.merge(SOURCE[:4], on=["id"]).when_matched_update_all().when_not_matched_insert_all().execute()
    assert counts(found) == (0, 3, 1)
    assert values(orders, "amount")[3] == Decimal(30)
    assert values(orders, "st")[3] == {"a": 3, "b": "x"}  # the source has no such column


def test_null_matches_null_only_if_asked_to(orders: Table) -> None:
    orders.update({"part": None}, where="id = 5")
    source = [{"part": None, "amount": 55}]
    assert counts(orders.merge(source, on="t.part = s.part").when_matched_delete().execute()) == (0, 0, 0)
    found = orders.merge(source, on="t.part <=> s.part").when_matched_update({"amount": "s.amount"}).execute()
    assert counts(found) == (0, 1, 0)
    assert values(orders, "amount")[5] == Decimal(55)


def test_a_row_that_is_changed_twice_is_an_error(orders: Table) -> None:
    twice = [{"id": 1, "amount": 1}, {"id": 1, "amount": 2}]
    with pytest.raises(errors.InvalidInput, match="2 rows of the source match one row of the table") as refused:
        orders.merge(twice, on="t.id = s.id").when_matched_update_all().execute()
    assert "'amount': 1" in str(refused.value) or "Decimal('1" in str(refused.value)
    # conditions may choose one of them, and to be deleted twice is to be deleted
    merge = orders.merge(twice, on="t.id = s.id").when_matched_update_all("s.amount = 2")
    assert counts(merge.execute()) == (0, 1, 0)
    assert counts(orders.merge(twice, on="t.id = s.id").when_matched_delete().execute()) == (1, 0, 0)


def test_a_source_without_rows(orders: Table) -> None:
    nothing = pa.table({"id": pa.array([], pa.int64())})
    assert orders.upsert([], on="id").snapshot is None
    assert orders.upsert(nothing, on="id").snapshot is None
    assert counts(orders.merge(nothing, on="t.id = s.id").when_matched_delete().execute()) == (0, 0, 0)
    merge = orders.merge(nothing, on="t.id = s.id").when_not_matched_by_source_delete("t.id < 3")
    assert counts(merge.execute()) == (3, 0, 0)


def test_a_table_without_rows(lake: Lake) -> None:
    table = lake.create_table("db.new", "id bigint, n int")
    assert table.delete("id = 1").snapshot is None
    assert table.update({"n": 1}).snapshot is None
    assert counts(table.upsert([{"id": 1, "n": 2}], on="id")) == (0, 0, 1)


def test_a_table_merged_with_itself(orders: Table) -> None:
    found = orders.merge(orders.scan(), on="t.id = s.id").when_matched_update({"amount": "s.id * 2"}).execute()
    assert counts(found) == (0, 10, 0)
    assert values(orders, "amount")[7] == Decimal(14)


@pytest.mark.parametrize("on", [None, 5, [], [None], "", "t.id", "t.id = "])
def test_what_is_no_condition_to_match_by(orders: Table, on: Any) -> None:
    with pytest.raises(errors.InvalidInput):
        orders.merge(SOURCE, on=on).when_matched_delete().execute()


def test_a_condition_without_equal_keys(orders: Table) -> None:
    source = [{"low": 2, "high": 4}, {"low": 7, "high": 7}]
    merge = orders.merge(source, on="t.id between s.low and s.high").when_matched_update({"amount": "s.high"})
    assert counts(merge.execute()) == (0, 4, 0)
    assert values(orders, "amount")[7] == Decimal(7)


def test_too_many_pairs_to_compare(orders: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("floe.arrow.dml.merge_join.MAX_PAIRS", 19)
    with pytest.raises(errors.UnsupportedFeature, match="20 pairs of rows would have to be compared"):
        orders.merge([{"x": 1}, {"x": 2}], on="t.id > s.x").when_matched_delete().execute()


def test_keys_are_compared_in_the_type_that_both_have(orders: Table) -> None:
    source = pa.table({"key": pa.array([3.0, float("nan"), None], pa.float32()), "n": pa.array([1, 2, 3], pa.int8())})
    merge = orders.merge(source, on="t.id = s.key").when_matched_delete().when_not_matched_insert({"id": "s.n + 50"})
    assert counts(merge.execute()) == (1, 0, 2)
    assert ids(orders) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 52, 53]


def test_defaults_fill_what_new_rows_leave_out(lake: Lake) -> None:
    table = make_orders(lake, 3, MOR)
    table.evolve().add_column("note", "string", default="none").commit()
    merge = table.merge([{"id": 50}], on="t.id = s.id").when_not_matched_insert({"id": "s.id"})
    merge.execute()
    assert values(table, "note")[50] == "none"


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda m: m.execute(), "without a clause"),
        (lambda m: m.when_matched_delete().when_matched_update_all().execute(), "is never reached"),
        (lambda m: m.when_matched_update({"amount": "id"}).execute(), "may mean t.id or s.id"),
        (lambda m: m.when_not_matched_insert({"id": "t.id"}).execute(), "no column is named 't.id'"),
        (lambda m: m.when_not_matched_by_source_delete("s.id = 1").execute(), "no column is named 's.id'"),
        (lambda m: m.when_not_matched_insert({"amount": 1}).execute(), "a required column has no value"),
        (lambda m: m.when_matched_update({"amount": "s.op"}).execute(), "type string cannot be assigned"),
        (lambda m: m.when_not_matched_insert_all().execute(), "null for a required column"),
    ],
)
def test_a_merge_that_cannot_be(orders: Table, build: Callable[[Any], Any], says: str) -> None:
    before = orders.metadata_location
    with pytest.raises(errors.FloeError) as refused:
        build(orders.merge(SOURCE, on="t.id = s.id"))
    assert says in str(refused.value)
    assert orders.refresh().metadata_location == before


def test_a_merge_is_executed_once_and_not_forgotten(orders: Table) -> None:
    merge = orders.merge(SOURCE, on="t.id = s.id").when_matched_delete()
    merge.execute()
    with pytest.raises(errors.InvalidInput, match="MERGE"):
        merge.execute()
    with pytest.warns(UserWarning, match="never executed"):
        orders.merge(SOURCE, on="t.id = s.id").when_matched_delete().__del__()


# where statements run ---------------------------------------------------------------------------------------------


def test_statements_read_what_others_committed(lake: Lake) -> None:
    mine = make_orders(lake)
    lake.table("db.orders").append([row(11)])
    assert mine.delete("id = 11").deleted == 1


def test_a_branch_and_a_stage(orders: Table) -> None:
    audit = orders.branch("audit", create=True)
    assert audit.delete("id = 1").deleted == 1
    assert audit.update({"amount": 9}, where="id = 2").updated == 1
    assert audit.upsert([row(40)], on="id").inserted == 1
    assert len(ids(orders)) == 10
    assert sorted(audit.scan(["id"]).to_arrow()["id"].to_pylist()) == [0, *range(2, 10), 40]  # type: ignore[attr-defined]
    orders.stage("w1").delete("id = 3")
    assert len(ids(orders)) == 10
    orders.publish("w1")
    assert 3 not in ids(orders)


def test_in_a_transaction_with_other_changes(orders: Table) -> None:
    with orders.transaction() as tx:
        tx.evolve().add_column("note", "string").commit()
        assert tx.update({"note": "'n'"}, where="id = 1").snapshot is None
        tx.set_properties({"owner": "me"})
        tx.append([row(30)])
    assert values(orders, "note")[1] == "n"
    assert 30 in ids(orders)
    assert orders.properties["owner"] == "me"


def test_in_a_transaction_over_tables(tmp_path: Path) -> None:
    with floe.connect(f"sqlite:///{tmp_path}/lake.db", warehouse=str(tmp_path / "wh")) as lake:
        lake.create_namespace("db")
        for name in ("a", "b"):
            lake.create_table(f"db.{name}", "id bigint, n int").append([{"id": n, "n": n} for n in range(4)])
        with lake.transaction() as tx:
            tx.table("db.a").delete("id % 2 = 0")
            tx.table("db.b").update({"n": "n * 10"}, where="id = 3")
        assert ids(lake.table("db.a")) == [1, 3]
        assert values(lake.table("db.b"), "n") == {0: 0, 1: 1, 2: 2, 3: 30}


def test_rows_of_the_same_transaction_are_never_missed(orders: Table) -> None:
    """A statement that would not see rows that came before it in the transaction is refused; one by files is not."""
    for statement in (
        lambda tx: tx.delete("id = 4"),
        lambda tx: tx.update({"amount": 1}),
        lambda tx: tx.upsert([row(30)], on="id"),
        lambda tx: tx.merge([row(30)], on="t.id = s.id").when_matched_delete().execute(),
    ):
        tx = orders.transaction()
        tx.append([row(30)])
        with pytest.raises(errors.UnsupportedFeature, match="changed earlier in this transaction"):
            statement(tx)
        tx.abort()
    with orders.transaction() as tx:
        tx.append([row(30)])
        tx.delete("part = 'a'")
    assert ids(orders) == [1, 3, 5, 7, 9]


def test_a_conflict_is_retried_if_the_table_says_so(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_orders(lake, 2, MOR, **{"write.conflict.retries": "1"})
    _rival_once(table, lambda: lake.table("db.orders").update({"part": "'z'"}, where="id = 1"), monkeypatch)
    assert table.update({"amount": "amount * 10"}, where="id = 1").updated == 1
    assert values(table, "amount")[1] == Decimal(10)
    assert values(table, "part")[1] == "z"


def test_without_retries_a_conflict_is_an_error_and_leaves_no_files(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_orders(lake, 2, MOR)
    _rival_once(table, lambda: lake.table("db.orders").update({"part": "'z'"}, where="id = 1"), monkeypatch)
    with pytest.raises(errors.ConflictingChange):
        table.update({"amount": "amount * 10"}, where="id = 1")
    known = {one["file_path"] for one in table.refresh().inspect.all_files().to_pylist()}
    assert {one.location for one in table.storage.list(f"{table.location}/data")} == known


def test_a_delete_by_metadata_reads_rows_if_a_file_came_meanwhile(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_orders(lake, 2, MOR)
    _rival_once(table, lambda: lake.table("db.orders").append([row(1) | {"id": 4}, row(1) | {"id": 40}]), monkeypatch)
    assert table.delete("id < 10").deleted == 11
    assert ids(table) == [40]


def _rival_once(table: Table, meanwhile: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else commits just before the table's next commit."""
    plain = table.commit_target.commit
    waiting = [meanwhile]

    def late(*given: Any) -> Any:
        if waiting:
            waiting.pop()()
        return plain(*given)

    monkeypatch.setattr(table.commit_target, "commit", late)


@pytest.mark.parametrize(
    "wrong",
    [{"options": {"write.update.isolation-level": "chaos"}}, {"summary": {"added-records": "7"}}],
    ids=["isolation", "summary"],
)
def test_what_is_refused_late_leaves_no_files(orders: Table, wrong: dict[str, Any]) -> None:
    before = {one.location for one in orders.storage.list(f"{orders.location}/data")}
    with pytest.raises(errors.FloeError):
        orders.update({"amount": 1}, where="id = 1", **wrong)
    assert {one.location for one in orders.storage.list(f"{orders.location}/data")} == before


def test_modes_and_levels_have_names(lake: Lake) -> None:
    table = make_orders(lake, 2, MOR)
    with pytest.raises(errors.InvalidUpdate, match=r"write\.delete\.mode must be one of .*, found 'fast'"):
        table.delete("id = 1", options={"write.delete.mode": "fast"})
    with pytest.raises(errors.InvalidUpdate, match="must be one of serializable, snapshot, found 'chaos'"):
        table.delete("id = 1", options={"write.delete.isolation-level": "chaos"})
    assert table.delete("id = 1", options={"write.delete.mode": COW}).copied == 1


def test_the_summary_tells_what_was_done(lake: Lake) -> None:
    table = make_orders(lake, 2, COW)
    summary = table.update({"amount": 1}, where="id = 1", summary={"why": "test"}).snapshot.summary  # type: ignore[union-attr]
    assert summary is not None
    told = {name: value for name, value in summary.items() if name.startswith(("floe.", "why"))}
    assert told == {"floe.statement": "update", "floe.rows-updated": "1", "floe.rows-copied": "1", "why": "test"}


def test_a_source_made_from_the_table_itself_rests_on_what_it_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The amount of row 8 goes into row 1: who changes row 8 meanwhile is not overlooked, whatever rows match."""
    table = make_orders(lake, 2, MOR, **{"write.conflict.retries": "3"})
    other = lake.table("db.orders")

    def merging() -> Any:
        merge = table.merge(table.refresh().scan(where="id = 8"), on="t.id = s.id - 7")
        return merge.when_matched_update({"amount": "s.amount"})

    _rival_once(table, lambda: other.update({"amount": 80}, where="id = 8"), monkeypatch)
    with pytest.raises(errors.ConflictingChange):
        merging().execute()
    late = merging()
    other.update({"amount": 81}, where="id = 8")
    with pytest.raises(errors.ConflictingChange, match="scan of the table itself"):
        late.execute()
    assert merging().execute().updated == 1
    assert values(table, "amount")[1] == Decimal(81)
