"""Spark's plans of row-level statements (DELETE, UPDATE and MERGE), turned into plans that Python tasks can execute.

1. Analysis: `OperationBuilder` gives Spark a `RowLevelOperation`, which says how rows are identified and which metadata
   columns the plan needs.
2. Scan: `RowLevelScan` reads the rows that may change. With copy-on-write, a file is read as a whole once one of its
   rows may change. Spark first finds out which files these are: it runs the condition alone, and passes the names of
   the files as a runtime filter (`_file IN (…)`).
3. Write: Spark plans a write of row deltas or of replaced files, which only writers in Java can execute. Before the
   plan is executed, the rule of `floe.spark.bridge.rules` has the planned write rewrite its node: it becomes a plain
   append of the same query, executed by `RowLevelWrite`, whose tasks run `floe.spark.write.worker.ChangeRows`.

On the way the rows are repartitioned, as `write.delete.distribution-mode`, `write.update.distribution-mode` and
`write.merge.distribution-mode` say, and a MERGE with copy-on-write is changed to copy each row only once.
"""

from __future__ import annotations

import functools
import pickle
import uuid
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, Final

from pyspark.sql import DataFrame

from floe.plan.scan_plan import ScanPlan
from floe.spark.bridge.interfaces.write import (
    BatchWrite,
    DeltaWrite,
    DeltaWriteBuilder,
    RowLevelOperation,
    RowLevelOperationBuilder,
    SupportsDelta,
    Write,
    WriteBuilder,
)
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import Expressions, Plans, append_data, replace_table
from floe.spark.bridge.proxies import Proxy
from floe.spark.bridge.rules import Rewritable
from floe.spark.bridge.values import read_conditions
from floe.spark.executors import executor_metadata
from floe.spark.read.builder import TableScanBuilder
from floe.spark.read.filters import translate
from floe.spark.read.scan import TableScan
from floe.spark.read.scan_source import NO_PREDICATES, PlannedFiles, PushedPredicates
from floe.spark.write.distribution import add_above_query, rebalance_rows, repartition_rows
from floe.spark.write.insert import TargetReads, target_reads
from floe.spark.write.retries import record_conflicts
from floe.spark.write.row_level import Statement, commit, merge_clauses, path_to_node, spark_counts
from floe.spark.write.tasks import WriteTasks
from floe.spark.write.worker import ChangeRows, Layout, TaskResult
from floe.spec.expressions.binder import bind_predicate
from floe.spec.expressions.nodes import FALSE, TRUE, BoundPredicate, BoundReference, Expression, Op, and_, or_
from floe.spec.manifests.entries import DataFile
from floe.spec.properties import DISTRIBUTION_MODES
from floe.spec.schemas.metadata_columns import FILE, LAST_UPDATED_SEQUENCE_NUMBER, POS, ROW_ID
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field

_REFERENCE: Final = "org.apache.spark.sql.connector.expressions.NamedReference"

CreateTable = Callable[[], Proxy]
"""Creates the Spark table that tasks write to."""


# Analysis -------------------------------------------------------------------------------------------------------------


class OperationBuilder(RowLevelOperationBuilder):
    """Builds the operation of a statement; `create_table` creates the table that tasks write to."""

    def __init__(self, jvm: Jvm, statement: Statement, command: Any, create_table: CreateTable) -> None:
        super().__init__(jvm)
        self._statement, self._command, self._create_table = statement, command, create_table

    def build(self) -> Any:
        """The operation, as the mode of the statement says."""
        kind = CopyOnWriteOperation if self._statement.copy_on_write else MergeOnReadOperation
        return kind(self.jvm, self._statement, self._command, self._create_table)


class _Operation(RowLevelOperation):
    """The part that the operations of both modes share."""

    def __init__(self, jvm: Jvm, statement: Statement, command: Any, create_table: CreateTable) -> None:
        super().__init__(jvm)
        self._statement, self._command, self._create_table = statement, command, create_table

    def title(self) -> str:
        """The text that plans show."""
        return str(self._statement)

    def description(self) -> str:
        """The text that EXPLAIN shows."""
        return str(self._statement)

    def command(self) -> Any:
        """The Java constant for DELETE, UPDATE or MERGE."""
        return self._command

    def newScanBuilder(self, options: Any) -> Any:
        """The builder of the scan of the rows that may change."""
        return RowLevelScanBuilder(self.jvm, self._statement)

    def _references(self, fields: Iterable[Field]) -> Any:
        expressions = self.jvm.sql("connector.expressions.Expressions")
        return self.jvm.array(_REFERENCE, [expressions.column(field.name) for field in fields])


