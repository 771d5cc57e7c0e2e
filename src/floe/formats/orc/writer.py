"""ORC files written from Arrow batches, in the layout of the spec (spec: Appendix A, ORC).

Every column, element, key and value has its field id, and what distinguishes its type, as attributes of its ORC type.
Columns of type `unknown` are omitted. pyarrow writes the stripes; the footer is completed with the key-value metadata
that pyarrow does not write. From the first timestamp before 1970 with fractions of a second on, stripes are encoded by
`floe.formats.orc.timestamps`, because pyarrow writes their fractions as negative numbers, which other readers misread.

The writer is configured by the table properties `write.orc.*`:

| property | effect |
|---|---|
| `compression-codec` | zlib by default; also zstd, snappy, lz4, none |
| `compression-strategy` | `speed` by default, or `compression` |
| `stripe-size-bytes` | the approximate size of a stripe |
| `vectorized.batch-size` | how many rows the writer encodes at a time |
| `bloom.filter.columns`, `bloom.filter.fpp` | Bloom filters |

For delete files, `write.delete.orc.*` takes precedence for the properties in the first four lines.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc

from floe.errors import CorruptFile, InvalidSchema, InvalidValue, UnsupportedFeature
from floe.formats.appender import ArrowAppender, HoldingSink, WrittenFile, file_metadata
from floe.formats.columns.arrow_types import arrow_type
from floe.formats.columns.conversion import ListBuffers
from floe.formats.model import WriteRequest
from floe.formats.orc.tail import (
    MAGIC,
    NONE,
    Tail,
    decompress,
    get_bytes,
    get_number,
    parse_footer,
    parse_postscript,
    read_fields,
    store_uncompressed,
    write_fields,
)
from floe.formats.orc.timestamps import EncodedStripe, encode_pre_1970_stripes, has_pre_1970_fractions
from floe.spec.codecs.orc_types import field_attributes
from floe.spec.manifests.entries import FileContent
from floe.spec.properties import (
    ORC_BATCH_ROWS,
    ORC_BLOOM_COLUMNS,
    ORC_BLOOM_FPP,
    ORC_CODEC,
    ORC_STRATEGY,
    ORC_STRIPE_BYTES,
)
from floe.spec.types import Field, ListType, MapType, StructType, Type
from floe.spec.values.civil_time import MICROS, NANOS
from floe.storage.protocol import Data, FileWriter

# Sink -----------------------------------------------------------------------------------------------------------------

_KEPT_BYTES = 4 * 2**20


class OrcSink(HoldingSink):
    """The sink of pyarrow's ORC writer, which keeps the ends of stripes, and errors.

    An error of the stream is raised by `check`, because ORC's writer crashes if a write raises.
    """

    def __init__(self, stream: FileWriter) -> None:
        super().__init__(stream)
        self._ends: list[tuple[int, bytes]] = []
        self._part: deque[bytes] = deque()
        self._part_bytes = 0
        self._error: BaseException | None = None

    def _forward(self, data: Data) -> None:
        copy = bytes(data)
        self._part.append(copy)
        self._part_bytes += len(copy)
        while self._part_bytes - len(self._part[0]) > _KEPT_BYTES:
            self._part_bytes -= len(self._part.popleft())
        try:
            super()._forward(copy)
        except BaseException as error:
            self._error = error
            self.drop()

    def check(self) -> None:
        """Raise the error of an earlier write."""
        if self._error is not None:
            raise self._error

    def next_part(self) -> None:
        """Keep the end of what was written, if anything: the footer of a stripe may be in it."""
        if self._part_bytes > len(b"ORC"):
            end = b"".join(self._part)[-_KEPT_BYTES // 16 :]
            self._ends.append((self._stream.tell() - len(end), end))
        self._part.clear()
        self._part_bytes = 0

    def kept(self, at: int, size: int) -> bytes | None:
        """Bytes that were written at an offset, or None if they were not kept."""
        for begin, data in self._ends:
            if begin <= at and at + size <= begin + len(data):
                return data[at - begin : at - begin + size]
        return None

    def hold(self) -> None:
        """Hold back all further writes."""
        self.next_part()
        super().hold()

    def held(self) -> bytes:
        """Return what was held back, the end of the file, and stop holding back."""
        data = super().held()
        self._ends.append((self._stream.tell(), data))
        self._held = None
        return data


# Columns --------------------------------------------------------------------------------------------------------------

_TICKS = {
    **dict.fromkeys(("timestamp", "timestamptz"), MICROS),
    **dict.fromkeys(("timestamp_ns", "timestamptz_ns"), NANOS),
}
"""The units per second of each kind of timestamp."""

ArrayConversion = Callable[[pa.Array], pa.Array]
"""Converts arrays of a type's Arrow type to those that are written."""


