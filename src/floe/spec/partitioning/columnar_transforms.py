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

The hash of `murmur3`, for whole columns at once (spec: Appendix B, 32-bit Hash Requirements).

Columns are NumPy arrays: numbers as they are, byte strings of one length as a matrix of bytes, byte strings of any
length as one run of bytes with the offsets where each begins and the last ends.

>>> import numpy as np
>>> hash_longs(np.array([34]))
array([2017239379], dtype=int32)
>>> hash_var_bytes(np.frombuffer(b"icebergice", np.uint8), np.array([0, 7, 10]))[:1]
array([1210000089], dtype=int32)

How many bytes each of many decimals needs, which is how many its single value has (spec: Appendix D, binary).
"""

from __future__ import annotations

from typing import Any

import mmh3
import numpy as np
from numpy.typing import NDArray

from floe.errors import InvalidValue
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

# The hash of `murmur3`, for whole columns at once (spec: Appendix B, 32-bit Hash Requirements).

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


# How many bytes each of many decimals needs, which is how many its single value has (spec: Appendix D, binary).


def fewest_bytes(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many bytes hold each number and its sign: one, and one more for every eight bits beyond seven.

    Numbers are pairs of 64-bit words, the low one first.

    >>> fewest_bytes(np.array([[127, 0], [128, 0], [-128, -1], [0, 1]])).tolist()
    [1, 2, 1, 9]
    """
    # the bits of a negative number, turned over, are as many as those of the number that they make
    low, high = (words[:, n] ^ (words[:, 1] >> 63) for n in (0, 1))
    lengths = np.ones(len(words), np.int64)
    beyond_low = high > 0
    unsigned = low.view(np.uint64)
    for byte in range(1, 9):
        lengths += beyond_low | (unsigned >= np.uint64(1 << (8 * byte - 1)))
    if beyond_low.any():
        for byte in range(1, 8):
            lengths += high >= np.int64(1 << (8 * byte - 1))
    return lengths


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
