"""The base of every change that makes a snapshot: its key, its manifest list, its summary, and where it becomes head.

An operation says what it read and writes, and makes the snapshot's manifests (`make`); the rest is the same for all.
Snapshot id and commit id are drawn at the first attempt and stay: a commit whose answer was lost is found by them. What
a first attempt wrote is used again by the next wherever its inputs are equal; the manifest list is always written anew.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypedDict, Unpack

import floe
from floe.commit.change import BLIND, COMMIT_ID, Attempt, Footprint, Isolation, Reads, Writes
from floe.commit.conflicts.change_index import VectorMerge
from floe.commit.conflicts.concurrent_commits import SnapshotCache
from floe.commit.conflicts.position_overlaps import PositionReader
from floe.commit.conflicts.rules import check
from floe.commit.manifests.added_files import AddedFiles, check_not_in_table
from floe.commit.manifests.manifest_files import CommitKey, Manifest, ManifestFiles, NewManifest, Workspace
from floe.commit.operations.snapshot_summary import SummaryBuilder, check_own_properties, properties_of_now
from floe.errors import InvalidUpdate, UnsupportedFeature
from floe.spec.manifests.entries import ManifestFile
from floe.spec.manifests.row_lineage import assign_first_row_ids
from floe.spec.metadata import snapshots
from floe.spec.metadata.ancestry import COMMITTED_WITH_PARENT
from floe.spec.metadata.snapshots import MAIN_BRANCH, Snapshot, SnapshotRef, new_snapshot_id
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import AddSnapshot, SetSnapshotRef, TableUpdate
from floe.spec.properties import ENCRYPTION_KEY


class SnapshotOptions(TypedDict, total=False):
    """What all operations that make a snapshot take, by keyword."""

    branch: str
    """The branch to commit to: `main`, or one that exists."""

    create_branch: bool
    """Whether the branch is made, from the current snapshot, if there is none of its name."""

    staged: bool
    """The snapshot becomes the head of no branch: to be audited, and published later (see `wap`)."""

    summary: Mapping[str, str]
    """Properties for the snapshot's summary, such as `wap.id`; counts cannot be set."""

    isolation: Isolation
    """How strictly it is kept apart from what others commit meanwhile."""

    fresh: bool
    """Whether the added files were written for this change, under names drawn for them: nobody can have added them
    before, so they are not looked for. Other files are, in all manifests: none comes to be there twice."""

    written_with: int
    """The id of the schema that the added files were written with."""

    read_positions: PositionReader
    """What looks into position delete files, to tell whether two changes of a file are of different rows."""

    keep_empty: bool
    """Whether a snapshot is made even if no file is added or removed."""

    executor: Executor
    """What reads and writes several manifests at once; without it they are taken one after the other."""


@dataclass(frozen=True, eq=False, slots=True)
class SnapshotDraft:
    """What an operation made of a snapshot's manifests."""

    operation: str
    manifests: Sequence[Manifest]
    summary: SummaryBuilder
    changed: bool = True
    """Whether any file was added, removed or moved to another manifest."""

    replaced: int = 0
    """How many manifests of the parent were written anew."""

    files: Sequence[str] = ()
    """Other files that the change wrote and the snapshot needs."""


