"""The base class of changes that add and remove files: it filters, writes and merges the manifests.

Subclasses say which files are added and removed, and name the snapshot's operation. Common to all: the deletion vectors
of a removed data file are removed with it, deletes that are older than all data files are removed with other files, and
no file is added that the table has already.
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
from floe.commit.operations.snapshot_change import SnapshotChange, SnapshotDraft, SnapshotOptions, SummaryBuilder
from floe.errors import InvalidInput
from floe.spec.expressions.binder import bind
from floe.spec.expressions.nodes import FALSE, Expression
from floe.spec.manifests.entries import DataFile, ManifestContent, ManifestFile
from floe.spec.metadata import snapshots
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, eq=False)
class FileExchange:
    """The files that a change adds and removes; `paths` are removed data files of which only the path is known."""

    added: AddedFiles
    removed: tuple[DataFile, ...] = ()
    paths: tuple[str, ...] = ()

    @cached_property
    def added_set(self) -> FileSet:
        """All added files."""
        return FileSet.of(self.added.files)

    @cached_property
    def removed_data(self) -> FileSet:
        """The removed data files."""
        return FileSet.of(file for file in self.removed if file.is_data) | FileSet.of_paths(self.paths)

    @cached_property
    def removed_deletes(self) -> FileSet:
        """The removed delete files."""
        return FileSet.of(file for file in self.removed if not file.is_data)

    def check(self, referenced: Iterable[str]) -> None:
        """Raise if a file is both added and removed, or deletes are added for a data file that is removed."""
        removed = self.removed_data.keys | self.removed_deletes.keys
        for path, _ in removed and self.added_set.keys & removed:
            raise InvalidInput(
                "a file is removed and added in one commit",
                hint="write changed rows to a file with another name",
                file=path,
            )
        for path, _ in FileSet.of_paths(referenced).keys & self.removed_data.keys:
            raise InvalidInput("deletes are added for a data file that the same commit removes", **{"data file": path})

    def describe(self) -> list[str]:
        """The counts of added and removed files, in words."""
        counts = {
            "data files added": len(self.added.data),
            "delete files added": len(self.added.deletes),
            "data files removed": len(self.removed_data),
            "delete files removed": len(self.removed_deletes),
        }
        return [f"{count} {name}" for name, count in counts.items() if count]


class FileChange(SnapshotChange):
    """A change that adds and removes data files and delete files.

    `removed` are single files, `paths` data files of which only the path is known; `where` removes the files whose rows
    all match.
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
    """The newly deleted positions by data file, if they are known."""

    def describe(self) -> str:
        """The counts of added and removed files."""
        parts = self._declared.describe()
        parts += [] if self._where is None else ["rows removed by a filter"]
        return ", ".join(parts) or "nothing"

    # what a subclass implements -------------------------------------------------------------------------------------

    @abstractmethod
    def operation(self, added: AddedFiles, removed: Sequence[DataFile]) -> str:
        """The `operation` of the snapshot, given the files that were added and removed."""

    def exchange(self, workspace: Workspace) -> FileExchange:
        """The files that are added and removed in this attempt."""
        return self._declared

    def removed_partitions(self, metadata: TableMetadata) -> PartitionSet:
        """The partitions whose files are all removed."""
        return NO_PARTITIONS

    def row_filter(self, metadata: TableMetadata) -> Expression | None:
        """The unbound filter by which files are removed."""
        return self._where

    def referenced(self) -> frozenset[str]:
        """The data files that the added position deletes refer to."""
        targets = [file.target_path for file in self._declared.added.deletes]
        return frozenset(target for target in targets if target is not None)

    # the footprint --------------------------------------------------------------------------------------------------

    def writes(self, workspace: Workspace) -> Writes:
        """The files that are added, and those that are removed by file, filter and partition."""
        metadata, declared = workspace.metadata, self._declared
        declared.added.check(metadata, self._written_with, again=workspace.attempt.number > 1)
        partitions = self.removed_partitions(metadata)
        return Writes(
            added=declared.added.files,
            removed=declared.removed,
            removed_paths=frozenset(declared.paths),
            referenced=self.referenced(),
            filter=self.row_filter(metadata),
            partitions=frozenset(
                (spec_id, values) for spec_id, tuples in partitions.tuples.items() for values in tuples
            ),
            same_rows=self.same_rows,
            data_sequence_number=declared.added.max_sequence_number(),
            positions=self.positions,
        )

    # the snapshot ---------------------------------------------------------------------------------------------------

    def draft(self, workspace: Workspace, parent: Snapshot | None) -> SnapshotDraft:
        """Filter the parent's manifests, write those of the added files, and merge small ones."""
        exchange = self.exchange(workspace)
        before = workspace.manifests_of(parent)
        self.check_added(workspace, before, exchange.added)
        data = self._filter(workspace, before, ManifestContent.DATA, self._data_removal(workspace, exchange))
        removal = self._delete_removal(workspace, exchange, data)
        deletes = self._filter(workspace, before, ManifestContent.DELETES, removal)
        new = write_added(workspace, exchange.added)
        manifests: list[Manifest] = []
        all_filtered = (*data, *deletes)
        replaced = sum(isinstance(filtered.manifest, NewManifest) for filtered in all_filtered)
        for content, added, of_content in zip(ManifestContent, new, (data, deletes), strict=True):
            remaining = [filtered.manifest for filtered in of_content if _remains(filtered.manifest)]
            merged, count = merge_manifests(workspace, [*added, *remaining], content)
            manifests += merged
            replaced += count
        removed = [file for filtered in all_filtered for file in filtered.removed]
        summary = SummaryBuilder(workspace.metadata)
        summary.add(exchange.added.files)
        summary.remove(removed)
        if duplicates := sum(filtered.duplicates for filtered in all_filtered):
            summary.set(snapshots.DELETED_DUPLICATE_FILES, duplicates)
        changed = bool(exchange.added.files or removed)
        return SnapshotDraft(self.operation(exchange.added, removed), manifests, summary, changed, replaced)

    def _filter(
        self, workspace: Workspace, manifests: Iterable[ManifestFile], content: ManifestContent, removal: Removal
    ) -> list[FilteredManifest]:
        of_content = [manifest for manifest in manifests if manifest.content == content]
        return self._filters[content].apply(workspace, of_content, removal)

    def _bound_filter(self, metadata: TableMetadata) -> Expression:
        where = self.row_filter(metadata)
        return FALSE if where is None else bind(where, metadata.schema, case_sensitive=self.reads.case_sensitive)

    def _data_removal(self, workspace: Workspace, exchange: FileExchange) -> Removal:
        metadata = workspace.metadata
        data_files = [file for file in exchange.removed if file.is_data]
        return Removal(
            files=exchange.removed_data,
            files_in=None if exchange.paths else PartitionSet.of_files(data_files),
            filter=self._bound_filter(metadata),
            partitions=self.removed_partitions(metadata),
        )

    def _delete_removal(
        self, workspace: Workspace, exchange: FileExchange, data: Sequence[FilteredManifest]
    ) -> Removal:
        """What is removed from the delete manifests: the declared files, and deletes that apply to no data file now."""
        metadata, vectors = workspace.metadata, exchange.added.vectors
        removed_data = [file for filtered in data for file in filtered.removed]
        removes = bool(removed_data or exchange.removed_deletes)
        # Earlier versions have no deletion vectors, which must be removed with their data file.
        orphans = removed_data if metadata.format_version > 2 else []
        return Removal(
            files=exchange.removed_deletes,
            files_in=PartitionSet.of_files(file for file in exchange.removed if not file.is_data),
            filter=self._bound_filter(metadata),
            partitions=self.removed_partitions(metadata),
            orphans=FileSet.of(orphans),
            orphans_in=PartitionSet.of_files(orphans),
            older_than=_min_sequence_number(workspace, exchange, data) if removes else 0,
            vectors_for=FileSet.of_paths(v.referenced_data_file for v in vectors if v.referenced_data_file),
            vectors_in=PartitionSet.of_files(vectors),
        )

    def forget(self, files: Collection[str]) -> None:
        """Forget files that are being deleted; another attempt writes them again."""
        super().forget(files)
        for manifest_filter in self._filters.values():
            manifest_filter.forget()


def _min_sequence_number(workspace: Workspace, exchange: FileExchange, data: Sequence[FilteredManifest]) -> int:
    """The lowest data sequence number of all data files of the new snapshot."""
    numbers = [_min_of_manifest(filtered.manifest) for filtered in data if _has_live_files(filtered.manifest)]
    assigned = [number for number in (*numbers, exchange.added.min_sequence_number()) if number is not None]
    return min([workspace.metadata.last_sequence_number, *assigned])


def _min_of_manifest(manifest: Manifest) -> int | None:
    return manifest.summary.min_sequence_number if isinstance(manifest, NewManifest) else manifest.min_sequence_number


def _has_live_files(manifest: Manifest) -> bool:
    if isinstance(manifest, NewManifest):
        return manifest.summary.added_files_count + manifest.summary.existing_files_count > 0
    return manifest.may_have_live_files


def _remains(manifest: Manifest) -> bool:
    """Whether the new snapshot lists a manifest; old ones with deleted entries alone are left out."""
    return isinstance(manifest, NewManifest) or manifest.may_have_live_files
