"""What several readers need, read by the first of them and kept for the others as long as there is room."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

__all__ = ["ReadOnce"]

Value = TypeVar("Value")


class ReadOnce(Generic[Value]):
    """Values by key: each is made once, while others who ask wait for it; what was not asked for longest goes first.

    >>> kept = ReadOnce(budget=10, weigh=len)
    >>> [kept.get(key, lambda: made) for key, made in ((1, "long text"), (1, "never made"), (2, "more"), (1, "again"))]
    ['long text', 'long text', 'more', 'again']
    """

    def __init__(self, *, budget: int, weigh: Callable[[Value], int]) -> None:
        self._budget = budget
        self._weigh = weigh
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Future[Value]] = OrderedDict()
        self._weights: dict[Hashable, int] = {}

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, made now if nobody did."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                promised: Future[Value] = Future()
                self._kept[key] = promised
            else:
                self._kept.move_to_end(key)
        if found is not None:
            return found.result()
        try:
            value = make()
        except BaseException as error:
            with self._lock:
                del self._kept[key]
            promised.set_exception(error)
            raise
        promised.set_result(value)
        with self._lock:
            self._weights[key] = self._weigh(value)
            self._make_room()
        return value

    def _make_room(self) -> None:
        """Let go of the oldest until the rest fits; what is being made stays."""
        total = sum(self._weights.values())
        for key in list(self._kept):
            if total <= self._budget:
                return
            if key in self._weights:
                total -= self._weights.pop(key)
                del self._kept[key]
