"""The functions that Spark's Python workers call to write the files of one task.

`WriteRows` writes all rows of a task. `ChangeRows` is for DELETE, UPDATE and MERGE: each row comes with an operation
code; new rows are written to files, and the positions of deleted rows are collected.

A task returns its result pickled, in one row. A task that fails deletes its files, and if the statement fails the
driver deletes those of finished tasks. The files of a task that was killed, or of a second attempt whose result Spark
ignores, are known to nobody; they remain as orphan files.
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
from floe.formats.columns.arrow_types import arrow_schema, arrow_type
from floe.formats.writers.write_target import WriteTarget
from floe.spark.executors import executor_metadata, reduce_worker_overhead
from floe.spark.schemas import READ_ONLY_TYPES
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.metadata_columns import with_row_lineage
from floe.spec.schemas.schema import Schema, walk_fields
from floe.spec.types import ListType, MapType, StructType, Type
from floe.storage.protocol import Storage

# Writes of all rows ---------------------------------------------------------------------------------------------------

RESULT_SCHEMA = "files binary"
"""The columns that `WriteRows` returns."""


@dataclass(frozen=True)
class WriteRows:
    """Writes the rows of a task, and returns the data files, pickled."""

    metadata: TableMetadata
    storage: Storage
    write_id: str
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Table properties that the options of the write override."""

    finished: Accumulator[dict[str, list[str]]] | None = None
    """Where the task also reports the locations of its files, by `write_id` (`FinishedFiles`)."""

    @classmethod
    def of(cls, metadata: TableMetadata, storage: Storage, overrides: Mapping[str, str]) -> WriteRows:
        """A new write to a table, with a new write id."""
        return cls(executor_metadata(metadata), storage, str(uuid.uuid4()), dict(overrides))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of a task, in a worker."""
        files = self.write(batches)
        if self.finished is not None:
            self.finished.add({self.write_id: [file.file_path for file in files]})
        reduce_worker_overhead()
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(files)], pa.binary())], ["files"])

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[DataFile]:
        """Write rows that have Spark's types, and return the data files."""
        target = task_target(self.metadata, self.storage, self.write_id, self.overrides)
        schema = self.metadata.schema
        rows = (to_table_types(batch, schema) for batch in batches if batch.num_rows)
        return write_rows(target, rows, workers=1)


def task_target(metadata: TableMetadata, storage: Storage, write_id: str, overrides: Mapping[str, str]) -> WriteTarget:
    """The write target of the running task; its file names differ from those of all other tasks and attempts."""
    context = TaskContext.get()
    return WriteTarget.of(
        metadata,
        storage,
        overrides=overrides,
        write_id=write_id,
        part=0 if context is None else context.partitionId(),
        task=0 if context is None else context.taskAttemptId(),
    )


def unpickle_files(pickled: Iterable[bytes]) -> list[DataFile]:
    """The data files of the pickled results of tasks."""
    return [file for result in pickled for file in pickle.loads(bytes(result))]


# Types ----------------------------------------------------------------------------------------------------------------


def check_writable_types(schema: Schema) -> None:
    """Raise if Spark has no type for a column; it reads such columns as text, and cannot write them."""
    for entry in walk_fields(schema.fields):
        if entry.field.type.kind in READ_ONLY_TYPES:
            raise UnsupportedFeature(
                f"Spark has no type for {entry.field.type}, so it can only read such columns",
                hint="write with append(), without Spark",
                column=entry.name,
            )


