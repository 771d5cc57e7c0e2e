"""Rewrites: replacing manifests by others with the same files, and files by others with the same rows.

`RewriteManifests` groups the entries of a partition in few manifests of the target size, so that scans open fewer of
them. No file is added or removed; entries are copied as bytes. Manifests that others add meanwhile are kept beside the
new ones. Only if a rewritten manifest is no longer in the table is the work repeated.

`RewriteFiles` commits the compaction of data files and delete files. The table has the same rows afterwards. If others
removed the files that were read, or deleted rows of them, it is a conflict, because the new files do not reflect that.
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
from floe.commit.operations.snapshot_change import SnapshotChange, SnapshotDraft, SnapshotOptions, SummaryBuilder
from floe.errors import CorruptFile, InvalidInput
from floe.spec.manifests.entries import DataFile, EntryStatus, ManifestContent, ManifestFile
from floe.spec.metadata import snapshots
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.pruning.column_evaluation import Column
from floe.spec.pruning.var_bytes import VarBytes

ClusterKey: TypeAlias = Callable[[DataFile], Hashable]
_Group: TypeAlias = tuple[ManifestContent, int]


class RewriteManifests(SnapshotChange):
    """Rewrites manifests, so that files which are read together are listed together.

    Files are sorted by partition, or by the partition fields named in `cluster_by`. If that is a function of a
    `DataFile` (without metrics), files with equal results are grouped in the same manifests. Only manifests for which
    `where` returns true, with the partition spec `spec_id` and the content, are rewritten; by default all are.

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
        self._cluster_by = cluster_by if cluster_by is None or callable(cluster_by) else tuple(cluster_by)
        self._where = where
        self._spec_id = spec_id
        self._content = content
        self._selected: frozenset[ManifestFile] = frozenset()

    def describe(self) -> str:
        """The manifests that are rewritten, and their order."""
        which = "all manifests" if self._spec_id is None else f"manifests of spec {self._spec_id}"
        by = self._cluster_by
        how = "a key" if callable(by) else "partition" if by is None else ", ".join(by) or "nothing"
        return f"{which}, by {how}"

    def writes(self, workspace: Workspace) -> Writes:
        """No data files and no delete files; the rows stay the same."""
        return Writes(same_rows=True)

    def draft(self, workspace: Workspace, parent: Snapshot | None) -> SnapshotDraft:
        """The new manifests, followed by those that are not rewritten."""
        before = workspace.manifests_of(parent)
        if not self._selected or not self._selected <= set(before):
            self._selected = frozenset(self._select(workspace, before))
        groups: dict[_Group, list[ManifestFile]] = {}
        for manifest in before:
            if manifest in self._selected:
                groups.setdefault((manifest.content, manifest.partition_spec_id), []).append(manifest)
        new = [
            rewritten
            for group, manifests in groups.items()
            for rewritten in self._rewrite_group(workspace, group, manifests)
        ]
        kept = [manifest for manifest in before if manifest not in self._selected and manifest.may_have_live_files]
        summary = SummaryBuilder(workspace.metadata)
        entries = sum(manifest.summary.existing_files_count for manifest in new)
        summary.set(snapshots.ENTRIES_PROCESSED, entries)
        manifests: list[Manifest] = [*new, *kept]
        return SnapshotDraft("replace", manifests, summary, bool(new), len(self._selected))

    # selection ------------------------------------------------------------------------------------------------------

    def _select(self, workspace: Workspace, manifests: Iterable[ManifestFile]) -> Iterator[ManifestFile]:
        """The manifests to rewrite; a single one of its spec and content that is not too long is left as it is."""
        groups: dict[_Group, list[ManifestFile]] = {}
        for manifest in manifests:
            if manifest.may_have_live_files and self._matches(manifest):
                groups.setdefault((manifest.content, manifest.partition_spec_id), []).append(manifest)
        for group in groups.values():
            if len(group) > 1 or callable(self._cluster_by) or group[0].manifest_length > workspace.target_bytes:
                yield from group

    def _matches(self, manifest: ManifestFile) -> bool:
        return (
            (self._spec_id is None or manifest.partition_spec_id == self._spec_id)
            and (self._content is None or manifest.content == self._content)
            and (self._where is None or self._where(manifest))
        )

    # new manifests --------------------------------------------------------------------------------------------------

    def _rewrite_group(
        self, workspace: Workspace, group: _Group, manifests: Sequence[ManifestFile]
    ) -> tuple[NewManifest, ...]:
        content, spec_id = group
        key = ("rewritten", tuple(manifests), workspace.target_bytes, workspace.encoding_key(spec_id))
        return workspace.files.write_once(key, lambda: self._write(workspace, manifests, spec_id, content))

    def _write(
        self, workspace: Workspace, manifests: Sequence[ManifestFile], spec_id: int, content: ManifestContent
    ) -> list[NewManifest]:
        entries = _Entries(workspace.run_concurrently(workspace.read, manifests))
        bytes_each = sum(manifest.manifest_length for manifest in manifests) / max(len(entries), 1)
        per_manifest = max(int(workspace.target_bytes / max(bytes_each, 1)), 1)
        parts = [(workspace.new_path(), part) for part in self._split(workspace, entries, spec_id, per_manifest)]
        written = workspace.run_concurrently(lambda item: workspace.splice(item[0], item[1], spec_id, content), parts)
        _check_complete(written, manifests)
        return written

    def _split(
        self, workspace: Workspace, entries: _Entries, spec_id: int, per_manifest: int
    ) -> Iterator[list[CopiedEntries]]:
        """The entries of each new manifest."""
        if callable(self._cluster_by):
            for rows in entries.by_key(self._cluster_by):
                for start in range(0, len(rows), per_manifest):
                    yield entries.copy(rows[start : start + per_manifest])
            return
        names = self._cluster_by
        fields = workspace.layout(spec_id).partition_type.fields
        unknown = [] if names is None else [name for name in names if name not in {field.name for field in fields}]
        if unknown:
            raise InvalidInput(
                f"partition spec {spec_id} has no field {unknown[0]!r}",
                hint=f"it has {', '.join(field.name for field in fields)}" if fields else "it has no fields",
            )
        field_ids = [field.id for field in fields if names is None or field.name in names]
        if names is not None:
            field_ids.sort(key=lambda field_id: names.index(next(f.name for f in fields if f.id == field_id)))
        order = entries.sort_by(field_ids)
        count = -(-len(entries) // per_manifest)
        for rows in np.array_split(order, count) if count else ():
            yield entries.copy(np.sort(rows))


class _Entries:
    """The live entries of several manifests, with one index over all of them."""

    def __init__(self, sources: Sequence[ManifestColumns]) -> None:
        live = [np.flatnonzero(source.live) for source in sources]
        self.sources = sources
        self.source: Offsets = np.repeat(np.arange(len(live)), [rows.size for rows in live])
        self.row: Offsets = np.concatenate([*live, np.zeros(0, np.int64)])

    def __len__(self) -> int:
        return len(self.row)

    def copy(self, indices: Offsets) -> list[CopiedEntries]:
        """The entries at these indices, by manifest, with the status `existing`."""
        copied = []
        for source in np.unique(self.source[indices]).tolist():
            rows = self.row[indices[self.source[indices] == source]]
            copied.append(CopiedEntries(self.sources[source], rows, np.full(rows.size, EntryStatus.EXISTING)))
        return copied

    def sort_by(self, field_ids: Sequence[int]) -> Offsets:
        """The indices of the entries, sorted by partition fields; the sort is stable."""
        keys: list[Any] = []
        for field_id in field_ids:
            keys += _sort_keys([source.partition(field_id) for source in self.sources], self.source, self.row)
        return np.lexsort(keys[::-1]) if keys else np.arange(len(self))

    def by_key(self, key: ClusterKey) -> list[Offsets]:
        """The indices of the entries of each key, in the order in which the keys first occur."""
        groups: dict[Hashable, list[int]] = {}
        index = 0
        for number, source in enumerate(self.sources):
            for file in source.data_files(self.row[self.source == number], metrics=False):
                groups.setdefault(key(file), []).append(index)
                index += 1
        return [np.array(rows, np.int64) for rows in groups.values()]


def _sort_keys(columns: Sequence[Column], source: Offsets, row: Offsets) -> list[Any]:
    """Arrays that sort entries by one partition field, nulls first; `columns` has the field of each manifest."""
    rows = [row[source == number] for number in range(len(columns))]
    not_null = np.concatenate([np.zeros(0, np.bool_), *(c.is_valid[r] for c, r in zip(columns, rows, strict=True))])
    if any(isinstance(column.values, VarBytes) for column in columns):
        texts: list[bytes] = []
        for column, of_column in zip(columns, rows, strict=True):
            assert isinstance(column.values, VarBytes)
            texts += [text or b"" for text in column.values.take(of_column).to_list()]
        ranks = {text: rank for rank, text in enumerate(sorted(set(texts)))}
        return [not_null, np.array([ranks[text] for text in texts], np.int64)]
    values = np.concatenate([np.asarray(c.values)[r] for c, r in zip(columns, rows, strict=True)])
    return [not_null, np.where(not_null, values, values.dtype.type(0))]


_COUNTS: Final = ("added_files_count", "existing_files_count")


def _check_complete(written: Sequence[NewManifest], manifests: Sequence[ManifestFile]) -> None:
    """Raise unless the new manifests have as many files as the manifest list says of the old ones."""
    files = sum(manifest.summary.existing_files_count for manifest in written)
    counts = [getattr(manifest, name) for manifest in manifests for name in _COUNTS]
    if None not in counts and sum(counts) != files:
        raise CorruptFile(
            f"the manifests to be rewritten have {files} files, but the manifest list says {sum(counts)}",
            manifest=manifests[0].manifest_path,
        )


# Rewrite of files -----------------------------------------------------------------------------------------------


class RewriteFiles(FileChange):
    """Replaces files by others with the same rows.

    With `data_sequence_number` (that of the snapshot that was read) the new data files keep the age of their rows, so
    that equality deletes which others add meanwhile still apply. Rewritten equality delete files must keep their
    sequence numbers: `sequence_numbers` has them by path.

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
                    "rewritten equality deletes must keep their sequence number: with a new one they would delete "
                    "rows that were added since",
                    hint="give the number of the files that they replace in `sequence_numbers`",
                    file=file.file_path,
                )

    def operation(self, added: AddedFiles, removed: Sequence[DataFile]) -> str:
        """Always `replace`."""
        return "replace"
