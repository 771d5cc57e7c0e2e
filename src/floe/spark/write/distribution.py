"""Distribution of rows before a write, so that each partition of the table gets few files.

The distribution mode is `none`, `hash` (by partition) or `range` (by partition and sort order). `repartition_rows`
adds the shuffle to a data frame, `repartition_query` to an optimized plan that Spark executes itself, and
`repartition_by_partition` to the plan of a streaming epoch.

The partition of a row is computed inside the JVM, by expressions that are equal exactly where the partition is. Spark
chooses the number of tasks: small partitions share a task, and large ones are split.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, functions as F

from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import Plans, murmur3_of_bytes, murmur3_of_long
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.transforms import Bucket, Identity, Transform, Truncate, Void
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import SortDirection, SortOrder
from floe.spec.types import Type

_MICROS_PER_HOUR = 3_600_000_000
_MICROS_PER_DAY = 24 * _MICROS_PER_HOUR
_SHUFFLE_BYTES_PER_FILE_BYTE = 3
"""About how many bytes of Spark's shuffled rows become one byte of a Parquet file."""

_MAX_SHUFFLE_BYTES = 512 * 2**20
"""The most shuffled bytes that a task gets, however large the target file size is."""


def distribution_mode(metadata: TableMetadata, requested: str | None) -> str:
    """The requested mode; by default `range` for a sorted table, `hash` for a partitioned one, else `none`."""
    if requested is not None:
        return requested
    if not metadata.sort_order.is_unsorted:
        return "range"
    return "none" if metadata.spec.is_unpartitioned else "hash"


def repartition_rows(jvm: Jvm, rows: DataFrame, metadata: TableMetadata, mode: str, file_bytes: int) -> DataFrame:
    """Repartition rows so that each task gets about as many as fit into one file; the same rows if nothing is to do."""
    schema = metadata.schema
    partition_columns = [
        _transform_source(jvm, rows, field.transform, field.source_id, schema)
        for field in metadata.spec.fields
        if not isinstance(field.transform, Void)
    ]
    # partition values are the first sort columns, so that the rows of a task are of few partitions
    sort_columns = [column.asc() for column in partition_columns]
    sort_columns += _sort_columns(jvm, rows, metadata.sort_order, schema)
    if mode == "range" and sort_columns:
        return _repartition_by_range(jvm, rows, sort_columns, file_bytes)
    return rebalance_rows(jvm, rows, partition_columns, file_bytes) if mode == "hash" and partition_columns else rows


def rebalance_rows(jvm: Jvm, rows: DataFrame, partition_columns: list[Column], file_bytes: int) -> DataFrame:
    """Repartition rows by some columns; Spark coalesces small partitions, and splits those larger than a file."""
    plan = jvm.sql("catalyst.plans.logical.RebalancePartitions")(
        jvm.seq([jvm.expression(column) for column in partition_columns]),
        rows._jdf.queryExecution().analyzed(),
        jvm.none,
        _advisory_bytes(jvm, file_bytes),
    )
    return jvm.data_frame(rows.sparkSession, plan)


def _repartition_by_range(jvm: Jvm, rows: DataFrame, sort_columns: list[Column], file_bytes: int) -> DataFrame:
    """Repartition rows by ranges of the sort columns, each about as large as a file."""
    plan = jvm.sql("catalyst.plans.logical.RepartitionByExpression")(
        jvm.seq([jvm.expression(column) for column in sort_columns]),
        rows._jdf.queryExecution().analyzed(),
        jvm.none,
        _advisory_bytes(jvm, file_bytes),
    )
    return jvm.data_frame(rows.sparkSession, plan)


def _advisory_bytes(jvm: Jvm, file_bytes: int) -> Any:
    """Spark's advisory partition size for files of a size, as an `Option[Long]`."""
    return jvm.some_long(min(_SHUFFLE_BYTES_PER_FILE_BYTE * file_bytes, _MAX_SHUFFLE_BYTES))


def _sort_columns(jvm: Jvm, rows: DataFrame, order: SortOrder, schema: Schema) -> list[Column]:
    columns = []
    for field in order.fields:
        column = _transform_source(jvm, rows, field.transform, field.source_id, schema)
        columns.append(column.desc() if field.direction is SortDirection.DESC else column.asc())
    return columns


def _transform_source(jvm: Jvm, rows: DataFrame, transform: Transform, source_id: int, schema: Schema) -> Column:
    """An expression on the source column that is equal for two rows exactly if their transformed values are."""
    entry = schema.entry(source_id)
    name, *field_names = entry.path
    column = rows[f"`{name.replace('`', '``')}`"]
    for field_name in field_names:
        column = column.getField(field_name)
    return _apply_transform(jvm, column, transform, entry.field.type)


