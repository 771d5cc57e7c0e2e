"""The recorded reads of the corpus as scans, and what each of them needs of a reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import floe
from floe import Table
from floe.plan.tasks import FileTask
from floe.spec.expressions.expression_json import expression_from_json
from floe.spec.properties import NAME_MAPPING
from floe.spec.schemas.metadata_columns import is_metadata_column
from floe.spec.schemas.schema import Schema
from floe.table.scan import Scan
from helpers.corpus import expected

PREFIX = "/floe-corpus/"
FORMATS = ("parquet", "orc", "avro")
FEATURES = (
    "rows",
    "time travel",
    "filter",
    "projection",
    "metadata columns",
    "row lineage",
    "identity partitions",
    "several partition specs",
    "older schema",
    "default values",
    "name mapping",
    "nested types",
    "variants",
    "position delete files",
    "equality delete files",
    "deletion vectors",
)


def opened(corpus_dir: Path, name: str) -> tuple[Table, dict[str, Any]]:
    """A table through the front door, and the right answers."""
    facts = expected(corpus_dir, name)
    metadata = facts.get("metadata") or facts["invalid"]["metadata"]
    return floe.open(corpus_dir / name / metadata, prefixes={PREFIX: f"{corpus_dir}/"}), facts


def cases_of(facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The cases that are scans; metadata tables and incremental reads are tested elsewhere."""
    return (case for case in facts["cases"] if not case["query"].keys() & {"metadata_table", "incremental_append"})


def scan_of(table: Table, query: dict[str, Any], *, in_sql: bool = False) -> Scan:
    """The scan of a recorded query, its filter as an expression or as SQL."""
    chosen = {
        "snapshot": query.get("snapshot_id"),
        "ref": query.get("ref"),
        "as_of": query.get("timestamp_ms"),
        "columns": query.get("columns"),
    }
    if "filter" not in query:
        return table.scan(**chosen)
    if in_sql and "filter_sql" in query:
        return table.scan(where=query["filter_sql"], **chosen)
    return table.scan(where=expression_from_json(query["filter"], table.schema), **chosen)


def same_read(scan: Scan) -> tuple[Any, ...]:
    """What makes two scans of a table the same."""
    snapshot = None if scan.snapshot is None else scan.snapshot.snapshot_id
    return snapshot, scan.schema, str(scan.where)


def features_of(table: Table, scan: Scan, query: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What a scan needs, each with the format of the files that need it."""
    tasks = list(scan.plan().tasks())
    whole = set(_of_the_query(table, scan, query))
    specs = {task.spec.spec_id for task in tasks}
    for task in tasks:
        for feature in whole | set(_of_the_file(table, scan.schema, task)):
            yield feature, task.file.file_format
        if len(specs) > 1:
            yield "several partition specs", task.file.file_format
        for delete in task.deletes:
            if delete.is_deletion_vector:
                yield "deletion vectors", task.file.file_format
            elif delete.is_equality_delete_file:
                yield "equality delete files", delete.file_format
            else:
                yield "position delete files", delete.file_format


def _of_the_query(table: Table, scan: Scan, query: dict[str, Any]) -> Iterator[str]:
    yield "rows"
    if query.keys() & {"snapshot_id", "ref", "timestamp_ms"}:
        yield "time travel"
    if "filter" in query:
        yield "filter"
    names = query.get("columns", ())
    if names:
        yield "projection"
    if any(is_metadata_column(name) for name in names):
        yield "metadata columns"
    if any("_row_id" in name or "_last_updated" in name for name in names):
        yield "row lineage"
    types = {entry.field.type.kind for entry in scan.schema.by_id.values()}
    if types & {"struct", "list", "map"}:
        yield "nested types"
    if "variant" in types:
        yield "variants"
    if NAME_MAPPING.name in table.properties:
        yield "name mapping"


def _of_the_file(table: Table, schema: Schema, task: FileTask) -> Iterator[str]:
    if any(str(field.transform) == "identity" for field in task.spec.fields):
        yield "identity partitions"
    written = next((s for s in table.snapshots if s.snapshot_id == task.entry.snapshot_id), None)
    then = None if written is None or written.schema_id is None else table.metadata.schema_by_id(written.schema_id)
    if then is not None and then.fields != table.schema.fields:
        yield "older schema"
        if any(e.field.initial_default is not None and i not in then.by_id for i, e in schema.by_id.items()):
            yield "default values"
