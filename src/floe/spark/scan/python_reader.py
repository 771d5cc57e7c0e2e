"""Partitions that Python workers read: the classes behind Spark's own Python data sources, with a function of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import StructType as SparkStruct
from pyspark.sql.udf import _wrap_function

from floe.spark.bridge.jvm import Jvm
from floe.spark.columns import SparkType
from floe.spark.executors import Carried

__all__ = ["python_partitions", "python_reader_factory"]

_PACKAGE: Final = "org.apache.spark.sql.execution.datasources.v2.python."


def python_partitions(jvm: Jvm, contents: Iterable[bytes]) -> Any:
    """A partition for each pickled content, as an `InputPartition[]`."""
    kind = jvm.named(_PACKAGE + "PythonInputPartition")
    made = [kind(number, bytearray(content)) for number, content in enumerate(contents)]
    return jvm.array("org.apache.spark.sql.connector.read.InputPartition", made)


def python_reader_factory(jvm: Jvm, function: Callable[..., Any], schema: SparkType) -> Any:
    """What has workers call a function with the contents of partitions, and takes the rows that it gives."""
    serializer: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]
    pickled = serializer.dumps((Carried(function), SparkStruct.fromJson(schema)))
    source = jvm.named(_PACKAGE + "UserDefinedPythonDataSource")(_wrap_function(jvm.context, _nothing))
    return jvm.made(_PACKAGE + "PythonPartitionReaderFactory", [source, bytearray(pickled), jvm.data_type(schema)])


def _nothing() -> None:
    """Spark takes from it how Python is called, and does not call it."""
