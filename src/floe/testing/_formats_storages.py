"""Storages that show what a format model does with files: one counts what is read, one turns every byte."""

from __future__ import annotations

from typing import BinaryIO

from floe.storage.protocol import Data, FileWriter, Storage
from floe.storage.range_files import open_ranges
from floe.storage.wrapping import StorageWrapper

__all__ = ["Counting", "Turned"]

_OTHER_WAY_ROUND = bytes(255 - n for n in range(256))


class Counting(StorageWrapper):
    """Counts the bytes that are read."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.bytes = 0

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """The whole file."""
        data = super().read(location, max_bytes=max_bytes)
        self.bytes += len(data)
        return data

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """A part of the file."""
        data = super().read_range(location, offset, length)
        self.bytes += len(data)
        return data

    def open_read(self, location: str) -> BinaryIO:
        """The file, read by ranges, hardly more than is asked for."""
        return open_ranges(self, location, buffer_bytes=1024)


class Turned(StorageWrapper):
    """Stores each byte the other way round: the least that can be called encryption."""

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """The whole file."""
        return super().read(location, max_bytes=max_bytes).translate(_OTHER_WAY_ROUND)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """A part of the file."""
        return super().read_range(location, offset, length).translate(_OTHER_WAY_ROUND)

    def open_read(self, location: str) -> BinaryIO:
        """The file, read by ranges."""
        return open_ranges(self, location)

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """A stream for a new file."""
        return _TurnedWriter(super().open_write(location, overwrite=overwrite))

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """A whole file."""
        super().write(location, bytes(data).translate(_OTHER_WAY_ROUND), overwrite=overwrite)


class _TurnedWriter(FileWriter):
    def __init__(self, inner: FileWriter) -> None:
        super().__init__(inner.location)
        self._inner = inner

    def _append(self, data: Data) -> None:
        self._inner.write(bytes(data).translate(_OTHER_WAY_ROUND))

    def _publish(self) -> None:
        self._inner.close()

    def _discard(self) -> None:
        self._inner.abort()
