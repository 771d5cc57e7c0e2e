"""The versions in a table's metadata folder: `v<N>.metadata.json` and its compressed spellings, and the version hint.

A version can be spelled in three ways, of which Java, and Floe, use the first that exists:
`v7.metadata.json`, `v7.gz.metadata.json`, and the older `v7.metadata.json.gz`.

Java's local file system keeps a checksum next to each file it writes, `.v7.metadata.json.crc`, and rejects a file that
does not match it. So where Floe writes or deletes such a file, it deletes the checksum.

`version-hint.text` only says where to start, and may be out of date. Whatever it contains, the newest version is found:
from the hint's version on, the following numbers are tried until one is missing; without a hint that names an existing
version, the folder is listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from floe.errors import FileTooLarge, NoSuchFile
from floe.spec.metadata.file_names import file_system_metadata_file_name, parse_metadata_file_name, parse_version_hint
from floe.storage.locations import join, parse
from floe.storage.protocol import FileInfo, Storage

VERSION_HINT: Final = "version-hint.text"
_LONGEST_HINT: Final = 64
_HIGHEST_VERSION: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a table: its number, and the file that holds it."""

    number: int
    file: FileInfo

    @property
    def location(self) -> str:
        """The location of the version file."""
        return self.file.location


class VersionFolder:
    """The metadata folder of a file-system table.

    >>> from floe.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> versions = VersionFolder(storage, "memory:t/metadata")
    >>> for number in (1, 2, 3):
    ...     storage.create(versions.location(number), b"{}")
    >>> versions.write_hint(2)
    >>> versions.newest().location
    'memory:t/metadata/v3.metadata.json'
    """

    def __init__(self, storage: Storage, folder: str) -> None:
        self.storage, self.folder = storage, folder
        self._is_local = parse(folder).scheme == "file"

    def location(self, number: int, *, compressed: bool = False) -> str:
        """The location that a version is written to."""
        return join(self.folder, file_system_metadata_file_name(number, compressed=compressed))

    def spellings(self, number: int) -> tuple[str, ...]:
        """The locations that a version may have, in the order in which readers try them."""
        plain = self.location(number)
        return plain, self.location(number, compressed=True), plain + ".gz"

    def find(self, number: int) -> Version | None:
        """The version of that number, if there is one."""
        for location in self.spellings(number):
            if (info := stat_or_none(self.storage, location)) is not None:
                return Version(number, info)
        return None

    def newest(self) -> Version | None:
        """The newest version, or None if there is no table."""
        hint = self.read_hint()
        version = None if hint is None else self.find(hint)
        if version is None:
            listed = self.listed()
            # `find` reads the file's time again: in listings of some stores times are more precise than in `stat`.
            version = self.find(listed[-1].number) if listed else None
            if version is None:
                return None
        while version.number < _HIGHEST_VERSION and (following := self.find(version.number + 1)) is not None:
            version = following
        return version

    def has_versions(self) -> bool:
        """Whether there is a table, found with as few calls as possible."""
        hint = self.read_hint()
        return (hint is not None and self.find(hint) is not None) or next(self._files(), None) is not None

    def listed(self) -> list[Version]:
        """All versions by number; of several spellings, the one that readers use."""
        by_number: dict[int, Version] = {}
        for version in self._files():
            other = by_number.get(version.number)
            if other is None or self._order(version) < self._order(other):
                by_number[version.number] = version
        return [by_number[number] for number in sorted(by_number)]

    def files(self) -> list[Version]:
        """All version files, the several spellings of a version too, oldest first."""
        return sorted(self._files(), key=self._order)

    def _files(self) -> Iterator[Version]:
        for info in direct_files(self.storage, self.folder):
            name = parse_metadata_file_name(info.location)
            if name is not None and name.is_file_system and name.version is not None:
                version = Version(name.version, info)
                if self._rank(version) is not None:
                    yield version

    def _rank(self, version: Version) -> int | None:
        """The index of a file among the spellings of its version; None for names that are not read, such as `v007`."""
        file_name = version.location.rpartition("/")[2]
        names = [location.rpartition("/")[2] for location in self.spellings(version.number)]
        return names.index(file_name) if file_name in names else None

    def _order(self, version: Version) -> tuple[int, int]:
        return version.number, self._rank(version) or 0

    # the hint ------------------------------------------------------------------------------------------------

    @property
    def hint_location(self) -> str:
        """The location of the version hint."""
        return join(self.folder, VERSION_HINT)

    def read_hint(self) -> int | None:
        """The version that the hint names; None if there is no hint, or it is invalid."""
        try:
            return parse_version_hint(self.storage.read(self.hint_location, max_bytes=_LONGEST_HINT))
        except (NoSuchFile, FileTooLarge):
            return None

    def write_hint(self, number: int) -> None:
        """Writes the hint atomically, unless it names a later version that exists."""
        hint = self.read_hint()
        if hint is None or hint < number or (hint > number and self.find(hint) is None):
            self.forget_checksum(self.hint_location)
            self.storage.write(self.hint_location, str(number).encode(), overwrite=True)

    # deleting ------------------------------------------------------------------------------------------------

    def delete(self, locations: Iterable[str]) -> None:
        """Deletes files of the folder one by one; raises the first error."""
        for location in locations:
            self.forget_checksum(location)
            for deletion in self.storage.delete_many([location]):
                if deletion.error is not None:
                    raise deletion.error

    def forget_checksum(self, location: str) -> None:
        """Deletes the checksum that Java keeps of a local file, before the file is created, replaced or deleted."""
        if self._is_local:
            folder, _, name = location.rpartition("/")
            self.storage.delete_many([f"{folder}/.{name}.crc"])


def direct_files(storage: Storage, folder: str) -> Iterator[FileInfo]:
    """The files that are in a folder itself, not in folders below it."""
    start = len(parse(folder).folder)
    for info in storage.list(folder):
        if "/" not in parse(info.location).path[start:]:
            yield info


def stat_or_none(storage: Storage, location: str) -> FileInfo | None:
    """Size and time of a file; None if it does not exist."""
    try:
        return storage.stat(location)
    except NoSuchFile:
        return None


def same_content(before: FileInfo, after: FileInfo | None) -> bool:
    """Whether a file still has the size and time that it had before."""
    return after is not None and (before.size, before.modified_ms) == (after.size, after.modified_ms)
