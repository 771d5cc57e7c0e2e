"""The history of a table: which snapshot was current from when on, from the snapshot log.

This module is small because `floe history` and `floe show` read metadata without loading `floe.table.table`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from floe.spec.metadata.ancestry import ancestors
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.values.civil_time import millis_to_text


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An entry of the snapshot log: a snapshot became the current one of `main`.

    >>> print(HistoryEntry(1715940000000, 7, None, True))
    2024-05-17 10:00:00 UTC  snapshot 7, which has expired
    """

    timestamp_ms: int
    snapshot_id: int
    snapshot: Snapshot | None
    """The snapshot; None if it has expired."""

    is_current_ancestor: bool
    """Whether the current snapshot descends from it; False after a rollback."""

    @property
    def operation(self) -> str | None:
        """The snapshot's operation: append, overwrite, delete or replace."""
        return None if self.snapshot is None else self.snapshot.operation

    @property
    def made_current_at(self) -> datetime:
        """The timestamp, in UTC."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.timestamp_ms)

    def __str__(self) -> str:
        operation = "which has expired" if self.snapshot is None else self.operation or "of an unknown operation"
        rolled_back = "" if self.is_current_ancestor or self.snapshot is None else ", rolled back"
        return f"{millis_to_text(self.timestamp_ms)}  snapshot {self.snapshot_id}, {operation}{rolled_back}"


def history_of(metadata: TableMetadata) -> tuple[HistoryEntry, ...]:
    """The entries of the snapshot log, oldest first."""
    current = {snapshot.snapshot_id for snapshot in ancestors(metadata, metadata.current_snapshot_id)}
    return tuple(
        HistoryEntry(
            entry.timestamp_ms,
            entry.snapshot_id,
            metadata.snapshots_by_id.get(entry.snapshot_id),
            entry.snapshot_id in current,
        )
        for entry in metadata.snapshot_log
    )
