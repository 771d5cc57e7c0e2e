"""Rows brought together inside a plan that Spark carries out itself."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

from floe.spark.bridge.jvm import Jvm
from floe.spark.write.distribution import distributed
from floe.spec.metadata.table_metadata import TableMetadata

__all__ = ["brought_together"]

_TOGETHER: Final = ("RebalancePartitions", "RepartitionByExpression")


def brought_together(jvm: Jvm, query: Any, metadata: TableMetadata, mode: str, file_bytes: int) -> Any:
    """An optimized query whose tasks have about a file's worth of rows each; if it is such a query, the same.

    What groups the rows is worked out on an empty relation with the query's columns, and then put above the query.
    """
    if jvm.simple_name(query) in _TOGETHER:
        return query
    spark = SparkSession(jvm.context, jvm.active_session())
    empty = jvm.data_frame(
        spark,
        jvm.named("org.apache.spark.sql.catalyst.plans.logical.LocalRelation")(
            query.output(), jvm.seq([]), False, jvm.none
        ),
    )
    above = distributed(jvm, empty, metadata, mode, file_bytes)._jdf.queryExecution().analyzed()
    if jvm.simple_name(above) not in _TOGETHER:
        return query
    simplified = jvm.module("org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions").apply(above)
    return simplified.withNewChildren(jvm.seq([query]))
