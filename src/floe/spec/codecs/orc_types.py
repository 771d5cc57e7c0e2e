"""ORC types and attributes of each type, and the types of stored ORC columns (spec: Appendix A, ORC)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from floe.errors import CorruptFile, InvalidType, UnsupportedFeature
from floe.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    MAX_FIXED_LENGTH,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UUID,
    VARIANT,
    DecimalType,
    Field,
    FixedType,
    GeographyType,
    GeometryType,
    Type,
)

ID = "iceberg.id"
REQUIRED = "iceberg.required"
LONG_TYPE = "iceberg.long-type"
BINARY_TYPE = "iceberg.binary-type"
STRUCT_TYPE = "iceberg.struct-type"
TIMESTAMP_UNIT = "iceberg.timestamp-unit"
LENGTH = "iceberg.length"


@dataclass(frozen=True, slots=True)
class OrcType:
    """A kind of ORC type (`bigint` is called `long`, as in the spec) with the attributes that Iceberg adds.

    The children of a variant have no field ids and are identified by name (`unnumbered_children`).
    """

    kind: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    precision: int | None = None
    scale: int | None = None
    unnumbered_children: tuple[str, ...] = ()


_MICROS = {TIMESTAMP_UNIT: "MICROS"}
_NANOS = {TIMESTAMP_UNIT: "NANOS"}

_ORC_TYPES: dict[str, OrcType] = {
    "boolean": OrcType("boolean"),
    "int": OrcType("int"),
    "long": OrcType("long"),
    "float": OrcType("float"),
    "double": OrcType("double"),
    "date": OrcType("date"),
    "time": OrcType("long", {LONG_TYPE: "TIME"}),
    "timestamp": OrcType("timestamp", _MICROS),
    "timestamptz": OrcType("timestamp_instant", _MICROS),
    "timestamp_ns": OrcType("timestamp", _NANOS),
    "timestamptz_ns": OrcType("timestamp_instant", _NANOS),
    "string": OrcType("string"),
    "uuid": OrcType("binary", {BINARY_TYPE: "UUID"}),
    "binary": OrcType("binary"),
    "struct": OrcType("struct"),
    "list": OrcType("array"),
    "map": OrcType("map"),
    "variant": OrcType("struct", {STRUCT_TYPE: "VARIANT"}, unnumbered_children=("metadata", "value")),
    "geometry": OrcType("binary", {BINARY_TYPE: "GEOMETRY"}),
    "geography": OrcType("binary", {BINARY_TYPE: "GEOGRAPHY"}),
}


def orc_type(type_: Type) -> OrcType | None:
    """Return the ORC type of a type; None for `unknown`, which data files omit.

    >>> orc_type(TIME)
    OrcType(kind='long', attributes={'iceberg.long-type': 'TIME'}, ...)
    >>> orc_type(FixedType(5)).attributes
    {'iceberg.binary-type': 'FIXED', 'iceberg.length': '5'}
    """
    if isinstance(type_, DecimalType):
        return OrcType("decimal", precision=type_.precision, scale=type_.scale)
    if isinstance(type_, FixedType):
        return OrcType("binary", {BINARY_TYPE: "FIXED", LENGTH: str(type_.length)})
    return _ORC_TYPES.get(type_.kind)


def field_attributes(child: Field) -> dict[str, str]:
    """Return the attributes of a column, list element, map key or map value: id, required, and those of its type.

    >>> field_attributes(Field(3, "t", TIME, required=True))
    {'iceberg.id': '3', 'iceberg.required': 'true', 'iceberg.long-type': 'TIME'}
    """
    stored = orc_type(child.type)
    attributes = {ID: str(child.id), REQUIRED: "true" if child.required else "false"}
    return attributes | dict(stored.attributes) if stored is not None else attributes


_READ_AS: dict[str, Type] = {
    "boolean": BOOLEAN,
    "tinyint": INT,
    "smallint": INT,
    "int": INT,
    "float": FLOAT,
    "double": DOUBLE,
    "date": DATE,
    "string": STRING,
    "varchar": STRING,
    "char": STRING,
}
# Other writers also set the attribute for plain longs and binaries, so the plain types have names, too.
_LONGS: dict[str, Type] = {"LONG": LONG, "TIME": TIME}
_BINARIES: dict[str, Type] = {
    "BINARY": BINARY,
    "UUID": UUID,
    "GEOMETRY": GeometryType(),
    "GEOGRAPHY": GeographyType(),
}
_TIMESTAMPS: dict[tuple[str, str], Type] = {
    ("timestamp", "MICROS"): TIMESTAMP,
    ("timestamp_instant", "MICROS"): TIMESTAMPTZ,
    ("timestamp", "NANOS"): TIMESTAMP_NS,
    ("timestamp_instant", "NANOS"): TIMESTAMPTZ_NS,
}


def stored_type(stored: OrcType) -> Type:
    """Return the type of a column of an ORC file, which is not nested unless it is a variant.

    The coordinate reference system of a geometry or geography is not stored in the file, but in the table.

    >>> stored_type(OrcType("smallint"))
    INT
    >>> stored_type(OrcType("timestamp", {"iceberg.timestamp-unit": "NANOS"}))
    TIMESTAMP_NS
    """
    kind, attributes = stored.kind, stored.attributes
    type_: Type | None = _READ_AS.get(kind)
    if kind == "long":
        type_ = _LONGS.get(attributes.get(LONG_TYPE, "LONG"))
    elif kind == "binary":
        name = attributes.get(BINARY_TYPE, "BINARY")
        type_ = FixedType(_length(attributes)) if name == "FIXED" else _BINARIES.get(name)
    elif kind in ("timestamp", "timestamp_instant"):
        type_ = _TIMESTAMPS.get((kind, attributes.get(TIMESTAMP_UNIT, "MICROS")))
    elif kind == "decimal" and stored.precision is not None and stored.scale is not None:
        type_ = _decimal(stored.precision, stored.scale)
    elif kind == "struct" and attributes.get(STRUCT_TYPE) == "VARIANT":
        type_ = VARIANT
    if type_ is None:
        raise UnsupportedFeature(f"no type of the format is stored as ORC {kind!r} with attributes {dict(attributes)}")
    return type_


def _decimal(precision: int, scale: int) -> Type:
    try:
        return DecimalType(precision, scale)
    except InvalidType as error:
        raise CorruptFile(f"an ORC column has an invalid decimal type: {error.message}") from error


def _length(attributes: Mapping[str, str]) -> int:
    text = attributes.get(LENGTH, "")
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= MAX_FIXED_LENGTH):
        raise CorruptFile(f"the ORC attribute {LENGTH} of a fixed column must be a length, found {text[:20]!r}")
    return int(text)
