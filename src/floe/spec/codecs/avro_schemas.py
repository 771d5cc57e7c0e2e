"""Converts types to Avro schemas and back, for data files and manifests (spec: Appendix A, Avro).

An Avro schema is a JSON value: a string, or dicts and lists of them. Ids are stored as `field-id`, `element-id`,
`key-id` and `value-id`. A field name that is not valid in Avro is escaped (`a b` becomes `a_x20b`), and the name itself
is stored as `iceberg-field-name`.

Files of other writers have no ids. Their fields get distinct negative ids; `avro_file_fields` returns them without ids,
so that a name mapping can be applied. Schemas of files are not trusted: nesting and size are limited, and a problem is
an `InvalidMetadata` with its JSON path.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import msgspec

from floe.errors import InvalidInput, InvalidMetadata, InvalidSchema, UnsupportedFeature
from floe.spec.codecs import single_value
from floe.spec.json_reader import check_unique_keys
from floe.spec.schemas.name_mapping import FileField
from floe.spec.schemas.schema import Schema
from floe.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    Field,
    FixedType,
    ListType,
    MapType,
    StructType,
    Type,
)
from floe.spec.values.exact_numbers import bytes_for_precision

FIELD_NAME = "iceberg-field-name"
"""The attribute with the name of a field whose Avro name is escaped."""

UUID_LENGTH = 16


# Names -----------------------------------------------------------------------------------------------------------

_LEGAL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def avro_name(name: str) -> str:
    """Return a valid Avro name: letters, digits and `_` are kept, a leading digit and other characters are escaped.

    Characters are escaped as UTF-16 code units, as other writers do. Letters outside ASCII are escaped, too, although
    the reference implementation keeps them: Avro allows only ASCII, and strict readers reject such a file.

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
    """The unique Avro name of each field by id; valid names never change."""
    fields = tuple(fields)
    used = {child.name for child in fields if avro_name(child.name) == child.name}
    names = {}
    for child in fields:
        name = avro_name(child.name)
        if name != child.name:
            while name in used:
                name = f"{name}_{child.id}"
            used.add(name)
        names[child.id] = name
    return names


# Types to Avro schemas -------------------------------------------------------------------------------------------


def _timestamp(unit: str, adjust_to_utc: bool) -> dict[str, Any]:
    return {"type": "long", "logicalType": f"timestamp-{unit}", "adjust-to-utc": adjust_to_utc}


