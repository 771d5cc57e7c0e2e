"""Expiring snapshots: a plan that can be printed, its commit, and the deletion of files that only they referred to.

`plan_expire` lists what would expire, `apply_expire` commits a plan (`ExpireSnapshots`) and deletes files
(`remove_unreachable`).

Concurrency: every attempt computes what expires in the newest state, and never expires more than was planned. A branch
or tag that another commit creates keeps its snapshots. A table with `gc.enabled=false` shares its files with others:
its snapshots do not expire.

Files are deleted after the commit, with a state of the table that is loaded after it. Files that the expired snapshots
reached are candidates; those that a remaining snapshot reaches, in whatever spelling, are kept. So a file that was
removed and added again stays, and so does a Puffin file with a live deletion vector. If anything cannot be read, no
file is deleted, because the list of reachable files would be incomplete. Files outside the table's own folders may
belong to others, and are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from floe.commit.change import Attempt
from floe.commit.loop import commit
from floe.commit.manifests.file_sets import PathSet, name_hashes
from floe.commit.outcomes import Committed
from floe.commit.pointer import Pointer, TableState
from floe.commit.reachability import FileBatch, FileKind, file_batches, listed_manifests, statistics_batches
from floe.commit.roots import owned_folders
from floe.errors import FloeError, NoSuchTable
from floe.spec.manifests.entries import ManifestFile
from floe.spec.metadata.retention import Expiry, plan_expiry
from floe.spec.metadata.snapshots import Snapshot
from floe.spec.metadata.table_metadata import TableMetadata, check_same_table
from floe.spec.metadata.updates import RemovePartitionSpecs, RemoveSchemas, TableUpdate
from floe.spec.properties import MAX_SNAPSHOT_AGE_MS
from floe.spec.values.civil_time import millis_to_text
from floe.storage.locations import canonical, is_below
from floe.storage.protocol import Storage

# Deletion of files ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileDeletions:
    """The outcome of the deletion of unreachable files."""

    deleted: Mapping[FileKind, int] = field(default_factory=dict)
    """The number of deleted files of each kind."""

    failed: tuple[str, ...] = ()
    """Files that could not be deleted; nothing reaches them."""

    elsewhere: tuple[str, ...] = ()
    """Files that nothing in this table reaches, but that are outside its folders, and were kept."""

    notes: tuple[str, ...] = ()
    """Messages about files that were not deleted."""

    @property
    def total(self) -> int:
        """The number of deleted files."""
        return sum(self.deleted.values())


def remove_unreachable(
    pointer: Pointer, before: TableMetadata, expired: Sequence[Snapshot], *, executor: Executor | None = None
) -> FileDeletions:
    """Load the table, and delete the files that only expired snapshots reached; none if anything cannot be read.

    `before` is the metadata that had the snapshots. Errors are reported in the notes; none is raised.
    """
    try:
        fresh = pointer.load()
        if fresh is None:
            return FileDeletions(notes=("no file was deleted: the table does not exist any more",))
        # the state of another table says nothing about files of this one, which may exist under another name
        check_same_table(before.table_uuid, fresh.metadata.table_uuid, pointer.name)
        files = unreachable_files(fresh, before, expired, pointer.storage, executor=executor)
        return _delete(files, owned_folders(fresh.metadata), pointer.storage)
    except (FloeError, OSError) as error:
        return FileDeletions(notes=(f"no file was deleted, because not all metadata could be read: {error}",))


def unreachable_files(
    fresh: TableState,
    before: TableMetadata,
    expired: Iterable[Snapshot],
    storage: Storage,
    *,
    executor: Executor | None = None,
) -> dict[FileKind, PathSet]:
    """The files that expired snapshots reached and that nothing in the table's fresh state reaches, by kind."""
    removed = [snapshot for snapshot in expired if snapshot.snapshot_id not in fresh.metadata.snapshots_by_id]
    reachable_manifests = list(listed_manifests(fresh.metadata.snapshots, storage, executor=executor))
    reachable_paths = {canonical(manifest.manifest_path) for manifest in reachable_manifests}
    removed_manifests = [
        manifest
        for manifest in listed_manifests(removed, storage, executor=executor)
        if canonical(manifest.manifest_path) not in reachable_paths
    ]
    lists = [snapshot.manifest_list for snapshot in removed if snapshot.manifest_list is not None]
    candidates = _Candidates()
    candidates.add(FileBatch.of(FileKind.MANIFEST_LIST, lists))
    candidates.add(FileBatch.of(FileKind.MANIFEST, [manifest.manifest_path for manifest in removed_manifests]))
    candidates.add_all(statistics_batches(before, {snapshot.snapshot_id for snapshot in removed}))
    candidates.add_all(file_batches(removed_manifests, storage, executor=executor))
    for batch in _reachable_batches(fresh, reachable_manifests, storage, executor):
        candidates.remove(batch)
    return candidates.by_kind


def _reachable_batches(
    fresh: TableState, manifests: Sequence[ManifestFile], storage: Storage, executor: Executor | None
) -> Iterator[FileBatch]:
    """All files that the fresh state reaches, of every kind."""
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


