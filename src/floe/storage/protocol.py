"""What a storage can do: the one protocol through which Floe touches files, and the values that it gives back.

Locations are text in any spelling that `floe.storage.locations` understands. All calls are synchronous, may be made
from several threads, and raise only errors of `floe.errors`.

What the calls promise:

| call | promise |
|---|---|
| `create` | creates the file only if there is none (`FileAlreadyExists`); all or nothing; on disk when it returns; sent once, never repeated; `OutcomeUnknown` when the answer was lost |
| `write` | a whole file at once, never seen half; replaces a file only with `overwrite=True` |
| `open_write` | a stream; nothing is seen until `close`, nothing ever after `abort` or an exception |
| `delete_many` | a file that is not there counts as deleted; other failures are told per file |
| `list` | all files below a folder, in path order; a missing folder is an empty one; unfinished files are not listed |
"""  # noqa: E501 (a table)

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, Protocol, Self, TypeAlias, runtime_checkable

from floe.errors import StorageError

__all__ = ["Data", "Deletion", "FileInfo", "FileWriter", "Storage"]

Data: TypeAlias = bytes | bytearray | memoryview
"""What can be written: any block of bytes."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file's location (spelled as it was asked for), its size in bytes and when it was last written."""

    location: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Deletion:
    """What became of one file that was to be deleted; without an error, it is not there any more.

    >>> Deletion("/wh/t/data/a.parquet").deleted
    True
    """

    location: str
    error: StorageError | None = None

    @property
    def deleted(self) -> bool:
        """Whether the file is gone (now, or before)."""
        return self.error is None


class FileWriter:
    """A file being written: seen by nobody until `close`, and never if `abort` is called or the block raises.

    It has what pyarrow and the other writers of files ask of a binary file (`write`, `tell`, `flush`, `closed`). A
    storage says in `_append`, `_publish` and `_discard` what to do with the bytes.

    >>> from floe.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> with storage.open_write("memory:t/a") as file:
    ...     _ = file.write(b"abc")
    ...     storage.exists("memory:t/a")
    False
    >>> storage.read("memory:t/a"), file.tell()
    (b'abc', 3)
    """

    mode = "wb"

    def __init__(self, location: str) -> None:
        self.location = location
        self._size = 0
        self._closed = False

    def write(self, data: Data) -> int:
        """Adds the bytes, and says how many there were."""
        self._check_open()
        count = memoryview(data).nbytes
        self._append(data)
        self._size += count
        return count

    def close(self) -> None:
        """Publishes the file; closing twice does nothing."""
        if not self._closed:
            self._closed = True
            self._publish()

    def abort(self) -> None:
        """Throws away what was written; after `close`, does nothing."""
        if not self._closed:
            self._closed = True
            self._discard()

    def tell(self) -> int:
        """The number of bytes written so far."""
        return self._size

    def flush(self) -> None:
        """Does nothing: the bytes count from `close` on."""

    @property
    def closed(self) -> bool:
        """Whether the file was closed or aborted."""
        return self._closed

    def readable(self) -> bool:
        """False: a file being written cannot be read."""
        return False

    def writable(self) -> bool:
        """True until the file is closed."""
        return not self._closed

    def seekable(self) -> bool:
        """False: bytes are only added."""
        return False

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        # A writer that is forgotten was not finished, so what it wrote must not become a file.
        if not getattr(self, "_closed", True):
            self.abort()

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"the file is closed: {self.location}")

    def _append(self, data: Data) -> None:
        raise NotImplementedError

    def _publish(self) -> None:
        raise NotImplementedError

    def _discard(self) -> None:
        raise NotImplementedError


@runtime_checkable
class Storage(Protocol):
    """Files, wherever they are; the module's table says what each call promises."""

    @property
    def creates_exclusively(self) -> bool:
        """Whether `create` is atomic here; a catalog must not commit by creating files where it is not."""

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """The whole file; `FileTooLarge` before reading when it has more than `max_bytes`."""

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """The bytes from `offset` on, `length` or as many as there are before the file ends."""

    def open_read(self, location: str) -> BinaryIO:
        """The file as a seekable binary file that reads ranges as they are asked for."""

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """A stream for a new file; see `FileWriter`."""

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """A whole file under a name that nobody else writes; `FileAlreadyExists` unless it may be overwritten."""

    def create(self, location: str, data: Data) -> None:
        """Creates the file if there is none of that name: the swap by which file-system tables commit."""

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Deletes the files and tells the outcome of each, in the order given."""

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """All files below the folder, at any depth, in path order."""

    def folders(self, prefix: str) -> Iterator[str]:
        """The names of the folders directly below the folder, sorted."""

    def make_folder(self, location: str) -> None:
        """Makes a folder and those above it; does nothing where folders are only parts of names."""

    def remove_folder(self, location: str) -> None:
        """Removes an empty folder; one that is not there is fine, one that is not empty is an error."""

    def stat(self, location: str) -> FileInfo:
        """The file's size and time; `NoSuchFile` if there is none."""

    def exists(self, location: str) -> bool:
        """Whether there is a file of that name (a folder is not a file)."""
