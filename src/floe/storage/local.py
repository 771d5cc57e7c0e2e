"""Local disk: atomic creation by hard link, and files that are on the disk before anybody sees them.

A file is written under a hidden temporary name in its own folder, flushed to disk (`fsync`), published in one step and
the folder flushed too, so that after a crash or power failure it is there whole or not at all:

- `create`, and everything that may not overwrite, publishes with `link`, which fails if the name is taken. On network
  file systems an answer can be lost and the repeated request then finds its own link; so a refused link counts as done
  when the name leads to the very file that was to be linked.
- `overwrite=True` publishes with `rename`, which replaces.
- File systems without hard links (some FUSE and FAT mounts) get exclusive opening (`O_EXCL`) instead: still only one
  creator wins, but a crash in the middle can leave a file that is cut short.

Temporary names start with `.floe-tmp-`: hidden to Spark, Hadoop and to `list`. What a crash leaves of them is found by
`leftovers`. New files get the modes that the user's umask allows.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat as modes
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO, cast

from floe.errors import (
    AccessDenied,
    FileAlreadyExists,
    FileTooLarge,
    InvalidLocation,
    NoSuchFile,
    OutcomeUnknown,
    StorageError,
)
from floe.storage.locations import Location, parse
from floe.storage.protocol import Data, Deletion, FileInfo, FileWriter
from floe.storage.range_checks import check_range
from floe.storage.system_errors import translated, translating

__all__ = ["TEMPORARY_PREFIX", "WHERE_LOCAL_IS", "LocalStorage"]

WHERE_LOCAL_IS = (
    "local: is below a folder that only Trino's setting local.location tells: "
    "name it with prefixes={'local:///': '/that/folder'}"
)
TEMPORARY_PREFIX = ".floe-tmp-"
_WRITE_BUFFER = 1024 * 1024
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_MAY_NOT_MAKE = {
    errno.ENOENT: "nobody can make folders in",
    errno.EACCES: "you may not write in",
    errno.EPERM: "you may not write in",
    errno.EROFS: "nothing can be written in",
}
_NO_FOLDER_FSYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF}
# A pipe or a device must be refused, not waited for: hence no blocking, and a look at what was opened.
_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class LocalStorage:
    """The files of this machine.

    `durable=False` leaves out the flushing to disk: for throw-away tables, where a power failure does not matter.

    >>> import tempfile
    >>> storage = LocalStorage()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     storage.create(f"file:{folder}/t/v1.metadata.json", b"{}")
    ...     storage.create(f"{folder}/t/v1.metadata.json", b"{}")
    Traceback (most recent call last):
    floe.errors.FileAlreadyExists: there is a file of that name already (location: ...)
    """

    creates_exclusively = True

    def __init__(self, *, durable: bool = True) -> None:
        self.durable = durable

    def __repr__(self) -> str:
        return f"LocalStorage(durable={self.durable})"

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """The whole file."""
        with self._open(location) as file, translating(location):
            size = os.fstat(file.fileno()).st_size
            if max_bytes is not None and size > max_bytes:
                raise FileTooLarge(f"the file has {size} bytes, and {max_bytes} are allowed", location=location)
            return file.read(size)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """A part of the file, shorter where the file ends."""
        check_range(location, offset, length)
        with self._open(location) as file, translating(location):
            available = max(0, os.fstat(file.fileno()).st_size - offset)
            file.seek(offset)
            return file.read(min(length, available))

    def open_read(self, location: str) -> BinaryIO:
        """The opened file."""
        return cast(BinaryIO, io.BufferedReader(self._open(location)))

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """A stream into a temporary file that `close` publishes."""
        path = _file_path(location)
        if not overwrite and os.path.lexists(path):
            raise _taken(location)
        return _LocalWriter(self, location, path, overwrite)

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """A whole file, published in one step."""
        with self.open_write(location, overwrite=overwrite) as file:
            file.write(data)

    def create(self, location: str, data: Data) -> None:
        """A new file; of several creators one wins and the others get `FileAlreadyExists`."""
        self.write(location, data)

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Deletes the files one by one."""
        return [Deletion(location, self._delete(location)) for location in locations]

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """The files below a folder; links to folders are not followed, so that a listing never leaves the folder."""
        return _walk(parse_local(prefix), lambda name: not name.startswith(TEMPORARY_PREFIX))

    def leftovers(self, prefix: str) -> Iterator[FileInfo]:
        """Temporary files below a folder: writes in progress, and what crashes left of them (tell by the time)."""
        return _walk(parse_local(prefix), lambda name: name.startswith(TEMPORARY_PREFIX))

    def folders(self, prefix: str) -> Iterator[str]:
        """The names of the folders (and links to folders) directly below a folder."""
        location = parse_local(prefix)
        with translating(location.text):
            return iter(sorted(entry.name for entry in _entries(location.path) if entry.is_dir()))

    def make_folder(self, location: str) -> None:
        """Makes the folder and those above it."""
        with translating(location):
            self._ensure_folder(parse_local(location).path)

    def remove_folder(self, location: str) -> None:
        """Removes the folder if it is empty."""
        path = parse_local(location).path
        with translating(location), contextlib.suppress(FileNotFoundError):
            os.rmdir(path)

    def stat(self, location: str) -> FileInfo:
        """The file's size and time."""
        path = _file_path(location)
        with translating(location):
            found = os.stat(path)
        _check_regular(location, found.st_mode)
        return FileInfo(location, found.st_size, found.st_mtime_ns // 1_000_000)

    def exists(self, location: str) -> bool:
        """Whether there is a file."""
        try:
            self.stat(location)
        except NoSuchFile:
            return False
        return True

    def _open(self, location: str) -> io.FileIO:
        path = _file_path(location)
        with translating(location):
            descriptor = os.open(path, _READ_FLAGS)
        try:
            _check_regular(location, os.fstat(descriptor).st_mode)
            return io.FileIO(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise

    def _delete(self, location: str) -> StorageError | None:
        try:
            path = _file_path(location)
            with translating(location), contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(path)
        except StorageError as error:
            return error
        except InvalidLocation as error:
            return StorageError(error.message, location=location)
        return None

    def _ensure_folder(self, path: str) -> None:
        """Makes a folder and, when durable, flushes each folder that got a new entry."""
        if os.path.isdir(path):
            return
        parent = os.path.dirname(path)
        if parent != path:
            self._ensure_folder(parent)
        try:
            os.mkdir(path)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in _MAY_NOT_MAKE or not os.path.isdir(parent):  # else it was removed meanwhile
                raise
            raise AccessDenied(
                f"the folder {path} cannot be made: {_MAY_NOT_MAKE[error.errno]} {parent}",
                hint=f"choose another place, or look who may write there: ls -ld {parent}",
            ) from None
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, "a file stands where a folder should be", path)
        self._flush_folder(parent)

    def _flush_folder(self, path: str) -> None:
        if not self.durable:
            return
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in _NO_FOLDER_FSYNC:
                raise
        finally:
            os.close(descriptor)

    def _publish(self, location: str, temporary: str, path: str, overwrite: bool) -> None:
        """Gives a finished temporary file its name, in one step, and flushes the folder."""
        try:
            if overwrite:
                os.replace(temporary, path)
            else:
                self._link(temporary, path)
        except FileExistsError:
            raise _taken(location) from None
        except OSError as error:
            failure = translated(error, location)
            if failure.retryable:  # the request may have gone through, as with a network file system that timed out
                raise _unknown(location, error) from error
            raise failure from error
        try:
            self._flush_folder(os.path.dirname(path))
        except OSError as error:
            raise _unknown(location, error) from error

    def _link(self, temporary: str, path: str) -> None:
        try:
            os.link(temporary, path, follow_symlinks=False)
        except OSError as error:
            if _is_linked(temporary, path):
                return
            if error.errno not in _NO_HARD_LINKS:
                raise
            self._copy_exclusively(temporary, path)

    def _copy_exclusively(self, temporary: str, path: str) -> None:
        """Where there are no hard links: only one creator can open the name, and it copies the bytes."""
        descriptor = os.open(path, _CREATE_FLAGS, 0o666)
        with open(temporary, "rb") as source, io.BufferedWriter(io.FileIO(descriptor, "wb")) as target:
            try:
                while block := source.read(_WRITE_BUFFER):
                    target.write(block)
                self._flush(target)
            except BaseException:
                os.unlink(path)
                raise

    def _flush(self, file: io.BufferedIOBase) -> None:
        file.flush()
        if self.durable:
            os.fsync(file.fileno())


class _LocalWriter(FileWriter):
    """A temporary file in the folder of its target."""

    def __init__(self, storage: LocalStorage, location: str, path: str, overwrite: bool) -> None:
        folder = os.path.dirname(path)
        self._temporary = os.path.join(folder, f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}")
        with translating(location):
            storage._ensure_folder(folder)
            descriptor = os.open(self._temporary, _CREATE_FLAGS, 0o666)
        self._file = io.BufferedWriter(io.FileIO(descriptor, "wb"), _WRITE_BUFFER)
        self._storage, self._path, self._overwrite = storage, path, overwrite
        super().__init__(location)

    def _append(self, data: Data) -> None:
        with translating(self.location):
            self._file.write(data)

    def _publish(self) -> None:
        try:
            with translating(self.location):
                self._storage._flush(self._file)
                self._file.close()
            self._storage._publish(self.location, self._temporary, self._path, self._overwrite)
        finally:
            self._discard()

    def _discard(self) -> None:
        with contextlib.suppress(OSError):  # what is left is hidden, and found by `leftovers`
            self._file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._temporary)