_AVRO_TYPES: dict[str, Any] = {
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
    """Return the Avro schema of a type or table schema; a struct becomes a record with `name`.

    >>> from floe.spec.types import INT, STRING
    >>> type_to_avro(Schema((Field(1, "a b", INT), Field(2, "c", STRING, required=True))))
    {'type': 'record', 'name': 'table', 'fields': [{'name': 'a_x20b', 'type': ['null', 'int'], 'default': None,
     'iceberg-field-name': 'a b', 'field-id': 1}, {'name': 'c', 'type': 'string', 'field-id': 2}]}
    """
    return _Writer().of(type_.as_struct() if isinstance(type_, Schema) else type_, avro_name(name))


class _Writer:
    """Converts types; in Avro a named schema is defined once, and later uses refer to its name."""

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
        plain = _AVRO_TYPES[type_.kind]
        return dict(plain) if isinstance(plain, dict) else plain

    def child(self, child: Field) -> Any:
        """The schema of a field, list element or map value: a union with null if it is optional."""
        schema = self.of(child.type, f"r{child.id}")
        return schema if child.required or schema == "null" else ["null", schema]

    def named(self, definition: dict[str, Any]) -> Any:
        name = definition["name"]
        existing = self.defined.setdefault(name, definition)
        if existing is definition:
            return definition
        if existing != definition:
            raise InvalidSchema(f"two Avro schemas would both be named {name!r}", hint="choose another record name")
        return name

    def reserve(self, name: str) -> None:
        """Reserve the name of a record before its fields are converted, so that none of them can get it."""
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
            # The spec requires the default of the field here. But in Avro the default of a union belongs to its first
            # branch, so null would have to be second, and readers that expect null first would misread all values.
            out["default"] = None
        elif (default := _default(child.type, child.initial_default)) is not _NO_DEFAULT:
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
        """A record whose two fields have no ids and are identified by name."""
        self.reserve(name)
        parts = [{"name": "metadata", "type": "bytes"}, {"name": "value", "type": "bytes"}]
        return {"type": "record", "name": name, "fields": parts, "logicalType": "variant"}


# Defaults --------------------------------------------------------------------------------------------------------

_NO_DEFAULT: Final = object()
"""Means that there is no default, or that Avro cannot represent it."""


def _latin1_text(data: bytes) -> str:
    """Bytes in Avro's JSON: each byte is the character with that code."""
    return data.decode("latin-1")


def _decimal_default(type_: Any, value: Any) -> str:
    data = single_value.encode(type_, value)
    fill = b"\xff" if data[0] & 0x80 else b"\x00"
    return _latin1_text(data.rjust(bytes_for_precision(type_.precision), fill))


def _bytes_default(type_: Any, value: Any) -> str:
    return _latin1_text(single_value.encode(type_, value))


def _float_default(_: Any, value: Any) -> Any:
    return value if math.isfinite(value) else _NO_DEFAULT  # JSON has no NaN and no infinity


def _list_default(type_: Any, values: Any) -> Any:
    return _unless_missing([_child_default(type_.element_field, v) for v in values])


def _map_default(type_: Any, value: Any) -> Any:
    pairs = value.items() if isinstance(value, dict) else value
    keys = _unless_missing([_default(type_.key, k) for k, _ in pairs])
    values = _unless_missing([_child_default(type_.value_field, v) for _, v in pairs])
    if keys is _NO_DEFAULT or values is _NO_DEFAULT:
        return _NO_DEFAULT
    if type_.key.kind == "string":
        return dict(zip(keys, values, strict=True))
    return [{"key": k, "value": v} for k, v in zip(keys, values, strict=True)]


def _struct_default(type_: Any, value: Any) -> Any:
    names = _field_names(type_.fields)
    defaults = {names[c.id]: _child_default(c, value.get(c.name, c.initial_default)) for c in type_.fields}
    return _NO_DEFAULT if any(v is _NO_DEFAULT for v in defaults.values()) else defaults


def _unless_missing(values: list[Any]) -> Any:
    return _NO_DEFAULT if any(v is _NO_DEFAULT for v in values) else values


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
    """The Avro default of a required value, or `_NO_DEFAULT`."""
    if value is None:
        return _NO_DEFAULT
    convert = _DEFAULTS.get(type_.kind)
    return convert(type_, value) if convert is not None else value


def _child_default(child: Field, value: Any) -> Any:
    """The Avro default of a nested field; for an optional one it can only be null, the first branch of its union."""
    if child.optional:
        return None if value is None else _NO_DEFAULT
    return _default(child.type, value)


# Avro schemas to types -------------------------------------------------------------------------------------------

MAX_DEPTH = 100
MAX_FIELDS = 50_000
"""The maximum number of fields after named schemas are expanded: two uses of a name in each record double them at
every level."""

MAX_SCHEMA_BYTES = 64 * 2**20
MAX_ID = 2**31 - 1

_PRIMITIVES: dict[str, Type] = {
    "null": UNKNOWN,
    "boolean": BOOLEAN,
    "int": INT,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "bytes": BINARY,
    "string": STRING,
}

_LOGICAL: dict[tuple[str, str], Type] = {
    ("int", "date"): DATE,
    ("int", "time-millis"): TIME,
    ("long", "time-micros"): TIME,
    ("string", "uuid"): UUID,
    ("fixed", "uuid"): UUID,
    ("long", "local-timestamp-millis"): TIMESTAMP,
    ("long", "local-timestamp-micros"): TIMESTAMP,
    ("long", "local-timestamp-nanos"): TIMESTAMP_NS,
}

_TIMESTAMPS: dict[str, tuple[Type, Type]] = {  # without and with `adjust-to-utc`, which is false when absent
    "timestamp-millis": (TIMESTAMP, TIMESTAMPTZ),
    "timestamp-micros": (TIMESTAMP, TIMESTAMPTZ),
    "timestamp-nanos": (TIMESTAMP_NS, TIMESTAMPTZ_NS),
}


def parse_avro_schema(text: bytes | str) -> Any:
    """Parse the Avro schema in a file's header; returns its JSON value.

    >>> parse_avro_schema(b'{"type": "fixed", "name": "f", "size": 4}')
    {'type': 'fixed', 'name': 'f', 'size': 4}
    """
    if len(text) > MAX_SCHEMA_BYTES:
        raise InvalidMetadata(f"an Avro schema of {len(text)} bytes; at most {MAX_SCHEMA_BYTES} are read")
    try:
        schema = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidMetadata(f"the Avro schema is not JSON: {error}") from error
    except RecursionError:
        raise InvalidMetadata("the Avro schema is nested too deeply") from None
    _check_keys(text)
    return schema


@lru_cache(maxsize=64)
def _check_keys(text: bytes | str) -> None:
    """Check for duplicate keys; cached, because the manifests of a table have the same few schemas."""
    check_unique_keys(text)


def avro_to_type(schema: Any) -> Type:
    """Return the type of an Avro schema (as a JSON value); a record becomes a struct.

    >>> from floe.spec.codecs.avro_schemas import type_to_avro
    >>> original = StructType((Field(1, "id", LONG, required=True), Field(2, "a b", ListType(3, UUID))))
    >>> avro_to_type(type_to_avro(original)) == original
    True
    >>> print(avro_to_type({"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]}))
    struct<-1: x: required int>
    """
    return _Reader().of(schema, "", MAX_DEPTH)


def avro_file_fields(schema: Any) -> tuple[FileField, ...]:
    """Return the columns of an Avro file from its schema; columns without ids in the file have none.

    >>> avro_file_fields({"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]})
    (FileField(name='x', kind='int', stored=INT, id=None, children=()),)
    """
    type_ = avro_to_type(schema)
    if not isinstance(type_, StructType):
        raise InvalidMetadata(f"the rows of an Avro file must be records, found {type_}")
    return tuple(_file_field(FileField.of(child)) for child in type_.fields)


def _file_field(column: FileField) -> FileField:
    field_id = column.id if column.id is not None and column.id >= 0 else None
    return replace(column, id=field_id, children=tuple(map(_file_field, column.children)))


@dataclass
class _Reader:
    defined: dict[str, tuple[Any, str]] = field(default_factory=dict)
    """Named schemas by full name, with their enclosing namespace."""

    open_records: set[str] = field(default_factory=set)
    """The enclosing records: recursive records have no type."""

    placeholder_id: int = 0
    fields: int = 0

    def of(self, schema: Any, namespace: str, depth: int) -> Type:
        if depth <= 0:
            raise InvalidMetadata(f"Avro schemas nest deeper than {MAX_DEPTH} levels")
        if isinstance(schema, str):
            return self.by_name(schema, namespace, depth)
        if isinstance(schema, list):
            inner, _ = _without_null(schema)
            return self.of(inner, namespace, depth - 1)
        if not isinstance(schema, dict):
            raise InvalidMetadata(
                f"must be an Avro schema, found {schema!r:.80}" if schema is not None else "is missing"
            )
        kind = schema.get("type")
        if not isinstance(kind, str):
            return self.step(".type", kind, namespace, depth - 1)
        if kind in ("record", "error"):
            return self.record(schema, namespace, depth)
        if kind == "array":
            return self.array(schema, namespace, depth)
        if kind == "map":
            return self.map(schema, namespace, depth)
        if kind in ("fixed", "enum"):
            self.define(schema, namespace)
        return self.primitive(schema, kind, namespace, depth)

    def step(self, step: str, schema: Any, namespace: str, depth: int) -> Type:
        try:
            return self.of(schema, namespace, depth)
        except InvalidMetadata as error:
            raise error.at(step) from None

    # Names --------------------------------------------------------------------------------------------------------

    def define(self, schema: dict[str, Any], namespace: str) -> tuple[str, str]:
        """Store a named schema; returns its full name, and the namespace inside it."""
        name, own_namespace = schema.get("name"), schema.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(own_namespace, str):
            raise InvalidMetadata("an Avro record, enum or fixed needs a name").at(".name")
        full_name = name if "." in name or not own_namespace else f"{own_namespace}.{name}"
        self.defined.setdefault(full_name, (schema, namespace))
        return full_name, full_name.rpartition(".")[0]

    def by_name(self, name: str, namespace: str, depth: int) -> Type:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        definition = (self.defined.get(f"{namespace}.{name}") if namespace else None) or self.defined.get(name)
        if definition is None:
            raise InvalidMetadata(f"no Avro schema is named {name[:80]!r}")
        return self.of(*definition, depth - 1)

    # Nested types -------------------------------------------------------------------------------------------------

    def record(self, schema: dict[str, Any], namespace: str, depth: int) -> Type:
        full_name, inner_namespace = self.define(schema, namespace)
        if schema.get("logicalType") == "variant":
            return VARIANT
        if full_name in self.open_records:
            raise UnsupportedFeature(f"the Avro record {full_name[:80]!r} is recursive, which Iceberg does not support")
        self.open_records.add(full_name)
        try:
            return StructType(self.record_fields(schema, inner_namespace, depth))
        except InvalidMetadata:
            raise
        except InvalidInput as error:
            raise InvalidMetadata(error.message, hint=error.hint, **error.context) from error
        finally:
            self.open_records.discard(full_name)

    def record_fields(self, schema: dict[str, Any], namespace: str, depth: int) -> tuple[Field, ...]:
        items = schema.get("fields")
        if not isinstance(items, list):
            raise InvalidMetadata("must be a list of fields" if items is not None else "is missing").at(".fields")
        self.fields += len(items)
        if self.fields > MAX_FIELDS:
            raise InvalidMetadata(f"the Avro schema has more than {MAX_FIELDS} fields")
        fields = []
        for n, item in enumerate(items):
            try:
                fields.append(self.field(item, namespace, depth))
            except InvalidMetadata as error:
                raise error.at(f".fields[{n}]") from None
        return tuple(fields)

    def field(self, item: Any, namespace: str, depth: int) -> Field:
        if not isinstance(item, dict):
            raise InvalidMetadata(f"must be a field, found {item!r:.80}")
        name = item.get(FIELD_NAME, item.get("name"))
        if not isinstance(name, str):
            raise InvalidMetadata("must be a string" if name is not None else "is missing").at(".name")
        schema, optional = _without_null(item.get("type"))
        type_ = self.step(".type", schema, namespace, depth - 1)
        doc = item.get("doc")
        return Field(
            self.id(item, "field-id"),
            name,
            type_,
            required=not optional and type_.kind != "unknown",
            doc=doc if isinstance(doc, str) else None,
        )

    def array(self, schema: dict[str, Any], namespace: str, depth: int) -> Type:
        if schema.get("logicalType") == "map":
            return self.map_from_pairs(schema, namespace, depth)
        items, optional = _without_null(schema.get("items"))
        element_id = self.id(schema, "element-id")
        element = self.step(".items", items, namespace, depth - 1)
        return ListType(element_id, element, element_required=not optional and element.kind != "unknown")

    def map_from_pairs(self, schema: dict[str, Any], namespace: str, depth: int) -> Type:
        pairs = self.step(".items", schema.get("items"), namespace, depth - 1)
        if not isinstance(pairs, StructType) or len(pairs) != 2 or pairs.fields[0].optional:
            raise InvalidMetadata("the pairs of a map must be records of a required key and a value").at(".items")
        key, value = pairs.fields
        return MapType(key.id, key.type, value.id, value.type, value_required=value.required)

    def map(self, schema: dict[str, Any], namespace: str, depth: int) -> Type:
        values, optional = _without_null(schema.get("values"))
        key_id, value_id = self.id(schema, "key-id"), self.id(schema, "value-id")
        value = self.step(".values", values, namespace, depth - 1)
        return MapType(key_id, STRING, value_id, value, value_required=not optional and value.kind != "unknown")

    def id(self, schema: dict[str, Any], key: str) -> int:
        field_id = schema.get(key)
        if field_id is None:
            self.placeholder_id -= 1
            return self.placeholder_id
        if isinstance(field_id, str) and field_id.isascii() and field_id.isdigit():  # old writers put ids in strings
            field_id = int(field_id[:11])
        if type(field_id) is not int or not 0 <= field_id <= MAX_ID:
            raise InvalidMetadata(f"must be a field id, found {field_id!r:.80}").at("." + key)
        return field_id

    # Primitives ---------------------------------------------------------------------------------------------------

    def primitive(self, schema: dict[str, Any], kind: str, namespace: str, depth: int) -> Type:
        """Convert a primitive; an unknown or invalid logical type is read as its underlying type, as Avro requires."""
        logical = schema.get("logicalType")
        if isinstance(logical, str):
            type_ = _LOGICAL.get((kind, logical))
            if type_ is not None and (kind != "fixed" or schema.get("size") == 16):
                return type_
            if kind == "long" and logical in _TIMESTAMPS:
                return _TIMESTAMPS[logical][schema.get("adjust-to-utc") in (True, "true")]
            if logical == "decimal" and kind in ("fixed", "bytes") and (decimal := _decimal(schema)):
                return decimal
        if kind == "fixed":
            return _fixed(schema)
        return STRING if kind == "enum" else self.by_name(kind, namespace, depth)


def _without_null(schema: Any) -> tuple[Any, bool]:
    """The schema without null, and whether it was a union with null; Iceberg has no other unions."""
    if not isinstance(schema, list):
        return schema, False
    branches = [branch for branch in schema if branch != "null" and branch != {"type": "null"}]
    if len(branches) > 1 or not schema:
        raise UnsupportedFeature(
            f"an Avro union of {len(schema)} schemas: Iceberg supports only unions of one schema and null"
        )
    return (branches[0] if branches else "null"), len(branches) < len(schema)


def _decimal(schema: dict[str, Any]) -> Type | None:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int:
        return None
    try:
        return DecimalType(precision, scale)
    except InvalidInput:
        return None


def _fixed(schema: dict[str, Any]) -> Type:
    size = schema.get("size")
    if type(size) is not int or not 0 <= size <= MAX_ID:
        raise InvalidMetadata(f"must be a number of bytes, found {size!r:.80}").at(".size")
    return FixedType(size)
