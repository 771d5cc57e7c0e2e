"""Access control for files: allowed roots and size limits, enforced here and nowhere else.

Metadata is untrusted: a manifest can name `/etc/passwd`, and a file can be larger than memory. All locations that come
from metadata are opened through `Access`, directly in front of the real storage (behind a prefix map, so that it checks
actual locations).

| roots | what is allowed |
|---|---|
| exact | the folders of `roots=[…]`, and no others; symbolic links on the local disk are resolved before they are compared |
| default | the warehouse, and for each table the folders that its catalog and its metadata name, added with `allow` and `allow_declared`; a path below a root is allowed, and so is one whose links lead below a root |

`floe.commit.roots` decides which folders a catalog allows for a table.
"""  # noqa: E501 (a table)

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from floe.errors import FileTooLarge, PathNotAllowed
from floe.storage.locations import Location, parse
from floe.storage.protocol import Storage
from floe.storage.wrappers import PrefixMap, StorageWrapper

T = TypeVar("T")


class SavedRoots(Protocol):
    """The folders outside the warehouse that a catalog has saved as allowed for the tables of a namespace."""

    def load_roots(self) -> Sequence[str]:
        """The folders that were saved for the namespace."""

    def save_roots(self, folders: Sequence[str]) -> None:
        """Save folders in addition to those that were saved before."""


DEFAULT_MAX_READ_BYTES = 1024**3
"""The default limit of a single read into memory."""


