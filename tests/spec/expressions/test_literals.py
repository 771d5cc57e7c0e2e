"""Where literals lie among the values of each type: exactly on one, or between two neighbours."""

import math
import struct
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, strategies as st

from floe.errors import InvalidExpression
from floe.spec.expressions.literals import (
    COMPARABLE_KINDS,
    LiteralPosition,
    calendar_count,
    locate,
    locate_for,
    to_python_value,
)
from floe.spec.expressions.nodes import BoundReference, BoundTransform
from floe.spec.partitioning.transforms import DAY, HOUR, MONTH, YEAR
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
    UUID,
    VARIANT,
    DecimalType,
    Field,
    FixedType,
    GeometryType,
    StructType,
)
from floe.spec.values import check

DEC = DecimalType(9, 2)
FLOAT_MAX = 3.4028234663852886e38
FLOAT_MIN = 1.401298464324817e-45


def at(value) -> LiteralPosition:
    return LiteralPosition(at=value)


def between(below, above) -> LiteralPosition:
    return LiteralPosition(below=below, above=above)


@pytest.mark.parametrize(
    ("type_", "literal", "place"),
    [
        # whole numbers
        (INT, 3, at(3)),
        (INT, 3.0, at(3)),
        (INT, Decimal("3.00"), at(3)),
        (INT, 3.5, between(3, 4)),
        (INT, -3.5, between(-4, -3)),
        (INT, Decimal("-0.001"), between(-1, 0)),
        (INT, 2**31, LiteralPosition(below=2**31 - 1)),
        (INT, -(2**31) - 1, LiteralPosition(above=-(2**31))),
        (INT, 1e300, LiteralPosition(below=2**31 - 1)),
        (INT, math.inf, LiteralPosition(below=2**31 - 1)),
        (INT, -math.inf, LiteralPosition(above=-(2**31))),
        (INT, math.nan, LiteralPosition(below=2**31 - 1)),
        (LONG, 2**63 - 1, at(2**63 - 1)),
        (LONG, 2**63, LiteralPosition(below=2**63 - 1)),
        (LONG, float(2**63), LiteralPosition(below=2**63 - 1)),
        (LONG, 9007199254740993, at(9007199254740993)),
        (LONG, Decimal("1e999999999"), LiteralPosition(below=2**63 - 1)),
        (LONG, Decimal("1e-999999999"), between(0, 1)),
        # decimals
        (DEC, 14, at(Decimal("14.00"))),
        (DEC, Decimal("1.234"), between(Decimal("1.23"), Decimal("1.24"))),
        (DEC, Decimal("-1.234"), between(Decimal("-1.24"), Decimal("-1.23"))),
        (DEC, 0.1, at(Decimal("0.10"))),
        (DEC, 0.125, between(Decimal("0.12"), Decimal("0.13"))),
        (DEC, Decimal("-0.001"), between(Decimal("-0.01"), Decimal("0.00"))),
        (DEC, Decimal("9999999.99"), at(Decimal("9999999.99"))),
        (DEC, 10**7, LiteralPosition(below=Decimal("9999999.99"))),
        (DEC, Decimal("-10000000"), LiteralPosition(above=Decimal("-9999999.99"))),
        (DEC, math.inf, LiteralPosition(below=Decimal("9999999.99"))),
        (DEC, Decimal("Infinity"), LiteralPosition(below=Decimal("9999999.99"))),
        (DecimalType(38, 0), 10**38 - 1, at(Decimal(10**38 - 1))),
        (DecimalType(38, 38), Decimal("1e-39"), between(Decimal("0E-38"), Decimal("1E-38"))),
        (DecimalType(38, 10), Decimal("1.00000000005"), between(Decimal("1.0000000000"), Decimal("1.0000000001"))),
        # floats
        (DOUBLE, 3, at(3.0)),
        (DOUBLE, Decimal("0.1"), at(0.1)),
        (DOUBLE, 2**53 + 1, at(2.0**53)),
        (DOUBLE, 10**400, between(1.7976931348623157e308, math.inf)),
        (DOUBLE, Decimal("-1e400"), between(-math.inf, -1.7976931348623157e308)),
        (DOUBLE, math.inf, at(math.inf)),
        (DOUBLE, -0.0, at(0.0)),
        (FLOAT, 0.5, at(0.5)),
        (FLOAT, 0.1, between(0.09999999403953552, 0.10000000149011612)),
        (FLOAT, 0.10000000149011612, at(0.10000000149011612)),
        (FLOAT, 1e39, between(FLOAT_MAX, math.inf)),
        (FLOAT, -1e39, between(-math.inf, -FLOAT_MAX)),
        (FLOAT, 10**400, between(FLOAT_MAX, math.inf)),
        (FLOAT, 1e-60, between(0.0, FLOAT_MIN)),
        (FLOAT, -1e-60, between(-FLOAT_MIN, 0.0)),
        (FLOAT, -math.inf, at(-math.inf)),
        # moments
        (DATE, "1970-01-02", at(1)),
        (DATE, date(1969, 12, 31), at(-1)),
        (DATE, datetime(1970, 1, 2), at(1)),
        (DATE, datetime(1970, 1, 2, 12), between(1, 2)),
        (DATE, datetime(1970, 1, 2, tzinfo=timezone(timedelta(hours=1))), between(0, 1)),
        (DATE, "+10000-01-01", at(2932897)),
        (DATE, "+9999999-01-01", LiteralPosition(below=2**31 - 1)),
        (TIMESTAMP, "1970-01-01", at(0)),
        (TIMESTAMP, "1970-01-01 00:00:01", at(1_000_000)),
        (TIMESTAMP, "1970-01-01T00:00:00.000001", at(1)),
        (TIMESTAMP, "1969-12-31T23:59:59.9999999", between(-1, 0)),
        (TIMESTAMP, date(1970, 1, 2), at(86_400_000_000)),
        (TIMESTAMPTZ, "1970-01-01T01:00:00+01:00", at(0)),
        (TIMESTAMPTZ, "1970-01-01T00:00:00Z", at(0)),
        (TIMESTAMPTZ, datetime(1970, 1, 1, 1, tzinfo=UTC), at(3_600_000_000)),
        (TIMESTAMP_NS, "1970-01-01T00:00:00.000000001", at(1)),
        (TIMESTAMP_NS, datetime(1970, 1, 1, 0, 0, 0, 1), at(1000)),
        (TIMESTAMP_NS, "2262-04-12", LiteralPosition(below=2**63 - 1)),
        (TIMESTAMP_NS, "1677-09-21", LiteralPosition(above=-(2**63))),
        (TIMESTAMPTZ_NS, "1970-01-01", at(0)),
        (TIME, "00:00:01", at(1_000_000)),
        (TIME, time(0, 0, 0, 1), at(1)),
        (TIME, "00:00:00.0000001", between(0, 1)),
        (TIME, "23:59:59.9999999", LiteralPosition(below=86_399_999_999)),
        # the rest
        (BOOLEAN, True, at(True)),
        (STRING, "x", at("x")),
        (UUID, "f79c3e09-677c-4bbd-a479-3f349cb785e7", at(uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"))),
        (UUID, bytes(16), at(uuid.UUID(int=0))),
        (BINARY, bytearray(b"ab"), at(b"ab")),
        (FixedType(2), memoryview(b"ab"), at(b"ab")),
    ],
)
def test_places(type_, literal, place):
    found = locate(type_, literal)
    assert found == place
    for value in (found.at, found.below, found.above):
        check(type_, value)


def test_text_without_a_zone_is_utc_for_points_in_time():
    assert locate(TIMESTAMPTZ, "2024-01-01") == locate(TIMESTAMPTZ, "2024-01-01T00:00:00+00:00")
    assert locate(TIMESTAMPTZ, datetime(2024, 1, 1)) == locate(TIMESTAMPTZ, datetime(2024, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("type_", "literal", "message"),
    [
        (INT, "5", "write the number without quotes"),
        (INT, True, "bool"),
        (DOUBLE, "NaN", "write the number without quotes"),
        (BOOLEAN, 1, "compare it with true or false"),
        (BOOLEAN, "true", "compare it with true or false"),
        (STRING, 5, "put the text in quotes"),
        (STRING, "\ud800", "surrogate"),
        (DATE, 19000, "counts seconds, microseconds or days"),
        (TIMESTAMP, 1_700_000_000.5, "counts seconds, microseconds or days"),
        (DATE, "yesterday", "not an ISO timestamp"),
        (DATE, "2024-02-30", "valid date"),
        (DATE, time(1), "time"),
        (TIMESTAMP, "2024-01-01T00:00:00+02:00", "zone, and the column has none"),
        (TIMESTAMP_NS, datetime(2024, 1, 1, tzinfo=UTC), "zone, and the column has none"),
        (TIME, "25:00:00", "valid time"),
        (TIME, 5, "time of day"),
        (UUID, "xyz", "write a uuid as text"),
        (UUID, b"short", "write a uuid as text"),
        (BINARY, "cafe", "X'0aff'"),
        (FixedType(2), b"abc", "it has 3 bytes"),
        (VARIANT, 1, "only be tested for null"),
        (GeometryType(), b"", "only be tested for null"),
        (StructType(()), {}, "only be tested for null"),
        (LONG, [1], "list"),
    ],
)
def test_literals_that_do_not_compare(type_, literal, message):
    with pytest.raises(InvalidExpression) as caught:
        locate(type_, literal)
    assert message in str(caught.value)


def test_an_integer_too_long_to_print_is_still_an_error_not_a_crash():
    with pytest.raises(InvalidExpression, match="very large integer"):
        locate(STRING, 10**5000)


def test_comparable_kinds():
    assert {"boolean", "int", "string", "uuid", "timestamptz_ns"} <= COMPARABLE_KINDS
    assert not {"struct", "list", "map", "variant", "unknown", "geometry", "geography"} & COMPARABLE_KINDS


# exactness ------------------------------------------------------------------------------------------------------------

numbers = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(-300, 300),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-300, 300),
    st.decimals(-300, 300, places=3),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**40), max_value=10**40),
)


