r"""Columns of keys: bounds or values of one type in the form in which they are compared (see `ranges`).

There are three kinds: integers for integers, dates, times and decimals of up to 18 digits; floats; and byte strings for
all others, including wide decimals as sixteen bytes in the order of the numbers. All implement `KeyColumn`.

>>> from floe.spec.types import LONG
>>> bounds = keys_from_bounds(LONG, VarBytes.of([b"\x05\0\0\0", None]))  # four bytes: written when it was an int
>>> bounds.is_valid.tolist(), bounds.less_than(7)[bounds.is_valid].tolist()
([True, False], [True])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from floe.spec.pruning.ranges import (
    BYTES_KINDS,
    FLOAT_KINDS,
    INTEGER_KINDS,
    NANOSECOND_KINDS,
    WIDE_DECIMAL_BYTES,
    has_int_keys,
    in_microseconds,
)
from floe.spec.pruning.var_bytes import WORD, VarBytes
from floe.spec.types import DecimalType, FixedType, Type
from floe.spec.values.civil_time import MICROS, NANOS, SECONDS_PER_DAY

Mask = NDArray[np.bool_]
Ranks = NDArray[np.int64]

_SIGN = np.uint64(1 << 63)
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class KeyColumn(Protocol):
    """A column of keys; results for rows that are not valid are meaningless."""

    @property
    def is_valid(self) -> Mask:
        """Which rows have a key."""

    def less_than(self, key: Any) -> Mask:
        """Which keys are less than a key."""

    def at_most(self, key: Any) -> Mask:
        """Which keys are less than or equal to a key."""

    def starts_with(self, prefix: bytes) -> Mask:
        """Which keys start with a prefix; False for numbers."""

    def rank(self, keys: Sequence[Any], *, inclusive: bool) -> Ranks:
        """For each key, how many of the sorted `keys` are less than it, or less than or equal to it if `inclusive`."""

    def above(self, other: Self) -> Mask:
        """Which keys are greater than those in the same rows of another column."""

    def equals(self, other: Self) -> Mask:
        """Which keys are equal to those in the same rows of another column."""

    def key(self, index: int) -> Any:
        """The key of one row; None if the row has none."""

    def where(self, rows: Mask) -> Self:
        """The same keys, valid only in some rows."""


@dataclass(frozen=True, eq=False, slots=True)
class IntKeys:
    """Keys that are 64-bit integers."""

    values: NDArray[np.int64]
    is_valid: Mask

    def less_than(self, key: int) -> Mask:
        """Which keys are below an integer of any size."""
        if _INT64_MIN <= key <= _INT64_MAX:
            return self.values < key
        return np.full(len(self.values), key > 0)

    def at_most(self, key: int) -> Mask:
        """Which keys are not above an integer of any size."""
        if _INT64_MIN <= key <= _INT64_MAX:
            return self.values <= key
        return np.full(len(self.values), key > 0)

    def starts_with(self, prefix: bytes) -> Mask:
        """All False, because numbers have no prefix."""
        return np.zeros(len(self.values), np.bool_)

    def rank(self, keys: Sequence[int], *, inclusive: bool) -> Ranks:
        """How many of some sorted integers are below each key, or not above it."""
        below = sum(key < _INT64_MIN for key in keys)
        in_range = np.array([key for key in keys if _INT64_MIN <= key <= _INT64_MAX], np.int64)
        return below + np.searchsorted(in_range, self.values, "right" if inclusive else "left").astype(np.int64)

    def above(self, other: IntKeys) -> Mask:
        """Which keys are above the others."""
        return self.values > other.values

    def equals(self, other: IntKeys) -> Mask:
        """Which keys are equal to the others."""
        return np.equal(self.values, other.values)

    def distance(self, lower: IntKeys) -> NDArray[np.uint64]:
        """How much each key is greater than a lower one; unsigned, so that it cannot overflow."""
        return self.values.view(np.uint64) - lower.values.view(np.uint64)

    def key(self, index: int) -> int | None:
        """The key of one row."""
        return int(self.values[index]) if self.is_valid[index] else None

    def where(self, rows: Mask) -> IntKeys:
        """The same keys, valid only in some rows."""
        return IntKeys(self.values, self.is_valid & rows)


@dataclass(frozen=True, eq=False, slots=True)
class FloatKeys:
    """Keys that are floats, without NaN in valid rows; `-0.0` equals `0.0`."""

    values: NDArray[np.float64]
    is_valid: Mask

    def less_than(self, key: float) -> Mask:
        """Which keys are below a number."""
        return self.values < key

    def at_most(self, key: float) -> Mask:
        """Which keys are not above a number."""
        return self.values <= key

    def starts_with(self, prefix: bytes) -> Mask:
        """All False, because numbers have no prefix."""
        return np.zeros(len(self.values), np.bool_)

    def rank(self, keys: Sequence[float], *, inclusive: bool) -> Ranks:
        """How many of some sorted numbers are below each key, or not above it."""
        side = "right" if inclusive else "left"
        return np.searchsorted(np.array(keys, np.float64), self.values, side).astype(np.int64)  # type: ignore[call-overload, no-any-return]

    def above(self, other: FloatKeys) -> Mask:
        """Which keys are above the others."""
        return self.values > other.values

    def equals(self, other: FloatKeys) -> Mask:
        """Which keys are equal to the others."""
        return np.equal(self.values, other.values)

    def key(self, index: int) -> float | None:
        """The key of one row."""
        return float(self.values[index]) if self.is_valid[index] else None

    def where(self, rows: Mask) -> FloatKeys:
        """The same keys, valid only in some rows."""
        return FloatKeys(self.values, self.is_valid & rows)


@dataclass(frozen=True, eq=False, slots=True)
class ByteKeys:
    """Keys that are byte strings."""

    values: VarBytes
    is_valid: Mask

    def less_than(self, key: bytes) -> Mask:
        """Which keys are below a string."""
        return self.values.compare(key) < 0

    def at_most(self, key: bytes) -> Mask:
        """Which keys are not above a string."""
        return self.values.compare(key) <= 0

    def starts_with(self, prefix: bytes) -> Mask:
        """Which keys have a prefix."""
        return self.values.starts_with(prefix)

    def rank(self, keys: Sequence[bytes], *, inclusive: bool) -> Ranks:
        """How many of some sorted strings are below each key, or not above it."""
        return self.values.rank(keys, inclusive=inclusive)

    def above(self, other: ByteKeys) -> Mask:
        """Which keys are above the others."""
        return self.values.compare(other.values) > 0

    def equals(self, other: ByteKeys) -> Mask:
        """Which keys are equal to the others."""
        return np.equal(self.values.compare(other.values), 0)

    def key(self, index: int) -> bytes | None:
        """The key of one row."""
        return self.values.to_list()[index] if self.is_valid[index] else None

    def where(self, rows: Mask) -> ByteKeys:
        """The same keys, valid only in some rows."""
        return ByteKeys(self.values, self.is_valid & rows)


# Encoded bounds --------------------------------------------------------------------------------------------------


def keys_from_bounds(type_: Type, bounds: VarBytes) -> KeyColumn:
    """Decode a column of bounds in the single-value encoding; those that are not values of the type are not valid.

    >>> from floe.spec.types import STRING
    >>> keys_from_bounds(STRING, VarBytes.of([b"a", None])).is_valid.tolist()
    [True, False]
    """
    kind = type_.kind
    if isinstance(type_, DecimalType):
        return keys_from_decimal_words(type_, *decimal_words(bounds))
    if kind in INTEGER_KINDS:
        return _INTEGERS[kind](bounds)
    if kind in FLOAT_KINDS:
        return _floats(kind, bounds)
    if kind in BYTES_KINDS:
        length = type_.length if isinstance(type_, FixedType) else 16 if kind == "uuid" else None
        return ByteKeys(bounds, bounds.is_valid if length is None else bounds.lengths == length)
    return IntKeys(np.zeros(len(bounds), np.int64), np.zeros(len(bounds), np.bool_))


def _eight_bytes(bounds: VarBytes) -> NDArray[np.int64]:
    return bounds.words().byteswap().view(np.int64)


def _four_bytes(bounds: VarBytes) -> NDArray[np.int64]:
    return (bounds.words() >> np.uint64(32)).astype(np.uint32).byteswap().view(np.int32).astype(np.int64)


def _ints(bounds: VarBytes) -> IntKeys:
    return IntKeys(_four_bytes(bounds), bounds.lengths == 4)


def _longs(bounds: VarBytes) -> IntKeys:
    return IntKeys(_eight_bytes(bounds), bounds.lengths == 8)


def _longs_or_promoted(unit: int, bounds: VarBytes) -> IntKeys:
    """Eight bytes, or four of a type that the column was promoted from; `unit` converts those to the column's type."""
    short = bounds.lengths == 4
    if not short.any():
        return _longs(bounds)
    promoted = _four_bytes(bounds)
    fits = np.abs(promoted) <= _INT64_MAX // unit  # a date may be beyond the range of nanoseconds
    values = np.where(short, np.where(fits, promoted, 0) * unit, _eight_bytes(bounds))
    return IntKeys(values, (bounds.lengths == 8) | (short & fits))


