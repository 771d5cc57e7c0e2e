"""Cherry-picks: applying the changes of a snapshot to the head of a branch, and publishing staged snapshots.

If the parent of the snapshot is the head, the branch is moved to the snapshot, and no new one is created. Otherwise
only two kinds of snapshots can be picked, as in Java Iceberg: those that only added data files, and those that replaced
partitions which no commit has changed since.

A snapshot is not picked twice. If a part of the branch's history has expired, so that it is not known whether the
branch has the snapshot, a pick is refused: rows that were compacted since are in other files, and would be added again.

Write, audit, publish: a change that is `staged` with a `wap.id` in its summary is on no branch. `PublishWap` finds the
snapshot by that id and picks it, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Unpack

from floe.avro.manifest_reader import read_snapshot_manifests
from floe.commit.change import BLIND, Attempt, Reads, Writes
from floe.commit.conflicts.concurrent_commits import SnapshotChanges
from floe.commit.manifests.added_files import AddedFiles
from floe.commit.manifests.file_sets import PartitionSet
from floe.commit.manifests.manifest_files import Workspace
from floe.commit.operations.file_change import FileChange, FileExchange
from floe.commit.operations.snapshot_change import SnapshotDraft, SnapshotOptions, branch_at, branch_head
from floe.errors import ConflictingChange, InvalidUpdate, NoSuchSnapshot
from floe.spec.manifests.entries import DataFile, ManifestFile
from floe.spec.metadata import snapshots
from floe.spec.metadata.ancestry import ancestors, unknown_before
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import SetSnapshotRef, TableUpdate

_SHOWN: Final = 12


class CherryPick(FileChange):
    """Applies the changes of a snapshot to the head of a branch.

    >>> CherryPick(30, branch="main")
    <CherryPick on main: snapshot 30>
    """

    def __init__(self, snapshot_id: int, **options: Unpack[SnapshotOptions]) -> None:
        super().__init__(AddedFiles(), **options)
        self._source_id: int | None = snapshot_id
        self._picked: Snapshot | None = None
        self._partitions: PartitionSet | None = None
        self._forwarded = False
        self._wap_id: str | None = None
        self._oldest_known: Snapshot | None = None  # of a history that has expired in part, and may have the snapshot

    def describe(self) -> str:
        """The id of the snapshot."""
        return f"snapshot {self._source_id}"

    def find(self, metadata: TableMetadata) -> Snapshot:
        """The snapshot to pick."""
        assert self._source_id is not None
        return metadata.snapshot(self._source_id)

    # attempts -------------------------------------------------------------------------------------------------------

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """Move the branch to the snapshot if its parent is the head; else create a new one with its changes."""
        metadata = attempt.metadata
        source = self.find(metadata)
        head = branch_head(metadata, self._target, create=self._create_branch)
        if self._is_done(metadata, head, source):
            return ()
        wap_id = _check_unpublished(metadata, head, source)
        if not self._staged and source.parent_snapshot_id == (None if head is None else head.snapshot_id):
            self._forwarded = True
            return (SetSnapshotRef(self._target, branch_at(metadata, self._target, source.snapshot_id)),)
        self._prepare(attempt, source)
        self._wap_id = wap_id
        self._oldest_known = unknown_before(metadata, None if head is None else head.snapshot_id, source.snapshot_id)
        return super().updates(attempt)

    def _is_done(self, metadata: TableMetadata, head: Snapshot | None, source: Snapshot) -> bool:
        """Whether an earlier attempt has moved the branch to the snapshot, and its answer was lost."""
        history = ancestors(metadata, None if head is None else head.snapshot_id)
        for ancestor in history:
            if ancestor.snapshot_id == source.snapshot_id:
                if self._forwarded:
                    return True
                raise InvalidUpdate(
                    f"snapshot {source.snapshot_id} is in the history of {self._target!r} already", ref=self._target
                )
            if (ancestor.summary or {}).get(snapshots.SOURCE_SNAPSHOT_ID) == str(source.snapshot_id):
                raise InvalidUpdate(
                    f"snapshot {source.snapshot_id} was picked before, as snapshot {ancestor.snapshot_id}",
                    ref=self._target,
                )
        return False

    def _prepare(self, attempt: Attempt, source: Snapshot) -> None:
        """Read the changes of the snapshot, on the first attempt; raises if they cannot be picked."""
        if self._picked is not None and self._picked.snapshot_id == source.snapshot_id:
            return
        changes = self._read_changes(attempt, source)
        added = [file for entries in changes.added_data for file in entries.files()]
        removed = [file for entries in changes.removed_data for file in entries.files()]
        if not _can_be_picked(source, changes):
            raise ConflictingChange(
                f"snapshot {source.snapshot_id} ({source.operation}) can only be picked if its parent is the head: it "
                "is neither an append nor a replacement of partitions",
                hint="repeat the change on the branch",
                snapshot=source.snapshot_id,
            )
        self._picked = source
        self._written_with = source.schema_id if source.schema_id in attempt.metadata.schemas_by_id else None
        self._declared = FileExchange(AddedFiles.of(added), tuple(removed))
        replaces = source.operation == "overwrite"
        self._partitions = PartitionSet.of_files([*added, *removed]) if replaces else None
        self.reads = Reads(source.parent_snapshot_id) if replaces else BLIND

    def _read_changes(self, attempt: Attempt, source: Snapshot) -> SnapshotChanges:
        written = [
            manifest
            for manifest in read_snapshot_manifests(source, attempt.storage)
            if manifest.added_snapshot_id in (None, source.snapshot_id)
        ]
        (changes,) = self._snapshot_cache.changes([(source, written)], attempt.metadata, attempt.storage)
        return changes

    # the snapshot ---------------------------------------------------------------------------------------------------

    def writes(self, workspace: Workspace) -> Writes:
        """The files of the snapshot, and the partitions that it replaced, which no commit may have changed since."""
        writes = super().writes(workspace)
        if self._partitions is None:
            return writes
        by_spec = self._partitions.tuples
        partitions = frozenset((spec_id, values) for spec_id, tuples in by_spec.items() for values in tuples)
        return replace(writes, partitions=partitions)

    def check_added(self, workspace: Workspace, manifests: Sequence[ManifestFile], added: AddedFiles) -> None:
        """Raise if the branch has a file of the snapshot, or may have had it in an expired part of its history."""
        assert self._picked is not None
        snapshot_id = self._picked.snapshot_id
        try:
            super().check_added(workspace, manifests, added)
        except (ConflictingChange, InvalidUpdate) as error:
            raise type(error)(
                f"snapshot {snapshot_id} is in {self._target!r} already: the branch has a file that it added",
                hint="there is nothing to pick",
                **{**error.context, "snapshot": snapshot_id},
            ) from error
        if self._oldest_known is not None:
            raise InvalidUpdate(
                f"it is not known whether snapshot {snapshot_id} is in {self._target!r} already: the history of the "
                f"branch is known only down to snapshot {self._oldest_known.snapshot_id}, what came before has expired"
                "; if its rows were rewritten to other files since, they would be added twice",
                hint="check whether the branch has the rows; if not, add the files with `append_files`",
                snapshot=snapshot_id,
            )

    def draft(self, workspace: Workspace, parent: Snapshot | None) -> SnapshotDraft:
        """The draft, with the source snapshot and its WAP id in the summary."""
        draft = super().draft(workspace, parent)
        assert self._picked is not None
        draft.summary.set(snapshots.SOURCE_SNAPSHOT_ID, self._picked.snapshot_id)
        if self._wap_id:
            draft.summary.set(snapshots.PUBLISHED_WAP_ID, self._wap_id)
        if self._partitions is not None:
            draft.summary.set(snapshots.REPLACE_PARTITIONS, "true")
        return draft

    def operation(self, added: AddedFiles, removed: Sequence[DataFile]) -> str:
        """The operation of the picked snapshot."""
        return "append" if self._partitions is None else "overwrite"


class PublishWap(CherryPick):
    """Publishes the snapshot that was staged with a `wap.id`.

    >>> PublishWap("audit-7")
    <PublishWap on main: WAP id 'audit-7'>
    """

    def __init__(self, wap_id: str, **options: Unpack[SnapshotOptions]) -> None:
        super().__init__(0, **options)
        self._requested_wap_id = wap_id

    def describe(self) -> str:
        """The WAP id."""
        return f"WAP id {self._requested_wap_id!r}"

    def find(self, metadata: TableMetadata) -> Snapshot:
        """The snapshot with the WAP id; raises if there is none, or more than one."""
        wap_id = self._requested_wap_id
        staged = [snapshot for snapshot in metadata.snapshots if _wap_id(snapshot) == wap_id]
        if not staged:
            wap_ids = sorted({other for snapshot in metadata.snapshots if (other := _wap_id(snapshot))})
            raise NoSuchSnapshot(
                f"no snapshot was staged with WAP id {wap_id!r}",
                hint=f"there are {', '.join(wap_ids[:_SHOWN])}" if wap_ids else "no snapshot has a WAP id",
            )
        if len(staged) > 1:
            ids = ", ".join(str(snapshot.snapshot_id) for snapshot in staged[:_SHOWN])
            raise InvalidUpdate(
                f"{len(staged)} snapshots were staged with WAP id {wap_id!r}: {ids}",
                hint="pick one of them by its snapshot id",
            )
        return staged[0]


def _can_be_picked(source: Snapshot, changes: SnapshotChanges) -> bool:
    if changes.added_deletes or changes.removed_deletes:
        return False
    if source.operation == "append":
        return not changes.removed_data
    return source.operation == "overwrite" and (source.summary or {}).get(snapshots.REPLACE_PARTITIONS) == "true"


def _wap_id(snapshot: Snapshot) -> str | None:
    return (snapshot.summary or {}).get(snapshots.WAP_ID)


def _check_unpublished(metadata: TableMetadata, head: Snapshot | None, source: Snapshot) -> str | None:
    """The WAP id of a snapshot; raises if one with that id was published on the branch before."""
    wap_id = _wap_id(source)
    if not wap_id:
        return None
    for ancestor in ancestors(metadata, None if head is None else head.snapshot_id):
        if wap_id in (_wap_id(ancestor), (ancestor.summary or {}).get(snapshots.PUBLISHED_WAP_ID)):
            raise InvalidUpdate(f"WAP id {wap_id!r} was published before, as snapshot {ancestor.snapshot_id}")
    return wap_id
