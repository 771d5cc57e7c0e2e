"""ORC files read as Arrow batches, stripe by stripe.

Stripes are selected by a split, and by a filter on the statistics in the tail. pyarrow reads them through a
`PatchedTailFile`, because ORC's reader finds columns by name and takes dots in names for paths, and reads timestamps
only as nanoseconds, which range from 1677 to 2262. The patched tail names each top-level column by its id, and may
declare timestamps as the integers that store their seconds; `floe.formats.orc.timestamps` then decodes them.
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
from floe.formats.columns.projection import Projection, rows_without_columns
from floe.formats.model import ReadRequest, plain_storage_to_read
from floe.formats.orc.streams import StripeStreams, check_streams
from floe.formats.orc.tail import (
    KINDS,
    NONE,
    Message,
    OrcNode,
    Tail,
    file_columns,
    get_bytes,
    get_number,
    nodes_below,
    read_fields,
    read_tail,
    store_uncompressed,
    unzigzag,
    write_fields,
)
from floe.formats.orc.timestamps import (
    TimestampConverter,
    TimestampDecoder,
    convert_timestamps,
    has_timestamps,
    timestamp_columns,
    truncate_timestamps,
)
from floe.spec.codecs.single_value import encode
from floe.spec.pruning.metrics_evaluation import files_might_match, gather_stats
from floe.spec.types import Type
from floe.spec.values.civil_time import MICROS, NANOS, SECONDS_PER_DAY

# Selection of stripes -------------------------------------------------------------------------------------------------

_Bounds = tuple[Any, Any]
_INTEGERS, _DOUBLES, _STRINGS, _DECIMALS, _DATES, _TIMESTAMPS = 2, 3, 4, 6, 7, 9
_TIMESTAMP_KINDS = ("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")
_LATEST_MS = 2**63 // 10**6 - 2 * SECONDS_PER_DAY * 1000


def stripes_in_split(tail: Tail, split: tuple[int, int] | None) -> list[int]:
    """The indices of the stripes that begin in a range of bytes, the convention of all ORC readers."""
    everything = list(range(len(tail.stripes)))
    if split is None:
        return everything
    start, end = split[0], split[0] + split[1]
    return [n for n in everything if start <= tail.stripes[n].offset < end]


@dataclass(frozen=True, slots=True)
class _StripeMetrics:
    """Counts and bounds of columns in a stripe by field id, in the form of the metrics of a file."""

    record_count: int
    value_counts: Mapping[int, int]
    null_value_counts: Mapping[int, int]
    nan_value_counts: Mapping[int, int] | None
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]


def matching_stripes(tail: Tail, stripes: list[int], projection: Projection) -> list[int]:
    """The stripes that may have a row which matches the filter, according to the statistics in the tail."""
    columns = [
        (field_id, _column_at(tail.nodes, path), column.stored)
        for field_id, (path, column) in projection.filtered_columns().items()
        if column.stored is not None and column.kind != "variant"
    ]
    statistics = tail.statistics() if columns else []
    if not statistics:
        return stripes
    metrics = [_stripe_metrics(tail.stripes[n].rows, statistics[n], columns) for n in stripes]
    might_match = files_might_match(projection.filter, gather_stats(metrics, projection.filter)).tolist()
    return [n for n, keep in zip(stripes, might_match, strict=True) if keep]


def _column_at(nodes: Sequence[OrcNode], path: Iterable[int]) -> int:
    """The id of the column at the end of a path of indices through structs."""
    column_id = 0
    for index in path:
        column_id = nodes[column_id].children[index]
    return column_id


def _stripe_metrics(
    rows: int, statistics: Sequence[Message], columns: Iterable[tuple[int, int, Type]]
) -> _StripeMetrics:
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for field_id, column_id, stored in columns:
        column = statistics[column_id] if column_id < len(statistics) else {}
        count = get_number(column, 1, -1)
        if not 0 <= count <= rows:
            continue
        values[field_id], nulls[field_id] = rows, rows - count
        try:
            bounds = _bounds(stored, column)
            if bounds is not None:
                encoded = encode(stored, bounds[0]), encode(stored, bounds[1])
                lower[field_id], upper[field_id] = encoded
        except (FloeError, ValueError, OverflowError, ArithmeticError, struct.error, IndexError):
            continue  # without bounds the stripe is read, which is always correct
    return _StripeMetrics(rows, values, nulls, None, lower, upper)


def _bounds(stored: Type, column: Message) -> _Bounds | None:
    """Lower and upper bounds of a column, or None."""
    rule = _BOUND_READERS.get(stored.kind)
    if rule is None:
        return None
    field, read = rule
    parts = get_bytes(column, field)
    return read(stored, read_fields(parts[-1])) if parts else None


def _integers(stored: Type, statistics: Message) -> _Bounds | None:
    if 1 not in statistics or 2 not in statistics:
        return None
    return unzigzag(get_number(statistics, 1)), unzigzag(get_number(statistics, 2))


def _doubles(stored: Type, statistics: Message) -> _Bounds | None:
    lower, upper = (struct.unpack("<d", get_bytes(statistics, field)[-1])[0] for field in (1, 2))
    if math.isnan(lower) or math.isnan(upper):
        return None
    return -0.0 if lower == 0 else lower, 0.0 if upper == 0 else upper


def _strings(stored: Type, statistics: Message) -> _Bounds | None:
    lower = get_bytes(statistics, 1) or get_bytes(statistics, 4)
    upper = get_bytes(statistics, 2) or get_bytes(statistics, 5)
    return (lower[-1].decode(), upper[-1].decode()) if lower and upper else None


def _decimals(stored: Type, statistics: Message) -> _Bounds | None:
    try:
        lower, upper = (Decimal(get_bytes(statistics, field)[-1].decode()) for field in (1, 2))
    except InvalidOperation:
        raise CorruptFile("a decimal in the statistics of the ORC file is not a number") from None
    return lower, upper


def _milliseconds(column: Message) -> tuple[int, int] | None:
    parts = get_bytes(column, _TIMESTAMPS)
    statistics = read_fields(parts[-1]) if parts else {}
    return (
        (unzigzag(get_number(statistics, 3)), unzigzag(get_number(statistics, 4)))
        if 3 in statistics and 4 in statistics
        else None
    )


def _timestamps(stored: Type, statistics: Message) -> _Bounds | None:
    """Statistics have milliseconds, in an unknown time zone for local timestamps, so the bounds are widened."""
    if 3 not in statistics or 4 not in statistics:
        return None
    leeway = 2 if stored.kind in ("timestamptz", "timestamptz_ns") else 2 * SECONDS_PER_DAY * 1000
    ticks = (NANOS if stored.kind.endswith("_ns") else MICROS) // 1000
    return (unzigzag(get_number(statistics, 3)) - leeway) * ticks, (
        unzigzag(get_number(statistics, 4)) + leeway
    ) * ticks


_BOUND_READERS: dict[str, tuple[int, Callable[[Type, Message], _Bounds | None]]] = {
    **dict.fromkeys(("int", "long", "time"), (_INTEGERS, _integers)),
    **dict.fromkeys(("float", "double"), (_DOUBLES, _doubles)),
    **dict.fromkeys(_TIMESTAMP_KINDS, (_TIMESTAMPS, _timestamps)),
    "date": (_DATES, _integers),
    "decimal": (_DECIMALS, _decimals),
    "string": (_STRINGS, _strings),
}


def within_nanoseconds(tail: Tail, stripe: int, columns: Iterable[int]) -> bool:
    """Whether the statistics prove that all timestamps of some columns are in the range of nanoseconds."""
    statistics = tail.statistics()
    if not statistics:
        return False
    for column_id in columns:
        column = statistics[stripe][column_id] if column_id < len(statistics[stripe]) else {}
        if get_number(column, 1, -1) == 0:
            continue
        range_ = _milliseconds(column)
        if range_ is None or range_[0] < -_LATEST_MS or range_[1] > _LATEST_MS:
            return False
    return True


# Patched tail ---------------------------------------------------------------------------------------------------------

_LONG = KINDS.index("long")
_KEPT_FOOTER_FIELDS = (1, 2, 3, 6, 8, 9, 11, 12)  # all but types, metadata and statistics
_KEPT_POSTSCRIPT_FIELDS = (2, 3, 4, 6, 8000)


def column_name(number: int) -> str:
    """The name of a top-level column in the patched tail.

    >>> column_name(3)
    'c3'
    """
    return f"c{number}"


class PatchedTailFile:
    """A binary file with the stripes of an ORC file and a patched tail, as pyarrow reads it."""

    mode = "rb"
    closed = False

    def __init__(self, stream: BinaryIO, tail: Tail, as_integers: Collection[int] = ()) -> None:
        self._stream = stream
        self._tail_start = tail.content_end
        self._tail = _patched_tail(tail, as_integers)
        self._size = self._tail_start + len(self._tail)
        self._offset = 0

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes, of the file or of the patched tail."""
        end = self._size if size < 0 else min(self._offset + size, self._size)
        data = b""
        if self._offset < self._tail_start:
            self._stream.seek(self._offset)
            data = self._stream.read(min(end, self._tail_start) - self._offset)
            if self._offset + len(data) < min(end, self._tail_start):  # the file was truncated meanwhile
                self._offset += len(data)
                return data
        if end > self._tail_start:
            data += self._tail[max(self._offset - self._tail_start, 0) : end - self._tail_start]
        self._offset = max(end, self._offset)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to an offset, and return it."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self._size}[whence]
        self._offset = base + offset
        return self._offset

    def tell(self) -> int:
        """The current offset."""
        return self._offset

    def size(self) -> int:
        """The size of the patched file."""
        return self._size

    def readable(self) -> bool:
        """Whether pyarrow may read: always."""
        return True

    def writable(self) -> bool:
        """Whether pyarrow may write: never."""
        return False

    def seekable(self) -> bool:
        """Whether pyarrow may seek: always."""
        return True

    def flush(self) -> None:
        """Do nothing: the file is only read."""

    def close(self) -> None:
        """Do nothing: the owner of the stream closes it."""


