"""Column values as Arrow arrays and back, and Arrow arrays as NumPy arrays.

`to_array` and `to_values` convert whole columns of values in the form that `floe.spec.values` describes.
`array_buffers` returns NumPy arrays over the buffers of an Arrow array without copying, for vectorized computation.

>>> from floe.spec.types import DATE, Field, INT, StructType
>>> days = to_array(DATE, [0, None])
>>> days.type, to_values(DATE, days)
(DataType(date32[day]), [0, None])
>>> point = StructType((Field(1, "x", INT), Field(2, "y", INT)))
>>> to_values(point, to_array(point, [{"x": 1}, None]))
[{'x': 1, 'y': None}, None]
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from floe.errors import CorruptFile, InvalidValue
from floe.formats.columns.arrow_types import arrow_type
from floe.spec.codecs.single_value import split_variant
from floe.spec.partitioning.columnar_transforms import Column
from floe.spec.types import DecimalType, FixedType, ListType, MapType, StructType, Type
from floe.spec.values.value_checks import map_items

_INTEGERS: dict[str, pa.DataType] = {"date": pa.int32()} | dict.fromkeys(
    ("time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), pa.int64()
)
"""The integer types as which dates, times and timestamps are converted to Python without loss."""


# To Arrow -------------------------------------------------------------------------------------------------------------


def to_array(type_: Type, values: Sequence[Any]) -> pa.Array:
    """Convert values of a type to an Arrow array; raises `InvalidValue` if a value does not fit the type.

    >>> from floe.spec.types import INT
    >>> to_array(ListType(1, INT), [[1, 2], None, []]).to_pylist()
    [[1, 2], None, []]
    """
    if isinstance(type_, StructType):
        valid = [value is not None for value in values]
        children = [
            to_array(child.type, [None if value is None else value.get(child.name) for value in values])
            for child in type_.fields
        ]
        return struct_array(arrow_type(type_), children, len(values), valid)
    if isinstance(type_, ListType):
        return _list_array(
            type_, values, to_array(type_.element, [item for value in values if value for item in value])
        )
    if isinstance(type_, MapType):
        pairs = [pair for value in values if value for pair in map_items(value)]
        entries = struct_array(
            pa.struct([arrow_type(type_).key_field, arrow_type(type_).item_field]),
            [to_array(type_.key, [key for key, _ in pairs]), to_array(type_.value, [item for _, item in pairs])],
            len(pairs),
        )
        return _list_array(type_, values, entries)
    if type_.kind == "variant":
        parts = [None if value is None else split_variant(value) for value in values]
        stored: Sequence[Any] = [None if part is None else {"metadata": part[0], "value": part[1]} for part in parts]
    elif type_.kind == "uuid":
        stored = [None if value is None else value.bytes for value in values]
    else:
        stored = values
    try:
        return pa.array(stored, arrow_type(type_))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidValue(f"the values are not all of type {type_}: {str(error)[:200]}") from None


def constant_array(type_: Type, value: Any, count: int) -> pa.Array:
    """An array with `count` times the same value.

    >>> from floe.spec.types import STRING
    >>> constant_array(STRING, "a", 3).to_pylist()
    ['a', 'a', 'a']
    """
    if value is None:
        return pa.nulls(count, arrow_type(type_))
    single = to_array(type_, [value])
    if type_.is_nested or type_.kind == "variant":
        return single.take(pa.array(np.zeros(count, np.int64)))
    return pa.repeat(single[0], count)


def struct_array(type_: pa.DataType, children: Sequence[pa.Array], count: int, valid: Any = None) -> pa.Array:
    """A struct array of a type, null where `valid` is false; the children must have the types of its fields.

    >>> struct_array(pa.struct([]), [], 2, [True, False]).to_pylist()
    [{}, None]
    """
    return pa.Array.from_buffers(type_, count, [validity_buffer(valid)], children=list(children))


def validity_buffer(valid: Any) -> pa.Buffer | None:
    """The validity bitmap of a mask of values that are not null; None if no value is null, or for None.

    >>> validity_buffer([True, False, True])[0]
    5
    """
    if valid is None:
        return None
    mask = np.asarray(valid, np.bool_)
    return None if mask.all() else pa.py_buffer(np.packbits(mask, bitorder="little"))


def _list_array(type_: Type, values: Sequence[Any], items: pa.Array) -> pa.Array:
    lengths = [len(value) if value else 0 for value in values]
    offsets = np.fromiter(accumulate(lengths, initial=0), np.int64, len(values) + 1)
    if offsets[-1] > np.iinfo(np.int32).max:
        raise InvalidValue(f"a batch has at most 2**31 - 1 items in a list or map column; found {offsets[-1]}")
    valid = [value is not None for value in values]
    buffers = [validity_buffer(valid), pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(arrow_type(type_), len(values), buffers, children=[items])


# From Arrow -----------------------------------------------------------------------------------------------------------


def to_values(type_: Type, array: pa.Array) -> list[Any]:
    """Convert an Arrow array, which must have the Arrow type of a type, to values.

    >>> from floe.spec.types import TIMESTAMP
    >>> to_values(TIMESTAMP, pa.array([1, None], pa.timestamp("us")))
    [1, None]
    """
    if isinstance(type_, StructType):
        return _set_nulls(array, _struct_values(type_, array))
    if isinstance(type_, ListType):
        items = to_values(type_.element, _list_items(array, array.values))
        return _split(array, items)
    if isinstance(type_, MapType):
        keys = to_values(type_.key, _list_items(array, array.keys))
        values = to_values(type_.value, _list_items(array, array.items))
        pairs = _split(array, list(zip(keys, values, strict=True)))
        return pairs if type_.key.is_nested else [None if entries is None else dict(entries) for entries in pairs]
    integers = _INTEGERS.get(type_.kind)
    if integers is not None:
        return list(array.view(integers).to_pylist())
    try:
        stored = array.to_pylist()
    except UnicodeDecodeError as error:
        raise CorruptFile(f"a string is not UTF-8: {error}") from None
    convert = _FROM_ARROW.get(type_.kind)
    return stored if convert is None else [None if value is None else convert(value) for value in stored]


_FROM_ARROW: dict[str, Callable[[Any], Any]] = {
    "uuid": lambda value: uuid.UUID(bytes=value),
    "variant": lambda value: value["metadata"] + value["value"],
}


def _struct_values(type_: StructType, array: pa.Array) -> list[dict[str, Any]]:
    if not type_.fields:
        return [{} for _ in range(len(array))]
    names = [child.name for child in type_.fields]
    columns = [to_values(child.type, array.field(index)) for index, child in enumerate(type_.fields)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _set_nulls(array: pa.Array, values: list[Any]) -> list[Any]:
    if not array.null_count:
        return values
    valid = array.is_valid().to_pylist()
    return [value if is_valid else None for value, is_valid in zip(values, valid, strict=True)]


def _list_items(array: pa.Array, children: pa.Array) -> pa.Array:
    """The items of a list or map array, which may be a slice of a longer one."""
    if not len(array):
        return children.slice(0, 0)
    offsets = _list_offsets(array)
    return children.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _split(array: pa.Array, items: list[Any]) -> list[Any]:
    if not len(array):
        return []
    offsets = _list_offsets(array)
    ends = (offsets - offsets[0]).tolist()
    return _set_nulls(array, [items[start:end] for start, end in pairwise(ends)])


def _list_offsets(array: pa.Array) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)


# To NumPy -------------------------------------------------------------------------------------------------------------

CANONICAL_TYPES: Final[dict[str, pa.DataType]] = {
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
"""The Arrow types whose buffers `array_buffers` reads, by kind of type."""

_BUFFER_TYPES = {"int": np.int32, "date": np.int32, "float": np.float32, "double": np.float64} | dict.fromkeys(
    ("long", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"), np.int64
)


def canonical_array(source: Type, array: pa.Array) -> pa.Array:
    """Cast an array to the Arrow type that `array_buffers` reads; raises `InvalidValue` if values do not fit."""
    if isinstance(source, DecimalType):
        return cast_array(array, pa.decimal128(source.precision, source.scale), source)
    if isinstance(source, FixedType):
        return cast_array(array, pa.binary(source.length), source)
    target = CANONICAL_TYPES[source.kind]
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(array.type):
        target = pa.timestamp(target.unit, array.type.tz)  # the time zone only affects display
    if target == pa.large_string() and array.type == pa.string():
        return array
    if target == pa.large_binary() and array.type == pa.binary():
        return array
    return cast_array(array, target, source)


def cast_array(array: pa.Array, target: pa.DataType, source: Type) -> pa.Array:
    """Cast an array to another Arrow type; raises `InvalidValue` if it cannot represent all values."""
    if array.type == target:
        return array
    try:
        return array.cast(target)
    except pa.ArrowException as error:
        raise InvalidValue(
            f"an Arrow array of type {array.type} does not hold values of type {source}: {error}"
        ) from None


def array_buffers(source: Type, array: pa.Array) -> Column:
    """The buffers of a canonical array as NumPy arrays, not copied, in the form that `columnar_transforms` takes.

    The array may be a slice. Null rows have arbitrary values.
    """
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
            return _buffer(
                array.cast(pa.uint8()), 1, np.dtype(np.uint8), len(array)
            )  # a copy, because Arrow stores bits
        case kind:
            return _buffer(array, 1, np.dtype(_BUFFER_TYPES[kind]), len(array))


def _buffer(array: pa.Array, index: int, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    buffer = array.buffers()[index]
    if buffer is None or not len(array):
        return np.zeros(count, dtype)
    return np.frombuffer(buffer, dtype, count, array.offset * dtype.itemsize)


def _matrix(array: pa.Array, dtype: np.dtype[Any], columns: int) -> NDArray[Any]:
    buffer = array.buffers()[1]
    if buffer is None or not len(array) or not columns:
        return np.zeros((len(array), columns), dtype)
    start = array.offset * columns * dtype.itemsize
    return np.frombuffer(buffer, dtype, len(array) * columns, start).reshape(len(array), columns)
