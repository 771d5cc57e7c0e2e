"""Replacing rows: files that pass a filter, or files named one by one, make room for new ones.

This is how copy-on-write works (the files that were read and written anew are `removed`), and `INSERT OVERWRITE` with a
filter.

Replacing whole partitions: each partition that gets a file loses all that it had (dynamic overwrite).

With a spec without partitioning this is the whole table.

Removing rows by removing whole files: those that a filter selects, or those named one by one.

No row is read. A filter is applied to what the table holds when the commit succeeds, so that rows which others added
meanwhile go too; a file of which only some rows pass is an error, for it would have to be written anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Unpack

from floe.commit.change import BLIND, Reads
from floe.commit.manifests.added_files import AddedFiles
from floe.commit.manifests.file_sets import NO_PARTITIONS, PartitionSet
from floe.commit.manifests.manifest_files import Workspace
from floe.commit.operations.file_change import FileChange
from floe.commit.operations.snapshot_change import SnapshotDraft, SnapshotOptions
from floe.errors import InvalidInput, InvalidUpdate
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata import snapshots
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata


class Overwrite(FileChange):
    """Removes files and adds others, in one snapshot.

    `where` removes every file whose rows all pass it, at the time of the commit; a file of which only some rows pass is
    an error. `removed` are files that must still be there, deletes among them. `reads` says what the change rests on:
    it has to be given, and `BLIND` says that it rests on nothing.

    >>> from floe.commit.change import BLIND
    >>> from floe.spec.expressions.dsl import col
    >>> Overwrite(where=col("day") == "2024-01-01", reads=BLIND)
    <Overwrite on main: rows removed by a filter>
    """

    def __init__(
        self,
        *,
        reads: Reads,
        added: Iterable[DataFile] = (),
        removed: Iterable[DataFile] = (),
        where: Expression | None = None,
        **options: Unpack[SnapshotOptions],
    ) -> None:
        files = AddedFiles.of(added)
        for file in files.deletes:
            raise InvalidInput(
                "an overwrite adds rows; this is a file of deletes", hint="commit it with RowDelta", file=file.file_path
            )
        super().__init__(files, removed=removed, where=where, reads=reads, **options)

    def operation(self, added: AddedFiles, removed: Sequence[DataFile]) -> str:
        """An append if nothing was removed, a delete if nothing was added."""
        if not removed:
            return "append" if added.files else "overwrite"
        return "overwrite" if added.files else "delete"


# Replacing whole partitions: each partition that gets a file loses all that it had (dynamic overwrite).


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

    def draft(self, workspace: Workspace, parent: Snapshot | None) -> SnapshotDraft:
        """As every change of files, and marked as what it is: others can pick such a snapshot."""
        draft = super().draft(workspace, parent)
        draft.summary.set(snapshots.REPLACE_PARTITIONS, "true")
        return draft

    def operation(self, added: AddedFiles, removed: Sequence[DataFile]) -> str:
        """Always an overwrite, as in Java Iceberg: what it is depends on partitions that may have been empty."""
        if removed and self._only_new:
            raise InvalidUpdate(
                f"a partition that was to be new has files already: {removed[0].partition}", file=removed[0].file_path
            )
        return "overwrite"


# Removing rows by removing whole files: those that a filter selects, or those named one by one.


class DeleteFiles(FileChange):
    """Removes data files by a filter (`where`), as objects (`files`) or by location (`paths`).

    Files that are named must be there: one that is missing is a `ConflictingChange`.

    >>> DeleteFiles(paths=["s3://b/t/a.parquet"])
    <DeleteFiles on main: 1 data files removed>
    """

    def __init__(
        self,
        *,
        where: Expression | None = None,
        files: Iterable[DataFile] = (),
        paths: Iterable[str] = (),
        reads: Reads = BLIND,
        **options: Unpack[SnapshotOptions],
    ) -> None:
        super().__init__(AddedFiles(), removed=files, paths=paths, where=where, reads=reads, **options)
        if self._declared.removed_deletes:
            raise InvalidInput(
                "removing delete files alone would bring rows back", hint="replace them with RewriteFiles or RowDelta"
            )

    def operation(self, added: AddedFiles, removed: Sequence[DataFile]) -> str:
        """Rows were removed."""
        return "delete"
