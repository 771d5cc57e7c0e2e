"""The streams of an ORC stripe, found by its footer; lengths and scales are checked before ORC's reader sees them.

The reader adds lengths up and copies as many bytes, whatever they are: one below 0 ends the whole process. Some scales
of decimals make it calculate without end. All else that a stripe may say wrongly it finds out by itself (ORC spec:
Stripes, Column Encodings).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from floe.errors import CorruptFile
from floe.formats.orc.chunks import unpack
from floe.formats.orc.protobuf import bytes_of, one_number, read_fields
from floe.formats.orc.run_lengths import measure
from floe.formats.orc.tail import OrcNode, Stripe, Tail, most_rows

__all__ = ["SECONDARY", "StripeStreams", "check_streams"]

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
