"""Properties that speak of columns by name: they follow when columns are renamed, dropped and added.

The name mapping (`schema.name-mapping.default`) leads from the names in imported files to columns: it learns new names,
and keeps the old ones for the files that have them. Settings of single columns, such as
`write.metadata.metrics.column.<name>`, go where their column goes, as in Java Iceberg.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from floe.errors import FloeError
from floe.spec.metadata.updates import RemoveProperties, SetProperties, TableUpdate
from floe.spec.schemas.name_mapping import (
    NAME_MAPPING_PROPERTY,
    format_name_mapping,
    parse_name_mapping,
    update_mapping,
)
from floe.spec.schemas.schema import Schema

__all__ = ["COLUMN_PREFIXES", "column_property_updates"]

COLUMN_PREFIXES: Final = (
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.stats-enabled.column.",
)
"""Properties whose names end with that of a column."""


def column_property_updates(properties: Mapping[str, str], before: Schema, after: Schema) -> Sequence[TableUpdate]:
    """What a change of the schema means for a table's properties; mostly nothing.

    >>> from floe.spec.types import Field, INT
    >>> before, after = Schema((Field(1, "a", INT),)), Schema((Field(1, "b", INT),))
    >>> column_property_updates({"write.metadata.metrics.column.a": "full"}, before, after)
    (SetProperties(updates={'write.metadata.metrics.column.b': 'full'}),
     RemoveProperties(removals=('write.metadata.metrics.column.a',)))
    """
    wanted = _moved_settings(properties, before, after) | _mapping(properties, before, after)
    changed = {name: value for name, value in wanted.items() if value is not None and properties.get(name) != value}
    gone = tuple(name for name, value in wanted.items() if value is None)
    return (
        *([SetProperties(changed)] if changed else []),
        *([RemoveProperties(gone)] if gone else []),
    )


def _moved_settings(properties: Mapping[str, str], before: Schema, after: Schema) -> dict[str, str | None]:
    """The settings of columns that have another name now, or are gone (None)."""
    moved: dict[str, str | None] = {}
    added: dict[str, str | None] = {}
    for name, value in properties.items():
        prefix = next((each for each in COLUMN_PREFIXES if name.startswith(each)), None)
        column = name.removeprefix(prefix or "")
        if prefix is None or not before.has(column):
            continue
        field_id = before.field(column).id
        now = after.name_of(field_id) if field_id in after.by_id else None
        if now != before.name_of(field_id):
            moved[name] = None
            if now is not None:
                added[prefix + now] = value
    return moved | added  # two columns may have swapped their names


def _mapping(properties: Mapping[str, str], before: Schema, after: Schema) -> dict[str, str | None]:
    text = properties.get(NAME_MAPPING_PROPERTY)
    if text is None:
        return {}
    try:
        return {NAME_MAPPING_PROPERTY: format_name_mapping(update_mapping(parse_name_mapping(text), before, after))}
    except FloeError:  # a mapping that nobody can read must not stand in the way of a new column
        return {}
