"""Which epochs of a streaming query a table has: each snapshot of a stream says it in its summary, as Java's do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from floe.commit.change import Attempt
from floe.errors import AlreadyExists
from floe.spec.metadata.history import ancestors
from floe.spec.metadata.refs import MAIN_BRANCH
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
    ref = metadata.refs.get(branch)
    head = None if ref is None else ref.snapshot_id
    if ref is None and branch == MAIN_BRANCH:
        head = metadata.current_snapshot_id
    for snapshot in ancestors(metadata, head):
        summary = snapshot.summary or {}
        if summary.get(QUERY_ID) == query_id and summary.get(EPOCH_ID, "").isdigit():
            return int(summary[EPOCH_ID])
    return None


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
        """None; raises if the epoch is there."""
        last = last_epoch(attempt.metadata, self.branch, self.query_id)
        if last is not None and self.epoch <= last:
            raise EpochExists(
                f"the table has epoch {self.epoch} of this stream already, its last one is {last}",
                hint="another driver of the same query has committed it; stop one of them",
                query=self.query_id,
                branch=self.branch,
            )
        return ()
