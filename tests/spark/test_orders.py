"""The first steps with a table: created, written, read, with the files that each step leaves in the warehouse."""

import re
from decimal import Decimal
from pathlib import Path

import pytest

import floe
from helpers.spark import Spark


@pytest.fixture(scope="module")
def warehouse_of_orders(session: Spark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("orders") / "warehouse"
    floe.attach(session.session, iceberg=str(folder))
    session("CREATE NAMESPACE iceberg.db1")
    session(
        """CREATE TABLE iceberg.db1.orders (
            order_id BIGINT,
            customer_id BIGINT,
            order_amount DECIMAL(10, 2),
            order_ts TIMESTAMP
        )
        USING ICEBERG"""
    )
    return folder


def files(folder: Path) -> list[str]:
    """The files of the table, with what differs from run to run left out."""
    found = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name[0] != "."]
    uuid = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    return sorted(
        re.sub(r"snap-\d+-", "snap-N-", re.sub(r"00000-\d+-", "00000-N-", re.sub(uuid, "U", name))) for name in found
    )


def test_first_steps(session: Spark, warehouse_of_orders: Path) -> None:
    folder = warehouse_of_orders / "db1" / "orders"
    assert files(folder) == ["metadata/v1.metadata.json", "metadata/version-hint.text"]
    session("INSERT INTO iceberg.db1.orders VALUES (123, 456, 36.17, timestamp(now()))")
    assert files(folder) == [
        "data/00000-N-U-00001.parquet",
        "metadata/U-m0.avro",
        "metadata/snap-N-1-U.avro",
        "metadata/v1.metadata.json",
        "metadata/v2.metadata.json",
        "metadata/version-hint.text",
    ]
    rows = session("SELECT order_id, customer_id, order_amount, order_ts <= now() FROM iceberg.db1.orders")
    assert rows == [(123, 456, Decimal("36.17"), True)]
    first = session.one("SELECT snapshot_id FROM iceberg.db1.orders.snapshots")
    session("INSERT INTO iceberg.db1.orders VALUES (124, 456, 10.0, NULL)")
    assert session.one(f"SELECT count(*) FROM iceberg.db1.orders VERSION AS OF {first}") == 1
    assert session.one("SELECT count(*) FROM iceberg.db1.orders") == 2
