"""Calendar arithmetic and ISO-8601 text for dates, times and timestamps of any year.

The format counts days, microseconds or nanoseconds from 1970-01-01 (spec: Primitive Types), far beyond the years 1 to
9999 of `datetime`. The functions use integer arithmetic on the proleptic Gregorian calendar, with
astronomical years: year 0 is the year before year 1.

A time unit is the number of its ticks in a second: `MICROS` or `NANOS`.

>>> days_from_civil(2017, 11, 16)
17486
>>> timestamp_to_text(1510871468123456, MICROS)
'2017-11-16T22:31:08.123456'
"""

from __future__ import annotations

import re

from floe.errors import InvalidValue

MICROS = 1_000_000
"""Ticks of a second where values are microseconds."""

NANOS = 1_000_000_000
"""Ticks of a second where values are nanoseconds."""

SECONDS_PER_DAY = 86_400

# The Gregorian calendar repeats every 400 years. Counting years from March puts the leap day at the end of the year,
# which makes the day of the year a plain function of the month.
_DAYS_PER_ERA = 146_097
_DAYS_FROM_MARCH_OF_YEAR_0_TO_EPOCH = 719_468


def days_from_civil(year: int, month: int, day: int) -> int:
    """Return the days from 1970-01-01 to a date, which must be valid.

    >>> days_from_civil(1970, 1, 1), days_from_civil(1969, 12, 31), days_from_civil(0, 1, 1)
    (0, -1, -719528)
    """
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * _DAYS_PER_ERA + day_of_era - _DAYS_FROM_MARCH_OF_YEAR_0_TO_EPOCH


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Return the year, month and day that are `days` days from 1970-01-01.

    >>> civil_from_days(17486), civil_from_days(-1)
    ((2017, 11, 16), (1969, 12, 31))
    """
    era, day_of_era = divmod(days + _DAYS_FROM_MARCH_OF_YEAR_0_TO_EPOCH, _DAYS_PER_ERA)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    return era * 400 + year_of_era + (month <= 2), month, day


def days_in_month(year: int, month: int) -> int:
    """Return the number of days of a month.

    >>> days_in_month(2000, 2), days_in_month(1900, 2)
    (29, 28)
    """
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def date_to_text(days: int) -> str:
    """Return the ISO text of a date; years outside 0 to 9999 have a sign.

    >>> date_to_text(17486), date_to_text(2932897), date_to_text(-719529)
    ('2017-11-16', '+10000-01-01', '-0001-12-31')
    """
    year, month, day = civil_from_days(days)
    if year > 9999:
        return f"+{year}-{month:02}-{day:02}"
    sign = "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def time_to_text(ticks: int, unit: int) -> str:
    """Return the ISO text of a time of day; the fraction has the digits it needs, none for a whole second.

    >>> time_to_text(81068_123456, MICROS), time_to_text(81068_500000, MICROS), time_to_text(0, MICROS)
    ('22:31:08.123456', '22:31:08.5', '00:00:00')
    """
    seconds, fraction = divmod(ticks, unit)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    text = f"{hour:02}:{minute:02}:{second:02}"
    if not fraction:
        return text
    width = 6 if unit == MICROS else 9
    return f"{text}.{fraction:0{width}}".rstrip("0")


def timestamp_to_text(ticks: int, unit: int, *, utc: bool = False) -> str:
    """Return the ISO text of a timestamp, with `+00:00` at its end if it is one in UTC.

    >>> timestamp_to_text(-1, NANOS, utc=True)
    '1969-12-31T23:59:59.999999999+00:00'
    """
    days, of_day = divmod(ticks, SECONDS_PER_DAY * unit)
    text = f"{date_to_text(days)}T{time_to_text(of_day, unit)}"
    return text + "+00:00" if utc else text


def millis_to_text(millis: int) -> str:
    """Return the text of a timestamp in milliseconds from 1970-01-01, in UTC.

    >>> millis_to_text(1715940000123)
    '2024-05-17 10:00:00.123 UTC'
    """
    text = timestamp_to_text(millis * 1000, MICROS, utc=True)
    return text.replace("T", " ").removesuffix("+00:00") + " UTC"


# At most 7 digits of a year: 32 bits of days reach the year 5,881,580.
_DATE = r"(?P<year>[+-]?[0-9]{4,7})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]+))?)?"
_ZONE = r"(?P<zone>[Zz]|(?P<sign>[+-])(?P<zh>[0-9]{2})(?::?(?P<zm>[0-9]{2})(?::?(?P<zs>[0-9]{2}))?)?)"
_DATE_TEXT = re.compile(_DATE)
_TIME_TEXT = re.compile(_TIME)
_TIMESTAMP_TEXT = re.compile(rf"{_DATE}(?:[Tt ]{_TIME} ?{_ZONE}?)?")
_MAX_ZONE_SECONDS = 18 * 3600


def date_from_text(text: str) -> int:
    """Parse an ISO date into days from 1970-01-01.

    >>> date_from_text("2017-11-16"), date_from_text("+10000-01-01")
    (17486, 2932897)
    """
    match = _DATE_TEXT.fullmatch(text)
    if match is None:
        raise InvalidValue(f"{_short(text)} is not an ISO date", hint="write it as 2017-11-16")
    return _days(match, text)


def time_from_text(text: str, unit: int) -> int:
    """Parse an ISO time of day into ticks from midnight; seconds and fraction are optional.

    >>> time_from_text("22:31:08.123456", MICROS), time_from_text("22:31", MICROS)
    (81068123456, 81060000000)
    """
    match = _TIME_TEXT.fullmatch(text)
    if match is None:
        raise InvalidValue(f"{_short(text)} is not an ISO time of day", hint="write it as 22:31:08.123456")
    return _ticks_of_day(match, unit, text)


def timestamp_from_text(text: str, unit: int) -> tuple[int, int | None]:
    """Parse an ISO timestamp into its local ticks, and its zone's offset from UTC in seconds if it has a zone.

    A date alone is midnight. The ticks in UTC are `ticks - offset * unit`.

    >>> timestamp_from_text("1970-01-01T02:00:00.000001+02:00", MICROS)
    (7200000001, 7200)
    >>> timestamp_from_text("1970-01-02", MICROS)
    (86400000000, None)
    """
    match = _TIMESTAMP_TEXT.fullmatch(text)
    if match is None:
        raise InvalidValue(f"{_short(text)} is not an ISO timestamp", hint="write it as 2017-11-16T22:31:08.123456")
    of_day = 0 if match["hour"] is None else _ticks_of_day(match, unit, text)
    return _days(match, text) * SECONDS_PER_DAY * unit + of_day, _zone_seconds(match, text)


def _days(match: re.Match[str], text: str) -> int:
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    if not 1 <= month <= 12:
        raise InvalidValue(f"{_short(text)} is not a valid date: there is no month {month}")
    if not 1 <= day <= days_in_month(year, month):
        raise InvalidValue(f"{_short(text)} is not a valid date: month {month} of year {year} has no day {day}")
    return days_from_civil(year, month, day)


def _ticks_of_day(match: re.Match[str], unit: int, text: str) -> int:
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise InvalidValue(f"{_short(text)} is not a valid time of day: it must be between 00:00:00 and 23:59:59")
    digits = (match["fraction"] or "").rstrip("0")
    width = 6 if unit == MICROS else 9
    if len(digits) > width:
        raise InvalidValue(f"{_short(text)} is finer than {'micro' if unit == MICROS else 'nano'}seconds")
    return ((hour * 60 + minute) * 60 + second) * unit + int(digits.ljust(width, "0"))


def _zone_seconds(match: re.Match[str], text: str) -> int | None:
    if match["zone"] is None:
        return None
    if match["sign"] is None:
        return 0
    hours, minutes, seconds = int(match["zh"]), int(match["zm"] or 0), int(match["zs"] or 0)
    offset = (hours * 60 + minutes) * 60 + seconds
    if minutes > 59 or seconds > 59 or offset > _MAX_ZONE_SECONDS:
        raise InvalidValue(f"{_short(text)} has an invalid zone offset: it must be between -18:00 and +18:00")
    return -offset if match["sign"] == "-" else offset


def _short(text: str) -> str:
    return repr(text) if len(text) <= 80 else repr(text[:80]) + "…"
