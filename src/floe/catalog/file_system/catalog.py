"""The file-system catalog: a warehouse folder in the layout of Java's HadoopCatalog, and nothing else.

```
warehouse/
  db/                              a namespace
    orders/                        a table
      metadata/
        v1.metadata.json           its versions: the newest is its state
        v2.metadata.json
        version-hint.text          where to begin to look for it
      data/
```

Tables are shared with Java both ways. What differs from other catalogs follows from the layout: a table lives in the
folder of its name, so it has no location of its own and cannot be renamed, for its metadata holds the paths of all
files; and metadata files can only be registered from within the table's own folder.

**Dropping.** The table is gone when its newest version is; older ones are deleted before, in their order, so that a
crash leaves the table as it was. A writer that commits meanwhile is either before the drop, and then dropped too, or
finds its base gone. Without `purge` all other files stay, and the last version too, under a name that makes no table
(`metadata/dropped-…`), from which `register_table` brings the table back. With `purge` everything in the folder goes.
Java's catalog deletes the folder in both cases. What a drop left is neither listed nor in the way: another table of
the name can be made, the namespace can be dropped and made again (`folders`), and the files stay until the name is
dropped once more with `purge`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from floe.catalog.file_system.namespaces import NAMESPACE_FILE, FolderKind, NamespaceFolders, check_file_names
from floe.catalog.file_system.pointer import FileSystemPointer, StoreCheck, VersionState
from floe.catalog.file_system.versions import direct_files
from floe.catalog.file_system.views import ViewFolder, view_version
from floe.catalog.identifiers import Identifier, Namespace, check_identifier, format_identifier
from floe.catalog.metadata_files import read_metadata
from floe.catalog.protocol import Capability
from floe.catalog.purge import PurgePlan, plan_purge
from floe.commit.pointer import Outcome, Proposal, TableState
from floe.commit.roots import TableRoots
from floe.errors import (
    CommitStateUnknown,
    FileAlreadyExists,
    NamespaceNotEmpty,
    NoSuchTable,
    NoSuchView,
    OutcomeUnknown,
    StorageError,
    TableAlreadyExists,
    UnsupportedFeature,
    ViewAlreadyExists,
)
from floe.spec.json_reader import Limits
from floe.spec.metadata.file_names import parse_metadata_file_name
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import serialize
from floe.spec.views.view_metadata import ViewMetadata, serialize_view
from floe.storage.environment import Environment
from floe.storage.locations import is_below, join, parse, same_file
from floe.storage.protocol import Storage
from floe.storage.schemes import open_storage

_DROPPED: Final = "dropped-"
_DROP_ATTEMPTS: Final = 20


class FileSystemCatalog:
    """The tables below a warehouse folder.

    >>> from floe.storage.memory import MemoryStorage
    >>> catalog = FileSystemCatalog("memory:warehouse", storage=MemoryStorage())
    >>> catalog.create_namespace(("db",))
    >>> catalog.tables(("db",)), catalog.default_location(("db", "orders"))
    ([], 'memory:warehouse/db/orders')
    """

    capabilities = frozenset({Capability.NAMESPACE_PROPERTIES, Capability.VIEWS})
    shared = None

    def __init__(
        self,
        warehouse: str,
        *,
        name: str = "warehouse",
        storage: Storage | None = None,
        environment: Environment | None = None,
        properties: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.name = name
        self.warehouse = parse(warehouse).text.rstrip("/")
        self.storage = open_storage(self.warehouse or "/") if storage is None else storage
        self.environment = environment or Environment()
        self.properties: Mapping[str, str] = MappingProxyType(dict(properties or {}))
        self._limits = limits
        self._folders = NamespaceFolders(self.storage, self.warehouse)
        self._check_store = StoreCheck(self.storage, self.warehouse or "/", self.environment.ids)

    def __repr__(self) -> str:
        return f"FileSystemCatalog({self.warehouse!r})"

    def close(self) -> None:
        """Does nothing: no files are held open."""

    # namespaces ----------------------------------------------------------------------------------------------

    def namespaces(self, parent: Namespace = ()) -> Sequence[Namespace]:
        """The folders directly below that are neither tables nor views."""
        return self._folders.below(parent)

    def namespace_exists(self, namespace: Namespace) -> bool:
        """Whether there is such a folder, and it is neither a table nor a view."""
        return self._folders.exists(namespace)

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str] | None = None) -> None:
        """Creates the folder of a namespace."""
        self._folders.create(namespace, properties or {})

    def drop_namespace(self, namespace: Namespace) -> None:
        """Drops a namespace; its folder stays while it has files of dropped tables."""
        self._folders.drop(namespace)

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        """The properties of a namespace."""
        return self._folders.properties(namespace)

    def update_namespace(
        self, namespace: Namespace, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> None:
        """Sets and removes properties of a namespace."""
        self._folders.update(namespace, updates or {}, frozenset(removals))

    # tables --------------------------------------------------------------------------------------------------

    def tables(self, namespace: Namespace) -> Sequence[Identifier]:
        """The folders with versions of a table in them."""
        return self._folders.of_kind(namespace, FolderKind.TABLE) if namespace else []

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether there is a version of such a table."""
        return self._pointer(identifier).versions.has_versions()

    def pointer(self, identifier: Identifier) -> FileSystemPointer:
        """The pointer to a table's newest version."""
        return self._pointer(identifier)

    def default_location(self, identifier: Identifier) -> str:
        """The folder of that name: the only location that the table can have."""
        check_identifier(identifier)
        return join(self.warehouse, *identifier)

    def drop_table(self, identifier: Identifier, *, purge: bool = False) -> None:
        """Drops a table; see the module. With `purge`, files of a table that was dropped before are deleted too."""
        pointer = self._pointer(identifier)
        dropped = _Dropped()
        self._drop(pointer, dropped, purge=purge)
        if not dropped.records and purge:
            self._plan_remains(pointer, dropped)
        if not dropped.records:
            raise NoSuchTable("there is no such table", table=pointer.name)
        if purge:
            for plan in dropped.plans:
                plan.apply(self.storage).check()
            try:
                self._sweep(pointer, dropped)
            except StorageError as error:
                raise StorageError(
                    f"the table is dropped, but not all of its files could be deleted: {error.message}",
                    hint="purge it again to delete the others",
                    table=pointer.name,
                ) from error
            with contextlib.suppress(NamespaceNotEmpty, StorageError):  # another program created something there
                self._folders.clear_dropped(identifier[:-1])

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """Not supported: the table's metadata has the paths of all files."""
        raise UnsupportedFeature(
            "a table of a file-system catalog cannot be renamed: its folder is its name, and its metadata holds the "
            "paths of all its files",
            hint="copy it into a new table, or use a catalog in a database",
            table=format_identifier(old),
        )

    def register_table(self, identifier: Identifier, metadata_location: str) -> None:
        """Adds a table with a metadata file that lies in the table's own folder."""
        pointer = self._pointer(identifier)
        if not is_below(metadata_location, pointer.folder):
            raise UnsupportedFeature(
                "a table of a file-system catalog must lie in the folder of its name",
                hint="open the table by its path, copy it to its folder, or use a catalog in a database",
                table=pointer.name,
                metadata=metadata_location,
                expected=pointer.folder,
            )
        metadata = _without_versions(read_metadata(self.storage, metadata_location, limits=self._limits))
        proposal = pointer.propose(None, metadata)
        self._publish(proposal)
        if metadata_location.rpartition("/")[2].startswith(_DROPPED):
            with contextlib.suppress(
                StorageError
            ):  # the table exists; the copy that the drop kept is not needed any more
                self.storage.delete_many([metadata_location])

    def _pointer(self, identifier: Identifier) -> FileSystemPointer:
        check_identifier(identifier)
        check_file_names(identifier)
        namespace = identifier[:-1]
        roots = TableRoots(
            self.storage,
            lambda: self.namespace_properties(namespace),
            lambda properties: self.update_namespace(namespace, properties),
        )
        return FileSystemPointer(
            format_identifier(identifier),
            self.default_location(identifier),
            roots.storage,
            self.environment,
            roots=roots,
            limits=self._limits,
            check_store=self._check_store,
            before_creation=lambda: self._check_free(identifier),
            after_creation=lambda: self._check_no_view(identifier),
        )

    def _check_free(self, identifier: Identifier) -> None:
        self._folders.check(identifier[:-1])
        self._check_no_view(identifier)

    def _check_no_view(self, identifier: Identifier) -> None:
        if self._view(identifier).newest() is not None:
            raise TableAlreadyExists("there is a view of that name already", table=format_identifier(identifier))

    def _publish(self, proposal: Proposal) -> None:
        """Publishes a proposal outside the commit loop; there is nothing to retry."""
        pointer = proposal.pointer
        try:
            pointer.swap(proposal)
        except OutcomeUnknown as error:
            outcome = pointer.settle(proposal)
            if outcome is Outcome.ABSENT:
                raise TableAlreadyExists("there is a table of that name already", table=pointer.name) from error
            if outcome is Outcome.UNKNOWN:
                raise CommitStateUnknown(
                    "the table may or may not have been registered: the response was lost",
                    hint="check whether the table exists",
                    table=pointer.name,
                ) from error
        pointer.finish(proposal)

    # dropping ------------------------------------------------------------------------------------------------

    def _drop(self, pointer: FileSystemPointer, dropped: _Dropped, *, purge: bool) -> None:
        """Deletes the versions until there are none; each state is copied aside before it is deleted."""
        lost: StorageError | None = None
        for _ in range(_DROP_ATTEMPTS):
            try:
                state = pointer.load()
            except StorageError as error:
                if not dropped.records:
                    raise
                lost = error  # it may be dropped by now
                continue
            if state is None:
                return
            if purge:
                dropped.plans.append(self._plan(pointer, state))
            dropped.records.append(self._put_aside(pointer, state))
            try:
                pointer.remove(state)
            except OutcomeUnknown as error:
                lost = error  # the next load shows whether it was dropped
            except StorageError:
                if self._is_gone(pointer):
                    return  # only the version hint could not be deleted
                raise
        raise CommitStateUnknown(
            "the table could not be dropped: others commit to it, or the storage does not respond",
            hint="check whether the table exists",
            table=pointer.name,
        ) from lost

    @staticmethod
    def _is_gone(pointer: FileSystemPointer) -> bool:
        try:
            return not pointer.versions.has_versions()
        except StorageError:
            return False

    def _plan(self, pointer: FileSystemPointer, state: TableState) -> PurgePlan:
        if not same_file(state.metadata.location.rstrip("/"), pointer.folder.rstrip("/")):
            raise UnsupportedFeature(
                "the location in the table's metadata is another one, so its files are not deleted",
                hint="drop the table without purge",
                table=pointer.name,
                location=state.metadata.location,
                expected=pointer.folder,
            )
        return plan_purge(state, self.storage, above=(self.warehouse or "/",))

    def _plan_remains(self, pointer: FileSystemPointer, dropped: _Dropped) -> None:
        """Plans the purge of the files that earlier drops left."""
        for record in self._records(pointer):
            state = TableState(read_metadata(self.storage, record, limits=self._limits), record)
            dropped.plans.append(self._plan(pointer, state))
            dropped.records.append(record)

    def _records(self, pointer: FileSystemPointer) -> list[str]:
        files = [info.location for info in direct_files(self.storage, pointer.versions.folder)]
        return [file for file in files if file.rpartition("/")[2].startswith(_DROPPED)]

    def _put_aside(self, pointer: FileSystemPointer, state: VersionState) -> str:
        """Writes the last state to a file that is not a version, from which the table can be registered again."""
        table = state.metadata.table_uuid or str(self.environment.ids.uuid())
        name = f"{_DROPPED}v{state.version.number}-{table.lower()}.json"
        location = join(pointer.versions.folder, name)
        self.storage.write(location, serialize(state.metadata), overwrite=True)
        return location

    def _sweep(self, pointer: FileSystemPointer, dropped: _Dropped) -> None:
        """Deletes the other files in the folder of a purged table, unless some may belong to something else.

        That is: tables or views below it, a table that was created meanwhile, or files that earlier drops kept.
        """
        prefix_length = len(parse(pointer.folder).folder)
        files = [info.location for info in self.storage.list(pointer.folder)]
        paths = [parse(file).path[prefix_length:] for file in files]
        tables = {_table_of_record(record) for record in dropped.records}
        kept = [record for record in self._records(pointer) if _table_of_record(record) not in tables]
        if kept or any(_defines_entity(path) for path in paths):
            self.storage.delete_many(
                [record for record in self._records(pointer) if _table_of_record(record) in tables]
            )
            return
        for deletion in self.storage.delete_many(files):
            if deletion.error is not None:
                raise deletion.error
        folders = {"metadata", "data"}
        for path in paths:
            steps = path.split("/")[:-1]
            folders |= {"/".join(steps[:depth]) for depth in range(1, len(steps) + 1)}
        with contextlib.suppress(StorageError):  # another program created something there
            for folder in sorted(folders, key=lambda path: -path.count("/")):
                self.storage.remove_folder(join(pointer.folder, folder))
            self.storage.remove_folder(pointer.folder)

    # views ---------------------------------------------------------------------------------------------------

    def views(self, namespace: Namespace) -> Sequence[Identifier]:
        """The folders with versions of a view in them."""
        return self._folders.of_kind(namespace, FolderKind.VIEW) if namespace else []

    def view_exists(self, identifier: Identifier) -> bool:
        """Whether there is a version of such a view, and no table of that name."""
        return self._view(identifier).newest() is not None and not self.table_exists(identifier)

    def load_view(self, identifier: Identifier) -> ViewMetadata:
        """The newest version of a view."""
        loaded = self._view(identifier).load()
        if loaded is None or self.table_exists(identifier):
            raise _no_view(identifier)
        _, metadata = loaded
        return metadata

    def create_view(self, identifier: Identifier, metadata: ViewMetadata) -> None:
        """Creates the first version of a view."""
        self._check_store()
        view = self._view(identifier)
        self._folders.check(identifier[:-1])
        self._check_no_table(identifier)
        if view.newest() is not None:
            raise _view_taken(identifier, "a view")
        try:
            view.create(metadata)
        except FileAlreadyExists:
            raise _view_taken(identifier, "a view") from None
        with view.uncertain():
            if self.table_exists(identifier):
                view.take_back(1, serialize_view(metadata))
                raise _view_taken(identifier, "a table")

    def replace_view(self, identifier: Identifier, base: ViewMetadata, metadata: ViewMetadata) -> None:
        """Creates the next version of a view if the newest is still `base`."""
        self._check_store()
        if not self._view(identifier).replace(base, metadata):
            raise _no_view(identifier)

    def drop_view(self, identifier: Identifier) -> None:
        """Deletes the versions of a view, and its folder if nothing else is in it."""
        view = self._view(identifier)
        if not view.remove():
            raise _no_view(identifier)
        with contextlib.suppress(StorageError):
            self.storage.remove_folder(view.folder)
            self.storage.remove_folder(self.default_location(identifier))

    def rename_view(self, old: Identifier, new: Identifier) -> None:
        """Not supported: two folders cannot be changed atomically."""
        raise UnsupportedFeature(
            "a view of a file-system catalog cannot be renamed",
            hint="create it under the new name and drop the old one",
            view=format_identifier(old),
        )

    def _view(self, identifier: Identifier) -> ViewFolder:
        check_identifier(identifier)
        check_file_names(identifier)
        return ViewFolder(format_identifier(identifier), self.default_location(identifier), self.storage)

    def _check_no_table(self, identifier: Identifier) -> None:
        if self.table_exists(identifier):
            raise _view_taken(identifier, "a table")


