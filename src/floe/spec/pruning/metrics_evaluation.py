r"""Which files and manifests a filter can skip, and which match it entirely (spec: Scan Planning, Manifest Lists).

Files are evaluated by the metrics of their columns, manifests by the summaries of their partition fields. All files or
manifests are evaluated at once, with an array element for each; `file_might_match` and `file_must_match` do the same
for one file.

*Might match* is false only if it is proved that no row passes, so that the file need not be read. *Must match* is true
only if it is proved that all rows pass, so that the file can be deleted, or read without filter. Without metrics all
values are possible: a column without counts may have been added after the file was written, and be read as its default
or as null. Null does not pass comparisons, as in SQL, so "must match `a <> 5`" needs a proof that there is no null. NaN
is greater than every number, so `a > 5` keeps a file unless it is known to have no NaN; bounds do not include NaN.

The filter on manifests is on partition values: the inclusive projection of a filter on rows to the partition spec,
which all these manifests must have.

>>> from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Op
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, INT
>>> id_column = BoundReference(Schema((Field(1, "id", INT),)).entry(1))
>>> bounds = VarBytes.of([n.to_bytes(4, "little") for n in (10, 20, 30)])
>>> files = FileStats(np.array([5, 5, 5]), {1: ColumnStats(lower=bounds, upper=bounds)})
>>> files_might_match(BoundPredicate(Op.GT, id_column, (15,)), files).tolist()
[False, True, True]

>>> partition = Schema((Field(1000, "id_bucket", INT),))
>>> low, high = VarBytes.of([b"\x02\0\0\0", b"\x07\0\0\0"]), VarBytes.of([b"\x05\0\0\0", b"\x09\0\0\0"])
>>> summaries = SummaryColumn(np.array([True, True]), np.array([False, False]), np.array([-1, -1]), low, high)
>>> bucket = BoundReference(partition.entry(1000))
>>> manifests_might_match(BoundPredicate(Op.EQ, bucket, (7,)), {1000: summaries}, 2).tolist()
[False, True]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from floe.errors import InvalidExpression
from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Expression, fold
from floe.spec.expressions.simplification import field_ids
from floe.spec.pruning import range_evaluation
from floe.spec.pruning.key_columns import KeyColumn, keys_from_bounds, trusted_bounds
from floe.spec.pruning.range_evaluation import Mask, PossibleValues, transform_values
from floe.spec.pruning.ranges import FLOAT_KINDS, RangePredicate
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.schemas.schema import Schema
from floe.spec.types import Type

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class ColumnStats:
    """The metrics of one column in many files.

    A negative count is unknown, and counts of None are all unknown. Bounds are in the single-value encoding; one with a
    negative length is missing, and bounds of None are all missing.
    """

    value_count: Counts | None = None
    null_count: Counts | None = None
    nan_count: Counts | None = None
    lower: VarBytes | None = None
    upper: VarBytes | None = None


@dataclass(frozen=True, eq=False, slots=True)
class FileStats:
    """The metrics of many files: their record counts, and the metrics of columns by field id.

    A column that is missing has no metrics. Columns that the filter does not use can be omitted.
    """

    record_count: Counts
    columns: Mapping[int, ColumnStats] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.record_count)


class FileMetrics(Protocol):
    """The metrics of a file or of a part of it, such as a row group; implemented by `DataFile`."""

    @property
    def record_count(self) -> int:
        """The number of rows; negative if unknown."""

    @property
    def value_counts(self) -> Mapping[int, int] | None:
        """The numbers of values by field id, including null and NaN."""

    @property
    def null_value_counts(self) -> Mapping[int, int] | None:
        """The numbers of nulls by field id."""

    @property
    def nan_value_counts(self) -> Mapping[int, int] | None:
        """The numbers of NaN by field id."""

    @property
    def lower_bounds(self) -> Mapping[int, bytes] | None:
        """The lower bounds of values other than null and NaN, by field id, in the single-value encoding."""

    @property
    def upper_bounds(self) -> Mapping[int, bytes] | None:
        """The upper bounds of values other than null and NaN, by field id, in the single-value encoding."""


def files_might_match(expression: Expression, files: FileStats) -> Mask:
    """Return for each file whether some row may pass a bound filter.

    >>> from floe.spec.expressions.nodes import TRUE
    >>> files_might_match(TRUE, FileStats(np.array([3, 0]))).tolist()
    [True, False]
    """
    return np.not_equal(files.record_count, 0) & _evaluate_files(expression, files, range_evaluation.might_match)


def files_must_match(expression: Expression, files: FileStats) -> Mask:
    """Return for each file whether all rows are known to pass a bound filter.

    >>> from floe.spec.expressions.nodes import FALSE
    >>> files_must_match(FALSE, FileStats(np.array([3, 0]))).tolist()
    [False, True]
    """
    return np.equal(files.record_count, 0) | _evaluate_files(expression, files, range_evaluation.must_match)


def file_might_match(expression: Expression, file: FileMetrics) -> bool:
    """Return whether some row of a file may pass a bound filter.

    >>> from types import SimpleNamespace
    >>> from floe.spec.expressions.nodes import TRUE
    >>> file_might_match(TRUE, SimpleNamespace(record_count=0))
    False
    """
    return bool(files_might_match(expression, gather_stats([file], expression))[0])


def file_must_match(expression: Expression, file: FileMetrics) -> bool:
    """Return whether all rows of a file are known to pass a bound filter.

    >>> from types import SimpleNamespace
    >>> from floe.spec.expressions.nodes import FALSE
    >>> file_must_match(FALSE, SimpleNamespace(record_count=0))  # of no rows, all pass
    True
    """
    return bool(files_must_match(expression, gather_stats([file], expression))[0])


def _evaluate_files(
    expression: Expression, files: FileStats, match: Callable[[RangePredicate, PossibleValues], Mask]
) -> Mask:
    possible_by_id: dict[int, PossibleValues] = {}  # computed once for each column

    def leaf(predicate: BoundPredicate) -> Mask:
        term = predicate.term
        reference = term if isinstance(term, BoundReference) else term.ref
        if reference.field_id not in possible_by_id:
            possible_by_id[reference.field_id] = possible_values(reference, files)
        return match(
            RangePredicate.for_predicate(predicate), transform_values(possible_by_id[reference.field_id], term)
        )

    return fold(
        expression,
        constant=lambda value: np.full(len(files), value),
        predicate=leaf,
        all_of=lambda parts: reduce(np.logical_and, parts),
        any_of=lambda parts: reduce(np.logical_or, parts),
    )


def possible_values(reference: BoundReference, files: FileStats) -> PossibleValues:
    """The possible values of a column in many files, according to their metrics.

    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import Field, INT
    >>> id_column = BoundReference(Schema((Field(1, "id", INT),)).entry(1))
    >>> stats = ColumnStats(value_count=np.array([5]), null_count=np.array([0]))
    >>> possible_values(id_column, FileStats(np.array([5]), {1: stats})).nulls.tolist()
    [False]
    """
    entry, type_, count = reference.entry, reference.type, len(files)
    everywhere, nowhere = np.ones(count, np.bool_), np.zeros(count, np.bool_)
    is_float = type_.kind in FLOAT_KINDS
    may_be_nan = everywhere if is_float else nowhere
    if type_.kind == "unknown":  # always read as null (spec: Primitive Types)
        return PossibleValues(everywhere, nowhere, nowhere)
    if type_.is_nested or entry.in_collection:  # counts may count elements instead of rows
        return PossibleValues(np.full(count, entry.nullable), may_be_nan, everywhere)

    stats = files.columns.get(reference.field_id, ColumnStats())
    unknown = np.full(count, -1, np.int64)
    values = unknown if stats.value_count is None else stats.value_count
    nulls = unknown if stats.null_count is None else stats.null_count
    nans = np.zeros(count, np.int64)
    if is_float:
        nans = unknown if stats.nan_count is None else stats.nan_count
    # A field of a null struct is null, but ORC and Avro writers do not count it. There, "no nulls" holds only if every
    # row was counted, while "all null" also holds for the rows that were not counted.
    every_row_counted = (values >= 0) & (values == files.record_count)
    in_optional_struct = any(ancestor.optional for ancestor in entry.ancestors)

    all_nan = every_row_counted & (nans == values)
    counted_without_nulls = (nulls == 0) & (every_row_counted | ((values < 0) & (not in_optional_struct)))
    no_nulls = np.where(nulls < 0, all_nan | (not entry.nullable), counted_without_nulls)
    all_null = (nulls > 0) & (nulls == values) & (every_row_counted | in_optional_struct)
    all_counted_out = every_row_counted & (nulls >= 0) & (nans >= 0) & (nulls + nans == values)
    no_others = all_null | all_nan | all_counted_out

    lower, upper = _bounds(type_, stats)
    return PossibleValues(~no_nulls, ~((nans == 0) | all_null), ~no_others, lower, upper)


def _bounds(type_: Type, stats: ColumnStats) -> tuple[KeyColumn | None, KeyColumn | None]:
    if stats.lower is None and stats.upper is None:
        return None, None
    present = stats.lower if stats.lower is not None else stats.upper
    assert present is not None
    missing = VarBytes(present.data, present.starts, np.full(len(present), -1, np.int64))
    lower = keys_from_bounds(type_, stats.lower if stats.lower is not None else missing)
    upper = keys_from_bounds(type_, stats.upper if stats.upper is not None else missing)
    return trusted_bounds(type_, lower, upper)


def gather_stats(files: Sequence[FileMetrics], expression: Expression) -> FileStats:
    """Collect the metrics of file objects into columns, for the columns that a filter uses.

    >>> from floe.spec.expressions.nodes import TRUE
    >>> len(gather_stats([], TRUE))
    0
    """

    def counts(maps: Iterable[Mapping[int, int] | None], field_id: int) -> Counts:
        return np.array([_look_up(by_id, field_id, -1) for by_id in maps], np.int64)

    def bounds(maps: Iterable[Mapping[int, bytes] | None], field_id: int) -> VarBytes:
        return VarBytes.of([_look_up(by_id, field_id, None) for by_id in maps])

    columns = {
        field_id: ColumnStats(
            counts((file.value_counts for file in files), field_id),
            counts((file.null_value_counts for file in files), field_id),
            counts((file.nan_value_counts for file in files), field_id),
            bounds((file.lower_bounds for file in files), field_id),
            bounds((file.upper_bounds for file in files), field_id),
        )
        for field_id in field_ids(expression)
    }
    return FileStats(np.array([file.record_count for file in files], np.int64), columns)


def _look_up(values: Mapping[int, Any] | None, field_id: int, missing: Any) -> Any:
    value = None if values is None else values.get(field_id)
    return missing if value is None else value


# Manifests -------------------------------------------------------------------------------------------------------


class Summary(Protocol):
    """The summary of one partition field in a manifest list; implemented by `FieldSummary`."""

    @property
    def contains_null(self) -> bool:
        """Whether the field is null for some file."""

    @property
    def contains_nan(self) -> bool | None:
        """Whether the field is NaN for some file; None if unknown."""

    @property
    def lower_bound(self) -> bytes | None:
        """The lowest value other than NaN, in the single-value encoding; None if there is none."""

    @property
    def upper_bound(self) -> bytes | None:
        """The highest value other than NaN, in the single-value encoding; None if there is none."""


class PartitionSummaries(Protocol):
    """A manifest with partition summaries; implemented by `ManifestFile`."""

    @property
    def partitions(self) -> Sequence[Summary] | None:
        """A summary for each field of the manifest's partition spec; None if there are none."""


