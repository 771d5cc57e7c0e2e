"""`register_table`: a table of a metadata file that is there.

`compute_table_stats`: how many different values columns have, for the optimizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from floe.errors import InvalidInput
from floe.spark.bridge.values import ARRAY_OF_TEXTS
from floe.spark.catalog.analyze import compute_statistics
from floe.spark.procedures.procedure import Column, Context, Parameter, Procedure, required_text


class RegisterTable(Procedure):
    """`register_table`."""

    name = "register_table"
    description = "makes a table of a metadata file that is there"
    parameters = (
        Parameter("table", "string", comment="the new table's name, as 'db.t'"),
        Parameter("metadata_file", "string", comment="where the metadata file is"),
    )
    output = (
        Column("current_snapshot_id", "long"),
        Column("total_records_count", "long"),
        Column("total_data_files_count", "long"),
    )

    def call(self, context: Context, **arguments: Any) -> Iterable[Sequence[Any]]:
        """Register it."""
        name = context.identifier(required_text("table", arguments["table"]))
        table = context.lake.register_table(name, required_text("metadata_file", arguments["metadata_file"]))
        current = table.current_snapshot
        if current is None:
            return [(None, None, None)]
        summary = current.summary or {}
        return [(current.snapshot_id, *(_number(summary.get(f"total-{what}")) for what in ("records", "data-files")))]


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


# `compute_table_stats`: how many different values columns have, for the optimizer.


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
