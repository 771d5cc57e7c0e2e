"""The tables that need nothing but a table's metadata: snapshots, history, refs and metadata_log_entries."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import pyarrow as pa

from floe.formats.arrow_types import arrow_schema
from floe.plan.metadata_tables.schemas import HISTORY, METADATA_LOG_ENTRIES, REFS, SNAPSHOTS
from floe.spec.metadata.history import ancestors
from floe.spec.metadata.snapshots import OPERATION
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.schemas.schema import Schema

__all__ = ["history", "metadata_log_entries", "refs", "snapshots"]

_MICROS_PER_MILLI = 1000


def _table(schema: Schema, columns: Mapping[str, list[Any]]) -> pa.Table:
    wanted = arrow_schema(schema)
    return pa.Table.from_arrays([pa.array(columns[field.name], field.type) for field in wanted], schema=wanted)


def snapshots(metadata: TableMetadata) -> pa.Table:
    """One row for each snapshot; the summary is shown without the operation, which has a column of its own."""
    found = metadata.snapshots
    summaries = [snapshot.summary for snapshot in found]
    return _table(
        SNAPSHOTS,
        {
            "committed_at": [snapshot.timestamp_ms * _MICROS_PER_MILLI for snapshot in found],
            "snapshot_id": [snapshot.snapshot_id for snapshot in found],
            "parent_id": [snapshot.parent_snapshot_id for snapshot in found],
            "operation": [snapshot.operation for snapshot in found],
            "manifest_list": [snapshot.manifest_list for snapshot in found],
            "summary": [
                None if summary is None else [pair for pair in summary.items() if pair[0] != OPERATION]
                for summary in summaries
            ],
        },
    )


def history(metadata: TableMetadata) -> pa.Table:
    """One row for each time that another snapshot became current, rollbacks included."""
    log, known = metadata.snapshot_log, metadata.snapshots_by_id
    current = {snapshot.snapshot_id for snapshot in ancestors(metadata, metadata.current_snapshot_id)}
    return _table(
        HISTORY,
        {
            "made_current_at": [entry.timestamp_ms * _MICROS_PER_MILLI for entry in log],
            "snapshot_id": [entry.snapshot_id for entry in log],
            "parent_id": [
                known[entry.snapshot_id].parent_snapshot_id if entry.snapshot_id in known else None for entry in log
            ],
            "is_current_ancestor": [entry.snapshot_id in current for entry in log],
        },
    )


def refs(metadata: TableMetadata) -> pa.Table:
    """One row for each branch and tag."""
    found = metadata.refs.values()
    return _table(
        REFS,
        {
            "name": list(metadata.refs),
            "type": [ref.type.upper() for ref in found],
            "snapshot_id": [ref.snapshot_id for ref in found],
            "max_reference_age_in_ms": [ref.max_ref_age_ms for ref in found],
            "min_snapshots_to_keep": [ref.min_snapshots_to_keep for ref in found],
            "max_snapshot_age_in_ms": [ref.max_snapshot_age_ms for ref in found],
        },
    )


def metadata_log_entries(metadata: TableMetadata, metadata_location: str) -> pa.Table:
    """One row for each metadata file that the log still has and one for the newest, with what was current then."""
    files = [(entry.timestamp_ms, entry.metadata_file) for entry in metadata.metadata_log]
    files.append((metadata.last_updated_ms, metadata_location))
    # Of the snapshot log the last entry that is not later counts. Clocks go wrong, so the log may be out of order; the
    # lowest time from each entry on never falls, and can be searched.
    log = metadata.snapshot_log
    lowest = list(accumulate((entry.timestamp_ms for entry in reversed(log)), min))[::-1]
    places = [bisect_right(lowest, time) - 1 for time, _ in files]
    ids = [None if place < 0 else log[place].snapshot_id for place in places]
    latest = [None if found is None else metadata.snapshots_by_id.get(found) for found in ids]
    return _table(
        METADATA_LOG_ENTRIES,
        {
            "timestamp": [time * _MICROS_PER_MILLI for time, _ in files],
            "file": [location for _, location in files],
            "latest_snapshot_id": ids,
            "latest_schema_id": [None if snapshot is None else snapshot.schema_id for snapshot in latest],
            "latest_sequence_number": [None if snapshot is None else snapshot.sequence_number for snapshot in latest],
        },
    )
