"""Single values as bytes (Appendix D): every row of its tables, promoted types, hostile bytes, PyIceberg's results."""

import json
import math
import struct
from decimal import Decimal
from uuid import UUID

import fastavro
import pytest
from hypothesis import given, strategies as st
from pyiceberg import conversions as pyiceberg_conversions, types as pyiceberg_types

from floe.errors import CorruptFile, InvalidValue
from floe.spec import types as t
from floe.spec.codecs.single_value import (
    GeoPoint,
    decode,
    decode_bound,
    decode_geo_bound,
    decode_many,
    encode,
    encode_bound,
    encode_geo_bound,
    split_variant,
)
from floe.spec.schemas.schema_json import schema_from_json
from floe.spec.types import DecimalType, Field, FixedType, GeographyType, GeometryType, ListType, MapType, StructType
from floe.spec.values.value_order import compare
from helpers.value_strategies import PRIMITIVES, decimals, primitive_types, typed_values


def same(one, other):
    """Equal, also for NaN and for the sign of zero."""
    if isinstance(one, float) and isinstance(other, float):
        return struct.pack("<d", one) == struct.pack("<d", other) or (math.isnan(one) and math.isnan(other))
    return one == other and type(one) is type(other)


def both_ways(type_, value, hexadecimal):
    assert encode(type_, value).hex() == hexadecimal
    assert same(decode(type_, bytes.fromhex(hexadecimal)), value)


# The rows of the table, with bytes worked out by hand.


def test_boolean_is_one_byte():
    both_ways(t.BOOLEAN, False, "00")
    both_ways(t.BOOLEAN, True, "01")


def test_boolean_reads_any_byte_but_zero_as_true():
    assert all(decode(t.BOOLEAN, bytes([n])) is True for n in range(1, 256))


def test_int_is_4_bytes_little_endian():
    both_ways(t.INT, 34, "22000000")
    both_ways(t.INT, -1, "ffffffff")
    both_ways(t.INT, -(2**31), "00000080")


def test_long_is_8_bytes_little_endian():
    both_ways(t.LONG, 34, "2200000000000000")
    both_ways(t.LONG, 2**63 - 1, "ffffffffffffff7f")


def test_float_is_4_bytes_little_endian():
    both_ways(t.FLOAT, -4.5, "000090c0")
    both_ways(t.FLOAT, -0.0, "00000080")
    both_ways(t.FLOAT, math.inf, "0000807f")
    assert math.isnan(decode(t.FLOAT, bytes.fromhex("0000c07f")))


def test_double_is_8_bytes_little_endian():
    both_ways(t.DOUBLE, 6.0, "0000000000001840")
    both_ways(t.DOUBLE, -0.0, "0000000000000080")
    assert math.isnan(decode(t.DOUBLE, bytes.fromhex("000000000000f87f")))


def test_date_is_days_in_4_bytes():
    both_ways(t.DATE, 17486, "4e440000")
    both_ways(t.DATE, -1, "ffffffff")


def test_time_is_microseconds_in_8_bytes():
    both_ways(t.TIME, 0, "0000000000000000")
    both_ways(t.TIME, 86_399_999_999, "ff5fd71d14000000")


def test_timestamp_is_microseconds_in_8_bytes():
    both_ways(t.TIMESTAMP, 1, "0100000000000000")
    both_ways(t.TIMESTAMP, -1, "ffffffffffffffff")


def test_timestamptz_is_microseconds_in_8_bytes():
    both_ways(t.TIMESTAMPTZ, 1, "0100000000000000")


def test_timestamp_ns_is_nanoseconds_in_8_bytes():
    both_ways(t.TIMESTAMP_NS, 1000, "e803000000000000")


def test_timestamptz_ns_is_nanoseconds_in_8_bytes():
    both_ways(t.TIMESTAMPTZ_NS, -1000, "18fcffffffffffff")


def test_string_is_utf8_without_length():
    both_ways(t.STRING, "", "")
    both_ways(t.STRING, "iceberg", "69636562657267")
    both_ways(t.STRING, "é€\U0001f9ca", "c3a9e282acf09fa78a")


def test_uuid_is_16_bytes_big_endian():
    both_ways(t.UUID, UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), "f79c3e09677c4bbda4793f349cb785e7")


