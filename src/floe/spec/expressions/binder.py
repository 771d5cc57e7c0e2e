"""Binds filters to a schema: resolves column names, converts literals, folds predicates that are always true or false.

A bound filter consists of `Constant`, `And`, `Or` and `BoundPredicate`, is at most `MAX_DEPTH` deep, and guarantees:

* literals are values of the term's type in the form of `floe.spec.values`; never null, never NaN, never `-0.0`;
* a comparison has one literal; `IN` and `NOT_IN` have two or more, distinct and sorted;
* columns inside lists and maps do not occur;
* structs, lists, maps, variants and geospatial columns occur only in `IS_NULL` and `NOT_NULL`; `STARTS_WITH` only with
  strings and a prefix that is not empty; `IS_NAN` only with floats and doubles; columns of type `unknown`, which are
  always null, do not occur.

A literal that is not a value of the column's type still gives an exact result. No comparison is true for null, so one
that is true for every value binds to `IS NOT NULL`, or to true if the column is required.

>>> from floe.spec.expressions.dsl import col
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, INT, LONG
>>> schema = Schema((Field(1, "id", LONG, required=True), Field(2, "n", INT)))
>>> for filter in (col("n") < 3.5, col("n") < 2**40, col("id") < 2**80, col("n") == 3.5, ~(col("n") >= 3)):
...     print(bind(filter, schema))
n <= 3
n IS NOT NULL
true
false
n < 3
"""

from __future__ import annotations

from typing import Any

from floe.errors import InvalidExpression
from floe.spec.expressions.literals import COMPARABLE_KINDS, LiteralPosition, locate_for
from floe.spec.expressions.nodes import (
    FALSE,
    TRUE,
    BoundPredicate,
    BoundReference,
    BoundTerm,
    BoundTransform,
    Expression,
    Op,
    Predicate,
    Term,
    TransformTerm,
    and_,
    or_,
)
from floe.spec.expressions.simplification import check_depth, rebuild
from floe.spec.partitioning.transforms import Identity, Void
from floe.spec.schemas.schema import Schema


def bind(expr: Expression, schema: Schema, *, case_sensitive: bool = True) -> Expression:
    """Bind a filter to a schema; the result has no NOT, and its literals are values of the columns' types.

    Raises `NoSuchColumn` for an unknown name, and `InvalidExpression` for a predicate that the column's type does not
    allow. Parts that are bound already do not change.

    >>> from floe.spec.expressions.dsl import col
    >>> from floe.spec.types import Field, LONG
    >>> print(bind(col("ID").is_in([2, 1, 2]), Schema((Field(1, "id", LONG),)), case_sensitive=False))
    id IN (1, 2)
    """
    terms: dict[Term, BoundTerm] = {}

    def bind_leaf(leaf: Expression) -> Expression:
        if not isinstance(leaf, Predicate):
            return leaf
        term = terms.get(leaf.term)
        if term is None:
            term = terms[leaf.term] = bind_term(leaf.term, schema, case_sensitive=case_sensitive)
        return bind_predicate(leaf.op, term, leaf.literals)

    return check_depth(rebuild(expr, bind_leaf))


def bind_term(term: Term, schema: Schema, *, case_sensitive: bool = True) -> BoundTerm:
    """Bind a term to a schema: a column, or a transform of one.

    >>> from floe.spec.expressions.nodes import Reference
    >>> from floe.spec.types import Field, LONG
    >>> bind_term(Reference("id"), Schema((Field(1, "id", LONG),))).field_id
    1
    """
    reference = term.ref if isinstance(term, TransformTerm) else term
    entry = schema.resolve(reference.name, case_sensitive=case_sensitive)
    if entry.in_collection:
        raise InvalidExpression(
            f"{entry.name!r} is inside a list or map, so a row may have several values",
            hint="filter on columns and fields of structs",
            column=entry.name,
        )
    ref = BoundReference(entry)
    if not isinstance(term, TransformTerm) or isinstance(term.transform, Identity):
        return ref
    transform = term.transform
    if isinstance(transform, Void) or not transform.is_known:
        reason = "is always null" if transform.is_known else "is not known to this version"
        raise InvalidExpression(
            f"the transform {str(transform)[:80]} {reason}", hint="filter on the column itself", column=entry.name
        )
    if not transform.can_transform(ref.type):
        raise InvalidExpression(f"{transform} cannot be applied to type {ref.type}", column=entry.name)
    return BoundTransform(transform, ref, transform.result_type(ref.type))


def bind_predicate(op: Op, term: BoundTerm, literals: tuple[Any, ...] = ()) -> Expression:
    """Bind a predicate on a bound term, with the literals of a user.

    >>> from floe.spec.expressions.nodes import Reference
    >>> from floe.spec.types import Field, INT
    >>> age = bind_term(Reference("age"), Schema((Field(1, "age", INT),)))
    >>> print(bind_predicate(Op.GT, age, (17.5,)))
    age >= 18
    """
    try:
        return _bind(op, term, literals)
    except InvalidExpression as error:
        error.with_context(column=_name(term))
        raise


