r"""Hashes of Arrow columns for theta sketches: of the bytes that single values have (spec: Appendix D, binary).

>>> import pyarrow as pa
>>> from floe.spec.codecs.theta_sketches import value_hashes_of
>>> from floe.spec.types import INT
>>> found = column_hashes(INT, pa.array([1, None], pa.int32()))
>>> found.tolist() == value_hashes_of([b"\x01\x00\x00\x00"]).tolist()
True
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from floe.formats.arrow_buffers import PLAIN_TYPES, canonical, column_of
from floe.spec.codecs.decimal_columnar import fewest_bytes
from floe.spec.codecs.murmur3_128 import Hashes, hash_fixed_bytes, hash_var_bytes
from floe.spec.codecs.theta_sketches import SEED, value_hashes
from floe.spec.types import Type

__all__ = ["column_hashes", "is_hashed"]

_HASHED: Final = frozenset(PLAIN_TYPES) | {"decimal", "fixed"}


def is_hashed(type_: Type) -> bool:
    """Whether values of a type have bytes of their own that can be compared.

    >>> from floe.spec.types import STRING, VARIANT
    >>> is_hashed(STRING), is_hashed(VARIANT)
    (True, False)
    """
    return type_.kind in _HASHED


def column_hashes(type_: Type, array: pa.Array) -> Hashes:
    """The hashes of a column's values; nulls have none, nor have empty texts, which sketches take for nothing.

    Equal values may have one hash together.
    """
    if isinstance(array, pa.DictionaryArray):
        array = array.unique().dictionary_decode()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    array = canonical(type_, array.drop_null())
    if not len(array):
        return np.zeros(0, np.uint64)
    values = column_of(type_, array)
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
