"""A MERGE that writes files anew copies each row once, however often its source matches it.

Spark joins the table with the source, and a row that matches twice comes out of the join twice. It refuses that where
a clause is for matched rows. If there is only one for NOT MATCHED BY SOURCE it does not, and copies the row twice. So
such a plan is put in another way here: where nothing is inserted, the join only asks whether there is a match; where
something is, Spark is told to refuse as it does elsewhere.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import Expressions, Plans
from floe.spark.row_level.clauses import down_to

__all__ = ["copied_once"]

_CHECKS_CARDINALITY: Final = 5  # the place of `checkCardinality` among the parts of `MergeRows`
_NUMBER: Final = {"name": "__row_id", "type": "long", "nullable": False, "metadata": {}}  # as `MergeRowsExec` has it
_EXISTS: Final = {"name": "exists", "type": "boolean", "nullable": False, "metadata": {}}


def copied_once(jvm: Jvm, query: Any) -> Any:
    """The plan of the rows that a MERGE writes, in which no row of the table is copied twice."""
    above = down_to(jvm, "MergeRows", query)
    if not above or above[-1].checkCardinality() or not _copies_matched(jvm, above[-1]):
        return query
    rows = above.pop()
    below = down_to(jvm, "Join", rows.child())
    if not below or str(below[-1].joinType().sql()) not in ("LEFT OUTER", "FULL OUTER"):
        return query  # the source has no rows, so that nothing is joined, but perhaps with deletes
    join = below.pop()
    if rows.notMatchedInstructions().isEmpty():
        rows = _above(jvm, [rows, *below], _asked_for_a_match(jvm, rows, join))
    else:
        rows = _numbered(jvm, rows, below, join)
    return _above(jvm, above, rows)


def _copies_matched(jvm: Jvm, rows: Any) -> bool:
    """Whether nothing else is done with matched rows."""
    matched = jvm.read_seq(rows.matchedInstructions())
    return len(matched) == 1 and jvm.simple_name(matched[0]) == "Keep"


def _above(jvm: Jvm, nodes: list[Any], plan: Any) -> Any:
    """A plan below nodes of which each had one child."""
    return functools.reduce(lambda child, node: node.withNewChildren(jvm.seq([child])), reversed(nodes), plan)


def _asked_for_a_match(jvm: Jvm, rows: Any, join: Any) -> Any:
    """The table's rows, and the columns of the source as null, but for the one that says that there is a match."""
    plans, expressions = Plans(jvm), Expressions(jvm)
    (exists,) = plans.attributes({"type": "struct", "fields": [_EXISTS]})
    told = rows.isSourceRowPresent().references()
    columns = plans.output(join.left())
    for one in plans.output(join.right()):
        value = expressions.null(one.dataType())
        if told.contains(one):
            value = expressions.made("If", exists, expressions.literal("true"), value)
        columns.append(expressions.alias(value, one))
    condition = join.condition().get() if join.condition().isDefined() else expressions.literal("true")
    asked = plans.existence_join(join.left(), join.right(), condition, exists)
    return plans.project(columns, asked)


def _numbered(jvm: Jvm, rows: Any, between: list[Any], join: Any) -> Any:
    """The same with numbers of the table's rows, so that Spark sees one that matches again."""
    plans, expressions = Plans(jvm), Expressions(jvm)
    (number,) = plans.attributes({"type": "struct", "fields": [_NUMBER]})
    counted = expressions.alias(expressions.made("MonotonicallyIncreasingID"), number)
    plan = plans.join_in_place(join, plans.project([*plans.output(join.left()), counted], join.left()))
    for node in reversed(between):
        plan = plans.project([*jvm.read_seq(node.projectList()), number], plan)
    return plans.copied(rows, {_CHECKS_CARDINALITY: True}).withNewChildren(jvm.seq([plan]))
