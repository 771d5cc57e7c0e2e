"""Residuals of one partition at a time: the reference for the columnar residuals of `floe.plan.file_selection`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from floe.spec.expressions.nodes import FALSE, TRUE, BoundPredicate, Expression, and_, fold, or_
from floe.spec.expressions.row_evaluation import compile_tuple_filter
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.pruning.projection import partition_schema, project_predicate
from floe.spec.schemas.schema import Schema

Residual = Callable[[Sequence[Any]], Expression]


def residual(expression: Expression, spec: PartitionSpec, schema: Schema, partition: Sequence[Any]) -> Expression:
    """The residual of a filter, bound to `schema`, for files with these partition values."""
    return compile_residual(expression, spec, schema)(partition)


def compile_residual(expression: Expression, spec: PartitionSpec, schema: Schema) -> Residual:
    """Compile `residual` into a function for many files of one spec.

    A predicate that all rows of the partition pass becomes true, one that none of them can pass becomes false.
    """
    tuples = partition_schema(spec, schema)

    def leaf(predicate: BoundPredicate) -> Residual:
        projections = project_predicate(predicate, spec, tuples)
        some_pass = compile_tuple_filter(and_(*(inclusive for inclusive, _ in projections)), tuples)
        all_pass = compile_tuple_filter(or_(*(strict for _, strict in projections)), tuples)

        def predicate_residual(partition: Sequence[Any]) -> Expression:
            if not some_pass(partition):
                return FALSE
            return TRUE if all_pass(partition) else predicate

        return predicate_residual

    def constant(value: bool) -> Residual:
        return lambda partition: TRUE if value else FALSE

    def all_of(parts: list[Residual]) -> Residual:
        return lambda partition: and_(*(part(partition) for part in parts))

    def any_of(parts: list[Residual]) -> Residual:
        return lambda partition: or_(*(part(partition) for part in parts))

    return fold(expression, constant=constant, predicate=leaf, all_of=all_of, any_of=any_of)