def _stored_type(type_: Type) -> pa.DataType:
    """The Arrow type that pyarrow writes as the ORC type of a type."""
    if isinstance(type_, StructType):
        return pa.struct([stored_field(child) for child in _stored_children(type_)])
    if isinstance(type_, ListType):
        return pa.list_(stored_field(type_.element_field))
    if isinstance(type_, MapType):
        return pa.map_(stored_field(type_.key_field), stored_field(type_.value_field))
    if type_.kind == "time":
        return pa.int64()
    if type_.kind in ("uuid", "fixed"):
        return pa.binary()
    return arrow_type(type_)


def _stored_children(type_: StructType) -> list[Field]:
    return [child for child in type_.fields if child.type.kind != "unknown"]


def stored_field(field: Field) -> pa.Field:
    """The Arrow field that pyarrow writes for a field, with the attributes of its ORC type as metadata.

    >>> from floe.spec.types import TIME
    >>> stored_field(Field(1, "t", TIME)).type
    DataType(int64)
    """
    if field.type.kind == "unknown":
        raise UnsupportedFeature(
            "ORC cannot store lists and maps of type unknown", hint="give the elements a type", column=field.name
        )
    attributes = field_attributes(field)
    return pa.field(field.name, _stored_type(field.type), nullable=field.optional, metadata=attributes)


def stored_conversion(type_: Type) -> ArrayConversion:
    """The conversion of arrays of a type to those that are written.

    Slices of structs are copied, because pyarrow would write the wrong rows of them.
    """
    target = _stored_type(type_)
    if isinstance(type_, StructType):
        return _struct_conversion(type_, target)
    if isinstance(type_, ListType):
        return _items_conversion([stored_conversion(type_.element)], target)
    if isinstance(type_, MapType):
        return _items_conversion([stored_conversion(type_.key), stored_conversion(type_.value)], target)
    if type_.kind == "time":
        return lambda array: array.view(target)
    if type_.kind in ("uuid", "fixed"):
        return lambda array: array.cast(target)
    return (lambda array: pa.concat_arrays([array])) if type_.kind == "variant" else (lambda array: array)


def _struct_conversion(type_: StructType, target: pa.DataType) -> ArrayConversion:
    indices = [index for index, child in enumerate(type_.fields) if child.type.kind != "unknown"]
    conversions = [stored_conversion(type_.fields[index].type) for index in indices]

    def convert_struct(array: pa.Array) -> pa.Array:
        array = pa.concat_arrays([array]) if array.offset or array.null_count else array
        children = [
            _copy_slice(convert(array.field(index))) for index, convert in zip(indices, conversions, strict=True)
        ]
        return pa.Array.from_buffers(target, len(array), array.buffers()[:1], children=children)

    return convert_struct


def _copy_slice(array: pa.Array) -> pa.Array:
    return pa.concat_arrays([array]) if array.offset else array


