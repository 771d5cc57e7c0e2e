"""Statements that Spark's own grammar does not have, parsed to dataclasses; `floe.spark.sql` runs them.

| statements | values |
|---|---|
| `ALTER TABLE` as Iceberg extends it: partition fields, write order, identifier fields, branches, tags | `AlterTable` |
| `CREATE TABLE … LIKE …` | `CreateTableLike` |
| `OPTIMIZE`, `VACUUM`, … of Delta Lake, which users of Iceberg try | `DeltaStatement` |

>>> parse_statement("ALTER TABLE lake.db.t ADD PARTITION FIELD bucket(16, id) AS shard")
AlterTable(table=('lake', 'db', 't'), action=AddPartitionField(term='bucket(16, id)', name='shard'))
>>> parse_statement("ALTER TABLE t WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY days(ts) DESC, id").action
WriteOrder(terms=('days(ts) DESC', 'id'), distribution='hash')
>>> parse_statement("ALTER TABLE t ADD COLUMN a int") is None
True
>>> parse_statement("ALTER TABLE t CREATE BRANCH audit RETAIN 7 WEEKS")
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
from floe.sql.tokens import SqlTokens

ColumnPath = tuple[str, ...]
RefType = Literal["branch", "tag"]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class AddPartitionField:
    """`ADD PARTITION FIELD bucket(16, id) AS shard`."""

    term: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class DropPartitionField:
    """`DROP PARTITION FIELD shard`, by the field's name or its term."""

    field: str


@dataclass(frozen=True, slots=True)
class ReplacePartitionField:
    """`REPLACE PARTITION FIELD ts_day WITH hour(ts) AS h`."""

    field: str
    term: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class WriteOrder:
    """`WRITE [DISTRIBUTED BY PARTITION] [LOCALLY] ORDERED BY …`, or `WRITE UNORDERED`."""

    terms: tuple[str, ...]
    distribution: Literal["none", "hash", "range"] | None
    """The distribution mode of writes; None leaves the table's property as it is."""


@dataclass(frozen=True, slots=True)
class SetIdentifierFields:
    """`SET IDENTIFIER FIELDS id, data.key`."""

    columns: tuple[ColumnPath, ...]


@dataclass(frozen=True, slots=True)
class DropIdentifierFields:
    """`DROP IDENTIFIER FIELDS id`; the other identifier fields stay."""

    columns: tuple[ColumnPath, ...]


@dataclass(frozen=True, slots=True)
class MakeRef:
    """`CREATE [OR REPLACE] BRANCH [IF NOT EXISTS] name AS OF VERSION 12 RETAIN 7 DAYS …`, the same for `TAG`."""

    type: RefType
    name: str
    create: bool
    replace: bool
    if_not_exists: bool = False
    snapshot_id: int | None = None
    max_ref_age: timedelta | None = None
    min_snapshots: int | None = None
    max_snapshot_age: timedelta | None = None


@dataclass(frozen=True, slots=True)
class DropRef:
    """`DROP BRANCH [IF EXISTS] name`, the same for `TAG`."""

    type: RefType
    name: str
    if_exists: bool = False


TableAction = (
    AddPartitionField
    | DropPartitionField
    | ReplacePartitionField
    | WriteOrder
    | SetIdentifierFields
    | DropIdentifierFields
    | MakeRef
    | DropRef
)
"""An action of the extended `ALTER TABLE`."""


@dataclass(frozen=True, slots=True)
class AlterTable:
    """`ALTER TABLE table …`."""

    table: tuple[str, ...]
    action: TableAction


