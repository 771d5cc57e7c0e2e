"""The Arrow reader in Spark's Python workers, for files that Spark itself cannot read exactly.

An object of `ReadTasks` is pickled and sent to the executors, where `floe` must be installed. Partitions and reader
factory are the classes behind Spark's own Python data sources.
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

from floe.arrow.reading.task_reader import TaskReader
from floe.plan.tasks import FileTask
from floe.spark.bridge.jvm import Jvm
from floe.spark.executors import ExecutorFunction
from floe.spark.schemas import ONLY_READ, SparkType
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, ListType, MapType, StructType, Type
from floe.storage.protocol import Storage

_OTHERS = frozenset({"uuid", "fixed", "variant"}) | ONLY_READ
_VARIANT = [pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False, {"variant": "true"})]
"""What Spark takes for a variant."""


def pickled_tasks(tasks: Iterable[FileTask]) -> bytes:
    """Tasks as an executor gets them."""
    return pickle.dumps(tuple(tasks), protocol=pickle.HIGHEST_PROTOCOL)


def tasks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """The tasks that come to an executor, pickled in the first column, one partition after the other."""
    for batch in batches:
        for one in batch.column(0).to_pylist():
            yield from pickle.loads(one)


@dataclass(frozen=True)
class ReadTasks:
    """Reads pickled tasks, and gives the rows as Spark wants them."""

    metadata: TableMetadata
    storage: Storage
    schema: Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the tasks that come, one partition after the other."""
        reader = TaskReader(self.metadata, self.storage)
        for task in tasks_of(batches):
            for rows in reader.batches(task, self.schema):
                yield for_spark(rows, self.schema.fields)


def for_spark(batch: pa.RecordBatch, fields: tuple[Field, ...]) -> pa.RecordBatch:
    """A batch with the types that Spark has for the columns."""
    arrays = [_converted(array, field.type) for array, field in zip(batch.columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[field.name for field in fields])


def _converted(array: pa.Array, type_: Type) -> pa.Array:
    match type_:
        case StructType() if _differs(type_):
            children = [_converted(array.field(place), field.type) for place, field in enumerate(type_.fields)]
            names = [field.name for field in type_.fields]
            return pa.StructArray.from_arrays(children, names=names, mask=array.is_null())
        case ListType() if _differs(type_):
            values = _converted(array.values, type_.element)
            return pa.ListArray.from_arrays(array.offsets, values, mask=_nulls(array))
        case MapType() if _differs(type_):
            keys, items = _converted(array.keys, type_.key), _converted(array.items, type_.value)
            return pa.MapArray.from_arrays(array.offsets, keys, items, mask=_nulls(array))
        case _ if type_.kind == "uuid":
            return pa.array(
                [None if one is None else str(uuid.UUID(bytes=one)) for one in array.to_pylist()], pa.string()
            )
        case _ if type_.kind == "fixed" or (type_.kind in ONLY_READ and pa.types.is_binary(array.type)):
            return array.cast(pa.binary())
        case _ if type_.kind in ONLY_READ:
            return array.cast(pa.string())
        case _ if type_.kind == "variant":
            parts = [array.field(field.name) for field in _VARIANT]
            return pa.StructArray.from_arrays(parts, fields=_VARIANT, mask=array.is_null())
        case _:
            return array


def _differs(type_: Type) -> bool:
    """Whether Spark has another type for something in a type."""
    return any(field.type.kind in _OTHERS or _differs(field.type) for field in type_.fields)


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


# Partitions that Python workers read: the classes behind Spark's own Python data sources, with a function of ours.

_PACKAGE: Final = "org.apache.spark.sql.execution.datasources.v2.python."


def python_partitions(jvm: Jvm, contents: Iterable[bytes]) -> Any:
    """A partition for each pickled content, as an `InputPartition[]`."""
    kind = jvm.named(_PACKAGE + "PythonInputPartition")
    made = [kind(number, bytearray(content)) for number, content in enumerate(contents)]
    return jvm.array("org.apache.spark.sql.connector.read.InputPartition", made)


def python_reader_factory(jvm: Jvm, function: Callable[..., Any], schema: SparkType) -> Any:
    """What has workers call a function with the contents of partitions, and takes the rows that it gives."""
    serializer: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]
    pickled = serializer.dumps((ExecutorFunction(function), SparkStruct.fromJson(schema)))
    source = jvm.named(_PACKAGE + "UserDefinedPythonDataSource")(_wrap_function(jvm.context, _nothing))
    return jvm.create(_PACKAGE + "PythonPartitionReaderFactory", [source, bytearray(pickled), jvm.data_type(schema)])


def _nothing() -> None:
    """Spark takes from it how Python is called, and does not call it."""
