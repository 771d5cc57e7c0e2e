"""Parquet files read into Arrow batches: the columns, row groups and rows that were asked for, and no others.

Pages that have a checksum are verified, unless the table's property `read.parquet.page-checksum-verification.enabled`
is false.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from floe.errors import CorruptFile, FloeError
from floe.formats.file_columns import EVERYTHING, Selection, file_fields, stored_children, value_type
from floe.formats.model import ReadRequest, plain_storage_to_read
from floe.formats.parquet.footer import RowGroup, Tail, read_row_groups, read_tail
from floe.formats.parquet.options import known_options
from floe.formats.parquet.row_groups import TestedColumn, in_split, matching, runs
from floe.formats.pooled_reads import PooledReads
from floe.formats.projection import Projection, rows_without_columns
from floe.spec.metadata.properties import boolean_property
from floe.spec.schemas.schema_fields import MAX_TYPE_DEPTH

__all__ = ["ParquetSource", "leaf_at", "open_parquet", "read_parquet", "verifies_page_checksums"]

PAGE_CHECKSUMS = "read.parquet.page-checksum-verification.enabled"

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

    >>> verifies_page_checksums({}), verifies_page_checksums({PAGE_CHECKSUMS: "false"})
    (True, False)
    """
    return boolean_property(properties, PAGE_CHECKSUMS, default=True)


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
