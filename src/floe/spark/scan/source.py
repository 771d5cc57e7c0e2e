"""What a read reads: a table at one state."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from floe.plan.incremental import plan_appends
from floe.plan.scan import plan_scan
from floe.plan.scan_plan import ScanPlan
from floe.plan.snapshots import choose_snapshot
from floe.plan.splits import SplitSettings
from floe.spark.names import AsOf
from floe.spark.scan.splits import splits_for
from floe.spark.shipping import shipped
from floe.spec.expressions.nodes import Expression
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.schema import Schema
from floe.storage.protocol import Storage
from floe.table.table import Table

__all__ = ["Source", "selects_whole_files"]


@dataclass(frozen=True)
class Source:
    """A table, as of some state, in the columns of that state."""

    name: str
    table: Table
    as_of: AsOf
    schema: Schema
    splits: Mapping[str, int] = field(default_factory=dict)
    """Of the settings of `floe.plan.splits`, those that the read has itself."""

    since: int | None = None
    """Only what was appended after this snapshot is read, if there is one."""

    options: Mapping[str, str] = field(default_factory=dict)
    """All options of the read, by their names in small letters."""

    session: Mapping[str, str] = field(default_factory=dict)
    """The settings of Iceberg that the session had, by what follows `spark.sql.iceberg.`."""

    all_deletes: bool = False
    """Whether files come with all of their deletes, also those that cannot matter to the rows that are asked for."""

    @property
    def key(self) -> Any:
        """What makes two sources the same."""
        return (self.table.uuid, self.table.metadata_location, self.as_of, self.since)

    @property
    def tells_aggregates(self) -> bool:
        """Whether counts, minima and maxima may be told from metadata."""
        asked = self.options.get("aggregate-push-down-enabled") or self.session.get("aggregate-push-down.enabled")
        return asked is None or asked.lower() == "true"

    def split_settings(self, total: int, parallelism: int) -> SplitSettings:
        """How files of so many bytes are cut up for so many cores, as the read, the session and the table say."""
        properties = dict(self.table.metadata.properties)
        if "read.adaptive-split-size.enabled" in self.session:
            properties["read.split.adaptive-size.enabled"] = self.session["read.adaptive-split-size.enabled"].lower()
        asked = self.session.get("read.adaptive-split-size.parallelism")
        return splits_for(properties, total, parallelism if asked is None else int(asked), self.splits)

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""
        return self.table.storage

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that is read; None while the table has none."""
        return choose_snapshot(
            self.table.metadata,
            snapshot=self.as_of.snapshot_id,
            ref=self.as_of.ref,
            as_of_ms=self.as_of.timestamp_ms,
        )

    @cached_property
    def shipped_metadata(self) -> TableMetadata:
        """What a reader in an executor needs to know of the table."""
        return shipped(self.table.metadata)

    def plan(self, where: Expression, *, metrics: Collection[int] | None = ()) -> ScanPlan:
        """The files that may hold rows which pass a filter."""
        if self.since is not None:
            return plan_appends(
                self.table.metadata,
                self.storage,
                after=self.since,
                until=None if self.snapshot is None else self.snapshot.snapshot_id,
                schema=self.schema,
                where=where,
                metrics=metrics,
            )
        return plan_scan(
            self.table.metadata,
            self.storage,
            snapshot=self.snapshot,
            schema=self.schema,
            where=where,
            metrics=metrics,
            all_deletes=self.all_deletes,
        )


def selects_whole_files(plan: ScanPlan) -> bool:
    """Whether all rows of all files of a plan pass its filter."""
    return all(bool((chunk.settled | plan.without_filter(chunk)).all()) for chunk in plan.chunks)
