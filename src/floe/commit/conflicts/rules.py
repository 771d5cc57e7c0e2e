"""The conflict rules: one table for all operations, and `check`, which applies it.

A change declares what it read and writes (`floe.commit.change`); what others committed since is read from their
manifests (`concurrent_commits`). Both are classified, as `Mine` and `Theirs`. `RULES` lists the pairs of these kinds
that conflict, with the verdict under each isolation level and the function of `overlaps` that finds the files in which
the two overlap. A pair that no rule lists may be committed in either order. So appends that read nothing never
conflict, nor do changes of different partitions, nor two deletions of the same rows.

The isolation level matters only to reads: whether rows that appeared, or disappeared, among those that a change read
are a conflict. Two changes that write the same row conflict at both levels. A row that an UPDATE moved to another file
is still the same row: the lost delete of merge-on-read DELETE against UPDATE is the rule `row moved meanwhile`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple

from floe.commit.change import Attempt, Footprint, Isolation
from floe.commit.conflicts import overlaps
from floe.commit.conflicts.change_index import ChangeIndex, VectorMerge, plan_vector_merges
from floe.commit.conflicts.concurrent_commits import (
    ConcurrentCommits,
    Entries,
    OtherCommit,
    SnapshotCache,
    SnapshotChanges,
    read_concurrent_commits,
)
from floe.commit.conflicts.overlaps import OverlapCheck
from floe.commit.conflicts.position_overlaps import PositionReader, VectorReader
from floe.errors import ConflictingChange, InvalidInput
from floe.spec.metadata.snapshots import Snapshot

# Kinds of changes -----------------------------------------------------------------------------------------------


class Mine(Enum):
    """What a change declares; a change can be of several kinds."""

    READ_ROWS = "read rows"
    COMBINED_ROWS = "read rows together (counted, joined or merged them)"
    COPIED_FILES = "copied the rows of data files into others"
    DROPPED_FILES = "removes whole data files"
    DELETED_ROWS = "deletes rows by position"
    MOVED_ROWS = "deletes rows by position and adds rows"
    CONVERTED_DELETES = "turns equality deletes into positions"
    ADDED_VECTORS = "adds deletion vectors"
    REMOVED_DELETES = "removes delete files"
    CLEARED_ROWS = "read the table and removes all rows of a filter or partition"
    REFILLED_ROWS = "read the table and replaces all rows of a filter or partition"
    DELETED_BY_EQUALITY = "deletes rows of a partition by value"
    ADDED_FILES = "adds data files"


class Theirs(Enum):
    """What a snapshot of others did; a snapshot can be of several kinds."""

    ADDED_ROWS = "added rows"
    REMOVED_FILES = "removed data files, and added no rows"
    REPLACED_FILES = "removed data files, and added rows"
    REWROTE_FILES = "rewrote data files with the same rows"
    DELETED_ROWS = "deleted rows by position, and added none"
    MOVED_ROWS = "deleted rows by position, and added rows"
    REWROTE_DELETES = "rewrote deletes of the same rows"
    DELETED_BY_EQUALITY = "deleted rows by value, and added none"
    UPSERTED_BY_EQUALITY = "deleted rows by value, and added rows"
    REMOVED_DELETES = "removed delete files"
    ADDED_FILES = "added data files, with new or with the same rows"


DECLARES: Final[Mapping[Mine, Callable[[ChangeIndex], bool]]] = {
    Mine.READ_ROWS: lambda mine: mine.rows_read is not None,
    Mine.COMBINED_ROWS: lambda mine: mine.rows_read is not None and not mine.reads.row_wise,
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
    Mine.DELETED_BY_EQUALITY: lambda mine: any(
        not mine.is_unpartitioned(file.spec_id) for file in mine.equality_deletes
    ),
    Mine.ADDED_FILES: lambda mine: bool(mine.added_data),
}
"""Whether a change is of each kind."""


def classify_changes(commit: OtherCommit, changes: SnapshotChanges) -> dict[Theirs, tuple[Entries, ...]]:
    """The entries of a snapshot's changes, by kind; whether rows were added is decided for the whole commit."""
    adds_rows, keeps_rows = commit.adds_rows, changes.keeps_rows
    files = Theirs.REPLACED_FILES if adds_rows else Theirs.REMOVED_FILES
    positions = Theirs.MOVED_ROWS if adds_rows else Theirs.DELETED_ROWS
    by_kind = {
        Theirs.ADDED_ROWS: () if keeps_rows else changes.added_data,
        Theirs.REWROTE_FILES if keeps_rows else files: changes.removed_data,
        Theirs.REWROTE_DELETES if keeps_rows else positions: changes.added_position_deletes,
        Theirs.UPSERTED_BY_EQUALITY if adds_rows else Theirs.DELETED_BY_EQUALITY: changes.added_equality_deletes,
        Theirs.REMOVED_DELETES: changes.removed_deletes,
        Theirs.ADDED_FILES: changes.added_data,
    }
    return {kind: entries for kind, entries in by_kind.items() if entries}


