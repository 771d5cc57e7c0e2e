"""Writes of Spark whose tasks write files in Python workers, while the driver commits them.

`WriteTasks` is the part that all such writes share: what starts the tasks, what they return, and deleting their files
if the write is aborted before its commit. The tasks are run by the classes of Spark's own Python data sources.

`sized_batches` sets how many rows go to a worker at a time. After each row Spark computes how large the batch has
become, to end it at a number of bytes, and that takes longer than adding the row. So batches end by their number of
rows alone, unless the table has columns that are often large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from pyspark import SparkContext
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import BinaryType, StructField, StructType
from pyspark.sql.udf import _wrap_function

from floe.formats.writers.rolling import discard
from floe.spark.bridge.jvm import Jvm
from floe.spark.executors import ExecutorFunction
from floe.spark.settings import ARROW_BATCH_BYTES, ARROW_BATCH_ROWS
from floe.spark.write.worker import files_of
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.schema import Schema, walk_fields
from floe.storage.protocol import Storage

_OFTEN_LARGE: Final = frozenset({"binary", "variant", "geometry", "geography"})
_NO_LIMIT: Final = str(2**31 - 1)
"""With exactly this limit Spark does not compute sizes."""


@contextmanager
def sized_batches(context: SparkContext, schema: Schema) -> Iterator[None]:
    """Have tasks that this thread starts inside the block get rows in batches that suit a writer of files.

    These are properties of the thread in the JVM; settings of the session override them.
    """
    limits = {ARROW_BATCH_ROWS: "16384"}
    if not any(entry.field.type.kind in _OFTEN_LARGE for entry in walk_fields(schema.fields)):
        limits[ARROW_BATCH_BYTES] = _NO_LIMIT
    before = {name: context.getLocalProperty(name) for name in limits}
    try:
        for name, value in limits.items():
            context.setLocalProperty(name, value)
        yield
    finally:
        for name, old in before.items():
            context.setLocalProperty(name, old)  # type: ignore[arg-type]  # None removes it


_PACKAGE: Final = "org.apache.spark.sql.execution.datasources.v2.python."
_MESSAGE: Final = StructType([StructField("message", BinaryType())])


class WriteTasks:
    """The tasks of one write, on the driver: their factory, their results, and what becomes of their files.

    `files_of` reads the data files of the pickled results.
    """

    def __init__(
        self, jvm: Jvm, storage: Storage, files_of: Callable[[Iterable[bytes]], list[DataFile]] = files_of
    ) -> None:
        self._jvm, self._storage, self._files_of = jvm, storage, files_of
        self._batch_sizes = ExitStack()
        self._committing = False

    def factory(self, function: Callable[..., Any], rows: Any, table: Schema, *, streaming: bool = False) -> Any:
        """The writer factory for Spark: workers call the function with the rows of a task, and return its result."""
        serializer: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]
        pickled = serializer.dumps((ExecutorFunction(function), _MESSAGE))
        source = self._jvm.named(_PACKAGE + "UserDefinedPythonDataSource")(_wrap_function(self._jvm.context, _unused))
        kind = "PythonStreamingWriterFactory" if streaming else "PythonBatchWriterFactory"
        factory = self._jvm.create(_PACKAGE + kind, [source, bytearray(pickled), rows])
        self._batch_sizes.enter_context(sized_batches(self._jvm.context, table))
        return factory

    def results(self, messages: Any) -> list[bytes]:
        """The pickled results of the tasks, for the commit, which from here on deletes the files itself if it fails."""
        self._committing = True
        return self._read(messages)

    def discard(self, messages: Any) -> None:
        """Delete the files of finished tasks, unless a commit has begun: the files may be part of the table by then."""
        if not self._committing:
            discard(self._storage, [file.file_path for file in self._files_of(self._read(messages))])

    def _read(self, messages: Any) -> list[bytes]:
        """The results; Spark has a null for each task that never started."""
        self._batch_sizes.close()
        return [bytes(message.pickledMessage()) for message in messages if message is not None]


def _unused() -> None:
    """Spark takes from it how Python is run, and never calls it."""
