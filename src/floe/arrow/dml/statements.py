"""DELETE: by whole files where metadata tells that all of their rows go, else row by row.

UPDATE: the rows that a condition is true of, with some columns set to other values.

Which files a filter concerns, when the rows that pass it are to make room for others: wholly, partly, or not at all.

What metadata tells is not read. Of a file that it does not settle, rows are counted; one of which only some pass is
copied without them.
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
    TARGET,
    Base,
    Counts,
    Mode,
    Positions,
    ReadSet,
    StatementResult,
    Touched,
    refuse_pending_rows,
)
from floe.arrow.dml.row_matching import all_settled, condition_of, passing_rows, settled_tasks
from floe.arrow.dml.row_output import copy_on_write, merge_on_read
from floe.arrow.reading.task_reader import TaskReader
from floe.arrow.values.compiled import Rows
from floe.commit.operations.overwrite import DeleteFiles
from floe.errors import InvalidUpdate
from floe.formats.arrow_filters import filter_mask
from floe.plan.counts import count_rows
from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import FileTask
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.schema import Schema

DELETE = "delete"


def delete(base: Base, where: Any, *, by_metadata: bool | None = None) -> StatementResult:
    """The change that deletes the rows a condition is true of.

    If metadata tells that whole files go, and nothing else does, no row is read, and the commit removes what passes
    the filter then. `by_metadata` says that it must be so, or (False) that rows are named in any case.
    """
    condition = condition_of(where, base.scope(), TARGET)
    plan = base.plan(condition.filter)
    if condition.rest is None and all_settled(plan) and by_metadata is not False:
        if not len(plan) and not base.rows_pending:
            return StatementResult(None)
        counts = Counts(deleted=_live_rows(base, plan))
        options = base.snapshot_options(DELETE, counts)
        return StatementResult(DeleteFiles(where=condition.filter, **options), counts, by_metadata=True)
    if by_metadata:
        task = next(task for task, settled in settled_tasks(plan) if not settled or condition.rest is not None)
        raise InvalidUpdate(
            f"only some rows of a file, not all, may pass {str(where)[:200]!r}",
            hint="leave metadata_only out to read the rows",
            file=task.file.file_path,
        )
    refuse_pending_rows(base)
    files, deleted = [], 0
    for task, settled in settled_tasks(plan):
        if settled and condition.rest is None:
            files.append(Touched(task, whole=True))
            deleted += _live_rows_of(base, task)
            continue
        rows = passing_rows(base, task, condition)
        deleted += len(rows)
        if len(rows):
            files.append(Touched(task, deleted=rows))
    if not files:
        return StatementResult(None)
    make = copy_on_write if base.mode(DELETE) is Mode.COPY_ON_WRITE else merge_on_read
    return make(base, DELETE, files, Counts(deleted=deleted), looked=ReadSet(condition.filter))


def _live_rows(base: Base, plan: ScanPlan) -> int:
    """How many rows the files have; only deletes by value make it necessary to look."""
    known = count_rows(plan)
    return known.count + sum(_live_rows_of(base, task) for task in known.tasks())


def _live_rows_of(base: Base, task: FileTask) -> int:
    if not any(one.is_equality_delete_file for one in task.deletes) and task.file.record_count >= 0:
        return task.file.record_count - len(base.reader.deleted_positions(task))
    return sum(batch.num_rows for batch in base.reader.batches(task, Schema(()), where=TRUE))


# UPDATE: the rows that a condition is true of, with some columns set to other values.

UPDATE = "update"


def update(base: Base, values: Mapping[str, Any], where: Any = None) -> StatementResult:
    """The change that sets columns of the rows a condition is true of; without one, of all rows."""
    refuse_pending_rows(base)
    scope = base.scope()
    columns = updated_columns(base.schema, TARGET, values, scope)
    condition = condition_of(where, scope, TARGET)
    files = []
    for task, settled in settled_tasks(base.plan(condition.filter)):
        rows = passing_rows(base, task, condition, settled=settled)
        if len(rows):
            nothing = np.full(len(rows), -1)
            files.append(Touched(task, updated=rows, clause=np.zeros(len(rows), np.int64), source=nothing))
    if not files:
        return StatementResult(None)
    counts = Counts(updated=sum(len(touched.updated) for touched in files))
    make = copy_on_write if base.mode(UPDATE) is Mode.COPY_ON_WRITE else merge_on_read
    looked = ReadSet(condition.filter)
    return make(base, UPDATE, files, counts, looked=looked, assign=lambda *rows: _set(columns, *rows))


def _set(columns: Columns, rows: pa.RecordBatch, clause: Positions, source: Positions) -> list[pa.Array]:
    given = Rows.of(**{TARGET: rows})
    return [column.array(given) for column in columns]


# Which files a filter concerns, when the rows that pass it are to make room for others: wholly, partly, or not at all.


@dataclass(frozen=True, slots=True)
class Concerned:
    """The files with rows that pass a filter."""

    whole: tuple[DataFile, ...]
    """Those of which all rows pass."""

    partly: tuple[FileTask, ...]
    by_metadata: bool
    """Whether metadata told all of it, so that no row had to be looked at."""


def concerned_files(plan: ScanPlan, where: Expression, reader: TaskReader) -> Concerned:
    """The files of a plan, made for the bound filter `where`, that have rows which pass it."""
    whole: list[DataFile] = []
    partly: list[FileTask] = []
    unsettled = 0
    for number, chunk in enumerate(plan.chunks):
        settled = chunk.settled | plan.without_filter(chunk)
        whole += [task.file for task in plan.some_tasks(number, np.flatnonzero(settled))]
        for task in plan.some_tasks(number, np.flatnonzero(~settled)):
            unsettled += 1
            passing = _count(reader, task, where)
            if passing and passing == _count(reader, task, TRUE):
                whole.append(task.file)
            elif passing:
                partly.append(task)
    return Concerned(tuple(whole), tuple(partly), not unsettled)


def _count(reader: TaskReader, task: FileTask, where: Expression) -> int:
    return sum(batch.num_rows for batch in reader.batches(task, Schema(()), where=where))


def rows_that_stay(
    tasks: Iterable[FileTask], where: Expression, reader: TaskReader, schema: Schema
) -> Iterator[pa.RecordBatch]:
    """The live rows of files that do not pass a bound filter, in the columns of a schema."""
    for task in tasks:
        for batch in reader.batches(task, schema, where=TRUE):
            yield batch.filter(pc.invert(filter_mask(where, batch)))
