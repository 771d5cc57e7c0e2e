r"""Single values as bytes: the bounds of columns and of partition fields (spec: Appendix D, binary).

Bounds outlive promotions of their column: a long's bound of 4 bytes was written when the column was an int, and so
on (spec: Schema Evolution). `decode` reads them all as values of the present type.

>>> from floe.spec.types import LONG, STRING
>>> encode(LONG, 34).hex(), decode(LONG, bytes.fromhex("22000000"))
('2200000000000000', 34)
>>> decode(LONG, b"abc")
Traceback (most recent call last):
floe.errors.CorruptFile: a value of type long has 4 or 8 bytes, found 3

Shorter bounds for strings and bytes, still below or above every value that they bound.

Writers keep bounds short (table property `write.metadata.metrics.default`, `truncate(16)`). A prefix is a lower bound
as it stands; an upper bound is a prefix with its last part counted up by one. Strings are cut by code points, never
inside one.

>>> from floe.spec.types import BINARY, STRING
>>> truncate_lower(STRING, "iceberg", 3), truncate_upper(STRING, "iceberg", 3)
('ice', 'icf')
>>> truncate_upper(BINARY, b"\x01\xff\xff", 2), truncate_upper(BINARY, b"\xff\xff\xff", 2)
(b'\x02', None)

Where in the bytes of a variant its metadata ends and its value begins (spec: Bound serialization).

A variant's bound is the encoded metadata, version 1, followed by the encoded value, which is an object whose keys are
normalised JSON paths. The layout is that of Parquet's variant encoding.
"""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from floe.errors import CorruptFile, InvalidInput, InvalidValue
from floe.spec.types import DecimalType, FixedType, Type
from floe.spec.values.civil_time import MICROS, NANOS, SECONDS_PER_DAY, date_to_text
from floe.spec.values.exact_numbers import decimal_from_unscaled, unscaled_value
from floe.spec.values.value_checks import check, short_repr

# Shorter bounds for strings and bytes, still below or above every value that they bound.

_MAX_CODE_POINT = 0x10FFFF
_LAST_BEFORE_SURROGATES = 0xD7FF
_FIRST_BEHIND_SURROGATES = 0xE000


def truncate_lower(type_: Type, value: Any, length: int) -> Any:
    """The greatest prefix of `length` code points or bytes that is not above `value`; other types stay as they are.

    >>> from floe.spec.types import LONG, STRING
    >>> truncate_lower(STRING, "iceberg", 16), truncate_lower(LONG, 34, 1)
    ('iceberg', 34)
    """
    _check_length(length)
    return value[:length] if type_.kind in _COUNT_UP else value


def truncate_upper(type_: Type, value: Any, length: int) -> Any:
    r"""The least value of up to `length` code points or bytes that is not below `value`, or None where there is none.

    >>> from floe.spec.types import STRING
    >>> truncate_upper(STRING, "ab\U0010ffffc", 3)
    'ac'
    """
    _check_length(length)
    count_up = _COUNT_UP.get(type_.kind)
    if count_up is None or len(value) <= length:
        return value
    return count_up(value[:length])


def _string_above(prefix: str) -> str | None:
    """The least string above all that start with `prefix`."""
    prefix = prefix.rstrip(chr(_MAX_CODE_POINT))
    if not prefix:
        return None
    code = ord(prefix[-1])
    # surrogates are not characters: UTF-8 cannot encode them, so they are stepped over
    code = _FIRST_BEHIND_SURROGATES if _LAST_BEFORE_SURROGATES <= code < _FIRST_BEHIND_SURROGATES else code + 1
    return prefix[:-1] + chr(code)


def _bytes_above(prefix: bytes) -> bytes | None:
    """The least byte string above all that start with `prefix`."""
    prefix = prefix.rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None


# A fixed keeps its length: a shorter one would be no value of its type (and Java leaves it whole too).
_COUNT_UP: dict[str, Any] = {"string": _string_above, "binary": _bytes_above}


def _check_length(length: int) -> None:
    if length < 0:
        raise InvalidInput(f"a bound cannot be cut to {length} characters or bytes")


