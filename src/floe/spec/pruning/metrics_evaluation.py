"""Which of many files a filter can skip, and which it selects whole, by the metrics of their columns.

This is `metrics_filter` for the planner: the metrics of a manifest's files come as columns, and the answer is an array
with a place for each file. The answers are the same.

>>> from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Op
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, INT
>>> id_column = BoundReference(Schema((Field(1, "id", INT),)).entry(1))
>>> bounds = VarBytes.of([n.to_bytes(4, "little") for n in (10, 20, 30)])
>>> files = FileStats(np.array([5, 5, 5]), {1: ColumnStats(lower=bounds, upper=bounds)})
>>> might_match(BoundPredicate(Op.GT, id_column, (15,)), files).tolist()
[False, True, True]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floe.spec.expressions.folding import fold
from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Expression
from floe.spec.expressions.rewrite import field_ids
from floe.spec.pruning import columnar_facts
from floe.spec.pruning.columnar_facts import ColumnFacts, Mask, transformed
from floe.spec.pruning.key_columns import KeyColumn, keys_from_bounds, trusted_bounds
from floe.spec.pruning.metrics_filter import FileMetrics
from floe.spec.pruning.ranges import FLOAT_KINDS, RangeTest
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.types import Type

__all__ = ["ColumnStats", "FileStats", "column_facts", "might_match", "must_match", "stats_of_files"]

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


def might_match(expression: Expression, files: FileStats) -> Mask:
    """For each file, whether some row of it may pass a bound filter.

    >>> from floe.spec.expressions.nodes import TRUE
    >>> might_match(TRUE, FileStats(np.array([3, 0]))).tolist()
    [True, False]
    """
    return np.not_equal(files.record_count, 0) & _answer(expression, files, columnar_facts.might)


def must_match(expression: Expression, files: FileStats) -> Mask:
    """For each file, whether every row of it is known to pass a bound filter.

    >>> from floe.spec.expressions.nodes import FALSE
    >>> must_match(FALSE, FileStats(np.array([3, 0]))).tolist()
    [False, True]
    """
    return np.equal(files.record_count, 0) | _answer(expression, files, columnar_facts.must)


def _answer(expression: Expression, files: FileStats, question: Callable[[RangeTest, ColumnFacts], Mask]) -> Mask:
    known: dict[int, ColumnFacts] = {}  # a column is looked at once, however often the filter names it

    def leaf(predicate: BoundPredicate) -> Mask:
        term = predicate.term
        reference = term if isinstance(term, BoundReference) else term.ref
        if reference.field_id not in known:
            known[reference.field_id] = column_facts(reference, files)
        return question(RangeTest.for_predicate(predicate), transformed(known[reference.field_id], term))

    return fold(
        expression,
        constant=lambda value: np.full(len(files), value),
        predicate=leaf,
        all_of=lambda parts: reduce(np.logical_and, parts),
        any_of=lambda parts: reduce(np.logical_or, parts),
    )


def column_facts(reference: BoundReference, files: FileStats) -> ColumnFacts:
    """What the metrics of many files tell about a column: the rules of `metrics_filter.column_facts`, on arrays.

    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import Field, INT
    >>> id_column = BoundReference(Schema((Field(1, "id", INT),)).entry(1))
    >>> stats = ColumnStats(value_count=np.array([5]), null_count=np.array([0]))
    >>> column_facts(id_column, FileStats(np.array([5]), {1: stats})).nulls.tolist()
    [False]
    """
    entry, type_, count = reference.entry, reference.type, len(files)
    everywhere, nowhere = np.ones(count, np.bool_), np.zeros(count, np.bool_)
    is_float = type_.kind in FLOAT_KINDS
    may_be_nan = everywhere if is_float else nowhere
    if type_.kind == "unknown":
        return ColumnFacts(everywhere, nowhere, nowhere)
    if type_.is_nested or entry.in_collection:
        return ColumnFacts(np.full(count, entry.nullable), may_be_nan, everywhere)

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
    return ColumnFacts(~no_nulls, ~((nans == 0) | all_null), ~no_others, lower, upper)


def _bounds(type_: Type, stats: ColumnStats) -> tuple[KeyColumn | None, KeyColumn | None]:
    if stats.lower is None and stats.upper is None:
        return None, None
    some = stats.lower if stats.lower is not None else stats.upper
    assert some is not None
    missing = VarBytes(some.data, some.starts, np.full(len(some), -1, np.int64))
    lower = keys_from_bounds(type_, stats.lower if stats.lower is not None else missing)
    upper = keys_from_bounds(type_, stats.upper if stats.upper is not None else missing)
    return trusted_bounds(type_, lower, upper)


def stats_of_files(files: Sequence[FileMetrics], expression: Expression) -> FileStats:
    """The metrics of files that are Python objects already, of the columns that a filter asks for.

    >>> from floe.spec.expressions.nodes import TRUE
    >>> len(stats_of_files([], TRUE))
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
