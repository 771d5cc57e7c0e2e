"""Changes of a table's rows by whole files: data files and delete files that some engine has written.

What each rests on is told to the conflict rules: the head of the branch as this object has seen it, the files that
were taken over into others, and the rows that were looked at (`read`). Rows that nobody mentions count as looked at,
which is the safe assumption; who says less with a filter conflicts with fewer others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Final, TypeVar

from floe.commit.footprint import BLIND, Isolation, Reads
from floe.commit.operations.append import FastAppend, MergeAppend
from floe.commit.operations.delete_files import DeleteFiles
from floe.commit.operations.file_change import as_filter
from floe.commit.operations.overwrite import Overwrite
from floe.commit.operations.replace_partitions import ReplacePartitions
from floe.commit.operations.rewrite_files import RewriteFiles
from floe.commit.operations.rewrite_manifests import RewriteManifests
from floe.commit.operations.row_delta import RowDelta
from floe.commit.operations.snapshot_change import SnapshotOptions
from floe.errors import InvalidInput
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.manifests.entries import DataFile
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.summaries import WAP_ID
from floe.table.actions import Actions

__all__ = ["FileActions"]

F = TypeVar("F", bound=DataFile | str)

WAP_BRANCH: Final = "write.wap.branch"
"""The property that names the branch where writes are audited before they are published."""


class FileActions(Actions):
    """The methods that add and remove files; a table has them, its branches, and a transaction.

    Each gives the snapshot that it made: None if there was nothing to do, and always in a transaction, which makes it
    later. `summary` adds properties to the snapshot's summary.
    """

    _create_branch: bool = False
    _wap_id: str | None = None
    _named_branch: bool = False
    """Whether the user said where to write; what is written anywhere may be audited first."""

    def append_files(
        self,
        files: Iterable[DataFile],
        *,
        fast: bool = False,
        check_duplicates: bool = True,
        summary: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Add data files.

        `fast` writes one new manifest and never merges small ones: for many small commits. Files that are in the table
        already are refused, for their rows would be there twice; who knows that none is, because the files were just
        written under names of their own, saves the look at all manifests with `check_duplicates=False`.
        """
        options = self._options(summary)
        options["fresh"] = not check_duplicates
        append = FastAppend if fast else MergeAppend
        return self._do(append(_listed(files), **options))

    def overwrite_files(
        self,
        added: Iterable[DataFile] = (),
        *,
        removed: Iterable[DataFile] = (),
        where: Expression | str | None = None,
        read: Expression | str | None = None,
        isolation: Isolation | str = Isolation.SERIALIZABLE,
        summary: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Remove files and add others in one step.

        `where` removes the files whose rows all pass it when the commit is made; `removed` are files that must still
        be there, and whose rows may have been taken over into the new ones. `read` describes the rows that were looked
        at to decide: by default all, if files are removed by name.
        """
        gone = _listed(removed)
        reads = BLIND if not gone and read is None else self._reads(gone, read)
        return self._do(
            Overwrite(added=_listed(added), removed=gone, where=where, reads=reads, **self._options(summary, isolation))
        )

    def replace_partitions(
        self, files: Iterable[DataFile], *, only_new: bool = False, summary: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Add data files in place of everything that their partitions hold; without partitioning, of all rows.

        With `only_new` the partitions must be empty.
        """
        return self._do(ReplacePartitions(_listed(files), only_new=only_new, **self._options(summary)))

    def delete_files(
        self, files: Iterable[DataFile | str], *, summary: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Remove data files, given as such or by their locations; each must be there."""
        given = _listed(files, DataFile | str)
        return self._do(
            DeleteFiles(
                files=[file for file in given if isinstance(file, DataFile)],
                paths=[file for file in given if isinstance(file, str)],
                **self._options(summary),
            )
        )

    def row_delta(
        self,
        data: Iterable[DataFile] = (),
        deletes: Iterable[DataFile] = (),
        *,
        removed: Iterable[DataFile] = (),
        referenced: Iterable[str] = (),
        read: Expression | str | None = None,
        isolation: Isolation | str = Isolation.SERIALIZABLE,
        summary: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Add rows and deletes together: position deletes, deletion vectors or equality deletes.

        `removed` are delete files that the new ones take the place of; `referenced` the data files that position
        deletes point into where they do not say so themselves. `read` describes the rows that were looked at to decide:
        by default all, and none for equality deletes alone.
        """
        gone, deleted = _listed(removed), _listed(deletes)
        blind = read is None and not gone and all(file.is_equality_delete_file for file in deleted)
        reads = BLIND if blind else self._reads((), read)
        added = (*_listed(data), *deleted)
        options = self._options(summary, isolation)
        return self._do(RowDelta(added, removed=gone, referenced=referenced, reads=reads, **options))

    def rewrite_files(
        self,
        removed: Iterable[DataFile],
        added: Iterable[DataFile] = (),
        *,
        data_sequence_number: int | None = None,
        sequence_numbers: Mapping[str, int] | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> Snapshot | None:
        """Replace files by others with the same rows, as compaction does.

        The new data files count as old as the state that this object has seen, unless `data_sequence_number` says
        otherwise; delete files that are written anew keep the numbers of `sequence_numbers`, by path.
        """
        gone = _listed(removed)
        head = self._head()
        if data_sequence_number is None and head is not None and self.metadata.format_version > 1:
            data_sequence_number = head.sequence_number
        reads = Reads(
            None if head is None else head.snapshot_id,
            files=frozenset(file.file_path for file in gone if file.is_data),
        )
        return self._do(
            RewriteFiles(
                reads=reads,
                removed=gone,
                added=_listed(added),
                data_sequence_number=data_sequence_number,
                sequence_numbers=sequence_numbers,
                **self._options(summary),
            )
        )

    def rewrite_manifests(self, *, summary: Mapping[str, str] | None = None) -> Snapshot | None:
        """Write manifests anew, with the files of a partition together, so that scans find them sooner."""
        return self._do(RewriteManifests(**self._options(summary)))

    # what all of them share --------------------------------------------------------------------------------------

    def _options(
        self, summary: Mapping[str, str] | None, isolation: Isolation | str = Isolation.SERIALIZABLE
    ) -> SnapshotOptions:
        own = dict(summary or {})
        options = SnapshotOptions(
            branch=self._target,
            create_branch=self._create_branch or self._target != self._branch,
            isolation=_isolation(isolation),
            written_with=self.metadata.current_schema_id,
        )
        if self._wap_id is not None:
            options["staged"] = True
            own[WAP_ID] = self._wap_id
        options["summary"] = own
        return options

    @property
    def _target(self) -> str:
        """The branch that new snapshots go to: with the property `write.wap.branch`, that one in place of `main`.

        Its first snapshot makes it. Readers of `main` see what was written when `main` is fast-forwarded to it.
        """
        if self._named_branch:
            return self._branch
        return self.metadata.properties.get(WAP_BRANCH) or self._branch

    def _reads(self, files: Iterable[DataFile], read: Expression | str | None) -> Reads:
        head = self._head()
        return Reads(
            None if head is None else head.snapshot_id,
            filter=TRUE if read is None else as_filter(read),
            files=frozenset(file.file_path for file in files if file.is_data),
            schema_id=self._published.current_schema_id,
        )

    def _head(self) -> Snapshot | None:
        """The branch's newest snapshot, as this object has seen it published."""
        metadata = self._published
        ref = metadata.refs.get(self._target)
        return metadata.current_snapshot if ref is None else metadata.snapshot(ref.snapshot_id)


def _listed(given: Iterable[F], kinds: type | UnionType = DataFile) -> tuple[F, ...]:
    """The files; a single one, or a text, which is a sequence of letters, is not a list of files."""
    if isinstance(given, DataFile | str) or not isinstance(given, Iterable):
        raise InvalidInput(f"expected a list of files, found {type(given).__name__}", hint="write it in brackets")
    files = tuple(given)
    for file in files:
        if not isinstance(file, kinds):
            raise InvalidInput(f"expected a DataFile, found {file!r:.80}")
    return files


def _isolation(given: Isolation | str) -> Isolation:
    if isinstance(given, Isolation):
        return given
    try:
        return Isolation(given.lower())
    except (ValueError, AttributeError):
        raise InvalidInput(f"no isolation is named {given!r:.80}", hint="use serializable or snapshot") from None
