"""Reads of equality delete files: the rows that other rows are compared with, and how old they are."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from floe.arrow.reading.equality_deletes import EqualityDeletes, KeyColumns
from floe.arrow.reading.extra_columns import with_columns
from floe.formats.registry import default_registry
from floe.plan.splits import pack
from floe.spark.columns import spark_schema
from floe.spark.scan.constants import SCOPE, SEQUENCE_NUMBER
from floe.spark.scan.deleted_keys import DeletedKeys
from floe.spark.scan.native import NativeColumns, native_columns
from floe.spark.scan.parts import ReadPart
from floe.spark.scan.pushed import NOTHING_PUSHED
from floe.spark.scan.python_reader import python_partitions, python_reader_factory
from floe.spark.scan.readers import native_factory, native_partitions
from floe.spark.scan.statistics import TableStatistics, width
from floe.spark.scan.worker import for_spark, tasks_of
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field
from floe.storage.protocol import Storage

if TYPE_CHECKING:
    from floe.spark.scan.scan import TableScan

__all__ = ["ArrowKeys", "KeysPart", "NativeKeys", "ReadKeys"]


class KeysPart(ReadPart):
    """The rows of some equality delete files."""

    reader: str

    def __init__(self, whole: TableScan, keys: DeletedKeys, fields: tuple[Field, ...]) -> None:
        super().__init__(whole, fields)
        self._keys = keys

    def key(self) -> Any:
        """The same files are the same to Spark, if their partitions have the same numbers."""
        scopes = tuple(self._keys.table["scope"].to_pylist())
        return (self._whole.source.key, self._fields, self._keys.paths, self._keys.everywhere, scopes)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns that come."""
        return self._fields

    def description(self) -> str:
        """The table, what is compared, the files and whom they reach, in words."""
        keys = self._keys
        return "; ".join(
            [
                f"Floe table {self._whole.source.name}",
                f"equality deletes by {keys}",
                f"files: {len(keys.files)}",
                f"rows: {self._keys.rows}",
                f"reach: older rows of {'all partitions' if keys.everywhere else 'the same partition'}",
                f"read by {self.reader}",
            ]
        )

    def estimateStatistics(self) -> Any:
        """Rows and bytes: what is small goes to all executors."""
        size = self._keys.rows * (8 + sum(width(field.type) for field in self._fields))
        return TableStatistics(self.jvm, self._keys.rows, max(1, size))


class NativeKeys(KeysPart):
    """Files that Spark's Parquet reader reads."""

    reader = "Spark's Parquet reader"

    def __init__(self, whole: TableScan, keys: DeletedKeys) -> None:
        stored = with_columns(Schema(()), keys.columns.entries)
        columns = native_columns(whole.source.table.metadata, Schema((*stored.fields, SEQUENCE_NUMBER, SCOPE)))
        # a file without a column would delete the rows that have null there
        self._columns: NativeColumns = replace(columns, all_stored=True)
        super().__init__(whole, keys, columns.fields)

    def planInputPartitions(self) -> Any:
        """The files in parts, packed into partitions."""
        storage = self._whole.source.storage
        return native_partitions(self.jvm, self._keys.table, storage, self._columns, self._whole.splits)

    @cached_property
    def _factory(self) -> Any:
        return native_factory(self.jvm, self._columns, NOTHING_PUSHED)


class ArrowKeys(KeysPart):
    """Files of other formats, read in workers."""

    reader = "Arrow reader"

    def __init__(self, whole: TableScan, keys: DeletedKeys) -> None:
        flat = [replace(entry.field, name=f"floe-{entry.field.id}", required=False) for entry in keys.columns.entries]
        super().__init__(whole, keys, (*flat, SEQUENCE_NUMBER, SCOPE))

    def planInputPartitions(self) -> Any:
        """The files packed into partitions."""
        splits = self._whole.splits
        ages, scopes = (self._keys.table[name].to_pylist() for name in ("sequence_number", "scope"))
        tasks = zip(self._keys.files, ages, scopes, strict=True)
        bins = pack(tasks, lambda task: task[0].file_size_in_bytes, splits.target_size, splits.lookback)
        return python_partitions(self.jvm, map(pickle.dumps, bins))

    @cached_property
    def _factory(self) -> Any:
        source = self._whole.source
        read = ReadKeys(source.shipped_metadata, source.storage, self._keys.columns, self._fields)
        return python_reader_factory(self.jvm, read, spark_schema(self._fields))


@dataclass(frozen=True)
class ReadKeys:
    """Reads equality delete files in a worker, and tells the age and the scope of each."""

    metadata: TableMetadata
    storage: Storage
    columns: KeyColumns
    fields: tuple[Field, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the files that come, one after the other."""
        reader = EqualityDeletes(self.metadata, self.storage, default_registry(), budget=0)
        for file, age, scope in tasks_of(batches):
            for batch in reader.keys(self.columns, file).to_batches():
                ages = pa.repeat(pa.scalar(age, pa.int64()), len(batch))
                scopes = pa.repeat(pa.scalar(scope, pa.int32()), len(batch))
                arrays = [*batch.columns, ages, scopes]
                names = [field.name for field in self.fields]
                yield for_spark(pa.RecordBatch.from_arrays(arrays, names=names), self.fields)
