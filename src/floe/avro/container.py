r"""Avro container files: a header, then blocks of records between sync markers (Avro spec: Object Container Files).

`open_container` reads the header and finds the blocks without decompressing them; it checks every count and size
against the length of the file. `Container.decompressed` decompresses the blocks within `Limits`.

>>> file = write_container({"avro.schema": b'"long"'}, [(2, b"\x02\x04")], sync=bytes(16))
>>> container = open_container(file)
>>> container.metadata, container.decompressed()
({'avro.schema': b'"long"', 'avro.codec': b'deflate'}, [b'\x02\x04'])
>>> open_container(file[:-20])
Traceback (most recent call last):
floe.errors.CorruptFile: the file is cut off within a block of ... bytes...

`compress` and `decompress` implement the codecs (Avro spec: Required and Optional Codecs). Decompression takes a limit,
which is checked before memory is allocated or while the output grows, so that a small file cannot fill the memory.

>>> packed = compress("deflate", b"abc" * 1000)
>>> len(packed) < 100, decompress("deflate", packed, 3000) == b"abc" * 1000
(True, True)
>>> decompress("deflate", packed, 2999)
Traceback (most recent call last):
floe.errors.CorruptFile: a block of more than 2999 bytes when decompressed (codec: deflate)
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import cramjam
import numpy as np
from isal import isal_zlib

from floe.avro.records import encode_long, read_long
from floe.errors import CorruptFile, UnsupportedFeature

# Codecs -------------------------------------------------------------------------------------------------------

_RAW_DEFLATE = -15
_MAX_DEFLATE_RATIO = 1032
"""The highest compression ratio of deflate. A block that stays within the limit even at this ratio needs no check."""

_TYPICAL_BLOCK_BYTES = 128 * 2**10
_CRC_BYTES = 4
_FAST_LEVEL = -2
"""Level 2 of ISA-L, in addition to zlib's levels 0 to 9: ten times faster than level 6, with files 10% larger."""


def _block_too_large(codec: str, limit: int) -> CorruptFile:
    return CorruptFile(f"a block of more than {limit} bytes when decompressed", codec=codec)


def _corrupt_block(codec: str, error: object) -> CorruptFile:
    return CorruptFile(f"a block cannot be decompressed: {error}", codec=codec)


