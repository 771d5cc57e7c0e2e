"""Name mappings: field ids for files that have none, by column name (spec: Column Projection, Appendix C).

A table keeps its mapping as JSON text in the property `schema.name-mapping.default`. Names are literal at each level: a
dot in one does not lead into a struct.

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

from floe.errors import InvalidMetadata, InvalidSchema
from floe.spec.json_keys import check_unique_keys
from floe.spec.schemas.file_fields import FileField
from floe.spec.schemas.schema import Schema
from floe.spec.types import Field
from floe.spec.values.checks import show

__all__ = [
    "NAME_MAPPING_PROPERTY",
    "MappedField",
    "NameMapping",
    "apply_mapping",
    "format_name_mapping",
    "mapping_from_json",
    "mapping_from_schema",
    "mapping_to_json",
    "parse_name_mapping",
    "update_mapping",
]

NAME_MAPPING_PROPERTY = "schema.name-mapping.default"
"""The table property that holds the mapping."""

MAX_MAPPING_DEPTH = 100
MAX_MAPPING_TEXT = 16 * 1024 * 1024
"""Longer texts are refused before they are parsed."""

_KEYS = frozenset({"field-id", "names", "fields"})


@dataclass(frozen=True, slots=True)
class MappedField:
    """The names that a field may have in data files, and its id; without an id, files have it and the table has not."""

    names: tuple[str, ...]
    field_id: int | None = None
    fields: tuple[MappedField, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict, hash=False, compare=False, repr=False)


@dataclass(frozen=True)
class NameMapping:
    """The mapping of a table; within one level each name, and overall each id, is used once."""

    fields: tuple[MappedField, ...] = ()

    def __post_init__(self) -> None:
        levels = [("", self.fields)]
        ids: set[int] = set()
        while levels:
            where, fields = levels.pop()
            names: set[str] = set()
            for mapped in fields:
                for name in mapped.names:
                    if name in names:
                        raise InvalidSchema(f"a name mapping uses the name {where + name!r} twice")
                    names.add(name)
                if mapped.field_id is not None:
                    if mapped.field_id in ids:
                        raise InvalidSchema(f"a name mapping uses the field id {mapped.field_id} twice")
                    ids.add(mapped.field_id)
                if mapped.fields:
                    levels.append((f"{where}{mapped.names[0] if mapped.names else '?'}.", mapped.fields))

    @cached_property
    def by_id(self) -> Mapping[int, MappedField]:
        """Every mapped field at any depth that has an id, by its id.

        >>> NameMapping((MappedField(("a",), 1, (MappedField(("b",), 2),)),)).by_id[2].names
        ('b',)
        """
        found: dict[int, MappedField] = {}
        waiting = list(self.fields)
        while waiting:
            mapped = waiting.pop()
            if mapped.field_id is not None:
                found[mapped.field_id] = mapped
            waiting.extend(mapped.fields)
        return found

    def find(self, *path: str) -> MappedField | None:
        """The mapped field that a path of names leads to; list and map children are `element`, `key` and `value`.

        >>> NameMapping((MappedField(("a.b",), 1),)).find("a", "b") is None
        True
        """
        found: MappedField | None = None
        level = self.fields
        for name in path:
            found = next((mapped for mapped in level if name in mapped.names), None)
            if found is None:
                return None
            level = found.fields
        return found


# made and applied --------------------------------------------------------------------------------------------------


def mapping_from_schema(schema: Schema) -> NameMapping:
    """The mapping under which each field of a schema is found by its own name.

    >>> from floe.spec.types import INT
    >>> mapping_from_schema(Schema((Field(1, "a", INT),)))
    NameMapping(fields=(MappedField(names=('a',), field_id=1, fields=()),))
    """
    return NameMapping(tuple(map(_mapped, schema.fields)))


def _mapped(child: Field) -> MappedField:
    return MappedField((child.name,), child.id, tuple(map(_mapped, child.type.fields)))


def apply_mapping(fields: Iterable[FileField], mapping: NameMapping) -> tuple[FileField, ...]:
    """The columns of a file with the ids that the mapping gives them; a column it does not know gets none.

    The mapping is meant for files without any ids. The children of lists and maps are looked up as `element`, `key`
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
    found = [level.get(name) for name in names]
    return tuple(
        replace(
            column,
            id=mapped.field_id if mapped else None,
            children=_apply(column.children, _by_name(mapped.fields if mapped else ()), column.kind),
        )
        for column, mapped in zip(fields, found, strict=True)
    )


def _by_name(fields: tuple[MappedField, ...]) -> dict[str, MappedField]:
    return {name: mapped for mapped in fields for name in mapped.names}


# kept up to date ---------------------------------------------------------------------------------------------------


def update_mapping(mapping: NameMapping, before: Schema, after: Schema) -> NameMapping:
    """The mapping after the schema has changed, for files that are imported from then on.

    A renamed field is found by its new name too, and an added field by its name; a name that now means one field no
    longer leads to another. What is mapped to dropped fields stays.

    >>> from floe.spec.types import INT
    >>> before, after = Schema((Field(1, "a", INT),)), Schema((Field(1, "b", INT), Field(2, "a", INT)))
    >>> [m.names for m in update_mapping(mapping_from_schema(before), before, after).fields]
    [('b',), ('a',)]
    """
    return NameMapping(_update_level(mapping.fields, after.fields, before))


