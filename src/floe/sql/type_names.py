"""The names of types in SQL, as in casts and typed literals."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from difflib import get_close_matches

from floe.errors import InvalidType
from floe.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UUID,
    DecimalType,
    Type,
)

TYPES: dict[str, Type] = {
    **dict.fromkeys(("boolean", "bool"), BOOLEAN),
    **dict.fromkeys(("int", "integer"), INT),
    **dict.fromkeys(("bigint", "long"), LONG),
    **dict.fromkeys(("float", "real"), FLOAT),
    "double": DOUBLE,
    **dict.fromkeys(("string", "text"), STRING),
    "binary": BINARY,
    "date": DATE,
    "time": TIME,
    **dict.fromkeys(("timestamp", "timestamp_ntz"), TIMESTAMP),
    **dict.fromkeys(("timestamptz", "timestamp_ltz"), TIMESTAMPTZ),
    "timestamp_ns": TIMESTAMP_NS,
    "timestamptz_ns": TIMESTAMPTZ_NS,
    "uuid": UUID,
}
"""The types without parameters; `timestamp` has no zone, as in the columns of a table."""

_DECIMALS = ("decimal", "dec", "numeric")
_TEXTS = ("char", "character", "varchar")


def type_of_name(name: str, parameters: Sequence[int] = ()) -> Type:
    """The type of a name and its parameters.

    >>> type_of_name("bigint"), type_of_name("decimal", [9, 2])
    (LONG, DecimalType(precision=9, scale=2))
    >>> type_of_name("bigit")
    Traceback (most recent call last):
    floe.errors.InvalidType: unknown type `bigit`; did you mean bigint?
    """
    if name in _DECIMALS and len(parameters) <= 2:
        precision, scale = (*parameters, *((10, 0)[len(parameters) :]))
        return DecimalType(precision, scale)
    if name in _TEXTS and len(parameters) <= 1:
        return STRING
    type_ = TYPES.get(name)
    if type_ is None:
        near = get_close_matches(name, [*TYPES, *_DECIMALS], n=1, cutoff=0.7)
        raise InvalidType(
            f"unknown type `{name[:40]}`",
            hint=f"did you mean {near[0]}?" if near else f"types are {', '.join([*TYPES, 'decimal(P, S)'])}",
        )
    if parameters:
        raise InvalidType(f"the type {name} takes no parameters")
    return type_


def decimal_for(value: Decimal) -> DecimalType:
    """The smallest decimal type that holds a value with all of its digits.

    >>> print(decimal_for(Decimal("0.05")), decimal_for(Decimal("12.50")))
    decimal(2, 2) decimal(4, 2)
    """
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise InvalidType(f"{value} is not a decimal number")
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > 38:
        raise InvalidType(f"a number of {precision} digits does not fit a decimal, which has at most 38")
    return DecimalType(precision, scale)
