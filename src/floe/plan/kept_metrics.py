"""The metrics of a few columns, kept for the files of a plan after the manifests they came from are gone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floe.avro.manifests import ManifestColumns
from floe.plan.arrow_columns import compact
from floe.spec.pruning.columnar_metrics import ColumnStats, FileStats
from floe.spec.pruning.var_bytes import VarBytes

__all__ = ["KeptMetrics", "joined_stats", "taken_stats"]

Places = NDArray[np.int64]

_COUNTS = ("value_count", "null_count", "nan_count")
_BOUNDS = ("lower", "upper")


def taken_stats(stats: FileStats, rows: Places) -> FileStats:
    """The metrics of some files.

    >>> taken_stats(FileStats(np.array([5, 7])), np.array([1])).record_count.tolist()
    [7]
    """

    def taken(column: ColumnStats) -> ColumnStats:
        counts = [None if found is None else found[rows] for found in (getattr(column, name) for name in _COUNTS)]
        bounds = [None if found is None else found.take(rows) for found in (getattr(column, name) for name in _BOUNDS)]
        return ColumnStats(*counts, *bounds)

    return FileStats(stats.record_count[rows], {i: taken(column) for i, column in stats.columns.items()})


def joined_stats(parts: Sequence[FileStats]) -> FileStats:
    """The metrics of files that came in parts; a column that a part does not have is unknown there.

    >>> joined_stats([FileStats(np.array([5])), FileStats(np.array([7]))]).record_count.tolist()
    [5, 7]
    """
    ids = {i: None for part in parts for i in part.columns}
    sizes = [len(part) for part in parts]

    def joined(field_id: int) -> ColumnStats:
        columns = [part.columns.get(field_id, ColumnStats()) for part in parts]
        values, nulls, nans = (_joined_counts([getattr(c, name) for c in columns], sizes) for name in _COUNTS)
        lower, upper = (_joined_bounds([getattr(c, name) for c in columns], sizes) for name in _BOUNDS)
        return ColumnStats(values, nulls, nans, lower, upper)

    record_count = np.concatenate([np.zeros(0, np.int64), *(part.record_count for part in parts)])
    return FileStats(record_count, {i: joined(i) for i in ids})


def _joined_counts(parts: Iterable[Places | None], sizes: Sequence[int]) -> Places:
    filled = [np.full(size, -1) if part is None else part for part, size in zip(parts, sizes, strict=True)]
    return np.concatenate([np.zeros(0, np.int64), *filled])


def _joined_bounds(parts: Iterable[VarBytes | None], sizes: Sequence[int]) -> VarBytes:
    data, starts, lengths, base = [np.zeros(0, np.uint8)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for part, size in zip(parts, sizes, strict=True):
        if part is None:
            starts.append(np.zeros(size, np.int64))
            lengths.append(np.full(size, -1))
            continue
        small = compact(part)
        data.append(small.data)
        starts.append(small.starts + base)
        lengths.append(small.lengths)
        base += small.data.size
    return VarBytes(np.concatenate(data), np.concatenate(starts), np.concatenate(lengths))


class KeptMetrics:
    """All metrics of some columns, as whole columns or as the maps of `DataFile`."""

    def __init__(self, columns: ManifestColumns, ids: Collection[int], rows: Places) -> None:
        self._sizes = {i: _taken_counts(columns.stored.counts("column_sizes", i), rows) for i in ids}
        found = taken_stats(columns.stats(ids), rows)
        self.stats = FileStats(found.record_count, {i: _compacted(column) for i, column in found.columns.items()})
        """The metrics as columns."""

    def taken(self, rows: Places) -> KeptMetrics:
        """The metrics of some of the files."""
        found = copy(self)
        found._sizes = {i: _taken_counts(sizes, rows) for i, sizes in self._sizes.items()}
        found.stats = taken_stats(self.stats, rows)
        return found

    def maps(self, ids: Collection[int], rows: Places) -> list[list[dict[int, Any] | None]]:
        """For some files: sizes, counts of values, nulls and NaN, lower and upper bounds of some columns."""
        stats = self.stats.columns
        sources: list[Callable[[int], Places | VarBytes | None]] = [
            self._sizes.get,
            *(lambda i, name=name: getattr(stats[i], name) for name in (*_COUNTS, *_BOUNDS)),
        ]
        return [_dicts({i: _listed(source(i), rows) for i in ids}, len(rows)) for source in sources]


def _taken_counts(counts: Places | None, rows: Places) -> Places | None:
    return None if counts is None else counts[rows]


def _compacted(column: ColumnStats) -> ColumnStats:
    lower, upper = (None if bound is None else compact(bound) for bound in (column.lower, column.upper))
    return ColumnStats(column.value_count, column.null_count, column.nan_count, lower, upper)


def _listed(values: Places | VarBytes | None, rows: Places) -> list[Any]:
    if values is None:
        return [None] * len(rows)
    if isinstance(values, VarBytes):
        return values.take(rows).to_list()
    return [None if value < 0 else value for value in values[rows].tolist()]


def _dicts(columns: Mapping[int, list[Any]], count: int) -> list[dict[int, Any] | None]:
    """A map for each file of what is known; None where nothing is."""
    found: list[dict[int, Any]] = [{} for _ in range(count)]
    for i, values in columns.items():
        for own, value in zip(found, values, strict=True):
            if value is not None:
                own[i] = value
    return [own or None for own in found]
