"""Timestamps for people and for programs: local time, how long ago, and ISO 8601.

It has its own module because it imports the spec, which `floe --help` does not load.

>>> ago(1_000, now_ms=63_000), iso_text(1715940000123)
('1 minute ago', '2024-05-17T10:00:00.123Z')
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from floe.spec.values.civil_time import millis_to_text
from floe.table.human_values import many

_UNITS: Final = (
    ("year", 365 * 86_400),
    ("month", 30 * 86_400),
    ("day", 86_400),
    ("hour", 3_600),
    ("minute", 60),
    ("second", 1),
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def ago(timestamp_ms: int, *, now_ms: int) -> str:
    """How long ago a timestamp was, in the largest unit that fits.

    >>> ago(0, now_ms=400), ago(0, now_ms=3 * 86_400_000), ago(5_000, now_ms=0)
    ('now', '3 days ago', 'in 5 seconds')
    """
    seconds = abs(now_ms - timestamp_ms) // 1000
    for unit, size in _UNITS:
        if seconds >= size:
            text = many(seconds // size, unit)
            return f"{text} ago" if now_ms >= timestamp_ms else f"in {text}"
    return "now"


def local_text(timestamp_ms: int, zone: tzinfo | None = None) -> str:
    """A timestamp in a time zone, by default that of the machine, to the second.

    >>> local_text(1715940000123, UTC)
    '2024-05-17 10:00:00'
    """
    try:
        timestamp = _EPOCH + timedelta(milliseconds=timestamp_ms)
        return f"{timestamp.astimezone(zone):%Y-%m-%d %H:%M:%S}"
    except OverflowError:  # a long of milliseconds has years that datetime does not
        return millis_to_text(timestamp_ms)


def iso_text(timestamp_ms: int) -> str:
    """A timestamp for programs: ISO 8601, UTC, milliseconds.

    >>> iso_text(0)
    '1970-01-01T00:00:00.000Z'
    """
    seconds = millis_to_text(timestamp_ms).split(".")[0].replace(" UTC", "").replace(" ", "T")
    return f"{seconds}.{timestamp_ms % 1000:03d}Z"
