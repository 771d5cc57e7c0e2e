"""Rows brought together inside a plan that Spark carries out itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import Plans
from floe.spark.write.distribution import distributed
from floe.spec.metadata.table_metadata import TableMetadata

__all__ = ["brought_together", "put_above"]

_TOGETHER: Final = ("RebalancePartitions", "RepartitionByExpression")


def brought_together(jvm: Jvm, query: Any, metadata: TableMetadata, mode: str, file_bytes: int) -> Any:
    """An optimized query whose tasks have about a file's worth of rows each; if it is such a query, the same."""
    if jvm.simple_name(query) in _TOGETHER:
        return query
    return put_above(jvm, query, query.output(), lambda like: distributed(jvm, like, metadata, mode, file_bytes))


def put_above(jvm: Jvm, query: Any, columns: Any, arrange: Callable[[DataFrame], DataFrame]) -> Any:
    """An optimized query below what a function puts upon a data frame of these columns; the query itself if nothing.

    The plan is optimized already, so the expressions are made upon an empty relation with the same columns.
    """
    like = jvm.data_frame(SparkSession(jvm.context, jvm.active_session()), Plans(jvm).local(columns))
    made = arrange(like)
    if made is like:
        return query
    above = made._jdf.queryExecution().analyzed()
    simplified = jvm.module("org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions").apply(above)
    return simplified.withNewChildren(jvm.seq([query]))
