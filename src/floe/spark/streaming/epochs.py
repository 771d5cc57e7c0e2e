"""Which epochs of a streaming query a table has: each snapshot of a stream says it in its summary, as Java's do."""

from __future__ import annotations

from typing import Final

from floe.spec.metadata.history import ancestors
from floe.spec.metadata.refs import MAIN_BRANCH
from floe.spec.metadata.table_metadata import TableMetadata

__all__ = ["epoch_summary", "last_epoch"]

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