def _items_conversion(conversions: Sequence[ArrayConversion], target: pa.DataType) -> ArrayConversion:
    """The conversion of a list, with one conversion of its items, or of a map, with two."""

    def convert_items(array: pa.Array) -> pa.Array:
        buffers = ListBuffers.of(array)
        stored = [array.values] if len(conversions) == 1 else [array.keys, array.items]
        converted = [
            _copy_slice(convert(buffers.items(part))) for convert, part in zip(conversions, stored, strict=True)
        ]
        if len(converted) == 2:
            entries = pa.struct([target.key_field, target.item_field])
            converted = [pa.Array.from_buffers(entries, buffers.count, [None], children=converted)]
        return pa.Array.from_buffers(target, len(array), [buffers.validity, buffers.offsets], children=converted)

    return convert_items


def columns_by_type_id(fields: Sequence[Field], path: tuple[str, ...]) -> Iterator[tuple[str, int] | None]:
    """The dotted name and field id of each type of the file, in the order of type ids; None for parts of variants."""
    for field in fields:
        field_path = (*path, field.name)
        yield ".".join(field_path), field.id
        if field.type.kind == "variant":
            yield from (None, None)
        elif field.type.is_nested:
            children = _stored_children(field.type) if isinstance(field.type, StructType) else field.type.fields
            yield from columns_by_type_id(children, field_path)


def timestamp_arrays(type_: Type, array: pa.Array) -> Iterator[tuple[pa.Array, int]]:
    """The timestamp arrays in a stored array, at any depth, with their units per second.

    >>> from floe.spec.types import TIMESTAMP
    >>> times = pa.array([[7]], pa.list_(pa.timestamp("us")))
    >>> [(len(array), ticks) for array, ticks in timestamp_arrays(ListType(1, TIMESTAMP), times)]
    [(1, 1000000)]
    """
    if type_.kind in _TICKS:
        yield array, _TICKS[type_.kind]
    elif isinstance(type_, StructType):
        for index, child in enumerate(_stored_children(type_)):
            yield from timestamp_arrays(child.type, array.field(index))
    elif isinstance(type_, ListType):
        yield from timestamp_arrays(type_.element, array.values)
    elif isinstance(type_, MapType):
        yield from timestamp_arrays(type_.key, array.keys)
        yield from timestamp_arrays(type_.value, array.items)


# Options --------------------------------------------------------------------------------------------------------------

_CODECS = {"zlib": "zlib", "zstd": "zstd", "snappy": "snappy", "lz4": "lz4", "none": "uncompressed"}
_BLOCK_BYTES = 256 * 1024
_DICTIONARY_SHARE = 0.8
"""Text is dictionary encoded if at most this share of the values is distinct; the default of other writers."""


def orc_options(properties: Mapping[str, str], numbers: Mapping[str, int], *, deletes: bool) -> dict[str, Any]:
    """The options of pyarrow's ORC writer; `numbers` has the type id of each column by dotted name.

    >>> orc_options({"write.orc.compression-codec": "ZSTD"}, {}, deletes=False)["compression"]
    'zstd'
    """
    codec = _CODECS[ORC_CODEC.read(properties, deletes=deletes)]
    strategy = ORC_STRATEGY.read(properties, deletes=deletes)
    return {
        "compression": codec,
        "compression_strategy": "compression"
        if codec == "lz4"
        else strategy,  # with `speed`, ORC's lz4 does not compress at all
        "compression_block_size": _BLOCK_BYTES,
        "dictionary_key_size_threshold": _DICTIONARY_SHARE,
        "stripe_size": ORC_STRIPE_BYTES.read(properties, deletes=deletes),
        "batch_size": ORC_BATCH_ROWS.read(properties, deletes=deletes),
        **_bloom_filters(properties, numbers),
    }


def _bloom_filters(properties: Mapping[str, str], numbers: Mapping[str, int]) -> dict[str, Any]:
    """The columns with Bloom filters; names of columns that the file does not have are ignored."""
    names = [name.strip() for name in ORC_BLOOM_COLUMNS.read(properties).split(",")]
    columns = [numbers[name] for name in names if name in numbers]
    if not columns:
        return {}
    return {"bloom_filter_columns": columns, "bloom_filter_fpp": ORC_BLOOM_FPP.read(properties)}


