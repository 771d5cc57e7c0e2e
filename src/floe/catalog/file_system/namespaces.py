"""Namespaces of a file-system catalog: folders, with their properties in a small hidden file.

Java's file-system catalog has no properties of namespaces, and ignores files in a namespace's folder. So
`.floe-namespace.json` is written there when a namespace has properties, and in stores where folders are only prefixes
of names, so that an empty namespace exists at all. Java refuses to drop a namespace with that file in it.

A folder below a namespace is a table, a view, a namespace, or the remains of a dropped table: the files in its
`metadata` folder show which.

The files of dropped tables stay where their metadata says, so a namespace that is dropped with such folders in it keeps
its folder, and its file marks it as dropped. The mark counts only while nothing else is in the folder: a table that is
created there at the same time keeps the namespace. To Java it is an empty namespace.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Final

import msgspec

from floe.catalog.file_system.versions import VersionFolder, direct_files
from floe.catalog.file_system.views import repeat_if_lost, view_version
from floe.catalog.identifiers import Namespace, check_namespace, check_namespace_properties, format_identifier
from floe.errors import (
    InvalidMetadata,
    InvalidName,
    NamespaceAlreadyExists,
    NamespaceNotEmpty,
    NoSuchFile,
    NoSuchNamespace,
    StorageError,
    UnsupportedFeature,
)
from floe.spec.json_reader import check_unique_keys
from floe.spec.metadata.file_names import parse_metadata_file_name
from floe.storage.locations import join
from floe.storage.protocol import Storage

NAMESPACE_FILE: Final = ".floe-namespace.json"
_LARGEST: Final = 1024 * 1024


class FolderKind(Enum):
    """What a folder of the warehouse contains."""

    NAMESPACE = "a namespace"
    TABLE = "a table"
    VIEW = "a view"
    REMAINS = "what is left of a dropped table"


class _NamespaceFile(msgspec.Struct, omit_defaults=True):
    properties: dict[str, str]
    dropped: bool = False


def check_file_names(parts: tuple[str, ...]) -> None:
    """Raise if a part cannot be the name of a folder that all engines read as a namespace, table or view.

    >>> check_file_names(("db", ".hidden"))
    Traceback (most recent call last):
    floe.errors.InvalidName: in a file-system catalog a name must not begin with a dot (name: db.`.hidden`)
    """
    for part in parts:
        problem = "begin with a dot" if part.startswith(".") else None
        if part.endswith((".metadata.json", ".metadata.json.gz", ".view.json")):
            problem = "end as metadata files do"
        if problem:
            raise InvalidName(f"in a file-system catalog a name must not {problem}", name=format_identifier(parts))


class NamespaceFolders:
    """The namespaces below a warehouse.

    >>> from floe.storage.memory import MemoryStorage
    >>> namespaces = NamespaceFolders(MemoryStorage(), "memory:wh")
    >>> namespaces.create(("lake", "raw"), {"owner": "me"})
    >>> namespaces.below(()), namespaces.below(("lake",)), namespaces.properties(("lake", "raw"))
    ([('lake',)], [('lake', 'raw')], {'owner': 'me'})
    """

    def __init__(self, storage: Storage, warehouse: str) -> None:
        self.storage, self.warehouse = storage, warehouse
        self._lock = threading.Lock()

    def folder(self, parts: tuple[str, ...]) -> str:
        """The folder of a namespace, table or view."""
        return join(self.warehouse, *parts) if parts else self.warehouse

    def kind(self, parts: tuple[str, ...]) -> FolderKind:
        """What a folder contains; a folder that does not exist counts as a namespace."""
        metadata = join(self.folder(parts), "metadata")
        versions = VersionFolder(self.storage, metadata)
        hint = versions.read_hint()
        if hint is not None and versions.find(hint) is not None:
            return FolderKind.TABLE
        kind = FolderKind.NAMESPACE
        for info in direct_files(self.storage, metadata):
            name = info.location.rpartition("/")[2]
            parsed = parse_metadata_file_name(name)
            if parsed is not None and parsed.is_file_system:
                return FolderKind.TABLE
            if view_version(name) is not None:
                kind = FolderKind.VIEW
            elif kind is FolderKind.NAMESPACE and not name.startswith("."):
                kind = FolderKind.REMAINS
        return kind

    def children(self, namespace: Namespace) -> list[tuple[str, ...]]:
        """All folders directly below a namespace, except hidden ones and those with invalid names."""
        return [
            (*namespace, name)
            for name in self.storage.folders(self.folder(namespace))
            if _is_possible((*namespace, name))
        ]

    def below(self, namespace: Namespace) -> list[Namespace]:
        """The namespaces directly below another one."""
        self.check(namespace)
        return [
            child
            for child in self.children(namespace)
            if self.kind(child) is FolderKind.NAMESPACE and not self._is_dropped(child)
        ]

    def of_kind(self, namespace: Namespace, kind: FolderKind) -> list[tuple[str, ...]]:
        """The tables or views directly in a namespace."""
        self.check(namespace)
        return [child for child in self.children(namespace) if self.kind(child) is kind]

    def exists(self, namespace: Namespace) -> bool:
        """Whether there is such a namespace."""
        if not namespace:
            return True
        if not _is_possible(namespace):
            return False
        is_namespace = self._is_folder(namespace) and self.kind(namespace) is FolderKind.NAMESPACE
        return is_namespace and not self._is_dropped(namespace)

    def check(self, namespace: Namespace) -> None:
        """Raise unless there is such a namespace."""
        if not self.exists(namespace):
            raise NoSuchNamespace("there is no such namespace", namespace=format_identifier(namespace))

    def create(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Creates a namespace, and its parents that do not exist."""
        check_namespace(namespace)
        check_file_names(namespace)
        _check_properties(properties)
        for depth in range(1, len(namespace)):
            if (kind := self.kind(namespace[:depth])) is not FolderKind.NAMESPACE:
                raise InvalidName(
                    f"{format_identifier(namespace[:depth])} is {kind.value}, so there can be no namespace below it",
                    namespace=format_identifier(namespace),
                )
        dropped = {above for depth in range(1, len(namespace) + 1) if self._is_dropped(above := namespace[:depth])}
        if not namespace or (self._is_folder(namespace) and namespace not in dropped):
            raise NamespaceAlreadyExists(
                f"there is {self.kind(namespace).value} of that name already"
                if namespace
                else "the catalog itself always exists",
                namespace=format_identifier(namespace),
            )
        self.storage.make_folder(self.folder(namespace))
        if properties or namespace in dropped or not self._is_folder(namespace):
            self._write(namespace, properties)
        for above in dropped - {namespace}:
            self._write(above, {})

    def drop(self, namespace: Namespace) -> None:
        """Drops a namespace that is empty, or has only files of dropped tables."""
        self.check(namespace)
        if not namespace:
            raise NamespaceNotEmpty("the catalog itself cannot be dropped")
        for child, kind in self._contents(namespace):
            raise NamespaceNotEmpty(
                f"the namespace is not empty: it holds {kind.value}",
                hint="drop its tables, views and namespaces first",
                namespace=format_identifier(namespace),
                holds=format_identifier(child),
            )
        if self.children(namespace):
            self._write_file(namespace, msgspec.json.encode(_NamespaceFile({}, dropped=True)))
        else:
            self._remove(namespace)

    def clear_dropped(self, namespace: Namespace) -> None:
        """Removes the folders of a dropped namespace, and of its dropped parents, once they are empty."""
        if namespace and self._is_dropped(namespace) and not self.children(namespace):
            self._remove(namespace)
            self.clear_dropped(namespace[:-1])

    def _contents(self, namespace: Namespace) -> Iterator[tuple[tuple[str, ...], FolderKind]]:
        """The tables, views and namespaces in a namespace, without those that were dropped."""
        for child in self.children(namespace):
            kind = self.kind(child)
            if kind is not FolderKind.REMAINS and not (kind is FolderKind.NAMESPACE and self._is_dropped(child)):
                yield child, kind

    def _is_dropped(self, namespace: Namespace) -> bool:
        """Whether a folder is marked as a dropped namespace, and has no contents."""
        data = self._read_bytes(namespace)
        try:
            marked = data is not None and msgspec.json.decode(data, type=_NamespaceFile).dropped
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False  # the error is raised when the properties are read
        return marked and next(self._contents(namespace), None) is None

    def _remove(self, namespace: Namespace) -> None:
        content = self._read_bytes(namespace)
        self._send(namespace, lambda: self.storage.delete_many([self._file(namespace)]))
        try:
            self.storage.remove_folder(self.folder(namespace))
        except StorageError as error:
            if content is not None:
                self._write_file(namespace, content)
            raise NamespaceNotEmpty(
                "the namespace's folder is not empty",
                namespace=format_identifier(namespace),
                location=self.folder(namespace),
            ) from error

    def properties(self, namespace: Namespace) -> dict[str, str]:
        """The properties of a namespace; the catalog itself has none."""
        self.check(namespace)
        if not namespace:
            raise NoSuchNamespace("the catalog itself is not a namespace with properties")
        return self._read(namespace) or {}

    def update(self, namespace: Namespace, updates: Mapping[str, str], removals: frozenset[str]) -> None:
        """Sets and removes properties; if two processes do so at the same time, the last write wins."""
        _check_properties(updates, removals)
        with self._lock:
            before = self.properties(namespace)
            after = {key: value for key, value in before.items() if key not in removals} | dict(updates)
            if after != before:
                self._write(namespace, after)

    def _is_folder(self, namespace: Namespace) -> bool:
        return namespace[-1] in self.storage.folders(self.folder(namespace[:-1]))

    def _file(self, namespace: Namespace) -> str:
        return join(self.folder(namespace), NAMESPACE_FILE)

    def _read_bytes(self, namespace: Namespace) -> bytes | None:
        try:
            return self.storage.read(self._file(namespace), max_bytes=_LARGEST)
        except NoSuchFile:
            return None

    def _read(self, namespace: Namespace) -> dict[str, str] | None:
        data = self._read_bytes(namespace)
        if data is None:
            return None
        try:
            properties = msgspec.json.decode(data, type=_NamespaceFile).properties
            check_unique_keys(data)
            return properties
        except InvalidMetadata as error:
            raise error.with_context(file=self._file(namespace)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidMetadata(
                f"the properties of a namespace cannot be read: {error}", file=self._file(namespace)
            ) from error

    def _write(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        self._write_file(namespace, msgspec.json.encode(_NamespaceFile(dict(properties))))

    def _write_file(self, namespace: Namespace, data: bytes) -> None:
        self._send(namespace, lambda: self.storage.write(self._file(namespace), data, overwrite=True))

    @staticmethod
    def _send(namespace: Namespace, action: Callable[[], object]) -> None:
        """Runs an idempotent call, repeated if its response is lost."""
        repeat_if_lost(action, "the namespace", namespace=format_identifier(namespace))


def _is_possible(parts: tuple[str, ...]) -> bool:
    try:
        check_namespace(parts)
        check_file_names(parts)
    except InvalidName:
        return False
    return True


def _check_properties(properties: Mapping[str, str], removals: frozenset[str] = frozenset()) -> None:
    check_namespace_properties(properties, removals)
    if "location" in properties:
        raise UnsupportedFeature(
            "a namespace of a file-system catalog cannot have its own location: it is a folder of the warehouse",
            hint="leave out the property `location`, or use a catalog in a database",
        )