def _update_level(
    mapped_fields: tuple[MappedField, ...], children: tuple[Field, ...], before: Schema
) -> tuple[MappedField, ...]:
    """One level of the mapping, given the children that its struct, list or map has after the change."""
    now = {child.id: child for child in children}
    owner = {child.name: child.id for child in children if _is_news(child, before)}
    kept = []
    for mapped in mapped_fields:
        child = now.get(mapped.field_id) if mapped.field_id is not None else None
        names = mapped.names
        if child is not None and owner.get(child.name) == child.id and child.name not in names:
            names = (*names, child.name)
        names = tuple(name for name in names if owner.get(name, mapped.field_id) == mapped.field_id)
        fields = _update_level(mapped.fields, child.type.fields, before) if child is not None else mapped.fields
        kept.append(replace(mapped, names=names, fields=fields))
    known = {mapped.field_id for mapped in mapped_fields}
    added = [child for child in children if child.id not in before.by_id and child.id not in known]
    return (*kept, *map(_mapped, added))


def _is_news(child: Field, before: Schema) -> bool:
    """Whether the field has its name by this change: added, or renamed."""
    old = before.find(child.id)
    return old is None or old.name != child.name


# as JSON -----------------------------------------------------------------------------------------------------------


def parse_name_mapping(text: str) -> NameMapping:
    """The mapping that the table property holds as text.

    >>> parse_name_mapping('[{"names": 3}]')
    Traceback (most recent call last):
    floe.errors.InvalidMetadata: $[0].names: must be a list of strings, found 3
    """
    if len(text) > MAX_MAPPING_TEXT:
        raise InvalidMetadata(f"the name mapping has more than {MAX_MAPPING_TEXT} characters")
    try:
        json = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise InvalidMetadata(f"the name mapping is not JSON: {error}", property=NAME_MAPPING_PROPERTY) from None
    try:
        check_unique_keys(text)
    except InvalidMetadata as error:
        raise error.with_context(property=NAME_MAPPING_PROPERTY) from None
    return mapping_from_json(json)


def format_name_mapping(mapping: NameMapping) -> str:
    """The text for the table property.

    >>> format_name_mapping(NameMapping((MappedField(("a",), 1),)))
    '[{"field-id":1,"names":["a"]}]'
    """
    return msgspec.json.encode(mapping_to_json(mapping)).decode()


def mapping_from_json(json: Any) -> NameMapping:
    """The mapping that a JSON list of field mappings describes; errors have the JSON path of the problem."""
    return NameMapping(_fields_from_json(json, MAX_MAPPING_DEPTH, set()))


def mapping_to_json(mapping: NameMapping) -> list[dict[str, Any]]:
    """The JSON list of field mappings."""
    return [_field_to_json(mapped) for mapped in mapping.fields]


def _field_to_json(mapped: MappedField) -> dict[str, Any]:
    out: dict[str, Any] = {} if mapped.field_id is None else {"field-id": mapped.field_id}
    out["names"] = list(mapped.names)
    if mapped.fields:
        out["fields"] = [_field_to_json(child) for child in mapped.fields]
    return out | mapped.extra


def _fields_from_json(json: Any, depth: int, ids: set[int]) -> tuple[MappedField, ...]:
    if not isinstance(json, list):
        raise InvalidMetadata(f"must be a list of field mappings, found {show(json)}")
    if depth <= 0:
        raise InvalidMetadata(f"field mappings nest deeper than {MAX_MAPPING_DEPTH} levels")
    fields = []
    taken: set[str] = set()
    for n, item in enumerate(json):
        try:
            mapped = _field_from_json(item, depth, ids)
            if again := taken.intersection(mapped.names):
                raise InvalidMetadata(f"the name {min(again)[:80]!r} is used twice").at(".names")
        except InvalidMetadata as error:
            raise error.at(f"[{n}]") from None
        taken.update(mapped.names)
        fields.append(mapped)
    return tuple(fields)


def _field_from_json(json: Any, depth: int, ids: set[int]) -> MappedField:
    if not isinstance(json, dict):
        raise InvalidMetadata(f"must be an object with `names`, `field-id` and `fields`, found {show(json)}")
    field_id, names, nested = json.get("field-id"), json.get("names", []), json.get("fields")
    if field_id is not None:
        if type(field_id) is not int or not -(2**31) <= field_id < 2**31:
            raise InvalidMetadata(f"must be a 32-bit integer, found {show(field_id)}").at(".field-id")
        if field_id in ids:
            raise InvalidMetadata(f"field id {field_id} is used twice").at(".field-id")
        ids.add(field_id)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidMetadata(f"must be a list of strings, found {show(names)}").at(".names")
    children: tuple[MappedField, ...] = ()
    if nested is not None:
        try:
            children = _fields_from_json(nested, depth - 1, ids)
        except InvalidMetadata as error:
            raise error.at(".fields") from None
    extra = {key: value for key, value in json.items() if key not in _KEYS}
    return MappedField(tuple(dict.fromkeys(names)), field_id, children, extra)
