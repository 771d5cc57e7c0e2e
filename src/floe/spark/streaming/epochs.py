"""Which epochs of a streaming query a table has: each snapshot of a stream says it in its summary, as Java's do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from floe.commit.change import Attempt
from floe.errors import AlreadyExists, NoSuchSnapshot
from floe.spec.metadata.history import ancestors, unknown_before
from floe.spec.metadata.refs import MAIN_BRANCH
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import TableUpdate

__all__ = ["EpochExists", "OnlyOnce", "epoch_summary", "last_epoch"]

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
class OnlyOnce:
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
