"""Parquet files read into Arrow batches: the columns, row groups and rows that were asked for, and no others.

Pages that have a checksum are verified, unless the table's property `read.parquet.page-checksum-verification.enabled`
is false.

Which row groups of a Parquet file are read: those in a split, and of those the ones that a filter may match.

A file whose large reads go into Arrow's own memory pool.

Blocks of many megabytes that come and go as Python bytes stay with the C library's allocator, in a heap for each thread
that ever read; Arrow's pool uses them again.

The metrics of a Parquet file that somebody else wrote, found from its footer alone.

Counts of NaN are not in a footer, so they stay unknown; bounds are those of the statistics, which may be cut short but
hold. Columns whose statistics mean something else (old timestamps of 96 bits, unsigned numbers) have none.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from floe.errors import CorruptFile, FloeError
from floe.formats.appender import Written
from floe.formats.file_columns import EVERYTHING, Selection, file_fields, stored_children, value_type
from floe.formats.metrics import Metrics, MetricsConfig
from floe.formats.model import ReadRequest, plain_storage_to_read
from floe.formats.parquet.footer import RowGroup, Tail, read_row_groups, read_tail
from floe.formats.parquet.writer_options import known_options
from floe.formats.projection import Projection, rows_without_columns
from floe.spec.codecs.ordering import sort_key
from floe.spec.codecs.single_value import decode, encode, truncate_lower, truncate_upper
from floe.spec.expressions.nodes import Expression
from floe.spec.properties import PAGE_CHECKSUMS
from floe.spec.pruning.metrics_filter import compile_might_match
from floe.spec.schemas.column_projection import ColumnSource, FromFile
from floe.spec.schemas.schema import MAX_TYPE_DEPTH
from floe.spec.types import DecimalType, Type
from floe.spec.values.exact_numbers import decimal_from_unscaled

# Which row groups of a Parquet file are read: those in a split, and of those the ones that a filter may match.

_MAX_RUN_BYTES = 32 * 1024 * 1024
"""Row groups are read together up to this size, so that small ones cost little and large ones are not all in memory."""

_PLAIN = {
    "BOOLEAN": struct.Struct("<?"),
    "INT32": struct.Struct("<i"),
    "INT64": struct.Struct("<q"),
    "FLOAT": struct.Struct("<f"),
    "DOUBLE": struct.Struct("<d"),
}
"""How values are stored plainly; all others are bytes."""


def in_split(groups: Sequence[RowGroup], split: tuple[int, int], file_size: int) -> list[int]:
    """The row groups whose middle lies in a range of bytes, as all readers of Parquet count them.

    So each row group belongs to exactly one of the splits that cover a file, wherever they are cut.
    """
    start, end = split[0], split[0] + split[1]
    found = []
    for number, group in enumerate(groups):
        middle = group.start + group.size // 2
        if not 0 <= middle <= file_size:  # it would be in no split, and its rows lost
            raise CorruptFile(f"row group {number} has its middle at byte {middle} of a file of {file_size} bytes")
        if start <= middle < end:
            found.append(number)
    return found


def runs(metadata: pq.FileMetaData, groups: Iterable[int]) -> Iterator[list[int]]:
    """The row groups in runs without gaps, each small enough to be read at once."""
    run: list[int] = []
    size = 0
    for group in groups:
        bytes_ = metadata.row_group(group).total_byte_size
        if run and (group != run[-1] + 1 or size + bytes_ > _MAX_RUN_BYTES):
            yield run
            run, size = [], 0
        run.append(group)
        size += bytes_
    if run:
        yield run


# filters --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TestedColumn:
    """A column of the file that a filter tests."""

    field_id: int
    leaf: int
    """Its place among the file's columns of values."""

    stored: Type
    arrow: pa.DataType
    physical: str
    """How Parquet stores its values: `INT32`, `BYTE_ARRAY`, …"""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """Counts and bounds of columns in a row group, by field id, as the metrics of a file are told."""

    record_count: int
    value_counts: Mapping[int, int]
    null_value_counts: Mapping[int, int]
    nan_value_counts: Mapping[int, int] | None
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]


