"""Columns of manifests as Arrow arrays that can be hashed and looked up, without an object for each value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from floe.avro.entry_scanner import take_slices
from floe.errors import CorruptFile
from floe.spec.pruning.column_evaluation import Column
from floe.spec.pruning.key_columns import decimal_words
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.types import DecimalType, Type

_NAN_BITS = np.float64(np.nan).view(np.int64)


def binary_array(strings: VarBytes) -> pa.LargeBinaryArray:
    """Byte strings as an Arrow array; missing ones are null.

    >>> binary_array(VarBytes.of([b"a", None, b"bc"])).to_pylist()
    [b'a', None, b'bc']
    """
    small = compact_strings(strings)
    known = small.known
    offsets = np.append(small.starts, small.data.size)
    validity = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(small.data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(small), buffers)


def compact_strings(strings: VarBytes) -> VarBytes:
    """The same strings without the bytes between them, so that the long array they were cut from can go.

    >>> compact_strings(VarBytes(np.frombuffer(b"abcd", np.uint8), np.array([2, 0]), np.array([1, -1]))).data.tobytes()
    b'c'
    """
    sizes = np.maximum(strings.lengths, 0)
    rows = np.flatnonzero(sizes)
    begins = strings.starts[rows]
    ends = begins + sizes[rows]
    if (begins[1:] >= ends[:-1]).all():
        data = np.frombuffer(take_slices(strings.data, begins, ends)[0], np.uint8)
    else:
        data = strings.packed()[0]
    return VarBytes(data, np.cumsum(sizes) - sizes, strings.lengths)


def text_array(strings: VarBytes) -> pa.LargeStringArray:
    """Strings as an Arrow array; CorruptFile if they are not UTF-8.

    >>> text_array(VarBytes.of([b"a", None])).to_pylist()
    ['a', None]
    """
    try:
        return binary_array(strings).cast(pa.large_string())
    except pa.ArrowInvalid:
        raise CorruptFile("a path is not UTF-8") from None


def number_array(column: Column) -> pa.Int64Array:
    """Whole numbers as an Arrow array.

    >>> number_array(Column(np.array([1, 2]), np.array([True, False]))).to_pylist()
    [1, None]
    """
    values = np.ascontiguousarray(column.values, np.int64)
    return pa.array(values, mask=None if column.valid is None else ~column.valid)


def partition_key_array(type_: Type, column: Column) -> pa.Array:
    """Partition values as keys: two are equal where they are the same partition (see `delete_scope.partition_key`).

    Floats are equal by their bits, with one NaN.

    >>> from floe.spec.types import DOUBLE
    >>> keys = partition_key_array(DOUBLE, Column(np.array([0.0, -0.0, np.nan, -np.nan])))
    >>> keys[0] == keys[1], keys[2] == keys[3]
    (False, True)
    """
    values, known = column.values, column.known
    if isinstance(values, VarBytes) and isinstance(type_, DecimalType):
        high, low, _ = decimal_words(values)  # equal numbers may have several spellings
        return binary_array(VarBytes.from_words([high.view(np.uint64), low], known))
    if isinstance(values, VarBytes):
        return binary_array(VarBytes(values.data, values.starts, np.where(known, values.lengths, -1)))
    if values.dtype.kind == "f":
        bits = np.where(np.isnan(values), _NAN_BITS, np.ascontiguousarray(values, np.float64).view(np.int64))
        return number_array(Column(bits, column.valid))
    return number_array(column)
