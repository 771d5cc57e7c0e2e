"""ORC files written from Arrow batches, laid out as the spec says (spec: Appendix A, ORC).

Every column, element, key and value has its field id and what tells its type apart as attributes of its ORC type;
columns of type `unknown` are left out. The end of the file is completed with the metadata that pyarrow does not write.

Of timestamps before 1970 pyarrow writes the fractions of a second as negative numbers, which no other reader takes for
what they are. Such values are refused, rather than written so that they come back as others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc

from floe.errors import CorruptFile, InvalidSchema, InvalidValue, UnsupportedFeature
from floe.formats.appending import ArrowAppender, Written, file_metadata
from floe.formats.arrow_conversion import Repeated
from floe.formats.arrow_types import arrow_type
from floe.formats.model import WriteRequest
from floe.formats.orc.chunks import NONE, pack_plain, unpack
from floe.formats.orc.options import orc_options
from floe.formats.orc.protobuf import bytes_of, one_number, read_fields, write_fields
from floe.formats.orc.tail import Tail, parse_footer, parse_postscript
from floe.spec.codecs.orc_types import field_attributes
from floe.spec.manifests.entries import FileContent
from floe.spec.types import Field, ListType, MapType, StructType, Type
from floe.spec.values.civil_time import MICROS, NANOS
from floe.storage.protocol import Data, FileWriter

__all__ = ["OrcAppender"]

_KEPT_BYTES = 4 * 2**20
_ROWS_AT_LEAST, _ROWS_AT_ONCE = 2**10, 2**16
_FIRST_GUESS = 0.4
"""How many bytes of the file one byte of Arrow data makes, until a stripe has shown it."""

_TICKS = {
    **dict.fromkeys(("timestamp", "timestamptz"), MICROS),
    **dict.fromkeys(("timestamp_ns", "timestamptz_ns"), NANOS),
}
"""How many units of each kind of timestamp make a second."""


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
        self._schema = pa.schema([_stored_field(field) for field in stored])
        self._shapes = [_shape(field.type) for field in stored]
        self._columns = [None, *_numbered(stored, ())]
        numbers = {name: number for number, column in enumerate(self._columns) if column for name in [column[0]]}
        options = orc_options(request.properties, numbers, deletes=request.content != FileContent.DATA)
        self._stripe_bytes = options["stripe_size"]
        super().__init__(request, "orc")
        self._sink = _Sink(self.stream)
        self._writer: orc.ORCWriter | None = None
        self._waiting = 0
        self._flushed = 0
        self._ratio = _FIRST_GUESS
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
            arrays = [self._shaped(part, place, shape) for place, shape in zip(self._places, self._shapes, strict=True)]
            try:
                self._write(pa.Table.from_arrays(arrays, schema=self._schema))
            except pa.ArrowException as error:
                raise InvalidValue(
                    f"the rows cannot be written: {str(error)[:300]}", file=self.request.location
                ) from None
            self._waiting += part.nbytes
            if self.stream.tell() > self._flushed:
                self._ratio = (self.stream.tell() - self._flushed) / self._waiting
                self._flushed, self._waiting = self.stream.tell(), 0

    def _shaped(self, batch: pa.RecordBatch, place: int, shape: Shape) -> pa.Array:
        try:
            return shape(batch.column(place))
        except UnsupportedFeature as error:
            raise error.with_context(column=batch.schema.field(place).name, file=self.request.location) from None

    def _write(self, table: pa.Table) -> None:
        self._sink.next_part()
        self._open_writer().write(table)
        self._sink.check()

    def _open_writer(self) -> orc.ORCWriter:
        if self._writer is None:
            raise ValueError(f"the file is closed: {self.request.location}")
        return self._writer

    def _finish(self) -> Written:
        writer = self._open_writer()
        self._sink.hold()
        try:
            writer.close()
        except pa.ArrowException as error:
            raise InvalidValue(f"the file cannot be finished: {str(error)[:300]}", file=self.request.location) from None
        self._sink.check()
        held = self._sink.held()
        tail, start = _tail_of(held, self.stream.tell())
        self.stream.write(held[:start] + _with_metadata(tail, held[start:], file_metadata(self.request)))
        offsets = tuple(stripe.offset for stripe in tail.stripes)
        return Written(self.stream.tell(), self._column_sizes(tail), offsets)

    def abort(self) -> None:
        """Throw away what was written."""
        self._sink.discard()
        self._writer = None  # which closes itself, and so writes to nowhere
        super().abort()

    def _column_sizes(self, tail: Tail) -> dict[int, int] | None:
        """By field id, how many bytes the streams of a column take; None if it is not known of all stripes."""
        config = self.request.effective_metrics
        sizes: dict[int, int] = {}
        for stripe in tail.stripes:
            packed = self._sink.kept(stripe.end - stripe.footer_length, stripe.footer_length)
            if packed is None:
                return None
            for number, size in _stream_sizes(tail, packed):
                column = self._columns[number] if number < len(self._columns) else None
                if column is not None and config.mode(column[1]).counts:
                    sizes[column[1]] = sizes.get(column[1], 0) + size
        return sizes


def _stream_sizes(tail: Tail, packed: bytes) -> Iterator[tuple[int, int]]:
    """The column number and size of each stream of a stripe, by the stripe's footer."""
    footer = read_fields(unpack(tail.postscript.codec, packed, tail.postscript.block_size))
    for stream in map(read_fields, bytes_of(footer, 1)):
        yield one_number(stream, 2), one_number(stream, 3)


