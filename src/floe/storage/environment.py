"""Time, chance and ids: what makes a run differ from the next, injected so that a test or simulation can fix it.

Code that needs the time, a new id, a pause or a random number takes an `Environment`; nothing reads the system's clock
on its own.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

__all__ = [
    "Clock",
    "Environment",
    "Ids",
    "ManualClock",
    "SeededIds",
    "SystemClock",
    "SystemIds",
    "deterministic_environment",
]

MAX_SNAPSHOT_ID = 2**63 - 1


class Clock(Protocol):
    """Tells the time."""

    def now_ms(self) -> int:
        """Milliseconds from 1970-01-01 UTC."""


class Ids(Protocol):
    """Makes ids that nobody else has."""

    def uuid(self) -> uuid.UUID:
        """A random UUID (version 4)."""

    def snapshot_id(self) -> int:
        """A snapshot id: a random positive 63-bit number."""


class SystemClock:
    """The machine's clock.

    >>> SystemClock().now_ms() > 1_700_000_000_000
    True
    """

    def now_ms(self) -> int:
        """The machine's time."""
        return time.time_ns() // 1_000_000


class SystemIds:
    """Ids from the machine's source of randomness.

    >>> SystemIds().uuid().version, 0 < SystemIds().snapshot_id() < 2**63
    (4, True)
    """

    def uuid(self) -> uuid.UUID:
        """A random UUID."""
        return uuid.uuid4()

    def snapshot_id(self) -> int:
        """The two halves of a random UUID, folded, as Java Iceberg makes them."""
        return _folded(self.uuid())


class ManualClock:
    """A clock that goes on by `step_ms` each time it is asked, and jumps when told to.

    >>> clock = ManualClock(1_000, step_ms=5)
    >>> clock.now_ms(), clock.now_ms()
    (1000, 1005)
    >>> clock.advance(60_000)
    >>> clock.now_ms()
    61010
    """

    def __init__(self, start_ms: int = 1_700_000_000_000, *, step_ms: int = 1) -> None:
        self._now = start_ms
        self._step = step_ms
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """The time it stands at; then it goes a step on."""
        with self._lock:
            now = self._now
            self._now += self._step
            return now

    def advance(self, ms: int) -> None:
        """Goes on (or back, if negative)."""
        with self._lock:
            self._now += ms


class SeededIds:
    """Ids that are the same in every run with the same seed.

    >>> SeededIds(7).uuid() == SeededIds(7).uuid(), SeededIds(7).snapshot_id() == SeededIds(8).snapshot_id()
    (True, False)
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def uuid(self) -> uuid.UUID:
        """The next UUID of the seed."""
        with self._lock:
            return uuid.UUID(int=self._random.getrandbits(128), version=4)

    def snapshot_id(self) -> int:
        """The next snapshot id of the seed."""
        return _folded(self.uuid())


@dataclass(frozen=True)
class Environment:
    """The clock, the ids, how to wait, and chance (`random` gives numbers from 0 up to 1).

    >>> Environment().clock.now_ms() > 0
    True
    """

    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=SystemIds)
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random


def deterministic_environment(seed: int = 0, *, start_ms: int = 1_700_000_000_000) -> Environment:
    """An environment whose runs repeat; waiting moves its clock on and takes no time.

    >>> environment = deterministic_environment(start_ms=1_000)
    >>> environment.sleep(2.5)
    >>> environment.clock.now_ms()
    3500
    """
    clock = ManualClock(start_ms)
    chance = random.Random(seed)
    return Environment(
        clock=clock,
        ids=SeededIds(seed),
        sleep=lambda seconds: clock.advance(round(seconds * 1000)),
        random=chance.random,
    )


def _folded(value: uuid.UUID) -> int:
    """Both halves of a UUID in one positive number, never 0 (some readers take 0 for none)."""
    return ((value.int >> 64) ^ (value.int & (2**64 - 1))) & MAX_SNAPSHOT_ID or 1
