"""Conversion of Arrow data between the types of files, of tables and of input data.

`make_converter` compiles the conversion of a resolved column of a file (`floe.formats.columns.file_columns`), once for
each file. Arrays of equal type are passed on; structs, lists and maps are rebuilt around their buffers, so that
renaming, reordering or dropping a nested field copies nothing but the offsets of a list.

`Conformer` converts batches that are to be written to the columns and types of a schema. Columns are matched by name at
any depth, in any order, and may have any Arrow type that represents the values of the schema's type exactly: large and
view layouts, dictionaries, narrower numbers, other time zones. A missing column gets its write default, or null (spec:
Default values).

>>> from floe.spec.types import Field, LONG, STRING
>>> schema = Schema((Field(1, "id", LONG, required=True), Field(2, "note", STRING, write_default="none")))
>>> Conformer(schema)(pa.record_batch({"id": pa.array([7], pa.int16())})).to_pylist()
[{'id': 7, 'note': 'none'}]
>>> Conformer(schema)(pa.record_batch({"idd": [7]}))
Traceback (most recent call last):
floe.errors.InvalidSchema: the data has a column that the schema does not have (column: idd); its columns are id, note
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.errors import CorruptFile, FloeError, InvalidSchema, InvalidValue
from floe.formats.columns.arrays import constant_array, struct_array, validity_buffer
from floe.formats.columns.arrow_types import arrow_schema, arrow_type
from floe.formats.columns.file_columns import child_fields, file_fields, resolve_file_columns
from floe.formats.columns.variants import assemble_variants
from floe.spec.schemas.column_projection import ColumnSource, ConstantColumn, FromFile, FromReader
from floe.spec.schemas.name_mapping import FileField
from floe.spec.schemas.schema import Schema, with_children
from floe.spec.types import TIMESTAMP, TIMESTAMPTZ, DecimalType, Field, Type
from floe.spec.values.civil_time import MICROS, NANOS, SECONDS_PER_DAY

# List views -----------------------------------------------------------------------------------------------------------


def has_list_views(type_: pa.DataType) -> bool:
    """Whether a type contains list views, at any depth of lists and structs.

    >>> has_list_views(pa.struct({"a": pa.list_view(pa.int32())})), has_list_views(pa.list_(pa.int32()))
    (True, False)
    """
    if pa.types.is_list_view(type_) or pa.types.is_large_list_view(type_):
        return True
    if _is_list(type_) or pa.types.is_struct(type_):
        return any(has_list_views(type_.field(index).type) for index in range(type_.num_fields))
    return False


def without_list_views(array: pa.Array) -> pa.Array:
    """Replace list views by large lists: Arrow's own cast of a view makes a buffer of offsets that is too short.

    >>> nested = pa.array([{"a": [1, None]}, {"a": None}, None], pa.struct({"a": pa.list_view(pa.int32())}))
    >>> without_list_views(nested).to_pylist()
    [{'a': [1, None]}, {'a': None}, None]
    """
    if not has_list_views(array.type):
        return array
    if not pa.types.is_struct(array.type):
        return plain_list(array)
    children = [without_list_views(array.field(index)) for index in range(array.type.num_fields)]
    fields = [array.type.field(index).with_type(child.type) for index, child in enumerate(children)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())


def plain_list(array: pa.Array) -> pa.Array:
    """Convert a list array of any layout to a large list, with no list views in its elements.

    >>> plain_list(pa.array([[9, 9], None, [1, 2]], pa.list_(pa.int32(), 2)).slice(1)).to_pylist()
    [None, [1, 2]]
    """
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(pc.list_value_length(array).fill_null(0), out=offsets[1:])
    items = without_list_views(array.flatten())
    type_ = pa.large_list(array.type.value_field.with_type(items.type))
    return pa.LargeListArray.from_arrays(pa.array(offsets), items, type=type_, mask=array.is_null())


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_))


# Conversion of stored arrays ------------------------------------------------------------------------------------------

Converter = Callable[[pa.Array], pa.Array]
"""Converts stored arrays of one type."""

_PLAIN_LAYOUT = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}

_TICKS_PER_DAY = {"timestamp": SECONDS_PER_DAY * MICROS, "timestamp_ns": SECONDS_PER_DAY * NANOS}


def make_converter(source: FromFile, stored: pa.DataType, path: tuple[str, ...] = ()) -> Converter:
    """Compile the conversion of a file's arrays of the type `stored` to the type of the source's field.

    The converter raises `CorruptFile` for values that cannot be converted, and for null in a required field.

    >>> from floe.spec.schemas.name_mapping import FileField
    >>> from floe.spec.types import INT, LONG
    >>> promoted = FromFile(Field(1, "n", LONG), FileField("n", "int", INT, 1), 0, "promote")
    >>> make_converter(promoted, pa.int32())(pa.array([1, None], pa.int32())).type
    DataType(int64)
    """
    path = (*path, source.field.name)
    convert = _name_errors(_converter(source, stored, path), path)
    if not source.field.required:
        return convert

    def convert_required(array: pa.Array) -> pa.Array:
        array = convert(array)
        if array.null_count:
            raise _unexpected_null(path)
        return array

    return convert_required


def _unexpected_null(path: tuple[str, ...]) -> CorruptFile:
    return CorruptFile("the file has null in a required column", column=".".join(path))


def _name_errors(convert: Converter, path: tuple[str, ...]) -> Converter:
    """The converter with errors that name the column."""

    def convert_named(array: pa.Array) -> pa.Array:
        try:
            return convert(array)
        except pa.ArrowException as error:
            raise CorruptFile(
                f"the values of a column cannot be read: {str(error)[:300]}", column=".".join(path)
            ) from None
        except FloeError as error:
            raise error.with_context(column=".".join(path)) from None

    return convert_named


def _converter(source: FromFile, stored: pa.DataType, path: tuple[str, ...]) -> Converter:
    """As `make_converter`, without the check for nulls."""
    target = arrow_type(source.field.type)
    if stored.equals(target) and not _needs_conversion(source):
        return _unchanged
    if isinstance(stored, pa.BaseExtensionType):
        inner = _converter(source, stored.storage_type, path)
        return lambda array: inner(array.storage)
    if pa.types.is_dictionary(stored):
        if stored.value_type in _PLAIN_LAYOUT:  # Arrow cannot decode such dictionaries
            plain = _PLAIN_LAYOUT[stored.value_type]
            inner = _converter(source, plain, path)
            return lambda array: inner(
                pa.DictionaryArray.from_arrays(array.indices, array.dictionary.cast(plain)).dictionary_decode()
            )
        inner = _converter(source, stored.value_type, path)
        return lambda array: inner(array.dictionary_decode())
    if pa.types.is_run_end_encoded(stored):
        inner = _converter(source, stored.value_type, path)
        return lambda array: inner(pc.run_end_decode(array))
    match source.field.type.kind:
        case "variant":
            return assemble_variants
        case "struct":
            return _struct_converter(source, stored, target, path)
        case "list":
            return _list_converter(source, stored, target, path)
        case "map":
            return _map_converter(source, stored, target, path)
    return _primitive_converter(source, stored, target)


def _unchanged(array: pa.Array) -> pa.Array:
    return array


def _needs_conversion(source: FromFile) -> bool:
    """Whether something is promoted, reordered or constant, although the types may be equal."""
    if source.conversion == "promote":
        return True
    return any(
        not isinstance(child, FromFile) or child.position != index or _needs_conversion(child)
        for index, child in enumerate(source.children)
    )


# nested types

_ChildReader = tuple[Field, Callable[[Any, int], pa.Array]]
"""A child field, and the function that returns its array from a function of stored children and a row count."""


def _child_readers(source: FromFile, stored: Sequence[pa.Field], path: tuple[str, ...]) -> list[_ChildReader]:
    """For each child of the field, the function that returns its array, given one that returns stored children."""
    readers: list[_ChildReader] = []
    for child in source.children:
        if isinstance(child, ConstantColumn):
            readers.append((child.field, _constant_reader(child)))
            continue
        if isinstance(child, FromReader):
            raise CorruptFile("a metadata column cannot be inside a struct", column=".".join((*path, child.field.name)))
        convert = _name_errors(
            _converter(child, stored[child.position].type, (*path, child.field.name)), (*path, child.field.name)
        )
        readers.append((child.field, _child_reader(convert, child.position)))
    return readers


def _constant_reader(source: ConstantColumn) -> Callable[[Any, int], pa.Array]:
    return lambda children, count: constant_array(source.field.type, source.value, count)


def _child_reader(convert: Converter, index: int) -> Callable[[Any, int], pa.Array]:
    return lambda children, count: convert(children(index))


def _struct_converter(source: FromFile, stored: pa.DataType, target: pa.DataType, path: tuple[str, ...]) -> Converter:
    children = _child_readers(source, child_fields(stored) or [], path)

    def convert(array: pa.Array) -> pa.Array:
        valid = np.asarray(array.is_valid()) if array.null_count else None
        arrays = []
        for field, child in children:
            values = child(array.field, len(array))
            _check_required(field, values, valid, path)
            arrays.append(values)
        return struct_array(target, arrays, len(array), valid)

    return convert


def _check_required(field: Field, values: pa.Array, valid: Any, path: tuple[str, ...]) -> None:
    """Raise `CorruptFile` for null in a required field, except inside null structs."""
    if not field.required or not values.null_count:
        return
    if valid is None or (np.asarray(values.is_null()) & valid).any():
        raise _unexpected_null((*path, field.name))


def _list_converter(source: FromFile, stored: pa.DataType, target: pa.DataType, path: tuple[str, ...]) -> Converter:
    ((field, element),) = _child_readers(source, child_fields(stored) or [], path)
    is_plain = pa.types.is_list(stored) or pa.types.is_large_list(stored)

    def convert(array: pa.Array) -> pa.Array:
        array = array if is_plain else plain_list(array)
        buffers = ListBuffers.of(array)
        items = buffers.items(array.values)
        values = element(lambda index: items, len(items))
        _check_required(field, values, None, path)
        return pa.Array.from_buffers(target, len(array), [buffers.validity, buffers.offsets], children=[values])

    return convert


def _map_converter(source: FromFile, stored: pa.DataType, target: pa.DataType, path: tuple[str, ...]) -> Converter:
    children = _child_readers(source, child_fields(stored) or [], path)
    entry_type = pa.struct([target.key_field, target.item_field])

    def convert(array: pa.Array) -> pa.Array:
        buffers = ListBuffers.of(array)
        stored_children = (array.keys, array.items)
        arrays = []
        for field, child in children:
            values = child(lambda index: buffers.items(stored_children[index]), buffers.count)
            _check_required(field, values, None, path)
            arrays.append(values)
        entries = struct_array(entry_type, arrays, buffers.count)
        return pa.Array.from_buffers(target, len(array), [buffers.validity, buffers.offsets], children=[entries])

    return convert


class ListBuffers:
    """The buffers of a list or map array with offsets that start at 0, even of a slice."""

    def __init__(self, validity: pa.Buffer | None, offsets: pa.Buffer, start: int, count: int) -> None:
        self.validity = validity
        self.offsets = offsets
        self.start = start
        self.count = count

    @classmethod
    def of(cls, array: pa.Array) -> ListBuffers:
        """The buffers of a list, large list or map array.

        >>> sliced = pa.array([[1], [2, 3], None]).slice(1)
        >>> buffers = ListBuffers.of(sliced)
        >>> buffers.items(sliced.values).to_pylist(), buffers.count
        ([2, 3], 2)
        """
        dtype = np.dtype(np.int64 if pa.types.is_large_list(array.type) else np.int32)
        if not len(array):
            return cls(None, pa.py_buffer(bytes(4)), 0, 0)
        offsets = np.frombuffer(array.buffers()[1], dtype, len(array) + 1, dtype.itemsize * array.offset)
        start, end = int(offsets[0]), int(offsets[-1])
        valid = np.asarray(array.is_valid()) if array.null_count else None
        rebased = np.ascontiguousarray(offsets - start, dtype=np.int32)
        return cls(validity_buffer(valid), pa.py_buffer(rebased), start, end - start)

    def items(self, children: pa.Array) -> pa.Array:
        """The items of the array, of all children of the array that it may be a slice of."""
        return children.slice(self.start, self.count)


# primitive types


def _primitive_converter(source: FromFile, stored: pa.DataType, target: pa.DataType) -> Converter:
    field_type = source.field.type
    if pa.types.is_date(stored) and pa.types.is_timestamp(target):
        ticks = _TICKS_PER_DAY[field_type.kind]
        return lambda array: _midnights(array, target, ticks)
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(target):
        # the time zone only affects display: the numbers count from 1970 in UTC either way
        unit = pa.timestamp(target.unit, stored.tz)
        return lambda array: array.cast(unit).view(target)
    if isinstance(field_type, DecimalType) and pa.types.is_decimal128(stored) and stored.scale == target.scale:
        if stored.precision <= target.precision:
            return lambda array: _retype(array, target)
        return lambda array: array.cast(target)
    if pa.types.is_binary(stored) and pa.types.is_binary(target):
        return _unchanged
    return lambda array: array.cast(target)


def _retype(array: pa.Array, target: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(target, len(array), array.buffers(), array.null_count, array.offset)


def _midnights(array: pa.Array, target: pa.DataType, ticks: int) -> pa.Array:
    """Dates as timestamps of their midnights; raises `CorruptFile` if one is out of range."""
    days = array.cast(pa.date32()).view(pa.int32()).cast(pa.int64())
    try:
        return pc.multiply_checked(days, ticks).view(target)
    except pa.ArrowInvalid:
        limit = (2**63 - 1) // ticks
        day_out_of_range = next(day for day in days.to_pylist() if day is not None and abs(day) > limit)
        raise CorruptFile(f"date {day_out_of_range} (days from 1970-01-01) is out of the range of {target}") from None


# Input batches --------------------------------------------------------------------------------------------------------

_BatchReader = Callable[[pa.RecordBatch], pa.Array]

_NULL_HINT = "replace the nulls, or make the column optional"

_COARSER: dict[tuple[str, str], Type] = {
    ("timestamp_ns", "timestamp"): TIMESTAMP,
    ("timestamptz_ns", "timestamptz"): TIMESTAMPTZ,
    ("timestamp_ns", "timestamptz"): TIMESTAMP,
    ("timestamptz_ns", "timestamp"): TIMESTAMPTZ,
}
"""Nanoseconds, the default of pandas, are written as microseconds; values that are not whole ones are an error."""


class Conformer:
    """Converts batches to the columns and types of a schema; compiled once for batches of the same schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.arrow_schema = arrow_schema(schema)
        self._fields = tuple(map(_with_write_default, schema.fields))
        self._compiled: tuple[pa.Schema, list[_BatchReader]] | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch; raises `InvalidSchema` or `InvalidValue` if its columns or values do not fit the schema."""
        if batch.schema.equals(self.arrow_schema):
            self._check_required(batch)
            return batch
        try:
            arrays = [convert(batch) for convert in self._converters(batch.schema)]
        except CorruptFile as error:
            hint = _NULL_HINT if "null in a required" in error.message else None
            raise InvalidValue(_reword(error.message), hint=hint, **error.context) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema) if arrays else batch

    def _check_required(self, batch: pa.RecordBatch) -> None:
        for index, field in enumerate(self.schema.fields):
            if field.required and batch.column(index).null_count:
                raise InvalidValue("the data has null in a required column", hint=_NULL_HINT, column=field.name)

    def _converters(self, stored: pa.Schema) -> list[_BatchReader]:
        if self._compiled is None or not self._compiled[0].equals(stored, check_metadata=False):
            self._compiled = (stored, self._compile(stored))
        return self._compiled[1]

    def _compile(self, stored: pa.Schema) -> list[_BatchReader]:
        columns = _assign_ids(file_fields(stored), self.schema.fields, ())
        try:
            sources = resolve_file_columns(Schema(self._fields), columns)
        except CorruptFile as error:
            raise InvalidSchema(_reword(error.message), **error.context) from None
        return [_batch_reader(source, stored) for source in sources]


def _reword(message: str) -> str:
    """The message of an error about a file, reworded for input data."""
    return message.replace("the file", "the data").replace("be read as", "be written as").replace("stores", "has")


def _with_write_default(field: Field) -> Field:
    """The field with its write default as initial default, which fills missing columns."""
    children = tuple(map(_with_write_default, field.type.fields))
    type_ = with_children(field.type, children) if children else field.type
    return replace(field, type=type_, initial_default=field.write_default)


def _assign_ids(columns: Iterable[FileField], fields: tuple[Field, ...], path: tuple[str, ...]) -> list[FileField]:
    """The columns with the ids of the fields of the same name."""
    by_name = {field.name: field for field in fields}
    numbered: list[FileField] = []
    for column in columns:
        field = by_name.get(column.name)
        if field is None:
            raise InvalidSchema(
                "the data has a column that the schema does not have",
                hint=f"its columns are {', '.join(list(by_name)[:20])}",
                column=".".join((*path, column.name)),
            )
        numbered.append(_assign_column_ids(column, field, path))
    return numbered


def _assign_column_ids(column: FileField, field: Field, path: tuple[str, ...]) -> FileField:
    column_path = (*path, field.name)
    if column.kind == field.type.kind and column.kind == "struct":
        return replace(
            column, id=field.id, children=tuple(_assign_ids(column.children, field.type.fields, column_path))
        )
    if column.kind == field.type.kind and column.children:
        pairs = zip(column.children, field.type.fields, strict=True)
        return replace(column, id=field.id, children=tuple(_assign_column_ids(c, f, column_path) for c, f in pairs))
    coarser = _COARSER.get((column.kind, field.type.kind))
    if coarser is not None:
        return replace(column, id=field.id, kind=coarser.kind, stored=coarser)
    return replace(column, id=field.id)


def _batch_reader(source: ColumnSource, stored: pa.Schema) -> _BatchReader:
    if isinstance(source, FromReader) and source.stored is not None:  # a column of row lineage, which files may store
        source = source.stored
    if not isinstance(source, FromFile):
        type_, value = source.field.type, source.value if isinstance(source, ConstantColumn) else None
        return lambda batch: constant_array(type_, value, batch.num_rows)
    index = source.position
    convert = make_converter(source, stored.field(index).type)
    return lambda batch: convert(batch.column(index))
