"""Values as users write them: SQL text, a column of `col`, a filter, or a Python value.

Text is SQL, as in `"amount * 2"`; `lit("text")` is the text itself.

>>> as_node(lit("amount")).value
'amount'
>>> as_node("amount").parts
('amount',)
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from floe.errors import InvalidExpression
from floe.formats.columns.arrays import to_values
from floe.formats.columns.arrow_types import type_from_arrow
from floe.spec.expressions.dsl import Column
from floe.spec.expressions.expression_text import to_text
from floe.spec.expressions.nodes import Expression, Reference
from floe.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    UUID,
    Type,
)
from floe.spec.values import convert
from floe.sql.literals import decimal_for
from floe.sql.values import Literal, Name, Node, parse_value


@dataclass(frozen=True, slots=True)
class Lit:
    """A literal value: text in it is not SQL."""

    value: Any


def lit(value: Any) -> Lit:
    """A literal value: `lit("amount")` is the text, not the column.

    >>> lit("amount")
    Lit(value='amount')
    """
    return value if isinstance(value, Lit) else Lit(value)


def as_node(value: Any) -> Node:
    """The expression tree of a value; raises `InvalidExpression` for an object that is not a value.

    >>> as_node(7).type, as_node(None).type
    (INT, UNKNOWN)
    """
    if isinstance(value, Node):
        return value
    if isinstance(value, Lit):
        return _literal(value.value)
    if isinstance(value, str):
        return parse_value(value)
    if isinstance(value, Column):
        term = value.term
        if not isinstance(term, Reference):
            raise InvalidExpression(f"{value} is a transform, not a value", hint="name the column itself")
        return Name(-1, tuple(term.name.split(".")) if isinstance(term.name, str) else tuple(term.name))
    if isinstance(value, Expression):
        return parse_value(to_text(value))
    return _literal(value)


def expression_text(value: Any) -> str | None:
    """The text of an expression, for error messages that point into it; None if there is none."""
    if isinstance(value, Expression):
        return to_text(value)
    return value if isinstance(value, str) else None


def _literal(value: Any) -> Literal:
    if hasattr(value, "item") and not isinstance(value, pa.Scalar) and getattr(value, "shape", None) == ():
        value = value.item()  # a NumPy scalar
    type_ = _type_of(value)
    if type_ is None:
        scalar = pa.scalar(value) if not isinstance(value, pa.Scalar) else value
        scalar_type = type_from_arrow(scalar.type)
        array = pa.array([scalar.as_py()], scalar.type)
        return Literal(-1, scalar_type, to_values(scalar_type, array)[0])
    return Literal(-1, type_, None if value is None else convert(type_, value))


def _type_of(value: Any) -> Type | None:
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int):
        if -(2**31) <= value < 2**31:
            return INT
        return LONG if -(2**63) <= value < 2**63 else decimal_for(Decimal(value))
    if isinstance(value, Decimal):
        return decimal_for(value)
    if isinstance(value, datetime):
        return TIMESTAMP if value.tzinfo is None else TIMESTAMPTZ
    for kind, type_ in _TYPES.items():
        if isinstance(value, kind):
            return type_
    if isinstance(value, list | tuple | Mapping | pa.Scalar):
        return None
    raise InvalidExpression(
        f"a {type(value).__name__} is not a value of a column", hint="pass SQL text, a column, or a Python value"
    )


_TYPES: dict[type, Type] = {
    type(None): UNKNOWN,
    float: DOUBLE,
    str: STRING,
    bytes: BINARY,
    date: DATE,
    time: TIME,
    uuid.UUID: UUID,
}
