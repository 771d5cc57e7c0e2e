"""Values: their form for each type, what people may write for them, and their text."""

import enum
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidValue
from floe.spec import types as t
from floe.spec.codecs.single_value_json import from_json, to_json
from floe.spec.codecs.wkt import wkt_to_wkb
from floe.spec.types import DecimalType, Field, FixedType, GeometryType, ListType, MapType, StructType
from floe.spec.values import check, convert, make_map, map_items, parse_text, to_text
from floe.spec.values.value_checks import short_repr
from helpers.value_strategies import all_types, primitive_types, typed_values

DEC = DecimalType(9, 2)
POINT = StructType((Field(1, "x", t.INT, required=True), Field(2, "day", t.DATE)))
UUID_TEXT = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
MICROS = 1_510_871_468_123_456  # 2017-11-16T22:31:08.123456
BERLIN_LIKE = timezone(timedelta(hours=1))


def name(parameter):
    """A short name for a test's parameter, the same in every run."""
    return type(parameter).__name__ if isinstance(parameter, memoryview) else short_repr(parameter)[:40]


# The form of a value of each type.

RIGHT = [
    (t.BOOLEAN, True),
    (t.INT, -(2**31)),
    (t.INT, 2**31 - 1),
    (t.LONG, -(2**63)),
    (t.LONG, 2**63 - 1),
    (t.FLOAT, 0.5),
    (t.FLOAT, math.nan),
    (t.FLOAT, -math.inf),
    (t.DOUBLE, 0.1),
    (t.DOUBLE, math.nan),
    (DEC, Decimal("9999999.99")),
    (DEC, Decimal("-0.01")),
    (t.DATE, -(2**31)),
    (t.TIME, 0),
    (t.TIME, 86_399_999_999),
    (t.TIMESTAMP, -(2**63)),
    (t.TIMESTAMPTZ, 2**63 - 1),
    (t.TIMESTAMP_NS, -1),
    (t.TIMESTAMPTZ_NS, 0),
    (t.STRING, "é\U0001f9ca\x00"),
    (t.UUID, UUID(UUID_TEXT)),
    (FixedType(2), b"ab"),
    (t.BINARY, b""),
    (GeometryType(), b"\x01"),
    (t.VARIANT, b"\x01\x00"),
    (POINT, {"x": 1, "day": None}),
    (POINT, {}),
    (ListType(1, t.INT), [1, None]),
    (MapType(1, t.STRING, 2, t.INT), {"a": 1, "b": None}),
    (MapType(1, POINT, 2, t.INT), [({"x": 1}, 1)]),
]
WRONG = [
    (t.BOOLEAN, 1, "it is a int"),
    (t.INT, True, "it is a bool"),
    (t.INT, 1.0, "it is a float"),
    (t.INT, 2**31, "out of range"),
    (t.INT, -(2**31) - 1, "out of range"),
    (t.LONG, 2**63, "out of range"),
    (t.LONG, 10**5000, "a number of 16610 bits.*out of range"),
    (t.FLOAT, 0.1, "32-bit float does not hold it"),
    (t.FLOAT, 1e300, "32-bit float does not hold it"),
    (t.DOUBLE, 1, "it is a int"),
    (DEC, Decimal("1.5"), "scale 2"),
    (DEC, Decimal("1E+2"), "scale 2"),
    (DEC, Decimal("NaN"), "always finite"),
    (DEC, Decimal("10000000.00"), "more than 9 digits"),
    (DEC, 1, "it is a int"),
    (t.DATE, 2**31, "out of range"),
    (t.DATE, date(2017, 11, 16), "it is a date"),
    (t.TIME, -1, "out of range"),
    (t.TIME, 86_400_000_000, "out of range"),
    (t.TIMESTAMP, 2**63, "out of range"),
    (t.STRING, b"a", "it is a bytes"),
    (t.STRING, "\ud800", "surrogate"),
    (t.UUID, UUID_TEXT, "it is a str"),
    (FixedType(2), b"abc", "3 bytes"),
    (t.BINARY, "00", "it is a str"),
    (t.UNKNOWN, 0, "not null"),
    (POINT, {"y": 1}, "no field 'y'"),
    (POINT, [1], "it is a list"),
    (POINT, {"x": None}, "required"),
    (POINT, {"x": "1"}, r"at: \.x"),
    (ListType(1, t.INT), (1,), "it is a tuple"),
    (ListType(1, t.INT, element_required=True), [1, None], r"required.*at: \[1\]"),
    (ListType(1, POINT), [{"x": 1}, {"x": 2**31}], r"at: \[1\]\.x"),
    (MapType(1, t.STRING, 2, t.INT), [("a", 1)], "it is a list"),
    (MapType(1, t.STRING, 2, t.INT), {"a": "b"}, r"at: \.values\[0\]"),
    (MapType(1, POINT, 2, t.INT), {}, "pairs"),
    (MapType(1, POINT, 2, t.INT), [1], "pairs"),
]


