"""The versions in a table's metadata folder: `v<N>.metadata.json` and its compressed spellings, and the version hint.

A version can be spelled in three ways, of which Java looks for the first that is there, and so do we:
`v7.metadata.json`, `v7.gz.metadata.json`, and the older `v7.metadata.json.gz`.

Java's local file system keeps a checksum beside each file it writes, `.v7.metadata.json.crc`, and refuses a file that
does not fit it. So where we write or delete a file of such a name, the checksum goes.

`version-hint.text` says where to begin to look; it is not to be trusted. Whatever it holds, the newest version is
found: from the hint's version on, the next ones are tried until one is missing; without a hint that leads to a file,
the folder is listed.
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
        """Where the file is."""
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
        """Where a version is written."""
        return join(self.folder, file_system_metadata_file_name(number, compressed=compressed))

    def spellings(self, number: int) -> tuple[str, ...]:
        """Where a version may be, in the order in which readers look."""
        plain = self.location(number)
        return plain, self.location(number, compressed=True), plain + ".gz"

    def find(self, number: int) -> Version | None:
        """The version of that number, if there is one."""
        for location in self.spellings(number):
            if (info := stat_if_there(self.storage, location)) is not None:
                return Version(number, info)
        return None

    def newest(self) -> Version | None:
        """The newest version, or None if there is no table."""
        hint = self.read_hint()
        found = None if hint is None else self.find(hint)
        if found is None:
            listed = self.listed()
            # Looked at once more, for the times in listings of some stores are finer than those of single files.
            found = self.find(listed[-1].number) if listed else None
            if found is None:
                return None
        while found.number < _HIGHEST_VERSION and (following := self.find(found.number + 1)) is not None:
            found = following
        return found

    def has_versions(self) -> bool:
        """Whether there is a table, found with as few calls as possible."""
        hint = self.read_hint()
        return (hint is not None and self.find(hint) is not None) or next(self._files(), None) is not None

    def listed(self) -> list[Version]:
        """All versions that are there, by their numbers; of several spellings, the one that readers take."""
        found: dict[int, Version] = {}
        for version in self._files():
            other = found.get(version.number)
            if other is None or self._order(version) < self._order(other):
                found[version.number] = version
        return [found[number] for number in sorted(found)]

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
        """The place of a file among the spellings of its version; None for names such as `v007`, which nobody reads."""
        file_name = version.location.rpartition("/")[2]
        names = [location.rpartition("/")[2] for location in self.spellings(version.number)]
        return names.index(file_name) if file_name in names else None

    def _order(self, version: Version) -> tuple[int, int]:
        return version.number, self._rank(version) or 0

    # the hint ------------------------------------------------------------------------------------------------

    @property
    def hint_location(self) -> str:
        """Where the hint is."""
        return join(self.folder, VERSION_HINT)

    def read_hint(self) -> int | None:
        """The version that the hint names; None if there is no hint, or it makes no sense."""
        try:
            return parse_version_hint(self.storage.read(self.hint_location, max_bytes=_LONGEST_HINT))
        except (NoSuchFile, FileTooLarge):
            return None

    def write_hint(self, number: int) -> None:
        """Makes the hint name a version, in one step; one that names a later version which is there stays."""
        hint = self.read_hint()
        if hint is None or hint < number or (hint > number and self.find(hint) is None):
            self.forget_checksum(self.hint_location)
            self.storage.write(self.hint_location, str(number).encode(), overwrite=True)

    # deleting ------------------------------------------------------------------------------------------------

    def delete(self, locations: Iterable[str]) -> None:
        """Deletes files of the folder one after the other; the first that cannot be deleted ends it with its error."""
        for location in locations:
            self.forget_checksum(location)
            for deletion in self.storage.delete_many([location]):
                if deletion.error is not None:
                    raise deletion.error

    def forget_checksum(self, location: str) -> None:
        """Deletes the checksum that Java keeps of a local file, before the file is replaced, deleted or made."""
        if self._is_local:
            folder, _, name = location.rpartition("/")
            self.storage.delete_many([f"{folder}/.{name}.crc"])


def direct_files(storage: Storage, folder: str) -> Iterator[FileInfo]:
    """The files that are in a folder itself, not in folders below it."""
    start = len(parse(folder).folder)
    for info in storage.list(folder):
        if "/" not in parse(info.location).path[start:]:
            yield info


def stat_if_there(storage: Storage, location: str) -> FileInfo | None:
    """What is known of a file, or None if there is none."""
    try:
        return storage.stat(location)
    except NoSuchFile:
        return None


def same_content(one: FileInfo, other: FileInfo | None) -> bool:
    """Whether a file is still what it was when it was looked at before, as far as size and time tell."""
    return other is not None and (one.size, one.modified_ms) == (other.size, other.modified_ms)
