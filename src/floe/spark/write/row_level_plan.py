"""Writes of a statement: Spark's plan for them becomes one that Python tasks can carry out.

Spark plans a statement as a write of single rows, or of files anew, which only writers in Java can do. Before it is
executed the rule of `floe.spark.bridge.rules` puts a plain append in its place, with the same query, and tasks of ours.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable
from typing import Any

from floe.formats.writers.rolling import discard
from floe.spark.bridge.commands import append_data, with_table
from floe.spark.bridge.interfaces.row_level import DeltaWrite, DeltaWriteBuilder
from floe.spark.bridge.interfaces.writes import BatchWrite, Write, WriteBuilder
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import Plans
from floe.spark.bridge.proxies import Proxy
from floe.spark.bridge.rules import Rewritable
from floe.spark.row_level.arranging import arranged
from floe.spark.row_level.clauses import clauses_of
from floe.spark.row_level.committing import commit
from floe.spark.row_level.copied_once import copied_once
from floe.spark.row_level.counting import told_by_spark
from floe.spark.row_level.retrying import noting_conflicts
from floe.spark.row_level.statement import Statement
from floe.spark.row_level.worker import ChangeRows, Layout, TaskResult
from floe.spark.scan.own_reads import OwnReads, own_reads
from floe.spark.shipping import shipped
from floe.spark.write.python_writer import PythonTasks
from floe.spec.schemas.metadata_columns import FILE, LAST_UPDATED_SEQUENCE_NUMBER, POS, ROW_ID
from floe.table.committing import branch_of

__all__ = ["DeltaRowsBuilder", "ReplacingBuilder"]

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
        branch = branch_of(self._statement.actions)
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
        self._committing, self._tasks = False, PythonTasks(jvm)

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
            shipped(statement.base.metadata),
            statement.table.storage,
            str(uuid.uuid4()),
            dict(statement.options.overrides),
            _layout(names, statement),
            statement.keeps_lineage,
        )
        return self._tasks.factory(work, self._schema, statement.base.schema)

    def commit(self, messages: Any, *summary: Any) -> None:
        """Make one change of what all tasks did."""
        self._committing = True
        told = told_by_spark(self.jvm, self._statement.kind, summary)
        with noting_conflicts(self.jvm, self._statement.table):
            results, tells_copies = self._results(messages), self.jvm.version >= (4, 2)
            commit(self._statement, results, self._others, told, tells_copies=tells_copies)

    def abort(self, messages: Any) -> None:
        """Delete the files of the tasks that had finished; a commit does so itself, unless it may have been made."""
        if self._committing:
            return
        files = [file.file_path for result in self._results(messages) for file in result.files]
        discard(self._statement.table.storage, files)

    def _results(self, messages: Any) -> list[TaskResult]:
        return [pickle.loads(message) for message in self._tasks.said(messages)]


def _layout(names: list[str], statement: Statement) -> Layout:
    """Where things are: what is done, the table's columns unless rows only go, and metadata columns after them."""
    only_deletes = statement.kind == "delete" and not statement.copies
    columns = 0 if only_deletes else len(statement.base.schema.fields)
    after = {name: place for place, name in enumerate(names) if place > columns}
    file, position = (None, None) if statement.copies else (after[FILE.name], after[POS.name])
    return Layout(columns, file, position, after.get(ROW_ID.name), after.get(LAST_UPDATED_SEQUENCE_NUMBER.name))
