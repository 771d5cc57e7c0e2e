"""From a data frame to a commit: what a write does to the table, what it has read of it, and how it is carried out.

A few rows that the driver has already, as those of INSERT … VALUES, are written by the driver, without a Spark job. All
others are written by tasks. When a task fails, the results of the others are lost with the query, so each task also
reports its files by an accumulator, which arrives when the task ends: a write that fails deletes these files.

A write may read the very table that it changes: `INSERT … SELECT` from the same table, a MERGE whose source is made
from it, a DELETE with a subquery on it. Such reads (`OwnReads`) are part of its conflict checks. Reads of the past and
of other branches are not, for nobody changes these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import DataFrame

from floe.arrow.dml.base import deleted_on_error
from floe.commit.change import BLIND, Change, Isolation, Reads
from floe.commit.operations.append import MergeAppend
from floe.commit.operations.overwrite import Overwrite, ReplacePartitions
from floe.commit.target import BranchTarget, CommitTarget, StageTarget
from floe.formats.writers.rolling import discard, leave_nothing
from floe.formats.writers.write_target import WriteTarget
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import floe_relations
from floe.spark.executors import ExecutorFunction
from floe.spark.read.source import Source
from floe.spark.write.columns import fitted
from floe.spark.write.distribution import distributed, distribution_mode
from floe.spark.write.options import WriteOptions
from floe.spark.write.tasks import sized_batches
from floe.spark.write.worker import RESULT_SCHEMA, WriteRows, files_of
from floe.spec.expressions.nodes import TRUE, Expression, or_
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.snapshots import MAIN_BRANCH, Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.storage.protocol import Storage
from floe.table.table import Table
from floe.table.transaction import Transaction

# Few rows that the driver has already, as those of INSERT … VALUES: written there, without a job of Spark's.

_MOST_ROWS: Final = 10_000
_MOST_BYTES: Final = 16 * 2**20


def local_rows(jvm: Jvm, rows: DataFrame) -> list[pa.RecordBatch] | None:
    """The rows as workers would get them, if Spark's optimizer has made the query a few rows; None if it has not."""
    execution: Any = rows._jdf.queryExecution()
    leaves = execution.analyzed().collectLeaves()
    if leaves.size() != 1 or jvm.simple_name(leaves.head()) not in ("LocalRelation", "OneRowRelation"):
        return None  # so that other queries are not optimized in vain
    plan = execution.optimizedPlan()
    if jvm.simple_name(plan) != "LocalRelation":
        return None
    data = plan.data()
    if data.size() > _MOST_ROWS:
        return None
    return list(_batches(jvm, data, rows))


def _batches(jvm: Jvm, data: Any, rows: DataFrame) -> Iterator[pa.RecordBatch]:
    made = jvm.module("org.apache.spark.sql.execution.arrow.ArrowConverters").toBatchWithSchemaIterator(
        data.iterator(), rows._jdf.schema(), _MOST_ROWS, _MOST_BYTES, "UTC", False, False
    )
    while made.hasNext():
        with pa.ipc.open_stream(bytes(made.next())) as stream:
            yield from stream


# Files of tasks that have finished, known to the driver while others still run.

_MOST_WRITES: Final = 1000
"""Tasks may end after their query has failed: what they tell is asked for by nobody, and forgotten some day."""

ByWrite = dict[str, list[str]]


class _Gathered(AccumulatorParam[ByWrite]):
    """Puts locations of files together, by the ids of writes."""

    def zero(self, value: ByWrite) -> ByWrite:
        return {}

    def addInPlace(self, value1: ByWrite, value2: ByWrite) -> ByWrite:
        for write_id, files in value2.items():
            value1[write_id] = value1.get(write_id, []) + files
        while len(value1) > _MOST_WRITES:
            del value1[next(iter(value1))]
        return value1


class FinishedFiles:
    """The files of finished tasks, by writes; there is one for each Spark context."""

    def __init__(self, context: SparkContext) -> None:
        self.told: Accumulator[ByWrite] = context.accumulator({}, _Gathered())
        """What tasks add their files to."""

    @contextmanager
    def deleted_on_error(self, storage: Storage, write_id: str) -> Iterator[None]:
        """What tasks of a write have told is deleted if what is inside fails, in which nothing may be committed."""
        try:
            yield
        except BaseException as error:
            leave_nothing(error, discard(storage, self.told.value.get(write_id, [])))
            raise
        finally:
            self.told.value.pop(write_id, None)


# What a statement reads of the very table that it changes --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OwnReads:
    """The filters of some reads of a table, and the states that they found."""

    filters: tuple[Expression, ...] = ()
    snapshots: tuple[Snapshot | None, ...] = ()

    def oldest(self, *others: Snapshot | None) -> int | None:
        """The id of the oldest state; None if the table was empty."""
        known = [one for one in (*self.snapshots, *others) if one is not None]
        if len(known) < len(self.snapshots) + len(others):
            return None
        return min(known, key=lambda one: one.sequence_number).snapshot_id


def own_reads(jvm: Jvm, plan: Any, table: Table, branch: str, besides: Iterable[Source] = ()) -> OwnReads:
    """The reads of a branch of a table in an optimized plan and its subqueries."""
    filters, snapshots = [], []
    known = {id(source) for source in besides}
    for scan in floe_relations(jvm, plan):
        source = getattr(scan, "source", None)
        if isinstance(source, Source) and id(source) not in known and _is_of(source, table, branch):
            filters.append(getattr(scan, "looked_at", TRUE))
            snapshots.append(source.snapshot)
    return OwnReads(tuple(filters), tuple(snapshots))


