"""Writes of a statement: Spark's plan for them becomes one that Python tasks can carry out.

Spark plans a statement as a write of single rows, or of files anew, which only writers in Java can do. Before it is
executed the rule of `floe.spark.bridge.rules` puts a plain append in its place, with the same query, and tasks of ours.

Rows of a statement brought together before they are written, so that a small one makes few files.

`write.delete.distribution-mode`, `write.update.distribution-mode` and `write.merge.distribution-mode` say how: `none`,
by the partitions that rows go to (`hash`, the default) or by the sort order (`range`). Rows that a DELETE copies come
file by file already, and what it deletes is only noted, so by default they stay where they are.

A MERGE that writes files anew copies each row once, however often its source matches it.

Spark joins the table with the source, and a row that matches twice comes out of the join twice. It refuses that where
a clause is for matched rows. If there is only one for NOT MATCHED BY SOURCE it does not, and copies the row twice. So
such a plan is put in another way here: where nothing is inserted, the join only asks whether there is a match; where
something is, Spark is told to refuse as it does elsewhere.

Reads of the rows that a statement may change.

Where files are written anew, all rows of a file are read once one of them may change, and Spark first finds out which
files that are: it runs the condition alone, and hands over the files' names (`_file IN (…)`).

Statements as Spark's analyzer meets them: how rows are told apart, and which metadata columns are needed.

`write.delete.mode`, `write.update.mode` and `write.merge.mode` say whether files are written anew (`copy-on-write`, the
default) or rows deleted where they are and written elsewhere (`merge-on-read`).
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
from floe.spark.bridge.plans import Expressions, Plans, append_data, with_table
from floe.spark.bridge.proxies import Proxy
from floe.spark.bridge.rules import Rewritable
from floe.spark.bridge.values import read_conditions
from floe.spark.executors import executor_metadata
from floe.spark.read.builder import TableScanBuilder
from floe.spark.read.filters import translate
from floe.spark.read.scan import TableScan
from floe.spark.read.source import NOTHING_PUSHED, PlannedFiles, Pushed
from floe.spark.write.distribution import distributed, put_above, rebalanced
from floe.spark.write.insert import OwnReads, own_reads
from floe.spark.write.retries import noting_conflicts
from floe.spark.write.row_level import Statement, clauses_of, down_to
from floe.spark.write.row_level_commit import commit, told_by_spark
from floe.spark.write.tasks import WriteTasks
from floe.spark.write.worker import ChangeRows, Layout, TaskResult
from floe.spec.expressions.binding import bind_predicate
from floe.spec.expressions.nodes import FALSE, TRUE, BoundPredicate, BoundReference, Expression, Op, and_, or_
from floe.spec.manifests.entries import DataFile
from floe.spec.properties import DISTRIBUTION_MODES
from floe.spec.schemas.metadata_columns import FILE, LAST_UPDATED_SEQUENCE_NUMBER, POS, ROW_ID
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field

# Rows of a statement brought together before they are written, so that a small one makes few files.


def arranged(jvm: Jvm, query: Any, statement: Statement) -> Any:
    """The optimized plan of the rows, with a shuffle above it where that makes fewer files."""
    mode = _mode(statement)
    columns = len(statement.base.schema.fields)
    only_deletes = statement.kind == "delete" and not statement.copies
    if only_deletes or mode == "none":
        return query
    size = statement.base.target.file_bytes

    def together(rows: DataFrame) -> DataFrame:
        made = distributed(jvm, rows, statement.base.metadata, mode, size)
        if made is rows and not statement.copies:
            return rebalanced(jvm, rows, [], size)  # a few changed rows of each of many tasks
        return made

    return put_above(jvm, query, query.output().slice(1, 1 + columns), together)


def _mode(statement: Statement) -> str:
    mode = DISTRIBUTION_MODES[statement.kind].read(statement.base.target.properties)
    if mode is not None:
        return mode
    mixed = len(statement.base.metadata.partition_specs) > 1
    return "none" if statement.kind == "delete" and not mixed else "hash"


# A MERGE that writes files anew copies each row once, however often its source matches it.

_CHECKS_CARDINALITY: Final = 5  # the place of `checkCardinality` among the parts of `MergeRows`
_NUMBER: Final = {"name": "__row_id", "type": "long", "nullable": False, "metadata": {}}  # as `MergeRowsExec` has it
_EXISTS: Final = {"name": "exists", "type": "boolean", "nullable": False, "metadata": {}}


def copied_once(jvm: Jvm, query: Any) -> Any:
    """The plan of the rows that a MERGE writes, in which no row of the table is copied twice."""
    above = down_to(jvm, "MergeRows", query)
    if not above or above[-1].checkCardinality() or not _copies_matched(jvm, above[-1]):
        return query
    rows = above.pop()
    below = down_to(jvm, "Join", rows.child())
    if not below or str(below[-1].joinType().sql()) not in ("LEFT OUTER", "FULL OUTER"):
        return query  # the source has no rows, so that nothing is joined, but perhaps with deletes
    join = below.pop()
    if rows.notMatchedInstructions().isEmpty():
        rows = _above(jvm, [rows, *below], _asked_for_a_match(jvm, rows, join))
    else:
        rows = _numbered(jvm, rows, below, join)
    return _above(jvm, above, rows)


def _copies_matched(jvm: Jvm, rows: Any) -> bool:
    """Whether nothing else is done with matched rows."""
    matched = jvm.read_seq(rows.matchedInstructions())
    return len(matched) == 1 and jvm.simple_name(matched[0]) == "Keep"


def _above(jvm: Jvm, nodes: list[Any], plan: Any) -> Any:
    """A plan below nodes of which each had one child."""
    return functools.reduce(lambda child, node: node.withNewChildren(jvm.seq([child])), reversed(nodes), plan)


def _asked_for_a_match(jvm: Jvm, rows: Any, join: Any) -> Any:
    """The table's rows, and the columns of the source as null, but for the one that says that there is a match."""
    plans, expressions = Plans(jvm), Expressions(jvm)
    (exists,) = plans.attributes({"type": "struct", "fields": [_EXISTS]})
    told = rows.isSourceRowPresent().references()
    columns = plans.output(join.left())
    for one in plans.output(join.right()):
        value = expressions.null(one.dataType())
        if told.contains(one):
            value = expressions.create("If", exists, expressions.literal("true"), value)
        columns.append(expressions.alias(value, one))
    condition = join.condition().get() if join.condition().isDefined() else expressions.literal("true")
    asked = plans.existence_join(join.left(), join.right(), condition, exists)
    return plans.project(columns, asked)


