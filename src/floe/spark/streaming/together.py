"""Rows of an epoch brought together by partition before they are written, so that each partition gets one file.

Spark does not adapt the plans of streams to what they read, so there are as many tasks as the cluster runs at a time.
"""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.jvm import Jvm
from floe.spark.write.planned import brought_together
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.transforms import Void

__all__ = ["with_partitions_together"]


def with_partitions_together(jvm: Jvm, query: Any, metadata: TableMetadata, mode: str) -> Any:
    """An optimized query with the rows of each partition in one task; the query itself if that is not asked for."""
    if mode == "none" or jvm.simple_name(query) == "RepartitionByExpression" or not _has_sources(jvm, query, metadata):
        return query
    above = brought_together(jvm, query, metadata, "hash", 1)
    if jvm.simple_name(above) != "RebalancePartitions":
        return query
    made = jvm.module("org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression")
    return made.apply(above.partitionExpressions(), query, jvm.context.defaultParallelism)


def _has_sources(jvm: Jvm, query: Any, metadata: TableMetadata) -> bool:
    """Whether the rows have the columns by which the table is partitioned; a stream may leave some out."""
    given = {field["name"].lower() for field in jvm.read_data_type(query.schema())["fields"]}
    sources = [
        metadata.schema.entry(field.source_id).path[0]
        for field in metadata.spec.fields
        if not isinstance(field.transform, Void)
    ]
    return bool(sources) and all(name.lower() in given for name in sources)
