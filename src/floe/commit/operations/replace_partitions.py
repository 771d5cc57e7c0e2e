"""Replacing whole partitions: each partition that gets a file loses all that it had (dynamic overwrite).

With a spec without partitioning this is the whole table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Unpack

from floe.commit.footprint import BLIND, Reads
from floe.commit.manifests.added_files import AddedFiles
from floe.commit.manifests.manifest_files import Workspace
from floe.commit.manifests.partition_sets import NO_PARTITIONS, PartitionSet
from floe.commit.operations.file_change import FileChange
from floe.commit.operations.snapshot_change import Made, SnapshotOptions
from floe.errors import InvalidInput, InvalidUpdate
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata import summaries
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata

__all__ = ["ReplacePartitions"]


class ReplacePartitions(FileChange):
    """Adds data files in place of everything that their partitions hold.

    With `only_new`, partitions must be empty: a file that would be removed is an error.

    >>> ReplacePartitions([])
    <ReplacePartitions on main: nothing>
    """

    def __init__(
        self,
        files: Iterable[DataFile],
        *,
        only_new: bool = False,
        reads: Reads = BLIND,
        **options: Unpack[SnapshotOptions],
    ) -> None:
        added = AddedFiles.of(files)
        for file in added.deletes:
            raise InvalidInput("partitions are replaced by rows; this is a file of deletes", file=file.file_path)
        super().__init__(added, reads=reads, **options)
        self._only_new = only_new
        self._partitions = PartitionSet.of_files(added.files)

    def removed_partitions(self, metadata: TableMetadata) -> PartitionSet:
        """Those that get a file."""
        return NO_PARTITIONS if self._replaces_all(metadata) else self._partitions

    def row_filter(self, metadata: TableMetadata) -> Expression | None:
        """Without partitioning, all rows of the table."""
        return TRUE if self._replaces_all(metadata) else None

    def _replaces_all(self, metadata: TableMetadata) -> bool:
        specs = [metadata.specs_by_id.get(spec_id) for spec_id in self._partitions.tuples]
        return any(spec is not None and spec.is_unpartitioned for spec in specs)

    def make(self, workspace: Workspace, parent: Snapshot | None) -> Made:
        """As every change of files, and marked as what it is: others can pick such a snapshot."""
        made = super().make(workspace, parent)
        made.summary.set(summaries.REPLACE_PARTITIONS, "true")
        return made

    def operation(self, added: AddedFiles, removed: Sequence[DataFile]) -> str:
        """Always an overwrite, as in Java Iceberg: what it is depends on partitions that may have been empty."""
        if removed and self._only_new:
            raise InvalidUpdate(
                f"a partition that was to be new has files already: {removed[0].partition}", file=removed[0].file_path
            )
        return "overwrite"