class Access(StorageWrapper):
    """A storage that allows only locations below its roots, and limits how much a single read takes into memory.

    Paths are compared by full names after `..` is resolved. With exact roots, symbolic links of the local disk are
    resolved first, in roots too, so a link below a root that leads out of it is an error. In object stores, keys with
    `.` or `..` as names are an error: programs differ in which object they mean. With `roots=None` only the size limit
    applies.

    >>> from floe.storage.memory import MemoryStorage
    >>> storage = Access(MemoryStorage(), roots=["s3://bucket/wh/"], max_read_bytes=4)
    >>> storage.write("s3a://bucket/wh/t/a", b"12345")
    >>> storage.read_range("s3://bucket/wh/t/a", 0, 4)
    b'1234'
    >>> storage.read("s3://bucket/wh/t/a")
    Traceback (most recent call last):
    floe.errors.FileTooLarge: the file has 5 bytes, at most 4 are allowed (location: s3://bucket/wh/t/a)
    >>> storage.read("s3://bucket/wh2/t/a")
    Traceback (most recent call last):
    floe.errors.PathNotAllowed: outside the allowed roots (location: s3://bucket/wh2/t/a, roots: s3://bucket/wh/) ...
    """

    def __init__(
        self,
        storage: Storage,
        *,
        roots: Iterable[str] | None = None,
        max_read_bytes: int | None = DEFAULT_MAX_READ_BYTES,
        exact: bool = True,
    ) -> None:
        super().__init__(storage)
        self.roots: tuple[str, ...] | None = None
        self.max_read_bytes = max_read_bytes
        self.exact = exact
        self._prefixes: tuple[str, ...] = ()  # of locations that are allowed without parsing them
        self._named: tuple[Location, ...] = ()
        self._real: tuple[Location, ...] = ()
        self._shared: Access | None = None  # that of all tables of the catalog
        self._saved: SavedRoots | None = None
        if roots is not None:
            self._set_roots(tuple(roots))

    def __repr__(self) -> str:
        return f"Access({self.storage!r}, roots={self.roots!r}, max_read_bytes={self.max_read_bytes})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_shared": None, "_saved": None}  # another process cannot extend the roots

    def allows(self, location: str) -> bool:
        """Whether the location may be read and written.

        >>> from floe.storage.local import LocalStorage
        >>> access = Access(LocalStorage(), roots=["/wh"])
        >>> access.allows("/wh/t/a"), access.allows("file:///etc/passwd"), access.allows("/wh/../etc/passwd")
        (True, False, False)
        """
        if self.roots is None:
            return True
        if location.startswith(self._prefixes) and "/." not in location:
            return True
        parsed = parse(location)
        if _is_ambiguous(parsed):
            return False
        if not self.exact and any(root.contains(parsed) for root in (*self._named, *self._real)):
            return True
        real = _resolve_links(parsed)
        return any(root.contains(real) for root in self._real)

    def allow(self, locations: Iterable[str]) -> None:
        """Allow more folders, unless the roots are exact.

        >>> from floe.storage.memory import MemoryStorage
        >>> storage = Access(MemoryStorage(), roots=["memory:wh"], exact=False)
        >>> storage.allow(["memory:wh/t", "memory:apart/t"])
        >>> storage.roots
        ('memory:wh', 'memory:apart/t')
        """
        if self.roots is None or self.exact:
            return
        new = [location for location in dict.fromkeys(locations) if not self.allows(location)]
        if new:
            self._set_roots((*self.roots, *new))

    def allow_declared(self, locations: Iterable[str]) -> None:
        """Allow folders that a table's metadata declares, unless they are too wide for one table.

        Too wide are an entire file system, and a folder that contains the warehouse of the table's catalog.

        >>> from floe.storage.local import LocalStorage
        >>> storage = Access(LocalStorage(), roots=["/data/wh"], exact=False).for_table()
        >>> storage.allow_declared(["/", "/data", "/bulk/t"])
        >>> storage.roots
        ('/data/wh', '/bulk/t')
        """
        self.allow(location for location in locations if not self._is_too_wide(parse(location)))

    def _is_too_wide(self, folder: Location) -> bool:
        if not folder.authority and folder.path in ("", "/"):
            return True
        shared = () if self._shared is None else (*self._shared._named, *self._shared._real)
        return any(folder.contains(root) and folder != root for root in shared)

    def allow_permanently(self, locations: Iterable[str]) -> list[str]:
        """Allow more folders and save them in the catalog; return those that are not allowed for all its tables."""
        requested = list(locations)
        self.allow(requested)
        if self.exact or self._shared is None:
            return []
        new = [location for location in dict.fromkeys(requested) if not self._shared.allows(location)]
        if new and self._saved is not None:
            self._saved.save_roots(new)
        return new

    def for_table(self, saved: SavedRoots | None = None) -> Access:
        """A copy for one table, whose roots can be extended without those of other tables."""
        if self.roots is None or self.exact:
            return self
        access = copy.copy(self)
        access._shared, access._saved = self, saved
        return access

    def _set_roots(self, roots: tuple[str, ...]) -> None:
        named = tuple(map(parse, roots))
        self._real = tuple(map(_resolve_links, named))
        self._prefixes = () if self.exact else tuple(f"{root.text.rstrip('/')}/" for root in named)
        self._named, self.roots = named, roots

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """Read a complete file, unless it is larger than the limits."""
        limits = [limit for limit in (max_bytes, self.max_read_bytes) if limit is not None]
        return super().read(location, max_bytes=min(limits, default=None))

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """Read a byte range, unless it is larger than the limit."""
        if self.max_read_bytes is not None and length > self.max_read_bytes:
            raise FileTooLarge(
                f"a read of {length} bytes, at most {self.max_read_bytes} are allowed", location=location
            )
        return super().read_range(location, offset, length)

    def check(self, location: str) -> None:
        """Raise `PathNotAllowed` unless the location is below a root or a folder that the catalog has saved."""
        if self.allows(location):
            return
        if self._saved is not None:
            self.allow(self._saved.load_roots())
        if not self.allows(location):
            raise PathNotAllowed(
                "outside the allowed roots",
                hint=self._hint(location),
                location=location,
                roots=", ".join(self.roots or ()) or "none",
            )

    def _locate(self, operation: str, location: str) -> str:
        self.check(location)
        return location

    def _hint(self, location: str) -> str:
        roots = [*(self.roots or ()), _folder_to_allow(location)]
        advice = f"if you trust this table, open it with roots={roots!r}"
        reason = "its metadata names a file that is neither in the warehouse nor in a folder of the table"
        return advice if self.exact else f"{advice}: {reason}"


# for a storage with other wrappers around `Access` -------------------------------------------------------------------


