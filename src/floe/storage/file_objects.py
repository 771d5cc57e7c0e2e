"""Files made of range reads: a seekable binary file over any storage, for readers of Parquet, ORC and Avro."""

from __future__ import annotations

import io
from typing import BinaryIO, cast

from floe.storage.protocol import Storage

__all__ = ["DEFAULT_BUFFER_BYTES", "RangeFile", "open_ranges"]

DEFAULT_BUFFER_BYTES = 64 * 1024
"""Small reads (headers, footers) are served from a block of this size."""


class RangeFile(io.RawIOBase):
    """A file of known size whose reads become range reads of a storage.

    >>> from floe.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> storage.create("memory:a", b"0123456789")
    >>> file = RangeFile(storage, "memory:a", 10)
    >>> file.seek(-3, io.SEEK_END), file.read(2), file.tell()
    (7, b'78', 9)
    """

    def __init__(self, storage: Storage, location: str, size: int) -> None:
        super().__init__()
        self.location = location
        self._storage = storage
        self._size = size
        self._position = 0

    def size(self) -> int:
        """The file's size in bytes."""
        return self._size

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Where the next read starts."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to an offset from the start, the present place or the end."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"cannot seek before the start of the file: {start + offset}")
        self._position = start + offset
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # typeshed's WriteableBuffer is no class
        """Fills the buffer from the present place, and says how many bytes there were."""
        if self.closed:
            raise ValueError(f"the file is closed: {self.location}")
        wanted = min(len(buffer), self._size - self._position)
        if wanted <= 0:
            return 0
        data = self._storage.read_range(self.location, self._position, wanted)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


def open_ranges(storage: Storage, location: str, *, buffer_bytes: int = DEFAULT_BUFFER_BYTES) -> BinaryIO:
    """The file at a location as a buffered, seekable binary file; reads larger than the buffer go straight through.

    >>> from floe.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> storage.create("memory:a", b"PAR1....PAR1")
    >>> with open_ranges(storage, "memory:a") as file:
    ...     _ = file.seek(-4, io.SEEK_END)
    ...     file.read()
    b'PAR1'
    """
    size = storage.stat(location).size
    return cast(BinaryIO, io.BufferedReader(RangeFile(storage, location, size), buffer_bytes))
