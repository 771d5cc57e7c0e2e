"""Changes of refs: creating, moving, renaming and removing branches and tags; fast-forward and rollback of branches.

Concurrency: every change is applied to the newest state, and its conditions are checked again there. A name that
another commit has used meanwhile is not overwritten. If the caller says at which snapshot a ref was (`expected`), it is
a `ConflictingChange` if another commit has moved it; without that, the ref is moved or removed wherever it is. Commits
to other branches do not matter.

A rollback undoes the commits that the caller saw. If the branch has newer ones, these would be lost, so it is a
`ConflictingChange`, unless `discard_newer` is set. Nothing is deleted: the snapshots stay until they expire. A branch
is rolled back only to a state that readers have seen: a transaction with several snapshots is undone completely or not
at all. `SetCurrentSnapshot` can move a branch to any snapshot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from floe.commit.change import Attempt
from floe.errors import AlreadyExists, ConflictingChange, InvalidUpdate, NoSuchRef, NoSuchSnapshot
from floe.spec.metadata.ancestry import Around, ancestors, commit_around, is_ancestor_of, unknown_before
from floe.spec.metadata.snapshots import MAIN_BRANCH, SnapshotRef
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import RemoveSnapshotRef, SetSnapshotRef, TableUpdate
from floe.spec.values.civil_time import millis_to_text


class Unchanged(Enum):
    """The type of `UNCHANGED`."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED
"""Leaves a retention setting as it is."""

RefType = Literal["branch", "tag"]


@dataclass(frozen=True, slots=True)
class CreateRef:
    """Creates a branch or tag at a snapshot; by default at the head of `main` when it is committed.

    >>> CreateRef("audit", "tag", snapshot_id=7, max_ref_age_ms=86_400_000).ref(7)
    SnapshotRef(snapshot_id=7, type='tag', max_ref_age_ms=86400000)
    """

    name: str
    type: RefType
    snapshot_id: int | None = None
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None

    def ref(self, snapshot_id: int) -> SnapshotRef:
        """The branch or tag at a snapshot."""
        return SnapshotRef(
            snapshot_id=snapshot_id,
            type=self.type,
            min_snapshots_to_keep=self.min_snapshots_to_keep,
            max_snapshot_age_ms=self.max_snapshot_age_ms,
            max_ref_age_ms=self.max_ref_age_ms,
        )

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The update that creates the ref; raises `AlreadyExists` if the name is in use."""
        table = attempt.metadata
        _check_name_unused(table, self.name)
        snapshot_id = table.current_snapshot_id if self.snapshot_id is None else self.snapshot_id
        if snapshot_id is None:
            raise InvalidUpdate(
                f"{self.type} {self.name!r} cannot be created: the table has no current snapshot",
                hint="append rows first, or name a snapshot",
            )
        table.snapshot(snapshot_id)
        return (SetSnapshotRef(self.name, self.ref(snapshot_id)),)


@dataclass(frozen=True, slots=True)
class MoveRef:
    """Moves a branch or tag to any other snapshot; its retention stays.

    `expected` is the snapshot at which the caller saw the ref.

    >>> MoveRef("audit", 8, expected=7).expected
    7
    """

    name: str
    snapshot_id: int
    expected: int | None = None

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The update that moves the ref; none if it is at the snapshot already."""
        table = attempt.metadata
        ref = table.ref(self.name)
        table.snapshot(self.snapshot_id)
        if ref.snapshot_id == self.snapshot_id:
            return ()
        _check_expected(attempt, self.name, self.expected, f"moved to snapshot {self.snapshot_id}")
        return (SetSnapshotRef(self.name, ref.at(self.snapshot_id)),)