@pytest.mark.parametrize(("type_", "value"), RIGHT, ids=name)
def test_values_of_the_right_form(type_, value):
    check(type_, value)


@pytest.mark.parametrize(("type_", "value", "why"), WRONG, ids=name)
def test_values_of_a_wrong_form(type_, value, why):
    with pytest.raises(InvalidValue, match=why) as caught:
        check(type_, value)
    assert len(str(caught.value)) < 500


@given(all_types())
def test_null_is_a_value_of_every_type(type_):
    check(type_, None)
    assert convert(type_, None) is None
    assert to_text(type_, None) == "null"


def test_an_error_says_type_value_and_what_is_accepted():
    with pytest.raises(InvalidValue) as caught:
        convert(t.DATE, "16.11.2017")
    assert str(caught.value) == (
        "'16.11.2017' is not a value of type date: '16.11.2017' is not an ISO date; "
        "a date is written as a datetime.date, text such as '2017-11-16', or days from 1970-01-01"
    )


# What people write.

WRITTEN = [
    (t.BOOLEAN, np.True_, True),
    (t.INT, np.int64(3), 3),
    (t.INT, 3.0, 3),
    (t.INT, Decimal("3.00"), 3),
    (t.INT, enum.IntEnum("Level", {"high": 7}).high, 7),
    (t.LONG, 2**53 + 1, 2**53 + 1),
    (t.LONG, Decimal("9223372036854775807"), 2**63 - 1),
    (t.DOUBLE, 1, 1.0),
    (t.DOUBLE, 2**100, 2.0**100),
    (t.DOUBLE, Decimal("0.1"), 0.1),
    (t.DOUBLE, np.float64(0.1), 0.1),
    (t.DOUBLE, np.float32(0.1), 0.10000000149011612),
    (t.FLOAT, 0.1, 0.10000000149011612),
    (t.FLOAT, Decimal("0.1"), 0.10000000149011612),
    (t.FLOAT, np.float32(0.1), 0.10000000149011612),
    (t.FLOAT, 16_777_216, 16_777_216.0),
    (t.FLOAT, math.inf, math.inf),
    (DEC, 14, Decimal("14.00")),
    (DEC, 14.2, Decimal("14.20")),
    (DEC, "14.2", Decimal("14.20")),
    (DEC, "+1.42e1", Decimal("14.20")),
    (DEC, "-.5", Decimal("-0.50")),
    (DEC, Decimal("14.2000"), Decimal("14.20")),
    (DEC, Decimal("-0"), Decimal("0.00")),
    (t.DATE, 17486, 17486),
    (t.DATE, date(2017, 11, 16), 17486),
    (t.DATE, datetime(2017, 11, 16), 17486),
    (t.DATE, "2017-11-16", 17486),
    (t.DATE, "+10000-01-01", 2_932_897),
    (t.DATE, "-0001-12-31", -719_529),
    (t.DATE, np.datetime64("2017-11-16"), 17486),
    (t.DATE, np.datetime64("2017-11"), 17471),
    (t.DATE, np.datetime64("1969"), -365),
    (t.DATE, np.datetime64("2017-11-16T00:00:00.000000000"), 17486),
    (t.TIME, time(22, 31, 8, 123456), 81_068_123_456),
    (t.TIME, "22:31:08.123456", 81_068_123_456),
    (t.TIME, "22:31", 81_060_000_000),
    (t.TIMESTAMP, datetime(2017, 11, 16, 22, 31, 8, 123456), MICROS),
    (t.TIMESTAMP, "2017-11-16T22:31:08.123456", MICROS),
    (t.TIMESTAMP, "2017-11-16 22:31:08.123456000", MICROS),
    (t.TIMESTAMP, "2017-11-16", 17486 * 86_400_000_000),
    (t.TIMESTAMP, date(2017, 11, 16), 17486 * 86_400_000_000),
    (t.TIMESTAMP, "-0001-12-31T00:00:00", -719_529 * 86_400_000_000),
    (t.TIMESTAMP, np.datetime64("2017-11-16T22:31:08.123456000"), MICROS),
    (t.TIMESTAMP, np.datetime64("2017-11-16T22:31"), MICROS - 8_123_456),
    (t.TIMESTAMP, pd.Timestamp("2017-11-16T22:31:08.123456"), MICROS),
    (t.TIMESTAMP, MICROS, MICROS),
    (t.TIMESTAMPTZ, datetime(2017, 11, 16, 22, 31, 8, 123456, tzinfo=UTC), MICROS),
    (t.TIMESTAMPTZ, datetime(2017, 11, 16, 23, 31, 8, 123456, tzinfo=BERLIN_LIKE), MICROS),
    (t.TIMESTAMPTZ, "2017-11-16T22:31:08.123456Z", MICROS),
    (t.TIMESTAMPTZ, "2017-11-16 14:31:08.123456-08:00", MICROS),
    (t.TIMESTAMPTZ, "+10000-01-01T00:00:00+00:00", 2_932_897 * 86_400_000_000),
    (t.TIMESTAMPTZ, pd.Timestamp("2017-11-16T22:31:08.123456", tz="UTC"), MICROS),
    (t.TIMESTAMP_NS, "2017-11-16T22:31:08.123456789", MICROS * 1000 + 789),
    (t.TIMESTAMP_NS, datetime(2017, 11, 16, 22, 31, 8, 123456), MICROS * 1000),
    (t.TIMESTAMP_NS, pd.Timestamp("2017-11-16T22:31:08.123456789"), MICROS * 1000 + 789),
    (t.TIMESTAMP_NS, np.datetime64("2017-11-16T22:31:08.123456789"), MICROS * 1000 + 789),
    (t.TIMESTAMPTZ_NS, "2017-11-16T22:31:08.123456789+00:00", MICROS * 1000 + 789),
    (t.STRING, np.str_("a"), "a"),
    (t.STRING, enum.StrEnum("Level", {"high": "HIGH"}).high, "HIGH"),
    (t.UUID, UUID(UUID_TEXT), UUID(UUID_TEXT)),
    (t.UUID, UUID_TEXT.upper(), UUID(UUID_TEXT)),
    (t.UUID, UUID_TEXT.replace("-", ""), UUID(UUID_TEXT)),
    (t.UUID, UUID(UUID_TEXT).bytes, UUID(UUID_TEXT)),
    (t.BINARY, bytearray(b"ab"), b"ab"),
    (t.BINARY, memoryview(b"ab"), b"ab"),
    (t.BINARY, "00fF", b"\x00\xff"),
    (FixedType(2), "00ff", b"\x00\xff"),
    (GeometryType(), "POINT (30 10)", wkt_to_wkb("POINT (30 10)")),
    (GeometryType(), b"\x01", b"\x01"),
    (t.VARIANT, bytearray(b"\x01"), b"\x01"),
    (POINT, {"x": 1.0, "day": "2017-11-16"}, {"x": 1, "day": 17486}),
    (POINT, {"x": 1}, {"x": 1}),
    (ListType(1, t.DATE), ("2017-11-16", None), [17486, None]),
    (ListType(1, t.INT), np.array([1, 2]), [1, 2]),
    (ListType(1, t.TIMESTAMP), np.array(["1970-01-01T00:00:00.000001"], "datetime64[ns]"), [1]),
    (MapType(1, t.DATE, 2, t.INT), {"2017-11-16": 1.0}, {17486: 1}),
    (MapType(1, t.DATE, 2, t.INT), [["2017-11-16", 1]], {17486: 1}),
    (MapType(1, POINT, 2, t.INT), [({"x": 1}, 1)], [({"x": 1}, 1)]),
]


