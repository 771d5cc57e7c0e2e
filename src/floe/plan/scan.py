"""Planning a scan: which files of a snapshot hold the rows that a filter asks for, and what to do with each.

Manifests are left out by their summaries, files by their partitions and metrics, deletes by partition, path, age and
bounds (spec: Scan Planning). All of it happens in columns; an object is made for a file when its task is asked for.

From manifests to a plan: the steps that all kinds of scans share.

Incremental scans: the rows that were appended from one snapshot to another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias, TypeVar

from floe.avro.manifest_columns import ManifestColumns
from floe.plan.delete_files import select_deletes
from floe.plan.delete_index import DeleteIndex, LookupKeys
from floe.plan.file_selection import (
    FileChunk,
    FileFilter,
    Residuals,
    SelectedFiles,
    SpecFilters,
    SpecResiduals,
    partition_types,
    select_files,
)
from floe.plan.manifests import manifests_of_snapshot, read_manifest_groups
from floe.plan.scan_plan import ScanPlan, ScanReport
from floe.plan.snapshot_selection import read_manifests_of_snapshots, select_entries, snapshots_in_range
from floe.spec.expressions.binding import bind
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import EntryStatus, ManifestContent, ManifestFile
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.schemas.schema import Schema
from floe.storage.environment import Clock, SystemClock
from floe.storage.protocol import Storage

# From manifests to a plan: the steps that all kinds of scans share.

R = TypeVar("R")

Entries: TypeAlias = Callable[[ManifestColumns], Mask]
"""Says which entries of a manifest count."""


def live_entries(columns: ManifestColumns) -> Mask:
    """The entries of a snapshot's files, which is what a scan reads."""
    return columns.live


def look_up_deletes(index: DeleteIndex, chunks: Sequence[FileChunk]) -> list[LookupKeys]:
    """What an index of deletes knows of the files of some chunks."""
    return index.match([(chunk.columns, chunk.stats()) for chunk in chunks])


