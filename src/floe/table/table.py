"""A table as a user has it: what it is, its history, its rows, and everything that changes it.

A `Table` shows the state in which it was loaded. Changes are made on the newest state, whatever others committed
meanwhile, and afterwards the object shows the result; `refresh` reads what others committed. Several threads may use
one object: each call works with one state from start to end, and the object shows the state of the last to finish.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from floe.commit.pointer import Pointer, TableState, load_existing
from floe.commit.target import TableTarget
from floe.spec.expressions.nodes import Expression
from floe.spec.metadata.snapshots import MAIN_BRANCH, Snapshot, SnapshotRef
from floe.spec.metadata.table_metadata import StatisticsFile
from floe.storage.environment import Environment
from floe.table.display import Card, table_card
from floe.table.evolution import Definition
from floe.table.hints import SCAN_ARGUMENTS, TABLE_NAMES, explain_missing_files, raise_no_attribute, suggest_arguments
from floe.table.history import HistoryEntry, history_of
from floe.table.human_values import Timestamp, duration_millis, to_millis
from floe.table.inspect import Inspect
from floe.table.maintenance import Expiration, compute_sketches, register_sketches, select_counted
from floe.table.refs import Refs
from floe.table.scan import ChangeScan, Scan
from floe.table.transaction import PendingTarget, Transaction
from floe.table.writer import Branch, Stage, Writer


class Table(Writer, Definition, Refs):
    """A table: `lake.table("db.orders")`, or `floe.open("warehouse/db/orders")`.

    Its methods come in three groups: those that change rows (`Writer`), those that show and change what the table is
    (`Definition`), and those for branches, tags and history (`Refs`).

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> t = lake.create_table("db.orders", "id bigint not null, ts timestamptz", partition_by=["day(ts)"])
    >>> t
    db.orders (table, format version 2)
      location    memory:warehouse/db/orders
      columns     id  long not null
                  ts  timestamptz
      partitions  day(ts)
      snapshot    none yet
      properties  write.parquet.compression-codec = zstd
    """

    def __init__(self, pointer: Pointer, state: TableState) -> None:
        self._table_target = TableTarget(pointer, state)
        super().__init__(self._table_target)

    @classmethod
    def load(cls, pointer: Pointer) -> Table:
        """The table that a catalog's pointer leads to; `NoSuchTable` if it does not exist."""
        return cls(pointer, load_existing(pointer))

    @property
    def commit_target(self) -> TableTarget:
        """What changes are committed to; engines commit through it."""
        return self._table_target

    @property
    def name(self) -> str:
        """The table's name, with its namespace; for a table that was opened without a catalog, its location."""
        return self._table_target.pointer.name

    @property
    def metadata_location(self) -> str:
        """The location of the metadata file that this object shows."""
        return self._state.location

    @property
    def uuid(self) -> str | None:
        """The table's UUID, which it keeps when it is renamed; None for tables of old writers."""
        return self.metadata.table_uuid

    @property
    def _state(self) -> TableState:
        return self._table_target.state

    # its history -------------------------------------------------------------------------------------------------

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """All snapshots that have not expired, in the order in which they were committed."""
        return self.metadata.snapshots

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The snapshot that readers see; None while nothing was written."""
        return self.metadata.current_snapshot

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """The snapshot with that id."""
        return self.metadata.snapshot(snapshot_id)

    @property
    def refs(self) -> Mapping[str, SnapshotRef]:
        """The branches and tags by name, read-only."""
        return MappingProxyType(self.metadata.refs)

    def history(self) -> tuple[HistoryEntry, ...]:
        """Which snapshot was current from when on, oldest first, with rollbacks."""
        return history_of(self.metadata)

    @property
    def inspect(self) -> Inspect:
        """The metadata tables, such as `t.inspect.snapshots()` and `t.inspect.files(where="record_count > 0")`."""
        return Inspect(self._state, self.name, self.storage)

    def refresh(self) -> Table:
        """Read what others committed; returns the same object.

        `NoSuchTable` if the table was dropped or renamed, also if another table has its name now.
        """
        self._table_target.refresh()
        return self

    # reading -----------------------------------------------------------------------------------------------------

    if not TYPE_CHECKING:  # type checkers report unknown attributes themselves

        def __getattr__(self, name: str) -> NoReturn:
            raise_no_attribute(self, name, TABLE_NAMES)

    @suggest_arguments(SCAN_ARGUMENTS)
    def scan(
        self,
        columns: str | Sequence[str] | None = None,
        where: Expression | str | None = None,
        *,
        snapshot: int | None = None,
        ref: str | None = None,
        as_of: Timestamp | None = None,
        case_sensitive: bool = True,
    ) -> Scan:
        """A read of the table: some columns or all, the rows that match a filter, now or at a time in the past.

        The filter is SQL text, or an expression of `floe.col`. Its comparisons of columns with constants prune files;
        everything else that SQL can compute, as in `delete`, is evaluated on the rows.

        The snapshot is chosen by its id, by a branch or tag (`ref`), or by a timestamp (`as_of`). A snapshot of the
        past is read with the columns that it had, a branch with the table's current columns.
        """
        return Scan(
            self._state,
            self.name,
            self.storage,
            columns=columns,
            where=where,
            snapshot=snapshot,
            ref=ref,
            as_of_ms=None if as_of is None else to_millis(as_of),
            environment=self.environment,
            case_sensitive=case_sensitive,
        )

    def changes(
        self,
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
    ) -> ChangeScan:
        """The changelog after one snapshot (`since`) up to and including another (`until`); by default all of it.

        The ends are snapshot ids, branches, tags or timestamps. Changes are rows that were inserted and rows that were
        deleted. With `updates`, a row that a commit deletes and inserts again under the same identifier is an update;
        the identifier columns are the schema's, unless `identifiers` names others. Rows that a commit only copied from
        one file to another are not changes; `carry_over` includes them.
        """
        return ChangeScan(
            self._state,
            self.name,
            self.storage,
            since=since,
            until=until,
            branch=branch,
            columns=columns,
            where=where,
            updates=updates,
            identifiers=identifiers,
            carry_over=carry_over,
            case_sensitive=case_sensitive,
        )

    # changing ----------------------------------------------------------------------------------------------------

    def branch(self, name: str, *, create: bool = False) -> TableBranch:
        """A branch, to read and to write; with `create` its first write creates it."""
        return TableBranch(self, name, create=create)

    def stage(self, wap_id: str) -> Stage:
        """A stage: what is committed to it is visible to no reader until `publish(wap_id)` (write, audit, publish)."""
        return Stage(self._table_target, wap_id)

    def transaction(self) -> Transaction:
        """Several changes, one commit: `with t.transaction() as tx: …`."""
        target = self._table_target
        return Transaction(PendingTarget(target.pointer, target.metadata), target.publish)

    def expire(
        self,
        *,
        older_than: timedelta | Timestamp | None = None,
        retain_last: int | None = None,
        snapshots: Iterable[int] = (),
        clean_metadata: bool = False,
    ) -> Expiration:
        """Expire old snapshots: `t.expire(older_than="7d").plan()` shows which, `.apply()` expires them.

        `older_than` is an age (`"7d"`, a timedelta) or a timestamp. The newest `retain_last` snapshots of each branch
        are kept, whatever their age. `snapshots` are ids that expire, whatever their age. Without these arguments the
        table's properties apply.
        """
        return Expiration(
            self._table_target,
            older_than_ms=_expiry_millis(older_than, self.environment),
            retain_last=retain_last,
            snapshots=snapshots,
            clean_metadata=clean_metadata,
        )

    def compute_statistics(
        self, columns: str | Sequence[str] | None = None, *, snapshot: int | None = None, case_sensitive: bool = True
    ) -> StatisticsFile | None:
        """Estimate the number of distinct values of columns, for query planners; None while nothing was written.

        Reads the rows of the current snapshot, or of another. The result is a statistics file with sketches that other
        engines can read and merge; the statistics of other columns are kept. By default all columns of primitive types
        are counted; nested columns are named with dots.

        >>> import floe
        >>> lake = floe.connect("memory:")
        >>> lake.create_namespace("db")
        >>> t = lake.create_table("db.orders", "id bigint, state string")
        >>> _ = t.append([{"id": 1, "state": "new"}, {"id": 2, "state": "new"}])
        >>> [blob.properties for blob in t.compute_statistics().blob_metadata]
        [{'ndv': '2'}, {'ndv': '1'}]
        """
        self.refresh()
        names = [columns] if isinstance(columns, str) else columns
        with explain_missing_files(self._state, self.name):
            counted = select_counted(self.scan(snapshot=snapshot), names, case_sensitive=case_sensitive)
            if counted is None:
                return None
            sketches = compute_sketches(counted, self.storage)
            return register_sketches(self._table_target, counted.snapshot, sketches)

    # shown -------------------------------------------------------------------------------------------------------

    def _card(self) -> Card:
        return table_card(self.name, self.metadata)

    def __repr__(self) -> str:
        return self._card().text()

    def _repr_html_(self) -> str:
        return self._card().html()


class TableBranch(Branch):
    """A branch of a table, to read as well as to write."""

    def __init__(self, table: Table, name: str, *, create: bool = False) -> None:
        super().__init__(table.commit_target, name, create=create)
        self._table = table

    def scan(
        self,
        columns: str | Sequence[str] | None = None,
        where: Expression | str | None = None,
        *,
        case_sensitive: bool = True,
    ) -> Scan:
        """A read of the branch; see `Table.scan`."""
        return self._table.scan(columns, where, ref=self.name, case_sensitive=case_sensitive)

    def rollback(self, to: int | Timestamp) -> None:
        """Move the branch back in its history; see `Table.rollback`."""
        self._table.rollback(to, branch=self.name)

    def cherry_pick(self, snapshot: int) -> Snapshot | None:
        """Apply the changes of a snapshot to the branch; see `Table.cherry_pick`."""
        return self._table.cherry_pick(snapshot, branch=self.name)

    def fast_forward(self, to: str | int = MAIN_BRANCH) -> None:
        """Move the branch forward to another one that has all of its commits."""
        self._table.fast_forward(self.name, to)


_DATE = re.compile(r"\s*[+-]?\d{4,}-")


def _expiry_millis(older_than: timedelta | Timestamp | None, environment: Environment) -> int | None:
    """The timestamp that an age (a timedelta, or text such as `7d`) or a timestamp stands for."""
    if isinstance(older_than, timedelta) or (isinstance(older_than, str) and not _DATE.match(older_than)):
        return environment.clock.now_ms() - duration_millis(older_than)
    return None if older_than is None else to_millis(older_than)
