"""Types as Avro schemas (Appendix A, Avro): every row of the table, names, ids, defaults, and what Java writes."""

import io
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, strategies as st
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from floe.errors import InvalidSchema, InvalidType
from floe.spec.codecs.avro_schemas import FIELD_NAME, avro_name, avro_to_type, type_to_avro
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_from_json
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
from floe.spec.values.exact_numbers import bytes_for_precision
from helpers.avro_files import header, without_docs
from helpers.corpus import table_names
from helpers.value_strategies import PRIMITIVES

# Appendix A's table; `name` is needed by Avro and not in the table.
APPENDIX_A: list[tuple[Type, Any]] = [
    (UNKNOWN, "null"),
    (BOOLEAN, "boolean"),
    (INT, "int"),
    (LONG, "long"),
    (FLOAT, "float"),
    (DOUBLE, "double"),
    (
        DecimalType(9, 2),
        {"type": "fixed", "name": "decimal_9_2", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2},
    ),
    (DATE, {"type": "int", "logicalType": "date"}),
    (TIME, {"type": "long", "logicalType": "time-micros"}),
    (TIMESTAMP, {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False}),
    (TIMESTAMPTZ, {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}),
    (TIMESTAMP_NS, {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False}),
    (TIMESTAMPTZ_NS, {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True}),
    (STRING, "string"),
    (UUID, {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}),
    (FixedType(7), {"type": "fixed", "name": "fixed_7", "size": 7}),
    (BINARY, "bytes"),
    (GeometryType(), "bytes"),
    (GeographyType("EPSG:4326", "karney"), "bytes"),
]


def record(*fields: Field) -> dict[str, Any]:
    found: dict[str, Any] = type_to_avro(StructType(fields))
    return found


@pytest.mark.parametrize(("type_", "schema"), APPENDIX_A, ids=[str(t) for t, _ in APPENDIX_A])
def test_avro_data_type_mappings(type_: Type, schema: Any) -> None:
    assert type_to_avro(type_) == schema


def test_avro_struct_is_a_record_with_field_ids() -> None:
    assert record(Field(8, "l", LONG)) == {
        "type": "record",
        "name": "table",
        "fields": [{"name": "l", "type": ["null", "long"], "default": None, "field-id": 8}],
    }


def test_avro_list_is_an_array_with_an_element_id() -> None:
    assert type_to_avro(ListType(9, INT, element_required=True)) == {"type": "array", "items": "int", "element-id": 9}


def test_avro_map_with_string_keys_is_a_map_with_key_and_value_ids() -> None:
    found = type_to_avro(MapType(10, STRING, 11, INT, value_required=True))
    assert found == {"type": "map", "values": "int", "key-id": 10, "value-id": 11}


def test_avro_map_with_other_keys_is_an_array_of_records_with_logical_type_map() -> None:
    """The spec's example, word for word."""
    assert type_to_avro(MapType(12, INT, 13, STRING, value_required=True)) == {
        "type": "array",
        "logicalType": "map",
        "items": {
            "type": "record",
            "name": "k12_v13",
            "fields": [
                {"name": "key", "type": "int", "field-id": 12},
                {"name": "value", "type": "string", "field-id": 13},
            ],
        },
    }


def test_avro_variant_is_a_record_whose_fields_have_no_ids() -> None:
    (column,) = record(Field(4, "v", VARIANT, required=True))["fields"]
    assert column["type"] == {
        "type": "record",
        "name": "r4",
        "fields": [{"name": "metadata", "type": "bytes"}, {"name": "value", "type": "bytes"}],
        "logicalType": "variant",
    }


def test_avro_optional_fields_elements_and_values_are_unions_with_null() -> None:
    (column,) = record(Field(1, "m", MapType(2, INT, 3, ListType(4, STRING))))["fields"]
    assert column["default"] is None
    null, pairs = column["type"]
    assert null == "null"
    key, value = pairs["items"]["fields"]
    assert key == {"name": "key", "type": "int", "field-id": 2}
    assert value == {
        "name": "value",
        "type": ["null", {"type": "array", "items": ["null", "string"], "element-id": 4}],
        "default": None,
        "field-id": 3,
    }


