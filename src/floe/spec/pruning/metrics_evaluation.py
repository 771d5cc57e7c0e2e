r"""Which of many files a filter can skip, and which it selects whole, by the metrics of their columns.

This is `metrics_filter` for the planner: the metrics of a manifest's files come as columns, and the answer is an array
with a place for each file. The answers are the same.

>>> from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Op
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, INT
>>> id_column = BoundReference(Schema((Field(1, "id", INT),)).entry(1))
>>> bounds = VarBytes.of([n.to_bytes(4, "little") for n in (10, 20, 30)])
>>> files = FileStats(np.array([5, 5, 5]), {1: ColumnStats(lower=bounds, upper=bounds)})
>>> files_might_match(BoundPredicate(Op.GT, id_column, (15,)), files).tolist()
[False, True, True]

Which of many manifests a filter can skip, by the summaries of their partition fields.

This is `manifest_filter` for tables with very many manifests; the answers are the same. All manifests are of one
partition spec, and the filter is bound to its partition schema.

>>> from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Op
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, INT
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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Expression, fold
from floe.spec.expressions.simplification import field_ids
from floe.spec.pruning import range_evaluation
from floe.spec.pruning.key_columns import KeyColumn, keys_from_bounds, trusted_bounds
from floe.spec.pruning.manifest_filter import PartitionSummaries, Summary
from floe.spec.pruning.metrics_filter import FileMetrics
from floe.spec.pruning.range_evaluation import Mask, PossibleValues, transform_values
from floe.spec.pruning.ranges import FLOAT_KINDS, RangePredicate
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.schemas.schema import Schema
from floe.spec.types import Type

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class ColumnStats:
    """The metrics of one column in many files.

    In the counts a negative number stands for an unknown one, and None for all unknown. Bounds are serialised values; a
    negative length stands for a missing one, and None for all missing.
    """

    value_count: Counts | None = None
    null_count: Counts | None = None
    nan_count: Counts | None = None
    lower: VarBytes | None = None
    upper: VarBytes | None = None


@dataclass(frozen=True, eq=False, slots=True)
class FileStats:
    """The metrics of many files: how many rows each has, and by field id what is known of its columns.

    Columns that the filter does not ask for need not be there. A column that is not there is one without metrics.
    """

    record_count: Counts
    columns: Mapping[int, ColumnStats] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.record_count)


def files_might_match(expression: Expression, files: FileStats) -> Mask:
    """For each file, whether some row of it may pass a bound filter.

    >>> from floe.spec.expressions.nodes import TRUE
    >>> files_might_match(TRUE, FileStats(np.array([3, 0]))).tolist()
    [True, False]
    """
    return np.not_equal(files.record_count, 0) & _evaluate_files(expression, files, range_evaluation.might_match)


def files_must_match(expression: Expression, files: FileStats) -> Mask:
    """For each file, whether every row of it is known to pass a bound filter.

    >>> from floe.spec.expressions.nodes import FALSE
    >>> files_must_match(FALSE, FileStats(np.array([3, 0]))).tolist()
    [False, True]
    """
    return np.equal(files.record_count, 0) | _evaluate_files(expression, files, range_evaluation.must_match)


def _evaluate_files(
    expression: Expression, files: FileStats, question: Callable[[RangePredicate, PossibleValues], Mask]
) -> Mask:
    known: dict[int, PossibleValues] = {}  # a column is looked at once, however often the filter names it

    def leaf(predicate: BoundPredicate) -> Mask:
        term = predicate.term
        reference = term if isinstance(term, BoundReference) else term.ref
        if reference.field_id not in known:
            known[reference.field_id] = possible_values(reference, files)
        return question(RangePredicate.for_predicate(predicate), transform_values(known[reference.field_id], term))

    return fold(
        expression,
        constant=lambda value: np.full(len(files), value),
        predicate=leaf,
        all_of=lambda parts: reduce(np.logical_and, parts),
        any_of=lambda parts: reduce(np.logical_or, parts),
    )


def possible_values(reference: BoundReference, files: FileStats) -> PossibleValues:
    """What the metrics of many files tell about a column: the rules of `metrics_filter.column_facts`, on arrays.

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
    if type_.kind == "unknown":
        return PossibleValues(everywhere, nowhere, nowhere)
    if type_.is_nested or entry.in_collection:
        return PossibleValues(np.full(count, entry.nullable), may_be_nan, everywhere)

    stats = files.columns.get(reference.field_id, ColumnStats())
    unknown = np.full(count, -1, np.int64)
    values = unknown if stats.value_count is None else stats.value_count
    nulls = unknown if stats.null_count is None else stats.null_count
    nans = np.zeros(count, np.int64)
    if is_float:
        nans = unknown if stats.nan_count is None else stats.nan_count
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
    some = stats.lower if stats.lower is not None else stats.upper
    assert some is not None
    missing = VarBytes(some.data, some.starts, np.full(len(some), -1, np.int64))
    lower = keys_from_bounds(type_, stats.lower if stats.lower is not None else missing)
    upper = keys_from_bounds(type_, stats.upper if stats.upper is not None else missing)
    return trusted_bounds(type_, lower, upper)


