"""Arrays turned into another type, as Spark's CAST does with ANSI rules: what does not fit is an error.

Numbers and moments are Arrow's work. What Arrow has no exact rule for, such as text that is to become a decimal, is
done once for each distinct value.

>>> import pyarrow as pa
>>> from floe.spec.types import DecimalType, DOUBLE, INT, STRING
>>> cast_array(pa.array([1.005, None]), DOUBLE, DecimalType(9, 2)).to_pylist()
[Decimal('1.01'), None]
>>> cast_array(pa.array([" 7 ", "x"]), STRING, INT)
Traceback (most recent call last):
floe.errors.InvalidValue: 'x' is no int
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.values.coercion import TIMESTAMPS
from floe.errors import FloeError, InvalidInput, InvalidValue
from floe.formats.arrow_arrays import constant_array, struct_array, to_array, to_values
from floe.formats.arrow_types import arrow_type
from floe.spec.types import DecimalType, Field, FixedType, ListType, MapType, StructType, Type
from floe.spec.values import convert
from floe.spec.values.civil_time import date_to_text, time_to_text, timestamp_to_text

_EXACT = Context(prec=120, rounding=ROUND_HALF_UP)
_Cast = Callable[[pa.Array, Type, Type], pa.Array]


def cast_array(array: pa.Array, source: Type, target: Type) -> pa.Array:
    """An array of values of the one type as values of the other; `floe.arrow.values.coercion` says which can be."""
    wanted = arrow_type(target)
    if array.type.equals(wanted):
        return array
    if source.kind == "unknown":
        return pa.nulls(len(array), wanted)
    if target.is_nested:
        return _nested(array, source, target)
    caster = _CASTS.get((source.kind, target.kind)) or _TO.get(target.kind) or _FROM.get(source.kind) or _by_arrow
    try:
        return caster(array, source, target)
    except pa.ArrowException as error:
        raise InvalidValue(
            f"a value of type {source} does not fit {target}: {_short(error)}",
            hint="test for it before, with CASE for example",
        ) from None


def _short(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:120]


def for_each_value(array: pa.Array, function: Callable[[Any], Any], source: Type, target: Type) -> pa.Array:
    """A function of single values, called once for each distinct one; null stays null.

    >>> from floe.spec.types import INT, STRING
    >>> for_each_value(pa.array(["a", "bb", None, "a"]), len, STRING, INT).to_pylist()
    [1, 2, None, 1]
    """
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), arrow_type(target))
    encoded = array.dictionary_encode()
    values = [None if value is None else function(value) for value in to_values(source, encoded.dictionary)]
    return to_array(target, values).take(encoded.indices)


def _by_arrow(array: pa.Array, source: Type, target: Type) -> pa.Array:
    return pc.cast(array, arrow_type(target))


# numbers ------------------------------------------------------------------------------------------------------


def _cut_to_whole(array: pa.Array, source: Type, target: Type) -> pa.Array:
    """Digits behind the point are cut off."""
    return pc.cast(pc.trunc(array), arrow_type(target))


def _whole_to_decimal(array: pa.Array, source: Type, target: Type) -> pa.Array:
    numbers = pc.cast(pc.cast(array, pa.int64()), pa.decimal128(19, 0))
    return pc.cast(numbers, arrow_type(target))


def rescaled(array: pa.Array, target: DecimalType) -> pa.Array:
    """Decimals of any width in another precision and scale, rounded half up.

    >>> rescaled(pa.array([Decimal("0.125")]), DecimalType(9, 2)).to_pylist()
    [Decimal('0.13')]
    """
    type_ = array.type
    if type_.scale > target.scale:
        room = min(type_.precision + 1, 76)  # 9.9 may become 10
        array = pc.round(
            pc.cast(array, pa.decimal256(room, type_.scale)), target.scale, round_mode="half_towards_infinity"
        )
    return pc.cast(array, arrow_type(target))


def _decimal_to_decimal(array: pa.Array, source: Type, target: Type) -> pa.Array:
    assert isinstance(target, DecimalType)
    return rescaled(array, target)


def _float_to_decimal(array: pa.Array, source: Type, target: Type) -> pa.Array:
    return for_each_value(array, lambda value: _rounded(Decimal(repr(value)), target, value), source, target)


def _rounded(value: Decimal, target: Type, shown: Any) -> Decimal:
    assert isinstance(target, DecimalType)
    try:
        found = value.quantize(Decimal(1).scaleb(-target.scale), context=_EXACT)
    except InvalidOperation:
        raise InvalidValue(f"{shown!r:.60} is no {target}") from None
    if not found.is_finite():
        raise InvalidValue(f"{shown!r:.60} is no {target}")
    if found.adjusted() >= target.precision - target.scale and found:
        raise InvalidValue(f"{shown!r:.60} does not fit {target}")
    return found


def _to_boolean(array: pa.Array, source: Type, target: Type) -> pa.Array:
    return pc.not_equal(array, constant_array(source, 0, 1)[0])


def _boolean_to_decimal(array: pa.Array, source: Type, target: Type) -> pa.Array:
    return _whole_to_decimal(pc.cast(array, pa.int32()), source, target)


# text ---------------------------------------------------------------------------------------------------------


def _text_to(array: pa.Array, source: Type, target: Type) -> pa.Array:
    read = _READERS.get(target.kind, _read_as_value)
    return for_each_value(array, lambda text: read(text.strip(), target), source, target)


def _read_whole(text: str, target: Type) -> int:
    try:
        if not text.isascii() or "_" in text:
            raise ValueError(text)
        return int(convert(target, int(text)))
    except (ValueError, FloeError):
        raise InvalidValue(f"{text[:60]!r} is no {target}") from None


def _read_float(text: str, target: Type) -> float:
    try:
        if "_" in text:
            raise ValueError(text)
        return float(text)
    except ValueError:
        raise InvalidValue(f"{text[:60]!r} is no {target}") from None


def _read_decimal(text: str, target: Type) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise InvalidValue(f"{text[:60]!r} is no {target}") from None
    return _rounded(value, target, text)


def _read_boolean(text: str, target: Type) -> bool:
    word = text.lower()
    if word in ("t", "true", "y", "yes", "1"):
        return True
    if word in ("f", "false", "n", "no", "0"):
        return False
    raise InvalidValue(f"{text[:60]!r} is no boolean")


def _read_as_value(text: str, target: Type) -> Any:
    if (match := _SHORT_DATE.match(text)) is not None:
        year, month, day = match.groups()
        text = f"{year}-{month or 1:0>2}-{day or 1:0>2}{text[match.end() :]}"
    if target.kind in TIMESTAMPS and len(text) == 10:
        text += " 00:00:00"
    if target.kind == "date" and len(text) > 10 and text[10] in " T":
        text = text[:10]
    try:
        if target.kind in ("timestamptz", "timestamptz_ns") and not _names_zone(text):
            text += "+00:00"
        return convert(target, text)
    except InvalidInput:
        raise InvalidValue(f"{text[:60]!r} is no {target}") from None


_SHORT_DATE = re.compile(r"([0-9]{4})(?:-([0-9]{1,2}))?(?:-([0-9]{1,2}))?(?![0-9-])")
"""A date as Spark takes it: the day and the month may be left out, or have one digit."""


def _names_zone(text: str) -> bool:
    return text[-1:] in "zZ" or "+" in text[10:] or "-" in text[10:]


_READERS: dict[str, Callable[[str, Type], Any]] = {
    "int": _read_whole,
    "long": _read_whole,
    "float": _read_float,
    "double": _read_float,
    "decimal": _read_decimal,
    "boolean": _read_boolean,
}


def _to_text(array: pa.Array, source: Type, target: Type) -> pa.Array:
    write = _WRITERS.get(source.kind)
    return pc.cast(array, pa.string()) if write is None else for_each_value(array, write, source, target)


def _float_text(value: float) -> str:
    """As Java writes doubles: with a point, and with an exponent from 10,000,000 on and below 0.001."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = format(Decimal(repr(value)), "f")
        return text if "." in text else f"{text}.0"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits)).rstrip("0")
    tail = shown[1:] or "0"
    return f"{'-' if sign else ''}{shown[0]}.{tail}E{exponent + len(digits) - 1}"


