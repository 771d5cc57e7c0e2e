"""Functions of structs, lists and maps: construction, fields, elements and sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.values.compiled import ANY, Compiled, Function, Site, function
from floe.arrow.values.functions.comparisons import cast_to_common_type, compare
from floe.errors import InvalidValue
from floe.formats.columns.arrays import struct_array
from floe.formats.columns.arrow_types import arrow_type
from floe.spec.types import INT, STRING, Field, ListType, MapType, StructType


def member(site: Site, value: Compiled, name: str) -> Compiled:
    """Compile a field of a struct; it is null where the struct is null."""
    child = value.type.field_named(name) if isinstance(value.type, StructType) else None
    if child is None:
        field_names = ", ".join(field.name for field in value.type.fields) if isinstance(value.type, StructType) else ""
        site.fail(
            f"a value of type {value.type.kind} has no field {name!r}",
            f"its fields are {field_names}" if field_names else None,
        )
    return site.eager(child.type, [value], lambda array: pc.struct_field(array, name))


def _named_struct(site: Site, values: Sequence[Compiled]) -> Compiled:
    """Compile `named_struct('a', 1, 'b', x)`: names and values alternate."""
    if len(values) % 2:
        site.fail("named_struct takes alternating names and values")
    names = [site.constant_of(site.cast(value, STRING), "a name") for value in values[::2]]
    fields = []
    for index, (name, value) in enumerate(zip(names, values[1::2], strict=True)):
        if not name or name in names[:index]:
            site.fail(f"named_struct takes distinct names, found {name!r}")
        fields.append(Field(index + 1, name, value.type))
    type_ = StructType(tuple(fields))
    field_values = values[1::2]
    return site.eager(type_, field_values, lambda *arrays: struct_array(arrow_type(type_), arrays, len(arrays[0])))


def _array(site: Site, values: Sequence[Compiled]) -> Compiled:
    element, elements = cast_to_common_type(site, values)
    type_ = ListType(1, element)

    def kernel(*arrays: pa.Array) -> pa.Array:
        rows, width = len(arrays[0]), len(arrays)
        order = np.arange(rows * width).reshape(width, rows).T.ravel()
        items = pa.concat_arrays(arrays).take(pa.array(order))
        offsets = pa.py_buffer(np.arange(0, rows * width + 1, width, dtype=np.int32))
        return pa.Array.from_buffers(arrow_type(type_), rows, [None, offsets], children=[items])

    return site.eager(type_, elements, kernel)


def _element(from_one: bool) -> Function:
    """`list[0]` and `map['key']`; `element_at` counts elements from 1, and from the end with a negative index."""

    def compile_call(site: Site, values: Sequence[Compiled]) -> Compiled:
        value, key = values
        type_ = value.type
        if isinstance(type_, MapType):
            cast_key = site.cast(key, type_.key)
            return site.eager(type_.value, [value, cast_key], _map_values)
        if not isinstance(type_, ListType):
            site.mismatch([value], "a list or a map")
        return site.eager(
            type_.element, [value, site.cast(key, INT)], lambda array, indexes: _list_elements(array, indexes, from_one)
        )

    return function(compile_call, 2)


def _without_slice(array: pa.Array) -> pa.Array:
    """A copy of a slice, whose offsets would include the elements before it; other arrays as they are."""
    return array.take(pa.array(np.arange(len(array)))) if array.offset else array


def _list_elements(array: pa.ListArray, indexes: pa.Array, from_one: bool) -> pa.Array:
    """The element of each row at its index; raises `InvalidValue` for an index outside of a list."""
    array = _without_slice(array)
    offsets = np.asarray(array.offsets.to_numpy())
    lengths = np.diff(offsets)
    requested = pc.fill_null(indexes, 1).to_numpy(zero_copy_only=False).astype(np.int64)
    is_known = np.asarray(pc.and_(array.is_valid(), indexes.is_valid()).to_numpy(zero_copy_only=False))
    element_indexes = np.where(requested > 0, requested - 1, lengths + requested) if from_one else requested
    outside = is_known & ((element_indexes < 0) | (element_indexes >= lengths) | (from_one & (requested == 0)))
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise InvalidValue(f"a list of {int(lengths[row])} elements has none at {int(requested[row])}")
    chosen = pa.array(np.where(is_known, offsets[:-1] + element_indexes, 0), mask=~is_known)
    return array.values.take(chosen)


def _map_values(array: pa.MapArray, keys: pa.Array) -> pa.Array:
    """The value of each row's key; null where the map does not have the key. Of equal keys the last one counts."""
    array = _without_slice(array)
    offsets = np.asarray(array.offsets.to_numpy())
    rows = np.repeat(np.arange(len(array)), np.diff(offsets))
    map_keys = array.keys.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    same = pc.fill_null(compare("=", map_keys, keys.take(pa.array(rows))), False).to_numpy(zero_copy_only=False)
    item_indexes = np.full(len(array), -1)
    matches = np.flatnonzero(same)
    item_indexes[rows[matches]] = matches + offsets[0]
    has_item = (item_indexes >= 0) & np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
    return array.items.take(pa.array(np.where(has_item, item_indexes, 0), mask=~has_item))


def _size(site: Site, values: Sequence[Compiled]) -> Compiled:
    if values[0].type.kind not in ("list", "map"):
        site.mismatch(values, "a list or a map")
    return site.eager(INT, values, lambda array: pc.cast(_lengths(array), pa.int32()))


def _lengths(array: pa.Array) -> pa.Array:
    array = _without_slice(array)
    counts = pa.array(np.diff(np.asarray(array.offsets.to_numpy())).astype(np.int32))
    return pc.if_else(array.is_valid(), counts, pa.scalar(None, pa.int32()))


FUNCTIONS: dict[str, Function] = {
    "named_struct": function(_named_struct, 2, ANY),
    "array": function(_array, 1, ANY),
    "element_at": _element(from_one=True),
    "element_at_index": _element(from_one=False),
    **dict.fromkeys(("size", "cardinality"), function(_size, 1)),
}
