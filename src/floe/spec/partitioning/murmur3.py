"""The 32-bit hash of a value: murmur3, x86 variant, seed 0 (spec: Appendix B, 32-bit Hash Requirements).

The hash of a value determines its bucket, so it must never change. A value keeps its hash when its type is promoted: an
int has the hash of the equal long, a float that of the equal double, a nanosecond timestamp that of its microsecond.

>>> hash_bytes(b"iceberg")
1210000089
>>> hash_long(34)
2017239379
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import mmh3

from floe.errors import InvalidType
from floe.spec.types import Type

_pack_long = struct.Struct("<q").pack
_pack_double = struct.Struct("<d").pack

CANONICAL_NAN = struct.pack("<Q", 0x7FF8000000000000)
"""The bit pattern that is hashed for all NaNs."""

WIDE = Context(prec=100)
"""A decimal context that is exact for 38 digits; the context of the caller may round."""


def hash_bytes(data: bytes) -> int:
    """The hash of a byte string, as a signed 32-bit integer.

    >>> hash_bytes(bytes([0, 1, 2, 3]))
    -188683207
    """
    return mmh3.hash(data, 0, True)


def hash_long(value: int) -> int:
    """The hash of a 64-bit integer: the hash of its eight bytes in little-endian order.

    >>> hash_long(34)
    2017239379
    """
    return mmh3.hash(_pack_long(value), 0, True)


hash_int = hash_long
"""The hash of a 32-bit integer: the hash of the equal long, so that rows keep their bucket when it is promoted."""


def hash_double(value: float) -> int:
    """The hash of the bits of a floating-point number; all NaNs are equal, and `-0.0` equals `0.0`.

    >>> hash_double(1.0), hash_double(0.0) == hash_double(-0.0)
    (-142385009, True)
    """
    return mmh3.hash(CANONICAL_NAN if math.isnan(value) else _pack_double(value or 0.0), 0, True)


def hash_decimal(value: Decimal, scale: int) -> int:
    """The hash of the unscaled value of a decimal, in the minimal big-endian two's complement bytes.

    >>> hash_decimal(Decimal("14.20"), 2)
    -500754589
    """
    unscaled = int(value.scaleb(scale, WIDE))
    # the bits of the magnitude and a sign bit; ~n has the magnitude bits of a negative n
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length() + 1
    return mmh3.hash(unscaled.to_bytes((bits + 7) // 8, "big", signed=True), 0, True)


def _hash_nanos(value: int) -> int:
    return hash_long(value // 1000)


def _hash_text(value: str) -> int:
    return mmh3.hash(value.encode(), 0, True)


_BY_KIND: dict[str, Callable[[Any], int]] = {
    "int": hash_long,
    "long": hash_long,
    "date": hash_long,  # spec says hashInt, whose test value is that of the eight-byte hash
    "time": hash_long,
    "timestamp": hash_long,
    "timestamptz": hash_long,
    "timestamp_ns": _hash_nanos,
    "timestamptz_ns": _hash_nanos,
    "string": _hash_text,
    "uuid": lambda value: hash_bytes(value.bytes),
    "fixed": hash_bytes,
    "binary": hash_bytes,
    # specified, but not valid for buckets
    "boolean": lambda value: hash_long(1 if value else 0),
    "float": hash_double,
    "double": hash_double,
}


def hash_function(type_: Type) -> Callable[[Any], int]:
    """Return the function that hashes non-null values of a type, including types that `bucket` does not accept.

    >>> from floe.spec.types import STRING
    >>> hash_function(STRING)("iceberg")
    1210000089
    """
    if type_.kind == "decimal":
        scale: int = type_.scale  # type: ignore[attr-defined]
        return lambda value: hash_decimal(value, scale)
    try:
        return _BY_KIND[type_.kind]
    except KeyError:
        raise InvalidType(f"no hash is defined for values of type {type_}") from None


def hash_value(type_: Type, value: Any) -> int | None:
    """The hash of one value, or None for null.

    >>> from floe.spec.types import BOOLEAN
    >>> hash_value(BOOLEAN, True)
    1392991556
    """
    return None if value is None else hash_function(type_)(value)
