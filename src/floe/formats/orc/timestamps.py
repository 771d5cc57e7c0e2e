"""Timestamps of ORC files that pyarrow cannot read or write.

ORC stores a timestamp as seconds since 2015 and nanoseconds, in two streams, so that it can have any year.

Read: pyarrow returns both as one number of nanoseconds, which ranges from 1677 to 2262. For other timestamps the
seconds are read as integers (see `floe.formats.orc.reader`), and `TimestampDecoder` adds the nanoseconds.

Written: for timestamps before 1970 with fractions of a second, pyarrow writes wrong nanoseconds. Since a column of
integers is stored like the seconds of a timestamp, pyarrow writes the seconds as integers, and each stripe is completed
with the stream of nanoseconds, the positions of rows in it, and statistics of timestamps instead of integers (ORC spec:
Timestamp Columns, Stripes, Row Group Index). Readers of ORC take the last second before 1970, except its first
millisecond, for a second later; such timestamps cannot be stored and are refused.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
from numpy.typing import NDArray

from floe.errors import CorruptFile, UnsupportedFeature
from floe.formats.columns.arrays import validity_buffer
from floe.formats.columns.arrow_types import arrow_type
from floe.formats.orc.streams import RUN, SECONDARY, StripeStreams, decode_unsigned, encode_unsigned
from floe.formats.orc.tail import (
    HEAD,
    NONE,
    Message,
    OrcNode,
    Stripe,
    Tail,
    decompress,
    get_bytes,
    get_number,
    get_numbers,
    read_fields,
    read_tail,
    store_uncompressed,
    type_of,
    unzigzag,
    write_fields,
)

TimestampConverter = Callable[[OrcNode, pa.Array], pa.Array]
"""Converts the array of a timestamp column."""

TIMESTAMP_KINDS = ("timestamp", "timestamp_instant")
EPOCH_2015 = 1_420_070_400
"""The epoch of the seconds of ORC timestamps, 2015-01-01, in seconds since 1970."""

MAX_NANOS_ROUNDED_DOWN = 999_999
"""Before 1970, ORC's writers round seconds up if there are more nanoseconds than this."""

_SAME_AS_UTC = frozenset({"", "UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z", "UCT", "Zulu", "Etc/UCT", "Universal"})


# Timestamp columns ----------------------------------------------------------------------------------------------------


def timestamp_columns(nodes: Sequence[OrcNode], column_id: int) -> list[int]:
    """The ids of the timestamp columns at and below a column.

    >>> timestamp_columns([OrcNode(0, "array", (), (1,)), OrcNode(1, "timestamp")], 0)
    [1]
    """
    node = nodes[column_id]
    columns = [column_id] if node.kind in TIMESTAMP_KINDS else []
    return columns + [column for child in node.children for column in timestamp_columns(nodes, child)]


def has_timestamps(nodes: Sequence[OrcNode], column_id: int) -> bool:
    """Whether there are timestamp columns at or below a column.

    >>> has_timestamps([OrcNode(0, "int")], 0)
    False
    """
    return bool(timestamp_columns(nodes, column_id))


def convert_timestamps(
    nodes: Sequence[OrcNode], column_id: int, array: pa.Array, convert: TimestampConverter
) -> pa.Array:
    """Convert the timestamps in an array, at any depth."""
    node = nodes[column_id]
    if node.kind in TIMESTAMP_KINDS:
        return convert(node, array)
    if not has_timestamps(nodes, column_id):
        return array
    if node.kind == "map":
        parts = [array.keys, array.items]
    else:
        parts = [array.values] if node.kind == "array" else [array.field(n) for n in range(len(node.children))]
    converted = [
        convert_timestamps(nodes, child, part, convert) for child, part in zip(node.children, parts, strict=True)
    ]
    buffers = array.buffers()
    if node.kind == "struct":
        fields = [pa.field(array.type.field(n).name, part.type) for n, part in enumerate(converted)]
        return pa.Array.from_buffers(pa.struct(fields), len(array), buffers[:1], children=converted)
    if node.kind == "array":
        return pa.Array.from_buffers(pa.list_(converted[0].type), len(array), buffers[:2], children=converted)
    entries = pa.StructArray.from_arrays(
        converted, fields=[pa.field("key", converted[0].type, False), pa.field("value", converted[1].type)]
    )
    return pa.Array.from_buffers(
        pa.map_(converted[0].type, converted[1].type), len(array), buffers[:2], children=[entries]
    )