@pytest.mark.parametrize(("type_", "written", "value"), WRITTEN, ids=name)
def test_what_people_write(type_, written, value):
    found = convert(type_, written)
    assert found == value
    assert type(found) is type(value)
    assert str(found) == str(value)
    check(type_, found)


REFUSED = [
    (t.BOOLEAN, 1, "it is a int"),
    (t.BOOLEAN, "true", "it is a str"),
    (t.INT, 3.5, "not a whole number"),
    (t.INT, math.nan, "not a whole number"),
    (t.INT, math.inf, "not a whole number"),
    (t.INT, Decimal("3.5"), "not a whole number"),
    (t.INT, "3", "it is a str"),
    (t.INT, True, "it is a bool"),
    (t.INT, 2**31, "out of range"),
    (t.INT, 1e300, "out of range"),
    (t.LONG, Decimal("1E+999999"), "too large"),
    (t.DOUBLE, 2**53 + 1, "rounded"),
    (t.DOUBLE, 10**400, "rounded"),
    (t.DOUBLE, Decimal("0.10000000000000001"), "rounded"),
    (t.DOUBLE, "0.1", "it is a str"),
    (t.FLOAT, 0.123456789012, "rounded"),
    (t.FLOAT, 16_777_217, "rounded"),
    (t.FLOAT, 1e300, "rounded"),
    (DEC, 14.205, "more than 2 digits"),
    (DEC, Decimal("NaN"), "always finite"),
    (DEC, math.inf, "always finite"),
    (DEC, "10000000", "more than 7 digits before the point"),
    (DEC, "1e999999999", "more than 7 digits before the point"),
    (DEC, "1_000", "not the text of a number"),
    (DEC, "NaN", "not the text of a number"),
    (DEC, True, "it is a bool"),
    (t.DATE, datetime(2017, 11, 16, 1), "not midnight"),
    (t.DATE, datetime(2017, 11, 16, tzinfo=UTC), "zone"),
    (t.DATE, "2017-11-31", "valid date"),
    (t.DATE, "2017-11-16T00:00:00", "not an ISO date"),
    (t.DATE, np.datetime64("2017-11-16T01"), "not midnight"),
    (t.DATE, np.datetime64("NaT", "D"), "NaT"),
    (t.DATE, 1.0, "it is a float"),
    (t.DATE, "9999999-01-01", "out of range"),
    (t.TIME, time(1, tzinfo=UTC), "no zone"),
    (t.TIME, timedelta(hours=1), "it is a timedelta"),
    (t.TIME, "24:00:00", "valid time"),
    (t.TIMESTAMP, datetime(2017, 11, 16, tzinfo=UTC), "it has a zone"),
    (t.TIMESTAMP, "2017-11-16T22:31:08+00:00", "it has a zone"),
    (t.TIMESTAMP, "2017-11-16T22:31:08.1234567", "finer than microseconds"),
    (t.TIMESTAMP, pd.Timestamp("2017-11-16T22:31:08.123456789"), "finer than microseconds"),
    (t.TIMESTAMP, np.datetime64("2017-11-16T22:31:08.123456789"), "finer than microseconds"),
    (t.TIMESTAMP, pd.NaT, "NaT"),
    (t.TIMESTAMP, "+999999-01-01T00:00:00", "out of range"),
    (t.TIMESTAMPTZ, datetime(2017, 11, 16), r"no zone.*with a zone"),
    (t.TIMESTAMPTZ, "2017-11-16T22:31:08", "no zone"),
    (t.TIMESTAMPTZ, "2017-11-16", "no zone"),
    (t.TIMESTAMPTZ, date(2017, 11, 16), "no zone"),
    (t.TIMESTAMPTZ, np.datetime64("2017-11-16"), "no zone"),
    (t.TIMESTAMP_NS, datetime(3000, 1, 1), "out of range"),
    (t.TIMESTAMP_NS, np.datetime64("2017-11-16T22:31:08.123456789123"), "finer than nanoseconds"),
    (t.STRING, 1, "it is a int"),
    (t.STRING, "\ud800", "surrogate"),
    (t.UUID, "f79c3e09", "not the text of a UUID"),
    (t.UUID, "f79c3e09-677c4bbda4793f349cb785e7", "not the text of a UUID"),
    (t.UUID, b"abc", "3 bytes"),
    (t.BINARY, "0g", "hexadecimal"),
    (t.BINARY, 1, "it is a int"),
    (FixedType(2), b"abc", "3 bytes"),
    (GeometryType(), "POINT (30)", "2 coordinates"),
    (t.VARIANT, "00", "it is a str"),
    (t.UNKNOWN, 1, "not null"),
    (POINT, {"day": "2017-11-16"}, "required field 'x' is missing"),
    (POINT, {"x": 1, "z": 1}, "no field 'z'"),
    (POINT, "x", "it is a str"),
    (ListType(1, t.INT), {1}, "it is a set"),
    (ListType(1, t.INT), "12", "it is a str"),
    (MapType(1, t.DATE, 2, t.INT), {"2017-11-16": 1, 17486: 2}, "twice"),
    (MapType(1, t.DATE, 2, t.INT), {None: 1}, r"required.*at: \.keys\[0\]"),
    (MapType(1, t.DATE, 2, t.INT), ["ab"], "it is a list"),
]


