"""Columns as text: what people type becomes the schema they mean, and mistakes are pointed at."""

import contextlib
import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidSchema, InvalidType
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
    GeographyType,
    GeometryType,
    Type,
)
from floe.sql.columns import parse_column_type, parse_columns
from floe.sql.printer import columns_text, type_text
from helpers.schema_strategies import LEAVES_V3, schemas

TYPES = [
    ("boolean", BOOLEAN),
    ("BOOL", BOOLEAN),
    ("int", INT),
    ("integer", INT),
    ("tinyint", INT),
    ("smallint", INT),
    ("bigint", LONG),
    ("long", LONG),
    ("float", FLOAT),
    ("real", FLOAT),
    ("double", DOUBLE),
    ("double precision", DOUBLE),
    ("decimal(10,2)", DecimalType(10, 2)),
    ("DECIMAL( 10 , 2 )", DecimalType(10, 2)),
    ("numeric(7)", DecimalType(7, 0)),
    ("decimal", DecimalType(10, 0)),
    ("date", DATE),
    ("time", TIME),
    ("timestamp", TIMESTAMP),
    ("timestamp_ntz", TIMESTAMP),
    ("timestamp without time zone", TIMESTAMP),
    ("timestamptz", TIMESTAMPTZ),
    ("timestamp_ltz", TIMESTAMPTZ),
    ("timestamp with time zone", TIMESTAMPTZ),
    ("timestamp_ns", TIMESTAMP_NS),
    ("timestamptz_ns", TIMESTAMPTZ_NS),
    ("string", STRING),
    ("text", STRING),
    ("varchar(20)", STRING),
    ("char(3)", STRING),
    ("uuid", UUID),
    ("fixed[16]", FixedType(16)),
    ("fixed(16)", FixedType(16)),
    ("binary", BINARY),
    ("unknown", UNKNOWN),
    ("variant", VARIANT),
    ("geometry", GeometryType()),
    ("geometry(srid:3857)", GeometryType("srid:3857")),
    ("geography(OGC:CRS84, karney)", GeographyType("OGC:CRS84", "karney")),
]


@pytest.mark.parametrize(("text", "type_"), TYPES, ids=[text for text, _ in TYPES])
def test_each_spelling_of_a_primitive_type(text: str, type_: Type) -> None:
    assert parse_columns(f"a {text}").field("a").type == type_
    assert parse_column_type(text) == type_


def test_ids_are_given_level_by_level_as_other_writers_do() -> None:
    schema = parse_columns("a struct<x: int, y: struct<z: int>>, b array<int>, c map<string, int>, d int")
    assert {entry.name: i for i, entry in schema.by_id.items()} == {
        "a": 1,
        "b": 2,
        "c": 3,
        "d": 4,
        "a.x": 5,
        "a.y": 6,
        "a.y.z": 7,
        "b.element": 8,
        "c.key": 9,
        "c.value": 10,
    }


def test_what_stands_behind_a_type_in_any_order() -> None:
    for text in (
        "a int not null comment 'the key' default 7",
        "a int default 7 comment 'the key' not null",
        "a INT DEFAULT 7 NOT NULL COMMENT 'the key'",
    ):
        field = parse_columns(text).field("a")
        assert (field.required, field.doc, field.initial_default, field.write_default) == (True, "the key", 7, 7)
    assert parse_columns("a int null").field("a").optional


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("a decimal(10,2) default 0", Decimal("0.00")),
        ("a decimal(10,2) default -1.5", Decimal("-1.50")),
        ("a string default 'it''s'", "it's"),
        ("a date default date '2024-05-17'", dt.date(2024, 5, 17).toordinal() - dt.date(1970, 1, 1).toordinal()),
        ("a date default '1970-01-02'", 1),
        ("a bigint default 5L", 5),
        ("a boolean default true", True),
        ("a binary default X'0aff'", b"\x0a\xff"),
        ("a int default null", None),
    ],
)
def test_defaults_are_values_of_their_column(column: str, value: object) -> None:
    assert parse_columns(column).field("a").write_default == value


def test_parts_of_types_can_be_required_and_documented() -> None:
    schema = parse_columns(
        "a struct<x: int not null comment 'no nulls', y string>, b array<int not null>, c map<int, int not null>"
    )
    assert schema.field("a.x").required
    assert schema.field("a.x").doc == "no nulls"
    assert schema.field("b.element").required
    assert schema.field("c.value").required
    assert schema.field("c.key").required


def test_structs_may_have_colons_or_not() -> None:
    assert parse_column_type("struct<a: int, b string>") == parse_column_type("STRUCT<a int,b:string>")


