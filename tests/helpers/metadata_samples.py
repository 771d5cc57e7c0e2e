"""Small tables and snapshots to apply updates to."""

from typing import Any

from floe.spec.metadata.creation import new_table_metadata
from floe.spec.metadata.metadata_builder import apply
from floe.spec.metadata.snapshots import Snapshot, SnapshotRef
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import AddSnapshot, SetSnapshotRef, TableUpdate
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import DAY, Bucket
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, STRING, TIMESTAMP, Field

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
OTHER_UUID = "fb072c92-a02b-11e9-ae9c-1bb7bc9eca94"
LOCATION = "s3://bucket/warehouse/db/t"
START_MS = 1_700_000_000_000
MINUTE_MS = 60_000

SCHEMA = Schema((Field(1, "id", LONG, required=True), Field(2, "ts", TIMESTAMP), Field(3, "name", STRING)))
BY_DAY = PartitionSpec((PartitionField((2,), 1000, "ts_day", DAY),))
BY_BUCKET = PartitionSpec((PartitionField((1,), 1001, "id_bucket", Bucket(4)),))


def table(format_version: int = 2, **options: Any) -> TableMetadata:
    """An empty table, partitioned by day."""
    return new_table_metadata(
        SCHEMA,
        options.pop("spec", BY_DAY),
        location=LOCATION,
        uuid=UUID,
        now_ms=START_MS,
        format_version=format_version,
        **options,
    )


def snapshot(metadata: TableMetadata, snapshot_id: int, **options: Any) -> Snapshot:
    """A snapshot that may be added to a table: a child of the current one unless told otherwise."""
    lineage = {"first_row_id": metadata.next_row_id, "added_rows": 10} if metadata.format_version >= 3 else {}
    fields: dict[str, Any] = {
        "snapshot_id": snapshot_id,
        "parent_snapshot_id": metadata.current_snapshot_id,
        "sequence_number": metadata.next_sequence_number,
        "timestamp_ms": metadata.last_updated_ms + 1000,
        "manifest_list": f"{LOCATION}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema_id": metadata.current_schema_id,
        **lineage,
        **options,
    }
    return Snapshot(**fields)


def branch(snapshot_id: int, **retention: int) -> SnapshotRef:
    return SnapshotRef(snapshot_id=snapshot_id, type="branch", **retention)


def tag(snapshot_id: int, **retention: int) -> SnapshotRef:
    return SnapshotRef(snapshot_id=snapshot_id, type="tag", **retention)


def commit(metadata: TableMetadata, snapshot_id: int, *, to: str = "main", **options: Any) -> TableMetadata:
    """The table after a commit of one snapshot to a branch."""
    head = metadata.refs.get(to)
    options.setdefault("parent_snapshot_id", head.snapshot_id if head else metadata.current_snapshot_id)
    new = snapshot(metadata, snapshot_id, **options)
    return changed(metadata, AddSnapshot(new), SetSnapshotRef(to, branch(snapshot_id)), now_ms=new.timestamp_ms)


def changed(metadata: TableMetadata | None, *updates: TableUpdate, now_ms: int | None = None) -> TableMetadata:
    """The table after updates, a second later unless told otherwise."""
    if now_ms is None:
        now_ms = metadata.last_updated_ms + 1000 if metadata else START_MS
    return apply(metadata, updates, now_ms=now_ms)
