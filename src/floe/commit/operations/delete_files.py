"""Removing rows by removing whole files: those that a filter selects, or those named one by one.

No row is read. A filter is applied to what the table holds when the commit succeeds, so that rows which others added
meanwhile go too; a file of which only some rows pass is an error, for it would have to be written anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Unpack

from floe.commit.footprint import BLIND, Reads
from floe.commit.manifests.added_files import AddedFiles
from floe.commit.operations.file_change import FileChange
from floe.commit.operations.snapshot_change import SnapshotOptions
from floe.errors import InvalidInput
from floe.spec.expressions.nodes import Expression
from floe.spec.manifests.entries import DataFile

__all__ = ["DeleteFiles"]


class DeleteFiles(FileChange):
    """Removes data files by a filter (`where`), as objects (`files`) or by location (`paths`).

    Files that are named must be there: one that is missing is a `ConflictingChange`.

    >>> DeleteFiles(paths=["s3://b/t/a.parquet"])
    <DeleteFiles on main: 1 data files removed>
    """

    def __init__(
        self,
        *,
        where: Expression | str | None = None,
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
