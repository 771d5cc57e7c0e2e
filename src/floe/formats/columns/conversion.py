"""Arrays as a file gives them, turned into the arrays that a table wants: at any depth, copied only where they differ.

`make_converter` follows a resolved column (`floe.formats.file_columns`) and is made once for a file. Types that are
equal
are passed on as they are; structs, lists and maps are put together anew around their buffers, so that renaming,
reordering or dropping a nested field copies nothing but a list's offsets.

Batches that somebody wants to write, brought to the columns and types of a schema, by name and at any depth.

Columns may come in any order and in any Arrow type that holds values of the schema's exactly: large and view layouts,
dictionaries, narrower numbers, other time zones. A column that is left out is filled with its write default, or with
null (spec: Default values).

>>> from floe.spec.types import Field, LONG, STRING
>>> schema = Schema((Field(1, "id", LONG, required=True), Field(2, "note", STRING, write_default="none")))
>>> Conformer(schema)(pa.record_batch({"id": pa.array([7], pa.int16())})).to_pylist()
[{'id': 7, 'note': 'none'}]
>>> Conformer(schema)(pa.record_batch({"idd": [7]}))
Traceback (most recent call last):
floe.errors.InvalidSchema: the data has a column that the schema has not (column: idd); its columns are id, note

List views as plain lists: Arrow's own cast of a view makes a buffer of offsets that is too short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.errors import CorruptFile, FloeError, InvalidSchema, InvalidValue
from floe.formats.arrow_arrays import constant_array, struct_array, validity_buffer
from floe.formats.arrow_types import arrow_schema, arrow_type
from floe.formats.file_columns import file_fields, find_columns, stored_children
from floe.formats.variants import assemble_variants
from floe.spec.schemas.column_projection import ColumnSource, ConstantColumn, FromFile, FromReader
from floe.spec.schemas.name_mapping import FileField
from floe.spec.schemas.schema import Schema, with_children
from floe.spec.types import TIMESTAMP, TIMESTAMPTZ, DecimalType, Field, Type
from floe.spec.values.civil_time import MICROS, NANOS, SECONDS_PER_DAY

# List views as plain lists: Arrow's own cast of a view makes a buffer of offsets that is too short.


def has_list_views(type_: pa.DataType) -> bool:
    """Whether there are list views in a type, at any depth of lists and structs.

    >>> has_list_views(pa.struct({"a": pa.list_view(pa.int32())})), has_list_views(pa.list_(pa.int32()))
    (True, False)
    """
    if pa.types.is_list_view(type_) or pa.types.is_large_list_view(type_):
        return True
    if _is_list(type_) or pa.types.is_struct(type_):
        return any(has_list_views(type_.field(place).type) for place in range(type_.num_fields))
    return False


def without_list_views(array: pa.Array) -> pa.Array:
    """The same values with large lists in the place of views.

    >>> nested = pa.array([{"a": [1, None]}, {"a": None}, None], pa.struct({"a": pa.list_view(pa.int32())}))
    >>> without_list_views(nested).to_pylist()
    [{'a': [1, None]}, {'a': None}, None]
    """
    if not has_list_views(array.type):
        return array
    if not pa.types.is_struct(array.type):
        return plain_list(array)
    children = [without_list_views(array.field(place)) for place in range(array.type.num_fields)]
    fields = [array.type.field(place).with_type(child.type) for place, child in enumerate(children)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())


def plain_list(array: pa.Array) -> pa.Array:
    """A list of any layout as a large list, whose elements have no list views either.

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


Converter = Callable[[pa.Array], pa.Array]

_PLAIN_LAYOUT = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}

_TICKS_PER_DAY = {"timestamp": SECONDS_PER_DAY * MICROS, "timestamp_ns": SECONDS_PER_DAY * NANOS}


def make_converter(source: FromFile, stored: pa.DataType, path: tuple[str, ...] = ()) -> Converter:
    """The function from a file's arrays of a type to arrays of the wanted field's type.

    >>> from floe.spec.schemas.name_mapping import FileField
    >>> from floe.spec.types import INT, LONG
    >>> promoted = FromFile(Field(1, "n", LONG), FileField("n", "int", INT, 1), 0, "promote")
    >>> make_converter(promoted, pa.int32())(pa.array([1, None], pa.int32())).type
    DataType(int64)
    """
    path = (*path, source.field.name)
    convert = _named(_converter(source, stored, path), path)
    if not source.field.required:
        return convert

    def without_nulls(array: pa.Array) -> pa.Array:
        array = convert(array)
        if array.null_count:
            raise _unexpected_null(path)
        return array

    return without_nulls