def to_table_types(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Convert a batch of Spark, which has the columns of the table in their order, to the types of the table."""
    check_writable_types(schema)
    target = arrow_schema(schema)
    arrays = [
        _convert(array, field.type, target_field.type)
        for array, field, target_field in zip(batch.columns, schema.fields, target, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _convert(array: pa.Array, type_: Type, target: pa.DataType) -> pa.Array:
    if array.type == target:
        return array
    match type_:
        case StructType():
            children = [
                _convert(array.field(index), child.type, target.field(index).type)
                for index, child in enumerate(type_.fields)
            ]
            return pa.StructArray.from_arrays(children, fields=list(target), mask=_null_mask(array))
        case ListType():
            values = _convert(array.values, type_.element, target.value_type)
            return pa.ListArray.from_arrays(array.offsets, values, type=target, mask=_null_mask(array))
        case MapType():
            keys = _convert(array.keys, type_.key, target.key_type)
            items = _convert(array.items, type_.value, target.item_type)
            return pa.MapArray.from_arrays(array.offsets, keys, items, type=target, mask=_null_mask(array))
        case _ if type_.kind == "uuid":
            texts = array.to_pylist()
            return pa.array([None if text is None else uuid.UUID(text).bytes for text in texts], arrow_type(type_))
        case _ if type_.kind == "variant":
            children = [array.field(child.name) for child in target]
            return pa.StructArray.from_arrays(children, fields=list(target), mask=_null_mask(array))
        case _:
            return array.cast(target)


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


# Row-level changes ----------------------------------------------------------------------------------------------------

DELETE, UPDATE, INSERT, COPY = 1, 2, 3, 5
"""Spark's operation codes. Before Spark 4.2, the rows of copy-on-write have other codes."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of the rows that come: first the operation code, then the table's columns, then metadata columns.

    All but `columns` are indexes of columns, None for a column that the rows do not have.
    """

    columns: int
    """How many columns of the table the rows have: all, or none if rows are only deleted."""

    file: int | None = None
    position: int | None = None
    """The file and position of the row, with merge-on-read."""

    row_id: int | None = None
    last_updated: int | None = None
    """The row lineage that a row keeps when it is written to another file."""


@dataclass(slots=True)
class TaskResult:
    """The result of a task of `ChangeRows`."""

    files: list[DataFile] = field(default_factory=list)
    deleted: dict[str, BitMap64] = field(default_factory=dict)
    """The positions of deleted rows by data file. The driver merges them, so a file's rows can be in several tasks."""

    counts: Counter[int] = field(default_factory=Counter)
    """The number of rows for each operation code."""


@dataclass(frozen=True)
class ChangeRows:
    """Writes the new rows of a task and collects the deleted ones; returns a `TaskResult`, pickled."""

    metadata: TableMetadata
    storage: Storage
    write_id: str
    overrides: Mapping[str, str]
    layout: Layout
    lineage: bool
    """Whether the row lineage is written to the files."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Handle the rows of a task, in a worker."""
        target = task_target(self.metadata, self.storage, self.write_id, self.overrides)
        result = TaskResult()
        result.files = write_rows(target, self._rows(batches, result), row_lineage=self.lineage, workers=1)
        reduce_worker_overhead()
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(result)], pa.binary())], ["message"])

    def _rows(self, batches: Iterable[pa.RecordBatch], result: TaskResult) -> Iterator[pa.RecordBatch]:
        """The rows to write; counts and deleted positions are added to the result on the way."""
        for batch in batches:
            if not batch.num_rows:
                continue
            operations = np.asarray(batch.column(0))
            operation_codes, counts = np.unique(operations, return_counts=True)
            result.counts.update(dict(zip(operation_codes.tolist(), counts.tolist(), strict=True)))
            if self.layout.position is not None:
                self._collect_deleted(batch, operations, result.deleted)
            if self.layout.columns:
                written = operations != DELETE
                rows = batch if written.all() else batch.filter(pa.array(written))
                if rows.num_rows:
                    yield self._file_columns(rows)

    def _collect_deleted(
        self, batch: pa.RecordBatch, operations: NDArray[np.int32], deleted: dict[str, BitMap64]
    ) -> None:
        """Add the positions of deleted and updated rows to those of their files."""
        assert self.layout.file is not None
        assert self.layout.position is not None
        indexes = np.flatnonzero((operations == DELETE) | (operations == UPDATE))
        if not len(indexes):
            return
        taken = pa.array(indexes)
        files = batch.column(self.layout.file).take(taken).dictionary_encode()
        codes = np.asarray(files.indices)
        positions = np.asarray(batch.column(self.layout.position).take(taken)).astype(np.uint64)
        order = np.argsort(codes, kind="stable")
        offsets = np.searchsorted(codes[order], np.arange(len(files.dictionary) + 1))
        for code, path in enumerate(files.dictionary.to_pylist()):
            bitmap = BitMap64(positions[order[offsets[code] : offsets[code + 1]]])
            deleted[path] = deleted[path] | bitmap if path in deleted else bitmap

    def _file_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that are written to a file: those of the table, and the row lineage."""
        schema, layout = self.metadata.schema, self.layout
        rows = to_table_types(batch.select(range(1, 1 + layout.columns)), schema)
        if not self.lineage:
            return rows
        lineage = [
            pa.nulls(batch.num_rows, pa.int64()) if index is None else batch.column(index)
            for index in (layout.row_id, layout.last_updated)
        ]
        return pa.RecordBatch.from_arrays([*rows.columns, *lineage], schema=arrow_schema(with_row_lineage(schema)))
