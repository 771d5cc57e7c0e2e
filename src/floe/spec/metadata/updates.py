"""Updates of table metadata, as values and as JSON (the REST protocol's schema `TableUpdate`).

Each class is one update of the protocol; `action` is its name there. `floe.spec.metadata.metadata_builder` applies them
to metadata.

The ids of schemas, specs and sort orders are assigned when updates are applied, so `LAST_ADDED` (-1) stands for the one
that an earlier update of the same list added last.

Deprecated and earlier forms of the JSON are read: `last-column-id` beside a schema, `snapshot-id` beside statistics,
`updated` and `removed` for properties. What is written is understood by old and new servers.

>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, LONG
>>> changes = (AddSchema(Schema((Field(1, "id", LONG),))), SetCurrentSchema(LAST_ADDED))
>>> [change.action for change in changes]
['add-schema', 'set-current-schema']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, TypeAlias, cast

from floe.errors import InvalidMetadata
from floe.spec.json_records import (
    Int32,
    Int64,
    JsonField,
    JsonForm,
    TaggedJson,
    json_form,
    read_field,
    read_int32,
    read_int64,
    read_string,
    record_from_json,
    record_to_json,
    string_map_from_json,
    typed_reader,
)
from floe.spec.metadata.snapshots import Snapshot, SnapshotRef, snapshot_from_json, snapshot_to_json
from floe.spec.metadata.table_metadata import EncryptionKey, PartitionStatisticsFile, StatisticsFile
from floe.spec.partitioning.partition_spec import PartitionSpec, spec_from_json, spec_to_json
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_from_json, schema_to_json
from floe.spec.sort_order import SortOrder, order_from_json, order_to_json

LAST_ADDED: Final = -1
"""Stands for the id of the schema, spec, sort order or view version that was added last."""


@dataclass(frozen=True, slots=True)
class AssignUuid:
    """Assign the UUID of a new table or view; it cannot be changed later."""

    action: ClassVar[str] = "assign-uuid"
    uuid: str


@dataclass(frozen=True, slots=True)
class UpgradeFormatVersion:
    """Upgrade the format version; it cannot be downgraded."""

    action: ClassVar[str] = "upgrade-format-version"
    format_version: int


@dataclass(frozen=True, slots=True)
class AddSchema:
    """Add a schema, unless an equal one exists; its id is assigned when the update is applied.

    `last_column_id` is deprecated: it equals the highest id in the schema, unless columns were added and dropped again
    before the update was created.
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
    """Add a partition spec, unless an equivalent one exists; its id is assigned when the update is applied.

    With `assign_field_ids` the ids of its fields are assigned then too, and those in the spec are ignored: clients of
    the REST protocol may omit them.
    """

    action: ClassVar[str] = "add-spec"
    spec: PartitionSpec
    assign_field_ids: bool = False


@dataclass(frozen=True, slots=True)
class SetDefaultSpec:
    """Make a partition spec the default, which writers use."""

    action: ClassVar[str] = "set-default-spec"
    spec_id: int = LAST_ADDED


@dataclass(frozen=True, slots=True)
class AddSortOrder:
    """Add a sort order, unless an equal one exists; its id is assigned when the update is applied."""

    action: ClassVar[str] = "add-sort-order"
    sort_order: SortOrder


@dataclass(frozen=True, slots=True)
class SetDefaultSortOrder:
    """Make a sort order the default, which writers use."""

    action: ClassVar[str] = "set-default-sort-order"
    sort_order_id: int = LAST_ADDED


@dataclass(frozen=True, slots=True)
class AddSnapshot:
    """Add a snapshot; it is not part of any branch until a ref is set to it."""

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
    """Remove a branch or tag if it exists; without `main` a table has no current snapshot."""

    action: ClassVar[str] = "remove-snapshot-ref"
    name: str


@dataclass(frozen=True, slots=True)
class RemoveSnapshots:
    """Remove snapshots with their refs and statistics; ids that do not exist are ignored."""

    action: ClassVar[str] = "remove-snapshots"
    snapshot_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SetLocation:
    """Change the base location of a table or view; existing files are not moved."""

    action: ClassVar[str] = "set-location"
    location: str


@dataclass(frozen=True, slots=True)
class SetProperties:
    """Set properties; all others stay unchanged."""

    action: ClassVar[str] = "set-properties"
    updates: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class RemoveProperties:
    """Remove properties; names that are not set are ignored."""

    action: ClassVar[str] = "remove-properties"
    removals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetStatistics:
    """Set the statistics file of a snapshot, replacing an earlier one."""

    action: ClassVar[str] = "set-statistics"
    statistics: StatisticsFile