def _unexpected_null(path: tuple[str, ...]) -> CorruptFile:
    return CorruptFile("the file has null in a required column", column=".".join(path))


def _named(convert: Converter, path: tuple[str, ...]) -> Converter:
    """The same, with errors that name the column."""

    def named(array: pa.Array) -> pa.Array:
        try:
            return convert(array)
        except pa.ArrowException as error:
            raise CorruptFile(
                f"the values of a column cannot be read: {str(error)[:300]}", column=".".join(path)
            ) from None
        except FloeError as error:
            raise error.with_context(column=".".join(path)) from None

    return named


def _converter(source: FromFile, stored: pa.DataType, path: tuple[str, ...]) -> Converter:
    """As `make_converter`, whatever may be null."""
    wanted = arrow_type(source.field.type)
    if stored.equals(wanted) and not _needs_work(source):
        return _same
    if isinstance(stored, pa.BaseExtensionType):
        inner = _converter(source, stored.storage_type, path)
        return lambda array: inner(array.storage)
    if pa.types.is_dictionary(stored):
        if stored.value_type in _PLAIN_LAYOUT:  # Arrow takes no values out of these
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
            return _struct(source, stored, wanted, path)
        case "list":
            return _list(source, stored, wanted, path)
        case "map":
            return _map(source, stored, wanted, path)
    return _leaf(source, stored, wanted)


def _same(array: pa.Array) -> pa.Array:
    return array


def _needs_work(source: FromFile) -> bool:
    """Whether some part does not come from the file's place for it, although the types may look equal."""
    if source.conversion == "promote":
        return True
    return any(
        not isinstance(child, FromFile) or child.position != place or _needs_work(child)
        for place, child in enumerate(source.children)
    )


# nested ---------------------------------------------------------------------------------------------------------------

_Child = tuple[Field, Callable[[pa.Array, int], pa.Array]]


def _children(source: FromFile, stored: Sequence[pa.Field], path: tuple[str, ...]) -> list[_Child]:
    """For each wanted child, the function from the stored parent's children to its array."""
    made: list[_Child] = []
    for child in source.children:
        if isinstance(child, ConstantColumn):
            made.append((child.field, _constant(child)))
            continue
        if isinstance(child, FromReader):
            raise CorruptFile("a metadata column inside a struct", column=".".join((*path, child.field.name)))
        convert = _named(
            _converter(child, stored[child.position].type, (*path, child.field.name)), (*path, child.field.name)
        )
        made.append((child.field, _picked(convert, child.position)))
    return made


def _constant(source: ConstantColumn) -> Callable[[Any, int], pa.Array]:
    return lambda children, count: constant_array(source.field.type, source.value, count)


def _picked(convert: Converter, place: int) -> Callable[[Any, int], pa.Array]:
    return lambda children, count: convert(children(place))


def _struct(source: FromFile, stored: pa.DataType, wanted: pa.DataType, path: tuple[str, ...]) -> Converter:
    children = _children(source, stored_children(stored) or [], path)

    def convert(array: pa.Array) -> pa.Array:
        known = np.asarray(array.is_valid()) if array.null_count else None
        made = []
        for field, child in children:
            values = child(array.field, len(array))
            _check_required(field, values, known, path)
            made.append(values)
        return struct_array(wanted, made, len(array), known)

    return convert


def _check_required(field: Field, values: pa.Array, known: Any, path: tuple[str, ...]) -> None:
    """Raise if there are nulls that the field does not allow; those within null structs are none."""
    if not field.required or not values.null_count:
        return
    if known is None or (np.asarray(values.is_null()) & known).any():
        raise _unexpected_null((*path, field.name))


def _list(source: FromFile, stored: pa.DataType, wanted: pa.DataType, path: tuple[str, ...]) -> Converter:
    ((field, element),) = _children(source, stored_children(stored) or [], path)
    is_plain = pa.types.is_list(stored) or pa.types.is_large_list(stored)

    def convert(array: pa.Array) -> pa.Array:
        array = array if is_plain else plain_list(array)
        parts = ListBuffers.of(array)
        items = parts.items(array.values)
        values = element(lambda place: items, len(items))
        _check_required(field, values, None, path)
        return pa.Array.from_buffers(wanted, len(array), [parts.validity, parts.offsets], children=[values])

    return convert


