r"""Avro values, read, skipped and written one at a time (Avro spec: Binary Encoding).

These functions support everything that Avro allows. They are used for manifest lists, which are short, and wherever
`floe.avro.vector_decoder` meets an encoding that it does not support.

Longs are zig-zag encoded, then split into groups of seven bits, the lowest first:

>>> encode_long(-65).hex(), read_long(bytes.fromhex("8101"), 0)
('8101', (-65, 2))

`make_reader` returns a function that takes the bytes and the offset of a value, and returns the value and the offset
where it ends; `make_skipper` returns one that returns the end only. Records are dicts by field name. The counts of
arrays are checked against the number of bytes left before any item is read.

>>> from floe.avro.schemas import build_layout
>>> read = make_reader(build_layout({"type": "array", "items": ["null", "string"]}))
>>> read(b"\x04\x02\x04ab\x00\x00", 0)
(['ab', None], 7)

`make_writer` returns a function that encodes values of an Iceberg type, with the schema that `type_to_avro` makes for
it. Structs are tuples in the order of their fields, maps are dicts, lists are sequences.

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

# Longs --------------------------------------------------------------------------------------------------------

MAX_BYTES = 10
_ENCODED_COUNT = 1 << 14


def _encode_unsigned(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_ENCODED = [_encode_unsigned(n) for n in range(_ENCODED_COUNT)]


def encode_long(value: int) -> bytes:
    """Encode an integer of 64 bits; raises InvalidValue for a larger one.

    >>> encode_long(2**63)
    Traceback (most recent call last):
    floe.errors.InvalidValue: 9223372036854775808 does not fit into an Avro long of 64 bits
    """
    if not -(1 << 63) <= value < 1 << 63:
        raise InvalidValue(f"{value} does not fit into an Avro long of 64 bits")
    zigzag = value << 1 if value >= 0 else ~(value << 1)
    return _ENCODED[zigzag] if zigzag < _ENCODED_COUNT else _encode_unsigned(zigzag)


def read_long(data: bytes, at: int) -> tuple[int, int]:
    r"""Read the integer at an offset; returns it, and the offset where it ends.

    >>> read_long(b"\xff" * 11, 0)
    Traceback (most recent call last):
    floe.errors.CorruptFile: a number of more than 64 bits (position: 0)
    """
    try:
        byte = data[at]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
        value, shift, end = byte & 0x7F, 7, at + 1
        while True:
            byte = data[end]
            end += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if end - at >= MAX_BYTES:
                raise CorruptFile("a number of more than 64 bits", position=at)
    except IndexError:
        raise CorruptFile("the file ends within a number", position=at) from None
    if value >> 64:
        raise CorruptFile("a number of more than 64 bits", position=at)
    return (value >> 1) ^ -(value & 1), end


_MAX_RUN = 1000


@cache
def _match_longs(count: int) -> Callable[[bytes, int], re.Match[bytes] | None]:
    """The match function of a regular expression for so many longs."""
    # possessive, so that a mismatch does not backtrack
    return re.compile(rb"(?:[\x80-\xff]{0,9}+[\x00-\x7f]){%d}+" % count, re.DOTALL).match


def skip_longs(data: bytes, at: int, count: int) -> int:
    """Return the offset behind `count` integers.

    A regular expression finds it, which creates no object per integer.

    >>> skip_longs(bytes.fromhex("028001ff01"), 0, 2)
    3
    """
    offset = at
    while count > 0:
        run = min(count, _MAX_RUN)
        match = _match_longs(run)(data, offset)
        if match is None:
            raise CorruptFile(f"the file ends within {count} numbers, or one has more than 64 bits", position=offset)
        offset = match.end()
        count -= run
    return offset


# Readers ------------------------------------------------------------------------------------------------------

Reader = Callable[[bytes, int], tuple[Any, int]]
Skipper = Callable[[bytes, int], int]


def read_byte_string(data: bytes, at: int) -> tuple[bytes, int]:
    r"""Read the byte string at an offset; returns it, and the offset where it ends.

    >>> read_byte_string(b"\x04abc", 0)
    (b'ab', 3)
    """
    size, at = read_long(data, at)
    if not 0 <= size <= len(data) - at:
        raise CorruptFile(f"a string has a length of {size} bytes, but {len(data) - at} are left", position=at)
    return data[at : at + size], at + size


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    content, end = read_byte_string(data, at)
    try:
        return content.decode(), end
    except UnicodeDecodeError:
        raise CorruptFile("a string is not UTF-8", position=at) from None


def _read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    byte = _take_bytes(data, at, 1)[0]
    if byte > 1:
        raise CorruptFile(f"a boolean must be 0 or 1, found {byte}", position=at)
    return byte == 1, at + 1


def _take_bytes(data: bytes, at: int, size: int) -> bytes:
    content = data[at : at + size]
    if len(content) < size:
        raise CorruptFile(f"the file ends within a value of {size} bytes", position=at)
    return content


def _fixed_reader(size: int) -> Reader:
    return lambda data, at: (_take_bytes(data, at, size), at + size)


def _struct_reader(form: struct.Struct) -> Reader:
    return lambda data, at: (form.unpack(_take_bytes(data, at, form.size))[0], at + form.size)


_READERS: dict[str, Reader] = {
    "null": lambda data, at: (None, at),
    "boolean": _read_boolean,
    "int": read_long,
    "long": read_long,
    "float": _struct_reader(struct.Struct("<f")),
    "double": _struct_reader(struct.Struct("<d")),
    "bytes": read_byte_string,
    "string": _read_string,
}


def make_reader(node: Node) -> Reader:
    """Return a function that reads values of a layout."""
    return _READERS.get(node.kind) or _NESTED_READERS[node.kind](node)


def _record_reader(node: Node) -> Reader:
    children = tuple((child.name, make_reader(child.node)) for child in node.fields)

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        record = {}
        for name, read_child in children:
            record[name], at = read_child(data, at)
        return record, at

    return read


def _union_reader(node: Node) -> Reader:
    branches = tuple(map(make_reader, node.branches))
    return lambda data, at: _read_branch(branches, data, at)


def _read_branch(branches: tuple[Any, ...], data: bytes, at: int) -> Any:
    index, after = read_long(data, at)
    if not 0 <= index < len(branches):
        raise CorruptFile(f"branch {index} of a union of {len(branches)} branches", position=at)
    return branches[index](data, after)


def _enum_reader(node: Node) -> Reader:
    def read(data: bytes, at: int) -> tuple[str, int]:
        index, end = read_long(data, at)
        if not 0 <= index < len(node.symbols):
            raise CorruptFile(f"symbol {index} of an enum of {len(node.symbols)} symbols", position=at)
        return node.symbols[index], end

    return read


def block_head(data: bytes, at: int) -> tuple[int, int, int]:
    r"""Read the head of a block of an array or map: the number of items, and the offsets of their start and end.

    The end is known only for blocks with a negative count, which have their size in bytes; otherwise it is -1. The last
    block has a count of 0.

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
            raise CorruptFile(f"an array block has a size of {size} bytes, but {left} are left", position=begin)
    if count > left:
        raise CorruptFile(f"an array block has a count of {count} items, but {left} bytes are left", position=begin)
    return count, at, end


