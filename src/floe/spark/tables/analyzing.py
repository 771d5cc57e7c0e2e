"""ANALYZE: different values of columns are counted; rows and sizes are not, as metadata has them at all times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from floe.errors import UnsupportedFeature
from floe.spark.bridge.commands import own_command
from floe.spark.bridge.interfaces.commands import ExternalCommandRunner
from floe.spark.bridge.jvm import Jvm
from floe.spark.counting import compute_statistics
from floe.table.table import Table

__all__ = ["analysis", "analysis_of_all"]


class Analysis(ExternalCommandRunner):
    """Counts what has to be counted, when Spark executes the command."""

    def __init__(self, jvm: Jvm, count: Callable[[], object] | None = None) -> None:
        super().__init__(jvm)
        self._count = count

    def executeCommand(self, command: str, options: Any) -> Any:
        """Count it; there is nothing to be told."""
        if self._count is not None:
            self._count()
        return self.jvm.strings([])


def analysis(jvm: Jvm, name: str, table: Table, snapshot: int | None, node: Any) -> Any:
    """The command in the place of ANALYZE TABLE, which Spark itself carries out only for tables of its own."""
    if jvm.simple_name(node) == "AnalyzeTable":
        if not node.partitionSpec().isEmpty():
            raise UnsupportedFeature(
                "ANALYZE TABLE does not take a PARTITION: rows and sizes of partitions are in metadata at all times",
                hint=f"leave it out, or SELECT * FROM {name}.partitions",
                table=name,
            )
        return own_command(jvm, Analysis(jvm), f"ANALYZE TABLE {name}: rows and size, as metadata has them")
    columns: Sequence[str] | None = None if node.allColumns() else jvm.read_seq(node.columnNames().get())
    counter = Analysis(jvm, lambda: compute_statistics(jvm, table, columns, snapshot=snapshot))
    return own_command(jvm, counter, f"ANALYZE TABLE {name}: {', '.join(columns or ['all columns'])}")


def analysis_of_all(jvm: Jvm, namespace: str) -> Any:
    """The command in the place of ANALYZE TABLES, which is about rows and sizes alone."""
    return own_command(jvm, Analysis(jvm), f"ANALYZE TABLES IN {namespace}: rows and sizes, as metadata has them")
