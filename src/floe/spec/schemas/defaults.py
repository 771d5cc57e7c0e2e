"""Default values of fields: which may be stored, and what they amount to (spec: Default values).

A field has two: `initial-default` fills the rows of files written before the field was added, `write-default` what a
writer leaves out. A struct stores only null or `{}`; what `{}` stands for comes from the defaults of its fields.

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
from floe.spec.values.checks import check, map_items

__all__ = ["check_default", "check_defaults", "initial_value", "same_default", "write_value"]

DEFAULTS_SINCE = 3
"""The format version that brought default values."""

_NULL_ONLY = frozenset({"unknown", "variant", "geometry", "geography"})


def check_defaults(field: Field, name: str, format_version: int) -> None:
    """Raise when a field has defaults that its type or the format version does not allow.

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
    """Raise when a value cannot be a default of a field of that type.

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
            f"the {label} of {name!r} is no {type_}: {error.message}", hint=error.hint, column=name
        ) from error


def same_default(one: Any, other: Any) -> bool:
    """Whether two defaults are the same; NaN, which `==` takes for different from itself, is the same as NaN.

    >>> same_default([float("nan")], [float("nan")]), same_default(1.0, None)
    (True, False)
    """
    return bool(one == other) or repr(one) == repr(other)


def initial_value(field: Field) -> Any:
    """The value of a field in rows that were written before it was added.

    >>> from floe.spec.types import INT
    >>> initial_value(Field(1, "note", INT, required=True))
    Traceback (most recent call last):
    floe.errors.InvalidValue: 'note' is required and has no initial-default
    """
    return _effective(field, _initial, "initial-default")


def write_value(field: Field) -> Any:
    """The value to write for a field that the writer was given no value for; a required one must have a default."""
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
    return _filled(field.type, default, pick, label)


def _filled(type_: Type, value: Any, pick: _Pick, label: str) -> Any:
    """The value with every field that a struct in it leaves out set to that field's own default."""
    if value is None:
        return None
    if isinstance(type_, StructType):
        return {
            child.name: _filled(child.type, value[child.name], pick, label)
            if child.name in value
            else _effective(child, pick, label)
            for child in type_.fields
        }
    if isinstance(type_, ListType):
        return [_filled(type_.element, item, pick, label) for item in value]
    if isinstance(type_, MapType):
        filled = [(key, _filled(type_.value, item, pick, label)) for key, item in map_items(value)]
        return dict(filled) if isinstance(value, dict) else filled
    return value
