"""Columns of byte strings as slices of one array, with vectorized comparisons.

A decoded manifest is one array of bytes, and the bounds of a column are slices of it, stored as starts and lengths.
Nothing is copied, and no Python object is created for a string. Comparisons take eight bytes at a time, as big-endian
integers; only strings that are equal so far are compared further.

>>> names = VarBytes.of([b"iceberg", b"floe", None, b"floes"])
>>> names.compare(b"floe").tolist()
[1, 0, -1, 1]
>>> names.is_valid.tolist(), names.starts_with(b"floe").tolist()
([True, True, False, True], [False, True, False, True])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floe.errors import CorruptFile

Words = NDArray[np.uint64]
Rows = NDArray[np.int64]

WORD = 8
# Masks for the first 0 to 8 bytes of a word, so that bytes after the end of a string are not compared.
_KEEP = np.array([((1 << 64) - 1) << (8 * (WORD - n)) & ((1 << 64) - 1) for n in range(WORD + 1)], np.uint64)
_FEW_STRINGS = 32  # up to this number, comparing strings one by one is faster


@dataclass(frozen=True, eq=False, slots=True)
class VarBytes:
    """Byte strings in a shared array; one with a negative length is missing.

    A missing string is compared like an empty one, so callers check `is_valid` first.
    """

    data: NDArray[np.uint8]
    starts: Rows
    lengths: Rows

    def __post_init__(self) -> None:
        is_valid = self.lengths >= 0
        outside = is_valid & ((self.starts < 0) | (self.starts > self.data.size - self.lengths))
        if outside.any():
            row = int(np.flatnonzero(outside)[0])
            raise CorruptFile(
                f"string {row} is outside the data: bytes {int(self.starts[row])} to "
                f"{int(self.starts[row]) + int(self.lengths[row])} of {self.data.size}"
            )

    @classmethod
    def of(cls, values: Iterable[bytes | None]) -> VarBytes:
        """Make a column from Python strings; None is a missing one.

        >>> VarBytes.of([b"ab", None]).to_list()
        [b'ab', None]
        """
        strings = list(values)
        lengths = np.array([-1 if s is None else len(s) for s in strings], np.int64)
        ends = np.cumsum(np.maximum(lengths, 0))
        data = np.frombuffer(b"".join(s for s in strings if s), np.uint8)
        return cls(data, ends - np.maximum(lengths, 0), lengths)

    @classmethod
    def from_offsets(cls, data: Any, offsets: NDArray[Any], valid: NDArray[np.bool_] | None = None) -> VarBytes:
        """Make a column from adjacent strings, as in Arrow: string `i` is bytes `offsets[i]` to `offsets[i + 1]`.

        >>> VarBytes.from_offsets(b"abc", np.array([0, 2, 3])).to_list()
        [b'ab', b'c']
        """
        edges = offsets.astype(np.int64)
        lengths = np.diff(edges)
        if valid is not None:
            lengths = np.where(valid, lengths, -1)
        return cls(np.frombuffer(data, np.uint8), edges[:-1], lengths)

    @classmethod
    def from_words(cls, words: Sequence[Words], is_valid: NDArray[np.bool_]) -> VarBytes:
        """Make a column of strings of equal length from their first eight bytes, their second eight bytes, and so on.

        >>> VarBytes.from_words([np.array([0x6162636465666768], np.uint64)], np.array([True])).to_list()
        [b'abcdefgh']
        """
        count, width = len(is_valid), WORD * len(words)
        table = np.empty((count, len(words)), ">u8")
        for column, part in enumerate(words):
            table[:, column] = part
        starts = np.arange(count, dtype=np.int64) * width
        return cls(table.reshape(-1).view(np.uint8), starts, np.where(is_valid, width, -1).astype(np.int64))

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def is_valid(self) -> NDArray[np.bool_]:
        """Which strings are not missing."""
        return self.lengths >= 0

    def take(self, rows: Rows) -> VarBytes:
        """The strings in some rows, in that order.

        >>> VarBytes.of([b"a", b"b"]).take(np.array([1, 1, 0])).to_list()
        [b'b', b'b', b'a']
        """
        return VarBytes(self.data, self.starts[rows], self.lengths[rows])

    def to_list(self) -> list[bytes | None]:
        """The strings as Python objects, missing ones as None.

        >>> VarBytes.of([]).to_list()
        []
        """
        pairs = zip(self.starts.tolist(), self.lengths.tolist(), strict=True)
        return [None if length < 0 else self.data[start : start + length].tobytes() for start, length in pairs]

    def packed(self) -> tuple[NDArray[np.uint8], Rows]:
        """The strings copied into one adjacent buffer, and its offsets as in Arrow; missing strings are empty.

        >>> data, offsets = VarBytes.of([b"ab", None, b"c"]).packed()
        >>> data.tobytes(), offsets.tolist()
        (b'abc', [0, 2, 2, 3])
        """
        lengths = np.maximum(self.lengths, 0)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        indexes = np.arange(offsets[-1]) + np.repeat(self.starts - offsets[:-1], lengths)
        return self.data[indexes], offsets

    # Words of eight bytes -----------------------------------------------------------------------------------------

    def words(self, offset: int | Rows = 0, rows: Rows | None = None) -> Words:
        r"""Eight bytes of each string from an offset, as a big-endian integer, padded with zeros after its end.

        >>> VarBytes.of([b"\0\0\0\0\0\0\1\2", b"\1"]).words().tolist() == [258, 1 << 56]
        True
        """
        starts, lengths = (self.starts, self.lengths) if rows is None else (self.starts[rows], self.lengths[rows])
        remaining = np.minimum(np.maximum(lengths - offset, 0), WORD)
        positions = np.where(remaining > 0, starts + offset, 0)
        last = max(self.data.size - WORD, 0)
        if positions.max(initial=0) <= last:
            words: Words = self._overlapping_words()[positions].astype(np.uint64)
        else:  # words that extend beyond the array are read from its last eight bytes and shifted
            beyond = np.maximum(positions - last, 0)
            words = self._overlapping_words()[positions - beyond].astype(np.uint64)
            words <<= (beyond * 8).astype(np.uint64)
        words &= _KEEP[remaining]
        return words

    def _overlapping_words(self) -> NDArray[Any]:
        """The unaligned, overlapping words that start at each byte of the array."""
        data = np.ascontiguousarray(self.data)
        if data.size < WORD:
            data = np.concatenate([data, np.zeros(WORD - data.size, np.uint8)])
        return np.ndarray((data.size - WORD + 1,), np.dtype(">u8"), data, strides=(1,))

    # Comparisons --------------------------------------------------------------------------------------------------

    def compare(self, other: bytes | VarBytes) -> NDArray[np.int8]:
        r"""Compare each string with `other`, or with the string in its row: -1 for less, 0 for equal, 1 for greater.

        >>> VarBytes.of([b"a", b"b\0"]).compare(VarBytes.of([b"b", b"b"])).tolist()
        [-1, 1]
        """
        if isinstance(other, bytes):
            return self._compare(lambda offset, rows: _word(other[offset : offset + WORD]), len(other), other)
        return self._compare(other.words, np.maximum(other.lengths, 0), other)

    def _compare(
        self, their_words: Callable[[int, Rows | None], Any], their_lengths: int | Rows, other: bytes | VarBytes
    ) -> NDArray[np.int8]:
        result = np.zeros(len(self), np.int8)
        # The zero padding does not matter: if two words are equal and one string ends within them, it is a prefix of
        # the other, and the shorter one is less. So lengths decide, unless words differ.
        surplus = np.maximum(self.lengths, 0) - their_lengths
        shorter = np.minimum(self.lengths, their_lengths)
        rows: Rows | None = None  # all of them
        offset = 0
        while rows is None or rows.size > _FEW_STRINGS:
            ours, theirs = self.words(offset, rows), their_words(offset, rows)
            sign = (ours > theirs).astype(np.int8) - (ours < theirs)
            offset += WORD
            equal = sign == 0
            if rows is None:
                result = np.where(equal, np.sign(surplus), sign).astype(np.int8)
                rows = np.flatnonzero(equal & (shorter > offset))
            else:
                result[rows] = np.where(equal, np.sign(surplus[rows]), sign)
                rows = rows[equal & (shorter[rows] > offset)]
        self._compare_one_by_one(other, rows, result)
        return result

    def _compare_one_by_one(self, other: bytes | VarBytes, rows: Rows, result: NDArray[np.int8]) -> None:
        theirs = [other] * rows.size if isinstance(other, bytes) else other.take(rows).to_list()
        for row, mine, their in zip(rows.tolist(), self.take(rows).to_list(), theirs, strict=True):
            a, b = mine or b"", their or b""
            result[row] = (a > b) - (a < b)

    def starts_with(self, prefix: bytes) -> NDArray[np.bool_]:
        """Which strings start with a prefix; missing ones do not.

        >>> VarBytes.of([b"ab", b"a", None]).starts_with(b"ab").tolist()
        [True, False, False]
        """
        matches: NDArray[np.bool_] = self.lengths >= len(prefix)
        for offset in range(0, len(prefix), WORD):
            rows = np.flatnonzero(matches)
            part = prefix[offset : offset + WORD]
            matches[rows] = (self.words(offset, rows) & _KEEP[len(part)]) == _word(part)
            if not matches.any():
                break
        return matches

    def rank(self, keys: Sequence[bytes], *, inclusive: bool) -> Rows:
        """For each string, how many of the sorted `keys` are less than it, or less than or equal to it if `inclusive`.

        >>> VarBytes.of([b"b", b"zz"]).rank([b"a", b"b", b"c"], inclusive=True).tolist()
        [2, 3]
        """
        prefix_length = _common_prefix_length(keys[0], keys[-1]) if keys else 0
        if prefix_length:  # skip the common prefix of all keys, as in paths and padded numbers
            ranks = np.where(self.compare(keys[0][:prefix_length]) < 0, 0, len(keys)).astype(np.int64)
            rows = np.flatnonzero(self.starts_with(keys[0][:prefix_length]))
        else:
            ranks, rows = np.empty(len(self), np.int64), np.arange(len(self))
        key_words = np.array([_word(key[prefix_length : prefix_length + WORD]) for key in keys], np.uint64)
        words = self.words(prefix_length, rows)
        low = np.searchsorted(key_words, words, "left").astype(np.int64)
        high = np.searchsorted(key_words, words, "right").astype(np.int64)
        sorted_keys = VarBytes.of(keys)
        undecided = np.flatnonzero(low < high)  # keys with equal words are compared by bisection
        while undecided.size:
            middle = (low[undecided] + high[undecided]) // 2
            sign = sorted_keys.take(middle).compare(self.take(rows[undecided]))
            before = sign <= 0 if inclusive else sign < 0
            low[undecided] = np.where(before, middle + 1, low[undecided])
            high[undecided] = np.where(before, high[undecided], middle)
            undecided = undecided[low[undecided] < high[undecided]]
        ranks[rows] = low
        return ranks


def _common_prefix_length(a: bytes, b: bytes) -> int:
    """The length of the common prefix of two strings."""
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _word(part: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(part.ljust(WORD, b"\0"), "big"))
