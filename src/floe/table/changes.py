"""What was changed from one snapshot of a table to another: every change, or only what was appended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime

import pyarrow as pa

from floe.arrow.reading.changes import CHANGE_COLUMNS, read_changes, with_change_columns
from floe.arrow.reading.streaming import OnProgress, read_plan
from floe.commit.operations.file_change import as_filter
from floe.commit.pointer import TableState
from floe.errors import InvalidInput
from floe.plan.changelog import ChangelogPlan, plan_changelog
from floe.plan.incremental import plan_appends
from floe.plan.ranges import snapshots_in_range
from floe.plan.scan_plan import ScanPlan
from floe.spec.expressions.binding import bind
from floe.spec.expressions.nodes import Expression
from floe.spec.metadata.snapshots import Snapshot, check_snapshot_id
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import unified_partition_type
from floe.spec.schemas.column_projection import select
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage
from floe.table.cards import Card, snapshot_line
from floe.table.lost_files import explaining_lost_files
from floe.table.moments import Moment, moment_of
from floe.table.row_source import RowSource, column_lines

__all__ = ["AppendedRows", "ChangeScan"]


class ChangeScan(RowSource):
    """The changes after one snapshot up to and with another: made by `Table.changes`.

    As rows they have the table's columns, and behind them `_change_type` (INSERT, DELETE, UPDATE_BEFORE, UPDATE_AFTER),
    `_change_ordinal` (the place of the snapshot, from 0) and `_commit_snapshot_id`.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> changes = lake.create_table("db.t", "id bigint").changes()
    >>> changes, list(changes.plan().tasks())
    (<changes of db.t: 0 snapshots>, [])
    >>> changes.to_arrow().schema.names
    ['id', '_change_type', '_change_ordinal', '_commit_snapshot_id']
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
        columns: str | Sequence[str] | None = None,
        where: Expression | str | None = None,
        updates: bool = False,
        identifiers: str | Sequence[str] | None = None,
        carry_over: bool = False,
        case_sensitive: bool = True,
    ) -> None:
        self._state, self._metadata, self._table, self._storage = state, state.metadata, table, storage
        self._after = _snapshot_id(self._metadata, since)
        self._until = _snapshot_id(self._metadata, until)
        self._branch = branch
        self._where = as_filter(where)
        if self._where is not None:  # so that a wrong one is told at once
            bind(self._where, self._metadata.schema, case_sensitive=case_sensitive)
        self._case_sensitive = case_sensitive
        self._carry_over = carry_over
        self._columns = self._selected(columns)
        self._keys = self._identifiers(updates, identifiers)
        self.schema: Schema = with_change_columns(self._columns)
        self.snapshots: tuple[Snapshot, ...] = snapshots_in_range(
            self._metadata, after=self._after, until=self._until, branch=branch
        )
        """The snapshots of the range, oldest first."""

    def _selected(self, columns: str | Sequence[str] | None) -> Schema:
        if columns is None:
            return self._metadata.schema
        names = [columns] if isinstance(columns, str) else list(columns)
        partitions = unified_partition_type(self._metadata.partition_specs, self._metadata.schemas)
        chosen = select(self._metadata.schema, names, case_sensitive=self._case_sensitive, partition_type=partitions)
        # the columns that tell of the change are always there, behind the others
        return Schema(tuple(field for field in chosen.fields if field not in CHANGE_COLUMNS), chosen.schema_id)

    def _identifiers(self, updates: bool, names: str | Sequence[str] | None) -> tuple[int, ...]:
        """The ids of the columns that identify a row, if updates are wanted."""
        schema = self._metadata.schema
        if not updates:
            if names is not None:
                raise InvalidInput("identifiers tell rows of updates apart", hint="pass updates=True with them")
            return ()
        if names is None:
            if not schema.identifier_field_ids:
                raise InvalidInput(
                    "the table has no identifier columns, by which rows of an update are found",
                    hint="name them with identifiers=[…], or set them in the table's schema",
                    table=self._table,
                )
            return schema.identifier_field_ids
        chosen = [names] if isinstance(names, str) else names
        return tuple(schema.field(name, case_sensitive=self._case_sensitive).id for name in chosen)

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

    def appended(self) -> AppendedRows:
        """The rows of `appends`."""
        return AppendedRows(self)

    def _read(
        self, *, batch_size: int, workers: int | None, progress: OnProgress | None, ordered: bool
    ) -> Iterator[pa.RecordBatch]:
        with explaining_lost_files(self._state, self._table):
            yield from read_changes(
                self.plan(),
                self._columns,
                self._storage,
                keys=self._keys,
                carry_over=self._carry_over,
                batch_size=batch_size,
                workers=workers,
                progress=progress,
            )

    def _card(self) -> Card:
        rows: list[tuple[str, str | Sequence[str]]] = [("columns", column_lines(self._columns))]
        if self._where is not None:
            rows.append(("where", str(self._where)))
        rows.append(("snapshots", [snapshot_line(snapshot) for snapshot in self.snapshots] or "none"))
        return Card(self._table, "changes", tuple(rows))

    def __repr__(self) -> str:
        count = len(self.snapshots)
        return f"<changes of {self._table}: {count} snapshot{'' if count == 1 else 's'}>"


class AppendedRows(RowSource):
    """The rows that the appends of a range of snapshots added, whatever became of them: `changes.appended()`.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> lake.create_table("db.t", "id bigint").changes().appended().to_arrow().num_rows
    0
    """

    def __init__(self, changes: ChangeScan) -> None:
        self._changes = changes
        self.schema = changes._columns

    def plan(self) -> ScanPlan:
        """The files that were appended."""
        return self._changes.appends()

    def _read(
        self, *, batch_size: int, workers: int | None, progress: OnProgress | None, ordered: bool
    ) -> Iterator[pa.RecordBatch]:
        changes = self._changes
        with explaining_lost_files(changes._state, changes._table):
            yield from read_plan(
                self.plan(),
                self.schema,
                changes._storage,
                batch_size=batch_size,
                workers=workers,
                progress=progress,
                ordered=ordered,
            )

    def _card(self) -> Card:
        return replace(self._changes._card(), kind="appended rows")

    def __repr__(self) -> str:
        return f"<appended rows of {self._changes!r}>"


def _snapshot_id(metadata: TableMetadata, end: int | Moment | None) -> int | None:
    """The snapshot that an end of a range means: by its id, a branch or tag, or what was current at a moment."""
    if isinstance(end, str) and end in metadata.refs:
        return metadata.refs[end].snapshot_id
    if isinstance(end, str | datetime | date):
        return metadata.snapshot_as_of(moment_of(end, metadata)).snapshot_id
    if end is not None:
        check_snapshot_id(end)
    return end
