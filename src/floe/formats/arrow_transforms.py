"""Transforms of Arrow columns (spec: Partition Transforms).

Columns of every type that a transform takes are computed in whole: numbers and hashes by NumPy on Arrow's own buffers,
text by Arrow. Dictionary-encoded columns are transformed by their dictionary, each distinct value once.

>>> import pyarrow as pa
>>> from floe.spec.partitioning.transforms import Bucket, Truncate
>>> from floe.spec.types import STRING
>>> apply(Bucket(100), STRING, pa.array(["iceberg", None])).to_pylist()
[89, None]
>>> apply(Truncate(3), STRING, pa.array(["iceberg", "né"])).to_pylist()
['ice', 'né']
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.errors import InvalidValue
from floe.spec.partitioning import transforms_columnar
from floe.spec.partitioning.transforms import Identity, Transform, Truncate, Void
from floe.spec.types import DecimalType, FixedType, Type

__all__ = ["apply"]

_PLAIN: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
    "uuid": pa.binary(16),
    "string": pa.large_string(),
    "binary": pa.large_binary(),
}
_NUMBERS = {"int": np.int32, "date": np.int32} | dict.fromkeys(
    ("long", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), np.int64
)


def apply(transform: Transform, source: Type, array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The results of a transform for a column whose values are of the type `source`; chunks give chunks.

    The array may be of any Arrow type that holds such values exactly: narrower integers, other time units, large or
    view layouts, dictionaries, `arrow.uuid`. Identity and void keep the Arrow type. Other results are `int32`, for day
    `date32`, and for truncate of the type of the column.

    >>> from floe.spec.partitioning.transforms import DAY
    >>> from floe.spec.types import TIMESTAMP
    >>> apply(DAY, TIMESTAMP, pa.array([-1, None], pa.timestamp("us")))
    <pyarrow.lib.Date32Array object at ...>
    [
      1969-12-31,
      null
    ]
    """
    transform.result_type(source)
    if isinstance(array, pa.ChunkedArray):
        if isinstance(transform, Identity):
            return array
        results = [_apply(transform, source, chunk) for chunk in array.chunks]
        return pa.chunked_array(results or [_apply(transform, source, pa.array([], array.type))])
    return _apply(transform, source, array)


def _apply(transform: Transform, source: Type, array: pa.Array) -> pa.Array:
    if isinstance(transform, Identity):
        return array
    if isinstance(transform, Void):
        return pa.nulls(len(array), array.type)
    if isinstance(array, pa.DictionaryArray):
        return _apply(transform, source, array.dictionary).take(array.indices)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not transform.is_known:
        transform.bind(source)  # says why it cannot be computed
    if isinstance(transform, Truncate) and source.kind in ("string", "binary"):
        return _cut(source, array, transform.width)
    array = _canonical(source, array)
    valid = np.asarray(array.is_valid()) if array.null_count else None
    values, _ = transforms_columnar.apply(transform, source, _column(source, array), valid)
    assert not isinstance(values, tuple)
    return _to_arrow(transform.result_type(source), values, array)


def _cut(source: Type, array: pa.Array, width: int) -> pa.Array:
    """Text and binary, cut by Arrow; layouts that its function does not take are first made plain."""
    wanted = (pa.string(), pa.large_string()) if source.kind == "string" else (pa.binary(), pa.large_binary())
    if array.type not in wanted:
        array = _cast(array, wanted[1], source)
    cut = pc.utf8_slice_codeunits if source.kind == "string" else pc.binary_slice
    return cut(array, 0, width)


def _canonical(source: Type, array: pa.Array) -> pa.Array:
    """The array as the one Arrow type whose buffers are read here."""
    if isinstance(source, DecimalType):
        return _cast(array, pa.decimal128(source.precision, source.scale), source)
    if isinstance(source, FixedType):
        return _cast(array, pa.binary(source.length), source)
    wanted = _PLAIN[source.kind]
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(array.type):
        wanted = pa.timestamp(wanted.unit, array.type.tz)  # a zone is a matter of display
    if wanted == pa.large_string() and array.type == pa.string():
        return array
    if wanted == pa.large_binary() and array.type == pa.binary():
        return array
    return _cast(array, wanted, source)


def _cast(array: pa.Array, wanted: pa.DataType, source: Type) -> pa.Array:
    if array.type == wanted:
        return array
    try:
        return array.cast(wanted)
    except pa.ArrowException as error:
        raise InvalidValue(
            f"an Arrow array of type {array.type} does not hold values of type {source}: {error}"
        ) from None


def _column(source: Type, array: pa.Array) -> transforms_columnar.Column:
    """The array's buffers as a column of `transforms_columnar`; slices and nulls included, nothing copied."""
    match source.kind:
        case "string" | "binary":
            large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
            offsets = _buffer(array, 1, np.dtype(np.int64 if large else np.int32), len(array) + 1)
            data = array.buffers()[2]
            return np.frombuffer(data or b"", np.uint8), offsets
        case "uuid" | "fixed":
            return _matrix(array, np.dtype(np.uint8), array.type.byte_width)
        case "decimal":
            return _matrix(array, np.dtype("<i8"), 2)
        case kind:
            return _buffer(array, 1, np.dtype(_NUMBERS[kind]), len(array))


def _buffer(array: pa.Array, number: int, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    buffer = array.buffers()[number]
    if buffer is None or not len(array):
        return np.zeros(count, dtype)
    return np.frombuffer(buffer, dtype, count, array.offset * dtype.itemsize)


def _matrix(array: pa.Array, dtype: np.dtype[Any], columns: int) -> NDArray[Any]:
    buffer = array.buffers()[1]
    if buffer is None or not len(array) or not columns:
        return np.zeros((len(array), columns), dtype)
    start = array.offset * columns * dtype.itemsize
    return np.frombuffer(buffer, dtype, len(array) * columns, start).reshape(len(array), columns)


def _to_arrow(type_: Type, values: NDArray[Any], like: pa.Array) -> pa.Array:
    """The results as an Arrow array, null where the source is."""
    wanted = like.type if isinstance(type_, DecimalType) else _PLAIN[type_.kind]
    validity = pc.is_valid(like).buffers()[1] if like.null_count else None
    return pa.Array.from_buffers(wanted, len(like), [validity, pa.py_buffer(np.ascontiguousarray(values))])
