r"""Avro's container files: a header, and blocks of records between sync markers (Avro spec: Object Container Files).

A container is opened without decompressing anything: the header is read and the blocks are found, and every count and
size is checked against the bytes that are there. What is left is decompressed under `Limits`.

>>> file = write_container({"avro.schema": b'"long"'}, [(2, b"\x02\x04")], sync=bytes(16))
>>> container = open_container(file)
>>> container.metadata, container.decompressed()
({'avro.schema': b'"long"', 'avro.codec': b'deflate'}, [b'\x02\x04'])
>>> open_container(file[:-20])
Traceback (most recent call last):
floe.errors.CorruptFile: the file is cut off within a block of ... bytes...
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from floe.avro.compression import check_codec, compress, decompress
from floe.avro.varints import encode_long, read_long
from floe.errors import CorruptFile

__all__ = ["Block", "Container", "Limits", "open_container", "write_container"]

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
SCHEMA, CODEC = "avro.schema", "avro.codec"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is taken from a file at most. Real manifests have blocks of 64 kB and a few hundred MB in all."""

    block_bytes: int = 64 * 2**20
    total_bytes: int = 2**30
    header_bytes: int = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a container: how many records it holds, and where its bytes are."""

    count: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Container:
    """An Avro file that is open, and not decompressed."""

    data: bytes
    metadata: Mapping[str, bytes]
    codec: str
    blocks: tuple[Block, ...]
    limits: Limits

    @property
    def schema_text(self) -> bytes:
        """The writer's schema as JSON text."""
        return self.metadata[SCHEMA]

    def text(self, key: str) -> str | None:
        """A value of the metadata as text, or None if there is none."""
        value = self.metadata.get(key)
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError:
            raise CorruptFile(f"the metadata {key!r} is not UTF-8") from None

    def decompressed(self, smallest_record: int = 1) -> list[bytes]:
        """The content of every block, each with room for its records if none is smaller than `smallest_record`."""
        found = []
        left = self.limits.total_bytes
        for block in self.blocks:
            content = decompress(self.codec, self.data[block.start : block.end], min(left, self.limits.block_bytes))
            left -= len(content)
            if block.count * smallest_record > len(content):
                raise CorruptFile(
                    f"a block of {len(content)} bytes is said to hold {block.count} records", position=block.start
                )
            found.append(content)
        return found


def open_container(data: bytes, limits: Limits | None = None) -> Container:
    """The header and blocks of an Avro file.

    >>> open_container(b"")
    Traceback (most recent call last):
    floe.errors.CorruptFile: not an Avro file: it is empty
    """
    limits = limits or Limits()
    if data[: len(MAGIC)] != MAGIC:
        raise CorruptFile("not an Avro file: " + ("it has no Avro header" if data else "it is empty"))
    metadata, at = _header(data, limits)
    sync = data[at : at + SYNC_BYTES]
    if len(sync) < SYNC_BYTES:
        raise CorruptFile("the file is cut off within its header")
    if SCHEMA not in metadata:
        raise CorruptFile(f"the header has no {SCHEMA}")
    try:
        codec = check_codec(metadata.get(CODEC, b"null").decode())
    except UnicodeDecodeError:
        raise CorruptFile("the name of the codec is not UTF-8") from None
    return Container(data, metadata, codec, _blocks(data, at + SYNC_BYTES, sync), limits)


def _header(data: bytes, limits: Limits) -> tuple[dict[str, bytes], int]:
    """The map of the header: blocks of entries until an empty one; a negative count comes with a size in bytes."""
    metadata: dict[str, bytes] = {}
    at = len(MAGIC)
    while True:
        count, at = read_long(data, at)
        if count == 0:
            return metadata, at
        if count < 0:
            count = -count
            _, at = read_long(data, at)
        if count > len(data) - at:
            raise CorruptFile(f"the header is said to have {count} entries, and {len(data) - at} bytes are left")
        for _ in range(count):
            key, at = _header_bytes(data, at, limits)
            value, at = _header_bytes(data, at, limits)
            try:
                metadata[key.decode()] = value
            except UnicodeDecodeError:
                raise CorruptFile("a key of the header is not UTF-8") from None


def _header_bytes(data: bytes, at: int, limits: Limits) -> tuple[bytes, int]:
    size, at = read_long(data, at)
    if not 0 <= size <= min(len(data) - at, limits.header_bytes):
        raise CorruptFile(f"a header entry of {size} bytes, and {len(data) - at} are left", position=at)
    return data[at : at + size], at + size


def _blocks(data: bytes, at: int, sync: bytes) -> tuple[Block, ...]:
    blocks = []
    while at < len(data):
        begin = at
        count, at = read_long(data, at)
        size, at = read_long(data, at)
        if count < 0 or size < 0:
            raise CorruptFile(f"a block of {count} records and {size} bytes", position=begin)
        end = at + size
        if end + SYNC_BYTES > len(data):
            raise CorruptFile(
                f"the file is cut off within a block of {size} bytes: {max(len(data) - at, 0)} are left",
                position=begin,
            )
        if data[end : end + SYNC_BYTES] != sync:
            raise CorruptFile("a block does not end with the file's sync marker", position=begin)
        blocks.append(Block(count, at, end))
        at = end + SYNC_BYTES
    return tuple(blocks)


def write_container(
    metadata: Mapping[str, bytes],
    blocks: Iterable[tuple[int, bytes]],
    *,
    codec: str = "deflate",
    level: int | None = None,
    sync: bytes | None = None,
) -> bytes:
    """The Avro file of some blocks, each with the number of its records; the metadata must have the schema."""
    marker = os.urandom(SYNC_BYTES) if sync is None else sync
    header: dict[str, Any] = {**metadata, CODEC: check_codec(codec).encode()}
    parts = [MAGIC, encode_long(len(header))]
    for key, value in header.items():
        name = key.encode()
        parts += (encode_long(len(name)), name, encode_long(len(value)), value)
    parts += (b"\0", marker)
    for count, content in blocks:
        packed = compress(codec, content, level)
        parts += (encode_long(count), encode_long(len(packed)), packed, marker)
    return b"".join(parts)