class CopyOnWriteOperation(_Operation):
    """Rewrites the files that contain changed rows."""

    def newWriteBuilder(self, info: Any) -> Any:
        """The builder of the write of the rewritten files."""
        return CopyOnWriteBuilder(self.jvm, self._statement, self._create_table)

    def requiredMetadataAttributes(self) -> Any:
        """`_file`, by which Spark filters out files without changed rows, and the row lineage that rows keep."""
        lineage = (ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER) if self._statement.keeps_lineage else ()
        return self._references((FILE, *lineage))


class MergeOnReadOperation(_Operation, SupportsDelta):
    """Deletes rows where they are, and writes changed rows to new files."""

    def newWriteBuilder(self, info: Any) -> Any:
        """The builder of the write of the changed rows."""
        return DeltaBuilder(self.jvm, self._statement, self._create_table)

    def rowId(self) -> Any:
        """The columns by which Spark identifies a row: its file and position."""
        return self._references((FILE, POS))

    def requiredMetadataAttributes(self) -> Any:
        """The row ids that rows keep; the last-updated sequence number of a changed row is that of the commit."""
        return self._references((ROW_ID,) if self._statement.keeps_lineage else ())


# Scan -----------------------------------------------------------------------------------------------------------------


class RowLevelScanBuilder(TableScanBuilder):
    """Builds the scan of the rows that a statement may change."""

    def __init__(self, jvm: Jvm, statement: Statement) -> None:
        super().__init__(jvm, statement.source)
        self._statement = statement

    def pushPredicates(self, predicates: Any) -> Any:
        """Prune files; returns all predicates, because rows that do not match may have to be copied."""
        super().pushPredicates(predicates)
        return predicates

    def pushLimit(self, limit: int) -> bool:
        """False: all rows are needed."""
        return False

    def pushAggregation(self, aggregation: Any) -> bool:
        """False: rows are needed, not aggregates."""
        return False

    def build(self) -> Any:
        """The scan."""
        return RowLevelScan(self.jvm, self._statement, self._projection, self._pushed)


class RowLevelScan(TableScan):
    """A scan of the rows that a statement may change; it records in the statement what it reads."""

    def __init__(self, jvm: Jvm, statement: Statement, projection: Schema, pushed: PushedPredicates) -> None:
        super().__init__(jvm, statement.source, projection, pushed=pushed)
        self._statement = statement
        self._runtime_files: frozenset[str] | None = None
        """The files of the runtime filter; None before Spark has passed one."""

        statement.scan_filters[id(self)] = pushed.where

    @property
    def pushed(self) -> PushedPredicates:
        """The predicates by which Spark's reader skips rows; none if files are rewritten, which needs all rows."""
        return NO_PREDICATES if self._statement.copy_on_write else super().pushed

    def key(self) -> Any:
        """A key that no other scan has, so that Spark does not replace this one: the statement records its reads."""
        return self._number

    @cached_property
    def _plan(self) -> ScanPlan:
        plan = self._source.plan(and_(self.pushed_filter, self._runtime_filter))
        return plan if self._runtime_files is None else plan.only(self._runtime_files)

    def record_read(self, part: Proxy, files: PlannedFiles) -> None:
        """Record in the statement which files a part of the scan reads; the last call for a part counts."""
        self._statement.files[id(part)] = files

    def filterAttributes(self) -> Any:
        """The columns that Spark may filter by at run time.

        With copy-on-write `_file`, so that only files with changed rows are rewritten; for a MERGE with merge-on-read
        those of every scan, which help the join; else none.
        """
        if self._statement.copy_on_write:
            if not self._statement.reads_same_snapshot:
                return self.jvm.array(_REFERENCE, [])  # the query that finds the files would read another branch
            return self.jvm.array(_REFERENCE, [self.jvm.sql("connector.expressions.Expressions").column(FILE.name)])
        if self._statement.kind != "merge":
            return self.jvm.array(_REFERENCE, [])
        return super().filterAttributes()

    def filter(self, predicates: Any) -> None:
        """Plan again with the filter that Spark has computed at run time."""
        conditions = read_conditions(self.jvm, predicates)
        if not self._statement.copy_on_write:
            translations = translate(conditions, self._source.schema)
            self.add_runtime_filter(and_(*(_or_null(translation.filter) for translation in translations)))
            return
        for translation in translate(conditions, Schema((FILE,))):
            if translation.filter != TRUE:
                files = _file_names(translation.filter)
                self._runtime_files = files if self._runtime_files is None else self._runtime_files & files
                vars(self).pop("_plan", None)