def _delete(files: Mapping[FileKind, PathSet], folders: Sequence[str], storage: Storage) -> FileDeletions:
    """Delete data files first and manifest lists last, so that after an interruption the rest can still be listed."""
    deleted: dict[FileKind, int] = {}
    failed: list[str] = []
    elsewhere: list[str] = []
    for kind in FileKind:
        paths = list(files.get(kind, ()))
        owned = [path for path in paths if any(is_below(path, folder) for folder in folders)]
        elsewhere += [path for path in paths if path not in set(owned)] if len(owned) < len(paths) else []
        outcomes = storage.delete_many(owned) if owned else []
        failed += [outcome.location for outcome in outcomes if not outcome.deleted]
        count = sum(outcome.deleted for outcome in outcomes)
        if count:
            deleted[kind] = count
    notes = []
    if failed:
        notes.append(f"{len(failed)} files could not be deleted; nothing needs them, and orphan removal finds them")
    if elsewhere:
        notes.append(f"{len(elsewhere)} files were kept, because they are outside the table's folders")
    return FileDeletions(deleted, tuple(failed), tuple(elsewhere), tuple(notes))


# Plan and commit ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class ExpirePlan:
    """The snapshots and refs that expire at `now_ms`; its text says what applying it would do."""

    table: str
    now_ms: int
    older_than_ms: int
    retain_last: int | None
    snapshot_ids: tuple[int, ...]
    """The snapshots that the caller named, whatever their age."""

    expiry: Expiry
    snapshots: tuple[Snapshot, ...] = ()
    """The snapshots that expire, oldest first."""

    kept: int = 0
    """The number of snapshots that are kept."""

    table_uuid: str | None = None
    clean_metadata: bool = False
    """Whether unused schemas and partition specs are removed too."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to expire."""
        return not (self.expiry.refs or self.expiry.snapshots)

    def __str__(self) -> str:
        if self.is_empty and not self.clean_metadata:
            return f"{self.table}: nothing expires; all {self.kept} snapshots are kept"
        go = f"{_counted(len(self.snapshots), 'snapshot')} {'expires' if len(self.snapshots) == 1 else 'expire'}"
        lines = [f"{self.table}: {go}, {self.kept} {'is' if self.kept == 1 else 'are'} kept"]
        lines += [f"  {name}: the branch or tag itself expires" for name in self.expiry.refs]
        lines += [
            f"  snapshot {snapshot.snapshot_id}, {snapshot.operation or 'unknown operation'}, "
            f"committed at {millis_to_text(snapshot.timestamp_ms)}"
            for snapshot in self.snapshots
        ]
        if self.clean_metadata:
            lines.append("  unused schemas and partition specs are removed")
        lines.append("  files that no other snapshot needs are deleted after the commit")
        return "\n".join(lines)

    __repr__ = __str__


@dataclass(frozen=True, slots=True, repr=False)
class Expired:
    """The snapshots and refs that expired, and the files that were deleted."""

    state: Committed
    snapshots: tuple[int, ...]
    refs: tuple[str, ...]
    removal: FileDeletions

    @property
    def deleted(self) -> Mapping[FileKind, int]:
        """The number of deleted files of each kind."""
        return self.removal.deleted

    def __str__(self) -> str:
        counts = ", ".join(_counted(count, str(kind)) for kind, count in self.deleted.items())
        text = f"{_counted(len(self.snapshots), 'snapshot')} expired; deleted: {counts or 'no files'}"
        return "\n".join([text, *self.removal.notes])

    __repr__ = __str__


def plan_expire(
    pointer: Pointer,
    *,
    table_uuid: str | None = None,
    older_than_ms: int | None = None,
    retain_last: int | None = None,
    snapshot_ids: Collection[int] = (),
    clean_metadata: bool = False,
) -> ExpirePlan:
    """Plan what expires now, without changing anything.

    `older_than_ms` (a timestamp) and `retain_last` override the table's `history.expire.*` properties. Snapshots in
    `snapshot_ids` expire whatever their age; it is an error if a branch or tag points to one. With `table_uuid`,
    another table of the same name is an error.
    """
    state = pointer.load()
    if state is None:
        raise NoSuchTable("there is no such table", table=pointer.name)
    check_same_table(table_uuid, state.metadata.table_uuid, pointer.name)
    return plan_for(
        state,
        pointer.name,
        pointer.environment.clock.now_ms(),
        older_than_ms=older_than_ms,
        retain_last=retain_last,
        snapshot_ids=snapshot_ids,
        clean_metadata=clean_metadata,
    )


