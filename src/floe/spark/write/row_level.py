"""A statement that changes rows: the state that it rests on, where it goes, and what it has read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from floe.arrow.changing.base import Base, Mode
from floe.spark.bridge.jvm import Jvm
from floe.spark.names import AsOf
from floe.spark.row_level.clauses import Clauses
from floe.spark.row_level.source import RowLevelSource
from floe.spark.scan.files import PlannedFiles
from floe.spark.scan.source import Source
from floe.spark.write.intent import actions_of
from floe.spark.write.options import WriteOptions, write_options
from floe.spec.expressions.nodes import Expression, or_
from floe.table.row_changes import RowChanges
from floe.table.table import Table

__all__ = ["Statement", "statement_on"]


@dataclass(eq=False)
class Statement:
    """A DELETE, UPDATE or MERGE of a table, from its analysis to its commit."""

    name: str
    """The table's name."""

    kind: str
    """`delete`, `update` or `merge`."""

    table: Table
    actions: RowChanges
    """Where the commit goes: the table, a branch of it, or a stage."""

    base: Base
    """The state that is read and changed."""

    options: WriteOptions
    looked_at: dict[int, Expression] = field(default_factory=dict)
    """The filter of each read of the rows that may change."""

    files: dict[int, PlannedFiles] = field(default_factory=dict)
    """What each part of these reads has read, once it is under way."""

    clauses: Clauses = field(default_factory=Clauses)
    """Of a MERGE, once it is planned."""

    reads_what_others_read: bool = True
    """Whether a plain read of the table finds the same state: not if the commit goes to another branch."""

    @cached_property
    def mode(self) -> Mode:
        """Whether files are written anew, or rows deleted where they are."""
        return self.base.mode(self.kind)

    @property
    def copies(self) -> bool:
        """Whether files with changed rows are written anew."""
        return self.mode is Mode.COPY_ON_WRITE

    @property
    def keeps_lineage(self) -> bool:
        """Whether rows that are written keep the ids that they have."""
        return self.base.tracks_rows and (self.copies or self.kind != "delete")

    @cached_property
    def source(self) -> RowLevelSource:
        """What is read: the very state that the commit is made on."""
        head = self.base.head
        as_of = AsOf() if head is None else AsOf(snapshot_id=head.snapshot_id)
        return RowLevelSource(self.name, self.table, as_of, self.base.schema, copies=self.copies)

    @property
    def where(self) -> Expression:
        """The rows that were looked at, at most."""
        return or_(*self.looked_at.values())

    def __str__(self) -> str:
        where = "" if self.options.branch is None else f" (branch {self.options.branch})"
        return f"Floe table {self.name}{where}: {self.kind.upper()}, {self.mode.value}"


def statement_on(jvm: Jvm, source: Source, kind: str, given: Mapping[str, str], branch: str | None) -> Statement:
    """A statement on the table that others read from a source."""
    table = source.table
    options = write_options(jvm, {key.lower(): value for key, value in given.items()}, table.metadata, branch)
    actions = actions_of(table, options)
    assert isinstance(actions, RowChanges)
    base = actions._base_of(table.metadata, options.overrides, options.summary)
    return Statement(
        source.name, kind, table, actions, base, options, reads_what_others_read=source.snapshot == base.head
    )
