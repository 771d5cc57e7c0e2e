"""Conversion of input to the values of `floe.spec.values`: exact, or an error that says which forms are accepted."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from floe.errors import InvalidValue
from floe.spec.codecs.wkt import wkt_to_wkb
from floe.spec.types import DecimalType, ListType, MapType, StructType, Type
from floe.spec.values.civil_time import (
    MICROS,
    NANOS,
    SECONDS_PER_DAY,
    date_from_text,
    days_from_civil,
    time_from_text,
    timestamp_from_text,
)
from floe.spec.values.exact_numbers import decimal_from_unscaled, float32_of_double, float_of_decimal, unscaled_value
from floe.spec.values.value_checks import check, invalid_value, map_items, walk_list, walk_map, walk_struct

_UNITS = {"timestamp": MICROS, "timestamptz": MICROS, "timestamp_ns": NANOS, "timestamptz_ns": NANOS}
_ZONED = {"timestamptz", "timestamptz_ns"}
_NUMBER_TEXT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_UUID_TEXT = re.compile(r"[0-9a-fA-F]{8}(-?)[0-9a-fA-F]{4}\1[0-9a-fA-F]{4}\1[0-9a-fA-F]{4}\1[0-9a-fA-F]{12}")
_HEX_TEXT = re.compile(r"(?:[0-9a-fA-F]{2})*")


def convert(type_: Type, obj: Any) -> Any:
    """Convert `obj` to the value of a type, exactly, or raise `InvalidValue`; nothing is rounded.

    A float and a decimal are the same number when one prints as the other, so that `0.1` is accepted for decimal(9,2).
    NumPy scalars and arrays and pandas timestamps are accepted.

    >>> from floe.spec.types import DATE, INT
    >>> convert(DATE, date(2017, 11, 16)), convert(DATE, "2017-11-16"), convert(INT, 3.0)
    (17486, 17486, 3)
    >>> convert(INT, 3.5)
    Traceback (most recent call last):
    floe.errors.InvalidValue: 3.5 is not a value of type int: it is not a whole number; an int is written as ...
    """
    if type(obj).__module__ == "numpy" and hasattr(obj, "dtype"):
        obj = _without_numpy(obj)
    if obj is None:
        return None
    value = _CONVERSIONS[type_.kind](type_, obj)
    if not type_.is_nested:  # the children of nested values were checked one by one
        check(type_, value)
    return value


@dataclass(frozen=True, slots=True)
class _Timestamp:
    """A timestamp of `datetime`, pandas or NumPy: ticks from 1970-01-01, `per_second` of them in a second."""

    text: str
    ticks: int
    per_second: int
    zoned: bool = False

    def __repr__(self) -> str:
        return repr(self.text)

    def at(self, unit: int) -> int | None:
        """Return the ticks in another unit, or None where that would lose a fraction."""
        ticks, remainder = divmod(self.ticks * unit, self.per_second)
        return None if remainder else ticks

    def days(self) -> int | None:
        """Return the days from 1970-01-01, or None where this is not midnight."""
        days, remainder = divmod(self.ticks, self.per_second * SECONDS_PER_DAY)
        return None if remainder else days


_NUMPY_TIME = re.compile(r"datetime64\[([0-9]*)(\w+)\]")
_NUMPY_SECONDS = {"W": 7 * SECONDS_PER_DAY, "D": SECONDS_PER_DAY, "h": 3600, "m": 60, "s": 1}
_NUMPY_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}


def _without_numpy(obj: Any) -> Any:
    """Return the Python form of a NumPy scalar or array, without importing NumPy."""
    if obj.dtype.kind == "M" and obj.ndim == 0:
        # .item() would give a bare int for nanoseconds, and lose the unit
        form = _NUMPY_TIME.fullmatch(str(obj.dtype))
        if form is None or obj != obj:  # only NaT can lack a unit
            raise InvalidValue("NaT is not a timestamp", hint="use None for null")
        step, unit = form.groups()
        count = int(obj.astype("int64")) * int(step or 1)
        if unit in ("Y", "M"):
            years, months = (count, 0) if unit == "Y" else divmod(count, 12)
            return _Timestamp(str(obj), days_from_civil(1970 + years, 1 + months, 1) * SECONDS_PER_DAY, 1)
        return _Timestamp(str(obj), count * _NUMPY_SECONDS.get(unit, 1), _NUMPY_PER_SECOND.get(unit, 1))
    return list(obj) if obj.ndim else obj.item()


def _as_timestamp(obj: Any) -> _Timestamp | None:
    if isinstance(obj, _Timestamp):
        return obj
    if isinstance(obj, datetime):
        if obj != obj:  # pandas' NaT calls itself a datetime
            raise InvalidValue("NaT is not a timestamp", hint="use None for null")
        seconds = days_from_civil(obj.year, obj.month, obj.day) * SECONDS_PER_DAY
        seconds += (obj.hour * 60 + obj.minute) * 60 + obj.second
        nanos = seconds * NANOS + obj.microsecond * 1000 + getattr(obj, "nanosecond", 0)
        offset = obj.utcoffset()
        if offset is None:
            return _Timestamp(str(obj), nanos, NANOS)
        micros = (offset.days * SECONDS_PER_DAY + offset.seconds) * MICROS + offset.microseconds
        return _Timestamp(str(obj), nanos - micros * 1000, NANOS, zoned=True)
    if isinstance(obj, date):
        return _Timestamp(str(obj), days_from_civil(obj.year, obj.month, obj.day) * SECONDS_PER_DAY, 1)
    return None


def _is_int(obj: Any) -> bool:
    return isinstance(obj, int) and not isinstance(obj, bool)


def _wrong_class(type_: Type, obj: Any) -> InvalidValue:
    return invalid_value(type_, obj, f"it is a {type(obj).__name__.lstrip('_')}")


def _unchanged(type_: Type, obj: Any) -> Any:
    return obj  # `convert` checks the result of every conversion


def _integer(type_: Type, obj: Any) -> int:
    if _is_int(obj):
        return int(obj)
    if isinstance(obj, float):
        if obj.is_integer():
            return int(obj)
        raise invalid_value(type_, obj, "it is not a whole number")
    if isinstance(obj, Decimal):
        integer = unscaled_value(obj, 0)
        if integer is not None:
            return integer
        raise invalid_value(type_, obj, "it is not a whole number, or too large")
    raise _wrong_class(type_, obj)


def _float(type_: Type, obj: Any) -> float:
    if isinstance(obj, float):
        number: float | None = float(obj)
    elif _is_int(obj):
        number = float_of_decimal(Decimal(obj)) if -(2**1024) < obj < 2**1024 else None
    elif isinstance(obj, Decimal):
        number = float_of_decimal(obj)
    else:
        raise _wrong_class(type_, obj)
    if number is not None and type_.kind == "float":
        number = float32_of_double(number)
    if number is None:
        raise invalid_value(type_, obj, "it would have to be rounded")
    return number


def _decimal(type_: Type, obj: Any) -> Decimal:
    assert isinstance(type_, DecimalType)
    if isinstance(obj, float):
        number = Decimal(repr(float(obj)))  # the shortest text, as the person wrote it
    elif _is_int(obj) or isinstance(obj, Decimal):
        number = Decimal(obj)
    elif isinstance(obj, str):
        if not _NUMBER_TEXT.fullmatch(obj):
            raise invalid_value(type_, obj, "it is not the text of a number")
        number = Decimal(obj)
    else:
        raise _wrong_class(type_, obj)
    if not number.is_finite():
        raise invalid_value(type_, obj, "a decimal is always finite")
    if number and number.adjusted() >= type_.precision - type_.scale:
        raise invalid_value(type_, obj, f"it has more than {type_.precision - type_.scale} digits before the point")
    unscaled = unscaled_value(number, type_.scale)
    if unscaled is None:
        raise invalid_value(type_, obj, f"it has more than {type_.scale} digits after the point")
    return decimal_from_unscaled(unscaled, type_.scale)


def _date(type_: Type, obj: Any) -> int:
    if _is_int(obj):
        return int(obj)
    if isinstance(obj, str):
        return int(_read(type_, obj, date_from_text))
    timestamp = _as_timestamp(obj)
    if timestamp is None:
        raise _wrong_class(type_, obj)
    days = timestamp.days()
    if days is None or timestamp.zoned:
        raise invalid_value(type_, obj, "its date depends on the zone" if timestamp.zoned else "it is not midnight")
    return days


def _time(type_: Type, obj: Any) -> int:
    if _is_int(obj):
        return int(obj)
    if isinstance(obj, str):
        return int(_read(type_, obj, lambda text: time_from_text(text, MICROS)))
    if isinstance(obj, time):
        if obj.tzinfo is not None:
            raise invalid_value(type_, obj, "a time of day has no zone")
        return ((obj.hour * 60 + obj.minute) * 60 + obj.second) * MICROS + obj.microsecond
    raise _wrong_class(type_, obj)


def _timestamp(type_: Type, obj: Any) -> int:
    if _is_int(obj):
        return int(obj)
    unit = _UNITS[type_.kind]
    ticks: int | None
    if isinstance(obj, str):
        ticks, offset = _read(type_, obj, lambda text: timestamp_from_text(text, unit))
        ticks -= (offset or 0) * unit
        zoned = offset is not None
    else:
        timestamp = _as_timestamp(obj)
        if timestamp is None:
            raise _wrong_class(type_, obj)
        ticks, zoned = timestamp.at(unit), timestamp.zoned
    if zoned and type_.kind not in _ZONED:
        raise invalid_value(type_, obj, "it has a zone, and the type has none")
    if not zoned and type_.kind in _ZONED:
        raise invalid_value(type_, obj, "it has no zone, so that the point in time is ambiguous")
    if ticks is None:
        raise invalid_value(type_, obj, f"it is finer than {'micro' if unit == MICROS else 'nano'}seconds")
    return ticks


def _string(type_: Type, obj: Any) -> str:
    if isinstance(obj, str):
        return str.__str__(obj)
    raise _wrong_class(type_, obj)


def _uuid(type_: Type, obj: Any) -> uuid.UUID:
    if isinstance(obj, uuid.UUID):
        return obj
    if isinstance(obj, str):
        if not _UUID_TEXT.fullmatch(obj):
            raise invalid_value(type_, obj, "it is not the text of a UUID")
        return uuid.UUID(obj)
    if isinstance(obj, bytes | bytearray | memoryview):
        data = bytes(obj)
        if len(data) != 16:
            raise invalid_value(type_, obj, f"it has {len(data)} bytes")
        return uuid.UUID(bytes=data)
    raise _wrong_class(type_, obj)


def _bytes(type_: Type, obj: Any) -> bytes:
    if isinstance(obj, bytes | bytearray | memoryview):
        return bytes(obj)
    if isinstance(obj, str):
        if not _HEX_TEXT.fullmatch(obj):
            raise invalid_value(type_, obj, "it is not pairs of hexadecimal digits")
        return bytes.fromhex(obj)
    raise _wrong_class(type_, obj)


def _geo(type_: Type, obj: Any) -> bytes:
    return _read(type_, obj, wkt_to_wkb) if isinstance(obj, str) else _bytes(type_, obj)


def _variant(type_: Type, obj: Any) -> bytes:
    if isinstance(obj, str):
        raise _wrong_class(type_, obj)
    return _bytes(type_, obj)


def _struct(type_: Type, obj: Any) -> dict[str, Any]:
    assert isinstance(type_, StructType)
    if not isinstance(obj, Mapping):
        raise _wrong_class(type_, obj)
    return walk_struct(type_, obj, convert, complete=True)


def _list(type_: Type, obj: Any) -> list[Any]:
    assert isinstance(type_, ListType)
    if not isinstance(obj, list | tuple):
        raise _wrong_class(type_, obj)
    return walk_list(type_, obj, convert)


def _map(type_: Type, obj: Any) -> Any:
    assert isinstance(type_, MapType)
    if not isinstance(obj, Mapping) and not (
        isinstance(obj, list | tuple) and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in obj)
    ):
        raise _wrong_class(type_, obj)
    return walk_map(type_, map_items(obj), convert)


def _read(type_: Type, text: str, reader: Callable[[str], Any]) -> Any:
    try:
        return reader(text)
    except InvalidValue as error:
        raise invalid_value(type_, text, error.message) from None


_CONVERSIONS: dict[str, Callable[[Type, Any], Any]] = {
    "boolean": _unchanged,
    "int": _integer,
    "long": _integer,
    "float": _float,
    "double": _float,
    "decimal": _decimal,
    "date": _date,
    "time": _time,
    **dict.fromkeys(_UNITS, _timestamp),
    "string": _string,
    "uuid": _uuid,
    "fixed": _bytes,
    "binary": _bytes,
    "geometry": _geo,
    "geography": _geo,
    "variant": _variant,
    "struct": _struct,
    "list": _list,
    "map": _map,
    "unknown": _unchanged,
}
