"""Scan planning: which files of a snapshot may have rows that match a filter, with their deletes and residuals.

`plan_scan` plans a snapshot, `plan_appends` what a range of snapshots appended; both take `ScanOptions`, and `Planner`
has the steps that they share with `floe.plan.changelog`.

Manifests are pruned by their partition summaries, files by their partitions and metrics, delete files by partition,
path, sequence number and bounds (spec: Scan Planning). All of it works on columns of manifest entries; the object of a
file is created when its task is read from the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeAlias, TypeVar

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
from floe.plan.snapshot_selection import (
    ALL_SNAPSHOTS,
    SnapshotRange,
    read_manifests_of_snapshots,
    select_entries,
    snapshots_in_range,
)
from floe.spec.expressions.binder import bind
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import EntryStatus, ManifestContent, ManifestFile
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.pruning.range_evaluation import Mask
from floe.spec.schemas.schema import Schema
from floe.storage.environment import Clock, SystemClock
from floe.storage.protocol import Storage

R = TypeVar("R")

EntrySelection: TypeAlias = Callable[[ManifestColumns], Mask]
"""Returns which entries of a manifest are planned."""


@dataclass(frozen=True, kw_only=True)
class ScanOptions:
    """What rows a scan reads, and how it is planned; the same for snapshots, appends and changelogs."""

    schema: Schema | None = None
    """The schema of the read; by default the table's current one, or a past snapshot's own."""

    where: Expression | None = None
    """The filter; None for all rows."""

    case_sensitive: bool = True
    """Whether the column names of the filter are case-sensitive."""

    metrics: Collection[int] | None = ()
    """The field ids of the columns whose metrics the files of the plan keep; None for all columns.

    A plan without metrics stays small.
    """

    workers: int | None = None
    """How many threads read manifests: by default it depends on their number; 1 reads in the calling thread."""

    clock: Clock | None = None
    """The clock that measures planning; None for the system's."""


DEFAULT_OPTIONS: Final = ScanOptions()
"""All rows of all columns, with the table's schema."""


def live_entries(columns: ManifestColumns) -> Mask:
    """The entries whose files belong to the snapshot: those that are not deleted."""
    return columns.live


def look_up_deletes(index: DeleteIndex, chunks: Sequence[FileChunk]) -> list[LookupKeys]:
    """The lookup keys of the files of each chunk in a delete index."""
    return index.match([(chunk.columns, chunk.stats()) for chunk in chunks])