@dataclass(frozen=True, slots=True)
class CreateTableLike:
    """`CREATE TABLE [IF NOT EXISTS] a LIKE b [USING iceberg] [TBLPROPERTIES (…)]`."""

    table: tuple[str, ...]
    source: tuple[str, ...]
    if_not_exists: bool
    properties: dict[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class DeltaStatement:
    """A statement of Delta Lake on a table: `words` are OPTIMIZE, VACUUM, DESCRIBE HISTORY or RESTORE TABLE."""

    words: str
    table: tuple[str, ...]


# ALTER TABLE and CREATE TABLE … LIKE ----------------------------------------------------------------------------------

_OTHER_STATEMENT: Final = re.compile(r"\s*(?!create\b|alter\b)\w", re.IGNORECASE)
"""The beginning of statements that need not be tokenized."""

_UNITS: Final = {"days": timedelta(days=1), "hours": timedelta(hours=1), "minutes": timedelta(minutes=1)}


def parse_statement(text: str) -> AlterTable | CreateTableLike | None:
    """Parse a statement; None if it is not one of these.

    Raises `InvalidExpression` if it begins as one of these and then does not follow the grammar.
    """
    if _OTHER_STATEMENT.match(text):
        return None
    try:
        tokens = SqlTokens(text.strip().rstrip(";"))
    except InvalidExpression:
        return None  # Spark reports the error
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
        for words, parse_rest in _ACTIONS.items():
            if self._takes(*words):
                action = parse_rest(self)
                if self._tokens.token() is not None:
                    self._fail(f"expected the end of the statement, found {self._tokens.describe_next()}")
                return AlterTable(table, action)
        return None

    def _create_table_like(self) -> CreateTableLike | None:
        """Parse the rest; None for clauses that only Spark's own statement has."""
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
            elif self._takes("tblproperties") and (listed := self._properties()) is not None:
                properties.update(listed)
            else:
                return None
        return CreateTableLike(table, source, if_not_exists, properties)

    def _properties(self) -> dict[str, str] | None:
        """Parse `('key' = 'value', …)`; None if it is anything else."""
        properties: dict[str, str] = {}
        tokens = self._tokens
        if not tokens.take(TokenType.L_PAREN):
            return None
        while tokens.sees(TokenType.STRING):
            key = tokens.read_string()
            if not tokens.take(TokenType.EQ) or not tokens.sees(TokenType.STRING):
                return None
            properties[key] = tokens.read_string()
            if tokens.take(TokenType.R_PAREN):
                return properties
            if not tokens.take(TokenType.COMMA):
                return None
        return None

    # Partition fields and write order ---------------------------------------------------------------------------------

    def add_partition_field(self) -> TableAction:
        return AddPartitionField(self._term(), self._alias())

    def drop_partition_field(self) -> TableAction:
        return DropPartitionField(self._term())

    def replace_partition_field(self) -> TableAction:
        field = self._term()
        self._needs("with")
        return ReplacePartitionField(field, self._term(), self._alias())

    def write(self) -> TableAction:
        """Parse the distribution and the sort order, in either order."""
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
            token = self._tokens.describe_next()
            self._fail(f"expected [LOCALLY] ORDERED BY, UNORDERED or DISTRIBUTED BY PARTITION, found {token}")
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
        for null_order in ("first", "last"):
            if self._takes("nulls", null_order):
                term += f" NULLS {null_order.upper()}"
                break
        return term

    def _term(self) -> str:
        """The text of a column or a transform of one."""
        tokens = self._tokens
        start = tokens.position(tokens.token())
        self._path()
        if tokens.take(TokenType.L_PAREN):
            while not tokens.take(TokenType.R_PAREN):
                if tokens.token() is None or tokens.sees(TokenType.L_PAREN):
                    self._fail(f"expected `)`, found {tokens.describe_next()}")
                tokens.cursor += 1
        last = tokens.tokens[tokens.cursor - 1]
        return tokens.text[start : last.end]

    def _alias(self) -> str | None:
        return self._name() if self._takes("as") else None

    # Identifier fields ------------------------------------------------------------------------------------------------

    def set_identifier_fields(self) -> TableAction:
        return SetIdentifierFields(self._separated(self._path))

    def drop_identifier_fields(self) -> TableAction:
        return DropIdentifierFields(self._separated(self._path))

    # Branches and tags ------------------------------------------------------------------------------------------------

    def make_ref(self, type_: RefType, *, create: bool, replace_: bool) -> TableAction:
        if_not_exists = create and not replace_ and self._takes("if", "not", "exists")
        ref = MakeRef(type_, self._name(), create=create, replace=replace_, if_not_exists=if_not_exists)
        if self._takes("as", "of", "version"):
            ref = replace(ref, snapshot_id=self._number())
        if self._takes("retain"):
            ref = replace(ref, max_ref_age=self._duration())
        if type_ == "branch" and self._takes("with", "snapshot", "retention"):
            count = self._number()
            if self._takes("snapshots"):
                ref = replace(ref, min_snapshots=count)
                if self._tokens.token() is None:
                    return ref
                count = self._number()
            ref = replace(ref, max_snapshot_age=count * self._unit())
        return ref

    def drop_ref(self, type_: RefType) -> TableAction:
        if_exists = self._takes("if", "exists")
        return DropRef(type_, self._name(), if_exists)

    def _duration(self) -> timedelta:
        return self._number() * self._unit()

    def _unit(self) -> timedelta:
        unit = _UNITS.get(self._tokens.word())
        if unit is None:
            self._fail(f"expected DAYS, HOURS or MINUTES, found {self._tokens.describe_next()}")
        self._tokens.cursor += 1
        return unit

    def _number(self) -> int:
        token = self._tokens.token()
        if token is None or token.token_type != TokenType.NUMBER or not token.text.isdigit():
            self._fail(f"expected a whole number, found {self._tokens.describe_next()}")
        self._tokens.cursor += 1
        return int(token.text)

    # Names and words --------------------------------------------------------------------------------------------------

    def _sees_name(self) -> bool:
        return bool(self._tokens.word()) or self._tokens.sees(TokenType.IDENTIFIER)

    def _name(self) -> str:
        token = self._tokens.token()
        if token is None or not self._sees_name():
            self._fail(f"expected a name, found {self._tokens.describe_next()}")
        self._tokens.cursor += 1
        return token.text

    def _path(self) -> ColumnPath:
        parts = [self._name()]
        while self._tokens.take(TokenType.DOT):
            parts.append(self._name())
        return tuple(parts)

    def _separated(self, read_item: Callable[[], Item]) -> tuple[Item, ...]:
        """Parse items with commas between them."""
        items = [read_item()]
        while self._tokens.take(TokenType.COMMA):
            items.append(read_item())
        return tuple(items)

    def _takes(self, *words: str) -> bool:
        """Consume some words if all of them are next; returns whether they are."""
        if any(self._tokens.word(ahead) != word for ahead, word in enumerate(words)):
            return False
        self._tokens.cursor += len(words)
        return True

    def _needs(self, word: str) -> None:
        if not self._takes(word):
            self._fail(f"expected {word.upper()}, found {self._tokens.describe_next()}")

    def _fail(self, message: str) -> NoReturn:
        self._tokens.fail_at_token(message)


def _make_ref_parser(type_: RefType, *, create: bool, replace_: bool) -> Callable[[_Parser], TableAction]:
    return lambda parser: parser.make_ref(type_, create=create, replace_=replace_)


def _drop_ref_parser(type_: RefType) -> Callable[[_Parser], TableAction]:
    return lambda parser: parser.drop_ref(type_)


_REF_TYPES: Final[tuple[RefType, ...]] = ("branch", "tag")

_ACTIONS: Final[dict[tuple[str, ...], Callable[[_Parser], TableAction]]] = {
    ("add", "partition", "field"): _Parser.add_partition_field,
    ("drop", "partition", "field"): _Parser.drop_partition_field,
    ("replace", "partition", "field"): _Parser.replace_partition_field,
    ("write",): _Parser.write,
    ("set", "identifier", "fields"): _Parser.set_identifier_fields,
    ("drop", "identifier", "fields"): _Parser.drop_identifier_fields,
    **{("create", type_): _make_ref_parser(type_, create=True, replace_=False) for type_ in _REF_TYPES},
    **{("create", "or", "replace", type_): _make_ref_parser(type_, create=True, replace_=True) for type_ in _REF_TYPES},
    **{("replace", type_): _make_ref_parser(type_, create=False, replace_=True) for type_ in _REF_TYPES},
    **{("drop", type_): _drop_ref_parser(type_) for type_ in _REF_TYPES},
}
"""The words behind the name of the table, and the parser of the rest."""


# Statements that are recognized, not parsed ---------------------------------------------------------------------------

_NAME: Final = r"(?:`[^`]+`|\w+)"
_TABLE: Final = rf"(?P<table>{_NAME}(?:\s*\.\s*{_NAME})*)"
_DELTA_WORDS: Final = {
    "OPTIMIZE": r"optimize",
    "VACUUM": r"vacuum",
    "DESCRIBE HISTORY": r"desc(?:ribe)?\s+history",
    "RESTORE TABLE": r"restore\s+(?:table\s+)?",
}
_DELTA_STATEMENTS: Final = {
    words: re.compile(rf"{pattern}\s*(?<!\w){_TABLE}", re.IGNORECASE) for words, pattern in _DELTA_WORDS.items()
}
_WRITE: Final = re.compile(
    rf"\b(?:insert\s+(?:into|overwrite)|merge\s+(?:with\s+schema\s+evolution\s+)?into|update)\s+(?:table\s+)?{_TABLE}",
    re.IGNORECASE,
)
_GAP: Final = r"(?:\s|/\*.*?\*/|--[^\n]*\n)+"
_EVOLVING_MERGE: Final = rf"merge{_GAP}with{_GAP}schema{_GAP}evolution\b"
_BEFORE_MERGE_TARGET: Final = re.compile(rf"\b(merge|{_EVOLVING_MERGE}){_GAP}into{_GAP}\Z", re.IGNORECASE | re.DOTALL)
_EVOLVING_MERGE_STATEMENT: Final = re.compile(_EVOLVING_MERGE, re.IGNORECASE | re.DOTALL)


def parse_delta_statement(text: str, start: int = 0) -> DeltaStatement | None:
    """The statement of Delta Lake that begins at `start`; None if it is another statement.

    >>> parse_delta_statement("VACUUM lake.db.`t 1` RETAIN 7 HOURS")
    DeltaStatement(words='VACUUM', table=('lake', 'db', 't 1'))
    >>> parse_delta_statement("SELECT 1") is None
    True
    """
    for words, pattern in _DELTA_STATEMENTS.items():
        if match := pattern.match(text, start):
            parts = re.findall(_NAME, match["table"])
            return DeltaStatement(words, tuple(part.strip("`") for part in parts))
    return None


def written_table(text: str) -> str:
    """The name of the table that INSERT, MERGE or UPDATE writes to, as it is spelled in the statement.

    >>> written_table("INSERT INTO lake.db.t SELECT 1"), written_table("MERGE INTO t USING s ON true")
    ('lake.db.t', 't')
    """
    match = _WRITE.search(text)
    return "the table" if match is None else match["table"]


def is_merge_target(text: str, position: int) -> bool:
    """Whether a position in a statement is that of the table name behind MERGE INTO, or of a MERGE that adds columns.

    >>> is_merge_target("MERGE /* new */ INTO t USING s", 21), is_merge_target("INSERT INTO t SELECT 1", 12)
    (True, False)
    """
    return bool(_BEFORE_MERGE_TARGET.search(text[:position]) or _EVOLVING_MERGE_STATEMENT.match(text, position))
