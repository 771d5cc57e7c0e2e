r"""Transforms of Arrow columns (spec: Partition Transforms).

Columns of every type that a transform takes are computed in whole: numbers and hashes by NumPy on Arrow's own buffers,
text by Arrow. Dictionary-encoded columns are transformed by their dictionary, each distinct value once.

>>> import pyarrow as pa
>>> from floe.spec.partitioning.transforms import Bucket, Truncate
>>> from floe.spec.types import STRING
>>> transform_array(Bucket(100), STRING, pa.array(["iceberg", None])).to_pylist()
[89, None]
>>> transform_array(Truncate(3), STRING, pa.array(["iceberg", "né"])).to_pylist()
['ice', 'né']

Hashes of Arrow columns for theta sketches: of the bytes that single values have (spec: Appendix D, binary).

>>> import pyarrow as pa
>>> from floe.spec.codecs.theta_sketches import value_hashes_of
>>> from floe.spec.types import INT
>>> found = hash_column(INT, pa.array([1, None], pa.int32()))
>>> found.tolist() == value_hashes_of([b"\x01\x00\x00\x00"]).tolist()
True
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.formats.arrow_arrays import CANONICAL_TYPES, array_buffers, canonical_array, cast_array
from floe.spec.codecs.theta_sketches import SEED, Hashes, hash_fixed_bytes, hash_var_bytes, value_hashes
from floe.spec.partitioning import columnar_transforms
from floe.spec.partitioning.columnar_transforms import fewest_bytes
from floe.spec.partitioning.transforms import Identity, Transform, Truncate, Void
from floe.spec.types import DecimalType, Type


def transform_array(
    transform: Transform, source: Type, array: pa.Array | pa.ChunkedArray
) -> pa.Array | pa.ChunkedArray:
    """The results of a transform for a column whose values are of the type `source`; chunks give chunks.

    The array may be of any Arrow type that holds such values exactly: narrower integers, other time units, large or
    view layouts, dictionaries, `arrow.uuid`. Identity and void keep the Arrow type. Other results are `int32`, for day
    `date32`, and for truncate of the type of the column.

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
        transform.bind(source)  # says why it cannot be computed
    if isinstance(transform, Truncate) and source.kind in ("string", "binary"):
        return _cut(source, array, transform.width)
    array = canonical_array(source, array)
    valid = np.asarray(array.is_valid()) if array.null_count else None
    values, _ = columnar_transforms.apply(transform, source, array_buffers(source, array), valid)
    assert not isinstance(values, tuple)
    return _to_arrow(transform.result_type(source), values, array)


def _cut(source: Type, array: pa.Array, width: int) -> pa.Array:
    """Text and binary, cut by Arrow; layouts that its function does not take are first made plain."""
    wanted = (pa.string(), pa.large_string()) if source.kind == "string" else (pa.binary(), pa.large_binary())
    if array.type not in wanted:
        array = cast_array(array, wanted[1], source)
    cut = pc.utf8_slice_codeunits if source.kind == "string" else pc.binary_slice
    return cut(array, 0, width)


def _to_arrow(type_: Type, values: NDArray[Any], like: pa.Array) -> pa.Array:
    """The results as an Arrow array, null where the source is."""
    wanted = like.type if isinstance(type_, DecimalType) else CANONICAL_TYPES[type_.kind]
    validity = pc.is_valid(like).buffers()[1] if like.null_count else None
    return pa.Array.from_buffers(wanted, len(like), [validity, pa.py_buffer(np.ascontiguousarray(values))])


# Hashes of Arrow columns for theta sketches: of the bytes that single values have (spec: Appendix D, binary).

_HASHED: Final = frozenset(CANONICAL_TYPES) | {"decimal", "fixed"}


def can_hash(type_: Type) -> bool:
    """Whether values of a type have bytes of their own that can be compared.

    >>> from floe.spec.types import STRING, VARIANT
    >>> can_hash(STRING), can_hash(VARIANT)
    (True, False)
    """
    return type_.kind in _HASHED


def hash_column(type_: Type, array: pa.Array) -> Hashes:
    """The hashes of a column's values; nulls have none, nor have empty texts, which sketches take for nothing.

    Equal values may have one hash together.
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
    """The hashes of the fewest big-endian bytes of each unscaled number, those of one length together."""
    words = np.ascontiguousarray(words, "<i8")
    lengths = fewest_bytes(words)
    rows = words.view(np.uint8).reshape(-1, 16)[:, ::-1]
    found = [hash_fixed_bytes(rows[lengths == length, 16 - length :], SEED) for length in np.unique(lengths)]
    return np.concatenate([np.zeros(0, np.uint64), *found])
