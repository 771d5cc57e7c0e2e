"""Changes of data: appends, overwrites, removal of files, and row deltas.

| change | files | used for |
|---|---|---|
| `FastAppend` | adds data files, and leaves other manifests unchanged | many small commits |
| `MergeAppend` | adds data files, and merges small manifests | `INSERT INTO` |
| `Overwrite` | replaces single files, or those that match a filter | copy-on-write, `INSERT OVERWRITE` with a filter |
| `ReplacePartitions` | replaces all files of the partitions that get data | dynamic `INSERT OVERWRITE` |
| `DeleteFiles` | removes data files, without reading rows | `DELETE` by partition, `TRUNCATE` |
| `RowDelta` | adds data files and delete files | merge-on-read DELETE, UPDATE and MERGE; upserts |

Appends conflict with nothing, unless their rows come from the table itself and `reads` says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from pyroaring import BitMap64

from floe.commit.change import BLIND, Reads, Writes
from floe.commit.conflicts.change_index import VectorMerge, merge_vectors
from floe.commit.manifests.added_files import AddedFiles, write_added
from floe.commit.manifests.file_sets import NO_PARTITIONS, PartitionSet
from floe.commit.manifests.manifest_files import Manifest, Workspace
from floe.commit.operations.file_change import FileChange, FileExchange
from floe.commit.operations.snapshot_change import SnapshotChange, SnapshotDraft, SnapshotOptions, SummaryBuilder
from floe.errors import InvalidInput, InvalidUpdate
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata import snapshots
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.properties import DATA_PATH
from floe.storage.locations import join

# Appends ----------------------------------------------------------------------------------------------------------


class FastAppend(SnapshotChange):
    """Adds data files in new manifests, and leaves all other manifests unchanged.

    >>> from floe.spec.manifests.entries import FileContent
    >>> FastAppend([DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100)], branch="audit")
    <FastAppend on audit: 1 data files added>
    """

    def __init__(self, files: Iterable[DataFile], *, reads: Reads = BLIND, **options: Unpack[SnapshotOptions]) -> None:
        super().__init__(reads=reads, **options)
        self._added = _data_files(files)

    def describe(self) -> str:
        """The number of added files."""
        return f"{len(self._added.files)} data files added"

    def writes(self, workspace: Workspace) -> Writes:
        """The added files."""
        self._added.check(workspace.metadata, self._written_with, again=workspace.attempt.number > 1)
        return Writes(added=self._added.files)

    def draft(self, workspace: Workspace, parent: Snapshot | None) -> SnapshotDraft:
        """The manifests of the added files, followed by those of the parent."""
        before = workspace.manifests_of(parent)
        self.check_added(workspace, before, self._added)
        new, _ = write_added(workspace, self._added)
        summary = SummaryBuilder(workspace.metadata)
        summary.add(self._added.files)
        manifests: list[Manifest] = [*new, *before]
        return SnapshotDraft("append", manifests, summary, changed=bool(self._added.files))


class MergeAppend(FileChange):
    """Adds data files, and merges small manifests as the table's `commit.manifest.*` properties say.

    >>> MergeAppend([])
    <MergeAppend on main: nothing>
    """

    def __init__(self, files: Iterable[DataFile], *, reads: Reads = BLIND, **options: Unpack[SnapshotOptions]) -> None:
        super().__init__(_data_files(files), reads=reads, **options)

    def operation(self, added: AddedFiles, removed: Iterable[DataFile]) -> str:
        """Always `append`."""
        return "append"


def _data_files(files: Iterable[DataFile]) -> AddedFiles:
    added = AddedFiles.of(files)
    for file in added.deletes:
        raise InvalidInput(
            "an append adds data files; this is a delete file", hint="commit it with RowDelta", file=file.file_path
        )
    return added


# Overwrites -------------------------------------------------------------------------------------------------------


class Overwrite(FileChange):
    """Removes files and adds others, in one snapshot: copy-on-write, or `INSERT OVERWRITE` with a filter.

    `where` removes every file whose rows all match it at the time of the commit; a file of which only some match is
    an error. `removed` are data files and delete files that must still be in the table. `reads` must be given; `BLIND`
    says that the change does not depend on what the table has.

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
                "an overwrite adds data files; this is a delete file",
                hint="commit it with RowDelta",
                file=file.file_path,
            )
        super().__init__(files, removed=removed, where=where, reads=reads, **options)

    def operation(self, added: AddedFiles, removed: Sequence[DataFile]) -> str:
        """`append` if no file was removed, `delete` if none was added, else `overwrite`."""
        if not removed:
            return "append" if added.files else "overwrite"
        return "overwrite" if added.files else "delete"


