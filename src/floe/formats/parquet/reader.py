"""Parquet files read as Arrow batches: only the requested columns, row groups and rows.

Row groups are selected by a split, and by a filter on the statistics in the footer (`floe.formats.parquet.footer`).
pyarrow reads their rows, into Arrow's memory pool (`PooledReads`), and verifies the checksums of pages, unless the
table's property `read.parquet.page-checksum-verification.enabled` is false. `footer_metrics` computes the metrics of a
file that another engine wrote, from its footer alone.
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
from floe.formats.appender import WrittenFile
from floe.formats.columns.file_columns import EVERYTHING, Selection, child_fields, file_fields, value_type
from floe.formats.columns.projection import Projection, rows_without_columns
from floe.formats.metrics import Metrics, MetricsConfig
from floe.formats.model import ReadRequest, plain_storage_to_read
from floe.formats.parquet.footer import RowGroup, Tail, read_row_groups, read_tail
from floe.formats.parquet.writer_options import supported_options
from floe.spec.codecs.single_value import decode, encode, truncate_lower, truncate_upper
from floe.spec.expressions.nodes import Expression
from floe.spec.properties import PAGE_CHECKSUMS
from floe.spec.pruning.metrics_evaluation import files_might_match, gather_stats
from floe.spec.schemas.column_projection import ColumnSource, FromFile
from floe.spec.schemas.schema import MAX_TYPE_DEPTH
from floe.spec.types import DecimalType, Type
from floe.spec.values.exact_numbers import decimal_from_unscaled
from floe.spec.values.value_order import sort_key

# Selection of row groups ----------------------------------------------------------------------------------------------

_MAX_RUN_BYTES = 32 * 1024 * 1024
"""Row groups are read together up to this size: small ones cost little, large ones are not all in memory."""

_PLAIN = {
    "BOOLEAN": struct.Struct("<?"),
    "INT32": struct.Struct("<i"),
    "INT64": struct.Struct("<q"),
    "FLOAT": struct.Struct("<f"),
    "DOUBLE": struct.Struct("<d"),
}
"""The plain encoding of the physical types of fixed width; all others are bytes."""


def row_groups_in_split(groups: Sequence[RowGroup], split: tuple[int, int], file_size: int) -> list[int]:
    """The indices of the row groups whose middle lies in a range of bytes, the convention of all Parquet readers.

    So each row group belongs to exactly one of the splits that cover a file. Raises `CorruptFile` for a row group
    outside of the file.
    """
    start, end = split[0], split[0] + split[1]
    chosen = []
    for number, group in enumerate(groups):
        middle = group.start + group.size // 2
        if not 0 <= middle <= file_size:  # it would be in no split, so its rows would be lost
            raise CorruptFile(f"row group {number} has its middle at byte {middle} of a file of {file_size} bytes")
        if start <= middle < end:
            chosen.append(number)
    return chosen


def contiguous_runs(metadata: pq.FileMetaData, groups: Iterable[int]) -> Iterator[list[int]]:
    """Group row groups into runs without gaps, each small enough to be read at once."""
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


@dataclass(frozen=True, slots=True)
class StatisticsColumn:
    """A leaf column of the file whose statistics are read."""

    field_id: int
    leaf: int
    """The index among the leaf columns of the file."""

    stored: Type
    arrow: pa.DataType
    physical: str
    """The physical type: `INT32`, `BYTE_ARRAY`, …"""


@dataclass(frozen=True, slots=True)
class RowGroupMetrics:
    """Counts and bounds of columns in a row group by field id, in the form of the metrics of a file."""

    record_count: int
    value_counts: Mapping[int, int]
    null_value_counts: Mapping[int, int]
    nan_value_counts: Mapping[int, int] | None
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]


def matching_row_groups(
    groups: Sequence[RowGroup], chosen: Sequence[int], where: Expression, columns: Sequence[StatisticsColumn]
) -> list[int]:
    """The chosen row groups that may have a row which matches a bound filter, according to their statistics."""
    stats = gather_stats([row_group_metrics(groups[n], columns) for n in chosen], where)
    return [n for n, might_match in zip(chosen, files_might_match(where, stats).tolist(), strict=True) if might_match]


def row_group_metrics(group: RowGroup, columns: Sequence[StatisticsColumn]) -> RowGroupMetrics:
    """The metrics of some columns of a row group, from the statistics in the footer."""
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
    return RowGroupMetrics(group.rows, values, nulls, None, lower, upper)


def _bound(column: StatisticsColumn, raw: bytes) -> bytes | None:
    """A bound in the single-value encoding, or None where its meaning is not certain."""
    stored = column.stored
    if pa.types.is_unsigned_integer(column.arrow) or pa.types.is_float16(column.arrow):
        return None
    plain = _PLAIN.get(column.physical)
    try:
        return encode(stored, _value(stored, column.arrow, raw if plain is None else plain.unpack(raw)[0]))
    except (FloeError, TypeError, ValueError, OverflowError, struct.error):
        return None  # without bounds the row group is read, which is always correct


def _value(stored: Type, arrow: pa.DataType, raw: Any) -> Any:
    if isinstance(stored, DecimalType):
        unscaled = raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)
        return decimal_from_unscaled(unscaled, stored.scale)
    if stored.kind == "string":
        return raw.decode() if isinstance(raw, bytes) else raw
    if (pa.types.is_time(arrow) or pa.types.is_timestamp(arrow)) and arrow.unit == "ms":
        return raw * 1000
    if pa.types.is_timestamp(arrow) and arrow.unit == "s":
        return None  # Parquet has no seconds: Arrow's type differs from the stored unit
    if stored.kind == "uuid":
        return None
    return raw


# Reads into Arrow's memory pool ---------------------------------------------------------------------------------------

_POOLED_BYTES = 2**16
"""Reads of at least this size go into the pool."""


class PooledReads:
    """A binary file as pyarrow reads it, with large reads into Arrow's memory pool.

    Blocks of many megabytes that are allocated as Python bytes would stay with the C library's allocator, in a heap of
    each thread that ever read; Arrow's pool reuses them.

    >>> import io
    >>> file = PooledReads(io.BytesIO(b"abc" * 100_000))
    >>> len(file.read(200_000)), len(file.read(200_000)), file.tell()
    (200000, 100000, 300000)
    """

    mode = "rb"

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int | None = -1) -> Any:
        """Read up to `size` bytes: as a buffer of the pool, or as bytes if they are few."""
        if size is None or size < _POOLED_BYTES or not hasattr(self._file, "readinto"):
            return self._file.read(-1 if size is None else size)
        buffer = pa.allocate_buffer(size)
        view, filled = memoryview(buffer), 0
        while filled < size and (more := self._file.readinto(view[filled:])):
            filled += more
        return buffer if filled == size else buffer.slice(0, filled)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to an offset, and return it."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """The current offset."""
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._file.closed

    def readable(self) -> bool:
        """Whether pyarrow may read: always."""
        return True

    def seekable(self) -> bool:
        """Whether pyarrow may seek: always."""
        return True

    def writable(self) -> bool:
        """Whether pyarrow may write: never."""
        return False


# Reader ---------------------------------------------------------------------------------------------------------------

_OPTIONS = {
    "coerce_int96_timestamp_unit": "us",  # nanoseconds only range from 1677 to 2262
    "arrow_extensions_enabled": False,
    "schema_depth_limit": 3 * MAX_TYPE_DEPTH,  # lists and maps take up to three levels each
}

_MAX_FETCHED_BYTES = 64 * 2**20
"""Row groups up to this size are fetched at once, larger ones a few pages of each column at a time."""

_CHECKSUM_HINT = (
    "the file changed after it was written: restore a copy of it, or read it anyway with the table property "
    f"{PAGE_CHECKSUMS} set to false"
)

_MIN_FOOTER_RATIO = 64
"""Of files with one row group, only those this many times as large as their footer are pruned by statistics."""

_BUFFERED_OPTIONS = supported_options(pq.ParquetFile.__init__, {**_OPTIONS, "pre_buffer": True})
_STREAMING_OPTIONS = supported_options(pq.ParquetFile.__init__, {**_OPTIONS, "pre_buffer": False, "buffer_size": 2**21})


def read_parquet(request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Read the requested rows and columns of a Parquet file; raises `CorruptFile` if it is damaged."""
    with plain_storage_to_read(request).open_read(request.location) as stream:
        try:
            source = open_parquet(stream, page_checksums=verifies_page_checksums(request.properties))
            yield from _ParquetReader(request, source).batches()
        except FloeError as error:
            raise error.with_context(file=request.location) from None


