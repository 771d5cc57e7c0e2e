"""The pointer of a file-system table: a version is published by creating its file, which only one writer can.

Commit: the state of version N is read, the next one is written to `v<N+1>` if there is no such file yet. What makes
this safe, also when old versions are deleted (`write.metadata.delete-after-commit.enabled`), tables are dropped and
made anew, and writers stand still for as long as they like:

**Numbers are not used twice.** A version that was deleted leaves its number free, and a writer that stood still since
could create it again: its commit would be told as done and never seen. Three rules exclude it.

1. The newest version is never deleted by clean-up, and versions are deleted in their order: `v<K>` only when `v<K-1>`
   is gone. So while `v<N>` is there, `v<N+1>` was never deleted.
2. A writer looks at its base `v<N>` right before it creates `v<N+1>`, and again afterwards. If the base is there
   unchanged (it begins as it did, with the table's uuid and the time of the version), the number was never used: the
   commit stands.
3. Otherwise the versions are listed, and what is there decides (`_resolved`): if the table went on from another
   `v<N+1>`, or was dropped, the writer takes its file back and says that it did not commit. If others built upon it,
   it did. If nobody can tell, the outcome is unknown.

Why 3 is right: when later versions exist and `v<N+2>` does too, its metadata log names the file it was made from, with
its time: ours or not. When `v<N+2>` was deleted but our file is there, ours came after that deletion (by rule 1 ours
would have been deleted first), so nobody built upon it. When ours is the newest but its base is gone, the table was
dropped, as nothing else deletes the version before the newest. Meanwhile readers are not misled: they look for the
newest version, and that is always there.

**One name for each version.** Whether a version is compressed is decided by the properties of its base, the first one
never is; so all writers of a version create the same file. Java decides by the new properties, which differ in the
commit that changes them: therefore other spellings of the version are looked for before and after, and a writer that
finds one takes its own back.

**Answers may be lost.** `settle` reads the file: our bytes or others'. If there is none, the very same creation is sent
again, which decides the matter, for it cannot happen twice.

What cannot be excluded from here: Java's own writers rename onto the new version after looking that it is not there,
which on a local disk replaces a file that was created in between. And a writer that is killed in the moment between its
creation and its second look leaves its file in a place where rule 3 would have taken it back.

The check, once for each store, that it creates files exclusively: what commits to file-system tables rest on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from floe.catalog.file_system.versions import Version, VersionFolder, same_content, stat_if_there
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

# The check, once for each store, that it creates files exclusively: what commits to file-system tables rest on.

_KNOWN = frozenset({"file", "memory"})
"""Schemes whose storages are our own and need no trial."""


class StoreCheck:
    """Called before a commit; the first time, a store that somebody else runs is put to a trial.

    >>> from floe.storage.environment import SystemIds
    >>> from floe.storage.memory import MemoryStorage
    >>> storage = MemoryStorage()
    >>> check = StoreCheck(storage, "s3://bucket/wh", SystemIds())
    >>> check()
    """

    def __init__(self, storage: Storage, folder: str, ids: Ids) -> None:
        self._storage, self._folder, self._ids = storage, folder, ids
        self._passed = storage.creates_exclusively and parse(folder).scheme in _KNOWN
        self._lock = threading.Lock()

    def __call__(self) -> None:
        """Raises `UnsupportedFeature` if writers could overwrite each other's commits here."""
        with self._lock:
            if not self._passed:
                verify_exclusive_creation(self._storage, self._folder, ids=self._ids)
                self._passed = True


_READ_ATTEMPTS = 5
_HEAD_BYTES = 4096
"""How much of a version is compared to tell whether it is still the same: identity and time stand at its beginning."""


@dataclass(frozen=True, eq=False, slots=True)
class VersionState(TableState):
    """A table's state, the version file as it was when it was read, and how it begins."""

    version: Version = field(kw_only=True)
    head: bytes = field(kw_only=True, repr=False)


def _nothing() -> None:
    """What a table without a catalog checks before it is created."""


