r"""Runs of unsigned numbers as ORC stores them: run-length encodings 1 and 2 (ORC spec: Run Length Encoding).

>>> decode_unsigned(bytes([0x0A, 0x27, 0x10]), 5, version=2).tolist()
[10000, 10000, 10000, 10000, 10000]
>>> decode_unsigned(bytes([0x61, 0x00, 0x07]), 100, version=1).tolist() == [7] * 100
True
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from floe.errors import CorruptFile

__all__ = ["RUN", "Measure", "decode_unsigned", "encode_unsigned", "measure"]

Numbers = NDArray[np.int64]

RUN = 512
"""How many numbers a written run has, but for the last one."""

_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_MASK = 2**64 - 1
_SHORT_OF_ONE_BYTE = 8
"""Heads below this are of short runs of one number, which is one byte."""


def decode_unsigned(data: bytes, count: int, *, version: int) -> Numbers:
    """That many numbers; CorruptFile if there are fewer, or the bytes are not what they should be."""
    parts: list[Numbers] = []
    found = at = 0
    read = _run_1 if version == 1 else _run_2
    try:
        while found < count:
            run, at = read(data, at)
            parts.append(run)
            found += len(run)
    except (IndexError, ValueError, OverflowError):
        raise CorruptFile(f"a column has {found} numbers where {count} should be") from None
    return np.concatenate([np.zeros(0, np.int64), *parts])[:count]


class Measure(NamedTuple):
    """How many numbers there are, between which they and 0 lie, and at most how much they are together."""

    numbers: int
    lowest: int
    highest: int
    total: int


def measure(data: bytes, *, version: int, signed: bool = False, exact: bool = False) -> Measure:
    """What can be said of numbers from the heads of their runs, or exactly, which takes many times as long.

    >>> data, _ = encode_unsigned(np.arange(1000))
    >>> measure(data, version=2)
    Measure(numbers=1000, lowest=0, highest=1023, total=760856)
    >>> measure(data, version=2, exact=True)
    Measure(numbers=1000, lowest=0, highest=999, total=499500)
    """
    count = lowest = highest = total = at = 0
    read = _run_1 if version == 1 else _run_2
    try:
        end, quick = len(data), version == 2 and not exact and not signed
        while at < end:
            head = data[at]
            if quick and head < _SHORT_OF_ONE_BYTE:  # most runs of lengths that vary are of this kind
                value, length = data[at + 1], (head & 7) + 3
                at += 2
                count += length
                total += value * length
                if value > highest:
                    highest = value
                continue
            if exact or version == 1:
                run, at = read(data, at, signed=signed)
                length, low, high, sum_ = len(run), int(run.min()), int(run.max()), sum(run.tolist())
            else:
                length, low, high, sum_, at = _extent(data, at, signed)
            count, total = count + length, total + sum_
            lowest, highest = min(lowest, low), max(highest, high)
    except (IndexError, ValueError, OverflowError):
        raise CorruptFile(f"a column has numbers that end, or are too large, after {count}") from None
    return Measure(count, lowest, highest, total)


def _extent(data: bytes, at: int, signed: bool) -> tuple[int, int, int, int, int]:
    """Of a run of encoding 2 its length, between which numbers it lies, its sum at most, and the place behind it."""
    head = data[at]
    kind = head >> 6
    if kind == 0:
        width = (head >> 3 & 7) + 1
        value = int.from_bytes(_taken(data, at + 1, width), "big")
        value = _unzigzag(value) if signed else value
        length = (head & 7) + 3
        return length, value, value, value * length, at + 1 + width
    code, length = head >> 1 & 31, ((head & 1) << 8 | data[at + 1]) + 1
    most = (1 << _WIDTHS[code]) - 1
    at += 2
    if kind == 1:
        end = at + (_WIDTHS[code] * length + 7) // 8
        low, high = (-(most >> 1) - 1, most >> 1) if signed else (0, most)
        return length, low, high, high * length, end
    if kind == 2:
        base, end = _patch_base(data, at)
        patch_width, gap_width, patches = _WIDTHS[data[at] & 31], (data[at + 1] >> 5) + 1, data[at + 1] & 31
        together = next(w for w in _WIDTHS if w >= gap_width + patch_width)
        end += (_WIDTHS[code] * length + 7) // 8 + (together * patches + 7) // 8
        patched = (most + 1) << patch_width
        return length, base, base + patched, (base + most) * length + patched * patches, end
    base, at = _varint(data, at)
    base = _unzigzag(base) if signed else base
    zigzag, at = _varint(data, at)
    first = _unzigzag(zigzag)
    if code == 0:
        last = base + first * (length - 1)
    else:
        rest = max(length - 2, 0)
        at += (_WIDTHS[code] * rest + 7) // 8
        last = base + first + (most * rest if first >= 0 else -most * rest)
    return length, min(base, last), max(base, last), max(base, last) * length, at


def _patch_base(data: bytes, at: int) -> tuple[int, int]:
    """The number that a patched run counts from, and the place behind it."""
    width = (data[at] >> 5) + 1
    base = int.from_bytes(_taken(data, at + 2, width), "big")
    sign = 1 << (width * 8 - 1)
    return sign - base if base & sign else base, at + 2 + width


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _sloping(base: int, delta: int, length: int) -> Numbers:
    return np.int64(base) + np.int64(delta) * np.arange(length, dtype=np.int64)


def _run_1(data: bytes, at: int, *, signed: bool = False) -> tuple[Numbers, int]:
    control = data[at]
    if control < 0x80:
        delta = data[at + 1] - (data[at + 1] & 0x80) * 2
        base, at = _varint(data, at + 2)
        return _sloping(_unzigzag(base) if signed else base, delta, control + 3), at
    literals = []
    at += 1
    for _ in range(256 - control):
        value, at = _varint(data, at)
        literals.append(_unzigzag(value) if signed else value)
    return np.array(literals, np.int64), at


def _run_2(data: bytes, at: int, *, signed: bool = False) -> tuple[Numbers, int]:
    head = data[at]
    kind = head >> 6
    if kind == 0:
        width = (head >> 3 & 7) + 1
        value = int.from_bytes(_taken(data, at + 1, width), "big")
        value = _unzigzag(value) if signed else value
        return np.full((head & 7) + 3, value, np.int64), at + 1 + width
    code, length = head >> 1 & 31, ((head & 1) << 8 | data[at + 1]) + 1
    if kind == 1:
        return _direct(data, at + 2, code, length, signed)
    return _patched(data, at + 2, code, length) if kind == 2 else _delta(data, at + 2, code, length, signed)


def _unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def _taken(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise IndexError
    return data[at : at + size]


def _unpacked(data: bytes, at: int, width: int, count: int) -> tuple[Numbers, int]:
    """Numbers of so many bits each, the highest first, and the place behind them."""
    size = (width * count + 7) // 8
    bits = np.unpackbits(np.frombuffer(_taken(data, at, size), np.uint8))[: width * count].reshape(count, width)
    wide: NDArray[Any] = np.zeros((count, 64), np.uint8)
    wide[:, 64 - width :] = bits
    return np.packbits(wide, axis=1).view(">i8").astype(np.int64).reshape(count), at + size


def _direct(data: bytes, at: int, code: int, length: int, signed: bool) -> tuple[Numbers, int]:
    numbers, at = _unpacked(data, at, _WIDTHS[code], length)
    return (numbers >> 1 & (2**63 - 1)) ^ -(numbers & 1) if signed else numbers, at


def _delta(data: bytes, at: int, code: int, length: int, signed: bool) -> tuple[Numbers, int]:
    base, at = _varint(data, at)
    base = _unzigzag(base) if signed else base
    zigzag, at = _varint(data, at)
    first = _unzigzag(zigzag)
    if code == 0:
        return _sloping(base, first, length), at
    steps, at = _unpacked(data, at, _WIDTHS[code], max(length - 2, 0))
    moved = steps if first >= 0 else -steps
    whole = np.concatenate([np.array([base, first], np.int64)[:length], moved])
    return np.cumsum(whole), at


def _patched(data: bytes, at: int, code: int, length: int) -> tuple[Numbers, int]:
    third, fourth = data[at], data[at + 1]
    patch_width = _WIDTHS[third & 31]
    gap_width, patches = (fourth >> 5) + 1, fourth & 31
    base, at = _patch_base(data, at)
    width = _WIDTHS[code]
    values, at = _unpacked(data, at, width, length)
    together = next(w for w in _WIDTHS if w >= gap_width + patch_width)
    pairs, at = _unpacked(data, at, together, patches)
    place = 0
    for pair in pairs.tolist():
        place += (pair & _MASK) >> patch_width & ((1 << gap_width) - 1)
        if place >= length:
            raise ValueError("a patch beyond the end of its run")
        values[place] |= (pair & ((1 << patch_width) - 1)) << width
    return values + np.int64(base), at


def encode_unsigned(numbers: Numbers) -> tuple[bytes, list[int]]:
    """The numbers in direct runs of encoding 2, and where each run of `RUN` numbers begins.

    >>> data, starts = encode_unsigned(np.arange(1000))
    >>> decode_unsigned(data, 1000, version=2).tolist() == list(range(1000)), starts
    (True, [0, 578])
    """
    parts: list[bytes] = []
    starts: list[int] = []
    size = 0
    for start in range(0, len(numbers), RUN):
        run = numbers[start : start + RUN]
        needed = max(int(run.max()).bit_length(), 1)
        code, width = next((code, width) for code, width in enumerate(_WIDTHS) if width >= needed)
        length = len(run) - 1
        bits = np.unpackbits(run.astype(">i8").view(np.uint8).reshape(-1, 8), axis=1)[:, 64 - width :]
        starts.append(size)
        parts.append(bytes([0x40 | code << 1 | length >> 8, length & 0xFF]) + np.packbits(bits).tobytes())
        size += len(parts[-1])
    return b"".join(parts), starts or [0]
