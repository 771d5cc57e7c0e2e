r"""Any Avro value, read or skipped by its layout, exactly and one at a time.

This is the plain way: for manifest lists, which are short, and for what columns cannot hold. A reader takes the bytes
and a place, and gives the value and the place behind it; a skipper gives the place alone.

>>> from floe.avro.schemas import layout_of
>>> read = reader(layout_of({"type": "array", "items": ["null", "string"]}))
>>> read(b"\x04\x02\x04ab\x00\x00", 0)
(['ab', None], 7)

Records are dicts by name. The counts of arrays are checked against the bytes that are left before anything is read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from floe.avro.schemas import Node, NodeField
from floe.avro.varints import read_long, skip_longs
from floe.errors import CorruptFile

__all__ = ["Reader", "Skipper", "block_head", "check_block_end", "read_byte_string", "reader", "skipper"]

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


def reader(node: Node) -> Reader:
    """What reads values of a layout."""
    return _READERS.get(node.kind) or _NESTED[node.kind](node)


def _record_reader(node: Node) -> Reader:
    children = tuple((child.name, reader(child.node)) for child in node.fields)

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        found = {}
        for name, read_child in children:
            found[name], at = read_child(data, at)
        return found, at

    return read


def _union_reader(node: Node) -> Reader:
    branches = tuple(map(reader, node.branches))
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
    read_item = reader(node.items)

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
    pairs = reader(Node("array", items=_pair(node.items)))

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


def skipper(node: Node) -> Skipper:
    r"""What finds the end of a value of a layout, and makes no object of it.

    >>> from floe.avro.schemas import layout_of
    >>> skipper(layout_of({"type": "array", "items": "long"}))(b"\x04\x02\x80\x01\x00", 0)
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
