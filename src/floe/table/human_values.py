"""Points in time and durations as people write them: `"2024-05-17 10:00"`, a datetime, `"7d"`, milliseconds.

>>> to_millis("2024-05-17T10:00:00Z"), duration_millis("1h 30m")
(1715940000000, 5400000)
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TypeAlias

from floe.errors import InvalidInput, InvalidValue
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.values.civil_time import NANOS, SECONDS_PER_DAY, millis_text, timestamp_from_text

__all__ = ["Duration", "Moment", "duration_millis", "millis_text", "moment_of", "to_millis"]

Moment: TypeAlias = datetime | date | str | int
"""A datetime, a date (its first moment), ISO text, or milliseconds from 1970-01-01 UTC; no zone means UTC."""

Duration: TypeAlias = timedelta | str | int
"""A timedelta, text such as `"7d"` or `"1h 30m"`, or milliseconds."""

_UNITS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 7 * 86_400_000,
}
_WORDS = {
    "millisecond": "ms",
    "second": "s",
    "sec": "s",
    "minute": "m",
    "hour": "h",
    "day": "d",
    "week": "w",
}
_PART = re.compile(r"\s*([0-9]{1,15})\s*([a-zA-Z]+)")
_MAX_MILLIS = 2**63 - 1
_MAX_NAMES = 12


def to_millis(moment: Moment) -> int:
    """The milliseconds from 1970-01-01 UTC of a moment; what is finer than a millisecond is cut off.

    >>> to_millis(datetime(2024, 5, 17, 10)), to_millis(date(2024, 5, 17)), to_millis("2024-05-17")
    (1715940000000, 1715904000000, 1715904000000)
    >>> to_millis("tomorrow")
    Traceback (most recent call last):
    floe.errors.InvalidInput: 'tomorrow' is no moment; write it as 2024-05-17T10:00:00Z, a datetime or milliseconds
    """
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(moment, date):
        return (moment - _EPOCH.date()).days * SECONDS_PER_DAY * 1000
    if isinstance(moment, int) and not isinstance(moment, bool):
        if abs(moment) > _MAX_MILLIS:
            raise _no_moment(moment)
        return moment
    if not isinstance(moment, str):
        raise _no_moment(moment)
    return _from_text(moment)


def moment_of(given: Moment, metadata: TableMetadata) -> int:
    """As `to_millis`, where a branch or tag could have been named too."""
    try:
        return to_millis(given)
    except InvalidInput:
        there = ", ".join(sorted(metadata.refs)[:_MAX_NAMES]) or "none"
        raise InvalidInput(
            f"{given!r:.80} is no branch or tag of the table, nor a moment",
            hint=f"branches and tags are {there}; a moment is written as 2024-05-17T10:00:00Z",
        ) from None


def duration_millis(duration: Duration) -> int:
    """The milliseconds of a duration, which is never negative.

    >>> duration_millis("7d"), duration_millis(timedelta(hours=2)), duration_millis("2 weeks")
    (604800000, 7200000, 1209600000)
    >>> duration_millis("a while")
    Traceback (most recent call last):
    floe.errors.InvalidInput: 'a while' is no duration; write it as 7d, 12h or 1h 30m
    """
    if isinstance(duration, timedelta):
        millis = duration // timedelta(milliseconds=1)
    elif isinstance(duration, int) and not isinstance(duration, bool):
        millis = duration
    elif isinstance(duration, str):
        millis = _duration_of_text(duration)
    else:
        raise _no_duration(duration)
    if not 0 <= millis <= _MAX_MILLIS:
        raise InvalidInput(f"a duration must be from 0 to {_MAX_MILLIS} ms, found {millis}")
    return millis


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _from_text(text: str) -> int:
    try:
        ticks, offset = timestamp_from_text(text.strip(), NANOS)
    except InvalidValue:
        raise _no_moment(text) from None
    return (ticks - (offset or 0) * NANOS) // (NANOS // 1000)


def _duration_of_text(text: str) -> int:
    total, place = 0, 0
    written = text.strip()
    while place < len(written):
        part = _PART.match(written, place)
        unit = part[2].lower() if part else ""
        unit = _WORDS.get(unit.removesuffix("s") if len(unit) > 2 else unit, unit)
        if part is None or unit not in _UNITS:
            raise _no_duration(text)
        total += int(part[1]) * _UNITS[unit]
        place = part.end()
    if not written:
        raise _no_duration(text)
    return total


def _no_moment(found: object) -> InvalidInput:
    return InvalidInput(
        f"{found!r:.80} is no moment", hint="write it as 2024-05-17T10:00:00Z, a datetime or milliseconds"
    )


def _no_duration(found: object) -> InvalidInput:
    return InvalidInput(f"{found!r:.80} is no duration", hint="write it as 7d, 12h or 1h 30m")
