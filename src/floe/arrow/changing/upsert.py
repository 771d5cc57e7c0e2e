"""Upsert: rows that are there by their keys are brought up to date, the others are added.

Rows that would not change are left alone, so that doing it again does nothing. Keys are compared so that null equals
null, for the same reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from floe.arrow.changing.base import SOURCE, Base, Made
from floe.arrow.changing.joining import KeyIndex
from floe.arrow.changing.merge import Clause, Match, Then, merge
from floe.arrow.changing.source import Source
from floe.arrow.values.nodes import Call, Name, Node
from floe.errors import InvalidInput, InvalidSchema
from floe.spec.schemas.schema import Schema

__all__ = ["upsert"]


def upsert(base: Base, source: Source, on: str | Sequence[str] | None = None) -> Made:
    """The change that an upsert makes; without columns to match by, those of the table's identifier fields."""
    keys = _keys(base.schema, on)
    if not len(source):
        return Made(None)
    _check_columns(base.schema, source, keys)
    index = KeyIndex([_column(source, key) for key in keys], [True] * len(keys))
    if index.has_duplicates:
        row = source.table.slice(index.first_duplicate(), 1).to_pylist()[0]
        shown = ", ".join(f"{key} = {_value(row, key)!r}" for key in keys)
        raise InvalidInput(
            f"two rows of the data have the same key: {shown}", hint="leave one of them, or match by more columns"
        )
    others = [field.name for field in source.schema.fields if field.name not in keys]
    clauses = [Clause(Match.NOT_MATCHED, Then.INSERT)]
    if others:
        differs = Call(-1, "differs", tuple(side for name in others for side in _sides((name,))))
        clauses.insert(
            0, Clause(Match.MATCHED, Then.UPDATE, {name: Name(-1, (SOURCE, name)) for name in others}, differs)
        )
    equal = Call(-1, "and", tuple(Call(-1, "<=>", _sides(tuple(key.split(".")))) for key in keys))
    made = merge(base, source, equal, clauses, statement="upsert")
    changed = made.counts.updated + made.counts.inserted
    return replace(made, counts=replace(made.counts, unchanged=max(len(source) - changed, 0)))


def _sides(path: tuple[str, ...]) -> tuple[Node, Node]:
    return Name(-1, ("t", *path)), Name(-1, (SOURCE, *path))


def _keys(schema: Schema, on: str | Sequence[str] | None) -> list[str]:
    if on is None:
        if not schema.identifier_names:
            raise InvalidInput(
                "an upsert needs columns to match by, and the table has no identifier fields",
                hint='write on=["id"], or set identifier fields with evolve().set_identifier_fields("id")',
            )
        return list(schema.identifier_names)
    keys = [on] if isinstance(on, str) else list(on)
    if not keys or len(set(keys)) < len(keys):
        raise InvalidInput(f"an upsert needs columns to match by, each once; found {keys!r:.80}")
    for key in keys:
        type_ = schema.field(key).type
        if type_.is_nested or type_.kind in ("variant", "geometry", "geography", "unknown"):
            raise InvalidInput(f"values of type {type_} cannot be keys", column=key)
    return keys


def _check_columns(schema: Schema, source: Source, keys: Sequence[str]) -> None:
    for key in keys:
        if not source.schema.has(key):
            raise InvalidSchema("the data has no such key column", column=key)
    known = [field.name for field in schema.fields]
    for field in source.schema.fields:
        if field.name not in known:
            raise InvalidSchema(
                "the data has a column that the table has not",
                hint=f"leave it out, or pass merge_schema=True to add it; columns are {', '.join(known[:20])}",
                column=field.name,
            )


def _column(source: Source, key: str) -> Any:
    first, *rest = source.schema.resolve(key).path
    array = source.whole.column(first)
    for name in rest:
        array = array.field(name)
    return array


def _value(row: dict[str, Any], key: str) -> Any:
    found: Any = row
    for part in key.split("."):
        found = None if found is None else found[part]
    return found
