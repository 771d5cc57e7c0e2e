"""Columns of type unknown left out of Parquet files, at the top and inside structs (spec: Appendix A, Parquet).

They hold nothing but nulls, and read as such wherever a file lacks them. What would be left without any column, and
lists and maps of unknown values, have no form in Parquet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pyarrow as pa

from floe.errors import InvalidSchema
from floe.formats.arrow_conversion import Repeated
from floe.formats.arrow_types import arrow_type
from floe.spec.schemas.schema_fields import with_children
from floe.spec.types import Field, StructType

__all__ = ["drop_unknown", "stored_fields"]

Drop = Callable[[pa.Array], pa.Array]


def stored_fields(fields: Iterable[Field], path: tuple[str, ...] = ()) -> list[Field]:
    """The fields without those of type unknown, at any depth of structs.

    >>> from floe.spec.types import INT, UNKNOWN
    >>> inner = StructType((Field(2, "a", INT), Field(3, "u", UNKNOWN)))
    >>> [str(field) for field in stored_fields([Field(1, "s", inner), Field(4, "v", UNKNOWN)])]
    ['1: s: optional struct<2: a: optional int>']
    """
    return [_stored(field, (*path, field.name)) for field in fields if field.type.kind != "unknown"]


def _stored(field: Field, path: tuple[str, ...]) -> Field:
    if not field.type.is_nested:
        return field
    children = stored_fields(field.type.fields, path)
    if isinstance(field.type, StructType):
        if not children:
            raise InvalidSchema("Parquet has no struct without fields", column=".".join(path))
    elif len(children) < len(field.type.fields):
        raise InvalidSchema("Parquet has no lists or maps of unknown values", column=".".join(path))
    if tuple(children) == field.type.fields:
        return field
    return replace(field, type=with_children(field.type, tuple(children)))


def drop_unknown(field: Field, stored: Field) -> Drop | None:
    """What makes arrays of a field those of its stored form; None if both are the same."""
    if stored == field:
        return None
    wanted = arrow_type(stored.type)
    if isinstance(field.type, StructType):
        by_id = {child.id: (place, child) for place, child in enumerate(field.type.fields)}
        parts = [(by_id[child.id][0], drop_unknown(by_id[child.id][1], child)) for child in stored.type.fields]
        return lambda array: _struct(array, wanted, parts)
    inside = [drop_unknown(old, new) for old, new in zip(field.type.fields, stored.type.fields, strict=True)]
    return lambda array: _repeated(array, wanted, inside)


def _applied(drop: Drop | None, array: pa.Array) -> pa.Array:
    return array if drop is None else drop(array)


def _struct(array: pa.Array, wanted: pa.DataType, parts: list[tuple[int, Drop | None]]) -> pa.Array:
    array = pa.concat_arrays([array]) if array.offset else array
    children = [_applied(drop, array.field(place)) for place, drop in parts]
    return pa.Array.from_buffers(wanted, len(array), array.buffers()[:1], children=children)


def _repeated(array: pa.Array, wanted: pa.DataType, inside: list[Drop | None]) -> pa.Array:
    repeated = Repeated.of(array)
    if len(inside) == 1:
        children = [_applied(inside[0], repeated.items(array.values))]
    else:
        parts = [repeated.items(part) for part in (array.keys, array.items)]
        made = [_applied(drop, part) for drop, part in zip(inside, parts, strict=True)]
        entries = pa.struct([wanted.key_field, wanted.item_field])
        made = [pa.concat_arrays([part]) if part.offset else part for part in made]
        children = [pa.Array.from_buffers(entries, repeated.count, [None], children=made)]
    return pa.Array.from_buffers(wanted, len(array), [repeated.validity, repeated.offsets], children=children)
