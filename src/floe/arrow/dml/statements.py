"""Which files a filter concerns, when the rows that pass it are to make room for others: wholly, partly, or not at all.

What metadata tells is not read. Of a file that it does not settle, rows are counted; one of which only some pass is
copied without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.reading.tasks import TaskReader
from floe.formats.arrow_filters import filter_mask
from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import FileTask
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.schema import Schema

__all__ = ["Concerned", "concerned_files", "rows_that_stay"]


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
