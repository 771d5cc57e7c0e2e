"""List views as plain lists: Arrow's own cast of a view makes a buffer of offsets that is too short."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["has_list_views", "plain_list", "without_list_views"]


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