def _apply_transform(jvm: Jvm, column: Column, transform: Transform, type_: Type) -> Column:
    match transform:
        case Identity():
            return column
        case Bucket(n=count) if type_.kind in ("int", "long", "date", "timestamp", "timestamptz"):
            return _bucket(murmur3_of_long(_as_long(column, type_)), count)
        case Bucket(n=count) if type_.kind in ("string", "binary", "fixed"):
            return _bucket(murmur3_of_bytes(jvm, column), count)
        case Truncate(width=width) if type_.kind in ("int", "long"):
            return column - F.pmod(column, F.lit(width))
        case Truncate(width=width) if type_.kind in ("string", "binary"):
            return F.substring(column, 1, width)
        case _:
            transform_name = str(transform)
    zoned = type_.kind == "timestamptz"
    match transform_name:
        case "year":
            return F.year(column)
        case "month":
            return F.trunc(column, "MM")
        case "day":
            return F.floor(F.unix_micros(column) / _MICROS_PER_DAY) if zoned else F.to_date(column)
        case "hour":
            return F.floor(F.unix_micros(column) / _MICROS_PER_HOUR) if zoned else F.date_trunc("hour", column)
        case _:
            return column


def _as_long(column: Column, type_: Type) -> Column:
    """The 64-bit integer that the spec hashes for a number, date or timestamp; Spark's timestamps are that already."""
    match type_.kind:
        case "date":
            return F.unix_date(column).cast("bigint")
        case "int":
            return column.cast("bigint")
        case _:
            return column


def _bucket(hashed: Column, count: int) -> Column:
    return F.pmod(hashed.bitwiseAND(F.lit(2**31 - 1)), F.lit(count))


# Optimized plans ------------------------------------------------------------------------------------------------------

_REPARTITIONS: Final = ("RebalancePartitions", "RepartitionByExpression")


def repartition_query(jvm: Jvm, query: Any, metadata: TableMetadata, mode: str, file_bytes: int) -> Any:
    """Repartition the rows of an optimized query as `repartition_rows` does.

    Returns the query itself if nothing is to do, or if it ends in a repartition already.
    """
    if jvm.simple_name(query) in _REPARTITIONS:
        return query

    def repartition(rows: DataFrame) -> DataFrame:
        return repartition_rows(jvm, rows, metadata, mode, file_bytes)

    return add_above_query(jvm, query, query.output(), repartition)


def add_above_query(jvm: Jvm, query: Any, columns: Any, add_node: Callable[[DataFrame], DataFrame]) -> Any:
    """Put the plan node that `add_node` adds to a data frame with some columns on top of an optimized query.

    Returns the query itself if `add_node` returns its argument.
    """
    # A data frame would be analyzed and optimized again with the query, so the node is built on an empty relation.
    relation = jvm.data_frame(SparkSession(jvm.context, jvm.active_session()), Plans(jvm).empty_relation(columns))
    extended = add_node(relation)
    if extended is relation:
        return query
    node = extended._jdf.queryExecution().analyzed()
    # the optimizer does not run on this node, and such expressions cannot be executed
    replaced = jvm.module("org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions").apply(node)
    return replaced.withNewChildren(jvm.seq([query]))


# Streaming ------------------------------------------------------------------------------------------------------------


def repartition_by_partition(jvm: Jvm, query: Any, metadata: TableMetadata, mode: str) -> Any:
    """Repartition the optimized query of an epoch so that the rows of each partition are in one task.

    Returns the query itself if the mode is `none`, the table is not partitioned, or the query has not all of the source
    columns. Spark does not adapt streaming plans at run time, so there are as many tasks as the cluster runs at once.
    """
    if mode == "none" or jvm.simple_name(query) == "RepartitionByExpression" or not _has_sources(jvm, query, metadata):
        return query
    rebalanced = repartition_query(jvm, query, metadata, "hash", 1)
    if jvm.simple_name(rebalanced) != "RebalancePartitions":
        return query
    repartition = jvm.module("org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression")
    return repartition.apply(rebalanced.partitionExpressions(), query, jvm.context.defaultParallelism)


def _has_sources(jvm: Jvm, query: Any, metadata: TableMetadata) -> bool:
    """Whether the query has all source columns of the partition spec; a stream may leave some out."""
    names = {field["name"].lower() for field in jvm.read_data_type(query.schema())["fields"]}
    sources = [
        metadata.schema.entry(field.source_id).path[0]
        for field in metadata.spec.fields
        if not isinstance(field.transform, Void)
    ]
    return bool(sources) and all(name.lower() in names for name in sources)
