"""Type coercion and casts of SQL values, as in Spark with ANSI rules: a value that does not fit is an error.

`common_type` is the type to which the operands of an operator are cast, `can_store` tells which values can be assigned
to a column, and `can_cast` which types CAST converts. `cast_array` casts an array. Arrow casts numbers and timestamps;
where Arrow has no exact rule, such as from text to decimal, each distinct value is cast once.

>>> import pyarrow as pa
>>> from floe.spec.types import DATE, DOUBLE, INT, LONG, STRING, TIMESTAMPTZ
>>> common_type(INT, LONG), common_type(DATE, TIMESTAMPTZ), common_type(STRING, DATE)
(LONG, TIMESTAMPTZ, DATE)
>>> can_store(LONG, INT), can_store(STRING, INT)
(True, False)
>>> cast_array(pa.array([1.005, None]), DOUBLE, DecimalType(9, 2)).to_pylist()
[Decimal('1.01'), None]
>>> cast_array(pa.array([" 7 ", "x"]), STRING, INT)
Traceback (most recent call last):
floe.errors.InvalidValue: 'x' is not a valid int
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from floe.errors import FloeError, InvalidInput, InvalidValue
from floe.formats.columns.arrays import constant_array, struct_array, to_array, to_values
from floe.formats.columns.arrow_types import arrow_type
from floe.spec.types import (
    BINARY,
    DOUBLE,
    LONG,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    DecimalType,
    Field,
    FixedType,
    ListType,
    MapType,
    StructType,
    Type,
)
from floe.spec.values import convert
from floe.spec.values.civil_time import date_to_text, time_to_text, timestamp_to_text

INTEGERS = ("int", "long")
FLOATS = ("float", "double")
NUMBERS = (*INTEGERS, *FLOATS, "decimal")
TIMESTAMPS = ("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")
DATETIMES = ("date", *TIMESTAMPS)
BYTES = ("binary", "fixed", "geometry", "geography")

_EXACT = Context(prec=120, rounding=ROUND_HALF_UP)
_Cast = Callable[[pa.Array, Type, Type], pa.Array]
_DIGITS = {"int": 10, "long": 20, "boolean": 1}  # as Spark counts them
_WITHOUT_TEXT = ("variant", "geometry", "geography")
_MIN_SCALE = 6
_MAX_PRECISION = 38


# Decimal types --------------------------------------------------------------------------------------------------------


def bounded_decimal(precision: int, scale: int) -> DecimalType:
    """A decimal type of at most 38 digits: the scale is reduced first, but not below six.

    >>> print(bounded_decimal(40, 20), bounded_decimal(9, 2))
    decimal(38, 18) decimal(9, 2)
    """
    if precision <= _MAX_PRECISION:
        return DecimalType(max(precision, 1), scale)
    integral_digits = precision - scale
    return DecimalType(_MAX_PRECISION, max(_MAX_PRECISION - integral_digits, min(scale, _MIN_SCALE)))


def decimal_of(type_: Type) -> DecimalType:
    """The decimal type that holds every value of an integer type; a decimal type is returned as it is.

    >>> from floe.spec.types import INT
    >>> print(decimal_of(INT))
    decimal(10, 0)
    """
    return type_ if isinstance(type_, DecimalType) else DecimalType(_DIGITS[type_.kind], 0)


def _common_decimal(left: DecimalType, right: DecimalType) -> DecimalType:
    scale = max(left.scale, right.scale)
    return bounded_decimal(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)


# Common types ---------------------------------------------------------------------------------------------------------


def common_type(left: Type, right: Type) -> Type | None:
    """The type to which two values are cast before they are compared or combined; None if there is none."""
    kinds = {left.kind, right.kind}
    if left == right or right.kind == "unknown":
        return left
    if left.kind == "unknown":
        return right
    if kinds <= set(NUMBERS):
        return _common_number(left, right)
    if kinds <= set(DATETIMES):
        return _common_datetime(kinds)
    if "string" in kinds:
        return _common_with_text(left if right.kind == "string" else right)
    if kinds <= {"binary", "fixed"}:
        return BINARY
    return left if is_same_shape(left, right) else None


def common_type_of(types: Sequence[Type]) -> Type | None:
    """The common type of several values; None if there is none.

    >>> from floe.spec.types import INT, STRING
    >>> common_type_of([INT, LONG, INT]), common_type_of([])
    (LONG, None)
    """
    return reduce(lambda a, b: None if a is None else common_type(a, b), types[1:], types[0] if types else None)


def _common_number(left: Type, right: Type) -> Type:
    kinds = {left.kind, right.kind}
    if kinds <= set(INTEGERS):
        return LONG
    if kinds & set(FLOATS):
        return DOUBLE
    return _common_decimal(decimal_of(left), decimal_of(right))


def _common_datetime(kinds: set[str]) -> Type:
    zoned = bool(kinds & {"timestamptz", "timestamptz_ns"})
    if kinds & {"timestamp_ns", "timestamptz_ns"}:
        return TIMESTAMPTZ_NS if zoned else TIMESTAMP_NS
    return TIMESTAMPTZ if zoned else TIMESTAMP


def _common_with_text(other: Type) -> Type | None:
    """The type to which text is cast when it is combined with another type; None if it cannot be."""
    if other.kind in INTEGERS:
        return LONG
    if other.kind in ("decimal", *FLOATS):
        return DOUBLE
    return other if other.kind in ("boolean", "time", "uuid", *DATETIMES) else None


def is_same_shape(left: Type, right: Type) -> bool:
    """Whether two types differ at most in field ids, documentation and nullability.

    >>> from floe.spec.types import INT
    >>> is_same_shape(ListType(1, INT), ListType(7, INT, element_required=True))
    True
    """
    if not left.is_nested or not right.is_nested:
        return left == right
    if left.kind != right.kind or len(left.fields) != len(right.fields):
        return False
    pairs = zip(left.fields, right.fields, strict=True)
    return all(a.name == b.name and is_same_shape(a.type, b.type) for a, b in pairs)


# Allowed casts and assignments ----------------------------------------------------------------------------------------


def can_cast(source: Type, target: Type) -> bool:
    """Whether CAST converts values of one type to another; single values may still be invalid.

    >>> from floe.spec.types import BOOLEAN, DATE, INT
    >>> can_cast(BOOLEAN, INT), can_cast(INT, DATE)
    (True, False)
    """
    source_kind, target_kind = source.kind, target.kind
    numbers = (*NUMBERS, "boolean")
    return (
        source_kind == "unknown"
        or is_same_shape(source, target)
        or (source_kind in numbers and target_kind in numbers)
        or (source_kind in DATETIMES and target_kind in DATETIMES)
        or (source_kind in ("time", *TIMESTAMPS) and target_kind == "time")
        or (target_kind == "string" and not source.is_nested and source_kind not in _WITHOUT_TEXT)
        or (source_kind == "string" and target_kind in (*numbers, *DATETIMES, "time", "uuid", "binary", "fixed"))
        or (source_kind in ("binary", "fixed", "uuid") and target_kind in ("binary", "fixed"))
        or (source_kind == "binary" and target_kind == "uuid")
    )


def can_store(source: Type, target: Type) -> bool:
    """Whether values of the source type can be assigned to a column of the target type (ANSI store assignment).

    Numbers can be assigned to all columns of numbers, if the values fit. Text is not cast to other types except uuid,
    for which SQL has no literals.
    """
    source_kind, target_kind = source.kind, target.kind
    if source_kind == "unknown" or source == target:
        return True
    if source_kind in NUMBERS and target_kind in NUMBERS:
        return True
    if target_kind == "string":
        return not source.is_nested and source_kind not in ("variant", "binary", "fixed", "geometry", "geography")
    if source_kind in DATETIMES and target_kind in DATETIMES:
        return True
    if source_kind in BYTES and target_kind in BYTES:
        return True
    if source_kind == "string":
        return target_kind == "uuid"
    if isinstance(source, StructType) and isinstance(target, StructType):
        target_types = {child.name: child.type for child in target.fields}
        fields = source.fields
        return all(field.name in target_types and can_store(field.type, target_types[field.name]) for field in fields)
    if isinstance(source, ListType) and isinstance(target, ListType):
        return can_store(source.element, target.element)
    if isinstance(source, MapType) and isinstance(target, MapType):
        return can_store(source.key, target.key) and can_store(source.value, target.value)
    return False


# Casts of arrays ------------------------------------------------------------------------------------------------------


def cast_array(array: pa.Array, source: Type, target: Type) -> pa.Array:
    """Cast an array to another type; raises `InvalidValue` for a value that does not fit (see `can_cast`)."""
    target_type = arrow_type(target)
    if array.type.equals(target_type):
        return array
    if source.kind == "unknown":
        return pa.nulls(len(array), target_type)
    if target.is_nested:
        return _cast_nested(array, source, target)
    cast = _CASTS.get((source.kind, target.kind)) or _CASTS_TO.get(target.kind) or _CASTS_FROM.get(source.kind)
    try:
        return _cast_by_arrow(array, source, target) if cast is None else cast(array, source, target)
    except pa.ArrowException as error:
        raise InvalidValue(
            f"a value of type {source} does not fit {target}: {_first_line(error)}",
            hint="exclude such values first, for example with CASE",
        ) from None


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:120]


def map_distinct(array: pa.Array, function: Callable[[Any], Any], source: Type, target: Type) -> pa.Array:
    """Apply a function of single values to an array, once per distinct value; null stays null.

    >>> from floe.spec.types import INT, STRING
    >>> map_distinct(pa.array(["a", "bb", None, "a"]), len, STRING, INT).to_pylist()
    [1, 2, None, 1]
    """
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), arrow_type(target))
    encoded = array.dictionary_encode()
    values = [None if value is None else function(value) for value in to_values(source, encoded.dictionary)]
    return to_array(target, values).take(encoded.indices)


def _cast_by_arrow(array: pa.Array, source: Type, target: Type) -> pa.Array:
    return pc.cast(array, arrow_type(target))


# Casts of numbers -----------------------------------------------------------------------------------------------------


def _truncate_to_integer(array: pa.Array, source: Type, target: Type) -> pa.Array:
    """Drop the fraction, and cast to an integer type."""
    return pc.cast(pc.trunc(array), arrow_type(target))


def _integer_to_decimal(array: pa.Array, source: Type, target: Type) -> pa.Array:
    numbers = pc.cast(pc.cast(array, pa.int64()), pa.decimal128(19, 0))
    return pc.cast(numbers, arrow_type(target))


def rescale(array: pa.Array, target: DecimalType) -> pa.Array:
    """Cast decimals of any width to another precision and scale, rounding half up.

    >>> rescale(pa.array([Decimal("0.125")]), DecimalType(9, 2)).to_pylist()
    [Decimal('0.13')]
    """
    type_ = array.type
    if type_.scale > target.scale:
        widened_precision = min(type_.precision + 1, 76)  # 9.9 may become 10
        array = pc.round(
            pc.cast(array, pa.decimal256(widened_precision, type_.scale)),
            target.scale,
            round_mode="half_towards_infinity",
        )
    return pc.cast(array, arrow_type(target))


def _decimal_to_decimal(array: pa.Array, source: Type, target: Type) -> pa.Array:
    assert isinstance(target, DecimalType)
    return rescale(array, target)


def _float_to_decimal(array: pa.Array, source: Type, target: Type) -> pa.Array:
    return map_distinct(array, lambda value: _round_decimal(Decimal(repr(value)), target, value), source, target)


def _round_decimal(value: Decimal, target: Type, original: Any) -> Decimal:
    assert isinstance(target, DecimalType)
    try:
        rounded = value.quantize(Decimal(1).scaleb(-target.scale), context=_EXACT)
    except InvalidOperation:
        raise InvalidValue(f"{original!r:.60} is not a valid {target}") from None
    if not rounded.is_finite():
        raise InvalidValue(f"{original!r:.60} is not a valid {target}")
    if rounded.adjusted() >= target.precision - target.scale and rounded:
        raise InvalidValue(f"{original!r:.60} does not fit {target}")
    return rounded


def _to_boolean(array: pa.Array, source: Type, target: Type) -> pa.Array:
    return pc.not_equal(array, constant_array(source, 0, 1)[0])


def _boolean_to_decimal(array: pa.Array, source: Type, target: Type) -> pa.Array:
    return _integer_to_decimal(pc.cast(array, pa.int32()), source, target)


# Casts from and to text -----------------------------------------------------------------------------------------------


def _parse_text(array: pa.Array, source: Type, target: Type) -> pa.Array:
    parse = _PARSERS.get(target.kind, _parse_value)
    return map_distinct(array, lambda text: parse(text.strip(), target), source, target)


def _parse_integer(text: str, target: Type) -> int:
    try:
        if not text.isascii() or "_" in text:
            raise ValueError(text)
        return int(convert(target, int(text)))
    except (ValueError, FloeError):
        raise InvalidValue(f"{text[:60]!r} is not a valid {target}") from None


def _parse_float(text: str, target: Type) -> float:
    try:
        if "_" in text:
            raise ValueError(text)
        return float(text)
    except ValueError:
        raise InvalidValue(f"{text[:60]!r} is not a valid {target}") from None


def _parse_decimal(text: str, target: Type) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise InvalidValue(f"{text[:60]!r} is not a valid {target}") from None
    return _round_decimal(value, target, text)


def _parse_boolean(text: str, target: Type) -> bool:
    word = text.lower()
    if word in ("t", "true", "y", "yes", "1"):
        return True
    if word in ("f", "false", "n", "no", "0"):
        return False
    raise InvalidValue(f"{text[:60]!r} is not a valid boolean")


def _parse_value(text: str, target: Type) -> Any:
    if (match := _SHORT_DATE.match(text)) is not None:
        year, month, day = match.groups()
        text = f"{year}-{month or 1:0>2}-{day or 1:0>2}{text[match.end() :]}"
    if target.kind in TIMESTAMPS and len(text) == 10:
        text += " 00:00:00"
    if target.kind == "date" and len(text) > 10 and text[10] in " T":
        text = text[:10]
    try:
        if target.kind in ("timestamptz", "timestamptz_ns") and not _has_zone(text):
            text += "+00:00"
        return convert(target, text)
    except InvalidInput:
        raise InvalidValue(f"{text[:60]!r} is not a valid {target}") from None


_SHORT_DATE = re.compile(r"([0-9]{4})(?:-([0-9]{1,2}))?(?:-([0-9]{1,2}))?(?![0-9-])")
"""A date as Spark accepts it: the day and the month may be missing, or have one digit."""


def _has_zone(text: str) -> bool:
    return text[-1:] in "zZ" or "+" in text[10:] or "-" in text[10:]


_PARSERS: dict[str, Callable[[str, Type], Any]] = {
    "int": _parse_integer,
    "long": _parse_integer,
    "float": _parse_float,
    "double": _parse_float,
    "decimal": _parse_decimal,
    "boolean": _parse_boolean,
}


def _format_text(array: pa.Array, source: Type, target: Type) -> pa.Array:
    format_value = _FORMATTERS.get(source.kind)
    return pc.cast(array, pa.string()) if format_value is None else map_distinct(array, format_value, source, target)


def _format_double(value: float) -> str:
    """Format a double as Java does: with a point, and with an exponent from 10,000,000 on and below 0.001."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else f"{text}.0"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    significant = "".join(map(str, digits)).rstrip("0")
    fraction = significant[1:] or "0"
    return f"{'-' if sign else ''}{significant[0]}.{fraction}E{exponent + len(digits) - 1}"


