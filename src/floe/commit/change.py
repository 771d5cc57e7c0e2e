"""A change to a table: something that can be made again, on every newer state of the table, until it is published.

The commit loop gives a change the state to build on and takes updates from it. Whatever a change can keep from one
attempt to the next (manifests of the files it adds, say) it keeps itself; whatever depends on the state it makes anew.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import TableUpdate
from floe.storage.environment import Environment
from floe.storage.protocol import Storage

__all__ = ["Attempt", "Change", "KeyedChange", "WritingChange"]


@dataclass(frozen=True, eq=False, slots=True)
class Attempt:
    """What a change builds on: the table's newest state, with the earlier changes of the same transaction applied.

    `start` is the table's state alone, as it was read for this attempt (None while the table is being created): what
    others committed meanwhile is in there.
    """

    table: str
    metadata: TableMetadata
    start: TableMetadata | None
    storage: Storage
    environment: Environment
    number: int = 1


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
    """A change that makes a snapshot: its id is fixed before the first attempt, so that it is found again."""

    @property
    def snapshot_id(self) -> int:
        """The id of the snapshot that it makes."""

    @property
    def commit_id(self) -> str:
        """The random text that the snapshot's summary carries under `commit-id`."""


@runtime_checkable
class WritingChange(Change, Protocol):
    """A change that writes metadata files (manifests, manifest lists) before it is published."""

    def written(self) -> Collection[str]:
        """The files that all its attempts have written: candidates for deletion once the outcome is known."""
