"""The base class of all changes that create a snapshot: its key, manifest list, summary and branch.

An operation declares what it read and writes, and returns the manifests of its snapshot (`draft`); the rest is the same
for all. Snapshot id and commit id are chosen at the first attempt and stay the same: a commit whose answer was lost is
found by them. Manifests of earlier attempts are used again if their inputs are equal; every attempt writes a new
manifest list.
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
from floe.commit.operations.snapshot_summary import SummaryBuilder, active_properties, check_summary_properties
from floe.errors import InvalidUpdate, UnsupportedFeature
from floe.spec.manifests.entries import ManifestFile, assign_first_row_ids
from floe.spec.metadata import snapshots
from floe.spec.metadata.ancestry import COMMITTED_WITH_PARENT
from floe.spec.metadata.snapshots import MAIN_BRANCH, Snapshot, SnapshotRef, new_snapshot_id
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import AddSnapshot, SetSnapshotRef, TableUpdate
from floe.spec.properties import ENCRYPTION_KEY


class SnapshotOptions(TypedDict, total=False):
    """The keyword arguments of all operations that create a snapshot."""

    branch: str
    """The branch to commit to: `main` by default."""

    create_branch: bool
    """Whether the branch is created, at the current snapshot, if it does not exist."""

    staged: bool
    """Whether the snapshot becomes the head of no branch, to be audited and published later (`PublishWap`)."""

    summary: Mapping[str, str]
    """Properties for the snapshot's summary, such as `wap.id`; counts cannot be set."""

    isolation: Isolation
    """The isolation level of the conflict check."""

    fresh: bool
    """Whether the added files were written for this change under new random names. Then the table cannot have them, and
    they are not searched in it; other files are, in all manifests, because no file may be in the table twice."""

    written_with: int
    """The id of the schema that the added files were written with."""

    read_positions: PositionReader
    """Reads position delete files, for a conflict check by row."""

    keep_empty: bool
    """Whether a snapshot is created even if no file is added or removed."""

    executor: Executor
    """Reads and writes several manifests at once; without it they are read and written one after the other."""


@dataclass(frozen=True, eq=False, slots=True)
class SnapshotDraft:
    """The manifests and the summary of a snapshot that an operation is about to commit."""

    operation: str
    manifests: Sequence[Manifest]
    summary: SummaryBuilder
    changed: bool = True
    """Whether any file was added, removed or moved to another manifest."""

    replaced: int = 0
    """How many manifests of the parent were rewritten."""

    files: Sequence[str] = ()
    """Other files that the change wrote and the snapshot needs."""


