"""Rewrites filters without changing which rows pass: pushes NOT into predicates, folds constants and ranges.

A row passes a filter if the filter is *true*; it does not pass if it is false or unknown (a comparison with null). In a
filter without NOT, an unknown predicate can be treated as false. `without_not` is exact in three-valued logic;
`simplify` only keeps the rows that pass.

Nothing here is recursive, so filters of any depth can be rewritten. Trees that `floe.spec.expressions.binder.bind`
returns are at most `MAX_DEPTH` deep, so code that works on them may be recursive.

`intersect` and `unite` combine several tests of one column. A test is an operation with its literals, such as
`(Op.GT, (3,))`. The literals are values of one type in the form of `floe.spec.values`, which Python compares as the
format does (strings by code points, UUIDs and binary by unsigned bytes). They are never null or NaN.

>>> from floe.spec.types import LONG
>>> intersect(LONG, [(Op.GT, (3,)), (Op.GT, (5,)), (Op.NOT_EQ, (2,))])
[(<Op.GT: 'gt'>, (5,))]
>>> unite(LONG, [(Op.EQ, (1,)), (Op.EQ, (2,))])
[(<Op.IN: 'in'>, (1, 2))]
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from floe.errors import InvalidExpression
from floe.spec.expressions.nodes import (
    FALSE,
    TRUE,
    And,
    BoundPredicate,
    BoundTerm,
    BoundTransform,
    Expression,
    Not,
    Op,
    Or,
    Predicate,
    and_,
    not_,
    or_,
)
from floe.spec.types import BOOLEAN, Type

# Tests of one column ---------------------------------------------------------------------------------------------

Test = tuple[Op, tuple[Any, ...]]
"""An operation and its literals."""


def intersect(type_: Type, tests: Sequence[Test]) -> bool | list[Test]:
    """Combine tests with AND: return a shorter list of tests that the same values pass.

    Returns True if every value passes, and False if none does.

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
    always_true = not result or (type_ == BOOLEAN and result == [(Op.IN, (False, True))])
    return True if always_true else result


