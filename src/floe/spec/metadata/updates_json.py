"""Table updates as JSON, both ways, as the REST protocol has them (its schema `TableUpdate`).

Deprecated and earlier forms are read: `last-column-id` beside a schema, `snapshot-id` beside statistics, `updated` and
`removed` for properties. What is written is understood by servers old and new.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, cast

from floe.errors import InvalidMetadata
from floe.spec.metadata._tagged_json import Form, Part, TaggedJson, form, int32, int64, plain, read_part, string
from floe.spec.metadata.encryption import EncryptionKey
from floe.spec.metadata.records import Int32, Int64, record_from_json, record_to_json, string_map_from_json
from floe.spec.metadata.refs import SnapshotRef
from floe.spec.metadata.snapshots import snapshot_from_json, snapshot_to_json
from floe.spec.metadata.statistics import PartitionStatisticsFile, StatisticsFile
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
from floe.spec.partitioning.partition_spec import spec_from_json, spec_to_json
from floe.spec.schemas.schema_json import schema_from_json, schema_to_json
from floe.spec.sorting import order_from_json, order_to_json

__all__ = ["check_update", "update_from_json", "update_to_json", "updates_from_json", "updates_to_json"]


def update_from_json(json: Any) -> TableUpdate:
    """The update that a JSON object describes.

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
    """The JSON object of an update.

    >>> update_to_json(RemoveProperties(("comment",)))
    {'action': 'remove-properties', 'removals': ['comment']}
    """
    return _UPDATES.write(update)


def updates_from_json(json: Any) -> tuple[TableUpdate, ...]:
    """The updates that a JSON list describes, in its order.

    >>> updates_from_json([{"action": "remove-snapshot-ref", "ref-name": "audit"}])
    (RemoveSnapshotRef(name='audit'),)
    """
    return _UPDATES.read_all(json)


def updates_to_json(updates: Iterable[TableUpdate]) -> list[dict[str, Any]]:
    """The JSON list of updates.

    >>> updates_to_json([SetCurrentSchema()])
    [{'action': 'set-current-schema', 'schema-id': -1}]
    """
    return [update_to_json(update) for update in updates]


def check_update(update: TableUpdate) -> None:
    """Raise unless an update can be written and read again: nothing checks kinds where values are made in Python.

    >>> check_update(SetProperties({"comment": 7}))
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $.updates.comment: must be a string, found an integer
    """
    _UPDATES.check(update)


def _record_part(key: str, attribute: str, kind: type[Any]) -> Part:
    return Part(key, attribute, partial(record_from_json, kind), record_to_json)


_SCHEMA = Part("schema", "schema", schema_from_json, schema_to_json)
_LAST_COLUMN_ID = Part("last-column-id", "last_column_id", int32, required=False)
_SNAPSHOT_ID = Part("snapshot-id", "snapshot_id", int64)
_STATISTICS = _record_part("statistics", "statistics", StatisticsFile)
_SPEC = Part("spec", "spec", spec_from_json)

# forms that are more than a list of parts -------------------------------------------------------------------------


def _read_spec(obj: dict[str, Any]) -> AddPartitionSpec:
    """Field ids may be left to whoever applies the update (`PartitionField` of the protocol does not require them)."""
    spec = read_part(obj, _SPEC)
    ids_given = all("field-id" in item for item in obj["spec"]["fields"])
    return AddPartitionSpec(spec, assign_field_ids=not ids_given)


def _write_spec(update: AddPartitionSpec) -> dict[str, Any]:
    json = spec_to_json(update.spec)
    if update.assign_field_ids:
        json["fields"] = [{key: value for key, value in f.items() if key != "field-id"} for f in json["fields"]]
    return {"spec": json}


_REF_NAME = Part("ref-name", "name", string)


def _read_ref(obj: dict[str, Any]) -> SetSnapshotRef:
    """The fields of the ref stand beside its name; those not known to this version belong to the ref."""
    name = read_part(obj, _REF_NAME)
    ref = {key: value for key, value in obj.items() if key not in ("action", "ref-name")}
    return SetSnapshotRef(name, record_from_json(SnapshotRef, ref))


