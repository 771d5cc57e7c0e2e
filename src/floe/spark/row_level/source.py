"""What a statement reads: the files whose rows may change, with all of their deletes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from floe.plan.scan import plan_scan
from floe.plan.scan_plan import ScanPlan
from floe.spark.scan.source import Source
from floe.spec.expressions.nodes import TRUE, Expression

__all__ = ["RowLevelSource"]


@dataclass(frozen=True)
class RowLevelSource(Source):
    """A table, as of the state that a statement changes."""

    copies: bool = False
    """Whether all rows of the files are wanted, because these will be written anew."""

    def plan(self, where: Expression, *, metrics: Collection[int] | None = ()) -> ScanPlan:
        """The files that may hold rows which pass a filter; a file that is copied is read as a whole."""
        plan = plan_scan(
            self.table.metadata,
            self.storage,
            snapshot=self.snapshot,
            schema=self.schema,
            where=where,
            metrics=metrics,
            all_deletes=True,
        )
        return replace(plan, residuals=[TRUE] * len(plan.residuals)) if self.copies else plan
