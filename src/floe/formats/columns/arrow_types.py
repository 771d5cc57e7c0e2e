"""Types and schemas as Arrow's, and back, with field ids in the metadata of Arrow fields.

| type | Arrow | from Arrow also |
|---|---|---|
| boolean | bool | bool8 |
| int, long | int32, int64 | narrower and unsigned ones that fit |
| float, double | float32, float64 | float16 |
| decimal(p, s) | decimal128(p, s) | decimals of other widths |
| date, time | date32, time64[us] | date64, time32 |
| timestamp, timestamptz | timestamp[us], timestamp[us, UTC] | seconds, milliseconds; any time zone |
| timestamp_ns, timestamptz_ns | timestamp[ns], timestamp[ns, UTC] | any time zone |
| string, binary | string, binary | large ones and views |
| uuid | fixed_size_binary(16) | `arrow.uuid` |
| fixed[L] | fixed_size_binary(L) | |
| geometry, geography | binary, of well-known binary | `geoarrow.wkb` |
| variant | struct of `metadata` and `value`, both binary | `arrow.parquet.variant` |
| unknown | null | |
| struct, list, map | struct, list, map | large, fixed-size and view lists |

Dictionary and run-end encoded arrays have the type of their values. A uuid is plain bytes, which every library reads
and compares; few know Arrow's extension type. Where several types have the same Arrow type (uuid, geometry, geography,
variant), the metadata of the field names the type, so that a schema survives the way to Arrow and back:

>>> from floe.spec.types import Field, UUID
>>> converted = arrow_schema(Schema((Field(1, "id", UUID, required=True),)))
>>> converted.field("id").type, converted.field("id").nullable, converted.field("id").metadata[TYPE]
(FixedSizeBinaryType(fixed_size_binary[16]), False, b'uuid')
>>> schema_from_arrow(converted).fields
(Field(id=1, name='id', type=UUID, required=True, ...),)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from floe.errors import FloeError, InvalidSchema, InvalidType
from floe.spec.schemas.schema import MAX_TYPE_DEPTH, Schema
from floe.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DEFAULT_CRS,
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
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StructType,
    Type,
    parse_type,
)

FIELD_ID = b"PARQUET:field_id"
"""The key of the field id in the metadata of a field; Arrow's Parquet reader and writer use the same."""

_ORC_FIELD_ID = b"iceberg.id"

DOC = b"doc"
"""The key of the documentation in the metadata of a field."""

TYPE = b"ICEBERG:type"
"""The key of the type's text in the metadata of a field whose Arrow type stands for several types."""

_NAMED_IN_METADATA = ("uuid", "geometry", "geography", "variant")
_VARIANT_CHILDREN = (pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False))

_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
    "string": pa.string(),
    "uuid": pa.binary(16),
    "binary": pa.binary(),
    "geometry": pa.binary(),
    "geography": pa.binary(),
    "variant": pa.struct(_VARIANT_CHILDREN),
    "unknown": pa.null(),
}


# To Arrow -------------------------------------------------------------------------------------------------------------


def arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type of a type.

    >>> arrow_type(ListType(7, DecimalType(9, 2), element_required=True))
    ListType(list<element: decimal128(9, 2) not null>)
    """
    if isinstance(type_, StructType):
        return pa.struct([arrow_field(child) for child in type_])
    if isinstance(type_, ListType):
        return pa.list_(arrow_field(type_.element_field))
    if isinstance(type_, MapType):
        return pa.map_(arrow_field(type_.key_field), arrow_field(type_.value_field))
    if isinstance(type_, DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if isinstance(type_, FixedType):
        return pa.binary(type_.length)
    return _ARROW[type_.kind]


def arrow_field(field: Field) -> pa.Field:
    """The Arrow field of a field, with its field id and documentation as metadata.

    >>> arrow_field(Field(3, "n", LONG, required=True)).metadata
    {b'PARQUET:field_id': b'3'}
    """
    metadata = {FIELD_ID: str(field.id).encode()}
    if field.doc is not None:
        metadata[DOC] = field.doc.encode()
    if field.type.kind in _NAMED_IN_METADATA:
        metadata[TYPE] = str(field.type).encode()
    # a column of type unknown has only nulls, even if it is required
    return pa.field(field.name, arrow_type(field.type), field.optional or field.type.kind == "unknown", metadata)


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a schema.

    >>> arrow_schema(Schema((Field(1, "n", LONG),)))
    n: int64
      -- field metadata --
      PARQUET:field_id: '1'
    """
    return pa.schema([arrow_field(field) for field in schema.fields])


