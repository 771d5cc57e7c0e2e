"""Types as Avro schemas, both ways: what data files and manifests are written with (spec: Appendix A, Avro).

An Avro schema is a JSON value here: a string, or dicts and lists of them. Ids are stored where the spec says
(`field-id`, `element-id`, `key-id`, `value-id`). A field's name must be legal in Avro, so others are spelt out
(`a b` becomes `a_x20b`) and the real name is kept beside it as `iceberg-field-name`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from floe.errors import InvalidSchema
from floe.spec.codecs import single_value
from floe.spec.codecs.decimal_width import bytes_for_precision
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, Field, FixedType, ListType, MapType, StructType, Type

__all__ = ["FIELD_NAME", "avro_name", "type_to_avro"]

FIELD_NAME = "iceberg-field-name"
"""Where a field's real name is kept when Avro cannot spell it."""

UUID_LENGTH = 16


# names --------------------------------------------------------------------------------------------------------

_LEGAL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def avro_name(name: str) -> str:
    """The name as Avro can spell it: letters, digits and `_` stay, a leading digit and all else is escaped.

    Escapes are counted in UTF-16 units, as other writers do. Letters outside ASCII are escaped too, although the
    reference implementation keeps them: Avro's own rule knows only ASCII, and strict readers refuse such a file.

    >>> [avro_name(n) for n in ("id", "a b", "1st", "☃", "😀", "")]
    ['id', 'a_x20b', '_1st', '_x2603', '_xD83D_xDE00', '_']
    """
    if _LEGAL_NAME.fullmatch(name):
        return name
    escaped = "".join(_escape(char) for char in name)
    return "_" + escaped if not escaped or escaped[0].isdigit() else escaped


def _escape(char: str) -> str:
    if char.isascii() and (char.isalnum() or char == "_"):
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"_x{int.from_bytes(units[i : i + 2], 'big'):X}" for i in range(0, len(units), 2))


def _field_names(fields: Iterable[Field]) -> dict[int, str]:
    """The Avro name of each field by its id, all different; a name that needs no escape always stays as it is."""
    fields = tuple(fields)
    taken = {child.name for child in fields if avro_name(child.name) == child.name}
    names = {}
    for child in fields:
        name = avro_name(child.name)
        if name != child.name:
            while name in taken:
                name = f"{name}_{child.id}"
            taken.add(name)
        names[child.id] = name
    return names


# types --------------------------------------------------------------------------------------------------------


def _timestamp(unit: str, adjust_to_utc: bool) -> dict[str, Any]:
    return {"type": "long", "logicalType": f"timestamp-{unit}", "adjust-to-utc": adjust_to_utc}


_PLAIN: dict[str, Any] = {
    "unknown": "null",
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": _timestamp("micros", False),
    "timestamptz": _timestamp("micros", True),
    "timestamp_ns": _timestamp("nanos", False),
    "timestamptz_ns": _timestamp("nanos", True),
    "string": "string",
    "binary": "bytes",
    "geometry": "bytes",
    "geography": "bytes",
}


def type_to_avro(type_: Type | Schema, name: str = "table") -> Any:
    """The Avro schema of a type or table schema; a struct becomes a record of that name.

    >>> from floe.spec.types import INT, STRING
    >>> type_to_avro(Schema((Field(1, "a b", INT), Field(2, "c", STRING, required=True))))
    {'type': 'record', 'name': 'table', 'fields': [{'name': 'a_x20b', 'type': ['null', 'int'], 'default': None,
     'iceberg-field-name': 'a b', 'field-id': 1}, {'name': 'c', 'type': 'string', 'field-id': 2}]}
    """
    return _Writer().of(type_.as_struct() if isinstance(type_, Schema) else type_, avro_name(name))


