"""Real rows in real Parquet files, through every catalog and version: what is written is what is read."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from floe import Lake, Table, errors

MERGE_ON_READ = {"write.delete.mode": "merge-on-read"}


def rows(first: int, count: int, day: dt.date = dt.date(2024, 5, 17)) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "day": pa.array([day] * count, pa.date32()),
            "amount": pa.array([Decimal(n % 7) for n in range(count)], pa.decimal128(9, 2)),
            "note": pa.array([None if n % 3 == 0 else f"n{n}" for n in range(count)], pa.string()),
        }
    )


def ids(table: Table, **choice: Any) -> list[int]:
    return sorted(table.scan(**choice).to_arrow()["id"].to_pylist())


def test_what_is_written_is_read(lake: Lake, orders: Table) -> None:
    orders.append(rows(1, 50))
    orders.append(rows(51, 10, dt.date(2024, 5, 18)))
    found = lake.table("db.orders").scan().to_arrow().sort_by("id")
    expected = pa.concat_tables([rows(1, 50), rows(51, 10, dt.date(2024, 5, 18))])
    assert found.to_pylist() == expected.to_pylist()


def test_a_filter_loses_no_row(orders: Table) -> None:
    for day in range(4):
        orders.append(rows(10 * day, 10, dt.date(2024, 5, 17 + day)))
    everything = orders.scan().to_arrow().to_pylist()
    tests = {
        "day = '2024-05-18'": lambda row: row["day"] == dt.date(2024, 5, 18),
        "id between 5 and 25": lambda row: 5 <= row["id"] <= 25,
        "note is null": lambda row: row["note"] is None,
        "note like 'n1%'": lambda row: (row["note"] or "").startswith("n1"),
        "amount > 4 or id in (0, 39)": lambda row: row["amount"] > 4 or row["id"] in (0, 39),
        "not (amount <= 2)": lambda row: row["amount"] > 2,
    }
    for where, passes in tests.items():
        assert ids(orders, where=where) == sorted(row["id"] for row in everything if passes(row)), where


def test_old_files_are_read_with_new_columns(orders: Table) -> None:
    orders.append(rows(1, 3))
    orders.evolve().rename_column("note", "remark").add_column("extra", "int").commit()
    found = orders.scan().to_arrow().sort_by("id").to_pylist()
    assert [row["remark"] for row in found] == [None, "n1", "n2"]
    assert [row["extra"] for row in found] == [None] * 3
    orders.append(rows(4, 1).rename_columns({"note": "remark"}).append_column("extra", pa.array([7], pa.int32())))
    assert sorted(row["extra"] or 0 for row in orders.scan().to_arrow().to_pylist()) == [0, 0, 0, 7]


def test_the_past_reads_as_it_was(orders: Table) -> None:
    first = orders.append(rows(1, 3))
    assert first is not None
    orders.append(rows(4, 3))
    orders.delete("true")
    assert ids(orders) == []
    assert ids(orders, snapshot=first.snapshot_id) == [1, 2, 3]
    orders.rollback(to=first.snapshot_id)
    assert ids(orders) == [1, 2, 3]


def test_deleted_rows_are_gone_and_the_past_still_has_them(lake: Lake) -> None:
    table = lake.create_table(
        "db.t", "id bigint not null, day date, amount decimal(9, 2), note string", format_version=3
    )
    table.append(rows(1, 10))
    before = table.current_snapshot
    assert before is not None
    table.delete("id in (2, 4)", options=MERGE_ON_READ)
    table.delete("id = 6 or id = 2", options=MERGE_ON_READ)
    assert ids(table) == [1, 3, 5, 7, 8, 9, 10]
    assert table.scan().count() == 7
    assert table.inspect.delete_files().num_rows == 1, "the second vector took the first one's place"
    assert ids(table, snapshot=before.snapshot_id) == list(range(1, 11))


def test_two_who_delete_rows_of_one_file(lake: Lake) -> None:
    mine = lake.create_table(
        "db.t", "id bigint not null, day date, amount decimal(9, 2), note string", format_version=3
    )
    mine.append(rows(1, 10))
    theirs = lake.table("db.t")
    theirs.delete("id = 2", options=MERGE_ON_READ)
    try:
        mine.delete("id = 5", options=MERGE_ON_READ)
    except errors.ConflictingChange:
        mine.refresh().delete("id = 5", options=MERGE_ON_READ)
    assert ids(mine.refresh()) == [1, 3, 4, 6, 7, 8, 9, 10], "neither delete is lost"


def test_defaults_fill_in_old_rows(lake: Lake) -> None:
    table = lake.create_table(
        "db.t", "id bigint not null, day date, amount decimal(9, 2), note string", format_version=3
    )
    table.append(rows(1, 2))
    table.evolve().add_column("n", "int", required=True, default=7).commit()
    assert table.scan().to_arrow()["n"].to_pylist() == [7, 7]


@pytest.mark.parametrize("terms", [["bucket(4, id)"], ["truncate(2, note)"], ["month(day)", "note"], []], ids=str)
def test_every_kind_of_partitioning(lake: Lake, terms: list[str]) -> None:
    table = lake.create_table(
        "db.t", "id bigint not null, day date, amount decimal(9, 2), note string", partition_by=terms
    )
    table.append(rows(1, 20))
    assert ids(table) == list(range(1, 21))
    assert ids(table, where="id = 7") == [7]
    assert ids(table, where="note is null") == [1, 4, 7, 10, 13, 16, 19]
