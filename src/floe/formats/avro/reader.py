"""Avro data files read as Arrow batches, block by block (Avro spec: Object Container Files).

A split has the blocks whose preceding sync marker begins in its range, the convention of all Avro readers, so that each
block belongs to exactly one of the splits that cover a file. A read that does not need the positions of rows searches
for the first marker in its split; one that does walks over the blocks before it.

Blocks of flat rows are decoded together (`floe.formats.avro.block_parallel_decoder`), others row by row
(`floe.formats.avro.column_decoders`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from floe.avro.container import check_codec, decompress
from floe.avro.records import make_skipper, read_byte_string, read_long
from floe.avro.schemas import Node, build_layout
from floe.avro.vector_decoder import UnusualEncoding
from floe.errors import CorruptFile, FloeError, InvalidMetadata
from floe.formats.avro.block_parallel_decoder import MIN_LANES, parallel_decoder
from floe.formats.avro.column_decoders import column_decoder
from floe.formats.columns.file_columns import EVERYTHING
from floe.formats.columns.projection import Projection, rows_without_columns
from floe.formats.model import ReadRequest, plain_storage_to_read
from floe.spec.codecs.avro_schemas import avro_file_fields, parse_avro_schema
from floe.spec.schemas.metadata_columns import POS, ROW_ID
from floe.spec.schemas.name_mapping import FileField

_MAGIC = b"Obj\x01"
_SYNC = 16
_FIRST_READ_BYTES = 64 * 2**10
_MAX_HEADER = 64 * 2**20
_MAX_BLOCK = 512 * 2**20
_MAX_CONTENT = 2**31 - 1
_BLOCK_HEAD = 20
_SEARCH_BYTES = 2**20


# Header and blocks ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AvroHeader:
    """The header of a file; `end` is the offset of its first block."""

    metadata: Mapping[str, bytes]
    codec: str
    sync: bytes
    end: int

    @property
    def schema_text(self) -> bytes:
        """The writer's schema as JSON text."""
        return self.metadata["avro.schema"]


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """A compressed block: its row count, the position of its first row (0 if not requested), and its content."""

    count: int
    first_row: int
    content: bytes


def read_header(stream: BinaryIO) -> AvroHeader:
    """Read the header of a file; raises `CorruptFile` if it is not an Avro file, or its header is too large."""
    size = _FIRST_READ_BYTES
    while True:
        stream.seek(0)
        data = stream.read(size)
        if data[: len(_MAGIC)] != _MAGIC:
            raise CorruptFile("not an Avro file: " + ("it has no Avro header" if data else "it is empty"))
        try:
            return _header(data)
        except CorruptFile:
            if len(data) < size or size >= _MAX_HEADER:
                raise
        size *= 8


def _header(data: bytes) -> AvroHeader:
    metadata: dict[str, bytes] = {}
    offset = len(_MAGIC)
    while True:
        count, offset = read_long(data, offset)
        if count == 0:
            break
        if count < 0:  # comes with a size in bytes
            count = -count
            _, offset = read_long(data, offset)
        if count > len(data) - offset:
            raise CorruptFile(f"the header of the Avro file has {count} entries with {len(data) - offset} bytes left")
        for _ in range(count):
            key, offset = read_byte_string(data, offset)
            metadata[_text(key)], offset = read_byte_string(data, offset)
    sync = data[offset : offset + _SYNC]
    if len(sync) < _SYNC:
        raise CorruptFile("the Avro file is truncated within its header")
    if "avro.schema" not in metadata:
        raise CorruptFile("the header of the Avro file has no avro.schema")
    return AvroHeader(metadata, check_codec(_text(metadata.get("avro.codec", b"null"))), sync, offset + _SYNC)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CorruptFile("a key or codec in the header of the Avro file is not UTF-8") from None


