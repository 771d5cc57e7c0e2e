"""The files of a plan as Arrow tables, for engines that take columns.

| column | of data files | of deletes |
|---|---|---|
| `content` | | `position_deletes` or `equality_deletes` |
| `file_path`, `file_format`, `record_count`, `file_size_in_bytes` | as in the manifest | the same |
| `spec_id`, `partition` | the tuple as a struct of the fields of all specs | the same |
| `snapshot_id`, `sequence_number`, `file_sequence_number` | with what they inherit | the same |
| `first_row_id`, `sort_order_id`, `split_offsets` | as in the manifest | |
| `key_metadata` | as in the manifest | the same |
| `residual` | what is left of the filter, as SQL | |
| `deletes` | the rows of the other table that apply | |
| `equality_ids`, `referenced_data_file`, `content_offset`, `content_size_in_bytes` | | as in the manifest |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from floe.avro.manifests import FORMATS, ManifestColumns
from floe.formats.arrow_types import arrow_type
from floe.plan.file_chunks import FileChunk
from floe.plan.metadata_tables.arrays import to_array
from floe.plan.metadata_tables.flat_maps import flat_lists
from floe.spec.expressions.nodes import Expression
from floe.spec.manifests.entries import FileContent
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import unified_partition_type
from floe.spec.pruning.columnar_rows import Column
from floe.spec.schemas.schema import Schema
from floe.spec.types import BINARY, LONG, STRING, StructType

__all__ = ["deletes_column", "deletes_table", "files_table"]

Places = NDArray[np.int64]

# no arrays yet: with the first one pyarrow looks for pandas, which takes long to load
_FORMATS = list(FORMATS)
_CONTENT = [content.name.lower() for content in FileContent]


def files_table(
    metadata: TableMetadata,
    schema: Schema,
    chunks: Sequence[FileChunk],
    residuals: Sequence[Expression],
) -> pa.Table:
    """The data files of some chunks, without their deletes."""
    type_ = _partition_type(metadata, schema)
    texts = pa.array([str(residual) for residual in residuals], pa.string())
    batches = []
    for chunk in chunks:
        columns = chunk.columns
        codes = np.zeros(len(chunk), np.int32) if chunk.residuals is None else chunk.residuals
        arrays = {
            **_common(columns, type_),
            "first_row_id": to_array(LONG, columns.first_row_id),
            "sort_order_id": to_array(LONG, columns.sort_order_id).cast(pa.int32()),
            "key_metadata": to_array(BINARY, Column(columns.key_metadata)),
            "split_offsets": _lists(columns, "split_offsets", pa.int64()),
            "residual": pa.DictionaryArray.from_arrays(pa.array(codes), texts),
        }
        batches.append(pa.table(arrays, _FILES(type_)))
    return pa.concat_tables(batches) if batches else _FILES(type_).empty_table()


def deletes_column(deletes: Iterable[tuple[Places, Places]]) -> pa.ChunkedArray:
    """The deletes of the files of some chunks, each as offsets and numbers."""
    arrays = [pa.LargeListArray.from_arrays(offsets, pa.array(numbers, pa.int64())) for offsets, numbers in deletes]
    return pa.chunked_array(arrays, pa.large_list(pa.int64()))


def deletes_table(metadata: TableMetadata, schema: Schema, chunks: Sequence[ManifestColumns]) -> pa.Table:
    """The delete files of some chunks."""
    type_ = _partition_type(metadata, schema)
    batches = [
        pa.table(
            {
                "content": pa.array(_CONTENT).take(pa.array(columns.content)),
                **_common(columns, type_),
                "equality_ids": _lists(columns, "equality_ids", pa.int32()),
                "referenced_data_file": to_array(STRING, Column(columns.referenced_data_file)),
                "content_offset": to_array(LONG, columns.content_offset),
                "content_size_in_bytes": to_array(LONG, columns.content_size_in_bytes),
                "key_metadata": to_array(BINARY, Column(columns.key_metadata)),
            },
            _DELETES(type_),
        )
        for columns in chunks
    ]
    return pa.concat_tables(batches) if batches else _DELETES(type_).empty_table()


def _partition_type(metadata: TableMetadata, schema: Schema) -> StructType:
    newest_first = sorted(metadata.schemas, key=lambda schema: -schema.schema_id)
    return unified_partition_type(metadata.partition_specs, [schema, *newest_first])


_COMMON: list[tuple[str, pa.DataType]] = [
    ("snapshot_id", pa.int64()),
    ("sequence_number", pa.int64()),
    ("file_sequence_number", pa.int64()),
]


def _common_fields(type_: StructType) -> list[tuple[str, pa.DataType]]:
    return [
        ("file_path", pa.string()),
        ("file_format", pa.string()),
        ("spec_id", pa.int32()),
        ("partition", arrow_type(type_)),
        ("record_count", pa.int64()),
        ("file_size_in_bytes", pa.int64()),
        *_COMMON,
    ]


def _schema(
    *before: tuple[str, pa.DataType], after: list[tuple[str, pa.DataType]]
) -> Callable[[StructType], pa.Schema]:
    return lambda type_: pa.schema([*before, *_common_fields(type_), *after])


_FILES = _schema(
    after=[
        ("first_row_id", pa.int64()),
        ("sort_order_id", pa.int32()),
        ("key_metadata", pa.binary()),
        ("split_offsets", pa.list_(pa.int64())),
        ("residual", pa.dictionary(pa.int32(), pa.string())),
    ]
)
_DELETES = _schema(
    ("content", pa.string()),
    after=[
        ("equality_ids", pa.list_(pa.int32())),
        ("referenced_data_file", pa.string()),
        ("content_offset", pa.int64()),
        ("content_size_in_bytes", pa.int64()),
        ("key_metadata", pa.binary()),
    ],
)


def _common(columns: ManifestColumns, type_: StructType) -> dict[str, pa.Array]:
    return {
        "file_path": to_array(STRING, Column(columns.file_path)),
        "file_format": pa.array(_FORMATS).take(pa.array(columns.file_format)),
        "spec_id": pa.array(np.full(len(columns), columns.spec_id, np.int32)),
        "partition": _partitions(columns, type_),
        "record_count": pa.array(columns.record_count),
        "file_size_in_bytes": pa.array(columns.file_size_in_bytes),
        **{name: to_array(LONG, getattr(columns, name)) for name, _ in _COMMON},
    }


def _partitions(columns: ManifestColumns, type_: StructType) -> pa.Array:
    """The partition tuples as structs of all specs' fields; those of other specs are null."""
    own = {field.id for field in columns.partition_type}
    target = arrow_type(type_)
    children = [
        to_array(field.type, columns.partition(field.id)) if field.id in own else pa.nulls(len(columns), wanted.type)
        for field, wanted in zip(type_, target, strict=True)
    ]
    return pa.Array.from_buffers(target, len(columns), [None], children=children)


def _lists(columns: ManifestColumns, name: str, item: pa.DataType) -> pa.Array:
    found = flat_lists(columns.stored, name, np.arange(len(columns)))
    offsets = pa.array(np.concatenate([[0], np.cumsum(found.counts)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(found.items).cast(item), mask=pa.array(~found.known))
