"""A table's schema: fields with ids, found by id, by name or by path (spec: Schemas and Data Types).

>>> from floe.spec.types import Field, LONG, STRING, StructType
>>> schema = Schema(
...     (
...         Field(1, "id", LONG, required=True),
...         Field(2, "who", StructType((Field(3, "name", STRING),))),
...     )
... )
>>> schema.field("who.name").id
3
>>> schema.name_of(3)
'who.name'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from floe.errors import InvalidSchema, NoSuchColumn
from floe.spec.types import Field, ListType, MapType, StructType, Type, min_format_version

__all__ = ["MAX_TABLE_FIELD_ID", "Schema", "SchemaField", "assign_fresh_ids"]

MAX_TABLE_FIELD_ID = 2147483447
"""Ids above this are reserved for metadata columns (spec: Reserved Field IDs)."""


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


@dataclass(frozen=True)
class Schema:
    """The names and types of a table's columns.

    Names are looked up in full (`"who.name"`, `"tags.element"`) or as a path (`("who", "name")`), which is how to
    reach a field when a dot in some name makes the dotted form ambiguous. The words `element` and `value` may be left
    out of a dotted name where that leaves no doubt: `points.x` for `points.element.x`.
    """

    fields: tuple[Field, ...]
    schema_id: int = 0
    identifier_field_ids: tuple[int, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        StructType(self.fields)  # checks the names
        seen: dict[int, SchemaField] = {}
        for entry in _walk(self.fields):
            other = seen.setdefault(entry.field.id, entry)
            if other is not entry:
                raise InvalidSchema(
                    f"field id {entry.field.id} is used by both {other.name!r} and {entry.name!r}",
                    column=entry.name,
                )
        self.__dict__["by_id"] = MappingProxyType(seen)
        for field_id in self.identifier_field_ids:
            self._check_identifier(field_id)

    # found by id ---------------------------------------------------------------------------------------------

    @cached_property
    def by_id(self) -> Mapping[int, SchemaField]:
        """Every field at any depth, by its id, in depth-first order."""
        raise AssertionError("set on construction")  # pragma: no cover

    def entry(self, field_id: int) -> SchemaField:
        """The field of that id, with where it stands."""
        try:
            return self.by_id[field_id]
        except KeyError:
            raise NoSuchColumn(f"the schema has no field with id {field_id}", schema=self.schema_id) from None

    def find(self, field_id: int) -> Field | None:
        """The field of that id, or None."""
        entry = self.by_id.get(field_id)
        return entry.field if entry else None

    def name_of(self, field_id: int) -> str:
        """The full dotted name of the field of that id."""
        return self.entry(field_id).name

    def parent_id(self, field_id: int) -> int | None:
        """The id of the field that directly holds this one, or None for a top-level column."""
        ancestors = self.entry(field_id).ancestors
        return ancestors[-1].id if ancestors else None

    @cached_property
    def highest_field_id(self) -> int:
        """The highest id in use, 0 for an empty schema."""
        return max(self.by_id, default=0)

    # found by name -------------------------------------------------------------------------------------------

    def field(self, name: str | Sequence[str], *, case_sensitive: bool = True) -> Field:
        """The field of a dotted name or path.

        >>> from floe.spec.types import Field, INT
        >>> Schema((Field(1, "Id", INT),)).field("id", case_sensitive=False).name
        'Id'
        """
        return self.resolve(name, case_sensitive=case_sensitive).field

    def resolve(self, name: str | Sequence[str], *, case_sensitive: bool = True) -> SchemaField:
        """The field of a dotted name or path, with where it stands."""
        found = self._lookup(name, case_sensitive)
        if len(found) == 1:
            return self.by_id[found[0]]
        shown = name if isinstance(name, str) else ".".join(name)
        if found:
            paths = " and ".join(str(self.by_id[i].path) for i in found)
            raise NoSuchColumn(
                f"the name {shown!r} may mean {paths}", hint="give the path as a tuple of names", column=shown
            )
        raise NoSuchColumn(f"no column is named {shown!r}", hint=f"columns are {self._some_names()}", column=shown)

    def has(self, name: str | Sequence[str], *, case_sensitive: bool = True) -> bool:
        """Whether exactly one field has that dotted name or path."""
        return len(self._lookup(name, case_sensitive)) == 1

    def _lookup(self, name: str | Sequence[str], case_sensitive: bool) -> tuple[int, ...]:
        fold: Callable[[str], str] = str if case_sensitive else str.casefold
        if not isinstance(name, str):
            wanted = tuple(map(fold, name))
            return tuple(i for i, entry in self.by_id.items() if tuple(map(fold, entry.path)) == wanted)
        full, short = self._names if case_sensitive else self._folded_names
        key = fold(name)
        return full.get(key) or short.get(key) or ()

    @cached_property
    def _names(self) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
        return self._index_names(str)

    @cached_property
    def _folded_names(self) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
        return self._index_names(str.casefold)

    def _index_names(self, fold: Callable[[str], str]) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
        """Full dotted names, and those that leave out `element` and `value` before a struct's field."""
        full: dict[str, tuple[int, ...]] = {}
        short: dict[str, tuple[int, ...]] = {}
        for field_id, entry in self.by_id.items():
            key = fold(entry.name)
            full[key] = (*full.get(key, ()), field_id)
            steps = [
                name
                for i, (name, holder) in enumerate(zip(entry.path, entry.ancestor_types, strict=True))
                if holder.kind == "struct"
                or name == "key"
                or i == len(entry.path) - 1
                or entry.ancestors[i].type.kind != "struct"
            ]
            if len(steps) != len(entry.path):
                key = fold(".".join(steps))
                short[key] = (*short.get(key, ()), field_id)
        return full, short

    def _some_names(self) -> str:
        names = [f.name for f in self.fields[:12]]
        return ", ".join(names) + (", …" if len(self.fields) > 12 else "") if names else "(none)"

    # other views ---------------------------------------------------------------------------------------------

    def as_struct(self) -> StructType:
        """The schema as a struct type."""
        return StructType(self.fields)

    def with_id(self, schema_id: int) -> Schema:
        """The same schema under another id."""
        return self if schema_id == self.schema_id else replace(self, schema_id=schema_id)

    def same_columns(self, other: Schema) -> bool:
        """Whether two schemas are equal but for their ids, so that one need not be stored beside the other."""
        return self.fields == other.fields and set(self.identifier_field_ids) == set(other.identifier_field_ids)

    @property
    def identifier_names(self) -> tuple[str, ...]:
        """The full names of the identifier fields, in schema order."""
        wanted = set(self.identifier_field_ids)
        return tuple(entry.name for i, entry in self.by_id.items() if i in wanted)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __str__(self) -> str:
        lines = []
        for child in self.fields:
            mark = " (id)" if child.id in self.identifier_field_ids else ""
            lines.append(f"  {child}{mark}")
        return "table {\n" + "\n".join(lines) + "\n}"

    # rules ---------------------------------------------------------------------------------------------------

    def _check_identifier(self, field_id: int) -> None:
        """Spec, Identifier Field IDs."""
        entry = self.by_id.get(field_id)
        if entry is None:
            raise InvalidSchema(f"identifier field id {field_id} is not a field of the schema")
        why = None
        if not entry.field.type.is_primitive:
            why = f"it is a {entry.field.type.kind}, not a primitive"
        elif entry.field.type.kind in ("float", "double"):
            why = f"{entry.field.type.kind} values do not compare reliably"
        elif entry.field.type.kind in ("geometry", "geography", "unknown"):
            why = f"{entry.field.type.kind} values cannot be compared"
        elif entry.in_collection:
            why = "it is nested in a list or map"
        elif entry.field.optional:
            why = "it is optional, and an identifier is never null"
        elif any(a.optional for a in entry.ancestors):
            holder = next(a.name for a in entry.ancestors if a.optional)
            why = f"it is nested in the optional struct {holder!r}"
        if why:
            raise InvalidSchema(f"{entry.name!r} cannot be an identifier field: {why}", column=entry.name)

    def check_for_table(self, format_version: int) -> None:
        """Raise unless a table of that format version may have this schema.

        Checks ids and names that are reserved, types and defaults that came with a later version, and the rules of
        `unknown` and of default values (spec: Default values).
        """
        for entry in self.by_id.values():
            child, name = entry.field, entry.name
            if child.id > MAX_TABLE_FIELD_ID:
                raise InvalidSchema(
                    f"field id {child.id} of {name!r} is above {MAX_TABLE_FIELD_ID}: reserved for metadata columns",
                    column=name,
                )
            needed = min_format_version(child.type) if not child.type.is_nested else 1
            if needed > format_version:
                raise InvalidSchema(
                    f"type {child.type} of {name!r} needs format version {needed}; the table has {format_version}",
                    hint="upgrade the table's format version first",
                    column=name,
                )
            check_defaults(child, name, format_version)
            if child.type.kind == "unknown" and child.required:
                raise InvalidSchema(f"{name!r} has type unknown and so must be optional", column=name)


