"""Theta sketches: estimates of the number of distinct values, in a few kilobytes (Puffin spec: theta sketches).

A sketch has the lowest hashes of the values, at most 4,096 of them, and `theta`: it has all hashes below it, so that
their number divided by the part of the range below theta estimates the number of all hashes. Up to 4,096 values the
number is exact; above, the error is within 3% in 95% of all cases. The hashes are those of the values' bytes (spec:
Appendix D, binary), as in Java, and sketches are written in the compact, ordered form of Apache DataSketches.

>>> import numpy as np
>>> sketch = ThetaSketch.of(value_hashes_of([b"a", b"b", b"a"]))
>>> sketch.estimate, ThetaSketch.deserialize(sketch.serialize()) == sketch
(2, True)

The hash of a value is the first half of its 128-bit murmur3 hash. It is computed for NumPy columns: byte strings of
equal length as a matrix of bytes, others as data bytes with offsets, as in Arrow.

>>> import mmh3
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

# Hashes ----------------------------------------------------------------------------------------------------------

Hashes = NDArray[np.uint64]

_C1 = np.uint64(0x87C37B91114253D5)
_C2 = np.uint64(0x4CF5AD432745937F)
_FIVE = np.uint64(5)
_ADDENDS = np.uint64(0x52DCE729), np.uint64(0x38495AB5)
_MASK_OF_TAIL = np.array([2 ** (8 * count) - 1 for count in range(9)], np.uint64)

_CHUNK_ROWS = 16_384
"""The number of rows that are hashed at once: few enough for their words to stay in the CPU cache."""

_LONG_STRING = 256
"""Byte strings longer than this are hashed one by one in C."""


def hash_fixed_bytes(rows: NDArray[np.uint8], seed: int) -> Hashes:
    """The hashes of byte strings of one length, as the rows of a matrix.

    >>> int(hash_fixed_bytes(np.zeros((1, 16), np.uint8), 9001)[0]) == mmh3.hash64(bytes(16), 9001, signed=False)[0]
    True
    """
    count, length = rows.shape
    out = np.empty(count, np.uint64)
    for start in range(0, count, _CHUNK_ROWS):
        chunk = rows[start : start + _CHUNK_ROWS]
        padded = np.zeros((len(chunk), -(-length // 16) * 16), np.uint8)
        padded[:, :length] = chunk
        words = padded.view("<u8")
        first, second = _seed_hashes(len(chunk), seed)
        full_blocks = length // 16
        for block in range(full_blocks):
            first, second = _mix(first, second, words[:, 2 * block].copy(), words[:, 2 * block + 1].copy())
        if length % 16:
            first ^= _scramble_first(words[:, 2 * full_blocks].copy())
            second ^= _scramble_second(words[:, 2 * full_blocks + 1].copy())
        out[start : start + _CHUNK_ROWS] = _finalize(first, second, np.uint64(length))
    return out


def hash_var_bytes(data: NDArray[np.uint8], offsets: NDArray[Any], seed: int) -> Hashes:
    """The hashes of byte strings of any length: string `i` is `data[offsets[i]:offsets[i + 1]]`.

    >>> hash_var_bytes(np.frombuffer(b"", np.uint8), np.array([0, 0]), 0)
    array([0], dtype=uint64)
    """
    count = len(offsets) - 1
    out = np.empty(count, np.uint64)
    for start in range(0, count, _CHUNK_ROWS):
        chunk = np.asarray(offsets[start : start + _CHUNK_ROWS + 1], np.int64)
        out[start : start + _CHUNK_ROWS] = _hash_chunk(data[chunk[0] : chunk[-1]], chunk - chunk[0], seed)
    return out


def _hash_chunk(data: NDArray[np.uint8], offsets: NDArray[np.int64], seed: int) -> Hashes:
    lengths = np.diff(offsets)
    is_short = lengths <= _LONG_STRING
    if is_short.all():
        return _hash_short(data, offsets[:-1], lengths, seed)
    out = np.empty(len(lengths), np.uint64)
    out[is_short] = _hash_short(data, offsets[:-1][is_short], lengths[is_short], seed)
    all_bytes = data.tobytes()
    ends = zip(offsets[:-1][~is_short].tolist(), offsets[1:][~is_short].tolist(), strict=True)
    out[~is_short] = [mmh3.hash64(all_bytes[start:end], seed, signed=False)[0] for start, end in ends]
    return out


def _hash_short(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], seed: int) -> Hashes:
    # a little-endian word at every byte; padded, because the last ones extend beyond the end
    padded = np.zeros(len(data) + 16, np.uint8)
    padded[: len(data)] = data
    word_at: Hashes = np.ndarray(len(data) + 9, "<u8", padded, strides=(1,))

    first, second = _seed_hashes(len(lengths), seed)
    blocks = lengths >> 4
    rows = np.flatnonzero(blocks)
    block = 0
    while len(rows):
        positions = starts[rows] + 16 * block
        first[rows], second[rows] = _mix(first[rows], second[rows], word_at[positions], word_at[positions + 8])
        block += 1
        rows = rows[blocks[rows] > block]
    positions, tail = starts + 16 * blocks, lengths & 15
    first ^= _scramble_first(word_at[positions] & _MASK_OF_TAIL[np.minimum(tail, 8)])
    second ^= _scramble_second(word_at[positions + 8] & _MASK_OF_TAIL[np.maximum(tail - 8, 0)])
    return _finalize(first, second, lengths.astype(np.uint64))


# Steps of the hash, all in place ---------------------------------------------------------------------------------


def _seed_hashes(count: int, seed: int) -> tuple[Hashes, Hashes]:
    return np.full(count, seed, np.uint64), np.full(count, seed, np.uint64)


def _rotate(words: Hashes, bits: int) -> Hashes:
    high = words << np.uint64(bits)
    words >>= np.uint64(64 - bits)
    words |= high
    return words


def _scramble_first(words: Hashes) -> Hashes:
    words *= _C1
    words = _rotate(words, 31)
    words *= _C2
    return words


def _scramble_second(words: Hashes) -> Hashes:
    words *= _C2
    words = _rotate(words, 33)
    words *= _C1
    return words


def _mix(first: Hashes, second: Hashes, word1: Hashes, word2: Hashes) -> tuple[Hashes, Hashes]:
    """Mix one more block of two words into both halves."""
    first ^= _scramble_first(word1)
    first = _rotate(first, 27)
    first += second
    first *= _FIVE
    first += _ADDENDS[0]
    second ^= _scramble_second(word2)
    second = _rotate(second, 31)
    second += first
    second *= _FIVE
    second += _ADDENDS[1]
    return first, second


def _finalize(first: Hashes, second: Hashes, lengths: Any) -> Hashes:
    """Finalize the first half: mix in the length and spread the bits."""
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


# Sketches --------------------------------------------------------------------------------------------------------

NDV: Final = "ndv"
"""The property of a blob that has the estimated number of distinct values."""

SEED: Final = 9001
"""The seed of the hashes: the default of DataSketches."""

_SEED_HASH: Final = 0x93CC
_MAX_HASHES: Final = 4096
_MAX_THETA: Final = 2**63 - 1

# The layout of DataSketches, version 3: the number of header words, version, family, flags, hash of the seed
_HEADER: Final = struct.Struct("<BBBxxBH")
_COUNT: Final = struct.Struct("<If")
_THETA: Final = struct.Struct("<q")
_VERSION, _FAMILY = 3, 3
_BIG_ENDIAN, _READ_ONLY, _EMPTY, _COMPACT, _ORDERED, _SINGLE = 1, 2, 4, 8, 16, 32
_USUAL_FLAGS: Final = _READ_ONLY | _COMPACT | _ORDERED


def value_hashes(hashes: Hashes) -> Hashes:
    """Reduce hashes to the 63 bits that sketches use; in place.

    >>> value_hashes(np.array([2**64 - 1], np.uint64)) == 2**63 - 1
    array([ True])
    """
    hashes >>= np.uint64(1)
    return hashes


def value_hashes_of(values: Iterable[bytes]) -> Hashes:
    """The hashes of the bytes of some values; empty ones are omitted, because DataSketches ignores them.

    >>> len(value_hashes_of([b"", b"x"]))
    1
    """
    present = [value for value in values if value]
    offsets = np.cumsum([0, *map(len, present)])
    return value_hashes(hash_var_bytes(np.frombuffer(b"".join(present), np.uint8), offsets, SEED))


@dataclass(frozen=True, eq=False)
class ThetaSketch:
    """An estimate of the number of distinct values."""

    hashes: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    """The lowest hashes, sorted."""

    theta: int = _MAX_THETA
    """The sketch has all hashes below it."""

    @classmethod
    def of(cls, hashes: Hashes) -> ThetaSketch:
        """The sketch of the values with these hashes."""
        return EMPTY.add_hashes(hashes)

    @classmethod
    def union(cls, sketches: Iterable[ThetaSketch]) -> ThetaSketch:
        """The sketch of all values of some sketches.

        >>> left, right = (ThetaSketch.of(value_hashes_of(values)) for values in ([b"a", b"b"], [b"b", b"c"]))
        >>> ThetaSketch.union([left, right]).estimate
        3
        """
        all_sketches = list(sketches)
        theta = min((sketch.theta for sketch in all_sketches), default=_MAX_THETA)
        return cls(theta=theta).add_hashes(np.concatenate([EMPTY.hashes, *(sketch.hashes for sketch in all_sketches)]))

    def add_hashes(self, hashes: Hashes) -> ThetaSketch:
        """Return the sketch with the hashes of more values."""
        # DataSketches uses 0 for "no hash", so a value with that hash is ignored: one in 2**63
        below = hashes[(hashes < np.uint64(self.theta)) & (hashes > np.uint64(0))]
        if not len(below):
            return self
        smallest = np.unique(np.concatenate([self.hashes, below]))
        if len(smallest) > _MAX_HASHES:
            return ThetaSketch(smallest[:_MAX_HASHES].copy(), int(smallest[_MAX_HASHES]))
        return ThetaSketch(smallest, self.theta)

    @property
    def estimate(self) -> int:
        """The estimated number of distinct values."""
        return int(len(self.hashes) * (float(_MAX_THETA) / self.theta))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ThetaSketch):
            return NotImplemented
        return self.theta == other.theta and np.array_equal(self.hashes, other.hashes)

    def __hash__(self) -> int:
        return hash((self.theta, self.hashes.tobytes()))

    # Bytes --------------------------------------------------------------------------------------------------------

    def serialize(self) -> bytes:
        """Encode the sketch in the compact, ordered form of DataSketches.

        >>> ThetaSketch().serialize().hex()
        '01030300001e0000'
        """
        count, is_exact = len(self.hashes), self.theta == _MAX_THETA
        if is_exact and not count:
            return _HEADER.pack(1, _VERSION, _FAMILY, _USUAL_FLAGS | _EMPTY, 0)
        data = self.hashes.astype("<u8").tobytes()
        if is_exact and count == 1:
            return _HEADER.pack(1, _VERSION, _FAMILY, _USUAL_FLAGS | _SINGLE, _SEED_HASH) + data
        head = _HEADER.pack(2 if is_exact else 3, _VERSION, _FAMILY, _USUAL_FLAGS, _SEED_HASH) + _COUNT.pack(count, 1.0)
        return head + (b"" if is_exact else _THETA.pack(self.theta)) + data

    @classmethod
    def deserialize(cls, data: bytes) -> ThetaSketch:
        """Decode a sketch, ordered or not; raises `CorruptFile`.

        >>> ThetaSketch.deserialize(b"no")
        Traceback (most recent call last):
        floe.errors.CorruptFile: a theta sketch has 8 bytes at least, found 2
        """
        if len(data) < _HEADER.size:
            raise CorruptFile(f"a theta sketch has {_HEADER.size} bytes at least, found {len(data)}")
        words, version, family, flags, seed = _HEADER.unpack_from(data)
        words &= 0x3F  # the other two bits are the resize factor of sketches that are not compact
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
        theta = _THETA.unpack_from(data, 16)[0] if words == 3 else _MAX_THETA
        if len(data) < 8 * (words + count):
            raise CorruptFile(f"a theta sketch of {count} hashes does not fit {len(data)} bytes")
        hashes = np.unique(np.frombuffer(data, "<u8", count, 8 * words).astype(np.uint64))
        if len(hashes) != count or theta < 1 or (count and not 0 < int(hashes[0]) <= int(hashes[-1]) < theta):
            raise CorruptFile(f"the {count} hashes of a theta sketch are different, above 0 and below theta, {theta}")
        return cls(hashes, theta)


EMPTY: Final = ThetaSketch()
