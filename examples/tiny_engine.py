"""Rows into and out of a table, in one small file: Parquet is pyarrow's work, everything else is Floe's.

It writes data files and deletion vectors for `Table.append_files` and `Table.row_delta`, and reads what a scan plans.
It is an example, not the product: flat schemas of common types, one file for each partition, all of it in memory.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from floe import Table
from floe.formats.arrow_filters import filter_mask
from floe.formats.arrow_transforms import apply as transform_array
from floe.formats.arrow_types import arrow_schema, arrow_type
from floe.plan.tasks import FileTask
from floe.spec import values
from floe.spec.codecs import deletion_vectors, puffin, single_value
from floe.spec.manifests.entries import DataFile, FileContent
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.partitioning.paths import partition_path
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage
from floe.table.scan import Scan

# writing --------------------------------------------------------------------------------------------------------------


def append(table: Table, rows: pa.Table) -> Snapshot | None:
    """Write rows, and add them to a table."""
    return table.append_files(write_rows(table, rows))


def write_rows(table: Table, rows: pa.Table) -> list[DataFile]:
    """Write rows as one Parquet file for each partition; no table has them until the files are committed."""
    rows = rows.select([field.name for field in table.schema]).cast(arrow_schema(table.schema))
    return [_write_file(table, values_, part) for values_, part in split(rows, table.schema, table.spec)]


def _write_file(table: Table, partition: tuple[Any, ...], rows: pa.Table) -> DataFile:
    folder = f"data/{partition_path(table.spec, table.schema, partition)}".rstrip("/")
    path = f"{table.location}/{folder}/{uuid.uuid4()}.parquet"
    with table.storage.open_write(path) as sink:
        pq.write_table(rows, sink, compression="zstd")
    return DataFile(
        FileContent.DATA,
        path,
        "parquet",
        partition,
        rows.num_rows,
        table.storage.stat(path).size,
        **metrics(rows, table.schema),
        spec_id=table.spec.spec_id,
    )


def delete(table: Table, where: str) -> Snapshot | None:
    """Delete the rows that a filter selects, by deletion vectors (format version 3)."""
    deletes, replaced = [], []
    for task in table.scan(where=where).plan().tasks():
        rows = read_file(table.storage, task.file.file_path, table.schema)
        before = deleted_positions(table.storage, task)
        hit = set(pc.indices_nonzero(filter_mask(task.residual, rows)).to_pylist()) - before
        if hit:
            deletes.append(_write_vector(table, task.file, before | hit))
            replaced += [file for file in task.deletes if file.is_deletion_vector]
    return table.row_delta(deletes=deletes, removed=replaced, read=where) if deletes else None


def _write_vector(table: Table, target: DataFile, positions: set[int]) -> DataFile:
    blob = deletion_vectors.blob_of(sorted(positions), target.file_path)
    written = puffin.write_file([blob], {"created-by": "floe tiny engine"})
    path = f"{table.location}/data/{uuid.uuid4()}-deletes.puffin"
    table.storage.write(path, written.data)
    place = written.payload.blobs[0]
    return DataFile(
        FileContent.POSITION_DELETES,
        path,
        "puffin",
        target.partition,
        len(positions),
        len(written.data),
        referenced_data_file=target.file_path,
        content_offset=place.offset,
        content_size_in_bytes=place.length,
        spec_id=target.spec_id,
    )


def split(rows: pa.Table, schema: Schema, spec: PartitionSpec) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """The rows of each partition, with its partition tuple."""
    if not spec.fields:
        yield (), rows
        return
    sources = [schema.entry(field.source_id).field for field in spec.fields]
    keys = [
        transform_array(field.transform, source.type, rows[source.name])
        for field, source in zip(spec.fields, sources, strict=True)
    ]
    names = [f"key{n}" for n in range(len(keys))]
    keyed = pa.table([*keys, pa.array(range(rows.num_rows))], [*names, "row"])
    types = [field.type for field in spec.partition_type(schema)]
    for group in keyed.group_by(names).aggregate([("row", "list")]).to_pylist():
        partition = tuple(values.convert(t, group[name]) for t, name in zip(types, names, strict=True))
        yield partition, rows.take(group["row_list"])


def metrics(rows: pa.Table, schema: Schema) -> dict[str, Any]:
    """Counts and bounds of each column."""
    lower, upper, counts, nulls = {}, {}, {}, {}
    for field in schema:
        column = rows[field.name]
        counts[field.id], nulls[field.id] = len(column), column.null_count
        low, high = pc.min_max(column).as_py().values()
        if low is not None:
            lower[field.id] = single_value.encode(field.type, values.convert(field.type, low))
            upper[field.id] = single_value.encode(field.type, values.convert(field.type, high))
    return {"value_counts": counts, "null_value_counts": nulls, "lower_bounds": lower, "upper_bounds": upper}


# reading --------------------------------------------------------------------------------------------------------------


def read(table: Table, scan: Scan | None = None) -> pa.Table:
    """The rows of a scan, by default all rows of the table."""
    scan = table.scan() if scan is None else scan
    parts = [_read_task(table.storage, task, scan.table_schema) for task in scan.plan().tasks()]
    rows = pa.concat_tables(parts) if parts else arrow_schema(scan.table_schema).empty_table()
    return rows.select([field.name for field in scan.schema])


def _read_task(storage: Storage, task: FileTask, schema: Schema) -> pa.Table:
    """The rows of a file that are not deleted and pass what is left of the filter."""
    rows = read_file(storage, task.file.file_path, schema)
    gone = deleted_positions(storage, task)
    alive = pa.array([position not in gone for position in range(rows.num_rows)], pa.bool_())
    return rows.filter(pc.and_(filter_mask(task.residual, rows), alive))


def read_file(storage: Storage, path: str, schema: Schema) -> pa.Table:
    """A data file under a schema: columns are found by field id, so that renames and later columns are right."""
    with storage.open_read(path) as source:
        stored = pq.ParquetFile(source).read()
    by_id = {int(field.metadata[b"PARQUET:field_id"]): field.name for field in stored.schema if field.metadata}
    columns = [
        stored[by_id[field.id]].cast(arrow_type(field.type))
        if field.id in by_id
        else pa.array([field.initial_default] * stored.num_rows, arrow_type(field.type))
        for field in schema
    ]
    return pa.table(columns, schema=arrow_schema(schema))


def deleted_positions(storage: Storage, task: FileTask) -> set[int]:
    """The positions of a file's rows that its deletion vector deletes."""
    gone: set[int] = set()
    for file in task.deletes:
        if not file.is_deletion_vector or file.content_offset is None or file.content_size_in_bytes is None:
            raise NotImplementedError(f"this example reads deletion vectors only, not {file.file_path}")
        blob = storage.read_range(file.file_path, file.content_offset, file.content_size_in_bytes)
        gone |= set(deletion_vectors.deserialize(blob, cardinality=file.record_count))
    return gone
