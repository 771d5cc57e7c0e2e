"""The two logs of a table: which snapshot was current when, and where earlier metadata lies (spec: Table Metadata)."""

from __future__ import annotations

from floe.spec.metadata.records import Int64, Record

__all__ = ["MetadataLogEntry", "SnapshotLogEntry"]


class SnapshotLogEntry(Record, frozen=True, kw_only=True):
    """From this time on the snapshot was the table's current one.

    >>> SnapshotLogEntry(timestamp_ms=1515100955770, snapshot_id=1).snapshot_id
    1
    """

    timestamp_ms: Int64
    snapshot_id: Int64


class MetadataLogEntry(Record, frozen=True, kw_only=True):
    """An earlier metadata file, and when it was last updated.

    >>> MetadataLogEntry(
    ...     timestamp_ms=1515100955770, metadata_file="s3://bucket/t/metadata/v1.metadata.json"
    ... ).timestamp_ms
    1515100955770
    """

    timestamp_ms: Int64
    metadata_file: str
