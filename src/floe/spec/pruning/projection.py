"""Projections: filters on rows turned into filters on partition values (spec: Scan Planning).

*Inclusive*: if a row passes the filter, its partition passes the projection, so partitions that do not pass can be
skipped. *Strict*: if a partition passes the projection, all its rows pass the filter. Both depend on the partition spec
of a file, and are bound to the schema that `partition_schema` returns for it.

The rules are written once, for the inclusive projection of one predicate through one transform. The strict projection
follows from it: if all rows that *fail* the predicate are in the partitions of its negation's inclusive projection,
then all rows of the other partitions pass.

>>> from floe.spec.expressions.nodes import BoundPredicate, BoundReference, Op
>>> from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.partitioning.transforms import DAY
>>> from floe.spec.types import Field, TIMESTAMP
>>> schema = Schema((Field(1, "ts", TIMESTAMP),))
>>> spec = PartitionSpec((PartitionField((1,), 1000, "ts_day", DAY),))
>>> late = BoundPredicate(Op.GT, BoundReference(schema.entry(1)), (86_400_000_000 * 3 // 2,))
>>> for projected in inclusive_projection(late, spec, schema), strict_projection(late, spec, schema):
...     print(projected.term.entry.name, projected.op.name, projected.literal)
ts_day GT_EQ 1
ts_day GT 1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from floe.errors import InvalidValue
from floe.spec.expressions.nodes import (
    FALSE,
    TRUE,
    BoundPredicate,
    BoundReference,
    BoundTerm,
    BoundTransform,
    Expression,
    Op,
    Or,
    and_,
    fold,
    or_,
)
from floe.spec.expressions.row_evaluation import value_test
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import Day, Identity, TimeTransform, Transform, Truncate, Void
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, Type
from floe.spec.values.exact_numbers import decimal_from_unscaled, unscaled_value
from floe.spec.values.value_checks import find_problem


def partition_schema(spec: PartitionSpec, schema: Schema) -> Schema:
    """The schema of the partition tuples of a spec; its fields have the ids of the partition fields.

    >>> from floe.spec.partitioning.transforms import Bucket
    >>> from floe.spec.types import Field, STRING
    >>> spec = PartitionSpec((PartitionField((1,), 1000, "name_bucket", Bucket(8)),))
    >>> print(partition_schema(spec, Schema((Field(1, "name", STRING),))).fields[0])
    1000: name_bucket: optional int
    """
    return Schema(spec.partition_type(schema).fields)


def inclusive_projection(expression: Expression, spec: PartitionSpec, schema: Schema) -> Expression:
    """Project a filter so that every partition with a row that passes the filter passes the projection.

    `expression` is bound to `schema`. If several partition fields have the same source column, all must pass.

    >>> inclusive_projection(TRUE, PartitionSpec(), Schema(()))
    TRUE
    """
    return _project(expression, spec, schema, lambda projections: and_(*(first for first, _ in projections)))


def strict_projection(expression: Expression, spec: PartitionSpec, schema: Schema) -> Expression:
    """Project a filter so that only partitions in which all rows pass the filter pass the projection.

    `expression` is bound to `schema`. If several partition fields have the same source column, one that passes is
    enough.

    >>> strict_projection(FALSE, PartitionSpec(), Schema(()))
    FALSE
    """
    return _project(expression, spec, schema, lambda projections: or_(*(second for _, second in projections)))


def _project(
    expression: Expression,
    spec: PartitionSpec,
    schema: Schema,
    combine: Callable[[Iterable[tuple[Expression, Expression]]], Expression],
) -> Expression:
    partition = partition_schema(spec, schema)
    return fold(
        expression,
        constant=lambda value: TRUE if value else FALSE,
        predicate=lambda predicate: combine(project_predicate(predicate, spec, partition)),
        all_of=lambda parts: and_(*parts),
        any_of=lambda parts: or_(*parts),
    )


def project_predicate(
    predicate: BoundPredicate, spec: PartitionSpec, partition: Schema
) -> list[tuple[Expression, Expression]]:
    """Return the inclusive and the strict projection for each partition field of the predicate's column.

    >>> from floe.spec.partitioning.transforms import VOID
    >>> from floe.spec.types import Field, INT
    >>> schema = Schema((Field(1, "a", INT),))
    >>> spec = PartitionSpec((PartitionField((1,), 1000, "a_null", VOID),))
    >>> is_null = BoundPredicate(Op.IS_NULL, BoundReference(schema.entry(1)))
    >>> project_predicate(is_null, spec, partition_schema(spec, schema))
    [(TRUE, FALSE)]
    """
    return [
        _through_field(predicate, field, BoundReference(partition.entry(field.field_id)))
        for field in spec.fields
        if field.source_ids == (predicate.term.field_id,)
    ]


def _through_field(
    predicate: BoundPredicate, field: PartitionField, target: BoundReference
) -> tuple[Expression, Expression]:
    """The inclusive and the strict projection to one partition field; `target` refers to it."""
    op, term, transform = predicate.op, predicate.term, field.transform
    source = term.type if isinstance(term, BoundReference) else term.ref.type
    no_projection = TRUE, FALSE
    if isinstance(transform, Void) or not transform.is_known or not transform.can_transform(source):
        return no_projection  # spec: unknown transforms project to true
    if _keeps_values(transform, source):
        same = BoundPredicate(op, _on_partition(term, target), predicate.literals)
        return same, same
    if isinstance(term, BoundTransform) and (isinstance(term.transform, Void) or not term.transform.is_known):
        return no_projection
    if op in (Op.IS_NULL, Op.NOT_NULL):  # the remaining transforms return null for null and for nothing else
        test = BoundPredicate(op, target)
        return test, test
    if op in (Op.IS_NAN, Op.NOT_NAN):
        return no_projection

    # Null never passes a comparison, so null partitions pass neither projection.
    passing = _partitions_of(op, predicate, transform, target)
    failing = _partitions_of(op.negated, predicate, transform, target)
    return (
        BoundPredicate(Op.NOT_NULL, target) if passing is None else passing,
        FALSE if failing is None else _negate(failing),
    )


def _keeps_values(transform: Transform, source: Type) -> bool:
    return isinstance(transform, Identity) or (isinstance(transform, Day) and source.kind == "date")


def _on_partition(term: BoundTerm, target: BoundReference) -> BoundTerm:
    """The term applied to the partition field, which has the values of the column."""
    return target if isinstance(term, BoundReference) else BoundTransform(term.transform, target, term.type)


def _partitions_of(
    op: Op, predicate: BoundPredicate, transform: Transform, target: BoundReference
) -> Expression | None:
    """The filter for the partitions of the non-null rows that pass `op`; None if they can be in any partition.

    `op` is the operation of the predicate or its negation.
    """
    term, literals = predicate.term, predicate.literals
    if isinstance(term, BoundTransform):
        projected = _comparison(op, target, literals) if term.transform == transform else None
    else:
        try:
            projected = _through_transform(op, literals, transform, term.type, target)
        except InvalidValue:  # the transform has no result for a literal at the end of the type's range
            return None
    if projected is None:
        return None
    if isinstance(transform, TimeTransform):
        return _widen_for_old_writers(projected)
    if isinstance(transform, Truncate):
        return _widen_for_wrapped_numbers(projected, transform)
    return projected


# Transforms ------------------------------------------------------------------------------------------------------


def _through_transform(
    op: Op, literals: tuple[Any, ...], transform: Transform, source: Type, target: BoundReference
) -> BoundPredicate | None:
    if isinstance(transform, Truncate) and source.kind in ("string", "binary"):
        return _through_prefix(op, literals, transform.width, target)
    apply = transform.bind(source)
    if op in (Op.EQ, Op.IN):
        return _comparison(op, target, map(apply, literals))
    if not transform.preserves_order or op not in _CLOSED:
        return None  # buckets only keep equality: equal values are in the same bucket
    # For integers a < x is a <= x - 1, and a transform that preserves order preserves that.
    closed, shift = _CLOSED[op]
    neighbour = _shift(source, literals[0], shift)
    if find_problem(source, neighbour):  # the literal is the last value of its type, and in the last partition
        return _comparison(op, target, [apply(literals[0])])
    return _comparison(closed, target, [apply(neighbour)])


_CLOSED = {Op.LT: (Op.LT_EQ, -1), Op.LT_EQ: (Op.LT_EQ, 0), Op.GT: (Op.GT_EQ, 1), Op.GT_EQ: (Op.GT_EQ, 0)}
"""Comparisons as closed ranges, with the shift of the literal."""


def _shift(source: Type, value: Any, shift: int) -> Any:
    """A value plus a number of units of the type's last digit."""
    if isinstance(source, DecimalType):
        unscaled = unscaled_value(value, source.scale)
        assert unscaled is not None
        return decimal_from_unscaled(unscaled + shift, source.scale)
    return value + shift


