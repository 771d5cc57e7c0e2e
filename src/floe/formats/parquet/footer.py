"""What the footer of a Parquet file says of its row groups and columns, read here and not asked of pyarrow.

pyarrow ends the whole process where a footer contradicts itself: a histogram of the wrong length, statistics that are
too short, a column that is encrypted or one too many. Its reader of rows takes the same footer and raises an error. So
pyarrow reads rows, and what has to be known before is read here (Parquet: FileMetaData, ColumnMetaData, Statistics).

Thrift's compact protocol, read into plain values and written back byte for byte: what a Parquet footer is made of.

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

import io
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, NamedTuple

from floe.errors import CorruptFile, UnsupportedFeature

# Thrift's compact protocol, read into plain values and written back byte for byte: what a Parquet footer is made of.

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


_MAGIC: Final = b"PAR1"
_ENCRYPTED: Final = b"PARE"
_LENGTH_AND_MAGIC: Final = 8
_USUAL_TAIL: Final = 64 * 1024
"""Read from the end at once; more only where a footer is longer."""

_ROW_GROUPS, _COLUMN_ORDERS = 4, 7
_COLUMNS, _ROWS = 1, 3
_METADATA = 3
_VALUES, _SIZE, _DATA_PAGE, _DICTIONARY_PAGE, _STATISTICS = 5, 7, 9, 11, 12
_OLD_MAX, _OLD_MIN, _NULLS, _MAX, _MIN = 1, 2, 3, 5, 6
_BY_TYPE = 1


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a file."""

    file_size: int
    data: bytes
    """The footer, its length and the magic bytes: what is read as the end of any file of this footer."""

    @property
    def footer(self) -> bytes:
        """The footer alone."""
        return self.data[:-_LENGTH_AND_MAGIC]


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """A column of values in a row group."""

    size: int
    values: int
    nulls: int | None
    bounds: tuple[bytes, bytes] | None
    """The lowest and the highest value, or less and more than these, as they are stored plainly."""

    by_type: bool
    """Whether the bounds follow the order of the column's type; old writers compared all as signed numbers or bytes."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group: where it begins, how many bytes its columns have, and the columns that were asked for."""

    rows: int
    start: int
    size: int
    columns: dict[int, ColumnChunk]
    """By place among the file's columns of values."""


def read_tail(stream: BinaryIO) -> Tail:
    """The end of a file, with all of its footer.

    >>> read_tail(io.BytesIO(b"PAR1"))
    Traceback (most recent call last):
    floe.errors.CorruptFile: a Parquet file of 4 bytes is too short
    """
    size = stream.seek(0, io.SEEK_END)
    if size < _LENGTH_AND_MAGIC + len(_MAGIC):
        raise CorruptFile(f"a Parquet file of {size} bytes is too short")
    data = _last(stream, size, _USUAL_TAIL)
    if data[-4:] == _ENCRYPTED:
        raise UnsupportedFeature("the Parquet file is encrypted by Parquet itself, which is not read")
    if data[-4:] != _MAGIC:
        raise CorruptFile(f"the file does not end as a Parquet file does: found {data[-4:]!r} in place of {_MAGIC!r}")
    needed = int.from_bytes(data[-_LENGTH_AND_MAGIC:-4], "little") + _LENGTH_AND_MAGIC
    if needed > size - len(_MAGIC):
        raise CorruptFile(f"the Parquet file has {size} bytes, and says that its footer has {needed}")
    if needed > len(data):
        data = _last(stream, size, needed)
    return Tail(size, bytes(memoryview(data)[len(data) - needed :]))


def _last(stream: BinaryIO, size: int, count: int) -> bytes:
    count = min(count, size)
    stream.seek(size - count)
    found = bytearray()
    while len(found) < count and (more := stream.read(count - len(found))):
        found += more
    if len(found) < count:
        raise CorruptFile(f"the Parquet file should have {size} bytes, and ends {count - len(found)} before")
    return bytes(found)


