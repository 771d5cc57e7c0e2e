"""Converts the literals of filters to the types of columns: to a value of the type, or to the values next to it.

A literal need not be a value of the type that it is compared with: `3.5` is not an int, `1.234` is not a decimal(9,2),
and 2**40 is outside the range of int. Such a comparison still has an exact result, found from the values of the type
next to the literal: `a < 3.5` is `a <= 3` if `a` is an int.

Literals that each type accepts:

* int, long: any number, exactly.
* decimal: any number; a float stands for the decimal number that it prints as.
* float, double: any number, rounded to the nearest double, as in SQL. A 32-bit column is compared with that double
  exactly, so `f = 0.1` is never true for it.
* date, timestamps: dates, datetimes and ISO text. A date is its midnight. Text or a datetime without a time zone is UTC
  for timestamptz; one with a time zone is an error for timestamp. Plain numbers are rejected, because it is not clear
  whether they are seconds or microseconds.
* year, month, day and hour of a column: counts from 1970, or a date, datetime or text such as `2024`, `2024-05`,
  `2024-05-17` and `2024-05-17-10`, which is compared with the start of the year, month, day or hour.
* time: `datetime.time` and ISO text. uuid: `uuid.UUID`, text or 16 bytes. fixed, binary: bytes. string: `str`.
  boolean: `bool`.
"""

from __future__ import annotations

import math
import re
import reprlib
import struct
import uuid
from collections.abc import Callable
from datetime import date, time
from decimal import ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from floe.errors import InvalidExpression, InvalidValue
from floe.spec.expressions.nodes import BoundTerm, BoundTransform
from floe.spec.types import DATE, INT, DecimalType, FixedType, Type
from floe.spec.values.civil_time import NANOS, SECONDS_PER_DAY, civil_from_days, time_from_text, timestamp_from_text
from floe.spec.values.exact_numbers import nearest_float32

if TYPE_CHECKING:
    from floe.spec.partitioning.transforms import Transform


class LiteralPosition(NamedTuple):
    """A literal among the values of a type: equal to the value `at`, or between the values `below` and `above`.

    If both `at` and `below` are None, the literal is less than all values of the type; if both `at` and `above` are
    None, it is greater than all of them.
    """

    at: Any = None
    below: Any = None
    above: Any = None


def locate(type_: Type, literal: Any) -> LiteralPosition:
    """Locate a literal, not null, among the values of a type; `InvalidExpression` if they cannot be compared.

    >>> from floe.spec.types import DATE, INT
    >>> locate(INT, 3), locate(INT, 3.5)
    (LiteralPosition(at=3, below=None, above=None), LiteralPosition(at=None, below=3, above=4))
    >>> locate(INT, 2**40)
    LiteralPosition(at=None, below=2147483647, above=None)
    >>> locate(DATE, "1970-01-02T12:00:00")
    LiteralPosition(at=None, below=1, above=2)
    """
    locator = _LOCATORS.get(type_.kind)
    if locator is None:
        raise InvalidExpression(f"values of type {type_} cannot be compared", hint="they can only be tested for null")
    return locator(type_, to_python_value(literal))


def locate_for(term: BoundTerm, literal: Any) -> LiteralPosition:
    """Locate a literal among the values of a term; for year, month, day and hour it may also be text or a date.

    >>> from floe.spec.expressions.nodes import BoundReference
    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.partitioning.transforms import MONTH
    >>> from floe.spec.types import INT, TIMESTAMP, Field
    >>> ts = BoundReference(Schema((Field(1, "ts", TIMESTAMP),)).resolve("ts"))
    >>> locate_for(BoundTransform(MONTH, ts, INT), "1971-02")
    LiteralPosition(at=13, below=None, above=None)
    """
    if isinstance(term, BoundTransform) and term.transform.is_time:
        return _locate_in_calendar(str(term.transform), to_python_value(literal))
    return locate(term.type, literal)


def to_python_value(literal: Any) -> Any:
    """Convert scalars of NumPy and Arrow to Python values; others are returned unchanged.

    >>> to_python_value(3)
    3
    """
    library = type(literal).__module__.partition(".")[0]
    if library == "pyarrow" and hasattr(literal, "as_py"):
        return literal.as_py()
    if library != "numpy" or not hasattr(literal, "dtype") or literal.ndim:
        return literal
    # item() returns a plain integer for timestamps in nanoseconds, so their text is used
    return str(literal) if literal.dtype.kind == "M" else literal.item()


