"""The base class of all changes that create a snapshot: its key, manifest list, summary and branch.

An operation declares what it read and writes, and returns the manifests of its snapshot (`draft`); the rest is the same
for all. Snapshot id and commit id are chosen at the first attempt and stay the same: a commit whose answer was lost is
found by them. Manifests of earlier attempts are used again if their inputs are equal; every attempt writes a new
manifest list.

The summary has counts of added and removed files, as in Java Iceberg, where they are not zero, the number of changed
partitions, and properties of the caller, which cannot replace counts. `commit_properties` adds properties to all
snapshots that are created in a `with` block.

>>> from floe.spec.manifests.entries import FileContent
>>> counts = FileCounts()
>>> counts.added(DataFile(FileContent.DATA, "a.parquet", "parquet", (), 3, 100))
>>> counts.to_summary()
{'added-data-files': '1', 'added-records': '3', 'added-files-size': '100'}
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypedDict, Unpack

import floe
from floe.commit.change import BLIND, COMMIT_ID, Attempt, Footprint, Isolation, Reads, Writes
from floe.commit.conflicts.change_index import VectorMerge
from floe.commit.conflicts.concurrent_commits import SnapshotCache
from floe.commit.conflicts.position_overlaps import PositionReader
from floe.commit.conflicts.rules import check
from floe.commit.manifests.added_files import AddedFiles, check_not_in_table
from floe.commit.manifests.manifest_files import CommitKey, Manifest, ManifestFiles, NewManifest, Workspace
from floe.errors import InvalidInput, InvalidUpdate, UnsupportedFeature
from floe.spec.manifests.delete_scope import partition_key
from floe.spec.manifests.entries import DataFile, FileContent, ManifestFile, assign_first_row_ids
from floe.spec.metadata import snapshots
from floe.spec.metadata.ancestry import COMMITTED_WITH_PARENT
from floe.spec.metadata.snapshots import MAIN_BRANCH, OPERATION, Snapshot, SnapshotRef, new_snapshot_id
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import AddSnapshot, SetSnapshotRef, TableUpdate
from floe.spec.partitioning.partition_paths import partition_path
from floe.spec.properties import ENCRYPTION_KEY, SUMMARY_PARTITION_LIMIT

# Summaries ------------------------------------------------------------------------------------------------------------


_ADDED: Final = {
    "data": (snapshots.ADDED_DATA_FILES, snapshots.ADDED_RECORDS),
    "equality": (snapshots.ADDED_EQUALITY_DELETE_FILES, snapshots.ADDED_EQUALITY_DELETES),
    "position": (snapshots.ADDED_POSITION_DELETE_FILES, snapshots.ADDED_POSITION_DELETES),
    "vector": (snapshots.ADDED_DVS, snapshots.ADDED_POSITION_DELETES),
}
_REMOVED: Final = {
    "data": (snapshots.DELETED_DATA_FILES, snapshots.DELETED_RECORDS),
    "equality": (snapshots.REMOVED_EQUALITY_DELETE_FILES, snapshots.REMOVED_EQUALITY_DELETES),
    "position": (snapshots.REMOVED_POSITION_DELETE_FILES, snapshots.REMOVED_POSITION_DELETES),
    "vector": (snapshots.REMOVED_DVS, snapshots.REMOVED_POSITION_DELETES),
}
_ORDER: Final = (
    snapshots.ADDED_DATA_FILES,
    snapshots.DELETED_DATA_FILES,
    snapshots.ADDED_EQUALITY_DELETE_FILES,
    snapshots.REMOVED_EQUALITY_DELETE_FILES,
    snapshots.ADDED_POSITION_DELETE_FILES,
    snapshots.REMOVED_POSITION_DELETE_FILES,
    snapshots.ADDED_DELETE_FILES,
    snapshots.REMOVED_DELETE_FILES,
    snapshots.ADDED_DVS,
    snapshots.REMOVED_DVS,
    snapshots.ADDED_RECORDS,
    snapshots.DELETED_RECORDS,
    snapshots.ADDED_FILES_SIZE,
    snapshots.REMOVED_FILES_SIZE,
    snapshots.ADDED_POSITION_DELETES,
    snapshots.REMOVED_POSITION_DELETES,
    snapshots.ADDED_EQUALITY_DELETES,
    snapshots.REMOVED_EQUALITY_DELETES,
)
_COMPUTED: Final = frozenset(
    {
        *_ORDER,
        *snapshots.TOTALS,
        snapshots.CHANGED_PARTITION_COUNT,
        snapshots.DELETED_DUPLICATE_FILES,
        snapshots.MANIFESTS_CREATED,
        snapshots.MANIFESTS_KEPT,
        snapshots.MANIFESTS_REPLACED,
        snapshots.ENTRIES_PROCESSED,
        snapshots.PARTITION_SUMMARIES_INCLUDED,
        snapshots.REPLACE_PARTITIONS,
        snapshots.SOURCE_SNAPSHOT_ID,
        snapshots.PUBLISHED_WAP_ID,
        COMMIT_ID,
        OPERATION,
    }
)


def check_summary_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that a caller adds to the summary; raises `InvalidInput` if one is not text, or is computed.

    >>> check_summary_properties({"added-records": "7"})
    Traceback (most recent call last):
    floe.errors.InvalidInput: added-records of a snapshot's summary is counted, and cannot be set
    """
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidInput(f"a snapshot's summary holds text, found {name!r:.80}: {value!r:.80}")
        if name in _COMPUTED or name.startswith(snapshots.CHANGED_PARTITION_PREFIX):
            raise InvalidInput(f"{name} of a snapshot's summary is counted, and cannot be set")
    return dict(properties)


