"""What runs in Spark's Python workers to write files: the Arrow writer, with the rows of one task.

A task gives back one row with the files that it wrote. A task that fails deletes them, and if the statement fails the
driver deletes those of tasks that had finished; what a task wrote that was killed, or whose answer came second, is
known to nobody and left for the clean-up of orphans.

What runs in Spark's Python workers for a statement: new rows go to files, and deleted ones are noted.

Rows come with the number of what is to be done with them. What is deleted of a file is a compressed set of positions,
which goes to the driver: with it a file's deletes need not meet in one task.
"""

from __future__ import annotations

import pickle
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64
from pyspark import TaskContext
from pyspark.accumulators import Accumulator

from floe.arrow.writer import write_rows
from floe.errors import UnsupportedFeature
from floe.formats.arrow_types import arrow_schema, arrow_type
from floe.formats.writers.write_target import WriteTarget
from floe.spark.executors import executor_metadata, reduce_worker_overhead
from floe.spark.schemas import ONLY_READ
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.metadata_columns import with_row_lineage
from floe.spec.schemas.schema import Schema, walk_fields
from floe.spec.types import ListType, MapType, StructType, Type
from floe.storage.protocol import Storage

RESULT_SCHEMA = "files binary"


@dataclass(frozen=True)
class WriteRows:
    """Writes the rows that come, and gives the files, pickled."""

    metadata: TableMetadata
    storage: Storage
    write_id: str
    overrides: Mapping[str, str] = field(default_factory=dict)
    told: Accumulator[dict[str, list[str]]] | None = None
    """Where a task also tells its files, by `write_id` (`FinishedFiles`)."""

    @classmethod
    def of(cls, metadata: TableMetadata, storage: Storage, overrides: Mapping[str, str]) -> WriteRows:
        """A new write to a table, with a write id of its own."""
        return cls(executor_metadata(metadata), storage, str(uuid.uuid4()), dict(overrides))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of a task, in a worker."""
        files = self.write(batches)
        if self.told is not None:
            self.told.add({self.write_id: [file.file_path for file in files]})
        reduce_worker_overhead()
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(files)], pa.binary())], ["files"])

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[DataFile]:
        """Write rows; gives the files."""
        target = target_of_task(self.metadata, self.storage, self.write_id, self.overrides)
        schema = self.metadata.schema
        rows = (from_spark(batch, schema) for batch in batches if batch.num_rows)
        return write_rows(target, rows, workers=1)


def target_of_task(
    metadata: TableMetadata, storage: Storage, write_id: str, overrides: Mapping[str, str]
) -> WriteTarget:
    """Where the task that runs now writes to: no other one, nor another attempt of it, has files of the same names."""
    context = TaskContext.get()
    return WriteTarget.of(
        metadata,
        storage,
        overrides=overrides,
        write_id=write_id,
        part=0 if context is None else context.partitionId(),
        task=0 if context is None else context.taskAttemptId(),
    )


def files_of(pickled: Iterable[bytes]) -> list[DataFile]:
    """The files that tasks wrote."""
    return [file for one in pickled for file in pickle.loads(bytes(one))]


def check_types(schema: Schema) -> None:
    """Raise unless Spark has types for all columns: what it shows as text it cannot write."""
    for entry in walk_fields(schema.fields):
        if entry.field.type.kind in ONLY_READ:
            raise UnsupportedFeature(
                f"Spark has no type for {entry.field.type}, so it can only read such columns",
                hint="write with append(), without Spark",
                column=entry.name,
            )


def from_spark(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """A batch of Spark's, whose columns are the table's in their order, with the table's types."""
    check_types(schema)
    wanted = arrow_schema(schema)
    arrays = [
        _as(array, field.type, want.type)
        for array, field, want in zip(batch.columns, schema.fields, wanted, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _as(array: pa.Array, type_: Type, wanted: pa.DataType) -> pa.Array:
    if array.type == wanted:
        return array
    match type_:
        case StructType():
            children = [
                _as(array.field(place), child.type, wanted.field(place).type)
                for place, child in enumerate(type_.fields)
            ]
            return pa.StructArray.from_arrays(children, fields=list(wanted), mask=_nulls(array))
        case ListType():
            values = _as(array.values, type_.element, wanted.value_type)
            return pa.ListArray.from_arrays(array.offsets, values, type=wanted, mask=_nulls(array))
        case MapType():
            keys = _as(array.keys, type_.key, wanted.key_type)
            items = _as(array.items, type_.value, wanted.item_type)
            return pa.MapArray.from_arrays(array.offsets, keys, items, type=wanted, mask=_nulls(array))
        case _ if type_.kind == "uuid":
            values = array.to_pylist()
            return pa.array([None if one is None else uuid.UUID(one).bytes for one in values], arrow_type(type_))
        case _ if type_.kind == "variant":
            parts = [array.field(part.name) for part in wanted]
            return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=_nulls(array))
        case _:
            return array.cast(wanted)


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


# What runs in Spark's Python workers for a statement: new rows go to files, and deleted ones are noted.

DELETE, UPDATE, INSERT, COPY = 1, 2, 3, 5
"""What is done with a row, by Spark's numbers. Before 4.2, rows of files that are written anew have others."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things are in the rows that come: what is done is first, then come the table's columns, if any do."""

    columns: int
    """How many columns of the table there are."""

    file: int | None = None
    position: int | None = None
    """Where the row is, if deletes are noted."""

    row_id: int | None = None
    last_updated: int | None = None
    """What a row keeps when it is moved."""


@dataclass(slots=True)
class TaskResult:
    """What a task did."""

    files: list[DataFile] = field(default_factory=list)
    deleted: dict[str, BitMap64] = field(default_factory=dict)
    """By data file, the rows that are not live there any more."""

    counts: Counter[int] = field(default_factory=Counter)
    """How many rows there were of each number."""


@dataclass(frozen=True)
class ChangeRows:
    """Does what is to be done with the rows that come, and tells it, pickled."""

    metadata: TableMetadata
    storage: Storage
    write_id: str
    overrides: Mapping[str, str]
    layout: Layout
    lineage: bool
    """Whether the files have the ids of their rows."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take the rows of a task."""
        target = target_of_task(self.metadata, self.storage, self.write_id, self.overrides)
        result = TaskResult()
        result.files = write_rows(target, self._rows(batches, result), row_lineage=self.lineage, workers=1)
        reduce_worker_overhead()
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(result)], pa.binary())], ["message"])

    def _rows(self, batches: Iterable[pa.RecordBatch], result: TaskResult) -> Iterator[pa.RecordBatch]:
        """The rows that are written; what is deleted is noted on the way."""
        for batch in batches:
            if not batch.num_rows:
                continue
            operations = np.asarray(batch.column(0))
            numbers, counts = np.unique(operations, return_counts=True)
            result.counts.update(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
            if self.layout.position is not None:
                self._note_deleted(batch, operations, result.deleted)
            if self.layout.columns:
                written = operations != DELETE
                kept = batch if written.all() else batch.filter(pa.array(written))
                if kept.num_rows:
                    yield self._stored(kept)

    def _note_deleted(self, batch: pa.RecordBatch, operations: NDArray[np.int32], deleted: dict[str, BitMap64]) -> None:
        assert self.layout.file is not None
        assert self.layout.position is not None
        gone = np.flatnonzero((operations == DELETE) | (operations == UPDATE))
        if not len(gone):
            return
        places = pa.array(gone)
        files = batch.column(self.layout.file).take(places).dictionary_encode()
        codes = np.asarray(files.indices)
        positions = np.asarray(batch.column(self.layout.position).take(places)).astype(np.uint64)
        order = np.argsort(codes, kind="stable")
        edges = np.searchsorted(codes[order], np.arange(len(files.dictionary) + 1))
        for number, path in enumerate(files.dictionary.to_pylist()):
            found = BitMap64(positions[order[edges[number] : edges[number + 1]]])
            deleted[path] = deleted[path] | found if path in deleted else found

    def _stored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The table's columns of some rows, and what the rows keep."""
        schema, layout = self.metadata.schema, self.layout
        own = from_spark(batch.select(range(1, 1 + layout.columns)), schema)
        if not self.lineage:
            return own
        kept = [
            pa.nulls(batch.num_rows, pa.int64()) if place is None else batch.column(place)
            for place in (layout.row_id, layout.last_updated)
        ]
        return pa.RecordBatch.from_arrays([*own.columns, *kept], schema=arrow_schema(with_row_lineage(schema)))