@dataclass(frozen=True, slots=True)
class RemoveRef:
    """Removes a branch or tag; its snapshots stay until they expire.

    >>> RemoveRef("main")
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: main cannot be removed: it is what readers see
    """

    name: str
    type: RefType | None = None
    """The type that the ref must have; None for any."""

    expected: int | None = None
    if_exists: bool = False

    def __post_init__(self) -> None:
        _check_not_main(self.name, "removed")

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The update that removes the ref; raises `NoSuchRef` if there is none and `if_exists` is not set."""
        ref = attempt.metadata.refs.get(self.name)
        if ref is None:
            if self.if_exists:
                return ()
            attempt.metadata.ref(self.name)  # raises, with the names of the existing refs
        elif self.type is not None and ref.type != self.type:
            raise NoSuchRef(f"the table has no {self.type} named {self.name!r}: it is a {ref.type}")
        _check_expected(attempt, self.name, self.expected, "removed")
        return (RemoveSnapshotRef(self.name),)


@dataclass(frozen=True, slots=True)
class RenameRef:
    """Renames a branch or tag; its snapshot and retention stay.

    >>> RenameRef("audit", "main")
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: main cannot be replaced by another branch's name: it is what readers see
    """

    name: str
    new_name: str

    def __post_init__(self) -> None:
        _check_not_main(self.name, "renamed")
        _check_not_main(self.new_name, "replaced by another branch's name")

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The updates that rename the ref; raises `AlreadyExists` if the new name is in use."""
        ref = attempt.metadata.ref(self.name)
        if self.name == self.new_name:
            return ()
        _check_name_unused(attempt.metadata, self.new_name)
        return RemoveSnapshotRef(self.name), SetSnapshotRef(self.new_name, ref)


@dataclass(frozen=True, slots=True)
class SetRetention:
    """Sets how long a branch or tag, and the snapshots of a branch, are kept; None means the table's properties.

    >>> SetRetention("audit", max_ref_age_ms=None).min_snapshots_to_keep is UNCHANGED
    True
    """

    name: str
    min_snapshots_to_keep: int | Unchanged | None = UNCHANGED
    max_snapshot_age_ms: int | Unchanged | None = UNCHANGED
    max_ref_age_ms: int | Unchanged | None = UNCHANGED

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The update that sets the retention; none if it stays the same."""
        ref = attempt.metadata.ref(self.name)
        changed = ref.with_retention(
            min_snapshots_to_keep=_setting_or_current(self.min_snapshots_to_keep, ref.min_snapshots_to_keep),
            max_snapshot_age_ms=_setting_or_current(self.max_snapshot_age_ms, ref.max_snapshot_age_ms),
            max_ref_age_ms=_setting_or_current(self.max_ref_age_ms, ref.max_ref_age_ms),
        )
        return () if changed == ref else (SetSnapshotRef(self.name, changed),)


@dataclass(frozen=True, slots=True)
class FastForward:
    """Moves a branch to a descendant of its head: a snapshot, or the snapshot of another branch or tag.

    A branch that does not exist is created there.

    >>> FastForward("main", "audit").to
    'audit'
    """

    branch: str
    to: str | int
    """The name of a branch or tag, or the id of a snapshot."""

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The update that moves the branch; raises `ConflictingChange` if the target does not descend from its head."""
        table = attempt.metadata
        target = table.ref(self.to).snapshot_id if isinstance(self.to, str) else table.snapshot(self.to).snapshot_id
        ref = table.refs.get(self.branch)
        if ref is None:
            return (SetSnapshotRef(self.branch, SnapshotRef(snapshot_id=target, type="branch")),)
        if ref.is_tag:
            raise InvalidUpdate(f"{self.branch!r} is a tag, and tags are not moved", hint="name a branch")
        if ref.snapshot_id == target:
            return ()
        if not is_ancestor_of(table, ref.snapshot_id, target):
            if (oldest := unknown_before(table, target, ref.snapshot_id)) is not None:
                raise ConflictingChange(
                    f"branch {self.branch!r} cannot be fast-forwarded to {self.to!r}: it is not known whether its "
                    f"head, snapshot {ref.snapshot_id}, is in the history of snapshot {target}, which is known only "
                    f"down to snapshot {oldest.snapshot_id}, what came before has expired",
                    hint="check that no commit of the branch would be lost, and move it with MoveRef",
                )
            raise ConflictingChange(
                f"branch {self.branch!r} cannot be fast-forwarded to {self.to!r}: its head, snapshot "
                f"{ref.snapshot_id}, is not in the history of snapshot {target}",
                hint="commits of the branch would be lost; cherry-pick instead, or move the branch if that is intended",
            )
        if isinstance(self.to, int):
            heads = {branch.snapshot_id for branch in table.refs.values() if branch.is_branch}
            for around in (commit_around(table, target, head) for head in heads):
                if around is not None:
                    raise within_transaction(f"branch {self.branch!r} cannot be fast-forwarded to", target, around)
        return (SetSnapshotRef(self.branch, ref.at(target)),)


