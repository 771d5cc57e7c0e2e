"""A write that is being put together, and the write: INSERT, INSERT OVERWRITE, CTAS, `df.writeTo`."""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from floe.commit.change import BLIND, Reads
from floe.errors import UnsupportedFeature
from floe.formats.writers.write_target import WriteTarget
from floe.spark.bridge.exceptions import null_error
from floe.spark.bridge.interfaces.write import (
    BatchWrite,
    InsertableRelation,
    SupportsDynamicOverwrite,
    SupportsOverwriteV2,
    V1Write,
    Write,
)
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.rules import Rewritable
from floe.spark.bridge.values import read_conditions
from floe.spark.read.filter_terms import Translated
from floe.spark.read.filters import translate
from floe.spark.streaming.sink import TableStreamingWrite
from floe.spark.write.columns import check_columns
from floe.spark.write.distribution import brought_together, distribution_mode
from floe.spark.write.insert import (
    Append,
    Intent,
    ReplaceDynamically,
    ReplaceWhere,
    commit_target,
    publish,
    reads_of_plan,
    write_data_frame,
)
from floe.spark.write.options import WriteOptions
from floe.spark.write.tasks import WriteTasks
from floe.spark.write.worker import WriteRows, files_of
from floe.spec.expressions.nodes import TRUE, and_
from floe.table.table import Table
from floe.table.transaction import Transaction

Target = Table | Transaction


class TableWriteBuilder(SupportsOverwriteV2, SupportsDynamicOverwrite):
    """Puts a write to a table together."""

    def __init__(
        self, jvm: Jvm, name: str, target: Target, options: WriteOptions, schema: Any, query_id: str = ""
    ) -> None:
        super().__init__(jvm)
        self._name, self._target, self._options, self._schema = name, target, options, schema
        self._query_id = query_id
        self._intent: Intent = Append()

    def canOverwrite(self, predicates: Any) -> bool:
        """Whether the rows to be replaced can be told exactly."""
        return all(one.exact for one in self._translated(predicates))

    def overwrite(self, predicates: Any) -> Any:
        """Replace the rows that pass."""
        found = self._translated(predicates)
        if not all(one.exact for one in found):
            raise UnsupportedFeature("rows cannot be replaced by this filter: it is not one of Iceberg's")
        self._intent = ReplaceWhere(and_(*(one.filter for one in found)))
        return self

    def truncate(self) -> Any:
        """Replace all rows."""
        self._intent = ReplaceWhere(TRUE)
        return self

    def overwriteDynamicPartitions(self) -> Any:
        """Replace the partitions that there are rows for."""
        self._intent = ReplaceDynamically()
        return self

    def build(self) -> Any:
        """The write. Spark takes dynamic overwrites only as writes of its own kind."""
        kind = TableBatchWrite if isinstance(self._intent, ReplaceDynamically) else TableWrite
        return kind(self.jvm, self._name, self._target, self._intent, self._options, self._schema, self._query_id)

    def _translated(self, predicates: Any) -> list[Translated]:
        return translate(read_conditions(self.jvm, predicates), self._target.metadata.schema)


class _AnyWrite(Write):
    """What all writes know."""

    def __init__(
        self,
        jvm: Jvm,
        name: str,
        target: Target,
        intent: Intent,
        options: WriteOptions,
        schema: Any,
        query_id: str = "",
    ) -> None:
        super().__init__(jvm)
        self._name, self._target, self._intent, self._options, self._schema = name, target, intent, options, schema
        self._query_id, self._tasks = query_id, WriteTasks(jvm, target.storage)

    def title(self) -> str:
        """What plans show."""
        return self.description()

    def description(self) -> str:
        """The table and what happens to it, in words."""
        where = "" if self._options.branch is None else f" (branch {self._options.branch})"
        return f"Floe table {self._name}{where}: {self._intent}"

    def toStreaming(self) -> Any:
        """The write of a stream."""
        assert isinstance(self._target, Table)
        replaces = not isinstance(self._intent, Append)
        return TableStreamingWrite(
            self.jvm, self._name, self._target, self._options, self._schema, self._query_id, replaces=replaces
        )


class TableWrite(_AnyWrite, V1Write):
    """A write that gets the rows as a data frame, so that they can be brought together by any expression."""

    def toInsertableRelation(self) -> Any:
        """What takes the data frame."""
        return TableInsertion(self.jvm, self._name, self._target, self._intent, self._options)


class TableInsertion(InsertableRelation):
    """Takes the rows of a write."""

    def __init__(self, jvm: Jvm, name: str, target: Target, intent: Intent, options: WriteOptions) -> None:
        super().__init__(jvm)
        self._name, self._target, self._intent, self._options = name, target, intent, options

    def insert(self, data: Any, overwrite: bool) -> None:
        """Write the rows, and commit the files."""
        session = SparkSession(self.jvm.context, self.jvm.active_session())
        try:
            write_data_frame(self.jvm, DataFrame(data, session), self._target, self._intent, self._options)
        except PySparkException as error:
            raise null_error(error, self._name) or error from None


class TableBatchWrite(_AnyWrite, BatchWrite, Rewritable):
    """A write whose tasks Spark runs itself."""

    _reads: Reads = BLIND

    def rewritten(self, node: Any) -> Any:
        """The same with its rows brought together."""
        metadata, query = self._target.metadata, node.query()
        if isinstance(self._target, Table):
            target = commit_target(self._target, self._options)
            self._reads = reads_of_plan(self.jvm, query, self._target, target)
        names = [field["name"] for field in self.jvm.read_data_type(query.schema())["fields"]]
        check_columns(names, metadata.schema, self._options)
        size = WriteTarget.of(metadata, self._target.storage, overrides=self._options.overrides).file_bytes
        mode = distribution_mode(metadata, self._options.distribution)
        together = brought_together(self.jvm, query, metadata, mode, size)
        return node if together is query else node.withNewQuery(together)

    def toBatch(self) -> Any:
        """The write itself."""
        return self

    def createBatchWriterFactory(self, info: Any) -> Any:
        """What writes the rows of a task, in an executor."""
        work = WriteRows.of(self._target.metadata, self._target.storage, self._options.overrides)
        return self._tasks.factory(work, self._schema, self._target.metadata.schema)

    def useCommitCoordinator(self) -> bool:
        """Only one attempt of each task counts."""
        return True

    def commit(self, messages: Any, *summary: Any) -> None:
        """Commit the files of all tasks."""
        files = files_of(self._tasks.results(messages))
        publish(self._target, files, self._intent, self._options, self._reads)

    def abort(self, messages: Any) -> None:
        """Delete the files of the tasks that had finished; a commit does so itself, unless it may have been made."""
        self._tasks.discard(messages)