def _booleans(bounds: VarBytes) -> IntKeys:
    return IntKeys((bounds.words() != 0).astype(np.int64), bounds.lengths == 1)


def _times(bounds: VarBytes) -> IntKeys:
    keys = _longs(bounds)
    return keys.where((keys.values >= 0) & (keys.values < SECONDS_PER_DAY * MICROS))


_INTEGERS = {
    "boolean": _booleans,
    "int": _ints,
    "date": _ints,
    "long": lambda bounds: _longs_or_promoted(1, bounds),
    "time": _times,
    "timestamp": lambda bounds: _longs_or_promoted(SECONDS_PER_DAY * MICROS, bounds),
    "timestamp_ns": lambda bounds: _longs_or_promoted(SECONDS_PER_DAY * NANOS, bounds),
    "timestamptz": _longs,  # dates are never promoted to timestamptz
    "timestamptz_ns": _longs,
}


def _floats(kind: str, bounds: VarBytes) -> FloatKeys:
    short = bounds.lengths == 4
    wide = _eight_bytes(bounds).view(np.float64)
    if kind == "double" and not short.any():
        return FloatKeys(wide, bounds.lengths == 8)
    bits = (bounds.words() >> np.uint64(32)).astype(np.uint32).byteswap()
    with np.errstate(invalid="ignore"):  # signaling NaN
        narrow = bits.view(np.float32).astype(np.float64)
    if kind == "float":
        return FloatKeys(narrow, short)
    return FloatKeys(np.where(short, narrow, wide), short | (bounds.lengths == 8))


