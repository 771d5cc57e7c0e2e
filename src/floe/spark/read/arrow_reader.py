"""Reads by the Arrow reader in Spark's Python workers, for files that Spark's own reader cannot read exactly.

A `ReadTasks` is pickled and sent to the executors, where `floe` must be installed. Partitions and the reader factory
are the Java classes behind Spark's Python data sources, with a function of Floe.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import StructType as SparkStruct
from pyspark.sql.udf import _wrap_function

from floe.arrow.read.task_reader import TaskReader
from floe.plan.tasks import FileTask
from floe.spark.bridge.jvm import Jvm
from floe.spark.executors import ExecutorFunction
from floe.spark.schemas import READ_ONLY_TYPES, SparkType
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, ListType, MapType, StructType, Type
from floe.storage.protocol import Storage

_CONVERTED_TYPES = frozenset({"uuid", "fixed", "variant"}) | READ_ONLY_TYPES
_VARIANT_FIELDS = [pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False, {"variant": "true"})]
"""The Arrow struct that Spark reads as a variant."""


def pickle_tasks(tasks: Iterable[FileTask]) -> bytes:
    """Pickle the tasks of a partition, for an executor."""
    return pickle.dumps(tuple(tasks), protocol=pickle.HIGHEST_PROTOCOL)


def unpickle_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """The tasks of partitions, which Spark gives to a worker pickled in the first column."""
    for batch in batches:
        for pickled in batch.column(0).to_pylist():
            yield from pickle.loads(pickled)


@dataclass(frozen=True)
class ReadTasks:
    """Reads pickled tasks in a worker, and returns their rows in Spark's types."""

    metadata: TableMetadata
    storage: Storage
    schema: Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the tasks that are pickled in the batches, one task after the other."""
        reader = TaskReader(self.metadata, self.storage)
        for task in unpickle_tasks(batches):
            for rows in reader.batches(task, self.schema):
                yield to_spark_batch(rows, self.schema.fields)


def to_spark_batch(batch: pa.RecordBatch, fields: tuple[Field, ...]) -> pa.RecordBatch:
    """Convert a batch with the columns `fields` to the types that Spark has for them."""
    arrays = [_to_spark_array(array, field.type) for array, field in zip(batch.columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[field.name for field in fields])


def _to_spark_array(array: pa.Array, type_: Type) -> pa.Array:
    match type_:
        case StructType() if _needs_conversion(type_):
            children = [_to_spark_array(array.field(index), field.type) for index, field in enumerate(type_.fields)]
            names = [field.name for field in type_.fields]
            return pa.StructArray.from_arrays(children, names=names, mask=array.is_null())
        case ListType() if _needs_conversion(type_):
            values = _to_spark_array(array.values, type_.element)
            return pa.ListArray.from_arrays(array.offsets, values, mask=_null_mask(array))
        case MapType() if _needs_conversion(type_):
            keys, items = _to_spark_array(array.keys, type_.key), _to_spark_array(array.items, type_.value)
            return pa.MapArray.from_arrays(array.offsets, keys, items, mask=_null_mask(array))
        case _ if type_.kind == "uuid":
            return pa.array(
                [None if value is None else str(uuid.UUID(bytes=value)) for value in array.to_pylist()], pa.string()
            )
        case _ if type_.kind == "fixed" or (type_.kind in READ_ONLY_TYPES and pa.types.is_binary(array.type)):
            return array.cast(pa.binary())
        case _ if type_.kind in READ_ONLY_TYPES:
            return array.cast(pa.string())
        case _ if type_.kind == "variant":
            parts = [array.field(field.name) for field in _VARIANT_FIELDS]
            return pa.StructArray.from_arrays(parts, fields=_VARIANT_FIELDS, mask=array.is_null())
        case _:
            return array


def _needs_conversion(type_: Type) -> bool:
    """Whether a nested type has a field that Spark represents by another type."""
    return any(field.type.kind in _CONVERTED_TYPES or _needs_conversion(field.type) for field in type_.fields)


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


# Partitions and reader factory ----------------------------------------------------------------------------------------

_PACKAGE: Final = "org.apache.spark.sql.execution.datasources.v2.python."


def python_partitions(jvm: Jvm, contents: Iterable[bytes]) -> Any:
    """A Java array `InputPartition[]` with a partition for each pickled content."""
    partition_class = jvm.java_class(_PACKAGE + "PythonInputPartition")
    partitions = [partition_class(index, bytearray(content)) for index, content in enumerate(contents)]
    return jvm.array("org.apache.spark.sql.connector.read.InputPartition", partitions)


def python_reader_factory(jvm: Jvm, function: Callable[..., Any], schema: SparkType) -> Any:
    """A factory of readers that call a function in Python workers, with the contents of partitions, for the rows."""
    serializer: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]
    pickled = serializer.dumps((ExecutorFunction(function), SparkStruct.fromJson(schema)))
    source = jvm.java_class(_PACKAGE + "UserDefinedPythonDataSource")(_wrap_function(jvm.context, _do_nothing))
    return jvm.create(_PACKAGE + "PythonPartitionReaderFactory", [source, bytearray(pickled), jvm.data_type(schema)])


def _do_nothing() -> None:
    """Stand in for the function of a data source: Spark takes the Python environment from it, and does not call it."""