@dataclass(frozen=True, slots=True)
class ParquetSource:
    """An open file: pyarrow's reader of its rows, and its footer.

    Never use the reader's metadata of columns, which may abort the process (see `floe.formats.parquet.footer`).
    """

    file: pq.ParquetFile
    tail: Tail

    def row_groups(self, leaves: Collection[int] = ()) -> list[RowGroup]:
        """The row groups in the footer, with the leaf columns at some indices; raises `CorruptFile` if invalid."""
        groups = read_row_groups(self.tail.footer, leaves)
        if len(groups) != self.file.metadata.num_row_groups:
            raise CorruptFile("the footer of the Parquet file has duplicate fields")
        size = self.tail.file_size
        for number, group in enumerate(groups):
            if not (0 <= group.start <= size and 0 <= group.size <= size):
                raise CorruptFile(
                    f"row group {number} has {group.size} bytes at offset {group.start}, the file has {size}"
                )
        return groups


def verifies_page_checksums(properties: Mapping[str, str]) -> bool:
    """Whether the properties of a table enable the verification of page checksums.

    >>> verifies_page_checksums({}), verifies_page_checksums({PAGE_CHECKSUMS.name: "false"})
    (True, False)
    """
    return PAGE_CHECKSUMS.read(properties)


def open_parquet(stream: BinaryIO, *, page_checksums: bool = True) -> ParquetSource:
    """Open a Parquet file with the options of this reader; raises `CorruptFile` if its footer is damaged."""
    tail = read_tail(stream)
    pooled = PooledReads(stream)
    with _corrupt_file_errors():
        metadata = pq.read_metadata(pa.BufferReader(tail.data))
        _check_columns(metadata)
        at_once = _largest_row_group(metadata, tail.file_size) <= _MAX_FETCHED_BYTES
        options = _BUFFERED_OPTIONS if at_once else _STREAMING_OPTIONS
        file = pq.ParquetFile(pooled, metadata=metadata, page_checksum_verification=page_checksums, **options)
    return ParquetSource(file, tail)


