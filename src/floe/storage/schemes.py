"""Tables whose files lie in several places: each location goes to the storage of its scheme."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import BinaryIO

from floe.errors import FloeError, InvalidInput, PathNotAllowed, StorageError
from floe.storage.locations import parse
from floe.storage.protocol import Data, Deletion, FileInfo, FileWriter, Storage

__all__ = ["RoutedStorage"]


class RoutedStorage:
    """A storage made of several, by canonical scheme (`file`, `s3`, `gs`, `abfs`, …); no other scheme is touched.

    >>> from floe.storage.memory import MemoryStorage
    >>> hot, cold = MemoryStorage(), MemoryStorage()
    >>> storage = RoutedStorage({"file": hot, "s3": cold})
    >>> storage.write("/wh/a", b"hot")
    >>> storage.write("s3a://bucket/a", b"cold")
    >>> hot.read("/wh/a"), cold.read("s3://bucket/a")
    (b'hot', b'cold')
    >>> storage.read("gs://bucket/a")
    Traceback (most recent call last):
    floe.errors.PathNotAllowed: no storage was given for gs: (location: gs://bucket/a)
    """

    def __init__(self, storages: Mapping[str, Storage]) -> None:
        if not storages:
            raise InvalidInput("at least one storage is needed")
        self.storages = dict(storages)

    def __repr__(self) -> str:
        return f"RoutedStorage({self.storages!r})"

    @property
    def creates_exclusively(self) -> bool:
        """Whether all of them do."""
        return all(storage.creates_exclusively for storage in self.storages.values())

    def storage_of(self, location: str) -> Storage:
        """The storage that a location goes to."""
        scheme = parse(location).scheme
        found = self.storages.get(scheme)
        if found is None:
            raise PathNotAllowed(f"no storage was given for {scheme}:", location=location)
        return found

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """The whole file."""
        return self.storage_of(location).read(location, max_bytes=max_bytes)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """A part of the file."""
        return self.storage_of(location).read_range(location, offset, length)

    def open_read(self, location: str) -> BinaryIO:
        """The file, seekable."""
        return self.storage_of(location).open_read(location)

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """A stream for a new file."""
        return self.storage_of(location).open_write(location, overwrite=overwrite)

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """A whole file."""
        self.storage_of(location).write(location, data, overwrite=overwrite)

    def create(self, location: str, data: Data) -> None:
        """A new file, if there is none."""
        self.storage_of(location).create(location, data)

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Deletes the files, each storage's together."""
        asked = list(locations)
        outcomes: dict[int, Deletion] = {}
        groups: dict[int, tuple[Storage, list[int]]] = {}
        for index, location in enumerate(asked):
            try:
                storage = self.storage_of(location)
                groups.setdefault(id(storage), (storage, []))[1].append(index)
            except FloeError as error:
                failure = error if isinstance(error, StorageError) else StorageError(error.message, location=location)
                outcomes[index] = Deletion(location, failure)
        for storage, indexes in groups.values():
            done = storage.delete_many([asked[index] for index in indexes])
            outcomes.update((i, replace(d, location=asked[i])) for i, d in zip(indexes, done, strict=True))
        return [outcomes[index] for index in range(len(asked))]

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """The files below a folder."""
        return self.storage_of(prefix).list(prefix)

    def folders(self, prefix: str) -> Iterator[str]:
        """The names of the folders below a folder."""
        return self.storage_of(prefix).folders(prefix)

    def make_folder(self, location: str) -> None:
        """Makes a folder."""
        self.storage_of(location).make_folder(location)

    def remove_folder(self, location: str) -> None:
        """Removes an empty folder."""
        self.storage_of(location).remove_folder(location)

    def stat(self, location: str) -> FileInfo:
        """The file's size and time."""
        return self.storage_of(location).stat(location)

    def exists(self, location: str) -> bool:
        """Whether there is a file."""
        return self.storage_of(location).exists(location)