_ACTIVE: Final[ContextVar[Mapping[str, str]]] = ContextVar("floe.commit-properties", default=MappingProxyType({}))
_listeners: Final[dict[str, Callable[[Mapping[str, str]], None]]] = {}


@contextmanager
def commit_properties(properties: Mapping[str, str]) -> Iterator[None]:
    """Add properties to the summary of every snapshot that the block creates, by Python or by SQL of the same thread.

    The properties of a single call (`summary=`, the write option `snapshot-property.*`) take precedence, and those of
    an inner block over those of an outer one. A Spark stream that is started in the block keeps them until it ends.

    >>> import floe
    >>> lake = floe.connect("memory:")
    >>> lake.create_namespace("db")
    >>> with floe.commit_properties({"job": "nightly"}):
    ...     snapshot = lake.create_table("db.t", "id bigint").append([{"id": 1}])
    >>> snapshot.summary["job"]
    'nightly'
    """
    try:
        with engine_properties(properties):
            _notify_engines()
            yield
    finally:
        _notify_engines()


@contextmanager
def engine_properties(properties: Mapping[str, str]) -> Iterator[None]:
    """As `commit_properties`, for an engine that sets the properties itself: engines are not notified."""
    token = _ACTIVE.set({**_ACTIVE.get(), **check_summary_properties(properties)})
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def follow_properties(engine: str, listener: Callable[[Mapping[str, str]], None]) -> None:
    """Call a listener with the active properties, now and whenever a `commit_properties` block begins or ends.

    For engines that commit in other threads; the listener is called in the thread of the block. An engine has one
    listener, the last that was given.
    """
    _listeners[engine] = listener
    listener(active_properties())


def _notify_engines() -> None:
    for listener in list(_listeners.values()):
        listener(active_properties())


def active_properties() -> Mapping[str, str]:
    """The properties of the `commit_properties` blocks around the call.

    >>> with commit_properties({"job": "nightly", "by": "me"}), commit_properties({"by": "you"}):
    ...     active_properties()
    {'job': 'nightly', 'by': 'you'}
    """
    return _ACTIVE.get()


def _kind(file: DataFile) -> str:
    if file.content == FileContent.DATA:
        return "data"
    if file.content == FileContent.EQUALITY_DELETES:
        return "equality"
    return "vector" if file.is_deletion_vector else "position"


