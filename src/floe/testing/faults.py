"""Storages that fail on purpose: at the n-th call, before or after it happened, or without telling.

A test runs an operation once with a `FaultyStorage` that never fails, to count its calls; then once for every call and
every kind of fault. Whatever happens, no acknowledged commit may be lost and none doubled.

Catalogs that fail on purpose: at the n-th call, before or after it happened, or without telling.

The companion of `floe.testing.faults` for catalogs: a test runs an operation once with a `FaultyCatalog` that never
fails, to count its calls, then once for every call and every kind of fault. What a fault looks like depends on what the
call promises:

| calls | before it happened | with a lost answer |
|---|---|---|
| `swap`, `swap_all` | `CatalogUnavailable` | `OutcomeUnknown` |
| `drop_table`, `create_namespace` and all others that change the catalog | `CatalogUnavailable` | `CommitStateUnknown` |
| `discard`, `finish`, which never raise | it is not done, and nobody hears of it | nobody hears of it |
| all others | `CatalogUnavailable` | `CatalogUnavailable` |
"""  # noqa: E501 (a table)

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import BinaryIO, Final, TypeVar

from floe.catalog.identifiers import Identifier, Namespace
from floe.catalog.protocol import Capability, Catalog
from floe.commit.pointer import Outcome, Pointer, Proposal, SharedSwap, TableState
from floe.errors import (
    CatalogUnavailable,
    CommitStateUnknown,
    FloeError,
    OutcomeUnknown,
    StorageError,
    StorageUnavailable,
)
from floe.spec.metadata.requirements import TableRequirement
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import TableUpdate
from floe.spec.views.view_metadata import ViewMetadata
from floe.storage.environment import Environment
from floe.storage.file_objects import open_ranges
from floe.storage.protocol import Data, Deletion, FileInfo, FileWriter, Storage
from floe.storage.wrappers import StorageWrapper

T = TypeVar("T")

_WRITES = frozenset({"write", "create", "close_write", "delete_many"})


class Fault(Enum):
    """What goes wrong with a call."""

    BEFORE = "before"
    """It fails, and nothing happened: `StorageUnavailable`."""

    LOST_ANSWER = "lost answer"
    """It happens, and the answer is lost: `OutcomeUnknown` for writes, `StorageUnavailable` for reads."""

    LOST_REQUEST = "lost request"
    """It does not happen, and nobody can tell: `OutcomeUnknown` for writes, `StorageUnavailable` for reads."""

    DELAYED = "delayed"
    """As a lost answer, but a write happens only after the next call (or at `settle`)."""

    TWICE = "twice"
    """It is delivered twice, as when a transport re-sends, and the second answer is told: a `create` that succeeded
    then says `FileAlreadyExists`."""

    CRASH_BEFORE = "crash before"
    """The process ends before it happened: `SimulatedCrash`, here and at every later call."""

    CRASH_AFTER = "crash after"
    """The process ends after it happened."""


class SimulatedCrash(BaseException):
    """The process ended here; not an `Exception`, so that no handler of the code under test survives it."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a storage."""

    operation: str
    location: str


