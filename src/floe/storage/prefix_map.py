"""Tables that were moved or copied: recorded locations are mapped to where the files are now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from floe.errors import FloeError, InvalidInput
from floe.storage.locations import Location, parse
from floe.storage.protocol import FileInfo, Storage
from floe.storage.wrapping import StorageWrapper

__all__ = ["PrefixMap"]

T = TypeVar("T")


class PrefixMap(StorageWrapper):
    """A storage that finds files recorded under one folder in another; the longest folder that fits counts.

    All spellings of a recorded folder are mapped (`/old`, `file:/old`, `file:///old`), by whole names and after `..` is
    resolved. Listings, and everything else that comes back, tell the recorded locations. Files written through the map
    land in the new place, under their recorded locations.

    >>> from floe.storage.memory import MemoryStorage
    >>> files = MemoryStorage()
    >>> files.write("memory:copy/t/data/a", b"abc")
    >>> storage = PrefixMap(files, {"/floe-corpus/": "memory:copy/"})
    >>> storage.read("file:///floe-corpus/t/data/a")
    b'abc'
    >>> [info.location for info in storage.list("file:/floe-corpus/t/")]
    ['file:/floe-corpus/t/data/a']
    """

    def __init__(self, storage: Storage, prefixes: Mapping[str, str]) -> None:
        super().__init__(storage)
        self.prefixes = dict(prefixes)
        rules = [(parse(recorded), parse(actual)) for recorded, actual in prefixes.items()]
        if len({str(recorded).rstrip("/") for recorded, _ in rules}) < len(rules):
            raise InvalidInput("a prefix is mapped twice", prefixes=", ".join(prefixes))
        self._rules = sorted(rules, key=lambda rule: -len(rule[0].folder))

    def __repr__(self) -> str:
        return f"PrefixMap({self.storage!r}, {self.prefixes!r})"

    def actual(self, location: str) -> str:
        """Where the file of a recorded location is.

        >>> from floe.storage.local import LocalStorage
        >>> PrefixMap(LocalStorage(), {"s3://b/wh": "/tmp/wh"}).actual("s3a://b/wh/t/a")
        '/tmp/wh/t/a'
        """
        parsed = parse(location)
        for recorded, target in self._rules:
            if recorded.contains(parsed):
                return _moved(parsed, recorded, target)
        return location

    def recorded(self, location: str) -> str:
        """The recorded location of a file that is there; the other way round.

        >>> from floe.storage.local import LocalStorage
        >>> PrefixMap(LocalStorage(), {"s3://b/wh": "/tmp/wh"}).recorded("file:/tmp/wh/t/a")
        's3://b/wh/t/a'
        """
        parsed = parse(location)
        for recorded, target in sorted(self._rules, key=lambda rule: -len(rule[1].folder)):
            if target.contains(parsed):
                return _moved(parsed, target, recorded)
        return location

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """The files below a folder, at their recorded locations, spelled as the folder is."""
        asked, inner = parse(prefix), parse(self.actual(prefix))
        for info in super().list(prefix):
            rest = parse(info.location).path[len(inner.folder) :]
            yield replace(info, location=asked.spelled(asked.folder + rest))

    def _locate(self, operation: str, location: str) -> str:
        return self.actual(location)

    def _run(self, operation: str, location: str, action: Callable[[], T]) -> T:
        try:
            return action()
        except FloeError as error:
            if self.actual(location) != location:
                error.with_context(recorded_as=location)
            raise


def _moved(location: Location, source: Location, target: Location) -> str:
    """A location below one folder, below the other."""
    rest = location.path[len(source.folder) :]
    return target.spelled(target.folder + rest if rest else target.path)
