"""Names of types and literals in SQL text, as in casts: types of Iceberg, and values of Python.

Numbers are read without rounding; dates, times and timestamps as counts since 1970-01-01; patterns of LIKE as prefixes.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from floe.errors import InvalidExpression, InvalidInput, InvalidType
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
from floe.spec.values import convert
from floe.spec.values.civil_time import NANOS, SECONDS_PER_DAY, time_from_text, timestamp_from_text
from floe.spec.values.exact_numbers import nearest_float32

# Names of types -------------------------------------------------------------------------------------------------------


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


# Literals -------------------------------------------------------------------------------------------------------------


MAX_DIGITS = 1000
"""The greatest length of a number; the time to parse one grows with the square of its length."""

_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?(bd|[lsydf])?", re.IGNORECASE)


def number_from_text(text: str) -> int | float | Decimal:
    """The value of a number in Spark's SQL: an int, a decimal, or a double (with an exponent or `D`).

    >>> number_from_text("12"), number_from_text("1.50"), number_from_text("1e3"), number_from_text("0.5BD")
    (12, Decimal('1.50'), 1000.0, Decimal('0.5'))
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise InvalidExpression(f"{text[:40]!r} is not a number")
    if len(text) > MAX_DIGITS:
        raise InvalidExpression(f"the number has more than {MAX_DIGITS} digits")
    digits, exponent, suffix = match[1], match[2] or "", (match[3] or "").lower()
    if suffix == "bd":
        return Decimal(digits + exponent)
    if suffix == "f":
        near = nearest_float32(float(digits + exponent))
        if near is None:
            raise InvalidExpression(f"{text[:40]} is too large for a 32-bit float")
        return near
    if suffix == "d" or (exponent and not suffix):
        return float(digits + exponent)
    if suffix and (exponent or "." in digits):
        raise InvalidExpression(f"{text[:40]!r} is not a whole number", hint="leave its suffix out")
    return Decimal(digits) if "." in digits else int(digits)


def like_pattern(pattern: str, escape: str = "\\") -> tuple[str, bool]:
    """The text of a LIKE pattern, and whether it is a prefix (`abc%`); other patterns raise.

    >>> like_pattern("abc%"), like_pattern("abc"), like_pattern("100!%%", "!")
    (('abc', True), ('abc', False), ('100%', True))
    """
    out: list[str] = []
    characters = iter(pattern)
    wildcards = 0
    for character in characters:
        if character == escape:
            character = next(characters, "")
            if character not in (escape, "%", "_") or not character:
                raise InvalidExpression(
                    f"the escape character {escape} may only stand before %, _ or itself",
                    hint=f"write {escape}{escape} for the character itself" + _DOUBLED * (escape == "\\"),
                )
        elif character == "%":
            wildcards += 1
            continue
        elif character == "_":
            raise _not_a_prefix(pattern)
        if wildcards:
            raise _not_a_prefix(pattern)
        out.append(character)
    return "".join(out), wildcards > 0


_DOUBLED = " (in quotes, where a backslash is an escape too, that is four backslashes)"


def _not_a_prefix(pattern: str) -> InvalidExpression:
    return InvalidExpression(
        f"the pattern {pattern[:40]!r} is more than a prefix",
        hint="a pattern may have % at its end only; escape % and _ that stand for themselves",
    )


# Casts ----------------------------------------------------------------------------------------------------------------


def cast_literal(literal: Any, type_name: str, parameters: tuple[int, ...] = ()) -> Any:
    """Cast a literal to a type, by its SQL name, without rounding; raises if that is not possible.

    >>> cast_literal("2024-05-17", "date"), cast_literal("1.5", "double"), cast_literal(7, "decimal", (9, 2))
    (datetime.date(2024, 5, 17), 1.5, Decimal('7.00'))
    """
    cast = CASTS.get(type_name)
    if cast is None:
        raise InvalidExpression(f"unknown type {type_name[:40]!r}", hint="types are " + ", ".join(CASTS))
    if parameters and type_name not in ("decimal", "dec", "numeric"):
        raise InvalidExpression(f"the type {type_name} takes no parameters")
    if literal is None:
        return None
    try:
        if parameters:
            type_ = DecimalType(*(*parameters, 0)[:2])
            return convert(type_, literal.strip() if isinstance(literal, str) else literal)
        return cast(literal)
    except InvalidInput as error:
        raise InvalidExpression(error.message, hint=error.hint) from None
    except (LookupError, TypeError, ValueError, ArithmeticError):
        raise InvalidExpression(f"{str(literal)[:80]!r} cannot be cast to {type_name}") from None


