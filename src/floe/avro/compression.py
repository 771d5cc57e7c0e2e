r"""The codecs of Avro's blocks, with a limit on what a block may swell to (Avro spec: Required and Optional Codecs).

The limit is checked before the room is taken, or the output is cut off at it: a few bytes cannot fill the memory.

>>> packed = compress("deflate", b"abc" * 1000)
>>> len(packed) < 100, decompress("deflate", packed, 3000) == b"abc" * 1000
(True, True)
>>> decompress("deflate", packed, 2999)
Traceback (most recent call last):
floe.errors.CorruptFile: a block of more than 2999 bytes when decompressed (codec: deflate)
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

import cramjam
import numpy as np
from isal import isal_zlib

from floe.errors import CorruptFile, UnsupportedFeature

__all__ = ["CODECS", "check_codec", "compress", "decompress"]

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