@dataclass(slots=True)
class FileCounts:
    """The numbers of files, rows and bytes of each kind that were added and removed."""

    values: dict[str, int] = field(default_factory=dict)

    def added(self, file: DataFile) -> None:
        """Count an added file."""
        self._count(file, _ADDED, snapshots.ADDED_DELETE_FILES, snapshots.ADDED_FILES_SIZE)

    def removed(self, file: DataFile) -> None:
        """Count a removed file."""
        self._count(file, _REMOVED, snapshots.REMOVED_DELETE_FILES, snapshots.REMOVED_FILES_SIZE)

    def _count(self, file: DataFile, names: Mapping[str, tuple[str, str]], deletes: str, size: str) -> None:
        kind = _kind(file)
        file_count, row_count = names[kind]
        values = self.values
        values[file_count] = values.get(file_count, 0) + 1
        values[row_count] = values.get(row_count, 0) + max(file.record_count, 0)
        if kind != "data":
            values[deletes] = values.get(deletes, 0) + 1
        # A Puffin file has many deletion vectors; each counts only its own bytes.
        vector_size = file.content_size_in_bytes if kind == "vector" else None
        values[size] = values.get(size, 0) + (file.file_size_in_bytes if vector_size is None else vector_size)

    def to_summary(self) -> dict[str, str]:
        """The counts that are not zero, as properties of a summary."""
        return {name: str(self.values[name]) for name in _ORDER if self.values.get(name, 0) > 0}


class SummaryBuilder:
    """Collects the counts of a commit, and builds the summary of its snapshot."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self._all = FileCounts()
        self._partitions: dict[Hashable, tuple[DataFile, FileCounts]] = {}
        self._properties: dict[str, str] = {}

    def add(self, files: Iterable[DataFile]) -> None:
        """Count added files."""
        for file in files:
            self._all.added(file)
            self._partition(file).added(file)

    def remove(self, files: Iterable[DataFile]) -> None:
        """Count removed files."""
        for file in files:
            self._all.removed(file)
            self._partition(file).removed(file)

    def set(self, name: str, value: int | str) -> None:
        """Set another property of the summary."""
        self._properties[name] = str(value)

    def _partition(self, file: DataFile) -> FileCounts:
        """The counts of a file's partition."""
        key = partition_key(file.spec_id, file.partition)
        entry = self._partitions.get(key)
        if entry is None:
            entry = self._partitions[key] = file, FileCounts()
        return entry[1]

    def _partition_summaries(self) -> dict[str, str]:
        """The number of changed partitions, and the counts of each if there are no more than the limit."""
        by_path: dict[str, FileCounts] = {}
        for file, counts in self._partitions.values():
            # partitions of several specs can have the same path
            total = by_path.setdefault(self._path(file), FileCounts())
            for name, value in counts.values.items():
                total.values[name] = total.values.get(name, 0) + value
        summaries = {snapshots.CHANGED_PARTITION_COUNT: str(len(by_path))}
        limit = SUMMARY_PARTITION_LIMIT.read(self._metadata.properties)
        if by_path and len(by_path) <= limit:
            summaries[snapshots.PARTITION_SUMMARIES_INCLUDED] = "true"
            for path, counts in by_path.items():
                if path:
                    text = ",".join(f"{name}={value}" for name, value in counts.to_summary().items())
                    summaries[snapshots.CHANGED_PARTITION_PREFIX + path] = text
        return summaries

    def _path(self, file: DataFile) -> str:
        metadata = self._metadata
        spec = metadata.specs_by_id.get(file.spec_id)
        if spec is None:
            raise InvalidUpdate(f"the table has no partition spec {file.spec_id}", file=file.file_path)
        return partition_path(spec, metadata.schema, file.partition, reversed(metadata.schemas))

    def build(self, operation: str, custom: Mapping[str, str], head: Mapping[str, str] | None) -> dict[str, str]:
        """The summary of the snapshot.

        `custom` are properties of the caller and the engine. `head` is the summary of the parent, to which the totals
        are added; None if there is no parent.
        """
        summary = {OPERATION: operation} | dict(custom)
        summary |= self._all.to_summary() | self._partition_summaries() | self._properties
        snapshots.check_replace(summary)
        return snapshots.with_totals(summary, head)


# Snapshots ------------------------------------------------------------------------------------------------------------


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
