"""Tasks that write in Python workers: the classes behind Spark's own Python data sources, with a function of ours."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import BinaryType, StructField, StructType
from pyspark.sql.udf import _wrap_function

from floe.spark.bridge.jvm import Jvm
from floe.spark.executors import Carried
from floe.spark.write.batches import sized_batches
from floe.spec.schemas.schema import Schema

__all__ = ["PythonTasks"]

_PACKAGE: Final = "org.apache.spark.sql.execution.datasources.v2.python."
_MESSAGE: Final = StructType([StructField("message", BinaryType())])


class PythonTasks:
    """The tasks of one write: begun with what Spark starts them by, and over when it brings what they said."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        self._meanwhile = ExitStack()

    def factory(self, function: Callable[..., Any], rows: Any, table: Schema, *, streaming: bool = False) -> Any:
        """What has workers call a function with the rows of tasks, and takes the message that it gives."""
        serializer: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]
        pickled = serializer.dumps((Carried(function), _MESSAGE))
        source = self._jvm.named(_PACKAGE + "UserDefinedPythonDataSource")(_wrap_function(self._jvm.context, _nothing))
        kind = "PythonStreamingWriterFactory" if streaming else "PythonBatchWriterFactory"
        made = self._jvm.made(_PACKAGE + kind, [source, bytearray(pickled), rows])
        self._meanwhile.enter_context(sized_batches(self._jvm.context, table))
        return made

    def said(self, messages: Any) -> list[bytes]:
        """What the tasks said; a task that was never begun has said nothing."""
        self._meanwhile.close()
        return [bytes(message.pickledMessage()) for message in messages if message is not None]


def _nothing() -> None:
    """Spark takes from it how Python is called, and does not call it."""
