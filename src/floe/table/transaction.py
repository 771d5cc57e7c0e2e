"""Several changes of a table as one commit: all of them, or none.

>>> import floe
>>> lake = floe.connect("memory:")
>>> lake.create_namespace("db")
>>> t = lake.create_table("db.t", "id bigint not null, amount decimal(9, 2)")
>>> with t.transaction() as tx:
...     _ = tx.evolve().add_column("note", "string", after="id").rename_column("amount", "total")
...     tx.set_properties({"owner": "me"})
...     [field.name for field in tx.schema]
['id', 'note', 'total']
>>> [field.name for field in t.schema], t.properties["owner"]
(['id', 'note', 'total'], 'me')
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType, TracebackType
from typing import Self

from floe.commit.change import Attempt, Change, KeyedChange
from floe.commit.cleanup import delete_uncommitted
from floe.commit.pointer import Pointer
from floe.commit.roots import allow_changed
from floe.errors import CommitStateUnknown, FloeError, InvalidInput
from floe.formats.writers.rolling import discard
from floe.spec.metadata.apply import apply
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.schema import Schema
from floe.spec.sorting import SortOrder
from floe.storage.environment import Environment
from floe.storage.protocol import Storage
from floe.table.actions import Builder, warn_of_lost_changes
from floe.table.branch import Branch
from floe.table.layout_actions import LayoutActions
from floe.table.ref_actions import RefActions
from floe.table.row_changes import RowChanges

__all__ = ["PendingTable", "Transaction"]


class PendingTable(RowChanges, LayoutActions, RefActions):
    """A table with changes that are still to be made; it shows the columns and properties that they will make.

    Changes of rows are not seen here before the commit. Not for use from several threads.
    """

    def __init__(self, pointer: Pointer, metadata: TableMetadata) -> None:
        self._pointer = pointer
        self._base = metadata
        self._pending: list[Change | Builder] = []
        self._files: list[str] = []
        self._preview: tuple[int, TableMetadata] = (0, metadata)
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._pending)} changes pending"
        return f"<{type(self).__name__} of {self._pointer.name}: {state}>"

    @property
    def name(self) -> str:
        """The table's name."""
        return self._pointer.name

    @property
    def metadata(self) -> TableMetadata:
        """The table's metadata with the changes so far, but for those of rows."""
        done, metadata = self._preview
        for place in range(done, len(self._pending)):
            metadata = self._applied(metadata, place)
            if isinstance(item := self._pending[place], Builder) and item.is_open:
                return metadata  # not the last word: more may be added to it
            self._preview = (place + 1, metadata)
        return metadata

    @property
    def schema(self) -> Schema:
        """The columns as they will be."""
        return self.metadata.schema

    @property
    def spec(self) -> PartitionSpec:
        """The partitioning as it will be."""
        return self.metadata.spec

    @property
    def sort_order(self) -> SortOrder:
        """The sort order as it will be."""
        return self.metadata.sort_order

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties as they will be, to look at."""
        return MappingProxyType(self.metadata.properties)

    @property
    def location(self) -> str:
        """The folder that new files go to."""
        return self.metadata.location

    @property
    def format_version(self) -> int:
        """The version of the table format, as it will be."""
        return self.metadata.format_version

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""
        return self._pointer.storage

    @property
    def environment(self) -> Environment:
        """Time, ids and chance."""
        return self._pointer.environment

    def branch(self, name: str) -> Branch:
        """The table's branch of that name: what is written there goes to the branch, in the same commit."""
        return Branch(self, name)

    @property
    def _published(self) -> TableMetadata:
        return self._base

    def _do_all(self, changes: Sequence[Change], files: Collection[str] = ()) -> Snapshot | None:
        before = list(self._pending)
        try:
            for change in changes:
                self._add(change)
            allow_changed(self.storage, self._base, self.metadata)  # so that what cannot be done is said at once
        except FloeError:
            self._pending[:] = before  # a call that raises has no effect
            discard(self.storage, files)
            raise
        self._files += files
        return None

    def _reload(self) -> None:
        pass  # everything in a transaction is made for the table as it was at its beginning

    @property
    def _rows_pending(self) -> bool:
        return any(isinstance(item, KeyedChange) for item in self._pending)

    def _forget(self) -> None:
        """Give up before anything was sent: nobody knows of the files that were written."""
        self._close()
        files, self._files = self._files, []
        discard(self.storage, files)

    @contextmanager
    def _tidy(self, changes: Sequence[Change]) -> Iterator[None]:
        """Delete what was written for a commit that fails, if it is certain that it did."""
        files, self._files = self._files, []
        try:
            yield
        except CommitStateUnknown:
            raise
        except FloeError:
            delete_uncommitted(self._pointer, changes, files, table_uuid=self._base.table_uuid)
            raise

    def _begin(self, builder: Builder) -> None:
        self._add(builder)

    def _finish(self, builder: Builder) -> None:
        allow_changed(self.storage, self._base, self.metadata)

    def _add(self, item: Change | Builder) -> None:
        if self._closed:
            raise InvalidInput("this transaction is over", hint="begin a new one", table=self.name)
        if self._pending and isinstance(last := self._pending[-1], Builder):
            last.close()  # what comes after it was made for the table as it is now
        self._pending.append(item)

    def _changes(self) -> list[Change]:
        """All that is to be done, in order."""
        changes = []
        for item in self._pending:
            if not isinstance(item, Builder):
                changes.append(item)
                continue
            if item.failed:
                raise InvalidInput(
                    "a change of this transaction failed, so that nothing of it is committed",
                    hint="begin a new transaction",
                    table=self.name,
                )
            item.close()
            if (change := item.change()) is not None:
                changes.append(change)
        return changes

    def _close(self) -> None:
        self._closed = True
        for item in self._pending:
            if isinstance(item, Builder):
                item.close()

    def _applied(self, metadata: TableMetadata, place: int) -> TableMetadata:
        """The metadata after a change; one that makes a snapshot would write files, and waits for the commit."""
        item = self._pending[place]
        change = (None if item.failed else item.change()) if isinstance(item, Builder) else item
        if change is None or isinstance(change, KeyedChange):
            return metadata
        now_ms = max(self._base.last_updated_ms, metadata.last_updated_ms)
        attempt = Attempt(self.name, metadata, self._base, self._pointer.storage, self.environment, now_ms=now_ms)
        try:
            return apply(metadata, change.updates(attempt), now_ms=now_ms)
        except FloeError as error:
            if any(isinstance(earlier, KeyedChange) for earlier in self._pending[:place]):
                return metadata  # it may rest on a snapshot that is not made yet; the commit will tell
            raise error.with_context(table=self.name) from None


class Transaction(PendingTable):
    """A table's changes until the end of a `with` block, then committed together; nothing is if the block raises."""

    def __init__(self, pointer: Pointer, metadata: TableMetadata, publish: Callable[[list[Change]], object]) -> None:
        super().__init__(pointer, metadata)
        self._publish = publish

    def commit(self) -> None:
        """Make all changes, now."""
        if self._closed:
            raise InvalidInput("this transaction is over", hint="begin a new one", table=self.name)
        try:
            changes = self._changes()
        finally:
            self._close()
        if changes:
            with self._tidy(changes):
                self._publish(changes)

    def abort(self) -> None:
        """Forget all changes."""
        self._forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._forget()
        elif not self._closed:
            self.commit()

    def __del__(self) -> None:
        if getattr(self, "_pending", None) and not self._closed:  # without changes if it was refused at once
            warn_of_lost_changes(f"this transaction of {self.name}")
