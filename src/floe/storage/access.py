"""The one gate for what may be read and written: allowed roots and size limits.

Metadata is untrusted: a manifest can name `/etc/passwd`, and a file can be larger than memory. All locations that come
from metadata are opened through `Access`, which stands right before the real storage (behind a prefix map, so that it
sees real locations).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from floe.errors import FileTooLarge, PathNotAllowed
from floe.storage.locations import Location, parse
from floe.storage.protocol import Storage
from floe.storage.wrapping import StorageWrapper

__all__ = ["DEFAULT_MAX_READ_BYTES", "Access"]

T = TypeVar("T")

DEFAULT_MAX_READ_BYTES = 1024**3
"""No single read takes more than this many bytes into memory, unless told otherwise."""


class Access(StorageWrapper):
    """A storage that touches only what lies below its roots, and reads no more than its limit at once.

    Paths are compared by whole names after `..` is resolved; on the local disk symbolic links are followed first, in
    roots too, so a link below a root that leads out of it is refused. In object stores, keys with `.` or `..` as names
    are refused: programs differ in what file they mean. Without roots (`roots=None`), only the limit holds.

    >>> from floe.storage.memory import MemoryStorage
    >>> storage = Access(MemoryStorage(), roots=["s3://bucket/wh/"], max_read_bytes=4)
    >>> storage.write("s3a://bucket/wh/t/a", b"12345")
    >>> storage.read_range("s3://bucket/wh/t/a", 0, 4)
    b'1234'
    >>> storage.read("s3://bucket/wh/t/a")
    Traceback (most recent call last):
    floe.errors.FileTooLarge: the file has 5 bytes, and 4 are allowed (location: s3://bucket/wh/t/a)
    >>> storage.read("s3://bucket/wh2/t/a")
    Traceback (most recent call last):
    floe.errors.PathNotAllowed: outside the allowed roots (location: s3://bucket/wh2/t/a, roots: s3://bucket/wh/) ...
    """

    def __init__(
        self,
        storage: Storage,
        *,
        roots: Iterable[str] | None = None,
        max_read_bytes: int | None = DEFAULT_MAX_READ_BYTES,
    ) -> None:
        super().__init__(storage)
        self.roots = None if roots is None else tuple(roots)
        self.max_read_bytes = max_read_bytes
        self._roots = [_real(parse(root)) for root in self.roots or ()]

    def __repr__(self) -> str:
        return f"Access({self.storage!r}, roots={self.roots!r}, max_read_bytes={self.max_read_bytes})"

    def allows(self, location: str) -> bool:
        """Whether the location may be touched.

        >>> from floe.storage.local import LocalStorage
        >>> access = Access(LocalStorage(), roots=["/wh"])
        >>> access.allows("/wh/t/a"), access.allows("file:///etc/passwd"), access.allows("/wh/../etc/passwd")
        (True, False, False)
        """
        if self.roots is None:
            return True
        real = _real(parse(location))
        return not _is_ambiguous(real) and any(root.contains(real) for root in self._roots)

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """The whole file, unless it is larger than the limits."""
        limits = [limit for limit in (max_bytes, self.max_read_bytes) if limit is not None]
        return super().read(location, max_bytes=min(limits, default=None))

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """A part of the file, unless more is asked for than the limit."""
        if self.max_read_bytes is not None and length > self.max_read_bytes:
            raise FileTooLarge(
                f"{length} bytes were asked for at once, and {self.max_read_bytes} are allowed", location=location
            )
        return super().read_range(location, offset, length)

    def _locate(self, operation: str, location: str) -> str:
        if not self.allows(location):
            raise PathNotAllowed(
                "outside the allowed roots",
                hint="if you trust this table, add the folder to the roots",
                location=location,
                roots=", ".join(self.roots or ()) or "none",
            )
        return location


def _real(location: Location) -> Location:
    """The location with symbolic links followed, where there are any."""
    if location.scheme != "file":
        return location
    return replace(location, path=os.path.realpath(location.path))


def _is_ambiguous(location: Location) -> bool:
    return not location.is_tree and not {".", ".."}.isdisjoint(location.path.split("/"))
