"""Single values as JSON: the defaults of fields, and the literals of filters (spec: Appendix D, JSON).

The output is that of Java, so that metadata does not change when it is read and written again: fractions of seconds
without trailing zeros, hexadecimal in upper case, `"NaN"` and `"Infinity"` as strings. The input is checked, and every
problem is an `InvalidValue`.

>>> from floe.spec.types import DATE, parse_type
>>> to_json(DATE, 17486), from_json(DATE, "2017-11-16")
('2017-11-16', 17486)
>>> from_json(parse_type("decimal(9,2)"), "14.2")
Traceback (most recent call last):
floe.errors.InvalidValue: '14.2' is not the JSON of type decimal(9, 2): its scale is 1; it must be ...
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from floe.errors import InvalidValue
from floe.spec.codecs.wkt import wkb_to_wkt, wkt_to_wkb
from floe.spec.types import DecimalType, ListType, MapType, StructType, Type
from floe.spec.values.civil_time import (
    MICROS,
    NANOS,
    date_from_text,
    date_to_text,
    time_from_text,
    time_to_text,
    timestamp_from_text,
    timestamp_to_text,
)
from floe.spec.values.exact_numbers import nearest_float32, shortest_float32
from floe.spec.values.value_checks import check, find_problem, map_items, short_repr, walk_list, walk_map, walk_struct


def to_json(type_: Type, value: Any) -> Any:
    """Return a value as JSON (as Python values); null stays null.

    Fields of a struct that are missing or null are omitted.

    >>> from floe.spec.types import Field, INT, STRING
    >>> to_json(StructType((Field(1, "a", INT), Field(2, "b", STRING))), {"a": 1, "b": "bar"})
    {'1': 1, '2': 'bar'}
    """
    if value is None:
        return None
    check(type_, value)
    return _write(type_, value)


def from_json(type_: Type, json: Any) -> Any:
    """Parse a value from JSON (as Python values); null stays null. Unknown keys of a struct are ignored.

    >>> from floe.spec.types import INT, STRING
    >>> from_json(MapType(1, STRING, 2, INT), {"keys": ["a", "b"], "values": [1, 2]})
    {'a': 1, 'b': 2}
    """
    if json is None:
        return None
    return _READERS[type_.kind](type_, json)


_FORMS = {
    "boolean": "true or false",
    "int": "a number without a fraction, of 32 bits",
    "long": "a number without a fraction, of 64 bits",
    "float": "a number",
    "double": "a number",
    "decimal": "a string with as many digits behind the point as the scale says, such as '14.20'",
    "date": "a string such as '2017-11-16'",
    "time": "a string such as '22:31:08.123456'",
    "timestamp": "a string such as '2017-11-16T22:31:08.123456', without an offset",
    "timestamptz": "a string such as '2017-11-16T22:31:08.123456+00:00', with just this offset",
    "timestamp_ns": "a string such as '2017-11-16T22:31:08.123456789', without an offset",
    "timestamptz_ns": "a string such as '2017-11-16T22:31:08.123456789+00:00', with just this offset",
    "string": "a string",
    "uuid": "a string such as 'f79c3e09-677c-4bbd-a479-3f349cb785e7'",
    "fixed": "a string of two hexadecimal digits for each byte",
    "binary": "a string of two hexadecimal digits for each byte",
    "struct": "an object with field ids as keys",
    "list": "an array",
    "map": "an object of two arrays of one length, `keys` and `values`",
    "geometry": "a string of well-known text such as 'POINT (30 10)'",
    "geography": "a string of well-known text such as 'POINT (30 10)'",
    "variant": "null",  # spec, Default values: variant and unknown have no JSON form
    "unknown": "null",
}


def _invalid(type_: Type, json: Any, reason: str = "") -> InvalidValue:
    message = f"{short_repr(json)} is not the JSON of type {type_.kind if type_.is_nested else type_}"
    return InvalidValue(f"{message}: {reason}" if reason else message, hint=f"it must be {_FORMS[type_.kind]}")


# Writing ---------------------------------------------------------------------------------------------------------


def _write(type_: Type, value: Any) -> Any:
    return None if value is None else _WRITERS[type_.kind](type_, value)


def _write_float(type_: Type, value: float) -> Any:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return shortest_float32(value) if type_.kind == "float" else value


def _write_struct(type_: Type, value: dict[str, Any]) -> dict[str, Any]:
    children = ((child, value.get(child.name)) for child in type_.fields)
    return {str(child.id): _write(child.type, item) for child, item in children if item is not None}


def _write_list(type_: Type, value: list[Any]) -> list[Any]:
    assert isinstance(type_, ListType)
    return [_write(type_.element, item) for item in value]


def _write_map(type_: Type, value: Any) -> dict[str, list[Any]]:
    assert isinstance(type_, MapType)
    pairs = list(map_items(value))
    return {
        "keys": [_write(type_.key, key) for key, _ in pairs],
        "values": [_write(type_.value, item) for _, item in pairs],
    }


def _reject_write(type_: Type, value: Any) -> Any:
    raise InvalidValue(f"values of type {type_} have no JSON form (spec: Appendix D)")


_WRITERS: dict[str, Callable[[Type, Any], Any]] = {
    "boolean": lambda _, value: value,
    "int": lambda _, value: value,
    "long": lambda _, value: value,
    "float": _write_float,
    "double": _write_float,
    "decimal": lambda _, value: f"{value:f}",
    "date": lambda _, value: date_to_text(value),
    "time": lambda _, value: time_to_text(value, MICROS),
    "timestamp": lambda _, value: timestamp_to_text(value, MICROS),
    "timestamptz": lambda _, value: timestamp_to_text(value, MICROS, utc=True),
    "timestamp_ns": lambda _, value: timestamp_to_text(value, NANOS),
    "timestamptz_ns": lambda _, value: timestamp_to_text(value, NANOS, utc=True),
    "string": lambda _, value: value,
    "uuid": lambda _, value: str(value),
    "fixed": lambda _, value: value.hex().upper(),
    "binary": lambda _, value: value.hex().upper(),
    "geometry": lambda _, value: wkb_to_wkt(value),
    "geography": lambda _, value: wkb_to_wkt(value),
    "struct": _write_struct,
    "list": _write_list,
    "map": _write_map,
    "variant": _reject_write,
    "unknown": _reject_write,
}


# Reading ---------------------------------------------------------------------------------------------------------

_UNITS = {"timestamp": MICROS, "timestamptz": MICROS, "timestamp_ns": NANOS, "timestamptz_ns": NANOS}
_ZONED = {"timestamptz", "timestamptz_ns"}
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _checked_value(type_: Type, json: Any, value: Any) -> Any:
    """Return a value after checking that it is in the range of the type."""
    problem = find_problem(type_, value)
    if problem is not None:
        raise _invalid(type_, json, problem)
    return value


def _parse(type_: Type, json: Any, parse: Callable[[str], Any]) -> Any:
    """Parse a JSON string with a function, and check the value."""
    if not isinstance(json, str):
        raise _invalid(type_, json)
    try:
        value = parse(json)
    except InvalidValue as error:
        raise _invalid(type_, json, error.message) from None
    return _checked_value(type_, json, value)


def _match(type_: Type, json: Any, pattern: re.Pattern[str]) -> str:
    if not isinstance(json, str) or not pattern.fullmatch(json):
        raise _invalid(type_, json)
    return json


def _read_boolean(type_: Type, json: Any) -> bool:
    if not isinstance(json, bool):
        raise _invalid(type_, json)
    return json


def _read_integer(type_: Type, json: Any) -> int:
    if type(json) is not int:
        raise _invalid(type_, json)
    value: int = _checked_value(type_, json, json)
    return value


def _read_float(type_: Type, json: Any) -> float:
    if isinstance(json, str) and json in _NOT_FINITE:
        return _NOT_FINITE[json]
    if type(json) not in (int, float):
        raise _invalid(type_, json)
    try:
        value: float | None = float(json)
    except OverflowError:
        value = None
    if value is not None and type_.kind == "float":
        value = nearest_float32(value)  # JSON has the shortest digits that identify the float
    if value is None:
        raise _invalid(type_, json, "it is out of range")
    return value


def _read_decimal(type_: Type, json: Any) -> Decimal:
    assert isinstance(type_, DecimalType)
    value = Decimal(_match(type_, json, _DECIMAL))
    exponent = value.as_tuple().exponent
    if exponent != -type_.scale:
        raise _invalid(type_, json, f"its scale is {-int(exponent)}")
    return _checked_value(type_, json, value) or abs(value)  # decimals have no negative zero


def _read_timestamp(type_: Type, json: Any) -> int:
    def parse(text: str) -> int:
        if " " in text or ":" not in text:
            raise InvalidValue("it needs a date and a time with a T between them")
        ticks, offset = timestamp_from_text(text, _UNITS[type_.kind])
        if type_.kind not in _ZONED and offset is not None:
            raise InvalidValue("it has an offset")
        if type_.kind in _ZONED and offset != 0:
            raise InvalidValue("its offset is not +00:00" if offset else "it has no offset")
        return ticks

    value: int = _parse(type_, json, parse)
    return value


def _read_bytes(type_: Type, json: Any) -> bytes:
    value: bytes = _checked_value(type_, json, bytes.fromhex(_match(type_, json, _HEX)))
    return value


def _read_struct(type_: Type, json: Any) -> dict[str, Any]:
    assert isinstance(type_, StructType)
    if not isinstance(json, dict):
        raise _invalid(type_, json)
    present = {child.name: json[str(child.id)] for child in type_.fields if str(child.id) in json}
    return walk_struct(type_, present, from_json)


def _read_list(type_: Type, json: Any) -> list[Any]:
    assert isinstance(type_, ListType)
    if not isinstance(json, list):
        raise _invalid(type_, json)
    return walk_list(type_, json, from_json)


def _read_map(type_: Type, json: Any) -> Any:
    assert isinstance(type_, MapType)
    keys, values = (json.get("keys"), json.get("values")) if isinstance(json, dict) else (None, None)
    if not isinstance(keys, list) or not isinstance(values, list) or len(keys) != len(values):
        raise _invalid(type_, json)
    return walk_map(type_, zip(keys, values, strict=True), from_json)


def _reject_read(type_: Type, json: Any) -> Any:
    raise _invalid(type_, json)


_READERS: dict[str, Callable[[Type, Any], Any]] = {
    "boolean": _read_boolean,
    "int": _read_integer,
    "long": _read_integer,
    "float": _read_float,
    "double": _read_float,
    "decimal": _read_decimal,
    "date": lambda type_, json: _parse(type_, json, date_from_text),
    "time": lambda type_, json: _parse(type_, json, lambda text: time_from_text(text, MICROS)),
    **dict.fromkeys(_UNITS, _read_timestamp),
    "string": lambda type_, json: _parse(type_, json, str),
    "uuid": lambda type_, json: uuid.UUID(_match(type_, json, _UUID)),
    "fixed": _read_bytes,
    "binary": _read_bytes,
    "geometry": lambda type_, json: _parse(type_, json, wkt_to_wkb),
    "geography": lambda type_, json: _parse(type_, json, wkt_to_wkb),
    "struct": _read_struct,
    "list": _read_list,
    "map": _read_map,
    "variant": _reject_read,
    "unknown": _reject_read,
}
