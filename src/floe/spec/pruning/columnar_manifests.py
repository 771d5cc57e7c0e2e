r"""Which of many manifests a filter can skip, by the summaries of their partition fields.

This is `manifest_filter` for tables with very many manifests; the answers are the same. All manifests are of one
partition spec, and the filter is bound to its partition schema.

>>> from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Op
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, INT
>>> partition = Schema((Field(1000, "id_bucket", INT),))
>>> low, high = VarBytes.of([b"\x02\0\0\0", b"\x07\0\0\0"]), VarBytes.of([b"\x05\0\0\0", b"\x09\0\0\0"])
>>> summaries = SummaryColumn(np.array([True, True]), np.array([False, False]), np.array([-1, -1]), low, high)
>>> bucket = BoundReference(partition.entry(1000))
>>> might_match(BoundPredicate(Op.EQ, bucket, (7,)), {1000: summaries}, 2).tolist()
[False, True]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from floe.spec.expressions.folding import fold
from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Expression
from floe.spec.pruning import columnar_facts
from floe.spec.pruning.columnar_facts import ColumnFacts, Mask, transformed
from floe.spec.pruning.key_columns import keys_from_bounds, trusted_bounds
from floe.spec.pruning.manifest_filter import PartitionSummaries, Summary
from floe.spec.pruning.ranges import FLOAT_KINDS, RangeTest
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.schemas.schema import Schema
from floe.spec.types import Type

__all__ = ["SummaryColumn", "might_match", "must_match", "summaries_of_manifests"]


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


def might_match(expression: Expression, summaries: Mapping[int, SummaryColumn], count: int) -> Mask:
    """For each of `count` manifests, whether some file of it may pass; summaries are by partition field id.

    >>> from floe.spec.expressions.nodes import TRUE
    >>> might_match(TRUE, {}, 2).tolist()
    [True, True]
    """
    return _answer(expression, summaries, count, columnar_facts.might)


def must_match(expression: Expression, summaries: Mapping[int, SummaryColumn], count: int) -> Mask:
    """For each of `count` manifests, whether every file of it is known to pass.

    >>> from floe.spec.expressions.nodes import FALSE
    >>> must_match(FALSE, {}, 2).tolist()
    [False, False]
    """
    return _answer(expression, summaries, count, columnar_facts.must)


def _answer(
    expression: Expression,
    summaries: Mapping[int, SummaryColumn],
    count: int,
    question: Callable[[RangeTest, ColumnFacts], Mask],
) -> Mask:
    def leaf(predicate: BoundPredicate) -> Mask:
        term = predicate.term
        reference = term if isinstance(term, BoundReference) else term.ref
        facts = _summary_facts(reference.type, summaries.get(reference.field_id), count)
        return question(RangeTest.for_predicate(predicate), transformed(facts, term))

    return fold(
        expression,
        constant=lambda value: np.full(count, value),
        predicate=leaf,
        all_of=lambda parts: reduce(np.logical_and, parts),
        any_of=lambda parts: reduce(np.logical_or, parts),
    )


def _summary_facts(type_: Type, column: SummaryColumn | None, count: int) -> ColumnFacts:
    """The rules of `manifest_filter.summary_facts`, on arrays."""
    is_float = type_.kind in FLOAT_KINDS
    everywhere = np.ones(count, np.bool_)
    if column is None:
        return ColumnFacts(everywhere, np.full(count, is_float), everywhere)
    nulls = column.contains_null | ~column.present
    nans = ((column.contains_nan != 0) | ~column.present) & is_float
    without_bounds = ~column.lower.known & ~column.upper.known
    others = ~(column.present & without_bounds & (nulls | nans))
    lower, upper = trusted_bounds(type_, keys_from_bounds(type_, column.lower), keys_from_bounds(type_, column.upper))
    if is_float:
        nans = nans | (~without_bounds & ~lower.known & ~upper.known)
    return ColumnFacts(nulls, nans, others, lower, upper)


def summaries_of_manifests(manifests: Sequence[PartitionSummaries], partition: Schema) -> dict[int, SummaryColumn]:
    """The summaries of manifests of one spec that are Python objects already.

    >>> summaries_of_manifests([], Schema(()))
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
