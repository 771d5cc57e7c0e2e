"""Rows of corpus tables by the format models, with deletes of every kind applied in the plainest way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from floe.formats.columns.arrays import to_values
from floe.formats.registry import AvroAsArrow, OrcAsArrow, ParquetAsArrow, Registry
from floe.plan.scan import ScanOptions, plan_scan
from floe.plan.snapshot_selection import choose_snapshot, schema_for
from floe.plan.tasks import FileTask
from floe.spec.codecs import deletion_vectors
from floe.spec.expressions.binder import bind
from floe.spec.expressions.expression_json import expression_from_json
from floe.spec.manifests.entries import DataFile
from floe.spec.properties import NAME_MAPPING
from floe.spec.schemas.column_projection import identity_values, select
from floe.spec.schemas.metadata_columns import FILE, PARTITION_ID, POS, SPEC_ID, position_delete_schema
from floe.spec.schemas.name_mapping import parse_name_mapping
from floe.spec.schemas.schema import Schema
from helpers.canonical import canonical_rows
from helpers.corpus_tables import CorpusTable

FORMATS = Registry((ParquetAsArrow(), OrcAsArrow(), AvroAsArrow()))
QUERIES = {"snapshot_id", "ref", "timestamp_ms", "columns", "filter", "filter_sql"}


def cases_with(table: CorpusTable, file_format: str) -> Iterator[tuple[dict[str, Any], Schema, list[FileTask]]]:
    """The cases whose rows or deletes are in files of a format, with the schema and the tasks of the scan."""
    for case in table.facts["cases"]:
        query = case["query"]
        if set(query) - QUERIES:
            continue
        asked = {"snapshot": query.get("snapshot_id"), "ref": query.get("ref"), "as_of_ms": query.get("timestamp_ms")}
        snapshot = choose_snapshot(table.metadata, **asked)
        schema = schema_for(table.metadata, **asked)
        # no filter here: the readers are to find all rows, also those whose file Java's bounds would leave out
        tasks = list(
            plan_scan(table.metadata, table.storage, snapshot=snapshot, options=ScanOptions(schema=schema)).tasks()
        )
        files = [file for task in tasks for file in (task.file, *task.deletes)]
        if any(file.file_format == file_format for file in files):
            yield case, schema, tasks


def rows_of_case(table: CorpusTable, case: dict[str, Any], schema: Schema, tasks: list[FileTask]) -> list[str]:
    """The rows of a case in the corpus's canonical form."""
    query = case["query"]
    wanted = select(schema, query["columns"]) if "columns" in query else schema
    where = bind(expression_from_json(query["filter"], schema), schema) if "filter" in query else None
    batches = [batch for task in tasks for batch in _batches(table, task, wanted, where, schema)]
    if not batches:
        return []
    return canonical_rows(pa.Table.from_batches(batches), table.facts["schemas"][case["schema"]])


def _batches(
    table: CorpusTable, task: FileTask, wanted: Schema, where: Any, schema: Schema
) -> Iterator[pa.RecordBatch]:
    keys = sorted({field_id for file in task.deletes for field_id in file.equality_ids or ()})
    extra = [_field(table, field_id) for field_id in keys if wanted.by_id.get(field_id) is None]
    positions = () if POS.id in wanted.by_id else (POS,)
    whole = Schema((*wanted.fields, *extra, *positions))
    gone = _deleted_positions(table, task)
    values = [_deleted_values(table, file) for file in task.deletes if file.is_equality_delete_file]
    for batch in _read(table, task, whole, where, schema):
        rows = to_values(whole.as_struct(), batch.to_struct_array())
        kept = [
            row[POS.name] not in gone
            and not any(tuple(repr(row[_named(whole, n)]) for n in ids) in deleted for ids, deleted in values)
            for row in rows
        ]
        yield batch.filter(pa.array(kept, pa.bool_())).select([field.name for field in wanted.fields])


def _named(schema: Schema, field_id: int) -> str:
    return schema.by_id[field_id].field.name


def _field(table: CorpusTable, field_id: int) -> Any:
    """A column of the table, which may have been dropped since."""
    schemas = reversed(table.metadata.schemas)
    return next(schema.by_id[field_id].field for schema in schemas if field_id in schema.by_id)


def _read(table: CorpusTable, task: FileTask, wanted: Schema, where: Any, schema: Schema) -> Iterator[pa.RecordBatch]:
    file = task.file
    mapping = table.metadata.properties.get(NAME_MAPPING.name)
    constants = identity_values(task.spec.fields, file.partition)
    reading = (
        FORMATS.read(file.file_format, "arrow", table.storage, file.file_path)
        .project(wanted)
        .constants({**constants, FILE.id: file.file_path, SPEC_ID.id: file.spec_id, PARTITION_ID: None})
        .name_mapping(parse_name_mapping(mapping) if mapping else None)
        .lineage(file.first_row_id, task.entry.sequence_number)
        .facts(file_size=file.file_size_in_bytes, record_count=file.record_count)
    )
    return iter(reading if where is None else reading.filter(where, schema))


def _deleted_positions(table: CorpusTable, task: FileTask) -> set[int]:
    gone: set[int] = set()
    for file in task.deletes:
        if file.is_deletion_vector:
            assert file.content_offset is not None
            assert file.content_size_in_bytes is not None
            blob = table.storage.read_range(file.file_path, file.content_offset, file.content_size_in_bytes)
            gone |= set(deletion_vectors.deserialize(blob, cardinality=file.record_count))
        elif file.is_position_delete_file:
            for batch in _read_deletes(table, file, position_delete_schema()):
                places = zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
                gone |= {place for path, place in places if path == task.file.file_path}
    return gone


def _deleted_values(table: CorpusTable, file: DataFile) -> tuple[tuple[int, ...], set[tuple[str, ...]]]:
    ids = file.equality_ids or ()
    schema = Schema(tuple(_field(table, field_id) for field_id in ids))
    found = set()
    for batch in _read_deletes(table, file, schema):
        for row in to_values(schema.as_struct(), batch.to_struct_array()):
            found.add(tuple(repr(row[_named(schema, field_id)]) for field_id in ids))
    return ids, found


def _read_deletes(table: CorpusTable, file: DataFile, schema: Schema) -> Iterator[pa.RecordBatch]:
    reading = FORMATS.read(file.file_format, "arrow", table.storage, file.file_path).project(schema)
    return iter(reading.facts(file_size=file.file_size_in_bytes, record_count=file.record_count))
