"""The local disk: atomic creation by hard link, and files that are on the disk before they are visible.

A file is written under a hidden temporary name in its folder, flushed (`fsync`), published in one step, and the folder
is flushed too. After a crash or a power failure the file is complete or does not exist:

- `create`, and every write that may not overwrite, publishes with `link`, which fails if the name exists. On network
  file systems an answer can be lost, and the retried request finds its own link; so a refused link counts as success
  when the name leads to the very file that was to be linked.
- `overwrite=True` publishes with `rename`, which replaces.
- File systems without hard links (some FUSE and FAT mounts) get exclusive opening (`O_EXCL`) instead: still only one
  creator wins, but a crash in the middle can leave a truncated file.

Temporary names start with `.floe-tmp-`: hidden from Spark, Hadoop and `list`. `leftovers` finds those that a crash left
behind. New files get the modes that the user's umask allows.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import stat as modes
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, cast

from floe.errors import (
    AccessDenied,
    FileAlreadyExists,
    InvalidLocation,
    NoSuchFile,
    OutcomeUnknown,
    StorageError,
    StorageUnavailable,
)
from floe.storage.locations import Location, parse
from floe.storage.protocol import Data, Deletion, FileInfo, FileWriter, check_range, check_size, file_exists_error

# errors of the operating system --------------------------------------------------------------------------------------

_BY_ERRNO: dict[int, type[StorageError]] = {
    errno.ENOENT: NoSuchFile,
    errno.ENOTDIR: NoSuchFile,
    errno.EISDIR: NoSuchFile,
    errno.EEXIST: FileAlreadyExists,
    errno.EACCES: AccessDenied,
    errno.EPERM: AccessDenied,
    errno.EROFS: AccessDenied,
}
_TRANSIENT = (
    errno.EIO,
    errno.ESTALE,
    errno.ETIMEDOUT,
    errno.EAGAIN,
    errno.EBUSY,
    errno.EINTR,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ECONNRESET,
    errno.ECONNREFUSED,
    errno.ECONNABORTED,
    errno.EPIPE,
)
_BY_ERRNO.update(dict.fromkeys(_TRANSIENT, StorageUnavailable))
# Libraries raise the same classes without an errno.
_BY_CLASS: tuple[tuple[type[OSError], type[StorageError]], ...] = (
    (FileNotFoundError, NoSuchFile),
    (NotADirectoryError, NoSuchFile),
    (IsADirectoryError, NoSuchFile),
    (FileExistsError, FileAlreadyExists),
    (PermissionError, AccessDenied),
    (TimeoutError, StorageUnavailable),
    (ConnectionError, StorageUnavailable),
    (BlockingIOError, StorageUnavailable),
)
_MESSAGES: dict[type[StorageError], str] = {
    NoSuchFile: "no such file",
    FileAlreadyExists: "the file already exists",
}
_NOT_A_FOLDER = "a file exists where a folder is needed"
_PERCENT_HINT = "locations are not percent-decoded: write the name as it is on the disk"


def from_os_error(error: OSError, location: str) -> StorageError:
    """The error of `floe.errors` for an error of the operating system.

    >>> print(from_os_error(FileNotFoundError(errno.ENOENT, "No such file or directory"), "/wh/a"))
    no such file (location: /wh/a)
    >>> from_os_error(TimeoutError(errno.ETIMEDOUT, "Connection timed out"), "/wh/a").retryable
    True
    """
    by_class = (kind for os_class, kind in _BY_CLASS if isinstance(error, os_class))
    kind = _BY_ERRNO.get(error.errno or 0) or next(by_class, StorageError)
    message = (
        _NOT_A_FOLDER
        if error.errno == errno.ENOTDIR
        else _MESSAGES.get(kind) or (error.strerror or _words(type(error).__name__)).lower()
    )
    hint = _PERCENT_HINT if kind is NoSuchFile and "%" in location else None
    return kind(message, hint=hint, location=location)


def _words(name: str) -> str:
    """A class name as words: `ConnectionResetError` is `Connection Reset Error`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)


@contextmanager
def translate_os_errors(location: str) -> Iterator[None]:
    """Raise errors of the operating system as errors of `floe.errors`.

    >>> with translate_os_errors("/wh/a"):
    ...     raise PermissionError(errno.EACCES, "Permission denied")
    Traceback (most recent call last):
    floe.errors.AccessDenied: permission denied (location: /wh/a)
    """
    try:
        yield
    except OSError as error:
        raise from_os_error(error, location) from error


# files ---------------------------------------------------------------------------------------------------------------

