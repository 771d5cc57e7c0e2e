"""What a statement is made on: the state of a table, how it wants its rows changed, and what comes of it.

What becomes of the rows of a file: which are deleted, which are changed, by position.

A statement that reads rows does not go together with rows that its own transaction has changed before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TypeVar

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from floe.arrow.reading.task_reader import TaskReader
from floe.arrow.values.compiler import Scope
from floe.commit.change import Change, Isolation, Reads
from floe.commit.operations.snapshot_change import SnapshotOptions
from floe.commit.target import CommitTarget
from floe.errors import FloeError, UnsupportedFeature
from floe.formats.position_deletes import read_position_deletes
from floe.formats.writers.rolling import discard, leave_nothing
from floe.formats.writers.write_target import WriteTarget
from floe.plan.scan import ScanOptions, plan_scan
from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import FileTask
from floe.spec.expressions.nodes import Expression
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.properties import ISOLATION_LEVELS, WRITE_MODES
from floe.spec.schemas.metadata_columns import with_row_lineage
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage

TARGET, SOURCE = "t", "s"
"""The names that statements have for the table and for the source of a MERGE."""

E = TypeVar("E", bound=Enum)

_MOST_POSITIONS = 10_000_000
"""Larger delete files of others are not looked into to tell rows apart."""


class Mode(Enum):
    """How rows are changed: by writing their files anew, or by deletes that readers apply."""

    COPY_ON_WRITE = "copy-on-write"
    MERGE_ON_READ = "merge-on-read"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rows a statement changed."""

    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    copied: int = 0
    """Rows that were only written anew, because others of their files changed."""

    unchanged: int = 0
    """Rows of an upsert that were there already, just so."""

    def summary(self, statement: str) -> dict[str, str]:
        """What the snapshot's summary tells of them.

        >>> Counts(deleted=3).summary("delete")
        {'floe.statement': 'delete', 'floe.rows-deleted': '3'}
        """
        told = {"deleted": self.deleted, "updated": self.updated, "inserted": self.inserted, "copied": self.copied}
        return {"floe.statement": statement} | {f"floe.rows-{name}": str(n) for name, n in told.items() if n}


@dataclass(frozen=True, slots=True)
class StatementResult:
    """What a statement comes to: a change to commit, if there is any, and the files that were written for it."""

    change: Change | None
    counts: Counts = Counts()
    files: tuple[DataFile, ...] = ()
    by_metadata: bool = False
    """Whether whole files are removed by a filter, which the commit applies to what it finds then."""


@dataclass(frozen=True, eq=False, slots=True)
class ReadSet:
    """The rows of the table that a statement rests on."""

    filter: Expression
    together: bool = False
    """Whether what becomes of one row depends on others, as in a MERGE."""

    positions: Mapping[str, BitMap64] | None = None
    """By data file, the rows themselves, where that is all."""


