"""Single values as JSON (Appendix D): every row with its example, what Java writes and takes, hostile JSON."""

import json
import math
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given, strategies as st
from pyiceberg import conversions as pyiceberg_conversions, types as pyiceberg_types

from floe.errors import InvalidValue
from floe.spec import types as t
from floe.spec.codecs.single_value_json import from_json, to_json
from floe.spec.codecs.wkt import wkt_to_wkb
from floe.spec.types import DecimalType, Field, FixedType, GeographyType, GeometryType, ListType, MapType, StructType
from helpers.corpus import metadata_files, read_metadata, table_names
from helpers.value_strategies import all_types, typed_values

MOMENT = 1_510_871_468_123_456  # 2017-11-16T22:31:08.123456


def both_ways(type_, value, form):
    assert to_json(type_, value) == form
    assert type(to_json(type_, value)) is type(form)
    assert from_json(type_, form) == value
    assert type(from_json(type_, form)) is type(value)


def refused(type_, form, why="it must be"):
    with pytest.raises(InvalidValue, match=why):
        from_json(type_, form)


# The rows of the table, with its examples.


def test_boolean_is_a_json_boolean():
    both_ways(t.BOOLEAN, True, True)
    for form in (1, "true", 0.0, []):
        refused(t.BOOLEAN, form, "true or false")


def test_int_is_a_json_number():
    both_ways(t.INT, 34, 34)
    for form in (2**31, 34.0, "34", True, 10**5000):
        refused(t.INT, form, "not the JSON of type int")


def test_long_is_a_json_number():
    both_ways(t.LONG, 4_900_000_000, 4_900_000_000)
    refused(t.LONG, 2**63, "out of range")


def test_float_is_a_json_number():
    both_ways(t.FLOAT, 1.0, 1.0)
    refused(t.FLOAT, 1e300, "out of range")
    refused(t.FLOAT, "1.0")
    refused(t.FLOAT, True)


def test_float_is_written_with_the_digits_of_32_bits():
    # the float that Java prints as 0.1 is 0.100000001490116… as a double
    assert to_json(t.FLOAT, 0.10000000149011612) == 0.1
    assert from_json(t.FLOAT, 0.1) == 0.10000000149011612


def test_double_is_a_json_number():
    both_ways(t.DOUBLE, 0.1, 0.1)
    assert from_json(t.DOUBLE, 1) == 1.0  # other writers leave the point out
    refused(t.DOUBLE, 10**400, "out of range")


@pytest.mark.parametrize("type_", [t.FLOAT, t.DOUBLE], ids=str)
def test_numbers_that_are_not_finite_are_strings_as_java_writes_them(type_):
    assert to_json(type_, math.nan) == "NaN"
    assert math.isnan(from_json(type_, "NaN"))
    both = {math.inf: "Infinity", -math.inf: "-Infinity"}
    for value, text in both.items():
        assert to_json(type_, value) == text
        assert from_json(type_, text) == value
    refused(type_, "nan")


def test_decimal_is_a_string_with_its_scale():
    both_ways(DecimalType(9, 2), Decimal("14.20"), "14.20")
    both_ways(DecimalType(9, 0), Decimal(14), "14")
    both_ways(DecimalType(38, 2), Decimal("-1234567890123456789012345.67"), "-1234567890123456789012345.67")
    # never in scientific notation, which Python's str() would use
    assert to_json(DecimalType(38, 20), Decimal("1E-20")) == "0.00000000000000000001"


@pytest.mark.parametrize(
    "form", ["14.2", "14.200", "14", "2E+20", "1.42E3", "12345678.90", 14.2, "", "1_0.00", "NaN", "٤.20", " 14.20"]
)
def test_decimal_of_another_scale_or_form(form):
    refused(DecimalType(9, 2), form, "not the JSON of type decimal")


def test_decimal_in_scientific_notation_of_the_right_scale():
    assert str(from_json(DecimalType(9, 2), "1420E-2")) == "14.20"  # Java's BigDecimal takes it