# Rules ----------------------------------------------------------------------------------------------------------


class Verdict(Enum):
    """What follows when two changes overlap."""

    FINE = "both commit"
    MERGE = "both commit if their deletion vectors are merged, else conflict"
    CONFLICT = "conflict"


FINE, MERGE, CONFLICT = Verdict


@dataclass(frozen=True, slots=True)
class Rule:
    """A pair of kinds that conflicts where the two changes overlap, which the function `overlap` decides."""

    name: str
    mine: tuple[Mine, ...]
    theirs: tuple[Theirs, ...]
    serializable: Verdict
    snapshot: Verdict
    overlap: OverlapCheck

    def verdict(self, isolation: Isolation) -> Verdict:
        """The verdict under an isolation level."""
        return self.serializable if isolation is Isolation.SERIALIZABLE else self.snapshot


_FILES_REMOVED: Final = (Theirs.REMOVED_FILES, Theirs.REPLACED_FILES, Theirs.REWROTE_FILES)
_ROWS_REMOVED: Final = (Theirs.REMOVED_FILES, Theirs.REPLACED_FILES)
_BY_POSITION: Final = (Theirs.DELETED_ROWS, Theirs.MOVED_ROWS)
_BY_EQUALITY: Final = (Theirs.DELETED_BY_EQUALITY, Theirs.UPSERTED_BY_EQUALITY)

