"""The demo's table is a real one: another implementation reads the same rows from it."""

import warnings
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

import demo
from floe import Table


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return demo.main(tmp_path_factory.mktemp("demo") / "warehouse")


def by_pyiceberg(table: Table, snapshot_id: int | None = None) -> list[dict[str, object]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scan = StaticTable.from_metadata(table.metadata_location).scan(snapshot_id=snapshot_id)
        return sorted(scan.to_arrow().to_pylist(), key=lambda row: row["order_id"])


def by_floe(table: Table, **choice: object) -> list[dict[str, object]]:
    return table.scan(**choice).to_arrow().sort_by("order_id").to_pylist()  # type: ignore[arg-type]


def test_the_deletion_leaves_no_row_of_bob_before_the_branch(table: Table) -> None:
    rows = [row for row in by_floe(table) if row["order_id"] <= 16]  # type: ignore[operator]
    assert len(rows) == 12
    assert "bob" not in {row["customer"] for row in rows}


def test_every_snapshot_reads_the_same_by_pyiceberg(table: Table) -> None:
    assert len(table.snapshots) == 4
    for snapshot, count in zip(table.snapshots, (8, 16, 12, 14), strict=True):
        rows = by_pyiceberg(table, snapshot.snapshot_id)
        assert len(rows) == count
        assert rows == by_floe(table, snapshot=snapshot.snapshot_id)
    assert by_pyiceberg(table) == by_floe(table)


def test_pruning_reads_fewer_files_and_loses_no_row(table: Table) -> None:
    scan = table.scan(where="ts >= '2026-01-02' and total < 12 and order_id <= 16")
    assert len(scan.files()) < len(table.scan().files())
    assert sorted(scan.to_arrow()["order_id"].to_pylist()) == [9, 11]


def test_rows_are_counted_without_reading_them(table: Table) -> None:
    assert table.scan().count() == len(by_floe(table)) == 14


def test_metadata_remembers_what_happened(table: Table) -> None:
    assert table.format_version == 3
    assert [s.operation for s in table.snapshots] == ["append", "append", "delete", "append"]
    names = [Path(entry.metadata_file).name for entry in table.metadata.metadata_log]
    assert names[:2] == ["v1.metadata.json", "v2.metadata.json"]
    assert table.refs["after-day-one"].snapshot_id == table.snapshots[0].snapshot_id
    assert table.refs["main"].snapshot_id == table.refs["audit"].snapshot_id
    held = sum(table.inspect.data_files(columns=["record_count"])["record_count"].to_pylist())
    assert table.metadata.next_row_id == held, "each row of the files that are left has an id, deleted or not"
    assert table.properties["owner"] == "demo"
