"""Branches and tags: created, moved, renamed, removed, kept for longer or shorter, fast-forwarded.

Concurrency: each is made again, and its rules are checked again, on every newer state. A name that somebody else took
meanwhile is not taken over. Whoever says which snapshot he saw a branch or tag at (`seen`) gets a `ConflictingChange`
if it was moved since; without that, what it points at now is what is moved or removed. Commits to other branches are
no matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from floe.commit.change import Attempt
from floe.errors import AlreadyExists, ConflictingChange, InvalidUpdate, NoSuchRef
from floe.spec.metadata.ancestry import Around, commit_around, is_ancestor_of, unknown_before
from floe.spec.metadata.snapshots import MAIN_BRANCH, SnapshotRef
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import RemoveSnapshotRef, SetSnapshotRef, TableUpdate


class Unchanged(Enum):
    """Stands for a setting that is left as it is."""

    UNCHANGED = "as it is"


UNCHANGED: Final = Unchanged.UNCHANGED
"""Leave the setting as it is."""

RefType = Literal["branch", "tag"]


@dataclass(frozen=True, slots=True)
class CreateRef:
    """Creates a branch or tag at a snapshot, or at where `main` is at the time of the commit.

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
        """The branch or tag."""
        return SnapshotRef(
            snapshot_id=snapshot_id,
            type=self.type,
            min_snapshots_to_keep=self.min_snapshots_to_keep,
            max_snapshot_age_ms=self.max_snapshot_age_ms,
            max_ref_age_ms=self.max_ref_age_ms,
        )

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The new branch or tag; the name must be free."""
        table = attempt.metadata
        _check_free(table, self.name)
        snapshot_id = table.current_snapshot_id if self.snapshot_id is None else self.snapshot_id
        if snapshot_id is None:
            raise InvalidUpdate(
                f"{self.type} {self.name!r} cannot be created: the table has no current snapshot",
                hint="write something first, or name a snapshot",
            )
        table.snapshot(snapshot_id)
        return (SetSnapshotRef(self.name, self.ref(snapshot_id)),)


@dataclass(frozen=True, slots=True)
class MoveRef:
    """Points a branch or tag at another snapshot, whatever its history; its retention stays.

    >>> MoveRef("audit", 8, seen=7).seen
    7
    """

    name: str
    snapshot_id: int
    seen: int | None = None

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The move, unless it points there already."""
        table = attempt.metadata
        ref = table.ref(self.name)
        table.snapshot(self.snapshot_id)
        if ref.snapshot_id == self.snapshot_id:
            return ()
        _check_seen(attempt, self.name, self.seen, f"moved to snapshot {self.snapshot_id}")
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
    """What it must be, if that is known."""

    seen: int | None = None
    if_exists: bool = False

    def __post_init__(self) -> None:
        _check_not_main(self.name, "removed")

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The removal; a name that is not there is an error unless that is fine."""
        ref = attempt.metadata.refs.get(self.name)
        if ref is None:
            if self.if_exists:
                return ()
            attempt.metadata.ref(self.name)  # raises, with the names that there are
        elif self.type is not None and ref.type != self.type:
            raise NoSuchRef(f"the table has no {self.type} named {self.name!r}: it is a {ref.type}")
        _check_seen(attempt, self.name, self.seen, "removed")
        return (RemoveSnapshotRef(self.name),)


@dataclass(frozen=True, slots=True)
class RenameRef:
    """Gives a branch or tag another name; what it points at and its retention stay.

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
        """The new name in place of the old; it must be free."""
        ref = attempt.metadata.ref(self.name)
        if self.name == self.new_name:
            return ()
        _check_free(attempt.metadata, self.new_name)
        return RemoveSnapshotRef(self.name), SetSnapshotRef(self.new_name, ref)


