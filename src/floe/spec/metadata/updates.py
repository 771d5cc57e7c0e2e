"""The changes that can be made to a table's metadata, as values (the REST protocol's table updates).

Each class is one update of the protocol; `action` is its name there. Updates say *what* changes, in order; what a
change means for the rest of the metadata is in `floe.spec.metadata.apply`, and their JSON in
`floe.spec.metadata.updates_json`.

Ids of things that an earlier update of the same list adds are not known beforehand, so `LAST_ADDED` (-1) stands for
the schema, spec or sort order that was added last.

>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, LONG
>>> changes = (AddSchema(Schema((Field(1, "id", LONG),))), SetCurrentSchema(LAST_ADDED))
>>> [change.action for change in changes]
['add-schema', 'set-current-schema']
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, TypeAlias

from floe.spec.metadata.encryption import EncryptionKey
from floe.spec.metadata.refs import SnapshotRef
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.statistics import PartitionStatisticsFile, StatisticsFile
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.schemas.schema import Schema
from floe.spec.sorting import SortOrder

__all__ = [
    "LAST_ADDED",
    "AddEncryptionKey",
    "AddPartitionSpec",
    "AddSchema",
    "AddSnapshot",
    "AddSortOrder",
    "AssignUuid",
    "RemoveEncryptionKey",
    "RemovePartitionSpecs",
    "RemovePartitionStatistics",
    "RemoveProperties",
    "RemoveSchemas",
    "RemoveSnapshotRef",
    "RemoveSnapshots",
    "RemoveStatistics",
    "SetCurrentSchema",
    "SetDefaultSortOrder",
    "SetDefaultSpec",
    "SetLocation",
    "SetPartitionStatistics",
    "SetProperties",
    "SetSnapshotRef",
    "SetStatistics",
    "TableUpdate",
    "UpgradeFormatVersion",
]

LAST_ADDED: Final = -1
"""In place of an id: the schema, spec, sort order or view version that was added last."""


@dataclass(frozen=True, slots=True)
class AssignUuid:
    """Give a new table or view its identity; one that has an identity keeps it."""

    action: ClassVar[str] = "assign-uuid"
    uuid: str


@dataclass(frozen=True, slots=True)
class UpgradeFormatVersion:
    """Raise the format version; there is no way back."""

    action: ClassVar[str] = "upgrade-format-version"
    format_version: int


@dataclass(frozen=True, slots=True)
class AddSchema:
    """Add a schema, or find the equal one that is there; its id is given on applying.

    `last_column_id` is deprecated: the highest id in the schema says the same, unless columns were added and dropped
    again before the update was made.
    """

    action: ClassVar[str] = "add-schema"
    schema: Schema
    last_column_id: int | None = None


@dataclass(frozen=True, slots=True)
class SetCurrentSchema:
    """Make a schema the current one."""

    action: ClassVar[str] = "set-current-schema"
    schema_id: int = LAST_ADDED


@dataclass(frozen=True, slots=True)
class AddPartitionSpec:
    """Add a partition spec, or find the equal one that is there; its id is given on applying.

    With `assign_field_ids` the fields of the spec get their ids on applying too, and those they have mean nothing:
    clients of the REST protocol may leave them out.
    """

    action: ClassVar[str] = "add-spec"
    spec: PartitionSpec
    assign_field_ids: bool = False


@dataclass(frozen=True, slots=True)
class SetDefaultSpec:
    """Make a partition spec the one that writers use."""

    action: ClassVar[str] = "set-default-spec"
    spec_id: int = LAST_ADDED


@dataclass(frozen=True, slots=True)
class AddSortOrder:
    """Add a sort order, or find the equal one that is there; its id is given on applying."""

    action: ClassVar[str] = "add-sort-order"
    sort_order: SortOrder


@dataclass(frozen=True, slots=True)
class SetDefaultSortOrder:
    """Make a sort order the one that writers use."""

    action: ClassVar[str] = "set-default-sort-order"
    sort_order_id: int = LAST_ADDED


@dataclass(frozen=True, slots=True)
class AddSnapshot:
    """Add a snapshot; it is current nowhere until a ref is set to it."""

    action: ClassVar[str] = "add-snapshot"
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class SetSnapshotRef:
    """Create or move a branch or tag, with its retention; moving `main` moves the current snapshot."""

    action: ClassVar[str] = "set-snapshot-ref"
    name: str
    ref: SnapshotRef


@dataclass(frozen=True, slots=True)
class RemoveSnapshotRef:
    """Remove a branch or tag, if it is there; without `main` a table has no current snapshot."""

    action: ClassVar[str] = "remove-snapshot-ref"
    name: str


@dataclass(frozen=True, slots=True)
class RemoveSnapshots:
    """Remove snapshots, with the refs and statistics that hang on them; those already gone are no matter."""

    action: ClassVar[str] = "remove-snapshots"
    snapshot_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SetLocation:
    """Change the table's base location; files that are there stay where they are."""

    action: ClassVar[str] = "set-location"
    location: str


@dataclass(frozen=True, slots=True)
class SetProperties:
    """Set properties; those not named stay."""

    action: ClassVar[str] = "set-properties"
    updates: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class RemoveProperties:
    """Remove properties; those that are not there are no matter."""

    action: ClassVar[str] = "remove-properties"
    removals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetStatistics:
    """Register a statistics file in place of the one that its snapshot may have."""

    action: ClassVar[str] = "set-statistics"
    statistics: StatisticsFile


@dataclass(frozen=True, slots=True)
class RemoveStatistics:
    """Forget the statistics file of a snapshot, if there is one."""

    action: ClassVar[str] = "remove-statistics"
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class SetPartitionStatistics:
    """Register a partition statistics file in place of the one that its snapshot may have."""

    action: ClassVar[str] = "set-partition-statistics"
    partition_statistics: PartitionStatisticsFile


@dataclass(frozen=True, slots=True)
class RemovePartitionStatistics:
    """Forget the partition statistics file of a snapshot, if there is one."""

    action: ClassVar[str] = "remove-partition-statistics"
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class RemovePartitionSpecs:
    """Remove partition specs that no manifest uses any more; never the default one."""

    action: ClassVar[str] = "remove-partition-specs"
    spec_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RemoveSchemas:
    """Remove schemas that no snapshot uses any more; never the current one."""

    action: ClassVar[str] = "remove-schemas"
    schema_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AddEncryptionKey:
    """Add an encryption key, unless one of its id is there."""

    action: ClassVar[str] = "add-encryption-key"
    key: EncryptionKey


@dataclass(frozen=True, slots=True)
class RemoveEncryptionKey:
    """Remove an encryption key that nothing is encrypted with any more."""

    action: ClassVar[str] = "remove-encryption-key"
    key_id: str


TableUpdate: TypeAlias = (
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetCurrentSchema
    | AddPartitionSpec
    | SetDefaultSpec
    | AddSortOrder
    | SetDefaultSortOrder
    | AddSnapshot
    | SetSnapshotRef
    | RemoveSnapshotRef
    | RemoveSnapshots
    | SetLocation
    | SetProperties
    | RemoveProperties
    | SetStatistics
    | RemoveStatistics
    | SetPartitionStatistics
    | RemovePartitionStatistics
    | RemovePartitionSpecs
    | RemoveSchemas
    | AddEncryptionKey
    | RemoveEncryptionKey
)
"""Any change to a table's metadata."""
