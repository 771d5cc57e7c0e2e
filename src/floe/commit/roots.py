"""Which folders the files of a table may be in, and who vouches for them.

Whoever can put a metadata file where a table is can name any file in it; and a program that opens tables of others has
more rights than they. So a table's files may be touched only below

| folder | because |
|---|---|
| the warehouse, and where prefixes lead | who opened the catalog named them |
| the table's folder, which is where its current metadata file lies | the catalog says so, or who opened it by its path |
| `location`, `write.data.path`, `write.metadata.path`, … of the metadata, unless they are a whole file system or contain the warehouse | they are the table's declared folders, whichever engine set them |
| such folders as a call has set them before, and folders given to `add_files` | who made that call named them |

The last kind is remembered for others, in the properties of the namespace (`floe.root.…`): that is the catalog's own
record, which a metadata file cannot forge. It holds for all tables of the namespace.

With `roots=[…]` none of this counts: those folders are allowed, and no others. `floe.storage.access` enforces all of it.
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
    """The folders that a table's own files are in: its location, and where its properties put files.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.schemas.schema import Schema
    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> properties = {"write.data.path": "s3://data/t"}
    >>> owned_folders(new_table_metadata(Schema(()), location="s3://b/t", uuid=uuid, now_ms=0, properties=properties))
    ('s3://b/t', 's3://data/t')
    """
    named = [folder for each in LOCATION_PROPERTIES if (folder := each.read(metadata.properties))]
    return tuple(dict.fromkeys([metadata.location, *named]))


class TableRoots:
    """The storage of one table, which allows what the table's catalog vouches for."""

    def __init__(
        self,
        storage: Storage,
        properties: Callable[[], Mapping[str, str]],
        update: Callable[[Mapping[str, str]], None],
    ) -> None:
        """`properties` and `update` are those of the namespace."""
        self._properties, self._update = properties, update
        self.lake, self.storage = storage, for_table(storage, self)

    def found(self, metadata_location: str) -> Storage:
        """The storage, once the catalog has told where the table's metadata file is."""
        allow(self.storage, [table_folder(metadata_location)])
        return self.storage

    def loaded(self, metadata: TableMetadata) -> None:
        """Allows what the metadata declares, and what the namespace remembers if the table has files elsewhere."""
        allow_declared(self.storage, owned_folders(metadata))
        elsewhere = FILES_ELSEWHERE.is_set(metadata.properties)  # which allows nothing itself
        if elsewhere or not all(is_allowed(self.storage, folder) for folder in owned_folders(metadata)):
            allow(self.storage, self.load_roots())

    def of(self, metadata: TableMetadata, location: str) -> Storage:
        """The storage for a table whose metadata is known."""
        self.found(location)
        self.loaded(metadata)
        return self.storage

    def load_roots(self) -> Sequence[str]:
        """The folders that the namespace remembers."""
        with suppress(NotFound):
            return [folder for name, folder in self._properties().items() if name.startswith(_ROOT)]
        return ()

    def save_roots(self, folders: Sequence[str]) -> None:
        """Has the namespace remember folders."""
        self._update({_ROOT + sha256(folder.encode()).hexdigest()[:16]: folder for folder in folders})


def allow_changed(
    storage: Storage, before: TableMetadata | None, after: TableMetadata, *, lasting: bool = False
) -> None:
    """Allows the folders that a change of this process declares for a table.

    What is `lasting` is remembered, but for the table's own folder, which the catalog knows.
    """
    old = () if before is None else owned_folders(before)
    new = [folder for folder in owned_folders(after) if folder not in old]
    if not new:
        return
    allow(storage, new)
    if not lasting:
        return
    asked = METADATA_PATH.read(after.properties)
    home = after.location if asked is None else table_folder(asked.rstrip("/") + "/")
    left = [folder for folder in old if is_allowed(storage, folder)]  # its files stay where they are
    allow_permanently(storage, [folder for folder in (*new, *left) if not is_below(folder, home)])


def allow_files(storage: Storage, locations: Iterable[str]) -> bool:
    """Allows folders and files that somebody gives to a table, for good; whether any was not allowed to all tables."""
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
    """What is allowed for a location that is a folder or a file: a file stands for its folder."""
    folder, _, name = location.rstrip("/").rpartition("/")
    is_file = "." in name and not location.endswith("/") and folder.strip("/") and not folder.endswith(":/")
    return folder if is_file else location
