"""Default values of fields: which may be stored, and the values that they result in (spec: Default values).

A field has two: `initial-default` is the value in files written before the field was added, `write-default` the value
for rows written without one. A struct stores only null or `{}`; the value of `{}` comes from the defaults of its
fields.

>>> from floe.spec.types import INT, StructType
>>> x = Field(2, "x", INT, initial_default=0, write_default=7)
>>> point = Field(1, "point", StructType((x,)), initial_default={}, write_default={})
>>> initial_value(point), write_value(point)
({'x': 0}, {'x': 7})
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from floe.errors import InvalidSchema, InvalidValue
from floe.spec.types import Field, ListType, MapType, StructType, Type
from floe.spec.values.value_checks import check, map_items

DEFAULTS_SINCE = 3
"""The format version that added default values."""

_NULL_ONLY = frozenset({"unknown", "variant", "geometry", "geography"})


def check_defaults(field: Field, name: str, format_version: int) -> None:
    """Raise if a field has defaults that its type or the format version does not allow.

    A `write-default` is tolerated in older versions, whose readers are not harmed by it (spec: Appendix E, Version 3).
    """
    if field.initial_default is not None and format_version < DEFAULTS_SINCE:
        raise InvalidSchema(
            f"{name!r} has an initial-default, which needs format version {DEFAULTS_SINCE}; "
            f"the table has {format_version}",
            hint="upgrade the table's format version first",
            column=name,
        )
    for label, default in (("initial-default", field.initial_default), ("write-default", field.write_default)):
        check_default(field.type, default, label, name)


def check_default(type_: Type, default: Any, label: str, name: str) -> None:
    """Raise if a value cannot be the default of a field of a type.

    >>> check_default(StructType(), {"x": 1}, "write-default", "point")
    Traceback (most recent call last):
    floe.errors.InvalidSchema: the write-default of struct 'point' can only be null or an empty struct (column: ...
    """
    if default is None:
        return
    if type_.kind in _NULL_ONLY:
        raise InvalidSchema(f"{name!r} has type {type_}, whose {label} can only be null", column=name)
    if type_.kind == "struct":
        if default != {}:
            raise InvalidSchema(
                f"the {label} of struct {name!r} can only be null or an empty struct",
                hint="set the defaults of its fields on the fields",
                column=name,
            )
        return
    try:
        check(type_, default)
    except InvalidValue as error:
        raise InvalidSchema(
            f"the {label} of {name!r} is not a valid {type_}: {error.message}", hint=error.hint, column=name
        ) from error


def same_default(first: Any, second: Any) -> bool:
    """Whether two defaults are the same; NaN is the same as NaN, unlike for `==`.

    >>> same_default([float("nan")], [float("nan")]), same_default(1.0, None)
    (True, False)
    """
    return bool(first == second) or repr(first) == repr(second)


def initial_value(field: Field) -> Any:
    """Return the value of a field in rows written before it was added.

    >>> from floe.spec.types import INT
    >>> initial_value(Field(1, "note", INT, required=True))
    Traceback (most recent call last):
    floe.errors.InvalidValue: 'note' is required and has no initial-default
    """
    return _effective(field, _initial, "initial-default")


def write_value(field: Field) -> Any:
    """Return the value to write for a field without one; a required field must have a default."""
    return _effective(field, _write, "write-default")


_Pick = Callable[[Field], Any]


def _initial(field: Field) -> Any:
    return field.initial_default


def _write(field: Field) -> Any:
    return field.write_default


def _effective(field: Field, pick: _Pick, label: str) -> Any:
    default = pick(field)
    if default is None and field.required:
        raise InvalidValue(f"{field.name!r} is required and has no {label}")
    return _with_field_defaults(field.type, default, pick, label)


def _with_field_defaults(type_: Type, value: Any, pick: _Pick, label: str) -> Any:
    """Return the value with the defaults of all struct fields that it omits."""
    if value is None:
        return None
    if isinstance(type_, StructType):
        return {
            child.name: _with_field_defaults(child.type, value[child.name], pick, label)
            if child.name in value
            else _effective(child, pick, label)
            for child in type_.fields
        }
    if isinstance(type_, ListType):
        return [_with_field_defaults(type_.element, item, pick, label) for item in value]
    if isinstance(type_, MapType):
        pairs = [(key, _with_field_defaults(type_.value, item, pick, label)) for key, item in map_items(value)]
        return dict(pairs) if isinstance(value, dict) else pairs
    return value
