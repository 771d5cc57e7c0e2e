"""Statements as Spark's analyzer meets them: how rows are told apart, and which metadata columns are needed.

`write.delete.mode`, `write.update.mode` and `write.merge.mode` say whether files are written anew (`copy-on-write`, the
default) or rows deleted where they are and written elsewhere (`merge-on-read`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from floe.spark.bridge.interfaces.row_level import RowLevelOperation, RowLevelOperationBuilder, SupportsDelta
from floe.spark.bridge.jvm import Jvm
from floe.spark.row_level.reading import RowLevelScanBuilder
from floe.spark.row_level.statement import Statement
from floe.spark.row_level.writing import DeltaRowsBuilder, MakeTable, ReplacingBuilder
from floe.spec.schemas.metadata_columns import FILE, LAST_UPDATED_SEQUENCE_NUMBER, POS, ROW_ID
from floe.spec.types import Field

__all__ = ["OperationBuilder"]


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
