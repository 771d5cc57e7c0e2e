"""The kinds of things that a change declares and that others do: rows and columns of the table of conflicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from floe.commit.conflicts.declared import Declared
from floe.commit.conflicts.snapshot_facts import Entries, SnapshotFacts
from floe.commit.conflicts.window import OtherCommit

__all__ = ["DECLARES", "Mine", "Theirs", "happened"]


class Mine(Enum):
    """What a change can have declared; one change may have declared several."""

    READ_ROWS = "looked at rows"
    WEIGHED_ROWS = "looked at rows together (counted, joined or merged them)"
    COPIED_FILES = "copied the rows of data files into others"
    DROPPED_FILES = "removes whole data files"
    DELETED_ROWS = "deletes rows by position"
    MOVED_ROWS = "deletes rows by position and adds rows"
    CONVERTED_DELETES = "turns equality deletes into positions"
    ADDED_VECTORS = "adds deletion vectors"
    REMOVED_DELETES = "removes delete files"
    CLEARED_ROWS = "read the table and removes all rows of a filter or partition"
    REFILLED_ROWS = "read the table and replaces all rows of a filter or partition"
    DELETED_VALUES = "deletes rows of a partition by value"
    ADDED_FILES = "adds data files"


class Theirs(Enum):
    """What a snapshot of others can have done."""

    ADDED_ROWS = "added rows"
    REMOVED_FILES = "removed data files, and added no rows"
    REPLACED_FILES = "removed data files, and added rows"
    REWROTE_FILES = "rewrote data files with the same rows"
    DELETED_ROWS = "deleted rows by position, and added none"
    MOVED_ROWS = "deleted rows by position, and added rows"
    REWROTE_DELETES = "rewrote deletes of the same rows"
    DELETED_VALUES = "deleted rows by value, and added none"
    UPSERTED_VALUES = "deleted rows by value, and added rows"
    REMOVED_DELETES = "removed delete files"
    ADDED_FILES = "added data files, with new or with the same rows"


DECLARES: Final[Mapping[Mine, Callable[[Declared], bool]]] = {
    Mine.READ_ROWS: lambda mine: mine.rows_read is not None,
    Mine.WEIGHED_ROWS: lambda mine: mine.rows_read is not None and not mine.reads.row_wise,
    Mine.COPIED_FILES: lambda mine: bool(len(mine.copied)),
    Mine.DROPPED_FILES: lambda mine: bool(len(mine.dropped)),
    Mine.DELETED_ROWS: lambda mine: bool(len(mine.referenced)) and not (mine.adds_rows or mine.writes.same_rows),
    Mine.MOVED_ROWS: lambda mine: bool(len(mine.referenced)) and mine.adds_rows,
    Mine.CONVERTED_DELETES: lambda mine: (
        mine.writes.same_rows and any(file.is_equality_delete_file for file in mine.writes.removed)
    ),
    Mine.ADDED_VECTORS: lambda mine: bool(mine.vectors),
    Mine.REMOVED_DELETES: lambda mine: bool(mine.removed_delete_files),
    Mine.CLEARED_ROWS: lambda mine: mine.clears,
    Mine.REFILLED_ROWS: lambda mine: mine.clears and mine.adds_rows,
    Mine.DELETED_VALUES: lambda mine: any(not mine.is_unpartitioned(file.spec_id) for file in mine.equality_deletes),
    Mine.ADDED_FILES: lambda mine: bool(mine.added_data),
}
"""Whether a change declared each kind."""


def happened(commit: OtherCommit, facts: SnapshotFacts) -> dict[Theirs, tuple[Entries, ...]]:
    """What a snapshot did, by kind; whether rows were added is asked of the whole commit that it was part of."""
    adds_rows, keeps_rows = commit.adds_rows, facts.keeps_rows
    files = Theirs.REPLACED_FILES if adds_rows else Theirs.REMOVED_FILES
    positions = Theirs.MOVED_ROWS if adds_rows else Theirs.DELETED_ROWS
    found = {
        Theirs.ADDED_ROWS: () if keeps_rows else facts.added_data,
        Theirs.REWROTE_FILES if keeps_rows else files: facts.removed_data,
        Theirs.REWROTE_DELETES if keeps_rows else positions: facts.added_position_deletes,
        Theirs.UPSERTED_VALUES if adds_rows else Theirs.DELETED_VALUES: facts.added_equality_deletes,
        Theirs.REMOVED_DELETES: facts.removed_deletes,
        Theirs.ADDED_FILES: facts.added_data,
    }
    return {kind: entries for kind, entries in found.items() if entries}
