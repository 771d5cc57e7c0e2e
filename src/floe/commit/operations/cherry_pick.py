"""Making the changes of a snapshot on the head of a branch: publishing what was staged, or taking over a commit.

A snapshot that was made right upon the head becomes the head itself, and no new one is made. Otherwise only two kinds
can be made again elsewhere, as in Java Iceberg: one that only added data files, and one that replaced partitions which
nobody has touched since.

What a branch has already is not picked again. Where expiry has cut its history, so that this cannot be told, a pick is
refused: rows that were compacted since are in other files, and would be there twice.

Write, audit, publish: a change that is `staged` with a `wap.id` in its summary is on no branch. `PublishWap` finds it
by that id and picks it, once.
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
    """Makes the changes of a snapshot on the head of a branch.

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
        self._known_from: Snapshot | None = None  # the branch may have picked it before that

    def describe(self) -> str:
        """The change in a few words."""
        return f"snapshot {self._source_id}"

    def find(self, metadata: TableMetadata) -> Snapshot:
        """The snapshot to be picked."""
        assert self._source_id is not None
        return metadata.snapshot(self._source_id)

    # attempts -------------------------------------------------------------------------------------------------------

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """Moves the branch to the snapshot if that is all it takes; else makes a new one with its changes."""
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
        self._known_from = unknown_before(metadata, None if head is None else head.snapshot_id, source.snapshot_id)
        return super().updates(attempt)

    def _is_done(self, metadata: TableMetadata, head: Snapshot | None, source: Snapshot) -> bool:
        """Whether the branch has the snapshot because an earlier attempt moved it there, though its answer was lost."""
        history = ancestors(metadata, None if head is None else head.snapshot_id)
        for one in history:
            if one.snapshot_id == source.snapshot_id:
                if self._forwarded:
                    return True
                raise InvalidUpdate(
                    f"snapshot {source.snapshot_id} is in the history of {self._target!r} already", ref=self._target
                )
            if (one.summary or {}).get(snapshots.SOURCE_SNAPSHOT_ID) == str(source.snapshot_id):
                raise InvalidUpdate(
                    f"snapshot {source.snapshot_id} was picked before, as {one.snapshot_id}", ref=self._target
                )
        return False

    def _prepare(self, attempt: Attempt, source: Snapshot) -> None:
        """Finds out, once, what the snapshot did: it never changes."""
        if self._picked is not None and self._picked.snapshot_id == source.snapshot_id:
            return
        facts = self._facts(attempt, source)
        added = [file for entries in facts.added_data for file in entries.files()]
        removed = [file for entries in facts.removed_data for file in entries.files()]
        if not _can_be_picked(source, facts):
            raise ConflictingChange(
                f"snapshot {source.snapshot_id} ({source.operation}) can only be picked right upon its parent: it is "
                "neither an append nor a replacement of partitions",
                hint="make the change again on the branch",
                snapshot=source.snapshot_id,
            )
        self._picked = source
        self._written_with = source.schema_id if source.schema_id in attempt.metadata.schemas_by_id else None
        self._declared = FileExchange(AddedFiles.of(added), tuple(removed))
        replaces = source.operation == "overwrite"
        self._partitions = PartitionSet.of_files([*added, *removed]) if replaces else None
        self.reads = Reads(source.parent_snapshot_id) if replaces else BLIND

    def _facts(self, attempt: Attempt, source: Snapshot) -> SnapshotChanges:
        own = [
            manifest
            for manifest in read_snapshot_manifests(source, attempt.storage)
            if manifest.added_snapshot_id in (None, source.snapshot_id)
        ]
        (facts,) = self._memory.facts([(source, own)], attempt.metadata, attempt.storage)
        return facts

    # the snapshot ---------------------------------------------------------------------------------------------------

    def writes(self, workspace: Workspace) -> Writes:
        """What the snapshot did; the partitions that it replaced must have nothing new in them."""
        found = super().writes(workspace)
        if self._partitions is None:
            return found
        tuples = self._partitions.tuples
        pairs = frozenset((spec_id, one) for spec_id, some in tuples.items() for one in some)
        return replace(found, partitions=pairs)

    def check_added(self, workspace: Workspace, manifests: Sequence[ManifestFile], added: AddedFiles) -> None:
        """Raises if the branch has the snapshot's files, or may have had them before its history was cut."""
        assert self._picked is not None
        snapshot_id = self._picked.snapshot_id
        try:
            super().check_added(workspace, manifests, added)
        except (ConflictingChange, InvalidUpdate) as error:
            raise type(error)(
                f"snapshot {snapshot_id} is in {self._target!r} already: the branch holds a file that it added",
                hint="there is nothing to pick",
                **{**error.context, "snapshot": snapshot_id},
            ) from error
        if self._known_from is not None:
            raise InvalidUpdate(
                f"it cannot be told whether snapshot {snapshot_id} is in {self._target!r} already: the history of the "
                f"branch is known only down to snapshot {self._known_from.snapshot_id}, what came before has expired; "
                "if the rows were written to other files since, they would be there twice",
                hint="look whether the branch has the rows; if it has not, add the files with `append_files`",
                snapshot=snapshot_id,
            )

    def draft(self, workspace: Workspace, parent: Snapshot | None) -> SnapshotDraft:
        """As every change of files, with a note where it comes from."""
        draft = super().draft(workspace, parent)
        assert self._picked is not None
        draft.summary.set(snapshots.SOURCE_SNAPSHOT_ID, self._picked.snapshot_id)
        if self._wap_id:
            draft.summary.set(snapshots.PUBLISHED_WAP_ID, self._wap_id)
        if self._partitions is not None:
            draft.summary.set(snapshots.REPLACE_PARTITIONS, "true")
        return draft

    def operation(self, added: AddedFiles, removed: Sequence[DataFile]) -> str:
        """As the snapshot's own."""
        return "append" if self._partitions is None else "overwrite"


