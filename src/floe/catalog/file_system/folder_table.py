"""Tables opened by their location, without a catalog: a table's folder, or one metadata file.

| location | what it opens |
|---|---|
| a folder with `metadata/v<N>.metadata.json` | a file-system table: read and committed to |
| a folder with `metadata/<N>-<uuid>.metadata.json` | a table of some catalog: its newest version, read only |
| a metadata file | the table as that file says, read only |

Tables of a catalog cannot be committed to by path: only the catalog knows which version is current.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from floe.catalog.file_system.pointer import FileSystemPointer
from floe.catalog.file_system.versions import direct_files
from floe.catalog.metadata_files import read_metadata
from floe.commit.pointer import Outcome, Pointer, Proposal, TableState
from floe.commit.roots import owned_folders
from floe.errors import InvalidInput, NoSuchFile, NoSuchTable, UnsupportedFeature
from floe.spec.json_reader import Limits
from floe.spec.metadata.file_names import parse_metadata_file_name
from floe.spec.metadata.requirements import TableRequirement
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import TableUpdate
from floe.storage.access import allow_declared
from floe.storage.environment import Environment
from floe.storage.locations import join, parse
from floe.storage.protocol import Storage

_SUFFIXES = (".metadata.json", ".metadata.json.gz", ".json", ".json.gz")
_SHOWN = 5


def pointer_at(
    location: str, storage: Storage, environment: Environment | None = None, *, limits: Limits | None = None
) -> Pointer:
    """The pointer to the table at a location.

    >>> from floe.storage.memory import MemoryStorage
    >>> pointer_at("memory:wh/db/orders", MemoryStorage())
    Traceback (most recent call last):
    floe.errors.NoSuchTable: there is no table at this location: it has no metadata folder with metadata files ...
    """
    environment = environment or Environment()
    normalized = parse(location).text
    if location.endswith(_SUFFIXES) and storage.exists(normalized):
        return MetadataFilePointer(normalized, storage, environment, limits=limits)
    folder = normalized.rstrip("/") or "/"
    pointer = _pointer_in(folder, storage, environment, limits)
    parent, _, name = folder.rpartition("/")
    if pointer is None and name == "metadata":
        pointer = _pointer_in(parent, storage, environment, limits)
    if pointer is None:
        raise NoSuchTable(
            "there is no table at this location: it has no metadata folder with metadata files",
            hint="give the folder of a table, or one of its metadata files",
            location=location,
        )
    return pointer


def _pointer_in(folder: str, storage: Storage, environment: Environment, limits: Limits | None) -> Pointer | None:
    """The pointer to the table in a folder, or None if there is none."""
    by_folder = FileSystemPointer(folder, folder, storage, environment, limits=limits)
    if by_folder.versions.has_versions():
        return by_folder
    newest = _newest_of_catalog(join(folder, "metadata"), storage)
    return None if newest is None else MetadataFilePointer(newest, storage, environment, limits=limits, folder=folder)


def _newest_of_catalog(folder: str, storage: Storage) -> str | None:
    """The metadata file of the highest version, as catalogs name them; raises if two have that version."""
    highest, candidates = -1, list[str]()
    for info in direct_files(storage, folder):
        name = parse_metadata_file_name(info.location)
        if name is None or name.version is None or name.version < highest:
            continue
        if name.version > highest:
            highest, candidates = name.version, []
        candidates.append(info.location)
    if len(candidates) > 1:
        raise InvalidInput(
            f"there are {len(candidates)} metadata files of version {highest}, and only the table's catalog knows "
            "which one is current",
            hint="open the table through its catalog, or open one of the files",
            files=", ".join(candidates[:_SHOWN]) + (", …" if len(candidates) > _SHOWN else ""),
        )
    return candidates[0] if candidates else None


class MetadataFilePointer:
    """The state in one metadata file; it can be read, not committed to.

    With a `folder`, each `load` reads the newest file in it.
    """

    def __init__(
        self,
        location: str,
        storage: Storage,
        environment: Environment,
        *,
        limits: Limits | None = None,
        folder: str | None = None,
    ) -> None:
        self.location, self.folder = location, folder
        self.storage, self.environment = storage, environment
        self._limits = limits

    def __repr__(self) -> str:
        return f"MetadataFilePointer({self.location!r})"

    @property
    def name(self) -> str:
        """The location that was opened."""
        return self.location if self.folder is None else self.folder

    def load(self) -> TableState | None:
        """The state in the file; None if the file does not exist any more."""
        location = self.location
        if self.folder is not None:
            location = _newest_of_catalog(join(self.folder, "metadata"), self.storage) or location
        try:
            metadata = read_metadata(self.storage, location, limits=self._limits)
        except NoSuchFile:
            return None
        allow_declared(self.storage, owned_folders(metadata))
        return TableState(metadata, location)

    def propose(
        self,
        base: TableState | None,
        metadata: TableMetadata,
        *,
        updates: Sequence[TableUpdate] = (),
        requirements: Sequence[TableRequirement] = (),
    ) -> Proposal:
        """Not supported: the table is read only."""
        self._refuse()

    def swap(self, proposal: Proposal) -> None:
        """Not supported: the table is read only."""
        self._refuse()

    def settle(self, proposal: Proposal) -> Outcome:
        """Always absent: nothing is ever published here."""
        return Outcome.ABSENT

    def discard(self, proposal: Proposal) -> None:
        """Does nothing: a proposal was never written."""

    def finish(self, proposal: Proposal) -> None:
        """Does nothing: nothing was published."""

    def _refuse(self) -> NoReturn:
        raise UnsupportedFeature(
            "a table that was opened by a metadata file can only be read: its catalog says which file is current",
            hint="open it through its catalog, or register the file in one, to change it",
            location=self.name,
        )
