"""What a write is to do with the table, and doing it: from a data frame to a commit."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from floe.arrow.changing.base import deleted_on_error
from floe.commit.change import Change
from floe.commit.footprint import BLIND, Isolation, Reads
from floe.commit.operations.append import MergeAppend
from floe.commit.operations.overwrite import Overwrite
from floe.commit.operations.replace_partitions import ReplacePartitions
from floe.formats.writers.target import WriteTarget
from floe.spark.bridge.jvm import Jvm
from floe.spark.executors import Carried
from floe.spark.scan.own_reads import reads_of_frame
from floe.spark.shipping import shipped
from floe.spark.write.any_columns import fitted
from floe.spark.write.batches import sized_batches
from floe.spark.write.distribution import distributed, distribution_mode
from floe.spark.write.finished import FinishedFiles
from floe.spark.write.local_rows import local_rows
from floe.spark.write.options import WriteOptions
from floe.spark.write.worker import RESULT_SCHEMA, WriteRows, files_of
from floe.spec.expressions.nodes import Expression
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.table.branch import Stage
from floe.table.committing import change_options, make_changes
from floe.table.file_actions import FileActions
from floe.table.table import Table
from floe.table.transaction import Transaction

__all__ = ["Append", "Intent", "ReplaceDynamically", "ReplaceWhere", "actions_of", "publish", "write_data_frame"]


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
    reads = reads_of_frame(jvm, rows, target, actions_of(target, options)) if isinstance(target, Table) else BLIND
    rows, place = fitted(jvm, rows, target, options)
    files = _written(jvm, rows, place, options)
    publish(place, files, intent, options, reads)
    if place is not target and isinstance(place, Transaction):  # which also has new columns
        place.commit()


def _written(jvm: Jvm, rows: DataFrame, target: Table | Transaction, options: WriteOptions) -> list[DataFile]:
    metadata = target.metadata
    work = WriteRows(shipped(metadata), target.storage, str(uuid.uuid4()), dict(options.overrides))
    few = local_rows(jvm, rows)
    if few is not None:
        return work.write(few)
    size = WriteTarget.of(metadata, target.storage, overrides=options.overrides).file_bytes
    together = distributed(jvm, rows, metadata, distribution_mode(metadata, options.distribution), size)
    finished = jvm.once("files of finished tasks", lambda: FinishedFiles(jvm.context))
    work = replace(work, told=finished.told)
    with sized_batches(jvm.context, metadata.schema), finished.deleted_on_error(target.storage, work.write_id):
        made = together.mapInArrow(Carried(work), RESULT_SCHEMA).collect()
    return files_of(row[0] for row in made)


def publish(
    target: Table | Transaction, files: Sequence[DataFile], intent: Intent, options: WriteOptions, reads: Reads = BLIND
) -> None:
    """Commit files that rest on what was read of the table; if that fails for certain they are deleted."""
    with deleted_on_error(target.storage, files):
        actions = actions_of(target, options)
        change = _change(actions, files, intent, options, reads)
    if change is not None:
        make_changes(actions, [change], [file.file_path for file in files])


def actions_of(target: Table | Transaction, options: WriteOptions) -> FileActions:
    """Where the commit goes: to the table, to a branch of it, or to a stage."""
    if options.wap_id is not None and isinstance(target, Table):
        return Stage(target, options.wap_id)
    if options.branch is not None:
        return (
            target.branch(options.branch, create=True) if isinstance(target, Table) else target.branch(options.branch)
        )
    return target


def _change(
    actions: FileActions, files: Sequence[DataFile], intent: Intent, options: WriteOptions, reads: Reads
) -> Change | None:
    own = change_options(actions, options.summary, Isolation(options.isolation))
    own["fresh"] = True
    if not isinstance(intent, Append):
        reads = _older(reads, options.rests_on, actions.metadata)
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
