"""Deleting all files of a dropped table: planned from its metadata before anything is deleted, and only below its root.

Metadata may name any location. So a purge deletes a file only if the table's metadata reaches it *and* it lies below
the table's own location; files elsewhere are kept, and reported. A table whose location contains the warehouse, or that
has `gc.enabled=false` (other tables use its files), is not purged at all. All manifests are read before the first file
is deleted: if one cannot be read, nothing is deleted.
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
    """The outcome of a purge: which files were deleted, kept, or failed."""

    deleted: int
    kept: tuple[str, ...] = ()
    """Files outside the table's location."""

    failed: tuple[str, ...] = ()
    """Files that could not be deleted."""

    reason: str = ""
    """The error of the first file that could not be deleted."""

    def check(self) -> PurgeReport:
        """Raise if some files could not be deleted.

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
    """The files to delete, in this order: data files, manifests, statistics, and table metadata last."""

    location: str
    data: tuple[str, ...] = field(default=(), repr=False)
    """Data files and delete files."""

    manifests: tuple[str, ...] = field(default=(), repr=False)
    """Manifests and manifest lists."""

    statistics: tuple[str, ...] = field(default=(), repr=False)
    """Statistics files and partition statistics files."""

    metadata: tuple[str, ...] = field(default=(), repr=False)
    """The metadata files, old and current."""

    kept: tuple[str, ...] = field(default=(), repr=False)
    """Files that the table uses outside its location; they are not deleted."""

    def files(self) -> Iterator[str]:
        """All files to delete, in order."""
        for group in (self.data, self.manifests, self.statistics, self.metadata):
            yield from group

    def apply(self, storage: Storage) -> PurgeReport:
        """Deletes the files; continues after failures, and reports them."""
        deleted, failed, reason = 0, list[str](), ""
        files = self.files()
        while batch := list(islice(files, _BATCH)):
            try:
                outcomes = [(deletion.location, deletion.error) for deletion in storage.delete_many(batch)]
            except StorageError as error:
                outcomes = [(location, error) for location in batch]
            deleted += sum(error is None for _, error in outcomes)
            failed += [location for location, error in outcomes if error is not None]
            reason = reason or next((error.message for _, error in outcomes if error is not None), "")
        return PurgeReport(deleted, self.kept, tuple(failed), reason)


def plan_purge(
    state: TableState, storage: Storage, *, above: Iterable[str] = (), roots: Sequence[str] = ()
) -> PurgePlan:
    """All files that a table's metadata reaches, of all snapshots, if they lie below its location (or `roots`).

    `above` are locations that the table's location must not contain, such as the warehouse.

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
            f"the table has {GC_ENABLED}=false: other tables may use its files, so they are not deleted",
            hint=f"drop the table without purge, or set {GC_ENABLED}=true first",
            location=metadata.location,
        )
    table_roots = [parse(root) for root in (metadata.location, *roots)]
    for location in above:
        if any(root.contains(parse(location)) for root in table_roots):
            raise UnsupportedFeature(
                "the table's location contains more than the table, so its files are not deleted",
                hint="drop the table without purge, and delete its files by hand",
                location=metadata.location,
                contains=location,
            )
    gathered = _Gathered(table_roots)
    _read_snapshots(metadata.snapshots, storage, gathered)
    return PurgePlan(
        location=metadata.location,
        data=gathered.files("data"),
        manifests=gathered.files("manifests"),
        statistics=gathered.keep_own(
            [
                *(file.statistics_path for file in metadata.statistics),
                *(file.statistics_path for file in metadata.partition_statistics),
            ]
        ),
        metadata=gathered.keep_own([*(entry.metadata_file for entry in metadata.metadata_log), state.location]),
        kept=tuple(gathered.kept),
    )


class _Gathered:
    """The files that were found so far, each once: those below the table's roots by group, all others in `kept`."""

    def __init__(self, roots: Sequence[Location]) -> None:
        self.roots = roots
        self.kept: dict[str, None] = {}
        self._groups: dict[str, dict[str, None]] = {"data": {}, "manifests": {}}

    def add(self, group: str, location: str) -> None:
        """Note a file of a group."""
        target = self._groups[group] if self._is_below_root(location) else self.kept
        target[location] = None

    def files(self, group: str) -> tuple[str, ...]:
        """The files of a group that may be deleted."""
        return tuple(self._groups[group])

    def keep_own(self, locations: Iterable[str]) -> tuple[str, ...]:
        """Those of some files that may be deleted; the others are noted in `kept`."""
        deletable = []
        for location in dict.fromkeys(locations):
            if self._is_below_root(location):
                deletable.append(location)
            else:
                self.kept[location] = None
        return tuple(deletable)

    def _is_below_root(self, location: str) -> bool:
        try:
            file = parse(location)
        except InvalidLocation:
            return False
        return any(root.contains(file) and root.path.rstrip("/") != file.path.rstrip("/") for root in self.roots)


def _read_snapshots(snapshots: Sequence[Snapshot], storage: Storage, gathered: _Gathered) -> None:
    """Gather all files that snapshots reach, those of `deleted` entries too: an expiry may have left them."""
    # Reading manifests needs NumPy and Arrow; a catalog that only looks up names does without them.
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
        error.add_note("Not all files of the table could be found, so nothing was deleted, and the table still exists.")
        raise
