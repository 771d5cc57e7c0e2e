"""Partition and sort terms as users write them: `day(ts)`, `bucket(16, id) as shard`, `ts desc nulls last`.

A term is a column or a transform of a column. Transforms can be written as in Iceberg (`day`, `bucket[16](id)`) or as
in Spark (`days`, `date`, `date_hour`); a number and a column can come in either order. A column is a dotted name; parts
with spaces, dots or brackets are quoted with backticks or double quotes. `build_spec` makes a spec from terms.

>>> parse_partition_term("bucket(16, id) as shard")
PartitionTerm(column='id', transform=Bucket(n=16), name='shard')
>>> parse_sort_term("`odd name`.x desc nulls first")
SortTerm(column=('odd name', 'x'), transform=Identity(), descending=True, nulls_first=True)

>>> from floe.spec.schemas.schema import Schema
>>> from floe.spec.types import Field, LONG, TIMESTAMP
>>> schema = Schema((Field(1, "id", LONG), Field(2, "ts", TIMESTAMP)))
>>> print(build_spec(schema, ["day(ts)", "bucket(16, id)"]))
[1000: ts_day: day(2), 1001: id_bucket: bucket[16](1)]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn

from floe.errors import InvalidInput, InvalidPartitionSpec, InvalidSortOrder
from floe.spec.partitioning.partition_spec import (
    PARTITION_FIELD_ID_START,
    PartitionField,
    PartitionSpec,
    check_names,
    check_source,
)
from floe.spec.partitioning.transforms import (
    DAY,
    HOUR,
    IDENTITY,
    MONTH,
    VOID,
    YEAR,
    Bucket,
    Identity,
    Transform,
    Truncate,
    Void,
)
from floe.spec.schemas.schema import Schema
from floe.spec.types import UNKNOWN

Column = str | tuple[str, ...]
"""A dotted name, or a path if a part of it was quoted."""

_TRANSFORMS: dict[str, Transform] = {
    "identity": IDENTITY,
    "year": YEAR, "years": YEAR,
    "month": MONTH, "months": MONTH,
    "day": DAY, "days": DAY, "date": DAY,
    "hour": HOUR, "hours": HOUR, "date_hour": HOUR,
    "void": VOID,
}  # fmt: skip
_PARAMETER_TRANSFORMS: dict[str, Callable[[int], Transform]] = {"bucket": Bucket, "truncate": Truncate}

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>`(?:[^`]|``)+`|"(?:[^"]|"")+")|(?P<word>[^\s.,()\[\]`"]+)|(?P<mark>[.,()\[\]]))"""
)


@dataclass(frozen=True, slots=True)
class PartitionTerm:
    """A transform of a column, and the name of the partition field if it was specified."""

    column: Column
    transform: Transform
    name: str | None = None


@dataclass(frozen=True, slots=True)
class SortTerm:
    """A transform of a column with a direction; `nulls_first` is None if it was not specified."""

    column: Column
    transform: Transform
    descending: bool = False
    nulls_first: bool | None = None


def parse_partition_term(text: str) -> PartitionTerm:
    """Parse a partition term.

    >>> parse_partition_term("days(ts)").transform, parse_partition_term("country").transform
    (Day(), Identity())
    >>> parse_partition_term("week(ts)")
    Traceback (most recent call last):
    floe.errors.InvalidPartitionSpec: unknown transform 'week' in 'week(ts)'; use one of bucket, date, ...
    """
    parser = _TermParser(text, InvalidPartitionSpec)
    column, transform = parser.term()
    name = parser.name() if parser.take("as") else None
    parser.end()
    return PartitionTerm(column, transform, name)


def parse_sort_term(text: str) -> SortTerm:
    """Parse a sort term.

    >>> parse_sort_term("truncate(name, 4)")
    SortTerm(column='name', transform=Truncate(width=4), descending=False, nulls_first=None)
    """
    parser = _TermParser(text, InvalidSortOrder)
    column, transform = parser.term()
    descending = parser.take("desc")
    if not descending:
        parser.take("asc")
    nulls_first = None
    if parser.take("nulls"):
        nulls_first = parser.take("first")
        if not nulls_first and not parser.take("last"):
            parser.fail("`nulls` must be followed by `first` or `last`")
    parser.end()
    return SortTerm(column, transform, descending, nulls_first)