LOCAL_SCHEME_HINT = (
    "local: is relative to a folder in Trino's setting local.location: "
    "pass it with prefixes={'local:///': '/that/folder'}"
)
TEMPORARY_PREFIX = ".floe-tmp-"
_WRITE_BUFFER = 1024 * 1024
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_WHY_NO_FOLDER = {
    errno.ENOENT: "no folders can be created in",
    errno.EACCES: "you have no permission to write in",
    errno.EPERM: "you have no permission to write in",
    errno.EROFS: "nothing can be written in the read-only folder",
}
_NO_FOLDER_FSYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF}
# Opening a pipe or a device must not block: it is refused after a look at what was opened.
_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class LocalStorage:
    """The files of this machine.

    `durable=False` skips `fsync`: for temporary tables, where a power failure does not matter.

    >>> import tempfile
    >>> storage = LocalStorage()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     storage.create(f"file:{folder}/t/v1.metadata.json", b"{}")
    ...     storage.create(f"{folder}/t/v1.metadata.json", b"{}")
    Traceback (most recent call last):
    floe.errors.FileAlreadyExists: the file already exists (location: ...)
    """

    creates_exclusively = True

    def __init__(self, *, durable: bool = True) -> None:
        self.durable = durable

    def __repr__(self) -> str:
        return f"LocalStorage(durable={self.durable})"

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """Read a complete file."""
        with self._open(location) as file, translate_os_errors(location):
            size = os.fstat(file.fileno()).st_size
            check_size(location, size, max_bytes)
            return file.read(size)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """Read a byte range, shorter at the end of the file."""
        check_range(location, offset, length)
        with self._open(location) as file, translate_os_errors(location):
            available = max(0, os.fstat(file.fileno()).st_size - offset)
            file.seek(offset)
            return file.read(min(length, available))

    def open_read(self, location: str) -> BinaryIO:
        """Open a file for reading."""
        return cast(BinaryIO, io.BufferedReader(self._open(location)))

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """Open a stream into a temporary file that `close` publishes."""
        path = _file_path(location)
        if not overwrite and os.path.lexists(path):
            raise file_exists_error(location)
        return _LocalWriter(self, location, path, overwrite)

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """Write a complete file, published in one step."""
        with self.open_write(location, overwrite=overwrite) as file:
            file.write(data)

    def create(self, location: str, data: Data) -> None:
        """Create a file; of several creators one wins, the others get `FileAlreadyExists`."""
        self.write(location, data)

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Delete files one by one."""
        return [self._delete(location) for location in locations]

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """List the files below a folder; links to folders are not followed, so a listing never leaves the folder."""
        return _walk(parse_local(prefix), lambda name: not name.startswith(TEMPORARY_PREFIX))

    def leftovers(self, prefix: str) -> Iterator[FileInfo]:
        """List temporary files below a folder: writes in progress, and leftovers of crashes (see their age)."""
        return _walk(parse_local(prefix), lambda name: name.startswith(TEMPORARY_PREFIX))

    def folders(self, prefix: str) -> Iterator[str]:
        """List the names of the folders (and links to folders) directly below a folder."""
        location = parse_local(prefix)
        with translate_os_errors(location.text):
            return iter(sorted(entry.name for entry in _entries(location.path) if entry.is_dir()))

    def make_folder(self, location: str) -> None:
        """Create a folder and its parents."""
        with translate_os_errors(location):
            self._ensure_folder(parse_local(location).path)

    def remove_folder(self, location: str) -> None:
        """Remove an empty folder."""
        path = parse_local(location).path
        with translate_os_errors(location), contextlib.suppress(FileNotFoundError):
            os.rmdir(path)

    def stat(self, location: str) -> FileInfo:
        """Return a file's size and modification time."""
        path = _file_path(location)
        with translate_os_errors(location):
            status = os.stat(path)
        _check_regular(location, status.st_mode)
        return FileInfo(location, status.st_size, status.st_mtime_ns // 1_000_000)

    def exists(self, location: str) -> bool:
        """Whether the file exists."""
        try:
            self.stat(location)
        except NoSuchFile:
            return False
        return True

    def _open(self, location: str) -> io.FileIO:
        path = _file_path(location)
        with translate_os_errors(location):
            descriptor = os.open(path, _READ_FLAGS)
        try:
            _check_regular(location, os.fstat(descriptor).st_mode)
            return io.FileIO(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise

    def _delete(self, location: str) -> Deletion:
        try:
            path = _file_path(location)
            with translate_os_errors(location), contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(path)
        except (StorageError, InvalidLocation) as error:
            return Deletion.failed(location, error)
        return Deletion(location)

    def _ensure_folder(self, path: str) -> None:
        """Create a folder and, when durable, flush each folder that got a new entry."""
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
            if error.errno not in _WHY_NO_FOLDER or not os.path.isdir(parent):  # the parent was removed meanwhile
                raise
            raise AccessDenied(
                f"the folder {path} cannot be created: {_WHY_NO_FOLDER[error.errno]} {parent}",
                hint=f"choose another location, or check its permissions: ls -ld {parent}",
            ) from None
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, _NOT_A_FOLDER, path)
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
        """Give a finished temporary file its name, in one step, and flush the folder."""
        try:
            if overwrite:
                os.replace(temporary, path)
            else:
                self._link(temporary, path)
        except FileExistsError:
            raise file_exists_error(location) from None
        except OSError as error:
            failure = from_os_error(error, location)
            if failure.retryable:  # on a network file system the request may have succeeded before it timed out
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
        """Publish without hard links: only one creator can open the name, and it copies the bytes."""
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
        with translate_os_errors(location):
            storage._ensure_folder(folder)
            descriptor = os.open(self._temporary, _CREATE_FLAGS, 0o666)
        self._file = io.BufferedWriter(io.FileIO(descriptor, "wb"), _WRITE_BUFFER)
        self._storage, self._path, self._overwrite = storage, path, overwrite
        super().__init__(location)

    def _append(self, data: Data) -> None:
        with translate_os_errors(self.location):
            self._file.write(data)

    def _publish(self) -> None:
        try:
            with translate_os_errors(self.location):
                self._storage._flush(self._file)
                self._file.close()
            self._storage._publish(self.location, self._temporary, self._path, self._overwrite)
        finally:
            self._discard()

    def _discard(self) -> None:
        with contextlib.suppress(OSError):  # a file that stays is hidden, and `leftovers` lists it
            self._file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._temporary)


