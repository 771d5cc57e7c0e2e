"""How many rows a statement changed: what the summary of its snapshot tells.

Tasks count the rows that come by what is done with them. Where files are written anew, deleted rows do not come at all;
there are as many as are missing. Before Spark 4.2 changed rows of such files look like copied ones. What is not known
is not told.

Of a MERGE the same is told under the names that Java has for it, so that who reads these finds them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from floe.arrow.changing.base import Counts
from floe.plan.tasks import FileTask
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.merge_metrics import merge_metrics
from floe.spark.row_level.worker import COPY, DELETE, INSERT, UPDATE

__all__ = ["counts_of_copying", "counts_of_deleting", "merge_summary", "told_by_spark"]

_MERGED: Final = "spark.merge-into.num-target-rows-"
_TOLD: Final = ("copied", "deleted", "updated", "inserted")
_TOLD_BY_SPARK: Final = (
    *_TOLD, "matched-updated", "matched-deleted", "not-matched-by-source-updated", "not-matched-by-source-deleted",
)  # fmt: skip


def told_by_spark(jvm: Jvm, kind: str, summary: Iterable[Any]) -> dict[str, int]:
    """What Spark counted of a MERGE: 4.1 tells it the write, and newer ones have it in the plan that is carried out."""
    for one in summary:
        if jvm.simple_name(one).startswith("MergeSummary"):
            return {name: int(getattr(one, _method(name))()) for name in _TOLD_BY_SPARK}
    if kind != "merge" or jvm.version < (4, 2):
        return {}
    counted = merge_metrics(jvm)
    known = {name: counted.get(_method(name), -1) for name in _TOLD_BY_SPARK}
    return known if min(known.values()) >= 0 else {}


def _method(name: str) -> str:
    """The method that gives a number.

    >>> _method("matched-deleted")
    'numTargetRowsMatchedDeleted'
    """
    return re.sub(r"-(\w)", lambda found: found[1].upper(), f"num-target-rows-{name}")


def counts_of_deleting(numbers: Counter[int]) -> Counts:
    """The counts of a statement that deletes rows where they are.

    >>> counts_of_deleting(Counter({DELETE: 3}))
    Counts(deleted=3, updated=0, inserted=0, copied=0, unchanged=0)
    """
    return Counts(deleted=numbers[DELETE], updated=numbers[UPDATE], inserted=numbers[INSERT])


def counts_of_copying(
    kind: str, numbers: Counter[int], files: Iterable[FileTask], told: Mapping[str, int], *, tells_copies: bool
) -> Counts:
    """The counts of a statement that wrote files anew; `tells_copies` says that copied rows come with their number."""
    if told:
        return Counts(**{name: told[name] for name in _TOLD})
    if kind == "delete":
        copied, updated, inserted = numbers.total(), 0, 0
    elif tells_copies:
        copied, updated, inserted = numbers[COPY], numbers[UPDATE], numbers[INSERT]
    else:
        return Counts()
    before = _live_rows(files)
    return Counts(0 if before is None else before - copied - updated, updated, inserted, copied)


def _live_rows(files: Iterable[FileTask]) -> int | None:
    """How many rows files have, if metadata tells.

    How many deletes by value delete is not known, nor how many positions of a delete file are of these files.
    """
    total = 0
    for task in files:
        if not all(delete.is_deletion_vector for delete in task.deletes):
            return None
        total += task.file.record_count - sum(delete.record_count for delete in task.deletes)
    return total


def merge_summary(counts: Counts, told: Mapping[str, int]) -> dict[str, str]:
    """What Java's snapshots tell of a MERGE.

    >>> merge_summary(Counts(updated=2, copied=1), {})["spark.merge-into.num-target-rows-updated"]
    '2'
    """
    known = told or {name: getattr(counts, name) for name in _TOLD}
    return {_MERGED + name: str(count) for name, count in known.items()} if counts != Counts() else {}
