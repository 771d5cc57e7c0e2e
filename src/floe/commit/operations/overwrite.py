"""Replacing rows: files that pass a filter, or files named one by one, make room for new ones.

This is how copy-on-write works (the files that were read and written anew are `removed`), and `INSERT OVERWRITE` with a
filter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Unpack

from floe.commit.footprint import Reads
from floe.commit.manifests.added_files import AddedFiles
from floe.commit.operations.file_change import FileChange
from floe.commit.operations.snapshot_change import SnapshotOptions
from floe.errors import InvalidInput
from floe.spec.expressions.nodes import Expression
from floe.spec.manifests.entries import DataFile

__all__ = ["Overwrite"]


class Overwrite(FileChange):
    """Removes files and adds others, in one snapshot.

    `where` removes every file whose rows all pass it, at the time of the commit; a file of which only some rows pass is
    an error. `removed` are files that must still be there, deletes among them. `reads` says what the change rests on:
    it has to be given, and `BLIND` says that it rests on nothing.

    >>> from floe.commit.footprint import BLIND
    >>> Overwrite(where="day = '2024-01-01'", reads=BLIND)
    <Overwrite on main: rows removed by a filter>
    """

    def __init__(
        self,
        *,
        reads: Reads,
        added: Iterable[DataFile] = (),
        removed: Iterable[DataFile] = (),
        where: Expression | str | None = None,
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