def test_decimal_has_no_negative_zero():
    assert str(from_json(DecimalType(9, 2), "-0.00")) == "0.00"


def test_date_is_an_iso_string():
    both_ways(t.DATE, 17486, "2017-11-16")
    both_ways(t.DATE, 2_932_897, "+10000-01-01")
    for form in (17486, "2017-11-31", "20171116"):
        refused(t.DATE, form, "not the JSON of type date")


def test_time_is_an_iso_string():
    both_ways(t.TIME, 81_068_123_456, "22:31:08.123456")
    refused(t.TIME, "22:31:08.1234567", "finer than microseconds")


def test_timestamp_is_an_iso_string_without_offset():
    both_ways(t.TIMESTAMP, MOMENT, "2017-11-16T22:31:08.123456")
    refused(t.TIMESTAMP, "2017-11-16T22:31:08.123456+00:00", "has an offset")
    refused(t.TIMESTAMP, "2017-11-16T22:31:08.1234567", "finer than microseconds")


def test_timestamptz_must_end_with_offset_zero():
    both_ways(t.TIMESTAMPTZ, MOMENT, "2017-11-16T22:31:08.123456+00:00")
    refused(t.TIMESTAMPTZ, "2017-11-16T22:31:08.123456", "it has no offset")
    refused(t.TIMESTAMPTZ, "2017-11-16T22:31:08.123456+01:00", r"not \+00:00")


def test_timestamptz_may_end_with_z_as_java_reads_it():
    assert from_json(t.TIMESTAMPTZ, "2017-11-16T22:31:08.123456Z") == MOMENT


def test_timestamp_ns_is_an_iso_string_without_offset():
    both_ways(t.TIMESTAMP_NS, MOMENT * 1000 + 789, "2017-11-16T22:31:08.123456789")
    refused(t.TIMESTAMP_NS, "2017-11-16T22:31:08.123456789+00:00", "has an offset")


def test_timestamptz_ns_must_end_with_offset_zero():
    both_ways(t.TIMESTAMPTZ_NS, MOMENT * 1000 + 789, "2017-11-16T22:31:08.123456789+00:00")
    refused(t.TIMESTAMPTZ_NS, "2017-11-16T22:31:08.123456789", "it has no offset")
    refused(t.TIMESTAMPTZ_NS, "3000-01-01T00:00:00+00:00", "out of range")


@pytest.mark.parametrize("form", ["2017-11-16", "2017-11-16 22:31:08", MOMENT, "", "now"])
def test_timestamps_are_a_date_and_a_time_with_a_t_between(form):
    refused(t.TIMESTAMP, form, "not the JSON of type timestamp")


def test_fractions_are_as_short_as_java_writes_them():
    assert to_json(t.TIMESTAMP, 500_000) == "1970-01-01T00:00:00.5"
    assert to_json(t.TIMESTAMPTZ, 0) == "1970-01-01T00:00:00+00:00"
    assert from_json(t.TIMESTAMP, "1970-01-01T00:00:00.500000") == 500_000
    assert from_json(t.TIMESTAMP, "1970-01-01T00:01") == 60_000_000


def test_string_is_a_json_string():
    both_ways(t.STRING, "iceberg", "iceberg")
    refused(t.STRING, 1)
    refused(t.STRING, "\ud800", "surrogate")


def test_uuid_is_the_lowercase_string():
    both_ways(t.UUID, UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), "f79c3e09-677c-4bbd-a479-3f349cb785e7")
    assert from_json(t.UUID, "F79C3E09-677C-4BBD-A479-3F349CB785E7") == UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    for form in ("f79c3e09677c4bbda4793f349cb785e7", "{f79c3e09-677c-4bbd-a479-3f349cb785e7}", 1):
        refused(t.UUID, form)


def test_fixed_is_hexadecimal():
    both_ways(FixedType(4), b"\x00\x01\x02\xff", "000102FF")
    assert from_json(FixedType(4), "000102ff") == b"\x00\x01\x02\xff"
    refused(FixedType(4), "0001", "it has 2 bytes")


