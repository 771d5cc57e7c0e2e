"""The functions of columns that planning knows: what Spark gives of them, as terms.

| | |
|---|---|
| of the catalog | `bucket`, `truncate`, `years`, `months`, `days`, `hours` |
| of dates and times | `CAST(… AS DATE)` and back, `year`, `trunc` (also of what is cast), `date_add`, `datediff` |
| of texts | `left`, `substring` from the first character on |
| of whole numbers | `+`, `-`, `*` with a constant, `-c`, `abs` |
| of all | `coalesce` with a constant, casts to types that have the same value |
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from floe.spark.bridge.predicates import Call, Cast, Column, Node, Value
from floe.spark.columns import ONLY_READ, spark_type
from floe.spark.scan.terms import Bound, OrElse, Prefix, Reach, Stepped, Term, column_reach, unscaled
from floe.spark.scan.translated import Translated, any_of, opposite
from floe.spec.expressions.nodes import BoundReference, BoundTransform
from floe.spec.partitioning.transforms import Bucket
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType
from floe.spec.values.civil_time import MICROS, SECONDS_PER_DAY, civil_from_days, days_from_civil

__all__ = ["Terms"]

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