@pytest.mark.parametrize(("type_", "written", "why"), REFUSED, ids=name)
def test_what_is_not_exactly_a_value_is_refused(type_, written, why):
    with pytest.raises(InvalidValue, match=why):
        convert(type_, written)


def test_a_required_child_with_a_default_may_be_missing():
    type_ = StructType((Field(1, "x", t.INT, required=True, initial_default=7, write_default=7),))
    assert convert(type_, {}) == {}


@given(typed_values(all_types()))
def test_values_are_values_and_convert_to_themselves(typed):
    type_, value = typed
    check(type_, value)
    if not isinstance(type_, StructType | ListType | MapType):
        assert repr(convert(type_, value)) == repr(value)


@given(st.datetimes(timezones=st.timezones()))
def test_aware_datetimes_become_utc(moment):
    micros = convert(t.TIMESTAMPTZ, moment)
    utc_clock = moment.replace(tzinfo=None) - datetime(1970, 1, 1)
    assert micros == utc_clock // timedelta(microseconds=1) - moment.utcoffset() // timedelta(microseconds=1)
    assert convert(t.TIMESTAMPTZ, moment.isoformat()) == micros


@given(st.datetimes())
def test_naive_datetimes_keep_their_clock(moment):
    micros = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    assert convert(t.TIMESTAMP, moment) == micros
    assert convert(t.TIMESTAMP, np.datetime64(moment)) == micros


