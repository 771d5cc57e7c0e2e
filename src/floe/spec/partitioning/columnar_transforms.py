"""Transforms of whole columns, in NumPy (spec: Partition Transforms).

A column is an array of values and an array that tells which of them are not null (None: all of them). What the values
of nulls are does not matter, before or after.

| type of the column | array |
|---|---|
| boolean, int, long, float, double, date, time, timestamps | numbers of the type's width, or wider |
| string, binary | a pair: all bytes in a row, and the offsets where each value begins and the last ends |
| uuid, fixed | a matrix of bytes, a row for each value |
| decimal | a matrix of two 64-bit words for each unscaled value, the low one first (the layout of Arrow) |
| any | Python objects in the form of `floe.spec.values`, one by one and so slowly |

Results have the same layout; where the result type is int or date they are 32-bit numbers.

>>> import numpy as np
>>> from floe.spec.partitioning.transforms import DAY, Truncate
>>> from floe.spec.types import INT, TIMESTAMP
>>> apply(DAY, TIMESTAMP, np.array([-1, 86_400_000_000]))
(array([-1,  1], dtype=int32), None)
>>> apply(Truncate(10), INT, np.array([-1, 19], np.int32), np.array([True, False]))
(array([-10,  10], dtype=int32), array([ True, False]))
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from floe.errors import InvalidValue
from floe.spec.codecs.decimal_columnar import fewest_bytes
from floe.spec.partitioning.murmur3_columnar import hash_fixed_bytes, hash_longs, hash_var_bytes
from floe.spec.partitioning.transforms import (
    Bucket,
    Hour,
    Identity,
    Month,
    TimeTransform,
    Transform,
    Truncate,
    Void,
    Year,
)
from floe.spec.types import DecimalType, Type
from floe.spec.values.civil_time import MICROS, NANOS

__all__ = ["Column", "Valid", "apply"]

Column = NDArray[Any] | tuple[NDArray[np.uint8], NDArray[Any]]
"""The values of a column, in one of the layouts above."""

Valid = NDArray[np.bool_] | None
"""Which values are not null; None means all."""

_TICKS_PER_SECOND = {"timestamp": MICROS, "timestamptz": MICROS, "timestamp_ns": NANOS, "timestamptz_ns": NANOS}
_INT32 = np.iinfo(np.int32)
_INT64 = np.iinfo(np.int64)
_LOW_32_BITS = np.uint64(0xFFFFFFFF)


def apply(transform: Transform, source: Type, values: Column, valid: Valid = None) -> tuple[Column, Valid]:
    """The results of a transform for a column of a type, and which of them are not null.

    Raises what `transform.apply` would raise for one of the values.
    """
    transform.result_type(source)
    if isinstance(transform, Void):
        count = len(values[1]) - 1 if isinstance(values, tuple) else len(values)
        return values, np.zeros(count, np.bool_)
    if isinstance(transform, Identity):
        return values, valid
    if not isinstance(values, tuple) and values.dtype == object:
        return _one_by_one(transform, source, values, valid)
    match transform:
        case Bucket(n=buckets):
            # the mask drops the sign bit, as the spec asks; with it the remainder fits 32 bits
            return (_hashes(source, values) & np.int32(_INT32.max)) % np.int32(buckets), valid
        case Truncate(width=width):
            return _truncated(source, values, valid, width), valid
        case TimeTransform():
            assert not isinstance(values, tuple)
            return _time_steps(transform, source, values, valid), valid
        case _:
            transform.bind(source)  # says why it cannot be computed
            raise AssertionError(f"{transform} has no columnar form")  # pragma: no cover


def _one_by_one(transform: Transform, source: Type, values: NDArray[Any], valid: Valid) -> tuple[Column, Valid]:
    function = transform.bind(source)
    present = np.array([value is not None for value in values], np.bool_)
    if valid is not None:
        present &= valid
    kept = [function(value) for value in values[present]]
    out = np.empty(len(values), object) if transform.fixed_result is None else np.zeros(len(values), np.int32)
    out[present] = kept
    return out, present if valid is not None or not present.all() else None


# bucket -----------------------------------------------------------------------------------------------------------


def _hashes(source: Type, values: Column) -> NDArray[np.int32]:
    if isinstance(values, tuple):
        return hash_var_bytes(*values)
    match source.kind:
        case "uuid" | "fixed":
            return hash_fixed_bytes(values)
        case "decimal":
            return _decimal_hashes(values)
        case "timestamp_ns" | "timestamptz_ns":
            return hash_longs(values // 1000)
        case _:
            return hash_longs(values)


def _decimal_hashes(words: NDArray[Any]) -> NDArray[np.int32]:
    """The hashes of the fewest big-endian two's complement bytes of each number, those of one length together."""
    words = np.ascontiguousarray(words, "<i8")
    lengths = fewest_bytes(words)
    rows = words.view(np.uint8).reshape(-1, 16)[:, ::-1]
    out = np.empty(len(words), np.int32)
    for length in np.unique(lengths):
        chosen = lengths == length
        out[chosen] = hash_fixed_bytes(rows[chosen, 16 - length :])
    return out


