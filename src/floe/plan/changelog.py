"""Changelog scans: the rows that each snapshot of a range inserted and deleted, in order.

| task | the rows |
|---|---|
| `AddedRows` | of a file that the snapshot added, without those that the same snapshot deleted |
| `DeletedFile` | of a file that the snapshot removed, without those that were deleted before |
| `DeletedRows` | of a file that stays, which the snapshot's own deletes delete and earlier ones did not |

Snapshots that only rewrite files change no rows, and are passed over. Row-level deletes are described, not carried out:
an engine reads the file of a `DeletedRows` task and keeps the rows that `added_deletes` hit and `existing_deletes` do
not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from floe.avro.manifest_columns import ManifestColumns
from floe.errors import NoSuchSnapshot
from floe.plan.delete_index import DeleteIndex
from floe.plan.scan import DEFAULT_OPTIONS, Planner, ScanOptions, look_up_deletes
from floe.plan.scan_plan import ScanPlan
from floe.plan.snapshot_selection import (
    ALL_SNAPSHOTS,
    SnapshotRange,
    read_manifests_of_snapshots,
    select_entries,
    snapshots_in_range,
)
from floe.plan.tasks import FileTask
from floe.spec.manifests.entries import DataFile, EntryStatus, ManifestContent, ManifestFile
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.pruning.range_evaluation import Mask
from floe.storage.protocol import Storage


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """Rows that one snapshot inserted or deleted."""

    ordinal: int
    """The place of the snapshot in the range, from 0."""

    snapshot_id: int
    task: FileTask
    """The file, with the deletes to apply before anything else, and what is left of the filter."""

    @property
    def file(self) -> DataFile:
        """The data file."""
        return self.task.file


@dataclass(frozen=True, slots=True)
class AddedRows(ChangeTask):
    """All rows of the file that its deletes leave were inserted."""


@dataclass(frozen=True, slots=True)
class DeletedFile(ChangeTask):
    """All rows of the file that its deletes leave were deleted."""


@dataclass(frozen=True, slots=True)
class DeletedRows(ChangeTask):
    """The rows of the file that its deletes leave, and that `added_deletes` delete, were deleted."""

    added_deletes: tuple[DataFile, ...] = ()

    @property
    def existing_deletes(self) -> tuple[DataFile, ...]:
        """The deletes that applied before the snapshot."""
        return self.task.deletes


@dataclass(frozen=True, eq=False)
class ChangelogPlan:
    """The changes of a range of snapshots; each snapshot is planned when its tasks are read."""

    planner: Planner
    snapshots: tuple[Snapshot, ...]
    """The snapshots that changed rows, oldest first; a task's ordinal is a place here."""

    def tasks(self) -> Iterator[ChangeTask]:
        """The changes, snapshot by snapshot."""
        storage, workers = self.planner.storage, self.planner.options.workers
        lists = read_manifests_of_snapshots(self.snapshots, storage, workers=workers)
        for ordinal, (snapshot, manifests) in enumerate(zip(self.snapshots, lists, strict=True)):
            yield from _Change(self.planner, ordinal, snapshot, manifests).tasks()


def plan_changelog(
    metadata: TableMetadata,
    storage: Storage,
    snapshots: SnapshotRange = ALL_SNAPSHOTS,
    *,
    options: ScanOptions = DEFAULT_OPTIONS,
) -> ChangelogPlan:
    """The changes that a range of snapshots made to rows which match the filter.

    >>> from floe.spec.partitioning.partition_spec import UNPARTITIONED
    >>> from floe.spec.schemas.schema import Schema
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
    >>> list(plan_changelog(metadata, MemoryStorage()).tasks())
    []
    """
    history = snapshots_in_range(metadata, snapshots)
    planner = Planner(metadata, storage, options.schema or metadata.schema, options)
    _ = planner.filters  # binds the filter, so that an invalid one fails here
    return ChangelogPlan(planner, tuple(snapshot for snapshot in history if snapshot.operation != "replace"))


