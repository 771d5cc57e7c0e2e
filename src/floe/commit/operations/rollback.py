"""Going back: to a snapshot of the past, to a time, or to any snapshot at all.

Concurrency: what is taken back is what the user saw. If the branch has moved since then, the newer commits would
vanish from it unseen, so that it is a `ConflictingChange`, unless `discard_newer` says that they may. All rules (the
target is there, and is in the branch's history) are checked again on every newer state. Nothing is deleted: the
snapshots that are taken back stay until they expire.

A rollback goes to a state that readers have seen. A transaction that made several snapshots is taken back as a whole or
not at all; `SetCurrentSnapshot` goes into its midst if that is meant.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Final

from floe.commit.change import Attempt
from floe.commit.operations.refs import within_transaction
from floe.errors import ConflictingChange, InvalidUpdate, NoSuchSnapshot
from floe.spec.metadata.ancestry import ancestors, commit_around, is_ancestor_of, unknown_before
from floe.spec.metadata.snapshots import MAIN_BRANCH, SnapshotRef
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import SetSnapshotRef, TableUpdate
from floe.spec.values.civil_time import millis_to_text


class ExpectedHead(Enum):
    """Stands for the head that the user saw, when he does not say which."""

    FIRST_ATTEMPT = "what the first attempt finds"


FIRST_ATTEMPT: Final = ExpectedHead.FIRST_ATTEMPT
"""The head of the branch when the commit is first attempted."""


class _BranchMove(ABC):
    """Moves a branch to a snapshot that is chosen on every attempt; `seen` is its head as the user saw it."""

    def __init__(
        self, *, branch: str = MAIN_BRANCH, seen: int | ExpectedHead | None = FIRST_ATTEMPT, discard_newer: bool = False
    ) -> None:
        self.target_branch = branch
        self._seen = seen
        self._discard_newer = discard_newer

    @abstractmethod
    def target(self, table: TableMetadata, head: int | None) -> int:
        """The snapshot to go to, or an error that says why there is none."""

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The move, unless the branch is there already."""
        self._check_nothing_newer(attempt)
        table = attempt.metadata
        ref = table.refs.get(self.target_branch)
        if ref is not None and ref.is_tag:
            raise InvalidUpdate(f"{self.target_branch!r} is a tag, and tags stay where they are", hint="name a branch")
        if ref is None and self.target_branch != MAIN_BRANCH:
            table.ref(self.target_branch)  # raises, with the names that there are
        target = self.target(table, None if ref is None else ref.snapshot_id)
        if ref is None:
            return (SetSnapshotRef(self.target_branch, SnapshotRef(snapshot_id=target, type="branch")),)
        if ref.snapshot_id == target:
            return ()
        return (SetSnapshotRef(self.target_branch, ref.at(target)),)

    def _check_nothing_newer(self, attempt: Attempt) -> None:
        ref = None if attempt.start is None else attempt.start.refs.get(self.target_branch)
        head = None if ref is None else ref.snapshot_id
        if isinstance(self._seen, ExpectedHead):
            self._seen = head
        if head != self._seen and not self._discard_newer:
            raise ConflictingChange(
                f"branch {self.target_branch!r} cannot go back: it was at snapshot {self._seen}, and somebody moved it "
                f"to {head} meanwhile, which would be lost",
                hint="look at the newer commits; to take them back too, roll back again",
                snapshot=head,
            )


class RollbackToSnapshot(_BranchMove):
    """Goes back to a snapshot in the branch's history.

    >>> RollbackToSnapshot(7).snapshot_id
    7
    """

    def __init__(
        self,
        snapshot_id: int,
        *,
        branch: str = MAIN_BRANCH,
        seen: int | ExpectedHead | None = FIRST_ATTEMPT,
        discard_newer: bool = False,
    ) -> None:
        super().__init__(branch=branch, seen=seen, discard_newer=discard_newer)
        self.snapshot_id = snapshot_id

    def target(self, table: TableMetadata, head: int | None) -> int:
        """The snapshot itself, if it is in the history and was a state of the branch."""
        table.snapshot(self.snapshot_id)
        if not is_ancestor_of(table, self.snapshot_id, head):
            if (oldest := unknown_before(table, head, self.snapshot_id)) is not None:
                raise InvalidUpdate(
                    f"branch {self.target_branch!r} cannot be rolled back to snapshot {self.snapshot_id}: it cannot be "
                    f"told whether it is in the history of its head, snapshot {head}, for that is known only down to "
                    f"snapshot {oldest.snapshot_id}, what came before has expired",
                    hint="look at the snapshot, and set it as the current one if it is what you want",
                    snapshot=self.snapshot_id,
                )
            raise InvalidUpdate(
                f"branch {self.target_branch!r} cannot be rolled back to snapshot {self.snapshot_id}: it is not in the "
                f"history of its head, snapshot {head}",
                hint="to go to a snapshot of another history, set it as the current one",
                snapshot=self.snapshot_id,
            )
        if (around := commit_around(table, self.snapshot_id, head)) is not None:
            raise within_transaction(
                f"branch {self.target_branch!r} cannot be rolled back to", self.snapshot_id, around
            )
        return self.snapshot_id


class RollbackToTime(_BranchMove):
    """Goes back to the newest snapshot of the branch's history that was made before a time.

    >>> RollbackToTime(1_700_000_000_000).timestamp_ms
    1700000000000
    """

    def __init__(
        self,
        timestamp_ms: int,
        *,
        branch: str = MAIN_BRANCH,
        seen: int | ExpectedHead | None = FIRST_ATTEMPT,
        discard_newer: bool = False,
    ) -> None:
        super().__init__(branch=branch, seen=seen, discard_newer=discard_newer)
        self.timestamp_ms = timestamp_ms

    def target(self, table: TableMetadata, head: int | None) -> int:
        """The newest that is older; clocks differ, so times are compared and not the order of commits."""
        older = [one for one in ancestors(table, head) if one.timestamp_ms < self.timestamp_ms]
        older.sort(key=lambda snapshot: snapshot.timestamp_ms, reverse=True)
        seen = (one.snapshot_id for one in older if commit_around(table, one.snapshot_id, head) is None)
        target = next(seen, None)
        if target is None:
            raise NoSuchSnapshot(
                f"branch {self.target_branch!r} has no snapshot from before {millis_to_text(self.timestamp_ms)}",
                hint="older ones may have expired" if head is not None else "the branch is empty",
            )
        return target


class SetCurrentSnapshot(_BranchMove):
    """Goes to any snapshot that the table has, given by its id or by a branch or tag.

    >>> SetCurrentSnapshot("audit").to
    'audit'
    """

    def __init__(
        self,
        to: int | str,
        *,
        branch: str = MAIN_BRANCH,
        seen: int | ExpectedHead | None = FIRST_ATTEMPT,
        discard_newer: bool = False,
    ) -> None:
        super().__init__(branch=branch, seen=seen, discard_newer=discard_newer)
        self.to = to

    def target(self, table: TableMetadata, head: int | None) -> int:
        """The snapshot, wherever it is."""
        return table.ref(self.to).snapshot_id if isinstance(self.to, str) else table.snapshot(self.to).snapshot_id
