"""Parquet files written from Arrow batches, laid out as the spec says (spec: Appendix A, Parquet).

Every column has its field id, decimals of up to 18 digits are integers, columns of type `unknown` are left out. Batches
are gathered until they make a row group; how well rows compress is learned from each row group for the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from floe.errors import InvalidSchema, InvalidValue
from floe.formats.appending import ArrowAppender, Written, file_metadata
from floe.formats.arrow_types import arrow_field
from floe.formats.holding_sink import HoldingSink
from floe.formats.model import WriteRequest
from floe.formats.parquet.annotations import annotations_of, with_annotations
from floe.formats.parquet.dictionaries import worthwhile
from floe.formats.parquet.footer import first_page
from floe.formats.parquet.options import known_options, parquet_options
from floe.formats.parquet.required_fields import needs_settling, settled
from floe.formats.parquet.unknown_fields import drop_unknown, stored_fields
from floe.spec.manifests.entries import FileContent
from floe.spec.schemas.schema_json import schema_to_json
from floe.spec.types import Field

__all__ = ["ParquetAppender"]

_MAX_GATHERED = 256 * 1024 * 1024
"""How many bytes of Arrow data are gathered at most, however well they compress."""

_FIRST_GUESS = 0.5
"""How many bytes of the file one byte of Arrow data makes, until a row group has shown it."""

_ALWAYS = {
    "version": "2.6",
    "store_schema": False,  # what Arrow would store of its own types is not wanted when the file is read
    "store_decimal_as_integer": True,
    "write_time_adjusted_to_utc": False,
    "use_compliant_nested_type": True,
    "write_page_checksum": True,
    "write_page_index": True,  # by which other readers skip pages
}


class ParquetAppender(ArrowAppender):
    """A Parquet file being written."""

    def __init__(self, request: WriteRequest) -> None:
        fields = request.schema.fields
        self._stored_places = [n for n, field in enumerate(fields) if field.type.kind != "unknown"]
        self._fields = stored_fields(fields)
        pairs = enumerate(zip((fields[n] for n in self._stored_places), self._fields, strict=True))
        drops = {place: drop_unknown(field, stored) for place, (field, stored) in pairs}
        self._drops = {place: drop for place, drop in drops.items() if drop is not None}
        self._leaves = list(_leaves(self._fields, (), ()))
        self._options = parquet_options(
            request.properties,
            {name: path for name, path, _ in self._leaves},
            deletes=request.content != FileContent.DATA,
        )
        self._row_group_bytes, self._row_group_rows = self._options.row_group_bytes, self._options.row_group_rows
        self._annotations = annotations_of(request.schema)
        self._unsettled = {place: field for place, field in enumerate(self._fields) if needs_settling(field)}
        self._schema = pa.schema([arrow_field(field) for field in self._fields])
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = self._gathered_rows = 0
        self.size_ratio: float | None = None
        super().__init__(request, "parquet")
        self._sink = HoldingSink(self.stream)
        self._writer: pq.ParquetWriter | None = None

    @property
    def length(self) -> int:
        """What was written, and about what the gathered rows will make."""
        return self.stream.tell() + int(self._gathered_bytes * self._ratio)

    @property
    def gathered_bytes(self) -> int:
        """How many bytes of Arrow data wait for their row group."""
        return self._gathered_bytes

    @property
    def _ratio(self) -> float:
        return _FIRST_GUESS if self.size_ratio is None else self.size_ratio

    def flush(self) -> None:
        """End the row group with the rows so far, so that they take no memory and their size is known."""
        self._write_row_group()

    def _write_batch(self, batch: pa.RecordBatch) -> None:
        batch = self._stored_part(batch)
        most = min(self._row_group_bytes / max(self._ratio, 1e-3), _MAX_GATHERED)
        per_row = max(batch.nbytes / batch.num_rows, 1e-3)
        start = 0
        while start < batch.num_rows:
            room = min(int((most - self._gathered_bytes) / per_row), self._row_group_rows - self._gathered_rows)
            part = batch.slice(start, max(room, 1))
            self._gathered.append(part)
            self._gathered_bytes += int(part.num_rows * per_row)
            self._gathered_rows += part.num_rows
            start += part.num_rows
            if self._gathered_bytes + per_row > most or self._gathered_rows >= self._row_group_rows:
                self._write_row_group()

    def _stored_part(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch without unknown columns, as pyarrow takes it."""
        if len(self._stored_places) < batch.num_columns:
            batch = batch.select(self._stored_places)
        if not self._unsettled and not self._drops:
            return batch
        arrays = batch.columns
        for place, drop in self._drops.items():
            arrays[place] = drop(arrays[place])
        for place, field in self._unsettled.items():
            arrays[place] = settled(field, arrays[place])
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _write_row_group(self) -> None:
        if not self._gathered:
            return
        table = pa.Table.from_batches(self._gathered, self._schema)
        before, size = self.stream.tell(), self._gathered_bytes
        self._gathered, self._gathered_bytes = [], 0
        self._gathered_rows = 0
        writer = self._writer_for(table)
        try:
            writer.write_table(table, row_group_size=max(table.num_rows, 1))
        except pa.ArrowException as error:
            raise InvalidValue(f"the rows cannot be written: {str(error)[:300]}", file=self.request.location) from None
        if size:
            self.size_ratio = (self.stream.tell() - before) / size

    def _finish(self) -> Written:
        self._write_row_group()
        writer = self._writer_for(self._schema.empty_table())
        self._sink.hold()
        writer.close()
        tail = self._sink.held()
        self.stream.write(with_annotations(tail, self._annotations) if self._annotations else tail)
        metadata = writer.writer.metadata
        return Written(
            self.stream.tell(),
            self._column_sizes(metadata),
            tuple(_start_of(metadata.row_group(n)) for n in range(metadata.num_row_groups)),
        )

    def _writer_for(self, table: pa.Table) -> pq.ParquetWriter:
        """The writer of pyarrow, made when the first rows are known: they tell which columns get dictionaries."""
        if self._writer is None:
            options = {**self._options.writer, **_ALWAYS}
            pays = dict(zip((path for _, path, _ in self._leaves), worthwhile(self._fields, table), strict=True))
            allowed = list(pays) if options["use_dictionary"] is True else options["use_dictionary"]
            options["use_dictionary"] = [path for path in allowed if pays[path]] or False
            self._writer = _make_writer(self._sink, self._schema, options, self._leaves)
            schema = json.dumps(schema_to_json(self.request.schema), separators=(",", ":"))
            self._writer.add_key_value_metadata({"iceberg.schema": schema, **file_metadata(self.request)})
        return self._writer

    def abort(self) -> None:
        """Throw away what was written."""
        self._gathered = []
        self._sink.drop()
        super().abort()

    def _column_sizes(self, metadata: pq.FileMetaData) -> dict[int, int]:
        config = self.request.effective_metrics
        sizes: dict[int, int] = {}
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            for place, (_, _, (field, own)) in enumerate(self._leaves):
                if own and config.mode(field.id).counts:
                    sizes[field.id] = sizes.get(field.id, 0) + group.column(place).total_compressed_size
        return sizes


