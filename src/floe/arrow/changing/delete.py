"""DELETE: by whole files where metadata tells that all of their rows go, else row by row."""

from __future__ import annotations

from typing import Any

from floe.arrow.changing.base import TARGET, Base, Counts, LookedAt, Made, Mode
from floe.arrow.changing.conditions import condition_of
from floe.arrow.changing.copy_on_write import copy_on_write
from floe.arrow.changing.deciding import all_settled, passing_rows, settled_tasks
from floe.arrow.changing.merge_on_read import merge_on_read
from floe.arrow.changing.pending import refuse_pending_rows
from floe.arrow.changing.touched import Touched
from floe.commit.operations.delete_files import DeleteFiles
from floe.errors import InvalidUpdate
from floe.plan.counts import count_rows
from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import FileTask
from floe.spec.expressions.nodes import TRUE
from floe.spec.schemas.schema import Schema

__all__ = ["delete"]

STATEMENT = "delete"


def delete(base: Base, where: Any, *, by_metadata: bool | None = None) -> Made:
    """The change that deletes the rows a condition is true of.

    If metadata tells that whole files go, and nothing else does, no row is read, and the commit removes what passes
    the filter then. `by_metadata` says that it must be so, or (False) that rows are named in any case.
    """
    condition = condition_of(where, base.scope(), TARGET)
    plan = base.plan(condition.filter)
    if condition.rest is None and all_settled(plan) and by_metadata is not False:
        if not len(plan) and not base.rows_pending:
            return Made(None)
        counts = Counts(deleted=_live_rows(base, plan))
        options = base.snapshot_options(STATEMENT, counts)
        return Made(DeleteFiles(where=condition.filter, **options), counts, by_metadata=True)
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
        return Made(None)
    make = copy_on_write if base.mode(STATEMENT) is Mode.COPY_ON_WRITE else merge_on_read
    return make(base, STATEMENT, files, Counts(deleted=deleted), looked=LookedAt(condition.filter))


def _live_rows(base: Base, plan: ScanPlan) -> int:
    """How many rows the files have; only deletes by value make it necessary to look."""
    known = count_rows(plan)
    return known.count + sum(_live_rows_of(base, task) for task in known.tasks())


def _live_rows_of(base: Base, task: FileTask) -> int:
    if not any(one.is_equality_delete_file for one in task.deletes) and task.file.record_count >= 0:
        return task.file.record_count - len(base.reader.deleted_positions(task))
    return sum(batch.num_rows for batch in base.reader.batches(task, Schema(()), where=TRUE))
