"""Transforms, one value at a time: the spec's tables, Java's texts, PyIceberg's results and the files of the corpus."""

import math
import uuid
from datetime import date, timedelta
from decimal import Decimal, localcontext

import pytest
from hypothesis import assume, given, settings, strategies as st

from floe.errors import InvalidPartitionSpec, InvalidValue, UnsupportedFeature
from floe.spec import types as t
from floe.spec.partitioning.partition_spec import partition_value_fn
from floe.spec.partitioning.transforms import (
    DAY,
    HOUR,
    IDENTITY,
    MONTH,
    VOID,
    YEAR,
    Bucket,
    Identity,
    Truncate,
    UnknownTransform,
    parse_transform,
)
from floe.spec.types import DecimalType, FixedType, GeographyType, GeometryType, ListType, MapType, StructType
from floe.spec.values.value_order import compare
from helpers.corpus import table_names
from helpers.partitioned_files import arrow_values, partitioned_files
from helpers.transforms import ALLOWED, COMPUTED, SOURCES, allowed_id, pyiceberg_transform, pyiceberg_type
from helpers.value_strategies import TEXT, decimals, values_of

EPOCH = date(1970, 1, 1)
TIMESTAMPS = [t.TIMESTAMP, t.TIMESTAMPTZ, t.TIMESTAMP_NS, t.TIMESTAMPTZ_NS]
NOT_PRIMITIVE = [t.VARIANT, StructType(()), ListType(1, t.INT), MapType(1, t.INT, 2, t.INT)]
EVERY_TYPE = [*SOURCES, t.UNKNOWN, GeometryType(), GeographyType(), *NOT_PRIMITIVE]


def kinds_taken(transform):
    return {type_.kind for type_ in EVERY_TYPE if transform.can_transform(type_)}


# spec: Partition Transforms, the table --------------------------------------------------------------------------


def test_identity_takes_any_primitive_except_geometry_and_geography():
    primitive = {type_.kind for type_ in EVERY_TYPE if type_.is_primitive}
    assert kinds_taken(IDENTITY) == primitive - {"geometry", "geography"}
    assert "variant" not in kinds_taken(IDENTITY)
    assert all(IDENTITY.result_type(source) == source for source in SOURCES)


def test_bucket_takes_the_types_of_the_spec_and_gives_int():
    assert kinds_taken(Bucket(4)) == {
        "int", "long", "decimal", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns",
        "string", "uuid", "fixed", "binary",
    }  # fmt: skip
    assert Bucket(4).result_type(t.STRING) == t.INT


def test_bucket_excludes_boolean_float_and_double():
    assert kinds_taken(Bucket(4)).isdisjoint({"boolean", "float", "double"})
    with pytest.raises(InvalidPartitionSpec, match=r"bucket\[4\] cannot be applied to values of type double"):
        Bucket(4).result_type(t.DOUBLE)


def test_truncate_takes_the_types_of_the_spec_and_gives_the_source_type():
    assert kinds_taken(Truncate(4)) == {"int", "long", "decimal", "string", "binary"}
    assert Truncate(4).result_type(DecimalType(9, 2)) == DecimalType(9, 2)


@pytest.mark.parametrize("transform", [YEAR, MONTH], ids=str)
def test_year_and_month_take_dates_and_timestamps_and_give_int(transform):
    assert kinds_taken(transform) == {"date", *(source.kind for source in TIMESTAMPS)}
    assert transform.result_type(t.DATE) == t.INT


def test_day_takes_dates_and_timestamps_and_gives_date():
    assert kinds_taken(DAY) == {"date", *(source.kind for source in TIMESTAMPS)}
    assert DAY.result_type(t.TIMESTAMPTZ_NS) == t.DATE


def test_day_values_are_dates_and_plain_ints_alike():
    """Readers must accept int for day: a date is the int of its days, so both read as the same value."""
    assert DAY.apply(t.DATE, 17486) == DAY.apply(t.TIMESTAMP, 17486 * 86_400_000_000) == 17486
    assert DAY.to_human(t.TIMESTAMP, 17486) == IDENTITY.to_human(t.DATE, 17486) == "2017-11-16"


