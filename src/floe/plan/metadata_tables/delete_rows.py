"""What position deletes delete: the content of delete files (Parquet, ORC, Avro) and of deletion vectors, as Arrow.

The columns of a file are found by field id, or by their names where it has none (spec: Position Delete Files). The
deleted rows, which few writers keep, are brought to the table's schema, by field id at every depth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq

from floe.avro.container import open_container
from floe.avro.records import reader
from floe.avro.schemas import parse_layout
from floe.errors import CorruptFile, UnsupportedFeature
from floe.formats.arrow_types import arrow_field, arrow_type, field_id_of
from floe.plan.metadata_tables.arrays import (
    batch_of,
    constant_array,
    list_array,
    map_array,
    null_array,
    struct_array,
)
from floe.spec.codecs.avro_reading import avro_to_type, parse_avro_schema
from floe.spec.codecs.deletion_vectors import deserialize
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.defaults import initial_value
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, Field, ListType, MapType, StructType, Type
from floe.spec.values.checks import map_items
from floe.spec.values.exact_numbers import decimal_from_unscaled
from floe.storage.protocol import Storage

__all__ = ["deleted_positions", "deleted_rows"]

_MAX_AVRO_BYTES = 2**30


def deleted_positions(storage: Storage, vector: DataFile) -> pa.Array:
    """The positions in a deletion vector, ascending; CorruptFile unless it has as many as the manifest says."""
    offset, length = vector.content_offset, vector.content_size_in_bytes
    assert offset is not None  # `check_data_file` has seen to it that the vector lies within its file
    assert length is not None
    data = storage.read_range(vector.file_path, offset, length)
    positions = deserialize(data, cardinality=vector.record_count)
    return pa.array(np.frombuffer(positions.to_array(), np.uint64).view(np.int64))


def deleted_rows(storage: Storage, file: DataFile, wanted: Schema) -> pa.RecordBatch:
    """The rows of a position delete file, in those of its columns that are wanted; it may have no `row`."""
    read = _READERS.get(file.file_format)
    if read is None:
        raise UnsupportedFeature(f"position deletes in a file of format {file.file_format}", file=file.file_path)
    stored = read(storage, file, wanted)
    found: dict[Field, pa.Array] = {}
    for field in wanted.fields:
        place = _find(list(stored.schema), field)
        if place is not None:
            found[field] = _conformed(stored.column(place), field.type)
        if field.required and (place is None or found[field].null_count):
            what = "no column" if place is None else "nulls in its column"
            raise CorruptFile(f"a position delete file has {what} {field.name!r}", file=file.file_path)
    return batch_of(Schema(tuple(found)), list(found.values()), stored.num_rows)


# files ----------------------------------------------------------------------------------------------------------------


@contextmanager
def _readable(what: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise CorruptFile(f"the {what} file cannot be read: {str(error)[:300]}") from None


def _read_parquet(storage: Storage, file: DataFile, wanted: Schema) -> pa.Table:
    with storage.open_read(file.file_path) as stream, _readable("Parquet"):
        parquet = pq.ParquetFile(stream)
        return parquet.read(columns=_names(parquet.schema_arrow, wanted))


def _read_orc(storage: Storage, file: DataFile, wanted: Schema) -> pa.Table:
    with storage.open_read(file.file_path) as stream, _readable("ORC"):
        stored = orc.ORCFile(stream)
        names = _names(stored.schema, wanted)
        # without columns ORC tells no row count, so one is read all the same
        return stored.read(columns=names or stored.schema.names[:1])


def _names(schema: pa.Schema, wanted: Schema) -> list[str]:
    fields = list(schema)
    places = (_find(fields, field) for field in wanted.fields)
    return [fields[place].name for place in places if place is not None]


def _read_avro(storage: Storage, file: DataFile, wanted: Schema) -> pa.Table:
    container = open_container(storage.read(file.file_path, max_bytes=_MAX_AVRO_BYTES))
    layout = parse_layout(container.schema_text)
    type_ = avro_to_type(parse_avro_schema(container.schema_text))
    if layout.kind != "record" or not isinstance(type_, StructType):
        raise CorruptFile("the rows of an Avro file must be records")
    read = reader(layout)
    rows: list[dict[str, Any]] = []
    for block, content in zip(container.blocks, container.decompressed(max(layout.smallest, 1)), strict=True):
        at = 0
        for _ in range(block.count):
            row, at = read(content, at)
            rows.append(row)
        if at != len(content):
            raise CorruptFile(f"{len(content) - at} bytes follow the last row of a block", position=at)
    arrays = []
    for child, name in zip(type_, (field.name for field in layout.fields), strict=True):
        convert = _from_avro(child.type)
        with _readable("Avro"):
            arrays.append(pa.array([convert(row[name]) for row in rows], arrow_type(child.type)))
    return pa.Table.from_arrays(arrays, schema=pa.schema([arrow_field(child) for child in type_]))


_READERS: dict[str, Callable[[Storage, DataFile, Schema], pa.Table]] = {
    "parquet": _read_parquet,
    "orc": _read_orc,
    "avro": _read_avro,
}


def _from_avro(type_: Type) -> Callable[[Any], Any]:
    """What makes of an Avro value one that Arrow takes."""
    convert = _convert_avro(type_)
    return lambda value: None if value is None else convert(value)


def _convert_avro(type_: Type) -> Callable[[Any], Any]:
    if isinstance(type_, StructType):
        children = [(child.name, _from_avro(child.type)) for child in type_]
        return lambda row: {name: convert(value) for (name, convert), value in zip(children, row.values(), strict=True)}
    if isinstance(type_, ListType):
        element = _from_avro(type_.element)
        return lambda items: [element(item) for item in items]
    if isinstance(type_, MapType):
        key, value = _from_avro(type_.key), _from_avro(type_.value)
        return lambda pairs: [(key(k), value(v)) for k, v in _avro_pairs(pairs)]
    if isinstance(type_, DecimalType):
        return lambda data: _decimal(type_, data)
    return _same


def _avro_pairs(stored: Any) -> list[tuple[Any, Any]]:
    """The pairs of a map, which is an array of records where keys are not strings."""
    if isinstance(stored, dict):
        return list(stored.items())
    return [tuple(pair.values()) for pair in stored]


def _decimal(type_: DecimalType, data: bytes) -> Decimal:
    return decimal_from_unscaled(int.from_bytes(data, "big", signed=True), type_.scale)


def _same(value: Any) -> Any:
    return value


# columns by field id ----------------------------------------------------------------------------------------------


def _find(stored: list[pa.Field], field: Field) -> int | None:
    """The place of a field among stored ones: by id, or by name where none of them has an id."""
    ids = [field_id_of(one) for one in stored]
    if field.id in ids:
        return ids.index(field.id)
    names = [one.name for one in stored]
    return names.index(field.name) if all(one is None for one in ids) and field.name in names else None


def _conformed(array: pa.Array, type_: Type) -> pa.Array:
    """A stored column as values of a type: children found by id, promoted types widened, missing columns filled in."""
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    if type_.kind == "unknown":
        return null_array(type_, len(array))
    if isinstance(type_, StructType) and pa.types.is_struct(array.type):
        return _conformed_struct(array, type_)
    if isinstance(type_, ListType) and pa.types.is_list(array.type):
        known, counts = _lengths(array)
        return list_array(type_, known, counts, _conformed(array.flatten(), type_.element))
    if isinstance(type_, MapType) and pa.types.is_map(array.type):
        return _conformed_map(array, type_)
    target = arrow_type(type_)
    if array.type == target:
        return array
    if type_.is_nested or pa.types.is_nested(array.type):
        raise CorruptFile(f"values of type {type_} are stored as {array.type}")
    try:
        return array.cast(target, safe=not pa.types.is_timestamp(array.type))  # ORC has nanoseconds throughout
    except pa.ArrowException:
        raise CorruptFile(f"values of type {type_} are stored as {array.type}") from None


def _conformed_struct(array: pa.StructArray, type_: StructType) -> pa.Array:
    stored = [array.type.field(n) for n in range(array.type.num_fields)]
    columns = array.flatten()
    children = []
    for child in type_:
        place = _find(stored, child)
        if place is not None:
            children.append(_conformed(columns[place], child.type))
        else:
            children.append(_filled_in(child, len(array)))
    return struct_array(type_, children, len(array), array.is_valid().to_numpy(zero_copy_only=False))


def _filled_in(field: Field, count: int) -> pa.Array:
    """A column that was added after the file was written."""
    value = initial_value(field)
    return (
        null_array(field.type, count) if value is None else constant_array(field, _for_arrow(field.type, value), count)
    )


def _for_arrow(type_: Type, value: Any) -> Any:
    """A value in the form of `floe.spec.values` as Arrow takes it."""
    if value is None:
        return None
    if isinstance(type_, StructType):
        return {child.name: _for_arrow(child.type, value.get(child.name)) for child in type_}
    if isinstance(type_, ListType):
        return [_for_arrow(type_.element, item) for item in value]
    if isinstance(type_, MapType):
        return [(_for_arrow(type_.key, k), _for_arrow(type_.value, v)) for k, v in map_items(value)]
    return value.bytes if type_.kind == "uuid" else value


def _conformed_map(array: pa.MapArray, type_: MapType) -> pa.Array:
    known, counts = _lengths(array)
    pairs = pa.struct([array.type.key_field, array.type.item_field])
    as_list = pa.Array.from_buffers(
        pa.list_(pairs), len(array), array.buffers()[:2], offset=array.offset, children=[_entries(array)]
    )
    keys, values = as_list.flatten().flatten()
    return map_array(type_, known, counts, _conformed(keys, type_.key), _conformed(values, type_.value))


def _entries(array: pa.MapArray) -> pa.StructArray:
    return pa.StructArray.from_arrays([array.keys, array.items], fields=[array.type.key_field, array.type.item_field])


def _lengths(array: pa.Array) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], np.ndarray[Any, np.dtype[np.int64]]]:
    known = array.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_map(array.type):
        edges = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset).astype(np.int64)
        return known, np.where(known, np.diff(edges), 0)
    counts = pc.fill_null(array.value_lengths(), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return known, counts
