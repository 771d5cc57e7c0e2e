"""Deleting the files of expired snapshots: those that the table reached before and does not reach now.

The table is read again after the expiry was committed. What the expired snapshots reached is a candidate; what any
snapshot that is left reaches, in whatever spelling, is not deleted. So a file that was removed and added again stays,
and so does a Puffin file of which one deletion vector is still alive. If anything cannot be read, nothing is deleted:
an incomplete list of what is needed would let needed files go. Files outside the table's own folders may be somebody
else's, and stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from floe.commit.path_set import PathSet, name_hashes
from floe.commit.pointer import Pointer, TableState
from floe.commit.reachability import FileBatch, FileKind, file_batches, listed_manifests, statistics_batches
from floe.commit.roots import owned_folders
from floe.errors import FloeError
from floe.spec.manifests.entries import ManifestFile
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.uuids import check_same_table
from floe.storage.locations import canonical, is_below
from floe.storage.protocol import Storage

__all__ = ["Removal", "remove_unreachable", "unreachable_files"]


@dataclass(frozen=True, slots=True)
class Removal:
    """What became of files that were to be deleted."""

    deleted: Mapping[FileKind, int] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    """Files that could not be deleted; nothing reaches them."""

    elsewhere: tuple[str, ...] = ()
    """Files that nothing in this table reaches, but that lie outside its folders."""

    notes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """How many files were deleted."""
        return sum(self.deleted.values())


def remove_unreachable(
    pointer: Pointer, before: TableMetadata, gone: Sequence[Snapshot], *, executor: Executor | None = None
) -> Removal:
    """Deletes what only snapshots that are gone reached; nothing if any reading fails. Raises nothing.

    `before` is the metadata that had the snapshots. The table is read anew.
    """
    try:
        fresh = pointer.load()
        if fresh is None:
            return Removal(notes=("no file was deleted: the table is not there any more",))
        # of another table's state nothing follows for the files of this one, which may live on under another name
        check_same_table(before.table_uuid, fresh.metadata.table_uuid, pointer.name)
        files = unreachable_files(fresh, before, gone, pointer.storage, executor=executor)
        return _delete(files, owned_folders(fresh.metadata), pointer.storage)
    except (FloeError, OSError) as error:
        return Removal(notes=(f"no file was deleted, for not all could be read: {error}",))


def unreachable_files(
    fresh: TableState,
    before: TableMetadata,
    gone: Iterable[Snapshot],
    storage: Storage,
    *,
    executor: Executor | None = None,
) -> dict[FileKind, PathSet]:
    """The files that snapshots which are gone reached, and that nothing in the table's fresh state reaches, by kind."""
    kept = fresh.metadata.snapshots
    lost = [snapshot for snapshot in gone if snapshot.snapshot_id not in fresh.metadata.snapshots_by_id]
    kept_manifests = list(listed_manifests(kept, storage, executor=executor))
    kept_names = {canonical(manifest.manifest_path) for manifest in kept_manifests}
    lost_manifests = [
        manifest
        for manifest in listed_manifests(lost, storage, executor=executor)
        if canonical(manifest.manifest_path) not in kept_names
    ]
    candidates = _Candidates()
    candidates.add(FileBatch.of(FileKind.MANIFEST_LIST, [s.manifest_list for s in lost if s.manifest_list is not None]))
    candidates.add(FileBatch.of(FileKind.MANIFEST, [manifest.manifest_path for manifest in lost_manifests]))
    candidates.add_all(statistics_batches(before, {snapshot.snapshot_id for snapshot in lost}))
    candidates.add_all(file_batches(lost_manifests, storage, executor=executor))
    for batch in _reached(fresh, kept_manifests, storage, executor):
        candidates.remove(batch)
    return candidates.by_kind


def _reached(
    fresh: TableState, manifests: Sequence[ManifestFile], storage: Storage, executor: Executor | None
) -> Iterator[FileBatch]:
    """All that the fresh state reaches; a file is needed whatever it is needed as."""
    metadata = fresh.metadata
    snapshots = metadata.snapshots
    yield FileBatch.of(FileKind.METADATA, [fresh.location, *(entry.metadata_file for entry in metadata.metadata_log)])
    yield FileBatch.of(FileKind.MANIFEST_LIST, [s.manifest_list for s in snapshots if s.manifest_list is not None])
    yield FileBatch.of(FileKind.MANIFEST, [manifest.manifest_path for manifest in manifests])
    yield FileBatch.of(FileKind.STATISTICS, [file.statistics_path for file in metadata.statistics])
    yield FileBatch.of(FileKind.PARTITION_STATISTICS, [file.statistics_path for file in metadata.partition_statistics])
    yield from file_batches(manifests, storage, executor=executor)


class _Candidates:
    """Files that may be deleted, by kind."""

    def __init__(self) -> None:
        self.by_kind: dict[FileKind, PathSet] = {}

    def add(self, batch: FileBatch) -> None:
        if len(batch):
            self.by_kind.setdefault(batch.kind, PathSet()).add(batch.texts())

    def add_all(self, batches: Iterable[FileBatch]) -> None:
        for batch in batches:
            self.add(batch)

    def remove(self, batch: FileBatch) -> None:
        hashes = name_hashes(batch.paths)
        for paths in self.by_kind.values():
            paths.remove(paths.found_in(batch.paths, hashes))


def _delete(files: Mapping[FileKind, PathSet], folders: Sequence[str], storage: Storage) -> Removal:
    """Data first and lists last: if it is interrupted, what is left still tells what it was."""
    deleted: dict[FileKind, int] = {}
    failed: list[str] = []
    elsewhere: list[str] = []
    for kind in FileKind:
        paths = list(files.get(kind, ()))
        own = [path for path in paths if any(is_below(path, folder) for folder in folders)]
        elsewhere += [path for path in paths if path not in set(own)] if len(own) < len(paths) else []
        outcomes = storage.delete_many(own) if own else []
        failed += [outcome.location for outcome in outcomes if not outcome.deleted]
        count = sum(outcome.deleted for outcome in outcomes)
        if count:
            deleted[kind] = count
    notes = []
    if failed:
        notes.append(f"{len(failed)} files could not be deleted; nothing needs them, and orphan removal finds them")
    if elsewhere:
        notes.append(f"{len(elsewhere)} files were kept, for they lie outside the table's folders")
    return Removal(deleted, tuple(failed), tuple(elsewhere), tuple(notes))
