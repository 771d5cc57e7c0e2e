"""The pointer to a table in a SQL catalog: one row, moved by one UPDATE that names the location it expects.

The UPDATE runs in a transaction of its own (or with those of other tables, for `swap_all`), and its row count decides.
Until COMMIT is sent every failure means that nothing was changed. If the connection is lost after that, `settle` reads
the outcome; the swap is never sent again.

`settle` locks the row first. The lock waits for the lost transaction to end, if the server still has it, so a result
"not published" cannot change to "published" afterwards. If the row has a later location, the metadata logs show which
file followed the base: ours or that of another writer.
"""

from __future__ import annotations

from collections.abc import Sequence

from floe.catalog.identifiers import Identifier, format_identifier
from floe.catalog.metadata_files import clean_old_files, discard_proposal, read_metadata, write_proposal
from floe.catalog.sql.database import Session
from floe.catalog.sql.records import Kind, Namespaces, Record, Records
from floe.catalog.sql.store import SqlStore
from floe.commit.pointer import Outcome, Proposal, TableState
from floe.errors import CommitConflict, FloeError, InvalidInput, NoSuchFile
from floe.spec.metadata.requirements import TableRequirement
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import TableUpdate
from floe.storage.environment import Environment
from floe.storage.protocol import Storage

# outcomes ---------------------------------------------------------------------------------------------------------


def settle_proposal(store: SqlStore, identifier: Identifier, proposal: Proposal) -> Outcome:
    """The outcome of one proposal; raises if the database cannot be read."""
    row, neighbours = _rows(store, identifier, proposal)
    if row is not None:
        outcome = _outcome_by_history(store, row, proposal)
        if outcome is not None:
            return outcome
    # No row of that name, or another table's: ours was dropped or renamed since, or was never created.
    outcomes = {_outcome_by_history(store, neighbour, proposal) for neighbour in neighbours}
    for outcome in (Outcome.PUBLISHED, Outcome.UNKNOWN, Outcome.ABSENT):
        if outcome in outcomes:
            return outcome
    return Outcome.ABSENT if proposal.base is None else Outcome.UNKNOWN


def _rows(store: SqlStore, identifier: Identifier, proposal: Proposal) -> tuple[Record | None, list[Record]]:
    """The table's row, and the rows of other tables whose metadata lies in the same folder."""
    records = store.records()
    folder = proposal.location[: proposal.location.rindex("/") + 1]
    with store.database.peek() as session:
        if proposal.base is None and records.insert(session, Kind.TABLE, identifier, proposal.location):
            # There is no row to lock, but an insert waits for another one of the same key. It is rolled back.
            row = None
        else:
            row = records.find(session.query, identifier, lock=store.database.lock_for_update)
        below = records.below(session.query, folder)
    tables = [record for record in below if record.kind is Kind.TABLE and record.identifier != identifier]
    return (row if row is not None and row.kind is Kind.TABLE else None), tables


def _outcome_by_history(store: SqlStore, row: Record, proposal: Proposal) -> Outcome | None:
    """The outcome of a proposal by the metadata log of a row's table; None if it is another table."""
    ours, base = proposal.location, proposal.base.location if proposal.base else None
    if ours in (row.location, row.previous):
        return Outcome.PUBLISHED
    if row.location == base:
        return Outcome.ABSENT
    location, visited, storage = row.location, set[str](), store.storage_at(row.location)
    while location not in visited:
        visited.add(location)
        try:
            metadata = read_metadata(storage, location)
        except FloeError:
            return Outcome.UNKNOWN  # earlier metadata files were deleted
        if metadata.table_uuid != proposal.metadata.table_uuid:
            return None
        earlier = [entry.metadata_file for entry in metadata.metadata_log]
        if ours in earlier:
            return Outcome.PUBLISHED
        if base in earlier:
            return Outcome.ABSENT
        if not earlier:
            return Outcome.ABSENT if base is None else None
        location = earlier[0]  # the log is limited; the oldest file that it names has the entries before
    return Outcome.UNKNOWN


