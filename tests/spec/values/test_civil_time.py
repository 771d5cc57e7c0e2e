"""Calendar arithmetic and ISO text, checked against `datetime` where it reaches and by hand beyond."""

from datetime import UTC, date, datetime, time, timedelta

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidValue
from floe.spec.values.civil_time import (
    MICROS,
    NANOS,
    civil_from_days,
    date_from_text,
    date_to_text,
    days_from_civil,
    days_in_month,
    time_from_text,
    time_to_text,
    timestamp_from_text,
    timestamp_to_text,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
EPOCH = date(1970, 1, 1)


@given(st.dates())
def test_days_agree_with_datetime(day):
    days = (day - EPOCH).days
    assert days_from_civil(day.year, day.month, day.day) == days
    assert civil_from_days(days) == (day.year, day.month, day.day)


@given(INT32)
def test_dates_of_any_year_round_trip(days):
    year, month, day = civil_from_days(days)
    assert 1 <= month <= 12
    assert 1 <= day <= days_in_month(year, month)
    assert days_from_civil(year, month, day) == days


@given(INT32)
def test_the_calendar_repeats_every_400_years(days):
    year, month, day = civil_from_days(days)
    assert civil_from_days(days + 146_097) == (year + 400, month, day)


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (0, "1970-01-01"),
        (-1, "1969-12-31"),
        (11_016, "2000-02-29"),
        (-25_508, "1900-03-01"),
        (2_932_896, "9999-12-31"),
        (2_932_897, "+10000-01-01"),
        (-719_162, "0001-01-01"),
        (-719_163, "0000-12-31"),
        (-719_528, "0000-01-01"),
        (-719_529, "-0001-12-31"),
        (2**31 - 1, "+5881580-07-11"),
        (-(2**31), "-5877641-06-23"),
    ],
)
def test_dates_as_text(days, text):
    assert date_to_text(days) == text
    assert date_from_text(text) == days


def test_a_date_beyond_year_9999_may_lack_its_sign():
    assert date_from_text("10000-01-01") == 2_932_897


@given(st.dates())
def test_date_text_agrees_with_datetime(day):
    assert date_to_text((day - EPOCH).days) == day.isoformat()


@given(INT32)
def test_date_text_round_trips(days):
    assert date_from_text(date_to_text(days)) == days


@given(st.times())
def test_time_text_agrees_with_datetime(moment):
    micros = timedelta(
        hours=moment.hour, minutes=moment.minute, seconds=moment.second, microseconds=moment.microsecond
    ) // timedelta(microseconds=1)
    assert time_from_text(moment.isoformat(), MICROS) == micros
    assert time_from_text(moment.isoformat(), NANOS) == micros * 1000
    assert time.fromisoformat(time_to_text(micros, MICROS)) == moment


@pytest.mark.parametrize(
    ("ticks", "unit", "text"),
    [
        (0, MICROS, "00:00:00"),
        (1, MICROS, "00:00:00.000001"),
        (500_000, MICROS, "00:00:00.5"),
        (86_399_999_999, MICROS, "23:59:59.999999"),
        (1, NANOS, "00:00:00.000000001"),
        (120_000_000, NANOS, "00:00:00.12"),
    ],
)
def test_fractions_have_the_digits_they_need(ticks, unit, text):
    assert time_to_text(ticks, unit) == text
    assert time_from_text(text, unit) == ticks


def test_needless_zeros_and_missing_seconds_are_read():
    assert time_from_text("22:31", MICROS) == time_from_text("22:31:00.000000000000", MICROS)


@given(INT64, st.sampled_from([MICROS, NANOS]), st.booleans())
def test_timestamp_text_round_trips(ticks, unit, utc):
    text = timestamp_to_text(ticks, unit, utc=utc)
    assert timestamp_from_text(text, unit) == (ticks, 0 if utc else None)


@given(st.datetimes())
def test_timestamp_text_agrees_with_datetime(moment):
    micros = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    assert timestamp_from_text(moment.isoformat(), MICROS) == (micros, None)
    assert timestamp_from_text(moment.isoformat(" "), NANOS) == (micros * 1000, None)
    assert datetime.fromisoformat(moment.isoformat()) == moment
    assert timestamp_to_text(micros, MICROS).startswith(moment.replace(microsecond=0).isoformat())


@given(st.datetimes(timezones=st.timezones()))
def test_zoned_timestamp_text_agrees_with_datetime(moment):
    ticks, offset = timestamp_from_text(moment.isoformat(), MICROS)
    seconds = moment.utcoffset() // timedelta(seconds=1)
    assert offset == seconds
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert (
        ticks - offset * MICROS == (moment.replace(tzinfo=UTC) - epoch) // timedelta(microseconds=1) - seconds * MICROS
    )


def test_floor_of_moments_before_1970():
    assert timestamp_to_text(-1, MICROS) == "1969-12-31T23:59:59.999999"
    assert timestamp_to_text(-(2**63), MICROS) == "-290308-12-21T19:59:05.224192"
    assert timestamp_to_text(2**63 - 1, NANOS) == "2262-04-11T23:47:16.854775807"


@pytest.mark.parametrize(
    ("zone", "seconds"),
    [("Z", 0), ("z", 0), ("+00:00", 0), ("-00:00", 0), ("+02:00", 7200), ("-0830", -30600), ("+05", 18000),
     (" +01:00", 3600), ("+01:02:03", 3723), ("+18:00", 64800)],
)  # fmt: skip
def test_zone_offsets(zone, seconds):
    assert timestamp_from_text("1970-01-01T00:00:00" + zone, MICROS) == (0, seconds)


@pytest.mark.parametrize(
    "text",
    ["", "2017", "2017-11", "2017-1-16", "17-11-16", "2017-11-16 ", " 2017-11-16", "2017/11/16", "2017-13-01",
     "2017-00-01", "2017-11-31", "2017-02-29", "1900-02-29", "2017-11-00", "99999999-01-01", "٢٠١٧-11-16",
     "2017-11-16T00:00", "x" * 10**6],
)  # fmt: skip
def test_texts_that_are_no_date(text):
    with pytest.raises(InvalidValue) as caught:
        date_from_text(text)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "text", ["", "24:00:00", "12:60", "12:00:60", "1:00:00", "12", "12:00:00.", "12:00:00,5", "12:00Z"]
)
def test_texts_that_are_no_time(text):
    with pytest.raises(InvalidValue):
        time_from_text(text, MICROS)


def test_finer_than_the_unit():
    with pytest.raises(InvalidValue, match="finer than microseconds"):
        time_from_text("00:00:00.1234567", MICROS)
    with pytest.raises(InvalidValue, match="finer than nanoseconds"):
        timestamp_from_text("2017-11-16T00:00:00.1234567891", NANOS)
    assert time_from_text("00:00:00.1234567", NANOS) == 123_456_700


@pytest.mark.parametrize(
    "text",
    ["", "2017-11-16T", "2017-11-16T22", "2017-11-16TT22:31", "2017-11-16+00:00", "2017-11-16T22:31:08+19:00",
     "2017-11-16T22:31:08+02:60", "2017-11-16T22:31:08 UTC", "2017-11-16T22:31:08+2", "2017-02-30T00:00"],
)  # fmt: skip
def test_texts_that_are_no_timestamp(text):
    with pytest.raises(InvalidValue):
        timestamp_from_text(text, MICROS)