class _TermParser:
    """A recursive-descent parser of one term. A token is its text and whether it was quoted."""

    def __init__(self, text: str, error: type[InvalidInput]) -> None:
        self.text = text
        self.error = error
        self.tokens: list[tuple[str, bool]] = []
        self.position = 0
        offset, end = 0, len(text.rstrip())
        while offset < end:
            match = _TOKEN.match(text, offset, end)
            if match is None:
                self.fail("a quote is not closed")
            if quoted := match["quoted"]:
                self.tokens.append((quoted[1:-1].replace(quoted[0] * 2, quoted[0]), True))
            else:
                self.tokens.append((match["word"] or match["mark"], False))
            offset = match.end()

    def term(self) -> tuple[Column, Transform]:
        """Parse a column, `transform(arguments)` or `transform[number](column)`."""
        name, quoted = self.peek()
        if quoted or self.peek(1) not in (("(", False), ("[", False)):
            return self.column(), IDENTITY
        self.position += 1
        numbers = []
        if self.take("["):
            numbers.append(self.number())
            self.expect("]")
        self.expect("(")
        columns = []
        while True:
            token, is_quoted = self.peek()
            if not is_quoted and token.isdecimal():
                numbers.append(self.number())
            else:
                columns.append(self.column())
            if not self.take(","):
                break
        self.expect(")")
        if len(columns) != 1:
            self.fail(f"{name!r} takes one column, found {len(columns)}")
        return columns[0], self.transform(name, numbers)

    def transform(self, name: str, numbers: list[int]) -> Transform:
        """Return the transform with a name and its numeric arguments."""
        kind = name.lower()
        if kind in _PARAMETER_TRANSFORMS:
            if len(numbers) != 1:
                self.fail(f"{name!r} takes one number, found {len(numbers)}", f"write it as {kind}(16, column)")
            try:
                return _PARAMETER_TRANSFORMS[kind](numbers[0])
            except InvalidInput as error:
                self.fail(error.message)
        if kind not in _TRANSFORMS:
            self.fail(
                f"unknown transform {name!r}", "use one of " + ", ".join(sorted([*_TRANSFORMS, *_PARAMETER_TRANSFORMS]))
            )
        if numbers:
            self.fail(f"{name!r} takes no number, found {numbers[0]}")
        return _TRANSFORMS[kind]

    def column(self) -> Column:
        """Parse a column: a dotted name, or a path if a part is quoted."""
        parts, any_quoted = [], False
        while True:
            token, quoted = self.peek()
            if not quoted and (not token or token in ".,()[]"):
                self.fail(f"expected a column, found {token!r}" if token else "expected a column, found the end")
            parts.append(token)
            any_quoted |= quoted
            self.position += 1
            if not self.take("."):
                return tuple(parts) if any_quoted else ".".join(parts)

    def name(self) -> str:
        """Parse the name of a partition field, including dots."""
        column = self.column()
        return column if isinstance(column, str) else ".".join(column)

    def number(self) -> int:
        """Parse an integer."""
        token, _ = self.peek()
        if not token.isdecimal() or len(token) > 10:
            self.fail(f"expected a number, found {token[:80]!r}")
        self.position += 1
        return int(token)

    def peek(self, ahead: int = 0) -> tuple[str, bool]:
        """Return the next token, or an empty one at the end."""
        index = self.position + ahead
        return self.tokens[index] if index < len(self.tokens) else ("", False)

    def take(self, word: str) -> bool:
        """Skip the next token if it is this word or punctuation; returns whether it was."""
        token, quoted = self.peek()
        if quoted or token.lower() != word:
            return False
        self.position += 1
        return True

    def expect(self, mark: str) -> None:
        """Skip the next token, which must be this punctuation."""
        if not self.take(mark):
            self.fail(f"expected {mark!r}, found {self.peek()[0]!r}" if self.peek()[0] else f"expected {mark!r}")

    def end(self) -> None:
        """Raise unless all tokens were parsed."""
        token, _ = self.peek()
        if self.position < len(self.tokens):
            self.fail(f"unexpected {token[:80]!r}", "put names with spaces or marks in backticks")

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """Raise an error that quotes the term."""
        raise self.error(f"{message} in {self.text[:200]!r}", hint=hint)


# Partition specs from terms --------------------------------------------------------------------------------------


def build_spec(schema: Schema, terms: Iterable[str], *, spec_id: int = 0, case_sensitive: bool = True) -> PartitionSpec:
    """Make the partition spec of a new table from terms, such as `["day(ts)", "bucket(16, id) as shard"]`.

    Field ids start at 1000. Without `as`, a field is named after its column and transform: `ts_day`, `id_bucket`,
    `name_trunc`; or after the column for identity.

    >>> from floe.spec.types import Field, LONG, TIMESTAMP
    >>> schema = Schema((Field(1, "id", LONG), Field(2, "ts", TIMESTAMP)))
    >>> [f.name for f in build_spec(schema, ["hours(ts)", "truncate(id, 10)", "bucket(4, id) as shard"]).fields]
    ['ts_hour', 'id_trunc', 'shard']
    """
    fields: list[PartitionField] = []
    for text in terms:
        term = parse_partition_term(text)
        source = schema.resolve(term.column, case_sensitive=case_sensitive)
        new = PartitionField(
            (source.field.id,),
            PARTITION_FIELD_ID_START + len(fields),
            term.name or default_name(source.name, term.transform),
            term.transform,
        )
        check_new_field(new, schema)
        for other in fields:
            if other.redundancy_key == new.redundancy_key:
                raise InvalidPartitionSpec(
                    f"partition field {new.name!r} is redundant: {other.name!r} splits column {source.name!r} too",
                    hint="keep the finer one",
                    column=source.name,
                )
        fields.append(new)
    spec = PartitionSpec(tuple(fields), spec_id)
    check_names(spec)
    return spec


def default_name(column: str, transform: Transform) -> str:
    """The default name of a partition field of a new table."""
    if isinstance(transform, Identity):
        return column
    suffix = {Bucket: "bucket", Truncate: "trunc", Void: "null"}.get(type(transform), str(transform))
    return f"{column}_{suffix}"


def check_new_field(new: PartitionField, schema: Schema) -> None:
    """Raise unless a field can be added to a table: its source and name are valid, and its transform is known.

    Existing fields are checked by `check_spec`, which is as lenient as other implementations.
    """
    if not new.transform.is_known:
        new.transform.bind(UNKNOWN)  # raises UnsupportedFeature
    check_source(new, schema)
    clash = schema.field(new.name) if schema.has(new.name) else None
    if clash is None or (clash.id == new.source_id and isinstance(new.transform, Identity | Void)):
        return
    raise InvalidPartitionSpec(
        f"partition field {new.name!r} would have the name of a column that it does not copy",
        hint="give the field another name",
        column=new.name,
    )
