"""Adding data files: quickly, with a manifest of their own, or with small manifests merged into larger ones.

Both conflict with nothing, unless the rows come from the table itself and `reads` says so. `FastAppend` never touches
what is there: for many small commits. `MergeAppend` merges manifests as the table's `commit.manifest.*` properties say,
so that scans stay quick.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from floe.commit.change import BLIND, Reads, Writes
from floe.commit.manifests.added_files import AddedFiles, write_added
from floe.commit.manifests.manifest_files import Manifest, Workspace
from floe.commit.operations.file_change import FileChange
from floe.commit.operations.snapshot_change import SnapshotChange, SnapshotDraft, SnapshotOptions
from floe.commit.operations.snapshot_summary import SummaryBuilder
from floe.errors import InvalidInput
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.snapshots import Snapshot


class FastAppend(SnapshotChange):
    """Adds data files in new manifests; those that are there are not written anew.

    >>> from floe.spec.manifests.entries import FileContent
    >>> FastAppend([DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100)], branch="audit")
    <FastAppend on audit: 1 data files added>
    """

    def __init__(self, files: Iterable[DataFile], *, reads: Reads = BLIND, **options: Unpack[SnapshotOptions]) -> None:
        super().__init__(reads=reads, **options)
        self._added = _data_files(files)

    def describe(self) -> str:
        """The change in a few words."""
        return f"{len(self._added.files)} data files added"

    def writes(self, workspace: Workspace) -> Writes:
        """The files that are added."""
        self._added.check(workspace.metadata, self._written_with, again=workspace.attempt.number > 1)
        return Writes(added=self._added.files)

    def draft(self, workspace: Workspace, parent: Snapshot | None) -> SnapshotDraft:
        """The new manifests in front of all others."""
        before = workspace.manifests_of(parent)
        self.check_added(workspace, before, self._added)
        new, _ = write_added(workspace, self._added)
        summary = SummaryBuilder(workspace.metadata)
        summary.add(self._added.files)
        manifests: list[Manifest] = [*new, *before]
        return SnapshotDraft("append", manifests, summary, changed=bool(self._added.files))


class MergeAppend(FileChange):
    """Adds data files, and merges manifests when there are many small ones.

    >>> MergeAppend([])
    <MergeAppend on main: nothing>
    """

    def __init__(self, files: Iterable[DataFile], *, reads: Reads = BLIND, **options: Unpack[SnapshotOptions]) -> None:
        super().__init__(_data_files(files), reads=reads, **options)

    def operation(self, added: AddedFiles, removed: Iterable[DataFile]) -> str:
        """Rows were added, and none removed."""
        return "append"


def _data_files(files: Iterable[DataFile]) -> AddedFiles:
    added = AddedFiles.of(files)
    for file in added.deletes:
        raise InvalidInput(
            "an append adds rows; this is a file of deletes", hint="commit it with RowDelta", file=file.file_path
        )
    return added
