"""The type tables of the format: names, parameters, text, and the version that allows each."""

import contextlib

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidSchema, InvalidType
from floe.spec import types as t
from floe.spec.types import (
    DecimalType,
    Field,
    FixedType,
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    StructType,
    min_format_version,
    parse_type,
)

SINCE_V1 = {
    "boolean": t.BOOLEAN,
    "int": t.INT,
    "long": t.LONG,
    "float": t.FLOAT,
    "double": t.DOUBLE,
    "decimal(9, 2)": DecimalType(9, 2),
    "date": t.DATE,
    "time": t.TIME,
    "timestamp": t.TIMESTAMP,
    "timestamptz": t.TIMESTAMPTZ,
    "string": t.STRING,
    "uuid": t.UUID,
    "fixed[16]": FixedType(16),
    "binary": t.BINARY,
}
SINCE_V3 = {
    "timestamp_ns": t.TIMESTAMP_NS,
    "timestamptz_ns": t.TIMESTAMPTZ_NS,
    "unknown": t.UNKNOWN,
    "variant": t.VARIANT,
    "geometry": GeometryType(),
    "geometry(srid:4326)": GeometryType("srid:4326"),
    "geography": GeographyType(),
    "geography(srid:4326)": GeographyType("srid:4326"),
    "geography(srid:4326, spherical)": GeographyType("srid:4326", "spherical"),
}


@pytest.mark.parametrize(("text", "type_"), (SINCE_V1 | SINCE_V3).items())
def test_text_of_every_type_is_parsed_and_printed(text, type_):
    assert parse_type(text) == type_
    assert str(type_) == text


def _named(text):
    """What a row of the type table has in common: its kind, and being a primitive."""
    type_ = parse_type(text)
    assert type_.is_primitive
    assert not type_.is_nested
    assert type_.fields == ()
    assert min_format_version(type_) == 1
    return type_.kind


def test_boolean():
    assert _named("boolean") == "boolean"


def test_int():
    assert _named("int") == "int"


def test_long():
    assert _named("long") == "long"


def test_float():
    assert _named("float") == "float"


def test_double():
    assert _named("double") == "double"


def test_decimal_has_precision_and_scale():
    assert _named("decimal(9,2)") == "decimal"
    type_ = parse_type("decimal(9,2)")
    assert (type_.precision, type_.scale) == (9, 2)


def test_decimal_precision_is_38_or_less():
    assert DecimalType(38, 38) == parse_type("decimal(38,38)")
    with pytest.raises(InvalidType, match="precision must be 1 to 38, found 39"):
        parse_type("decimal(39,2)")


@pytest.mark.parametrize("text", ["decimal(0,0)", "decimal(9,10)", "decimal(999999999,0)"])
def test_decimal_with_impossible_parameters(text):
    with pytest.raises(InvalidType, match=r"decimal (precision|scale)"):
        parse_type(text)


@pytest.mark.parametrize("parameter", [True, 9.0, "9", None])
def test_parameters_must_be_integers(parameter):
    with pytest.raises(InvalidType, match="must be an integer"):
        DecimalType(parameter, 0)
    with pytest.raises(InvalidType, match="must be an integer"):
        FixedType(parameter)


def test_decimals_of_other_scale_or_precision_are_other_types():
    assert DecimalType(9, 2) != DecimalType(9, 3)
    assert DecimalType(9, 2) != DecimalType(10, 2)


def test_date():
    assert _named("date") == "date"


def test_time():
    assert _named("time") == "time"


def test_timestamp():
    assert _named("timestamp") == "timestamp"


def test_timestamptz():
    assert _named("timestamptz") == "timestamptz"
    assert t.TIMESTAMP != t.TIMESTAMPTZ


def test_string():
    assert _named("string") == "string"


def test_uuid():
    assert _named("uuid") == "uuid"