def _through_prefix(op: Op, literals: tuple[Any, ...], width: int, target: BoundReference) -> BoundPredicate | None:
    """Project a comparison of strings or binary values to their prefixes.

    A literal shorter than the width is the prefix of no other value, so comparisons with it stay exact. One as long as
    the width is its own prefix, and a prefix is never greater than the value that it was truncated from.
    """
    if op in (Op.EQ, Op.IN):
        return _comparison(op, target, (literal[:width] for literal in literals))
    if op in (Op.NOT_EQ, Op.NOT_IN):
        shorter = [literal for literal in literals if len(literal) < width]
        return _comparison(Op.NOT_IN, target, shorter) if shorter else None
    (literal,) = literals
    length = "shorter" if len(literal) < width else "equal" if len(literal) == width else "longer"
    projected = _PREFIX_RULES[op].get(length)
    return _comparison(projected, target, [literal[:width]]) if projected else None


_PREFIX_RULES: dict[Op, dict[str, Op]] = {
    Op.LT: {"shorter": Op.LT, "equal": Op.LT, "longer": Op.LT_EQ},
    Op.LT_EQ: {"shorter": Op.LT_EQ, "equal": Op.LT_EQ, "longer": Op.LT_EQ},
    Op.GT: {"shorter": Op.GT, "equal": Op.GT_EQ, "longer": Op.GT_EQ},
    Op.GT_EQ: {"shorter": Op.GT_EQ, "equal": Op.GT_EQ, "longer": Op.GT_EQ},
    Op.STARTS_WITH: {"shorter": Op.STARTS_WITH, "equal": Op.EQ, "longer": Op.EQ},
    Op.NOT_STARTS_WITH: {"shorter": Op.NOT_STARTS_WITH, "equal": Op.NOT_EQ},
}
"""The operation on prefixes, by the length of the literal compared to the width."""


