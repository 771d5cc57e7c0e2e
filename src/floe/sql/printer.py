"""SQL text of schemas, types, partition specs and sort orders, which the parsers of Floe read again.

>>> from floe.sql.columns import parse_columns
>>> print(columns_text(parse_columns("id bigint not null, tags array<string> comment 'labels', primary key (id)")))
id long not null,
tags list<string> comment 'labels',
primary key (id)

>>> from floe.spec.partitioning.transform_terms import build_spec
>>> from floe.spec.sort_order import build_order
>>> schema = parse_columns("id bigint, ts timestamptz")
>>> partition_terms(build_spec(schema, ["day(ts)", "bucket(16, id) as shard"]), schema)
('day(ts)', 'bucket(16, id) as shard')
>>> sort_terms(build_order(schema, ["ts desc", "id nulls last"]), schema)
('ts desc', 'id nulls last')
"""

from __future__ import annotations

import re

from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.partitioning.transform_terms import default_name
from floe.spec.partitioning.transforms import Bucket, Identity, TimeTransform, Transform, Truncate, Void
from floe.spec.schemas.schema import Schema
from floe.spec.sort_order import NullOrder, SortDirection, SortOrder
from floe.spec.types import Field, ListType, MapType, StructType, Type

# Columns and types ----------------------------------------------------------------------------------------------------


def columns_text(schema: Schema) -> str:
    """The text of a schema: a line for each column, and the identifier fields as the primary key; without defaults.

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
    """The text of a type, without the field ids that `str` has.

    >>> from floe.sql.columns import parse_column_type
    >>> type_text(parse_column_type("struct<a: int not null, b: map<string, int>>"))
    'struct<a: int not null, b: map<string, int>>'
    """
    match type_:
        case StructType():
            return f"struct<{', '.join(_field_text(field, ': ') for field in type_.fields)}>"
        case ListType():
            return f"list<{type_text(type_.element)}{_not_null(type_.element_required)}>"
        case MapType():
            return f"map<{type_text(type_.key)}, {type_text(type_.value)}{_not_null(type_.value_required)}>"
        case _:
            return str(type_)


def _field_text(field: Field, separator: str) -> str:
    text = f"{name_text(field.name)}{separator}{type_text(field.type)}{_not_null(field.required)}"
    return text if field.doc is None else f"{text} comment {_quote(field.doc)}"


def _not_null(required: bool) -> str:
    return " not null" if required else ""


def name_text(name: str) -> str:
    """A name, in back-quotes if it needs them.

    >>> name_text("a"), name_text("a.b")
    ('a', '`a.b`')
    """
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


# Partition specs and sort orders --------------------------------------------------------------------------------------


def partition_terms(spec: PartitionSpec, schema: Schema) -> tuple[str, ...]:
    """The terms of a partition spec, such as `bucket(16, id) as shard`; `void` fields are left out."""
    terms = []
    for field in spec.fields:
        if isinstance(field.transform, Void):
            continue
        term = _term(field.transform, field.source_ids, schema)
        entry = schema.by_id.get(field.source_id)
        default_names = (
            {default_name(entry.name, field.transform), f"{entry.name}{_numbered_suffix(field.transform)}"}
            if entry
            else set()
        )
        terms.append(term if field.name in default_names else f"{term} as {name_text(field.name)}")
    return tuple(terms)


def sort_terms(order: SortOrder, schema: Schema) -> tuple[str, ...]:
    """The terms of a sort order, such as `ts desc`; default directions and null orders are left out."""
    terms = []
    for field in order.fields:
        descending = field.direction is SortDirection.DESC
        term = _term(field.transform, field.source_ids, schema) + " desc" * descending
        default = NullOrder.NULLS_LAST if descending else NullOrder.NULLS_FIRST
        terms.append(term if field.null_order is default else f"{term} {field.null_order.value.replace('-', ' ')}")
    return tuple(terms)


def explicit_sort_terms(order: SortOrder, schema: Schema) -> tuple[str, ...]:
    """The terms of a sort order with all directions and null orders, in the form of Iceberg's Java library.

    >>> from floe.spec.sort_order import build_order
    >>> from floe.spec.types import LONG, STRING, Field
    >>> schema = Schema((Field(1, "id", LONG), Field(2, "c", STRING)))
    >>> explicit_sort_terms(build_order(schema, ["c desc", "bucket(16, id)", "truncate(4, c)"]), schema)
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


def _numbered_suffix(transform: Transform) -> str:
    """The suffix of the default name of a field that is added to an existing spec, which has the parameter."""
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
