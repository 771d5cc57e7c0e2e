"""A table's schema: fields with ids, looked up by id, name or path (spec: Schemas and Data Types).

`SchemaField` is a field together with its ancestors; `walk_fields` yields all fields; `NameIndex` looks them up by
dotted name or path; `with_children` rebuilds a nested type with changed children.

>>> from floe.spec.types import INT, LONG, STRING
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

A field has two defaults (spec: Default values): `initial-default` is the value in files written before the field was
added, `write-default` the value for rows written without one. A struct stores only null or `{}`; the value of `{}`
comes from the defaults of its fields.

>>> x = Field(2, "x", INT, initial_default=0, write_default=7)
>>> point = Field(1, "point", StructType((x,)), initial_default={}, write_default={})
>>> initial_value(point), write_value(point)
({'x': 0}, {'x': 7})
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeVar

from floe.errors import InvalidSchema, InvalidValue, NoSuchColumn
from floe.spec.types import Field, ListType, MapType, StructType, Type, min_format_version
from floe.spec.values.value_checks import check, map_items

MAX_TYPE_DEPTH = 100
"""How deeply types may nest; deeper ones are rejected before anything recurses into them."""


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A field and its ancestors, from the top of the schema down."""

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
        """Whether the field is inside a list or map, so that a row may have many values of it."""
        return any(t.kind != "struct" for t in self.ancestor_types)

    @property
    def nullable(self) -> bool:
        """Whether the field may be null in a row: it, or a struct around it, is optional."""
        return self.field.optional or any(a.optional for a in self.ancestors)


def walk_fields(fields: Sequence[Field]) -> Iterator[SchemaField]:
    """Yield every field at any depth, parents before children, without recursion; raise for types nested too deeply.

    >>> from floe.spec.types import INT, ListType
    >>> [entry.name for entry in walk_fields([Field(1, "a", ListType(3, INT)), Field(2, "b", INT)])]
    ['a', 'a.element', 'b']
    """
    root: Type = StructType(tuple(fields))
    stack: list[SchemaField] = [SchemaField(f, (), (root,)) for f in reversed(fields)]
    while stack:
        entry = stack.pop()
        yield entry
        type_ = entry.field.type
        if type_.is_nested:
            if len(entry.ancestors) >= MAX_TYPE_DEPTH:
                raise InvalidSchema(f"types nest deeper than {MAX_TYPE_DEPTH} levels", column=entry.path[0])
            ancestors, ancestor_types = (*entry.ancestors, entry.field), (*entry.ancestor_types, type_)
            stack.extend(SchemaField(child, ancestors, ancestor_types) for child in reversed(type_.fields))


def with_children(type_: Type, children: Sequence[Field]) -> Type:
    """Return a nested type with other children: a struct's fields, a list's element, or a map's key and value.

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

    A dotted name may omit the `element` of a list and the `value` of a map before the field of a struct, unless a field
    has exactly that name. Case-insensitive names are compared in lower case, as in Spark and Java.

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
        """Add a field under all its names."""
        path = tuple(map(self._fold, entry.path))
        _append(self._by_path, path, entry.field.id)
        _append(self._full, ".".join(path), entry.field.id)
        if len(path) > 2 and len(short := _short_path(path, entry)) < len(path):
            _append(self._short, ".".join(short), entry.field.id)

    def discard(self, entry: SchemaField) -> None:
        """Remove a field, given as it was when it was added."""
        path = tuple(map(self._fold, entry.path))
        _remove(self._by_path, path, entry.field.id)
        _remove(self._full, ".".join(path), entry.field.id)
        if len(path) > 2 and len(short := _short_path(path, entry)) < len(path):
            _remove(self._short, ".".join(short), entry.field.id)

    def lookup(self, name: str | Sequence[str]) -> tuple[int, ...]:
        """Return the ids of all fields that a dotted name or a path can refer to."""
        if isinstance(name, str):
            key = self._fold(name)
            return self._full.get(key) or self._short.get(key) or ()
        return self._by_path.get(tuple(map(self._fold, name)), ())

    def shared_names(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the full dotted names that several fields share, with their ids."""
        return ((name, ids) for name, ids in self._full.items() if len(ids) > 1)


_OMITTED_STEP: dict[str, str | None] = {"struct": None, "list": "element", "map": "value"}
"""The step that a short name omits, by the kind of the parent type."""


def _short_path(path: tuple[str, ...], entry: SchemaField) -> list[str]:
    steps = [
        name
        for name, step, parent_type in zip(path[:-1], entry.ancestors, entry.ancestor_types[:-1], strict=True)
        if step.name != _OMITTED_STEP[parent_type.kind] or step.type.kind != "struct"
    ]
    return [*steps, path[-1]]


