"""`floe doctor`: the problems of a table are reported, and a healthy table has none."""

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
    assert (
        document["healthy"] == (done.code == 0) == all(finding["level"] != "error" for finding in document["findings"])
    )
    by_subject: dict[str, list[dict[str, Any]]] = {}
    for finding in document["findings"]:
        by_subject.setdefault(finding["about"], []).append(finding)
    return by_subject


def worst_level(report: dict[str, list[dict[str, Any]]], about: str) -> str:
    levels = ["ok", "note", "warning", "error"]
    return max((finding["level"] for finding in report[about]), key=levels.index)


def local(path: str) -> Path:
    return Path(path.removeprefix("file://"))


@pytest.mark.parametrize("depth", [(), ("--full",)])
def test_a_healthy_table_has_no_problems(
    run: Floe, warehouse: Warehouse, orders: Table, depth: tuple[str, ...]
) -> None:
    report = findings(run, *warehouse.arguments("db.orders"), *depth)
    assert {finding["level"] for subject in report.values() for finding in subject} == {"ok"}
    done = run("doctor", *warehouse.arguments("db.orders"), *depth)
    assert (done.code, done.lines[-1]) == (0, "no problems found")
    assert all(line.startswith("ok") for line in done.lines[:-1])


def test_a_missing_file_and_a_truncated_file(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    missing, truncated = (local(path) for path in orders.scan().files())
    missing.unlink()
    os.truncate(truncated, 10)
    report = findings(run, *warehouse.arguments("db.orders"))
    texts = " ".join(finding["text"] for finding in report["files"])
    assert "1 of 2 are missing" in texts
    assert missing.name in texts
    assert "1 of 2 differ" in texts
    assert "10 bytes" in texts
    assert all(finding["advice"] for finding in report["files"])
    assert run("doctor", *warehouse.arguments("db.orders")).lines[-1] == "2 errors"


def test_files_of_old_snapshots_are_checked_with_full(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    removed = next(path for path in orders.scan().files() if "2024-05-17" in path)
    orders.delete("day = '2024-05-17'")
    local(removed).unlink()
    assert worst_level(findings(run, *warehouse.arguments("db.orders")), "files") == "ok"
    assert worst_level(findings(run, *warehouse.arguments("db.orders"), "--full"), "files") == "error"


def test_a_missing_manifest(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    local(orders.inspect.manifests()["path"][0].as_py()).unlink()
    assert worst_level(findings(run, *warehouse.arguments("db.orders")), "manifests") == "error"


def test_metadata_that_cannot_be_read(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    local(orders.metadata_location).write_text('{"format-version": 2')
    done = run("doctor", *warehouse.arguments("db.orders"))
    assert done.code == 1
    assert "Traceback" not in done.err
    assert worst_level(findings(run, "--catalog", warehouse.uri), "table db.orders") == "error"


def test_many_small_files_and_many_deletes(run: Floe, warehouse: Warehouse) -> None:
    warehouse.lake.create_namespace("db")
    table = warehouse.lake.create_table("db.t", "id int, part int", partition_by=["part"], format_version=3)
    for n in range(3):
        table.append(pa.table({"id": pa.array(range(n, n + 9), pa.int32()), "part": pa.array(range(9), pa.int32())}))
    name = warehouse.arguments("db.t")
    assert "small files" not in findings(run, *name), "18 files could be merged, which is below the threshold"
    table.append(pa.table({"id": pa.array(range(9), pa.int32()), "part": pa.array(range(9), pa.int32())}))
    assert worst_level(findings(run, *name), "small files") == "warning"
    assert "deletes" not in findings(run, *name)
    table = warehouse.lake.create_table("db.deleted_from", "id int", format_version=3)
    table.append(pa.table({"id": pa.array(range(100), pa.int32())}))
    table.delete("id < 5", options={"write.delete.mode": "merge-on-read"})
    assert "deletes" not in findings(run, *warehouse.arguments("db.deleted_from"))
    table.delete("id < 20", options={"write.delete.mode": "merge-on-read"})
    (finding,) = findings(run, *warehouse.arguments("db.deleted_from"))["deletes"]
    assert finding["level"] == "warning"
    assert "20 of 100 rows" in finding["text"]


def test_files_without_bounds(run: Floe, warehouse: Warehouse) -> None:
    warehouse.lake.create_namespace("db")
    table = warehouse.lake.create_table("db.t", "id int", properties={"write.metadata.metrics.default": "none"})
    table.append([{"id": 1}])
    (finding,) = findings(run, *warehouse.arguments("db.t"))["statistics"]
    assert (finding["level"], finding["text"][:6]) == ("note", "1 of 1")


def test_old_snapshots_and_orphans(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    orders.set_properties({"history.expire.max-snapshot-age-ms": "1"})
    folder = local(orders.location)
    (folder / "metadata" / "orphan.avro").write_bytes(b"x" * 1000)
    (folder / "data" / "orphan.parquet").write_bytes(b"x" * 1000)
    name = warehouse.arguments("db.orders")
    assert "orphans" not in findings(run, *name), "they are recent, and may belong to a commit in progress"
    old = time.time() - 7200
    for path in folder.rglob("orphan.*"):
        os.utime(path, (old, old))
    report = findings(run, *name)
    assert report["orphans"][0]["text"].startswith("1 file that nothing refers to, 1.0 kB: ")
    assert report["orphans"][0]["level"] == "note"
    assert findings(run, *name, "--full")["orphans"][0]["text"].startswith("2 files")
    assert "may expire" not in report["snapshots"][0]["text"], "a tag and main refer to both snapshots"
    orders.drop_tag("first")
    assert "1 may expire" in findings(run, *name)["snapshots"][0]["text"]


def test_very_many_snapshots(run: Floe, warehouse: Warehouse, orders: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    name = warehouse.arguments("db.orders")
    assert worst_level(findings(run, *name), "snapshots") == "ok"
    monkeypatch.setattr("floe.cli.checks._MANY_SNAPSHOTS", len(orders.snapshots))
    (finding,) = findings(run, *name)["snapshots"]
    assert finding["level"] == "warning"
    assert finding["text"].startswith(f"{len(orders.snapshots)}, the oldest")
    assert "t.expire(" in finding["advice"]


def test_format_version_1_and_a_change_in_the_future(run: Floe, tmp_path: Path) -> None:
    lake = floe.connect(tmp_path / "wh")
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id int", format_version=1)
    path = Path(table.metadata_location)
    path.write_text(path.read_text().replace(str(table.metadata.last_updated_ms), str(2_000_000_000_000)))
    report = findings(run, tmp_path / "wh/db/t")
    assert worst_level(report, "format version") == "note"
    assert worst_level(report, "clock") == "warning"


def test_the_installation_and_the_catalogs(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    report = findings(run)
    assert report["Floe"][0]["text"] == floe.__version__
    assert pa.__version__ in report["libraries"][0]["text"]
    assert "0 catalogs" in report["settings"][0]["text"]
    Path("floe.toml").write_text(
        f'default = "gone"\n[catalog.here]\nuri = "{warehouse.uri}"\n'
        '[catalog.there]\nuri = "postgresql://me:hunter2@127.0.0.1:1/db"\n'
    )
    report = findings(run)
    assert worst_level(report, "settings") == "error", "the default catalog has no section"
    assert worst_level(report, "catalog here") == "ok"
    assert worst_level(report, "catalog there") == "error"
    assert "hunter2" not in run("doctor").out
    Path("floe.toml").write_text("no toml")
    assert worst_level(findings(run), "settings") == "error"


def test_a_catalog(run: Floe, warehouse: Warehouse, orders: Table) -> None:
    report = findings(run, "--catalog", warehouse.uri)
    assert "1 table can be read" in report["tables"][0]["text"]
    done = run("doctor", "nothing/here")
    assert (done.code, done.out) == (1, "")
    assert "there is no table" in done.err