def unite(type_: Type, tests: Sequence[Test]) -> bool | list[Test]:
    """Combine tests with OR: return a shorter list of tests, any of which the same values pass.

    Returns True if every value passes, and False if none does. It is computed as the negation of `intersect` of the
    negated tests.

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
    """The conditions of several tests on one value."""

    allowed: set[Any] | None = None
    excluded: set[Any] = field(default_factory=set)
    low: tuple[Any, bool] | None = None
    """The lower limit, and whether the limit is exclusive."""

    high: tuple[Any, bool] | None = None
    prefix: str | None = None
    other_prefixes: set[str] = field(default_factory=set)
    excluded_prefixes: list[str] = field(default_factory=list)
    """The minimal ones of `other_prefixes`, sorted; set by `tests`."""

    nan: bool | None = None
    impossible: bool = False

    # Adding tests -------------------------------------------------------------------------------------------------

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

    def is_nan(self, is_nan: bool) -> None:
        if self.nan is not None and self.nan != is_nan:
            self.impossible = True
        self.nan = is_nan

    # Combined tests -----------------------------------------------------------------------------------------------

    def tests(self) -> list[Test] | None:
        """Return equivalent tests; an empty list if every value passes, None if no value passes."""
        if self.impossible:
            return None
        self.excluded_prefixes = _minimal_prefixes(self.other_prefixes)
        if self.nan:  # NaN is greater than every number, equal to none
            return [(Op.IS_NAN, ())] if self.allowed is None and self.high is None else None
        if self.allowed is None and self.low is not None and self.high is not None:
            if self.low[0] > self.high[0]:
                return None
            if self.low[0] == self.high[0]:
                self.allowed = {self.low[0]}
        if self.allowed is not None:
            passing = sorted(filter(self._passes, self.allowed))
            return [_equality_test(passing, Op.EQ, Op.IN)] if passing else None
        return self._open_tests()

    def _open_tests(self) -> list[Test] | None:
        """Return equivalent tests if the value is not restricted to a list of values; as `tests`."""
        prefix = self.prefix
        if prefix is not None and any(map(prefix.startswith, self.excluded_prefixes)):
            return None
        not_prefixes = [other for other in self.excluded_prefixes if prefix is None or other.startswith(prefix)]
        excluded = set(filter(self._passes_limits, self.excluded))
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
            result.append(_equality_test(sorted(excluded), Op.NOT_EQ, Op.NOT_IN))
        result.extend((Op.NOT_STARTS_WITH, (other,)) for other in not_prefixes)
        if self.nan is False and self.high is None:
            result.append((Op.NOT_NAN, ()))
        return result

    def _passes_limits(self, value: Any) -> bool:
        """Whether a value passes all conditions except the excluded values."""
        low, high = self.low, self.high
        if low is not None and (value < low[0] or (low[1] and value == low[0])):
            return False
        if high is not None and (value > high[0] or (high[1] and value == high[0])):
            return False
        if self.prefix is not None and not value.startswith(self.prefix):
            return False
        # No excluded prefix is a prefix of another, so only the last one that sorts before the value can be its prefix.
        index = bisect_right(self.excluded_prefixes, value) - 1
        return index < 0 or not value.startswith(self.excluded_prefixes[index])

    def _passes(self, value: Any) -> bool:
        return value not in self.excluded and self._passes_limits(value)


def _equality_test(values: list[Any], single: Op, several: Op) -> Test:
    return (single if len(values) == 1 else several, tuple(values))


def _minimal_prefixes(prefixes: Iterable[str]) -> list[str]:
    """The prefixes that do not start with another one; in sorted order, a prefix comes before its extensions."""
    shortest: list[str] = []
    for prefix in sorted(prefixes):
        if not shortest or not prefix.startswith(shortest[-1]):
            shortest.append(prefix)
    return shortest


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

# Rewriting -------------------------------------------------------------------------------------------------------

MAX_DEPTH = 100
"""The maximum nesting of AND and OR in a bound filter."""

Leaf = Callable[[Expression], Expression]
Join = Callable[..., Expression]


def without_not(expr: Expression) -> Expression:
    """Push all NOTs of a filter down into its predicates (De Morgan).

    >>> from floe.spec.expressions.dsl import col
    >>> print(without_not(~((col("a") > 3) & col("b").is_null())))
    a <= 3 OR b IS NOT NULL
    """
    return rebuild(expr, lambda leaf: leaf)


def rebuild(expr: Expression, leaf: Leaf, *, conjoin: Join = and_, disjoin: Join = or_) -> Expression:
    """Rebuild a filter without NOT, with its predicates and constants replaced by `leaf`.

    A predicate under a NOT is negated before it is passed to `leaf`. `conjoin` and `disjoin` combine the parts of an
    AND or OR; nested ANDs and ORs are flattened before.
    """
    done: list[Expression] = []
    work: list[tuple[Expression, bool] | tuple[Join, int]] = [(expr, False)]
    while work:
        step, detail = work.pop()
        if not isinstance(step, Expression):
            parts = done[len(done) - detail :]
            del done[len(done) - detail :]
            done.append(step(*parts))
            continue
        node, negated = _strip_not(step, bool(detail))
        if isinstance(node, And | Or):
            conjunction = isinstance(node, And) != negated
            parts_to_do = list(_flat_parts(node, negated))
            work.append((conjoin if conjunction else disjoin, len(parts_to_do)))
            work.extend(reversed(parts_to_do))
        else:
            done.append(leaf(_negate(node) if negated else node))
    return done[0]


def _strip_not(node: Expression, negated: bool) -> tuple[Expression, bool]:
    while isinstance(node, Not):
        node, negated = node.child, not negated
    return node, negated


def _flat_parts(node: And | Or, negated: bool) -> Iterator[tuple[Expression, bool]]:
    """Yield the parts of an AND or OR, flattening parts of the same kind after NOT is pushed down."""
    conjunction = isinstance(node, And) != negated
    todo = [(child, negated) for child in reversed(node.children)]
    while todo:
        child, child_negated = _strip_not(*todo.pop())
        if isinstance(child, And | Or) and (isinstance(child, And) != child_negated) == conjunction:
            todo.extend((grandchild, child_negated) for grandchild in reversed(child.children))
        else:
            yield child, child_negated


def _negate(node: Expression) -> Expression:
    if isinstance(node, Predicate):
        return Predicate(node.op.negated, node.term, node.literals)
    if isinstance(node, BoundPredicate):
        return BoundPredicate(node.op.negated, node.term, node.literals)
    return not_(node)


def leaves(expr: Expression) -> Iterator[Expression]:
    """Yield all predicates and constants of a filter, from left to right; NOT is ignored.

    >>> from floe.spec.expressions.dsl import col
    >>> [str(leaf) for leaf in leaves((col("a") > 3) & ~col("b").is_null())]
    ['a > 3', 'b IS NULL']
    """
    work = [expr]
    while work:
        node = work.pop()
        if isinstance(node, Not):
            work.append(node.child)
        elif isinstance(node, And | Or):
            work.extend(reversed(node.children))
        else:
            yield node


def field_ids(expr: Expression) -> frozenset[int]:
    """The field ids of the columns that a bound filter uses.

    >>> from floe.spec.expressions.binder import bind
    >>> from floe.spec.expressions.dsl import col
    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import Field, LONG
    >>> sorted(field_ids(bind((col("a") > 3) | col("b").is_null(), Schema((Field(1, "a", LONG), Field(2, "b", LONG))))))
    [1, 2]
    """
    return frozenset(leaf.term.field_id for leaf in leaves(expr) if isinstance(leaf, BoundPredicate))


def check_depth(expr: Expression, limit: int = MAX_DEPTH) -> Expression:
    """Return a filter unchanged; `InvalidExpression` if AND, OR and NOT are nested more than `limit` deep.

    >>> check_depth(TRUE)
    TRUE
    """
    level: list[Expression] = [expr]
    for _ in range(limit + 1):
        deeper: list[Expression] = []
        for node in level:
            if isinstance(node, And | Or):
                deeper.extend(node.children)
            elif isinstance(node, Not):
                deeper.append(node.child)
        if not deeper:
            return expr
        level = deeper
    raise InvalidExpression(
        f"the filter nests AND and OR more than {limit} deep",
        hint="join conditions of one kind with one AND or OR, or compare with a list of values using IN",
    )


def simplify(expr: Expression) -> Expression:
    """Simplify a filter: fold constants, and remove parts that are repeated, implied or impossible.

    Conditions on one column in the same AND or OR are combined: `a > 3 AND a > 5` is `a > 5`, `a = 1 OR a = 2` is
    `a IN (1, 2)`, `a < 3 OR a >= 3` is `a IS NOT NULL`. That requires a bound filter; in others only constants and
    repetitions are removed.

    >>> from floe.spec.expressions.binder import bind
    >>> from floe.spec.expressions.dsl import col
    >>> from floe.spec.schemas.schema import Schema
    >>> from floe.spec.types import Field, LONG
    >>> schema = Schema((Field(1, "a", LONG), Field(2, "b", LONG)))
    >>> print(simplify(bind((col("a") > 3) & (col("b") == 1) & (col("a") > 5), schema)))
    a > 5 AND b = 1
    >>> print(simplify(bind((col("a") > 3) & (col("a") < 2), schema)))
    false
    """
    return rebuild(expr, lambda leaf: leaf, conjoin=_simplify_and, disjoin=_simplify_or)


def _simplify_and(*parts: Expression) -> Expression:
    flat = and_(*parts)
    return _simplify_parts(flat, and_, _join_and) if isinstance(flat, And) else flat


def _simplify_or(*parts: Expression) -> Expression:
    flat = or_(*parts)
    return _simplify_parts(flat, or_, _join_or) if isinstance(flat, Or) else flat


def _simplify_parts(
    node: And | Or, join: Join, join_tests: Callable[[BoundTerm, list[BoundPredicate]], Expression]
) -> Expression:
    """Combine the tests of each term of an AND or OR, and remove repeated and implied parts."""
    by_term: dict[Hashable, list[BoundPredicate]] = {}
    other_parts: dict[Hashable, Expression] = {}
    for child in node.children:
        if isinstance(child, BoundPredicate):
            by_term.setdefault(_term_key(child.term), []).append(child)
        else:
            other_parts.setdefault(_identity(child), child)
    tests = [join_tests(group[0].term, group) for group in by_term.values()]
    joined = join(*tests, *other_parts.values())
    return _absorb(joined, join) if isinstance(joined, type(node)) else joined


def _absorb(node: And | Or, join: Join) -> Expression:
    """Remove parts that another part implies: `a AND (a OR b)` is `a`, and so is `a OR (a AND b)`."""
    opposite = Or if isinstance(node, And) else And
    if not any(isinstance(child, opposite) for child in node.children):
        return node
    single_parts = {_identity(child) for child in node.children if not isinstance(child, opposite)}
    return join(
        *(
            child
            for child in node.children
            if not (isinstance(child, opposite) and any(_identity(part) in single_parts for part in child.children))
        )
    )


def _term_key(term: BoundTerm) -> Hashable:
    return term.field_id, str(term.transform) if isinstance(term, BoundTransform) else None


def _identity(node: Expression) -> Hashable:
    """A key that is equal only for equal nodes; a predicate with a literal that is not hashable has a unique one.

    It includes the types of literals, because 1, 1.0 and True are equal in Python.
    """
    if isinstance(node, Predicate):
        try:
            return node.op, node.term, node.literals, tuple(map(type, node.literals)), hash(node.literals)
        except TypeError:
            return id(node)
    if isinstance(node, BoundPredicate):
        return node.op, _term_key(node.term), node.literals
    if isinstance(node, And | Or):
        if any(isinstance(child, And | Or) for child in node.children):
            return id(node)  # comparing nested nodes is not worth the cost
        return type(node), frozenset(map(_identity, node.children))
    return node


def _join_and(term: BoundTerm, group: list[BoundPredicate]) -> Expression:
    """Combine the tests of one term with AND."""
    if len(group) == 1:
        return group[0]
    ops = {test.op for test in group}
    on_values = [test for test in group if test.op not in (Op.IS_NULL, Op.NOT_NULL)]
    if Op.IS_NULL in ops:
        return FALSE if len(ops) > 1 else group[0]
    if not on_values:
        return group[0]
    return _as_expression(term, intersect(term.type, [(test.op, test.literals) for test in on_values]), and_)


def _join_or(term: BoundTerm, group: list[BoundPredicate]) -> Expression:
    """Combine the tests of one term with OR."""
    if len(group) == 1:
        return group[0]
    ops = {test.op for test in group}
    on_values = [(test.op, test.literals) for test in group if test.op not in (Op.IS_NULL, Op.NOT_NULL)]
    null = BoundPredicate(Op.IS_NULL, term) if Op.IS_NULL in ops else FALSE
    values = _not_null(term) if Op.NOT_NULL in ops else _as_expression(term, unite(term.type, on_values), or_)
    if null != FALSE and isinstance(values, BoundPredicate) and values.op is Op.NOT_NULL:
        return TRUE
    return or_(values, null)


def _as_expression(term: BoundTerm, tests: bool | list[tuple[Op, tuple[Any, ...]]], join: Join) -> Expression:
    """The filter for tests of a term; True means any value except null."""
    if isinstance(tests, bool):
        return _not_null(term) if tests else FALSE
    return join(*(BoundPredicate(op, term, literals) for op, literals in tests))


def _not_null(term: BoundTerm) -> Expression:
    return BoundPredicate(Op.NOT_NULL, term) if term.nullable else TRUE