@dataclass(slots=True)
class _Dropped:
    """The progress of a drop: files with the states that were copied aside, and the purge plan of each."""

    records: list[str] = field(default_factory=list)
    plans: list[PurgePlan] = field(default_factory=list)


def _without_versions(metadata: TableMetadata) -> TableMetadata:
    """The metadata without log entries of version files, whose numbers will be used again."""
    kept = []
    for entry in metadata.metadata_log:
        name = parse_metadata_file_name(entry.metadata_file)
        if name is None or not name.is_file_system:
            kept.append(entry)
    return replace(metadata, metadata_log=tuple(kept))


def _table_of_record(location: str) -> str:
    """The UUID of the table whose last state a file has; unfinished drops leave several such files."""
    return location.rpartition("/")[2].removeprefix(_DROPPED).partition("-")[2]


def _defines_entity(path: str) -> bool:
    """Whether a file makes its folder a table, a view or a namespace."""
    name = path.rpartition("/")[2]
    parsed = parse_metadata_file_name(name)
    return name == NAMESPACE_FILE or view_version(name) is not None or (parsed is not None and parsed.is_file_system)


def _no_view(identifier: Identifier) -> NoSuchView:
    return NoSuchView("there is no such view", view=format_identifier(identifier))


def _view_taken(identifier: Identifier, existing: str) -> ViewAlreadyExists:
    return ViewAlreadyExists(f"there is {existing} of that name already", view=format_identifier(identifier))