# Tail -----------------------------------------------------------------------------------------------------------------

_KEPT_FOOTER_FIELDS = (1, 4, 8, 9, 11, 12)  # header, types, row index stride, writer


def parse_held_tail(held: bytes, written: int) -> tuple[Tail, int]:
    """Parse the tail in the last bytes of a file, before which `written` bytes were stored.

    Returns the tail, and the offset of its footer in `held`.
    """
    script = parse_postscript(held)
    end = len(held) - script.length
    start = end - script.footer_length
    if start < 0:
        raise CorruptFile("pyarrow's ORC writer wrote its footer before the end of the file")
    metadata_start = start - script.metadata_length
    return parse_footer(script, held[start:end], written + metadata_start, held[metadata_start:start]), start


def add_metadata(tail: Tail, end: bytes, metadata: Mapping[str, str]) -> bytes:
    """Add key-value metadata to the footer and postscript; fields can be appended to a message."""
    if not metadata:
        return end
    script = tail.postscript
    more = write_fields(_metadata_entries(metadata))
    if script.codec != NONE:
        more = store_uncompressed(more, script.block_size)
    footer = end[: -script.length] + more
    fields = [(number, value) for number, values in script.fields.items() if number != 1 for value in values]
    postscript = write_fields([(1, len(footer)), *fields])
    return footer + postscript + bytes([len(postscript)])


def _metadata_entries(metadata: Mapping[str, str]) -> list[tuple[int, bytes]]:
    return [(5, write_fields([(1, key.encode()), (2, value.encode())])) for key, value in metadata.items()]


def combined_tail(
    tail: Tail, stripes: Sequence[tuple[int, EncodedStripe]], content_end: int, metadata: Mapping[str, str]
) -> bytes:
    """The end of a file with the stripes that pyarrow wrote, described by `tail`, and encoded ones at some offsets."""
    script, footer = tail.postscript, tail.footer
    encoded = [stripe for _, stripe in stripes]
    stripe_statistics = get_bytes(read_fields(decompress(script.codec, tail.metadata, script.block_size)), 1)
    metadata_fields = [(1, part) for part in stripe_statistics]
    metadata_fields += [(1, write_fields([(1, column) for column in stripe.statistics])) for stripe in encoded]
    fields = [(field, value) for field in _KEPT_FOOTER_FIELDS for value in footer.get(field, ())]
    fields += [(3, part) for part in get_bytes(footer, 3)]
    fields += [(3, stripe.footer_entry(offset)) for offset, stripe in stripes]
    fields += [(2, content_end - len(MAGIC)), (6, tail.rows + sum(stripe.rows for stripe in encoded))]
    fields += [(7, part) for part in _merged_counts(get_bytes(footer, 7), [stripe.statistics for stripe in encoded])]
    stored = [
        content if script.codec == NONE else store_uncompressed(content, script.block_size)
        for content in (write_fields(metadata_fields), write_fields([*fields, *_metadata_entries(metadata)]))
    ]
    lengths = {1: len(stored[1]), 5: len(stored[0])}
    postscript_fields = [(n, value) for n, values in script.fields.items() if n not in lengths for value in values]
    postscript = write_fields([*lengths.items(), *postscript_fields])
    return b"".join((*stored, postscript, bytes([len(postscript)])))


def _merged_counts(first: Sequence[bytes], others: Sequence[Sequence[bytes]]) -> list[bytes]:
    """The statistics of all rows by column: only value counts and whether there are nulls; stripes have the bounds."""
    counts = []
    for column_statistics in zip(first, *others, strict=True):
        messages = [read_fields(part) for part in column_statistics]
        values = sum(get_number(message, 1) for message in messages)
        counts.append(write_fields([(1, values), (10, int(any(get_number(message, 10) for message in messages)))]))
    return counts


# Writer ---------------------------------------------------------------------------------------------------------------

_MIN_STEP_ROWS, _MAX_STEP_ROWS = 2**10, 2**16
_INITIAL_RATIO = 0.4
"""The assumed ratio of bytes in the file to bytes of Arrow data, before the first stripe."""