def decimal_words(numbers: VarBytes) -> tuple[NDArray[np.int64], NDArray[np.uint64], Mask]:
    r"""The high and low words of big-endian two's complement numbers of up to 16 bytes, and which are valid.

    >>> high, low, known = decimal_words(VarBytes.of([b"\xfe", b"\0\0\x02", b""]))
    >>> high.tolist()[:2], low.view(np.int64).tolist()[:2], known.tolist()
    ([-1, 0], [-2, 2], [True, True, False])
    """
    lengths = numbers.lengths
    # The first eight bytes, shifted right so that only the bytes above the low word remain, with sign extension.
    is_long = lengths > WORD
    shift = 8 * np.where(is_long, 2 * WORD - lengths, WORD - lengths)
    head = numbers.words().view(np.int64) >> np.clip(shift, 0, 63)
    high = np.where(is_long, head, head >> 63)
    low = np.where(is_long, numbers.words(np.maximum(lengths - WORD, 0)), head.view(np.uint64))
    return high, low, (lengths >= 1) & (lengths <= WIDE_DECIMAL_BYTES)


def keys_from_decimal_words(
    type_: DecimalType, high: NDArray[np.int64], low: NDArray[np.uint64], is_valid: Mask
) -> KeyColumn:
    """The keys of decimals from the words of their unscaled values.

    >>> one = np.array([1])
    >>> keys_from_decimal_words(DecimalType(9, 2), one * 0, one.astype(np.uint64), one == 1).values.tolist()
    [1]
    """
    if has_int_keys(type_):
        narrow = low.view(np.int64)
        return IntKeys(narrow, is_valid & (high == narrow >> 63))
    return ByteKeys(VarBytes.from_words([high.view(np.uint64) ^ _SIGN, low], is_valid), is_valid)


def trusted_bounds(type_: Type, lower: KeyColumn, upper: KeyColumn) -> tuple[KeyColumn, KeyColumn]:
    """Invalidate bounds that are not trustworthy, by the rules of `ranges.bounds_to_keys`.

    >>> from floe.spec.types import INT
    >>> low, high = (keys_from_bounds(INT, VarBytes.of([bytes([n, 0, 0, 0])])) for n in (9, 3))
    >>> trusted_bounds(INT, low, high)[0].is_valid.tolist()
    [False]
    """
    if isinstance(lower, FloatKeys) and isinstance(upper, FloatKeys):
        not_nan = ~((lower.is_valid & np.isnan(lower.values)) | (upper.is_valid & np.isnan(upper.values)))
        lower, upper = lower.where(not_nan), upper.where(not_nan)
    both = lower.is_valid & upper.is_valid
    in_order = ~(both & lower.above(upper))
    lower, upper = lower.where(in_order), upper.where(in_order)
    if type_.kind in NANOSECOND_KINDS and isinstance(lower, IntKeys) and isinstance(upper, IntKeys):
        certain = np.zeros(len(lower.is_valid), np.bool_)
        for keys in (lower, upper):
            certain |= keys.is_valid & ~in_microseconds(keys.values)
        lower, upper = lower.where(certain), upper.where(certain)
    if type_.kind == "uuid" and isinstance(lower, ByteKeys) and isinstance(upper, ByteKeys):
        differ = ~(both & lower.equals(upper))
        lower = _replace_second_half(lower, differ, np.uint64(0))
        upper = _replace_second_half(upper, differ, ~np.uint64(0))
    return lower, upper


def _replace_second_half(keys: ByteKeys, rows: Mask, filler: np.uint64) -> ByteKeys:
    """Replace the second half of UUIDs in some rows, because Java compares it as a signed number."""
    halves = [keys.values.words(0), np.where(rows, filler, keys.values.words(8))]
    return ByteKeys(VarBytes.from_words(halves, keys.is_valid), keys.is_valid)
