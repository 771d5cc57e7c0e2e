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

The codecs of Avro's blocks, with a limit on what a block may swell to (Avro spec: Required and Optional Codecs).

The limit is checked before the room is taken, or the output is cut off at it: a few bytes cannot fill the memory.

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

# The codecs of Avro's blocks, with a limit on what a block may swell to (Avro spec: Required and Optional Codecs).

_RAW_DEFLATE = -15
_DEFLATE_MOST = 1032
"""No deflate stream gives more bytes than this for one of its own, so a short block needs no other limit."""

_USUAL_BLOCK = 128 * 2**10
_CRC_BYTES = 4
_QUICK = -2
"""Beside zlib's levels 0 to 9: a tenth of the time of level 6, for files a tenth longer."""


def _too_large(codec: str, limit: int) -> CorruptFile:
    return CorruptFile(f"a block of more than {limit} bytes when decompressed", codec=codec)


def _broken(codec: str, error: object) -> CorruptFile:
    return CorruptFile(f"a block cannot be decompressed: {error}", codec=codec)


def _unpacked(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise _too_large("null", limit)
    return data


def _inflate(data: bytes, limit: int) -> bytes:
    try:
        if len(data) * _DEFLATE_MOST <= limit:
            return bytes(isal_zlib.decompress(data, _RAW_DEFLATE, _USUAL_BLOCK))
        stream = isal_zlib.decompressobj(_RAW_DEFLATE)
        found = bytes(stream.decompress(data, limit + 1))
    except isal_zlib.error as error:
        raise _broken("deflate", error) from None
    if len(found) > limit:
        raise _too_large("deflate", limit)
    if not stream.eof:
        raise _broken("deflate", "the stream is incomplete")
    return found


def _unsnap(data: bytes, limit: int) -> bytes:
    if len(data) <= _CRC_BYTES:
        raise _broken("snappy", "it has no checksum")
    packed, crc = data[:-_CRC_BYTES], int.from_bytes(data[-_CRC_BYTES:], "big")
    try:
        if cramjam.snappy.decompress_raw_len(packed) > limit:
            raise _too_large("snappy", limit)
        found = bytes(cramjam.snappy.decompress_raw(packed))
    except cramjam.DecompressionError as error:
        raise _broken("snappy", error) from None
    if zlib.crc32(found) != crc:
        raise _broken("snappy", "its checksum is wrong")
    return found


def _unzstd(data: bytes, limit: int) -> bytes:
    """Writers that stream do not tell the size, so the room is the limit; pages not written to take no memory."""
    if not data:
        raise _broken("zstandard", "it is empty")
    room = np.empty(limit, np.uint8)
    try:
        size = cramjam.zstd.decompress_into(data, room.data)
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            raise _too_large("zstandard", limit) from None
        raise _broken("zstandard", error) from None
    return room[:size].tobytes()


def _deflate(data: bytes, level: int) -> bytes:
    if level == _QUICK:
        return bytes(isal_zlib.compress(data, 2, _RAW_DEFLATE))
    return zlib.compress(data, level, _RAW_DEFLATE)


def _snap(data: bytes, level: int) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(_CRC_BYTES, "big")


class _Codec(NamedTuple):
    decompress: Callable[[bytes, int], bytes]
    compress: Callable[[bytes, int], bytes]
    usual_level: int


CODECS: dict[str, _Codec] = {
    "null": _Codec(_unpacked, lambda data, level: data, 0),
    "deflate": _Codec(_inflate, _deflate, _QUICK),
    "snappy": _Codec(_unsnap, _snap, 0),
    "zstandard": _Codec(_unzstd, lambda data, level: bytes(cramjam.zstd.compress(data, level)), 3),
}
"""The codecs that are read and written, by the name that files give them."""


def check_codec(name: str) -> str:
    """The codec's name, if it is one of those above.

    >>> check_codec("xz")
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: the Avro codec 'xz' is not known; known are null, deflate, snappy, zstandard
    """
    if name not in CODECS:
        raise UnsupportedFeature(f"the Avro codec {name[:80]!r} is not known; known are {', '.join(CODECS)}")
    return name


def decompress(codec: str, data: bytes, limit: int) -> bytes:
    """The content of a block, or CorruptFile if it is broken or has more than `limit` bytes."""
    return CODECS[check_codec(codec)].decompress(data, limit)


def compress(codec: str, data: bytes, level: int | None = None) -> bytes:
    """The block of some content; without a level, the one chosen for speed."""
    found = CODECS[check_codec(codec)]
    return found.compress(data, found.usual_level if level is None else level)


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