def _patched_tail(tail: Tail, as_integers: Collection[int]) -> bytes:
    footer_fields = [(field, value) for field in _KEPT_FOOTER_FIELDS for value in tail.footer.get(field, ())]
    types = [(4, write_fields(part)) for part in _types(tail, as_integers)]
    footer = write_fields([*footer_fields, *types])
    script = tail.postscript
    if script.codec != NONE:
        footer = store_uncompressed(footer, script.block_size)
    fields = [(field, value) for field in _KEPT_POSTSCRIPT_FIELDS for value in script.fields.get(field, ())]
    postscript = write_fields(
        [(1, len(footer)), *((n, value) for n, value in fields if n < 8000), (5, 0), *fields[-1:]]
    )
    return footer + postscript + bytes([len(postscript)])


def _types(tail: Tail, as_integers: Collection[int]) -> Iterator[list[tuple[int, int | float | bytes]]]:
    messages: list[Message] = [read_fields(part) for part in get_bytes(tail.footer, 4)]
    for node, message in zip(tail.nodes, messages, strict=True):
        if node.id in as_integers:
            yield [(1, _LONG)]
            continue
        names = [(3, name.encode()) for name in (map(column_name, node.children) if node.id == 0 else node.names)]
        numbers = [(field, get_number(message, field)) for field in (4, 5, 6) if field in message]
        yield [(1, KINDS.index(node.kind)), *((2, child) for child in node.children), *names, *numbers]


