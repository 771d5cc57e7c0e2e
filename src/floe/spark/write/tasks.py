"""The driver's side of writes whose tasks write files in Python workers, while the driver commits the files.

`WriteTasks` is the part that all writes executed by Spark share: the writer factory that starts the tasks, the results
that they return, and deleting their files if the write is aborted before its commit. The tasks are run by the classes
of Spark's own Python data sources; `floe.spark.write.worker` is what they run.

`FinishedFiles` is for writes that Floe runs as a Spark job of its own. If a task fails, the results of the others are
lost with the job. So each task also reports its files through an accumulator, which reaches the driver when the task
ends, and a write that fails deletes these files.

`sized_batches` sets how many rows Spark sends to a worker at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import BinaryType, StructField, StructType
from pyspark.sql.udf import _wrap_function

from floe.formats.writers.rolling_writer import discard, note_undeleted_files
from floe.spark.bridge.jvm import Jvm
from floe.spark.executors import ExecutorFunction
from floe.spark.settings import ARROW_BATCH_BYTES, ARROW_BATCH_ROWS
from floe.spark.write.worker import unpickle_files
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.schema import Schema, walk_fields
from floe.storage.protocol import Storage

# Batch sizes ----------------------------------------------------------------------------------------------------------

_LARGE_TYPES: Final = frozenset({"binary", "variant", "geometry", "geography"})
"""Types whose values are often so large that a batch has to be limited by bytes too."""

_NO_LIMIT: Final = str(2**31 - 1)
"""With exactly this limit Spark does not compute sizes."""


@contextmanager
def sized_batches(context: SparkContext, schema: Schema) -> Iterator[None]:
    """Have tasks that this thread starts inside the block get rows in batches that suit a writer of files.

    These are local properties of the thread in the JVM; settings of the session override them.
    """
    limits = {ARROW_BATCH_ROWS: "16384"}
    # For a limit in bytes Spark computes the size of the batch after each row, which takes longer than adding the row.
    if not any(entry.field.type.kind in _LARGE_TYPES for entry in walk_fields(schema.fields)):
        limits[ARROW_BATCH_BYTES] = _NO_LIMIT
    before = {name: context.getLocalProperty(name) for name in limits}
    try:
        for name, value in limits.items():
            context.setLocalProperty(name, value)
        yield
    finally:
        for name, old in before.items():
            context.setLocalProperty(name, old)  # type: ignore[arg-type]  # None removes it


# Writes executed by Spark ---------------------------------------------------------------------------------------------

_PACKAGE: Final = "org.apache.spark.sql.execution.datasources.v2.python."
_MESSAGE: Final = StructType([StructField("message", BinaryType())])


class WriteTasks:
    """The tasks of one write, on the driver: their factory, their results, and what becomes of their files.

    `unpickle_files` reads the data files of the pickled results.
    """

    def __init__(
        self, jvm: Jvm, storage: Storage, unpickle_files: Callable[[Iterable[bytes]], list[DataFile]] = unpickle_files
    ) -> None:
        self._jvm, self._storage, self._unpickle_files = jvm, storage, unpickle_files
        self._batch_sizes = ExitStack()
        self._committing = False

    def factory(self, function: Callable[..., Any], rows: Any, table: Schema, *, streaming: bool = False) -> Any:
        """The writer factory for Spark: workers call the function with the rows of a task, and return its result.

        `rows` is the `StructType` of the rows, and `table` the schema of the table.
        """
        serializer: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]
        pickled = serializer.dumps((ExecutorFunction(function), _MESSAGE))
        source = self._jvm.java_class(_PACKAGE + "UserDefinedPythonDataSource")(
            _wrap_function(self._jvm.context, _unused)
        )
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
            discard(self._storage, [file.file_path for file in self._unpickle_files(self._read(messages))])

    def _read(self, messages: Any) -> list[bytes]:
        """The results; Spark has a null for each task that never started."""
        self._batch_sizes.close()
        return [bytes(message.pickledMessage()) for message in messages if message is not None]


def _unused() -> None:
    """Tells Spark how Python is run; it is never called."""


# Writes as jobs of Floe -----------------------------------------------------------------------------------------------

_MAX_WRITES: Final = 1000
"""How many writes are remembered: tasks may end after their job has failed, and nobody removes what they report."""

FilesByWrite = dict[str, list[str]]
"""Locations of files by the ids of writes."""


class _MergeFiles(AccumulatorParam[FilesByWrite]):
    """Adds up what tasks report."""

    def zero(self, value: FilesByWrite) -> FilesByWrite:
        return {}

    def addInPlace(self, value1: FilesByWrite, value2: FilesByWrite) -> FilesByWrite:
        for write_id, files in value2.items():
            value1[write_id] = value1.get(write_id, []) + files
        while len(value1) > _MAX_WRITES:
            del value1[next(iter(value1))]
        return value1


class FinishedFiles:
    """The files of finished tasks, by write; there is one such object for each Spark context."""

    def __init__(self, context: SparkContext) -> None:
        self.accumulator: Accumulator[FilesByWrite] = context.accumulator({}, _MergeFiles())
        """Tasks add the locations of their files here."""

    @contextmanager
    def delete_on_error(self, storage: Storage, write_id: str) -> Iterator[None]:
        """Delete the files that tasks of a write have reported if the block fails; it must not commit anything."""
        try:
            yield
        except BaseException as error:
            note_undeleted_files(error, discard(storage, self.accumulator.value.get(write_id, [])))
            raise
        finally:
            self.accumulator.value.pop(write_id, None)
