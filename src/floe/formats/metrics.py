"""Metrics of the columns of a file, collected from the Arrow batches that are written (spec: Data File Fields).

`MetricsCollector` counts values, nulls and NaN, and computes bounds. Top-level columns and fields of structs have
metrics; lists and maps have none, as no filter could use them. A field of a null struct counts as null. Bounds exclude
NaN; a zero is `-0.0` as a lower bound and `0.0` as an upper bound, so that both hold whatever the sign (spec: Sorting).
The bounds of geometries are the corners of the box around them (`GeoBox`); variants have none.

>>> from floe.spec.types import Field, LONG, STRING
>>> collector = MetricsCollector(Schema((Field(1, "s", STRING),)), MetricsConfig())
>>> collector.add(pa.record_batch({"s": ["b", None, "a" * 20]}))
>>> metrics = collector.result()
>>> metrics.value_counts, metrics.null_value_counts, metrics.lower_bounds, metrics.upper_bounds
({1: 3}, {1: 1}, {1: b'aaaaaaaaaaaaaaaa'}, {1: b'b'})

`MetricsConfig` has the mode of each column, from the table properties `write.metadata.metrics.*`:

| mode | metrics of a column |
|---|---|
| `none` | none |
| `counts` | counts of values, nulls and NaN |
| `truncate(n)` | counts, and bounds truncated to n characters or bytes |
| `full` | counts, and whole bounds |

Without any property the mode is `truncate(16)` for the first 100 columns and `none` for the others, so that wide tables
have little metadata; columns by which the rows are sorted have at least `truncate(16)`.

>>> schema = Schema((Field(1, "id", LONG), Field(2, "note", STRING)))
>>> config = MetricsConfig.from_properties({"write.metadata.metrics.column.note": "counts"}, schema)
>>> str(config.mode(1)), str(config.mode(2))
('truncate(16)', 'counts')
"""

from __future__ import annotations

import dataclasses
import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from floe.errors import InvalidUpdate
from floe.formats.columns.arrays import to_values
from floe.spec.codecs.single_value import GeoPoint, encode, encode_geo_bound, truncate_lower, truncate_upper
from floe.spec.codecs.wkt import MAX_DEPTH
from floe.spec.properties import METRICS_COLUMN, METRICS_DEFAULT, METRICS_MAX_INFERRED
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH, DELETE_POS
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import SortOrder
from floe.spec.types import Field

# Configuration --------------------------------------------------------------------------------------------------------

_TRUNCATE = re.compile(r"truncate\(\s*([0-9]{1,9})\s*\)")


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """Which metrics of a column are collected; `length` is that of truncated bounds, None for whole ones.

    >>> str(MetricsMode(True, True, 16)), str(MetricsMode(True, False))
    ('truncate(16)', 'counts')
    """

    counts: bool
    bounds: bool
    length: int | None = None

    def __str__(self) -> str:
        if not self.bounds:
            return "counts" if self.counts else "none"
        return "full" if self.length is None else f"truncate({self.length})"


NONE = MetricsMode(False, False)
COUNTS = MetricsMode(True, False)
FULL = MetricsMode(True, True)
DEFAULT_MODE = MetricsMode(True, True, 16)
_NAMED = {str(mode): mode for mode in (NONE, COUNTS, FULL)}


