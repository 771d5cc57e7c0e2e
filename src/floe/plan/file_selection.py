"""Selection of data files by a filter, in columns: pruning of manifests and files, residuals, and retained metrics.

Files keep the partition spec that they were written with, so a table has one projection of a filter for each spec
(`SpecFilters`; spec: Scan Planning). `select_files` prunes the entries of a manifest by partition and by metrics, and
returns a `FileChunk`: the selected files of one spec, as columns.

`Residuals` computes what remains of a filter for each file. The partition of
a file decides some predicates of the filter and leaves the others. Every predicate is evaluated once, over all files.
Files for which the same predicates are decided in the same way share a residual, so few expressions are built.

`FileMetrics` keeps the metrics of a few columns for the files of a plan, after their manifests have been released.
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

# Residuals ------------------------------------------------------------------------------------------------------

Codes = NDArray[np.int32]

_NONE, _ALL, _SOME = 0, 1, 2
"""The state of a predicate for a file: no row matches, all rows do, or it is not decided."""

_STATES = 3
_MANY = 3**18


class Residuals:
    """The distinct residuals of a plan."""

    def __init__(self, bound: Expression) -> None:
        self.bound = bound
        self.expressions: list[Expression] = [bound]
        self._numbers: dict[Expression, int] = {bound: 0}

    def number(self, expression: Expression) -> int:
        """The index of an expression in `expressions`, to which it is added if it is new.

        >>> Residuals(TRUE).number(FALSE)
        1
        """
        number = self._numbers.get(expression)
        if number is None:
            number = self._numbers[expression] = len(self.expressions)
            self.expressions.append(expression)
        return number

    def under(self, spec: PartitionSpec, schema: Schema) -> SpecResiduals:
        """The residuals for files of one spec; `schema` is the one that the filter is bound to."""
        return SpecResiduals(self, spec, schema)


class SpecResiduals:
    """Computes the residuals of a filter for the files of one spec.

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
        self._projections: dict[BoundPredicate, tuple[Expression, Expression]] = {}
        tuples = partition_schema(spec, schema)

        def project(predicate: BoundPredicate) -> None:
            projections = project_predicate(predicate, spec, tuples)
            some_match = and_(*(inclusive for inclusive, _ in projections))
            all_match = or_(*(strict for _, strict in projections))
            if (some_match, all_match) != (TRUE, FALSE):
                self._projections[predicate] = some_match, all_match

        fold(
            residuals.bound,
            constant=lambda value: None,
            predicate=project,
            all_of=lambda parts: None,
            any_of=lambda parts: None,
        )
        self._by_states: dict[bytes, int] = {}

    def codes(self, partition: Callable[[int], Column], count: int) -> Codes | None:
        """The index of each file's residual, given its partition values; None if no predicate can be decided."""
        if not self._projections:
            return None
        partition_ids = {i for pair in self._projections.values() for part in pair for i in field_ids(part)}
        columns = {i: partition(i) for i in partition_ids}
        states = np.stack([_states(pair, columns, count) for pair in self._projections.values()])
        classes, firsts = _classes(states)
        numbers = [self._number(states[:, first].tobytes()) for first in firsts.tolist()]
        return np.array(numbers, np.int32)[classes]

    def _number(self, states: bytes) -> int:
        number = self._by_states.get(states)
        if number is None:
            by_predicate = dict(zip(self._projections, states, strict=True))
            replacements: Mapping[int, Callable[[BoundPredicate], Expression]] = {
                _NONE: lambda predicate: FALSE,
                _ALL: lambda predicate: TRUE,
                _SOME: lambda predicate: predicate,
            }
            residual = fold(
                self._residuals.bound,
                constant=lambda value: TRUE if value else FALSE,
                predicate=lambda predicate: replacements[by_predicate.get(predicate, _SOME)](predicate),
                all_of=lambda parts: and_(*parts),
                any_of=lambda parts: or_(*parts),
            )
            number = self._by_states[states] = self._residuals.number(residual)
        return number


def _states(pair: tuple[Expression, Expression], columns: Mapping[int, Column], count: int) -> NDArray[np.uint8]:
    some_match, all_match = (evaluate(projection, columns, count) for projection in pair)
    return np.where(some_match, np.where(all_match, _ALL, _SOME), _NONE).astype(np.uint8)


