"""The uuids that identify tables, views and files: their form, and whether a thing is still the one that was known."""

from __future__ import annotations

import re
from typing import Final

from floe.errors import InvalidUpdate, NoSuchTable, NoSuchView

__all__ = ["UUID_PATTERN", "check_same_table", "check_same_view", "check_uuid", "is_same_uuid", "is_uuid"]

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


def is_same_uuid(known: str | None, found: str | None) -> bool:
    """Whether a uuid that was found can be that of the table or view that is known.

    Old tables of version 1 may have none: they may get their first one, but no table ever loses its own.

    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> is_same_uuid(uuid, uuid.upper()), is_same_uuid(None, uuid), is_same_uuid(uuid, None)
    (True, True, False)
    """
    return known is None or (found is not None and found.lower() == known.lower())


def check_same_table(known: str | None, found: str | None, table: str) -> None:
    """Raise unless the table of that name has the uuid that it had when it was loaded (spec: `table-uuid`).

    >>> check_same_table("9c12d441-03fe-4693-9a96-a0705ddf69c1", "11111111-03fe-4693-9a96-a0705ddf69c1", "db.t")
    Traceback (most recent call last):
    floe.errors.NoSuchTable: the table that was loaded, with uuid 9c12d441-..., is not there any more: ...
    """
    if not is_same_uuid(known, found):
        raise NoSuchTable(_gone("table", known, found), hint=_LOAD_AGAIN.format("table"), table=table)


def check_same_view(known: str | None, found: str | None, view: str) -> None:
    """Raise unless the view of that name has the uuid that it had when it was loaded."""
    if not is_same_uuid(known, found):
        raise NoSuchView(_gone("view", known, found), hint=_LOAD_AGAIN.format("view"), view=view)


_LOAD_AGAIN: Final = "it was dropped or renamed: load the {0} again, and look at it before you change it"


def _gone(kind: str, known: str | None, found: str | None) -> str:
    other = "has no uuid" if found is None else f"has uuid {found}"
    return f"the {kind} that was loaded, with uuid {known}, is not there any more: the {kind} of that name now {other}"
