"""Removing what a commit wrote and does not need: only what a later read proves to be unreachable.

A file is deleted when the table was read after the outcome was known, and nothing that was read leads to the file. Any
doubt, above all any error while reading, keeps every file: what is left over is found by orphan removal, what is
deleted wrongly is lost. Nothing here raises, for the commit it follows has its outcome already.
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
    pointer: Pointer, changes: Sequence[Change], published: TableState, *, doubtful: bool = False
) -> list[str]:
    """Removes what earlier attempts of published changes wrote; gives notes of what could not be removed.

    What the published snapshots refer to is read from their manifest lists, which say what they and all that was
    built upon them can know of the changes' files. It is `doubtful` which attempt was published when it was found
    later; then what the last one used is looked at too, and the manifests are read for the files that they name
    (merged deletion vectors are written by the commit itself).
    """
    candidates = _needless(changes, doubtful)
    if not candidates:
        return []
    try:
        fresh = pointer.load()
        if fresh is None or not is_same_uuid(published.metadata.table_uuid, fresh.metadata.table_uuid):
            return []
        kept = {canonical(s.manifest_list) for s in fresh.metadata.snapshots if s.manifest_list is not None}
        for change in changes:
            if isinstance(change, KeyedChange):
                snapshot = published.metadata.snapshots_by_id.get(change.snapshot_id)
                if snapshot is not None:
                    kept |= _files_of(snapshot, pointer.storage, candidates if doubtful else ())
                elif doubtful:
                    return []  # it was published, and expired: what was built upon it may have its manifests
        return _delete([file for file in candidates if canonical(file) not in kept], pointer.storage)
    except (FloeError, OSError) as error:
        return [f"{len(candidates)} needless metadata files were kept, for not all could be read: {error}"]


def clean_replaced(proposal: Proposal) -> list[str]:
    """Removes the statistics files that a published proposal put out of use; gives notes of what could not be removed.

    Statistics of a snapshot that is still there were replaced or forgotten, and nothing else will ever look for the
    file. It is deleted if it lies in the table's folders, the table as it is now does not name it, and it cannot be
    anything else: a Puffin file without deletion vectors is of use as statistics only, and files of partition
    statistics, which look like data files, are looked for among all files. Files of expired snapshots are expiry's.
    """
    if proposal.base is None:
        return []
    before, after = proposal.base.metadata, proposal.state.metadata
    if before.statistics == after.statistics and before.partition_statistics == after.partition_statistics:
        return []
    pointer, kept = proposal.pointer, after.snapshots_by_id
    tables = {one.statistics_path for one in before.statistics if one.snapshot_id in kept}
    partitions = {one.statistics_path for one in before.partition_statistics if one.snapshot_id in kept}
    try:
        fresh = pointer.load()
        if fresh is None or not is_same_uuid(after.table_uuid, fresh.metadata.table_uuid):
            return []
        named = {canonical(one.statistics_path) for one in fresh.metadata.statistics}
        named |= {canonical(one.statistics_path) for one in fresh.metadata.partition_statistics}
        folders = owned_folders(fresh.metadata)
        gone = [
            path
            for path in sorted(tables | partitions)
            if canonical(path) not in named and any(is_below(path, folder) for folder in folders)
        ]
        puffin = {path for path in gone if path in tables and _is_only_statistics(path, pointer.storage)}
        others = [path for path in gone if path in partitions and path not in puffin]
        reached = reachable_among(fresh.metadata, others, pointer.storage) if others else set()
        return _delete([*puffin, *(path for path in others if path not in reached)], pointer.storage)
    except (FloeError, OSError) as error:
        return [f"replaced statistics files were kept, for not all could be read: {error}"]


def _is_only_statistics(path: str, storage: Storage) -> bool:
    """Whether a file can be nothing but statistics; one that is gone, or no Puffin file, cannot be told."""
    try:
        return all(blob.type != DELETION_VECTOR for blob in PuffinReader(storage, path).blobs)
    except (CorruptFile, NoSuchFile, UnsupportedFeature):
        return False


def clean_failed(
    pointer: Pointer, changes: Sequence[Change], fresh: TableState | None, *, older: Collection[int] = ()
) -> list[str]:
    """Removes what changes wrote that are known not to be published.

    `fresh` is the table's state, read after the outcome was known, or None if the table was to be created and is not
    there. Each file is checked against it once more: against all snapshots but those that are `older` than the changes
    and cannot know of them.
    """
    if fresh is not None and find_commit(fresh.metadata, changes) is not None:
        return []
    tidy = [change for change in changes if isinstance(change, TidyChange)]
    gone = [file for change in tidy for file in change.written()]
    if not gone:
        return []
    try:
        names = set(map(canonical, gone))
        for snapshot in () if fresh is None else fresh.metadata.snapshots:
            if snapshot.snapshot_id not in older and names & _files_of(snapshot, pointer.storage):
                return []  # published after all and expired since; what was built upon it needs the files
        for change in tidy:
            change.forget(gone)
        return _delete(gone, pointer.storage)
    except (FloeError, OSError) as error:
        return [f"metadata files of the failed commit were kept: {error}"]


def discard_absent(proposals: Iterable[Proposal], fresh: Callable[[Proposal], TableState | None]) -> None:
    """Discards proposals that are not published, as the table's fresh state shows: it does not name their files.

    A table that was there and is not found any more may have been given another name: that shows nothing.
    """
    for proposal in proposals:
        state = fresh(proposal)
        absent = proposal.base is None if state is None else not names_metadata_file(state, proposal.location)
        if absent:
            proposal.pointer.discard(proposal)


def delete_uncommitted(
    pointer: Pointer, changes: Sequence[Change], files: Collection[str], *, table_uuid: str | None = None
) -> list[str]:
    """Deletes data files that an engine wrote for changes that failed; gives those that were deleted.

    Called only when `commit` raised an error other than `CommitStateUnknown`. The table is read anew: if it is not
    that of `table_uuid` any more, or has the changes, or any of its snapshots reaches a file, or anything cannot be
    read, nothing is deleted. A table that was to be made, and is not there or is
    another one, has none of the files.
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


def _needless(changes: Iterable[Change], doubtful: bool) -> list[str]:
    found: dict[str, None] = {}
    for change in changes:
        if isinstance(change, TidyChange) and not doubtful:
            used = set(change.used())
            found.update((file, None) for file in change.written() if file not in used)
        elif isinstance(change, WritingChange):
            found.update(dict.fromkeys(change.written()))
    return list(found)


def _files_of(snapshot: Snapshot, storage: Storage, candidates: Sequence[str] = ()) -> set[str]:
    """The manifest list of a snapshot, the manifests in it and, of some files, those that its own manifests name.

    All by their canonical names.
    """
    manifests = read_snapshot_manifests(snapshot, storage)
    files = {canonical(manifest.manifest_path) for manifest in manifests}
    if snapshot.manifest_list is not None:
        files.add(canonical(snapshot.manifest_list))
    wanted = PathSet(file for file in candidates if canonical(file) not in files)
    own = [one for one in manifests if one.added_snapshot_id in (None, snapshot.snapshot_id)]
    for batch in file_batches(own, storage) if wanted else ():
        files.update(map(canonical, wanted.found_in(batch.paths)))
    return files


def _delete(files: Sequence[str], storage: Storage) -> list[str]:
    if not files:
        return []
    failed = [deletion for deletion in storage.delete_many(files) if not deletion.deleted]
    if not failed:
        return []
    first = failed[0].error or StorageError("the storage did not say why")
    return [f"{len(failed)} of {len(files)} needless metadata files could not be deleted: {first}"]
