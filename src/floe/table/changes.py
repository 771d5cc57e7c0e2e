"""The changelog of a table between two snapshots: every change, or only the rows that were appended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime

import pyarrow as pa

from floe.arrow.reading.changelog import CHANGE_COLUMNS, read_changes, with_change_columns
from floe.arrow.reading.streams import OnProgress, read_plan
from floe.commit.pointer import TableState
from floe.errors import InvalidInput
from floe.plan.changelog import ChangelogPlan, plan_changelog
from floe.plan.scan import ScanOptions, plan_appends
from floe.plan.scan_plan import ScanPlan
from floe.plan.snapshot_selection import SnapshotRange, snapshots_in_range
from floe.spec.expressions.binding import bind
from floe.spec.expressions.nodes import Expression
from floe.spec.metadata.snapshots import Snapshot, check_snapshot_id
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import unified_partition_type
from floe.spec.schemas.column_projection import select
from floe.spec.schemas.schema import Schema
from floe.sql.filters import as_filter
from floe.storage.protocol import Storage
from floe.table.display import Card, snapshot_line
from floe.table.hints import explain_missing_files
from floe.table.human_values import Timestamp, timestamp_millis
from floe.table.scan import RowSource, column_lines


class ChangeScan(RowSource):
    """The changes after one snapshot up to and including another, made by `Table.changes`.

    Rows have the table's columns, then `_change_type` (INSERT, DELETE, UPDATE_BEFORE, UPDATE_AFTER), `_change_ordinal`
    (the index of the snapshot in the range, from 0) and `_commit_snapshot_id`.

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
        since: int | Timestamp | None = None,
        until: int | Timestamp | None = None,
        branch: str | None = None,
        columns: str | Sequence[str] | None = None,
        where: Expression | str | None = None,
        updates: bool = False,
        identifiers: str | Sequence[str] | None = None,
        carry_over: bool = False,
        case_sensitive: bool = True,
    ) -> None:
        self._state, self._metadata, self._table, self._storage = state, state.metadata, table, storage
        self._range = SnapshotRange(
            after=_snapshot_id(self._metadata, since), until=_snapshot_id(self._metadata, until), branch=branch
        )
        self._where = as_filter(where)
        if self._where is not None:  # bound here, so that an invalid filter fails at once
            bind(self._where, self._metadata.schema, case_sensitive=case_sensitive)
        self._case_sensitive = case_sensitive
        self._options = ScanOptions(where=self._where, case_sensitive=case_sensitive)
        self._carry_over = carry_over
        self._keys = self._identifiers(updates, identifiers)
        self.row_schema: Schema = self._selected(columns)
        """The columns of the table that are read."""

        self.schema: Schema = with_change_columns(self.row_schema)
        self.snapshots: tuple[Snapshot, ...] = snapshots_in_range(self._metadata, self._range)
        """The snapshots of the range, oldest first."""

    def _selected(self, columns: str | Sequence[str] | None) -> Schema:
        if columns is None:
            return self._metadata.schema
        names = [columns] if isinstance(columns, str) else list(columns)
        partitions = unified_partition_type(self._metadata.partition_specs, self._metadata.schemas)
        selected = select(self._metadata.schema, names, case_sensitive=self._case_sensitive, partition_type=partitions)
        # the change columns are always added, after the others
        return Schema(tuple(field for field in selected.fields if field not in CHANGE_COLUMNS), selected.schema_id)

    def _identifiers(self, updates: bool, names: str | Sequence[str] | None) -> tuple[int, ...]:
        """The field ids of the columns that identify a row; none unless updates are asked for."""
        schema = self._metadata.schema
        if not updates:
            if names is not None:
                raise InvalidInput("identifiers need updates=True", hint="pass updates=True with them")
            return ()
        if names is None:
            if not schema.identifier_field_ids:
                raise InvalidInput(
                    "the table has no identifier columns, which updates are matched by",
                    hint="pass identifiers=[…], or set them in the table's schema",
                    table=self._table,
                )
            return schema.identifier_field_ids
        columns = [names] if isinstance(names, str) else names
        return tuple(schema.field(name, case_sensitive=self._case_sensitive).id for name in columns)

    def plan(self) -> ChangelogPlan:
        """Every change, snapshot by snapshot: files added, files removed, rows deleted; rewrites are no changes."""
        return plan_changelog(self._metadata, self._storage, self._range, options=self._options)

    def appends(self) -> ScanPlan:
        """The files that appends added, even if their rows were changed later."""
        return plan_appends(self._metadata, self._storage, self._range, options=self._options)

    def appended(self) -> AppendedRows:
        """The rows of `appends`."""
        card = replace(self._card(), kind="appended rows")
        return AppendedRows(self, self._state, self._table, self._storage, card)

    def _read(
        self, *, batch_size: int, workers: int | None, progress: OnProgress | None, ordered: bool
    ) -> Iterator[pa.RecordBatch]:
        with explain_missing_files(self._state, self._table):
            yield from read_changes(
                self.plan(),
                self.row_schema,
                self._storage,
                keys=self._keys,
                carry_over=self._carry_over,
                batch_size=batch_size,
                workers=workers,
                progress=progress,
            )

    def _card(self) -> Card:
        rows: list[tuple[str, str | Sequence[str]]] = [("columns", column_lines(self.row_schema))]
        if self._where is not None:
            rows.append(("where", str(self._where)))
        rows.append(("snapshots", [snapshot_line(snapshot) for snapshot in self.snapshots] or "none"))
        return Card(self._table, "changes", tuple(rows))

    def __repr__(self) -> str:
        count = len(self.snapshots)
        return f"<changes of {self._table}: {count} snapshot{'' if count == 1 else 's'}>"


class AppendedRows(RowSource):
    """The rows that appends added in a range of snapshots, even if they were changed later: `changes.appended()`.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> lake.create_table("db.t", "id bigint").changes().appended().to_arrow().num_rows
    0
    """

    def __init__(self, changes: ChangeScan, state: TableState, table: str, storage: Storage, card: Card) -> None:
        self._changes, self._state, self._table, self._storage = changes, state, table, storage
        self._shown = card
        self.schema = changes.row_schema

    def plan(self) -> ScanPlan:
        """The files that were appended."""
        return self._changes.appends()

    def _read(
        self, *, batch_size: int, workers: int | None, progress: OnProgress | None, ordered: bool
    ) -> Iterator[pa.RecordBatch]:
        with explain_missing_files(self._state, self._table):
            yield from read_plan(
                self.plan(),
                self.schema,
                self._storage,
                batch_size=batch_size,
                workers=workers,
                progress=progress,
                ordered=ordered,
            )

    def _card(self) -> Card:
        return self._shown

    def __repr__(self) -> str:
        return f"<appended rows of {self._changes!r}>"


def _snapshot_id(metadata: TableMetadata, end: int | Timestamp | None) -> int | None:
    """The snapshot at an end of a range, given by its id, a branch or tag, or a timestamp."""
    if isinstance(end, str) and end in metadata.refs:
        return metadata.refs[end].snapshot_id
    if isinstance(end, str | datetime | date):
        return metadata.snapshot_as_of(timestamp_millis(end, metadata)).snapshot_id
    if end is not None:
        check_snapshot_id(end)
    return end