def first_page(data_page: int, dictionary_page: int | None) -> int:
    """Where the pages of a column begin: at its dictionary, if it has one."""
    if dictionary_page is not None and 0 < dictionary_page < data_page:
        return dictionary_page
    return data_page


def read_row_groups(footer: bytes, leaves: Collection[int] = ()) -> list[RowGroup]:
    """The row groups of a footer, each with the columns of values at some places."""
    top, at = skim(footer, 0, until=_ROW_GROUPS)
    if _ROW_GROUPS not in top:
        raise CorruptFile("the footer of the Parquet file has no row groups")
    count, at = _structs(footer, at)
    groups, chosen = [], []
    for _ in range(count):
        fields, at = skim(footer, at, until=_COLUMNS)
        if _COLUMNS not in fields:
            raise CorruptFile("the footer of the Parquet file has a row group without columns")
        columns, at = _structs(footer, at)
        start, size, own = len(_MAGIC), 0, {}
        for leaf in range(columns):
            chunk, at = _column(footer, at)
            if chunk[_SIZE] < 0:
                raise CorruptFile(f"the footer of the Parquet file says that a column has {chunk[_SIZE]} bytes")
            size += chunk[_SIZE]
            if not leaf:
                start = first_page(chunk[_DATA_PAGE], chunk.get(_DICTIONARY_PAGE))
            if leaf in leaves:
                own[leaf] = chunk
        fields, at = skim(footer, at, after=_COLUMNS)
        groups.append((fields.get(_ROWS, 0), start, size))
        chosen.append(own)
    by_type = _ordered_by_type(footer, at) if leaves else frozenset()
    return [
        RowGroup(*group, {leaf: _chunk(footer, chunk, leaf in by_type) for leaf, chunk in own.items()})
        for group, own in zip(groups, chosen, strict=True)
    ]


def _structs(footer: bytes, at: int) -> tuple[int, int]:
    """How many structs a list has, and where the first of them is."""
    kind, count, at = items_at(footer, at)
    if count and kind != STRUCT:
        raise CorruptFile(f"the footer of the Parquet file has values of kind {kind} where structs should be")
    return count, at


def _column(footer: bytes, at: int) -> tuple[dict[int, int], int]:
    """The fields of a column's metadata, and where the column ends."""
    fields, at = skim(footer, at, until=_METADATA)
    if _METADATA not in fields:
        raise CorruptFile("the footer of the Parquet file tells nothing of a column")
    found, at = skim(footer, at)
    if _VALUES not in found or _SIZE not in found or _DATA_PAGE not in found:
        raise CorruptFile("the footer of the Parquet file does not say where a column is, and how large")
    return found, skim(footer, at, after=_METADATA)[1]


def _ordered_by_type(footer: bytes, at: int) -> frozenset[int]:
    """The columns whose bounds follow the order of their type, by what comes behind the row groups."""
    fields, _ = skim(footer, at, after=_ROW_GROUPS)
    if _COLUMN_ORDERS not in fields:
        return frozenset()
    count, at = _structs(footer, fields[_COLUMN_ORDERS])
    found = []
    for leaf in range(count):
        order, at = skim(footer, at)
        if _BY_TYPE in order:
            found.append(leaf)
    return frozenset(found)


def _chunk(footer: bytes, chunk: dict[int, int], by_type: bool) -> ColumnChunk:
    statistics = skim(footer, chunk[_STATISTICS])[0] if _STATISTICS in chunk else {}
    lower, upper = (_MIN, _MAX) if by_type else (_OLD_MIN, _OLD_MAX)
    bounds = None
    if lower in statistics and upper in statistics:
        bounds = binary_at(footer, statistics[lower]), binary_at(footer, statistics[upper])
    return ColumnChunk(chunk[_SIZE], chunk[_VALUES], statistics.get(_NULLS), bounds, by_type)
