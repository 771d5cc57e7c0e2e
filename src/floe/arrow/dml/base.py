"""The base of row-level statements: the table that they read and write, and the values that they pass on.

`Base` is the state of the table that a statement reads, with its write mode and isolation level. `StatementResult` is
what a statement returns: a change for `floe.commit`, row counts and the files that were written. `FileChanges` has the
positions of the rows of one file that a statement deletes or updates. `ReadSet` describes the rows that a statement
depends on, for conflict checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from floe.arrow.read.task_reader import TaskReader
from floe.arrow.values.compiled import Compiled
from floe.arrow.values.compiler import Scope
from floe.commit.change import Change, Isolation, Reads
from floe.commit.operations.snapshot_change import SnapshotOptions
from floe.commit.target import CommitTarget
from floe.errors import FloeError, UnsupportedFeature
from floe.formats.registry import read_position_deletes
from floe.formats.writers.rolling_writer import discard, note_undeleted_files
from floe.formats.writers.write_target import WriteTarget
from floe.plan.scan import ScanOptions, plan_scan
from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import FileTask
from floe.spec.expressions.nodes import Expression
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.properties import ISOLATION_LEVELS, WRITE_MODES
from floe.spec.schemas.metadata_columns import POS, with_row_lineage
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage

TARGET, SOURCE = "t", "s"
"""The relation names of the table and of the source of a MERGE in expressions."""

E = TypeVar("E", bound=Enum)

_MAX_POSITIONS = 10_000_000
"""Concurrent position delete files with more rows are not read to detect conflicts by position."""


class Mode(Enum):
    """The write mode of a row-level operation: rewrite data files, or write deletes that readers apply."""

    COPY_ON_WRITE = "copy-on-write"
    MERGE_ON_READ = "merge-on-read"


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of rows that a statement changed."""

    deleted: int = 0
    updated: int = 0
    inserted: int = 0
    copied: int = 0
    """Unchanged rows that were rewritten because other rows of their files changed."""

    unchanged: int = 0
    """Rows of an upsert that the table had already with the same values."""

    def summary(self, statement: str) -> dict[str, str]:
        """The counts as properties of the snapshot summary.

        >>> Counts(deleted=3).summary("delete")
        {'floe.statement': 'delete', 'floe.rows-deleted': '3'}
        """
        counts = {"deleted": self.deleted, "updated": self.updated, "inserted": self.inserted, "copied": self.copied}
        return {"floe.statement": statement} | {f"floe.rows-{name}": str(n) for name, n in counts.items() if n}


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The result of a statement: the change to commit, and the files that were written for it."""

    change: Change | None
    """None if the statement changes nothing."""

    counts: Counts = Counts()
    files: tuple[DataFile, ...] = ()
    by_metadata: bool = False
    """Whether whole files are removed by a filter, which the commit evaluates on the state that it commits to."""


@dataclass(frozen=True, eq=False, slots=True)
class ReadSet:
    """The rows of the table that the result of a statement depends on."""

    filter: Expression
    row_wise: bool = True
    """Whether the change of each row depends on that row alone; not so in a MERGE."""

    positions: Mapping[str, BitMap64] | None = None
    """The positions of the rows by data file, if they are known."""


@dataclass(frozen=True, eq=False)
class Base:
    """The state of the table that a statement reads, and the target that it writes to.

    `metadata` may include uncommitted changes of the same transaction; `head` is the newest committed snapshot of the
    branch. `schema_id` is the schema whose column names the filters use; None if it is not committed yet.
    """

    metadata: TableMetadata
    head: Snapshot | None
    target: WriteTarget
    options: SnapshotOptions = field(default_factory=SnapshotOptions)
    schema_id: int | None = None
    rows_pending: bool = False
    """Whether the same transaction has changed rows before, which cannot be read yet."""

    @classmethod
    def of(
        cls,
        target: CommitTarget,
        *,
        metadata: TableMetadata | None = None,
        overrides: Mapping[str, str] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> Base:
        """The base of a statement whose change will be committed to a target.

        `metadata` is by default that of the target; a commit that also changes the schema passes the new one.
        `overrides` are write properties that replace the table's.
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
        """The current schema of the table."""
        return self.metadata.schema

    @property
    def tracks_rows(self) -> bool:
        """Whether rows have ids, which they keep when they are rewritten (spec: Row Lineage)."""
        return self.metadata.format_version > 2

    @property
    def stored_schema(self) -> Schema:
        """The columns of rows that are rewritten: those of the table, and row lineage if it has it."""
        return with_row_lineage(self.schema) if self.tracks_rows else self.schema

    @cached_property
    def reader(self) -> TaskReader:
        """The reader of the table's files."""
        return TaskReader(self.metadata, self.target.storage, registry=self.target.registry)

    @cached_property
    def _now_us(self) -> int:
        return self.target.environment.clock.now_ms() * 1000

    def scope(self, source: Schema | None = None) -> Scope:
        """The columns that a statement can refer to: the table's as `t`, and the source's as `s`."""
        relations = {TARGET: self.schema} | ({} if source is None else {SOURCE: source})
        aliases = {"target": TARGET} | ({} if source is None else {"source": SOURCE})
        return Scope(relations, aliases, self._now_us)

    def plan(self, where: Expression) -> ScanPlan:
        """Plan the files with rows that may match a filter, with all of their deletes.

        Deletes of rows that do not match are needed too, because copy-on-write copies the other rows of a file.
        """
        return plan_scan(
            self.metadata,
            self.target.storage,
            snapshot=self.head,
            options=ScanOptions(schema=self.schema, where=where),
            all_deletes=True,
        )

    def mode(self, statement: str) -> Mode:
        """The write mode of a statement (`write.delete.mode` etc.); always copy-on-write in format version 1."""
        mode = Mode(WRITE_MODES[statement].read(self.target.properties))
        return mode if self.metadata.format_version > 1 else Mode.COPY_ON_WRITE

    def isolation(self, statement: str) -> Isolation:
        """The isolation level of a statement (`write.delete.isolation-level` etc.)."""
        kind = "merge" if statement == "upsert" else statement
        return Isolation(ISOLATION_LEVELS[kind].read(self.target.properties))

    def reads(self, read_set: ReadSet, files: Iterable[str] = ()) -> Reads:
        """The reads that conflict checks validate: the rows that were read, and the files whose rows were copied."""
        return Reads(
            None if self.head is None else self.head.snapshot_id,
            filter=read_set.filter,
            files=frozenset(files),
            row_wise=read_set.row_wise,
            positions=read_set.positions,
            schema_id=self.schema_id,
        )

    def snapshot_options(self, statement: str, counts: Counts) -> SnapshotOptions:
        """The options of the change of a statement: isolation level, summary, and detection of conflicts."""
        options = self.options.copy()
        options["fresh"] = True
        options["isolation"] = self.isolation(statement)
        options["summary"] = {**counts.summary(statement), **self.options.get("summary", {})}
        options["read_positions"] = self._read_positions
        return options

    def _read_positions(self, delete: DataFile, path: str) -> BitMap64 | None:
        """The rows of a data file that a concurrent position delete file deletes; None if it is not read."""
        if delete.record_count > _MAX_POSITIONS:
            return None
        positions = BitMap64()
        try:
            for batch in read_position_deletes(
                self.target.registry, self.target.storage, delete, properties=self.target.properties
            ):
                of_file = batch.filter(pc.equal(batch.column(0), path)).column(1)
                positions |= BitMap64(of_file.to_numpy().astype(np.uint64))
        except FloeError:
            return None
        return positions


