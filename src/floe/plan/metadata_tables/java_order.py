"""The order in which Java's hash map gives its keys: the ids of readable metrics are handed out in it.

The ids of the fields within `readable_metrics` are nowhere stored, but who filters or projects by id, or compares
schemas, wants those that the reference implementation gives.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["hash_map_order"]

_SMALLEST_TABLE = 16


def hash_map_order(names: Iterable[str]) -> list[str]:
    """The names, which were put into a `java.util.HashMap` in this order, as the map gives them.

    >>> hash_map_order(["b", "a", "id"])
    ['a', 'b', 'id']
    """
    listed = list(names)
    buckets = _SMALLEST_TABLE
    while len(listed) > buckets * 3 // 4:  # the table doubles when it is three quarters full
        buckets *= 2
    return sorted(listed, key=lambda name: _spread(_hash_code(name)) & (buckets - 1))


def _hash_code(text: str) -> int:
    """Java's `String.hashCode`, over UTF-16 units."""
    data = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for high, low in zip(data[::2], data[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code


def _spread(code: int) -> int:
    return code ^ (code >> 16)