def _numbered(jvm: Jvm, rows: Any, between: list[Any], join: Any) -> Any:
    """The same with numbers of the table's rows, so that Spark sees one that matches again."""
    plans, expressions = Plans(jvm), Expressions(jvm)
    (number,) = plans.attributes({"type": "struct", "fields": [_NUMBER]})
    counted = expressions.alias(expressions.create("MonotonicallyIncreasingID"), number)
    plan = plans.join_in_place(join, plans.project([*plans.output(join.left()), counted], join.left()))
    for node in reversed(between):
        plan = plans.project([*jvm.read_seq(node.projectList()), number], plan)
    return plans.copied(rows, {_CHECKS_CARDINALITY: True}).withNewChildren(jvm.seq([plan]))


MakeTable = Callable[[], Proxy]


class _Planned(Write, Rewritable):
    """A write as Spark plans it; it is never executed."""

    def __init__(self, jvm: Jvm, statement: Statement, table: MakeTable) -> None:
        super().__init__(jvm)
        self._statement, self._table = statement, table

    def title(self) -> str:
        """What plans show."""
        return str(self._statement)

    def description(self) -> str:
        """The table and what happens to it, in words."""
        return str(self._statement)

    def rewritten(self, node: Any) -> Any:
        """The same with tasks of ours."""
        if self.jvm.simple_name(node) not in ("WriteDelta", "ReplaceData"):
            return node
        self._statement.files.clear()  # what is read counts from here on
        if self._statement.kind == "merge":
            self._statement.clauses = clauses_of(self.jvm, node.query())
        query = self._needed(node.query())
        branch = self._statement.target.branch
        others = own_reads(self.jvm, query, self._statement.table, branch, [self._statement.source])
        work = ChangedRows(self.jvm, self._statement, query.schema(), others)
        relation = with_table(self.jvm, node.originalTable(), self._table())
        return append_data(self.jvm, relation, arranged(self.jvm, query, self._statement), work)

    def _needed(self, query: Any) -> Any:
        """What tasks look at: where files are written anew, not the names of the old ones."""
        if not self._statement.copies:
            return query
        plans, columns = Plans(self.jvm), len(self._statement.base.schema.fields)
        query = copied_once(self.jvm, query)
        output = plans.output(query)
        kept = [one for place, one in enumerate(output) if place <= columns or one.name() != FILE.name]
        return plans.project(kept, query)


class PlannedDelta(_Planned, DeltaWrite):
    """A write of single rows."""


