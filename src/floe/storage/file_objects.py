"""Binary files on top of a storage's calls: seekable reading by byte ranges, and writing that uploads on close."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from typing import BinaryIO, cast

from floe.storage.local import translate_os_errors
from floe.storage.protocol import Data, FileWriter, Storage

DEFAULT_BUFFER_BYTES = 64 * 1024
"""Small reads (headers, footers) are served from a block of this size."""

_MAX_BYTES_IN_MEMORY = 32 * 1024 * 1024


class RangeFile(io.RawIOBase):
    """A file of known size whose reads become `read_range` calls of a storage.

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
        """True: the file is open for reading."""
        return True

    def seekable(self) -> bool:
        """True: any offset can be read."""
        return True

    def tell(self) -> int:
        """The offset of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset from the start, the current position or the end."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"cannot seek before the start of the file: {start + offset}")
        self._position = start + offset
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # typeshed's WriteableBuffer is no class
        """Fill the buffer from the current position, and return the number of bytes read."""
        if self.closed:
            raise ValueError(f"the file is closed: {self.location}")
        length = min(len(buffer), self._size - self._position)
        if length <= 0:
            return 0
        data = self._storage.read_range(self.location, self._position, length)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


def open_ranges(storage: Storage, location: str, *, buffer_bytes: int = DEFAULT_BUFFER_BYTES) -> BinaryIO:
    """Open a file as a buffered, seekable binary file; reads larger than the buffer bypass it.

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


class SpooledWriter(FileWriter):
    """A stream that collects its bytes, large ones in a temporary file, and passes them to `upload` when closed."""

    def __init__(self, location: str, upload: Callable[[BinaryIO], None]) -> None:
        self._buffer = tempfile.SpooledTemporaryFile(max_size=_MAX_BYTES_IN_MEMORY)  # noqa: SIM115
        self._upload = upload
        super().__init__(location)

    def _append(self, data: Data) -> None:
        with translate_os_errors(self.location):  # the temporary file may fill the disk
            self._buffer.write(data)

    def _publish(self) -> None:
        try:
            self._buffer.seek(0)
            self._upload(cast(BinaryIO, self._buffer))
        finally:
            self._discard()

    def _discard(self) -> None:
        self._buffer.close()