def truncate_timestamps(node: OrcNode, array: pa.Array) -> pa.Array:
    """Truncate timestamps to the unit of their type: nanoseconds to microseconds (spec: Appendix A, ORC, note 2).

    >>> node = OrcNode(1, "timestamp")
    >>> truncate_timestamps(node, pa.array([-1, 1999, None], pa.timestamp("ns"))).view(pa.int64()).to_pylist()
    [-1, 1, None]
    """
    target = arrow_type(type_of(node))
    if target.unit == array.type.unit:
        return array
    numbers = array.view(pa.int64())
    micros = np.asarray(numbers.fill_null(0)) // 1000
    return pa.Array.from_buffers(target, len(array), [array.buffers()[0], pa.py_buffer(micros)], offset=0)


# Read -----------------------------------------------------------------------------------------------------------------


class TimestampDecoder:
    """Decodes the timestamps of a stripe, from their seconds and the stripe's streams of nanoseconds."""

    def __init__(self, streams: StripeStreams) -> None:
        self._streams = streams

    def __call__(self, node: OrcNode, array: pa.Array) -> pa.Array:
        """Decode the timestamps of a column, given as seconds since 2015; raises `CorruptFile` if out of range."""
        self._check_zone(node)
        valid = np.asarray(array.is_valid())
        seconds = np.asarray(array.fill_null(0)).astype(np.int64) + EPOCH_2015
        nanos = np.zeros(len(array), np.int64)
        nanos[valid] = self._nanos(node, int(valid.sum()))
        seconds -= (seconds < 0) & (nanos > MAX_NANOS_ROUNDED_DOWN)  # undo the rounding of ORC's writers before 1970
        target = arrow_type(type_of(node))
        per_second = 1_000_000 if target.unit == "us" else 1_000_000_000
        fractions = nanos // (1_000_000_000 // per_second)
        _check_range(seconds, fractions, per_second, target)
        numbers = seconds * per_second + fractions
        return pa.Array.from_buffers(
            target, len(array), [validity_buffer(valid) if array.null_count else None, pa.py_buffer(numbers)]
        )

    def _check_zone(self, node: OrcNode) -> None:
        zone = b"".join(get_bytes(self._streams.footer, 3)[-1:]).decode(errors="replace")
        if node.kind == "timestamp" and zone not in _SAME_AS_UTC:
            raise UnsupportedFeature(
                f"timestamps before 1677 or after 2262, written in the time zone {zone}, cannot be read"
            )

    def _nanos(self, node: OrcNode, count: int) -> NDArray[np.int64]:
        if not count:
            return np.zeros(0, np.int64)
        data, version = self._streams.read(node.id, SECONDARY), self._streams.run_version(node.id)
        if data is None or version is None:
            raise CorruptFile(
                f"column {node.id} of a stripe of the ORC file has no nanoseconds", position=self._streams.stripe.offset
            )
        packed = decode_unsigned(data, count, version=version)
        zeros = packed & 7  # if not 0, one more decimal zeros were removed
        nanos: NDArray[np.int64] = (packed >> 3) * np.where(zeros > 0, 10 ** (zeros + 1), 1)
        if nanos.min() < 0 or nanos.max() >= 1_000_000_000:
            raise CorruptFile(f"column {node.id} of a stripe of the ORC file has nanoseconds of more than a second")
        return nanos


def _check_range(
    seconds: NDArray[np.int64], fractions: NDArray[np.int64], per_second: int, target: pa.DataType
) -> None:
    """Raise `CorruptFile` if a timestamp does not fit into 64 bits."""
    limit = 2**63 // per_second
    for row in np.flatnonzero((seconds >= limit) | (seconds <= -limit)).tolist():
        if not -(2**63) <= int(seconds[row]) * per_second + int(fractions[row]) < 2**63:
            raise CorruptFile(f"a timestamp {seconds[row]} seconds from 1970 is out of the range of {target}")


# Written --------------------------------------------------------------------------------------------------------------

_ROW_INDEX = 6
_INDEX_KINDS = (_ROW_INDEX, 7, 8)
_INTEGERS, _TIMESTAMPS = 2, 9
_SECOND_NANOS = 1_000_000_000

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EncodedStripe:
    """An encoded stripe, and what the tail of its file says about it."""

    content: bytes
    index_length: int
    data_length: int
    footer_length: int
    rows: int
    statistics: list[bytes]
    """The statistics of each column."""

    sizes: list[tuple[int, int]]
    """The column id and size of each stream."""

    def footer_entry(self, offset: int) -> bytes:
        """The entry of the stripe in the footer, for its offset in the file."""
        lengths = (self.index_length, self.data_length, self.footer_length, self.rows)
        return write_fields([(1, offset), *enumerate(lengths, 2)])