def _single_text(value: float) -> str:
    return _float_text(float(str(pa.scalar(value, pa.float32()).cast(pa.string()))))


def _moment_text(unit: int) -> Callable[[int], str]:
    def write(ticks: int) -> str:
        text = timestamp_to_text(ticks, unit).replace("T", " ")
        return text.rstrip("0").rstrip(".") if "." in text else text

    return write


_WRITERS: dict[str, Callable[[Any], str]] = {
    "double": _float_text,
    "float": _single_text,
    "decimal": lambda value: format(value, "f"),
    "date": date_to_text,
    "time": lambda ticks: time_to_text(ticks, 1_000_000),
    "uuid": str,
    "timestamp": _moment_text(1_000_000),
    "timestamptz": _moment_text(1_000_000),
    "timestamp_ns": _moment_text(1_000_000_000),
    "timestamptz_ns": _moment_text(1_000_000_000),
}


# moments and bytes --------------------------------------------------------------------------------------------


def _moment_to_moment(array: pa.Array, source: Type, target: Type) -> pa.Array:
    """By the clock of UTC; nanoseconds are cut off where the target has none."""
    wanted = arrow_type(target)
    if source.kind == "date":
        return pc.cast(pc.cast(array, pa.timestamp(wanted.unit)), wanted)
    if array.type.unit == "ns" and wanted.unit == "us":
        array = pc.floor_temporal(array, unit="microsecond")
    return pc.cast(pc.cast(array, pa.timestamp(wanted.unit, array.type.tz)), wanted)