def _or_null(predicate: Expression) -> Expression:
    """The predicate, or null: Spark selects groups of rows by `IN`, and a null in the list stands for null rows."""
    if isinstance(predicate, BoundPredicate) and isinstance(predicate.term, BoundReference):
        return or_(predicate, bind_predicate(Op.IS_NULL, predicate.term))
    return TRUE


def _file_names(predicate: Expression) -> frozenset[str]:
    """The names of the files in `_file IN (…)`."""
    if predicate == FALSE:
        return frozenset()
    assert isinstance(predicate, BoundPredicate)
    return frozenset(str(literal) for literal in predicate.literals)


# Write ----------------------------------------------------------------------------------------------------------------


class DeltaBuilder(DeltaWriteBuilder):
    """Builds the planned write of merge-on-read."""

    def __init__(self, jvm: Jvm, statement: Statement, create_table: CreateTable) -> None:
        super().__init__(jvm)
        self._statement, self._create_table = statement, create_table

    def build(self) -> Any:
        """The planned write."""
        return PlannedDelta(self.jvm, self._statement, self._create_table)


class CopyOnWriteBuilder(WriteBuilder):
    """Builds the planned write of copy-on-write."""

    def __init__(self, jvm: Jvm, statement: Statement, create_table: CreateTable) -> None:
        super().__init__(jvm)
        self._statement, self._create_table = statement, create_table

    def build(self) -> Any:
        """The planned write."""
        return PlannedWrite(self.jvm, self._statement, self._create_table)


class PlannedWrite(Write, Rewritable):
    """A write as Spark plans it, until its plan is rewritten; it is never executed itself."""

    def __init__(self, jvm: Jvm, statement: Statement, create_table: CreateTable) -> None:
        super().__init__(jvm)
        self._statement, self._create_table = statement, create_table

    def title(self) -> str:
        """The text that plans show."""
        return str(self._statement)

    def description(self) -> str:
        """The text that EXPLAIN shows: the table, the command and the mode."""
        return str(self._statement)

    def rewrite(self, node: Any) -> Any:
        """Replace Spark's `WriteDelta` or `ReplaceData` by an append that Python tasks execute."""
        if self.jvm.simple_name(node) not in ("WriteDelta", "ReplaceData"):
            return node
        self._statement.files.clear()  # only what is read from here on counts
        if self._statement.kind == "merge":
            self._statement.clauses = merge_clauses(self.jvm, node.query())
        query = self._prepare_query(node.query())
        branch = self._statement.target.branch
        other_reads = target_reads(self.jvm, query, self._statement.table, branch, [self._statement.source])
        write = RowLevelWrite(self.jvm, self._statement, query.schema(), other_reads)
        relation = replace_table(self.jvm, node.originalTable(), self._create_table())
        return append_data(self.jvm, relation, distribute_changes(self.jvm, query, self._statement), write)

    def _prepare_query(self, query: Any) -> Any:
        """The query with the columns that tasks need; with copy-on-write these do not include `_file`."""
        if not self._statement.copy_on_write:
            return query
        plans, columns = Plans(self.jvm), len(self._statement.base.schema.fields)
        query = copy_rows_once(self.jvm, query)
        # the first attributes, the operation code and the table's columns, are kept whatever their names are
        projection = [
            attribute
            for index, attribute in enumerate(plans.output(query))
            if index <= columns or attribute.name() != FILE.name
        ]
        return plans.project(projection, query)


