"""Schemas as JSON values, both ways (spec: Appendix C, Schemas).

What is read may be hostile: nesting is limited, every problem is an `InvalidMetadata` with the JSON path of the place,
and keys that this version does not know are kept and written again.
"""

from __future__ import annotations

from typing import Any

from floe.errors import InvalidInput, InvalidMetadata
from floe.spec.codecs import single_value_json
from floe.spec.schema import Schema
from floe.spec.types import Field, ListType, MapType, StructType, Type, parse_type

__all__ = ["MAX_TYPE_DEPTH", "schema_from_json", "schema_to_json", "type_from_json", "type_to_json"]

MAX_TYPE_DEPTH = 100
"""How deep types may nest; deeper ones are refused rather than followed."""

_FIELD_KEYS = frozenset({"id", "name", "required", "type", "doc", "initial-default", "write-default"})
_LIST_KEYS = frozenset({"type", "element-id", "element", "element-required"})
_MAP_KEYS = frozenset({"type", "key-id", "key", "value-id", "value", "value-required"})
_STRUCT_KEYS = frozenset({"type", "fields"})
_SCHEMA_KEYS = frozenset({"type", "schema-id", "identifier-field-ids", "fields"})


def schema_from_json(json: Any) -> Schema:
    """The schema that a JSON object describes.

    >>> schema_from_json({"type": "struct", "fields": [{"id": 1, "name": "a", "required": True, "type": "int"}]})
    Schema(fields=(Field(id=1, name='a', type=INT, required=True, ...),), schema_id=0, identifier_field_ids=())
    """
    obj = _object(json)
    if obj.get("type", "struct") != "struct":
        raise InvalidMetadata(f"a schema must be a struct, found {obj['type']!r}").at(".type")
    fields = _fields_from_json(obj.get("fields"), MAX_TYPE_DEPTH)
    identifiers = obj.get("identifier-field-ids") or []
    if not isinstance(identifiers, list):
        raise InvalidMetadata("must be a list of field ids").at(".identifier-field-ids")
    ids = tuple(_int(i, f".identifier-field-ids[{n}]") for n, i in enumerate(identifiers))
    schema_id = _int(obj.get("schema-id", 0), ".schema-id")
    try:
        return Schema(fields, schema_id, ids, _rest(obj, _SCHEMA_KEYS))
    except InvalidInput as error:
        raise InvalidMetadata(error.message, hint=error.hint, **error.context) from error


def schema_to_json(schema: Schema) -> dict[str, Any]:
    """The JSON object of a schema."""
    out: dict[str, Any] = {"type": "struct", "schema-id": schema.schema_id}
    if schema.identifier_field_ids:
        out["identifier-field-ids"] = list(schema.identifier_field_ids)
    out["fields"] = [_field_to_json(f) for f in schema.fields]
    return out | schema.extra


def type_from_json(json: Any, *, depth: int = MAX_TYPE_DEPTH) -> Type:
    """The type that a JSON string or object describes.

    >>> str(type_from_json({"type": "list", "element-id": 3, "element": "string", "element-required": True}))
    'list<string>'
    """
    if isinstance(json, str):
        try:
            return parse_type(json)
        except InvalidInput as error:
            raise InvalidMetadata(error.message, hint=error.hint) from error
    obj = _object(json)
    if depth <= 0:
        raise InvalidMetadata(f"types nest deeper than {MAX_TYPE_DEPTH} levels")
    kind = obj.get("type")
    if kind == "struct":
        try:
            return StructType(_fields_from_json(obj.get("fields"), depth - 1), _rest(obj, _STRUCT_KEYS))
        except InvalidInput as error:
            raise InvalidMetadata(error.message, hint=error.hint, **error.context) from error
    if kind == "list":
        return ListType(
            _int(obj.get("element-id"), ".element-id"),
            _child(obj, "element", depth),
            _bool(obj.get("element-required", False), ".element-required"),
            _rest(obj, _LIST_KEYS),
        )
    if kind == "map":
        return MapType(
            _int(obj.get("key-id"), ".key-id"),
            _child(obj, "key", depth),
            _int(obj.get("value-id"), ".value-id"),
            _child(obj, "value", depth),
            _bool(obj.get("value-required", False), ".value-required"),
            _rest(obj, _MAP_KEYS),
        )
    raise InvalidMetadata(f"unknown type {str(kind)[:80]!r}; nested types are struct, list and map").at(".type")


def type_to_json(type_: Type) -> Any:
    """The JSON string or object of a type."""
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


def _fields_from_json(json: Any, depth: int) -> tuple[Field, ...]:
    if not isinstance(json, list):
        raise InvalidMetadata("must be a list of fields" if json is not None else "is missing").at(".fields")
    fields = []
    for n, item in enumerate(json):
        try:
            fields.append(_field_from_json(item, depth))
        except InvalidMetadata as error:
            raise error.at(f".fields[{n}]") from None
    return tuple(fields)


def _field_from_json(json: Any, depth: int) -> Field:
    obj = _object(json)
    name = obj.get("name")
    if not isinstance(name, str):
        raise InvalidMetadata("must be a string" if name is not None else "is missing").at(".name")
    doc = obj.get("doc")
    if doc is not None and not isinstance(doc, str):
        raise InvalidMetadata("must be a string").at(".doc")
    type_ = _child(obj, "type", depth)
    return Field(
        id=_int(obj.get("id"), ".id"),
        name=name,
        type=type_,
        required=_bool(obj.get("required"), ".required"),
        doc=doc,
        initial_default=_default(type_, obj.get("initial-default"), ".initial-default"),
        write_default=_default(type_, obj.get("write-default"), ".write-default"),
        extra=_rest(obj, _FIELD_KEYS),
    )


def _field_to_json(child: Field) -> dict[str, Any]:
    out = {"id": child.id, "name": child.name, "required": child.required, "type": type_to_json(child.type)}
    if child.doc is not None:
        out["doc"] = child.doc
    if child.initial_default is not None:
        out["initial-default"] = single_value_json.to_json(child.type, child.initial_default)
    if child.write_default is not None:
        out["write-default"] = single_value_json.to_json(child.type, child.write_default)
    return out | child.extra


def _default(type_: Type, json: Any, step: str) -> Any:
    if json is None:
        return None
    try:
        return single_value_json.from_json(type_, json)
    except InvalidInput as error:
        raise InvalidMetadata(error.message, hint=error.hint).at(step) from error


def _child(obj: dict[str, Any], key: str, depth: int) -> Type:
    if key not in obj:
        raise InvalidMetadata("is missing").at("." + key)
    try:
        return type_from_json(obj[key], depth=depth)
    except InvalidMetadata as error:
        raise error.at("." + key) from None


def _object(json: Any) -> dict[str, Any]:
    if not isinstance(json, dict):
        raise InvalidMetadata(f"must be a JSON object, found {json!r:.80}" if json is not None else "is missing")
    return json


def _int(json: Any, step: str) -> int:
    if type(json) is not int:
        raise InvalidMetadata(f"must be an integer, found {json!r:.80}" if json is not None else "is missing").at(step)
    if not -(2**31) <= json < 2**31:
        raise InvalidMetadata(f"{json} does not fit a 32-bit integer").at(step)
    return json


def _bool(json: Any, step: str) -> bool:
    if not isinstance(json, bool):
        raise InvalidMetadata(f"must be true or false, found {json!r:.80}" if json is not None else "is missing").at(
            step
        )
    return json


def _rest(obj: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in known}
