"""A table's metadata as a value: schemas, partition specs, sort orders, snapshots, refs, logs (spec: Table Metadata).

The values are immutable; a change makes a new one (`floe.spec.metadata.apply`). JSON is in
`floe.spec.metadata.table_metadata_json`, the rules that hold between the parts in `floe.spec.metadata.checks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from floe.errors import InvalidMetadata, NoSuchRef, NoSuchSnapshot
from floe.spec.metadata.encryption import EncryptionKey
from floe.spec.metadata.logs import MetadataLogEntry, SnapshotLogEntry
from floe.spec.metadata.records import ListJson
from floe.spec.metadata.refs import MAIN_BRANCH, SnapshotRef
from floe.spec.metadata.snapshots import Snapshot, check_snapshot_id
from floe.spec.metadata.statistics import PartitionStatisticsFile, StatisticsFile
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.schema import Schema
from floe.spec.sorting import UNSORTED, SortOrder
from floe.spec.values.civil_time import millis_text

__all__ = ["LATEST_FORMAT_VERSION", "TableMetadata"]

LATEST_FORMAT_VERSION: Final = 3
"""The newest version of the format that Floe reads and writes."""

_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class TableMetadata:
    """Everything a table's metadata file says.

    >>> from floe.spec.types import Field, LONG
    >>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
    >>> metadata = TableMetadata(
    ...     format_version=2,
    ...     table_uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
    ...     location="s3://bucket/t",
    ...     last_updated_ms=1602638573590,
    ...     last_column_id=1,
    ...     schemas=(Schema((Field(1, "x", LONG),)),),
    ...     partition_specs=(UNPARTITIONED,),
    ... )
    >>> metadata.schema.field("x").type, metadata.spec.is_unpartitioned, metadata.current_snapshot
    (LONG, True, None)
    """

    format_version: int
    table_uuid: str | None
    """None only in tables of format version 1 that old writers made."""

    location: str
    last_sequence_number: int = 0
    last_updated_ms: int
    last_column_id: int
    schemas: tuple[Schema, ...]
    current_schema_id: int = 0
    partition_specs: tuple[PartitionSpec, ...]
    default_spec_id: int = 0
    last_partition_id: int = 999
    sort_orders: tuple[SortOrder, ...] = (UNSORTED,)
    default_sort_order_id: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    current_snapshot_id: int | None = None
    snapshots: tuple[Snapshot, ...] = ()
    snapshot_log: tuple[SnapshotLogEntry, ...] = ()
    metadata_log: tuple[MetadataLogEntry, ...] = ()
    refs: Mapping[str, SnapshotRef] = field(default_factory=dict)
    """Branches and tags by name; has `main` whenever there is a current snapshot."""

    statistics: tuple[StatisticsFile, ...] = ()
    partition_statistics: tuple[PartitionStatisticsFile, ...] = ()
    next_row_id: int | None = None
    """Format version 3: higher than every row id given so far. None in earlier versions."""

    encryption_keys: tuple[EncryptionKey, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The keys of the document that this version of Floe does not know."""

    snapshots_json: ListJson = field(default_factory=ListJson, repr=False, compare=False)
    snapshot_log_json: ListJson = field(default_factory=ListJson, repr=False, compare=False)
    """What is known of the JSON of these two lists, which may be very long, for writing them again."""

    # what is current -----------------------------------------------------------------------------------------

    @cached_property
    def schema(self) -> Schema:
        """The current schema."""
        return self.schema_by_id(self.current_schema_id)

    @cached_property
    def spec(self) -> PartitionSpec:
        """The partition spec that writers use."""
        return self.spec_by_id(self.default_spec_id)

    @cached_property
    def sort_order(self) -> SortOrder:
        """The sort order that writers use."""
        return self.sort_order_by_id(self.default_sort_order_id)

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The snapshot that readers see, or None in a table without one."""
        return None if self.current_snapshot_id is None else self.snapshot(self.current_snapshot_id)

    @property
    def next_sequence_number(self) -> int:
        """The sequence number of the next snapshot; format version 1 has none and stays at 0."""
        return self.last_sequence_number + 1 if self.format_version > 1 else 0

    # found by id or name -------------------------------------------------------------------------------------

    @cached_property
    def schemas_by_id(self) -> Mapping[int, Schema]:
        """The schemas by their ids."""
        return {schema.schema_id: schema for schema in self.schemas}

    @cached_property
    def specs_by_id(self) -> Mapping[int, PartitionSpec]:
        """The partition specs by their ids."""
        return {spec.spec_id: spec for spec in self.partition_specs}

    @cached_property
    def sort_orders_by_id(self) -> Mapping[int, SortOrder]:
        """The sort orders by their ids; 0 is always there, unsorted."""
        return {UNSORTED.order_id: UNSORTED} | {order.order_id: order for order in self.sort_orders}

    @cached_property
    def snapshots_by_id(self) -> Mapping[int, Snapshot]:
        """The snapshots by their ids."""
        return {snapshot.snapshot_id: snapshot for snapshot in self.snapshots}

    def schema_by_id(self, schema_id: int) -> Schema:
        """The schema of that id."""
        try:
            return self.schemas_by_id[schema_id]
        except KeyError:
            raise InvalidMetadata(f"the table has no schema with id {schema_id}", path=".schemas") from None

    def spec_by_id(self, spec_id: int) -> PartitionSpec:
        """The partition spec of that id."""
        try:
            return self.specs_by_id[spec_id]
        except KeyError:
            raise InvalidMetadata(
                f"the table has no partition spec with id {spec_id}", path=".partition-specs"
            ) from None

    def sort_order_by_id(self, order_id: int) -> SortOrder:
        """The sort order of that id."""
        try:
            return self.sort_orders_by_id[order_id]
        except KeyError:
            raise InvalidMetadata(f"the table has no sort order with id {order_id}", path=".sort-orders") from None

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """The snapshot of that id."""
        try:
            return self.snapshots_by_id[snapshot_id]
        except KeyError:
            check_snapshot_id(snapshot_id)
            raise NoSuchSnapshot(
                f"the table has no snapshot {snapshot_id}",
                hint=self._newest_told() if self.snapshots else "the table has no snapshots at all",
            ) from None

    def _newest_told(self) -> str:
        newest = sorted(self.snapshots, key=lambda one: one.timestamp_ms, reverse=True)[:_SHOWN]
        told = ", ".join(f"{one.snapshot_id} ({millis_text(one.timestamp_ms)})" for one in newest)
        older = len(self.snapshots) - len(newest)
        return f"it may have expired; there are {told}{f' and {older} older' if older else ''}"

    def ref(self, name: str) -> SnapshotRef:
        """The branch or tag of that name."""
        try:
            return self.refs[name]
        except KeyError:
            hint = f"there are {', '.join(sorted(self.refs)[:12])}" if self.refs else "the table has no snapshots yet"
            raise NoSuchRef(f"the table has no branch or tag named {name!r}", hint=hint) from None

    def snapshot_of_ref(self, name: str = MAIN_BRANCH) -> Snapshot:
        """The snapshot that a branch or tag points at."""
        return self.snapshot(self.ref(name).snapshot_id)

    # time travel ---------------------------------------------------------------------------------------------

    def snapshot_as_of(self, timestamp_ms: int) -> Snapshot:
        """The snapshot that was current at a time, by the snapshot log (spec: Point in Time Reads).

        The log says what readers saw, including rollbacks, which the parents of snapshots do not. Where two entries
        have the same time the later one counts, as it is what readers saw from then on.
        """
        best: SnapshotLogEntry | None = None
        for entry in self.snapshot_log:
            if entry.timestamp_ms <= timestamp_ms and (best is None or entry.timestamp_ms >= best.timestamp_ms):
                best = entry
        if best is None:
            first = min((entry.timestamp_ms for entry in self.snapshot_log), default=None)
            raise NoSuchSnapshot(
                f"no snapshot was current at {millis_text(timestamp_ms)}",
                hint="the snapshot log is empty"
                if first is None
                else f"the snapshot log begins at {millis_text(first)}",
            )
        return self.snapshot(best.snapshot_id)

    def schema_for(self, snapshot: Snapshot) -> Schema:
        """The schema to read a snapshot with: the one it was written under, or the current one if it does not say."""
        return self.schema if snapshot.schema_id is None else self.schema_by_id(snapshot.schema_id)