@given(st.integers(-(2**62), 2**62), st.sampled_from(["W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "25s"]))
def test_numpy_datetimes_of_any_unit_agree_with_numpy(count, unit):
    small = count % 10**6 - 5 * 10**5
    moment = np.datetime64(small, "s" if unit == "25s" else unit)
    if unit == "25s":
        moment = moment.astype("datetime64[25s]")
    expected = moment.astype("datetime64[us]")
    if expected.astype(moment.dtype) == moment:
        assert convert(t.TIMESTAMP, moment) == int(expected.astype("int64"))
    else:
        with pytest.raises(InvalidValue, match="finer"):
            convert(t.TIMESTAMP, moment)


# Text.

TEXTS = [
    (t.BOOLEAN, True, "true"),
    (t.BOOLEAN, False, "false"),
    (t.INT, -5, "-5"),
    (t.LONG, 2**63 - 1, "9223372036854775807"),
    (t.FLOAT, 0.10000000149011612, "0.1"),
    (t.DOUBLE, 0.1, "0.1"),
    (t.DOUBLE, math.inf, "Infinity"),
    (t.DOUBLE, -math.inf, "-Infinity"),
    (DEC, Decimal("14.20"), "14.20"),
    (DecimalType(38, 20), Decimal("1E-20"), "0.00000000000000000001"),
    (t.DATE, 17486, "2017-11-16"),
    (t.DATE, 2_932_897, "+10000-01-01"),
    (t.TIME, 81_068_123_456, "22:31:08.123456"),
    (t.TIMESTAMP, MICROS, "2017-11-16T22:31:08.123456"),
    (t.TIMESTAMPTZ, MICROS, "2017-11-16T22:31:08.123456+00:00"),
    (t.TIMESTAMP_NS, 1, "1970-01-01T00:00:00.000000001"),
    (t.TIMESTAMPTZ_NS, 0, "1970-01-01T00:00:00+00:00"),
    (t.STRING, "a b", "a b"),
    (t.UUID, UUID(UUID_TEXT), UUID_TEXT),
    (t.BINARY, b"\x00\xff", "AP8="),
    (FixedType(2), b"\x00\xff", "AP8="),
    (GeometryType(), wkt_to_wkb("POINT (30 10)"), "POINT (30 10)"),
]


@pytest.mark.parametrize(("type_", "value", "text"), TEXTS, ids=name)
def test_text_of_each_type(type_, value, text):
    assert to_text(type_, value) == text
    assert parse_text(type_, text) == value


def test_nan_as_text():
    assert to_text(t.DOUBLE, math.nan) == "NaN"
    assert math.isnan(parse_text(t.FLOAT, "NaN"))


def test_text_of_nested_values():
    assert to_text(POINT, {"x": 1, "day": 17486}) == "{x: 1, day: 2017-11-16}"
    assert to_text(ListType(1, t.DATE), [0, None]) == "[1970-01-01, null]"
    assert to_text(MapType(1, t.STRING, 2, t.DATE), {"a": 0}) == "{a: 1970-01-01}"
    assert to_text(MapType(1, ListType(3, t.INT), 2, t.DATE), [([1], 0)]) == "{[1]: 1970-01-01}"
    assert to_text(t.VARIANT, b"\x01\x00") == "AQA="


def test_text_of_bytes_that_are_no_geometry():
    assert to_text(GeometryType(), b"\x00\xff") == "AP8="


@given(typed_values(primitive_types()))
def test_text_round_trips(typed):
    type_, value = typed
    assert repr(parse_text(type_, to_text(type_, value))) == repr(value)


@pytest.mark.parametrize(
    ("type_", "text"),
    [(t.BOOLEAN, "yes"), (t.INT, "3.0"), (t.INT, ""), (t.INT, "2147483648"), (t.INT, "٣"), (t.INT, "1_0"),
     (t.INT, "9" * 5000), (t.DOUBLE, "one"), (t.DOUBLE, "1_0"), (t.FLOAT, "1e300"), (t.BINARY, "A"), (t.BINARY, "é"),
     (FixedType(3), "AP8="), (t.UNKNOWN, "x"), (POINT, "{}"), (ListType(1, t.INT), "[]"),
     (MapType(1, t.INT, 2, t.INT), "{}"), (t.VARIANT, "AA==")],
)  # fmt: skip
def test_text_that_is_no_value(type_, text):
    with pytest.raises(InvalidValue):
        parse_text(type_, text)


# Maps.


def test_maps_have_one_of_two_forms():
    plain, nested = MapType(1, t.STRING, 2, t.INT), MapType(1, ListType(3, t.INT), 2, t.INT)
    assert make_map(plain, [("a", 1)]) == {"a": 1}
    assert make_map(nested, [([1], 1)]) == [([1], 1)]
    assert list(map_items({"a": 1})) == [("a", 1)]
    assert list(map_items([([1], 1)])) == [([1], 1)]


@pytest.mark.parametrize(
    ("type_", "pairs"),
    [
        (MapType(1, t.STRING, 2, t.INT), [("a", 1), ("a", 1)]),
        (MapType(1, ListType(3, t.INT), 2, t.INT), [([1], 1), ([1], 2)]),
        (MapType(1, t.DOUBLE, 2, t.INT), [(math.nan, 1), (-math.nan, 2)]),
        (MapType(1, t.DOUBLE, 2, t.INT), [(0.0, 1), (-0.0, 2)]),
    ],
)
def test_a_key_must_not_come_twice(type_, pairs):
    with pytest.raises(InvalidValue, match="twice"):
        make_map(type_, pairs)


def test_values_as_deep_as_types_may_be():
    type_, value = t.INT, 1
    for n in range(100):
        type_, value = [
            (ListType(n, type_), [value]),
            (StructType((Field(n, "a", type_),)), {"a": value}),
            (MapType(n, t.INT, n + 1000, type_), {1: value}),
        ][n % 3]
    check(type_, value)
    assert convert(type_, value) == value
    assert from_json(type_, to_json(type_, value)) == value
    assert len(to_text(type_, value)) > 100


def test_a_decimal_that_is_too_long_is_told_so():
    with pytest.raises(InvalidValue, match="it has more than 9 digits"):
        check(DEC, Decimal("1" * 100 + ".00"))
    with pytest.raises(InvalidValue, match="a decimal is always finite"):
        check(DEC, Decimal("NaN"))
