"""Schemas and types as JSON (spec: Appendix C, Schemas).

The input may be hostile: nesting is limited, every problem is an `InvalidMetadata` with its JSON path, and keys that
this version does not know are preserved.
"""

from __future__ import annotations

from typing import Any

from floe.errors import InvalidInput, InvalidMetadata
from floe.spec.codecs import single_value_json
from floe.spec.schemas.schema import MAX_TYPE_DEPTH, Schema
from floe.spec.types import Field, ListType, MapType, StructType, Type, parse_type
from floe.spec.values.value_checks import short_repr

_FIELD_KEYS = frozenset({"id", "name", "required", "type", "doc", "initial-default", "write-default"})
_LIST_KEYS = frozenset({"type", "element-id", "element", "element-required"})
_MAP_KEYS = frozenset({"type", "key-id", "key", "value-id", "value", "value-required"})
_STRUCT_KEYS = frozenset({"type", "fields"})
_SCHEMA_KEYS = frozenset({"type", "schema-id", "identifier-field-ids", "fields"})


def schema_from_json(json: Any) -> Schema:
    """Read a schema from its JSON object.

    >>> schema_from_json({"type": "struct", "fields": [{"id": 1, "name": "a", "required": True, "type": "int"}]})
    Schema(fields=(Field(id=1, name='a', type=INT, required=True, ...),), schema_id=0, identifier_field_ids=())
    """
    obj = _object(json)
    kind = obj.get("type", "struct")
    if kind != "struct":
        raise InvalidMetadata(f"a schema must be a struct, found {_describe(kind)}").at(".type")
    fields = _Reader().fields(obj, MAX_TYPE_DEPTH)
    identifiers = _identifiers(obj.get("identifier-field-ids"))
    schema_id = _int(obj.get("schema-id", 0), ".schema-id")
    try:
        return Schema(fields, schema_id, identifiers, _unknown_keys(obj, _SCHEMA_KEYS))
    except InvalidInput as error:  # ids and names were checked before: only the identifiers can be wrong
        raise _at(error, ".identifier-field-ids") from error


def schema_to_json(schema: Schema) -> dict[str, Any]:
    """Return the JSON object of a schema."""
    out: dict[str, Any] = {"type": "struct", "schema-id": schema.schema_id}
    if schema.identifier_field_ids:
        out["identifier-field-ids"] = list(schema.identifier_field_ids)
    out["fields"] = [_field_to_json(f) for f in schema.fields]
    return out | schema.extra


def type_from_json(json: Any) -> Type:
    """Read a type from its JSON string or object.

    >>> str(type_from_json({"type": "list", "element-id": 3, "element": "string", "element-required": True}))
    'list<string>'
    """
    return _Reader().type(json, MAX_TYPE_DEPTH)


def type_to_json(type_: Type) -> Any:
    """Return the JSON string or object of a type."""
    if isinstance(type_, StructType):
        return {"type": "struct", "fields": [_field_to_json(f) for f in type_.fields]} | type_.extra
    if isinstance(type_, ListType):
        return {
            "type": "list",
            "element-id": type_.element_id,
            "element": type_to_json(type_.element),
            "element-required": type_.element_required,
        } | type_.extra
    if isinstance(type_, MapType):
        return {
            "type": "map",
            "key-id": type_.key_id,
            "key": type_to_json(type_.key),
            "value-id": type_.value_id,
            "value": type_to_json(type_.value),
            "value-required": type_.value_required,
        } | type_.extra
    return str(type_)


def _field_to_json(child: Field) -> dict[str, Any]:
    out = {"id": child.id, "name": child.name, "required": child.required, "type": type_to_json(child.type)}
    if child.doc is not None:
        out["doc"] = child.doc
    if child.initial_default is not None:
        out["initial-default"] = single_value_json.to_json(child.type, child.initial_default)
    if child.write_default is not None:
        out["write-default"] = single_value_json.to_json(child.type, child.write_default)
    return out | child.extra


