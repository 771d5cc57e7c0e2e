"""Deleting all files of a dropped table: planned from its metadata before anything is touched, and only below its root.

What a table's metadata names is text that anybody may have written. So a purge deletes a file only if the table's
metadata leads to it *and* it lies below the table's own location; what lies elsewhere is kept, and told. A table whose
location holds the whole warehouse, or that says `gc.enabled=false` (its files belong to others too), is not purged at
all. Everything is read before the first file is deleted: if a manifest cannot be read, nothing happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice

from floe.commit.pointer import TableState
from floe.errors import FloeError, InvalidLocation, StorageError, UnsupportedFeature
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.properties import GC_ENABLED
from floe.storage.locations import Location, parse
from floe.storage.protocol import Storage

_BATCH = 1000
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """What a purge did."""

    deleted: int
    kept: tuple[str, ...] = ()
    """Files outside the table's location."""

    failed: tuple[str, ...] = ()
    """Files that could not be deleted."""

    reason: str = ""
    """Why the first of them could not."""

    def check(self) -> PurgeReport:
        """Raise if files are left that should be gone.

        >>> PurgeReport(deleted=2).check().deleted
        2
        """
        if self.failed:
            raise StorageError(
                f"the table is dropped, but {len(self.failed)} of its files could not be deleted: {self.reason}",
                hint="delete them by hand",
                files=", ".join(self.failed[:_SHOWN]) + (", …" if len(self.failed) > _SHOWN else ""),
            )
        return self


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """The files to delete, in this order: data before what leads to it, the table's metadata last."""

    location: str
    data: tuple[str, ...] = field(default=(), repr=False)
    """Data files and delete files."""

    manifests: tuple[str, ...] = field(default=(), repr=False)
    """Manifests and manifest lists."""

    others: tuple[str, ...] = field(default=(), repr=False)
    """Statistics."""

    metadata: tuple[str, ...] = field(default=(), repr=False)
    """The metadata files, old and current."""

    kept: tuple[str, ...] = field(default=(), repr=False)
    """Files that the table uses outside its location; they are not deleted."""

    def files(self) -> Iterator[str]:
        """All files to delete."""
        for group in (self.data, self.manifests, self.others, self.metadata):
            yield from group

    def apply(self, storage: Storage) -> PurgeReport:
        """Deletes the files; goes on after a failure, and tells what is left."""
        deleted, failed, reason = 0, list[str](), ""
        files = self.files()
        while batch := list(islice(files, _BATCH)):
            try:
                outcomes = [(one.location, one.error) for one in storage.delete_many(batch)]
            except StorageError as error:
                outcomes = [(location, error) for location in batch]
            deleted += sum(error is None for _, error in outcomes)
            failed += [location for location, error in outcomes if error is not None]
            reason = reason or next((error.message for _, error in outcomes if error is not None), "")
        return PurgeReport(deleted, self.kept, tuple(failed), reason)


def plan_purge(
    state: TableState, storage: Storage, *, above: Iterable[str] = (), roots: Sequence[str] = ()
) -> PurgePlan:
    """All files that a table's metadata leads to, of all its snapshots, if they lie below its location (or `roots`).

    `above` are places that must not be in the table's location, such as the warehouse.

    >>> from floe.spec.metadata.creation import new_table_metadata
    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.storage.memory import MemoryStorage
    >>> uuid = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    >>> table = new_table_metadata(Schema(()), location="memory:wh/db/t", uuid=uuid, now_ms=0)
    >>> state = TableState(table, "memory:wh/db/t/metadata/v1.metadata.json")
    >>> list(plan_purge(state, MemoryStorage(), above=["memory:wh"]).files())
    ['memory:wh/db/t/metadata/v1.metadata.json']
    """
    metadata = state.metadata
    if not GC_ENABLED.read(metadata.properties):
        raise UnsupportedFeature(
            f"the table says {GC_ENABLED}=false: other tables may use its files, so they are not deleted",
            hint=f"drop it without purge, or set {GC_ENABLED}=true first",
            location=metadata.location,
        )
    own = [parse(root) for root in (metadata.location, *roots)]
    for place in above:
        if any(root.contains(parse(place)) for root in own):
            raise UnsupportedFeature(
                "the table's location holds more than the table, so its files are not deleted",
                hint="drop it without purge, and delete its files by hand",
                location=metadata.location,
                holds=place,
            )
    gathered = _Gathered(own)
    _read_snapshots(metadata.snapshots, storage, gathered)
    return PurgePlan(
        location=metadata.location,
        data=gathered.take("data"),
        manifests=gathered.take("manifests"),
        others=gathered.of(
            [
                *(file.statistics_path for file in metadata.statistics),
                *(file.statistics_path for file in metadata.partition_statistics),
            ]
        ),
        metadata=gathered.of([*(entry.metadata_file for entry in metadata.metadata_log), state.location]),
        kept=tuple(gathered.kept),
    )


class _Gathered:
    """Files found so far: each once, those of the table apart from the others."""

    def __init__(self, roots: Sequence[Location]) -> None:
        self.roots = roots
        self.kept: dict[str, None] = {}
        self._found: dict[str, dict[str, None]] = {"data": {}, "manifests": {}}

    def add(self, group: str, location: str) -> None:
        target = self._found[group] if self._is_own(location) else self.kept
        target[location] = None

    def take(self, group: str) -> tuple[str, ...]:
        return tuple(self._found[group])

    def of(self, locations: Iterable[str]) -> tuple[str, ...]:
        own = []
        for location in dict.fromkeys(locations):
            if self._is_own(location):
                own.append(location)
            else:
                self.kept[location] = None
        return tuple(own)

    def _is_own(self, location: str) -> bool:
        try:
            place = parse(location)
        except InvalidLocation:
            return False
        return any(root.contains(place) and root.path.rstrip("/") != place.path.rstrip("/") for root in self.roots)


def _read_snapshots(snapshots: Sequence[Snapshot], storage: Storage, gathered: _Gathered) -> None:
    """All that the snapshots lead to; files of entries that say `deleted` too, for an expiry may have left them."""
    # Reading manifests takes NumPy and Arrow; whoever opens a catalog only to look up a name need not load them.
    reachability = import_module("floe.commit.reachability")
    try:
        manifests = list(reachability.listed_manifests(snapshots, storage))
        for snapshot in snapshots:
            if snapshot.manifest_list is not None:
                gathered.add("manifests", snapshot.manifest_list)
        for manifest in manifests:
            gathered.add("manifests", manifest.manifest_path)
        for batch in reachability.file_batches(manifests, storage, with_deleted=True):
            for path in batch.texts():
                gathered.add("data", path)
    except FloeError as error:
        error.add_note("Not all files of the table can be found, so nothing was deleted, and the table is still there.")
        raise
