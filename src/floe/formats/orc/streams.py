"""The streams of an ORC stripe: located by its footer, decoded, and checked before ORC's reader sees them.

ORC's reader adds up lengths and copies as many bytes without a check: a negative length aborts the process. Some scales
of decimals make it loop forever. So `check_streams` checks lengths and scales first; the reader detects all other
errors in a stripe itself (ORC spec: Stripes, Column Encodings).

Numbers are stored in runs, in version 1 or 2 of the run-length encoding (ORC spec: Run Length Encoding).

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
from floe.formats.orc.tail import OrcNode, Stripe, Tail, decompress, get_bytes, get_number, max_rows, read_fields

# Run-length encoding --------------------------------------------------------------------------------------------------

Numbers = NDArray[np.int64]

RUN = 512
"""The length of the runs that are written, except the last."""

_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_MASK = 2**64 - 1
_SHORT_RUN_OF_BYTES = 8
"""Heads below this are those of short repeats of a number of one byte."""


def decode_unsigned(data: bytes, count: int, *, version: int) -> Numbers:
    """Decode `count` numbers; raises `CorruptFile` if there are fewer, or the bytes are damaged."""
    parts: list[Numbers] = []
    decoded = offset = 0
    read = _run_1 if version == 1 else _run_2
    try:
        while decoded < count:
            run, offset = read(data, offset)
            parts.append(run)
            decoded += len(run)
    except (IndexError, ValueError, OverflowError):
        raise CorruptFile(f"a stream of the ORC file has {decoded} numbers instead of {count}") from None
    return np.concatenate([np.zeros(0, np.int64), *parts])[:count]


class Measure(NamedTuple):
    """The count of numbers, bounds of them and 0, and an upper limit of their sum."""

    numbers: int
    lowest: int
    highest: int
    total: int


def measure(data: bytes, *, version: int, signed: bool = False, exact: bool = False) -> Measure:
    """Estimate the range and sum of numbers from the heads of their runs, or exactly, which takes many times as long.

    >>> data, _ = encode_unsigned(np.arange(1000))
    >>> measure(data, version=2)
    Measure(numbers=1000, lowest=0, highest=1023, total=760856)
    >>> measure(data, version=2, exact=True)
    Measure(numbers=1000, lowest=0, highest=999, total=499500)
    """
    count = lowest = highest = total = offset = 0
    read = _run_1 if version == 1 else _run_2
    try:
        end, quick = len(data), version == 2 and not exact and not signed
        while offset < end:
            head = data[offset]
            if quick and head < _SHORT_RUN_OF_BYTES:  # most runs of varying lengths are of this kind
                value, length = data[offset + 1], (head & 7) + 3
                offset += 2
                count += length
                total += value * length
                if value > highest:
                    highest = value
                continue
            if exact or version == 1:
                run, offset = read(data, offset, signed=signed)
                length, low, high, sum_ = len(run), int(run.min()), int(run.max()), sum(run.tolist())
            else:
                length, low, high, sum_, offset = _run_extent(data, offset, signed)
            count, total = count + length, total + sum_
            lowest, highest = min(lowest, low), max(highest, high)
    except (IndexError, ValueError, OverflowError):
        raise CorruptFile(
            f"a stream of the ORC file is truncated or has too large numbers, after {count} numbers"
        ) from None
    return Measure(count, lowest, highest, total)


def _run_extent(data: bytes, offset: int, signed: bool) -> tuple[int, int, int, int, int]:
    """The length, bounds and maximum sum of a run of version 2, and the offset after it."""
    head = data[offset]
    kind = head >> 6
    if kind == 0:
        width = (head >> 3 & 7) + 1
        value = int.from_bytes(_slice(data, offset + 1, width), "big")
        value = _unzigzag(value) if signed else value
        length = (head & 7) + 3
        return length, value, value, value * length, offset + 1 + width
    code, length = head >> 1 & 31, ((head & 1) << 8 | data[offset + 1]) + 1
    max_value = (1 << _WIDTHS[code]) - 1
    offset += 2
    if kind == 1:
        end = offset + (_WIDTHS[code] * length + 7) // 8
        low, high = (-(max_value >> 1) - 1, max_value >> 1) if signed else (0, max_value)
        return length, low, high, high * length, end
    if kind == 2:
        base, end = _patch_base(data, offset)
        patch_width, gap_width, patches = _WIDTHS[data[offset] & 31], (data[offset + 1] >> 5) + 1, data[offset + 1] & 31
        pair_width = next(w for w in _WIDTHS if w >= gap_width + patch_width)
        end += (_WIDTHS[code] * length + 7) // 8 + (pair_width * patches + 7) // 8
        patched = (max_value + 1) << patch_width
        return length, base, base + patched, (base + max_value) * length + patched * patches, end
    base, offset = _varint(data, offset)
    base = _unzigzag(base) if signed else base
    zigzag, offset = _varint(data, offset)
    first = _unzigzag(zigzag)
    if code == 0:
        last = base + first * (length - 1)
    else:
        remaining = max(length - 2, 0)
        offset += (_WIDTHS[code] * remaining + 7) // 8
        last = base + first + (max_value * remaining if first >= 0 else -max_value * remaining)
    return length, min(base, last), max(base, last), max(base, last) * length, offset


def _patch_base(data: bytes, offset: int) -> tuple[int, int]:
    """The base of a patched run, and the offset after it."""
    width = (data[offset] >> 5) + 1
    base = int.from_bytes(_slice(data, offset + 2, width), "big")
    sign = 1 << (width * 8 - 1)
    return sign - base if base & sign else base, offset + 2 + width


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, offset
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _arithmetic_run(base: int, delta: int, length: int) -> Numbers:
    return np.int64(base) + np.int64(delta) * np.arange(length, dtype=np.int64)


def _run_1(data: bytes, offset: int, *, signed: bool = False) -> tuple[Numbers, int]:
    control = data[offset]
    if control < 0x80:
        delta = data[offset + 1] - (data[offset + 1] & 0x80) * 2
        base, offset = _varint(data, offset + 2)
        return _arithmetic_run(_unzigzag(base) if signed else base, delta, control + 3), offset
    literals = []
    offset += 1
    for _ in range(256 - control):
        value, offset = _varint(data, offset)
        literals.append(_unzigzag(value) if signed else value)
    return np.array(literals, np.int64), offset


def _run_2(data: bytes, offset: int, *, signed: bool = False) -> tuple[Numbers, int]:
    head = data[offset]
    kind = head >> 6
    if kind == 0:
        width = (head >> 3 & 7) + 1
        value = int.from_bytes(_slice(data, offset + 1, width), "big")
        value = _unzigzag(value) if signed else value
        return np.full((head & 7) + 3, value, np.int64), offset + 1 + width
    code, length = head >> 1 & 31, ((head & 1) << 8 | data[offset + 1]) + 1
    if kind == 1:
        return _direct_run(data, offset + 2, code, length, signed)
    return (
        _patched_run(data, offset + 2, code, length)
        if kind == 2
        else _delta_run(data, offset + 2, code, length, signed)
    )


def _unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def _slice(data: bytes, offset: int, size: int) -> bytes:
    if offset + size > len(data):
        raise IndexError
    return data[offset : offset + size]


def _unpack_bits(data: bytes, offset: int, width: int, count: int) -> tuple[Numbers, int]:
    """Unpack `count` big-endian numbers of `width` bits; returns them and the offset after them."""
    size = (width * count + 7) // 8
    bits = np.unpackbits(np.frombuffer(_slice(data, offset, size), np.uint8))[: width * count].reshape(count, width)
    wide: NDArray[Any] = np.zeros((count, 64), np.uint8)
    wide[:, 64 - width :] = bits
    return np.packbits(wide, axis=1).view(">i8").astype(np.int64).reshape(count), offset + size


def _direct_run(data: bytes, offset: int, code: int, length: int, signed: bool) -> tuple[Numbers, int]:
    numbers, offset = _unpack_bits(data, offset, _WIDTHS[code], length)
    return (numbers >> 1 & (2**63 - 1)) ^ -(numbers & 1) if signed else numbers, offset


def _delta_run(data: bytes, offset: int, code: int, length: int, signed: bool) -> tuple[Numbers, int]:
    base, offset = _varint(data, offset)
    base = _unzigzag(base) if signed else base
    zigzag, offset = _varint(data, offset)
    first = _unzigzag(zigzag)
    if code == 0:
        return _arithmetic_run(base, first, length), offset
    steps, offset = _unpack_bits(data, offset, _WIDTHS[code], max(length - 2, 0))
    signed_steps = steps if first >= 0 else -steps
    deltas = np.concatenate([np.array([base, first], np.int64)[:length], signed_steps])
    return np.cumsum(deltas), offset


def _patched_run(data: bytes, offset: int, code: int, length: int) -> tuple[Numbers, int]:
    third, fourth = data[offset], data[offset + 1]
    patch_width = _WIDTHS[third & 31]
    gap_width, patches = (fourth >> 5) + 1, fourth & 31
    base, offset = _patch_base(data, offset)
    width = _WIDTHS[code]
    values, offset = _unpack_bits(data, offset, width, length)
    pair_width = next(w for w in _WIDTHS if w >= gap_width + patch_width)
    pairs, offset = _unpack_bits(data, offset, pair_width, patches)
    index = 0
    for pair in pairs.tolist():
        index += (pair & _MASK) >> patch_width & ((1 << gap_width) - 1)
        if index >= length:
            raise ValueError("a patch beyond the end of its run")
        values[index] |= (pair & ((1 << patch_width) - 1)) << width
    return values + np.int64(base), offset


def encode_unsigned(numbers: Numbers) -> tuple[bytes, list[int]]:
    """Encode numbers in direct runs of version 2; returns the bytes, and the offset of each run of `RUN` numbers.

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