def parse_local(location: str) -> Location:
    """A location of the local disk; others are refused."""
    parsed = parse(location)
    if parsed.scheme != "file":
        raise InvalidLocation(
            f"not a file of the local disk: {parsed.scheme}:",
            hint=WHERE_LOCAL_IS if parsed.scheme == "local" else None,
            location=location,
        )
    return parsed


def _file_path(location: str) -> str:
    """The path of a file; what ends in a slash names a folder."""
    path = parse_local(location).path
    if location.endswith("/"):
        raise NoSuchFile("a folder is not a file", location=location)
    return path


def _check_regular(location: str, mode: int) -> None:
    if modes.S_ISDIR(mode):
        raise NoSuchFile("a folder is not a file", location=location)
    if not modes.S_ISREG(mode):
        raise StorageError("a pipe, socket or device is not a file that Floe reads", location=location)


def _is_linked(temporary: str, path: str) -> bool:
    try:
        return os.path.samestat(os.lstat(temporary), os.lstat(path))
    except OSError:
        return False


def _taken(location: str) -> FileAlreadyExists:
    return FileAlreadyExists("there is a file of that name already", location=location)


def _unknown(location: str, error: OSError) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the file may have been written or not: {error.strerror}",
        hint="read it to find out",
        location=location,
    )


