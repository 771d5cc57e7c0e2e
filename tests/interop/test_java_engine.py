"""Java Iceberg reads the tables that the embedded engine fills and changes: every snapshot, with equal rows.

Three formats, versions 1 to 3, copy-on-write and merge-on-read, partitioned or not, through appends, DELETE, UPDATE,
MERGE, upserts, overwrites and evolution. The rows are compared with the model in `helpers.engine_lives`.
"""

import json
from typing import Any

import pyarrow as pa
import pytest

from floe.formats.arrow_types import arrow_schema
from floe.spec.schemas.schema_json import schema_from_json
from helpers.canonical import canonical_rows
from helpers.engine_lives import FILE_FORMATS, KINDS, PARTITIONINGS, Life, Rows, live
from helpers.java_catalogs import JavaCatalogs, Shared

# Spark's own Python side leaves sockets to the garbage collector
pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

each_life = pytest.mark.parametrize("partitioning", list(PARTITIONINGS))
each_kind = pytest.mark.parametrize(("version", "mode"), KINDS)
each_format = pytest.mark.parametrize("file_format", FILE_FORMATS)


LIVES: dict[str, Life] = {}


def life_in(shared: Shared, version: int, mode: str, file_format: str, partitioning: str) -> Life:
    """The table of that kind, made when it is first asked for."""
    name = f"lives.{file_format}_{version}_{mode.replace('-', '_')}_{partitioning}"
    if name not in LIVES:
        LIVES[name] = live(shared.lake, name, version, mode, file_format, partitioning)
    return LIVES[name]


@pytest.fixture(scope="module")
def shared(java_catalogs: JavaCatalogs) -> Shared:
    found = java_catalogs.new("files")
    found.lake.create_namespace("lives")
    return found


def check(answer: dict[str, Any], rows: Rows) -> None:
    schema = schema_from_json(answer["schema"])
    wanted = pa.Table.from_pylist(rows, schema=arrow_schema(schema))
    assert sorted(answer["rows"]) == canonical_rows(wanted, answer["schema"])
    assert {field.name for field in schema} == set(rows[0])


@each_format
@each_kind
@each_life
def test_rows(shared: Shared, version: int, mode: str, file_format: str, partitioning: str) -> None:
    life = life_in(shared, version, mode, file_format, partitioning)
    told = shared.ask("rows", life.table.name)
    check(told["now"], life.rows)
    assert set(told["snapshots"]) >= set(map(str, life.then))
    for snapshot_id, rows in life.then.items():
        check(told["snapshots"][str(snapshot_id)], rows)


@each_format
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_lineage(shared: Shared, mode: str, file_format: str) -> None:
    """Rows have the same ids and the same sequence numbers of their last change."""
    life = life_in(shared, 3, mode, file_format, "mixed")
    told = sorted(shared.ask("lineage", life.table.name)["rows"])
    columns = ["id", "_file", "_pos", "_row_id", "_last_updated_sequence_number"]
    ours = life.table.refresh().scan(columns=columns).to_arrow().to_pylist()
    texts = [[str(row[name]) if row[name] is not None else None for name in columns] for row in ours]
    assert told == sorted(json.dumps(row, separators=(",", ":")) for row in texts)


@pytest.mark.parametrize("file_format", FILE_FORMATS)
def test_spark_reads_them(shared: Shared, file_format: str) -> None:
    """Spark's own readers, which take Parquet and ORC by columns, find the same rows as Java's row readers."""
    for version, mode in KINDS:
        life = life_in(shared, version, mode, file_format, "mixed")
        rows = shared.sql(
            f"SELECT id, part, amount, price, local, m, code, place.x, size(tags) FROM {{c}}.{life.table.name}"
        )
        wanted = [
            (
                row["id"], row["part"], row["amount"], row["price"], row["local"], row["m"], row["code"],
                row["place"] and row["place"]["x"], None if row["tags"] is None else len(row["tags"]),
            )
            for row in life.rows
        ]  # fmt: skip
        assert sorted((tuple(map(plain, row)) for row in rows), key=repr) == sorted(wanted, key=repr)


def plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value
