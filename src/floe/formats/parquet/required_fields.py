"""Nulls of required fields that only stand inside null structs, taken away: pyarrow's Parquet writer refuses them.

A required field of an optional struct has no value where the struct is null. Arrow may mark it as null there, and so do
arrays that come from a Parquet file; pyarrow writes them only unmarked. The marks are dropped, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from floe.formats.arrow_conversion import Repeated
from floe.formats.arrow_values import struct_array
from floe.spec.types import Field, StructType

__all__ = ["needs_settling", "settled"]


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
    repeated = Repeated.of(array)
    validity = None if field.required else repeated.validity
    children = [_inside(field, array, repeated)]
    return pa.Array.from_buffers(array.type, len(array), [validity, repeated.offsets], children=children)


def _inside(field: Field, array: pa.Array, repeated: Repeated) -> pa.Array:
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
        repeated = Repeated.of(array)
        if pa.types.is_list(array.type):
            children = [repeated.items(array.values)]
        else:
            entry = pa.struct([array.type.key_field, array.type.item_field])
            parts = [repeated.items(array.keys), repeated.items(array.items)]
            children = [struct_array(entry, parts, repeated.count)]
        return pa.Array.from_buffers(array.type, len(array), [None, repeated.offsets], children=children)
    return pa.Array.from_buffers(array.type, len(array), [None, *array.buffers()[1:]], 0, array.offset)