class SnapshotChange(ABC):
    """A change that makes a snapshot. It can be attempted again and again, but committed once."""

    def __init__(self, *, reads: Reads = BLIND, **options: Unpack[SnapshotOptions]) -> None:
        self.reads = reads
        self.isolation = options.get("isolation", Isolation.SERIALIZABLE)
        self._target = options.get("branch", MAIN_BRANCH)
        self._create_branch = options.get("create_branch", False)
        self._staged = options.get("staged", False)
        self._own_summary = check_own_properties({**properties_of_now(), **options.get("summary", {})})
        self._fresh = options.get("fresh", False)
        self._written_with = options.get("written_with")
        self._keep_empty = options.get("keep_empty", False)
        self._executor = options.get("executor")
        self._read_positions = options.get("read_positions")
        self._memory = SnapshotCache(self._executor)
        self._files: ManifestFiles | None = None
        self._used: tuple[str, ...] = ()

    def __repr__(self) -> str:
        where = "staged" if self._staged else f"on {self._target}"
        return f"<{type(self).__name__} {where}: {self.describe()}>"

    # what an operation says ---------------------------------------------------------------------------------------

    @abstractmethod
    def describe(self) -> str:
        """The change in a few words."""

    @abstractmethod
    def writes(self, workspace: Workspace) -> Writes:
        """What the change does to the table."""

    @abstractmethod
    def draft(self, workspace: Workspace, parent: Snapshot | None) -> SnapshotDraft:
        """The manifests of the snapshot, built upon those of its parent."""

    # the key ------------------------------------------------------------------------------------------------------

    @property
    def snapshot_id(self) -> int:
        """The id of the snapshot that it makes; 0 before the first attempt."""
        return 0 if self._files is None else self._files.key.snapshot_id

    @property
    def commit_id(self) -> str:
        """The random text in the snapshot's summary and file names; empty before the first attempt."""
        return "" if self._files is None else self._files.key.commit_id

    @property
    def branch(self) -> str | None:
        """The branch whose head the snapshot becomes; None if it is only staged."""
        return None if self._staged else self._target

    # the files ----------------------------------------------------------------------------------------------------

    def written(self) -> Collection[str]:
        """The manifests and manifest lists that all its attempts have written."""
        return () if self._files is None else self._files.written()

    def used(self) -> Collection[str]:
        """Those that the snapshot of the last attempt refers to."""
        return self._used

    def forget(self, files: Collection[str]) -> None:
        """These files are being deleted: another attempt writes them anew."""
        if self._files is not None:
            self._files.forget(files)

    # attempts -----------------------------------------------------------------------------------------------------

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """Makes the snapshot on the attempt's metadata; no updates if nothing would change."""
        metadata = attempt.metadata
        _check_unencrypted(metadata)
        parent = self._parent(metadata)
        workspace = self._workspace(attempt)
        self.validate(workspace)
        made = self.draft(workspace, parent)
        if not made.changed and not self._keep_empty:
            self._used = ()
            return ()
        return self._publish(workspace, parent, made)

    can_merge = False
    """Whether the change can merge its deletion vectors with those that others added for the same files."""

    def validate(self, workspace: Workspace) -> Sequence[VectorMerge]:
        """Raises `ConflictingChange` if what others did must not be built upon; gives vectors that are to be merged."""
        return check(
            workspace.attempt,
            Footprint(self.reads, self.writes(workspace), self.isolation),
            self._target,
            memory=self._memory,
            can_merge=self.can_merge,
            read_positions=self._read_positions,
        )

    def check_added(self, workspace: Workspace, manifests: Sequence[ManifestFile], added: AddedFiles) -> None:
        """Raises if a file is added that the parent, whose manifests these are, holds already."""
        if added.files and not self._fresh:
            check_not_in_table(workspace, manifests, added)

    def _parent(self, metadata: TableMetadata) -> Snapshot | None:
        return branch_head(metadata, self._target, create=self._create_branch)

    def _workspace(self, attempt: Attempt) -> Workspace:
        if self._files is None:
            ids, taken = attempt.environment.ids, attempt.metadata.snapshots_by_id
            snapshot_id = ids.snapshot_id()
            if snapshot_id in taken:
                snapshot_id = new_snapshot_id(taken, ids.uuid)
            self._files = ManifestFiles(CommitKey(snapshot_id, str(ids.uuid())), self._executor)
        return self._files.workspace(attempt)

    def _publish(self, workspace: Workspace, parent: Snapshot | None, made: SnapshotDraft) -> Sequence[TableUpdate]:
        metadata, key = workspace.metadata, workspace.key
        listed: Sequence[ManifestFile] = [
            manifest.listed(key.snapshot_id, workspace.sequence_number)
            if isinstance(manifest, NewManifest)
            else manifest
            for manifest in made.manifests
        ]
        added_rows = None
        if metadata.next_row_id is not None:
            listed, next_row_id = assign_first_row_ids(listed, metadata.next_row_id)
            added_rows = next_row_id - metadata.next_row_id
        if parent is not None and _is_unpublished(parent, workspace.attempt):
            made.summary.set(COMMITTED_WITH_PARENT, "true")
        summary = self._summary(made, parent, key)
        parent_id = None if parent is None else parent.snapshot_id
        manifest_list = workspace.write_list(listed, parent_id)
        own = {manifest.path for manifest in made.manifests if isinstance(manifest, NewManifest)}
        self._used = (manifest_list, *sorted(own), *made.files)
        snapshot = Snapshot(
            sequence_number=workspace.sequence_number,
            snapshot_id=key.snapshot_id,
            parent_snapshot_id=parent_id,
            timestamp_ms=workspace.attempt.now_ms or workspace.attempt.environment.clock.now_ms(),
            summary=summary,
            manifest_list=manifest_list,
            schema_id=metadata.current_schema_id,
            first_row_id=metadata.next_row_id,
            added_rows=added_rows,
        )
        if self._staged:
            return (AddSnapshot(snapshot),)
        return AddSnapshot(snapshot), SetSnapshotRef(self._target, branch_at(metadata, self._target, key.snapshot_id))

    def _summary(self, made: SnapshotDraft, parent: Snapshot | None, key: CommitKey) -> dict[str, str]:
        new = sum(isinstance(manifest, NewManifest) for manifest in made.manifests)
        made.summary.set(snapshots.MANIFESTS_CREATED, new)
        made.summary.set(snapshots.MANIFESTS_KEPT, len(made.manifests) - new)
        made.summary.set(snapshots.MANIFESTS_REPLACED, made.replaced)
        made.summary.set(COMMIT_ID, key.commit_id)
        engine = {snapshots.ENGINE_NAME: "floe", snapshots.ENGINE_VERSION: floe.__version__}
        head = None if parent is None else dict(parent.summary or {})
        return made.summary.build(made.operation, engine | self._own_summary, head)


