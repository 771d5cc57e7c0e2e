"""Values as people write and read them: timestamps and durations to parse, counts and sizes to show.

>>> to_millis("2024-05-17T10:00:00Z"), duration_millis("1h 30m")
(1715940000000, 5400000)

>>> many(1, "row"), many(12345, "row"), size_text(999), size_text(1_234_567)
('1 row', '12,345 rows', '999 bytes', '1.2 MB')
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TypeAlias

from floe.errors import InvalidInput, InvalidValue
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.values.civil_time import NANOS, SECONDS_PER_DAY, timestamp_from_text

Timestamp: TypeAlias = datetime | date | str | int
"""A datetime, a date (its start), ISO text, or milliseconds from 1970-01-01 UTC; without a zone it is UTC."""

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


def to_millis(timestamp: Timestamp) -> int:
    """The milliseconds from 1970-01-01 UTC to a timestamp; finer parts are cut off.

    >>> to_millis(datetime(2024, 5, 17, 10)), to_millis(date(2024, 5, 17)), to_millis("2024-05-17")
    (1715940000000, 1715904000000, 1715904000000)
    >>> to_millis("tomorrow")
    Traceback (most recent call last):
    floe.errors.InvalidInput: 'tomorrow' is not a timestamp; use text such as 2024-05-17T10:00:00Z, a datetime, or
    milliseconds
    """
    if isinstance(timestamp, datetime):
        aware = timestamp if timestamp.tzinfo is not None else timestamp.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(timestamp, date):
        return (timestamp - _EPOCH.date()).days * SECONDS_PER_DAY * 1000
    if isinstance(timestamp, int) and not isinstance(timestamp, bool):
        if abs(timestamp) > _MAX_MILLIS:
            raise _not_a_timestamp(timestamp)
        return timestamp
    if not isinstance(timestamp, str):
        raise _not_a_timestamp(timestamp)
    return _from_text(timestamp)


def timestamp_millis(timestamp: Timestamp, metadata: TableMetadata) -> int:
    """As `to_millis`, where a branch or tag is accepted too: the error lists those of the table."""
    try:
        return to_millis(timestamp)
    except InvalidInput:
        refs = ", ".join(sorted(metadata.refs)[:_MAX_NAMES]) or "none"
        raise InvalidInput(
            f"{timestamp!r:.80} is neither a branch or tag of the table nor a timestamp",
            hint=f"branches and tags are {refs}; a timestamp is written as 2024-05-17T10:00:00Z",
        ) from None


def duration_millis(duration: Duration) -> int:
    """A duration in milliseconds; it cannot be negative.

    >>> duration_millis("7d"), duration_millis(timedelta(hours=2)), duration_millis("2 weeks")
    (604800000, 7200000, 1209600000)
    >>> duration_millis("a while")
    Traceback (most recent call last):
    floe.errors.InvalidInput: 'a while' is not a duration; write it as 7d, 12h or 1h 30m
    """
    if isinstance(duration, timedelta):
        millis = duration // timedelta(milliseconds=1)
    elif isinstance(duration, int) and not isinstance(duration, bool):
        millis = duration
    elif isinstance(duration, str):
        millis = _duration_of_text(duration)
    else:
        raise _not_a_duration(duration)
    if not 0 <= millis <= _MAX_MILLIS:
        raise InvalidInput(f"a duration must be from 0 to {_MAX_MILLIS} ms, found {millis}")
    return millis


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _from_text(text: str) -> int:
    try:
        ticks, offset = timestamp_from_text(text.strip(), NANOS)
    except InvalidValue:
        raise _not_a_timestamp(text) from None
    return (ticks - (offset or 0) * NANOS) // (NANOS // 1000)


def _duration_of_text(text: str) -> int:
    total, offset = 0, 0
    stripped = text.strip()
    while offset < len(stripped):
        part = _PART.match(stripped, offset)
        unit = part[2].lower() if part else ""
        unit = _WORDS.get(unit.removesuffix("s") if len(unit) > 2 else unit, unit)
        if part is None or unit not in _UNITS:
            raise _not_a_duration(text)
        total += int(part[1]) * _UNITS[unit]
        offset = part.end()
    if not stripped:
        raise _not_a_duration(text)
    return total


def _not_a_timestamp(value: object) -> InvalidInput:
    return InvalidInput(
        f"{value!r:.80} is not a timestamp", hint="use text such as 2024-05-17T10:00:00Z, a datetime, or milliseconds"
    )


def _not_a_duration(value: object) -> InvalidInput:
    return InvalidInput(f"{value!r:.80} is not a duration", hint="write it as 7d, 12h or 1h 30m")


def many(count: int, noun: str) -> str:
    """A count with its noun.

    >>> many(0, "data file")
    '0 data files'
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size_text(count: int) -> str:
    """A number of bytes in a readable unit.

    >>> size_text(1), size_text(2_500_000_000_000_000)
    ('1 byte', '2500.0 TB')
    """
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return many(count, "byte") if unit == "bytes" else f"{size:.1f} {unit}"