def _format_float(value: float) -> str:
    return _format_double(float(str(pa.scalar(value, pa.float32()).cast(pa.string()))))


def _timestamp_formatter(unit: int) -> Callable[[int], str]:
    def format_ticks(ticks: int) -> str:
        text = timestamp_to_text(ticks, unit).replace("T", " ")
        return text.rstrip("0").rstrip(".") if "." in text else text

    return format_ticks


_FORMATTERS: dict[str, Callable[[Any], str]] = {
    "double": _format_double,
    "float": _format_float,
    "decimal": lambda value: format(value, "f"),
    "date": date_to_text,
    "time": lambda ticks: time_to_text(ticks, 1_000_000),
    "uuid": str,
    "timestamp": _timestamp_formatter(1_000_000),
    "timestamptz": _timestamp_formatter(1_000_000),
    "timestamp_ns": _timestamp_formatter(1_000_000_000),
    "timestamptz_ns": _timestamp_formatter(1_000_000_000),
}


# Casts of datetimes and bytes -----------------------------------------------------------------------------------------


def _datetime_to_timestamp(array: pa.Array, source: Type, target: Type) -> pa.Array:
    """Cast a date or timestamp to a timestamp type, in UTC; nanoseconds are truncated to microseconds if needed."""
    target_type = arrow_type(target)
    if source.kind == "date":
        return pc.cast(pc.cast(array, pa.timestamp(target_type.unit)), target_type)
    if array.type.unit == "ns" and target_type.unit == "us":
        array = pc.floor_temporal(array, unit="microsecond")
    return pc.cast(pc.cast(array, pa.timestamp(target_type.unit, array.type.tz)), target_type)


