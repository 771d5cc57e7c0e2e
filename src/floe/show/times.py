"""Moments as people read them: the clock on their wall, and how long ago.

>>> ago(1_000, now_ms=63_000), ago(0, now_ms=90 * 60_000), ago(5_000, now_ms=0)
('1 minute ago', '1 hour ago', 'in 5 seconds')
>>> iso_text(1715940000123)
'2024-05-17T10:00:00.123Z'
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from floe.table.amounts import many
from floe.table.moments import millis_text

__all__ = ["ago", "iso_text", "local_text"]

_UNITS: Final = (
    ("year", 365 * 86_400),
    ("month", 30 * 86_400),
    ("day", 86_400),
    ("hour", 3_600),
    ("minute", 60),
    ("second", 1),
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def ago(moment_ms: int, *, now_ms: int) -> str:
    """How long ago a moment was, roughly: in the largest unit that there is a whole one of.

    >>> ago(0, now_ms=400), ago(0, now_ms=3 * 86_400_000)
    ('now', '3 days ago')
    """
    seconds = abs(now_ms - moment_ms) // 1000
    for unit, size in _UNITS:
        if seconds >= size:
            text = many(seconds // size, unit)
            return f"{text} ago" if now_ms >= moment_ms else f"in {text}"
    return "now"


def local_text(moment_ms: int, zone: tzinfo | None = None) -> str:
    """A moment in a time zone, by default that of the machine; seconds are the smallest part.

    >>> local_text(1715940000123, UTC)
    '2024-05-17 10:00:00'
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=moment_ms)
        return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S}"
    except OverflowError:  # the format has years that datetime does not
        return millis_text(moment_ms)


def iso_text(moment_ms: int) -> str:
    """A moment for programs: ISO 8601, UTC, milliseconds.

    >>> iso_text(0)
    '1970-01-01T00:00:00.000Z'
    """
    return millis_text(moment_ms).split(".")[0].replace(" UTC", "").replace(" ", "T") + f".{moment_ms % 1000:03d}Z"
