"""Columns of NumPy as Arrow arrays, and back: by the type of their values, for all rows at once.

The layouts of `Column` are those of `floe.spec.pruning.column_evaluation`.

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

from floe.errors import CorruptFile
from floe.formats.arrow_types import arrow_field, arrow_schema, arrow_type
from floe.plan.arrow_columns import compact_strings
from floe.spec.pruning.column_evaluation import Column
from floe.spec.pruning.key_columns import decimal_words
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.pruning.ranges import WIDE_DECIMAL_BYTES
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, Field, FixedType, ListType, MapType, StructType, Type

Array = NDArray[Any]

_INT32 = (-(2**31), 2**31 - 1)
_MAX_OFFSET = 2**31 - 1


def column_to_array(type_: Type, column: Column) -> pa.Array:
    """The Arrow array of a column of primitive values; CorruptFile where one is no value of the type."""
    values, known = column.values, column.known
    nulls = None if known.all() else ~known
    if type_.kind == "unknown":
        return pa.nulls(len(known))
    if isinstance(type_, DecimalType):
        return _decimals(type_, values, known)
    if isinstance(values, VarBytes):
        if column.valid is not None:
            values = VarBytes(values.data, values.starts, np.where(known, values.lengths, -1))
        return strings_to_array(type_, values)
    if type_.kind == "boolean":
        return pa.array(values != 0, mask=nulls)
    if type_.kind in ("float", "double"):
        return pa.array(values, arrow_type(type_), mask=nulls)
    if type_.kind in ("int", "date"):
        values = np.where(known, values, 0)
        if values.size and (values.min() < _INT32[0] or values.max() > _INT32[1]):
            raise CorruptFile(f"a value of type {type_} has 32 bits, found {int(values[np.argmax(np.abs(values))])}")
        return pa.array(values.astype(np.int32), mask=nulls).view(arrow_type(type_))
    return pa.array(values.astype(np.int64, copy=False), mask=nulls).view(arrow_type(type_))


def _decimals(type_: DecimalType, values: Array | VarBytes, known: Mask) -> pa.Array:
    if isinstance(values, VarBytes):
        high, low, readable = decimal_words(values)
        if not readable[known].all():
            raise CorruptFile(f"a value of type {type_} has 1 to {WIDE_DECIMAL_BYTES} bytes")
    else:
        low = values.astype(np.int64).view(np.uint64)
        high = low.view(np.int64) >> 63
    words = np.empty((len(known), 2), "<u8")
    words[:, 0], words[:, 1] = low, high.view(np.uint64)
    wide = pa.decimal128(38, type_.scale)
    found = pa.Array.from_buffers(wide, len(known), [validity(known), pa.py_buffer(words)])
    try:
        found.validate(full=True)
        return found.cast(arrow_type(type_))
    except pa.ArrowInvalid:
        raise CorruptFile(f"a value of type {type_} has at most {type_.precision} digits") from None


def strings_to_array(type_: Type, strings: VarBytes) -> pa.Array:
    """The Arrow array of byte strings, which are text, or bytes of a fixed or any length."""
    known = strings.known
    width = type_.length if isinstance(type_, FixedType) else 16 if type_.kind == "uuid" else None
    if width is not None and (strings.lengths[known] != width).any():
        raise CorruptFile(f"a value of type {type_} has {width} bytes")
    small = compact_strings(strings)
    if small.data.size > _MAX_OFFSET:
        raise CorruptFile(f"the strings of one column have {small.data.size} bytes; at most {_MAX_OFFSET} are read")
    target = arrow_type(type_)
    offsets = np.append(small.starts, small.data.size).astype(np.int32)
    buffers = [validity(known), pa.py_buffer(offsets), pa.py_buffer(small.data)]
    found = pa.Array.from_buffers(target if width is None else pa.binary(), len(known), buffers)
    if type_.kind == "string":
        try:
            found.validate(full=True)
        except pa.ArrowInvalid:
            raise CorruptFile("a string is not UTF-8") from None
    return found if width is None else found.cast(target)


def validity(known: Mask) -> pa.Buffer | None:
    """Arrow's bitmap of the rows that are not null; None if all are."""
    return None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))


# nested -------------------------------------------------------------------------------------------------------------