def _write_ref(update: SetSnapshotRef) -> dict[str, Any]:
    return {"ref-name": update.name} | record_to_json(update.ref)


def _read_statistics(obj: dict[str, Any]) -> SetStatistics:
    statistics = read_part(obj, _STATISTICS)
    beside = read_part(obj, Part("snapshot-id", "snapshot_id", int64, required=False))
    if beside is not None and beside != statistics.snapshot_id:
        raise InvalidMetadata(f"contradicts the snapshot-id {statistics.snapshot_id} of the statistics").at(
            ".snapshot-id"
        )
    return SetStatistics(statistics)


def _write_statistics(update: SetStatistics) -> dict[str, Any]:
    """With the deprecated `snapshot-id`, which servers of before its deprecation need."""
    return {"snapshot-id": update.statistics.snapshot_id, "statistics": record_to_json(update.statistics)}


# shared with views ------------------------------------------------------------------------------------------------

SHARED_FORMS: tuple[Form[Any], ...] = (
    form(AssignUuid.action, AssignUuid, Part("uuid", "uuid", string)),
    form(UpgradeFormatVersion.action, UpgradeFormatVersion, Part("format-version", "format_version", int32)),
    form(AddSchema.action, AddSchema, _SCHEMA, _LAST_COLUMN_ID),
    form(SetLocation.action, SetLocation, Part("location", "location", string)),
    form(
        SetProperties.action,
        SetProperties,
        Part("updates", "updates", string_map_from_json, dict, earlier_key="updated"),
    ),
    form(
        RemoveProperties.action,
        RemoveProperties,
        Part("removals", "removals", plain(tuple[str, ...]), list, earlier_key="removed"),
    ),
)
"""The updates that tables and views have in common."""

_TABLE_FORMS: tuple[Form[Any], ...] = (
    form(SetCurrentSchema.action, SetCurrentSchema, Part("schema-id", "schema_id", int32)),
    Form(AddPartitionSpec.action, AddPartitionSpec, _read_spec, _write_spec),
    form(SetDefaultSpec.action, SetDefaultSpec, Part("spec-id", "spec_id", int32)),
    form(AddSortOrder.action, AddSortOrder, Part("sort-order", "sort_order", order_from_json, order_to_json)),
    form(SetDefaultSortOrder.action, SetDefaultSortOrder, Part("sort-order-id", "sort_order_id", int32)),
    form(AddSnapshot.action, AddSnapshot, Part("snapshot", "snapshot", snapshot_from_json, snapshot_to_json)),
    Form(SetSnapshotRef.action, SetSnapshotRef, _read_ref, _write_ref),
    form(RemoveSnapshotRef.action, RemoveSnapshotRef, _REF_NAME),
    form(
        RemoveSnapshots.action,
        RemoveSnapshots,
        Part("snapshot-ids", "snapshot_ids", plain(tuple[Int64, ...]), list),
    ),
    Form(SetStatistics.action, SetStatistics, _read_statistics, _write_statistics),
    form(RemoveStatistics.action, RemoveStatistics, _SNAPSHOT_ID),
    form(
        SetPartitionStatistics.action,
        SetPartitionStatistics,
        _record_part("partition-statistics", "partition_statistics", PartitionStatisticsFile),
    ),
    form(RemovePartitionStatistics.action, RemovePartitionStatistics, _SNAPSHOT_ID),
    form(
        RemovePartitionSpecs.action,
        RemovePartitionSpecs,
        Part("spec-ids", "spec_ids", plain(tuple[Int32, ...]), list),
    ),
    form(
        RemoveSchemas.action,
        RemoveSchemas,
        Part("schema-ids", "schema_ids", plain(tuple[Int32, ...]), list),
    ),
    form(AddEncryptionKey.action, AddEncryptionKey, _record_part("encryption-key", "key", EncryptionKey)),
    form(RemoveEncryptionKey.action, RemoveEncryptionKey, Part("key-id", "key_id", string)),
)

_UPDATES = TaggedJson(
    "table update",
    "action",
    SHARED_FORMS + _TABLE_FORMS,
    hints=dict.fromkeys(("add-view-version", "set-current-view-version"), "it is an update of a view"),
)