def gather_stats(files: Sequence[FileMetrics], expression: Expression) -> FileStats:
    """The metrics of files that are Python objects already, of the columns that a filter asks for.

    >>> from floe.spec.expressions.nodes import TRUE
    >>> len(gather_stats([], TRUE))
    0
    """

    def counts(maps: Iterable[Mapping[int, int] | None], field_id: int) -> Counts:
        return np.array([_looked_up(found, field_id, -1) for found in maps], np.int64)

    def bounds(maps: Iterable[Mapping[int, bytes] | None], field_id: int) -> VarBytes:
        return VarBytes.of([_looked_up(found, field_id, None) for found in maps])

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


def _looked_up(values: Mapping[int, Any] | None, field_id: int, missing: Any) -> Any:
    found = None if values is None else values.get(field_id)
    return missing if found is None else found


# Which of many manifests a filter can skip, by the summaries of their partition fields.


@dataclass(frozen=True, eq=False, slots=True)
class SummaryColumn:
    """The summaries of one partition field in many manifests."""

    present: Mask
    """Whether the manifest has a summary of the field at all."""

    contains_null: Mask
    contains_nan: NDArray[np.integer]
    """1 for true, 0 for false, negative where it is not known."""

    lower: VarBytes
    upper: VarBytes
    """Serialised bounds; a negative length stands for a missing one."""


def manifests_might_match(expression: Expression, summaries: Mapping[int, SummaryColumn], count: int) -> Mask:
    """For each of `count` manifests, whether some file of it may pass; summaries are by partition field id.

    >>> from floe.spec.expressions.nodes import TRUE
    >>> manifests_might_match(TRUE, {}, 2).tolist()
    [True, True]
    """
    return _evaluate_manifests(expression, summaries, count, range_evaluation.might_match)


def manifests_must_match(expression: Expression, summaries: Mapping[int, SummaryColumn], count: int) -> Mask:
    """For each of `count` manifests, whether every file of it is known to pass.

    >>> from floe.spec.expressions.nodes import FALSE
    >>> manifests_must_match(FALSE, {}, 2).tolist()
    [False, False]
    """
    return _evaluate_manifests(expression, summaries, count, range_evaluation.must_match)


def _evaluate_manifests(
    expression: Expression,
    summaries: Mapping[int, SummaryColumn],
    count: int,
    question: Callable[[RangePredicate, PossibleValues], Mask],
) -> Mask:
    def leaf(predicate: BoundPredicate) -> Mask:
        term = predicate.term
        reference = term if isinstance(term, BoundReference) else term.ref
        facts = _summary_facts(reference.type, summaries.get(reference.field_id), count)
        return question(RangePredicate.for_predicate(predicate), transform_values(facts, term))

    return fold(
        expression,
        constant=lambda value: np.full(count, value),
        predicate=leaf,
        all_of=lambda parts: reduce(np.logical_and, parts),
        any_of=lambda parts: reduce(np.logical_or, parts),
    )


def _summary_facts(type_: Type, column: SummaryColumn | None, count: int) -> PossibleValues:
    """The rules of `manifest_filter.summary_facts`, on arrays."""
    is_float = type_.kind in FLOAT_KINDS
    everywhere = np.ones(count, np.bool_)
    if column is None:
        return PossibleValues(everywhere, np.full(count, is_float), everywhere)
    nulls = column.contains_null | ~column.present
    nans = ((column.contains_nan != 0) | ~column.present) & is_float
    without_bounds = ~column.lower.known & ~column.upper.known
    others = ~(column.present & without_bounds & (nulls | nans))
    lower, upper = trusted_bounds(type_, keys_from_bounds(type_, column.lower), keys_from_bounds(type_, column.upper))
    if is_float:
        nans = nans | (~without_bounds & ~lower.known & ~upper.known)
    return PossibleValues(nulls, nans, others, lower, upper)


def gather_summaries(manifests: Sequence[PartitionSummaries], partition: Schema) -> dict[int, SummaryColumn]:
    """The summaries of manifests of one spec that are Python objects already.

    >>> gather_summaries([], Schema(()))
    {}
    """

    def column(place: int) -> SummaryColumn:
        found: list[Summary | None] = [
            m.partitions[place] if m.partitions is not None and place < len(m.partitions) else None for m in manifests
        ]
        return SummaryColumn(
            np.array([s is not None for s in found], np.bool_),
            np.array([s is not None and s.contains_null for s in found], np.bool_),
            np.array([-1 if s is None or s.contains_nan is None else s.contains_nan for s in found], np.int8),
            VarBytes.of([None if s is None else s.lower_bound for s in found]),
            VarBytes.of([None if s is None else s.upper_bound for s in found]),
        )

    return {field.id: column(place) for place, field in enumerate(partition.fields)}
