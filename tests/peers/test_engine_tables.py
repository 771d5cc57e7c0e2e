"""PyIceberg and DuckDB read the tables that the embedded engine fills and changes, with equal rows.

The rows are compared with the model in `helpers.table_histories`. DuckDB takes scans through Arrow's stream
interface, and the data files of tables without deletes as they are; tests do not install its extension for Iceberg.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

import floe
from floe.formats.columns.arrow_types import arrow_schema
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_to_json
from helpers.canonical import canonical_rows
from helpers.table_histories import KINDS, Life, Row, Rows, live

# PyIceberg closes files when they are collected
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::DeprecationWarning"
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Any:
    opened = floe.connect(tmp_path_factory.mktemp("lives"), durable=False)
    opened.create_namespace("lives")
    yield opened
    opened.close()


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: f"v{kind[0]}-{kind[1]}")
def life(lake: Any, request: pytest.FixtureRequest) -> Life:
    version, mode = request.param
    return live(lake, f"lives.t{version}_{mode.replace('-', '_')}", version, mode, "parquet", "mixed")


def canonical(schema: Schema, rows: Rows) -> list[str]:
    return canonical_rows(pa.Table.from_pylist(rows, schema=arrow_schema(schema)), schema_to_json(schema))


def as_wanted(found: pa.Table, schema: Schema) -> list[str]:
    """Rows that another library read, in the types of the schema and so in canonical form."""
    table = found.select([field.name for field in schema]).cast(arrow_schema(schema))
    return canonical_rows(table, schema_to_json(schema))


def test_pyiceberg_reads_every_snapshot(life: Life) -> None:
    table = life.table.refresh()
    theirs = StaticTable.from_metadata(str(Path(table.metadata_location)))
    assert as_wanted(theirs.scan().to_arrow(), table.schema) == canonical(table.schema, life.rows)
    for snapshot_id, rows in life.then.items():
        schema = table.scan(snapshot=snapshot_id).schema
        assert as_wanted(theirs.scan(snapshot_id=snapshot_id).to_arrow(), schema) == canonical(schema, rows)


def test_pyiceberg_reads_orc(lake: Any) -> None:
    """Up to version 2: of version 3 tables it takes the timestamps of ORC files for nanoseconds, and refuses them."""
    life = live(lake, "lives.orc", 2, "merge-on-read", "orc", "mixed")
    table = life.table.refresh()
    theirs = StaticTable.from_metadata(str(Path(table.metadata_location)))
    assert as_wanted(theirs.scan().to_arrow(), table.schema) == canonical(table.schema, life.rows)


FILTERS: list[tuple[str, Callable[[Row], bool]]] = [
    ("id > 60", lambda row: row["id"] > 60),
    ("part = 'a' and id <= 203", lambda row: row["part"] == "a" and row["id"] <= 203),
    ("price < 0", lambda row: row["price"] is not None and row["price"] < 0),
    ("amount is null", lambda row: row["amount"] is None),
    ("m = -65", lambda row: row["m"] == -65),
    ("note is not null", lambda row: row["note"] is not None),
]


def test_pyiceberg_filters(life: Life) -> None:
    """PyIceberg prunes by the partitions and bounds that Floe wrote, and loses no row."""
    theirs = StaticTable.from_metadata(str(Path(life.table.refresh().metadata_location)))
    for where, passes in FILTERS:
        wanted = sorted(row["id"] for row in life.rows if passes(row))
        assert sorted(theirs.scan(row_filter=where).to_arrow().column("id").to_pylist()) == wanted
        assert wanted, where


def test_duckdb_takes_scans(life: Life) -> None:
    scan = life.table.refresh().scan(where="id > 5", columns=["id", "part", "amount"])
    found = duckdb.sql("SELECT id, part, amount FROM scan WHERE amount > 1").fetchall()
    assert scan.count() > len(found)
    wanted = [row for row in life.rows if row["id"] > 5 and row["amount"] is not None and row["amount"] > 1]
    assert sorted(found) == sorted((row["id"], row["part"], row["amount"]) for row in wanted)


def test_duckdb_reads_data_files(lake: Any) -> None:
    """Files of a table that only grew are Parquet like any other."""
    table = lake.create_table(
        "lives.grown", "id bigint, name string, at timestamptz, l array<int>, s struct<x: double>"
    )
    rows = [{"id": n, "name": f"n{n}", "at": None, "l": [n, None], "s": {"x": n / 2}} for n in range(1000)]
    table.append(rows)
    files = [str(Path(file)) for file in table.scan().files()]
    found = duckdb.sql(f"SELECT id, name, l, s FROM read_parquet({files}) ORDER BY id").fetchall()
    assert found == [(row["id"], row["name"], row["l"], row["s"]) for row in rows]
