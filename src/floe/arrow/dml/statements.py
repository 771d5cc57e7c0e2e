"""DELETE and UPDATE, and the files that a filter matches for overwrites.

Where metadata proves that all rows of a file match, the file is not read. `delete` removes such files by metadata alone
if there are no others. `match_files` and `remaining_rows` are used by overwrites with a filter: files that match
completely are replaced, and files that match partially are rewritten with their remaining rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.dml.assignments import Columns, updated_columns
from floe.arrow.dml.base import (
    NO_POSITIONS,
    TARGET,
    Base,
    Counts,
    FileChanges,
    Mode,
    Positions,
    ReadSet,
    StatementResult,
    columns_with_position,
    reject_pending_rows,
    row_positions,
)
from floe.arrow.dml.row_output import copy_on_write, merge_on_read
from floe.arrow.read.task_reader import TaskReader
from floe.arrow.values.compiled import Rows
from floe.arrow.values.filters import Condition, compile_condition
from floe.commit.operations.data_changes import DeleteFiles
from floe.errors import InvalidUpdate
from floe.formats.columns.filters import filter_mask
from floe.plan.counts import count_rows
from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import FileTask
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.schema import Schema

DELETE = "delete"
UPDATE = "update"


def _tasks_with_settled(plan: ScanPlan) -> Iterator[tuple[FileTask, bool]]:
    """The tasks of a plan, each with whether metadata proves that all its rows match the filter."""
    for number, chunk in enumerate(plan.chunks):
        settled = chunk.all_match | plan.without_filter(chunk)
        for rows in chunk.blocks(plan.block(number)):
            for index, task in zip(rows.tolist(), plan.some_tasks(number, rows), strict=True):
                yield task, bool(settled[index])


def _is_settled(plan: ScanPlan) -> bool:
    """Whether metadata proves that all rows of all files of a plan match its filter."""
    return all((chunk.all_match | plan.without_filter(chunk)).all() for chunk in plan.chunks)


def _matching_positions(base: Base, task: FileTask, condition: Condition, *, settled: bool = False) -> Positions:
    """The positions of a file's live rows for which a condition is true, ascending."""
    row_condition = condition.row_condition
    schema = columns_with_position(base.schema, TARGET, [] if row_condition is None else [row_condition])
    matches = [NO_POSITIONS]
    for batch in base.reader.batches(task, schema, where=TRUE if settled else None):
        positions = row_positions(batch)
        if row_condition is not None:
            positions = positions[row_condition.mask(Rows.of(**{TARGET: batch}))]
        matches.append(positions)
    return np.concatenate(matches)


# DELETE ---------------------------------------------------------------------------------------------------------------


def delete(base: Base, where: Any, *, by_metadata: bool | None = None) -> StatementResult:
    """The change that deletes the rows for which a condition is true.

    If metadata proves that only whole files are deleted, no row is read, and the commit removes the files that match
    the filter at that time. `by_metadata=True` raises `InvalidUpdate` if that is not possible; False always deletes
    rows by position.
    """
    condition = compile_condition(where, base.scope(), TARGET)
    plan = base.plan(condition.filter)
    if condition.row_condition is None and _is_settled(plan) and by_metadata is not False:
        if not len(plan) and not base.rows_pending:
            return StatementResult(None)
        counts = Counts(deleted=_live_rows(base, plan))
        options = base.snapshot_options(DELETE, counts)
        return StatementResult(DeleteFiles(where=condition.filter, **options), counts, by_metadata=True)
    if by_metadata:
        task = next(
            task for task, settled in _tasks_with_settled(plan) if not settled or condition.row_condition is not None
        )
        raise InvalidUpdate(
            f"only some rows of a file may match {str(where)[:200]!r}, so metadata is not enough to delete them",
            hint="leave out metadata_only to read the rows",
            file=task.file.file_path,
        )
    reject_pending_rows(base)
    files, deleted = [], 0
    for task, settled in _tasks_with_settled(plan):
        if settled and condition.row_condition is None:
            files.append(FileChanges(task, whole_file=True))
            deleted += _live_rows_of_task(base, task)
            continue
        positions = _matching_positions(base, task, condition)
        deleted += len(positions)
        if len(positions):
            files.append(FileChanges(task, deleted=positions))
    if not files:
        return StatementResult(None)
    write = copy_on_write if base.mode(DELETE) is Mode.COPY_ON_WRITE else merge_on_read
    return write(base, DELETE, files, Counts(deleted=deleted), read_set=ReadSet(condition.filter))