def test_fixed_is_its_bytes():
    both_ways(FixedType(3), b"\x01\x02\x03", "010203")
    both_ways(FixedType(0), b"", "")


def test_binary_is_its_bytes():
    both_ways(t.BINARY, b"\x00\xff", "00ff")


@pytest.mark.parametrize(
    ("text", "hexadecimal"),
    [
        ("14.20", "058c"),
        ("0.00", "00"),
        ("1.27", "7f"),
        ("1.28", "0080"),
        ("-1.28", "80"),
        ("-1.29", "ff7f"),
        ("-0.01", "ff"),
        ("9999999.99", "3b9ac9ff"),
    ],
)
def test_decimal_is_the_least_bytes_of_its_unscaled_value_big_endian(text, hexadecimal):
    both_ways(DecimalType(9, 2), Decimal(text), hexadecimal)


def test_decimal_of_38_digits():
    # 10**38 - 1 is 0x4b3b4ca85a86c47a098a223fffffffff
    both_ways(DecimalType(38, 0), Decimal("9" * 38), "4b3b4ca85a86c47a098a223fffffffff")


def test_geometry_is_wkb():
    point_30_10 = "01010000000000000000003e400000000000002440"
    both_ways(GeometryType(), bytes.fromhex(point_30_10), point_30_10)


def test_geography_is_wkb():
    both_ways(GeographyType(), b"\x01", "01")


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (StructType((Field(1, "a", t.INT),)), {"a": 1}),
        (ListType(1, t.INT), [1]),
        (MapType(1, t.INT, 2, t.INT), {1: 1}),
        (t.VARIANT, b"\x01"),
        (t.UNKNOWN, 1),
    ],
    ids=["struct", "list", "map", "variant", "unknown"],
)
def test_types_without_a_binary_form(type_, value):
    with pytest.raises(InvalidValue, match="no binary form"):
        encode(type_, value)


@pytest.mark.parametrize("type_", [StructType(), ListType(1, t.INT), MapType(1, t.INT, 2, t.INT), t.VARIANT], ids=str)
def test_types_without_a_binary_form_are_not_decoded(type_):
    with pytest.raises(InvalidValue, match="no binary form"):
        decode(type_, b"\x01")


def test_unknown_reads_as_null():
    assert decode(t.UNKNOWN, b"whatever") is None


# Promotion (spec, Schema Evolution): the length of the bytes tells the type they were written in.


def test_long_of_4_bytes_was_an_int():
    assert decode(t.LONG, encode(t.INT, -5)) == -5


def test_double_of_4_bytes_was_a_float():
    assert decode(t.DOUBLE, encode(t.FLOAT, 0.10000000149011612)) == 0.10000000149011612


def test_timestamp_of_4_bytes_was_a_date():
    assert decode(t.TIMESTAMP, encode(t.DATE, 17486)) == 17486 * 86_400_000_000
    assert decode(t.TIMESTAMP, encode(t.DATE, -1)) == -86_400_000_000


def test_timestamp_ns_of_4_bytes_was_a_date():
    assert decode(t.TIMESTAMP_NS, encode(t.DATE, 17486)) == 17486 * 86_400_000_000_000
    assert decode(t.TIMESTAMP_NS, encode(t.DATE, 106_751)) == 106_751 * 86_400_000_000_000


def test_a_date_out_of_range_of_timestamp_fails():
    assert decode(t.TIMESTAMP, encode(t.DATE, 106_751_991)) == 106_751_991 * 86_400_000_000
    for days in (106_751_992, -106_751_993, 2**31 - 1):
        with pytest.raises(CorruptFile, match="of a promoted column does not fit type timestamp"):
            decode(t.TIMESTAMP, encode(t.DATE, days))


def test_a_date_out_of_range_of_timestamp_ns_fails():
    with pytest.raises(CorruptFile, match="2262-04-12 of a promoted column does not fit type timestamp_ns"):
        decode(t.TIMESTAMP_NS, encode(t.DATE, 106_752))


def test_no_date_was_promoted_to_a_timestamp_with_zone():
    for type_ in (t.TIMESTAMPTZ, t.TIMESTAMPTZ_NS):
        with pytest.raises(CorruptFile, match="8 bytes, found 4"):
            decode(type_, encode(t.DATE, 1))


