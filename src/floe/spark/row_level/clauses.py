"""The clauses of a MERGE, as far as they say which rows of the table its outcome rests on.

What becomes of a row of the table depends on that row and the source. But a row of the source is inserted if no row of
the table matches it: if somebody deletes the only one that does, the outcome is another. So with such a clause a MERGE
rests on all rows that are matched. These are known if all of them are changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from floe.spark.bridge.jvm import Jvm

__all__ = ["Clauses", "clauses_of", "down_to"]


@dataclass(frozen=True, slots=True)
class Clauses:
    """What is done with rows, of the source and of the table."""

    insert: bool = False
    """Whether rows of the source are inserted that match nothing."""

    change_all_matched: bool = False
    """Whether each row that is matched is changed, or deleted."""


def clauses_of(jvm: Jvm, query: Any) -> Clauses:
    """The clauses of a MERGE whose rows a plan makes; if it is not to be seen there, what is the worst."""
    found = down_to(jvm, "MergeRows", query)
    if not found:
        return Clauses(insert=True)
    matched = jvm.read_seq(found[-1].matchedInstructions())
    return Clauses(
        insert=not found[-1].notMatchedInstructions().isEmpty(),
        change_all_matched=any(str(one.condition().sql()) == "true" for one in matched[-1:]),
    )


def down_to(jvm: Jvm, kind: str, plan: Any) -> list[Any]:
    """The nodes from the top of a plan down to one of a kind; none if there is no such node, or more than one way."""
    path = [plan]
    while jvm.simple_name(path[-1]) != kind:
        children = jvm.read_seq(path[-1].children())
        if len(children) != 1:
            return []
        path += children
    return path
