"""The rows of a table by Floe's plan, with deletes of every kind: positions, deletion vectors and values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from floe import Table
from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.columns.filters import filter_mask
from floe.formats.registry import default_registry
from floe.plan.tasks import FileTask
from floe.spec.codecs import deletion_vectors
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage
from floe.table.scan import Scan

Row = dict[str, Any]
Rows = list[Row]


def read_rows(table: Table, scan: Scan | None = None) -> Rows:
    """The rows of a scan, by default all of the table, in an order that only depends on them."""
    scan = table.scan() if scan is None else scan
    rows = [row for task in scan.plan().tasks() for row in _rows_of(table, task, scan.table_schema)]
    names = sorted(field.name for field in scan.schema)
    return sorted(({name: row[name] for name in names} for row in rows), key=repr)


def _rows_of(table: Table, task: FileTask, schema: Schema) -> Rows:
    stored = read_file(table.storage, task.file.file_path, schema)
    passes = pc.fill_null(filter_mask(task.residual, stored), False).to_pylist()
    gone = deleted_rows(table, task)
    return [row for position, row in enumerate(stored.to_pylist()) if passes[position] and position not in gone]


def read_file(storage: Storage, path: str, schema: Schema) -> pa.Table:
    """All rows of a data file in some columns, those that are deleted too."""
    reading = default_registry().read("parquet", "arrow", storage, path).project(schema)
    return pa.Table.from_batches(list(reading), arrow_schema(schema))


def deleted_rows(table: Table, task: FileTask) -> set[int]:
    """The positions of a file's rows that deletes of any kind delete."""
    gone = deleted_positions(table.storage, task)
    values = [_deleted_values(table, file) for file in task.deletes if file.is_equality_delete_file]
    if values:
        stored = _by_id(table.storage, task.file.file_path)  # also columns that were dropped since
        for ids, deleted in values:
            columns = [stored.get(id_, [None] * task.file.record_count) for id_ in ids]
            gone |= {position for position, key in enumerate(zip(*columns, strict=True)) if key in deleted}
    return gone


def deleted_positions(storage: Storage, task: FileTask) -> set[int]:
    """The positions of a file's rows that vectors and position delete files delete."""
    gone: set[int] = set()
    for file in task.deletes:
        if file.is_deletion_vector:
            assert file.content_offset is not None
            assert file.content_size_in_bytes is not None
            blob = storage.read_range(file.file_path, file.content_offset, file.content_size_in_bytes)
            gone |= set(deletion_vectors.deserialize(blob, cardinality=file.record_count))
        elif file.is_position_delete_file:
            with storage.open_read(file.file_path) as source:
                places = pq.ParquetFile(source).read(["file_path", "pos"]).to_pylist()
            gone |= {place["pos"] for place in places if place["file_path"] == task.file.file_path}
    return gone


def _deleted_values(table: Table, file: DataFile) -> tuple[tuple[int, ...], set[tuple[Any, ...]]]:
    assert file.equality_ids is not None
    columns = _by_id(table.storage, file.file_path)
    return file.equality_ids, set(zip(*(columns[id_] for id_ in file.equality_ids), strict=True))


def _by_id(storage: Storage, path: str) -> dict[int, list[Any]]:
    with storage.open_read(path) as source:
        stored = pq.ParquetFile(source).read()
    return {
        int(column.metadata[b"PARQUET:field_id"]): stored[column.name].to_pylist()
        for column in stored.schema
        if column.metadata
    }