def test_avro_unknown_column_is_null_without_a_union() -> None:
    (column,) = record(Field(1, "u", UNKNOWN))["fields"]
    assert column == {"name": "u", "type": "null", "default": None, "field-id": 1}
    fastavro.parse_schema(record(Field(1, "u", UNKNOWN), Field(2, "l", ListType(3, UNKNOWN))))


def test_avro_named_types_are_written_out_once() -> None:
    schema = record(*(Field(i, f"c{i}", t, required=True) for i, t in enumerate([UUID, DecimalType(9, 2)] * 2, 1)))
    types = [column["type"] for column in schema["fields"]]
    assert types[2:] == ["uuid_fixed", "decimal_9_2"]
    fastavro.parse_schema(schema)


def test_avro_record_names_cannot_clash() -> None:
    inner = StructType((Field(3, "x", INT),))
    with pytest.raises(InvalidSchema, match="named 'r2'"):
        type_to_avro(StructType((Field(2, "s", inner),)), "r2")
    with pytest.raises(InvalidSchema, match="named 'fixed_5'"):
        type_to_avro(StructType((Field(2, "s", FixedType(5)),)), "fixed_5")


@pytest.mark.parametrize("precision", range(1, 39))
def test_decimal_fixed_has_the_fewest_bytes_for_its_precision(precision: int) -> None:
    size = bytes_for_precision(precision)
    for largest in (10**precision - 1, -(10**precision) + 1):
        largest.to_bytes(size, "big", signed=True)
    with pytest.raises(OverflowError):
        (10**precision - 1).to_bytes(size - 1, "big", signed=True)
    assert type_to_avro(DecimalType(precision, 0))["size"] == size


def test_decimal_width_of_impossible_precisions() -> None:
    for precision in (0, 39):
        with pytest.raises(InvalidType):
            bytes_for_precision(precision)


# names ----------------------------------------------------------------------------------------------------------

SANITIZED = [
    ("ok_1", "ok_1"),
    ("_x", "_x"),
    ("9x", "_9x"),
    ("a.b", "a_x2Eb"),
    ("a/b", "a_x2Fb"),
    ("☃", "_x2603"),
    ("a#b", "a_x23b"),
    ("😎", "_xD83D_xDE0E"),
    ("tab\there", "tab_x9here"),
    ("1 2", "_1_x202"),
]


@pytest.mark.parametrize(("name", "sanitized"), SANITIZED)
def test_names_that_avro_cannot_spell_are_sanitized(name: str, sanitized: str) -> None:
    assert avro_name(name) == sanitized


@given(st.text(max_size=12))
def test_sanitized_names_are_always_legal(name: str) -> None:
    fastavro.parse_schema({"type": "record", "name": "t", "fields": [{"name": avro_name(name), "type": "int"}]})


def test_letters_outside_ascii_are_escaped_unlike_java() -> None:
    """Java keeps `ü`, which Avro's own rule for names does not allow; strict readers refuse such a file."""
    assert avro_name("ü") == "_xFC"


def test_real_name_is_kept_beside_a_sanitized_one() -> None:
    plain, odd = record(Field(1, "a", INT), Field(2, "a b", INT))["fields"]
    assert FIELD_NAME == "iceberg-field-name"
    assert FIELD_NAME not in plain
    assert (odd["name"], odd[FIELD_NAME]) == ("a_x20b", "a b")


def test_sanitized_names_that_clash_are_told_apart() -> None:
    columns = record(Field(1, "a b", INT), Field(2, "a_x20b", INT), Field(3, "a_x20b_1", INT))["fields"]
    assert [column["name"] for column in columns] == ["a_x20b_1_1", "a_x20b", "a_x20b_1"]
    assert columns[0][FIELD_NAME] == "a b"


@given(st.lists(st.text("a b_x20.1", max_size=6), unique=True, max_size=6))
def test_columns_of_any_names_make_a_valid_schema(names: list[str]) -> None:
    struct = StructType(tuple(Field(i, name, INT) for i, name in enumerate(names, 1)))
    schema = type_to_avro(struct)
    fastavro.parse_schema(json.loads(json.dumps(schema)))
    assert avro_to_type(schema) == struct


