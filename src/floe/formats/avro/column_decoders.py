r"""Avro values gathered into Arrow arrays: each column takes its values from the bytes of one row after another.

A gatherer knows how to take one value (`take`, from a place in the bytes to the place behind it), how to take a null,
and how to make an array of what it has. Lengths and counts are checked where they are read; whether a value goes beyond
the bytes is found at the end of the block, or by the index that fails.

>>> from floe.avro.schemas import build_layout
>>> from floe.spec.types import STRING
>>> stored = FileField("names", "list", None, None, (FileField("element", "string", STRING),))
>>> column = gatherer(build_layout({"type": "array", "items": ["null", "string"]}), stored)
>>> column.take(b"\x04\x02\x04ab\x00\x00", 0)
7
>>> column.array().to_pylist()
[['ab', None]]
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from floe.avro.records import block_head, check_block_end, make_skipper, read_long
from floe.avro.schemas import Node, NodeField
from floe.errors import CorruptFile, UnsupportedFeature
from floe.formats.arrow_arrays import struct_array, validity_buffer
from floe.formats.arrow_types import arrow_type
from floe.formats.file_columns import EVERYTHING, Selection
from floe.spec.schemas.name_mapping import FileField
from floe.spec.types import BINARY, UUID, DecimalType, Type

_SMALL = [(n >> 1) ^ -(n & 1) for n in range(128)]
_MILLIS = ("time-millis", "timestamp-millis", "local-timestamp-millis")
_MAX_ITEMS = 2**31 - 1
_Maker = Callable[[Node, FileField, Selection], "Gatherer"]


class Gatherer(Protocol):
    """One column, or part of one."""

    def take(self, data: bytes, at: int, /) -> int:
        """Take the value at a place; the place behind it."""

    def take_null(self) -> None:
        """Take a null."""

    def array(self) -> pa.Array:
        """What was taken since the last time."""


def gatherer(node: Node, column: FileField, selection: Selection = EVERYTHING) -> Gatherer:
    """What gathers the selected parts of a column's values, which have a layout."""
    return _KINDS[node.kind](node, column, selection)


# single values --------------------------------------------------------------------------------------------------------


class _Values:
    """Values that are kept as Python's until they become an array."""

    def __init__(self, finish: Callable[[list[Any]], pa.Array]) -> None:
        self.values: list[Any] = []
        self._finish = finish

    def take_null(self) -> None:
        self.values.append(None)

    def array(self) -> pa.Array:
        values, self.values = self.values, []
        try:
            return self._finish(values)
        except (pa.ArrowException, OverflowError) as error:
            raise CorruptFile(f"values that their type does not allow: {str(error)[:200]}") from None


class _Longs(_Values):
    def take(self, data: bytes, at: int) -> int:
        byte = data[at]
        if byte < 0x80:
            self.values.append(_SMALL[byte])
            return at + 1
        value, at = read_long(data, at)
        self.values.append(value)
        return at


class _Booleans(_Values):
    def take(self, data: bytes, at: int) -> int:
        byte = data[at]
        if byte > 1:
            raise CorruptFile(f"a boolean must be 0 or 1, found {byte}", position=at)
        self.values.append(byte == 1)
        return at + 1


class _Strings(_Values):
    def take(self, data: bytes, at: int) -> int:
        byte = data[at]
        if byte < 0x80 and not byte & 1:
            end = at + 1 + (byte >> 1)
            self.values.append(data[at + 1 : end])
            return end
        size, at = read_long(data, at)
        if not 0 <= size <= len(data) - at:
            raise CorruptFile(f"a string of {size} bytes, and {len(data) - at} are left", position=at)
        self.values.append(data[at : at + size])
        return at + size


class _Fixed(_Values):
    def __init__(self, size: int, finish: Callable[[list[Any]], pa.Array]) -> None:
        super().__init__(finish)
        self._size = size

    def take(self, data: bytes, at: int) -> int:
        end = at + self._size
        self.values.append(data[at:end])
        return end


class _Enums(_Values):
    def __init__(self, symbols: tuple[str, ...]) -> None:
        super().__init__(lambda values: pa.array(values, pa.string()))
        self._symbols = symbols

    def take(self, data: bytes, at: int) -> int:
        index, end = read_long(data, at)
        if not 0 <= index < len(self._symbols):
            raise CorruptFile(f"symbol {index} of an enum of {len(self._symbols)}", position=at)
        self.values.append(self._symbols[index])
        return end


class _Nulls:
    def __init__(self, node: Node, column: FileField, selection: Selection) -> None:
        self._count = 0

    def take(self, data: bytes, at: int) -> int:
        self._count += 1
        return at

    def take_null(self) -> None:
        self._count += 1

    def array(self) -> pa.Array:
        count, self._count = self._count, 0
        return pa.nulls(count)


def _stored(column: FileField) -> Type:
    assert column.stored is not None
    return column.stored


def _logical(node: Node) -> str | None:
    return node.declared.get("logicalType") if isinstance(node.declared, dict) else None


