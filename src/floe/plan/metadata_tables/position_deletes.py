"""The table of deleted positions: what the position delete files and deletion vectors of a snapshot delete."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from floe.avro.manifests import FORMATS, ManifestColumns
from floe.errors import FloeError
from floe.formats.arrow_types import arrow_schema
from floe.plan.metadata_tables.arrays import batch_of, constant_array, null_array
from floe.plan.metadata_tables.delete_rows import deleted_positions, deleted_rows
from floe.plan.metadata_tables.entry_rows import EntryRows
from floe.plan.metadata_tables.file_rows import joined
from floe.plan.metadata_tables.filtering import ManifestFilter, needed_columns, passing, relaxed_to
from floe.plan.metadata_tables.sources import Sources
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.expressions.rewrite import field_ids
from floe.spec.manifests.entries import DataFile, FileContent, ManifestContent
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.pruning.columnar_facts import Mask
from floe.spec.pruning.columnar_metrics import might_match
from floe.spec.schemas.column_projection import project
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, StructType

__all__ = ["position_deletes"]

_OF_THE_FILE = {
    "partition": "partition",
    "spec_id": "spec_id",
    "delete_file_path": "file_path",
    "content_offset": "content_offset",
    "content_size_in_bytes": "content_size_in_bytes",
}
"""The columns that have one value for all rows of a delete file, and the column of an entry that they are."""


def position_deletes(
    sources: Sources, snapshot: Snapshot | None, schema: Schema, columns: Schema, where: Expression
) -> pa.Table:
    """One row for each deleted position, if it passes a filter bound to the schema.

    Delete files that the filter rules out by their partition, path or metrics are not opened.
    """
    return _Reading(sources, schema, columns, where).table(snapshot)


class _Reading:
    """How one request is answered."""

    def __init__(self, sources: Sources, schema: Schema, columns: Schema, where: Expression) -> None:
        self.sources = sources
        self.schema = schema
        self.columns = columns
        self.where = where
        self.read = columns
        if where != TRUE:  # whole columns, which are cut down after the filter
            names = {field.name for field in columns.fields}
            names |= {schema.entry(field_id).path[0] for field_id in field_ids(where)}
            self.read = Schema(tuple(field for field in schema.fields if field.name in names))
        renumbered = next((field.type.fields for field in schema.fields if field.name == "partition"), ())
        partition_ids = {own.id: field.id for own, field in zip(renumbered, sources.partition_type, strict=True)}
        self.partition_ids = partition_ids
        spec_column = schema.field("spec_id").id
        self.pruning = ManifestFilter(where, sources.partition_types, partition_ids, spec_column_id=spec_column)
        of_the_file = {field.id for field in schema.fields if field.name in _OF_THE_FILE} | partition_ids.keys()
        self.early = relaxed_to(where, of_the_file)
        self.measured = field_ids(where) - of_the_file

    def table(self, snapshot: Snapshot | None) -> pa.Table:
        manifests = [m for m in self.sources.manifests(snapshot) if m.content == ManifestContent.DELETES]
        chosen = list(filter(self.pruning.might_match, manifests))
        files = [file for found in self.sources.look_at(chosen, self._delete_files) for file in found]
        return joined(self.sources.each(self._rows, files), self.columns)

    def _delete_files(self, columns: ManifestColumns) -> list[tuple[DataFile, pa.RecordBatch]]:
        """The delete files among some entries that may have rows, each with its constant columns."""
        chosen = columns.live & (columns.content == FileContent.POSITION_DELETES)
        rows = EntryRows(columns, np.flatnonzero(chosen), {})
        rows = rows.where(self._might_match(rows, columns))
        constants = self._constants(rows, self.read)
        return [
            (file, constants.slice(n, 1)) for n, file in enumerate(rows.columns.data_files(rows.rows, metrics=False))
        ]

    def _might_match(self, rows: EntryRows, columns: ManifestColumns) -> Mask:
        if self.where == TRUE:
            return np.ones(len(rows), np.bool_)
        early = passing(self.early, self._constants(rows, needed_columns(self.early, self.schema)), self.schema)
        # the columns of delete files have the ids that they have here; vectors have no metrics
        metrics: Mask = might_match(self.where, columns.stats(self.measured))[rows.rows]
        vectors: Mask = columns.file_format[rows.rows] == FORMATS.index("puffin")
        return early & (metrics | vectors)

    def _constants(self, rows: EntryRows, schema: Schema) -> pa.RecordBatch:
        """Those columns of a schema that are the same for all rows of a delete file, a row for each file."""
        fields = [field for field in schema.fields if field.name in _OF_THE_FILE]
        arrays = [rows.array(self._entry_field(field)) for field in fields]
        return batch_of(Schema(tuple(fields)), arrays, len(rows))

    def _entry_field(self, field: Field) -> Field:
        """The column of an entry that one of this table is; partition fields have other ids there."""
        if field.name != "partition":
            return replace(field, name=_OF_THE_FILE[field.name])
        own = (replace(child, id=self.partition_ids[child.id]) for child in field.type.fields)
        return replace(field, type=StructType(tuple(own)))

    def _rows(self, file_and_constants: tuple[DataFile, pa.RecordBatch]) -> pa.RecordBatch:
        file, constants = file_and_constants
        try:
            found = self._file_rows(file, constants)
        except FloeError as error:
            raise error.with_context(file=file.file_path) from None
        if self.where == TRUE:
            return found
        passed = found.filter(pa.array(passing(self.where, found, self.schema)))
        wanted = arrow_schema(self.columns)
        return pa.RecordBatch.from_struct_array(passed.select(wanted.names).to_struct_array().cast(pa.struct(wanted)))

    def _file_rows(self, file: DataFile, constants: pa.RecordBatch) -> pa.RecordBatch:
        fields = {field.name: field for field in self.read.fields}
        if file.is_deletion_vector:
            positions = deleted_positions(self.sources.storage, file)
            stored = {"pos": positions}
            count = len(positions)
            if "file_path" in fields:
                stored["file_path"] = constant_array(fields["file_path"], file.referenced_data_file, count)
        else:
            wanted = project(self.read, {f.id for f in self.read.fields if f.name in ("file_path", "pos", "row")})
            rows = deleted_rows(self.sources.storage, file, wanted, self.sources.metadata.properties)
            stored, count = dict(zip(rows.schema.names, rows.columns, strict=True)), rows.num_rows
        repeated = pa.array(np.zeros(count, np.int64))
        arrays = []
        for name, field in fields.items():
            if name in stored:
                arrays.append(stored[name])
            elif name in _OF_THE_FILE:
                arrays.append(constants.column(name).take(repeated))
            else:
                arrays.append(null_array(field.type, count))
        return batch_of(self.read, arrays, count)
