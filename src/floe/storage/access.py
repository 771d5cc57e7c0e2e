"""The one gate for what may be read and written: allowed roots and size limits.

Metadata is untrusted: a manifest can name `/etc/passwd`, and a file can be larger than memory. All locations that come
from metadata are opened through `Access`, which stands right before the real storage (behind a prefix map, so that it
sees real locations).

| roots | what they are |
|---|---|
| exact | those that somebody gave (`roots=[…]`), and no others; links on local disk are followed before they are compared |
| usual | the warehouse, and of each table what its catalog vouches for and what its metadata declares, which is added with `allow` and `allow_declared`; links are for who made them: a name below a root passes, and so does one that leads below it |

`floe.commit.roots` tells what is vouched for.
"""  # noqa: E501 (a table)

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from floe.errors import FileTooLarge, PathNotAllowed
from floe.storage.locations import Location, parse
from floe.storage.prefix_map import PrefixMap
from floe.storage.protocol import Storage
from floe.storage.wrapping import StorageWrapper

__all__ = [
    "DEFAULT_MAX_READ_BYTES",
    "Access",
    "Ledger",
    "allow",
    "allow_declared",
    "check_allowed",
    "is_allowed",
    "remember",
    "with_own_roots",
]

T = TypeVar("T")


class Ledger(Protocol):
    """What a catalog remembers of the folders that people allowed to a table."""

    def recall(self) -> Sequence[str]:
        """The folders."""

    def tell(self, folders: Sequence[str]) -> None:
        """More folders."""


DEFAULT_MAX_READ_BYTES = 1024**3
"""No single read takes more than this many bytes into memory, unless told otherwise."""


class Access(StorageWrapper):
    """A storage that touches only what lies below its roots, and reads no more than its limit at once.

    Paths are compared by whole names after `..` is resolved; on the local disk symbolic links are followed first, in
    roots too, so a link below a root that leads out of it is refused, unless the roots are the usual ones
    (`exact=False`). In object stores, keys with `.` or `..` as names are refused: programs differ in what file they
    mean. Without roots (`roots=None`), only the limit holds.

    >>> from floe.storage.memory import MemoryStorage
    >>> storage = Access(MemoryStorage(), roots=["s3://bucket/wh/"], max_read_bytes=4)
    >>> storage.write("s3a://bucket/wh/t/a", b"12345")
    >>> storage.read_range("s3://bucket/wh/t/a", 0, 4)
    b'1234'
    >>> storage.read("s3://bucket/wh/t/a")
    Traceback (most recent call last):
    floe.errors.FileTooLarge: the file has 5 bytes, and 4 are allowed (location: s3://bucket/wh/t/a)
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
        self._begins: tuple[str, ...] = ()
        """How locations begin that need no closer look."""
        self._named: tuple[Location, ...] = ()
        self._real: tuple[Location, ...] = ()
        self._lake: Access | None = None
        self._ledger: Ledger | None = None
        if roots is not None:
            self._set_roots(tuple(roots))

    def __repr__(self) -> str:
        return f"Access({self.storage!r}, roots={self.roots!r}, max_read_bytes={self.max_read_bytes})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lake": None, "_ledger": None}  # in another process nobody allows anything

    def allows(self, location: str) -> bool:
        """Whether the location may be touched.

        >>> from floe.storage.local import LocalStorage
        >>> access = Access(LocalStorage(), roots=["/wh"])
        >>> access.allows("/wh/t/a"), access.allows("file:///etc/passwd"), access.allows("/wh/../etc/passwd")
        (True, False, False)
        """
        if self.roots is None:
            return True
        if location.startswith(self._begins) and "/." not in location:
            return True
        place = parse(location)
        if _is_ambiguous(place):
            return False
        if not self.exact and any(root.contains(place) for root in (*self._named, *self._real)):
            return True
        real = _real(place)
        return any(root.contains(real) for root in self._real)

    def allow(self, locations: Iterable[str]) -> None:
        """Allows more folders, unless the roots are exact.

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
        """Allows folders that a table's metadata declares, but for those that are too wide to be one table's.

        Too wide are a whole file system, and a folder that contains the warehouse of the table's catalog.

        >>> from floe.storage.local import LocalStorage
        >>> storage = Access(LocalStorage(), roots=["/data/wh"], exact=False).with_own_roots()
        >>> storage.allow_declared(["/", "/data", "/bulk/t"])
        >>> storage.roots
        ('/data/wh', '/bulk/t')
        """
        self.allow(location for location in locations if not self._is_too_wide(parse(location)))

    def _is_too_wide(self, folder: Location) -> bool:
        if not folder.authority and folder.path in ("", "/"):
            return True
        usual = () if self._lake is None else (*self._lake._named, *self._lake._real)
        return any(folder.contains(root) and folder != root for root in usual)

    def remember(self, locations: Iterable[str]) -> list[str]:
        """Allows more folders for good; those that not all tables of the lake may touch are told to its catalog."""
        asked = list(locations)
        self.allow(asked)
        if self.exact or self._lake is None:
            return []
        new = [location for location in dict.fromkeys(asked) if not self._lake.allows(location)]
        if new and self._ledger is not None:
            self._ledger.tell(new)
        return new

    def with_own_roots(self, ledger: Ledger | None = None) -> Access:
        """The same for one table, which may be allowed more than others, as its catalog remembers."""
        if self.roots is None or self.exact:
            return self
        own = copy.copy(self)
        own._lake, own._ledger = self, ledger
        return own

    def _set_roots(self, roots: tuple[str, ...]) -> None:
        named = tuple(map(parse, roots))
        self._real = tuple(map(_real, named))
        self._begins = () if self.exact else tuple(f"{root.text.rstrip('/')}/" for root in named)
        self._named, self.roots = named, roots

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """The whole file, unless it is larger than the limits."""
        limits = [limit for limit in (max_bytes, self.max_read_bytes) if limit is not None]
        return super().read(location, max_bytes=min(limits, default=None))

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """A part of the file, unless more is asked for than the limit."""
        if self.max_read_bytes is not None and length > self.max_read_bytes:
            raise FileTooLarge(
                f"{length} bytes were asked for at once, and {self.max_read_bytes} are allowed", location=location
            )
        return super().read_range(location, offset, length)

    def check(self, location: str) -> None:
        """Raise if the location may not be touched, as far as the catalog remembers."""
        if self.allows(location):
            return
        if self._ledger is not None:
            self.allow(self._ledger.recall())
        if not self.allows(location):
            raise PathNotAllowed(
                "outside the allowed roots",
                hint=self._advice(location),
                location=location,
                roots=", ".join(self.roots or ()) or "none",
            )

    def _locate(self, operation: str, location: str) -> str:
        self.check(location)
        return location

    def _advice(self, location: str) -> str:
        roots = [*(self.roots or ()), _folder_to_allow(location)]
        told = f"if you trust this table, open it with roots={roots!r}"
        why = "its metadata names a file that lies neither in the warehouse nor in a folder of the table"
        return told if self.exact else f"{told}: {why}"


