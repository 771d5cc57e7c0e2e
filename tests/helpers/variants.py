"""Variants taken apart into Python values in the corpus's canonical form (Parquet: Variant Binary Encoding)."""

import struct
import uuid
from decimal import Decimal
from itertools import pairwise
from typing import Any

from floe.spec.values.civil_time import MICROS, NANOS, date_to_text, timestamp_to_text


def canonical_variant(metadata: bytes, value: bytes) -> Any:
    """The value: objects as dictionaries, arrays as lists, all other values but booleans and null as texts."""
    width = (metadata[0] >> 6) + 1
    count = _uint(metadata, 1, width)
    at = 1 + width
    ends = [_uint(metadata, at + n * width, width) for n in range(count + 1)]
    base = at + (count + 1) * width
    names = [metadata[base + a : base + b].decode() for a, b in pairwise(ends)]
    return _value(names, value, 0)


def _uint(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(data[at : at + width], "little")


def _value(names: list[str], data: bytes, at: int) -> Any:
    basic, header = data[at] & 3, data[at] >> 2
    at += 1
    if basic == 0:
        return _primitive(header, data, at)
    if basic == 1:
        return data[at : at + header].decode()
    if basic == 2:
        large, id_width, width = header >> 4 & 1, (header >> 2 & 3) + 1, (header & 3) + 1
    else:
        large, id_width, width = header >> 2 & 1, 0, (header & 3) + 1
    count = _uint(data, at, 4 if large else 1)
    ids = at + (4 if large else 1)
    offsets = ids + count * id_width
    base = offsets + (count + 1) * width
    items = [_value(names, data, base + _uint(data, offsets + n * width, width)) for n in range(count)]
    if basic == 3:
        return items
    return {names[_uint(data, ids + n * id_width, id_width)]: item for n, item in enumerate(items)}


def _moment(ticks: int, suffix: str) -> Any:
    def text(data: bytes) -> str:
        whole, rest = divmod(struct.unpack("<q", data[:8])[0], ticks)
        return f"{timestamp_to_text(whole, 1)}.{rest:0{len(str(ticks)) - 1}d}{suffix}"

    return text


def _decimal(width: int) -> Any:
    def text(data: bytes) -> str:
        unscaled = int.from_bytes(data[1 : 1 + width], "little", signed=True)
        return f"{Decimal(unscaled).scaleb(-data[0]):.{data[0]}f}"

    return text


def _number(layout: str) -> Any:
    def text(data: bytes) -> str:
        value = struct.unpack(layout, data[: struct.calcsize(layout)])[0]
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))

    return text


_PRIMITIVES: dict[int, Any] = {
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
    11: lambda data: date_to_text(struct.unpack("<i", data[:4])[0]),
    12: _moment(MICROS, "+00:00"),
    13: _moment(MICROS, ""),
    14: _number("<f"),
    15: lambda data: data[4 : 4 + _uint(data, 0, 4)].hex(),
    16: lambda data: data[4 : 4 + _uint(data, 0, 4)].decode(),
    17: lambda data: _moment(MICROS, "")(data).split("T")[1],
    18: _moment(NANOS, "+00:00"),
    19: _moment(NANOS, ""),
    20: lambda data: str(uuid.UUID(bytes=data[:16])),
}


def _primitive(header: int, data: bytes, at: int) -> Any:
    return _PRIMITIVES[header](data[at:])
