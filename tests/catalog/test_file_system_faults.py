"""Faults at every storage call of commits, creations, drops and views of file-system tables, one and two at a time.

Whatever fails, and however: what was told as done is there, what was told as not done is not and never comes, what is
unknown is either, all of it or nothing; the table can be read and committed to, and earlier commits are in it.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from itertools import product

import pytest

from floe.catalog.file_system.catalog import FileSystemCatalog
from floe.catalog.protocol import Catalog
from floe.commit.pointer import Outcome, Pointer, Proposal
from floe.errors import CommitStateUnknown, FloeError, NoSuchTable, OutcomeUnknown, StorageError
from floe.storage.environment import Environment, deterministic_environment
from floe.storage.memory import MemoryStorage
from floe.storage.protocol import Storage
from floe.testing.faults import Fault, FaultyStorage, SimulatedCrash
from helpers.catalog_tables import a_view, change, create, load, names, new_metadata, propose

ORDERS = ("db", "orders")
DATA = "memory:wh/db/orders/data/a.parquet"
KEPT = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}
Record = Callable[[str, object], None]
MESSAGES = [Fault.BEFORE, Fault.LOST_ANSWER, Fault.LOST_REQUEST, Fault.DELAYED, Fault.TWICE]


class Told(Enum):
    """What the caller of an operation knows in the end."""

    DONE = "done"
    NOT_DONE = "not done"
    UNKNOWN = "unknown"


class World:
    """A table with four versions, of which the first two are cleaned away, and its files."""

    def __init__(self) -> None:
        self.environment: Environment = deterministic_environment()
        self.files = MemoryStorage(clock=self.environment.clock)
        self.catalog = self.through(self.files)
        create(self.catalog, ORDERS, KEPT)
        for n in range(3):
            change(self.catalog.pointer(ORDERS), n=str(n))
        self.files.write(DATA, b"rows")

    def through(self, storage: Storage) -> FileSystemCatalog:
        return FileSystemCatalog("memory:wh", storage=storage, environment=self.environment)


def published(proposal: Proposal) -> Told:
    """What the commit loop does with a proposal."""
    pointer = proposal.pointer
    try:
        pointer.swap(proposal)
    except OutcomeUnknown:
        outcomes = (pointer.settle(proposal) for _ in range(3))
        outcome = next((found for found in outcomes if found is not Outcome.UNKNOWN), Outcome.UNKNOWN)
        if outcome is not Outcome.PUBLISHED:
            return Told.UNKNOWN if outcome is Outcome.UNKNOWN else Told.NOT_DONE
    pointer.finish(proposal)
    return Told.DONE


def told(action: Callable[[], Told]) -> Told:
    try:
        return action()
    except (CommitStateUnknown, SimulatedCrash):
        return Told.UNKNOWN
    except FloeError:
        return Told.NOT_DONE


def commit(catalog: Catalog) -> Told:
    pointer = catalog.pointer(ORDERS)
    return published(propose(pointer, load(pointer), by="me"))


def faults_of(action: Callable[[Catalog], Told], kinds: list[Fault]) -> Iterator[tuple[Fault, int]]:
    """Every kind of fault at every call that the action makes when nothing fails."""
    world = World()
    storage = FaultyStorage(world.files)
    assert told(lambda: action(world.through(storage))) is Told.DONE
    yield from product(kinds, range(1, len(storage.calls) + 1))


def check_commit(world: World, outcome: Told, *faulty: FaultyStorage) -> None:
    for _ in range(2):
        for storage in faulty:
            storage.settle()
        state = load(world.catalog.pointer(ORDERS))
        assert state.metadata.properties["n"] == "2"
        if outcome is not Told.UNKNOWN:
            assert ("by" in state.metadata.properties) == (outcome is Told.DONE)
    change(world.catalog.pointer(ORDERS), after="1")
    assert load(world.catalog.pointer(ORDERS)).metadata.properties["after"] == "1"
    assert world.files.read(DATA) == b"rows"


def test_faults_at_every_call_of_a_commit(record_property: Record) -> None:
    tried = 0
    for fault, at in faults_of(commit, list(Fault)):
        world = World()
        storage = FaultyStorage(world.files, fault, at=at)
        outcome = told(lambda world=world, storage=storage: commit(world.through(storage)))
        assert storage.happened
        check_commit(world, outcome, storage)
        tried += 1
    record_property("runs", tried)
    assert tried > 100


@pytest.mark.slow
def test_two_faults_in_a_commit(record_property: Record) -> None:
    """The first at the creation or later: an error before it ends the commit."""
    tried, calls = 0, FaultyStorage(World().files)
    commit(World().through(calls))
    creation = [call.operation for call in calls.calls].index("create") + 1
    faults = [(fault, at) for fault, at in faults_of(commit, MESSAGES) if at >= creation]
    for (one, at), (other, later) in product(faults, faults):
        if later <= at:
            continue
        world = World()
        inner = FaultyStorage(world.files, one, at=at)
        outer = FaultyStorage(inner, other, at=later)
        outcome = told(lambda world=world, outer=outer: commit(world.through(outer)))
        check_commit(world, outcome, outer, inner)
        tried += 1
    record_property("runs", tried)
    assert tried > 1000


def test_faults_at_every_call_while_another_commits(record_property: Record) -> None:
    """A rival that commits right after the fault, wherever it was: one of the two, or both, one after the other."""
    tried = 0
    for fault, at in faults_of(commit, list(Fault)):
        world = World()
        storage = FaultyStorage(world.files, fault, at=at)
        rival = AfterFault(storage, lambda world=world: change(world.catalog.pointer(ORDERS), rival="1"))
        outcome = told(lambda world=world, rival=rival: commit(world.through(rival)))
        rival.run()
        assert load(world.catalog.pointer(ORDERS)).metadata.properties["rival"] == "1"
        check_commit(world, outcome, storage)
        assert load(world.catalog.pointer(ORDERS)).metadata.properties["rival"] == "1"
        tried += 1
    record_property("runs", tried)


class AfterFault(FaultyStorage):
    """Runs an action once, before the first call after a fault."""

    def __init__(self, storage: FaultyStorage, action: Callable[[], object]) -> None:
        super().__init__(storage)
        self._faulty, self._actions = storage, [action]

    def run(self) -> None:
        while self._actions:
            self._actions.pop()()

    def _run(self, operation: str, location: str, action: Callable[[], object]) -> object:  # type: ignore[override]
        if self._faulty.happened:
            self.run()
        return super()._run(operation, location, action)


def test_faults_at_every_call_of_a_creation(record_property: Record) -> None:
    def make(catalog: Catalog) -> Told:
        pointer = catalog.pointer(("db", "new"))
        return published(pointer.propose(None, new_metadata(pointer, catalog.default_location(("db", "new")))))

    tried = 0
    for fault, at in faults_of(make, list(Fault)):
        world = World()
        storage = FaultyStorage(world.files, fault, at=at)
        outcome = told(lambda world=world, storage=storage: make(world.through(storage)))
        storage.settle()
        found = world.catalog.table_exists(("db", "new"))
        if outcome is not Told.UNKNOWN:
            assert found == (outcome is Told.DONE)
        if not found:
            create(world.catalog, ("db", "new"))
        assert load(world.catalog.pointer(("db", "new"))).location.endswith("/v1.metadata.json")
        tried += 1
    record_property("runs", tried)


@pytest.mark.parametrize("purge", [False, True])
def test_faults_at_every_call_of_a_drop(purge: bool, record_property: Record) -> None:
    def drop(catalog: Catalog) -> Told:
        catalog.drop_table(ORDERS, purge=purge)
        return Told.DONE

    tried = 0
    for fault, at in faults_of(drop, list(Fault)):
        world = World()
        before = load(world.catalog.pointer(ORDERS))
        storage = FaultyStorage(world.files, fault, at=at)
        outcome = told(lambda world=world, storage=storage: drop(world.through(storage)))
        storage.settle()
        state = world.catalog.pointer(ORDERS).load()
        if outcome is Told.DONE:
            assert state is None
        if state is not None:  # all of it or nothing: never an earlier state
            assert state.metadata == before.metadata
            change(world.catalog.pointer(ORDERS), after="1")
        if state is not None or not purge:
            assert world.files.read(DATA) == b"rows"
        try:
            world.catalog.drop_table(ORDERS, purge=purge)
        except NoSuchTable:
            assert state is None
        assert world.catalog.tables(("db",)) == []
        if purge:
            assert names(world.files, "memory:wh/db/orders") == []
        create(world.catalog, ORDERS)
        tried += 1
    record_property("runs", tried)


def test_faults_at_every_call_of_views() -> None:
    def replace(catalog: Catalog) -> Told:
        catalog.replace_view(("db", "v"), a_view("SELECT 1"), a_view("SELECT 2"))
        return Told.DONE

    def views() -> World:
        world = World()
        world.catalog.create_view(("db", "v"), a_view("SELECT 1"))
        return world

    calls = FaultyStorage(views().files)
    replace(views().through(calls))
    for fault, at in product(Fault, range(1, len(calls.calls) + 1)):
        world = views()
        storage = FaultyStorage(world.files, fault, at=at)
        outcome = told(lambda world=world, storage=storage: replace(world.through(storage)))
        storage.settle()
        found = world.catalog.load_view(("db", "v"))
        assert found in (a_view("SELECT 1"), a_view("SELECT 2"))
        if outcome is not Told.UNKNOWN:
            assert (found == a_view("SELECT 2")) == (outcome is Told.DONE), (fault, at)


def test_a_hint_that_cannot_be_written_or_read_fails_no_commit() -> None:
    world = World()

    class NoHint(FaultyStorage):
        def write(self, location: str, data: object, *, overwrite: bool = False) -> None:
            raise StorageError("the disk is full", location=location)

    pointer: Pointer = world.through(NoHint(world.files)).pointer(ORDERS)
    for n in range(5):
        change(pointer, full=str(n))
    assert load(world.catalog.pointer(ORDERS)).metadata.properties["full"] == "4"
