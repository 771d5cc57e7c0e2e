"""Counts and sizes as people read them.

>>> many(1, "row"), many(12345, "row"), size_text(999), size_text(1_234_567)
('1 row', '12,345 rows', '999 bytes', '1.2 MB')
"""

from __future__ import annotations

__all__ = ["many", "size_text"]


def many(count: int, what: str) -> str:
    """How many of something there are.

    >>> many(0, "data file")
    '0 data files'
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def size_text(count: int) -> str:
    """A number of bytes, in the unit that suits it.

    >>> size_text(1), size_text(2_500_000_000_000_000)
    ('1 byte', '2500.0 TB')
    """
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return many(count, "byte") if unit == "bytes" else f"{size:.1f} {unit}"
