"""One JSON object for each update of the REST protocol's schema `TableUpdate`, and the value it stands for."""

from typing import Any

from floe.spec.metadata.snapshots import Snapshot, SnapshotRef
from floe.spec.metadata.table_metadata import BlobMetadata, EncryptionKey, PartitionStatisticsFile, StatisticsFile
from floe.spec.metadata.updates import (
    AddEncryptionKey,
    AddPartitionSpec,
    AddSchema,
    AddSnapshot,
    AddSortOrder,
    AssignUuid,
    RemoveEncryptionKey,
    RemovePartitionSpecs,
    RemovePartitionStatistics,
    RemoveProperties,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetLocation,
    SetPartitionStatistics,
    SetProperties,
    SetSnapshotRef,
    SetStatistics,
    TableUpdate,
    UpgradeFormatVersion,
)
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import DAY, IDENTITY
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import NullOrder, SortDirection, SortField, SortOrder
from floe.spec.types import LONG, Field
from helpers.metadata_samples import LOCATION, UUID

SNAPSHOT_JSON = {
    "sequence-number": 3,
    "snapshot-id": 30,
    "parent-snapshot-id": 20,
    "timestamp-ms": 1515100955770,
    "summary": {"operation": "append", "added-records": "4"},
    "manifest-list": f"{LOCATION}/metadata/snap-30.avro",
    "schema-id": 1,
    "first-row-id": 100,
    "added-rows": 4,
    "key-id": "k1",
}
STATISTICS_JSON = {
    "snapshot-id": 30,
    "statistics-path": f"{LOCATION}/metadata/30.stats",
    "file-size-in-bytes": 413,
    "file-footer-size-in-bytes": 42,
    "blob-metadata": [
        {
            "type": "apache-datasketches-theta-v1",
            "snapshot-id": 30,
            "sequence-number": 3,
            "fields": [1],
            "properties": {"ndv": "9"},
        }
    ],
}
STATISTICS = StatisticsFile(
    snapshot_id=30,
    statistics_path=f"{LOCATION}/metadata/30.stats",
    file_size_in_bytes=413,
    file_footer_size_in_bytes=42,
    blob_metadata=(
        BlobMetadata(
            type="apache-datasketches-theta-v1",
            snapshot_id=30,
            sequence_number=3,
            fields=(1,),
            properties={"ndv": "9"},
        ),
    ),
)

SAMPLES: dict[str, tuple[dict[str, Any], TableUpdate]] = {
    json["action"]: (json, value)
    for json, value in [
        ({"action": "assign-uuid", "uuid": UUID}, AssignUuid(UUID)),
        ({"action": "upgrade-format-version", "format-version": 3}, UpgradeFormatVersion(3)),
        (
            {
                "action": "add-schema",
                "schema": {
                    "type": "struct",
                    "schema-id": 1,
                    "fields": [{"id": 4, "name": "n", "required": False, "type": "long"}],
                },
                "last-column-id": 5,
            },
            AddSchema(Schema((Field(4, "n", LONG),), 1), 5),
        ),
        ({"action": "set-current-schema", "schema-id": -1}, SetCurrentSchema(-1)),
        (
            {
                "action": "add-spec",
                "spec": {
                    "spec-id": 1,
                    "fields": [{"name": "ts_day", "transform": "day", "source-id": 2, "field-id": 1000}],
                },
            },
            AddPartitionSpec(PartitionSpec((PartitionField((2,), 1000, "ts_day", DAY),), 1)),
        ),
        ({"action": "set-default-spec", "spec-id": 1}, SetDefaultSpec(1)),
        (
            {
                "action": "add-sort-order",
                "sort-order": {
                    "order-id": 1,
                    "fields": [
                        {"transform": "identity", "source-id": 1, "direction": "desc", "null-order": "nulls-last"}
                    ],
                },
            },
            AddSortOrder(SortOrder((SortField((1,), IDENTITY, SortDirection.DESC, NullOrder.NULLS_LAST),), 1)),
        ),
        ({"action": "set-default-sort-order", "sort-order-id": 1}, SetDefaultSortOrder(1)),
        (
            {"action": "add-snapshot", "snapshot": SNAPSHOT_JSON},
            AddSnapshot(
                Snapshot(
                    sequence_number=3,
                    snapshot_id=30,
                    parent_snapshot_id=20,
                    timestamp_ms=1515100955770,
                    summary={"operation": "append", "added-records": "4"},
                    manifest_list=f"{LOCATION}/metadata/snap-30.avro",
                    schema_id=1,
                    first_row_id=100,
                    added_rows=4,
                    key_id="k1",
                )
            ),
        ),
        (
            {
                "action": "set-snapshot-ref",
                "ref-name": "audit",
                "snapshot-id": 30,
                "type": "branch",
                "min-snapshots-to-keep": 2,
                "max-snapshot-age-ms": 1000,
                "max-ref-age-ms": 2000,
            },
            SetSnapshotRef(
                "audit",
                SnapshotRef(
                    snapshot_id=30,
                    type="branch",
                    min_snapshots_to_keep=2,
                    max_snapshot_age_ms=1000,
                    max_ref_age_ms=2000,
                ),
            ),
        ),
        ({"action": "remove-snapshots", "snapshot-ids": [30, 20]}, RemoveSnapshots((30, 20))),
        ({"action": "remove-snapshot-ref", "ref-name": "audit"}, RemoveSnapshotRef("audit")),
        ({"action": "set-location", "location": LOCATION}, SetLocation(LOCATION)),
        ({"action": "set-properties", "updates": {"owner": "ana"}}, SetProperties({"owner": "ana"})),
        ({"action": "remove-properties", "removals": ["owner"]}, RemoveProperties(("owner",))),
        (
            {"action": "set-statistics", "snapshot-id": 30, "statistics": STATISTICS_JSON},
            SetStatistics(STATISTICS),
        ),
        ({"action": "remove-statistics", "snapshot-id": 30}, RemoveStatistics(30)),
        (
            {
                "action": "set-partition-statistics",
                "partition-statistics": {
                    "snapshot-id": 30,
                    "statistics-path": f"{LOCATION}/metadata/30.parquet",
                    "file-size-in-bytes": 43,
                },
            },
            SetPartitionStatistics(
                PartitionStatisticsFile(
                    snapshot_id=30, statistics_path=f"{LOCATION}/metadata/30.parquet", file_size_in_bytes=43
                )
            ),
        ),
        ({"action": "remove-partition-statistics", "snapshot-id": 30}, RemovePartitionStatistics(30)),
        ({"action": "remove-partition-specs", "spec-ids": [0, 2]}, RemovePartitionSpecs((0, 2))),
        ({"action": "remove-schemas", "schema-ids": [0]}, RemoveSchemas((0,))),
        (
            {
                "action": "add-encryption-key",
                "encryption-key": {
                    "key-id": "k1",
                    "encrypted-key-metadata": "aWNlYmVyZwo=",
                    "encrypted-by-id": "k0",
                    "properties": {"a": "b"},
                },
            },
            AddEncryptionKey(
                EncryptionKey(
                    key_id="k1",
                    encrypted_key_metadata="aWNlYmVyZwo=",
                    encrypted_by_id="k0",
                    properties={"a": "b"},
                )
            ),
        ),
        ({"action": "remove-encryption-key", "key-id": "k1"}, RemoveEncryptionKey("k1")),
    ]
}
