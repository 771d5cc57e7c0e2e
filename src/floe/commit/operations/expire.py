"""Expiring snapshots: a plan that can be printed, a commit, and then the deletion of what nothing reaches any more.

Concurrency: what expires is worked out again on every newer state, and is never more than was planned. A branch or
tag that somebody creates meanwhile keeps its snapshots, a commit that comes first is built upon, and a writer that
comes later finds the snapshots gone. Files are deleted only after the commit, and only those that a fresh reading of
the table does not reach (`expire_files`). A table with `gc.enabled=false` shares its files with others:
it is refused.

Deleting the files of expired snapshots: those that the table reached before and does not reach now.

The table is read again after the expiry was committed. What the expired snapshots reached is a candidate; what any
snapshot that is left reaches, in whatever spelling, is not deleted. So a file that was removed and added again stays,
and so does a Puffin file of which one deletion vector is still alive. If anything cannot be read, nothing is deleted:
an incomplete list of what is needed would let needed files go. Files outside the table's own folders may be somebody
else's, and stay.
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

# Deleting the files of expired snapshots: those that the table reached before and does not reach now.


@dataclass(frozen=True, slots=True)
class FileDeletions:
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
) -> FileDeletions:
    """Deletes what only snapshots that are gone reached; nothing if any reading fails. Raises nothing.

    `before` is the metadata that had the snapshots. The table is read anew.
    """
    try:
        fresh = pointer.load()
        if fresh is None:
            return FileDeletions(notes=("no file was deleted: the table is not there any more",))
        # of another table's state nothing follows for the files of this one, which may live on under another name
        check_same_table(before.table_uuid, fresh.metadata.table_uuid, pointer.name)
        files = unreachable_files(fresh, before, gone, pointer.storage, executor=executor)
        return _delete(files, owned_folders(fresh.metadata), pointer.storage)
    except (FloeError, OSError) as error:
        return FileDeletions(notes=(f"no file was deleted, for not all could be read: {error}",))


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


def _delete(files: Mapping[FileKind, PathSet], folders: Sequence[str], storage: Storage) -> FileDeletions:
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
    return FileDeletions(deleted, tuple(failed), tuple(elsewhere), tuple(notes))


@dataclass(frozen=True, slots=True, repr=False)
class ExpirePlan:
    """What is to expire, as it was worked out at `now_ms`; printing it tells a person what would happen."""

    table: str
    now_ms: int
    older_than_ms: int
    retain_last: int | None
    snapshot_ids: tuple[int, ...]
    """The snapshots that were named, whatever their age."""

    expiry: Expiry
    snapshots: tuple[Snapshot, ...] = ()
    """Those that expire, oldest first."""

    kept: int = 0
    table_uuid: str | None = None
    clean_metadata: bool = False
    """Whether schemas and partition specs that nothing uses any more are removed too."""

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
            f"made at {millis_to_text(snapshot.timestamp_ms)}"
            for snapshot in self.snapshots
        ]
        if self.clean_metadata:
            lines.append("  schemas and partition specs that nothing uses any more are removed")
        lines.append("  files that no other snapshot needs are deleted after the commit")
        return "\n".join(lines)

    __repr__ = __str__


@dataclass(frozen=True, slots=True, repr=False)
class Expired:
    """What expired, and what became of the files."""

    state: Committed
    snapshots: tuple[int, ...]
    refs: tuple[str, ...]
    removal: FileDeletions

    @property
    def deleted(self) -> Mapping[FileKind, int]:
        """How many files of each kind were deleted."""
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
    """What would expire now; nothing is changed.

    `older_than_ms` (a point in time) and `retain_last` take the place of the table's `history.expire.*` properties.
    Snapshots in `snapshot_ids` expire whatever their age; one that a branch or tag points at is an error. With
    `table_uuid` it must be that table, not another of its name.
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
    """As `plan_expire`, for a state that was read already."""
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
    gone = sorted(map(metadata.snapshot, expiry.snapshots), key=lambda snapshot: snapshot.timestamp_ms)
    return ExpirePlan(
        table,
        now_ms,
        older_than_ms,
        retain_last,
        tuple(dict.fromkeys(snapshot_ids)),
        expiry,
        tuple(gone),
        len(metadata.snapshots) - len(gone),
        metadata.table_uuid,
        clean_metadata,
    )