def parse_mode(text: str, property_name: str = METRICS_DEFAULT.name) -> MetricsMode:
    """The metrics mode in the value of a property; raises `InvalidUpdate` if it is not one.

    >>> parse_mode("Truncate(8)")
    MetricsMode(counts=True, bounds=True, length=8)
    >>> parse_mode("some")
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: 'some' is not a metrics mode (property: write.metadata.metrics.default); ...
    """
    lowered = text.strip().lower()
    mode = _NAMED.get(lowered)
    if mode is not None:
        return mode
    truncation = _TRUNCATE.fullmatch(lowered)
    if truncation is None or int(truncation[1]) == 0:
        raise InvalidUpdate(
            f"{text[:80]!r} is not a metrics mode",
            hint="the modes are none, counts, truncate(n) with n above 0, and full",
            property=property_name,
        )
    return MetricsMode(True, True, int(truncation[1]))


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """The metrics mode of columns by field id, and the default of all others."""

    default: MetricsMode = DEFAULT_MODE
    by_id: Mapping[int, MetricsMode] = dataclasses.field(default_factory=lambda: MappingProxyType({}))

    def mode(self, field_id: int) -> MetricsMode:
        """The metrics mode of a column."""
        return self.by_id.get(field_id, self.default)

    @classmethod
    def for_position_deletes(cls) -> MetricsConfig:
        """Exact bounds of path and position, which identify the data files of the deletes; none of the deleted rows.

        >>> str(MetricsConfig.for_position_deletes().mode(DELETE_FILE_PATH.id))
        'full'
        """
        return cls(NONE, MappingProxyType({DELETE_FILE_PATH.id: FULL, DELETE_POS.id: FULL}))

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], schema: Schema, sort_order: SortOrder | None = None
    ) -> MetricsConfig:
        """The configuration of a table; properties of columns that the schema does not have are ignored.

        >>> str(MetricsConfig.from_properties({"write.metadata.metrics.default": "full"}, Schema(())).default)
        'full'
        """
        by_id: dict[int, MetricsMode] = {}
        default_text = METRICS_DEFAULT.read(properties)
        if default_text is not None:
            default = parse_mode(default_text)
        else:
            limit = METRICS_MAX_INFERRED.read(properties)
            limit = METRICS_MAX_INFERRED.default if limit < 0 else limit  # like other writers
            default = DEFAULT_MODE
            if len(schema.by_id) > limit:
                default = NONE
                by_id.update(dict.fromkeys(_first_columns(schema, limit), DEFAULT_MODE))
        for field_id in _sorted_columns(sort_order):
            if not by_id.get(field_id, default).bounds:
                by_id[field_id] = DEFAULT_MODE
        for column, text in METRICS_COLUMN.members(properties).items():
            if schema.has(column):
                by_id[schema.resolve(column).field.id] = parse_mode(text, METRICS_COLUMN.member(column).name)
        return cls(default, MappingProxyType(by_id))


def _first_columns(schema: Schema, count: int) -> list[int]:
    """The ids of the first `count` columns that are not nested, level by level."""
    ids = (child.id for child in _level_by_level(schema.fields) if not child.type.is_nested)
    return [field_id for _, field_id in zip(range(count), ids, strict=False)]


def _level_by_level(fields: tuple[Field, ...]) -> Iterator[Field]:
    yield from fields
    for child in fields:
        yield from _level_by_level(child.type.fields)


def _sorted_columns(order: SortOrder | None) -> list[int]:
    """The columns that the rows are sorted by, directly or by a transform that preserves their order."""
    if order is None:
        return []
    return [sort.source_id for sort in order.fields if sort.transform.preserves_order]


# Bounding boxes of geometries -----------------------------------------------------------------------------------------

_POINT_BYTES = 21
_LITTLE_POINT = np.frombuffer(b"\x01\x01\0\0\0", np.uint8)
_POINT, _LINE, _POLYGON, _MULTIPOINT = 1, 2, 3, 4
_LAST_KIND = 7
_DIMENSIONS: tuple[tuple[int, ...], ...] = ((0, 1), (0, 1, 2), (0, 1, 3), (0, 1, 2, 3))
"""Which of x, y, z and m a coordinate has, by the thousands of a geometry's type code."""

Coordinates = NDArray[np.float64]


