"""Avro data files read into Arrow batches, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from floe.avro.lanes import Declined
from floe.avro.records import skipper
from floe.avro.schemas import Node, layout_of
from floe.errors import CorruptFile, FloeError, InvalidMetadata
from floe.formats.avro_data.blocks import AvroHeader, decompressed, read_blocks, read_header
from floe.formats.avro_data.gathering import gatherer
from floe.formats.avro_data.together import LANES_AT_LEAST, together
from floe.formats.file_columns import EVERYTHING
from floe.formats.model import ReadRequest, plain_storage_to_read
from floe.formats.projection import Projection, rows_without_columns
from floe.spec.codecs.avro_reading import avro_file_fields, parse_avro_schema
from floe.spec.schemas.file_fields import FileField
from floe.spec.schemas.metadata_columns import POS, ROW_ID

__all__ = ["read_avro"]

_BYTES_AT_ONCE, _ROWS_AT_ONCE = 16 * 2**20, 2**19
"""How many bytes of blocks, or rows in them, are decoded together."""

_MAX_EMPTY_ROWS = 2**20
"""How many rows a block may have whose rows take no bytes."""


def read_avro(request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """The batches of an Avro file that answer a request."""
    with plain_storage_to_read(request).open_read(request.location) as stream:
        try:
            yield from _File(request, stream).batches()
        except InvalidMetadata as error:
            raise CorruptFile(f"the schema of the Avro file: {error.message}", file=request.location) from None
        except FloeError as error:
            raise error.with_context(file=request.location) from None


class _Opened(NamedTuple):
    """A block, decompressed."""

    first_row: int
    rows: int
    content: bytes


class _File:
    def __init__(self, request: ReadRequest, stream: BinaryIO) -> None:
        self.request = request
        self.stream = stream
        self.header: AvroHeader = read_header(stream)
        schema = parse_avro_schema(self.header.schema_text)
        self.columns: tuple[FileField, ...] = avro_file_fields(schema)
        self.layout: Node = layout_of(schema)
        self.projection = Projection(request, self.columns)
        self._rows = _Rows(self.layout, self.columns, self.projection)

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self.projection.reads_nothing:
            return
        yield from self.projection.batches(self._stored())

    def _stored(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The selected columns, in batches with the position of their first row."""
        told, split = self.request.record_count, self.request.split
        total = size = rows = 0
        waiting: list[_Opened] = []
        for block in read_blocks(self.stream, self.header, split, positions=self._needs_positions()):
            total += block.count
            if split is None and told is not None and 0 <= told < total:
                raise CorruptFile(f"the file has {total} rows or more, the manifest says {told}")
            content = decompressed(self.header, block, self.layout.smallest, _MAX_EMPTY_ROWS)
            waiting.append(_Opened(block.first_row, block.count, content))
            size, rows = size + len(content), rows + block.count
            if size >= _BYTES_AT_ONCE or rows >= _ROWS_AT_ONCE:
                yield from self._batches(waiting)
                waiting, size, rows = [], 0, 0
        yield from self._batches(waiting)
        if split is None and told is not None and told >= 0 and told != total:
            raise CorruptFile(f"the file has {total} rows, the manifest says {told}")

    def _batches(self, blocks: list[_Opened]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of some blocks that follow each other: all at once where that can be, else row by row."""
        rows = self._rows
        if rows.together is not None and len(blocks) >= LANES_AT_LEAST:
            try:
                arrays = rows.together.columns([one.content for one in blocks], [one.rows for one in blocks])
            except Declined:
                pass
            else:
                count = sum(one.rows for one in blocks)
                yield blocks[0].first_row, rows.of(arrays, count)
                return
        size = self.request.batch_size
        first = 0
        for block in blocks:
            if not rows.count:
                first = block.first_row
            at, left = 0, block.rows
            while left:
                taken = min(left, size - rows.count)
                at = rows.take(block.content, at, taken)
                left -= taken
                if rows.count >= size:
                    yield first, rows.batch()
                    first = block.first_row + block.rows - left
            if at != len(block.content):
                raise CorruptFile(f"{len(block.content) - at} bytes follow the last row of a block")
        if rows.count:
            yield first, rows.batch()

    def _needs_positions(self) -> bool:
        return any(field.id in (POS.id, ROW_ID.id) for field in self.request.schema.fields)


class _Rows:
    """Rows taken from blocks until they make a batch."""

    def __init__(self, layout: Node, columns: Sequence[FileField], projection: Projection) -> None:
        selection = projection.selection
        places = selection.places(len(columns))
        children = selection.children or {}
        self.names = [columns[place].name for place in places]
        self.columns = [
            gatherer(layout.fields[place].node, columns[place], children.get(place, EVERYTHING)) for place in places
        ]
        chosen = dict(zip(places, self.columns, strict=True))
        self.steps = [
            chosen[place].take if place in chosen else skipper(child.node) for place, child in enumerate(layout.fields)
        ]
        self.count = 0
        self.together = together(layout, columns, places) if places else None

    def take(self, content: bytes, at: int, count: int) -> int:
        """Take that many rows; the place behind them."""
        steps = self.steps
        try:
            for _ in range(count):
                for step in steps:
                    at = step(content, at)
                if at > len(content):
                    raise CorruptFile("a row goes beyond its block", position=at)
        except IndexError:
            raise CorruptFile("a row goes beyond its block", position=at) from None
        self.count += count
        return at

    def of(self, arrays: list[pa.Array], count: int) -> pa.RecordBatch:
        """A batch of columns that were decoded elsewhere."""
        if not arrays:
            return rows_without_columns(count)
        return pa.RecordBatch.from_arrays(arrays, names=self.names)

    def batch(self) -> pa.RecordBatch:
        """What was taken since the last time."""
        count, self.count = self.count, 0
        arrays = []
        for name, column in zip(self.names, self.columns, strict=True):
            try:
                arrays.append(column.array())
            except FloeError as error:
                raise error.with_context(column=name) from None
        return self.of(arrays, count)
