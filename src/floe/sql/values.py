"""Values written as text, in Spark's SQL: `"case when amount > 0 then amount * 1.1 else 0 end"`.

`parse_value` returns a tree of literals, names, casts and calls; operators, CASE and BETWEEN are calls too.
`floe.arrow.values.functions` has the functions.

sqlglot's Spark dialect tokenizes the text, as for filters (`floe.sql.filters`); it is parsed here by operator
precedence, so that every error points into the text.

>>> parse_value("a + 1").function
'+'
>>> parse_value("a +")
Traceback (most recent call last):
floe.errors.InvalidExpression: the text ends where a value is expected
  a +
     ^
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

from sqlglot import Token, TokenType

from floe.errors import FloeError, InvalidExpression, InvalidInput
from floe.spec.expressions.expression_text import RESERVED_WORDS
from floe.spec.types import (
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    PrimitiveType,
    Type,
)
from floe.spec.values import convert
from floe.spec.values.civil_time import timestamp_from_text
from floe.sql.literals import TYPES, decimal_for, number_from_text, type_of_name
from floe.sql.tokens import SqlTokens

# The tree -------------------------------------------------------------------------------------------------------------

INTERVAL = PrimitiveType("interval")
"""The type of `INTERVAL 3 DAYS`, which can be added to dates and timestamps.

Its values are pairs of months and microseconds.
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the tree."""

    at: int
    """The position in the text; -1 for a node that was not parsed."""


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A value of a type, in the form of `floe.spec.values`."""

    type: Type
    value: Any


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A column, which may have the name of its table before it, or fields of a struct after it."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A call of a function, by its name in lower case, or of an operator, by its sign."""

    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """A cast of a value to another type."""

    value: Node
    type: Type


@dataclass(frozen=True, slots=True)
class Member(Node):
    """A field of a struct that is the result of another node."""

    value: Node
    name: str


def walk(node: Node) -> Iterator[Node]:
    """The node and all nodes below it.

    >>> from floe.spec.types import INT
    >>> sum(isinstance(part, Literal) for part in walk(Call(0, "+", (Literal(0, INT, 1), Literal(4, INT, 2)))))
    2
    """
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if isinstance(current, Call):
            stack += current.arguments
        elif isinstance(current, Cast | Member):
            stack.append(current.value)


# The parser -----------------------------------------------------------------------------------------------------------

T = TypeVar("T")

MAX_DEPTH = 80
"""The greatest depth of nested values; their evaluation recurses as deep."""


def parse_value(text: str) -> Node:
    """Parse a value in Spark's SQL; `InvalidExpression` points at the position of an error.

    >>> parse_value("-1.50")
    Literal(at=0, type=DecimalType(precision=3, scale=2), value=Decimal('-1.50'))
    """
    if not isinstance(text, str):
        raise InvalidExpression(f"a value is text, found {type(text).__name__}")
    return _Parser(text).parse()


_OR, _AND, _NOT, _PREDICATE, _BIT_OR, _BIT_XOR, _BIT_AND, _SUM, _PRODUCT, _SIGN = range(1, 11)
"""The precedences of operators, the weakest first."""


_BINARY: dict[TokenType, tuple[int, str]] = {
    TokenType.OR: (_OR, "or"),
    TokenType.AND: (_AND, "and"),
    TokenType.EQ: (_PREDICATE, "="),
    TokenType.NEQ: (_PREDICATE, "<>"),
    TokenType.LT: (_PREDICATE, "<"),
    TokenType.LTE: (_PREDICATE, "<="),
    TokenType.GT: (_PREDICATE, ">"),
    TokenType.GTE: (_PREDICATE, ">="),
    TokenType.NULLSAFE_EQ: (_PREDICATE, "<=>"),
    TokenType.PIPE: (_BIT_OR, "|"),
    TokenType.CARET: (_BIT_XOR, "^"),
    TokenType.AMP: (_BIT_AND, "&"),
    TokenType.PLUS: (_SUM, "+"),
    TokenType.DASH: (_SUM, "-"),
    TokenType.DPIPE: (_SUM, "||"),
    TokenType.STAR: (_PRODUCT, "*"),
    TokenType.SLASH: (_PRODUCT, "/"),
    TokenType.MOD: (_PRODUCT, "%"),
    TokenType.DIV: (_PRODUCT, "div"),
}