@given(numbers)
def test_neighbours_of_a_number_among_ints_are_next_to_it(number):
    check_neighbours(locate(INT, number), Fraction(number), 1, -(2**31), 2**31 - 1)


@given(numbers)
def test_neighbours_of_a_number_among_decimals_are_next_to_it(number):
    exact = Fraction(Decimal(repr(number))) if isinstance(number, float) else Fraction(number)
    check_neighbours(locate(DEC, number), exact, Fraction(1, 100), Decimal("-9999999.99"), Decimal("9999999.99"))


def check_neighbours(place, exact, step, lowest, highest):
    if place.at is not None:
        assert Fraction(place.at) == exact
    elif place.below is None:
        assert exact < place.above == lowest
    elif place.above is None:
        assert exact > place.below == highest
    else:
        assert place.below < exact < place.above
        assert Fraction(place.above) - Fraction(place.below) == step


@given(st.floats(allow_nan=False))
def test_neighbours_of_a_double_among_32_bit_floats(number):
    place = locate(FLOAT, number)
    if place.at is not None:
        assert place.at == number
        return
    assert place.below < number < place.above
    if math.isfinite(place.below) and math.isfinite(place.above):
        assert np.nextafter(np.float32(place.below), np.float32(math.inf)) == np.float32(place.above)
    for neighbour in (place.below, place.above):
        assert struct.unpack("<f", struct.pack("<f", neighbour))[0] == neighbour