RULES: Final[tuple[Rule, ...]] = (
    # both write the same rows: a conflict at both levels
    Rule("row moved meanwhile",
         (Mine.DELETED_ROWS,), (Theirs.MOVED_ROWS,), CONFLICT, CONFLICT, overlaps.same_positions),
    Rule("row changed by both",
         (Mine.MOVED_ROWS,), _BY_POSITION, CONFLICT, CONFLICT, overlaps.same_positions),
    Rule("row deleted by value meanwhile",
         (Mine.MOVED_ROWS,), _BY_EQUALITY, CONFLICT, CONFLICT, overlaps.equality_deletes_of_moved),
    Rule("deleted row is in another file now",
         (Mine.DELETED_ROWS,), (Theirs.REPLACED_FILES, Theirs.REWROTE_FILES), CONFLICT, CONFLICT,
         overlaps.removed_referenced),
    Rule("changed row is gone or in another file now",
         (Mine.MOVED_ROWS,), _FILES_REMOVED, CONFLICT, CONFLICT, overlaps.removed_referenced),
    Rule("file is gone",
         (Mine.COPIED_FILES, Mine.DROPPED_FILES), _FILES_REMOVED, CONFLICT, CONFLICT,
         overlaps.removed_copied_or_dropped),
    Rule("copied row was deleted",
         (Mine.COPIED_FILES,), _BY_POSITION, CONFLICT, CONFLICT, overlaps.deletes_of_copied),
    Rule("copied row was deleted by value",
         (Mine.COPIED_FILES,), _BY_EQUALITY, CONFLICT, CONFLICT, overlaps.equality_deletes_of_copied),
    Rule("row of a dropped file moved meanwhile",
         (Mine.DROPPED_FILES,), (Theirs.MOVED_ROWS,), CONFLICT, CONFLICT, overlaps.deletes_of_dropped),
    Rule("added rows would be lost",
         (Mine.CLEARED_ROWS,), (Theirs.ADDED_ROWS,), CONFLICT, CONFLICT, overlaps.added_where_cleared),
    Rule("cleared row moved by replacing its file",
         (Mine.CLEARED_ROWS,), (Theirs.REPLACED_FILES,), CONFLICT, CONFLICT, overlaps.removed_where_cleared),
    Rule("cleared row moved by position",
         (Mine.CLEARED_ROWS,), (Theirs.MOVED_ROWS,), CONFLICT, CONFLICT, overlaps.deleted_by_position_where_cleared),
    Rule("replaced row was removed with its file",
         (Mine.REFILLED_ROWS,), (Theirs.REMOVED_FILES,), CONFLICT, CONFLICT, overlaps.removed_where_cleared),
    Rule("replaced row was deleted by position",
         (Mine.REFILLED_ROWS,), (Theirs.DELETED_ROWS,), CONFLICT, CONFLICT,
         overlaps.deleted_by_position_where_cleared),
    Rule("replaced row was deleted by value",
         (Mine.REFILLED_ROWS,), _BY_EQUALITY, CONFLICT, CONFLICT, overlaps.deleted_by_value_where_cleared),

    # both write the same files
    Rule("delete file is gone",
         (Mine.REMOVED_DELETES,), (Theirs.REMOVED_DELETES,), CONFLICT, CONFLICT, overlaps.removed_by_both),
    Rule("rows of converted deletes are in another file now",
         (Mine.CONVERTED_DELETES,), (Theirs.REPLACED_FILES, Theirs.REWROTE_FILES), CONFLICT, CONFLICT,
         overlaps.removed_referenced),
    Rule("rows out of reach of equality deletes",
         (Mine.DELETED_BY_EQUALITY,), (Theirs.ADDED_FILES,), CONFLICT, CONFLICT, overlaps.added_with_other_spec),
    Rule("file added twice",
         (Mine.ADDED_FILES,), (Theirs.ADDED_FILES,), CONFLICT, CONFLICT, overlaps.added_by_both),

    # others changed rows that were read: a conflict under serializable isolation
    Rule("rows appeared",
         (Mine.READ_ROWS,), (Theirs.ADDED_ROWS,), CONFLICT, FINE, overlaps.added_where_read),
    Rule("rows disappeared with their files",
         (Mine.COMBINED_ROWS,), _ROWS_REMOVED, CONFLICT, FINE, overlaps.removed_where_read),
    Rule("rows disappeared by position",
         (Mine.COMBINED_ROWS,), _BY_POSITION, CONFLICT, FINE, overlaps.deleted_by_position_where_read),
    Rule("rows disappeared by value",
         (Mine.COMBINED_ROWS,), _BY_EQUALITY, CONFLICT, FINE, overlaps.deleted_by_value_where_read),

    # a data file has at most one deletion vector, and a vector needs its data file
    Rule("second deletion vector",
         (Mine.ADDED_VECTORS,), (*_BY_POSITION, Theirs.REWROTE_DELETES), MERGE, MERGE,
         overlaps.deletes_of_vector_targets),
    Rule("deletion vector without data file",
         (Mine.ADDED_VECTORS,), _FILES_REMOVED, MERGE, MERGE, overlaps.removed_vector_targets),
)  # fmt: skip
"""All pairs that conflict. The first rule that applies is reported. docs/isolation.md shows this table."""

_SHOWN_FILES: Final = 3

# Check ----------------------------------------------------------------------------------------------------------


def check(
    attempt: Attempt,
    footprint: Footprint,
    branch: str,
    *,
    cache: SnapshotCache | None = None,
    can_merge: bool = False,
    read_positions: PositionReader | None = None,
) -> tuple[VectorMerge, ...]:
    """Raise `ConflictingChange` if a change conflicts with what others committed to the branch since it read the table.

    `cache`, kept by the change from attempt to attempt, saves reading the same manifests again. With `can_merge`, the
    deletion vectors that must be merged with those of others, or left out, are returned (`change_index.merge_vectors`
    does it); without it they are conflicts. `read_positions` reads position delete files: with it, deletes of different
    rows of a file do not conflict, even if the bounds of the positions overlap.

    >>> from floe.commit.operations.data_changes import FastAppend
    >>> from floe.commit.change import Reads
    >>> from floe.spec.expressions.dsl import col
    >>> from helpers.tables import Box, data_file, new_table
    >>> box = Box(new_table())
    >>> start = box.commit(FastAppend([data_file("a.parquet", day=1)])).snapshot_id
    >>> others = box.commit(FastAppend([data_file("b.parquet", day=2)]))
    >>> check(box.attempt(), Footprint(Reads(start, col("day") == 1)), "main")
    ()
    >>> check(box.attempt(), Footprint(Reads(start, col("day") == 2)), "main")
    Traceback (most recent call last):
    floe.errors.ConflictingChange: rows appeared: this change read rows, and snapshot ... added rows (...)
    """
    try:
        if attempt.start is None or footprint.reads.blind:
            _check_blind(footprint)
            return ()
        commits = read_concurrent_commits(
            attempt.start,
            attempt.storage,
            start_id=_snapshot_read(attempt, footprint),
            branch=branch,
            cache=cache,
        )
        mine = ChangeIndex(footprint, attempt.metadata, VectorReader(attempt.storage), read_positions)
        mergeable = _check_rules(mine, commits, footprint.isolation)
        merges = plan_vector_merges(mine, commits) if mergeable else ()
        if merges and not (can_merge and all(merge.possible for merge in merges)):
            raise mergeable[0].error("merge the deletion vectors, or read the table again and repeat the change")
        return merges
    except ConflictingChange as error:
        raise error.with_context(table=attempt.table, branch=branch) from None


