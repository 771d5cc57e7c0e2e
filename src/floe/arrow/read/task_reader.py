"""Reads the file tasks of a plan: live rows, in the columns of a schema.

The plan has assigned deletes to each file; this module applies them. A scan uses one `TaskReader` for all tasks, so
that a delete file that applies to many data files is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from floe.arrow.read.deletes import EqualityDeletes, KeyColumns, KeySet, PositionDeletes
from floe.arrow.read.extra_columns import make_projector, with_columns
from floe.errors import FloeError, InvalidMetadata
from floe.formats.columns.projection import rows_without_columns
from floe.formats.model import DEFAULT_BATCH_SIZE
from floe.formats.registry import Registry, default_registry
from floe.plan.tasks import FileTask
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.properties import NAME_MAPPING
from floe.spec.schemas.column_projection import identity_values
from floe.spec.schemas.metadata_columns import DELETED, FILE, PARTITION_ID, POS, SPEC_ID
from floe.spec.schemas.name_mapping import NameMapping, parse_name_mapping
from floe.spec.schemas.schema import Schema, SchemaField
from floe.spec.types import Type
from floe.storage.protocol import Storage

Mask = NDArray[np.bool_]

_MAX_KEY_BATCH = 1_000_000


class TaskReader:
    """Reads the tasks of a table's plans; thread-safe.

    >>> from uuid import uuid4
    >>> from floe.plan.tasks import FileTask
    >>> from floe.spec.manifests.entries import EntryStatus, ManifestEntry
    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
    >>> from floe.spec.types import Field, LONG
    >>> from floe.storage.memory import MemoryStorage
    >>> storage, schema = MemoryStorage(), Schema((Field(1, "id", LONG),))
    >>> with default_registry().write_data("avro", "rows", storage, "memory:a.avro").schema(schema).build() as file:
    ...     file.write([{"id": 1}, {"id": 2}])
    >>> task = FileTask(ManifestEntry(EntryStatus.ADDED, 1, 1, 1, file.close()), UNPARTITIONED)
    >>> metadata = new_table_metadata(schema, location="memory:t", uuid=str(uuid4()), now_ms=0)
    >>> reader = TaskReader(metadata, storage)
    >>> [batch.to_pylist() for batch in reader.batches(task, schema)]
    [[{'id': 1}, {'id': 2}]]
    """

    def __init__(
        self,
        metadata: TableMetadata,
        storage: Storage,
        *,
        registry: Registry | None = None,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        self._metadata = metadata
        self._storage = storage
        self._formats = default_registry() if registry is None else registry
        self._batch_size = batch_size
        self._position_deletes = PositionDeletes(storage, self._formats, properties=metadata.properties)

    @cached_property
    def _name_mapping(self) -> NameMapping | None:
        text = NAME_MAPPING.read(self._metadata.properties)
        if text is None:
            return None
        try:
            return parse_name_mapping(text)
        except FloeError as error:
            raise InvalidMetadata(f"the table's property {NAME_MAPPING}: {error.message}") from None

    @cached_property
    def _equality_deletes(self) -> EqualityDeletes:
        return EqualityDeletes(self._metadata, self._storage, self._formats, name_mapping=self._name_mapping)

    # Rows of a task -----------------------------------------------------------------------------------------------

    def batches(self, task: FileTask, schema: Schema, *, where: Expression | None = None) -> Iterator[pa.RecordBatch]:
        """The live rows of a task that match a bound filter, in the columns of a schema.

        The filter is by default the task's residual; `TRUE` selects all live rows. The schema may have metadata
        columns; with `_deleted` among them, deleted rows are returned too, and the column marks them.
        """
        deletes = self._deletes(task.file, task.deletes)
        if DELETED.id in {field.id for field in schema.fields}:
            return self._mark_deleted(task, schema, where, deletes)
        if deletes.deletes_all_rows(task.file):
            return iter(())
        return self._select_rows(task, schema, where, deletes, None)

    def newly_deleted_rows(
        self, task: FileTask, added: Iterable[DataFile], schema: Schema, *, where: Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a task that are live under its deletes, and that the `added` deletes delete."""
        return self._select_rows(
            task, schema, where, self._deletes(task.file, task.deletes), self._deletes(task.file, added)
        )

    def deleted_positions(self, task: FileTask) -> BitMap64:
        """The positions that position deletes and deletion vectors delete in the task's file, in a new bitmap."""
        return self._position_deletes.positions(task.file, task.deletes).copy()

    def _deletes(self, file: DataFile, deletes: Iterable[DataFile]) -> _Deletes:
        deletes = tuple(deletes)
        has_keys = any(delete.is_equality_delete_file for delete in deletes)
        keys = self._equality_deletes.key_sets(deletes) if has_keys else []
        return _Deletes(self._position_deletes.positions(file, deletes), keys)

    # Reads with deletes -------------------------------------------------------------------------------------------

    def _select_rows(
        self, task: FileTask, schema: Schema, where: Expression | None, deletes: _Deletes, only: _Deletes | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows that `deletes` leave; if `only` is not None, those of them that it deletes."""
        read_schema = _with_delete_columns(schema, deletes, only)
        project = make_projector(read_schema, schema)
        for batch in self._read(
            task, read_schema, where, max(deletes.key_count, 0 if only is None else only.key_count)
        ):
            keep = deletes.live_mask(read_schema, batch)
            if only is not None:
                hits = only.deleted_mask(read_schema, batch)
                if hits is None:
                    continue
                keep = hits if keep is None else keep & hits
            if keep is not None and not keep.any():
                continue
            rows = project(batch)
            if keep is not None:
                rows = _filter_rows(rows, keep)
            yield from _slice_batch(rows, self._batch_size)

    def _mark_deleted(
        self, task: FileTask, schema: Schema, where: Expression | None, deletes: _Deletes
    ) -> Iterator[pa.RecordBatch]:
        """All rows, with the column `_deleted` set."""
        deleted_index = next(index for index, field in enumerate(schema.fields) if field.id == DELETED.id)
        read_schema = _with_delete_columns(schema, deletes, None)
        project = make_projector(read_schema, schema)
        for batch in self._read(task, read_schema, where, deletes.key_count):
            hits = deletes.deleted_mask(read_schema, batch)
            rows = project(batch)
            if hits is not None:
                rows = rows.set_column(deleted_index, rows.schema.field(deleted_index), pa.array(hits))
            yield from _slice_batch(rows, self._batch_size)

    def _read(
        self, task: FileTask, schema: Schema, where: Expression | None, key_count: int
    ) -> Iterator[pa.RecordBatch]:
        file = task.file
        builder = self._formats.read(file.file_format, "arrow", self._storage, file.file_path).project(schema)
        where = task.residual if where is None else where
        if where != TRUE:
            builder = builder.filter(where)
        if not task.is_whole:
            builder = builder.split(task.start, task.length)
        builder = (
            builder.constants(self._constants(task, schema))
            .name_mapping(self._name_mapping)
            .lineage(file.first_row_id, task.entry.sequence_number)
            .facts(file_size=file.file_size_in_bytes, record_count=file.record_count)
            .key_metadata(file.key_metadata, None)
            .properties(self._metadata.properties)
            # The hash table of keys is built for every batch, so many keys need large batches.
            .batch_size(max(self._batch_size, min(key_count, _MAX_KEY_BATCH)))
        )
        return iter(builder)

    def _constants(self, task: FileTask, schema: Schema) -> dict[int, Any]:
        """The columns with one value for all rows of a file: metadata columns, and identity partition values."""
        file, spec = task.file, task.spec
        values: dict[int, Any] = {FILE.id: file.file_path, SPEC_ID.id: spec.spec_id, DELETED.id: False}
        values |= identity_values(spec.fields, file.partition)
        partition = schema.find(PARTITION_ID)
        if partition is not None:
            partition_values = {field.field_id: value for field, value in zip(spec.fields, file.partition, strict=True)}
            values[PARTITION_ID] = _partition_struct(partition.type, partition_values)
        return values


def _partition_struct(type_: Type, values: Mapping[int, Any]) -> dict[str, Any]:
    return {field.name: values.get(field.id) for field in type_.fields}


class _Deletes:
    """The deletes of one data file: positions, and key sets of equality deletes."""

    def __init__(self, positions: BitMap64, keys: list[tuple[KeyColumns, KeySet]]) -> None:
        self.positions = positions
        self.keys = keys

    @property
    def columns(self) -> list[SchemaField]:
        """The key columns, which must be read to apply the equality deletes."""
        return [entry for columns, _ in self.keys for entry in columns.entries]

    @property
    def key_count(self) -> int:
        """The size of the largest key set."""
        return max((keys.count for _, keys in self.keys), default=0)

    def deletes_all_rows(self, file: DataFile) -> bool:
        """Whether the deleted positions cover all rows of a file."""
        return 0 <= file.record_count <= len(self.positions) and file.record_count > 0

    def live_mask(self, schema: Schema, batch: pa.RecordBatch) -> Mask | None:
        """Which rows of a batch are live; None if all are."""
        deleted = self.deleted_mask(schema, batch)
        return None if deleted is None else ~deleted

    def deleted_mask(self, schema: Schema, batch: pa.RecordBatch) -> Mask | None:
        """Which rows of a batch are deleted; None if none is."""
        deleted: Mask | None = None
        if self.positions:
            index = next(index for index, field in enumerate(schema.fields) if field.id == POS.id)
            deleted = _deleted_mask(self.positions, np.asarray(batch.column(index)))
        for columns, keys in self.keys:
            has_key = keys.contains(columns.arrays(schema, batch))
            if has_key.any():
                deleted = has_key if deleted is None else deleted | has_key
        return deleted


def _deleted_mask(deleted: BitMap64, positions: NDArray[np.int64]) -> Mask | None:
    """Which of some ascending positions are deleted; None if none is."""
    first, last = int(positions[0]), int(positions[-1])
    if not deleted.range_cardinality(first, last + 1):
        return None
    in_range = np.frombuffer((deleted & BitMap64(range(first, last + 1))).to_array(), np.uint64).astype(np.int64)
    mask = np.zeros(len(positions), np.bool_)
    if last - first + 1 == len(positions):
        mask[in_range - first] = True
        return mask
    indexes = np.searchsorted(positions, in_range)
    mask[indexes[positions[indexes] == in_range]] = True
    return mask


# Batches --------------------------------------------------------------------------------------------------------------


def _with_delete_columns(schema: Schema, applied: _Deletes, only: _Deletes | None) -> Schema:
    """The columns to read: the selected ones, then those that the deletes need."""
    all_deletes = [applied] if only is None else [applied, only]
    read_schema = with_columns(schema, [entry for deletes in all_deletes for entry in deletes.columns])
    if any(deletes.positions for deletes in all_deletes) and POS.id not in read_schema.by_id:
        read_schema = Schema((*read_schema.fields, POS))
    return read_schema


def _filter_rows(batch: pa.RecordBatch, keep: Mask) -> pa.RecordBatch:
    if not batch.num_columns:
        return rows_without_columns(int(keep.sum()))
    mask = pa.array(keep)
    # Filtering column by column is faster than `RecordBatch.filter` where most rows stay.
    return pa.RecordBatch.from_arrays([column.filter(mask) for column in batch.columns], schema=batch.schema)


def _slice_batch(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, size):
        yield batch if batch.num_rows <= size else batch.slice(start, size)
