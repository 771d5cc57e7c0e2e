"""Partition values as other Iceberg writers print them in paths (spec gives no rule; this is the reference's text).

Paths are only names, never read back by Iceberg, but one partition written by two engines should lie in one folder. So
the text follows the reference implementation to the letter: a float as Java prints it, bytes in base64, null as
`null`, a year of fewer than four digits padded, and no sign before a year of more than four.

>>> from floe.spec.types import BINARY, DOUBLE, TIME
>>> human_value(DOUBLE, 1e7), human_value(TIME, 81060_000000), human_value(BINARY, b"ice")
('1.0E7', '22:31', 'aWNl')
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from typing import Any

from floe.spec.types import Type
from floe.spec.values.civil_time import MICROS, NANOS, civil_from_days, time_to_text, timestamp_to_text
from floe.spec.values.exact_numbers import nearest_float32

__all__ = ["human_day", "human_hour", "human_month", "human_value", "human_year"]

EPOCH_YEAR = 1970


def human_year(years: int) -> str:
    """The year that lies so many years from 1970.

    >>> human_year(47), human_year(-1971)
    ('2017', '-001')
    """
    return f"{EPOCH_YEAR + years:04}"


def human_month(months: int) -> str:
    """The month that lies so many months from January 1970.

    >>> human_month(574), human_month(-1)
    ('2017-11', '1969-12')
    """
    years, month = divmod(months, 12)
    return f"{human_year(years)}-{month + 1:02}"


def human_day(days: int) -> str:
    """The day that lies so many days from 1970-01-01.

    >>> human_day(17486), human_day(-1)
    ('2017-11-16', '1969-12-31')
    """
    year, month, day = civil_from_days(days)
    return f"{year:04}-{month:02}-{day:02}"


def human_hour(hours: int) -> str:
    """The hour that lies so many hours from the start of 1970.

    >>> human_hour(419686), human_hour(-1)
    ('2017-11-16-22', '1969-12-31-23')
    """
    days, hour = divmod(hours, 24)
    return f"{human_day(days)}-{hour:02}"


def human_value(type_: Type, value: Any) -> str:
    """The text of a value of a type, as it stands in a path before escaping.

    >>> from floe.spec.types import BOOLEAN, TIMESTAMP
    >>> human_value(BOOLEAN, True), human_value(TIMESTAMP, -1), human_value(BOOLEAN, None)
    ('true', '1969-12-31T23:59:59.999999', 'null')
    """
    if value is None:
        return "null"
    return _BY_KIND.get(type_.kind, _plain)(value)


def _plain(value: Any) -> str:
    """The text of a value of an unknown or textual type; the value tells what it is."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double(value)
    return str(value)


def _time(value: int) -> str:
    """Java's LocalTime: seconds only where needed, the fraction in groups of three digits."""
    text = time_to_text(value, MICROS)
    clock, _, fraction = text.partition(".")
    if fraction:
        return f"{clock}.{fraction.ljust(-(-len(fraction) // 3) * 3, '0')}"
    return clock.removesuffix(":00")


def _float(value: float) -> str:
    return _floating(value, lambda text: nearest_float32(float(text)) == value)


def _double(value: float) -> str:
    return _floating(value, lambda text: float(text) == value)


def _floating(value: float, is_exact: Callable[[str], bool]) -> str:
    """Java's Double.toString: the shortest digits (at least two are tried) that give the number back."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    text = next(text for digits in range(1, 17) if is_exact(text := f"{value:.{digits}e}"))
    mantissa, _, exponent_text = text.partition("e")
    exponent = int(exponent_text)
    sign = "-" if value < 0 else ""
    digits = mantissa.lstrip("-").replace(".", "").rstrip("0")
    if -3 <= exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    if 0 <= exponent < 7:
        whole = digits.ljust(exponent + 1, "0")
        return f"{sign}{whole[: exponent + 1]}.{whole[exponent + 1 :] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


_BY_KIND: dict[str, Callable[[Any], str]] = {
    "date": human_day,
    "time": _time,
    "timestamp": lambda value: timestamp_to_text(value, MICROS),
    "timestamptz": lambda value: timestamp_to_text(value, MICROS, utc=True),
    "timestamp_ns": lambda value: timestamp_to_text(value, NANOS),
    "timestamptz_ns": lambda value: timestamp_to_text(value, NANOS, utc=True),
    "float": _float,
    "double": _double,
}
