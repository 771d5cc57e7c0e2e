"""ORC files written from Arrow batches, laid out as the spec says (spec: Appendix A, ORC).

Every column, element, key and value has its field id and what tells its type apart as attributes of its ORC type;
columns of type `unknown` are left out. The end of the file is completed with the metadata that pyarrow does not write.

Of timestamps before 1970 pyarrow writes the fractions of a second as negative numbers, which no other reader takes for
what they are. From the first such value on, stripes are made by `floe.formats.orc.pre_1970_timestamps`.

What pyarrow's ORC writer writes to: it survives errors, and keeps the ends of stripes.

The columns of ORC files as pyarrow writes them: their types with ids and attributes, and arrays made to fit.

Table properties `write.orc.*` as options of the ORC writer; delete files may have their own.

| property | effect |
|---|---|
| `compression-codec` | zlib by default; also zstd, snappy, lz4, none |
| `compression-strategy` | `speed` by default, or `compression` |
| `stripe-size-bytes` | about how many bytes a stripe has |
| `vectorized.batch-size` | how many rows the writer takes at a time |
| `bloom.filter.columns`, `bloom.filter.fpp` | Bloom filters |

Delete files take `write.delete.orc.*` first, for those of the first four lines.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc

from floe.errors import InvalidSchema, InvalidValue, UnsupportedFeature
from floe.formats.appender import ArrowAppender, HoldingSink, Written, file_metadata
from floe.formats.arrow_conversion import ListBuffers
from floe.formats.arrow_types import arrow_type
from floe.formats.model import WriteRequest
from floe.formats.orc.pre_1970_timestamps import (
    MadeStripe,
    check_moments,
    combined_end,
    early_stripes,
    tail_of,
    with_metadata,
)
from floe.formats.orc.tail import Tail, bytes_of, one_number, read_fields, unpack
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

# What pyarrow's ORC writer writes to: it survives errors, and keeps the ends of stripes.

_KEPT_BYTES = 4 * 2**20


class OrcSink(HoldingSink):
    """The stream, as pyarrow writes to it; what comes last can be held back, and the ends of stripes are kept.

    Errors are kept too, and raised by `check`: the ORC writer inside pyarrow does not survive a write that fails.
    """

    def __init__(self, stream: FileWriter) -> None:
        super().__init__(stream)
        self._ends: list[tuple[int, bytes]] = []
        self._part: deque[bytes] = deque()
        self._part_bytes = 0
        self._error: BaseException | None = None

    def _forward(self, data: Data) -> None:
        own = bytes(data)
        self._part.append(own)
        self._part_bytes += len(own)
        while self._part_bytes - len(self._part[0]) > _KEPT_BYTES:
            self._part_bytes -= len(self._part.popleft())
        try:
            super()._forward(own)
        except BaseException as error:
            self._error = error
            self.drop()

    def check(self) -> None:
        """Raise what a write has raised."""
        if self._error is not None:
            raise self._error

    def next_part(self) -> None:
        """What was written last ended with the end of a stripe; keep as much of it as a stripe's footer may take."""
        if self._part_bytes > len(b"ORC"):
            end = b"".join(self._part)[-_KEPT_BYTES // 16 :]
            self._ends.append((self._stream.tell() - len(end), end))
        self._part.clear()
        self._part_bytes = 0

    def kept(self, at: int, size: int) -> bytes | None:
        """Bytes that were written, if they are among those that are kept."""
        for begin, data in self._ends:
            if begin <= at and at + size <= begin + len(data):
                return data[at - begin : at - begin + size]
        return None

    def hold(self) -> None:
        """From now on hold back what is written."""
        self.next_part()
        super().hold()

    def held(self) -> bytes:
        """What was held back, which is the end of the file; it is held back no longer."""
        data = super().held()
        self._ends.append((self._stream.tell(), data))
        self._held = None
        return data


# The columns of ORC files as pyarrow writes them: their types with ids and attributes, and arrays made to fit.

_TICKS = {
    **dict.fromkeys(("timestamp", "timestamptz"), MICROS),
    **dict.fromkeys(("timestamp_ns", "timestamptz_ns"), NANOS),
}
"""How many units of each kind of timestamp make a second."""

Shape = Callable[[pa.Array], pa.Array]
"""From arrays of the type that `arrow_type` gives to those that are written."""


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
    """The column that pyarrow writes for a field, with the attributes that its ORC type gets.

    >>> from floe.spec.types import TIME
    >>> stored_field(Field(1, "t", TIME)).type
    DataType(int64)
    """
    if field.type.kind == "unknown":
        raise UnsupportedFeature(
            "ORC has no form for lists and maps of type unknown", hint="give the elements a type", column=field.name
        )
    attributes = field_attributes(field)
    return pa.field(field.name, _stored_type(field.type), nullable=field.optional, metadata=attributes)


def shape_of(type_: Type) -> Shape:
    """What makes the arrays of a type those that are written.

    Structs are copied where they are a part of a longer one, of which pyarrow would write the wrong rows.
    """
    wanted = _stored_type(type_)
    if isinstance(type_, StructType):
        return _struct_shape(type_, wanted)
    if isinstance(type_, ListType):
        return _repeated_shape([shape_of(type_.element)], wanted)
    if isinstance(type_, MapType):
        return _repeated_shape([shape_of(type_.key), shape_of(type_.value)], wanted)
    if type_.kind == "time":
        return lambda array: array.view(wanted)
    if type_.kind in ("uuid", "fixed"):
        return lambda array: array.cast(wanted)
    return (lambda array: pa.concat_arrays([array])) if type_.kind == "variant" else (lambda array: array)


def _struct_shape(type_: StructType, wanted: pa.DataType) -> Shape:
    places = [place for place, child in enumerate(type_.fields) if child.type.kind != "unknown"]
    shapes = [shape_of(type_.fields[place].type) for place in places]

    def shape(array: pa.Array) -> pa.Array:
        array = pa.concat_arrays([array]) if array.offset or array.null_count else array
        children = [_whole(own(array.field(place))) for place, own in zip(places, shapes, strict=True)]
        return pa.Array.from_buffers(wanted, len(array), array.buffers()[:1], children=children)

    return shape


def _whole(array: pa.Array) -> pa.Array:
    return pa.concat_arrays([array]) if array.offset else array


def _repeated_shape(shapes: Sequence[Shape], wanted: pa.DataType) -> Shape:
    """Lists have one shape inside, maps two."""

    def shape(array: pa.Array) -> pa.Array:
        parts = ListBuffers.of(array)
        stored = [array.values] if len(shapes) == 1 else [array.keys, array.items]
        made = [_whole(own(parts.items(part))) for own, part in zip(shapes, stored, strict=True)]
        if len(made) == 2:
            entries = pa.struct([wanted.key_field, wanted.item_field])
            made = [pa.Array.from_buffers(entries, parts.count, [None], children=made)]
        return pa.Array.from_buffers(wanted, len(array), [parts.validity, parts.offsets], children=made)

    return shape


def numbered(fields: Sequence[Field], path: tuple[str, ...]) -> Iterator[tuple[str, int] | None]:
    """The dotted name and id of each type of the file, in the order of their numbers; a variant's parts have none."""
    for field in fields:
        own = (*path, field.name)
        yield ".".join(own), field.id
        if field.type.kind == "variant":
            yield from (None, None)
        elif field.type.is_nested:
            children = _stored_children(field.type) if isinstance(field.type, StructType) else field.type.fields
            yield from numbered(children, own)


def moments_in(type_: Type, array: pa.Array) -> Iterator[tuple[pa.Array, int]]:
    """The timestamps that a shaped array is or has inside, with how many units of theirs make a second.

    >>> from floe.spec.types import TIMESTAMP
    >>> times = pa.array([[7]], pa.list_(pa.timestamp("us")))
    >>> [(len(found), ticks) for found, ticks in moments_in(ListType(1, TIMESTAMP), times)]
    [(1, 1000000)]
    """
    if type_.kind in _TICKS:
        yield array, _TICKS[type_.kind]
    elif isinstance(type_, StructType):
        for place, child in enumerate(_stored_children(type_)):
            yield from moments_in(child.type, array.field(place))
    elif isinstance(type_, ListType):
        yield from moments_in(type_.element, array.values)
    elif isinstance(type_, MapType):
        yield from moments_in(type_.key, array.keys)
        yield from moments_in(type_.value, array.items)


# Table properties `write.orc.*` as options of the ORC writer; delete files may have their own.

_CODECS = {"zlib": "zlib", "zstd": "zstd", "snappy": "snappy", "lz4": "lz4", "none": "uncompressed"}
_BLOCK_BYTES = 256 * 1024
_DICTIONARY_SHARE = 0.8
"""Text is stored by a dictionary where at most this share of the values is distinct; both as other writers do it."""


def orc_options(properties: Mapping[str, str], numbers: Mapping[str, int], *, deletes: bool) -> dict[str, Any]:
    """What pyarrow's ORC writer is told; `numbers` has the number of each column's type in the file, by dotted name.

    >>> orc_options({"write.orc.compression-codec": "ZSTD"}, {}, deletes=False)["compression"]
    'zstd'
    """
    codec = _CODECS[ORC_CODEC.read(properties, deletes=deletes)]
    strategy = ORC_STRATEGY.read(properties, deletes=deletes)
    return {
        "compression": codec,
        "compression_strategy": "compression" if codec == "lz4" else strategy,  # for speed, it does not compress at all
        "compression_block_size": _BLOCK_BYTES,
        "dictionary_key_size_threshold": _DICTIONARY_SHARE,
        "stripe_size": ORC_STRIPE_BYTES.read(properties, deletes=deletes),
        "batch_size": ORC_BATCH_ROWS.read(properties, deletes=deletes),
        **_bloom_filters(properties, numbers),
    }


def _bloom_filters(properties: Mapping[str, str], numbers: Mapping[str, int]) -> dict[str, Any]:
    """The columns with Bloom filters; names of columns that the file has not are passed over."""
    names = [name.strip() for name in ORC_BLOOM_COLUMNS.read(properties).split(",")]
    columns = [numbers[name] for name in names if name in numbers]
    if not columns:
        return {}
    return {"bloom_filter_columns": columns, "bloom_filter_fpp": ORC_BLOOM_FPP.read(properties)}


_ROWS_AT_LEAST, _ROWS_AT_ONCE = 2**10, 2**16
_FIRST_GUESS = 0.4
"""How many bytes of the file one byte of Arrow data makes, until a stripe has shown it."""


class OrcAppender(ArrowAppender):
    """An ORC file being written."""

    def __init__(self, request: WriteRequest) -> None:
        fields = request.schema.fields
        self._places = [place for place, field in enumerate(fields) if field.type.kind != "unknown"]
        stored = [fields[place] for place in self._places]
        if not stored:
            raise UnsupportedFeature(
                "an ORC file needs a column with values; those of type unknown are left out",
                column=fields[0].name if fields else None,
                file=request.location,
            )
        self._schema = pa.schema([stored_field(field) for field in stored])
        self._types = [field.type for field in stored]
        self._shapes = list(map(shape_of, self._types))
        self._columns = [None, *numbered(stored, ())]
        numbers = {name: number for number, column in enumerate(self._columns) if column for name in [column[0]]}
        options = orc_options(request.properties, numbers, deletes=request.content != FileContent.DATA)
        self._options: dict[str, Any] = options
        self._stripe_bytes = options["stripe_size"]
        super().__init__(request, "orc")
        self._sink = OrcSink(self.stream)
        self._writer: orc.ORCWriter | None = None
        self._waiting = 0
        self._flushed = 0
        self._ratio = _FIRST_GUESS
        self._early: _EarlyPart | None = None
        try:
            self._writer = orc.ORCWriter(self._sink, **options)
            self._write(pa.Table.from_batches([], self._schema))  # which tells the writer the columns of an empty file
        except pa.ArrowException as error:
            self.abort()
            raise InvalidSchema(f"the columns cannot be written to ORC: {str(error)[:300]}") from None
        except BaseException:
            self.abort()
            raise

    @property
    def length(self) -> int:
        """What was written, and about what the rows that are not will make."""
        return self.stream.tell() + int(self._waiting * self._ratio)

    def _write_batch(self, batch: pa.RecordBatch) -> None:
        # not more than a stripe at once, so that after each write it can be seen whether one has ended
        step = min(max(int(self._stripe_bytes * batch.num_rows / max(batch.nbytes, 1)), _ROWS_AT_LEAST), _ROWS_AT_ONCE)
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            self._waiting += part.nbytes
            try:
                shaped = zip(self._places, self._shapes, strict=True)
                self._write_part([shape(part.column(place)) for place, shape in shaped])
            except pa.ArrowException as error:
                raise InvalidValue(
                    f"the rows cannot be written: {str(error)[:300]}", file=self.request.location
                ) from None
            if self.stream.tell() > self._flushed:
                self._ratio = (self.stream.tell() - self._flushed) / self._waiting
                self._flushed, self._waiting = self.stream.tell(), 0

    def _write_part(self, arrays: list[pa.Array]) -> None:
        if self._has_early_moments(arrays) and self._early is None:
            tail, held, start = self._end_of_writer()
            self.stream.write(held[: start - tail.postscript.metadata_length])
            self._early = _EarlyPart(tail, self._column_sizes(tail))
        if self._early is None:
            self._write(pa.Table.from_arrays(arrays, schema=self._schema))
            return
        self._early.waiting.append(arrays)
        if self._waiting * self._ratio >= self._stripe_bytes:
            self._write_early_stripes(self._early)

    def _has_early_moments(self, arrays: list[pa.Array]) -> bool:
        found = False
        for place, (type_, array) in enumerate(zip(self._types, arrays, strict=True)):
            try:
                for one in moments_in(type_, array):
                    found |= check_moments(*one)
            except UnsupportedFeature as error:
                raise error.with_context(column=self._schema.field(place).name, file=self.request.location) from None
        return found

    def _write_early_stripes(self, early: _EarlyPart) -> None:
        if early.waiting:
            columns = [pa.concat_arrays(several) for several in zip(*early.waiting, strict=True)]
            early.waiting = []
            for stripe in early_stripes(early.tail, columns, self._options):
                early.stripes.append((self.stream.tell(), stripe))
                self.stream.write(stripe.content)

    def _write(self, table: pa.Table) -> None:
        self._sink.next_part()
        self._open_writer().write(table)
        self._sink.check()

    def _open_writer(self) -> orc.ORCWriter:
        if self._writer is None:
            raise ValueError(f"the file is closed: {self.request.location}")
        return self._writer

    def _end_of_writer(self) -> tuple[Tail, bytes, int]:
        """The tail that pyarrow's writer makes, what it wrote last, and where in that its footer begins."""
        writer = self._open_writer()
        self._sink.hold()
        try:
            writer.close()
        except pa.ArrowException as error:
            raise InvalidValue(f"the file cannot be finished: {str(error)[:300]}", file=self.request.location) from None
        self._sink.check()
        held = self._sink.held()
        tail, start = tail_of(held, self.stream.tell())
        return tail, held, start

    def _finish(self) -> Written:
        metadata, early = file_metadata(self.request), self._early
        if early is None:
            tail, held, start = self._end_of_writer()
            self.stream.write(held[:start] + with_metadata(tail, held[start:], metadata))
            offsets = tuple(stripe.offset for stripe in tail.stripes)
            return Written(self.stream.tell(), self._column_sizes(tail), offsets)
        self._write_early_stripes(early)
        self.stream.write(combined_end(early.tail, early.stripes, self.stream.tell(), metadata))
        offsets = (*(stripe.offset for stripe in early.tail.stripes), *(offset for offset, _ in early.stripes))
        sizes = early.sizes
        if sizes is not None:
            self._add_sizes(sizes, (size for _, stripe in early.stripes for size in stripe.sizes))
        return Written(self.stream.tell(), sizes, offsets)

    def abort(self) -> None:
        """Throw away what was written."""
        self._sink.drop()
        self._writer = None  # which closes itself, and so writes to nowhere
        super().abort()

    def _column_sizes(self, tail: Tail) -> dict[int, int] | None:
        """By field id, how many bytes the streams of a column take; None if it is not known of all stripes."""
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


class _EarlyPart:
    """What comes behind the stripes that pyarrow wrote: those with timestamps that it cannot write."""

    def __init__(self, tail: Tail, sizes: dict[int, int] | None) -> None:
        self.tail = tail
        self.sizes = sizes
        self.waiting: list[list[pa.Array]] = []
        self.stripes: list[tuple[int, MadeStripe]] = []


def _stream_sizes(tail: Tail, packed: bytes) -> Iterator[tuple[int, int]]:
    """The column number and size of each stream of a stripe, by the stripe's footer."""
    footer = read_fields(unpack(tail.postscript.codec, packed, tail.postscript.block_size))
    for stream in map(read_fields, bytes_of(footer, 1)):
        yield one_number(stream, 2), one_number(stream, 3)
