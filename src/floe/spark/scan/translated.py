"""What is known of a condition: filters for the rows that pass it, and for those that fail it.

To SQL a condition is true, false or unknown, so one side does not follow from the other: of a null, most comparisons
are neither. A filter lets all rows of its side through, and maybe more, so that a part that is not understood makes it
wider and never wrong. NOT exchanges the sides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from floe.spec.expressions.nodes import FALSE, TRUE, Expression, and_, or_

__all__ = ["NEITHER", "UNKNOWN", "Side", "Translated", "all_of", "any_of", "constant", "exactly", "opposite"]


@dataclass(frozen=True, slots=True)
class Side:
    """A filter for the rows of which a condition is true, or false."""

    filter: Expression = TRUE
    exact: bool = False
    """Whether the filter lets just these rows pass."""


@dataclass(frozen=True, slots=True)
class Translated:
    """What is known of a condition."""

    passing: Side = field(default_factory=Side)
    failing: Side = field(default_factory=Side)

    @property
    def filter(self) -> Expression:
        """A filter for the rows that pass."""
        return self.passing.filter

    @property
    def exact(self) -> bool:
        """Whether the filter lets just the same rows pass."""
        return self.passing.exact

    def roughly(self) -> Translated:
        """The same, where the filters may let more rows pass."""
        return Translated(replace(self.passing, exact=False), replace(self.failing, exact=False))


UNKNOWN: Final = Translated()
"""Nothing is known."""


def exactly(passing: Expression, failing: Expression) -> Translated:
    """A condition of which all is known."""
    return Translated(Side(passing, exact=True), Side(failing, exact=True))


NEITHER: Final = exactly(FALSE, FALSE)
"""A condition that is never true and never false: a comparison with null."""


def constant(value: bool) -> Translated:
    """A condition that is the same for all rows."""
    return exactly(TRUE, FALSE) if value else exactly(FALSE, TRUE)


def opposite(found: Translated) -> Translated:
    """NOT."""
    return Translated(found.failing, found.passing)


def all_of(parts: Iterable[Translated]) -> Translated:
    """AND: it is false where any part is."""
    found = list(parts)
    return Translated(
        Side(and_(*(part.passing.filter for part in found)), all(part.passing.exact for part in found)),
        Side(or_(*(part.failing.filter for part in found)), all(part.failing.exact for part in found)),
    )


def any_of(parts: Iterable[Translated]) -> Translated:
    """OR: it is false where all parts are."""
    return opposite(all_of(opposite(part) for part in parts))