def _longs(node: Node, column: FileField, selection: Selection) -> Gatherer:
    wanted = arrow_type(_stored(column))
    if _logical(node) in _MILLIS and not pa.types.is_integer(wanted):
        return _Longs(lambda values: _scaled(values).view(wanted))
    number = pa.int32() if wanted.bit_width == 32 else pa.int64()
    return _Longs(lambda values: pa.array(values, number).view(wanted))


def _scaled(milliseconds: list[int | None]) -> pa.Array:
    return pa.array([None if value is None else value * 1000 for value in milliseconds], pa.int64())


def _strings(node: Node, column: FileField, selection: Selection) -> Gatherer:
    if column.kind == "uuid":
        return _Strings(_uuids)
    return _Strings(lambda values: pa.array(values, pa.binary()).cast(pa.string()))


def _uuids(values: list[bytes | None]) -> pa.Array:
    try:
        found = [None if value is None else uuid.UUID(value.decode()).bytes for value in values]
    except ValueError as error:
        raise CorruptFile(f"a text that is no uuid: {error}") from None
    return pa.array(found, arrow_type(UUID))


def _bytes(node: Node, column: FileField, selection: Selection) -> Gatherer:
    type_ = _stored(column)
    if isinstance(type_, DecimalType):
        return _Strings(lambda values: _decimals(type_, [_widened(value) for value in values]))
    return _Strings(lambda values: pa.array(values, pa.binary()))


def _widened(value: bytes | None) -> bytes | None:
    """A number of any size as one of sixteen bytes."""
    if value is None:
        return None
    return int.from_bytes(value, "big", signed=True).to_bytes(16, "big", signed=True)


def _fixed(node: Node, column: FileField, selection: Selection) -> Gatherer:
    type_ = _stored(column)
    if isinstance(type_, DecimalType):
        return _Fixed(node.size, lambda values: _decimals(type_, values, node.size))
    return _Fixed(node.size, lambda values: pa.array(values, pa.binary(node.size)))


def _decimals(type_: DecimalType, values: list[bytes | None], width: int = 16) -> pa.Array:
    """Decimals from numbers with the highest byte first."""
    if width > 16 or width == 0:
        return _decimals(type_, [_widened(value) for value in values])
    stored = pa.array(values, pa.binary(width))
    raw = np.frombuffer(stored.buffers()[1] or b"", np.uint8, len(stored) * width).reshape(len(stored), width)
    return decimals_of(type_, raw, stored.buffers()[0])


