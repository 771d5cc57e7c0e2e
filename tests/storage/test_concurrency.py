"""Several calls at once: order, the limit, and the first error."""

import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidInput
from floe.storage.concurrency import map_concurrently


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as executor:
        yield executor


class Watched:
    """Counts how many calls are under way."""

    def __init__(self) -> None:
        self.now = self.most = self.begun = 0
        self.lock = threading.Lock()

    def __call__(self, number: int) -> int:
        with self.lock:
            self.begun += 1
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            return number * 2
        finally:
            with self.lock:
                self.now -= 1


@given(st.lists(st.integers(), max_size=50), st.integers(1, 10))
def test_results_come_in_the_order_of_the_items(items: list[int], limit: int) -> None:
    with ThreadPoolExecutor(4) as executor:
        assert list(map_concurrently(lambda n: n * 2, items, limit=limit, executor=executor)) == [n * 2 for n in items]


def test_results_are_in_order_when_calls_end_in_another(pool: ThreadPoolExecutor) -> None:
    second_done = threading.Event()

    def call(number: int) -> int:
        if number == 0:
            assert second_done.wait(10)
        else:
            second_done.set()
        return number

    assert list(map_concurrently(call, range(4), limit=4, executor=pool)) == [0, 1, 2, 3]


def test_never_more_than_the_limit(pool: ThreadPoolExecutor) -> None:
    watched = Watched()
    list(map_concurrently(watched, range(200), limit=3, executor=pool))
    assert watched.begun == 200
    assert watched.most <= 3


def test_items_are_taken_as_needed(pool: ThreadPoolExecutor) -> None:
    started: list[int] = []

    def endless() -> Iterator[int]:
        number = 0
        while True:
            started.append(number)
            yield number
            number += 1

    results = map_concurrently(lambda n: n, endless(), limit=4, executor=pool)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    results.close()  # type: ignore[attr-defined]
    assert len(started) <= 3 + 4


def test_the_first_error_is_raised_and_stops_the_rest(pool: ThreadPoolExecutor) -> None:
    begun: list[int] = []

    def call(number: int) -> int:
        begun.append(number)
        if number == 5:
            raise KeyError(number)
        return number

    results = map_concurrently(call, range(1000), limit=4, executor=pool)
    with pytest.raises(KeyError, match="5"):
        list(results)
    assert len(begun) <= 5 + 1 + 4


def test_a_later_items_error_stops_the_earlier_ones_wait(pool: ThreadPoolExecutor) -> None:
    failed = threading.Event()

    def call(number: int) -> int:
        if number == 1:
            failed.set()
            raise KeyError(number)
        assert failed.wait(10)
        return number

    with pytest.raises(KeyError, match="1"):
        list(map_concurrently(call, range(4), limit=4, executor=pool))


def test_nothing_runs_on_after_an_error(pool: ThreadPoolExecutor) -> None:
    watched = Watched()

    def call(number: int) -> int:
        watched(number)
        if number == 3:
            raise ValueError
        return number

    with pytest.raises(ValueError):  # noqa: PT011
        list(map_concurrently(call, range(100), limit=8, executor=pool))
    assert watched.now == 0


def test_calls_may_use_the_same_executor_again() -> None:
    with ThreadPoolExecutor(1) as executor:

        def outer(number: int) -> int:
            return sum(map_concurrently(lambda n: n, range(number), limit=4, executor=executor))

        assert list(map_concurrently(outer, range(10), limit=4, executor=executor)) == [
            sum(range(n)) for n in range(10)
        ]


def test_without_an_executor_calls_are_made_here() -> None:
    threads = set(map_concurrently(lambda _: threading.get_ident(), range(10), limit=4))
    assert threads == {threading.get_ident()}


def test_a_given_executor_is_used() -> None:
    class Inline(Executor):
        submitted = 0

        def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
            self.submitted += 1
            future: Future[Any] = Future()
            try:
                future.set_result(function(*arguments, **options))
            except BaseException as error:
                future.set_exception(error)
            return future

    executor = Inline()
    assert list(map_concurrently(lambda n: n + 1, range(5), limit=2, executor=executor)) == [1, 2, 3, 4, 5]
    assert executor.submitted == 5


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(InvalidInput):
        map_concurrently(lambda n: n, [1], limit=0)