# From Arrow -----------------------------------------------------------------------------------------------------------


def schema_from_arrow(schema: pa.Schema) -> Schema:
    """The schema of an Arrow schema; fields without an id get one above all existing ids, level by level.

    Raises `InvalidType` or `InvalidSchema` for what tables do not support.

    >>> print(schema_from_arrow(pa.schema([("a", pa.int8()), ("b", pa.list_(pa.large_string()))])))
    table {
      1: a: optional int
      2: b: optional list<string>
    }
    """
    return Schema(_SchemaReader(schema).fields(schema, ()))


def type_from_arrow(type_: pa.DataType) -> Type:
    """The type of an Arrow type; ids of nested fields are as in `schema_from_arrow`.

    >>> type_from_arrow(pa.timestamp("ms", "Europe/Zurich"))
    TIMESTAMPTZ
    >>> type_from_arrow(pa.uint64())
    Traceback (most recent call last):
    floe.errors.InvalidType: there is no type for Arrow's uint64; cast it to int64 or decimal128(20, 0)
    """
    return _SchemaReader([pa.field("", type_)]).type(type_, None, ())


def field_id_of(field: pa.Field) -> int | None:
    """The field id in the metadata of an Arrow field, under the key of Arrow's Parquet or ORC reader; None without one.

    >>> (
    ...     field_id_of(pa.field("a", pa.int32(), metadata={"PARQUET:field_id": "7"})),
    ...     field_id_of(pa.field("a", pa.int32())),
    ... )
    (7, None)
    """
    metadata = field.metadata or {}
    text = metadata.get(FIELD_ID, metadata.get(_ORC_FIELD_ID))
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidSchema(f"a field id must be a number, found {text!r:.80}", column=field.name) from None


def _children(type_: pa.DataType) -> list[pa.Field]:
    """The child fields, which have field ids too."""
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return _children(type_.value_type)
    if isinstance(type_, pa.BaseExtensionType):
        return [] if type_.extension_name in _EXTENSIONS else _children(type_.storage_type)
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    if pa.types.is_struct(type_):
        return [type_.field(n) for n in range(type_.num_fields)]
    return [type_.value_field] if _is_list(type_) else []


def _is_list(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, *_LIST_VIEWS)
    return any(is_kind(type_) for is_kind in kinds)


_LIST_VIEWS = [
    getattr(pa.types, name) for name in ("is_list_view", "is_large_list_view") if hasattr(pa.types, name)
]  # since pyarrow 16


def _walk(fields: Iterable[pa.Field]) -> Iterator[pa.Field]:
    """All fields at any depth, in no particular order."""
    level = [(field, 1) for field in fields]
    while level:
        field, depth = level.pop()
        if depth > MAX_TYPE_DEPTH:
            raise InvalidSchema(f"types nest at most {MAX_TYPE_DEPTH} deep", column=field.name)
        yield field
        level.extend((child, depth + 1) for child in _children(field.type))


class _SchemaReader:
    """Converts the fields of an Arrow schema, and assigns ids to those without."""

    def __init__(self, fields: Iterable[pa.Field]) -> None:
        stored = map(field_id_of, _walk(fields))
        self.next_id = max((field_id for field_id in stored if field_id is not None), default=0) + 1

    def fields(self, fields: Iterable[pa.Field], path: tuple[str, ...]) -> tuple[Field, ...]:
        listed = list(fields)
        ids = [self._id(field) for field in listed]
        return tuple(self._field(field, field_id, path) for field, field_id in zip(listed, ids, strict=True))

    def _id(self, field: pa.Field) -> int:
        stored = field_id_of(field)
        if stored is not None:
            return stored
        self.next_id += 1
        return self.next_id - 1

    def _field(self, field: pa.Field, field_id: int, path: tuple[str, ...]) -> Field:
        doc = (field.metadata or {}).get(DOC)
        type_ = self.type(field.type, field.metadata, (*path, field.name))
        required = not field.nullable and type_.kind != "unknown"
        return Field(field_id, field.name, type_, required, doc=None if doc is None else doc.decode(errors="replace"))

    def type(self, type_: pa.DataType, metadata: dict[bytes, bytes] | None, path: tuple[str, ...]) -> Type:
        if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
            return self.type(type_.value_type, metadata, path)
        if isinstance(type_, pa.BaseExtensionType):
            convert = _EXTENSIONS.get(type_.extension_name)
            return convert(type_) if convert else self.type(type_.storage_type, metadata, path)
        named = _type_in_metadata(type_, metadata)
        if named is not None:
            return named
        if pa.types.is_struct(type_):
            return StructType(self.fields(_children(type_), path))
        if pa.types.is_map(type_):
            key, value = self.fields(_children(type_), path)
            return MapType(key.id, key.type, value.id, value.type, value.required)
        if _is_list(type_):
            (element,) = self.fields(_children(type_), path)
            return ListType(element.id, element.type, element.required)
        try:
            return _primitive(type_)
        except InvalidType as error:
            raise error.with_context(column=".".join(path) or None) from None