@dataclass(frozen=True, eq=False)
class Planner:
    """Plans the manifests of a table with some options."""

    metadata: TableMetadata
    storage: Storage
    schema: Schema
    options: ScanOptions = DEFAULT_OPTIONS

    @cached_property
    def filters(self) -> SpecFilters:
        """The filter bound to the schema, projected to all partition specs."""
        where = self.options.where
        bound = TRUE if where is None else bind(where, self.schema, case_sensitive=self.options.case_sensitive)
        return SpecFilters(self.metadata, self.schema, bound)

    def plan(
        self,
        manifests: Sequence[ManifestFile],
        select_entries: EntrySelection = live_entries,
        *,
        index: DeleteIndex | None = None,
    ) -> ScanPlan:
        """The plan for the files of some manifests; `select_entries` chooses among the entries of data manifests.

        The deletes are those of the delete manifests, unless a delete index is passed.
        """
        clock = self.options.clock or SystemClock()
        started = clock.now_ms()
        data, deletes = ([m for m in manifests if m.content == content] for content in ManifestContent)
        read = self.filters.matching_manifests(data, live_only=select_entries is live_entries)
        delete_read = self.relevant_delete_manifests(deletes, read)
        index = self.index(delete_read) if index is None else index
        selections = self._select_files(read, index, select_entries)
        chunks = [selection.chunk for selection in selections if selection.chunk is not None]
        residuals = self._add_residuals(chunks)
        matched = [] if index is None else look_up_deletes(index, chunks)
        report = ScanReport(
            data_manifests=len(data),
            data_manifests_read=len(read),
            delete_manifests=len(deletes),
            delete_manifests_read=len(delete_read),
            files_read=sum(selection.live for selection in selections),
            files_in_partitions=sum(selection.in_partitions for selection in selections),
            files=sum(map(len, chunks)),
            file_bytes=sum(selection.size for selection in selections),
            delete_files=0 if index is None else len(index),
            planning_ms=clock.now_ms() - started,
        )
        bound = self.filters.bound
        return ScanPlan(self.metadata, self.schema, bound, chunks, residuals.expressions, index, matched, report)

    def relevant_delete_manifests(
        self, deletes: Sequence[ManifestFile], data: Sequence[ManifestFile]
    ) -> list[ManifestFile]:
        """The delete manifests with deletes that may apply to files of some data manifests.

        Deletes apply within their spec and partition, so the filter's projection prunes them too; only equality deletes
        of unpartitioned specs reach further, and the projection of such a spec keeps everything.
        """
        specs = {manifest.partition_spec_id for manifest in data}

        def may_apply(spec_id: int) -> bool:
            return spec_id in specs or self.metadata.spec_by_id(spec_id).is_unpartitioned

        relevant = [manifest for manifest in deletes if specs and may_apply(manifest.partition_spec_id)]
        return self.filters.matching_manifests(relevant)

    def index(
        self, manifests: Sequence[ManifestFile], select_entries: EntrySelection = live_entries
    ) -> DeleteIndex | None:
        """An index of the deletes of some manifests that may delete rows which match the filter; None without any."""

        def select(columns: ManifestColumns) -> ManifestColumns:
            spec_filter = self.filters.of(columns.spec_id)
            return columns.take(select_deletes(columns, select_entries(columns), spec_filter, self.filters.bound))

        chunks = list(self._read(manifests, select))
        if not sum(map(len, chunks)):
            return None
        unpartitioned = [spec.spec_id for spec in self.metadata.partition_specs if spec.is_unpartitioned]
        newest_first = sorted(self.metadata.schemas, key=lambda schema: -schema.schema_id)
        return DeleteIndex(chunks, unpartitioned, [self.metadata.schema, *newest_first])

    def every_delete(self, manifests: Sequence[ManifestFile]) -> DeleteIndex | None:
        """An index of the deletes of all rows of the files that the filter keeps; None without any.

        Equality deletes are kept even if no row that they delete matches the filter.
        """
        data, deletes = ([m for m in manifests if m.content == content] for content in ManifestContent)
        relevant = self.relevant_delete_manifests(deletes, self.filters.matching_manifests(data))
        return replace(self, options=replace(self.options, where=None)).index(relevant)

    def _select_files(
        self, manifests: Sequence[ManifestFile], index: DeleteIndex | None, select_entries: EntrySelection
    ) -> list[SelectedFiles]:
        metrics = self.options.metrics
        compared = () if index is None else index.columns
        file_filter = FileFilter(self.filters.bound, frozenset((*(metrics or ()), *compared)), metrics)

        def select(columns: ManifestColumns) -> SelectedFiles:
            return select_files(columns, self.filters.of(columns.spec_id), file_filter, select_entries(columns))

        def needed(group: Sequence[ManifestFile]) -> Collection[int]:
            """Metrics are parsed with the entries, unless many files will be pruned by their partitions first."""
            keeps_all = self.filters.of(group[0].partition_spec_id).matches_all_files(group)
            return file_filter.metrics_columns if keeps_all else ()

        return list(self._read(manifests, select, needed))

    def _read(
        self,
        manifests: Sequence[ManifestFile],
        convert: Callable[[ManifestColumns], R],
        metrics: Callable[[Sequence[ManifestFile]], Collection[int]] | Collection[int] = (),
    ) -> Iterator[R]:
        types = partition_types(self.metadata, self.schema)
        workers = self.options.workers
        return read_manifest_groups(self.storage, manifests, convert, types=types, metrics=metrics, workers=workers)

    def _add_residuals(self, chunks: Sequence[FileChunk]) -> Residuals:
        residuals = Residuals(self.filters.bound)
        by_spec: dict[int, SpecResiduals] = {}
        for chunk in chunks:
            spec_id = chunk.spec.spec_id
            if spec_id not in by_spec:
                by_spec[spec_id] = residuals.under(chunk.spec, self.schema)
            chunk.residuals = by_spec[spec_id].codes(chunk.columns.partition, len(chunk))
        return residuals


def plan_scan(
    metadata: TableMetadata,
    storage: Storage,
    *,
    snapshot: Snapshot | None,
    options: ScanOptions = DEFAULT_OPTIONS,
    all_deletes: bool = False,
) -> ScanPlan:
    """The files of a snapshot that may have rows which match the filter; an empty plan without a snapshot.

    `all_deletes` keeps also the deletes of rows that do not match, for reads of whole files, as a rewrite needs them.

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
    schema = options.schema
    if schema is None:
        is_past = snapshot is not None and snapshot.snapshot_id != metadata.current_snapshot_id
        schema = metadata.schema_for(snapshot) if snapshot is not None and is_past else metadata.schema
    planner = Planner(metadata, storage, schema, options)
    manifests = [] if snapshot is None else manifests_of_snapshot(snapshot, storage)
    return planner.plan(manifests, index=planner.every_delete(manifests) if all_deletes else None)


def plan_appends(
    metadata: TableMetadata,
    storage: Storage,
    snapshots: SnapshotRange = ALL_SNAPSHOTS,
    *,
    options: ScanOptions = DEFAULT_OPTIONS,
) -> ScanPlan:
    """The data files that the appends of a range of snapshots added and that may have rows which match the filter.

    Snapshots that overwrite, delete or rewrite files are left out, and later deletes are not applied: the plan has what
    was appended, whatever happened to it later. `plan_changelog` plans all changes.

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
    history = snapshots_in_range(metadata, snapshots)
    appends = [snapshot for snapshot in history if snapshot.operation == "append"]
    ids = {snapshot.snapshot_id for snapshot in appends}
    manifests = {
        manifest.manifest_path: manifest
        for listed in read_manifests_of_snapshots(appends, storage, workers=options.workers)
        for manifest in listed
        if manifest.content == ManifestContent.DATA and manifest.added_snapshot_id in ids
    }
    planner = Planner(metadata, storage, options.schema or metadata.schema, options)
    return planner.plan(list(manifests.values()), select_entries(ids, EntryStatus.ADDED))
