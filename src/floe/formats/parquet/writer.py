"""Parquet files written from Arrow batches, in the layout of the spec (spec: Appendix A, Parquet).

Every column has its field id, decimals of up to 18 digits are integers, columns of type `unknown` are omitted. Batches
are buffered until they make a row group; the compression ratio of each row group sizes the next. Around pyarrow's
writer, this module

- adds logical types to the footer that pyarrow does not write,
- chooses the columns with dictionary encoding,
- clears null marks of required fields inside null structs, which pyarrow refuses,
- omits columns of type `unknown`.
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
from floe.formats.appender import ArrowAppender, HoldingSink, WrittenFile, file_metadata
from floe.formats.columns.arrays import struct_array
from floe.formats.columns.arrow_types import arrow_field, arrow_type
from floe.formats.columns.conversion import ListBuffers
from floe.formats.model import WriteRequest
from floe.formats.parquet.footer import BINARY, BYTE, I32, STRUCT, Value, first_page, read_struct, write_struct
from floe.formats.parquet.writer_options import parquet_options, supported_options
from floe.spec.codecs.parquet_types import LogicalAnnotation, parquet_type
from floe.spec.manifests.entries import FileContent
from floe.spec.schemas.schema import Schema, with_children
from floe.spec.schemas.schema_json import schema_to_json
from floe.spec.types import EDGE_ALGORITHMS, Field, StructType

# Logical types --------------------------------------------------------------------------------------------------------
#
# pyarrow writes the values of UUID, VARIANT, GEOMETRY and GEOGRAPHY correctly, but not in every version their logical
# types. They are added to the schema in the footer, before the file is published (Parquet: Logical Types, File Format).

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


_ANNOTATIONS: dict[str, Callable[[LogicalAnnotation], dict[int, Value]]] = {
    "UUID": _uuid,
    "VARIANT": _variant,
    "GEOMETRY": _geometry,
    "GEOGRAPHY": _geography,
}


def missing_annotations(schema: Schema) -> dict[int, LogicalAnnotation]:
    """The logical types that have to be added to the footer, by field id.

    >>> from floe.spec.types import Field, GeometryType, LONG
    >>> missing_annotations(Schema((Field(1, "a", LONG), Field(2, "g", GeometryType()))))
    {2: LogicalAnnotation(name='GEOMETRY', ... crs='OGC:CRS84', ...)}
    """
    annotations = {}
    for entry in schema.by_id.values():
        stored = parquet_type(entry.field.type)
        if stored is not None and stored.logical is not None and stored.logical.name in _ANNOTATIONS:
            annotations[entry.field.id] = stored.logical
    return annotations


def add_annotations(tail: bytes, annotations: dict[int, LogicalAnnotation]) -> bytes:
    """Add logical types, by field id, to the end of a Parquet file, which must contain the whole footer."""
    length = int.from_bytes(tail[-_LENGTH_AND_MAGIC:-4], "little")
    start = len(tail) - _LENGTH_AND_MAGIC - length
    footer = read_struct(tail[start:-_LENGTH_AND_MAGIC])
    for element in _schema_elements(footer):
        field_id = element.get(_ELEMENT_ID)
        annotation = annotations.get(field_id.content) if field_id is not None else None
        if annotation is not None:
            element[_LOGICAL_TYPE] = Value(STRUCT, _ANNOTATIONS[annotation.name](annotation))
    written = write_struct(footer)
    return tail[:start] + written + len(written).to_bytes(4, "little") + tail[-4:]


def _schema_elements(footer: dict[int, Value]) -> Iterator[dict[int, Any]]:
    _, elements = footer[_SCHEMA].content
    yield from elements


# Dictionary encoding --------------------------------------------------------------------------------------------------
#
# pyarrow builds dictionaries of all columns until they grow too large, which makes columns of distinct values larger
# and slower than necessary. Like other writers, this one keeps a dictionary only if it makes the first values smaller.

_SAMPLE_ROWS = 20_000
_FIRST_ROWS = 2_000
_HIGH_DISTINCT_SHARE = 0.995
"""If more of the first rows are distinct, a dictionary does not pay off, and the whole sample is not counted."""

_LOW_DISTINCT_SHARE = 0.02
"""If fewer of the first rows are distinct, a dictionary pays off, and the whole sample is not counted."""

_LENGTH_BYTES = 4
"""The length that Parquet stores with each text or binary value."""


def choose_dictionaries(fields: list[Field], table: pa.Table) -> list[bool]:
    """For each leaf column, in the order of the file, whether it should have a dictionary.

    >>> from floe.spec.types import LONG
    >>> fields = [Field(1, "few", LONG), Field(2, "many", LONG)]
    >>> choose_dictionaries(fields, pa.table({"few": [7] * 100, "many": range(100)}))
    [True, False]
    """
    sample = table.slice(0, _SAMPLE_ROWS).combine_chunks()
    columns = [_combine_chunks(column) for column in sample.columns]
    return [
        _dictionary_pays_off(leaf)
        for field, column in zip(fields, columns, strict=True)
        for leaf in _leaf_arrays(field, column)
    ]


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([*column.chunks, pa.array([], column.type)])


def _leaf_arrays(field: Field, array: pa.Array) -> Iterator[pa.Array]:
    match field.type.kind:
        case "struct":
            for index, child in enumerate(field.type.fields):
                yield from _leaf_arrays(child, array.field(index))
        case "list":
            yield from _leaf_arrays(field.type.fields[0], ListBuffers.of(array).items(array.values))
        case "map":
            buffers = ListBuffers.of(array)
            for child, stored in zip(field.type.fields, (array.keys, array.items), strict=True):
                yield from _leaf_arrays(child, buffers.items(stored))
        case "variant":
            yield from (array.field(0), array.field(1))
        case _:
            yield array


def _dictionary_pays_off(array: pa.Array) -> bool:
    values = array.slice(0, _SAMPLE_ROWS)
    values = values.drop_null() if values.null_count else values
    if not len(values):
        return True
    if len(values) > _FIRST_ROWS:
        share: float = pc.count_distinct(values.slice(0, _FIRST_ROWS)).as_py() / _FIRST_ROWS
        if share > _HIGH_DISTINCT_SHARE or share < _LOW_DISTINCT_SHARE:
            return share < _LOW_DISTINCT_SHARE
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


# Null marks inside null structs ---------------------------------------------------------------------------------------
#
# A required field of an optional struct has no value where the struct is null. Arrow may mark it as null there, as
# arrays that come from a Parquet file do, but pyarrow refuses to write such marks. They are cleared without copying.


def has_required_children(field: Field) -> bool:
    """Whether a field contains required fields, which can only be null inside a null parent.

    >>> from floe.spec.types import INT
    >>> has_required_children(Field(1, "s", StructType((Field(2, "a", INT, required=True),))))
    True
    """
    if field.type.kind == "variant":
        return True
    return any(child.required or has_required_children(child) for child in field.type.fields)


def clear_null_marks(field: Field, array: pa.Array) -> pa.Array:
    """Clear the null marks of required fields; they must not have nulls other than those inside null parents.

    >>> from floe.spec.types import INT
    >>> struct = Field(1, "s", StructType((Field(2, "a", INT, required=True),)))
    >>> type_ = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    >>> marked = struct_array(type_, [pa.array([1, None], pa.int32())], 2, [True, False])
    >>> clear_null_marks(struct, marked).field(0).null_count, clear_null_marks(struct, marked).to_pylist()
    (0, [{'a': 1}, None])
    """
    if not has_required_children(field):
        return _drop_validity(array) if field.required and array.null_count else array
    valid = None if field.required or not array.null_count else np.asarray(array.is_valid())
    if field.type.kind == "variant":
        parts = [_drop_validity(array.field(0)), _drop_validity(array.field(1))]
        return struct_array(array.type, parts, len(array), valid)
    if isinstance(field.type, StructType):
        parts = [clear_null_marks(child, array.field(index)) for index, child in enumerate(field.type.fields)]
        return struct_array(array.type, parts, len(array), valid)
    buffers = ListBuffers.of(array)
    validity = None if field.required else buffers.validity
    children = [_clear_items(field, array, buffers)]
    return pa.Array.from_buffers(array.type, len(array), [validity, buffers.offsets], children=children)


def _clear_items(field: Field, array: pa.Array, buffers: ListBuffers) -> pa.Array:
    if field.type.kind == "list":
        return clear_null_marks(field.type.fields[0], buffers.items(array.values))
    stored: Sequence[pa.Array] = (array.keys, array.items)
    parts = [
        clear_null_marks(child, buffers.items(part)) for child, part in zip(field.type.fields, stored, strict=True)
    ]
    return struct_array(pa.struct([array.type.key_field, array.type.item_field]), parts, buffers.count)


def _drop_validity(array: pa.Array) -> pa.Array:
    """The array without its validity bitmap."""
    if not array.null_count:
        return array
    if pa.types.is_struct(array.type):
        return struct_array(array.type, [array.field(n) for n in range(array.type.num_fields)], len(array))
    if pa.types.is_list(array.type) or pa.types.is_map(array.type):
        list_buffers = ListBuffers.of(array)
        if pa.types.is_list(array.type):
            children = [list_buffers.items(array.values)]
        else:
            entry = pa.struct([array.type.key_field, array.type.item_field])
            parts = [list_buffers.items(array.keys), list_buffers.items(array.items)]
            children = [struct_array(entry, parts, list_buffers.count)]
        return pa.Array.from_buffers(array.type, len(array), [None, list_buffers.offsets], children=children)
    return pa.Array.from_buffers(array.type, len(array), [None, *array.buffers()[1:]], 0, array.offset)


# Columns of type unknown ----------------------------------------------------------------------------------------------
#
# They have only nulls, and are null wherever a file lacks them, so files omit them at the top level and inside structs.
# Structs of nothing else, and lists and maps of unknown values, cannot be stored (spec: Appendix A, Parquet).

Drop = Callable[[pa.Array], pa.Array]


def stored_fields(fields: Iterable[Field], path: tuple[str, ...] = ()) -> list[Field]:
    """The fields without those of type unknown, at any depth of structs; raises `InvalidSchema` for other uses.

    >>> from floe.spec.types import INT, UNKNOWN
    >>> inner = StructType((Field(2, "a", INT), Field(3, "u", UNKNOWN)))
    >>> [str(field) for field in stored_fields([Field(1, "s", inner), Field(4, "v", UNKNOWN)])]
    ['1: s: optional struct<2: a: optional int>']
    """
    return [_stored_field(field, (*path, field.name)) for field in fields if field.type.kind != "unknown"]


def _stored_field(field: Field, path: tuple[str, ...]) -> Field:
    if not field.type.is_nested:
        return field
    children = stored_fields(field.type.fields, path)
    if isinstance(field.type, StructType):
        if not children:
            raise InvalidSchema("Parquet cannot store a struct without fields", column=".".join(path))
    elif len(children) < len(field.type.fields):
        raise InvalidSchema("Parquet cannot store lists or maps of type unknown", column=".".join(path))
    if tuple(children) == field.type.fields:
        return field
    return replace(field, type=with_children(field.type, tuple(children)))


def drop_unknown(field: Field, stored: Field) -> Drop | None:
    """The function that converts arrays of a field to its stored form; None if both are the same."""
    if stored == field:
        return None
    target = arrow_type(stored.type)
    if isinstance(field.type, StructType):
        by_id = {child.id: (index, child) for index, child in enumerate(field.type.fields)}
        parts = [(by_id[child.id][0], drop_unknown(by_id[child.id][1], child)) for child in stored.type.fields]
        return lambda array: _drop_in_struct(array, target, parts)
    drops = [drop_unknown(old, new) for old, new in zip(field.type.fields, stored.type.fields, strict=True)]
    return lambda array: _drop_in_items(array, target, drops)


def _apply(drop: Drop | None, array: pa.Array) -> pa.Array:
    return array if drop is None else drop(array)


def _drop_in_struct(array: pa.Array, target: pa.DataType, parts: list[tuple[int, Drop | None]]) -> pa.Array:
    array = pa.concat_arrays([array]) if array.offset else array
    children = [_apply(drop, array.field(index)) for index, drop in parts]
    return pa.Array.from_buffers(target, len(array), array.buffers()[:1], children=children)


def _drop_in_items(array: pa.Array, target: pa.DataType, drops: list[Drop | None]) -> pa.Array:
    buffers = ListBuffers.of(array)
    if len(drops) == 1:
        children = [_apply(drops[0], buffers.items(array.values))]
    else:
        parts = [buffers.items(part) for part in (array.keys, array.items)]
        stored = [_apply(drop, part) for drop, part in zip(drops, parts, strict=True)]
        entries = pa.struct([target.key_field, target.item_field])
        stored = [pa.concat_arrays([part]) if part.offset else part for part in stored]
        children = [pa.Array.from_buffers(entries, buffers.count, [None], children=stored)]
    return pa.Array.from_buffers(target, len(array), [buffers.validity, buffers.offsets], children=children)


# Writer ---------------------------------------------------------------------------------------------------------------

_MAX_BUFFERED_BYTES = 256 * 1024 * 1024
"""The maximum of buffered Arrow data, however well it compresses."""

_INITIAL_RATIO = 0.5
"""The assumed ratio of bytes in the file to bytes of Arrow data, before the first row group."""

_FIXED_OPTIONS = {
    "version": "2.6",
    "store_schema": False,  # Arrow's own schema would override the types of the file when it is read
    "store_decimal_as_integer": True,
    "write_time_adjusted_to_utc": False,
    "use_compliant_nested_type": True,
    "write_page_checksum": True,
    "write_page_index": True,  # lets other readers skip pages
}


class ParquetAppender(ArrowAppender):
    """Writes a Parquet file."""

    def __init__(self, request: WriteRequest) -> None:
        fields = request.schema.fields
        self._stored_indices = [n for n, field in enumerate(fields) if field.type.kind != "unknown"]
        self._fields = stored_fields(fields)
        stored_pairs = enumerate(zip((fields[n] for n in self._stored_indices), self._fields, strict=True))
        drops = {index: drop_unknown(field, stored) for index, (field, stored) in stored_pairs}
        self._drops = {index: drop for index, drop in drops.items() if drop is not None}
        self._leaves = list(_leaves(self._fields, (), ()))
        self._options = parquet_options(
            request.properties,
            {name: path for name, path, _ in self._leaves},
            deletes=request.content != FileContent.DATA,
        )
        self._row_group_bytes, self._row_group_rows = self._options.row_group_bytes, self._options.row_group_rows
        self._annotations = missing_annotations(request.schema)
        self._with_required = {index: field for index, field in enumerate(self._fields) if has_required_children(field)}
        self._schema = pa.schema([arrow_field(field) for field in self._fields])
        self._buffered: list[pa.RecordBatch] = []
        self._buffered_bytes = self._buffered_rows = 0
        self.size_ratio: float | None = None
        super().__init__(request, "parquet")
        self._sink = HoldingSink(self.stream)
        self._writer: pq.ParquetWriter | None = None

    @property
    def length(self) -> int:
        """The size of what was written, and the approximate size of the buffered rows."""
        return self.stream.tell() + int(self._buffered_bytes * self._ratio)

    @property
    def buffered_bytes(self) -> int:
        """The size of the Arrow data that is buffered for the next row group."""
        return self._buffered_bytes

    @property
    def _ratio(self) -> float:
        return _INITIAL_RATIO if self.size_ratio is None else self.size_ratio

    def flush(self) -> None:
        """Write the buffered rows as a row group, to free their memory and to know their size."""
        self._write_row_group()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Buffer a batch, and write the row groups that it completes."""
        batch = self._to_stored(batch)
        limit = min(self._row_group_bytes / max(self._ratio, 1e-3), _MAX_BUFFERED_BYTES)
        per_row = max(batch.nbytes / batch.num_rows, 1e-3)
        start = 0
        while start < batch.num_rows:
            room = min(int((limit - self._buffered_bytes) / per_row), self._row_group_rows - self._buffered_rows)
            part = batch.slice(start, max(room, 1))
            self._buffered.append(part)
            self._buffered_bytes += int(part.num_rows * per_row)
            self._buffered_rows += part.num_rows
            start += part.num_rows
            if self._buffered_bytes + per_row > limit or self._buffered_rows >= self._row_group_rows:
                self._write_row_group()

    def _to_stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch without unknown columns and null marks that pyarrow refuses."""
        if len(self._stored_indices) < batch.num_columns:
            batch = batch.select(self._stored_indices)
        if not self._with_required and not self._drops:
            return batch
        arrays = batch.columns
        for index, drop in self._drops.items():
            arrays[index] = drop(arrays[index])
        for index, field in self._with_required.items():
            arrays[index] = clear_null_marks(field, arrays[index])
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _write_row_group(self) -> None:
        if not self._buffered:
            return
        table = pa.Table.from_batches(self._buffered, self._schema)
        before, size = self.stream.tell(), self._buffered_bytes
        self._buffered, self._buffered_bytes = [], 0
        self._buffered_rows = 0
        writer = self._open_writer(table)
        try:
            writer.write_table(table, row_group_size=max(table.num_rows, 1))
        except pa.ArrowException as error:
            raise InvalidValue(f"the rows cannot be written: {str(error)[:300]}", file=self.request.location) from None
        if size:
            self.size_ratio = (self.stream.tell() - before) / size

    def finish(self) -> WrittenFile:
        """Write the last row group and the footer."""
        self._write_row_group()
        writer = self._open_writer(self._schema.empty_table())
        self._sink.hold()
        writer.close()
        tail = self._sink.held()
        self.stream.write(add_annotations(tail, self._annotations) if self._annotations else tail)
        metadata = writer.writer.metadata
        return WrittenFile(
            self.stream.tell(),
            self._column_sizes(metadata),
            tuple(_row_group_offset(metadata.row_group(n)) for n in range(metadata.num_row_groups)),
        )

    def _open_writer(self, table: pa.Table) -> pq.ParquetWriter:
        """The writer of pyarrow, created with the first rows, which determine the columns with dictionaries."""
        if self._writer is None:
            options = {**self._options.writer, **_FIXED_OPTIONS}
            pays = dict(
                zip((path for _, path, _ in self._leaves), choose_dictionaries(self._fields, table), strict=True)
            )
            allowed = list(pays) if options["use_dictionary"] is True else options["use_dictionary"]
            options["use_dictionary"] = [path for path in allowed if pays[path]] or False
            self._writer = _make_writer(self._sink, self._schema, options, self._leaves)
            schema = json.dumps(schema_to_json(self.request.schema), separators=(",", ":"))
            self._writer.add_key_value_metadata({"iceberg.schema": schema, **file_metadata(self.request)})
        return self._writer

    def abort(self) -> None:
        """Discard what was written and buffered; does nothing after `close`."""
        self._buffered = []
        self._sink.drop()
        super().abort()

    def _column_sizes(self, metadata: pq.FileMetaData) -> dict[int, int]:
        config = self.request.effective_metrics
        sizes: dict[int, int] = {}
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            for index, (_, _, (field, is_leaf)) in enumerate(self._leaves):
                if is_leaf and config.mode(field.id).counts:
                    sizes[field.id] = sizes.get(field.id, 0) + group.column(index).total_compressed_size
        return sizes


def _row_group_offset(group: pq.RowGroupMetaData) -> int:
    """The offset of a row group in a file that pyarrow wrote, whose metadata is safe to read."""
    if not group.num_columns:
        return 4
    column = group.column(0)
    return first_page(column.data_page_offset, column.dictionary_page_offset if column.has_dictionary_page else None)


def _make_writer(
    sink: HoldingSink, schema: pa.Schema, options: dict[str, Any], leaves: list[tuple[str, str, tuple[Field, bool]]]
) -> pq.ParquetWriter:
    """Create pyarrow's writer. Well-known binary and variants have no meaningful order, so they get no statistics."""
    unordered = {path for _, path, (field, _) in leaves if field.type.kind in ("geometry", "geography", "variant")}
    with_statistics = options["write_statistics"]
    if unordered and with_statistics is not False:
        paths = [path for _, path, _ in leaves] if with_statistics is True else with_statistics
        options["write_statistics"] = [path for path in paths if path not in unordered]
    supported = supported_options(pq.ParquetWriter.__init__, options)
    supported["data_page_size"] = options["data_page_size"]  # passed on by **kwargs, so it is no parameter
    try:
        return pq.ParquetWriter(sink, schema, **supported)
    except pa.ArrowException as error:
        raise InvalidSchema(f"the columns cannot be written to Parquet: {str(error)[:300]}") from None


def _leaves(
    fields: list[Field] | tuple[Field, ...], names: tuple[str, ...], path: tuple[str, ...]
) -> Iterator[tuple[str, str, tuple[Field, bool]]]:
    """The leaf columns in the order of the file: dotted name, Parquet path, the field, and whether it is the leaf."""
    for field in fields:
        field_names, field_path = (*names, field.name), (*path, field.name)
        match field.type.kind:
            case "struct":
                yield from _leaves(field.type.fields, field_names, field_path)
            case "list":
                yield from _leaves(field.type.fields, field_names, (*field_path, "list"))
            case "map":
                yield from _leaves(field.type.fields, field_names, (*field_path, "key_value"))
            case "variant":
                for part in ("metadata", "value"):
                    yield f"{'.'.join(field_names)}.{part}", ".".join((*field_path, part)), (field, False)
            case _:
                yield ".".join(field_names), ".".join(field_path), (field, True)