def _start_of(group: pq.RowGroupMetaData) -> int:
    """Where a row group that was written begins; only of these can pyarrow be asked."""
    if not group.num_columns:
        return 4
    column = group.column(0)
    return first_page(column.data_page_offset, column.dictionary_page_offset if column.has_dictionary_page else None)


def _make_writer(
    sink: HoldingSink, schema: pa.Schema, options: dict[str, Any], leaves: list[tuple[str, str, tuple[Field, bool]]]
) -> pq.ParquetWriter:
    """Pyarrow's writer. The order of well-known binary and of variants means nothing, so they get no statistics."""
    unordered = {path for _, path, (field, _) in leaves if field.type.kind in ("geometry", "geography", "variant")}
    counted = options["write_statistics"]
    if unordered and counted is not False:
        paths = [path for _, path, _ in leaves] if counted is True else counted
        options["write_statistics"] = [path for path in paths if path not in unordered]
    known = known_options(pq.ParquetWriter.__init__, options)
    known["data_page_size"] = options["data_page_size"]  # goes to pyarrow under no name of its own
    try:
        return pq.ParquetWriter(sink, schema, **known)
    except pa.ArrowException as error:
        raise InvalidSchema(f"the columns cannot be written to Parquet: {str(error)[:300]}") from None


def _leaves(
    fields: list[Field] | tuple[Field, ...], names: tuple[str, ...], path: tuple[str, ...]
) -> Iterator[tuple[str, str, tuple[Field, bool]]]:
    """The columns that hold values, in the file's order: dotted name, Parquet path, field, whether it is its own."""
    for field in fields:
        own, stored = (*names, field.name), (*path, field.name)
        match field.type.kind:
            case "struct":
                yield from _leaves(field.type.fields, own, stored)
            case "list":
                yield from _leaves(field.type.fields, own, (*stored, "list"))
            case "map":
                yield from _leaves(field.type.fields, own, (*stored, "key_value"))
            case "variant":
                for part in ("metadata", "value"):
                    yield f"{'.'.join(own)}.{part}", ".".join((*stored, part)), (field, False)
            case _:
                yield ".".join(own), ".".join(stored), (field, True)
