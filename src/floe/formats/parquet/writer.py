"""Parquet files written from Arrow batches, laid out as the spec says (spec: Appendix A, Parquet).

Every column has its field id, decimals of up to 18 digits are integers, columns of type `unknown` are left out. Batches
are gathered until they make a row group; how well rows compress is learned from each row group for the next.

Logical types that pyarrow does not write, put into the footer of a file: UUID, VARIANT, GEOMETRY, GEOGRAPHY.

pyarrow writes the values of these types rightly, but not in every version what they mean. The footer's schema is so
completed after it has made the footer, and before the file is published (Parquet: Logical Types, File Format).

Which columns are worth a dictionary: those whose first values, as a dictionary and numbers, take less than plainly.

pyarrow builds dictionaries of all columns until they grow too large, which makes columns of distinct values larger and
slower than they need be. Other writers give a dictionary up when its first page does not pay; this is the same test.

Nulls of required fields that only stand inside null structs, taken away: pyarrow's Parquet writer refuses them.

A required field of an optional struct has no value where the struct is null. Arrow may mark it as null there, and so do
arrays that come from a Parquet file; pyarrow writes them only unmarked. The marks are dropped, and nothing is copied.

Columns of type unknown left out of Parquet files, at the top and inside structs (spec: Appendix A, Parquet).

They hold nothing but nulls, and read as such wherever a file lacks them. What would be left without any column, and
lists and maps of unknown values, have no form in Parquet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from floe.errors import InvalidSchema, InvalidValue
from floe.formats.appender import ArrowAppender, HoldingSink, Written, file_metadata
from floe.formats.arrow_arrays import struct_array
from floe.formats.arrow_conversion import ListBuffers
from floe.formats.arrow_types import arrow_field, arrow_type
from floe.formats.model import WriteRequest
from floe.formats.parquet.footer import BINARY, BYTE, I32, STRUCT, Value, first_page, read_struct, write_struct
from floe.formats.parquet.writer_options import known_options, parquet_options
from floe.spec.codecs.parquet_types import LogicalAnnotation, parquet_type
from floe.spec.manifests.entries import FileContent
from floe.spec.schemas.schema import Schema, with_children
from floe.spec.schemas.schema_json import schema_to_json
from floe.spec.types import EDGE_ALGORITHMS, Field, StructType

# Logical types that pyarrow does not write, put into the footer of a file: UUID, VARIANT, GEOMETRY, GEOGRAPHY.

_SCHEMA, _ELEMENT_ID, _LOGICAL_TYPE = 2, 9, 10
_LENGTH_AND_MAGIC = 8


def _text(text: str | None) -> Value:
    return Value(BINARY, (text or "").encode())


def _uuid(annotation: LogicalAnnotation) -> dict[int, Value]:
    return {14: Value(STRUCT, {})}


def _variant(annotation: LogicalAnnotation) -> dict[int, Value]:
    return {16: Value(STRUCT, {1: Value(BYTE, annotation.version)})}


def _geometry(annotation: LogicalAnnotation) -> dict[int, Value]:
    return {17: Value(STRUCT, {1: _text(annotation.crs)})}


def _geography(annotation: LogicalAnnotation) -> dict[int, Value]:
    algorithm = EDGE_ALGORITHMS.index((annotation.algorithm or EDGE_ALGORITHMS[0]).lower())
    return {18: Value(STRUCT, {1: _text(annotation.crs), 2: Value(I32, algorithm)})}


_UNIONS: dict[str, Callable[[LogicalAnnotation], dict[int, Value]]] = {
    "UUID": _uuid,
    "VARIANT": _variant,
    "GEOMETRY": _geometry,
    "GEOGRAPHY": _geography,
}


def annotations_of(schema: Schema) -> dict[int, LogicalAnnotation]:
    """The annotations that have to be put in, by field id.

    >>> from floe.spec.types import Field, GeometryType, LONG
    >>> annotations_of(Schema((Field(1, "a", LONG), Field(2, "g", GeometryType()))))
    {2: LogicalAnnotation(name='GEOMETRY', ... crs='OGC:CRS84', ...)}
    """
    found = {}
    for entry in schema.by_id.values():
        stored = parquet_type(entry.field.type)
        if stored is not None and stored.logical is not None and stored.logical.name in _UNIONS:
            found[entry.field.id] = stored.logical
    return found


def with_annotations(tail: bytes, annotations: dict[int, LogicalAnnotation]) -> bytes:
    """The end of a Parquet file, which holds the whole footer, with annotations for columns of some ids."""
    length = int.from_bytes(tail[-_LENGTH_AND_MAGIC:-4], "little")
    start = len(tail) - _LENGTH_AND_MAGIC - length
    footer = read_struct(tail[start:-_LENGTH_AND_MAGIC])
    for element in _elements(footer):
        found = element.get(_ELEMENT_ID)
        annotation = annotations.get(found.content) if found is not None else None
        if annotation is not None:
            element[_LOGICAL_TYPE] = Value(STRUCT, _UNIONS[annotation.name](annotation))
    written = write_struct(footer)
    return tail[:start] + written + len(written).to_bytes(4, "little") + tail[-4:]


def _elements(footer: dict[int, Value]) -> Iterator[dict[int, Any]]:
    _, elements = footer[_SCHEMA].content
    yield from elements


# Which columns are worth a dictionary: those whose first values, as a dictionary and numbers, take less than plainly.

_SAMPLE_ROWS = 20_000
_FIRST_ROWS = 2_000
_NEARLY_ALL = 0.995
"""Where so many of the first rows are distinct, those of the sample are too; where hardly any are, they pay."""

_HARDLY_ANY = 0.02
_LENGTH_BYTES = 4
"""What Parquet stores with each text or binary value."""


def worthwhile(fields: list[Field], table: pa.Table) -> list[bool]:
    """For each column of values, in the file's order, whether it should have a dictionary.

    >>> from floe.spec.types import LONG
    >>> fields = [Field(1, "few", LONG), Field(2, "many", LONG)]
    >>> worthwhile(fields, pa.table({"few": [7] * 100, "many": range(100)}))
    [True, False]
    """
    sample = table.slice(0, _SAMPLE_ROWS).combine_chunks()
    columns = [_joined(column) for column in sample.columns]
    return [_pays(leaf) for field, column in zip(fields, columns, strict=True) for leaf in _leaf_arrays(field, column)]


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([*column.chunks, pa.array([], column.type)])


def _leaf_arrays(field: Field, array: pa.Array) -> Iterator[pa.Array]:
    match field.type.kind:
        case "struct":
            for place, child in enumerate(field.type.fields):
                yield from _leaf_arrays(child, array.field(place))
        case "list":
            yield from _leaf_arrays(field.type.fields[0], ListBuffers.of(array).items(array.values))
        case "map":
            parts = ListBuffers.of(array)
            for child, stored in zip(field.type.fields, (array.keys, array.items), strict=True):
                yield from _leaf_arrays(child, parts.items(stored))
        case "variant":
            yield from (array.field(0), array.field(1))
        case _:
            yield array


def _pays(array: pa.Array) -> bool:
    values = array.slice(0, _SAMPLE_ROWS)
    values = values.drop_null() if values.null_count else values
    if not len(values):
        return True
    if len(values) > _FIRST_ROWS:
        share: float = pc.count_distinct(values.slice(0, _FIRST_ROWS)).as_py() / _FIRST_ROWS
        if share > _NEARLY_ALL or share < _HARDLY_ANY:
            return share < _HARDLY_ANY
    distinct = values.unique()
    plain = _plain_bytes(values)
    numbers = len(values) * max(len(distinct) - 1, 1).bit_length() / 8
    return _plain_bytes(distinct) + numbers < plain


def _plain_bytes(values: pa.Array) -> float:
    if pa.types.is_boolean(values.type):
        return len(values) / 8
    if pa.types.is_binary(values.type) or pa.types.is_string(values.type):
        return float((pc.sum(pc.binary_length(values)).as_py() or 0) + _LENGTH_BYTES * len(values))
    return float(len(values) * values.type.bit_width / 8)


# Nulls of required fields that only stand inside null structs, taken away: pyarrow's Parquet writer refuses them.


def needs_settling(field: Field) -> bool:
    """Whether something inside a field is required, so that it can be null by way of what is around it alone.

    >>> from floe.spec.types import INT
    >>> needs_settling(Field(1, "s", StructType((Field(2, "a", INT, required=True),))))
    True
    """
    if field.type.kind == "variant":
        return True
    return any(child.required or needs_settling(child) for child in field.type.fields)


def settled(field: Field, array: pa.Array) -> pa.Array:
    """The array without marks of null in required fields; that it has no other nulls there must be known.

    >>> from floe.spec.types import INT
    >>> struct = Field(1, "s", StructType((Field(2, "a", INT, required=True),)))
    >>> type_ = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    >>> marked = struct_array(type_, [pa.array([1, None], pa.int32())], 2, [True, False])
    >>> settled(struct, marked).field(0).null_count, settled(struct, marked).to_pylist()
    (0, [{'a': 1}, None])
    """
    if not needs_settling(field):
        return _unmarked(array) if field.required and array.null_count else array
    known = None if field.required or not array.null_count else np.asarray(array.is_valid())
    if field.type.kind == "variant":
        parts = [_unmarked(array.field(0)), _unmarked(array.field(1))]
        return struct_array(array.type, parts, len(array), known)
    if isinstance(field.type, StructType):
        parts = [settled(child, array.field(place)) for place, child in enumerate(field.type.fields)]
        return struct_array(array.type, parts, len(array), known)
    repeated = ListBuffers.of(array)
    validity = None if field.required else repeated.validity
    children = [_inside(field, array, repeated)]
    return pa.Array.from_buffers(array.type, len(array), [validity, repeated.offsets], children=children)


def _inside(field: Field, array: pa.Array, repeated: ListBuffers) -> pa.Array:
    if field.type.kind == "list":
        return settled(field.type.fields[0], repeated.items(array.values))
    stored: Sequence[pa.Array] = (array.keys, array.items)
    parts = [settled(child, repeated.items(part)) for child, part in zip(field.type.fields, stored, strict=True)]
    return struct_array(pa.struct([array.type.key_field, array.type.item_field]), parts, repeated.count)


def _unmarked(array: pa.Array) -> pa.Array:
    """The same values, none of them null."""
    if not array.null_count:
        return array
    if pa.types.is_struct(array.type):
        return struct_array(array.type, [array.field(n) for n in range(array.type.num_fields)], len(array))
    if pa.types.is_list(array.type) or pa.types.is_map(array.type):
        repeated = ListBuffers.of(array)
        if pa.types.is_list(array.type):
            children = [repeated.items(array.values)]
        else:
            entry = pa.struct([array.type.key_field, array.type.item_field])
            parts = [repeated.items(array.keys), repeated.items(array.items)]
            children = [struct_array(entry, parts, repeated.count)]
        return pa.Array.from_buffers(array.type, len(array), [None, repeated.offsets], children=children)
    return pa.Array.from_buffers(array.type, len(array), [None, *array.buffers()[1:]], 0, array.offset)


# Columns of type unknown left out of Parquet files, at the top and inside structs (spec: Appendix A, Parquet).

Drop = Callable[[pa.Array], pa.Array]


def stored_fields(fields: Iterable[Field], path: tuple[str, ...] = ()) -> list[Field]:
    """The fields without those of type unknown, at any depth of structs.

    >>> from floe.spec.types import INT, UNKNOWN
    >>> inner = StructType((Field(2, "a", INT), Field(3, "u", UNKNOWN)))
    >>> [str(field) for field in stored_fields([Field(1, "s", inner), Field(4, "v", UNKNOWN)])]
    ['1: s: optional struct<2: a: optional int>']
    """
    return [_stored(field, (*path, field.name)) for field in fields if field.type.kind != "unknown"]


def _stored(field: Field, path: tuple[str, ...]) -> Field:
    if not field.type.is_nested:
        return field
    children = stored_fields(field.type.fields, path)
    if isinstance(field.type, StructType):
        if not children:
            raise InvalidSchema("Parquet has no struct without fields", column=".".join(path))
    elif len(children) < len(field.type.fields):
        raise InvalidSchema("Parquet has no lists or maps of unknown values", column=".".join(path))
    if tuple(children) == field.type.fields:
        return field
    return replace(field, type=with_children(field.type, tuple(children)))


def drop_unknown(field: Field, stored: Field) -> Drop | None:
    """What makes arrays of a field those of its stored form; None if both are the same."""
    if stored == field:
        return None
    wanted = arrow_type(stored.type)
    if isinstance(field.type, StructType):
        by_id = {child.id: (place, child) for place, child in enumerate(field.type.fields)}
        parts = [(by_id[child.id][0], drop_unknown(by_id[child.id][1], child)) for child in stored.type.fields]
        return lambda array: _struct(array, wanted, parts)
    inside = [drop_unknown(old, new) for old, new in zip(field.type.fields, stored.type.fields, strict=True)]
    return lambda array: _repeated(array, wanted, inside)


def _applied(drop: Drop | None, array: pa.Array) -> pa.Array:
    return array if drop is None else drop(array)


def _struct(array: pa.Array, wanted: pa.DataType, parts: list[tuple[int, Drop | None]]) -> pa.Array:
    array = pa.concat_arrays([array]) if array.offset else array
    children = [_applied(drop, array.field(place)) for place, drop in parts]
    return pa.Array.from_buffers(wanted, len(array), array.buffers()[:1], children=children)


def _repeated(array: pa.Array, wanted: pa.DataType, inside: list[Drop | None]) -> pa.Array:
    repeated = ListBuffers.of(array)
    if len(inside) == 1:
        children = [_applied(inside[0], repeated.items(array.values))]
    else:
        parts = [repeated.items(part) for part in (array.keys, array.items)]
        made = [_applied(drop, part) for drop, part in zip(inside, parts, strict=True)]
        entries = pa.struct([wanted.key_field, wanted.item_field])
        made = [pa.concat_arrays([part]) if part.offset else part for part in made]
        children = [pa.Array.from_buffers(entries, repeated.count, [None], children=made)]
    return pa.Array.from_buffers(wanted, len(array), [repeated.validity, repeated.offsets], children=children)


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
