"""The form of the uuids that identify tables, views and files."""

from __future__ import annotations

import re
from typing import Final

from floe.errors import InvalidUpdate

__all__ = ["UUID_PATTERN", "check_uuid", "is_uuid"]

UUID_PATTERN: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
"""A regular expression, without groups."""

_UUID: Final = re.compile(UUID_PATTERN)


def is_uuid(text: str) -> bool:
    """Whether a text is a uuid in its usual form, of whatever version.

    >>> is_uuid("9c12d441-03fe-4693-9a96-a0705ddf69c1"), is_uuid("9c12d44103fe46939a96a0705ddf69c1")
    (True, False)
    """
    return _UUID.fullmatch(text) is not None


def check_uuid(text: str) -> None:
    """Raise unless a text is a uuid.

    >>> check_uuid("mine")
    Traceback (most recent call last):
    floe.errors.InvalidUpdate: 'mine' is not a uuid
    """
    if not is_uuid(text):
        raise InvalidUpdate(f"{text[:80]!r} is not a uuid")