def _map(source: FromFile, stored: pa.DataType, wanted: pa.DataType, path: tuple[str, ...]) -> Converter:
    children = _children(source, stored_children(stored) or [], path)
    entry_type = pa.struct([wanted.key_field, wanted.item_field])

    def convert(array: pa.Array) -> pa.Array:
        parts = ListBuffers.of(array)
        stored_parts = (array.keys, array.items)
        made = []
        for field, child in children:
            values = child(lambda place: parts.items(stored_parts[place]), parts.count)
            _check_required(field, values, None, path)
            made.append(values)
        entries = struct_array(entry_type, made, parts.count)
        return pa.Array.from_buffers(wanted, len(array), [parts.validity, parts.offsets], children=[entries])

    return convert


class ListBuffers:
    """The buffers of a list or map array, which may be a slice of another, with offsets that count from 0."""

    def __init__(self, validity: pa.Buffer | None, offsets: pa.Buffer, start: int, count: int) -> None:
        self.validity = validity
        self.offsets = offsets
        self.start = start
        self.count = count

    @classmethod
    def of(cls, array: pa.Array) -> ListBuffers:
        """The parts of a list, large list or map array.

        >>> sliced = pa.array([[1], [2, 3], None]).slice(1)
        >>> parts = ListBuffers.of(sliced)
        >>> parts.items(sliced.values).to_pylist(), parts.count
        ([2, 3], 2)
        """
        dtype = np.dtype(np.int64 if pa.types.is_large_list(array.type) else np.int32)
        if not len(array):
            return cls(None, pa.py_buffer(bytes(4)), 0, 0)
        offsets = np.frombuffer(array.buffers()[1], dtype, len(array) + 1, dtype.itemsize * array.offset)
        start, end = int(offsets[0]), int(offsets[-1])
        known = np.asarray(array.is_valid()) if array.null_count else None
        rebased = np.ascontiguousarray(offsets - start, dtype=np.int32)
        return cls(validity_buffer(known), pa.py_buffer(rebased), start, end - start)

    def items(self, children: pa.Array) -> pa.Array:
        """Those of the children that belong to the array."""
        return children.slice(self.start, self.count)


# single values --------------------------------------------------------------------------------------------------------


def _leaf(source: FromFile, stored: pa.DataType, wanted: pa.DataType) -> Converter:
    field_type = source.field.type
    if pa.types.is_date(stored) and pa.types.is_timestamp(wanted):
        ticks = _TICKS_PER_DAY[field_type.kind]
        return lambda array: _moments(array, wanted, ticks)
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(wanted):
        # a zone is a matter of display: the numbers count from 1970 in UTC either way
        unit = pa.timestamp(wanted.unit, stored.tz)
        return lambda array: array.cast(unit).view(wanted)
    if isinstance(field_type, DecimalType) and pa.types.is_decimal128(stored) and stored.scale == wanted.scale:
        if stored.precision <= wanted.precision:
            return lambda array: _retyped(array, wanted)
        return lambda array: array.cast(wanted)
    if pa.types.is_binary(stored) and pa.types.is_binary(wanted):
        return _same
    return lambda array: array.cast(wanted)


