"""One fault in one run of one operation, and what must hold afterwards: the trials of `tests/faults`."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from floe import Lake
from floe.catalog.protocol import Catalog
from floe.errors import CommitStateUnknown, FloeError
from floe.storage.environment import deterministic_environment
from floe.storage.protocol import Storage
from floe.testing.faults import (
    CATALOG_CHANGES,
    CATALOG_SWAPS,
    Call,
    Fault,
    FaultyCatalog,
    FaultyStorage,
    SimulatedCrash,
)
from helpers.fault_files import COLUMNS, DAY, put_data
from helpers.fault_operations import FOLDER, HOUR_MS, START_MS, Files, Operation, build
from helpers.fault_worlds import Content, Statements, World
from helpers.invariants import check_table, described

AnyFault = Fault | type[BaseException]
LEVELS = ("storage", "catalog", "statements")

CRASHES = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
INTERRUPTS: tuple[type[BaseException], ...] = (MemoryError, KeyboardInterrupt)
_STORAGE_WRITES = frozenset({"write", "create", "close_write", "delete_many"})
_FOLDER_CALLS = frozenset({"make_folder", "remove_folder", "open_write"})


class TrialStorage(FaultyStorage):
    """A storage that may be interrupted too, and that is gone when the process ended elsewhere."""

    def __init__(self, storage: Storage, fault: Fault | BaseException | None = None, *, at: int = 0) -> None:
        super().__init__(storage, None, at=at)
        self.fault = fault  # type: ignore[assignment]
        self.others: list[Any] = []
        self.deletes_after = 0

    def _run(self, operation: str, location: str, action: Callable[[], Any]) -> Any:
        if any(other._crashed for other in self.others):
            raise SimulatedCrash("the process ended before")
        if operation == "delete_many" and any(one.happened for one in (self, *self.others)):
            self.deletes_after += 1
        return super()._run(operation, location, action)

    def _fail(self, fault: Fault, operation: str, location: str, action: Callable[[], Any]) -> Any:
        if isinstance(fault, BaseException):
            action()
            raise fault
        return super()._fail(fault, operation, location, action)


class RacedCatalog(FaultyCatalog):
    """A catalog on which somebody else commits right before the first swap."""

    def __init__(self, catalog: Catalog, rival: Callable[[], None]) -> None:
        super().__init__(catalog)
        self._rival: Callable[[], None] | None = rival

    def _run(self, operation: str, name: Any, action: Callable[[], Any]) -> Any:
        if operation in CATALOG_SWAPS and self._rival is not None:
            rival, self._rival = self._rival, None
            rival()
        return action()


@dataclass(frozen=True)
class Trial:
    """Which fault at which call."""

    operation: Operation
    level: str
    at: int
    call: Call
    fault: AnyFault
    swap: Fault | None = None
    """What goes wrong with the first swap besides."""

    def __str__(self) -> str:
        fault = self.fault.value if isinstance(self.fault, Fault) else self.fault.__name__
        first = "" if self.swap is None else f"{self.swap.value} at the swap, and "
        call = f"{self.level} call {self.at}, {self.call.operation} {self.call.location}"
        return f"{self.operation}: {first}{fault} at {call}"


@dataclass(frozen=True, eq=False)
class Ran:
    """How a run went."""

    outcome: str
    error: BaseException | None
    calls: list[Call]
    deletes_after: int
    """How often files were deleted after the fault."""


@dataclass(frozen=True)
class Expected:
    """The states that an operation may leave: before it, or after it."""

    undone: list[dict[str, Any]]
    done: list[dict[str, Any]]


class Bench:
    """One kind of catalog, with a lake of each format version to start from."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.tried: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self._built: dict[Any, tuple[Content, Files]] = {}
        self._checked: dict[Any, dict[str, Any]] = {}

    def start(self, operation: Operation) -> Files:
        """Puts the world back to where an operation starts."""
        content, files = self._start(operation.version, operation.prepare)
        self.world.restore(content)
        return files

    def _start(self, version: int, prepare: Callable[[Lake, Files], Any] | None) -> tuple[Content, Files]:
        key = (version, prepare)
        if key not in self._built and prepare is None:
            self.world.clear()
            self._built[key] = build(self.world, version)
        elif key not in self._built:
            content, files = self._start(version, None)
            self.world.restore(content)
            with self._healthy(8, hours=-8) as lake:
                prepare(lake, files)
            self._built[key] = self.world.content(), files
        return self._built[key]

    def levels(self) -> tuple[str, ...]:
        return LEVELS if self.world.has_statements else LEVELS[:2]

    def can(self, operation: Operation) -> bool:
        """Whether this kind of catalog can do it."""
        if "folders only" in operation.tags:
            return type(self.world).__name__ == "FileWorld"
        return operation.needs <= self._capabilities

    @property
    def _capabilities(self) -> frozenset[Any]:
        return self.world.catalog(self.world.files, deterministic_environment()).capabilities

    # runs ------------------------------------------------------------------------------------------------------

    def run(
        self, operation: Operation, level: str, at: int = 0, fault: AnyFault | None = None, *, swap: Fault | None = None
    ) -> Ran:
        """The operation, from the start, with a fault at the `at`-th call of a level, and perhaps one at the swap."""
        files = self.start(operation)
        self._rival_file = files.data["rival"]
        injected = fault() if isinstance(fault, type) else fault
        environment = deterministic_environment(99, start_ms=START_MS + 9 * HOUR_MS)
        storage = TrialStorage(self.world.files, injected if level == "storage" else None, at=at)
        statements = Statements(injected if level == "statements" else None, at=at)
        opened = self.world.catalog(storage, environment, statements)
        raced: Catalog = RacedCatalog(opened, self._rival) if operation.rival else opened
        catalog = (
            FaultyCatalog(raced, injected if level == "catalog" else None, at=at)
            if swap is None
            else FaultyCatalog(raced, swap, at=1, only=CATALOG_SWAPS)
        )
        storage.others = [statements, catalog]
        lake = Lake(catalog, environment)
        outcome, error = "done", None
        try:
            operation.run(lake, files)
        except CommitStateUnknown as caught:
            outcome, error = "unknown", caught
        except FloeError as caught:
            outcome, error = "failed", caught
        except SimulatedCrash as caught:
            outcome, error = "crashed", caught
        except BaseException as caught:
            if caught is not injected:
                raise
            outcome, error = "interrupted", caught
        finally:
            opened.close()
        deletes = storage.deletes_after
        storage.settle()
        catalog.arrive()
        calls = {"storage": storage.calls, "catalog": catalog.calls, "statements": statements.calls}[level]
        return Ran(outcome, error, calls, deletes)

    def _rival(self) -> None:
        """Somebody else's commits, with nothing failing; of a table that is there."""
        with self._healthy(7) as lake:
            lake.table("db.t").append_files([self._rival_file], fast=True)

    def _healthy(self, seed: int, *, hours: int = 1) -> Lake:
        environment = deterministic_environment(seed, start_ms=START_MS + (9 + hours) * HOUR_MS)
        return Lake(self.world.catalog(self.world.files, environment), environment)

    def state(self) -> dict[str, Any]:
        """Everything that a user can see of the lake, as values that can be compared."""
        tables = {name: described(self.read, location) for name, location in self.world.locations().items()}
        with self._healthy(5) as lake:
            assert sorted(tables) == sorted(lake.tables()), "the catalog does not list the tables that are there"
            spaces = {space: lake.namespace_properties(space) for space in _all_namespaces(lake)}
            views = {view: lake.view(view).sql() for space in spaces for view in lake.views(space)}
        return {"tables": tables, "namespaces": spaces, "views": views}

    def read(self, location: str) -> bytes:
        """A file, past all that is tested."""
        return self.world.files.read(location)

    # trials ----------------------------------------------------------------------------------------------------

    def trials(self, operation: Operation, level: str, *, swap: Fault | None = None) -> Iterator[Trial]:
        """Every call of an operation with every fault that makes a difference there."""
        ran = self.run(operation, level, swap=swap)
        assert ran.outcome == "done", ran.error
        published = _published_at(level, ran.calls)
        for at, call in enumerate(ran.calls, 1):
            for fault in faults_of(level, call, after_swap=at >= published):
                yield Trial(operation, level, at, call, fault, swap)

    def expected(self, operation: Operation) -> Expected:
        """The states that are allowed: as it was, with somebody else's commit or without, and after the operation."""
        self._rival_file = self.start(operation).data["rival"]
        undone = [self.state()]
        alone = replace(operation, rival=False)
        assert self.run(alone, "catalog").outcome == "done"
        done = [self.state()]
        if operation.rival:
            self.start(operation)
            self._rival()
            undone.append(self.state())
            assert self.run(operation, "catalog").outcome == "done"
            done.append(self.state())
        assert not [state for state in done if state in undone], "an operation that does nothing proves nothing"
        return Expected(undone, done)

    def check(self, trial: Trial, ran: Ran, expected: Expected) -> None:
        """What must hold after a trial."""
        state = self._checked_state(with_log=not _drops(trial.operation))
        is_done = state in expected.done
        assert is_done or state in expected.undone, f"half done: {_difference(state, expected.done[-1])}"
        if ran.outcome == "done":
            assert is_done, f"acknowledged, and not there: {_difference(state, expected.done[-1])}"
        if ran.outcome == "failed":
            assert not is_done or _says_it_is_done(ran.error), f"said to have failed, and done: {ran.error}"
        if ran.outcome == "unknown" and trial.swap is None:
            assert _may_be_unknown(trial), f"this could have been found out: {ran.error}"
            assert not ran.deletes_after or trial.call.operation in CATALOG_CHANGES or _drops(trial.operation)
        self.tried[trial.level] += 1
        self.outcomes[ran.outcome] += 1

    def _checked_state(self, *, with_log: bool) -> dict[str, Any]:
        """The state, once the next writer has committed to it and everything holds.

        Many faults leave the very same bytes behind; those are looked at once.
        """
        files = frozenset((name, data) for name, (data, _) in self.world.files._files.items())
        key = (files, self.world.fingerprint())
        if key not in self._checked:
            state = self.state()
            self._next_writer(state)
            for name, location in self.world.locations().items():
                check_table(self.read, location, with_log=with_log and "tidy" not in name)
            self._checked[key] = state
        return self._checked[key]

    def _next_writer(self, state: dict[str, Any]) -> None:
        """Somebody new commits, with no repair in between."""
        with self._healthy(6) as lake:
            name = next((name for name in ("db.t", "db.renamed") if name in state["tables"]), None)
            if name is None:
                name = "db.t"
                lake.create_table(name, COLUMNS, partition_by=["day"])
            table = lake.table(name)
            file = put_data(self.world.files, f"{FOLDER}/next.parquet", (80, 81), DAY + 9)
            snapshot = table.append_files([file], fast=True)
            assert snapshot is not None
            fresh = lake.table(name)
            assert fresh.current_snapshot is not None
            assert fresh.current_snapshot.snapshot_id == snapshot.snapshot_id
            for other in state["tables"].keys() & {"db.made", "db.again"}:
                lake.table(other).set_properties({"next": 1})


