"""How many different values columns have, counted by tasks: each reads some files, and gives sketches.

ANALYZE: different values of columns are counted; rows and sizes are not, as metadata has them at all times.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from floe.arrow.reading.task_reader import TaskReader
from floe.arrow.sketches import ColumnSketches
from floe.errors import UnsupportedFeature
from floe.plan.tasks import pack_tasks
from floe.spark.bridge.interfaces.write import ExternalCommandRunner
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import python_command
from floe.spark.executors import ExecutorFunction, executor_metadata, reduce_worker_overhead
from floe.spark.read.splits import splits_for
from floe.spark.read.worker import pickled_tasks
from floe.spec.codecs.theta_sketches import ThetaSketch
from floe.spec.metadata.table_metadata import StatisticsFile, TableMetadata
from floe.spec.schemas.schema import Schema, SchemaField
from floe.storage.protocol import Storage
from floe.table.maintenance import CountedColumns, register_sketches, select_counted
from floe.table.table import Table

_FEW_TASKS: Final = 16
"""Up to so many tasks the driver alone merges their sketches; those of more come merged, as each may be a megabyte."""

Serialized = dict[int, bytes]
"""Sketches by the ids of their columns."""


@dataclass(frozen=True)
class SketchTasks:
    """Reads pickled tasks with the Arrow reader, and gives the sketches of columns, serialized."""

    metadata: TableMetadata
    storage: Storage
    schema: Schema
    columns: tuple[SchemaField, ...]

    def __call__(self, contents: Iterable[bytes]) -> Iterator[Serialized]:
        """Read what one task of Spark's has to read, in a worker."""
        reader, sketches = TaskReader(self.metadata, self.storage), ColumnSketches(self.columns)
        for content in contents:
            for task in pickle.loads(content):
                for rows in reader.batches(task, self.schema):
                    sketches.add(rows)
        reduce_worker_overhead()
        yield {field_id: sketch.serialize() for field_id, sketch in sketches.found.items()}


def compute_statistics(
    jvm: Jvm, table: Table, columns: Sequence[str] | None = None, *, snapshot: int | None = None
) -> StatisticsFile | None:
    """Count the different values of columns, and register the statistics file; None while nothing was written."""
    wanted = select_counted(table.scan(snapshot=snapshot), columns, case_sensitive=jvm.is_case_sensitive)
    if wanted is None:
        return None
    return register_sketches(table.commit_target, wanted.snapshot, _sketches(jvm, table, wanted))


def _sketches(jvm: Jvm, table: Table, wanted: CountedColumns) -> dict[int, ThetaSketch]:
    splits = splits_for(table.metadata.properties, wanted.plan.size, jvm.context.defaultParallelism)
    parts = [pickled_tasks(tasks) for tasks in pack_tasks(wanted.plan.tasks(), splits)]
    work = SketchTasks(executor_metadata(table.metadata), table.storage, wanted.schema, wanted.columns)
    if not parts:
        return ColumnSketches(wanted.columns).found
    made = jvm.context.parallelize(parts, len(parts)).mapPartitions(ExecutorFunction(work))
    found: Serialized = made.treeReduce(ExecutorFunction(_merged), depth=1 if len(parts) <= _FEW_TASKS else 2)
    return {field_id: ThetaSketch.deserialize(sketch) for field_id, sketch in found.items()}


def _merged(one: Serialized, other: Serialized) -> Serialized:
    """The sketches of what two tasks have read."""
    pairs = {field_id: (sketch, other[field_id]) for field_id, sketch in one.items()}
    return {
        field_id: ThetaSketch.union(map(ThetaSketch.deserialize, pair)).serialize() for field_id, pair in pairs.items()
    }


# ANALYZE: different values of columns are counted; rows and sizes are not, as metadata has them at all times.


class Analysis(ExternalCommandRunner):
    """Counts what has to be counted, when Spark executes the command."""

    def __init__(self, jvm: Jvm, count: Callable[[], object] | None = None) -> None:
        super().__init__(jvm)
        self._count = count

    def executeCommand(self, command: str, options: Any) -> Any:
        """Count it; there is nothing to be told."""
        if self._count is not None:
            self._count()
        return self.jvm.strings([])


def analysis(jvm: Jvm, name: str, table: Table, snapshot: int | None, node: Any) -> Any:
    """The command in the place of ANALYZE TABLE, which Spark itself carries out only for tables of its own."""
    if jvm.simple_name(node) == "AnalyzeTable":
        if not node.partitionSpec().isEmpty():
            raise UnsupportedFeature(
                "ANALYZE TABLE does not take a PARTITION: rows and sizes of partitions are in metadata at all times",
                hint=f"leave it out, or SELECT * FROM {name}.partitions",
                table=name,
            )
        return python_command(jvm, Analysis(jvm), f"ANALYZE TABLE {name}: rows and size, as metadata has them")
    columns: Sequence[str] | None = None if node.allColumns() else jvm.read_seq(node.columnNames().get())
    counter = Analysis(jvm, lambda: compute_statistics(jvm, table, columns, snapshot=snapshot))
    return python_command(jvm, counter, f"ANALYZE TABLE {name}: {', '.join(columns or ['all columns'])}")


def analysis_of_all(jvm: Jvm, namespace: str) -> Any:
    """The command in the place of ANALYZE TABLES, which is about rows and sizes alone."""
    return python_command(jvm, Analysis(jvm), f"ANALYZE TABLES IN {namespace}: rows and sizes, as metadata has them")