class _Conflict(NamedTuple):
    """A rule that applies: the kinds of both changes, and the snapshot and files in which they overlap."""

    rule: Rule
    mine: Mine
    theirs: Theirs
    other: Snapshot
    files: list[str]

    def error(self, hint: str = "read the table again and repeat the change") -> ConflictingChange:
        """The error that reports the conflict."""
        more = ", …" if len(self.files) > _SHOWN_FILES else ""
        mine, theirs, other = self.mine.value, self.theirs.value, self.other
        return ConflictingChange(
            f"{self.rule.name}: this change {mine}, and snapshot {other.snapshot_id} {theirs}",
            hint=hint,
            snapshot=other.snapshot_id,
            operation=other.operation,
            rule=self.rule.name,
            files=", ".join(self.files[:_SHOWN_FILES]) + more,
        )


def _check_rules(mine: ChangeIndex, commits: ConcurrentCommits, isolation: Isolation) -> list[_Conflict]:
    """Raise the first conflict, or return those that can be resolved by merging deletion vectors."""
    mergeable = []
    for conflict in _conflicts(mine, commits, isolation):
        if conflict.rule.verdict(isolation) is CONFLICT:
            raise conflict.error()
        mergeable.append(conflict)
    return mergeable


def _conflicts(mine: ChangeIndex, commits: ConcurrentCommits, isolation: Isolation) -> Iterator[_Conflict]:
    """The conflicts, in the order of the rules, oldest snapshot first."""
    snapshots = [(changes, classify_changes(commit, changes)) for commit, changes in commits]
    my_kinds = [kind for kind, declares in DECLARES.items() if declares(mine)] if snapshots else []
    for rule in RULES:
        my_kind = next((kind for kind in my_kinds if kind in rule.mine), None)
        if my_kind is None or rule.verdict(isolation) is FINE:
            continue
        for changes, by_kind in snapshots:
            for their_kind in rule.theirs:
                overlapping = rule.overlap(mine, changes, by_kind[their_kind]) if their_kind in by_kind else iter(())
                files = list(islice(overlapping, _SHOWN_FILES + 1))
                if files:
                    yield _Conflict(rule, my_kind, their_kind, changes.snapshot, files)


def _snapshot_read(attempt: Attempt, footprint: Footprint) -> int | None:
    """The id of the snapshot that was read; it must be one that others can have built on."""
    snapshot_id = footprint.reads.snapshot_id
    assert attempt.start is not None
    if snapshot_id in attempt.metadata.snapshots_by_id and snapshot_id not in attempt.start.snapshots_by_id:
        raise InvalidInput(
            "the snapshot that a change of a transaction read must not be one of the transaction's own",
            hint="give the head of the branch when the transaction began",
            snapshot=snapshot_id,
        )
    return snapshot_id


def _check_blind(footprint: Footprint) -> None:
    """Raise if a change says that it read nothing, though it copies, rewrites or deletes rows of existing files."""
    reads, writes = footprint.reads, footprint.writes
    if not reads.blind:
        return
    foreign = writes.referenced - {file.file_path for file in writes.added}
    rewritten = {file.file_path for file in writes.removed} if writes.same_rows else frozenset()
    if reads.files or foreign or rewritten:
        raise InvalidInput(
            "a change copies rows of data files, or deletes some by position, and says that it read nothing",
            hint="give the snapshot that was read",
            file=min(reads.files | foreign | rewritten),
        )
