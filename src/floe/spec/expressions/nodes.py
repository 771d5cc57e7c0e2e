"""The tree of a filter: constants, and/or/not, and predicates over terms (spec: Expressions; Scan Planning).

There are two forms of predicates. A `Predicate` has column names and the literals of the user. Binding it to a schema
gives a `BoundPredicate`, whose term has a field and a type, and whose literals are values of that type in the form of
`floe.spec.values`. Evaluation, projection and pruning work on bound trees.

The semantics are those of SQL: a comparison with null is unknown, and a row passes if the filter is true. `IS NULL` and
`IS NOT NULL` are never unknown; all other predicates on null are, including `IS NAN` and `NOT NAN`. NaN equals itself
and is greater than every other number; `-0.0` equals `0.0`.

`fold` is the traversal of bound filters that all evaluators share. A bound filter has no NOT, so an unknown part can be
treated as false.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from floe.errors import InvalidExpression
from floe.spec.expressions.expression_text import to_text
from floe.spec.schemas.schema import SchemaField
from floe.spec.types import Type

if TYPE_CHECKING:
    from floe.spec.partitioning.transforms import Transform


class Op(Enum):
    """The operation of a predicate; the value is its name in expression JSON."""

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
        """The operation that is true where this one is false, and unknown where it is unknown."""
        return _NEGATED[self]

    @property
    def flipped(self) -> Op:
        """The comparison with its operands exchanged: `3 < a` is `a > 3`."""
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
        # `a and b`, `x < col < y` and `if expression` would silently drop one half of the filter
        raise TypeError("a filter has no truth value; combine filters with & | ~ and parentheses")

    def __str__(self) -> str:
        return to_text(self)


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """A filter that is always true or always false; use `TRUE` and `FALSE`."""

    value: bool

    def __repr__(self) -> str:
        return "TRUE" if self.value else "FALSE"


TRUE = Constant(True)
FALSE = Constant(False)


@dataclass(frozen=True, slots=True)
class And(Expression):
    """A conjunction of two or more filters; build it with `and_`, which flattens nested ones."""

    children: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or(Expression):
    """A disjunction of two or more filters; build it with `or_`, which flattens nested ones."""

    children: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """The negation of a filter; `bind` removes it."""

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
    """A predicate that is not bound to a schema."""

    op: Op
    term: Term
    literals: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundReference:
    """A column of a schema, with its field and type."""

    entry: SchemaField

    @property
    def field_id(self) -> int:
        """The column's field id."""
        return self.entry.field.id

    @property
    def type(self) -> Type:
        """The type of the column."""
        return self.entry.field.type

    @property
    def nullable(self) -> bool:
        """Whether the value of a row may be null."""
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
        """Whether the value of a row may be null."""
        return self.ref.nullable


BoundTerm = BoundReference | BoundTransform


@dataclass(frozen=True, slots=True)
class BoundPredicate(Expression):
    """A predicate on a bound term; `literals` are values of the term's type.

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
    """Combine filters with AND; folds constants and flattens nested ANDs. Without filters it is true.

    >>> and_(TRUE, FALSE)
    FALSE
    """
    return _combine(And, children, absorbing=FALSE, neutral=TRUE)


def or_(*children: Expression) -> Expression:
    """Combine filters with OR; folds constants and flattens nested ORs. Without filters it is false.

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
    """Negate a filter; folds constants and double negation.

    >>> not_(TRUE)
    FALSE
    """
    if isinstance(child, Constant):
        return FALSE if child.value else TRUE
    return child.child if isinstance(child, Not) else Not(child)


# Traversal of bound filters --------------------------------------------------------------------------------------

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
    """Compute a result for a bound filter from the results of its parts, from the leaves up.

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


def all_true(functions: list[Callable[[X], bool]]) -> Callable[[X], bool]:
    """Combine functions into one that returns whether all of them are true for an argument.

    >>> all_true([str.isalpha, str.isupper])("Ab")
    False
    """
    if len(functions) == 2:  # the most common case, and twice as fast as the loop
        first, second = functions
        return lambda argument: first(argument) and second(argument)
    return lambda argument: all(function(argument) for function in functions)


def any_true(functions: list[Callable[[X], bool]]) -> Callable[[X], bool]:
    """Combine functions into one that returns whether any of them is true for an argument.

    >>> any_true([str.isalpha, str.isupper])("Ab")
    True
    """
    if len(functions) == 2:
        first, second = functions
        return lambda argument: first(argument) or second(argument)
    return lambda argument: any(function(argument) for function in functions)
