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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import Any

from floe.errors import InvalidSchema, NoSuchColumn
from floe.spec.schemas.defaults import check_defaults
from floe.spec.schemas.schema_fields import NameIndex, SchemaField, walk_fields, with_children
from floe.spec.types import Field, StructType, Type, min_format_version

__all__ = ["MAX_TABLE_FIELD_ID", "Schema", "SchemaField", "assign_fresh_ids", "assign_fresh_type_ids"]

MAX_TABLE_FIELD_ID = 2147483447
"""Ids above this are reserved for metadata columns (spec: Reserved Field IDs)."""


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
        for name in ("fields", "identifier_field_ids"):
            if type(given := getattr(self, name)) is not tuple:
                object.__setattr__(self, name, tuple(given))
        StructType(self.fields)  # checks the names
        known = self.by_id
        for field_id in self.identifier_field_ids:
            _check_identifier(field_id, known)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled without the indexes, which are made anew."""
        return Schema, (self.fields, self.schema_id, self.identifier_field_ids, self.extra)

    # found by id ---------------------------------------------------------------------------------------------

    @cached_property
    def by_id(self) -> Mapping[int, SchemaField]:
        """Every field at any depth, by its id, parents before their children."""
        seen: dict[int, SchemaField] = {}
        for entry in walk_fields(self.fields):
            other = seen.setdefault(entry.field.id, entry)
            if other is not entry:
                raise InvalidSchema(
                    f"field id {entry.field.id} is used by both {other.name!r} and {entry.name!r}",
                    column=entry.name,
                )
        return MappingProxyType(seen)

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
        found = self.name_index(case_sensitive=case_sensitive).lookup(name)
        if len(found) == 1:
            return self.by_id[found[0]]
        shown = name if isinstance(name, str) else ".".join(name)
        if found:
            paths = " and ".join(str(self.by_id[i].path) for i in found)
            raise NoSuchColumn(
                f"the name {shown!r} may mean {paths}", hint="give the path as a tuple of names", column=shown
            )
        raise NoSuchColumn(f"no column is named {shown!r}", hint=self._advice(shown), column=shown)

    def has(self, name: str | Sequence[str], *, case_sensitive: bool = True) -> bool:
        """Whether exactly one field has that dotted name or path."""
        return len(self.name_index(case_sensitive=case_sensitive).lookup(name)) == 1

    def name_index(self, *, case_sensitive: bool = True) -> NameIndex:
        """The index of all names, made when first asked for."""
        return self._names if case_sensitive else self._folded_names

    @cached_property
    def _names(self) -> NameIndex:
        return NameIndex(self.by_id.values(), case_sensitive=True)

    @cached_property
    def _folded_names(self) -> NameIndex:
        return NameIndex(self.by_id.values(), case_sensitive=False)

    def _advice(self, name: str) -> str:
        full = islice((entry.name for entry in self.by_id.values()), _NAMES_COMPARED)
        by_folded = {each.lower(): each for each in full}
        alike = get_close_matches(name[:200].lower(), by_folded, n=2, cutoff=0.8)
        if alike:
            return f"did you mean {' or '.join(repr(by_folded[each]) for each in alike)}?"
        names = [f.name for f in self.fields[:12]]
        return f"columns are {', '.join(names) or '(none)'}{', …' if len(self.fields) > 12 else ''}"

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

    def check_for_table(self, format_version: int) -> None:
        """Raise unless a table of that format version may have this schema.

        Checks ids that are reserved, types and defaults that came with a later version, the rules of `unknown` and of
        default values (spec: Default values), and that the schema can be stored and read again.
        """
        for entry in self.by_id.values():
            child, name = entry.field, entry.name
            _check_text(child)
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


_NAMES_COMPARED = 1000
"""How many names are looked through for one that was perhaps meant."""


def _check_text(child: Field) -> None:
    """Metadata is UTF-8, which cannot encode half of a surrogate pair."""
    for what, text in (("name", child.name), ("doc", child.doc)):
        if text and not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise InvalidSchema(
                    f"the {what} of column {child.name!r} holds half of a surrogate pair, which cannot be stored"
                ) from None


def _check_identifier(field_id: int, known: Mapping[int, SchemaField]) -> None:
    """Spec, Identifier Field IDs."""
    entry = known.get(field_id)
    if entry is None:
        raise InvalidSchema(f"identifier field id {field_id} is not a field of the schema")
    kind = entry.field.type.kind
    why = None
    if not entry.field.type.is_primitive:
        why = f"it is a {kind}, not a primitive"
    elif kind in ("float", "double"):
        why = f"{kind} values do not compare reliably"
    elif entry.in_collection:
        why = "it is nested in a list or map"
    elif entry.field.optional:
        why = "it is optional, and an identifier is never null"
    elif holder := next((a.name for a in entry.ancestors if a.optional), None):
        why = f"it is nested in the optional struct {holder!r}"
    if why:
        raise InvalidSchema(f"{entry.name!r} cannot be an identifier field: {why}", column=entry.name)


def assign_fresh_ids(schema: Schema, *, next_id: int = 1, base: Schema | None = None) -> tuple[Schema, int]:
    """The schema with new ids counted from `next_id`, and the next id after them.

    Ids are given struct by struct: all fields of a struct first, then what is nested in them, as other writers do. A
    field that `base` has under the same path keeps the id it has there (for a table that is replaced).

    >>> from floe.spec.types import Field, INT, StructType
    >>> inner = StructType((Field(0, "x", INT), Field(7, "y", INT)))
    >>> fresh, following = assign_fresh_ids(Schema((Field(8, "a", inner), Field(9, "b", INT))))
    >>> [(entry.name, i) for i, entry in fresh.by_id.items()], following
    ([('a', 1), ('a.x', 3), ('a.y', 4), ('b', 2)], 5)
    """
    ids = _FreshIds(next_id, base)
    fields = ids.for_fields(schema.fields, ())
    identifiers = tuple(ids.renumbered[i] for i in schema.identifier_field_ids)
    return replace(schema, fields=fields, identifier_field_ids=identifiers), ids.next_id


def assign_fresh_type_ids(type_: Type, *, next_id: int) -> tuple[Type, int]:
    """The type with new ids for all that is nested in it, counted from `next_id`, and the next id after them.

    >>> from floe.spec.types import INT, ListType
    >>> assign_fresh_type_ids(ListType(0, ListType(0, INT)), next_id=7)
    (ListType(element_id=7, element=ListType(element_id=8, ...), element_required=False), 9)
    """
    ids = _FreshIds(next_id, None)
    return ids.for_type(type_, ()), ids.next_id


class _FreshIds:
    """Gives out ids, in the order of Java's writers: level by level within each struct, list and map."""

    def __init__(self, next_id: int, base: Schema | None) -> None:
        self.next_id = next_id
        self.renumbered: dict[int, int] = {}
        self._base = base

    def for_fields(self, fields: tuple[Field, ...], path: tuple[str, ...]) -> tuple[Field, ...]:
        ids = [self._id_for((*path, f.name)) for f in fields]
        self.renumbered.update(zip((f.id for f in fields), ids, strict=True))
        return tuple(
            replace(f, id=new, type=self.for_type(f.type, (*path, f.name))) for f, new in zip(fields, ids, strict=True)
        )

    def for_type(self, type_: Type, path: tuple[str, ...]) -> Type:
        if not type_.is_nested:
            return type_
        return with_children(type_, self.for_fields(type_.fields, path))

    def _id_for(self, path: tuple[str, ...]) -> int:
        if self._base is not None and (kept := self._base.name_index().lookup(path)):
            return kept[0]
        fresh, self.next_id = self.next_id, self.next_id + 1
        return fresh
