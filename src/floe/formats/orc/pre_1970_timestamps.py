"""Stripes with timestamps before 1970 that have fractions of a second, of which pyarrow writes the wrong bytes.

A column of timestamps is stored as two streams of numbers: seconds since 2015, and nanoseconds. A column of numbers is
stored as the first of them. So pyarrow writes the seconds, as numbers, and each of its stripes is completed: with the
stream of nanoseconds, the places of rows in it, and statistics of moments in place of numbers (ORC spec: Timestamp
Columns, Stripes, Row Group Index).

ORC has no form for the last second before 1970, but for its first millisecond: readers take such a moment for one that
is a second later. What cannot be stored is refused.

The end of an ORC file as it is written: what pyarrow has written, completed, or put together anew.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
from numpy.typing import NDArray

from floe.errors import CorruptFile, UnsupportedFeature
from floe.formats.arrow_arrays import validity_buffer
from floe.formats.orc.streams import RUN, SECONDARY, encode_unsigned
from floe.formats.orc.tail import (
    HEAD,
    MAGIC,
    NONE,
    Message,
    OrcNode,
    Stripe,
    Tail,
    bytes_of,
    numbers_of,
    one_number,
    pack_plain,
    parse_footer,
    parse_postscript,
    read_fields,
    read_tail,
    signed,
    unpack,
    write_fields,
)
from floe.formats.orc.timestamps import EPOCH_2015, MILLISECOND, MOMENT_KINDS, moments_below, with_leaves

_ROW_INDEX = 6
_INDEX_KINDS = (_ROW_INDEX, 7, 8)
_INTEGERS, _TIMESTAMPS = 2, 9
_SECOND_NANOS = 1_000_000_000

Moments = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MadeStripe:
    """A stripe ready to be written, and what the tail of its file says about it."""

    content: bytes
    index_length: int
    data_length: int
    footer_length: int
    rows: int
    statistics: list[bytes]
    """Of each column."""

    sizes: list[tuple[int, int]]
    """The column and size of each stream."""

    def described(self, offset: int) -> bytes:
        """The stripe as the footer lists it, at a place in the file."""
        lengths = (self.index_length, self.data_length, self.footer_length, self.rows)
        return write_fields([(1, offset), *enumerate(lengths, 2)])


def check_moments(array: pa.Array, ticks: int) -> bool:
    """Whether timestamps of so many ticks a second include some that pyarrow cannot write; raise if ORC cannot either.

    >>> check_moments(pa.array([-1_500_000, 0], pa.timestamp("us")), 1_000_000)
    True
    >>> check_moments(pa.array([-500_000], pa.timestamp("us")), 1_000_000)
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: ORC has no form for timestamps in the last second before 1970; write the rows to ...
    """
    numbers = np.asarray(array.view(pa.int64()).fill_null(0))
    early = (numbers < 0) & (numbers % ticks != 0)
    if not early.any():
        return False
    if (early & (numbers >= -ticks + ticks // 1000)).any():
        raise UnsupportedFeature(
            "ORC has no form for timestamps in the last second before 1970", hint="write the rows to Parquet or Avro"
        )
    return True


def early_stripes(tail: Tail, columns: Sequence[pa.Array], options: Mapping[str, Any]) -> Iterator[MadeStripe]:
    """The stripes of some rows, given as arrays of the file's columns at the top; `tail` tells the file's types."""
    nodes = tail.nodes
    tops = nodes[0].children
    arrays = [with_leaves(nodes, top, array, _seconds) for top, array in zip(tops, columns, strict=True)]
    nanos = {
        node.id: _fractions(array)[mask]
        for top, array in zip(tops, columns, strict=True)
        for node, array, mask in _stored_moments(nodes, top, array, np.ones(len(array), bool))
    }
    moments = set(nanos)
    told = dict(options)
    if told.get("bloom_filter_columns"):  # filters of numbers are none of moments
        told["bloom_filter_columns"] = [n for n in told["bloom_filter_columns"] if n not in moments] or None
    sink = io.BytesIO()
    with orc.ORCWriter(sink, **told) as writer:
        writer.write(pa.table(arrays, names=[f"c{top}" for top in tops]))
    data = sink.getvalue()
    written = read_tail(io.BytesIO(data), len(data))
    for stripe, statistics in zip(written.stripes, _raw_statistics(written), strict=True):
        counts = {number: one_number(read_fields(statistics[number]), 1) for number in moments}
        mine = {number: nanos[number][:count] for number, count in counts.items()}
        nanos = {number: nanos[number][count:] for number, count in counts.items()}
        yield _completed(written, data, stripe, statistics, mine)


# seconds and nanoseconds ----------------------------------------------------------------------------------------------


def _ticks(array: pa.Array) -> int:
    return 1_000_000 if array.type.unit == "us" else _SECOND_NANOS


def _numbers(array: pa.Array) -> Moments:
    return np.asarray(array.view(pa.int64()).fill_null(0))


def _fractions(array: pa.Array) -> Moments:
    """The nanoseconds of each moment."""
    ticks = _ticks(array)
    found: Moments = _numbers(array) % ticks * (_SECOND_NANOS // ticks)
    return found


def _seconds(node: OrcNode, array: pa.Array) -> pa.Array:
    """The seconds since 2015, before 1970 rounded as ORC's writers do it."""
    seconds = _numbers(array) // _ticks(array)
    seconds = seconds + ((seconds < 0) & (_fractions(array) > MILLISECOND)) - EPOCH_2015
    known = validity_buffer(np.asarray(array.is_valid())) if array.null_count else None
    return pa.Array.from_buffers(pa.int64(), len(array), [known, pa.py_buffer(np.ascontiguousarray(seconds))])


