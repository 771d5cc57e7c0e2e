"""Columns of manifest entries as Arrow arrays, and back, for all rows at once and without an object for each value.

The layouts of `Column` are those of `floe.spec.pruning.column_evaluation`. Strings and partition values become arrays
that can be hashed and looked up (`text_array`, `partition_key_array`); `column_to_array` and `array_to_column` convert
columns of any primitive type, and `struct_array`, `list_array` and `map_array` build nested ones.

>>> from floe.spec.types import DATE, STRING
>>> column_to_array(DATE, Column(np.array([0, 19_000]), np.array([True, False]))).to_pylist()
[datetime.date(1970, 1, 1), None]
>>> column_to_array(STRING, Column(VarBytes.of([b"a", None]))).to_pylist()
['a', None]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.avro.entry_scanner import take_slices
from floe.errors import CorruptFile
from floe.formats.columns.arrays import validity_buffer
from floe.formats.columns.arrow_types import arrow_field, arrow_schema, arrow_type
from floe.formats.columns.projection import rows_without_columns
from floe.spec.pruning.column_evaluation import Column
from floe.spec.pruning.key_columns import decimal_words
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.pruning.ranges import WIDE_DECIMAL_BYTES
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, FixedType, ListType, MapType, Type

_NAN_BITS = np.float64(np.nan).view(np.int64)


def binary_array(strings: VarBytes) -> pa.LargeBinaryArray:
    """Byte strings as an Arrow array; missing ones are null.

    >>> binary_array(VarBytes.of([b"a", None, b"bc"])).to_pylist()
    [b'a', None, b'bc']
    """
    compact = compact_strings(strings)
    is_valid = compact.is_valid
    offsets = np.append(compact.starts, compact.data.size)
    validity = None if is_valid.all() else pa.py_buffer(np.packbits(is_valid, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(compact.data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(compact), buffers)


def compact_strings(strings: VarBytes) -> VarBytes:
    """The same strings without the bytes between them, so that the buffer they are slices of can be released.

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
    values, is_valid = column.values, column.is_valid
    if isinstance(values, VarBytes) and isinstance(type_, DecimalType):
        high, low, _ = decimal_words(values)  # equal numbers may have several spellings
        return binary_array(VarBytes.from_words([high.view(np.uint64), low], is_valid))
    if isinstance(values, VarBytes):
        return binary_array(VarBytes(values.data, values.starts, np.where(is_valid, values.lengths, -1)))
    if values.dtype.kind == "f":
        bits = np.where(np.isnan(values), _NAN_BITS, np.ascontiguousarray(values, np.float64).view(np.int64))
        return number_array(Column(bits, column.valid))
    return number_array(column)


# Arrays of all types ----------------------------------------------------------------------------------------------


Array = NDArray[Any]

_INT32 = (-(2**31), 2**31 - 1)
_MAX_OFFSET = 2**31 - 1


def column_to_array(type_: Type, column: Column) -> pa.Array:
    """The Arrow array of a column of primitive values; raises `CorruptFile` if a value does not fit the type."""
    values, is_valid = column.values, column.is_valid
    nulls = None if is_valid.all() else ~is_valid
    if type_.kind == "unknown":
        return pa.nulls(len(is_valid))
    if isinstance(type_, DecimalType):
        return _decimals(type_, values, is_valid)
    if isinstance(values, VarBytes):
        if column.valid is not None:
            values = VarBytes(values.data, values.starts, np.where(is_valid, values.lengths, -1))
        return strings_to_array(type_, values)
    if type_.kind == "boolean":
        return pa.array(values != 0, mask=nulls)
    if type_.kind in ("float", "double"):
        return pa.array(values, arrow_type(type_), mask=nulls)
    if type_.kind in ("int", "date"):
        values = np.where(is_valid, values, 0)
        if values.size and (values.min() < _INT32[0] or values.max() > _INT32[1]):
            raise CorruptFile(f"a value of type {type_} has 32 bits, found {int(values[np.argmax(np.abs(values))])}")
        return pa.array(values.astype(np.int32), mask=nulls).view(arrow_type(type_))
    return pa.array(values.astype(np.int64, copy=False), mask=nulls).view(arrow_type(type_))


def _decimals(type_: DecimalType, values: Array | VarBytes, is_valid: Mask) -> pa.Array:
    if isinstance(values, VarBytes):
        high, low, readable = decimal_words(values)
        if not readable[is_valid].all():
            raise CorruptFile(f"a value of type {type_} has 1 to {WIDE_DECIMAL_BYTES} bytes")
    else:
        low = values.astype(np.int64).view(np.uint64)
        high = low.view(np.int64) >> 63
    words = np.empty((len(is_valid), 2), "<u8")
    words[:, 0], words[:, 1] = low, high.view(np.uint64)
    wide = pa.decimal128(38, type_.scale)
    decimals = pa.Array.from_buffers(wide, len(is_valid), [validity_buffer(is_valid), pa.py_buffer(words)])
    try:
        decimals.validate(full=True)
        return decimals.cast(arrow_type(type_))
    except pa.ArrowInvalid:
        raise CorruptFile(f"a value of type {type_} has at most {type_.precision} digits") from None


