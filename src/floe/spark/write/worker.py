"""What runs in Spark's Python workers to write files: the Arrow writer, with the rows of one task.

A task gives back one row with the files that it wrote. A task that fails deletes them, and if the statement fails the
driver deletes those of tasks that had finished; what a task wrote that was killed, or whose answer came second, is
known to nobody and left for the clean-up of orphans.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import Accumulator

from floe.arrow.writing import write_rows
from floe.errors import UnsupportedFeature
from floe.formats.arrow_types import arrow_schema, arrow_type
from floe.formats.writers.target import WriteTarget
from floe.spark.columns import ONLY_READ
from floe.spark.workers import settle
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_fields import walk_fields
from floe.spec.types import ListType, MapType, StructType, Type
from floe.storage.protocol import Storage

__all__ = ["WriteRows", "check_types", "files_of", "target_of_task"]

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

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of a task, in a worker."""
        files = self.write(batches)
        if self.told is not None:
            self.told.add({self.write_id: [file.file_path for file in files]})
        settle()
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
