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

from floe.formats.arrow_buffers import PLAIN_TYPES, canonical, cast, column_of
from floe.spec.partitioning import transforms_columnar
from floe.spec.partitioning.transforms import Identity, Transform, Truncate, Void
from floe.spec.types import DecimalType, Type

__all__ = ["apply"]


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
    array = canonical(source, array)
    valid = np.asarray(array.is_valid()) if array.null_count else None
    values, _ = transforms_columnar.apply(transform, source, column_of(source, array), valid)
    assert not isinstance(values, tuple)
    return _to_arrow(transform.result_type(source), values, array)


def _cut(source: Type, array: pa.Array, width: int) -> pa.Array:
    """Text and binary, cut by Arrow; layouts that its function does not take are first made plain."""
    wanted = (pa.string(), pa.large_string()) if source.kind == "string" else (pa.binary(), pa.large_binary())
    if array.type not in wanted:
        array = cast(array, wanted[1], source)
    cut = pc.utf8_slice_codeunits if source.kind == "string" else pc.binary_slice
    return cut(array, 0, width)


def _to_arrow(type_: Type, values: NDArray[Any], like: pa.Array) -> pa.Array:
    """The results as an Arrow array, null where the source is."""
    wanted = like.type if isinstance(type_, DecimalType) else PLAIN_TYPES[type_.kind]
    validity = pc.is_valid(like).buffers()[1] if like.null_count else None
    return pa.Array.from_buffers(wanted, len(like), [validity, pa.py_buffer(np.ascontiguousarray(values))])