def for_table(storage: Storage, saved: SavedRoots | None = None) -> Storage:
    """A copy of the storage for one table, whose roots can be extended without those of other tables.

    >>> from floe.storage.memory import MemoryStorage
    >>> lake = Access(MemoryStorage(), roots=["memory:wh"], exact=False)
    >>> table = for_table(lake)
    >>> allow(table, ["memory:apart"])
    >>> is_allowed(table, "memory:apart/a"), is_allowed(lake, "memory:apart/a")
    (True, False)
    """
    if isinstance(storage, PrefixMap):
        return PrefixMap(for_table(storage.storage, saved), storage.prefixes)
    return storage.for_table(saved) if isinstance(storage, Access) else storage


def allow(storage: Storage, locations: Iterable[str]) -> None:
    """`Access.allow` for recorded locations; does nothing if the storage has no access control."""
    recorded = list(locations)
    for maps, access in _access_layers(storage):
        access.allow([_actual(maps, location) for location in recorded])


def allow_declared(storage: Storage, locations: Iterable[str]) -> None:
    """`Access.allow_declared` for recorded locations."""
    recorded = list(locations)
    for maps, access in _access_layers(storage):
        access.allow_declared([_actual(maps, location) for location in recorded])


def allow_permanently(storage: Storage, locations: Iterable[str]) -> list[str]:
    """`Access.allow_permanently` for recorded locations."""
    recorded = list(locations)
    new: list[str] = []
    for maps, access in _access_layers(storage):
        new += access.allow_permanently([_actual(maps, location) for location in recorded])
    return new


def is_allowed(storage: Storage, location: str) -> bool:
    """Whether a recorded location may be read and written."""
    return all(access.allows(_actual(maps, location)) for maps, access in _access_layers(storage))


def check_allowed(
    storage: Storage, locations: Callable[[], Iterable[str]], covers: Callable[[], Iterable[Iterable[str]]] = tuple
) -> None:
    """Raise `PathNotAllowed` if one of many recorded locations may not be read.

    They are not checked one by one where everything is allowed, or where roots are the default ones and one of their
    `covers` is allowed. A cover is a set of folders that together contain all locations; cheap ones come first.

    >>> from floe.storage.memory import MemoryStorage
    >>> check_allowed(Access(MemoryStorage(), roots=["memory:wh"]), lambda: ["memory:wh/a", "memory:b"])
    Traceback (most recent call last):
    floe.errors.PathNotAllowed: outside the allowed roots (location: memory:b, roots: memory:wh); ...
    """
    for maps, access in _access_layers(storage):
        if access.roots is None:
            continue
        if not access.exact and any(all(access.allows(_actual(maps, f)) for f in cover) for cover in covers()):
            continue
        for location in locations():
            access.check(_actual(maps, location))


def _access_layers(storage: Storage) -> Iterator[tuple[list[PrefixMap], Access]]:
    """Each `Access` of the wrappers of a storage, with the prefix maps in front of it."""
    maps: list[PrefixMap] = []
    layer: Storage | None = storage
    while layer is not None:
        if isinstance(layer, PrefixMap):
            maps = [*maps, layer]
        elif isinstance(layer, Access):
            yield maps, layer
        layer = getattr(layer, "storage", None)


def _actual(maps: Sequence[PrefixMap], location: str) -> str:
    for layer in maps:
        location = layer.actual(location)
    return location


def _folder_to_allow(location: str) -> str:
    """The folder of the table that a file probably belongs to, or else the file's folder."""
    names = location.split("/")
    for index in range(len(names) - 2, 0, -1):
        if names[index] in ("data", "metadata") and any(names[:index]):
            return "/".join(names[:index])
    return "/".join(names[:-1]) or location


def _resolve_links(location: Location) -> Location:
    """The location with symbolic links of the local disk resolved."""
    if location.scheme != "file":
        return location
    return replace(location, path=os.path.realpath(location.path))


def _is_ambiguous(location: Location) -> bool:
    return not location.is_tree and not {".", ".."}.isdisjoint(location.path.split("/"))