def _stored_moments(
    nodes: Sequence[OrcNode], number: int, array: pa.Array, there: NDArray[np.bool_]
) -> Iterator[tuple[OrcNode, pa.Array, NDArray[np.bool_]]]:
    """The columns of timestamps below one, each with a mask of the values that are stored: not null, nor in a null."""
    node = nodes[number]
    there = there & np.asarray(array.is_valid())
    if node.kind in MOMENT_KINDS:
        yield node, array, there
        return
    if not moments_below(nodes, number):
        return
    if node.kind == "struct":
        for place, child in enumerate(node.children):
            yield from _stored_moments(nodes, child, array.field(place), there)
        return
    inside = np.repeat(there, np.diff(np.asarray(array.offsets)))
    parts = [array.values] if node.kind == "array" else [array.keys, array.items]
    for child, part in zip(node.children, parts, strict=True):
        yield from _stored_moments(nodes, child, part, inside)


# stripes --------------------------------------------------------------------------------------------------------------


def _raw_statistics(tail: Tail) -> list[list[bytes]]:
    script = tail.postscript
    content = unpack(script.codec, tail.metadata, script.block_size)
    return [bytes_of(read_fields(part), 1) for part in bytes_of(read_fields(content), 1)]


def _completed(
    tail: Tail, data: bytes, stripe: Stripe, statistics: list[bytes], nanos: Mapping[int, Moments]
) -> MadeStripe:
    script = tail.postscript
    footer_at = stripe.end - stripe.footer_length
    footer = read_fields(unpack(script.codec, data[footer_at : stripe.end], script.block_size))
    streams: list[tuple[int, int, bytes]] = []
    at = stripe.offset
    for one in map(read_fields, bytes_of(footer, 1)):
        kind, column, length = (one_number(one, field) for field in (1, 2, 3))
        content = data[at : at + length]
        at += length
        if kind == _ROW_INDEX and column in nanos:
            index = unpack(script.codec, content, script.block_size)
            content = _packed(tail, _completed_index(tail, index, nanos[column]))
        streams.append((kind, column, content))
    for column, values in nanos.items():
        streams.append((SECONDARY, column, _packed(tail, encode_unsigned(_shortened(values))[0])))
    described = [(1, write_fields([(1, kind), (2, column), (3, len(part))])) for kind, column, part in streams]
    kept = [(field, value) for field in (2, 3) for value in footer.get(field, ())]
    end = _packed(tail, write_fields([*described, *kept]))
    index_length = sum(len(part) for kind, _, part in streams if kind in _INDEX_KINDS)
    body = b"".join(part for _, _, part in streams)
    told = [_of_moments(one) if number in nanos else one for number, one in enumerate(statistics)]
    sizes = [(column, len(part)) for _, column, part in streams]
    return MadeStripe(body + end, index_length, len(body) - index_length, len(end), stripe.rows, told, sizes)


def _packed(tail: Tail, content: bytes) -> bytes:
    script = tail.postscript
    return content if script.codec == NONE else pack_plain(content, script.block_size)


