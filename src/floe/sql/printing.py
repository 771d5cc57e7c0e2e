"""Partition specs and sort orders as people write them: `day(ts)`, `bucket(16, id) as shard`, `ts desc nulls first`.

>>> from floe.spec.partitioning.terms import build_spec
>>> from floe.spec.sort_order import build_order
>>> from floe.sql.columns import parse_columns
>>> schema = parse_columns("id bigint, ts timestamptz")
>>> partition_terms(build_spec(schema, ["day(ts)", "bucket(16, id) as shard"]), schema)
('day(ts)', 'bucket(16, id) as shard')
>>> sort_terms(build_order(schema, ["ts desc", "id nulls last"]), schema)
('ts desc', 'id nulls last')

Columns and types as people write them: text that `floe.sql.columns` reads back, without the ids of fields.

>>> from floe.sql.columns import parse_columns
>>> print(columns_text(parse_columns("id bigint not null, tags array<string> comment 'labels', primary key (id)")))
id long not null,
tags list<string> comment 'labels',
primary key (id)
"""

from __future__ import annotations

import re

from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.partitioning.terms import default_name
from floe.spec.partitioning.transforms import Bucket, Identity, TimeTransform, Transform, Truncate, Void
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import NullOrder, SortDirection, SortOrder
from floe.spec.types import Field, ListType, MapType, StructType, Type

# Columns and types as people write them: text that `floe.sql.columns` reads back, without the ids of fields.


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

    >>> from floe.sql.columns import parse_column_type
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


def partition_terms(spec: PartitionSpec, schema: Schema) -> tuple[str, ...]:
    """The terms that make a spec; fields that no longer split anything (`void`) are left out."""
    terms = []
    for field in spec.fields:
        if isinstance(field.transform, Void):
            continue
        term = _term(field.transform, field.source_ids, schema)
        entry = schema.by_id.get(field.source_id)
        usual = (
            {default_name(entry.name, field.transform), f"{entry.name}{_numbered(field.transform)}"} if entry else set()
        )
        terms.append(term if field.name in usual else f"{term} as {name_text(field.name)}")
    return tuple(terms)


def sort_terms(order: SortOrder, schema: Schema) -> tuple[str, ...]:
    """The terms that make a sort order; what holds without being said is left out."""
    terms = []
    for field in order.fields:
        descending = field.direction is SortDirection.DESC
        term = _term(field.transform, field.source_ids, schema) + " desc" * descending
        usual = NullOrder.NULLS_LAST if descending else NullOrder.NULLS_FIRST
        terms.append(term if field.null_order is usual else f"{term} {field.null_order.value.replace('-', ' ')}")
    return tuple(terms)


def spelled_sort_terms(order: SortOrder, schema: Schema) -> tuple[str, ...]:
    """The terms that make a sort order with all that holds, as Java prints them; they are understood like the others.

    >>> from floe.spec.sort_order import build_order
    >>> from floe.spec.types import LONG, STRING, Field
    >>> schema = Schema((Field(1, "id", LONG), Field(2, "c", STRING)))
    >>> spelled_sort_terms(build_order(schema, ["c desc", "bucket(16, id)", "truncate(4, c)"]), schema)
    ('c DESC NULLS LAST', 'bucket(16, id) ASC NULLS FIRST', 'truncate(c, 4) ASC NULLS FIRST')
    """
    terms = []
    for field in order.fields:
        match field.transform:
            case Truncate(width=number):
                term = f"truncate({', '.join(_column(i, schema) for i in field.source_ids)}, {number})"
            case TimeTransform():
                term = f"{field.transform}s({', '.join(_column(i, schema) for i in field.source_ids)})"
            case _:
                term = _term(field.transform, field.source_ids, schema)
        terms.append(f"{term} {field.direction.value.upper()} {field.null_order.value.replace('-', ' ').upper()}")
    return tuple(terms)


def _term(transform: Transform, source_ids: tuple[int, ...], schema: Schema) -> str:
    columns = ", ".join(_column(i, schema) for i in source_ids)
    match transform:
        case Identity():
            return columns
        case Bucket(n=number):
            return f"bucket({number}, {columns})"
        case Truncate(width=number):
            return f"truncate({number}, {columns})"
        case _:
            return f"{transform}({columns})"


def _numbered(transform: Transform) -> str:
    """The end of the name that a field gets when it is added to a table that is there."""
    match transform:
        case Bucket(n=number):
            return f"_bucket_{number}"
        case Truncate(width=number):
            return f"_trunc_{number}"
        case _:
            return ""


def _column(field_id: int, schema: Schema) -> str:
    entry = schema.by_id.get(field_id)
    return f"column {field_id}" if entry is None else ".".join(map(name_text, entry.path))