_Key = TypeVar("_Key", bound=Hashable)


def _append(index: dict[_Key, tuple[int, ...]], key: _Key, field_id: int) -> None:
    index[key] = (*index[key], field_id) if key in index else (field_id,)


def _remove(index: dict[_Key, tuple[int, ...]], key: _Key, field_id: int) -> None:
    remaining = tuple(i for i in index[key] if i != field_id)
    if remaining:
        index[key] = remaining
    else:
        del index[key]


MAX_TABLE_FIELD_ID = 2147483447
"""Ids above this are reserved for metadata columns (spec: Reserved Field IDs)."""


@dataclass(frozen=True)
class Schema:
    """The names and types of a table's columns.

    Names are looked up in full (`"who.name"`, `"tags.element"`) or as a path (`("who", "name")`), which is needed
    when a dot in a name makes the dotted form ambiguous. `element` and `value` may be omitted from a dotted name where
    that is unambiguous: `points.x` for `points.element.x`.
    """

    fields: tuple[Field, ...]
    schema_id: int = 0
    identifier_field_ids: tuple[int, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("fields", "identifier_field_ids"):
            if type(value := getattr(self, name)) is not tuple:
                object.__setattr__(self, name, tuple(value))
        StructType(self.fields)  # checks the names
        by_id = self.by_id
        for field_id in self.identifier_field_ids:
            _check_identifier(field_id, by_id)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the indexes, which are rebuilt when needed."""
        return Schema, (self.fields, self.schema_id, self.identifier_field_ids, self.extra)

    # Lookup by id --------------------------------------------------------------------------------------------

    @cached_property
    def by_id(self) -> Mapping[int, SchemaField]:
        """All fields at any depth, by id, parents before their children."""
        by_id: dict[int, SchemaField] = {}
        for entry in walk_fields(self.fields):
            other = by_id.setdefault(entry.field.id, entry)
            if other is not entry:
                raise InvalidSchema(
                    f"field id {entry.field.id} is used by both {other.name!r} and {entry.name!r}",
                    column=entry.name,
                )
        return MappingProxyType(by_id)

    def entry(self, field_id: int) -> SchemaField:
        """Return the field of an id, with its ancestors."""
        try:
            return self.by_id[field_id]
        except KeyError:
            raise NoSuchColumn(f"the schema has no field with id {field_id}", schema=self.schema_id) from None

    def find(self, field_id: int) -> Field | None:
        """Return the field of an id, or None."""
        entry = self.by_id.get(field_id)
        return entry.field if entry else None

    def name_of(self, field_id: int) -> str:
        """Return the full dotted name of the field of an id."""
        return self.entry(field_id).name

    def parent_id(self, field_id: int) -> int | None:
        """Return the id of a field's parent, or None for a top-level column."""
        ancestors = self.entry(field_id).ancestors
        return ancestors[-1].id if ancestors else None

    @cached_property
    def highest_field_id(self) -> int:
        """The highest id in use, 0 for an empty schema."""
        return max(self.by_id, default=0)

    # Lookup by name ------------------------------------------------------------------------------------------

    def field(self, name: str | Sequence[str], *, case_sensitive: bool = True) -> Field:
        """Return the field of a dotted name or path.

        >>> from floe.spec.types import Field, INT
        >>> Schema((Field(1, "Id", INT),)).field("id", case_sensitive=False).name
        'Id'
        """
        return self.resolve(name, case_sensitive=case_sensitive).field

    def resolve(self, name: str | Sequence[str], *, case_sensitive: bool = True) -> SchemaField:
        """Return the field of a dotted name or path, with its ancestors."""
        ids = self.name_index(case_sensitive=case_sensitive).lookup(name)
        if len(ids) == 1:
            return self.by_id[ids[0]]
        text = name if isinstance(name, str) else ".".join(name)
        if ids:
            paths = " and ".join(str(self.by_id[i].path) for i in ids)
            raise NoSuchColumn(
                f"the name {text!r} may mean {paths}", hint="give the path as a tuple of names", column=text
            )
        raise NoSuchColumn(f"no column is named {text!r}", hint=self._hint(text), column=text)

    def has(self, name: str | Sequence[str], *, case_sensitive: bool = True) -> bool:
        """Whether exactly one field has that dotted name or path."""
        return len(self.name_index(case_sensitive=case_sensitive).lookup(name)) == 1

    def name_index(self, *, case_sensitive: bool = True) -> NameIndex:
        """Return the index of all names, built on first use."""
        return self._names if case_sensitive else self._folded_names

    @cached_property
    def _names(self) -> NameIndex:
        return NameIndex(self.by_id.values(), case_sensitive=True)

    @cached_property
    def _folded_names(self) -> NameIndex:
        return NameIndex(self.by_id.values(), case_sensitive=False)

    def _hint(self, name: str) -> str:
        names = islice((entry.name for entry in self.by_id.values()), _NAMES_COMPARED)
        by_lower_name = {candidate.lower(): candidate for candidate in names}
        matches = get_close_matches(name[:200].lower(), by_lower_name, n=2, cutoff=0.8)
        if matches:
            return f"did you mean {' or '.join(repr(by_lower_name[candidate]) for candidate in matches)}?"
        columns = [f.name for f in self.fields[:12]]
        return f"columns are {', '.join(columns) or '(none)'}{', …' if len(self.fields) > 12 else ''}"

    # Other views ---------------------------------------------------------------------------------------------

    def as_struct(self) -> StructType:
        """Return the schema as a struct type."""
        return StructType(self.fields)

    def with_id(self, schema_id: int) -> Schema:
        """Return the same schema with another id."""
        return self if schema_id == self.schema_id else replace(self, schema_id=schema_id)

    def same_columns(self, other: Schema) -> bool:
        """Whether two schemas differ at most in their ids, so that only one has to be stored."""
        return self.fields == other.fields and set(self.identifier_field_ids) == set(other.identifier_field_ids)

    @property
    def identifier_names(self) -> tuple[str, ...]:
        """The full names of the identifier fields, in schema order."""
        ids = set(self.identifier_field_ids)
        return tuple(entry.name for i, entry in self.by_id.items() if i in ids)

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

    # Rules ---------------------------------------------------------------------------------------------------

    def check_for_table(self, format_version: int) -> None:
        """Raise unless a table of that format version may have this schema.

        Checks for reserved ids, types and defaults of a later version, the rules of `unknown` and of default values
        (spec: Default values), and that the schema can be stored and read again.
        """
        for entry in self.by_id.values():
            child, name = entry.field, entry.name
            _check_text(child)
            if child.id > MAX_TABLE_FIELD_ID:
                raise InvalidSchema(
                    f"field id {child.id} of {name!r} is above {MAX_TABLE_FIELD_ID}: reserved for metadata columns",
                    column=name,
                )
            since = min_format_version(child.type) if not child.type.is_nested else 1
            if since > format_version:
                raise InvalidSchema(
                    f"type {child.type} of {name!r} needs format version {since}; the table has {format_version}",
                    hint="upgrade the table's format version first",
                    column=name,
                )
            check_defaults(child, name, format_version)
            if child.type.kind == "unknown" and child.required:
                raise InvalidSchema(f"{name!r} has type unknown and so must be optional", column=name)


_NAMES_COMPARED = 1000
"""How many names are compared for a "did you mean" hint."""


def _check_text(child: Field) -> None:
    """Raise for names and docs that UTF-8, the encoding of metadata, cannot encode."""
    for attribute, text in (("name", child.name), ("doc", child.doc)):
        if text and not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise InvalidSchema(
                    f"the {attribute} of column {child.name!r} holds half of a surrogate pair, which cannot be stored"
                ) from None


def _check_identifier(field_id: int, by_id: Mapping[int, SchemaField]) -> None:
    """Raise unless a field may be an identifier field (spec: Identifier Field IDs)."""
    entry = by_id.get(field_id)
    if entry is None:
        raise InvalidSchema(f"identifier field id {field_id} is not a field of the schema")
    kind = entry.field.type.kind
    problem = None
    if not entry.field.type.is_primitive:
        problem = f"it is a {kind}, not a primitive"
    elif kind in ("float", "double"):
        problem = f"{kind} values do not compare reliably"
    elif entry.in_collection:
        problem = "it is nested in a list or map"
    elif entry.field.optional:
        problem = "it is optional, and an identifier is never null"
    elif struct := next((a.name for a in entry.ancestors if a.optional), None):
        problem = f"it is nested in the optional struct {struct!r}"
    if problem:
        raise InvalidSchema(f"{entry.name!r} cannot be an identifier field: {problem}", column=entry.name)


def assign_fresh_ids(schema: Schema, *, next_id: int = 1, base: Schema | None = None) -> tuple[Schema, int]:
    """Return the schema with new ids from `next_id` on, and the next free id.

    Ids are assigned struct by struct: all fields of a struct first, then the fields nested in them, as Java does. A
    field that `base` has under the same path keeps its id (for a table that is replaced).

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
    """Return the type with new ids for all nested fields from `next_id` on, and the next free id.

    >>> from floe.spec.types import INT, ListType
    >>> assign_fresh_type_ids(ListType(0, ListType(0, INT)), next_id=7)
    (ListType(element_id=7, element=ListType(element_id=8, ...), element_required=False), 9)
    """
    ids = _FreshIds(next_id, None)
    return ids.for_type(type_, ()), ids.next_id


class _FreshIds:
    """Assigns ids in the order of Java: level by level within each struct, list and map."""

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
        if self._base is not None and (base_ids := self._base.name_index().lookup(path)):
            return base_ids[0]
        new_id, self.next_id = self.next_id, self.next_id + 1
        return new_id


# Defaults -------------------------------------------------------------------------------------------------------------


DEFAULTS_SINCE = 3
"""The format version that added default values."""

_NULL_ONLY = frozenset({"unknown", "variant", "geometry", "geography"})


def check_defaults(field: Field, name: str, format_version: int) -> None:
    """Raise if a field has defaults that its type or the format version does not allow.

    A `write-default` is tolerated in older versions, whose readers are not harmed by it (spec: Appendix E, Version 3).
    """
    if field.initial_default is not None and format_version < DEFAULTS_SINCE:
        raise InvalidSchema(
            f"{name!r} has an initial-default, which needs format version {DEFAULTS_SINCE}; "
            f"the table has {format_version}",
            hint="upgrade the table's format version first",
            column=name,
        )
    for label, default in (("initial-default", field.initial_default), ("write-default", field.write_default)):
        check_default(field.type, default, label, name)


def check_default(type_: Type, default: Any, label: str, name: str) -> None:
    """Raise if a value cannot be the default of a field of a type.

    >>> check_default(StructType(), {"x": 1}, "write-default", "point")
    Traceback (most recent call last):
    floe.errors.InvalidSchema: the write-default of struct 'point' can only be null or an empty struct (column: ...
    """
    if default is None:
        return
    if type_.kind in _NULL_ONLY:
        raise InvalidSchema(f"{name!r} has type {type_}, whose {label} can only be null", column=name)
    if type_.kind == "struct":
        if default != {}:
            raise InvalidSchema(
                f"the {label} of struct {name!r} can only be null or an empty struct",
                hint="set the defaults of its fields on the fields",
                column=name,
            )
        return
    try:
        check(type_, default)
    except InvalidValue as error:
        raise InvalidSchema(
            f"the {label} of {name!r} is not a valid {type_}: {error.message}", hint=error.hint, column=name
        ) from error


def same_default(first: Any, second: Any) -> bool:
    """Whether two defaults are the same; NaN is the same as NaN, unlike for `==`.

    >>> same_default([float("nan")], [float("nan")]), same_default(1.0, None)
    (True, False)
    """
    return bool(first == second) or repr(first) == repr(second)


def initial_value(field: Field) -> Any:
    """Return the value of a field in rows written before it was added.

    >>> from floe.spec.types import INT
    >>> initial_value(Field(1, "note", INT, required=True))
    Traceback (most recent call last):
    floe.errors.InvalidValue: 'note' is required and has no initial-default
    """
    return _effective(field, _initial, "initial-default")


def write_value(field: Field) -> Any:
    """Return the value to write for a field without one; a required field must have a default."""
    return _effective(field, _write, "write-default")


_Pick = Callable[[Field], Any]


def _initial(field: Field) -> Any:
    return field.initial_default


def _write(field: Field) -> Any:
    return field.write_default


def _effective(field: Field, pick: _Pick, label: str) -> Any:
    default = pick(field)
    if default is None and field.required:
        raise InvalidValue(f"{field.name!r} is required and has no {label}")
    return _with_field_defaults(field.type, default, pick, label)


def _with_field_defaults(type_: Type, value: Any, pick: _Pick, label: str) -> Any:
    """Return the value with the defaults of all struct fields that it omits."""
    if value is None:
        return None
    if isinstance(type_, StructType):
        return {
            child.name: _with_field_defaults(child.type, value[child.name], pick, label)
            if child.name in value
            else _effective(child, pick, label)
            for child in type_.fields
        }
    if isinstance(type_, ListType):
        return [_with_field_defaults(type_.element, item, pick, label) for item in value]
    if isinstance(type_, MapType):
        pairs = [(key, _with_field_defaults(type_.value, item, pick, label)) for key, item in map_items(value)]
        return dict(pairs) if isinstance(value, dict) else pairs
    return value
