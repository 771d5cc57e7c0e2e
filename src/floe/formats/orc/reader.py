"""ORC files read into Arrow batches, stripe by stripe.

Which stripes of an ORC file are read: those in a split, and of those the ones that a filter may match.

An ORC file with another tail, as the reader of ORC files sees it.

The reader finds columns by name, and takes dots in names for paths; it also knows timestamps only with nanoseconds,
which reach from 1677 to 2262. So it is given a tail of our own making, from the checked one: every column at the top is
named by its number, and timestamps may pose as the numbers that they are stored as.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.orc as orc

from floe.errors import CorruptFile, FloeError
from floe.formats.model import ReadRequest, plain_storage_to_read
from floe.formats.orc.streams import StripeStreams, check_streams
from floe.formats.orc.tail import (
    KINDS,
    NONE,
    Message,
    OrcNode,
    Tail,
    bytes_of,
    file_columns,
    nodes_below,
    one_number,
    pack_plain,
    read_fields,
    read_tail,
    signed,
    write_fields,
)
from floe.formats.orc.timestamps import Leaf, Seconds, has_moments, moments_below, rounded_down, with_leaves
from floe.formats.projection import Projection, rows_without_columns
from floe.spec.codecs.single_value import encode
from floe.spec.pruning.metrics_filter import compile_might_match
from floe.spec.types import Type
from floe.spec.values.civil_time import MICROS, NANOS, SECONDS_PER_DAY

# Which stripes of an ORC file are read: those in a split, and of those the ones that a filter may match.

_Bounds = tuple[Any, Any]
_INTEGERS, _DOUBLES, _STRINGS, _DECIMALS, _DATES, _TIMESTAMPS = 2, 3, 4, 6, 7, 9
_MOMENTS = ("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")
_LATEST_MS = 2**63 // 10**6 - 2 * SECONDS_PER_DAY * 1000


def in_split(tail: Tail, split: tuple[int, int] | None) -> list[int]:
    """The stripes that begin in a range of bytes, as all readers of ORC count them."""
    everything = list(range(len(tail.stripes)))
    if split is None:
        return everything
    start, end = split[0], split[0] + split[1]
    return [n for n in everything if start <= tail.stripes[n].offset < end]


# filters --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Facts:
    record_count: int
    value_counts: Mapping[int, int]
    null_value_counts: Mapping[int, int]
    nan_value_counts: Mapping[int, int] | None
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]


def matching(tail: Tail, stripes: list[int], projection: Projection) -> list[int]:
    """Those of the stripes that may have a row which passes the filter, by the statistics in the file's tail."""
    tested = [
        (field_id, _number_at(tail.nodes, path), column.stored)
        for field_id, (path, column) in projection.tested_columns().items()
        if column.stored is not None and column.kind != "variant"
    ]
    statistics = tail.statistics() if tested else []
    if not statistics:
        return stripes
    might_match = compile_might_match(projection.filter)
    return [n for n in stripes if might_match(_facts(tail.stripes[n].rows, statistics[n], tested))]


def _number_at(nodes: Sequence[OrcNode], path: Iterable[int]) -> int:
    """The number of the column at the end of a path through structs."""
    number = 0
    for place in path:
        number = nodes[number].children[place]
    return number


def _facts(rows: int, statistics: Sequence[Message], tested: Iterable[tuple[int, int, Type]]) -> _Facts:
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for field_id, number, stored in tested:
        column = statistics[number] if number < len(statistics) else {}
        known = one_number(column, 1, -1)
        if not 0 <= known <= rows:
            continue
        values[field_id], nulls[field_id] = rows, rows - known
        try:
            bounds = _bounds(stored, column)
            if bounds is not None:
                found = encode(stored, bounds[0]), encode(stored, bounds[1])
                lower[field_id], upper[field_id] = found
        except (FloeError, ValueError, OverflowError, ArithmeticError, struct.error, IndexError):
            continue  # rows are read then, which is always right
    return _Facts(rows, values, nulls, None, lower, upper)


def _bounds(stored: Type, column: Message) -> _Bounds | None:
    """The least and the greatest value of a column, or something that is certainly beyond them."""
    rule = _RULES.get(stored.kind)
    if rule is None:
        return None
    field, read = rule
    parts = bytes_of(column, field)
    return read(stored, read_fields(parts[-1])) if parts else None


def _integers(stored: Type, found: Message) -> _Bounds | None:
    if 1 not in found or 2 not in found:
        return None
    return signed(one_number(found, 1)), signed(one_number(found, 2))


def _doubles(stored: Type, found: Message) -> _Bounds | None:
    lower, upper = (struct.unpack("<d", bytes_of(found, field)[-1])[0] for field in (1, 2))
    if math.isnan(lower) or math.isnan(upper):
        return None
    return -0.0 if lower == 0 else lower, 0.0 if upper == 0 else upper


