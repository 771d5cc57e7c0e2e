"""Filters written as text, in Spark's SQL: `"ts >= '2024-01-01' and (id in (1, 2) or name like 'a%')"`.

sqlglot's Spark dialect cuts the text into tokens; the grammar of filters is small and is read here, from left to right
and with a stack of its own. So every error points at its place, deep nesting and long lists are no danger, and numbers
are never rounded on the way. What a filter can say:

* comparisons, either side first: `=`, `==`, `<>`, `!=`, `<`, `<=`, `>`, `>=`, `<=>`, `a [not] between 1 and 5`,
  `a is [not] distinct from 1`; lists: `a [not] in (1, 2)`
* nulls, NaN and booleans: `a is [not] null`, `isnull(a)`, `isnotnull(a)`, `isnan(a)`, `a is [not] true`, a boolean
  column alone
* prefixes: `a [not] like 'abc%'`, `a like '100!%%' escape '!'`, `startswith(a, 'abc')`
* logic: `and`, `or`, `not`, `!`, parentheses, `true`, `false`
* columns: `a`, `who.name`, `` `a b` ``, and `` `a.b` `` for one name with a dot in it
* of columns: `bucket(16, a)`, `truncate(4, a)`, `date(a)`, `cast(a as date)`, `year(a) = 2024` (the calendar's year),
  `month(a) = '2024-05'`, `day(a) = '2024-05-17'`, `hour(a) = '2024-05-17-10'`; `years(a)`, `months(a)`, `days(a)` and
  `hours(a)` are the same, but numbers beside them are Iceberg's counts from 1970
* literals: `'text'`, `1`, `1.50` (a decimal), `1e3` and `1.5D` (doubles), `X'0aff'`, `date '2024-05-17'`,
  `timestamp '2024-05-17 10:30:00+02:00'`, `timestamp_ntz '…'`, `time '10:30:00'`, `uuid '…'`, `cast('…' as date)`,
  `double('NaN')`, `null`

Times without a zone are UTC where a column holds points in time.

>>> print(parse_filter("NOT (a >= 3 AND b LIKE 'x%')"))
NOT (a >= 3 AND b LIKE 'x%')
>>> parse_filter("a > b")
Traceback (most recent call last):
floe.errors.InvalidExpression: a filter compares a column with values, not with another column
  a > b
      ^
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NoReturn

from sqlglot import TokenType

from floe.errors import InvalidExpression
from floe.spec.expressions.literals import calendar_count
from floe.spec.expressions.nodes import (
    FALSE,
    TRUE,
    Expression,
    Op,
    Predicate,
    Term,
    TransformTerm,
    and_,
    not_,
    or_,
)
from floe.spec.expressions.parser_literals import like_pattern
from floe.spec.expressions.parser_values import SqlValues, Value
from floe.spec.expressions.printing import name_to_text
from floe.spec.expressions.rewrite import MAX_DEPTH, check_depth

__all__ = ["parse_filter"]


def parse_filter(text: str) -> Expression:
    """The filter that a text of Spark SQL says; `InvalidExpression` points at what cannot be understood.

    >>> parse_filter("id in (1, 2) or name is null").children[1].op
    <Op.IS_NULL: 'is-null'>
    """
    if not isinstance(text, str):
        raise InvalidExpression(f"a filter is text, found {type(text).__name__}")
    return check_depth(_Parser(text).parse(), 2 * MAX_DEPTH)  # each AND and OR may have a NOT before it


@dataclass(slots=True)
class _Group:
    """What stands between two parentheses so far: an OR of ANDs, and the NOTs before the part that comes next."""

    position: int
    ors: list[Expression] = field(default_factory=list)
    ands: list[Expression] = field(default_factory=list)
    negated: bool = False
    plain: bool = True
    """Whether no NOT, AND or OR was met, so that the parentheses may be around a column or literal."""

    def add(self, part: Expression) -> None:
        self.ands.append(not_(part) if self.negated else part)
        self.negated = False

    def close_ands(self) -> None:
        self.ors.append(and_(*self.ands))
        self.ands = []

    def whole(self) -> Expression:
        self.close_ands()
        return or_(*self.ors)


class _Parser(SqlValues):
    """One reading of one text. A method whose name starts with `read` consumes tokens."""

    # logic ----------------------------------------------------------------------------------------------------

    def parse(self) -> Expression:
        groups = [_Group(0)]
        while True:
            group = groups[-1]
            if self._takes_not():
                group.plain = False
                if not self._sees_nan_test():
                    group.negated = not group.negated
                    continue
                part: Expression | Value = self._read_not_nan()
            elif self.sees(TokenType.L_PAREN):
                if len(groups) > _MAX_GROUPS:
                    self.fail_at_token(f"parentheses are nested more than {_MAX_GROUPS} deep")
                groups.append(_Group(self.position(self.token())))
                self.at += 1
                continue
            else:
                part = self.read_test(self.read_value())
            while self.take(TokenType.R_PAREN):
                part = self._close(groups, part)
            group = groups[-1]
            if self.take_word("and"):
                group.add(self.as_filter(part))
            elif self.take_word("or"):
                group.add(self.as_filter(part))
                group.close_ands()
            elif self.token() is None:
                if len(groups) > 1:
                    self.fail("this parenthesis is never closed", group.position)
                group.add(self.as_filter(part))
                return group.whole()
            else:
                self._fail_after(part)
            group.plain = False

    def _takes_not(self) -> bool:
        return self.take_word("not") or self.take(TokenType.NOT)

    def _sees_nan_test(self) -> bool:
        return self.word() in ("isnan", "is_nan") and self.sees(TokenType.L_PAREN, 1)

    def _read_not_nan(self) -> Expression:
        test = self.read_test(self.read_value())
        assert isinstance(test, Predicate)
        return Predicate(test.op.negated, test.term)

    def _close(self, groups: list[_Group], part: Expression | Value) -> Expression | Value:
        """What a closed pair of parentheses holds; a column or literal may be compared with what comes after it."""
        group = groups.pop()
        if not groups:
            self.at -= 1
            self.fail_at_token("this parenthesis closes nothing")
        if group.plain and isinstance(part, Value):
            return self.read_test(part)
        group.add(self.as_filter(part))
        return group.whole()

    def _fail_after(self, part: Expression | Value) -> NoReturn:
        token = self.token()
        assert token is not None
        if token.token_type in _COMPARISONS or token.token_type in (TokenType.NULLSAFE_EQ, TokenType.IS, TokenType.IN):
            self.fail_at_token("a comparison cannot be compared again", "join comparisons with AND or OR")
        if meant := _MEANT.get(self.raw(token)):
            self.fail_at_token(f"expected AND, OR or the end, found {self.shown()}", f"write {meant}")
        if token.token_type in _ARITHMETIC:
            self.fail_at_token(f"a filter cannot compute: found {self.shown()}", "compare a column itself with a value")
        self.fail_at_token(f"expected AND, OR or the end, found {self.shown()}")

    def as_filter(self, part: Expression | Value) -> Expression:
        """A column alone is a true-or-false column, true and false alone are constants."""
        if isinstance(part, Expression):
            return part
        if part.term is not None:
            return Predicate(Op.EQ, part.term, (True,))
        if not isinstance(part.literal, bool):
            self.fail("a value alone says nothing", part.position, "compare a column with it")
        return TRUE if part.literal else FALSE

    # one test -------------------------------------------------------------------------------------------------

    def read_test(self, left: Value | Expression) -> Expression | Value:
        """What follows a value makes it a test; if nothing does, the value itself."""
        if isinstance(left, Expression):
            return left
        op = _COMPARISONS.get(self.kinds[self.at])
        if op is not None:
            self.at += 1
            return self.compare(op, left, self.read_side())
        if self.take(TokenType.NULLSAFE_EQ):
            return self.same(left, self.read_side())
        if self.take_word("is"):
            return self.read_is(left)
        negated = self.word() == "not" and self.word(1) in _AFTER_NOT
        word = self.word(1 if negated else 0)
        reader = _TEST_WORDS.get(word)
        if reader is None:
            return left
        self.at += 2 if negated else 1
        return reader(self, left, negated)

    def compare(self, op: Op, left: Value, right: Value) -> Expression:
        if left.term is None and right.term is not None:
            op, left, right = op.flipped, right, left
        if left.term is None:
            return self.compare_literals(op, left, right)
        return Predicate(op, left.term, (self.literal_for(left, right),))

    def literal_for(self, left: Value, right: Value) -> Any:
        """The literal that a term is compared with."""
        if right.term is not None:
            self.fail("a filter compares a column with values, not with another column", right.position)
        if not left.calendar:
            return right.literal
        assert isinstance(left.term, TransformTerm)
        try:
            return calendar_count(left.term.transform, right.literal)
        except InvalidExpression as error:
            self.fail(error.message, right.position, error.hint)

    def compare_literals(self, op: Op, left: Value, right: Value) -> Expression:
        """Such as the `1 = 1` that programs write."""
        self.refuse_quoted_columns(left, right)
        kinds = {_comparable_kind(value.literal) for value in (left, right)}
        if len(kinds) != 1 or None in kinds:
            self.fail("these two values cannot be compared", left.position, "compare a column with a value")
        return TRUE if _COMPARE[op](left.literal, right.literal) else FALSE

    def same(self, left: Value, right: Value) -> Expression:
        """`<=>`, which is true of two nulls and never unknown."""
        if left.term is None and right.term is not None:
            left, right = right, left
        if left.term is None:
            self.refuse_quoted_columns(left, right)
            both_null = left.literal is None and right.literal is None
            one_null = left.literal is None or right.literal is None
            return TRUE if both_null else FALSE if one_null else self.compare_literals(Op.EQ, left, right)
        literal = self.literal_for(left, right)
        if literal is None:
            return Predicate(Op.IS_NULL, left.term)
        return and_(Predicate(Op.NOT_NULL, left.term), Predicate(Op.EQ, left.term, (literal,)))

    def read_is(self, left: Value) -> Expression:
        negated = self.take_word("not")
        if self.take_word("null"):
            if left.term is None:
                self.refuse_quoted_columns(left)
                return TRUE if (left.literal is None) != negated else FALSE
            return Predicate(Op.NOT_NULL if negated else Op.IS_NULL, left.term)
        if self.word() == "nan":
            self.at += 1
            return Predicate(Op.NOT_NAN if negated else Op.IS_NAN, self.term_of(left))
        if self.word() == "distinct" and self.word(1) == "from":
            self.at += 2
            same = self.same(left, self.read_side())
            return same if negated else not_(same)
        if self.word() not in ("true", "false"):
            self.fail_at_token(f"expected NULL, TRUE, FALSE or DISTINCT FROM after IS, found {self.shown()}")
        wanted = Value(self.position(self.token()), literal=self.word() == "true")
        self.at += 1
        same = self.same(left, wanted)
        return not_(same) if negated else same

    def term_of(self, left: Value) -> Term:
        if left.term is None:
            self.refuse_quoted_columns(left)
            self.fail("a filter tests columns, not values", left.position, "put the column first")
        return left.term

    def refuse_quoted_columns(self, *values: Value) -> None:
        """Text in double quotes where a column is missing: other dialects quote columns so, Spark's SQL quotes text."""
        for value in values:
            if isinstance(value.literal, str) and self.text.startswith('"', value.position):
                self.fail(
                    "double quotes are around text, not around a column",
                    value.position,
                    f"put the name of a column in back-quotes: {name_to_text((value.literal[:80],))}",
                )

    def read_between(self, left: Value, negated: bool) -> Expression:
        low = self.read_side()
        if not self.take_word("and"):
            self.fail_at_token(f"expected AND between the two limits, found {self.shown()}")
        inside = and_(self.compare(Op.GT_EQ, left, low), self.compare(Op.LT_EQ, left, self.read_side()))
        return not_(inside) if negated else inside

    def read_in(self, left: Value, negated: bool) -> Expression:
        term = self.term_of(left)
        self.need(TokenType.L_PAREN, "`(` after IN")
        literals: list[Any] = []
        while not self.take(TokenType.R_PAREN):
            if literals:
                self.need(TokenType.COMMA, "`,` or `)`")
            literals.append(self.literal_for(left, self.read_side()))
        return Predicate(Op.NOT_IN if negated else Op.IN, term, tuple(literals))

    def read_like(self, left: Value, negated: bool) -> Expression:
        term = self.term_of(left)
        if self.word() in ("any", "all", "some") and self.sees(TokenType.L_PAREN, 1):
            self.fail_at_token("LIKE takes one pattern", "join several patterns with AND or OR")
        pattern = self.read_side()
        escape = "\\"
        if self.take_word("escape"):
            chosen = self.read_side()
            if not isinstance(chosen.literal, str) or len(chosen.literal) != 1:
                self.fail("the escape character must be one character in quotes", chosen.position)
            escape = chosen.literal
        literal = self.literal_for(left, pattern)
        if literal is None:
            return Predicate(Op.EQ, term, (None,))
        if not isinstance(literal, str):
            self.fail("the pattern of LIKE must be text in quotes", pattern.position)
        try:
            text, is_prefix = like_pattern(literal, escape)
        except InvalidExpression as error:
            self.fail(error.message, pattern.position, error.hint)
        op = Op.STARTS_WITH if is_prefix else Op.EQ
        return Predicate(op.negated if negated else op, term, (text,))

    def refuse_match(self, left: Value, negated: bool) -> NoReturn:
        self.at -= 1
        self.fail_at_token(
            f"a filter cannot use {self.shown()}", "only prefixes can be tested, such as `name LIKE 'abc%'`"
        )


