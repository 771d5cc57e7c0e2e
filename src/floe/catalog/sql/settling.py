"""What became of a swap whose answer was lost: found out by reading, never by sending it again.

The row is locked first. The lock waits for the lost transaction to end, if the server still has it, so what is read
then cannot change afterwards from "not published" to "published". A row that moved on tells who followed the base:
each metadata file names those before it, and the file after the base is either ours or somebody else's.
"""

from __future__ import annotations

from floe.catalog.identifiers import Identifier
from floe.catalog.metadata_files import read_metadata
from floe.catalog.sql.records import Kind, Record
from floe.catalog.sql.store import SqlStore
from floe.commit.pointer import Outcome, Proposal
from floe.errors import FloeError

__all__ = ["settle_proposal"]


def settle_proposal(store: SqlStore, identifier: Identifier, proposal: Proposal) -> Outcome:
    """What became of one proposal; raises if the database cannot be read."""
    row, others = _rows(store, identifier, proposal)
    if row is not None:
        outcome = _fate(store, row, proposal)
        if outcome is not None:
            return outcome
    # Nothing of that name, or another table: ours was dropped or renamed since, or never was.
    outcomes = {_fate(store, other, proposal) for other in others}
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
            # There is no row to lock, but adding one waits for whoever is adding it. It is rolled back.
            row = None
        else:
            row = records.find(session.query, identifier, lock=store.database.lock_for_update)
        below = records.below(session.query, folder)
    tables = [record for record in below if record.kind is Kind.TABLE and record.identifier != identifier]
    return (row if row is not None and row.kind is Kind.TABLE else None), tables


def _fate(store: SqlStore, row: Record, proposal: Proposal) -> Outcome | None:
    """What a row's history says of the proposal; None if it is the history of another table."""
    ours, base = proposal.location, proposal.base.location if proposal.base else None
    if ours in (row.location, row.previous):
        return Outcome.PUBLISHED
    if row.location == base:
        return Outcome.ABSENT
    location, seen, storage = row.location, set[str](), store.storage_at(row.location)
    while location not in seen:
        seen.add(location)
        try:
            metadata = read_metadata(storage, location)
        except FloeError:
            return Outcome.UNKNOWN  # history was cut off here
        if metadata.table_uuid != proposal.metadata.table_uuid:
            return None
        earlier = [entry.metadata_file for entry in metadata.metadata_log]
        if ours in earlier:
            return Outcome.PUBLISHED
        if base in earlier:
            return Outcome.ABSENT
        if not earlier:
            return Outcome.ABSENT if base is None else None
        location = earlier[0]  # the log keeps only so many; the oldest file that it names knows those before
    return Outcome.UNKNOWN
