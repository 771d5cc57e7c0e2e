"""One file of a plan read: its live rows, in the columns that were asked for.

The plan has decided which deletes apply to the file; here they are carried out. A reader is made once for a scan, so
that delete files which are for many data files are read once and shared. It may be used from several threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from floe.arrow.reading.deletes import EqualityDeletes, KeyColumns, KeySet, PositionDeletes
from floe.arrow.reading.extra_columns import narrowing, with_columns
from floe.errors import FloeError, InvalidMetadata
from floe.formats.model import DEFAULT_BATCH_SIZE
from floe.formats.projection import rows_without_columns
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
    """Reads the files of a table's plans.

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
        self._positions = PositionDeletes(storage, self._formats, properties=metadata.properties)

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
    def _keys(self) -> EqualityDeletes:
        return EqualityDeletes(self._metadata, self._storage, self._formats, name_mapping=self._name_mapping)

    # what there is to read ----------------------------------------------------------------------------------------

    def batches(self, task: FileTask, schema: Schema, *, where: Expression | None = None) -> Iterator[pa.RecordBatch]:
        """The live rows of a task's file that pass a bound filter, in the columns of a schema.

        The filter is the task's residual unless another is given; TRUE gives all live rows. The schema may hold
        metadata columns; with `_deleted` among them, deleted rows are given too, and marked.
        """
        gone = self._deletes(task.file, task.deletes)
        if DELETED.id in {field.id for field in schema.fields}:
            return self._marked(task, schema, where, gone)
        if gone.is_everything(task.file):
            return iter(())
        return self._chosen(task, schema, where, gone, None)

    def newly_deleted(
        self, task: FileTask, added: Iterable[DataFile], schema: Schema, *, where: Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a task's file that its deletes leave and `added` deletes delete."""
        return self._chosen(
            task, schema, where, self._deletes(task.file, task.deletes), self._deletes(task.file, added)
        )

    def deleted_positions(self, task: FileTask) -> BitMap64:
        """The positions of the task's file that position deletes and deletion vectors delete; a bitmap of your own."""
        return self._positions.of(task.file, task.deletes).copy()

    def _deletes(self, file: DataFile, deletes: Iterable[DataFile]) -> _Deletes:
        deletes = tuple(deletes)
        keys = self._keys.of(deletes) if any(delete.is_equality_delete_file for delete in deletes) else []
        return _Deletes(self._positions.of(file, deletes), keys)

    # reading ------------------------------------------------------------------------------------------------------

    def _chosen(
        self, task: FileTask, schema: Schema, where: Expression | None, gone: _Deletes, only: _Deletes | None
    ) -> Iterator[pa.RecordBatch]:
        """The rows that are not gone, and of those the ones that `only` hits if there is one."""
        read = _with_extras(schema, gone, only)
        narrow = narrowing(read, schema)
        for batch in self._read(task, read, where, max(gone.key_count, 0 if only is None else only.key_count)):
            keep = gone.left(read, batch)
            if only is not None:
                hits = only.hits(read, batch)
                if hits is None:
                    continue
                keep = hits if keep is None else keep & hits
            if keep is not None and not keep.any():
                continue
            made = narrow(batch)
            if keep is not None:
                made = _filtered(made, keep)
            yield from _cut(made, self._batch_size)

    def _marked(
        self, task: FileTask, schema: Schema, where: Expression | None, gone: _Deletes
    ) -> Iterator[pa.RecordBatch]:
        """All rows, with `_deleted` as it is."""
        place = next(n for n, field in enumerate(schema.fields) if field.id == DELETED.id)
        read = _with_extras(schema, gone, None)
        narrow = narrowing(read, schema)
        for batch in self._read(task, read, where, gone.key_count):
            hits = gone.hits(read, batch)
            made = narrow(batch)
            if hits is not None:
                made = made.set_column(place, made.schema.field(place), pa.array(hits))
            yield from _cut(made, self._batch_size)

    def _read(
        self, task: FileTask, schema: Schema, where: Expression | None, key_count: int
    ) -> Iterator[pa.RecordBatch]:
        file = task.file
        reading = self._formats.read(file.file_format, "arrow", self._storage, file.file_path).project(schema)
        where = task.residual if where is None else where
        if where != TRUE:
            reading = reading.filter(where)
        if not task.is_whole:
            reading = reading.split(task.start, task.length)
        reading = (
            reading.constants(self._constants(task, schema))
            .name_mapping(self._name_mapping)
            .lineage(file.first_row_id, task.entry.sequence_number)
            .facts(file_size=file.file_size_in_bytes, record_count=file.record_count)
            .key_metadata(file.key_metadata, None)
            .properties(self._metadata.properties)
            # hash tables of keys are built for every batch, so that many keys ask for large ones
            .batch_size(max(self._batch_size, min(key_count, _MAX_KEY_BATCH)))
        )
        return iter(reading)

    def _constants(self, task: FileTask, schema: Schema) -> dict[int, Any]:
        """What is the same in all rows of a file: its partition, for columns that it lacks, and what it is."""
        file, spec = task.file, task.spec
        values: dict[int, Any] = {FILE.id: file.file_path, SPEC_ID.id: spec.spec_id, DELETED.id: False}
        values |= identity_values(spec.fields, file.partition)
        partition = schema.find(PARTITION_ID)
        if partition is not None:
            own = {field.field_id: value for field, value in zip(spec.fields, file.partition, strict=True)}
            values[PARTITION_ID] = _partition(partition.type, own)
        return values


def _partition(type_: Type, values: Mapping[int, Any]) -> dict[str, Any]:
    return {field.name: values.get(field.id) for field in type_.fields}


class _Deletes:
    """The deletes of one data file."""

    def __init__(self, positions: BitMap64, keys: list[tuple[KeyColumns, KeySet]]) -> None:
        self.positions = positions
        self.keys = keys

    @property
    def columns(self) -> list[SchemaField]:
        """The columns that have to be read to see which rows are meant."""
        return [entry for columns, _ in self.keys for entry in columns.entries]

    @property
    def key_count(self) -> int:
        """How many keys there are to look up."""
        return max((keys.count for _, keys in self.keys), default=0)

    def is_everything(self, file: DataFile) -> bool:
        """Whether positions alone leave no row of a file."""
        return 0 <= file.record_count <= len(self.positions) and file.record_count > 0

    def left(self, schema: Schema, batch: pa.RecordBatch) -> Mask | None:
        """Which rows of a batch are not hit; None for all of them."""
        hits = self.hits(schema, batch)
        return None if hits is None else ~hits

    def hits(self, schema: Schema, batch: pa.RecordBatch) -> Mask | None:
        """Which rows of a batch are deleted; None for none of them."""
        found: Mask | None = None
        if self.positions:
            place = next(n for n, field in enumerate(schema.fields) if field.id == POS.id)
            found = _hit_positions(self.positions, np.asarray(batch.column(place)))
        for columns, keys in self.keys:
            hit = keys.contain(columns.arrays(schema, batch))
            if hit.any():
                found = hit if found is None else found | hit
        return found


def _hit_positions(deleted: BitMap64, positions: NDArray[np.int64]) -> Mask | None:
    """Which of some ascending positions are deleted; None for none of them."""
    first, last = int(positions[0]), int(positions[-1])
    if not deleted.range_cardinality(first, last + 1):
        return None
    near = np.frombuffer((deleted & BitMap64(range(first, last + 1))).to_array(), np.uint64).astype(np.int64)
    found = np.zeros(len(positions), np.bool_)
    if last - first + 1 == len(positions):
        found[near - first] = True
        return found
    places = np.searchsorted(positions, near)
    found[places[positions[places] == near]] = True
    return found


# batches --------------------------------------------------------------------------------------------------------------


def _with_extras(schema: Schema, gone: _Deletes, only: _Deletes | None) -> Schema:
    """The columns to read: those that are wanted first, then what deletes need."""
    several = [gone] if only is None else [gone, only]
    read = with_columns(schema, [entry for deletes in several for entry in deletes.columns])
    if any(deletes.positions for deletes in several) and POS.id not in read.by_id:
        read = Schema((*read.fields, POS))
    return read


def _filtered(batch: pa.RecordBatch, keep: Mask) -> pa.RecordBatch:
    if not batch.num_columns:
        return rows_without_columns(int(keep.sum()))
    mask = pa.array(keep)
    # column by column, which is quicker than `RecordBatch.filter` where most rows stay
    return pa.RecordBatch.from_arrays([column.filter(mask) for column in batch.columns], schema=batch.schema)


def _cut(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, size):
        yield batch if batch.num_rows <= size else batch.slice(start, size)
