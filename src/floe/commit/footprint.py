"""What a change read and what it writes: all that is needed to tell whether two changes conflict.

Every operation declares both; `floe.commit.conflicts` compares them with what others committed since. Nothing is opted
in to: an operation that read the table and says so is validated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from floe.spec.expressions.nodes import Expression
from floe.spec.manifests.entries import DataFile

__all__ = ["BLIND", "Footprint", "Isolation", "Reads", "Writes"]


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

    `snapshot_id` is the branch's head when it was read (None: the branch was empty). `filter` describes the rows that
    were looked at, in terms of the table's columns: None if no row was, an always-true expression if all were.
    `files` are the data files whose rows were taken over into other files, as a rewrite or copy-on-write does.
    A change that `blind`ly adds or removes rests on nothing.
    """

    snapshot_id: int | None = None
    filter: Expression | None = None
    files: frozenset[str] = frozenset()
    blind: bool = False
    case_sensitive: bool = True


BLIND = Reads(blind=True)
"""Read nothing: a plain append, or a deletion by filter that is made again on every newer state."""


@dataclass(frozen=True, slots=True)
class Writes:
    """What a change does to the table.

    `added` and `removed` hold data files and delete files alike. `referenced` are the data files that the added
    position deletes and deletion vectors point into. `filter` and `partitions` describe rows that are removed whatever
    files they are in at the time of the commit (`partitions` are pairs of spec id and partition tuple).
    `same_rows` says that the table has the same rows afterwards: a rewrite.
    """

    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    referenced: frozenset[str] = frozenset()
    filter: Expression | None = None
    partitions: frozenset[tuple[int, tuple[object, ...]]] = frozenset()
    same_rows: bool = False


@dataclass(frozen=True, slots=True)
class Footprint:
    """All that a change read and writes, and how strictly it is to be kept apart from others."""

    reads: Reads = BLIND
    writes: Writes = field(default_factory=Writes)
    isolation: Isolation = Isolation.SERIALIZABLE