class _Parser(SqlTokens):
    """Parses the value of one text. Methods named `read…` consume tokens."""

    def __init__(self, text: str) -> None:
        try:
            super().__init__(text)
        except InvalidExpression as error:
            if error.message == "the filter is empty":
                raise InvalidExpression("the text of a value is empty", hint="write NULL for no value") from None
            raise
        self.depth = 0

    def parse(self) -> Node:
        node = self.read(0)
        if self.token() is not None:
            self.fail_at_token(f"expected an operator or the end, found {self.describe_next()}")
        return node

    def read(self, precedence: int) -> Node:
        """Read a value with all operators behind it that have a higher precedence."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail_at_token(f"values are nested more than {MAX_DEPTH} deep")
        left = self._read_first()
        while (following := self._read_after(left, precedence)) is not None:
            left = following
        self.depth -= 1
        return left

    # Operators --------------------------------------------------------------------------------------------------------

    def _read_first(self) -> Node:
        token = self.token()
        at = self.position(token)
        if token is None:
            self.fail_at_token("the text ends where a value is expected")
        if self.take_word("not") or self.take(TokenType.NOT):
            return Call(at, "not", (self.read(_NOT),))
        if self.take(TokenType.DASH):
            operand = self.read(_SIGN)
            return _negate_literal(operand, at) or Call(at, "negative", (operand,))
        if self.take(TokenType.PLUS):
            return Call(at, "positive", (self.read(_SIGN),))
        if self.take(TokenType.TILDE):
            return Call(at, "~", (self.read(_SIGN),))
        return self._read_primary(token)

    def _read_after(self, left: Node, precedence: int) -> Node | None:
        """Read the next operator if it has a higher precedence; returns None if it has not."""
        token = self.token()
        if token is None:
            return None
        at = self.position(token)
        word = self.word()
        if word in _PREDICATES or (word == "not" and self.word(1) in _PREDICATES):
            if precedence >= _PREDICATE:
                return None
            negated = self.take_word("not")
            reader = _PREDICATES[self.word()]
            self.cursor += 1
            predicate = reader(self, left, at)
            return Call(at, "not", (predicate,)) if negated else predicate
        next_precedence, name = _BINARY.get(token.token_type, (0, ""))
        if word in ("and", "or"):
            next_precedence, name = (_AND, word) if word == "and" else (_OR, word)
        if next_precedence <= precedence:
            return None
        self.cursor += 1
        right = self.read(next_precedence)
        if next_precedence == _PREDICATE and self._sees_comparison():
            self.fail_at_token("a comparison cannot be compared again", "join comparisons with AND or OR")
        if name in ("and", "or") and isinstance(left, Call) and left.function == name:
            return Call(left.at, name, (*left.arguments, right))  # flat, so that a long chain is not deep
        return Call(at, name, (left, right))

    def _sees_comparison(self) -> bool:
        token = self.token()
        return token is not None and _BINARY.get(token.token_type, (0, ""))[0] == _PREDICATE

    def _read_is(self, left: Node, at: int) -> Node:
        negated = self.take_word("not")
        word = self.word()
        self.cursor += 1
        if word == "null":
            predicate: Node = Call(at, "isnull", (left,))
        elif word in ("true", "false"):
            predicate = Call(at, "<=>", (left, Literal(at, BOOLEAN, word == "true")))
        elif word == "distinct" and self.take_word("from"):
            predicate, negated = Call(at, "<=>", (left, self.read(_PREDICATE))), not negated
        else:
            self.cursor -= 1
            self.fail_at_token(f"expected NULL, TRUE, FALSE or DISTINCT FROM after IS, found {self.describe_next()}")
        return Call(at, "not", (predicate,)) if negated else predicate

    def _read_in(self, left: Node, at: int) -> Node:
        self.need(TokenType.L_PAREN, "`(`")
        if self.word() in ("select", "with"):
            self.fail_at_token("a value cannot hold a query", "run the query first, and use its rows as the source")
        return Call(at, "in", (left, *self._read_arguments()))

    def _read_between(self, left: Node, at: int) -> Node:
        low = self.read(_PREDICATE)
        if not self.take_word("and"):
            self.fail_at_token(f"expected AND after BETWEEN, found {self.describe_next()}")
        return Call(at, "and", (Call(at, ">=", (left, low)), Call(at, "<=", (left, self.read(_PREDICATE)))))

    def _read_like(self, left: Node, at: int) -> Node:
        name = self.words[self.cursor - 1]
        pattern = self.read(_PREDICATE)
        escape = (self.read(_PREDICATE),) if self.take_word("escape") else ()
        return Call(at, name, (left, pattern, *escape))

    # Values -----------------------------------------------------------------------------------------------------------

    def _read_primary(self, token: Token) -> Node:
        """Read a value with the casts, fields and indexes behind it."""
        node = self._read_plain(token)
        while True:
            at = self.position(self.token())
            if self.take(TokenType.DCOLON):
                node = Cast(at, node, self._read_type())
            elif not isinstance(node, Name) and self.take(TokenType.DOT):
                node = Member(at, node, self._read_field())
            elif self.take(TokenType.L_BRACKET):
                key = self.read(0)
                self.need(TokenType.R_BRACKET, "`]`")
                node = Call(at, "element_at_index", (node, key))
            else:
                return node

    def _read_plain(self, token: Token) -> Node:
        at = self.position(token)
        kind = token.token_type
        if self.take(TokenType.L_PAREN):
            if self.word() in ("select", "with"):
                self.fail_at_token("a value cannot hold a query", "run the query first, and use its rows as the source")
            node = self.read(0)
            self.need(TokenType.R_PAREN, "`)`")
            return node
        if kind in (TokenType.NUMBER, TokenType.DOT):
            return self._read_number(at)
        if kind in (TokenType.STRING, TokenType.RAW_STRING):
            return Literal(at, STRING, self.read_string())
        if kind == TokenType.HEX_STRING and self.raw(token)[0] in "xX":
            self.cursor += 1
            return Literal(at, BINARY, bytes.fromhex("0" * (len(token.text) % 2) + token.text))
        word = self.word()
        if (reader := _KEYWORDS.get(word)) is not None:
            return reader(self, at)
        if word in TYPES and self.sees(TokenType.STRING, 1):
            self.cursor += 1
            return self._typed_literal(word, self.read_string(), at)
        return self._read_name(at)

    def _read_number(self, at: int) -> Literal:
        text = self.read_number()
        try:
            value = number_from_text(text)
        except InvalidExpression as error:
            self.fail(error.message, at, error.hint)
        return self._point_errors(lambda: Literal(at, *_typed_number(value, text)), at)

    def _typed_literal(self, name: str, text: str, at: int) -> Literal:
        """A literal such as `date '2024-05-17'`; a timestamp with a zone in its text is a `timestamptz`."""
        type_ = TYPES[name]
        if type_ == TIMESTAMP and name == "timestamp" and _has_zone(text):
            type_ = TIMESTAMPTZ
        return self._point_errors(lambda: Literal(at, type_, convert(type_, _timestamp_text(type_, text.strip()))), at)

    def _read_constant(self, at: int) -> Literal:
        word = self.word()
        self.cursor += 1
        return Literal(at, UNKNOWN, None) if word == "null" else Literal(at, BOOLEAN, word == "true")

    def _read_cast(self, at: int) -> Node:
        if not self.sees(TokenType.L_PAREN, 1):
            return self._read_name(at)
        self.cursor += 2
        value = self.read(0)
        if not self.take_word("as"):
            self.fail_at_token(f"expected AS and a type, found {self.describe_next()}")
        type_ = self._read_type()
        self.need(TokenType.R_PAREN, "`)`")
        return Cast(at, value, type_)

    def _read_type(self) -> Type:
        at, name = self.position(self.token()), self.word()
        if not name:
            self.fail_at_token(f"expected a type, found {self.describe_next()}")
        self.cursor += 1
        parameters = self.read_parameters()
        return self._point_errors(lambda: type_of_name(name, parameters), at)

    def _read_case(self, at: int) -> Node:
        """Read `CASE [operand] WHEN c THEN v … ELSE v END`, as a call with conditions and values in turn."""
        self.cursor += 1
        operand = None if self.word() == "when" else self.read(0)
        arguments: list[Node] = []
        while self.take_word("when"):
            condition = self.read(0)
            if operand is not None:
                condition = Call(condition.at, "=", (operand, condition))
            if not self.take_word("then"):
                self.fail_at_token(f"expected THEN, found {self.describe_next()}")
            arguments += [condition, self.read(0)]
        if not arguments:
            self.fail_at_token(f"expected WHEN, found {self.describe_next()}")
        if self.take_word("else"):
            arguments.append(self.read(0))
        if not self.take_word("end"):
            self.fail_at_token(f"expected END of CASE, found {self.describe_next()}")
        return Call(at, "case", tuple(arguments))

    def _read_interval(self, at: int) -> Node:
        """Read `INTERVAL 3 DAYS`, `INTERVAL '3' DAY` or `INTERVAL '1 month 2 days'`, with any number of units."""
        self.cursor += 1
        months = micros = 0
        has_units = False
        while (token := self.token()) is not None:
            if token.token_type == TokenType.STRING and self.word(1).rstrip("s") not in _UNITS:
                words = self.read_string().split()
            elif token.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.DASH):
                negative = self.take(TokenType.DASH)
                words = [("-" if negative else "") + self.tokens[self.cursor].text, self.word(1)]
                self.cursor += 2
            else:
                break
            if not words or len(words) % 2:
                self.fail("expected counts and units, such as INTERVAL 3 DAYS", at)
            for count, unit in zip(words[::2], words[1::2], strict=True):
                in_months, in_micros = _UNITS.get(unit.lower().rstrip("s"), (0, 0))
                number = self._point_errors(lambda count=count: Decimal(count), at)  # type: ignore[misc]
                if (not in_months and not in_micros) or (in_months and number != int(number)):
                    self.fail(f"an interval cannot be {count} {unit[:20]}", at, f"units are {', '.join(_UNITS)}")
                months += int(number) * in_months
                micros += int(number * in_micros)
            has_units = True
        if not has_units:
            self.fail("expected counts and units, such as INTERVAL 3 DAYS", at)
        return Literal(at, INTERVAL, (months, micros))

    def _read_name(self, at: int) -> Node:
        parts = [self._read_name_part(first=True)]
        while self.take(TokenType.DOT):
            parts.append(self._read_field())
        if len(parts) == 1 and self.take(TokenType.L_PAREN):
            return self._read_call(parts[0].lower(), at)
        if len(parts) == 1 and parts[0].lower() in _WITHOUT_PARENTHESES:
            return Call(at, parts[0].lower(), ())
        return Name(at, tuple(parts))

    def _read_call(self, name: str, at: int) -> Node:
        if name == "extract":
            unit = self.word()
            self.cursor += 1
            if not self.take_word("from"):
                self.fail_at_token(f"expected FROM in EXTRACT, found {self.describe_next()}")
            name, arguments = _EXTRACT_FUNCTIONS.get(unit, unit), self._read_arguments()
        elif name == "position":
            name, arguments = "locate", self._read_position()
        elif name == "trim":
            name, arguments = self._read_trim()
        elif name == "struct":
            return Call(at, "named_struct", self._name_arguments(self._read_arguments()))
        else:
            arguments = self._read_arguments()
        return Call(at, name, arguments)

    def _read_trim(self) -> tuple[str, tuple[Node, ...]]:
        """Read `trim(text)`, `trim(text, letters)` or `trim([both | leading | trailing] [letters] from text)`."""
        name = {"leading": "ltrim", "trailing": "rtrim"}.get(self.word(), "trim")
        if self.word() in ("both", "leading", "trailing") and self.word(1) != "(":
            self.cursor += 1
        if self.take_word("from"):
            return name, self._read_arguments()
        first = self.read(0)
        if self.take_word("from"):
            return name, (*self._read_arguments(), first)
        return name, (first, *self._read_more_arguments())

    def _name_arguments(self, arguments: tuple[Node, ...]) -> tuple[Node, ...]:
        """The arguments of `struct(a, b.c)` as those of `named_struct`, with a name before each."""
        names = [value.parts[-1] if isinstance(value, Name) else f"col{n + 1}" for n, value in enumerate(arguments)]
        return tuple(
            node
            for name, value in zip(names, arguments, strict=True)
            for node in (Literal(value.at, STRING, name), value)
        )

    def _read_position(self) -> tuple[Node, ...]:
        """Read the arguments of `position('a' in b)` or `position('a', b)`."""
        first = self.read(_PREDICATE)
        if self.take_word("in"):
            second = self.read(_PREDICATE)
            self.need(TokenType.R_PAREN, "`)`")
            return first, second
        return first, *self._read_more_arguments()

    def _read_more_arguments(self) -> tuple[Node, ...]:
        """Read the arguments behind the first one, up to the closing parenthesis."""
        if self.take(TokenType.COMMA):
            return self._read_arguments()
        self.need(TokenType.R_PAREN, "`)`")
        return ()

    def _read_arguments(self) -> tuple[Node, ...]:
        """Read arguments with commas between them, up to the closing parenthesis."""
        arguments: list[Node] = []
        while not self.take(TokenType.R_PAREN):
            if arguments:
                self.need(TokenType.COMMA, "`,` or `)`")
            arguments.append(self.read(0))
        return tuple(arguments)

    def _read_name_part(self, *, first: bool) -> str:
        token = self.token()
        if token is not None and token.token_type == TokenType.IDENTIFIER:
            self.cursor += 1
            return token.text
        word = self.word()
        if token is None or not word or (first and word in _NOT_NAMES):
            hint = f"put the name of a column in back-quotes: `{word}`" if word in RESERVED_WORDS else None
            self.fail_at_token(f"expected a column or value, found {self.describe_next()}", hint)
        self.cursor += 1
        return token.text

    def _read_field(self) -> str:
        return self._read_name_part(first=False)

    def _point_errors(self, make: Callable[[], T], at: int) -> T:
        """The result of `make`; its errors are raised again with a position in the text."""
        try:
            return make()
        except (FloeError, ArithmeticError) as error:
            message = error.message if isinstance(error, FloeError) else "expected a number"
            self.fail(message, at, error.hint if isinstance(error, FloeError) else None)


_PREDICATES: dict[str, Callable[[_Parser, Node, int], Node]] = {
    "is": _Parser._read_is,
    "in": _Parser._read_in,
    "between": _Parser._read_between,
    "like": _Parser._read_like,
    "ilike": _Parser._read_like,
    "rlike": _Parser._read_like,
    "regexp": _Parser._read_like,
}
_KEYWORDS: dict[str, Callable[[_Parser, int], Node]] = {
    "null": _Parser._read_constant,
    "true": _Parser._read_constant,
    "false": _Parser._read_constant,
    "cast": _Parser._read_cast,
    "case": _Parser._read_case,
    "interval": _Parser._read_interval,
}
_NOT_NAMES = RESERVED_WORDS - {"any", "some", "exists"}
_WITHOUT_PARENTHESES = ("current_date", "current_timestamp", "localtimestamp")
_EXTRACT_FUNCTIONS = {"dow": "dayofweek", "doy": "dayofyear", "week": "weekofyear"}
_SECOND = 1_000_000
_UNITS: dict[str, tuple[int, int]] = {
    "year": (12, 0),
    "quarter": (3, 0),
    "month": (1, 0),
    "week": (0, 7 * 86_400 * _SECOND),
    "day": (0, 86_400 * _SECOND),
    "hour": (0, 3_600 * _SECOND),
    "minute": (0, 60 * _SECOND),
    "second": (0, _SECOND),
    "millisecond": (0, 1_000),
    "microsecond": (0, 1),
}
"""The months and microseconds of each unit of time."""


def _typed_number(value: int | float | Decimal, text: str) -> tuple[Type, Any]:
    """The type that Spark gives to a number (int, bigint, a decimal with all digits, float, double) and its value."""
    if isinstance(value, float):
        return (FLOAT if text[-1] in "fF" else DOUBLE), convert(FLOAT if text[-1] in "fF" else DOUBLE, value)
    if isinstance(value, Decimal):
        return decimal_for(value), value
    if text[-1] in "lL" or not -(2**31) <= value < 2**31:
        if -(2**63) <= value < 2**63:
            return LONG, value
        if text[-1] in "lL":
            raise InvalidInput(f"{text[:40]} does not fit a bigint")
        return decimal_for(Decimal(value)), Decimal(value)
    return INT, value


def _negate_literal(operand: Node, at: int) -> Literal | None:
    """The negative of a number literal, or None for other nodes.

    The smallest int and bigint are special: without the sign they do not fit their type.
    """
    if not isinstance(operand, Literal) or operand.type.kind not in ("int", "long", "double", "float", "decimal"):
        return None
    if isinstance(operand.value, Decimal):
        value = operand.value.copy_negate()
        if value == -(2**63) and operand.type == decimal_for(Decimal(2**63)):
            return Literal(at, LONG, -(2**63))
        return Literal(at, operand.type, value)
    if operand.type == LONG and operand.value == 2**31:
        return Literal(at, INT, -(2**31))
    return Literal(at, operand.type, -operand.value)


def _has_zone(text: str) -> bool:
    try:
        return timestamp_from_text(_timestamp_text(TIMESTAMP, text.strip()), _SECOND)[1] is not None
    except (FloeError, ValueError):
        return False


def _timestamp_text(type_: Type, text: str) -> str:
    """The text of a timestamp literal; a date alone means midnight."""
    return f"{text} 00:00:00" if type_ in (TIMESTAMP, TIMESTAMPTZ) and len(text) == 10 else text
