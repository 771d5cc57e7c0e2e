"""Writes of tables, whether they are there or being made."""

from __future__ import annotations

from typing import Any, Final

from floe.spark.bridge.jvm import Jvm
from floe.spark.write.builder import TableWriteBuilder
from floe.spark.write.options import write_options
from floe.table.table import Table
from floe.table.transaction import Transaction

__all__ = ["WRITE_CAPABILITIES", "write_builder"]

WRITE_CAPABILITIES: Final = (
    "BATCH_WRITE", "V1_BATCH_WRITE", "STREAMING_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC",
)  # fmt: skip


def write_builder(
    jvm: Jvm, name: str, target: Table | Transaction, info: Any, branch: str | None = None
) -> TableWriteBuilder:
    """A write of what Spark describes."""
    given = {key.lower(): value for key, value in jvm.read_map(info.options().asCaseSensitiveMap()).items()}
    options = write_options(jvm, given, target.metadata, branch)
    return TableWriteBuilder(jvm, name, target, options, info.schema(), info.queryId())