def _entries(folder: str) -> Sequence[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _walk(location: Location, wanted: Callable[[str], bool]) -> Iterator[FileInfo]:
    """Files below a folder in the order of their whole paths: `a.txt` before `a/b`, as object stores list them."""
    stack = [iter(_sorted_entries(location, location.path))]
    while stack:
        entry = next(stack[-1], None)
        if entry is None:
            stack.pop()
        elif entry.is_dir(follow_symlinks=False):
            stack.append(iter(_sorted_entries(location, entry.path)))
        elif wanted(entry.name) and (info := _info(location, entry)) is not None:
            yield info


def _sorted_entries(location: Location, folder: str) -> Sequence[os.DirEntry[str]]:
    with translating(location.spelled(folder)):
        return sorted(_entries(folder), key=lambda e: e.name + "/" if e.is_dir(follow_symlinks=False) else e.name)


def _info(location: Location, entry: os.DirEntry[str]) -> FileInfo | None:
    """What is known of an entry; None for links that lead nowhere or to folders, and files deleted meanwhile."""
    try:
        found = entry.stat()
    except FileNotFoundError:
        return None
    if not modes.S_ISREG(found.st_mode):
        return None
    return FileInfo(location.spelled(entry.path), found.st_size, found.st_mtime_ns // 1_000_000)
