"""Arrays as a file gives them, turned into the arrays that a table wants: at any depth, copied only where they differ.

`converter` follows a resolved column (`floe.formats.file_columns`) and is made once for a file. Types that are equal
are passed on as they are; structs, lists and maps are put together anew around their buffers, so that renaming,
reordering or dropping a nested field copies nothing but a list's offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.errors import CorruptFile, FloeError
from floe.formats.arrow_types import arrow_type
from floe.formats.arrow_values import constant_array, struct_array, validity_buffer
from floe.formats.file_columns import stored_children
from floe.formats.list_views import plain_list
from floe.formats.variant_shredding import assemble_variants
from floe.spec.schemas.column_resolution import FromFile, FromReader, SameForAll
from floe.spec.types import DecimalType, Field
from floe.spec.values.civil_time import MICROS, NANOS, SECONDS_PER_DAY

__all__ = ["Converter", "Repeated", "converter"]

Converter = Callable[[pa.Array], pa.Array]

_PLAIN_LAYOUT = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}

_TICKS_PER_DAY = {"timestamp": SECONDS_PER_DAY * MICROS, "timestamp_ns": SECONDS_PER_DAY * NANOS}


def converter(source: FromFile, stored: pa.DataType, path: tuple[str, ...] = ()) -> Converter:
    """The function from a file's arrays of a type to arrays of the wanted field's type.

    >>> from floe.spec.schemas.file_fields import FileField
    >>> from floe.spec.types import INT, LONG
    >>> promoted = FromFile(Field(1, "n", LONG), FileField("n", "int", INT, 1), 0, "promote")
    >>> converter(promoted, pa.int32())(pa.array([1, None], pa.int32())).type
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
    """As `converter`, whatever may be null."""
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
        if isinstance(child, SameForAll):
            made.append((child.field, _constant(child)))
            continue
        if isinstance(child, FromReader):
            raise CorruptFile("a metadata column inside a struct", column=".".join((*path, child.field.name)))
        convert = _named(
            _converter(child, stored[child.position].type, (*path, child.field.name)), (*path, child.field.name)
        )
        made.append((child.field, _picked(convert, child.position)))
    return made


def _constant(source: SameForAll) -> Callable[[Any, int], pa.Array]:
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
        parts = Repeated.of(array)
        items = parts.items(array.values)
        values = element(lambda place: items, len(items))
        _check_required(field, values, None, path)
        return pa.Array.from_buffers(wanted, len(array), [parts.validity, parts.offsets], children=[values])

    return convert


def _map(source: FromFile, stored: pa.DataType, wanted: pa.DataType, path: tuple[str, ...]) -> Converter:
    children = _children(source, stored_children(stored) or [], path)
    entry_type = pa.struct([wanted.key_field, wanted.item_field])

    def convert(array: pa.Array) -> pa.Array:
        parts = Repeated.of(array)
        stored_parts = (array.keys, array.items)
        made = []
        for field, child in children:
            values = child(lambda place: parts.items(stored_parts[place]), parts.count)
            _check_required(field, values, None, path)
            made.append(values)
        entries = struct_array(entry_type, made, parts.count)
        return pa.Array.from_buffers(wanted, len(array), [parts.validity, parts.offsets], children=[entries])

    return convert


class Repeated:
    """The buffers of a list or map array, which may be a slice of another, with offsets that count from 0."""

    def __init__(self, validity: pa.Buffer | None, offsets: pa.Buffer, start: int, count: int) -> None:
        self.validity = validity
        self.offsets = offsets
        self.start = start
        self.count = count

    @classmethod
    def of(cls, array: pa.Array) -> Repeated:
        """The parts of a list, large list or map array.

        >>> sliced = pa.array([[1], [2, 3], None]).slice(1)
        >>> parts = Repeated.of(sliced)
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
