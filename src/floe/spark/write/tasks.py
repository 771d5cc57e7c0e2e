"""Tasks that write in Python workers: the classes behind Spark's own Python data sources, with a function of ours.

How many rows go to a Python worker at a time.

After each row Spark computes how big the batch has become, to end it at a number of bytes; that takes longer than
putting the row there. So batches of writes end by their number of rows alone, unless rows have columns that are often
big. These are properties of the thread that starts the tasks, over which Spark puts whatever the session says itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from pyspark import SparkContext
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import BinaryType, StructField, StructType
from pyspark.sql.udf import _wrap_function

from floe.spark.bridge.jvm import Jvm
from floe.spark.executors import Carried
from floe.spark.settings import ARROW_BATCH_BYTES, ARROW_BATCH_ROWS
from floe.spec.schemas.schema import Schema, walk_fields

# How many rows go to a Python worker at a time.

_OFTEN_BIG: Final = frozenset({"binary", "variant", "geometry", "geography"})
_NO_LIMIT: Final = str(2**31 - 1)
"""With just this number Spark does not compute sizes."""


@contextmanager
def sized_batches(context: SparkContext, schema: Schema) -> Iterator[None]:
    """Tasks that this thread starts meanwhile get rows of a table in batches that suit a writer of files."""
    limits = {ARROW_BATCH_ROWS: "16384"}
    if not any(entry.field.type.kind in _OFTEN_BIG for entry in walk_fields(schema.fields)):
        limits[ARROW_BATCH_BYTES] = _NO_LIMIT
    before = {name: context.getLocalProperty(name) for name in limits}
    try:
        for name, value in limits.items():
            context.setLocalProperty(name, value)
        yield
    finally:
        for name, old in before.items():
            context.setLocalProperty(name, old)  # type: ignore[arg-type]  # None takes it away


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