def test_fixed_has_a_length():
    assert _named("fixed[16]") == "fixed"
    assert parse_type("fixed[16]").length == 16
    assert FixedType(0).length == 0
    assert FixedType(16) != FixedType(17)


@pytest.mark.parametrize("text", ["fixed[2147483648]", "fixed[9999999999999999999]"])
def test_fixed_longer_than_32_bits(text):
    with pytest.raises(InvalidType, match="fixed length must be 0 to 2147483647"):
        parse_type(text)


def test_binary():
    assert _named("binary") == "binary"


def test_timestamp_ns_is_v3():
    assert min_format_version(t.TIMESTAMP_NS) == 3
    assert t.TIMESTAMP_NS.is_primitive


def test_timestamptz_ns_is_v3():
    assert min_format_version(t.TIMESTAMPTZ_NS) == 3
    assert t.TIMESTAMPTZ_NS != t.TIMESTAMP_NS


def test_unknown_is_v3():
    assert min_format_version(t.UNKNOWN) == 3
    assert t.UNKNOWN.is_primitive


def test_variant_is_v3_and_neither_primitive_nor_nested():
    assert min_format_version(t.VARIANT) == 3
    assert not t.VARIANT.is_primitive
    assert not t.VARIANT.is_nested
    assert t.VARIANT.fields == ()


def test_struct_is_a_tuple_of_named_fields():
    x, y = Field(1, "x", t.DOUBLE, required=True), Field(2, "y", t.DOUBLE, doc="height")
    point = StructType((x, y))
    assert (point.kind, point.is_nested, point.is_primitive) == ("struct", True, False)
    assert point.fields == (x, y) == tuple(point)
    assert len(point) == 2
    assert point.field_named("y") is y
    assert point.field_named("z") is None
    assert (x.optional, y.optional) == (False, True)
    assert str(point) == "struct<1: x: required double, 2: y: optional double (height)>"


def test_struct_with_two_fields_of_one_name():
    with pytest.raises(InvalidSchema, match="two fields of one struct are named 'x'"):
        StructType((Field(1, "x", t.INT), Field(2, "x", t.INT)))


def test_list_element_has_a_field_id():
    tags = ListType(3, t.STRING, element_required=True)
    assert tags.is_nested
    assert tags.fields == (Field(3, "element", t.STRING, required=True),)
    assert ListType(3, t.STRING).element_field.optional
    assert str(tags) == "list<string>"


def test_map_key_and_value_have_field_ids_and_keys_are_required():
    counts = MapType(3, t.STRING, 4, t.INT)
    assert counts.is_nested
    assert counts.fields == (Field(3, "key", t.STRING, required=True), Field(4, "value", t.INT))
    assert MapType(3, t.STRING, 4, t.INT, value_required=True).value_field.required
    assert str(counts) == "map<string, int>"


def test_map_keys_may_be_of_any_type_also_nested():
    key = StructType((Field(5, "a", t.INT),))
    assert MapType(3, key, 4, t.INT).key_field.type == key


@pytest.mark.parametrize("text", SINCE_V1)
def test_types_of_every_version(text):
    assert min_format_version(parse_type(text)) == 1


@pytest.mark.parametrize("text", SINCE_V3)
def test_types_that_v3_brought(text):
    assert min_format_version(parse_type(text)) == 3


@pytest.mark.parametrize("text", SINCE_V3)
def test_nested_types_need_what_their_parts_need(text):
    part = parse_type(text)
    for whole in (
        StructType((Field(1, "a", t.INT), Field(2, "b", part))),
        ListType(1, part),
        MapType(1, part, 2, t.INT),
        MapType(1, t.INT, 2, part),
        ListType(1, StructType((Field(2, "a", MapType(3, t.INT, 4, part)),))),
    ):
        assert min_format_version(whole) == 3
    assert min_format_version(ListType(1, MapType(2, t.INT, 3, StructType()))) == 1