class OrcAppender(ArrowAppender):
    """Writes an ORC file."""

    def __init__(self, request: WriteRequest) -> None:
        fields = request.schema.fields
        self._stored_indices = [index for index, field in enumerate(fields) if field.type.kind != "unknown"]
        stored = [fields[index] for index in self._stored_indices]
        if not stored:
            raise UnsupportedFeature(
                "an ORC file needs at least one column that is not of type unknown",
                column=fields[0].name if fields else None,
                file=request.location,
            )
        self._schema = pa.schema([stored_field(field) for field in stored])
        self._types = [field.type for field in stored]
        self._shapes = list(map(stored_conversion, self._types))
        self._columns = [None, *columns_by_type_id(stored, ())]
        numbers = {name: number for number, column in enumerate(self._columns) if column for name in [column[0]]}
        options = orc_options(request.properties, numbers, deletes=request.content != FileContent.DATA)
        self._options: dict[str, Any] = options
        self._stripe_bytes = options["stripe_size"]
        super().__init__(request, "orc")
        self._sink = OrcSink(self.stream)
        self._writer: orc.ORCWriter | None = None
        self._waiting = 0
        self._flushed = 0
        self._ratio = _INITIAL_RATIO
        self._pre_1970: _Pre1970Stripes | None = None
        try:
            self._writer = orc.ORCWriter(self._sink, **options)
            self._write(pa.Table.from_batches([], self._schema))  # so that even an empty file has its columns
        except pa.ArrowException as error:
            self.abort()
            raise InvalidSchema(f"the columns cannot be written to ORC: {str(error)[:300]}") from None
        except BaseException:
            self.abort()
            raise

    @property
    def length(self) -> int:
        """The size of what was written, and the approximate size of the rows that the writer buffers."""
        return self.stream.tell() + int(self._waiting * self._ratio)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write a batch in steps of at most a stripe."""
        # at most a stripe at once, to see after each write whether one has ended
        step = min(max(int(self._stripe_bytes * batch.num_rows / max(batch.nbytes, 1)), _MIN_STEP_ROWS), _MAX_STEP_ROWS)
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            self._waiting += part.nbytes
            try:
                columns = zip(self._stored_indices, self._shapes, strict=True)
                self._write_part([shape(part.column(index)) for index, shape in columns])
            except pa.ArrowException as error:
                raise InvalidValue(
                    f"the rows cannot be written: {str(error)[:300]}", file=self.request.location
                ) from None
            if self.stream.tell() > self._flushed:
                self._ratio = (self.stream.tell() - self._flushed) / self._waiting
                self._flushed, self._waiting = self.stream.tell(), 0

    def _write_part(self, arrays: list[pa.Array]) -> None:
        if self._has_pre_1970_fractions(arrays) and self._pre_1970 is None:
            tail, held, start = self._close_writer()
            self.stream.write(held[: start - tail.postscript.metadata_length])
            self._pre_1970 = _Pre1970Stripes(tail, self._column_sizes(tail))
        if self._pre_1970 is None:
            self._write(pa.Table.from_arrays(arrays, schema=self._schema))
            return
        self._pre_1970.waiting.append(arrays)
        if self._waiting * self._ratio >= self._stripe_bytes:
            self._write_pre_1970_stripes(self._pre_1970)

    def _has_pre_1970_fractions(self, arrays: list[pa.Array]) -> bool:
        has_fractions = False
        for index, (type_, array) in enumerate(zip(self._types, arrays, strict=True)):
            try:
                for timestamps in timestamp_arrays(type_, array):
                    has_fractions |= has_pre_1970_fractions(*timestamps)
            except UnsupportedFeature as error:
                raise error.with_context(column=self._schema.field(index).name, file=self.request.location) from None
        return has_fractions

    def _write_pre_1970_stripes(self, pre_1970: _Pre1970Stripes) -> None:
        if pre_1970.waiting:
            columns = [pa.concat_arrays(arrays) for arrays in zip(*pre_1970.waiting, strict=True)]
            pre_1970.waiting = []
            for stripe in encode_pre_1970_stripes(pre_1970.tail, columns, self._options):
                pre_1970.stripes.append((self.stream.tell(), stripe))
                self.stream.write(stripe.content)

    def _write(self, table: pa.Table) -> None:
        self._sink.next_part()
        self._open_writer().write(table)
        self._sink.check()

    def _open_writer(self) -> orc.ORCWriter:
        if self._writer is None:
            raise ValueError(f"the file is closed: {self.request.location}")
        return self._writer

    def _close_writer(self) -> tuple[Tail, bytes, int]:
        """Close pyarrow's writer; returns its tail, the bytes held back, and the offset of the footer in them."""
        writer = self._open_writer()
        self._sink.hold()
        try:
            writer.close()
        except pa.ArrowException as error:
            raise InvalidValue(f"the file cannot be finished: {str(error)[:300]}", file=self.request.location) from None
        self._sink.check()
        held = self._sink.held()
        tail, start = parse_held_tail(held, self.stream.tell())
        return tail, held, start

    def finish(self) -> WrittenFile:
        """Write the remaining stripes and the tail."""
        metadata, pre_1970 = file_metadata(self.request), self._pre_1970
        if pre_1970 is None:
            tail, held, start = self._close_writer()
            self.stream.write(held[:start] + add_metadata(tail, held[start:], metadata))
            offsets = tuple(stripe.offset for stripe in tail.stripes)
            return WrittenFile(self.stream.tell(), self._column_sizes(tail), offsets)
        self._write_pre_1970_stripes(pre_1970)
        self.stream.write(combined_tail(pre_1970.tail, pre_1970.stripes, self.stream.tell(), metadata))
        offsets = (*(stripe.offset for stripe in pre_1970.tail.stripes), *(offset for offset, _ in pre_1970.stripes))
        sizes = pre_1970.sizes
        if sizes is not None:
            self._add_sizes(sizes, (size for _, stripe in pre_1970.stripes for size in stripe.sizes))
        return WrittenFile(self.stream.tell(), sizes, offsets)

    def abort(self) -> None:
        """Discard what was written; does nothing after `close`."""
        self._sink.drop()
        self._writer = None  # closes itself when it is deallocated, but the sink drops what it writes
        super().abort()

    def _column_sizes(self, tail: Tail) -> dict[int, int] | None:
        """The size of the streams of each column by field id; None if the footer of a stripe was not kept."""
        sizes: dict[int, int] = {}
        for stripe in tail.stripes:
            packed = self._sink.kept(stripe.end - stripe.footer_length, stripe.footer_length)
            if packed is None:
                return None
            self._add_sizes(sizes, _stream_sizes(tail, packed))
        return sizes

    def _add_sizes(self, sizes: dict[int, int], streams: Iterable[tuple[int, int]]) -> None:
        config = self.request.effective_metrics
        for number, size in streams:
            column = self._columns[number] if number < len(self._columns) else None
            if column is not None and config.mode(column[1]).counts:
                sizes[column[1]] = sizes.get(column[1], 0) + size


class _Pre1970Stripes:
    """The stripes after those that pyarrow wrote, with timestamps before 1970 that it cannot write."""

    def __init__(self, tail: Tail, sizes: dict[int, int] | None) -> None:
        self.tail = tail
        self.sizes = sizes
        self.waiting: list[list[pa.Array]] = []
        self.stripes: list[tuple[int, EncodedStripe]] = []


def _stream_sizes(tail: Tail, packed: bytes) -> Iterator[tuple[int, int]]:
    """The column id and size of each stream of a stripe, from its footer."""
    footer = read_fields(decompress(tail.postscript.codec, packed, tail.postscript.block_size))
    for stream in map(read_fields, get_bytes(footer, 1)):
        yield get_number(stream, 2), get_number(stream, 3)
