"""`floe head` and `scan`: the rows that match, in each format, as other readers of the format read them."""

import csv
import datetime as dt
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from floe import Table
from helpers.cli_lakes import FIRST, SECOND, Floe, Warehouse

ALL = FIRST + SECOND


def table_cells(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The cells of rows, as the printed table has them."""
    return [["NULL" if value is None else str(value) for value in row.values()] for row in rows]


def test_head_shows_the_first_rows(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    done = run("head", *warehouse.arguments("db.orders"), "-n", "2", "--ref", "first")
    assert [line.split() for line in done.lines] == [["id", "customer", "amount", "day"], *table_cells(FIRST[:2])]
    assert len(run("head", *warehouse.arguments("db.orders"), "--json").json) == 7


def test_numbers_stand_on_the_right_and_texts_on_the_left(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    lines = run("scan", *warehouse.arguments("db.orders"), "--ref", "first").lines
    assert lines[:3] == [
        "id  customer  amount  day",
        " 1  ada         5.25  2024-05-17",
        " 2  bob        10.25  2024-05-17",
    ]


@pytest.mark.parametrize(
    ("where", "matches"),
    [
        ("amount > 16", lambda row: row["amount"] > 16),
        ("customer is null", lambda row: row["customer"] is None),
        ("day = '2024-05-18' and id <> 6", lambda row: row["day"] == dt.date(2024, 5, 18) and row["id"] != 6),
    ],
)
def test_a_filter(run: Floe, warehouse: Warehouse, orders: Table, where: str, matches: Any) -> None:
    expected = [row["id"] for row in ALL if matches(row)]
    rows = run("scan", *warehouse.arguments("db.orders"), "--where", where, "--json").json
    assert sorted(row["id"] for row in rows) == expected
    assert run("scan", *warehouse.arguments("db.orders"), "--where", where, "--count").out == f"{len(expected)}\n"
    assert run("scan", *warehouse.arguments("db.orders"), "--where", where, "--count", "--json").json == {
        "rows": len(expected)
    }


def test_columns_limits_and_time_travel(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    first, second = orders.snapshots
    name = warehouse.arguments("db.orders")
    assert list(run("scan", *name, "-C", "amount, id", "--limit", "1", "--json").json[0]) == ["amount", "id"]
    assert len(run("scan", *name, "--snapshot", first.snapshot_id, "--json").json) == 4
    timestamp = dt.datetime.fromtimestamp(first.timestamp_ms / 1000, dt.UTC).isoformat(timespec="milliseconds")
    assert len(run("scan", *name, "--as-of", timestamp, "--json").json) == (
        4 if second.timestamp_ms > first.timestamp_ms else 7
    )
    assert run("scan", *name, "--as-of", "7d").code == 1
    assert run("scan", *name, "--as-of", "0s", "--count").out == "7\n"


def test_csv_is_what_the_csv_module_reads(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    done = run("scan", *warehouse.arguments("db.orders"), "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    expected = [{k: "" if v is None else str(v) for k, v in row.items()} for row in ALL]
    assert sorted(rows, key=lambda row: int(row["id"])) == expected


def test_json_has_all_digits(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    text = run("scan", *warehouse.arguments("db.orders"), "--format", "json").out
    rows = sorted(json.loads(text, parse_float=Decimal), key=lambda row: row["id"])
    assert rows == [{**row, "day": row["day"].isoformat()} for row in ALL]
    lines = run("scan", *warehouse.arguments("db.orders"), "--format", "jsonl").lines
    assert sorted((json.loads(line, parse_float=Decimal) for line in lines), key=lambda row: row["id"]) == rows


def test_the_name_of_a_file_decides_its_format(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    name = warehouse.arguments("db.orders")
    done = run("scan", *name, "-o", "rows.parquet")
    assert (done.out, done.err.split(" in ")[0]) == ("", "7 rows written to rows.parquet")
    assert sorted(pq.read_table("rows.parquet").to_pylist(), key=lambda row: row["id"]) == ALL
    assert run("scan", *name, "-o", "rows.csv").code == 0
    assert len(list(csv.DictReader(Path("rows.csv").read_text().splitlines()))) == 7
    assert run("scan", *name, "-o", "rows.txt", "--limit", "3").err.startswith("3 rows written")
    assert len(Path("rows.txt").read_text().splitlines()) == 4


def test_a_failed_scan_does_not_change_the_file(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    Path("rows.csv").write_text("before")
    Path(orders.scan().files()[1].removeprefix("file://")).write_bytes(b"broken")
    assert run("scan", *warehouse.arguments("db.orders"), "-o", "rows.csv").code == 1
    assert Path("rows.csv").read_text() == "before"


def test_explain_reports_skipped_files(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    name = warehouse.arguments("db.orders")
    plan = run("scan", *name, "--where", "day = '2024-05-18'", "--explain", "--json").json
    assert (plan["data_files"], plan["snapshot_id"]) == (1, orders.snapshots[1].snapshot_id)
    assert "1 to read" in run("scan", *name, "--where", "day = '2024-05-18'", "--explain").out


def test_mistakes_in_filters_are_pointed_at(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    name = warehouse.arguments("db.orders")
    done = run("scan", *name, "--where", "amount >")
    assert done.code == 1
    assert done.err.splitlines()[1:] == ["  amount >", "          ^"]
    assert "hint: did you mean 'amount'?" in run("scan", *name, "--where", "amuont > 3").err
    assert "hint: did you mean 'customer'?" in run("scan", *name, "-C", "custmer").err


def test_every_type_in_every_format(run: Floe, warehouse: Warehouse) -> None:
    warehouse.lake.create_namespace("db")
    table = warehouse.lake.create_table(
        "db.t",
        "id int, word string, at timestamptz, clock time, f float, d double, ok boolean, u uuid, b binary, "
        "place struct<city: string, zip: int>, tags list<string>, m map<string, int>, odd map<int, string>",
    )
    values = {
        "id": 1,
        "word": 'say "NULL"\n',
        "at": "2024-05-17T10:00:00.5Z",
        "clock": "10:30:00",
        "f": 0.1,
        "d": float("inf"),
        "ok": True,
        "u": "f79c3e09-677c-4bbd-a479-3f349cb785e7",
        "b": b"ice",
        "place": {"city": "Rome", "zip": None},
        "tags": ["a", None],
        "m": {"x": 1},
        "odd": {7: "seven"},
    }
    table.append([values, dict.fromkeys(values)])
    expected = {
        **values,
        "at": "2024-05-17T10:00:00.500000Z",
        "d": "Infinity",
        "b": "696365",
        "odd": [{"key": 7, "value": "seven"}],
    }
    name = warehouse.arguments("db.t")
    assert run("scan", *name, "--json").json == [expected, dict.fromkeys(values)]
    record, empty = csv.DictReader(io.StringIO(run("scan", *name, "-f", "csv").out, newline=""))
    assert set(empty.values()) == {""}
    assert json.loads(record["place"]) == expected["place"]
    assert json.loads(record["odd"]) == expected["odd"]
    assert (record["word"], record["u"], record["b"]) == (values["word"], values["u"], "696365")
    assert (record["clock"], record["at"], record["ok"]) == ("10:30:00", expected["at"], "true")
    text = run("scan", *name, "--records").out
    for part in (
        'word   say "NULL"\\n',
        "at     2024-05-17 10:00:00.5Z",
        "f      0.1",
        "d      Infinity",
        "b      0x696365",
        'place  {city: "Rome", zip: null}',
        'tags   ["a", null]',
        'odd    {7: "seven"}',
    ):
        assert part in text
