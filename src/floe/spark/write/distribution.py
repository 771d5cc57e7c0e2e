"""Rows brought together before they are written, so that each partition of the table gets few files.

What groups rows is computed inside the JVM, by expressions that are equal just where the partition is. Spark decides
how many tasks that makes: small groups share one, large ones are cut.

Rows brought together inside a plan that Spark carries out itself.

Rows of an epoch brought together by partition before they are written, so that each partition gets one file.

Spark does not adapt the plans of streams to what they read, so there are as many tasks as the cluster runs at a time.
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
_ROWS_TO_FILE = 3
"""How many bytes of Spark's rows make about one byte of a Parquet file."""

_MOST_BYTES = 512 * 2**20


def distribution_mode(metadata: TableMetadata, asked: str | None) -> str:
    """How rows are brought together: as asked, or else by the sort order, by the partition, or not at all."""
    if asked is not None:
        return asked
    if not metadata.sort_order.is_unsorted:
        return "range"
    return "none" if metadata.spec.is_unpartitioned else "hash"


def distributed(jvm: Jvm, rows: DataFrame, metadata: TableMetadata, mode: str, file_bytes: int) -> DataFrame:
    """The rows, brought together, so that a task has about one file's worth of them."""
    schema = metadata.schema
    groups = [
        _grouped(jvm, rows, field.transform, field.source_id, schema)
        for field in metadata.spec.fields
        if not isinstance(field.transform, Void)
    ]
    order = [one.asc() for one in groups] + _ordered(jvm, rows, metadata.sort_order, schema)
    if mode == "range" and order:  # partition by partition, so that a task has few of them
        return _by_range(jvm, rows, order, file_bytes)
    return rebalanced(jvm, rows, groups, file_bytes) if mode == "hash" and groups else rows


def rebalanced(jvm: Jvm, rows: DataFrame, groups: list[Column], file_bytes: int) -> DataFrame:
    """The rows of a group in one task, or in several if that would make files too large; small groups together."""
    plan = jvm.sql("catalyst.plans.logical.RebalancePartitions")(
        jvm.seq([jvm.expression(column) for column in groups]),
        rows._jdf.queryExecution().analyzed(),
        jvm.none,
        _advised(jvm, file_bytes),
    )
    return jvm.data_frame(rows.sparkSession, plan)


def _by_range(jvm: Jvm, rows: DataFrame, order: list[Column], file_bytes: int) -> DataFrame:
    """Rows that follow each other in one task, up to a file's worth of them."""
    plan = jvm.sql("catalyst.plans.logical.RepartitionByExpression")(
        jvm.seq([jvm.expression(column) for column in order]),
        rows._jdf.queryExecution().analyzed(),
        jvm.none,
        _advised(jvm, file_bytes),
    )
    return jvm.data_frame(rows.sparkSession, plan)


def _advised(jvm: Jvm, file_bytes: int) -> Any:
    """How many bytes of Spark's rows make about a file."""
    return jvm.some_long(min(_ROWS_TO_FILE * file_bytes, _MOST_BYTES))


def _ordered(jvm: Jvm, rows: DataFrame, order: SortOrder, schema: Schema) -> list[Column]:
    found = []
    for field in order.fields:
        column = _grouped(jvm, rows, field.transform, field.source_id, schema)
        found.append(column.desc() if field.direction is SortDirection.DESC else column.asc())
    return found


def _grouped(jvm: Jvm, rows: DataFrame, transform: Transform, source_id: int, schema: Schema) -> Column:
    """An expression that is equal for rows which the transform puts together."""
    entry = schema.entry(source_id)
    name, *inside = entry.path
    column = rows[f"`{name.replace('`', '``')}`"]
    for part in inside:
        column = column.getField(part)
    return _transformed(jvm, column, transform, entry.field.type)


def _transformed(jvm: Jvm, column: Column, transform: Transform, type_: Type) -> Column:
    match transform:
        case Identity():
            return column
        case Bucket(n=number) if type_.kind in ("int", "long", "date", "timestamp", "timestamptz"):
            return _bucket(murmur3_of_long(_as_long(column, type_)), number)
        case Bucket(n=number) if type_.kind in ("string", "binary", "fixed"):
            return _bucket(murmur3_of_bytes(jvm, column), number)
        case Truncate(width=width) if type_.kind in ("int", "long"):
            return column - F.pmod(column, F.lit(width))
        case Truncate(width=width) if type_.kind in ("string", "binary"):
            return F.substring(column, 1, width)
        case _:
            text = str(transform)
    zoned = type_.kind == "timestamptz"
    match text:
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
    """What the spec hashes of a number or a time: 64 bits, which a timestamp has inside Spark."""
    match type_.kind:
        case "date":
            return F.unix_date(column).cast("bigint")
        case "int":
            return column.cast("bigint")
        case _:
            return column


def _bucket(hashed: Column, number: int) -> Column:
    return F.pmod(hashed.bitwiseAND(F.lit(2**31 - 1)), F.lit(number))


# Rows brought together inside a plan that Spark carries out itself.

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


# Rows of an epoch brought together by partition before they are written, so that each partition gets one file.


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
