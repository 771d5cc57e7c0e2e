"""Java Iceberg opens every table that Floe makes, in every catalog that both know, and reads every snapshot.

The rows are compared with the model in `helpers.table_maker`, the rest with Floe's own answers.
"""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floe.errors import NoSuchColumn
from floe.formats.columns.arrow_types import arrow_schema
from floe.spec.expressions.binder import bind
from floe.spec.expressions.expression_json import expression_to_json
from floe.spec.metadata.table_metadata_json import metadata_to_json
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_from_json
from floe.sql.filters import parse_filter
from helpers.canonical import canonical_rows
from helpers.java_catalogs import JavaCatalogs, made_ids
from helpers.made_tables import KINDS
from helpers.table_maker import Made
from helpers.table_rows import Rows, deleted_rows, read_file

# Spark's own Python side leaves sockets to the garbage collector
pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

FILTERS = [
    "id >= 10",
    "part = 'a'",
    "part is null or id < 3",
    "(part = 'b' or part = 'ü/c d') and id > 5",  # `part in (…)` fails in Java where a partition is null
    "not (id between 4 and 12)",
    "part like 'ü%'",
    "at < timestamp '1970-01-02 00:00:00+00:00'",
    "price < 0 or ok = true",
    "day > date '1970-01-05' and amount is not null",
]


def canonical(rows: Rows, schema: Schema, schema_json: dict[str, Any]) -> list[str]:
    return canonical_rows(pa.Table.from_pylist(rows, schema=arrow_schema(schema)), schema_json)


def check_rows(answer: dict[str, Any], rows: Rows) -> None:
    schema = schema_from_json(answer["schema"])
    assert sorted(answer["rows"]) == canonical(rows, schema, answer["schema"])
    assert {field.name for field in schema} == (set(rows[0]) if rows else {field.name for field in schema})


def each_made(*kinds: str) -> Any:
    return pytest.mark.parametrize(("kind", "operation", "version"), made_ids(kinds or KINDS))


@each_made()
def test_rows(java_catalogs: JavaCatalogs, kind: str, operation: str, version: int) -> None:
    """Of now, of every snapshot in the columns of its time, and of every branch and tag."""
    shared = java_catalogs[kind]
    for made in shared.made(operation, version):
        told = shared.ask("rows", made.table.name)
        check_rows(told["now"], made.current)
        assert set(told["snapshots"]) == {str(snapshot.snapshot_id) for snapshot in made.table.snapshots}
        assert len(made.rows) == len(told["snapshots"])
        for snapshot_id, rows in made.rows.items():
            check_rows(told["snapshots"][str(snapshot_id)], rows)
        assert set(told["refs"]) == set(made.table.refs)
        for name, ref in made.table.refs.items():
            check_rows(told["refs"][name], made.branches[name] if ref.is_branch else made.rows[ref.snapshot_id])
        check_metadata(made, told["metadata"])


def check_metadata(made: Made, told: dict[str, Any]) -> None:
    """Java writes the metadata that it read just as Floe wrote it, but for its key order."""
    assert told == metadata_to_json(made.table.metadata)


@each_made("files")
def test_plans(java_catalogs: JavaCatalogs, kind: str, operation: str, version: int) -> None:
    """Filters select the same data files with the same deletes, now and at every snapshot."""
    shared = java_catalogs[kind]
    for made in shared.made(operation, version):
        table = made.table
        moments = [None, *(snapshot.snapshot_id for snapshot in table.snapshots)]
        asked = [
            {"snapshot": snapshot, "text": text, "filter": tree}
            for snapshot in moments
            for text in FILTERS
            if (tree := tree_of(text, table.scan(snapshot=snapshot).table_schema)) is not None
        ]
        assert len(asked) > len(moments)
        for question, told in zip(asked, shared.ask("plans", table.name, asked), strict=True):
            snapshot, text = question["snapshot"], question["text"]
            tasks = table.scan(where=text, snapshot=snapshot).plan().tasks()
            ours = {
                task.file.file_path: sorted(f"{file.file_path}@{file.content_offset}" for file in task.deletes)
                for task in tasks
            }
            assert {path: [d.replace("@null", "@None") for d in deletes] for path, deletes in told.items()} == ours, (
                text
            )


def tree_of(text: str, schema: Schema) -> Any:
    """A filter in Java's JSON, with literals of the columns' types; None if the schema lacks a column."""
    try:
        return expression_to_json(bind(parse_filter(text), schema))
    except NoSuchColumn:
        return None


@each_made("files")
def test_rows_know_where_they_come_from(java_catalogs: JavaCatalogs, kind: str, operation: str, version: int) -> None:
    """Row ids and the sequence numbers of the last change, as Java reads them from Floe's manifests (version 3)."""
    shared = java_catalogs[kind]
    for made in shared.made(operation, version):
        if made.table.format_version == 3:
            told = shared.ask("lineage", made.table.name)["rows"]
            ours = [
                json.dumps([str(row["id"]) if row["id"] is not None else None, *lineage], separators=(",", ":"))
                for row, lineage in rows_with_lineage(made)
            ]
            assert sorted(told) == sorted(ours)


def rows_with_lineage(made: Made) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    for task in made.table.scan().plan().tasks():
        rows = read_file(made.table.storage, task.file.file_path, made.table.schema).to_pylist()
        with made.table.storage.open_read(task.file.file_path) as source:
            stored = pq.ParquetFile(source).read().to_pylist()
        gone = deleted_rows(made.table, task)
        for position, row in enumerate(rows):
            if position not in gone:
                first = task.file.first_row_id
                kept, changed = (stored[position].get(name) for name in ("_row_id", "_last_updated_sequence_number"))
                row_id = None if first is None else str(first + position if kept is None else kept)
                # The format says the data sequence number; Java takes the file's, which is another after compaction.
                assert (
                    task.entry.sequence_number == task.entry.file_sequence_number or made.operation == "rewrite_files"
                )
                number = None if first is None else str(task.entry.file_sequence_number if changed is None else changed)
                yield row, [task.file.file_path, str(position), row_id, number]
