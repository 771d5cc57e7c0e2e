"""Schemas as JSON (spec: Appendix C, Schemas): round trips with nothing lost, and hostile input."""

import contextlib
import json
import uuid
from decimal import Decimal

import pytest
from hypothesis import given, settings, strategies as st

from floe.errors import InvalidMetadata
from floe.spec import types as t
from floe.spec.schemas.schema import MAX_TYPE_DEPTH, Schema
from floe.spec.schemas.schema_json import schema_from_json, schema_to_json, type_from_json, type_to_json
from floe.spec.types import Field, ListType, MapType, StructType
from helpers.corpus import expected, metadata_files, read_metadata, table_names
from helpers.schema_strategies import LEAVES_V3, schemas, to_pyiceberg


def field_json(**changes):
    return {"id": 1, "name": "a", "required": False, "type": "int"} | changes


def schema_json(*fields, **changes):
    return {"type": "struct", "schema-id": 0, "fields": list(fields)} | changes


def refused(value, read=schema_from_json):
    with pytest.raises(InvalidMetadata) as caught:
        read(value)
    return caught.value


# the tables of the spec --------------------------------------------------------------------------------------------


def test_schema_id_may_be_missing_in_v1():
    assert schema_from_json({"type": "struct", "fields": []}).schema_id == 0
    assert schema_from_json(schema_json(**{"schema-id": 7})).schema_id == 7


def test_schema_id_is_always_written():
    assert schema_to_json(Schema(()))["schema-id"] == 0


def test_identifier_field_ids_are_a_list_and_may_be_missing():
    fields = [field_json(required=True), field_json(id=2, name="b", required=True)]
    assert schema_from_json(schema_json(*fields)).identifier_field_ids == ()
    schema = schema_from_json(schema_json(*fields, **{"identifier-field-ids": [2, 1]}))
    assert schema.identifier_field_ids == (2, 1)
    assert schema_to_json(schema)["identifier-field-ids"] == [2, 1]


def test_identifier_field_ids_are_left_out_when_empty():
    for empty in ([], None):
        schema = schema_from_json(schema_json(field_json(), **{"identifier-field-ids": empty}))
        assert "identifier-field-ids" not in schema_to_json(schema)


TYPE_TEXTS = [
    "unknown", "boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "timestamp_ns",
    "timestamptz_ns", "string", "uuid", "fixed[16]", "binary", "decimal(9, 2)", "variant", "geometry", "geography",
    "geometry(srid:4326)", "geography(srid:4326, spherical)",
]  # fmt: skip


@pytest.mark.parametrize("text", TYPE_TEXTS)
def test_primitive_types_and_variant_are_strings(text):
    assert type_to_json(type_from_json(text)) == text


def test_decimal_is_read_with_or_without_spaces_and_written_as_java_does():
    """The spec gives both forms; Java writes a space, so metadata that it wrote keeps its text."""
    assert type_to_json(type_from_json("decimal(9,2)")) == "decimal(9, 2)"


def test_struct_is_an_object_with_fields():
    """The example of the spec's table."""
    value = {
        "type": "struct",
        "fields": [
            {
                "id": 1,
                "name": "id",
                "required": True,
                "type": "uuid",
                "initial-default": "0db3e2a8-9d1d-42b9-aa7b-74ebe558dceb",
                "write-default": "ec5911be-b0a7-458c-8438-c9a3e53cffae",
            },
            {
                "id": 2,
                "name": "data",
                "required": False,
                "doc": "some words",
                "type": {"type": "list", "element-id": 3, "element-required": True, "element": "string"},
            },
        ],
    }
    struct = type_from_json(value)
    assert struct == StructType(
        (
            Field(
                1,
                "id",
                t.UUID,
                required=True,
                initial_default=uuid.UUID("0db3e2a8-9d1d-42b9-aa7b-74ebe558dceb"),
                write_default=uuid.UUID("ec5911be-b0a7-458c-8438-c9a3e53cffae"),
            ),
            Field(2, "data", ListType(3, t.STRING, element_required=True), doc="some words"),
        )
    )
    assert type_to_json(struct) == value


def test_list_is_an_object_with_element_id_and_element_required():
    value = {"type": "list", "element-id": 3, "element-required": True, "element": "string"}
    assert type_from_json(value) == ListType(3, t.STRING, element_required=True)
    assert type_to_json(type_from_json(value)) == value


