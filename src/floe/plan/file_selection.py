"""What of a filter is left for each of many files: the rules of `spec.pruning.residuals`, a column at a time.

The partition of a file settles some of the filter's tests and leaves the others. Each test is looked at once, over all
files; and however many files and partitions there are, they fall into a few classes that have the same tests settled,
so that few expressions are made, and files share them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from floe.spec.expressions.folding import fold
from floe.spec.expressions.nodes import FALSE, TRUE, BoundPredicate, Expression, and_, or_
from floe.spec.expressions.rewrite import field_ids
from floe.spec.partitioning.partition_spec import PartitionSpec
from floe.spec.pruning.columnar_rows import Column, evaluate
from floe.spec.pruning.projection import partition_schema, project_predicate
from floe.spec.schemas.schema import Schema

__all__ = ["Residuals", "SpecResiduals"]

Codes = NDArray[np.int32]

_NONE, _ALL, _SOME = 0, 1, 2
"""Of a test: no row of the file passes, all do, or that is to be seen."""

_STATES = 3
_MANY = 3**18


class Residuals:
    """The residuals that a plan has met, each once."""

    def __init__(self, bound: Expression) -> None:
        self.bound = bound
        self.expressions: list[Expression] = [bound]
        self._numbers: dict[Expression, int] = {bound: 0}

    def number(self, expression: Expression) -> int:
        """The place of an expression among `expressions`.

        >>> Residuals(TRUE).number(FALSE)
        1
        """
        found = self._numbers.get(expression)
        if found is None:
            found = self._numbers[expression] = len(self.expressions)
            self.expressions.append(expression)
        return found

    def under(self, spec: PartitionSpec, schema: Schema) -> SpecResiduals:
        """The residuals of files of one spec; `schema` is the one that the filter is bound to."""
        return SpecResiduals(self, spec, schema)


class SpecResiduals:
    """What is left of a filter for the files of one spec.

    >>> from floe.spec.expressions.nodes import BoundReference, Op
    >>> from floe.spec.partitioning.partition_spec import PartitionField
    >>> from floe.spec.partitioning.transforms import DAY
    >>> from floe.spec.types import Field, TIMESTAMP
    >>> schema = Schema((Field(1, "ts", TIMESTAMP),))
    >>> spec = PartitionSpec((PartitionField((1,), 1000, "ts_day", DAY),))
    >>> noon = BoundPredicate(Op.GT, BoundReference(schema.entry(1)), (86_400_000_000 * 3 // 2,))
    >>> residuals = Residuals(noon)
    >>> days = Column(np.array([0, 1, 2, 1]))
    >>> codes = residuals.under(spec, schema).codes({1000: days}.__getitem__, 4)
    >>> [str(residuals.expressions[code]) for code in codes]
    ['false', "ts > TIMESTAMP_NTZ '1970-01-02 12:00:00'", 'true', "ts > TIMESTAMP_NTZ '1970-01-02 12:00:00'"]
    """

    def __init__(self, residuals: Residuals, spec: PartitionSpec, schema: Schema) -> None:
        self._residuals = residuals
        self._tests: dict[BoundPredicate, tuple[Expression, Expression]] = {}
        tuples = partition_schema(spec, schema)

        def note(predicate: BoundPredicate) -> None:
            projections = project_predicate(predicate, spec, tuples)
            some_pass = and_(*(inclusive for inclusive, _ in projections))
            all_pass = or_(*(strict for _, strict in projections))
            if (some_pass, all_pass) != (TRUE, FALSE):
                self._tests[predicate] = some_pass, all_pass

        fold(
            residuals.bound,
            constant=lambda value: None,
            predicate=note,
            all_of=lambda parts: None,
            any_of=lambda parts: None,
        )
        self._known: dict[bytes, int] = {}

    def codes(self, partition: Callable[[int], Column], count: int) -> Codes | None:
        """For each file the number of its residual, given its partition values; None if nothing is ever settled."""
        if not self._tests:
            return None
        wanted = {i for pair in self._tests.values() for part in pair for i in field_ids(part)}
        columns = {i: partition(i) for i in wanted}
        states = np.stack([_states(pair, columns, count) for pair in self._tests.values()])
        classes, firsts = _classes(states)
        numbers = [self._number(states[:, first].tobytes()) for first in firsts.tolist()]
        return np.array(numbers, np.int32)[classes]

    def _number(self, states: bytes) -> int:
        found = self._known.get(states)
        if found is None:
            settled = dict(zip(self._tests, states, strict=True))
            kept: Mapping[int, Callable[[BoundPredicate], Expression]] = {
                _NONE: lambda predicate: FALSE,
                _ALL: lambda predicate: TRUE,
                _SOME: lambda predicate: predicate,
            }
            left = fold(
                self._residuals.bound,
                constant=lambda value: TRUE if value else FALSE,
                predicate=lambda predicate: kept[settled.get(predicate, _SOME)](predicate),
                all_of=lambda parts: and_(*parts),
                any_of=lambda parts: or_(*parts),
            )
            found = self._known[states] = self._residuals.number(left)
        return found


def _states(pair: tuple[Expression, Expression], columns: Mapping[int, Column], count: int) -> NDArray[np.uint8]:
    some_pass, all_pass = (evaluate(part, columns, count) for part in pair)
    return np.where(some_pass, np.where(all_pass, _ALL, _SOME), _NONE).astype(np.uint8)


def _classes(states: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each file the number of its class, and for each class its first file; a row of `states` for each test."""
    codes = np.zeros(states.shape[1], np.int64)
    for row in states:
        codes = codes * _STATES + row
        if codes.max(initial=0) > _MANY:
            codes = np.unique(codes, return_inverse=True)[1]
    _, firsts, classes = np.unique(codes, return_index=True, return_inverse=True)
    return classes, firsts