def read_blocks(
    stream: BinaryIO, header: AvroHeader, split: tuple[int, int] | None, *, positions: bool = True
) -> Iterator[StoredBlock]:
    """Read the blocks of a split, or of the whole file; without `positions`, blocks before the split are not read."""
    start, end = (0, None) if split is None else (split[0], split[0] + split[1])
    offset = header.end
    if start > header.end - _SYNC and not positions:
        first_block = _next_marker(stream, header.sync, start)
        if first_block is None:
            return
        offset = first_block
    rows = 0
    while True:
        marker = offset - _SYNC
        if end is not None and marker >= end:
            return
        head = _read_at(stream, offset, _BLOCK_HEAD)
        if not head:
            return
        count, head_end = read_long(head, 0)
        size, head_end = read_long(head, head_end)
        if count < 0 or not 0 <= size <= _MAX_BLOCK:
            raise CorruptFile(f"the Avro file has a block of {count} rows and {size} bytes", position=offset)
        if marker < start:
            marker_after = _read_at(stream, offset + head_end + size, _SYNC)
            content = b""
        else:
            data = _read_at(stream, offset + head_end, size + _SYNC)
            content, marker_after = data[:size], data[size:]
            if len(data) < size + _SYNC:
                raise CorruptFile(
                    f"the Avro file is truncated within a block of {size} bytes: {len(data)} are left", position=offset
                )
        if marker_after != header.sync:
            raise CorruptFile("a block of the Avro file does not end with the sync marker", position=offset)
        if marker >= start:
            yield StoredBlock(count, rows, content)
        rows += count
        offset += head_end + size + _SYNC


def _read_at(stream: BinaryIO, offset: int, size: int) -> bytes:
    stream.seek(offset)
    return stream.read(size)


def _next_marker(stream: BinaryIO, sync: bytes, offset: int) -> int | None:
    """The offset of the block after the first sync marker at or after an offset, or None."""
    stream.seek(offset)
    overlap = b""
    while True:
        data = stream.read(_SEARCH_BYTES)
        if not data:
            return None
        searched = overlap + data
        index = searched.find(sync)
        if index >= 0:
            return offset + index + _SYNC
        overlap = searched[-(_SYNC - 1) :]
        offset += len(searched) - len(overlap)


def decompress_block(header: AvroHeader, block: StoredBlock, smallest_row: int, most_empty: int) -> bytes:
    """Decompress a block; raises `CorruptFile` if it is too small for its rows, or has too many rows of no bytes."""
    content = decompress(header.codec, block.content, _MAX_CONTENT if header.codec == "null" else _max_content(block))
    if block.count * smallest_row > len(content) or (not smallest_row and block.count > most_empty):
        raise CorruptFile(f"the Avro file has a block of {len(content)} bytes with {block.count} rows")
    return content


def _max_content(block: StoredBlock) -> int:
    """The maximum size of a decompressed block, in proportion to its compressed size."""
    return min(_MAX_BLOCK, 64 * 2**20 + 64 * len(block.content))


# Rows -----------------------------------------------------------------------------------------------------------------

_DECODED_BYTES, _DECODED_ROWS = 16 * 2**20, 2**19
"""Blocks are decoded together when they have this many bytes, or rows."""

_MAX_EMPTY_ROWS = 2**20
"""The maximum rows of a block whose rows take no bytes."""


def read_avro(request: ReadRequest) -> Iterator[pa.RecordBatch]:
    """Read the requested rows and columns of an Avro file; raises `CorruptFile` if it is damaged."""
    with plain_storage_to_read(request).open_read(request.location) as stream:
        try:
            yield from _AvroReader(request, stream).batches()
        except InvalidMetadata as error:
            raise CorruptFile(
                f"the schema of the Avro file is invalid: {error.message}", file=request.location
            ) from None
        except FloeError as error:
            raise error.with_context(file=request.location) from None


class _Block(NamedTuple):
    """A decompressed block."""

    first_row: int
    rows: int
    content: bytes


