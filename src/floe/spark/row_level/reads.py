"""What a statement rests on besides the rows that it may change: its own table, read in a source or a subquery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from floe.commit.footprint import Reads
from floe.spark.bridge.jvm import Jvm
from floe.spark.bridge.plan_scans import scans_of
from floe.spark.row_level.statement import Statement
from floe.spark.scan.source import Source
from floe.spec.expressions.nodes import TRUE, Expression, or_
from floe.spec.metadata.snapshots import Snapshot

__all__ = ["OtherReads", "other_reads"]


@dataclass(frozen=True, slots=True)
class OtherReads:
    """Reads of the same table by other parts of a statement."""

    filters: tuple[Expression, ...] = ()
    snapshots: tuple[Snapshot | None, ...] = ()

    def reads(self, statement: Statement, files: Any = ()) -> Reads:
        """All that a statement rests on.

        What a MERGE does with a row depends on others; so it is if the table is read to decide upon its own rows.
        """
        snapshots = [statement.base.head, *self.snapshots]
        oldest = None if None in snapshots else min(filter(None, snapshots), key=lambda one: one.sequence_number)
        return Reads(
            None if oldest is None else oldest.snapshot_id,
            filter=or_(statement.where, *self.filters),
            files=frozenset(files),
            row_wise=statement.kind != "merge" and not self.filters,
            schema_id=statement.base.schema_id,
        )


def other_reads(jvm: Jvm, query: Any, statement: Statement) -> OtherReads:
    """The reads of the table in the plan of a statement, but for the rows that it may change."""
    filters, snapshots = [], []
    for scan in scans_of(jvm, query):
        source = getattr(scan, "source", None)
        if not isinstance(source, Source) or source.table.uuid != statement.table.uuid or source is statement.source:
            continue
        if source.as_of.snapshot_id is None and source.as_of.timestamp_ms is None:  # the past does not change
            filters.append(getattr(scan, "looked_at", TRUE))
            snapshots.append(source.snapshot)
    return OtherReads(tuple(filters), tuple(snapshots))
