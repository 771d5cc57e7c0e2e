"""Types and schemas as Arrow's and back: every type, every spelling of it in Arrow, and ids."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from floe.errors import FloeError, InvalidSchema, InvalidType
from floe.formats.columns.arrow_types import arrow_field, arrow_schema, arrow_type, schema_from_arrow, type_from_arrow
from floe.spec.schemas.schema import MAX_TYPE_DEPTH, Schema
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
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StructType,
    Type,
)
from helpers.schema_strategies import schemas
from helpers.value_strategies import all_types

BOTH_WAYS = [
    (BOOLEAN, pa.bool_()),
    (INT, pa.int32()),
    (LONG, pa.int64()),
    (FLOAT, pa.float32()),
    (DOUBLE, pa.float64()),
    (DecimalType(9, 2), pa.decimal128(9, 2)),
    (DecimalType(38, 38), pa.decimal128(38, 38)),
    (DATE, pa.date32()),
    (TIME, pa.time64("us")),
    (TIMESTAMP, pa.timestamp("us")),
    (TIMESTAMPTZ, pa.timestamp("us", "UTC")),
    (TIMESTAMP_NS, pa.timestamp("ns")),
    (TIMESTAMPTZ_NS, pa.timestamp("ns", "UTC")),
    (STRING, pa.string()),
    (BINARY, pa.binary()),
    (FixedType(5), pa.binary(5)),
    (UNKNOWN, pa.null()),
]


@pytest.mark.parametrize(("type_", "arrow"), BOTH_WAYS, ids=str)
def test_types_that_arrow_has(type_: Type, arrow: pa.DataType) -> None:
    assert arrow_type(type_) == arrow
    assert type_from_arrow(arrow) == type_


@pytest.mark.parametrize(
    ("type_", "arrow"),
    [
        (UUID, pa.binary(16)),
        (GeometryType(), pa.binary()),
        (GeometryType("EPSG:2056"), pa.binary()),
        (GeographyType("EPSG:4326", "karney"), pa.binary()),
        (VARIANT, pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])),
    ],
    ids=str,
)
def test_types_that_only_the_field_tells(type_: Type, arrow: pa.DataType) -> None:
    assert arrow_type(type_) == arrow
    schema = Schema(
        (Field(1, "x", type_), Field(2, "l", ListType(3, type_)), Field(4, "m", MapType(5, STRING, 6, type_)))
    )
    assert schema_from_arrow(arrow_schema(schema)) == schema
    plain = pa.schema([pa.field("x", arrow)])
    assert schema_from_arrow(plain).fields[0].type != type_


@pytest.mark.parametrize(
    ("arrow", "type_"),
    [
        *((arrow, INT) for arrow in (pa.int8(), pa.int16(), pa.uint8(), pa.uint16())),
        (pa.uint32(), LONG),
        (pa.float16(), FLOAT),
        (pa.decimal32(5, 1), DecimalType(5, 1)),
        (pa.decimal64(18, 3), DecimalType(18, 3)),
        (pa.decimal256(38, 3), DecimalType(38, 3)),
        (pa.date64(), DATE),
        (pa.time32("s"), TIME),
        (pa.time32("ms"), TIME),
        (pa.timestamp("s"), TIMESTAMP),
        (pa.timestamp("ms", "Asia/Tokyo"), TIMESTAMPTZ),
        (pa.timestamp("ns", "+01:00"), TIMESTAMPTZ_NS),
        *((arrow, STRING) for arrow in (pa.large_string(), pa.string_view())),
        *((arrow, BINARY) for arrow in (pa.large_binary(), pa.binary_view())),
        (pa.uuid(), UUID),
        (pa.bool8(), BOOLEAN),
        (pa.json_(), STRING),
        (pa.dictionary(pa.int8(), pa.string()), STRING),
        (pa.run_end_encoded(pa.int32(), pa.date32()), DATE),
        (pa.large_list(pa.int32()), ListType(1, INT)),
        (pa.list_(pa.int32(), 3), ListType(1, INT)),
        (pa.list_view(pa.int32()), ListType(1, INT)),
        (pa.list_(pa.field("x", pa.uuid(), nullable=False)), ListType(1, UUID, element_required=True)),
        (pa.dictionary(pa.int8(), pa.list_(pa.int32())), ListType(1, INT)),
    ],
    ids=str,
)
def test_other_spellings(arrow: pa.DataType, type_: Type) -> None:
    assert type_from_arrow(arrow) == type_


@pytest.mark.parametrize(
    "arrow",
    [
        pa.uint64(),
        pa.time64("ns"),
        pa.duration("us"),
        pa.month_day_nano_interval(),
        pa.decimal256(39, 0),
        pa.decimal128(5, -2),
        pa.dense_union([pa.field("a", pa.int32())]),
        pa.list_(pa.duration("s")),
    ],
    ids=str,
)
def test_types_that_there_are_not(arrow: pa.DataType) -> None:
    with pytest.raises(InvalidType):
        type_from_arrow(arrow)
    with pytest.raises(InvalidType, match="column: x"):
        schema_from_arrow(pa.schema([("x", arrow)]))


@given(schemas())
def test_schemas_come_back_as_they_were(schema: Schema) -> None:
    there = schema_from_arrow(arrow_schema(schema))
    assert there.same_columns(Schema(_without_defaults(schema.fields)))


def _without_defaults(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Arrow has no place for defaults."""
    return tuple(Field(f.id, f.name, _type_without_defaults(f.type), f.required, f.doc) for f in fields)


