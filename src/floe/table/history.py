"""The history of a table as a list of what was current, when, and how it came about."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from floe.spec.metadata.history import ancestors
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.table.moments import millis_text

__all__ = ["HistoryEntry", "history_of"]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """From when on a snapshot was what readers of `main` saw.

    >>> print(HistoryEntry(1715940000000, 7, None, True))
    2024-05-17 10:00:00 UTC  snapshot 7, which has expired
    """

    timestamp_ms: int
    snapshot_id: int
    snapshot: Snapshot | None
    """The snapshot; None if it has expired."""

    is_current_ancestor: bool
    """Whether what it did is in what readers see now; not so after a rollback."""

    @property
    def operation(self) -> str | None:
        """What the snapshot did: append, overwrite, delete or replace."""
        return None if self.snapshot is None else self.snapshot.operation

    @property
    def made_current_at(self) -> datetime:
        """The time, in UTC."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.timestamp_ms)

    def __str__(self) -> str:
        what = "which has expired" if self.snapshot is None else self.operation or "of an unknown operation"
        back = "" if self.is_current_ancestor or self.snapshot is None else ", rolled back"
        return f"{millis_text(self.timestamp_ms)}  snapshot {self.snapshot_id}, {what}{back}"


def history_of(metadata: TableMetadata) -> tuple[HistoryEntry, ...]:
    """What was current on `main`, oldest first, as the snapshot log tells."""
    present = {snapshot.snapshot_id for snapshot in ancestors(metadata, metadata.current_snapshot_id)}
    return tuple(
        HistoryEntry(
            entry.timestamp_ms,
            entry.snapshot_id,
            metadata.snapshots_by_id.get(entry.snapshot_id),
            entry.snapshot_id in present,
        )
        for entry in metadata.snapshot_log
    )
