"""`ALTER TABLE` as Iceberg extends it, from text to values; what is Spark's own grammar is left to Spark.

>>> parse("ALTER TABLE lake.db.t ADD PARTITION FIELD bucket(16, id) AS shard")
AlterTable(table=('lake', 'db', 't'), action=AddPartitionField(term='bucket(16, id)', name='shard'))
>>> parse("ALTER TABLE t WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY days(ts) DESC, id").action
WriteOrder(terms=('days(ts) DESC', 'id'), distribution='hash')
>>> parse("ALTER TABLE t ADD COLUMN a int") is None
True
>>> parse("ALTER TABLE t CREATE BRANCH audit RETAIN 7 WEEKS")
Traceback (most recent call last):
floe.errors.InvalidExpression: expected DAYS, HOURS or MINUTES, found `WEEKS`
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final, Literal, NoReturn, TypeVar

from sqlglot import TokenType

from floe.errors import InvalidExpression
from floe.spark.sql.actions import (
    AddPartitionField,
    Column,
    DropIdentifierFields,
    DropPartitionField,
    DropRef,
    MakeRef,
    ReplacePartitionField,
    SetIdentifierFields,
    TableAction,
    WriteOrder,
)
from floe.sql.tokens import SqlTokens

RefType = Literal["branch", "tag"]
Item = TypeVar("Item")

_ANOTHER: Final = re.compile(r"\s*(?!create\b|alter\b)\w", re.IGNORECASE)
"""How statements begin that need no closer look."""

_UNITS: Final = {"days": timedelta(days=1), "hours": timedelta(hours=1), "minutes": timedelta(minutes=1)}


@dataclass(frozen=True, slots=True)
class AlterTable:
    """A change of the table of that name."""

    table: tuple[str, ...]
    action: TableAction


@dataclass(frozen=True, slots=True)
class CreateTableLike:
    """`CREATE TABLE [IF NOT EXISTS] a LIKE b [USING iceberg] [TBLPROPERTIES (…)]`."""

    table: tuple[str, ...]
    source: tuple[str, ...]
    if_not_exists: bool
    properties: dict[str, str] = field(default_factory=dict, hash=False)


def parse(text: str) -> AlterTable | CreateTableLike | None:
    """The statement, or None if it is none of these; one that begins like these and goes wrong is an error."""
    if _ANOTHER.match(text):
        return None
    try:
        tokens = SqlTokens(text.strip().rstrip(";"))
    except InvalidExpression:
        return None  # whatever it is, Spark has the word
    return _Parser(tokens).statement()


class _Parser:
    def __init__(self, tokens: SqlTokens) -> None:
        self._tokens = tokens

    def statement(self) -> AlterTable | CreateTableLike | None:
        if self._takes("create", "table"):
            return self._create_table_like()
        if not (self._takes("alter", "table") and self._sees_name()):
            return None
        table = self._path()
        for words, parse_rest in _STATEMENTS.items():
            if self._takes(*words):
                action = parse_rest(self)
                if self._tokens.token() is not None:
                    self._fail(f"expected the end of the statement, found {self._tokens.shown()}")
                return AlterTable(table, action)
        return None

    def _create_table_like(self) -> CreateTableLike | None:
        """What is written in a way that only Spark knows is left to Spark."""
        if_not_exists = self._takes("if", "not", "exists")
        table = self._path() if self._sees_name() else ()
        if not table or not self._takes("like") or not self._sees_name():
            return None
        source = self._path()
        properties: dict[str, str] = {}
        while self._tokens.token() is not None:
            if self._takes("using", "iceberg"):
                continue
            if self._takes("location") and self._tokens.sees(TokenType.STRING):
                properties["location"] = self._tokens.read_string()
            elif self._takes("tblproperties") and (found := self._properties()) is not None:
                properties.update(found)
            else:
                return None
        return CreateTableLike(table, source, if_not_exists, properties)

    def _properties(self) -> dict[str, str] | None:
        """Texts with texts; None if it is anything else."""
        found: dict[str, str] = {}
        tokens = self._tokens
        if not tokens.take(TokenType.L_PAREN):
            return None
        while tokens.sees(TokenType.STRING):
            key = tokens.read_string()
            if not tokens.take(TokenType.EQ) or not tokens.sees(TokenType.STRING):
                return None
            found[key] = tokens.read_string()
            if tokens.take(TokenType.R_PAREN):
                return found
            if not tokens.take(TokenType.COMMA):
                return None
        return None

    # partitioning and order -----------------------------------------------------------------------------------------

    def add_partition_field(self) -> TableAction:
        return AddPartitionField(self._term(), self._alias())

    def drop_partition_field(self) -> TableAction:
        return DropPartitionField(self._term())

    def replace_partition_field(self) -> TableAction:
        field = self._term()
        self._needs("with")
        return ReplacePartitionField(field, self._term(), self._alias())

    def write(self) -> TableAction:
        """Distribution and order, in either order."""
        hashed = False
        order: WriteOrder | None = None
        while self._tokens.token() is not None:
            if not hashed and self._takes("distributed", "by", "partition"):
                hashed = True
            elif order is None and self._takes("unordered"):
                order = WriteOrder((), "none")
            elif order is None and self._takes("locally", "ordered", "by"):
                order = WriteOrder(self._order(), None)
            elif order is None and self._takes("ordered", "by"):
                order = WriteOrder(self._order(), "range")
            else:
                break
        if order is None and not hashed:
            self._fail(
                f"expected [LOCALLY] ORDERED BY, UNORDERED or DISTRIBUTED BY PARTITION, found {self._tokens.shown()}"
            )
        order = order or WriteOrder((), None)
        return replace(order, distribution="hash") if hashed else order

    def _order(self) -> tuple[str, ...]:
        if self._tokens.take(TokenType.L_PAREN):
            terms = self._separated(self._order_term)
            self._tokens.need(TokenType.R_PAREN, "`)`")
            return terms
        return self._separated(self._order_term)

    def _order_term(self) -> str:
        term = self._term()
        for direction in ("asc", "desc"):
            if self._takes(direction):
                term += f" {direction.upper()}"
                break
        for place in ("first", "last"):
            if self._takes("nulls", place):
                term += f" NULLS {place.upper()}"
                break
        return term

    def _term(self) -> str:
        """A column, or a transform of one, as it is written."""
        tokens = self._tokens
        start = tokens.position(tokens.token())
        self._path()
        if tokens.take(TokenType.L_PAREN):
            while not tokens.take(TokenType.R_PAREN):
                if tokens.token() is None or tokens.sees(TokenType.L_PAREN):
                    self._fail(f"expected `)`, found {tokens.shown()}")
                tokens.at += 1
        last = tokens.tokens[tokens.at - 1]
        return tokens.text[start : last.end]

    def _alias(self) -> str | None:
        return self._name() if self._takes("as") else None

    # identifier fields ------------------------------------------------------------------------------------------------

    def set_identifier_fields(self) -> TableAction:
        return SetIdentifierFields(self._separated(self._path))

    def drop_identifier_fields(self) -> TableAction:
        return DropIdentifierFields(self._separated(self._path))

    # branches and tags ------------------------------------------------------------------------------------------------

    def make_ref(self, type_: RefType, *, create: bool, replace_: bool) -> TableAction:
        if_not_exists = create and not replace_ and self._takes("if", "not", "exists")
        made = MakeRef(type_, self._name(), create=create, replace=replace_, if_not_exists=if_not_exists)
        if self._takes("as", "of", "version"):
            made = replace(made, snapshot_id=self._number())
        if self._takes("retain"):
            made = replace(made, max_ref_age=self._duration())
        if type_ == "branch" and self._takes("with", "snapshot", "retention"):
            count = self._number()
            if self._takes("snapshots"):
                made = replace(made, min_snapshots=count)
                if self._tokens.token() is None:
                    return made
                count = self._number()
            made = replace(made, max_snapshot_age=count * self._unit())
        return made

    def drop_ref(self, type_: RefType) -> TableAction:
        if_exists = self._takes("if", "exists")
        return DropRef(type_, self._name(), if_exists)

    def _duration(self) -> timedelta:
        return self._number() * self._unit()

    def _unit(self) -> timedelta:
        unit = _UNITS.get(self._tokens.word())
        if unit is None:
            self._fail(f"expected DAYS, HOURS or MINUTES, found {self._tokens.shown()}")
        self._tokens.at += 1
        return unit

    def _number(self) -> int:
        token = self._tokens.token()
        if token is None or token.token_type != TokenType.NUMBER or not token.text.isdigit():
            self._fail(f"expected a whole number, found {self._tokens.shown()}")
        self._tokens.at += 1
        return int(token.text)

    # names and words --------------------------------------------------------------------------------------------------

    def _sees_name(self) -> bool:
        return bool(self._tokens.word()) or self._tokens.sees(TokenType.IDENTIFIER)

    def _name(self) -> str:
        token = self._tokens.token()
        if token is None or not self._sees_name():
            self._fail(f"expected a name, found {self._tokens.shown()}")
        self._tokens.at += 1
        return token.text

    def _path(self) -> Column:
        parts = [self._name()]
        while self._tokens.take(TokenType.DOT):
            parts.append(self._name())
        return tuple(parts)

    def _separated(self, one: Callable[[], Item]) -> tuple[Item, ...]:
        found = [one()]
        while self._tokens.take(TokenType.COMMA):
            found.append(one())
        return tuple(found)

    def _takes(self, *words: str) -> bool:
        """Step over these words if they are next, all of them."""
        if any(self._tokens.word(ahead) != word for ahead, word in enumerate(words)):
            return False
        self._tokens.at += len(words)
        return True

    def _needs(self, word: str) -> None:
        if not self._takes(word):
            self._fail(f"expected {word.upper()}, found {self._tokens.shown()}")

    def _fail(self, message: str) -> NoReturn:
        self._tokens.fail_at_token(message)


def _making(type_: RefType, *, create: bool, replace_: bool) -> Callable[[_Parser], TableAction]:
    return lambda parser: parser.make_ref(type_, create=create, replace_=replace_)


def _dropping(type_: RefType) -> Callable[[_Parser], TableAction]:
    return lambda parser: parser.drop_ref(type_)


_REF_TYPES: Final[tuple[RefType, ...]] = ("branch", "tag")

_STATEMENTS: Final[dict[tuple[str, ...], Callable[[_Parser], TableAction]]] = {
    ("add", "partition", "field"): _Parser.add_partition_field,
    ("drop", "partition", "field"): _Parser.drop_partition_field,
    ("replace", "partition", "field"): _Parser.replace_partition_field,
    ("write",): _Parser.write,
    ("set", "identifier", "fields"): _Parser.set_identifier_fields,
    ("drop", "identifier", "fields"): _Parser.drop_identifier_fields,
    **{("create", type_): _making(type_, create=True, replace_=False) for type_ in _REF_TYPES},
    **{("create", "or", "replace", type_): _making(type_, create=True, replace_=True) for type_ in _REF_TYPES},
    **{("replace", type_): _making(type_, create=False, replace_=True) for type_ in _REF_TYPES},
    **{("drop", type_): _dropping(type_) for type_ in _REF_TYPES},
}
"""What follows the table's name, and who reads the rest."""
