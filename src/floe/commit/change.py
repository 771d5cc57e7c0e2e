"""The protocols of changes, and the footprint of a change: what it read and what it writes.

A `Change` can be applied to any newer state of the table until it is published. The commit loop passes it the state to
build on (`Attempt`) and gets metadata updates back. What does not depend on the state, such as the manifests of added
files, a change keeps from one attempt to the next. The other protocols add to this, and the loop checks them with
`isinstance`: a `KeyedChange` creates a snapshot that can be found again, a `WritingChange` writes files before it is
published, a `CreatingChange` can create the table.

A `Footprint` has all that is needed to decide whether two changes conflict. Every operation that creates a snapshot
declares one, and `floe.commit.conflicts` compares it with what others committed since. An engine need not opt in to
single checks. Optional declarations (`row_wise`, `positions`, `data_sequence_number`) only reduce the conflicts.
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
"""The property of a snapshot's summary with the random text of the commit, which identifies it with the snapshot id."""


@dataclass(frozen=True, eq=False, slots=True)
class Attempt:
    """One attempt of a commit, as a change sees it.

    `metadata` is the newest state of the table with the earlier changes of the same transaction applied. `start` is the
    state without them, as it was loaded for this attempt, with all that others have committed; None if the table is
    being created. `now_ms` is the timestamp of a new snapshot, never before the last one of the table.
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
    """A change of a table."""

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The metadata updates of the change, for the attempt's metadata; empty if there is nothing to do.

        Raises `ConflictingChange` if the change conflicts with what others committed since. May write files, with names
        that nobody else uses.
        """


@runtime_checkable
class KeyedChange(Change, Protocol):
    """A change that creates a snapshot; its key is chosen at the first attempt, so that the commit can be found."""

    @property
    def snapshot_id(self) -> int:
        """The id of the snapshot; not valid while `commit_id` is empty."""

    @property
    def commit_id(self) -> str:
        """The random text of `commit-id` in the snapshot's summary; empty before the first attempt."""


@runtime_checkable
class BranchChange(KeyedChange, Protocol):
    """A change that creates a snapshot on a branch, in whose history it is searched."""

    @property
    def branch(self) -> str | None:
        """The branch whose head the snapshot becomes; None for a staged snapshot."""


@runtime_checkable
class WritingChange(Change, Protocol):
    """A change that writes metadata files (manifests, manifest lists) before it is published."""

    def written(self) -> Collection[str]:
        """The files that all attempts have written: candidates for deletion once the outcome is known."""


@runtime_checkable
class TidyChange(WritingChange, Protocol):
    """A change whose unused files can be deleted: it knows which ones the last attempt needs, and can forget others.

    If a commit of other changes fails, their files are left to orphan removal, because a retry could use them again.
    """

    def used(self) -> Collection[str]:
        """The files of `written` that the snapshot of the last attempt refers to."""

    def forget(self, files: Collection[str]) -> None:
        """Forget files that are being deleted; another attempt must write them again."""


@runtime_checkable
class CreatingChange(Change, Protocol):
    """A change that can create the table."""

    @property
    def table_uuid(self) -> str:
        """The uuid of the new table, chosen before the first attempt, so that the commit can be found."""

    def creation(self) -> Sequence[TableUpdate]:
        """The updates that create the table."""


@runtime_checkable
class ReplacingChange(Change, Protocol):
    """A change that replaces the table."""

    @property
    def replaces(self) -> bool:
        """Whether the commit has the requirements of a replacement: only that no id is assigned twice."""


# Footprint ------------------------------------------------------------------------------------------------------


class Isolation(Enum):
    """The isolation level of a change: which concurrent commits it conflicts with.

    Under `SERIALIZABLE` the result is as if the change had run alone, after all commits before it. Under `SNAPSHOT` it
    may have read an older state, but two changes never write the same row: the first to commit wins.
    """

    SERIALIZABLE = "serializable"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class Reads:
    """What a change read.

    `snapshot_id` is the head of the branch when it was read (None: the branch was empty); in a transaction it is the
    published head, not a snapshot of the transaction. `filter` describes the rows that were read: None if no row was,
    an always-true expression if all were. `files` are the data files whose rows are copied to other files, as a rewrite
    or copy-on-write does. A `blind` change read nothing.

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
    """Whether each row was handled independently of others, as in a DELETE or UPDATE without subquery: rows that others
    deleted would not have changed the result. False for MERGE, and for statements that count or join rows."""

    schema_id: int | None = None
    """The schema whose column names the filter uses; without it, all schemas of the table are considered."""

    positions: Mapping[str, BitMap64] | None = field(default=None, hash=False)
    """The positions of all live rows that matched the filter, by data file, if they are known: with them, deletes of
    other rows of the same files do not conflict."""


BLIND = Reads(blind=True)
"""Nothing was read: a plain append, or a deletion by filter that is applied to the newest state."""


@dataclass(frozen=True, slots=True)
class Writes:
    """What a change writes.

    `added` and `removed` are data files and delete files; `removed_paths` are data files of which only the path is
    known. `referenced` are the data files that the added position deletes and deletion vectors refer to. `filter` and
    `partitions` (pairs of spec id and partition tuple) describe rows that are removed whatever files they are in at the
    time of the commit. `same_rows` says that the table has the same rows afterwards: a rewrite.
    """

    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    removed_paths: frozenset[str] = frozenset()
    referenced: frozenset[str] = frozenset()
    filter: Expression | None = None
    partitions: frozenset[tuple[int, tuple[object, ...]]] = frozenset()
    same_rows: bool = False
    data_sequence_number: int | None = None
    """The data sequence number of the added data files, if it is not that of the commit: a rewrite uses the number of
    the snapshot that it read, so that later equality deletes still apply."""

    positions: Mapping[str, BitMap64] | None = field(default=None, hash=False)
    """The newly deleted positions by data file, if they are known: with them, deletes of different rows of a file do
    not conflict, whatever the format of the delete files."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a change read and writes, and its isolation level."""

    reads: Reads = BLIND
    writes: Writes = field(default_factory=Writes)
    isolation: Isolation = Isolation.SERIALIZABLE