@dataclass(frozen=True, slots=True)
class RemoveStatistics:
    """Remove the statistics file of a snapshot if it has one."""

    action: ClassVar[str] = "remove-statistics"
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class SetPartitionStatistics:
    """Set the partition statistics file of a snapshot, replacing an earlier one."""

    action: ClassVar[str] = "set-partition-statistics"
    partition_statistics: PartitionStatisticsFile


@dataclass(frozen=True, slots=True)
class RemovePartitionStatistics:
    """Remove the partition statistics file of a snapshot if it has one."""

    action: ClassVar[str] = "remove-partition-statistics"
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class RemovePartitionSpecs:
    """Remove partition specs that no manifest uses; the default one cannot be removed."""

    action: ClassVar[str] = "remove-partition-specs"
    spec_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RemoveSchemas:
    """Remove schemas that no snapshot uses; the current one cannot be removed."""

    action: ClassVar[str] = "remove-schemas"
    schema_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AddEncryptionKey:
    """Add an encryption key, unless the table has it already."""

    action: ClassVar[str] = "add-encryption-key"
    key: EncryptionKey


@dataclass(frozen=True, slots=True)
class RemoveEncryptionKey:
    """Remove an encryption key that no snapshot and no other key is encrypted with."""

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
"""Any update of table metadata."""

# JSON ------------------------------------------------------------------------------------------------------------


def update_from_json(json: Any) -> TableUpdate:
    """Parse an update from a JSON object.

    >>> update_from_json({"action": "remove-snapshots", "snapshot-ids": [3, 5]})
    RemoveSnapshots(snapshot_ids=(3, 5))
    >>> update_from_json({"action": "set-location"})
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $.location: is missing
    >>> update_from_json({"action": "fly-away"})
    Traceback (most recent call last):
    floe.errors.UnsupportedFeature: the table update 'fly-away' is not known; known are assign-uuid, ...
    """
    return cast(TableUpdate, _UPDATES.read(json))


def update_to_json(update: TableUpdate) -> dict[str, Any]:
    """Return an update as a JSON object.

    >>> update_to_json(RemoveProperties(("comment",)))
    {'action': 'remove-properties', 'removals': ['comment']}
    """
    return _UPDATES.write(update)


def updates_from_json(json: Any) -> tuple[TableUpdate, ...]:
    """Parse updates from a JSON list.

    >>> updates_from_json([{"action": "remove-snapshot-ref", "ref-name": "audit"}])
    (RemoveSnapshotRef(name='audit'),)
    """
    return _UPDATES.read_all(json)


def updates_to_json(updates: Iterable[TableUpdate]) -> list[dict[str, Any]]:
    """Return updates as a JSON list.

    >>> updates_to_json([SetCurrentSchema()])
    [{'action': 'set-current-schema', 'schema-id': -1}]
    """
    return [update_to_json(update) for update in updates]


def check_update(update: TableUpdate) -> None:
    """Raise `InvalidMetadata` if values of an update have wrong types: nothing else checks what Python code creates.

    >>> check_update(SetProperties({"comment": 7}))
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $.updates.comment: must be a string, found an integer
    """
    _UPDATES.check(update)


def _record_part(key: str, attribute: str, kind: type[Any]) -> JsonField:
    return JsonField(key, attribute, partial(record_from_json, kind), record_to_json)


_SCHEMA = JsonField("schema", "schema", schema_from_json, schema_to_json)
_LAST_COLUMN_ID = JsonField("last-column-id", "last_column_id", read_int32, required=False)
_SNAPSHOT_ID = JsonField("snapshot-id", "snapshot_id", read_int64)
_STATISTICS = _record_part("statistics", "statistics", StatisticsFile)
_SPEC = JsonField("spec", "spec", spec_from_json)

# Updates whose JSON is not a plain list of fields -----------------------------------------------------------------


def _read_spec(obj: dict[str, Any]) -> AddPartitionSpec:
    """Field ids may be omitted: the protocol's `PartitionField` does not require them."""
    spec = read_field(obj, _SPEC)
    has_field_ids = all("field-id" in item for item in obj["spec"]["fields"])
    return AddPartitionSpec(spec, assign_field_ids=not has_field_ids)


def _write_spec(update: AddPartitionSpec) -> dict[str, Any]:
    json = spec_to_json(update.spec)
    if update.assign_field_ids:
        json["fields"] = [{key: value for key, value in f.items() if key != "field-id"} for f in json["fields"]]
    return {"spec": json}


_REF_NAME = JsonField("ref-name", "name", read_string)


