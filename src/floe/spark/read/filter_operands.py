"""The operands of predicates, columns and functions of one column, and the filters that comparisons of them become.

For a function with integer values, `reach(v)` is the filter for the rows where the function is at least `v`. All
comparisons are composed of it (`f = v` is `f >= v` and not `f >= v + 1`), so they are ranges of the column, which
prune through every partition transform. Functions nest: `year(CAST(ts AS DATE)) >= 2024` becomes `CAST(ts AS DATE) >=
2024-01-01`, and that becomes a comparison of the timestamp. A function is null exactly where its column is null.

In SQL a condition is true, false or unknown, so a translated condition has two filters: for the rows where it is
true, and for those where it is false (most comparisons with null are neither). A filter lets all rows of its side
pass, and maybe more: a part that cannot be translated makes a filter wider, never wrong. NOT exchanges the two
filters.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

from floe.spec.expressions.binding import bind_predicate
from floe.spec.expressions.nodes import (
    FALSE,
    TRUE,
    BoundPredicate,
    BoundReference,
    BoundTerm,
    BoundTransform,
    Expression,
    Op,
    and_,
    or_,
)
from floe.spec.expressions.printing import literal_to_text
from floe.spec.expressions.row_evaluation import value_test
from floe.spec.partitioning.transforms import Truncate
from floe.spec.types import DecimalType, Type
from floe.spec.values.exact_numbers import decimal_from_unscaled, unscaled_value

# What is known of a condition: filters for the rows that pass it, and for those that fail it.


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


Reach = Callable[[int], Translated]
"""Whether a function of a column is at least so much."""

_MANY: Final = 100
"""Of more values in a list only the least and the greatest count, for a function whose values are ranges."""

_BITS: Final = {"int": 32, "date": 32, "long": 64, "timestamp": 64, "timestamptz": 64}


class Term:
    """A column, or a function of one. `type` is Spark's name of the type that it has there."""

    def __init__(self, ref: BoundReference, type_: str) -> None:
        self.ref, self.type = ref, type_

    def compared(self, op: Op, value: Any) -> Translated:
        """A comparison with a value that is not null, as Spark's rows have it."""
        raise NotImplementedError

    def one_of(self, values: Sequence[Any]) -> Translated:
        """Whether it is one of some values that are not null."""
        return any_of(self.compared(Op.EQ, value) for value in values)

    def is_null(self) -> Translated:
        """Whether it is null."""
        return exactly(bind_predicate(Op.IS_NULL, self.ref), bind_predicate(Op.NOT_NULL, self.ref))

    def never(self) -> Translated:
        """A comparison that no value passes."""
        return exactly(FALSE, bind_predicate(Op.NOT_NULL, self.ref))


class Bound(Term):
    """A column, or a transform of one that Iceberg's filters have themselves."""

    def __init__(self, bound: BoundTerm, type_: str) -> None:
        super().__init__(bound.ref if isinstance(bound, BoundTransform) else bound, type_)
        self.bound = bound

    def compared(self, op: Op, value: Any) -> Translated:
        """The same comparison: NaN is equal to itself and above all numbers, to Spark as to Floe."""
        literal = (_written(self.bound.type, value),)
        return exactly(bind_predicate(op, self.bound, literal), bind_predicate(op.negated, self.bound, literal))

    def one_of(self, values: Sequence[Any]) -> Translated:
        """IN."""
        literals = tuple(_written(self.bound.type, value) for value in values)
        if not literals:
            return self.never()
        return exactly(bind_predicate(Op.IN, self.bound, literals), bind_predicate(Op.NOT_IN, self.bound, literals))


class Prefix(Bound):
    """The first characters of a text, or the first bytes."""

    def __init__(self, ref: BoundReference, width: int, type_: str) -> None:
        super().__init__(BoundTransform(Truncate(width), ref, ref.type), type_)
        self._column, self._width = Bound(ref, type_), width

    def compared(self, op: Op, value: Any) -> Translated:
        """Equal to a shorter text is that text alone; to one of the width, what starts with it."""
        if op is Op.NOT_EQ:
            return opposite(self.compared(Op.EQ, value))
        if op is Op.EQ and len(value) > self._width:
            return self.never()
        if op is Op.EQ and len(value) < self._width:
            return self._column.compared(op, value)
        if op is Op.EQ and isinstance(value, str):
            return self._column.compared(Op.STARTS_WITH, value)
        return super().compared(op, value)

    def one_of(self, values: Sequence[Any]) -> Translated:
        """One of some texts."""
        return Term.one_of(self, values) if len(values) <= _MANY else super().one_of(values)


