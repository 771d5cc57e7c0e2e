"""What a statement reads: the files whose rows may change, with all of their deletes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from floe.plan.scan_plan import ScanPlan
from floe.spark.scan.source import Source
from floe.spec.expressions.nodes import TRUE, Expression

__all__ = ["RowLevelSource"]


@dataclass(frozen=True)
class RowLevelSource(Source):
    """A table, as of the state that a statement changes."""

    all_deletes: bool = True
    copies: bool = False
    """Whether all rows of the files are wanted, because these will be written anew."""

    def plan(self, where: Expression, *, metrics: Collection[int] | None = ()) -> ScanPlan:
        """The files that may hold rows which pass a filter; a file that is copied is read as a whole."""
        plan = super().plan(where, metrics=metrics)
        return replace(plan, residuals=[TRUE] * len(plan.residuals)) if self.copies else plan
