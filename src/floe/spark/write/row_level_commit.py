"""The commit of a statement: what tasks wrote and noted becomes one change of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from pyroaring import BitMap64

from floe.arrow.changing.base import Counts, deleted_on_error, file_paths
from floe.arrow.changing.merge_on_read import deletes_of
from floe.arrow.changing.touched import Positions, Touched
from floe.commit.change import Change
from floe.commit.operations.overwrite import Overwrite
from floe.commit.operations.row_delta import RowDelta
from floe.commit.operations.snapshot_change import SnapshotOptions
from floe.errors import InvalidMetadata
from floe.plan.tasks import FileTask
from floe.spark.row_level.counting import counts_of_copying, counts_of_deleting, merge_summary
from floe.spark.row_level.reads import reads_of
from floe.spark.row_level.statement import Statement
from floe.spark.row_level.worker import TaskResult
from floe.spark.scan.own_reads import OwnReads
from floe.spec.manifests.entries import DataFile
from floe.table.committing import make_changes

__all__ = ["commit"]


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
        make_changes(statement.actions, [change], file_paths(written))


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
