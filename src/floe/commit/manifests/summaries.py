"""What a manifest list says about a manifest that was put together from entries of others, found from columns.

The counterpart of `floe.spec.manifests.summary` for entries that are not objects: the answers are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from floe.avro.lanes import Places
from floe.avro.splicing import Kept
from floe.avro.stored_columns import column_values
from floe.spec.manifests.entries import EntryStatus, FieldSummary
from floe.spec.manifests.summary import ManifestSummary, summarize_partitions
from floe.spec.pruning.columnar_rows import Column
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.types import Field, StructType

__all__ = ["summarize_kept"]


def summarize_kept(parts: Sequence[Kept], partition_type: StructType) -> ManifestSummary:
    """The counts and partition summaries of a manifest that is spliced from these parts."""
    files, rows = dict.fromkeys(EntryStatus, 0), dict.fromkeys(EntryStatus, 0)
    lowest: list[int] = []
    for part in parts:
        status = np.asarray(part.status)
        counts = np.maximum(part.columns.record_count[part.rows], 0)
        for one in EntryStatus:
            which = np.equal(status, one)
            files[one] += int(which.sum())
            rows[one] += int(counts[which].sum())
        numbers = part.columns.sequence_number
        carried = numbers.known[part.rows] & np.not_equal(status, EntryStatus.DELETED)
        if carried.any():
            lowest.append(int(np.asarray(numbers.values)[part.rows][carried].min()))
    return ManifestSummary(
        files[EntryStatus.ADDED],
        files[EntryStatus.EXISTING],
        files[EntryStatus.DELETED],
        rows[EntryStatus.ADDED],
        rows[EntryStatus.EXISTING],
        rows[EntryStatus.DELETED],
        min(lowest, default=None),
        tuple(_field_summary(parts, field) for field in partition_type),
    )


def _field_summary(parts: Iterable[Kept], field: Field) -> FieldSummary:
    """The summary of one partition field, from the few values that can decide it."""
    deciding: list[Any] = []
    for part in parts:
        if len(part.rows):
            column = part.columns.partition(field.id)
            deciding.extend(column_values(field.type, column, _deciding_rows(column, part.rows)))
    (summary,) = summarize_partitions([(value,) for value in deciding], StructType((field,)))
    return summary


def _deciding_rows(column: Column, rows: Places) -> Places:
    """Rows that have every value which matters: a null, a NaN, the least and the greatest."""
    known = column.known[rows]
    nulls, present = rows[~known][:1], rows[known]
    values = column.values
    if isinstance(values, VarBytes):
        places = {string: row for row, string in zip(present.tolist(), values.take(present).to_list(), strict=True)}
        return np.concatenate([nulls, np.fromiter(places.values(), np.int64, len(places))])
    keys = values[present]
    nans = present[:0]
    if keys.dtype.kind == "f":
        is_nan = np.isnan(keys)
        nans, present, keys = present[is_nan][:1], present[~is_nan], keys[~is_nan]
        bits = keys.astype(np.float64, copy=False).view(np.int64)
        keys = bits ^ ((bits >> 63) & np.int64(2**63 - 1))  # ordered as the numbers are, and -0.0 below 0.0
    if not present.size:
        return np.concatenate([nulls, nans])
    return np.concatenate([nulls, nans, present[[keys.argmin(), keys.argmax()]]])
