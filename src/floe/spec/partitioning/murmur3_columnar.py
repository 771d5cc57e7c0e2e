"""The hash of `murmur3`, for whole columns at once (spec: Appendix B, 32-bit Hash Requirements).

Columns are NumPy arrays: numbers as they are, byte strings of one length as a matrix of bytes, byte strings of any
length as one run of bytes with the offsets where each begins and the last ends.

>>> import numpy as np
>>> hash_longs(np.array([34]))
array([2017239379], dtype=int32)
>>> hash_var_bytes(np.frombuffer(b"icebergice", np.uint8), np.array([0, 7, 10]))[:1]
array([1210000089], dtype=int32)
"""

from __future__ import annotations

from typing import Any

import mmh3
import numpy as np
from numpy.typing import NDArray

__all__ = ["hash_fixed_bytes", "hash_longs", "hash_var_bytes"]

_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)
_FIVE = np.uint32(5)
_ADDEND = np.uint32(0xE6546B64)
_MASK_OF_TAIL = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)

_ROWS_AT_ONCE = 16_384
"""Rows that are hashed together: few enough for their words to stay in the cache."""

_LONG_TEXT = 64
"""Byte strings longer than this are hashed one by one in C: faster there, as measured, for all the words they have."""


def hash_longs(values: NDArray[Any]) -> NDArray[np.int32]:
    """The hashes of whole numbers of any width, as longs.

    >>> hash_longs(np.array([34, 1], np.int16))
    array([2017239379, 1392991556], dtype=int32)
    """
    words = np.ascontiguousarray(values, "<i8").view("<u4").reshape(-1, 2)
    return _hash_words(words, 8)


def hash_fixed_bytes(rows: NDArray[np.uint8]) -> NDArray[np.int32]:
    """The hashes of byte strings of one length, given as the rows of a matrix.

    >>> hash_fixed_bytes(np.array([[0, 1, 2, 3]], np.uint8))
    array([-188683207], dtype=int32)
    """
    count, length = rows.shape
    padded = np.zeros((count, -(-length // 4) * 4), np.uint8)
    padded[:, :length] = rows
    return _hash_words(padded.view("<u4"), length)


def hash_var_bytes(data: NDArray[np.uint8], offsets: NDArray[Any]) -> NDArray[np.int32]:
    """The hashes of byte strings of any length: string `i` is `data[offsets[i]:offsets[i + 1]]`.

    >>> hash_var_bytes(np.frombuffer(b"iceberg", np.uint8), np.array([0, 7, 7]))
    array([1210000089,          0], dtype=int32)
    """
    count = len(offsets) - 1
    out = np.empty(count, np.int32)
    for start in range(0, count, _ROWS_AT_ONCE):
        some = np.asarray(offsets[start : start + _ROWS_AT_ONCE + 1], np.int64)
        out[start : start + _ROWS_AT_ONCE] = _hash_some(data[some[0] : some[-1]], some - some[0])
    return out


def _hash_some(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.int32]:
    lengths = np.diff(offsets)
    short = lengths <= _LONG_TEXT
    if short.all():
        return _hash_short(data, offsets[:-1], lengths)
    out = np.empty(len(lengths), np.int32)
    out[short] = _hash_short(data, offsets[:-1][short], lengths[short])
    whole = data.tobytes()
    ends = zip(offsets[:-1][~short].tolist(), offsets[1:][~short].tolist(), strict=True)
    out[~short] = [mmh3.hash(whole[start:end], 0, True) for start, end in ends]
    return out


def _hash_short(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int32]:
    # one little-endian word at every byte; the padding lets the last ones reach beyond the end
    padded = np.zeros(len(data) + 4, np.uint8)
    padded[: len(data)] = data
    word_at: NDArray[np.uint32] = np.ndarray(len(data) + 1, "<u4", padded, strides=(1,))

    hashes = np.zeros(len(lengths), np.uint32)
    blocks = lengths >> 2
    rows = np.flatnonzero(blocks)
    block = 0
    while len(rows):
        some = _mixed(hashes[rows], word_at[starts[rows] + 4 * block])
        hashes[rows] = some
        block += 1
        rows = rows[blocks[rows] > block]
    tail = word_at[starts + 4 * blocks] & _MASK_OF_TAIL[lengths & 3]
    hashes ^= _scrambled(tail)
    return _finished(hashes, lengths.astype(np.uint32))


def _hash_words(words: NDArray[np.uint32], length: int) -> NDArray[np.int32]:
    """The hashes of byte strings of one length, as rows of little-endian words padded with zeros."""
    out = np.empty(len(words), np.int32)
    whole = length // 4
    for start in range(0, len(words), _ROWS_AT_ONCE):
        some = words[start : start + _ROWS_AT_ONCE]
        hashes = np.zeros(len(some), np.uint32)
        for column in range(whole):
            hashes = _mixed(hashes, some[:, column].copy())
        if length % 4:
            hashes ^= _scrambled(some[:, whole].copy())
        out[start : start + _ROWS_AT_ONCE] = _finished(hashes, np.uint32(length))
    return out


def _scrambled(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The words times a constant, rotated, times another; in place."""
    words *= _C1
    high = words << 15
    words >>= 17
    words |= high
    words *= _C2
    return words


def _mixed(hashes: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The hashes after one more word of each row; in place."""
    hashes ^= _scrambled(words)
    high = hashes << 13
    hashes >>= 19
    hashes |= high
    hashes *= _FIVE
    hashes += _ADDEND
    return hashes


def _finished(hashes: NDArray[np.uint32], lengths: Any) -> NDArray[np.int32]:
    """The hashes after the last word: the length mixed in and the bits spread; in place."""
    hashes ^= lengths
    hashes ^= hashes >> 16
    hashes *= np.uint32(0x85EBCA6B)
    hashes ^= hashes >> 13
    hashes *= np.uint32(0xC2B2AE35)
    hashes ^= hashes >> 16
    return hashes.view(np.int32)