class Stepped(Term):
    """A function with whole numbers for its values, whose comparisons are ranges of its column."""

    def __init__(self, ref: BoundReference, type_: str, reach: Reach, number: Callable[[Any], int] = int) -> None:
        super().__init__(ref, type_)
        self.reach, self._number = reach, number

    def compared(self, op: Op, value: Any) -> Translated:
        """A comparison, made of where the function reaches the value and the next one."""
        return self._compared(op, self._number(value))

    def _compared(self, op: Op, value: int) -> Translated:
        match op:
            case Op.GT_EQ:
                return self.reach(value)
            case Op.GT:
                return self.reach(value + 1)
            case Op.EQ:
                return all_of([self.reach(value), opposite(self.reach(value + 1))])
            case Op.LT | Op.LT_EQ | Op.NOT_EQ:
                return opposite(self._compared(op.negated, value))
            case _:
                return UNKNOWN

    def one_of(self, values: Sequence[Any]) -> Translated:
        """A range for each value."""
        numbers = sorted({self._number(value) for value in values})
        if not numbers:
            return self.never()
        if len(numbers) > _MANY:
            within = all_of([self.reach(numbers[0]), opposite(self.reach(numbers[-1] + 1))])
            return Translated(passing=within.roughly().passing)
        return any_of(self._compared(Op.EQ, number) for number in numbers)


class OrElse(Term):
    """COALESCE: a term, and a value where that is null."""

    def __init__(self, term: Term, value: Any) -> None:
        super().__init__(term.ref, term.type)
        self._term, self._value = term, value

    def compared(self, op: Op, value: Any) -> Translated:
        """Rows with null pass if the value in their place does."""
        return self._with_nulls(self._term.compared(op, value), value_test(self.ref.type, op, (value,))(self._value))

    def one_of(self, values: Sequence[Any]) -> Translated:
        """As a comparison."""
        is_one = any(value_test(self.ref.type, Op.EQ, (value,))(self._value) for value in values)
        return self._with_nulls(self._term.one_of(values), is_one)

    def _with_nulls(self, found: Translated, passes: bool) -> Translated:
        nulls = self._term.is_null()
        return any_of([found, nulls]) if passes else all_of([found, opposite(nulls)])

    def is_null(self) -> Translated:
        """It never is."""
        return constant(False)


def column_reach(ref: BoundReference) -> Reach | None:
    """Where a column is at least so much; None unless its values are like whole numbers. Decimals are unscaled."""
    type_ = ref.type
    if isinstance(type_, DecimalType):
        lowest, highest = 1 - 10**type_.precision, 10**type_.precision - 1
    elif type_.kind in _BITS:
        highest = 2 ** (_BITS[type_.kind] - 1) - 1
        lowest = -highest - 1
    else:
        return None
    some, none = bind_predicate(Op.NOT_NULL, ref), FALSE

    def reach(value: int) -> Translated:
        if value <= lowest:
            return exactly(some, none)
        if value > highest:
            return exactly(none, some)
        literal = (decimal_from_unscaled(value, type_.scale) if isinstance(type_, DecimalType) else value,)
        return exactly(BoundPredicate(Op.GT_EQ, ref, literal), BoundPredicate(Op.LT, ref, literal))

    return reach


def unscaled(type_: DecimalType) -> Callable[[Any], int]:
    """Decimals of a type as whole numbers."""

    def number(value: Decimal) -> int:
        found = unscaled_value(value, type_.scale)
        if found is None:
            raise ValueError(f"{value} is not a {type_}")
        return found

    return number


def _written(type_: Type, value: Any) -> Any:
    """A value of Spark's rows as a person would write it."""
    if type_.kind in ("date", "timestamp", "timestamptz"):
        return literal_to_text(int(value), type_).partition("'")[2].rpartition("'")[0]
    if type_.kind == "uuid" and str(uuid.UUID(value)) != value:
        raise ValueError(f"{value!r} is no text of a UUID")  # to Spark it is a text, and equal to none of them
    return value
