"""What was changed from one snapshot of a table to another: every change, or only what was appended."""

from __future__ import annotations

from datetime import date, datetime

from floe.commit.operations.file_change import as_filter
from floe.commit.pointer import TableState
from floe.plan.changelog import ChangelogPlan, plan_changelog
from floe.plan.incremental import plan_appends
from floe.plan.ranges import snapshots_in_range
from floe.plan.scan_plan import ScanPlan
from floe.spec.expressions.binding import bind
from floe.spec.expressions.nodes import Expression
from floe.spec.metadata.snapshots import Snapshot, check_snapshot_id
from floe.spec.metadata.table_metadata import TableMetadata
from floe.storage.protocol import Storage
from floe.table.moments import Moment, moment_of

__all__ = ["ChangeScan"]


class ChangeScan:
    """The changes after one snapshot up to and with another: made by `Table.changes`.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> changes = lake.create_table("db.t", "id bigint").changes()
    >>> changes, list(changes.plan().tasks())
    (<changes of db.t: 0 snapshots>, [])
    """

    def __init__(
        self,
        state: TableState,
        table: str,
        storage: Storage,
        *,
        since: int | Moment | None = None,
        until: int | Moment | None = None,
        branch: str | None = None,
        where: Expression | str | None = None,
        case_sensitive: bool = True,
    ) -> None:
        self._metadata, self._table, self._storage = state.metadata, table, storage
        self._after = _snapshot_id(self._metadata, since)
        self._until = _snapshot_id(self._metadata, until)
        self._branch = branch
        self._where = as_filter(where)
        if self._where is not None:  # so that a wrong one is told at once
            bind(self._where, self._metadata.schema, case_sensitive=case_sensitive)
        self._case_sensitive = case_sensitive
        self.snapshots: tuple[Snapshot, ...] = snapshots_in_range(
            self._metadata, after=self._after, until=self._until, branch=branch
        )
        """The snapshots of the range, oldest first."""

    def plan(self) -> ChangelogPlan:
        """Every change, snapshot by snapshot: files added, files removed, rows deleted; rewrites change nothing."""
        return plan_changelog(
            self._metadata,
            self._storage,
            after=self._after,
            until=self._until,
            branch=self._branch,
            where=self._where,
            case_sensitive=self._case_sensitive,
        )

    def appends(self) -> ScanPlan:
        """Only what appends added, whatever became of it later."""
        return plan_appends(
            self._metadata,
            self._storage,
            after=self._after,
            until=self._until,
            branch=self._branch,
            where=self._where,
            case_sensitive=self._case_sensitive,
        )

    def __repr__(self) -> str:
        count = len(self.snapshots)
        return f"<changes of {self._table}: {count} snapshot{'' if count == 1 else 's'}>"


def _snapshot_id(metadata: TableMetadata, end: int | Moment | None) -> int | None:
    """The snapshot that an end of a range means: by its id, a branch or tag, or what was current at a moment."""
    if isinstance(end, str) and end in metadata.refs:
        return metadata.refs[end].snapshot_id
    if isinstance(end, str | datetime | date):
        return metadata.snapshot_as_of(moment_of(end, metadata)).snapshot_id
    if end is not None:
        check_snapshot_id(end)
    return end
