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
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from floe.formats.arrow_values import to_values
from floe.formats.geo_boxes import GeoBox
from floe.formats.metrics_config import MetricsConfig, MetricsMode
from floe.spec.codecs.bounds import truncate_lower, truncate_upper
from floe.spec.codecs.single_value import encode, encode_geo_bound
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field

__all__ = ["Metrics", "MetricsCollector"]

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