def test_hour_takes_timestamps_and_gives_int():
    assert kinds_taken(HOUR) == {source.kind for source in TIMESTAMPS}
    assert HOUR.result_type(t.TIMESTAMP) == t.INT


def test_void_takes_any_type_and_always_produces_null():
    assert kinds_taken(VOID) == {type_.kind for type_ in EVERY_TYPE}
    assert VOID.result_type(t.STRING) == t.STRING
    assert VOID.apply(t.STRING, "x") is None


@pytest.mark.parametrize(("transform", "source"), ALLOWED, ids=allowed_id)
def test_all_transforms_return_null_for_null(transform, source):
    assert transform.apply(source, None) is None
    assert transform.bind(source)(None) is None


# spec: Bucket Transform Details ---------------------------------------------------------------------------------


def test_bucket_discards_the_sign_bit_of_the_hash():
    # hash of 14.20 is negative: -500754589 & 0x7fffffff = 1646729059
    assert Bucket(100).apply(DecimalType(9, 2), Decimal("14.20")) == 1646729059 % 100
    assert Bucket(2**31 - 1).apply(DecimalType(9, 2), Decimal("14.20")) == 1646729059


@pytest.mark.parametrize(
    ("source", "value"),
    [
        (t.INT, 100),
        (t.LONG, 100),
        (DecimalType(9, 2), Decimal("1.00")),
        (DecimalType(38, 0), Decimal(100)),
        (t.DATE, 100),
        (t.TIME, 100),
        (t.TIMESTAMP, 100),
        (t.TIMESTAMP_NS, 100_999),
    ],
    ids=allowed_id,
)
def test_bucket_of_promotable_types_agrees(source, value):
    """Buckets stay the same over int to long, and timestamp to timestamp_ns; a decimal's scale does not matter."""
    as_long = Bucket(7).apply(t.LONG, 100)
    as_bytes = Bucket(7).apply(t.BINARY, b"d")  # 100 in one byte
    assert Bucket(7).apply(source, value) == (as_bytes if isinstance(source, DecimalType) else as_long)


@pytest.mark.parametrize("n", [0, -1, 2**31])
def test_number_of_buckets_must_be_a_positive_int(n):
    with pytest.raises(InvalidPartitionSpec, match="number of buckets must be 1 to 2147483647"):
        Bucket(n)


# spec: Truncate Transform Details -------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [t.INT, t.LONG], ids=str)
@pytest.mark.parametrize(("value", "expected"), [(1, 0), (-1, -10), (9, 0), (10, 10), (-10, -10), (-11, -20), (0, 0)])
def test_truncate_of_int_and_long_has_positive_remainders(source, value, expected):
    assert Truncate(10).apply(source, value) == expected


def test_truncate_of_decimal_applies_the_width_at_the_column_scale():
    column = DecimalType(9, 2)
    assert str(Truncate(50).apply(column, Decimal("10.65"))) == "10.50"
    assert str(Truncate(10).apply(column, Decimal("12.34"))) == "12.30"
    assert str(Truncate(10).apply(column, Decimal("12.29"))) == "12.20"
    assert str(Truncate(10).apply(column, Decimal("0.05"))) == "0.00"
    assert str(Truncate(10).apply(column, Decimal("-0.05"))) == "-0.10"


def test_truncate_of_decimal_does_not_depend_on_the_callers_context():
    with localcontext() as context:
        context.prec = 3
        wide = Decimal("1234567890123456789012345678.9876543210")
        assert str(Truncate(100).apply(DecimalType(38, 10), wide)) == "1234567890123456789012345678.9876543200"


