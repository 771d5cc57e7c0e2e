"""The pointer of a file-system table: a version is published by creating its file, which only one writer can.

Commit: the state of version N is read, and the next one is written to `v<N+1>` if there is no such file yet. What makes
this safe, also when old versions are deleted (`write.metadata.delete-after-commit.enabled`), tables are dropped and
created again, and writers are paused for any time:

**Numbers are not used twice.** A version that was deleted leaves its number free, and a writer that was paused since
could create it again: its commit would be reported as done and never be read. Three rules prevent it.

1. The newest version is never deleted by clean-up, and versions are deleted in their order: `v<K>` only when `v<K-1>`
   is gone. So while `v<N>` is there, `v<N+1>` was never deleted.
2. A writer reads its base `v<N>` right before it creates `v<N+1>`, and again afterwards. If the base is unchanged (its
   first bytes, with the table's UUID and the timestamp of the version, are the same), the number was never used: the
   commit is done.
3. Otherwise the versions are listed, and they decide (`_resolved`): if the table continued from another `v<N+1>`, or
   was dropped, the writer deletes its file and reports that it did not commit. If later versions were made from its
   file, it did commit. If neither can be shown, the outcome is unknown.

Why 3 is right: when later versions exist and `v<N+2>` does too, its metadata log names the file it was made from, with
its timestamp: ours or not. When `v<N+2>` was deleted but our file exists, ours was created after that deletion (by rule
1 ours would have been deleted first), so no version was made from it. When ours is the newest but its base was deleted,
the table was dropped, as nothing else deletes the version before the newest. Readers are not affected meanwhile: they
read the newest version, and that always exists.

**One name for each version.** Whether a version is compressed is decided by the properties of its base, the first one
never is; so all writers of a version create the same file. Java decides by the new properties, which differ in the
commit that changes them: therefore other spellings of the version are checked before and after, and a writer
that finds one deletes its own file.

**Responses may be lost.** `settle` reads the file: our bytes or those of another writer. If there is no file, the same
creation is sent again, and its outcome counts, since a file cannot be created twice.

Two cases cannot be prevented here. Java's writers rename onto the new version after a check that it does not exist,
which on a local disk replaces a file that was created in between. And a writer that is killed between its creation and
its second check leaves a file that rule 3 would have deleted.

All this needs exclusive creation of files; `StoreCheck` verifies it once for each store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from floe.catalog.file_system.versions import Version, VersionFolder, same_content, stat_or_none
from floe.catalog.metadata_files import (
    compressed,
    is_compressed,
    parse_metadata,
    read_metadata,
    read_metadata_bytes,
    removed_from_log,
)
from floe.commit.pointer import Outcome, Proposal, TableState
from floe.commit.roots import TableRoots, owned_folders
from floe.errors import (
    CommitConflict,
    FileAlreadyExists,
    FloeError,
    NoSuchFile,
    OutcomeUnknown,
    StorageError,
    TableAlreadyExists,
    UnsupportedFeature,
)
from floe.spec.json_reader import Limits
from floe.spec.metadata.file_names import parse_metadata_file_name
from floe.spec.metadata.requirements import TableRequirement
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import serialize
from floe.spec.metadata.updates import TableUpdate
from floe.spec.properties import METADATA_PATH
from floe.storage.access import allow_declared
from floe.storage.environment import Environment, Ids
from floe.storage.locations import join, parse, same_file
from floe.storage.protocol import Storage, verify_exclusive_creation

_TRUSTED_SCHEMES = frozenset({"file", "memory"})
"""Schemes of Floe's own storages, which need no check."""


class StoreCheck:
    """Called before each commit; the first call verifies that an external store creates files exclusively.

    >>> from floe.storage.environment import SystemIds
    >>> from floe.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> check = StoreCheck(storage, "s3://bucket/wh", SystemIds())
    >>> check()
    """

    def __init__(self, storage: Storage, folder: str, ids: Ids) -> None:
        self._storage, self._folder, self._ids = storage, folder, ids
        self._passed = storage.creates_exclusively and parse(folder).scheme in _TRUSTED_SCHEMES
        self._lock = threading.Lock()

    def __call__(self) -> None:
        """Raises `UnsupportedFeature` if writers could overwrite each other's commits here."""
        with self._lock:
            if not self._passed:
                verify_exclusive_creation(self._storage, self._folder, ids=self._ids)
                self._passed = True


