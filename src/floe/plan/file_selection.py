"""The data files that a plan has chosen, in chunks of columns, each chunk of one partition spec.

What of a filter is left for each of many files: the rules of `spec.pruning.residuals`, a column at a time.

The partition of a file settles some of the filter's tests and leaves the others. Each test is looked at once, over all
files; and however many files and partitions there are, they fall into a few classes that have the same tests settled,
so that few expressions are made, and files share them.

The metrics of a few columns, kept for the files of a plan after the manifests they came from are gone.

A filter under each of a table's partition specs: which manifests and partitions it leaves, and the types to read.

Files keep the spec that they were written with, so a table has as many projections of a filter as it has specs
(spec: Scan Planning).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floe.avro.manifest_columns import FORMATS, ManifestColumns
from floe.plan.arrow_columns import compact_strings
from floe.spec.expressions.nodes import FALSE, TRUE, BoundPredicate, Expression, and_, fold, or_
from floe.spec.expressions.simplification import field_ids
from floe.spec.manifests.entries import ManifestEntry, ManifestFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.pruning import metrics_evaluation
from floe.spec.pruning.column_evaluation import Column, evaluate
from floe.spec.pruning.metrics_evaluation import ColumnStats, FileStats
from floe.spec.pruning.projection import inclusive_projection, partition_schema, project_predicate
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.schemas.schema import Schema
from floe.spec.types import StructType

# What of a filter is left for each of many files: the rules of `spec.pruning.residuals`, a column at a time.

Codes = NDArray[np.int32]

_NONE, _ALL, _SOME = 0, 1, 2
"""Of a test: no row of the file passes, all do, or that is to be seen."""

_STATES = 3
_MANY = 3**18


class Residuals:
    """The residuals that a plan has met, each once."""

    def __init__(self, bound: Expression) -> None:
        self.bound = bound
        self.expressions: list[Expression] = [bound]
        self._numbers: dict[Expression, int] = {bound: 0}

    def number(self, expression: Expression) -> int:
        """The place of an expression among `expressions`.

        >>> Residuals(TRUE).number(FALSE)
        1
        """
        number = self._numbers.get(expression)
        if number is None:
            number = self._numbers[expression] = len(self.expressions)
            self.expressions.append(expression)
        return number

    def under(self, spec: PartitionSpec, schema: Schema) -> SpecResiduals:
        """The residuals of files of one spec; `schema` is the one that the filter is bound to."""
        return SpecResiduals(self, spec, schema)


class SpecResiduals:
    """What is left of a filter for the files of one spec.

    >>> from floe.spec.expressions.nodes import BoundReference, Op
    >>> from floe.spec.partitioning.partition_spec import PartitionField
    >>> from floe.spec.partitioning.transforms import DAY
    >>> from floe.spec.types import Field, TIMESTAMP
    >>> schema = Schema((Field(1, "ts", TIMESTAMP),))
    >>> spec = PartitionSpec((PartitionField((1,), 1000, "ts_day", DAY),))
    >>> noon = BoundPredicate(Op.GT, BoundReference(schema.entry(1)), (86_400_000_000 * 3 // 2,))
    >>> residuals = Residuals(noon)
    >>> days = Column(np.array([0, 1, 2, 1]))
    >>> codes = residuals.under(spec, schema).codes({1000: days}.__getitem__, 4)
    >>> [str(residuals.expressions[code]) for code in codes]
    ['false', "ts > TIMESTAMP_NTZ '1970-01-02 12:00:00'", 'true', "ts > TIMESTAMP_NTZ '1970-01-02 12:00:00'"]
    """

    def __init__(self, residuals: Residuals, spec: PartitionSpec, schema: Schema) -> None:
        self._residuals = residuals
        self._tests: dict[BoundPredicate, tuple[Expression, Expression]] = {}
        tuples = partition_schema(spec, schema)

        def note(predicate: BoundPredicate) -> None:
            projections = project_predicate(predicate, spec, tuples)
            some_pass = and_(*(inclusive for inclusive, _ in projections))
            all_pass = or_(*(strict for _, strict in projections))
            if (some_pass, all_pass) != (TRUE, FALSE):
                self._tests[predicate] = some_pass, all_pass

        fold(
            residuals.bound,
            constant=lambda value: None,
            predicate=note,
            all_of=lambda parts: None,
            any_of=lambda parts: None,
        )
        self._known: dict[bytes, int] = {}

    def codes(self, partition: Callable[[int], Column], count: int) -> Codes | None:
        """For each file the number of its residual, given its partition values; None if nothing is ever settled."""
        if not self._tests:
            return None
        partition_ids = {i for pair in self._tests.values() for part in pair for i in field_ids(part)}
        columns = {i: partition(i) for i in partition_ids}
        states = np.stack([_states(pair, columns, count) for pair in self._tests.values()])
        classes, firsts = _classes(states)
        numbers = [self._number(states[:, first].tobytes()) for first in firsts.tolist()]
        return np.array(numbers, np.int32)[classes]

    def _number(self, states: bytes) -> int:
        number = self._known.get(states)
        if number is None:
            settled = dict(zip(self._tests, states, strict=True))
            replacements: Mapping[int, Callable[[BoundPredicate], Expression]] = {
                _NONE: lambda predicate: FALSE,
                _ALL: lambda predicate: TRUE,
                _SOME: lambda predicate: predicate,
            }
            left = fold(
                self._residuals.bound,
                constant=lambda value: TRUE if value else FALSE,
                predicate=lambda predicate: replacements[settled.get(predicate, _SOME)](predicate),
                all_of=lambda parts: and_(*parts),
                any_of=lambda parts: or_(*parts),
            )
            number = self._known[states] = self._residuals.number(left)
        return number


def _states(pair: tuple[Expression, Expression], columns: Mapping[int, Column], count: int) -> NDArray[np.uint8]:
    some_pass, all_pass = (evaluate(part, columns, count) for part in pair)
    return np.where(some_pass, np.where(all_pass, _ALL, _SOME), _NONE).astype(np.uint8)


def _classes(states: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each file the number of its class, and for each class its first file; a row of `states` for each test."""
    codes = np.zeros(states.shape[1], np.int64)
    for row in states:
        codes = codes * _STATES + row
        if codes.max(initial=0) > _MANY:
            codes = np.unique(codes, return_inverse=True)[1]
    _, firsts, classes = np.unique(codes, return_index=True, return_inverse=True)
    return classes, firsts


# The metrics of a few columns, kept for the files of a plan after the manifests they came from are gone.

Places = NDArray[np.int64]

_COUNTS = ("value_count", "null_count", "nan_count")
_BOUNDS = ("lower", "upper")


def take_stats(stats: FileStats, rows: Places) -> FileStats:
    """The metrics of some files.

    >>> take_stats(FileStats(np.array([5, 7])), np.array([1])).record_count.tolist()
    [7]
    """

    def taken(column: ColumnStats) -> ColumnStats:
        counts = [None if values is None else values[rows] for values in (getattr(column, name) for name in _COUNTS)]
        bounds = [
            None if values is None else values.take(rows) for values in (getattr(column, name) for name in _BOUNDS)
        ]
        return ColumnStats(*counts, *bounds)

    return FileStats(stats.record_count[rows], {i: taken(column) for i, column in stats.columns.items()})


def concat_stats(parts: Sequence[FileStats]) -> FileStats:
    """The metrics of files that came in parts; a column that a part does not have is unknown there.

    >>> concat_stats([FileStats(np.array([5])), FileStats(np.array([7]))]).record_count.tolist()
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
        small = compact_strings(part)
        data.append(small.data)
        starts.append(small.starts + base)
        lengths.append(small.lengths)
        base += small.data.size
    return VarBytes(np.concatenate(data), np.concatenate(starts), np.concatenate(lengths))


class RetainedMetrics:
    """All metrics of some columns, as whole columns or as the maps of `DataFile`."""

    def __init__(self, columns: ManifestColumns, ids: Collection[int], rows: Places) -> None:
        self._sizes = {i: _taken_counts(columns.stored.counts("column_sizes", i), rows) for i in ids}
        stats = take_stats(columns.stats(ids), rows)
        self.stats = FileStats(stats.record_count, {i: _compacted(column) for i, column in stats.columns.items()})
        """The metrics as columns."""

    def taken(self, rows: Places) -> RetainedMetrics:
        """The metrics of some of the files."""
        metrics = copy(self)
        metrics._sizes = {i: _taken_counts(sizes, rows) for i, sizes in self._sizes.items()}
        metrics.stats = take_stats(self.stats, rows)
        return metrics

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
    lower, upper = (None if bound is None else compact_strings(bound) for bound in (column.lower, column.upper))
    return ColumnStats(column.value_count, column.null_count, column.nan_count, lower, upper)


def _listed(values: Places | VarBytes | None, rows: Places) -> list[Any]:
    if values is None:
        return [None] * len(rows)
    if isinstance(values, VarBytes):
        return values.take(rows).to_list()
    return [None if value < 0 else value for value in values[rows].tolist()]


def _dicts(columns: Mapping[int, list[Any]], count: int) -> list[dict[int, Any] | None]:
    """A map for each file of what is known; None where nothing is."""
    maps: list[dict[int, Any]] = [{} for _ in range(count)]
    for i, values in columns.items():
        for by_column, value in zip(maps, values, strict=True):
            if value is not None:
                by_column[i] = value
    return [by_column or None for by_column in maps]


# A filter under each of a table's partition specs: which manifests and partitions it leaves, and the types to read.


def partition_types(metadata: TableMetadata, schema: Schema | None = None) -> dict[int, StructType]:
    """The types of the partition tuples of all specs, as a read with that schema sees them, or the current one.

    Columns that the schema does not have are of the type that they had last.

    >>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
    >>> metadata = TableMetadata(
    ...     format_version=2,
    ...     table_uuid=None,
    ...     location="",
    ...     last_updated_ms=0,
    ...     last_column_id=0,
    ...     schemas=(Schema(()),),
    ...     partition_specs=(UNPARTITIONED,),
    ... )
    >>> {spec_id: str(type_) for spec_id, type_ in partition_types(metadata).items()}
    {0: 'struct<>'}
    """
    newest_first = sorted(metadata.schemas, key=lambda schema: -schema.schema_id)
    first = metadata.schema if schema is None else schema
    return {spec.spec_id: spec.partition_type(first, newest_first) for spec in metadata.partition_specs}


@dataclass(frozen=True, slots=True)
class SpecFilter:
    """A filter under one spec."""

    spec: PartitionSpec
    partition: Schema
    projected: Expression
    """What the partition of a file with passing rows must pass."""

    wanted: tuple[int, ...]
    """The partition fields that the projection looks at."""

    def manifests_kept(self, manifests: Sequence[ManifestFile], *, live_only: bool = True) -> Mask:
        """Which manifests, all of this spec, may hold files with passing rows."""
        live = np.array([not live_only or manifest.may_have_live_files for manifest in manifests], np.bool_)
        if self.projected == TRUE or not len(live):
            return live
        summaries = metrics_evaluation.gather_summaries(manifests, self.partition)
        return live & metrics_evaluation.manifests_might_match(self.projected, summaries, len(manifests))

    def keeps_all_files(self, manifests: Sequence[ManifestFile]) -> bool:
        """Whether it is known that all files of some manifests, of this spec, lie in partitions with passing rows."""
        if self.projected == TRUE:
            return True
        summaries = metrics_evaluation.gather_summaries(manifests, self.partition)
        return bool(metrics_evaluation.manifests_must_match(self.projected, summaries, len(manifests)).all())

    def files_kept(self, columns: ManifestColumns) -> Mask:
        """Which files, all of this spec, lie in partitions with passing rows."""
        if self.projected == TRUE:
            return np.ones(len(columns), np.bool_)
        return evaluate(self.projected, {i: columns.partition(i) for i in self.wanted}, len(columns))


class SpecFilters:
    """A filter, bound to the schema of the read, under all specs of a table."""

    def __init__(self, metadata: TableMetadata, schema: Schema, bound: Expression) -> None:
        self.bound = bound
        self.schema = schema
        self._metadata = metadata
        self._known: dict[int, SpecFilter] = {}

    def of(self, spec_id: int) -> SpecFilter:
        """The filter under the spec of that id."""
        spec_filter = self._known.get(spec_id)
        if spec_filter is None:
            spec = self._metadata.spec_by_id(spec_id)
            projected = inclusive_projection(self.bound, spec, self.schema)
            partition_ids = () if projected in (TRUE, FALSE) else tuple(sorted(field_ids(projected)))
            spec_filter = SpecFilter(spec, partition_schema(spec, self.schema), projected, partition_ids)
            self._known[spec_id] = spec_filter
        return spec_filter

    def manifests_kept(self, manifests: Sequence[ManifestFile], *, live_only: bool = True) -> list[ManifestFile]:
        """The manifests, of any specs, that may hold files with passing rows; their order stays.

        Without `live_only`, files that were deleted count too.
        """
        keep = np.zeros(len(manifests), np.bool_)
        for spec_id in dict.fromkeys(manifest.partition_spec_id for manifest in manifests):
            indices = [n for n, manifest in enumerate(manifests) if manifest.partition_spec_id == spec_id]
            keep[indices] = self.of(spec_id).manifests_kept([manifests[n] for n in indices], live_only=live_only)
        return [manifest for manifest, is_kept in zip(manifests, keep.tolist(), strict=True) if is_kept]


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

    metrics: RetainedMetrics | None = None
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
        entries = self.columns.entries(rows, metrics=self.shown is None)
        if not self.shown or self.metrics is None:
            return entries
        maps = zip(*self.metrics.maps(self.shown, rows), strict=True)
        return [
            replace(entry, data_file=replace(entry.data_file, **dict[str, Any](zip(_METRICS, metrics, strict=True))))
            for entry, metrics in zip(entries, maps, strict=True)
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
class SelectedFiles:
    """What was chosen of some manifests."""

    live: int
    in_partitions: int
    chunk: FileChunk | None
    size: int = 0
    """How many bytes the files have."""


@dataclass(frozen=True, slots=True)
class FileFilter:
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


def select_files(columns: ManifestColumns, spec_filter: SpecFilter, tests: FileFilter, which: Mask) -> SelectedFiles:
    """The files of some manifests, of those in `which`, that may hold passing rows, cut loose from the others."""
    live = int(np.count_nonzero(which))
    if not live:
        return SelectedFiles(0, 0, None)
    rows = np.flatnonzero(which & spec_filter.files_kept(columns))
    in_partitions = len(rows)
    if tests.needed and len(rows) * _FEW < len(columns) and not columns.has_metrics_at_hand:
        columns, rows = columns.take(rows), np.arange(len(rows))  # the metrics of the others need not be looked for
    settled: Mask = np.broadcast_to(np.True_, (len(rows),))
    if tests.bound != TRUE and len(rows):
        stats = take_stats(columns.stats(tests.wanted), rows)
        keep = metrics_evaluation.files_might_match(tests.bound, stats)
        rows = rows[keep]
        settled = metrics_evaluation.files_must_match(tests.bound, take_stats(stats, np.flatnonzero(keep)))
    if not len(rows):
        return SelectedFiles(live, in_partitions, None)
    taken = columns.take(rows, metrics=tests.shown is None)
    _check(taken)
    size = int(taken.file_size_in_bytes.sum())
    taken.forget()
    metrics = RetainedMetrics(columns, tests.kept, rows) if tests.kept else None
    return SelectedFiles(live, in_partitions, FileChunk(taken, spec_filter.spec, settled, metrics, tests.shown), size)


def _check(columns: ManifestColumns) -> None:
    """Raise if what is said about a file cannot be true; making the object of it says what is wrong."""
    _ = columns.content  # must be data
    uncounted = np.equal(columns.record_count, -1) & np.equal(columns.file_format, _AVRO)
    wrong = ((columns.record_count < 0) & ~uncounted) | (columns.file_size_in_bytes < 0)
    wrong |= np.equal(columns.file_path.lengths, 0)
    if wrong.any():
        columns.entry(int(np.flatnonzero(wrong)[0]))