def decimals_of(type_: DecimalType, raw: NDArray[np.uint8], validity: pa.Buffer | None) -> pa.Array:
    """Decimals from numbers of up to 16 bytes, the highest first: a row for each, and which of them are there.

    >>> decimals_of(DecimalType(9, 2), np.array([[0x30, 0x39]], np.uint8), None).to_pylist()
    [Decimal('123.45')]
    """
    width = raw.shape[1]
    wide = np.empty((len(raw), 16), np.uint8)
    wide[:, :width] = raw[:, ::-1]
    wide[:, width:] = np.where(raw[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    array = pa.Array.from_buffers(arrow_type(type_), len(raw), [validity, pa.py_buffer(wide)])
    array.validate(full=True)  # whether the numbers have as many digits as they may
    return array


def _floats(type_: pa.DataType) -> _Maker:
    width = type_.bit_width // 8

    def finish(values: list[bytes | None]) -> pa.Array:
        stored = pa.array(values, pa.binary(width))
        return pa.Array.from_buffers(type_, len(stored), stored.buffers(), stored.null_count)

    return lambda node, column, selection: _Fixed(width, finish)


# nested values --------------------------------------------------------------------------------------------------------


class _Optional:
    """A union of one layout and null."""

    def __init__(self, inner: Gatherer, null: int) -> None:
        self._inner = inner
        self._take, self.take_null, self.array = inner.take, inner.take_null, inner.array
        self._null, self._other = null << 1, (1 - null) << 1

    def take(self, data: bytes, at: int) -> int:
        branch = data[at]
        if branch == self._other:
            return self._take(data, at + 1)
        if branch == self._null:
            self.take_null()
            return at + 1
        index, after = read_long(data, at)  # in a longer form than it needs, which Avro allows
        if index not in (0, 1):
            raise CorruptFile(f"branch {index} of a union of 2", position=at)
        if index << 1 == self._other:
            return self._take(data, after)
        self.take_null()
        return after


class _Alone:
    """A union of one layout."""

    def __init__(self, inner: Gatherer) -> None:
        self.take_null, self.array, self._take = inner.take_null, inner.array, inner.take

    def take(self, data: bytes, at: int) -> int:
        index, after = read_long(data, at)
        if index != 0:
            raise CorruptFile(f"branch {index} of a union of 1", position=at)
        return self._take(data, after)


def _union(node: Node, column: FileField, selection: Selection) -> Gatherer:
    nulls = [place for place, branch in enumerate(node.branches) if branch.kind == "null"]
    if len(node.branches) == 1:
        return _Alone(gatherer(node.branches[0], column, selection))
    if len(node.branches) != 2 or len(nulls) != 1:
        raise UnsupportedFeature(f"an Avro union of {len(node.branches)} schemas other than one and null")
    return _Optional(gatherer(node.branches[1 - nulls[0]], column, selection), nulls[0])


class _Records:
    def __init__(self, node: Node, column: FileField, selection: Selection) -> None:
        places = selection.places(len(node.fields))
        columns = column.children if column.kind != "variant" else _variant_parts(node)
        self._children = [
            gatherer(node.fields[place].node, columns[place], _inside(selection, place)) for place in places
        ]
        self._names = [node.fields[place].name for place in places]
        chosen = dict(zip(places, self._children, strict=True))
        self._steps = [
            chosen[place].take if place in chosen else make_skipper(child.node)
            for place, child in enumerate(node.fields)
        ]
        self._known: list[bool] = []

    def take(self, data: bytes, at: int) -> int:
        for step in self._steps:
            at = step(data, at)
        self._known.append(True)
        return at

    def take_null(self) -> None:
        for child in self._children:
            child.take_null()
        self._known.append(False)

    def array(self) -> pa.Array:
        known, self._known = self._known, []
        children = [child.array() for child in self._children]
        fields = [pa.field(name, child.type) for name, child in zip(self._names, children, strict=True)]
        return struct_array(pa.struct(fields), children, len(known), None if all(known) else known)


def _inside(selection: Selection, place: int) -> Selection:
    return EVERYTHING if selection.children is None else selection.children[place]


def _variant_parts(node: Node) -> list[FileField]:
    names = [child.name for child in node.fields]
    if sorted(names) != ["metadata", "value"] or any(child.node.kind != "bytes" for child in node.fields):
        raise CorruptFile(f"a variant is stored as metadata and value, found {', '.join(names[:12]) or 'nothing'}")
    return [FileField(name, BINARY.kind, BINARY) for name in names]


class _Lists:
    """The items of arrays; those of a map are two gatherers side by side."""

    def __init__(self, item: Callable[[bytes, int], int]) -> None:
        self._item = item
        self._count = 0
        self._ends = [0]
        self._known: list[bool] = []

    def take(self, data: bytes, at: int) -> int:
        while True:
            count, at, end = block_head(data, at)
            if count == 0:
                break
            for _ in range(count):
                at = self._item(data, at)
            self._count += count
            check_block_end(at, end)
        if self._count > _MAX_ITEMS:
            raise CorruptFile("a batch has more than 2**31 - 1 items in its lists or maps")
        self._ends.append(self._count)
        self._known.append(True)
        return at

    def take_null(self) -> None:
        self._ends.append(self._count)
        self._known.append(False)

    def made(self, type_: pa.DataType, items: pa.Array) -> pa.Array:
        known, ends = self._known, self._ends
        self._count, self._ends, self._known = 0, [0], []
        buffers = [validity_buffer(None if all(known) else known), pa.py_buffer(np.array(ends, np.int32))]
        return pa.Array.from_buffers(type_, len(known), buffers, children=[items])


class _Arrays(_Lists):
    def __init__(self, items: Gatherer) -> None:
        super().__init__(items.take)
        self._items = items

    def array(self) -> pa.Array:
        items = self._items.array()
        return self.made(pa.list_(items.type), items)


class _Maps(_Lists):
    def __init__(self, pairs: _Records) -> None:
        super().__init__(pairs.take)
        self._pairs = pairs

    def array(self) -> pa.Array:
        pairs = self._pairs.array()
        key, value = pairs.field(0), pairs.field(1)
        entries = struct_array(
            pa.struct([pa.field("key", key.type, False), pa.field("value", value.type)]), [key, value], len(pairs)
        )
        return self.made(pa.map_(key.type, value.type), entries)


def _array(node: Node, column: FileField, selection: Selection) -> Gatherer:
    assert node.items is not None
    if column.kind == "map":
        return _Maps(_Records(node.items, column, selection))
    return _Arrays(gatherer(node.items, column.children[0], _inside(selection, 0)))


def _map(node: Node, column: FileField, selection: Selection) -> Gatherer:
    assert node.items is not None
    key, value = NodeField("key", None, Node("string", declared="string")), NodeField("value", None, node.items)
    return _Maps(_Records(Node("record", (key, value)), column, selection))


_KINDS: dict[str, _Maker] = {
    "null": _Nulls,
    "boolean": lambda node, column, selection: _Booleans(lambda values: pa.array(values, pa.bool_())),
    "int": _longs,
    "long": _longs,
    "float": _floats(pa.float32()),
    "double": _floats(pa.float64()),
    "bytes": _bytes,
    "string": _strings,
    "fixed": _fixed,
    "enum": lambda node, column, selection: _Enums(node.symbols),
    "record": _Records,
    "array": _array,
    "map": _map,
    "union": _union,
}
