"""What several tests of one column say together: sets of values described by tests, intersected and united.

A test is an operation with its literals, such as `(Op.GT, (3,))`, and stands for the values that pass it. The
literals are values of one type in the form of `floe.spec.values`, which Python compares as the format does (strings by
code points, uuids and binary by unsigned bytes), and are never NaN: a bound filter asks for NaN with `IS_NAN`. Null is
no value here.

>>> from floe.spec.types import LONG
>>> intersect(LONG, [(Op.GT, (3,)), (Op.GT, (5,)), (Op.NOT_EQ, (2,))])
[(<Op.GT: 'gt'>, (5,))]
>>> unite(LONG, [(Op.EQ, (1,)), (Op.EQ, (2,))])
[(<Op.IN: 'in'>, (1, 2))]
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from floe.spec.expressions.nodes import Op
from floe.spec.types import BOOLEAN, Type

__all__ = ["Test", "intersect", "unite"]

Test = tuple[Op, tuple[Any, ...]]
"""An operation and its literals."""


def intersect(type_: Type, tests: Sequence[Test]) -> bool | list[Test]:
    """The shortest known list of tests that a value passes just when it passes all of these.

    True when every value passes them, False when none does.

    >>> from floe.spec.types import LONG
    >>> intersect(LONG, [(Op.GT, (3,)), (Op.LT, (2,))])
    False
    """
    conditions = _Conditions(allowed={False, True} if type_ == BOOLEAN else None)
    for op, literals in tests:
        _ADD[op](conditions, literals)
    result = conditions.tests()
    if result is None:
        return False
    says_nothing = not result or (type_ == BOOLEAN and result == [(Op.IN, (False, True))])
    return True if says_nothing else result


def unite(type_: Type, tests: Sequence[Test]) -> bool | list[Test]:
    """The shortest known list of tests that a value passes any of just when it passes any of these.

    True when every value does, False when none does. The values that fail all tests are those that pass the negation
    of each, so that one set of rules does for both.

    >>> from floe.spec.types import LONG
    >>> unite(LONG, [(Op.GT, (3,)), (Op.LT, (5,))])
    True
    """
    outside = intersect(type_, [(op.negated, literals) for op, literals in tests])
    if isinstance(outside, bool):
        return not outside
    if type_ == BOOLEAN:  # one of two values is outside
        ((_, (value,)),) = outside
        return [(Op.EQ, (not value,))]
    return [(op.negated, literals) for op, literals in outside]


@dataclass(slots=True)
class _Conditions:
    """All that is known of a value after several tests."""

    allowed: set[Any] | None = None
    excluded: set[Any] = field(default_factory=set)
    low: tuple[Any, bool] | None = None
    """The lower limit, and whether the limit itself is excluded."""

    high: tuple[Any, bool] | None = None
    prefix: str | None = None
    other_prefixes: set[str] = field(default_factory=set)
    barred: list[str] = field(default_factory=list)
    """The shortest of the other prefixes, sorted; known once all tests are in."""

    nan: bool | None = None
    impossible: bool = False

    # what each operation adds ---------------------------------------------------------------------------------

    def allow(self, values: Iterable[Any]) -> None:
        self.allowed = set(values) if self.allowed is None else self.allowed.intersection(values)

    def exclude(self, values: Iterable[Any]) -> None:
        self.excluded.update(values)

    def above(self, value: Any, strict: bool) -> None:
        if self.low is None or (value, strict) > self.low:
            self.low = (value, strict)

    def below(self, value: Any, strict: bool) -> None:
        if self.high is None or (value, not strict) < (self.high[0], not self.high[1]):
            self.high = (value, strict)

    def starts_with(self, prefix: str) -> None:
        if self.prefix is None or prefix.startswith(self.prefix):
            self.prefix = prefix
        elif not self.prefix.startswith(prefix):
            self.impossible = True

    def is_nan(self, wanted: bool) -> None:
        if self.nan is not None and self.nan != wanted:
            self.impossible = True
        self.nan = wanted

    # what they say together -----------------------------------------------------------------------------------

    def tests(self) -> list[Test] | None:
        """The tests that say the same, an empty list if they say nothing, None if no value passes."""
        if self.impossible:
            return None
        self.barred = _shortest(self.other_prefixes)
        if self.nan:  # NaN is greater than every number, equal to none
            return [(Op.IS_NAN, ())] if self.allowed is None and self.high is None else None
        if self.allowed is None and self.low is not None and self.high is not None:
            if self.low[0] > self.high[0]:
                return None
            if self.low[0] == self.high[0]:
                self.allowed = {self.low[0]}
        if self.allowed is not None:
            passing = sorted(filter(self._passes, self.allowed))
            return [_one_of(passing, Op.EQ, Op.IN)] if passing else None
        return self._open_tests()

    def _open_tests(self) -> list[Test] | None:
        """As `tests`, when no list of values is given."""
        prefix = self.prefix
        if prefix is not None and any(map(prefix.startswith, self.barred)):
            return None
        others = [other for other in self.barred if prefix is None or other.startswith(prefix)]
        excluded = set(filter(self._would_pass, self.excluded))
        result: list[Test] = []
        if self.low is not None:
            value, strict = self.low
            result.append((Op.GT if strict or value in excluded else Op.GT_EQ, (value,)))
            excluded.discard(value)
        if self.high is not None:
            value, strict = self.high
            result.append((Op.LT if strict or value in excluded else Op.LT_EQ, (value,)))
            excluded.discard(value)
        if prefix is not None:
            result.append((Op.STARTS_WITH, (prefix,)))
        if excluded:
            result.append(_one_of(sorted(excluded), Op.NOT_EQ, Op.NOT_IN))
        result.extend((Op.NOT_STARTS_WITH, (other,)) for other in others)
        if self.nan is False and self.high is None:
            result.append((Op.NOT_NAN, ()))
        return result

    def _would_pass(self, value: Any) -> bool:
        """Whether a value passes all but the exclusions."""
        low, high = self.low, self.high
        if low is not None and (value < low[0] or (low[1] and value == low[0])):
            return False
        if high is not None and (value > high[0] or (high[1] and value == high[0])):
            return False
        if self.prefix is not None and not value.startswith(self.prefix):
            return False
        # the one that could begin the value is the last that sorts before it, for none of them begins another
        place = bisect_right(self.barred, value) - 1
        return place < 0 or not value.startswith(self.barred[place])

    def _passes(self, value: Any) -> bool:
        return value not in self.excluded and self._would_pass(value)


def _one_of(values: list[Any], single: Op, several: Op) -> Test:
    return (single if len(values) == 1 else several, tuple(values))


def _shortest(prefixes: Iterable[str]) -> list[str]:
    """The prefixes that no other of them begins; sorted, a prefix comes before all that it begins."""
    kept: list[str] = []
    for prefix in sorted(prefixes):
        if not kept or not prefix.startswith(kept[-1]):
            kept.append(prefix)
    return kept


_ADD: dict[Op, Callable[[_Conditions, tuple[Any, ...]], None]] = {
    Op.EQ: lambda c, literals: c.allow(literals),
    Op.IN: lambda c, literals: c.allow(literals),
    Op.NOT_EQ: lambda c, literals: c.exclude(literals),
    Op.NOT_IN: lambda c, literals: c.exclude(literals),
    Op.GT: lambda c, literals: c.above(literals[0], True),
    Op.GT_EQ: lambda c, literals: c.above(literals[0], False),
    Op.LT: lambda c, literals: c.below(literals[0], True),
    Op.LT_EQ: lambda c, literals: c.below(literals[0], False),
    Op.STARTS_WITH: lambda c, literals: c.starts_with(literals[0]),
    Op.NOT_STARTS_WITH: lambda c, literals: c.other_prefixes.add(literals[0]),
    Op.IS_NAN: lambda c, _: c.is_nan(True),
    Op.NOT_NAN: lambda c, _: c.is_nan(False),
}
