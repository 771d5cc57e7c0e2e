"""Maintenance of a table: expiring snapshots, and statistics of columns.

Statistics are sketches of the distinct values of columns. They are computed from the rows of a snapshot, written to a
Puffin file, and registered in the table's metadata (spec: Table Statistics).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from floe.arrow.read.streams import ColumnSketches, countable_columns, read_plan
from floe.catalog.metadata_files import metadata_folder
from floe.commit.operations.expire import Expired, ExpirePlan, apply_expire, plan_expire
from floe.commit.operations.metadata_changes import UpdateStatistics
from floe.commit.target import CommitTarget, TableTarget
from floe.errors import CorruptFile, InvalidInput, NoSuchFile, UnsupportedFeature
from floe.formats.registry import default_registry
from floe.plan.scan_plan import ScanPlan
from floe.spec.codecs.puffin import THETA_SKETCH, Blob
from floe.spec.codecs.theta_sketches import NDV, ThetaSketch
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import StatisticsFile, TableMetadata, is_same_uuid
from floe.spec.schemas.column_projection import project
from floe.spec.schemas.schema import Schema, SchemaField
from floe.storage.locations import join
from floe.storage.protocol import Storage
from floe.table.scan import Scan

# expiring snapshots -----------------------------------------------------------------------------------------------


class Expiration:
    """The expiry of snapshots: `t.expire(older_than="7d").plan()` shows it, `.apply()` does it.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> t = lake.create_table("db.t", "id bigint")
    >>> print(t.expire(older_than="7d").plan())
    db.t: nothing expires; all 0 snapshots are kept
    """

    def __init__(
        self,
        target: TableTarget,
        *,
        older_than_ms: int | None,
        retain_last: int | None,
        snapshots: Iterable[int],
        clean_metadata: bool,
    ) -> None:
        self._target = target
        self._table_uuid = target.metadata.table_uuid
        self._older_than_ms = older_than_ms
        self._retain_last = retain_last
        self._snapshots = tuple(snapshots)
        self._clean_metadata = clean_metadata

    def __repr__(self) -> str:
        return f"<Expiration of {self._target.pointer.name}; plan() shows it, apply() does it>"

    def plan(self) -> ExpirePlan:
        """What would expire now. Nothing is changed; print the plan to see all of it."""
        return plan_expire(
            self._target.pointer,
            table_uuid=self._table_uuid,
            older_than_ms=self._older_than_ms,
            retain_last=self._retain_last,
            snapshot_ids=self._snapshots,
            clean_metadata=self._clean_metadata,
        )

    def apply(self, plan: ExpirePlan | None = None, *, delete_files: bool = True) -> Expired:
        """Expire what a plan lists, or what expires now, and delete the files that no other snapshot needs.

        Never more than was planned: snapshots that somebody needs meanwhile are kept. `delete_files=False` keeps all
        files.
        """
        plan = self.plan() if plan is None else plan
        if not is_same_uuid(self._table_uuid, plan.table_uuid):
            raise InvalidInput(
                f"the plan is for another table: {plan.table}, with uuid {plan.table_uuid}; this table has uuid "
                f"{self._table_uuid}",
                hint="make a plan of this table",
                table=self._target.pointer.name,
            )
        expired = apply_expire(self._target.pointer, plan, delete_files=delete_files)
        self._target.state = expired.state
        return expired


# statistics -------------------------------------------------------------------------------------------------------

Sketches = Mapping[int, ThetaSketch]
"""Sketches by the field ids of their columns."""


@dataclass(frozen=True)
class CountedColumns:
    """The columns of a snapshot whose distinct values are counted."""

    snapshot: Snapshot
    columns: tuple[SchemaField, ...]
    schema: Schema
    """The columns that are read for it."""

    plan: ScanPlan


def select_counted(
    scan: Scan, names: Iterable[str | Sequence[str]] | None, *, case_sensitive: bool = True
) -> CountedColumns | None:
    """The columns of a scan to count; None if the table has no snapshot, `InvalidInput` if no column can be counted."""
    columns = countable_columns(scan.table_schema, names, case_sensitive=case_sensitive)
    if not columns:
        raise InvalidInput("the table has no column whose distinct values can be counted")
    if scan.snapshot is None:
        return None
    schema = project(scan.table_schema, {entry.field.id for entry in columns})
    return CountedColumns(scan.snapshot, columns, schema, scan.plan())


def compute_sketches(counted: CountedColumns, storage: Storage) -> Sketches:
    """The sketches of columns; the rows are read by threads of this process."""
    sketches = ColumnSketches(counted.columns)
    for batch in read_plan(counted.plan, counted.schema, storage, ordered=False):
        sketches.add(batch)
    return sketches.by_field_id


def statistics_of(metadata: TableMetadata, snapshot: Snapshot | None) -> StatisticsFile | None:
    """The statistics file of a snapshot, if it has one."""
    if snapshot is None:
        return None
    return next((file for file in metadata.statistics if file.snapshot_id == snapshot.snapshot_id), None)


def register_sketches(target: CommitTarget, snapshot: Snapshot, sketches: Sketches) -> StatisticsFile:
    """Write sketches of a snapshot's columns to a new statistics file, with those of other columns, and register it."""
    metadata, storage = target.metadata, target.storage
    name = f"{snapshot.snapshot_id}-{target.environment.ids.uuid()}.stats"
    location = join(metadata_folder(metadata), name)
    existing = statistics_of(metadata, snapshot)
    with default_registry().write_puffin(storage, location) as file:
        for field_id, sketch in sketches.items():
            file.add(_blob(snapshot, field_id, sketch))
        for blob in () if existing is None else _other_blobs(storage, existing, sketches):
            file.add(blob)
    statistics = file.close().statistics(snapshot.snapshot_id)
    target.commit([UpdateStatistics([statistics])], [location])
    return statistics


def _blob(snapshot: Snapshot, field_id: int, sketch: ThetaSketch) -> Blob:
    return Blob(
        THETA_SKETCH,
        (field_id,),
        snapshot.snapshot_id,
        snapshot.sequence_number,
        sketch.serialize(),
        "zstd",
        {NDV: str(sketch.estimate)},
    )


def _other_blobs(storage: Storage, existing: StatisticsFile, sketches: Sketches) -> Iterator[Blob]:
    """The blobs of a statistics file that the new sketches do not replace; none if it cannot be read."""
    reader = default_registry().read_puffin(storage, existing.statistics_path, file_size=existing.file_size_in_bytes)
    try:
        blobs = [
            Blob(
                blob.type,
                blob.fields,
                blob.snapshot_id,
                blob.sequence_number,
                reader.read(blob),
                blob.compression_codec,
                blob.properties,
            )
            for blob in reader.blobs
            if blob.type != THETA_SKETCH or not set(blob.fields) <= set(sketches)
        ]
    except (CorruptFile, NoSuchFile, UnsupportedFeature):  # statistics can be computed again at any time
        return
    yield from blobs