@dataclass(frozen=True, eq=False)
class Planner:
    """What a plan is made with."""

    metadata: TableMetadata
    storage: Storage
    schema: Schema
    where: Expression | None = None
    case_sensitive: bool = True
    metrics: Collection[int] | None = ()
    """The columns whose metrics files keep; None for all."""

    workers: int | None = None
    clock: Clock | None = None

    @cached_property
    def filters(self) -> SpecFilters:
        """The filter, bound to the schema, under all specs."""
        bound = TRUE if self.where is None else bind(self.where, self.schema, case_sensitive=self.case_sensitive)
        return SpecFilters(self.metadata, self.schema, bound)

    def plan(
        self, manifests: Sequence[ManifestFile], which: Entries = live_entries, *, index: DeleteIndex | None = None
    ) -> ScanPlan:
        """The plan for the files of some manifests; `which` says what entries of data manifests count.

        The deletes are those of the manifests, or of an index that is there already.
        """
        clock = self.clock or SystemClock()
        started = clock.now_ms()
        data, deletes = ([m for m in manifests if m.content == content] for content in ManifestContent)
        read = self.filters.manifests_kept(data, live_only=which is live_entries)
        delete_read = self.deletes_that_matter(deletes, read)
        index = self.index(delete_read) if index is None else index
        choices = self._choices(read, index, which)
        chunks = [choice.chunk for choice in choices if choice.chunk is not None]
        residuals = self._add_residuals(chunks)
        matched = [] if index is None else look_up_deletes(index, chunks)
        report = ScanReport(
            data_manifests=len(data),
            data_manifests_read=len(read),
            delete_manifests=len(deletes),
            delete_manifests_read=len(delete_read),
            files_read=sum(choice.live for choice in choices),
            files_in_partitions=sum(choice.in_partitions for choice in choices),
            files=sum(map(len, chunks)),
            file_bytes=sum(choice.size for choice in choices),
            delete_files=0 if index is None else len(index),
            planning_ms=clock.now_ms() - started,
        )
        bound = self.filters.bound
        return ScanPlan(self.metadata, self.schema, bound, chunks, residuals.expressions, index, matched, report)

    def deletes_that_matter(self, deletes: Sequence[ManifestFile], data: Sequence[ManifestFile]) -> list[ManifestFile]:
        """The manifests of deletes that may apply to files of some manifests.

        Deletes apply within their spec and partition, where the filter holds too; only equality deletes without
        partitioning reach further, and those are of a spec whose projection lets everything pass.
        """
        specs = {manifest.partition_spec_id for manifest in data}

        def is_near(spec_id: int) -> bool:
            return spec_id in specs or self.metadata.spec_by_id(spec_id).is_unpartitioned

        near = [manifest for manifest in deletes if specs and is_near(manifest.partition_spec_id)]
        return self.filters.manifests_kept(near)

    def index(self, manifests: Sequence[ManifestFile], which: Entries = live_entries) -> DeleteIndex | None:
        """The deletes of some manifests, as far as they may delete rows that pass the filter; None for none."""

        def look(columns: ManifestColumns) -> ManifestColumns:
            own = self.filters.of(columns.spec_id)
            return columns.take(select_deletes(columns, which(columns), own, self.filters.bound))

        chunks = list(self._read(manifests, look))
        if not sum(map(len, chunks)):
            return None
        everywhere = [spec.spec_id for spec in self.metadata.partition_specs if spec.is_unpartitioned]
        newest_first = sorted(self.metadata.schemas, key=lambda schema: -schema.schema_id)
        return DeleteIndex(chunks, everywhere, [self.metadata.schema, *newest_first])

    def every_delete(self, manifests: Sequence[ManifestFile]) -> DeleteIndex | None:
        """The deletes of all rows of the files that the filter keeps; None for none.

        Deletes by value are not left out for what they delete, as long as they may reach a file.
        """
        data, deletes = ([m for m in manifests if m.content == content] for content in ManifestContent)
        near = self.deletes_that_matter(deletes, self.filters.manifests_kept(data))
        return replace(self, where=None).index(near)

    def _choices(
        self, manifests: Sequence[ManifestFile], index: DeleteIndex | None, which: Entries
    ) -> list[SelectedFiles]:
        helpful = () if index is None else index.columns
        tests = FileFilter(self.filters.bound, frozenset((*(self.metrics or ()), *helpful)), self.metrics)

        def look(columns: ManifestColumns) -> SelectedFiles:
            return select_files(columns, self.filters.of(columns.spec_id), tests, which(columns))

        def needed(group: Sequence[ManifestFile]) -> Collection[int]:
            """Metrics are found on the way, unless many files will be left out by their partitions before."""
            keeps_all = self.filters.of(group[0].partition_spec_id).keeps_all_files(group)
            return tests.needed if keeps_all else ()

        return list(self._read(manifests, look, needed))

    def _read(
        self,
        manifests: Sequence[ManifestFile],
        look: Callable[[ManifestColumns], R],
        metrics: Callable[[Sequence[ManifestFile]], Collection[int]] | Collection[int] = (),
    ) -> Iterator[R]:
        types = partition_types(self.metadata, self.schema)
        return read_manifest_groups(self.storage, manifests, look, types=types, metrics=metrics, workers=self.workers)

    def _add_residuals(self, chunks: Sequence[FileChunk]) -> Residuals:
        residuals = Residuals(self.filters.bound)
        known: dict[int, SpecResiduals] = {}
        for chunk in chunks:
            spec_id = chunk.spec.spec_id
            if spec_id not in known:
                known[spec_id] = residuals.under(chunk.spec, self.schema)
            chunk.residuals = known[spec_id].codes(chunk.columns.partition, len(chunk))
        return residuals


