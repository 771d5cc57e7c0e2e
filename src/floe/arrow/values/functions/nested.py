"""Structs, lists and maps: made, and looked into."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.values.compiled import ANY, Compiled, Known, Site, known
from floe.arrow.values.functions.comparisons import compare, in_common
from floe.errors import InvalidValue
from floe.formats.arrow_arrays import struct_array
from floe.formats.arrow_types import arrow_type
from floe.spec.types import INT, STRING, Field, ListType, MapType, StructType


def member(site: Site, value: Compiled, name: str) -> Compiled:
    """A field of a struct; null where the struct is null."""
    child = value.type.field_named(name) if isinstance(value.type, StructType) else None
    if child is None:
        known_names = ", ".join(one.name for one in value.type.fields) if isinstance(value.type, StructType) else ""
        site.fail(
            f"a value of type {value.type.kind} has no field {name!r}",
            f"its fields are {known_names}" if known_names else None,
        )
    return site.eager(child.type, [value], lambda array: pc.struct_field(array, name))


def _named_struct(site: Site, values: Sequence[Compiled]) -> Compiled:
    """`named_struct('a', 1, 'b', x)`: names and values in turn."""
    if len(values) % 2:
        site.fail("named_struct takes names and values in turn")
    names = [site.constant_of(site.cast(value, STRING), "a name") for value in values[::2]]
    fields = []
    for number, (name, value) in enumerate(zip(names, values[1::2], strict=True)):
        if not name or name in names[:number]:
            site.fail(f"named_struct takes names that differ, found {name!r}")
        fields.append(Field(number + 1, name, value.type))
    type_ = StructType(tuple(fields))
    given = values[1::2]
    return site.eager(type_, given, lambda *arrays: struct_array(arrow_type(type_), arrays, len(arrays[0])))


def _array(site: Site, values: Sequence[Compiled]) -> Compiled:
    element, given = in_common(site, values)
    type_ = ListType(1, element)

    def kernel(*arrays: pa.Array) -> pa.Array:
        rows, width = len(arrays[0]), len(arrays)
        order = np.arange(rows * width).reshape(width, rows).T.ravel()
        items = pa.concat_arrays(arrays).take(pa.array(order))
        offsets = pa.py_buffer(np.arange(0, rows * width + 1, width, dtype=np.int32))
        return pa.Array.from_buffers(arrow_type(type_), rows, [None, offsets], children=[items])

    return site.eager(type_, given, kernel)


def _element(from_one: bool) -> Known:
    """`list[0]` and `map['key']`; `element_at` counts from 1, and negative places from the end."""

    def make(site: Site, values: Sequence[Compiled]) -> Compiled:
        value, key = values
        type_ = value.type
        if isinstance(type_, MapType):
            wanted = site.cast(key, type_.key)
            return site.eager(type_.value, [value, wanted], _looked_up)
        if not isinstance(type_, ListType):
            site.mismatch([value], "a list or a map")
        return site.eager(
            type_.element, [value, site.cast(key, INT)], lambda array, places: _at(array, places, from_one)
        )

    return known(make, 2)


def _at(array: pa.ListArray, places: pa.Array, from_one: bool) -> pa.Array:
    array = array.take(pa.array(np.arange(len(array)))) if array.offset else array
    offsets = np.asarray(array.offsets.to_numpy())
    lengths = np.diff(offsets)
    wanted = pc.fill_null(places, 1).to_numpy(zero_copy_only=False).astype(np.int64)
    known_rows = np.asarray(pc.and_(array.is_valid(), places.is_valid()).to_numpy(zero_copy_only=False))
    at = np.where(wanted > 0, wanted - 1, lengths + wanted) if from_one else wanted
    outside = known_rows & ((at < 0) | (at >= lengths) | (from_one & (wanted == 0)))
    if outside.any():
        place = int(np.flatnonzero(outside)[0])
        raise InvalidValue(f"a list of {int(lengths[place])} elements has none at {int(wanted[place])}")
    chosen = pa.array(np.where(known_rows, offsets[:-1] + at, 0), mask=~known_rows)
    return array.values.take(chosen)


def _looked_up(array: pa.MapArray, keys: pa.Array) -> pa.Array:
    """The value of each row's key; null where the map has no such key. Of equal keys the last counts."""
    array = array.take(pa.array(np.arange(len(array)))) if array.offset else array
    offsets = np.asarray(array.offsets.to_numpy())
    rows = np.repeat(np.arange(len(array)), np.diff(offsets))
    stored = array.keys.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    same = pc.fill_null(compare("=", stored, keys.take(pa.array(rows))), False).to_numpy(zero_copy_only=False)
    found = np.full(len(array), -1)
    hits = np.flatnonzero(same)
    found[rows[hits]] = hits + offsets[0]
    known_rows = (found >= 0) & np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
    return array.items.take(pa.array(np.where(known_rows, found, 0), mask=~known_rows))


def _size(site: Site, values: Sequence[Compiled]) -> Compiled:
    if values[0].type.kind not in ("list", "map"):
        site.mismatch(values, "a list or a map")
    return site.eager(INT, values, lambda array: pc.cast(_lengths(array), pa.int32()))


def _lengths(array: pa.Array) -> pa.Array:
    array = array.take(pa.array(np.arange(len(array)))) if array.offset else array
    counts = pa.array(np.diff(np.asarray(array.offsets.to_numpy())).astype(np.int32))
    return pc.if_else(array.is_valid(), counts, pa.scalar(None, pa.int32()))


FUNCTIONS: dict[str, Known] = {
    "named_struct": known(_named_struct, 2, ANY),
    "array": known(_array, 1, ANY),
    "element_at": _element(from_one=True),
    "element_at_index": _element(from_one=False),
    **dict.fromkeys(("size", "cardinality"), known(_size, 1)),
}
