"""The write builder and the writes of INSERT, INSERT OVERWRITE, CREATE TABLE … AS SELECT and `df.writeTo`.

Spark hands over the rows of most writes as a data frame (`TableWrite`), so that `floe.spark.write.insert` can
repartition them by any expression. It executes dynamic overwrites itself (`TableBatchWrite`), with tasks that write
files.
"""

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
from floe.spark.read.filter_operands import Translation
from floe.spark.read.filters import translate
from floe.spark.streaming.sink import TableStreamingWrite
from floe.spark.write.columns import check_columns
from floe.spark.write.distribution import distribution_mode, repartition_query
from floe.spark.write.insert import (
    Append,
    OverwriteByFilter,
    OverwritePartitions,
    WriteMode,
    commit_files,
    commit_target,
    plan_reads,
    write_data_frame,
)
from floe.spark.write.options import WriteOptions
from floe.spark.write.tasks import WriteTasks
from floe.spark.write.worker import WriteRows, unpickle_files
from floe.spec.expressions.nodes import TRUE, and_
from floe.table.table import Table
from floe.table.transaction import Transaction

Target = Table | Transaction


class TableWriteBuilder(SupportsOverwriteV2, SupportsDynamicOverwrite):
    """Builds a write to a table; it appends, unless Spark asks for an overwrite."""

    def __init__(
        self, jvm: Jvm, name: str, target: Target, options: WriteOptions, schema: Any, query_id: str = ""
    ) -> None:
        super().__init__(jvm)
        self._name, self._target, self._options, self._schema = name, target, options, schema
        self._query_id = query_id
        self._mode: WriteMode = Append()

    def canOverwrite(self, predicates: Any) -> bool:
        """Whether the predicates are exactly a filter of Iceberg; Spark asks before it calls `overwrite`."""
        return all(translation.exact for translation in self._translate(predicates))

    def overwrite(self, predicates: Any) -> Any:
        """Replace the rows that match the predicates."""
        translations = self._translate(predicates)
        if not all(translation.exact for translation in translations):
            raise UnsupportedFeature("rows cannot be overwritten by this filter: Iceberg cannot express it")
        self._mode = OverwriteByFilter(and_(*(translation.filter for translation in translations)))
        return self

    def truncate(self) -> Any:
        """Replace all rows."""
        self._mode = OverwriteByFilter(TRUE)
        return self

    def overwriteDynamicPartitions(self) -> Any:
        """Replace the partitions that the new rows belong to."""
        self._mode = OverwritePartitions()
        return self

    def build(self) -> Any:
        """The write; Spark does not hand over the rows of a dynamic overwrite as a data frame."""
        kind = TableBatchWrite if isinstance(self._mode, OverwritePartitions) else TableWrite
        return kind(self.jvm, self._name, self._target, self._mode, self._options, self._schema, self._query_id)

    def _translate(self, predicates: Any) -> list[Translation]:
        return translate(read_conditions(self.jvm, predicates), self._target.metadata.schema)


class _BaseWrite(Write):
    """The part that both kinds of writes share."""

    def __init__(
        self,
        jvm: Jvm,
        name: str,
        target: Target,
        mode: WriteMode,
        options: WriteOptions,
        schema: Any,
        query_id: str = "",
    ) -> None:
        super().__init__(jvm)
        self._name, self._target, self._mode, self._options, self._schema = name, target, mode, options, schema
        self._query_id, self._tasks = query_id, WriteTasks(jvm, target.storage)

    def title(self) -> str:
        """The text that plans show."""
        return self.description()

    def description(self) -> str:
        """The text that EXPLAIN shows: the table, the branch and the mode."""
        branch = "" if self._options.branch is None else f" (branch {self._options.branch})"
        return f"Floe table {self._name}{branch}: {self._mode}"

    def toStreaming(self) -> Any:
        """The write of a streaming query."""
        assert isinstance(self._target, Table)
        replaces = not isinstance(self._mode, Append)
        return TableStreamingWrite(
            self.jvm, self._name, self._target, self._options, self._schema, self._query_id, replaces=replaces
        )


class TableWrite(_BaseWrite, V1Write):
    """A write that gets its rows as a data frame."""

    def toInsertableRelation(self) -> Any:
        """The relation that Spark inserts the data frame into."""
        return TableInsertion(self.jvm, self._name, self._target, self._mode, self._options)


class TableInsertion(InsertableRelation):
    """Writes the data frame of a `TableWrite`."""

    def __init__(self, jvm: Jvm, name: str, target: Target, mode: WriteMode, options: WriteOptions) -> None:
        super().__init__(jvm)
        self._name, self._target, self._mode, self._options = name, target, mode, options

    def insert(self, data: Any, overwrite: bool) -> None:
        """Write the rows and commit the files; `overwrite` is ignored, as the write mode says it."""
        session = SparkSession(self.jvm.context, self.jvm.active_session())
        try:
            write_data_frame(self.jvm, DataFrame(data, session), self._target, self._mode, self._options)
        except PySparkException as error:
            raise null_error(error, self._name) or error from None


class TableBatchWrite(_BaseWrite, BatchWrite, Rewritable):
    """A write that Spark executes itself, with tasks that write files."""

    _reads: Reads = BLIND
    """What the query reads of the table; known when the plan is rewritten."""

    def rewrite(self, node: Any) -> Any:
        """Repartition the rows of the write, and find out what its query reads of the table."""
        metadata, query = self._target.metadata, node.query()
        if isinstance(self._target, Table):
            target = commit_target(self._target, self._options)
            self._reads = plan_reads(self.jvm, query, self._target, target)
        names = [field["name"] for field in self.jvm.read_data_type(query.schema())["fields"]]
        check_columns(names, metadata.schema, self._options)
        file_bytes = WriteTarget.of(metadata, self._target.storage, overrides=self._options.overrides).file_bytes
        distribution = distribution_mode(metadata, self._options.distribution)
        repartitioned = repartition_query(self.jvm, query, metadata, distribution, file_bytes)
        return node if repartitioned is query else node.withNewQuery(repartitioned)

    def toBatch(self) -> Any:
        """The write itself."""
        return self

    def createBatchWriterFactory(self, info: Any) -> Any:
        """The factory of the writers that write the rows of a task, in an executor."""
        function = WriteRows.of(self._target.metadata, self._target.storage, self._options.overrides)
        return self._tasks.factory(function, self._schema, self._target.metadata.schema)

    def useCommitCoordinator(self) -> bool:
        """True, so that Spark commits only one attempt of each task."""
        return True

    def commit(self, messages: Any, *summary: Any) -> None:
        """Commit the files of all tasks."""
        files = unpickle_files(self._tasks.results(messages))
        commit_files(self._target, files, self._mode, self._options, self._reads)

    def abort(self, messages: Any) -> None:
        """Delete the files of finished tasks, unless a commit has begun: it deletes them itself if it fails."""
        self._tasks.discard(messages)
