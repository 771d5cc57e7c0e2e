"""Incremental scans: the rows that were appended from one snapshot to another."""

from __future__ import annotations

from collections.abc import Collection

from floe.plan.planner import Planner
from floe.plan.ranges import entries_of, manifests_of_snapshots, snapshots_in_range
from floe.plan.scan_plan import ScanPlan
from floe.spec.expressions.nodes import Expression
from floe.spec.manifests.entries import EntryStatus, ManifestContent
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.schema import Schema
from floe.storage.environment import Clock
from floe.storage.protocol import Storage

__all__ = ["plan_appends"]


def plan_appends(
    metadata: TableMetadata,
    storage: Storage,
    *,
    after: int | None = None,
    first: int | None = None,
    until: int | None = None,
    branch: str | None = None,
    schema: Schema | None = None,
    where: Expression | None = None,
    case_sensitive: bool = True,
    metrics: Collection[int] | None = (),
    workers: int | None = None,
    clock: Clock | None = None,
) -> ScanPlan:
    """The data files that the appends of a range of snapshots added, and that may hold rows passing `where`.

    The range begins after a snapshot or with a first one, and ends with `until` or the head of the branch. Snapshots
    that overwrite, delete or only rewrite files are passed over, and so are deletes that came later: the scan tells
    what was appended, not what became of it. Whoever needs every change asks for `plan_changelog`.

    >>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
    >>> from floe.storage.memory import MemoryStorage
    >>> metadata = TableMetadata(
    ...     format_version=2,
    ...     table_uuid=None,
    ...     location="memory:t",
    ...     last_updated_ms=0,
    ...     last_column_id=0,
    ...     schemas=(Schema(()),),
    ...     partition_specs=(UNPARTITIONED,),
    ... )
    >>> len(plan_appends(metadata, MemoryStorage()))
    0
    """
    history = snapshots_in_range(metadata, after=after, first=first, until=until, branch=branch)
    appends = [snapshot for snapshot in history if snapshot.operation == "append"]
    ids = {snapshot.snapshot_id for snapshot in appends}
    manifests = {
        manifest.manifest_path: manifest
        for listed in manifests_of_snapshots(appends, storage, workers=workers)
        for manifest in listed
        if manifest.content == ManifestContent.DATA and manifest.added_snapshot_id in ids
    }
    planner = Planner(metadata, storage, schema or metadata.schema, where, case_sensitive, metrics, workers, clock)
    return planner.plan(list(manifests.values()), entries_of(ids, EntryStatus.ADDED))
