"""UPDATE: the rows that a condition is true of, with some columns set to other values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from floe.arrow.changing.assignments import Columns, updated_columns
from floe.arrow.changing.base import TARGET, Base, Counts, LookedAt, Made, Mode
from floe.arrow.changing.conditions import condition_of
from floe.arrow.changing.copy_on_write import copy_on_write
from floe.arrow.changing.deciding import passing_rows, settled_tasks
from floe.arrow.changing.merge_on_read import merge_on_read
from floe.arrow.changing.pending import refuse_pending_rows
from floe.arrow.changing.touched import Positions, Touched
from floe.arrow.values.compiling import Rows

__all__ = ["update"]

STATEMENT = "update"


def update(base: Base, values: Mapping[str, Any], where: Any = None) -> Made:
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
        return Made(None)
    counts = Counts(updated=sum(len(touched.updated) for touched in files))
    make = copy_on_write if base.mode(STATEMENT) is Mode.COPY_ON_WRITE else merge_on_read
    looked = LookedAt(condition.filter)
    return make(base, STATEMENT, files, counts, looked=looked, assign=lambda *rows: _set(columns, *rows))


def _set(columns: Columns, rows: pa.RecordBatch, clause: Positions, source: Positions) -> list[pa.Array]:
    given = Rows.of(**{TARGET: rows})
    return [column.array(given) for column in columns]
