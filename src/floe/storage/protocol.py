"""The storage protocol: the calls through which Floe reads, writes, lists and deletes files, and what they return.

Locations are text in any spelling that `floe.storage.locations` understands. All calls are synchronous, may be made
from several threads, and raise only errors of `floe.errors`.

| call | promise |
|---|---|
| `create` | creates the file only if it does not exist (`FileAlreadyExists`); atomic; durable when it returns; sent once, never retried; `OutcomeUnknown` when the answer was lost |
| `write` | writes a complete file, never visible in part; replaces a file only with `overwrite=True` |
| `open_write` | a stream; the file is visible after `close`, and never after `abort` or an exception |
| `delete_many` | a missing file counts as deleted; other failures are reported for each file |
| `list` | all files below a folder, in path order; a missing folder is empty; unfinished files are not listed |
"""  # noqa: E501 (a table)

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, Protocol, Self, TypeAlias, runtime_checkable

from floe.errors import FileAlreadyExists, FileTooLarge, FloeError, InvalidInput, StorageError, UnsupportedFeature
from floe.storage.environment import Ids, SystemIds
from floe.storage.locations import join

Data: TypeAlias = bytes | bytearray | memoryview
"""Bytes to write."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file: its location (spelled as in the request), size in bytes and modification time."""

    location: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Deletion:
    """The outcome of deleting one file; without an error, the file does not exist any more.

    >>> Deletion("/wh/t/data/a.parquet").deleted
    True
    """

    location: str
    error: StorageError | None = None

    @staticmethod
    def failed(location: str, error: FloeError) -> Deletion:
        """The outcome of a deletion that failed with any error of Floe."""
        failure = error if isinstance(error, StorageError) else StorageError(error.message, location=location)
        return Deletion(location, failure)

    @property
    def deleted(self) -> bool:
        """Whether the file does not exist any more (or did not exist before)."""
        return self.error is None


class FileWriter:
    """A file being written: invisible until `close`, and discarded if `abort` is called or the block raises.

    It has the methods that pyarrow and other writers need of a binary file (`write`, `tell`, `flush`, `closed`). A
    storage implements `_append`, `_publish` and `_discard`.

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
        """Append the bytes and return their number."""
        self._check_open()
        count = memoryview(data).nbytes
        self._append(data)
        self._size += count
        return count

    def close(self) -> None:
        """Publish the file; closing twice does nothing."""
        if not self._closed:
            self._closed = True
            self._publish()

    def abort(self) -> None:
        """Discard what was written; does nothing after `close`."""
        if not self._closed:
            self._closed = True
            self._discard()

    def tell(self) -> int:
        """The number of bytes written so far."""
        return self._size

    def flush(self) -> None:
        """Do nothing: the file is published by `close`."""

    @property
    def closed(self) -> bool:
        """Whether the file was closed or aborted."""
        return self._closed

    def readable(self) -> bool:
        """False: a file being written cannot be read."""
        return False

    def writable(self) -> bool:
        """Whether the file is still open."""
        return not self._closed

    def seekable(self) -> bool:
        """False: bytes are only appended."""
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
        # A writer that is garbage collected before `close` was not finished: its bytes must not become a file.
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
    """Files of a local disk, an object store, …; the table in the module says what each call promises."""

    @property
    def creates_exclusively(self) -> bool:
        """Whether `create` is atomic; where it is not, a catalog must not commit by creating files."""

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """Read a complete file; `FileTooLarge`, before anything is read, if it has more than `max_bytes`."""

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """Read `length` bytes from `offset` on; fewer if the file ends before."""

    def open_read(self, location: str) -> BinaryIO:
        """Open a file as a seekable binary file that reads byte ranges on demand."""

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """Open a stream for a new file; see `FileWriter`."""

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """Write a complete file under a name that no other writer uses; `FileAlreadyExists` without `overwrite`."""

    def create(self, location: str, data: Data) -> None:
        """Create a file if it does not exist: the atomic step by which file-system tables commit."""

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Delete files; return the outcome of each, in the same order."""

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """List all files below a folder, at any depth, in path order."""

    def folders(self, prefix: str) -> Iterator[str]:
        """List the names of the folders directly below a folder, sorted."""

    def make_folder(self, location: str) -> None:
        """Create a folder and its parents; does nothing where folders are only parts of names."""

    def remove_folder(self, location: str) -> None:
        """Remove an empty folder; does nothing if it is missing, and raises if it is not empty."""

    def stat(self, location: str) -> FileInfo:
        """Return a file's size and modification time; `NoSuchFile` if it does not exist."""

    def exists(self, location: str) -> bool:
        """Whether the file exists (a folder is not a file)."""


# used by all storages ------------------------------------------------------------------------------------------------


def check_range(location: str, offset: int, length: int) -> None:
    """Raise for a negative offset or length: they come from metadata, which is not trusted.

    >>> check_range("/wh/a", -1, 10)
    Traceback (most recent call last):
    floe.errors.InvalidInput: cannot read 10 bytes from offset -1 (location: /wh/a)
    """
    if offset < 0 or length < 0:
        raise InvalidInput(f"cannot read {length} bytes from offset {offset}", location=location)


def check_size(location: str, size: int, max_bytes: int | None) -> None:
    """Raise if a file is larger than a read may take into memory.

    >>> check_size("/wh/a", 5, 4)
    Traceback (most recent call last):
    floe.errors.FileTooLarge: the file has 5 bytes, at most 4 are allowed (location: /wh/a)
    """
    if max_bytes is not None and size > max_bytes:
        raise FileTooLarge(f"the file has {size} bytes, at most {max_bytes} are allowed", location=location)


def file_exists_error(location: str) -> FileAlreadyExists:
    """The error for a file that is to be created and exists."""
    return FileAlreadyExists("the file already exists", location=location)


# exclusive creation --------------------------------------------------------------------------------------------------

PROBE_PREFIX = ".floe-probe-"


def verify_exclusive_creation(storage: Storage, folder: str, *, ids: Ids | None = None) -> None:
    """Raise `UnsupportedFeature` unless the store really creates files exclusively: a second `create` must fail.

    Some S3-compatible servers accept `If-None-Match` and ignore it; two writers would then overwrite each other's
    commits. A catalog tries it once, before its first commit to a warehouse.

    >>> from floe.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> verify_exclusive_creation(storage, "memory:wh")
    >>> list(storage.list("memory:wh"))
    []
    """
    if not storage.creates_exclusively:
        raise _not_exclusive(folder)
    location = join(folder, f"{PROBE_PREFIX}{(ids or SystemIds()).uuid().hex}")
    try:
        storage.create(location, b"first")
        storage.create(location, b"second")
    except FileAlreadyExists:
        return
    finally:
        storage.delete_many([location])
    raise _not_exclusive(folder)


def _not_exclusive(folder: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        "this store does not create files exclusively, so writers would overwrite each other's commits",
        hint="use a catalog in a database, or a store with conditional writes (If-None-Match)",
        location=folder,
    )