def check_block_end(at: int, end: int) -> None:
    """Raise CorruptFile if the items of a block end at another offset than its head says."""
    if end not in (-1, at):
        raise CorruptFile(f"the items of an array block end at {at}, its head says {end}", position=at)


def _array_reader(node: Node) -> Reader:
    assert node.items is not None
    read_item = make_reader(node.items)

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        while True:
            count, at, end = block_head(data, at)
            if count == 0:
                return items, at
            for _ in range(count):
                item, at = read_item(data, at)
                items.append(item)
            check_block_end(at, end)

    return read


def _map_reader(node: Node) -> Reader:
    assert node.items is not None
    pairs = make_reader(Node("array", items=_pair_node(node.items)))

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        entries, end = pairs(data, at)
        return {pair["key"]: pair["value"] for pair in entries}, end

    return read


def _pair_node(value_node: Node) -> Node:
    return Node("record", (NodeField("key", None, Node("string")), NodeField("value", None, value_node)))


_NESTED_READERS: dict[str, Callable[[Node], Reader]] = {
    "record": _record_reader,
    "union": _union_reader,
    "enum": _enum_reader,
    "array": _array_reader,
    "map": _map_reader,
    "fixed": lambda node: _fixed_reader(node.size),
}


# Skippers -----------------------------------------------------------------------------------------------------


