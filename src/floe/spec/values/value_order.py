"""The order of values of each type, for bounds and for sorting rows (spec: Sorting).

Floats have a total order: `-NaN < -Infinity < -1.0 < -0.0 < 0.0 < 1.0 < Infinity < NaN`. (In filters, `-0.0` and `0.0`
are equal.) Strings are compared by code points, which is the order of their UTF-8 bytes; UUIDs and bytes are compared
as unsigned bytes.

>>> from floe.spec.types import DOUBLE
>>> sorted([float("nan"), 0.0, -0.0, float("-inf")], key=sort_key(DOUBLE))
[-inf, -0.0, 0.0, nan]
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from floe.errors import InvalidInput
from floe.spec.types import ListType, MapType, StructType, Type
from floe.spec.values.value_checks import map_items

_DOUBLE = struct.Struct(">d")
_BITS = struct.Struct(">q")
_SIGN = -(2**63)


def sort_key(type_: Type) -> Callable[[Any], Any]:
    """Return a key function for `sorted`, `min` and `max` over values of a type, which must not be null.

    Within structs, lists and maps null comes first. Geometries, geographies and variants have no order.

    >>> from floe.spec.types import UUID
    >>> from uuid import UUID as U
    >>> max([U(int=1), U(int=2**127)], key=sort_key(UUID)).hex
    '80000000000000000000000000000000'
    """
    maker = _KEYS.get(type_.kind)
    if maker is None:
        raise InvalidInput(f"values of type {type_} have no order")
    return maker(type_)


def compare(type_: Type, left: Any, right: Any) -> int:
    r"""Compare two values: -1 if `left` is before `right`, 0 if they are equal, 1 if it is after it.

    >>> from floe.spec.types import STRING
    >>> compare(STRING, "\uffff", "\U00010000")
    -1
    """
    key = sort_key(type_)
    left, right = key(left), key(right)
    return int(left > right) - int(left < right)


def _identity(value: Any) -> Any:
    return value


def _float_key(value: float) -> int:
    """The bits as an integer; those of negative numbers are reversed, because they decrease."""
    (bits,) = _BITS.unpack(_DOUBLE.pack(value))
    return int(bits) if bits >= 0 else _SIGN - int(bits) - 1


def _nulls_first(key: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda value: () if value is None else (key(value),)


def _struct_key(type_: Type) -> Callable[[Any], Any]:
    assert isinstance(type_, StructType)
    parts = [(child.name, _nulls_first(sort_key(child.type))) for child in type_.fields]
    return lambda value: tuple(key(value.get(name)) for name, key in parts)


def _list_key(type_: Type) -> Callable[[Any], Any]:
    assert isinstance(type_, ListType)
    key = _nulls_first(sort_key(type_.element))
    return lambda value: tuple(map(key, value))


def _map_key(type_: Type) -> Callable[[Any], Any]:
    assert isinstance(type_, MapType)
    key, item_key = sort_key(type_.key), _nulls_first(sort_key(type_.value))
    return lambda value: tuple(sorted((key(k), item_key(v)) for k, v in map_items(value)))


_PLAIN = (
    "boolean", "int", "long", "decimal", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns",
    "string", "fixed", "binary",
)  # fmt: skip
_KEYS: dict[str, Callable[[Type], Callable[[Any], Any]]] = {
    **dict.fromkeys(_PLAIN, lambda _: _identity),
    "float": lambda _: _float_key,
    "double": lambda _: _float_key,
    "uuid": lambda _: attrgetter("bytes"),
    "struct": _struct_key,
    "list": _list_key,
    "map": _map_key,
    "unknown": lambda _: _identity,
}