_READ_ATTEMPTS = 5
_HEAD_BYTES = 4096
"""How much of a version file is compared to see whether it changed: UUID and timestamp are at its beginning."""


@dataclass(frozen=True, eq=False, slots=True)
class VersionState(TableState):
    """A table's state, its version file as of the read, and the first bytes of the file."""

    version: Version = field(kw_only=True)
    head: bytes = field(kw_only=True, repr=False)


def _no_check() -> None:
    """The checks of a table without a catalog: none."""


class FileSystemPointer:
    """The pointer to the table in a folder.

    `check_store` verifies that the store supports commits; `before_creation` and `after_creation` are the catalog's
    checks that a new table may have the name.

    >>> from floe.storage.memory import MemoryStorage
    >>> pointer = FileSystemPointer("db.orders", "memory:wh/db/orders", MemoryStorage(), Environment())
    >>> pointer.load() is None
    True
    """

    def __init__(
        self,
        name: str,
        folder: str,
        storage: Storage,
        environment: Environment,
        *,
        limits: Limits | None = None,
        roots: TableRoots | None = None,
        check_store: Callable[[], None] | None = None,
        before_creation: Callable[[], None] = _no_check,
        after_creation: Callable[[], None] = _no_check,
    ) -> None:
        self.name, self.folder = name, folder
        self.storage, self.environment = storage, environment
        self._check_store = check_store or StoreCheck(storage, folder, environment.ids)
        self.versions = VersionFolder(storage, join(folder, "metadata"))
        self._limits, self._roots = limits, roots
        self._before_creation, self._after_creation = before_creation, after_creation

    def __repr__(self) -> str:
        return f"FileSystemPointer({self.name!r}, {self.folder!r})"

    def load(self) -> VersionState | None:
        """The newest version; read again if a clean-up deletes it meanwhile."""
        missing: NoSuchFile | None = None
        for _ in range(_READ_ATTEMPTS):
            version = self.versions.newest()
            if version is None:
                return None
            try:
                return self._read(version)
            except NoSuchFile as error:
                missing = error
        assert missing is not None
        raise missing.with_context(table=self.name)

    def _read(self, version: Version) -> VersionState:
        data = read_metadata_bytes(self.storage, version.location, limits=self._limits)
        metadata = parse_metadata(data, version.location, limits=self._limits)
        if self._roots is not None:
            self._roots.allow_metadata(metadata)
        else:
            allow_declared(self.storage, owned_folders(metadata))
        return VersionState(metadata, version.location, version=version, head=data[:_HEAD_BYTES])

    # proposing -----------------------------------------------------------------------------------------------

    def propose(
        self,
        base: TableState | None,
        metadata: TableMetadata,
        *,
        updates: Sequence[TableUpdate] = (),
        requirements: Sequence[TableRequirement] = (),
    ) -> Proposal:
        """Chooses the file of the next version; nothing is written before the swap."""
        self._check_store()
        is_compressed(metadata)  # an invalid codec would make the commit after this one fail
        if METADATA_PATH.is_set(metadata.properties):
            raise UnsupportedFeature(
                "the metadata of a file-system table must be in its folder",
                hint=f"remove {METADATA_PATH}",
                table=self.name,
            )
        state = None if base is None else self._version_state(base)
        self._check_location(state, metadata)
        if state is None:
            self._before_creation()
            if self.versions.has_versions():
                raise _name_taken(self.name)
            number, gzipped = 1, False
        else:
            number, gzipped = state.version.number + 1, is_compressed(state.metadata)
        content = serialize(metadata)
        return Proposal(
            self,
            state,
            metadata,
            self.versions.location(number, compressed=gzipped),
            tuple(updates),
            tuple(requirements),
            compressed(content) if gzipped else content,
        )

    def _version_state(self, base: TableState) -> VersionState:
        """The base with its version; a base that did not come from `load` is compared with the current state."""
        if isinstance(base, VersionState):
            return base
        current = self.load()
        if current is None or not same_file(current.location, base.location) or current.metadata != base.metadata:
            raise CommitConflict("the table is not in the state that the change was made for", table=self.name)
        return current

    def _check_location(self, base: VersionState | None, metadata: TableMetadata) -> None:
        """Raise unless the location in the metadata is the table's folder."""
        if base is None:
            if not same_file(metadata.location, self.folder):
                raise UnsupportedFeature(
                    "a table of a file-system catalog cannot have its own location",
                    hint="leave out the location, or use a catalog in a database",
                    table=self.name,
                    location=metadata.location,
                    expected=self.folder,
                )
            return
        recorded = base.metadata.location
        if metadata.location.rstrip("/") != recorded.rstrip("/"):
            raise UnsupportedFeature(
                "a file-system table cannot be moved to another location",
                table=self.name,
                location=metadata.location,
                current=recorded,
            )
        if not same_file(recorded.rstrip("/"), self.folder.rstrip("/")):
            same_name = stat_or_none(self.storage, join(recorded, "metadata", base.location.rpartition("/")[2]))
            if not same_content(base.version.file, same_name):
                raise UnsupportedFeature(
                    "the table was copied or moved here: its metadata has another location, and new files would be "
                    "written there",
                    hint="open it with a prefix map from the recorded location to this one",
                    table=self.name,
                    recorded=recorded,
                    location=self.folder,
                )

    # publishing ----------------------------------------------------------------------------------------------

    def swap(self, proposal: Proposal) -> None:
        """Creates the version's file, unless another version was committed since the base."""
        self._check_before(proposal)
        self.versions.forget_checksum(proposal.location)
        try:
            self.storage.create(proposal.location, proposal.content)
        except FileAlreadyExists as error:
            # If a request was delivered twice, the second one finds the file of the first.
            if self._existing_content(proposal, error) != proposal.content:
                raise self._conflict(proposal) from None
        try:
            doubtful = self._is_in_doubt(proposal)
            outcome = self._resolved(proposal, arrived=True) if doubtful else self._confirmed(proposal)
        except FloeError as error:  # whatever went wrong, the file was created
            raise _unknown(proposal) from error
        if outcome is Outcome.UNKNOWN:
            raise _unknown(proposal)
        if outcome is Outcome.ABSENT:
            raise self._conflict(proposal)

    def settle(self, proposal: Proposal) -> Outcome:
        """Reads the version's file; sends its creation again if there is none and its base is still the newest."""
        try:
            content = self._read_or_none(proposal.location)
            if content is None and self._may_be_sent_again(proposal):
                try:
                    self.storage.create(proposal.location, proposal.content)
                except FileAlreadyExists:
                    content = self._read_or_none(proposal.location)
                else:
                    content = proposal.content
            if content == proposal.content and not self._is_in_doubt(proposal):
                return self._confirmed(proposal)
            return self._resolved(proposal, arrived=content is not None)
        except FloeError:
            return Outcome.UNKNOWN

    def discard(self, proposal: Proposal) -> None:
        """Does nothing: a proposal that is not published has no file."""

    def finish(self, proposal: Proposal) -> None:
        """Writes the hint and deletes old versions, as the table's properties say."""
        try:
            self.versions.write_hint(_number_of(proposal))
            self._clean(proposal)
        except Exception:  # the commit is done; hint and clean-up are optional
            return

    def _check_before(self, proposal: Proposal) -> None:
        """Raise, before anything is written, if the base is not the newest version any more."""
        base = _base_of(proposal)
        is_outdated = self.versions.has_versions() if base is None else not self._is_unchanged(base)
        if is_outdated or self._other_spellings(proposal):
            raise self._conflict(proposal)

    # outcomes ------------------------------------------------------------------------------------------------

    def _is_in_doubt(self, proposal: Proposal) -> bool:
        """Whether anything differs from the state after a plain success; if not, the number was never used (rule 2)."""
        base = _base_of(proposal)
        if base is None:
            return any(not same_file(version.location, proposal.location) for version in self.versions.files())
        file = stat_or_none(self.storage, proposal.location)
        hint = self.versions.read_hint()
        return (
            not self._is_unchanged(base)
            or file is None
            or file.size != len(proposal.content)
            or bool(self._other_spellings(proposal))
            or (hint is not None and hint > _number_of(proposal))
        )

    def _resolved(self, proposal: Proposal, *, arrived: bool) -> Outcome:
        """The outcome of a creation by the versions that exist now (rule 3); our file is deleted if it did not commit.

        `arrived` says that a file of its name exists, so that a delayed creation of ours cannot succeed any more.
        """
        outcome = self._outcome_by_versions(proposal)
        if outcome is Outcome.ABSENT and not arrived and self._read_or_none(proposal.location) is None:
            return Outcome.UNKNOWN
        if outcome is Outcome.ABSENT:
            self._take_back(proposal)
        return outcome

    def _confirmed(self, proposal: Proposal) -> Outcome:
        """Published, unless the catalog finds that a view took the name of a new table."""
        if proposal.base is None:
            try:
                self._after_creation()
            except TableAlreadyExists:
                if self.versions.find(2) is None:  # no later version was made from it
                    self._take_back(proposal)
                    return Outcome.ABSENT
        return Outcome.PUBLISHED

    def _outcome_by_versions(self, proposal: Proposal) -> Outcome:
        """Rule 3, without deleting anything."""
        number = _number_of(proposal)
        versions = self.versions.listed()
        newest = versions[-1].number if versions else 0
        if newest > number:
            return self._outcome_by_later_version(proposal, versions[-1])
        if newest < number or self._read_or_none(proposal.location) != proposal.content:
            return Outcome.ABSENT
        if self._other_spellings(proposal):
            return Outcome.ABSENT
        base = _base_of(proposal)
        return Outcome.PUBLISHED if base is None or self._is_unchanged(base) else Outcome.ABSENT

    def _outcome_by_later_version(self, proposal: Proposal, newest: Version) -> Outcome:
        """The outcome by a later version: its metadata log names the version that it was made from."""
        following = self.versions.find(_number_of(proposal) + 1)
        content = self._read_or_none(proposal.location)
        if following is None:
            if content == proposal.content:
                return Outcome.ABSENT  # the next version was deleted, and a published one of ours would have been too
            following = newest
        try:
            later = read_metadata(self.storage, following.location, limits=self._limits)
        except NoSuchFile:
            return Outcome.UNKNOWN  # deleted meanwhile; another attempt may succeed
        if _has_our_snapshots(later, proposal):
            return Outcome.PUBLISHED
        return Outcome.ABSENT if content not in (None, proposal.content) else _outcome_by_log(later, proposal)

    def _may_be_sent_again(self, proposal: Proposal) -> bool:
        """Whether the table is still in the state before the swap."""
        base, newest = _base_of(proposal), self.versions.newest()
        if base is None or newest is None:
            return base is None and newest is None
        return newest.number == base.version.number and self._is_unchanged(base)

    def _is_unchanged(self, state: VersionState) -> bool:
        """Whether the version file exists and is still the one that was read."""
        try:
            return self.storage.read_range(state.location, 0, _HEAD_BYTES) == state.head
        except NoSuchFile:
            return False

    def _other_spellings(self, proposal: Proposal) -> list[str]:
        return [
            location
            for location in self.versions.spellings(_number_of(proposal))
            if not same_file(location, proposal.location) and self.storage.exists(location)
        ]

    def _read_or_none(self, location: str) -> bytes | None:
        try:
            return self.storage.read(location)
        except NoSuchFile:
            return None

    def _existing_content(self, proposal: Proposal, conflict: FileAlreadyExists) -> bytes | None:
        try:
            return self._read_or_none(proposal.location)
        except StorageError as error:
            error.add_note(str(conflict))
            raise _unknown(proposal) from error

    def _take_back(self, proposal: Proposal) -> None:
        """Deletes our file, if it is still ours."""
        if self._read_or_none(proposal.location) == proposal.content:
            self.storage.delete_many([proposal.location])

    def _conflict(self, proposal: Proposal) -> FloeError:
        """The error of a commit that another writer preceded."""
        if proposal.base is None:
            return _name_taken(self.name)
        return CommitConflict("another writer committed first", table=self.name, version=_number_of(proposal))

    # cleaning up and dropping --------------------------------------------------------------------------------

    def _clean(self, proposal: Proposal) -> None:
        """Deletes versions that left the log, and all before them, oldest first (rule 1)."""
        base = _base_of(proposal)
        if base is None:
            return
        names = [parse_metadata_file_name(file) for file in removed_from_log(base.metadata, proposal.metadata)]
        numbers = [
            name.version for name in names if name is not None and name.is_file_system and name.version is not None
        ]
        for number in sorted(number for number in numbers if number < base.version.number):
            self._delete_up_to(number)

    def _delete_up_to(self, number: int) -> None:
        """Deletes a version and the consecutive versions before it, oldest first."""
        first = number
        while first > 1 and self.versions.find(first - 1) is not None:
            first -= 1
        for version in range(first, number + 1):
            self.versions.delete(self.versions.spellings(version))

    def remove(self, state: VersionState) -> None:
        """Deletes all versions up to a state's, oldest first: with the last one the table is dropped.

        A later version that is committed meanwhile stays, and with it the table.
        """
        files = self.versions.files()
        self.versions.delete(file.location for file in files if file.number <= state.version.number)
        if not self.versions.has_versions():
            self.versions.delete([self.versions.hint_location])