# Streams of a stripe --------------------------------------------------------------------------------------------------

LENGTH = 2
"""The stream of the lengths of strings, lists and maps."""

SECONDARY = 5
"""The stream of the nanoseconds of timestamps, and of the scales of decimals."""

_STREAM_LIMIT = 2**31
_MAX_SCALE = 38
_TEXTS = frozenset({"string", "varchar", "char", "binary", "geometry", "geography"})
_REPEATED = frozenset({"array", "map"})
_DIRECT, _DICTIONARY, _DIRECT_V2, _DICTIONARY_V2 = range(4)
_VERSION_1 = (_DIRECT, _DICTIONARY)
"""The column encodings whose numbers are in runs of version 1."""


class StripeStreams:
    """The streams of a stripe, and the encodings of its columns, from its footer."""

    def __init__(self, stream: BinaryIO, tail: Tail, stripe: Stripe) -> None:
        self._stream = stream
        self._tail = tail
        self.stripe = stripe
        start = stripe.end - stripe.footer_length
        self.footer = read_fields(self._part(start, stripe.footer_length))
        encodings = [read_fields(message) for message in get_bytes(self.footer, 2)]
        self._encodings = [(get_number(message, 1), get_number(message, 2)) for message in encodings]
        self._locations: dict[tuple[int, int], tuple[int, int]] = {}
        offset = stripe.offset
        for message in map(read_fields, get_bytes(self.footer, 1)):
            length = get_number(message, 3)
            self._locations.setdefault((get_number(message, 2), get_number(message, 1)), (offset, length))
            offset += length
            if offset > start:
                raise CorruptFile("the streams of a stripe of the ORC file extend beyond it", position=stripe.offset)

    def run_version(self, column: int) -> int | None:
        """The version of the run-length encoding of a column, or None if its encoding is unknown."""
        if column >= len(self._encodings) or self._encodings[column][0] > _DICTIONARY_V2:
            return None
        return 1 if self._encodings[column][0] in _VERSION_1 else 2

    def dictionary_size(self, column: int) -> int | None:
        """The size of the dictionary of a column, or None without one."""
        encoding, size = self._encodings[column] if column < len(self._encodings) else (_DIRECT, 0)
        return size if encoding in (_DICTIONARY, _DICTIONARY_V2) else None

    def read(self, column: int, kind: int) -> bytes | None:
        """Read a stream of a column, or None if it has no stream of that kind."""
        location = self._locations.get((column, kind))
        return None if location is None else self._part(*location)

    def _part(self, offset: int, length: int) -> bytes:
        self._stream.seek(offset)
        data = self._stream.read(length)
        if len(data) != length:
            raise CorruptFile(f"the ORC file is truncated within a part of {length} bytes", position=offset)
        script = self._tail.postscript
        return decompress(script.codec, data, script.block_size, _STREAM_LIMIT)


