"""The clock, ids, sleep and random numbers of a program, injected so that tests can make runs reproducible.

Code that needs the time, a new id, a pause or a random number takes an `Environment`; nothing else reads the system's
clock.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

MAX_SNAPSHOT_ID = 2**63 - 1


class Clock(Protocol):
    """A source of the current time."""

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""


class Ids(Protocol):
    """A source of unique ids."""

    def uuid(self) -> uuid.UUID:
        """A random UUID (version 4)."""

    def snapshot_id(self) -> int:
        """A snapshot id: a random positive 63-bit number."""


class SystemClock:
    """The system's clock.

    >>> SystemClock().now_ms() > 1_700_000_000_000
    True
    """

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, by the system's clock."""
        return time.time_ns() // 1_000_000


class SystemIds:
    """Ids from the system's source of randomness.

    >>> SystemIds().uuid().version, 0 < SystemIds().snapshot_id() < 2**63
    (4, True)
    """

    def uuid(self) -> uuid.UUID:
        """A random UUID (version 4)."""
        return uuid.uuid4()

    def snapshot_id(self) -> int:
        """Both halves of a random UUID combined by XOR, as in Java Iceberg."""
        return _snapshot_id_from(self.uuid())


class ManualClock:
    """A clock that moves by `step_ms` at each call, and by any amount with `advance`.

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
        """The current time; the clock then moves by one step."""
        with self._lock:
            now = self._now
            self._now += self._step
            return now

    def advance(self, ms: int) -> None:
        """Move the clock forwards, or backwards if negative."""
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
        return _snapshot_id_from(self.uuid())


@dataclass(frozen=True)
class Environment:
    """A clock, a source of ids, a way to sleep, and random numbers (`random` returns numbers from 0 up to 1).

    >>> Environment().clock.now_ms() > 0
    True
    """

    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=SystemIds)
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random


def deterministic_environment(seed: int = 0, *, start_ms: int = 1_700_000_000_000) -> Environment:
    """An environment that is the same in every run with the same seed; sleeping only moves its clock.

    >>> environment = deterministic_environment(start_ms=1_000)
    >>> environment.sleep(2.5)
    >>> environment.clock.now_ms()
    3500
    """
    clock = ManualClock(start_ms)
    numbers = random.Random(seed)
    return Environment(
        clock=clock,
        ids=SeededIds(seed),
        sleep=lambda seconds: clock.advance(round(seconds * 1000)),
        random=numbers.random,
    )


def _snapshot_id_from(value: uuid.UUID) -> int:
    """Both halves of a UUID in one positive number, never 0 (some readers take 0 for "no snapshot")."""
    return ((value.int >> 64) ^ (value.int & (2**64 - 1))) & MAX_SNAPSHOT_ID or 1
