"""Where the fields of a schema stand, and how their names lead to them.

`SchemaField` is a field together with the fields around it; `walk_fields` finds them all; `NameIndex` looks them up by
dotted name or by path; `with_children` puts a nested type together again from changed children.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from floe.errors import InvalidSchema
from floe.spec.types import Field, ListType, MapType, StructType, Type

__all__ = ["MAX_TYPE_DEPTH", "NameIndex", "SchemaField", "walk_fields", "with_children"]

MAX_TYPE_DEPTH = 100
"""How deep types may nest; deeper ones are refused rather than followed."""


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A field and where it stands: the fields from the top of the schema down to it."""

    field: Field
    ancestors: tuple[Field, ...]
    """The enclosing fields, outermost first; list elements, map keys and map values are among them."""

    ancestor_types: tuple[Type, ...]
    """The type that holds each step of `path`: struct, list or map."""

    @property
    def path(self) -> tuple[str, ...]:
        """The names from the top down to this field."""
        return (*(a.name for a in self.ancestors), self.field.name)

    @property
    def name(self) -> str:
        """The full dotted name."""
        return ".".join(self.path)

    @property
    def in_collection(self) -> bool:
        """Whether the field is a part of a list or map, so that a row may have many values of it."""
        return any(t.kind != "struct" for t in self.ancestor_types)

    @property
    def nullable(self) -> bool:
        """Whether reading the field from a row may give null: it, or a struct around it, is optional."""
        return self.field.optional or any(a.optional for a in self.ancestors)


def walk_fields(fields: Sequence[Field]) -> Iterator[SchemaField]:
    """Every field at any depth, parents before their children, without recursion; too deep a type is refused.

    >>> from floe.spec.types import INT, ListType
    >>> [entry.name for entry in walk_fields([Field(1, "a", ListType(3, INT)), Field(2, "b", INT)])]
    ['a', 'a.element', 'b']
    """
    root: Type = StructType(tuple(fields))
    stack: list[SchemaField] = [SchemaField(f, (), (root,)) for f in reversed(fields)]
    while stack:
        entry = stack.pop()
        yield entry
        own = entry.field.type
        if own.is_nested:
            if len(entry.ancestors) >= MAX_TYPE_DEPTH:
                raise InvalidSchema(f"types nest deeper than {MAX_TYPE_DEPTH} levels", column=entry.path[0])
            ancestors, holders = (*entry.ancestors, entry.field), (*entry.ancestor_types, own)
            stack.extend(SchemaField(child, ancestors, holders) for child in reversed(own.fields))


def with_children(type_: Type, children: Sequence[Field]) -> Type:
    """The nested type with other children: a struct's fields, a list's element, or a map's key and value.

    >>> from floe.spec.types import INT, LONG
    >>> with_children(ListType(3, INT), [Field(3, "element", LONG, required=True)])
    ListType(element_id=3, element=LONG, element_required=True)
    """
    if isinstance(type_, StructType):
        return replace(type_, _fields=tuple(children))
    if isinstance(type_, ListType):
        (element,) = children
        return replace(type_, element_id=element.id, element=element.type, element_required=element.required)
    if isinstance(type_, MapType):
        key, value = children
        return replace(
            type_,
            key_id=key.id,
            key=key.type,
            value_id=value.id,
            value=value.type,
            value_required=value.required,
        )
    return type_


class NameIndex:
    """Fields by their dotted names and by their paths.

    A name that no field has in full may leave out the `element` of a list and the `value` of a map before the field of
    a struct. Without regard to case, names are compared in lower case, as Spark and Java do.

    >>> from floe.spec.types import INT, ListType
    >>> points = Field(1, "points", ListType(2, StructType((Field(3, "X", INT),))))
    >>> index = NameIndex(walk_fields([points]), case_sensitive=False)
    >>> index.lookup("points.element.x"), index.lookup("points.x"), index.lookup(("points", "x"))
    ((3,), (3,), ())
    """

    __slots__ = ("_by_path", "_fold", "_full", "_short")

    def __init__(self, entries: Iterable[SchemaField], *, case_sensitive: bool) -> None:
        self._fold: Callable[[str], str] = str if case_sensitive else str.lower
        self._by_path: dict[tuple[str, ...], tuple[int, ...]] = {}
        self._full: dict[str, tuple[int, ...]] = {}
        self._short: dict[str, tuple[int, ...]] = {}
        for entry in entries:
            self.add(entry)

    def add(self, entry: SchemaField) -> None:
        """Take a field in, under all that it can be called."""
        path = tuple(map(self._fold, entry.path))
        _append(self._by_path, path, entry.field.id)
        _append(self._full, ".".join(path), entry.field.id)
        if len(path) > 2 and len(short := _shortened(path, entry)) < len(path):
            _append(self._short, ".".join(short), entry.field.id)

    def discard(self, entry: SchemaField) -> None:
        """Forget a field, given as it was when it was taken in."""
        path = tuple(map(self._fold, entry.path))
        _remove(self._by_path, path, entry.field.id)
        _remove(self._full, ".".join(path), entry.field.id)
        if len(path) > 2 and len(short := _shortened(path, entry)) < len(path):
            _remove(self._short, ".".join(short), entry.field.id)

    def lookup(self, name: str | Sequence[str]) -> tuple[int, ...]:
        """The ids of all fields that a dotted name or a path can mean."""
        if isinstance(name, str):
            key = self._fold(name)
            return self._full.get(key) or self._short.get(key) or ()
        return self._by_path.get(tuple(map(self._fold, name)), ())

    def shared_names(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The full dotted names that several fields have, with their ids."""
        return ((name, ids) for name, ids in self._full.items() if len(ids) > 1)


_LEFT_OUT: dict[str, str | None] = {"struct": None, "list": "element", "map": "value"}
"""The step that a short name leaves out, by the type that holds it."""


def _shortened(path: tuple[str, ...], entry: SchemaField) -> list[str]:
    steps = [
        name
        for name, step, holder in zip(path[:-1], entry.ancestors, entry.ancestor_types[:-1], strict=True)
        if step.name != _LEFT_OUT[holder.kind] or step.type.kind != "struct"
    ]
    return [*steps, path[-1]]


_Key = TypeVar("_Key", bound=Hashable)


def _append(index: dict[_Key, tuple[int, ...]], key: _Key, field_id: int) -> None:
    index[key] = (*index[key], field_id) if key in index else (field_id,)


def _remove(index: dict[_Key, tuple[int, ...]], key: _Key, field_id: int) -> None:
    left = tuple(i for i in index[key] if i != field_id)
    if left:
        index[key] = left
    else:
        del index[key]