# Reader ---------------------------------------------------------------------------------------------------------------


def read_orc(request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Read the requested rows and columns of an ORC file; raises `CorruptFile` if it is damaged."""
    storage = plain_storage_to_read(request)
    size = storage.stat(request.location).size if request.file_size is None else request.file_size
    with storage.open_read(request.location) as stream:
        try:
            with _corrupt_file_errors():
                tail = read_tail(stream, size)
            yield from _OrcReader(request, stream, tail).batches()
        except FloeError as error:
            raise error.with_context(file=request.location) from None


@contextmanager
def _corrupt_file_errors() -> Iterator[None]:
    """Turn errors of pyarrow into `CorruptFile`."""
    try:
        yield
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise CorruptFile(f"the ORC file cannot be read: {str(error)[:300]}") from None


class _OrcReader:
    def __init__(self, request: ReadRequest, stream: BinaryIO, tail: Tail) -> None:
        expected = request.record_count
        if expected is not None and expected >= 0 and expected != tail.rows:
            raise CorruptFile(f"the file has {tail.rows} rows, the manifest says {expected}")
        self.request = request
        self.stream = stream
        self.tail = tail
        self.projection = Projection(request, file_columns(tail.nodes), nested_selection=False)
        children = tail.nodes[0].children
        self.selected = [children[index] for index in self.projection.selection.indices(len(children))]
        self.read_nodes = [node for number in self.selected for node in nodes_below(tail.nodes, number)]
        self.timestamps = [column_id for number in self.selected for column_id in timestamp_columns(tail.nodes, number)]
        self._reader: orc.ORCFile | None = None
        self._as_integers = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self.projection.reads_nothing:
            return
        chosen = matching_stripes(self.tail, stripes_in_split(self.tail, self.request.split), self.projection)
        self._as_integers = not all(
            within_nanoseconds(self.tail, n, self.timestamps) for n in chosen if self.timestamps
        )
        yield from self.projection.batches(self._read_stripes(chosen))

    def _read_stripes(self, stripes: list[int]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches of the selected columns of some stripes, with the position of their first row."""
        first_rows = [0]
        for stripe in self.tail.stripes:
            first_rows.append(first_rows[-1] + stripe.rows)
        size = self.request.batch_size
        for number in stripes:
            rows = self.tail.stripes[number].rows
            batch = self._read_stripe(number) if self.selected else None
            for start in range(0, rows, size):
                count = min(size, rows - start)
                yield (
                    first_rows[number] + start,
                    rows_without_columns(count) if batch is None else batch.slice(start, count),
                )

    def _read_stripe(self, number: int) -> pa.RecordBatch:
        stripe = self.tail.stripes[number]
        with _corrupt_file_errors():
            streams = StripeStreams(self.stream, self.tail, stripe)
            check_streams(streams, self.read_nodes)
            batch = self._read_batch(number)
            batch.validate(full=True)  # UTF-8, and the precision of decimals
        if batch.num_rows != stripe.rows or batch.num_columns != len(self.selected):
            raise CorruptFile(
                f"stripe {number} should have {stripe.rows} rows of {len(self.selected)} columns, "
                f"found {batch.num_rows} of {batch.num_columns}"
            )
        return self._convert_timestamps(streams, batch)

    def _read_batch(self, number: int) -> pa.RecordBatch:
        if self._reader is None:
            patched = PatchedTailFile(self.stream, self.tail, self.timestamps if self._as_integers else ())
            self._reader = orc.ORCFile(pa.PythonFile(patched, mode="r"))
        return self._reader.read_stripe(number, columns=[column_name(column_id) for column_id in self.selected])

    def _convert_timestamps(self, streams: StripeStreams, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.timestamps:
            return batch
        nodes = self.tail.nodes
        convert: TimestampConverter = TimestampDecoder(streams) if self._as_integers else truncate_timestamps
        arrays = [
            convert_timestamps(nodes, column_id, array, convert) if has_timestamps(nodes, column_id) else array
            for column_id, array in zip(self.selected, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