Shape = Callable[[pa.Array], pa.Array]
"""From arrays of the type that `arrow_type` gives to those that are written."""


# what is stored -------------------------------------------------------------------------------------------------------


def _stored_type(type_: Type) -> pa.DataType:
    """The Arrow type that pyarrow writes as the ORC type of a type."""
    if isinstance(type_, StructType):
        return pa.struct([_stored_field(child) for child in _stored_children(type_)])
    if isinstance(type_, ListType):
        return pa.list_(_stored_field(type_.element_field))
    if isinstance(type_, MapType):
        return pa.map_(_stored_field(type_.key_field), _stored_field(type_.value_field))
    if type_.kind == "time":
        return pa.int64()
    if type_.kind in ("uuid", "fixed"):
        return pa.binary()
    return arrow_type(type_)


def _stored_children(type_: StructType) -> list[Field]:
    return [child for child in type_.fields if child.type.kind != "unknown"]


def _stored_field(field: Field) -> pa.Field:
    if field.type.kind == "unknown":
        raise UnsupportedFeature(
            "ORC has no form for lists and maps of type unknown", hint="give the elements a type", column=field.name
        )
    attributes = field_attributes(field)
    return pa.field(field.name, _stored_type(field.type), nullable=field.optional, metadata=attributes)


def _shape(type_: Type) -> Shape:
    """What makes the arrays of a type those that are written.

    Structs are copied where they are a part of a longer one, of which pyarrow would write the wrong rows.
    """
    wanted = _stored_type(type_)
    if isinstance(type_, StructType):
        return _struct_shape(type_, wanted)
    if isinstance(type_, ListType):
        return _repeated_shape([_shape(type_.element)], wanted)
    if isinstance(type_, MapType):
        return _repeated_shape([_shape(type_.key), _shape(type_.value)], wanted)
    if type_.kind == "time":
        return lambda array: array.view(wanted)
    if type_.kind in ("uuid", "fixed"):
        return lambda array: array.cast(wanted)
    if type_.kind in _TICKS:
        return lambda array: _without_early_fractions(array, _TICKS[type_.kind])
    return (lambda array: pa.concat_arrays([array])) if type_.kind == "variant" else (lambda array: array)


def _without_early_fractions(array: pa.Array, ticks: int) -> pa.Array:
    numbers = np.asarray(array.view(pa.int64()).fill_null(0))
    if ((numbers < 0) & (numbers % ticks != 0)).any():
        raise UnsupportedFeature(
            "timestamps before 1970 with fractions of a second cannot be written to ORC",
            hint="write the rows to Parquet or Avro",
        )
    return array