def parse_timestamp(text: str, *, date_only: bool = False) -> Any:
    """Parse a date or timestamp; returns a `date` or `datetime`, or the text itself if those cannot represent it.

    They have neither nanoseconds nor years after 9999.

    >>> parse_timestamp("2024-05-17 10:30:00+02:00")
    datetime.datetime(2024, 5, 17, 8, 30, tzinfo=datetime.timezone.utc)
    >>> parse_timestamp("+12024-05-17", date_only=True)
    '+12024-05-17'
    """
    text = text.strip()
    nanos, offset = timestamp_from_text(text, NANOS)
    if offset is not None:
        nanos -= offset * NANOS
    if date_only and (nanos % (SECONDS_PER_DAY * NANOS) or offset is not None):
        raise InvalidExpression(f"{text[:80]!r} is more than a date", hint="write it as a timestamp")
    if nanos % 1000:
        return text
    try:
        epoch = datetime(1970, 1, 1, tzinfo=UTC if offset is not None else None)
        timestamp = epoch + timedelta(microseconds=nanos // 1000)
    except OverflowError:
        return text
    return timestamp.date() if date_only else timestamp


def _as_date(literal: Any) -> Any:
    if isinstance(literal, datetime):
        return literal.date()
    return literal if isinstance(literal, date) else parse_timestamp(_text(literal), date_only=True)


def _as_timestamp(literal: Any) -> Any:
    if isinstance(literal, date) and not isinstance(literal, datetime):
        return datetime(literal.year, literal.month, literal.day)
    return literal if isinstance(literal, datetime) else parse_timestamp(_text(literal))


def _as_time(literal: Any) -> Any:
    text = _text(literal).strip()
    micros, nanos = divmod(time_from_text(text, NANOS), 1000)
    return text if nanos else (datetime.min + timedelta(microseconds=micros)).time()


def _as_integer(literal: Any) -> int:
    if isinstance(literal, str):
        text = literal.strip()
        number = _as_integer(number_from_text(text.removeprefix("-").removeprefix("+")))
        return -number if text.startswith("-") else number
    if isinstance(literal, Decimal) and literal.adjusted() > MAX_DIGITS:  # converting its digits would take too long
        raise ValueError("too large a number")
    if isinstance(literal, bool) or int(literal) != literal:
        raise ValueError("not a whole number")
    return int(literal)


def _as_float(literal: Any) -> float:
    return float(literal)


def _as_float32(literal: Any) -> float:
    near = nearest_float32(float(literal))
    if near is None:
        raise ValueError("too large for a 32-bit float")
    return near


def _as_text(literal: Any) -> str:
    if isinstance(literal, bool) or not isinstance(literal, str | int):
        raise TypeError("not text")
    return str(literal)


def _as_boolean(literal: Any) -> bool:
    if isinstance(literal, bool):
        return literal
    return {"true": True, "false": False}[_text(literal).strip().lower()]


def _as_bytes(literal: Any) -> bytes:
    return literal if isinstance(literal, bytes) else _text(literal).encode()


def _as_uuid(literal: Any) -> uuid.UUID:
    return uuid.UUID(_text(literal).strip())


def _as_decimal(literal: Any) -> Decimal:
    if isinstance(literal, bool):
        raise TypeError("not a number")
    return Decimal(repr(literal)) if isinstance(literal, float) else Decimal(literal)


def _text(literal: Any) -> str:
    if not isinstance(literal, str):
        raise TypeError("not text")
    return literal


CASTS: dict[str, Callable[[Any], Any]] = (
    {
        "date": _as_date,
        "timestamp": _as_timestamp,
        "timestamp_ntz": _as_timestamp,
        "timestamp_ltz": _as_timestamp,
        "time": _as_time,
        "string": _as_text,
        "boolean": _as_boolean,
        "binary": _as_bytes,
        "uuid": _as_uuid,
        "double": _as_float,
        "float": _as_float32,
        "real": _as_float32,
    }
    | dict.fromkeys(["tinyint", "smallint", "int", "integer", "bigint", "long"], _as_integer)
    | dict.fromkeys(["decimal", "dec", "numeric"], _as_decimal)
)
"""The casts of literals, by the SQL names of types."""
