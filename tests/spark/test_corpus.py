"""Tables that Java Iceberg wrote, read through Spark: the rows and metadata tables that Java gives."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import floe
from floe.formats.columns.arrow_types import arrow_type
from floe.spec.schemas.schema import Schema, walk_fields
from floe.spec.schemas.schema_json import schema_from_json
from floe.spec.types import Field, ListType, MapType, StructType, Type
from floe.table.lake import Lake
from helpers.canonical import canonical_rows, digest
from helpers.corpus import expected, table_names
from helpers.spark import Spark

VALID = table_names(without=("invalid_", "odd_", "view_"))


@pytest.fixture(scope="module")
def corpus(session: Spark, corpus_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The tables of the corpus, as `corpus.c.<table>`."""
    warehouse = tmp_path_factory.mktemp("registered")
    lake = floe.connect("memory:", warehouse=str(warehouse), prefixes={"/floe-corpus/": f"{corpus_dir}/"})
    lake.create_namespace("c")
    for name in VALID:
        facts = expected(corpus_dir, name)
        lake.register_table(("c", name), f"{facts['location']}/{facts['metadata']}")
    floe.attach(session.session, corpus=lake)
    return lake


def asked(name: str, query: dict[str, Any]) -> str | None:
    """The SQL of a query; None for what SQL cannot say."""
    columns = ", ".join(f"`{column.replace('`', '``')}`" for column in query["columns"]) if "columns" in query else "*"
    if any("." in column for column in query.get("columns", ())):
        return None  # a part of a struct, kept in its struct
    table = f"corpus.c.`{name}`" + (f".{query['metadata_table']}" if "metadata_table" in query else "")
    travel = ""
    if "snapshot_id" in query:
        travel = f" VERSION AS OF {query['snapshot_id']}"
    elif "ref" in query:
        travel = f" VERSION AS OF '{query['ref']}'"
    elif "timestamp_ms" in query:
        travel = f" TIMESTAMP AS OF timestamp_millis({query['timestamp_ms']})"
    where = f" WHERE {query['filter_sql']}" if "filter_sql" in query else ""
    return f"SELECT {columns} FROM {table}{travel}{where}"


def check(session: Spark, name: str, facts: dict[str, Any], case: dict[str, Any]) -> None:
    """Ask Spark, and compare, unless it cannot be asked."""
    schema_json = with_texts(facts["schemas"][case["schema"]])
    schema = schema_from_json(schema_json)
    statement = asked(name, case["query"])
    if statement is None or ("filter" in case["query"] and "spark" not in case.get("readers", ("spark",))):
        return  # Iceberg's filters take nulls otherwise than SQL does, and Java did not ask SQL here
    rows = canonical_rows(fetched(session, statement, schema), schema_json)
    answers = [case, *case.get("alternatives", {}).values()]
    assert any(len(rows) == answer["count"] and digest(rows) == answer["sha256"] for answer in answers), (
        statement,
        rows[:5],
        case.get("rows", [])[:5],
    )


def with_texts(schema_json: dict[str, Any]) -> dict[str, Any]:
    """The schema with texts for UUIDs, as Spark has them; the canonical form is the same."""
    changed: dict[str, Any] = json.loads(json.dumps(schema_json).replace('"uuid"', '"string"'))
    return changed


def fetched(session: Spark, statement: str, schema: Schema) -> pa.Table:
    """What Spark answers. Its own conversion to Arrow cannot do null variants, so these come as rows."""
    found = session.session.sql(statement)
    variants = [field.name for field in schema if field.type.kind == "variant"]
    if not variants:
        table = found.toArrow().select([field.name for field in schema])
        return pa.table({field.name: restored(field, table[field.name]) for field in schema})
    rows = found.select([field.name for field in schema]).collect()
    return pa.table({field.name: column(field, [row[place] for row in rows]) for place, field in enumerate(schema)})


def restored(field: Field, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column with the values that Spark shows as texts, because it has no type for them."""
    kinds = {entry.field.type.kind for entry in walk_fields([field])}
    if not kinds & {"time", "timestamp_ns", "timestamptz_ns"}:
        return values
    made = [shown(field.type, value) for value in values.to_pylist()]
    return pa.chunked_array([pa.array(made, arrow_type(field.type))])


def shown(type_: Type, value: Any) -> Any:
    """The value that a text of Spark's shows."""
    if value is None:
        return None
    match type_:
        case StructType():
            return {field.name: shown(field.type, value[field.name]) for field in type_}
        case ListType():
            return [shown(type_.element, one) for one in value]
        case MapType():
            return [(shown(type_.key, one), shown(type_.value, other)) for one, other in value]
        case _ if type_.kind == "time":
            return dt.time.fromisoformat(value)
        case _ if type_.kind in ("timestamp_ns", "timestamptz_ns"):
            return int(np.datetime64(value.removesuffix("Z"), "ns").astype(np.int64))
        case _:
            return value


def column(field: Field, values: list[Any]) -> pa.Array:
    if field.type.kind != "variant":
        return pa.array(values, arrow_type(field.type))
    parts = [None if one is None else (bytes(one.metadata), bytes(one.value)) for one in values]
    return pa.array(parts, pa.struct([("metadata", pa.binary()), ("value", pa.binary())]))


def check_all(session: Spark, corpus_dir: Path, name: str, *keys: str) -> None:
    """All cases whose query says just these things."""
    facts = expected(corpus_dir, name)
    for case in facts["cases"]:
        if set(case["query"]) == set(keys) and "schema" in case:  # without one, Java has no answer
            check(session, name, facts, case)


@pytest.mark.parametrize("name", VALID)
def test_current_rows(session: Spark, corpus: Lake, corpus_dir: Path, name: str) -> None:
    check_all(session, corpus_dir, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", VALID)
def test_columns(session: Spark, corpus: Lake, corpus_dir: Path, name: str) -> None:
    check_all(session, corpus_dir, name, "columns")


@pytest.mark.slow
@pytest.mark.parametrize("name", VALID)
def test_every_snapshot(session: Spark, corpus: Lake, corpus_dir: Path, name: str) -> None:
    check_all(session, corpus_dir, name, "snapshot_id")
    check_all(session, corpus_dir, name, "snapshot_id", "columns")
    check_all(session, corpus_dir, name, "ref")
    check_all(session, corpus_dir, name, "timestamp_ms")


@pytest.mark.slow
@pytest.mark.parametrize("name", VALID)
def test_filters(session: Spark, corpus: Lake, corpus_dir: Path, name: str) -> None:
    check_all(session, corpus_dir, name, "filter", "filter_sql")


@pytest.mark.slow
@pytest.mark.parametrize("name", VALID)
def test_metadata_tables(session: Spark, corpus: Lake, corpus_dir: Path, name: str) -> None:
    check_all(session, corpus_dir, name, "metadata_table")
    check_all(session, corpus_dir, name, "metadata_table", "columns")
