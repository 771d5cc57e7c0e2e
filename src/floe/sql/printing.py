"""Partition specs and sort orders as people write them: `day(ts)`, `bucket(16, id) as shard`, `ts desc nulls first`.

>>> from floe.spec.partitioning.building import build_spec
>>> from floe.spec.sorting import build_order
>>> from floe.table.ddl import parse_columns
>>> schema = parse_columns("id bigint, ts timestamptz")
>>> partition_terms(build_spec(schema, ["day(ts)", "bucket(16, id) as shard"]), schema)
('day(ts)', 'bucket(16, id) as shard')
>>> sort_terms(build_order(schema, ["ts desc", "id nulls last"]), schema)
('ts desc', 'id nulls last')
"""

from __future__ import annotations

from floe.spec.partitioning.building import default_name
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.partitioning.transforms import Bucket, Identity, TimeTransform, Transform, Truncate, Void
from floe.spec.schemas.schema import Schema
from floe.spec.sorting import NullOrder, SortDirection, SortOrder
from floe.table.column_text import name_text

__all__ = ["partition_terms", "sort_terms", "spelled_sort_terms"]


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

    >>> from floe.spec.sorting import build_order
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