# Where in the bytes of a variant its metadata ends and its value begins (spec: Bound serialization).

_VERSION = 1
_OBJECT = 2


def split_variant(data: bytes) -> tuple[bytes, bytes]:
    r"""The metadata and the value of a variant whose bytes are put together, or `CorruptFile`.

    >>> metadata, value = b"\x01\x01\x00\x01a", b"\x02\x01\x00\x00\x01\x00"  # {"a": null}
    >>> split_variant(metadata + value) == (metadata, value)
    True
    """
    if not data:
        raise CorruptFile("a variant cannot be empty")
    header = data[0]
    if header & 0x0F != _VERSION:
        raise CorruptFile(f"the metadata of a variant has version {_VERSION}, found {header & 0x0F}")
    width = (header >> 6) + 1  # bytes of a count or an offset
    names = int.from_bytes(data[1 : 1 + width], "little")
    strings = 1 + width + (names + 1) * width  # where the offsets end and the names begin
    if strings > len(data):
        raise CorruptFile(f"the metadata of a variant claims {names} names, but ends too early for them")
    end = strings + int.from_bytes(data[strings - width : strings], "little")
    if end >= len(data):
        raise CorruptFile("a variant ends before its value begins")
    return bytes(data[:end]), bytes(data[end:])


def check_variant_bound(data: bytes) -> None:
    r"""Raise `CorruptFile` unless the bytes are laid out as the bound of a variant: metadata, then an object.

    >>> check_variant_bound(b"\x01\x00\x00\x00")
    Traceback (most recent call last):
    floe.errors.CorruptFile: the bound of a variant is an object, found a primitive value
    """
    _, value = split_variant(data)
    if value[0] & 0x03 != _OBJECT:
        kind = {0: "a primitive value", 1: "a short string", 3: "an array"}[value[0] & 0x03]
        raise CorruptFile(f"the bound of a variant is an object, found {kind}")


_I32 = struct.Struct("<i")
_I64 = struct.Struct("<q")
_F32 = struct.Struct("<f")
_F64 = struct.Struct("<d")
_GEO = {"geometry", "geography"}
_MAX_DECIMAL_BYTES = 32  # 16 hold 38 digits; some writers pad


def encode(type_: Type, value: Any) -> bytes:
    """The bytes of a value; the types without a binary form, and null, are refused with `InvalidValue`.

    >>> from floe.spec.types import parse_type
    >>> encode(parse_type("decimal(9,2)"), Decimal("14.20")).hex()
    '058c'
    """
    encoder = _ENCODERS.get(type_.kind)
    if encoder is None:
        raise InvalidValue(f"type {type_} has no binary form for single values (spec: Appendix D)")
    if value is None:
        raise InvalidValue(f"null has no binary form; a value of type {type_} is needed", hint="leave the entry out")
    check(type_, value)
    return encoder(value)


def decode(type_: Type, data: bytes) -> Any:
    """The value of bytes, or `CorruptFile`; also of bytes written before the column was promoted to this type.

    Bytes for an unknown column are read as null, as everything in it is.

    >>> from floe.spec.types import DOUBLE, TIMESTAMP
    >>> decode(TIMESTAMP, (1).to_bytes(4, "little"))  # one day: the column was a date
    86400000000
    >>> decode(DOUBLE, bytes.fromhex("0000c03f"))  # the column was a float
    1.5
    """
    return _decoder(type_)(type_, data)


def decode_many(type_: Type, data: Iterable[bytes | None]) -> list[Any]:
    """The values of many byte strings of one type; None stays None.

    >>> from floe.spec.types import STRING
    >>> decode_many(STRING, [b"a", None])
    ['a', None]
    """
    one = _decoder(type_)
    return [None if item is None else one(type_, item) for item in data]


def encode_bound(type_: Type, bound: Any) -> bytes:
    """The bytes of a lower or upper bound: those of the value, but of a `GeoPoint` for geometries and geographies.

    >>> from floe.spec.types import INT, GeometryType
    >>> encode_bound(INT, 34) == encode(INT, 34), len(encode_bound(GeometryType(), GeoPoint(30.0, 10.0)))
    (True, 16)
    """
    if type_.kind in _GEO:
        return encode_geo_bound(bound)
    if type_.kind == "variant":
        check(type_, bound)
        check_variant_bound(bound)
        return bytes(bound)
    return encode(type_, bound)


