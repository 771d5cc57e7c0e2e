"""Tables that Java Iceberg wrote, read through Spark: the rows and metadata tables that Java gives."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import UnsupportedOperationException

import floe
from floe.formats.arrow_types import arrow_type
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_fields import walk_fields
from floe.spec.schemas.schema_json import schema_from_json
from floe.spec.types import Field
from floe.table.lake import Lake
from helpers.canonical import canonical_rows, digest
from helpers.corpus import expected, table_names
from helpers.spark import Spark

VALID = table_names(without=("invalid_", "odd_", "view_"))
NOT_IN_SPARK = {"time", "timestamp_ns", "timestamptz_ns", "geometry", "geography"}


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


def has_spark_types(schema: Schema) -> bool:
    return not any(entry.field.type.kind in NOT_IN_SPARK for entry in walk_fields(schema.fields))


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
    if statement is None:
        return
    if "spark" not in case.get("readers", ("spark",)) and not has_spark_types(read_from(facts, case)):
        with pytest.raises(UnsupportedOperationException, match="Spark has no type for"):
            session(statement)
        return
    rows = canonical_rows(fetched(session, statement, schema), schema_json)
    answers = [case, *case.get("alternatives", {}).values()]
    assert any(len(rows) == answer["count"] and digest(rows) == answer["sha256"] for answer in answers), (
        statement,
        rows[:5],
        case.get("rows", [])[:5],
    )


def read_from(facts: dict[str, Any], case: dict[str, Any]) -> Schema:
    """All columns of what a case reads, of which it may ask for some."""
    whole = [other for other in facts["cases"] if not other["query"]]
    return schema_from_json(facts["schemas"][(whole[0] if "columns" in case["query"] else case)["schema"]])


def with_texts(schema_json: dict[str, Any]) -> dict[str, Any]:
    """The schema with texts for UUIDs, as Spark has them; the canonical form is the same."""
    changed: dict[str, Any] = json.loads(json.dumps(schema_json).replace('"uuid"', '"string"'))
    return changed


def fetched(session: Spark, statement: str, schema: Schema) -> pa.Table:
    """What Spark answers. Its own conversion to Arrow cannot do null variants, so these come as rows."""
    found = session.session.sql(statement)
    variants = [field.name for field in schema if field.type.kind == "variant"]
    if not variants:
        return found.toArrow().select([field.name for field in schema])
    rows = found.select([field.name for field in schema]).collect()
    return pa.table({field.name: column(field, [row[place] for row in rows]) for place, field in enumerate(schema)})


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
