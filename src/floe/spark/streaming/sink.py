"""A table as the sink of a stream: `df.writeStream.toTable("lake.db.t")`, with each epoch written exactly once.

The tasks of an epoch write files. The driver commits them in a snapshot whose summary has the ids of the query and of
the epoch, as Java Iceberg writes them. Spark runs an epoch again if the query failed between the commit and its
checkpoint, and two drivers may run the same query. The table then has the epoch already (`EpochGuard`), and the files
of the second run are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from floe.arrow.dml.base import delete_on_error
from floe.commit.change import BLIND, Attempt, Change, Isolation
from floe.commit.operations.data_changes import FastAppend, Overwrite
from floe.commit.target import BranchTarget, CommitTarget
from floe.errors import AlreadyExists, NoSuchSnapshot, UnsupportedFeature
from floe.formats.columns.arrays import constant_array
from floe.spark.bridge.interfaces.read import StreamingWrite
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.rules import Rewritable
from floe.spark.write.columns import column_indexes
from floe.spark.write.distribution import distribution_mode, repartition_by_partition
from floe.spark.write.options import WriteOptions
from floe.spark.write.tasks import WriteTasks
from floe.spark.write.worker import WriteRows, unpickle_files
from floe.spec.expressions.nodes import TRUE
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.ancestry import ancestors, unknown_before
from floe.spec.metadata.snapshots import MAIN_BRANCH, Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import TableUpdate
from floe.table.table import Table

# Epochs of a table ----------------------------------------------------------------------------------------------------

QUERY_ID: Final = "spark.sql.streaming.queryId"
EPOCH_ID: Final = "spark.sql.streaming.epochId"


def epoch_summary(query_id: str, epoch: int) -> dict[str, str]:
    """The entries of a snapshot's summary for an epoch of a query.

    >>> epoch_summary("q", 3)
    {'spark.sql.streaming.queryId': 'q', 'spark.sql.streaming.epochId': '3'}
    """
    return {QUERY_ID: query_id, EPOCH_ID: str(epoch)}


def last_epoch(metadata: TableMetadata, branch: str, query_id: str) -> int | None:
    """The last epoch of a query in the history of a branch; None if it has none, or the snapshots have expired."""
    epochs = (_epoch(snapshot, query_id) for snapshot in ancestors(metadata, _head(metadata, branch)))
    return next((epoch for epoch in epochs if epoch is not None), None)


def _head(metadata: TableMetadata, branch: str) -> int | None:
    ref = metadata.refs.get(branch)
    if ref is None:
        return metadata.current_snapshot_id if branch == MAIN_BRANCH else None
    return ref.snapshot_id


def _epoch(snapshot: Snapshot, query_id: str) -> int | None:
    summary = snapshot.summary or {}
    has_epoch = summary.get(QUERY_ID) == query_id and summary.get(EPOCH_ID, "").isdigit()
    return int(summary[EPOCH_ID]) if has_epoch else None


def _disconnected_snapshots(metadata: TableMetadata, branch: str) -> Iterator[Snapshot]:
    """The snapshots that may belong to the history of a branch, but whose descendants in it have expired."""
    head = _head(metadata, branch)
    history = {snapshot.snapshot_id for snapshot in ancestors(metadata, head)}
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id not in history and unknown_before(metadata, head, snapshot.snapshot_id) is not None:
            yield snapshot


class EpochExists(AlreadyExists):
    """The table has an epoch already, so it is not written again."""


@dataclass(frozen=True)
class EpochGuard:
    """A change without updates that makes the commit fail if the branch already has an epoch.

    It is evaluated in each attempt of a commit, on the metadata that the attempt is based on. So two drivers of a query
    cannot both commit an epoch, whatever they saw before.
    """

    branch: str
    query_id: str
    epoch: int

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """No updates; raises `EpochExists` if the branch has the epoch.

        Raises `NoSuchSnapshot` if that cannot be decided, because a part of the history has expired.
        """
        metadata = attempt.metadata
        last = last_epoch(metadata, self.branch, self.query_id)
        for snapshot in _disconnected_snapshots(metadata, self.branch) if last is None else ():
            newer_epoch = _epoch(snapshot, self.query_id)
            if newer_epoch is not None and self.epoch <= newer_epoch:
                raise NoSuchSnapshot(
                    f"it is not known whether branch {self.branch!r} has epoch {self.epoch} of this stream: snapshot "
                    f"{snapshot.snapshot_id} has epoch {newer_epoch}, and the snapshots between it and the head "
                    "have expired",
                    hint="check whether the table has the rows; if not, remove the tag or branch of the snapshot",
                    query=self.query_id,
                )
        if last is not None and self.epoch <= last:
            raise EpochExists(
                f"the table already has epoch {self.epoch} of this stream; its last one is {last}",
                hint="another driver of the same query has committed it; stop one of them",
                query=self.query_id,
                branch=self.branch,
            )
        return ()


@dataclass(frozen=True)
class WriteStream:
    """Writes rows that have some of the table's columns, in any order."""

    work: WriteRows
    indexes: tuple[int | None, ...]
    """For each column of the table, its index in the rows; None if they do not have it."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of a task; returns what `WriteRows` returns."""
        return self.work(map(self._align_columns, batches))

    def _align_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        fields = self.work.metadata.schema.fields
        arrays = [
            constant_array(field.type, field.write_default, batch.num_rows) if index is None else batch.column(index)
            for field, index in zip(fields, self.indexes, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=[field.name for field in fields])


class TableStreamingWrite(StreamingWrite, Rewritable):
    """Spark's write of a stream to a table: appends, or with `replaces` overwrites all rows in each epoch.

    Spark creates one for each epoch, with the table as it is then.
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
        self._indexes = column_indexes(self._table.schema, rows, case_sensitive=jvm.is_case_sensitive, table=name)

    def title(self) -> str:
        """The name of the write in plans."""
        return f"Floe table {self._name}: stream"

    def rewrite(self, node: Any) -> Any:
        """The node of the write in a plan, with its rows repartitioned as the table's distribution mode requires."""
        metadata = self._table.metadata
        mode = distribution_mode(metadata, self._options.distribution)
        query = node.query()
        repartitioned = repartition_by_partition(self.jvm, query, metadata, mode)
        return node if repartitioned is query else node.withNewChildren(self.jvm.seq([repartitioned]))

    def createStreamingWriterFactory(self, info: Any) -> Any:
        """The factory of the writers of tasks, which Spark sends to the executors."""
        table = self._table
        work = WriteRows.of(table.metadata, table.storage, self._options.overrides)
        return self._tasks.factory(WriteStream(work, self._indexes), self._schema, table.schema, streaming=True)

    def commit(self, epoch: int, messages: Any) -> None:
        """Commit the files of an epoch, unless the table has it already."""
        files = unpickle_files(self._tasks.results(messages))
        commit_epoch(self._table, files, self._query_id, epoch, self._options, replaces=self._replaces)

    def abort(self, epoch: int, messages: Any) -> None:
        """Delete the files of finished tasks.

        A commit that fails deletes its files itself, unless it is not known whether it succeeded.
        """
        self._tasks.discard(messages)


def commit_epoch(
    table: Table,
    files: Sequence[DataFile],
    query_id: str,
    epoch: int,
    options: WriteOptions,
    *,
    replaces: bool = False,
) -> bool:
    """Commit the files of an epoch; returns False if the table already has it, after deleting the files."""
    with delete_on_error(table.storage, files):
        table.refresh()
        target: CommitTarget = table.commit_target
        if options.branch is not None:
            target = BranchTarget(target, options.branch, create=True)
        summary = {**options.summary, **epoch_summary(query_id, epoch)}
        commit_options = target.options(summary, Isolation(options.isolation))
        commit_options["fresh"] = True
        change: Change
        if replaces:
            change = Overwrite(added=files, where=TRUE, reads=BLIND, **commit_options)
        elif files:
            change = FastAppend(files, **commit_options)
        else:
            return True
    guard = EpochGuard(target.branch, query_id, epoch)
    try:
        target.commit([guard, change], [file.file_path for file in files])
    except EpochExists:
        return False
    return True
