"""Avro schemas of files as types: Java's files, files of others, and hostile ones."""

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from floe.errors import FloeError, InvalidMetadata, UnsupportedFeature
from floe.spec.codecs.avro_schemas import avro_file_fields, avro_to_type, parse_avro_schema, type_to_avro
from floe.spec.schemas.name_mapping import has_ids
from floe.spec.schemas.schema import Schema
from floe.spec.schemas.schema_json import schema_from_json
from floe.spec.types import (
    BINARY,
    DATE,
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
from helpers.avro_files import avro_schema, header
from helpers.corpus import table_names


def record(*fields: dict[str, Any], name: str = "r", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def column(type_: Any, name: str = "c", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


READ_AS: list[tuple[Any, Type]] = [
    ("null", UNKNOWN),
    ({"type": "int"}, INT),
    ({"type": {"type": "long"}}, LONG),
    ({"type": "enum", "name": "e", "symbols": ["A"]}, STRING),
    ({"type": "int", "logicalType": "date"}, DATE),
    ({"type": "int", "logicalType": "time-millis"}, TIME),
    ({"type": "long", "logicalType": "time-micros"}, TIME),
    ({"type": "long", "logicalType": "timestamp-millis"}, TIMESTAMP),
    ({"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}, TIMESTAMPTZ),
    ({"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": "true"}, TIMESTAMPTZ),
    ({"type": "long", "logicalType": "timestamp-nanos"}, TIMESTAMP_NS),
    ({"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True}, TIMESTAMPTZ_NS),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, TIMESTAMP),
    ({"type": "string", "logicalType": "uuid"}, UUID),
    ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, DecimalType(5, 2)),
    ({"type": "fixed", "name": "f", "size": 9, "logicalType": "decimal", "precision": 20}, DecimalType(20, 0)),
    ({"type": "fixed", "name": "f", "size": 9}, FixedType(9)),
    (record(logicalType="variant"), VARIANT),
    (["null", "string"], STRING),
    (["string", "null"], STRING),
]


@pytest.mark.parametrize(("schema", "type_"), READ_AS, ids=[str(n) for n in range(len(READ_AS))])
def test_avro_schemas_of_other_writers_are_read(schema: Any, type_: Type) -> None:
    assert avro_to_type(schema) == type_


def test_adjust_to_utc_is_false_when_absent() -> None:
    assert avro_to_type({"type": "long", "logicalType": "timestamp-micros"}) == TIMESTAMP


@pytest.mark.parametrize(
    ("schema", "type_"),
    [
        ({"type": "long", "logicalType": "date"}, LONG),
        ({"type": "string", "logicalType": "nobody-knows"}, STRING),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 5}, BINARY),
        ({"type": "bytes", "logicalType": "decimal", "precision": 77}, BINARY),
        ({"type": "fixed", "name": "f", "size": 4, "logicalType": "uuid"}, FixedType(4)),
        ({"type": "int", "logicalType": 7}, INT),
    ],
)
def test_logical_types_that_do_not_fit_are_read_as_the_type_below(schema: Any, type_: Type) -> None:
    assert avro_to_type(schema) == type_


def test_null_may_come_first_or_last_in_a_union() -> None:
    (field,) = avro_to_type(record(column(["int", "null"], **{"field-id": 1}))).fields
    assert (field.type, field.required) == (INT, False)
    (field,) = avro_to_type(record(column(["int"], **{"field-id": 1}))).fields
    assert (field.type, field.required) == (INT, True)


def test_null_column_is_optional_and_unknown() -> None:
    for schema in ("null", ["null"]):
        (field,) = avro_to_type(record(column(schema))).fields
        assert (field.type, field.required) == (UNKNOWN, False)


@pytest.mark.parametrize("union", [["int", "string"], ["null", "int", "string"], []])
def test_unions_of_several_schemas_are_not_supported(union: list[Any]) -> None:
    with pytest.raises(UnsupportedFeature, match="union"):
        avro_to_type(record(column(union)))


def test_fields_without_ids_get_stand_ins_and_file_fields_get_none() -> None:
    schema = record(
        column("int", "a"),
        column({"type": "array", "items": "int"}, "l"),
        column({"type": "map", "values": "int"}, "m"),
    )
    struct = avro_to_type(schema)
    assert isinstance(struct, StructType)
    assert all(field_id < 0 for field_id in Schema(struct.fields).by_id)  # and all different, or Schema would refuse
    fields = avro_file_fields(schema)
    assert not has_ids(fields)
    assert [(f.name, f.kind, [c.name for c in f.children]) for f in fields] == [
        ("a", "int", []),
        ("l", "list", ["element"]),
        ("m", "map", ["key", "value"]),
    ]


def test_ids_in_strings_are_read() -> None:
    assert avro_to_type(record(column("int", **{"field-id": "12"}))).fields[0].id == 12


def test_real_names_of_sanitized_fields_are_restored() -> None:
    schema = type_to_avro(StructType((Field(1, "a b", INT),)))
    assert avro_to_type(schema).fields[0].name == "a b"


def test_names_are_looked_up_in_their_namespace() -> None:
    schema = record(
        column({"type": "fixed", "name": "f", "size": 3}, "a"),
        column("f", "b"),
        column("org.x.f", "c"),
        name="r",
        namespace="org.x",
    )
    assert [field.type for field in avro_to_type(schema).fields] == [FixedType(3)] * 3


def test_record_used_twice_by_name() -> None:
    schema = record(column(record(column("int", "x"), name="p"), "a"), column(["null", "p"], "b"))
    a, b = avro_to_type(schema).fields
    assert [f.name for f in b.type.fields] == [f.name for f in a.type.fields] == ["x"]
    assert not b.required


def test_recursive_record_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match=r"the Avro record .* is recursive"):
        avro_to_type(record(column(["null", "r"], "next")))


def test_schema_that_spreads_without_end_is_refused_quickly() -> None:
    schema: dict[str, Any] = record(column("int", "x"), name="r0")
    for level in range(1, 40):
        schema = record(column(schema, "a"), column(f"r{level - 1}", "b"), name=f"r{level}")
    with pytest.raises(InvalidMetadata, match="fields"):
        avro_to_type(schema)


def test_deep_schema_is_refused() -> None:
    schema: Any = "int"
    for _ in range(200):
        schema = {"type": "array", "items": schema}
    with pytest.raises(InvalidMetadata, match="deeper"):
        avro_to_type(schema)
    text = b'{"type":"array","items":' * 50_000 + b'"int"' + b"}" * 50_000
    with pytest.raises(InvalidMetadata, match="deep"):
        parse_avro_schema(text)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'{"type": nope}'])
def test_schema_that_is_not_json(text: bytes) -> None:
    with pytest.raises(InvalidMetadata):
        parse_avro_schema(text)


BROKEN = [
    (None, r"\$: is missing"),
    (7, r"\$: must be an Avro schema"),
    ("no.such.name", "no Avro schema is named"),
    ({"type": "array"}, r"\$.items: is missing"),
    ({"type": "record", "name": "r"}, r"\$.fields: is missing"),
    ({"type": "record", "fields": []}, r"\$.name: "),
    (record({"name": "a"}), r"\$.fields\[0\].type: is missing"),
    (record({"type": "int"}), r"\$.fields\[0\].name: is missing"),
    (record("int"), r"\$.fields\[0\]: must be a field"),  # type: ignore[arg-type]
    (record(column("int", **{"field-id": -1})), r"\$.fields\[0\].field-id: must be a field id"),
    (record(column("int", **{"field-id": 2**31})), r"\$.fields\[0\].field-id"),
    (record(column("int"), column("int")), "two fields"),
    ({"type": "fixed", "name": "f", "size": -1}, r"\$.size"),
    ({"type": "array", "logicalType": "map", "items": "int"}, r"\$.items: the pairs"),
]


@pytest.mark.parametrize(("schema", "message"), BROKEN)
def test_broken_avro_schemas_name_the_place(schema: Any, message: str) -> None:
    with pytest.raises(InvalidMetadata, match=message):
        avro_to_type(schema)


def test_key_of_a_map_of_pairs_must_be_required() -> None:
    pairs = record(column(["null", "int"], "key"), column("int", "value"), name="kv")
    with pytest.raises(InvalidMetadata, match="required key"):
        avro_to_type({"type": "array", "logicalType": "map", "items": pairs})


def avro_files(corpus_dir: Path) -> list[Path]:
    tables = table_names(without=("invalid_", "view_"))
    return [path for table in tables for path in sorted((corpus_dir / table).rglob("*.avro"))]


def test_types_of_javas_avro_files_are_those_that_java_stores_beside_them(corpus_dir: Path) -> None:
    compared, without = 0, 0
    for path in avro_files(corpus_dir):
        found = header(path)
        type_ = avro_to_type(parse_avro_schema(found["avro.schema"]))
        if "iceberg.schema" in found:
            expected = schema_from_json(json.loads(found["iceberg.schema"])).as_struct()
            assert without_defaults(type_) == without_defaults(expected), path
            compared += 1
        else:
            assert not has_ids(avro_file_fields(avro_schema(path))), path
            without += 1
    assert compared > 500
    assert without > 0  # files that were imported


def without_defaults(type_: Type) -> Any:
    """A type as plain values, without what a file's schema does not tell."""
    if isinstance(type_, StructType | ListType | MapType):
        return type_.kind, [(f.id, f.name, f.required, f.doc, without_defaults(f.type)) for f in type_.fields]
    return type_


SEED_SCHEMA = type_to_avro(
    StructType(
        (
            Field(1, "a b", DecimalType(9, 2)),
            Field(2, "m", MapType(3, INT, 4, StructType((Field(5, "x", LONG),)))),
            Field(6, "l", ListType(7, UUID)),
        )
    )
)
JUNK = st.none() | st.integers() | st.text(max_size=3) | st.builds(list) | st.builds(dict) | st.builds(lambda: ["null"])


def places(schema: Any) -> list[tuple[Any, Any]]:
    """Every (holder, key) in a JSON value."""
    found = []
    items = schema.items() if isinstance(schema, dict) else enumerate(schema) if isinstance(schema, list) else ()
    for key, value in items:
        found += [(schema, key), *places(value)]
    return found


@given(st.data())
def test_damaged_schemas_raise_only_errors_of_floe(data: st.DataObject) -> None:
    schema = copy.deepcopy(SEED_SCHEMA)
    for _ in range(data.draw(st.integers(1, 3))):
        holder, key = data.draw(st.sampled_from(places(schema)))
        holder[key] = data.draw(JUNK)
    with contextlib.suppress(FloeError):
        avro_to_type(schema)
