"""Checks whether something is a value of a type, in the form that `floe.spec.values` describes."""

from __future__ import annotations

import math
import reprlib
import uuid
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from floe.errors import InvalidValue
from floe.spec.types import DecimalType, Field, FixedType, ListType, MapType, StructType, Type
from floe.spec.values.civil_time import MICROS, SECONDS_PER_DAY
from floe.spec.values.exact_numbers import nearest_float32, unscaled_value

_INT32 = (-(2**31), 2**31 - 1)
_INT64 = (-(2**63), 2**63 - 1)
_RANGES = {
    "int": _INT32,
    "long": _INT64,
    "date": _INT32,
    "time": (0, SECONDS_PER_DAY * MICROS - 1),
    "timestamp": _INT64,
    "timestamptz": _INT64,
    "timestamp_ns": _INT64,
    "timestamptz_ns": _INT64,
}

_A_DATETIME = "a datetime {} a zone, text such as '2017-11-16T22:31:08.{}', or {}seconds from 1970"
_ACCEPTED_FORMS = {
    "boolean": "True or False",
    "int": "an integer from -2147483648 to 2147483647",
    "long": "an integer from -9223372036854775808 to 9223372036854775807",
    "float": "a number that a 32-bit float can hold",
    "double": "a number that a 64-bit float can hold",
    "decimal": "a Decimal, an integer, a float or text such as '14.20', with no more digits than the type has",
    "date": "a datetime.date, text such as '2017-11-16', or days from 1970-01-01",
    "time": "a datetime.time, text such as '22:31:08.123456', or microseconds from midnight",
    "timestamp": _A_DATETIME.format("without", "123456", "micro"),
    "timestamptz": _A_DATETIME.format("with", "123456+00:00", "micro"),
    "timestamp_ns": _A_DATETIME.format("without", "123456789", "nano"),
    "timestamptz_ns": _A_DATETIME.format("with", "123456789+00:00", "nano"),
    "string": "a str that UTF-8 can encode",
    "uuid": "a uuid.UUID, its text, or its 16 bytes",
    "fixed": "bytes of just that length, or their hexadecimal text",
    "binary": "bytes, or their hexadecimal text",
    "geometry": "bytes of well-known binary, or text such as 'POINT (30 10)'",
    "geography": "bytes of well-known binary, or text such as 'POINT (30 10)'",
    "struct": "a mapping from field names to values",
    "list": "a list",
    "map": "a mapping, or a list of (key, value) pairs",
    "variant": "bytes of the encoded metadata followed by the encoded value",
    "unknown": "None",
}


def check(type_: Type, value: Any) -> None:
    """Raise `InvalidValue` unless `value` is null or a value of the type, in its proper form and in range.

    >>> from floe.spec.types import INT
    >>> check(INT, 34)
    >>> check(INT, 2**31)
    Traceback (most recent call last):
    floe.errors.InvalidValue: 2147483648 is not a value of type int: it is out of range; an int is written as ...
    """
    problem = find_problem(type_, value)
    if problem is not None:
        raise invalid_value(type_, value, problem)


def find_problem(type_: Type, value: Any) -> str | None:
    """Say why something is not a value of the type; None if it is one. Children of nested values raise `InvalidValue`.

    >>> from floe.spec.types import INT
    >>> find_problem(INT, "34"), find_problem(INT, 34)
    ('it is a str', None)
    """
    return None if value is None else _PROBLEMS[type_.kind](type_, value)


def invalid_value(type_: Type, value: Any, problem: str) -> InvalidValue:
    """Return the error for something that is not a value of the type: it says why, and what would be one.

    >>> from floe.spec.types import BOOLEAN
    >>> raise invalid_value(BOOLEAN, 1, "it is an int")
    Traceback (most recent call last):
    floe.errors.InvalidValue: 1 is not a value of type boolean: it is an int; a boolean is written as True or False
    """
    kind = type_.kind
    article = "an" if kind[0] in "aeiou" and kind != "uuid" else "a"
    return InvalidValue(
        f"{short_repr(value)} is not a value of type {kind if type_.is_nested else type_}: {problem}",
        hint=f"{article} {kind} is written as {_ACCEPTED_FORMS[kind]}",
    )


def short_repr(value: Any) -> str:
    """Return a short `repr` of anything, for messages.

    >>> short_repr([1, 2]), short_repr(10**5000)
    ('[1, 2]', 'a number of 16610 bits')
    """
    try:
        return _SHORT.repr(value)
    except ValueError:  # an integer of more digits than Python is willing to print
        return f"a number of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def make_map(type_: MapType, pairs: Iterable[tuple[Any, Any]]) -> Any:
    """Return a map's value: a dict, or the list of pairs where keys are nested; a duplicate key is an error.

    >>> from floe.spec.types import INT, STRING
    >>> make_map(MapType(1, STRING, 2, INT), [("a", 1)])
    {'a': 1}
    """
    pairs = list(pairs)
    identities = set()
    for key, _ in pairs:
        identity = repr(key) if type_.key.is_nested or key != key else key  # all NaNs are one key
        if identity in identities:
            raise InvalidValue(f"the key {short_repr(key)} appears twice in a map")
        identities.add(identity)
    return pairs if type_.key.is_nested else dict(pairs)