class FileSystemPointer:
    """The pointer to the table in a folder.

    `check_store` makes sure that the store is fit for commits; `before_creation` and `after_creation` are the catalog's
    checks that the name may be given to a new table.

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
        before_creation: Callable[[], None] = _nothing,
        after_creation: Callable[[], None] = _nothing,
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
        """The newest version; looked for again if it is cleaned away while it is read."""
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
            self._roots.loaded(metadata)
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
        is_compressed(metadata)  # a codec that does not exist would stop the commit after this one
        if METADATA_PATH.is_set(metadata.properties):
            raise UnsupportedFeature(
                "the metadata of a file-system table cannot be elsewhere than in its folder",
                hint=f"leave out {METADATA_PATH}",
                table=self.name,
            )
        state = None if base is None else self._version_state(base)
        self._check_location(state, metadata)
        if state is None:
            self._before_creation()
            if self.versions.has_versions():
                raise _taken(self.name)
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
        """The base with its version; one that did not come from `load` is compared with what is there."""
        if isinstance(base, VersionState):
            return base
        current = self.load()
        if current is None or not same_file(current.location, base.location) or current.metadata != base.metadata:
            raise CommitConflict("the table is not in the state that the change was made for", table=self.name)
        return current

    def _check_location(self, base: VersionState | None, metadata: TableMetadata) -> None:
        """A file-system table lives in its folder; what its metadata says must lead there."""
        if base is None:
            if not same_file(metadata.location, self.folder):
                raise UnsupportedFeature(
                    "a table of a file-system catalog cannot have a location of its own",
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
            there = stat_if_there(self.storage, join(recorded, "metadata", base.location.rpartition("/")[2]))
            if not same_content(base.version.file, there):
                raise UnsupportedFeature(
                    "the table was copied or moved here: its metadata says that it is elsewhere, and new files would "
                    "land there",
                    hint="open it with a prefix map from the recorded location to this one",
                    table=self.name,
                    recorded=recorded,
                    location=self.folder,
                )

    # publishing ----------------------------------------------------------------------------------------------

    def swap(self, proposal: Proposal) -> None:
        """Creates the version's file, unless the table has moved on."""
        self._check_before(proposal)
        self.versions.forget_checksum(proposal.location)
        try:
            self.storage.create(proposal.location, proposal.content)
        except FileAlreadyExists as error:
            # Where a transport delivers twice, the first delivery stands in the way of the second.
            if self._held(proposal, error) != proposal.content:
                raise self._lost(proposal) from None
        try:
            doubtful = self._is_in_doubt(proposal)
            outcome = self._resolved(proposal, arrived=True) if doubtful else self._confirmed(proposal)
        except FloeError as error:  # whatever went wrong, the file was created
            raise _unknown(proposal) from error
        if outcome is Outcome.UNKNOWN:
            raise _unknown(proposal)
        if outcome is Outcome.ABSENT:
            raise self._lost(proposal)

    def settle(self, proposal: Proposal) -> Outcome:
        """Reads the version's file; creates it again if there is none and its base is still the newest version."""
        try:
            held = self._read_if_there(proposal.location)
            if held is None and self._may_be_sent_again(proposal):
                try:
                    self.storage.create(proposal.location, proposal.content)
                except FileAlreadyExists:
                    held = self._read_if_there(proposal.location)
                else:
                    held = proposal.content
            if held == proposal.content and not self._is_in_doubt(proposal):
                return self._confirmed(proposal)
            return self._resolved(proposal, arrived=held is not None)
        except FloeError:
            return Outcome.UNKNOWN

    def discard(self, proposal: Proposal) -> None:
        """Does nothing: a proposal that is not published has no file."""

    def finish(self, proposal: Proposal) -> None:
        """Writes the hint and deletes old versions, as the table's properties say."""
        try:
            self.versions.write_hint(_number_of(proposal))
            self._clean(proposal)
        except Exception:  # the commit is done; hint and clean-up are for convenience
            return

    def _check_before(self, proposal: Proposal) -> None:
        """Raise if the base is not the newest version any more; nothing has happened yet."""
        base = _base_of(proposal)
        moved = self.versions.has_versions() if base is None else not self._is_there(base)
        if moved or self._other_spellings(proposal):
            raise self._lost(proposal)

    # what became of it ---------------------------------------------------------------------------------------

    def _is_in_doubt(self, proposal: Proposal) -> bool:
        """Whether anything is not as it is after a plain success; if not, the number was never used (rule 2)."""
        base = _base_of(proposal)
        if base is None:
            others = [v for v in self.versions.files() if not same_file(v.location, proposal.location)]
            return bool(others)
        own = stat_if_there(self.storage, proposal.location)
        hint = self.versions.read_hint()
        return (
            not self._is_there(base)
            or own is None
            or own.size != len(proposal.content)
            or bool(self._other_spellings(proposal))
            or (hint is not None and hint > _number_of(proposal))
        )

    def _resolved(self, proposal: Proposal, *, arrived: bool) -> Outcome:
        """What became of a creation, by all that is there now (rule 3); our file is taken back if it is in vain.

        `arrived` says that there was a file of its name already, ours or others', so that ours cannot come later.
        """
        outcome = self._found_out(proposal)
        if outcome is Outcome.ABSENT and not arrived and self._read_if_there(proposal.location) is None:
            return Outcome.UNKNOWN
        if outcome is Outcome.ABSENT:
            self._take_back(proposal)
        return outcome

    def _confirmed(self, proposal: Proposal) -> Outcome:
        """Published, unless the catalog finds that the name of a new table is not free after all."""
        if proposal.base is None:
            try:
                self._after_creation()
            except TableAlreadyExists:
                if self.versions.find(2) is None:  # nobody has built upon it
                    self._take_back(proposal)
                    return Outcome.ABSENT
        return Outcome.PUBLISHED

    def _found_out(self, proposal: Proposal) -> Outcome:
        number = _number_of(proposal)
        versions = self.versions.listed()
        newest = versions[-1].number if versions else 0
        if newest > number:
            return self._found_in_later(proposal, versions[-1])
        if newest < number or self._read_if_there(proposal.location) != proposal.content:
            return Outcome.ABSENT
        if self._other_spellings(proposal):
            return Outcome.ABSENT
        base = _base_of(proposal)
        return Outcome.PUBLISHED if base is None or self._is_there(base) else Outcome.ABSENT

    def _found_in_later(self, proposal: Proposal, newest: Version) -> Outcome:
        """What later versions tell: the next one names what it was made from."""
        following = self.versions.find(_number_of(proposal) + 1)
        held = self._read_if_there(proposal.location)
        if following is None:
            if held == proposal.content:
                return Outcome.ABSENT  # the next one was deleted, before which ours would have been
            following = newest
        try:
            later = read_metadata(self.storage, following.location, limits=self._limits)
        except NoSuchFile:
            return Outcome.UNKNOWN  # deleted under our eyes; asked again, the answer may be found
        if _has_our_snapshots(later, proposal):
            return Outcome.PUBLISHED
        return Outcome.ABSENT if held not in (None, proposal.content) else _told_by_log(later, proposal)

    def _may_be_sent_again(self, proposal: Proposal) -> bool:
        """Whether the table is still where it was before the swap."""
        base, newest = _base_of(proposal), self.versions.newest()
        if base is None or newest is None:
            return base is None and newest is None
        return newest.number == base.version.number and self._is_there(base)

    def _is_there(self, state: VersionState) -> bool:
        """Whether a version is there and still the one that was read."""
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

    def _read_if_there(self, location: str) -> bytes | None:
        try:
            return self.storage.read(location)
        except NoSuchFile:
            return None

    def _held(self, proposal: Proposal, taken: FileAlreadyExists) -> bytes | None:
        try:
            return self._read_if_there(proposal.location)
        except StorageError as error:
            error.add_note(str(taken))
            raise _unknown(proposal) from error

    def _take_back(self, proposal: Proposal) -> None:
        """Deletes our file from a place where it means nothing, if it is still ours."""
        if self._read_if_there(proposal.location) == proposal.content:
            self.storage.delete_many([proposal.location])

    def _lost(self, proposal: Proposal) -> FloeError:
        if proposal.base is None:
            return _taken(self.name)
        return CommitConflict("somebody else committed first", table=self.name, version=_number_of(proposal))

    # cleaning up and dropping --------------------------------------------------------------------------------

    def _clean(self, proposal: Proposal) -> None:
        """Deletes versions that left the log, oldest first, and those below them, so that no later one goes before."""
        base = _base_of(proposal)
        if base is None:
            return
        gone = [parse_metadata_file_name(file) for file in removed_from_log(base.metadata, proposal.metadata)]
        numbers = [
            name.version for name in gone if name is not None and name.is_file_system and name.version is not None
        ]
        for number in sorted(number for number in numbers if number < base.version.number):
            self._delete_up_to(number)

    def _delete_up_to(self, number: int) -> None:
        """Deletes a version and the unbroken row of versions before it, in their order."""
        first = number
        while first > 1 and self.versions.find(first - 1) is not None:
            first -= 1
        for n in range(first, number + 1):
            self.versions.delete(self.versions.spellings(n))

    def remove(self, state: VersionState) -> None:
        """Deletes all versions up to a state's in their order: until the last the table is there, then it is gone.

        A later version that somebody commits meanwhile stays, and with it the table.
        """
        files = self.versions.files()
        self.versions.delete(file.location for file in files if file.number <= state.version.number)
        if not self.versions.has_versions():
            self.versions.delete([self.versions.hint_location])


