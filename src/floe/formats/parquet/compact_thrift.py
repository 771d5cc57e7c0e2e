"""Thrift's compact protocol, read into plain values and written back byte for byte: what a Parquet footer is made of.

Only what footers need: structs, lists, and numbers and strings. Nothing is known of what the fields mean, so whatever
another version of the format adds is kept. `skim` reads one struct of many without what is inside of its fields, which
is several times as fast.

>>> footer = bytes.fromhex("15021c18036162630000")
>>> tree = read_struct(footer)
>>> tree
{1: Value(kind=5, content=1), 2: Value(kind=12, content={1: Value(kind=8, content=b'abc')})}
>>> write_struct(tree) == footer
True
>>> skim(footer, 0)
({1: 1, 2: 3}, 10)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from floe.errors import CorruptFile

__all__ = ["BINARY", "BYTE", "I32", "STRUCT", "Value", "binary_at", "items_at", "read_struct", "skim", "write_struct"]

_TRUE, _FALSE, BYTE, _I16, I32, _I64, _DOUBLE, BINARY, _LIST, _SET, _MAP, STRUCT = range(1, 13)
_MAX_DEPTH = 64


class Value(NamedTuple):
    """A field's value: its kind in the protocol, and a number, bytes, the fields of a struct, or (item kind, items)."""

    kind: int
    content: Any


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise CorruptFile("the footer of a Parquet file ends in the middle of a value")
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        result = shift = 0
        while True:
            byte = self.byte()
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7
            if shift > 63:
                raise CorruptFile("the footer of a Parquet file has a number of more than 64 bits")

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise CorruptFile("the footer of a Parquet file ends in the middle of a value")
        self.at += count
        return self.data[self.at - count : self.at]

    def struct(self, depth: int) -> dict[int, Value]:
        fields: dict[int, Value] = {}
        number = 0
        while head := self.byte():
            kind = head & 0x0F
            number = number + (head >> 4) if head >> 4 else _unzigzag(self.varint())
            fields[number] = Value(kind, self.value(kind, depth))
        return fields

    def value(self, kind: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise CorruptFile("the footer of a Parquet file nests too deep")
        match kind:
            case 1 | 2:
                return None  # a field's kind is its value
            case 3:
                return self.byte()
            case 4 | 5 | 6:
                return _unzigzag(self.varint())
            case 7:
                return self.take(8)
            case 8:
                return self.take(self.varint())
            case 9 | 10:
                return self.items(depth)
            case 12:
                return self.struct(depth + 1)
        raise CorruptFile(f"the footer of a Parquet file has a value of kind {kind}")

    def items(self, depth: int) -> tuple[int, list[Any]]:
        head = self.byte()
        kind, count = head & 0x0F, head >> 4
        if count == 0x0F:
            count = self.varint()
        if count > len(self.data) - self.at:  # each item takes a byte at least
            raise CorruptFile(f"the footer of a Parquet file claims a list of {count} items")
        if kind in (_TRUE, _FALSE):
            return kind, [self.byte() for _ in range(count)]
        return kind, [self.value(kind, depth + 1) for _ in range(count)]


def read_struct(data: bytes) -> dict[int, Value]:
    """The fields of a struct, by their ids."""
    return _Reader(data).struct(0)


def write_struct(fields: dict[int, Value]) -> bytes:
    """The bytes of a struct."""
    out = bytearray()
    _write_struct(out, fields)
    return bytes(out)


def _write_struct(out: bytearray, fields: dict[int, Value]) -> None:
    last = 0
    for number in sorted(fields):
        kind, content = fields[number]
        if 0 < number - last < 16:
            out.append((number - last) << 4 | kind)
        else:
            out.append(kind)
            _write_varint(out, _zigzag(number))
        last = number
        _write_value(out, kind, content)
    out.append(0)


def _write_value(out: bytearray, kind: int, content: Any) -> None:
    match kind:
        case 1 | 2:
            return
        case 3:
            out.append(content)
        case 4 | 5 | 6:
            _write_varint(out, _zigzag(content))
        case 7:
            out += content
        case 8:
            _write_varint(out, len(content))
            out += content
        case 9 | 10:
            _write_items(out, *content)
        case _:
            _write_struct(out, content)


def _write_items(out: bytearray, kind: int, items: list[Any]) -> None:
    if len(items) < 0x0F:
        out.append(len(items) << 4 | kind)
    else:
        out.append(0xF0 | kind)
        _write_varint(out, len(items))
    for item in items:
        if kind in (_TRUE, _FALSE):
            out.append(item)
        else:
            _write_value(out, kind, item)


def _write_varint(out: bytearray, number: int) -> None:
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _zigzag(number: int) -> int:
    return (number << 1) ^ (number >> 63)


def _unzigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


# one struct of many ---------------------------------------------------------------------------------------------------


def skim(data: bytes, at: int, *, until: int = 0, after: int = 0) -> tuple[dict[int, int], int]:
    """The numbers of the struct at a place, by field id, and of its other fields the places; and where the struct ends.

    With `until`, it ends before the value of that field, if there is one; `after` is the field to go on behind.
    """
    fields: dict[int, int] = {}
    number = after
    try:
        while head := data[at]:
            at += 1
            kind = head & 0x0F
            if head > 0x0F:
                number += head >> 4
            else:
                number, at = _varint_at(data, at)
                number = _unzigzag(number)
            if 4 <= kind <= 6:
                value = data[at]
                if value < 0x80:
                    at += 1
                else:
                    value, at = _varint_at(data, at)
                fields[number] = (value >> 1) ^ -(value & 1)
            elif kind <= _FALSE:
                fields[number] = int(kind == _TRUE)
            else:
                fields[number] = at
                if number == until:
                    return fields, at
                at = _after(data, kind, at, 0)
    except IndexError:
        raise CorruptFile("the footer of a Parquet file ends in the middle of a value") from None
    return fields, at + 1


def items_at(data: bytes, at: int) -> tuple[int, int, int]:
    """What kind of items the list at a place has, how many, and where the first of them begins."""
    try:
        head = data[at]
        if head < 0xF0:
            return head & 0x0F, head >> 4, at + 1
        count, at = _varint_at(data, at + 1)
    except IndexError:
        raise CorruptFile("the footer of a Parquet file ends in the middle of a value") from None
    if count > len(data) - at:  # each item takes a byte at least
        raise CorruptFile(f"the footer of a Parquet file claims a list of {count} items")
    return head & 0x0F, count, at


def binary_at(data: bytes, at: int) -> bytes:
    """The bytes at a place, behind their length."""
    try:
        length, at = _varint_at(data, at)
    except IndexError:
        raise CorruptFile("the footer of a Parquet file ends in the middle of a value") from None
    if length > len(data) - at:
        raise CorruptFile("the footer of a Parquet file ends in the middle of a value")
    return data[at : at + length]


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while (byte := data[at]) > 0x7F:
        result |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise CorruptFile("the footer of a Parquet file has a number of more than 64 bits")
    return result | byte << shift, at + 1


def _after(data: bytes, kind: int, at: int, depth: int) -> int:
    """Where the value at a place ends; this and the next are written out, for they run for every value of a footer."""
    if kind == BINARY:
        length = data[at]
        if length < 0x80:
            return at + 1 + length
        length, at = _varint_at(data, at)
        return at + length
    if kind == STRUCT:
        return _after_struct(data, at, depth + 1)
    if kind in (_LIST, _SET):
        kind, count, at = items_at(data, at)
        if kind <= BYTE:
            return at + count
        if kind <= _I64:
            for _ in range(count):
                while data[at] > 0x7F:
                    at += 1
                at += 1
        elif kind == STRUCT:
            for _ in range(count):
                at = _after_struct(data, at, depth + 1)
        else:
            for _ in range(count):
                at = _after(data, kind, at, depth + 1)
        return at
    if kind == _DOUBLE:
        return at + 8
    if kind == BYTE:
        return at + 1
    raise CorruptFile(f"the footer of a Parquet file has a value of kind {kind}")


def _after_struct(data: bytes, at: int, depth: int) -> int:
    if depth > _MAX_DEPTH:
        raise CorruptFile("the footer of a Parquet file nests too deep")
    while head := data[at]:
        at += 1
        if head <= 0x0F:
            at = _varint_at(data, at)[1]
        kind = head & 0x0F
        if BYTE < kind <= _I64:
            while data[at] > 0x7F:
                at += 1
            at += 1
        elif kind == BINARY and (length := data[at]) < 0x80:
            at += 1 + length
        elif kind > _FALSE:
            at = _after(data, kind, at, depth)
    return at + 1
