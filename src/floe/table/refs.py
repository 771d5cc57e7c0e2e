"""Branches and tags of a table, and going back in its history."""

from __future__ import annotations

from datetime import date, datetime

from floe.commit.operations.cherry_pick import CherryPick, PublishWap
from floe.commit.operations.refs import KEEP, CreateRef, FastForward, Keep, MoveRef, RemoveRef, RenameRef, SetRetention
from floe.commit.operations.rollback import RollbackToSnapshot, RollbackToTime, SetCurrentSnapshot
from floe.spec.metadata.snapshots import Snapshot
from floe.table.actions import Actions
from floe.table.moments import Duration, Moment, duration_millis, moment_of

__all__ = ["RefActions"]


class RefActions(Actions):
    """The methods for branches, tags and history; a table has them, and a transaction."""

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
        """Create a branch at a snapshot (by its id, or a branch or tag), or where `main` is.

        `min_snapshots`, `max_snapshot_age` and `max_ref_age` are what expiry keeps of it; the table's properties
        decide where they are not given.
        """
        self._do(
            CreateRef(
                name,
                "branch",
                self._snapshot_id(snapshot),
                min_snapshots_to_keep=min_snapshots,
                max_snapshot_age_ms=_millis(max_snapshot_age),
                max_ref_age_ms=_millis(max_ref_age),
            )
        )

    def create_tag(self, name: str, *, snapshot: int | str | None = None, max_ref_age: Duration | None = None) -> None:
        """Create a tag at a snapshot (by its id, or a branch or tag), or where `main` is."""
        self._do(CreateRef(name, "tag", self._snapshot_id(snapshot), max_ref_age_ms=_millis(max_ref_age)))

    def replace_branch(self, name: str, snapshot: int | str) -> None:
        """Point a branch at another snapshot, whatever its history; its retention stays."""
        self._move(name, snapshot)

    def replace_tag(self, name: str, snapshot: int | str) -> None:
        """Point a tag at another snapshot; its retention stays."""
        self._move(name, snapshot)

    def drop_branch(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a branch; its snapshots stay until they expire."""
        self._do(RemoveRef(name, "branch", self._seen_at(name), if_exists))

    def drop_tag(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a tag."""
        self._do(RemoveRef(name, "tag", self._seen_at(name), if_exists))

    def rename_branch(self, name: str, new_name: str) -> None:
        """Give a branch (or tag) another name."""
        self._do(RenameRef(name, new_name))

    def set_retention(
        self,
        name: str,
        *,
        min_snapshots: int | Keep | None = KEEP,
        max_snapshot_age: Duration | Keep | None = KEEP,
        max_ref_age: Duration | Keep | None = KEEP,
    ) -> None:
        """Change what expiry keeps of a branch or tag; None leaves it to the table's properties."""
        self._do(
            SetRetention(
                name,
                min_snapshots,
                max_snapshot_age if isinstance(max_snapshot_age, Keep) else _millis(max_snapshot_age),
                max_ref_age if isinstance(max_ref_age, Keep) else _millis(max_ref_age),
            )
        )

    def fast_forward(self, branch: str, to: str | int) -> None:
        """Move a branch ahead to another one (or a tag, or a snapshot) that has all of its commits."""
        self._do(FastForward(branch, to))

    # going back --------------------------------------------------------------------------------------------------

    def rollback(self, to: int | Moment, *, branch: str | None = None) -> None:
        """Go back in a branch's history: to a snapshot by its id, a tag, or to what was there before a moment.

        What is taken back is what this object has seen: if somebody has committed to the branch since, it fails with
        `ConflictingChange`. The snapshots stay until they expire.
        """
        chosen = self._branch if branch is None else branch
        seen = self._seen_at(chosen)
        if isinstance(to, str) and to in self.metadata.refs:
            to = self.metadata.refs[to].snapshot_id
        if isinstance(to, str | datetime | date):
            self._do(RollbackToTime(moment_of(to, self.metadata), branch=chosen, seen=seen))
        else:
            self._do(RollbackToSnapshot(to, branch=chosen, seen=seen))

    def set_current(self, to: int | str, *, branch: str | None = None) -> None:
        """Make any snapshot (by its id, or a branch or tag) the head of a branch, in its history or not."""
        chosen = self._branch if branch is None else branch
        self._do(SetCurrentSnapshot(to, branch=chosen, seen=self._seen_at(chosen)))

    def cherry_pick(self, snapshot: int, *, branch: str | None = None) -> Snapshot | None:
        """Make the changes of a snapshot, such as a staged one, on the current state.

        The branch's new head: a snapshot with the same changes, or that one itself if it was made right upon the head.
        """
        return self._do(CherryPick(snapshot, branch=self._branch if branch is None else branch))

    def publish(self, wap_id: str, *, branch: str | None = None) -> Snapshot | None:
        """Publish what was staged under a WAP id (see `stage`)."""
        return self._do(PublishWap(wap_id, branch=self._branch if branch is None else branch))

    def _move(self, name: str, snapshot: int | str) -> None:
        target = self._snapshot_id(snapshot)
        assert target is not None
        self._do(MoveRef(name, target, self._seen_at(name)))

    def _snapshot_id(self, snapshot: int | str | None) -> int | None:
        return self.metadata.ref(snapshot).snapshot_id if isinstance(snapshot, str) else snapshot

    def _seen_at(self, name: str) -> int | None:
        ref = self._published.refs.get(name)
        return None if ref is None else ref.snapshot_id


def _millis(duration: Duration | None) -> int | None:
    return None if duration is None else duration_millis(duration)
