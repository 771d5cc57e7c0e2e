"""Conditions with functions as filters: no row that passes is left out, none that fails passes where that is exact.

The model computes each function of values of Python's own, by the words of Spark's documentation.
"""

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings, strategies as st

from floe.spark.bridge.values import Call, Cast, Column, Conditions, Node, Value
from floe.spark.read.filters import combined_filter, file_predicate_paths, translate
from floe.spec.expressions.nodes import TRUE
from floe.spec.expressions.row_evaluation import evaluate
from floe.spec.partitioning.transforms import Bucket
from floe.spec.schemas.schema import Schema
from floe.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    Field,
)

SCHEMA = Schema((
    Field(1, "i", INT),
    Field(2, "l", LONG),
    Field(3, "d", DATE),
    Field(4, "at", TIMESTAMP),
    Field(5, "moment", TIMESTAMPTZ),
    Field(6, "s", STRING),
    Field(7, "b", BINARY),
    Field(8, "f", FLOAT),
    Field(9, "x", DOUBLE),
    Field(10, "n", DecimalType(9, 2)),
    Field(11, "flag", BOOLEAN),
    Field(12, "u", UUID),
    Field(13, "must", INT, required=True),
))  # fmt: skip
DAY, HOUR = 86_400_000_000, 3_600_000_000
EPOCH = datetime.date(1970, 1, 1).toordinal()
ZONES = ["UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Apia"]

small = st.integers(-40, 40)
days = st.integers(-800, 800) | st.sampled_from([-365, -1, 0, 31, 365, 19723])
micros = st.builds(lambda day, rest: day * DAY + rest, days, st.sampled_from([0, 1, HOUR - 1, HOUR, DAY - 1, 5 * HOUR]))
texts = st.text("abé𝄞", max_size=4)
floats = st.sampled_from([-1.5, -0.0, 0.0, 0.5, 2.0, math.inf, -math.inf, math.nan])
decimals = st.integers(-300, 300).map(lambda number: Decimal(number).scaleb(-2))
VALUES: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "i": ("integer", small), "l": ("long", small), "d": ("date", days), "at": ("timestamp_ntz", micros),
    "moment": ("timestamp", micros), "s": ("string", texts), "b": ("binary", st.binary(max_size=3)),
    "f": ("float", floats), "x": ("double", floats), "n": ("decimal(9,2)", decimals),
    "flag": ("boolean", st.booleans()), "must": ("integer", small),
}  # fmt: skip
rows = st.fixed_dictionaries(
    {name: values if name == "must" else st.none() | values for name, (_, values) in VALUES.items()}
)


def date_of(day: int) -> datetime.date:
    return datetime.date.fromordinal(EPOCH + day)


def day_of(date: datetime.date) -> int:
    return date.toordinal() - EPOCH