def _timestamp_to_date(array: pa.Array, source: Type, target: Type) -> pa.Array:
    return pc.cast(pc.cast(array, pa.timestamp(array.type.unit)), pa.date32())


def _timestamp_to_time(array: pa.Array, source: Type, target: Type) -> pa.Array:
    floored = pc.floor_temporal(pc.cast(array, pa.timestamp(array.type.unit)), unit="microsecond")
    return pc.cast(floored, pa.time64("us"))


def _cast_bytes(array: pa.Array, source: Type, target: Type) -> pa.Array:
    binary = pc.cast(array, pa.binary())
    if isinstance(target, FixedType) or target.kind == "uuid":
        length = target.length if isinstance(target, FixedType) else 16
        lengths = pc.binary_length(binary)
        if pc.any(pc.not_equal(lengths, length)).as_py():
            raise InvalidValue(f"{target} takes {length} bytes, found a value of another length")
    return pc.cast(binary, arrow_type(target))


def _text_to_uuid(array: pa.Array, source: Type, target: Type) -> pa.Array:
    def parse(text: str) -> uuid.UUID:
        try:
            return uuid.UUID(text.strip())
        except ValueError:
            raise InvalidValue(f"{text[:60]!r} is not a valid uuid") from None

    return map_distinct(array, parse, source, target)


