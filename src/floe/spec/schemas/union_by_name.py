"""The changes that add the columns of another schema to a schema (schema merging by name).

New columns are added as optional, types are widened, a column becomes optional where it is so in the other schema, and
its docs and write defaults are taken over. Nothing is dropped, narrowed or made required. Field ids of the other schema
are ignored.

>>> from floe.spec.types import INT, LONG
>>> existing, other = Schema((Field(1, "a", INT),)), Schema((Field(7, "a", LONG), Field(8, "b", INT)))
>>> for change in union_changes(existing, other, format_version=2):
...     print(change)
Promote(field_id=1, type=LONG)
AddField(parent_id=None, field=Field(id=8, name='b', type=INT, ...))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from floe.errors import IncompatibleChange, InvalidSchema
from floe.spec.schemas.promotion import can_promote, promote_value
from floe.spec.schemas.schema import Schema, same_default
from floe.spec.types import Field, Type


@dataclass(frozen=True, slots=True)
class AddField:
    """Add a field to the struct of an id (None: the schema itself); its field ids are not assigned yet."""

    parent_id: int | None
    field: Field


@dataclass(frozen=True, slots=True)
class Promote:
    """Change the type of a field."""

    field_id: int
    type: Type


@dataclass(frozen=True, slots=True)
class MakeOptional:
    """Allow nulls in a field."""

    field_id: int


@dataclass(frozen=True, slots=True)
class SetDoc:
    """Change the documentation of a field."""

    field_id: int
    doc: str


@dataclass(frozen=True, slots=True)
class SetWriteDefault:
    """Change the write default of a field."""

    field_id: int
    value: Any


Change: TypeAlias = AddField | Promote | MakeOptional | SetDoc | SetWriteDefault


def union_changes(
    existing: Schema, other: Schema, *, format_version: int, case_sensitive: bool = True
) -> Iterator[Change]:
    """Yield the changes that make the existing schema contain the other one, in the order of the other's fields.

    New fields inside existing ones come before their siblings, so that they get the same ids as in Java. The caller
    checks whether a promotion is allowed; a struct, list or map that would become something else raises here.
    """
    union = _Union(format_version, str if case_sensitive else str.lower)
    return union.structs(None, existing.fields, other.fields, ())


@dataclass(frozen=True, slots=True)
class _Union:
    format_version: int
    fold: Callable[[str], str]

    def structs(
        self,
        parent_id: int | None,
        existing_fields: tuple[Field, ...],
        other_fields: tuple[Field, ...],
        path: tuple[str, ...],
    ) -> Iterator[Change]:
        matched: set[int] = set()
        added: list[Field] = []
        by_name: dict[str, list[Field]] = {}
        for field in existing_fields:
            by_name.setdefault(self.fold(field.name), []).append(field)
        for other in other_fields:
            existing = _matching_field(other.name, by_name.get(self.fold(other.name), []), path)
            if existing is None:
                added.append(other)
                continue
            if existing.id in matched:
                raise InvalidSchema(
                    f"two fields of the other schema match {existing.name!r}", column=".".join((*path, existing.name))
                )
            matched.add(existing.id)
            yield from self.fields(existing, other, (*path, existing.name))
        for other in added:
            yield AddField(parent_id, replace(other, required=False))

    def fields(self, existing: Field, other: Field, path: tuple[str, ...]) -> Iterator[Change]:
        if other.optional and existing.required:
            yield MakeOptional(existing.id)
        widened = existing.type
        if existing.type.is_nested and existing.type.kind == other.type.kind:
            if existing.type.kind == "struct":
                yield from self.structs(existing.id, existing.type.fields, other.type.fields, path)
            else:
                for existing_child, other_child in zip(existing.type.fields, other.type.fields, strict=True):
                    yield from self.fields(existing_child, other_child, (*path, existing_child.name))
        elif not self.fits(other.type, existing.type):
            if other.type.is_nested != existing.type.is_nested and existing.type.kind != "unknown":
                name = ".".join(path)
                raise IncompatibleChange(
                    f"cannot merge {name!r}: it is {existing.type} in the table, {other.type} in the other schema",
                    hint="a struct, list or map cannot become a primitive, nor the reverse",
                    column=name,
                )
            widened = other.type
            yield Promote(existing.id, widened)
        if other.doc is not None and other.doc != existing.doc:
            yield SetDoc(existing.id, other.doc)
        if other.write_default is not None:
            # field ids of the other schema are ignored: nested values are keyed by name and taken as they are
            nested = widened.is_nested
            value = other.write_default if nested else promote_value(other.type, widened, other.write_default)
            if not same_default(value, existing.write_default):
                yield SetWriteDefault(existing.id, value)

    def fits(self, other: Type, existing: Type) -> bool:
        """Whether values of the other type fit the existing one: it is the same or narrower, or has only nulls."""
        return other.kind == "unknown" or can_promote(other, existing, self.format_version)


def _matching_field(name: str, candidates: list[Field], path: tuple[str, ...]) -> Field | None:
    """Return the field with exactly this name, or else the only one that differs in case."""
    exact = [field for field in candidates if field.name == name]
    if len(candidates) > 1 and not exact:
        raise InvalidSchema(
            f"{name!r} may refer to {' or '.join(repr(f.name) for f in candidates)}", column=".".join((*path, name))
        )
    return next(iter(exact or candidates), None)
