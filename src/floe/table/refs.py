"""Branches and tags of a table, rollback, and cherry-pick."""

from __future__ import annotations

from datetime import date, datetime

from floe.commit.operations.cherry_pick import CherryPick, PublishWap
from floe.commit.operations.refs import (
    UNCHANGED,
    CreateRef,
    FastForward,
    MoveRef,
    RemoveRef,
    RenameRef,
    RollbackToSnapshot,
    RollbackToTime,
    SetCurrentSnapshot,
    SetRetention,
    Unchanged,
)
from floe.commit.target import Committer
from floe.spec.metadata.snapshots import MAIN_BRANCH, Snapshot
from floe.table.human_values import Duration, Timestamp, duration_millis, timestamp_millis


class Refs(Committer):
    """The methods of a table, and of a transaction, that change branches, tags and history."""

    # branches and tags -------------------------------------------------------------------------------------------

    def create_branch(
        self,
        name: str,
        *,
        snapshot: int | str | None = None,
        min_snapshots: int | None = None,
        max_snapshot_age: Duration | None = None,
        max_ref_age: Duration | None = None,
    ) -> None:
        """Create a branch at a snapshot (by id, branch or tag), by default at the head of `main`.

        `min_snapshots`, `max_snapshot_age` and `max_ref_age` are its retention: what expiry keeps. Without them the
        table's properties apply.
        """
        change = CreateRef(
            name,
            "branch",
            self._snapshot_id(snapshot),
            min_snapshots_to_keep=min_snapshots,
            max_snapshot_age_ms=_millis(max_snapshot_age),
            max_ref_age_ms=_millis(max_ref_age),
        )
        self.commit_target.commit([change])

    def create_tag(self, name: str, *, snapshot: int | str | None = None, max_ref_age: Duration | None = None) -> None:
        """Create a tag at a snapshot (by id, branch or tag), by default at the head of `main`."""
        change = CreateRef(name, "tag", self._snapshot_id(snapshot), max_ref_age_ms=_millis(max_ref_age))
        self.commit_target.commit([change])

    def replace_branch(self, name: str, snapshot: int | str) -> None:
        """Point a branch to another snapshot, in its history or not; it keeps its retention."""
        self._move(name, snapshot)

    def replace_tag(self, name: str, snapshot: int | str) -> None:
        """Point a tag to another snapshot; it keeps its retention."""
        self._move(name, snapshot)

    def drop_branch(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a branch; its snapshots stay until they expire."""
        self.commit_target.commit([RemoveRef(name, "branch", self._published_head(name), if_exists)])

    def drop_tag(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a tag."""
        self.commit_target.commit([RemoveRef(name, "tag", self._published_head(name), if_exists)])

    def rename_branch(self, name: str, new_name: str) -> None:
        """Rename a branch or tag."""
        self.commit_target.commit([RenameRef(name, new_name)])

    def set_retention(
        self,
        name: str,
        *,
        min_snapshots: int | Unchanged | None = UNCHANGED,
        max_snapshot_age: Duration | Unchanged | None = UNCHANGED,
        max_ref_age: Duration | Unchanged | None = UNCHANGED,
    ) -> None:
        """Change the retention of a branch or tag; with None the table's properties apply."""
        change = SetRetention(
            name,
            min_snapshots,
            max_snapshot_age if isinstance(max_snapshot_age, Unchanged) else _millis(max_snapshot_age),
            max_ref_age if isinstance(max_ref_age, Unchanged) else _millis(max_ref_age),
        )
        self.commit_target.commit([change])

    def fast_forward(self, branch: str, to: str | int) -> None:
        """Move a branch forward to another branch, tag or snapshot that has all of its commits."""
        self.commit_target.commit([FastForward(branch, to)])

    # history -----------------------------------------------------------------------------------------------------

    def rollback(self, to: int | Timestamp, *, branch: str = MAIN_BRANCH) -> None:
        """Move a branch back in its history: to a snapshot id, a tag, or the newest snapshot before a timestamp.

        Only commits that this object has loaded are rolled back: if the branch has newer ones, it is a
        `ConflictingChange`. The snapshots stay until they expire.
        """
        target = self.commit_target
        head = self._published_head(branch)
        if isinstance(to, str) and to in target.metadata.refs:
            to = target.metadata.refs[to].snapshot_id
        if isinstance(to, str | datetime | date):
            timestamp_ms = timestamp_millis(to, target.metadata)
            target.commit([RollbackToTime(timestamp_ms, branch=branch, expected=head)])
        else:
            target.commit([RollbackToSnapshot(to, branch=branch, expected=head)])

    def set_current(self, to: int | str, *, branch: str = MAIN_BRANCH) -> None:
        """Make any snapshot (by id, branch or tag) the head of a branch, in its history or not."""
        self.commit_target.commit([SetCurrentSnapshot(to, branch=branch, expected=self._published_head(branch))])

    def cherry_pick(self, snapshot: int, *, branch: str = MAIN_BRANCH) -> Snapshot | None:
        """Apply the changes of a snapshot, such as a staged one, to the head of a branch.

        Returns the new head: a snapshot with the same changes, or that one itself if its parent is the head.
        """
        return self.commit_target.commit([CherryPick(snapshot, branch=branch)])

    def publish(self, wap_id: str, *, branch: str = MAIN_BRANCH) -> Snapshot | None:
        """Publish what was staged under a WAP id (see `Table.stage`)."""
        return self.commit_target.commit([PublishWap(wap_id, branch=branch)])

    def _move(self, name: str, snapshot: int | str) -> None:
        target = self._snapshot_id(snapshot)
        assert target is not None
        self.commit_target.commit([MoveRef(name, target, self._published_head(name))])

    def _snapshot_id(self, snapshot: int | str | None) -> int | None:
        return self.metadata.ref(snapshot).snapshot_id if isinstance(snapshot, str) else snapshot

    def _published_head(self, name: str) -> int | None:
        """The snapshot that a branch or tag points to, as it was last read."""
        ref = self.commit_target.published.refs.get(name)
        return None if ref is None else ref.snapshot_id


def _millis(duration: Duration | None) -> int | None:
    return None if duration is None else duration_millis(duration)