def _classes(states: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each file the number of its class, and for each class its first file; `states` has a row per predicate."""
    codes = np.zeros(states.shape[1], np.int64)
    for row in states:
        codes = codes * _STATES + row
        if codes.max(initial=0) > _MANY:
            codes = np.unique(codes, return_inverse=True)[1]
    _, firsts, classes = np.unique(codes, return_index=True, return_inverse=True)
    return classes, firsts


# Metrics of selected files --------------------------------------------------------------------------------------

RowIndices = NDArray[np.int64]

_COUNTS = ("value_count", "null_count", "nan_count")
_BOUNDS = ("lower", "upper")


def select_stats(stats: FileStats, rows: RowIndices) -> FileStats:
    """The metrics of the files at these rows.

    >>> select_stats(FileStats(np.array([5, 7])), np.array([1])).record_count.tolist()
    [7]
    """

    def select(column: ColumnStats) -> ColumnStats:
        counts = [None if values is None else values[rows] for values in (getattr(column, name) for name in _COUNTS)]
        bounds = [
            None if values is None else values.take(rows) for values in (getattr(column, name) for name in _BOUNDS)
        ]
        return ColumnStats(*counts, *bounds)

    return FileStats(stats.record_count[rows], {i: select(column) for i, column in stats.columns.items()})


def concat_stats(parts: Sequence[FileStats]) -> FileStats:
    """The metrics of the files of several parts; a column that a part does not have is unknown there.

    >>> concat_stats([FileStats(np.array([5])), FileStats(np.array([7]))]).record_count.tolist()
    [5, 7]
    """
    ids = {i: None for part in parts for i in part.columns}
    sizes = [len(part) for part in parts]

    def concat(field_id: int) -> ColumnStats:
        columns = [part.columns.get(field_id, ColumnStats()) for part in parts]
        values, nulls, nans = (_concat_counts([getattr(c, name) for c in columns], sizes) for name in _COUNTS)
        lower, upper = (_concat_bounds([getattr(c, name) for c in columns], sizes) for name in _BOUNDS)
        return ColumnStats(values, nulls, nans, lower, upper)

    record_count = np.concatenate([np.zeros(0, np.int64), *(part.record_count for part in parts)])
    return FileStats(record_count, {i: concat(i) for i in ids})


def _concat_counts(parts: Iterable[RowIndices | None], sizes: Sequence[int]) -> RowIndices:
    filled = [np.full(size, -1) if part is None else part for part, size in zip(parts, sizes, strict=True)]
    return np.concatenate([np.zeros(0, np.int64), *filled])


def _concat_bounds(parts: Iterable[VarBytes | None], sizes: Sequence[int]) -> VarBytes:
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


class FileMetrics:
    """The metrics of a few columns for the files of a plan, as columns or as the maps of `DataFile`."""

    def __init__(self, columns: ManifestColumns, ids: Collection[int], rows: RowIndices) -> None:
        self._sizes = {i: _select_counts(columns.stored.counts("column_sizes", i), rows) for i in ids}
        stats = select_stats(columns.stats(ids), rows)
        self.stats = FileStats(stats.record_count, {i: _compact_bounds(column) for i, column in stats.columns.items()})
        """The metrics as columns."""

    def take(self, rows: RowIndices) -> FileMetrics:
        """The metrics of the files at these rows."""
        metrics = copy(self)
        metrics._sizes = {i: _select_counts(sizes, rows) for i, sizes in self._sizes.items()}
        metrics.stats = select_stats(self.stats, rows)
        return metrics

    def maps(self, ids: Collection[int], rows: RowIndices) -> list[list[dict[int, Any] | None]]:
        """The maps of files: column sizes, counts of values, nulls and NaN, lower and upper bounds, by field id."""
        stats = self.stats.columns
        sources: list[Callable[[int], RowIndices | VarBytes | None]] = [
            self._sizes.get,
            *(lambda i, name=name: getattr(stats[i], name) for name in (*_COUNTS, *_BOUNDS)),
        ]
        return [_dicts({i: _listed(source(i), rows) for i in ids}, len(rows)) for source in sources]


def _select_counts(counts: RowIndices | None, rows: RowIndices) -> RowIndices | None:
    return None if counts is None else counts[rows]


def _compact_bounds(column: ColumnStats) -> ColumnStats:
    lower, upper = (None if bound is None else compact_strings(bound) for bound in (column.lower, column.upper))
    return ColumnStats(column.value_count, column.null_count, column.nan_count, lower, upper)


def _listed(values: RowIndices | VarBytes | None, rows: RowIndices) -> list[Any]:
    if values is None:
        return [None] * len(rows)
    if isinstance(values, VarBytes):
        return values.take(rows).to_list()
    return [None if value < 0 else value for value in values[rows].tolist()]


def _dicts(columns: Mapping[int, list[Any]], count: int) -> list[dict[int, Any] | None]:
    """A map for each file of the values that are known; None if none is."""
    maps: list[dict[int, Any]] = [{} for _ in range(count)]
    for i, values in columns.items():
        for by_column, value in zip(maps, values, strict=True):
            if value is not None:
                by_column[i] = value
    return [by_column or None for by_column in maps]


# Filters by partition spec --------------------------------------------------------------------------------------


def partition_types(metadata: TableMetadata, schema: Schema | None = None) -> dict[int, StructType]:
    """The types of the partition tuples of all specs, for a read with a schema, by default the current one.

    Source columns that the schema does not have keep the type that they had last.

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
    """A filter projected to the partitions of one spec."""

    spec: PartitionSpec
    partition: Schema
    projected: Expression
    """The inclusive projection: the partition of a file with matching rows matches it."""

    partition_ids: tuple[int, ...]
    """The partition fields that the projection reads."""

    def matching_manifests(self, manifests: Sequence[ManifestFile], *, live_only: bool = True) -> Mask:
        """The manifests, all of this spec, that may have files with matching rows."""
        live = np.array([not live_only or manifest.may_have_live_files for manifest in manifests], np.bool_)
        if self.projected == TRUE or not len(live):
            return live
        summaries = metrics_evaluation.gather_summaries(manifests, self.partition)
        return live & metrics_evaluation.manifests_might_match(self.projected, summaries, len(manifests))

    def matches_all_files(self, manifests: Sequence[ManifestFile]) -> bool:
        """Whether the partitions of all files of the manifests, which are of this spec, match the projection."""
        if self.projected == TRUE:
            return True
        summaries = metrics_evaluation.gather_summaries(manifests, self.partition)
        return bool(metrics_evaluation.manifests_must_match(self.projected, summaries, len(manifests)).all())

    def matching_files(self, columns: ManifestColumns) -> Mask:
        """The files, all of this spec, whose partitions match the projection."""
        if self.projected == TRUE:
            return np.ones(len(columns), np.bool_)
        return evaluate(self.projected, {i: columns.partition(i) for i in self.partition_ids}, len(columns))


class SpecFilters:
    """A filter, bound to the schema of the read, projected to each spec of a table."""

    def __init__(self, metadata: TableMetadata, schema: Schema, bound: Expression) -> None:
        self.bound = bound
        self.schema = schema
        self._metadata = metadata
        self._by_spec: dict[int, SpecFilter] = {}

    def of(self, spec_id: int) -> SpecFilter:
        """The filter for a partition spec."""
        spec_filter = self._by_spec.get(spec_id)
        if spec_filter is None:
            spec = self._metadata.spec_by_id(spec_id)
            projected = inclusive_projection(self.bound, spec, self.schema)
            partition_ids = () if projected in (TRUE, FALSE) else tuple(sorted(field_ids(projected)))
            spec_filter = SpecFilter(spec, partition_schema(spec, self.schema), projected, partition_ids)
            self._by_spec[spec_id] = spec_filter
        return spec_filter

    def matching_manifests(self, manifests: Sequence[ManifestFile], *, live_only: bool = True) -> list[ManifestFile]:
        """The manifests, of any specs, that may have files with matching rows, in their order.

        Without `live_only`, deleted entries count too.
        """
        keep = np.zeros(len(manifests), np.bool_)
        for spec_id in dict.fromkeys(manifest.partition_spec_id for manifest in manifests):
            indices = [n for n, manifest in enumerate(manifests) if manifest.partition_spec_id == spec_id]
            keep[indices] = self.of(spec_id).matching_manifests([manifests[n] for n in indices], live_only=live_only)
        return [manifest for manifest, is_kept in zip(manifests, keep.tolist(), strict=True) if is_kept]


_AVRO = FORMATS.index("avro")
_FEW = 4  # if fewer than one file in four is left, it is faster to copy their entries before their metrics are decoded
_METRICS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


@dataclass(eq=False, slots=True)
class FileChunk:
    """Selected files of one spec, as columns."""

    columns: ManifestColumns
    spec: PartitionSpec
    all_match: Mask
    """The files whose rows all match the filter, as their metrics prove."""

    metrics: FileMetrics | None = None
    """The metrics that are retained, if any."""

    object_metrics: Collection[int] | None = ()
    """The columns whose metrics `entries` returns; None for all."""

    residuals: NDArray[np.int32] | None = None
    """The indices of the files' residuals; None if the residual of all files is the whole filter."""

    def __len__(self) -> int:
        return len(self.columns)

    def stats(self) -> FileStats:
        """The retained metrics, as columns."""
        return FileStats(self.columns.record_count) if self.metrics is None else self.metrics.stats

    def entries(self, rows: RowIndices) -> list[ManifestEntry]:
        """The files at these rows as objects."""
        entries = self.columns.entries(rows, metrics=self.object_metrics is None)
        if not self.object_metrics or self.metrics is None:
            return entries
        maps = zip(*self.metrics.maps(self.object_metrics, rows), strict=True)
        return [
            replace(entry, data_file=replace(entry.data_file, **dict[str, Any](zip(_METRICS, metrics, strict=True))))
            for entry, metrics in zip(entries, maps, strict=True)
        ]

    def take(self, rows: RowIndices) -> FileChunk:
        """A chunk with the files at these rows."""
        return FileChunk(
            self.columns.take(rows),
            self.spec,
            self.all_match[rows],
            None if self.metrics is None else self.metrics.take(rows),
            self.object_metrics,
            None if self.residuals is None else self.residuals[rows],
        )

    def blocks(self, size: int) -> Iterator[RowIndices]:
        """The row indices, in blocks of a size."""
        for start in range(0, len(self), size):
            yield np.arange(start, min(start + size, len(self)))


@dataclass(frozen=True, eq=False, slots=True)
class SelectedFiles:
    """The files that were selected from manifests, and counts for the report of the scan."""

    live: int
    """The number of files before pruning."""

    in_partitions: int
    """The number of files after pruning by partition."""

    chunk: FileChunk | None
    size: int = 0
    """The size of the selected files in bytes."""


@dataclass(frozen=True, slots=True)
class FileFilter:
    """The filter by which files are selected, and the metrics that are retained of them."""

    bound: Expression
    retained: frozenset[int] = frozenset()
    """The columns whose metrics are retained."""

    object_metrics: Collection[int] | None = ()
    """The columns whose metrics file objects have, a part of the retained ones; None for all columns."""

    filter_columns: tuple[int, ...] = field(init=False)
    """The columns whose metrics the filter reads."""

    metrics_columns: tuple[int, ...] = field(init=False)
    """The columns whose metrics are read or retained."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "filter_columns", tuple(sorted(field_ids(self.bound))))
        object.__setattr__(self, "metrics_columns", tuple(sorted({*self.filter_columns, *self.retained})))


def select_files(
    columns: ManifestColumns, spec_filter: SpecFilter, file_filter: FileFilter, candidates: Mask
) -> SelectedFiles:
    """Select the files among the candidates of a manifest that may have matching rows, and copy their entries."""
    live = int(np.count_nonzero(candidates))
    if not live:
        return SelectedFiles(0, 0, None)
    rows = np.flatnonzero(candidates & spec_filter.matching_files(columns))
    in_partitions = len(rows)
    if file_filter.metrics_columns and len(rows) * _FEW < len(columns) and not columns.has_scanned_metrics:
        columns, rows = columns.take(rows), np.arange(len(rows))  # so that only their metrics are decoded
    all_match: Mask = np.broadcast_to(np.True_, (len(rows),))
    if file_filter.bound != TRUE and len(rows):
        stats = select_stats(columns.stats(file_filter.filter_columns), rows)
        might_match = metrics_evaluation.files_might_match(file_filter.bound, stats)
        rows = rows[might_match]
        all_match = metrics_evaluation.files_must_match(
            file_filter.bound, select_stats(stats, np.flatnonzero(might_match))
        )
    if not len(rows):
        return SelectedFiles(live, in_partitions, None)
    selected = columns.take(rows, metrics=file_filter.object_metrics is None)
    _check_entries(selected)
    size = int(selected.file_size_in_bytes.sum())
    selected.forget()
    metrics = FileMetrics(columns, file_filter.retained, rows) if file_filter.retained else None
    chunk = FileChunk(selected, spec_filter.spec, all_match, metrics, file_filter.object_metrics)
    return SelectedFiles(live, in_partitions, chunk, size)


def _check_entries(columns: ManifestColumns) -> None:
    """Raise if an entry is invalid; the error comes from building the object of the first such entry."""
    _ = columns.content  # raises unless all are data files
    uncounted = np.equal(columns.record_count, -1) & np.equal(columns.file_format, _AVRO)
    wrong = ((columns.record_count < 0) & ~uncounted) | (columns.file_size_in_bytes < 0)
    wrong |= np.equal(columns.file_path.lengths, 0)
    if wrong.any():
        columns.entry(int(np.flatnonzero(wrong)[0]))