@given(decimals(DecimalType(9, 2)))
def test_decimal_of_any_length_was_narrower(value):
    assert decode(DecimalType(38, 2), encode(DecimalType(9, 2), value)) == value


def test_decimal_with_more_bytes_than_it_needs():
    assert decode(DecimalType(9, 2), bytes(14) + bytes.fromhex("058c")) == Decimal("14.20")
    assert decode(DecimalType(9, 2), b"\xff" * 16) == Decimal("-0.01")


# Hostile bytes.

LENGTHS = {
    t.BOOLEAN: {1},
    t.INT: {4},
    t.LONG: {4, 8},
    t.FLOAT: {4},
    t.DOUBLE: {4, 8},
    t.DATE: {4},
    t.TIME: {8},
    t.TIMESTAMP: {4, 8},
    t.TIMESTAMPTZ: {8},
    t.TIMESTAMP_NS: {4, 8},
    t.TIMESTAMPTZ_NS: {8},
    t.UUID: {16},
    FixedType(5): {5},
}


@pytest.mark.parametrize(("type_", "lengths"), LENGTHS.items(), ids=str)
def test_impossible_lengths(type_, lengths):
    for length in set(range(40)) - lengths:
        with pytest.raises(CorruptFile, match=f"found {length}$"):
            decode(type_, bytes(length))
    for length in lengths:
        decode(type_, bytes(length))


@pytest.mark.parametrize("data", [b"", bytes(33), bytes(10**6)])
def test_impossible_lengths_of_decimals(data):
    with pytest.raises(CorruptFile, match="1 to 32 bytes"):
        decode(DecimalType(9, 2), data)


def test_decimal_with_too_many_digits():
    with pytest.raises(CorruptFile, match="at most 3 digits, found 1000"):
        decode(DecimalType(3, 0), bytes.fromhex("03e8"))


def test_time_beyond_a_day():
    for value in (-1, 86_400_000_000):
        with pytest.raises(CorruptFile, match="within a day"):
            decode(t.TIME, struct.pack("<q", value))


@pytest.mark.parametrize("data", [b"\xff", b"ab\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"])
def test_string_that_is_not_utf8(data):
    with pytest.raises(CorruptFile, match="not UTF-8"):
        decode(t.STRING, data)


@given(st.sampled_from([*PRIMITIVES, GeometryType(), t.UNKNOWN]), st.binary(max_size=40))
def test_any_bytes_are_a_value_or_corrupt(type_, data):
    try:
        value = decode(type_, data)
    except CorruptFile:
        return
    if type_ is not t.UNKNOWN:
        assert same(decode(type_, encode(type_, value)), value)


