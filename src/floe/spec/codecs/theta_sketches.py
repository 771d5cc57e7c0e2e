"""Theta sketches: how many different values there are, about, in a few kilobytes (Puffin spec: theta sketches).

A sketch has the smallest hashes of the values, at most 4,096 of them, and `theta`, below which it has all: as many
hashes in such a part of their range mean as many more in the whole. Up to 4,096 values the number is exact, above it is
within 3 in 100 in 19 of 20 cases. Hashes are taken of a value's bytes (spec: Appendix D, binary), as Java's Iceberg
does; what is written is the compact and ordered form of Apache DataSketches, which its readers read.

>>> import numpy as np
>>> sketch = ThetaSketch.of(value_hashes_of([b"a", b"b", b"a"]))
>>> sketch.estimate, ThetaSketch.deserialize(sketch.serialize()) == sketch
(2, True)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from floe.errors import CorruptFile, UnsupportedFeature
from floe.spec.codecs.murmur3_128 import Hashes, hash_var_bytes

__all__ = ["NDV", "SEED", "ThetaSketch", "value_hashes", "value_hashes_of"]

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
