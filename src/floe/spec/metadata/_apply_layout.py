"""Applying updates of what a table looks like: schemas, partition specs, sort orders.

Each function changes a draft as one update says, or raises why it cannot.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from floe.errors import InvalidUpdate
from floe.spec.metadata._draft import Draft
from floe.spec.metadata.updates import (
    LAST_ADDED,
    AddPartitionSpec,
    AddSchema,
    AddSortOrder,
    RemovePartitionSpecs,
    RemoveSchemas,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
)
from floe.spec.partitioning.evolution import align_field_ids
from floe.spec.partitioning.partition_spec import UNPARTITIONED, PartitionSpec, check_spec
from floe.spec.partitioning.transforms import Void
from floe.spec.schemas.schema import MAX_TABLE_FIELD_ID
from floe.spec.sorting import UNSORTED, check_order

__all__ = [
    "add_schema",
    "add_sort_order",
    "add_spec",
    "remove_schemas",
    "remove_specs",
    "set_current_schema",
    "set_default_sort_order",
    "set_default_spec",
]

# schemas --------------------------------------------------------------------------------------------------------


def add_schema(draft: Draft, update: AddSchema) -> None:
    """A schema that the table has already, under whatever id, is not added again; a new one gets the next id."""
    metadata, schema = draft.metadata, update.schema
    schema.check_for_table(metadata.format_version)
    last_column_id = max(metadata.last_column_id, schema.highest_field_id, update.last_column_id or 0)
    if last_column_id > MAX_TABLE_FIELD_ID:
        raise InvalidUpdate(f"last-column-id {last_column_id} is above {MAX_TABLE_FIELD_ID}, the highest column id")
    if last_column_id > metadata.last_column_id:
        draft.change(last_column_id=last_column_id)

    for known in metadata.schemas:
        if known.same_columns(schema):
            draft.last_schema_id = known.schema_id
            return
    # Snapshots keep the ids of schemas that were removed; they must never come to mean another schema.
    named_by_snapshots = (s.schema_id for s in draft.snapshots.values() if s.schema_id is not None)
    new_id = max((*(s.schema_id for s in metadata.schemas), *named_by_snapshots), default=-1) + 1
    draft.change(schemas=(*metadata.schemas, schema.with_id(new_id)))
    draft.last_schema_id = new_id


def set_current_schema(draft: Draft, update: SetCurrentSchema) -> None:
    """The schema must be there."""
    schema_id = _chosen(update.schema_id, draft.last_schema_id, draft.metadata.schemas_by_id, "schema")
    draft.change(current_schema_id=schema_id)


def remove_schemas(draft: Draft, update: RemoveSchemas) -> None:
    """Not the current schema; whether snapshots use the others is checked when all updates are applied."""
    removed = set(update.schema_ids)
    if draft.metadata.current_schema_id in removed:
        raise InvalidUpdate(f"schema {draft.metadata.current_schema_id} cannot be removed: it is the current one")
    draft.removed_schemas |= removed & draft.metadata.schemas_by_id.keys()
    draft.change(schemas=tuple(s for s in draft.metadata.schemas if s.schema_id not in removed))
    if draft.last_schema_id in removed:
        draft.last_schema_id = None


# partition specs --------------------------------------------------------------------------------------------------


def add_spec(draft: Draft, update: AddPartitionSpec) -> None:
    """A spec equivalent to one that the table has is not added again; a new one gets the next id."""
    metadata, spec = draft.metadata, update.spec
    for known in metadata.partition_specs:
        if known.compatible_with(spec):
            draft.last_spec_id = known.spec_id
            return
    if update.assign_field_ids:
        current = metadata.specs_by_id.get(metadata.default_spec_id, UNPARTITIONED)
        spec = align_field_ids(
            spec, current, metadata.partition_specs, metadata.format_version, metadata.last_partition_id
        )
    elif metadata.format_version > 1:
        _check_field_ids(spec, metadata.partition_specs)
    if metadata.current_schema_id not in metadata.schemas_by_id:
        raise InvalidUpdate("a partition spec cannot be added before the table has a current schema")
    check_spec(spec, metadata.schema, metadata.format_version)
    new_id = max((s.spec_id for s in metadata.partition_specs), default=-1) + 1
    draft.change(
        partition_specs=(*metadata.partition_specs, spec.with_id(new_id)),
        last_partition_id=max(metadata.last_partition_id, spec.last_assigned_field_id),
    )
    draft.last_spec_id = new_id


def _check_field_ids(spec: PartitionSpec, others: tuple[PartitionSpec, ...]) -> None:
    """An id that another spec uses must stand for the same values: manifests of both say what they hold by it.

    In v1 ids are positions, so that specs of a table that was one may use an id for different fields; one of these it
    must be. A `void` stands in for any other field.
    """
    for new in spec.fields:
        known = [
            f for s in others for f in s.fields if f.field_id == new.field_id and not isinstance(f.transform, Void)
        ]
        if not known or isinstance(new.transform, Void) or any(map(new.same_source_and_transform, known)):
            continue
        raise InvalidUpdate(
            f"partition field id {new.field_id} of {new.name!r} means {known[-1]} in another spec of the table",
            hint="number new partition fields from last-partition-id + 1",
        )


def set_default_spec(draft: Draft, update: SetDefaultSpec) -> None:
    """The spec must be there; whether it fits the schema is checked when all updates are applied."""
    spec_id = _chosen(update.spec_id, draft.last_spec_id, draft.metadata.specs_by_id, "partition spec")
    draft.change(default_spec_id=spec_id)


def remove_specs(draft: Draft, update: RemovePartitionSpecs) -> None:
    """Not the default spec; whether manifests use the others is for the caller to know."""
    removed = set(update.spec_ids)
    if draft.metadata.default_spec_id in removed:
        raise InvalidUpdate(f"partition spec {draft.metadata.default_spec_id} cannot be removed: it is the default")
    draft.change(partition_specs=tuple(s for s in draft.metadata.partition_specs if s.spec_id not in removed))
    if draft.last_spec_id in removed:
        draft.last_spec_id = None


# sort orders ------------------------------------------------------------------------------------------------------


def add_sort_order(draft: Draft, update: AddSortOrder) -> None:
    """An order that the table has is not added again; the unsorted one is always number 0, others count from 1."""
    metadata, order = draft.metadata, update.sort_order
    for known in metadata.sort_orders:
        if known.fields == order.fields:
            draft.last_order_id = known.order_id
            return
    if order.is_unsorted:
        new_id = UNSORTED.order_id
    else:
        if metadata.current_schema_id not in metadata.schemas_by_id:
            raise InvalidUpdate("a sort order cannot be added before the table has a current schema")
        check_order(order, metadata.schema, metadata.format_version)
        new_id = max((o.order_id for o in metadata.sort_orders), default=UNSORTED.order_id) + 1
    draft.change(sort_orders=(*metadata.sort_orders, replace(order, order_id=new_id)))
    draft.last_order_id = new_id


def set_default_sort_order(draft: Draft, update: SetDefaultSortOrder) -> None:
    """The order must be there; whether it fits the schema is checked when all updates are applied."""
    known = {order.order_id: order for order in draft.metadata.sort_orders}
    order_id = _chosen(update.sort_order_id, draft.last_order_id, known, "sort order")
    draft.change(default_sort_order_id=order_id)


def _chosen(asked: int, last_added: int | None, known: Container[int], what: str) -> int:
    """The id that an update means: itself, or the one added last; it must be known."""
    if asked == LAST_ADDED:
        if last_added is None:
            raise InvalidUpdate(f"the last added {what} was asked for, but no {what} was added")
        return last_added
    if asked not in known:
        raise InvalidUpdate(f"the table has no {what} with id {asked}")
    return asked