def matching(
    groups: Sequence[RowGroup], chosen: Sequence[int], where: Expression, columns: Sequence[TestedColumn]
) -> list[int]:
    """Those of the chosen row groups that may have a row which passes a bound filter, by the footer's statistics."""
    might_match = compile_might_match(where)
    return [n for n in chosen if might_match(facts_of(groups[n], columns))]


def facts_of(group: RowGroup, columns: Sequence[TestedColumn]) -> GroupFacts:
    """What the statistics in the footer say of some columns of a row group."""
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for column in columns:
        chunk = group.columns[column.leaf]
        values[column.field_id] = chunk.values
        if chunk.nulls is not None:
            nulls[column.field_id] = chunk.nulls
        if chunk.bounds is not None and (chunk.by_type or column.physical in _PLAIN):
            for bounds, raw in zip((lower, upper), chunk.bounds, strict=True):
                bound = _bound(column, raw)
                if bound is not None:
                    bounds[column.field_id] = bound
    return GroupFacts(group.rows, values, nulls, None, lower, upper)


def _bound(column: TestedColumn, raw: bytes) -> bytes | None:
    """A bound in the single-value encoding, or None where it is not known for sure what it means."""
    stored = column.stored
    if pa.types.is_unsigned_integer(column.arrow) or pa.types.is_float16(column.arrow):
        return None
    plain = _PLAIN.get(column.physical)
    try:
        return encode(stored, _value(stored, column.arrow, raw if plain is None else plain.unpack(raw)[0]))
    except (FloeError, TypeError, ValueError, OverflowError, struct.error):
        return None  # rows are read then, which is always right


def _value(stored: Type, arrow: pa.DataType, raw: Any) -> Any:
    if isinstance(stored, DecimalType):
        unscaled = raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)
        return decimal_from_unscaled(unscaled, stored.scale)
    if stored.kind == "string":
        return raw.decode() if isinstance(raw, bytes) else raw
    if (pa.types.is_time(arrow) or pa.types.is_timestamp(arrow)) and arrow.unit == "ms":
        return raw * 1000
    if pa.types.is_timestamp(arrow) and arrow.unit == "s":
        return None  # Arrow's own, stored in another unit
    if stored.kind == "uuid":
        return None
    return raw


# A file whose large reads go into Arrow's own memory pool.

_LARGE = 2**16


class PooledReads:
    """What pyarrow asks of a file that it reads, over a binary file.

    >>> import io
    >>> file = PooledReads(io.BytesIO(b"abc" * 100_000))
    >>> len(file.read(200_000)), len(file.read(200_000)), file.tell()
    (200000, 100000, 300000)
    """

    mode = "rb"

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int | None = -1) -> Any:
        """Up to so many bytes: as a buffer of the pool, or as bytes if they are few."""
        if size is None or size < _LARGE or not hasattr(self._file, "readinto"):
            return self._file.read(-1 if size is None else size)
        buffer = pa.allocate_buffer(size)
        view, found = memoryview(buffer), 0
        while found < size and (more := self._file.readinto(view[found:])):
            found += more
        return buffer if found == size else buffer.slice(0, found)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """The place."""
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._file.closed

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def writable(self) -> bool:
        """False."""
        return False


_OPTIONS = {
    "coerce_int96_timestamp_unit": "us",  # nanoseconds reach only from 1677 to 2262
    "arrow_extensions_enabled": False,
    "schema_depth_limit": 3 * MAX_TYPE_DEPTH,  # lists and maps take up to three levels each
}

_MAX_FETCHED_BYTES = 64 * 2**20
"""Row groups up to this size are fetched at once; larger ones a few pages of each column at a time."""

_CHECKSUM_HINT = (
    "its bytes changed after it was written: bring back a good copy, or read what is there with the table's property "
    f"{PAGE_CHECKSUMS} set to false"
)

