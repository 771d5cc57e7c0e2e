"""`floe doctor`: every ailment that a table can have is found, and a sound table has none."""

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import floe
from floe import Table
from helpers.cli_lakes import Floe, Warehouse


def findings(run: Floe, *name: object) -> dict[str, list[dict[str, Any]]]:
    done = run("doctor", *name, "--json")
    document = done.json
    assert document["healthy"] == (done.code == 0) == all(one["level"] != "error" for one in document["findings"])
    found: dict[str, list[dict[str, Any]]] = {}
    for one in document["findings"]:
        found.setdefault(one["about"], []).append(one)
    return found


def worst(found: dict[str, list[dict[str, Any]]], about: str) -> str:
    levels = ["ok", "note", "warning", "error"]
    return max((one["level"] for one in found[about]), key=levels.index)


def local(path: str) -> Path:
    return Path(path.removeprefix("file://"))


@pytest.mark.parametrize("depth", [(), ("--full",)])
def test_a_sound_table_is_well(run: Floe, warehouse: Warehouse, orders: Table, depth: tuple[str, ...]) -> None:
    found = findings(run, *warehouse.named("db.orders"), *depth)
    assert {one["level"] for many in found.values() for one in many} == {"ok"}
    done = run("doctor", *warehouse.named("db.orders"), *depth)
    assert (done.code, done.lines[-1]) == (0, "no problems found")
    assert all(line.startswith("ok") for line in done.lines[:-1])


