"""Filters written as text, in Spark's SQL: `"ts >= '2024-01-01' and (id in (1, 2) or name like 'a%')"`.

sqlglot's Spark dialect tokenizes the text; the grammar is parsed here, from left to right with an explicit stack. So
every error points into the text, deep nesting and long lists do not exhaust Python's stack, and numbers are not
rounded. `OperandParser` parses literals, columns and functions; `floe.sql.columns` uses it for defaults.

A filter can have:

* comparisons, either side first: `=`, `==`, `<>`, `!=`, `<`, `<=`, `>`, `>=`, `<=>`, `a [not] between 1 and 5`,
  `a is [not] distinct from 1`; lists: `a [not] in (1, 2)`
* nulls, NaN and booleans: `a is [not] null`, `isnull(a)`, `isnotnull(a)`, `isnan(a)`, `a is [not] true`, a boolean
  column alone
* prefixes: `a [not] like 'abc%'`, `a like '100!%%' escape '!'`, `startswith(a, 'abc')`
* logic: `and`, `or`, `not`, `!`, parentheses, `true`, `false`
* columns: `a`, `who.name`, `` `a b` ``, and `` `a.b` `` for one name with a dot in it
* functions of columns: `bucket(16, a)`, `truncate(4, a)`, `date(a)`, `cast(a as date)`, `year(a) = 2024` (of the
  calendar), `month(a) = '2024-05'`, `day(a) = '2024-05-17'`, `hour(a) = '2024-05-17-10'`; `years(a)`, `months(a)`,
  `days(a)` and `hours(a)` are the same, but compared with numbers they are Iceberg's counts from 1970
* literals: `'text'`, `1`, `1.50` (a decimal), `1e3` and `1.5D` (doubles), `X'0aff'`, `date '2024-05-17'`,
  `timestamp '2024-05-17 10:30:00+02:00'`, `timestamp_ntz '…'`, `time '10:30:00'`, `uuid '…'`, `cast('…' as date)`,
  `double('NaN')`, `null`

Timestamps without a zone are UTC where a column is a `timestamptz`.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NoReturn

from sqlglot import Token, TokenType

from floe.errors import InvalidExpression, InvalidInput
from floe.spec.expressions.expression_text import RESERVED_WORDS, name_to_text
from floe.spec.expressions.literals import calendar_count
from floe.spec.expressions.nodes import (
    FALSE,
    TRUE,
    Expression,
    Op,
    Predicate,
    Reference,
    Term,
    TransformTerm,
    and_,
    not_,
    or_,
)
from floe.spec.expressions.simplification import MAX_DEPTH, check_depth
from floe.spec.partitioning.transforms import DAY, HOUR, IDENTITY, MONTH, YEAR, Bucket, Transform, Truncate
from floe.sql.literals import CASTS, cast_literal, like_pattern, number_from_text
from floe.sql.tokens import SqlTokens

# Operands -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of a comparison: a column, perhaps transformed, or a literal."""

    position: int
    term: Term | None = None
    literal: Any = None
    calendar: bool = False
    """Whether numbers compared with the term are of the calendar (`year(a) = 2024`), not counts from 1970."""


