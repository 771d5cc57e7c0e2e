"""The streams of an ORC stripe, found by its footer; lengths and scales are checked before ORC's reader sees them.

The reader adds lengths up and copies as many bytes, whatever they are: one below 0 ends the whole process. Some scales
of decimals make it calculate without end. All else that a stripe may say wrongly it finds out by itself (ORC spec:
Stripes, Column Encodings).

Runs of unsigned numbers as ORC stores them: run-length encodings 1 and 2 (ORC spec: Run Length Encoding).

>>> decode_unsigned(bytes([0x0A, 0x27, 0x10]), 5, version=2).tolist()
[10000, 10000, 10000, 10000, 10000]
>>> decode_unsigned(bytes([0x61, 0x00, 0x07]), 100, version=1).tolist() == [7] * 100
True
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from floe.errors import CorruptFile
from floe.formats.orc.tail import OrcNode, Stripe, Tail, bytes_of, most_rows, one_number, read_fields, unpack

# Runs of unsigned numbers as ORC stores them: run-length encodings 1 and 2 (ORC spec: Run Length Encoding).

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


LENGTH = 2
SECONDARY = 5
"""The stream of a timestamp's nanoseconds, and of the scales of decimals."""

_STREAM_LIMIT = 2**31
_MAX_SCALE = 38
_TEXTS = frozenset({"string", "varchar", "char", "binary", "geometry", "geography"})
_REPEATED = frozenset({"array", "map"})
_DIRECT, _DICTIONARY, _DIRECT_V2, _DICTIONARY_V2 = range(4)
_FIRST_RUNS = (_DIRECT, _DICTIONARY)
"""The encodings whose numbers are in runs of version 1."""


class StripeStreams:
    """Where the streams of a stripe are, and how columns are encoded."""

    def __init__(self, stream: BinaryIO, tail: Tail, stripe: Stripe) -> None:
        self._stream = stream
        self._tail = tail
        self.stripe = stripe
        start = stripe.end - stripe.footer_length
        self.footer = read_fields(self._part(start, stripe.footer_length))
        encodings = [read_fields(one) for one in bytes_of(self.footer, 2)]
        self._encodings = [(one_number(one, 1), one_number(one, 2)) for one in encodings]
        self._places: dict[tuple[int, int], tuple[int, int]] = {}
        at = stripe.offset
        for one in map(read_fields, bytes_of(self.footer, 1)):
            length = one_number(one, 3)
            self._places.setdefault((one_number(one, 2), one_number(one, 1)), (at, length))
            at += length
            if at > start:
                raise CorruptFile("the streams of a stripe go beyond it", position=stripe.offset)

    def run_version(self, column: int) -> int | None:
        """The version of the runs of a column's numbers, or None if it is not told."""
        if column >= len(self._encodings) or self._encodings[column][0] > _DICTIONARY_V2:
            return None
        return 1 if self._encodings[column][0] in _FIRST_RUNS else 2

    def dictionary_size(self, column: int) -> int | None:
        """How many values the dictionary of a column has, or None if it has no dictionary."""
        encoding, size = self._encodings[column] if column < len(self._encodings) else (_DIRECT, 0)
        return size if encoding in (_DICTIONARY, _DICTIONARY_V2) else None

    def read(self, column: int, kind: int) -> bytes | None:
        """The content of a stream of a column, or None if there is none of that kind."""
        place = self._places.get((column, kind))
        return None if place is None else self._part(*place)

    def _part(self, at: int, length: int) -> bytes:
        self._stream.seek(at)
        data = self._stream.read(length)
        if len(data) != length:
            raise CorruptFile(f"the file is cut off within a part of {length} bytes", position=at)
        script = self._tail.postscript
        return unpack(script.codec, data, script.block_size, _STREAM_LIMIT)


def check_streams(streams: StripeStreams, nodes: Iterable[OrcNode]) -> None:
    """Raise CorruptFile unless the lengths and scales that columns of a stripe store can be true."""
    for node in nodes:
        kind = SECONDARY if node.kind == "decimal" else LENGTH
        if kind == LENGTH and node.kind not in _TEXTS and node.kind not in _REPEATED:
            continue
        data, version = streams.read(node.id, kind), streams.run_version(node.id)
        if data is None:
            continue  # all values are null, or the reader misses it
        if version is None:
            raise CorruptFile(f"column {node.id} of a stripe has an unknown encoding", position=streams.stripe.offset)
        if _problem(streams, node, data, version, exact=False) is None:
            continue  # the heads of runs suffice nearly always
        problem = _problem(streams, node, data, version, exact=True)
        if problem is not None:
            raise CorruptFile(f"column {node.id} of a stripe {problem}", position=streams.stripe.offset)


def _problem(streams: StripeStreams, node: OrcNode, data: bytes, version: int, *, exact: bool) -> str | None:
    """What is wrong with the lengths or scales of a column, as far as can be said, or exactly."""
    if node.kind == "decimal":
        found = measure(data, version=version, signed=True, exact=exact)
        if found.lowest < 0 or found.highest > _MAX_SCALE:
            return f"has decimals of scales from {found.lowest} to {found.highest}"
        return None
    found = measure(data, version=version, exact=exact)
    most = most_rows(streams.stripe) if node.kind in _REPEATED else _STREAM_LIMIT
    if found.lowest < 0 or found.total > most:
        return f"has lengths from {found.lowest} on, {found.total} together"
    size = streams.dictionary_size(node.id) if node.kind in _TEXTS else None
    if size is not None and size > found.numbers:
        return f"has a dictionary of {size} values, and {found.numbers} lengths"
    return None
