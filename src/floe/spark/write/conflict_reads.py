"""What a statement reads of the very table that it changes: it rests on these rows, and must not lose what others do.

`INSERT … SELECT` from the same table, a MERGE whose source is made from it, a DELETE by a subquery on it. Reads of the
past and of other branches do not count, for nobody changes them meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from floe.commit.change import BLIND, Reads
from floe.commit.target import CommitTarget
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plans import own_parts
from floe.spark.read.source import Source
from floe.spec.expressions.nodes import TRUE, Expression, or_
from floe.spec.metadata.snapshots import MAIN_BRANCH, Snapshot
from floe.table.table import Table


@dataclass(frozen=True, slots=True)
class OwnReads:
    """The filters of some reads of a table, and the states that they found."""

    filters: tuple[Expression, ...] = ()
    snapshots: tuple[Snapshot | None, ...] = ()

    def oldest(self, *others: Snapshot | None) -> int | None:
        """The id of the oldest state; None if the table was empty."""
        known = [one for one in (*self.snapshots, *others) if one is not None]
        if len(known) < len(self.snapshots) + len(others):
            return None
        return min(known, key=lambda one: one.sequence_number).snapshot_id


def own_reads(jvm: Jvm, plan: Any, table: Table, branch: str, besides: Iterable[Source] = ()) -> OwnReads:
    """The reads of a branch of a table in an optimized plan and its subqueries."""
    filters, snapshots = [], []
    known = {id(source) for source in besides}
    for scan in own_parts(jvm, plan):
        source = getattr(scan, "source", None)
        if isinstance(source, Source) and id(source) not in known and _is_of(source, table, branch):
            filters.append(getattr(scan, "looked_at", TRUE))
            snapshots.append(source.snapshot)
    return OwnReads(tuple(filters), tuple(snapshots))


def _is_of(source: Source, table: Table, branch: str) -> bool:
    if source.table.uuid != table.uuid or source.as_of.snapshot_id is not None or source.as_of.timestamp_ms is not None:
        return False
    return (source.as_of.ref or MAIN_BRANCH) == branch


def reads_of_plan(jvm: Jvm, plan: Any, table: Table, target: CommitTarget) -> Reads:
    """What a write of the rows of an optimized plan rests on."""
    found = own_reads(jvm, plan, table, target.branch)
    if not found.filters:
        return BLIND
    return Reads(found.oldest(), filter=or_(*found.filters), schema_id=table.metadata.current_schema_id)


def reads_of_frame(jvm: Jvm, rows: DataFrame, table: Table, target: CommitTarget) -> Reads:
    """What a write of the rows of a data frame rests on; it is only optimized for that if the table is in it."""
    execution = rows._jdf.queryExecution()
    named = [getattr(found, "table", None) for found in own_parts(jvm, execution.analyzed())]
    if not any(isinstance(one, Table) and one.uuid == table.uuid for one in named):
        return BLIND
    return reads_of_plan(jvm, execution.optimizedPlan(), table, target)
