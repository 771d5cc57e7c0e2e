"""Every Parquet data file of the corpus, read with the table's schema: the rows that Java wrote, by canonical hash."""

from typing import Any

import pyarrow as pa
import pytest

from floe.formats.metrics import MetricsCollector, MetricsConfig
from floe.formats.registry import default_registry
from floe.formats.rows import rows_to_batch
from floe.plan.scan import ScanOptions, plan_scan
from floe.plan.snapshot_selection import choose_snapshot, schema_for
from floe.spec.codecs.single_value import decode
from floe.spec.expressions.binder import bind
from floe.spec.expressions.expression_json import expression_from_json
from floe.spec.properties import NAME_MAPPING
from floe.spec.schemas.column_projection import identity_values, select
from floe.spec.schemas.metadata_columns import FILE, PARTITION_ID, SPEC_ID
from floe.spec.schemas.name_mapping import parse_name_mapping
from floe.spec.schemas.schema import Schema
from helpers.canonical import canonical_rows, digest
from helpers.corpus import expected, table_names
from helpers.corpus_tables import CorpusTable, open_table

TABLES = table_names(without=("invalid", "odd", "view"))
QUERIES = {"snapshot_id", "ref", "timestamp_ms", "columns", "filter", "filter_sql"}
FORMATS = default_registry()


def readable_cases(table: CorpusTable, most: int | None = None) -> list[tuple[dict[str, Any], Schema, list[Any]]]:
    """The cases whose data is in Parquet files without deletes, with the schema and the tasks of the scan."""
    readable = []
    cases = [case for case in table.facts["cases"] if not set(case["query"]) - QUERIES]
    for case in cases if most is None else cases[:: len(cases) // most + 1]:
        query = case["query"]
        snapshot_options = {
            "snapshot": query.get("snapshot_id"),
            "ref": query.get("ref"),
            "as_of_ms": query.get("timestamp_ms"),
        }
        snapshot = choose_snapshot(table.metadata, **snapshot_options)
        schema = schema_for(table.metadata, **snapshot_options)
        where = expression_from_json(query["filter"], schema) if "filter" in query else None
        tasks = list(
            plan_scan(
                table.metadata, table.storage, snapshot=snapshot, options=ScanOptions(schema=schema, where=where)
            ).tasks()
        )
        if all(task.file.file_format == "parquet" and not task.deletes for task in tasks):
            readable.append((case, schema, tasks))
    return readable


def read(table: CorpusTable, schema: Schema, projected: Schema, task: Any, model: str, where: Any, **options: Any):
    file = task.file
    mapping = table.metadata.properties.get(NAME_MAPPING.name)
    constants = identity_values(task.spec.fields, file.partition)
    builder = (
        FORMATS.read("parquet", model, table.storage, file.file_path)
        .project(projected)
        .constants({**constants, FILE.id: file.file_path, SPEC_ID.id: file.spec_id, PARTITION_ID: None})
        .name_mapping(parse_name_mapping(mapping) if mapping else None)
        .lineage(file.first_row_id, task.entry.sequence_number)
        .facts(file_size=file.file_size_in_bytes, record_count=file.record_count)
    )
    if where is not None:
        builder = builder.filter(where, schema)
    for name, value in options.items():
        builder = getattr(builder, name)(*value)
    return builder


def projected_columns(schema: Schema, query: dict[str, Any]) -> Schema:
    return select(schema, query["columns"]) if "columns" in query else schema


def where_of(schema: Schema, query: dict[str, Any]) -> Any:
    return bind(expression_from_json(query["filter"], schema), schema) if "filter" in query else None


def check(table: CorpusTable, case: dict[str, Any], schema: Schema, tasks: list[Any]) -> None:
    """By Arrow and by plain rows, as whole files and in splits: the rows are those of the answer."""
    projected = projected_columns(schema, case["query"])
    where = where_of(schema, case["query"])
    batches = [batch for task in tasks for batch in read(table, schema, projected, task, "arrow", where)]
    rows = _canonical(batches, projected, table.facts["schemas"][case["schema"]])
    answers = {case["sha256"], *(answer["sha256"] for answer in case.get("alternatives", {}).values())}
    assert digest(rows) in answers, (case["query"], rows[:3], case.get("rows", [])[:3])

    plain = [row for task in tasks for row in read(table, schema, projected, task, "rows", where)]
    again = [rows_to_batch(projected, plain)] if plain else []
    assert _canonical(again, projected, table.facts["schemas"][case["schema"]]) == rows

    for task in tasks[:3]:
        size = task.file.file_size_in_bytes
        ranges = [(start, size // 3 + 1) for start in range(0, size, size // 3 + 1)]
        parts = [
            batch for split in ranges for batch in read(table, schema, projected, task, "arrow", where, split=split)
        ]
        unsplit = list(read(table, schema, projected, task, "arrow", where))
        assert sum(batch.num_rows for batch in parts) == sum(batch.num_rows for batch in unsplit)


def _canonical(batches: list[pa.RecordBatch], projected: Schema, schema_json: dict[str, Any]) -> list[str]:
    if not batches:
        return []
    return canonical_rows(pa.Table.from_batches(batches), schema_json)


def test_the_corpus_has_enough(corpus_dir):
    cases = [case for name in TABLES for case in expected(corpus_dir, name)["cases"]]
    assert len(cases) > 2000
    for name in (
        "types_variant_shredded",
        "imp_int96",
        "evo_defaults_nested",
        "fmt_parquet_layout",
        "lineage_upgraded_cow",
    ):
        if name in TABLES:
            assert readable_cases(open_table(corpus_dir, name)), name


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_those_of_java(corpus_dir, name):
    """Of each table the current rows, and some of the filters, projections and snapshots."""
    table = open_table(corpus_dir, name)
    cases = readable_cases(table, most=4)
    for case, schema, tasks in cases:
        check(table, case, schema, tasks)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_all_cases(corpus_dir, name):
    table = open_table(corpus_dir, name)
    for case, schema, tasks in readable_cases(table):
        check(table, case, schema, tasks)


# Of a struct that is null, Java's writer does not count the floats.
COUNTED_OTHERWISE = {("types_nested", "st.in.x")}


@pytest.mark.parametrize("name", TABLES)
def test_metrics_are_those_of_java(corpus_dir, name):
    """What we would have counted of the rows that Java wrote is what Java counted."""
    table = open_table(corpus_dir, name)
    metadata = table.metadata
    if metadata.current_snapshot is None:
        return
    schema = metadata.schema
    config = MetricsConfig.from_properties(metadata.properties, schema, metadata.sort_order)
    plan = plan_scan(metadata, table.storage, snapshot=metadata.current_snapshot, options=ScanOptions(metrics=None))
    tasks = [task for task in plan.tasks() if task.file.file_format == "parquet" and task.file.value_counts]
    for task in tasks[:: len(tasks) // 8 + 1]:
        collector = MetricsCollector(schema, config)
        for batch in read(table, schema, schema, task, "arrow", None):
            collector.add(batch)
        ours = collector.result()
        assert ours.record_count == task.file.record_count
        for metric in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
            for field_id, java in (getattr(task.file, metric) or {}).items():
                entry = schema.by_id.get(field_id)
                if entry is None or (name, entry.name) in COUNTED_OTHERWISE or entry.field.type.kind == "variant":
                    continue
                mine = getattr(ours, metric)[field_id]
                if "bounds" in metric:
                    mine, java = decode(entry.field.type, mine), decode(entry.field.type, java)
                assert mine == java, (metric, entry.name)