@given(st.datetimes(), st.datetimes())
def test_moments_keep_their_order(first, second):
    assume(first != second)
    a, b = locate(TIMESTAMP, first).at, locate(TIMESTAMP, second).at
    assert (a < b) == (first < second)
    assert locate(TIMESTAMP, first.isoformat()).at == a


# libraries ------------------------------------------------------------------------------------------------------------


def test_numpy_and_arrow_scalars_are_plain_values():
    assert to_python_value(np.int32(5)) == 5
    assert type(to_python_value(np.float64(0.5))) is float
    assert to_python_value(np.datetime64("2024-01-01T00:00:00.000000001", "ns")) == "2024-01-01T00:00:00.000000001"
    assert to_python_value(pa.scalar(5)) == 5
    assert locate(TIMESTAMP_NS, np.datetime64("1970-01-01T00:00:00.000000001")) == at(1)
    assert locate(FLOAT, np.float32(0.1)) == at(0.10000000149011612)


# the calendar ---------------------------------------------------------------------------------------------------------

TS = BoundReference(Schema((Field(1, "ts", TIMESTAMP),)).resolve("ts"))


@pytest.mark.parametrize(
    ("transform", "literal", "place"),
    [
        (YEAR, 54, at(54)),
        (YEAR, "2024", at(54)),
        (YEAR, "1969", at(-1)),
        (YEAR, date(2024, 1, 1), at(54)),
        (YEAR, "2024-05-17", between(54, 55)),
        (MONTH, "2024-05", at(652)),
        (MONTH, 652, at(652)),
        (MONTH, date(2024, 5, 2), between(652, 653)),
        (MONTH, "2024", at(648)),
        (DAY, "1970-01-02", at(1)),
        (DAY, 1, at(1)),
        (DAY, datetime(1970, 1, 2, 1), between(1, 2)),
        (HOUR, "1970-01-01-05", at(5)),
        (HOUR, "1970-01-01 05", at(5)),
        (HOUR, "1970-01-01T05:30:00", between(5, 6)),
        (HOUR, datetime(1969, 12, 31, 23), at(-1)),
        (HOUR, 2**31, LiteralPosition(below=2**31 - 1)),
    ],
)
def test_years_months_days_and_hours(transform, literal, place):
    assert locate_for(BoundTransform(transform, TS, transform.result_type(TIMESTAMP)), literal) == place


