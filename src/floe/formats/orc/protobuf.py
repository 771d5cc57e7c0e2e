r"""Protocol Buffers as bytes: the little of it that the tail of an ORC file needs.

A message is a sequence of fields, each with a number and a value: a number (varint), eight or four bytes, or a byte
string, which may be a message again. Fields that nobody asks for are passed over, as the format wants it.

>>> message = write_fields([(1, 150), (2, b"abc")])
>>> message.hex(), read_fields(message)
('0896011203616263', {1: [150], 2: [b'abc']})
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from floe.errors import CorruptFile

__all__ = ["Message", "Value", "bytes_of", "numbers_of", "one_number", "read_fields", "signed", "write_fields"]

Value = int | bytes
Message = dict[int, list[Value]]

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_MAX_VARINT_BITS = 70
_WORD = 2**64 - 1


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift >= _MAX_VARINT_BITS:
            raise CorruptFile("a number of the file's tail is cut off or too long", position=at)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _WORD, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            number, at = _read_varint(data, at)
            yield key >> 3, number
            continue
        if kind == _BYTES:
            size, at = _read_varint(data, at)
        elif kind in (_EIGHT, _FOUR):
            size = 8 if kind == _EIGHT else 4
        else:
            raise CorruptFile(f"a field of the unknown kind {kind} in the file's tail", position=at)
        if size > len(data) - at:
            raise CorruptFile(f"a field of {size} bytes in the file's tail, and {len(data) - at} are left", position=at)
        yield key >> 3, data[at : at + size]
        at += size


def read_fields(data: bytes) -> Message:
    """The values of a message by field number, in their order."""
    found: Message = {}
    for number, value in _fields(data):
        found.setdefault(number, []).append(value)
    return found


def one_number(message: Message, field: int, default: int = 0) -> int:
    """The number of a field: the last one, if there are several.

    >>> one_number({1: [5, 6]}, 1), one_number({}, 1)
    (6, 0)
    """
    value = message.get(field, [default])[-1]
    if not isinstance(value, int):
        raise CorruptFile(f"field {field} of the file's tail must be a number")
    return value


def numbers_of(message: Message, field: int) -> list[int]:
    r"""The numbers of a repeated field, packed into byte strings or not.

    >>> numbers_of({2: [b"\x01\x02", 3]}, 2)
    [1, 2, 3]
    """
    found: list[int] = []
    for value in message.get(field, ()):
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = _read_varint(value, at)
            found.append(number)
    return found


def bytes_of(message: Message, field: int) -> list[bytes]:
    """The byte strings of a repeated field.

    >>> bytes_of({3: [b"a", b"b"]}, 3)
    [b'a', b'b']
    """
    found: list[bytes] = []
    for value in message.get(field, ()):
        if not isinstance(value, bytes):
            raise CorruptFile(f"field {field} of the file's tail must be text or a message")
        found.append(value)
    return found


def signed(number: int) -> int:
    """A number that was stored in zig-zag form.

    >>> [signed(n) for n in (0, 1, 2)]
    [0, -1, 1]
    """
    return (number >> 1) ^ -(number & 1)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def write_fields(fields: Iterable[tuple[int, int | float | bytes]]) -> bytes:
    """The message of some fields; floats are written as eight bytes."""
    parts: list[bytes] = []
    for number, value in fields:
        if isinstance(value, bytes):
            parts += (_varint(number << 3 | _BYTES), _varint(len(value)), value)
        elif isinstance(value, float):
            parts += (_varint(number << 3 | _EIGHT), struct.pack("<d", value))
        else:
            parts += (_varint(number << 3 | _VARINT), _varint(value))
    return b"".join(parts)