def _number_of(proposal: Proposal) -> int:
    """The version number of a proposal."""
    base = _base_of(proposal)
    return 1 if base is None else base.version.number + 1


def _base_of(proposal: Proposal) -> VersionState | None:
    base = proposal.base
    assert base is None or isinstance(base, VersionState)
    return base


def _new_snapshots(proposal: Proposal) -> set[int]:
    before = set() if proposal.base is None else set(proposal.base.metadata.snapshots_by_id)
    return set(proposal.metadata.snapshots_by_id) - before


def _has_our_snapshots(later: TableMetadata, proposal: Proposal) -> bool:
    """Whether later metadata has a new snapshot of the proposal, or a child of one."""
    new = _new_snapshots(proposal)
    return any(snapshot.snapshot_id in new or snapshot.parent_snapshot_id in new for snapshot in later.snapshots)


def _outcome_by_log(later: TableMetadata, proposal: Proposal) -> Outcome:
    """Whether later metadata was made from ours: its log has our version, with our timestamp or another."""
    ours = proposal.metadata
    if None not in (later.table_uuid, ours.table_uuid) and later.table_uuid != ours.table_uuid:
        return Outcome.ABSENT
    for entry in reversed(later.metadata_log):
        name = parse_metadata_file_name(entry.metadata_file)
        if name is not None and name.is_file_system and name.version == _number_of(proposal):
            same_name = entry.metadata_file.rpartition("/")[2] == proposal.location.rpartition("/")[2]
            if not same_name or entry.timestamp_ms != ours.last_updated_ms:
                return Outcome.ABSENT
            # Another writer may have committed in the same millisecond; that our snapshots are missing suggests it.
            return Outcome.UNKNOWN if _new_snapshots(proposal) else Outcome.PUBLISHED
    return Outcome.UNKNOWN


def _name_taken(name: str) -> TableAlreadyExists:
    return TableAlreadyExists("there is a table of that name already", table=name)


def _unknown(proposal: Proposal) -> OutcomeUnknown:
    return OutcomeUnknown(
        "the commit may or may not have been published",
        hint="read the table to find out",
        table=proposal.pointer.name,
        location=proposal.location,
    )
