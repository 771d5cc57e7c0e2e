"""Conditions of statements and scans, and the filters that they imply, so that planning can prune files.

A condition is compiled to a `Condition`: a filter, which planning uses to prune files, and a compiled expression that
is evaluated on rows if the filter does not express all of it. A condition such as `ts >= '2024-01-01' and customer like
'a%'` is a filter; of `a % 2 = 0 and a > 5` only `a > 5` is.

The implied filter matches every row for which the condition is true: parts that a filter cannot express are taken as
true. `exact` tells whether the filter is equivalent to the condition. A comparison is expressed if it compares a
column, in its own type, with a value that is the same for all rows, as in `ts >= current_date() - 7`.

>>> from floe.arrow.values.compiler import Scope
>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, INT, STRING
>>> scope = Scope({"t": Schema((Field(1, "a", INT), Field(2, "s", STRING)))})
>>> implied = implied_filter(scope.condition("a > 2 + 3 and upper(s) = 'X'"), "t")
>>> print(implied.filter, implied.exact)
a > 5 False
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from floe.arrow.values.casts import DATETIMES
from floe.arrow.values.compiled import Compiled
from floe.arrow.values.compiler import Scope
from floe.errors import FloeError, InvalidExpression, NoSuchColumn
from floe.spec.expressions.binder import bind
from floe.spec.expressions.literals import COMPARABLE_KINDS
from floe.spec.expressions.nodes import FALSE, TRUE, Expression, Op, Predicate, Reference, and_, not_, or_
from floe.spec.schemas.schema import Schema
from floe.spec.types import Type
from floe.spec.values import to_text
from floe.sql.filters import parse_filter
from floe.sql.values import Call, Name


@dataclass(frozen=True, slots=True)
class ImpliedFilter:
    """A filter that matches every row for which a condition is true, and no others if it is `exact`."""

    filter: Expression
    exact: bool


_NO_FILTER = ImpliedFilter(TRUE, exact=False)

_COMPARISONS = {"=": Op.EQ, "<>": Op.NOT_EQ, "<": Op.LT, "<=": Op.LT_EQ, ">": Op.GT, ">=": Op.GT_EQ}


def conjuncts(condition: Compiled) -> list[Compiled]:
    """The operands of the top-level ANDs of a condition.

    >>> from floe.arrow.values.compiler import Scope
    >>> from floe.spec.schemas.schema import Schema
    >>> len(conjuncts(Scope({"t": Schema(())}).condition("1 = 1 and (2 = 2 and 3 = 3)")))
    3
    """
    if _function(condition) == "and":
        return [conjunct for operand in condition.inputs for conjunct in conjuncts(operand)]
    return [condition]


def implied_filter(condition: Compiled, relation: str) -> ImpliedFilter:
    """The filter on the columns of a relation that a condition implies."""
    name = _function(condition)
    if name in ("and", "or"):
        operands = [implied_filter(operand, relation) for operand in condition.inputs]
        join = and_ if name == "and" else or_
        return ImpliedFilter(
            join(*(operand.filter for operand in operands)), all(operand.exact for operand in operands)
        )
    if name == "not":
        inner = implied_filter(condition.inputs[0], relation)
        return ImpliedFilter(not_(inner.filter), exact=True) if inner.exact else _NO_FILTER
    if condition.is_constant:
        return _constant(condition)
    if name in ("isnull", "isnotnull"):
        column = _plain_column(condition.inputs[0], relation)
        op = Op.IS_NULL if name == "isnull" else Op.NOT_NULL
        return _NO_FILTER if column is None else ImpliedFilter(Predicate(op, column), exact=True)
    if name in _COMPARISONS:
        return _comparison(condition, _COMPARISONS[name], relation)
    if name == "in":
        return _membership(condition, relation)
    if (column := _plain_column(condition, relation)) is not None and condition.type.kind == "boolean":
        return ImpliedFilter(Predicate(Op.EQ, column, (True,)), exact=True)
    return _NO_FILTER


def _function(value: Compiled) -> str | None:
    return value.node.function if isinstance(value.node, Call) else None


def _constant(condition: Compiled) -> ImpliedFilter:
    """The filter of a constant; null is not exact, because neither it nor its negation matches a row."""
    try:
        value = condition.constant()
    except FloeError:
        return _NO_FILTER  # the error is raised only if there are rows
    return ImpliedFilter(TRUE if value else FALSE, exact=value is not None)


_LOSSLESS_CASTS = {
    ("int", "long"), ("int", "decimal"), ("int", "double"), ("long", "decimal"), ("decimal", "decimal"),
    ("float", "double"),
}  # fmt: skip
"""Casts that keep every value, so that comparing the column itself gives the same result."""


def column_reference(value: Compiled, relation: str) -> Reference | None:
    """The column of a value that is a column of the relation, in its own type or a wider one; else None."""
    if len(value.inputs) == 1 and isinstance(value.node, Name):
        (inner,) = value.inputs
        return _plain_column(inner, relation) if (inner.type.kind, value.type.kind) in _LOSSLESS_CASTS else None
    return _plain_column(value, relation)


def _plain_column(value: Compiled, relation: str) -> Reference | None:
    if not isinstance(value.node, Name) or value.inputs or len(value.columns) != 1:
        return None
    ((name, path),) = value.columns
    return Reference(path) if name == relation else None


def _comparison(condition: Compiled, op: Op, relation: str) -> ImpliedFilter:
    left, right = condition.inputs
    if column_reference(left, relation) is None:
        left, right, op = right, left, op.flipped
    column = column_reference(left, relation)
    if column is None or not right.is_constant or left.type.kind not in COMPARABLE_KINDS:
        return _NO_FILTER
    try:
        value = right.constant()
    except FloeError:
        return _NO_FILTER
    if value is None:
        return ImpliedFilter(FALSE, exact=False)
    return ImpliedFilter(Predicate(op, column, (filter_literal(left.type, value),)), exact=True)


def _membership(condition: Compiled, relation: str) -> ImpliedFilter:
    value, *members = condition.inputs
    column = column_reference(value, relation)
    if column is None or not all(member.is_constant for member in members) or value.type.kind not in COMPARABLE_KINDS:
        return _NO_FILTER
    try:
        values = [member.constant() for member in members]
    except FloeError:
        return _NO_FILTER
    literals = tuple(filter_literal(value.type, member) for member in values if member is not None)
    return ImpliedFilter(Predicate(Op.IN, column, literals) if literals else FALSE, exact=len(literals) == len(values))


def filter_literal(type_: Type, value: Any) -> Any:
    """A value of a column as the literal of a filter: datetimes become text, because numbers would not be datetimes.

    >>> from floe.spec.types import DATE
    >>> filter_literal(DATE, 19723)
    '2024-01-01'
    """
    return to_text(type_, value) if type_.kind in ("time", *DATETIMES) else value


# Conditions -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class Condition:
    """The condition of a statement."""

    filter: Expression
    """A filter that matches every row for which the condition is true."""

    row_condition: Compiled | None = None
    """The condition itself, if the filter matches other rows too; None if the filter is equivalent."""


def compile_condition(where: Any, scope: Scope, relation: str) -> Condition:
    """Compile a condition that is text, a filter, or None for all rows.

    Raises `InvalidExpression` for other objects and for text that is not a condition.

    >>> from floe.spec.types import Field, INT
    >>> scope = Scope({"t": Schema((Field(1, "a", INT),))})
    >>> print(compile_condition("a > 5", scope, "t").filter)
    a > 5
    >>> compile_condition("a % 2 = 0 and a > 5", scope, "t").row_condition is None
    False
    """
    schema = scope.relations[relation]
    if where is None:
        return Condition(TRUE)
    if isinstance(where, Expression):
        bind(where, schema, case_sensitive=scope.case_sensitive)
        return Condition(where)
    if not isinstance(where, str):
        raise InvalidExpression(
            f"a condition must be text or a filter, found {type(where).__name__}", hint="write 'true' for all rows"
        )
    plain = _parse_plain_filter(where, schema, scope)
    if plain is not None:
        return Condition(plain)
    return compile_row_condition(where, scope, relation)


def compile_row_condition(text: str, scope: Scope, relation: str) -> Condition:
    """Compile the text of a condition that is not a plain filter; raises `InvalidExpression` if it has no meaning.

    >>> from floe.spec.types import Field, INT
    >>> scope = Scope({"t": Schema((Field(1, "a", INT),))})
    >>> str(compile_row_condition("a % 2 = 0 and a > 5", scope, "t").filter)
    'a > 5'
    """
    compiled = scope.condition(text)
    implied = implied_filter(compiled, relation)
    return Condition(implied.filter, None if implied.exact else compiled)


def _parse_plain_filter(text: str, schema: Schema, scope: Scope) -> Expression | None:
    """The filter of a text; None if it is not a filter on columns of the schema."""
    try:
        parsed = parse_filter(text)
        bind(parsed, schema, case_sensitive=scope.case_sensitive)
    except (InvalidExpression, NoSuchColumn):
        return None
    return parsed
