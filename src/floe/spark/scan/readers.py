"""The two readers: which partitions each gets, and what makes it in executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from floe.plan.splits import pack_tasks, split_settings
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.partitioned_files import partitioned_files
from floe.spark.columns import spark_schema
from floe.spark.scan.files import PlannedFiles
from floe.spark.scan.native import NativeColumns, reader_factory
from floe.spark.scan.python_reader import python_partitions, python_reader_factory
from floe.spark.scan.source import Source
from floe.spark.scan.splits import file_parts
from floe.spark.scan.worker import ReadTasks, pickled_tasks
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage

__all__ = ["arrow_factory", "arrow_partitions", "native_factory", "native_partitions"]

_INPUT: Final = "org.apache.spark.sql.connector.read.InputPartition"
_PARTITION: Final = "org.apache.spark.sql.execution.datasources.FilePartition"


def native_partitions(
    jvm: Jvm,
    files: pa.Table,
    storage: Storage,
    columns: NativeColumns,
    size: int,
    bits: Mapping[str, bytes] | None = None,
) -> Any:
    """Files in parts for Spark's reader, packed into partitions; the largest first, as Spark packs them."""
    if not len(files):
        return jvm.array(_INPUT, [])
    parts = file_parts(files, storage, columns.constants, size, bits)
    found = partitioned_files(jvm, parts.largest_first(), columns.kinds)
    packed = jvm.named(_PARTITION).getFilePartitions(jvm.active_session(), found, size)
    return packed.toArray(jvm.module("scala.reflect.ClassTag").apply(jvm.reflected(_INPUT)))


def native_factory(jvm: Jvm, columns: NativeColumns, predicates: Sequence[Any]) -> Any:
    """What makes Spark's readers; predicates on columns that have their names in all files leave out row groups.

    But not those that NaN may pass: it is above all numbers to Spark, and not in the bounds that row groups have.
    """
    own = {field.name: field.type.kind for field in columns.data if field.id in columns.own_names}
    found = []
    for predicate in predicates:
        paths = [jvm.read_strings(reference.fieldNames()) for reference in predicate.references()]
        if paths and all(len(path) == 1 and path[0] in own for path in paths):
            floating = any(own[path[0]] in ("float", "double") for path in paths)
            if not floating or _is_below(jvm, predicate):
                found.append(predicate)
    return reader_factory(jvm, columns, found)


def _is_below(jvm: Jvm, predicate: Any) -> bool:
    """Whether a predicate says that a column is below some value."""
    return predicate.name() in ("<", "<=") and jvm.simple_name(predicate.children()[0]) == "FieldReference"


def arrow_partitions(jvm: Jvm, files: PlannedFiles, size: int) -> Any:
    """Files in parts for the Arrow reader, packed into partitions."""
    settings = split_settings(files.plan.metadata.properties, target_size=size)
    return python_partitions(jvm, map(pickled_tasks, pack_tasks(files.tasks(), settings)))


def arrow_factory(jvm: Jvm, source: Source, columns: Schema) -> Any:
    """What has workers read with the Arrow reader."""
    read = ReadTasks(source.shipped_metadata, source.storage, columns)
    return python_reader_factory(jvm, read, spark_schema(columns.fields))