class ReplacePartitions(FileChange):
    """Adds data files, and removes all other files of their partitions (dynamic overwrite).

    Without partitioning that is the whole table. With `only_new` the partitions must be empty: a file that would be
    removed is an error.

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
            raise InvalidInput("partitions are replaced by data files; this is a delete file", file=file.file_path)
        super().__init__(added, reads=reads, **options)
        self._only_new = only_new
        self._partitions = PartitionSet.of_files(added.files)

    def removed_partitions(self, metadata: TableMetadata) -> PartitionSet:
        """The partitions of the added files."""
        return NO_PARTITIONS if self._replaces_all(metadata) else self._partitions

    def row_filter(self, metadata: TableMetadata) -> Expression | None:
        """All rows of the table, if it is unpartitioned."""
        return TRUE if self._replaces_all(metadata) else None

    def _replaces_all(self, metadata: TableMetadata) -> bool:
        specs = [metadata.specs_by_id.get(spec_id) for spec_id in self._partitions.tuples]
        return any(spec is not None and spec.is_unpartitioned for spec in specs)

    def draft(self, workspace: Workspace, parent: Snapshot | None) -> SnapshotDraft:
        """The draft, with `replace-partitions` in the summary: such a snapshot can be cherry-picked."""
        draft = super().draft(workspace, parent)
        draft.summary.set(snapshots.REPLACE_PARTITIONS, "true")
        return draft

    def operation(self, added: AddedFiles, removed: Sequence[DataFile]) -> str:
        """Always `overwrite`, as in Java Iceberg, even if the partitions were empty."""
        if removed and self._only_new:
            raise InvalidUpdate(
                f"a partition that must be empty has files already: {removed[0].partition}", file=removed[0].file_path
            )
        return "overwrite"


class DeleteFiles(FileChange):
    """Removes data files by a filter (`where`), as objects (`files`) or by path (`paths`), without reading rows.

    The filter is applied to the table at the time of the commit, so that rows which others added meanwhile are removed
    too; a file of which only some rows match is an error, because it would have to be rewritten. A missing file of
    `files` or `paths` is a `ConflictingChange`.

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
        """Always `delete`."""
        return "delete"


# Row deltas -------------------------------------------------------------------------------------------------------


class RowDelta(FileChange):
    """Adds data files and delete files, and removes files that these replace: merge-on-read DELETE, UPDATE and MERGE.

    Deletes are deletion vectors (v3), position delete files (v2) or equality delete files. Two deletions of rows of one
    data file both succeed: in a v3 table the second merges its deletion vector with that of the first.

    `referenced` are the data files that the added position deletes refer to, if the delete files do not name a single
    one; none of them may have been removed meanwhile. `reads` must be given; `BLIND` says that the change does not
    depend on what the table has (an upsert by equality deletes, for example). `positions` has the newly deleted
    positions by data file; with them the conflict check need not read delete files.

    >>> from floe.commit.change import BLIND
    >>> from floe.spec.manifests.entries import FileContent
    >>> deletes = DataFile(FileContent.EQUALITY_DELETES, "d.parquet", "parquet", (), 1, 50, equality_ids=(1,))
    >>> RowDelta([deletes], reads=BLIND)
    <RowDelta on main: 1 delete files added>
    """

    can_merge = True

    def __init__(
        self,
        added: Iterable[DataFile] = (),
        *,
        reads: Reads,
        removed: Iterable[DataFile] = (),
        referenced: Iterable[str] = (),
        positions: Mapping[str, BitMap64] | None = None,
        **options: Unpack[SnapshotOptions],
    ) -> None:
        self._referenced = frozenset(referenced)
        self._merges: tuple[VectorMerge, ...] = ()
        self._merged: dict[tuple[VectorMerge, ...], FileExchange] = {}
        super().__init__(AddedFiles.of(added), removed=removed, reads=reads, **options)
        self.positions = positions
        self._check_targets()

    def _check_targets(self) -> None:
        """Raise if the targets of a position delete file are not known: conflicts could not be detected."""
        for file in self._declared.added.deletes:
            if file.is_position_delete_file and file.target_path is None and not self._referenced:
                raise InvalidInput(
                    "a position delete file applies to several data files, and none of them is named",
                    hint="give the paths of these data files as `referenced`",
                    file=file.file_path,
                )

    def referenced(self) -> frozenset[str]:
        """The data files that the added position deletes refer to."""
        return self._referenced | super().referenced()

    def operation(self, added: AddedFiles, removed: Sequence[DataFile]) -> str:
        """`append` if rows are only added, `delete` if rows are only deleted, else `overwrite`."""
        if added.data:
            return "append" if not added.deletes and not removed else "overwrite"
        only_data_removed = bool(removed) and all(file.is_data for file in removed)
        return "delete" if added.deletes or only_data_removed else "overwrite"

    # merging with the deletion vectors of others --------------------------------------------------------------------

    def validate(self, workspace: Workspace) -> Sequence[VectorMerge]:
        """Raise for a conflict; returns, and keeps for `exchange`, the vectors that must be merged."""
        self._merges = tuple(super().validate(workspace))
        return self._merges

    def exchange(self, workspace: Workspace) -> FileExchange:
        """The declared files, with merged deletion vectors in place of those that conflict with others."""
        if not self._merges:
            return self._declared
        if self._merges not in self._merged:
            name = f"merged-dvs-{self.snapshot_id}-{len(self._merged) + 1}-{self.commit_id}.puffin"
            path = join(_data_folder(workspace), name)
            workspace.files.record(path)
            writes = merge_vectors(self.writes(workspace), self._merges, workspace.storage, path)
            self._merged[self._merges] = FileExchange(AddedFiles.of(writes.added), writes.removed)
        return self._merged[self._merges]

    def draft(self, workspace: Workspace, parent: Snapshot | None) -> SnapshotDraft:
        """The draft, with the Puffin files of merged vectors among its files."""
        draft = super().draft(workspace, parent)
        written = set(workspace.files.written())
        merged = {file.file_path for file in self.exchange(workspace).added.vectors if file.file_path in written}
        return replace(draft, files=sorted(merged))

    def forget(self, files: Collection[str]) -> None:
        """Forget files that are being deleted; another attempt writes them again."""
        deleted = set(files)
        super().forget(deleted)
        self._merged = {
            merges: exchange
            for merges, exchange in self._merged.items()
            if not any(vector.file_path in deleted for vector in exchange.added.vectors)
        }


def _data_folder(workspace: Workspace) -> str:
    metadata = workspace.metadata
    path = DATA_PATH.read(metadata.properties)
    return path.rstrip("/") if path else join(metadata.location, "data")