def has_pre_1970_fractions(array: pa.Array, ticks: int) -> bool:
    """Whether timestamps of `ticks` per second have fractions before 1970, which pyarrow cannot write.

    Raises `UnsupportedFeature` if ORC cannot store them either.

    >>> has_pre_1970_fractions(pa.array([-1_500_000, 0], pa.timestamp("us")), 1_000_000)
    True
    >>> has_pre_1970_fractions(pa.array([-500_000], pa.timestamp("us")), 1_000_000)
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: ORC cannot store timestamps in the last second before 1970; write the rows to ...
    """
    numbers = np.asarray(array.view(pa.int64()).fill_null(0))
    fractional = (numbers < 0) & (numbers % ticks != 0)
    if not fractional.any():
        return False
    if (fractional & (numbers >= -ticks + ticks // 1000)).any():
        raise UnsupportedFeature(
            "ORC cannot store timestamps in the last second before 1970", hint="write the rows to Parquet or Avro"
        )
    return True


def encode_pre_1970_stripes(
    tail: Tail, columns: Sequence[pa.Array], options: Mapping[str, Any]
) -> Iterator[EncodedStripe]:
    """Encode rows, given as arrays of the top-level columns, as stripes; `tail` has the types of the file."""
    nodes = tail.nodes
    top_ids = nodes[0].children
    arrays = [convert_timestamps(nodes, top, array, _seconds) for top, array in zip(top_ids, columns, strict=True)]
    nanos = {
        node.id: _fractions(array)[mask]
        for top, array in zip(top_ids, columns, strict=True)
        for node, array, mask in _stored_timestamps(nodes, top, array, np.ones(len(array), bool))
    }
    timestamp_ids = set(nanos)
    writer_options = dict(options)
    if writer_options.get("bloom_filter_columns"):  # Bloom filters of the seconds would not match timestamps
        writer_options["bloom_filter_columns"] = [
            n for n in writer_options["bloom_filter_columns"] if n not in timestamp_ids
        ] or None
    sink = io.BytesIO()
    with orc.ORCWriter(sink, **writer_options) as writer:
        writer.write(pa.table(arrays, names=[f"c{top}" for top in top_ids]))
    data = sink.getvalue()
    written = read_tail(io.BytesIO(data), len(data))
    for stripe, statistics in zip(written.stripes, _raw_statistics(written), strict=True):
        counts = {column_id: get_number(read_fields(statistics[column_id]), 1) for column_id in timestamp_ids}
        stripe_nanos = {column_id: nanos[column_id][:count] for column_id, count in counts.items()}
        nanos = {column_id: nanos[column_id][count:] for column_id, count in counts.items()}
        yield _complete_stripe(written, data, stripe, statistics, stripe_nanos)


# seconds and nanoseconds


def _ticks(array: pa.Array) -> int:
    return 1_000_000 if array.type.unit == "us" else _SECOND_NANOS


def _integers(array: pa.Array) -> Integers:
    return np.asarray(array.view(pa.int64()).fill_null(0))


def _fractions(array: pa.Array) -> Integers:
    """The nanoseconds of each timestamp."""
    ticks = _ticks(array)
    nanos: Integers = _integers(array) % ticks * (_SECOND_NANOS // ticks)
    return nanos


def _seconds(node: OrcNode, array: pa.Array) -> pa.Array:
    """The seconds since 2015, rounded before 1970 as ORC's writers do."""
    seconds = _integers(array) // _ticks(array)
    seconds = seconds + ((seconds < 0) & (_fractions(array) > MAX_NANOS_ROUNDED_DOWN)) - EPOCH_2015
    validity = validity_buffer(np.asarray(array.is_valid())) if array.null_count else None
    return pa.Array.from_buffers(pa.int64(), len(array), [validity, pa.py_buffer(np.ascontiguousarray(seconds))])


def _stored_timestamps(
    nodes: Sequence[OrcNode], column_id: int, array: pa.Array, stored: NDArray[np.bool_]
) -> Iterator[tuple[OrcNode, pa.Array, NDArray[np.bool_]]]:
    """The timestamp columns at and below a column, each with a mask of its stored values: not null, nor inside null."""
    node = nodes[column_id]
    stored = stored & np.asarray(array.is_valid())
    if node.kind in TIMESTAMP_KINDS:
        yield node, array, stored
        return
    if not timestamp_columns(nodes, column_id):
        return
    if node.kind == "struct":
        for index, child in enumerate(node.children):
            yield from _stored_timestamps(nodes, child, array.field(index), stored)
        return
    item_stored = np.repeat(stored, np.diff(np.asarray(array.offsets)))
    parts = [array.values] if node.kind == "array" else [array.keys, array.items]
    for child, part in zip(node.children, parts, strict=True):
        yield from _stored_timestamps(nodes, child, part, item_stored)


# stripes


def _raw_statistics(tail: Tail) -> list[list[bytes]]:
    script = tail.postscript
    content = decompress(script.codec, tail.metadata, script.block_size)
    return [get_bytes(read_fields(part), 1) for part in get_bytes(read_fields(content), 1)]


def _complete_stripe(
    tail: Tail, data: bytes, stripe: Stripe, statistics: list[bytes], nanos: Mapping[int, Integers]
) -> EncodedStripe:
    script = tail.postscript
    footer_at = stripe.end - stripe.footer_length
    footer = read_fields(decompress(script.codec, data[footer_at : stripe.end], script.block_size))
    streams: list[tuple[int, int, bytes]] = []
    at = stripe.offset
    for stream in map(read_fields, get_bytes(footer, 1)):
        kind, column, length = (get_number(stream, field) for field in (1, 2, 3))
        content = data[at : at + length]
        at += length
        if kind == _ROW_INDEX and column in nanos:
            row_index = decompress(script.codec, content, script.block_size)
            content = _store(tail, _complete_index(tail, row_index, nanos[column]))
        streams.append((kind, column, content))
    for column, values in nanos.items():
        streams.append((SECONDARY, column, _store(tail, encode_unsigned(_shorten(values))[0])))
    stream_entries = [(1, write_fields([(1, kind), (2, column), (3, len(part))])) for kind, column, part in streams]
    other_fields = [(field, value) for field in (2, 3) for value in footer.get(field, ())]
    end = _store(tail, write_fields([*stream_entries, *other_fields]))
    index_length = sum(len(part) for kind, _, part in streams if kind in _INDEX_KINDS)
    body = b"".join(part for _, _, part in streams)
    column_statistics = [
        _timestamp_statistics(message) if column_id in nanos else message
        for column_id, message in enumerate(statistics)
    ]
    sizes = [(column, len(part)) for _, column, part in streams]
    return EncodedStripe(
        body + end, index_length, len(body) - index_length, len(end), stripe.rows, column_statistics, sizes
    )


def _store(tail: Tail, content: bytes) -> bytes:
    script = tail.postscript
    return content if script.codec == NONE else store_uncompressed(content, script.block_size)


def _shorten(nanos: Integers) -> Integers:
    """Nanoseconds with two or more trailing decimal zeros removed and counted in the lowest three bits."""
    shortened = nanos << 3
    for zeros in range(2, 9):
        divisible = (nanos % 10**zeros == 0) & (nanos > 0)
        shortened = np.where(divisible, nanos // 10**zeros << 3 | zeros - 1, shortened)
    return shortened


def _complete_index(tail: Tail, index: bytes, nanos: Integers) -> bytes:
    """The row index of a timestamp column, from that of its seconds: entries also have positions in the nanoseconds."""
    _, starts = encode_unsigned(_shorten(nanos))
    rows_before = 0
    entries = []
    for entry in map(read_fields, get_bytes(read_fields(index), 1)):
        statistics = get_bytes(entry, 2)[-1]
        run_start = starts[rows_before // RUN] if rows_before < len(nanos) else starts[-1]
        run_index = rows_before % RUN if rows_before < len(nanos) else 0
        positions = [*get_numbers(entry, 1), *_stream_position(tail, run_start), run_index]
        entries.append(
            (1, write_fields([*((1, number) for number in positions), (2, _timestamp_statistics(statistics))]))
        )
        rows_before += get_number(read_fields(statistics), 1)
    return write_fields(entries)


def _stream_position(tail: Tail, offset: int) -> list[int]:
    """The position of a byte of a stream: the offsets of its chunk and in it, or just its offset without chunks."""
    if tail.postscript.codec == NONE:
        return [offset]
    size = tail.postscript.block_size
    return [offset // size * (size + HEAD), offset % size]


def _timestamp_statistics(statistics: bytes) -> bytes:
    """Statistics of seconds as statistics of timestamps, in milliseconds, widened by a second on both sides."""
    fields: Message = read_fields(statistics)
    counts = [(field, fields[field][-1]) for field in (1, 10, 11) if field in fields]
    parts = get_bytes(fields, _INTEGERS)
    range_ = read_fields(parts[-1]) if parts else {}
    if 1 not in range_ or 2 not in range_:
        return write_fields(counts)
    lower, upper = (unzigzag(get_number(range_, field)) + EPOCH_2015 for field in (1, 2))
    ends = [_zigzag((lower - 1) * 1000), _zigzag((upper + 1) * 1000)]
    timestamps = write_fields([*enumerate(ends, 1), *enumerate(ends, 3)])
    return write_fields(sorted([*counts, (_TIMESTAMPS, timestamps)]))


def _zigzag(number: int) -> int:
    return (number << 1) ^ (number >> 63) if number >= 0 else (-number << 1) - 1