def apply_expire(
    pointer: Pointer, plan: ExpirePlan, *, delete_files: bool = True, executor: Executor | None = None
) -> Expired:
    """Carries a plan out: commits it, then deletes the files that nothing reaches any more.

    Less than was planned may expire, if somebody needs it meanwhile, but never more. Files outside the table's own
    folders are never deleted; nor is any file if something cannot be read.
    """
    change = ExpireSnapshots(plan, executor=executor)
    done = commit(pointer, [change], table_uuid=plan.table_uuid)
    gone = {id_: s for id_, s in change.tried.items() if id_ not in done.metadata.snapshots_by_id}
    refs = tuple(name for name in change.refs if name not in done.metadata.refs)
    removal = FileDeletions()
    if delete_files and gone and change.before is not None:
        removal = remove_unreachable(pointer, change.before, list(gone.values()), executor=executor)
    return Expired(done, tuple(gone), refs, removal)


class ExpireSnapshots:
    """The commit of a plan; `before` is the table as the last attempt found it, `tried` what all attempts removed."""

    def __init__(self, plan: ExpirePlan, *, executor: Executor | None = None) -> None:
        self.plan = plan
        self.before: TableMetadata | None = None
        self.tried: dict[int, Snapshot] = {}
        self.refs: tuple[str, ...] = ()
        self._executor = executor

    def updates(self, attempt: Attempt) -> Sequence[TableUpdate]:
        """What of the plan still expires in the table as it is now."""
        table = attempt.metadata
        expiry = self._still_expires(table)
        self.before = table
        self.refs = expiry.refs
        self.tried.update((snapshot_id, table.snapshot(snapshot_id)) for snapshot_id in expiry.snapshots)
        changes = list(expiry.updates())
        if self.plan.clean_metadata:
            changes += self._unused_layout(table, expiry, attempt.storage)
        return changes

    def _still_expires(self, table: TableMetadata) -> Expiry:
        pointed_at = {ref.snapshot_id for name, ref in table.refs.items() if name not in self.plan.expiry.refs}
        asked = [i for i in self.plan.snapshot_ids if i in table.snapshots_by_id and i not in pointed_at]
        now = plan_expiry(
            table,
            now_ms=self.plan.now_ms,
            older_than_ms=self.plan.older_than_ms,
            retain_last=self.plan.retain_last,
            snapshot_ids=asked,
        )
        refs = tuple(name for name in now.refs if name in self.plan.expiry.refs)
        # A ref that expires now but was not planned to is kept, and so is its snapshot.
        held = {ref.snapshot_id for name, ref in table.refs.items() if name not in refs}
        planned = set(self.plan.expiry.snapshots) - held
        return Expiry(refs, tuple(i for i in now.snapshots if i in planned))

    def _unused_layout(self, table: TableMetadata, expiry: Expiry, storage: Storage) -> Sequence[TableUpdate]:
        """Schemas that no snapshot was written with, and specs that no manifest uses, are removed."""
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


def _counted(count: int, what: str | FileKind) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _schemas_of_partitions(table: TableMetadata, spec_ids: Collection[int]) -> set[int]:
    """The schemas that tell the types of partition values: a spec lives on after its column was dropped."""
    newest_first = (table.schema, *reversed(table.schemas))
    specs = [spec for spec in table.partition_specs if spec.spec_id in spec_ids]
    sources = {source for spec in specs for field in spec.fields for source in field.source_ids}
    found = (next((schema for schema in newest_first if schema.find(source) is not None), None) for source in sources)
    return {schema.schema_id for schema in found if schema is not None}