def _shortened(nanos: Moments) -> Moments:
    """Nanoseconds with their zeros at the end counted in the lowest three bits, if there are two of them or more."""
    made = nanos << 3
    for zeros in range(2, 9):
        whole = (nanos % 10**zeros == 0) & (nanos > 0)
        made = np.where(whole, nanos // 10**zeros << 3 | zeros - 1, made)
    return made


def _completed_index(tail: Tail, index: bytes, nanos: Moments) -> bytes:
    """The index of a column of moments, from that of its seconds: entries also tell the place in the nanoseconds."""
    _, starts = encode_unsigned(_shortened(nanos))
    before = 0
    entries = []
    for entry in map(read_fields, bytes_of(read_fields(index), 1)):
        statistics = bytes_of(entry, 2)[-1]
        place = _place(tail, starts[before // RUN]) if before < len(nanos) else _place(tail, starts[-1])
        skipped = before % RUN if before < len(nanos) else 0
        positions = [*numbers_of(entry, 1), *place, skipped]
        entries.append((1, write_fields([*((1, number) for number in positions), (2, _of_moments(statistics))])))
        before += one_number(read_fields(statistics), 1)
    return write_fields(entries)


def _place(tail: Tail, at: int) -> list[int]:
    """Where a byte of a stream is: in which chunk, and where in it; or just where, if there are no chunks."""
    if tail.postscript.codec == NONE:
        return [at]
    size = tail.postscript.block_size
    return [at // size * (size + HEAD), at % size]


def _of_moments(statistics: bytes) -> bytes:
    """Statistics of seconds as statistics of moments, which are milliseconds; a second more on both sides is right."""
    found: Message = read_fields(statistics)
    kept = [(field, found[field][-1]) for field in (1, 10, 11) if field in found]
    parts = bytes_of(found, _INTEGERS)
    range_ = read_fields(parts[-1]) if parts else {}
    if 1 not in range_ or 2 not in range_:
        return write_fields(kept)
    lower, upper = (signed(one_number(range_, field)) + EPOCH_2015 for field in (1, 2))
    ends = [_zigzag((lower - 1) * 1000), _zigzag((upper + 1) * 1000)]
    moments = write_fields([*enumerate(ends, 1), *enumerate(ends, 3)])
    return write_fields(sorted([*kept, (_TIMESTAMPS, moments)]))


def _zigzag(number: int) -> int:
    return (number << 1) ^ (number >> 63) if number >= 0 else (-number << 1) - 1


# The end of an ORC file as it is written: what pyarrow has written, completed, or put together anew.

_OF_FIRST_WRITER = (1, 4, 8, 9, 11, 12)  # header, types, row index stride, who wrote it


def tail_of(held: bytes, written: int) -> tuple[Tail, int]:
    """The tail at the end of some bytes, before which so many were written, and where its footer begins there."""
    script = parse_postscript(held)
    end = len(held) - script.length
    start = end - script.footer_length
    if start < 0:
        raise CorruptFile("the ORC writer wrote its footer too early")
    begin = start - script.metadata_length
    return parse_footer(script, held[start:end], written + begin, held[begin:start]), start


def with_metadata(tail: Tail, end: bytes, metadata: Mapping[str, str]) -> bytes:
    """The footer and postscript with key-value metadata; a message is made longer by writing on."""
    if not metadata:
        return end
    script = tail.postscript
    more = write_fields(_entries(metadata))
    if script.codec != NONE:
        more = pack_plain(more, script.block_size)
    footer = end[: -script.length] + more
    fields = [(number, value) for number, values in script.fields.items() if number != 1 for value in values]
    postscript = write_fields([(1, len(footer)), *fields])
    return footer + postscript + bytes([len(postscript)])


def _entries(metadata: Mapping[str, str]) -> list[tuple[int, bytes]]:
    return [(5, write_fields([(1, key.encode()), (2, value.encode())])) for key, value in metadata.items()]


def combined_end(
    tail: Tail, stripes: Sequence[tuple[int, MadeStripe]], content_end: int, metadata: Mapping[str, str]
) -> bytes:
    """The end of a file that has stripes of pyarrow's, whose tail is given, and then others, at their places."""
    script, footer = tail.postscript, tail.footer
    made = [stripe for _, stripe in stripes]
    own = bytes_of(read_fields(unpack(script.codec, tail.metadata, script.block_size)), 1)
    told = [(1, part) for part in own]
    told += [(1, write_fields([(1, one) for one in stripe.statistics])) for stripe in made]
    fields = [(field, value) for field in _OF_FIRST_WRITER for value in footer.get(field, ())]
    fields += [(3, part) for part in bytes_of(footer, 3)]
    fields += [(3, stripe.described(offset)) for offset, stripe in stripes]
    fields += [(2, content_end - len(MAGIC)), (6, tail.rows + sum(stripe.rows for stripe in made))]
    fields += [(7, part) for part in _counts(bytes_of(footer, 7), [stripe.statistics for stripe in made])]
    packed = [
        content if script.codec == NONE else pack_plain(content, script.block_size)
        for content in (write_fields(told), write_fields([*fields, *_entries(metadata)]))
    ]
    lengths = {1: len(packed[1]), 5: len(packed[0])}
    kept = [(n, value) for n, values in script.fields.items() if n not in lengths for value in values]
    postscript = write_fields([*lengths.items(), *kept])
    return b"".join((*packed, postscript, bytes([len(postscript)])))


def _counts(first: Sequence[bytes], others: Sequence[Sequence[bytes]]) -> list[bytes]:
    """The statistics of all rows, by column: how many values there are, and whether nulls; stripes tell the rest."""
    made = []
    for several in zip(first, *others, strict=True):
        messages = [read_fields(one) for one in several]
        values = sum(one_number(message, 1) for message in messages)
        made.append(write_fields([(1, values), (10, int(any(one_number(message, 10) for message in messages)))]))
    return made
