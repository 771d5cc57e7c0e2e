"""Filters on rows turned into filters on partition values (spec: Scan Planning).

*Inclusive*: if a row passes the filter, its partition passes the projection, so that partitions which do not pass hold
nothing of interest. *Strict*: if a partition passes the projection, all its rows pass the filter. Both depend on the
spec that a file was written with, and are bound to the schema that `partition_schema` makes of it.

The rules are written down once, for the inclusive projection of one predicate through one transform. The strict
projection is its mirror image: if every row that *fails* the predicate lies in a partition with some property, then in
the partitions without it all rows pass.

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
    """The schema of a spec's partition tuples: a field for each of the spec's, under the partition field's id.

    >>> from floe.spec.partitioning.transforms import Bucket
    >>> from floe.spec.types import Field, STRING
    >>> spec = PartitionSpec((PartitionField((1,), 1000, "name_bucket", Bucket(8)),))
    >>> print(partition_schema(spec, Schema((Field(1, "name", STRING),))).fields[0])
    1000: name_bucket: optional int
    """
    return Schema(spec.partition_type(schema).fields)


def inclusive_projection(expression: Expression, spec: PartitionSpec, schema: Schema) -> Expression:
    """The filter that every partition passes which has a row that passes the given one.

    `expression` is bound to `schema`. Several partition fields of one column narrow the choice together.

    >>> inclusive_projection(TRUE, PartitionSpec(), Schema(()))
    TRUE
    """
    return _project(expression, spec, schema, lambda projections: and_(*(first for first, _ in projections)))


def strict_projection(expression: Expression, spec: PartitionSpec, schema: Schema) -> Expression:
    """The filter that only those partitions pass whose rows all pass the given one.

    `expression` is bound to `schema`. With several partition fields of one column, each may be proof enough.

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
    """For each partition field of the predicate's column, the inclusive and the strict projection.

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
    op, term, transform = predicate.op, predicate.term, field.transform
    source = term.type if isinstance(term, BoundReference) else term.ref.type
    tells_nothing = TRUE, FALSE
    if isinstance(transform, Void) or not transform.is_known or not transform.can_transform(source):
        return tells_nothing  # spec: unknown transforms project to true
    if _keeps_values(transform, source):
        same = BoundPredicate(op, _moved(term, target), predicate.literals)
        return same, same
    if isinstance(term, BoundTransform) and (isinstance(term.transform, Void) or not term.transform.is_known):
        return tells_nothing
    if op in (Op.IS_NULL, Op.NOT_NULL):  # these transforms give null for null and for nothing else
        test = BoundPredicate(op, target)
        return test, test
    if op in (Op.IS_NAN, Op.NOT_NAN):
        return tells_nothing

    # Null rows never pass a comparison, so null partitions are out on both sides.
    passing = _where(op, predicate, transform, target)
    failing = _where(op.negated, predicate, transform, target)
    return (
        BoundPredicate(Op.NOT_NULL, target) if passing is None else passing,
        FALSE if failing is None else _negated(failing),
    )


def _keeps_values(transform: Transform, source: Type) -> bool:
    return isinstance(transform, Identity) or (isinstance(transform, Day) and source.kind == "date")


def _moved(term: BoundTerm, target: BoundReference) -> BoundTerm:
    """The same term of the partition field that copies the column."""
    return target if isinstance(term, BoundReference) else BoundTransform(term.transform, target, term.type)


def _where(op: Op, predicate: BoundPredicate, transform: Transform, target: BoundReference) -> Expression | None:
    """The partitions that the non-null rows passing `op` lie in; None if that could be any.

    `op` is the predicate's own operation or the opposite one.
    """
    term, literals = predicate.term, predicate.literals
    if isinstance(term, BoundTransform):
        place = _compared(op, target, literals) if term.transform == transform else None
    else:
        try:
            place = _through_transform(op, literals, transform, term.type, target)
        except InvalidValue:  # the literal is at the very end of its type, and the transform has no result for it
            return None
    if place is None:
        return None
    if isinstance(transform, TimeTransform):
        return _allowing_for_old_writers(place)
    if isinstance(transform, Truncate):
        return _allowing_for_wrapped_numbers(place, transform)
    return place


# through each transform --------------------------------------------------------------------------------------


def _through_transform(
    op: Op, literals: tuple[Any, ...], transform: Transform, source: Type, target: BoundReference
) -> BoundPredicate | None:
    if isinstance(transform, Truncate) and source.kind in ("string", "binary"):
        return _through_prefix(op, literals, transform.width, target)
    cut = transform.bind(source)
    if op in (Op.EQ, Op.IN):
        return _compared(op, target, map(cut, literals))
    if not transform.preserves_order or op not in _CLOSED:
        return None  # of buckets, nothing is known but that equal values share one
    # a < x is a <= x - 1 for numbers that have neighbours, and a transform that keeps the order keeps that
    closed, by = _CLOSED[op]
    neighbour = _shifted(source, literals[0], by)
    if find_problem(
        source, neighbour
    ):  # the literal is the last value of its type, and so is its place among partitions
        return _compared(op, target, [cut(literals[0])])
    return _compared(closed, target, [cut(neighbour)])


_CLOSED = {Op.LT: (Op.LT_EQ, -1), Op.LT_EQ: (Op.LT_EQ, 0), Op.GT: (Op.GT_EQ, 1), Op.GT_EQ: (Op.GT_EQ, 0)}
"""Comparisons in the form that includes the literal, and how far that moves it."""


def _shifted(source: Type, value: Any, by: int) -> Any:
    """The neighbour of a value, in units of the type's last place."""
    if isinstance(source, DecimalType):
        unscaled = unscaled_value(value, source.scale)
        assert unscaled is not None
        return decimal_from_unscaled(unscaled + by, source.scale)
    return value + by