def test_bytes_may_come_as_a_view():
    data = memoryview(bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7"))
    assert decode(t.UUID, data) == UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    assert decode(t.STRING, memoryview(b"abc")) == "abc"
    assert decode(t.BINARY, memoryview(b"abc")) == b"abc"
    assert decode(t.BOOLEAN, memoryview(b"\x00")) is False
    assert decode(t.LONG, memoryview(bytes(8))) == 0


@pytest.mark.parametrize(
    ("type_", "value"),
    [(t.INT, 2**31), (t.INT, True), (t.LONG, 1.0), (t.FLOAT, 0.1), (t.STRING, "\ud800"), (FixedType(2), b"abc"),
     (DecimalType(9, 2), Decimal("1.5")),
     (t.UUID, "f79c3e09-677c-4bbd-a479-3f349cb785e7"), (t.TIME, -1), (t.LONG, None)],
)  # fmt: skip
def test_only_values_of_the_type_are_encoded(type_, value):
    with pytest.raises(InvalidValue):
        encode(type_, value)


@given(typed_values(primitive_types()))
def test_round_trip(typed):
    type_, value = typed
    assert same(decode(type_, encode(type_, value)), value)


@given(primitive_types().flatmap(lambda x: st.tuples(st.just(x), st.lists(st.none() | typed_values(st.just(x))))))
def test_many_at_once(typed):
    type_, pairs = typed
    values = [None if pair is None else pair[1] for pair in pairs]
    data = [None if value is None else encode(type_, value) for value in values]
    found = decode_many(type_, data)
    assert len(found) == len(values)
    assert all(same(one, other) for one, other in zip(found, values, strict=True))


BYTE_ORDERED = [t.BOOLEAN, t.STRING, t.UUID, t.BINARY, FixedType(3)]


@given(st.sampled_from(BYTE_ORDERED).flatmap(lambda x: st.tuples(typed_values(st.just(x)), typed_values(st.just(x)))))
def test_the_order_of_bytes_is_the_order_of_values_for_strings_uuids_and_bytes(pairs):
    (type_, one), (_, other) = pairs
    first, second = encode(type_, one), encode(type_, other)
    assert compare(type_, one, other) == (first > second) - (first < second)


# Bounds of geometries and geographies.


@pytest.mark.parametrize(
    ("point", "numbers"),
    [
        (GeoPoint(30.0, 10.0), [30.0, 10.0]),
        (GeoPoint(30.0, 10.0, 5.0), [30.0, 10.0, 5.0]),
        (GeoPoint(30.0, 10.0, 5.0, 7.0), [30.0, 10.0, 5.0, 7.0]),
        (GeoPoint(30.0, 10.0, None, 7.0), [30.0, 10.0, math.nan, 7.0]),
    ],
    ids=["xy", "xyz", "xyzm", "xym"],
)
def test_geo_bound_is_a_point_of_little_endian_doubles(point, numbers):
    data = struct.pack(f"<{len(numbers)}d", *numbers)
    assert encode_geo_bound(point) == data
    assert decode_geo_bound(data) == point


def test_geo_bound_without_x_or_y_is_no_box():
    for x, y in [(math.nan, 1.0), (1.0, math.nan)]:
        assert decode_geo_bound(struct.pack("<dd", x, y)) is None
        with pytest.raises(InvalidValue, match="both x and y"):
            encode_geo_bound(GeoPoint(x, y))


def test_geography_bound_may_cross_the_antimeridian():
    lower, upper = GeoPoint(170.0, -20.0), GeoPoint(-170.0, -10.0)  # xmin > xmax is no error
    assert decode_geo_bound(encode_geo_bound(lower)).x > decode_geo_bound(encode_geo_bound(upper)).x


@pytest.mark.parametrize("length", [0, 8, 15, 17, 21, 33, 40])
def test_geo_bound_of_impossible_length(length):
    with pytest.raises(CorruptFile, match="16, 24 or 32 bytes"):
        decode_geo_bound(bytes(length))


def test_geometry_and_geography_bounds_are_points():
    for type_ in (GeometryType(), GeographyType()):
        data = encode_bound(type_, GeoPoint(30.0, 10.0))
        assert data.hex() == "0000000000003e400000000000002440"
        assert decode_bound(type_, data) == GeoPoint(30.0, 10.0)


@given(typed_values(primitive_types()))
def test_bounds_of_other_types_are_their_values(typed):
    type_, value = typed
    assert encode_bound(type_, value) == encode(type_, value)
    assert same(decode_bound(type_, encode(type_, value)), value)


# Variants, by the rules of Parquet's variant encoding: a header byte (version, sorted, width of offsets), the number of
# names, their offsets, the names; then the value. An object has a header, a count, field ids, offsets and values.

NAMES = b"\x11" + bytes([1, 0, 6]) + b"$['a']"
OBJECT = b"\x02" + bytes([1, 0, 0, 2]) + b"\x0c\x22"  # the field of id 0 is the int8 34
WIDE_NAMES = b"\x51" + struct.pack("<HHH", 1, 0, 6) + b"$['a']"


@pytest.mark.parametrize("metadata", [NAMES, WIDE_NAMES])
def test_variant_bound_is_metadata_and_an_object(metadata):
    assert encode_bound(t.VARIANT, metadata + OBJECT) == metadata + OBJECT
    assert decode_bound(t.VARIANT, metadata + OBJECT) == metadata + OBJECT
    assert split_variant(metadata + OBJECT) == (metadata, OBJECT)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b"\x02\x00\x00\x02", "version 1, found 2"),
        (b"\x01", "ends too early"),
        (b"\xc1\xff\xff\xff\xff\x00", "claims 4294967295 names"),
        (NAMES, "before its value"),
        (b"\x01\x01\x00\xff\x61", "before its value"),
        (NAMES + b"\x0c\x22", "an object, found a primitive value"),
        (NAMES + b"\x05a", "an object, found a short string"),
        (NAMES + b"\x03\x00\x00", "an object, found an array"),
    ],
)
def test_variant_bound_of_another_layout(data, why):
    with pytest.raises(CorruptFile, match=why):
        decode_bound(t.VARIANT, data)