class PlannedDelta(PlannedWrite, DeltaWrite):
    """A planned write of row deltas, which merge-on-read is to Spark."""


class RowLevelWrite(Write, BatchWrite):
    """The write that Spark executes: tasks write files and collect deleted rows, and the driver commits."""

    def __init__(self, jvm: Jvm, statement: Statement, schema: Any, other_reads: TargetReads) -> None:
        super().__init__(jvm)
        self._statement, self._schema, self._other_reads = statement, schema, other_reads
        self._tasks = WriteTasks(jvm, statement.table.storage, _written_files)

    def title(self) -> str:
        """The text that plans show."""
        return str(self._statement)

    def description(self) -> str:
        """The text that EXPLAIN shows: the table, the command and the mode."""
        return str(self._statement)

    def toBatch(self) -> Any:
        """The write itself."""
        return self

    def createBatchWriterFactory(self, info: Any) -> Any:
        """The factory of the writers that handle the rows of a task, in an executor."""
        statement = self._statement
        names = [field["name"] for field in self.jvm.read_data_type(self._schema)["fields"]]
        function = ChangeRows(
            executor_metadata(statement.base.metadata),
            statement.table.storage,
            str(uuid.uuid4()),
            dict(statement.options.overrides),
            _layout(names, statement),
            statement.keeps_lineage,
        )
        return self._tasks.factory(function, self._schema, statement.base.schema)

    def commit(self, messages: Any, *summary: Any) -> None:
        """Commit the results of all tasks as one change of the table."""
        merge_counts = spark_counts(self.jvm, self._statement.kind, summary)
        with record_conflicts(self.jvm, self._statement.table):
            results = _unpickle_results(self._tasks.results(messages))
            marks_copies = self.jvm.version >= (4, 2)
            commit(self._statement, results, self._other_reads, merge_counts, marks_copies=marks_copies)

    def abort(self, messages: Any) -> None:
        """Delete the files of finished tasks, unless a commit has begun: it deletes them itself if it fails."""
        self._tasks.discard(messages)


def _unpickle_results(messages: Iterable[bytes]) -> list[TaskResult]:
    return [pickle.loads(message) for message in messages]


def _written_files(messages: Iterable[bytes]) -> list[DataFile]:
    return [file for result in _unpickle_results(messages) for file in result.files]


def _layout(names: list[str], statement: Statement) -> Layout:
    """The layout of rows with columns of these names; there are no columns of the table if rows are only deleted."""
    columns = 0 if statement.only_deletes else len(statement.base.schema.fields)
    indexes = {name: index for index, name in enumerate(names) if index > columns}
    file, position = (None, None) if statement.copy_on_write else (indexes[FILE.name], indexes[POS.name])
    return Layout(columns, file, position, indexes.get(ROW_ID.name), indexes.get(LAST_UPDATED_SEQUENCE_NUMBER.name))


# Distribution of changed rows -----------------------------------------------------------------------------------------


def distribute_changes(jvm: Jvm, query: Any, statement: Statement) -> Any:
    """Repartition the rows of an optimized query, so that a statement writes few files."""
    mode = _distribution_mode(statement)
    columns = len(statement.base.schema.fields)
    if statement.only_deletes or mode == "none":
        return query
    file_bytes = statement.base.target.file_bytes

    def repartition(rows: DataFrame) -> DataFrame:
        repartitioned = repartition_rows(jvm, rows, statement.base.metadata, mode, file_bytes)
        if repartitioned is rows and not statement.copy_on_write:
            return rebalance_rows(jvm, rows, [], file_bytes)  # many tasks may have a few changed rows each
        return repartitioned

    return add_above_query(jvm, query, query.output().slice(1, 1 + columns), repartition)


def _distribution_mode(statement: Statement) -> str:
    """The mode of the table's property; by default `hash`, but `none` for most DELETEs.

    The rows that a DELETE copies come file by file, so each task has rows of few partitions already, unless files of
    older partition specs are rewritten.
    """
    mode = DISTRIBUTION_MODES[statement.kind].read(statement.base.target.properties)
    if mode is not None:
        return mode
    several_specs = len(statement.base.metadata.partition_specs) > 1
    return "none" if statement.kind == "delete" and not several_specs else "hash"


