"""Everything else: file systems that fsspec knows (HDFS, SFTP, SMB, …), for reading and for writing data.

fsspec promises no atomic creation, so `create` is refused and a catalog does not commit here by creating files (a
catalog in a database can). Whole files are never seen half: where names are paths in a tree, a file is written under a
hidden temporary name and moved; elsewhere the store shows an object only when it is complete.
"""

from __future__ import annotations

import contextlib
import datetime
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, cast

from floe.errors import (
    FileAlreadyExists,
    FileTooLarge,
    FloeError,
    InvalidInput,
    NoSuchFile,
    StorageError,
    UnsupportedFeature,
)
from floe.storage.locations import Location, parse
from floe.storage.optional_libraries import load_library
from floe.storage.protocol import Data, Deletion, FileInfo, FileWriter
from floe.storage.range_checks import check_range
from floe.storage.range_files import open_ranges
from floe.storage.system_errors import translated, translating

__all__ = ["FsspecStorage"]

_TEMPORARY_PREFIX = ".floe-tmp-"
_BUFFER_BYTES = 32 * 1024 * 1024
_COPY_BYTES = 4 * 1024 * 1024
_TREES = frozenset({"file", "hdfs", "webhdfs", "arrow_hdfs", "sftp", "ssh", "ftp", "smb"})
_TIME_KEYS = ("mtime", "LastModified", "last_modified", "created", "updated", "modificationTime")