def decode_bound(type_: Type, data: bytes) -> Any:
    """The lower or upper bound that bytes hold, or `CorruptFile`; a `GeoPoint` or None for geometries and geographies.

    >>> from floe.spec.types import GeometryType
    >>> decode_bound(GeometryType(), struct.pack("<dd", 30.0, 10.0))
    GeoPoint(x=30.0, y=10.0, z=None, m=None)
    """
    if type_.kind in _GEO:
        return decode_geo_bound(data)
    if type_.kind == "variant":
        check_variant_bound(data)
        return bytes(data)
    return decode(type_, data)


class GeoPoint(NamedTuple):
    """A corner of the box around geometries: z and m are None where the box has no such dimension."""

    x: float
    y: float
    z: float | None = None
    m: float | None = None


def encode_geo_bound(point: GeoPoint) -> bytes:
    """The bytes of a geometry's or geography's bound: x:y, x:y:z, x:y:z:m, or x:y:NaN:m (spec: Bound serialization).

    >>> len(encode_geo_bound(GeoPoint(30.0, 10.0))), len(encode_geo_bound(GeoPoint(30.0, 10.0, m=1.0)))
    (16, 32)
    """
    if not isinstance(point, GeoPoint):
        raise InvalidValue(f"a geospatial bound needs a GeoPoint, found {short_repr(point)}")
    if math.isnan(point.x) or math.isnan(point.y):
        raise InvalidValue("a geospatial bound needs both x and y", hint="write no bound where one is missing")
    numbers = [point.x, point.y]
    if point.z is not None or point.m is not None:
        numbers.append(math.nan if point.z is None else point.z)
    if point.m is not None:
        numbers.append(point.m)
    return struct.pack(f"<{len(numbers)}d", *numbers)


def decode_geo_bound(data: bytes) -> GeoPoint | None:
    """The corner that the bytes of a bound give, or None where x or y is NaN, which means that there is no box.

    >>> decode_geo_bound(encode_geo_bound(GeoPoint(30.0, 10.0, m=1.0)))
    GeoPoint(x=30.0, y=10.0, z=None, m=1.0)
    """
    if len(data) not in (16, 24, 32):
        raise CorruptFile(f"a geospatial bound has 16, 24 or 32 bytes, found {len(data)}")
    x, y, *rest = struct.unpack(f"<{len(data) // 8}d", data)
    if math.isnan(x) or math.isnan(y):
        return None
    z, m = (None if math.isnan(n) else n for n in (*rest, math.nan, math.nan)[:2])
    return GeoPoint(x, y, z, m)


def _decimal_bytes(value: Decimal) -> bytes:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    unscaled = unscaled_value(value, -exponent)
    assert unscaled is not None
    # one bit for the sign; -128 fits a byte although 128 does not
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length() + 1
    return unscaled.to_bytes((bits + 7) // 8, "big", signed=True)


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "boolean": lambda value: b"\x01" if value else b"\x00",
    "int": _I32.pack,
    "date": _I32.pack,
    **dict.fromkeys(("long", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), _I64.pack),
    "float": _F32.pack,
    "double": _F64.pack,
    "decimal": _decimal_bytes,
    "string": str.encode,
    "uuid": lambda value: value.bytes,
    **dict.fromkeys(("fixed", "binary", "geometry", "geography"), bytes),
}


def _decoder(type_: Type) -> Callable[[Type, bytes], Any]:
    decoder = _DECODERS.get(type_.kind)
    if decoder is None:
        raise InvalidValue(f"type {type_} has no binary form for single values (spec: Appendix D)")
    return decoder


def _wrong_length(type_: Type, wanted: str, data: bytes) -> CorruptFile:
    return CorruptFile(f"a value of type {type_} has {wanted} bytes, found {len(data)}")


def _decode_boolean(type_: Type, data: bytes) -> bool:
    if len(data) != 1:
        raise _wrong_length(type_, "1", data)
    return data != b"\x00"