class DeltaRowsBuilder(DeltaWriteBuilder):
    """Puts a write of single rows together."""

    def __init__(self, jvm: Jvm, statement: Statement, table: MakeTable) -> None:
        super().__init__(jvm)
        self._statement, self._table = statement, table

    def build(self) -> Any:
        """The write."""
        return PlannedDelta(self.jvm, self._statement, self._table)


class ReplacingBuilder(WriteBuilder):
    """Puts a write of whole files together."""

    def __init__(self, jvm: Jvm, statement: Statement, table: MakeTable) -> None:
        super().__init__(jvm)
        self._statement, self._table = statement, table

    def build(self) -> Any:
        """The write."""
        return _Planned(self.jvm, self._statement, self._table)


class ChangedRows(Write, BatchWrite):
    """The write that is executed."""

    def __init__(self, jvm: Jvm, statement: Statement, schema: Any, others: OwnReads) -> None:
        super().__init__(jvm)
        self._statement, self._schema, self._others = statement, schema, others
        self._tasks = WriteTasks(jvm, statement.table.storage, _written_files)

    def title(self) -> str:
        """What plans show."""
        return str(self._statement)

    def description(self) -> str:
        """The table and what happens to it, in words."""
        return str(self._statement)

    def toBatch(self) -> Any:
        """The write itself."""
        return self

    def createBatchWriterFactory(self, info: Any) -> Any:
        """What takes the rows of a task, in an executor."""
        statement = self._statement
        names = [field["name"] for field in self.jvm.read_data_type(self._schema)["fields"]]
        work = ChangeRows(
            executor_metadata(statement.base.metadata),
            statement.table.storage,
            str(uuid.uuid4()),
            dict(statement.options.overrides),
            _layout(names, statement),
            statement.keeps_lineage,
        )
        return self._tasks.factory(work, self._schema, statement.base.schema)

    def commit(self, messages: Any, *summary: Any) -> None:
        """Make one change of what all tasks did."""
        told = told_by_spark(self.jvm, self._statement.kind, summary)
        with noting_conflicts(self.jvm, self._statement.table):
            results = _unpickled(self._tasks.results(messages))
            commit(self._statement, results, self._others, told, tells_copies=self.jvm.version >= (4, 2))

    def abort(self, messages: Any) -> None:
        """Delete the files of the tasks that had finished; a commit does so itself, unless it may have been made."""
        self._tasks.discard(messages)


def _unpickled(messages: Iterable[bytes]) -> list[TaskResult]:
    return [pickle.loads(message) for message in messages]


def _written_files(messages: Iterable[bytes]) -> list[DataFile]:
    return [file for result in _unpickled(messages) for file in result.files]


def _layout(names: list[str], statement: Statement) -> Layout:
    """Where things are: what is done, the table's columns unless rows only go, and metadata columns after them."""
    only_deletes = statement.kind == "delete" and not statement.copies
    columns = 0 if only_deletes else len(statement.base.schema.fields)
    after = {name: place for place, name in enumerate(names) if place > columns}
    file, position = (None, None) if statement.copies else (after[FILE.name], after[POS.name])
    return Layout(columns, file, position, after.get(ROW_ID.name), after.get(LAST_UPDATED_SEQUENCE_NUMBER.name))


# Reads of the rows that a statement may change.

_REFERENCE: Final = "org.apache.spark.sql.connector.expressions.NamedReference"


class RowLevelScanBuilder(TableScanBuilder):
    """Puts such a read together."""

    def __init__(self, jvm: Jvm, statement: Statement) -> None:
        super().__init__(jvm, statement.source)
        self._statement = statement

    def pushPredicates(self, predicates: Any) -> Any:
        """Leave out files; Spark checks all rows, for those that do not pass may have to be copied."""
        super().pushPredicates(predicates)
        return predicates

    def pushLimit(self, limit: int) -> bool:
        """All rows are needed."""
        return False

    def pushAggregation(self, aggregation: Any) -> bool:
        """Rows are needed, not numbers."""
        return False

    def build(self) -> Any:
        """The read."""
        return RowLevelScan(self.jvm, self._statement, self._wanted, self._pushed)


