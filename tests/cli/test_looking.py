"""`floe ls`, `show` and `history`: catalogs and tables, as text and as JSON."""

from pathlib import Path

import pytest

from floe import Table
from helpers.cli_lakes import FIRST, SECOND, Floe, Warehouse


def test_ls_lists_namespaces_tables_and_views(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    warehouse.lake.create_namespace("empty")
    warehouse.lake.create_view("db.big", "SELECT 1 AS one", schema="one int")
    done = run("ls", warehouse.uri)
    assert done.code == 0
    assert [line.split() for line in done.lines] == [
        ["name", "kind"],
        ["db", "namespace"],
        ["db.big", "view"],
        ["db.orders", "table"],
        ["empty", "namespace"],
    ]
    assert run("ls", warehouse.uri, "--json").json[0] == {"name": "db", "kind": "namespace"}


def test_ls_of_a_namespace(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    assert [entry["name"] for entry in run("ls", "db", "-c", warehouse.uri, "--json").json] == ["db.orders"]
    missing = run("ls", "bd", "-c", warehouse.uri)
    assert (missing.code, missing.out) == (1, "")
    assert "there is no namespace bd" in missing.err


def test_ls_long_lists_sizes(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    (entry,) = (entry for entry in run("ls", "-l", warehouse.uri, "--json").json if entry["kind"] == "table")
    files = orders.inspect.files()
    assert entry["rows"] == len(FIRST) + len(SECOND)
    assert entry["data_files"] == files.num_rows
    assert entry["bytes"] == sum(files["file_size_in_bytes"].to_pylist())
    assert (entry["delete_files"], entry["error"]) == (0, None)
    plain = run("ls", "-l", warehouse.uri)
    assert next(line for line in plain.lines if line.startswith("db.orders")).split()[:4] == [
        "db.orders", "table", "7", "2",
    ]  # fmt: skip


def test_ls_goes_on_after_a_table_that_cannot_be_read(run: Floe, tmp_path: Path) -> None:
    import floe

    lake = floe.connect(tmp_path / "wh")
    lake.create_namespace("db")
    lake.create_table("db.a", "id int")
    (Path(lake.create_table("db.b", "id int").metadata_location)).write_text("{")
    done = run("ls", "-l", tmp_path / "wh", "--json")
    errors = {entry["name"]: entry.get("error") for entry in done.json}
    assert done.code == 1
    assert errors["db.a"] is None
    assert "JSON" in errors["db.b"]


def test_ls_without_a_name_lists_the_default_catalog_or_the_catalogs(
    run: Floe, warehouse: Warehouse, orders: Table
) -> None:
    done = run("ls")
    assert done.code == 1
    assert "floe.toml" in done.err
    section = f'[catalog.one]\nuri = "{warehouse.uri}"\nname = "default"\n'  # the catalog name in the database
    Path("floe.toml").write_text(section)
    assert "db.orders" in run("ls").out
    Path("floe.toml").write_text(section + '[catalog.two]\nuri = "postgresql://me:hunter2@h/d"\n')
    catalogs = run("ls", "--json").json
    assert [catalog["name"] for catalog in catalogs] == ["one", "two"]
    assert "hunter2" not in run("ls").out + run("ls", "--json").out


def test_show_describes_a_table(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    text = run("show", *warehouse.arguments("db.orders")).out
    for part in ("format version 2", "customer  string", "amount    decimal(9, 2)", "owner = tests", "first", "7 rows"):
        assert part in text
    assert "hunter2" not in text
    document = run("show", *warehouse.arguments("db.orders"), "--json").json
    assert document["name"] == "db.orders"
    assert document["columns"][0] == {"id": 1, "name": "id", "type": "long", "required": True, "doc": None}
    assert (document["partition_by"], document["sort_by"]) == (["day"], ["id"])
    assert document["refs"]["first"] == {"kind": "tag", "snapshot_id": orders.snapshots[0].snapshot_id}
    assert document["snapshot"]["id"] == orders.snapshots[1].snapshot_id
    assert document["snapshot"]["rows"] == 7
    assert document["metadata_location"] == orders.metadata_location
    assert document["properties"]["my.password"] == "***"


def test_show_describes_a_view(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    warehouse.lake.create_view("db.big", "SELECT id FROM orders", schema="id bigint")
    assert "SELECT id FROM orders" in run("show", *warehouse.arguments("db.big")).out
    assert run("show", *warehouse.arguments("db.big"), "--json").json["sql"] == {"spark": "SELECT id FROM orders"}


def test_history_lists_events_newest_first(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    first, second = orders.snapshots
    orders.branch("audit", create=True).append([{"id": 100}])
    orders.rollback(to=first.snapshot_id)
    events = run("history", *warehouse.arguments("db.orders"), "--json").json
    assert [(event["operation"], event["snapshot_id"]) for event in events] == [
        ("rollback", first.snapshot_id),
        ("append", orders.refs["audit"].snapshot_id),
        ("append", second.snapshot_id),
        ("append", first.snapshot_id),
    ]
    assert [event["in_current"] for event in events] == [True, False, False, True]
    assert [event["rows_added"] for event in events[1:]] == [1, 3, 4]
    assert events[0]["refs"] == ["main", "first"]
    assert events[1]["refs"] == ["audit"]
    assert events[0]["time"].endswith("Z")
    text = run("history", *warehouse.arguments("db.orders"))
    assert text.lines[0].split() == ["snapshot", "time", "operation", "added", "rows", "main", "refs"]
    assert text.lines[1].split()[-4:] == ["yes", "main,", "tag", "first"]


def test_snapshots_of_a_transaction_are_in_order(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    with orders.transaction() as tx:
        tx.append(FIRST)
        tx.delete("true")
    events = run("history", *warehouse.arguments("db.orders"), "--json").json
    assert [event["operation"] for event in events[:3]] == ["delete", "append", "append"]
    assert events[0]["refs"] == ["main"]
    assert events[0]["time"] == events[1]["time"]


def test_history_of_a_ref_and_its_limit(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    events = run("history", *warehouse.arguments("db.orders"), "--ref", "first", "--json").json
    assert [event["snapshot_id"] for event in events] == [orders.snapshots[0].snapshot_id]
    assert len(run("history", *warehouse.arguments("db.orders"), "-n", "1", "--json").json) == 1
    wrong = run("history", *warehouse.arguments("db.orders"), "--ref", "frist")
    assert (wrong.code, wrong.err.splitlines()[1]) == (1, "hint: did you mean first?")


def test_history_counts_rows_that_deletion_vectors_remove(run: Floe, warehouse: Warehouse) -> None:
    warehouse.lake.create_namespace("db")
    table = warehouse.lake.create_table("db.t", "id int", format_version=3)
    table.append([{"id": n} for n in range(10)])
    table.delete("id in (2, 3)", options={"write.delete.mode": "merge-on-read"})
    table.delete("id = 4", options={"write.delete.mode": "merge-on-read"})
    events = run("history", *warehouse.arguments("db.t"), "--json").json
    assert [event["rows_removed"] for event in events] == [1, 2, 0]


def test_a_table_without_rows(run: Floe, warehouse: Warehouse) -> None:
    warehouse.lake.create_namespace("db")
    warehouse.lake.create_table("db.t", "id int")
    assert "no snapshot yet" in run("history", *warehouse.arguments("db.t")).out
    assert run("history", *warehouse.arguments("db.t"), "--json").json == []
    assert run("head", *warehouse.arguments("db.t")).out == "id\n"
    assert run("scan", *warehouse.arguments("db.t"), "--json").json == []


@pytest.mark.parametrize("command", ["show", "history", "head", "scan"])
def test_unknown_tables_are_reported_with_a_similar_name(
    run: Floe, warehouse: Warehouse, orders: Table, command: str
) -> None:
    wrong = run(command, *warehouse.arguments("db.ordrs"))
    assert (wrong.code, wrong.out) == (1, "")
    assert wrong.err.splitlines()[0].startswith("error: there is no table db.ordrs")
    assert wrong.err.splitlines()[1] == "hint: did you mean db.orders?"
    assert "Traceback" not in wrong.err
    assert "Traceback" in run(command, *warehouse.arguments("db.ordrs"), "--debug").err
