"""`floe ls`, `show` and `history`: what a catalog and a table are, for people and for programs."""

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
    assert [one["name"] for one in run("ls", "db", "-c", warehouse.uri, "--json").json] == ["db.orders"]
    missing = run("ls", "bd", "-c", warehouse.uri)
    assert (missing.code, missing.out) == (1, "")
    assert "there is no namespace bd" in missing.err


def test_ls_long_tells_sizes(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    (found,) = (one for one in run("ls", "-l", warehouse.uri, "--json").json if one["kind"] == "table")
    files = orders.inspect.files()
    assert found["rows"] == len(FIRST) + len(SECOND)
    assert found["data_files"] == files.num_rows
    assert found["bytes"] == sum(files["file_size_in_bytes"].to_pylist())
    assert (found["delete_files"], found["error"]) == (0, None)
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
    errors = {one["name"]: one.get("error") for one in done.json}
    assert done.code == 1
    assert errors["db.a"] is None
    assert "JSON" in errors["db.b"]


def test_ls_without_a_place_lists_the_default_catalog_or_the_catalogs(
    run: Floe, warehouse: Warehouse, orders: Table
) -> None:
    nothing = run("ls")
    assert nothing.code == 1
    assert "floe.toml" in nothing.err
    one = f'[catalog.one]\nuri = "{warehouse.uri}"\nname = "default"\n'  # the name that the tables are under
    Path("floe.toml").write_text(one)
    assert "db.orders" in run("ls").out
    Path("floe.toml").write_text(one + '[catalog.two]\nuri = "postgresql://me:hunter2@h/d"\n')
    found = run("ls", "--json").json
    assert [one["name"] for one in found] == ["one", "two"]
    assert "hunter2" not in run("ls").out + run("ls", "--json").out


def test_show_tells_everything_about_a_table(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    text = run("show", *warehouse.named("db.orders")).out
    for part in ("format version 2", "customer  string", "amount    decimal(9, 2)", "owner = tests", "first", "7 rows"):
        assert part in text
    assert "hunter2" not in text
    found = run("show", *warehouse.named("db.orders"), "--json").json
    assert found["name"] == "db.orders"
    assert found["columns"][0] == {"id": 1, "name": "id", "type": "long", "required": True, "doc": None}
    assert (found["partition_by"], found["sort_by"]) == (["day"], ["id"])
    assert found["refs"]["first"] == {"kind": "tag", "snapshot_id": orders.snapshots[0].snapshot_id}
    assert found["snapshot"]["id"] == orders.snapshots[1].snapshot_id
    assert found["snapshot"]["rows"] == 7
    assert found["metadata_location"] == orders.metadata_location
    assert found["properties"]["my.password"] == "***"


def test_show_tells_about_a_view(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    warehouse.lake.create_view("db.big", "SELECT id FROM orders", schema="id bigint")
    assert "SELECT id FROM orders" in run("show", *warehouse.named("db.big")).out
    assert run("show", *warehouse.named("db.big"), "--json").json["sql"] == {"spark": "SELECT id FROM orders"}


def test_history_tells_what_happened_newest_first(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    first, second = orders.snapshots
    orders.branch("audit", create=True).append([{"id": 100}])
    orders.rollback(to=first.snapshot_id)
    found = run("history", *warehouse.named("db.orders"), "--json").json
    assert [(one["operation"], one["snapshot_id"]) for one in found] == [
        ("rollback", first.snapshot_id),
        ("append", orders.refs["audit"].snapshot_id),
        ("append", second.snapshot_id),
        ("append", first.snapshot_id),
    ]
    assert [one["in_current"] for one in found] == [True, False, False, True]
    assert [one["rows_added"] for one in found[1:]] == [1, 3, 4]
    assert found[0]["refs"] == ["main", "first"]
    assert found[1]["refs"] == ["audit"]
    assert found[0]["time"].endswith("Z")
    text = run("history", *warehouse.named("db.orders"))
    assert text.lines[0].split() == ["snapshot", "time", "operation", "added", "rows", "main", "refs"]
    assert text.lines[1].split()[-4:] == ["yes", "main,", "tag", "first"]


def test_what_a_transaction_did_comes_in_its_order(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    with orders.transaction() as tx:
        tx.append(FIRST)
        tx.delete("true")
    found = run("history", *warehouse.named("db.orders"), "--json").json
    assert [one["operation"] for one in found[:3]] == ["delete", "append", "append"]
    assert found[0]["refs"] == ["main"]
    assert found[0]["time"] == found[1]["time"]


def test_history_of_a_branch_and_its_end(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    only = run("history", *warehouse.named("db.orders"), "--ref", "first", "--json").json
    assert [one["snapshot_id"] for one in only] == [orders.snapshots[0].snapshot_id]
    assert len(run("history", *warehouse.named("db.orders"), "-n", "1", "--json").json) == 1
    wrong = run("history", *warehouse.named("db.orders"), "--ref", "frist")
    assert (wrong.code, wrong.err.splitlines()[1]) == (1, "hint: did you mean first?")


def test_history_counts_rows_that_deletion_vectors_remove(run: Floe, warehouse: Warehouse) -> None:
    warehouse.lake.create_namespace("db")
    table = warehouse.lake.create_table("db.t", "id int", format_version=3)
    table.append([{"id": n} for n in range(10)])
    table.delete("id in (2, 3)", options={"write.delete.mode": "merge-on-read"})
    table.delete("id = 4", options={"write.delete.mode": "merge-on-read"})
    found = run("history", *warehouse.named("db.t"), "--json").json
    assert [one["rows_removed"] for one in found] == [1, 2, 0]


def test_a_table_without_rows(run: Floe, warehouse: Warehouse) -> None:
    warehouse.lake.create_namespace("db")
    warehouse.lake.create_table("db.t", "id int")
    assert "no snapshot yet" in run("history", *warehouse.named("db.t")).out
    assert run("history", *warehouse.named("db.t"), "--json").json == []
    assert run("head", *warehouse.named("db.t")).out == "id\n"
    assert run("scan", *warehouse.named("db.t"), "--json").json == []


@pytest.mark.parametrize("command", ["show", "history", "head", "scan"])
def test_mistakes_are_told_with_what_was_meant(run: Floe, warehouse: Warehouse, orders: Table, command: str) -> None:
    wrong = run(command, *warehouse.named("db.ordrs"))
    assert (wrong.code, wrong.out) == (1, "")
    assert wrong.err.splitlines()[0].startswith("error: there is no table db.ordrs")
    assert wrong.err.splitlines()[1] == "hint: did you mean db.orders?"
    assert "Traceback" not in wrong.err
    assert "Traceback" in run(command, *warehouse.named("db.ordrs"), "--debug").err
