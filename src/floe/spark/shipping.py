"""What goes to executors with every task: kept small."""

from __future__ import annotations

from dataclasses import replace

from floe.spec.metadata.table_metadata import TableMetadata

__all__ = ["shipped"]


def shipped(metadata: TableMetadata) -> TableMetadata:
    """What readers and writers in executors need to know of a table: its layout, not its history."""
    return replace(
        metadata,
        snapshots=(),
        refs={},
        snapshot_log=(),
        metadata_log=(),
        current_snapshot_id=None,
        statistics=(),
        partition_statistics=(),
    )
