"""Files in memory, for tests and examples, with the guarantees of a real store."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from floe.errors import FloeError, NoSuchFile, StorageError
from floe.storage.environment import Clock, SystemClock
from floe.storage.locations import parse
from floe.storage.protocol import Data, Deletion, FileInfo, FileWriter, check_range, check_size, file_exists_error


class MemoryStorage:
    """Files in a dictionary, by canonical location; all schemes work, so a test can use any locations.

    Modification times come from the clock. Safe to use from several threads.

    >>> storage = MemoryStorage()
    >>> storage.create("memory:t/v1", b"one")
    >>> storage.write("s3://bucket/t/v1", b"two")
    >>> storage.read("s3a://bucket/t/v1")
    b'two'
    >>> [info.location for info in storage.list("memory:t")]
    ['memory:t/v1']
    >>> storage.create("memory:/t/v1", b"other")
    Traceback (most recent call last):
    floe.errors.FileAlreadyExists: the file already exists (location: memory:/t/v1)
    """

    creates_exclusively = True

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._files: dict[str, tuple[bytes, int]] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"MemoryStorage({len(self._files)} files)"

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """Read a complete file."""
        data, _ = self._file(location)
        check_size(location, len(data), max_bytes)
        return data

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """Read a byte range, shorter at the end of the file."""
        check_range(location, offset, length)
        return self._file(location)[0][offset : offset + length]

    def open_read(self, location: str) -> BinaryIO:
        """Open the current content of a file."""
        return io.BytesIO(self._file(location)[0])

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """Open a stream into a buffer that `close` publishes."""
        _key(location)
        if not overwrite and self.exists(location):
            raise file_exists_error(location)
        return _MemoryWriter(self, location, overwrite)

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """Write a complete file."""
        key, content, now = _key(location), bytes(data), self._clock.now_ms()
        with self._lock:
            if not overwrite and key in self._files:
                raise file_exists_error(location)
            self._files[key] = (content, now)

    def create(self, location: str, data: Data) -> None:
        """Create a file; of several creators one wins."""
        self.write(location, data)

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Delete files; missing files count as deleted."""
        return [self._delete(location) for location in locations]

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """List the files below a folder, as of the start of the listing."""
        location = parse(prefix)
        start = str(location).removesuffix(location.path)
        for key, (data, modified_ms) in self._below(prefix):
            yield FileInfo(location.spelled(key.removeprefix(start)), len(data), modified_ms)

    def folders(self, prefix: str) -> Iterator[str]:
        """List the first names of the longer paths below a folder."""
        skip = len(_folder(prefix))
        below = (key[skip:].partition("/") for key, _ in self._below(prefix))
        return iter(sorted({name for name, slash, _ in below if slash}))

    def make_folder(self, location: str) -> None:
        """Do nothing: folders are parts of names."""

    def remove_folder(self, location: str) -> None:
        """Raise if there are files below the folder."""
        if next(self._below(location), None) is not None:
            raise StorageError("the folder is not empty", location=location)

    def stat(self, location: str) -> FileInfo:
        """Return a file's size and modification time."""
        data, modified_ms = self._file(location)
        return FileInfo(location, len(data), modified_ms)

    def exists(self, location: str) -> bool:
        """Whether the file exists."""
        return str(parse(location)) in self._files

    def _file(self, location: str) -> tuple[bytes, int]:
        file = self._files.get(str(parse(location)))
        if file is None or location.endswith("/"):
            raise NoSuchFile("no such file", location=location)
        return file

    def _delete(self, location: str) -> Deletion:
        try:
            key = _key(location)
        except FloeError as error:
            return Deletion.failed(location, error)
        with self._lock:
            self._files.pop(key, None)
        return Deletion(location)

    def _below(self, prefix: str) -> Iterator[tuple[str, tuple[bytes, int]]]:
        start = _folder(prefix)
        with self._lock:
            return iter(sorted(item for item in self._files.items() if item[0].startswith(start)))


class _MemoryWriter(FileWriter):
    def __init__(self, storage: MemoryStorage, location: str, overwrite: bool) -> None:
        super().__init__(location)
        self._storage, self._overwrite = storage, overwrite
        self._buffer = bytearray()

    def _append(self, data: Data) -> None:
        self._buffer += data

    def _publish(self) -> None:
        self._storage.write(self.location, self._buffer, overwrite=self._overwrite)

    def _discard(self) -> None:
        self._buffer.clear()


def _key(location: str) -> str:
    """The key of a file in the dictionary; a location that ends in a slash is a folder."""
    if location.endswith("/"):
        raise NoSuchFile("a folder is not a file", location=location)
    return str(parse(location))


def _folder(prefix: str) -> str:
    """The prefix of the keys of all files below a folder."""
    location = parse(prefix)
    return str(location).removesuffix(location.path) + location.folder