# Java as a second opinion: every bound in the manifests of the corpus.


def test_bounds_written_by_java_are_read_and_written_alike(corpus_dir):
    kinds = set()
    paths = [path for path in corpus_dir.glob("*/metadata/*-m*.avro") if "invalid_" not in str(path)]
    for path in paths:
        with path.open("rb") as file:
            manifest = fastavro.reader(file)
            if manifest.codec not in ("null", "deflate"):  # fastavro needs more libraries for the others
                continue
            schema = schema_from_json(json.loads(manifest.metadata["schema"]))
            entries = list(manifest)
        for entry in entries:
            bounds = (entry["data_file"]["lower_bounds"] or []) + (entry["data_file"]["upper_bounds"] or [])
            for bound in bounds:
                if bound["key"] in schema.by_id:
                    type_ = schema.by_id[bound["key"]].field.type
                    assert encode_bound(type_, decode_bound(type_, bound["value"])) == bound["value"], (path, type_)
                    kinds.add(type_.kind)
    assert kinds == set(PYICEBERG) | {"decimal", "fixed", "variant"}


# PyIceberg as a second opinion.

PYICEBERG = {
    "boolean": pyiceberg_types.BooleanType,
    "int": pyiceberg_types.IntegerType,
    "long": pyiceberg_types.LongType,
    "float": pyiceberg_types.FloatType,
    "double": pyiceberg_types.DoubleType,
    "date": pyiceberg_types.DateType,
    "time": pyiceberg_types.TimeType,
    "timestamp": pyiceberg_types.TimestampType,
    "timestamptz": pyiceberg_types.TimestamptzType,
    "timestamp_ns": pyiceberg_types.TimestampNanoType,
    "timestamptz_ns": pyiceberg_types.TimestamptzNanoType,
    "string": pyiceberg_types.StringType,
    "uuid": pyiceberg_types.UUIDType,
    "binary": pyiceberg_types.BinaryType,
}


def to_pyiceberg(type_):
    if isinstance(type_, DecimalType):
        return pyiceberg_types.DecimalType(type_.precision, type_.scale)
    if isinstance(type_, FixedType):
        return pyiceberg_types.FixedType(type_.length)
    return PYICEBERG[type_.kind]()


@given(typed_values(primitive_types()))
def test_pyiceberg_gives_the_same_bytes(typed):
    type_, value = typed
    assert encode(type_, value) == pyiceberg_conversions.to_bytes(to_pyiceberg(type_), value)


@given(typed_values(primitive_types()))
def test_pyiceberg_reads_the_same_values(typed):
    type_, value = typed
    theirs = pyiceberg_conversions.from_bytes(to_pyiceberg(type_), encode(type_, value))
    if type_ == t.UUID:
        theirs = UUID(bytes=theirs)  # PyIceberg leaves UUIDs as bytes
    assert same(theirs, value)


def test_pyiceberg_cannot_read_the_bounds_of_a_date_promoted_to_timestamp():
    data = encode(t.DATE, 17486)
    with pytest.raises(struct.error):
        pyiceberg_conversions.from_bytes(pyiceberg_types.TimestampType(), data)
    assert decode(t.TIMESTAMP, data) == 17486 * 86_400_000_000


def test_pyiceberg_takes_values_that_are_not_of_the_type():
    # a fixed of the wrong length, and a negative scale taken for a positive one
    assert pyiceberg_conversions.to_bytes(pyiceberg_types.FixedType(2), b"abc") == b"abc"
    assert pyiceberg_conversions.to_bytes(pyiceberg_types.DecimalType(9, 2), Decimal("1E+2")) == b"\x01"
    for type_, value in [(FixedType(2), b"abc"), (DecimalType(9, 2), Decimal("1E+2"))]:
        with pytest.raises(InvalidValue):
            encode(type_, value)


@pytest.mark.parametrize("bound", [(1.0, 2.0), b"", None])
def test_a_geospatial_bound_is_made_of_a_point(bound):
    with pytest.raises(InvalidValue, match="needs a GeoPoint"):
        encode_bound(GeometryType(), bound)
