"""The table `position_deletes`: the positions that position delete files and deletion vectors of a snapshot delete.

Delete files (Parquet, ORC, Avro) and deletion vectors are read as Arrow. The deleted rows themselves, which few writers
store, are projected to the table's schema, by field id at every depth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from floe.avro.manifest_columns import FORMATS, ManifestColumns
from floe.errors import FloeError
from floe.formats.columns.arrays import constant_array
from floe.formats.columns.arrow_types import arrow_schema
from floe.formats.puffin import read_deletion_vector
from floe.formats.registry import default_registry, read_position_deletes
from floe.plan.arrow_columns import record_batch
from floe.plan.delete_files import relax_to_columns
from floe.plan.metadata_tables.entries import EntryRows, concat_batches
from floe.plan.metadata_tables.filters import ManifestFilter, columns_of_filter, matching_rows
from floe.plan.metadata_tables.schemas import MetadataSource
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.expressions.simplification import field_ids
from floe.spec.manifests.entries import DataFile, FileContent, ManifestContent
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.pruning.metrics_evaluation import files_might_match
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.schemas.column_projection import project
from floe.spec.schemas.metadata_columns import DELETE_ROW_ID
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, StructType
from floe.storage.protocol import Storage

# Content of delete files ------------------------------------------------------------------------------------------

_FORMATS = default_registry()


def read_deleted_positions(storage: Storage, vector: DataFile) -> pa.Array:
    """The positions in a deletion vector, ascending; raises `CorruptFile` if the manifest has another count."""
    positions = read_deletion_vector(storage, vector)
    return pa.array(np.frombuffer(positions.to_array(), np.uint64).view(np.int64))


def read_deleted_rows(
    storage: Storage, file: DataFile, columns: Schema, properties: Mapping[str, str] | None = None
) -> pa.RecordBatch:
    """The rows of a position delete file in these columns; `row` is null if the file has none."""
    schema = Schema(tuple(replace(f, required=f.required and f.id != DELETE_ROW_ID) for f in columns.fields))
    batches = list(read_position_deletes(_FORMATS, storage, file, schema, trust_manifest=False, properties=properties))
    if not schema.fields:
        return record_batch(schema, [], sum(batch.num_rows for batch in batches))
    return pa.concat_batches([pa.RecordBatch.from_pylist([], arrow_schema(schema)), *batches])


_OF_THE_FILE = {
    "partition": "partition",
    "spec_id": "spec_id",
    "delete_file_path": "file_path",
    "content_offset": "content_offset",
    "content_size_in_bytes": "content_size_in_bytes",
}
"""The columns that have one value for all rows of a delete file, and the column of an entry that they are."""


def position_deletes(
    sources: MetadataSource, snapshot: Snapshot | None, schema: Schema, columns: Schema, where: Expression
) -> pa.Table:
    """One row for each deleted position that matches a filter, which is bound to the schema.

    Delete files that the filter rules out by their partition, path or metrics are not opened.
    """
    return _Reading(sources, schema, columns, where).table(snapshot)


class _Reading:
    """The reading of the table for one request."""

    def __init__(self, sources: MetadataSource, schema: Schema, columns: Schema, where: Expression) -> None:
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
        partition_ids = {
            renumbered_field.id: field.id
            for renumbered_field, field in zip(renumbered, sources.partition_type, strict=True)
        }
        self.partition_ids = partition_ids
        spec_column = schema.field("spec_id").id
        self.pruning = ManifestFilter(where, sources.partition_types, partition_ids, spec_column_id=spec_column)
        of_the_file = {field.id for field in schema.fields if field.name in _OF_THE_FILE} | partition_ids.keys()
        self.early = relax_to_columns(where, of_the_file)
        self.metrics_ids = field_ids(where) - of_the_file

    def table(self, snapshot: Snapshot | None) -> pa.Table:
        manifests = [m for m in self.sources.manifests(snapshot) if m.content == ManifestContent.DELETES]
        chosen = self.pruning.select(manifests)
        delete_files = self.sources.read_manifests(chosen, self._delete_files)
        files = [file for of_manifest in delete_files for file in of_manifest]
        return concat_batches(self.sources.run_concurrently(self._rows, files), self.columns)

    def _delete_files(self, columns: ManifestColumns) -> list[tuple[DataFile, pa.RecordBatch]]:
        """The delete files among entries that may have matching rows, each with its constant columns."""
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
        early = matching_rows(
            self.early, self._constants(rows, columns_of_filter(self.early, self.schema)), self.schema
        )
        # the columns of delete files have the ids that they have here; vectors have no metrics
        metrics: Mask = files_might_match(self.where, columns.stats(self.metrics_ids))[rows.rows]
        vectors: Mask = columns.file_format[rows.rows] == FORMATS.index("puffin")
        return early & (metrics | vectors)

    def _constants(self, rows: EntryRows, schema: Schema) -> pa.RecordBatch:
        """The columns of a schema that are constant within a delete file, with a row for each file."""
        fields = [field for field in schema.fields if field.name in _OF_THE_FILE]
        arrays = [rows.array(self._entry_field(field)) for field in fields]
        return record_batch(Schema(tuple(fields)), arrays, len(rows))

    def _entry_field(self, field: Field) -> Field:
        """The field of an entry for a column of this table; partition fields have other ids there."""
        if field.name != "partition":
            return replace(field, name=_OF_THE_FILE[field.name])
        children = (replace(child, id=self.partition_ids[child.id]) for child in field.type.fields)
        return replace(field, type=StructType(tuple(children)))

    def _rows(self, file_and_constants: tuple[DataFile, pa.RecordBatch]) -> pa.RecordBatch:
        file, constants = file_and_constants
        try:
            rows = self._file_rows(file, constants)
        except FloeError as error:
            raise error.with_context(file=file.file_path) from None
        if self.where == TRUE:
            return rows
        passed = rows.filter(pa.array(matching_rows(self.where, rows, self.schema)))
        target = arrow_schema(self.columns)
        return pa.RecordBatch.from_struct_array(passed.select(target.names).to_struct_array().cast(pa.struct(target)))

    def _file_rows(self, file: DataFile, constants: pa.RecordBatch) -> pa.RecordBatch:
        fields = {field.name: field for field in self.read.fields}
        if file.is_deletion_vector:
            positions = read_deleted_positions(self.sources.storage, file)
            stored = {"pos": positions}
            count = len(positions)
            if "file_path" in fields:
                stored["file_path"] = constant_array(fields["file_path"].type, file.referenced_data_file, count)
        else:
            row_columns = project(self.read, {f.id for f in self.read.fields if f.name in ("file_path", "pos", "row")})
            rows = read_deleted_rows(self.sources.storage, file, row_columns, self.sources.metadata.properties)
            stored, count = dict(zip(rows.schema.names, rows.columns, strict=True)), rows.num_rows
        repeated = pa.array(np.zeros(count, np.int64))
        arrays = []
        for name, field in fields.items():
            if name in stored:
                arrays.append(stored[name])
            elif name in _OF_THE_FILE:
                arrays.append(constants.column(name).take(repeated))
            else:
                arrays.append(constant_array(field.type, None, count))
        return record_batch(self.read, arrays, count)
