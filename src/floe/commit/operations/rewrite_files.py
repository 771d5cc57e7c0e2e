"""Writing files anew with the same rows: compaction of data files, and of delete files.

The table reads the same before and after. Whatever others did meanwhile to the files that were read (removed them,
deleted rows of them) is a conflict, for the new files do not know of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Unpack

from floe.commit.footprint import Reads
from floe.commit.manifests.added_files import AddedFiles
from floe.commit.operations.file_change import FileChange
from floe.commit.operations.snapshot_change import SnapshotOptions
from floe.errors import InvalidInput
from floe.spec.manifests.entries import DataFile

__all__ = ["RewriteFiles"]


class RewriteFiles(FileChange):
    """Replaces files by others with the same rows.

    With `data_sequence_number` (that of the snapshot that was read) the new data files are as old as the rows in them,
    so that equality deletes which others add meanwhile still apply. Delete files that are written anew must stay as
    old as they were; `sequence_numbers` tells the number of each by its path.

    >>> from floe.spec.manifests.entries import FileContent
    >>> small = [DataFile(FileContent.DATA, f"{n}.parquet", "parquet", (), 3, 100) for n in range(2)]
    >>> large = DataFile(FileContent.DATA, "all.parquet", "parquet", (), 6, 180)
    >>> RewriteFiles(removed=small, added=[large], reads=Reads(7, files=frozenset({"0.parquet", "1.parquet"})))
    <RewriteFiles on main: 1 data files added, 2 data files removed>
    """

    same_rows = True

    def __init__(
        self,
        *,
        reads: Reads,
        removed: Iterable[DataFile],
        added: Iterable[DataFile] = (),
        data_sequence_number: int | None = None,
        sequence_numbers: Mapping[str, int] | None = None,
        **options: Unpack[SnapshotOptions],
    ) -> None:
        files = tuple(added)
        numbers = dict(sequence_numbers or {})
        if data_sequence_number is not None:
            numbers |= {file.file_path: data_sequence_number for file in files if file.is_data}
        super().__init__(AddedFiles.of(files, numbers), removed=removed, reads=reads, **options)
        self._check_exchange()

    def _check_exchange(self) -> None:
        declared = self._declared
        if not declared.removed:
            raise InvalidInput("a rewrite must remove files", hint="commit new rows with an append")
        if declared.added.data and not declared.removed_data:
            raise InvalidInput("a rewrite adds data files, and removes none that they could replace")
        if declared.added.deletes and not declared.removed_deletes:
            raise InvalidInput("a rewrite adds delete files, and removes none that they could replace")
        for file in declared.added.deletes:
            if file.is_equality_delete_file and file.file_path not in declared.added.sequence_numbers:
                raise InvalidInput(
                    "equality deletes that are written anew must stay as old as they were: as new ones they would "
                    "delete rows that were added since",
                    hint="give the number of those that they replace in `sequence_numbers`",
                    file=file.file_path,
                )

    def operation(self, added: AddedFiles, removed: Sequence[DataFile]) -> str:
        """The rows are the same."""
        return "replace"
