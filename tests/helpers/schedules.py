"""Running several actors in every order of their steps, one step at a time, without sleeps or luck.

Each actor runs in a thread of its own but only while the scheduler lets it: it stops before every step and waits. All
orders are tried by going through the choices depth first; a run is replayed from its list of choices.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from floe.commit.pointer import Pointer
from helpers.pointers import WrappedPointer

T = TypeVar("T")
Step = Callable[[], None]
Actor = Callable[[Step], object]


class _Runner:
    """One actor in its thread; it runs to its first step at once, for nothing that it does before can be noticed."""

    def __init__(self, actor: Actor) -> None:
        self._may_run = threading.Semaphore(0)
        self._stopped = threading.Semaphore(0)
        self.finished = False
        self.result: object = None
        self._thread = threading.Thread(target=self._run, args=(actor,), daemon=True)
        self._thread.start()
        self._stopped.acquire()

    def _run(self, actor: Actor) -> None:
        try:
            self.result = actor(self.step)
        except BaseException as error:
            self.result = error
        self.finished = True
        self._stopped.release()

    def step(self) -> None:
        """Called by the actor: here others may run."""
        self._stopped.release()
        self._may_run.acquire()

    def go(self) -> None:
        """Lets the actor run to its next step, or its end."""
        self._may_run.release()
        self._stopped.acquire()
        if self.finished:
            self._thread.join()


def run_schedule(actors: Sequence[Actor], choices: Sequence[int]) -> tuple[list[object], list[tuple[int, int]]]:
    """Runs actors by the choices, and the first one that can run after those; results, and what was chosen of what."""
    runners = [_Runner(actor) for actor in actors]
    trace: list[tuple[int, int]] = []
    while True:
        ready = [runner for runner in runners if not runner.finished]
        if not ready:
            return [runner.result for runner in runners], trace
        choice = choices[len(trace)] if len(trace) < len(choices) else 0
        trace.append((choice, len(ready)))
        ready[choice].go()


def every_schedule(run: Callable[[Sequence[int]], list[tuple[int, int]]], *, limit: int = 1_000_000) -> int:
    """Calls `run` with choices until every order was tried; it gives back the trace. Returns how many there were."""
    choices: list[int] = []
    count = 0
    while True:
        trace = run(choices)
        count += 1
        assert count <= limit, f"more than {limit} schedules"
        while trace and trace[-1][0] + 1 >= trace[-1][1]:
            trace.pop()
        if not trace:
            return count
        choices = [choice for choice, _ in trace[:-1]] + [trace[-1][0] + 1]


class SteppedPointer(WrappedPointer):
    """A pointer that stops before the calls that others can notice, or that notice others: load and swap."""

    def __init__(self, inner: Pointer, step: Step, published: Callable[[], object] = lambda: None) -> None:
        super().__init__(inner)
        self._step, self._published = step, published

    def _run(self, call: str, action: Callable[[], T]) -> T:
        if call in ("load", "swap"):
            self._step()
        result = action()
        if call == "swap":
            self._published()  # before anybody else runs
        return result