def _check_columns(metadata: pq.FileMetaData) -> None:
    for number in range(metadata.num_row_groups):
        count = metadata.row_group(number).num_columns
        if count != metadata.num_columns:
            raise CorruptFile(f"row group {number} has {count} columns, the schema {metadata.num_columns}")


def _largest_row_group(metadata: pq.FileMetaData, file_size: int) -> int:
    """The approximate size of the largest row group: the file's size, divided in proportion to uncompressed sizes."""
    if file_size <= _MAX_FETCHED_BYTES:
        return file_size
    sizes = [max(metadata.row_group(n).total_byte_size, 0) for n in range(metadata.num_row_groups)]
    return int(file_size * max(sizes, default=0) // max(sum(sizes), 1))


@contextmanager
def _corrupt_file_errors() -> Iterator[None]:
    """Turn errors of pyarrow into `CorruptFile`."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # names of columns may not be UTF-8
        hint = _CHECKSUM_HINT if "checksum" in str(error) else None
        raise CorruptFile(f"the Parquet file cannot be read: {str(error)[:300]}", hint=hint) from None


class _ParquetReader:
    def __init__(self, request: ReadRequest, source: ParquetSource) -> None:
        self.request = request
        self.source = source
        self.file = source.file
        with _corrupt_file_errors():
            self.schema = self.file.schema_arrow
        self.metadata = self.file.metadata
        self._check_counts()
        self.projection = Projection(request, file_fields(self.schema))

    def _check_counts(self) -> None:
        metadata, expected = self.metadata, self.request.record_count
        groups = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
        if min(groups, default=0) < 0 or sum(groups) != metadata.num_rows:
            raise CorruptFile(f"the footer counts {metadata.num_rows} rows, its row groups {sum(groups)}")
        if expected is not None and expected >= 0 and expected != metadata.num_rows:
            raise CorruptFile(f"the file has {metadata.num_rows} rows, the manifest says {expected}")
        leaves = sum(map(_leaf_count, self.schema))
        if leaves != metadata.num_columns:
            raise CorruptFile(f"the footer has {metadata.num_columns} columns, its schema {leaves}")

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self.projection.reads_nothing:
            return
        yield from self.projection.batches(self._read_groups(self._choose_row_groups()))

    def _choose_row_groups(self) -> Sequence[int]:
        """The row groups to read: those in the split that may match the filter."""
        every, split = range(self.metadata.num_row_groups), self.request.split
        part = split if split is not None and (split[0] or split[1] < self.source.tail.file_size) else None
        columns = self._statistics_columns() if self._statistics_pay_off() else []
        if part is None and not columns:
            return every
        groups = self.source.row_groups({column.leaf for column in columns})
        chosen = every if part is None else row_groups_in_split(groups, part, self.source.tail.file_size)
        return matching_row_groups(groups, chosen, self.projection.filter, columns) if columns else chosen

    def _statistics_pay_off(self) -> bool:
        """Whether statistics may save more than reading them costs.

        The bounds of a file with one row group were evaluated by the plan.
        """
        tail = self.source.tail
        return self.metadata.num_row_groups > 1 or tail.file_size > _MIN_FOOTER_RATIO * len(tail.data)

    def _read_groups(self, groups: Sequence[int]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches of the selected columns of some row groups, with the position of their first row."""
        first_rows = [0]
        for n in range(self.metadata.num_row_groups):
            first_rows.append(first_rows[-1] + self.metadata.row_group(n).num_rows)
        leaves = list(_selected_leaves(list(self.schema), self.projection.selection))
        for run in contiguous_runs(self.metadata, groups):
            position, end = first_rows[run[0]], first_rows[run[-1] + 1]
            for batch in self._read_run(run, leaves, end - position):
                yield position, batch
                position += batch.num_rows
            if position != end:
                raise CorruptFile(
                    f"row groups {run[0]} to {run[-1]} have {end - first_rows[run[0]]} rows by the footer, "
                    f"but {position - first_rows[run[0]]} were found"
                )

    def _read_run(self, run: list[int], leaves: list[int], count: int) -> Iterator[pa.RecordBatch]:
        size = self.request.batch_size
        if not leaves:
            for start in range(0, count, size):
                yield rows_without_columns(min(size, count - start))
            return
        batches = self.file.reader.iter_batches(size, row_groups=run, column_indices=leaves, use_threads=True)
        while True:
            with _corrupt_file_errors():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _statistics_columns(self) -> list[StatisticsColumn]:
        """The leaf columns that the filter refers to and the footer may have statistics of."""
        columns = []
        for field_id, (path, column) in self.projection.filtered_columns().items():
            if column.stored is not None and column.kind != "variant":
                leaf, type_ = find_leaf(list(self.schema), path)
                physical = self.file.schema.column(leaf).physical_type
                if physical != "INT96":  # its statistics are not ordered by time
                    columns.append(StatisticsColumn(field_id, leaf, column.stored, type_, physical))
        return columns


# Leaf columns ---------------------------------------------------------------------------------------------------------


def _leaf_count(field: pa.Field) -> int:
    children = child_fields(value_type(field.type))
    return 1 if children is None else sum(map(_leaf_count, children))


def _selected_leaves(fields: Sequence[pa.Field], selection: Selection, start: int = 0) -> Iterator[int]:
    """The indices of the leaf columns in a selection: nested columns are stored as their leaves."""
    for index, field in enumerate(fields):
        count = _leaf_count(field)
        child_selection = EVERYTHING if selection.children is None else selection.children.get(index)
        if child_selection is not None:
            children = child_fields(value_type(field.type))
            if children is None or child_selection.children is None:
                yield from range(start, start + count)
            else:
                yield from _selected_leaves(children, child_selection, start)
        start += count


def find_leaf(fields: Sequence[pa.Field], path: Sequence[int]) -> tuple[int, pa.DataType]:
    """The index of the leaf column at the end of a path through structs, and its type."""
    leaf = 0
    for depth, index in enumerate(path):
        leaf += sum(map(_leaf_count, fields[:index]))
        field = fields[index]
        if depth + 1 < len(path):
            fields = child_fields(value_type(field.type)) or []
    return leaf, field.type


# Metrics of existing files --------------------------------------------------------------------------------------------


def footer_metrics(
    source: ParquetSource, sources: Sequence[ColumnSource], config: MetricsConfig
) -> tuple[Metrics, WrittenFile]:
    """The metrics, sizes and split offsets of an existing file, from its footer, for the columns that a table reads.

    A footer has no NaN counts, so they are missing. Bounds are those of the statistics, which may be truncated but are
    valid. Columns whose statistics have another meaning (INT96 timestamps, unsigned integers) have no bounds.
    """
    file, rows = source.file, source.file.metadata.num_rows
    columns = []
    for path, stored in _leaf_sources(sources, ()):
        leaf, type_ = find_leaf(list(file.schema_arrow), path)
        if stored.column.stored is not None and config.mode(stored.field.id).counts:
            physical = file.schema.column(leaf).physical_type
            columns.append(StatisticsColumn(stored.field.id, leaf, stored.column.stored, type_, physical))
    groups = source.row_groups([column.leaf for column in columns])
    group_metrics = [row_group_metrics(group, columns) for group in groups]
    metrics = Metrics(rows, {}, {}, {}, {}, {})
    sizes: dict[int, int] = {}
    for column in columns:
        field_id = column.field_id
        sizes[field_id] = sum(group.columns[column.leaf].size for group in groups)
        if all(field_id in group.null_value_counts for group in group_metrics):
            metrics.value_counts[field_id] = rows
            metrics.null_value_counts[field_id] = sum(group.null_value_counts[field_id] for group in group_metrics)
        if column.physical != "INT96" and config.mode(field_id).bounds:
            _add_bounds(metrics, column, group_metrics, config.mode(field_id).length)
    return metrics, WrittenFile(source.tail.file_size, sizes or None, tuple(group.start for group in groups) or None)


def _leaf_sources(sources: Sequence[ColumnSource], path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], FromFile]]:
    """The leaf columns outside of lists and maps, with their path of indices in the file."""
    for source in sources:
        if not isinstance(source, FromFile):
            continue
        column_path = (*path, source.position)
        if source.field.type.kind == "struct":
            yield from _leaf_sources(source.children, column_path)
        elif not source.field.type.is_nested and source.field.type.kind != "variant":
            yield column_path, source