def _retyped(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(wanted, len(array), array.buffers(), array.null_count, array.offset)


def _moments(array: pa.Array, wanted: pa.DataType, ticks: int) -> pa.Array:
    """Dates as the midnights that they begin with, if these are in range."""
    days = array.cast(pa.date32()).view(pa.int32()).cast(pa.int64())
    try:
        return pc.multiply_checked(days, ticks).view(wanted)
    except pa.ArrowInvalid:
        limit = (2**63 - 1) // ticks
        found = next(day for day in days.to_pylist() if day is not None and abs(day) > limit)
        raise CorruptFile(f"date {found} (days from 1970-01-01) is out of the range of {wanted}") from None


# Batches that somebody wants to write, brought to the columns and types of a schema, by name and at any depth.

_Maker = Callable[[pa.RecordBatch], pa.Array]

_NO_NULLS = "leave no null there, or make the column optional"

_COARSER: dict[tuple[str, str], Type] = {
    ("timestamp_ns", "timestamp"): TIMESTAMP,
    ("timestamptz_ns", "timestamptz"): TIMESTAMPTZ,
    ("timestamp_ns", "timestamptz"): TIMESTAMP,
    ("timestamptz_ns", "timestamp"): TIMESTAMPTZ,
}
"""Nanoseconds, which pandas gives by default, are taken as microseconds where they are whole ones."""


class Conformer:
    """Makes batches of a schema; what it needs to know of the data's own schema is worked out once."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.arrow_schema = arrow_schema(schema)
        self._fields = tuple(map(_filled_when_written, schema.fields))
        self._compiled: tuple[pa.Schema, list[_Maker]] | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the columns and types of the schema."""
        if batch.schema.equals(self.arrow_schema):
            self._check_required(batch)
            return batch
        try:
            arrays = [make(batch) for make in self._makers(batch.schema)]
        except CorruptFile as error:
            hint = _NO_NULLS if "null in a required" in error.message else None
            raise InvalidValue(_about_data(error.message), hint=hint, **error.context) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema) if arrays else batch

    def _check_required(self, batch: pa.RecordBatch) -> None:
        for place, field in enumerate(self.schema.fields):
            if field.required and batch.column(place).null_count:
                raise InvalidValue("the data has null in a required column", hint=_NO_NULLS, column=field.name)

    def _makers(self, stored: pa.Schema) -> list[_Maker]:
        if self._compiled is None or not self._compiled[0].equals(stored, check_metadata=False):
            self._compiled = (stored, self._compile(stored))
        return self._compiled[1]

    def _compile(self, stored: pa.Schema) -> list[_Maker]:
        columns = _numbered(file_fields(stored), self.schema.fields, ())
        try:
            sources = find_columns(Schema(self._fields), columns)
        except CorruptFile as error:
            raise InvalidSchema(_about_data(error.message), **error.context) from None
        return [_maker(source, stored) for source in sources]


def _about_data(message: str) -> str:
    """What reading would say of a file, said of the data at hand."""
    return message.replace("the file", "the data").replace("be read as", "be written as").replace("stores", "has")


def _filled_when_written(field: Field) -> Field:
    """The field with its write default where reading looks for the initial one."""
    children = tuple(map(_filled_when_written, field.type.fields))
    type_ = with_children(field.type, children) if children else field.type
    return replace(field, type=type_, initial_default=field.write_default)


def _numbered(columns: Iterable[FileField], fields: tuple[Field, ...], path: tuple[str, ...]) -> list[FileField]:
    """The columns with the ids that the fields of the same names have."""
    by_name = {field.name: field for field in fields}
    found: list[FileField] = []
    for column in columns:
        field = by_name.get(column.name)
        if field is None:
            raise InvalidSchema(
                "the data has a column that the schema has not",
                hint=f"its columns are {', '.join(list(by_name)[:20])}",
                column=".".join((*path, column.name)),
            )
        found.append(_numbered_column(column, field, path))
    return found


def _numbered_column(column: FileField, field: Field, path: tuple[str, ...]) -> FileField:
    inside = (*path, field.name)
    if column.kind == field.type.kind and column.kind == "struct":
        return replace(column, id=field.id, children=tuple(_numbered(column.children, field.type.fields, inside)))
    if column.kind == field.type.kind and column.children:
        pairs = zip(column.children, field.type.fields, strict=True)
        return replace(column, id=field.id, children=tuple(_numbered_column(c, f, inside) for c, f in pairs))
    coarser = _COARSER.get((column.kind, field.type.kind))
    if coarser is not None:
        return replace(column, id=field.id, kind=coarser.kind, stored=coarser)
    return replace(column, id=field.id)


def _maker(source: ColumnSource, stored: pa.Schema) -> _Maker:
    if isinstance(source, FromReader) and source.stored is not None:  # row lineage, which files may store
        source = source.stored
    if not isinstance(source, FromFile):
        type_, value = source.field.type, source.value if isinstance(source, ConstantColumn) else None
        return lambda batch: constant_array(type_, value, batch.num_rows)
    place = source.position
    convert = make_converter(source, stored.field(place).type)
    return lambda batch: convert(batch.column(place))
