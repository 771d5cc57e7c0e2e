"""Counts, minima and maxima from metadata, where metadata is exact, and the files that must be read for the others.

A file counts without being read if all of its rows are known to pass the filter, and none of them is deleted (for
counts of rows: or a deletion vector says how many are). Bounds are exact for numbers and times. Those of strings and
bytes may be cut short, and Java orders UUIDs in its own way, so these are never taken for a minimum or maximum.

For estimates `whole_files` asks about all rows of the files, also those that are deleted or do not pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floe.errors import InvalidInput
from floe.plan.delete_files import DeleteKind
from floe.plan.file_selection import FileChunk
from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import FileTask
from floe.spec.pruning.key_columns import ByteKeys, FloatKeys, IntKeys, KeyColumn, keys_from_bounds, trusted_bounds
from floe.spec.pruning.metrics_evaluation import ColumnStats
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.pruning.ranges import FLOAT_KINDS, INTEGER_KINDS
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.types import DecimalType, Type
from floe.spec.values.exact_numbers import decimal_from_unscaled

RowIndices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PartialResult:
    """A result from metadata, and the files of the plan that must be read to complete it."""

    plan: ScanPlan
    unsettled: tuple[RowIndices, ...]
    """For each chunk of the plan, the rows of these files."""

    @property
    def is_complete(self) -> bool:
        """Whether no file has to be read."""
        return not any(len(rows) for rows in self.unsettled)

    def tasks(self) -> Iterator[FileTask]:
        """The tasks of the files that have to be read."""
        for number, rows in enumerate(self.unsettled):
            if len(rows):
                yield from self.plan.some_tasks(number, rows)


@dataclass(frozen=True, eq=False)
class PartialCount(PartialResult):
    """A count without the files that must be read; their counts are added to it."""

    count: int


@dataclass(frozen=True, eq=False)
class PartialRange(PartialResult):
    """The lowest and highest value without the files that must be read; None if none is known. NaN is highest."""

    lower: Any
    upper: Any


def count_rows(plan: ScanPlan) -> PartialCount:
    """The number of rows that match the filter of a plan and are not deleted."""
    total, unsettled = 0, []
    for chunk, deleted in zip(plan.chunks, _deleted_rows(plan), strict=True):
        rows = np.asarray(chunk.columns.record_count)
        settled = _settled(plan, chunk) & (rows >= 0) & (deleted >= 0) & (deleted <= rows)
        total += int((rows - deleted)[settled].sum())
        unsettled.append(np.flatnonzero(~settled))
    return PartialCount(plan, tuple(unsettled), total)


def count_values(plan: ScanPlan, field_id: int, *, whole_files: bool = False) -> PartialCount:
    """The number of non-null values of a column in matching rows; the plan must retain the metrics of the column."""
    total, unsettled = 0, []
    for chunk, deleted in zip(plan.chunks, _deleted_rows(plan), strict=True):
        stats, rows = _stats(chunk, field_id), np.asarray(chunk.columns.record_count)
        nulls, values = (_counts_or_unknown(counts, len(chunk)) for counts in (stats.null_count, stats.value_count))
        settled = (values == rows) & (nulls >= 0) & (nulls <= rows)
        if not whole_files:
            settled &= _settled(plan, chunk) & (deleted == 0)
        total += int((rows - nulls)[settled].sum())
        unsettled.append(np.flatnonzero(~settled))
    return PartialCount(plan, tuple(unsettled), total)


def value_range(plan: ScanPlan, field_id: int, *, whole_files: bool = False) -> PartialRange:
    """The lowest and highest value of a column in matching rows; the plan must retain the metrics of the column."""
    entry = plan.schema.entry(field_id)
    type_ = entry.field.type
    lowers: list[Any] = []
    uppers: list[Any] = []
    unsettled = []
    for chunk, deleted in zip(plan.chunks, _deleted_rows(plan), strict=True):
        if not _has_exact_bounds(type_) or entry.in_collection:
            unsettled.append(np.arange(len(chunk)))
            continue
        extent = _Extent(type_, _stats(chunk, field_id), np.asarray(chunk.columns.record_count))
        settled = extent.is_exact if whole_files else _settled(plan, chunk) & (deleted == 0) & extent.is_exact
        lowers += extent.least(settled)
        uppers += extent.greatest(settled)
        unsettled.append(np.flatnonzero(~settled))
    return PartialRange(
        plan, tuple(unsettled), min(lowers, key=_order, default=None), max(uppers, key=_order, default=None)
    )


def _order(value: Any) -> tuple[bool, Any]:
    """The sort key of a value: NaN after all numbers."""
    return (True, 0) if value != value else (False, value)


# files ------------------------------------------------------------------------------------------------------------


def _settled(plan: ScanPlan, chunk: FileChunk) -> Mask:
    """The files whose rows all match the filter."""
    return chunk.all_match | plan.without_filter(chunk)


def _deleted_rows(plan: ScanPlan) -> Iterator[RowIndices]:
    """For each chunk, the number of deleted rows of each file; -1 if the deletes must be read to know it."""
    for number, chunk in enumerate(plan.chunks):
        deleted = np.zeros(len(chunk), np.int64)
        if plan.deletes is not None:
            kinds, counts = plan.deletes.deletes.kind, plan.deletes.deletes.record_count
            for rows in chunk.blocks(plan.block(number)):
                offsets, deletes = plan.deletes_of(number, rows)
                files = np.repeat(rows, np.diff(offsets))
                vectors = np.equal(kinds[deletes], DeleteKind.VECTOR)
                deleted[files[vectors]] = counts[deletes[vectors]]
                deleted[files[~vectors]] = -1
        yield deleted


def _stats(chunk: FileChunk, field_id: int) -> ColumnStats:
    stats = chunk.stats().columns.get(field_id)
    if stats is None:
        raise InvalidInput(
            f"the plan does not keep the metrics of column {field_id}", hint="name it in `ScanOptions.metrics`"
        )
    return stats


def _counts_or_unknown(counts: RowIndices | None, count: int) -> RowIndices:
    return np.full(count, -1) if counts is None else counts


# bounds -----------------------------------------------------------------------------------------------------------


def _has_exact_bounds(type_: Type) -> bool:
    return type_.kind in INTEGER_KINDS or type_.kind in FLOAT_KINDS or isinstance(type_, DecimalType)


class _Extent:
    """The bounds of a column in many files, as values."""

    def __init__(self, type_: Type, stats: ColumnStats, record_count: RowIndices) -> None:
        count = len(record_count)
        self._type = type_
        nothing = VarBytes(np.zeros(0, np.uint8), np.zeros(count, np.int64), np.full(count, -1))
        self._lower, self._upper = trusted_bounds(
            type_, keys_from_bounds(type_, stats.lower or nothing), keys_from_bounds(type_, stats.upper or nothing)
        )
        nulls, values = _counts_or_unknown(stats.null_count, count), _counts_or_unknown(stats.value_count, count)
        self._nans = (
            _counts_or_unknown(stats.nan_count, count) if type_.kind in FLOAT_KINDS else np.zeros(count, np.int64)
        )
        self._bounded = self._lower.is_valid & self._upper.is_valid
        counted = (values == record_count) & (nulls >= 0) & (self._nans >= 0)
        self._empty = counted & (nulls + self._nans == values)
        """Nothing but nulls and NaN."""

    @property
    def is_exact(self) -> Mask:
        """The files whose bounds are exact."""
        return np.asarray((self._nans >= 0) & (self._bounded | self._empty), np.bool_)

    def least(self, files: Mask) -> list[Any]:
        """The lowest value of these files, in a list; NaN if they have nothing else."""
        bounded = np.flatnonzero(files & self._bounded)
        if len(bounded):
            return [_value(self._type, self._lower, bounded, least=True)]
        return self._nan(files)

    def greatest(self, files: Mask) -> list[Any]:
        """The highest value of these files, in a list; NaN if there is one."""
        bounded = np.flatnonzero(files & self._bounded)
        nan = self._nan(files)
        return nan if nan or not len(bounded) else [_value(self._type, self._upper, bounded, least=False)]

    def _nan(self, files: Mask) -> list[Any]:
        return [float("nan")] if (self._nans[files] > 0).any() else []


def _value(type_: Type, keys: KeyColumn, rows: RowIndices, *, least: bool) -> Any:
    choose = min if least else max
    if isinstance(keys, ByteKeys):  # wide decimals, whose first bit is flipped so that bytes are in order
        word = choose(value for value in keys.values.take(rows).to_list() if value is not None)
        assert isinstance(type_, DecimalType)
        return decimal_from_unscaled(
            int.from_bytes(bytes([word[0] ^ 0x80]) + word[1:], "big", signed=True), type_.scale
        )
    assert isinstance(keys, IntKeys | FloatKeys)
    key = choose(keys.values[rows].tolist())
    if isinstance(type_, DecimalType):
        return decimal_from_unscaled(key, type_.scale)
    return bool(key) if type_.kind == "boolean" else key
