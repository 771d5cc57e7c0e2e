"""Fault injection: storages and catalogs that fail at the n-th call.

A test runs an operation once with a `FaultyStorage` or `FaultyCatalog` that never fails, to count its calls; then once
for each call and each `Fault`. In no case may an acknowledged commit be lost, or applied twice.

The error of a catalog depends on the call:

| calls | the call failed before it took effect | the answer was lost |
|---|---|---|
| `swap`, `swap_all` | `CatalogUnavailable` | `OutcomeUnknown` |
| `drop_table`, `create_namespace` and all others that change the catalog | `CatalogUnavailable` | `CommitStateUnknown` |
| `discard`, `finish`, which never raise | no effect, no error | no error |
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
    """The way in which a call fails."""

    BEFORE = "before"
    """The call fails without an effect: `StorageUnavailable`."""

    LOST_ANSWER = "lost answer"
    """The call takes effect, but its answer is lost: `OutcomeUnknown` for writes, `StorageUnavailable` for reads."""

    LOST_REQUEST = "lost request"
    """The call has no effect, and the caller cannot know: `OutcomeUnknown`, for reads `StorageUnavailable`."""

    DELAYED = "delayed"
    """Like a lost answer, but a write takes effect only after the next call (or at `settle`)."""

    TWICE = "twice"
    """The call is delivered twice, as by a transport that retries, and returns the second answer: a `create` that
    succeeded raises `FileAlreadyExists`."""

    CRASH_BEFORE = "crash before"
    """The process ends before the call takes effect: `SimulatedCrash`, at this call and every later one."""

    CRASH_AFTER = "crash after"
    """The process ends after the call has taken effect."""


class SimulatedCrash(BaseException):
    """The simulated end of the process; not an `Exception`, so that the code under test does not handle it."""


@dataclass(frozen=True, slots=True)
class Call:
    """A recorded call of a storage or catalog."""

    operation: str
    location: str


class _FaultSchedule:
    """Records calls, and decides at which of them the fault happens; delayed calls wait here."""

    def __init__(self, fault: Fault | BaseException | None, at: int, only: Iterable[str] | None) -> None:
        self.fault, self.at = fault, at
        self.only = None if only is None else frozenset(only)
        self.calls: list[Call] = []
        self.happened = False
        self._matching = 0
        self._crashed = False
        self._pending: list[Callable[[], object]] = []

    def _is_due(self, operation: str, location: str) -> bool:
        """Record a call, and return whether the fault happens at it; raises after a simulated crash."""
        if self._crashed:
            raise SimulatedCrash(f"{operation} {location} after a simulated crash")
        self.calls.append(Call(operation, location))
        if self.only is None or operation in self.only:
            self._matching += 1
            if self.fault is not None and not self.happened and self._matching == self.at:
                self.happened = True
                return True
        return False

    def _apply_pending(self, error: type[FloeError]) -> None:
        pending, self._pending = self._pending, []
        for action in pending:
            try:
                action()
            except error:
                continue  # nobody waits for the answer of a delayed call


class FaultyStorage(_FaultSchedule, StorageWrapper):
    """A storage that records its calls, and fails at the `at`-th (from 1) of the operations in `only` (default: all).

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
        StorageWrapper.__init__(self, storage)
        _FaultSchedule.__init__(self, fault, at, only)

    def __repr__(self) -> str:
        return f"FaultyStorage({self.storage!r}, {self.fault}, at={self.at})"

    def settle(self) -> None:
        """Apply the delayed writes now."""
        self._apply_pending(StorageError)

    def open_read(self, location: str) -> BinaryIO:
        """Open a file whose reads are calls of this storage, and may fail."""
        return open_ranges(self, location)

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """Open a stream whose closing is a call of this storage, and may fail."""
        return _FaultyWriter(self, super().open_write(location, overwrite=overwrite))

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Delete files; without any, no call is recorded."""
        paths = list(locations)
        return super().delete_many(paths) if paths else []

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """List the files below a folder; the whole listing is one call."""
        return iter(self._run("list", prefix, lambda: list(self.storage.list(prefix))))

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """Write a file; the data are copied, because the write may be delayed."""
        super().write(location, bytes(data), overwrite=overwrite)

    def create(self, location: str, data: Data) -> None:
        """Create a file; the data are copied, because the creation may be delayed."""
        super().create(location, bytes(data))

    def _run(self, operation: str, location: str, action: Callable[[], T]) -> T:
        if self._is_due(operation, location):
            assert self.fault is not None
            return self._fail(self.fault, operation, location, action)
        try:
            return action()
        finally:
            self.settle()

    def _fail(self, fault: Fault | BaseException, operation: str, location: str, action: Callable[[], T]) -> T:
        assert isinstance(fault, Fault)  # a subclass may raise other faults
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
    """A stream whose closing is a call of its storage."""

    def __init__(self, storage: FaultyStorage, inner: FileWriter) -> None:
        super().__init__(inner.location)
        self._storage, self._inner = storage, inner

    def _append(self, data: Data) -> None:
        self._inner.write(data)

    def _publish(self) -> None:
        self._storage._run("close_write", self.location, self._inner.close)

    def _discard(self) -> None:
        self._inner.abort()


# Catalogs -------------------------------------------------------------------------------------------------------------

CATALOG_SWAPS: Final = frozenset({"swap", "swap_all"})
"""The operations that publish changes of tables."""

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
"""The operations that change the catalog itself."""

_SETTLES: Final = frozenset({"settle", "settle_all"})
_SILENT: Final = frozenset({"discard", "finish"})


class FaultyCatalog(_FaultSchedule):
    """A catalog that records its calls and its pointers' calls, and fails at the `at`-th (from 1) operation in `only`.

    A fault that is an exception, such as a `KeyboardInterrupt`, is raised after the call has taken effect. A delayed
    swap takes effect at `arrive`; until then its outcome is unknown. Of a call that is delivered twice, a swap returns
    the second answer, all others the first.

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
        super().__init__(fault, at, only)
        self.catalog = catalog

    def __repr__(self) -> str:
        return f"FaultyCatalog({self.catalog!r}, {self.fault}, at={self.at})"

    def arrive(self) -> None:
        """Apply the delayed calls now."""
        self._apply_pending(FloeError)

    # Attributes -------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the wrapped catalog."""
        return self.catalog.name

    @property
    def properties(self) -> Mapping[str, str]:
        """The settings with which the catalog was opened."""
        return self.catalog.properties

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The optional features of the catalog."""
        return self.catalog.capabilities

    @property
    def shared(self) -> SharedSwap | None:
        """The swap of several tables, whose calls may fail; None if the catalog has none."""
        inner = self.catalog.shared
        return None if inner is None else _FaultyShared(self, inner)

    def close(self) -> None:
        """Close the catalog; this never fails."""
        self.catalog.close()

    # Namespaces -------------------------------------------------------------------------------------------------------

    def namespaces(self, parent: Namespace = ()) -> Sequence[Namespace]:
        """The namespaces directly below another one."""
        return self._run("namespaces", parent, lambda: self.catalog.namespaces(parent))

    def namespace_exists(self, namespace: Namespace) -> bool:
        """Whether a namespace exists."""
        return self._run("namespace_exists", namespace, lambda: self.catalog.namespace_exists(namespace))

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str] | None = None) -> None:
        """Create a namespace with some properties."""
        self._run("create_namespace", namespace, lambda: self.catalog.create_namespace(namespace, properties))

    def drop_namespace(self, namespace: Namespace) -> None:
        """Drop an empty namespace."""
        self._run("drop_namespace", namespace, lambda: self.catalog.drop_namespace(namespace))

    def namespace_properties(self, namespace: Namespace) -> Mapping[str, str]:
        """The properties of a namespace."""
        return self._run("namespace_properties", namespace, lambda: self.catalog.namespace_properties(namespace))

    def update_namespace(
        self, namespace: Namespace, updates: Mapping[str, str] | None = None, removals: Iterable[str] = ()
    ) -> None:
        """Set and remove properties of a namespace."""
        removed = tuple(removals)
        self._run("update_namespace", namespace, lambda: self.catalog.update_namespace(namespace, updates, removed))

    # Tables -----------------------------------------------------------------------------------------------------------

    def tables(self, namespace: Namespace) -> Sequence[Identifier]:
        """The tables directly in a namespace."""
        return self._run("tables", namespace, lambda: self.catalog.tables(namespace))

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether a table exists."""
        return self._run("table_exists", identifier, lambda: self.catalog.table_exists(identifier))

    def pointer(self, identifier: Identifier) -> Pointer:
        """The pointer to a table, whose calls may fail."""
        return _FaultyPointer(self, self.catalog.pointer(identifier))

    def default_location(self, identifier: Identifier) -> str:
        """The default location of a new table."""
        return self._run("default_location", identifier, lambda: self.catalog.default_location(identifier))

    def drop_table(self, identifier: Identifier, *, purge: bool = False) -> None:
        """Drop a table, and with `purge` delete its files."""
        self._run("drop_table", identifier, lambda: self.catalog.drop_table(identifier, purge=purge))

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """Rename a table, also to another namespace."""
        self._run("rename_table", old, lambda: self.catalog.rename_table(old, new))

    def register_table(self, identifier: Identifier, metadata_location: str) -> None:
        """Register an existing metadata file as a table."""
        self._run("register_table", identifier, lambda: self.catalog.register_table(identifier, metadata_location))

    # Views ------------------------------------------------------------------------------------------------------------

    def views(self, namespace: Namespace) -> Sequence[Identifier]:
        """The views directly in a namespace."""
        return self._run("views", namespace, lambda: self.catalog.views(namespace))

    def view_exists(self, identifier: Identifier) -> bool:
        """Whether a view exists."""
        return self._run("view_exists", identifier, lambda: self.catalog.view_exists(identifier))

    def load_view(self, identifier: Identifier) -> ViewMetadata:
        """The metadata of a view."""
        return self._run("load_view", identifier, lambda: self.catalog.load_view(identifier))

    def create_view(self, identifier: Identifier, metadata: ViewMetadata) -> None:
        """Create a view from its metadata."""
        self._run("create_view", identifier, lambda: self.catalog.create_view(identifier, metadata))

    def replace_view(self, identifier: Identifier, base: ViewMetadata, metadata: ViewMetadata) -> None:
        """Replace the metadata of a view, if `base` is the current one."""
        self._run("replace_view", identifier, lambda: self.catalog.replace_view(identifier, base, metadata))

    def drop_view(self, identifier: Identifier) -> None:
        """Drop a view and its metadata."""
        self._run("drop_view", identifier, lambda: self.catalog.drop_view(identifier))

    def rename_view(self, old: Identifier, new: Identifier) -> None:
        """Rename a view, also to another namespace."""
        self._run("rename_view", old, lambda: self.catalog.rename_view(old, new))

    # Faults -----------------------------------------------------------------------------------------------------------

    def _run(self, operation: str, name: Sequence[str], action: Callable[[], T]) -> T:
        if self._is_due(operation, ".".join(name)):
            assert self.fault is not None
            return self._fail(self.fault, operation, action)
        if operation in _SETTLES and self._pending:
            return Outcome.UNKNOWN  # type: ignore[return-value]  # a delayed swap may still arrive
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
    """A pointer whose calls are recorded by its catalog."""

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
        self._run("swap", lambda: self._inner.swap(self._unwrap(proposal)))

    def settle(self, proposal: Proposal) -> Outcome:
        return self._run("settle", lambda: self._inner.settle(self._unwrap(proposal)))

    def discard(self, proposal: Proposal) -> None:
        self._run("discard", lambda: self._inner.discard(self._unwrap(proposal)))

    def finish(self, proposal: Proposal) -> None:
        self._run("finish", lambda: self._inner.finish(self._unwrap(proposal)))

    def _run(self, operation: str, action: Callable[[], T]) -> T:
        return self._catalog._run(operation, [self.name], action)

    def _unwrap(self, proposal: Proposal) -> Proposal:
        return replace(proposal, pointer=self._inner)


class _FaultyShared:
    """The swap of several tables, whose calls are recorded by its catalog."""

    def __init__(self, catalog: FaultyCatalog, inner: SharedSwap) -> None:
        self._catalog = catalog
        self._inner = inner

    def swap_all(self, proposals: Sequence[Proposal]) -> None:
        self._run("swap_all", proposals, self._inner.swap_all)

    def settle_all(self, proposals: Sequence[Proposal]) -> Outcome:
        return self._run("settle_all", proposals, self._inner.settle_all)

    def _run(self, operation: str, proposals: Sequence[Proposal], action: Callable[[Sequence[Proposal]], T]) -> T:
        inner_proposals = [_unwrap(proposal) for proposal in proposals]
        names = [proposal.pointer.name for proposal in proposals]
        return self._catalog._run(operation, [", ".join(names)], lambda: action(inner_proposals))


def _unwrap(proposal: Proposal) -> Proposal:
    """A proposal with the wrapped pointer in the place of the faulty one."""
    pointer = proposal.pointer
    return replace(proposal, pointer=pointer._inner) if isinstance(pointer, _FaultyPointer) else proposal
