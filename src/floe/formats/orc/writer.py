"""ORC files written from Arrow batches, laid out as the spec says (spec: Appendix A, ORC).

Every column, element, key and value has its field id and what tells its type apart as attributes of its ORC type;
columns of type `unknown` are left out. The end of the file is completed with the metadata that pyarrow does not write.

Of timestamps before 1970 pyarrow writes the fractions of a second as negative numbers, which no other reader takes for
what they are. From the first such value on, stripes are made by `floe.formats.orc.early_moments`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc

from floe.errors import InvalidSchema, InvalidValue, UnsupportedFeature
from floe.formats.appending import ArrowAppender, Written, file_metadata
from floe.formats.model import WriteRequest
from floe.formats.orc.chunks import unpack
from floe.formats.orc.early_moments import MadeStripe, check_moments, early_stripes
from floe.formats.orc.endings import combined_end, tail_of, with_metadata
from floe.formats.orc.options import orc_options
from floe.formats.orc.protobuf import bytes_of, one_number, read_fields
from floe.formats.orc.sink import OrcSink
from floe.formats.orc.stored_columns import moments_in, numbered, shape_of, stored_field
from floe.formats.orc.tail import Tail
from floe.spec.manifests.entries import FileContent

__all__ = ["OrcAppender"]

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
