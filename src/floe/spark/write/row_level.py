"""A row-level statement (DELETE, UPDATE or MERGE) from its analysis to its commit.

`new_statement` makes the `Statement` when Spark analyzes it: the snapshot that is read and changed, the target of the
commit, and the mode (`write.delete.mode`, `write.update.mode`, `write.merge.mode`). Copy-on-write, the default,
rewrites the files that contain changed rows; merge-on-read deletes rows where they are, and writes changed rows to new
files. `floe.spark.write.row_level_plan` plans and executes the statement, and adds to it what it has read. `commit`
turns the results of the tasks into one change of the table.

What becomes of a row of the table depends on that row and the source. But a MERGE inserts a row of the source if no row
of the table matches it: if a concurrent commit deletes the only match, the result is different. So a MERGE with such a
clause depends on all rows that are matched (`MergeClauses`). They are known only if every matched row is changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from pyroaring import BitMap64

from floe.arrow.dml.base import Base, Counts, FileChanges, Mode, Positions, delete_on_error, file_paths
from floe.arrow.dml.row_output import write_deletes
from floe.commit.change import Change, Reads
from floe.commit.operations.data_changes import Overwrite, RowDelta
from floe.commit.operations.snapshot_change import SnapshotOptions
from floe.commit.target import CommitTarget
from floe.errors import InvalidMetadata
from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import FileTask
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import merge_metrics
from floe.spark.names import AsOf
from floe.spark.read.scan_source import PlannedFiles, ScanSource
from floe.spark.write.insert import TargetReads, commit_target
from floe.spark.write.options import WriteOptions, write_options
from floe.spark.write.worker import COPY, DELETE, INSERT, UPDATE, TaskResult
from floe.spec.expressions.nodes import TRUE, Expression, or_
from floe.spec.manifests.entries import DataFile
from floe.table.table import Table

# Loading a table for UPDATE or MERGE ----------------------------------------------------------------------------------
#
# For a table with `write.spark.accept-any-schema` Spark does not resolve the columns of any statement, not even of
# those that it cannot execute without. So UPDATE and MERGE get the table without that capability. When Spark loads a
# table it reports the privileges that the statement needs. INSERT, or INSERT and DELETE, may be a MERGE or an
# overwrite; and Spark 4.1 loads a table again without privileges once a MERGE has added columns to it. Such loads are
# recognized by the position in the SQL text that is being resolved, or by a mark while a data frame is merged.

_GAP: Final = r"(?:\s|/\*.*?\*/|--[^\n]*\n)+"
_EVOLVING_MERGE: Final = rf"merge{_GAP}with{_GAP}schema{_GAP}evolution\b"
_BEFORE_TARGET: Final = re.compile(rf"\b(merge|{_EVOLVING_MERGE}){_GAP}into{_GAP}\Z", re.IGNORECASE | re.DOTALL)
_STATEMENT: Final = re.compile(_EVOLVING_MERGE, re.IGNORECASE | re.DOTALL)
_DATA_FRAME_MERGE: Final = "floe.merging.a.frame"


@contextmanager
def mark_merge(jvm: Jvm) -> Iterator[None]:
    """Mark the tables that Spark loads inside the block as loaded for a MERGE of a data frame.

    The mark is a local property of the thread in the JVM, where the analysis runs too.
    """
    jvm.context.setLocalProperty(_DATA_FRAME_MERGE, "true")
    try:
        yield
    finally:
        jvm.context.setLocalProperty(_DATA_FRAME_MERGE, None)


def is_row_level_load(jvm: Jvm, arguments: Iterable[Any]) -> bool:
    """Whether Spark loads a table for UPDATE or MERGE; the arguments are those of `loadTable` after the identifier."""
    privileges = {str(privilege.name()) for argument in arguments for privilege in _privileges(jvm, argument)}
    if "UPDATE" in privileges or privileges == {"DELETE"}:
        return True
    return jvm.context.getLocalProperty(_DATA_FRAME_MERGE) is not None or _resolves_merge_target(jvm)


def _resolves_merge_target(jvm: Jvm) -> bool:
    """Whether Spark is resolving the name after MERGE INTO, or a whole MERGE WITH SCHEMA EVOLUTION."""
    origin = jvm.module("org.apache.spark.sql.catalyst.trees.CurrentOrigin").get()
    if origin.sqlText().isEmpty() or origin.startIndex().isEmpty():
        return False
    text, start = str(origin.sqlText().get()), int(origin.startIndex().get())
    return bool(_BEFORE_TARGET.search(text[:start]) or _STATEMENT.match(text, start))


def _privileges(jvm: Jvm, argument: Any) -> Iterable[Any]:
    """The `TableWritePrivilege`s of an argument of `loadTable`; none if it is a version or timestamp."""
    if isinstance(argument, str | int):
        return ()
    if jvm.simple_name(argument) == "TableContext":
        argument = argument.writePrivileges()
    return list(argument) if jvm.class_object("java.util.Set").isInstance(argument) else ()


# MERGE clauses --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MergeClauses:
    """The clauses of a MERGE, as far as they decide which rows of the table its result depends on."""

    insert: bool = False
    """Whether rows of the source that match no row are inserted."""

    change_all_matched: bool = False
    """Whether every matched row is updated or deleted."""


def merge_clauses(jvm: Jvm, query: Any) -> MergeClauses:
    """The clauses of a MERGE, read from the plan of its rows; if they are not found there, the worst case."""
    path = path_to_node(jvm, "MergeRows", query)
    if not path:
        return MergeClauses(insert=True)
    matched = jvm.read_seq(path[-1].matchedInstructions())
    return MergeClauses(
        insert=not path[-1].notMatchedInstructions().isEmpty(),
        change_all_matched=any(str(instruction.condition().sql()) == "true" for instruction in matched[-1:]),
    )


def path_to_node(jvm: Jvm, kind: str, plan: Any) -> list[Any]:
    """The nodes from the root of a plan down to the first one of a kind.

    Empty if there is no such node, or if a node on the way has not exactly one child.
    """
    path = [plan]
    while jvm.simple_name(path[-1]) != kind:
        children = jvm.read_seq(path[-1].children())
        if len(children) != 1:
            return []
        path += children
    return path


# The statement --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowLevelSource(ScanSource):
    """The table at the snapshot that a statement changes; its files come with all of their deletes."""

    all_deletes: bool = True
    copy_on_write: bool = False
    """Whether all rows of the files are read, because the files are rewritten."""

    def plan(self, where: Expression, *, metrics: Collection[int] | None = ()) -> ScanPlan:
        """The files that may have rows which match a filter; without residuals if the files are rewritten."""
        plan = super().plan(where, metrics=metrics)
        return replace(plan, residuals=[TRUE] * len(plan.residuals)) if self.copy_on_write else plan


@dataclass(eq=False)
class Statement:
    """A DELETE, UPDATE or MERGE of a table."""

    name: str
    """The name of the table."""

    kind: str
    """`delete`, `update` or `merge`."""

    table: Table
    target: CommitTarget
    """What the statement commits to: the table, one of its branches, or a staged snapshot."""

    base: Base
    """The state that is read and changed."""

    options: WriteOptions
    scan_filters: dict[int, Expression] = field(default_factory=dict)
    """The filter of each scan of the rows that may change, by the id of the scan."""

    files: dict[int, PlannedFiles] = field(default_factory=dict)
    """The files that each part of these scans reads, once it is executed, by the id of the part."""

    clauses: MergeClauses = field(default_factory=MergeClauses)
    """The clauses of a MERGE, once it is planned."""

    reads_same_snapshot: bool = True
    """Whether other scans of the table read the snapshot that is changed; not if the commit goes to another branch."""

    @cached_property
    def mode(self) -> Mode:
        """Copy-on-write or merge-on-read."""
        return self.base.mode(self.kind)

    @property
    def copy_on_write(self) -> bool:
        """Whether the files that contain changed rows are rewritten."""
        return self.mode is Mode.COPY_ON_WRITE

    @property
    def only_deletes(self) -> bool:
        """Whether no data files are written: a DELETE with merge-on-read."""
        return self.kind == "delete" and not self.copy_on_write

    @property
    def keeps_lineage(self) -> bool:
        """Whether rows keep their row lineage when they are written to another file."""
        return self.base.tracks_rows and not self.only_deletes

    @cached_property
    def source(self) -> RowLevelSource:
        """The source of the scans of rows that may change: the very snapshot that the commit is based on."""
        head = self.base.head
        as_of = AsOf() if head is None else AsOf(snapshot_id=head.snapshot_id)
        return RowLevelSource(self.name, self.table, as_of, self.base.schema, copy_on_write=self.copy_on_write)

    @property
    def where(self) -> Expression:
        """A filter that all rows match which the statement has read to change them."""
        return or_(*self.scan_filters.values())

    def __str__(self) -> str:
        branch = "" if self.options.branch is None else f" (branch {self.options.branch})"
        return f"Floe table {self.name}{branch}: {self.kind.upper()}, {self.mode.value}"


def new_statement(jvm: Jvm, source: ScanSource, kind: str, options: Mapping[str, str], branch: str | None) -> Statement:
    """A statement on a table, with the options of the statement; `source` is what other scans of the table read."""
    table = source.table
    resolved = write_options(jvm, {key.lower(): value for key, value in options.items()}, table.metadata, branch)
    target = commit_target(table, resolved)
    base = Base.of(target, metadata=table.metadata, overrides=resolved.overrides, summary=resolved.summary)
    return Statement(source.name, kind, table, target, base, resolved, reads_same_snapshot=source.snapshot == base.head)


# Reads ----------------------------------------------------------------------------------------------------------------


def statement_reads(
    statement: Statement,
    target_reads: TargetReads,
    *,
    copied: Iterable[str] = (),
    changed: Mapping[str, BitMap64] | None = None,
) -> Reads:
    """All that the result of a statement depends on, for the conflict checks of its commit.

    `copied` are the files whose rows it copied. What a MERGE inserts depends on the rows that its source matches;
    `changed` are the positions of those outside of copied files, by file, or None if they are not known. If the
    statement has other scans of the table (`target_reads`), each row may depend on other rows.
    """
    row_wise = not target_reads.filters
    return Reads(
        target_reads.oldest_snapshot_id(statement.base.head),
        filter=or_(statement.where, *target_reads.filters),
        files=frozenset(copied),
        row_wise=row_wise and not statement.clauses.insert,
        positions=changed if row_wise else None,
        schema_id=statement.base.schema_id,
    )


# Row counts for the snapshot summary ----------------------------------------------------------------------------------
#
# Tasks count rows by Spark's operation codes. With copy-on-write, deleted rows do not reach the tasks: they are the
# rows of the rewritten files that are missing. Before Spark 4.2 updated rows of such files look like copied ones.
# Counts that are not known are left out of the summary.

_MERGE_PREFIX: Final = "spark.merge-into.num-target-rows-"
"""Java Iceberg's prefix of the counts of a MERGE in a summary."""