def _strings(stored: Type, found: Message) -> _Bounds | None:
    lower = bytes_of(found, 1) or bytes_of(found, 4)
    upper = bytes_of(found, 2) or bytes_of(found, 5)
    return (lower[-1].decode(), upper[-1].decode()) if lower and upper else None


def _decimals(stored: Type, found: Message) -> _Bounds | None:
    try:
        lower, upper = (Decimal(bytes_of(found, field)[-1].decode()) for field in (1, 2))
    except InvalidOperation:
        raise CorruptFile("a decimal in the file's statistics is no number") from None
    return lower, upper


def _milliseconds(column: Message) -> tuple[int, int] | None:
    parts = bytes_of(column, _TIMESTAMPS)
    found = read_fields(parts[-1]) if parts else {}
    return (signed(one_number(found, 3)), signed(one_number(found, 4))) if 3 in found and 4 in found else None


def _moments(stored: Type, found: Message) -> _Bounds | None:
    """Statistics have milliseconds, and do not say in which time zone local times were meant."""
    if 3 not in found or 4 not in found:
        return None
    leeway = 2 if stored.kind in ("timestamptz", "timestamptz_ns") else 2 * SECONDS_PER_DAY * 1000
    ticks = (NANOS if stored.kind.endswith("_ns") else MICROS) // 1000
    return (signed(one_number(found, 3)) - leeway) * ticks, (signed(one_number(found, 4)) + leeway) * ticks


_RULES: dict[str, tuple[int, Callable[[Type, Message], _Bounds | None]]] = {
    **dict.fromkeys(("int", "long", "time"), (_INTEGERS, _integers)),
    **dict.fromkeys(("float", "double"), (_DOUBLES, _doubles)),
    **dict.fromkeys(_MOMENTS, (_TIMESTAMPS, _moments)),
    "date": (_DATES, _integers),
    "decimal": (_DECIMALS, _decimals),
    "string": (_STRINGS, _strings),
}


def within_nanoseconds(tail: Tail, stripe: int, columns: Iterable[int]) -> bool:
    """Whether statistics say that all timestamps of some columns can be counted in nanoseconds from 1970."""
    statistics = tail.statistics()
    if not statistics:
        return False
    for number in columns:
        column = statistics[stripe][number] if number < len(statistics[stripe]) else {}
        if one_number(column, 1, -1) == 0:
            continue
        range_ = _milliseconds(column)
        if range_ is None or range_[0] < -_LATEST_MS or range_[1] > _LATEST_MS:
            return False
    return True


# An ORC file with another tail, as the reader of ORC files sees it.

_LONG = KINDS.index("long")
_PASSED_ON = (1, 2, 3, 6, 8, 9, 11, 12)  # of the footer: all but types, metadata and statistics
_KEPT_OF_SCRIPT = (2, 3, 4, 6, 8000)


def column_name(number: int) -> str:
    """What the column of a type's number is called in disguise.

    >>> column_name(3)
    'c3'
    """
    return f"c{number}"


class DisguisedFile:
    """The stripes of a file, and a tail of our own; what pyarrow asks of a binary file that is read."""

    mode = "rb"
    closed = False

    def __init__(self, stream: BinaryIO, tail: Tail, as_numbers: Collection[int] = ()) -> None:
        self._stream = stream
        self._begin = tail.content_end
        self._tail = _new_tail(tail, as_numbers)
        self._size = self._begin + len(self._tail)
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes: of the file itself, or of the new tail."""
        end = self._size if size < 0 else min(self._at + size, self._size)
        found = b""
        if self._at < self._begin:
            self._stream.seek(self._at)
            found = self._stream.read(min(end, self._begin) - self._at)
            if self._at + len(found) < min(end, self._begin):  # cut off while it is read
                self._at += len(found)
                return found
        if end > self._begin:
            found += self._tail[max(self._at - self._begin, 0) : end - self._begin]
        self._at = max(end, self._at)
        return found

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """The place of the next byte."""
        return self._at

    def size(self) -> int:
        """How many bytes there are."""
        return self._size

    def readable(self) -> bool:
        """True."""
        return True

    def writable(self) -> bool:
        """False."""
        return False

    def seekable(self) -> bool:
        """True."""
        return True

    def flush(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing: the file is its owner's to close."""


