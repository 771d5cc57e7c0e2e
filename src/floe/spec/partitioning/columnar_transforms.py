"""Transforms and hashes of NumPy columns (spec: Partition Transforms; Appendix B, 32-bit Hash Requirements).

A column is an array of values and a validity mask, which is False for nulls (None if there are none). The values of
nulls are arbitrary, in the input and in the result.

| type of the column | array |
|---|---|
| boolean, int, long, float, double, date, time, timestamps | numbers of the type's width, or wider |
| string, binary | a pair of data bytes and offsets, as in Arrow |
| uuid, fixed | a matrix of bytes with a row for each value |
| decimal | a matrix of two 64-bit words for each unscaled value, the low one first, as in Arrow |
| any | Python objects in the form of `floe.spec.values`; they are transformed one by one, slowly |

Results have the same layouts; those of type int and date are 32-bit integers.

>>> import numpy as np
>>> from floe.spec.partitioning.transforms import DAY, Truncate
>>> from floe.spec.types import INT, TIMESTAMP
>>> apply(DAY, TIMESTAMP, np.array([-1, 86_400_000_000]))
(array([-1,  1], dtype=int32), None)
>>> apply(Truncate(10), INT, np.array([-1, 19], np.int32), np.array([True, False]))
(array([-10,  10], dtype=int32), array([ True, False]))

The hashes are those of `murmur3`.

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

# Hashes ----------------------------------------------------------------------------------------------------------

_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)
_FIVE = np.uint32(5)
_ADDEND = np.uint32(0xE6546B64)
_MASK_OF_TAIL = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)

_CHUNK_ROWS = 16_384
"""The number of rows that are hashed at once: few enough for their words to stay in the CPU cache."""

_LONG_STRING = 64
"""Byte strings longer than this are hashed one by one in C, which is faster for many words, as measured."""


def hash_longs(values: NDArray[Any]) -> NDArray[np.int32]:
    """The hashes of integers of any width, as longs.

    >>> hash_longs(np.array([34, 1], np.int16))
    array([2017239379, 1392991556], dtype=int32)
    """
    words = np.ascontiguousarray(values, "<i8").view("<u4").reshape(-1, 2)
    return _hash_words(words, 8)


def hash_fixed_bytes(rows: NDArray[np.uint8]) -> NDArray[np.int32]:
    """The hashes of byte strings of one length, as the rows of a matrix.

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
    for start in range(0, count, _CHUNK_ROWS):
        chunk = np.asarray(offsets[start : start + _CHUNK_ROWS + 1], np.int64)
        out[start : start + _CHUNK_ROWS] = _hash_chunk(data[chunk[0] : chunk[-1]], chunk - chunk[0])
    return out


def _hash_chunk(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.int32]:
    lengths = np.diff(offsets)
    is_short = lengths <= _LONG_STRING
    if is_short.all():
        return _hash_short(data, offsets[:-1], lengths)
    out = np.empty(len(lengths), np.int32)
    out[is_short] = _hash_short(data, offsets[:-1][is_short], lengths[is_short])
    all_bytes = data.tobytes()
    ends = zip(offsets[:-1][~is_short].tolist(), offsets[1:][~is_short].tolist(), strict=True)
    out[~is_short] = [mmh3.hash(all_bytes[start:end], 0, True) for start, end in ends]
    return out


def _hash_short(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int32]:
    # a little-endian word at every byte; padded, because the last ones extend beyond the end
    padded = np.zeros(len(data) + 4, np.uint8)
    padded[: len(data)] = data
    word_at: NDArray[np.uint32] = np.ndarray(len(data) + 1, "<u4", padded, strides=(1,))

    hashes = np.zeros(len(lengths), np.uint32)
    blocks = lengths >> 2
    rows = np.flatnonzero(blocks)
    block = 0
    while len(rows):
        mixed = _mix(hashes[rows], word_at[starts[rows] + 4 * block])
        hashes[rows] = mixed
        block += 1
        rows = rows[blocks[rows] > block]
    tail = word_at[starts + 4 * blocks] & _MASK_OF_TAIL[lengths & 3]
    hashes ^= _scramble(tail)
    return _finalize(hashes, lengths.astype(np.uint32))


