"""The clauses of a MERGE, as far as they say which rows of the table its outcome rests on.

What becomes of a row of the table depends on that row and the source. But a row of the source is inserted if no row of
the table matches it: if somebody deletes the only one that does, the outcome is another. So with such a clause a MERGE
rests on all rows that are matched. These are known if all of them are changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from floe.spark.bridge.jvm import Jvm

__all__ = ["Clauses", "clauses_of"]


@dataclass(frozen=True, slots=True)
class Clauses:
    """What is done with rows, of the source and of the table."""

    insert: bool = False
    """Whether rows of the source are inserted that match nothing."""

    change_all_matched: bool = False
    """Whether each row that is matched is changed, or deleted."""


def clauses_of(jvm: Jvm, query: Any) -> Clauses:
    """The clauses of a MERGE whose rows a plan makes; if it is not to be seen there, what is the worst."""
    node = query
    while jvm.simple_name(node) != "MergeRows":
        children = jvm.read_seq(node.children())
        if len(children) != 1:
            return Clauses(insert=True)
        (node,) = children
    matched = jvm.read_seq(node.matchedInstructions())
    return Clauses(
        insert=not node.notMatchedInstructions().isEmpty(),
        change_all_matched=any(str(one.condition().sql()) == "true" for one in matched[-1:]),
    )
