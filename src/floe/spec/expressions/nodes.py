"""The tree of a filter: constants, and/or/not, and predicates over terms (spec: Expressions; Scan Planning).

Two forms of predicate exist. A `Predicate` names columns and holds whatever literals the user wrote; binding it to a
schema gives a `BoundPredicate`, whose term knows its field and type and whose literals are values of that type in the
form of `floe.spec.values`. Everything that evaluates, projects or prunes works on bound trees.

The meaning is SQL's: a comparison with null is neither true nor false, and a row passes when the filter is true.
`IS NULL` and `IS NOT NULL` are always true or false; every other test of null, `IS NAN` and `NOT NAN` among them, is
neither. NaN equals itself and is greater than every other number; `-0.0` equals `0.0`.

One walk over bound filters, shared by everything that evaluates, projects or prunes.

A caller says what a predicate becomes, and how the parts of an AND and of an OR are put together; the walk does the
rest. Because binding has removed every NOT, "true for all parts" and "true for some part" are all the logic there is:
under SQL's rules a part that is unknown simply is not true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from floe.errors import InvalidExpression
from floe.spec.expressions.printing import to_text
from floe.spec.schemas.schema import SchemaField
from floe.spec.types import Type

if TYPE_CHECKING:
    from floe.spec.partitioning.transforms import Transform


class Op(Enum):
    """What a predicate asks of its term; the value is the name used in expression JSON."""

    IS_NULL = "is-null"
    NOT_NULL = "not-null"
    IS_NAN = "is-nan"
    NOT_NAN = "not-nan"
    LT = "lt"
    LT_EQ = "lt-eq"
    GT = "gt"
    GT_EQ = "gt-eq"
    EQ = "eq"
    NOT_EQ = "not-eq"
    IN = "in"
    NOT_IN = "not-in"
    STARTS_WITH = "starts-with"
    NOT_STARTS_WITH = "not-starts-with"

    @property
    def negated(self) -> Op:
        """The operation that is true just where this one is false (and unknown where it is unknown)."""
        return _NEGATED[self]

    @property
    def flipped(self) -> Op:
        """The comparison with its sides exchanged: `3 < a` is `a > 3`."""
        return _FLIPPED.get(self, self)

    @property
    def is_unary(self) -> bool:
        """Whether it takes no literal."""
        return self in _UNARY

    @property
    def is_set(self) -> bool:
        """Whether it takes a set of literals."""
        return self in (Op.IN, Op.NOT_IN)


_PAIRS = [
    (Op.IS_NULL, Op.NOT_NULL),
    (Op.IS_NAN, Op.NOT_NAN),
    (Op.LT, Op.GT_EQ),
    (Op.GT, Op.LT_EQ),
    (Op.EQ, Op.NOT_EQ),
    (Op.IN, Op.NOT_IN),
    (Op.STARTS_WITH, Op.NOT_STARTS_WITH),
]
_NEGATED = dict(_PAIRS) | {b: a for a, b in _PAIRS}
_FLIPPED = {Op.LT: Op.GT, Op.GT: Op.LT, Op.LT_EQ: Op.GT_EQ, Op.GT_EQ: Op.LT_EQ}
_UNARY = {Op.IS_NULL, Op.NOT_NULL, Op.IS_NAN, Op.NOT_NAN}


class Expression:
    """A filter; combine filters with `&`, `|` and `~`."""

    __slots__ = ()

    def __and__(self, other: Expression) -> Expression:
        return and_(self, other) if isinstance(other, Expression) else NotImplemented

    def __or__(self, other: Expression) -> Expression:
        return or_(self, other) if isinstance(other, Expression) else NotImplemented

    def __invert__(self) -> Expression:
        return not_(self)

    def __bool__(self) -> bool:
        # `a and b`, `x < col < y` and `if expression` would silently drop a half of the filter
        raise TypeError("a filter has no truth value; combine filters with & | ~ and parentheses")

    def __str__(self) -> str:
        return to_text(self)


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """Always true, or always false: use `TRUE` and `FALSE`."""

    value: bool

    def __repr__(self) -> str:
        return "TRUE" if self.value else "FALSE"


TRUE = Constant(True)
FALSE = Constant(False)


@dataclass(frozen=True, slots=True)
class And(Expression):
    """All of two or more filters; build it with `and_`, which keeps it flat."""

    children: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or(Expression):
    """Any of two or more filters; build it with `or_`, which keeps it flat."""

    children: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """The opposite of a filter; rewritten away before evaluation."""

    child: Expression


@dataclass(frozen=True, slots=True)
class Reference:
    """A column by its dotted name or path."""

    name: str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TransformTerm:
    """A transform applied to a column, such as `bucket(16, id)`."""

    transform: Transform
    ref: Reference


Term = Reference | TransformTerm


@dataclass(frozen=True, slots=True)
class Predicate(Expression):
    """One test, before it is bound to a schema."""

    op: Op
    term: Term
    literals: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundReference:
    """A column that is known to exist, with its field and type."""

    entry: SchemaField

    @property
    def field_id(self) -> int:
        """The column's field id."""
        return self.entry.field.id

    @property
    def type(self) -> Type:
        """The column's type."""
        return self.entry.field.type

    @property
    def nullable(self) -> bool:
        """Whether a row may have null here."""
        return self.entry.nullable


@dataclass(frozen=True, slots=True)
class BoundTransform:
    """A transform applied to a bound column; its type is the transform's result type."""

    transform: Transform
    ref: BoundReference
    type: Type

    @property
    def field_id(self) -> int:
        """The source column's field id."""
        return self.ref.field_id

    @property
    def nullable(self) -> bool:
        """Whether a row may have null here."""
        return self.ref.nullable


BoundTerm = BoundReference | BoundTransform


@dataclass(frozen=True, slots=True)
class BoundPredicate(Expression):
    """One test on a bound term; `literals` are values of the term's type.

    A comparison has one literal. `IN` and `NOT_IN` have two or more, distinct and sorted.
    """

    op: Op
    term: BoundTerm
    literals: tuple[Any, ...] = ()

    @property
    def literal(self) -> Any:
        """The only literal of a comparison."""
        return self.literals[0]


def and_(*children: Expression) -> Expression:
    """All of these filters: constants folded, nested ANDs flattened, none means true.

    >>> and_(TRUE, FALSE)
    FALSE
    """
    return _combine(And, children, absorbing=FALSE, neutral=TRUE)


def or_(*children: Expression) -> Expression:
    """Any of these filters: constants folded, nested ORs flattened, none means false.

    >>> or_(FALSE, FALSE)
    FALSE
    """
    return _combine(Or, children, absorbing=TRUE, neutral=FALSE)


def _combine(
    kind: type[And] | type[Or], children: tuple[Expression, ...], absorbing: Constant, neutral: Constant
) -> Expression:
    flat: list[Expression] = []
    for child in children:
        if child == absorbing:
            return absorbing
        if child == neutral:
            continue
        if isinstance(child, kind):
            flat.extend(child.children)
        else:
            flat.append(child)
    if not flat:
        return neutral
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def not_(child: Expression) -> Expression:
    """The opposite of a filter.

    >>> not_(TRUE)
    FALSE
    """
    if isinstance(child, Constant):
        return FALSE if child.value else TRUE
    return child.child if isinstance(child, Not) else Not(child)


# One walk over bound filters, shared by everything that evaluates, projects or prunes.

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
