"""The tree of a value as it was written: literals, names, calls; operators and CASE are calls too.

`at` is where in the text it begins, for errors; -1 for what was not written as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from floe.spec.types import PrimitiveType, Type

__all__ = ["INTERVAL", "Call", "Cast", "Literal", "Member", "Name", "Node", "walk"]

INTERVAL = PrimitiveType("interval")
"""The type of `INTERVAL 3 DAYS`, which only moments are added to; its values are pairs of months and microseconds."""


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a value."""

    at: int


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A value of a type, in the form of `floe.spec.values`."""

    type: Type
    value: Any


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A column, perhaps with its table before it or a struct's fields after it."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function of other values, by its name in lower case; an operator goes by its sign."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """A value turned into another type."""

    value: Node
    type: Type


@dataclass(frozen=True, slots=True)
class Member(Node):
    """A field of a struct that is itself computed."""

    value: Node
    name: str


def walk(node: Node) -> Iterator[Node]:
    """The node and all that is in it.

    >>> from floe.spec.types import INT
    >>> sum(isinstance(part, Literal) for part in walk(Call(0, "+", (Literal(0, INT, 1), Literal(4, INT, 2)))))
    2
    """
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, Call):
            waiting += part.arguments
        elif isinstance(part, Cast | Member):
            waiting.append(part.value)
