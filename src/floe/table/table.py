"""A table as a user holds it: what it is, what it holds, and everything that can be done with it.

A `Table` shows the state that it was loaded in. What is done through it is made on the newest state, whatever others
committed meanwhile, and afterwards the object shows the result; `refresh` reads what others did. Several threads may
use one object: each call works with one state from its beginning to its end, and the last to finish is what it shows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

from floe.commit.change import BranchChange, Change
from floe.commit.cleanup import delete_uncommitted
from floe.commit.loop import commit
from floe.commit.outcomes import Committed, Landing
from floe.commit.pointer import Pointer, TableState
from floe.errors import CommitStateUnknown, FloeError, NoSuchTable
from floe.spec.expressions.nodes import Expression
from floe.spec.metadata.refs import MAIN_BRANCH, SnapshotRef
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.statistics import StatisticsFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.uuids import check_same_table
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.schema import Schema
from floe.spec.sorting import SortOrder
from floe.storage.environment import Environment
from floe.storage.protocol import Storage
from floe.table.actions import Builder
from floe.table.branch import Branch, Stage
from floe.table.cards import Card, table_card
from floe.table.changes import ChangeScan
from floe.table.expiry import Expiration
from floe.table.history import HistoryEntry, history_of
from floe.table.inspect import Inspect
from floe.table.layout_actions import LayoutActions
from floe.table.lost_files import explaining_lost_files
from floe.table.moments import Moment, duration_millis, to_millis
from floe.table.other_names import SCAN_ARGUMENTS, TABLE_NAMES, knowing_other_names, no_such_name
from floe.table.ref_actions import RefActions
from floe.table.row_changes import RowChanges
from floe.table.scan import Scan
from floe.table.statistics import counting, register_sketches, sketches_here
from floe.table.transaction import Transaction

__all__ = ["Table", "TableBranch"]


class Table(RowChanges, LayoutActions, RefActions):
    """A table: `lake.table("db.orders")`, or `floe.open("warehouse/db/orders")`.

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
        self._pointer = pointer
        self._state = state

    @classmethod
    def load(cls, pointer: Pointer) -> Table:
        """The table that a catalog's pointer leads to; `NoSuchTable` if there is none."""
        state = pointer.load()
        if state is None:
            raise NoSuchTable("there is no such table", table=pointer.name)
        return cls(pointer, state)

    # what it is --------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The table's name, with its namespace; of a table that was opened without a catalog, its location."""
        return self._pointer.name

    @property
    def metadata(self) -> TableMetadata:
        """Everything that the table's metadata file says."""
        return self._state.metadata

    @property
    def metadata_location(self) -> str:
        """Where the metadata file is that this object shows."""
        return self._state.location

    @property
    def location(self) -> str:
        """The folder that new files go to."""
        return self.metadata.location

    @property
    def uuid(self) -> str | None:
        """The table's identity, which stays whatever it is called; None for tables of old writers."""
        return self.metadata.table_uuid

    @property
    def format_version(self) -> int:
        """The version of the table format: 1, 2 or 3."""
        return self.metadata.format_version

    @property
    def schema(self) -> Schema:
        """The columns."""
        return self.metadata.schema

    @property
    def spec(self) -> PartitionSpec:
        """The partitioning that writers use."""
        return self.metadata.spec

    @property
    def sort_order(self) -> SortOrder:
        """The sort order that writers use."""
        return self.metadata.sort_order

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties, to look at; `set_properties` changes them."""
        return MappingProxyType(self.metadata.properties)

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""
        return self._pointer.storage

    @property
    def environment(self) -> Environment:
        """Time, ids and chance."""
        return self._pointer.environment

    # its history -------------------------------------------------------------------------------------------------

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """All snapshots that have not expired, in the order in which they were made."""
        return self.metadata.snapshots

    @property
    def current_snapshot(self) -> Snapshot | None:
        """What readers see; None while nothing was written."""
        return self.metadata.current_snapshot

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """The snapshot of that id."""
        return self.metadata.snapshot(snapshot_id)

    @property
    def refs(self) -> Mapping[str, SnapshotRef]:
        """The branches and tags by name, to look at."""
        return MappingProxyType(self.metadata.refs)

    def history(self) -> tuple[HistoryEntry, ...]:
        """What was current from when on, oldest first; rollbacks are in it."""
        return history_of(self.metadata)

    @property
    def inspect(self) -> Inspect:
        """The metadata tables, such as `t.inspect.snapshots()` and `t.inspect.files(where="record_count > 0")`."""
        return Inspect(self._state, self.name, self.storage)

    def refresh(self) -> Table:
        """Read what others committed; gives the same object.

        If the table was dropped or renamed, and another has its name now, that is `NoSuchTable`: load the new one.
        """
        fresh = Table.load(self._pointer)
        check_same_table(self.uuid, fresh.uuid, self.name)
        self._state = fresh._state
        return self

    # reading -----------------------------------------------------------------------------------------------------

    if not TYPE_CHECKING:  # who checks types is told of every name that is not there

        def __getattr__(self, name: str) -> NoReturn:
            no_such_name(self, name, TABLE_NAMES)

    @knowing_other_names(SCAN_ARGUMENTS)
    def scan(
        self,
        columns: str | Sequence[str] | None = None,
        where: Expression | str | None = None,
        *,
        snapshot: int | None = None,
        ref: str | None = None,
        as_of: Moment | None = None,
        case_sensitive: bool = True,
    ) -> Scan:
        """Rows to be read: some columns or all, those that pass a filter, now or as of some time.

        The snapshot is chosen by its id, by a branch or tag, or by a moment; what is read of the past has the columns
        of its time.
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
            case_sensitive=case_sensitive,
        )

    def changes(
        self,
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
    ) -> ChangeScan:
        """What was changed after one snapshot up to and with another: by default all that is known, up to now.

        The ends are snapshot ids, branches or tags, or moments. Changes are rows that were added and rows that were
        deleted. With `updates`, a row that a commit deletes and adds again under the same identifier is an update; the
        identifier columns are the schema's, unless others are named. Rows that a rewrite only carried from one file to
        another are no changes; `carry_over` gives them all the same.
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
        """The branch of that name, to write to and to read; `create` makes it with the first write."""
        return TableBranch(self, name, create=create)

    def stage(self, wap_id: str) -> Stage:
        """A place to commit what nobody sees until `publish(wap_id)`: write, audit, publish."""
        return Stage(self, wap_id)

    def transaction(self) -> Transaction:
        """Several changes, one commit: `with t.transaction() as tx: …`."""
        return Transaction(self._pointer, self.metadata, self._publish)

    def expire(
        self,
        *,
        older_than: timedelta | Moment | None = None,
        retain_last: int | None = None,
        snapshots: Iterable[int] = (),
        clean_metadata: bool = False,
    ) -> Expiration:
        """Let go of old snapshots: `t.expire(older_than="7d").plan()` shows it, `.apply()` does it.

        `older_than` is an age (`"7d"`, a timedelta) or a moment. The newest `retain_last` of each branch stay, however
        old. `snapshots` names some that go, however new. What is not given is as the table's properties say.
        """
        return Expiration(
            self._pointer,
            self._show,
            table_uuid=self.uuid,
            older_than_ms=_moment_of(older_than, self.environment),
            retain_last=retain_last,
            snapshots=snapshots,
            clean_metadata=clean_metadata,
        )

    def compute_statistics(
        self, columns: str | Sequence[str] | None = None, *, snapshot: int | None = None, case_sensitive: bool = True
    ) -> StatisticsFile | None:
        """Count the different values of columns, about, for engines that plan by it; None while nothing was written.

        The rows of the current snapshot are read, or those of another. The counts go to a statistics file, as sketches
        that other engines can read and merge; what it says of other columns stays. By default it is all columns that
        have single values; with a dot also columns inside structs.

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
        with explaining_lost_files(self._state, self.name):
            wanted = counting(self.scan(snapshot=snapshot), names, case_sensitive=case_sensitive)
            if wanted is None:
                return None
            return register_sketches(self, wanted.snapshot, sketches_here(wanted, self.storage))

    @property
    def _published(self) -> TableMetadata:
        return self.metadata

    def _do_all(self, changes: Sequence[Change], files: Collection[str] = ()) -> Snapshot | None:
        try:
            done = self._publish(changes)
        except CommitStateUnknown:
            raise
        except FloeError:
            delete_uncommitted(self._pointer, changes, files, table_uuid=self.uuid)
            raise
        change = next((one for one in reversed(changes) if isinstance(one, BranchChange)), None)
        if change is None or done.landing is Landing.UNCHANGED:
            return None
        made = done.metadata.snapshots_by_id.get(change.snapshot_id)
        ref = done.metadata.refs.get(change.branch or "")
        # A pick may only have moved the branch; the snapshot is then one that was there.
        return done.metadata.snapshots_by_id.get(ref.snapshot_id) if made is None and ref is not None else made

    def _reload(self) -> None:
        self.refresh()

    @property
    def _rows_pending(self) -> bool:
        return False

    def _publish(self, changes: Sequence[Change]) -> Committed:
        done = commit(self._pointer, changes, table_uuid=self.uuid)
        self._show(done)
        return done

    def _show(self, state: TableState) -> None:
        self._state = state

    def _begin(self, builder: Builder) -> None:
        pass  # it is made when it is committed

    def _finish(self, builder: Builder) -> None:
        if (change := builder.change()) is not None:
            self._do(change)

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
        super().__init__(table, name, create=create)
        self._table = table

    def scan(
        self,
        columns: str | Sequence[str] | None = None,
        where: Expression | str | None = None,
        *,
        case_sensitive: bool = True,
    ) -> Scan:
        """Rows to be read, as the branch has them."""
        return self._table.scan(columns, where, ref=self._branch, case_sensitive=case_sensitive)

    def rollback(self, to: int | Moment) -> None:
        """Go back in the branch's history; see `Table.rollback`."""
        self._table.rollback(to, branch=self._branch)

    def cherry_pick(self, snapshot: int) -> Snapshot | None:
        """Make the changes of a snapshot on the branch; see `Table.cherry_pick`."""
        return self._table.cherry_pick(snapshot, branch=self._branch)

    def fast_forward(self, to: str | int = MAIN_BRANCH) -> None:
        """Move the branch ahead to another one that has all of its commits."""
        self._table.fast_forward(self._branch, to)


def _moment_of(older_than: timedelta | Moment | None, environment: Environment) -> int | None:
    """The moment that an age (a timedelta, or text such as `7d`) or a moment means."""
    if isinstance(older_than, timedelta) or (isinstance(older_than, str) and not _A_DATE.match(older_than)):
        return environment.clock.now_ms() - duration_millis(older_than)
    return None if older_than is None else to_millis(older_than)


_A_DATE = re.compile(r"\s*[+-]?\d{4,}-")
