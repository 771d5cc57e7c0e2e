"""The base of changes that add and remove files: manifests filtered, new ones written, small ones merged.

Subclasses say which files, and what the snapshot is called. The rest is housekeeping that each of them has to do: the
deletion vectors of a removed data file go with it, deletes that are older than all data go too where something else is
removed, and a file never comes to be there twice.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Unpack

from pyroaring import BitMap64

from floe.commit.change import BLIND, Reads, Writes
from floe.commit.manifests.added_files import AddedFiles, write_added
from floe.commit.manifests.file_sets import NO_PARTITIONS, FileSet, PartitionSet
from floe.commit.manifests.manifest_files import Manifest, NewManifest, Workspace
from floe.commit.manifests.manifest_filter import FilteredManifest, ManifestFilter, Removal
from floe.commit.manifests.manifest_merge import merge_manifests
from floe.commit.operations.snapshot_change import SnapshotChange, SnapshotDraft, SnapshotOptions
from floe.commit.operations.snapshot_summary import SummaryBuilder
from floe.errors import InvalidInput
from floe.spec.expressions.binding import bind
from floe.spec.expressions.nodes import FALSE, Expression
from floe.spec.manifests.entries import DataFile, ManifestContent, ManifestFile
from floe.spec.metadata import snapshots
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, eq=False)
class FileExchange:
    """The files that come and those that go, the latter by description or by location alone."""

    added: AddedFiles
    removed: tuple[DataFile, ...] = ()
    paths: tuple[str, ...] = ()

    @cached_property
    def added_set(self) -> FileSet:
        """All files that come."""
        return FileSet.of(self.added.files)

    @cached_property
    def removed_data(self) -> FileSet:
        """The data files that go."""
        return FileSet.of(file for file in self.removed if file.is_data) | FileSet.of_paths(self.paths)

    @cached_property
    def removed_deletes(self) -> FileSet:
        """The delete files that go."""
        return FileSet.of(file for file in self.removed if not file.is_data)

    def check(self, referenced: Iterable[str]) -> None:
        """Raise if a file comes and goes at once, or deletes come for a data file that goes."""
        gone = self.removed_data.names | self.removed_deletes.names
        for path, _ in gone and self.added_set.names & gone:
            raise InvalidInput(
                "a file is removed and added in one commit",
                hint="write changed rows to a file of another name",
                file=path,
            )
        for path, _ in FileSet.of_paths(referenced).names & self.removed_data.names:
            raise InvalidInput("deletes are added for a data file that the same commit removes", **{"data file": path})

    def describe(self) -> list[str]:
        """The exchange in a few words."""
        counts = {
            "data files added": len(self.added.data),
            "delete files added": len(self.added.deletes),
            "data files removed": len(self.removed_data),
            "delete files removed": len(self.removed_deletes),
        }
        return [f"{count} {name}" for name, count in counts.items() if count]


class FileChange(SnapshotChange):
    """A change that adds and removes files of data and deletes.

    Files are removed one by one (`removed`, or by their `paths`), or those all of whose rows pass a filter (`where`).
    """

    def __init__(
        self,
        added: AddedFiles,
        *,
        removed: Iterable[DataFile] = (),
        paths: Iterable[str] = (),
        where: Expression | None = None,
        reads: Reads = BLIND,
        **options: Unpack[SnapshotOptions],
    ) -> None:
        super().__init__(reads=reads, **options)
        self._declared = FileExchange(added, tuple(removed), tuple(paths))
        self._where = where
        self._filters = {content: ManifestFilter() for content in ManifestContent}
        self._declared.check(self.referenced())

    same_rows = False
    """Whether the table has the same rows afterwards."""

    positions: Mapping[str, BitMap64] | None = None
    """By data file, the rows that are deleted newly, if they are at hand."""

    def describe(self) -> str:
        """The change in a few words."""
        parts = self._declared.describe()
        parts += [] if self._where is None else ["rows removed by a filter"]
        return ", ".join(parts) or "nothing"

    # what a subclass says -------------------------------------------------------------------------------------------

    @abstractmethod
    def operation(self, added: AddedFiles, removed: Sequence[DataFile]) -> str:
        """What the snapshot is called, by what was added and really removed."""

    def exchange(self, workspace: Workspace) -> FileExchange:
        """The files that come and go in this attempt."""
        return self._declared

    def removed_partitions(self, metadata: TableMetadata) -> PartitionSet:
        """Partitions of which every file is removed."""
        return NO_PARTITIONS

    def row_filter(self, metadata: TableMetadata) -> Expression | None:
        """The filter by which files are removed, not yet bound."""
        return self._where

    def referenced(self) -> frozenset[str]:
        """The data files that added position deletes point into."""
        targets = [file.target_path for file in self._declared.added.deletes]
        return frozenset(target for target in targets if target is not None)

    # the footprint --------------------------------------------------------------------------------------------------

    def writes(self, workspace: Workspace) -> Writes:
        """What is added and removed, by file, by filter and by partition."""
        metadata, declared = workspace.metadata, self._declared
        declared.added.check(metadata, self._written_with, again=workspace.attempt.number > 1)
        partitions = self.removed_partitions(metadata)
        return Writes(
            added=declared.added.files,
            removed=declared.removed,
            removed_paths=frozenset(declared.paths),
            referenced=self.referenced(),
            filter=self.row_filter(metadata),
            partitions=frozenset((spec_id, one) for spec_id, some in partitions.tuples.items() for one in some),
            same_rows=self.same_rows,
            data_sequence_number=declared.added.highest_number(),
            positions=self.positions,
        )

    # the snapshot ---------------------------------------------------------------------------------------------------

    def draft(self, workspace: Workspace, parent: Snapshot | None) -> SnapshotDraft:
        """Filters, writes and merges."""
        exchange = self.exchange(workspace)
        before = workspace.manifests_of(parent)
        self.check_added(workspace, before, exchange.added)
        data = self._filter(workspace, before, ManifestContent.DATA, self._data_removal(workspace, exchange))
        removal = self._delete_removal(workspace, exchange, data)
        deletes = self._filter(workspace, before, ManifestContent.DELETES, removal)
        new = write_added(workspace, exchange.added)
        manifests: list[Manifest] = []
        replaced = sum(isinstance(one.manifest, NewManifest) for one in (*data, *deletes))
        for content, fresh, filtered in zip(ManifestContent, new, (data, deletes), strict=True):
            staying = [one.manifest for one in filtered if _stays(one.manifest)]
            merged, count = merge_manifests(workspace, [*fresh, *staying], content)
            manifests += merged
            replaced += count
        removed = [file for one in (*data, *deletes) for file in one.removed]
        summary = SummaryBuilder(workspace.metadata)
        summary.add(exchange.added.files)
        summary.remove(removed)
        if duplicates := sum(one.duplicates for one in (*data, *deletes)):
            summary.set(snapshots.DELETED_DUPLICATE_FILES, duplicates)
        changed = bool(exchange.added.files or removed)
        return SnapshotDraft(self.operation(exchange.added, removed), manifests, summary, changed, replaced)

    def _filter(
        self, workspace: Workspace, manifests: Iterable[ManifestFile], content: ManifestContent, removal: Removal
    ) -> list[FilteredManifest]:
        own = [manifest for manifest in manifests if manifest.content == content]
        return self._filters[content].apply(workspace, own, removal)

    def _bound(self, metadata: TableMetadata) -> Expression:
        where = self.row_filter(metadata)
        return FALSE if where is None else bind(where, metadata.schema, case_sensitive=self.reads.case_sensitive)

    def _data_removal(self, workspace: Workspace, exchange: FileExchange) -> Removal:
        metadata = workspace.metadata
        known = [file for file in exchange.removed if file.is_data]
        return Removal(
            files=exchange.removed_data,
            files_in=None if exchange.paths else PartitionSet.of_files(known),
            filter=self._bound(metadata),
            partitions=self.removed_partitions(metadata),
        )

    def _delete_removal(
        self, workspace: Workspace, exchange: FileExchange, data: Sequence[FilteredManifest]
    ) -> Removal:
        """What goes from the delete manifests: what was asked for, and what applies to nothing any more."""
        metadata, vectors = workspace.metadata, exchange.added.vectors
        gone = [file for one in data for file in one.removed]
        removes = bool(gone or exchange.removed_deletes)
        # Earlier versions have no deletes that must go with their file.
        orphans = gone if metadata.format_version > 2 else []
        return Removal(
            files=exchange.removed_deletes,
            files_in=PartitionSet.of_files(file for file in exchange.removed if not file.is_data),
            filter=self._bound(metadata),
            partitions=self.removed_partitions(metadata),
            orphans=FileSet.of(orphans),
            orphans_in=PartitionSet.of_files(orphans),
            older_than=_oldest(workspace, exchange, data) if removes else 0,
            vectors_for=FileSet.of_paths(v.referenced_data_file for v in vectors if v.referenced_data_file),
            vectors_in=PartitionSet.of_files(vectors),
        )

    def forget(self, files: Collection[str]) -> None:
        """These files are being deleted: another attempt writes them anew."""
        super().forget(files)
        for one in self._filters.values():
            one.forget()


def _oldest(workspace: Workspace, exchange: FileExchange, data: Sequence[FilteredManifest]) -> int:
    """The lowest data sequence number of all data files that the snapshot has."""
    numbers = [_lowest(one.manifest) for one in data if _has_live(one.manifest)]
    known = [number for number in (*numbers, exchange.added.lowest_number()) if number is not None]
    return min([workspace.metadata.last_sequence_number, *known])


def _lowest(manifest: Manifest) -> int | None:
    return manifest.summary.min_sequence_number if isinstance(manifest, NewManifest) else manifest.min_sequence_number


def _has_live(manifest: Manifest) -> bool:
    if isinstance(manifest, NewManifest):
        return manifest.summary.added_files_count + manifest.summary.existing_files_count > 0
    return manifest.may_have_live_files


def _stays(manifest: Manifest) -> bool:
    """A manifest of deleted entries alone is needed only by the snapshot that deleted them."""
    return isinstance(manifest, NewManifest) or manifest.may_have_live_files
