"""The metrics of a file's columns, found from the Arrow batches that are written (spec: Data File Fields).

Metrics are kept of columns at the top and of fields in structs; lists and maps have none, as no filter could use them.
A field of a null struct counts as null. Bounds leave NaN out, and a zero is the lower one as a lower bound (`-0.0`) and
the higher one as an upper bound (`0.0`), so that they hold whatever the sign (spec: Sorting). Those of geometries are
the corners of the box around them; variants have none.

>>> from floe.spec.types import Field, STRING
>>> collector = MetricsCollector(Schema((Field(1, "s", STRING),)), MetricsConfig())
>>> collector.add(pa.record_batch({"s": ["b", None, "a" * 20]}))
>>> found = collector.result()
>>> found.value_counts, found.null_value_counts, found.lower_bounds, found.upper_bounds
({1: 3}, {1: 1}, {1: b'aaaaaaaaaaaaaaaa'}, {1: b'b'})

Which metrics of which columns writers keep: the table properties `write.metadata.metrics.*`.

| mode | what is kept of a column |
|---|---|
| `none` | nothing |
| `counts` | how many values, nulls and NaN |
| `truncate(n)` | counts, and bounds cut to n characters or bytes |
| `full` | counts, and bounds as they are |

Without any property the mode is `truncate(16)` for the first 100 columns and `none` for the rest, so that the metadata
of wide tables stays small; columns by which the rows are sorted have at least `truncate(16)`.

>>> from floe.spec.types import Field, LONG, STRING
>>> schema = Schema((Field(1, "id", LONG), Field(2, "note", STRING)))
>>> config = MetricsConfig.from_properties({"write.metadata.metrics.column.note": "counts"}, schema)
>>> str(config.mode(1)), str(config.mode(2))
('truncate(16)', 'counts')

The boxes around geometries in well-known binary, which are the bounds of their columns (spec: Bounds for Geometry).

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
from floe.formats.arrow_arrays import to_values
from floe.spec.codecs.single_value import GeoPoint, encode, encode_geo_bound, truncate_lower, truncate_upper
from floe.spec.codecs.wkt import MAX_DEPTH
from floe.spec.properties import METRICS_COLUMN, METRICS_DEFAULT, METRICS_MAX_INFERRED
from floe.spec.schemas.metadata_columns import DELETE_FILE_PATH, DELETE_POS
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import SortOrder
from floe.spec.types import Field

# Which metrics of which columns writers keep: the table properties `write.metadata.metrics.*`.

_TRUNCATE = re.compile(r"truncate\(\s*([0-9]{1,9})\s*\)")


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """What is kept of a column; `length` is that of bounds, and None for bounds as they are.

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
    """The mode that a property names.

    >>> parse_mode("Truncate(8)")
    MetricsMode(counts=True, bounds=True, length=8)
    >>> parse_mode("some")
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: 'some' is no metrics mode (property: write.metadata.metrics.default); ...
    """
    lowered = text.strip().lower()
    named = _NAMED.get(lowered)
    if named is not None:
        return named
    found = _TRUNCATE.fullmatch(lowered)
    if found is None or int(found[1]) == 0:
        raise InvalidUpdate(
            f"{text[:80]!r} is no metrics mode",
            hint="the modes are none, counts, truncate(n) with n above 0, and full",
            property=property_name,
        )
    return MetricsMode(True, True, int(found[1]))


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """The metrics mode of each column, by field id, and of all others."""

    default: MetricsMode = DEFAULT_MODE
    by_id: Mapping[int, MetricsMode] = dataclasses.field(default_factory=lambda: MappingProxyType({}))

    def mode(self, field_id: int) -> MetricsMode:
        """What is kept of a column."""
        return self.by_id.get(field_id, self.default)

    @classmethod
    def for_position_deletes(cls) -> MetricsConfig:
        """Exact bounds of path and position, which tell the data files that deletes are for; nothing of the rows.

        >>> str(MetricsConfig.for_position_deletes().mode(DELETE_FILE_PATH.id))
        'full'
        """
        return cls(NONE, MappingProxyType({DELETE_FILE_PATH.id: FULL, DELETE_POS.id: FULL}))

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], schema: Schema, sort_order: SortOrder | None = None
    ) -> MetricsConfig:
        """What the properties of a table say; names of columns that the schema does not have are passed over.

        >>> str(MetricsConfig.from_properties({"write.metadata.metrics.default": "full"}, Schema(())).default)
        'full'
        """
        by_id: dict[int, MetricsMode] = {}
        configured = METRICS_DEFAULT.read(properties)
        if configured is not None:
            default = parse_mode(configured)
        else:
            most = METRICS_MAX_INFERRED.read(properties)
            most = METRICS_MAX_INFERRED.default if most < 0 else most  # as other writers take it
            default = DEFAULT_MODE
            if len(schema.by_id) > most:
                default = NONE
                by_id.update(dict.fromkeys(_first_columns(schema, most), DEFAULT_MODE))
        for field_id in _sorted_columns(sort_order):
            if not by_id.get(field_id, default).bounds:
                by_id[field_id] = DEFAULT_MODE
        for column, text in METRICS_COLUMN.members(properties).items():
            if schema.has(column):
                by_id[schema.resolve(column).field.id] = parse_mode(text, METRICS_COLUMN.member(column).name)
        return cls(default, MappingProxyType(by_id))