def _hash_words(words: NDArray[np.uint32], length: int) -> NDArray[np.int32]:
    """The hashes of byte strings of one length, as rows of little-endian words padded with zeros."""
    out = np.empty(len(words), np.int32)
    full_words = length // 4
    for start in range(0, len(words), _CHUNK_ROWS):
        chunk = words[start : start + _CHUNK_ROWS]
        hashes = np.zeros(len(chunk), np.uint32)
        for column in range(full_words):
            hashes = _mix(hashes, chunk[:, column].copy())
        if length % 4:
            hashes ^= _scramble(chunk[:, full_words].copy())
        out[start : start + _CHUNK_ROWS] = _finalize(hashes, np.uint32(length))
    return out


def _scramble(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Multiply words by a constant, rotate them, and multiply by another constant; in place."""
    words *= _C1
    high = words << 15
    words >>= 17
    words |= high
    words *= _C2
    return words


def _mix(hashes: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Mix one more word of each row into the hashes; in place."""
    hashes ^= _scramble(words)
    high = hashes << 13
    hashes >>= 19
    hashes |= high
    hashes *= _FIVE
    hashes += _ADDEND
    return hashes


def _finalize(hashes: NDArray[np.uint32], lengths: Any) -> NDArray[np.int32]:
    """Finalize the hashes: mix in the length and spread the bits; in place."""
    hashes ^= lengths
    hashes ^= hashes >> 16
    hashes *= np.uint32(0x85EBCA6B)
    hashes ^= hashes >> 13
    hashes *= np.uint32(0xC2B2AE35)
    hashes ^= hashes >> 16
    return hashes.view(np.int32)


# Lengths of decimals ---------------------------------------------------------------------------------------------


def decimal_byte_lengths(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of bytes of each number in two's complement: the length of its single value (spec: Appendix D).

    Numbers are pairs of 64-bit words, the low one first.

    >>> decimal_byte_lengths(np.array([[127, 0], [128, 0], [-128, -1], [0, 1]])).tolist()
    [1, 2, 1, 9]
    """
    # a negative number has as many bits as its complement
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


# Transforms ------------------------------------------------------------------------------------------------------

Column = NDArray[Any] | tuple[NDArray[np.uint8], NDArray[Any]]
"""The values of a column, in one of the layouts of the module's docstring."""

Valid = NDArray[np.bool_] | None
"""The validity mask of a column: False for nulls; None if there are none."""

_TICKS_PER_SECOND = {"timestamp": MICROS, "timestamptz": MICROS, "timestamp_ns": NANOS, "timestamptz_ns": NANOS}
_INT32 = np.iinfo(np.int32)
_INT64 = np.iinfo(np.int64)
_LOW_32_BITS = np.uint64(0xFFFFFFFF)


def apply(transform: Transform, source: Type, values: Column, valid: Valid = None) -> tuple[Column, Valid]:
    """Apply a transform to a column of a type; returns the results and their validity mask.

    Raises the same errors as `transform.apply` for one of the values.
    """
    transform.result_type(source)
    if isinstance(transform, Void):
        count = len(values[1]) - 1 if isinstance(values, tuple) else len(values)
        return values, np.zeros(count, np.bool_)
    if isinstance(transform, Identity):
        return values, valid
    if not isinstance(values, tuple) and values.dtype == object:
        return _apply_one_by_one(transform, source, values, valid)
    match transform:
        case Bucket(n=buckets):
            # the mask removes the sign bit, as the spec requires
            return (_hashes(source, values) & np.int32(_INT32.max)) % np.int32(buckets), valid
        case Truncate(width=width):
            return _truncate(source, values, valid, width), valid
        case TimeTransform():
            assert not isinstance(values, tuple)
            return _time_steps(transform, source, values, valid), valid
        case _:
            transform.bind(source)  # raises UnsupportedFeature
            raise AssertionError(f"{transform} has no columnar form")  # pragma: no cover


def _apply_one_by_one(transform: Transform, source: Type, values: NDArray[Any], valid: Valid) -> tuple[Column, Valid]:
    function = transform.bind(source)
    present = np.array([value is not None for value in values], np.bool_)
    if valid is not None:
        present &= valid
    results = [function(value) for value in values[present]]
    out = np.empty(len(values), object) if transform.fixed_result is None else np.zeros(len(values), np.int32)
    out[present] = results
    return out, present if valid is not None or not present.all() else None


# Bucket ----------------------------------------------------------------------------------------------------------


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
    """The hashes of the minimal big-endian two's complement bytes of each number, grouped by length."""
    words = np.ascontiguousarray(words, "<i8")
    lengths = decimal_byte_lengths(words)
    rows = words.view(np.uint8).reshape(-1, 16)[:, ::-1]
    out = np.empty(len(words), np.int32)
    for length in np.unique(lengths):
        chosen = lengths == length
        out[chosen] = hash_fixed_bytes(rows[chosen, 16 - length :])
    return out


# Truncate --------------------------------------------------------------------------------------------------------


def _truncate(source: Type, values: Column, valid: Valid, width: int) -> Column:
    if isinstance(values, tuple):
        return _truncate_text(*values, width) if source.kind == "string" else _truncate_bytes(*values, width)
    if isinstance(source, DecimalType):
        return _truncate_decimals(values, valid, width, source)
    lowest = _INT32.min if source.kind == "int" else _INT64.min
    remainder = np.mod(values, values.dtype.type(width))
    _check_representable(values < remainder + values.dtype.type(lowest), valid, values, f"truncate[{width}]", source)
    out: NDArray[Any] = values - remainder
    return out


def _truncate_decimals(words: NDArray[Any], valid: Valid, width: int, source: DecimalType) -> NDArray[np.int64]:
    """Subtract the remainder from 128-bit numbers; the remainder is computed by long division with 32-bit digits."""
    unsigned = np.ascontiguousarray(words, "<i8").view("<u8")
    low, high = unsigned[:, 0], unsigned[:, 1]
    divisor = np.uint64(width)
    remainder: NDArray[Any] = np.zeros(len(words), np.uint64)
    for word in (high, low):
        for digit in (word >> 32, word & _LOW_32_BITS):
            remainder = ((remainder << 32) | digit) % divisor
    # the unsigned value of a negative number is the number plus 2**128
    correction = np.uint64(-(2**128) % width)
    remainder = np.where(high >> 63, (remainder + correction) % divisor, remainder)
    out = np.empty((len(words), 2), "<u8")
    out[:, 0] = low - remainder
    out[:, 1] = high - (low < remainder)
    _check_representable(_is_below(out, -(10**source.precision) + 1), valid, words, f"truncate[{width}]", source)
    return out.view("<i8")


def _is_below(words: NDArray[np.uint64], bound: int) -> NDArray[np.bool_]:
    high_bound, low_bound = np.int64(bound >> 64), np.uint64(bound & (2**64 - 1))
    high = words.view("<i8")[:, 1]
    below: NDArray[np.bool_] = (high < high_bound) | ((high == high_bound) & (words[:, 0] < low_bound))
    return below


def _truncate_bytes(data: NDArray[np.uint8], offsets: NDArray[Any], width: int) -> Column:
    return _copy_slices(data, offsets[:-1], np.minimum(np.diff(offsets), width))


def _truncate_text(data: NDArray[np.uint8], offsets: NDArray[Any], width: int) -> Column:
    """Truncate UTF-8 strings after a number of code points."""
    code_points = np.flatnonzero(
        (data & 0xC0) != 0x80
    )  # every byte that is not a continuation byte starts a code point
    next_index = np.searchsorted(code_points, offsets[:-1]) + width
    ends = np.append(code_points, len(data))[np.minimum(next_index, len(code_points))]
    return _copy_slices(data, offsets[:-1], np.minimum(ends, offsets[1:]) - offsets[:-1])


def _copy_slices(
    data: NDArray[np.uint8], starts: NDArray[Any], lengths: NDArray[Any]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Copy slices of a buffer into a new one; returns it with its offsets."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    indexes = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    return data[indexes], offsets


# Year, month, day, hour ------------------------------------------------------------------------------------------


def _time_steps(transform: TimeTransform, source: Type, values: NDArray[Any], valid: Valid) -> NDArray[np.int32]:
    steps = values
    if source.kind != "date":
        steps = values // np.int64(_TICKS_PER_SECOND[source.kind] * transform.seconds)
    if isinstance(transform, Year | Month):
        unit = "M8[Y]" if isinstance(transform, Year) else "M8[M]"
        steps = steps.astype("M8[D]").astype(unit).astype(np.int64)
    if isinstance(transform, Hour):
        _check_representable((steps < _INT32.min) | (steps > _INT32.max), valid, values, "hour", source)
    return steps.astype(np.int32)


def _check_representable(
    wrong: NDArray[np.bool_], valid: Valid, values: NDArray[Any], transform: str, source: Type
) -> None:
    """Raise `InvalidValue` if the result for a value that is not null is outside the range of its type."""
    if valid is not None:
        wrong = wrong & valid
    if wrong.any():
        value = values[int(np.argmax(wrong))]
        number = int(value) if np.ndim(value) == 0 else (int(value[1]) << 64) + (int(value[0]) & (2**64 - 1))
        raise InvalidValue(
            f"{transform} of {number} of type {source} does not fit the type of the result",
            hint="store the column in a wider type",
        )
