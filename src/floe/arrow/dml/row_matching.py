"""The condition of a statement: a filter that planning understands, and what is left to ask of the rows.

A plain filter, such as `ts >= '2024-01-01' and customer like 'a%'`, is all that there is to ask. Anything else that SQL
can say is compiled, and the part of it that is a filter still leaves out files.

Which rows of which files a condition is true of, from the few columns that it takes to say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from floe.arrow.dml.base import NOWHERE, TARGET, Base, Positions
from floe.arrow.values.compiled import Column, Compiled, Rows
from floe.arrow.values.compiler import Scope
from floe.arrow.values.filters import filter_of
from floe.errors import InvalidExpression, NoSuchColumn
from floe.plan.scan_plan import ScanPlan
from floe.plan.tasks import FileTask
from floe.spec.expressions.binding import bind
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.schemas.metadata_columns import POS
from floe.spec.schemas.schema import Schema
from floe.sql.filters import parse_filter


@dataclass(frozen=True, eq=False, slots=True)
class Condition:
    """A filter that every row passes for which the condition is true, and the condition itself if that is not all."""

    filter: Expression
    rest: Compiled | None = None


def condition_of(given: Any, scope: Scope, relation: str) -> Condition:
    """The condition that a user gave as text, as a filter, or not at all, which is true of every row.

    >>> from floe.spec.types import Field, INT
    >>> scope = Scope({"t": Schema((Field(1, "a", INT),))})
    >>> print(condition_of("a > 5", scope, "t").filter)
    a > 5
    >>> condition_of("a % 2 = 0 and a > 5", scope, "t").rest is None
    False
    """
    schema = scope.relations[relation]
    if given is None:
        return Condition(TRUE)
    if isinstance(given, Expression):
        bind(given, schema, case_sensitive=scope.case_sensitive)
        return Condition(given)
    if not isinstance(given, str):
        raise InvalidExpression(
            f"a condition is text or a filter, found {type(given).__name__}", hint="write 'true' for all rows"
        )
    plain = _plain_filter(given, schema, scope)
    if plain is not None:
        return Condition(plain)
    compiled = scope.condition(given)
    found = filter_of(compiled, relation)
    return Condition(found.filter, None if found.exact else compiled)


def _plain_filter(text: str, schema: Schema, scope: Scope) -> Expression | None:
    try:
        found = parse_filter(text)
        bind(found, schema, case_sensitive=scope.case_sensitive)
    except (InvalidExpression, NoSuchColumn):
        return None
    return found


# Which rows of which files a condition is true of, from the few columns that it takes to say so.


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