# truncate ---------------------------------------------------------------------------------------------------------


def _truncated(source: Type, values: Column, valid: Valid, width: int) -> Column:
    if isinstance(values, tuple):
        return _cut_text(*values, width) if source.kind == "string" else _cut_bytes(*values, width)
    if isinstance(source, DecimalType):
        return _truncated_decimals(values, valid, width, source)
    lowest = _INT32.min if source.kind == "int" else _INT64.min
    remainder = np.mod(values, values.dtype.type(width))
    _refuse(values < remainder + values.dtype.type(lowest), valid, values, f"truncate[{width}]", source)
    out: NDArray[Any] = values - remainder
    return out


def _truncated_decimals(words: NDArray[Any], valid: Valid, width: int, source: DecimalType) -> NDArray[np.int64]:
    """128-bit numbers less their remainder, by long division with 32-bit digits."""
    unsigned = np.ascontiguousarray(words, "<i8").view("<u8")
    low, high = unsigned[:, 0], unsigned[:, 1]
    divisor = np.uint64(width)
    rest: NDArray[Any] = np.zeros(len(words), np.uint64)
    for word in (high, low):
        for digit in (word >> 32, word & _LOW_32_BITS):
            rest = ((rest << 32) | digit) % divisor
    # the bits of a negative number are those of the number plus 2**128
    correction = np.uint64(-(2**128) % width)
    rest = np.where(high >> 63, (rest + correction) % divisor, rest)
    out = np.empty((len(words), 2), "<u8")
    out[:, 0] = low - rest
    out[:, 1] = high - (low < rest)
    _refuse(_is_below(out, -(10**source.precision) + 1), valid, words, f"truncate[{width}]", source)
    return out.view("<i8")


def _is_below(words: NDArray[np.uint64], bound: int) -> NDArray[np.bool_]:
    high_bound, low_bound = np.int64(bound >> 64), np.uint64(bound & (2**64 - 1))
    high = words.view("<i8")[:, 1]
    below: NDArray[np.bool_] = (high < high_bound) | ((high == high_bound) & (words[:, 0] < low_bound))
    return below


def _cut_bytes(data: NDArray[np.uint8], offsets: NDArray[Any], width: int) -> Column:
    return _gathered(data, offsets[:-1], np.minimum(np.diff(offsets), width))


def _cut_text(data: NDArray[np.uint8], offsets: NDArray[Any], width: int) -> Column:
    """Text cut after so many code points: where the next one would begin."""
    begins = np.flatnonzero((data & 0xC0) != 0x80)  # all bytes of UTF-8 but continuations begin a code point
    following = np.searchsorted(begins, offsets[:-1]) + width
    cut = np.append(begins, len(data))[np.minimum(following, len(begins))]
    return _gathered(data, offsets[:-1], np.minimum(cut, offsets[1:]) - offsets[:-1])


def _gathered(
    data: NDArray[np.uint8], starts: NDArray[Any], lengths: NDArray[Any]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pieces of a run of bytes, put together into a new one, with its offsets."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    return data[places], offsets


# year, month, day, hour -------------------------------------------------------------------------------------------


def _time_steps(transform: TimeTransform, source: Type, values: NDArray[Any], valid: Valid) -> NDArray[np.int32]:
    steps = values
    if source.kind != "date":
        steps = values // np.int64(_TICKS_PER_SECOND[source.kind] * transform.seconds)
    if isinstance(transform, Year | Month):
        unit = "M8[Y]" if isinstance(transform, Year) else "M8[M]"
        steps = steps.astype("M8[D]").astype(unit).astype(np.int64)
    if isinstance(transform, Hour):
        _refuse((steps < _INT32.min) | (steps > _INT32.max), valid, values, "hour", source)
    return steps.astype(np.int32)


def _refuse(wrong: NDArray[np.bool_], valid: Valid, values: NDArray[Any], transform: str, source: Type) -> None:
    """Raise if a value that is not null has no result of the result type."""
    if valid is not None:
        wrong = wrong & valid
    if wrong.any():
        value = values[int(np.argmax(wrong))]
        shown = int(value) if np.ndim(value) == 0 else (int(value[1]) << 64) + (int(value[0]) & (2**64 - 1))
        raise InvalidValue(
            f"{transform} of {shown} of type {source} does not fit the type of the result",
            hint="no value of that type can stand for it; store it in a wider type",
        )