# defaults -------------------------------------------------------------------------------------------------------

DEFAULTS: list[tuple[Type, Any, Any]] = [
    (BOOLEAN, True, True),
    (INT, 34, 34),
    (LONG, -(2**40), -(2**40)),
    (DOUBLE, 0.5, 0.5),
    (STRING, "iceberg", "iceberg"),
    (DATE, 17486, 17486),
    (TIMESTAMP, 1510871468123456, 1510871468123456),
    (BINARY, b"\x00\xff", "\x00\xff"),
    (FixedType(2), b"\x01\xfe", "\x01\xfe"),
    (UUID, uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), "÷\x9c>\tg|K½¤y?4\x9c·\x85ç"),
    (DecimalType(9, 2), Decimal("14.20"), "\x00\x00\x05\x8c"),
    (DecimalType(9, 2), Decimal("-0.01"), "\xff\xff\xff\xff"),
    (ListType(9, INT, element_required=True), [1, 2], [1, 2]),
    (MapType(8, STRING, 9, INT, value_required=True), {"a": 1}, {"a": 1}),
    (MapType(8, INT, 9, INT, value_required=True), {5: 1}, [{"key": 5, "value": 1}]),
]


@pytest.mark.parametrize(("type_", "value", "default"), DEFAULTS, ids=[str(t) for t, _, _ in DEFAULTS])
def test_required_field_with_a_default_has_an_equivalent_avro_default(type_: Type, value: Any, default: Any) -> None:
    schema = record(Field(1, "c", type_, required=True, initial_default=value))
    assert schema["fields"][0]["default"] == default
    assert filled_by_fastavro(schema)["c"] == default  # which gives defaults as they stand in the JSON


def filled_by_fastavro(reader_schema: dict[str, Any]) -> dict[str, Any]:
    """A row of a file that lacks the column, read with the schema that has a default for it."""
    file = io.BytesIO()
    writer_schema = {"type": "record", "name": "table", "fields": []}
    fastavro.writer(file, writer_schema, [{}])
    file.seek(0)
    (row,) = fastavro.reader(file, json.loads(json.dumps(reader_schema)))
    assert isinstance(row, dict)
    return row


def test_avro_default_of_a_struct_holds_the_defaults_of_its_fields() -> None:
    inner = StructType(
        (Field(2, "a b", INT, required=True, initial_default=5), Field(3, "c", STRING, initial_default="x"))
    )
    schema = record(Field(1, "s", inner, required=True, initial_default={}))
    assert "default" not in schema["fields"][0]  # "x" cannot be said: the union of an optional field begins with null
    inner = StructType((Field(2, "a b", INT, required=True, initial_default=5), Field(3, "c", STRING)))
    schema = record(Field(1, "s", inner, required=True, initial_default={}))
    assert schema["fields"][0]["default"] == {"a_x20b": 5, "c": None}


def test_avro_default_of_an_optional_field_is_null() -> None:
    """Null comes first in the union, and Avro takes defaults from the first branch."""
    (column,) = record(Field(1, "c", INT, initial_default=34))["fields"]
    assert column == {"name": "c", "type": ["null", "int"], "default": None, "field-id": 1}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_defaults_that_json_cannot_say_are_left_out(value: float) -> None:
    (column,) = record(Field(1, "c", DOUBLE, required=True, initial_default=value))["fields"]
    assert "default" not in column


def test_documentation_of_columns_is_kept() -> None:
    (column,) = record(Field(1, "c", INT, required=True, doc="the key"))["fields"]
    assert column["doc"] == "the key"


# beside Java and PyIceberg --------------------------------------------------------------------------------------


def avro_data_files(corpus_dir: Path) -> list[Path]:
    tables = table_names(without=("invalid_", "view_"))
    return [path for table in tables for path in sorted((corpus_dir / table / "data").rglob("*.avro"))]