SPACED = {
    "decimal(9,2)": DecimalType(9, 2),
    "decimal(9, 2)": DecimalType(9, 2),
    "decimal( 9 ,2 )": DecimalType(9, 2),
    " decimal (9,2) ": DecimalType(9, 2),
    "DECIMAL(9,2)": DecimalType(9, 2),
    "fixed[16]": FixedType(16),
    "fixed[ 16 ]": FixedType(16),
    "fixed [16]": FixedType(16),
    "\tlong\n": t.LONG,
    "Timestamp_NS": t.TIMESTAMP_NS,
    "geometry ( EPSG:4326 )": GeometryType("EPSG:4326"),
    "geography(EPSG:4326,karney)": GeographyType("EPSG:4326", "karney"),
    "geography( EPSG:4326 , KARNEY )": GeographyType("EPSG:4326", "karney"),
}


@pytest.mark.parametrize(("text", "type_"), SPACED.items())
def test_readers_tolerate_spaces_and_case(text, type_):
    assert parse_type(text) == type_


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "integer", "bigint", "struct", "list<int>", "long ng", "int\x00", "variant(1)",
        "decimal", "decimal()", "decimal(9)", "decimal(9,-2)", "decimal(9.0,2)", "decimal(a,b)", "decimal(٩,٢)",
        "decimal(9,2", "decimal[9,2]", "decimal(1234567890,2)",
        "fixed", "fixed[]", "fixed[-1]", "fixed(16)", "fixed[1 6]",
        "geometry(EPSG:4326", "geography(a, b, c)",
    ],
)  # fmt: skip
def test_unknown_type_texts(text):
    with pytest.raises(InvalidType):
        parse_type(text)


def test_a_long_hostile_text_is_refused_at_once_with_a_short_message():
    for text in ("decimal(" + " " * 10**6, "geography(" + " " * 10**6 + ",", "geometry" + "(" * 10**6, "x" * 10**6):
        with pytest.raises(InvalidType) as caught:
            parse_type(text)
        assert len(str(caught.value)) < 400


def test_geometry_default_crs_is_ogc_crs84():
    assert GeometryType().effective_crs == "OGC:CRS84"
    assert GeometryType() == GeometryType("OGC:CRS84")
    assert hash(GeometryType()) == hash(GeometryType("OGC:CRS84"))
    # each keeps the text it was read from
    assert str(GeometryType()) == "geometry"
    assert str(GeometryType("OGC:CRS84")) == "geometry(OGC:CRS84)"


def test_geography_default_algorithm_is_spherical():
    assert GeographyType().effective_algorithm == "spherical"
    assert GeographyType() == GeographyType("OGC:CRS84", "spherical")
    assert hash(GeographyType()) == hash(GeographyType("OGC:CRS84", "spherical"))
    assert str(GeographyType(algorithm="karney")) == "geography(OGC:CRS84, karney)"


@pytest.mark.parametrize("algorithm", ["spherical", "vincenty", "thomas", "andoyer", "karney"])
def test_geography_edge_algorithms(algorithm):
    type_ = parse_type(f"geography(srid:4326, {algorithm})")
    assert type_.effective_algorithm == algorithm
    assert str(type_) == f"geography(srid:4326, {algorithm})"


def test_geography_with_an_unknown_algorithm():
    with pytest.raises(InvalidType, match=r"'flat'.*use one of spherical, vincenty, thomas, andoyer, karney"):
        parse_type("geography(srid:4326, flat)")
    with pytest.raises(InvalidType):
        parse_type("geography(srid:4326, )")


@pytest.mark.parametrize("crs", ["OGC:CRS84", "EPSG:4326", "IGNF:ATI", "SRID:0", "projjson:my_crs", "WGS 84 (lon lat)"])
def test_any_string_may_name_a_crs(crs):
    assert parse_type(f"geometry({crs})").crs == crs
    assert parse_type(f"geography({crs})").crs == crs


