"""Moments and durations as people write them."""

import datetime as dt

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidInput
from floe.spec.values.civil_time import millis_to_text
from floe.table.human_values import duration_millis, to_millis

NOON = 1_715_947_200_000  # 2024-05-17T12:00:00Z


@pytest.mark.parametrize(
    "timestamp",
    [
        NOON,
        dt.datetime(2024, 5, 17, 12, tzinfo=dt.UTC),
        dt.datetime(2024, 5, 17, 12),
        dt.datetime(2024, 5, 17, 14, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        "2024-05-17T12:00:00Z",
        "2024-05-17 12:00",
        " 2024-05-17T14:00:00+02:00 ",
        "2024-05-17T12:00:00.000999999",
    ],
    ids=str,
)
def test_many_ways_to_write_noon(timestamp: object) -> None:
    assert to_millis(timestamp) == NOON  # type: ignore[arg-type]


def test_a_date_is_its_start() -> None:
    assert to_millis(dt.date(2024, 5, 17)) == to_millis("2024-05-17") == NOON - 12 * 3_600_000


@pytest.mark.parametrize("wrong", ["", "now", "12:00", "2024-13-01", True, None, 1.5, 2**70], ids=repr)
def test_not_a_timestamp(wrong: object) -> None:
    with pytest.raises(InvalidInput, match="timestamp"):
        to_millis(wrong)  # type: ignore[arg-type]


@given(st.datetimes(timezones=st.just(dt.UTC)))
def test_the_text_of_a_timestamp_is_read_back(timestamp: dt.datetime) -> None:
    millis = to_millis(timestamp)
    assert to_millis(millis_to_text(millis).replace(" UTC", "Z")) == millis
    assert millis == timestamp.replace(microsecond=timestamp.microsecond // 1000 * 1000).timestamp() * 1000 // 1


@pytest.mark.parametrize(
    ("duration", "millis"),
    [
        ("7d", 604_800_000),
        ("7 days", 604_800_000),
        ("1d 12h", 129_600_000),
        ("1h30m", 5_400_000),
        ("90 min", 5_400_000),
        ("5s", 5_000),
        ("10 seconds", 10_000),
        ("250ms", 250),
        ("2w", 1_209_600_000),
        ("0s", 0),
        (5000, 5000),
        (dt.timedelta(hours=1), 3_600_000),
    ],
)
def test_durations(duration: object, millis: int) -> None:
    assert duration_millis(duration) == millis  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["", "7", "d", "seven days", "7d or so", -1, True, None, dt.timedelta(-1)], ids=repr)
def test_what_is_no_duration(wrong: object) -> None:
    with pytest.raises(InvalidInput, match="duration"):
        duration_millis(wrong)  # type: ignore[arg-type]
