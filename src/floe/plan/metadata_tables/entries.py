"""The tables of files and of manifest entries, of one snapshot or of all: a batch for each group of manifests.

`EntryRows` converts entries to Arrow rows. Only what the requested columns need is decoded, so a read of paths and
sizes does not decode metrics. `decode_bounds` decodes the bounds in `readable_metrics`, for all files at once. A bound
that is not a value of the column's type (a wrong length, or not UTF-8) is shown as null, so that the others can be
read; the bytes are in `lower_bounds` and `upper_bounds`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from floe.avro.manifest_columns import FORMATS, ManifestColumns
from floe.avro.vector_decoder import Offsets
from floe.errors import CorruptFile
from floe.formats.columns.arrays import constant_array, struct_array
from floe.formats.columns.arrow_types import arrow_schema, arrow_type
from floe.plan.arrow_columns import (
    column_to_array,
    list_array,
    map_array,
    record_batch,
    strings_to_array,
)
from floe.plan.metadata_tables.filters import ManifestFilter, columns_of_filter, matching_rows
from floe.plan.metadata_tables.flat_maps import FlatMaps, flat_lists, flat_maps
from floe.plan.metadata_tables.schemas import METRICS, READABLE_METRICS, MetadataSource
from floe.spec.codecs.single_value import decode, decode_geo_bound
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import ManifestContent, ManifestFile
from floe.spec.pruning.column_evaluation import Column
from floe.spec.pruning.key_columns import ByteKeys, FloatKeys, IntKeys, keys_from_bounds
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, Field, ListType, MapType, StructType, Type

# Bounds -----------------------------------------------------------------------------------------------------------


def decode_bounds(type_: Type, bounds: VarBytes) -> pa.Array:
    r"""The bounds of a column as values of its type; those of geometries are points in well-known binary.

    >>> from floe.spec.types import LONG
    >>> decode_bounds(LONG, VarBytes.of([b"\x05\0\0\0", None, b"wrong"])).to_pylist()
    [5, None, None]
    """
    if not bounds.is_valid.any() or type_.kind == "unknown":
        return pa.nulls(len(bounds), arrow_type(type_))
    if type_.kind in ("geometry", "geography"):
        return pa.array([None if bound is None else _point(bound) for bound in bounds.to_list()], pa.binary())
    try:
        return _decoded(type_, bounds)
    except CorruptFile:
        return pa.array([_decode(type_, bound) for bound in bounds.to_list()], arrow_type(type_))


def _decoded(type_: Type, bounds: VarBytes) -> pa.Array:
    if isinstance(type_, DecimalType):
        return column_to_array(type_, Column(bounds))
    keys = keys_from_bounds(type_, bounds)
    if isinstance(keys, ByteKeys):
        return strings_to_array(
            type_, VarBytes(bounds.data, bounds.starts, np.where(keys.is_valid, bounds.lengths, -1))
        )
    assert isinstance(keys, IntKeys | FloatKeys)
    return column_to_array(type_, Column(np.where(keys.is_valid, keys.values, 0), keys.is_valid))


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


_FEW = 4
_SOURCES = {part: source for part, source, _, _ in METRICS}


@dataclass(frozen=True, eq=False)
class EntryRows:
    """Selected entries of a manifest, in order; `metrics_columns` are the columns with readable metrics, by name."""

    columns: ManifestColumns
    rows: Offsets
    metrics_columns: dict[str, Field]

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, passing: Mask) -> EntryRows:
        """The entries that match; if they are few, the bytes of the others are released."""
        if passing.all():
            return self
        rows = self.rows[passing]
        if not rows.size or len(rows) * _FEW > len(self.columns):
            return replace(self, rows=rows)
        return replace(self, columns=self.columns.take(rows), rows=np.arange(len(rows)))

    def batch(self, schema: Schema) -> pa.RecordBatch:
        """The entries in the columns of a schema, which is a part of the table's."""
        return record_batch(schema, [self.array(field) for field in schema.fields], len(self))

    def array(self, field: Field) -> pa.Array:
        """One column, or one field of the struct `data_file`."""
        if field.name == READABLE_METRICS:
            return self._struct(field.type, self._metrics_of)
        if field.name == "data_file":
            return self._struct(field.type, self.array)
        if field.name == "partition":
            return self._struct(field.type, self._partition)
        if isinstance(field.type, MapType):
            return self._map(field.name, field.type)
        if isinstance(field.type, ListType):
            return self._list(field.name, field.type)
        return _SPECIAL.get(field.name, _plain)(self, field)

    def _struct(self, type_: Type, child: Callable[[Field], pa.Array]) -> pa.Array:
        assert isinstance(type_, StructType)
        return struct_array(arrow_type(type_), [child(field) for field in type_], len(self))

    # partitions ---------------------------------------------------------------------------------------------------

    def _partition(self, field: Field) -> pa.Array:
        """A field of the unified partition; null if the manifest's spec does not have it."""
        if all(partition_field.id != field.id for partition_field in self.columns.partition_type):
            return constant_array(field.type, None, len(self))
        return column_to_array(field.type, self.take(self.columns.partition(field.id)))

    def take(self, column: Column) -> Column:
        """A column at the rows of these entries."""
        values = column.values
        selected = values.take(self.rows) if isinstance(values, VarBytes) else values[self.rows]
        return Column(selected, None if column.valid is None else column.valid[self.rows])

    # metrics ------------------------------------------------------------------------------------------------------

    @cached_property
    def _flat(self) -> dict[str, FlatMaps]:
        return {}

    def flat(self, name: str) -> FlatMaps:
        """The maps of a field, decoded once."""
        if name not in self._flat:
            self._flat[name] = flat_maps(self.columns.stored, name, self.rows)
        return self._flat[name]

    def _map(self, name: str, type_: MapType) -> pa.Array:
        flat = self.flat(name)
        keys = column_to_array(type_.key, Column(flat.keys))
        return map_array(type_, flat.is_valid, flat.counts, keys, column_to_array(type_.value, Column(flat.values)))

    def _list(self, name: str, type_: ListType) -> pa.Array:
        flat = flat_lists(self.columns.stored, name, self.rows)
        return list_array(type_, flat.is_valid, flat.counts, column_to_array(type_.element, Column(flat.items)))

    def _metrics_of(self, field: Field) -> pa.Array:
        column = self.metrics_columns[field.name]
        return self._struct(field.type, lambda part: self._metric(column, _SOURCES[part.name], part.type))

    def _metric(self, column: Field, source: str, type_: Type) -> pa.Array:
        flat = self.flat(source)
        entries, indices = flat.find(column.id)
        if isinstance(flat.values, VarBytes):
            starts, lengths = np.zeros(len(self), np.int64), np.full(len(self), -1, np.int64)
            starts[entries], lengths[entries] = flat.values.starts[indices], flat.values.lengths[indices]
            return decode_bounds(type_, VarBytes(flat.values.data, starts, lengths))
        if not indices.size:
            return constant_array(type_, None, len(self))
        numbers, present = np.zeros(len(self), np.int64), np.zeros(len(self), np.bool_)
        numbers[entries], present[entries] = flat.values[indices], True
        return column_to_array(type_, Column(numbers, present))


