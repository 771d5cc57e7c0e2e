"""ANALYZE TABLE: different values are counted; rows and sizes need no counting, as metadata has them at all times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from floe.errors import UnsupportedFeature
from floe.spark.bridge.commands import own_command
from floe.spark.bridge.interfaces.commands import ExternalCommandRunner
from floe.spark.bridge.jvm import Jvm
from floe.spark.counting import compute_statistics
from floe.table.table import Table

__all__ = ["analysis"]


class ColumnCounter(ExternalCommandRunner):
    """Counts the different values of columns; of none, if Spark asks only for what metadata has."""

    def __init__(
        self, jvm: Jvm, table: Table, snapshot: int | None, columns: Sequence[str] | None, *, is_counted: bool
    ) -> None:
        super().__init__(jvm)
        self._table, self._snapshot, self._columns, self._is_counted = table, snapshot, columns, is_counted

    def executeCommand(self, command: str, options: Any) -> Any:
        """Count them; there is nothing to be told."""
        if self._is_counted:
            compute_statistics(self.jvm, self._table, self._columns, snapshot=self._snapshot)
        return self.jvm.strings([])


def analysis(jvm: Jvm, name: str, table: Table, snapshot: int | None, node: Any) -> Any:
    """The command in the place of Spark's node, which Spark itself carries out only for tables of its own."""
    columns: Sequence[str] | None = None
    is_counted = jvm.simple_name(node) == "AnalyzeColumn"
    if is_counted:
        columns = None if node.allColumns() else jvm.read_seq(node.columnNames().get())
    elif not node.partitionSpec().isEmpty():
        raise UnsupportedFeature(
            "ANALYZE TABLE does not take a PARTITION: rows and sizes of partitions are in the metadata at all times",
            hint=f"leave it out, or SELECT * FROM {name}.partitions",
            table=name,
        )
    what = "rows and size, as metadata has them" if not is_counted else ", ".join(columns or ["all columns"])
    counter = ColumnCounter(jvm, table, snapshot, columns, is_counted=is_counted)
    return own_command(jvm, counter, f"ANALYZE TABLE {name}: {what}")