@dataclass(frozen=True, eq=False, slots=True)
class SummaryColumn:
    """The summaries of one partition field in many manifests."""

    present: Mask
    """Whether the manifest has a summary of the field."""

    contains_null: Mask
    contains_nan: NDArray[np.integer]
    """1 for true, 0 for false, negative for unknown."""

    lower: VarBytes
    upper: VarBytes
    """Bounds in the single-value encoding; one with a negative length is missing."""


def manifests_might_match(expression: Expression, summaries: Mapping[int, SummaryColumn], count: int) -> Mask:
    """Return for each of `count` manifests whether some file may pass; summaries are by partition field id.

    >>> from floe.spec.expressions.nodes import TRUE
    >>> manifests_might_match(TRUE, {}, 2).tolist()
    [True, True]
    """
    return _evaluate_manifests(expression, summaries, count, range_evaluation.might_match)


def manifests_must_match(expression: Expression, summaries: Mapping[int, SummaryColumn], count: int) -> Mask:
    """Return for each of `count` manifests whether all files are known to pass.

    >>> from floe.spec.expressions.nodes import FALSE
    >>> manifests_must_match(FALSE, {}, 2).tolist()
    [False, False]
    """
    return _evaluate_manifests(expression, summaries, count, range_evaluation.must_match)


