"""Trying again: reads and writes that may be repeated, with growing pauses; a `create` never.

| call | after `StorageUnavailable` | after `OutcomeUnknown` |
|---|---|---|
| read, range, stat, exists, listings | again | – |
| `delete_many` | again, for the files that failed | again: deleting twice is deleting once |
| `write` | again | again; finding the very same bytes there is success |
| `create` | never: it is the swap by which a commit is published | never: the caller reads to find out |
| `open_write` | opening again; the stream itself not | – |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from floe.errors import FileAlreadyExists, NoSuchFile, OutcomeUnknown, StorageError
from floe.storage.environment import Environment
from floe.storage.protocol import Data, Deletion, FileInfo, Storage
from floe.storage.range_files import open_ranges
from floe.storage.wrapping import StorageWrapper

__all__ = ["RetryPolicy", "Retrying"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and with what pauses (seconds): each is twice as long as the one before, and cut by chance.

    The pause is drawn between half of its length and the whole, so that many clients that failed together do not come
    back together. No new attempt starts after `total` seconds.

    >>> policy = RetryPolicy(first_pause=0.1, longest_pause=1.0)
    >>> [policy.pause(failures, chance=1.0) for failures in (1, 2, 3, 9)]
    [0.1, 0.2, 0.4, 1.0]
    >>> policy.pause(3, chance=0.0)
    0.2
    """

    attempts: int = 5
    first_pause: float = 0.1
    longest_pause: float = 5.0
    total: float = 60.0

    def pause(self, failures: int, chance: float) -> float:
        """How long to wait after so many failures; `chance` lies between 0 and 1."""
        whole = min(self.longest_pause, self.first_pause * 2.0 ** min(failures - 1, 60))
        return whole * (0.5 + chance / 2)


class Retrying(StorageWrapper):
    """A storage that repeats what may be repeated; time, pauses and chance come from the environment.

    >>> from floe.storage.environment import deterministic_environment
    >>> from floe.storage.memory import MemoryStorage
    >>> from floe.testing.faults import Fault, FaultyStorage
    >>> faulty = FaultyStorage(MemoryStorage(), Fault.BEFORE, at=1)
    >>> storage = Retrying(faulty, environment=deterministic_environment())
    >>> storage.write("memory:a", b"abc")
    >>> [call.operation for call in faulty.calls]
    ['write', 'write']
    """

    def __init__(
        self, storage: Storage, *, policy: RetryPolicy | None = None, environment: Environment | None = None
    ) -> None:
        super().__init__(storage)
        self.policy = policy or RetryPolicy()
        self._environment = environment or Environment()

    def open_read(self, location: str) -> BinaryIO:
        """The file, each of whose range reads is tried again on its own."""
        return open_ranges(self, location)

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """The files below a folder; a listing that breaks off is begun again and goes on where it was.

        That needs a store that lists in order; from one that does not, the error is passed on.
        """
        last = ""
        broken: StorageError | None = None
        failures = _Failures(self.policy, self._environment)
        while True:
            previous = ""
            try:
                for info in self.storage.list(prefix):
                    if broken is not None and info.location <= previous:
                        raise broken
                    previous = info.location
                    if broken is None or info.location > last:
                        last = info.location
                        yield info
                return
            except StorageError as error:
                if error is broken:
                    raise
                failures.wait_after(error)
                broken = error

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """A whole file; on later attempts, finding the same bytes under the name means that an earlier one arrived."""
        failures = _Failures(self.policy, self._environment)
        while True:
            try:
                return self.storage.write(location, data, overwrite=overwrite)
            except FileAlreadyExists:
                if failures.count and self._holds(location, data):
                    return None
                raise
            except StorageError as error:
                failures.wait_after(error, unknown_too=True)

    def create(self, location: str, data: Data) -> None:
        """A new file; sent once."""
        self.storage.create(location, data)

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Deletes the files; those that failed for the moment are tried again."""
        asked = list(locations)
        outcomes: dict[int, Deletion] = {}
        failures = _Failures(self.policy, self._environment)
        while len(outcomes) < len(asked):
            waiting = [index for index in range(len(asked)) if index not in outcomes]
            try:
                done = dict(zip(waiting, self.storage.delete_many([asked[i] for i in waiting]), strict=True))
                error = next((d.error for d in done.values() if d.error is not None and _passes(d.error)), None)
            except StorageError as whole:
                done, error = {}, whole
            if error is not None and failures.may_try_again(error, unknown_too=True):
                outcomes.update((i, d) for i, d in done.items() if d.error is None or not _passes(d.error))
                failures.wait()
            elif done:
                outcomes.update(done)
            elif error is not None:
                raise error
        return [outcomes[index] for index in range(len(asked))]

    def _run(self, operation: str, location: str, action: Callable[[], T]) -> T:
        failures = _Failures(self.policy, self._environment)
        while True:
            try:
                return action()
            except StorageError as error:
                failures.wait_after(error)

    def _holds(self, location: str, data: Data) -> bool:
        """Whether the file is there with these bytes."""
        try:
            return self._run("read", location, lambda: self.storage.read(location)) == bytes(data)
        except NoSuchFile:
            return False


class _Failures:
    """Counts one call's failures and waits between its attempts."""

    def __init__(self, policy: RetryPolicy, environment: Environment) -> None:
        self.count = 0
        self._policy, self._environment = policy, environment
        self._started_ms = environment.clock.now_ms()

    def may_try_again(self, error: StorageError, *, unknown_too: bool = False) -> bool:
        """Counts a failure, and says whether another attempt is due."""
        self.count += 1
        passes = error.retryable or (unknown_too and isinstance(error, OutcomeUnknown))
        spent = (self._environment.clock.now_ms() - self._started_ms) / 1000
        return passes and self.count < self._policy.attempts and spent < self._policy.total

    def wait(self) -> None:
        self._environment.sleep(self._policy.pause(self.count, self._environment.random()))

    def wait_after(self, error: StorageError, *, unknown_too: bool = False) -> None:
        """Waits before the next attempt, or raises the error when there is none."""
        if not self.may_try_again(error, unknown_too=unknown_too):
            raise error.with_context(attempts=self.count) if self.count > 1 else error
        self.wait()


def _passes(error: StorageError) -> bool:
    """Whether a deletion's error may pass."""
    return error.retryable or isinstance(error, OutcomeUnknown)
