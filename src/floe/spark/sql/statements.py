"""The grammar of those statements, and what each means; everything else is Spark's own.

| statement | |
|---|---|
| `ALTER TABLE t ADD PARTITION FIELD term [AS name]` | `DROP PARTITION FIELD name-or-term` |
| `ALTER TABLE t REPLACE PARTITION FIELD name-or-term WITH term [AS name]` | |
| `ALTER TABLE t WRITE [LOCALLY] ORDERED BY term [ASC or DESC] [NULLS FIRST or LAST], …` | `WRITE UNORDERED` |
| `ALTER TABLE t WRITE DISTRIBUTED BY PARTITION [LOCALLY ORDERED BY …]` | |
| `ALTER TABLE t SET IDENTIFIER FIELDS a, b` | `DROP IDENTIFIER FIELDS a, b` |
| `ALTER TABLE t CREATE [OR REPLACE] BRANCH [IF NOT EXISTS] b [AS OF VERSION n] [RETAIN n DAYS]` | `REPLACE`, `DROP` |
| `… [WITH SNAPSHOT RETENTION n SNAPSHOTS [n DAYS]]` | the same for `TAG`, without that |

>>> parse_statement("ALTER TABLE lake.db.t ADD PARTITION FIELD bucket(16, id) AS shard")
(('lake', 'db', 't'), AddPartitionField(term='bucket(16, id) AS shard'))
>>> parse_statement("SELECT 1") is None
True
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from floe.errors import InvalidInput
from floe.spark.definitions import split_terms

__all__ = [
    "AddPartitionField",
    "ChangeIdentifierFields",
    "DropPartitionField",
    "DropRef",
    "MakeRef",
    "ReplacePartitionField",
    "Statement",
    "WriteOrder",
    "parse_statement",
]


@dataclass(frozen=True, slots=True)
class AddPartitionField:
    """Partition by a term too."""

    term: str


@dataclass(frozen=True, slots=True)
class DropPartitionField:
    """Stop partitioning by a field."""

    name_or_term: str


@dataclass(frozen=True, slots=True)
class ReplacePartitionField:
    """Partition by another term in a field's place."""

    name_or_term: str
    term: str


@dataclass(frozen=True, slots=True)
class WriteOrder:
    """How rows are sorted and brought together when they are written."""

    terms: tuple[str, ...]
    mode: str | None
    """The distribution mode; None leaves it as it is."""


@dataclass(frozen=True, slots=True)
class ChangeIdentifierFields:
    """Which columns identify a row."""

    names: tuple[str, ...]
    drop: bool = False


@dataclass(frozen=True, slots=True)
class MakeRef:
    """Make a branch or tag, or point it elsewhere."""

    kind: str
    name: str
    create: bool
    replace: bool
    if_not_exists: bool = False
    snapshot: int | None = None
    retain: timedelta | None = None
    min_snapshots: int | None = None
    max_snapshot_age: timedelta | None = None


@dataclass(frozen=True, slots=True)
class DropRef:
    """Remove a branch or tag."""

    kind: str
    name: str
    if_exists: bool = False


Statement = (
    AddPartitionField
    | DropPartitionField
    | ReplacePartitionField
    | WriteOrder
    | ChangeIdentifierFields
    | MakeRef
    | DropRef
)

_COMMENTS: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_PART: Final = r"(?:`(?:[^`]|``)+`|[\w-]+)"
_ALTER: Final = re.compile(rf"\s*ALTER\s+TABLE\s+({_PART}(?:\s*\.\s*{_PART})*)\s+(.*?)\s*;?\s*", re.I | re.S)
_NAME_PART: Final = re.compile(_PART)
_TOKEN: Final = re.compile(r"`((?:[^`]|``)+)`|'([^']*)'|([\w-]+)|(\S)")
_UNITS: Final = {
    "DAY": "days",
    "DAYS": "days",
    "HOUR": "hours",
    "HOURS": "hours",
    "MINUTE": "minutes",
    "MINUTES": "minutes",
}


def parse_statement(text: str) -> tuple[tuple[str, ...], Statement] | None:
    """The table that a statement is about, and the statement; None if it is none of these."""
    match = _ALTER.fullmatch(_COMMENTS.sub(" ", text))
    if match is None:
        return None
    rest = match[2]
    for pattern, make in _FORMS:
        if (form := pattern.fullmatch(rest)) is not None:
            return tuple(_unquoted(part) for part in _NAME_PART.findall(match[1])), make(form)
    return None


def _unquoted(part: str) -> str:
    return part[1:-1].replace("``", "`") if part.startswith("`") else part


# forms ------------------------------------------------------------------------------------------------------------


def _ordered(mode: str | None) -> Callable[[re.Match[str]], Statement]:
    return lambda form: WriteOrder(tuple(split_terms(form[1])), mode)