def within_transaction(failed_action: str, snapshot_id: int, around: Around) -> InvalidUpdate:
    """The error for moving a branch to an intermediate snapshot of a transaction.

    >>> print(within_transaction("main cannot be moved to", 2, Around(1, 3)).message)
    main cannot be moved to snapshot 2: it is in the midst of a transaction, which led from snapshot 1 ...
    """
    before = "an empty table" if around.before is None else f"snapshot {around.before}"
    hint_before = "" if around.before is None else f"snapshot {around.before} is the state before the transaction, "
    return InvalidUpdate(
        f"{failed_action} snapshot {snapshot_id}: it is in the midst of a transaction, which led from {before} to "
        f"snapshot {around.after} at once, so that no reader saw it",
        hint=f"{hint_before}snapshot {around.after} the state after it; time travel can read the snapshot",
        snapshot=snapshot_id,
    )


def _setting_or_current(setting: int | Unchanged | None, current: int | None) -> int | None:
    return current if isinstance(setting, Unchanged) else setting


def _check_name_unused(table: TableMetadata, name: str) -> None:
    ref = table.refs.get(name)
    if ref is not None:
        raise AlreadyExists(
            f"the table has a {ref.type} named {name!r} already, at snapshot {ref.snapshot_id}",
            hint="choose another name, or move it",
        )


def _check_not_main(name: str, verb: str) -> None:
    if name == MAIN_BRANCH:
        raise InvalidUpdate(f"{MAIN_BRANCH} cannot be {verb}: it is what readers see")


def _check_expected(attempt: Attempt, name: str, expected: int | None, verb: str) -> None:
    """Raise if the caller expects the ref at another snapshot: a commit of somebody else would be undone."""
    ref = None if attempt.start is None else attempt.start.refs.get(name)
    if expected is not None and ref is not None and ref.snapshot_id != expected:
        raise ConflictingChange(
            f"{ref.type} {name!r} cannot be {verb}: it was at snapshot {expected}, and is at {ref.snapshot_id} now",
            hint="load the table again and repeat the change",
            snapshot=ref.snapshot_id,
        )


# Rollback ---------------------------------------------------------------------------------------------------------


class ExpectedHead(Enum):
    """The type of `FIRST_ATTEMPT`."""

    FIRST_ATTEMPT = "the head at the first attempt"


FIRST_ATTEMPT: Final = ExpectedHead.FIRST_ATTEMPT
"""Stands for the head of the branch when the commit is first attempted."""


