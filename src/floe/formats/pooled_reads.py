"""A file whose large reads go into Arrow's own memory pool.

Blocks of many megabytes that come and go as Python bytes stay with the C library's allocator, in a heap for each thread
that ever read; Arrow's pool uses them again.
"""

from __future__ import annotations

from typing import Any, BinaryIO

import pyarrow as pa

__all__ = ["PooledReads"]

_LARGE = 2**16


class PooledReads:
    """What pyarrow asks of a file that it reads, over a binary file.

    >>> import io
    >>> file = PooledReads(io.BytesIO(b"abc" * 100_000))
    >>> len(file.read(200_000)), len(file.read(200_000)), file.tell()
    (200000, 100000, 300000)
    """

    mode = "rb"

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int | None = -1) -> Any:
        """Up to so many bytes: as a buffer of the pool, or as bytes if they are few."""
        if size is None or size < _LARGE or not hasattr(self._file, "readinto"):
            return self._file.read(-1 if size is None else size)
        buffer = pa.allocate_buffer(size)
        view, found = memoryview(buffer), 0
        while found < size and (more := self._file.readinto(view[found:])):
            found += more
        return buffer if found == size else buffer.slice(0, found)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """The place."""
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._file.closed

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def writable(self) -> bool:
        """False."""
        return False