def _distributed(form: re.Match[str]) -> Statement:
    return WriteOrder(tuple(split_terms(form[1] or "")), "hash")


def _identifiers(drop: bool) -> Callable[[re.Match[str]], Statement]:
    return lambda form: ChangeIdentifierFields(tuple(split_terms(form[1])), drop)


def _ref(form: re.Match[str]) -> Statement:
    """A statement about a branch or tag, word by word."""
    words = _Words(form[0])
    if words.take("DROP"):
        kind = words.kind()
        if_exists = words.take("IF", "EXISTS")
        dropped = DropRef(kind, words.name(), if_exists)
        words.end()
        return dropped
    create, replace = words.take("CREATE"), False
    replace = words.take("OR", "REPLACE") if create else words.take("REPLACE")
    kind = words.kind()
    if_not_exists = words.take("IF", "NOT", "EXISTS")
    if if_not_exists and replace:
        raise InvalidInput("a branch or tag is made if it is not there, or replaced, not both")
    name = words.name()
    snapshot = words.number() if words.take("AS", "OF", "VERSION") else None
    retain = words.duration() if words.take("RETAIN") else None
    fewest, age = None, None
    if kind == "branch" and words.take("WITH", "SNAPSHOT", "RETENTION"):
        count = words.number()
        if words.take("SNAPSHOTS") or words.take("SNAPSHOT"):
            fewest = count
            age = words.duration() if words.more() else None
        else:
            age = words.span(count)
    words.end()
    return MakeRef(kind, name, create, replace, if_not_exists, snapshot, retain, fewest, age)


def _form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace(" ", r"\s+"), re.I | re.S)


_FORMS: Final[list[tuple[re.Pattern[str], Callable[[re.Match[str]], Statement]]]] = [
    (_form(r"ADD PARTITION FIELD (.+)"), lambda form: AddPartitionField(form[1])),
    (_form(r"DROP PARTITION FIELD (.+)"), lambda form: DropPartitionField(form[1])),
    (_form(r"REPLACE PARTITION FIELD (.+?) WITH (.+)"), lambda form: ReplacePartitionField(form[1], form[2])),
    (_form(r"WRITE ORDERED BY (.+)"), _ordered("range")),
    (_form(r"WRITE LOCALLY ORDERED BY (.+)"), _ordered(None)),
    (_form(r"WRITE UNORDERED"), lambda form: WriteOrder((), "none")),
    (_form(r"WRITE DISTRIBUTED BY PARTITION(?: LOCALLY ORDERED BY (.+))?"), _distributed),
    (_form(r"SET IDENTIFIER FIELDS (.+)"), _identifiers(drop=False)),
    (_form(r"DROP IDENTIFIER FIELDS (.+)"), _identifiers(drop=True)),
    (_form(r"(?:CREATE|REPLACE|CREATE OR REPLACE|DROP) (?:BRANCH|TAG)\b.*"), _ref),
]


class _Words:
    """The words of a statement, read one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = [(next(part for part in found if part), bool(found[0] or found[1])) for found in _tokens(text)]
        self._place = 0

    def more(self) -> bool:
        """Whether there is a word left."""
        return self._place < len(self._words)

    def take(self, *words: str) -> bool:
        """Whether these come next; then they are passed."""
        found = self._words[self._place : self._place + len(words)]
        if [word.upper() for word, quoted in found if not quoted] != list(words):
            return False
        self._place += len(words)
        return True

    def name(self) -> str:
        """The name that comes next."""
        if not self.more():
            raise InvalidInput(f"the name is missing: {self._text}")
        self._place += 1
        return self._words[self._place - 1][0]

    def kind(self) -> str:
        """`branch` or `tag`."""
        return self.name().lower()

    def number(self) -> int:
        """The number that comes next."""
        word = self.name()
        if not word.isdigit():
            raise InvalidInput(f"expected a number, found {word!r}: {self._text}")
        return int(word)

    def duration(self) -> timedelta:
        """The number and unit that come next."""
        return self.span(self.number())

    def span(self, count: int) -> timedelta:
        """That many of the unit that comes next."""
        unit = _UNITS.get(self.name().upper())
        if unit is None:
            raise InvalidInput(f"a time is a number of DAYS, HOURS or MINUTES: {self._text}")
        return timedelta(**{unit: count})

    def end(self) -> None:
        """Nothing comes any more."""
        if self.more():
            raise InvalidInput(f"this cannot be understood: {self._words[self._place][0]!r}, in {self._text}")


def _tokens(text: str) -> Iterator[tuple[str, ...]]:
    for match in _TOKEN.finditer(text):
        yield tuple(part or "" for part in match.groups())