def test_year_of_the_calendar():
    assert calendar_count(YEAR, 2024) == 54
    assert calendar_count(MONTH, "2024-05") == "2024-05"
    for transform in (MONTH, DAY, HOUR):
        with pytest.raises(InvalidExpression, match="counts from 1970"):
            calendar_count(transform, 5)


@pytest.mark.parametrize("nan", [math.nan, Decimal("NaN"), Decimal("sNaN")])
@pytest.mark.parametrize("type_", [INT, LONG, DecimalType(9, 2)])
def test_nan_is_above_every_value_of_a_type_without_nan(type_, nan):
    place = locate(type_, nan)
    assert (place.at, place.above) == (None, None)
    assert place.below == locate(type_, 10**30).below


@pytest.mark.parametrize(
    ("year", "place"),
    [
        (Decimal("1E+1000000"), LiteralPosition(below=2**31 - 1)),
        (Decimal("-1E+1000000"), LiteralPosition(above=-(2**31))),
        (Decimal("NaN"), LiteralPosition(below=2**31 - 1)),
        (Decimal("2024." + "0" * 90 + "1"), LiteralPosition(below=54, above=55)),
        (5e-324, LiteralPosition(below=-1970, above=-1969)),
        (2024.0, LiteralPosition(at=54)),
    ],
)
def test_years_of_any_size_and_precision_are_placed_exactly(year, place):
    assert locate_for(BoundTransform(YEAR, TS, INT), calendar_count(YEAR, year)) == place


def test_hints_for_a_date_show_a_date():
    with pytest.raises(InvalidExpression, match=r"'2024-05-17', or as a datetime\.date"):
        locate(DATE, "2024-1-1")
