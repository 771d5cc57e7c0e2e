"""Variants as plain Python values, for printing (Parquet: Variant Binary Encoding).

>>> from floe.formats.variants import encode_array, encode_object, encode_primitive
>>> one, text = encode_primitive("int8", 1), encode_primitive("string", "b")
>>> metadata = bytes([1, 1, 0, 1]) + b"a"
>>> variant_value(metadata + encode_object({"a": encode_array([one, text])}, {"a": 0}))
{'a': [1, 'b']}
"""

from __future__ import annotations

import base64
import struct
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from floe.errors import CorruptFile
from floe.formats.variants import names_of, object_items
from floe.spec.codecs.single_value import split_variant
from floe.spec.values.civil_time import MICROS, NANOS, date_to_text, time_to_text, timestamp_to_text

_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_DEEPEST: Final = 200


def variant_value(data: bytes) -> Any:
    """The value of a variant: objects as dictionaries, arrays as lists, moments and ids as text, bytes as base64."""
    metadata, value = split_variant(data)
    return _value(value, names_of(metadata), 0)


def _value(data: bytes, names: Sequence[str], depth: int) -> Any:
    if not data or depth > _DEEPEST:
        raise CorruptFile("a variant ends too early, or is nested too deeply")
    basic, header = data[0] & 0x03, data[0] >> 2
    if basic == _SHORT_STRING:
        return _text(data[1 : 1 + header])
    if basic == _OBJECT:
        return {name: _value(item, names, depth + 1) for name, item in object_items(data, names).items()}
    if basic == _ARRAY:
        return [_value(item, names, depth + 1) for item in _items(data)]
    read = _READERS.get(header)
    if read is None:
        raise CorruptFile(f"a variant has no primitive type {header}")
    try:
        return read(data[1:])
    except (struct.error, IndexError, ValueError):
        raise CorruptFile("a value of a variant ends too early") from None


def _items(data: bytes) -> list[bytes]:
    header = data[0] >> 2
    count_width, width = (4 if header & 0x04 else 1), (header & 0x03) + 1
    count = int.from_bytes(data[1 : 1 + count_width], "little")
    first = 1 + count_width
    start = first + (count + 1) * width
    if start > len(data):
        raise CorruptFile(f"an array of a variant claims {count} items, but ends too early for them")
    ends = [int.from_bytes(data[first + n * width : first + (n + 1) * width], "little") for n in range(count + 1)]
    return [data[start + a : start + b] for a, b in pairwise(ends)]


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _number(layout: str) -> Callable[[bytes], Any]:
    return lambda data: struct.unpack_from(layout, data)[0]


def _decimal(width: int) -> Callable[[bytes], Decimal]:
    def read(data: bytes) -> Decimal:
        return Decimal(int.from_bytes(data[1 : 1 + width], "little", signed=True)).scaleb(-data[0])

    return read


def _moment(unit: int, *, utc: bool) -> Callable[[bytes], str]:
    return lambda data: timestamp_to_text(struct.unpack_from("<q", data)[0], unit, utc=utc)


def _sized(data: bytes) -> bytes:
    return data[4 : 4 + struct.unpack_from("<I", data)[0]]


_READERS: Final[dict[int, Callable[[bytes], Any]]] = {
    0: lambda data: None,
    1: lambda data: True,
    2: lambda data: False,
    3: _number("<b"),
    4: _number("<h"),
    5: _number("<i"),
    6: _number("<q"),
    7: _number("<d"),
    8: _decimal(4),
    9: _decimal(8),
    10: _decimal(16),
    11: lambda data: date_to_text(struct.unpack_from("<i", data)[0]),
    12: _moment(MICROS, utc=True),
    13: _moment(MICROS, utc=False),
    14: _number("<f"),
    15: lambda data: base64.b64encode(_sized(data)).decode(),
    16: lambda data: _text(_sized(data)),
    17: lambda data: time_to_text(struct.unpack_from("<q", data)[0], MICROS),
    18: _moment(NANOS, utc=True),
    19: _moment(NANOS, utc=False),
    20: lambda data: str(uuid.UUID(bytes=data[:16])),
}