# of a table's storage, whatever stands before the gate ---------------------------------------------------------------


def with_own_roots(storage: Storage, ledger: Ledger | None = None) -> Storage:
    """The storage for one table, which may be allowed more folders than others.

    >>> from floe.storage.memory import MemoryStorage
    >>> lake = Access(MemoryStorage(), roots=["memory:wh"], exact=False)
    >>> table = with_own_roots(lake)
    >>> allow(table, ["memory:apart"])
    >>> is_allowed(table, "memory:apart/a"), is_allowed(lake, "memory:apart/a")
    (True, False)
    """
    if isinstance(storage, PrefixMap):
        return PrefixMap(with_own_roots(storage.storage, ledger), storage.prefixes)
    return storage.with_own_roots(ledger) if isinstance(storage, Access) else storage


def allow(storage: Storage, locations: Iterable[str]) -> None:
    """`Access.allow` for recorded locations, where a storage has such a gate."""
    asked = list(locations)
    for maps, gate in _gates(storage):
        gate.allow([_actual(maps, location) for location in asked])


def allow_declared(storage: Storage, locations: Iterable[str]) -> None:
    """`Access.allow_declared` for recorded locations."""
    asked = list(locations)
    for maps, gate in _gates(storage):
        gate.allow_declared([_actual(maps, location) for location in asked])


def remember(storage: Storage, locations: Iterable[str]) -> list[str]:
    """`Access.remember` for recorded locations."""
    asked = list(locations)
    return [new for maps, gate in _gates(storage) for new in gate.remember([_actual(maps, one) for one in asked])]


def is_allowed(storage: Storage, location: str) -> bool:
    """Whether a recorded location may be touched."""
    return all(gate.allows(_actual(maps, location)) for maps, gate in _gates(storage))


def check_allowed(
    storage: Storage, locations: Callable[[], Iterable[str]], covers: Callable[[], Iterable[Iterable[str]]] = tuple
) -> None:
    """Raise `PathNotAllowed` if one of many recorded locations may not be touched.

    They are not looked at one by one where nothing is refused, or where the roots are the usual ones and one of their
    `covers` is allowed: folders that have all of them, those first that are cheap to find.

    >>> from floe.storage.memory import MemoryStorage
    >>> check_allowed(Access(MemoryStorage(), roots=["memory:wh"]), lambda: ["memory:wh/a", "memory:b"])
    Traceback (most recent call last):
    floe.errors.PathNotAllowed: outside the allowed roots (location: memory:b, roots: memory:wh); ...
    """
    for maps, gate in _gates(storage):
        if gate.roots is None:
            continue
        if not gate.exact and any(all(gate.allows(_actual(maps, one)) for one in cover) for cover in covers()):
            continue
        for location in locations():
            gate.check(_actual(maps, location))


def _gates(storage: Storage) -> Iterator[tuple[list[PrefixMap], Access]]:
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
    """The table's folder, as far as a file's name tells, or else the file's own."""
    names = location.split("/")
    for place in range(len(names) - 2, 0, -1):
        if names[place] in ("data", "metadata") and any(names[:place]):
            return "/".join(names[:place])
    return "/".join(names[:-1]) or location


def _real(location: Location) -> Location:
    """The location with symbolic links followed, where there are any."""
    if location.scheme != "file":
        return location
    return replace(location, path=os.path.realpath(location.path))


def _is_ambiguous(location: Location) -> bool:
    return not location.is_tree and not {".", ".."}.isdisjoint(location.path.split("/"))
