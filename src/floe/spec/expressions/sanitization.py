"""Filters as text without their values, for logs and reports: `a > (2-digit-int)`.

The words are those of Java's reports, so that both can be read alike: numbers by their count of digits, text and other
values by a hash, moments by their kind or, where the present is given, by how far from it they lie. Long lists are cut.

>>> from floe.spec.expressions.dsl import col
>>> print(sanitised((col("id") > 42) & (col("name") == "Ann")))
id > (2-digit-int) AND name = (hash-60d87074)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from typing import Any

from floe.errors import InvalidValue
from floe.spec.expressions.nodes import Expression
from floe.spec.expressions.printing import render
from floe.spec.partitioning.murmur3 import hash_bytes
from floe.spec.types import Type
from floe.spec.values.civil_time import NANOS, SECONDS_PER_DAY, timestamp_from_text

LONGEST_LIST = 10
"""How many different words of a list are shown."""


def sanitised(expr: Expression, *, now: datetime | None = None) -> str:
    """The filter as text that gives none of its values away.

    >>> from floe.spec.expressions.dsl import col
    >>> sanitised(col("day") == date(2024, 5, 17), now=datetime(2024, 5, 20))
    'day = (date-3-days-ago)'
    """
    show = partial(_show_all, now=None if now is None else _nanos(now))
    return render(expr, show, show)


def _show_all(literals: tuple[Any, ...], type_: Type | None, now: int | None) -> str:
    words = [_show(literal, type_, now) for literal in literals]
    distinct = list(dict.fromkeys(words))[:LONGEST_LIST]
    if len(words) < LONGEST_LIST or len(distinct) == len(words):
        return ", ".join(words)
    return ", ".join(distinct) + f", ... ({len(words) - len(distinct)} values hidden, {len(words)} in total)"


def _show(literal: Any, type_: Type | None, now: int | None) -> str:
    if type_ is not None and type_.kind in _NANOS_PER_TICK:
        show = _date if type_.kind == "date" else _timestamp
        return show(literal * _NANOS_PER_TICK[type_.kind], now)
    if type_ is not None and type_.kind == "time":
        return "(time)"
    return next(show(literal, now) for cls, show in _BY_CLASS if isinstance(literal, cls))


_NANOS_PER_DAY = SECONDS_PER_DAY * NANOS
_NANOS_PER_HOUR = 3600 * NANOS
_NANOS_PER_TICK = {
    "date": _NANOS_PER_DAY,
    "timestamp": 1000,
    "timestamptz": 1000,
    "timestamp_ns": 1,
    "timestamptz_ns": 1,
}


def _nanos(moment: date) -> int:
    """A date or datetime as nanoseconds from 1970, in UTC if it has a zone."""
    ticks, offset = timestamp_from_text(moment.isoformat(), NANOS)
    return ticks - (offset or 0) * NANOS


def _date(nanos: int, now: int | None) -> str:
    if now is None:
        return "(date)"
    days = now // _NANOS_PER_DAY - nanos // _NANOS_PER_DAY
    if days == 0:
        return "(date-today)"
    return f"(date-{abs(days)}-days-{_direction(days)})" if abs(days) < 90 else "(date)"


def _timestamp(nanos: int, now: int | None) -> str:
    if now is None:
        return "(timestamp)"
    distance = now - nanos
    if abs(distance) < 300 * NANOS:
        return "(timestamp-about-now)"
    hours = abs(distance) // _NANOS_PER_HOUR
    if hours <= 3 * 24:
        return f"(timestamp-{hours}-hours-{_direction(distance)})"
    return f"(timestamp-{hours // 24}-days-{_direction(distance)})" if hours < 90 * 24 else "(timestamp)"


def _direction(distance: int) -> str:
    return "ago" if distance > 0 else "from-now"


_DATE_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?([-+]\d{2}:\d{2}|Z)?")
_TIME_TEXT = re.compile(r"\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?")


def _text(text: str, now: int | None) -> str:
    """Text that reads as a moment is one in a filter that is not bound."""
    if _TIME_TEXT.fullmatch(text):
        return "(time)"
    is_date = _DATE_TEXT.fullmatch(text) is not None
    if is_date or _TIMESTAMP_TEXT.fullmatch(text):
        try:
            ticks, offset = timestamp_from_text(text, NANOS)
        except InvalidValue:
            return _hash(text)
        return (_date if is_date else _timestamp)(ticks - (offset or 0) * NANOS, now)
    return _hash(text)


def _hash(value: Any, _: int | None = None) -> str:
    data = value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")
    # the hash of Java's reports: the bucket of 2**31 - 1 that the value falls in
    return f"(hash-{(hash_bytes(data) & 0x7FFFFFFF) % 0x7FFFFFFF:08x})"


def _digits(value: float | Decimal, word: str) -> str:
    if not (value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)):
        return f"({word})"
    if isinstance(value, Decimal):
        return f"({max(value.adjusted(), -1) + 1 if value else 1}-digit-{word})"
    return f"({int(math.log10(abs(value))) + 1 if value else 1}-digit-{word})"


_BY_CLASS: list[tuple[type, Callable[[Any, int | None], str]]] = [
    (type(None), lambda value, now: "NULL"),
    (bool, lambda value, now: "(boolean)"),
    (int, lambda value, now: _digits(Decimal(value), "int")),
    (float, lambda value, now: _digits(value, "float")),
    (Decimal, lambda value, now: _digits(value, "decimal")),
    (str, _text),
    (datetime, lambda value, now: _timestamp(_nanos(value), now)),  # before date, of which it is one
    (date, lambda value, now: _date(_nanos(value), now)),
    (time, lambda value, now: "(time)"),
    (object, _hash),
]
