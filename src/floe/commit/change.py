"""A change to a table: something that can be made again, on every newer state of the table, until it is published.

The commit loop gives a change the state to build on and takes updates from it. Whatever a change can keep from one
attempt to the next (manifests of the files it adds, say) it keeps itself; whatever depends on the state it makes anew.

The protocols say what a change is beyond that, and the loop asks by `isinstance`: one that makes a snapshot has a key
by which it is found again, one that writes files says which, one that creates the table can start from nothing.

What a change read and what it writes: all that is needed to tell whether two changes conflict.

Every operation declares both; `floe.commit.conflicts` compares them with what others committed since. Nothing is opted
in to: an operation that read the table and says so is validated. What can be said beyond the necessary (`row_wise`,
`positions`, `data_sequence_number`) only makes fewer changes conflict.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol, runtime_checkable

from pyroaring import BitMap64

from floe.spec.expressions.nodes import Expression
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import TableUpdate
from floe.storage.environment import Environment
from floe.storage.protocol import Storage

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


# What a change read and what it writes: all that is needed to tell whether two changes conflict.


class Isolation(Enum):
    """What others may have committed since a change read the table.

    Under `SERIALIZABLE` the change is as if it had run alone, after all commits before it. Under `SNAPSHOT` it may have
    read an older state, but two changes never write the same row: the first to commit wins.
    """

    SERIALIZABLE = "serializable"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class Reads:
    """What a change rests on.

    `snapshot_id` is the branch's head when it was read (None: the branch was empty): the published one, also in a
    transaction that has made snapshots of its own by then. `filter` describes the rows that were looked at, in terms
    of the table's columns: None if no row was, an always-true expression if all were. `files` are the data files whose
    rows were taken over into other files, as a rewrite or copy-on-write does. A change that `blind`ly adds or removes
    rests on nothing.

    >>> from floe.spec.expressions.dsl import col
    >>> Reads(snapshot_id=7, filter=col("id") == 5, row_wise=True).blind
    False
    """

    snapshot_id: int | None = None
    filter: Expression | None = None
    files: frozenset[str] = frozenset()
    blind: bool = False
    case_sensitive: bool = True
    row_wise: bool = False
    """Whether each row was judged by itself, as in a DELETE or UPDATE without sub-query: rows that others deleted
    would then not have changed what became of the rest. Not so for MERGE, or for whatever counts or joins rows."""

    schema_id: int | None = None
    """The schema whose names the filter uses; without it, any that the table has had is taken to be meant."""

    positions: Mapping[str, BitMap64] | None = field(default=None, hash=False)
    """By data file, the positions of all live rows that passed the filter, if they are at hand: with them, rows that
    others deleted or moved are known not to be among those that were looked at."""


BLIND = Reads(blind=True)
"""Read nothing: a plain append, or a deletion by filter that is made again on every newer state."""


@dataclass(frozen=True, slots=True)
class Writes:
    """What a change does to the table.

    `added` and `removed` hold data files and delete files alike; `removed_paths` are data files of which only the
    location is known. `referenced` are the data files that the added position deletes and deletion vectors point into.
    `filter` and `partitions` describe rows that are removed whatever files they are in at the time of the commit
    (`partitions` are pairs of spec id and partition tuple). `same_rows` says that the table has the same rows
    afterwards: a rewrite.
    """

    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    removed_paths: frozenset[str] = frozenset()
    referenced: frozenset[str] = frozenset()
    filter: Expression | None = None
    partitions: frozenset[tuple[int, tuple[object, ...]]] = frozenset()
    same_rows: bool = False
    data_sequence_number: int | None = None
    """The data sequence number of the added data files, where it is not that of the commit: a rewrite takes the one of
    the snapshot that it read, so that equality deletes that came later go on applying."""

    positions: Mapping[str, BitMap64] | None = field(default=None, hash=False)
    """By data file, the positions of the rows that are deleted newly, if they are at hand: with them, changes of
    different rows of a file are told apart whatever the format of the deletes."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """All that a change read and writes, and how strictly it is to be kept apart from others."""

    reads: Reads = BLIND
    writes: Writes = field(default_factory=Writes)
    isolation: Isolation = Isolation.SERIALIZABLE