_WORTH_ASKING = 64
"""How many times as long as its footer a file of one row group is before its statistics are asked."""

_FETCHED_AT_ONCE = known_options(pq.ParquetFile.__init__, {**_OPTIONS, "pre_buffer": True})
_PAGE_BY_PAGE = known_options(pq.ParquetFile.__init__, {**_OPTIONS, "pre_buffer": False, "buffer_size": 2**21})


def read_parquet(request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """The batches of a Parquet file that answer a request."""
    with plain_storage_to_read(request).open_read(request.location) as stream:
        try:
            source = open_parquet(stream, page_checksums=verifies_page_checksums(request.properties))
            yield from _File(request, source).batches()
        except FloeError as error:
            raise error.with_context(file=request.location) from None


@dataclass(frozen=True, slots=True)
class ParquetSource:
    """A file that is open: pyarrow's reader of its rows, and its footer.

    Of the reader, nothing may be asked that is about a column of a row group (see `floe.formats.parquet.footer`).
    """

    file: pq.ParquetFile
    tail: Tail

    def row_groups(self, leaves: Collection[int] = ()) -> list[RowGroup]:
        """What the footer says of row groups, and of the columns of values at some places."""
        groups = read_row_groups(self.tail.footer, leaves)
        if len(groups) != self.file.metadata.num_row_groups:
            raise CorruptFile("the footer of the Parquet file has fields twice")
        size = self.tail.file_size
        for number, group in enumerate(groups):
            if not (0 <= group.start <= size and 0 <= group.size <= size):
                raise CorruptFile(f"row group {number} has {group.size} bytes from {group.start} on, the file {size}")
        return groups


def verifies_page_checksums(properties: Mapping[str, str]) -> bool:
    """Whether pages are compared with their checksums, by the properties of a table.

    >>> verifies_page_checksums({}), verifies_page_checksums({PAGE_CHECKSUMS.name: "false"})
    (True, False)
    """
    return PAGE_CHECKSUMS.read(properties)


def open_parquet(stream: BinaryIO, *, page_checksums: bool = True) -> ParquetSource:
    """A file with the options under which files are read here."""
    tail = read_tail(stream)
    pooled = PooledReads(stream)
    with _readable():
        metadata = pq.read_metadata(pa.BufferReader(tail.data))
        _check_columns(metadata)
        at_once = _largest_row_group(metadata, tail.file_size) <= _MAX_FETCHED_BYTES
        options = _FETCHED_AT_ONCE if at_once else _PAGE_BY_PAGE
        file = pq.ParquetFile(pooled, metadata=metadata, page_checksum_verification=page_checksums, **options)
    return ParquetSource(file, tail)


def _check_columns(metadata: pq.FileMetaData) -> None:
    for number in range(metadata.num_row_groups):
        found = metadata.row_group(number).num_columns
        if found != metadata.num_columns:
            raise CorruptFile(f"row group {number} has {found} columns, the schema {metadata.num_columns}")


def _largest_row_group(metadata: pq.FileMetaData, file_size: int) -> int:
    """About how many bytes of the file a row group has at most: its share, by what it has when decompressed."""
    if file_size <= _MAX_FETCHED_BYTES:
        return file_size
    sizes = [max(metadata.row_group(n).total_byte_size, 0) for n in range(metadata.num_row_groups)]
    return int(file_size * max(sizes, default=0) // max(sum(sizes), 1))


@contextmanager
def _readable() -> Iterator[None]:
    """What pyarrow cannot read is corrupt; errors of the storage pass."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # names of columns may be no UTF-8
        hint = _CHECKSUM_HINT if "checksum" in str(error) else None
        raise CorruptFile(f"the Parquet file cannot be read: {str(error)[:300]}", hint=hint) from None


class _File:
    def __init__(self, request: ReadRequest, source: ParquetSource) -> None:
        self.request = request
        self.source = source
        self.file = source.file
        with _readable():
            self.schema = self.file.schema_arrow
        self.metadata = self.file.metadata
        self._check_counts()
        self.projection = Projection(request, file_fields(self.schema))

    def _check_counts(self) -> None:
        metadata, told = self.metadata, self.request.record_count
        groups = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
        if min(groups, default=0) < 0 or sum(groups) != metadata.num_rows:
            raise CorruptFile(f"the footer counts {metadata.num_rows} rows, its row groups {sum(groups)}")
        if told is not None and told >= 0 and told != metadata.num_rows:
            raise CorruptFile(f"the file has {metadata.num_rows} rows, the manifest says {told}")
        leaves = sum(map(_leaf_count, self.schema))
        if leaves != metadata.num_columns:
            raise CorruptFile(f"the footer tells {metadata.num_columns} columns, its schema {leaves}")

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self.projection.reads_nothing:
            return
        yield from self.projection.batches(self._stored(self._chosen()))

    def _chosen(self) -> Sequence[int]:
        """The row groups that are read."""
        every, split = range(self.metadata.num_row_groups), self.request.split
        part = split if split is not None and (split[0] or split[1] < self.source.tail.file_size) else None
        columns = self._tested_columns() if self._is_worth_asking() else []
        if part is None and not columns:
            return every
        groups = self.source.row_groups({column.leaf for column in columns})
        chosen = every if part is None else in_split(groups, part, self.source.tail.file_size)
        return matching(groups, chosen, self.projection.filter, columns) if columns else chosen

    def _is_worth_asking(self) -> bool:
        """Whether statistics may save more than it takes to read them; those of a whole file were asked by the plan."""
        tail = self.source.tail
        return self.metadata.num_row_groups > 1 or tail.file_size > _WORTH_ASKING * len(tail.data)

    def _stored(self, groups: Sequence[int]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The selected columns of some row groups, with the position of each batch's first row."""
        first = [0]
        for n in range(self.metadata.num_row_groups):
            first.append(first[-1] + self.metadata.row_group(n).num_rows)
        leaves = list(_selected_leaves(list(self.schema), self.projection.selection))
        for run in runs(self.metadata, groups):
            position, end = first[run[0]], first[run[-1] + 1]
            for batch in self._read(run, leaves, end - position):
                yield position, batch
                position += batch.num_rows
            if position != end:
                raise CorruptFile(
                    f"row groups {run[0]} to {run[-1]} have {end - first[run[0]]} rows by the footer, "
                    f"but {position - first[run[0]]} were found"
                )

    def _read(self, run: list[int], leaves: list[int], count: int) -> Iterator[pa.RecordBatch]:
        size = self.request.batch_size
        if not leaves:
            for start in range(0, count, size):
                yield rows_without_columns(min(size, count - start))
            return
        batches = self.file.reader.iter_batches(size, row_groups=run, column_indices=leaves, use_threads=True)
        while True:
            with _readable():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _tested_columns(self) -> list[TestedColumn]:
        """Those columns of values that the filter tests, of which the footer may have statistics."""
        found = []
        for field_id, (path, column) in self.projection.tested_columns().items():
            if column.stored is not None and column.kind != "variant":
                leaf, type_ = leaf_at(list(self.schema), path)
                physical = self.file.schema.column(leaf).physical_type
                if physical != "INT96":  # its order is not that of the moments
                    found.append(TestedColumn(field_id, leaf, column.stored, type_, physical))
        return found


# columns of values ----------------------------------------------------------------------------------------------------


def _leaf_count(field: pa.Field) -> int:
    children = stored_children(value_type(field.type))
    return 1 if children is None else sum(map(_leaf_count, children))


def _selected_leaves(fields: Sequence[pa.Field], selection: Selection, start: int = 0) -> Iterator[int]:
    """The places of the columns of values that a selection takes; nested columns are stored as what they hold."""
    for place, field in enumerate(fields):
        count = _leaf_count(field)
        inside = EVERYTHING if selection.children is None else selection.children.get(place)
        if inside is not None:
            children = stored_children(value_type(field.type))
            if children is None or inside.children is None:
                yield from range(start, start + count)
            else:
                yield from _selected_leaves(children, inside, start)
        start += count


def leaf_at(fields: Sequence[pa.Field], path: Sequence[int]) -> tuple[int, pa.DataType]:
    """The place of the column of values at the end of a path through structs, and its type."""
    leaf = 0
    for depth, place in enumerate(path):
        leaf += sum(map(_leaf_count, fields[:place]))
        field = fields[place]
        if depth + 1 < len(path):
            fields = stored_children(value_type(field.type)) or []
    return leaf, field.type


# The metrics of a Parquet file that somebody else wrote, found from its footer alone.


def footer_metrics(
    source: ParquetSource, sources: Sequence[ColumnSource], config: MetricsConfig
) -> tuple[Metrics, Written]:
    """The metrics of the columns that a table finds in a file, and the sizes and places that a manifest tells."""
    file, rows = source.file, source.file.metadata.num_rows
    columns = []
    for path, one in _stored(sources, ()):
        leaf, type_ = leaf_at(list(file.schema_arrow), path)
        if one.column.stored is not None and config.mode(one.field.id).counts:
            physical = file.schema.column(leaf).physical_type
            columns.append(TestedColumn(one.field.id, leaf, one.column.stored, type_, physical))
    groups = source.row_groups([column.leaf for column in columns])
    facts = [facts_of(group, columns) for group in groups]
    found = Metrics(rows, {}, {}, {}, {}, {})
    sizes: dict[int, int] = {}
    for column in columns:
        field_id = column.field_id
        sizes[field_id] = sum(group.columns[column.leaf].size for group in groups)
        if all(field_id in one.null_value_counts for one in facts):
            found.value_counts[field_id] = rows
            found.null_value_counts[field_id] = sum(one.null_value_counts[field_id] for one in facts)
        if column.physical != "INT96" and config.mode(field_id).bounds:
            _add_bounds(found, column, facts, config.mode(field_id).length)
    return found, Written(source.tail.file_size, sizes or None, tuple(group.start for group in groups) or None)


def _stored(sources: Sequence[ColumnSource], path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], FromFile]]:
    """The columns of values outside of lists and maps, with the way to them in the file."""
    for source in sources:
        if not isinstance(source, FromFile):
            continue
        inside = (*path, source.position)
        if source.field.type.kind == "struct":
            yield from _stored(source.children, inside)
        elif not source.field.type.is_nested and source.field.type.kind != "variant":
            yield inside, source


