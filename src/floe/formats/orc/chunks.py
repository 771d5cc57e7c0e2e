r"""Compressed parts of ORC files: chunks with a head of three bytes each (ORC spec: Compression).

The head holds the chunk's length, and in its lowest bit whether the chunk is stored as it is. No chunk gives more bytes
than the file's block size, so a few bytes cannot fill the memory.

>>> unpack(NONE, b"abc", 256), unpack(ZLIB, pack_plain(b"abc", 256), 256)
(b'abc', b'abc')
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cramjam
import numpy as np

from floe.avro import compression
from floe.errors import CorruptFile, UnsupportedFeature

__all__ = ["CODEC_NAMES", "HEAD", "MAX_BLOCK", "NONE", "ZLIB", "pack_plain", "unpack"]

NONE, ZLIB, SNAPPY, LZO, LZ4, ZSTD = range(6)
CODEC_NAMES = {NONE: "none", ZLIB: "zlib", SNAPPY: "snappy", LZO: "lzo", LZ4: "lz4", ZSTD: "zstd"}
"""The codecs by the number that files have for them."""

HEAD = 3
"""The bytes before each chunk."""

MAX_BLOCK = 2**23
"""A chunk's length has 23 bits, so blocks cannot be longer."""


def _with_room(decompress_into: Callable[[bytes, Any], int]) -> Callable[[bytes, int], bytes]:
    """Decompress into as much room as a block may take; pages not written to take no memory."""

    def unpacked(data: bytes, limit: int) -> bytes:
        room = np.empty(limit, np.uint8)
        return room[: decompress_into(data, room.data)].tobytes()

    return unpacked


def _snappy(data: bytes, limit: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(data) > limit:
        raise CorruptFile(f"a chunk of more than {limit} bytes when decompressed", codec="snappy")
    return bytes(cramjam.snappy.decompress_raw(data))


_UNPACK: dict[int, Callable[[bytes, int], bytes]] = {
    ZLIB: lambda data, limit: compression.decompress("deflate", data, limit),
    SNAPPY: _snappy,
    LZ4: _with_room(cramjam.lz4.decompress_block_into),
    ZSTD: lambda data, limit: compression.decompress("zstandard", data, limit),
}


def unpack(codec: int, data: bytes, block_size: int, most: int | None = None) -> bytes:
    """The content of a compressed part; CorruptFile if it is broken, or has more than `most` bytes."""
    if codec == NONE:
        return data
    parts: list[bytes] = []
    at = size = 0
    while at < len(data):
        head = int.from_bytes(data[at : at + HEAD], "little")
        at += HEAD
        length = head >> 1
        if length > len(data) - at:
            raise CorruptFile(f"a chunk of {length} bytes, and {max(len(data) - at, 0)} are left")
        chunk = data[at : at + length]
        at += length
        parts.append(chunk if head & 1 else _unpacked(codec, chunk, block_size))
        size += len(parts[-1])
        if most is not None and size > most:
            raise CorruptFile(f"a part of the file has more than {most} bytes when decompressed")
    return b"".join(parts)


def _unpacked(codec: int, chunk: bytes, block_size: int) -> bytes:
    decompress = _UNPACK.get(codec)
    if decompress is None:
        raise UnsupportedFeature(f"the ORC codec {CODEC_NAMES.get(codec, codec)} is not known")
    try:
        return decompress(chunk, block_size)
    except cramjam.DecompressionError as error:
        raise CorruptFile(f"a chunk cannot be decompressed: {error}", codec=CODEC_NAMES[codec]) from None


def pack_plain(data: bytes, block_size: int) -> bytes:
    """Content as chunks that are stored as they are, for a file whose codec is not `NONE`."""
    step = min(block_size, MAX_BLOCK - 1)
    cut = (data[at : at + step] for at in range(0, len(data), step))
    return b"".join((len(chunk) << 1 | 1).to_bytes(HEAD, "little") + chunk for chunk in cut)