class _Change:
    """The changes of one snapshot."""

    def __init__(self, planner: Planner, ordinal: int, snapshot: Snapshot, manifests: Sequence[ManifestFile]) -> None:
        self._planner = planner
        self._ordinal = ordinal
        self._id = snapshot.snapshot_id
        self._snapshot = snapshot
        self._data = [m for m in manifests if m.content == ManifestContent.DATA]
        self._new_data = [m for m in self._data if m.added_snapshot_id == self._id]
        deletes = [m for m in manifests if m.content == ManifestContent.DELETES]
        self._new_deletes = [m for m in deletes if m.added_snapshot_id == self._id and m.may_have_added_files]

    def tasks(self) -> Iterator[ChangeTask]:
        """The changes: files added, files removed, rows deleted."""
        new = self._planner.index(self._new_deletes, select_entries([self._id], EntryStatus.ADDED))
        added = self._planner.plan(self._new_data, select_entries([self._id], EntryStatus.ADDED), index=new)
        removed = self._planner.plan(self._new_data, select_entries([self._id], EntryStatus.DELETED))
        stayed = None if new is None else self._planner.plan(self._data, self._stayed, index=new)
        old = self._earlier_deletes() if len(removed) or stayed else None
        for task in added.tasks():
            yield AddedRows(self._ordinal, self._id, task)
        for task in _with_deletes(removed, old).tasks():
            yield DeletedFile(self._ordinal, self._id, task)
        if new is not None and stayed is not None:
            for hit, before in zip(_with_deletes(stayed, new).tasks(), _with_deletes(stayed, old).tasks(), strict=True):
                fresh = tuple(delete for delete in hit.deletes if delete not in before.deletes)
                if fresh:
                    yield DeletedRows(self._ordinal, self._id, before, fresh)

    def _stayed(self, columns: ManifestColumns) -> Mask:
        """The files that existed before the snapshot."""
        of_snapshot = np.equal(np.asarray(columns.snapshot_id.values), self._id) & columns.snapshot_id.is_valid
        added_here = of_snapshot & np.equal(columns.status, EntryStatus.ADDED)
        return columns.live & ~np.asarray(added_here, np.bool_)

    def _earlier_deletes(self) -> DeleteIndex | None:
        """The deletes that applied before the snapshot."""
        parent_id = self._snapshot.parent_snapshot_id
        if parent_id is None or deletes_before(self._snapshot) == 0:
            return None
        parent = self._planner.metadata.snapshots_by_id.get(parent_id)
        if parent is None:
            raise NoSuchSnapshot(
                f"snapshot {self._id} removed rows, and which were deleted before is not known any more: its parent "
                f"{parent_id} has expired",
                hint=f"begin the changelog after snapshot {self._id}",
            )
        (manifests,) = read_manifests_of_snapshots([parent], self._planner.storage)
        return self._planner.index([m for m in manifests if m.content == ManifestContent.DELETES])


def deletes_before(snapshot: Snapshot) -> int | None:
    """The number of delete files before a snapshot, by its summary; None if the summary does not have it.

    >>> summary = {"operation": "overwrite", "added-delete-files": "2", "total-delete-files": "5"}
    >>> deletes_before(Snapshot(snapshot_id=1, timestamp_ms=5, summary=summary))
    3
    """
    summary = snapshot.summary or {}
    total, added, removed = (
        summary.get(name, missing)
        for name, missing in (("total-delete-files", "?"), ("added-delete-files", "0"), ("removed-delete-files", "0"))
    )
    if not all(text.isascii() and text.isdigit() and len(text) < 19 for text in (total, added, removed)):
        return None
    return int(total) - int(added) + int(removed)


def _with_deletes(plan: ScanPlan, index: DeleteIndex | None) -> ScanPlan:
    """The same files with deletes from another index."""
    return replace(plan, deletes=index, matched=() if index is None else look_up_deletes(index, plan.chunks))