class GeoBox:
    """The bounding box of geometries in well-known binary (spec: Bounds for Geometry).

    Points, the most frequent geometries, are measured by columns; other geometries one by one, all coordinates of a
    ring at once. The edges of a geography are not straight and may leave the box of their ends, so only points of
    geographies have a box. Coordinates that are NaN count as missing. There is no box before the first value, and none
    after a value that cannot be parsed, because a column without bounds is never pruned.

    >>> from floe.spec.codecs.wkt import wkt_to_wkb
    >>> box = GeoBox(edges_are_straight=True)
    >>> box.add(pa.array([wkt_to_wkb("POINT (30 10)"), None, wkt_to_wkb("LINESTRING (0 20, 5 5)")]))
    >>> box.lower, box.upper
    (GeoPoint(x=0.0, y=5.0, z=None, m=None), GeoPoint(x=30.0, y=20.0, z=None, m=None))
    """

    def __init__(self, *, edges_are_straight: bool) -> None:
        self._straight = edges_are_straight
        self._min = np.full(4, np.inf)
        self._max = np.full(4, -np.inf)
        self._complete = np.ones(4, bool)
        """Whether all coordinates had this dimension: a box has no bounds for one that only some have."""
        self._measurable = True

    def add(self, array: pa.Array) -> None:
        """Extend the box to the geometries of a binary array."""
        if not self._measurable:
            return
        others = self._add_points(array)
        try:
            for value in others.to_pylist():
                if value is not None and self._measurable:
                    _GeometryReader(self, value).measure()
        except (ValueError, struct.error, IndexError):
            self._measurable = False

    def _add_points(self, array: pa.Array) -> pa.Array:
        """Extend the box to all two-dimensional points at once, and return the other geometries."""
        ends = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset) if len(array) else None
        if ends is None or array.buffers()[2] is None:
            return array
        is_point = (np.diff(ends) == _POINT_BYTES) & np.asarray(array.is_valid())
        if not is_point.any():
            return array
        data = np.frombuffer(array.buffers()[2], np.uint8)
        points = data[ends[:-1][is_point][:, None] + np.arange(_POINT_BYTES)]
        little = (points[:, :5] == _LITTLE_POINT).all(axis=1)
        self.widen(np.ascontiguousarray(points[little, 5:]).view("<f8").reshape(-1, 2), 0)
        is_point[np.flatnonzero(is_point)[~little]] = False
        return array.filter(pa.array(~is_point))

    def widen(self, coordinates: Coordinates, dimensions: int) -> None:
        """Extend the box to coordinates of some dimensions."""
        if not len(coordinates):
            return
        axes = list(_DIMENSIONS[dimensions])
        missing = np.isnan(coordinates)
        if missing.all():
            return  # an empty point
        self._complete[[n for n in range(4) if n not in axes]] = False
        self._complete[axes] &= ~missing.any(axis=0)
        self._min[axes] = np.fmin(self._min[axes], np.fmin.reduce(coordinates))
        self._max[axes] = np.fmax(self._max[axes], np.fmax.reduce(coordinates))

    def may_measure(self, kind: int) -> bool:
        """Whether the box of a kind of geometry is that of its coordinates."""
        return self._straight or kind in (_POINT, _MULTIPOINT)

    @property
    def lower(self) -> GeoPoint | None:
        """The corner with the least coordinates, if there is a box."""
        return self._corner(self._min)

    @property
    def upper(self) -> GeoPoint | None:
        """The corner with the greatest coordinates, if there is a box."""
        return self._corner(self._max)

    def _corner(self, numbers: Coordinates) -> GeoPoint | None:
        if not self._measurable or not np.isfinite(numbers[:2]).all():
            return None
        z, m = (float(numbers[n]) if self._complete[n] and np.isfinite(numbers[n]) else None for n in (2, 3))
        return GeoPoint(float(numbers[0]), float(numbers[1]), z, m)


class _GeometryReader:
    """Reads a geometry in well-known binary, and extends a box to its coordinates."""

    def __init__(self, box: GeoBox, data: bytes) -> None:
        self._box = box
        self._data = data
        self._offset = 0

    def measure(self, depth: int = MAX_DEPTH) -> None:
        """Extend the box to the geometry at the current offset."""
        order_byte = self._data[self._offset]
        if order_byte > 1 or not depth:
            raise ValueError("not well-known binary")
        byte_order = "><"[order_byte]
        code = self._number(byte_order, 1)
        dimensions, kind = divmod(code, 1000)
        if not 1 <= kind <= _LAST_KIND or dimensions >= len(_DIMENSIONS) or not self._box.may_measure(kind):
            raise ValueError("a geometry that is not measured")
        if kind == _POINT:
            self._coordinates(byte_order, dimensions, 1)
        elif kind == _LINE:
            self._coordinates(byte_order, dimensions, self._number(byte_order))
        elif kind == _POLYGON:
            for _ in range(self._number(byte_order)):
                self._coordinates(byte_order, dimensions, self._number(byte_order))
        else:
            for _ in range(self._number(byte_order)):
                self.measure(depth - 1)

    def _number(self, byte_order: str, skip: int = 0) -> int:
        (number,) = struct.unpack_from(f"{byte_order}I", self._data, self._offset + skip)
        self._offset += skip + 4
        return int(number)

    def _coordinates(self, byte_order: str, dimensions: int, count: int) -> None:
        width = len(_DIMENSIONS[dimensions])
        numbers: Any = np.frombuffer(self._data, f"{byte_order}f8", count * width, self._offset)
        self._box.widen(numbers.reshape(count, width).astype(np.float64), dimensions)
        self._offset += 8 * count * width


# Collection -----------------------------------------------------------------------------------------------------------

_FLOATS = frozenset({"float", "double"})
_GEOSPATIAL = frozenset({"geometry", "geography"})


@dataclass(frozen=True, slots=True)
class Metrics:
    """The metrics of a file by field id, as in a manifest; bounds are in the single-value encoding."""

    record_count: int
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]


