"""Reads of the rows that a statement may change.

Where files are written anew, all rows of a file are read once one of them may change, and Spark first finds out which
files that are: it runs the condition alone, and hands over the files' names (`_file IN (…)`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

from floe.plan.scan_plan import ScanPlan
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.predicates import read_conditions
from floe.spark.bridge.proxies import Proxy
from floe.spark.row_level.statement import Statement
from floe.spark.scan.builder import TableScanBuilder
from floe.spark.scan.files import PlannedFiles
from floe.spark.scan.predicates import translate
from floe.spark.scan.pushed import NOTHING_PUSHED, Pushed
from floe.spark.scan.scan import TableScan
from floe.spec.expressions.binding import bind_predicate
from floe.spec.expressions.nodes import FALSE, TRUE, BoundPredicate, BoundReference, Expression, Op, and_, or_
from floe.spec.schemas.metadata_columns import FILE
from floe.spec.schemas.schema import Schema

__all__ = ["RowLevelScan", "RowLevelScanBuilder"]

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
