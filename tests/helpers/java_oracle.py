"""Questions to Java Iceberg, many at a time; a refusal is an answer too (see tests/interop/java)."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from floe.spec.types import Type
from helpers.value_strategies import values_of


@dataclass(frozen=True)
class Answer:
    """What Java says, or the error with which it refuses."""

    value: str | None = None
    error: str | None = None
    message: str | None = None

    @property
    def refused(self) -> bool:
        return self.error is not None

    def json(self) -> Any:
        """The value, which is JSON."""
        assert self.value is not None, f"{self.error}: {self.message}"
        return json.loads(self.value)


def ask_all(ask_java: Callable[..., str], calls: list[tuple[Any, ...]]) -> list[Answer]:
    """The answers to calls of the oracle's methods; what is neither text nor a number is sent as JSON."""
    sent = [[part if isinstance(part, str | int) else json.dumps(part) for part in call] for call in calls]
    return [Answer(**answer) for answer in json.loads(ask_java("ask", json.dumps(sent)))]


def ask(ask_java: Callable[..., str], *call: Any) -> Answer:
    """The answer to one call."""
    return ask_all(ask_java, [call])[0]


@dataclass(frozen=True)
class Difference:
    """A place where Floe differs from Java on purpose."""

    refuses: str
    """Who says no where the other does not: Java or Floe."""

    words: str
    """The pattern of what it says."""

    why: str


def explained(differences: list[Difference], refuses: str, message: str) -> bool:
    """Whether a refusal by one of the two is among the differences that are meant."""
    return any(d.refuses == refuses and re.search(d.words, message) for d in differences)


_YEAR_1, _YEAR_10000 = -719_162, 2_932_897  # in days from 1970-01-01
_DAY_MICROS = 86_400_000_000
_RANGES = {
    "date": (_YEAR_1, _YEAR_10000 - 1),
    "timestamp": (_YEAR_1 * _DAY_MICROS, _YEAR_10000 * _DAY_MICROS - 1),
    "timestamptz": (_YEAR_1 * _DAY_MICROS, _YEAR_10000 * _DAY_MICROS - 1),
}


def java_values(type_: Type) -> st.SearchStrategy[Any]:
    """Values that Java's JSON can carry: no NaN or infinity, years of four digits."""
    if type_.kind in _RANGES:
        return st.integers(*_RANGES[type_.kind])
    if type_.kind in ("float", "double"):
        return values_of(type_).filter(math.isfinite)
    return values_of(type_)