def _text_to_bytes(array: pa.Array, source: Type, target: Type) -> pa.Array:
    return _cast_bytes(pc.cast(array, pa.binary()), source, target)


# Casts of structs, lists and maps -------------------------------------------------------------------------------------


def _cast_nested(array: pa.Array, source: Type, target: Type) -> pa.Array:
    """Cast the children of a nested array; struct fields match by name, and missing ones get their default or null."""
    array = pa.concat_arrays([array])  # a slice would keep the values outside of it
    validity_mask = None if not array.null_count else array.is_valid()
    if isinstance(target, StructType):
        by_name = {child.name: (index, child) for index, child in enumerate(source.fields)}
        children = [_cast_child(array, by_name.get(child.name), child) for child in target.fields]
        return struct_array(arrow_type(target), children, len(array), validity_mask)
    if array.offset:
        array = array.take(pa.array(range(len(array)), pa.int64()))
    validity, offsets = array.buffers()[:2]
    if isinstance(target, ListType):
        (element,) = source.fields
        items = cast_array(array.values, element.type, target.element)
    else:
        assert isinstance(target, MapType)
        assert isinstance(source, MapType)
        keys = cast_array(array.keys, source.key, target.key)
        values = cast_array(array.items, source.value, target.value)
        map_type = arrow_type(target)
        items = struct_array(pa.struct([map_type.key_field, map_type.item_field]), [keys, values], len(keys))
    return pa.Array.from_buffers(arrow_type(target), len(array), [validity, offsets], children=[items])


