"""Parts of a schema, chosen by name or by field id, at any depth (spec: Column Projection).

Where a data file has the values of such a part is the subject of `column_resolution`.

>>> from floe.spec.types import INT, LONG
>>> schema = Schema((Field(1, "id", LONG), Field(2, "x", INT), Field(3, "y", INT)))
>>> [field.name for field in select(schema, ["y", "id"])]
['id', 'y']
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from floe.spec.schemas.metadata_columns import metadata_column
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_fields import with_children
from floe.spec.types import Field, StructType

__all__ = ["project", "prune", "select"]


def select(
    schema: Schema,
    names: str | Iterable[str | Sequence[str]],
    *,
    case_sensitive: bool = True,
    partition_type: StructType | None = None,
) -> Schema:
    """The part of a schema that names, or paths, choose; a text is one name. The columns stay in the table's order.

    The name of a struct, list or map chooses all of it, that of a nested field (`st.a`) keeps the structs around it
    with what is chosen inside. `*` stands for all columns. Metadata columns (`_file`, `_row_id`, …) may be named too
    and come last, in the order asked for; `_partition` needs the table's partition type.

    >>> from floe.spec.types import INT
    >>> schema = Schema((Field(1, "st", StructType((Field(2, "a", INT), Field(3, "b", INT)))), Field(4, "c", INT)))
    >>> print(select(schema, ["_pos", "st.b"]))
    table {
      1: st: optional struct<3: b: optional int>
      2147483645: _pos: required long (position of the row in its file, from 0)
    }
    """
    ids: set[int] = set()
    extras: dict[int, Field] = {}
    for name in (names,) if isinstance(names, str) else names:
        if name == "*" and not schema.has("*", case_sensitive=case_sensitive):
            ids.update(field.id for field in schema.fields)
        elif (
            isinstance(name, str)
            and not schema.has(name, case_sensitive=case_sensitive)
            and (column := metadata_column(name if case_sensitive else name.lower(), partition_type=partition_type))
        ):
            extras[column.id] = column
        else:
            ids.add(schema.resolve(name, case_sensitive=case_sensitive).field.id)
    part = project(schema, ids)
    return replace(part, fields=(*part.fields, *extras.values())) if extras else part


def project(schema: Schema, ids: Collection[int]) -> Schema:
    """The part of a schema that field ids choose; of a chosen struct, list or map all, of others what is chosen inside.

    The keys of a map are never cut down. The identifier fields stay only if all of them do. Ids that the schema does
    not have choose nothing.

    >>> from floe.spec.types import INT
    >>> project(Schema((Field(1, "a", INT), Field(2, "b", INT))), {2}).fields[0].name
    'b'
    """
    wanted = frozenset(ids)
    return _with_fields(schema, _chosen(schema.fields, wanted))


def prune(schema: Schema, ids: Collection[int]) -> Schema:
    """The schema without the fields of these ids; structs, lists and maps with nothing left inside go as well.

    >>> from floe.spec.types import INT
    >>> st = Field(1, "st", StructType((Field(2, "a", INT), Field(3, "b", INT))))
    >>> print(prune(Schema((st,)), {2}).fields[0])
    1: st: optional struct<3: b: optional int>
    """
    dropped = frozenset(ids)
    return _with_fields(schema, _left(schema.fields, dropped))


def _with_fields(schema: Schema, fields: tuple[Field, ...]) -> Schema:
    bare = replace(schema, fields=fields, identifier_field_ids=())
    if all(i in bare.by_id for i in schema.identifier_field_ids):
        return replace(bare, identifier_field_ids=schema.identifier_field_ids)
    return bare


def _chosen(fields: tuple[Field, ...], wanted: frozenset[int]) -> tuple[Field, ...]:
    kept = (field if field.id in wanted else _chosen_inside(field, wanted) for field in fields)
    return tuple(field for field in kept if field is not None)


def _chosen_inside(field: Field, wanted: frozenset[int]) -> Field | None:
    inside = _chosen(field.type.fields, wanted)
    if not inside:
        return None
    if field.type.kind == "map":
        key, value = field.type.fields
        # Keys cut down may become equal, so they stay whole; and there is no key without its value.
        inside = (key, next((child for child in inside if child.id == value.id), value))
    return replace(field, type=with_children(field.type, inside))


def _left(fields: tuple[Field, ...], dropped: frozenset[int]) -> tuple[Field, ...]:
    kept = (_left_of(field, dropped) for field in fields if field.id not in dropped)
    return tuple(field for field in kept if field is not None)


def _left_of(field: Field, dropped: frozenset[int]) -> Field | None:
    children = field.type.fields
    if not children:
        return field
    if field.type.kind == "map":
        key, value = children
        left = _left((value,), dropped)
        children = (key, *left) if left and key.id not in dropped else ()
    else:
        children = _left(children, dropped)
    return replace(field, type=with_children(field.type, children)) if children else None
