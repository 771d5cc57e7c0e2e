"""Which type two values have in common, and which values a column takes: Spark's rules, with ANSI semantics.

>>> from floe.spec.types import DATE, INT, LONG, STRING, TIMESTAMPTZ
>>> common_type(INT, LONG), common_type(DATE, TIMESTAMPTZ), common_type(STRING, DATE)
(LONG, TIMESTAMPTZ, DATE)
>>> can_store(LONG, INT), can_store(STRING, INT)
(True, False)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from floe.spec.types import (
    BINARY,
    DOUBLE,
    LONG,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    DecimalType,
    ListType,
    MapType,
    StructType,
    Type,
)

WHOLE = ("int", "long")
FLOATS = ("float", "double")
NUMBERS = (*WHOLE, *FLOATS, "decimal")
TIMESTAMPS = ("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")
MOMENTS = ("date", *TIMESTAMPS)
BYTES = ("binary", "fixed", "geometry", "geography")

_DIGITS = {"int": 10, "long": 20, "boolean": 1}  # as Spark counts them
_MIN_SCALE = 6
_MAX_PRECISION = 38


# decimals -----------------------------------------------------------------------------------------------------


def bounded_decimal(precision: int, scale: int) -> DecimalType:
    """A decimal type of at most 38 digits: digits before the point come first, but six behind it are kept.

    >>> print(bounded_decimal(40, 20), bounded_decimal(9, 2))
    decimal(38, 18) decimal(9, 2)
    """
    if precision <= _MAX_PRECISION:
        return DecimalType(max(precision, 1), scale)
    whole = precision - scale
    return DecimalType(_MAX_PRECISION, max(_MAX_PRECISION - whole, min(scale, _MIN_SCALE)))


def decimal_of(type_: Type) -> DecimalType:
    """The decimal type that holds every value of a type of whole numbers, or the decimal type itself.

    >>> from floe.spec.types import INT
    >>> print(decimal_of(INT))
    decimal(10, 0)
    """
    return type_ if isinstance(type_, DecimalType) else DecimalType(_DIGITS[type_.kind], 0)


def _wider_decimal(one: DecimalType, other: DecimalType) -> DecimalType:
    scale = max(one.scale, other.scale)
    return bounded_decimal(max(one.precision - one.scale, other.precision - other.scale) + scale, scale)


# common types -------------------------------------------------------------------------------------------------


def common_type(one: Type, other: Type) -> Type | None:
    """The type in which two values can be compared, or that a value has which is one or the other; None for none."""
    kinds = {one.kind, other.kind}
    if one == other or other.kind == "unknown":
        return one
    if one.kind == "unknown":
        return other
    if kinds <= set(NUMBERS):
        return _common_number(one, other)
    if kinds <= set(MOMENTS):
        return _common_moment(kinds)
    if "string" in kinds:
        return _common_with_text(one if other.kind == "string" else other)
    if kinds <= {"binary", "fixed"}:
        return BINARY
    return one if is_same_shape(one, other) else None


def common_type_of(types: Sequence[Type]) -> Type | None:
    """The type that several values have in common.

    >>> from floe.spec.types import INT, STRING
    >>> common_type_of([INT, LONG, INT]), common_type_of([])
    (LONG, None)
    """
    return reduce(lambda a, b: None if a is None else common_type(a, b), types[1:], types[0] if types else None)


def _common_number(one: Type, other: Type) -> Type:
    kinds = {one.kind, other.kind}
    if kinds <= set(WHOLE):
        return LONG
    if kinds & set(FLOATS):
        return DOUBLE
    return _wider_decimal(decimal_of(one), decimal_of(other))


def _common_moment(kinds: set[str]) -> Type:
    zoned = bool(kinds & {"timestamptz", "timestamptz_ns"})
    if kinds & {"timestamp_ns", "timestamptz_ns"}:
        return TIMESTAMPTZ_NS if zoned else TIMESTAMP_NS
    return TIMESTAMPTZ if zoned else TIMESTAMP


def _common_with_text(other: Type) -> Type | None:
    """What text is turned into beside another type."""
    if other.kind in WHOLE:
        return LONG
    if other.kind in ("decimal", *FLOATS):
        return DOUBLE
    return other if other.kind in ("boolean", "time", "uuid", *MOMENTS) else None


def is_same_shape(one: Type, other: Type) -> bool:
    """Whether two types differ at most in ids, documentation and what may be null.

    >>> from floe.spec.types import INT
    >>> is_same_shape(ListType(1, INT), ListType(7, INT, element_required=True))
    True
    """
    if not one.is_nested or not other.is_nested:
        return one == other
    if one.kind != other.kind or len(one.fields) != len(other.fields):
        return False
    pairs = zip(one.fields, other.fields, strict=True)
    return all(a.name == b.name and is_same_shape(a.type, b.type) for a, b in pairs)


# casts --------------------------------------------------------------------------------------------------------


def can_cast(source: Type, target: Type) -> bool:
    """Whether CAST turns values of one type into those of another, whether or not each single one can be.

    >>> from floe.spec.types import BOOLEAN, DATE, INT
    >>> can_cast(BOOLEAN, INT), can_cast(INT, DATE)
    (True, False)
    """
    one, other = source.kind, target.kind
    numbers = (*NUMBERS, "boolean")
    return (
        one == "unknown"
        or is_same_shape(source, target)
        or (one in numbers and other in numbers)
        or (one in MOMENTS and other in MOMENTS)
        or (one in ("time", *TIMESTAMPS) and other == "time")
        or (other == "string" and not source.is_nested and one not in ("variant", "geometry", "geography"))
        or (one == "string" and other in (*numbers, *MOMENTS, "time", "uuid", "binary", "fixed"))
        or (one in ("binary", "fixed", "uuid") and other in ("binary", "fixed"))
        or (one == "binary" and other == "uuid")
    )


def can_store(source: Type, target: Type) -> bool:
    """Whether a column of the one type takes values of the other, as in Spark's ANSI store assignment.

    A number goes into every column of numbers as long as it fits; text is not turned into anything else, but for uuids,
    which SQL has no literals for.
    """
    one, other = source.kind, target.kind
    if one == "unknown" or source == target:
        return True
    if one in NUMBERS and other in NUMBERS:
        return True
    if other == "string":
        return not source.is_nested and one not in ("variant", "binary", "fixed", "geometry", "geography")
    if one in MOMENTS and other in MOMENTS:
        return True
    if one in BYTES and other in BYTES:
        return True
    if one == "string":
        return other == "uuid"
    if isinstance(source, StructType) and isinstance(target, StructType):
        known = {child.name: child.type for child in target.fields}
        return all(child.name in known and can_store(child.type, known[child.name]) for child in source.fields)
    if isinstance(source, ListType) and isinstance(target, ListType):
        return can_store(source.element, target.element)
    if isinstance(source, MapType) and isinstance(target, MapType):
        return can_store(source.key, target.key) and can_store(source.value, target.value)
    return False