@pytest.mark.parametrize(
    ("width", "text", "expected"),
    [
        (3, "iceberg", "ice"),
        (10, "iceberg", "iceberg"),
        (1, "é", "é"),
        (2, "😀😃😄", "😀😃"),  # beyond the basic plane: one code point, two units of UTF-16, four bytes
        (2, "e\u0301\u0302x", "e\u0301"),  # combining marks are code points of their own
        (1, "e\u0301", "e"),
        (4, "", ""),
    ],
)
def test_truncate_of_string_counts_code_points(width, text, expected):
    assert Truncate(width).apply(t.STRING, text) == expected


def test_truncate_of_binary_counts_bytes():
    assert Truncate(3).apply(t.BINARY, b"\x01\x02\x03\x04\x05") == b"\x01\x02\x03"
    assert Truncate(2).apply(t.BINARY, "😀".encode()) == b"\xf0\x9f"
    assert Truncate(8).apply(t.BINARY, b"\x01") == b"\x01"


@pytest.mark.parametrize("width", [0, -3, 2**31])
def test_width_of_truncate_must_be_a_positive_int(width):
    with pytest.raises(InvalidPartitionSpec, match="width of truncate must be 1 to 2147483647"):
        Truncate(width)


@pytest.mark.parametrize(
    ("source", "lowest"),
    [(t.INT, -(2**31)), (t.LONG, -(2**63)), (DecimalType(2, 0), Decimal(-99)), (DecimalType(3, 1), Decimal("-99.9"))],
    ids=allowed_id,
)
def test_truncate_below_the_lowest_value_is_refused_and_does_not_wrap_around(source, lowest):
    """Java wraps around: -2147483648 gets the partition 2147483646, where no filter below zero ever looks for it."""
    with pytest.raises(InvalidValue, match="is below the lowest"):
        Truncate(10).apply(source, lowest)
    assert Truncate(1).apply(source, lowest) == lowest


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**31 - 1))
def test_truncate_of_a_long_is_the_highest_multiple_not_above_it(value, width):
    multiple = math.floor(value / width) * width if abs(value) < 2**40 else (value // width) * width
    assume(multiple >= -(2**63))
    result = Truncate(width).apply(t.LONG, value)
    assert result == multiple
    assert result <= value < result + width


# year, month, day, hour -----------------------------------------------------------------------------------------


def test_every_date_of_two_centuries_against_datetime():
    year, month, day = (transform.bind(t.DATE) for transform in (YEAR, MONTH, DAY))
    start = (date(1900, 1, 1) - EPOCH).days
    for days in range(start, (date(2101, 1, 1) - EPOCH).days):
        real = EPOCH + timedelta(days)
        assert year(days) == real.year - 1970
        assert month(days) == (real.year - 1970) * 12 + real.month - 1
        assert day(days) == days


TICKS = {"timestamp": 10**6, "timestamptz": 10**6, "timestamp_ns": 10**9, "timestamptz_ns": 10**9}


@pytest.mark.parametrize("source", TIMESTAMPS, ids=str)
@pytest.mark.parametrize(
    ("seconds", "fraction", "year", "month", "day", "hour"),
    [
        (0, 0, 0, 0, 0, 0),
        (0, -1, -1, -1, -1, -1),  # the last tick before 1970
        (-3600, 0, -1, -1, -1, -1),
        (-3600, -1, -1, -1, -1, -2),
        (-86400, 0, -1, -1, -1, -24),
        (-86400, -1, -1, -1, -2, -25),
        (86399, 0, 0, 0, 0, 23),
        (86400, 0, 0, 0, 1, 24),
        (31 * 86400, -1, 0, 0, 30, 743),
        (31 * 86400, 0, 0, 1, 31, 744),
        (365 * 86400, 0, 1, 12, 365, 8760),
        (-365 * 86400, 0, -1, -12, -365, -8760),
        (-365 * 86400, -1, -2, -13, -366, -8761),
        (1510871468, 0, 47, 574, 17486, 419686),  # 2017-11-16T22:31:08
    ],
)
def test_time_transforms_count_down_before_1970(source, seconds, fraction, year, month, day, hour):
    value = seconds * TICKS[source.kind] + fraction
    assert [x.apply(source, value) for x in (YEAR, MONTH, DAY, HOUR)] == [year, month, day, hour]


def test_time_transforms_reach_beyond_the_years_of_datetime():
    assert YEAR.apply(t.DATE, 2**31 - 1) == 5881580 - 1970
    assert YEAR.apply(t.DATE, -(2**31)) == -5877641 - 1970
    assert YEAR.apply(t.TIMESTAMP, 2**63 - 1) == 294247 - 1970
    assert MONTH.apply(t.TIMESTAMP, -(2**63)) == (-290308 - 1970) * 12 + 11


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_hours_that_do_not_fit_an_int_are_refused(value):
    """Java wraps around silently for microseconds."""
    with pytest.raises(InvalidValue, match="does not fit the int"):
        HOUR.apply(t.TIMESTAMP, value)


# unknown transforms ---------------------------------------------------------------------------------------------


def test_unknown_transforms_are_kept_but_cannot_be_applied():
    unknown = parse_transform("zorder[3, Q]")
    assert unknown == UnknownTransform("zorder[3, Q]")
    assert str(unknown) == "zorder[3, Q]"
    assert not unknown.is_known
    assert unknown.can_transform(t.VARIANT)
    assert unknown.result_type(t.LONG) == t.STRING  # as Java, which does not know either
    with pytest.raises(UnsupportedFeature, match="cannot compute the transform 'zorder"):
        unknown.bind(t.LONG)


def test_values_of_unknown_transforms_have_a_text():
    unknown = UnknownTransform("zorder")
    values = [7, "x", b"\x00", True, 1.5, None, Decimal("1.50")]
    assert [unknown.to_human(t.LONG, v) for v in values] == ["7", "x", "AA==", "true", "1.5", "null", "1.50"]


# text -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", [x for x, _ in ALLOWED], ids=str)
def test_text_of_a_transform_parses_to_itself(transform):
    assert parse_transform(str(transform)) == transform


@pytest.mark.parametrize(
    ("text", "expected"),
    [("IDENTITY", IDENTITY), (" Day ", DAY), ("Bucket[16]", Bucket(16)), ("truncate [ 4 ]", Truncate(4))],
)
def test_parsing_ignores_case_and_spaces(text, expected):
    assert parse_transform(text) == expected


@pytest.mark.parametrize(
    "text", ["bucket", "bucket[]", "bucket[-1]", "bucket[x]", "bucket[1][2]", "days", "", "bucket[١]"]
)
def test_other_texts_are_unknown_transforms(text):
    assert parse_transform(text) == UnknownTransform(text)


@pytest.mark.parametrize("text", ["bucket[0]", "truncate[0]", "bucket[2147483648]", "truncate[99999999999999]"])
def test_impossible_parameters_are_refused(text):
    with pytest.raises(InvalidPartitionSpec):
        parse_transform(text)


# human text (Java's toHumanString) ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transform", "value", "expected"),
    [
        (YEAR, 47, "2017"),
        (YEAR, -1, "1969"),
        (YEAR, -1200, "0770"),
        (YEAR, -1971, "-001"),
        (YEAR, 8030, "10000"),
        (MONTH, 574, "2017-11"),
        (MONTH, 0, "1970-01"),
        (MONTH, -1, "1969-12"),
        (MONTH, -12, "1969-01"),
        (DAY, 17486, "2017-11-16"),
        (DAY, -1, "1969-12-31"),
        (DAY, 2932897, "10000-01-01"),
        (HOUR, 419686, "2017-11-16-22"),
        (HOUR, -1, "1969-12-31-23"),
        (HOUR, -24, "1969-12-31-00"),
        (HOUR, None, "null"),
        (YEAR, None, "null"),
    ],
)
def test_human_text_of_time_transforms(transform, value, expected):
    assert transform.to_human(t.TIMESTAMP, value) == expected


