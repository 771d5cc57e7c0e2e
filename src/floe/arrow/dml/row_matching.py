"""The condition of a statement: a filter that planning understands, and what is left to ask of the rows.

A plain filter, such as `ts >= '2024-01-01' and customer like 'a%'`, is all that there is to ask. Anything else that SQL
can say is compiled, and the part of it that is a filter still leaves out files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from floe.arrow.values.compiling import Compiled, Scope
from floe.arrow.values.filters import filter_of
from floe.errors import InvalidExpression, NoSuchColumn
from floe.spec.expressions.binding import bind
from floe.spec.expressions.nodes import TRUE, Expression
from floe.spec.expressions.parser import parse_filter
from floe.spec.schemas.schema import Schema

__all__ = ["Condition", "condition_of"]


@dataclass(frozen=True, eq=False, slots=True)
class Condition:
    """A filter that every row passes for which the condition is true, and the condition itself if that is not all."""

    filter: Expression
    rest: Compiled | None = None


def condition_of(given: Any, scope: Scope, relation: str) -> Condition:
    """The condition that a user gave as text, as a filter, or not at all, which is true of every row.

    >>> from floe.spec.types import Field, INT
    >>> scope = Scope({"t": Schema((Field(1, "a", INT),))})
    >>> print(condition_of("a > 5", scope, "t").filter)
    a > 5
    >>> condition_of("a % 2 = 0 and a > 5", scope, "t").rest is None
    False
    """
    schema = scope.relations[relation]
    if given is None:
        return Condition(TRUE)
    if isinstance(given, Expression):
        bind(given, schema, case_sensitive=scope.case_sensitive)
        return Condition(given)
    if not isinstance(given, str):
        raise InvalidExpression(
            f"a condition is text or a filter, found {type(given).__name__}", hint="write 'true' for all rows"
        )
    plain = _plain_filter(given, schema, scope)
    if plain is not None:
        return Condition(plain)
    compiled = scope.condition(given)
    found = filter_of(compiled, relation)
    return Condition(found.filter, None if found.exact else compiled)


def _plain_filter(text: str, schema: Schema, scope: Scope) -> Expression | None:
    try:
        found = parse_filter(text)
        bind(found, schema, case_sensitive=scope.case_sensitive)
    except (InvalidExpression, NoSuchColumn):
        return None
    return found
