"""The table `partitions`: the files of one snapshot, aggregated by partition, in columns.

Deletes are counted as they are stored; what they delete is not taken off the rows. Files whose specs have a different
number of the table's partition fields are counted apart even where all values are equal: a null that is stored is not
the same as a field that a spec did not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from floe.avro.manifest_columns import ManifestColumns
from floe.avro.vector_decoder import Offsets
from floe.formats.columns.arrow_types import arrow_schema
from floe.plan.arrow_columns import column_to_array
from floe.plan.delete_files import relax_to_columns
from floe.plan.metadata_tables.entries import EntryRows
from floe.plan.metadata_tables.filters import (
    ManifestFilter,
    columns_of_filter,
    filter_table,
    matching_rows,
)
from floe.plan.metadata_tables.schemas import MetadataSource
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import FileContent
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.pruning.column_evaluation import Column
from floe.spec.schemas.schema import Schema
from floe.spec.types import INT, LONG, TIMESTAMPTZ, Field, StructType

_MICROS_PER_MILLI = 1000
_NEVER = np.iinfo(np.int64).min

_COUNTED = {
    "record_count": (FileContent.DATA, "records"),
    "file_count": (FileContent.DATA, "files"),
    "total_data_file_size_in_bytes": (FileContent.DATA, "bytes"),
    "position_delete_record_count": (FileContent.POSITION_DELETES, "records"),
    "position_delete_file_count": (FileContent.POSITION_DELETES, "files"),
    "equality_delete_record_count": (FileContent.EQUALITY_DELETES, "records"),
    "equality_delete_file_count": (FileContent.EQUALITY_DELETES, "files"),
}
"""Which files each count is of, and what of them it counts."""


@dataclass(frozen=True, slots=True)
class _Files:
    """The live files of manifests of one spec: their partitions as structs, and the values that are aggregated."""

    partition: pa.StructArray
    shown_fields: int
    spec_id: int
    content: Offsets
    records: Offsets
    bytes: Offsets
    snapshot_id: Offsets


def partitions(sources: MetadataSource, snapshot: Snapshot | None, schema: Schema, where: Expression) -> pa.Table:
    """One row for each partition with files in a snapshot that matches a filter, which is bound to the schema."""
    unified = sources.partition_type
    early = relax_to_columns(where, {field.id for field in unified})
    pruning = ManifestFilter(early, sources.partition_types, {field.id: field.id for field in unified})
    partition = Field(1, "partition", unified, required=True)

    def read(columns: ManifestColumns) -> _Files:
        rows = EntryRows(columns, np.flatnonzero(columns.live), {})
        if early != TRUE:
            rows = rows.where(matching_rows(early, rows.batch(columns_of_filter(early, schema)), schema))
        left, indices = rows.columns, rows.rows
        snapshot_ids = rows.take(left.snapshot_id)
        return _Files(
            rows.array(partition),
            len({field.id for field in left.partition_type} & {field.id for field in unified}),
            left.spec_id,
            left.content[indices],
            left.record_count[indices],
            left.file_size_in_bytes[indices],
            np.where(snapshot_ids.is_valid, np.asarray(snapshot_ids.values), -1),
        )

    chosen = pruning.select(sources.manifests(snapshot))
    files = list(sources.read_manifests(chosen, read))
    return filter_table(where, _counted(sources.metadata, unified, schema, files), schema)


def _counted(metadata: TableMetadata, unified: StructType, schema: Schema, groups_of_files: list[_Files]) -> pa.Table:
    target = arrow_schema(schema)
    if not sum(len(files.content) for files in groups_of_files):
        return target.empty_table()
    keys = pa.concat_arrays([files.partition for files in groups_of_files])
    groups, first = _groups(keys, _joined([np.full(len(f.content), f.shown_fields) for f in groups_of_files]))
    content = _joined([files.content for files in groups_of_files])
    amounts = {
        "records": _joined([files.records for files in groups_of_files]),
        "bytes": _joined([files.bytes for files in groups_of_files]),
        "files": np.ones(len(content), np.int64),
    }
    columns: dict[str, pa.Array] = {"partition": keys.take(pa.array(first))}
    for name, (kind, amount) in _COUNTED.items():
        column = next(field for field in schema.fields if field.name == name)
        columns[name] = column_to_array(
            column.type, Column(_sums(groups, len(first), content == kind, amounts[amount]))
        )
    spec_ids = _joined([np.full(len(files.content), files.spec_id) for files in groups_of_files])
    columns |= _last_updates(
        metadata, groups, first, spec_ids, _joined([files.snapshot_id for files in groups_of_files])
    )
    return pa.Table.from_arrays([columns[field.name] for field in target], schema=target)


def _joined(parts: list[NDArray[Any]]) -> Offsets:
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64, copy=False)


def _sums(groups: Offsets, count: int, chosen: NDArray[np.bool_], amounts: Offsets) -> Offsets:
    sums = np.zeros(count, np.int64)
    np.add.at(sums, groups[chosen], amounts[chosen])
    return sums


def _groups(keys: pa.StructArray, shown_fields: Offsets) -> tuple[Offsets, Offsets]:
    """The group of each file, numbered by first appearance, and the first file of each group."""
    groups = shown_fields
    for n in range(keys.type.num_fields):
        codes = _codes(keys.field(n))
        groups = np.unique(groups * (codes.max(initial=0) + 1) + codes, return_inverse=True)[1].astype(np.int64)
    _, first, groups = np.unique(groups, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[groups], first[order]


def _codes(values: pa.Array) -> Offsets:
    """A number for each value, equal for equal values; 0 for null. Floats are equal by their bits, and so are NaN."""
    if pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
        numbers[np.isnan(numbers)] = np.nan  # nulls come as NaN too, and are told apart below
        values = pa.array(numbers.view(np.int64), mask=values.is_null().to_numpy(zero_copy_only=False))
    if pa.types.is_null(values.type):
        return np.zeros(len(values), np.int64)
    indices = values.dictionary_encode().indices
    codes: Offsets = indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes + 1


def _last_updates(
    metadata: TableMetadata, groups: Offsets, first: Offsets, spec_ids: Offsets, snapshot_ids: Offsets
) -> dict[str, pa.Array]:
    """For each partition, the timestamp and id of the last snapshot that added a file, and the spec of that file.

    Expired snapshots are not known; if all are, the spec is that of the first file.
    """
    times = {snapshot.snapshot_id: snapshot.timestamp_ms * _MICROS_PER_MILLI for snapshot in metadata.snapshots}
    ids, indices = np.unique(snapshot_ids, return_inverse=True)
    by_id = np.array([times.get(snapshot_id, _NEVER) for snapshot_id in ids.tolist()], np.int64)
    timestamps = by_id[indices]
    # the latest of each group; of equal ones, the first file
    order = np.lexsort((np.arange(len(timestamps)), -np.maximum(timestamps, _NEVER + 1), groups))
    latest = order[np.searchsorted(groups[order], np.arange(len(first)))]
    is_known = timestamps[latest] != _NEVER
    return {
        "spec_id": column_to_array(INT, Column(spec_ids[latest])),
        "last_updated_at": column_to_array(TIMESTAMPTZ, Column(np.where(is_known, timestamps[latest], 0), is_known)),
        "last_updated_snapshot_id": column_to_array(LONG, Column(snapshot_ids[latest], is_known)),
    }