def test_map_is_an_object_with_key_and_value_ids():
    value = {
        "type": "map", "key-id": 4, "key": "string", "value-id": 5, "value-required": False, "value": "double",
    }  # fmt: skip
    assert type_from_json(value) == MapType(4, t.STRING, 5, t.DOUBLE)
    assert type_to_json(type_from_json(value)) == value


DEFAULTS = [
    ("boolean", True, True),
    ("long", 34, 34),
    ("decimal(9, 2)", "14.20", Decimal("14.20")),
    ("date", "2017-11-16", 17486),
    ("string", "iceberg", "iceberg"),
    ("fixed[4]", "000102FF", b"\x00\x01\x02\xff"),
]


@pytest.mark.parametrize(("type_", "text", "value"), DEFAULTS)
def test_defaults_are_single_values_in_json(type_, text, value):
    given_json = field_json(type=type_, **{"initial-default": text, "write-default": text})
    field = schema_from_json(schema_json(given_json)).fields[0]
    assert (field.initial_default, field.write_default) == (value, value)
    assert schema_to_json(Schema((field,)))["fields"] == [given_json]


def test_the_default_of_a_struct_is_an_empty_object():
    given_json = field_json(type={"type": "struct", "fields": []}, **{"initial-default": {}})
    field = schema_from_json(schema_json(given_json)).fields[0]
    assert field.initial_default == {}
    assert schema_to_json(Schema((field,)))["fields"] == [given_json]


def test_a_default_of_null_is_none():
    field = schema_from_json(schema_json(field_json(**{"initial-default": None, "doc": None}))).fields[0]
    assert field == Field(1, "a", t.INT)


def test_keys_are_written_in_javas_order():
    schema = Schema((Field(1, "a", t.INT, True, "d", 1, 2),), 3, (1,))
    assert list(schema_to_json(schema)) == ["type", "schema-id", "identifier-field-ids", "fields"]
    assert list(schema_to_json(schema)["fields"][0]) == [
        "id", "name", "required", "type", "doc", "initial-default", "write-default",
    ]  # fmt: skip


# nothing is lost ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", table_names(without=("invalid_", "odd_")))
def test_every_schema_of_the_corpus_round_trips(corpus_dir, name):
    seen = 0
    for path in metadata_files(corpus_dir, name):
        metadata = read_metadata(path)
        for value in [*metadata.get("schemas", []), *([metadata["schema"]] if "schema" in metadata else [])]:
            assert schema_to_json(schema_from_json(value)) == value
            seen += 1
    assert seen


def test_unknown_keys_are_kept_at_every_level():
    value = schema_json(
        field_json(**{"x-field": [1, {"a": None}]}),
        field_json(id=2, name="st", type={"type": "struct", "x-struct": 1, "fields": [field_json(id=3, x=2)]}),
        field_json(
            id=4,
            name="l",
            type={"type": "list", "element-id": 5, "element": "int", "element-required": False, "x-list": "y"},
        ),
        field_json(
            id=6,
            name="m",
            type={
                "type": "map",
                "key-id": 7,
                "key": {"type": "struct", "fields": [], "x-key": True},
                "value-id": 8,
                "value": "int",
                "value-required": True,
                "x-map": {},
            },
        ),
        **{"x-schema": {"deep": [1]}},
    )
    assert schema_to_json(schema_from_json(value)) == value


@settings(max_examples=50)
@given(schemas(LEAVES_V3))
def test_round_trip_of_any_schema(schema):
    value = json.loads(json.dumps(schema_to_json(schema)))
    assert schema_from_json(value) == schema
    assert schema_to_json(schema_from_json(value)) == value


@settings(max_examples=50)
@given(schemas(LEAVES_V3))
def test_pyiceberg_reads_what_we_write_and_we_read_what_it_writes(schema):
    """PyIceberg writes an empty list of identifiers where we write none; that is its only difference."""
    theirs = to_pyiceberg(schema)
    assert schema_from_json(theirs.model_dump(by_alias=True, mode="json")) == schema
    ours = schema_to_json(schema)
    ours.setdefault("identifier-field-ids", [])
    assert json.loads(theirs.model_dump_json()) == ours


# hostile input: one error, with the JSON path of the problem -------------------------------------------------------


def without(obj, key):
    return {k: v for k, v in obj.items() if k != key}