class _Reader:
    """Reads the types of one schema; it remembers ids, so that a duplicate is reported with its path."""

    def __init__(self) -> None:
        self._ids: set[int] = set()

    def fields(self, obj: dict[str, Any], depth: int) -> tuple[Field, ...]:
        json = obj.get("fields")
        if not isinstance(json, list):
            raise InvalidMetadata(_expected("a list of fields", json)).at(".fields")
        fields: list[Field] = []
        names: set[str] = set()
        for n, item in enumerate(json):
            try:
                child = self._field(item, depth)
                if child.name in names:
                    raise InvalidMetadata(f"two fields of one struct are named {_describe(child.name)}").at(".name")
            except InvalidMetadata as error:
                raise error.at(f".fields[{n}]") from None
            names.add(child.name)
            fields.append(child)
        return tuple(fields)

    def type(self, json: Any, depth: int) -> Type:
        if isinstance(json, str):
            try:
                return parse_type(json)
            except InvalidInput as error:
                raise _at(error) from error
        obj = _object(json)
        if depth <= 0:
            raise InvalidMetadata(f"types nest deeper than {MAX_TYPE_DEPTH} levels")
        kind = obj.get("type")
        if kind == "struct":
            return StructType(self.fields(obj, depth - 1), _unknown_keys(obj, _STRUCT_KEYS))
        if kind == "list":
            return ListType(
                self._id(obj, "element-id"),
                self._child(obj, "element", depth - 1),
                _bool(obj, "element-required"),
                _unknown_keys(obj, _LIST_KEYS),
            )
        if kind == "map":
            return MapType(
                self._id(obj, "key-id"),
                self._child(obj, "key", depth - 1),
                self._id(obj, "value-id"),
                self._child(obj, "value", depth - 1),
                _bool(obj, "value-required"),
                _unknown_keys(obj, _MAP_KEYS),
            )
        raise InvalidMetadata(f"nested types are struct, list and map, found {_describe(kind)}").at(".type")

    def _field(self, json: Any, depth: int) -> Field:
        obj = _object(json)
        name, doc = obj.get("name"), obj.get("doc")
        if not isinstance(name, str):
            raise InvalidMetadata(_expected("a string", name)).at(".name")
        if doc is not None and not isinstance(doc, str):
            raise InvalidMetadata(_expected("a string", doc)).at(".doc")
        field_id = self._id(obj, "id")
        type_ = self._child(obj, "type", depth)
        return Field(
            id=field_id,
            name=name,
            type=type_,
            required=_bool(obj, "required"),
            doc=doc,
            initial_default=_default(type_, obj, "initial-default"),
            write_default=_default(type_, obj, "write-default"),
            extra=_unknown_keys(obj, _FIELD_KEYS),
        )

    def _child(self, obj: dict[str, Any], key: str, depth: int) -> Type:
        try:
            return self.type(obj.get(key), depth)
        except InvalidMetadata as error:
            raise error.at("." + key) from None

    def _id(self, obj: dict[str, Any], key: str) -> int:
        field_id = _int(obj.get(key), "." + key)
        if field_id in self._ids:
            raise InvalidMetadata(f"field id {field_id} is used twice").at("." + key)
        self._ids.add(field_id)
        return field_id


def _identifiers(json: Any) -> tuple[int, ...]:
    if json is None:
        return ()
    if not isinstance(json, list):
        raise InvalidMetadata(_expected("a list of field ids", json)).at(".identifier-field-ids")
    return tuple(_int(item, f".identifier-field-ids[{n}]") for n, item in enumerate(json))


def _default(type_: Type, obj: dict[str, Any], key: str) -> Any:
    json = obj.get(key)
    if json is None:
        return None
    try:
        return single_value_json.from_json(type_, json)
    except InvalidInput as error:
        raise _at(error, "." + key) from error


def _object(json: Any) -> dict[str, Any]:
    if not isinstance(json, dict):
        raise InvalidMetadata(_expected("a JSON object", json))
    return json


def _int(json: Any, step: str) -> int:
    if type(json) is not int:
        raise InvalidMetadata(_expected("an integer", json)).at(step)
    if not -(2**31) <= json < 2**31:
        raise InvalidMetadata(f"{_describe(json)} does not fit a 32-bit integer").at(step)
    return json


def _bool(obj: dict[str, Any], key: str) -> bool:
    json = obj.get(key)
    if not isinstance(json, bool):
        raise InvalidMetadata(_expected("true or false", json)).at("." + key)
    return json


def _unknown_keys(obj: dict[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in keys}


def _expected(expected: str, json: Any) -> str:
    return "is missing" if json is None else f"must be {expected}, found {_describe(json)}"


def _describe(json: Any) -> str:
    """Describe a value briefly, however large or deeply nested it is."""
    if isinstance(json, dict):
        return "an object"
    if isinstance(json, list):
        return "a list"
    return short_repr(json)


def _at(error: InvalidInput, *steps: str) -> InvalidMetadata:
    return InvalidMetadata(error.message, hint=error.hint, **error.context).at(*steps)
