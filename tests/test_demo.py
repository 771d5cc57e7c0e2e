"""The demo's table is a real one: another implementation reads the same rows from it."""

from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

import demo
from tiny_engine import TinyTable


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> TinyTable:
    return demo.main(tmp_path_factory.mktemp("warehouse") / "db" / "orders")


def by_pyiceberg(file: Path, snapshot_id: int | None = None) -> list[dict[str, object]]:
    scan = StaticTable.from_metadata(str(file)).scan(snapshot_id=snapshot_id)
    return sorted(scan.to_arrow().to_pylist(), key=lambda row: row["order_id"])


def by_floe(table: TinyTable, snapshot_id: int | None = None) -> list[dict[str, object]]:
    return table.scan(snapshot=snapshot_id).rows.sort_by("order_id").to_pylist()


def test_the_deletion_leaves_no_row_of_bob(table: TinyTable) -> None:
    rows = by_floe(table)
    assert len(rows) == 12
    assert "bob" not in {row["customer"] for row in rows}


def test_every_snapshot_reads_the_same_by_pyiceberg(table: TinyTable) -> None:
    first, second, third = table.metadata.snapshot_log
    for entry, count in ((first, 8), (second, 16), (third, 12)):
        rows = by_pyiceberg(table.metadata_file, entry.snapshot_id)
        assert len(rows) == count
        assert rows == by_floe(table, entry.snapshot_id)


def test_pruning_reads_fewer_files_and_loses_no_row(table: TinyTable) -> None:
    scan = table.scan("ts >= '2026-01-02T00:00:00+00:00' and total < 12")
    assert scan.files_read < scan.files_total == 8
    assert sorted(scan.rows["order_id"].to_pylist()) == [9, 11]


def test_metadata_remembers_what_happened(table: TinyTable) -> None:
    metadata = table.metadata
    assert metadata.format_version == 3
    assert [s.operation for s in metadata.snapshots] == ["append", "append", "delete"]
    assert [Path(entry.metadata_file).name for entry in metadata.metadata_log][:2] == [
        "v1.metadata.json",
        "v2.metadata.json",
    ]
    assert metadata.ref("after-day-one").snapshot_id == metadata.snapshots[0].snapshot_id
    assert metadata.next_row_id == 16
