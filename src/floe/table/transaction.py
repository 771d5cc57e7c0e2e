"""Transactions: several changes of a table, or of several tables, as one commit. All of them are published, or none.

>>> import floe
>>> lake = floe.connect("memory:")
>>> lake.create_namespace("db")
>>> t = lake.create_table("db.t", "id bigint not null, amount decimal(9, 2)")
>>> with t.transaction() as tx:
...     _ = tx.update_schema().add_column("note", "string", after="id").rename_column("amount", "total")
...     tx.set_properties({"owner": "me"})
...     [field.name for field in tx.schema]
['id', 'note', 'total']
>>> [field.name for field in t.schema], t.properties["owner"]
(['id', 'note', 'total'], 'me')

A transaction of the lake changes several tables:

>>> a, b = lake.create_table("db.a", "id bigint"), lake.create_table("db.b", "id bigint")
>>> with lake.transaction() as tx:
...     tx.table("db.a").set_properties({"batch": "7"})
...     tx.table("db.b").set_properties({"batch": "7"})
>>> a.refresh().properties["batch"], b.refresh().properties["batch"]
('7', '7')
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Self

from floe.catalog.identifiers import Identifier, parse_identifier
from floe.catalog.protocol import Catalog
from floe.commit.change import Attempt, Change, KeyedChange
from floe.commit.loop import TableChanges, commit_all
from floe.commit.outcomes import delete_uncommitted
from floe.commit.pointer import Pointer, load_existing
from floe.commit.roots import allow_changed
from floe.commit.target import ChangeBuilder, CommitTarget, warn_of_uncommitted_changes
from floe.errors import CommitStateUnknown, FloeError, InvalidInput
from floe.formats.writers.rolling_writer import discard
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.storage.environment import Environment
from floe.storage.protocol import Storage
from floe.table.evolution import Definition
from floe.table.refs import Refs
from floe.table.writer import Branch, Writer


class PendingTarget(CommitTarget):
    """Keeps the changes of a transaction until its commit, and shows the metadata that they lead to.

    `base` is the table's metadata when the transaction started. `creation` is the change that creates or replaces the
    table; with `exists=False` it creates it, and `base` is the metadata that it makes.
    """

    def __init__(
        self, pointer: Pointer, base: TableMetadata, creation: Change | None = None, *, exists: bool = True
    ) -> None:
        self.pointer = pointer
        self._base = base
        self._pending: list[Change | ChangeBuilder] = [] if creation is None else [creation]
        self._preview: tuple[int, TableMetadata] = (0 if exists else 1, base)
        """How many pending changes have been applied, and the metadata after them."""

        self._files: list[str] = []
        self._closed = False

    @property
    def metadata(self) -> TableMetadata:
        """The table's metadata with the changes so far, but for those of rows."""
        applied, metadata = self._preview
        for index in range(applied, len(self._pending)):
            metadata = self._apply(metadata, index)
            if isinstance(item := self._pending[index], ChangeBuilder) and item.is_open:
                return metadata  # not to be kept: more calls may follow
            self._preview = (index + 1, metadata)
        return metadata

    @property
    def published(self) -> TableMetadata:
        """The table's metadata when the transaction started."""
        return self._base

    @property
    def environment(self) -> Environment:
        """The environment of the table's catalog."""
        return self.pointer.environment

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""
        return self.pointer.storage

    @property
    def rows_pending(self) -> bool:
        """Whether rows were changed."""
        return any(isinstance(item, KeyedChange) for item in self._pending)

    @property
    def pending(self) -> int:
        """How many changes there are."""
        return len(self._pending)

    @property
    def closed(self) -> bool:
        """Whether the transaction was committed or aborted."""
        return self._closed

    # adding changes ----------------------------------------------------------------------------------------------

    def commit(self, changes: Sequence[Change], files: Collection[str] = ()) -> Snapshot | None:
        """Keep changes for the commit of the transaction; a call that raises has no effect."""
        before = list(self._pending)
        try:
            for change in changes:
                self._add(change)
            allow_changed(self.storage, self._base, self.metadata)  # here, so that a wrong location is refused at once
        except FloeError:
            self._pending[:] = before
            discard(self.storage, files)
            raise
        self._files += files
        return None

    def start(self, builder: ChangeBuilder) -> None:
        """Add a builder; its change is committed as it is at the end of the transaction."""
        self._add(builder)

    def finish(self, builder: ChangeBuilder) -> None:
        """Check the change of a builder; it was added when it was started."""
        allow_changed(self.storage, self._base, self.metadata)

    def refresh(self) -> None:
        """Nothing: all changes of a transaction are made for the table as it was at the start."""

    def _add(self, item: Change | ChangeBuilder) -> None:
        self.check_open()
        if self._pending and isinstance(last := self._pending[-1], ChangeBuilder):
            last.close()  # what follows was made for the metadata as it is now
        self._pending.append(item)

    def check_open(self) -> None:
        """Raise if the transaction is over."""
        if self._closed:
            raise InvalidInput("this transaction is over", hint="start a new one", table=self.pointer.name)

    def _apply(self, metadata: TableMetadata, index: int) -> TableMetadata:
        """The metadata after a pending change; one that makes a snapshot would write files, and is left out."""
        item = self._pending[index]
        change = (None if item.failed else item.change()) if isinstance(item, ChangeBuilder) else item
        if change is None or isinstance(change, KeyedChange):
            return metadata
        now_ms = max(self._base.last_updated_ms, metadata.last_updated_ms)
        name = self.pointer.name
        attempt = Attempt(name, metadata, self._base, self.storage, self.environment, now_ms=now_ms)
        try:
            return apply(metadata, change.updates(attempt), now_ms=now_ms)
        except FloeError as error:
            if any(isinstance(earlier, KeyedChange) for earlier in self._pending[:index]):
                return metadata  # it may depend on a snapshot that does not exist before the commit, which checks it
            raise error.with_context(table=name) from None

    # ending ------------------------------------------------------------------------------------------------------

    def end(self) -> list[Change]:
        """Close the transaction, and return its changes in order; `InvalidInput` if a call of a builder failed."""
        self.check_open()
        try:
            return self._changes()
        finally:
            self.close()

    def _changes(self) -> list[Change]:
        changes = []
        for item in self._pending:
            if not isinstance(item, ChangeBuilder):
                changes.append(item)
                continue
            if item.failed:
                raise InvalidInput(
                    "a change of this transaction failed, so nothing is committed",
                    hint="start a new transaction",
                    table=self.pointer.name,
                )
            item.close()
            if (change := item.change()) is not None:
                changes.append(change)
        return changes

    def close(self) -> None:
        """Accept no more changes."""
        self._closed = True
        for item in self._pending:
            if isinstance(item, ChangeBuilder):
                item.close()

    def abort(self) -> None:
        """Drop all changes, and delete the files that were written for them: no commit refers to them."""
        self.close()
        files, self._files = self._files, []
        discard(self.storage, files)

    @contextmanager
    def files_deleted_on_failure(self, changes: Sequence[Change]) -> Iterator[None]:
        """Commit inside: if that fails for certain, the files that were written for the changes are deleted."""
        files, self._files = self._files, []
        try:
            yield
        except CommitStateUnknown:
            raise
        except FloeError:
            delete_uncommitted(self.pointer, changes, files, table_uuid=self._base.table_uuid)
            raise


