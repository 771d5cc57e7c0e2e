"""The metadata of a new table, and of a table that replaces another (CREATE and REPLACE TABLE).

A new table assigns its own field ids: those of the schema that was passed are replaced, and the partition spec and sort
order are adjusted. A table that is replaced keeps its UUID, its history and all ids that it ever assigned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from floe.errors import InvalidUpdate
from floe.spec.metadata.metadata_builder import DEFAULT_FORMAT_VERSION, apply
from floe.spec.metadata.snapshots import MAIN_BRANCH
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.update_handlers import check_format_version
from floe.spec.metadata.updates import (
    AddPartitionSpec,
    AddSchema,
    AddSortOrder,
    AssignUuid,
    RemoveSnapshotRef,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetLocation,
    SetProperties,
    TableUpdate,
    UpgradeFormatVersion,
)
from floe.spec.partitioning.partition_spec import PARTITION_FIELD_ID_START, UNPARTITIONED, PartitionField, PartitionSpec
from floe.spec.partitioning.spec_evolution import align_field_ids
from floe.spec.partitioning.transforms import Void
from floe.spec.properties import COMMIT_RETRY, FORMAT_VERSION, METRICS_COLUMN, stored_properties
from floe.spec.schemas.metadata_columns import check_column_name
from floe.spec.schemas.schema import Schema, assign_fresh_ids
from floe.spec.sort_order import UNSORTED, SortField, SortOrder


def new_table_metadata(
    schema: Schema,
    spec: PartitionSpec = UNPARTITIONED,
    sort_order: SortOrder = UNSORTED,
    *,
    location: str,
    uuid: str,
    now_ms: int,
    properties: Mapping[str, str] | None = None,
    format_version: int | None = None,
) -> TableMetadata:
    """Return the metadata of a new, empty table.

    `spec` and `sort_order` refer to the columns of `schema` by their ids in it. The format version is `format_version`
    or the property `format-version`, by default 2.

    >>> from floe.spec.partitioning.transform_terms import build_spec
    >>> from floe.spec.types import Field, LONG, TIMESTAMP
    >>> schema = Schema((Field(70, "id", LONG), Field(5, "ts", TIMESTAMP)))
    >>> table = new_table_metadata(
    ...     schema,
    ...     build_spec(schema, ["day(ts)"]),
    ...     location="s3://bucket/t/",
    ...     uuid="9c12d441-03fe-4693-9a96-a0705ddf69c1",
    ...     now_ms=1602638573590,
    ... )
    >>> print(table.spec, table.last_column_id, table.location)
    [1000: ts_day: day(2)] 2 s3://bucket/t
    """
    updates = creation_updates(
        schema,
        spec,
        sort_order,
        location=location,
        uuid=uuid,
        properties=properties,
        format_version=format_version,
    )
    return apply(None, updates, now_ms=now_ms)


def creation_updates(
    schema: Schema,
    spec: PartitionSpec = UNPARTITIONED,
    sort_order: SortOrder = UNSORTED,
    *,
    location: str,
    uuid: str,
    properties: Mapping[str, str] | None = None,
    format_version: int | None = None,
) -> tuple[TableUpdate, ...]:
    """Return the updates that create a table, for a catalog that takes updates; see `new_table_metadata`.

    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> [update.action for update in creation_updates(Schema(()), location="s3://bucket/t", uuid=uuid)]
    ['assign-uuid', 'upgrade-format-version', 'add-schema', ..., 'set-location', 'set-properties']
    """
    properties = properties or {}
    version = _requested_version(properties, format_version, DEFAULT_FORMAT_VERSION)
    check_format_version(version)
    _check_commit_numbers(properties)
    _check_column_metrics(properties, schema)
    _check_column_names(schema)
    fresh, next_id = assign_fresh_ids(schema.with_id(0))
    numbered = [replace(f, field_id=PARTITION_FIELD_ID_START + n) for n, f in enumerate(spec.fields)]
    return (
        AssignUuid(uuid),
        UpgradeFormatVersion(version),
        AddSchema(fresh, next_id - 1),
        SetCurrentSchema(),
        AddPartitionSpec(_spec_by_name(replace(spec, fields=tuple(numbered)), schema, fresh)),
        SetDefaultSpec(),
        AddSortOrder(_order_by_name(sort_order, schema, fresh)),
        SetDefaultSortOrder(),
        SetLocation(location),
        SetProperties(stored_properties(properties)),
    )


def replace_table(
    metadata: TableMetadata,
    schema: Schema,
    spec: PartitionSpec = UNPARTITIONED,
    sort_order: SortOrder = UNSORTED,
    *,
    now_ms: int,
    location: str | None = None,
    properties: Mapping[str, str] | None = None,
    format_version: int | None = None,
    metadata_location: str | None = None,
    new_uuid: str | None = None,
) -> TableMetadata:
    """Return the metadata of a table that replaces another, with the same UUID.

    Snapshots, tags, branches other than `main`, and history stay, so that the table can be rolled back; `main` is empty
    until something is written. Columns with the name of an old column keep its id, others get new ids; the same holds
    for partition fields. Properties are added to the existing ones.

    >>> from floe.spec.types import Field, INT, LONG
    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> old = new_table_metadata(Schema((Field(1, "id", LONG),)), location="s3://bucket/t", uuid=uuid, now_ms=0)
    >>> new = replace_table(old, Schema((Field(1, "n", INT), Field(2, "id", LONG))), now_ms=9)
    >>> [(column.name, column.id) for column in new.schema]
    [('n', 2), ('id', 1)]
    """
    updates = replacement_updates(
        metadata,
        schema,
        spec,
        sort_order,
        location=location,
        properties=properties,
        format_version=format_version,
    )
    return apply(metadata, updates, now_ms=now_ms, metadata_location=metadata_location, new_uuid=new_uuid)


def replacement_updates(
    metadata: TableMetadata,
    schema: Schema,
    spec: PartitionSpec = UNPARTITIONED,
    sort_order: SortOrder = UNSORTED,
    *,
    location: str | None = None,
    properties: Mapping[str, str] | None = None,
    format_version: int | None = None,
) -> tuple[TableUpdate, ...]:
    """Return the updates that replace a table, for a catalog that takes updates; see `replace_table`.

    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> old = new_table_metadata(Schema(()), location="s3://bucket/t", uuid=uuid, now_ms=0)
    >>> [update.action for update in replacement_updates(old, Schema(()))]
    ['upgrade-format-version', 'remove-snapshot-ref', 'add-schema', ..., 'set-location', 'set-properties']
    """
    properties = properties or {}
    version = _requested_version(properties, format_version, metadata.format_version)
    _check_column_names(schema)
    fresh, next_id = assign_fresh_ids(schema, next_id=metadata.last_column_id + 1, base=metadata.schema)
    new_spec = align_field_ids(
        _spec_by_name(spec, schema, fresh),
        metadata.spec,
        metadata.partition_specs,
        metadata.format_version,
        metadata.last_partition_id,
    )
    return (
        UpgradeFormatVersion(version),
        RemoveSnapshotRef(MAIN_BRANCH),
        AddSchema(fresh, next_id - 1),
        SetCurrentSchema(),
        AddPartitionSpec(new_spec),
        SetDefaultSpec(),
        AddSortOrder(_order_by_name(sort_order, schema, fresh)),
        SetDefaultSortOrder(),
        SetLocation(metadata.location if location is None else location),
        SetProperties(stored_properties(properties)),
    )


def _check_column_names(schema: Schema) -> None:
    for entry in schema.by_id.values():
        check_column_name(entry.field.name, top_level=not entry.ancestors)


def _requested_version(properties: Mapping[str, str], argument: int | None, default: int) -> int:
    version = FORMAT_VERSION.read(properties)
    if version is None:
        return default if argument is None else argument
    if argument is not None and argument != version:
        raise InvalidUpdate(f"format version {argument} was requested, but the property {FORMAT_VERSION} is {version}")
    return version


def _spec_by_name(spec: PartitionSpec, schema: Schema, fresh: Schema) -> PartitionSpec:
    """The spec for the columns of the same names in another schema."""
    return replace(spec, fields=tuple(_field_by_name(f, schema, fresh) for f in spec.fields))


def _order_by_name(order: SortOrder, schema: Schema, fresh: Schema) -> SortOrder:
    """The sort order for the columns of the same names in another schema."""
    return replace(order, fields=tuple(_field_by_name(f, schema, fresh) for f in order.fields))


FieldT = TypeVar("FieldT", PartitionField, SortField)


def _field_by_name(old: FieldT, schema: Schema, fresh: Schema) -> FieldT:
    source_ids = []
    for source_id in old.source_ids:
        entry = schema.by_id.get(source_id)
        if entry is not None:
            source_ids.append(fresh.field(entry.path).id)
        elif isinstance(old.transform, Void):
            source_ids.append(source_id)  # the placeholder of a field in a v1 spec, whose column was dropped
        else:
            raise InvalidUpdate(f"{old} refers to column {source_id}, which the schema does not have")
    return replace(old, source_ids=tuple(source_ids))


def _check_commit_numbers(properties: Mapping[str, str]) -> None:
    """Raise if a commit property is invalid: no commit to the table could succeed."""
    for commit_property in COMMIT_RETRY:
        commit_property.read(properties)


def _check_column_metrics(properties: Mapping[str, str], schema: Schema) -> None:
    """Raise if a metrics property names a column that does not exist; it would have no effect."""
    for column in METRICS_COLUMN.suffixes(properties):
        if not schema.has(column):
            name = METRICS_COLUMN.member(column).name
            raise InvalidUpdate(f"property {name} names no column of the schema", property=name, column=column)