LIST = {"type": "list", "element-id": 2, "element": "int", "element-required": True}
MAP = {"type": "map", "key-id": 2, "key": "int", "value-id": 3, "value": "int", "value-required": True}


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        (None, "$", "is missing"),
        ([], "$", "must be a JSON object, found a list"),
        ("struct", "$", "must be a JSON object, found 'struct'"),
        (schema_json(type="list"), "$.type", "a schema must be a struct, found 'list'"),
        (schema_json(type=["struct"]), "$.type", "found a list"),
        (without(schema_json(), "fields"), "$.fields", "is missing"),
        (schema_json() | {"fields": {}}, "$.fields", "must be a list of fields, found an object"),
        (schema_json(**{"schema-id": "0"}), "$.schema-id", "must be an integer, found '0'"),
        (schema_json(**{"schema-id": True}), "$.schema-id", "must be an integer, found True"),
        (schema_json(**{"schema-id": 2**31}), "$.schema-id", "2147483648 does not fit a 32-bit integer"),
        (schema_json(**{"identifier-field-ids": 1}), "$.identifier-field-ids", "must be a list of field ids"),
        (schema_json(**{"identifier-field-ids": {}}), "$.identifier-field-ids", "must be a list of field ids"),
        (schema_json(**{"identifier-field-ids": [1.5]}), "$.identifier-field-ids[0]", "must be an integer, found 1.5"),
        (schema_json(field_json(), **{"identifier-field-ids": [1]}), "$.identifier-field-ids", "it is optional"),
        (schema_json(field_json(), **{"identifier-field-ids": [9]}), "$.identifier-field-ids", "9 is not a field"),
        (schema_json(7), "$.fields[0]", "must be a JSON object, found 7"),
        (schema_json(field_json(), field_json(id="2", name="b")), "$.fields[1].id", "must be an integer, found '2'"),
        (schema_json(without(field_json(), "id")), "$.fields[0].id", "is missing"),
        (schema_json(field_json(id=1.0)), "$.fields[0].id", "must be an integer, found 1.0"),
        (schema_json(field_json(id=10**30)), "$.fields[0].id", "does not fit"),
        (schema_json(without(field_json(), "name")), "$.fields[0].name", "is missing"),
        (schema_json(field_json(name=3)), "$.fields[0].name", "must be a string, found 3"),
        (schema_json(without(field_json(), "required")), "$.fields[0].required", "is missing"),
        (schema_json(field_json(required="no")), "$.fields[0].required", "must be true or false, found 'no'"),
        (schema_json(field_json(required=0)), "$.fields[0].required", "must be true or false, found 0"),
        (schema_json(field_json(doc=[])), "$.fields[0].doc", "must be a string, found a list"),
        (schema_json(without(field_json(), "type")), "$.fields[0].type", "is missing"),
        (schema_json(field_json(type=5)), "$.fields[0].type", "must be a JSON object, found 5"),
        (schema_json(field_json(type="quux(3)")), "$.fields[0].type", "unknown type 'quux(3)'"),
        (schema_json(field_json(type={"type": "set"})), "$.fields[0].type.type", "found 'set'"),
        (schema_json(field_json(type={})), "$.fields[0].type.type", "found None"),
        (schema_json(field_json(type={"type": {"type": "int"}})), "$.fields[0].type.type", "found an object"),
        (schema_json(field_json(type={"type": "struct"})), "$.fields[0].type.fields", "is missing"),
        (schema_json(field_json(type=without(LIST, "element-id"))), "$.fields[0].type.element-id", "is missing"),
        (schema_json(field_json(type=without(LIST, "element"))), "$.fields[0].type.element", "is missing"),
        (
            schema_json(field_json(type=without(LIST, "element-required"))),
            "$.fields[0].type.element-required",
            "is missing",
        ),
        (schema_json(field_json(type=LIST | {"element": "x"})), "$.fields[0].type.element", "unknown type 'x'"),
        (schema_json(field_json(type=without(MAP, "key-id"))), "$.fields[0].type.key-id", "is missing"),
        (schema_json(field_json(type=without(MAP, "key"))), "$.fields[0].type.key", "is missing"),
        (schema_json(field_json(type=without(MAP, "value-id"))), "$.fields[0].type.value-id", "is missing"),
        (schema_json(field_json(type=without(MAP, "value"))), "$.fields[0].type.value", "is missing"),
        (schema_json(field_json(type=MAP | {"value-required": 1})), "$.fields[0].type.value-required", "true or false"),
        (schema_json(field_json(**{"initial-default": "x"})), "$.fields[0].initial-default", "'x'"),
        (schema_json(field_json(**{"write-default": 2**40})), "$.fields[0].write-default", "1099511627776"),
    ],
)
def test_wrong_kinds_are_named_with_their_place(value, path, words):
    error = refused(value)
    assert error.path == path
    assert words in error.message