def plan_for(
    state: TableState,
    table: str,
    now_ms: int,
    *,
    older_than_ms: int | None = None,
    retain_last: int | None = None,
    snapshot_ids: Collection[int] = (),
    clean_metadata: bool = False,
) -> ExpirePlan:
    """As `plan_expire`, for a state that was loaded already."""
    metadata = state.metadata
    if older_than_ms is None:
        older_than_ms = now_ms - MAX_SNAPSHOT_AGE_MS.read(metadata.properties)
    try:
        expiry = plan_expiry(
            metadata, now_ms=now_ms, older_than_ms=older_than_ms, retain_last=retain_last, snapshot_ids=snapshot_ids
        )
    except FloeError as error:
        error.with_context(table=table)
        raise
    expiring = sorted(map(metadata.snapshot, expiry.snapshots), key=lambda snapshot: snapshot.timestamp_ms)
    return ExpirePlan(
        table,
        now_ms,
        older_than_ms,
        retain_last,
        tuple(dict.fromkeys(snapshot_ids)),
        expiry,
        tuple(expiring),
        len(metadata.snapshots) - len(expiring),
        metadata.table_uuid,
        clean_metadata,
    )


def apply_expire(
    pointer: Pointer, plan: ExpirePlan, *, delete_files: bool = True, executor: Executor | None = None
) -> Expired:
    """Commit a plan, then delete the files that nothing reaches any more.

    Snapshots that other commits refer to by now do not expire; others than the planned ones never do. Files outside the
    table's own folders are never deleted, and no file is if something cannot be read.
    """
    change = ExpireSnapshots(plan, executor=executor)
    committed = commit(pointer, [change], table_uuid=plan.table_uuid)
    expired = {id_: s for id_, s in change.removed.items() if id_ not in committed.metadata.snapshots_by_id}
    refs = tuple(name for name in change.refs if name not in committed.metadata.refs)
    deletions = FileDeletions()
    if delete_files and expired and change.before is not None:
        deletions = remove_unreachable(pointer, change.before, list(expired.values()), executor=executor)
    return Expired(committed, tuple(expired), refs, deletions)


class ExpireSnapshots:
    """The commit of a plan; `before` is the metadata of the last attempt, `removed` the snapshots of all attempts."""

    def __init__(self, plan: ExpirePlan, *, executor: Executor | None = None) -> None:
        self.plan = plan
        self.before: TableMetadata | None = None
        self.removed: dict[int, Snapshot] = {}
        self.refs: tuple[str, ...] = ()
        self._executor = executor

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """The updates that remove the planned snapshots and refs which still expire in the attempt's metadata."""
        table = attempt.metadata
        expiry = self._still_expires(table)
        self.before = table
        self.refs = expiry.refs
        self.removed.update((snapshot_id, table.snapshot(snapshot_id)) for snapshot_id in expiry.snapshots)
        updates = list(expiry.updates())
        if self.plan.clean_metadata:
            updates += self._remove_unused_layout(table, expiry, attempt.storage)
        return updates

    def _still_expires(self, table: TableMetadata) -> Expiry:
        referenced = {ref.snapshot_id for name, ref in table.refs.items() if name not in self.plan.expiry.refs}
        requested = [i for i in self.plan.snapshot_ids if i in table.snapshots_by_id and i not in referenced]
        current = plan_expiry(
            table,
            now_ms=self.plan.now_ms,
            older_than_ms=self.plan.older_than_ms,
            retain_last=self.plan.retain_last,
            snapshot_ids=requested,
        )
        refs = tuple(name for name in current.refs if name in self.plan.expiry.refs)
        # A ref that expires now but was not planned to is kept, and so is its snapshot.
        kept = {ref.snapshot_id for name, ref in table.refs.items() if name not in refs}
        planned = set(self.plan.expiry.snapshots) - kept
        return Expiry(refs, tuple(i for i in current.snapshots if i in planned))

    def _remove_unused_layout(self, table: TableMetadata, expiry: Expiry, storage: Storage) -> Sequence[TableUpdate]:
        """The updates that remove schemas of no remaining snapshot, and specs of no remaining manifest."""
        kept = [snapshot for snapshot in table.snapshots if snapshot.snapshot_id not in expiry.snapshots]
        used_specs = {table.default_spec_id}
        for manifest in listed_manifests(kept, storage, executor=self._executor):
            used_specs.add(manifest.partition_spec_id)
        used_schemas = {table.current_schema_id, *(s.schema_id for s in kept if s.schema_id is not None)}
        used_schemas |= _schemas_of_partitions(table, used_specs)
        specs = tuple(spec_id for spec_id in table.specs_by_id if spec_id not in used_specs)
        schemas = tuple(schema_id for schema_id in table.schemas_by_id if schema_id not in used_schemas)
        return [
            *([RemovePartitionSpecs(specs)] if specs else []),
            *([RemoveSchemas(schemas)] if schemas else []),
        ]


def _counted(count: int, noun: str | FileKind) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _schemas_of_partitions(table: TableMetadata, spec_ids: Collection[int]) -> set[int]:
    """The schemas that the types of partition values are taken from: a source column may have been dropped since."""
    newest_first = (table.schema, *reversed(table.schemas))
    specs = [spec for spec in table.partition_specs if spec.spec_id in spec_ids]
    sources = {source for spec in specs for field in spec.fields for source in field.source_ids}
    with_source = (
        next((schema for schema in newest_first if schema.find(source) is not None), None) for source in sources
    )
    return {schema.schema_id for schema in with_source if schema is not None}
