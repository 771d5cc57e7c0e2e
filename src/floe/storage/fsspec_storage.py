"""All other file systems (HDFS, SFTP, SMB, …) through fsspec, for reading and for writing data.

fsspec has no atomic creation, so `create` is an error and a catalog cannot commit here by creating files (a catalog in
a database can). A file is never visible in part: in a tree of folders it is written under a hidden temporary name and
moved; elsewhere the store shows an object only when it is complete.
"""

from __future__ import annotations

import contextlib
import datetime
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from floe.errors import (
    FloeError,
    InvalidInput,
    NoSuchFile,
    StorageError,
    UnsupportedFeature,
)
from floe.plugins import load_library
from floe.storage.file_objects import SpooledWriter, open_ranges
from floe.storage.local import TEMPORARY_PREFIX, from_os_error, translate_os_errors
from floe.storage.locations import Location, parse
from floe.storage.protocol import (
    Data,
    Deletion,
    FileInfo,
    FileWriter,
    Storage,
    check_range,
    check_size,
    file_exists_error,
)
from floe.storage.wrappers import Retrying

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
            # Listings must not be cached: other processes write to the same folders.
            self._files = fsspec.filesystem(scheme, use_listings_cache=False, **(options or {}))
        except (ImportError, ValueError) as error:
            # fsspec's message says that the scheme is unknown, or which library to install
            raise UnsupportedFeature(f"{scheme}: cannot be opened: {error}") from None

    def __repr__(self) -> str:
        return f"FsspecStorage({self.scheme}:)"

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """Read a complete file."""
        path, size = self._path(location), self.stat(location).size
        check_size(location, size, max_bytes)
        with translate_os_errors(location):
            return bytes(self._files.cat_file(path))

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """Read a byte range, shorter at the end of the file."""
        check_range(location, offset, length)
        path = self._path(location)
        if length == 0:
            self.stat(location)
            return b""
        try:
            with translate_os_errors(location):
                return bytes(self._files.cat_file(path, start=offset, end=offset + length))
        except NoSuchFile:
            raise
        except StorageError:
            if offset >= self.stat(location).size:  # some file systems raise for a range after the end
                return b""
            raise

    def open_read(self, location: str) -> BinaryIO:
        """Open a file that is read in byte ranges."""
        return open_ranges(self, location)

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """Open a stream that is uploaded when closed."""
        self._path(location)
        if not overwrite and self.exists(location):
            raise file_exists_error(location)
        return SpooledWriter(location, lambda content: self._publish(location, content, overwrite=overwrite))

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """Write a complete file."""
        with self.open_write(location, overwrite=overwrite) as file:
            file.write(data)

    def create(self, location: str, data: Data) -> None:
        """Raise `UnsupportedFeature`: fsspec has no atomic creation."""
        raise UnsupportedFeature(
            f"{self.scheme}: cannot create files exclusively, so tables cannot be committed by creating files",
            hint="use a catalog in a database",
            location=location,
        )

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Delete files one by one."""
        return [self._delete(location) for location in locations]

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """List the files below a folder."""
        location = self._parse(prefix)
        folder = self._fs_path(location).rstrip("/") + "/"
        with translate_os_errors(prefix):
            listing = self._files.find(folder.rstrip("/") or "/", detail=True, withdirs=False)
        below = ((path[len(folder) :], info) for path, info in listing.items() if path.startswith(folder))
        for name, info in sorted(below, key=lambda item: item[0]):
            if not name.rpartition("/")[2].startswith(TEMPORARY_PREFIX):
                yield FileInfo(location.spelled(location.folder + name), int(info["size"]), _modified_ms(info))

    def folders(self, prefix: str) -> Iterator[str]:
        """List the names of the folders below a folder."""
        try:
            with translate_os_errors(prefix):
                entries = self._files.ls(self._fs_path(self._parse(prefix)), detail=True)
        except NoSuchFile:
            return iter(())
        return iter(sorted(i["name"].rstrip("/").rpartition("/")[2] for i in entries if i["type"] == "directory"))

    def make_folder(self, location: str) -> None:
        """Create a folder, where the file system has folders."""
        with translate_os_errors(location):
            self._files.makedirs(self._fs_path(self._parse(location)), exist_ok=True)

    def remove_folder(self, location: str) -> None:
        """Remove an empty folder."""
        if next(self.list(location), None) is not None:
            raise StorageError("the folder is not empty", location=location)
        with translate_os_errors(location), contextlib.suppress(FileNotFoundError):
            self._files.rmdir(self._fs_path(self._parse(location)))

    def stat(self, location: str) -> FileInfo:
        """Return a file's size and modification time."""
        path = self._path(location)
        with translate_os_errors(location):
            info = self._files.info(path)
        if info["type"] != "file":
            raise NoSuchFile("a folder is not a file", location=location)
        return FileInfo(location, int(info["size"]), _modified_ms(info))

    def exists(self, location: str) -> bool:
        """Whether the file exists."""
        try:
            self.stat(location)
        except NoSuchFile:
            return False
        return True

    def _parse(self, location: str) -> Location:
        parsed = parse(location)
        if parsed.scheme != parse(f"{self.scheme}://localhost/x").scheme:
            raise InvalidInput(f"the location is not in {self.scheme}:", location=location)
        return parsed

    def _fs_path(self, location: Location) -> str:
        """The path as fsspec expects it; hosts are part of its options, buckets part of its paths."""
        if location.is_tree:
            return location.path
        return str(self._files._strip_protocol(f"{self.scheme}://{location.authority}/{location.path}"))

    def _path(self, location: str) -> str:
        if location.endswith("/"):
            raise NoSuchFile("a folder is not a file", location=location)
        return self._fs_path(self._parse(location))

    def _delete(self, location: str) -> Deletion:
        try:
            self.stat(location)
            self._files.rm_file(self._path(location))
        except FileNotFoundError:
            return Deletion(location)
        except NoSuchFile as error:
            return Deletion(location, error if "folder" in error.message else None)
        except FloeError as error:
            return Deletion.failed(location, error)
        except OSError as error:
            return Deletion(location, from_os_error(error, location))
        return Deletion(location)

    def _publish(self, location: str, content: BinaryIO, *, overwrite: bool) -> None:
        if not overwrite and self.exists(location):
            raise file_exists_error(location)
        path = self._path(location)
        folder, _, _ = path.rpartition("/")
        in_tree = self.scheme in _TREES
        target = f"{folder}/{TEMPORARY_PREFIX}{uuid.uuid4().hex}" if in_tree else path
        with translate_os_errors(location):
            if folder:
                self._files.makedirs(folder, exist_ok=True)
            with self._files.open(target, "wb") as file:
                while block := content.read(_COPY_BYTES):
                    file.write(block)
            if in_tree:
                self._files.mv(target, path)


def _modified_ms(info: Mapping[str, Any]) -> int:
    """The modification time in whatever form the file system reports it; 0 if it does not."""
    value = next((info[key] for key in _TIME_KEYS if info.get(key) is not None), 0)
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(value)
    if isinstance(value, datetime.datetime):
        value = value.timestamp()
    return int(float(value) * 1000)


def open_fsspec_storage(scheme: str, options: Mapping[str, Any]) -> Storage:
    """Open a file system, with retries around it (the opener in `floe.storage.schemes`)."""
    return Retrying(FsspecStorage(scheme, options))
