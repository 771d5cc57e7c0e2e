"""Storages that wrap another storage: the base class, retries, and prefix maps for moved tables.

`StorageWrapper` passes every call on; `Retrying`, `PrefixMap` and `floe.storage.access.Access` override some calls.
`Retrying` retries these calls, with growing pauses:

| call | after `StorageUnavailable` | after `OutcomeUnknown` |
|---|---|---|
| `read`, `read_range`, `stat`, `exists`, listings | yes | – |
| `delete_many` | yes, the files that failed | yes: deleting twice is the same as once |
| `write` | yes | yes; finding the very same bytes is success |
| `create` | never: it is the atomic step that publishes a commit | never: the caller reads to find out |
| `open_write` | opening the stream, but not the stream itself | – |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, TypeVar

from floe.errors import FileAlreadyExists, FloeError, InvalidInput, NoSuchFile, OutcomeUnknown, StorageError
from floe.storage.environment import Environment
from floe.storage.file_objects import open_ranges
from floe.storage.locations import Location, parse
from floe.storage.protocol import Data, Deletion, FileInfo, FileWriter, Storage

T = TypeVar("T")


class StorageWrapper:
    """A storage that passes every call on to another one; by itself it changes nothing.

    Subclasses override `_locate` (the location to pass on, or an error) and `_run` (how the call is made). Results have
    the locations of the request.

    >>> from floe.storage.memory import MemoryStorage
    >>> storage = StorageWrapper(MemoryStorage())
    >>> storage.create("memory:a", b"abc")
    >>> storage.stat("memory:a").size
    3
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.storage!r})"

    @property
    def creates_exclusively(self) -> bool:
        """Whether the wrapped storage creates files exclusively."""
        return self.storage.creates_exclusively

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """Read a complete file."""
        inner = self._locate("read", location)
        return self._run("read", location, lambda: self.storage.read(inner, max_bytes=max_bytes))

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """Read a byte range."""
        inner = self._locate("read_range", location)
        return self._run("read_range", location, lambda: self.storage.read_range(inner, offset, length))

    def open_read(self, location: str) -> BinaryIO:
        """Open a file for reading."""
        inner = self._locate("open_read", location)
        return self._run("open_read", location, lambda: self.storage.open_read(inner))

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """Open a stream for a new file."""
        inner = self._locate("open_write", location)
        return self._run("open_write", location, lambda: self.storage.open_write(inner, overwrite=overwrite))

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """Write a complete file."""
        inner = self._locate("write", location)
        self._run("write", location, lambda: self.storage.write(inner, data, overwrite=overwrite))

    def create(self, location: str, data: Data) -> None:
        """Create a file if it does not exist."""
        inner = self._locate("create", location)
        self._run("create", location, lambda: self.storage.create(inner, data))

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Delete files; those that may not be deleted are reported as failures, the others are deleted."""
        requested = list(locations)
        inner: dict[int, str] = {}
        outcomes: dict[int, Deletion] = {}
        for index, location in enumerate(requested):
            try:
                inner[index] = self._locate("delete_many", location)
            except FloeError as error:
                outcomes[index] = Deletion.failed(location, error)
        if inner:
            first = requested[next(iter(inner))]
            deletions = self._run("delete_many", first, lambda: self.storage.delete_many(list(inner.values())))
            for index, deletion in zip(inner, deletions, strict=True):
                outcomes[index] = replace(deletion, location=requested[index])
        return [outcomes[index] for index in range(len(requested))]

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """List the files below a folder."""
        inner = self._locate("list", prefix)
        return self._run("list", prefix, lambda: self.storage.list(inner))

    def folders(self, prefix: str) -> Iterator[str]:
        """List the names of the folders below a folder."""
        inner = self._locate("folders", prefix)
        return self._run("folders", prefix, lambda: self.storage.folders(inner))

    def make_folder(self, location: str) -> None:
        """Create a folder and its parents."""
        inner = self._locate("make_folder", location)
        self._run("make_folder", location, lambda: self.storage.make_folder(inner))

    def remove_folder(self, location: str) -> None:
        """Remove an empty folder."""
        inner = self._locate("remove_folder", location)
        self._run("remove_folder", location, lambda: self.storage.remove_folder(inner))

    def stat(self, location: str) -> FileInfo:
        """Return a file's size and modification time."""
        inner = self._locate("stat", location)
        return replace(self._run("stat", location, lambda: self.storage.stat(inner)), location=location)

    def exists(self, location: str) -> bool:
        """Whether the file exists."""
        inner = self._locate("exists", location)
        return self._run("exists", location, lambda: self.storage.exists(inner))

    def _locate(self, operation: str, location: str) -> str:
        """The location that is passed to the wrapped storage."""
        return location

    def _run(self, operation: str, location: str, action: Callable[[], T]) -> T:
        """Call the wrapped storage through `action`, for example with retries or with context added to errors."""
        return action()


