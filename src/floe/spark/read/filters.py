"""Spark's predicates as Iceberg filters, for pruning: a filter may let more rows pass than the predicate, never fewer.

Whether a filter is exact is known as well. These functions of columns are translated:

| | |
|---|---|
| functions of the catalog | `bucket`, `truncate`, `years`, `months`, `days`, `hours` |
| dates and timestamps | `CAST(… AS DATE)` and back, `year`, `trunc` (also of casts), `date_add`, `datediff` |
| strings | `left`, `substring` from the first character on |
| integers | `+`, `-`, `*` with a constant, `-c`, `abs` |
| all types | `coalesce` with a constant, casts to types that have the same value |

Columns of `time` and of nanosecond timestamps are strings of one width in Spark, so that Spark orders them as their
values are ordered. A literal in another spelling would be compared character by character and lose rows, so it is an
error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from floe.errors import FloeError, InvalidExpression, InvalidValue
from floe.formats.arrow_types import arrow_type
from floe.spark.bridge.values import Call, Cast, Column, Conditions, Node, Value
from floe.spark.read.filter_terms import (
    NEITHER,
    UNKNOWN,
    Bound,
    OrElse,
    Prefix,
    Reach,
    Side,
    Stepped,
    Term,
    Translated,
    all_of,
    any_of,
    column_reach,
    constant,
    opposite,
    unscaled,
)
from floe.spark.schemas import ONLY_READ, SHOWN_AS_TEXT, spark_type
from floe.spec.expressions.nodes import BoundPredicate, BoundReference, BoundTransform, Expression, Op, and_, or_
from floe.spec.partitioning.transforms import Bucket
from floe.spec.schemas.metadata_columns import FILE
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, Type
from floe.spec.values.civil_time import MICROS, SECONDS_PER_DAY, civil_from_days, days_from_civil
from floe.spec.values.conversion import convert

_HOUR: Final = 3600 * MICROS
_DAY: Final = SECONDS_PER_DAY * MICROS
_FARTHEST_ZONE: Final = 18 * _HOUR
"""No clock of a time zone is farther from UTC (`java.time.ZoneOffset`)."""

_UTC: Final = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "+00:00"})
_TIMES: Final = ("timestamp", "timestamp_ntz")
_WHOLE: Final = ("integer", "long")
_HASHED: Final = frozenset({"int", "long", "decimal", "date", "timestamp", "timestamptz", "string", "binary"})
"""The types whose buckets are the same to Spark's types: a UUID is a text there."""

_OF_CATALOG: Final = re.compile(r"iceberg\.(\w+)\(")
_DECIMAL: Final = re.compile(r"decimal\(\d+,\s*(\d+)\)")
_MONTHS_OF: Final = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), 12),
    "QUARTER": 3,
    **dict.fromkeys(("MONTH", "MM", "MON"), 1),
}
_MONDAY: Final = 4
"""The first Monday of 1970, as a day."""


