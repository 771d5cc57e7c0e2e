"""The footer of a Parquet file: its row groups and statistics, and Thrift's compact protocol.

The footer is parsed here because pyarrow aborts the process when the metadata of a column is inconsistent: a histogram
of the wrong length, statistics that are too short, a column that is encrypted or one too many. pyarrow's reader of rows
raises an error for the same footer. So pyarrow reads the rows, and what must be known before is read here (Parquet:
FileMetaData, ColumnMetaData, Statistics).

`read_struct` and `write_struct` convert a struct of the protocol to plain values and back, byte for byte. They know
nothing about the meaning of fields, so fields of later versions of the format are preserved. `skim` reads the numbers
of a struct and skips over its nested values, which is several times as fast.

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

import io
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, NamedTuple

from floe.errors import CorruptFile, UnsupportedFeature

# Thrift's compact protocol --------------------------------------------------------------------------------------------

_TRUE, _FALSE, BYTE, _I16, I32, _I64, _DOUBLE, BINARY, _LIST, _SET, _MAP, STRUCT = range(1, 13)
_MAX_DEPTH = 64


class Value(NamedTuple):
    """The value of a field: its kind in the protocol, and a number, bytes, struct fields, or (item kind, items)."""

    kind: int
    content: Any


class _StructReader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.offset = 0

    def byte(self) -> int:
        if self.offset >= len(self.data):
            raise CorruptFile("the footer of a Parquet file ends in the middle of a value")
        self.offset += 1
        return self.data[self.offset - 1]

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
        if count > len(self.data) - self.offset:
            raise CorruptFile("the footer of a Parquet file ends in the middle of a value")
        self.offset += count
        return self.data[self.offset - count : self.offset]

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
                return None  # the kind of the field is its value
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
        if count > len(self.data) - self.offset:  # each item takes at least a byte
            raise CorruptFile(f"the footer of a Parquet file claims a list of {count} items")
        if kind in (_TRUE, _FALSE):
            return kind, [self.byte() for _ in range(count)]
        return kind, [self.value(kind, depth + 1) for _ in range(count)]


def read_struct(data: bytes) -> dict[int, Value]:
    """Parse a struct; returns its fields by id."""
    return _StructReader(data).struct(0)


def write_struct(fields: dict[int, Value]) -> bytes:
    """Serialize the fields of a struct."""
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


# Skimming -------------------------------------------------------------------------------------------------------------


def skim(data: bytes, offset: int, *, until: int = 0, after: int = 0) -> tuple[dict[int, int], int]:
    """Read the struct at an offset: numbers by field id, and the offsets of the values of other fields.

    Returns these, and the offset after the struct. With `until`, reading stops before the value of that field, whose
    offset is returned; with `after`, it continues after the value of that field.
    """
    fields: dict[int, int] = {}
    number = after
    try:
        while head := data[offset]:
            offset += 1
            kind = head & 0x0F
            if head > 0x0F:
                number += head >> 4
            else:
                number, offset = _varint_at(data, offset)
                number = _unzigzag(number)
            if 4 <= kind <= 6:
                value = data[offset]
                if value < 0x80:
                    offset += 1
                else:
                    value, offset = _varint_at(data, offset)
                fields[number] = (value >> 1) ^ -(value & 1)
            elif kind <= _FALSE:
                fields[number] = int(kind == _TRUE)
            else:
                fields[number] = offset
                if number == until:
                    return fields, offset
                offset = _end_of_value(data, kind, offset, 0)
    except IndexError:
        raise CorruptFile("the footer of a Parquet file ends in the middle of a value") from None
    return fields, offset + 1


def items_at(data: bytes, offset: int) -> tuple[int, int, int]:
    """The kind and number of the items of the list at an offset, and the offset of the first."""
    try:
        head = data[offset]
        if head < 0xF0:
            return head & 0x0F, head >> 4, offset + 1
        count, offset = _varint_at(data, offset + 1)
    except IndexError:
        raise CorruptFile("the footer of a Parquet file ends in the middle of a value") from None
    if count > len(data) - offset:  # each item takes at least a byte
        raise CorruptFile(f"the footer of a Parquet file claims a list of {count} items")
    return head & 0x0F, count, offset


def binary_at(data: bytes, offset: int) -> bytes:
    """The length-prefixed bytes at an offset."""
    try:
        length, offset = _varint_at(data, offset)
    except IndexError:
        raise CorruptFile("the footer of a Parquet file ends in the middle of a value") from None
    if length > len(data) - offset:
        raise CorruptFile("the footer of a Parquet file ends in the middle of a value")
    return data[offset : offset + length]


def _varint_at(data: bytes, offset: int) -> tuple[int, int]:
    result = shift = 0
    while (byte := data[offset]) > 0x7F:
        result |= (byte & 0x7F) << shift
        shift += 7
        offset += 1
        if shift > 63:
            raise CorruptFile("the footer of a Parquet file has a number of more than 64 bits")
    return result | byte << shift, offset + 1


def _end_of_value(data: bytes, kind: int, offset: int, depth: int) -> int:
    """The offset after the value at an offset.

    This function and the next are unrolled, because they run for every value of a footer.
    """
    if kind == BINARY:
        length = data[offset]
        if length < 0x80:
            return offset + 1 + length
        length, offset = _varint_at(data, offset)
        return offset + length
    if kind == STRUCT:
        return _end_of_struct(data, offset, depth + 1)
    if kind in (_LIST, _SET):
        kind, count, offset = items_at(data, offset)
        if kind <= BYTE:
            return offset + count
        if kind <= _I64:
            for _ in range(count):
                while data[offset] > 0x7F:
                    offset += 1
                offset += 1
        elif kind == STRUCT:
            for _ in range(count):
                offset = _end_of_struct(data, offset, depth + 1)
        else:
            for _ in range(count):
                offset = _end_of_value(data, kind, offset, depth + 1)
        return offset
    if kind == _DOUBLE:
        return offset + 8
    if kind == BYTE:
        return offset + 1
    raise CorruptFile(f"the footer of a Parquet file has a value of kind {kind}")


def _end_of_struct(data: bytes, offset: int, depth: int) -> int:
    if depth > _MAX_DEPTH:
        raise CorruptFile("the footer of a Parquet file nests too deep")
    while head := data[offset]:
        offset += 1
        if head <= 0x0F:
            offset = _varint_at(data, offset)[1]
        kind = head & 0x0F
        if BYTE < kind <= _I64:
            while data[offset] > 0x7F:
                offset += 1
            offset += 1
        elif kind == BINARY and (length := data[offset]) < 0x80:
            offset += 1 + length
        elif kind > _FALSE:
            offset = _end_of_value(data, kind, offset, depth)
    return offset + 1


# Row groups -----------------------------------------------------------------------------------------------------------

_MAGIC: Final = b"PAR1"
_ENCRYPTED: Final = b"PARE"
_LENGTH_AND_MAGIC: Final = 8
_FIRST_READ_BYTES: Final = 64 * 1024
"""How much of the end is read first; a longer footer takes a second read."""

_ROW_GROUPS, _COLUMN_ORDERS = 4, 7
_COLUMNS, _ROWS = 1, 3
_METADATA = 3
_VALUES, _SIZE, _DATA_PAGE, _DICTIONARY_PAGE, _STATISTICS = 5, 7, 9, 11, 12
_OLD_MAX, _OLD_MIN, _NULLS, _MAX, _MIN = 1, 2, 3, 5, 6
_BY_TYPE = 1


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a file, with its footer."""

    file_size: int
    data: bytes
    """The footer, its length and the magic bytes."""

    @property
    def footer(self) -> bytes:
        """The footer without its length and the magic bytes."""
        return self.data[:-_LENGTH_AND_MAGIC]


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """A leaf column of a row group."""

    size: int
    values: int
    nulls: int | None
    bounds: tuple[bytes, bytes] | None
    """Lower and upper bounds of the values, in the plain encoding."""

    by_type: bool
    """Whether the bounds follow the order of the column's type; old writers compared all as signed numbers or bytes."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group: its rows, offset and size in bytes, and the requested columns."""

    rows: int
    start: int
    size: int
    columns: dict[int, ColumnChunk]
    """The requested columns, by index among the leaf columns of the file."""