class PendingTable(Writer, Definition, Refs):
    """A table in a transaction. It shows the columns and properties that its changes lead to, but no changes of rows.

    Not for use from several threads.
    """

    def __init__(self, target: PendingTarget) -> None:
        super().__init__(target)
        self._pending = target

    def __repr__(self) -> str:
        state = "closed" if self._pending.closed else f"{self._pending.pending} changes pending"
        return f"<{type(self).__name__} of {self.name}: {state}>"

    @property
    def commit_target(self) -> PendingTarget:
        """The pending changes."""
        return self._pending

    @property
    def name(self) -> str:
        """The table's name."""
        return self._pending.pointer.name

    def branch(self, name: str) -> Branch:
        """A branch of the table; what is written to it is part of the same commit."""
        return Branch(self._pending, name)


class Transaction(PendingTable):
    """Changes of a table until the end of a `with` block, which commits them; nothing is committed if it raises."""

    def __init__(self, target: PendingTarget, publish: Callable[[list[Change]], object]) -> None:
        super().__init__(target)
        self._publish = publish

    def commit(self) -> None:
        """Commit all changes now."""
        if changes := self._pending.end():
            with self._pending.files_deleted_on_failure(changes):
                self._publish(changes)

    def abort(self) -> None:
        """Drop all changes."""
        self._pending.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._pending.abort()
        elif not self._pending.closed:
            self.commit()

    def __del__(self) -> None:
        pending = getattr(self, "_pending", None)  # None if the constructor raised
        if pending is not None and pending.pending and not pending.closed:
            warn_of_uncommitted_changes(f"this transaction of {self.name}")


class LakeTransaction:
    """Changes of several tables until the end of a `with` block; nothing is committed if the block raises."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._tables: dict[Identifier, PendingTable] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"<LakeTransaction of {self._catalog.name}: {'closed' if self._closed else list(self._tables.values())}>"

    def table(self, name: str | Sequence[str]) -> PendingTable:
        """A table to change; later calls return the same object, with the changes so far."""
        self._check_open()
        identifier = parse_identifier(name)
        if identifier not in self._tables:
            pointer = self._catalog.pointer(identifier)
            self._tables[identifier] = PendingTable(PendingTarget(pointer, load_existing(pointer).metadata))
        return self._tables[identifier]

    def commit(self) -> None:
        """Commit all changes of all tables now."""
        self._check_open()
        targets = [table.commit_target for table in self._tables.values()]
        try:
            ended = [(target, changes) for target in targets if (changes := target.end())]
        finally:
            self._close()
        with ExitStack() as cleanup:
            for target, changes in ended:
                cleanup.enter_context(target.files_deleted_on_failure(changes))
            commit_all(
                [TableChanges(target.pointer, changes, target.published.table_uuid) for target, changes in ended],
                self._catalog.shared,
            )

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidInput("this transaction is over", hint="start a new one")

    def _close(self) -> None:
        self._closed = True
        for table in self._tables.values():
            table.commit_target.close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._close()
            for table in self._tables.values():
                table.commit_target.abort()
        elif not self._closed:
            self.commit()

    def __del__(self) -> None:
        if not self._closed and any(table.commit_target.pending for table in self._tables.values()):
            warn_of_uncommitted_changes(f"this transaction of {self._catalog.name}")
