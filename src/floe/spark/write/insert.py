"""Writes of data frames: INSERT, INSERT OVERWRITE, `df.writeTo`; rows to files, and files to the table in one commit.

`write_data_frame` writes rows and commits the files; `commit_files` is the commit alone, for writes whose tasks Spark
runs. The `WriteMode` says what a write does to the table.

A write may read the table that it changes: `INSERT … SELECT` from the same table, a MERGE whose source is a query on
it, a DELETE with a subquery on it. Such reads (`TargetReads`) are part of its conflict checks. Reads of past snapshots
and of other branches are not, because concurrent commits do not change what they read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame

from floe.arrow.dml.base import delete_on_error
from floe.commit.change import BLIND, Change, Isolation, Reads
from floe.commit.operations.data_changes import MergeAppend, Overwrite, ReplacePartitions
from floe.commit.target import BranchTarget, CommitTarget, StageTarget
from floe.formats.writers.write_target import WriteTarget
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import floe_relations
from floe.spark.executors import ExecutorFunction
from floe.spark.read.scan_source import ScanSource
from floe.spark.write.columns import align_columns
from floe.spark.write.distribution import distribution_mode, repartition_rows
from floe.spark.write.options import WriteOptions
from floe.spark.write.tasks import FinishedFiles, sized_batches
from floe.spark.write.worker import RESULT_SCHEMA, WriteRows, unpickle_files
from floe.spec.expressions.nodes import TRUE, Expression, or_
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.snapshots import MAIN_BRANCH, Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.table.table import Table
from floe.table.transaction import Transaction

# Reads of the target table --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TargetReads:
    """The scans of the table that a statement changes, beside the scan of the rows that it changes."""

    filters: tuple[Expression, ...] = ()
    """The filter of each scan."""

    snapshots: tuple[Snapshot | None, ...] = ()
    """The snapshot of each scan; None while the table had none."""

    def oldest_snapshot_id(self, *others: Snapshot | None) -> int | None:
        """The id of the oldest of these snapshots and others; None if one of them is of a table without snapshots."""
        snapshots = [snapshot for snapshot in (*self.snapshots, *others) if snapshot is not None]
        if len(snapshots) < len(self.snapshots) + len(others):
            return None
        return min(snapshots, key=lambda snapshot: snapshot.sequence_number).snapshot_id


def target_reads(jvm: Jvm, plan: Any, table: Table, branch: str, exclude: Iterable[ScanSource] = ()) -> TargetReads:
    """The scans of a branch of a table in an optimized plan and its subqueries, without those of some sources."""
    filters, snapshots = [], []
    excluded = {id(source) for source in exclude}
    for scan in floe_relations(jvm, plan):
        source = getattr(scan, "source", None)
        if isinstance(source, ScanSource) and id(source) not in excluded and _reads_branch(source, table, branch):
            filters.append(getattr(scan, "pushed_filter", TRUE))
            snapshots.append(source.snapshot)
    return TargetReads(tuple(filters), tuple(snapshots))


def _reads_branch(source: ScanSource, table: Table, branch: str) -> bool:
    if source.table.uuid != table.uuid or source.as_of.snapshot_id is not None or source.as_of.timestamp_ms is not None:
        return False
    return (source.as_of.ref or MAIN_BRANCH) == branch


def plan_reads(jvm: Jvm, plan: Any, table: Table, target: CommitTarget) -> Reads:
    """What an optimized plan reads of the table that its rows are written to, for the conflict checks of the write."""
    reads = target_reads(jvm, plan, table, target.branch)
    if not reads.filters:
        return BLIND
    return Reads(reads.oldest_snapshot_id(), filter=or_(*reads.filters), schema_id=table.metadata.current_schema_id)


def data_frame_reads(jvm: Jvm, rows: DataFrame, table: Table, target: CommitTarget) -> Reads:
    """What a data frame reads of the table that its rows are written to."""
    execution = rows._jdf.queryExecution()
    tables = [getattr(relation, "table", None) for relation in floe_relations(jvm, execution.analyzed())]
    if not any(isinstance(scanned, Table) and scanned.uuid == table.uuid for scanned in tables):
        return BLIND  # found in the analyzed plan, so that other queries are not optimized for nothing
    return plan_reads(jvm, execution.optimizedPlan(), table, target)


# Local rows -----------------------------------------------------------------------------------------------------------

_MAX_LOCAL_ROWS: Final = 10_000
_MAX_BATCH_BYTES: Final = 16 * 2**20


def local_rows(jvm: Jvm, rows: DataFrame) -> list[pa.RecordBatch] | None:
    """The rows of a data frame if the driver has them already, as for INSERT … VALUES; None if Spark has to run a job.

    The batches have the types that workers would get.
    """
    execution: Any = rows._jdf.queryExecution()
    leaves = execution.analyzed().collectLeaves()
    if leaves.size() != 1 or jvm.simple_name(leaves.head()) not in ("LocalRelation", "OneRowRelation"):
        return None  # before the optimizer runs, so that other queries are not optimized for nothing
    plan = execution.optimizedPlan()
    if jvm.simple_name(plan) != "LocalRelation":
        return None
    data = plan.data()
    if data.size() > _MAX_LOCAL_ROWS:
        return None
    return list(_record_batches(jvm, data, rows))


def _record_batches(jvm: Jvm, data: Any, rows: DataFrame) -> Iterator[pa.RecordBatch]:
    streams = jvm.module("org.apache.spark.sql.execution.arrow.ArrowConverters").toBatchWithSchemaIterator(
        data.iterator(), rows._jdf.schema(), _MAX_LOCAL_ROWS, _MAX_BATCH_BYTES, "UTC", False, False
    )
    while streams.hasNext():
        with pa.ipc.open_stream(bytes(streams.next())) as stream:
            yield from stream


# Write modes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Append:
    """Adds the rows."""

    def __str__(self) -> str:
        return "append"


@dataclass(frozen=True, slots=True)
class OverwriteByFilter:
    """Replaces the rows that match a filter by the rows of the write."""

    where: Expression

    def __str__(self) -> str:
        return f"overwrite where {self.where}"


@dataclass(frozen=True, slots=True)
class OverwritePartitions:
    """Replaces the partitions that the rows of the write belong to (Spark's dynamic overwrite)."""

    def __str__(self) -> str:
        return "overwrite the partitions of the rows"


WriteMode = Append | OverwriteByFilter | OverwritePartitions


def write_data_frame(
    jvm: Jvm, rows: DataFrame, target: Table | Transaction, mode: WriteMode, options: WriteOptions
) -> None:
    """Write the rows of a data frame, and commit the files.

    Few rows that the driver has already are written by the driver; all others by tasks of a Spark job.
    """
    reads = data_frame_reads(jvm, rows, target, commit_target(target, options)) if isinstance(target, Table) else BLIND
    rows, destination = align_columns(jvm, rows, target, options)
    files = _write_files(jvm, rows, destination, options)
    commit_files(destination, files, mode, options, reads)
    if destination is not target and isinstance(destination, Transaction):  # it also adds columns to the table
        destination.commit()


def _write_files(jvm: Jvm, rows: DataFrame, target: Table | Transaction, options: WriteOptions) -> list[DataFile]:
    metadata = target.metadata
    writer = WriteRows.of(metadata, target.storage, options.overrides)
    batches = local_rows(jvm, rows)
    if batches is not None:
        return writer.write(batches)
    file_bytes = WriteTarget.of(metadata, target.storage, overrides=options.overrides).file_bytes
    distribution = distribution_mode(metadata, options.distribution)
    repartitioned = repartition_rows(jvm, rows, metadata, distribution, file_bytes)
    finished = jvm.once("files of finished tasks", lambda: FinishedFiles(jvm.context))
    writer = replace(writer, finished=finished.accumulator)
    with sized_batches(jvm.context, metadata.schema), finished.delete_on_error(target.storage, writer.write_id):
        results = repartitioned.mapInArrow(ExecutorFunction(writer), RESULT_SCHEMA).collect()
    return unpickle_files(row[0] for row in results)


# Commits --------------------------------------------------------------------------------------------------------------


def commit_files(
    target: Table | Transaction, files: Sequence[DataFile], mode: WriteMode, options: WriteOptions, reads: Reads = BLIND
) -> None:
    """Commit files that were written, with conflict checks for what was read of the table.

    The files are deleted if the commit has certainly failed.
    """
    with delete_on_error(target.storage, files):
        destination = commit_target(target, options)
        change = _change(destination, files, mode, options, reads)
    if change is not None:
        destination.commit([change], [file.file_path for file in files])


def commit_target(table: Table | Transaction, options: WriteOptions) -> CommitTarget:
    """What a write commits to: the table, one of its branches, or a staged snapshot."""
    if options.wap_id is not None and isinstance(table, Table):
        return StageTarget(table.commit_target, options.wap_id)
    if options.branch is not None:
        return BranchTarget(table.commit_target, options.branch, create=isinstance(table, Table))
    return table.commit_target


def _change(
    target: CommitTarget, files: Sequence[DataFile], mode: WriteMode, options: WriteOptions, reads: Reads
) -> Change | None:
    """The operation of a write; None if there is nothing to commit."""
    snapshot_options = target.options(options.summary, Isolation(options.isolation))
    snapshot_options["fresh"] = True
    if not isinstance(mode, Append):
        reads = _reads_since_older(reads, options.validate_from, target.metadata)
    match mode:
        case Append():
            return MergeAppend(files, reads=reads, **snapshot_options) if files else None
        case OverwriteByFilter(where=where):
            return Overwrite(added=files, where=where, reads=reads, **snapshot_options)
        case OverwritePartitions():
            return ReplacePartitions(files, reads=reads, **snapshot_options) if files else None


def _reads_since_older(reads: Reads, validate_from: Reads, metadata: TableMetadata) -> Reads:
    """What a write read, as of the older of its snapshot and the one to validate from.

    So every commit after either of them is checked for conflicts.
    """
    if validate_from.blind or reads.blind:
        return reads if validate_from.blind else validate_from
    ids = [each.snapshot_id for each in (reads, validate_from) if each.snapshot_id is not None]
    by_id = metadata.snapshots_by_id
    snapshots = [by_id[snapshot_id] for snapshot_id in ids if snapshot_id in by_id]
    oldest = min(snapshots, key=lambda snapshot: snapshot.sequence_number).snapshot_id if len(snapshots) == 2 else None
    return replace(reads, snapshot_id=oldest)