class _Writer:
    """Avro lets a named schema be written out once; every later use is its name alone."""

    def __init__(self) -> None:
        self.defined: dict[str, Any] = {}

    def of(self, type_: Type, record_name: str) -> Any:
        if isinstance(type_, StructType):
            return self.record(record_name, type_.fields)
        if isinstance(type_, ListType):
            items = self.child(type_.element_field)
            return {"type": "array", "items": items, "element-id": type_.element_id}
        if isinstance(type_, MapType):
            return self.map(type_)
        if isinstance(type_, DecimalType):
            return self.decimal(type_)
        if isinstance(type_, FixedType):
            return self.named({"type": "fixed", "name": f"fixed_{type_.length}", "size": type_.length})
        if type_.kind == "uuid":
            return self.named({"type": "fixed", "name": "uuid_fixed", "size": UUID_LENGTH, "logicalType": "uuid"})
        if type_.kind == "variant":
            return self.variant(record_name)
        plain = _PLAIN[type_.kind]
        return dict(plain) if isinstance(plain, dict) else plain

    def child(self, child: Field) -> Any:
        """The schema of a field, list element or map value: a union with null when it is optional."""
        own = self.of(child.type, f"r{child.id}")
        return own if child.required or own == "null" else ["null", own]

    def named(self, definition: dict[str, Any]) -> Any:
        name = definition["name"]
        known = self.defined.setdefault(name, definition)
        if known is definition:
            return definition
        if known != definition:
            raise InvalidSchema(f"two Avro schemas would both be named {name!r}", hint="choose another record name")
        return name

    def reserve(self, name: str) -> None:
        """Take a record's name before its fields are written, so that none of them can mean the record itself."""
        if name in self.defined:
            raise InvalidSchema(f"two Avro schemas would both be named {name!r}", hint="choose another record name")
        self.defined[name] = None

    def record(self, name: str, fields: tuple[Field, ...]) -> dict[str, Any]:
        self.reserve(name)
        names = _field_names(fields)
        return {"type": "record", "name": name, "fields": [self.field(child, names[child.id]) for child in fields]}

    def field(self, child: Field, name: str) -> dict[str, Any]:
        out = {"name": name, "type": self.child(child)}
        if child.doc is not None:
            out["doc"] = child.doc
        if child.optional:
            # The spec asks for the field's own default here. But Avro takes a union's default from its first branch,
            # so that would put null second, and readers that count on null first would misread every value.
            out["default"] = None
        elif (default := _default(child.type, child.initial_default)) is not _NONE:
            out["default"] = default
        if name != child.name:
            out[FIELD_NAME] = child.name
        return out | {"field-id": child.id}

    def map(self, type_: MapType) -> dict[str, Any]:
        if type_.key.kind == "string":
            values = self.child(type_.value_field)
            return {"type": "map", "values": values, "key-id": type_.key_id, "value-id": type_.value_id}
        items = self.record(f"k{type_.key_id}_v{type_.value_id}", type_.fields)
        return {"type": "array", "items": items, "logicalType": "map"}

    def decimal(self, type_: DecimalType) -> Any:
        return self.named(
            {
                "type": "fixed",
                "name": f"decimal_{type_.precision}_{type_.scale}",
                "size": bytes_for_precision(type_.precision),
                "logicalType": "decimal",
                "precision": type_.precision,
                "scale": type_.scale,
            }
        )

    def variant(self, name: str) -> dict[str, Any]:
        """A record whose two fields have no ids, and are found by name."""
        self.reserve(name)
        parts = [{"name": "metadata", "type": "bytes"}, {"name": "value", "type": "bytes"}]
        return {"type": "record", "name": name, "fields": parts, "logicalType": "variant"}


# defaults -----------------------------------------------------------------------------------------------------

_NONE: Final = object()
"""There is no default, or Avro cannot express it."""


def _latin(data: bytes) -> str:
    """Avro writes bytes in JSON as the characters of the same numbers."""
    return data.decode("latin-1")


def _decimal_default(type_: Any, value: Any) -> str:
    data = single_value.encode(type_, value)
    fill = b"\xff" if data[0] & 0x80 else b"\x00"
    return _latin(data.rjust(bytes_for_precision(type_.precision), fill))


def _bytes_default(type_: Any, value: Any) -> str:
    return _latin(single_value.encode(type_, value))


def _float_default(_: Any, value: Any) -> Any:
    return value if math.isfinite(value) else _NONE  # JSON has no NaN and no infinity


def _list_default(type_: Any, values: Any) -> Any:
    return _all_or_none([_child_default(type_.element_field, v) for v in values])


def _map_default(type_: Any, value: Any) -> Any:
    pairs = value.items() if isinstance(value, dict) else value
    keys = _all_or_none([_default(type_.key, k) for k, _ in pairs])
    values = _all_or_none([_child_default(type_.value_field, v) for _, v in pairs])
    if keys is _NONE or values is _NONE:
        return _NONE
    if type_.key.kind == "string":
        return dict(zip(keys, values, strict=True))
    return [{"key": k, "value": v} for k, v in zip(keys, values, strict=True)]


def _struct_default(type_: Any, value: Any) -> Any:
    names = _field_names(type_.fields)
    found = {names[c.id]: _child_default(c, value.get(c.name, c.initial_default)) for c in type_.fields}
    return _NONE if any(v is _NONE for v in found.values()) else found


def _all_or_none(values: list[Any]) -> Any:
    return _NONE if any(v is _NONE for v in values) else values


_DEFAULTS: dict[str, Callable[[Any, Any], Any]] = {
    "float": _float_default,
    "double": _float_default,
    "decimal": _decimal_default,
    "uuid": _bytes_default,
    "fixed": _bytes_default,
    "binary": _bytes_default,
    "list": _list_default,
    "map": _map_default,
    "struct": _struct_default,
}


def _default(type_: Type, value: Any) -> Any:
    """The Avro default of a required value, or `_NONE`."""
    if value is None:
        return _NONE
    convert = _DEFAULTS.get(type_.kind)
    return convert(type_, value) if convert is not None else value


def _child_default(child: Field, value: Any) -> Any:
    """The same within a default: an optional child's union begins with null, so it can be nothing else."""
    if child.optional:
        return None if value is None else _NONE
    return _default(child.type, value)