def make_skipper(node: Node) -> Skipper:
    r"""Return a function that finds the end of a value of a layout without creating an object for it.

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
        return _array_skipper(_pair_node(node.items))
    if node.kind == "record":
        return _record_skipper(node)
    if node.kind == "union":
        branches = tuple(map(_skipper, node.branches))
        return lambda data, at: int(_read_branch(branches, data, at))
    size = {"null": 0, "boolean": 1, "float": 4, "double": 8}.get(node.kind, node.size)
    return lambda data, at: at + len(_take_bytes(data, at, size))


def _skip_bytes(data: bytes, at: int) -> int:
    size, at = read_long(data, at)
    if not 0 <= size <= len(data) - at:
        raise CorruptFile(f"a string has a length of {size} bytes, but {len(data) - at} are left", position=at)
    return at + size


def _record_skipper(node: Node) -> Skipper:
    children = tuple(_skipper(child.node) for child in node.fields)

    def skip(data: bytes, at: int) -> int:
        for skip_child in children:
            at = skip_child(data, at)
        return at

    return skip


def _array_skipper(item: Node) -> Skipper:
    numbers = _longs_per_value(item)
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


def _longs_per_value(node: Node) -> int:
    """How many integers a value has if it consists only of integers; otherwise 0."""
    if node.kind in ("int", "long"):
        return 1
    if node.kind == "record":
        counts = [_longs_per_value(child.node) for child in node.fields]
        return sum(counts) if all(counts) else 0
    return 0


# Writers ------------------------------------------------------------------------------------------------------

Writer = Callable[[Any], bytes]

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def _encode_bytes(value: bytes) -> bytes:
    return encode_long(len(value)) + value


def _encode_string(value: str) -> bytes:
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise InvalidValue(f"a string cannot be encoded as UTF-8: {value!r:.80}") from None
    return encode_long(len(data)) + data


_PRIMITIVE_WRITERS: dict[str, Writer] = {
    "unknown": lambda value: b"",
    "boolean": lambda value: b"\1" if value else b"\0",
    **dict.fromkeys(
        ("int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), encode_long
    ),
    "float": _FLOAT.pack,
    "double": _DOUBLE.pack,
    "string": _encode_string,
    "binary": _encode_bytes,
    "uuid": lambda value: bytes(value.bytes),
}


def make_writer(type_: Type) -> Writer:
    """Return a function that encodes values of a type, which must not be None."""
    if isinstance(type_, StructType):
        return _struct_writer(type_)
    if isinstance(type_, ListType):
        item = make_field_writer(type_.element_field)
        return lambda values: _encode_array([item(value) for value in values])
    if isinstance(type_, MapType):
        key, value = make_writer(type_.key), make_field_writer(type_.value_field)
        return lambda pairs: _encode_array([key(k) + value(v) for k, v in pairs.items()])
    if isinstance(type_, DecimalType):
        return _decimal_writer(type_)
    if isinstance(type_, FixedType):
        return _fixed_writer(type_.length)
    try:
        return _PRIMITIVE_WRITERS[type_.kind]
    except KeyError:
        raise UnsupportedFeature(f"manifests cannot have values of type {type_}") from None


def make_field_writer(child: Field) -> Writer:
    """Return a function that encodes the values of a field: an optional field is a union with null."""
    write_value = make_writer(child.type)
    if child.type.kind == "unknown":
        return write_value
    if child.required:
        return _required_writer(child.name, write_value)
    return lambda value: b"\0" if value is None else b"\2" + write_value(value)


def _required_writer(name: str, write_value: Writer) -> Writer:
    def write(value: Any) -> bytes:
        if value is None:
            raise InvalidInput(f"{name} is required, but it is None")
        return write_value(value)

    return write


def _struct_writer(type_: StructType) -> Writer:
    children = tuple(map(make_field_writer, type_.fields))
    return lambda values: b"".join([write(value) for write, value in zip(children, values, strict=True)])


def _encode_array(items: list[bytes]) -> bytes:
    return b"".join([encode_long(len(items)), *items, b"\0"]) if items else b"\0"


def _fixed_writer(length: int) -> Writer:
    def write(value: bytes) -> bytes:
        if len(value) != length:
            raise InvalidValue(f"a value of fixed[{length}] must have {length} bytes, found {len(value)}")
        return bytes(value)

    return write


def _decimal_writer(type_: DecimalType) -> Writer:
    width = bytes_for_precision(type_.precision)

    def write(value: Any) -> bytes:
        unscaled = unscaled_value(value, type_.scale)
        if unscaled is None or abs(unscaled) >= 10**type_.precision:
            raise InvalidValue(f"{value} is not a value of type {type_}")
        return unscaled.to_bytes(width, "big", signed=True)

    return write