def check_streams(streams: StripeStreams, nodes: Iterable[OrcNode]) -> None:
    """Raise `CorruptFile` if the lengths or scales in columns of a stripe are impossible."""
    for node in nodes:
        kind = SECONDARY if node.kind == "decimal" else LENGTH
        if kind == LENGTH and node.kind not in _TEXTS and node.kind not in _REPEATED:
            continue
        data, version = streams.read(node.id, kind), streams.run_version(node.id)
        if data is None:
            continue  # all values are null, or ORC's reader reports the missing stream
        if version is None:
            raise CorruptFile(f"column {node.id} of a stripe has an unknown encoding", position=streams.stripe.offset)
        if _problem(streams, node, data, version, exact=False) is None:
            continue  # the estimate suffices nearly always
        problem = _problem(streams, node, data, version, exact=True)
        if problem is not None:
            raise CorruptFile(f"column {node.id} of a stripe {problem}", position=streams.stripe.offset)


def _problem(streams: StripeStreams, node: OrcNode, data: bytes, version: int, *, exact: bool) -> str | None:
    """What is wrong with the lengths or scales of a column, by an estimate or exactly; None if nothing."""
    if node.kind == "decimal":
        measured = measure(data, version=version, signed=True, exact=exact)
        if measured.lowest < 0 or measured.highest > _MAX_SCALE:
            return f"has decimals of scales from {measured.lowest} to {measured.highest}"
        return None
    measured = measure(data, version=version, exact=exact)
    limit = max_rows(streams.stripe) if node.kind in _REPEATED else _STREAM_LIMIT
    if measured.lowest < 0 or measured.total > limit:
        return f"has lengths from {measured.lowest} with a sum of {measured.total}"
    size = streams.dictionary_size(node.id) if node.kind in _TEXTS else None
    if size is not None and size > measured.numbers:
        return f"has a dictionary of {size} values, but {measured.numbers} lengths"
    return None