def calendar_count(transform: Transform, literal: Any) -> Any:
    """Convert a user's literal for the year, month, day or hour of a column.

    A number is a calendar year, and an error for the other three: in SQL it would be the month of a year, the day of a
    month or the hour of a day, while the transforms count from 1970. All other literals are returned unchanged.

    >>> from floe.spec.partitioning.transforms import MONTH, YEAR
    >>> calendar_count(YEAR, 2024), calendar_count(MONTH, "2024-05")
    (54, '2024-05')
    """
    literal = to_python_value(literal)
    if isinstance(literal, bool) or not isinstance(literal, int | float | Decimal):
        return literal
    unit = str(transform)
    if unit == "year":
        return _years_from_1970(literal)
    raise InvalidExpression(
        f"the {unit} of a column counts from 1970 and cannot be compared with {_describe(literal)}",
        hint=f"compare it with a date or text such as {_UNIT_EXAMPLES[unit]!r}",
    )


def _years_from_1970(year: int | float | Decimal) -> int | float | Decimal:
    """A calendar year as a count from 1970; one that is not whole becomes some number between two counts."""
    number = _number(year, INT)
    if _locate_outside(number, *_INT64) is not None:
        return number  # outside the range of counts; subtracting could overflow Python's decimals
    floor = math.floor(number)
    return floor - 1970 if floor == number else floor - 1969.5


_UNIT_EXAMPLES = {"month": "2024-05", "day": "2024-05-17", "hour": "2024-05-17-10"}


def _not_comparable(literal: Any, type_: Type, hint: str, reason: str = "") -> InvalidExpression:
    described = f"{_describe(literal)} ({type(literal).__name__})"
    return InvalidExpression(f"{described} cannot be compared with type {type_}{reason}", hint=hint)


def _describe(literal: Any) -> str:
    try:
        return reprlib.repr(literal)
    except ValueError:  # an integer with more digits than Python prints
        return "a very large integer"


# Numbers --------------------------------------------------------------------------------------------------------------


def _number(literal: Any, type_: Type) -> int | float | Decimal:
    """The literal as a number; infinity and NaN are returned as floats."""
    if isinstance(literal, bool) or not isinstance(literal, int | float | Decimal):
        hint = "write the number without quotes" if isinstance(literal, str) else "compare it with a number"
        raise _not_comparable(literal, type_, hint)
    if isinstance(literal, Decimal) and not literal.is_finite():
        return float("nan" if literal.is_nan() else literal)
    return literal


def _locate_outside(number: int | float | Decimal, lowest: Any, highest: Any) -> LiteralPosition | None:
    """The position of a number outside the range of a type, or None; NaN is above the range."""
    if number != number or number > highest:  # in this order: NaN and decimals cannot be compared
        return LiteralPosition(below=highest)
    return LiteralPosition(above=lowest) if number < lowest else None


def _locate_integer(type_: Type, literal: Any) -> LiteralPosition:
    number = _number(literal, type_)
    lowest, highest = _INTEGER_RANGES[type_.kind]
    outside = _locate_outside(number, lowest, highest)
    if outside is not None:
        return outside
    floor = math.floor(number)
    return LiteralPosition(at=floor) if floor == number else LiteralPosition(below=floor, above=floor + 1)


_INTEGER_RANGES = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}
_WIDE = Context(prec=80)


def _locate_decimal(type_: Type, literal: Any) -> LiteralPosition:
    assert isinstance(type_, DecimalType)
    number = _number(literal, type_)
    step = Decimal(1).scaleb(-type_.scale, _WIDE)
    highest = Decimal(10**type_.precision - 1).scaleb(-type_.scale, _WIDE)
    outside = _locate_outside(number, highest.copy_negate(), highest)
    if outside is not None:
        return outside
    exact = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    floor = exact.quantize(step, ROUND_FLOOR, _WIDE)
    if floor == exact:
        return LiteralPosition(at=floor.copy_abs() if floor.is_zero() else floor)
    above = _WIDE.add(floor, step)
    return LiteralPosition(below=floor, above=above.copy_abs() if above.is_zero() else above)


_MAX_DOUBLE = struct.unpack("<d", b"\xff\xff\xff\xff\xff\xff\xef\x7f")[0]
_MAX_FLOAT = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


def _locate_double(type_: Type, literal: Any) -> LiteralPosition:
    number = _number(literal, type_)
    try:
        double = float(number)
    except OverflowError:  # an integer that is far too large
        double = math.inf if number > 0 else -math.inf
    if math.isinf(double) and not isinstance(number, float):
        return _between_infinity_and(_MAX_DOUBLE, double)
    return LiteralPosition(at=double + 0.0)  # adding 0.0 turns -0.0 into 0.0