def _evaluate_manifests(
    expression: Expression,
    summaries: Mapping[int, SummaryColumn],
    count: int,
    match: Callable[[RangePredicate, PossibleValues], Mask],
) -> Mask:
    def leaf(predicate: BoundPredicate) -> Mask:
        term = predicate.term
        reference = term if isinstance(term, BoundReference) else term.ref
        if reference.field_id not in summaries:
            raise InvalidExpression(
                f"the filter uses {reference.entry.name!r}, which is not a partition field",
                hint="project the filter to the partition spec first",
                column=reference.entry.name,
            )
        possible = _summary_ranges(reference.type, summaries[reference.field_id])
        return match(RangePredicate.for_predicate(predicate), transform_values(possible, term))

    return fold(
        expression,
        constant=lambda value: np.full(count, value),
        predicate=leaf,
        all_of=lambda parts: reduce(np.logical_and, parts),
        any_of=lambda parts: reduce(np.logical_or, parts),
    )


def _summary_ranges(type_: Type, column: SummaryColumn) -> PossibleValues:
    """The possible values of a partition field in many manifests."""
    is_float = type_.kind in FLOAT_KINDS
    nulls = column.contains_null | ~column.present
    nans = ((column.contains_nan != 0) | ~column.present) & is_float
    # Without bounds all values are null or NaN (spec: Manifest Lists); if neither occurs, the summary is not usable.
    without_bounds = ~column.lower.is_valid & ~column.upper.is_valid
    others = ~(column.present & without_bounds & (nulls | nans))
    lower, upper = trusted_bounds(type_, keys_from_bounds(type_, column.lower), keys_from_bounds(type_, column.upper))
    if is_float:
        # bounds that `trusted_bounds` rejected may have been NaN
        nans = nans | (~without_bounds & ~lower.is_valid & ~upper.is_valid)
    return PossibleValues(nulls, nans, others, lower, upper)


def gather_summaries(manifests: Sequence[PartitionSummaries], partition: Schema) -> dict[int, SummaryColumn]:
    """Collect the partition summaries of manifest objects of one spec into columns.

    >>> gather_summaries([], Schema(()))
    {}
    """

    def column(index: int) -> SummaryColumn:
        summaries: list[Summary | None] = [
            m.partitions[index] if m.partitions is not None and index < len(m.partitions) else None for m in manifests
        ]
        return SummaryColumn(
            np.array([s is not None for s in summaries], np.bool_),
            np.array([s is not None and s.contains_null for s in summaries], np.bool_),
            np.array([-1 if s is None or s.contains_nan is None else s.contains_nan for s in summaries], np.int8),
            VarBytes.of([None if s is None else s.lower_bound for s in summaries]),
            VarBytes.of([None if s is None else s.upper_bound for s in summaries]),
        )

    return {field.id: column(index) for index, field in enumerate(partition.fields)}
