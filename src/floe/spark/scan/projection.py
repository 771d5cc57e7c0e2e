"""The columns that a query needs, as Spark says it by names, as a schema that says it by ids."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from floe.errors import NoSuchColumn
from floe.spark.columns import SparkField, SparkType
from floe.spec.schemas.metadata_columns import metadata_column
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, ListType, MapType, StructType, Type

__all__ = ["projected"]


def projected(schema: Schema, wanted: SparkType, partition_type: StructType) -> Schema:
    """The part of a schema that a Spark schema names, nested parts too, in the order in which it does.

    >>> from floe.table.ddl import parse_columns
    >>> struct = {"type": "struct", "fields": [{"name": "b", "type": "string"}]}
    >>> wanted = {"type": "struct", "fields": [{"name": "s", "type": struct}, {"name": "_pos", "type": "long"}]}
    >>> print(projected(parse_columns("id int, s struct<a: int, b: string>"), wanted, StructType(())))
    table {
      2: s: optional struct<4: b: optional string>
      2147483645: _pos: required long (position of the row in its file, from 0)
    }
    """
    return Schema(tuple(_top_level(schema, field, partition_type) for field in wanted["fields"]))


def _top_level(schema: Schema, wanted: SparkField, partition_type: StructType) -> Field:
    own = _named(schema.fields, wanted["name"])
    if own is not None:
        return _narrowed(own, wanted["type"])
    found = metadata_column(wanted["name"], partition_type=partition_type)
    if found is None:
        raise NoSuchColumn(f"the table has no column {wanted['name']!r}")
    return _narrowed(found, wanted["type"])


def _named(fields: Iterable[Field], name: str) -> Field | None:
    return next((field for field in fields if field.name == name), None)


def _narrowed(field: Field, wanted: SparkType) -> Field:
    return replace(field, type=_type(field.type, wanted))


def _type(type_: Type, wanted: Any) -> Type:
    if isinstance(wanted, str):
        return type_
    match type_:
        case StructType():
            children = []
            for child in wanted["fields"]:
                found = _named(type_.fields, child["name"])
                if found is None:
                    raise NoSuchColumn(f"there is no field {child['name']!r} in {type_}")
                children.append(_narrowed(found, child["type"]))
            return StructType(tuple(children))
        case ListType():
            return replace(type_, element=_type(type_.element, wanted["elementType"]))
        case MapType():
            key, value = _type(type_.key, wanted["keyType"]), _type(type_.value, wanted["valueType"])
            return replace(type_, key=key, value=value)
        case _:
            return type_
