"""The values in a filter's text: literals, columns and functions of columns; see `floe.spec.expressions.parser`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from sqlglot import Token, TokenType

from floe.errors import InvalidExpression, InvalidInput
from floe.spec.expressions.nodes import Expression, Op, Predicate, Reference, Term, TransformTerm
from floe.spec.expressions.parser_literals import CASTS, cast_literal, number_from_text
from floe.spec.expressions.parser_tokens import SqlTokens
from floe.spec.expressions.printing import RESERVED_WORDS
from floe.spec.partitioning.transforms import DAY, HOUR, IDENTITY, MONTH, YEAR, Bucket, Transform, Truncate

__all__ = ["SqlValues", "Value"]


@dataclass(frozen=True, slots=True)
class Value:
    """One side of a comparison: a column, perhaps transformed, or a literal."""

    position: int
    term: Term | None = None
    literal: Any = None
    calendar: bool = False
    """Whether a number beside the term is one of the calendar (`year(a) = 2024`), not a count from 1970."""


class SqlValues(SqlTokens):
    """Reads values from tokens. A method whose name starts with `read` consumes tokens."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.nesting = 0

    def read_value(self) -> Value | Expression:
        """A literal, a column, or a function of a column; some functions are tests themselves."""
        self.nesting += 1  # by casts, signs and functions, which are the only ones to come back here
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

    def read_side(self) -> Value:
        """The other side of a comparison."""
        value = self.read_value()
        if isinstance(value, Expression):
            self.at -= 1
            self.fail_at_token("a comparison cannot be compared again", "join comparisons with AND or OR")
        return value

    def _read_openings(self) -> int:
        opened = 0
        while self.sees(TokenType.L_PAREN):
            self.at += 1
            opened += 1
        return opened

    def _read_plain_value(self) -> Value | Expression:
        token = self.token()
        position = self.position(token)
        if token is None:
            self.fail_at_token("the filter ends where a column or value is expected")
        if token.token_type in (TokenType.DASH, TokenType.PLUS):
            return self._read_signed()
        if token.token_type in (TokenType.NUMBER, TokenType.DOT):
            return Value(position, literal=self._read_number())
        if token.token_type in (TokenType.STRING, TokenType.RAW_STRING):
            return Value(position, literal=self.read_string())
        if token.token_type == TokenType.HEX_STRING and self.raw(token)[0] in "xX":
            self.at += 1
            return Value(position, literal=self._bytes(token))
        word = self.word()
        if word in _CONSTANTS:
            self.at += 1
            return Value(position, literal=_CONSTANTS[word])
        if word in CASTS and self.sees(TokenType.STRING, 1):
            self.at += 1
            return self._cast(Value(position, literal=self.read_string()), word, ())
        if word == "cast" and self.sees(TokenType.L_PAREN, 1):
            return self._read_cast()
        return self._read_name()

    def _read_signed(self) -> Value:
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
        return Value(position, literal=number.copy_negate() if isinstance(number, Decimal) else -number)

    def _read_number(self) -> int | float | Any:
        first = self.at
        try:
            return number_from_text(self.read_number())
        except InvalidExpression as error:
            self.fail(error.message, self.position(self.tokens[first]), error.hint)

    def _bytes(self, token: Token) -> bytes:
        try:
            return bytes.fromhex("0" * (len(token.text) % 2) + token.text)
        except ValueError:
            self.fail("X'…' takes hexadecimal digits", self.position(token))

    # casts ----------------------------------------------------------------------------------------------------

    def _read_cast(self) -> Value:
        self.at += 2
        value = self.read_side()
        if not self.take_word("as"):
            self.fail_at_token(f"expected AS and a type, found {self.shown()}")
        name, parameters = self._read_type()
        self.need(TokenType.R_PAREN, "`)`")
        return self._cast(value, name, parameters)

    def _read_type(self) -> tuple[str, tuple[int, ...]]:
        name = self.word()
        if not name:
            self.fail_at_token(f"expected a type, found {self.shown()}")
        self.at += 1
        parameters: list[int] = []
        if self.take(TokenType.L_PAREN):
            while not parameters or self.take(TokenType.COMMA):
                if not self.sees(TokenType.NUMBER) or not self.tokens[self.at].text.isdecimal():
                    self.fail_at_token(f"expected a number, found {self.shown()}")
                parameters.append(int(self.tokens[self.at].text[:9]))
                self.at += 1
            self.need(TokenType.R_PAREN, "`)`")
        return name, tuple(parameters)

    def _cast(self, value: Value | Expression, type_name: str, parameters: tuple[int, ...]) -> Value:
        if isinstance(value, Expression):
            self.at -= 1
            self.fail_at_token("a comparison has no other type than true or false")
        if value.term is not None:
            if type_name == "date" and isinstance(value.term, Reference):
                return Value(value.position, term=TransformTerm(DAY, value.term))
            self.fail(f"a filter cannot turn a column into {type_name}", value.position, "compare the column itself")
        try:
            return Value(value.position, literal=cast_literal(value.literal, type_name, parameters))
        except InvalidInput as error:
            self.fail(error.message, value.position, error.hint)

    # columns and functions ------------------------------------------------------------------------------------

    def _read_name(self) -> Value | Expression:
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
                self._refuse_name()
            self.at += 1
            if not self.take(TokenType.DOT):
                break
        if self.sees(TokenType.L_PAREN):
            return self._read_function(parts, position)
        if self.sees(TokenType.L_BRACKET):
            self.fail_at_token("a filter cannot look into lists and maps", "name a field of a struct as `column.field`")
        # `a`.`b` names a path for sure; a.b may also be one name with a dot in it
        as_path = any("." in part for part in parts) or (quoted and len(parts) > 1)
        return Value(position, term=Reference(tuple(parts) if as_path else ".".join(parts)))

    def _refuse_name(self) -> NoReturn:
        word = self.word()
        if word in _REFUSED_WORDS:
            self.fail_at_token(*_REFUSED_WORDS[word])
        hint = f"put the name of a column in back-quotes: `{word}`" if word in RESERVED_WORDS else None
        self.fail_at_token(f"expected a column or value, found {self.shown()}", hint)

    def _read_function(self, path: list[str], position: int) -> Value | Expression:
        name = path[-1].lower()
        reader = _FUNCTIONS.get(name)
        if reader is None or (len(path) > 1 and path[-2].lower() != "system"):
            known = "isnull, isnotnull, isnan, startswith, bucket, truncate, date, year, years, months, days and hours"
            self.fail(f"a filter cannot use the function {'.'.join(path)[:80]}", position, f"it knows {known}")
        self.at += 1
        arguments: list[Value] = []
        while not self.take(TokenType.R_PAREN):
            if arguments:
                self.need(TokenType.COMMA, "`,` or `)`")
            arguments.append(self.read_side())
        return reader(self, name, arguments, position)

    def _one_column(self, name: str, arguments: list[Value], position: int) -> Reference:
        if len(arguments) != 1 or not isinstance(arguments[0].term, Reference):
            self.fail(f"{name} takes one column", position)
        return arguments[0].term

    def _call_test(self, name: str, arguments: list[Value], position: int) -> Expression:
        return Predicate(_TESTS[name], self._one_column(name, arguments, position))

    def _call_startswith(self, name: str, arguments: list[Value], position: int) -> Expression:
        if len(arguments) != 2 or arguments[0].term is None or not isinstance(arguments[1].literal, str):
            self.fail(f"{name} takes a column and a text", position)
        return Predicate(Op.STARTS_WITH, arguments[0].term, (arguments[1].literal,))

    def _call_with_number(self, name: str, arguments: list[Value], position: int) -> Value:
        number = arguments[0].literal if arguments else None
        if len(arguments) != 2 or type(number) is not int or not isinstance(arguments[1].term, Reference):
            self.fail(f"{name} takes a number and a column, such as {name}(16, id)", position)
        try:
            transform: Transform = Bucket(number) if name == "bucket" else Truncate(number)
        except InvalidInput as error:
            self.fail(error.message, arguments[0].position)
        return Value(position, term=TransformTerm(transform, arguments[1].term))

    def _call_transform(self, name: str, arguments: list[Value], position: int) -> Value:
        transform, calendar = _TRANSFORMS[name]
        column = self._one_column(name, arguments, position)
        return Value(position, term=TransformTerm(transform, column), calendar=calendar)

    def _call_cast(self, name: str, arguments: list[Value], position: int) -> Value:
        if len(arguments) != 1:
            self.fail(f"{name} takes one value", position)
        return self._cast(arguments[0], name.removeprefix("to_"), ())


_MAX_NESTING = 20
_NO_QUERY = ("a filter cannot hold a query", "run the query first, and use its values in the filter")
_REFUSED_WORDS = {
    "select": _NO_QUERY,
    "exists": _NO_QUERY,
    "case": ("a filter cannot use CASE", "write the conditions with AND, OR and NOT"),
    "interval": ("a filter cannot compute with intervals", "write the date or time itself"),
}
_CONSTANTS = {"true": True, "false": False, "null": None}
_TESTS = {"isnan": Op.IS_NAN, "is_nan": Op.IS_NAN, "isnull": Op.IS_NULL, "isnotnull": Op.NOT_NULL}
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
_FUNCTIONS: Mapping[str, Callable[[SqlValues, str, list[Value], int], Value | Expression]] = (
    dict.fromkeys(_TESTS, SqlValues._call_test)
    | {"startswith": SqlValues._call_startswith, "starts_with": SqlValues._call_startswith}
    | {"bucket": SqlValues._call_with_number, "truncate": SqlValues._call_with_number}
    | dict.fromkeys(_TRANSFORMS, SqlValues._call_transform)
    | dict.fromkeys([*CASTS, "to_date"], SqlValues._call_cast)
)