def _check_size(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise _block_too_large("null", limit)
    return data


def _decompress_deflate(data: bytes, limit: int) -> bytes:
    try:
        if len(data) * _MAX_DEFLATE_RATIO <= limit:
            return bytes(isal_zlib.decompress(data, _RAW_DEFLATE, _TYPICAL_BLOCK_BYTES))
        stream = isal_zlib.decompressobj(_RAW_DEFLATE)
        content = bytes(stream.decompress(data, limit + 1))
    except isal_zlib.error as error:
        raise _corrupt_block("deflate", error) from None
    if len(content) > limit:
        raise _block_too_large("deflate", limit)
    if not stream.eof:
        raise _corrupt_block("deflate", "the stream is incomplete")
    return content


def _decompress_snappy(data: bytes, limit: int) -> bytes:
    if len(data) <= _CRC_BYTES:
        raise _corrupt_block("snappy", "it has no checksum")
    packed, crc = data[:-_CRC_BYTES], int.from_bytes(data[-_CRC_BYTES:], "big")
    try:
        if cramjam.snappy.decompress_raw_len(packed) > limit:
            raise _block_too_large("snappy", limit)
        content = bytes(cramjam.snappy.decompress_raw(packed))
    except cramjam.DecompressionError as error:
        raise _corrupt_block("snappy", error) from None
    if zlib.crc32(content) != crc:
        raise _corrupt_block("snappy", "its checksum is wrong")
    return content


def _decompress_zstandard(data: bytes, limit: int) -> bytes:
    # Frames of streaming writers do not have the size, so the buffer has the size of the limit. Pages that are not
    # written to take no memory.
    if not data:
        raise _corrupt_block("zstandard", "it is empty")
    buffer = np.empty(limit, np.uint8)
    try:
        size = cramjam.zstd.decompress_into(data, buffer.data)
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            raise _block_too_large("zstandard", limit) from None
        raise _corrupt_block("zstandard", error) from None
    return buffer[:size].tobytes()


def _compress_deflate(data: bytes, level: int) -> bytes:
    if level == _FAST_LEVEL:
        return bytes(isal_zlib.compress(data, 2, _RAW_DEFLATE))
    return zlib.compress(data, level, _RAW_DEFLATE)


def _compress_snappy(data: bytes, level: int) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(_CRC_BYTES, "big")


class _Codec(NamedTuple):
    decompress: Callable[[bytes, int], bytes]
    compress: Callable[[bytes, int], bytes]
    default_level: int


CODECS: dict[str, _Codec] = {
    "null": _Codec(_check_size, lambda data, level: data, 0),
    "deflate": _Codec(_decompress_deflate, _compress_deflate, _FAST_LEVEL),
    "snappy": _Codec(_decompress_snappy, _compress_snappy, 0),
    "zstandard": _Codec(_decompress_zstandard, lambda data, level: bytes(cramjam.zstd.compress(data, level)), 3),
}
"""The supported codecs, by their names in the header of a file."""


def check_codec(name: str) -> str:
    """Return the name of a codec; raises UnsupportedFeature unless it is one of `CODECS`.

    >>> check_codec("xz")
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: the Avro codec 'xz' is not supported; use one of null, deflate, snappy, zstandard
    """
    if name not in CODECS:
        raise UnsupportedFeature(f"the Avro codec {name[:80]!r} is not supported; use one of {', '.join(CODECS)}")
    return name


def decompress(codec: str, data: bytes, limit: int) -> bytes:
    """Decompress a block; raises CorruptFile if that fails or the content has more than `limit` bytes."""
    return CODECS[check_codec(codec)].decompress(data, limit)


def compress(codec: str, data: bytes, level: int | None = None) -> bytes:
    """Compress the content of a block; without `level`, with the codec's default, which is chosen for speed."""
    chosen = CODECS[check_codec(codec)]
    return chosen.compress(data, chosen.default_level if level is None else level)


# Containers ---------------------------------------------------------------------------------------------------

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
SCHEMA, CODEC = "avro.schema", "avro.codec"


@dataclass(frozen=True, slots=True)
class Limits:
    """The most bytes that are decompressed from a file. Manifests usually have blocks of 64 kB, at most some 100 MB."""

    block_bytes: int = 64 * 2**20
    """Of one block."""

    total_bytes: int = 2**30
    """Of all blocks together."""

    header_bytes: int = 64 * 2**20
    """Of one key or value of the header, which is not compressed."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a container: its number of records, and the offsets where its compressed bytes start and end."""

    count: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Container:
    """An open Avro file: its header and the offsets of its blocks. The blocks are still compressed."""

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
        """A value of the header's metadata as text; None if the header does not have the key."""
        value = self.metadata.get(key)
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError:
            raise CorruptFile(f"the metadata {key!r} is not UTF-8") from None

    def decompressed(self, smallest_record: int = 1) -> list[bytes]:
        """Decompress all blocks.

        Raises CorruptFile for a block that is too short for its count of records of at least `smallest_record` bytes.
        """
        contents = []
        budget = self.limits.total_bytes
        for block in self.blocks:
            content = decompress(self.codec, self.data[block.start : block.end], min(budget, self.limits.block_bytes))
            budget -= len(content)
            if block.count * smallest_record > len(content):
                raise CorruptFile(
                    f"a block of {len(content)} bytes is too short for its {block.count} records", position=block.start
                )
            contents.append(content)
        return contents


def open_container(data: bytes, limits: Limits | None = None) -> Container:
    """Read the header of an Avro file and find its blocks.

    >>> open_container(b"")
    Traceback (most recent call last):
    floe.errors.CorruptFile: not an Avro file: it is empty
    """
    limits = limits or Limits()
    if data[: len(MAGIC)] != MAGIC:
        raise CorruptFile("not an Avro file: " + ("it has no Avro header" if data else "it is empty"))
    metadata, at = _read_header(data, limits)
    sync = data[at : at + SYNC_BYTES]
    if len(sync) < SYNC_BYTES:
        raise CorruptFile("the file is cut off within its header")
    if SCHEMA not in metadata:
        raise CorruptFile(f"the header has no {SCHEMA}")
    try:
        codec = check_codec(metadata.get(CODEC, b"null").decode())
    except UnicodeDecodeError:
        raise CorruptFile("the name of the codec is not UTF-8") from None
    return Container(data, metadata, codec, _find_blocks(data, at + SYNC_BYTES, sync), limits)


def _read_header(data: bytes, limits: Limits) -> tuple[dict[str, bytes], int]:
    """Read the metadata map of the header. Returns it, and the offset of the sync marker behind it.

    The map is a sequence of blocks that ends with an empty one; a negative count is followed by the block's size.
    """
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
            raise CorruptFile(f"the header has a count of {count} entries, but {len(data) - at} bytes are left")
        for _ in range(count):
            key, at = _read_header_bytes(data, at, limits)
            value, at = _read_header_bytes(data, at, limits)
            try:
                metadata[key.decode()] = value
            except UnicodeDecodeError:
                raise CorruptFile("a key of the header is not UTF-8") from None


def _read_header_bytes(data: bytes, at: int, limits: Limits) -> tuple[bytes, int]:
    size, at = read_long(data, at)
    if not 0 <= size <= min(len(data) - at, limits.header_bytes):
        raise CorruptFile(f"a header entry has a size of {size} bytes, but {len(data) - at} are left", position=at)
    return data[at : at + size], at + size


def _find_blocks(data: bytes, at: int, sync: bytes) -> tuple[Block, ...]:
    blocks = []
    while at < len(data):
        begin = at
        count, at = read_long(data, at)
        size, at = read_long(data, at)
        if count < 0 or size < 0:
            raise CorruptFile(f"a block has a negative count or size: {count} records, {size} bytes", position=begin)
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
    """Write an Avro file and return its bytes.

    `blocks` are the uncompressed contents, each with its number of records. `metadata` must have the schema. `sync` is
    the sync marker, by default a random one.
    """
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
