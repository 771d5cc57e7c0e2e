"""What the footer of a Parquet file says of its row groups and columns, read here and not asked of pyarrow.

pyarrow ends the whole process where a footer contradicts itself: a histogram of the wrong length, statistics that are
too short, a column that is encrypted or one too many. Its reader of rows takes the same footer and raises an error. So
pyarrow reads rows, and what has to be known before is read here (Parquet: FileMetaData, ColumnMetaData, Statistics).
"""

from __future__ import annotations

import io
from collections.abc import Collection
from dataclasses import dataclass
from typing import BinaryIO, Final

from floe.errors import CorruptFile, UnsupportedFeature
from floe.formats.parquet.compact_thrift import STRUCT, binary_at, items_at, skim

__all__ = ["ColumnChunk", "RowGroup", "Tail", "first_page", "read_row_groups", "read_tail"]

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
