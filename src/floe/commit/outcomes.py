"""The outcome of a commit: how it is found in a table, and which of its files are deleted.

The answer of a swap is not reliable. A commit that was answered with a conflict, or not at all, may have been
published, and others may have built on it. So before anything is retried or deleted, the table is loaded and the commit
is searched in it:

| found | outcome |
|---|---|
| its snapshot, in the history of its branch | published; the branch stays where it is, with what others added since |
| its snapshot, but not in the history of the branch | published, and rolled back since: reported, not repeated |
| its snapshot id as the parent of another snapshot | published, and expired since |
| the uuid of the table that it creates | published |
| its metadata file in the metadata log | published |
| none of these, and the swap has ended | not published |
| none of these, and the swap may still arrive | unknown: nothing is deleted, nothing is sent again |

A file that the commit wrote is deleted only if the table was loaded after the outcome was known, and nothing in it
refers to the file. In doubt, and after any error while reading, all files are kept: unused files are found by orphan
removal, but a needed file would be lost. Deleting never raises, because the outcome of the commit is decided already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from floe.avro.manifest_reader import read_snapshot_manifests
from floe.commit.change import COMMIT_ID, BranchChange, Change, CreatingChange, KeyedChange, TidyChange, WritingChange
from floe.commit.manifests.file_sets import PathSet
from floe.commit.pointer import Outcome, Pointer, Proposal, TableState
from floe.commit.reachability import file_batches, reachable_among
from floe.commit.retry import combine_policies, retry_policy
from floe.commit.roots import owned_folders
from floe.errors import CommitStateUnknown, CorruptFile, FloeError, NoSuchFile, StorageError, UnsupportedFeature
from floe.formats.puffin import PuffinReader
from floe.spec.codecs.puffin import DELETION_VECTOR
from floe.spec.metadata.ancestry import is_ancestor_of, unknown_before
from floe.spec.metadata.file_names import parse_metadata_file_name
from floe.spec.metadata.snapshots import MAIN_BRANCH, Snapshot
from floe.spec.metadata.table_metadata import TableMetadata, is_same_uuid
from floe.spec.properties import COMMIT_STATUS_CHECK
from floe.storage.environment import Environment
from floe.storage.locations import canonical, is_below, same_file
from floe.storage.protocol import Storage


class CommitStatus(Enum):
    """How a commit ended."""

    PUBLISHED = "published"
    """This call published the changes."""

    FOUND = "found"
    """An earlier attempt had published them, though its answer was lost or said otherwise."""

    ROLLED_BACK = "rolled back"
    """They were published before, and have been rolled back since; they were not applied again."""

    UNCHANGED = "unchanged"
    """The changes had no effect."""


@dataclass(frozen=True, eq=False, slots=True)
class Committed(TableState):
    """The table's state after a commit, and how the commit ended."""

    status: CommitStatus = CommitStatus.PUBLISHED
    attempts: int = 1
    notes: tuple[str, ...] = ()
    """Messages for users, such as cleanup that failed; the commit has succeeded all the same."""


# Search of a commit -----------------------------------------------------------------------------------------------


def find_commit(metadata: TableMetadata, changes: Iterable[Change]) -> CommitStatus | None:
    """The status of a commit in a table's metadata; None if it is not there.

    It is enough to find one of the changes, because all are published together or none.
    """
    statuses = [status for change in changes if (status := _find_change(metadata, change)) is not None]
    if CommitStatus.ROLLED_BACK in statuses:
        return CommitStatus.ROLLED_BACK
    return statuses[0] if statuses else None


def _find_change(metadata: TableMetadata, change: Change) -> CommitStatus | None:
    if isinstance(change, CreatingChange) and (metadata.table_uuid or "").lower() == change.table_uuid.lower():
        return CommitStatus.FOUND
    if not isinstance(change, KeyedChange) or not change.commit_id:
        return None  # it has no key before its first attempt
    snapshot = metadata.snapshots_by_id.get(change.snapshot_id)
    if snapshot is None:
        # An expired snapshot is still the parent of others.
        is_parent = any(other.parent_snapshot_id == change.snapshot_id for other in metadata.snapshots)
        return CommitStatus.FOUND if is_parent else None
    if (snapshot.summary or {}).get(COMMIT_ID) != change.commit_id:
        return None  # a snapshot of another commit with the same id
    return CommitStatus.FOUND if _is_in_history(metadata, change) else CommitStatus.ROLLED_BACK


