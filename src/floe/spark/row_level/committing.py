"""The commit of a statement: what tasks wrote and noted becomes one change of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from pyroaring import BitMap64

from floe.arrow.changing.base import Counts, deleted_on_error, file_paths
from floe.arrow.changing.merge_on_read import deletes_of
from floe.arrow.changing.touched import Positions, Touched
from floe.commit.change import Change
from floe.commit.operations.overwrite import Overwrite
from floe.commit.operations.row_delta import RowDelta
from floe.errors import InvalidMetadata
from floe.plan.tasks import FileTask
from floe.spark.row_level.reads import reads_of
from floe.spark.row_level.statement import Statement
from floe.spark.row_level.worker import DELETE, INSERT, UPDATE, TaskResult
from floe.spark.scan.own_reads import OwnReads
from floe.spec.manifests.entries import DataFile
from floe.table.committing import make_changes

__all__ = ["commit"]


def commit(statement: Statement, results: Iterable[TaskResult], others: OwnReads) -> None:
    """Publish what tasks did; what they wrote is deleted if that fails for certain."""
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
            change = _replaced(statement, written, numbers, others)
        else:
            change = _deleted(statement, written, deleted, numbers, others)
    if change is not None:
        make_changes(statement.actions, [change], file_paths(written))


def _deleted(
    statement: Statement,
    written: list[DataFile],
    deleted: Mapping[str, BitMap64],
    numbers: Counter[int],
    others: OwnReads,
) -> Change | None:
    """Rows deleted where they are, and others added."""
    if not deleted and not written:
        return None
    base = statement.base
    counts = Counts(deleted=numbers[DELETE], updated=numbers[UPDATE], inserted=numbers[INSERT])
    files = [Touched(task, deleted=_positions(deleted[task.file.file_path])) for task in _tasks(statement, deleted)]
    deletes, replaced = deletes_of(base, files)
    written += deletes
    return RowDelta(
        written,
        removed=replaced,
        referenced=deleted,
        positions=deleted,
        reads=reads_of(statement, others),
        **base.snapshot_options(statement.kind, counts),
    )


def _tasks(statement: Statement, deleted: Mapping[str, BitMap64]) -> list[FileTask]:
    """The files that rows are deleted of, with the deletes that they have already."""
    found: dict[str, FileTask] = {}
    for plan in statement.plans.values():
        for task in plan.only(deleted.keys() - found.keys()).tasks():
            found[task.file.file_path] = task
    missing = deleted.keys() - found.keys()
    if missing:
        raise InvalidMetadata("a row is to be deleted of a file that was not read", file=min(missing))
    return list(found.values())


def _replaced(
    statement: Statement, written: Sequence[DataFile], numbers: Counter[int], others: OwnReads
) -> Change | None:
    """Files written anew."""
    base = statement.base
    removed = {task.file.file_path: task.file for plan in statement.plans.values() for task in plan.tasks()}
    if not removed and not written:
        return None
    return Overwrite(
        added=written,
        removed=removed.values(),
        reads=reads_of(statement, others, removed),
        **base.snapshot_options(statement.kind, Counts(updated=numbers[UPDATE], inserted=numbers[INSERT])),
    )


def _positions(found: BitMap64) -> Positions:
    return np.frombuffer(found.to_array(), np.uint64).astype(np.int64)
