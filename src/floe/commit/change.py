"""A change to a table: something that can be made again, on every newer state of the table, until it is published.

The commit loop gives a change the state to build on and takes updates from it. Whatever a change can keep from one
attempt to the next (manifests of the files it adds, say) it keeps itself; whatever depends on the state it makes anew.

The protocols say what a change is beyond that, and the loop asks by `isinstance`: one that makes a snapshot has a key
by which it is found again, one that writes files says which, one that creates the table can start from nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import TableUpdate
from floe.storage.environment import Environment
from floe.storage.protocol import Storage

__all__ = [
    "COMMIT_ID",
    "Attempt",
    "BranchChange",
    "Change",
    "CreatingChange",
    "KeyedChange",
    "ReplacingChange",
    "TidyChange",
    "WritingChange",
]

COMMIT_ID: Final = "commit-id"
"""The key of a snapshot's summary that holds the commit's random text; with the snapshot's id it is the commit key."""


@dataclass(frozen=True, eq=False, slots=True)
class Attempt:
    """What a change builds on: the table's newest state, with the earlier changes of the same transaction applied.

    `start` is the table's state alone, as it was read for this attempt (None while the table is being created): what
    others committed meanwhile is in there. `now_ms` is the time of the commit, never behind the table's last one; a
    new snapshot has it as its timestamp.
    """

    table: str
    metadata: TableMetadata
    start: TableMetadata | None
    storage: Storage
    environment: Environment
    number: int = 1
    now_ms: int = 0


@runtime_checkable
class Change(Protocol):
    """Something to be done to a table."""

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The updates that make the change to the attempt's metadata.

        Raises `ConflictingChange` if what others committed since must not be built upon. May write files (with names
        that nobody else uses). No updates means that there is nothing to do.
        """


@runtime_checkable
class KeyedChange(Change, Protocol):
    """A change that makes a snapshot: its id is fixed with the first attempt, so that it is found again."""

    @property
    def snapshot_id(self) -> int:
        """The id of the snapshot that it makes; it means nothing while `commit_id` is empty."""

    @property
    def commit_id(self) -> str:
        """The random text that the snapshot's summary carries under `commit-id`; empty before the first attempt."""


@runtime_checkable
class BranchChange(KeyedChange, Protocol):
    """A change that makes a snapshot on a branch, so that it can be told whether it is still there."""

    @property
    def branch(self) -> str | None:
        """The branch whose head it becomes; None for a snapshot that is only staged."""


@runtime_checkable
class WritingChange(Change, Protocol):
    """A change that writes metadata files (manifests, manifest lists) before it is published."""

    def written(self) -> Collection[str]:
        """The files that all its attempts have written: candidates for deletion once the outcome is known."""


@runtime_checkable
class TidyChange(WritingChange, Protocol):
    """A change whose needless files can be removed: it knows which the last attempt needs, and is told what is deleted.

    Files of a change that is not tidy stay for orphan removal when the commit fails, for it could use them again.
    """

    def used(self) -> Collection[str]:
        """The files of `written` that the snapshot of the last attempt refers to."""

    def forget(self, files: Collection[str]) -> None:
        """These files are being deleted: another attempt must write them anew."""


@runtime_checkable
class CreatingChange(Change, Protocol):
    """A change that can be the first of all, when there is no table yet."""

    @property
    def table_uuid(self) -> str:
        """The identity of the new table, fixed before the first attempt, so that it is found again."""

    def creation(self) -> Sequence[TableUpdate]:
        """The updates that create the table."""


@runtime_checkable
class ReplacingChange(Change, Protocol):
    """A change after which the table does not depend on what it was."""

    @property
    def replaces(self) -> bool:
        """Whether requirements are those of a replacement: only that no id is given twice."""
