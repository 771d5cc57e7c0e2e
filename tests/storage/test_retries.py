"""Retries: what is repeated, how long the pauses are, and that a swap never is."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, strategies as st

from floe.errors import FileAlreadyExists, NoSuchFile, OutcomeUnknown, StorageError, StorageUnavailable
from floe.storage.environment import Environment, ManualClock, deterministic_environment
from floe.storage.memory import MemoryStorage
from floe.storage.protocol import Deletion, FileInfo
from floe.storage.wrappers import Retrying, RetryPolicy, StorageWrapper
from floe.testing.faults import Fault, FaultyStorage


class Flaky(StorageWrapper):
    """Fails so many times in a row, at every call."""

    def __init__(self, storage: MemoryStorage, times: int, error: type[StorageError] = StorageUnavailable) -> None:
        super().__init__(storage)
        self.left, self.error, self.calls = times, error, 0

    def _run(self, operation: str, location: str, action: Callable[[], object]) -> object:  # type: ignore[override]
        self.calls += 1
        if self.left:
            self.left -= 1
            raise self.error("not now", location=location)
        return action()


@pytest.fixture
def files() -> MemoryStorage:
    storage = MemoryStorage()
    storage.write("memory:t/a", b"abc")
    return storage


CALLS: list[Callable[[Retrying], object]] = [
    lambda s: s.read("memory:t/a"),
    lambda s: s.read_range("memory:t/a", 0, 1),
    lambda s: s.open_read("memory:t/a").read(),
    lambda s: s.stat("memory:t/a"),
    lambda s: s.exists("memory:t/a"),
    lambda s: list(s.list("memory:t")),
    lambda s: list(s.folders("memory:t")),
    lambda s: s.write("memory:t/b", b"b"),
    lambda s: s.open_write("memory:t/b").abort(),
    lambda s: s.delete_many(["memory:t/a"]),
    lambda s: s.make_folder("memory:t"),
    lambda s: s.remove_folder("memory:x"),
]


@pytest.mark.parametrize("call", CALLS)
def test_what_may_be_repeated_is(files: MemoryStorage, call: Callable[[Retrying], object]) -> None:
    call(Retrying(Flaky(files, 3), environment=deterministic_environment()))


@pytest.mark.parametrize("call", CALLS)
def test_the_error_is_told_when_attempts_end(files: MemoryStorage, call: Callable[[Retrying], object]) -> None:
    flaky = Flaky(files, 1000)
    with pytest.raises(StorageUnavailable, match="not now"):
        call(Retrying(flaky, policy=RetryPolicy(attempts=4), environment=deterministic_environment()))
    assert flaky.calls == 4


@pytest.mark.parametrize("error", [StorageUnavailable, OutcomeUnknown])
def test_a_create_is_never_repeated(files: MemoryStorage, error: type[StorageError]) -> None:
    flaky = Flaky(files, 1, error)
    with pytest.raises(error):
        Retrying(flaky, environment=deterministic_environment()).create("memory:t/v1", b"")
    assert flaky.calls == 1


@pytest.mark.parametrize("error", [NoSuchFile, FileAlreadyExists, StorageError])
def test_definite_errors_are_told_at_once(files: MemoryStorage, error: type[StorageError]) -> None:
    flaky = Flaky(files, 1, error)
    with pytest.raises(error):
        Retrying(flaky, environment=deterministic_environment()).read("memory:t/a")
    assert flaky.calls == 1


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.LOST_ANSWER, Fault.LOST_REQUEST])
@pytest.mark.parametrize("overwrite", [False, True])
def test_whole_writes_survive_a_lost_answer(files: MemoryStorage, fault: Fault, overwrite: bool) -> None:
    storage = Retrying(FaultyStorage(files, fault, at=1), environment=deterministic_environment())
    storage.write("memory:t/b", b"mine", overwrite=overwrite)
    assert files.read("memory:t/b") == b"mine"


def test_the_same_name_with_other_bytes_is_not_our_write(files: MemoryStorage) -> None:
    storage = Retrying(FaultyStorage(files, Fault.BEFORE, at=1), environment=deterministic_environment())
    with pytest.raises(FileAlreadyExists):
        storage.write("memory:t/a", b"other")
    with pytest.raises(FileAlreadyExists):
        Retrying(files).write("memory:t/a", b"abc")  # nothing failed before, so it cannot be ours


def test_only_files_that_failed_are_deleted_again(files: MemoryStorage) -> None:
    class OneFails(StorageWrapper):
        def __init__(self, storage: MemoryStorage) -> None:
            super().__init__(storage)
            self.requested: list[list[str]] = []

        def delete_many(self, locations: object) -> list[Deletion]:  # type: ignore[override]
            names = list(locations)  # type: ignore[call-overload]
            self.requested.append(names)
            errors = {"memory:b": StorageUnavailable("not now"), "memory:c": StorageError("never")}
            return [Deletion(n, errors.get(n) if len(self.requested) == 1 or n == "memory:c" else None) for n in names]

    inner = OneFails(files)
    outcomes = Retrying(inner, environment=deterministic_environment()).delete_many(
        ["memory:a", "memory:b", "memory:c"]
    )
    assert [outcome.deleted for outcome in outcomes] == [True, True, False]
    assert inner.requested == [["memory:a", "memory:b", "memory:c"], ["memory:b"]]


class BreakingListing(StorageWrapper):
    """A listing that breaks off after some entries, once."""

    def __init__(self, storage: MemoryStorage, after: int, order: Callable[[list[FileInfo]], list[FileInfo]]) -> None:
        super().__init__(storage)
        self.after, self.order, self.broken = after, order, False

    def list(self, prefix: str) -> Iterator[FileInfo]:
        for number, info in enumerate(self.order([*self.storage.list(prefix)])):
            if number == self.after and not self.broken:
                self.broken = True
                raise StorageUnavailable("not now")
            yield info


@pytest.mark.parametrize("after", range(5))
def test_a_listing_that_breaks_off_goes_on_where_it_was(after: int) -> None:
    files = MemoryStorage()
    for name in "abcde":
        files.write(f"memory:t/{name}", b"")
    storage = Retrying(BreakingListing(files, after, lambda listing: listing), environment=deterministic_environment())
    assert list(storage.list("memory:t")) == list(files.list("memory:t"))


def test_a_listing_without_order_is_not_continued() -> None:
    files = MemoryStorage()
    for name in "abcde":
        files.write(f"memory:t/{name}", b"")
    storage = Retrying(
        BreakingListing(files, 2, lambda listing: listing[::-1]), environment=deterministic_environment()
    )
    with pytest.raises(StorageUnavailable):
        list(storage.list("memory:t"))


def test_pauses_grow_and_are_cut_by_chance(files: MemoryStorage) -> None:
    pauses: list[float] = []
    environment = Environment(clock=ManualClock(), sleep=pauses.append, random=lambda: 0.5)
    policy = RetryPolicy(attempts=6, first_pause=0.1, longest_pause=1.0)
    Retrying(Flaky(files, 5), policy=policy, environment=environment).read("memory:t/a")
    assert pauses == pytest.approx([0.075, 0.15, 0.3, 0.6, 0.75])


def test_no_attempt_starts_after_the_time_is_over(files: MemoryStorage) -> None:
    flaky = Flaky(files, 1000)
    policy = RetryPolicy(attempts=1000, first_pause=10, longest_pause=10, total=60)
    with pytest.raises(StorageUnavailable):
        Retrying(flaky, policy=policy, environment=deterministic_environment()).read("memory:t/a")
    assert 7 <= flaky.calls <= 13


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_a_pause_is_never_longer_than_the_longest(failures: int, chance: float) -> None:
    policy = RetryPolicy()
    assert policy.first_pause / 2 <= policy.pause(failures, chance) <= policy.longest_pause