def _add_bounds(
    metrics: Metrics, column: StatisticsColumn, groups: Sequence[RowGroupMetrics], length: int | None
) -> None:
    """Add the bounds of a column, if every row group with values has both."""
    field_id, type_ = column.field_id, column.stored
    if type_.kind in ("geometry", "geography", "unknown"):
        return
    with_values = [
        group
        for group in groups
        if group.record_count > group.null_value_counts.get(field_id, 0) or field_id in group.lower_bounds
    ]
    if not with_values or any(
        field_id not in group.lower_bounds or field_id not in group.upper_bounds for group in with_values
    ):
        return
    key = sort_key(type_)
    lower = min((decode(type_, group.lower_bounds[field_id]) for group in with_values), key=key)
    upper = max((decode(type_, group.upper_bounds[field_id]) for group in with_values), key=key)
    if lower != lower or upper != upper:  # NaN, which some writers store
        return
    if type_.kind in ("float", "double"):  # the sign of a zero is not reliable (Parquet: Statistics)
        lower, upper = (-0.0 if lower == 0 else lower), (0.0 if upper == 0 else upper)
    if length is not None:
        lower, upper = truncate_lower(type_, lower, length), truncate_upper(type_, upper, length)
    metrics.lower_bounds[field_id] = encode(type_, lower)
    if upper is not None:
        metrics.upper_bounds[field_id] = encode(type_, upper)