def _struct_shape(type_: StructType, wanted: pa.DataType) -> Shape:
    places = [place for place, child in enumerate(type_.fields) if child.type.kind != "unknown"]
    shapes = [_shape(type_.fields[place].type) for place in places]

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
        parts = Repeated.of(array)
        stored = [array.values] if len(shapes) == 1 else [array.keys, array.items]
        made = [_whole(own(parts.items(part))) for own, part in zip(shapes, stored, strict=True)]
        if len(made) == 2:
            entries = pa.struct([wanted.key_field, wanted.item_field])
            made = [pa.Array.from_buffers(entries, parts.count, [None], children=made)]
        return pa.Array.from_buffers(wanted, len(array), [parts.validity, parts.offsets], children=made)

    return shape


def _numbered(fields: Sequence[Field], path: tuple[str, ...]) -> Iterator[tuple[str, int] | None]:
    """The dotted name and id of each type of the file, in the order of their numbers; a variant's parts have none."""
    for field in fields:
        own = (*path, field.name)
        yield ".".join(own), field.id
        if field.type.kind == "variant":
            yield from (None, None)
        elif field.type.is_nested:
            children = _stored_children(field.type) if isinstance(field.type, StructType) else field.type.fields
            yield from _numbered(children, own)


# the end of the file --------------------------------------------------------------------------------------------------


def _tail_of(held: bytes, written: int) -> tuple[Tail, int]:
    """The tail at the end of some bytes, before which so many were written, and where its footer begins there."""
    script = parse_postscript(held)
    end = len(held) - script.length
    start = end - script.footer_length
    if start < 0:
        raise CorruptFile("the ORC writer wrote its footer too early")
    return parse_footer(script, held[start:end], written + start - script.metadata_length), start


def _with_metadata(tail: Tail, end: bytes, metadata: dict[str, str]) -> bytes:
    """The footer and postscript with key-value metadata; a message is made longer by writing on."""
    if not metadata:
        return end
    script = tail.postscript
    entries = [(5, write_fields([(1, key.encode()), (2, value.encode())])) for key, value in metadata.items()]
    more = write_fields(entries)
    if script.codec != NONE:
        more = pack_plain(more, script.block_size)
    footer = end[: -script.length] + more
    fields = [(number, value) for number, values in script.fields.items() if number != 1 for value in values]
    postscript = write_fields([(1, len(footer)), *fields])
    return footer + postscript + bytes([len(postscript)])


class _Sink:
    """The stream, as pyarrow writes to it; what comes last can be held back, and the ends of stripes are kept.

    Errors are kept too, and raised by `check`: the ORC writer inside pyarrow does not survive a write that fails.
    """

    def __init__(self, stream: FileWriter) -> None:
        self._stream = stream
        self._held: list[bytes] | None = None
        self._ends: list[tuple[int, bytes]] = []
        self._part: deque[bytes] = deque()
        self._part_bytes = 0
        self._error: BaseException | None = None
        self._discarding = False
        self.closed = False
        self.mode = "wb"

    def write(self, data: Data) -> int:
        own = bytes(data)
        if self._discarding:
            return len(own)
        if self._held is not None:
            self._held.append(own)
            return len(own)
        self._part.append(own)
        self._part_bytes += len(own)
        while self._part_bytes - len(self._part[0]) > _KEPT_BYTES:
            self._part_bytes -= len(self._part.popleft())
        try:
            self._stream.write(own)
        except BaseException as error:
            self._error, self._discarding = error, True
        return len(own)

    def check(self) -> None:
        """Raise what a write has raised."""
        if self._error is not None:
            raise self._error

    def discard(self) -> None:
        """Whatever is still written goes nowhere."""
        self._discarding = True

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
        self.next_part()
        self._held = []

    def held(self) -> bytes:
        """What was held back, which is the end of the file."""
        data = b"".join(self._held or ())
        self._ends.append((self._stream.tell(), data))
        self._held = None
        return data

    def tell(self) -> int:
        return self._stream.tell() + sum(map(len, self._held or ()))

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False
