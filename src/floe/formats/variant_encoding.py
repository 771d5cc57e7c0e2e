"""The bytes of variants, put together and taken apart (Parquet: Variant Binary Encoding).

A variant is a dictionary of names, its *metadata*, and a *value*, which refers to the names by number. What is here
builds values of single types, objects and arrays, and looks into objects; it is what shredded files need.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from floe.errors import CorruptFile

__all__ = ["NULL_VALUE", "encode_array", "encode_object", "encode_primitive", "names_of", "object_items"]

NULL_VALUE = b"\x00"
"""The value that is null; unlike a variant that is not there at all."""

_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_SHORT_STRING_BYTES = 63
_VERSION = 1


def names_of(metadata: bytes) -> tuple[str, ...]:
    r"""The names in a dictionary, by number.

    >>> names_of(b"\x01\x02\x00\x01\x03abc")
    ('a', 'bc')
    """
    if not metadata or metadata[0] & 0x0F != _VERSION:
        raise CorruptFile(
            f"the metadata of a variant has version {_VERSION}, found {bytes(metadata[:1]).hex() or None}"
        )
    width = (metadata[0] >> 6) + 1
    count = int.from_bytes(metadata[1 : 1 + width], "little")
    first = 1 + width
    strings = first + (count + 1) * width
    if strings > len(metadata):
        raise CorruptFile(f"the metadata of a variant claims {count} names, but ends too early for them")
    ends = _numbers(metadata, first, count + 1, width)
    if any(a > b for a, b in pairwise(ends)) or strings + ends[-1] > len(metadata):
        raise CorruptFile("the names of a variant do not lie within its metadata")
    try:
        return tuple(metadata[strings + start : strings + end].decode() for start, end in pairwise(ends))
    except UnicodeDecodeError:
        raise CorruptFile("a name in the metadata of a variant is not UTF-8") from None


def object_items(value: bytes, names: Sequence[str]) -> dict[str, bytes]:
    r"""The fields of an object, by name, or CorruptFile if the value is no object.

    >>> object_items(b"\x02\x01\x00\x00\x02\x0c\x07", ("a",))
    {'a': b'\x0c\x07'}
    """
    if not value or value[0] & 0x03 != _OBJECT:
        raise CorruptFile("a partly shredded variant must be an object")
    header = value[0] >> 2
    count_width = 4 if header & 0x10 else 1
    id_width, offset_width = ((header >> 2) & 0x03) + 1, (header & 0x03) + 1
    count = int.from_bytes(value[1 : 1 + count_width], "little")
    ids_at = 1 + count_width
    offsets_at = ids_at + count * id_width
    data_at = offsets_at + (count + 1) * offset_width
    if data_at > len(value):
        raise CorruptFile(f"an object of a variant claims {count} fields, but ends too early for them")
    ids = _numbers(value, ids_at, count, id_width)
    offsets = _numbers(value, offsets_at, count + 1, offset_width)
    # values need not lie in the order of the fields, so each ends where the next one in the bytes begins
    ends = dict(pairwise(sorted(offsets)))
    items = {}
    for number, start in zip(ids, offsets, strict=False):
        if number >= len(names) or start not in ends or data_at + ends[start] > len(value):
            raise CorruptFile("a field of a variant's object lies outside of it")
        items[names[number]] = value[data_at + start : data_at + ends[start]]
    return items


def encode_object(items: Mapping[str, bytes], numbers: Mapping[str, int]) -> bytes:
    """The value of an object with these fields; all names must be in the dictionary.

    >>> object_items(encode_object({"b": b"x", "a": b"yz"}, {"a": 0, "b": 1}), ("a", "b"))
    {'a': b'yz', 'b': b'x'}
    """
    ordered = sorted(items, key=str.encode)
    try:
        ids = [numbers[name] for name in ordered]
    except KeyError as error:
        raise CorruptFile(f"the metadata of a variant lacks the name {error.args[0]!r:.80}") from None
    offsets, data = _joined(items[name] for name in ordered)
    id_width, offset_width = _width(max(ids, default=0)), _width(offsets[-1])
    large = len(ids) > 0xFF
    header = (large << 4) | ((id_width - 1) << 2) | (offset_width - 1)
    head = bytes([header << 2 | _OBJECT]) + len(ids).to_bytes(4 if large else 1, "little")
    return head + _bytes_of(ids, id_width) + _bytes_of(offsets, offset_width) + data


def encode_array(values: Sequence[bytes]) -> bytes:
    r"""The value of an array of values.

    >>> encode_array([b"\x00", b"\x0c\x07"]).hex()
    '0302000103000c07'
    """
    offsets, data = _joined(values)
    width, large = _width(offsets[-1]), len(values) > 0xFF
    head = bytes([((large << 2) | (width - 1)) << 2 | _ARRAY]) + len(values).to_bytes(4 if large else 1, "little")
    return head + _bytes_of(offsets, width) + data


def encode_primitive(kind: str, value: Any) -> bytes:
    """The value of one of the single types, by the name that the encoding has for it.

    >>> encode_primitive("int8", 7).hex(), encode_primitive("string", "a").hex(), encode_primitive("true", None).hex()
    ('0c07', '0561', '04')
    """
    if kind == "string":
        data: bytes = value.encode()
        if len(data) <= _SHORT_STRING_BYTES:
            return bytes([len(data) << 2 | _SHORT_STRING]) + data
    number, body = _KINDS[kind]
    return bytes([number << 2 | _PRIMITIVE]) + body(value)


def _packed(layout: str) -> Callable[[Any], bytes]:
    return struct.Struct(layout).pack


def _sized(value: bytes) -> bytes:
    return len(value).to_bytes(4, "little") + value


def _decimal(width: int) -> Callable[[tuple[int, int]], bytes]:
    return lambda value: bytes([value[0]]) + value[1].to_bytes(width, "little", signed=True)


_KINDS: dict[str, tuple[int, Callable[[Any], bytes]]] = {
    "null": (0, lambda value: b""),
    "true": (1, lambda value: b""),
    "false": (2, lambda value: b""),
    "int8": (3, _packed("<b")),
    "int16": (4, _packed("<h")),
    "int32": (5, _packed("<i")),
    "int64": (6, _packed("<q")),
    "double": (7, _packed("<d")),
    "decimal4": (8, _decimal(4)),
    "decimal8": (9, _decimal(8)),
    "decimal16": (10, _decimal(16)),
    "date": (11, _packed("<i")),
    "timestamptz": (12, _packed("<q")),
    "timestamp": (13, _packed("<q")),
    "float": (14, _packed("<f")),
    "binary": (15, _sized),
    "string": (16, lambda value: _sized(value.encode())),
    "time": (17, _packed("<q")),
    "timestamptz_ns": (18, _packed("<q")),
    "timestamp_ns": (19, _packed("<q")),
    "uuid": (20, bytes),
}


def _numbers(data: bytes, start: int, count: int, width: int) -> list[int]:
    return [int.from_bytes(data[at : at + width], "little") for at in range(start, start + count * width, width)]


def _bytes_of(numbers: Iterable[int], width: int) -> bytes:
    return b"".join(number.to_bytes(width, "little") for number in numbers)


def _joined(values: Iterable[bytes]) -> tuple[list[int], bytes]:
    offsets, parts = [0], []
    for value in values:
        parts.append(value)
        offsets.append(offsets[-1] + len(value))
    return offsets, b"".join(parts)


def _width(largest: int) -> int:
    return max(1, (largest.bit_length() + 7) // 8)
