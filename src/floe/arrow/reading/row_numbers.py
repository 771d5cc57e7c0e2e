"""Rows numbered so that equal rows have equal numbers: columns of any type, nested ones too, in bulk.

Null equals null and NaN equals NaN. Every column is turned into numbers of its distinct values; those of structs and
of several columns are combined two at a time, and a list is the bytes of its items' numbers.

>>> import pyarrow as pa
>>> row_numbers([pa.array([[1], [1, 2], [1], None, None]), pa.array(["a", "a", "a", "b", "b"])], 5).tolist()
[0, 1, 0, 2, 2]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.formats.arrow_conversion import Repeated

__all__ = ["row_numbers"]

Numbers = NDArray[np.int64]


def row_numbers(columns: Sequence[pa.Array], count: int) -> Numbers:
    """A number for each of so many rows; rows have the same number if, and only if, they are equal."""
    numbers = np.zeros(count, np.int64)
    for column in columns:
        numbers = _combined(numbers, _numbers(column))
    return numbers


def _combined(one: Numbers, other: Numbers) -> Numbers:
    """Numbers for the pairs of two columns of numbers."""
    if not len(one) or not one.any():
        return other
    return _distinct(pa.array(one * (int(other.max()) + 1) + other))


def _distinct(array: pa.Array) -> Numbers:
    encoded = array.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices).astype(np.int64)


def _numbers(array: pa.Array) -> Numbers:
    type_ = array.type
    if pa.types.is_struct(type_):
        known = np.asarray(array.is_valid()).astype(np.int64)
        children = (pc.struct_field(array, [place]) for place in range(type_.num_fields))
        return row_numbers([pa.array(known), *children], len(array))
    if pa.types.is_list(type_):
        return _repeated(array, [array.values])
    if pa.types.is_map(type_):
        return _repeated(array, [array.keys, array.items])
    if pa.types.is_null(type_):
        return np.zeros(len(array), np.int64)
    return _distinct(array)


def _repeated(array: pa.Array, children: Sequence[pa.Array]) -> Numbers:
    """Lists as the bytes of the numbers of their items."""
    parts = Repeated.of(array)
    items = row_numbers([parts.items(child) for child in children], parts.count)
    offsets = np.frombuffer(parts.offsets, np.int32, len(array) + 1).astype(np.int64) * items.itemsize
    data = pa.py_buffer(np.ascontiguousarray(items))
    return _distinct(
        pa.Array.from_buffers(pa.large_binary(), len(array), [parts.validity, pa.py_buffer(offsets), data])
    )