def _type_in_metadata(type_: pa.DataType, metadata: dict[bytes, bytes] | None) -> Type | None:
    """The type that the metadata of a field names, if the field has the Arrow type of it."""
    text = (metadata or {}).get(TYPE)
    if text is None:
        return None
    try:
        named = parse_type(text.decode(errors="replace"))
    except FloeError:
        return None
    matches = type_.equals(arrow_type(named)) or (named.kind in ("geometry", "geography") and _is_binary(type_))
    return named if named.kind in _NAMED_IN_METADATA and matches else None


def _is_binary(type_: pa.DataType) -> bool:
    return pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or str(type_) == "binary_view"


def _geo_type(type_: Any) -> Type:
    """The type of a `geoarrow.wkb` column, whose metadata is JSON with the `crs`, and the `edges` of a geography."""
    try:
        metadata = json.loads(type_.__arrow_ext_serialize__() or b"{}")
        crs, edges = metadata.get("crs"), metadata.get("edges")
    except (ValueError, AttributeError):
        crs = edges = None
    if isinstance(crs, dict):  # PROJJSON, which has its name in `id`
        crs_id = crs.get("id")
        crs = (
            f"{crs_id['authority']}:{crs_id['code']}"
            if isinstance(crs_id, dict) and {"authority", "code"} <= crs_id.keys()
            else None
        )
    crs = crs if isinstance(crs, str) and crs.upper() != DEFAULT_CRS else None
    return GeometryType(crs) if edges in (None, "planar") else GeographyType(crs, edges)


_EXTENSIONS: dict[str, Callable[[Any], Type]] = {
    "arrow.uuid": lambda type_: UUID,
    "arrow.bool8": lambda type_: BOOLEAN,
    "arrow.parquet.variant": lambda type_: VARIANT,
    "parquet.variant": lambda type_: VARIANT,
    "geoarrow.wkb": _geo_type,
}

_PRIMITIVES: dict[pa.DataType, Type] = {
    pa.null(): UNKNOWN,
    pa.bool_(): BOOLEAN,
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()), INT),
    **dict.fromkeys((pa.int64(), pa.uint32()), LONG),
    **dict.fromkeys((pa.float16(), pa.float32()), FLOAT),
    pa.float64(): DOUBLE,
    **dict.fromkeys((pa.date32(), pa.date64()), DATE),
    **dict.fromkeys((pa.time32("s"), pa.time32("ms"), pa.time64("us")), TIME),
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), STRING),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), BINARY),
}
_HINTS = {
    pa.uint64(): "cast it to int64 or decimal128(20, 0)",
    pa.time64("ns"): "cast it to time64[us]",
}


def _primitive(type_: pa.DataType) -> Type:
    primitive = _PRIMITIVES.get(type_)
    if primitive is not None:
        return primitive
    if pa.types.is_timestamp(type_):
        if type_.unit == "ns":
            return TIMESTAMP_NS if type_.tz is None else TIMESTAMPTZ_NS
        return TIMESTAMP if type_.tz is None else TIMESTAMPTZ
    if pa.types.is_decimal(type_):
        return DecimalType(type_.precision, type_.scale)
    if pa.types.is_fixed_size_binary(type_):
        return FixedType(type_.byte_width)
    raise InvalidType(
        f"there is no type for Arrow's {type_}", hint=_HINTS.get(type_, "cast the column, or leave it out")
    )
