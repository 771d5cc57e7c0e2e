"""Files in memory: for tests, the simulator and examples; the promises are those of a real store."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from floe.errors import FileAlreadyExists, FileTooLarge, FloeError, NoSuchFile, StorageError
from floe.storage.environment import Clock, SystemClock
from floe.storage.locations import parse
from floe.storage.protocol import Data, Deletion, FileInfo, FileWriter
from floe.storage.range_checks import check_range

__all__ = ["MemoryStorage"]


class MemoryStorage:
    """Files in a dictionary, by canonical location; any scheme will do, so a test may use the locations it likes.

    Times come from the clock. Safe to use from several threads.

    >>> storage = MemoryStorage()
    >>> storage.create("memory:t/v1", b"one")
    >>> storage.write("s3://bucket/t/v1", b"two")
    >>> storage.read("s3a://bucket/t/v1")
    b'two'
    >>> [info.location for info in storage.list("memory:t")]
    ['memory:t/v1']
    >>> storage.create("memory:/t/v1", b"other")
    Traceback (most recent call last):
    floe.errors.FileAlreadyExists: there is a file of that name already (location: memory:/t/v1)
    """

    creates_exclusively = True

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._files: dict[str, tuple[bytes, int]] = {}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"MemoryStorage({len(self._files)} files)"

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """The whole file."""
        data, _ = self._file(location)
        if max_bytes is not None and len(data) > max_bytes:
            raise FileTooLarge(f"the file has {len(data)} bytes, and {max_bytes} are allowed", location=location)
        return data

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """A part of the file, shorter where the file ends."""
        check_range(location, offset, length)
        return self._file(location)[0][offset : offset + length]

    def open_read(self, location: str) -> BinaryIO:
        """The file as it is now."""
        return io.BytesIO(self._file(location)[0])

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """A stream into a buffer that `close` publishes."""
        _key(location)
        if not overwrite and self.exists(location):
            raise _taken(location)
        return _MemoryWriter(self, location, overwrite)

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """A whole file."""
        key, content, now = _key(location), bytes(data), self._clock.now_ms()
        with self._lock:
            if not overwrite and key in self._files:
                raise _taken(location)
            self._files[key] = (content, now)

    def create(self, location: str, data: Data) -> None:
        """A new file; of several creators one wins."""
        self.write(location, data)

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Deletes the files."""
        return [Deletion(location, self._delete(location)) for location in locations]

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """The files below a folder, as they are when the listing starts."""
        location = parse(prefix)
        start = str(location).removesuffix(location.path)
        for key, (data, modified_ms) in self._below(prefix):
            yield FileInfo(location.spelled(key.removeprefix(start)), len(data), modified_ms)

    def folders(self, prefix: str) -> Iterator[str]:
        """The first names of the longer paths below a folder."""
        skip = len(_folder(prefix))
        below = (key[skip:].partition("/") for key, _ in self._below(prefix))
        return iter(sorted({name for name, slash, _ in below if slash}))

    def make_folder(self, location: str) -> None:
        """Does nothing: folders are parts of names."""

    def remove_folder(self, location: str) -> None:
        """Refuses if there are files below."""
        if next(self._below(location), None) is not None:
            raise StorageError("the folder is not empty", location=location)

    def stat(self, location: str) -> FileInfo:
        """The file's size and time."""
        data, modified_ms = self._file(location)
        return FileInfo(location, len(data), modified_ms)

    def exists(self, location: str) -> bool:
        """Whether there is a file."""
        return str(parse(location)) in self._files

    def _file(self, location: str) -> tuple[bytes, int]:
        found = self._files.get(str(parse(location)))
        if found is None or location.endswith("/"):
            raise NoSuchFile("no such file", location=location)
        return found

    def _delete(self, location: str) -> StorageError | None:
        try:
            key = _key(location)
        except StorageError as error:
            return error
        except FloeError as error:
            return StorageError(error.message, location=location)
        with self._lock:
            self._files.pop(key, None)
        return None

    def _below(self, prefix: str) -> Iterator[tuple[str, tuple[bytes, int]]]:
        start = _folder(prefix)
        with self._lock:
            found = sorted(item for item in self._files.items() if item[0].startswith(start))
        return iter(found)


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
    """The dictionary's key for a file; what ends in a slash names a folder."""
    if location.endswith("/"):
        raise NoSuchFile("a folder is not a file", location=location)
    return str(parse(location))


def _folder(prefix: str) -> str:
    """What the keys of all files below a folder start with."""
    location = parse(prefix)
    return str(location).removesuffix(location.path) + location.folder


def _taken(location: str) -> FileAlreadyExists:
    return FileAlreadyExists("there is a file of that name already", location=location)