# columns of numbers and strings ---------------------------------------------------------------------------------------


def _plain(rows: EntryRows, field: Field) -> pa.Array:
    """A column that `ManifestColumns` has under the same name."""
    stored = getattr(rows.columns, field.name)
    column = stored if isinstance(stored, Column) else Column(stored)
    return column_to_array(field.type, rows.take(column))


def _file_format(rows: EntryRows, field: Field) -> pa.Array:
    return pa.array([name.upper() for name in FORMATS]).take(pa.array(rows.columns.file_format[rows.rows]))


def _spec_id(rows: EntryRows, field: Field) -> pa.Array:
    return column_to_array(field.type, Column(np.full(len(rows), rows.columns.spec_id, np.int64)))


_SPECIAL: dict[str, Callable[[EntryRows, Field], pa.Array]] = {
    "file_format": _file_format,
    "spec_id": _spec_id,
}

# Tables -----------------------------------------------------------------------------------------------------------

_CONTENT_ID, _SPEC_ID = 134, 141
_SMALL_BATCH = 8192
_JOINED_BYTES = 2**30


def entry_table(
    sources: MetadataSource,
    manifests: list[ManifestFile],
    schema: Schema,
    columns: Schema,
    where: Expression,
    *,
    content: ManifestContent | None = None,
    live_only: bool,
) -> pa.Table:
    """The entries of manifests that match a bound filter, in the given columns of a schema."""
    pruning = ManifestFilter(
        where,
        sources.partition_types,
        {field.id: field.id for field in sources.partition_type},
        content_id=_CONTENT_ID,
        spec_column_id=_SPEC_ID,
    )
    read_for_filter = columns_of_filter(where, schema)

    def batch(entries: ManifestColumns) -> pa.RecordBatch:
        chosen = np.flatnonzero(entries.live) if live_only else np.arange(len(entries))
        rows = EntryRows(entries, chosen, sources.metrics_columns)
        if where != TRUE:
            rows = rows.where(matching_rows(where, rows.batch(read_for_filter), schema))
        return rows.batch(columns)

    of_kind = [m for m in manifests if content is None or m.content == content]
    return concat_batches(sources.read_manifests(pruning.select(of_kind), batch), columns)


def concat_batches(batches: Iterator[pa.RecordBatch], schema: Schema) -> pa.Table:
    """The batches as one table; many small ones are combined, because each chunk is a cost for readers."""
    non_empty = [batch for batch in batches if batch.num_rows]
    table = pa.Table.from_batches(non_empty, arrow_schema(schema))
    small = len(non_empty) > 1 and table.num_rows < len(non_empty) * _SMALL_BATCH
    return table.combine_chunks() if small and table.nbytes < _JOINED_BYTES else table
