"""Streams written to a table: `df.writeStream.toTable("lake.db.t")`, every epoch once.

The tasks of an epoch write files, and the driver commits them in a snapshot that tells query and epoch. When an epoch
comes again, because the query failed between that commit and its checkpoint or because another driver of it is still
at work, the table has it already, and the files of the second time are thrown away.

Which epochs of a streaming query a table has: each snapshot of a stream says it in its summary, as Java's do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from floe.arrow.dml.base import deleted_on_error
from floe.commit.change import BLIND, Attempt, Change, Isolation
from floe.commit.operations.append import FastAppend
from floe.commit.operations.overwrite import Overwrite
from floe.commit.target import BranchTarget, CommitTarget
from floe.errors import AlreadyExists, NoSuchSnapshot, UnsupportedFeature
from floe.formats.arrow_arrays import constant_array
from floe.spark.bridge.interfaces.read import StreamingWrite
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.rules import Rewritable
from floe.spark.write.columns import places_of
from floe.spark.write.distribution import distribution_mode, with_partitions_together
from floe.spark.write.options import WriteOptions
from floe.spark.write.tasks import WriteTasks
from floe.spark.write.worker import WriteRows, files_of
from floe.spec.expressions.nodes import TRUE
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.ancestry import ancestors, unknown_before
from floe.spec.metadata.snapshots import MAIN_BRANCH, Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import TableUpdate
from floe.table.table import Table

# Which epochs of a streaming query a table has: each snapshot of a stream says it in its summary, as Java's do.

QUERY_ID: Final = "spark.sql.streaming.queryId"
EPOCH_ID: Final = "spark.sql.streaming.epochId"


def epoch_summary(query_id: str, epoch: int) -> dict[str, str]:
    """What the snapshot of an epoch says.

    >>> epoch_summary("q", 3)
    {'spark.sql.streaming.queryId': 'q', 'spark.sql.streaming.epochId': '3'}
    """
    return {QUERY_ID: query_id, EPOCH_ID: str(epoch)}


def last_epoch(metadata: TableMetadata, branch: str, query_id: str) -> int | None:
    """The newest epoch of a query that a branch has, by the snapshots that have not expired; None for none."""
    epochs = (_epoch(snapshot, query_id) for snapshot in ancestors(metadata, _head(metadata, branch)))
    return next((epoch for epoch in epochs if epoch is not None), None)


def _head(metadata: TableMetadata, branch: str) -> int | None:
    ref = metadata.refs.get(branch)
    if ref is None:
        return metadata.current_snapshot_id if branch == MAIN_BRANCH else None
    return ref.snapshot_id


def _epoch(snapshot: Snapshot, query_id: str) -> int | None:
    summary = snapshot.summary or {}
    known = summary.get(QUERY_ID) == query_id and summary.get(EPOCH_ID, "").isdigit()
    return int(summary[EPOCH_ID]) if known else None


def _below_the_cut(metadata: TableMetadata, branch: str) -> Iterator[Snapshot]:
    """The snapshots that may be in the history of a branch, though expiry has removed what would show it."""
    head = _head(metadata, branch)
    found = {one.snapshot_id for one in ancestors(metadata, head)}
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id not in found and unknown_before(metadata, head, snapshot.snapshot_id) is not None:
            yield snapshot


class EpochExists(AlreadyExists):
    """The table has an epoch already, so that it is not written again."""


@dataclass(frozen=True)
class EpochGuard:
    """A change that changes nothing, and refuses to publish what goes with it if the branch has the epoch by then.

    It is asked in each attempt of a commit, with the very state that the swap rests on. So two drivers of a query (one
    of them thought to be gone) cannot both commit an epoch, whenever they looked before.
    """

    branch: str
    query_id: str
    epoch: int

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """None; raises if the epoch is there, or may be there where history has expired."""
        metadata = attempt.metadata
        last = last_epoch(metadata, self.branch, self.query_id)
        for snapshot in _below_the_cut(metadata, self.branch) if last is None else ():
            kept = _epoch(snapshot, self.query_id)
            if kept is not None and self.epoch <= kept:
                raise NoSuchSnapshot(
                    f"it cannot be told whether branch {self.branch!r} has epoch {self.epoch} of this stream: snapshot "
                    f"{snapshot.snapshot_id} has epoch {kept}, and the snapshots between it and the head have expired",
                    hint="look whether the rows are there; if not, remove the tag or branch that keeps the snapshot",
                    query=self.query_id,
                )
        if last is not None and self.epoch <= last:
            raise EpochExists(
                f"the table has epoch {self.epoch} of this stream already, its last one is {last}",
                hint="another driver of the same query has committed it; stop one of them",
                query=self.query_id,
                branch=self.branch,
            )
        return ()


@dataclass(frozen=True)
class WriteStream:
    """Writes rows whose columns are some of the table's, in any order."""

    work: WriteRows
    places: tuple[int | None, ...]
    """For each column of the table its place in the rows, if they have it."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of a task."""
        return self.work(map(self._ordered, batches))

    def _ordered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        fields = self.work.metadata.schema.fields
        arrays = [
            constant_array(field.type, field.write_default, batch.num_rows) if place is None else batch.column(place)
            for field, place in zip(fields, self.places, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=[field.name for field in fields])


class TableStreamingWrite(StreamingWrite, Rewritable):
    """A write of a stream to a table: appends, or with `replaces` all rows anew in each epoch.

    Spark makes one for each epoch, so the table is written as it is then.
    """

    def __init__(
        self, jvm: Jvm, name: str, table: Table, options: WriteOptions, schema: Any, query_id: str, *, replaces: bool
    ) -> None:
        super().__init__(jvm)
        if options.wap_id is not None:
            raise UnsupportedFeature(
                "streams cannot be staged under spark.wap.id",
                hint="write to a branch, with spark.wap.branch",
                table=name,
            )
        self._name, self._options, self._schema, self._query_id = name, options, schema, query_id
        self._table = Table.load(table.commit_target.pointer)
        self._replaces, self._tasks = replaces, WriteTasks(jvm, self._table.storage)
        rows = jvm.read_data_type(schema)
        self._places = places_of(self._table.schema, rows, case_sensitive=jvm.is_case_sensitive, table=name)

    def title(self) -> str:
        """What plans show."""
        return f"Floe table {self._name}: stream"

    def rewritten(self, node: Any) -> Any:
        """The same with its rows brought together."""
        metadata = self._table.metadata
        mode = distribution_mode(metadata, self._options.distribution)
        query = node.query()
        together = with_partitions_together(self.jvm, query, metadata, mode)
        return node if together is query else node.withNewChildren(self.jvm.seq([together]))

    def createStreamingWriterFactory(self, info: Any) -> Any:
        """What writes the rows of a task, in an executor."""
        table = self._table
        work = WriteRows.of(table.metadata, table.storage, self._options.overrides)
        return self._tasks.factory(WriteStream(work, self._places), self._schema, table.schema, streaming=True)

    def commit(self, epoch: int, messages: Any) -> None:
        """Commit the files of an epoch, unless the table has it already."""
        files = files_of(self._tasks.results(messages))
        publish_epoch(self._table, files, self._query_id, epoch, self._options, replaces=self._replaces)

    def abort(self, epoch: int, messages: Any) -> None:
        """Delete the files of the tasks that had finished; a commit does so itself, unless it may have been made."""
        self._tasks.discard(messages)


def publish_epoch(
    table: Table,
    files: Sequence[DataFile],
    query_id: str,
    epoch: int,
    options: WriteOptions,
    *,
    replaces: bool = False,
) -> bool:
    """Commit the files of an epoch; False if the table has it already, and the files are thrown away."""
    with deleted_on_error(table.storage, files):
        table.refresh()
        target: CommitTarget = table.commit_target
        if options.branch is not None:
            target = BranchTarget(target, options.branch, create=True)
        summary = {**options.summary, **epoch_summary(query_id, epoch)}
        own = target.options(summary, Isolation(options.isolation))
        own["fresh"] = True
        change: Change
        if replaces:
            change = Overwrite(added=files, where=TRUE, reads=BLIND, **own)
        elif files:
            change = FastAppend(files, **own)
        else:
            return True
    once = EpochGuard(target.branch, query_id, epoch)
    try:
        target.commit([once, change], [file.file_path for file in files])
    except EpochExists:
        return False
    return True
