"""The rules of schema evolution as a check of two schemas, to test `SchemaUpdate` with (spec: Schema Evolution).

`SchemaUpdate` makes changes step by step; this compares the schema before with the one after.
"""

from __future__ import annotations

from collections.abc import Iterable

from floe.errors import IncompatibleChange, InvalidValue
from floe.spec.schemas.promotion import TransformedField, check_promotion, promote_value
from floe.spec.schemas.schema import Schema, SchemaField, initial_value, same_default


def check_evolution(
    before: Schema,
    after: Schema,
    *,
    format_version: int,
    last_column_id: int,
    partition_fields: Iterable[TransformedField] = (),
    allow_incompatible: bool = False,
) -> None:
    """Raise, saying why, unless data written with the first schema can be read with the second.

    `last_column_id` is the highest id that the table has used so far, `partition_fields` are those of all its specs.
    `allow_incompatible` permits required fields without a default, and requiring what was optional.
    """
    after.check_for_table(format_version)
    transformed = list(partition_fields)
    for field_id, entry in after.by_id.items():
        old = before.by_id.get(field_id)
        if old is None:
            _check_added(entry, before, last_column_id, allow_incompatible)
        else:
            _check_place(old, entry)
            _check_type(old, entry, format_version, transformed)
            _check_initial_default(old, entry)
            _check_required(old, entry, allow_incompatible)


def _check_added(entry: SchemaField, before: Schema, last_column_id: int, allow_incompatible: bool) -> None:
    field, name = entry.field, entry.name
    if field.id <= last_column_id:
        raise IncompatibleChange(
            f"{name!r} is new but has id {field.id}, which the table has used before (up to {last_column_id})",
            hint="new fields need new ids: old files may hold other data under this one",
            column=name,
        )
    holder = before.find(entry.ancestors[-1].id) if entry.ancestors else None
    holder_is_new = entry.ancestors and (holder is None or not holder.type.is_nested)  # or it was unknown
    if not field.required or holder_is_new or allow_incompatible:
        return
    if field.write_default is None:
        raise IncompatibleChange(f"the new field {name!r} is required and has no write-default", column=name)
    try:
        initial_value(field)
    except InvalidValue as error:
        raise IncompatibleChange(
            f"the new field {name!r} is required, but rows already written get no value: {error.message}", column=name
        ) from error


def _check_place(old: SchemaField, new: SchemaField) -> None:
    if [a.id for a in old.ancestors] != [a.id for a in new.ancestors]:
        raise IncompatibleChange(
            f"{new.name!r} was {old.name!r} before: a field cannot leave its struct, nor join another",
            hint="add a new field and drop the old one",
            column=new.name,
        )


def _check_type(
    old: SchemaField, new: SchemaField, format_version: int, partition_fields: list[TransformedField]
) -> None:
    if old.field.type.is_nested and old.field.type.kind == new.field.type.kind:
        return  # what is inside is checked by itself
    check_promotion(
        old.field.type,
        new.field.type,
        format_version,
        column=new.name,
        field_id=new.field.id,
        partition_fields=partition_fields,
    )


def _check_initial_default(old: SchemaField, new: SchemaField) -> None:
    promoted = promote_value(old.field.type, new.field.type, old.field.initial_default)
    if not same_default(promoted, new.field.initial_default):
        raise IncompatibleChange(
            f"the initial-default of {new.name!r} cannot change: rows already written have that value",
            hint="change the write-default, which is for new rows",
            column=new.name,
        )


def _check_required(old: SchemaField, new: SchemaField, allow_incompatible: bool) -> None:
    if new.field.required and old.field.optional and not allow_incompatible:
        raise IncompatibleChange(
            f"{new.name!r} was optional and cannot be required: rows already written may have null there",
            column=new.name,
        )
