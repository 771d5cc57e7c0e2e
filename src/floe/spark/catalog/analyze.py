"""ANALYZE TABLE: estimates how many distinct values columns have.

`compute_statistics` runs the Spark job: each task reads some files and returns sketches of the columns; the driver
merges them and writes the statistics file. `analyze_table_command` and `analyze_tables_command` are what Spark executes
for the statements. Counts of rows and sizes need no analysis: metadata always has them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from floe.arrow.read.streams import ColumnSketches
from floe.arrow.read.task_reader import TaskReader
from floe.errors import UnsupportedFeature
from floe.plan.tasks import pack_tasks
from floe.spark.bridge.interfaces.write import ExternalCommandRunner
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import python_command
from floe.spark.executors import ExecutorFunction, executor_metadata, reduce_worker_overhead
from floe.spark.read.arrow_reader import pickle_tasks
from floe.spark.read.native_reader import adaptive_split_settings
from floe.spec.codecs.theta_sketches import ThetaSketch
from floe.spec.metadata.table_metadata import StatisticsFile, TableMetadata
from floe.spec.schemas.schema import Schema, SchemaField
from floe.storage.protocol import Storage
from floe.table.maintenance import CountedColumns, register_sketches, select_counted
from floe.table.table import Table

_MAX_MERGED_BY_DRIVER: Final = 16
"""The most tasks whose sketches the driver merges alone; each may be a megabyte, so more are merged by tasks first."""

SerializedSketches = dict[int, bytes]
"""Serialized sketches by field id."""


@dataclass(frozen=True)
class SketchTasks:
    """Reads pickled scan tasks with the Arrow reader, and returns the serialized sketches of columns."""

    metadata: TableMetadata
    storage: Storage
    schema: Schema
    columns: tuple[SchemaField, ...]

    def __call__(self, contents: Iterable[bytes]) -> Iterator[SerializedSketches]:
        """Read the files of one Spark task, in a worker."""
        reader, sketches = TaskReader(self.metadata, self.storage), ColumnSketches(self.columns)
        for content in contents:
            for task in pickle.loads(content):
                for rows in reader.batches(task, self.schema):
                    sketches.add(rows)
        reduce_worker_overhead()
        yield {field_id: sketch.serialize() for field_id, sketch in sketches.by_field_id.items()}


def compute_statistics(
    jvm: Jvm, table: Table, columns: Sequence[str] | None = None, *, snapshot: int | None = None
) -> StatisticsFile | None:
    """Estimate the distinct values of columns, and register a statistics file with them; None without a snapshot."""
    counted = select_counted(table.scan(snapshot=snapshot), columns, case_sensitive=jvm.is_case_sensitive)
    if counted is None:
        return None
    return register_sketches(table.commit_target, counted.snapshot, _compute_sketches(jvm, table, counted))


def _compute_sketches(jvm: Jvm, table: Table, counted: CountedColumns) -> dict[int, ThetaSketch]:
    """The sketches of columns by field id, computed by a Spark job."""
    splits = adaptive_split_settings(table.metadata.properties, counted.plan.size, jvm.context.defaultParallelism)
    partitions = [pickle_tasks(tasks) for tasks in pack_tasks(counted.plan.tasks(), splits)]
    if not partitions:
        return ColumnSketches(counted.columns).by_field_id
    function = SketchTasks(executor_metadata(table.metadata), table.storage, counted.schema, counted.columns)
    sketches = jvm.context.parallelize(partitions, len(partitions)).mapPartitions(ExecutorFunction(function))
    depth = 1 if len(partitions) <= _MAX_MERGED_BY_DRIVER else 2
    merged: SerializedSketches = sketches.treeReduce(ExecutorFunction(_merge_sketches), depth=depth)
    return {field_id: ThetaSketch.deserialize(sketch) for field_id, sketch in merged.items()}


def _merge_sketches(first: SerializedSketches, second: SerializedSketches) -> SerializedSketches:
    """The union of the sketches of two tasks."""
    pairs = {field_id: (sketch, second[field_id]) for field_id, sketch in first.items()}
    return {
        field_id: ThetaSketch.union(map(ThetaSketch.deserialize, pair)).serialize() for field_id, pair in pairs.items()
    }


# Commands -------------------------------------------------------------------------------------------------------------


class AnalyzeRunner(ExternalCommandRunner):
    """Runs an analysis when Spark executes the command; without `analyze` there is nothing to compute."""

    def __init__(self, jvm: Jvm, analyze: Callable[[], object] | None = None) -> None:
        super().__init__(jvm)
        self._analyze = analyze

    def executeCommand(self, command: str, options: Any) -> Any:
        """Run the analysis; returns the lines of the result, of which there are none."""
        if self._analyze is not None:
            self._analyze()
        return self.jvm.strings([])


def analyze_table_command(jvm: Jvm, name: str, table: Table, snapshot: int | None, node: Any) -> Any:
    """The command that replaces ANALYZE TABLE, which Spark can execute only for tables of its own catalog."""
    if jvm.simple_name(node) == "AnalyzeTable":
        if not node.partitionSpec().isEmpty():
            raise UnsupportedFeature(
                "ANALYZE TABLE does not take a PARTITION: metadata always has the rows and sizes of partitions",
                hint=f"leave it out, or SELECT * FROM {name}.partitions",
                table=name,
            )
        return python_command(jvm, AnalyzeRunner(jvm), f"ANALYZE TABLE {name}: rows and size, as metadata has them")
    columns: Sequence[str] | None = None if node.allColumns() else jvm.read_seq(node.columnNames().get())
    runner = AnalyzeRunner(jvm, lambda: compute_statistics(jvm, table, columns, snapshot=snapshot))
    return python_command(jvm, runner, f"ANALYZE TABLE {name}: {', '.join(columns or ['all columns'])}")


def analyze_tables_command(jvm: Jvm, namespace: str) -> Any:
    """The command that replaces ANALYZE TABLES; it is about rows and sizes alone, so it does nothing."""
    title = f"ANALYZE TABLES IN {namespace}: rows and sizes, as metadata has them"
    return python_command(jvm, AnalyzeRunner(jvm), title)