def _decode_i32(type_: Type, data: bytes) -> int:
    if len(data) != 4:
        raise _wrong_length(type_, "4", data)
    return int.from_bytes(data, "little", signed=True)


def _decode_i64(type_: Type, data: bytes) -> int:
    if len(data) != 8:
        raise _wrong_length(type_, "8", data)
    return int.from_bytes(data, "little", signed=True)


def _decode_long(type_: Type, data: bytes) -> int:
    if len(data) not in (4, 8):
        raise _wrong_length(type_, "4 or 8", data)
    return int.from_bytes(data, "little", signed=True)


def _decode_time(type_: Type, data: bytes) -> int:
    value = _decode_i64(type_, data)
    if not 0 <= value < SECONDS_PER_DAY * MICROS:
        raise CorruptFile(f"a value of type time lies within a day, found {value} microseconds")
    return value


def _decode_timestamp(type_: Type, data: bytes) -> int:
    if len(data) not in (4, 8):
        raise _wrong_length(type_, "4 or 8", data)
    value = int.from_bytes(data, "little", signed=True)
    if len(data) == 8:
        return value
    ticks = value * SECONDS_PER_DAY * (MICROS if type_.kind == "timestamp" else NANOS)
    if not -(2**63) <= ticks < 2**63:
        # spec, Schema Evolution: values outside the promoted type's range must fail
        raise CorruptFile(f"the date {date_to_text(value)} of a promoted column does not fit type {type_}")
    return ticks


def _decode_float(type_: Type, data: bytes) -> float:
    if len(data) != 4:
        raise _wrong_length(type_, "4", data)
    return float(_F32.unpack(data)[0])


def _decode_double(type_: Type, data: bytes) -> float:
    if len(data) == 8:
        return float(_F64.unpack(data)[0])
    if len(data) == 4:
        return float(_F32.unpack(data)[0])
    raise _wrong_length(type_, "4 or 8", data)


def _decode_decimal(type_: Type, data: bytes) -> Decimal:
    assert isinstance(type_, DecimalType)
    if not 1 <= len(data) <= _MAX_DECIMAL_BYTES:
        raise _wrong_length(type_, f"1 to {_MAX_DECIMAL_BYTES}", data)
    unscaled = int.from_bytes(data, "big", signed=True)
    if abs(unscaled) >= 10**type_.precision:
        raise CorruptFile(f"a value of type {type_} has at most {type_.precision} digits, found {unscaled}")
    return decimal_from_unscaled(unscaled, type_.scale)


def _decode_string(type_: Type, data: bytes) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise CorruptFile(f"a value of type string is not UTF-8: {error.reason} at byte {error.start}") from None


def _decode_uuid(type_: Type, data: bytes) -> uuid.UUID:
    if len(data) != 16:
        raise _wrong_length(type_, "16", data)
    return uuid.UUID(bytes=bytes(data))


def _decode_fixed(type_: Type, data: bytes) -> bytes:
    assert isinstance(type_, FixedType)
    if len(data) != type_.length:
        raise _wrong_length(type_, str(type_.length), data)
    return bytes(data)


def _decode_bytes(type_: Type, data: bytes) -> bytes:
    return bytes(data)


def _decode_unknown(type_: Type, data: bytes) -> None:
    return None


_DECODERS: dict[str, Callable[[Type, bytes], Any]] = {
    "boolean": _decode_boolean,
    "int": _decode_i32,
    "long": _decode_long,
    "float": _decode_float,
    "double": _decode_double,
    "decimal": _decode_decimal,
    "date": _decode_i32,
    "time": _decode_time,
    "timestamp": _decode_timestamp,
    "timestamp_ns": _decode_timestamp,
    "timestamptz": _decode_i64,  # no date is ever promoted to a point in time
    "timestamptz_ns": _decode_i64,
    "string": _decode_string,
    "uuid": _decode_uuid,
    "fixed": _decode_fixed,
    "binary": _decode_bytes,
    "geometry": _decode_bytes,
    "geography": _decode_bytes,
    "unknown": _decode_unknown,
}