def faults_of(level: str, call: Call, *, after_swap: bool) -> tuple[AnyFault, ...]:
    """The faults that make a difference at a call: a read has no effect, so only that it fails, or is the last."""
    interrupts = INTERRUPTS if after_swap else INTERRUPTS[:1]
    if level == "storage" and call.operation in _STORAGE_WRITES:
        return (*Fault, *INTERRUPTS)
    if level == "storage" and call.operation in _FOLDER_CALLS:
        return (Fault.BEFORE, Fault.LOST_ANSWER, *CRASHES, *interrupts)
    if level == "catalog" and (call.operation in CATALOG_SWAPS or call.operation in CATALOG_CHANGES):
        return (*Fault, *INTERRUPTS)
    if level == "catalog" and call.operation in ("propose", "discard", "finish"):
        return (Fault.BEFORE, Fault.LOST_ANSWER, *CRASHES, *INTERRUPTS)
    if level == "statements" and call.operation == "commit":
        return (Fault.BEFORE, Fault.LOST_ANSWER, *CRASHES, *INTERRUPTS)
    if level == "statements":
        return (Fault.BEFORE, Fault.LOST_ANSWER, Fault.CRASH_AFTER, *interrupts)
    return (Fault.BEFORE, Fault.CRASH_BEFORE, *interrupts)