@contextmanager
def delete_on_error(storage: Storage, written: Sequence[DataFile]) -> Iterator[None]:
    """Delete written files if the block fails; files may be added to the list within the block."""
    try:
        yield
    except BaseException as error:
        note_undeleted_files(error, discard(storage, file_paths(written)))
        raise


def file_paths(files: Sequence[DataFile]) -> list[str]:
    """The locations of some files."""
    return [file.file_path for file in files]


# Rows of a file -------------------------------------------------------------------------------------------------------

Positions = NDArray[np.int64]
"""Positions of rows in a file, or indexes of rows in a batch."""

NO_POSITIONS: Positions = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False, slots=True)
class FileChanges:
    """The rows of a file that a statement deletes or updates; positions are ascending."""

    task: FileTask
    deleted: Positions = field(default_factory=lambda: NO_POSITIONS)
    updated: Positions = field(default_factory=lambda: NO_POSITIONS)
    clause: Positions = field(default_factory=lambda: NO_POSITIONS)
    """For each updated row, the index of the clause that updates it."""

    source: Positions = field(default_factory=lambda: NO_POSITIONS)
    """For each updated row, the index of the source row that updates it; -1 for none."""

    whole_file: bool = False
    """Whether all rows are deleted; the positions are empty then, because the file was not read."""

    @property
    def path(self) -> str:
        """The location of the file."""
        return self.task.file.file_path

    @property
    def positions(self) -> BitMap64:
        """The rows that are no longer live in the file: the deleted and the updated ones."""
        return bitmap(self.deleted) | bitmap(self.updated)


def bitmap(positions: Positions) -> BitMap64:
    """A bitmap of positions.

    >>> list(bitmap(np.array([3, 5])))
    [3, 5]
    """
    return BitMap64(positions.astype(np.uint64))


def search_sorted(values: Positions, sorted_values: Positions) -> Positions:
    """The index of each value among ascending values; -1 for those that are not among them.

    >>> search_sorted(np.array([5, 4]), np.array([3, 5])).tolist()
    [1, -1]
    """
    if not len(sorted_values):
        return np.full(len(values), -1)
    indexes = np.minimum(np.searchsorted(sorted_values, values), len(sorted_values) - 1)
    return np.where(sorted_values[indexes] == values, indexes, -1)


def columns_with_position(schema: Schema, relation: str, values: Iterable[Compiled]) -> Schema:
    """The columns of a relation that some values read, followed by the row position."""
    used = {path[0] for value in values for name, path in value.columns if name == relation}
    return Schema((*(field for field in schema.fields if field.name in used), POS))


def row_positions(batch: pa.RecordBatch) -> Positions:
    """The positions of rows in their file, from the last column of a batch."""
    return np.asarray(batch.column(batch.num_columns - 1), np.int64)


def reject_pending_rows(base: Base) -> None:
    """Raise `UnsupportedFeature` if the transaction has changed rows before: they cannot be read until its commit."""
    if base.rows_pending:
        raise UnsupportedFeature(
            "rows that were changed earlier in this transaction cannot be read before its commit",
            hint="commit first, and run the statement after it",
        )
