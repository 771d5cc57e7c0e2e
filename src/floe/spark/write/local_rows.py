"""Few rows that the driver has already, as those of INSERT … VALUES: written there, without a job of Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from floe.spark.bridge.jvm import Jvm

__all__ = ["local_rows"]

_MOST_ROWS: Final = 10_000
_MOST_BYTES: Final = 16 * 2**20


def local_rows(jvm: Jvm, rows: DataFrame) -> list[pa.RecordBatch] | None:
    """The rows as workers would get them, if Spark's optimizer has made the query a few rows; None if it has not."""
    execution: Any = rows._jdf.queryExecution()
    leaves = execution.analyzed().collectLeaves()
    if leaves.size() != 1 or jvm.simple_name(leaves.head()) not in ("LocalRelation", "OneRowRelation"):
        return None  # so that other queries are not optimized in vain
    plan = execution.optimizedPlan()
    if jvm.simple_name(plan) != "LocalRelation":
        return None
    data = plan.data()
    if data.size() > _MOST_ROWS:
        return None
    return list(_batches(jvm, data, rows))


def _batches(jvm: Jvm, data: Any, rows: DataFrame) -> Iterator[pa.RecordBatch]:
    made = jvm.module("org.apache.spark.sql.execution.arrow.ArrowConverters").toBatchWithSchemaIterator(
        data.iterator(), rows._jdf.schema(), _MOST_ROWS, _MOST_BYTES, "UTC", False, False
    )
    while made.hasNext():
        with pa.ipc.open_stream(bytes(made.next())) as stream:
            yield from stream
