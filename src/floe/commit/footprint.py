"""What a change read and what it writes: all that is needed to tell whether two changes conflict.

Every operation declares both; `floe.commit.conflicts` compares them with what others committed since. Nothing is opted
in to: an operation that read the table and says so is validated. What can be said beyond the necessary (`row_wise`,
`positions`, `data_sequence_number`) only makes fewer changes conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from pyroaring import BitMap64

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
