"""The commit of a statement: what tasks wrote and noted becomes one change of the table.

What a statement rests on: the rows that it may change, and what else it reads of its own table.

How many rows a statement changed: what the summary of its snapshot tells.

Tasks count the rows that come by what is done with them. Where files are written anew, deleted rows do not come at all;
there are as many as are missing. Before Spark 4.2 changed rows of such files look like copied ones. What is not known
is not told.

Of a MERGE the same is told under the names that Java has for it, so that who reads these finds them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from pyroaring import BitMap64

from floe.arrow.dml.base import Counts, Positions, Touched, deleted_on_error, file_paths
from floe.arrow.dml.row_output import deletes_of
from floe.commit.change import Change, Reads
from floe.commit.operations.overwrite import Overwrite
from floe.commit.operations.row_delta import RowDelta
from floe.commit.operations.snapshot_change import SnapshotOptions
from floe.errors import InvalidMetadata
from floe.plan.tasks import FileTask
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import merge_metrics
from floe.spark.write.insert import OwnReads
from floe.spark.write.row_level import Statement
from floe.spark.write.worker import COPY, DELETE, INSERT, UPDATE, TaskResult
from floe.spec.expressions.nodes import or_
from floe.spec.manifests.entries import DataFile

# What a statement rests on: the rows that it may change, and what else it reads of its own table.


def reads_of(
    statement: Statement, others: OwnReads, *, copied: Iterable[str] = (), changed: Mapping[str, BitMap64] | None = None
) -> Reads:
    """All that a statement rests on.

    `copied` are the files whose rows it copied. What a MERGE adds depends on the rows that its source matches;
    `changed` are those besides the copied ones, by file, or None if they are not known. If the table is also read to
    decide upon its own rows, what becomes of one depends on others.
    """
    alone = not others.filters
    return Reads(
        others.oldest(statement.base.head),
        filter=or_(statement.where, *others.filters),
        files=frozenset(copied),
        row_wise=alone and not statement.clauses.insert,
        positions=changed if alone else None,
        schema_id=statement.base.schema_id,
    )


# How many rows a statement changed: what the summary of its snapshot tells.

_MERGED: Final = "spark.merge-into.num-target-rows-"
_TOLD: Final = ("copied", "deleted", "updated", "inserted")
_TOLD_BY_SPARK: Final = (
    *_TOLD, "matched-updated", "matched-deleted", "not-matched-by-source-updated", "not-matched-by-source-deleted",
)  # fmt: skip


def told_by_spark(jvm: Jvm, kind: str, summary: Iterable[Any]) -> dict[str, int]:
    """What Spark counted of a MERGE: 4.1 tells it the write, and newer ones have it in the plan that is carried out."""
    for one in summary:
        if jvm.simple_name(one).startswith("MergeSummary"):
            return {name: int(getattr(one, _method(name))()) for name in _TOLD_BY_SPARK}
    if kind != "merge" or jvm.version < (4, 2):
        return {}
    counted = merge_metrics(jvm)
    known = {name: counted.get(_method(name), -1) for name in _TOLD_BY_SPARK}
    return known if min(known.values()) >= 0 else {}


def _method(name: str) -> str:
    """The method that gives a number.

    >>> _method("matched-deleted")
    'numTargetRowsMatchedDeleted'
    """
    return re.sub(r"-(\w)", lambda found: found[1].upper(), f"num-target-rows-{name}")


def counts_of_deleting(numbers: Counter[int]) -> Counts:
    """The counts of a statement that deletes rows where they are.

    >>> counts_of_deleting(Counter({DELETE: 3}))
    Counts(deleted=3, updated=0, inserted=0, copied=0, unchanged=0)
    """
    return Counts(deleted=numbers[DELETE], updated=numbers[UPDATE], inserted=numbers[INSERT])


def counts_of_copying(
    kind: str, numbers: Counter[int], files: Iterable[FileTask], told: Mapping[str, int], *, tells_copies: bool
) -> Counts:
    """The counts of a statement that wrote files anew; `tells_copies` says that copied rows come with their number."""
    if told:
        return Counts(**{name: told[name] for name in _TOLD})
    if kind == "delete":
        copied, updated, inserted = numbers.total(), 0, 0
    elif tells_copies:
        copied, updated, inserted = numbers[COPY], numbers[UPDATE], numbers[INSERT]
    else:
        return Counts()
    before = _live_rows(files)
    return Counts(0 if before is None else before - copied - updated, updated, inserted, copied)


def _live_rows(files: Iterable[FileTask]) -> int | None:
    """How many rows files have, if metadata tells.

    How many deletes by value delete is not known, nor how many positions of a delete file are of these files.
    """
    total = 0
    for task in files:
        if not all(delete.is_deletion_vector for delete in task.deletes):
            return None
        total += task.file.record_count - sum(delete.record_count for delete in task.deletes)
    return total


def merge_summary(counts: Counts, told: Mapping[str, int]) -> dict[str, str]:
    """What Java's snapshots tell of a MERGE.

    >>> merge_summary(Counts(updated=2, copied=1), {})["spark.merge-into.num-target-rows-updated"]
    '2'
    """
    known = told or {name: getattr(counts, name) for name in _TOLD}
    return {_MERGED + name: str(count) for name, count in known.items()} if counts != Counts() else {}


def commit(
    statement: Statement,
    results: Iterable[TaskResult],
    others: OwnReads,
    told: Mapping[str, int] = MappingProxyType({}),
    *,
    tells_copies: bool = True,
) -> None:
    """Publish what tasks did; what they wrote is deleted if that fails for certain.

    `told` is what Spark has counted; `tells_copies` says that copied rows come with a number of their own.
    """
    written: list[DataFile] = []
    deleted: dict[str, BitMap64] = {}
    numbers: Counter[int] = Counter()
    for result in results:
        written += result.files
        numbers.update(result.counts)
        for path, positions in result.deleted.items():
            deleted[path] = deleted[path] | positions if path in deleted else positions
    with deleted_on_error(statement.table.storage, written):
        if statement.copies:
            tasks = {task.file.file_path: task for files in statement.files.values() for task in files.tasks()}
            counts = counts_of_copying(statement.kind, numbers, tasks.values(), told, tells_copies=tells_copies)
            change = _replaced(statement, written, tasks, others, _options(statement, counts, told))
        else:
            counts = counts_of_deleting(numbers)
            change = _deleted(statement, written, deleted, others, _options(statement, counts, told))
    if change is not None:
        statement.target.commit([change], file_paths(written))


def _options(statement: Statement, counts: Counts, told: Mapping[str, int]) -> SnapshotOptions:
    options = statement.base.snapshot_options(statement.kind, counts)
    if statement.kind == "merge":
        options["summary"] = {**merge_summary(counts, told), **options.get("summary", {})}
    return options


def _deleted(
    statement: Statement,
    written: list[DataFile],
    deleted: Mapping[str, BitMap64],
    others: OwnReads,
    options: SnapshotOptions,
) -> Change | None:
    """Rows deleted where they are, and others added."""
    if not deleted and not written:
        return None
    files = [Touched(task, deleted=_positions(deleted[task.file.file_path])) for task in _tasks(statement, deleted)]
    deletes, replaced = deletes_of(statement.base, files)
    written += deletes
    return RowDelta(
        written,
        removed=replaced,
        referenced=deleted,
        positions=deleted,
        reads=reads_of(statement, others, changed=deleted if statement.clauses.change_all_matched else None),
        **options,
    )


def _tasks(statement: Statement, deleted: Mapping[str, BitMap64]) -> list[FileTask]:
    """The files that rows are deleted of, with the deletes that they have already."""
    found: dict[str, FileTask] = {}
    for files in statement.files.values():
        for task in files.among(deleted.keys() - found.keys()).tasks():
            found[task.file.file_path] = task
    missing = deleted.keys() - found.keys()
    if missing:
        raise InvalidMetadata("a row is to be deleted of a file that was not read", file=min(missing))
    return list(found.values())


def _replaced(
    statement: Statement,
    written: Sequence[DataFile],
    removed: Mapping[str, FileTask],
    others: OwnReads,
    options: SnapshotOptions,
) -> Change | None:
    """Files written anew."""
    if not removed and not written:
        return None
    return Overwrite(
        added=written,
        removed=[task.file for task in removed.values()],
        reads=reads_of(statement, others, copied=removed, changed={}),  # other files have no matched rows
        **options,
    )


def _positions(found: BitMap64) -> Positions:
    return np.frombuffer(found.to_array(), np.uint64).astype(np.int64)