def _is_in_history(metadata: TableMetadata, change: KeyedChange) -> bool:
    """Whether the snapshot of a change is in the history of its branch, or may be in a part that has expired."""
    branch = change.branch if isinstance(change, BranchChange) else MAIN_BRANCH
    if branch is None:
        return True  # staged: on no branch
    ref = metadata.refs.get(branch)
    if ref is None:
        return False
    return (
        is_ancestor_of(metadata, change.snapshot_id, ref.snapshot_id)
        or unknown_before(metadata, ref.snapshot_id, change.snapshot_id) is not None
    )


def names_metadata_file(state: TableState, location: str) -> bool:
    """Whether a metadata file is the current one of a table, or in its metadata log."""
    locations = (state.location, *(entry.metadata_file for entry in state.metadata.metadata_log))
    return any(same_file(logged, location) for logged in locations)


def is_published(proposal: Proposal, state: TableState | None) -> bool:
    """Whether a proposal that was answered with a conflict was published all the same, given the table's state now.

    A file name with a uuid can only be that of this proposal. One without it, as in file-system tables, may be that of
    another commit which came first, so the pointer compares the content of the file.
    """
    if state is None or not names_metadata_file(state, proposal.location):
        return False
    name = parse_metadata_file_name(proposal.location)
    if name is not None and name.uuid is not None:
        return True
    try:
        return proposal.pointer.settle(proposal) is Outcome.PUBLISHED
    except FloeError:
        return False


# Lost answers -----------------------------------------------------------------------------------------------------


def resolve_outcome(
    proposals: Sequence[Proposal], settle: Callable[[Sequence[Proposal]], Outcome], environment: Environment
) -> Outcome:
    """The outcome of a swap whose answer was lost, with the retries of the tables' `commit.status-check.*`."""
    policy = combine_policies(retry_policy(proposal.metadata.properties, COMMIT_STATUS_CHECK) for proposal in proposals)
    started_ms = environment.clock.now_ms()
    attempts = 0
    while True:
        attempts += 1
        try:
            outcome = settle(proposals)
        except FloeError:
            outcome = Outcome.UNKNOWN
        if outcome is not Outcome.UNKNOWN:
            return outcome
        elapsed_ms = environment.clock.now_ms() - started_ms
        if not policy.wait(attempts, elapsed_ms, environment.random, environment.sleep):
            return outcome


# Error messages ---------------------------------------------------------------------------------------------------


def format_commit_keys(changes: Iterable[Change]) -> str:
    """The keys of changes, for messages."""
    keys = [_key_text(change) for change in changes]
    return ", ".join(key for key in keys if key)


def _key_text(change: Change) -> str:
    if isinstance(change, KeyedChange) and change.commit_id:
        return f"snapshot {change.snapshot_id} with {COMMIT_ID} {change.commit_id}"
    return f"table uuid {change.table_uuid}" if isinstance(change, CreatingChange) else ""


def unknown_state_error(proposals: Sequence[Proposal], changes: Iterable[Change]) -> CommitStateUnknown:
    """The error for a commit with an unknown outcome, which says what to look for in the table."""
    tables = ", ".join(proposal.pointer.name for proposal in proposals)
    files = ", ".join(proposal.location for proposal in proposals)
    keys = format_commit_keys(changes)
    look_for = f"{keys}, or the metadata file" if keys else "the metadata file"
    return CommitStateUnknown(
        "the change may have been published or not: the answer was lost, and the table could not tell; no file was "
        "deleted",
        hint=f"when the table can be read again look for {look_for}; if it is there the change is committed, and if "
        "the table has newer commits without it, the change can be repeated",
        table=tables,
        commit=keys or None,
        metadata=files,
    )


# Cleanup --------------------------------------------------------------------------------------------------------------


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
