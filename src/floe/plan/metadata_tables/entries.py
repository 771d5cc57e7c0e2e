"""Some entries of a manifest as rows of Arrow: any part of what the tables of files and entries show, and no more.

What a column needs is decoded when it is asked for: who asks for paths and sizes pays for no metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from floe.avro.lanes import Places
from floe.avro.manifests import FORMATS, ManifestColumns
from floe.plan.metadata_tables.arrays import batch_of, list_array, map_array, null_array, struct_array, to_array
from floe.plan.metadata_tables.flat_maps import FlatMaps, flat_lists, flat_maps
from floe.plan.metadata_tables.readable_metrics import bounds_array
from floe.plan.metadata_tables.schemas import METRICS, READABLE_METRICS
from floe.spec.pruning.columnar_facts import Mask
from floe.spec.pruning.columnar_rows import Column
from floe.spec.pruning.var_bytes import VarBytes
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, ListType, MapType, StructType, Type

__all__ = ["EntryRows"]

_FORMAT_WORDS = [name.upper() for name in FORMATS]  # pyarrow looks for pandas at the first array, not before it must
_FEW = 4
_SOURCES = {part: source for part, source, _, _ in METRICS}


@dataclass(frozen=True, eq=False)
class EntryRows:
    """Some entries of a manifest, in their order; `measured` are the table's columns by their names in the metrics."""

    columns: ManifestColumns
    rows: Places
    measured: dict[str, Field]

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, passing: Mask) -> EntryRows:
        """Those of the rows that pass; if they are few, the bytes of the others are left behind."""
        if passing.all():
            return self
        rows = self.rows[passing]
        if not rows.size or len(rows) * _FEW > len(self.columns):
            return replace(self, rows=rows)
        return replace(self, columns=self.columns.take(rows), rows=np.arange(len(rows)))

    def batch(self, schema: Schema) -> pa.RecordBatch:
        """The rows in the columns of a schema, which is a part of the table's."""
        return batch_of(schema, [self.array(field) for field in schema.fields], len(self))

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
        return struct_array(type_, [child(field) for field in type_], len(self))

    # partitions ---------------------------------------------------------------------------------------------------

    def _partition(self, field: Field) -> pa.Array:
        """A field of the unified partition; null where the manifest's spec does not have it."""
        if all(own.id != field.id for own in self.columns.partition_type):
            return null_array(field.type, len(self))
        return to_array(field.type, self.taken(self.columns.partition(field.id)))

    def taken(self, column: Column) -> Column:
        """The chosen rows of a column."""
        values = column.values
        some = values.take(self.rows) if isinstance(values, VarBytes) else values[self.rows]
        return Column(some, None if column.valid is None else column.valid[self.rows])

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
        keys = to_array(type_.key, Column(flat.keys))
        return map_array(type_, flat.known, flat.counts, keys, to_array(type_.value, Column(flat.values)))

    def _list(self, name: str, type_: ListType) -> pa.Array:
        flat = flat_lists(self.columns.stored, name, self.rows)
        return list_array(type_, flat.known, flat.counts, to_array(type_.element, Column(flat.items)))

    def _metrics_of(self, field: Field) -> pa.Array:
        column = self.measured[field.name]
        return self._struct(field.type, lambda part: self._metric(column, _SOURCES[part.name], part.type))

    def _metric(self, column: Field, source: str, type_: Type) -> pa.Array:
        flat = self.flat(source)
        entries, places = flat.find(column.id)
        if isinstance(flat.values, VarBytes):
            starts, lengths = np.zeros(len(self), np.int64), np.full(len(self), -1, np.int64)
            starts[entries], lengths[entries] = flat.values.starts[places], flat.values.lengths[places]
            return bounds_array(type_, VarBytes(flat.values.data, starts, lengths))
        if not places.size:
            return null_array(type_, len(self))
        numbers, known = np.zeros(len(self), np.int64), np.zeros(len(self), np.bool_)
        numbers[entries], known[entries] = flat.values[places], True
        return to_array(type_, Column(numbers, known))


# columns of numbers and strings ---------------------------------------------------------------------------------------


def _plain(rows: EntryRows, field: Field) -> pa.Array:
    """A column that `ManifestColumns` has under the same name."""
    found = getattr(rows.columns, field.name)
    column = found if isinstance(found, Column) else Column(found)
    return to_array(field.type, rows.taken(column))


def _file_format(rows: EntryRows, field: Field) -> pa.Array:
    return pa.array(_FORMAT_WORDS).take(pa.array(rows.columns.file_format[rows.rows]))


def _spec_id(rows: EntryRows, field: Field) -> pa.Array:
    return to_array(field.type, Column(np.full(len(rows), rows.columns.spec_id, np.int64)))


_SPECIAL: dict[str, Callable[[EntryRows, Field], pa.Array]] = {
    "file_format": _file_format,
    "spec_id": _spec_id,
}