def test_schemas_of_avro_data_files_are_those_of_java(corpus_dir: Path) -> None:
    """Built from the schema that Java stores beside the Avro schema.

    Differences, each explained above: names outside ASCII, and defaults of required fields, which Java does not write.
    """
    compared, with_default = 0, 0
    for path in avro_data_files(corpus_dir):
        found = header(path)
        if "iceberg.schema" not in found:
            continue
        schema = schema_from_json(json.loads(found["iceberg.schema"]))
        theirs = json.loads(found["avro.schema"].replace("ü_x2603", "_xFC_x2603"))
        ours = without_docs(type_to_avro(schema, theirs["name"]))
        for column in ours["fields"]:
            if column.get("default") is not None:
                del column["default"]
                with_default += 1
        assert ours == without_docs(theirs), path
        compared += 1
    assert compared > 50
    assert with_default > 0


FIELD_TYPES = st.sampled_from([t for t in PRIMITIVES if t.kind not in ("timestamp_ns", "timestamptz_ns")])


@st.composite
def structs(draw: Any) -> StructType:
    """Structs with nested types, ids all different."""
    ids = iter(range(1, 200))

    def type_(depth: int) -> Type:
        kind = draw(st.sampled_from(["primitive", "primitive", "struct", "list", "map"] if depth else ["primitive"]))
        if kind == "struct":
            return StructType(tuple(field(depth - 1) for _ in range(draw(st.integers(1, 3)))))
        if kind == "list":
            return ListType(next(ids), type_(depth - 1), draw(st.booleans()))
        if kind == "map":
            return MapType(next(ids), draw(FIELD_TYPES), next(ids), type_(depth - 1), draw(st.booleans()))
        primitive: Type = draw(FIELD_TYPES)
        return primitive

    def field(depth: int) -> Field:
        own = next(ids)
        return Field(own, f"f{own}", type_(depth), draw(st.booleans()))

    return StructType(tuple(field(2) for _ in range(draw(st.integers(1, 4)))))


@given(structs())
def test_schemas_are_valid_avro_and_come_back_as_they_were(struct: StructType) -> None:
    schema = json.loads(json.dumps(type_to_avro(struct)))
    fastavro.parse_schema(json.loads(json.dumps(schema)))
    assert avro_to_type(schema) == struct
    Schema(struct.fields)


@given(structs())
def test_pyiceberg_reads_the_same_type_from_our_schema(struct: StructType) -> None:
    theirs = AvroSchemaConversion().avro_to_iceberg(json.loads(json.dumps(inlined(type_to_avro(struct)))))
    assert [(f.field_id, f.name, f.required, str(f.field_type)) for f in theirs.fields] == [
        (f.id, f.name, f.required, pyiceberg_text(f.type)) for f in struct.fields
    ]


def inlined(schema: Any, defined: dict[str, Any] | None = None) -> Any:
    """The schema with every name replaced by what it means: PyIceberg does not look names up."""
    defined = {} if defined is None else defined
    if isinstance(schema, str):
        return defined.get(schema, schema)
    if isinstance(schema, list):
        return [inlined(item, defined) for item in schema]
    out = {}
    for key, value in schema.items():
        if key == "fields":
            out[key] = [field | {"type": inlined(field["type"], defined)} for field in value]
        else:
            out[key] = inlined(value, defined) if key in ("items", "values") else value
    if schema.get("type") == "fixed":
        defined[schema["name"]] = schema
    return out


def pyiceberg_text(type_: Type) -> str:
    """The type as PyIceberg prints it."""
    if isinstance(type_, StructType):
        parts = (
            f"{f.id}: {f.name}: {'required' if f.required else 'optional'} {pyiceberg_text(f.type)}" for f in type_
        )
        return f"struct<{', '.join(parts)}>"
    if isinstance(type_, ListType):
        return f"list<{pyiceberg_text(type_.element)}>"
    if isinstance(type_, MapType):
        return f"map<{pyiceberg_text(type_.key)}, {pyiceberg_text(type_.value)}>"
    if isinstance(type_, DecimalType):
        return f"decimal({type_.precision}, {type_.scale})"
    return str(type_)
