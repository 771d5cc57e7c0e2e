r"""Shorter bounds for strings and bytes, still below or above every value that they bound.

Writers keep bounds short (table property `write.metadata.metrics.default`, `truncate(16)`). A prefix is a lower bound
as it stands; an upper bound is a prefix with its last part counted up by one. Strings are cut by code points, never
inside one.

>>> from floe.spec.types import BINARY, STRING
>>> truncate_lower(STRING, "iceberg", 3), truncate_upper(STRING, "iceberg", 3)
('ice', 'icf')
>>> truncate_upper(BINARY, b"\x01\xff\xff", 2), truncate_upper(BINARY, b"\xff\xff\xff", 2)
(b'\x02', None)
"""

from __future__ import annotations

from typing import Any

from floe.errors import InvalidInput
from floe.spec.types import Type

__all__ = ["truncate_lower", "truncate_upper"]

_MAX_CODE_POINT = 0x10FFFF
_LAST_BEFORE_SURROGATES = 0xD7FF
_FIRST_BEHIND_SURROGATES = 0xE000


def truncate_lower(type_: Type, value: Any, length: int) -> Any:
    """The greatest prefix of `length` code points or bytes that is not above `value`; other types stay as they are.

    >>> from floe.spec.types import LONG, STRING
    >>> truncate_lower(STRING, "iceberg", 16), truncate_lower(LONG, 34, 1)
    ('iceberg', 34)
    """
    _check_length(length)
    return value[:length] if type_.kind in _COUNT_UP else value


def truncate_upper(type_: Type, value: Any, length: int) -> Any:
    r"""The least value of up to `length` code points or bytes that is not below `value`, or None where there is none.

    >>> from floe.spec.types import STRING
    >>> truncate_upper(STRING, "ab\U0010ffffc", 3)
    'ac'
    """
    _check_length(length)
    count_up = _COUNT_UP.get(type_.kind)
    if count_up is None or len(value) <= length:
        return value
    return count_up(value[:length])


def _string_above(prefix: str) -> str | None:
    """The least string above all that start with `prefix`."""
    prefix = prefix.rstrip(chr(_MAX_CODE_POINT))
    if not prefix:
        return None
    code = ord(prefix[-1])
    # surrogates are not characters: UTF-8 cannot encode them, so they are stepped over
    code = _FIRST_BEHIND_SURROGATES if _LAST_BEFORE_SURROGATES <= code < _FIRST_BEHIND_SURROGATES else code + 1
    return prefix[:-1] + chr(code)


def _bytes_above(prefix: bytes) -> bytes | None:
    """The least byte string above all that start with `prefix`."""
    prefix = prefix.rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None


# A fixed keeps its length: a shorter one would be no value of its type (and Java leaves it whole too).
_COUNT_UP: dict[str, Any] = {"string": _string_above, "binary": _bytes_above}


def _check_length(length: int) -> None:
    if length < 0:
        raise InvalidInput(f"a bound cannot be cut to {length} characters or bytes")