# retries -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of attempts, and the pauses between them in seconds: each twice as long as the one before.

    A pause is shortened at random by up to a half, so that many clients that failed at once do not retry at once. No
    attempt starts after `total` seconds.

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
        """The seconds to wait after a number of failures; `chance` is a random number between 0 and 1."""
        longest = min(self.longest_pause, self.first_pause * 2.0 ** min(failures - 1, 60))
        return longest * (0.5 + chance / 2)


class Retrying(StorageWrapper):
    """A storage that retries calls that failed; the time and the pauses come from the environment.

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
        """Open a file whose range reads are each retried."""
        return open_ranges(self, location)

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """List the files below a folder; a listing that breaks off is started again and continues where it was.

        That needs a store that lists in order; from one that does not, the error is raised.
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
        """Write a complete file; on a retry, finding the same bytes means that an earlier attempt succeeded."""
        failures = _Failures(self.policy, self._environment)
        while True:
            try:
                return self.storage.write(location, data, overwrite=overwrite)
            except FileAlreadyExists:
                if failures.count and self._holds(location, data):
                    return None
                raise
            except StorageError as error:
                failures.wait_after(error, unknown_outcome=True)

    def create(self, location: str, data: Data) -> None:
        """Create a file; the request is sent once and never retried."""
        self.storage.create(location, data)

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Delete files; deletions that failed with a transient error are retried."""
        requested = list(locations)
        outcomes: dict[int, Deletion] = {}
        failures = _Failures(self.policy, self._environment)
        while len(outcomes) < len(requested):
            pending = [index for index in range(len(requested)) if index not in outcomes]
            attempt: dict[int, Deletion] = {}
            error: StorageError | None
            try:
                deletions = self.storage.delete_many([requested[index] for index in pending])
                attempt = dict(zip(pending, deletions, strict=True))
                error = next(
                    (d.error for d in attempt.values() if d.error is not None and _is_transient(d.error)), None
                )
            except StorageError as call_error:
                error = call_error
            if error is not None and failures.may_retry(error, unknown_outcome=True):
                outcomes.update((i, d) for i, d in attempt.items() if d.error is None or not _is_transient(d.error))
                failures.wait()
            elif attempt:
                outcomes.update(attempt)
            elif error is not None:
                raise error
        return [outcomes[index] for index in range(len(requested))]

    def _run(self, operation: str, location: str, action: Callable[[], T]) -> T:
        failures = _Failures(self.policy, self._environment)
        while True:
            try:
                return action()
            except StorageError as error:
                failures.wait_after(error)

    def _holds(self, location: str, data: Data) -> bool:
        """Whether the file exists with these bytes."""
        try:
            return self._run("read", location, lambda: self.storage.read(location)) == bytes(data)
        except NoSuchFile:
            return False


class _Failures:
    """The failures of one call, and the pauses between its attempts."""

    def __init__(self, policy: RetryPolicy, environment: Environment) -> None:
        self.count = 0
        self._policy, self._environment = policy, environment
        self._started_ms = environment.clock.now_ms()

    def may_retry(self, error: StorageError, *, unknown_outcome: bool = False) -> bool:
        """Count a failure, and return whether the call may be retried; `unknown_outcome` includes `OutcomeUnknown`."""
        self.count += 1
        retryable = error.retryable or (unknown_outcome and isinstance(error, OutcomeUnknown))
        elapsed = (self._environment.clock.now_ms() - self._started_ms) / 1000
        return retryable and self.count < self._policy.attempts and elapsed < self._policy.total

    def wait(self) -> None:
        """Sleep before the next attempt."""
        self._environment.sleep(self._policy.pause(self.count, self._environment.random()))

    def wait_after(self, error: StorageError, *, unknown_outcome: bool = False) -> None:
        """Sleep before the next attempt, or raise the error if there is none."""
        if not self.may_retry(error, unknown_outcome=unknown_outcome):
            raise error.with_context(attempts=self.count) if self.count > 1 else error
        self.wait()


def _is_transient(error: StorageError) -> bool:
    """Whether a deletion that failed with this error may succeed later."""
    return error.retryable or isinstance(error, OutcomeUnknown)


# moved tables --------------------------------------------------------------------------------------------------------


class PrefixMap(StorageWrapper):
    """A storage for tables that were moved or copied: recorded folders are mapped to where the files are now.

    The longest matching folder wins. All spellings of a recorded folder are mapped (`/old`, `file:/old`,
    `file:///old`), by full names and after `..` is resolved. Listings and other results have the recorded locations.
    Files that are written go to the new folder.

    >>> from floe.storage.memory import MemoryStorage
    >>> files = MemoryStorage()
    >>> files.write("memory:copy/t/data/a", b"abc")
    >>> storage = PrefixMap(files, {"/floe-corpus/": "memory:copy/"})
    >>> storage.read("file:///floe-corpus/t/data/a")
    b'abc'
    >>> [info.location for info in storage.list("file:/floe-corpus/t/")]
    ['file:/floe-corpus/t/data/a']
    """

    def __init__(self, storage: Storage, prefixes: Mapping[str, str]) -> None:
        super().__init__(storage)
        self.prefixes = dict(prefixes)
        rules = [(parse(recorded), parse(actual)) for recorded, actual in prefixes.items()]
        if len({str(recorded).rstrip("/") for recorded, _ in rules}) < len(rules):
            raise InvalidInput("a prefix is mapped twice", prefixes=", ".join(prefixes))
        self._rules = sorted(rules, key=lambda rule: -len(rule[0].folder))

    def __repr__(self) -> str:
        return f"PrefixMap({self.storage!r}, {self.prefixes!r})"

    def actual(self, location: str) -> str:
        """The actual location of a recorded one.

        >>> from floe.storage.local import LocalStorage
        >>> PrefixMap(LocalStorage(), {"s3://b/wh": "/tmp/wh"}).actual("s3a://b/wh/t/a")
        '/tmp/wh/t/a'
        """
        parsed = parse(location)
        for recorded, target in self._rules:
            if recorded.contains(parsed):
                return _move(parsed, recorded, target)
        return location

    def recorded(self, location: str) -> str:
        """The recorded location of an actual one.

        >>> from floe.storage.local import LocalStorage
        >>> PrefixMap(LocalStorage(), {"s3://b/wh": "/tmp/wh"}).recorded("file:/tmp/wh/t/a")
        's3://b/wh/t/a'
        """
        parsed = parse(location)
        for recorded, target in sorted(self._rules, key=lambda rule: -len(rule[1].folder)):
            if target.contains(parsed):
                return _move(parsed, target, recorded)
        return location

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """List the files below a folder, at their recorded locations, spelled as the folder is."""
        recorded, actual = parse(prefix), parse(self.actual(prefix))
        for info in super().list(prefix):
            relative = parse(info.location).path[len(actual.folder) :]
            yield replace(info, location=recorded.spelled(recorded.folder + relative))

    def _locate(self, operation: str, location: str) -> str:
        return self.actual(location)

    def _run(self, operation: str, location: str, action: Callable[[], T]) -> T:
        try:
            return action()
        except FloeError as error:
            if self.actual(location) != location:
                error.with_context(recorded_as=location)
            raise


def _move(location: Location, source: Location, target: Location) -> str:
    """The location with the source folder replaced by the target folder."""
    relative = location.path[len(source.folder) :]
    return target.spelled(target.folder + relative if relative else target.path)
