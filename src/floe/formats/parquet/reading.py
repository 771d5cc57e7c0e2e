"""Parquet files read into Arrow batches: the columns, row groups and rows that were asked for, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from floe.errors import CorruptFile, FloeError
from floe.formats.file_columns import EVERYTHING, Selection, file_fields, stored_children, value_type
from floe.formats.model import ReadRequest, plain_storage_to_read
from floe.formats.parquet.options import known_options
from floe.formats.parquet.row_groups import TestedColumn, in_split, matching, runs
from floe.formats.pooled_reads import PooledReads
from floe.formats.projection import Projection, rows_without_columns
from floe.spec.schemas.schema_fields import MAX_TYPE_DEPTH

__all__ = ["leaf_at", "open_parquet", "read_parquet"]

_OPTIONS = {
    "coerce_int96_timestamp_unit": "us",  # nanoseconds reach only from 1677 to 2262
    "arrow_extensions_enabled": False,
    "schema_depth_limit": 3 * MAX_TYPE_DEPTH,  # lists and maps take up to three levels each
}

_MAX_FETCHED_BYTES = 64 * 2**20
"""Row groups up to this size are fetched at once; larger ones a few pages of each column at a time."""

_FETCHED_AT_ONCE = known_options(pq.ParquetFile.__init__, {**_OPTIONS, "pre_buffer": True})
_PAGE_BY_PAGE = known_options(pq.ParquetFile.__init__, {**_OPTIONS, "pre_buffer": False, "buffer_size": 2**21})


def read_parquet(request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """The batches of a Parquet file that answer a request."""
    with plain_storage_to_read(request).open_read(request.location) as stream:
        try:
            with _readable():
                opened = _File(request, open_parquet(stream))
            yield from opened.batches()
        except FloeError as error:
            raise error.with_context(file=request.location) from None


def open_parquet(stream: BinaryIO) -> pq.ParquetFile:
    """Pyarrow's reader of a file, with the options under which files are read here."""
    pooled = PooledReads(stream)
    file = pq.ParquetFile(pooled, **_FETCHED_AT_ONCE)
    if _largest_row_group(file.metadata) <= _MAX_FETCHED_BYTES:
        return file
    return pq.ParquetFile(pooled, metadata=file.metadata, **_PAGE_BY_PAGE)


def _largest_row_group(metadata: pq.FileMetaData) -> int:
    """How many bytes the columns of a row group have in the file, at most."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    sizes = (sum(group.column(n).total_compressed_size for n in range(group.num_columns)) for group in groups)
    return max(sizes, default=0)


@contextmanager
def _readable() -> Iterator[None]:
    """What pyarrow cannot read is corrupt; errors of the storage pass."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # names of columns may be no UTF-8
        raise CorruptFile(f"the Parquet file cannot be read: {str(error)[:300]}") from None


class _File:
    def __init__(self, request: ReadRequest, file: pq.ParquetFile) -> None:
        self.request = request
        self.file = file
        self.schema = file.schema_arrow
        self.metadata = file.metadata
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
        chosen = matching(
            self.metadata,
            in_split(self.metadata, self.request.split),
            self.projection.filter,
            self._tested_columns(),
        )
        yield from self.projection.batches(self._stored(chosen))

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
                if self.file.schema.column(leaf).physical_type != "INT96":  # its order is not that of the moments
                    found.append(TestedColumn(field_id, leaf, column.stored, type_))
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