def check_defaults(child: Field, name: str, format_version: int) -> None:
    """Raise when a field has defaults that its type or the format version does not allow."""
    for label, default in (
        ("initial-default", child.initial_default),
        ("write-default", child.write_default),
    ):
        if default is None:
            continue
        if label == "initial-default" and format_version < 3:
            raise InvalidSchema(
                f"{name!r} has an {label}, which needs format version 3; the table has {format_version}",
                hint="upgrade the table's format version first",
                column=name,
            )
        if child.type.kind in ("unknown", "variant", "geometry", "geography"):
            raise InvalidSchema(f"{name!r} has type {child.type}, whose {label} can only be null", column=name)
        if child.type.kind == "struct" and default:
            raise InvalidSchema(
                f"the {label} of struct {name!r} can only be null or an empty struct",
                hint="set the defaults of its fields on the fields",
                column=name,
            )


def _walk(fields: tuple[Field, ...]) -> Iterator[SchemaField]:
    """Every field at any depth, parents before children, without recursion (types may be hostile)."""
    root: Type = StructType(fields)
    stack: list[SchemaField] = [SchemaField(f, (), (root,)) for f in reversed(fields)]
    while stack:
        entry = stack.pop()
        yield entry
        own = entry.field.type
        if own.is_nested:
            ancestors, holders = (*entry.ancestors, entry.field), (*entry.ancestor_types, own)
            stack.extend(SchemaField(child, ancestors, holders) for child in reversed(own.fields))


