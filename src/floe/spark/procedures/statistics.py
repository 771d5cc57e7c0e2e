"""`compute_table_stats`: how many different values columns have, for the optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from floe.errors import InvalidInput
from floe.spark.bridge.values import ARRAY_OF_TEXTS
from floe.spark.counting import compute_statistics
from floe.spark.procedures.procedure import Column, Context, Parameter, Procedure

__all__ = ["ComputeTableStats"]


class ComputeTableStats(Procedure):
    """`compute_table_stats`."""

    name = "compute_table_stats"
    description = "counts the different values of columns, about, and writes a statistics file"
    parameters = (
        Parameter("table", "string", comment="the table, as 'db.t'"),
        Parameter("snapshot_id", "long", "NULL", "by default the current one"),
        Parameter("columns", ARRAY_OF_TEXTS, "NULL", "by default all that have single values"),
    )
    output = (Column("statistics_file", "string"),)

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Count them; without rows there is no file."""
        columns = arguments["columns"]
        if columns is not None and not (columns and all(columns)):
            raise InvalidInput(f"columns are names of columns, found {columns}", hint="leave it out for all columns")
        table = context.table(arguments["table"])
        made = compute_statistics(context.jvm, table, columns, snapshot=arguments["snapshot_id"])
        return [] if made is None else [(made.statistics_path,)]
