"""What of a filter is left to check on the rows of a file, once its partition values are known (spec: Scan Planning).

A predicate that all rows of the partition pass becomes true, one that none of them can pass becomes false, and the
others stay. With day partitions and the filter `ts >= a and ts <= b`, files of the days in between need no filter at
all, and files of the first and the last day one comparison each.

>>> from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Op
>>> from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.partitioning.transforms import DAY
>>> from floe.spec.types import Field, TIMESTAMP
>>> schema = Schema((Field(1, "ts", TIMESTAMP),))
>>> spec = PartitionSpec((PartitionField((1,), 1000, "ts_day", DAY),))
>>> noon = BoundPredicate(Op.GT, BoundReference(schema.entry(1)), (86_400_000_000 * 3 // 2,))
>>> residual(noon, spec, schema, (0,)), residual(noon, spec, schema, (2,)), residual(noon, spec, schema, (1,)) == noon
(FALSE, TRUE, True)
"""

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
    """What is left of a filter, bound to `schema`, for a file with these partition values.

    >>> residual(TRUE, PartitionSpec(), Schema(()), ())
    TRUE
    """
    return compile_residual(expression, spec, schema)(partition)


def compile_residual(expression: Expression, spec: PartitionSpec, schema: Schema) -> Residual:
    """The function behind `residual`, ready for many files of one spec.

    >>> compile_residual(FALSE, PartitionSpec(), Schema(()))(())
    FALSE
    """
    tuples = partition_schema(spec, schema)

    def leaf(predicate: BoundPredicate) -> Residual:
        projections = project_predicate(predicate, spec, tuples)
        some_pass = compile_tuple_filter(and_(*(inclusive for inclusive, _ in projections)), tuples)
        all_pass = compile_tuple_filter(or_(*(strict for _, strict in projections)), tuples)

        def left(partition: Sequence[Any]) -> Expression:
            if not some_pass(partition):
                return FALSE
            return TRUE if all_pass(partition) else predicate

        return left

    def settled(value: bool) -> Residual:
        return lambda partition: TRUE if value else FALSE

    def all_of(parts: list[Residual]) -> Residual:
        return lambda partition: and_(*(part(partition) for part in parts))

    def any_of(parts: list[Residual]) -> Residual:
        return lambda partition: or_(*(part(partition) for part in parts))

    return fold(expression, constant=settled, predicate=leaf, all_of=all_of, any_of=any_of)