def _read_ref(obj: dict[str, Any]) -> SetSnapshotRef:
    """The fields of the ref are next to its name; unknown keys belong to the ref."""
    name = read_field(obj, _REF_NAME)
    ref = {key: value for key, value in obj.items() if key not in ("action", "ref-name")}
    return SetSnapshotRef(name, record_from_json(SnapshotRef, ref))


def _write_ref(update: SetSnapshotRef) -> dict[str, Any]:
    return {"ref-name": update.name} | record_to_json(update.ref)


def _read_statistics(obj: dict[str, Any]) -> SetStatistics:
    statistics = read_field(obj, _STATISTICS)
    deprecated_id = read_field(obj, JsonField("snapshot-id", "snapshot_id", read_int64, required=False))
    if deprecated_id is not None and deprecated_id != statistics.snapshot_id:
        raise InvalidMetadata(f"contradicts the snapshot-id {statistics.snapshot_id} of the statistics").at(
            ".snapshot-id"
        )
    return SetStatistics(statistics)


def _write_statistics(update: SetStatistics) -> dict[str, Any]:
    """Includes the deprecated `snapshot-id`, which older servers need."""
    return {"snapshot-id": update.statistics.snapshot_id, "statistics": record_to_json(update.statistics)}


# Forms of all updates --------------------------------------------------------------------------------------------

SHARED_FORMS: tuple[JsonForm[Any], ...] = (
    json_form(AssignUuid.action, AssignUuid, JsonField("uuid", "uuid", read_string)),
    json_form(
        UpgradeFormatVersion.action, UpgradeFormatVersion, JsonField("format-version", "format_version", read_int32)
    ),
    json_form(AddSchema.action, AddSchema, _SCHEMA, _LAST_COLUMN_ID),
    json_form(SetLocation.action, SetLocation, JsonField("location", "location", read_string)),
    json_form(
        SetProperties.action,
        SetProperties,
        JsonField("updates", "updates", string_map_from_json, dict, earlier_key="updated"),
    ),
    json_form(
        RemoveProperties.action,
        RemoveProperties,
        JsonField("removals", "removals", typed_reader(tuple[str, ...]), list, earlier_key="removed"),
    ),
)
"""The updates of both tables and views."""

_TABLE_FORMS: tuple[JsonForm[Any], ...] = (
    json_form(SetCurrentSchema.action, SetCurrentSchema, JsonField("schema-id", "schema_id", read_int32)),
    JsonForm(AddPartitionSpec.action, AddPartitionSpec, _read_spec, _write_spec),
    json_form(SetDefaultSpec.action, SetDefaultSpec, JsonField("spec-id", "spec_id", read_int32)),
    json_form(AddSortOrder.action, AddSortOrder, JsonField("sort-order", "sort_order", order_from_json, order_to_json)),
    json_form(SetDefaultSortOrder.action, SetDefaultSortOrder, JsonField("sort-order-id", "sort_order_id", read_int32)),
    json_form(AddSnapshot.action, AddSnapshot, JsonField("snapshot", "snapshot", snapshot_from_json, snapshot_to_json)),
    JsonForm(SetSnapshotRef.action, SetSnapshotRef, _read_ref, _write_ref),
    json_form(RemoveSnapshotRef.action, RemoveSnapshotRef, _REF_NAME),
    json_form(
        RemoveSnapshots.action,
        RemoveSnapshots,
        JsonField("snapshot-ids", "snapshot_ids", typed_reader(tuple[Int64, ...]), list),
    ),
    JsonForm(SetStatistics.action, SetStatistics, _read_statistics, _write_statistics),
    json_form(RemoveStatistics.action, RemoveStatistics, _SNAPSHOT_ID),
    json_form(
        SetPartitionStatistics.action,
        SetPartitionStatistics,
        _record_part("partition-statistics", "partition_statistics", PartitionStatisticsFile),
    ),
    json_form(RemovePartitionStatistics.action, RemovePartitionStatistics, _SNAPSHOT_ID),
    json_form(
        RemovePartitionSpecs.action,
        RemovePartitionSpecs,
        JsonField("spec-ids", "spec_ids", typed_reader(tuple[Int32, ...]), list),
    ),
    json_form(
        RemoveSchemas.action,
        RemoveSchemas,
        JsonField("schema-ids", "schema_ids", typed_reader(tuple[Int32, ...]), list),
    ),
    json_form(AddEncryptionKey.action, AddEncryptionKey, _record_part("encryption-key", "key", EncryptionKey)),
    json_form(RemoveEncryptionKey.action, RemoveEncryptionKey, JsonField("key-id", "key_id", read_string)),
)

_UPDATES = TaggedJson(
    "table update",
    "action",
    SHARED_FORMS + _TABLE_FORMS,
    hints=dict.fromkeys(("add-view-version", "set-current-view-version"), "it is an update of a view"),
)
