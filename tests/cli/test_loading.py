"""`floe load`: files of every format become rows, in one commit or not at all."""

import csv
import datetime as dt
import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import floe
from floe import Table
from floe.formats.registry import default_registry
from floe.sql.columns import parse_columns
from floe.storage.local import LocalStorage
from helpers.cli_lakes import FIRST, SECOND, Floe, Warehouse, order

NEW = [order(n, 19) for n in range(8, 12)]
COLUMNS = "id bigint not null, customer string, amount decimal(9, 2), day date"


def arrow(rows: list[dict[str, Any]]) -> pa.Table:
    types = {"id": pa.int64(), "customer": pa.string(), "amount": pa.decimal128(9, 2), "day": pa.date32()}
    return pa.table({name: pa.array([row[name] for row in rows], type_) for name, type_ in types.items()})


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """The rows as a file, by somebody else's writer."""
    kind = path.name.partition(".")[2]
    if kind == "parquet":
        pq.write_table(arrow(rows), path)
    elif kind == "orc":
        orc.write_table(arrow(rows), path)
    elif kind == "avro":
        writer = default_registry().write_data("avro", "rows", LocalStorage(), str(path.absolute()))
        with writer.schema(parse_columns(COLUMNS)).build() as file:
            file.write([{**row, "day": (row["day"] - dt.date(1970, 1, 1)).days} for row in rows])
    elif kind in ("csv", "csv.gz", "tsv"):
        with (gzip.open if kind.endswith("gz") else open)(path, "wt", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]), delimiter="\t" if kind == "tsv" else ",")
            table.writeheader()
            table.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
    return path


