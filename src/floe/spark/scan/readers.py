"""The two readers: which partitions each gets, and what makes it in executors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from floe.plan.splits import SplitSettings, pack_tasks
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.partitioned_files import partitioned_files
from floe.spark.bridge.predicates import Call, Column, Node, paths_in
from floe.spark.columns import spark_schema
from floe.spark.scan.files import PlannedFiles
from floe.spark.scan.native import NativeColumns, reader_factory
from floe.spark.scan.pushed import Pushed
from floe.spark.scan.python_reader import python_partitions, python_reader_factory
from floe.spark.scan.source import Source
from floe.spark.scan.splits import file_parts
from floe.spark.scan.worker import ReadTasks, pickled_tasks
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage

__all__ = ["arrow_factory", "arrow_partitions", "columnar_mode", "native_factory", "native_partitions"]

_INPUT: Final = "org.apache.spark.sql.connector.read.InputPartition"


def native_partitions(
    jvm: Jvm,
    files: pa.Table,
    storage: Storage,
    columns: NativeColumns,
    splits: SplitSettings,
    bits: Mapping[str, bytes] | None = None,
) -> Any:
    """Files in parts for Spark's reader, packed into partitions, the largest first."""
    if not len(files):
        return jvm.array(_INPUT, [])
    parts = file_parts(files, storage, columns.constants, splits.target_size, bits)
    return partitioned_files(jvm, parts.largest_first(), columns.kinds, splits.target_size, splits.open_file_cost)


def native_factory(jvm: Jvm, columns: NativeColumns, pushed: Pushed) -> Any:
    """What makes Spark's readers; predicates on columns that have their names in all files leave out row groups.

    But not those that NaN may pass: it is above all numbers to Spark, and not in the bounds that row groups have.
    """
    own = {field.name: field.type.kind for field in columns.data if field.id in columns.own_names}
    chosen = []
    for place in pushed.places:
        paths = list(paths_in(pushed.trees[place]))
        if paths and all(len(path) == 1 and path[0] in own for path in paths):
            floating = any(own[path[0]] in ("float", "double") for path in paths)
            if not floating or _is_below(pushed.trees[place]):
                chosen.append(place)
    return reader_factory(jvm, columns, pushed.array, chosen)


def _is_below(tree: Node) -> bool:
    """Whether a predicate says that a column is below some value."""
    match tree:
        case Call("<" | "<=", (Column(), _)):
            return True
    return False


def columnar_mode(jvm: Jvm, factory: Any) -> Any:
    """Whether the rows of a reader come in columns."""
    mode = "SUPPORTED" if factory.supportColumnarReads(None) else "UNSUPPORTED"
    return jvm.constant("org.apache.spark.sql.connector.read.Scan$ColumnarSupportMode", mode)


def arrow_partitions(jvm: Jvm, files: PlannedFiles, splits: SplitSettings) -> Any:
    """Files in parts for the Arrow reader, packed into partitions."""
    return python_partitions(jvm, map(pickled_tasks, pack_tasks(files.tasks(), splits)))


def arrow_factory(jvm: Jvm, source: Source, columns: Schema) -> Any:
    """What has workers read with the Arrow reader."""
    read = ReadTasks(source.shipped_metadata, source.storage, columns)
    return python_reader_factory(jvm, read, spark_schema(columns.fields))
