"""A snapshot of given files, made in the plainest way: to test the loop, expiry and clean-up without any operation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from floe.avro.manifest_lists import read_manifest_list, write_manifest_list
from floe.avro.manifest_reader import read_manifest
from floe.avro.manifest_writer import write_manifest
from floe.commit.change import Attempt
from floe.spec.manifests.entries import (
    DataFile,
    EntryStatus,
    FileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    summarize_manifest,
)
from floe.spec.metadata.snapshots import Snapshot, SnapshotRef
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import AddSnapshot, SetSnapshotRef, TableUpdate
from floe.spec.types import StructType
from floe.storage.environment import Environment
from floe.storage.locations import join
from floe.storage.protocol import Storage


def data_file(location: str, records: int = 1) -> DataFile:
    """A data file of a table without partitions."""
    return DataFile(FileContent.DATA, location, "parquet", (), records, 100)


def deletion_vector(location: str, target: str, offset: int) -> DataFile:
    """One deletion vector of a Puffin file."""
    return DataFile(
        FileContent.POSITION_DELETES,
        location,
        "puffin",
        (),
        1,
        100,
        referenced_data_file=target,
        content_offset=offset,
        content_size_in_bytes=40,
    )


def delete_file(location: str, *, equality: bool = False) -> DataFile:
    """A file of position or equality deletes."""
    if equality:
        return DataFile(FileContent.EQUALITY_DELETES, location, "parquet", (), 1, 100, equality_ids=(1,))
    return DataFile(FileContent.POSITION_DELETES, location, "parquet", (), 1, 100)


class PutFiles:
    """Adds files and removes others, on a branch (None: staged). Manifests of untouched files are kept."""

    def __init__(
        self,
        environment: Environment,
        add: Iterable[DataFile] = (),
        remove: Collection[tuple[str, int | None] | str] = (),
        *,
        branch: str | None = "main",
        data: bool = True,
        label: str = "",
    ) -> None:
        self.snapshot_id = environment.ids.snapshot_id()
        self.commit_id = str(environment.ids.uuid())
        self.branch = branch
        self.add = list(add)
        self.remove = {(one, None) if isinstance(one, str) else one for one in remove}
        self.writes_data = data
        self.label = label
        self.lists = 0
        self._written: dict[str, None] = {}
        self._used: list[str] = []
        self._own: list[ManifestFile] = []

    def written(self) -> Collection[str]:
        return tuple(self._written)

    def used(self) -> Collection[str]:
        return self._used

    def forget(self, files: Collection[str]) -> None:
        for file in files:
            self._written.pop(file, None)
        self._own = []

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        table, storage = attempt.metadata, attempt.storage
        ref = table.refs.get(self.branch or "main")
        parent = table.current_snapshot if ref is None else table.snapshot(ref.snapshot_id)
        number = table.next_sequence_number
        if not self._own:
            self._own = [self._manifest(table, storage, n, group) for n, group in enumerate(self._groups())]
        kept, rewritten = [], []
        for manifest in [] if parent is None or parent.manifest_list is None else list_of(parent, storage):
            if not self.remove:
                kept.append(manifest)
                continue
            entries = read_manifest(storage.read(manifest.manifest_path), manifest).entries()
            if not any(_key(entry.data_file) in self.remove and entry.is_live for entry in entries):
                if any(entry.is_live for entry in entries):
                    kept.append(manifest)
                continue
            after = [_after(entry, self.remove, self.snapshot_id) for entry in entries if entry.is_live]
            name = f"{self.commit_id}-r{len(self._written)}.avro"
            rewritten.append(self._write_manifest(table, storage, name, after, manifest.content))
        manifests = [
            replace(manifest, sequence_number=number, min_sequence_number=min(manifest.min_sequence_number, number))
            for manifest in [*self._own, *rewritten]
        ]
        added_rows = None
        if table.next_row_id is not None:
            added_rows, first = 0, table.next_row_id
            numbered = []
            for manifest in [*manifests, *kept]:
                if manifest.first_row_id is None and manifest.content == ManifestContent.DATA:
                    rows = (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
                    manifest = replace(manifest, first_row_id=first + added_rows)
                    added_rows += rows
                numbered.append(manifest)
        else:
            numbered = [*manifests, *kept]
        self.lists += 1
        listed = join(table.location, "metadata", f"snap-{self.snapshot_id}-{self.lists}-{self.commit_id}.avro")
        self._written[listed] = None
        storage.write(
            listed,
            write_manifest_list(
                numbered,
                format_version=table.format_version,
                snapshot_id=self.snapshot_id,
                parent_snapshot_id=None if parent is None else parent.snapshot_id,
                sequence_number=number if table.format_version > 1 else None,
                first_row_id=table.next_row_id,
            ),
        )
        self._used = [listed, *(manifest.manifest_path for manifest in manifests)]
        snapshot = Snapshot(
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=None if parent is None else parent.snapshot_id,
            sequence_number=number,
            timestamp_ms=attempt.now_ms,
            summary={
                "operation": "append" if not self.remove else "overwrite",
                "commit-id": self.commit_id,
                "label": self.label,
            },
            manifest_list=listed,
            schema_id=table.current_schema_id,
            first_row_id=table.next_row_id,
            added_rows=added_rows,
        )
        if self.branch is None:
            return (AddSnapshot(snapshot),)
        return AddSnapshot(snapshot), SetSnapshotRef(
            self.branch, SnapshotRef(snapshot_id=self.snapshot_id, type="branch")
        )

    def _groups(self) -> list[list[DataFile]]:
        data = [file for file in self.add if file.is_data]
        deletes = [file for file in self.add if not file.is_data]
        return [group for group in (data, deletes) if group]

    def _manifest(self, table: TableMetadata, storage: Storage, n: int, group: list[DataFile]) -> ManifestFile:
        content = ManifestContent.DATA if group[0].is_data else ManifestContent.DELETES
        if self.writes_data:
            for file in {file.file_path for file in group}:
                storage.write(file, b"rows", overwrite=True)
        entries = [ManifestEntry(EntryStatus.ADDED, self.snapshot_id, None, None, file) for file in group]
        return self._write_manifest(table, storage, f"{self.commit_id}-m{n}.avro", entries, content)

    def _write_manifest(
        self,
        table: TableMetadata,
        storage: Storage,
        name: str,
        entries: list[ManifestEntry],
        content: ManifestContent,
    ) -> ManifestFile:
        path = join(table.location, "metadata", name)
        version = table.format_version
        data = write_manifest(entries, table.schema, table.specs_by_id[0], format_version=version, content=content)
        self._written[path] = None
        storage.write(path, data, overwrite=True)
        return summarize_manifest(entries, StructType()).manifest_file(
            path, len(data), spec_id=0, content=content, snapshot_id=self.snapshot_id, sequence_number=0
        )


@lru_cache(maxsize=4096)
def _listed(data: bytes) -> tuple[ManifestFile, ...]:
    return tuple(read_manifest_list(data))


@lru_cache(maxsize=4096)
def _live_paths(data: bytes) -> frozenset[str]:
    columns = read_manifest(data)
    return frozenset((path or b"").decode() for path in columns.file_path.take(np.flatnonzero(columns.live)).to_list())


def list_of(snapshot: Snapshot, storage: Storage) -> Sequence[ManifestFile]:
    """The manifests of a snapshot, read without any of the code under test."""
    assert snapshot.manifest_list is not None
    return _listed(storage.read(snapshot.manifest_list))


def live_files(metadata: TableMetadata, storage: Storage, ref: str = "main") -> set[str]:
    """The paths of a branch's live files."""
    if ref not in metadata.refs:
        return set()
    return files_of(metadata.snapshot_of_ref(ref), storage)


def files_of(snapshot: Snapshot, storage: Storage) -> set[str]:
    """The paths of a snapshot's live files."""
    return {
        path for manifest in list_of(snapshot, storage) for path in _live_paths(storage.read(manifest.manifest_path))
    }


def check_readable(metadata: TableMetadata, storage: Storage, *, data: bool = True) -> int:
    """Reads every snapshot that the table has down to its data files; how many files there are."""
    count = 0
    for snapshot in metadata.snapshots:
        for path in files_of(snapshot, storage):
            count += 1
            assert not data or storage.exists(path), f"snapshot {snapshot.snapshot_id} has lost {path}"
    for file in metadata.statistics:
        assert storage.exists(file.statistics_path)
    return count


def _key(file: DataFile) -> tuple[str, int | None]:
    return file.file_path, file.content_offset


def _after(entry: ManifestEntry, removed: Collection[tuple[str, int | None]], snapshot_id: int) -> ManifestEntry:
    if _key(entry.data_file) in removed:
        return replace(entry, status=EntryStatus.DELETED, snapshot_id=snapshot_id)
    return replace(entry, status=EntryStatus.EXISTING)