class _AvroReader:
    def __init__(self, request: ReadRequest, stream: BinaryIO) -> None:
        self.request = request
        self.stream = stream
        self.header: AvroHeader = read_header(stream)
        schema = parse_avro_schema(self.header.schema_text)
        self.columns: tuple[FileField, ...] = avro_file_fields(schema)
        self.layout: Node = build_layout(schema)
        self.projection = Projection(request, self.columns)
        self._decoder = _RowDecoder(self.layout, self.columns, self.projection)

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self.projection.reads_nothing:
            return
        yield from self.projection.batches(self._read_blocks())

    def _read_blocks(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches of the selected columns, with the position of their first row."""
        expected, split = self.request.record_count, self.request.split
        total = size = rows = 0
        blocks: list[_Block] = []
        for block in read_blocks(self.stream, self.header, split, positions=self._needs_positions()):
            total += block.count
            if split is None and expected is not None and 0 <= expected < total:
                raise CorruptFile(f"the file has {total} rows or more, the manifest says {expected}")
            content = decompress_block(self.header, block, self.layout.smallest, _MAX_EMPTY_ROWS)
            blocks.append(_Block(block.first_row, block.count, content))
            size, rows = size + len(content), rows + block.count
            if size >= _DECODED_BYTES or rows >= _DECODED_ROWS:
                yield from self._batches(blocks)
                blocks, size, rows = [], 0, 0
        yield from self._batches(blocks)
        if split is None and expected is not None and expected >= 0 and expected != total:
            raise CorruptFile(f"the file has {total} rows, the manifest says {expected}")

    def _batches(self, blocks: list[_Block]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of consecutive blocks: decoded together if possible, else row by row."""
        decoder = self._decoder
        if decoder.parallel is not None and len(blocks) >= MIN_LANES:
            try:
                arrays = decoder.parallel.columns([block.content for block in blocks], [block.rows for block in blocks])
            except UnusualEncoding:
                pass
            else:
                count = sum(block.rows for block in blocks)
                yield blocks[0].first_row, decoder.of(arrays, count)
                return
        size = self.request.batch_size
        first = 0
        for block in blocks:
            if not decoder.count:
                first = block.first_row
            offset, left = 0, block.rows
            while left:
                step = min(left, size - decoder.count)
                offset = decoder.decode(block.content, offset, step)
                left -= step
                if decoder.count >= size:
                    yield first, decoder.batch()
                    first = block.first_row + block.rows - left
            if offset != len(block.content):
                raise CorruptFile(
                    f"{len(block.content) - offset} bytes follow the last row of a block of the Avro file"
                )
        if decoder.count:
            yield first, decoder.batch()

    def _needs_positions(self) -> bool:
        return any(field.id in (POS.id, ROW_ID.id) for field in self.request.schema.fields)


class _RowDecoder:
    """Decodes rows of blocks, column by column, until they make a batch."""

    def __init__(self, layout: Node, columns: Sequence[FileField], projection: Projection) -> None:
        selection = projection.selection
        indices = selection.indices(len(columns))
        children = selection.children or {}
        self.names = [columns[index].name for index in indices]
        self.columns = [
            column_decoder(layout.fields[index].node, columns[index], children.get(index, EVERYTHING))
            for index in indices
        ]
        chosen = dict(zip(indices, self.columns, strict=True))
        self.steps = [
            chosen[index].read if index in chosen else make_skipper(child.node)
            for index, child in enumerate(layout.fields)
        ]
        self.count = 0
        self.parallel = parallel_decoder(layout, columns, indices) if indices else None

    def decode(self, content: bytes, offset: int, count: int) -> int:
        """Decode `count` rows at an offset, and return the offset after them."""
        steps = self.steps
        try:
            for _ in range(count):
                for step in steps:
                    offset = step(content, offset)
                if offset > len(content):
                    raise CorruptFile("a row of the Avro file extends beyond its block", position=offset)
        except IndexError:
            raise CorruptFile("a row of the Avro file extends beyond its block", position=offset) from None
        self.count += count
        return offset

    def of(self, arrays: list[pa.Array], count: int) -> pa.RecordBatch:
        """A batch of decoded columns."""
        if not arrays:
            return rows_without_columns(count)
        return pa.RecordBatch.from_arrays(arrays, names=self.names)

    def batch(self) -> pa.RecordBatch:
        """A batch of the rows that were decoded since the last batch."""
        count, self.count = self.count, 0
        arrays = []
        for name, column in zip(self.names, self.columns, strict=True):
            try:
                arrays.append(column.array())
            except FloeError as error:
                raise error.with_context(column=name) from None
        return self.of(arrays, count)
