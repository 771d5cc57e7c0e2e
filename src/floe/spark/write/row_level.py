"""A statement that changes rows: the state that it rests on, where it goes, and what it has read.

What a statement reads: the files whose rows may change, with all of their deletes.

The clauses of a MERGE, as far as they say which rows of the table its outcome rests on.

What becomes of a row of the table depends on that row and the source. But a row of the source is inserted if no row of
the table matches it: if somebody deletes the only one that does, the outcome is another. So with such a clause a MERGE
rests on all rows that are matched. These are known if all of them are changed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from floe.arrow.dml.base import Base, Mode
from floe.commit.target import CommitTarget
from floe.plan.scan_plan import ScanPlan
from floe.spark.bridge.jvm import Jvm
from floe.spark.names import AsOf
from floe.spark.read.source import PlannedFiles, Source
from floe.spark.write.insert import commit_target
from floe.spark.write.options import WriteOptions, write_options
from floe.spec.expressions.nodes import TRUE, Expression, or_
from floe.table.table import Table

# What a statement reads: the files whose rows may change, with all of their deletes.


@dataclass(frozen=True)
class RowLevelSource(Source):
    """A table, as of the state that a statement changes."""

    all_deletes: bool = True
    copies: bool = False
    """Whether all rows of the files are wanted, because these will be written anew."""

    def plan(self, where: Expression, *, metrics: Collection[int] | None = ()) -> ScanPlan:
        """The files that may hold rows which pass a filter; a file that is copied is read as a whole."""
        plan = super().plan(where, metrics=metrics)
        return replace(plan, residuals=[TRUE] * len(plan.residuals)) if self.copies else plan


# The clauses of a MERGE, as far as they say which rows of the table its outcome rests on.


@dataclass(frozen=True, slots=True)
class Clauses:
    """What is done with rows, of the source and of the table."""

    insert: bool = False
    """Whether rows of the source are inserted that match nothing."""

    change_all_matched: bool = False
    """Whether each row that is matched is changed, or deleted."""


def clauses_of(jvm: Jvm, query: Any) -> Clauses:
    """The clauses of a MERGE whose rows a plan makes; if it is not to be seen there, what is the worst."""
    found = down_to(jvm, "MergeRows", query)
    if not found:
        return Clauses(insert=True)
    matched = jvm.read_seq(found[-1].matchedInstructions())
    return Clauses(
        insert=not found[-1].notMatchedInstructions().isEmpty(),
        change_all_matched=any(str(one.condition().sql()) == "true" for one in matched[-1:]),
    )


def down_to(jvm: Jvm, kind: str, plan: Any) -> list[Any]:
    """The nodes from the top of a plan down to one of a kind; none if there is no such node, or more than one way."""
    path = [plan]
    while jvm.simple_name(path[-1]) != kind:
        children = jvm.read_seq(path[-1].children())
        if len(children) != 1:
            return []
        path += children
    return path


@dataclass(eq=False)
class Statement:
    """A DELETE, UPDATE or MERGE of a table, from its analysis to its commit."""

    name: str
    """The table's name."""

    kind: str
    """`delete`, `update` or `merge`."""

    table: Table
    target: CommitTarget
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
    target = commit_target(table, options)
    base = Base.of(target, metadata=table.metadata, overrides=options.overrides, summary=options.summary)
    return Statement(
        source.name, kind, table, target, base, options, reads_what_others_read=source.snapshot == base.head
    )