def _moment_to_date(array: pa.Array, source: Type, target: Type) -> pa.Array:
    return pc.cast(pc.cast(array, pa.timestamp(array.type.unit)), pa.date32())


def _moment_to_time(array: pa.Array, source: Type, target: Type) -> pa.Array:
    floored = pc.floor_temporal(pc.cast(array, pa.timestamp(array.type.unit)), unit="microsecond")
    return pc.cast(floored, pa.time64("us"))


def _bytes_to(array: pa.Array, source: Type, target: Type) -> pa.Array:
    plain = pc.cast(array, pa.binary())
    if isinstance(target, FixedType) or target.kind == "uuid":
        length = target.length if isinstance(target, FixedType) else 16
        lengths = pc.binary_length(plain)
        if pc.any(pc.not_equal(lengths, length)).as_py():
            raise InvalidValue(f"bytes of another length than {length} do not fit {target}")
    return pc.cast(plain, arrow_type(target))


def _text_to_uuid(array: pa.Array, source: Type, target: Type) -> pa.Array:
    def read(text: str) -> uuid.UUID:
        try:
            return uuid.UUID(text.strip())
        except ValueError:
            raise InvalidValue(f"{text[:60]!r} is no uuid") from None

    return for_each_value(array, read, source, target)


def _text_to_bytes(array: pa.Array, source: Type, target: Type) -> pa.Array:
    return _bytes_to(pc.cast(array, pa.binary()), source, target)


# structs, lists, maps -----------------------------------------------------------------------------------------


def _nested(array: pa.Array, source: Type, target: Type) -> pa.Array:
    """The same with other types inside, by the names of fields; a field that is missing has its default, or is null."""
    array = pa.concat_arrays([array])  # a slice keeps what is around it
    known = None if not array.null_count else array.is_valid()
    if isinstance(target, StructType):
        by_name = {child.name: (place, child) for place, child in enumerate(source.fields)}
        children = [_child(array, by_name.get(child.name), child) for child in target.fields]
        return struct_array(arrow_type(target), children, len(array), known)
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
        both = arrow_type(target)
        items = struct_array(pa.struct([both.key_field, both.item_field]), [keys, values], len(keys))
    return pa.Array.from_buffers(arrow_type(target), len(array), [validity, offsets], children=[items])


def _child(array: pa.StructArray, found: tuple[int, Field] | None, target: Field) -> pa.Array:
    if found is None:
        return constant_array(target.type, target.write_default, len(array))
    place, source = found
    return cast_array(array.field(place), source.type, target.type)


_FLOATS = ("float", "double")
_CASTS: dict[tuple[str, str], _Cast] = {
    **{(one, other): _cut_to_whole for one in (*_FLOATS, "decimal") for other in ("int", "long")},
    **{(one, "decimal"): _float_to_decimal for one in _FLOATS},
    ("int", "decimal"): _whole_to_decimal,
    ("long", "decimal"): _whole_to_decimal,
    ("boolean", "decimal"): _boolean_to_decimal,
    ("decimal", "decimal"): _decimal_to_decimal,
    **{(one, "boolean"): _to_boolean for one in ("int", "long", "decimal", *_FLOATS)},
    **{(one, other): _moment_to_moment for one in ("date", *TIMESTAMPS) for other in TIMESTAMPS},
    **{(one, "date"): _moment_to_date for one in TIMESTAMPS},
    **{(one, "time"): _moment_to_time for one in TIMESTAMPS},
    ("string", "uuid"): _text_to_uuid,
    **{("string", other): _text_to_bytes for other in ("binary", "fixed")},
    **{(one, other): _bytes_to for one in ("binary", "fixed", "uuid") for other in ("binary", "fixed", "uuid")},
}
_TO: dict[str, _Cast] = {"string": _to_text}
_FROM: dict[str, _Cast] = {"string": _text_to}
