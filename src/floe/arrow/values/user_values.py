"""What users give as a value: text of SQL, a column made by `col`, a filter, or a plain Python value.

Text is SQL, so that `"amount * 2"` can be said; `lit("text")` is text itself.

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
from floe.formats.arrow_arrays import to_values
from floe.formats.arrow_types import type_from_arrow
from floe.spec.expressions.dsl import Column
from floe.spec.expressions.nodes import Expression, Reference
from floe.spec.expressions.printing import to_text
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
from floe.sql.type_names import decimal_for
from floe.sql.values import Literal, Name, Node, parse_value


@dataclass(frozen=True, slots=True)
class Lit:
    """A value that is meant as it is, even if it is text."""

    value: Any


def lit(value: Any) -> Lit:
    """A value that is meant as it is: `lit("amount")` is the text, not the column.

    >>> lit("amount")
    Lit(value='amount')
    """
    return value if isinstance(value, Lit) else Lit(value)


def as_node(given: Any) -> Node:
    """The tree of what a user gave.

    >>> as_node(7).type, as_node(None).type
    (INT, UNKNOWN)
    """
    if isinstance(given, Node):
        return given
    if isinstance(given, Lit):
        return _literal(given.value)
    if isinstance(given, str):
        return parse_value(given)
    if isinstance(given, Column):
        term = given._term
        if not isinstance(term, Reference):
            raise InvalidExpression(f"{given} is a transform, which is no value", hint="name the column itself")
        return Name(-1, tuple(term.name.split(".")) if isinstance(term.name, str) else tuple(term.name))
    if isinstance(given, Expression):
        return parse_value(to_text(given))
    return _literal(given)


def text_of(given: Any) -> str | None:
    """The text that errors point into, if there is one."""
    if isinstance(given, Expression):
        return to_text(given)
    return given if isinstance(given, str) else None


def _literal(value: Any) -> Literal:
    if hasattr(value, "item") and not isinstance(value, pa.Scalar) and getattr(value, "shape", None) == ():
        value = value.item()  # a number of NumPy
    type_ = _type_of(value)
    if type_ is None:
        found = pa.scalar(value) if not isinstance(value, pa.Scalar) else value
        of_arrow = type_from_arrow(found.type)
        array = pa.array([found.as_py()], found.type)
        return Literal(-1, of_arrow, to_values(of_arrow, array)[0])
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
        f"a {type(value).__name__} is no value of a column", hint="give text of SQL, a column, or a plain value"
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
