"""Storages that fail on purpose: at the n-th call, before or after it happened, or without telling.

A test runs an operation once with a `FaultyStorage` that never fails, to count its calls; then once for every call and
every kind of fault. Whatever happens, no acknowledged commit may be lost and none doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import BinaryIO, TypeVar

from floe.errors import OutcomeUnknown, StorageError, StorageUnavailable
from floe.storage.protocol import Data, Deletion, FileInfo, FileWriter, Storage
from floe.storage.range_files import open_ranges
from floe.storage.wrapping import StorageWrapper

__all__ = ["Call", "Fault", "FaultyStorage", "SimulatedCrash"]

T = TypeVar("T")

_WRITES = frozenset({"write", "create", "close_write", "delete_many"})


class Fault(Enum):
    """What goes wrong with a call."""

    BEFORE = "before"
    """It fails, and nothing happened: `StorageUnavailable`."""

    LOST_ANSWER = "lost answer"
    """It happens, and the answer is lost: `OutcomeUnknown` for writes, `StorageUnavailable` for reads."""

    LOST_REQUEST = "lost request"
    """It does not happen, and nobody can tell: `OutcomeUnknown` for writes, `StorageUnavailable` for reads."""

    DELAYED = "delayed"
    """As a lost answer, but a write happens only after the next call (or at `settle`)."""

    TWICE = "twice"
    """It is delivered twice, as when a transport re-sends, and the second answer is told: a `create` that succeeded
    then says `FileAlreadyExists`."""

    CRASH_BEFORE = "crash before"
    """The process ends before it happened: `SimulatedCrash`, here and at every later call."""

    CRASH_AFTER = "crash after"
    """The process ends after it happened."""


class SimulatedCrash(BaseException):
    """The process ended here; not an `Exception`, so that no handler of the code under test survives it."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a storage."""

    operation: str
    location: str


class FaultyStorage(StorageWrapper):
    """A storage that counts its calls, and fails at the `at`-th (from 1) of those that `only` names (default: all).

    Streams count as `open_write` and `close_write`; reads of an opened file count as `read_range`.

    >>> from floe.storage.memory import MemoryStorage
    >>> files = MemoryStorage()
    >>> storage = FaultyStorage(files, Fault.LOST_ANSWER, at=1, only={"create"})
    >>> storage.exists("memory:v1")
    False
    >>> storage.create("memory:v1", b"1")
    Traceback (most recent call last):
    floe.errors.OutcomeUnknown: a fault was injected: lost answer (location: memory:v1, operation: create)
    >>> files.read("memory:v1"), [call.operation for call in storage.calls]
    (b'1', ['exists', 'create'])
    """

    def __init__(
        self, storage: Storage, fault: Fault | None = None, *, at: int = 0, only: Iterable[str] | None = None
    ) -> None:
        super().__init__(storage)
        self.fault, self.at = fault, at
        self.only = None if only is None else frozenset(only)
        self.calls: list[Call] = []
        self.happened = False
        self._matching = 0
        self._crashed = False
        self._pending: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"FaultyStorage({self.storage!r}, {self.fault}, at={self.at})"

    def settle(self) -> None:
        """Lets delayed writes happen now."""
        pending, self._pending = self._pending, []
        for action in pending:
            try:
                action()
            except StorageError:
                continue  # a write that comes too late and fails, fails unheard

    def open_read(self, location: str) -> BinaryIO:
        """The file, whose reads may fail too."""
        return open_ranges(self, location)

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """A stream, whose closing may fail too."""
        return _FaultyWriter(self, super().open_write(location, overwrite=overwrite))

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Deletes the files; an empty list is no call."""
        asked = list(locations)
        return super().delete_many(asked) if asked else []

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """The files below a folder, listed at once."""
        return iter(self._run("list", prefix, lambda: list(self.storage.list(prefix))))

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """A whole file, whose bytes are taken now even if the write is delayed."""
        super().write(location, bytes(data), overwrite=overwrite)

    def create(self, location: str, data: Data) -> None:
        """A new file, whose bytes are taken now even if the creation is delayed."""
        super().create(location, bytes(data))

    def _run(self, operation: str, location: str, action: Callable[[], T]) -> T:
        if self._crashed:
            raise SimulatedCrash("the process ended before")
        self.calls.append(Call(operation, location))
        if self.only is None or operation in self.only:
            self._matching += 1
            if self.fault is not None and not self.happened and self._matching == self.at:
                self.happened = True
                return self._fail(self.fault, operation, location, action)
        try:
            return action()
        finally:
            self.settle()

    def _fail(self, fault: Fault, operation: str, location: str, action: Callable[[], T]) -> T:
        kind = OutcomeUnknown if operation in _WRITES and fault is not Fault.BEFORE else StorageUnavailable
        error = kind(f"a fault was injected: {fault.value}", location=location, operation=operation)
        if fault in (Fault.LOST_ANSWER, Fault.CRASH_AFTER, Fault.TWICE):
            result = action()
            if fault is Fault.TWICE:
                return action() if operation in _WRITES - {"close_write"} else result
        elif fault is Fault.DELAYED and operation in _WRITES:
            self._pending.append(action)
        if fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            self._crashed = True
            raise SimulatedCrash(f"{fault.value}: {operation} {location}")
        raise error


class _FaultyWriter(FileWriter):
    """A stream whose closing is a call of its own."""

    def __init__(self, storage: FaultyStorage, inner: FileWriter) -> None:
        super().__init__(inner.location)
        self._storage, self._inner = storage, inner

    def _append(self, data: Data) -> None:
        self._inner.write(data)

    def _publish(self) -> None:
        self._storage._run("close_write", self.location, self._inner.close)

    def _discard(self) -> None:
        self._inner.abort()
