"""Where a literal of a filter lies among the values of a column's type: on one of them, or between two.

A literal need not be a value of the type that it is compared with: `3.5` is no int, `1.234` no decimal(9,2), and
2**40 is beyond every int. Such comparisons still have one right answer, found from the neighbours of the literal among
the type's values: `a < 3.5` is `a <= 3` where `a` is an int.

Rules, kind by kind:

* int, long: any number, exactly.
* decimal: any number; a float stands for the decimal number that it prints as.
* float, double: any number, taken as the nearest double, as in SQL. A 32-bit column is compared with that double
  exactly, so that `f = 0.1` is never true of it.
* date, timestamps: dates, datetimes and ISO text. A date is its midnight. Text or a datetime without a zone is UTC
  where the column is a point in time; a zone is an error where the column has none. Plain numbers are refused: nobody
  can tell seconds from microseconds.
* year, month, day and hour of a column: their own counts from 1970, or a date, datetime or text such as `2024`,
  `2024-05`, `2024-05-17` and `2024-05-17-10`, which is compared with the start of the year, month, day or hour.
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


class Place(NamedTuple):
    """Where a literal lies among the values of a type: `at` one, or else between the values `below` and `above`.

    Without `below` the literal is less than every value of the type, without `above` it is greater than every one.
    """

    at: Any = None
    below: Any = None
    above: Any = None


def locate(type_: Type, literal: Any) -> Place:
    """Where a literal that is not null lies among the values of a type; `InvalidExpression` if they do not compare.

    >>> from floe.spec.types import DATE, INT
    >>> locate(INT, 3), locate(INT, 3.5)
    (Place(at=3, below=None, above=None), Place(at=None, below=3, above=4))
    >>> locate(INT, 2**40)
    Place(at=None, below=2147483647, above=None)
    >>> locate(DATE, "1970-01-02T12:00:00")
    Place(at=None, below=1, above=2)
    """
    locator = _LOCATORS.get(type_.kind)
    if locator is None:
        raise InvalidExpression(
            f"values of type {type_} cannot be compared", hint="they can only be tested for being null"
        )
    return locator(type_, plain(literal))


def locate_for(term: BoundTerm, literal: Any) -> Place:
    """As `locate`, for a term: what year, month, day and hour give may also be written as text or dates.

    >>> from floe.spec.expressions.nodes import BoundReference
    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.partitioning.transforms import MONTH
    >>> from floe.spec.types import INT, TIMESTAMP, Field
    >>> ts = BoundReference(Schema((Field(1, "ts", TIMESTAMP),)).resolve("ts"))
    >>> locate_for(BoundTransform(MONTH, ts, INT), "1971-02")
    Place(at=13, below=None, above=None)
    """
    if isinstance(term, BoundTransform) and term.transform.is_time:
        return _locate_in_calendar(str(term.transform), plain(literal))
    return locate(term.type, literal)


def plain(literal: Any) -> Any:
    """The literal as a value of plain Python, if it is one of NumPy or pandas.

    >>> plain(3)
    3
    """
    library = type(literal).__module__.partition(".")[0]
    if library == "pyarrow" and hasattr(literal, "as_py"):
        return literal.as_py()
    if library != "numpy" or not hasattr(literal, "dtype") or literal.ndim:
        return literal
    # numpy's item() gives a bare integer for a time of nanoseconds; its text says what it is
    return str(literal) if literal.dtype.kind == "M" else literal.item()


def calendar_count(transform: Transform, literal: Any) -> Any:
    """What a person means by comparing the year, month, day or hour of a column with a literal.

    A number is the year of the calendar, and for the other three an error: in SQL it would be the month of a year, the
    day of a month or the hour of a day, which no partition knows. Everything else stays as it is.

    >>> from floe.spec.partitioning.transforms import MONTH, YEAR
    >>> calendar_count(YEAR, 2024), calendar_count(MONTH, "2024-05")
    (54, '2024-05')
    """
    literal = plain(literal)
    if isinstance(literal, bool) or not isinstance(literal, int | float | Decimal):
        return literal
    unit = str(transform)
    if unit == "year":
        return _years_from_1970(literal)
    raise InvalidExpression(
        f"the {unit} of a column counts from 1970 and cannot be compared with {_show(literal)}",
        hint=f"compare it with a date or text such as {_UNIT_EXAMPLES[unit]!r}",
    )


def _years_from_1970(year: int | float | Decimal) -> int | float | Decimal:
    """A year of the calendar as a count; any number between two counts is as good as another."""
    number = _number(year, INT)
    if _outside(number, *_INT64) is not None:
        return number  # beyond every count, and subtracting could be beyond Python's decimals too
    floor = math.floor(number)
    return floor - 1970 if floor == number else floor - 1969.5


_UNIT_EXAMPLES = {"month": "2024-05", "day": "2024-05-17", "hour": "2024-05-17-10"}


def _refusal(literal: Any, type_: Type, hint: str, why: str = "") -> InvalidExpression:
    found = f"{_show(literal)} ({type(literal).__name__})"
    return InvalidExpression(f"{found} cannot be compared with type {type_}{why}", hint=hint)


def _show(literal: Any) -> str:
    try:
        return reprlib.repr(literal)
    except ValueError:  # an integer of more digits than Python is willing to print
        return "a very large integer"


# Numbers --------------------------------------------------------------------------------------------------------------


def _number(literal: Any, type_: Type) -> int | float | Decimal:
    """The literal as a number; infinity and NaN come as floats."""
    if isinstance(literal, bool) or not isinstance(literal, int | float | Decimal):
        hint = "write the number without quotes" if isinstance(literal, str) else "compare it with a number"
        raise _refusal(literal, type_, hint)
    if isinstance(literal, Decimal) and not literal.is_finite():
        return float("nan" if literal.is_nan() else literal)
    return literal


def _outside(number: int | float | Decimal, lowest: Any, highest: Any) -> Place | None:
    """The place of a number beyond the values of a type; NaN is beyond the highest."""
    if number != number or number > highest:  # in this order: NaN cannot be ordered beside a decimal
        return Place(below=highest)
    return Place(above=lowest) if number < lowest else None


def _locate_whole(type_: Type, literal: Any) -> Place:
    number = _number(literal, type_)
    lowest, highest = _WHOLE_RANGES[type_.kind]
    beyond = _outside(number, lowest, highest)
    if beyond is not None:
        return beyond
    floor = math.floor(number)
    return Place(at=floor) if floor == number else Place(below=floor, above=floor + 1)


_WHOLE_RANGES = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}
_WIDE = Context(prec=80)


def _locate_decimal(type_: Type, literal: Any) -> Place:
    assert isinstance(type_, DecimalType)
    number = _number(literal, type_)
    step = Decimal(1).scaleb(-type_.scale, _WIDE)
    highest = Decimal(10**type_.precision - 1).scaleb(-type_.scale, _WIDE)
    beyond = _outside(number, highest.copy_negate(), highest)
    if beyond is not None:
        return beyond
    exact = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    floor = exact.quantize(step, ROUND_FLOOR, _WIDE)
    if floor == exact:
        return Place(at=floor.copy_abs() if floor.is_zero() else floor)
    above = _WIDE.add(floor, step)
    return Place(below=floor, above=above.copy_abs() if above.is_zero() else above)


_MAX_DOUBLE = struct.unpack("<d", b"\xff\xff\xff\xff\xff\xff\xef\x7f")[0]
_MAX_FLOAT = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


def _locate_double(type_: Type, literal: Any) -> Place:
    number = _number(literal, type_)
    try:
        double = float(number)
    except OverflowError:  # an integer that is far too large
        double = math.inf if number > 0 else -math.inf
    if math.isinf(double) and not isinstance(number, float):
        return _between_infinity_and(_MAX_DOUBLE, double)
    return Place(at=double + 0.0)  # -0.0 is 0.0 to every comparison


def _locate_float(type_: Type, literal: Any) -> Place:
    place = _locate_double(type_, literal)
    if place.at is None:
        return _between_infinity_and(_MAX_FLOAT, math.inf if place.above == math.inf else -math.inf)
    double = place.at
    if math.isnan(double) or math.isinf(double):
        return place
    near = nearest_float32(double)
    if near is None:
        return _between_infinity_and(_MAX_FLOAT, double)
    if near == double:
        return Place(at=near + 0.0)
    if near < double:
        return Place(below=near + 0.0, above=_next_float32(near, up=True))
    return Place(below=_next_float32(near, up=False), above=near + 0.0)


def _between_infinity_and(largest: float, direction: float) -> Place:
    return Place(below=largest, above=math.inf) if direction > 0 else Place(below=-math.inf, above=-largest)


def _next_float32(value: float, *, up: bool) -> float:
    """The neighbour of a finite 32-bit float."""
    if value == 0:
        smallest: float = struct.unpack("<f", b"\x01\x00\x00\x00")[0]
        return smallest if up else -smallest
    bits = struct.unpack("<i", struct.pack("<f", abs(value)))[0] + (1 if up == (value > 0) else -1)
    neighbour: float = struct.unpack("<f", struct.pack("<i", bits))[0]
    return math.copysign(neighbour, value) + 0.0


# Moments --------------------------------------------------------------------------------------------------------------

_NANOS_PER_DAY = SECONDS_PER_DAY * NANOS
_INT32 = _WHOLE_RANGES["int"]
_INT64 = _WHOLE_RANGES["long"]
_NANOS_PER_TICK = {"timestamp": 1000, "timestamptz": 1000, "timestamp_ns": 1, "timestamptz_ns": 1}
_MOMENT_HINT = "write a date or time as text such as '2024-05-17T10:30:00', or as a datetime"
_DATE_HINT = "write a date as text such as '2024-05-17', or as a datetime.date"


def _moment(literal: Any, type_: Type) -> tuple[int, bool]:
    """A date or timestamp as nanoseconds from 1970, in UTC if it has a zone, and whether it has one."""
    hint = _DATE_HINT if type_.kind == "date" else _MOMENT_HINT
    if isinstance(literal, str):
        text = literal.strip()
    elif isinstance(literal, date):  # and so datetime; pandas' own has nanoseconds, which isoformat shows
        text = literal.isoformat()
    else:
        number = isinstance(literal, int | float | Decimal)
        why = ": it does not say whether it counts seconds, microseconds or days" if number else ""
        raise _refusal(literal, type_, hint, why)
    try:
        nanos, offset = timestamp_from_text(text, NANOS)
    except InvalidValue as error:
        raise _refusal(literal, type_, hint, f": {error.message}") from None
    return (nanos, False) if offset is None else (nanos - offset * NANOS, True)


def _on_grid(nanos: int, step: int, lowest: int, highest: int) -> Place:
    """The place of a moment among values that count steps of so many nanoseconds."""
    floor, rest = divmod(nanos, step)
    below, above = (floor, floor) if not rest else (floor, floor + 1)
    if below > highest:
        return Place(below=highest)
    if above < lowest:
        return Place(above=lowest)
    if not rest:
        return Place(at=floor)
    return Place(below=below if below >= lowest else None, above=above if above <= highest else None)


def _locate_date(type_: Type, literal: Any) -> Place:
    return _on_grid(_moment(literal, type_)[0], _NANOS_PER_DAY, *_INT32)


def _locate_timestamp(type_: Type, literal: Any) -> Place:
    nanos, zoned = _moment(literal, type_)
    if zoned and not type_.kind.startswith("timestamptz"):
        raise _refusal(
            literal, type_, "leave the zone out, and write the time as the column's clock shows it",
            ": it has a zone, and the column has none",
        )  # fmt: skip
    return _on_grid(nanos, _NANOS_PER_TICK[type_.kind], *_INT64)


def _locate_time(type_: Type, literal: Any) -> Place:
    hint = "write a time of day as text such as '22:31:08', or as a datetime.time"
    if isinstance(literal, time):
        text = literal.isoformat()
    elif isinstance(literal, str):
        text = literal.strip()
    else:
        raise _refusal(literal, type_, hint)
    try:
        nanos = time_from_text(text, NANOS)
    except InvalidValue as error:
        raise _refusal(literal, type_, hint, f": {error.message}") from None
    return _on_grid(nanos, 1000, 0, SECONDS_PER_DAY * 1_000_000 - 1)


# What year, month, day and hour give ----------------------------------------------------------------------------------

_SHORT_MOMENTS = [
    (re.compile(r"[+-]?[0-9]{4,7}"), "{}-01-01"),
    (re.compile(r"[+-]?[0-9]{4,7}-[0-9]{2}"), "{}-01"),
    (re.compile(r"([+-]?[0-9]{4,7}-[0-9]{2}-[0-9]{2})[-Tt ]([0-9]{2})"), r"{} {}:00"),
]


def _locate_in_calendar(unit: str, literal: Any) -> Place:
    """Where a literal lies among years, months, days or hours counted from 1970."""
    if isinstance(literal, int | float | Decimal) and not isinstance(literal, bool):
        return _locate_whole(INT, literal)
    if isinstance(literal, str):
        for pattern, full in _SHORT_MOMENTS:
            if match := pattern.fullmatch(literal.strip()):
                literal = full.format(*(match.groups() or (match[0],)))
                break
    nanos, _ = _moment(literal, DATE if unit == "day" else INT)
    if unit in ("day", "hour"):
        return _on_grid(nanos, _NANOS_PER_DAY if unit == "day" else 3600 * NANOS, *_INT32)
    days, of_day = divmod(nanos, _NANOS_PER_DAY)
    year, month, day = civil_from_days(days)
    count, started = (year - 1970, month == 1) if unit == "year" else ((year - 1970) * 12 + month - 1, True)
    return Place(at=count) if started and day == 1 and not of_day else Place(below=count, above=count + 1)


# The rest -------------------------------------------------------------------------------------------------------------


def _locate_boolean(type_: Type, literal: Any) -> Place:
    if not isinstance(literal, bool):
        raise _refusal(literal, type_, "compare it with true or false")
    return Place(at=literal)


def _locate_string(type_: Type, literal: Any) -> Place:
    if not isinstance(literal, str):
        raise _refusal(literal, type_, "put the text in quotes")
    if not literal.isascii():
        try:
            literal.encode()
        except UnicodeEncodeError:
            raise _refusal(literal, type_, "such text cannot be stored", ": it holds half a surrogate pair") from None
    return Place(at=str(literal))


def _locate_uuid(type_: Type, literal: Any) -> Place:
    if isinstance(literal, uuid.UUID):
        return Place(at=literal)
    try:
        if isinstance(literal, str):
            return Place(at=uuid.UUID(literal.strip()))
        if isinstance(literal, bytes | bytearray | memoryview):
            return Place(at=uuid.UUID(bytes=bytes(literal)))
    except ValueError:
        pass
    raise _refusal(literal, type_, "write a uuid as text such as 'f79c3e09-677c-4bbd-a479-3f349cb785e7'")


def _locate_bytes(type_: Type, literal: Any) -> Place:
    if not isinstance(literal, bytes | bytearray | memoryview):
        raise _refusal(literal, type_, "write bytes as X'0aff' in text, or as bytes in Python")
    value = bytes(literal)
    if isinstance(type_, FixedType) and len(value) != type_.length:
        raise _refusal(value, type_, f"give exactly {type_.length} bytes", f": it has {len(value)} bytes")
    return Place(at=value)


_LOCATORS: dict[str, Callable[[Type, Any], Place]] = {
    "boolean": _locate_boolean,
    "int": _locate_whole,
    "long": _locate_whole,
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
