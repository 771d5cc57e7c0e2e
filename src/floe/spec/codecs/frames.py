"""LZ4 and Zstandard frames that tell the size of their content, as Puffin wants them (Puffin spec: Compression codecs).

The size in the frame's head is checked against a limit before anything is allocated, and the content must have exactly
that size; so a few bytes cannot swell to gigabytes. One frame alone is read, nothing may follow it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cramjam

from floe.errors import CorruptFile

__all__ = ["compress_lz4", "compress_zstd", "decompress_lz4", "decompress_zstd"]

_LZ4_MAGIC = bytes.fromhex("04224d18")
_LZ4_VERSION, _LZ4_VERSION_MASK = 0x40, 0xC0
_LZ4_HAS_CONTENT_SIZE = 0x08
_ZSTD_MAGIC = bytes.fromhex("28b52ffd")
_ZSTD_SINGLE_SEGMENT = 0x20
_ZSTD_SIZE_IN_8_BYTES = 0xC0
_U32 = 0xFFFFFFFF


def compress_lz4(data: bytes) -> bytes:
    """One LZ4 frame with the content's size.

    >>> decompress_lz4(compress_lz4(b"abc" * 100), 300) == b"abc" * 100
    True
    """
    frame = bytes(cramjam.lz4.compress(data))
    flags, block = frame[4], frame[5]
    if flags & _LZ4_HAS_CONTENT_SIZE:
        return frame
    # The compressor left the size out. It stands behind the flags and block size, and a checksum follows the three.
    head = bytes((flags | _LZ4_HAS_CONTENT_SIZE, block)) + len(data).to_bytes(8, "little")
    return b"".join((_LZ4_MAGIC, head, bytes(((_xxh32_short(head) >> 8) & 0xFF,)), frame[7:]))


def decompress_lz4(frame: bytes, max_size: int) -> bytes:
    """The content of an LZ4 frame, if it has at most `max_size` bytes.

    >>> decompress_lz4(compress_lz4(bytes(1000)), 999)
    Traceback (most recent call last):
    floe.errors.CorruptFile: the content of the LZ4 frame has 1000 bytes; at most 999 are read
    """
    if len(frame) < 15 or frame[:4] != _LZ4_MAGIC or frame[4] & _LZ4_VERSION_MASK != _LZ4_VERSION:
        raise CorruptFile("compressed with lz4, but not an LZ4 frame")
    if not frame[4] & _LZ4_HAS_CONTENT_SIZE:
        raise CorruptFile("an LZ4 frame without the size of its content")
    return _decompress("LZ4", cramjam.lz4.decompress_into, frame, int.from_bytes(frame[6:14], "little"), max_size)


def compress_zstd(data: bytes) -> bytes:
    """One Zstandard frame with the content's size.

    >>> decompress_zstd(compress_zstd(b"abc" * 100), 300) == b"abc" * 100
    True
    """
    return _with_zstd_content_size(bytes(cramjam.zstd.compress(data)), len(data))


def _with_zstd_content_size(frame: bytes, size: int) -> bytes:
    """The frame with the content's size in its head, where a compressor left it out."""
    start, width = _zstd_content_size_place(frame)
    if width:
        return frame
    descriptor = frame[4] | _ZSTD_SIZE_IN_8_BYTES
    return b"".join((frame[:4], bytes((descriptor,)), frame[5:start], size.to_bytes(8, "little"), frame[start:]))


def decompress_zstd(frame: bytes, max_size: int) -> bytes:
    """The content of a Zstandard frame, if it has at most `max_size` bytes.

    >>> decompress_zstd(b"no frame", 100)
    Traceback (most recent call last):
    floe.errors.CorruptFile: compressed with zstd, but not a Zstandard frame
    """
    if len(frame) < 6 or frame[:4] != _ZSTD_MAGIC:
        raise CorruptFile("compressed with zstd, but not a Zstandard frame")
    return _decompress("Zstandard", cramjam.zstd.decompress_into, frame, _zstd_content_size(frame), max_size)


def _zstd_content_size(frame: bytes) -> int:
    start, width = _zstd_content_size_place(frame)
    if not width or len(frame) < start + width:
        raise CorruptFile("a Zstandard frame without the size of its content")
    return int.from_bytes(frame[start : start + width], "little") + (256 if width == 2 else 0)


def _zstd_content_size_place(frame: bytes) -> tuple[int, int]:
    """Where a frame's head has the content's size, behind descriptor, window and dictionary id, and its width."""
    descriptor = frame[4]
    single = descriptor & _ZSTD_SINGLE_SEGMENT
    start = 5 + (not single) + (0, 1, 2, 4)[descriptor & 3]
    return start, (1 if single else 0, 2, 4, 8)[descriptor >> 6]


def _decompress(name: str, decompress_into: Callable[..., Any], frame: bytes, size: int, max_size: int) -> bytes:
    if size > max_size:
        raise CorruptFile(f"the content of the {name} frame has {size} bytes; at most {max_size} are read")
    content = bytearray(size)
    try:
        found = decompress_into(frame, content)
    except cramjam.DecompressionError as error:
        raise CorruptFile(f"a broken {name} frame: {error}") from error
    if found != size:
        raise CorruptFile(f"a {name} frame says that it holds {size} bytes, but holds {found}")
    return bytes(content)


def _xxh32_short(data: bytes) -> int:
    """The checksum of an LZ4 frame's head: xxHash-32, seed 0, for fewer than 16 bytes."""
    p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    h = (p5 + len(data)) & _U32
    words, rest = divmod(len(data), 4)
    for i in range(words):
        h = _rotate(h + int.from_bytes(data[4 * i : 4 * i + 4], "little") * p3, 17) * p4 & _U32
    for byte in data[len(data) - rest :]:
        h = _rotate(h + byte * p5, 11) * p1 & _U32
    h = (h ^ (h >> 15)) * p2 & _U32
    h = (h ^ (h >> 13)) * p3 & _U32
    return h ^ (h >> 16)


def _rotate(value: int, bits: int) -> int:
    value &= _U32
    return (value << bits | value >> (32 - bits)) & _U32
