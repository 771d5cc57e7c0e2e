"""A table's partitioning as Spark's transforms."""

from __future__ import annotations

from typing import Any

from floe.spark.bridge.jvm import Jvm
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.partitioning.transforms import Bucket, Identity, Transform, Truncate, Void
from floe.spec.schemas.schema import Schema
from floe.table.column_text import name_text

__all__ = ["spark_transforms"]

_TIMES = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


def spark_transforms(jvm: Jvm, spec: PartitionSpec, schema: Schema) -> Any:
    """The partition fields as a `Transform[]`; those that split nothing any more are left out."""
    made = []
    for field in spec.fields:
        entry = schema.by_id.get(field.source_id)
        if entry is not None and not isinstance(field.transform, Void):
            made.append(_transform(jvm, field.transform, ".".join(map(name_text, entry.path))))
    return jvm.array("org.apache.spark.sql.connector.expressions.Transform", made)


def _transform(jvm: Jvm, transform: Transform, column: str) -> Any:
    expressions = jvm.sql("connector.expressions.Expressions")
    match transform:
        case Identity():
            return expressions.identity(column)
        case Bucket(n=number):
            return expressions.bucket(number, jvm.strings([column]))
        case Truncate(width=width):
            arguments = [expressions.literal(width), expressions.column(column)]
            name = "truncate"
        case _ if (time := _TIMES.get(str(transform))) is not None:
            return getattr(expressions, time)(column)
        case _:
            arguments, name = [expressions.column(column)], str(transform)
    return expressions.apply(name, jvm.array("org.apache.spark.sql.connector.expressions.Expression", arguments))