def _bind(op: Op, term: BoundTerm, literals: tuple[Any, ...]) -> Expression:
    _check_operation(op, term, literals)
    if op in (Op.IS_NULL, Op.NOT_NULL):
        return _bind_null_test(op, term)
    if op.is_unary:
        return BoundPredicate(op, term)
    if op.is_set and not literals:
        return FALSE if op is Op.IN else TRUE  # nothing is compared, so the result is known even for null
    if term.type.kind == "unknown":
        return FALSE  # the column has only nulls
    if op.is_set:
        return _bind_set(op, term, literals)
    literal = literals[0]
    if literal is None:
        return FALSE  # no comparison with null is true
    position = locate_for(term, literal)
    if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
        return _bind_prefix(op, term, position.at)
    if position.at is None:
        return _compare_between_values(op, term, position)
    return _compare_with_nan(op, term) if position.at != position.at else BoundPredicate(op, term, (position.at,))


def _check_operation(op: Op, term: BoundTerm, literals: tuple[Any, ...]) -> None:
    kind = term.type.kind
    if op in (Op.IS_NULL, Op.NOT_NULL):
        allowed = True
    elif op in (Op.IS_NAN, Op.NOT_NAN):
        allowed = kind in ("float", "double")
    elif op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
        allowed = kind in ("string", "unknown")
    else:
        allowed = kind in COMPARABLE_KINDS or kind == "unknown"
    if not allowed:
        raise InvalidExpression(
            f"{op.value} cannot be used with type {term.type}", hint=_HINTS.get(op, _NULL_TESTS_ONLY)
        )
    count = 0 if op.is_unary else 1
    if not op.is_set and len(literals) != count:
        raise InvalidExpression(f"{op.value} takes {count} literal{'s'[: count != 1]}, found {len(literals)}")


_NULL_TESTS_ONLY = "columns of this type can only be tested for null"
_HINTS = {
    Op.IS_NAN: "only float and double columns have NaN",
    Op.NOT_NAN: "only float and double columns have NaN",
    Op.STARTS_WITH: "only strings have prefixes",
    Op.NOT_STARTS_WITH: "only strings have prefixes",
}


def _bind_null_test(op: Op, term: BoundTerm) -> Expression:
    is_null = op is Op.IS_NULL
    if term.type.kind == "unknown":
        return TRUE if is_null else FALSE
    if not term.nullable:
        return FALSE if is_null else TRUE
    return BoundPredicate(op, term)


def _not_null(term: BoundTerm) -> Expression:
    return _bind_null_test(Op.NOT_NULL, term)


def _bind_prefix(op: Op, term: BoundTerm, prefix: str) -> Expression:
    if prefix:
        return BoundPredicate(op, term, (prefix,))
    return _not_null(term) if op is Op.STARTS_WITH else FALSE


def _compare_between_values(op: Op, term: BoundTerm, position: LiteralPosition) -> Expression:
    """A comparison with a literal that is between two values of the type, or outside its range."""
    if op in (Op.LT, Op.LT_EQ):
        if position.above is None:
            return _not_null(term)
        return FALSE if position.below is None else BoundPredicate(Op.LT_EQ, term, (position.below,))
    if op in (Op.GT, Op.GT_EQ):
        if position.below is None:
            return _not_null(term)
        return FALSE if position.above is None else BoundPredicate(Op.GT_EQ, term, (position.above,))
    return FALSE if op is Op.EQ else _not_null(term)


def _compare_with_nan(op: Op, term: BoundTerm) -> Expression:
    """A comparison with NaN, which equals itself and is greater than every number."""
    if op in (Op.EQ, Op.GT_EQ):
        return BoundPredicate(Op.IS_NAN, term)
    if op in (Op.NOT_EQ, Op.LT):
        return BoundPredicate(Op.NOT_NAN, term)
    return _not_null(term) if op is Op.LT_EQ else FALSE


def _bind_set(op: Op, term: BoundTerm, literals: tuple[Any, ...]) -> Expression:
    values: set[Any] = set()
    has_null = has_nan = False
    for literal in literals:
        if literal is None:
            has_null = True
            continue
        value = locate_for(term, literal).at
        if value is None:
            continue  # equal to no value of the type
        if value != value:
            has_nan = True
        else:
            values.add(value)
    if op is Op.IN:
        return or_(_equal_to_any(values, term, Op.EQ, Op.IN), BoundPredicate(Op.IS_NAN, term) if has_nan else FALSE)
    if has_null:
        return FALSE  # `a <> null` is never true
    if not values and not has_nan:
        return _not_null(term)
    return and_(
        _equal_to_any(values, term, Op.NOT_EQ, Op.NOT_IN) if values else TRUE,
        BoundPredicate(Op.NOT_NAN, term) if has_nan else TRUE,
    )


def _equal_to_any(values: set[Any], term: BoundTerm, single: Op, several: Op) -> Expression:
    if not values:
        return FALSE
    return BoundPredicate(single if len(values) == 1 else several, term, tuple(sorted(values)))


def _name(term: BoundTerm) -> str:
    return (term.ref if isinstance(term, BoundTransform) else term).entry.name