class SqlPointer:
    """The pointer to one table of a SQL catalog."""

    def __init__(self, store: SqlStore, identifier: Identifier) -> None:
        self.store = store
        self.identifier = identifier
        self._roots = store.roots(identifier[:-1])
        self._last: TableState | None = None  # cached, since a metadata file never changes

    def __repr__(self) -> str:
        return f"SqlPointer({self.name!r})"

    @property
    def name(self) -> str:
        """The identifier of the table as text."""
        return format_identifier(self.identifier)

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""
        return self._roots.storage

    @property
    def environment(self) -> Environment:
        """The clock, ids and random numbers of the catalog."""
        return self.store.environment

    def load(self) -> TableState | None:
        """The current state: the row, and the metadata file that it names; None if there is no row."""
        records = self.store.records()
        missing = None
        while True:
            record = records.find_kind(self.store.database.read, Kind.TABLE, self.identifier)
            if record is None:
                return None
            last = self._last
            if last is None or last.location != record.location:
                try:
                    metadata = read_metadata(self._roots.allow_table_folder(record.location), record.location)
                    self._roots.allow_metadata(metadata)
                    last = TableState(metadata, record.location)
                except NoSuchFile as error:
                    if record.location == missing:
                        error.with_context(table=self.name)
                        raise
                    missing = record.location  # later commits may have deleted it: read the row again
                    continue
                except FloeError as error:
                    error.with_context(table=self.name)
                    raise
                self._last = last
            return last

    def propose(
        self,
        base: TableState | None,
        metadata: TableMetadata,
        *,
        updates: Sequence[TableUpdate] = (),
        requirements: Sequence[TableRequirement] = (),
    ) -> Proposal:
        """Writes the metadata file, after checks of a new table's name and namespace."""
        if base is None:
            records, namespaces = self.store.records(), self.store.namespaces()
            self.store.check_name(self.identifier)
            namespaces.require(self.store.database.read, self.identifier[:-1])
            self.store.check_free(self.store.database.read, records, Kind.TABLE, self.identifier)
        proposal = write_proposal(self, base, metadata, updates=updates, requirements=requirements)
        try:
            self.store.schema.check_lengths(metadata_location=proposal.location)
        except FloeError:
            discard_proposal(proposal)
            raise
        return proposal

    def swap(self, proposal: Proposal) -> None:
        """Publishes a proposal by updating the row."""
        SqlSharedSwap(self.store).swap_rows([(self.identifier, proposal)])

    def settle(self, proposal: Proposal) -> Outcome:
        """The outcome of a swap, by the row and the metadata log."""
        return SqlSharedSwap(self.store).settle_rows([(self.identifier, proposal)])

    def discard(self, proposal: Proposal) -> None:
        """Deletes the metadata file of a proposal that was not published."""
        discard_proposal(proposal)

    def finish(self, proposal: Proposal) -> None:
        """Caches the published state, and deletes old metadata files if the table's properties ask for it."""
        self._last = proposal.state
        clean_old_files(proposal)


class SqlSharedSwap:
    """Publishes the changes of several tables of one catalog in one transaction."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def swap_all(self, proposals: Sequence[Proposal]) -> None:
        """Updates all rows, or none.

        Rows are locked in the order of their names, whatever the order of the proposals, so that two such transactions
        do not deadlock.
        """
        self.swap_rows(self._by_table(proposals))

    def settle_all(self, proposals: Sequence[Proposal]) -> Outcome:
        """The outcome of a swap: all were published or none, so the first known outcome is that of all."""
        return self.settle_rows(self._by_table(proposals))

    def swap_rows(self, proposals: Sequence[tuple[Identifier, Proposal]]) -> None:
        """As `swap_all`, for proposals by table, in the order in which their rows are locked."""
        records, namespaces = self._store.records(), self._store.namespaces()
        try:
            with self._store.database.transaction() as session:
                for identifier, proposal in proposals:
                    self._publish(session, records, namespaces, identifier, proposal)
        except FloeError as error:
            error.with_context(table=", ".join(format_identifier(identifier) for identifier, _ in proposals))
            raise

    def settle_rows(self, proposals: Sequence[tuple[Identifier, Proposal]]) -> Outcome:
        """As `settle_all`, for proposals by table."""
        for identifier, proposal in proposals:
            try:
                outcome = settle_proposal(self._store, identifier, proposal)
            except FloeError:
                continue
            if outcome is not Outcome.UNKNOWN:
                return outcome
        return Outcome.UNKNOWN

    def _publish(
        self, session: Session, records: Records, namespaces: Namespaces, identifier: Identifier, proposal: Proposal
    ) -> None:
        if proposal.base is None:
            namespaces.hold(session, identifier[:-1])
            if not records.insert(session, Kind.TABLE, identifier, proposal.location):
                self._store.check_free(session.query, records, Kind.TABLE, identifier)
                raise CommitConflict(
                    "another writer created the table, and dropped it", table=format_identifier(identifier)
                )
        elif not records.update(session, Kind.TABLE, identifier, proposal.base.location, proposal.location):
            record = self._store.required(session.query, records, Kind.TABLE, identifier)
            raise CommitConflict(
                "another writer committed first", table=format_identifier(identifier), current=record.location
            )

    def _by_table(self, proposals: Sequence[Proposal]) -> list[tuple[Identifier, Proposal]]:
        """The proposals with their tables, in the order of the tables' names."""
        by_table: dict[Identifier, Proposal] = {}
        for proposal in proposals:
            pointer = proposal.pointer
            if not isinstance(pointer, SqlPointer) or pointer.store is not self._store:
                raise InvalidInput("tables of different catalogs cannot be committed together", table=pointer.name)
            if pointer.identifier in by_table:
                raise InvalidInput("a table can be committed only once in a transaction", table=pointer.name)
            by_table[pointer.identifier] = proposal
        return sorted(by_table.items(), key=lambda entry: entry[0])
