"""Rows of a statement brought together before they are written, so that a small one makes few files.

`write.delete.distribution-mode`, `write.update.distribution-mode` and `write.merge.distribution-mode` say how: `none`,
by the partitions that rows go to (`hash`, the default) or by the sort order (`range`). Rows that a DELETE copies come
file by file already, and what it deletes is only noted, so by default they stay where they are.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from floe.errors import InvalidUpdate
from floe.spark.bridge.jvm import Jvm
from floe.spark.row_level.statement import Statement
from floe.spark.write.distribution import distributed, rebalanced
from floe.spark.write.planned import put_above

__all__ = ["arranged"]

_MODES = ("none", "hash", "range")


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
    name = f"write.{statement.kind}.distribution-mode"
    found = statement.base.target.properties.get(name)
    if found is None:
        mixed = len(statement.base.metadata.partition_specs) > 1
        return "none" if statement.kind == "delete" and not mixed else "hash"
    if found.strip().lower() not in _MODES:
        raise InvalidUpdate(f"{found[:80]!r} is no value of {name}", hint=f"use {' or '.join(_MODES)}", property=name)
    return found.strip().lower()
