"""Values as readable text, and back: in partition paths, messages and listings."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable
from typing import Any

from floe.errors import InvalidValue
from floe.spec.codecs.wkt import wkb_to_wkt
from floe.spec.types import ListType, MapType, StructType, Type
from floe.spec.values.civil_time import MICROS, NANOS, date_to_text, time_to_text, timestamp_to_text
from floe.spec.values.conversion import convert
from floe.spec.values.exact_numbers import shortest_float32
from floe.spec.values.value_checks import check, invalid_value, map_items


def to_text(type_: Type, value: Any) -> str:
    """Return the readable text of a value: ISO-8601 for timestamps, plain digits for decimals, base64 for bytes.

    >>> from floe.spec.types import BINARY, DATE
    >>> to_text(DATE, 17486), to_text(BINARY, b"abc"), to_text(DATE, None)
    ('2017-11-16', 'YWJj', 'null')
    """
    return "null" if value is None else _TEXTS[type_.kind](type_, value)


def parse_text(type_: Type, text: str) -> Any:
    """Parse the text of a primitive value; texts that `convert` accepts are accepted too, except for bytes.

    >>> from floe.spec.types import BOOLEAN, LONG
    >>> parse_text(LONG, "34"), parse_text(BOOLEAN, "true")
    (34, True)
    """
    if type_.kind not in _PARSERS:
        return convert(type_, text)
    value = _PARSERS[type_.kind](type_, text)
    check(type_, value)
    return value


def _float_text(value: float) -> str:
    """Return the shortest text of a double, with `NaN` and `Infinity` as Java writes them."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _geo_text(type_: Type, value: bytes) -> str:
    try:
        return wkb_to_wkt(value)
    except InvalidValue:
        return _base64_text(type_, value)  # a listing should not fail for bytes that are not a geometry


def _base64_text(type_: Type, value: bytes) -> str:
    return base64.b64encode(value).decode()


def _struct_text(type_: Type, value: dict[str, Any]) -> str:
    assert isinstance(type_, StructType)
    present = (child for child in type_.fields if child.name in value)
    return "{" + ", ".join(f"{child.name}: {to_text(child.type, value[child.name])}" for child in present) + "}"


def _list_text(type_: Type, value: list[Any]) -> str:
    assert isinstance(type_, ListType)
    return "[" + ", ".join(to_text(type_.element, item) for item in value) + "]"


def _map_text(type_: Type, value: Any) -> str:
    assert isinstance(type_, MapType)
    return "{" + ", ".join(f"{to_text(type_.key, k)}: {to_text(type_.value, v)}" for k, v in map_items(value)) + "}"


_TEXTS: dict[str, Callable[[Type, Any], str]] = {
    "boolean": lambda _, value: "true" if value else "false",
    "int": lambda _, value: str(value),
    "long": lambda _, value: str(value),
    "float": lambda _, value: _float_text(shortest_float32(value)),
    "double": lambda _, value: _float_text(value),
    "decimal": lambda _, value: f"{value:f}",
    "date": lambda _, value: date_to_text(value),
    "time": lambda _, value: time_to_text(value, MICROS),
    "timestamp": lambda _, value: timestamp_to_text(value, MICROS),
    "timestamptz": lambda _, value: timestamp_to_text(value, MICROS, utc=True),
    "timestamp_ns": lambda _, value: timestamp_to_text(value, NANOS),
    "timestamptz_ns": lambda _, value: timestamp_to_text(value, NANOS, utc=True),
    "string": lambda _, value: str(value),
    "uuid": lambda _, value: str(value),
    "fixed": _base64_text,
    "binary": _base64_text,
    "geometry": _geo_text,
    "geography": _geo_text,
    "variant": _base64_text,
    "struct": _struct_text,
    "list": _list_text,
    "map": _map_text,
    "unknown": lambda _, value: str(value),
}

_INTEGER_TEXT = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER_TEXT = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?|nan|inf|infinity)", re.IGNORECASE
)
_BOOLEANS = {"true": True, "false": False}


def _parse_boolean(type_: Type, text: str) -> bool:
    value = _BOOLEANS.get(text.lower())
    if value is None:
        raise invalid_value(type_, text, "it is neither true nor false")
    return value


def _parse_integer(type_: Type, text: str) -> Any:
    if not _INTEGER_TEXT.fullmatch(text):
        raise invalid_value(type_, text, "it is not the text of an integer")
    return int(text)


def _parse_float(type_: Type, text: str) -> Any:
    if not _NUMBER_TEXT.fullmatch(text):
        raise invalid_value(type_, text, "it is not the text of a number")
    return convert(type_, float(text))


def _parse_base64(type_: Type, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise invalid_value(type_, text, "it is not base64 text") from None


def _parse_nested(type_: Type, text: str) -> Any:
    raise invalid_value(type_, text, "nested values cannot be parsed from text")


_PARSERS: dict[str, Callable[[Type, str], Any]] = {
    "boolean": _parse_boolean,
    "int": _parse_integer,
    "long": _parse_integer,
    "float": _parse_float,
    "double": _parse_float,
    "fixed": _parse_base64,
    "binary": _parse_base64,
    **dict.fromkeys(("struct", "list", "map", "variant"), _parse_nested),
}
