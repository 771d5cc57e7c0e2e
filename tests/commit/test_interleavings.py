"""Two and three writers in every order of their reads and swaps: as if they had come one after the other."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

import pytest

from floe.commit.loop import commit
from floe.commit.operations.metadata_changes import UpdateProperties
from floe.commit.outcomes import Committed
from floe.commit.pointer import Pointer
from floe.errors import AlreadyExists, ConflictingChange, FloeError, InvalidUpdate, NotFound
from floe.spec.metadata.ancestry import ancestors
from floe.spec.metadata.table_metadata import TableMetadata
from helpers.change_samples import SAMPLES, Sample, fill, path
from helpers.pointers import copied, loaded, new_table
from helpers.schedules import Actor, Step, SteppedPointer, every_schedule, run_schedule
from helpers.small_snapshots import PutFiles, check_readable, data_file, files_of, live_files

TRIED: Counter[str] = Counter()
BY_NAME = {sample.name: sample for sample in SAMPLES}
FINAL = (ConflictingChange, AlreadyExists, NotFound, InvalidUpdate)


@pytest.fixture(scope="module", autouse=True)
def _numbers() -> Iterator[None]:
    yield
    print(f"\nschedules tried: {', '.join(f'{n} of {what}' for what, n in sorted(TRIED.items()))}")  # noqa: T201


@cache
def _filled() -> tuple[Pointer, list[int]]:
    pointer = new_table(properties={"commit.retry.num-retries": "9"})
    return pointer, fill(pointer)


def essence(table: TableMetadata, pointer: Pointer) -> dict[str, object]:
    """What a user sees of a table, without ids and times that differ from run to run."""
    storage = pointer.storage
    return {
        "properties": dict(table.properties),
        "schema": str(table.schema),
        "spec": str(table.spec),
        "order": str(table.sort_order),
        "location": table.location,
        "version": table.format_version,
        "refs": {
            name: (ref.type, ref.min_snapshots_to_keep, frozenset(live_files(table, storage, name)))
            for name, ref in table.refs.items()
        },
        "snapshots": Counter(frozenset(files_of(snapshot, storage)) for snapshot in table.snapshots),
        "statistics": [file.statistics_path for file in table.statistics],
    }


def race(samples: Sequence[Sample], choices: Sequence[int]) -> list[tuple[int, int]]:
    """One schedule of some changes, all made for the same state, and its check."""
    base, _ = _filled()
    pointer = copied(base)
    start = loaded(pointer)
    changes = [sample.make(start, pointer) for sample in samples]
    published: list[int] = []

    def actor(number: int) -> Actor:
        def act(step: Step) -> object:
            return commit(SteppedPointer(pointer, step, lambda: published.append(number)), [changes[number]])

        return act

    results, trace = run_schedule([actor(number) for number in range(len(samples))], choices)
    for result in results:
        assert isinstance(result, (Committed, *FINAL)), f"{[s.name for s in samples]} {choices}: {result!r}"
    table = loaded(pointer).metadata
    check_readable(table, pointer.storage)
    assert len(table.metadata_log) == len(start.metadata.metadata_log) + len(published), "one commit for each success"
    assert essence(table, pointer) == one_after_the_other(tuple(samples[number].name for number in published))
    return trace


@cache
def one_after_the_other(names: tuple[str, ...]) -> dict[str, object]:
    """What changes made for the same state leave when each is committed after the one before has ended."""
    base, _ = _filled()
    alone = copied(base)
    start = loaded(alone)
    for name in names:
        commit(alone, [BY_NAME[name].make(start, alone)])
    return essence(loaded(alone).metadata, alone)


QUICK = ["append", "properties", "schema", "create tag", "expire", "rollback", "replace"]


@pytest.mark.parametrize("pair", [*itertools.combinations_with_replacement(QUICK, 2)], ids=" x ".join)
def test_two_writers(pair: tuple[str, str]) -> None:
    samples = [BY_NAME[name] for name in pair]
    TRIED["two writers"] += every_schedule(lambda choices: race(samples, choices))


@pytest.mark.slow
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_two_writers_of_every_kind(sample: Sample) -> None:
    for other in SAMPLES[SAMPLES.index(sample) :]:
        TRIED["two writers of every kind"] += every_schedule(lambda choices, o=other: race([sample, o], choices))  # type: ignore[misc]


@pytest.mark.parametrize(
    "names",
    [
        ("properties", "retention", "create tag"),
        pytest.param(("append", "append", "append"), marks=pytest.mark.slow),
        pytest.param(("append", "expire", "create tag"), marks=pytest.mark.slow),
        pytest.param(("schema", "append", "rollback"), marks=pytest.mark.slow),
    ],
    ids=" x ".join,
)
def test_three_writers(names: tuple[str, str, str]) -> None:
    samples = [BY_NAME[name] for name in names]
    TRIED["three writers"] += every_schedule(lambda choices: race(samples, choices))


# what must come out, said without the loop ------------------------------------------------------------------------


def outcomes(make: list[object], check) -> int:  # type: ignore[no-untyped-def]
    """Every schedule of commits to one table; `make` gives each change for a pointer."""
    base, _ = _filled()

    def run(choices: Sequence[int]) -> list[tuple[int, int]]:
        pointer = copied(base)
        changes = [one(pointer) for one in make]  # type: ignore[operator]
        actors: list[Actor] = [lambda step, c=c: commit(SteppedPointer(pointer, step), [c]) for c in changes]  # type: ignore[misc]
        results, trace = run_schedule(actors, choices)
        check(loaded(pointer).metadata, pointer, changes, results)
        return trace

    return every_schedule(run)


def test_appenders_never_fail_and_all_are_there() -> None:
    """I15, I16: appends do not conflict; each one's snapshot is in main's history, once."""

    def check(table: TableMetadata, pointer: Pointer, changes: list[PutFiles], results: list[object]) -> None:
        assert all(isinstance(result, Committed) for result in results)
        history = [snapshot.snapshot_id for snapshot in ancestors(table, table.current_snapshot_id)]
        assert Counter(history).keys() >= {change.snapshot_id for change in changes}
        assert live_files(table, pointer.storage) >= {path("x"), path("y")}
        numbers = [snapshot.sequence_number for snapshot in table.snapshots]
        assert numbers == sorted(set(numbers)), "I2: sequence numbers only grow"
        leftovers = [n for c in changes for n in c.written() if n not in c.used() and pointer.storage.exists(n)]
        assert leftovers == [], "what lost attempts wrote is gone"

    made = [lambda p, n=n: PutFiles(p.environment, [data_file(path(n))]) for n in ("x", "y")]
    count = outcomes(made, check)  # type: ignore[arg-type]
    # load and swap of each: 6 orders. In 4 of them the second to swap reads and swaps once more, all alone.
    assert count == 6
    TRIED["appenders"] += count


def test_setters_of_one_property_leave_one_value_and_lose_no_other() -> None:
    def check(table: TableMetadata, pointer: Pointer, changes: list[object], results: list[object]) -> None:
        assert all(isinstance(result, Committed) for result in results)
        assert table.properties["shared"] in ("one", "two")
        assert table.properties["one"] == table.properties["two"] == "set"

    made = [lambda p, n=n: UpdateProperties({"shared": n, n: "set"}) for n in ("one", "two")]
    TRIED["setters"] += outcomes(made, check)  # type: ignore[arg-type]


def test_of_two_schema_changes_that_overlap_one_wins() -> None:
    seen: Counter[int] = Counter()

    def check(table: TableMetadata, pointer: Pointer, changes: list[object], results: list[object]) -> None:
        conflicts = [result for result in results if isinstance(result, FloeError)]
        seen[len(conflicts)] += 1
        assert len(conflicts) == 1
        assert isinstance(conflicts[0], ConflictingChange)
        assert "was made for schema 0" in conflicts[0].message

    base, _ = _filled()
    made = [lambda p: BY_NAME["schema"].make(loaded(base), p)] * 2
    TRIED["schema changes"] += outcomes(made, check)  # type: ignore[arg-type]
    assert seen[1] >= 6
