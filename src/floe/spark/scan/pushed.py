"""What a read has been told of the rows that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from floe.spark.bridge.predicates import Node
from floe.spark.scan.translated import Translated
from floe.spec.expressions.nodes import TRUE, Expression, and_

__all__ = ["NOTHING_PUSHED", "Pushed"]


@dataclass(frozen=True)
class Pushed:
    """Spark's predicates: as they are there, as trees, and what they mean."""

    array: Any
    """The `Predicate[]`; None while Spark has given none."""

    trees: Sequence[Node] = ()
    found: Sequence[Translated] = ()

    @cached_property
    def where(self) -> Expression:
        """A filter for the rows that pass all of them."""
        return and_(*(one.filter for one in self.found))

    @cached_property
    def places(self) -> list[int]:
        """Where those are that leave out something."""
        return [place for place, one in enumerate(self.found) if one.filter != TRUE]

    @property
    def is_exact(self) -> bool:
        """Whether the filter lets just these rows pass."""
        return bool(self.places) and all(one.exact for one in self.found)


NOTHING_PUSHED: Final = Pushed(None)
