r"""Decoders of Avro columns: each appends the values of its column, row by row, and returns them as an Arrow array.

A decoder decodes a value (`read`: from the offset of the value to the offset after it), appends a null (`add_null`),
and returns an array of what it has (`array`). Lengths and counts are checked where they are read; values that extend
beyond the bytes are detected at the end of the block, or by an `IndexError`.

>>> from floe.avro.schemas import build_layout
>>> from floe.spec.types import STRING
>>> stored = FileField("names", "list", None, None, (FileField("element", "string", STRING),))
>>> decoder = column_decoder(build_layout({"type": "array", "items": ["null", "string"]}), stored)
>>> decoder.read(b"\x04\x02\x04ab\x00\x00", 0)
7
>>> decoder.array().to_pylist()
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
from floe.formats.columns.arrays import struct_array, validity_buffer
from floe.formats.columns.arrow_types import arrow_type
from floe.formats.columns.file_columns import EVERYTHING, Selection
from floe.spec.schemas.name_mapping import FileField
from floe.spec.types import BINARY, UUID, DecimalType, Type

_ONE_BYTE_LONGS = [(n >> 1) ^ -(n & 1) for n in range(128)]
_MILLIS = ("time-millis", "timestamp-millis", "local-timestamp-millis")
_MAX_ITEMS = 2**31 - 1
_DecoderFactory = Callable[[Node, FileField, Selection], "ColumnDecoder"]


class ColumnDecoder(Protocol):
    """Decodes a column, or a part of one."""

    def read(self, data: bytes, offset: int, /) -> int:
        """Decode and append the value at an offset; returns the offset after it."""

    def add_null(self) -> None:
        """Append a null."""

    def array(self) -> pa.Array:
        """The array of the values that were appended since the last call."""


def column_decoder(node: Node, column: FileField, selection: Selection = EVERYTHING) -> ColumnDecoder:
    """The decoder of the selected parts of a column, for the layout of its values."""
    return _DECODERS[node.kind](node, column, selection)


# Primitive types ------------------------------------------------------------------------------------------------------


class _ValueDecoder:
    """Appends Python values to a list, which is converted to an array at the end."""

    def __init__(self, finish: Callable[[list[Any]], pa.Array]) -> None:
        self.values: list[Any] = []
        self._finish = finish

    def add_null(self) -> None:
        self.values.append(None)

    def array(self) -> pa.Array:
        values, self.values = self.values, []
        try:
            return self._finish(values)
        except (pa.ArrowException, OverflowError) as error:
            raise CorruptFile(f"the file has values that do not fit their type: {str(error)[:200]}") from None


class _LongDecoder(_ValueDecoder):
    def read(self, data: bytes, offset: int) -> int:
        byte = data[offset]
        if byte < 0x80:
            self.values.append(_ONE_BYTE_LONGS[byte])
            return offset + 1
        value, offset = read_long(data, offset)
        self.values.append(value)
        return offset


class _BooleanDecoder(_ValueDecoder):
    def read(self, data: bytes, offset: int) -> int:
        byte = data[offset]
        if byte > 1:
            raise CorruptFile(f"a boolean must be 0 or 1, found {byte}", position=offset)
        self.values.append(byte == 1)
        return offset + 1


class _BytesDecoder(_ValueDecoder):
    def read(self, data: bytes, offset: int) -> int:
        byte = data[offset]
        if byte < 0x80 and not byte & 1:
            end = offset + 1 + (byte >> 1)
            self.values.append(data[offset + 1 : end])
            return end
        size, offset = read_long(data, offset)
        if not 0 <= size <= len(data) - offset:
            raise CorruptFile(f"the file has a string of {size} bytes with {len(data) - offset} left", position=offset)
        self.values.append(data[offset : offset + size])
        return offset + size


class _FixedDecoder(_ValueDecoder):
    def __init__(self, size: int, finish: Callable[[list[Any]], pa.Array]) -> None:
        super().__init__(finish)
        self._size = size

    def read(self, data: bytes, offset: int) -> int:
        end = offset + self._size
        self.values.append(data[offset:end])
        return end


class _EnumDecoder(_ValueDecoder):
    def __init__(self, symbols: tuple[str, ...]) -> None:
        super().__init__(lambda values: pa.array(values, pa.string()))
        self._symbols = symbols

    def read(self, data: bytes, offset: int) -> int:
        index, end = read_long(data, offset)
        if not 0 <= index < len(self._symbols):
            raise CorruptFile(f"the file has symbol {index} of an enum of {len(self._symbols)}", position=offset)
        self.values.append(self._symbols[index])
        return end


class _NullDecoder:
    def __init__(self, node: Node, column: FileField, selection: Selection) -> None:
        self._count = 0

    def read(self, data: bytes, offset: int) -> int:
        self._count += 1
        return offset

    def add_null(self) -> None:
        self._count += 1

    def array(self) -> pa.Array:
        count, self._count = self._count, 0
        return pa.nulls(count)


def _stored(column: FileField) -> Type:
    assert column.stored is not None
    return column.stored


def _logical(node: Node) -> str | None:
    return node.declared.get("logicalType") if isinstance(node.declared, dict) else None


def _long_decoder(node: Node, column: FileField, selection: Selection) -> ColumnDecoder:
    target = arrow_type(_stored(column))
    if _logical(node) in _MILLIS and not pa.types.is_integer(target):
        return _LongDecoder(lambda values: _to_micros(values).view(target))
    integers = pa.int32() if target.bit_width == 32 else pa.int64()
    return _LongDecoder(lambda values: pa.array(values, integers).view(target))


def _to_micros(milliseconds: list[int | None]) -> pa.Array:
    return pa.array([None if value is None else value * 1000 for value in milliseconds], pa.int64())


def _string_decoder(node: Node, column: FileField, selection: Selection) -> ColumnDecoder:
    if column.kind == "uuid":
        return _BytesDecoder(_uuid_array)
    return _BytesDecoder(lambda values: pa.array(values, pa.binary()).cast(pa.string()))


def _uuid_array(values: list[bytes | None]) -> pa.Array:
    try:
        encoded = [None if value is None else uuid.UUID(value.decode()).bytes for value in values]
    except ValueError as error:
        raise CorruptFile(f"the file has a text that is not a UUID: {error}") from None
    return pa.array(encoded, arrow_type(UUID))


def _bytes_decoder(node: Node, column: FileField, selection: Selection) -> ColumnDecoder:
    type_ = _stored(column)
    if isinstance(type_, DecimalType):
        return _BytesDecoder(lambda values: _decimal_array(type_, [_to_16_bytes(value) for value in values]))
    return _BytesDecoder(lambda values: pa.array(values, pa.binary()))


def _to_16_bytes(value: bytes | None) -> bytes | None:
    """A big-endian number of any size as one of 16 bytes."""
    if value is None:
        return None
    return int.from_bytes(value, "big", signed=True).to_bytes(16, "big", signed=True)


def _fixed_decoder(node: Node, column: FileField, selection: Selection) -> ColumnDecoder:
    type_ = _stored(column)
    if isinstance(type_, DecimalType):
        return _FixedDecoder(node.size, lambda values: _decimal_array(type_, values, node.size))
    return _FixedDecoder(node.size, lambda values: pa.array(values, pa.binary(node.size)))


def _decimal_array(type_: DecimalType, values: list[bytes | None], width: int = 16) -> pa.Array:
    """Decimals from big-endian unscaled values."""
    if width > 16 or width == 0:
        return _decimal_array(type_, [_to_16_bytes(value) for value in values])
    stored = pa.array(values, pa.binary(width))
    raw = np.frombuffer(stored.buffers()[1] or b"", np.uint8, len(stored) * width).reshape(len(stored), width)
    return decimals_of(type_, raw, stored.buffers()[0])


def decimals_of(type_: DecimalType, raw: NDArray[np.uint8], validity: pa.Buffer | None) -> pa.Array:
    """Decimals from a matrix of big-endian unscaled values of up to 16 bytes, with a validity bitmap.

    >>> decimals_of(DecimalType(9, 2), np.array([[0x30, 0x39]], np.uint8), None).to_pylist()
    [Decimal('123.45')]
    """
    width = raw.shape[1]
    wide = np.empty((len(raw), 16), np.uint8)
    wide[:, :width] = raw[:, ::-1]
    wide[:, width:] = np.where(raw[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    array = pa.Array.from_buffers(arrow_type(type_), len(raw), [validity, pa.py_buffer(wide)])
    array.validate(full=True)  # the precision of the values
    return array


def _float_decoder(type_: pa.DataType) -> _DecoderFactory:
    width = type_.bit_width // 8

    def finish(values: list[bytes | None]) -> pa.Array:
        stored = pa.array(values, pa.binary(width))
        return pa.Array.from_buffers(type_, len(stored), stored.buffers(), stored.null_count)

    return lambda node, column, selection: _FixedDecoder(width, finish)


# Nested types ---------------------------------------------------------------------------------------------------------


class _OptionalDecoder:
    """A union of a layout and null."""

    def __init__(self, inner: ColumnDecoder, null: int) -> None:
        self._inner = inner
        self._read, self.add_null, self.array = inner.read, inner.add_null, inner.array
        self._null, self._other = null << 1, (1 - null) << 1

    def read(self, data: bytes, offset: int) -> int:
        branch = data[offset]
        if branch == self._other:
            return self._read(data, offset + 1)
        if branch == self._null:
            self.add_null()
            return offset + 1
        index, after = read_long(data, offset)  # a longer form than necessary, which Avro allows
        if index not in (0, 1):
            raise CorruptFile(f"the file has branch {index} of a union of 2", position=offset)
        if index << 1 == self._other:
            return self._read(data, after)
        self.add_null()
        return after


class _SingleUnionDecoder:
    """A union of a single layout."""

    def __init__(self, inner: ColumnDecoder) -> None:
        self.add_null, self.array, self._read = inner.add_null, inner.array, inner.read

    def read(self, data: bytes, offset: int) -> int:
        index, after = read_long(data, offset)
        if index != 0:
            raise CorruptFile(f"the file has branch {index} of a union of 1", position=offset)
        return self._read(data, after)


def _union_decoder(node: Node, column: FileField, selection: Selection) -> ColumnDecoder:
    nulls = [index for index, branch in enumerate(node.branches) if branch.kind == "null"]
    if len(node.branches) == 1:
        return _SingleUnionDecoder(column_decoder(node.branches[0], column, selection))
    if len(node.branches) != 2 or len(nulls) != 1:
        raise UnsupportedFeature(
            f"an Avro union of {len(node.branches)} schemas cannot be read, only one of a schema and null"
        )
    return _OptionalDecoder(column_decoder(node.branches[1 - nulls[0]], column, selection), nulls[0])


class _RecordDecoder:
    def __init__(self, node: Node, column: FileField, selection: Selection) -> None:
        indices = selection.indices(len(node.fields))
        columns = column.children if column.kind != "variant" else _variant_parts(node)
        self._children = [
            column_decoder(node.fields[index].node, columns[index], _child_selection(selection, index))
            for index in indices
        ]
        self._names = [node.fields[index].name for index in indices]
        chosen = dict(zip(indices, self._children, strict=True))
        self._steps = [
            chosen[index].read if index in chosen else make_skipper(child.node)
            for index, child in enumerate(node.fields)
        ]
        self._valid: list[bool] = []

    def read(self, data: bytes, offset: int) -> int:
        for step in self._steps:
            offset = step(data, offset)
        self._valid.append(True)
        return offset

    def add_null(self) -> None:
        for child in self._children:
            child.add_null()
        self._valid.append(False)

    def array(self) -> pa.Array:
        valid, self._valid = self._valid, []
        children = [child.array() for child in self._children]
        fields = [pa.field(name, child.type) for name, child in zip(self._names, children, strict=True)]
        return struct_array(pa.struct(fields), children, len(valid), None if all(valid) else valid)


def _child_selection(selection: Selection, index: int) -> Selection:
    return EVERYTHING if selection.children is None else selection.children[index]


def _variant_parts(node: Node) -> list[FileField]:
    names = [child.name for child in node.fields]
    if sorted(names) != ["metadata", "value"] or any(child.node.kind != "bytes" for child in node.fields):
        raise CorruptFile(f"a variant is stored as metadata and value, found {', '.join(names[:12]) or 'nothing'}")
    return [FileField(name, BINARY.kind, BINARY) for name in names]


class _ItemsDecoder:
    """Decodes lists, by a function that decodes an item; subclasses have the decoder of the items."""

    def __init__(self, read_item: Callable[[bytes, int], int]) -> None:
        self._read_item = read_item
        self._count = 0
        self._ends = [0]
        self._valid: list[bool] = []

    def read(self, data: bytes, offset: int) -> int:
        while True:
            count, offset, end = block_head(data, offset)
            if count == 0:
                break
            for _ in range(count):
                offset = self._read_item(data, offset)
            self._count += count
            check_block_end(offset, end)
        if self._count > _MAX_ITEMS:
            raise CorruptFile("a batch has more than 2**31 - 1 items in its lists or maps")
        self._ends.append(self._count)
        self._valid.append(True)
        return offset

    def add_null(self) -> None:
        self._ends.append(self._count)
        self._valid.append(False)

    def list_array(self, type_: pa.DataType, items: pa.Array) -> pa.Array:
        valid, ends = self._valid, self._ends
        self._count, self._ends, self._valid = 0, [0], []
        buffers = [validity_buffer(None if all(valid) else valid), pa.py_buffer(np.array(ends, np.int32))]
        return pa.Array.from_buffers(type_, len(valid), buffers, children=[items])


class _ArrayDecoder(_ItemsDecoder):
    def __init__(self, items: ColumnDecoder) -> None:
        super().__init__(items.read)
        self._items = items

    def array(self) -> pa.Array:
        items = self._items.array()
        return self.list_array(pa.list_(items.type), items)


class _MapDecoder(_ItemsDecoder):
    def __init__(self, pairs: _RecordDecoder) -> None:
        super().__init__(pairs.read)
        self._pairs = pairs

    def array(self) -> pa.Array:
        pairs = self._pairs.array()
        key, value = pairs.field(0), pairs.field(1)
        entries = struct_array(
            pa.struct([pa.field("key", key.type, False), pa.field("value", value.type)]), [key, value], len(pairs)
        )
        return self.list_array(pa.map_(key.type, value.type), entries)


def _array_decoder(node: Node, column: FileField, selection: Selection) -> ColumnDecoder:
    assert node.items is not None
    if column.kind == "map":
        return _MapDecoder(_RecordDecoder(node.items, column, selection))
    return _ArrayDecoder(column_decoder(node.items, column.children[0], _child_selection(selection, 0)))


def _map_decoder(node: Node, column: FileField, selection: Selection) -> ColumnDecoder:
    assert node.items is not None
    key, value = NodeField("key", None, Node("string", declared="string")), NodeField("value", None, node.items)
    return _MapDecoder(_RecordDecoder(Node("record", (key, value)), column, selection))


_DECODERS: dict[str, _DecoderFactory] = {
    "null": _NullDecoder,
    "boolean": lambda node, column, selection: _BooleanDecoder(lambda values: pa.array(values, pa.bool_())),
    "int": _long_decoder,
    "long": _long_decoder,
    "float": _float_decoder(pa.float32()),
    "double": _float_decoder(pa.float64()),
    "bytes": _bytes_decoder,
    "string": _string_decoder,
    "fixed": _fixed_decoder,
    "enum": lambda node, column, selection: _EnumDecoder(node.symbols),
    "record": _RecordDecoder,
    "array": _array_decoder,
    "map": _map_decoder,
    "union": _union_decoder,
}