def _is_of(source: Source, table: Table, branch: str) -> bool:
    if source.table.uuid != table.uuid or source.as_of.snapshot_id is not None or source.as_of.timestamp_ms is not None:
        return False
    return (source.as_of.ref or MAIN_BRANCH) == branch


def reads_of_plan(jvm: Jvm, plan: Any, table: Table, target: CommitTarget) -> Reads:
    """What a write of the rows of an optimized plan rests on."""
    found = own_reads(jvm, plan, table, target.branch)
    if not found.filters:
        return BLIND
    return Reads(found.oldest(), filter=or_(*found.filters), schema_id=table.metadata.current_schema_id)


def reads_of_frame(jvm: Jvm, rows: DataFrame, table: Table, target: CommitTarget) -> Reads:
    """What a write of the rows of a data frame rests on; it is only optimized for that if the table is in it."""
    execution = rows._jdf.queryExecution()
    named = [getattr(found, "table", None) for found in floe_relations(jvm, execution.analyzed())]
    if not any(isinstance(one, Table) and one.uuid == table.uuid for one in named):
        return BLIND
    return reads_of_plan(jvm, execution.optimizedPlan(), table, target)


# What a write does to the table -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Append:
    """Add the rows."""

    def __str__(self) -> str:
        return "append"


@dataclass(frozen=True, slots=True)
class ReplaceWhere:
    """Put the rows in the place of those that pass a filter."""

    where: Expression

    def __str__(self) -> str:
        return f"overwrite where {self.where}"


@dataclass(frozen=True, slots=True)
class ReplaceDynamically:
    """Put the rows in the place of the partitions that they are of."""

    def __str__(self) -> str:
        return "overwrite the partitions of the rows"


Intent = Append | ReplaceWhere | ReplaceDynamically


def write_data_frame(
    jvm: Jvm, rows: DataFrame, target: Table | Transaction, intent: Intent, options: WriteOptions
) -> None:
    """Write the rows of a data frame, and commit the files."""
    reads = reads_of_frame(jvm, rows, target, commit_target(target, options)) if isinstance(target, Table) else BLIND
    rows, place = fitted(jvm, rows, target, options)
    files = _written(jvm, rows, place, options)
    publish(place, files, intent, options, reads)
    if place is not target and isinstance(place, Transaction):  # which also has new columns
        place.commit()


def _written(jvm: Jvm, rows: DataFrame, target: Table | Transaction, options: WriteOptions) -> list[DataFile]:
    metadata = target.metadata
    work = WriteRows.of(metadata, target.storage, options.overrides)
    few = local_rows(jvm, rows)
    if few is not None:
        return work.write(few)
    size = WriteTarget.of(metadata, target.storage, overrides=options.overrides).file_bytes
    together = distributed(jvm, rows, metadata, distribution_mode(metadata, options.distribution), size)
    finished = jvm.once("files of finished tasks", lambda: FinishedFiles(jvm.context))
    work = replace(work, told=finished.told)
    with sized_batches(jvm.context, metadata.schema), finished.deleted_on_error(target.storage, work.write_id):
        made = together.mapInArrow(ExecutorFunction(work), RESULT_SCHEMA).collect()
    return files_of(row[0] for row in made)


def publish(
    target: Table | Transaction, files: Sequence[DataFile], intent: Intent, options: WriteOptions, reads: Reads = BLIND
) -> None:
    """Commit files that rest on what was read of the table; if that fails for certain they are deleted."""
    with deleted_on_error(target.storage, files):
        destination = commit_target(target, options)
        change = _change(destination, files, intent, options, reads)
    if change is not None:
        destination.commit([change], [file.file_path for file in files])


def commit_target(table: Table | Transaction, options: WriteOptions) -> CommitTarget:
    """Where the commit goes: to the table, to a branch of it, or to a stage."""
    if options.wap_id is not None and isinstance(table, Table):
        return StageTarget(table.commit_target, options.wap_id)
    if options.branch is not None:
        return BranchTarget(table.commit_target, options.branch, create=isinstance(table, Table))
    return table.commit_target


def _change(
    target: CommitTarget, files: Sequence[DataFile], intent: Intent, options: WriteOptions, reads: Reads
) -> Change | None:
    own = target.options(options.summary, Isolation(options.isolation))
    own["fresh"] = True
    if not isinstance(intent, Append):
        reads = _older(reads, options.rests_on, target.metadata)
    match intent:
        case Append():
            return MergeAppend(files, reads=reads, **own) if files else None
        case ReplaceWhere(where=where):
            return Overwrite(added=files, where=where, reads=reads, **own)
        case ReplaceDynamically():
            return ReplacePartitions(files, reads=reads, **own) if files else None


def _older(reads: Reads, rests_on: Reads, metadata: TableMetadata) -> Reads:
    """What a write read, and the state that it is said to rest on: nothing that came after the older may be lost."""
    if rests_on.blind or reads.blind:
        return reads if rests_on.blind else rests_on
    both = [metadata.snapshots_by_id.get(one.snapshot_id) for one in (reads, rests_on) if one.snapshot_id is not None]
    known = [snapshot for snapshot in both if snapshot is not None]
    oldest = min(known, key=lambda one: one.sequence_number).snapshot_id if len(known) == 2 else None
    return replace(reads, snapshot_id=oldest)