def ids(table: Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


def rows_of(table: Table) -> list[dict[str, Any]]:
    return table.refresh().scan().to_arrow().sort_by("id").to_pylist()


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro", "csv", "csv.gz", "tsv", "jsonl"])
def test_every_format_is_appended(run: Floe, warehouse: Warehouse, orders: Table, kind: str) -> None:
    file = write(Path(f"new.{kind}"), NEW)
    done = run("load", file, *warehouse.arguments("db.orders"))
    assert done.code == 0, done.err
    assert rows_of(orders) == FIRST + SECOND + NEW
    assert len(orders.snapshots) == 3
    assert done.out.startswith("4 rows from 1 file into db.orders: 1 data file, ")
    assert done.out.rstrip().endswith(f"snapshot {orders.snapshots[2].snapshot_id}")


def test_many_files_are_one_commit(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    Path("in").mkdir()
    for row, kind in zip(NEW, ("parquet", "csv", "jsonl", "orc"), strict=True):
        write(Path(f"in/{row['id']}.{kind}"), [row])
    Path("in/_SUCCESS").touch()
    summary = run("load", "in", *warehouse.arguments("db.orders"), "--json").json
    assert (summary["sources"], summary["rows"], summary["mode"], summary["created"]) == (4, 4, "append", False)
    assert rows_of(orders) == FIRST + SECOND + NEW
    assert summary["snapshot_id"] == orders.snapshots[2].snapshot_id
    assert run("load", "in/*.csv", "in/8.parquet", *warehouse.arguments("db.orders"), "--json").json["rows"] == 2


def test_standard_input(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    name = warehouse.arguments("db.orders")
    assert run("load", "-", *name, stdin=b"id,customer\n20,x\n").code == 1
    assert "--format" in run("load", "-", *name, stdin=b"id\n20\n").err
    assert run("load", "-", *name, "-f", "csv", stdin=b"id,customer\n20,x\n").code == 0
    assert run("load", "-", *name, "-f", "jsonl", stdin=b'{"id": 21, "amount": 7.5}\n\n{"id": 22}\n').code == 0
    assert run("load", "-", *name, "-f", "parquet", stdin=write(Path("n.parquet"), NEW).read_bytes()).code == 0
    assert run("load", "-", *name, "-f", "avro", stdin=write(Path("n.avro"), [order(23, 1)]).read_bytes()).code == 0
    assert ids(orders) == [*range(1, 12), 20, 21, 22, 23]
    assert [row["amount"] for row in rows_of(orders) if row["id"] == 21] == [Decimal("7.50")]


def test_the_modes(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    name = warehouse.arguments("db.orders")
    changed = write(Path("c.parquet"), [order(1, 17, customer="new"), order(30, 17)])
    assert run("load", changed, *name, "--mode", "upsert", "--on", "id").code == 0
    assert rows_of(orders)[0]["customer"] == "new"
    assert ids(orders) == [1, 2, 3, 4, 5, 6, 7, 30]
    assert run("load", changed, *name, "--mode", "overwrite-partitions").code == 0
    assert ids(orders) == [1, 5, 6, 7, 30]
    assert run("load", changed, *name, "--mode", "overwrite", "--where", "day = '2024-05-17'").code == 0
    assert ids(orders) == [1, 5, 6, 7, 30]
    assert run("load", changed, *name, "--mode", "overwrite").code == 0
    assert ids(orders) == [1, 30]
    assert run("load", changed, *name, "--on", "id").code == 2
    assert run("load", changed, *name, "--where", "id = 1").code == 2


def test_create_takes_the_columns_of_the_files(run: Floe, warehouse: Warehouse) -> None:
    warehouse.lake.create_namespace("db")
    file = write(Path("new.parquet"), NEW)
    missing = run("load", file, *warehouse.arguments("db.new"))
    assert missing.code == 1
    assert "--create" in missing.err
    layout = ("--partition-by", "month(day)", "--sort-by", "id desc", "--format-version", "3", "-p", "owner=me")
    done = run("load", file, *warehouse.arguments("db.new"), "--create", *layout)
    assert done.code == 0, done.err
    table = warehouse.lake.table("db.new")
    assert rows_of(table) == NEW
    assert (table.format_version, table.properties["owner"], len(table.snapshots)) == (3, "me", 1)
    document = run("show", *warehouse.arguments("db.new"), "--json").json
    assert (document["partition_by"], document["sort_by"]) == (["month(day)"], ["id desc"])
    assert [(c["name"], c["type"]) for c in document["columns"]] == [
        ("id", "long"), ("customer", "string"), ("amount", "decimal(9, 2)"), ("day", "date"),
    ]  # fmt: skip
    again = run("load", file, *warehouse.arguments("db.new"), "--create", *layout)
    assert again.code == 1
    assert "exists already" in again.err
    assert run("load", file, *warehouse.arguments("db.new"), "--create").code == 0
    assert len(rows_of(table)) == 8


def test_create_infers_the_types_of_text_or_takes_a_schema(run: Floe, warehouse: Warehouse) -> None:
    warehouse.lake.create_namespace("db")
    Path("a.csv").write_text('id,name,at,ok,none\n1,"",2024-05-17 10:00:00,true,\n2,,2024-05-18 10:00:00,false,\n')
    assert run("load", "a.csv", *warehouse.arguments("db.a"), "--create").code == 0
    table = warehouse.lake.table("db.a")
    assert [str(field.type) for field in table.schema] == ["long", "string", "timestamp", "boolean", "string"]
    assert [row["name"] for row in rows_of(table)] == ["", None]
    declared = "id int not null, name string, at timestamp, ok boolean, none double"
    assert run("load", "a.csv", *warehouse.arguments("db.b"), "--create", "--schema", declared).code == 0
    types = [str(field.type) for field in warehouse.lake.table("db.b").schema]
    assert types == ["int", "string", "timestamp", "boolean", "double"]
    Path("b.csv").write_text("1;x\n2;-\n")
    options = ("--no-header", "--delimiter", ";", "--null", "-", "--schema", "id int, name string")
    assert run("load", "b.csv", *warehouse.arguments("db.c"), "--create", *options).code == 0
    assert [row["name"] for row in rows_of(warehouse.lake.table("db.c"))] == ["x", None]
    assert run("load", "b.csv", *warehouse.arguments("db.d"), "--create", "--no-header").code == 1


def test_a_namespace_needs_consent_and_is_dropped_if_the_load_fails(run: Floe, warehouse: Warehouse) -> None:
    file = write(Path("new.csv"), NEW)
    refused = run("load", file, *warehouse.arguments("raw.new"), "--create")
    assert (refused.code, refused.err.splitlines()[1]) == (1, "hint: --yes creates it, with the table")
    assert not warehouse.lake.namespace_exists("raw")
    broken = run("load", file, *warehouse.arguments("raw.new"), "--create", "--yes", "--partition-by", "day(nothing)")
    assert broken.code == 1
    assert not warehouse.lake.namespace_exists("raw")
    assert run("load", file, *warehouse.arguments("raw.new"), "--create", "--yes").code == 0
    assert ids(warehouse.lake.table("raw.new")) == [8, 9, 10, 11]


def test_a_path_can_be_created_too(run: Floe) -> None:
    file = write(Path("new.csv"), NEW)
    assert run("load", file, "warehouse/db/new", "--create", "--yes").code == 0
    assert ids(floe.open("warehouse/db/new")) == [8, 9, 10, 11]
    assert ids(floe.connect("./warehouse").table("db.new")) == [8, 9, 10, 11]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,customer\n20,x\nabc,y\n", "invalid value 'abc'"),
        ("id,extra\n20,x\n", "extra is not in the table"),
        ("customer\nx\n", "id"),
        ("id,amount\n1,1.234\n", "data loss"),
        ("id,id\n1,2\n", "two columns 'id'"),
        ("", "empty"),
    ],
)
def test_what_does_not_fit_leaves_the_table_as_it_was(
    run: Floe, warehouse: Warehouse, orders: Table, text: str, message: str
) -> None:
    good, bad = write(Path("good.parquet"), NEW), Path("bad.csv")
    bad.write_text(text)
    before = {*Path(orders.location.removeprefix("file://")).rglob("*.parquet")}
    done = run("load", bad, *warehouse.arguments("db.orders"))
    assert done.code == 1
    assert message.lower() in done.err.lower()
    assert "Traceback" not in done.err
    assert "defect" not in done.err
    assert run("load", good, bad, *warehouse.arguments("db.orders")).code == 1
    assert rows_of(orders) == FIRST + SECOND
    assert {*Path(orders.location.removeprefix("file://")).rglob("*.parquet")} == before


def test_merge_schema_adds_columns(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    Path("a.csv").write_text("id,extra\n20,x\n")
    assert "use --merge-schema" in run("load", "a.csv", *warehouse.arguments("db.orders")).err
    assert run("load", "a.csv", *warehouse.arguments("db.orders"), "--merge-schema").code == 0
    assert rows_of(orders)[-1]["extra"] == "x"
    Path("b.jsonl").write_text('{"id": 21, "other": 1.5}\n')
    assert run("load", "b.jsonl", *warehouse.arguments("db.orders"), "--merge-schema").code == 0
    assert rows_of(orders)[-1]["other"] == 1.5


def test_an_upsert_may_add_columns(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    Path("a.csv").write_text("id,seen\n1,5\n")
    upsert = ("load", "a.csv", *warehouse.arguments("db.orders"), "--mode", "upsert", "--on", "id")
    assert "use --merge-schema" in run(*upsert).err
    assert run(*upsert, "--merge-schema").code == 0
    assert orders.refresh().scan(where="seen = 5", columns=["id"]).to_arrow().to_pylist() == [{"id": 1}]


def test_timestamps_of_pandas_become_microseconds_unless_that_loses_something(run: Floe, warehouse: Warehouse) -> None:
    warehouse.lake.create_namespace("db")
    pq.write_table(pa.table({"at": pa.array([1_000, 2_000], pa.timestamp("ns"))}), "exact.parquet")
    pq.write_table(pa.table({"at": pa.array([1_001], pa.timestamp("ns"))}), "fine.parquet")
    assert run("load", "exact.parquet", *warehouse.arguments("db.a"), "--create").code == 0
    assert str(warehouse.lake.table("db.a").schema.fields[0].type) == "timestamp"
    lost = run("load", "fine.parquet", *warehouse.arguments("db.b"), "--create")
    assert lost.code == 1
    assert "--format-version 3" in lost.err
    assert run("load", "fine.parquet", *warehouse.arguments("db.b"), "--create", "--format-version", "3").code == 0
    assert str(warehouse.lake.table("db.b").schema.fields[0].type) == "timestamp_ns"


def test_what_scan_writes_load_reads(run: Floe, warehouse: Warehouse) -> None:
    """Nested values, UUIDs, bytes and timestamps go through CSV, JSON lines and Parquet and come back equal."""
    warehouse.lake.create_namespace("db")
    columns = (
        "id int, word string, at timestamptz, u uuid, b binary, place struct<city: string, zip: int>, "
        "tags list<string>, m map<string, int>, price decimal(20, 4)"
    )
    table = warehouse.lake.create_table("db.t", columns)
    table.append(
        [
            {"id": 1, "word": 'a "b", c', "at": "2024-05-17T10:00:00.123456Z", "price": Decimal("12345678901234.5678"),
             "u": "f79c3e09-677c-4bbd-a479-3f349cb785e7", "b": b"\x00ice", "place": {"city": "Zürich", "zip": None},
             "tags": ["a", None], "m": {"x": 1}},
            {"id": 2, "word": ""},
        ]
    )  # fmt: skip
    for kind in ("csv", "jsonl", "parquet"):
        assert run("scan", *warehouse.arguments("db.t"), "-o", f"all.{kind}").code == 0
        copy = warehouse.lake.create_table(f"db.{kind}", columns)
        done = run("load", f"all.{kind}", *warehouse.arguments(f"db.{kind}"))
        assert done.code == 0, done.err
        assert rows_of(copy) == rows_of(table), kind


def test_json_lines_into_timestamps(run: Floe, warehouse: Warehouse) -> None:
    """Texts become timestamps exactly; a zone is needed where the column has one, and refused where it has none."""
    warehouse.lake.create_namespace("db")
    table = warehouse.lake.create_table("db.t", "id int, at timestamptz, local timestamp, day date, clock time")
    name = warehouse.arguments("db.t")
    good = b'{"id": 1, "at": "2024-05-17T12:00:00+02:00", "local": "2024-05-17 10:00:00.5", "day": "2024-05-17"}\n'
    assert run("load", "-", *name, "-f", "jsonl", stdin=good + b'{"id": 2, "clock": "10:30:00"}\n').code == 0
    assert rows_of(table) == [
        {
            "id": 1,
            "at": dt.datetime(2024, 5, 17, 10, tzinfo=dt.UTC),
            "local": dt.datetime(2024, 5, 17, 10, 0, 0, 500_000),
            "day": dt.date(2024, 5, 17),
            "clock": None,
        },
        {"id": 2, "at": None, "local": None, "day": None, "clock": dt.time(10, 30)},
    ]
    for text, message in (
        ('{"at": "2024-05-17T10:00:00"}', "has no time zone"),
        ('{"local": "2024-05-17T10:00:00Z"}', "has a time zone"),
        ('{"day": "17.5.2024"}', "17.5.2024"),
        ('{"id": 1.5}', "1.5"),
        ('{"id": 1, }', "JSON"),
    ):
        done = run("load", "-", *name, "-f", "jsonl", stdin=text.encode() + b"\n")
        assert done.code == 1, text
        assert message in done.err
        assert "defect" not in done.err
    assert len(rows_of(table)) == 2


# as files come --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "arguments", "rows"),
    [
        ("id;price\n1;2,50\n2;3,75\n", (), [(1, "2,50"), (2, "3,75")]),
        ("id\tprice\n1\t2\n", (), [(1, 2)]),
        ("id|price\n1|2\n", (), [(1, 2)]),
        ('id,"a;b;c"\n1,"x;y"\n', (), [(1, "x;y")]),
        ("id;price,x\n1;2,3\n", ("--delimiter", ","), [("1;2", 3)]),
        ("id\n1\n2\n", (), [(1,), (2,)]),
    ],
    ids=repr,
)
def test_the_delimiter_is_detected(run: Floe, text: str, arguments: tuple[str, ...], rows: list[Any]) -> None:
    Path("a.csv").write_text(text)
    done = run("load", "a.csv", "warehouse/db/t", "--create", "--yes", *arguments)
    assert done.code == 0, done.err
    assert [tuple(row.values()) for row in floe.open("warehouse/db/t").scan().to_arrow().to_pylist()] == rows


def test_errors_of_lines_name_the_delimiter(run: Floe) -> None:
    Path("a.csv").write_text("id,note\n1,a\n2,b,c\n")
    done = run("load", "a.csv", "warehouse/db/t", "--create", "--yes")
    assert done.code == 1
    assert "the delimiter is taken to be ','" in done.err
    assert "--delimiter" in done.err


@pytest.mark.parametrize("schema", [(), ("--schema", "id bigint, at timestamptz")], ids=["inferred", "given"])
@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_a_list_of_objects_is_read(run: Floe, schema: tuple[str, ...], name: str) -> None:
    text = b'\n [{"id": 1,\n "at": "2024-05-17T10:00:00Z"},{"id": 2, "at": null}]\n'
    Path(name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    done = run("load", name, "warehouse/db/t", "--create", "--yes", *schema)
    assert done.code == 0, done.err
    assert floe.open("warehouse/db/t").scan().to_arrow()["id"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [("[1, 2]", "element 1 of the list is not an object: 1"), ('[{"id": 1},', "the list is not valid JSON")],
)
def test_other_lists_are_refused(run: Floe, text: str, message: str) -> None:
    Path("a.json").write_text(text)
    done = run("load", "a.json", "warehouse/db/t", "--create", "--yes")
    assert done.code == 1
    assert message in done.err


def test_unknown_commands_are_answered_with_advice(run: Floe) -> None:
    for typed, advice in (
        ("lod", "Did you mean load?"),
        ("compact", ""),
        ("sql", "SQL runs on Spark"),
        ("expire", "Expire snapshots"),
    ):
        done = run(typed, "warehouse/db/t")
        assert done.code == 2
        words = " ".join(done.err.split())
        assert f"There is no command '{typed}'. {advice}".strip() in words
        assert "Commands are ls, show, history, head, scan, load, doctor, demo." in words
