"""Java Iceberg reads the tables that the embedded engine fills and changes: every snapshot, with equal rows.

Three formats, versions 1 to 3, copy-on-write and merge-on-read, partitioned or not, through appends, DELETE, UPDATE,
MERGE, upserts, overwrites and evolution. The rows are compared with the model in `helpers.table_histories`.
"""

import json
from typing import Any

import pyarrow as pa
import pytest

from floe.formats.columns.arrow_types import arrow_schema
from floe.spec.expressions.binder import bind
from floe.spec.expressions.expression_json import expression_to_json
from floe.spec.schemas.schema_json import schema_from_json
from floe.sql.filters import parse_filter
from helpers.canonical import canonical_rows
from helpers.java_catalogs import JavaCatalogs, Shared
from helpers.table_histories import FILE_FORMATS, KINDS, PARTITIONINGS, Life, Rows, live

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


FILTERS = [
    "id >= 60",
    "part = 'a'",
    "part is null or id < 3",
    "not (id between 4 and 90)",
    "at < timestamp '1964-01-02 00:00:00+00:00'",
    "price < 0",
    "day > date '1970-02-05' and amount is not null",
    "m < -100",
    "place.x = 112",
]


@each_format
@each_kind
def test_plans(shared: Shared, version: int, mode: str, file_format: str) -> None:
    """By the metrics and partitions of the files, filters select the same of them in Java, with the same deletes."""
    table = life_in(shared, version, mode, file_format, "mixed").table.refresh()
    asked = [{"filter": expression_to_json(bind(parse_filter(text), table.schema))} for text in FILTERS]
    found = shared.ask("plans", table.name, asked)
    chosen = set()
    for text, told in zip(FILTERS, found, strict=True):
        ours = {
            task.file.file_path: sorted(f"{file.file_path}@{file.content_offset}" for file in task.deletes)
            for task in table.scan(where=text).plan().tasks()
        }
        assert {path: [d.replace("@null", "@None") for d in deletes] for path, deletes in told.items()} == ours, text
        chosen.add(len(ours))
    assert len(chosen) > 2


FLAT_COLUMNS = ("id", "part", "amount", "price", "local", "m", "code", "day")
NESTED_COLUMNS = ("id", "place", "tags", "counts")


@each_format
def test_spark_reads_them(shared: Shared, file_format: str) -> None:
    """Spark's own readers find the same rows: by columns where there are no nested ones, else row by row."""
    for version, mode in KINDS:
        life = life_in(shared, version, mode, file_format, "mixed")
        for columns in (
            ("id", "part", "amount", "price", "local", "m", "code", "day"),
            ("id", "place", "tags", "counts"),
        ):
            found = shared.sql(f"SELECT {', '.join(columns)} FROM {{c}}.{life.table.name}")
            rows = [tuple(plain(value) for value in row) for row in found]
            wanted = [tuple(plain(row[name]) for name in columns) for row in life.rows]
            assert sorted(rows, key=repr) == sorted(wanted, key=repr)


def plain(value: Any) -> Any:
    """Values of Spark and of the model in one form."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, tuple):
        return tuple(value)
    if isinstance(value, dict):
        return tuple(value.values()) if set(value) == {"x", "y"} else sorted(value.items())
    return [tuple(item) if isinstance(item, tuple) else item for item in value] if isinstance(value, list) else value