def test_types_are_the_same_when_their_crs_are_but_for_case():
    assert GeometryType("EPSG:4326") == GeometryType("epsg:4326")
    assert GeographyType("EPSG:4326") == GeographyType("epsg:4326")
    assert GeometryType("EPSG:4326") != GeometryType("EPSG:3857")
    assert GeographyType("EPSG:4326", "karney") != GeographyType("EPSG:4326")
    assert GeometryType() != GeographyType()


@pytest.mark.parametrize("text", ["geometry()", "geometry( )", "geography()", "geography(, spherical)"])
def test_a_crs_must_not_be_empty(text):
    with pytest.raises(InvalidType, match="must not be an empty string"):
        parse_type(text)


@pytest.mark.parametrize("make", [GeometryType, GeographyType])
def test_projjson_must_not_be_inlined(make):
    with pytest.raises(InvalidType, match="projjson:<property>"):
        make('{"type": "GeographicCRS"}')
    assert make("projjson:crs.definition").effective_crs == "projjson:crs.definition"


def test_a_crs_that_its_own_text_could_not_give_back():
    with pytest.raises(InvalidType, match="spaces"):
        GeometryType(" EPSG:4326")
    with pytest.raises(InvalidType, match="comma"):
        GeographyType("a,b")


def test_types_are_values():
    assert len({t.INT, parse_type("int"), DecimalType(9, 2), parse_type("decimal(9,2)")}) == 2
    with pytest.raises(AttributeError):
        DecimalType(9, 2).scale = 3
    one, other = (StructType((Field(1, "a", ListType(2, t.INT)),)) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)


def test_unknown_json_keys_take_no_part_in_comparisons():
    assert Field(1, "a", t.INT, extra={"x": 1}) == Field(1, "a", t.INT)
    assert StructType(extra={"x": 1}) == StructType()
    assert ListType(1, t.INT, extra={"x": 1}) == ListType(1, t.INT)
    assert MapType(1, t.INT, 2, t.INT, extra={"x": 1}) == MapType(1, t.INT, 2, t.INT)


crs_texts = st.text(min_size=1).map(str.strip).filter(lambda crs: crs and "{" not in crs)


@given(
    st.one_of(
        st.integers(1, 38).flatmap(lambda p: st.builds(DecimalType, st.just(p), st.integers(0, p))),
        st.builds(FixedType, st.integers(0, 2**31 - 1)),
        st.builds(GeometryType, st.none() | crs_texts),
        st.builds(
            GeographyType,
            st.none() | crs_texts.filter(lambda crs: "," not in crs),
            st.none() | st.sampled_from(["spherical", "vincenty", "thomas", "andoyer", "karney"]),
        ),
    )
)
def test_printed_types_parse_back(type_):
    again = parse_type(str(type_))
    assert again == type_
    assert str(again) == str(type_)


@given(st.text(alphabet="decimalfixgotryph()[], 0123456789:"))
def test_any_text_is_a_type_or_refused(text):
    with contextlib.suppress(InvalidType):
        parse_type(text)


def test_fields_of_a_struct_may_be_given_as_any_sequence():
    a = Field(1, "a", t.INT)
    assert StructType([a]) == StructType((a,)) == StructType(iter([a]))
    assert hash(StructType([a])) == hash(StructType((a,)))


def test_only_text_is_parsed():
    with pytest.raises(InvalidType, match="3 is not a type"):
        parse_type(3)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("bigint", "write it as long"),
        ("varchar(3)", "write it as string"),
        ("integer", "write it as int"),
        ("decimal(9)", "write it as decimal\\(9, 2\\)"),
        ("fixed(16)", "write it as fixed\\[16\\]"),
        ("list<int>", "ListType"),
        ("struct<a: int>", "StructType"),
        ("quux", "types are boolean, int, long"),
    ],
)
def test_an_unknown_type_is_answered_with_what_to_write(text, hint):
    with pytest.raises(InvalidType, match=f"unknown type .*{hint}"):
        parse_type(text)
