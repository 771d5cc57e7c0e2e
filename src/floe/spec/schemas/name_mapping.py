"""Name mappings: field ids for files that have none, by column name (spec: Column Projection, Appendix C).

Readers of Parquet, Avro and ORC files turn the file's schema into `FileField`s, whose ids may be missing; a
`NameMapping` fills them in, and `column_projection` matches them with the columns of a table.

A table keeps its mapping as JSON text in the property `schema.name-mapping.default`. Names are literal at each level: a
dot in a name does not lead into a struct.

>>> mapping = parse_name_mapping('[{"field-id": 1, "names": ["id", "record_id"]}, {"names": ["junk"]}]')
>>> from floe.spec.types import LONG
>>> apply_mapping([FileField("record_id", "long", LONG)], mapping)[0].id
1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec

from floe.errors import CorruptFile, InvalidMetadata, InvalidSchema
from floe.spec.json_reader import check_unique_keys
from floe.spec.properties import NAME_MAPPING
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field, Type
from floe.spec.values.value_checks import short_repr

# Columns of data files ---------------------------------------------------------------------------------------------

_CHILDREN: dict[str, int | None] = {"struct": None, "list": 1, "map": 2}
"""How many children a nested column has; None for any number."""


@dataclass(frozen=True, slots=True)
class FileField:
    """A column of a data file, or a nested field of one.

    `stored` is the type as stored, for a column without children. A list has one child and a map two, key and value,
    whatever the file calls them.

    >>> from floe.spec.types import INT, ListType
    >>> tags = FileField.of(Field(1, "tags", ListType(2, INT)))
    >>> tags.kind, tags.children
    ('list', (FileField(name='element', kind='int', stored=INT, id=2, children=()),))
    """

    name: str
    kind: str
    stored: Type | None = None
    id: int | None = None
    children: tuple[FileField, ...] = ()

    def __post_init__(self) -> None:
        expected = _CHILDREN.get(self.kind, 0)
        if expected is not None and len(self.children) != expected:
            raise CorruptFile(
                f"a column of kind {self.kind} must have {expected} children, found {len(self.children)}",
                column=self.name,
            )
        if (self.stored is None) != (self.kind in _CHILDREN):
            raise CorruptFile("a column has either children or a type", column=self.name)

    @classmethod
    def of(cls, field: Field) -> FileField:
        """Return the column of a file that was written with a field."""
        children = tuple(map(cls.of, field.type.fields))
        return cls(field.name, field.type.kind, None if field.type.is_nested else field.type, field.id, children)


def has_ids(fields: Iterable[FileField]) -> bool:
    """Whether any column, at any depth, has a field id; then no name mapping applies.

    >>> from floe.spec.types import INT
    >>> has_ids([FileField("a", "int", INT)]), has_ids([FileField("a", "int", INT, id=1)])
    (False, True)
    """
    return any(field.id is not None or has_ids(field.children) for field in fields)


def without_ids(fields: Iterable[FileField]) -> tuple[FileField, ...]:
    """Return the columns without field ids, as in a file that was not written for a table."""
    return tuple(replace(field, id=None, children=without_ids(field.children)) for field in fields)


# Mappings -----------------------------------------------------------------------------------------------------------

MAX_MAPPING_DEPTH = 100
MAX_MAPPING_TEXT = 16 * 1024 * 1024
"""Longer texts are rejected before they are parsed."""

_KEYS = frozenset({"field-id", "names", "fields"})


@dataclass(frozen=True, slots=True)
class MappedField:
    """The names that a field may have in data files, and its id; None if only files have the field."""

    names: tuple[str, ...]
    field_id: int | None = None
    fields: tuple[MappedField, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)


@dataclass(frozen=True)
class NameMapping:
    """The name mapping of a table; each name is unique within its level, and each id overall."""

    fields: tuple[MappedField, ...] = ()

    def __post_init__(self) -> None:
        levels = [("", self.fields)]
        ids: set[int] = set()
        while levels:
            prefix, fields = levels.pop()
            names: set[str] = set()
            for mapped in fields:
                for name in mapped.names:
                    if name in names:
                        raise InvalidSchema(f"a name mapping uses the name {prefix + name!r} twice")
                    names.add(name)
                if mapped.field_id is not None:
                    if mapped.field_id in ids:
                        raise InvalidSchema(f"a name mapping uses the field id {mapped.field_id} twice")
                    ids.add(mapped.field_id)
                if mapped.fields:
                    levels.append((f"{prefix}{mapped.names[0] if mapped.names else '?'}.", mapped.fields))

    @cached_property
    def by_id(self) -> Mapping[int, MappedField]:
        """All mapped fields with an id, at any depth, by id.

        >>> NameMapping((MappedField(("a",), 1, (MappedField(("b",), 2),)),)).by_id[2].names
        ('b',)
        """
        by_id: dict[int, MappedField] = {}
        stack = list(self.fields)
        while stack:
            mapped = stack.pop()
            if mapped.field_id is not None:
                by_id[mapped.field_id] = mapped
            stack.extend(mapped.fields)
        return by_id

    def find(self, *path: str) -> MappedField | None:
        """Return the mapped field of a path of names; list and map children are `element`, `key` and `value`.

        >>> NameMapping((MappedField(("a.b",), 1),)).find("a", "b") is None
        True
        """
        mapped: MappedField | None = None
        level = self.fields
        for name in path:
            mapped = next((candidate for candidate in level if name in candidate.names), None)
            if mapped is None:
                return None
            level = mapped.fields
        return mapped


# Building and applying -----------------------------------------------------------------------------------------------


def mapping_from_schema(schema: Schema) -> NameMapping:
    """Return the mapping that maps each field of a schema by its name.

    >>> from floe.spec.types import INT
    >>> mapping_from_schema(Schema((Field(1, "a", INT),)))
    NameMapping(fields=(MappedField(names=('a',), field_id=1, fields=()),))
    """
    return NameMapping(tuple(map(_map_field, schema.fields)))


def _map_field(child: Field) -> MappedField:
    return MappedField((child.name,), child.id, tuple(map(_map_field, child.type.fields)))


def apply_mapping(fields: Iterable[FileField], mapping: NameMapping) -> tuple[FileField, ...]:
    """Return the columns of a file with the ids of the mapping; a column that it does not have gets none.

    The mapping is for files without any ids. The children of lists and maps are looked up as `element`, `key`
    and `value`, whatever the file calls them.

    >>> from floe.spec.types import INT
    >>> tags = FileField("tags", "list", children=(FileField("array_element", "int", INT),))
    >>> mapping = NameMapping((MappedField(("tags",), 1, (MappedField(("element",), 2),)),))
    >>> apply_mapping([tags], mapping)[0].children[0].id
    2
    """
    return _apply(list(fields), _by_name(mapping.fields), None)


_CHILD_NAMES = {"list": ("element",), "map": ("key", "value")}


def _apply(fields: Sequence[FileField], level: Mapping[str, MappedField], kind: str | None) -> tuple[FileField, ...]:
    names = _CHILD_NAMES.get(kind or "") or tuple(f.name for f in fields)
    mapped_fields = [level.get(name) for name in names]
    return tuple(
        replace(
            column,
            id=mapped.field_id if mapped else None,
            children=_apply(column.children, _by_name(mapped.fields if mapped else ()), column.kind),
        )
        for column, mapped in zip(fields, mapped_fields, strict=True)
    )


def _by_name(fields: tuple[MappedField, ...]) -> dict[str, MappedField]:
    return {name: mapped for mapped in fields for name in mapped.names}


# Following schema changes --------------------------------------------------------------------------------------------


def update_mapping(mapping: NameMapping, before: Schema, after: Schema) -> NameMapping:
    """Return the mapping after a schema change, for files imported afterwards.

    A renamed field is mapped by its new name too, and an added field by its name; a name that now belongs to one field
    no longer maps to another. Names of dropped fields stay.

    >>> from floe.spec.types import INT
    >>> before, after = Schema((Field(1, "a", INT),)), Schema((Field(1, "b", INT), Field(2, "a", INT)))
    >>> [m.names for m in update_mapping(mapping_from_schema(before), before, after).fields]
    [('b',), ('a',)]
    """
    return NameMapping(_update_level(mapping.fields, after.fields, before))


def _update_level(
    mapped_fields: tuple[MappedField, ...], children: tuple[Field, ...], before: Schema
) -> tuple[MappedField, ...]:
    """Update one level of the mapping to the children that its struct, list or map has after the change."""
    by_id = {child.id: child for child in children}
    new_names = {child.name: child.id for child in children if _is_new_name(child, before)}
    updated = []
    for mapped in mapped_fields:
        child = by_id.get(mapped.field_id) if mapped.field_id is not None else None
        names = mapped.names
        if child is not None and new_names.get(child.name) == child.id and child.name not in names:
            names = (*names, child.name)
        names = tuple(name for name in names if new_names.get(name, mapped.field_id) == mapped.field_id)
        fields = _update_level(mapped.fields, child.type.fields, before) if child is not None else mapped.fields
        updated.append(replace(mapped, names=names, fields=fields))
    mapped_ids = {mapped.field_id for mapped in mapped_fields}
    added = [child for child in children if child.id not in before.by_id and child.id not in mapped_ids]
    return (*updated, *map(_map_field, added))


def _is_new_name(child: Field, before: Schema) -> bool:
    """Whether this change gave the field its name: it was added or renamed."""
    old = before.find(child.id)
    return old is None or old.name != child.name


# JSON -----------------------------------------------------------------------------------------------------------


def parse_name_mapping(text: str) -> NameMapping:
    """Parse the text of the table property.

    >>> parse_name_mapping('[{"names": 3}]')
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $[0].names: must be a list of strings, found 3
    """
    if len(text) > MAX_MAPPING_TEXT:
        raise InvalidMetadata(f"the name mapping has more than {MAX_MAPPING_TEXT} characters")
    try:
        json = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise InvalidMetadata(f"the name mapping is not JSON: {error}", property=NAME_MAPPING.name) from None
    try:
        check_unique_keys(text)
    except InvalidMetadata as error:
        raise error.with_context(property=NAME_MAPPING.name) from None
    return mapping_from_json(json)


def format_name_mapping(mapping: NameMapping) -> str:
    """Return the text for the table property.

    >>> format_name_mapping(NameMapping((MappedField(("a",), 1),)))
    '[{"field-id":1,"names":["a"]}]'
    """
    return msgspec.json.encode(mapping_to_json(mapping)).decode()


def mapping_from_json(json: Any) -> NameMapping:
    """Read a mapping from its JSON list of field mappings; errors have the JSON path of the problem."""
    return NameMapping(_fields_from_json(json, MAX_MAPPING_DEPTH, set()))


def mapping_to_json(mapping: NameMapping) -> list[dict[str, Any]]:
    """Return the JSON list of field mappings."""
    return [_field_to_json(mapped) for mapped in mapping.fields]


def _field_to_json(mapped: MappedField) -> dict[str, Any]:
    out: dict[str, Any] = {} if mapped.field_id is None else {"field-id": mapped.field_id}
    out["names"] = list(mapped.names)
    if mapped.fields:
        out["fields"] = [_field_to_json(child) for child in mapped.fields]
    return out | mapped.extra


def _fields_from_json(json: Any, depth: int, ids: set[int]) -> tuple[MappedField, ...]:
    if not isinstance(json, list):
        raise InvalidMetadata(f"must be a list of field mappings, found {short_repr(json)}")
    if depth <= 0:
        raise InvalidMetadata(f"field mappings nest deeper than {MAX_MAPPING_DEPTH} levels")
    fields = []
    names: set[str] = set()
    for n, item in enumerate(json):
        try:
            mapped = _field_from_json(item, depth, ids)
            if duplicates := names.intersection(mapped.names):
                raise InvalidMetadata(f"the name {min(duplicates)[:80]!r} is used twice").at(".names")
        except InvalidMetadata as error:
            raise error.at(f"[{n}]") from None
        names.update(mapped.names)
        fields.append(mapped)
    return tuple(fields)


def _field_from_json(json: Any, depth: int, ids: set[int]) -> MappedField:
    if not isinstance(json, dict):
        raise InvalidMetadata(f"must be an object with `names`, `field-id` and `fields`, found {short_repr(json)}")
    field_id, names, nested = json.get("field-id"), json.get("names", []), json.get("fields")
    if field_id is not None:
        if type(field_id) is not int or not -(2**31) <= field_id < 2**31:
            raise InvalidMetadata(f"must be a 32-bit integer, found {short_repr(field_id)}").at(".field-id")
        if field_id in ids:
            raise InvalidMetadata(f"field id {field_id} is used twice").at(".field-id")
        ids.add(field_id)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidMetadata(f"must be a list of strings, found {short_repr(names)}").at(".names")
    children: tuple[MappedField, ...] = ()
    if nested is not None:
        try:
            children = _fields_from_json(nested, depth - 1, ids)
        except InvalidMetadata as error:
            raise error.at(".fields") from None
    extra = {key: value for key, value in json.items() if key not in _KEYS}
    return MappedField(tuple(dict.fromkeys(names)), field_id, children, extra)