def _locate_float(type_: Type, literal: Any) -> LiteralPosition:
    position = _locate_double(type_, literal)
    if position.at is None:
        return _between_infinity_and(_MAX_FLOAT, math.inf if position.above == math.inf else -math.inf)
    double = position.at
    if math.isnan(double) or math.isinf(double):
        return position
    nearest = nearest_float32(double)
    if nearest is None:
        return _between_infinity_and(_MAX_FLOAT, double)
    if nearest == double:
        return LiteralPosition(at=nearest + 0.0)
    if nearest < double:
        return LiteralPosition(below=nearest + 0.0, above=_next_float32(nearest, up=True))
    return LiteralPosition(below=_next_float32(nearest, up=False), above=nearest + 0.0)


def _between_infinity_and(largest: float, direction: float) -> LiteralPosition:
    return (
        LiteralPosition(below=largest, above=math.inf)
        if direction > 0
        else LiteralPosition(below=-math.inf, above=-largest)
    )


def _next_float32(value: float, *, up: bool) -> float:
    """The next 32-bit float above or below a finite one."""
    if value == 0:
        smallest: float = struct.unpack("<f", b"\x01\x00\x00\x00")[0]
        return smallest if up else -smallest
    bits = struct.unpack("<i", struct.pack("<f", abs(value)))[0] + (1 if up == (value > 0) else -1)
    neighbour: float = struct.unpack("<f", struct.pack("<i", bits))[0]
    return math.copysign(neighbour, value) + 0.0


# Dates, times and timestamps -------------------------------------------------------------------------------------

_NANOS_PER_DAY = SECONDS_PER_DAY * NANOS
_INT32 = _INTEGER_RANGES["int"]
_INT64 = _INTEGER_RANGES["long"]
_NANOS_PER_TICK = {"timestamp": 1000, "timestamptz": 1000, "timestamp_ns": 1, "timestamptz_ns": 1}
_TIMESTAMP_HINT = "write a date or time as text such as '2024-05-17T10:30:00', or as a datetime"
_DATE_HINT = "write a date as text such as '2024-05-17', or as a datetime.date"


def _parse_timestamp(literal: Any, type_: Type) -> tuple[int, bool]:
    """A date or timestamp as nanoseconds from 1970, in UTC if it has a time zone, and whether it has one."""
    hint = _DATE_HINT if type_.kind == "date" else _TIMESTAMP_HINT
    if isinstance(literal, str):
        text = literal.strip()
    elif isinstance(literal, date):  # includes datetime and pandas.Timestamp, whose isoformat has nanoseconds
        text = literal.isoformat()
    else:
        is_number = isinstance(literal, int | float | Decimal)
        reason = ": it is not clear whether it counts seconds, microseconds or days" if is_number else ""
        raise _not_comparable(literal, type_, hint, reason)
    try:
        nanos, offset = timestamp_from_text(text, NANOS)
    except InvalidValue as error:
        raise _not_comparable(literal, type_, hint, f": {error.message}") from None
    return (nanos, False) if offset is None else (nanos - offset * NANOS, True)


def _locate_on_grid(nanos: int, step: int, lowest: int, highest: int) -> LiteralPosition:
    """The position of a timestamp among values that count steps of a number of nanoseconds."""
    floor, remainder = divmod(nanos, step)
    below, above = (floor, floor) if not remainder else (floor, floor + 1)
    if below > highest:
        return LiteralPosition(below=highest)
    if above < lowest:
        return LiteralPosition(above=lowest)
    if not remainder:
        return LiteralPosition(at=floor)
    return LiteralPosition(below=below if below >= lowest else None, above=above if above <= highest else None)


def _locate_date(type_: Type, literal: Any) -> LiteralPosition:
    return _locate_on_grid(_parse_timestamp(literal, type_)[0], _NANOS_PER_DAY, *_INT32)


def _locate_timestamp(type_: Type, literal: Any) -> LiteralPosition:
    nanos, zoned = _parse_timestamp(literal, type_)
    if zoned and not type_.kind.startswith("timestamptz"):
        raise _not_comparable(
            literal, type_, "write the local time of the column, without a time zone",
            ": it has a time zone, and the column has none",
        )  # fmt: skip
    return _locate_on_grid(nanos, _NANOS_PER_TICK[type_.kind], *_INT64)