_COUNTS: Final = ("copied", "deleted", "updated", "inserted")
_SPARK_COUNTS: Final = (
    *_COUNTS, "matched-updated", "matched-deleted", "not-matched-by-source-updated", "not-matched-by-source-deleted",
)  # fmt: skip


def spark_counts(jvm: Jvm, kind: str, summary: Iterable[Any]) -> dict[str, int]:
    """The row counts of a MERGE that Spark has; empty if there are none.

    Spark 4.1 passes them to the commit as a `MergeSummary`; later versions have them in the metrics of the plan.
    """
    for each in summary:
        if jvm.simple_name(each).startswith("MergeSummary"):
            return {name: int(getattr(each, _method(name))()) for name in _SPARK_COUNTS}
    if kind != "merge" or jvm.version < (4, 2):
        return {}
    metrics = merge_metrics(jvm)
    counts = {name: metrics.get(_method(name), -1) for name in _SPARK_COUNTS}
    return counts if min(counts.values()) >= 0 else {}


def _method(name: str) -> str:
    """The method of `MergeSummary` that returns a count.

    >>> _method("matched-deleted")
    'numTargetRowsMatchedDeleted'
    """
    return re.sub(r"-(\w)", lambda match: match[1].upper(), f"num-target-rows-{name}")


def merge_on_read_counts(operations: Counter[int]) -> Counts:
    """The counts of a merge-on-read statement, from the rows of each operation code in all tasks.

    >>> merge_on_read_counts(Counter({DELETE: 3}))
    Counts(deleted=3, updated=0, inserted=0, copied=0, unchanged=0)
    """
    return Counts(deleted=operations[DELETE], updated=operations[UPDATE], inserted=operations[INSERT])


