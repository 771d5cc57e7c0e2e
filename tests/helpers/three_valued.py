"""SQL's three-valued logic in its plainest form: the truth of a filter for one row, to check cleverer code against."""

import math
from typing import Any

from floe.spec.expressions.nodes import (
    And,
    BoundPredicate,
    BoundTransform,
    Constant,
    Expression,
    Not,
    Op,
    Or,
    Predicate,
    TransformTerm,
)


def truth(expr: Expression, row: dict[str, Any]) -> bool | None:
    """True, False or None (unknown). Columns are looked up in `row` by their dotted name."""
    if isinstance(expr, Constant):
        return expr.value
    if isinstance(expr, Not):
        child = truth(expr.child, row)
        return None if child is None else not child
    if isinstance(expr, And):
        parts = [truth(child, row) for child in expr.children]
        return False if False in parts else None if None in parts else True
    if isinstance(expr, Or):
        parts = [truth(child, row) for child in expr.children]
        return True if True in parts else None if None in parts else False
    assert isinstance(expr, Predicate | BoundPredicate)
    return test(expr.op, value_of(expr, row), expr.literals)


def passes(expr: Expression, row: dict[str, Any]) -> bool:
    return truth(expr, row) is True


def value_of(expr: Predicate | BoundPredicate, row: dict[str, Any]) -> Any:
    term = expr.term
    if isinstance(term, TransformTerm):
        raise NotImplementedError("a transform needs a type")
    if isinstance(term, BoundTransform):
        return term.transform.apply(term.ref.type, row[term.ref.entry.name])
    name = term.name if isinstance(expr, Predicate) else term.entry.name
    return row[name if isinstance(name, str) else ".".join(name)]


def test(op: Op, value: Any, literals: tuple[Any, ...]) -> bool | None:
    if op is Op.IS_NULL:
        return value is None
    if op is Op.NOT_NULL:
        return value is not None
    if op.is_set and not literals:
        return op is Op.NOT_IN  # nothing is compared
    if value is None:
        return None
    if op in (Op.IS_NAN, Op.NOT_NAN):
        return (isinstance(value, float) and math.isnan(value)) == (op is Op.IS_NAN)
    if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
        return None if literals[0] is None else value.startswith(literals[0]) == (op is Op.STARTS_WITH)
    if op in (Op.IN, Op.NOT_IN):
        answers = [compare(Op.EQ, value, literal) for literal in literals]
        found = True if True in answers else None if None in answers else False
        return None if found is None else found == (op is Op.IN)
    return compare(op, value, literals[0])


def compare(op: Op, value: Any, literal: Any) -> bool | None:
    if literal is None:
        return None
    a, b = key(value), key(literal)
    return {
        Op.EQ: a == b, Op.NOT_EQ: a != b, Op.LT: a < b, Op.LT_EQ: a <= b, Op.GT: a > b, Op.GT_EQ: a >= b,
    }[op]  # fmt: skip


def key(value: Any) -> Any:
    """NaN equals itself and is greater than every other number."""
    return (1, 0) if value != value else (0, value)


test.__test__ = False  # type: ignore[attr-defined]  # not a test of pytest's
