"""Bounds as values: what `readable_metrics` shows of the bytes that manifests store, for all files at once.

A bound that is no value of the column's type (of a wrong length, or no UTF-8) is shown as null: who looks at these
tables wants to see the others, and the bytes themselves are in `lower_bounds` and `upper_bounds`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from floe.errors import CorruptFile
from floe.formats.arrow_types import arrow_type
from floe.plan.metadata_tables.arrays import bytes_array, to_array
from floe.spec.codecs.single_value import decode, decode_geo_bound
from floe.spec.pruning.columnar_rows import Column
from floe.spec.pruning.key_columns import ByteKeys, FloatKeys, IntKeys, keys_from_bounds
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.types import DecimalType, Type

__all__ = ["bounds_array"]


def bounds_array(type_: Type, bounds: VarBytes) -> pa.Array:
    r"""The bounds of a column as values of its type; those of geometries are points in well-known binary.

    >>> from floe.spec.types import LONG
    >>> bounds_array(LONG, VarBytes.of([b"\x05\0\0\0", None, b"wrong"])).to_pylist()
    [5, None, None]
    """
    if not bounds.known.any() or type_.kind == "unknown":
        return pa.nulls(len(bounds), arrow_type(type_))
    if type_.kind in ("geometry", "geography"):
        return pa.array([None if one is None else _point(one) for one in bounds.to_list()], pa.binary())
    try:
        return _decoded(type_, bounds)
    except CorruptFile:
        return pa.array([_decode(type_, one) for one in bounds.to_list()], arrow_type(type_))


def _decoded(type_: Type, bounds: VarBytes) -> pa.Array:
    if isinstance(type_, DecimalType):
        return to_array(type_, Column(bounds))
    keys = keys_from_bounds(type_, bounds)
    if isinstance(keys, ByteKeys):
        return bytes_array(type_, VarBytes(bounds.data, bounds.starts, np.where(keys.known, bounds.lengths, -1)))
    assert isinstance(keys, IntKeys | FloatKeys)
    return to_array(type_, Column(np.where(keys.known, keys.values, 0), keys.known))


def _decode(type_: Type, data: bytes | None) -> Any:
    try:
        return None if data is None else decode(type_, data)
    except CorruptFile:
        return None


_POINT_FORMS: dict[tuple[bool, bool], tuple[int, Callable[[Any], tuple[float, ...]]]] = {
    (False, False): (1, lambda p: (p.x, p.y)),
    (True, False): (1001, lambda p: (p.x, p.y, p.z)),
    (False, True): (2001, lambda p: (p.x, p.y, p.m)),
    (True, True): (3001, lambda p: (p.x, p.y, p.z, p.m)),
}


def _point(data: bytes) -> bytes | None:
    """The corner of a box as a point in well-known binary; null where there is no box."""
    try:
        point = decode_geo_bound(data)
    except CorruptFile:
        return None
    if point is None:
        return None
    number, parts = _POINT_FORMS[point.z is not None, point.m is not None]
    numbers = parts(point)
    return struct.pack(f"<BI{len(numbers)}d", 1, number, *numbers)
