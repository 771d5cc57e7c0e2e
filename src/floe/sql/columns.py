"""Columns written as text, as in CREATE TABLE: `"order_id bigint not null, tags array<string> comment 'labels'"`.

sqlglot's Spark dialect tokenizes the text; the grammar is parsed here, so that every error points into the text. A list
of columns can have:

* types by the names of Iceberg (`long`, `timestamptz`, `list<int>`, `fixed[16]`), of Spark (`bigint`, `timestamp_ntz`,
  `array<int>`, `struct<a: int>`) and of other SQL dialects (`text`, `numeric(10, 2)`, `double precision`).
  `timestamp` has no time zone, as in Iceberg; write `timestamptz` (or `timestamp_ltz`) for points in time
* behind a type, in any order: `not null`, `null`, `comment 'text'`, `default 0` (needs format version 3)
* within types too: `array<int not null>`, `struct<a: int not null comment 'x', b string>`
* names with spaces or dots in back-quotes: `` `a b` int ``
* at the end `primary key (a, b)`: the identifier fields

>>> print(parse_columns("order_id bigint not null, who struct<name: string, tags: array<string>>"))
table {
  1: order_id: required long
  2: who: optional struct<3: name: optional string, 4: tags: optional list<string>>
}
>>> parse_columns("id bigint, amount dezimal(10, 2)")
Traceback (most recent call last):
floe.errors.InvalidSchema: unknown type `dezimal`; did you mean decimal?
  id bigint, amount dezimal(10, 2)
                    ^
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

from sqlglot import TokenType

from floe.errors import InvalidExpression, InvalidInput, InvalidSchema, InvalidType, InvalidValue
from floe.spec import values
from floe.spec.expressions.nodes import Expression
from floe.spec.schemas.schema import MAX_TYPE_DEPTH, Schema, assign_fresh_ids
from floe.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    Field,
    FixedType,
    ListType,
    MapType,
    StructType,
    Type,
    parse_type,
)
from floe.sql.filters import OperandParser

T = TypeVar("T")


def parse_columns(text: str) -> Schema:
    """Parse a list of columns; returns a schema whose field ids count from 1.

    >>> schema = parse_columns("id bigint not null, note string default 'none' comment 'free text', primary key (id)")
    >>> schema.identifier_names, schema.field("note").write_default, schema.field("note").doc
    (('id',), 'none', 'free text')
    """
    if not isinstance(text, str):
        raise InvalidSchema(f"columns are text, found {type(text).__name__}")
    if not text.strip():
        return Schema(())
    fields, keys = _parse(text, _Parser.read_all)
    schema, _ = assign_fresh_ids(Schema(tuple(fields)))
    return _set_identifier_fields(schema, keys, text)


def parse_column_type(text: str) -> Type:
    """Parse a type, which may be nested; the field ids within it are provisional.

    >>> print(parse_column_type("map<string, array<decimal(9, 2)>>"))
    map<string, list<decimal(9, 2)>>
    """
    if not isinstance(text, str):
        raise InvalidType(f"{text!r:.80} is not a type, nor the text of one")
    if not text.strip():
        raise InvalidType("the text of a type is empty")
    return _parse(text, _Parser.read_type_only)


@dataclass(frozen=True, slots=True)
class _Key:
    """A column of the primary key, with its position in the text."""

    path: tuple[str, ...]
    position: int


def _parse(text: str, read: Callable[[_Parser], T]) -> T:
    try:
        return read(_Parser(text))
    except InvalidExpression as error:  # raised by the parser of literals and tokens, which filters use too
        raise InvalidSchema(error.message, text=error.text, position=error.position, hint=error.hint) from None


def _set_identifier_fields(schema: Schema, keys: list[_Key], text: str) -> Schema:
    ids = []
    for key in keys:
        try:
            ids.append(schema.field(key.path).id)
            Schema(schema.fields, identifier_field_ids=(ids[-1],))
        except InvalidInput as error:
            raise InvalidSchema(error.message, text=text, position=key.position, hint=error.hint) from None
        except LookupError as error:
            raise InvalidSchema(str(error), text=text, position=key.position) from None
    return Schema(schema.fields, identifier_field_ids=tuple(dict.fromkeys(ids)))


class _Parser(OperandParser):
    """Parses the columns of one text. Methods named `read…` consume tokens."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.next_id = 0  # provisional ids, until `assign_fresh_ids` numbers the fields of the schema

    def fail(self, message: str, position: int, hint: str | None = None) -> NoReturn:
        """Raise an error that points at a position in the text."""
        raise InvalidSchema(message, text=self.text, position=position, hint=hint)

    # Lists of columns -------------------------------------------------------------------------------------------------

    def read_all(self) -> tuple[list[Field], list[_Key]]:
        """Read the whole text; returns the columns, and those of the primary key."""
        in_parentheses = self.take(TokenType.L_PAREN)  # as copied from CREATE TABLE t (…)
        fields: list[Field] = []
        keys: list[_Key] = []
        while True:
            if self._spelling() == "primary key" and self.sees(TokenType.L_PAREN, 1):
                keys += self._read_keys()
            else:
                fields.append(self._read_field(fields, top_level=True))
            if not self.take(TokenType.COMMA):
                break
        if in_parentheses:
            self.need(TokenType.R_PAREN, "`,` or `)`")
        self._read_end()
        return fields, keys

    def read_type_only(self) -> Type:
        """Read a type, which must be the whole text."""
        type_ = self._read_column_type()
        self._read_end()
        return type_

    def _read_end(self) -> None:
        if self.token() is None:
            return
        if self._spelling() in ("generated", "check", "references", "unique", "constraint"):
            self.fail_at_token(f"columns cannot have {self.describe_next()}", "leave it out")
        self.fail_at_token(f"expected `,` or the end, found {self.describe_next()}")

    def _read_keys(self) -> list[_Key]:
        self.cursor += 1
        self.need(TokenType.L_PAREN, "`(`")
        keys: list[_Key] = []
        while not keys or self.take(TokenType.COMMA):
            position = self.position(self.token())
            path = [self._read_name_part()]
            while self.take(TokenType.DOT):
                path.append(self._read_name_part())
            keys.append(_Key(tuple(path), position))
        self.need(TokenType.R_PAREN, "`,` or `)`")
        if self.word() == "not" and self.word(1) == "enforced":  # Flink's syntax; Iceberg never enforces keys
            self.cursor += 2
        return keys

    def _read_field(self, previous: Iterable[Field], *, top_level: bool) -> Field:
        position = self.position(self.token())
        name = self._read_name_part()
        if any(field.name == name for field in previous):
            self.fail(f"two columns are named {name!r}", position)
        if self.sees(TokenType.DOT):
            self.fail_at_token("a column's name has a dot in it", "put the whole name in back-quotes, or use a struct")
        colon = self.take(TokenType.COLON)
        if colon and top_level:
            self.cursor -= 1
            self.fail_at_token("expected a type, found `:`", "only the fields of a struct may have `:` behind the name")
        type_position = self.position(self.token())
        type_ = self._read_column_type()
        required, doc, default = self._read_attributes(type_, type_position)
        return Field(self._fresh_id(), name, type_, required, doc, initial_default=default, write_default=default)

    def _read_name_part(self) -> str:
        token = self.token()
        if token is not None and token.token_type == TokenType.IDENTIFIER:
            if not token.text:
                self.fail_at_token("a column must have a name")
            self.cursor += 1
            return token.text
        if token is not None and token.token_type == TokenType.STRING:
            self.fail_at_token("quotation marks enclose text, not names", "put the name in back-quotes")
        if token is None or not self.word():
            self.fail_at_token(f"expected the name of a column, found {self.describe_next()}")
        self.cursor += 1
        return self.raw(token)

    def _read_attributes(self, type_: Type, type_position: int) -> tuple[bool, str | None, Any]:
        """Read the attributes behind a type: whether it is required, its comment, its default."""
        required, doc, default = False, None, None
        attributes: set[str] = set()
        while (word := self.word()) in ("not", "null", "comment", "default"):
            attribute = "null" if word == "not" else word
            if attribute in attributes:
                self.fail_at_token(f"{attribute.upper()} appears twice for one column")
            attributes.add(attribute)
            if word == "not":
                self.cursor += 1
                if not self.take_word("null"):
                    self.fail_at_token(f"expected NULL after NOT, found {self.describe_next()}")
                required = True
            elif word == "null":
                self.cursor += 1
            elif word == "comment":
                self.cursor += 1
                if not self.sees(TokenType.STRING):
                    self.fail_at_token(f"expected text in quotes after COMMENT, found {self.describe_next()}")
                doc = self.read_string()
            else:
                self.cursor += 1
                default = self._read_default(type_, type_position)
        return required, doc, default

    def _read_default(self, type_: Type, type_position: int) -> Any:
        position = self.position(self.token())
        if self.token() is None:
            self.fail_at_token("expected a value after DEFAULT")
        value = self.read_value()
        if isinstance(value, Expression) or value.term is not None:
            self.fail("a default is a value, not a column or a condition", position, "put text in quotes")
        try:
            return None if value.literal is None else values.convert(type_, value.literal)
        except InvalidValue as error:
            self.fail(error.message, position, error.hint)

    # Types ------------------------------------------------------------------------------------------------------------

    def _read_column_type(self) -> Type:
        self.depth += 1
        if self.depth > MAX_TYPE_DEPTH:
            self.fail_at_token(f"types are nested more than {MAX_TYPE_DEPTH} deep")
        position = self.position(self.token())
        name = self._spelling()
        if not name:
            self.fail_at_token(f"expected a type, found {self.describe_next()}")
        self.cursor += 1
        try:
            type_ = self._read_type_of_name(name, position)
        except InvalidType as error:
            self.fail(error.message, position, error.hint)
        self.depth -= 1
        return type_

    def _read_type_of_name(self, name: str, position: int) -> Type:
        if reader := _NESTED.get(name):
            return reader(self)
        if name in ("decimal", "dec", "numeric"):
            return DecimalType(*self._read_numbers("(", ")", (10, 0)))  # Spark's defaults
        if name == "fixed":
            return self._read_fixed()
        if name in ("geometry", "geography"):
            return parse_type(name + self._read_raw_parentheses())
        if name in ("char", "character", "varchar"):
            self._read_numbers("(", ")", (0,))  # the length is ignored: Iceberg's strings have any length
            return STRING
        if name in ("timestamp", "time"):
            return self._read_zone(name)
        type_ = _PRIMITIVE_TYPES.get(name)
        if type_ is None:
            near = get_close_matches(name, _ALL_NAMES, n=1, cutoff=0.7)
            hint = f"did you mean {near[0]}?" if near else f"types are {', '.join(_NAMES_IN_HINTS)}"
            self.fail(f"unknown type `{name[:40]}`", position, hint)
        if self.sees(TokenType.L_PAREN):
            self.fail_at_token(f"the type {name} takes no parameters")
        return type_

    def _read_zone(self, name: str) -> Type:
        """Read `[WITH | WITHOUT TIME ZONE]` behind `timestamp` or `time`."""
        if self.word() in ("with", "without") and self.word(1) == "time" and self.word(2) == "zone":
            has_zone = self.word() == "with"
            if name == "time" and has_zone:
                self.fail_at_token("a time of day has no time zone", "leave it out")
            self.cursor += 3
            return TIMESTAMPTZ if has_zone else TIME if name == "time" else TIMESTAMP
        return TIME if name == "time" else TIMESTAMP

    def _read_fixed(self) -> Type:
        square = self.sees(TokenType.L_BRACKET)
        if not square and not self.sees(TokenType.L_PAREN):
            self.fail_at_token("the type fixed needs a length", "write fixed[16]")
        (length,) = self._read_numbers("[" if square else "(", "]" if square else ")", (0,))
        return FixedType(length)

    def _read_numbers(self, opening: str, closing: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """Read up to as many numbers in brackets as there are defaults; the defaults stand for missing ones."""
        if not self.take(_BRACKETS[opening]):
            return default
        numbers: list[int] = []
        while not numbers or self.take(TokenType.COMMA):
            token = self.token()
            if token is None or token.token_type != TokenType.NUMBER or not re.fullmatch("[0-9]{1,10}", token.text):
                self.fail_at_token(f"expected a whole number, found {self.describe_next()}")
            if len(numbers) == len(default):
                self.fail_at_token(f"expected `{closing}`, found {self.describe_next()}")
            numbers.append(int(token.text))
            self.cursor += 1
        self.need(_BRACKETS[closing], f"`{closing}`")
        return (*numbers, *default[len(numbers) :])

    def _read_raw_parentheses(self) -> str:
        """Read a text in parentheses exactly as it is: the name of a reference system is no SQL."""
        start = self.token()
        if not self.take(TokenType.L_PAREN):
            return ""
        while not self.sees(TokenType.R_PAREN):
            if self.token() is None:
                self.fail("this parenthesis is never closed", self.position(start))
            self.cursor += 1
        end = self.position(self.token())
        self.cursor += 1
        return self.text[self.position(start) : end] + ")"

    def _read_struct(self) -> Type:
        if self.take(TokenType.NEQ):  # struct<>
            return StructType()
        self.need(TokenType.LT, "`<` after STRUCT")
        fields: list[Field] = []
        while True:
            fields.append(self._read_field(fields, top_level=False))
            if not self.take(TokenType.COMMA):
                break
        self.need(TokenType.GT, "`,` or `>`")
        return StructType(tuple(fields))

    def _read_list(self) -> Type:
        self.need(TokenType.LT, "`<` and the type of the elements")
        element, required = self._read_nested("element")
        self.need(TokenType.GT, "`>`")
        return ListType(self._fresh_id(), element, required)

    def _read_map(self) -> Type:
        self.need(TokenType.LT, "`<` and the types of keys and values")
        key, _ = self._read_nested("key")
        self.need(TokenType.COMMA, "`,` and the type of the values")
        value, required = self._read_nested("value")
        self.need(TokenType.GT, "`>`")
        return MapType(self._fresh_id(), key, self._fresh_id(), value, required)

    def _read_nested(self, role: str) -> tuple[Type, bool]:
        """Read the type of an element, key or value, and whether it is required."""
        position = self.position(self.token())
        type_ = self._read_column_type()
        attributes_cursor = self.cursor
        required, doc, default = self._read_attributes(type_, position)
        if doc is not None or default is not None:
            self.cursor = attributes_cursor
            self.fail_at_token(f"the {role} of a list or map has neither comment nor default")
        return type_, required

    # Tokens -----------------------------------------------------------------------------------------------------------

    def _spelling(self) -> str:
        """The next token in lower case if it is a word, or several such as `primary key`; else an empty string."""
        token = self.token()
        if token is None or token.token_type in (TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER):
            return ""
        words = self.raw(token).lower().split()
        return " ".join(words) if all(re.fullmatch(r"\w+", word) for word in words) else ""

    def _fresh_id(self) -> int:
        self.next_id += 1
        return self.next_id


_BRACKETS = {"(": TokenType.L_PAREN, ")": TokenType.R_PAREN, "[": TokenType.L_BRACKET, "]": TokenType.R_BRACKET}

_NESTED: dict[str, Callable[[_Parser], Type]] = {
    "struct": _Parser._read_struct,
    "row": _Parser._read_struct,
    "array": _Parser._read_list,
    "list": _Parser._read_list,
    "map": _Parser._read_map,
}

_PRIMITIVE_TYPES: dict[str, Type] = {
    "boolean": BOOLEAN, "bool": BOOLEAN,
    "int": INT, "integer": INT, "tinyint": INT, "byte": INT, "smallint": INT, "short": INT,
    "long": LONG, "bigint": LONG,
    "float": FLOAT, "real": FLOAT, "double": DOUBLE, "double precision": DOUBLE,
    "string": STRING, "text": STRING, "binary": BINARY, "bytes": BINARY, "varbinary": BINARY, "bytea": BINARY,
    "date": DATE, "uuid": UUID, "unknown": UNKNOWN, "void": UNKNOWN, "variant": VARIANT,
    "timestamptz": TIMESTAMPTZ, "timestamp_ltz": TIMESTAMPTZ, "timestamp_ntz": TIMESTAMP,
    "timestamp_ns": TIMESTAMP_NS, "timestamptz_ns": TIMESTAMPTZ_NS,
}  # fmt: skip

_NAMES_IN_HINTS = (
    "boolean", "int", "long (bigint)", "float", "double", "decimal(P, S)", "date", "time", "timestamp", "timestamptz",
    "timestamp_ns", "timestamptz_ns", "string", "uuid", "fixed[L]", "binary", "struct<…>", "list<…> (array)",
    "map<…>", "variant", "geometry", "geography", "unknown",
)  # fmt: skip
_OTHER_NAMES = {"decimal", "numeric", "fixed", "char", "varchar", "timestamp", "time", "geometry", "geography"}
_ALL_NAMES = sorted({*_PRIMITIVE_TYPES, *_NESTED, *_OTHER_NAMES})
