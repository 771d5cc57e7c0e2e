"""The blocks of an Avro file, read one after another with bounded memory (Avro spec: Object Container Files).

A split holds the blocks whose sync marker before them begins in its range, as all readers of Avro count them, so that
each block belongs to exactly one of the splits that cover a file. A reader that need not know the positions of rows
looks for the first marker of its split; one that does goes from block to block, over those it has no use for.

Avro data files read into Arrow batches, block by block.
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
from floe.formats.avro.block_parallel_decoder import LANES_AT_LEAST, together
from floe.formats.avro.column_decoders import gatherer
from floe.formats.file_columns import EVERYTHING
from floe.formats.model import ReadRequest, plain_storage_to_read
from floe.formats.projection import Projection, rows_without_columns
from floe.spec.codecs.avro_schemas import avro_file_fields, parse_avro_schema
from floe.spec.schemas.metadata_columns import POS, ROW_ID
from floe.spec.schemas.name_mapping import FileField

_MAGIC = b"Obj\x01"
_SYNC = 16
_FIRST_READ = 64 * 2**10
_MAX_HEADER = 64 * 2**20
_MAX_BLOCK = 512 * 2**20
_MAX_CONTENT = 2**31 - 1
_BLOCK_HEAD = 20
_SEARCHED = 2**20


@dataclass(frozen=True, slots=True)
class AvroHeader:
    """What a file says about itself, and where its blocks begin."""

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
    """A block: how many rows it holds, the position of the first (0 if nobody asked), and its compressed bytes."""

    count: int
    first_row: int
    content: bytes


def read_header(stream: BinaryIO) -> AvroHeader:
    """The header of a file; as much as it needs is read, within a limit."""
    size = _FIRST_READ
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
    at = len(_MAGIC)
    while True:
        count, at = read_long(data, at)
        if count == 0:
            break
        if count < 0:  # comes with a size in bytes
            count = -count
            _, at = read_long(data, at)
        if count > len(data) - at:
            raise CorruptFile(f"the header is said to have {count} entries, and {len(data) - at} bytes are left")
        for _ in range(count):
            key, at = read_byte_string(data, at)
            metadata[_text(key)], at = read_byte_string(data, at)
    sync = data[at : at + _SYNC]
    if len(sync) < _SYNC:
        raise CorruptFile("the file is cut off within its header")
    if "avro.schema" not in metadata:
        raise CorruptFile("the header has no avro.schema")
    return AvroHeader(metadata, check_codec(_text(metadata.get("avro.codec", b"null"))), sync, at + _SYNC)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CorruptFile("a key or codec of the header is not UTF-8") from None


def read_blocks(
    stream: BinaryIO, header: AvroHeader, split: tuple[int, int] | None, *, positions: bool = True
) -> Iterator[StoredBlock]:
    """The blocks of a split, or of the whole file; where `positions` are not needed, those before are not looked at."""
    start, end = (0, None) if split is None else (split[0], split[0] + split[1])
    at = header.end
    if start > header.end - _SYNC and not positions:
        found = _next_marker(stream, header.sync, start)
        if found is None:
            return
        at = found
    rows = 0
    while True:
        marker = at - _SYNC
        if end is not None and marker >= end:
            return
        head = _at(stream, at, _BLOCK_HEAD)
        if not head:
            return
        count, place = read_long(head, 0)
        size, place = read_long(head, place)
        if count < 0 or not 0 <= size <= _MAX_BLOCK:
            raise CorruptFile(f"a block of {count} rows and {size} bytes", position=at)
        if marker < start:
            follows = _at(stream, at + place + size, _SYNC)
            content = b""
        else:
            data = _at(stream, at + place, size + _SYNC)
            content, follows = data[:size], data[size:]
            if len(data) < size + _SYNC:
                raise CorruptFile(
                    f"the file is cut off within a block of {size} bytes: {len(data)} are left", position=at
                )
        if follows != header.sync:
            raise CorruptFile("a block does not end with the file's sync marker", position=at)
        if marker >= start:
            yield StoredBlock(count, rows, content)
        rows += count
        at += place + size + _SYNC


def _at(stream: BinaryIO, at: int, size: int) -> bytes:
    stream.seek(at)
    return stream.read(size)


def _next_marker(stream: BinaryIO, sync: bytes, at: int) -> int | None:
    """Where the block behind the first marker begins that begins at a place or later."""
    stream.seek(at)
    kept = b""
    while True:
        data = stream.read(_SEARCHED)
        if not data:
            return None
        window = kept + data
        found = window.find(sync)
        if found >= 0:
            return at + found + _SYNC
        kept = window[-(_SYNC - 1) :]
        at += len(window) - len(kept)


def decompressed(header: AvroHeader, block: StoredBlock, smallest_row: int, most_empty: int) -> bytes:
    """The content of a block, which must have room for its rows; rows that take no bytes are limited in number."""
    content = decompress(header.codec, block.content, _MAX_CONTENT if header.codec == "null" else _limit(block))
    if block.count * smallest_row > len(content) or (not smallest_row and block.count > most_empty):
        raise CorruptFile(f"a block of {len(content)} bytes is said to hold {block.count} rows")
    return content


def _limit(block: StoredBlock) -> int:
    """How much a block may swell to: a good deal, but a small one not to something huge."""
    return min(_MAX_BLOCK, 64 * 2**20 + 64 * len(block.content))


# Avro data files read into Arrow batches, block by block.

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
        self.layout: Node = build_layout(schema)
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
            except UnusualEncoding:
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
            chosen[place].take if place in chosen else make_skipper(child.node)
            for place, child in enumerate(layout.fields)
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
