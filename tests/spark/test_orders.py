"""The first steps with a table: created, written, read, with the files that each step leaves in the warehouse.

The tutorial tells the same story at length; its statements are run, and its rows and files compared.
"""

import re
from decimal import Decimal
from pathlib import Path

import pytest

import floe
from helpers.spark import Spark
from helpers.sql_files import texts

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"

CREATE = """CREATE TABLE iceberg.db1.orders (
    order_id BIGINT,
    customer_id BIGINT,
    order_amount DECIMAL(10, 2),
    order_ts TIMESTAMP
)
USING ICEBERG;
"""
INSERT = """INSERT INTO iceberg.db1.orders VALUES (
    123,
    456,
    36.17,
    timestamp(now())
);
"""


def plain(name: str) -> str:
    """The name of a file with what differs from run to run left out."""
    uuid = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    return re.sub(r"snap-\d+-", "snap-N-", re.sub(r"00000-\d+-", "00000-N-", re.sub(uuid, "U", name)))


def files(folder: Path) -> list[str]:
    """The files in a folder, but for those of the system."""
    found = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name[0] != "."]
    return sorted(map(plain, found))


@pytest.mark.parametrize("catalog", ["iceberg", "shop"])
def test_first_steps(session: Spark, tmp_path: Path, catalog: str) -> None:
    def run(statement: str) -> list[tuple[object, ...]]:
        return session(statement.replace("iceberg.", f"{catalog}."))

    floe.attach(session.session, **{catalog: str(tmp_path / "warehouse")})
    folder = tmp_path / "warehouse" / "db1" / "orders"
    run("CREATE NAMESPACE iceberg.db1")
    run(CREATE)
    assert files(folder) == ["metadata/v1.metadata.json", "metadata/version-hint.text"]
    assert (folder / "metadata" / "version-hint.text").read_text() == "1"
    run(INSERT)
    assert files(folder) == [
        "data/00000-N-U-00001.parquet",
        "metadata/U-m0.avro",
        "metadata/snap-N-1-U.avro",
        "metadata/v1.metadata.json",
        "metadata/v2.metadata.json",
        "metadata/version-hint.text",
    ]
    assert (folder / "metadata" / "version-hint.text").read_text() == "2"
    rows = run("SELECT order_id, customer_id, order_amount, order_ts <= now() FROM iceberg.db1.orders")
    assert rows == [(123, 456, Decimal("36.17"), True)]
    ((first,),) = run("SELECT snapshot_id FROM iceberg.db1.orders.snapshots")
    run("INSERT INTO iceberg.db1.orders VALUES (124, 456, 10.0, NULL)")
    assert run(f"SELECT count(*) FROM iceberg.db1.orders VERSION AS OF {first}") == [(1,)]
    assert run("SELECT count(*) FROM iceberg.db1.orders") == [(2,)]


def test_the_tutorial_is_true(session: Spark, tmp_path: Path) -> None:
    blocks = re.findall(r"^```(sql|rows|tree)\n(.*?)^```$", TUTORIAL.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 30
    floe.attach(session.session, iceberg=str(tmp_path / "warehouse"))
    rows: list[str] = []
    for kind, text in blocks:
        if kind == "sql":
            rows = texts(session.session.sql(text))
        elif kind == "rows":
            assert rows == text.splitlines(), text
        else:
            assert files(tmp_path / "warehouse") == sorted(map(plain, text.splitlines()))