def test_binary_is_hexadecimal():
    both_ways(t.BINARY, b"\x00\x01\x02\xff", "000102FF")
    assert from_json(t.BINARY, "000102ff") == b"\x00\x01\x02\xff"
    for form in ("0", "0g", "00 01", "0x00", 0):
        refused(t.BINARY, form, "hexadecimal")


POINT = StructType((Field(1, "a", t.INT), Field(2, "b", t.STRING)))


def test_struct_is_an_object_by_field_id():
    both_ways(POINT, {"a": 1, "b": "bar"}, {"1": 1, "2": "bar"})
    refused(POINT, [1, "bar"], "field ids as keys")
    with pytest.raises(InvalidValue, match=r"at: \.b"):
        from_json(POINT, {"1": 1, "2": 2})


def test_struct_leaves_out_what_is_null_or_missing():
    assert to_json(POINT, {"a": None}) == {}
    assert from_json(POINT, {}) == {}
    assert from_json(POINT, {"1": None}) == {"a": None}


def test_struct_passes_over_ids_it_does_not_know():
    assert from_json(POINT, {"1": 1, "7": "old"}) == {"a": 1}


def test_struct_with_null_for_a_required_field():
    with pytest.raises(InvalidValue, match="null for a required value of type int"):
        from_json(StructType((Field(1, "a", t.INT, required=True),)), {"1": None})


def test_list_is_an_array():
    both_ways(ListType(1, t.INT), [1, 2, 3], [1, 2, 3])
    both_ways(ListType(1, t.DATE), [None, 0], [None, "1970-01-01"])
    refused(ListType(1, t.INT), {"0": 1}, "an array")
    with pytest.raises(InvalidValue, match=r"at: \[1\]"):
        from_json(ListType(1, t.INT, element_required=True), [1, None])


def test_map_is_an_object_of_keys_and_values():
    both_ways(MapType(1, t.STRING, 2, t.INT), {"a": 1, "b": 2}, {"keys": ["a", "b"], "values": [1, 2]})
    both_ways(MapType(1, t.STRING, 2, t.INT), {}, {"keys": [], "values": []})


def test_map_with_nested_keys_is_a_list_of_pairs():
    both_ways(MapType(1, ListType(3, t.INT), 2, t.INT), [([1], 1), ([], 2)], {"keys": [[1], []], "values": [1, 2]})


@pytest.mark.parametrize(
    "form",
    [{"a": 1}, [], {"keys": ["a"]}, {"keys": ["a"], "values": []}, {"keys": "a", "values": [1]},
     {"keys": [None], "values": [1]}, {"keys": ["a", "a"], "values": [1, 2]}, {"keys": ["a"], "values": ["x"]}],
)  # fmt: skip
def test_map_of_another_form(form):
    with pytest.raises(InvalidValue):
        from_json(MapType(1, t.STRING, 2, t.INT), form)


def test_map_of_nested_keys_must_not_have_a_key_twice():
    refused(MapType(1, POINT, 2, t.INT), {"keys": [{"1": 1, "2": "x"}, {"2": "x", "1": 1}], "values": [1, 2]}, "twice")


def test_geometry_is_wkt():
    both_ways(GeometryType(), wkt_to_wkb("POINT (30 10)"), "POINT (30 10)")
    refused(GeometryType(), "POINT (30)", "2 coordinates, found 1")


def test_geography_is_wkt():
    both_ways(GeographyType(), wkt_to_wkb("POINT (30 10)"), "POINT (30 10)")


@pytest.mark.parametrize("type_", [t.UNKNOWN, t.VARIANT], ids=str)
def test_unknown_and_variant_are_only_null(type_):
    assert from_json(type_, None) is None
    assert to_json(type_, None) is None
    refused(type_, 1, "it must be null")
    with pytest.raises(InvalidValue):
        to_json(type_, b"\x01")


@given(all_types())
def test_null_is_null(type_):
    assert to_json(type_, None) is None
    assert from_json(type_, None) is None


def test_only_values_of_the_type_are_written():
    for type_, value in [(t.INT, "34"), (t.DATE, "2017-11-16"), (ListType(1, t.INT), [1, "2"]), (POINT, {"c": 1})]:
        with pytest.raises(InvalidValue):
            to_json(type_, value)