class OperandParser(SqlTokens):
    """Parses the operands of predicates: literals, columns and functions. Methods named `read…` consume tokens."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.nesting = 0

    def read_value(self) -> Operand | Expression:
        """Read a literal, a column, or a function of a column; some functions are predicates themselves."""
        self.nesting += 1  # only casts, signs and functions recurse
        if self.nesting > _MAX_NESTING:
            self.fail_at_token("casts, signs and functions are nested too deeply")
        opened = self._read_openings()
        value = self._read_plain_value()
        while self.take(TokenType.DCOLON):
            value = self._cast(value, *self._read_type())
        for _ in range(opened):
            self.need(TokenType.R_PAREN, "`)`")
        self.nesting -= 1
        return value

    def read_side(self) -> Operand:
        """Read one side of a comparison, or an argument: a value that is no predicate."""
        value = self.read_value()
        if isinstance(value, Expression):
            self.cursor -= 1
            self.fail_at_token("a comparison cannot be compared again", "join comparisons with AND or OR")
        return value

    def _read_openings(self) -> int:
        opened = 0
        while self.sees(TokenType.L_PAREN):
            self.cursor += 1
            opened += 1
        return opened

    def _read_plain_value(self) -> Operand | Expression:
        token = self.token()
        position = self.position(token)
        if token is None:
            self.fail_at_token("the filter ends where a column or value is expected")
        if token.token_type in (TokenType.DASH, TokenType.PLUS):
            return self._read_signed()
        if token.token_type in (TokenType.NUMBER, TokenType.DOT):
            return Operand(position, literal=self._read_number())
        if token.token_type in (TokenType.STRING, TokenType.RAW_STRING):
            return Operand(position, literal=self.read_string())
        if token.token_type == TokenType.HEX_STRING and self.raw(token)[0] in "xX":
            self.cursor += 1
            return Operand(position, literal=self._bytes(token))
        word = self.word()
        if word in _CONSTANTS:
            self.cursor += 1
            return Operand(position, literal=_CONSTANTS[word])
        if word in CASTS and self.sees(TokenType.STRING, 1):
            self.cursor += 1
            return self._cast(Operand(position, literal=self.read_string()), word, ())
        if word == "cast" and self.sees(TokenType.L_PAREN, 1):
            return self._read_cast()
        return self._read_name()

    def _read_signed(self) -> Operand:
        position = self.position(self.token())
        negative = False
        while (minus := self.take(TokenType.DASH)) or self.take(TokenType.PLUS):
            negative ^= minus
        value = self.read_side()
        number = value.literal
        if value.term is not None:
            self.fail("a filter cannot compute with a column", position, "compare the column itself with a value")
        if number is None:
            return value
        if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
            self.fail("only numbers have a sign", position)
        if not negative:
            return value
        # a decimal's own minus would round to the precision of the thread's context
        return Operand(position, literal=number.copy_negate() if isinstance(number, Decimal) else -number)

    def _read_number(self) -> int | float | Any:
        first = self.cursor
        try:
            return number_from_text(self.read_number())
        except InvalidExpression as error:
            self.fail(error.message, self.position(self.tokens[first]), error.hint)

    def _bytes(self, token: Token) -> bytes:
        try:
            return bytes.fromhex("0" * (len(token.text) % 2) + token.text)
        except ValueError:
            self.fail("X'…' takes hexadecimal digits", self.position(token))

    # Casts ------------------------------------------------------------------------------------------------------------

    def _read_cast(self) -> Operand:
        self.cursor += 2
        value = self.read_side()
        if not self.take_word("as"):
            self.fail_at_token(f"expected AS and a type, found {self.describe_next()}")
        name, parameters = self._read_type()
        self.need(TokenType.R_PAREN, "`)`")
        return self._cast(value, name, parameters)

    def _read_type(self) -> tuple[str, tuple[int, ...]]:
        name = self.word()
        if not name:
            self.fail_at_token(f"expected a type, found {self.describe_next()}")
        self.cursor += 1
        return name, tuple(self.read_parameters())

    def _cast(self, value: Operand | Expression, type_name: str, parameters: tuple[int, ...]) -> Operand:
        if isinstance(value, Expression):
            self.cursor -= 1
            self.fail_at_token("a comparison cannot be cast")
        if value.term is not None:
            if type_name == "date" and isinstance(value.term, Reference):
                return Operand(value.position, term=TransformTerm(DAY, value.term))
            self.fail(f"a filter cannot cast a column to {type_name}", value.position, "compare the column itself")
        try:
            return Operand(value.position, literal=cast_literal(value.literal, type_name, parameters))
        except InvalidInput as error:
            self.fail(error.message, value.position, error.hint)

    # Columns and functions --------------------------------------------------------------------------------------------

    def _read_name(self) -> Operand | Expression:
        position = self.position(self.token())
        parts: list[str] = []
        quoted = True
        while True:
            token = self.token()
            if token is not None and token.token_type == TokenType.IDENTIFIER:
                parts.append(token.text)
            elif (word := self.word()) and (parts or word not in RESERVED_WORDS):
                quoted = False
                parts.append(token.text)  # type: ignore[union-attr]
            else:
                self._fail_for_name()
            self.cursor += 1
            if not self.take(TokenType.DOT):
                break
        if self.sees(TokenType.L_PAREN):
            return self._read_function(parts, position)
        if self.sees(TokenType.L_BRACKET):
            self.fail_at_token("a filter cannot look into lists and maps", "name a field of a struct as `column.field`")
        # `a`.`b` is always a path; a.b may also be one name with a dot in it
        is_path = any("." in part for part in parts) or (quoted and len(parts) > 1)
        return Operand(position, term=Reference(tuple(parts) if is_path else ".".join(parts)))

    def _fail_for_name(self) -> NoReturn:
        """Raise for a token that is no name."""
        word = self.word()
        if word in _UNSUPPORTED_WORDS:
            self.fail_at_token(*_UNSUPPORTED_WORDS[word])
        hint = f"put the name of a column in back-quotes: `{word}`" if word in RESERVED_WORDS else None
        self.fail_at_token(f"expected a column or value, found {self.describe_next()}", hint)

    def _read_function(self, path: list[str], position: int) -> Operand | Expression:
        name = path[-1].lower()
        reader = _FUNCTIONS.get(name)
        if reader is None or (len(path) > 1 and path[-2].lower() != "system"):
            names = "isnull, isnotnull, isnan, startswith, bucket, truncate, date, year, years, months, days and hours"
            self.fail(f"a filter cannot use the function {'.'.join(path)[:80]}", position, f"functions are {names}")
        self.cursor += 1
        arguments: list[Operand] = []
        while not self.take(TokenType.R_PAREN):
            if arguments:
                self.need(TokenType.COMMA, "`,` or `)`")
            arguments.append(self.read_side())
        return reader(self, name, arguments, position)

    def _single_column(self, name: str, arguments: list[Operand], position: int) -> Reference:
        if len(arguments) != 1 or not isinstance(arguments[0].term, Reference):
            self.fail(f"{name} takes one column", position)
        return arguments[0].term

    def _call_predicate(self, name: str, arguments: list[Operand], position: int) -> Expression:
        return Predicate(_PREDICATES[name], self._single_column(name, arguments, position))

    def _call_startswith(self, name: str, arguments: list[Operand], position: int) -> Expression:
        if len(arguments) != 2 or arguments[0].term is None or not isinstance(arguments[1].literal, str):
            self.fail(f"{name} takes a column and a text", position)
        return Predicate(Op.STARTS_WITH, arguments[0].term, (arguments[1].literal,))

    def _call_with_number(self, name: str, arguments: list[Operand], position: int) -> Operand:
        number = arguments[0].literal if arguments else None
        if len(arguments) != 2 or type(number) is not int or not isinstance(arguments[1].term, Reference):
            self.fail(f"{name} takes a number and a column, such as {name}(16, id)", position)
        try:
            transform: Transform = Bucket(number) if name == "bucket" else Truncate(number)
        except InvalidInput as error:
            self.fail(error.message, arguments[0].position)
        return Operand(position, term=TransformTerm(transform, arguments[1].term))

    def _call_transform(self, name: str, arguments: list[Operand], position: int) -> Operand:
        transform, calendar = _TRANSFORMS[name]
        column = self._single_column(name, arguments, position)
        return Operand(position, term=TransformTerm(transform, column), calendar=calendar)

    def _call_cast(self, name: str, arguments: list[Operand], position: int) -> Operand:
        if len(arguments) != 1:
            self.fail(f"{name} takes one value", position)
        return self._cast(arguments[0], name.removeprefix("to_"), ())


_MAX_NESTING = 20
_NO_QUERY = ("a filter cannot hold a query", "run the query first, and use its values in the filter")
_UNSUPPORTED_WORDS = {
    "select": _NO_QUERY,
    "exists": _NO_QUERY,
    "case": ("a filter cannot use CASE", "write the conditions with AND, OR and NOT"),
    "interval": ("a filter cannot compute with intervals", "write the date or time itself"),
}
_CONSTANTS = {"true": True, "false": False, "null": None}
_PREDICATES = {"isnan": Op.IS_NAN, "is_nan": Op.IS_NAN, "isnull": Op.IS_NULL, "isnotnull": Op.NOT_NULL}
_TRANSFORMS = {
    "identity": (IDENTITY, False),
    "year": (YEAR, True),
    "month": (MONTH, True),
    "day": (DAY, True),
    "hour": (HOUR, True),
    "years": (YEAR, False),
    "months": (MONTH, False),
    "days": (DAY, False),
    "hours": (HOUR, False),
}
_FUNCTIONS: Mapping[str, Callable[[OperandParser, str, list[Operand], int], Operand | Expression]] = (
    dict.fromkeys(_PREDICATES, OperandParser._call_predicate)
    | {"startswith": OperandParser._call_startswith, "starts_with": OperandParser._call_startswith}
    | {"bucket": OperandParser._call_with_number, "truncate": OperandParser._call_with_number}
    | dict.fromkeys(_TRANSFORMS, OperandParser._call_transform)
    | dict.fromkeys([*CASTS, "to_date"], OperandParser._call_cast)
)


# Filters --------------------------------------------------------------------------------------------------------------


def parse_filter(text: str) -> Expression:
    """Parse a filter in Spark's SQL; `InvalidExpression` points at the position of an error.

    >>> parse_filter("id in (1, 2) or name is null").children[1].op
    <Op.IS_NULL: 'is-null'>
    """
    if not isinstance(text, str):
        raise InvalidExpression(f"a filter is text, found {type(text).__name__}")
    return check_depth(_Parser(text).parse(), 2 * MAX_DEPTH)  # each AND and OR may have a NOT before it


def as_filter(where: Expression | str | None) -> Expression | None:
    """A filter that is text or an expression as an expression; None for None.

    >>> print(as_filter("id > 3"))
    id > 3
    >>> as_filter(3)
    Traceback (most recent call last):
    floe.errors.InvalidExpression: a filter is text or an expression, found 3
    """
    if where is None or isinstance(where, Expression):
        return where
    if not isinstance(where, str):
        raise InvalidExpression(f"a filter is text or an expression, found {where!r:.80}")
    return parse_filter(where)


@dataclass(slots=True)
class _Group:
    """The conditions read so far between two parentheses: an OR of ANDs, and a NOT before the next one."""

    position: int
    ors: list[Expression] = field(default_factory=list)
    ands: list[Expression] = field(default_factory=list)
    negated: bool = False
    plain: bool = True
    """Whether there was no NOT, AND or OR yet, so that the parentheses may enclose a column or literal."""

    def add(self, part: Expression) -> None:
        self.ands.append(not_(part) if self.negated else part)
        self.negated = False

    def close_ands(self) -> None:
        self.ors.append(and_(*self.ands))
        self.ands = []

    def close(self) -> Expression:
        self.close_ands()
        return or_(*self.ors)


class _Parser(OperandParser):
    """Parses the filter of one text. Methods named `read…` consume tokens."""

    # Logic ------------------------------------------------------------------------------------------------------------

    def parse(self) -> Expression:
        """Parse the whole text; the groups of open parentheses are on a stack."""
        groups = [_Group(0)]
        while True:
            group = groups[-1]
            if self._takes_not():
                group.plain = False
                if not self._sees_isnan():
                    group.negated = not group.negated
                    continue
                part: Expression | Operand = self._read_not_nan()
            elif self.sees(TokenType.L_PAREN):
                if len(groups) > _MAX_GROUPS:
                    self.fail_at_token(f"parentheses are nested more than {_MAX_GROUPS} deep")
                groups.append(_Group(self.position(self.token())))
                self.cursor += 1
                continue
            else:
                part = self.read_predicate(self.read_value())
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
                return group.close()
            else:
                self._fail_after(part)
            group.plain = False

    def _takes_not(self) -> bool:
        return self.take_word("not") or self.take(TokenType.NOT)

    def _sees_isnan(self) -> bool:
        return self.word() in ("isnan", "is_nan") and self.sees(TokenType.L_PAREN, 1)

    def _read_not_nan(self) -> Expression:
        test = self.read_predicate(self.read_value())
        assert isinstance(test, Predicate)
        return Predicate(test.op.negated, test.term)

    def _close(self, groups: list[_Group], part: Expression | Operand) -> Expression | Operand:
        """Close the last group; a column or literal in it may be compared with what follows the parenthesis."""
        group = groups.pop()
        if not groups:
            self.cursor -= 1
            self.fail_at_token("this parenthesis closes nothing")
        if group.plain and isinstance(part, Operand):
            return self.read_predicate(part)
        group.add(self.as_filter(part))
        return group.close()

    def _fail_after(self, part: Expression | Operand) -> NoReturn:
        token = self.token()
        assert token is not None
        if token.token_type in _COMPARISONS or token.token_type in (TokenType.NULLSAFE_EQ, TokenType.IS, TokenType.IN):
            self.fail_at_token("a comparison cannot be compared again", "join comparisons with AND or OR")
        if keyword := _KEYWORDS.get(self.raw(token)):
            self.fail_at_token(f"expected AND, OR or the end, found {self.describe_next()}", f"write {keyword}")
        if token.token_type in _ARITHMETIC:
            self.fail_at_token(
                f"a filter cannot compute: found {self.describe_next()}", "compare a column itself with a value"
            )
        self.fail_at_token(f"expected AND, OR or the end, found {self.describe_next()}")

    def as_filter(self, part: Expression | Operand) -> Expression:
        """A condition as an expression: a column alone is compared with true, true and false are constants."""
        if isinstance(part, Expression):
            return part
        if part.term is not None:
            return Predicate(Op.EQ, part.term, (True,))
        if not isinstance(part.literal, bool):
            self.fail("a value alone is no condition", part.position, "compare a column with it")
        return TRUE if part.literal else FALSE

    # Predicates -------------------------------------------------------------------------------------------------------

    def read_predicate(self, left: Operand | Expression) -> Expression | Operand:
        """Read the rest of a predicate behind its first value; returns the value itself if no operator follows."""
        if isinstance(left, Expression):
            return left
        op = _COMPARISONS.get(self.kinds[self.cursor])
        if op is not None:
            self.cursor += 1
            return self.compare(op, left, self.read_side())
        if self.take(TokenType.NULLSAFE_EQ):
            return self.null_safe_equal(left, self.read_side())
        if self.take_word("is"):
            return self.read_is(left)
        negated = self.word() == "not" and self.word(1) in _AFTER_NOT
        word = self.word(1 if negated else 0)
        reader = _PREDICATE_WORDS.get(word)
        if reader is None:
            return left
        self.cursor += 2 if negated else 1
        return reader(self, left, negated)

    def compare(self, op: Op, left: Operand, right: Operand) -> Expression:
        if left.term is None and right.term is not None:
            op, left, right = op.flipped, right, left
        if left.term is None:
            return self.compare_literals(op, left, right)
        return Predicate(op, left.term, (self.literal_for(left, right),))

    def literal_for(self, left: Operand, right: Operand) -> Any:
        """The literal with which a term is compared; raises if the right side is a column."""
        if right.term is not None:
            self.fail("a filter compares a column with values, not with another column", right.position)
        if not left.calendar:
            return right.literal
        assert isinstance(left.term, TransformTerm)
        try:
            return calendar_count(left.term.transform, right.literal)
        except InvalidExpression as error:
            self.fail(error.message, right.position, error.hint)

    def compare_literals(self, op: Op, left: Operand, right: Operand) -> Expression:
        """The constant of a comparison of two literals, such as the `1 = 1` that programs generate."""
        self.check_quoted_columns(left, right)
        kinds = {_comparable_kind(value.literal) for value in (left, right)}
        if len(kinds) != 1 or None in kinds:
            self.fail("these two values cannot be compared", left.position, "compare a column with a value")
        return TRUE if _COMPARE[op](left.literal, right.literal) else FALSE

    def null_safe_equal(self, left: Operand, right: Operand) -> Expression:
        """The comparison `<=>`, which is true for two nulls and never null."""
        if left.term is None and right.term is not None:
            left, right = right, left
        if left.term is None:
            self.check_quoted_columns(left, right)
            both_null = left.literal is None and right.literal is None
            one_null = left.literal is None or right.literal is None
            return TRUE if both_null else FALSE if one_null else self.compare_literals(Op.EQ, left, right)
        literal = self.literal_for(left, right)
        if literal is None:
            return Predicate(Op.IS_NULL, left.term)
        return and_(Predicate(Op.NOT_NULL, left.term), Predicate(Op.EQ, left.term, (literal,)))

    def read_is(self, left: Operand) -> Expression:
        negated = self.take_word("not")
        if self.take_word("null"):
            if left.term is None:
                self.check_quoted_columns(left)
                return TRUE if (left.literal is None) != negated else FALSE
            return Predicate(Op.NOT_NULL if negated else Op.IS_NULL, left.term)
        if self.word() == "nan":
            self.cursor += 1
            return Predicate(Op.NOT_NAN if negated else Op.IS_NAN, self.term_of(left))
        if self.word() == "distinct" and self.word(1) == "from":
            self.cursor += 2
            equal = self.null_safe_equal(left, self.read_side())
            return equal if negated else not_(equal)
        if self.word() not in ("true", "false"):
            self.fail_at_token(f"expected NULL, TRUE, FALSE or DISTINCT FROM after IS, found {self.describe_next()}")
        constant = Operand(self.position(self.token()), literal=self.word() == "true")
        self.cursor += 1
        equal = self.null_safe_equal(left, constant)
        return not_(equal) if negated else equal

    def term_of(self, left: Operand) -> Term:
        if left.term is None:
            self.check_quoted_columns(left)
            self.fail("a filter tests columns, not values", left.position, "put the column first")
        return left.term

    def check_quoted_columns(self, *values: Operand) -> None:
        """Raise for text in double quotes where a column is expected: they quote names in other dialects of SQL."""
        for value in values:
            if isinstance(value.literal, str) and self.text.startswith('"', value.position):
                self.fail(
                    "double quotes enclose text, not names of columns",
                    value.position,
                    f"put the name of a column in back-quotes: {name_to_text((value.literal[:80],))}",
                )

    def read_between(self, left: Operand, negated: bool) -> Expression:
        low = self.read_side()
        if not self.take_word("and"):
            self.fail_at_token(f"expected AND between the two limits, found {self.describe_next()}")
        inside = and_(self.compare(Op.GT_EQ, left, low), self.compare(Op.LT_EQ, left, self.read_side()))
        return not_(inside) if negated else inside

    def read_in(self, left: Operand, negated: bool) -> Expression:
        term = self.term_of(left)
        self.need(TokenType.L_PAREN, "`(` after IN")
        literals: list[Any] = []
        while not self.take(TokenType.R_PAREN):
            if literals:
                self.need(TokenType.COMMA, "`,` or `)`")
            literals.append(self.literal_for(left, self.read_side()))
        return Predicate(Op.NOT_IN if negated else Op.IN, term, tuple(literals))

    def read_like(self, left: Operand, negated: bool) -> Expression:
        term = self.term_of(left)
        if self.word() in ("any", "all", "some") and self.sees(TokenType.L_PAREN, 1):
            self.fail_at_token("LIKE takes one pattern", "join several patterns with AND or OR")
        pattern = self.read_side()
        escape = "\\"
        if self.take_word("escape"):
            value = self.read_side()
            if not isinstance(value.literal, str) or len(value.literal) != 1:
                self.fail("the escape character must be one character in quotes", value.position)
            escape = value.literal
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

    def fail_for_match(self, left: Operand, negated: bool) -> NoReturn:
        self.cursor -= 1
        self.fail_at_token(
            f"a filter cannot use {self.describe_next()}", "only prefixes can be tested, such as `name LIKE 'abc%'`"
        )


def _comparable_kind(literal: Any) -> type | None:
    """The class that two literals must share to be compared: one for all numbers; None for null and NaN."""
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
_KEYWORDS = {"&&": "AND", "||": "OR"}
_ARITHMETIC = {
    TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD, TokenType.DIV, TokenType.DPIPE,
    TokenType.AMP, TokenType.PIPE, TokenType.CARET,
}  # fmt: skip
_PREDICATE_WORDS: dict[str, Callable[[_Parser, Operand, bool], Expression]] = {
    "between": _Parser.read_between,
    "in": _Parser.read_in,
    "like": _Parser.read_like,
    "ilike": _Parser.fail_for_match,
    "rlike": _Parser.fail_for_match,
    "regexp": _Parser.fail_for_match,
}
_AFTER_NOT = frozenset(_PREDICATE_WORDS)
