r"""Single values as bytes: the bounds of columns and of partition fields (spec: Appendix D, binary).

Stored bounds may be older than the type of their column: a bound of 4 bytes in a long column was written when the
column was an int (spec: Schema Evolution). `decode` reads them as values of the current type.

>>> from floe.spec.types import LONG, STRING
>>> encode(LONG, 34).hex(), decode(LONG, bytes.fromhex("22000000"))
('2200000000000000', 34)
>>> decode(LONG, b"abc")
Traceback (most recent call last):
floe.errors.CorruptFile: a value of type long has 4 or 8 bytes, found 3

Writers truncate the bounds of strings and bytes (table property `write.metadata.metrics.default`, `truncate(16)`). A
prefix is a lower bound; an upper bound is a prefix whose last code point or byte is incremented.

>>> from floe.spec.types import BINARY, STRING
>>> truncate_lower(STRING, "iceberg", 3), truncate_upper(STRING, "iceberg", 3)
('ice', 'icf')
>>> truncate_upper(BINARY, b"\x01\xff\xff", 2), truncate_upper(BINARY, b"\xff\xff\xff", 2)
(b'\x02', None)

The bound of a variant is the encoded metadata, version 1, followed by the encoded value, which is an object with
normalized JSON paths as keys, in Parquet's variant encoding (spec: Bound serialization).
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

# Truncated bounds ------------------------------------------------------------------------------------------------

_MAX_CODE_POINT = 0x10FFFF
_LAST_BEFORE_SURROGATES = 0xD7FF
_FIRST_AFTER_SURROGATES = 0xE000


def truncate_lower(type_: Type, value: Any, length: int) -> Any:
    """Truncate a lower bound to `length` code points or bytes; values of other types are returned unchanged.

    >>> from floe.spec.types import LONG, STRING
    >>> truncate_lower(STRING, "iceberg", 16), truncate_lower(LONG, 34, 1)
    ('iceberg', 34)
    """
    _check_length(length)
    return value[:length] if type_.kind in _PREFIX_SUCCESSORS else value


def truncate_upper(type_: Type, value: Any, length: int) -> Any:
    r"""Truncate an upper bound to at most `length` code points or bytes, rounding up; None if that is not possible.

    >>> from floe.spec.types import STRING
    >>> truncate_upper(STRING, "ab\U0010ffffc", 3)
    'ac'
    """
    _check_length(length)
    count_up = _PREFIX_SUCCESSORS.get(type_.kind)
    if count_up is None or len(value) <= length:
        return value
    return count_up(value[:length])


def _next_string(prefix: str) -> str | None:
    """The lowest string above all strings with a prefix."""
    prefix = prefix.rstrip(chr(_MAX_CODE_POINT))
    if not prefix:
        return None
    code = ord(prefix[-1])
    # skip surrogates, which UTF-8 cannot encode
    code = _FIRST_AFTER_SURROGATES if _LAST_BEFORE_SURROGATES <= code < _FIRST_AFTER_SURROGATES else code + 1
    return prefix[:-1] + chr(code)


def _next_bytes(prefix: bytes) -> bytes | None:
    """The lowest byte string above all byte strings with a prefix."""
    prefix = prefix.rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None


# Values of type fixed are not truncated: a shorter one would not be a value of the type (and Java does not either).
_PREFIX_SUCCESSORS: dict[str, Any] = {"string": _next_string, "binary": _next_bytes}


def _check_length(length: int) -> None:
    if length < 0:
        raise InvalidInput(f"a bound cannot be truncated to {length} characters or bytes")


# Bounds of variants ----------------------------------------------------------------------------------------------

_VERSION = 1
_OBJECT = 2


def split_variant(data: bytes) -> tuple[bytes, bytes]:
    r"""Split a variant into its metadata and its value; `CorruptFile` if the metadata is not valid.

    >>> metadata, value = b"\x01\x01\x00\x01a", b"\x02\x01\x00\x00\x01\x00"  # {"a": null}
    >>> split_variant(metadata + value) == (metadata, value)
    True
    """
    if not data:
        raise CorruptFile("a variant cannot be empty")
    header = data[0]
    if header & 0x0F != _VERSION:
        raise CorruptFile(f"the metadata of a variant has version {_VERSION}, found {header & 0x0F}")
    width = (header >> 6) + 1  # the size of a count or an offset
    name_count = int.from_bytes(data[1 : 1 + width], "little")
    names_start = 1 + width + (name_count + 1) * width  # after the offsets
    if names_start > len(data):
        raise CorruptFile(f"the metadata of a variant claims {name_count} names, but ends too early for them")
    end = names_start + int.from_bytes(data[names_start - width : names_start], "little")
    if end >= len(data):
        raise CorruptFile("a variant ends before its value begins")
    return bytes(data[:end]), bytes(data[end:])


def check_variant_bound(data: bytes) -> None:
    r"""Raise `CorruptFile` unless the bytes have the layout of a variant bound: metadata, then an object.

    >>> check_variant_bound(b"\x01\x00\x00\x00")
    Traceback (most recent call last):
    floe.errors.CorruptFile: the bound of a variant is an object, found a primitive value
    """
    _, value = split_variant(data)
    if value[0] & 0x03 != _OBJECT:
        kind = {0: "a primitive value", 1: "a short string", 3: "an array"}[value[0] & 0x03]
        raise CorruptFile(f"the bound of a variant is an object, found {kind}")


# Values and bounds -----------------------------------------------------------------------------------------------

_I32 = struct.Struct("<i")
_I64 = struct.Struct("<q")
_F32 = struct.Struct("<f")
_F64 = struct.Struct("<d")
_GEO = {"geometry", "geography"}
_MAX_DECIMAL_BYTES = 32  # 16 are enough for 38 digits; some writers pad


def encode(type_: Type, value: Any) -> bytes:
    """Encode a value; `InvalidValue` for null and for types without a binary encoding.

    >>> from floe.spec.types import parse_type
    >>> encode(parse_type("decimal(9,2)"), Decimal("14.20")).hex()
    '058c'
    """
    encoder = _ENCODERS.get(type_.kind)
    if encoder is None:
        raise InvalidValue(f"type {type_} has no binary form for single values (spec: Appendix D)")
    if value is None:
        raise InvalidValue(f"null has no binary form; a value of type {type_} is needed", hint="omit the entry")
    check(type_, value)
    return encoder(value)


def decode(type_: Type, data: bytes) -> Any:
    """Decode a value, also one that was written before its column was promoted to this type; raises `CorruptFile`.

    A value of an unknown column is read as null.

    >>> from floe.spec.types import DOUBLE, TIMESTAMP
    >>> decode(TIMESTAMP, (1).to_bytes(4, "little"))  # one day: the column was a date
    86400000000
    >>> decode(DOUBLE, bytes.fromhex("0000c03f"))  # the column was a float
    1.5
    """
    return _decoder(type_)(type_, data)


def decode_many(type_: Type, data: Iterable[bytes | None]) -> list[Any]:
    """Decode many values of one type; None stays None.

    >>> from floe.spec.types import STRING
    >>> decode_many(STRING, [b"a", None])
    ['a', None]
    """
    decode_one = _decoder(type_)
    return [None if item is None else decode_one(type_, item) for item in data]


def encode_bound(type_: Type, bound: Any) -> bytes:
    """Encode a lower or upper bound: a value of the type, or a `GeoPoint` for geometries and geographies.

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
    """Decode a lower or upper bound; a `GeoPoint` or None for geometries and geographies. Raises `CorruptFile`.

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
    """A corner of the bounding box of geometries; z and m are None if the box does not have these dimensions."""

    x: float
    y: float
    z: float | None = None
    m: float | None = None


def encode_geo_bound(point: GeoPoint) -> bytes:
    """Encode the bound of a geometry or geography: x:y, x:y:z, x:y:z:m, or x:y:NaN:m (spec: Bound serialization).

    >>> len(encode_geo_bound(GeoPoint(30.0, 10.0))), len(encode_geo_bound(GeoPoint(30.0, 10.0, m=1.0)))
    (16, 32)
    """
    if not isinstance(point, GeoPoint):
        raise InvalidValue(f"a geospatial bound needs a GeoPoint, found {short_repr(point)}")
    if math.isnan(point.x) or math.isnan(point.y):
        raise InvalidValue("a geospatial bound needs both x and y", hint="omit the bound if one is missing")
    numbers = [point.x, point.y]
    if point.z is not None or point.m is not None:
        numbers.append(math.nan if point.z is None else point.z)
    if point.m is not None:
        numbers.append(point.m)
    return struct.pack(f"<{len(numbers)}d", *numbers)


def decode_geo_bound(data: bytes) -> GeoPoint | None:
    """Decode the bound of a geometry or geography; None if x or y is NaN, which means that there is no box.

    >>> decode_geo_bound(encode_geo_bound(GeoPoint(30.0, 10.0, m=1.0)))
    GeoPoint(x=30.0, y=10.0, z=None, m=1.0)
    """
    if len(data) not in (16, 24, 32):
        raise CorruptFile(f"a geospatial bound has 16, 24 or 32 bytes, found {len(data)}")
    x, y, *z_and_m = struct.unpack(f"<{len(data) // 8}d", data)
    if math.isnan(x) or math.isnan(y):
        return None
    z, m = (None if math.isnan(n) else n for n in (*z_and_m, math.nan, math.nan)[:2])
    return GeoPoint(x, y, z, m)


def _decimal_bytes(value: Decimal) -> bytes:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    unscaled = unscaled_value(value, -exponent)
    assert unscaled is not None
    # plus a sign bit; -128 fits a byte, but 128 does not
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


def _wrong_length(type_: Type, expected: str, data: bytes) -> CorruptFile:
    return CorruptFile(f"a value of type {type_} has {expected} bytes, found {len(data)}")


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
        raise CorruptFile(f"a value of type time must be within a day, found {value} microseconds")
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
    "timestamptz": _decode_i64,  # dates are never promoted to timestamptz
    "timestamptz_ns": _decode_i64,
    "string": _decode_string,
    "uuid": _decode_uuid,
    "fixed": _decode_fixed,
    "binary": _decode_bytes,
    "geometry": _decode_bytes,
    "geography": _decode_bytes,
    "unknown": _decode_unknown,
}