def _first_columns(schema: Schema, count: int) -> list[int]:
    """The ids of that many columns with values of their own: those of a level before those nested in it."""
    found = (child.id for child in _level_by_level(schema.fields) if not child.type.is_nested)
    return [field_id for _, field_id in zip(range(count), found, strict=False)]


def _level_by_level(fields: tuple[Field, ...]) -> Iterator[Field]:
    yield from fields
    for child in fields:
        yield from _level_by_level(child.type.fields)


def _sorted_columns(order: SortOrder | None) -> list[int]:
    """The columns whose own order is that of the rows, at least roughly."""
    if order is None:
        return []
    return [sort.source_id for sort in order.fields if sort.transform.preserves_order]


# The boxes around geometries in well-known binary, which are the bounds of their columns (spec: Bounds for Geometry).

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


_FLOATS = frozenset({"float", "double"})
_GEOSPATIAL = frozenset({"geometry", "geography"})


@dataclass(frozen=True, slots=True)
class Metrics:
    """What is known of the columns of a file, by field id, as a manifest has it; bounds are single-value encoded."""

    record_count: int
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]


class MetricsCollector:
    """Sums up batches; their columns must be those of the schema, in its order and of its Arrow types."""

    def __init__(self, schema: Schema, config: MetricsConfig) -> None:
        self.record_count = 0
        self._columns = [
            _column(field, path, config.mode(field.id))
            for field, path in _measured(schema.fields)
            if config.mode(field.id).counts
        ]

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the rows of a batch into account."""
        self.record_count += batch.num_rows
        for column in self._columns:
            array = batch.column(column.path[0])
            for place in column.path[1:]:
                array = pc.struct_field(array, [place])  # null where the struct is
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


def _measured(fields: tuple[Field, ...], path: tuple[int, ...] = ()) -> Iterator[tuple[Field, tuple[int, ...]]]:
    """The fields that have metrics, with the way to their arrays."""
    for place, field in enumerate(fields):
        if field.type.kind == "struct":
            yield from _measured(field.type.fields, (*path, place))
        elif not field.type.is_nested and field.type.kind != "unknown":
            yield field, (*path, place)


class _Column:
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
        """The least and the greatest value, NaN left aside; None where there is no other."""
        found = pc.min_max(array)
        # not by way of Python's own types, which lose precision
        both = pa.concat_arrays([pa.repeat(found["min"], 1), pa.repeat(found["max"], 1)])
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


class _GeoColumn(_Column):
    """A column of geometries; lengths of bounds are no matter of theirs."""

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


def _column(field: Field, path: tuple[int, ...], mode: MetricsMode) -> _Column:
    return (_GeoColumn if field.type.kind in _GEOSPATIAL else _Column)(field, path, mode)
