"""The folders in which a table's files may be read and written.

Whoever can write a metadata file can refer to any file in it, and the program that opens the table may have more rights
than its writer. So files of a table are accessed only below these folders:

| folder | trusted because |
|---|---|
| the warehouse, and the targets of `prefixes` | the caller opened the catalog with them |
| the table's folder, which has its current metadata file | the catalog refers to it, or the caller opened the table by its path |
| `location`, `write.data.path`, `write.metadata.path`, … of the metadata, unless they are a whole file system or contain the warehouse | they are the folders that the table declares, whichever engine set them |
| folders that an earlier call declared in these ways, and folders given to `add_files` | the caller named them |

The last kind is stored in the properties of the namespace (`floe.root.…`), which belong to the catalog, so that a
metadata file cannot forge them. They apply to all tables of the namespace.

With `roots=[…]` only those folders are allowed. `floe.storage.access` enforces all of this.
"""  # noqa: E501 (a table)

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Final

from floe.errors import NotFound
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.properties import FILES_ELSEWHERE, LOCATION_PROPERTIES, METADATA_PATH
from floe.storage.access import allow, allow_declared, allow_permanently, for_table, is_allowed
from floe.storage.locations import is_below
from floe.storage.protocol import Storage

_ROOT: Final = "floe.root."


def owned_folders(metadata: TableMetadata) -> tuple[str, ...]:
    """The folders of a table's own files: its location, and the folders that its properties declare.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.schemas.schema import Schema
    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> properties = {"write.data.path": "s3://data/t"}
    >>> owned_folders(new_table_metadata(Schema(()), location="s3://b/t", uuid=uuid, now_ms=0, properties=properties))
    ('s3://b/t', 's3://data/t')
    """
    declared = [folder for setting in LOCATION_PROPERTIES if (folder := setting.read(metadata.properties))]
    return tuple(dict.fromkeys([metadata.location, *declared]))


class TableRoots:
    """The storage of one table, limited to the folders in which its files may be."""

    def __init__(
        self,
        storage: Storage,
        properties: Callable[[], Mapping[str, str]],
        update: Callable[[Mapping[str, str]], None],
    ) -> None:
        """`properties` reads and `update` updates the properties of the namespace."""
        self._properties, self._update = properties, update
        self.lake, self.storage = storage, for_table(storage, self)

    def allow_table_folder(self, metadata_location: str) -> Storage:
        """Allow the folder of the table's metadata file, as the catalog has it, and return the storage."""
        allow(self.storage, [table_folder(metadata_location)])
        return self.storage

    def allow_metadata(self, metadata: TableMetadata) -> None:
        """Allow the folders that the metadata declares, and those of the namespace if the table has files elsewhere."""
        allow_declared(self.storage, owned_folders(metadata))
        elsewhere = FILES_ELSEWHERE.is_set(metadata.properties)  # the property itself allows no folder
        if elsewhere or not all(is_allowed(self.storage, folder) for folder in owned_folders(metadata)):
            allow(self.storage, self.load_roots())

    def of(self, metadata: TableMetadata, location: str) -> Storage:
        """The storage of a table whose metadata has been loaded."""
        self.allow_table_folder(location)
        self.allow_metadata(metadata)
        return self.storage

    def load_roots(self) -> Sequence[str]:
        """The folders that are stored in the namespace."""
        with suppress(NotFound):
            return [folder for name, folder in self._properties().items() if name.startswith(_ROOT)]
        return ()

    def save_roots(self, folders: Sequence[str]) -> None:
        """Store folders in the namespace."""
        self._update({_ROOT + sha256(folder.encode()).hexdigest()[:16]: folder for folder in folders})


def allow_changed(
    storage: Storage, before: TableMetadata | None, after: TableMetadata, *, lasting: bool = False
) -> None:
    """Allow the folders that a change of this process declares for a table.

    With `lasting` they are stored in the namespace, except the table's folder, which the catalog knows.
    """
    old = () if before is None else owned_folders(before)
    new = [folder for folder in owned_folders(after) if folder not in old]
    if not new:
        return
    allow(storage, new)
    if not lasting:
        return
    metadata_path = METADATA_PATH.read(after.properties)
    home = after.location if metadata_path is None else table_folder(metadata_path.rstrip("/") + "/")
    previous = [folder for folder in old if is_allowed(storage, folder)]  # existing files stay in them
    allow_permanently(storage, [folder for folder in (*new, *previous) if not is_below(folder, home)])


def allow_files(storage: Storage, locations: Iterable[str]) -> bool:
    """Allow folders and files that a caller adds to a table, permanently; whether any was not allowed before."""
    return bool(allow_permanently(storage, [_folder_of(location) for location in locations]))


def table_folder(metadata_location: str) -> str:
    """The folder of the table that a metadata file belongs to.

    >>> table_folder("s3://b/t/metadata/00001-x.metadata.json"), table_folder("/somewhere/v1.metadata.json")
    ('s3://b/t', '/somewhere')
    """
    folder = metadata_location.rpartition("/")[0]
    above, _, name = folder.rpartition("/")
    return above if name == "metadata" and above.strip("/") else folder or metadata_location


def _folder_of(location: str) -> str:
    """The folder of a location that is a file, or the location itself if it is a folder."""
    folder, _, name = location.rstrip("/").rpartition("/")
    is_file = "." in name and not location.endswith("/") and folder.strip("/") and not folder.endswith(":/")
    return folder if is_file else location
