"""Deleting the files that a commit wrote and does not need.

A file is deleted only if the table was loaded after the outcome of the commit was known, and nothing in it refers to
the file. In doubt, and after any error while reading, all files are kept: unused files are found by orphan removal, but
a needed file would be lost. Nothing here raises, because the outcome of the commit is decided already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from floe.avro.manifest_reader import read_snapshot_manifests
from floe.commit.change import Change, CreatingChange, KeyedChange, TidyChange, WritingChange
from floe.commit.manifests.file_sets import PathSet
from floe.commit.outcomes import find_commit, names_metadata_file
from floe.commit.pointer import Pointer, Proposal, TableState
from floe.commit.reachability import file_batches, reachable_among
from floe.commit.roots import owned_folders
from floe.errors import CorruptFile, FloeError, NoSuchFile, StorageError, UnsupportedFeature
from floe.formats.puffin import PuffinReader
from floe.spec.codecs.puffin import DELETION_VECTOR
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import is_same_uuid
from floe.storage.locations import canonical, is_below
from floe.storage.protocol import Storage


def clean_published(
    pointer: Pointer, changes: Sequence[Change], published: TableState, *, uncertain: bool = False
) -> list[str]:
    """Delete files of unsuccessful attempts of published changes; returns notes about files that could not be deleted.

    The files that the published snapshots refer to are read from their manifest lists; later snapshots cannot refer to
    other files of the changes. If it is `uncertain` which attempt was published, because the commit was found later,
    the files of the last attempt are candidates too, and the manifests are read for the files that they list (a commit
    writes merged deletion vectors itself).
    """
    candidates = _unused_files(changes, uncertain)
    if not candidates:
        return []
    try:
        fresh = pointer.load()
        if fresh is None or not is_same_uuid(published.metadata.table_uuid, fresh.metadata.table_uuid):
            return []
        needed = {canonical(s.manifest_list) for s in fresh.metadata.snapshots if s.manifest_list is not None}
        for change in changes:
            if isinstance(change, KeyedChange):
                snapshot = published.metadata.snapshots_by_id.get(change.snapshot_id)
                if snapshot is not None:
                    needed |= _files_of(snapshot, pointer.storage, candidates if uncertain else ())
                elif uncertain:
                    return []  # it was published and has expired: its descendants may have its manifests
        return _delete([file for file in candidates if canonical(file) not in needed], pointer.storage)
    except (FloeError, OSError) as error:
        return [f"{len(candidates)} unused metadata files were kept, because not all could be read: {error}"]


def clean_replaced(proposal: Proposal) -> list[str]:
    """Delete the statistics files that a published proposal unregistered; returns notes about files that were kept.

    The files of existing snapshots are considered; those of expired ones are deleted by expiry. A file is deleted if it
    is in the table's folders, the table does not refer to it now, and it cannot be anything else: a Puffin file without
    deletion vectors can only be statistics, and files of partition statistics, which look like data files, are searched
    among all files of the table.
    """
    if proposal.base is None:
        return []
    before, after = proposal.base.metadata, proposal.state.metadata
    if before.statistics == after.statistics and before.partition_statistics == after.partition_statistics:
        return []
    pointer, remaining = proposal.pointer, after.snapshots_by_id
    tables = {file.statistics_path for file in before.statistics if file.snapshot_id in remaining}
    partitions = {file.statistics_path for file in before.partition_statistics if file.snapshot_id in remaining}
    try:
        fresh = pointer.load()
        if fresh is None or not is_same_uuid(after.table_uuid, fresh.metadata.table_uuid):
            return []
        registered = {canonical(file.statistics_path) for file in fresh.metadata.statistics}
        registered |= {canonical(file.statistics_path) for file in fresh.metadata.partition_statistics}
        folders = owned_folders(fresh.metadata)
        unregistered = [
            path
            for path in sorted(tables | partitions)
            if canonical(path) not in registered and any(is_below(path, folder) for folder in folders)
        ]
        puffin = {path for path in unregistered if path in tables and _is_only_statistics(path, pointer.storage)}
        partition_files = [path for path in unregistered if path in partitions and path not in puffin]
        reached = reachable_among(fresh.metadata, partition_files, pointer.storage) if partition_files else set()
        return _delete([*puffin, *(path for path in partition_files if path not in reached)], pointer.storage)
    except (FloeError, OSError) as error:
        return [f"replaced statistics files were kept, because not all metadata could be read: {error}"]


def _is_only_statistics(path: str, storage: Storage) -> bool:
    """Whether a file is a Puffin file without deletion vectors; False if it is missing, or another kind of file."""
    try:
        return all(blob.type != DELETION_VECTOR for blob in PuffinReader(storage, path).blobs)
    except (CorruptFile, NoSuchFile, UnsupportedFeature):
        return False


def clean_failed(
    pointer: Pointer, changes: Sequence[Change], fresh: TableState | None, *, older: Collection[int] = ()
) -> list[str]:
    """Delete the files of changes that are known not to be published; returns notes about files that were kept.

    `fresh` is the table's state, loaded after the outcome was known; None if the table was to be created and does not
    exist. Nothing is deleted if a snapshot refers to one of the files; snapshots that are `older` than the changes
    cannot.
    """
    if fresh is not None and find_commit(fresh.metadata, changes) is not None:
        return []
    tidy = [change for change in changes if isinstance(change, TidyChange)]
    written = [file for change in tidy for file in change.written()]
    if not written:
        return []
    try:
        paths = set(map(canonical, written))
        for snapshot in () if fresh is None else fresh.metadata.snapshots:
            if snapshot.snapshot_id not in older and paths & _files_of(snapshot, pointer.storage):
                return []  # published after all and expired since: its descendants need the files
        for change in tidy:
            change.forget(written)
        return _delete(written, pointer.storage)
    except (FloeError, OSError) as error:
        return [f"metadata files of the failed commit were kept: {error}"]


def discard_absent(proposals: Iterable[Proposal], fresh: Callable[[Proposal], TableState | None]) -> None:
    """Discard the proposals that are not published: the table's fresh state does not refer to their metadata files.

    If a table existed and does not any more, it may have been renamed, so nothing is discarded.
    """
    for proposal in proposals:
        state = fresh(proposal)
        absent = proposal.base is None if state is None else not names_metadata_file(state, proposal.location)
        if absent:
            proposal.pointer.discard(proposal)


def delete_uncommitted(
    pointer: Pointer, changes: Sequence[Change], files: Collection[str], *, table_uuid: str | None = None
) -> list[str]:
    """Delete data files that an engine wrote for changes that failed; returns those that were deleted.

    Must be called only if `commit` raised an error other than `CommitStateUnknown`. The table is loaded again. Nothing
    is deleted if it is another table than that of `table_uuid`, if it has the changes, if one of its snapshots reaches
    a file, or if anything cannot be read. If the table was to be created, and does not exist or is another one, it
    cannot have the files.
    """
    if not files:
        return []
    try:
        fresh = pointer.load()
        creating = any(isinstance(change, CreatingChange) for change in changes[:1])
        if fresh is None and not creating:
            return []
        if fresh is not None and find_commit(fresh.metadata, changes) is not None:
            return []
        if fresh is not None and not creating and not is_same_uuid(table_uuid, fresh.metadata.table_uuid):
            return []
        if fresh is not None and reachable_among(fresh.metadata, files, pointer.storage):
            return []
        return [deletion.location for deletion in pointer.storage.delete_many(files) if deletion.deleted]
    except (FloeError, OSError):
        return []


def _unused_files(changes: Iterable[Change], uncertain: bool) -> list[str]:
    """The files that the changes wrote and may not need; if it is uncertain which attempt was published, all files."""
    files: dict[str, None] = {}
    for change in changes:
        if isinstance(change, TidyChange) and not uncertain:
            used = set(change.used())
            files.update((file, None) for file in change.written() if file not in used)
        elif isinstance(change, WritingChange):
            files.update(dict.fromkeys(change.written()))
    return list(files)


def _files_of(snapshot: Snapshot, storage: Storage, candidates: Sequence[str] = ()) -> set[str]:
    """The canonical paths of a snapshot's manifest list and manifests, and of the candidates that it added."""
    manifests = read_snapshot_manifests(snapshot, storage)
    files = {canonical(manifest.manifest_path) for manifest in manifests}
    if snapshot.manifest_list is not None:
        files.add(canonical(snapshot.manifest_list))
    unseen = PathSet(file for file in candidates if canonical(file) not in files)
    written = [manifest for manifest in manifests if manifest.added_snapshot_id in (None, snapshot.snapshot_id)]
    for batch in file_batches(written, storage) if unseen else ():
        files.update(map(canonical, unseen.found_in(batch.paths)))
    return files


def _delete(files: Sequence[str], storage: Storage) -> list[str]:
    if not files:
        return []
    failed = [deletion for deletion in storage.delete_many(files) if not deletion.deleted]
    if not failed:
        return []
    first = failed[0].error or StorageError("the storage did not say why")
    return [f"{len(failed)} of {len(files)} unused metadata files could not be deleted: {first}"]
