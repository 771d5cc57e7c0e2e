"""Pointers for tests of commits: in memory, with every call counted, failing on purpose, or stopped by a scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from floe.catalog.memory import MemoryCatalog, MemoryPointer
from floe.commit.change import Change
from floe.commit.loop import commit
from floe.commit.operations.create import CreateTable, TableDefinition
from floe.commit.outcomes import Committed
from floe.commit.pointer import Outcome, Pointer, Proposal, TableState
from floe.errors import CatalogUnavailable, CommitConflict, OutcomeUnknown
from floe.spec.metadata.requirements import TableRequirement
from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.updates import TableUpdate
from floe.spec.schemas.schema import Schema
from floe.spec.types import LONG, STRING, Field
from floe.storage.environment import Environment, deterministic_environment
from floe.storage.memory import MemoryStorage
from floe.storage.protocol import Storage
from floe.testing.faults import Fault, SimulatedCrash

T = TypeVar("T")

SCHEMA = Schema((Field(1, "id", LONG, required=True), Field(2, "note", STRING)))
NAME = ("db", "t")
LOCATION = "memory:warehouse/db/t"


def memory_catalog(seed: int = 0, *, storage: Storage | None = None) -> MemoryCatalog:
    """A catalog in memory whose runs repeat, with the namespace `db`."""
    environment = deterministic_environment(seed)
    catalog = MemoryCatalog(environment=environment, storage=storage or MemoryStorage(clock=environment.clock))
    catalog.create_namespace(("db",))
    return catalog


def create(pointer: Pointer, definition: TableDefinition | None = None, *, location: str = LOCATION) -> Committed:
    """A new table at a pointer."""
    uuid = str(pointer.environment.ids.uuid())
    return commit(pointer, [CreateTable(definition or TableDefinition(SCHEMA), location, uuid)])


def new_table(
    seed: int = 0, *, format_version: int = 2, properties: dict[str, str] | None = None, storage: Storage | None = None
) -> Pointer:
    """A pointer to a new, empty table in memory."""
    pointer = memory_catalog(seed, storage=storage).pointer(NAME)
    create(pointer, TableDefinition(SCHEMA, properties=properties or {}, format_version=format_version))
    return pointer


def copied(pointer: Pointer, seed: int = 1) -> MemoryPointer:
    """The same table in a world of its own: the same files and state, other ids and chances from here on."""
    assert isinstance(pointer, MemoryPointer)
    old = pointer.catalog
    environment = deterministic_environment(seed, start_ms=old.environment.clock.now_ms())
    storage = MemoryStorage(clock=environment.clock)
    assert isinstance(old.storage, MemoryStorage)
    storage._files = dict(old.storage._files)
    catalog = MemoryCatalog(environment=environment, storage=storage)
    catalog._namespaces = {name: dict(properties) for name, properties in old._namespaces.items()}
    catalog._tables = dict(old._tables)
    catalog._published = set(old._published)
    return catalog.pointer(pointer.identifier)


def loaded(pointer: Pointer) -> TableState:
    """The state of a table that must be there."""
    state = pointer.load()
    assert state is not None
    return state


class WrappedPointer:
    """A pointer whose every call goes through `_run`."""

    def __init__(
        self, inner: Pointer, *, storage: Storage | None = None, environment: Environment | None = None
    ) -> None:
        self.inner = inner
        self.storage = storage if storage is not None else inner.storage
        self.environment = environment if environment is not None else inner.environment

    @property
    def name(self) -> str:
        return self.inner.name

    def _run(self, call: str, action: Callable[[], T]) -> T:
        return action()

    def load(self) -> TableState | None:
        return self._run("load", self.inner.load)

    def propose(
        self,
        base: TableState | None,
        metadata: TableMetadata,
        *,
        updates: Sequence[TableUpdate] = (),
        requirements: Sequence[TableRequirement] = (),
    ) -> Proposal:
        return self._run(
            "propose", lambda: self.inner.propose(base, metadata, updates=updates, requirements=requirements)
        )

    def swap(self, proposal: Proposal) -> None:
        self._run("swap", lambda: self.inner.swap(self._own(proposal)))

    def settle(self, proposal: Proposal) -> Outcome:
        return self._run("settle", lambda: self.inner.settle(self._own(proposal)))

    def discard(self, proposal: Proposal) -> None:
        self._run("discard", lambda: self.inner.discard(self._own(proposal)))

    def finish(self, proposal: Proposal) -> None:
        self._run("finish", lambda: self.inner.finish(self._own(proposal)))

    def _own(self, proposal: Proposal) -> Proposal:
        return replace(proposal, pointer=self.inner)


class FaultyPointer(WrappedPointer):
    """A pointer that counts its calls and fails at the `at`-th (from 1), as `FaultyStorage` does."""

    def __init__(
        self,
        inner: Pointer,
        fault: Fault | BaseException | None = None,
        *,
        at: int = 0,
        only: Iterable[str] | None = None,
        storage: Storage | None = None,
    ) -> None:
        super().__init__(inner, storage=storage)
        self.fault, self.at = fault, at
        self.only = None if only is None else frozenset(only)
        self.calls: list[str] = []
        self.happened = False
        self.between: Callable[[], object] = lambda: None
        """What others do after the fault's effect."""

        self._matching = 0
        self._pending: list[Callable[[], object]] = []
        self._crashed = False

    def arrive(self) -> None:
        """Lets delayed swaps happen now; one that comes too late fails unheard."""
        pending, self._pending = self._pending, []
        for action in pending:
            try:
                action()
            except CommitConflict:
                continue

    def _run(self, call: str, action: Callable[[], T]) -> T:
        if self._crashed:
            raise SimulatedCrash("the process ended before")
        self.calls.append(call)
        if self.only is None or call in self.only:
            self._matching += 1
            if self.fault is not None and not self.happened and self._matching == self.at:
                self.happened = True
                return self._fail(call, action)
        if call == "settle" and self._pending:
            return Outcome.UNKNOWN  # type: ignore[return-value]  # a swap that is under way may still arrive
        return action()

    def _fail(self, call: str, action: Callable[[], T]) -> T:
        fault = self.fault
        if isinstance(fault, BaseException):
            action()
            raise fault
        if fault in (Fault.LOST_ANSWER, Fault.CRASH_AFTER, Fault.TWICE):
            result = action()
            self.between()
            if fault is Fault.TWICE:
                if call == "swap":
                    raise CommitConflict("somebody else committed first")  # it was this one's own first delivery
                return result
        elif fault is Fault.DELAYED and call == "swap":
            self._pending.append(action)
        if fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            self._crashed = True
            raise SimulatedCrash(f"{fault.value}: {call}")
        if call == "swap" and fault is not Fault.BEFORE:
            raise OutcomeUnknown("the answer was lost")
        raise CatalogUnavailable("the catalog did not answer")


def properties_of(pointer: Pointer) -> dict[str, str]:
    """A table's properties, without those that every table has."""
    return {k: v for k, v in loaded(pointer).metadata.properties.items() if not k.startswith("write.")}


def run_changes(pointer: Pointer, *changes: Change) -> Committed:
    """One commit of some changes."""
    return commit(pointer, changes)
