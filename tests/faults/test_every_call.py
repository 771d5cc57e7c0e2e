"""Every storage call, catalog call and database statement of every operation made to fail, one at a time, in every way.

After each fault the lake is opened anew with nothing failing: the operation is wholly done or not done at all, done if
it was acknowledged and not done if it was said to have failed; a naive reader finds every file of every snapshot, and
somebody else commits without any repair. The numbers tried are printed at the end of the run.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from floe.testing.faults import Fault
from helpers.fault_operations import Operation, operations
from helpers.fault_runs import Bench
from helpers.fault_worlds import FileWorld, MemoryWorld, PostgresWorld, SqliteWorld, World
from helpers.postgres import postgres_database
from helpers.run_totals import report_totals

SAMPLE = ("append, v2", "several tables, v2", "create table, v2", "rename, v2", "drop, v2", "expire, v3")
TWO_FAULTS = ("transaction, v2", "row delta, v3, after losing a race", "create table, v2")


@pytest.fixture(scope="module")
def memory() -> Bench:
    return Bench(MemoryWorld())


@pytest.fixture(scope="module")
def files() -> Bench:
    return Bench(FileWorld())


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(SqliteWorld(tmp_path_factory.mktemp("sqlite")))


@pytest.fixture(scope="module")
def postgres() -> Iterator[Bench]:
    with postgres_database() as uri:
        world = PostgresWorld(uri)
        yield Bench(world)
        world.close()


def fail_everywhere(
    bench: Bench, operation: Operation, levels: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    """Runs every trial of an operation."""
    if not bench.can(operation):
        pytest.skip("this catalog cannot do that, and says so")
    expected = bench.expected(operation)
    wrong: list[str] = []
    kind = type(bench.world).__name__.removesuffix("World").lower()
    for level in levels:
        tried = 0
        for trial in bench.trials(operation, level):
            ran = bench.run(operation, level, trial.at, trial.fault)
            try:
                bench.check(trial, ran, expected)
            except AssertionError as error:
                wrong.append(f"{trial}: {ran.outcome}: {error}")
            tried += 1
        report_totals(request, **{f"faults in {level} calls, catalog: {kind}": tried})
        assert tried or level == "storage"
    assert not wrong, f"{len(wrong)} of the faults broke something:\n" + "\n".join(wrong[:20])


def parametrized(*names: str, variants_are_slow: bool = False) -> pytest.MarkDecorator:
    """All operations, or those of these names; other versions of one, and lost races, can be left to longer runs."""
    chosen = [operation for operation in operations() if not names or str(operation) in names]
    assert len(chosen) >= len(names)
    seen: set[str] = set()
    parameters = []
    for operation in chosen:
        is_slow = variants_are_slow and operation.name in seen
        seen.add(operation.name)
        name = re.sub(r"\W+", "-", str(operation))
        parameters.append(pytest.param(operation, id=name, marks=[pytest.mark.slow] if is_slow else []))
    return pytest.mark.parametrize("operation", parameters)


@parametrized(variants_are_slow=True)
def test_in_memory(memory: Bench, operation: Operation, request: pytest.FixtureRequest) -> None:
    fail_everywhere(memory, operation, ("storage", "catalog"), request)


@parametrized(variants_are_slow=True)
def test_in_folders(files: Bench, operation: Operation, request: pytest.FixtureRequest) -> None:
    fail_everywhere(files, operation, ("storage", "catalog"), request)


@parametrized(variants_are_slow=True)
def test_in_sqlite(sqlite: Bench, operation: Operation, request: pytest.FixtureRequest) -> None:
    fail_everywhere(sqlite, operation, ("statements",), request)


@parametrized(*SAMPLE)
def test_in_postgres(postgres: Bench, operation: Operation, request: pytest.FixtureRequest) -> None:
    fail_everywhere(postgres, operation, ("statements",), request)


@pytest.mark.slow
@parametrized()
def test_files_and_pointers_of_sqlite(sqlite: Bench, operation: Operation, request: pytest.FixtureRequest) -> None:
    fail_everywhere(sqlite, operation, ("storage", "catalog"), request)


@pytest.mark.slow
@parametrized(*(str(operation) for operation in operations() if str(operation) not in SAMPLE))
def test_all_statements_in_postgres(postgres: Bench, operation: Operation, request: pytest.FixtureRequest) -> None:
    fail_everywhere(postgres, operation, ("statements",), request)


@pytest.mark.parametrize("swap", [Fault.LOST_ANSWER, Fault.LOST_REQUEST, Fault.TWICE], ids=lambda fault: fault.name)
@pytest.mark.parametrize("kind", ["memory", "files"])
@pytest.mark.parametrize("name", ["append, v2", *(pytest.param(name, marks=pytest.mark.slow) for name in TWO_FAULTS)])
def test_a_second_fault_after_the_swap_was_answered_wrongly(
    kind: str, name: str, swap: Fault, request: pytest.FixtureRequest
) -> None:
    """The answer to the swap is lost or wrong, and then, or before, another call fails as well."""
    bench: Bench = request.getfixturevalue(kind)
    operation = next(one for one in operations() if str(one) == name)
    expected = bench.expected(operation)
    wrong, tried = [], 0
    for trial in bench.trials(operation, "storage", swap=swap):
        ran = bench.run(operation, "storage", trial.at, trial.fault, swap=swap)
        try:
            bench.check(trial, ran, expected)
        except AssertionError as error:
            wrong.append(f"{trial}: {ran.outcome}: {error}")
        tried += 1
    report_totals(request, **{f"double faults, catalog: {kind}": tried})
    assert not wrong, f"{len(wrong)} of {tried} double faults broke something:\n" + "\n".join(wrong[:20])


def test_what_is_checked_can_fail(memory: Bench, request: pytest.FixtureRequest) -> None:
    """A commit that is lost, one that is half done, and a file that is gone are noticed."""
    operation = next(one for one in operations() if str(one) == "append, v2")
    expected = memory.expected(operation)
    trial = next(trial for trial in memory.trials(operation, "storage"))
    ran = memory.run(operation, "storage")
    memory.check(trial, ran, expected)
    memory.start(operation)
    with pytest.raises(AssertionError, match="acknowledged, and not there"):
        memory.check(trial, ran, expected)
    memory.start(operation)
    del memory.world.files._files[next(name for name in memory.world.files._files if name.endswith("/a.parquet"))]
    with pytest.raises(AssertionError, match=r"a live file cannot be read: .*/a\.parquet"):
        memory.check(trial, ran, expected)
    memory.start(operation)
    with memory._healthy(3) as lake:
        lake.table("db.t").set_properties({"half": "done"})
    with pytest.raises(AssertionError, match="half done"):
        memory.check(trial, ran, expected)


def test_there_is_an_operation_for_every_world(tmp_path: Path) -> None:
    """Nothing is left out everywhere."""
    worlds: list[World] = [MemoryWorld(), FileWorld(), SqliteWorld(tmp_path)]
    benches = [Bench(world) for world in worlds]
    assert [str(one) for one in operations() if not any(bench.can(one) for bench in benches)] == []
    assert len({str(one) for one in operations()}) == len(operations())