def copy_on_write_counts(
    kind: str,
    operations: Counter[int],
    files: Iterable[FileTask],
    merge_counts: Mapping[str, int],
    *,
    marks_copies: bool,
) -> Counts:
    """The counts of a copy-on-write statement that rewrote some files.

    They are those of Spark (`merge_counts`) if it has them. `marks_copies` says that copied rows have a code of their
    own; without it the counts of an UPDATE or MERGE are not known.
    """
    if merge_counts:
        return Counts(**{name: merge_counts[name] for name in _COUNTS})
    if kind == "delete":
        copied, updated, inserted = operations.total(), 0, 0
    elif marks_copies:
        copied, updated, inserted = operations[COPY], operations[UPDATE], operations[INSERT]
    else:
        return Counts()
    before = _live_rows(files)
    return Counts(0 if before is None else before - copied - updated, updated, inserted, copied)


def _live_rows(files: Iterable[FileTask]) -> int | None:
    """The number of live rows of files; None if metadata does not have it.

    It does not say how many rows an equality delete deletes, nor how many positions of a delete file are of these
    files.
    """
    total = 0
    for task in files:
        if not all(delete.is_deletion_vector for delete in task.deletes):
            return None
        total += task.file.record_count - sum(delete.record_count for delete in task.deletes)
    return total