def read_tail(stream: BinaryIO) -> Tail:
    """Read the end of a file, with the whole footer; raises `CorruptFile` if it is not a Parquet file.

    >>> read_tail(io.BytesIO(b"PAR1"))
    Traceback (most recent call last):
    floe.errors.CorruptFile: a Parquet file of 4 bytes is too short
    """
    size = stream.seek(0, io.SEEK_END)
    if size < _LENGTH_AND_MAGIC + len(_MAGIC):
        raise CorruptFile(f"a Parquet file of {size} bytes is too short")
    data = _read_end(stream, size, _FIRST_READ_BYTES)
    if data[-4:] == _ENCRYPTED:
        raise UnsupportedFeature(
            "the Parquet file is encrypted by Parquet's modular encryption, which is not supported"
        )
    if data[-4:] != _MAGIC:
        raise CorruptFile(f"the file does not end as a Parquet file does: found {data[-4:]!r} instead of {_MAGIC!r}")
    needed = int.from_bytes(data[-_LENGTH_AND_MAGIC:-4], "little") + _LENGTH_AND_MAGIC
    if needed > size - len(_MAGIC):
        raise CorruptFile(f"the Parquet file has {size} bytes, but a footer of {needed} bytes")
    if needed > len(data):
        data = _read_end(stream, size, needed)
    return Tail(size, bytes(memoryview(data)[len(data) - needed :]))