class FaultyStorage(StorageWrapper):
    """A storage that counts its calls, and fails at the `at`-th (from 1) of those that `only` names (default: all).

    Streams count as `open_write` and `close_write`; reads of an opened file count as `read_range`.

    >>> from floe.storage.memory import MemoryStorage
    >>> files = MemoryStorage()
    >>> storage = FaultyStorage(files, Fault.LOST_ANSWER, at=1, only={"create"})
    >>> storage.exists("memory:v1")
    False
    >>> storage.create("memory:v1", b"1")
    Traceback (most recent call last):
    floe.errors.OutcomeUnknown: a fault was injected: lost answer (location: memory:v1, operation: create)
    >>> files.read("memory:v1"), [call.operation for call in storage.calls]
    (b'1', ['exists', 'create'])
    """

    def __init__(
        self, storage: Storage, fault: Fault | None = None, *, at: int = 0, only: Iterable[str] | None = None
    ) -> None:
        super().__init__(storage)
        self.fault, self.at = fault, at
        self.only = None if only is None else frozenset(only)
        self.calls: list[Call] = []
        self.happened = False
        self._matching = 0
        self._crashed = False
        self._pending: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"FaultyStorage({self.storage!r}, {self.fault}, at={self.at})"

    def settle(self) -> None:
        """Lets delayed writes happen now."""
        pending, self._pending = self._pending, []
        for action in pending:
            try:
                action()
            except StorageError:
                continue  # a write that comes too late and fails, fails unheard

    def open_read(self, location: str) -> BinaryIO:
        """The file, whose reads may fail too."""
        return open_ranges(self, location)

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """A stream, whose closing may fail too."""
        return _FaultyWriter(self, super().open_write(location, overwrite=overwrite))

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Deletes the files; an empty list is no call."""
        asked = list(locations)
        return super().delete_many(asked) if asked else []

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """The files below a folder, listed at once."""
        return iter(self._run("list", prefix, lambda: list(self.storage.list(prefix))))

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """A whole file, whose bytes are taken now even if the write is delayed."""
        super().write(location, bytes(data), overwrite=overwrite)

    def create(self, location: str, data: Data) -> None:
        """A new file, whose bytes are taken now even if the creation is delayed."""
        super().create(location, bytes(data))

    def _run(self, operation: str, location: str, action: Callable[[], T]) -> T:
        if self._crashed:
            raise SimulatedCrash("the process ended before")
        self.calls.append(Call(operation, location))
        if self.only is None or operation in self.only:
            self._matching += 1
            if self.fault is not None and not self.happened and self._matching == self.at:
                self.happened = True
                return self._fail(self.fault, operation, location, action)
        try:
            return action()
        finally:
            self.settle()

    def _fail(self, fault: Fault, operation: str, location: str, action: Callable[[], T]) -> T:
        kind = OutcomeUnknown if operation in _WRITES and fault is not Fault.BEFORE else StorageUnavailable
        error = kind(f"a fault was injected: {fault.value}", location=location, operation=operation)
        if fault in (Fault.LOST_ANSWER, Fault.CRASH_AFTER, Fault.TWICE):
            result = action()
            if fault is Fault.TWICE:
                return action() if operation in _WRITES - {"close_write"} else result
        elif fault is Fault.DELAYED and operation in _WRITES:
            self._pending.append(action)
        if fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            self._crashed = True
            raise SimulatedCrash(f"{fault.value}: {operation} {location}")
        raise error


class _FaultyWriter(FileWriter):
    """A stream whose closing is a call of its own."""

    def __init__(self, storage: FaultyStorage, inner: FileWriter) -> None:
        super().__init__(inner.location)
        self._storage, self._inner = storage, inner

    def _append(self, data: Data) -> None:
        self._inner.write(data)

    def _publish(self) -> None:
        self._storage._run("close_write", self.location, self._inner.close)

    def _discard(self) -> None:
        self._inner.abort()


# Catalogs that fail on purpose: at the n-th call, before or after it happened, or without telling.

CATALOG_SWAPS: Final = frozenset({"swap", "swap_all"})
"""The calls that publish changes of tables."""

CATALOG_CHANGES: Final = frozenset(
    {
        "create_namespace",
        "create_view",
        "drop_namespace",
        "drop_table",
        "drop_view",
        "register_table",
        "rename_table",
        "rename_view",
        "replace_view",
        "update_namespace",
    }
)
"""The calls that change the catalog itself."""

_SETTLES: Final = frozenset({"settle", "settle_all"})
_SILENT: Final = frozenset({"discard", "finish"})


class FaultyCatalog:
    """A catalog that counts its calls and those of its pointers, and fails at the `at`-th (from 1) that `only` names.

    A fault that is an exception of its own, such as a `KeyboardInterrupt`, is raised after the call happened. A swap
    that is delayed happens at `arrive`; until then nobody can tell what became of it. Of calls that are delivered
    twice, swaps tell the second answer, and others the first.

    >>> from floe.catalog.memory import MemoryCatalog
    >>> catalog = FaultyCatalog(MemoryCatalog(), Fault.LOST_ANSWER, at=1, only={"create_namespace"})
    >>> catalog.create_namespace(("db",))
    Traceback (most recent call last):
    floe.errors.CommitStateUnknown: a fault was injected: lost answer (operation: create_namespace)
    >>> catalog.namespace_exists(("db",)), [call.operation for call in catalog.calls]
    (True, ['create_namespace', 'namespace_exists'])
    """

    def __init__(
        self,
        catalog: Catalog,
        fault: Fault | BaseException | None = None,
        *,
        at: int = 0,
        only: Iterable[str] | None = None,
    ) -> None:
        self.catalog = catalog
        self.fault, self.at = fault, at
        self.only = None if only is None else frozenset(only)
        self.calls: list[Call] = []
        self.happened = False
        self._matching = 0
        self._crashed = False
        self._pending: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"FaultyCatalog({self.catalog!r}, {self.fault}, at={self.at})"

    def arrive(self) -> None:
        """Lets delayed calls happen now; what comes too late fails unheard."""
        pending, self._pending = self._pending, []
        for action in pending:
            try:
                action()
            except FloeError:
                continue

    # what it is --------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The catalog's name."""
        return self.catalog.name

    @property
    def properties(self) -> Mapping[str, str]:
        """What the catalog was opened with."""
        return self.catalog.properties

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the catalog can."""
        return self.catalog.capabilities

    @property
    def shared(self) -> SharedSwap | None:
        """The catalog's swap of several tables, which may fail too."""
        inner = self.catalog.shared
        return None if inner is None else _FaultyShared(self, inner)

    def close(self) -> None:
        """Closes the catalog; this never fails."""
        self.catalog.close()

    # namespaces --------------------------------------------------------------------------------------------------

    def namespaces(self, parent: Namespace = ()) -> Sequence[Namespace]:
        """The namespaces directly below another one."""
        return self._run("namespaces", parent, lambda: self.catalog.namespaces(parent))

    def namespace_exists(self, namespace: Namespace) -> bool:
        """Whether there is such a namespace."""
        return self._run("namespace_exists", namespace, lambda: self.catalog.namespace_exists(namespace))

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str] | None = None) -> None:
        """Makes a namespace."""
        self._run("create_namespace", namespace, lambda: self.catalog.create_namespace(namespace, properties))

    def drop_namespace(self, namespace: Namespace) -> None:
        """Removes a namespace."""
        self._run("drop_namespace", namespace, lambda: self.catalog.drop_namespace(namespace))

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        """The properties of a namespace."""
        return self._run("namespace_properties", namespace, lambda: self.catalog.namespace_properties(namespace))

    def update_namespace(
        self, namespace: Namespace, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> None:
        """Sets and removes properties."""
        gone = tuple(removals)
        self._run("update_namespace", namespace, lambda: self.catalog.update_namespace(namespace, updates, gone))

    # tables ------------------------------------------------------------------------------------------------------

    def tables(self, namespace: Namespace) -> Sequence[Identifier]:
        """The tables directly in a namespace."""
        return self._run("tables", namespace, lambda: self.catalog.tables(namespace))

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether there is such a table."""
        return self._run("table_exists", identifier, lambda: self.catalog.table_exists(identifier))

    def pointer(self, identifier: Identifier) -> Pointer:
        """The pointer to a table, whose calls may fail too."""
        return _FaultyPointer(self, self.catalog.pointer(identifier))

    def default_location(self, identifier: Identifier) -> str:
        """Where a new table puts its files."""
        return self._run("default_location", identifier, lambda: self.catalog.default_location(identifier))

    def drop_table(self, identifier: Identifier, *, purge: bool = False) -> None:
        """Removes a table."""
        self._run("drop_table", identifier, lambda: self.catalog.drop_table(identifier, purge=purge))

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """Gives a table another name."""
        self._run("rename_table", old, lambda: self.catalog.rename_table(old, new))

    def register_table(self, identifier: Identifier, metadata_location: str) -> None:
        """Makes a table of a metadata file."""
        self._run("register_table", identifier, lambda: self.catalog.register_table(identifier, metadata_location))

    # views -------------------------------------------------------------------------------------------------------

    def views(self, namespace: Namespace) -> Sequence[Identifier]:
        """The views directly in a namespace."""
        return self._run("views", namespace, lambda: self.catalog.views(namespace))

    def view_exists(self, identifier: Identifier) -> bool:
        """Whether there is such a view."""
        return self._run("view_exists", identifier, lambda: self.catalog.view_exists(identifier))

    def load_view(self, identifier: Identifier) -> ViewMetadata:
        """A view."""
        return self._run("load_view", identifier, lambda: self.catalog.load_view(identifier))

    def create_view(self, identifier: Identifier, metadata: ViewMetadata) -> None:
        """Makes a view."""
        self._run("create_view", identifier, lambda: self.catalog.create_view(identifier, metadata))

    def replace_view(self, identifier: Identifier, base: ViewMetadata, metadata: ViewMetadata) -> None:
        """Changes a view."""
        self._run("replace_view", identifier, lambda: self.catalog.replace_view(identifier, base, metadata))

    def drop_view(self, identifier: Identifier) -> None:
        """Removes a view."""
        self._run("drop_view", identifier, lambda: self.catalog.drop_view(identifier))

    def rename_view(self, old: Identifier, new: Identifier) -> None:
        """Gives a view another name."""
        self._run("rename_view", old, lambda: self.catalog.rename_view(old, new))

    # failing -----------------------------------------------------------------------------------------------------

    def _run(self, operation: str, name: Sequence[str], action: Callable[[], T]) -> T:
        if self._crashed:
            raise SimulatedCrash("the process ended before")
        self.calls.append(Call(operation, ".".join(name)))
        if self.only is None or operation in self.only:
            self._matching += 1
            if self.fault is not None and not self.happened and self._matching == self.at:
                self.happened = True
                return self._fail(self.fault, operation, action)
        if operation in _SETTLES and self._pending:
            return Outcome.UNKNOWN  # type: ignore[return-value]  # the swap is under way: it may still arrive
        return action()

    def _fail(self, fault: Fault | BaseException, operation: str, action: Callable[[], T]) -> T:
        if isinstance(fault, BaseException):
            action()
            raise fault
        changes = operation in CATALOG_SWAPS or operation in CATALOG_CHANGES
        if fault in (Fault.LOST_ANSWER, Fault.CRASH_AFTER, Fault.TWICE):
            result = action()
            if fault is Fault.TWICE:
                return action() if operation in CATALOG_SWAPS else result
        elif fault is Fault.DELAYED and changes:
            self._pending.append(action)
        if fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            self._crashed = True
            raise SimulatedCrash(f"{fault.value}: {operation}")
        if operation in _SILENT:
            return None  # type: ignore[return-value]
        raise _error(fault, operation)


def _error(fault: Fault, operation: str) -> FloeError:
    kind: type[FloeError] = CatalogUnavailable
    if fault is not Fault.BEFORE and operation in CATALOG_SWAPS:
        kind = OutcomeUnknown
    elif fault is not Fault.BEFORE and operation in CATALOG_CHANGES:
        kind = CommitStateUnknown
    return kind(f"a fault was injected: {fault.value}", operation=operation)


class _FaultyPointer:
    """A pointer whose calls are counted by the catalog that gave it out."""

    def __init__(self, catalog: FaultyCatalog, inner: Pointer) -> None:
        self._catalog = catalog
        self._inner = inner

    def __repr__(self) -> str:
        return f"faulty {self._inner!r}"

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def storage(self) -> Storage:
        return self._inner.storage

    @property
    def environment(self) -> Environment:
        return self._inner.environment

    def load(self) -> TableState | None:
        return self._run("load", self._inner.load)

    def propose(
        self,
        base: TableState | None,
        metadata: TableMetadata,
        *,
        updates: Sequence[TableUpdate] = (),
        requirements: Sequence[TableRequirement] = (),
    ) -> Proposal:
        return self._run(
            "propose", lambda: self._inner.propose(base, metadata, updates=updates, requirements=requirements)
        )

    def swap(self, proposal: Proposal) -> None:
        self._run("swap", lambda: self._inner.swap(self._own(proposal)))

    def settle(self, proposal: Proposal) -> Outcome:
        return self._run("settle", lambda: self._inner.settle(self._own(proposal)))

    def discard(self, proposal: Proposal) -> None:
        self._run("discard", lambda: self._inner.discard(self._own(proposal)))

    def finish(self, proposal: Proposal) -> None:
        self._run("finish", lambda: self._inner.finish(self._own(proposal)))

    def _run(self, operation: str, action: Callable[[], T]) -> T:
        return self._catalog._run(operation, [self.name], action)

    def _own(self, proposal: Proposal) -> Proposal:
        return replace(proposal, pointer=self._inner)


class _FaultyShared:
    """The swap of several tables, whose calls are counted too."""

    def __init__(self, catalog: FaultyCatalog, inner: SharedSwap) -> None:
        self._catalog = catalog
        self._inner = inner

    def swap_all(self, proposals: Sequence[Proposal]) -> None:
        self._run("swap_all", proposals, self._inner.swap_all)

    def settle_all(self, proposals: Sequence[Proposal]) -> Outcome:
        return self._run("settle_all", proposals, self._inner.settle_all)

    def _run(self, operation: str, proposals: Sequence[Proposal], action: Callable[[Sequence[Proposal]], T]) -> T:
        own = [_unwrapped(proposal) for proposal in proposals]
        names = [proposal.pointer.name for proposal in proposals]
        return self._catalog._run(operation, [", ".join(names)], lambda: action(own))


def _unwrapped(proposal: Proposal) -> Proposal:
    pointer = proposal.pointer
    return replace(proposal, pointer=pointer._inner) if isinstance(pointer, _FaultyPointer) else proposal
