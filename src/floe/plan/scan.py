"""Planning a scan: which files of a snapshot hold the rows that a filter asks for, and what to do with each.

Manifests are left out by their summaries, files by their partitions and metrics, deletes by partition, path, age and
bounds (spec: Scan Planning). All of it happens in columns; an object is made for a file when its task is asked for.
"""

from __future__ import annotations

from collections.abc import Collection

from floe.plan.manifest_lists import manifests_of_snapshot
from floe.plan.planner import Planner
from floe.plan.scan_plan import ScanPlan
from floe.spec.expressions.nodes import Expression
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.schema import Schema
from floe.storage.environment import Clock
from floe.storage.protocol import Storage

__all__ = ["plan_scan"]


def plan_scan(
    metadata: TableMetadata,
    storage: Storage,
    *,
    snapshot: Snapshot | None,
    schema: Schema | None = None,
    where: Expression | None = None,
    case_sensitive: bool = True,
    metrics: Collection[int] | None = (),
    workers: int | None = None,
    clock: Clock | None = None,
    all_deletes: bool = False,
) -> ScanPlan:
    """The files of a snapshot that may hold rows passing `where`; an empty plan for no snapshot.

    `schema` is the one that the read uses, by default the table's current one, or that of the snapshot if it is not the
    current one. `metrics` are the ids of columns whose metrics the files of the plan keep, and None is all columns; a
    plan that nobody asks for metrics stays small. `workers` is how many threads read manifests; by default that depends
    on their number, and 1 reads everything in this thread. `all_deletes` keeps the deletes of rows that do not pass
    too: for whoever reads the chosen files as a whole, to write them anew.

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
    >>> plan = plan_scan(metadata, MemoryStorage(), snapshot=metadata.current_snapshot)
    >>> len(plan), list(plan.tasks())
    (0, [])
    """
    if schema is None:
        is_past = snapshot is not None and snapshot.snapshot_id != metadata.current_snapshot_id
        schema = metadata.schema_for(snapshot) if snapshot is not None and is_past else metadata.schema
    planner = Planner(metadata, storage, schema, where, case_sensitive, metrics, workers, clock)
    manifests = [] if snapshot is None else manifests_of_snapshot(snapshot, storage)
    return planner.plan(manifests, index=planner.every_delete(manifests) if all_deletes else None)