def _number_of(proposal: Proposal) -> int:
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
    """Whether later metadata has a snapshot that only ours can have brought, or one made from it."""
    new = _new_snapshots(proposal)
    return any(snapshot.snapshot_id in new or snapshot.parent_snapshot_id in new for snapshot in later.snapshots)


def _told_by_log(later: TableMetadata, proposal: Proposal) -> Outcome:
    """Whether later metadata was made from ours: its log names our version, with our time or another."""
    ours = proposal.metadata
    if None not in (later.table_uuid, ours.table_uuid) and later.table_uuid != ours.table_uuid:
        return Outcome.ABSENT
    for entry in reversed(later.metadata_log):
        found = parse_metadata_file_name(entry.metadata_file)
        if found is not None and found.is_file_system and found.version == _number_of(proposal):
            same = entry.metadata_file.rpartition("/")[2] == proposal.location.rpartition("/")[2]
            if not same or entry.timestamp_ms != ours.last_updated_ms:
                return Outcome.ABSENT
            # Others may have committed in the very same millisecond; a snapshot that is not there speaks against us.
            return Outcome.UNKNOWN if _new_snapshots(proposal) else Outcome.PUBLISHED
    return Outcome.UNKNOWN


def _taken(name: str) -> TableAlreadyExists:
    return TableAlreadyExists("there is a table of that name already", table=name)


def _unknown(proposal: Proposal) -> OutcomeUnknown:
    return OutcomeUnknown(
        "the commit may have been published or not",
        hint="read the table to find out",
        table=proposal.pointer.name,
        location=proposal.location,
    )