def cut_date(day: int, unit: str) -> int:
    date = date_of(day)
    match unit:
        case "WEEK":
            return day - date.weekday()
        case "mm":
            return day_of(date.replace(day=1))
        case "QUARTER":
            return day_of(date.replace(month=(date.month - 1) // 3 * 3 + 1, day=1))
        case _:
            return day_of(date.replace(month=1, day=1))


def cut_decimal(value: Decimal) -> Decimal:
    return Decimal(math.floor(value * 2)) / 2


def local(zone: str, micros: int) -> datetime.datetime:
    utc = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=micros)
    return utc.astimezone(ZoneInfo(zone))


Function = tuple[Callable[[Node], Node], Callable[[Any, str], Any], tuple[str, st.SearchStrategy[Any]]]


def call(name: str, *after: Node, before: tuple[Node, ...] = ()) -> Callable[[Node], Node]:
    return lambda column: Call(name, (*before, column, *after))


def as_date(then: Callable[[Node], Node] = lambda node: node) -> Callable[[Node], Node]:
    return lambda column: then(Cast("date", column))


def number(value: int) -> Value:
    return Value("integer", value)


YEARS, MONTHS, HOURS = st.integers(1967, 1973), st.integers(-30, 30), st.integers(-800 * 24, 800 * 24)
whole, longs, dates = ("integer", small), ("long", small), ("date", days)
FUNCTIONS: dict[str, list[Function]] = {
    "i": [
        (lambda c: Cast("long", c), lambda v, z: v, longs),
        (lambda c: Cast("double", c), lambda v, z: float(v), ("double", floats)),
        (lambda c: Cast("decimal(12,1)", c), lambda v, z: Decimal(v), ("decimal(12,1)", decimals)),
        (call("+", number(7)), lambda v, z: v + 7, whole),
        (call("+", before=(number(7),)), lambda v, z: 7 + v, whole),
        (call("-", number(7)), lambda v, z: v - 7, whole),
        (call("-", before=(number(7),)), lambda v, z: 7 - v, whole),
        (call("-"), lambda v, z: -v, whole),
        (call("*", number(3)), lambda v, z: v * 3, whole),
        (call("*", number(-3)), lambda v, z: v * -3, whole),
        (call("ABS"), lambda v, z: abs(v), whole),
        (lambda c: Call("ABS", (Call("-", (c, number(5))),)), lambda v, z: abs(v - 5), whole),
        (call("iceberg.truncate(int)", before=(number(7),)), lambda v, z: v // 7 * 7, whole),
        (call("iceberg.bucket(int)", before=(number(4),)), lambda v, z: Bucket(4).apply(INT, v), whole),
    ],
    "l": [
        (call("iceberg.truncate(bigint)", before=(number(10),)), lambda v, z: v // 10 * 10, longs),
        (call("iceberg.bucket(bigint)", before=(number(4),)), lambda v, z: Bucket(4).apply(LONG, v), whole),
    ],
    "d": [
        (call("EXTRACT YEAR"), lambda v, z: date_of(v).year, ("integer", YEARS)),
        *(
            (call("TRUNC", Value("string", unit)), lambda v, z, unit=unit: cut_date(v, unit), dates)
            for unit in ("WEEK", "mm", "QUARTER", "YEAR")
        ),
        (call("DATE_ADD", number(3)), lambda v, z: v + 3, dates),
        (call("DATE_DIFF", Value("date", 10)), lambda v, z: v - 10, whole),
        (call("DATE_DIFF", before=(Value("date", 10),)), lambda v, z: 10 - v, whole),
        (lambda c: Cast("timestamp_ntz", c), lambda v, z: v * DAY, ("timestamp_ntz", micros)),
        (call("iceberg.years(date)"), lambda v, z: date_of(v).year - 1970, ("integer", st.integers(-3, 3))),
        (
            call("iceberg.months(date)"),
            lambda v, z: (date_of(v).year - 1970) * 12 + date_of(v).month - 1,
            ("integer", MONTHS),
        ),
        (call("iceberg.days(date)"), lambda v, z: v, dates),
    ],
    "at": [
        (as_date(), lambda v, z: v // DAY, dates),
        (as_date(call("EXTRACT YEAR")), lambda v, z: date_of(v // DAY).year, ("integer", YEARS)),
        (as_date(call("TRUNC", Value("string", "MONTH"))), lambda v, z: cut_date(v // DAY, "mm"), dates),
        (call("iceberg.days(timestamp_ntz)"), lambda v, z: v // DAY, dates),
        (call("iceberg.hours(timestamp_ntz)"), lambda v, z: v // HOUR, ("integer", HOURS)),
    ],
    "moment": [
        (as_date(), lambda v, z: day_of(local(z, v).date()), dates),
        (as_date(call("EXTRACT YEAR")), lambda v, z: local(z, v).year, ("integer", YEARS)),
        (call("iceberg.years(timestamp)"), lambda v, z: local("UTC", v).year - 1970, ("integer", st.integers(-3, 3))),
        (call("iceberg.days(timestamp)"), lambda v, z: v // DAY, dates),
        (call("iceberg.hours(timestamp)"), lambda v, z: v // HOUR, ("integer", HOURS)),
    ],
    "s": [
        (call("SUBSTRING", number(1), number(2)), lambda v, z: v[:2], ("string", texts)),
        (call("SUBSTRING", number(0), number(1)), lambda v, z: v[:1], ("string", texts)),
        (call("iceberg.truncate(string)", before=(number(2),)), lambda v, z: v[:2], ("string", texts)),
        (call("iceberg.bucket(string)", before=(number(4),)), lambda v, z: Bucket(4).apply(STRING, v), whole),
    ],
    "b": [(call("iceberg.truncate(binary)", before=(number(2),)), lambda v, z: v[:2], VALUES["b"])],
    "f": [(lambda c: Cast("double", c), lambda v, z: v, ("double", floats))],
    "x": [],
    "n": [
        (call("iceberg.truncate(decimal(9, 2))", before=(number(50),)), lambda v, z: cut_decimal(v), VALUES["n"]),
        (lambda c: Cast("decimal(12,3)", c), lambda v, z: v, ("decimal(12,3)", decimals)),
    ],
    "flag": [],
    "must": [(call("iceberg.truncate(int)", before=(number(7),)), lambda v, z: v // 7 * 7, whole)],
}  # fmt: skip


Model = Callable[[dict[str, Any], str], Any]
"""What a condition gives for a row, in a time zone: true, false or None."""


@st.composite
def terms(draw: st.DrawFn) -> tuple[Node, Model, str, st.SearchStrategy[Any]]:
    """A column or a function of one, what it gives, and constants that it is compared with."""
    name = draw(st.sampled_from(list(VALUES)))
    made: Node = Column((name,))
    type_, values = VALUES[name]
    function: Callable[[Any, str], Any] = lambda value, zone: value  # noqa: E731
    if FUNCTIONS[name] and draw(st.integers(0, 3)):
        wrap, function, (type_, values) = draw(st.sampled_from(FUNCTIONS[name]))
        made = wrap(made)

    def model(row: dict[str, Any], zone: str) -> Any:
        return None if row[name] is None else function(row[name], zone)

    if draw(st.integers(0, 5)):
        return made, model, type_, values
    otherwise = draw(values)
    instead = Call("COALESCE", (made, Value(type_, otherwise)))
    return instead, lambda row, zone: _first(model(row, zone), otherwise), type_, values


def _first(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


def order(value: Any) -> Any:
    """NaN is above all numbers and equal to itself."""
    return (value != value, 0.0 if value != value else value) if isinstance(value, float) else value


COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "<>": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


@st.composite
def leaves(draw: st.DrawFn) -> tuple[Node, Model]:
    term, model, type_, values = draw(terms())
    kind = draw(st.sampled_from([*COMPARED, *COMPARED, "IN", "IS_NULL", "IS_NOT_NULL", "<=>"]))
    if kind == "IS_NULL":
        return Call(kind, (term,)), lambda row, zone: model(row, zone) is None
    if kind == "IS_NOT_NULL":
        return Call(kind, (term,)), lambda row, zone: model(row, zone) is not None
    if kind == "IN":
        listed = draw(st.lists(st.none() | values, min_size=1, max_size=4))

        def among(row: dict[str, Any], zone: str) -> bool | None:
            value = model(row, zone)
            if value is None:
                return None
            found = any(one is not None and order(one) == order(value) for one in listed)
            return True if found else None if None in listed else False

        return Call("IN", (term, *(Value(type_, one) for one in listed))), among
    value = draw(st.none() | values if kind == "<=>" else values)
    if kind == "<=>":
        return Call(kind, (term, Value(type_, value))), lambda row, zone: order(model(row, zone)) == order(value)
    test = COMPARED[kind]

    def compared(row: dict[str, Any], zone: str) -> bool | None:
        found = model(row, zone)
        return None if found is None else test(order(found), order(value))

    return Call(kind, (term, Value(type_, value))), compared


def joined(inner: st.SearchStrategy[tuple[Node, Model]]) -> st.SearchStrategy[tuple[Node, Model]]:
    def both(parts: tuple[Any, Any, str]) -> tuple[Node, Model]:
        (left, first), (right, second), name = parts
        decides = name == "OR"

        def model(row: dict[str, Any], zone: str) -> bool | None:
            found = (first(row, zone), second(row, zone))
            return decides if decides in found else None if None in found else not decides

        return Call(name, (left, right)), model

    def other(part: tuple[Node, Model]) -> tuple[Node, Model]:
        def model(row: dict[str, Any], zone: str) -> bool | None:
            found = part[1](row, zone)
            return None if found is None else not found

        return Call("NOT", (part[0],)), model

    def chosen(parts: tuple[Any, Any, Any]) -> tuple[Node, Model]:
        condition, then, otherwise = (part[1] for part in parts)
        return Call(
            "CASE_WHEN", tuple(part[0] for part in parts)
        ), lambda row, zone: then(row, zone) if condition(row, zone) else otherwise(row, zone)

    pairs = st.tuples(inner, inner, st.sampled_from(["AND", "OR"])).map(both)
    return pairs | inner.map(other) | st.tuples(inner, inner, inner).map(chosen)


@settings(max_examples=500)
@given(st.recursive(leaves(), joined, max_leaves=4), st.lists(rows, min_size=1, max_size=6), st.sampled_from(ZONES))
def test_no_row_is_lost(condition: tuple[Node, Model], found: list[dict[str, Any]], zone: str) -> None:
    tree, model = condition
    (translation,) = translate(Conditions((tree,), case_sensitive=True, time_zone=zone), SCHEMA)
    for row in found:
        truth = model(row, zone)
        for side, expected in ((translation.passing, truth is True), (translation.failing, truth is False)):
            passes = evaluate(side.filter, row)
            assert passes or not expected, f"{side.filter} leaves {row} out"
            assert passes == expected or not side.exact, f"{side.filter} lets {row} pass"


def shown(tree: Node, zone: str = "UTC") -> str:
    (translation,) = translate(Conditions((tree,), time_zone=zone), SCHEMA)
    return f"{translation.filter} ({'exact' if translation.exact else 'or more'})"


def test_functions_become_ranges() -> None:
    year = Call("EXTRACT YEAR", (Cast("date", Column(("at",))),))
    assert shown(Call("=", (year, number(1971)))) == (
        "at >= TIMESTAMP_NTZ '1971-01-01 00:00:00' AND at < TIMESTAMP_NTZ '1972-01-01 00:00:00' (exact)"
    )
    moment = Call("EXTRACT YEAR", (Cast("date", Column(("moment",))),))
    assert shown(Call(">", (moment, number(1971))), "Asia/Tokyo") == (
        "moment >= TIMESTAMP '1971-12-31 06:00:00+00:00' (or more)"
    )
    cut = Call("iceberg.truncate(int)", (number(10), Column(("i",))))
    assert shown(Call("=", (cut, number(20)))) == "i >= 20 AND i < 30 (exact)"
    assert shown(Call("=", (cut, number(25)))) == "i >= 30 AND i < 30 (exact)"  # no number is cut to it
    assert shown(Call("IN", (cut, number(20), number(50)))) == "(i >= 20 AND i < 30) OR (i >= 50 AND i < 60) (exact)"
    bucket = Call("iceberg.bucket(bigint)", (number(16), Column(("l",))))
    assert shown(Call("=", (bucket, number(3)))) == "bucket(16, l) = 3 (exact)"
    left = Call("SUBSTRING", (Column(("s",)), number(1), number(2)))
    assert shown(Call("=", (left, Value("string", "ab")))) == "s LIKE 'ab%' (exact)"
    assert shown(Call("=", (left, Value("string", "a")))) == "s = 'a' (exact)"
    since = Call("DATE_DIFF", (Value("date", 100), Column(("d",))))
    assert shown(Call("<=", (since, number(7)))) == "d >= DATE '1970-04-04' (exact)"


def test_what_is_beyond_a_type() -> None:
    year = Call("EXTRACT YEAR", (Column(("d",)),))
    assert shown(Call("<", (year, number(2**31 - 1)))) == "d IS NOT NULL (exact)"
    assert shown(Call("=", (year, number(2**31 - 1)))) == "false (exact)"
    required = Call("+", (Column(("must",)), number(1)))
    assert shown(Call(">", (required, number(-(2**31))))) == "true (or more)"


def test_long_lists_of_a_function() -> None:
    cut = Call("iceberg.truncate(int)", (number(10), Column(("i",))))
    some = tuple(number(10 * n) for n in range(300))
    assert shown(Call("IN", (cut, *some))) == "i >= 0 AND i < 3000 (or more)"
    assert shown(Call("NOT", (Call("IN", (cut, *some)),))) == "true (or more)"


@pytest.mark.parametrize(
    "tree",
    [
        Call("=", (Call("UPPER", (Column(("s",)),)), Value("string", "A"))),
        Call("=", (Call("EXTRACT MONTH", (Column(("d",)),)), number(3))),
        Call("=", (Call("SUBSTRING", (Column(("s",)), number(2), number(2))), Value("string", "a"))),
        Call("=", (Call("TRUNC", (Column(("d",)), Value("string", "no unit"))), Value("date", 0))),
        Call("=", (Call("iceberg.bucket(string)", (number(4), Column(("u",)))), number(1))),  # a text there
        Call("=", (Call("iceberg.bucket(int)", (number(0), Column(("i",)))), number(1))),
        Call("=", (Column(("u",)), Value("string", "F79C3E09-677C-4BBD-A479-3F349CB785E7"))),
        Call("=", (Cast("string collate UTF8_LCASE", Column(("s",))), Value("string collate UTF8_LCASE", "A"))),
        Call("=", (Column(("missing",)), number(1))),
        Call("=", (Column(("i",)), Column(("l",)))),
        Call("RLIKE", (Column(("s",)), Value("string", "a"))),
        Call("*", (Column(("i",)), number(0))),
    ],
)
def test_what_is_not_known(tree: Node) -> None:
    assert shown(tree) == "true (or more)"
    assert shown(Call("NOT", (tree,))) == "true (or more)"


def test_parts_that_are_not_known() -> None:
    known, unknown = Call("=", (Column(("i",)), number(1))), Call("RLIKE", (Column(("s",)), Value("string", "a")))
    assert shown(Call("AND", (known, unknown))) == "i = 1 (or more)"
    assert shown(Call("OR", (known, unknown))) == "true (or more)"
    assert shown(Call("NOT", (Call("OR", (known, unknown)),))) == "i <> 1 (or more)"
    assert shown(Call("COALESCE", (known, Value("boolean", False)))) == "i = 1 (exact)"


def test_names_of_columns_and_files() -> None:
    tree = Call("=", (Column(("I",)), number(1)))
    assert combined_filter(Conditions((tree,), case_sensitive=True), SCHEMA) == TRUE
    assert str(combined_filter(Conditions((tree,)), SCHEMA)) == "i = 1"
    named = Call("IN", (Column(("_file",)), Value("string", "a"), Value("string", "b")))
    assert file_predicate_paths(named) == {"a", "b"}
    assert file_predicate_paths(tree) is None
