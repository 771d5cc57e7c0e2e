"""One walk over bound filters, shared by everything that evaluates, projects or prunes.

A caller says what a predicate becomes, and how the parts of an AND and of an OR are put together; the walk does the
rest. Because binding has removed every NOT, "true for all parts" and "true for some part" are all the logic there is:
under SQL's rules a part that is unknown simply is not true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from floe.errors import InvalidExpression
from floe.spec.expressions.nodes import And, BoundPredicate, Constant, Expression, Or

__all__ = ["all_true", "any_true", "fold"]

T = TypeVar("T")
X = TypeVar("X")


def fold(
    expression: Expression,
    *,
    constant: Callable[[bool], T],
    predicate: Callable[[BoundPredicate], T],
    all_of: Callable[[list[T]], T],
    any_of: Callable[[list[T]], T],
) -> T:
    """Replace each part of a bound filter, from the leaves up.

    >>> from floe.spec.expressions.nodes import FALSE, TRUE
    >>> fold(TRUE, constant=str, predicate=repr, all_of=" and ".join, any_of=" or ".join)
    'True'
    """

    def walk(node: Expression) -> T:
        match node:
            case BoundPredicate():
                return predicate(node)
            case And(children):
                return all_of([walk(child) for child in children])
            case Or(children):
                return any_of([walk(child) for child in children])
            case Constant(value):
                return constant(value)
        raise InvalidExpression(
            f"a {type(node).__name__} cannot be evaluated", hint="bind the filter to a schema first, with `bind`"
        )

    return walk(expression)


def all_true(parts: list[Callable[[X], bool]]) -> Callable[[X], bool]:
    """The function that tells whether all of some functions are true of a thing.

    >>> all_true([str.isalpha, str.isupper])("Ab")
    False
    """
    if len(parts) == 2:  # by far the most common, and half the price of the loop
        first, second = parts
        return lambda thing: first(thing) and second(thing)
    return lambda thing: all(part(thing) for part in parts)


def any_true(parts: list[Callable[[X], bool]]) -> Callable[[X], bool]:
    """The function that tells whether any of some functions is true of a thing.

    >>> any_true([str.isalpha, str.isupper])("Ab")
    True
    """
    if len(parts) == 2:
        first, second = parts
        return lambda thing: first(thing) or second(thing)
    return lambda thing: any(part(thing) for part in parts)