def _locate_time(type_: Type, literal: Any) -> LiteralPosition:
    hint = "write a time of day as text such as '22:31:08', or as a datetime.time"
    if isinstance(literal, time):
        text = literal.isoformat()
    elif isinstance(literal, str):
        text = literal.strip()
    else:
        raise _not_comparable(literal, type_, hint)
    try:
        nanos = time_from_text(text, NANOS)
    except InvalidValue as error:
        raise _not_comparable(literal, type_, hint, f": {error.message}") from None
    return _locate_on_grid(nanos, 1000, 0, SECONDS_PER_DAY * 1_000_000 - 1)


# Results of year, month, day and hour ----------------------------------------------------------------------------

_SHORT_TIMESTAMPS = [
    (re.compile(r"[+-]?[0-9]{4,7}"), "{}-01-01"),
    (re.compile(r"[+-]?[0-9]{4,7}-[0-9]{2}"), "{}-01"),
    (re.compile(r"([+-]?[0-9]{4,7}-[0-9]{2}-[0-9]{2})[-Tt ]([0-9]{2})"), r"{} {}:00"),
]


def _locate_in_calendar(unit: str, literal: Any) -> LiteralPosition:
    """Locate a literal among years, months, days or hours counted from 1970."""
    if isinstance(literal, int | float | Decimal) and not isinstance(literal, bool):
        return _locate_integer(INT, literal)
    if isinstance(literal, str):
        for pattern, template in _SHORT_TIMESTAMPS:
            if match := pattern.fullmatch(literal.strip()):
                literal = template.format(*(match.groups() or (match[0],)))
                break
    nanos, _ = _parse_timestamp(literal, DATE if unit == "day" else INT)
    if unit in ("day", "hour"):
        return _locate_on_grid(nanos, _NANOS_PER_DAY if unit == "day" else 3600 * NANOS, *_INT32)
    days, nanos_of_day = divmod(nanos, _NANOS_PER_DAY)
    year, month, day = civil_from_days(days)
    count, is_first_month = (year - 1970, month == 1) if unit == "year" else ((year - 1970) * 12 + month - 1, True)
    return (
        LiteralPosition(at=count)
        if is_first_month and day == 1 and not nanos_of_day
        else LiteralPosition(below=count, above=count + 1)
    )


# Other types -----------------------------------------------------------------------------------------------------


def _locate_boolean(type_: Type, literal: Any) -> LiteralPosition:
    if not isinstance(literal, bool):
        raise _not_comparable(literal, type_, "compare it with true or false")
    return LiteralPosition(at=literal)


def _locate_string(type_: Type, literal: Any) -> LiteralPosition:
    if not isinstance(literal, str):
        raise _not_comparable(literal, type_, "put the text in quotes")
    if not literal.isascii():
        try:
            literal.encode()
        except UnicodeEncodeError:
            raise _not_comparable(
                literal, type_, "such text cannot be stored", ": it holds half a surrogate pair"
            ) from None
    return LiteralPosition(at=str(literal))


def _locate_uuid(type_: Type, literal: Any) -> LiteralPosition:
    if isinstance(literal, uuid.UUID):
        return LiteralPosition(at=literal)
    try:
        if isinstance(literal, str):
            return LiteralPosition(at=uuid.UUID(literal.strip()))
        if isinstance(literal, bytes | bytearray | memoryview):
            return LiteralPosition(at=uuid.UUID(bytes=bytes(literal)))
    except ValueError:
        pass
    raise _not_comparable(literal, type_, "write a uuid as text such as 'f79c3e09-677c-4bbd-a479-3f349cb785e7'")


def _locate_bytes(type_: Type, literal: Any) -> LiteralPosition:
    if not isinstance(literal, bytes | bytearray | memoryview):
        raise _not_comparable(literal, type_, "write bytes as X'0aff' in text, or as bytes in Python")
    value = bytes(literal)
    if isinstance(type_, FixedType) and len(value) != type_.length:
        raise _not_comparable(value, type_, f"give exactly {type_.length} bytes", f": it has {len(value)} bytes")
    return LiteralPosition(at=value)


_LOCATORS: dict[str, Callable[[Type, Any], LiteralPosition]] = {
    "boolean": _locate_boolean,
    "int": _locate_integer,
    "long": _locate_integer,
    "float": _locate_float,
    "double": _locate_double,
    "decimal": _locate_decimal,
    "date": _locate_date,
    "time": _locate_time,
    "timestamp": _locate_timestamp,
    "timestamptz": _locate_timestamp,
    "timestamp_ns": _locate_timestamp,
    "timestamptz_ns": _locate_timestamp,
    "string": _locate_string,
    "uuid": _locate_uuid,
    "fixed": _locate_bytes,
    "binary": _locate_bytes,
}

COMPARABLE_KINDS = frozenset(_LOCATORS)
"""The kinds of type whose values can be compared with a literal."""
