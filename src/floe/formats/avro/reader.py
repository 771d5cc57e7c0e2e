"""The blocks of an Avro file, read one after another with bounded memory (Avro spec: Object Container Files).

A split holds the blocks whose sync marker before them begins in its range, as all readers of Avro count them, so that
each block belongs to exactly one of the splits that cover a file. A reader that need not know the positions of rows
looks for the first marker of its split; one that does goes from block to block, over those it has no use for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from floe.avro.compression import check_codec, decompress
from floe.avro.records import read_byte_string
from floe.avro.varints import read_long
from floe.errors import CorruptFile

__all__ = ["AvroHeader", "StoredBlock", "decompressed", "read_blocks", "read_header"]

_MAGIC = b"Obj\x01"
_SYNC = 16
_FIRST_READ = 64 * 2**10
_MAX_HEADER = 64 * 2**20
_MAX_BLOCK = 512 * 2**20
_MAX_CONTENT = 2**31 - 1
_BLOCK_HEAD = 20
_SEARCHED = 2**20


@dataclass(frozen=True, slots=True)
class AvroHeader:
    """What a file says about itself, and where its blocks begin."""

    metadata: Mapping[str, bytes]
    codec: str
    sync: bytes
    end: int

    @property
    def schema_text(self) -> bytes:
        """The writer's schema as JSON text."""
        return self.metadata["avro.schema"]


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """A block: how many rows it holds, the position of the first (0 if nobody asked), and its compressed bytes."""

    count: int
    first_row: int
    content: bytes


def read_header(stream: BinaryIO) -> AvroHeader:
    """The header of a file; as much as it needs is read, within a limit."""
    size = _FIRST_READ
    while True:
        stream.seek(0)
        data = stream.read(size)
        if data[: len(_MAGIC)] != _MAGIC:
            raise CorruptFile("not an Avro file: " + ("it has no Avro header" if data else "it is empty"))
        try:
            return _header(data)
        except CorruptFile:
            if len(data) < size or size >= _MAX_HEADER:
                raise
        size *= 8


def _header(data: bytes) -> AvroHeader:
    metadata: dict[str, bytes] = {}
    at = len(_MAGIC)
    while True:
        count, at = read_long(data, at)
        if count == 0:
            break
        if count < 0:  # comes with a size in bytes
            count = -count
            _, at = read_long(data, at)
        if count > len(data) - at:
            raise CorruptFile(f"the header is said to have {count} entries, and {len(data) - at} bytes are left")
        for _ in range(count):
            key, at = read_byte_string(data, at)
            metadata[_text(key)], at = read_byte_string(data, at)
    sync = data[at : at + _SYNC]
    if len(sync) < _SYNC:
        raise CorruptFile("the file is cut off within its header")
    if "avro.schema" not in metadata:
        raise CorruptFile("the header has no avro.schema")
    return AvroHeader(metadata, check_codec(_text(metadata.get("avro.codec", b"null"))), sync, at + _SYNC)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CorruptFile("a key or codec of the header is not UTF-8") from None


def read_blocks(
    stream: BinaryIO, header: AvroHeader, split: tuple[int, int] | None, *, positions: bool = True
) -> Iterator[StoredBlock]:
    """The blocks of a split, or of the whole file; where `positions` are not needed, those before are not looked at."""
    start, end = (0, None) if split is None else (split[0], split[0] + split[1])
    at = header.end
    if start > header.end - _SYNC and not positions:
        found = _next_marker(stream, header.sync, start)
        if found is None:
            return
        at = found
    rows = 0
    while True:
        marker = at - _SYNC
        if end is not None and marker >= end:
            return
        head = _at(stream, at, _BLOCK_HEAD)
        if not head:
            return
        count, place = read_long(head, 0)
        size, place = read_long(head, place)
        if count < 0 or not 0 <= size <= _MAX_BLOCK:
            raise CorruptFile(f"a block of {count} rows and {size} bytes", position=at)
        if marker < start:
            follows = _at(stream, at + place + size, _SYNC)
            content = b""
        else:
            data = _at(stream, at + place, size + _SYNC)
            content, follows = data[:size], data[size:]
            if len(data) < size + _SYNC:
                raise CorruptFile(
                    f"the file is cut off within a block of {size} bytes: {len(data)} are left", position=at
                )
        if follows != header.sync:
            raise CorruptFile("a block does not end with the file's sync marker", position=at)
        if marker >= start:
            yield StoredBlock(count, rows, content)
        rows += count
        at += place + size + _SYNC


def _at(stream: BinaryIO, at: int, size: int) -> bytes:
    stream.seek(at)
    return stream.read(size)


def _next_marker(stream: BinaryIO, sync: bytes, at: int) -> int | None:
    """Where the block behind the first marker begins that begins at a place or later."""
    stream.seek(at)
    kept = b""
    while True:
        data = stream.read(_SEARCHED)
        if not data:
            return None
        window = kept + data
        found = window.find(sync)
        if found >= 0:
            return at + found + _SYNC
        kept = window[-(_SYNC - 1) :]
        at += len(window) - len(kept)


def decompressed(header: AvroHeader, block: StoredBlock, smallest_row: int, most_empty: int) -> bytes:
    """The content of a block, which must have room for its rows; rows that take no bytes are limited in number."""
    content = decompress(header.codec, block.content, _MAX_CONTENT if header.codec == "null" else _limit(block))
    if block.count * smallest_row > len(content) or (not smallest_row and block.count > most_empty):
        raise CorruptFile(f"a block of {len(content)} bytes is said to hold {block.count} rows")
    return content


def _limit(block: StoredBlock) -> int:
    """How much a block may swell to: a good deal, but a small one not to something huge."""
    return min(_MAX_BLOCK, 64 * 2**20 + 64 * len(block.content))