def branch_head(metadata: TableMetadata, branch: str, *, create: bool = False) -> Snapshot | None:
    """The snapshot that a commit to a branch builds upon; None if the branch is empty.

    A branch that is to be created begins at the current snapshot.
    """
    ref = metadata.refs.get(branch)
    if ref is None:
        if branch != MAIN_BRANCH and not create:
            metadata.ref(branch)  # which says what branches there are
        return metadata.current_snapshot
    if ref.is_tag:
        raise InvalidUpdate(f"{branch!r} is a tag, which stays where it is", hint="commit to a branch", ref=branch)
    return metadata.snapshot(ref.snapshot_id)


def branch_at(metadata: TableMetadata, branch: str, snapshot_id: int) -> SnapshotRef:
    """The branch at another snapshot, with the retention it has."""
    ref = metadata.refs.get(branch)
    if ref is None:
        return SnapshotRef(snapshot_id=snapshot_id, type="branch")
    return ref.at(snapshot_id)


def _is_unpublished(snapshot: Snapshot, attempt: Attempt) -> bool:
    """Whether a snapshot is made by the same commit, so that nobody sees it without the next one."""
    return attempt.start is None or snapshot.snapshot_id not in attempt.start.snapshots_by_id


def _check_unencrypted(metadata: TableMetadata) -> None:
    if ENCRYPTION_KEY in metadata.properties or metadata.encryption_keys:
        raise UnsupportedFeature(
            "tables with encryption cannot be written yet: manifests would be left unencrypted",
            hint=f"property {ENCRYPTION_KEY} and the keys in its metadata say that the table is encrypted",
        )
