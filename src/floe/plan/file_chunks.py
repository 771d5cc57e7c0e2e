"""The data files that a plan has chosen, in chunks of columns, each chunk of one partition spec."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floe.avro.manifests import FORMATS, ManifestColumns
from floe.plan.kept_metrics import KeptMetrics, taken_stats
from floe.plan.spec_filters import SpecFilter
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.expressions.rewrite import field_ids
from floe.spec.manifests.entries import ManifestEntry
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.pruning import columnar_metrics
from floe.spec.pruning.columnar_facts import Mask
from floe.spec.pruning.columnar_metrics import FileStats

__all__ = ["Choice", "FileChunk", "FileTests", "choose_files"]

Places = NDArray[np.int64]

_AVRO = FORMATS.index("avro")
_FEW = 4  # if not one file in so many is left, it pays to cut these out first
_METRICS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


@dataclass(eq=False, slots=True)
class FileChunk:
    """Files of one spec."""

    columns: ManifestColumns
    spec: PartitionSpec
    settled: Mask
    """Of which files it is known that all rows pass the filter."""

    metrics: KeptMetrics | None = None
    """The metrics of some columns, if some were asked for."""

    shown: Collection[int] | None = ()
    """The columns whose metrics the objects of files have; None for all."""

    residuals: NDArray[np.int32] | None = None
    """The numbers of the files' residuals; None if they all have the whole filter left."""

    def __len__(self) -> int:
        return len(self.columns)

    def stats(self) -> FileStats:
        """The metrics that were kept, as columns."""
        return FileStats(self.columns.record_count) if self.metrics is None else self.metrics.stats

    def entries(self, rows: Places) -> list[ManifestEntry]:
        """Some of the files as objects."""
        found = self.columns.entries(rows, metrics=self.shown is None)
        if not self.shown or self.metrics is None:
            return found
        maps = zip(*self.metrics.maps(self.shown, rows), strict=True)
        return [
            replace(entry, data_file=replace(entry.data_file, **dict[str, Any](zip(_METRICS, own, strict=True))))
            for entry, own in zip(found, maps, strict=True)
        ]

    def taken(self, rows: Places) -> FileChunk:
        """Some of the files alone."""
        return FileChunk(
            self.columns.take(rows),
            self.spec,
            self.settled[rows],
            None if self.metrics is None else self.metrics.taken(rows),
            self.shown,
            None if self.residuals is None else self.residuals[rows],
        )

    def blocks(self, size: int) -> Iterator[Places]:
        """The rows, some at a time."""
        for begin in range(0, len(self), size):
            yield np.arange(begin, min(begin + size, len(self)))


@dataclass(frozen=True, eq=False, slots=True)
class Choice:
    """What was chosen of some manifests."""

    live: int
    in_partitions: int
    chunk: FileChunk | None
    size: int = 0
    """How many bytes the files have."""


@dataclass(frozen=True, slots=True)
class FileTests:
    """How files are chosen: by the filter, and what is to be kept of them."""

    bound: Expression
    kept: frozenset[int] = frozenset()
    """The columns whose metrics are kept."""

    shown: Collection[int] | None = ()
    """The columns whose metrics objects have, a part of the kept ones; None for all columns."""

    wanted: tuple[int, ...] = field(init=False)
    """The columns whose metrics the filter looks at."""

    needed: tuple[int, ...] = field(init=False)
    """The columns whose metrics are looked at or kept."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "wanted", tuple(sorted(field_ids(self.bound))))
        object.__setattr__(self, "needed", tuple(sorted({*self.wanted, *self.kept})))


def choose_files(columns: ManifestColumns, spec_filter: SpecFilter, tests: FileTests, which: Mask) -> Choice:
    """The files of some manifests, of those in `which`, that may hold passing rows, cut loose from the others."""
    live = int(np.count_nonzero(which))
    if not live:
        return Choice(0, 0, None)
    rows = np.flatnonzero(which & spec_filter.files_kept(columns))
    in_partitions = len(rows)
    if tests.needed and len(rows) * _FEW < len(columns) and not columns.has_metrics_at_hand:
        columns, rows = columns.take(rows), np.arange(len(rows))  # the metrics of the others need not be looked for
    settled: Mask = np.broadcast_to(np.True_, (len(rows),))
    if tests.bound != TRUE and len(rows):
        stats = taken_stats(columns.stats(tests.wanted), rows)
        keep = columnar_metrics.might_match(tests.bound, stats)
        rows = rows[keep]
        settled = columnar_metrics.must_match(tests.bound, taken_stats(stats, np.flatnonzero(keep)))
    if not len(rows):
        return Choice(live, in_partitions, None)
    taken = columns.take(rows, metrics=tests.shown is None)
    _check(taken)
    size = int(taken.file_size_in_bytes.sum())
    taken.forget()
    metrics = KeptMetrics(columns, tests.kept, rows) if tests.kept else None
    return Choice(live, in_partitions, FileChunk(taken, spec_filter.spec, settled, metrics, tests.shown), size)


def _check(columns: ManifestColumns) -> None:
    """Raise if what is said about a file cannot be true; making the object of it says what is wrong."""
    _ = columns.content  # must be data
    uncounted = np.equal(columns.record_count, -1) & np.equal(columns.file_format, _AVRO)
    wrong = ((columns.record_count < 0) & ~uncounted) | (columns.file_size_in_bytes < 0)
    wrong |= np.equal(columns.file_path.lengths, 0)
    if wrong.any():
        columns.entry(int(np.flatnonzero(wrong)[0]))