def _through_prefix(op: Op, literals: tuple[Any, ...], width: int, target: BoundReference) -> BoundPredicate | None:
    """Text cut to so many code points, binary to so many bytes.

    A value shorter than the width is its own prefix and that of no other, so comparisons with it stay exact. One just
    as long is still its own prefix, and a prefix is never greater than what it was cut from.
    """
    if op in (Op.EQ, Op.IN):
        return _compared(op, target, (literal[:width] for literal in literals))
    if op in (Op.NOT_EQ, Op.NOT_IN):
        shorter = [literal for literal in literals if len(literal) < width]
        return _compared(Op.NOT_IN, target, shorter) if shorter else None
    (literal,) = literals
    length = "shorter" if len(literal) < width else "equal" if len(literal) == width else "longer"
    projected = _PREFIX_RULES[op].get(length)
    return _compared(projected, target, [literal[:width]]) if projected else None


_PREFIX_RULES: dict[Op, dict[str, Op]] = {
    Op.LT: {"shorter": Op.LT, "equal": Op.LT, "longer": Op.LT_EQ},
    Op.LT_EQ: {"shorter": Op.LT_EQ, "equal": Op.LT_EQ, "longer": Op.LT_EQ},
    Op.GT: {"shorter": Op.GT, "equal": Op.GT_EQ, "longer": Op.GT_EQ},
    Op.GT_EQ: {"shorter": Op.GT_EQ, "equal": Op.GT_EQ, "longer": Op.GT_EQ},
    Op.STARTS_WITH: {"shorter": Op.STARTS_WITH, "equal": Op.EQ, "longer": Op.EQ},
    Op.NOT_STARTS_WITH: {"shorter": Op.NOT_STARTS_WITH, "equal": Op.NOT_EQ},
}
"""What a comparison becomes for the prefix, by the length of the literal beside the width."""


# what writers got wrong --------------------------------------------------------------------------------------


def _allowing_for_old_writers(place: BoundPredicate) -> Expression | None:
    """A projection widened for files whose times before 1970 were transformed to one too much.

    Java Iceberg up to 0.10.0 rounded towards 1970: `day` of 1969-12-31 10:00 gave 0, where -1 is right. Tables written
    then are still read, and nothing in a file tells which version wrote it.
    """
    op, literals, target = place.op, place.literals, place.term
    if op in (Op.LT, Op.LT_EQ):
        last = literals[0] - 1 if op is Op.LT else literals[0]
        return _compared(Op.LT_EQ, target, [last + 1 if last < 0 else last])
    if op in (Op.EQ, Op.IN):
        return _compared(Op.IN, target, {*literals, *(x + 1 for x in literals if x < 0)})
    if op in (Op.NOT_EQ, Op.NOT_IN):  # a value is ruled out only if its neighbour cannot have become it
        ruled_out = [x for x in literals if x > 0 or x - 1 in literals]
        return _compared(Op.NOT_IN, target, ruled_out) if ruled_out else None
    return place  # what became greater is still greater


def _allowing_for_wrapped_numbers(place: BoundPredicate, transform: Truncate) -> Expression:
    """A projection widened for the lowest integers, whose truncated value is below their type.

    `truncate[10]` of -2147483648 would be -2147483650. The arithmetic of the reference implementation wraps around, and
    the row is stored under 2147483646, far from its neighbours. A long may have been an int when it was written.
    """
    passes = value_test(place.term.type, place.op, place.literals)
    misplaced = []
    for bits in _INTEGER_BITS.get(place.term.type.kind, ()):
        lowest = -(1 << (bits - 1))
        step = lowest - lowest % transform.width
        wrapped = step + (1 << bits)
        if step < lowest and passes(step) and not passes(wrapped):
            misplaced.append(wrapped)
    return or_(place, _compared(Op.IN, place.term, misplaced)) if misplaced else place


_INTEGER_BITS = {"int": (32,), "long": (32, 64)}


# parts -------------------------------------------------------------------------------------------------------


def _compared(op: Op, term: BoundTerm, values: Iterable[Any]) -> BoundPredicate:
    """A predicate in its plainest form: literals distinct and sorted, a set of one a comparison."""
    literals = tuple(sorted(set(values)))
    if op.is_set and len(literals) == 1:
        op = Op.EQ if op is Op.IN else Op.NOT_EQ
    elif op in (Op.EQ, Op.NOT_EQ) and len(literals) > 1:
        op = Op.IN if op is Op.EQ else Op.NOT_IN
    return BoundPredicate(op, term, literals)


def _negated(place: Expression) -> Expression:
    """The other partitions, null ones left out."""
    if isinstance(place, Or):
        return and_(*map(_negated, place.children))
    assert isinstance(place, BoundPredicate)
    return BoundPredicate(place.op.negated, place.term, place.literals)
