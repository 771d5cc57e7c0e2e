r"""Partition transforms and hashes of Arrow columns (spec: Partition Transforms).

Whole columns are computed at once: numbers and hashes by NumPy on Arrow's buffers, text by Arrow. Dictionary-encoded
columns are transformed by their dictionary, each distinct value once.

>>> import pyarrow as pa
>>> from floe.spec.partitioning.transforms import Bucket, Truncate
>>> from floe.spec.types import STRING
>>> transform_array(Bucket(100), STRING, pa.array(["iceberg", None])).to_pylist()
[89, None]
>>> transform_array(Truncate(3), STRING, pa.array(["iceberg", "né"])).to_pylist()
['ice', 'né']

The hashes are for theta sketches; they are those of the single-value encoding (spec: Appendix D, binary).

>>> from floe.spec.codecs.theta_sketches import value_hashes_of
>>> from floe.spec.types import INT
>>> hashes = hash_column(INT, pa.array([1, None], pa.int32()))
>>> hashes.tolist() == value_hashes_of([b"\x01\x00\x00\x00"]).tolist()
True
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.formats.columns.arrays import CANONICAL_TYPES, array_buffers, canonical_array, cast_array
from floe.spec.codecs.theta_sketches import SEED, Hashes, hash_fixed_bytes, hash_var_bytes, value_hashes
from floe.spec.partitioning import columnar_transforms
from floe.spec.partitioning.columnar_transforms import decimal_byte_lengths
from floe.spec.partitioning.transforms import Identity, Transform, Truncate, Void
from floe.spec.types import DecimalType, Type


def transform_array(
    transform: Transform, source: Type, array: pa.Array | pa.ChunkedArray
) -> pa.Array | pa.ChunkedArray:
    """Apply a transform to a column with values of the type `source`; a chunked array returns a chunked array.

    The array may have any Arrow type that represents such values exactly: narrower integers, other time units, large or
    view layouts, dictionaries, `arrow.uuid`. Identity and void keep the Arrow type. Truncate returns the type of the
    column, day `date32`, the others `int32`.

    >>> from floe.spec.partitioning.transforms import DAY
    >>> from floe.spec.types import TIMESTAMP
    >>> transform_array(DAY, TIMESTAMP, pa.array([-1, None], pa.timestamp("us")))
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
        transform.bind(source)  # raises an error with the reason
    if isinstance(transform, Truncate) and source.kind in ("string", "binary"):
        return _truncate(source, array, transform.width)
    array = canonical_array(source, array)
    valid = np.asarray(array.is_valid()) if array.null_count else None
    values, _ = columnar_transforms.apply(transform, source, array_buffers(source, array), valid)
    assert not isinstance(values, tuple)
    return _to_arrow(transform.result_type(source), values, array)


def _truncate(source: Type, array: pa.Array, width: int) -> pa.Array:
    """Truncate text or binary by Arrow, cast from layouts that its function does not support."""
    supported = (pa.string(), pa.large_string()) if source.kind == "string" else (pa.binary(), pa.large_binary())
    if array.type not in supported:
        array = cast_array(array, supported[1], source)
    slice_array = pc.utf8_slice_codeunits if source.kind == "string" else pc.binary_slice
    return slice_array(array, 0, width)


def _to_arrow(type_: Type, values: NDArray[Any], like: pa.Array) -> pa.Array:
    """The results as an Arrow array, null where the source is null."""
    arrow_type = like.type if isinstance(type_, DecimalType) else CANONICAL_TYPES[type_.kind]
    validity = pc.is_valid(like).buffers()[1] if like.null_count else None
    return pa.Array.from_buffers(arrow_type, len(like), [validity, pa.py_buffer(np.ascontiguousarray(values))])


# Hashes ---------------------------------------------------------------------------------------------------------------

_HASHED: Final = frozenset(CANONICAL_TYPES) | {"decimal", "fixed"}


def can_hash(type_: Type) -> bool:
    """Whether values of a type can be hashed: all primitive types but geometries and variants.

    >>> from floe.spec.types import STRING, VARIANT
    >>> can_hash(STRING), can_hash(VARIANT)
    (True, False)
    """
    return type_.kind in _HASHED


def hash_column(type_: Type, array: pa.Array) -> Hashes:
    """The hashes of a column's values, for a theta sketch; equal values may share one.

    Nulls have no hash, nor have empty strings, which sketches ignore.
    """
    if isinstance(array, pa.DictionaryArray):
        array = array.unique().dictionary_decode()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    array = canonical_array(type_, array.drop_null())
    if not len(array):
        return np.zeros(0, np.uint64)
    values = array_buffers(type_, array)
    if isinstance(values, tuple):
        data, offsets = values
        return value_hashes(hash_var_bytes(data, offsets, SEED)[np.diff(offsets) > 0])
    if type_.kind == "decimal":
        return value_hashes(_decimal_hashes(values))
    rows = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    return value_hashes(hash_fixed_bytes(rows, SEED) if rows.shape[1] else np.zeros(0, np.uint64))


def _decimal_hashes(words: NDArray[Any]) -> Hashes:
    """The hashes of the shortest big-endian bytes of each unscaled value, computed for each length at once."""
    words = np.ascontiguousarray(words, "<i8")
    lengths = decimal_byte_lengths(words)
    rows = words.view(np.uint8).reshape(-1, 16)[:, ::-1]
    hashes = [hash_fixed_bytes(rows[lengths == length, 16 - length :], SEED) for length in np.unique(lengths)]
    return np.concatenate([np.zeros(0, np.uint64), *hashes])