def parse_local(location: str) -> Location:
    """Parse a location of the local disk; raise `InvalidLocation` for others."""
    parsed = parse(location)
    if parsed.scheme != "file":
        raise InvalidLocation(
            f"{parsed.scheme}: is not on the local disk",
            hint=LOCAL_SCHEME_HINT if parsed.scheme == "local" else None,
            location=location,
        )
    return parsed


def _file_path(location: str) -> str:
    """The path of a file; a location that ends in a slash is a folder."""
    path = parse_local(location).path
    if location.endswith("/"):
        raise NoSuchFile("a folder is not a file", location=location)
    return path


def _check_regular(location: str, mode: int) -> None:
    if modes.S_ISDIR(mode):
        raise NoSuchFile("a folder is not a file", location=location)
    if not modes.S_ISREG(mode):
        raise StorageError("a pipe, socket or device is not a regular file", location=location)


def _is_linked(temporary: str, path: str) -> bool:
    try:
        return os.path.samestat(os.lstat(temporary), os.lstat(path))
    except OSError:
        return False


def _unknown(location: str, error: OSError) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"the file may have been written or not: {error.strerror}",
        hint="read it to find out",
        location=location,
    )


def _entries(folder: str) -> Sequence[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _walk(location: Location, is_listed: Callable[[str], bool]) -> Iterator[FileInfo]:
    """Files below a folder in the order of their full paths: `a.txt` before `a/b`, as object stores list them."""
    stack = [iter(_sorted_entries(location, location.path))]
    while stack:
        entry = next(stack[-1], None)
        if entry is None:
            stack.pop()
        elif entry.is_dir(follow_symlinks=False):
            stack.append(iter(_sorted_entries(location, entry.path)))
        elif is_listed(entry.name) and (info := _info(location, entry)) is not None:
            yield info


def _sorted_entries(location: Location, folder: str) -> Sequence[os.DirEntry[str]]:
    with translate_os_errors(location.spelled(folder)):
        return sorted(_entries(folder), key=lambda e: e.name + "/" if e.is_dir(follow_symlinks=False) else e.name)


def _info(location: Location, entry: os.DirEntry[str]) -> FileInfo | None:
    """The file of a directory entry; None for dangling links, links to folders and files deleted meanwhile."""
    try:
        status = entry.stat()
    except FileNotFoundError:
        return None
    if not modes.S_ISREG(status.st_mode):
        return None
    return FileInfo(location.spelled(entry.path), status.st_size, status.st_mtime_ns // 1_000_000)