def record_batch(schema: Schema, arrays: Sequence[pa.Array], count: int) -> pa.RecordBatch:
    """The batch of some columns, which may be none: then it still has its rows."""
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None], children=[]))
    return pa.RecordBatch.from_arrays(list(arrays), schema=arrow_schema(schema))


def struct_array(type_: StructType, children: Sequence[pa.Array], count: int, known: Mask | None = None) -> pa.Array:
    """The structs of some columns, one for each field."""
    buffers = [None if known is None else validity(known)]
    return pa.Array.from_buffers(arrow_type(type_), count, buffers, children=list(children))


def list_array(type_: ListType, known: Mask, counts: Array, elements: pa.Array) -> pa.Array:
    """The lists of so many elements each, which come one after another; a missing list has none."""
    return pa.Array.from_buffers(
        arrow_type(type_), len(known), [validity(known), _offsets(counts)], children=[elements]
    )


def map_array(type_: MapType, known: Mask, counts: Array, keys: pa.Array, values: pa.Array) -> pa.Array:
    """The maps of so many pairs each, which come one after another; a missing map has none."""
    fields = [arrow_field(type_.key_field), arrow_field(type_.value_field)]
    pairs = pa.StructArray.from_arrays([keys, values], fields=fields)
    return pa.Array.from_buffers(arrow_type(type_), len(known), [validity(known), _offsets(counts)], children=[pairs])


def _offsets(counts: Array) -> pa.Buffer:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    if offsets[-1] > _MAX_OFFSET:
        raise CorruptFile(f"the lists of one column have {int(offsets[-1])} items; at most {_MAX_OFFSET} are read")
    return pa.py_buffer(offsets.astype(np.int32))


def null_array(type_: Type, count: int) -> pa.Array:
    """As many nulls."""
    return pa.nulls(count, arrow_type(type_))


def constant_array(field: Field, value: Any, count: int) -> pa.Array:
    """One value, in the form that Arrow takes it, as often as asked."""
    one = pa.array([value], arrow_type(field.type))
    return one.take(pa.array(np.zeros(count, np.int64)))


# and back -----------------------------------------------------------------------------------------------------------


def array_to_column(type_: Type, array: pa.Array | pa.ChunkedArray) -> Column:
    """The column of an Arrow array, to evaluate filters on; of nested values only which are null.

    >>> from floe.spec.types import LONG
    >>> column = array_to_column(LONG, pa.array([1, None]))
    >>> column.values.tolist(), column.known.tolist()
    ([1, 0], [True, False])
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
        array = pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array
    known = array.is_valid().to_numpy(zero_copy_only=False)
    if not type_.is_primitive or type_.kind in ("unknown", "geometry", "geography"):
        return Column(np.zeros(len(array), np.int64), known)
    if isinstance(type_, DecimalType):
        wide = pc.fill_null(array.cast(pa.decimal128(38, type_.scale)), 0)
        _, data = wide.buffers()
        words = np.frombuffer(data, "<u8", 2 * len(wide), 16 * wide.offset).reshape(-1, 2)
        return Column(VarBytes.from_words([words[:, 1].astype(np.uint64), words[:, 0].astype(np.uint64)], known))
    if type_.kind in ("string", "binary", "uuid", "fixed"):
        return Column(_strings(array, known))
    if type_.kind == "boolean":
        return Column(pc.fill_null(array, False).to_numpy(zero_copy_only=False).astype(np.int64), known)
    if type_.kind in ("float", "double"):
        return Column(pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False).astype(np.float64), known)
    whole = array.view(pa.int32() if type_.kind in ("int", "date") else pa.int64())
    return Column(pc.fill_null(whole, 0).to_numpy(zero_copy_only=False).astype(np.int64), known)


def _strings(array: pa.Array, known: Mask) -> VarBytes:
    plain = array.cast(pa.binary()) if not pa.types.is_large_string(array.type) else array.cast(pa.large_binary())
    _, offsets, data = plain.buffers()
    width = np.dtype(np.int64 if pa.types.is_large_binary(plain.type) else np.int32)
    edges = np.frombuffer(offsets, width, len(plain) + 1, plain.offset * width.itemsize)
    return VarBytes.from_offsets(data if data is not None else b"", edges, known)