class RowLevelScan(TableScan):
    """The rows that a statement may change."""

    def __init__(self, jvm: Jvm, statement: Statement, wanted: Schema, pushed: Pushed) -> None:
        super().__init__(jvm, statement.source, wanted, pushed=pushed)
        self._statement = statement
        self._files: frozenset[str] | None = None
        statement.looked_at[id(self)] = pushed.where

    @property
    def pushed(self) -> Pushed:
        """A file that is written anew is read as a whole."""
        return NOTHING_PUSHED if self._statement.copies else super().pushed

    def key(self) -> Any:
        """Never the same as another read: the statement has to know what this one reads."""
        return self._number

    @cached_property
    def _plan(self) -> ScanPlan:
        plan = self._source.plan(and_(self.looked_at, self._runtime))
        return plan if self._files is None else plan.only(self._files)

    def began(self, part: Proxy, files: PlannedFiles) -> None:
        """The statement has to know what is read; the last answer counts."""
        self._statement.files[id(part)] = files

    def filterAttributes(self) -> Any:
        """Files that are not written anew had better not be read; else what helps a join."""
        if self._statement.copies:
            if not self._statement.reads_what_others_read:
                return self.jvm.array(_REFERENCE, [])
            return self.jvm.array(_REFERENCE, [self.jvm.sql("connector.expressions.Expressions").column(FILE.name)])
        if self._statement.kind != "merge":
            return self.jvm.array(_REFERENCE, [])
        return super().filterAttributes()

    def filter(self, predicates: Any) -> None:
        """Plan again with what the query has found out."""
        conditions = read_conditions(self.jvm, predicates)
        if not self._statement.copies:
            found = translate(conditions, self._source.schema)
            self.told(and_(*(_or_null(one.filter) for one in found)))
            return
        for wanted in translate(conditions, Schema((FILE,))):
            if wanted.filter != TRUE:
                files = _files(wanted.filter)
                self._files = files if self._files is None else self._files & files
                vars(self).pop("_plan", None)


def _or_null(found: Expression) -> Expression:
    """The same, or null: Spark chooses groups of rows by `IN`, and means a null in the list to stand for itself."""
    if isinstance(found, BoundPredicate) and isinstance(found.term, BoundReference):
        return or_(found, bind_predicate(Op.IS_NULL, found.term))
    return TRUE


def _files(found: Expression) -> frozenset[str]:
    """The files that `_file IN (…)` names."""
    if found == FALSE:
        return frozenset()
    assert isinstance(found, BoundPredicate)
    return frozenset(str(literal) for literal in found.literals)


# Statements as Spark's analyzer meets them: how rows are told apart, and which metadata columns are needed.


class OperationBuilder(RowLevelOperationBuilder):
    """Makes the operation of a statement; `table` makes the table that tasks write to."""

    def __init__(self, jvm: Jvm, statement: Statement, command: Any, table: MakeTable) -> None:
        super().__init__(jvm)
        self._statement, self._command, self._table = statement, command, table

    def build(self) -> Any:
        """The operation."""
        kind = Replacing if self._statement.copies else Deleting
        return kind(self.jvm, self._statement, self._command, self._table)


class _Operation(RowLevelOperation):
    """What both kinds share."""

    def __init__(self, jvm: Jvm, statement: Statement, command: Any, table: MakeTable) -> None:
        super().__init__(jvm)
        self._statement, self._command, self._table = statement, command, table

    def title(self) -> str:
        """What plans show."""
        return str(self._statement)

    def description(self) -> str:
        """What EXPLAIN says about it."""
        return str(self._statement)

    def command(self) -> Any:
        """DELETE, UPDATE or MERGE."""
        return self._command

    def newScanBuilder(self, options: Any) -> Any:
        """A read of the rows that may change."""
        return RowLevelScanBuilder(self.jvm, self._statement)

    def _columns(self, fields: Iterable[Field]) -> Any:
        expressions = self.jvm.sql("connector.expressions.Expressions")
        kind = "org.apache.spark.sql.connector.expressions.NamedReference"
        return self.jvm.array(kind, [expressions.column(field.name) for field in fields])


class Replacing(_Operation):
    """Files with changed rows are written anew."""

    def newWriteBuilder(self, info: Any) -> Any:
        """A write of the rows of these files."""
        return ReplacingBuilder(self.jvm, self._statement, self._table)

    def requiredMetadataAttributes(self) -> Any:
        """The file, by which Spark tells files without changed rows; and what rows keep when they are moved."""
        lineage = (ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER) if self._statement.keeps_lineage else ()
        return self._columns((FILE, *lineage))


class Deleting(_Operation, SupportsDelta):
    """Rows are deleted where they are; changed ones are written elsewhere."""

    def newWriteBuilder(self, info: Any) -> Any:
        """A write of the changed rows."""
        return DeltaRowsBuilder(self.jvm, self._statement, self._table)

    def rowId(self) -> Any:
        """Where a row is."""
        return self._columns((FILE, POS))

    def requiredMetadataAttributes(self) -> Any:
        """What rows keep when they are moved: when they were changed is told by the commit."""
        return self._columns((ROW_ID,) if self._statement.keeps_lineage else ())
