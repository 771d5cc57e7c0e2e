"""Tasks that write in Python workers: the classes behind Spark's own Python data sources, with a function of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import BinaryType, StructField, StructType
from pyspark.sql.udf import _wrap_function

from floe.spark.bridge.jvm import Jvm
from floe.spark.executors import Carried

__all__ = ["messages_of", "python_writer_factory"]

_PACKAGE: Final = "org.apache.spark.sql.execution.datasources.v2.python."
_MESSAGE: Final = StructType([StructField("message", BinaryType())])


def python_writer_factory(jvm: Jvm, function: Callable[..., Any], schema: Any, *, streaming: bool = False) -> Any:
    """What has workers call a function with the rows of tasks, and takes the message that it gives."""
    serializer: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]
    pickled = serializer.dumps((Carried(function), _MESSAGE))
    source = jvm.named(_PACKAGE + "UserDefinedPythonDataSource")(_wrap_function(jvm.context, _nothing))
    kind = "PythonStreamingWriterFactory" if streaming else "PythonBatchWriterFactory"
    return jvm.made(_PACKAGE + kind, [source, bytearray(pickled), schema])


def messages_of(messages: Any) -> Iterator[bytes]:
    """What the tasks said; a task that was never begun has said nothing."""
    for message in messages:
        if message is not None:
            yield bytes(message.pickledMessage())


def _nothing() -> None:
    """Spark takes from it how Python is called, and does not call it."""