@dataclass(frozen=True, slots=True)
class SetRetention:
    """Sets how long a branch or tag, and the snapshots of a branch, are kept; None leaves it to the table's properties.

    >>> SetRetention("audit", max_ref_age_ms=None).min_snapshots_to_keep is UNCHANGED
    True
    """

    name: str
    min_snapshots_to_keep: int | Unchanged | None = UNCHANGED
    max_snapshot_age_ms: int | Unchanged | None = UNCHANGED
    max_ref_age_ms: int | Unchanged | None = UNCHANGED

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The branch or tag with its new retention, wherever it points now."""
        ref = attempt.metadata.ref(self.name)
        changed = ref.kept(
            min_snapshots_to_keep=_chosen(self.min_snapshots_to_keep, ref.min_snapshots_to_keep),
            max_snapshot_age_ms=_chosen(self.max_snapshot_age_ms, ref.max_snapshot_age_ms),
            max_ref_age_ms=_chosen(self.max_ref_age_ms, ref.max_ref_age_ms),
        )
        return () if changed == ref else (SetSnapshotRef(self.name, changed),)


@dataclass(frozen=True, slots=True)
class FastForward:
    """Moves a branch to where another branch or tag, or a snapshot, is ahead of it; nothing of it may be lost.

    A branch that does not exist is created there.

    >>> FastForward("main", "audit").to
    'audit'
    """

    branch: str
    to: str | int
    """The name of a branch or tag, or the id of a snapshot."""

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The move; the target must descend from where the branch is now."""
        table = attempt.metadata
        target = table.ref(self.to).snapshot_id if isinstance(self.to, str) else table.snapshot(self.to).snapshot_id
        ref = table.refs.get(self.branch)
        if ref is None:
            return (SetSnapshotRef(self.branch, SnapshotRef(snapshot_id=target, type="branch")),)
        if ref.is_tag:
            raise InvalidUpdate(f"{self.branch!r} is a tag, and tags stay where they are", hint="name a branch")
        if ref.snapshot_id == target:
            return ()
        if not is_ancestor_of(table, ref.snapshot_id, target):
            if (oldest := unknown_before(table, target, ref.snapshot_id)) is not None:
                raise ConflictingChange(
                    f"branch {self.branch!r} cannot be fast-forwarded to {self.to!r}: it cannot be told whether its "
                    f"head, snapshot {ref.snapshot_id}, is in the history of snapshot {target}, which is known only "
                    f"down to snapshot {oldest.snapshot_id}, what came before has expired",
                    hint="see that no commit of the branch would be lost, and move it if that is meant",
                )
            raise ConflictingChange(
                f"branch {self.branch!r} cannot be fast-forwarded to {self.to!r}: its head, snapshot "
                f"{ref.snapshot_id}, is not in the history of snapshot {target}",
                hint="commits of the branch would be lost; cherry-pick instead, or move the branch if that is meant",
            )
        if isinstance(self.to, int):
            heads = {one.snapshot_id for one in table.refs.values() if one.is_branch}
            for around in (commit_around(table, target, head) for head in heads):
                if around is not None:
                    raise within_transaction(f"branch {self.branch!r} cannot be fast-forwarded to", target, around)
        return (SetSnapshotRef(self.branch, ref.at(target)),)


def within_transaction(refused: str, snapshot_id: int, around: Around) -> InvalidUpdate:
    """The error for moving a branch to a snapshot that a transaction made on its way.

    >>> print(within_transaction("main cannot be moved to", 2, Around(1, 3)).message)
    main cannot be moved to snapshot 2: it is in the midst of a transaction, which led from snapshot 1 ...
    """
    before = "an empty table" if around.before is None else f"snapshot {around.before}"
    whole = "" if around.before is None else f"snapshot {around.before} is what was before all of it, and "
    return InvalidUpdate(
        f"{refused} snapshot {snapshot_id}: it is in the midst of a transaction, which led from {before} to snapshot "
        f"{around.after} at once: nobody ever saw it",
        hint=f"{whole}snapshot {around.after} what was after it; time travel reads the snapshot as it is",
        snapshot=snapshot_id,
    )


def _chosen(asked: int | Unchanged | None, now: int | None) -> int | None:
    return now if isinstance(asked, Unchanged) else asked


def _check_free(table: TableMetadata, name: str) -> None:
    ref = table.refs.get(name)
    if ref is not None:
        raise AlreadyExists(
            f"the table has a {ref.type} named {name!r} already, at snapshot {ref.snapshot_id}",
            hint="choose another name, or move it",
        )


def _check_not_main(name: str, verb: str) -> None:
    if name == MAIN_BRANCH:
        raise InvalidUpdate(f"{MAIN_BRANCH} cannot be {verb}: it is what readers see")


def _check_seen(attempt: Attempt, name: str, seen: int | None, verb: str) -> None:
    """Whoever says what he saw must not undo what somebody else did since."""
    ref = None if attempt.start is None else attempt.start.refs.get(name)
    if seen is not None and ref is not None and ref.snapshot_id != seen:
        raise ConflictingChange(
            f"{ref.type} {name!r} cannot be {verb}: it was at snapshot {seen}, and is at {ref.snapshot_id} now",
            hint="look at the table again",
            snapshot=ref.snapshot_id,
        )