@pytest.mark.parametrize(
    ("source", "value", "expected"),
    [
        (t.BOOLEAN, True, "true"),
        (t.BOOLEAN, False, "false"),
        (t.INT, -7, "-7"),
        (t.LONG, 2**63 - 1, "9223372036854775807"),
        (t.FLOAT, 1.0, "1.0"),
        (t.FLOAT, 0.10000000149011612, "0.1"),
        (t.FLOAT, 3.4028234663852886e38, "3.4028235E38"),
        (t.FLOAT, 1.401298464324817e-45, "1.4E-45"),
        (t.DOUBLE, 0.001, "0.001"),
        (t.DOUBLE, 0.00012, "1.2E-4"),
        (t.DOUBLE, 9999999.0, "9999999.0"),
        (t.DOUBLE, 1e7, "1.0E7"),
        (t.DOUBLE, -123456.789, "-123456.789"),
        (t.DOUBLE, 5e-324, "4.9E-324"),
        (t.DOUBLE, 1.7976931348623157e308, "1.7976931348623157E308"),
        (t.DOUBLE, math.nan, "NaN"),
        (t.DOUBLE, math.inf, "Infinity"),
        (t.DOUBLE, -math.inf, "-Infinity"),
        (t.DOUBLE, -0.0, "-0.0"),
        (DecimalType(9, 2), Decimal("-0.50"), "-0.50"),
        (DecimalType(38, 10), Decimal("1E-10"), "1E-10"),  # BigDecimal's own text
        (t.DATE, -1, "1969-12-31"),
        (t.TIME, 0, "00:00"),
        (t.TIME, 36775038194 // 10**6 * 10**6, "10:12:55"),
        (t.TIME, 36775038194, "10:12:55.038194"),
        (t.TIME, 36775038000, "10:12:55.038"),
        (t.TIME, 36775000001, "10:12:55.000001"),
        (t.TIMESTAMP, 1512151975038194, "2017-12-01T18:12:55.038194"),
        (t.TIMESTAMP, 1512151975000000, "2017-12-01T18:12:55"),
        (t.TIMESTAMP, 1512151975500000, "2017-12-01T18:12:55.5"),
        (t.TIMESTAMPTZ, 1512151975038194, "2017-12-01T18:12:55.038194+00:00"),
        (t.TIMESTAMP_NS, 1512151975038194001, "2017-12-01T18:12:55.038194001"),
        (t.TIMESTAMPTZ_NS, -1, "1969-12-31T23:59:59.999999999+00:00"),
        (t.STRING, "a/b=c=d", "a/b=c=d"),
        (t.UUID, uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (FixedType(3), b"\x01\x02\x03", "AQID"),
        (t.BINARY, b"\x01\x02\xff", "AQL/"),
        (t.BINARY, b"", ""),
        (t.STRING, None, "null"),
    ],
    ids=allowed_id,
)
def test_human_text_of_values(source, value, expected):
    assert IDENTITY.to_human(source, value) == expected


def test_human_text_of_bucket_truncate_and_void():
    assert Bucket(16).to_human(t.STRING, 3) == "3"
    assert Truncate(3).to_human(t.BINARY, b"ice") == "aWNl"
    assert Truncate(10).to_human(DecimalType(9, 2), Decimal("1.10")) == "1.10"
    assert VOID.to_human(t.TIMESTAMP, None) == "null"


def test_human_text_of_a_dropped_source_column():
    assert IDENTITY.to_human(t.UNKNOWN, b"\x00") == "AA=="
    assert DAY.to_human(t.UNKNOWN, 17486) == "2017-11-16"


# order ----------------------------------------------------------------------------------------------------------


def test_which_transforms_preserve_order():
    keeping = [x for x in (IDENTITY, Bucket(2), Truncate(2), YEAR, MONTH, DAY, HOUR, VOID) if x.preserves_order]
    assert keeping == [IDENTITY, Truncate(2), YEAR, MONTH, DAY, HOUR]
    assert not UnknownTransform("x").preserves_order


ORDERED = [(transform, source) for transform, source in ALLOWED if transform.preserves_order]


@pytest.mark.parametrize(("transform", "source"), ORDERED, ids=allowed_id)
@settings(max_examples=20)
@given(data=st.data())
def test_transforms_that_preserve_order_do(transform, source, data):
    low, high = data.draw(values_of(source)), data.draw(values_of(source))
    if compare(source, low, high) > 0:
        low, high = high, low
    try:
        results = transform.apply(source, low), transform.apply(source, high)
    except InvalidValue:
        assume(False)
    assert compare(transform.result_type(source), *results) <= 0


def test_time_transforms_satisfy_the_order_of_longer_units():
    units = [HOUR, DAY, MONTH, YEAR]
    for i, fine in enumerate(units):
        for j, coarse in enumerate(units):
            assert fine.satisfies_order_of(coarse) == (i <= j)
        assert not fine.satisfies_order_of(IDENTITY)


def test_identity_satisfies_the_order_of_all_that_preserve_it():
    assert all(IDENTITY.satisfies_order_of(x) for x in (IDENTITY, Truncate(3), DAY))
    assert not any(IDENTITY.satisfies_order_of(x) for x in (Bucket(3), VOID, UnknownTransform("x")))


def test_bucket_and_unknown_satisfy_only_themselves():
    assert Bucket(4).satisfies_order_of(Bucket(4))
    assert not Bucket(4).satisfies_order_of(Bucket(2))
    assert UnknownTransform("x").satisfies_order_of(UnknownTransform("x"))
    assert not UnknownTransform("x").satisfies_order_of(UnknownTransform("y"))


@pytest.mark.parametrize("source", [t.STRING, t.INT, None], ids=str)
def test_truncate_satisfies_the_order_of_other_widths_only_where_it_does(source):
    """Java claims that wider always satisfies narrower, which is right for text alone: 5, 3 are sorted by tens."""
    claims = {
        (a, b): Truncate(a).satisfies_order_of(Truncate(b), source) for a in (1, 2, 3, 4, 6) for b in (1, 2, 3, 4, 6)
    }
    expected = {
        "string": lambda a, b: a >= b,
        "int": lambda a, b: b % a == 0,
        "None": lambda a, b: a == b,
    }[str(source)]
    assert claims == {(a, b): expected(a, b) for a, b in claims}


@pytest.mark.parametrize("source", [t.STRING, t.INT, DecimalType(4, 2), t.BINARY], ids=str)
@settings(max_examples=20)
@given(data=st.data())
def test_claims_about_truncate_hold_for_sorted_values(source, data):
    fine, coarse = Truncate(data.draw(st.integers(1, 6))), Truncate(data.draw(st.integers(1, 6)))
    assume(fine.satisfies_order_of(coarse, source))
    elements = st.text("ab", max_size=6) if source is t.STRING else values_of(source)
    if source in (t.INT, DecimalType(4, 2)):
        elements = st.integers(-20, 20) if source is t.INT else decimals(DecimalType(3, 2))
    low, high = data.draw(elements), data.draw(elements)
    by_fine = [fine.apply(source, x) for x in (low, high)]
    assume(by_fine[0] <= by_fine[1])
    assert coarse.apply(source, low) <= coarse.apply(source, high)


# PyIceberg ------------------------------------------------------------------------------------------------------

DATETIME_RANGE = {
    "date": st.integers((date(1, 1, 1) - EPOCH).days, (date(9999, 12, 31) - EPOCH).days),
    **{
        kind: st.integers(
            (date(1, 1, 2) - EPOCH).days * 86400 * ticks, (date(9999, 12, 31) - EPOCH).days * 86400 * ticks
        )
        for kind, ticks in TICKS.items()
    },
}


@pytest.mark.parametrize(("transform", "source"), COMPUTED, ids=allowed_id)
@settings(max_examples=20)
@given(data=st.data())
def test_results_are_pyicebergs(transform, source, data):
    """Two differences are meant: PyIceberg's years end at 9999, and its truncated numbers may not fit their type."""
    value = data.draw(DATETIME_RANGE[source.kind] if transform.is_time else values_of(source))
    theirs = pyiceberg_transform(transform).transform(pyiceberg_type(source))(value)
    try:
        ours = transform.apply(source, value)
    except InvalidValue:
        assert isinstance(transform, Truncate)
        if isinstance(source, DecimalType):
            assert len(theirs.as_tuple().digits) > source.precision
        else:
            assert theirs < {"int": -(2**31), "long": -(2**63)}[source.kind]
    else:
        assert ours == theirs


@pytest.mark.parametrize("transform", [IDENTITY, VOID, YEAR, MONTH, DAY, HOUR, Bucket(16), Truncate(4)], ids=str)
def test_types_taken_are_pyicebergs(transform):
    theirs = pyiceberg_transform(transform)
    for source in SOURCES:
        assert transform.can_transform(source) == theirs.can_transform(pyiceberg_type(source)), source


HUMAN_IN_PYICEBERG = [
    (transform, source)
    for transform, source in ALLOWED
    # PyIceberg prints floats, nanoseconds, times and small decimals as Python does; the paths of Java read otherwise
    if not (
        isinstance(transform, Identity | Truncate)
        and source.kind in ("boolean", "float", "double", "time", "decimal", "timestamp_ns", "timestamptz_ns")
    )
]


@pytest.mark.parametrize(("transform", "source"), HUMAN_IN_PYICEBERG, ids=allowed_id)
@settings(max_examples=20)
@given(data=st.data())
def test_human_text_is_pyicebergs(transform, source, data):
    if source.kind in DATETIME_RANGE:
        days = st.integers(-300_000, 2_900_000)  # PyIceberg does not pad years below 1000 everywhere
        value = data.draw(days.map(lambda d: d * 86400 * TICKS[source.kind] if source.kind in TICKS else d))
    elif source is t.UUID:
        value = data.draw(st.uuids())
    else:
        value = data.draw(values_of(source))
    try:
        result = transform.apply(source, value)
    except InvalidValue:
        assume(False)
    theirs = pyiceberg_transform(transform).to_human_string(pyiceberg_type(source), result)
    assert transform.to_human(source, result) == theirs


@given(TEXT, st.integers(1, 12))
def test_truncated_text_is_a_prefix_of_valid_utf8(text, width):
    cut = Truncate(width).apply(t.STRING, text)
    assert text.encode().startswith(cut.encode())
    assert len(cut) == min(width, len(text))


# the corpus -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", table_names("part_", "evo_partition", "plan_", "scale_", "v1_", "hist_", "combo_"))
def test_partition_values_in_manifests_are_the_transforms_of_the_rows(corpus_dir, table):
    checked = 0
    for file in partitioned_files(corpus_dir, table):
        columns = file.columns()
        ids = {f.source_id for f in file.spec.fields}
        if not ids <= set(columns):
            continue
        names = {i: file.schema.name_of(i) for i in ids}
        values = {names[i]: arrow_values(file.schema.entry(i).field.type, columns[i]) for i in ids}
        tuple_of = partition_value_fn(file.spec, file.schema)
        found = {tuple_of(dict(zip(values, row, strict=True))) for row in zip(*values.values(), strict=True)}
        assert len(found) == 1, file.path
        (ours,) = found
        assert repr(ours) == repr(file.partition), file.path  # repr: NaN equals itself, -0.0 differs from 0.0
        checked += 1
    assert checked or not table.startswith("part_")


@pytest.mark.parametrize("make", [Bucket, Truncate])
@pytest.mark.parametrize("number", ["16", 16.0, True, None])
def test_parameters_are_whole_numbers(make, number):
    with pytest.raises(InvalidPartitionSpec, match="must be a whole number"):
        make(number)
