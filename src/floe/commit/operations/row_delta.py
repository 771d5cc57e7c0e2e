"""Adding rows and deletes together: how merge-on-read deletes, updates and merges rows.

Deletes are deletion vectors (v3), position delete files (v2) or equality deletes; they may take the place of older
ones. Two deletions of rows of one file both succeed: in a v3 table the one that comes second merges its deletion vector
with that of the first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from pyroaring import BitMap64

from floe.commit.change import Reads
from floe.commit.conflicts.change_index import VectorMerge, merge_vectors
from floe.commit.manifests.added_files import AddedFiles
from floe.commit.manifests.manifest_files import Workspace
from floe.commit.operations.file_change import FileChange, FileExchange
from floe.commit.operations.snapshot_change import SnapshotDraft, SnapshotOptions
from floe.errors import InvalidInput
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.properties import DATA_PATH
from floe.storage.locations import join


class RowDelta(FileChange):
    """Adds data files and delete files, and removes files that these replace.

    `referenced` are the data files that the added position deletes point into, where the deletes do not name them
    themselves; none of them may have been removed meanwhile. `reads` says what the change rests on: it has to be
    given, and `BLIND` says that it rests on nothing (an upsert by equality deletes, say). With `positions` (by data
    file, the rows that are deleted newly) changes of different rows of a file need not be looked for in the files.

    >>> from floe.commit.change import BLIND
    >>> from floe.spec.manifests.entries import FileContent
    >>> gone = DataFile(FileContent.EQUALITY_DELETES, "d.parquet", "parquet", (), 1, 50, equality_ids=(1,))
    >>> RowDelta([gone], reads=BLIND)
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
        self._check_aim()

    def _check_aim(self) -> None:
        """Raise if nobody says which data files position deletes point into: nothing could be compared with others."""
        for file in self._declared.added.deletes:
            if file.is_position_delete_file and file.target_path is None and not self._referenced:
                raise InvalidInput(
                    "a position delete file for several data files, and none of them is named",
                    hint="give the locations of these data files as `referenced`",
                    file=file.file_path,
                )

    def referenced(self) -> frozenset[str]:
        """The data files that added position deletes point into."""
        return self._referenced | super().referenced()

    def operation(self, added: AddedFiles, removed: Sequence[DataFile]) -> str:
        """An append if there are only new rows, a delete if rows only go, else an overwrite."""
        if added.data:
            return "append" if not added.deletes and not removed else "overwrite"
        only_data_removed = bool(removed) and all(file.is_data for file in removed)
        return "delete" if added.deletes or only_data_removed else "overwrite"

    # merging with the deletion vectors of others --------------------------------------------------------------------

    def validate(self, workspace: Workspace) -> Sequence[VectorMerge]:
        """As every change, and notes which vectors have to be merged."""
        self._merges = tuple(super().validate(workspace))
        return self._merges

    def exchange(self, workspace: Workspace) -> FileExchange:
        """What was declared, with merged vectors in place of those that others have overtaken."""
        if not self._merges:
            return self._declared
        if self._merges not in self._merged:
            name = f"merged-dvs-{self.snapshot_id}-{len(self._merged) + 1}-{self.commit_id}.puffin"
            path = join(_data_folder(workspace), name)
            workspace.files.note(path)
            writes = merge_vectors(self.writes(workspace), self._merges, workspace.storage, path)
            self._merged[self._merges] = FileExchange(AddedFiles.of(writes.added), writes.removed)
        return self._merged[self._merges]

    def draft(self, workspace: Workspace, parent: Snapshot | None) -> SnapshotDraft:
        """As every change of files; the snapshot needs the merged vectors too."""
        draft = super().draft(workspace, parent)
        own = set(workspace.files.written())
        needed = {file.file_path for file in self.exchange(workspace).added.vectors if file.file_path in own}
        return replace(draft, files=sorted(needed))

    def forget(self, files: Collection[str]) -> None:
        """These files are being deleted: another attempt writes them anew."""
        gone = set(files)
        super().forget(gone)
        kept = (one for one in self._merged.items() if not any(f.file_path in gone for f in one[1].added.vectors))
        self._merged = dict(kept)


def _data_folder(workspace: Workspace) -> str:
    metadata = workspace.metadata
    own = DATA_PATH.read(metadata.properties)
    return own.rstrip("/") if own else join(metadata.location, "data")