def test_duplicate_ids_are_named_where_the_second_stands():
    nested = {"type": "struct", "fields": [field_json(id=2), field_json(id=3, name="b", type=LIST)]}
    error = refused(schema_json(field_json(id=2), field_json(id=4, name="st", type=nested)))
    assert error.path == "$.fields[1].type.fields[0].id"
    assert "field id 2 is used twice" in error.message
    for type_, key in ((LIST | {"element-id": 1}, "element-id"), (MAP | {"value-id": 2}, "value-id")):
        assert refused(schema_json(field_json(type=type_))).path == f"$.fields[0].type.{key}"


def test_duplicate_names_are_named_where_the_second_stands():
    nested = {"type": "struct", "fields": [field_json(id=2), field_json(id=3)]}
    error = refused(schema_json(field_json(type=nested)))
    assert error.path == "$.fields[0].type.fields[1].name"
    assert "two fields of one struct are named 'a'" in error.message


def nested_lists(depth, innermost="int"):
    value = innermost
    for n in range(depth):
        value = {"type": "list", "element-id": n + 10, "element": value, "element-required": False}
    return value


def nested_structs(depth):
    value = "int"
    for n in range(depth):
        value = {"type": "struct", "fields": [field_json(id=n + 10, type=value)]}
    return value


def nested_maps(depth):
    value = "int"
    for n in range(depth):
        value = {
            "type": "map", "key-id": 2 * n + 10, "key": value, "value-id": 2 * n + 11, "value": "int",
            "value-required": False,
        }  # fmt: skip
    return value


@pytest.mark.parametrize("make", [nested_lists, nested_structs, nested_maps])
def test_types_may_nest_to_the_limit_and_no_deeper(make):
    schema = schema_from_json(schema_json(field_json(type=make(MAX_TYPE_DEPTH))))
    assert schema_to_json(schema)["fields"][0]["type"] == make(MAX_TYPE_DEPTH)
    for depth in (MAX_TYPE_DEPTH + 1, 50_000):
        error = refused(schema_json(field_json(type=make(depth))))
        assert "types nest deeper than 100 levels" in error.message
        assert error.path.startswith("$.fields[0].type.")


def test_values_that_are_deep_or_long_are_shown_in_few_words():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    for error in (
        refused(deep),
        refused(schema_json(field_json(id=deep))),
        refused(schema_json(field_json(type={"type": deep}))),
        refused(schema_json(field_json(name={"n": deep}))),
        refused(schema_json(field_json(type="x" * 10_000_000))),
        refused(schema_json(field_json(required="x" * 10_000_000))),
        refused(schema_json(field_json(**{"initial-default": deep}))),
    ):
        assert len(str(error)) < 1000


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("invalid_duplicate_ids", "field id 1 is used twice"),
        ("invalid_duplicate_names", "two fields of one struct are named 'id'"),
        ("invalid_type_name", "unknown type 'quux(3)'"),
    ],
)
def test_invalid_schemas_of_the_corpus(corpus_dir, name, words):
    metadata = read_metadata(corpus_dir / name / expected(corpus_dir, name)["invalid"]["metadata"])
    messages = []
    for value in metadata["schemas"]:
        try:
            schema_from_json(value)
        except InvalidMetadata as error:
            messages.append(error.message)
    assert any(words in message for message in messages), messages


KEYS = [
    "type", "fields", "id", "name", "required", "element", "element-id", "element-required", "key", "key-id", "value",
    "doc", "initial-default", "schema-id", "identifier-field-ids",
]  # fmt: skip
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(TYPE_TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_any_json_is_a_schema_or_refused(value):
    for read in (schema_from_json, type_from_json):
        with contextlib.suppress(InvalidMetadata):
            read(value)


@pytest.mark.parametrize("key", ["id", "name", "required"])
def test_a_number_too_long_to_be_printed(key):
    with pytest.raises(InvalidMetadata, match="a number of 16610 bits"):
        schema_from_json({"fields": [field_json(**{key: 10**5000})]})