class _BranchMove(ABC):
    """Moves a branch to a snapshot that every attempt determines; `expected` is the head that the caller saw."""

    def __init__(
        self,
        *,
        branch: str = MAIN_BRANCH,
        expected: int | ExpectedHead | None = FIRST_ATTEMPT,
        discard_newer: bool = False,
    ) -> None:
        self.target_branch = branch
        self._expected = expected
        self._discard_newer = discard_newer

    @abstractmethod
    def target(self, table: TableMetadata, head: int | None) -> int:
        """The snapshot to move to; raises an error that says why there is none."""

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The update that moves the branch; none if it is at the snapshot already."""
        self._check_nothing_newer(attempt)
        table = attempt.metadata
        ref = table.refs.get(self.target_branch)
        if ref is not None and ref.is_tag:
            raise InvalidUpdate(f"{self.target_branch!r} is a tag, and tags are not moved", hint="name a branch")
        if ref is None and self.target_branch != MAIN_BRANCH:
            table.ref(self.target_branch)  # raises, with the names of the existing refs
        target = self.target(table, None if ref is None else ref.snapshot_id)
        if ref is None:
            return (SetSnapshotRef(self.target_branch, SnapshotRef(snapshot_id=target, type="branch")),)
        if ref.snapshot_id == target:
            return ()
        return (SetSnapshotRef(self.target_branch, ref.at(target)),)

    def _check_nothing_newer(self, attempt: Attempt) -> None:
        ref = None if attempt.start is None else attempt.start.refs.get(self.target_branch)
        head = None if ref is None else ref.snapshot_id
        if isinstance(self._expected, ExpectedHead):
            self._expected = head
        if head != self._expected and not self._discard_newer:
            raise ConflictingChange(
                f"branch {self.target_branch!r} cannot be moved: it was at snapshot {self._expected}, and another "
                f"commit moved it to {head}, which would be lost",
                hint="look at the newer commits; to undo them too, roll back again",
                snapshot=head,
            )


class RollbackToSnapshot(_BranchMove):
    """Moves a branch back to a snapshot in its history.

    >>> RollbackToSnapshot(7).snapshot_id
    7
    """

    def __init__(
        self,
        snapshot_id: int,
        *,
        branch: str = MAIN_BRANCH,
        expected: int | ExpectedHead | None = FIRST_ATTEMPT,
        discard_newer: bool = False,
    ) -> None:
        super().__init__(branch=branch, expected=expected, discard_newer=discard_newer)
        self.snapshot_id = snapshot_id

    def target(self, table: TableMetadata, head: int | None) -> int:
        """The snapshot, if it is in the history of the branch and not within a transaction."""
        table.snapshot(self.snapshot_id)
        if not is_ancestor_of(table, self.snapshot_id, head):
            if (oldest := unknown_before(table, head, self.snapshot_id)) is not None:
                raise InvalidUpdate(
                    f"branch {self.target_branch!r} cannot be rolled back to snapshot {self.snapshot_id}: it is not "
                    f"known whether it is in the history of the head, snapshot {head}, which is known only down to "
                    f"snapshot {oldest.snapshot_id}, what came before has expired",
                    hint="check the snapshot, and set it as the current one if that is intended",
                    snapshot=self.snapshot_id,
                )
            raise InvalidUpdate(
                f"branch {self.target_branch!r} cannot be rolled back to snapshot {self.snapshot_id}: it is not in the "
                f"history of its head, snapshot {head}",
                hint="to move to a snapshot outside its history, set it as the current one",
                snapshot=self.snapshot_id,
            )
        if (around := commit_around(table, self.snapshot_id, head)) is not None:
            raise within_transaction(
                f"branch {self.target_branch!r} cannot be rolled back to", self.snapshot_id, around
            )
        return self.snapshot_id


class RollbackToTime(_BranchMove):
    """Moves a branch back to the newest snapshot in its history from before a timestamp.

    >>> RollbackToTime(1_700_000_000_000).timestamp_ms
    1700000000000
    """

    def __init__(
        self,
        timestamp_ms: int,
        *,
        branch: str = MAIN_BRANCH,
        expected: int | ExpectedHead | None = FIRST_ATTEMPT,
        discard_newer: bool = False,
    ) -> None:
        super().__init__(branch=branch, expected=expected, discard_newer=discard_newer)
        self.timestamp_ms = timestamp_ms

    def target(self, table: TableMetadata, head: int | None) -> int:
        """The newest older snapshot that is not within a transaction.

        Timestamps are compared, not the order of commits: the clocks of writers differ.
        """
        older = [snapshot for snapshot in ancestors(table, head) if snapshot.timestamp_ms < self.timestamp_ms]
        older.sort(key=lambda snapshot: snapshot.timestamp_ms, reverse=True)
        ids = (snapshot.snapshot_id for snapshot in older if commit_around(table, snapshot.snapshot_id, head) is None)
        target = next(ids, None)
        if target is None:
            raise NoSuchSnapshot(
                f"branch {self.target_branch!r} has no snapshot from before {millis_to_text(self.timestamp_ms)}",
                hint="older ones may have expired" if head is not None else "the branch is empty",
            )
        return target


class SetCurrentSnapshot(_BranchMove):
    """Moves a branch to any snapshot of the table, given by its id or by a branch or tag.

    >>> SetCurrentSnapshot("audit").to
    'audit'
    """

    def __init__(
        self,
        to: int | str,
        *,
        branch: str = MAIN_BRANCH,
        expected: int | ExpectedHead | None = FIRST_ATTEMPT,
        discard_newer: bool = False,
    ) -> None:
        super().__init__(branch=branch, expected=expected, discard_newer=discard_newer)
        self.to = to

    def target(self, table: TableMetadata, head: int | None) -> int:
        """The snapshot, in the history of the branch or not."""
        return table.ref(self.to).snapshot_id if isinstance(self.to, str) else table.snapshot(self.to).snapshot_id