@dataclass(frozen=True, eq=False)
class Base:
    """The state that a statement reads, and where it writes.

    `metadata` may have changes of the same transaction in it, but `head` is the branch's newest snapshot as it was
    published. `schema_id` is the schema of the table whose names filters use, if it has one already.
    """

    metadata: TableMetadata
    head: Snapshot | None
    target: WriteTarget
    options: SnapshotOptions = field(default_factory=SnapshotOptions)
    schema_id: int | None = None
    rows_pending: bool = False
    """Whether rows were changed before in the same transaction, which nobody can read yet."""

    @classmethod
    def of(
        cls,
        target: CommitTarget,
        *,
        metadata: TableMetadata | None = None,
        overrides: Mapping[str, str] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> Base:
        """The base of a statement that is committed to a target.

        `metadata` is that of the target, unless the commit changes it too; `overrides` are write properties that
        replace the table's.
        """
        metadata = target.metadata if metadata is None else metadata
        published = target.published.schemas_by_id.get(metadata.current_schema_id)
        return cls(
            metadata,
            target.head,
            WriteTarget.of(metadata, target.storage, target.environment, overrides=overrides or {}),
            target.options(summary),
            schema_id=metadata.current_schema_id if published == metadata.schema else None,
            rows_pending=target.rows_pending,
        )

    @property
    def schema(self) -> Schema:
        """The columns of the table."""
        return self.metadata.schema

    @property
    def tracks_rows(self) -> bool:
        """Whether rows have ids, which they keep when they are moved (spec: Row Lineage)."""
        return self.metadata.format_version > 2

    @property
    def stored_schema(self) -> Schema:
        """The columns of rows that are moved."""
        return with_row_lineage(self.schema) if self.tracks_rows else self.schema

    @cached_property
    def reader(self) -> TaskReader:
        """What reads the table's files."""
        return TaskReader(self.metadata, self.target.storage, registry=self.target.registry)

    @cached_property
    def _now_us(self) -> int:
        return self.target.environment.clock.now_ms() * 1000

    def scope(self, source: Schema | None = None) -> Scope:
        """The columns that a statement may name: the table's as `t`, and the source's as `s`."""
        relations = {TARGET: self.schema} | ({} if source is None else {SOURCE: source})
        aliases = {"target": TARGET} | ({} if source is None else {"source": SOURCE})
        return Scope(relations, aliases, self._now_us)

    def plan(self, where: Expression) -> ScanPlan:
        """The files with rows that may pass a filter, with all of their deletes: rows that do not pass are copied."""
        return plan_scan(
            self.metadata,
            self.target.storage,
            snapshot=self.head,
            options=ScanOptions(schema=self.schema, where=where),
            all_deletes=True,
        )

    def mode(self, statement: str) -> Mode:
        """How the table wants a kind of statement done (`write.delete.mode` and so on)."""
        found = Mode(WRITE_MODES[statement].read(self.target.properties))
        return found if self.metadata.format_version > 1 else Mode.COPY_ON_WRITE

    def isolation(self, statement: str) -> Isolation:
        """How strictly a kind of statement is kept apart from others (`write.delete.isolation-level` and so on)."""
        kind = "merge" if statement == "upsert" else statement
        return Isolation(ISOLATION_LEVELS[kind].read(self.target.properties))

    def reads(self, looked: ReadSet, files: Iterable[str] = ()) -> Reads:
        """What a change rests on: the rows that were looked at, and the files whose rows it copied."""
        return Reads(
            None if self.head is None else self.head.snapshot_id,
            filter=looked.filter,
            files=frozenset(files),
            row_wise=not looked.together,
            positions=looked.positions,
            schema_id=self.schema_id,
        )

    def snapshot_options(self, statement: str, counts: Counts) -> SnapshotOptions:
        """The options of the change that a statement makes."""
        made = self.options.copy()
        made["fresh"] = True
        made["isolation"] = self.isolation(statement)
        made["summary"] = {**counts.summary(statement), **self.options.get("summary", {})}
        made["read_positions"] = self._read_positions
        return made

    def _read_positions(self, delete: DataFile, path: str) -> BitMap64 | None:
        """The rows of a data file that a position delete file of somebody else deletes."""
        if delete.record_count > _MOST_POSITIONS:
            return None
        found = BitMap64()
        try:
            for batch in read_position_deletes(
                self.target.registry, self.target.storage, delete, properties=self.target.properties
            ):
                mine = batch.filter(pc.equal(batch.column(0), path)).column(1)
                found |= BitMap64(mine.to_numpy().astype(np.uint64))
        except FloeError:
            return None
        return found


@contextmanager
def deleted_on_error(storage: Storage, written: Sequence[DataFile]) -> Iterator[None]:
    """Files that were written are deleted if what is inside fails; a list may grow meanwhile."""
    try:
        yield
    except BaseException as error:
        leave_nothing(error, discard(storage, file_paths(written)))
        raise


def file_paths(files: Sequence[DataFile]) -> list[str]:
    """Where some files are."""
    return [file.file_path for file in files]


# What becomes of the rows of a file: which are deleted, which are changed, by position.

Positions = NDArray[np.int64]
"""Positions of rows in a file, or places in some rows."""

NOWHERE: Positions = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class Touched:
    """A file with rows that a statement deletes or changes; positions ascend."""

    task: FileTask
    deleted: Positions = field(default_factory=lambda: NOWHERE)
    updated: Positions = field(default_factory=lambda: NOWHERE)
    clause: Positions = field(default_factory=lambda: NOWHERE)
    """For each changed row, the number of the clause that changes it."""

    source: Positions = field(default_factory=lambda: NOWHERE)
    """For each changed row, the row of the source that it is changed by; -1 for none."""

    whole: bool = False
    """Whether all rows go, as metadata tells; no position is known then."""

    @property
    def path(self) -> str:
        """Where the file is."""
        return self.task.file.file_path

    @property
    def positions(self) -> BitMap64:
        """The rows that are not live in the file afterwards."""
        return bitmap(self.deleted) | bitmap(self.updated)


def bitmap(positions: Positions) -> BitMap64:
    """Positions as a set.

    >>> list(bitmap(np.array([3, 5])))
    [3, 5]
    """
    return BitMap64(positions.astype(np.uint64))


def located(wanted: Positions, among: Positions) -> Positions:
    """Where each of some values stands among ascending ones; -1 for those that do not.

    >>> located(np.array([5, 4]), np.array([3, 5])).tolist()
    [1, -1]
    """
    if not len(among):
        return np.full(len(wanted), -1)
    places = np.minimum(np.searchsorted(among, wanted), len(among) - 1)
    return np.where(among[places] == wanted, places, -1)


# A statement that reads rows does not go together with rows that its own transaction has changed before it.


def refuse_pending_rows(base: Base) -> None:
    """Raise if rows were changed earlier in the same transaction: they cannot be read before its commit."""
    if base.rows_pending:
        raise UnsupportedFeature(
            "rows that were changed earlier in this transaction cannot be read before its commit",
            hint="commit first, and run the statement after it",
        )