def _add_bounds(found: Metrics, column: TestedColumn, facts: Sequence[GroupFacts], length: int | None) -> None:
    """The lowest and highest bound, if every row group with values has both."""
    field_id, type_ = column.field_id, column.stored
    if type_.kind in ("geometry", "geography", "unknown"):
        return
    with_values = [
        one
        for one in facts
        if one.record_count > one.null_value_counts.get(field_id, 0) or field_id in one.lower_bounds
    ]
    if not with_values or any(
        field_id not in one.lower_bounds or field_id not in one.upper_bounds for one in with_values
    ):
        return
    key = sort_key(type_)
    lower = min((decode(type_, one.lower_bounds[field_id]) for one in with_values), key=key)
    upper = max((decode(type_, one.upper_bounds[field_id]) for one in with_values), key=key)
    if lower != lower or upper != upper:  # NaN, which some writers leave there
        return
    if type_.kind in ("float", "double"):  # zeros of either sign may have been mixed up (Parquet: Statistics)
        lower, upper = (-0.0 if lower == 0 else lower), (0.0 if upper == 0 else upper)
    if length is not None:
        lower, upper = truncate_lower(type_, lower, length), truncate_upper(type_, upper, length)
    found.lower_bounds[field_id] = encode(type_, lower)
    if upper is not None:
        found.upper_bounds[field_id] = encode(type_, upper)