def map_items(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the (key, value) pairs of a map's value, which is a dict or a list of pairs.

    >>> list(map_items({"a": 1})), list(map_items([([1], 2)]))
    ([('a', 1)], [([1], 2)])
    """
    pairs: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, Mapping) else value
    return pairs


def walk_struct(
    type_: StructType, children: Mapping[str, Any], step: Callable[[Type, Any], Any], *, complete: bool = False
) -> dict[str, Any]:
    """Apply `step` to each child of a struct's value; names and required children are checked.

    Children may be missing; with `complete`, only those that have a default or are optional.

    >>> from floe.spec.types import INT
    >>> walk_struct(StructType((Field(1, "a", INT), Field(2, "b", INT))), {"a": 1}, lambda type_, value: value + 1)
    {'a': 2}
    """
    names = {child.name for child in type_.fields}
    for name in children:
        if name not in names:
            raise invalid_value(type_, children, f"the struct has no field {short_repr(name)}")
    out = {}
    for child in type_.fields:
        if child.name in children:
            out[child.name] = _walk_child(child, children[child.name], step, f".{child.name}")
        elif complete and child.required and child.initial_default is None and child.write_default is None:
            raise invalid_value(type_, children, f"the required field {child.name!r} is missing")
    return out


def walk_list(type_: ListType, elements: Iterable[Any], step: Callable[[Type, Any], Any]) -> list[Any]:
    """Apply `step` to each element of a list's value; required elements are checked.

    >>> from floe.spec.types import INT
    >>> walk_list(ListType(1, INT), [1, 2], lambda type_, value: value + 1)
    [2, 3]
    """
    element = type_.element_field
    return [_walk_child(element, item, step, f"[{n}]") for n, item in enumerate(elements)]


def walk_map(type_: MapType, pairs: Iterable[tuple[Any, Any]], step: Callable[[Type, Any], Any]) -> Any:
    """Apply `step` to each key and value of a map's value; keys and required values are checked.

    >>> from floe.spec.types import INT
    >>> walk_map(MapType(1, INT, 2, INT), [(1, 2)], lambda type_, value: value + 1)
    {2: 3}
    """
    key_field, value_field = type_.fields
    return make_map(
        type_,
        [
            (_walk_child(key_field, key, step, f".keys[{n}]"), _walk_child(value_field, item, step, f".values[{n}]"))
            for n, (key, item) in enumerate(pairs)
        ],
    )


def _walk_child(child: Field, value: Any, step: Callable[[Type, Any], Any], path: str) -> Any:
    try:
        out = step(child.type, value)
        if out is None and child.required:
            raise InvalidValue(f"null for a required value of type {child.type.kind}")
    except InvalidValue as error:
        error.context["at"] = path + error.context.get("at", "")
        raise
    return out


def _checked(type_: Type, value: Any) -> Any:
    check(type_, value)
    return value


def _integer_problem(type_: Type, value: Any) -> str | None:
    if type(value) is not int:  # not even a bool
        return _class_problem(value, int) or "it is a bool"
    low, high = _RANGES[type_.kind]
    return None if low <= value <= high else "it is out of range"


def _float_problem(type_: Type, value: Any) -> str | None:
    if not isinstance(value, float):
        return _class_problem(value, float)
    if type_.kind == "float" and not math.isnan(value) and nearest_float32(value) != value:
        return "a 32-bit float does not hold it exactly"
    return None


def _decimal_problem(type_: Type, value: Any) -> str | None:
    assert isinstance(type_, DecimalType)
    if not isinstance(value, Decimal):
        return _class_problem(value, Decimal)
    if not value.is_finite():
        return "a decimal is always finite"
    if value.as_tuple().exponent != -type_.scale:
        return f"it does not have the scale {type_.scale}"
    unscaled = unscaled_value(value, type_.scale)  # None for numbers far too long
    fits = unscaled is not None and abs(unscaled) < 10**type_.precision
    return None if fits else f"it has more than {type_.precision} digits"


def _string_problem(type_: Type, value: Any) -> str | None:
    if not isinstance(value, str):
        return _class_problem(value, str)
    try:
        value.encode()
    except UnicodeEncodeError:
        return "it holds half of a surrogate pair"
    return None


def _bytes_problem(type_: Type, value: Any) -> str | None:
    if not isinstance(value, bytes):
        return _class_problem(value, bytes)
    if isinstance(type_, FixedType) and len(value) != type_.length:
        return f"it has {len(value)} bytes"
    return None


def _struct_problem(type_: Type, value: Any) -> str | None:
    assert isinstance(type_, StructType)
    if not isinstance(value, dict):
        return _class_problem(value, dict)
    walk_struct(type_, value, _checked)
    return None


def _list_problem(type_: Type, value: Any) -> str | None:
    assert isinstance(type_, ListType)
    if not isinstance(value, list):
        return _class_problem(value, list)
    walk_list(type_, value, _checked)
    return None


def _map_problem(type_: Type, value: Any) -> str | None:
    assert isinstance(type_, MapType)
    if type_.key.is_nested:
        if not isinstance(value, list) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
            return "it is not a list of (key, value) pairs"
    elif not isinstance(value, dict):
        return _class_problem(value, dict)
    walk_map(type_, map_items(value), _checked)
    return None


def _class_problem(value: Any, expected: type) -> str | None:
    return None if isinstance(value, expected) else f"it is a {type(value).__name__}"


_PROBLEMS: dict[str, Callable[[Type, Any], str | None]] = {
    "boolean": lambda _, value: _class_problem(value, bool),
    **dict.fromkeys(_RANGES, _integer_problem),
    "float": _float_problem,
    "double": _float_problem,
    "decimal": _decimal_problem,
    "string": _string_problem,
    "uuid": lambda _, value: _class_problem(value, uuid.UUID),
    **dict.fromkeys(("fixed", "binary", "geometry", "geography", "variant"), _bytes_problem),
    "struct": _struct_problem,
    "list": _list_problem,
    "map": _map_problem,
    "unknown": lambda _type, _value: "it is not null",
}
