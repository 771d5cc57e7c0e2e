"""Which changes conflict with what others committed since: one table for all operations.

A change declares what it read and writes (`floe.commit.change`); what others did is read from their manifests
(`window`). `RULES` says for which pairs of these two is not published, under each isolation level, and
`meetings` in which files the two meet. A pair that no rule speaks of may be committed in either order. So
appends that read nothing never conflict, nor do changes of different partitions, nor two deletions of the same rows.

Only two things depend on the level: whether rows that appeared, or disappeared, among those that a change looked at
matter to it. Two changes that write the same row conflict under both, and a row that an UPDATE moved to another file is
still the same row: the lost delete of merge-on-read DELETE against UPDATE is the rule `row moved meanwhile`.

The kinds of things that a change declares and that others do: rows and columns of the table of conflicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple

from floe.commit.change import Attempt, Footprint, Isolation
from floe.commit.conflicts import overlaps
from floe.commit.conflicts.change_index import ChangeIndex, VectorMerge, merges_for
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

# The kinds of things that a change declares and that others do: rows and columns of the table of conflicts.


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


DECLARES: Final[Mapping[Mine, Callable[[ChangeIndex], bool]]] = {
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


def happened(commit: OtherCommit, facts: SnapshotChanges) -> dict[Theirs, tuple[Entries, ...]]:
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


class Verdict(Enum):
    """What follows when two changes meet."""

    FINE = "both commit"
    MERGE = "both commit if their deletion vectors are merged, else conflict"
    CONFLICT = "conflict"


FINE, MERGE, CONFLICT = Verdict


@dataclass(frozen=True, slots=True)
class Rule:
    """What a change may have declared against what others may have done, and where the two meet."""

    name: str
    mine: tuple[Mine, ...]
    theirs: tuple[Theirs, ...]
    serializable: Verdict
    snapshot: Verdict
    meets: OverlapCheck

    def verdict(self, isolation: Isolation) -> Verdict:
        """What follows at an isolation level."""
        return self.serializable if isolation is Isolation.SERIALIZABLE else self.snapshot


_GONE: Final = (Theirs.REMOVED_FILES, Theirs.REPLACED_FILES, Theirs.REWROTE_FILES)
_CHANGED: Final = (Theirs.REMOVED_FILES, Theirs.REPLACED_FILES)
_BY_POSITION: Final = (Theirs.DELETED_ROWS, Theirs.MOVED_ROWS)
_BY_VALUE: Final = (Theirs.DELETED_VALUES, Theirs.UPSERTED_VALUES)

RULES: Final[tuple[Rule, ...]] = (
    # the same rows are written by both: a conflict at every level
    Rule("row moved meanwhile",
         (Mine.DELETED_ROWS,), (Theirs.MOVED_ROWS,), CONFLICT, CONFLICT, overlaps.same_positions),
    Rule("row changed by both",
         (Mine.MOVED_ROWS,), _BY_POSITION, CONFLICT, CONFLICT, overlaps.same_positions),
    Rule("row deleted by value meanwhile",
         (Mine.MOVED_ROWS,), _BY_VALUE, CONFLICT, CONFLICT, overlaps.values_of_moved),
    Rule("deleted row is in another file now",
         (Mine.DELETED_ROWS,), (Theirs.REPLACED_FILES, Theirs.REWROTE_FILES), CONFLICT, CONFLICT,
         overlaps.gone_referenced),
    Rule("changed row is gone or in another file now",
         (Mine.MOVED_ROWS,), _GONE, CONFLICT, CONFLICT, overlaps.gone_referenced),
    Rule("file is gone",
         (Mine.COPIED_FILES, Mine.DROPPED_FILES), _GONE, CONFLICT, CONFLICT, overlaps.gone_copied_or_dropped),
    Rule("copied row was deleted",
         (Mine.COPIED_FILES,), _BY_POSITION, CONFLICT, CONFLICT, overlaps.deletes_of_copied),
    Rule("copied row was deleted by value",
         (Mine.COPIED_FILES,), _BY_VALUE, CONFLICT, CONFLICT, overlaps.values_of_copied),
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
         (Mine.REFILLED_ROWS,), _BY_VALUE, CONFLICT, CONFLICT, overlaps.deleted_by_value_where_cleared),

    # the same files are written by both
    Rule("delete file is gone",
         (Mine.REMOVED_DELETES,), (Theirs.REMOVED_DELETES,), CONFLICT, CONFLICT, overlaps.same_delete_files),
    Rule("rows of converted deletes are in another file now",
         (Mine.CONVERTED_DELETES,), (Theirs.REPLACED_FILES, Theirs.REWROTE_FILES), CONFLICT, CONFLICT,
         overlaps.gone_referenced),
    Rule("rows out of reach of equality deletes",
         (Mine.DELETED_VALUES,), (Theirs.ADDED_FILES,), CONFLICT, CONFLICT, overlaps.added_in_reach),
    Rule("file added twice",
         (Mine.ADDED_FILES,), (Theirs.ADDED_FILES,), CONFLICT, CONFLICT, overlaps.same_new_files),

    # what was read is not what is there now: a conflict for those who want to be alone
    Rule("rows appeared",
         (Mine.READ_ROWS,), (Theirs.ADDED_ROWS,), CONFLICT, FINE, overlaps.added_where_read),
    Rule("rows disappeared with their files",
         (Mine.WEIGHED_ROWS,), _CHANGED, CONFLICT, FINE, overlaps.removed_where_read),
    Rule("rows disappeared by position",
         (Mine.WEIGHED_ROWS,), _BY_POSITION, CONFLICT, FINE, overlaps.deleted_by_position_where_read),
    Rule("rows disappeared by value",
         (Mine.WEIGHED_ROWS,), _BY_VALUE, CONFLICT, FINE, overlaps.deleted_by_value_where_read),

    # a data file can have one deletion vector, and only as long as it is there
    Rule("second deletion vector",
         (Mine.ADDED_VECTORS,), (*_BY_POSITION, Theirs.REWROTE_DELETES), MERGE, MERGE,
         overlaps.deletes_of_vector_targets),
    Rule("deletion vector without data file",
         (Mine.ADDED_VECTORS,), _GONE, MERGE, MERGE, overlaps.gone_vector_targets),
)  # fmt: skip
"""All pairs that conflict; the first rule that applies is the one that is reported."""

_SHOWN_FILES: Final = 3


def check(
    attempt: Attempt,
    footprint: Footprint,
    branch: str,
    *,
    memory: SnapshotCache | None = None,
    can_merge: bool = False,
    read_positions: PositionReader | None = None,
) -> tuple[VectorMerge, ...]:
    """Raise `ConflictingChange` if what others committed to the branch since must not be built upon.

    `memory`, kept by the change from attempt to attempt, saves reading the same manifests again. A change that
    `can_merge` gets the data files back whose deletion vectors it has to merge with those of others, or leave out
    (`vector_merging` does it); for one that cannot these are conflicts. `read_positions` looks into
    position delete files: with it, changes of different rows of a file are told apart where only these files can tell.

    >>> from floe.commit.operations.append import FastAppend
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
    floe.errors.ConflictingChange: rows appeared: this change looked at rows, and snapshot ... added rows (...)
    """
    try:
        if attempt.start is None or footprint.reads.blind:
            _check_blind(footprint)
            return ()
        window = read_concurrent_commits(
            attempt.start,
            attempt.storage,
            start_id=_published(attempt, footprint),
            branch=branch,
            memory=memory,
        )
        mine = ChangeIndex(footprint, attempt.metadata, VectorReader(attempt.storage), read_positions)
        clashing = _judge(mine, window, footprint.isolation)
        merges = merges_for(mine, window) if clashing else ()
        if merges and not (can_merge and all(merge.possible for merge in merges)):
            raise clashing[0].conflict("merge the deletion vectors, or read the table again and make the change anew")
        return merges
    except ConflictingChange as error:
        raise error.with_context(table=attempt.table, branch=branch) from None


class _Met(NamedTuple):
    """A rule that applies: what met what, in which snapshot and which files."""

    rule: Rule
    mine: Mine
    theirs: Theirs
    other: Snapshot
    files: list[str]

    def conflict(self, hint: str = "read the table again and make the change anew") -> ConflictingChange:
        """The error that tells about it."""
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


def _judge(mine: ChangeIndex, window: ConcurrentCommits, isolation: Isolation) -> list[_Met]:
    """Raises for the first conflict; gives what has to be merged."""
    to_merge = []
    for met in _meetings(mine, window, isolation):
        if met.rule.verdict(isolation) is CONFLICT:
            raise met.conflict()
        to_merge.append(met)
    return to_merge


def _meetings(mine: ChangeIndex, window: ConcurrentCommits, isolation: Isolation) -> Iterator[_Met]:
    """The rules that apply: rule by rule, oldest snapshot first."""
    done = [(facts, happened(commit, facts)) for commit, facts in window]
    declared = [kind for kind, declares in DECLARES.items() if declares(mine)] if done else []
    for rule in RULES:
        own = next((kind for kind in declared if kind in rule.mine), None)
        if own is None or rule.verdict(isolation) is FINE:
            continue
        for facts, kinds in done:
            for kind in rule.theirs:
                found = rule.meets(mine, facts, kinds[kind]) if kind in kinds else iter(())
                files = list(islice(found, _SHOWN_FILES + 1))
                if files:
                    yield _Met(rule, own, kind, facts.snapshot, files)


def _published(attempt: Attempt, footprint: Footprint) -> int | None:
    """The snapshot that was read, which must be one that others can have built upon."""
    snapshot_id = footprint.reads.snapshot_id
    assert attempt.start is not None
    if snapshot_id in attempt.metadata.snapshots_by_id and snapshot_id not in attempt.start.snapshots_by_id:
        raise InvalidInput(
            "a change of a transaction gives as the snapshot that was read one of the transaction's own",
            hint="give the head of the branch when the transaction began",
            snapshot=snapshot_id,
        )
    return snapshot_id


def _check_blind(footprint: Footprint) -> None:
    """Raise if a change says that it read nothing, though what it writes cannot come from nothing."""
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