def without_null_fields(type_, value):
    """A struct's null children are left out in JSON; without them, what was written is what is read."""
    if isinstance(type_, StructType) and value is not None:
        return {
            c.name: without_null_fields(c.type, value[c.name]) for c in type_.fields if value.get(c.name) is not None
        }
    if isinstance(type_, ListType) and value is not None:
        return [without_null_fields(type_.element, item) for item in value]
    if isinstance(type_, MapType) and value is not None:
        pairs = value.items() if isinstance(value, dict) else value
        parts = [(without_null_fields(type_.key, k), without_null_fields(type_.value, v)) for k, v in pairs]
        return parts if type_.key.is_nested else dict(parts)
    return value


@given(typed_values(all_types()))
def test_round_trip_through_json_text(typed):
    type_, value = typed
    text = json.dumps(to_json(type_, value), allow_nan=False)
    again = from_json(type_, json.loads(text))
    assert repr(again) == repr(without_null_fields(type_, value))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["1", "2", "keys", "values"]), inner),
    max_leaves=6,
)


@given(all_types(), json_values)
def test_any_json_is_a_value_or_refused(type_, form):
    try:
        value = from_json(type_, form)
    except InvalidValue:
        return
    to_json(type_, value)


PYICEBERG = [
    (t.BOOLEAN, pyiceberg_types.BooleanType()),
    (t.INT, pyiceberg_types.IntegerType()),
    (t.LONG, pyiceberg_types.LongType()),
    (t.DOUBLE, pyiceberg_types.DoubleType()),
    (t.STRING, pyiceberg_types.StringType()),
    (t.UUID, pyiceberg_types.UUIDType()),
    (FixedType(3), pyiceberg_types.FixedType(3)),
    (t.BINARY, pyiceberg_types.BinaryType()),
    (DecimalType(9, 2), pyiceberg_types.DecimalType(9, 2)),
    (t.TIME, pyiceberg_types.TimeType()),
]


@given(st.sampled_from(PYICEBERG).flatmap(lambda pair: st.tuples(st.just(pair[1]), typed_values(st.just(pair[0])))))
def test_what_pyiceberg_writes_is_read(pair):
    theirs, (type_, value) = pair
    if isinstance(value, float) and not math.isfinite(value):
        return  # PyIceberg leaves NaN and infinity bare, which is no JSON
    assert from_json(type_, pyiceberg_conversions.to_json(theirs, value)) == value


def test_pyiceberg_writes_bytes_in_small_letters_and_small_decimals_in_scientific_notation():
    # Java writes capitals, and so do we, so that metadata keeps its text; all three read both
    assert pyiceberg_conversions.to_json(pyiceberg_types.BinaryType(), b"\xff") == "ff"
    # the spec has scientific notation only for negative scales
    assert pyiceberg_conversions.to_json(pyiceberg_types.DecimalType(9, 8), Decimal("1E-8")) == "1E-8"
    assert to_json(DecimalType(9, 8), Decimal("1E-8")) == "0.00000001"
    assert from_json(DecimalType(9, 8), "1E-8") == Decimal("1E-8")


def fields_with_defaults(node):
    """Every field object with a default, anywhere in metadata JSON."""
    if isinstance(node, dict):
        if "initial-default" in node or "write-default" in node:
            yield node
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from fields_with_defaults(part)


def test_defaults_written_by_java_keep_their_form(corpus_dir):
    seen = set()
    for table in table_names("evo_defaults"):
        for path in metadata_files(corpus_dir, table):
            for field in fields_with_defaults(read_metadata(path)):
                if isinstance(field["type"], str):
                    type_ = t.parse_type(field["type"])
                    for key in {"initial-default", "write-default"} & field.keys():
                        assert to_json(type_, from_json(type_, field[key])) == field[key]
                        seen.add(type_.kind)
    assert seen >= {
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "decimal",
        "date",
        "timestamp",
        "timestamptz",
        "string",
    }