def strings_to_array(type_: Type, strings: VarBytes) -> pa.Array:
    """The Arrow array of byte strings: text, or bytes of a fixed or variable length."""
    is_valid = strings.is_valid
    width = type_.length if isinstance(type_, FixedType) else 16 if type_.kind == "uuid" else None
    if width is not None and (strings.lengths[is_valid] != width).any():
        raise CorruptFile(f"a value of type {type_} has {width} bytes")
    compact = compact_strings(strings)
    if compact.data.size > _MAX_OFFSET:
        raise CorruptFile(f"the strings of one column have {compact.data.size} bytes; at most {_MAX_OFFSET} are read")
    target = arrow_type(type_)
    offsets = np.append(compact.starts, compact.data.size).astype(np.int32)
    buffers = [validity_buffer(is_valid), pa.py_buffer(offsets), pa.py_buffer(compact.data)]
    array = pa.Array.from_buffers(target if width is None else pa.binary(), len(is_valid), buffers)
    if type_.kind == "string":
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            raise CorruptFile("a string is not UTF-8") from None
    return array if width is None else array.cast(target)


# Nested arrays ----------------------------------------------------------------------------------------------------


def record_batch(schema: Schema, arrays: Sequence[pa.Array], count: int) -> pa.RecordBatch:
    """The batch of these columns; without columns it still has `count` rows."""
    if not arrays:
        return rows_without_columns(count)
    return pa.RecordBatch.from_arrays(list(arrays), schema=arrow_schema(schema))


def list_array(type_: ListType, is_valid: Mask, counts: Array, elements: pa.Array) -> pa.Array:
    """The lists with these counts of elements, which are in one array; a null list has none."""
    return pa.Array.from_buffers(
        arrow_type(type_), len(is_valid), [validity_buffer(is_valid), _offsets(counts)], children=[elements]
    )


def map_array(type_: MapType, is_valid: Mask, counts: Array, keys: pa.Array, values: pa.Array) -> pa.Array:
    """The maps with these counts of pairs, which are in one array; a null map has none."""
    fields = [arrow_field(type_.key_field), arrow_field(type_.value_field)]
    pairs = pa.StructArray.from_arrays([keys, values], fields=fields)
    return pa.Array.from_buffers(
        arrow_type(type_), len(is_valid), [validity_buffer(is_valid), _offsets(counts)], children=[pairs]
    )


def _offsets(counts: Array) -> pa.Buffer:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    if offsets[-1] > _MAX_OFFSET:
        raise CorruptFile(f"the lists of one column have {int(offsets[-1])} items; at most {_MAX_OFFSET} are read")
    return pa.py_buffer(offsets.astype(np.int32))


# Arrays to columns ------------------------------------------------------------------------------------------------


def array_to_column(type_: Type, array: pa.Array | pa.ChunkedArray) -> Column:
    """The column of an Arrow array, to evaluate filters on; for nested types only its nulls.

    >>> from floe.spec.types import LONG
    >>> column = array_to_column(LONG, pa.array([1, None]))
    >>> column.values.tolist(), column.is_valid.tolist()
    ([1, 0], [True, False])
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
        array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    is_valid = array.is_valid().to_numpy(zero_copy_only=False)
    if not type_.is_primitive or type_.kind in ("unknown", "geometry", "geography"):
        return Column(np.zeros(len(array), np.int64), is_valid)
    if isinstance(type_, DecimalType):
        wide = pc.fill_null(array.cast(pa.decimal128(38, type_.scale)), 0)
        _, data = wide.buffers()
        words = np.frombuffer(data, "<u8", 2 * len(wide), 16 * wide.offset).reshape(-1, 2)
        return Column(VarBytes.from_words([words[:, 1].astype(np.uint64), words[:, 0].astype(np.uint64)], is_valid))
    if type_.kind in ("string", "binary", "uuid", "fixed"):
        return Column(_strings(array, is_valid))
    if type_.kind == "boolean":
        return Column(pc.fill_null(array, False).to_numpy(zero_copy_only=False).astype(np.int64), is_valid)
    if type_.kind in ("float", "double"):
        return Column(pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False).astype(np.float64), is_valid)
    integers = array.view(pa.int32() if type_.kind in ("int", "date") else pa.int64())
    return Column(pc.fill_null(integers, 0).to_numpy(zero_copy_only=False).astype(np.int64), is_valid)


def _strings(array: pa.Array, is_valid: Mask) -> VarBytes:
    plain = array.cast(pa.binary()) if not pa.types.is_large_string(array.type) else array.cast(pa.large_binary())
    _, offsets, data = plain.buffers()
    width = np.dtype(np.int64 if pa.types.is_large_binary(plain.type) else np.int32)
    edges = np.frombuffer(offsets, width, len(plain) + 1, plain.offset * width.itemsize)
    return VarBytes.from_offsets(data if data is not None else b"", edges, is_valid)