def _type_without_defaults(type_: Type) -> Type:
    if isinstance(type_, StructType):
        return StructType(_without_defaults(type_.fields))
    if isinstance(type_, ListType):
        return ListType(type_.element_id, _type_without_defaults(type_.element), type_.element_required)
    if isinstance(type_, MapType):
        key, value = (_type_without_defaults(child) for child in (type_.key, type_.value))
        return MapType(type_.key_id, key, type_.value_id, value, type_.value_required)
    return type_


@given(all_types())
def test_every_type_has_an_arrow_type(type_: Type) -> None:
    converted = arrow_type(type_)
    assert pa.array([], converted).type == converted


# ids ------------------------------------------------------------------------------------------------------------------


def with_id(name: str, type_: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, type_, metadata={"PARQUET:field_id": str(field_id)})


def test_fresh_ids_are_given_level_by_level() -> None:
    schema = schema_from_arrow(
        pa.schema(
            [
                ("a", pa.struct([("x", pa.int32()), ("y", pa.list_(pa.int32()))])),
                ("b", pa.map_(pa.string(), pa.int32())),
            ]
        )
    )
    assert {entry.name: field_id for field_id, entry in schema.by_id.items()} == {
        "a": 1, "b": 2, "a.x": 3, "a.y": 4, "a.y.element": 5, "b.key": 6, "b.value": 7,
    }  # fmt: skip


def test_ids_that_are_there_stay() -> None:
    inner = pa.struct([with_id("x", pa.int32(), 40), pa.field("y", pa.int32())])
    schema = schema_from_arrow(pa.schema([pa.field("a", inner), with_id("b", pa.int32(), 7)]))
    assert {entry.name: field_id for field_id, entry in schema.by_id.items()} == {
        "a": 41, "a.x": 40, "a.y": 42, "b": 7,
    }  # fmt: skip


def test_ids_that_cannot_be() -> None:
    with pytest.raises(InvalidSchema, match="used by both 'a' and 'b'"):
        schema_from_arrow(pa.schema([with_id("a", pa.int32(), 1), with_id("b", pa.int32(), 1)]))
    with pytest.raises(InvalidSchema, match="must be a number, found b'one'"):
        schema_from_arrow(pa.schema([pa.field("a", pa.int32(), metadata={"PARQUET:field_id": "one"})]))
    with pytest.raises(FloeError, match="named 'a'"):
        schema_from_arrow(pa.schema([("a", pa.int32()), ("a", pa.int32())]))


def test_documentation_and_nullability() -> None:
    field = Field(3, "x", LONG, required=True, doc="größe")
    assert schema_from_arrow(pa.schema([arrow_field(field)])).fields == (field,)
    assert arrow_field(field).nullable is False


def test_a_type_that_the_metadata_names_wrongly_is_not_believed() -> None:
    odd = [{"ICEBERG:type": "uuid"}, {"ICEBERG:type": "no such"}, {"ICEBERG:type": "long"}, {"ICEBERG:type": b"\xff"}]
    for metadata in odd:
        field = pa.field("x", pa.binary(5), metadata=metadata)
        assert schema_from_arrow(pa.schema([field])).fields[0].type == FixedType(5)


def test_deep_types_are_refused() -> None:
    deep: Any = pa.int32()
    for _ in range(MAX_TYPE_DEPTH + 1):
        deep = pa.list_(deep)
    with pytest.raises(InvalidSchema, match="deep"):
        schema_from_arrow(pa.schema([("x", deep)]))


# extension types of others --------------------------------------------------------------------------------------


class GeoArrow(pa.ExtensionType):
    def __init__(self, metadata: bytes) -> None:
        self.metadata = metadata
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return self.metadata

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> "GeoArrow":
        return cls(serialized)


@pytest.mark.parametrize(
    ("metadata", "type_"),
    [
        ({}, GeometryType()),
        ({"crs": "OGC:CRS84"}, GeometryType()),
        ({"crs": "EPSG:2056", "crs_type": "authority_code"}, GeometryType("EPSG:2056")),
        ({"crs": {"id": {"authority": "EPSG", "code": 2056}}}, GeometryType("EPSG:2056")),
        ({"crs": {"name": "?"}}, GeometryType()),
        ({"edges": "spherical"}, GeographyType(None, "spherical")),
        ({"crs": "EPSG:4326", "edges": "vincenty"}, GeographyType("EPSG:4326", "vincenty")),
    ],
)
def test_geoarrow(metadata: dict[str, Any], type_: Type) -> None:
    assert type_from_arrow(GeoArrow(json.dumps(metadata).encode())) == type_


def test_geoarrow_without_metadata() -> None:
    assert type_from_arrow(GeoArrow(b"")) == GeometryType()
    assert type_from_arrow(GeoArrow(b"not json")) == GeometryType()
