"""The base of storages that stand in front of another one: each call goes through two places that can be changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import BinaryIO, TypeVar

from floe.errors import FloeError, StorageError
from floe.storage.protocol import Data, Deletion, FileInfo, FileWriter, Storage

__all__ = ["StorageWrapper"]

T = TypeVar("T")


class StorageWrapper:
    """A storage that passes every call on; by itself it changes nothing.

    Subclasses change `_locate` (which file is really meant, or a refusal) and `_run` (how the call is made). What
    comes back tells locations as they were asked for.

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
        """As the storage behind."""
        return self.storage.creates_exclusively

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """The whole file."""
        inner = self._locate("read", location)
        return self._run("read", location, lambda: self.storage.read(inner, max_bytes=max_bytes))

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """A part of the file."""
        inner = self._locate("read_range", location)
        return self._run("read_range", location, lambda: self.storage.read_range(inner, offset, length))

    def open_read(self, location: str) -> BinaryIO:
        """The file, seekable."""
        inner = self._locate("open_read", location)
        return self._run("open_read", location, lambda: self.storage.open_read(inner))

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """A stream for a new file."""
        inner = self._locate("open_write", location)
        return self._run("open_write", location, lambda: self.storage.open_write(inner, overwrite=overwrite))

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """A whole file."""
        inner = self._locate("write", location)
        self._run("write", location, lambda: self.storage.write(inner, data, overwrite=overwrite))

    def create(self, location: str, data: Data) -> None:
        """A new file, if there is none."""
        inner = self._locate("create", location)
        self._run("create", location, lambda: self.storage.create(inner, data))

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Deletes the files; those that may not be touched are told as failures, and the others deleted."""
        asked = list(locations)
        inner: dict[int, str] = {}
        outcomes: dict[int, Deletion] = {}
        for index, location in enumerate(asked):
            try:
                inner[index] = self._locate("delete_many", location)
            except FloeError as error:
                failure = error if isinstance(error, StorageError) else StorageError(error.message, location=location)
                outcomes[index] = Deletion(location, failure)
        if inner:
            first = asked[next(iter(inner))]
            done = self._run("delete_many", first, lambda: self.storage.delete_many(list(inner.values())))
            outcomes.update(
                (index, replace(deletion, location=asked[index])) for index, deletion in zip(inner, done, strict=True)
            )
        return [outcomes[index] for index in range(len(asked))]

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """The files below a folder."""
        inner = self._locate("list", prefix)
        return self._run("list", prefix, lambda: self.storage.list(inner))

    def folders(self, prefix: str) -> Iterator[str]:
        """The names of the folders below a folder."""
        inner = self._locate("folders", prefix)
        return self._run("folders", prefix, lambda: self.storage.folders(inner))

    def make_folder(self, location: str) -> None:
        """Makes a folder."""
        inner = self._locate("make_folder", location)
        self._run("make_folder", location, lambda: self.storage.make_folder(inner))

    def remove_folder(self, location: str) -> None:
        """Removes an empty folder."""
        inner = self._locate("remove_folder", location)
        self._run("remove_folder", location, lambda: self.storage.remove_folder(inner))

    def stat(self, location: str) -> FileInfo:
        """The file's size and time."""
        inner = self._locate("stat", location)
        return replace(self._run("stat", location, lambda: self.storage.stat(inner)), location=location)

    def exists(self, location: str) -> bool:
        """Whether there is a file."""
        inner = self._locate("exists", location)
        return self._run("exists", location, lambda: self.storage.exists(inner))

    def _locate(self, operation: str, location: str) -> str:
        """The location that the storage behind is asked for."""
        return location

    def _run(self, operation: str, location: str, action: Callable[[], T]) -> T:
        """Makes the call."""
        return action()
