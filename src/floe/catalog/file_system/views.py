"""Views of a file-system catalog: versions in files, `<view>/metadata/v<N>.view.json`, created exclusively.

Java's file-system catalog has no views; to Java the folder of a view is an empty namespace, never a table. A view is
small, so all its versions stay until it is dropped, and the newest is found by listing the folder. `repeat_if_lost` is
for idempotent calls: they are sent again when their response is lost, so that the outcome is known in the end.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from floe.catalog.file_system.versions import Version, direct_files
from floe.errors import (
    CommitConflict,
    CommitStateUnknown,
    FileAlreadyExists,
    FloeError,
    NoSuchFile,
    OutcomeUnknown,
    StorageError,
)
from floe.spec.json_reader import Limits
from floe.spec.views.view_metadata import ViewMetadata, parse_view, serialize_view
from floe.storage.locations import join
from floe.storage.protocol import Storage

T = TypeVar("T")

_ATTEMPTS: Final = 3


def repeat_if_lost(action: Callable[[], T], subject: str, **context: str) -> T:
    """The result of an idempotent call, sent again if its response is lost; `CommitStateUnknown` after some attempts.

    >>> def lost():
    ...     raise OutcomeUnknown("the response was lost")
    >>> repeat_if_lost(lost, "the namespace's properties", namespace="db")
    Traceback (most recent call last):
    floe.errors.CommitStateUnknown: the namespace's properties may or may not have been changed: the storage did not
    respond (namespace: db); check the state before repeating the call
    """
    lost: OutcomeUnknown | None = None
    for _ in range(_ATTEMPTS):
        try:
            return action()
        except OutcomeUnknown as error:
            lost = error
    raise CommitStateUnknown(
        f"{subject} may or may not have been changed: the storage did not respond",
        hint="check the state before repeating the call",
        **context,
    ) from lost


_NAME: Final = re.compile(r"v([1-9][0-9]{0,8})\.view\.json")
_LARGEST: Final = 64 * 1024 * 1024
_READ_ATTEMPTS: Final = 5


def view_version(file_name: str) -> int | None:
    """The version number in the name of a view's version file; None for other names.

    >>> view_version("v3.view.json"), view_version("v3.metadata.json")
    (3, None)
    """
    match = _NAME.fullmatch(file_name)
    return int(match[1]) if match else None


class ViewFolder:
    """The version files of one view.

    >>> from floe.storage.memory import MemoryStorage
    >>> ViewFolder("db.v", "memory:wh/db/v", MemoryStorage()).newest() is None
    True
    """

    def __init__(self, name: str, folder: str, storage: Storage) -> None:
        self.name, self.storage = name, storage
        self.folder = join(folder, "metadata")

    def newest(self) -> Version | None:
        """The newest version, or None if there is no view."""
        return max(self._versions(), key=lambda version: version.number, default=None)

    def load(self) -> tuple[Version, ViewMetadata] | None:
        """The newest version and its metadata; None if there is no view."""
        missing: NoSuchFile | None = None
        for _ in range(_READ_ATTEMPTS):
            version = self.newest()
            if version is None:
                return None
            try:
                return version, self._read(version)
            except NoSuchFile as error:  # dropped meanwhile, or dropped and created again
                missing = error
        assert missing is not None
        raise missing.with_context(view=self.name)

    def create(self, metadata: ViewMetadata) -> None:
        """Writes the first version; `FileAlreadyExists` if there is one."""
        self._publish(1, serialize_view(metadata))

    def replace(self, base: ViewMetadata, metadata: ViewMetadata) -> bool:
        """Writes the next version if the newest is still the base; False if there is no view."""
        loaded = self.load()
        if loaded is None:
            return False
        version, current = loaded
        if current != base:
            raise self._conflict()
        number, content = version.number + 1, serialize_view(metadata)
        try:
            self._publish(number, content)
        except FileAlreadyExists:
            raise self._conflict() from None
        # A view that was dropped and created again meanwhile is not the one that was to be replaced.
        with self.uncertain():
            try:
                if self._read(version) == base:
                    return True
            except NoSuchFile:
                pass
            self.take_back(number, content)
        raise self._conflict()

    def remove(self) -> bool:
        """Deletes all versions, the newest last; False if there were none."""
        versions = sorted(self._versions(), key=lambda version: version.number)
        for version in versions:
            repeat_if_lost(lambda version=version: self._delete(version), "the view", view=self.name)  # type: ignore[misc]
        return bool(versions)

    def _delete(self, version: Version) -> None:
        for deletion in self.storage.delete_many([version.location]):
            if deletion.error is not None:
                raise deletion.error

    def take_back(self, number: int, content: bytes) -> None:
        """Deletes a version that must not stay, if its file is still what was written."""
        location = self._location(number)
        try:
            if self.storage.read(location) == content:
                self.storage.delete_many([location])
        except NoSuchFile:
            return

    def _versions(self) -> list[Version]:
        versions = []
        for info in direct_files(self.storage, self.folder):
            number = view_version(info.location.rpartition("/")[2])
            if number is not None:
                versions.append(Version(number, info))
        return versions

    def _read(self, version: Version) -> ViewMetadata:
        data = self.storage.read(version.location, max_bytes=_LARGEST)
        try:
            return parse_view(data, limits=Limits(max_bytes=_LARGEST))
        except FloeError as error:
            raise error.with_context(file=version.location, view=self.name) from None

    def _publish(self, number: int, content: bytes) -> None:
        """Creates a version's file; after a lost response the creation is sent again, and its outcome counts."""
        location = self._location(number)
        try:
            self.storage.create(location, content)
        except OutcomeUnknown:
            with self.uncertain():
                self._publish_again(location, content)
        except FileAlreadyExists:
            with self.uncertain():
                if self.storage.read(location) != content:
                    raise

    def _publish_again(self, location: str, content: bytes) -> None:
        try:
            self.storage.create(location, content)
        except FileAlreadyExists:
            if self.storage.read(location) != content:
                raise

    @contextlib.contextmanager
    def uncertain(self) -> Iterator[None]:
        """Within this block the version may exist already: a storage error becomes `CommitStateUnknown`."""
        try:
            yield
        except FileAlreadyExists:
            raise
        except StorageError as error:
            raise CommitStateUnknown(
                "the view may or may not have been written: the storage did not respond",
                hint="read the view to find out",
                view=self.name,
            ) from error

    def _location(self, number: int) -> str:
        return join(self.folder, f"v{number}.view.json")

    def _conflict(self) -> CommitConflict:
        return CommitConflict("another writer changed the view", view=self.name)
