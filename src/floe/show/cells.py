"""Values of columns as people read them in a table: `NULL`, `2024-05-17 10:00:00Z`, `{city: "Rome", zip: null}`.

A null is told from the text "NULL", which is put in quotes, as texts within nested values are.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa

from floe.errors import CorruptFile
from floe.formats.arrow_values import to_values
from floe.show.styles import visible
from floe.show.variant_values import variant_value
from floe.spec.types import ListType, MapType, StructType, Type
from floe.spec.values import map_items, to_text
from floe.table.column_text import name_text

__all__ = ["NULL", "NUMBERS", "cell_texts", "value_text"]

NULL: Final = "NULL"
NUMBERS: Final = frozenset({"int", "long", "float", "double", "decimal"})
"""The kinds of types whose values stand on the right."""

_MOMENTS: Final = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_BYTES: Final = frozenset({"binary", "fixed"})


def cell_texts(type_: Type, array: pa.Array) -> list[str | None]:
    """The texts of a column's values, None for null.

    >>> from floe.spec.types import DATE, STRING
    >>> cell_texts(DATE, pa.array([19860, None], pa.date32())), cell_texts(STRING, pa.array(["a", "NULL"]))
    (['2024-05-17', None], ['a', '"NULL"'])
    """
    texts = [None if value is None else visible(value_text(type_, value)) for value in to_values(type_, array)]
    return [f'"{NULL}"' if text == NULL else text for text in texts]


def value_text(type_: Type, value: Any) -> str:
    """The text of one value, in the form that `floe.spec.values` describes.

    >>> from floe.table.ddl import parse_column_type
    >>> value_text(
    ...     parse_column_type("struct<city: string, tags: map<string, int>>"), {"city": "Rome", "tags": {"a": 1}}
    ... )
    '{city: "Rome", tags: {"a": 1}}'
    >>> value_text(parse_column_type("binary"), b"ice"), value_text(parse_column_type("timestamptz"), 0)
    ('0x696365', '1970-01-01 00:00:00Z')
    """
    if type_.kind in _MOMENTS:
        return to_text(type_, value).replace("T", " ").replace("+00:00", "Z")
    if type_.kind in _BYTES:
        return f"0x{value.hex()}"
    if type_.kind == "variant":
        return _variant_text(value)
    if isinstance(type_, StructType):
        inside = (f"{name_text(f.name)}: {_inner(f.type, value.get(f.name))}" for f in type_.fields)
        return "{" + ", ".join(inside) + "}"
    if isinstance(type_, ListType):
        return "[" + ", ".join(_inner(type_.element, item) for item in value) + "]"
    if isinstance(type_, MapType):
        pairs = (f"{_inner(type_.key, k)}: {_inner(type_.value, v)}" for k, v in map_items(value))
        return "{" + ", ".join(pairs) + "}"
    return to_text(type_, value)


def _inner(type_: Type, value: Any) -> str:
    if value is None:
        return "null"
    return json.dumps(value, ensure_ascii=False) if type_.kind == "string" else value_text(type_, value)


def _variant_text(data: bytes) -> str:
    try:
        return json.dumps(variant_value(data), ensure_ascii=False, default=str)
    except CorruptFile:
        return f"0x{data.hex()}"  # a listing should not fail for bytes that are no variant