def test_a_file_that_is_lost_and_one_that_was_cut(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    lost, cut = (local(path) for path in orders.scan().files())
    lost.unlink()
    os.truncate(cut, 10)
    found = findings(run, *warehouse.named("db.orders"))
    texts = " ".join(one["text"] for one in found["files"])
    assert "1 of 2 are missing" in texts
    assert lost.name in texts
    assert "1 of 2 differ" in texts
    assert "10 bytes" in texts
    assert all(one["advice"] for one in found["files"])
    assert run("doctor", *warehouse.named("db.orders")).lines[-1] == "2 errors"


def test_a_file_of_an_old_snapshot_is_looked_for_with_full(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    gone = next(path for path in orders.scan().files() if "2024-05-17" in path)
    orders.delete("day = '2024-05-17'")
    local(gone).unlink()
    assert worst(findings(run, *warehouse.named("db.orders")), "files") == "ok"
    assert worst(findings(run, *warehouse.named("db.orders"), "--full"), "files") == "error"


def test_a_manifest_that_is_lost(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    local(orders.inspect.manifests()["path"][0].as_py()).unlink()
    assert worst(findings(run, *warehouse.named("db.orders")), "manifests") == "error"


def test_metadata_that_cannot_be_read(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    local(orders.metadata_location).write_text('{"format-version": 2')
    done = run("doctor", *warehouse.named("db.orders"))
    assert done.code == 1
    assert "Traceback" not in done.err
    assert worst(findings(run, "--catalog", warehouse.uri), "table db.orders") == "error"


def test_many_small_files_and_many_deletes(run: Floe, warehouse: Warehouse) -> None:
    warehouse.lake.create_namespace("db")
    table = warehouse.lake.create_table("db.t", "id int, part int", partition_by=["part"], format_version=3)
    for n in range(3):
        table.append(pa.table({"id": pa.array(range(n, n + 9), pa.int32()), "part": pa.array(range(9), pa.int32())}))
    name = warehouse.named("db.t")
    assert "small files" not in findings(run, *name), "18 of them could be joined, which is not many"
    table.append(pa.table({"id": pa.array(range(9), pa.int32()), "part": pa.array(range(9), pa.int32())}))
    assert worst(findings(run, *name), "small files") == "warning"
    assert "deletes" not in findings(run, *name)
    kept = warehouse.lake.create_table("db.kept", "id int", format_version=3)
    kept.append(pa.table({"id": pa.array(range(100), pa.int32())}))
    kept.delete("id < 5", options={"write.delete.mode": "merge-on-read"})
    assert "deletes" not in findings(run, *warehouse.named("db.kept"))
    kept.delete("id < 20", options={"write.delete.mode": "merge-on-read"})
    (found,) = findings(run, *warehouse.named("db.kept"))["deletes"]
    assert found["level"] == "warning"
    assert "20 of 100 rows" in found["text"]


def test_files_without_bounds(run: Floe, warehouse: Warehouse) -> None:
    warehouse.lake.create_namespace("db")
    table = warehouse.lake.create_table("db.t", "id int", properties={"write.metadata.metrics.default": "none"})
    table.append([{"id": 1}])
    (found,) = findings(run, *warehouse.named("db.t"))["statistics"]
    assert (found["level"], found["text"][:6]) == ("note", "1 of 1")


def test_old_snapshots_and_orphans(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    orders.set_properties({"history.expire.max-snapshot-age-ms": "1"})
    folder = local(orders.location)
    (folder / "metadata" / "left-over.avro").write_bytes(b"x" * 1000)
    (folder / "data" / "left-over.parquet").write_bytes(b"x" * 1000)
    name = warehouse.named("db.orders")
    assert "orphans" not in findings(run, *name), "they are young, and may belong to somebody at work"
    old = time.time() - 7200
    for path in folder.rglob("left-over.*"):
        os.utime(path, (old, old))
    found = findings(run, *name)
    assert found["orphans"][0]["text"].startswith("1 file that nothing refers to, 1.0 kB: ")
    assert found["orphans"][0]["level"] == "note"
    assert findings(run, *name, "--full")["orphans"][0]["text"].startswith("2 files")
    assert "may expire" not in found["snapshots"][0]["text"], "a tag and main hold both snapshots"
    orders.drop_tag("first")
    assert "1 may expire" in findings(run, *name)["snapshots"][0]["text"]


def test_very_many_snapshots(run: Floe, warehouse: Warehouse, orders: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    name = warehouse.named("db.orders")
    assert worst(findings(run, *name), "snapshots") == "ok"
    monkeypatch.setattr("floe.cli.checks._MANY_SNAPSHOTS", len(orders.snapshots))
    (found,) = findings(run, *name)["snapshots"]
    assert found["level"] == "warning"
    assert found["text"].startswith(f"{len(orders.snapshots)}, the oldest")
    assert "t.expire(" in found["advice"]


def test_a_table_of_version_1_and_a_change_to_come(run: Floe, tmp_path: Path) -> None:
    lake = floe.connect(tmp_path / "wh")
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id int", format_version=1)
    path = Path(table.metadata_location)
    path.write_text(path.read_text().replace(str(table.metadata.last_updated_ms), str(2_000_000_000_000)))
    found = findings(run, tmp_path / "wh/db/t")
    assert worst(found, "format version") == "note"
    assert worst(found, "clock") == "warning"


def test_the_installation_and_the_catalogs(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    found = findings(run)
    assert found["Floe"][0]["text"] == floe.__version__
    assert pa.__version__ in found["libraries"][0]["text"]
    assert "0 catalogs" in found["settings"][0]["text"]
    Path("floe.toml").write_text(
        f'default = "gone"\n[catalog.here]\nuri = "{warehouse.uri}"\n'
        '[catalog.there]\nuri = "postgresql://me:hunter2@127.0.0.1:1/db"\n'
    )
    found = findings(run)
    assert worst(found, "settings") == "error", "the default catalog is not described"
    assert worst(found, "catalog here") == "ok"
    assert worst(found, "catalog there") == "error"
    assert "hunter2" not in run("doctor").out
    Path("floe.toml").write_text("no toml")
    assert worst(findings(run), "settings") == "error"


def test_a_catalog_as_a_whole(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    found = findings(run, "--catalog", warehouse.uri)
    assert "1 table can be read" in found["tables"][0]["text"]
    nothing = run("doctor", "nothing/here")
    assert (nothing.code, nothing.out) == (1, "")
    assert "there is no table" in nothing.err
