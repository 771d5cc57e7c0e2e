"""Avro's numbers, one at a time: zig-zag, then seven bits in each byte, the lowest first (Avro spec: Binary Encoding).

>>> encode_long(-65).hex(), read_long(bytes.fromhex("8101"), 0)
('8101', (-65, 2))
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from floe.errors import CorruptFile, InvalidValue

__all__ = ["encode_long", "read_long", "skip_longs"]

MAX_BYTES = 10
_SMALL = 1 << 14


def _unsigned(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_TABLE = [_unsigned(n) for n in range(_SMALL)]


def encode_long(value: int) -> bytes:
    """The bytes of a number of 64 bits.

    >>> encode_long(2**63)
    Traceback (most recent call last):
    floe.errors.InvalidValue: Avro numbers have 64 bits; 9223372036854775808 does not fit
    """
    if not -(1 << 63) <= value < 1 << 63:
        raise InvalidValue(f"Avro numbers have 64 bits; {value} does not fit")
    zigzag = value << 1 if value >= 0 else ~(value << 1)
    return _TABLE[zigzag] if zigzag < _SMALL else _unsigned(zigzag)


def read_long(data: bytes, at: int) -> tuple[int, int]:
    r"""The number that starts at a place, and where it ends.

    >>> read_long(b"\xff" * 11, 0)
    Traceback (most recent call last):
    floe.errors.CorruptFile: a number of more than 64 bits (position: 0)
    """
    try:
        byte = data[at]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
        value, shift, place = byte & 0x7F, 7, at + 1
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if place - at >= MAX_BYTES:
                raise CorruptFile("a number of more than 64 bits", position=at)
    except IndexError:
        raise CorruptFile("the file ends within a number", position=at) from None
    if value >> 64:
        raise CorruptFile("a number of more than 64 bits", position=at)
    return (value >> 1) ^ -(value & 1), place


_RUN = 1000


@cache
def _run_of(count: int) -> Callable[[bytes, int], re.Match[bytes] | None]:
    # possessive, so that a mismatch is found without trying the bytes again
    return re.compile(rb"(?:[\x80-\xff]{0,9}+[\x00-\x7f]){%d}+" % count, re.DOTALL).match


def skip_longs(data: bytes, at: int, count: int) -> int:
    """The end of that many numbers; the search runs in C, and makes no object for any of them.

    >>> skip_longs(bytes.fromhex("028001ff01"), 0, 2)
    3
    """
    place = at
    while count > 0:
        run = min(count, _RUN)
        found = _run_of(run)(data, place)
        if found is None:
            raise CorruptFile(f"the file ends within {count} numbers, or one of them is too long", position=place)
        place = found.end()
        count -= run
    return place
