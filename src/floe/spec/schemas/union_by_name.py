"""What to change in a schema so that it also holds the columns of another (merging schemas by name).

New columns are added as optional ones, types are widened, a column becomes optional where it is so in the other schema,
and its docs and write defaults are taken over. Nothing is ever dropped, narrowed or made required; ids of the other
schema mean nothing.

>>> from floe.spec.types import INT, LONG
>>> ours, other = Schema((Field(1, "a", INT),)), Schema((Field(7, "a", LONG), Field(8, "b", INT)))
>>> for change in union_changes(ours, other, format_version=2):
...     print(change)
Promote(field_id=1, type=LONG)
AddField(parent_id=None, field=Field(id=8, name='b', type=INT, ...))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from floe.errors import IncompatibleChange, InvalidSchema
from floe.spec.schemas.defaults import same_default
from floe.spec.schemas.promotion import can_promote, promote_value
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, Type

__all__ = ["AddField", "Change", "MakeOptional", "Promote", "SetDoc", "SetWriteDefault", "union_changes"]


@dataclass(frozen=True, slots=True)
class AddField:
    """Add a field to the struct of that id (None: the schema itself); its ids are still to be assigned."""

    parent_id: int | None
    field: Field


@dataclass(frozen=True, slots=True)
class Promote:
    """Change the type of a field."""

    field_id: int
    type: Type


@dataclass(frozen=True, slots=True)
class MakeOptional:
    """Allow nulls."""

    field_id: int


@dataclass(frozen=True, slots=True)
class SetDoc:
    """Change the documentation of a field."""

    field_id: int
    doc: str


@dataclass(frozen=True, slots=True)
class SetWriteDefault:
    """Change the value that writers fill in."""

    field_id: int
    value: Any


Change: TypeAlias = AddField | Promote | MakeOptional | SetDoc | SetWriteDefault


def union_changes(
    existing: Schema, other: Schema, *, format_version: int, case_sensitive: bool = True
) -> Iterator[Change]:
    """The changes that make the existing schema hold the other one too, in the order of the other's fields.

    New fields inside existing ones come before those beside them, so that they get the ids which Java gives them.
    Whether a change of type is allowed is for whoever applies it to say; a struct, list or map that would have to
    turn into something else is refused here.
    """
    union = _Union(format_version, str if case_sensitive else str.lower)
    return union.structs(None, existing.fields, other.fields, ())


@dataclass(frozen=True, slots=True)
class _Union:
    format_version: int
    fold: Callable[[str], str]

    def structs(
        self, parent_id: int | None, ours: tuple[Field, ...], theirs: tuple[Field, ...], path: tuple[str, ...]
    ) -> Iterator[Change]:
        matched: set[int] = set()
        added: list[Field] = []
        alike: dict[str, list[Field]] = {}
        for field in ours:
            alike.setdefault(self.fold(field.name), []).append(field)
        for their in theirs:
            our = _partner(their.name, alike.get(self.fold(their.name), []), path)
            if our is None:
                added.append(their)
                continue
            if our.id in matched:
                raise InvalidSchema(
                    f"two fields of the other schema mean {our.name!r}", column=".".join((*path, our.name))
                )
            matched.add(our.id)
            yield from self.fields(our, their, (*path, our.name))
        for their in added:
            yield AddField(parent_id, replace(their, required=False))

    def fields(self, our: Field, their: Field, path: tuple[str, ...]) -> Iterator[Change]:
        if their.optional and our.required:
            yield MakeOptional(our.id)
        widened = our.type
        if our.type.is_nested and our.type.kind == their.type.kind:
            if our.type.kind == "struct":
                yield from self.structs(our.id, our.type.fields, their.type.fields, path)
            else:
                for our_child, their_child in zip(our.type.fields, their.type.fields, strict=True):
                    yield from self.fields(our_child, their_child, (*path, our_child.name))
        elif not self.fits(their.type, our.type):
            if their.type.is_nested != our.type.is_nested and our.type.kind != "unknown":
                name = ".".join(path)
                raise IncompatibleChange(
                    f"cannot merge {name!r}: it is {our.type} in the table, {their.type} in the other schema",
                    hint="a struct, list or map and a single value do not turn into each other",
                    column=name,
                )
            widened = their.type
            yield Promote(our.id, widened)
        if their.doc is not None and their.doc != our.doc:
            yield SetDoc(our.id, their.doc)
        if their.write_default is not None:
            # the ids of the other schema mean nothing, so what is nested is taken as it is, by name
            nested = widened.is_nested
            value = their.write_default if nested else promote_value(their.type, widened, their.write_default)
            if not same_default(value, our.write_default):
                yield SetWriteDefault(our.id, value)

    def fits(self, theirs: Type, ours: Type) -> bool:
        """Whether values of their type need no change of ours: it is the same or narrower, or knows only nulls."""
        return theirs.kind == "unknown" or can_promote(theirs, ours, self.format_version)


def _partner(name: str, alike: list[Field], path: tuple[str, ...]) -> Field | None:
    """Of our fields that differ from a name in case at most, the one spelt the same, or else the only one."""
    exact = [field for field in alike if field.name == name]
    if len(alike) > 1 and not exact:
        raise InvalidSchema(
            f"{name!r} may mean {' or '.join(repr(f.name) for f in alike)}", column=".".join((*path, name))
        )
    return next(iter(exact or alike), None)
