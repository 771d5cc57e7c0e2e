"""Arrow columns as NumPy arrays over Arrow's own buffers, for what is computed of whole columns (`Column`)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from floe.errors import InvalidValue
from floe.spec.partitioning.transforms_columnar import Column
from floe.spec.types import DecimalType, FixedType, Type

__all__ = ["PLAIN_TYPES", "canonical", "cast", "column_of"]

PLAIN_TYPES: Final[dict[str, pa.DataType]] = {
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
"""The Arrow type in which the values of a type are looked at."""

_NUMBERS = {"int": np.int32, "date": np.int32, "float": np.float32, "double": np.float64} | dict.fromkeys(
    ("long", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), np.int64
)


def canonical(source: Type, array: pa.Array) -> pa.Array:
    """The array as the one Arrow type whose buffers are read here."""
    if isinstance(source, DecimalType):
        return cast(array, pa.decimal128(source.precision, source.scale), source)
    if isinstance(source, FixedType):
        return cast(array, pa.binary(source.length), source)
    wanted = PLAIN_TYPES[source.kind]
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(array.type):
        wanted = pa.timestamp(wanted.unit, array.type.tz)  # a zone is a matter of display
    if wanted == pa.large_string() and array.type == pa.string():
        return array
    if wanted == pa.large_binary() and array.type == pa.binary():
        return array
    return cast(array, wanted, source)


def cast(array: pa.Array, wanted: pa.DataType, source: Type) -> pa.Array:
    """The array as another Arrow type, which has all of its values; or `InvalidValue`."""
    if array.type == wanted:
        return array
    try:
        return array.cast(wanted)
    except pa.ArrowException as error:
        raise InvalidValue(
            f"an Arrow array of type {array.type} does not hold values of type {source}: {error}"
        ) from None


def column_of(source: Type, array: pa.Array) -> Column:
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
        case "boolean":
            return _buffer(array.cast(pa.uint8()), 1, np.dtype(np.uint8), len(array))  # which copies: it has bits
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
