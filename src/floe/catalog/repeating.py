"""Calls that may happen twice: sent again when their answer is lost, so that the outcome is known in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from floe.errors import CommitStateUnknown, OutcomeUnknown

__all__ = ["repeated"]

T = TypeVar("T")

_ATTEMPTS: Final = 3


def repeated(action: Callable[[], T], what: str, **context: str) -> T:
    """What a call gives that does the same however often it happens; `CommitStateUnknown` if no answer ever comes.

    >>> def lost():
    ...     raise OutcomeUnknown("the answer was lost")
    >>> repeated(lost, "the namespace's properties", namespace="db")
    Traceback (most recent call last):
    floe.errors.CommitStateUnknown: the namespace's properties may have been changed or not: the storage did not answer
    (namespace: db); look before doing it again
    """
    lost: OutcomeUnknown | None = None
    for _ in range(_ATTEMPTS):
        try:
            return action()
        except OutcomeUnknown as error:
            lost = error
    raise CommitStateUnknown(
        f"{what} may have been changed or not: the storage did not answer",
        hint="look before doing it again",
        **context,
    ) from lost
