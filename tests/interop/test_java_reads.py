"""Java Iceberg reads the tables that Floe's metadata, manifests and deletion vectors describe."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import demo
import floe
from floe import Table
from floe.spec.metadata.snapshots import Snapshot

# Spark's own Python side leaves sockets to the garbage collector
pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

METADATA_TABLES = [
    "snapshots", "history", "refs", "metadata_log_entries", "manifests", "files", "data_files", "delete_files",
    "entries", "partitions", "all_manifests", "all_files", "all_data_files", "all_delete_files", "all_entries",
    "position_deletes",
]  # fmt: skip


def java_rows(spark: Any, table: Table, snapshot: Snapshot | None = None) -> list[tuple[Any, ...]]:
    reader = spark.read.format("iceberg")
    if snapshot is not None:
        reader = reader.option("versionAsOf", str(snapshot.snapshot_id))
    return sorted((tuple(row) for row in reader.load(table.location).collect()), key=repr)


def our_rows(table: Table, snapshot: Snapshot | None = None) -> list[tuple[Any, ...]]:
    rows = table.scan(snapshot=snapshot.snapshot_id if snapshot else None).to_arrow().to_pylist()
    return sorted((tuple(naive(value) for value in row.values()) for row in rows), key=repr)


def naive(value: Any) -> Any:
    """Spark hands out timestamps in the session's zone, which is UTC, without saying so."""
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def check(spark: Any, table: Table) -> None:
    assert java_rows(spark, table) == our_rows(table)
    for snapshot in table.snapshots:
        assert java_rows(spark, table, snapshot) == our_rows(table, snapshot)
    for name in METADATA_TABLES:
        spark.read.format("iceberg").load(f"{table.location}#{name}").collect()


def make(warehouse: Path, terms: list[str], format_version: int) -> Table:
    lake = floe.connect(warehouse)
    lake.create_namespace("db")
    return lake.create_table("db.orders", demo.COLUMNS, partition_by=terms, format_version=format_version)


def test_the_demo(spark: Any, tmp_path: Path) -> None:
    check(spark, demo.main(tmp_path / "warehouse"))


@pytest.mark.parametrize("format_version", [1, 2, 3])
@pytest.mark.parametrize("terms", [[], ["day(ts)"], ["customer", "truncate(10, amount)"], ["bucket(3, order_id)"]])
def test_appends(spark: Any, tmp_path: Path, format_version: int, terms: list[str]) -> None:
    table = make(tmp_path, terms, format_version)
    assert java_rows(spark, table) == []
    for day in (1, 2, 3):
        date = dt.date(1969, 12, 30 + day - 1) if day < 3 else dt.date(2026, 5, 1)
        table.append(demo.orders(date, 10 * day, 6))
    check(spark, table)


def test_row_lineage_of_new_rows(spark: Any, tmp_path: Path) -> None:
    table = make(tmp_path, [], 3)
    table.append(demo.orders(dt.date(2026, 1, 1), 1, 4))
    table.append(demo.orders(dt.date(2026, 1, 2), 5, 4))
    frame = spark.read.format("iceberg").load(table.location)
    rows = frame.select("order_id", "_row_id", "_last_updated_sequence_number").collect()
    assert sorted(map(tuple, rows)) == [(n, n - 1, 1 if n <= 4 else 2) for n in range(1, 9)]
