"""How many different values columns have, counted by tasks: each reads some files, and gives sketches."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from floe.arrow.reading.tasks import TaskReader
from floe.arrow.sketching import ColumnSketches
from floe.plan.splits import pack_tasks
from floe.spark.bridge.jvm import Jvm
from floe.spark.executors import Carried
from floe.spark.scan.splits import splits_for
from floe.spark.scan.worker import pickled_tasks
from floe.spark.shipping import shipped
from floe.spark.workers import settle
from floe.spec.codecs.theta_sketches import ThetaSketch
from floe.spec.metadata.statistics import StatisticsFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.schema import Schema, SchemaField
from floe.storage.protocol import Storage
from floe.table.statistics import Counting, counting, register_sketches
from floe.table.table import Table

__all__ = ["compute_statistics"]

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
        settle()
        yield {field_id: sketch.serialize() for field_id, sketch in sketches.found.items()}


def compute_statistics(
    jvm: Jvm, table: Table, columns: Sequence[str] | None = None, *, snapshot: int | None = None
) -> StatisticsFile | None:
    """Count the different values of columns, and register the statistics file; None while nothing was written."""
    wanted = counting(table.scan(snapshot=snapshot), columns, case_sensitive=jvm.is_case_sensitive)
    if wanted is None:
        return None
    return register_sketches(table, wanted.snapshot, _sketches(jvm, table, wanted))


def _sketches(jvm: Jvm, table: Table, wanted: Counting) -> dict[int, ThetaSketch]:
    splits = splits_for(table.metadata.properties, wanted.plan.size, jvm.context.defaultParallelism)
    parts = [pickled_tasks(tasks) for tasks in pack_tasks(wanted.plan.tasks(), splits)]
    work = SketchTasks(shipped(table.metadata), table.storage, wanted.schema, wanted.columns)
    if not parts:
        return ColumnSketches(wanted.columns).found
    made = jvm.context.parallelize(parts, len(parts)).mapPartitions(Carried(work))
    found: Serialized = made.treeReduce(Carried(_merged), depth=1 if len(parts) <= _FEW_TASKS else 2)
    return {field_id: ThetaSketch.deserialize(sketch) for field_id, sketch in found.items()}


def _merged(one: Serialized, other: Serialized) -> Serialized:
    """The sketches of what two tasks have read."""
    pairs = {field_id: (sketch, other[field_id]) for field_id, sketch in one.items()}
    return {
        field_id: ThetaSketch.union(map(ThetaSketch.deserialize, pair)).serialize() for field_id, pair in pairs.items()
    }