def _cast_child(array: pa.StructArray, match: tuple[int, Field] | None, target: Field) -> pa.Array:
    if match is None:
        return constant_array(target.type, target.write_default, len(array))
    index, source = match
    return cast_array(array.field(index), source.type, target.type)


_CASTS: dict[tuple[str, str], _Cast] = {
    **{(kind, target): _truncate_to_integer for kind in (*FLOATS, "decimal") for target in INTEGERS},
    **{(kind, "decimal"): _float_to_decimal for kind in FLOATS},
    ("int", "decimal"): _integer_to_decimal,
    ("long", "decimal"): _integer_to_decimal,
    ("boolean", "decimal"): _boolean_to_decimal,
    ("decimal", "decimal"): _decimal_to_decimal,
    **{(kind, "boolean"): _to_boolean for kind in NUMBERS},
    **{(kind, target): _datetime_to_timestamp for kind in DATETIMES for target in TIMESTAMPS},
    **{(kind, "date"): _timestamp_to_date for kind in TIMESTAMPS},
    **{(kind, "time"): _timestamp_to_time for kind in TIMESTAMPS},
    ("string", "uuid"): _text_to_uuid,
    **{("string", target): _text_to_bytes for target in ("binary", "fixed")},
    **{(kind, target): _cast_bytes for kind in ("binary", "fixed", "uuid") for target in ("binary", "fixed", "uuid")},
}
_CASTS_TO: dict[str, _Cast] = {"string": _format_text}
_CASTS_FROM: dict[str, _Cast] = {"string": _parse_text}