class Terms:
    """Finds the terms of conditions on a schema."""

    def __init__(self, schema: Schema, *, case_sensitive: bool, time_zone: str) -> None:
        self._schema, self._case_sensitive = schema, case_sensitive
        self._is_utc = time_zone in _UTC

    def of(self, node: Node) -> Term | None:
        """The term that a part of a condition is; None if it is not known."""
        match node:
            case Column(path):
                return self._column(path)
            case Cast(type_, inner):
                found = self.of(inner)
                return None if found is None else self._cast(found, type_)
            case Call(name, arguments):
                if of_catalog := _OF_CATALOG.match(name):
                    return self._of_catalog(of_catalog[1], arguments)
                return self._call(name, arguments)
            case _:
                return None

    def _column(self, path: tuple[str, ...]) -> Term | None:
        if not self._schema.has(path, case_sensitive=self._case_sensitive):
            return None
        entry = self._schema.resolve(path, case_sensitive=self._case_sensitive)
        type_ = entry.field.type
        if entry.in_collection or type_.kind in ONLY_READ:  # such columns are shown in another type
            return None
        return Bound(BoundReference(entry), str(spark_type(type_)) if type_.is_primitive else type_.kind)

    # casts -------------------------------------------------------------------------------------------------------

    def _cast(self, term: Term, type_: str) -> Term | None:
        if isinstance(term, Bound) and isinstance(term.bound, BoundReference) and _keeps_value(term.type, type_):
            return Bound(term.bound, type_)
        reach = _reach(term)
        if reach is None:
            return None
        match term.type, type_:
            case "integer", "long":
                return Stepped(term.ref, type_, reach)
            case "timestamp_ntz", "date":
                return Stepped(term.ref, type_, lambda days: reach(days * _DAY))
            case "timestamp", "date":
                local = self._in_zone(reach)
                return Stepped(term.ref, type_, lambda days: local(days * _DAY))
            case "date", "timestamp_ntz":
                return Stepped(term.ref, type_, lambda micros: reach(_up(micros, _DAY)))
            case "date", "timestamp":
                return Stepped(term.ref, type_, self._in_zone(lambda micros: reach(_up(micros, _DAY))))
            case ("timestamp", "timestamp_ntz") | ("timestamp_ntz", "timestamp"):
                return Stepped(term.ref, type_, self._in_zone(reach))
            case _:
                return None

    def _in_zone(self, reach: Reach) -> Reach:
        """The same by the clock of the session's time zone, which differs from UTC by some hours at most."""
        if self._is_utc:
            return reach
        return lambda micros: Translated(
            reach(micros - _FARTHEST_ZONE).roughly().passing, reach(micros + _FARTHEST_ZONE).roughly().failing
        )

    # functions of Spark's ------------------------------------------------------------------------------------------

    def _call(self, name: str, arguments: tuple[Node, ...]) -> Term | None:
        match name, arguments:
            case "EXTRACT YEAR", (inner,):
                return self._stepped(inner, ("date",), lambda year: days_from_civil(year, 1, 1), "integer")
            case "TRUNC", (inner, Value(value=str(unit))):
                first = _first_of_unit(unit.upper())
                return None if first is None else self._stepped(inner, ("date",), first, "date")
            case "SUBSTRING", (inner, Value(value=0 | 1), Value(value=int(width))):
                return self._prefix(inner, width)
            case "COALESCE", (inner, Value(value=value)) if value is not None:
                term = self.of(inner)
                return None if term is None else OrElse(term, value)
            case "DATE_ADD", (inner, Value(value=int(days))):
                return self._stepped(inner, ("date",), lambda day: day - days, "date")
            case "DATE_DIFF", (inner, Value(value=int(since))):
                return self._stepped(inner, ("date",), lambda days: days + since, "integer")
            case "DATE_DIFF", (Value(value=int(until)), inner):
                return self._falling(inner, ("date",), lambda days: until - days, "integer")
            case _:
                return self._arithmetic(name, arguments)

    def _arithmetic(self, name: str, arguments: tuple[Node, ...]) -> Term | None:
        """Spark gives only what fails where a number is too large, which it may do for rows that are not read."""
        match name, arguments:
            case "+", (inner, Value(value=int(by))) | (Value(value=int(by)), inner):
                found = self._stepped(inner, _WHOLE, lambda value: value - by)
            case "-", (inner, Value(value=int(by))):
                found = self._stepped(inner, _WHOLE, lambda value: value + by)
            case "-", (Value(value=int(start)), inner):
                found = self._falling(inner, _WHOLE, lambda value: start - value)
            case "-", (inner,):
                found = self._falling(inner, _WHOLE, lambda value: -value)
            case "*", (inner, Value(value=int(by))) | (Value(value=int(by)), inner) if by > 0:
                found = self._stepped(inner, _WHOLE, lambda value: _up(value, by))
            case "*", (inner, Value(value=int(by))) | (Value(value=int(by)), inner) if by < 0:
                found = self._falling(inner, _WHOLE, lambda value: value // by)
            case "ABS", (inner,):
                found = self._absolute(inner)
            case _:
                return None
        if found is None:
            return None
        reach = found.reach
        return Stepped(found.ref, found.type, lambda value: reach(value).roughly())

    def _stepped(
        self, inner: Node, types: tuple[str, ...], first: Callable[[int], int], type_: str | None = None
    ) -> Stepped | None:
        """A function that goes up: at least `v` where the term inside is at least `first(v)`."""
        term = self.of(inner)
        reach = None if term is None or term.type not in types else _reach(term)
        if term is None or reach is None:
            return None
        return Stepped(term.ref, type_ or term.type, lambda value: reach(first(value)))

    def _falling(
        self, inner: Node, types: tuple[str, ...], last: Callable[[int], int], type_: str | None = None
    ) -> Stepped | None:
        """A function that goes down: at least `v` where the term inside is at most `last(v)`."""
        found = self._stepped(inner, types, lambda value: last(value) + 1, type_)
        if found is None:
            return None
        above = found.reach
        return Stepped(found.ref, found.type, lambda value: opposite(above(value)))

    def _absolute(self, inner: Node) -> Stepped | None:
        found = self._stepped(inner, _WHOLE, lambda value: value)
        if found is None:
            return None
        reach = found.reach
        return Stepped(found.ref, found.type, lambda value: any_of([reach(value), opposite(reach(1 - value))]))

    def _prefix(self, inner: Node, width: int) -> Term | None:
        term = self.of(inner)
        if not isinstance(term, Bound) or term.bound.type.kind not in ("string", "binary") or width < 1:
            return None
        return Prefix(term.ref, width, term.type) if isinstance(term.bound, BoundReference) else None

    # functions of the catalog --------------------------------------------------------------------------------------

    def _of_catalog(self, name: str, arguments: tuple[Node, ...]) -> Term | None:
        """A partition transform: times are those of UTC, whatever the session's time zone is."""
        match name, arguments:
            case "bucket", (Value(value=int(count)), inner):
                return self._bucket(inner, count)
            case "truncate", (Value(value=int(width)), inner):
                return self._truncated(inner, width)
            case "years", (inner,):
                return self._of_time(inner, lambda years: days_from_civil(1970 + years, 1, 1), "integer")
            case "months", (inner,):
                return self._of_time(inner, _first_of_month, "integer")
            case "days", (inner,):
                return self._of_time(inner, lambda days: days, "date")
            case "hours", (inner,):
                return self._stepped(inner, _TIMES, lambda hours: hours * _HOUR, "integer")
            case _:
                return None

    def _of_time(self, inner: Node, first: Callable[[int], int], type_: str) -> Term | None:
        of_date = self._stepped(inner, ("date",), first, type_)
        return of_date or self._stepped(inner, _TIMES, lambda value: first(value) * _DAY, type_)

    def _bucket(self, inner: Node, count: int) -> Term | None:
        term = self.of(inner)
        if not isinstance(term, Bound) or not isinstance(term.bound, BoundReference):
            return None
        transform = Bucket(count)
        if term.ref.type.kind not in _HASHED or term.type not in (str(spark_type(term.ref.type)), "long"):
            return None
        return Bound(BoundTransform(transform, term.ref, transform.result_type(term.ref.type)), "integer")

    def _truncated(self, inner: Node, width: int) -> Term | None:
        term = self.of(inner)
        if term is None or width < 1:
            return None
        if term.type in _WHOLE:
            return self._stepped(inner, _WHOLE, lambda value: _up(value, width) * width)
        type_, reach = term.ref.type, column_reach(term.ref)
        if isinstance(type_, DecimalType) and reach is not None and term.type == spark_type(type_):
            return Stepped(term.ref, term.type, lambda value: reach(_up(value, width) * width), unscaled(type_))
        return self._prefix(inner, width)


def _reach(term: Term) -> Reach | None:
    """Where a term of whole numbers is at least so much."""
    if isinstance(term, Stepped):
        return term.reach
    is_column = isinstance(term, Bound) and isinstance(term.bound, BoundReference)
    return column_reach(term.ref) if is_column and term.type in (*_WHOLE, "date", *_TIMES) else None


def _keeps_value(found: str, wanted: str) -> bool:
    """Whether a cast gives the same number, or fails."""
    scale, finer = _DECIMAL.fullmatch(found), _DECIMAL.fullmatch(wanted)
    if finer:
        return found in _WHOLE or (scale is not None and int(scale[1]) <= int(finer[1]))
    return (found, wanted) in {("integer", "long"), ("integer", "double"), ("float", "double")}


def _up(value: int, step: int) -> int:
    """How many steps it takes to reach a value."""
    return -(-value // step)


def _first_of_month(months: int) -> int:
    """The first day of a month, counted from January 1970 on."""
    return days_from_civil(1970 + months // 12, months % 12 + 1, 1)


def _first_of_unit(unit: str) -> Callable[[int], int] | None:
    """The first day on or after a day that begins a unit of `trunc`; None if Spark does not know the unit."""
    if unit == "WEEK":
        return lambda day: _MONDAY + 7 * _up(day - _MONDAY, 7)
    step = _MONTHS_OF.get(unit)
    if step is None:
        return None

    def first(day: int) -> int:
        year, month, of_month = civil_from_days(day)
        months = (year - 1970) * 12 + month - 1 + (of_month > 1)
        return _first_of_month(_up(months, step) * step)

    return first


# Spark's predicates as filters: for leaving out files, so a filter may let more rows pass than the predicate does.

_COMPARISONS: Final = {
    "=": Op.EQ,
    "<>": Op.NOT_EQ,
    "<": Op.LT,
    "<=": Op.LT_EQ,
    ">": Op.GT,
    ">=": Op.GT_EQ,
    "STARTS_WITH": Op.STARTS_WITH,
}
_COMPARES_TEXTS: Final = frozenset({"=", "<>", "<", "<=", ">", ">=", "<=>", "IN"})


def translate(conditions: Conditions, schema: Schema) -> list[Translated]:
    """What the predicates mean, each by itself, bound to a schema.

    >>> from floe.spark.bridge.values import Cast, Column
    >>> from floe.spec.types import TIMESTAMP, Field
    >>> year = Call("EXTRACT YEAR", (Cast("date", Column(("at",))),))
    >>> (found,) = translate(
    ...     Conditions((Call("=", (year, Value("integer", 2024))),)), Schema((Field(1, "at", TIMESTAMP),))
    ... )
    >>> print(found.filter, found.exact)
    at >= TIMESTAMP_NTZ '2024-01-01 00:00:00' AND at < TIMESTAMP_NTZ '2025-01-01 00:00:00' True
    """
    terms = Terms(schema, case_sensitive=conditions.case_sensitive, time_zone=conditions.time_zone)
    return [_translated(tree, terms) for tree in conditions.trees]


def filter_of(conditions: Conditions, schema: Schema) -> Expression:
    """A filter for the rows that pass all predicates."""
    return and_(*(one.filter for one in translate(conditions, schema)))


def check_texts(conditions: Conditions, schema: Schema) -> None:
    """Raise if a column whose values Spark has as texts is compared with a text that is spelled otherwise.

    >>> from floe.spec.types import TIMESTAMP_NS, Field
    >>> later = Call("<", (Column(("n",)), Value("string", "1970-01-01T00:00")))
    >>> check_texts(Conditions((later,)), Schema((Field(1, "n", TIMESTAMP_NS),)))
    Traceback (most recent call last):
    floe.errors.InvalidExpression: n is compared with '1970-01-01T00:00': Spark has values of timestamp_ns as texts, and
    this is none of them (column: n); write '1970-01-01 00:00:00.000000000'
    """
    for tree in conditions.trees:
        _check_texts(tree, schema, case_sensitive=conditions.case_sensitive)


def _check_texts(tree: Node, schema: Schema, *, case_sensitive: bool) -> None:
    if not isinstance(tree, Call):
        return
    columns = [part.path for part in tree.arguments if isinstance(part, Column)]
    if tree.name in _COMPARES_TEXTS and len(columns) == 1 and schema.has(columns[0], case_sensitive=case_sensitive):
        field = schema.resolve(columns[0], case_sensitive=case_sensitive).field
        for part in tree.arguments if field.type.kind in SHOWN_AS_TEXT else ():
            if isinstance(part, Value) and isinstance(part.value, str):
                _check_text(".".join(columns[0]), field.type, part.value)
    for part in tree.arguments:
        _check_texts(part, schema, case_sensitive=case_sensitive)


def _check_text(column: str, type_: Type, text: str) -> None:
    try:
        value = pa.scalar(convert(type_, text), pa.int64()).cast(arrow_type(type_))
        shown = str(value.cast(pa.string()).as_py())
        hint = f"write {shown!r}"
    except (InvalidValue, pa.ArrowException):
        shown, hint = None, "cast the column to a type that Spark has, or compare it with a text as SELECT shows it"
    if shown != text:
        raise InvalidExpression(
            f"{column} is compared with {text!r}: Spark has values of {type_} as texts, and this is none of them",
            hint=hint,
            column=column,
        )


def files_named(tree: Node) -> frozenset[str] | None:
    """The files that `_file = …` and `_file IN (…)` let pass; None for other predicates."""
    match tree:
        case Call("=" | "IN"):
            (found,) = translate(Conditions((tree,), case_sensitive=True), Schema((FILE,)))
            if isinstance(found.filter, BoundPredicate) and found.filter.op in (Op.EQ, Op.IN):
                return frozenset(map(str, found.filter.literals))
    return None


def _translated(tree: Node, terms: Terms) -> Translated:
    match tree:
        case Value(value=None):
            return NEITHER
        case Value(value=bool(value)):
            return constant(value)
        case Call("AND", parts):
            return all_of(_translated(part, terms) for part in parts)
        case Call("OR", parts):
            return any_of(_translated(part, terms) for part in parts)
        case Call("NOT", (part,)):
            return opposite(_translated(part, terms))
        case Call("CASE_WHEN", parts):
            return _chosen([_translated(part, terms) for part in parts])
        case Call("COALESCE", (part, Value(value=bool(otherwise)))):
            found = _translated(part, terms)
            return Translated(Side(), found.failing) if otherwise else Translated(found.passing, Side())
        case Call(name, arguments):
            try:
                return _tested(name, arguments, terms)
            except (FloeError, ValueError):
                return UNKNOWN  # such as a value that the column's type does not have
        case _:
            return UNKNOWN


def _chosen(parts: Sequence[Translated]) -> Translated:
    """CASE: conditions, each with what is asked where it is true, and what is asked elsewhere, if that is said."""
    asked = [all_of([condition, then]).passing.filter for condition, then in zip(parts[::2], parts[1::2], strict=False)]
    refused = [
        all_of([condition, opposite(then)]).passing.filter
        for condition, then in zip(parts[::2], parts[1::2], strict=False)
    ]
    if len(parts) % 2:
        asked.append(parts[-1].passing.filter)
        refused.append(parts[-1].failing.filter)
    return Translated(Side(or_(*asked)), Side(or_(*refused)))


def _tested(name: str, arguments: tuple[Node, ...], terms: Terms) -> Translated:
    match name, arguments:
        case (("IS_NULL" | "IS_NOT_NULL"), (inner,)):
            term = terms.of(inner)
            if term is None:
                return UNKNOWN
            return term.is_null() if name == "IS_NULL" else opposite(term.is_null())
        case "IN", (inner, *listed):
            return _one_of(inner, listed, terms)
        case _, (Value() as value, inner) if name in _COMPARISONS and not isinstance(inner, Value):
            return _compared(_COMPARISONS[name].flipped, inner, value, terms)
        case _, (inner, Value() as value) if name in _COMPARISONS:
            return _compared(_COMPARISONS[name], inner, value, terms)
        case "<=>", (inner, Value() as value) | (Value() as value, inner):
            return _same(inner, value, terms)
        case _:
            return UNKNOWN


def _compared(op: Op, inner: Node, value: Value, terms: Terms) -> Translated:
    if value.value is None:
        return NEITHER
    term = terms.of(inner)
    return UNKNOWN if term is None else term.compared(op, value.value)


def _same(inner: Node, value: Value, terms: Terms) -> Translated:
    """Equal, where null is equal to null and to nothing else."""
    term = terms.of(inner)
    if term is None:
        return UNKNOWN
    if value.value is None:
        return term.is_null()
    equal = term.compared(Op.EQ, value.value)
    return Translated(equal.passing, all_of([equal, opposite(term.is_null())]).failing)


def _one_of(inner: Node, listed: Sequence[Node], terms: Terms) -> Translated:
    values = [one.value for one in listed if isinstance(one, Value)]
    term = terms.of(inner)
    if term is None or len(values) != len(listed):
        return UNKNOWN
    found = term.one_of([value for value in values if value is not None])
    # with a null in the list the test is never false, but unknown
    return Translated(found.passing, NEITHER.failing) if None in values else found
