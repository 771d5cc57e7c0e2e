"""Theta sketches: how many different values there are, about, in a few kilobytes (Puffin spec: theta sketches).

A sketch has the smallest hashes of the values, at most 4,096 of them, and `theta`, below which it has all: as many
hashes in such a part of their range mean as many more in the whole. Up to 4,096 values the number is exact, above it is
within 3 in 100 in 19 of 20 cases. Hashes are taken of a value's bytes (spec: Appendix D, binary), as Java's Iceberg
does; what is written is the compact and ordered form of Apache DataSketches, which its readers read.

>>> import numpy as np
>>> sketch = ThetaSketch.of(value_hashes_of([b"a", b"b", b"a"]))
>>> sketch.estimate, ThetaSketch.deserialize(sketch.serialize()) == sketch
(2, True)

The first half of the 128-bit murmur3 hash, for whole columns at once: what theta sketches are made of.

Columns are NumPy arrays: byte strings of one length as a matrix of bytes, byte strings of any length as one run of
bytes with the offsets where each begins and the last ends.

>>> import mmh3
>>> import numpy as np
>>> text = np.frombuffer(b"iceberg", np.uint8)
>>> int(hash_var_bytes(text, np.array([0, 7]), 9001)[0]) == mmh3.hash64(b"iceberg", 9001, signed=False)[0]
True
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import mmh3
import numpy as np
from numpy.typing import NDArray

from floe.errors import CorruptFile, UnsupportedFeature

# The first half of the 128-bit murmur3 hash, for whole columns at once: what theta sketches are made of.

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


NDV: Final = "ndv"
"""The property of a blob with a sketch that tells the number itself."""

SEED: Final = 9001
"""What hashes are seeded with; that of DataSketches, and so of Iceberg."""

_SEED_HASH: Final = 0x93CC
_MOST_HASHES: Final = 4096
_WHOLE: Final = 2**63 - 1

# the layout of DataSketches, version 3: how many words the head has, the version, the family, the flags, the seed
_HEAD: Final = struct.Struct("<BBBxxBH")
_COUNT: Final = struct.Struct("<If")
_THETA: Final = struct.Struct("<q")
_VERSION, _FAMILY = 3, 3
_BIG_ENDIAN, _READ_ONLY, _EMPTY, _COMPACT, _ORDERED, _SINGLE = 1, 2, 4, 8, 16, 32
_USUAL_FLAGS: Final = _READ_ONLY | _COMPACT | _ORDERED


def value_hashes(found: Hashes) -> Hashes:
    """Hashes as sketches have them: of 63 bits; in place.

    >>> value_hashes(np.array([2**64 - 1], np.uint64)) == 2**63 - 1
    array([ True])
    """
    found >>= np.uint64(1)
    return found


def value_hashes_of(values: Iterable[bytes]) -> Hashes:
    """The hashes of the bytes of some values; an empty one has none, as DataSketches takes it for nothing.

    >>> len(value_hashes_of([b"", b"x"]))
    1
    """
    present = [value for value in values if value]
    offsets = np.cumsum([0, *map(len, present)])
    return value_hashes(hash_var_bytes(np.frombuffer(b"".join(present), np.uint8), offsets, SEED))


@dataclass(frozen=True, eq=False)
class ThetaSketch:
    """How many different values there are, about."""

    hashes: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    """The smallest hashes, in their order."""

    theta: int = _WHOLE
    """All hashes below it are there."""

    @classmethod
    def of(cls, hashes: Hashes) -> ThetaSketch:
        """The sketch of the values of which these are the hashes."""
        return EMPTY.including(hashes)

    @classmethod
    def union(cls, sketches: Iterable[ThetaSketch]) -> ThetaSketch:
        """The sketch of all values of some sketches.

        >>> one, other = (ThetaSketch.of(value_hashes_of(values)) for values in ([b"a", b"b"], [b"b", b"c"]))
        >>> ThetaSketch.union([one, other]).estimate
        3
        """
        found = list(sketches)
        theta = min((one.theta for one in found), default=_WHOLE)
        return cls(theta=theta).including(np.concatenate([EMPTY.hashes, *(one.hashes for one in found)]))

    def including(self, hashes: Hashes) -> ThetaSketch:
        """The sketch of these values and others."""
        # zero means no hash to DataSketches, so a value that has it is passed over, one in 2**63
        below = hashes[(hashes < np.uint64(self.theta)) & (hashes > np.uint64(0))]
        if not len(below):
            return self
        kept = np.unique(np.concatenate([self.hashes, below]))
        if len(kept) > _MOST_HASHES:
            return ThetaSketch(kept[:_MOST_HASHES].copy(), int(kept[_MOST_HASHES]))
        return ThetaSketch(kept, self.theta)

    @property
    def estimate(self) -> int:
        """How many different values there are, about."""
        return int(len(self.hashes) * (float(_WHOLE) / self.theta))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ThetaSketch):
            return NotImplemented
        return self.theta == other.theta and np.array_equal(self.hashes, other.hashes)

    def __hash__(self) -> int:
        return hash((self.theta, self.hashes.tobytes()))

    # as bytes ----------------------------------------------------------------------------------------------------

    def serialize(self) -> bytes:
        """The sketch as DataSketches writes it, compact and in order.

        >>> ThetaSketch().serialize().hex()
        '01030300001e0000'
        """
        count, whole = len(self.hashes), self.theta == _WHOLE
        if whole and not count:
            return _HEAD.pack(1, _VERSION, _FAMILY, _USUAL_FLAGS | _EMPTY, 0)
        data = self.hashes.astype("<u8").tobytes()
        if whole and count == 1:
            return _HEAD.pack(1, _VERSION, _FAMILY, _USUAL_FLAGS | _SINGLE, _SEED_HASH) + data
        head = _HEAD.pack(2 if whole else 3, _VERSION, _FAMILY, _USUAL_FLAGS, _SEED_HASH) + _COUNT.pack(count, 1.0)
        return head + (b"" if whole else _THETA.pack(self.theta)) + data

    @classmethod
    def deserialize(cls, data: bytes) -> ThetaSketch:
        """The sketch that bytes hold, also one that is not in order; or `CorruptFile`.

        >>> ThetaSketch.deserialize(b"no")
        Traceback (most recent call last):
        floe.errors.CorruptFile: a theta sketch has 8 bytes at least, found 2
        """
        if len(data) < _HEAD.size:
            raise CorruptFile(f"a theta sketch has {_HEAD.size} bytes at least, found {len(data)}")
        words, version, family, flags, seed = _HEAD.unpack_from(data)
        words &= 0x3F  # the other two bits say how sketches grow that are not compact
        if version != _VERSION or family != _FAMILY or flags & _BIG_ENDIAN:
            raise UnsupportedFeature(
                f"Floe reads compact theta sketches of version {_VERSION} in little-endian order; found "
                f"family {family}, version {version}, flags {flags:#04x}"
            )
        if flags & _EMPTY:
            return EMPTY
        if seed != _SEED_HASH:
            raise UnsupportedFeature(f"the hashes of the theta sketch have another seed than {SEED}")
        if not 1 <= words <= 3 or len(data) < 8 * words:
            raise CorruptFile(f"the head of a theta sketch has 1 to 3 words, found {words} in {len(data)} bytes")
        count = 1 if words == 1 else _COUNT.unpack_from(data, 8)[0]
        theta = _THETA.unpack_from(data, 16)[0] if words == 3 else _WHOLE
        if len(data) < 8 * (words + count):
            raise CorruptFile(f"a theta sketch of {count} hashes does not fit {len(data)} bytes")
        hashes = np.unique(np.frombuffer(data, "<u8", count, 8 * words).astype(np.uint64))
        if len(hashes) != count or theta < 1 or (count and not 0 < int(hashes[0]) <= int(hashes[-1]) < theta):
            raise CorruptFile(f"the {count} hashes of a theta sketch are different, above 0 and below theta, {theta}")
        return cls(hashes, theta)


EMPTY: Final = ThetaSketch()
