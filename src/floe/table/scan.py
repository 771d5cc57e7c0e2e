"""A read of a table: which columns and rows, as of when, and what it takes to get them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa

from floe.arrow.reading.changes import CHANGE_COLUMNS
from floe.arrow.reading.counting import count_plan
from floe.arrow.reading.streaming import OnProgress, read_plan
from floe.commit.operations.file_change import as_filter
from floe.commit.pointer import TableState
from floe.errors import InvalidInput, NoSuchColumn
from floe.plan.scan import plan_scan
from floe.plan.scan_plan import ScanPlan
from floe.plan.snapshots import choose_snapshot, schema_for
from floe.spec.expressions.binding import bind
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.partitioning.partition_spec import unified_partition_type
from floe.spec.schemas.column_projection import select
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage
from floe.table.cards import Card, snapshot_line
from floe.table.lost_files import explaining_lost_files
from floe.table.other_names import SCAN_NAMES, no_such_name
from floe.table.row_source import RowSource, column_lines

__all__ = ["Scan"]


class Scan(RowSource):
    """Rows to be read: made by `Table.scan`, which says how to choose them.

    A scan always gives the same rows, whatever is committed meanwhile, until its snapshot expires.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> t = lake.create_table("db.t", "id bigint, name string")
    >>> scan = t.scan(columns=["name"], where="id > 5")
    >>> scan
    <Scan of db.t: name where id > 5, no snapshot yet>
    >>> scan.count(), scan.files(), scan.to_arrow().schema.names
    (0, [], ['name'])
    """

    def __init__(
        self,
        state: TableState,
        table: str,
        storage: Storage,
        *,
        columns: str | Sequence[str] | None = None,
        where: Expression | str | None = None,
        snapshot: int | None = None,
        ref: str | None = None,
        as_of_ms: int | None = None,
        case_sensitive: bool = True,
    ) -> None:
        metadata = state.metadata
        self._state, self._metadata, self._table, self._storage = state, metadata, table, storage
        self._case_sensitive = case_sensitive
        self.snapshot: Snapshot | None = choose_snapshot(metadata, snapshot=snapshot, ref=ref, as_of_ms=as_of_ms)
        """The snapshot that is read; None while the table has none."""

        self.table_schema: Schema = schema_for(metadata, snapshot=snapshot, ref=ref, as_of_ms=as_of_ms)
        """All columns that there are to read."""

        where = as_filter(where)
        self.where: Expression = TRUE if where is None else where
        """The filter."""

        bind(self.where, self.table_schema, case_sensitive=case_sensitive)  # so that a wrong one is told at once
        self.schema: Schema = self.table_schema if columns is None else self._selected(columns)
        """The columns that are read."""

    def _selected(self, columns: str | Sequence[str]) -> Schema:
        if not isinstance(columns, Iterable):
            raise InvalidInput(f"columns are a list of names, found {columns!r:.80}")
        names = [columns] if isinstance(columns, str) else list(columns)
        for name in names:
            if not isinstance(name, str):
                raise InvalidInput(f"the name of a column is text, found {name!r:.80}")
        partitions = unified_partition_type(self._metadata.partition_specs, self._metadata.schemas)
        chosen = select(self.table_schema, names, case_sensitive=self._case_sensitive, partition_type=partitions)
        of_changes = [field.name for field in chosen.fields if field in CHANGE_COLUMNS]
        if of_changes:
            raise NoSuchColumn(
                f"a scan has no column {of_changes[0]!r}: it tells of a change",
                hint="read `table.changes()`",
                table=self._table,
            )
        return chosen

    if not TYPE_CHECKING:  # who checks types is told of every name that is not there

        def __getattr__(self, name: str) -> NoReturn:
            no_such_name(self, name, SCAN_NAMES)

    def plan(self) -> ScanPlan:
        """The files to be read, with the deletes to apply and what is left of the filter for each; planned once."""
        return self._plan

    @cached_property
    def _plan(self) -> ScanPlan:
        with explaining_lost_files(self._state, self._table):
            return plan_scan(
                self._metadata,
                self._storage,
                snapshot=self.snapshot,
                schema=self.table_schema,
                where=self.where,
                case_sensitive=self._case_sensitive,
            )

    def files(self) -> list[str]:
        """The locations of the data files to be read."""
        paths: list[str] = self.plan().files_to_arrow()["file_path"].to_pylist()
        return paths

    def _read(
        self, *, batch_size: int, workers: int | None, progress: OnProgress | None, ordered: bool
    ) -> Iterator[pa.RecordBatch]:
        with explaining_lost_files(self._state, self._table):
            yield from read_plan(
                self.plan(),
                self.schema,
                self._storage,
                batch_size=batch_size,
                workers=workers,
                progress=progress,
                ordered=ordered,
            )

    def count(self, *, workers: int | None = None, progress: OnProgress | None = None) -> int:
        """How many rows there are: told from metadata as far as it tells, and by reading the files that are left."""
        with explaining_lost_files(self._state, self._table):
            count = count_plan(self.plan(), self._storage, workers=workers, progress=progress)
        return count if self._limit is None else min(count, self._limit)

    def explain(self) -> str:
        """What would be read and why, for people: the snapshot, the files kept and left out, the rest of the filter."""
        head = "none yet" if self.snapshot is None else snapshot_line(self.snapshot)
        columns = ", ".join(field.name for field in self.schema) or "none"
        lines = {"table": self._table, "snapshot": head, "columns": columns}
        return "\n".join([*(f"{what:<18}{text}" for what, text in lines.items()), self.plan().explain()])

    def __repr__(self) -> str:
        columns = ", ".join(field.name for field in self.schema.fields[:8]) + ", …" * (len(self.schema) > 8)
        where = "" if self.where is TRUE else f" where {self.where}"
        limit = "" if self._limit is None else f", at most {self._limit} rows"
        when = "no snapshot yet" if self.snapshot is None else f"snapshot {self.snapshot.snapshot_id}"
        return f"<Scan of {self._table}: {columns or 'no columns'}{where}{limit}, {when}>"

    def _card(self) -> Card:
        rows: list[tuple[str, str | Sequence[str]]] = [("columns", column_lines(self.schema))]
        if self.where is not TRUE:
            rows.append(("where", str(self.where)))
        if self._limit is not None:
            rows.append(("limit", f"{self._limit:,}"))
        rows.append(("snapshot", "none yet" if self.snapshot is None else snapshot_line(self.snapshot)))
        return Card(self._table, "rows to be read", tuple(rows))