class MetricsCollector:
    """Collects the metrics of batches, which must have the columns and Arrow types of the schema, in its order."""

    def __init__(self, schema: Schema, config: MetricsConfig) -> None:
        self.record_count = 0
        self._columns = [
            _column_metrics(field, path, config.mode(field.id))
            for field, path in _fields_with_metrics(schema.fields)
            if config.mode(field.id).counts
        ]

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch."""
        self.record_count += batch.num_rows
        for column in self._columns:
            array = batch.column(column.path[0])
            for index in column.path[1:]:
                array = pc.struct_field(array, [index])  # null where the struct is null
            column.add(array)

    def result(self) -> Metrics:
        """The metrics of all rows so far."""
        lower = {column.field.id: column.lower_bound() for column in self._columns}
        upper = {column.field.id: column.upper_bound() for column in self._columns}
        return Metrics(
            self.record_count,
            {column.field.id: self.record_count for column in self._columns},
            {column.field.id: column.nulls for column in self._columns},
            {column.field.id: column.nans for column in self._columns if column.field.type.kind in _FLOATS},
            {field_id: bound for field_id, bound in lower.items() if bound is not None},
            {field_id: bound for field_id, bound in upper.items() if bound is not None},
        )


def _fields_with_metrics(
    fields: tuple[Field, ...], path: tuple[int, ...] = ()
) -> Iterator[tuple[Field, tuple[int, ...]]]:
    """The fields that have metrics, with the path of column and child indices to their arrays."""
    for index, field in enumerate(fields):
        if field.type.kind == "struct":
            yield from _fields_with_metrics(field.type.fields, (*path, index))
        elif not field.type.is_nested and field.type.kind != "unknown":
            yield field, (*path, index)


class _ColumnMetrics:
    def __init__(self, field: Field, path: tuple[int, ...], mode: MetricsMode) -> None:
        self.field = field
        self.path = path
        self.mode = mode
        self.nulls = 0
        self.nans = 0
        self._bounded = mode.bounds and field.type.kind != "variant"
        self._lower: Any = None
        self._upper: Any = None

    def add(self, array: pa.Array) -> None:
        self.nulls += array.null_count
        if self.field.type.kind in _FLOATS:
            self.nans += pc.sum(pc.is_nan(array)).as_py() or 0
        if not self._bounded or array.null_count == len(array):
            return
        lower, upper = self._range(array)
        if lower is None:
            return
        self._lower = lower if self._lower is None else min(self._lower, lower)
        self._upper = upper if self._upper is None else max(self._upper, upper)

    def _range(self, array: pa.Array) -> tuple[Any, Any]:
        """The least and the greatest value other than NaN; None if there is none."""
        min_max = pc.min_max(array)
        # not through as_py(), whose datetimes lose nanoseconds
        both = pa.concat_arrays([pa.repeat(min_max["min"], 1), pa.repeat(min_max["max"], 1)])
        lower, upper = to_values(self.field.type, both)
        if isinstance(lower, float):
            if math.isnan(lower) or math.isnan(upper):
                numbers = array.filter(pc.invert(pc.is_nan(array)))
                if numbers.null_count == len(numbers):
                    return None, None
                return self._range(numbers)
            lower, upper = (-0.0 if lower == 0 else lower), (0.0 if upper == 0 else upper)
        return lower, upper

    def lower_bound(self) -> bytes | None:
        if self._lower is None:
            return None
        length = self.mode.length
        value = self._lower if length is None else truncate_lower(self.field.type, self._lower, length)
        return encode(self.field.type, value)

    def upper_bound(self) -> bytes | None:
        if self._upper is None:
            return None
        length = self.mode.length
        value = self._upper if length is None else truncate_upper(self.field.type, self._upper, length)
        return None if value is None else encode(self.field.type, value)


class _GeoColumnMetrics(_ColumnMetrics):
    """A column of geometries, whose bounds are never truncated."""

    def __init__(self, field: Field, path: tuple[int, ...], mode: MetricsMode) -> None:
        super().__init__(field, path, mode)
        self._box = GeoBox(edges_are_straight=field.type.kind == "geometry")

    def add(self, array: pa.Array) -> None:
        self.nulls += array.null_count
        if self._bounded:
            self._box.add(array)

    def lower_bound(self) -> bytes | None:
        corner = self._box.lower
        return None if corner is None else encode_geo_bound(corner)

    def upper_bound(self) -> bytes | None:
        corner = self._box.upper
        return None if corner is None else encode_geo_bound(corner)


def _column_metrics(field: Field, path: tuple[int, ...], mode: MetricsMode) -> _ColumnMetrics:
    return (_GeoColumnMetrics if field.type.kind in _GEOSPATIAL else _ColumnMetrics)(field, path, mode)