def _comparable_kind(literal: Any) -> type | None:
    """What two literals must have in common to be compared with each other; None if a literal never can be."""
    if literal is None or (literal.is_nan() if isinstance(literal, Decimal) else literal != literal):
        return None
    is_number = isinstance(literal, int | float | Decimal) and not isinstance(literal, bool)
    return Decimal if is_number else type(literal)


_MAX_GROUPS = 5000
_COMPARISONS: dict[TokenType | None, Op] = {
    TokenType.EQ: Op.EQ,
    TokenType.NEQ: Op.NOT_EQ,
    TokenType.LT: Op.LT,
    TokenType.LTE: Op.LT_EQ,
    TokenType.GT: Op.GT,
    TokenType.GTE: Op.GT_EQ,
}
_COMPARE: dict[Op, Callable[[Any, Any], bool]] = {
    Op.EQ: operator.eq,
    Op.NOT_EQ: operator.ne,
    Op.LT: operator.lt,
    Op.LT_EQ: operator.le,
    Op.GT: operator.gt,
    Op.GT_EQ: operator.ge,
}
_MEANT = {"&&": "AND", "||": "OR"}
_ARITHMETIC = {
    TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD, TokenType.DIV, TokenType.DPIPE,
    TokenType.AMP, TokenType.PIPE, TokenType.CARET,
}  # fmt: skip
_TEST_WORDS: dict[str, Callable[[_Parser, Value, bool], Expression]] = {
    "between": _Parser.read_between,
    "in": _Parser.read_in,
    "like": _Parser.read_like,
    "ilike": _Parser.refuse_match,
    "rlike": _Parser.refuse_match,
    "regexp": _Parser.refuse_match,
}
_AFTER_NOT = frozenset(_TEST_WORDS)