class SnapshotChange(ABC):
    """A change that creates a snapshot. It can be attempted any number of times, but committed once."""

    def __init__(self, *, reads: Reads = BLIND, **options: Unpack[SnapshotOptions]) -> None:
        self.reads = reads
        self.isolation = options.get("isolation", Isolation.SERIALIZABLE)
        self._target = options.get("branch", MAIN_BRANCH)
        self._create_branch = options.get("create_branch", False)
        self._staged = options.get("staged", False)
        self._custom_summary = check_summary_properties({**active_properties(), **options.get("summary", {})})
        self._fresh = options.get("fresh", False)
        self._written_with = options.get("written_with")
        self._keep_empty = options.get("keep_empty", False)
        self._executor = options.get("executor")
        self._read_positions = options.get("read_positions")
        self._snapshot_cache = SnapshotCache(self._executor)
        self._files: ManifestFiles | None = None
        self._used: tuple[str, ...] = ()

    def __repr__(self) -> str:
        where = "staged" if self._staged else f"on {self._target}"
        return f"<{type(self).__name__} {where}: {self.describe()}>"

    # what an operation implements ---------------------------------------------------------------------------------

    @abstractmethod
    def describe(self) -> str:
        """The change in a few words, for `repr`."""

    @abstractmethod
    def writes(self, workspace: Workspace) -> Writes:
        """What the change writes, for the conflict check; raises if the table cannot take it."""

    @abstractmethod
    def draft(self, workspace: Workspace, parent: Snapshot | None) -> SnapshotDraft:
        """Write the manifests of the snapshot, based on those of its parent."""

    # the key ------------------------------------------------------------------------------------------------------

    @property
    def snapshot_id(self) -> int:
        """The id of the snapshot; 0 before the first attempt."""
        return 0 if self._files is None else self._files.key.snapshot_id

    @property
    def commit_id(self) -> str:
        """The random text in the snapshot's summary and file names; empty before the first attempt."""
        return "" if self._files is None else self._files.key.commit_id

    @property
    def branch(self) -> str | None:
        """The branch whose head the snapshot becomes; None if it is staged."""
        return None if self._staged else self._target

    # the files ----------------------------------------------------------------------------------------------------

    def written(self) -> Collection[str]:
        """The manifests and manifest lists that all attempts have written."""
        return () if self._files is None else self._files.written()

    def used(self) -> Collection[str]:
        """The files of `written` that the snapshot of the last attempt refers to."""
        return self._used

    def forget(self, files: Collection[str]) -> None:
        """Forget files that are being deleted; another attempt writes them again."""
        if self._files is not None:
            self._files.forget(files)

    # attempts -----------------------------------------------------------------------------------------------------

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """Write the snapshot for the attempt's metadata; returns no updates if nothing would change."""
        metadata = attempt.metadata
        _check_unencrypted(metadata)
        parent = self._parent(metadata)
        workspace = self._workspace(attempt)
        self.validate(workspace)
        draft = self.draft(workspace, parent)
        if not draft.changed and not self._keep_empty:
            self._used = ()
            return ()
        return self._add_snapshot(workspace, parent, draft)

    can_merge = False
    """Whether the change can merge its deletion vectors with those that others added for the same data files."""

    def validate(self, workspace: Workspace) -> Sequence[VectorMerge]:
        """Raise `ConflictingChange` if another commit conflicts; returns the deletion vectors that must be merged."""
        return check(
            workspace.attempt,
            Footprint(self.reads, self.writes(workspace), self.isolation),
            self._target,
            cache=self._snapshot_cache,
            can_merge=self.can_merge,
            read_positions=self._read_positions,
        )

    def check_added(self, workspace: Workspace, manifests: Sequence[ManifestFile], added: AddedFiles) -> None:
        """Raise if an added file is already in the parent, which has these manifests."""
        if added.files and not self._fresh:
            check_not_in_table(workspace, manifests, added)

    def _parent(self, metadata: TableMetadata) -> Snapshot | None:
        return branch_head(metadata, self._target, create=self._create_branch)

    def _workspace(self, attempt: Attempt) -> Workspace:
        if self._files is None:
            ids, existing = attempt.environment.ids, attempt.metadata.snapshots_by_id
            snapshot_id = ids.snapshot_id()
            if snapshot_id in existing:
                snapshot_id = new_snapshot_id(existing, ids.uuid)
            self._files = ManifestFiles(CommitKey(snapshot_id, str(ids.uuid())), self._executor)
        return self._files.workspace(attempt)

    def _add_snapshot(
        self, workspace: Workspace, parent: Snapshot | None, draft: SnapshotDraft
    ) -> Sequence[TableUpdate]:
        """Write the manifest list, and return the updates that add the snapshot."""
        metadata, key = workspace.metadata, workspace.key
        listed: Sequence[ManifestFile] = [
            manifest.to_manifest_file(key.snapshot_id, workspace.sequence_number)
            if isinstance(manifest, NewManifest)
            else manifest
            for manifest in draft.manifests
        ]
        added_rows = None
        if metadata.next_row_id is not None:
            listed, next_row_id = assign_first_row_ids(listed, metadata.next_row_id)
            added_rows = next_row_id - metadata.next_row_id
        if parent is not None and _is_unpublished(parent, workspace.attempt):
            draft.summary.set(COMMITTED_WITH_PARENT, "true")
        summary = self._summary(draft, parent, key)
        parent_id = None if parent is None else parent.snapshot_id
        manifest_list = workspace.write_list(listed, parent_id)
        new_manifests = {manifest.path for manifest in draft.manifests if isinstance(manifest, NewManifest)}
        self._used = (manifest_list, *sorted(new_manifests), *draft.files)
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

    def _summary(self, draft: SnapshotDraft, parent: Snapshot | None, key: CommitKey) -> dict[str, str]:
        new = sum(isinstance(manifest, NewManifest) for manifest in draft.manifests)
        draft.summary.set(snapshots.MANIFESTS_CREATED, new)
        draft.summary.set(snapshots.MANIFESTS_KEPT, len(draft.manifests) - new)
        draft.summary.set(snapshots.MANIFESTS_REPLACED, draft.replaced)
        draft.summary.set(COMMIT_ID, key.commit_id)
        engine = {snapshots.ENGINE_NAME: "floe", snapshots.ENGINE_VERSION: floe.__version__}
        head = None if parent is None else dict(parent.summary or {})
        return draft.summary.build(draft.operation, engine | self._custom_summary, head)


def branch_head(metadata: TableMetadata, branch: str, *, create: bool = False) -> Snapshot | None:
    """The snapshot that a commit to a branch builds on; None if the branch is empty.

    With `create`, a branch that does not exist starts at the current snapshot. A tag is an `InvalidUpdate`.
    """
    ref = metadata.refs.get(branch)
    if ref is None:
        if branch != MAIN_BRANCH and not create:
            metadata.ref(branch)  # raises, with the names of the existing branches
        return metadata.current_snapshot
    if ref.is_tag:
        raise InvalidUpdate(f"{branch!r} is a tag, and tags are not moved", hint="commit to a branch", ref=branch)
    return metadata.snapshot(ref.snapshot_id)


def branch_at(metadata: TableMetadata, branch: str, snapshot_id: int) -> SnapshotRef:
    """A ref for the branch at another snapshot, with the retention of the branch."""
    ref = metadata.refs.get(branch)
    if ref is None:
        return SnapshotRef(snapshot_id=snapshot_id, type="branch")
    return ref.at(snapshot_id)


def _is_unpublished(snapshot: Snapshot, attempt: Attempt) -> bool:
    """Whether a snapshot is part of the same commit, so that no reader sees it without the next one."""
    return attempt.start is None or snapshot.snapshot_id not in attempt.start.snapshots_by_id


def _check_unencrypted(metadata: TableMetadata) -> None:
    if ENCRYPTION_KEY in metadata.properties or metadata.encryption_keys:
        raise UnsupportedFeature(
            "tables with encryption cannot be written yet: manifests would be left unencrypted",
            hint=f"property {ENCRYPTION_KEY} and the keys in its metadata say that the table is encrypted",
        )
