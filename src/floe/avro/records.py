r"""Any Avro value, read or skipped by its layout, exactly and one at a time.

This is the plain way: for manifest lists, which are short, and for what columns cannot hold. A reader takes the bytes
and a place, and gives the value and the place behind it; a skipper gives the place alone.

>>> from floe.avro.schemas import build_layout
>>> read = make_reader(build_layout({"type": "array", "items": ["null", "string"]}))
>>> read(b"\x04\x02\x04ab\x00\x00", 0)
(['ab', None], 7)

Records are dicts by name. The counts of arrays are checked against the bytes that are left before anything is read.

Avro's numbers, one at a time: zig-zag, then seven bits in each byte, the lowest first (Avro spec: Binary Encoding).

>>> encode_long(-65).hex(), read_long(bytes.fromhex("8101"), 0)
('8101', (-65, 2))

Values as Avro bytes, by their type: the exact counterpart of `type_to_avro`, one value at a time.

Structs are tuples in the order of their fields here; maps are dicts, lists are sequences.

>>> from floe.spec.types import INT, STRING, Field
>>> write = make_writer(StructType((Field(1, "a", INT, required=True), Field(2, "b", STRING))))
>>> write((3, "x")), write((3, None))
(b'\x06\x02\x02x', b'\x06\x00')
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from floe.avro.schemas import Node, NodeField
from floe.errors import CorruptFile, InvalidInput, InvalidValue, UnsupportedFeature
from floe.spec.types import DecimalType, Field, FixedType, ListType, MapType, StructType, Type
from floe.spec.values.exact_numbers import bytes_for_precision, unscaled_value

# Avro's numbers, one at a time: zig-zag, then seven bits in each byte, the lowest first (Avro spec: Binary Encoding).

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


Reader = Callable[[bytes, int], tuple[Any, int]]
Skipper = Callable[[bytes, int], int]


def read_byte_string(data: bytes, at: int) -> tuple[bytes, int]:
    r"""The byte string at a place: its length, and its bytes.

    >>> read_byte_string(b"\x04abc", 0)
    (b'ab', 3)
    """
    size, at = read_long(data, at)
    if not 0 <= size <= len(data) - at:
        raise CorruptFile(f"a string of {size} bytes, and {len(data) - at} are left", position=at)
    return data[at : at + size], at + size


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    found, end = read_byte_string(data, at)
    try:
        return found.decode(), end
    except UnicodeDecodeError:
        raise CorruptFile("a string is not UTF-8", position=at) from None


def _read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    byte = _taken(data, at, 1)[0]
    if byte > 1:
        raise CorruptFile(f"a boolean must be 0 or 1, found {byte}", position=at)
    return byte == 1, at + 1


def _taken(data: bytes, at: int, size: int) -> bytes:
    found = data[at : at + size]
    if len(found) < size:
        raise CorruptFile(f"the file ends within a value of {size} bytes", position=at)
    return found


def _fixed(size: int) -> Reader:
    return lambda data, at: (_taken(data, at, size), at + size)


def _number(form: struct.Struct) -> Reader:
    return lambda data, at: (form.unpack(_taken(data, at, form.size))[0], at + form.size)


_READERS: dict[str, Reader] = {
    "null": lambda data, at: (None, at),
    "boolean": _read_boolean,
    "int": read_long,
    "long": read_long,
    "float": _number(struct.Struct("<f")),
    "double": _number(struct.Struct("<d")),
    "bytes": read_byte_string,
    "string": _read_string,
}


def make_reader(node: Node) -> Reader:
    """What reads values of a layout."""
    return _READERS.get(node.kind) or _NESTED[node.kind](node)


def _record_reader(node: Node) -> Reader:
    children = tuple((child.name, make_reader(child.node)) for child in node.fields)

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        found = {}
        for name, read_child in children:
            found[name], at = read_child(data, at)
        return found, at

    return read


def _union_reader(node: Node) -> Reader:
    branches = tuple(map(make_reader, node.branches))
    return lambda data, at: _branch(branches, data, at)


def _branch(branches: tuple[Any, ...], data: bytes, at: int) -> Any:
    index, after = read_long(data, at)
    if not 0 <= index < len(branches):
        raise CorruptFile(f"branch {index} of a union of {len(branches)}", position=at)
    return branches[index](data, after)


def _enum_reader(node: Node) -> Reader:
    def read(data: bytes, at: int) -> tuple[str, int]:
        index, end = read_long(data, at)
        if not 0 <= index < len(node.symbols):
            raise CorruptFile(f"symbol {index} of an enum of {len(node.symbols)}", position=at)
        return node.symbols[index], end

    return read


def block_head(data: bytes, at: int) -> tuple[int, int, int]:
    r"""The head of one block of an array or map: how many items it has, where they begin, and where they must end.

    A negative count comes with the block's size in bytes; else the end is -1, as only reading tells. The last block
    has a count of 0.

    >>> block_head(b"\x03\x04\x02\x02\x00", 0), block_head(b"\x00", 0)
    ((2, 2, 4), (0, 1, -1))
    """
    begin = at
    count, at = read_long(data, at)
    left, end = len(data) - at, -1
    if count < 0:
        count = -count
        size, at = read_long(data, at)
        left, end = len(data) - at, at + size
        if not 0 <= size <= left:
            raise CorruptFile(f"an array block of {size} bytes, and {left} are left", position=begin)
    if count > left:
        raise CorruptFile(f"an array block of {count} items, and {left} bytes are left", position=begin)
    return count, at, end


def check_block_end(at: int, end: int) -> None:
    """Raise CorruptFile if a block of an array ends elsewhere than its head says."""
    if end not in (-1, at):
        raise CorruptFile("an array block has not the size that it is said to have", position=at)


def _array_reader(node: Node) -> Reader:
    assert node.items is not None
    read_item = make_reader(node.items)

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        while True:
            count, at, end = block_head(data, at)
            if count == 0:
                return found, at
            for _ in range(count):
                item, at = read_item(data, at)
                found.append(item)
            check_block_end(at, end)

    return read


def _map_reader(node: Node) -> Reader:
    assert node.items is not None
    pairs = make_reader(Node("array", items=_pair(node.items)))

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        found, end = pairs(data, at)
        return {pair["key"]: pair["value"] for pair in found}, end

    return read


def _pair(value: Node) -> Node:
    return Node("record", (NodeField("key", None, Node("string")), NodeField("value", None, value)))


_NESTED: dict[str, Callable[[Node], Reader]] = {
    "record": _record_reader,
    "union": _union_reader,
    "enum": _enum_reader,
    "array": _array_reader,
    "map": _map_reader,
    "fixed": lambda node: _fixed(node.size),
}


# skipping -----------------------------------------------------------------------------------------------------


def make_skipper(node: Node) -> Skipper:
    r"""What finds the end of a value of a layout, and makes no object of it.

    >>> from floe.avro.schemas import build_layout
    >>> make_skipper(build_layout({"type": "array", "items": "long"}))(b"\x04\x02\x80\x01\x00", 0)
    5
    """
    return _skipper(node)


def _skipper(node: Node) -> Skipper:
    if node.kind in ("int", "long", "enum"):
        return lambda data, at: read_long(data, at)[1]
    if node.kind in ("bytes", "string"):
        return _skip_bytes
    if node.kind == "array":
        assert node.items is not None
        return _array_skipper(node.items)
    if node.kind == "map":
        assert node.items is not None
        return _array_skipper(_pair(node.items))
    if node.kind == "record":
        return _record_skipper(node)
    if node.kind == "union":
        branches = tuple(map(_skipper, node.branches))
        return lambda data, at: int(_branch(branches, data, at))
    size = {"null": 0, "boolean": 1, "float": 4, "double": 8}.get(node.kind, node.size)
    return lambda data, at: at + len(_taken(data, at, size))


def _skip_bytes(data: bytes, at: int) -> int:
    size, at = read_long(data, at)
    if not 0 <= size <= len(data) - at:
        raise CorruptFile(f"a string of {size} bytes, and {len(data) - at} are left", position=at)
    return at + size


def _record_skipper(node: Node) -> Skipper:
    children = tuple(_skipper(child.node) for child in node.fields)

    def skip(data: bytes, at: int) -> int:
        for skip_child in children:
            at = skip_child(data, at)
        return at

    return skip


def _array_skipper(item: Node) -> Skipper:
    numbers = _numbers_in(item)
    skip_item = _skipper(item)

    def skip(data: bytes, at: int) -> int:
        while True:
            count, at, end = block_head(data, at)
            if count == 0:
                return at
            if numbers:
                at = skip_longs(data, at, count * numbers)
            else:
                for _ in range(count):
                    at = skip_item(data, at)
            check_block_end(at, end)

    return skip


def _numbers_in(node: Node) -> int:
    """Of how many numbers a value consists, if of nothing else; else 0."""
    if node.kind in ("int", "long"):
        return 1
    if node.kind == "record":
        parts = [_numbers_in(child.node) for child in node.fields]
        return sum(parts) if all(parts) else 0
    return 0


# Values as Avro bytes, by their type: the exact counterpart of `type_to_avro`, one value at a time.

Writer = Callable[[Any], bytes]

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def _bytes(value: bytes) -> bytes:
    return encode_long(len(value)) + value


def _string(value: str) -> bytes:
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise InvalidValue(f"a string that UTF-8 cannot hold: {value!r:.80}") from None
    return encode_long(len(data)) + data


_PLAIN: dict[str, Writer] = {
    "unknown": lambda value: b"",
    "boolean": lambda value: b"\1" if value else b"\0",
    **dict.fromkeys(
        ("int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), encode_long
    ),
    "float": _FLOAT.pack,
    "double": _DOUBLE.pack,
    "string": _string,
    "binary": _bytes,
    "uuid": lambda value: bytes(value.bytes),
}


def make_writer(type_: Type) -> Writer:
    """What writes values of a type that are not null."""
    if isinstance(type_, StructType):
        return _struct(type_)
    if isinstance(type_, ListType):
        item = make_field_writer(type_.element_field)
        return lambda values: _blocks([item(value) for value in values])
    if isinstance(type_, MapType):
        key, value = make_writer(type_.key), make_field_writer(type_.value_field)
        return lambda pairs: _blocks([key(k) + value(v) for k, v in pairs.items()])
    if isinstance(type_, DecimalType):
        return _decimal(type_)
    if isinstance(type_, FixedType):
        return _write_fixed(type_.length)
    try:
        return _PLAIN[type_.kind]
    except KeyError:
        raise UnsupportedFeature(f"values of type {type_} are not written into manifests") from None


def make_field_writer(child: Field) -> Writer:
    """What writes the values of a field: behind the byte of a union, if it may be null."""
    own = make_writer(child.type)
    if child.type.kind == "unknown":
        return own
    if child.required:
        return _required(child.name, own)
    return lambda value: b"\0" if value is None else b"\2" + own(value)


def _required(name: str, own: Writer) -> Writer:
    def write(value: Any) -> bytes:
        if value is None:
            raise InvalidInput(f"{name} is required, and there is none")
        return own(value)

    return write


def _struct(type_: StructType) -> Writer:
    children = tuple(map(make_field_writer, type_.fields))
    return lambda values: b"".join([write(value) for write, value in zip(children, values, strict=True)])


def _blocks(items: list[bytes]) -> bytes:
    return b"".join([encode_long(len(items)), *items, b"\0"]) if items else b"\0"


def _write_fixed(length: int) -> Writer:
    def write(value: bytes) -> bytes:
        if len(value) != length:
            raise InvalidValue(f"a value of fixed[{length}] must have {length} bytes, found {len(value)}")
        return bytes(value)

    return write


def _decimal(type_: DecimalType) -> Writer:
    width = bytes_for_precision(type_.precision)

    def write(value: Any) -> bytes:
        unscaled = unscaled_value(value, type_.scale)
        if unscaled is None or abs(unscaled) >= 10**type_.precision:
            raise InvalidValue(f"{value} is not a value of type {type_}")
        return unscaled.to_bytes(width, "big", signed=True)

    return write