# Known errors of writers -----------------------------------------------------------------------------------------


def _widen_for_old_writers(projected: BoundPredicate) -> Expression | None:
    """Widen a projection for files whose timestamps before 1970 were transformed to a value that is too high by one.

    Java Iceberg up to 0.10.0 rounded towards 1970: `day` of 1969-12-31 10:00 was 0 instead of -1. Such tables still
    exist, and nothing in a file identifies the version that wrote it.
    """
    op, literals, target = projected.op, projected.literals, projected.term
    if op in (Op.LT, Op.LT_EQ):
        last = literals[0] - 1 if op is Op.LT else literals[0]
        return _comparison(Op.LT_EQ, target, [last + 1 if last < 0 else last])
    if op in (Op.EQ, Op.IN):
        return _comparison(Op.IN, target, {*literals, *(x + 1 for x in literals if x < 0)})
    if op in (Op.NOT_EQ, Op.NOT_IN):  # a partition is excluded only if it cannot have rows of the one before
        excluded = [x for x in literals if x > 0 or x - 1 in literals]
        return _comparison(Op.NOT_IN, target, excluded) if excluded else None
    return projected  # a value that is too high still passes > and >=


def _widen_for_wrapped_numbers(projected: BoundPredicate, transform: Truncate) -> Expression:
    """Widen a projection for the lowest integers, whose truncated value is below the range of their type.

    `truncate[10]` of -2147483648 would be -2147483650. The reference implementation overflows, so the row is in
    partition 2147483646. A long column may have been an int column when the file was written.
    """
    passes = value_test(projected.term.type, projected.op, projected.literals)
    misplaced = []
    for bits in _INTEGER_BITS.get(projected.term.type.kind, ()):
        lowest = -(1 << (bits - 1))
        multiple = lowest - lowest % transform.width
        wrapped = multiple + (1 << bits)
        if multiple < lowest and passes(multiple) and not passes(wrapped):
            misplaced.append(wrapped)
    return or_(projected, _comparison(Op.IN, projected.term, misplaced)) if misplaced else projected


_INTEGER_BITS = {"int": (32,), "long": (32, 64)}


# Predicates ------------------------------------------------------------------------------------------------------


def _comparison(op: Op, term: BoundTerm, values: Iterable[Any]) -> BoundPredicate:
    """A predicate in canonical form: literals distinct and sorted, a set of one literal as an equality."""
    literals = tuple(sorted(set(values)))
    if op.is_set and len(literals) == 1:
        op = Op.EQ if op is Op.IN else Op.NOT_EQ
    elif op in (Op.EQ, Op.NOT_EQ) and len(literals) > 1:
        op = Op.IN if op is Op.EQ else Op.NOT_IN
    return BoundPredicate(op, term, literals)


def _negate(projected: Expression) -> Expression:
    """The filter for all other partitions, except null ones."""
    if isinstance(projected, Or):
        return and_(*map(_negate, projected.children))
    assert isinstance(projected, BoundPredicate)
    return BoundPredicate(projected.op.negated, projected.term, projected.literals)
