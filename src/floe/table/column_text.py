"""Columns and types as people write them: text that `floe.table.ddl` reads back, without the ids of fields.

>>> from floe.table.ddl import parse_columns
>>> print(columns_text(parse_columns("id bigint not null, tags array<string> comment 'labels', primary key (id)")))
id long not null,
tags list<string> comment 'labels',
primary key (id)
"""

from __future__ import annotations

import re

from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, ListType, MapType, StructType, Type

__all__ = ["columns_text", "name_text", "type_text"]


def columns_text(schema: Schema) -> str:
    """The columns, one line for each, and the identifier fields as the primary key; defaults are left out.

    >>> from floe.spec.types import LONG
    >>> columns_text(Schema((Field(1, "a b", LONG, required=True),)))
    '`a b` long not null'
    """
    lines = [_field_text(field, " ") for field in schema.fields]
    keys = [entry.path for i, entry in schema.by_id.items() if i in schema.identifier_field_ids]
    if keys:
        lines.append(f"primary key ({', '.join('.'.join(map(name_text, path)) for path in keys)})")
    return ",\n".join(lines)


def type_text(type_: Type) -> str:
    """The type as people write it, without the field ids that its own text has.

    >>> from floe.table.ddl import parse_column_type
    >>> type_text(parse_column_type("struct<a: int not null, b: map<string, int>>"))
    'struct<a: int not null, b: map<string, int>>'
    """
    match type_:
        case StructType():
            return f"struct<{', '.join(_field_text(field, ': ') for field in type_.fields)}>"
        case ListType():
            return f"list<{type_text(type_.element)}{_need(type_.element_required)}>"
        case MapType():
            return f"map<{type_text(type_.key)}, {type_text(type_.value)}{_need(type_.value_required)}>"
        case _:
            return str(type_)


def _field_text(field: Field, between: str) -> str:
    text = f"{name_text(field.name)}{between}{type_text(field.type)}{_need(field.required)}"
    return text if field.doc is None else f"{text} comment {_quoted(field.doc)}"


def _need(required: bool) -> str:
    return " not null" if required else ""


def name_text(name: str) -> str:
    """A name, in back-quotes where it needs them.

    >>> name_text("a"), name_text("a.b")
    ('a', '`a.b`')
    """
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"