def test_names_keep_their_case_and_back_quotes_hold_anything() -> None:
    schema = parse_columns(
        "OrderId int, `a b` int, `x.y` int, `it``s` int, date date, `not` int, order int, comment string"
    )
    assert [f.name for f in schema] == ["OrderId", "a b", "x.y", "it`s", "date", "not", "order", "comment"]


def test_parentheses_and_comments_of_create_table_do_no_harm() -> None:
    assert parse_columns("(a int, -- the first\n b int)") == parse_columns("a int, b int")


def test_a_primary_key_names_the_identifier_fields() -> None:
    schema = parse_columns("a int not null, s struct<b: int not null> not null, primary key (a, s.b) not enforced")
    assert schema.identifier_names == ("a", "s.b")


def test_no_text_is_no_column() -> None:
    assert parse_columns("  ") == Schema(())


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a", "", "expected a type"),
        ("a int,", "", "expected the name of a column"),
        ("a int b int", "b int", "expected `,` or the end"),
        ("a int, a string", "a string", "two columns are named 'a'"),
        ("a int, b dezimal(3)", "dezimal", "unknown type `dezimal`; did you mean decimal?"),
        ("a decimal(40, 2)", "decimal", "decimal precision must be 1 to 38"),
        ("a decimal(3, 4)", "decimal", "decimal scale must be 0 to the precision 3"),
        ("a decimal(x)", "x)", "expected a whole number"),
        ("a decimal(1,2,3)", "3)", "expected `)`"),
        ("a fixed", "", "needs a length"),
        ("a int(4)", "(4)", "the type int takes no parameters"),
        ("a array", "", "expected `<`"),
        ("a array<int", "", "expected `>`"),
        ("a map<int>", ">", "expected `,` and the type of the values"),
        ("a struct<x: int, x: int>", "x: int>", "two columns are named 'x'"),
        ("a.b int", ".b", "a column's name has a dot in it"),
        ("a: int", ": int", "only the fields of a struct"),
        ("'a' int", "'a'", "put the name in back-quotes"),
        ("a int not", "", "expected NULL after NOT"),
        ("a int not null null", "null", "NULL appears twice"),
        ("a int comment x", "x", "expected text in quotes after COMMENT"),
        ("a int default b", "b", "a default is a value"),
        ("a int default 'x'", "'x'", "'x'"),
        ("a int default 3000000000", "3000000000", "3000000000"),
        ("a array<int comment 'x'>", "comment", "neither comment nor default"),
        ("a int generated always as (b)", "generated", "cannot have `generated`"),
        ("a int, primary key (b)", "b)", "no column is named 'b'"),
        ("a int, primary key (a)", "a)", "it is optional"),
        ("a time with time zone", "with", "no time zone"),
        ("a geometry(x", "(x", "never closed"),
        ("a int `", "`", "never closed"),
        ("a interval", "interval", "unknown type"),
    ],
)
def test_mistakes_are_pointed_at(text: str, place: str, message: str) -> None:
    with pytest.raises(InvalidSchema) as caught:
        parse_columns(text)
    assert message in str(caught.value)
    assert caught.value.position is not None
    assert text[caught.value.position :].startswith(place)
    assert str(caught.value).endswith(" " * (caught.value.position + 2) + "^")


def test_nesting_too_deep_is_refused_quickly() -> None:
    text = "a " + "array<" * 5000 + "int" + ">" * 5000
    with pytest.raises(InvalidSchema, match="nested more than 100 deep"):
        parse_columns(text)


@pytest.mark.parametrize("wrong", [None, 5, ["a int"], b"a int"])
def test_only_text_is_read(wrong: object) -> None:
    with pytest.raises(InvalidSchema):
        parse_columns(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidType):
        parse_column_type(wrong)  # type: ignore[arg-type]


# and back -------------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(schemas(LEAVES_V3, fresh=True))
def test_columns_survive_being_printed_and_read(schema: Schema) -> None:
    read = parse_columns(columns_text(schema))
    assert (read.fields, read.identifier_names) == (schema.fields, schema.identifier_names)


@given(TEXTS, TEXTS)
def test_any_name_and_comment_survives(name: str, doc: str) -> None:
    schema = Schema((Field(1, name, STRING, doc=doc),))
    assert parse_columns(columns_text(schema)) == schema


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused_with_a_schema_error(text: str) -> None:
    with contextlib.suppress(InvalidSchema):
        assert isinstance(parse_columns(text), Schema)


def test_types_print_without_ids() -> None:
    assert type_text(parse_column_type("array<struct<`a b`: int not null>>")) == "list<struct<`a b`: int not null>>"
