"""Metadata while updates are applied to it: how it stands after each, and what they added and removed so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata

__all__ = ["NO_ID", "Draft", "blank_metadata"]

NO_ID = -1
"""The id of what a table that is being created does not have yet."""


@dataclass
class Draft:
    """The metadata as the updates so far have made it.

    `base` is what they are applied to, None for a table that is being created. The metadata itself is never changed in
    place: `change` puts another in its stead. Snapshots are kept by id beside it, for there may be very many of them,
    and become a part of it at the end.
    """

    base: TableMetadata | None
    metadata: TableMetadata
    now_ms: int
    last_schema_id: int | None = None
    last_spec_id: int | None = None
    last_order_id: int | None = None
    added_snapshots: set[int] = field(default_factory=set)
    removed_snapshots: set[int] = field(default_factory=set)
    removed_schemas: set[int] = field(default_factory=set)
    removed_keys: set[str] = field(default_factory=set)
    set_properties: set[str] = field(default_factory=set)

    @cached_property
    def snapshots(self) -> dict[int, Snapshot]:
        """The snapshots by id, in the table's order; may be changed."""
        return dict(self.metadata.snapshots_by_id)

    @cached_property
    def parent_ids(self) -> set[int | None]:
        """The ids of the parents of all snapshots that the table had or got."""
        return {snapshot.parent_snapshot_id for snapshot in self.snapshots.values()}

    def outcome(self) -> TableMetadata:
        """The metadata with its snapshots."""
        if self.added_snapshots or self.removed_snapshots:
            self.change(snapshots=tuple(self.snapshots.values()))
        return self.metadata

    def change(self, **fields: Any) -> None:
        """Put metadata with other values of some fields in the place of what is there."""
        self.metadata = replace(self.metadata, **fields)


def blank_metadata(format_version: int, now_ms: int) -> TableMetadata:
    """What a table is made from by updates alone: nothing but a format version."""
    return TableMetadata(
        format_version=format_version,
        table_uuid=None,
        location="",
        last_updated_ms=now_ms,
        last_column_id=0,
        schemas=(),
        current_schema_id=NO_ID,
        partition_specs=(),
        default_spec_id=NO_ID,
        sort_orders=(),
        default_sort_order_id=NO_ID,
        next_row_id=0 if format_version >= 3 else None,
    )
