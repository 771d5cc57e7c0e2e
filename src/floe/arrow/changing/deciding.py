"""Which rows of which files a condition is true of, from the few columns that it takes to say so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from floe.arrow.changing.base import TARGET, Base
from floe.arrow.changing.conditions import Condition
from floe.arrow.changing.touched import NOWHERE, Positions
from floe.arrow.values.compiling import Rows
from floe.arrow.values.rows import Column, Compiled
from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import FileTask
from floe.spec.expressions.nodes import TRUE
from floe.spec.schemas.metadata_columns import POS
from floe.spec.schemas.schema import Schema

__all__ = ["all_settled", "columns_for", "passing_rows", "positions_of", "settled_tasks"]


def settled_tasks(plan: ScanPlan) -> Iterator[tuple[FileTask, bool]]:
    """The files of a plan, each with whether metadata tells that all of its rows pass the filter."""
    for number, chunk in enumerate(plan.chunks):
        settled = chunk.settled | plan.without_filter(chunk)
        for rows in chunk.blocks(plan.block(number)):
            for place, task in zip(rows.tolist(), plan.some_tasks(number, rows), strict=True):
                yield task, bool(settled[place])


def all_settled(plan: ScanPlan) -> bool:
    """Whether metadata tells that all rows of all files of a plan pass its filter."""
    return all((chunk.settled | plan.without_filter(chunk)).all() for chunk in plan.chunks)


def columns_for(schema: Schema, relation: str, values: Iterable[Compiled]) -> Schema:
    """The columns that some values read of a relation, with the position of the row at the end."""
    used: set[Column] = {column for value in values for column in value.columns if column[0] == relation}
    names = {path[0] for _, path in used}
    return Schema((*(field for field in schema.fields if field.name in names), POS))


def positions_of(batch: pa.RecordBatch) -> Positions:
    """The positions of rows in their file, which stand in the last column."""
    return np.asarray(batch.column(batch.num_columns - 1), np.int64)


def passing_rows(base: Base, task: FileTask, condition: Condition, *, settled: bool = False) -> Positions:
    """The positions of a file's live rows that a condition is true of, ascending."""
    rest = condition.rest
    schema = columns_for(base.schema, TARGET, [] if rest is None else [rest])
    found = [NOWHERE]
    for batch in base.reader.batches(task, schema, where=TRUE if settled else None):
        positions = positions_of(batch)
        found.append(positions if rest is None else positions[rest.mask(Rows.of(**{TARGET: batch}))])
    return np.concatenate(found)
