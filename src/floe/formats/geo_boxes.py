"""The boxes around geometries in well-known binary, which are the bounds of their columns (spec: Bounds for Geometry).

Points, which most columns hold, are measured all at once; other shapes one by one, coordinates of a ring at a time.
Edges of a geography are no straight lines and may leave the box of their ends, so only its points have a box.
Coordinates that are NaN count as missing. What cannot be parsed leaves a column without bounds, which is always right.

>>> from floe.spec.codecs.wkt import wkt_to_wkb
>>> box = GeoBox(edges_are_straight=True)
>>> box.add(pa.array([wkt_to_wkb("POINT (30 10)"), None, wkt_to_wkb("LINESTRING (0 20, 5 5)")]))
>>> box.lower, box.upper
(GeoPoint(x=0.0, y=5.0, z=None, m=None), GeoPoint(x=30.0, y=20.0, z=None, m=None))
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from floe.spec.codecs.single_value import GeoPoint
from floe.spec.codecs.wkt import MAX_DEPTH

__all__ = ["GeoBox"]

_POINT_BYTES = 21
_LITTLE_POINT = np.frombuffer(b"\x01\x01\0\0\0", np.uint8)
_POINT, _LINE, _POLYGON, _MULTIPOINT = 1, 2, 3, 4
_LAST_KIND = 7
_DIMENSIONS: tuple[tuple[int, ...], ...] = ((0, 1), (0, 1, 2), (0, 1, 3), (0, 1, 2, 3))
"""Which of x, y, z and m a coordinate has, by the thousands of a geometry's code."""

Coordinates = NDArray[np.float64]


class GeoBox:
    """The box around all values so far; there is none before the first, and none after one that cannot be measured."""

    def __init__(self, *, edges_are_straight: bool) -> None:
        self._straight = edges_are_straight
        self._least = np.full(4, np.inf)
        self._most = np.full(4, -np.inf)
        self._complete = np.ones(4, bool)
        """Whether all coordinates had this dimension: a box says nothing about one that only some have."""
        self._known = True

    def add(self, array: pa.Array) -> None:
        """Make the box larger by the values of an array of binaries."""
        if not self._known:
            return
        rest = self._add_points(array)
        try:
            for value in rest.to_pylist():
                if value is not None and self._known:
                    _Shape(self, value).measure()
        except (ValueError, struct.error, IndexError):
            self._known = False

    def _add_points(self, array: pa.Array) -> pa.Array:
        """Take plain points into account, all at once; what else there is."""
        ends = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset) if len(array) else None
        if ends is None or array.buffers()[2] is None:
            return array
        plain = (np.diff(ends) == _POINT_BYTES) & np.asarray(array.is_valid())
        if not plain.any():
            return array
        data = np.frombuffer(array.buffers()[2], np.uint8)
        found = data[ends[:-1][plain][:, None] + np.arange(_POINT_BYTES)]
        little = (found[:, :5] == _LITTLE_POINT).all(axis=1)
        self.widen(np.ascontiguousarray(found[little, 5:]).view("<f8").reshape(-1, 2), 0)
        plain[np.flatnonzero(plain)[~little]] = False
        return array.filter(pa.array(~plain))

    def widen(self, coordinates: Coordinates, dimensions: int) -> None:
        """Take coordinates of some dimensions into account."""
        if not len(coordinates):
            return
        places = list(_DIMENSIONS[dimensions])
        missing = np.isnan(coordinates)
        if missing.all():
            return  # an empty point
        self._complete[[place for place in range(4) if place not in places]] = False
        self._complete[places] &= ~missing.any(axis=0)
        self._least[places] = np.fmin(self._least[places], np.fmin.reduce(coordinates))
        self._most[places] = np.fmax(self._most[places], np.fmax.reduce(coordinates))

    def may_measure(self, kind: int) -> bool:
        """Whether the box of a shape is that of its coordinates."""
        return self._straight or kind in (_POINT, _MULTIPOINT)

    @property
    def lower(self) -> GeoPoint | None:
        """The corner with the least coordinates, if there is a box."""
        return self._corner(self._least)

    @property
    def upper(self) -> GeoPoint | None:
        """The corner with the greatest coordinates, if there is a box."""
        return self._corner(self._most)

    def _corner(self, numbers: Coordinates) -> GeoPoint | None:
        if not self._known or not np.isfinite(numbers[:2]).all():
            return None
        z, m = (float(numbers[n]) if self._complete[n] and np.isfinite(numbers[n]) else None for n in (2, 3))
        return GeoPoint(float(numbers[0]), float(numbers[1]), z, m)


class _Shape:
    """One geometry, walked through."""

    def __init__(self, box: GeoBox, data: bytes) -> None:
        self._box = box
        self._data = data
        self._at = 0

    def measure(self, depth: int = MAX_DEPTH) -> None:
        """Make the box larger by the geometry at the current place."""
        order = self._data[self._at]
        if order > 1 or not depth:
            raise ValueError("no well-known binary")
        mark = "><"[order]
        code = self._number(mark, 1)
        dimensions, kind = divmod(code, 1000)
        if not 1 <= kind <= _LAST_KIND or dimensions >= len(_DIMENSIONS) or not self._box.may_measure(kind):
            raise ValueError("a shape that is not measured")
        if kind == _POINT:
            self._coordinates(mark, dimensions, 1)
        elif kind == _LINE:
            self._coordinates(mark, dimensions, self._number(mark))
        elif kind == _POLYGON:
            for _ in range(self._number(mark)):
                self._coordinates(mark, dimensions, self._number(mark))
        else:
            for _ in range(self._number(mark)):
                self.measure(depth - 1)

    def _number(self, mark: str, skip: int = 0) -> int:
        (found,) = struct.unpack_from(f"{mark}I", self._data, self._at + skip)
        self._at += skip + 4
        return int(found)

    def _coordinates(self, mark: str, dimensions: int, count: int) -> None:
        width = len(_DIMENSIONS[dimensions])
        numbers: Any = np.frombuffer(self._data, f"{mark}f8", count * width, self._at)
        self._box.widen(numbers.reshape(count, width).astype(np.float64), dimensions)
        self._at += 8 * count * width