def assign_fresh_ids(schema: Schema, *, next_id: int = 1, base: Schema | None = None) -> tuple[Schema, int]:
    """The schema with new ids counted from `next_id`, and the next id after them.

    Ids are given struct by struct: all fields of a struct first, then what is nested in them, as other writers do. A
    field that `base` has under the same full name keeps the id it has there (for a table that is replaced).

    >>> from floe.spec.types import Field, INT, StructType
    >>> inner = StructType((Field(0, "x", INT), Field(7, "y", INT)))
    >>> fresh, following = assign_fresh_ids(Schema((Field(8, "a", inner), Field(9, "b", INT))))
    >>> [(entry.name, i) for i, entry in fresh.by_id.items()], following
    ([('a', 1), ('a.x', 3), ('a.y', 4), ('b', 2)], 5)
    """
    counter = next_id
    renumbered: dict[int, int] = {}

    def fresh_id(old: int, path: tuple[str, ...]) -> int:
        nonlocal counter
        kept = base._lookup(path, True) if base is not None else ()
        if kept:
            new = kept[0]
        else:
            new, counter = counter, counter + 1
        renumbered[old] = new
        return new

    def fresh_fields(fields: tuple[Field, ...], path: tuple[str, ...]) -> tuple[Field, ...]:
        ids = [fresh_id(f.id, (*path, f.name)) for f in fields]
        return tuple(
            replace(f, id=new, type=fresh_type(f.type, (*path, f.name))) for f, new in zip(fields, ids, strict=True)
        )

    def fresh_type(type_: Type, path: tuple[str, ...]) -> Type:
        if isinstance(type_, StructType):
            return replace(type_, _fields=fresh_fields(type_.fields, path))
        if isinstance(type_, ListType):
            (element,) = fresh_fields(type_.fields, path)
            return replace(type_, element_id=element.id, element=element.type)
        if isinstance(type_, MapType):
            key, value = fresh_fields(type_.fields, path)
            return replace(type_, key_id=key.id, key=key.type, value_id=value.id, value=value.type)
        return type_

    fields = fresh_fields(schema.fields, ())
    identifiers = tuple(renumbered[i] for i in schema.identifier_field_ids)
    return replace(schema, fields=fields, identifier_field_ids=identifiers), counter