def _read_end(stream: BinaryIO, size: int, count: int) -> bytes:
    count = min(count, size)
    stream.seek(size - count)
    data = bytearray()
    while len(data) < count and (more := stream.read(count - len(data))):
        data += more
    if len(data) < count:
        raise CorruptFile(f"the Parquet file should have {size} bytes, and ends {count - len(data)} before")
    return bytes(data)


def first_page(data_page: int, dictionary_page: int | None) -> int:
    """The offset of the first page of a column: that of its dictionary, if it has one."""
    if dictionary_page is not None and 0 < dictionary_page < data_page:
        return dictionary_page
    return data_page


def read_row_groups(footer: bytes, leaves: Collection[int] = ()) -> list[RowGroup]:
    """The row groups of a footer, each with the leaf columns at some indices."""
    top, offset = skim(footer, 0, until=_ROW_GROUPS)
    if _ROW_GROUPS not in top:
        raise CorruptFile("the footer of the Parquet file has no row groups")
    count, offset = _struct_list(footer, offset)
    groups, chosen = [], []
    for _ in range(count):
        fields, offset = skim(footer, offset, until=_COLUMNS)
        if _COLUMNS not in fields:
            raise CorruptFile("the footer of the Parquet file has a row group without columns")
        columns, offset = _struct_list(footer, offset)
        start, size, requested = len(_MAGIC), 0, {}
        for leaf in range(columns):
            chunk, offset = _column(footer, offset)
            if chunk[_SIZE] < 0:
                raise CorruptFile(f"the footer of the Parquet file has a column of {chunk[_SIZE]} bytes")
            size += chunk[_SIZE]
            if not leaf:
                start = first_page(chunk[_DATA_PAGE], chunk.get(_DICTIONARY_PAGE))
            if leaf in leaves:
                requested[leaf] = chunk
        fields, offset = skim(footer, offset, after=_COLUMNS)
        groups.append((fields.get(_ROWS, 0), start, size))
        chosen.append(requested)
    by_type = _ordered_by_type(footer, offset) if leaves else frozenset()
    return [
        RowGroup(*group, {leaf: _column_chunk(footer, chunk, leaf in by_type) for leaf, chunk in requested.items()})
        for group, requested in zip(groups, chosen, strict=True)
    ]


def _struct_list(footer: bytes, offset: int) -> tuple[int, int]:
    """The number of structs in the list at an offset, and the offset of the first."""
    kind, count, offset = items_at(footer, offset)
    if count and kind != STRUCT:
        raise CorruptFile(f"the footer of the Parquet file has values of kind {kind} where structs should be")
    return count, offset


def _column(footer: bytes, offset: int) -> tuple[dict[int, int], int]:
    """The fields of a column's metadata, and the offset after the column."""
    fields, offset = skim(footer, offset, until=_METADATA)
    if _METADATA not in fields:
        raise CorruptFile("the footer of the Parquet file has a column without metadata")
    metadata, offset = skim(footer, offset)
    if _VALUES not in metadata or _SIZE not in metadata or _DATA_PAGE not in metadata:
        raise CorruptFile("the footer of the Parquet file has a column without value count, size or offset")
    return metadata, skim(footer, offset, after=_METADATA)[1]


def _ordered_by_type(footer: bytes, offset: int) -> frozenset[int]:
    """The columns whose bounds follow the order of their type, from the fields after the row groups."""
    fields, _ = skim(footer, offset, after=_ROW_GROUPS)
    if _COLUMN_ORDERS not in fields:
        return frozenset()
    count, offset = _struct_list(footer, fields[_COLUMN_ORDERS])
    columns = []
    for leaf in range(count):
        order, offset = skim(footer, offset)
        if _BY_TYPE in order:
            columns.append(leaf)
    return frozenset(columns)


def _column_chunk(footer: bytes, metadata: dict[int, int], by_type: bool) -> ColumnChunk:
    statistics = skim(footer, metadata[_STATISTICS])[0] if _STATISTICS in metadata else {}
    lower, upper = (_MIN, _MAX) if by_type else (_OLD_MIN, _OLD_MAX)
    bounds = None
    if lower in statistics and upper in statistics:
        bounds = binary_at(footer, statistics[lower]), binary_at(footer, statistics[upper])
    return ColumnChunk(metadata[_SIZE], metadata[_VALUES], statistics.get(_NULLS), bounds, by_type)