class PublishWap(CherryPick):
    """Publishes the snapshot that was staged with a `wap.id`.

    >>> PublishWap("audit-7")
    <PublishWap on main: WAP id 'audit-7'>
    """

    def __init__(self, wap_id: str, **options: Unpack[SnapshotOptions]) -> None:
        super().__init__(0, **options)
        self._sought = wap_id

    def describe(self) -> str:
        """The change in a few words."""
        return f"WAP id {self._sought!r}"

    def find(self, metadata: TableMetadata) -> Snapshot:
        """The one snapshot with that id."""
        found = [one for one in metadata.snapshots if _wap_id(one) == self._sought]
        if not found:
            staged = sorted({wap_id for one in metadata.snapshots if (wap_id := _wap_id(one))})
            raise NoSuchSnapshot(
                f"no snapshot was staged with WAP id {self._sought!r}",
                hint=f"there are {', '.join(staged[:_SHOWN])}" if staged else "no snapshot has a WAP id",
            )
        if len(found) > 1:
            ids = ", ".join(str(one.snapshot_id) for one in found[:_SHOWN])
            raise InvalidUpdate(
                f"{len(found)} snapshots were staged with WAP id {self._sought!r}: {ids}",
                hint="pick one of them by its snapshot id",
            )
        return found[0]


def _can_be_picked(source: Snapshot, facts: SnapshotChanges) -> bool:
    if facts.added_deletes or facts.removed_deletes:
        return False
    if source.operation == "append":
        return not facts.removed_data
    return source.operation == "overwrite" and (source.summary or {}).get(snapshots.REPLACE_PARTITIONS) == "true"


def _wap_id(snapshot: Snapshot) -> str | None:
    return (snapshot.summary or {}).get(snapshots.WAP_ID)


def _check_unpublished(metadata: TableMetadata, head: Snapshot | None, source: Snapshot) -> str | None:
    """The WAP id of a snapshot, which must not have been published on the branch before."""
    wap_id = _wap_id(source)
    if not wap_id:
        return None
    for one in ancestors(metadata, None if head is None else head.snapshot_id):
        if wap_id in (_wap_id(one), (one.summary or {}).get(snapshots.PUBLISHED_WAP_ID)):
            raise InvalidUpdate(f"WAP id {wap_id!r} was published before, as snapshot {one.snapshot_id}")
    return wap_id