def _published_at(level: str, calls: list[Call]) -> int:
    """The number of the call that publishes, as far as it can be told; calls after it must not undo anything."""
    publishing = {
        "storage": lambda call: call.operation in ("create", "write") and ".metadata.json" in call.location,
        "catalog": lambda call: call.operation in CATALOG_SWAPS or call.operation in CATALOG_CHANGES,
        "statements": lambda call: call.operation == "commit",
    }[level]
    return next((at for at, call in enumerate(calls, 1) if publishing(call)), len(calls) + 1)


def _may_be_unknown(trial: Trial) -> bool:
    """Whether nobody can know: the request may still arrive, or the catalog itself says so."""
    if "view" in trial.operation.name and trial.fault is Fault.BEFORE:
        return True  # the look after the creation failed; views have no loop that would try again
    if trial.level == "catalog":
        return trial.fault is Fault.DELAYED or trial.call.operation in CATALOG_CHANGES
    return trial.fault is Fault.DELAYED


def _drops(operation: Operation) -> bool:
    """Whether deleting files is what an operation is for; a table's old metadata goes first, its newest last."""
    return operation.name in ("drop", "purge", "drop view", "drop namespace")


def _says_it_is_done(error: BaseException | None) -> bool:
    """Whether an error that comes after the effect says that there was one."""
    told = [str(error), *getattr(error, "__notes__", ())]
    return any(words in line for line in told for words in ("the table is dropped", "was renamed", "was registered"))


def _all_namespaces(lake: Lake, parent: str = "") -> Iterator[str]:
    for name in lake.namespaces(parent):
        yield name
        yield from _all_namespaces(lake, name)


def _difference(found: Any, wanted: Any, path: str = "") -> str:
    """Where two states differ first, for people."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in {**wanted, **found}:
            if found.get(key) != wanted.get(key):
                return _difference(found.get(key), wanted.get(key), f"{path}/{key}")
    return f"{path}: {found!r:.300} instead of {wanted!r:.300}"
