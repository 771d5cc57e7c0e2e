"""What every storage checks of a range before it reads."""

from __future__ import annotations

from floe.errors import InvalidInput

__all__ = ["check_range"]


def check_range(location: str, offset: int, length: int) -> None:
    """Refuses ranges that cannot be; they come from metadata, which is not trusted.

    >>> check_range("/wh/a", -1, 10)
    Traceback (most recent call last):
    floe.errors.InvalidInput: cannot read 10 bytes from offset -1 (location: /wh/a)
    """
    if offset < 0 or length < 0:
        raise InvalidInput(f"cannot read {length} bytes from offset {offset}", location=location)