def plan_scan(
    metadata: TableMetadata,
    storage: Storage,
    *,
    snapshot: Snapshot | None,
    schema: Schema | None = None,
    where: Expression | None = None,
    case_sensitive: bool = True,
    metrics: Collection[int] | None = (),
    workers: int | None = None,
    clock: Clock | None = None,
    all_deletes: bool = False,
) -> ScanPlan:
    """The files of a snapshot that may hold rows passing `where`; an empty plan for no snapshot.

    `schema` is the one that the read uses, by default the table's current one, or that of the snapshot if it is not the
    current one. `metrics` are the ids of columns whose metrics the files of the plan keep, and None is all columns; a
    plan that nobody asks for metrics stays small. `workers` is how many threads read manifests; by default that depends
    on their number, and 1 reads everything in this thread. `all_deletes` keeps the deletes of rows that do not pass
    too: for whoever reads the chosen files as a whole, to write them anew.

    >>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
    >>> from floe.storage.memory import MemoryStorage
    >>> metadata = TableMetadata(
    ...     format_version=2,
    ...     table_uuid=None,
    ...     location="memory:t",
    ...     last_updated_ms=0,
    ...     last_column_id=0,
    ...     schemas=(Schema(()),),
    ...     partition_specs=(UNPARTITIONED,),
    ... )
    >>> plan = plan_scan(metadata, MemoryStorage(), snapshot=metadata.current_snapshot)
    >>> len(plan), list(plan.tasks())
    (0, [])
    """
    if schema is None:
        is_past = snapshot is not None and snapshot.snapshot_id != metadata.current_snapshot_id
        schema = metadata.schema_for(snapshot) if snapshot is not None and is_past else metadata.schema
    planner = Planner(metadata, storage, schema, where, case_sensitive, metrics, workers, clock)
    manifests = [] if snapshot is None else manifests_of_snapshot(snapshot, storage)
    return planner.plan(manifests, index=planner.every_delete(manifests) if all_deletes else None)


# Incremental scans: the rows that were appended from one snapshot to another.


def plan_appends(
    metadata: TableMetadata,
    storage: Storage,
    *,
    after: int | None = None,
    first: int | None = None,
    until: int | None = None,
    branch: str | None = None,
    schema: Schema | None = None,
    where: Expression | None = None,
    case_sensitive: bool = True,
    metrics: Collection[int] | None = (),
    workers: int | None = None,
    clock: Clock | None = None,
) -> ScanPlan:
    """The data files that the appends of a range of snapshots added, and that may hold rows passing `where`.

    The range begins after a snapshot or with a first one, and ends with `until` or the head of the branch. Snapshots
    that overwrite, delete or only rewrite files are passed over, and so are deletes that came later: the scan tells
    what was appended, not what became of it. Whoever needs every change asks for `plan_changelog`.

    >>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
    >>> from floe.storage.memory import MemoryStorage
    >>> metadata = TableMetadata(
    ...     format_version=2,
    ...     table_uuid=None,
    ...     location="memory:t",
    ...     last_updated_ms=0,
    ...     last_column_id=0,
    ...     schemas=(Schema(()),),
    ...     partition_specs=(UNPARTITIONED,),
    ... )
    >>> len(plan_appends(metadata, MemoryStorage()))
    0
    """
    history = snapshots_in_range(metadata, after=after, first=first, until=until, branch=branch)
    appends = [snapshot for snapshot in history if snapshot.operation == "append"]
    ids = {snapshot.snapshot_id for snapshot in appends}
    manifests = {
        manifest.manifest_path: manifest
        for listed in read_manifests_of_snapshots(appends, storage, workers=workers)
        for manifest in listed
        if manifest.content == ManifestContent.DATA and manifest.added_snapshot_id in ids
    }
    planner = Planner(metadata, storage, schema or metadata.schema, where, case_sensitive, metrics, workers, clock)
    return planner.plan(list(manifests.values()), select_entries(ids, EntryStatus.ADDED))