def _new_tail(tail: Tail, as_numbers: Collection[int]) -> bytes:
    kept = [(field, value) for field in _PASSED_ON for value in tail.footer.get(field, ())]
    types = [(4, write_fields(part)) for part in _types(tail, as_numbers)]
    footer = write_fields([*kept, *types])
    script = tail.postscript
    if script.codec != NONE:
        footer = pack_plain(footer, script.block_size)
    fields = [(field, value) for field in _KEPT_OF_SCRIPT for value in script.fields.get(field, ())]
    postscript = write_fields(
        [(1, len(footer)), *((n, value) for n, value in fields if n < 8000), (5, 0), *fields[-1:]]
    )
    return footer + postscript + bytes([len(postscript)])


def _types(tail: Tail, as_numbers: Collection[int]) -> Iterator[list[tuple[int, int | float | bytes]]]:
    messages: list[Message] = [read_fields(one) for one in bytes_of(tail.footer, 4)]
    for node, message in zip(tail.nodes, messages, strict=True):
        if node.id in as_numbers:
            yield [(1, _LONG)]
            continue
        names = [(3, name.encode()) for name in (map(column_name, node.children) if node.id == 0 else node.names)]
        numbers = [(field, one_number(message, field)) for field in (4, 5, 6) if field in message]
        yield [(1, KINDS.index(node.kind)), *((2, child) for child in node.children), *names, *numbers]


def read_orc(request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """The batches of an ORC file that answer a request."""
    storage = plain_storage_to_read(request)
    size = storage.stat(request.location).size if request.file_size is None else request.file_size
    with storage.open_read(request.location) as stream:
        try:
            with _readable():
                tail = read_tail(stream, size)
            yield from _File(request, stream, tail).batches()
        except FloeError as error:
            raise error.with_context(file=request.location) from None


@contextmanager
def _readable() -> Iterator[None]:
    """What pyarrow cannot read is corrupt; errors of the storage pass."""
    try:
        yield
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise CorruptFile(f"the ORC file cannot be read: {str(error)[:300]}") from None


class _File:
    def __init__(self, request: ReadRequest, stream: BinaryIO, tail: Tail) -> None:
        told = request.record_count
        if told is not None and told >= 0 and told != tail.rows:
            raise CorruptFile(f"the file has {tail.rows} rows, the manifest says {told}")
        self.request = request
        self.stream = stream
        self.tail = tail
        self.projection = Projection(request, file_columns(tail.nodes), nested_selection=False)
        children = tail.nodes[0].children
        self.selected = [children[place] for place in self.projection.selection.places(len(children))]
        self.read_nodes = [node for number in self.selected for node in nodes_below(tail.nodes, number)]
        self.moments = [found for number in self.selected for found in moments_below(tail.nodes, number)]
        self._reader: orc.ORCFile | None = None
        self._as_numbers = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self.projection.reads_nothing:
            return
        chosen = matching(self.tail, in_split(self.tail, self.request.split), self.projection)
        self._as_numbers = not all(within_nanoseconds(self.tail, n, self.moments) for n in chosen if self.moments)
        yield from self.projection.batches(self._stored(chosen))

    def _stored(self, stripes: list[int]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The selected columns of some stripes, in batches with the position of their first row."""
        first = [0]
        for stripe in self.tail.stripes:
            first.append(first[-1] + stripe.rows)
        size = self.request.batch_size
        for number in stripes:
            rows = self.tail.stripes[number].rows
            whole = self._stripe(number) if self.selected else None
            for start in range(0, rows, size):
                count = min(size, rows - start)
                yield first[number] + start, rows_without_columns(count) if whole is None else whole.slice(start, count)

    def _stripe(self, number: int) -> pa.RecordBatch:
        stripe = self.tail.stripes[number]
        with _readable():
            streams = StripeStreams(self.stream, self.tail, stripe)
            check_streams(streams, self.read_nodes)
            batch = self._read(number)
            batch.validate(full=True)  # text that is text, decimals with as many digits as they may have
        if batch.num_rows != stripe.rows or batch.num_columns != len(self.selected):
            raise CorruptFile(
                f"stripe {number} should have {stripe.rows} rows of {len(self.selected)} columns, "
                f"found {batch.num_rows} of {batch.num_columns}"
            )
        return self._with_moments(streams, batch)

    def _read(self, number: int) -> pa.RecordBatch:
        if self._reader is None:
            disguised = DisguisedFile(self.stream, self.tail, self.moments if self._as_numbers else ())
            self._reader = orc.ORCFile(pa.PythonFile(disguised, mode="r"))
        return self._reader.read_stripe(number, columns=[column_name(one) for one in self.selected])

    def _with_moments(self, streams: StripeStreams, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.moments:
            return batch
        nodes = self.tail.nodes
        leaf: Leaf = Seconds(streams) if self._as_numbers else rounded_down
        arrays = [
            with_leaves(nodes, own, array, leaf) if has_moments(nodes, own) else array
            for own, array in zip(self.selected, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