def _live_rows(base: Base, plan: ScanPlan) -> int:
    """The number of live rows of a plan's files; only files with equality deletes are read."""
    metadata_count = count_rows(plan)
    return metadata_count.count + sum(_live_rows_of_task(base, task) for task in metadata_count.tasks())


def _live_rows_of_task(base: Base, task: FileTask) -> int:
    has_equality_deletes = any(delete_file.is_equality_delete_file for delete_file in task.deletes)
    if not has_equality_deletes and task.file.record_count >= 0:
        return task.file.record_count - len(base.reader.deleted_positions(task))
    return sum(batch.num_rows for batch in base.reader.batches(task, Schema(()), where=TRUE))


# UPDATE ---------------------------------------------------------------------------------------------------------------


def update(base: Base, values: Mapping[str, Any], where: Any = None) -> StatementResult:
    """The change that sets columns of the rows for which a condition is true; without a condition, of all rows."""
    reject_pending_rows(base)
    scope = base.scope()
    columns = updated_columns(base.schema, TARGET, values, scope)
    condition = compile_condition(where, scope, TARGET)
    files = []
    for task, settled in _tasks_with_settled(base.plan(condition.filter)):
        positions = _matching_positions(base, task, condition, settled=settled)
        if len(positions):
            clause, no_source = np.zeros(len(positions), np.int64), np.full(len(positions), -1)
            files.append(FileChanges(task, updated=positions, clause=clause, source=no_source))
    if not files:
        return StatementResult(None)
    counts = Counts(updated=sum(len(changes.updated) for changes in files))
    write = copy_on_write if base.mode(UPDATE) is Mode.COPY_ON_WRITE else merge_on_read
    read_set = ReadSet(condition.filter)
    return write(base, UPDATE, files, counts, read_set=read_set, assign=lambda *rows: _evaluate(columns, *rows))


def _evaluate(columns: Columns, rows: pa.RecordBatch, clause: Positions, source: Positions) -> list[pa.Array]:
    """The new columns of updated rows; an UPDATE has one clause and no source."""
    table_rows = Rows.of(**{TARGET: rows})
    return [column.array(table_rows) for column in columns]


# Files of an overwrite with a filter ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MatchedFiles:
    """The files with rows that match a filter."""

    complete: tuple[DataFile, ...]
    """Files of which all rows match."""

    partial: tuple[FileTask, ...]
    """Files of which some rows match."""

    by_metadata: bool
    """Whether metadata was enough to tell, so that no rows were read."""


def match_files(plan: ScanPlan, where: Expression, reader: TaskReader) -> MatchedFiles:
    """The files of a plan with rows that match the plan's bound filter `where`."""
    complete: list[DataFile] = []
    partial: list[FileTask] = []
    scanned_files = 0
    for number, chunk in enumerate(plan.chunks):
        settled = chunk.all_match | plan.without_filter(chunk)
        complete += [task.file for task in plan.some_tasks(number, np.flatnonzero(settled))]
        for task in plan.some_tasks(number, np.flatnonzero(~settled)):
            scanned_files += 1
            matching = _count_rows(reader, task, where)
            if matching and matching == _count_rows(reader, task, TRUE):
                complete.append(task.file)
            elif matching:
                partial.append(task)
    return MatchedFiles(tuple(complete), tuple(partial), not scanned_files)


def _count_rows(reader: TaskReader, task: FileTask, where: Expression) -> int:
    return sum(batch.num_rows for batch in reader.batches(task, Schema(()), where=where))


def remaining_rows(
    tasks: Iterable[FileTask], where: Expression, reader: TaskReader, schema: Schema
) -> Iterator[pa.RecordBatch]:
    """The live rows of some files that do not match a bound filter, in the columns of a schema."""
    for task in tasks:
        for batch in reader.batches(task, schema, where=TRUE):
            yield batch.filter(pc.invert(filter_mask(where, batch)))
