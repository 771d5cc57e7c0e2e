"""Writing manifests anew with the same files: those of a partition together, and of a good size.

Scans then open fewer manifests. No file is added or removed, and nothing is read but manifests; descriptions of files
are copied as bytes. What others commit meanwhile is kept beside: only if a manifest that was rewritten is no longer
there is the work done again.

Writing files anew with the same rows: compaction of data files, and of delete files.

The table reads the same before and after. Whatever others did meanwhile to the files that were read (removed them,
deleted rows of them) is a conflict, for the new files do not know of it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, Unpack

import numpy as np

from floe.avro.manifest_columns import ManifestColumns
from floe.avro.manifest_writer import CopiedEntries
from floe.avro.vector_decoder import Offsets
from floe.commit.change import BLIND, Reads, Writes
from floe.commit.manifests.added_files import AddedFiles
from floe.commit.manifests.manifest_files import Manifest, NewManifest, Workspace
from floe.commit.operations.file_change import FileChange
from floe.commit.operations.snapshot_change import SnapshotChange, SnapshotDraft, SnapshotOptions
from floe.commit.operations.snapshot_summary import SummaryBuilder
from floe.errors import CorruptFile, InvalidInput
from floe.spec.manifests.entries import DataFile, EntryStatus, ManifestContent, ManifestFile
from floe.spec.metadata import snapshots
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.pruning.column_evaluation import Column
from floe.spec.pruning.var_bytes import VarBytes

ClusterKey: TypeAlias = Callable[[DataFile], Hashable]
_Group: TypeAlias = tuple[ManifestContent, int]


class RewriteManifests(SnapshotChange):
    """Writes manifests anew, so that files that are read together are listed together.

    Files are ordered by their partition, or by some partition fields (`cluster_by` their names), or put together by a
    key of your own (a function of a `DataFile`, given without its metrics: each key gets manifests of its own). Only
    manifests for which `where` is true, of one spec (`spec_id`) or content, are taken; by default all are.

    >>> RewriteManifests(cluster_by=["day"], spec_id=1)
    <RewriteManifests on main: manifests of spec 1, by day>
    """

    def __init__(
        self,
        *,
        cluster_by: Sequence[str] | ClusterKey | None = None,
        where: Callable[[ManifestFile], bool] | None = None,
        spec_id: int | None = None,
        content: ManifestContent | None = None,
        **options: Unpack[SnapshotOptions],
    ) -> None:
        super().__init__(reads=BLIND, **options)
        if isinstance(cluster_by, str):
            raise InvalidInput("cluster_by takes a list of partition fields, found text", hint=f"use [{cluster_by!r}]")
        self._by = cluster_by if cluster_by is None or callable(cluster_by) else tuple(cluster_by)
        self._where = where
        self._spec_id = spec_id
        self._content = content
        self._chosen: frozenset[ManifestFile] = frozenset()

    def describe(self) -> str:
        """The change in a few words."""
        which = "all manifests" if self._spec_id is None else f"manifests of spec {self._spec_id}"
        how = "a key" if callable(self._by) else "partition" if self._by is None else ", ".join(self._by) or "nothing"
        return f"{which}, by {how}"

    def writes(self, workspace: Workspace) -> Writes:
        """Nothing that anybody reads."""
        return Writes(same_rows=True)

    def draft(self, workspace: Workspace, parent: Snapshot | None) -> SnapshotDraft:
        """New manifests in front of those that are kept."""
        before = workspace.manifests_of(parent)
        if not self._chosen or not self._chosen <= set(before):
            self._chosen = frozenset(self._choose(workspace, before))
        groups: dict[_Group, list[ManifestFile]] = {}
        for manifest in before:
            if manifest in self._chosen:
                groups.setdefault((manifest.content, manifest.partition_spec_id), []).append(manifest)
        new = [one for group, manifests in groups.items() for one in self._rewritten(workspace, group, manifests)]
        kept = [manifest for manifest in before if manifest not in self._chosen and manifest.may_have_live_files]
        summary = SummaryBuilder(workspace.metadata)
        entries = sum(manifest.summary.existing_files_count for manifest in new)
        summary.set(snapshots.ENTRIES_PROCESSED, entries)
        everything: list[Manifest] = [*new, *kept]
        return SnapshotDraft("replace", everything, summary, bool(new), len(self._chosen))

    # which ----------------------------------------------------------------------------------------------------------

    def _choose(self, workspace: Workspace, manifests: Iterable[ManifestFile]) -> Iterator[ManifestFile]:
        """The manifests that are asked for; one that is alone and of a good size stays as it is."""
        groups: dict[_Group, list[ManifestFile]] = {}
        for manifest in manifests:
            if manifest.may_have_live_files and self._is_asked_for(manifest):
                groups.setdefault((manifest.content, manifest.partition_spec_id), []).append(manifest)
        for group in groups.values():
            if len(group) > 1 or callable(self._by) or group[0].manifest_length > workspace.target_bytes:
                yield from group

    def _is_asked_for(self, manifest: ManifestFile) -> bool:
        return (
            (self._spec_id is None or manifest.partition_spec_id == self._spec_id)
            and (self._content is None or manifest.content == self._content)
            and (self._where is None or self._where(manifest))
        )

    # how ------------------------------------------------------------------------------------------------------------

    def _rewritten(
        self, workspace: Workspace, group: _Group, manifests: Sequence[ManifestFile]
    ) -> tuple[NewManifest, ...]:
        content, spec_id = group
        key = ("rewritten", tuple(manifests), workspace.target_bytes, workspace.style(spec_id))
        return workspace.files.once(key, lambda: self._write(workspace, manifests, spec_id, content))

    def _write(
        self, workspace: Workspace, manifests: Sequence[ManifestFile], spec_id: int, content: ManifestContent
    ) -> list[NewManifest]:
        entries = _Entries(workspace.several(workspace.read, manifests))
        bytes_each = sum(manifest.manifest_length for manifest in manifests) / max(len(entries), 1)
        most = max(int(workspace.target_bytes / max(bytes_each, 1)), 1)
        parts = [(workspace.new_path(), part) for part in self._parts(workspace, entries, spec_id, most)]
        written = workspace.several(lambda item: workspace.splice(item[0], item[1], spec_id, content), parts)
        _check_complete(written, manifests)
        return written

    def _parts(self, workspace: Workspace, entries: _Entries, spec_id: int, most: int) -> Iterator[list[CopiedEntries]]:
        """What goes into each new manifest."""
        if callable(self._by):
            for rows in entries.by_key(self._by):
                for begin in range(0, len(rows), most):
                    yield entries.kept(rows[begin : begin + most])
            return
        names = self._by
        fields = workspace.layout(spec_id).partition_type.fields
        unknown = [] if names is None else [name for name in names if name not in {field.name for field in fields}]
        if unknown:
            raise InvalidInput(
                f"partition spec {spec_id} has no field {unknown[0]!r}",
                hint=f"it has {', '.join(field.name for field in fields)}" if fields else "it has no fields",
            )
        chosen = [field.id for field in fields if names is None or field.name in names]
        if names is not None:
            chosen.sort(key=lambda field_id: names.index(next(f.name for f in fields if f.id == field_id)))
        order = entries.ordered(chosen)
        count = -(-len(entries) // most)
        for rows in np.array_split(order, count) if count else ():
            yield entries.kept(np.sort(rows))


class _Entries:
    """The live entries of several manifests, numbered through."""

    def __init__(self, sources: Sequence[ManifestColumns]) -> None:
        live = [np.flatnonzero(source.live) for source in sources]
        self.sources = sources
        self.source: Offsets = np.repeat(np.arange(len(live)), [rows.size for rows in live])
        self.row: Offsets = np.concatenate([*live, np.zeros(0, np.int64)])

    def __len__(self) -> int:
        return len(self.row)

    def kept(self, numbers: Offsets) -> list[CopiedEntries]:
        """Some entries, as files that exist, in the order of their manifests."""
        found = []
        for place in np.unique(self.source[numbers]).tolist():
            rows = self.row[numbers[self.source[numbers] == place]]
            found.append(CopiedEntries(self.sources[place], rows, np.full(rows.size, EntryStatus.EXISTING)))
        return found

    def ordered(self, field_ids: Sequence[int]) -> Offsets:
        """The numbers of the entries, ordered by some partition fields; equal ones stay in their order."""
        keys: list[Any] = []
        for field_id in field_ids:
            keys += _sort_keys([source.partition(field_id) for source in self.sources], self.source, self.row)
        return np.lexsort(keys[::-1]) if keys else np.arange(len(self))

    def by_key(self, key: ClusterKey) -> list[Offsets]:
        """The numbers of the entries of each key, in the order in which the keys first occur."""
        groups: dict[Hashable, list[int]] = {}
        number = 0
        for place, source in enumerate(self.sources):
            for file in source.data_files(self.row[self.source == place], metrics=False):
                groups.setdefault(key(file), []).append(number)
                number += 1
        return [np.array(rows, np.int64) for rows in groups.values()]


def _sort_keys(columns: Sequence[Column], source: Offsets, row: Offsets) -> list[Any]:
    """Arrays that order some entries as one partition field does, nulls first."""
    rows = [row[source == place] for place in range(len(columns))]
    known = np.concatenate([np.zeros(0, np.bool_), *(c.known[r] for c, r in zip(columns, rows, strict=True))])
    if any(isinstance(column.values, VarBytes) for column in columns):
        texts: list[bytes] = []
        for column, some in zip(columns, rows, strict=True):
            assert isinstance(column.values, VarBytes)
            texts += [text or b"" for text in column.values.take(some).to_list()]
        ranks = {text: rank for rank, text in enumerate(sorted(set(texts)))}
        return [known, np.array([ranks[text] for text in texts], np.int64)]
    values = np.concatenate([np.asarray(c.values)[r] for c, r in zip(columns, rows, strict=True)])
    return [known, np.where(known, values, values.dtype.type(0))]


_COUNTS: Final = ("added_files_count", "existing_files_count")


def _check_complete(written: Sequence[NewManifest], manifests: Sequence[ManifestFile]) -> None:
    """Raise unless the new manifests have as many files as the list says of the old ones."""
    now = sum(manifest.summary.existing_files_count for manifest in written)
    counts = [getattr(manifest, name) for manifest in manifests for name in _COUNTS]
    if None not in counts and sum(counts) != now:
        raise CorruptFile(
            f"the manifests to be rewritten have {now} files, but their list says {sum(counts)}",
            manifest=manifests[0].manifest_path,
        )


# Writing files anew with the same rows: compaction of data files, and of delete files.


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
