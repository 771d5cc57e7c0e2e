"""The operating system's errors in Floe's words: one table from `errno` to the tree of errors."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from floe.errors import (
    AccessDenied,
    FileAlreadyExists,
    NoSuchFile,
    StorageError,
    StorageUnavailable,
)

__all__ = ["translated", "translating"]

_KINDS: dict[int, type[StorageError]] = {
    errno.ENOENT: NoSuchFile,
    errno.ENOTDIR: NoSuchFile,
    errno.EISDIR: NoSuchFile,
    errno.EEXIST: FileAlreadyExists,
    errno.EACCES: AccessDenied,
    errno.EPERM: AccessDenied,
    errno.EROFS: AccessDenied,
}
_TRY_AGAIN = (
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
_KINDS.update(dict.fromkeys(_TRY_AGAIN, StorageUnavailable))
# Libraries raise the same classes without a number.
_CLASSES: tuple[tuple[type[OSError], type[StorageError]], ...] = (
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
    FileAlreadyExists: "there is a file of that name already",
}
_IN_THE_WAY = "a file stands where a folder should be"
_PERCENT_HINT = "locations are not percent-decoded: write the name as it is on the disk"


def translated(error: OSError, location: str) -> StorageError:
    """The error of the tree that says the same.

    >>> print(translated(FileNotFoundError(errno.ENOENT, "No such file or directory"), "/wh/a"))
    no such file (location: /wh/a)
    >>> translated(TimeoutError(errno.ETIMEDOUT, "Connection timed out"), "/wh/a").retryable
    True
    """
    by_class = (kind for known, kind in _CLASSES if isinstance(error, known))
    kind = _KINDS.get(error.errno or 0) or next(by_class, StorageError)
    message = (
        _IN_THE_WAY
        if error.errno == errno.ENOTDIR
        else _MESSAGES.get(kind) or (error.strerror or _words(type(error).__name__)).lower()
    )
    hint = _PERCENT_HINT if kind is NoSuchFile and "%" in location else None
    return kind(message, hint=hint, location=location)


def _words(name: str) -> str:
    """`ConnectionResetError` in words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)


@contextmanager
def translating(location: str) -> Iterator[None]:
    """Raises the operating system's errors as errors of the tree.

    >>> with translating("/wh/a"):
    ...     raise PermissionError(errno.EACCES, "Permission denied")
    Traceback (most recent call last):
    floe.errors.AccessDenied: permission denied (location: /wh/a)
    """
    try:
        yield
    except OSError as error:
        raise translated(error, location) from error