class FsspecStorage:
    """The files of one fsspec file system, opened by its scheme and options.

    >>> storage = FsspecStorage("memory")
    >>> storage.write("memory://doctest/a", b"abc")
    >>> storage.read("memory:/doctest/a")
    b'abc'
    >>> storage.creates_exclusively
    False
    """

    creates_exclusively = False

    def __init__(self, scheme: str, options: Mapping[str, Any] | None = None) -> None:
        fsspec = load_library("fsspec", needed_by=f"{scheme}:", install="floe[fsspec]")
        self.scheme = scheme
        try:
            # Listings must not be remembered: other processes write here too.
            self._files = fsspec.filesystem(scheme, use_listings_cache=False, **(options or {}))
        except (ImportError, ValueError) as error:
            # fsspec's own words: an unknown scheme, or which further library to install
            raise UnsupportedFeature(f"{scheme}: cannot be opened: {error}") from None

    def __repr__(self) -> str:
        return f"FsspecStorage({self.scheme}:)"

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """The whole file."""
        path, size = self._path(location), self.stat(location).size
        if max_bytes is not None and size > max_bytes:
            raise FileTooLarge(f"the file has {size} bytes, and {max_bytes} are allowed", location=location)
        with translating(location):
            return bytes(self._files.cat_file(path))

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """A part of the file, shorter where it ends."""
        check_range(location, offset, length)
        path = self._path(location)
        if length == 0:
            self.stat(location)
            return b""
        try:
            with translating(location):
                return bytes(self._files.cat_file(path, start=offset, end=offset + length))
        except NoSuchFile:
            raise
        except StorageError:
            if offset >= self.stat(location).size:  # some file systems call that an error
                return b""
            raise

    def open_read(self, location: str) -> BinaryIO:
        """The file, read in ranges."""
        return open_ranges(self, location)

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """A stream that is sent when closed."""
        self._path(location)
        if not overwrite and self.exists(location):
            raise _taken(location)
        return _SpooledWriter(self, location, overwrite)

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """A whole file."""
        with self.open_write(location, overwrite=overwrite) as file:
            file.write(data)

    def create(self, location: str, data: Data) -> None:
        """Refused: fsspec has no atomic creation."""
        raise UnsupportedFeature(
            f"{self.scheme}: cannot create a file only if there is none, so nothing can be committed by creating files",
            hint="use a catalog in a database",
            location=location,
        )

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Deletes the files one by one."""
        return [Deletion(location, self._delete(location)) for location in locations]

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """The files below a folder."""
        location = self._parse(prefix)
        folder = self._fs_path(location).rstrip("/") + "/"
        with translating(prefix):
            found = self._files.find(folder.rstrip("/") or "/", detail=True, withdirs=False)
        below = ((path[len(folder) :], info) for path, info in found.items() if path.startswith(folder))
        for name, info in sorted(below, key=lambda item: item[0]):
            if not name.rpartition("/")[2].startswith(_TEMPORARY_PREFIX):
                yield FileInfo(location.spelled(location.folder + name), int(info["size"]), _modified_ms(info))

    def folders(self, prefix: str) -> Iterator[str]:
        """The names of the folders below a folder."""
        try:
            with translating(prefix):
                found = self._files.ls(self._fs_path(self._parse(prefix)), detail=True)
        except NoSuchFile:
            return iter(())
        return iter(sorted(i["name"].rstrip("/").rpartition("/")[2] for i in found if i["type"] == "directory"))

    def make_folder(self, location: str) -> None:
        """Makes the folder, where there are folders."""
        with translating(location):
            self._files.makedirs(self._fs_path(self._parse(location)), exist_ok=True)

    def remove_folder(self, location: str) -> None:
        """Removes the folder if it is empty."""
        if next(self.list(location), None) is not None:
            raise StorageError("the folder is not empty", location=location)
        with translating(location), contextlib.suppress(FileNotFoundError):
            self._files.rmdir(self._fs_path(self._parse(location)))

    def stat(self, location: str) -> FileInfo:
        """The file's size and time."""
        path = self._path(location)
        with translating(location):
            info = self._files.info(path)
        if info["type"] != "file":
            raise NoSuchFile("a folder is not a file", location=location)
        return FileInfo(location, int(info["size"]), _modified_ms(info))

    def exists(self, location: str) -> bool:
        """Whether there is a file."""
        try:
            self.stat(location)
        except NoSuchFile:
            return False
        return True

    def _parse(self, location: str) -> Location:
        parsed = parse(location)
        if parsed.scheme != parse(f"{self.scheme}://localhost/x").scheme:
            raise InvalidInput(f"not a location of {self.scheme}:", location=location)
        return parsed

    def _fs_path(self, location: Location) -> str:
        """The path as the file system wants it; hosts are part of its options, buckets part of its paths."""
        if location.is_tree:
            return location.path
        return str(self._files._strip_protocol(f"{self.scheme}://{location.authority}/{location.path}"))

    def _path(self, location: str) -> str:
        if location.endswith("/"):
            raise NoSuchFile("a folder is not a file", location=location)
        return self._fs_path(self._parse(location))

    def _delete(self, location: str) -> StorageError | None:
        try:
            self.stat(location)
            self._files.rm_file(self._path(location))
        except (NoSuchFile, FileNotFoundError) as error:
            return error if isinstance(error, NoSuchFile) and "folder" in error.message else None
        except StorageError as error:
            return error
        except FloeError as error:
            return StorageError(error.message, location=location)
        except OSError as error:
            return translated(error, location)
        return None

    def _publish(self, location: str, content: BinaryIO, *, overwrite: bool) -> None:
        if not overwrite and self.exists(location):
            raise _taken(location)
        path = self._path(location)
        folder, _, _ = path.rpartition("/")
        in_tree = self.scheme in _TREES
        target = f"{folder}/{_TEMPORARY_PREFIX}{uuid.uuid4().hex}" if in_tree else path
        with translating(location):
            if folder:
                self._files.makedirs(folder, exist_ok=True)
            with self._files.open(target, "wb") as file:
                while block := content.read(_COPY_BYTES):
                    file.write(block)
            if in_tree:
                self._files.mv(target, path)


class _SpooledWriter(FileWriter):
    """Collects the bytes and sends them when closed."""

    def __init__(self, storage: FsspecStorage, location: str, overwrite: bool) -> None:
        self._buffer = tempfile.SpooledTemporaryFile(max_size=_BUFFER_BYTES)  # noqa: SIM115
        self._storage, self._overwrite = storage, overwrite
        super().__init__(location)

    def _append(self, data: Data) -> None:
        with translating(self.location):
            self._buffer.write(data)

    def _publish(self) -> None:
        try:
            self._buffer.seek(0)
            self._storage._publish(self.location, cast(BinaryIO, self._buffer), overwrite=self._overwrite)
        finally:
            self._discard()

    def _discard(self) -> None:
        self._buffer.close()


def _modified_ms(info: Mapping[str, Any]) -> int:
    """When the file was last written, in the form that this file system tells it; 0 if it does not."""
    value = next((info[key] for key in _TIME_KEYS if info.get(key) is not None), 0)
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value)
    if isinstance(value, datetime.datetime):
        value = value.timestamp()
    return int(float(value) * 1000)


def _taken(location: str) -> FileAlreadyExists:
    return FileAlreadyExists("there is a file of that name already", location=location)
