"""The part of a condition that is a filter of Floe's, so that planning can leave out files.

The filter never misses a row for which the condition is true: what has no form as a filter counts as true. Where all of
the condition has one, `exact` says so. A comparison is taken over only where the column itself is compared, in its own
type, with a value that is the same for all rows; `ts >= current_date() - 7` is one.

>>> from floe.arrow.values.compiler import Scope
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, INT, STRING
>>> scope = Scope({"t": Schema((Field(1, "a", INT), Field(2, "s", STRING)))})
>>> found = filter_of(scope.condition("a > 2 + 3 and upper(s) = 'X'"), "t")
>>> print(found.filter, found.exact)
a > 5 False
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from floe.arrow.values.coercion import MOMENTS
from floe.arrow.values.compiled import Compiled
from floe.errors import FloeError
from floe.spec.expressions.literals import COMPARABLE_KINDS
from floe.spec.expressions.nodes import FALSE, TRUE, Expression, Op, Predicate, Reference, and_, not_, or_
from floe.spec.types import Type
from floe.spec.values import to_text
from floe.sql.values import Call, Name


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that holds wherever a condition is true; if it is `exact`, just there."""

    filter: Expression
    exact: bool


_UNKNOWN = Filter(TRUE, exact=False)

_COMPARISONS = {"=": Op.EQ, "<>": Op.NOT_EQ, "<": Op.LT, "<=": Op.LT_EQ, ">": Op.GT, ">=": Op.GT_EQ}


def conjuncts(condition: Compiled) -> list[Compiled]:
    """The conditions that must all be true.

    >>> from floe.arrow.values.compiler import Scope
    >>> from floe.spec.schemas.schema import Schema
    >>> len(conjuncts(Scope({"t": Schema(())}).condition("1 = 1 and (2 = 2 and 3 = 3)")))
    3
    """
    if _function(condition) == "and":
        return [part for one in condition.inputs for part in conjuncts(one)]
    return [condition]


def filter_of(condition: Compiled, relation: str) -> Filter:
    """The filter on the columns of a relation that a condition implies."""
    name = _function(condition)
    if name in ("and", "or"):
        parts = [filter_of(part, relation) for part in condition.inputs]
        join = and_ if name == "and" else or_
        return Filter(join(*(part.filter for part in parts)), all(part.exact for part in parts))
    if name == "not":
        inner = filter_of(condition.inputs[0], relation)
        return Filter(not_(inner.filter), exact=True) if inner.exact else _UNKNOWN
    if condition.is_constant:
        return _constant(condition)
    if name in ("isnull", "isnotnull"):
        column = _column(condition.inputs[0], relation)
        op = Op.IS_NULL if name == "isnull" else Op.NOT_NULL
        return _UNKNOWN if column is None else Filter(Predicate(op, column), exact=True)
    if name in _COMPARISONS:
        return _comparison(condition, _COMPARISONS[name], relation)
    if name == "in":
        return _membership(condition, relation)
    if (column := _column(condition, relation)) is not None and condition.type.kind == "boolean":
        return Filter(Predicate(Op.EQ, column, (True,)), exact=True)
    return _UNKNOWN


def _function(value: Compiled) -> str | None:
    return value.node.function if isinstance(value.node, Call) else None


def _constant(condition: Compiled) -> Filter:
    """A condition that is unknown passes no row, but its negation passes none either."""
    try:
        value = condition.constant()
    except FloeError:
        return _UNKNOWN  # it is an error only if there are rows
    return Filter(TRUE if value else FALSE, exact=value is not None)


_WIDER = {
    ("int", "long"), ("int", "decimal"), ("int", "double"), ("long", "decimal"), ("decimal", "decimal"),
    ("float", "double"),
}  # fmt: skip
"""Casts that keep every number: who compares the column itself with the same value gets the same answer."""


def column_of(value: Compiled, relation: str) -> Reference | None:
    """The column that a value is, if it is nothing but a column of the relation, in its own type or in a wider one."""
    if len(value.inputs) == 1 and isinstance(value.node, Name):
        (inner,) = value.inputs
        return _column(inner, relation) if (inner.type.kind, value.type.kind) in _WIDER else None
    return _column(value, relation)


def _column(value: Compiled, relation: str) -> Reference | None:
    if not isinstance(value.node, Name) or value.inputs or len(value.columns) != 1:
        return None
    ((name, path),) = value.columns
    return Reference(path) if name == relation else None


def _comparison(condition: Compiled, op: Op, relation: str) -> Filter:
    one, other = condition.inputs
    if column_of(one, relation) is None:
        one, other, op = other, one, op.flipped
    column = column_of(one, relation)
    if column is None or not other.is_constant or one.type.kind not in COMPARABLE_KINDS:
        return _UNKNOWN
    try:
        value = other.constant()
    except FloeError:
        return _UNKNOWN
    if value is None:
        return Filter(FALSE, exact=False)
    return Filter(Predicate(op, column, (literal_for(one.type, value),)), exact=True)


def _membership(condition: Compiled, relation: str) -> Filter:
    value, *members = condition.inputs
    column = column_of(value, relation)
    if column is None or not all(one.is_constant for one in members) or value.type.kind not in COMPARABLE_KINDS:
        return _UNKNOWN
    try:
        found = [one.constant() for one in members]
    except FloeError:
        return _UNKNOWN
    known = tuple(literal_for(value.type, one) for one in found if one is not None)
    return Filter(Predicate(Op.IN, column, known) if known else FALSE, exact=len(known) == len(found))


def literal_for(type_: Type, value: Any) -> Any:
    """A value of a column as a filter takes it: moments as text, because plain numbers would mean something else.

    >>> from floe.spec.types import DATE
    >>> literal_for(DATE, 19723)
    '2024-01-01'
    """
    return to_text(type_, value) if type_.kind in ("time", *MOMENTS) else value
