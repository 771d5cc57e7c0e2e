"""The first half of the 128-bit murmur3 hash, for whole columns at once: what theta sketches are made of.

Columns are NumPy arrays: byte strings of one length as a matrix of bytes, byte strings of any length as one run of
bytes with the offsets where each begins and the last ends.

>>> import mmh3
>>> import numpy as np
>>> text = np.frombuffer(b"iceberg", np.uint8)
>>> int(hash_var_bytes(text, np.array([0, 7]), 9001)[0]) == mmh3.hash64(b"iceberg", 9001, signed=False)[0]
True
"""

from __future__ import annotations

from typing import Any

import mmh3
import numpy as np
from numpy.typing import NDArray

__all__ = ["Hashes", "hash_fixed_bytes", "hash_var_bytes"]

Hashes = NDArray[np.uint64]

_C1 = np.uint64(0x87C37B91114253D5)
_C2 = np.uint64(0x4CF5AD432745937F)
_FIVE = np.uint64(5)
_ADDENDS = np.uint64(0x52DCE729), np.uint64(0x38495AB5)
_MASK_OF_TAIL = np.array([2 ** (8 * count) - 1 for count in range(9)], np.uint64)

_ROWS_AT_ONCE = 16_384
"""Rows that are hashed together: few enough for their words to stay in the cache."""

_LONG_TEXT = 256
"""Byte strings longer than this are hashed one by one in C."""


def hash_fixed_bytes(rows: NDArray[np.uint8], seed: int) -> Hashes:
    """The hashes of byte strings of one length, given as the rows of a matrix.

    >>> int(hash_fixed_bytes(np.zeros((1, 16), np.uint8), 9001)[0]) == mmh3.hash64(bytes(16), 9001, signed=False)[0]
    True
    """
    count, length = rows.shape
    out = np.empty(count, np.uint64)
    for start in range(0, count, _ROWS_AT_ONCE):
        some = rows[start : start + _ROWS_AT_ONCE]
        padded = np.zeros((len(some), -(-length // 16) * 16), np.uint8)
        padded[:, :length] = some
        words = padded.view("<u8")
        first, second = _seeded(len(some), seed)
        whole = length // 16
        for block in range(whole):
            first, second = _mixed(first, second, words[:, 2 * block].copy(), words[:, 2 * block + 1].copy())
        if length % 16:
            first ^= _scrambled_first(words[:, 2 * whole].copy())
            second ^= _scrambled_second(words[:, 2 * whole + 1].copy())
        out[start : start + _ROWS_AT_ONCE] = _finished(first, second, np.uint64(length))
    return out


def hash_var_bytes(data: NDArray[np.uint8], offsets: NDArray[Any], seed: int) -> Hashes:
    """The hashes of byte strings of any length: string `i` is `data[offsets[i]:offsets[i + 1]]`.

    >>> hash_var_bytes(np.frombuffer(b"", np.uint8), np.array([0, 0]), 0)
    array([0], dtype=uint64)
    """
    count = len(offsets) - 1
    out = np.empty(count, np.uint64)
    for start in range(0, count, _ROWS_AT_ONCE):
        some = np.asarray(offsets[start : start + _ROWS_AT_ONCE + 1], np.int64)
        out[start : start + _ROWS_AT_ONCE] = _hash_some(data[some[0] : some[-1]], some - some[0], seed)
    return out


def _hash_some(data: NDArray[np.uint8], offsets: NDArray[np.int64], seed: int) -> Hashes:
    lengths = np.diff(offsets)
    short = lengths <= _LONG_TEXT
    if short.all():
        return _hash_short(data, offsets[:-1], lengths, seed)
    out = np.empty(len(lengths), np.uint64)
    out[short] = _hash_short(data, offsets[:-1][short], lengths[short], seed)
    whole = data.tobytes()
    ends = zip(offsets[:-1][~short].tolist(), offsets[1:][~short].tolist(), strict=True)
    out[~short] = [mmh3.hash64(whole[start:end], seed, signed=False)[0] for start, end in ends]
    return out


def _hash_short(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], seed: int) -> Hashes:
    # one little-endian word at every byte; the padding lets the last ones reach beyond the end
    padded = np.zeros(len(data) + 16, np.uint8)
    padded[: len(data)] = data
    word_at: Hashes = np.ndarray(len(data) + 9, "<u8", padded, strides=(1,))

    first, second = _seeded(len(lengths), seed)
    blocks = lengths >> 4
    rows = np.flatnonzero(blocks)
    block = 0
    while len(rows):
        places = starts[rows] + 16 * block
        first[rows], second[rows] = _mixed(first[rows], second[rows], word_at[places], word_at[places + 8])
        block += 1
        rows = rows[blocks[rows] > block]
    places, tail = starts + 16 * blocks, lengths & 15
    first ^= _scrambled_first(word_at[places] & _MASK_OF_TAIL[np.minimum(tail, 8)])
    second ^= _scrambled_second(word_at[places + 8] & _MASK_OF_TAIL[np.maximum(tail - 8, 0)])
    return _finished(first, second, lengths.astype(np.uint64))


# the steps of the hash; all in place ------------------------------------------------------------------------------


def _seeded(count: int, seed: int) -> tuple[Hashes, Hashes]:
    return np.full(count, seed, np.uint64), np.full(count, seed, np.uint64)


def _rotated(words: Hashes, bits: int) -> Hashes:
    high = words << np.uint64(bits)
    words >>= np.uint64(64 - bits)
    words |= high
    return words


def _scrambled_first(words: Hashes) -> Hashes:
    words *= _C1
    words = _rotated(words, 31)
    words *= _C2
    return words


def _scrambled_second(words: Hashes) -> Hashes:
    words *= _C2
    words = _rotated(words, 33)
    words *= _C1
    return words


def _mixed(first: Hashes, second: Hashes, one: Hashes, other: Hashes) -> tuple[Hashes, Hashes]:
    """Both halves after one more block of two words."""
    first ^= _scrambled_first(one)
    first = _rotated(first, 27)
    first += second
    first *= _FIVE
    first += _ADDENDS[0]
    second ^= _scrambled_second(other)
    second = _rotated(second, 31)
    second += first
    second *= _FIVE
    second += _ADDENDS[1]
    return first, second


def _finished(first: Hashes, second: Hashes, lengths: Any) -> Hashes:
    """The first half after the last word: the length mixed in and the bits spread."""
    first ^= lengths
    second ^= lengths
    first += second
    second += first
    return _spread(first) + _spread(second)


def _spread(words: Hashes) -> Hashes:
    for factor in (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)):
        words ^= words >> np.uint64(33)
        words *= factor
    words ^= words >> np.uint64(33)
    return words
