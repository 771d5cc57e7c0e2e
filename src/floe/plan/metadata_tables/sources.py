"""What metadata tables are read from: a table's metadata, its manifest lists and its manifests, several at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from floe.avro.manifest_columns import ManifestColumns
from floe.plan.manifests import manifests_of_snapshot, read_manifest_groups
from floe.plan.metadata_tables.schemas import columns_with_metrics, partition_types, table_partition_type
from floe.spec.manifests.entries import ManifestFile
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.types import Field, StructType
from floe.storage.concurrency import map_concurrently
from floe.storage.protocol import Storage

T = TypeVar("T")
R = TypeVar("R")

_MOST_UNDER_WAY = 16


@dataclass(frozen=True, eq=False)
class MetadataSource:
    """A table, and by how many threads its files are read; None leaves it to the number of files, 1 uses no threads."""

    metadata: TableMetadata
    metadata_location: str
    storage: Storage
    workers: int | None = None

    @cached_property
    def partition_type(self) -> StructType:
        """The struct of all partition fields."""
        return table_partition_type(self.metadata)

    @cached_property
    def partition_types(self) -> dict[int, StructType]:
        """The types of partition tuples, by spec id."""
        return partition_types(self.metadata, self.partition_type)

    @cached_property
    def measured(self) -> dict[str, Field]:
        """The columns that have readable metrics, by their names."""
        return columns_with_metrics(self.metadata.schema)

    def each(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """The function's results in the order of the items, several at once."""
        listed = list(items)
        limit = min(len(listed), _MOST_UNDER_WAY if self.workers is None else self.workers)
        if limit <= 1:
            yield from map(function, listed)
            return
        with ThreadPoolExecutor(limit, thread_name_prefix="floe-plan") as pool:
            yield from map_concurrently(function, listed, limit=limit, executor=pool)

    def manifests(self, snapshot: Snapshot | None) -> list[ManifestFile]:
        """The manifests of a snapshot; none without one."""
        return [] if snapshot is None else manifests_of_snapshot(snapshot, self.storage)

    def manifests_by_snapshot(self, snapshots: Iterable[Snapshot]) -> Iterator[tuple[Snapshot, list[ManifestFile]]]:
        """Snapshots with their manifests."""
        return self.each(lambda snapshot: (snapshot, self.manifests(snapshot)), snapshots)

    def all_manifests(self) -> list[ManifestFile]:
        """The manifests of all snapshots, each once, as the first snapshot that has it describes it."""
        by_path: dict[str, ManifestFile] = {}
        for _, manifests in self.manifests_by_snapshot(self.metadata.snapshots):
            for manifest in manifests:
                by_path.setdefault(manifest.manifest_path, manifest)
        return list(by_path.values())

    def look_at(self, manifests: Sequence[ManifestFile], look: Callable[[ManifestColumns], R]) -> Iterator[R]:
        """What `look` makes of the entries of some manifests, in their order; small manifests come many at once."""
        return read_manifest_groups(self.storage, manifests, look, types=self.partition_types, workers=self.workers)
