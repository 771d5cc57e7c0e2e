"""`register_table`: a table of a metadata file that is there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from floe.spark.procedures.procedure import Column, Context, Parameter, Procedure, required_text

__all__ = ["RegisterTable"]


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