# MERGE with copy-on-write: each row is copied once --------------------------------------------------------------------
#
# Spark joins the table with the source, and a row with two matches comes out of the join twice. If there is a clause
# for matched rows Spark reports an error then. If the only clause for rows of the table is NOT MATCHED BY SOURCE it
# does not, and would copy the row twice. Such plans are changed here: if nothing is inserted, the join becomes an
# existence join; else Spark is made to check the cardinality as it does for other clauses.

_CHECK_CARDINALITY: Final = 5  # the index of `checkCardinality` among the arguments of `MergeRows`
_ROW_ID: Final = {"name": "__row_id", "type": "long", "nullable": False, "metadata": {}}  # `MergeRowsExec` reads it
_EXISTS: Final = {"name": "exists", "type": "boolean", "nullable": False, "metadata": {}}


def copy_rows_once(jvm: Jvm, query: Any) -> Any:
    """The plan of the rows that a MERGE writes, changed so that no row of the table is copied twice."""
    above = path_to_node(jvm, "MergeRows", query)
    if not above or above[-1].checkCardinality() or not _only_copies_matched(jvm, above[-1]):
        return query
    merge_rows = above.pop()
    between = path_to_node(jvm, "Join", merge_rows.child())
    if not between or str(between[-1].joinType().sql()) not in ("LEFT OUTER", "FULL OUTER"):
        return query  # the source is empty, so there is no join with it; a join found here applies deletes
    join = between.pop()
    if merge_rows.notMatchedInstructions().isEmpty():
        merge_rows = _with_child(jvm, [merge_rows, *between], _existence_join(jvm, merge_rows, join))
    else:
        merge_rows = _checked_merge(jvm, merge_rows, between, join)
    return _with_child(jvm, above, merge_rows)


def _only_copies_matched(jvm: Jvm, merge_rows: Any) -> bool:
    """Whether matched rows are copied and nothing else is done with them."""
    matched = jvm.read_seq(merge_rows.matchedInstructions())
    return len(matched) == 1 and jvm.simple_name(matched[0]) == "Keep"


def _with_child(jvm: Jvm, nodes: list[Any], child: Any) -> Any:
    """The nodes, which have one child each and are listed from the top, above another child."""
    return functools.reduce(lambda plan, node: node.withNewChildren(jvm.seq([plan])), reversed(nodes), child)


def _existence_join(jvm: Jvm, merge_rows: Any, join: Any) -> Any:
    """The table's rows with the source's columns as null, except for the one that says whether there is a match."""
    plans, expressions = Plans(jvm), Expressions(jvm)
    (exists,) = plans.attributes({"type": "struct", "fields": [_EXISTS]})
    presence = merge_rows.isSourceRowPresent().references()
    columns = plans.output(join.left())
    for attribute in plans.output(join.right()):
        value = expressions.null(attribute.dataType())
        if presence.contains(attribute):
            value = expressions.create("If", exists, expressions.literal("true"), value)
        columns.append(expressions.alias(value, attribute))
    condition = join.condition().get() if join.condition().isDefined() else expressions.literal("true")
    existence_join = plans.existence_join(join.left(), join.right(), condition, exists)
    return plans.project(columns, existence_join)


def _checked_merge(jvm: Jvm, merge_rows: Any, between: list[Any], join: Any) -> Any:
    """The `MergeRows` node with a row id for the table's rows, by which Spark detects a second match."""
    plans, expressions = Plans(jvm), Expressions(jvm)
    (row_id,) = plans.attributes({"type": "struct", "fields": [_ROW_ID]})
    increasing = expressions.alias(expressions.create("MonotonicallyIncreasingID"), row_id)
    plan = plans.join_without_replication(join, plans.project([*plans.output(join.left()), increasing], join.left()))
    for node in reversed(between):
        plan = plans.project([*jvm.read_seq(node.projectList()), row_id], plan)
    return plans.copy_node(merge_rows, {_CHECK_CARDINALITY: True}).withNewChildren(jvm.seq([plan]))