def merge_summary(counts: Counts, merge_counts: Mapping[str, int]) -> dict[str, str]:
    """The entries that Java Iceberg writes to the summary of a MERGE, for programs that look for them.

    >>> merge_summary(Counts(updated=2, copied=1), {})["spark.merge-into.num-target-rows-updated"]
    '2'
    """
    by_name = merge_counts or {name: getattr(counts, name) for name in _COUNTS}
    return {_MERGE_PREFIX + name: str(count) for name, count in by_name.items()} if counts != Counts() else {}


# Commit ---------------------------------------------------------------------------------------------------------------


def commit(
    statement: Statement,
    results: Iterable[TaskResult],
    target_reads: TargetReads,
    merge_counts: Mapping[str, int] = MappingProxyType({}),
    *,
    marks_copies: bool = True,
) -> None:
    """Commit the results of all tasks as one change; the files are deleted if the commit has certainly failed.

    `target_reads` are the other scans of the table, `merge_counts` the counts of Spark; `marks_copies` says that copied
    rows have an operation code of their own.
    """
    written: list[DataFile] = []
    deleted: dict[str, BitMap64] = {}
    operations: Counter[int] = Counter()
    for result in results:
        written += result.files
        operations.update(result.counts)
        for path, positions in result.deleted.items():
            deleted[path] = deleted[path] | positions if path in deleted else positions
    with delete_on_error(statement.table.storage, written):
        if statement.copy_on_write:
            tasks = {task.file.file_path: task for files in statement.files.values() for task in files.tasks()}
            counts = copy_on_write_counts(
                statement.kind, operations, tasks.values(), merge_counts, marks_copies=marks_copies
            )
            options = _snapshot_options(statement, counts, merge_counts)
            change = _overwrite(statement, written, tasks, target_reads, options)
        else:
            options = _snapshot_options(statement, merge_on_read_counts(operations), merge_counts)
            change = _row_delta(statement, written, deleted, target_reads, options)
    if change is not None:
        statement.target.commit([change], file_paths(written))


def _snapshot_options(statement: Statement, counts: Counts, merge_counts: Mapping[str, int]) -> SnapshotOptions:
    options = statement.base.snapshot_options(statement.kind, counts)
    if statement.kind == "merge":
        options["summary"] = {**merge_summary(counts, merge_counts), **options.get("summary", {})}
    return options


def _row_delta(
    statement: Statement,
    written: list[DataFile],
    deleted: Mapping[str, BitMap64],
    target_reads: TargetReads,
    options: SnapshotOptions,
) -> Change | None:
    """The change of merge-on-read: new data files, and the delete files, which are written here.

    The delete files are added to `written`. None if no row has changed.
    """
    if not deleted and not written:
        return None
    files = [FileChanges(task, deleted=_positions(deleted[task.file.file_path])) for task in _tasks(statement, deleted)]
    deletes, replaced = write_deletes(statement.base, files)
    written += deletes
    changed = deleted if statement.clauses.change_all_matched else None
    return RowDelta(
        written,
        removed=replaced,
        referenced=deleted,
        positions=deleted,
        reads=statement_reads(statement, target_reads, changed=changed),
        **options,
    )


def _tasks(statement: Statement, deleted: Mapping[str, BitMap64]) -> list[FileTask]:
    """The data files of which rows are deleted, with the deletes that they have already."""
    tasks: dict[str, FileTask] = {}
    for files in statement.files.values():
        for task in files.select_paths(deleted.keys() - tasks.keys()).tasks():
            tasks[task.file.file_path] = task
    missing = deleted.keys() - tasks.keys()
    if missing:
        raise InvalidMetadata("a row is to be deleted of a file that was not read", file=min(missing))
    return list(tasks.values())


def _overwrite(
    statement: Statement,
    written: Sequence[DataFile],
    rewritten: Mapping[str, FileTask],
    target_reads: TargetReads,
    options: SnapshotOptions,
) -> Change | None:
    """The change of copy-on-write: the rewritten files replaced by new ones; None if there are neither."""
    if not rewritten and not written:
        return None
    # `changed` is empty: no row outside of the rewritten files is matched
    return Overwrite(
        added=written,
        removed=[task.file for task in rewritten.values()],
        reads=statement_reads(statement, target_reads, copied=rewritten, changed={}),
        **options,
    )


def _positions(bitmap: BitMap64) -> Positions:
    return np.frombuffer(bitmap.to_array(), np.uint64).astype(np.int64)
